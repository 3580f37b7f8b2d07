//! Metrics pages: Prometheus text 0.0.4 and OpenMetrics 1.0, read in place.
//!
//! [`Reader`] takes a page apart line by line and copies nothing. [`read`] also looks at what lines say
//! together: families that are described twice, series that occur twice, a page that ends too early, and, of
//! OpenMetrics, all that its specification demands.

mod line;
mod openmetrics;
mod page;
#[cfg(test)]
mod tests;

pub use page::{Problem, ProblemKind, Summary, read};

use crate::model::sample::{Exemplar, Label, Sample};
use line::Fault;

/// A line may not be longer.
pub const LONGEST_LINE: usize = 1 << 20;

/// The language of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Prometheus text 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Dialect {
    /// OpenMetrics pages end in `# EOF`; nothing else in a page shows. (Behind it there may be what does not belong
    /// there.)
    pub fn of(page: &[u8]) -> Self {
        let end = page.trim_ascii_end();
        let last = end.ends_with(b"# EOF") && matches!(end.len().checked_sub(6).map(|at| end[at]), None | Some(b'\n'));
        if last || memchr::memmem::find(page, b"\n# EOF\n").is_some() { Self::OpenMetrics } else { Self::Text }
    }
}

/// What a comment line says of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentKind {
    Type,
    Help,
    Unit,
}

/// What a line holds.
#[derive(Debug)]
pub enum Item<'r, 'p> {
    Sample(Sample<'r, 'p>),
    /// `# TYPE`, `# HELP` or `# UNIT`: the family's name and the text behind it, both as they stand there.
    About(CommentKind, &'p [u8], &'p [u8]),
    Comment,
    /// A line without anything.
    Blank,
    Eof,
    /// A line that is none of these.
    Bad(Fault),
}

/// Reads a page line by line.
#[derive(Debug)]
pub struct Reader<'p> {
    page: &'p [u8],
    dialect: Dialect,
    utf8: bool,
    at: usize,
    start: usize,
    line: u64,
    labels: Vec<Label<'p>>,
    exemplar: Option<Exemplar<'p>>,
}

impl<'p> Reader<'p> {
    /// A reader at the start of a page.
    pub fn new(page: &'p [u8], dialect: Dialect) -> Self {
        let utf8 = std::str::from_utf8(page).is_ok();
        Self { page, dialect, utf8, at: 0, start: 0, line: 0, labels: Vec::with_capacity(16), exemplar: None }
    }

    /// The line that was read last, counted from 1, and the offset of its first byte.
    pub fn place(&self) -> (u64, usize) {
        (self.line, self.start)
    }

    /// What the next line holds; `None` behind the last.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "an item borrows the reader's labels, which no Iterator can give"
    )]
    pub fn next(&mut self) -> Option<Item<'_, 'p>> {
        let rest = self.page.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = memchr::memchr(b'\n', rest);
        let mut line = &rest[..end.unwrap_or(rest.len())];
        self.start = self.at;
        self.at += line.len() + 1;
        self.line += 1;
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.dialect == Dialect::Text {
            line = line.trim_ascii_start();
        }
        if line.len() > LONGEST_LINE {
            return Some(Item::Bad(Fault { what: "the line is longer than 1 MiB", at: LONGEST_LINE }));
        }
        // In a comment, which has no bearing on values, it does no harm.
        let is_comment = self.dialect == Dialect::Text && line.first() == Some(&b'#');
        if !self.utf8 && !is_comment && std::str::from_utf8(line).is_err() {
            return Some(Item::Bad(Fault { what: "the line holds bytes that are not UTF-8", at: 0 }));
        }
        match line.first() {
            None => Some(Item::Blank),
            Some(b'#') => Some(comment(line, self.dialect)),
            Some(_) => Some(match line::parse(line, self.dialect, &mut self.labels) {
                Ok(parts) => {
                    self.exemplar = parts.exemplar;
                    Item::Sample(Sample {
                        name: parts.name,
                        labels: &self.labels,
                        value: parts.value,
                        timestamp: parts.timestamp,
                        exemplar: self.exemplar.as_ref(),
                        series: parts.series,
                    })
                }
                Err(fault) => Item::Bad(fault),
            }),
        }
    }
}

/// A line that begins with `#`.
fn comment(line: &[u8], dialect: Dialect) -> Item<'_, '_> {
    if dialect == Dialect::OpenMetrics && line == b"# EOF" {
        return Item::Eof;
    }
    let text = dialect == Dialect::Text;
    let rest = if text { line[1..].trim_ascii_start() } else { line.strip_prefix(b"# ").unwrap_or_default() };
    let split = |rest: &'_ [u8]| rest.iter().position(|b| *b == b' ' || text && *b == b'\t').unwrap_or(rest.len());
    let word = split(rest);
    let comment_kind = match &rest[..word] {
        b"TYPE" => CommentKind::Type,
        b"HELP" => CommentKind::Help,
        b"UNIT" if !text => CommentKind::Unit,
        _ if text => return Item::Comment,
        _ => return Item::Bad(Fault { what: "a comment that is none of TYPE, HELP, UNIT and EOF", at: 0 }),
    };
    let rest = rest.get(word + 1..).unwrap_or_default();
    let rest = if text { rest.trim_ascii_start() } else { rest };
    let end = match rest {
        [b'"', inner @ ..] => match memchr::memchr(b'"', inner) {
            Some(end) => end + 2,
            None => return Item::Bad(Fault { what: "a quoted name that does not end", at: word + 3 }),
        },
        _ => split(rest),
    };
    let (name, about) = rest.split_at(end);
    let name = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name);
    let about = if text { Some(about.trim_ascii()) } else { about.strip_prefix(b" ") };
    if name.is_empty() {
        return Item::Bad(Fault { what: "a TYPE, HELP or UNIT of nothing", at: 0 });
    }
    if text && !rest.starts_with(b"\"") && !line::is_name(name) {
        return Item::Bad(Fault {
            what: "a TYPE or HELP of what is not a metric's name; other names stand in quotes",
            at: word + 3,
        });
    }
    match about {
        Some(about) => Item::About(comment_kind, name, about),
        None => Item::Bad(Fault { what: "a TYPE, HELP or UNIT without a blank behind the name", at: line.len() }),
    }
}
