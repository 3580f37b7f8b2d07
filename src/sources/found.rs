//! What was found behind arguments: logs as streams, pages by folder, databases, and what could not be used.

use super::open::{Source, SourceError};
use super::packing::Packing;
use super::pages::PageFolder;
use crate::model::bundle::Bundle;
use crate::model::event::Stream;
use crate::model::stray::KeptDays;
use crate::model::time::{Micros, Span};
use crate::sources::wanted::Wanted;
use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;

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

    /// Whether rows of a dataset stand for it.
    pub fn is_of_dataset(&self) -> bool {
        self.files.iter().any(|file| file.packing == Packing::Dataset)
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
    /// The first `at` of the stored roll-ups among them.
    pub rolled_from: Option<Micros>,
    /// etcd's databases.
    pub databases: Vec<Source>,
    /// The bundle's description, from the first `bundle.yaml` that was met.
    pub bundle: Option<Bundle>,
    /// Files that were looked at.
    pub files: usize,
    /// Folders that were named and hold no audit log, with the number of files looked at.
    pub without_logs: Vec<(String, usize)>,
    /// Inputs that could not be used.
    pub errors: Vec<SourceError>,
}

impl Discovery {
    /// From when until when the stored roll-ups among them are.
    pub fn rolled_span(&self) -> Option<Span> {
        self.rolled_from.zip(self.rolled_to)
    }

    /// What is there and can't be read, and what was named and is not there.
    pub fn losses(&self) -> impl Iterator<Item = &SourceError> {
        let is_loss = |error: &&SourceError| error.is_loss() || matches!(error, SourceError::NoMatch(_));
        self.errors.iter().filter(is_loss)
    }

    /// What was named and is not there, whatever it is read for.
    pub fn missing(&self) -> impl Iterator<Item = &SourceError> {
        self.errors.iter().filter(|error| match error {
            SourceError::Io { error, .. } => error.kind() == std::io::ErrorKind::NotFound,
            SourceError::NoMatch(_) => true,
            _ => false,
        })
    }

    /// The same once more; `None` where something can be read only once, or where there is something to be reported.
    pub(super) fn again(&self) -> Option<Self> {
        if !self.errors.is_empty() {
            return None;
        }
        let folders = |all: &[PageFolder]| all.iter().map(PageFolder::again).collect::<Option<Vec<_>>>();
        Some(Self {
            streams: self.streams.iter().map(LogStream::again).collect::<Option<_>>()?,
            empty_logs: self.empty_logs.clone(),
            pages: folders(&self.pages)?,
            dumps: folders(&self.dumps)?,
            rolled_to: self.rolled_to,
            rolled_from: self.rolled_from,
            databases: self.databases.iter().map(Source::again).collect::<Option<_>>()?,
            bundle: self.bundle.clone(),
            files: self.files,
            without_logs: self.without_logs.clone(),
            errors: Vec::new(),
        })
    }
}

/// Arguments, what is wanted of them, and what was found.
type Findings = HashMap<(Vec<String>, Wanted), Discovery>;

thread_local! {
    static REMEMBERED: RefCell<Option<Findings>> = const { RefCell::new(None) };
}

/// While it lives, its thread looks behind the same arguments once: a report asks fifty times, and answers for one
/// moment. What was reported as unusable is looked at again each time.
#[derive(Debug)]
pub struct Remembering(PhantomData<*const ()>);

impl Remembering {
    /// Begins it.
    pub fn begin() -> Self {
        REMEMBERED.set(Some(Findings::default()));
        Self(PhantomData)
    }
}

impl Drop for Remembering {
    fn drop(&mut self) {
        REMEMBERED.set(None);
    }
}

/// What was found behind these arguments before, or what `look` finds.
pub(super) fn remembered(arguments: &[String], wanted: Wanted, look: impl FnOnce() -> Discovery) -> Discovery {
    let key = (arguments.to_vec(), wanted);
    let known = REMEMBERED.with_borrow(|all| all.as_ref().and_then(|all| all.get(&key)?.again()));
    known.unwrap_or_else(|| {
        let found = look();
        REMEMBERED.with_borrow_mut(|all| {
            if let Some(all) = all
                && let Some(own) = found.again()
            {
                all.insert(key, own);
            }
        });
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::find::find;

    #[test]
    fn what_was_found_is_remembered_for_one_report() {
        let home = tempfile::tempdir().unwrap();
        let page = |name: &str| std::fs::write(home.path().join(name), "# TYPE up gauge\nup 1\n").unwrap();
        let folder = [home.path().display().to_string()];
        let pages = || {
            let found = find(&folder, Wanted::Pages, 0);
            (found.pages.iter().map(|folder| folder.pages.len()).sum::<usize>(), found.errors.len())
        };
        let remembering = Remembering::begin();
        assert_eq!(pages(), (0, 1), "nothing yet, which is said each time");
        page("1795166249.txt");
        assert_eq!([pages(), pages()], [(1, 0), (1, 0)]);
        page("1795166279.txt");
        assert_eq!(pages(), (1, 0));
        drop(remembering);
        assert_eq!(pages(), (2, 0));
    }
}
