//! What was read, and what of it was lost.

use crate::model::event::{Level, Stage};
use crate::model::stray::Days;
use crate::model::time::{Micros, Span, format};
use crate::model::units::grouped;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How audit logs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Workers.
    pub threads: usize,
    /// When events that come twice are looked for.
    pub dedupe: Dedupe,
}

impl From<usize> for Reading {
    fn from(threads: usize) -> Self {
        Self { threads, dedupe: Dedupe::default() }
    }
}

/// When audit events that come twice are looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Dedupe {
    /// In exports of log services and webhook batches, and in files that overlap.
    #[default]
    Auto,
    /// In everything.
    Always,
    /// In nothing.
    Never,
}

/// Why a part of an input could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// The line is not JSON: cut off, run into another, or something else altogether.
    NotJson,
    /// JSON, but no audit event and no known wrapper of one.
    NotAnEvent,
    /// An event without a readable `stageTimestamp`.
    NoTime,
    /// An event, or a page, that is dated far away from all others.
    Stray,
    /// A wrapper whose inner event is broken, as when a log service cuts long entries.
    BrokenInside,
    /// Longer than is read.
    TooLong,
    /// Bytes of value 0, as a crash leaves them; what stood around them was read.
    Nul,
    /// Bytes that are not UTF-8; the event was kept, the bytes replaced.
    NotUtf8,
    /// Compressed data that ends early or is damaged.
    Damaged,
    /// The file became shorter while it was read.
    Shrunk,
    /// Reading failed.
    Io,
    /// A line of a metrics page that is neither sample nor comment.
    NotASample,
    /// A series that stands on its page already.
    SeriesTwice,
    /// A family of metrics that is described twice, or behind its samples.
    DescribedTwice,
    /// A family of metrics with a type that there is not.
    UnknownType,
    /// Something that OpenMetrics does not allow; the sample was kept.
    AgainstRule,
    /// A metrics page with the samples of several processes.
    SeveralProcesses,
    /// A metrics page that ends too early.
    PageCutOff,
    /// A metrics page without any sample.
    NoSamples,
    /// A metrics page longer than is read.
    PageTooLong,
    /// A line of a dump page of API Priority and Fairness that is not a row.
    NotARow,
    /// A dump page longer than is read.
    DumpTooLong,
}

impl LossKind {
    /// Whether what stood around the damage was kept.
    pub fn is_kept(self) -> bool {
        matches!(self, Self::Nul | Self::NotUtf8 | Self::AgainstRule)
    }

    /// What happened, and what to do about it.
    pub fn explain(self) -> (&'static str, &'static str) {
        match self {
            Self::NotJson => (
                "is not a complete JSON object",
                "check the line: it may have been cut by a crash or by the log shipper",
            ),
            Self::NotAnEvent => ("is JSON but not an audit event", "check that this file is an apiserver audit log"),
            Self::NoTime => (
                "has no readable time",
                "times are expected in stageTimestamp, as RFC 3339 or as SQL writes them; check what rewrote the log",
            ),
            Self::Stray => (
                "is more than 32 days away from nearly all others, or in the future, and was ignored",
                "check the clock of its writer; --since and --until show the events around that time",
            ),
            Self::BrokenInside => (
                "wraps an event that is cut off or damaged",
                "log services cut long entries (CloudWatch at 256 KB); lower the audit level for large bodies",
            ),
            Self::TooLong => {
                ("is longer than 32 MiB", "lower the audit level for large LISTs (RequestResponse logs whole lists)")
            }
            Self::Nul => ("holds NUL bytes", "the machine or the writer crashed here; the data around them was read"),
            Self::NotUtf8 => (
                "holds bytes that are not UTF-8",
                "the event was counted with those bytes replaced; the file was damaged after the apiserver wrote it",
            ),
            Self::Damaged => (
                "is damaged or ends early",
                "copy the file again, or test it with gzip -t or zstd -t; everything before this place was read",
            ),
            Self::Shrunk => ("became shorter while it was read", "read a copy, or a log that is rotated by renaming"),
            Self::Io => ("could not be read", "check the file's permissions and the disk"),
            Self::NotASample => (
                "is neither a sample nor a comment",
                "check the line; the others were read. promtool check metrics explains",
            ),
            Self::SeriesTwice => (
                "repeats a series of this page",
                "the first one was used; two pages may be in one file, or a proxy may merge pages",
            ),
            Self::DescribedTwice => (
                "describes a family of metrics again or too late",
                "the first description was used; two pages may be in one file",
            ),
            Self::UnknownType => {
                ("describes a family with an unknown type", "its samples were used; promtool check metrics explains")
            }
            Self::AgainstRule => {
                ("does not conform to OpenMetrics", "the sample was used; report it to the exporter's maintainers")
            }
            Self::SeveralProcesses => (
                "belongs to a page of several processes, which was ignored",
                "take one page of each: of Prometheus' /federate with match[] of one instance",
            ),
            Self::PageCutOff => {
                ("ends a page that is cut off", "take the page again; the lines before this one were used")
            }
            Self::NoSamples => ("belongs to a page without samples", "take the page again"),
            Self::PageTooLong => {
                ("is longer than 1 GiB", "the data before this place was used; drop metrics at the source")
            }
            Self::NotARow => (
                "is not a row of this page",
                "check the line; the other rows were read. Names and paths may contain newlines, or the page was \
                 truncated",
            ),
            Self::DumpTooLong => {
                ("is longer than 32 MiB", "the data before this place was used; an apiserver's own page is far shorter")
            }
        }
    }
}

/// Where something was lost first, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// What happened.
    pub kind: LossKind,
    /// The file (or `-`, or a URL).
    pub path: String,
    /// Line of the first such loss, counted from 1; 0 where lines mean nothing.
    pub line: u64,
    /// Byte offset of the first (in the decompressed data), counted from 0.
    pub offset: u64,
    /// How many there were.
    pub count: u64,
    /// What the system or the decoder said, if anything.
    pub detail: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, advice) = self.kind.explain();
        write!(f, "{}", self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {} {what} (byte {})", if self.line > 0 { "line" } else { "data" }, self.offset)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        if self.count > 1 {
            write!(f, "; {} more like it", self.count - 1)?;
        }
        write!(f, "; {advice}")
    }
}

/// What one input gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InputReport {
    /// Path as given or found, `-`, or URL.
    pub path: String,
    /// `audit`, `metrics`, `apf-dump` and the like.
    pub kind: &'static str,
    /// Bytes read (of the file as it lies on disk).
    pub bytes: u64,
    /// Events or samples read.
    pub records: u64,
    /// Lines or parts that could not be used; what was damaged but kept does not count.
    pub skipped: u64,
    /// The first error, in words.
    pub first_error: Option<String>,
}

/// What the log shows at all: the ground that every share stands on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Lines read, blank ones left out.
    pub lines: u64,
    /// Events by level and stage, indexed as [`Level::ALL`] × [`Stage::ALL`].
    pub events: [[u64; 4]; 4],
    /// Smallest `at`.
    pub first: Option<Micros>,
    /// Largest `at`.
    pub last: Option<Micros>,
    /// Whether the last line of an input was still being written.
    pub unfinished_lines: u64,
    /// Events that had been read before and were left out.
    pub copies: u64,
    /// Entries of other services, or other logs of the same, in an export.
    pub others: u64,
    /// Events by day, of those whose time is judged.
    pub days: Days,
}

impl Coverage {
    /// Counts an event.
    #[inline]
    pub fn event(&mut self, level: Level, stage: Stage, at: Micros) {
        self.events[level as usize][stage as usize] += 1;
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
    }

    /// The same where only times of a window were asked for.
    pub fn within(mut self, since: Option<Micros>, until: Option<Micros>) -> Self {
        self.first = self.first.map(|first| since.map_or(first, |since| first.max(since)));
        self.last = self.last.map(|last| until.map_or(last, |until| last.min(until)));
        if self.first > self.last {
            (self.first, self.last) = (None, None);
        }
        self
    }

    /// What is to be said where no request was counted, by the time from the first event of all logs to the last.
    pub fn nothing_counted(covered: Option<Span>) -> String {
        match covered {
            None => "No request was counted: the log holds no event.".to_owned(),
            Some((from, to)) => format!(
                "No request was counted: of the events from {} to {} none lies in the window and meets the conditions.",
                format(from),
                format(to)
            ),
        }
    }

    /// What is to be said of events that came twice; nothing where none did.
    pub fn copies_in_words(&self) -> Option<String> {
        let were = if self.copies == 1 { "event came twice and was" } else { "events came twice and were" };
        let message = format!(
            "{} {were} counted once (same apiserver, audit id, stage and time); --dedupe never counts all of them",
            grouped(self.copies)
        );
        (self.copies > 0).then_some(message)
    }

    /// All events.
    pub fn total(&self) -> u64 {
        self.events.iter().flatten().sum()
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        self.lines += other.lines;
        self.unfinished_lines += other.unfinished_lines;
        self.copies += other.copies;
        self.others += other.others;
        self.days.merge(&other.days);
        for (mine, theirs) in self.events.iter_mut().flatten().zip(other.events.iter().flatten()) {
            *mine += theirs;
        }
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = [self.last, other.last].into_iter().flatten().max();
    }
}
