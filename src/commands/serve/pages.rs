//! Metrics pages of the cluster's apiservers and of the sources, kept for as long as is judged: episodes and reports
//! are made of them beside the store's roll-ups.

use crate::jobs::samples::RawPage;
use crate::model::time::{Micros, SECOND};
use crate::sources::store::Store;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Folder in the store's; hidden, since `record` keeps no pages.
const FOLDER: &str = ".pages";

/// How long a page is kept: what is judged, and what came just before.
pub(super) const KEEP: Micros = 4_200 * SECOND;

/// Pages in files, one for each time that they are judged.
pub(super) struct KeptPages {
    folder: PathBuf,
    every: Micros,
    last: BTreeMap<String, Micros>,
}

impl KeptPages {
    /// Those in a store's folder, of which each instance gets one so often.
    pub(super) fn new(store: &Store, every: Duration) -> Self {
        let every = Micros::try_from(every.as_micros()).unwrap_or(Micros::MAX);
        Self { folder: store.folder.join(FOLDER), every, last: BTreeMap::new() }
    }

    /// The folder as a source, once there is something in it.
    pub(super) fn source(store: &Store) -> Option<String> {
        let folder = store.folder.join(FOLDER);
        folder.is_dir().then(|| folder.display().to_string())
    }

    /// Keeps pages that it is time for, and drops old ones; whether there are new ones.
    pub(super) fn take(&mut self, pages: Vec<RawPage>) -> io::Result<bool> {
        let mut is_any = false;
        for page in pages {
            let at = page.at;
            // Readings come a little early or late.
            if self.last.get(&page.instance).is_some_and(|last| at - last < self.every - self.every / 10) {
                continue;
            }
            let own = page.write(&self.folder)?;
            for entry in fs::read_dir(&own)?.filter_map(Result::ok) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let taken = name.split('.').next().and_then(|text| text.parse::<i64>().ok());
                if taken.is_none_or(|taken| taken < (at - KEEP) / SECOND) {
                    let _ = fs::remove_file(entry.path());
                }
            }
            self.last.insert(page.instance, at);
            is_any = true;
        }
        Ok(is_any)
    }
}
