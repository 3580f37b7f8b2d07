//! A whole page: its samples, and what is wrong with it.

use super::openmetrics::Checker;
use super::{CommentKind, Dialect, Item, Reader};
use crate::model::sample::Sample;
use hashbrown::hash_table::{Entry, HashTable};
use hashbrown::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

/// What is wrong with a part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// A line that is neither sample nor comment; it is left out.
    Line,
    /// A series that stands on the page already; it is left out.
    Repeated,
    /// A description of a family that has one, or that comes behind its samples; it is left out.
    Described,
    /// A family is described by a type that there is not.
    Type,
    /// The page ends in the middle of a line, or of a histogram; what comes before is kept.
    CutOff,
    /// Something that OpenMetrics does not allow; the sample is kept.
    Rule,
    /// There is no sample on the page.
    Empty,
}

/// A problem, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    /// The line, counted from 1.
    pub line: u64,
    /// The offset in bytes.
    pub offset: u64,
    /// In words.
    pub detail: String,
}

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Its language.
    pub dialect: Dialect,
    /// Samples that were given.
    pub samples: u64,
    pub lines: u64,
}

/// Reads a page: gives its samples in order, and what is wrong with it.
pub fn read<'p>(page: &'p [u8], mut sample: impl FnMut(&Sample<'_, 'p>), mut problem: impl FnMut(Problem)) -> Summary {
    let dialect = Dialect::of(page);
    let (page, rest) = if dialect == Dialect::Text { whole_lines(page) } else { (page, &[][..]) };
    let mut reader = Reader::new(page, dialect);
    let mut families = Families::default();
    let mut checker = Checker::default();
    let mut seen = Seen(HashTable::with_capacity(page.len() / 128));
    let mut summary = Summary { dialect, samples: 0, lines: 0 };
    // Line and offset of an open histogram's last bucket.
    let mut open: Option<(u64, usize)> = None;
    let mut problems = 0;
    let mut ended = false;
    let mut add_problem = |kind, line, offset: usize, detail: String| {
        problems += 1;
        problem(Problem { kind, line, offset: offset as u64, detail });
    };
    while let Some(item) = reader.next() {
        let mut found = None;
        if ended {
            let (line, start) = reader.place();
            add_problem(ProblemKind::Line, line, start, "a line after # EOF".to_owned());
            continue;
        }
        ended = matches!(item, Item::Eof);
        if dialect == Dialect::OpenMetrics {
            found = checker.item(&item).err().map(|rule| (ProblemKind::Rule, rule.to_owned()));
        }
        // Of a bucket: whether it is the last of its histogram.
        let mut last_bucket = None;
        let mut is_bad = false;
        match &item {
            Item::Sample(s) => {
                // In OpenMetrics, points at several times may follow one another, the times perhaps cut to fewer
                // digits.
                if (dialect == Dialect::Text || s.timestamp.is_none()) && !seen.is_new(s) {
                    found = Some((ProblemKind::Repeated, format!("{} again", String::from_utf8_lossy(s.series))));
                } else if !is_possible(s) {
                    found = Some((ProblemKind::Line, format!("{} cannot be a count", s.value)));
                } else {
                    summary.samples += 1;
                    sample(s);
                }
                let last = s.labels.last().filter(|label| label.name.raw() == b"le");
                last_bucket = last.filter(|_| s.name.raw().ends_with(b"_bucket")).map(|le| le.value.raw() == b"+Inf");
                families.sampled(s.name.raw());
            }
            Item::About(comment, name, text) if dialect == Dialect::Text => {
                found = families.about(*comment, name, text);
            }
            Item::Bad(fault) => {
                is_bad = true;
                found = Some((ProblemKind::Line, format!("{} (column {})", fault.what, fault.at + 1)));
            }
            _ => {}
        }
        let (line, start) = reader.place();
        match last_bucket {
            Some(true) => open = None,
            Some(false) => open = Some((line, start)),
            None if is_bad => {}
            None => open = None,
        }
        if let Some((kind, detail)) = found {
            add_problem(kind, line, start, detail);
        }
    }
    let lines = reader.place().0;
    if !rest.is_empty() {
        let detail = "the last line does not end in a newline, so its value may be cut; it was left out".to_owned();
        add_problem(ProblemKind::CutOff, lines + 1, page.len(), detail);
    } else if let Some((line, offset)) = open {
        add_problem(ProblemKind::CutOff, line, offset, "the page ends before the histogram's +Inf bucket".to_owned());
    } else if families.like_open_metrics {
        add_problem(
            ProblemKind::CutOff,
            lines,
            page.len(),
            "families are described as in OpenMetrics, but # EOF is missing".to_owned(),
        );
    }
    if summary.samples == 0 && problems == 0 {
        problem(Problem { kind: ProblemKind::Empty, line: 1, offset: 0, detail: String::new() });
    }
    summary.lines = lines;
    summary
}

/// Whether a sample can have this value: what is called as counters and buckets are counts up from 0.
fn is_possible(sample: &Sample<'_, '_>) -> bool {
    let name = sample.name.raw();
    let is_count = || name.ends_with(b"_total") || name.ends_with(b"_bucket");
    sample.value >= 0.0 && sample.value.is_finite() || !is_count()
}

/// The lines that end in a newline, and what stands behind the last of them. A page that breaks off within a value
/// looks whole otherwise.
fn whole_lines(page: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memrchr(b'\n', page).map_or(0, |at| at + 1);
    let (lines, rest) = page.split_at(end);
    (lines, rest.trim_ascii())
}

/// Hashes of the series of a page.
#[derive(Debug)]
struct Seen(HashTable<u64>);

impl Seen {
    /// Whether the page did not have this series yet. (Of 30,000 series, two share a hash once in 40 billion pages.)
    fn is_new(&mut self, sample: &Sample<'_, '_>) -> bool {
        let hash = xxh3_64(sample.series) ^ sample.timestamp.map_or(0, f64::to_bits);
        match self.0.entry(hash, |other| *other == hash, |other| *other) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(hash);
                true
            }
        }
    }
}

/// Families of a text page by the hash of their name, and the names of samples that were met.
#[derive(Debug, Default)]
struct Families<'p> {
    described: HashMap<u64, (bool, bool)>,
    sampled: HashSet<u64>,
    last: &'p [u8],
    /// The counter that was described last.
    counter: &'p [u8],
    /// Whether counters are described without the `_total` of their samples, or a type is one that only
    /// OpenMetrics has.
    like_open_metrics: bool,
}

impl<'p> Families<'p> {
    fn sampled(&mut self, name: &'p [u8]) {
        if name != self.last {
            self.last = name;
            self.sampled.insert(xxh3_64(name));
            self.like_open_metrics |= !self.counter.is_empty() && name.strip_suffix(b"_total") == Some(self.counter);
        }
    }

    /// Takes a description; what is wrong with it, if anything.
    fn about(&mut self, comment: CommentKind, name: &'p [u8], text: &[u8]) -> Option<(ProblemKind, String)> {
        let again = |what: String| (ProblemKind::Described, what);
        let known = self.described.entry(xxh3_64(name)).or_default();
        let named = || String::from_utf8_lossy(name);
        match comment {
            CommentKind::Help => {
                std::mem::replace(&mut known.1, true).then(|| again(format!("a second # HELP of {}", named())))
            }
            CommentKind::Unit => None,
            CommentKind::Type => {
                self.counter = if text == b"counter" { name } else { &[] };
                if matches!(text, b"unknown" | b"info" | b"stateset" | b"gaugehistogram") {
                    self.like_open_metrics = true;
                } else if !matches!(text, b"counter" | b"gauge" | b"histogram" | b"summary" | b"untyped") {
                    let what =
                        format!("a # TYPE of {} other than counter, gauge, histogram, summary and untyped", named());
                    return Some((ProblemKind::Type, what));
                }
                if std::mem::replace(&mut known.0, true) {
                    return Some(again(format!("a second # TYPE of {}", named())));
                }
                let mut full = name.to_vec();
                let late = ["", "_bucket", "_sum", "_count"].iter().any(|suffix| {
                    full.truncate(name.len());
                    full.extend_from_slice(suffix.as_bytes());
                    self.sampled.contains(&xxh3_64(&full))
                });
                late.then(|| again(format!("a # TYPE of {} after its samples", named())))
            }
        }
    }
}
