//! What changed between two times or two clusters, and which changes exceed noise. (Rules: docs/commands/compare.md.)
//!
//! `logs`, `pages` and `states` make pairs of what both sides measured. All of them are judged together, so that of all
//! that is said to have changed nothing did so by chance, but in one comparison of twenty.

pub mod limits;
pub mod logs;
pub mod noise;
pub mod pages;
pub mod report;
pub mod states;
mod words;

use crate::model::time::{Micros, SECOND};
use noise::{Measured, Verdict};
use std::collections::BTreeSet;

/// What a number is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// All requests.
    Total,
    /// Requests of a client.
    Clients,
    /// Requests by verb and resource.
    Requests,
    /// How long they take.
    Latency,
    /// How many objects there are.
    Objects,
    /// What etcd's database holds.
    Etcd,
    /// What the Go heap of an apiserver holds.
    Heap,
    /// Memory of cgroups and processes.
    Memory,
}

impl Area {
    /// All, in the order in which they are reported.
    pub const ALL: [Self; 8] = [
        Self::Total,
        Self::Clients,
        Self::Requests,
        Self::Latency,
        Self::Objects,
        Self::Etcd,
        Self::Heap,
        Self::Memory,
    ];

    /// Its name in JSON and for `--fail-on-increase`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Clients => "clients",
            Self::Requests => "requests",
            Self::Latency => "latency",
            Self::Objects => "objects",
            Self::Etcd => "etcd",
            Self::Heap => "heap",
            Self::Memory => "memory",
        }
    }

    /// A heading.
    fn title(self) -> &'static str {
        match self {
            Self::Total => "All requests",
            Self::Clients => "Clients",
            Self::Requests => "Requests by verb and resource",
            Self::Latency => "Latency by verb and resource",
            Self::Objects => "Objects",
            Self::Etcd => "etcd's database",
            Self::Heap => "The apiserver's Go heap, by purpose",
            Self::Memory => "Memory",
        }
    }
}

/// What a number counts, and so how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    PerSecond,
    /// Milliseconds.
    Millis,
    /// Things.
    Count,
    Bytes,
}

impl Unit {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::Millis => "ms",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}

/// A number that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name in JSON and for `--fail-on-increase`.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What it counts.
    pub unit: Unit,
}

const fn metric(name: &'static str, title: &'static str, unit: Unit) -> Metric {
    Metric { name, title, unit }
}

/// All numbers.
pub const METRICS: [Metric; 18] = [
    metric("rps", "requests", Unit::PerSecond),
    metric("errors_per_s", "5xx", Unit::PerSecond),
    metric("client_errors_per_s", "4xx", Unit::PerSecond),
    metric("throttled_per_s", "429", Unit::PerSecond),
    metric("p50_ms", "median latency", Unit::Millis),
    metric("p99_ms", "99th percentile", Unit::Millis),
    metric("objects", "objects", Unit::Count),
    metric("keys", "keys", Unit::Count),
    metric("live_bytes", "live", Unit::Bytes),
    metric("history_bytes", "old revisions", Unit::Bytes),
    metric("db_bytes", "file", Unit::Bytes),
    metric("in_use_bytes", "in use", Unit::Bytes),
    metric("heap_bytes", "held", Unit::Bytes),
    metric("resident_bytes", "resident", Unit::Bytes),
    metric("usage", "usage", Unit::Bytes),
    metric("working_set", "working set", Unit::Bytes),
    metric("anon", "anonymous", Unit::Bytes),
    metric("file", "page cache", Unit::Bytes),
];

impl Metric {
    /// The metric of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }
}

/// What is counted of requests: all, 5xx, 4xx but 429, 429.
const COUNTS: [&str; 4] = ["rps", "errors_per_s", "client_errors_per_s", "throttled_per_s"];

impl Area {
    /// The numbers that it has; with `whole` those that it has of everything at once.
    pub fn metrics(self, whole: bool) -> &'static [&'static str] {
        match (self, whole) {
            (Self::Total, _) => &["rps", "errors_per_s", "client_errors_per_s", "throttled_per_s", "p50_ms", "p99_ms"],
            (Self::Clients | Self::Requests, false) => &COUNTS,
            (Self::Latency, false) => &["p50_ms", "p99_ms"],
            (Self::Objects, false) => &["objects"],
            (Self::Clients | Self::Requests | Self::Latency | Self::Objects, true) => &[],
            (Self::Etcd, _) => &["db_bytes", "in_use_bytes", "keys", "live_bytes", "history_bytes"],
            (Self::Heap, _) => &["heap_bytes"],
            (Self::Memory, _) => &["usage", "working_set", "anon", "file", "resident_bytes"],
        }
    }
}

/// What a number is of: fields and their values, in their order.
pub type Subject = Vec<(&'static str, String)>;

/// One number, measured on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// What it is about.
    pub area: Area,
    pub subject: Subject,
    /// What was measured: a name of [`METRICS`].
    pub metric: &'static str,
    pub before: Measured,
    pub after: Measured,
}

/// A pair with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub pair: Pair,
    /// Between what the ratio of after to before lies, of all rows at once with 95 % confidence.
    pub bounds: Option<(f64, f64)>,
    /// What to think of it.
    pub verdict: Verdict,
}

/// How sure all verdicts together are.
const CONFIDENCE: f64 = 0.95;

/// Judges all pairs together; changes by less than `least` are none.
pub fn judge(pairs: Vec<Pair>, least: f64) -> Vec<Row> {
    let tests = pairs.iter().filter(|pair| noise::is_tested(&pair.before, &pair.after)).count();
    let alpha = (1.0 - CONFIDENCE) / tests.max(1) as f64;
    let judged = pairs.into_iter().map(|pair| {
        let bounds = noise::bounds(&pair.before, &pair.after, alpha);
        let verdict = noise::verdict(&pair.before, &pair.after, bounds, least);
        Row { pair, bounds, verdict }
    });
    judged.collect()
}

impl Pair {
    /// A field of what it is about; empty where it has none.
    pub fn field(&self, name: &str) -> &str {
        self.subject.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value)
    }
}

impl Row {
    /// Relative change: 0.3 is 30 % more; infinite where there was nothing before.
    pub fn change(&self) -> Option<f64> {
        let (before, after) = (self.pair.before.value()?, self.pair.after.value()?);
        (before != after || before != 0.0).then(|| after / before - 1.0)
    }

    /// By how much it moved, in the metric's unit; what is not there is zero.
    pub fn moved(&self) -> f64 {
        self.pair.after.value().unwrap_or(0.0) - self.pair.before.value().unwrap_or(0.0)
    }
}

/// What a cluster is called in subjects: nothing where each side is of one cluster, and these are different ones, so
/// that what is alike is set beside one another.
pub(super) fn joined(before: &BTreeSet<&str>, after: &BTreeSet<&str>) -> bool {
    before.len() == 1 && after.len() == 1 && before != after
}

/// A window of time cut into pieces.
#[derive(Debug, Clone, PartialEq)]
struct Pieces {
    from: Micros,
    to: Micros,
    /// How long a piece is, in seconds; the first and the last may be cut.
    length: i64,
}

impl Pieces {
    fn new((from, to): (Micros, Micros), length: i64) -> Self {
        Self { from, to: to.max(from + SECOND), length }
    }

    fn first(&self) -> i64 {
        self.from.div_euclid(self.length * SECOND)
    }

    fn count(&self) -> usize {
        ((self.to - 1).div_euclid(self.length * SECOND) - self.first() + 1) as usize
    }

    /// The piece that holds this second; what lies outside belongs to the nearest.
    fn at(&self, second: i64) -> usize {
        ((second.div_euclid(self.length) - self.first()).max(0) as usize).min(self.count() - 1)
    }

    /// How much of a piece is within the window.
    fn seconds(&self, piece: usize) -> f64 {
        let start = (self.first() + piece as i64) * self.length * SECOND;
        ((start + self.length * SECOND).min(self.to) - start.max(self.from)) as f64 / SECOND as f64
    }

    /// Counts with the lengths of their pieces.
    fn counts(&self, counts: &[f64]) -> Measured {
        Measured::Counts(counts.iter().enumerate().map(|(piece, count)| (self.seconds(piece), *count)).collect())
    }

    /// The part of the window that a piece belongs to.
    fn part(&self, piece: usize) -> usize {
        piece * noise::PARTS / self.count()
    }
}
