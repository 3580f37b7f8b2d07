//! How the control plane does, on one screen. What the pages lack is absent, never 0.
//! (Rules: docs/metrics.md, section 4.)

use super::capacity::{limit_metric, objects, storage};
use super::catalogue::{Metric, Part};
use super::facts::{Component, Fact, Facts};
use super::quantile::Buckets;
use super::traffic::{is_long, is_watch};
use crate::analysis::metrics::facts::verb;
use crate::model::registry::qualified;
use crate::model::report::Value;
use crate::model::time::{self, Micros};
use crate::model::units::{bytes, counted, duration, grouped, percent, significant};

/// Classes of verbs that are looked at together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Get,
    List,
    Write,
}

impl Class {
    pub(super) const ALL: [(Self, &'static str); 3] =
        [(Self::Get, "get"), (Self::List, "list"), (Self::Write, "write")];

    /// The class of a fact of a request metric; none for requests that are not for a resource.
    pub(super) fn of(facts: &Facts, fact: &Fact) -> Option<Self> {
        if facts.text(fact.labels[3]).is_empty() {
            return None;
        }
        match &*verb(facts, fact) {
            "get" => Some(Self::Get),
            "list" => Some(Self::List),
            "create" | "update" | "patch" | "delete" | "deletecollection" => Some(Self::Write),
            _ => None,
        }
    }
}

/// At a glance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Glance {
    qps: Option<f64>,
    requests: Option<f64>,
    errors: Option<f64>,
    throttled: Option<f64>,
    throttled_per_s: Option<f64>,
    latency: [[Option<f64>; 2]; 3],
    inflight: [Option<f64>; 2],
    inflight_limit: Option<f64>,
    seats: Option<f64>,
    seat_limit: Option<f64>,
    longest_wait: Option<(String, f64)>,
    fullest: Option<(String, f64, f64)>,
    watches: Option<f64>,
    watch_events: Option<f64>,
    watch_bytes: Option<f64>,
    list_bytes: Option<f64>,
    list_size: [Option<f64>; 2],
    objects: Option<f64>,
    most_objects: Vec<(String, f64)>,
    cache: [Option<f64>; 4],
    storage: [Option<f64>; 3],
    oldest_start: Option<(f64, String)>,
    restarts: u64,
}

impl Glance {
    /// Looks.
    pub fn new(facts: &Facts) -> Self {
        let label = |fact: &Fact, at: usize| facts.text(fact.labels[at]);
        let code = |fact: &Fact| label(fact, 7).parse::<u16>().unwrap_or(200);
        let requests = |accept: &dyn Fn(&Fact) -> bool| facts.increase_of(Metric::Requests, Part::Whole, accept);
        let ms = |buckets: &Buckets| [0.5, 0.99].map(|q| buckets.quantile(q).map(|seconds| seconds * 1e3));
        let latency = Class::ALL.map(|(class, _)| {
            ms(&facts.buckets_of(Metric::Duration, |f| !is_long(facts, f) && Class::of(facts, f) == Some(class)))
        });
        let is_list = |fact: &Fact| label(fact, 0) == "LIST";
        let sizes = facts.buckets_of(Metric::ResponseSizes, is_list);
        let levels = facts.sliced(&[Metric::FlowWait, Metric::FlowSeats, limit_metric(facts)], |metric, fact| {
            let counts = metric != Metric::FlowWait || label(fact, 2) == "true";
            counts.then(|| label(fact, 0))
        });
        let waits = levels
            .iter()
            .filter_map(|(level, of)| Some(((*level).to_owned(), of.buckets(Metric::FlowWait).quantile(0.99)? * 1e3)));
        // What is exempt is not held back by its limit.
        let fullness = levels.iter().filter(|(level, _)| **level != "exempt").filter_map(|(level, of)| {
            Some(((*level).to_owned(), of.last(Metric::FlowSeats)?, of.last(limit_metric(facts))?))
        });
        let objects = objects(facts);
        let started = facts
            .instances_of(Component::Apiserver)
            .filter_map(|instance| Some((instance.start?, instance.name.clone())));
        Self {
            qps: facts.rate_of(Metric::Requests, Part::Whole, |_| true),
            requests: requests(&|_| true),
            errors: requests(&|fact| code(fact) == 0 || code(fact) >= 500),
            throttled: requests(&|fact| code(fact) == 429),
            throttled_per_s: facts.rate_of(Metric::Requests, Part::Whole, |fact| code(fact) == 429),
            latency,
            inflight: ["readOnly", "mutating"]
                .map(|kind| facts.last_of(Metric::Inflight, |fact| label(fact, 0) == kind)),
            inflight_limit: facts.last_of(Metric::LevelNominal, |_| true),
            seats: facts.last_of(Metric::FlowSeats, |_| true),
            seat_limit: facts.last_of(limit_metric(facts), |_| true),
            longest_wait: waits.max_by(|a, b| a.1.total_cmp(&b.1)),
            fullest: fullness.filter(|(_, _, limit)| *limit > 0.0).max_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2))),
            watches: facts.last_of(Metric::LongRunning, |fact| is_watch(facts, fact)),
            watch_events: facts.rate_of(Metric::WatchEvents, Part::Whole, |_| true),
            watch_bytes: facts.rate_of(Metric::WatchEventSizes, Part::Sum, |_| true),
            list_bytes: facts.rate_of(Metric::ResponseSizes, Part::Sum, is_list),
            list_size: [0.5, 0.99].map(|q| sizes.quantile(q)),
            objects: (!objects.is_empty()).then(|| objects.iter().map(|(_, count)| count).sum()),
            most_objects: objects
                .into_iter()
                .filter(|(_, count)| *count > 0.0)
                .map(|((group, resource), count)| (qualified(&group, &resource), count))
                .take(3)
                .collect(),
            cache: [
                facts.last_of(Metric::CacheCapacity, |_| true),
                facts.increase_of(Metric::CacheInitializations, Part::Whole, |_| true),
                facts.increase_of(Metric::TerminatedWatchers, Part::Whole, |_| true),
                facts.increase_of(Metric::ConsistentReads, Part::Whole, |fact| label(fact, 0) == "true"),
            ],
            storage: storage(facts),
            oldest_start: started.min_by(|a, b| a.0.total_cmp(&b.0)),
            restarts: facts.instances_of(Component::Apiserver).map(|instance| instance.restarts).sum(),
        }
    }

    /// For `totals`.
    pub fn values(&self) -> Value {
        let group = |values: Vec<(&str, Value)>| {
            Value::Group(values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        };
        let rate = self.requests.zip(self.errors).filter(|(all, _)| *all > 0.0).map(|(all, errors)| errors / all);
        let latency = Class::ALL.iter().zip(self.latency);
        let latency =
            latency.map(|((_, name), [p50, p99])| (*name, group(vec![("p50_ms", p50.into()), ("p99_ms", p99.into())])));
        let start = self.oldest_start.as_ref().map(|(start, _)| time::format(time::of_seconds(*start)));
        group(vec![
            ("qps", self.qps.into()),
            ("error_rate", rate.into()),
            ("throttled", count(self.throttled)),
            ("throttled_per_s", self.throttled_per_s.into()),
            ("latency", group(latency.collect())),
            ("inflight", group(vec![("read_only", count(self.inflight[0])), ("mutating", count(self.inflight[1]))])),
            ("inflight_limit", count(self.inflight_limit)),
            ("seats", group(vec![("in_use", count(self.seats)), ("limit", count(self.seat_limit))])),
            ("watches", count(self.watches)),
            ("watch_events_per_s", self.watch_events.into()),
            ("watch_bytes_per_s", self.watch_bytes.into()),
            ("list_bytes_per_s", self.list_bytes.into()),
            (
                "list_size",
                group(vec![("p50_bytes", self.list_size[0].into()), ("p99_bytes", self.list_size[1].into())]),
            ),
            ("objects", count(self.objects)),
            (
                "watch_cache",
                group(vec![
                    ("capacity", count(self.cache[0])),
                    ("initializations", count(self.cache[1])),
                    ("terminated_watchers", count(self.cache[2])),
                    ("fallbacks", count(self.cache[3])),
                ]),
            ),
            (
                "storage",
                group(vec![
                    ("bytes", count(self.storage[0])),
                    ("in_use_bytes", count(self.storage[1])),
                    ("quota_bytes", count(self.storage[2])),
                ]),
            ),
            ("oldest_start", start.map_or(Value::None, Value::Text)),
            ("restarts", Value::Count(self.restarts)),
        ])
    }

    /// For people: a line for each thing, its name before a tab.
    pub fn lines(&self, to: Micros) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = |name: &str, parts: Vec<String>| lines.push(format!("{name}\t{}", parts.join("; ")));
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), significant);
        let whole = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| grouped(value.round() as u64));
        let size = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), bytes);
        let share =
            self.requests.zip(self.errors).filter(|(all, _)| *all > 0.0).map(|(all, errors)| percent(errors / all));
        line(
            "requests",
            vec![
                format!("{}/s", number(self.qps)),
                format!("{} 5xx", share.unwrap_or_else(|| "-".to_owned())),
                format!("{} throttled (429)", whole(self.throttled)),
            ],
        );
        let of_class = |(at, (_, name)): (usize, &(Class, &str))| {
            let [p50, p99] = self.latency[at];
            format!("{name} p50 {}, p99 {}", millis(p50), millis(p99))
        };
        line("latency", Class::ALL.iter().enumerate().map(of_class).collect());
        let limit = self
            .inflight_limit
            .map_or_else(|| "limit unknown".to_owned(), |limit| format!("of {}", grouped(limit as u64)));
        line(
            "inflight",
            vec![format!("{} read-only and {} mutating, {limit}", whole(self.inflight[0]), whole(self.inflight[1]))],
        );
        let mut seats = vec![format!("{} of {} in use", whole(self.seats), whole(self.seat_limit))];
        if let Some((level, used, limit)) = self.fullest.as_ref().filter(|(_, used, _)| *used > 0.0) {
            seats.push(format!(
                "fullest {level} with {} of {}",
                grouped(used.round() as u64),
                grouped(limit.round() as u64)
            ));
        }
        if let Some((level, wait)) = &self.longest_wait {
            seats.push(format!("longest queue wait (p99) {} in {level}", millis(Some(*wait))));
        }
        line("seats", seats);
        line(
            "lists",
            vec![
                format!("{}/s on the wire", size(self.list_bytes)),
                format!("size p50 {}, p99 {}", size(self.list_size[0]), size(self.list_size[1])),
            ],
        );
        line(
            "watches",
            vec![
                format!("{} open", whole(self.watches)),
                format!("{} events/s, {}/s sent", number(self.watch_events), size(self.watch_bytes)),
            ],
        );
        let [capacity, initializations, terminated, fallbacks] = self.cache;
        line(
            "watch cache",
            vec![
                format!("room for {} events", whole(capacity)),
                format!(
                    "{} initializations, {} watchers terminated, {} reads fell back to etcd",
                    whole(initializations),
                    whole(terminated),
                    whole(fallbacks)
                ),
            ],
        );
        let most: Vec<String> = self
            .most_objects
            .iter()
            .map(|(resource, count)| format!("{resource} {}", grouped(*count as u64)))
            .collect();
        let most = if most.is_empty() { String::new() } else { format!(" ({} …)", most.join(", ")) };
        line("objects", vec![format!("{}{most}", whole(self.objects))]);
        let [used, in_use, quota] = self.storage;
        let share = used.zip(quota).map_or(String::new(), |(used, quota)| format!(" ({})", percent(used / quota)));
        line(
            "storage",
            vec![format!("{} of {} quota{share}", size(used), size(quota)), format!("{} in use", size(in_use))],
        );
        let start = self.oldest_start.as_ref().map_or_else(
            || "-".to_owned(),
            |(start, name)| {
                let since = duration((to - time::of_seconds(*start)).max(0));
                let name = if name.is_empty() { String::new() } else { format!(" by {name}") };
                format!("oldest process runs for {since}{name}")
            },
        );
        line("started", vec![start, counted(self.restarts, "restart") + " seen"]);
        lines
    }
}

/// Milliseconds; seconds where there are many.
fn millis(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms >= 1000.0 => format!("{} s", significant(ms / 1e3)),
        Some(ms) => format!("{} ms", significant(ms)),
    }
}

/// A count, which gauges and counters give as a float.
pub(super) fn count(value: Option<f64>) -> Value {
    value
        .filter(|value| value.is_finite() && *value >= 0.0)
        .map_or(Value::None, |value| Value::Count(value.round() as u64))
}
