//! What was found behind arguments: logs as streams, pages by folder, databases, and what could not be used.

use super::open::{Source, SourceError};
use super::pages::PageFolder;
use crate::model::bundle::Bundle;
use crate::model::event::Stream;
use crate::model::stray::KeptDays;
use crate::model::time::Micros;

/// Files that make up one log, in order.
#[derive(Debug)]
pub struct LogStream {
    /// Which apiserver's log it is.
    pub stream: Stream,
    /// Its files, oldest first.
    pub files: Vec<Source>,
    /// Which times are taken; the same for all streams that are read together.
    pub kept: KeptDays,
    /// Whether events may be in it twice: it is an export of a log service, or its files overlap.
    pub has_copies: bool,
    /// Where a stored roll-up, whose manifest is the only file, stands for the log: how long its tiles are.
    pub rolled: Option<Micros>,
}

impl LogStream {
    /// Whether a stored roll-up stands for it.
    pub fn is_rolled(&self) -> bool {
        self.rolled.is_some()
    }

    /// The same once more; `None` if it can be read only once.
    pub fn again(&self) -> Option<Self> {
        let files = self.files.iter().map(Source::again).collect::<Option<Vec<_>>>()?;
        Some(Self { stream: self.stream.clone(), files, kept: self.kept.clone(), ..*self })
    }
}

/// What was found behind the arguments.
#[derive(Debug, Default)]
pub struct Discovery {
    pub streams: Vec<LogStream>,
    /// Clusters and instances of empty files in folders that are called as the logs are.
    pub empty_logs: Vec<(String, String)>,
    /// The metrics pages, by folder.
    pub pages: Vec<PageFolder>,
    /// Dump pages of API Priority and Fairness, by folder.
    pub dumps: Vec<PageFolder>,
    /// The last `at` of the stored roll-ups among them.
    pub rolled_to: Option<Micros>,
    /// etcd's databases.
    pub databases: Vec<Source>,
    /// The bundle's description, from the first `bundle.yaml` that was met.
    pub bundle: Option<Bundle>,
    /// Files in folders that hold something else; they are left to other commands.
    pub other_files: usize,
    /// Folders that were named and hold no audit log, with the number of files looked at.
    pub without_logs: Vec<(String, usize)>,
    /// Inputs that could not be used.
    pub errors: Vec<SourceError>,
}
