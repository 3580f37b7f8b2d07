//! Limits that a run left low, because it was killed, are set back by the next one.

use super::lowered::put_back;
use super::note::{Lock, Note};
use super::{Method, limit};
use crate::model::memory::Amount;
use std::fs;
use std::path::{Path, PathBuf};

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
    let note: Note = serde_json::from_str(&text)
        .map_err(|error| format!("{}: not a plimsoll restore file: {error}", path.display()))?;
    let file = note.folder.join(&note.file);
    let method = match note.file.as_str() {
        "memory.limit_in_bytes" => Method::Limit,
        "memory.high" => Method::High,
        other => return Err(format!("{}: {other} is not a limit that plimsoll changes", path.display())),
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
            "{} is {}: neither its old value ({}) nor the lowered one; left unchanged",
            file.display(),
            shown(is),
            shown(was)
        ))
    } else {
        if !only_look {
            put_back(&note.folder, method, was)?;
        }
        Repaired::Restored(format!(
            "{} is {}: a killed run left it lowered; it was {}",
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
