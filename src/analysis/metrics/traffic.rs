//! Requests by the dimensions that metrics have. (Rules: docs/metrics.md, section 3.)

use super::catalogue::{Metric, Part};
use super::facts::{Component, Fact, Facts, verb};
use super::quantile::Buckets;
use crate::analysis::filter::Filter;
use crate::analysis::traffic::report::{Line, Measured, Measures};
use crate::model::problem::Problem;
use crate::model::time::{Micros, SECOND};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

/// A dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dim {
    Verb,
    Resource,
    Group,
    Version,
    Subresource,
    Scope,
    Code,
    Component,
    Instance,
    Cluster,
    FlowSchema,
    PriorityLevel,
}

impl Dim {
    /// All of them.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Verb, "verb"),
        (Self::Resource, "resource"),
        (Self::Group, "group"),
        (Self::Version, "version"),
        (Self::Subresource, "subresource"),
        (Self::Scope, "scope"),
        (Self::Code, "code"),
        (Self::Component, "component"),
        (Self::Instance, "instance"),
        (Self::Cluster, "cluster"),
        (Self::FlowSchema, "flow_schema"),
        (Self::PriorityLevel, "priority_level"),
    ];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(dim, _)| *dim == self).map_or("", |(_, name)| name)
    }

    /// Whether it is one of priority and fairness.
    pub fn is_flow(self) -> bool {
        matches!(self, Self::FlowSchema | Self::PriorityLevel)
    }

    fn is_of_both(self) -> bool {
        matches!(self, Self::Instance | Self::Cluster)
    }

    /// Its value for a fact; `open`: the fact is of long-running requests that have not ended.
    fn of<'f>(self, facts: &'f Facts, fact: &Fact, open: bool) -> Cow<'f, str> {
        let label = |at: usize| fact.labels.get(at).map_or("", |label| facts.text(*label));
        let instance = &facts.instances[fact.instance];
        match self {
            Self::Verb if open && is_watch(facts, fact) => "watch".into(),
            Self::Verb => verb(facts, fact),
            Self::Group => label(1).into(),
            Self::Version => label(2).into(),
            Self::Resource => label(3).into(),
            Self::Subresource => label(4).into(),
            Self::Scope => scope(label(5)).into(),
            Self::Component => label(6).into(),
            Self::Code => label(7).into(),
            Self::PriorityLevel => label(0).into(),
            Self::FlowSchema => label(1).into(),
            Self::Instance => instance.name.as_str().into(),
            Self::Cluster => instance.cluster.as_str().into(),
        }
    }
}

impl FromStr for Dim {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        if let Some((dim, _)) = Self::ALL.iter().find(|(_, name)| *name == text) {
            return Ok(*dim);
        }
        let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
        let known = crate::analysis::dims::Dim::ALL.iter().any(|(_, name)| *name == text);
        let why = if known { "metrics have no" } else { "there is no dimension" };
        let hint = if known { " (requires audit logs)" } else { "" };
        Err(Problem::setting(format!("{why} '{text}'{hint}")).hint(format!("there are: {}", names.join(" "))))
    }
}

fn scope(scope: &str) -> &str {
    match scope {
        "resource" => "object",
        "" => "nonresource",
        other => other,
    }
}

/// Whether a fact of long-running requests is of watches. From 1.16 to 1.22, watches of one object are counted as GET.
pub(super) fn is_watch(facts: &Facts, fact: &Fact) -> bool {
    let label = |at: usize| facts.text(fact.labels[at]);
    match label(0) {
        "WATCH" | "WATCHLIST" => true,
        "GET" => label(4).is_empty() && !label(3).is_empty(),
        _ => false,
    }
}

/// Whether a request runs for long, so that its duration is no latency.
pub(super) fn is_long(facts: &Facts, fact: &Fact) -> bool {
    matches!(facts.text(fact.labels[0]), "WATCH" | "WATCHLIST" | "CONNECT")
}

/// What to count, and by what.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The dimensions of a row.
    pub by: Vec<Dim>,
    /// Conditions, all of which must hold.
    pub filters: Vec<Filter<Dim>>,
    /// The length of an interval, where time is cut into intervals.
    pub interval: Option<Micros>,
}

impl Query {
    fn dims(&self) -> impl Iterator<Item = Dim> {
        self.by.iter().copied().chain(self.filters.iter().map(|filter| filter.dim))
    }

    /// What makes no sense, in words.
    pub fn check(&self) -> Result<(), Problem> {
        let flow = self.dims().find(|dim| dim.is_flow());
        let other = self.dims().find(|dim| !dim.is_flow() && !dim.is_of_both());
        match flow.zip(other) {
            Some((flow, other)) => Err(Problem::setting(format!(
                "metrics count requests by '{}' or by '{}', not by both",
                flow.name(),
                other.name()
            ))
            .hint("use one of them")),
            None => Ok(()),
        }
    }

    fn key(&self, facts: &Facts, fact: &Fact, open: bool) -> Option<Vec<String>> {
        let accepted = self.filters.iter().all(|filter| filter.holds(&filter.dim.of(facts, fact, open)));
        accepted.then(|| self.by.iter().map(|dim| dim.of(facts, fact, open).into_owned()).collect())
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ok,
    Error,
    ClientError,
    Throttled,
}

fn outcome(code: &str) -> Outcome {
    match code.parse::<u16>() {
        Ok(429) => Outcome::Throttled,
        Ok(0 | 500..) => Outcome::Error,
        Ok(400..500) => Outcome::ClientError,
        _ => Outcome::Ok,
    }
}

/// Counts of a row, or of a row in one interval.
#[derive(Debug, Clone, Default)]
struct Counts {
    requests: f64,
    errors: f64,
    client_errors: f64,
    throttled: f64,
    rate: f64,
    open: Option<f64>,
    /// Whether codes are known, so that errors can be determined.
    coded: bool,
    buckets: Buckets,
}

impl Counts {
    fn add(&mut self, outcome: Outcome, count: f64, rate: f64, coded: bool) {
        self.coded = coded;
        self.requests += count;
        self.rate += rate;
        match outcome {
            Outcome::Ok => {}
            Outcome::Error => self.errors += count,
            Outcome::ClientError => self.client_errors += count,
            Outcome::Throttled => self.throttled += count,
        }
    }

    /// Whole numbers for what happened in an interval, and what was left over before, which this is.
    fn rounded(&mut self, counts: &Self) -> Self {
        let round = |left: &mut f64, count: f64, most: f64| {
            *left += count;
            let whole = left.round().min(most);
            *left -= whole;
            whole
        };
        let requests = round(&mut self.requests, counts.requests, f64::INFINITY);
        Self {
            requests,
            // No more of the requests failed than there were.
            errors: round(&mut self.errors, counts.errors, requests),
            client_errors: round(&mut self.client_errors, counts.client_errors, requests),
            throttled: round(&mut self.throttled, counts.throttled, requests),
            ..counts.clone()
        }
    }

    fn measures(&self, peak_rps: Option<f64>) -> Measures {
        let count = |number: f64| number.round() as u64;
        Measures {
            requests: count(self.requests),
            open: self.open.map(count),
            rps: Some(self.rate).filter(|rate| rate.is_finite()),
            peak_rps,
            errors: self.coded.then(|| count(self.errors)),
            client_errors: self.coded.then(|| count(self.client_errors)),
            throttled: count(self.throttled),
            latency_ms: [0.5, 0.9, 0.99].map(|q| self.buckets.quantile(q).map(|seconds| seconds * 1e3)),
            max_ms: None,
        }
    }
}

/// Slots over which what happened between two pages is spread, at most.
const MAX_SLOTS: i64 = 4096;

/// Equal slots of time.
#[derive(Debug, Clone, Copy)]
struct Slots {
    from: Micros,
    length: Micros,
}

impl Slots {
    /// Gives every slot its share of what happened between two times.
    fn spread(self, (start, end): (Micros, Micros), count: f64, mut add: impl FnMut(i64, f64)) {
        let slot = |at: Micros| (at - self.from).div_euclid(self.length);
        if end <= start {
            return add(slot(end), count);
        }
        let per = count / (end - start) as f64;
        if slot(end - 1) - slot(start) > MAX_SLOTS {
            // So long without a page that only the mean is known: it stands in two slots, not in millions of them.
            let half = per * self.length as f64;
            add(slot(start), half.min(count));
            return add(slot(end - 1), half.min(count));
        }
        for number in slot(start)..=slot(end - 1) {
            let begin = self.from + number * self.length;
            let share = (begin + self.length).min(end) - begin.max(start);
            add(number, per * share as f64);
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Accumulated {
    whole: Counts,
    by_interval: BTreeMap<i64, Counts>,
    peaks: BTreeMap<i64, f64>,
}

/// Adds up facts.
struct Adder<'f> {
    facts: &'f Facts,
    query: &'f Query,
    peaks: Option<Slots>,
    series: Option<Slots>,
    rows: BTreeMap<Vec<String>, Accumulated>,
    total: Accumulated,
}

impl Adder<'_> {
    fn count(&mut self, fact: &Fact, outcome: Outcome) {
        let Some(key) = self.query.key(self.facts, fact, false) else { return };
        let rate = self.facts.rate(fact);
        let coded = fact.labels.len() > 7;
        let intervals = &self.facts.instances[fact.instance].intervals;
        for acc in [self.rows.entry(key).or_default(), &mut self.total] {
            acc.whole.add(outcome, fact.increase, rate, coded);
            for &(interval, count) in &fact.course {
                let interval = intervals[interval as usize];
                if let Some(slots) = self.peaks {
                    slots.spread(interval, count, |slot, count| *acc.peaks.entry(slot).or_default() += count);
                }
                if let Some(slots) = self.series {
                    let seconds = slots.length as f64 / SECOND as f64;
                    slots.spread(interval, count, |slot, count| {
                        acc.by_interval.entry(slot).or_default().add(outcome, count, count / seconds, coded);
                    });
                }
            }
        }
    }

    fn bucket(&mut self, fact: &Fact) {
        let Some(key) = self.query.key(self.facts, fact, false) else { return };
        let intervals = &self.facts.instances[fact.instance].intervals;
        // A row without requests shows nothing.
        let Some(row) = self.rows.get_mut(&key) else { return };
        for acc in [row, &mut self.total] {
            acc.whole.buckets.add(fact.bound, fact.increase);
            let Some(slots) = self.series else { continue };
            for &(interval, count) in &fact.course {
                let bound = fact.bound;
                slots.spread(intervals[interval as usize], count, |slot, count| {
                    acc.by_interval.entry(slot).or_default().buckets.add(bound, count);
                });
            }
        }
    }

    fn open(&mut self, fact: &Fact) {
        let (Some(key), Some(last)) = (self.query.key(self.facts, fact, true), fact.last) else { return };
        for acc in [self.rows.entry(key).or_default(), &mut self.total] {
            *acc.whole.open.get_or_insert(0.0) += last;
            // Requests of priority and fairness have no codes, and fewer labels.
            acc.whole.coded = fact.labels.len() > 5;
        }
    }
}

/// The median distance between pages, and the first of them.
fn peak_slots(facts: &Facts, metric: Metric) -> Option<Slots> {
    let mut of: Vec<usize> = facts.of(metric).iter().map(|fact| fact.instance).collect();
    of.dedup();
    of.sort_unstable();
    of.dedup();
    let intervals = || of.iter().flat_map(|&at| &facts.instances[at].intervals);
    let mut lengths: Vec<Micros> = intervals().map(|(start, end)| end - start).filter(|length| *length > 0).collect();
    lengths.sort_unstable();
    let length = *lengths.get(lengths.len() / 2)?;
    let from = intervals().map(|(start, _)| *start).min()?;
    Some(Slots { from, length })
}

/// The shortest intervals that a series of these pages may have: what happened between two pages is spread evenly over
/// the time between them, which says nothing of much shorter times, wherever the pages are nearest.
pub fn shortest_interval(facts: &Facts) -> Micros {
    let all = facts.instances_of(Component::Apiserver).flat_map(|own| &own.intervals);
    all.map(|(from, to)| (to - from) / MAX_SLOTS).min().unwrap_or_default()
}

/// Breaks the requests down.
pub fn measured(facts: &Facts, query: &Query) -> Measured {
    let by_flow = query.dims().any(Dim::is_flow);
    let by_code = query.dims().any(|dim| dim == Dim::Code);
    let (requests, latency, open) = match by_flow {
        true => (Metric::FlowDispatched, Metric::FlowExecution, Metric::FlowExecuting),
        false => (Metric::Requests, Metric::Duration, Metric::LongRunning),
    };
    let mut adder = Adder {
        facts,
        query,
        peaks: peak_slots(facts, requests),
        series: query.interval.map(|length| Slots { from: 0, length }),
        rows: BTreeMap::new(),
        total: Accumulated::default(),
    };
    for fact in facts.of(requests) {
        let outcome = if by_flow { Outcome::Ok } else { outcome(facts.text(fact.labels[7])) };
        adder.count(fact, outcome);
    }
    if by_flow {
        facts.of(Metric::FlowRejected).iter().for_each(|fact| adder.count(fact, Outcome::Throttled));
    }
    if !by_code {
        facts.of(open).iter().for_each(|fact| adder.open(fact));
        let buckets = facts.of(latency).iter().filter(|fact| fact.part == Part::Bucket);
        let counts = |fact: &&Fact| if by_flow { facts.text(fact.labels[2]) != "watch" } else { !is_long(facts, fact) };
        buckets.filter(counts).for_each(|fact| adder.bucket(fact));
    }
    let Adder { rows, total, peaks, .. } = adder;
    let peak = |acc: &Accumulated| {
        let slots = peaks?;
        let most = acc.peaks.values().copied().fold(0.0, f64::max);
        Some(most / (slots.length as f64 / SECOND as f64))
    };
    let is_empty = |acc: &Accumulated| acc.whole.requests <= 0.0 && acc.whole.open.is_none_or(|open| open <= 0.0);
    let mut lines = Vec::new();
    for (dims, acc) in rows {
        if query.interval.is_none() && !is_empty(&acc) {
            lines.push(Line { interval: None, dims: dims.clone(), measures: acc.whole.measures(peak(&acc)) });
        }
        lines.extend(query.interval.into_iter().flat_map(|length| of_intervals(length, &dims, &acc)));
    }
    let of: Vec<&super::facts::Instance> = {
        let mut numbers: Vec<usize> = facts.of(requests).iter().map(|fact| fact.instance).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|at| &facts.instances[at]).collect()
    };
    let window = of.iter().map(|i| i.from).min().zip(of.iter().map(|i| i.to).max());
    Measured {
        dims: query.by.iter().map(|dim| dim.name().to_owned()).collect(),
        rows: lines,
        series: query.interval.map(|length| (length, of_intervals(length, &[], &total).collect())),
        total: total.whole.measures(peak(&total)),
        window,
        seconds: window.map_or(1.0, |(from, to)| ((to - from) as f64 / SECOND as f64).max(1.0)),
    }
}

/// The lines of a row, interval by interval. What happened between two pages lies in parts in several of them: where
/// these are rounded, what was left over is carried on, so that the intervals add up to the whole.
fn of_intervals(length: Micros, dims: &[String], acc: &Accumulated) -> impl Iterator<Item = Line> {
    let counted = acc.by_interval.iter().filter(|(_, counts)| counts.requests > 0.0);
    let mut carried = Counts::default();
    counted.map(move |(slot, counts)| Line {
        interval: Some(slot * length),
        dims: dims.to_vec(),
        measures: carried.rounded(counts).measures(None),
    })
}
