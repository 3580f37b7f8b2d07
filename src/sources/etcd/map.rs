//! A file in memory, mapped: nothing is copied, and what is not looked at is not read.

use std::fs::File;
use std::io;
use std::path::Path;
#[cfg(unix)]
use std::sync::Once;

/// The bytes of a database.
#[derive(Debug)]
pub enum Data {
    /// A file, mapped read-only.
    Mapped(memmap2::Mmap),
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
        // SAFETY: the mapping is only read. Another process may change the bytes: nothing is taken for granted about them, and each
        // number is read once, checked, and used. If it cuts the file, `end_if_it_shrinks` sees to it.
        let map = unsafe { memmap2::Mmap::map(&file) }?;
        Ok(Self::Mapped(map))
    }

    /// All of them.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Memory(bytes) => bytes,
        }
    }
}

/// Bytes of a mapped file that is no longer so long can't be read: the system sends SIGBUS.
#[cfg(unix)]
fn end_if_it_shrinks() {
    const MESSAGE: &[u8] = b"plimsoll: the database became shorter while it was read (or its disk failed); copy it, or take a snapshot with etcdctl snapshot save\n";
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
