//! What an audit log shows of the requests that the apiserver counted: an audit policy may leave out any of them,
//! and then every share of the log lies. (Rules: docs/metrics.md, section 6.)

use crate::analysis::metrics::facts::{Facts, Instance};
use crate::model::event::{Event, Stage, Stream, Timed};
use crate::model::symbols::{Symbol, Symbols};
use crate::model::time::{Micros, SECOND};
use crate::model::units::{counted, duration, grouped, percent};
use hashbrown::HashMap;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests in the metrics below which a difference shows nothing.
const MIN_REQUESTS: f64 = 20.0;

/// A smaller share of the log is reported.
const WHOLE: f64 = 0.9;

/// Kinds that are named to people.
const NAMED: usize = 5;

/// Subresources that audit logs and metrics count under different verbs.
pub const CONNECTED: [&str; 5] = ["exec", "attach", "portforward", "proxy", "log"];

/// A log may begin and end this far within the time between two pages, which is compared all the same: even a busy
/// apiserver has moments without a request.
const SLACK: Micros = 5 * SECOND;

/// Of each log, when the metrics of its instance were counting.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// By the stream's number.
    by_stream: Vec<Option<Window>>,
}

/// The times between the pages of an instance.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    /// In order; they may have gaps, where one process ended and another began.
    intervals: Vec<(Micros, Micros)>,
    instance: usize,
}

impl Windows {
    /// Puts logs and instances together by cluster and name; `None` if there is no pair.
    pub fn new<'s>(streams: impl Iterator<Item = &'s Stream>, facts: &Facts) -> Option<Self> {
        let mut windows = Self::default();
        for stream in streams {
            let same = |(_, instance): &(usize, &Instance)| {
                instance.name == stream.instance && instance.cluster == stream.cluster && !instance.intervals.is_empty()
            };
            let found = facts.instances.iter().enumerate().find(same);
            let at = stream.id as usize;
            windows.by_stream.resize_with(windows.by_stream.len().max(at + 1), || None);
            windows.by_stream[at] =
                found.map(|(instance, found)| Window { intervals: found.intervals.clone(), instance });
        }
        windows.by_stream.iter().any(Option::is_some).then_some(windows)
    }

    /// The interval that a time lies in, or nearly so.
    fn interval(&self, stream: u32, at: Micros) -> Option<(u32, Covered)> {
        let window = self.by_stream.get(stream as usize)?.as_ref()?;
        let next = window.intervals.partition_point(|(_, end)| *end < at);
        if window.intervals.get(next).is_some_and(|(start, _)| *start < at) {
            return Some((next as u32, Covered::Yes));
        }
        let before = next.checked_sub(1).filter(|before| at - window.intervals[*before].1 <= SECOND);
        let near = before.or_else(|| {
            Some(next).filter(|next| window.intervals.get(*next).is_some_and(|(start, _)| start - at <= SECOND))
        });
        near.map(|near| (near as u32, Covered::Nearly))
    }
}

/// Whether a time lies between two pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Covered {
    Yes,
    /// No more than a second away: pages are often named by whole seconds.
    Nearly,
}

/// Requests of one kind in one interval of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    stream: u32,
    interval: u32,
    verb: Symbol,
    resource: Symbol,
}

/// What one thread saw in the logs.
#[derive(Debug)]
pub struct Seen {
    windows: Arc<Windows>,
    symbols: Symbols,
    /// Requests between pages, and those that are nearly so.
    counts: HashMap<Key, [u64; 2]>,
}

impl Seen {
    /// Nothing yet.
    pub fn new(windows: Arc<Windows>) -> Self {
        Self { windows, symbols: Symbols::default(), counts: HashMap::new() }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Timed<'_, '_>) {
        let e = event.event;
        let ends = matches!(event.stage, Stage::ResponseComplete | Stage::Panic);
        if !ends || e.resource.is_empty() || is_refused(e) || CONNECTED.iter().any(|name| e.subresource.is(name)) {
            return;
        }
        let Some((interval, covered)) = self.windows.interval(event.stream.id, event.at) else { return };
        let (verb, resource) = (self.symbols.intern_json(e.verb), self.symbols.intern_json(e.resource));
        let key = Key { stream: event.stream.id, interval, verb, resource };
        self.counts.entry(key).or_default()[usize::from(covered == Covered::Nearly)] += 1;
    }
}

/// Whether the request never came so far that the apiserver counts it.
fn is_refused(event: &Event<'_>) -> bool {
    event.code == Some(401)
        || event.code == Some(403) && memchr::memmem::find(event.annotations, br#"/decision":"forbid""#).is_some()
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
        self.metrics >= MIN_REQUESTS && ((self.audit + self.nearly) as f64) < WHOLE * self.metrics
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
    /// Compares what the threads saw with the metrics. `spans`: by the stream's number, its first and last event; only
    /// times between pages that lie within are compared, since nothing can be said of a time from which there is no
    /// log. `None` if there is no such time.
    pub fn new(windows: &Windows, seen: &[Seen], facts: &Facts, spans: &[Option<(Micros, Micros)>]) -> Option<Self> {
        let compared = |stream: usize, interval: usize| {
            let window = windows.by_stream.get(stream)?.as_ref()?;
            let &(start, end) = window.intervals.get(interval)?;
            let (first, last) = spans.get(stream).copied().flatten()?;
            (first - SLACK <= start && end <= last + SLACK).then_some(end - start)
        };
        let mut kinds: BTreeMap<(String, String), ([u64; 2], f64)> = BTreeMap::new();
        for seen in seen {
            for (&Key { stream, interval, verb, resource }, count) in &seen.counts {
                if compared(stream as usize, interval as usize).is_some() {
                    let key = (seen.symbols.get(verb).to_owned(), seen.symbols.get(resource).to_owned());
                    let known = &mut kinds.entry(key).or_default().0;
                    known.iter_mut().zip(count).for_each(|(known, count)| *known += count);
                }
            }
        }
        let mut longest = 0;
        for (stream, window) in windows.by_stream.iter().enumerate() {
            let Some(window) = window else { continue };
            let length = (0..window.intervals.len()).filter_map(|interval| compared(stream, interval)).sum::<Micros>();
            longest = longest.max(length);
            for (verb, resource, subresource, course) in facts.requests_of(window.instance) {
                if resource.is_empty() || verb == "connect" || CONNECTED.contains(&subresource) {
                    continue;
                }
                let within = course.iter().filter(|(interval, _)| compared(stream, *interval as usize).is_some());
                let sum: f64 = within.map(|(_, count)| count).sum();
                if sum > 0.0 {
                    kinds.entry((verb.into_owned(), resource.to_owned())).or_default().1 += sum;
                }
            }
        }
        if longest == 0 {
            return None;
        }
        let kinds: Vec<Kind> = kinds
            .into_iter()
            .map(|((verb, resource), ([audit, nearly], metrics))| Kind { verb, resource, audit, nearly, metrics })
            .collect();
        let mut missing: Vec<Kind> = kinds.iter().filter(|kind| kind.is_missing()).cloned().collect();
        missing.sort_by(|a, b| (b.metrics - b.audit as f64).total_cmp(&(a.metrics - a.audit as f64)));
        Some(Self {
            seconds: longest as f64 / SECOND as f64,
            audit: kinds.iter().map(|kind| kind.audit).sum(),
            metrics: kinds.iter().map(|kind| kind.metrics).sum(),
            missing,
        })
    }

    fn share(&self) -> Option<f64> {
        (self.metrics > 0.0).then(|| self.audit as f64 / self.metrics)
    }

    /// For `coverage`.
    pub fn json(&self) -> Json {
        let kind = |k: &Kind| {
            json!({"verb": k.verb, "resource": k.resource, "audit": k.audit, "metrics": k.metrics,
            "share": k.share()})
        };
        json!({
            "seconds": self.seconds, "audit": self.audit, "metrics": self.metrics, "share": self.share(),
            "missing": self.missing.iter().map(kind).collect::<Vec<_>>(),
        })
    }

    /// A sentence for people.
    pub fn note(&self) -> Option<String> {
        let mut note = format!(
            "The log shows {} of the {} that the apiservers' metrics count in the {} that both cover",
            percent(self.share()?.min(1.0)),
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
            .map(|kind| {
                format!(
                    "{} {} ({} of {})",
                    kind.verb,
                    kind.resource,
                    grouped(kind.audit),
                    grouped(kind.metrics.round() as u64)
                )
            })
            .collect();
        note += &format!("; the audit policy hides {}", named.join(", "));
        if self.missing.len() > NAMED {
            note += &format!(" and {}", counted((self.missing.len() - NAMED) as u64, "more kind"));
        }
        Some(note + ". Shares are of what is logged.")
    }
}
