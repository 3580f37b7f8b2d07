//! Notes of limits that are low just now, and the locks that say whose they are. A lock ends with its process, however
//! that ends: a note without one is to be repaired.

use crate::actions::fresh::replace;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// A limit that is low.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Note {
    /// The group's folder.
    pub(super) folder: PathBuf,
    /// The file with the limit.
    pub(super) file: String,
    /// What it was; `None` for no limit.
    pub(super) was: Option<u64>,
    /// What it is lowered to.
    pub(super) set: u64,
}

/// The right to reclaim from a group; ends with the process.
#[derive(Debug)]
pub struct Lock {
    note: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes a group's lock, and repairs what an earlier holder left.
    pub fn take(state: &Path, folder: &Path) -> Result<Self, String> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        fs::create_dir_all(state)
            .map_err(|error| format!("{}: {error}; choose another folder with --state", state.display()))?;
        let name = format!("memory-{:016x}", xxhash_rust::xxh3::xxh3_64(folder.as_os_str().as_encoded_bytes()));
        let lock = Self::open(&state.join(format!("{name}.json")))?;
        lock.ok_or_else(|| "another plimsoll is reclaiming from this cgroup".to_owned())
    }

    /// The lock beside a note; `None` if somebody holds it.
    pub(super) fn open(note: &Path) -> Result<Option<Self>, String> {
        let path = note.with_extension("lock");
        let fail = |error: io::Error| format!("{}: {error}", path.display());
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { note: note.to_owned(), _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(fail(error)),
        }
    }

    /// Whether notes can be written.
    pub(super) fn can_note(&self) -> Result<(), String> {
        let probe = self.note.with_extension("probe");
        let done = replace(&probe, b"").and_then(|()| fs::remove_file(&probe));
        done.map_err(|error| format!("not changed: the old limit could not be saved: {}: {error}", probe.display()))
    }

    /// Writes a note to the disk.
    pub(super) fn note(&self, note: &Note) -> io::Result<()> {
        replace(&self.note, serde_json::to_string(note)?.as_bytes())
    }

    /// Removes the note.
    pub(super) fn forget(&self) -> io::Result<()> {
        fs::remove_file(&self.note)
    }
}
