//! Roll-ups of audit logs in a store: who did what, part by part (docs/history.md).

use super::{Store, StoreError};
use crate::model::rollup::MANIFEST;
use crate::sources::rolled::{Rolled, is_one_of, open, replaced};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The folder of roll-ups in a store.
pub const ROLLUPS: &str = "rollups";

/// What a store has of roll-ups.
#[derive(Debug, Default)]
pub struct Parts {
    /// Those that count, in the order of time.
    pub parts: Vec<Rolled>,
    /// Folders without a manifest: they are being written, or their writer was killed.
    pub unfinished: Vec<PathBuf>,
    /// What can't be read.
    pub errors: Vec<String>,
}

impl Parts {
    /// Up to where each log is in it, by the hash of its first line.
    pub fn read_to(&self) -> BTreeMap<&str, u64> {
        let mut all = BTreeMap::new();
        for file in self.parts.iter().flat_map(|part| &part.manifest.files) {
            let to = all.entry(file.log.as_str()).or_insert(0);
            *to = file.to.max(*to);
        }
        all
    }
}

impl Store {
    /// The folder of roll-ups.
    pub fn rollups_folder(&self) -> PathBuf {
        self.folder.join(ROLLUPS)
    }

    /// The roll-ups that it has.
    pub fn rollups(&self) -> Result<Parts, StoreError> {
        let folder = self.rollups_folder();
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Parts::default()),
            other => other.map_err(StoreError::io(&folder))?,
        };
        let mut all = Parts::default();
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()) {
            let manifest = path.join(MANIFEST);
            match manifest.is_file() {
                false => all.unfinished.push(path),
                true => match open(&manifest) {
                    Ok(part) => all.parts.push(part),
                    Err(problem) => all.errors.push(problem.to_string()),
                },
            }
        }
        let replaced = replaced(all.parts.iter());
        all.parts.retain(|part| !is_one_of(&part.folder, &replaced));
        all.parts.sort_by_key(|part| (part.manifest.first, part.folder.clone()));
        Ok(all)
    }
}
