//! What a command has to say, before it is given a form.

use crate::model::input::InputReport;
use crate::model::picture::Picture;
use crate::model::time::{self, SECOND, Span};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A value in a table or among the totals.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// Not known, or it makes no sense here.
    #[default]
    None,
    /// Text; may come from whoever calls the apiserver, so every view neutralises it.
    Text(String),
    Count(u64),
    /// A measure, a rate, a share.
    Number(f64),
    /// Counts in time, for a sparkline.
    Series(Vec<u64>),
    /// Named values.
    Group(Vec<(String, Value)>),
    /// What only machines read: lists, findings; a number with all of its digits.
    Json(serde_json::Value),
}

impl Value {
    /// Text; nothing where it is empty.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::None } else { Self::Text(text) }
    }

    /// The order in which rows are sorted by a field: text upwards, numbers downwards, what is neither behind them.
    pub fn in_order(&self, other: &Self) -> Ordering {
        let number = |value: &Self| match value {
            Self::Count(count) => *count as f64,
            Self::Number(number) => *number,
            _ => f64::NEG_INFINITY,
        };
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (a, b) => number(b).total_cmp(&number(a)),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        if number.is_finite() { Self::Number(number) } else { Self::None }
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// Rows under named columns. What a column is called in a heading, its unit and its width stands in one place,
/// `model::columns`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// What it is called where a report has several: its name in JSON.
    pub name: String,
    /// A heading for people.
    pub title: String,
    /// JSON field names.
    pub columns: Vec<String>,
    /// One value per column.
    pub rows: Vec<Vec<Value>>,
    /// Headings of this table's own, by column, where a name says something else here than in other tables. Such
    /// columns are shown to everybody.
    pub headings: Vec<(&'static str, &'static str)>,
    /// Whether a person chose what the columns hold and are called: they are shown as they are, all of them.
    pub is_raw: bool,
}

impl Table {
    /// The index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

/// The time that a report is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Window {
    /// RFC 3339, UTC; empty where nothing was counted.
    pub from: String,
    /// RFC 3339, UTC.
    pub to: String,
    pub seconds: f64,
}

impl Window {
    /// From a time to another; empty where nothing was counted.
    pub fn of(span: Option<Span>) -> Self {
        span.map_or_else(Self::default, |(from, to)| Self {
            from: time::format(from),
            to: time::format(to),
            seconds: (to - from) as f64 / SECOND as f64,
        })
    }
}

/// How grave a finding is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Info,
    /// Worth a change.
    Warning,
    /// Worth a change now.
    Critical,
}

/// Something that was found: what, how sure, and what to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Its entry in docs/findings.md.
    pub id: String,
    /// How grave.
    pub severity: Severity,
    /// How sure, from 0 to 1.
    pub confidence: f64,
    /// The same for the same finding on the same subject.
    pub fingerprint: String,
    /// What it is about.
    pub subject: BTreeMap<String, String>,
    /// RFC 3339.
    pub first_seen: String,
    /// RFC 3339.
    pub last_seen: String,
    /// One sentence.
    pub summary: String,
    /// The numbers that led to it.
    pub evidence: BTreeMap<String, serde_json::Value>,
    /// What to change.
    pub remedy: String,
    /// Where to read more.
    pub docs: String,
}

impl Finding {
    /// A finding about `subject`, of which empty values are left out; what follows says the rest of it.
    pub fn new(id: &str, severity: Severity, subject: &[(&str, &str)]) -> Self {
        let given = subject.iter().filter(|(_, value)| !value.is_empty());
        let subject: BTreeMap<String, String> =
            given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut key = id.to_owned();
        subject.iter().for_each(|(name, value)| key += &format!("\0{name}\0{value}"));
        Self {
            id: id.to_owned(),
            severity,
            confidence: 1.0,
            fingerprint: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(key.as_bytes())),
            subject,
            first_seen: String::new(),
            last_seen: String::new(),
            summary: String::new(),
            evidence: BTreeMap::new(),
            remedy: String::new(),
            docs: format!("docs/findings.md#{id}"),
        }
    }

    /// The same finding, of one of several: its fingerprint differs from that of the others.
    pub fn about(mut self, name: &str, value: &str) -> Self {
        self.subject.insert(name.to_owned(), value.to_owned());
        let subject: Vec<(&str, &str)> =
            self.subject.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.fingerprint = Self::new(&self.id, self.severity, &subject).fingerprint;
        self
    }

    /// Its confidence, from 0 to 1; 1 where none is set.
    pub fn confidence(self, confidence: f64) -> Self {
        Self { confidence, ..self }
    }

    /// When it was first and last seen.
    pub fn seen(self, (first, last): Span) -> Self {
        Self { first_seen: time::format(first), last_seen: time::format(last), ..self }
    }

    /// One sentence, without a full stop.
    pub fn summary(self, summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), ..self }
    }

    /// Adds the numbers that led to it: the members of an object, without those that are null.
    pub fn evidence(mut self, numbers: serde_json::Value) -> Self {
        if let serde_json::Value::Object(numbers) = numbers {
            self.evidence.extend(numbers.into_iter().filter(|(_, value)| !value.is_null()));
        }
        self
    }

    /// What to change.
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// The remedy under its label for people: "What to do", or "Prevention" where only the next time can be changed.
    pub fn advice(&self) -> (&'static str, &str) {
        let text = self.remedy.trim_end_matches('.');
        match text.strip_prefix("prevention: ") {
            Some(text) => ("Prevention", text),
            None => ("What to do", text),
        }
    }

    /// The order of all lists: the gravest first, then the surest. What is alike stays as it came: sorts are stable,
    /// and a fingerprint, which hashes paths too, would order one bundle differently in each folder that it lies in.
    pub fn graver(&self, other: &Self) -> Ordering {
        other.severity.cmp(&self.severity).then(other.confidence.total_cmp(&self.confidence))
    }
}

/// Everything a command prints.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// `plimsoll.<command>/v1`.
    pub schema: String,
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// The time it covers.
    pub window: Window,
    /// What the inputs show at all.
    pub coverage: serde_json::Map<String, serde_json::Value>,
    /// Sums over all rows.
    pub totals: Vec<(String, Value)>,
    /// The rows.
    pub table: Table,
    /// Further tables.
    pub tables: Vec<Table>,
    /// How many of `table.rows`, from the first, to show.
    pub shown: Option<usize>,
    /// Tables that people are shown in place of `table`, where that one is for machines.
    pub people: Option<Vec<Table>>,
    /// Sentences above the table, for people.
    pub lead: Vec<String>,
    /// Sentences below it.
    pub notes: Vec<String>,
    pub findings: Vec<Finding>,
    /// How many of `findings`, from the first, people are shown; all where it is not given.
    pub findings_shown: Option<usize>,
    /// Pictures below the tables, for people.
    pub pictures: Vec<Picture>,
    /// Further members of the JSON document, beside its rows.
    pub more: serde_json::Map<String, serde_json::Value>,
}

impl Severity {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl Report {
    /// The findings that people are shown.
    pub fn shown_findings(&self) -> &[Finding] {
        &self.findings[..self.findings_shown.unwrap_or(self.findings.len()).min(self.findings.len())]
    }

    /// The rows of the table that are to be shown.
    pub fn shown_rows(&self) -> &[Vec<Value>] {
        let rows = &self.table.rows;
        &rows[..self.shown.unwrap_or(rows.len()).min(rows.len())]
    }
}
