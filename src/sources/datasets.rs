//! What the datasets around files say of these: which belong to them, what was lost when they were built, of which
//! clusters they are.

use super::dataset::{around, description, is_held};
use super::open::{Place, Source, SourceError};
use crate::model::bundle::Bundle;
use crate::model::dataset::{AUDIT, Description, METRICS, log_and_byte};
use crate::model::problem::Problem;
use crate::model::units::counted;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Datasets, each read once.
#[derive(Default)]
pub(super) struct Datasets {
    /// The dataset around each folder of files.
    roots: HashMap<PathBuf, Option<PathBuf>>,
    /// What each says of itself; `None` where that can't be read.
    known: HashMap<PathBuf, Option<Description>>,
    /// Logs whose losses were reported.
    reported: HashSet<String>,
}

impl Datasets {
    /// The dataset around a file, what that says of itself, and what the file is called there.
    fn around<'s>(&mut self, source: &'s Source) -> Option<(&Path, &Description, &'s str)> {
        let (Some(_), Place::File(path)) = (&source.part, &source.place) else { return None };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let root = self.roots.entry(folder).or_insert_with_key(|folder| around(folder)).as_ref()?;
        let known = self.known.entry(root.clone()).or_insert_with_key(|root| Some(description(root).ok()?.0));
        Some((root, known.as_ref()?, path.file_name()?.to_str()?))
    }

    /// Whether a build that was killed left this file behind.
    pub(super) fn is_left(&mut self, source: &Source) -> bool {
        let is_paged = source.part.as_ref().is_some_and(|part| !part.pages.is_empty());
        let Some((_, known, name)) = self.around(source) else { return false };
        is_held(known, if is_paged { METRICS.name } else { AUDIT }, name) == Some(false)
    }

    /// What is known of the file's cluster: its version, and who answers for it.
    pub(super) fn bundle(&mut self, source: &Source, cluster: &str) -> Option<Bundle> {
        self.around(source)?.1.clusters.get(cluster).cloned()
    }

    /// What was lost of the file's log when the dataset was built, once for each log: a dataset of a damaged log is no
    /// more whole than the log.
    pub(super) fn lost(&mut self, source: &Source) -> Option<SourceError> {
        let (root, known, name) = self.around(source)?;
        let of = log_and_byte(name)?.0;
        let log = known.logs.get(of).filter(|log| log.skipped > 0)?;
        let lines = counted(log.skipped, "line");
        let problem = Problem::damaged(format!("{lines} of {} could not be used when it was built", log.path))
            .at(root.display())
            .hint("'plimsoll traffic' on the log says which, as long as it is there");
        self.reported.insert(of.to_owned()).then_some(SourceError::Stored(problem))
    }
}
