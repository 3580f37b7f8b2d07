//! What an audit log shows of the requests that the apiserver counted: an audit policy may leave out any of them,
//! and then every share of the log lies. (Rules: docs/metrics.md, section 6.)

use crate::analysis::metrics::facts::Facts;
use crate::model::event::{Event, Stage, Stream, Timed};
use crate::model::symbols::{Symbol, Symbols};
use crate::model::time::{Micros, SECOND};
use crate::model::units::{counted, duration, grouped, percent};
use hashbrown::HashMap;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Requests in the metrics below which a difference tells nothing.
const FEW: f64 = 20.0;

/// A smaller share of the log is reported.
const WHOLE: f64 = 0.9;

/// Kinds that are named to people.
const NAMED: usize = 5;

/// Subresources that audit logs and metrics count under different verbs.
pub const CONNECTED: [&str; 5] = ["exec", "attach", "portforward", "proxy", "log"];

/// Of each log, when the metrics of its instance were counting.
#[derive(Debug, Default)]
pub struct Windows {
    /// By the stream's number: spans that do not touch, in order; and the index of the instance.
    by_stream: Vec<Option<(Vec<(Micros, Micros)>, usize)>>,
}

impl Windows {
    /// Puts logs and instances together by cluster and name; `None` if there is no pair.
    pub fn new<'s>(streams: impl Iterator<Item = &'s Stream>, facts: &Facts) -> Option<Self> {
        let mut windows = Self::default();
        for stream in streams {
            let same = |(_, instance): &(usize, &crate::analysis::metrics::facts::Instance)| {
                instance.name == stream.instance && instance.cluster == stream.cluster && !instance.since_start
            };
            let found = facts.instances.iter().enumerate().find(same).map(|(at, instance)| (joined(&instance.intervals), at));
            let at = stream.id as usize;
            windows.by_stream.resize_with(windows.by_stream.len().max(at + 1), || None);
            windows.by_stream[at] = found.filter(|(spans, _)| !spans.is_empty());
        }
        windows.by_stream.iter().any(Option::is_some).then_some(windows)
    }

    /// Whether metrics were counting at a time, or nearly so.
    fn covers(&self, stream: u32, at: Micros) -> Covered {
        let Some(Some((spans, _))) = self.by_stream.get(stream as usize) else { return Covered::No };
        let within = |slack: Micros| {
            let next = spans.partition_point(|(_, end)| end + slack < at);
            spans.get(next).is_some_and(|(start, _)| start - slack < at)
        };
        match (within(0), within(SECOND)) {
            (true, _) => Covered::Yes,
            (_, true) => Covered::Nearly,
            _ => Covered::No,
        }
    }
}

/// Whether a time lies between two pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Covered {
    Yes,
    /// No more than a second away: pages are often named by whole seconds.
    Nearly,
    No,
}

/// Spans that follow one another without a gap, as one.
fn joined(intervals: &[(Micros, Micros)]) -> Vec<(Micros, Micros)> {
    let mut spans: Vec<(Micros, Micros)> = Vec::new();
    for &(start, end) in intervals {
        match spans.last_mut() {
            Some((_, last)) if *last == start => *last = end,
            _ => spans.push((start, end)),
        }
    }
    spans
}

/// What one thread saw in the logs.
#[derive(Debug)]
pub struct Seen<'w> {
    windows: &'w Windows,
    symbols: Symbols,
    /// By verb and resource: requests between pages, and those that are nearly so.
    counts: HashMap<(Symbol, Symbol), [u64; 2]>,
}

impl<'w> Seen<'w> {
    /// Nothing yet.
    pub fn new(windows: &'w Windows) -> Self {
        Self { windows, symbols: Symbols::default(), counts: HashMap::new() }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Timed<'_, '_>) {
        let e = event.event;
        let ends = matches!(event.stage, Stage::ResponseComplete | Stage::Panic);
        let covered = self.windows.covers(event.stream.id, event.at);
        if !ends || covered == Covered::No || e.resource.is_empty() || is_refused(e) {
            return;
        }
        if !CONNECTED.iter().any(|name| e.subresource.is(name)) {
            let key = (self.symbols.intern_json(e.verb), self.symbols.intern_json(e.resource));
            self.counts.entry(key).or_default()[usize::from(covered == Covered::Nearly)] += 1;
        }
    }
}

/// Whether the request never came so far that the apiserver counts it.
fn is_refused(event: &Event<'_>) -> bool {
    event.code == Some(401) || event.code == Some(403) && memchr::memmem::find(event.annotations, br#"/decision":"forbid""#).is_some()
}

/// Requests of one kind, in the log and in the metrics.
#[derive(Debug, Clone, PartialEq)]
struct Kind {
    verb: String,
    resource: String,
    audit: u64,
    nearly: u64,
    metrics: f64,
}

impl Kind {
    fn share(&self) -> f64 {
        self.audit as f64 / self.metrics
    }

    fn is_missing(&self) -> bool {
        self.metrics >= FEW && ((self.audit + self.nearly) as f64) < WHOLE * self.metrics
    }
}

/// How much of what the apiservers counted the log shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    seconds: f64,
    audit: u64,
    metrics: f64,
    /// What is missing, the most first.
    missing: Vec<Kind>,
}

impl Comparison {
    /// Compares what the threads saw with the metrics.
    pub fn new(windows: &Windows, seen: &[Seen<'_>], facts: &Facts) -> Self {
        let instances: Vec<usize> = windows.by_stream.iter().flatten().map(|(_, instance)| *instance).collect();
        let mut kinds: BTreeMap<(String, String), ([u64; 2], f64)> = BTreeMap::new();
        for seen in seen {
            for (&(verb, resource), count) in &seen.counts {
                let key = (seen.symbols.get(verb).to_owned(), seen.symbols.get(resource).to_owned());
                let known = &mut kinds.entry(key).or_default().0;
                known.iter_mut().zip(count).for_each(|(known, count)| *known += count);
            }
        }
        for (instance, verb, resource, subresource, increase) in facts.requests() {
            if instances.contains(&instance) && !resource.is_empty() && verb != "connect" && !CONNECTED.contains(&subresource) {
                kinds.entry((verb.into_owned(), resource.to_owned())).or_default().1 += increase;
            }
        }
        let spans = windows.by_stream.iter().flatten().flat_map(|(spans, _)| spans);
        let longest = spans.clone().map(|(_, end)| *end).max().zip(spans.map(|(start, _)| *start).min());
        let kinds: Vec<Kind> = kinds
            .into_iter()
            .map(|((verb, resource), ([audit, nearly], metrics))| Kind { verb, resource, audit, nearly, metrics })
            .collect();
        let mut missing: Vec<Kind> = kinds.iter().filter(|kind| kind.is_missing()).cloned().collect();
        missing.sort_by(|a, b| (b.metrics - b.audit as f64).total_cmp(&(a.metrics - a.audit as f64)));
        Self {
            seconds: longest.map_or(0.0, |(end, start)| (end - start) as f64 / SECOND as f64),
            audit: kinds.iter().map(|kind| kind.audit).sum(),
            metrics: kinds.iter().map(|kind| kind.metrics).sum(),
            missing,
        }
    }

    fn share(&self) -> Option<f64> {
        (self.metrics > 0.0).then(|| self.audit as f64 / self.metrics)
    }

    /// For `coverage`.
    pub fn json(&self) -> Json {
        let kind = |k: &Kind| json!({"verb": k.verb, "resource": k.resource, "audit": k.audit, "metrics": k.metrics, "share": k.share()});
        json!({
            "seconds": self.seconds, "audit": self.audit, "metrics": self.metrics, "share": self.share(),
            "missing": self.missing.iter().map(kind).collect::<Vec<_>>(),
        })
    }

    /// A sentence for people.
    pub fn note(&self) -> Option<String> {
        let mut note = format!(
            "The log shows {} of the {} that the apiservers' metrics count in the {} that both cover",
            percent(self.share()?),
            counted(self.metrics.round() as u64, "request"),
            duration((self.seconds * 1e6) as Micros),
        );
        if self.missing.is_empty() {
            return Some(note + ".");
        }
        let named: Vec<String> = self
            .missing
            .iter()
            .take(NAMED)
            .map(|kind| format!("{} {} ({} of {})", kind.verb, kind.resource, grouped(kind.audit), grouped(kind.metrics.round() as u64)))
            .collect();
        note += &format!("; the audit policy hides {}", named.join(", "));
        if self.missing.len() > NAMED {
            note += &format!(" and {}", counted((self.missing.len() - NAMED) as u64, "more kind"));
        }
        Some(note + ". Shares are of what is logged.")
    }
}
