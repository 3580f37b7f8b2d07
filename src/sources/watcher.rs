//! Who is shown how far reading has come.

/// Is shown progress while reading goes on.
pub trait Watcher: Sync {
    /// `bytes` more bytes of input (as they lie on disk, where known) have been read.
    fn read(&self, _bytes: u64) {}
}

impl Watcher for () {}
