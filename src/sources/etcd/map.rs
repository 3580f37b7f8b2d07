//! A file in memory, mapped: nothing is copied, and what is not looked at is not read.

use std::fs::File;
use std::io;
use std::path::Path;
#[cfg(unix)]
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// After so many bytes that were looked at, what is mapped is given back: it stays in the page cache, but counts no
/// longer as this process's memory, of which a container may have less than the file is long.
const GIVE_BACK: u64 = 64 << 20;

/// The bytes of a database.
#[derive(Debug)]
pub enum Data {
    /// A file, mapped read-only, and how many bytes of it were looked at.
    Mapped(memmap2::Mmap, AtomicU64),
    /// In memory, as unpacked or read from a pipe.
    Memory(Vec<u8>),
}

impl Data {
    /// Maps a file. Should it become shorter while it is read, the process ends with a message and exit code 3.
    pub fn map(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self::Memory(Vec::new()));
        }
        end_if_it_shrinks();
        #[expect(unsafe_code, reason = "mapping a file is")]
        // SAFETY: the mapping is only read. Another process may change the bytes: nothing is taken for granted about
        // them, and each number is read once, checked, and used. If it cuts the file, `end_if_it_shrinks` sees to it.
        let map = unsafe { memmap2::Mmap::map(&file) }?;
        Ok(Self::Mapped(map, AtomicU64::new(0)))
    }

    /// All of them.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map, _) => map,
            Self::Memory(bytes) => bytes,
        }
    }

    /// So many bytes were looked at.
    #[inline]
    pub(super) fn looked_at(&self, bytes: usize) {
        if let Self::Mapped(map, looked_at) = self {
            let before = looked_at.fetch_add(bytes as u64, Ordering::Relaxed);
            if before / GIVE_BACK != (before + bytes as u64) / GIVE_BACK {
                give_back(map);
            }
        }
    }
}

#[cfg(unix)]
fn give_back(map: &memmap2::Mmap) {
    #[expect(unsafe_code, reason = "this advice takes pages away")]
    // SAFETY: the mapping is of a file, and only read: what is looked at again is read from the file again.
    let given = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
    // Where it is not known, nothing is given back.
    drop(given);
}

#[cfg(not(unix))]
fn give_back(_: &memmap2::Mmap) {}

/// Bytes of a mapped file that is no longer so long can't be read: the system sends SIGBUS.
#[cfg(unix)]
fn end_if_it_shrinks() {
    const MESSAGE: &[u8] = b"plimsoll: the database shrank while it was read (or its disk failed); copy it, or take \
         a snapshot with etcdctl snapshot save\n";
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let end = || {
            let _ = rustix::io::write(rustix::stdio::stderr(), MESSAGE);
            signal_hook::low_level::exit(3);
        };
        #[expect(unsafe_code, reason = "handling a signal is")]
        // SAFETY: the handler does nothing but write and exit, which signal-safety(7) allows.
        let registered = unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, end) };
        // Without it the process ends all the same, only with less to say.
        drop(registered);
    });
}

#[cfg(not(unix))]
fn end_if_it_shrinks() {}
