//! Notes of limits that are low just now, and the locks that say whose they are. A lock ends with its process, however
//! that ends: a note without one is to be repaired.

use super::lowered::put_back;
use super::{Method, limit};
use crate::actions::fresh::replace;
use crate::model::memory::Amount;
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
    fn open(note: &Path) -> Result<Option<Self>, String> {
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
        done.map_err(|error| {
            format!("refused, because no note of the limit could be kept: {}: {error}", probe.display())
        })
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

/// What became of a note that was left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// The limit was low, and is restored (or would be).
    Restored(String),
    /// There was nothing to restore.
    Fine,
    /// Somebody has set another limit since.
    Changed(String),
    /// It could not be restored.
    Failed(String),
}

/// Restores the limits of all notes in `state` that nobody holds; with `only_look` says what would be done.
pub fn repair(state: &Path, only_look: bool) -> Vec<Repaired> {
    let Ok(entries) = fs::read_dir(state) else { return Vec::new() };
    let notes = entries.filter_map(Result::ok).map(|entry| entry.path());
    let ours = |path: &PathBuf| {
        path.extension().is_some_and(|kind| kind == "json")
            && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("memory-"))
    };
    notes
        .filter(ours)
        .filter_map(|path| repair_one(&path, only_look).unwrap_or_else(|error| Some(Repaired::Failed(error))))
        .collect()
}

/// `None` if somebody holds it.
fn repair_one(path: &Path, only_look: bool) -> Result<Option<Repaired>, String> {
    let Some(lock) = Lock::open(path)? else { return Ok(None) };
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let note: Note =
        serde_json::from_str(&text).map_err(|error| format!("{}: not a note of plimsoll: {error}", path.display()))?;
    let file = note.folder.join(&note.file);
    let method = match note.file.as_str() {
        "memory.limit_in_bytes" => Method::Limit,
        "memory.high" => Method::High,
        other => return Err(format!("{}: {other} is no file that plimsoll lowers", path.display())),
    };
    // A note names a file that is written to: it must be a cgroup's.
    if !note.folder.join("cgroup.procs").exists() {
        if !only_look && !note.folder.exists() {
            let _ = lock.forget();
        }
        return Ok(Some(Repaired::Fine));
    }
    let (is, was) = (limit(&file)?, note.was.map_or(Amount::Max, Amount::Of));
    // The kernel rounds to pages, of up to 64 KiB.
    let is_ours = is.number().is_some_and(|is| is.abs_diff(note.set) < 64 << 10);
    let shown = |amount: Amount| amount.number().map_or("none".to_owned(), |number| number.to_string());
    let outcome = if is == was {
        Repaired::Fine
    } else if !is_ours {
        Repaired::Changed(format!(
            "{} is {}: neither what it was ({}) nor what it was lowered to; left alone",
            file.display(),
            shown(is),
            shown(was)
        ))
    } else {
        if !only_look {
            put_back(&note.folder, method, was)?;
        }
        Repaired::Restored(format!(
            "{} is {}, left low by a run that was killed; it was {}",
            file.display(),
            shown(is),
            shown(was)
        ))
    };
    if !only_look {
        let _ = lock.forget();
    }
    Ok(Some(outcome))
}
