//! Who is told how far reading has come.

/// What is told while reading goes on.
pub trait Watcher: Sync {
    /// `bytes` more bytes of input (as they lie on disk, where known) have been read.
    fn read(&self, _bytes: u64) {}
}

impl Watcher for () {}
