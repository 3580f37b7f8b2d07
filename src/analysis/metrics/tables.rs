//! The tables behind the glance: priority levels, objects, LISTs, watches, webhooks, objectives.
//! (Rules: docs/metrics.md, section 4.)

use super::catalogue::{Metric, Part};
use super::facts::{Fact, Facts};
use super::glance::{Class, count, level_limit, levels, objects};
use super::traffic::is_watch;
use crate::model::report::{Table, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Share of requests that Kubernetes' objectives allow to be slow or to fail.
const BUDGET: f64 = 0.01;

/// All tables that the pages have something for.
pub fn tables(facts: &Facts) -> Vec<Table> {
    let all = [priority_levels(facts), objectives(facts), lists(facts), watches(facts), webhooks(facts), stored(facts)];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn table(name: &str, title: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Table {
    Table { name: name.to_owned(), title: title.to_owned(), columns: columns.iter().map(|c| (*c).to_owned()).collect(), rows }
}

/// Largest first by a column.
fn by(mut rows: Vec<Vec<Value>>, column: usize) -> Vec<Vec<Value>> {
    let number = |value: &Value| match value {
        Value::Count(count) => *count as f64,
        Value::Number(number) => *number,
        _ => -1.0,
    };
    rows.sort_by(|a, b| number(&b[column]).total_cmp(&number(&a[column])));
    rows
}

fn ms(seconds: Option<f64>) -> Value {
    seconds.map(|seconds| seconds * 1e3).into()
}

fn priority_levels(facts: &Facts) -> Table {
    let rows = levels(facts).into_iter().map(|level| {
        let here = |fact: &Fact| facts.text(fact.labels[0]) == level;
        let wait = facts.buckets_of(Metric::FlowWait, |fact| here(fact) && facts.text(fact.labels[2]) == "true");
        let seats = facts.last_of(Metric::FlowSeats, here);
        let limit = level_limit(facts, &level);
        // A level that never rejected has no series for it.
        let rejected = facts.increase_of(Metric::FlowRejected, Part::Whole, here).or(facts.has(Metric::FlowDispatched).then_some(0.0));
        vec![
            Value::from(level.as_str()),
            count(seats),
            count(limit),
            count(facts.last_of(Metric::LevelNominal, here)),
            seats.zip(limit).filter(|(_, limit)| *limit > 0.0).map(|(seats, limit)| seats / limit).into(),
            count(facts.last_of(Metric::FlowExecuting, here)),
            count(facts.last_of(Metric::FlowQueued, here)),
            facts.rate_of(Metric::FlowDispatched, Part::Whole, here).into(),
            count(rejected),
            ms(wait.quantile(0.5)),
            ms(wait.quantile(0.99)),
        ]
    });
    table(
        "priority_levels",
        "Priority levels: seats in use and their limit, and how long requests wait in queues",
        &[
            "priority_level",
            "seats",
            "limit",
            "nominal",
            "utilization",
            "executing",
            "queued",
            "dispatched_per_s",
            "rejected",
            "wait_p50_ms",
            "wait_p99_ms",
        ],
        by(rows.collect(), 7),
    )
}

/// Kubernetes' own service level objectives for request latency.
fn objectives(facts: &Facts) -> Table {
    const LONG: [&str; 5] = ["proxy", "exec", "attach", "log", "portforward"];
    let class = |fact: &Fact| {
        let label = |at: usize| facts.text(fact.labels[at]);
        if LONG.contains(&label(4)) {
            return None;
        }
        match (Class::of(facts, fact)?, label(5)) {
            (Class::Write, _) => Some("write"),
            (_, "resource") => Some("read-object"),
            (_, "namespace") => Some("read-namespace"),
            (_, "cluster") => Some("read-cluster"),
            _ => None,
        }
    };
    let rows =
        [("write", 1.0), ("read-object", 1.0), ("read-namespace", 30.0), ("read-cluster", 30.0)].into_iter().filter_map(|(name, bound)| {
            if !facts.has(Metric::SliDuration) {
                return None;
            }
            let buckets = facts.buckets_of(Metric::SliDuration, |fact| class(fact) == Some(name));
            // Where nothing of a class was asked for, nothing was slow; where the bound has no bucket, it can't be told.
            let slow = match buckets.count() {
                None => Some(0.0),
                Some(all) => buckets.up_to(bound).map(|in_time| all - in_time),
            };
            let failed = |fact: &Fact| {
                class(fact) == Some(name) && facts.text(fact.labels[7]).parse::<u16>().is_ok_and(|code| code == 0 || code >= 500)
            };
            let errors = facts.increase_of(Metric::Requests, Part::Whole, failed);
            let requests = facts.increase_of(Metric::Requests, Part::Whole, |fact| class(fact) == Some(name));
            let bad = errors.zip(requests).filter(|(_, requests)| *requests > 0.0);
            let bad = bad.zip(slow).map(|((errors, requests), slow)| (slow + errors) / requests);
            Some(vec![
                name.into(),
                bound.into(),
                count(requests),
                count(slow),
                count(errors),
                bad.map(|bad| 1.0 - bad).into(),
                bad.map(|bad| bad / BUDGET).into(),
            ])
        });
    table(
        "slo",
        "Objectives of Kubernetes: 99 % of requests in time and without error (burn rate above 1: the month's budget will not last)",
        &["class", "bound_s", "requests", "slow", "errors", "good_share", "burn_rate"],
        rows.collect(),
    )
}

type Resource = (String, String);

/// The resources of some metrics; `request` ones have them among the labels of requests.
fn resources(facts: &Facts, metrics: &[Metric], accept: impl Fn(&Fact) -> bool) -> BTreeSet<Resource> {
    let found = metrics.iter().flat_map(|metric| facts.of(*metric)).filter(|fact| accept(fact));
    found.map(|fact| resource(facts, fact)).filter(|(_, resource)| !resource.is_empty()).collect()
}

/// Group and resource of a fact, whether of a request metric or another.
fn resource(facts: &Facts, fact: &Fact) -> Resource {
    let (group, resource) = if fact.labels.len() > 2 { (1, 3) } else { (0, 1) };
    (facts.text(fact.labels[group]).to_owned(), facts.text(fact.labels[resource]).to_owned())
}

fn lists(facts: &Facts) -> Table {
    let is_list = |fact: &Fact| fact.labels.len() > 2 && facts.text(fact.labels[0]) == "LIST";
    let rows = resources(facts, &[Metric::Requests], is_list).into_iter().map(|of| {
        let here = |fact: &Fact| resource(facts, fact) == of;
        let listed = |fact: &Fact| is_list(fact) && here(fact);
        let fetched = [Metric::CacheFetched, Metric::StorageFetched].map(|metric| facts.increase_of(metric, Part::Whole, here));
        let asked = facts.increase_of(Metric::Requests, Part::Whole, listed);
        let fetched = fetched.iter().any(Option::is_some).then(|| fetched.iter().flatten().sum::<f64>());
        let per_list = fetched.zip(asked).filter(|(_, asked)| *asked > 0.0).map(|(fetched, asked)| fetched / asked);
        vec![
            of.0.as_str().into(),
            of.1.as_str().into(),
            facts.rate_of(Metric::Requests, Part::Whole, listed).into(),
            facts.rate_of(Metric::ResponseSizes, Part::Sum, listed).into(),
            facts.buckets_of(Metric::ResponseSizes, listed).quantile(0.99).into(),
            ms(facts.buckets_of(Metric::Duration, listed).quantile(0.99)),
            facts.rate_of(Metric::CacheLists, Part::Whole, here).into(),
            facts.rate_of(Metric::StorageFetched, Part::Whole, here).into(),
            per_list.into(),
        ]
    });
    table(
        "lists",
        "LISTs by resource: bytes on the wire (after gzip), and objects read to answer them",
        &[
            "group",
            "resource",
            "lists_per_s",
            "bytes_per_s",
            "p99_bytes",
            "p99_ms",
            "cache_per_s",
            "etcd_objects_per_s",
            "fetched_per_list",
        ],
        by(rows.filter(|row| row[2] != Value::Number(0.0)).collect(), 3),
    )
}

fn watches(facts: &Facts) -> Table {
    let is_watch = |fact: &Fact| is_watch(facts, fact);
    let mut all = resources(facts, &[Metric::LongRunning], is_watch);
    all.extend(resources(facts, &[Metric::WatchEvents], |_| true));
    let rows = all.into_iter().map(|of| {
        let here = |fact: &Fact| resource(facts, fact) == of;
        let incoming = facts.rate_of(Metric::CacheEvents, Part::Whole, here);
        let outgoing = facts.rate_of(Metric::WatchEvents, Part::Whole, here);
        let capacity = facts.last_of(Metric::CacheCapacity, here);
        // Each instance has a cache and receives every event.
        let history = facts.of(Metric::CacheCapacity).iter().filter(|fact| here(fact)).filter_map(|fact| {
            let same = facts.of(Metric::CacheEvents).iter().filter(|other| other.instance == fact.instance && here(other));
            let rate: f64 = same.map(|fact| facts.rate(fact)).sum();
            Some(fact.last? / Some(rate).filter(|rate| *rate > 0.0)?)
        });
        vec![
            of.0.as_str().into(),
            of.1.as_str().into(),
            count(facts.last_of(Metric::LongRunning, |fact| is_watch(fact) && here(fact))),
            incoming.into(),
            outgoing.into(),
            facts.rate_of(Metric::WatchEventSizes, Part::Sum, here).into(),
            incoming.zip(outgoing).filter(|(incoming, _)| *incoming > 0.0).map(|(incoming, outgoing)| outgoing / incoming).into(),
            count(capacity),
            history.min_by(f64::total_cmp).into(),
        ]
    });
    let idle = |row: &[Value]| matches!(row[2], Value::None | Value::Count(0)) && matches!(row[4], Value::None | Value::Number(0.0));
    table(
        "watches",
        "Watches by resource: events received once, sent to every watcher; seconds of history that the watch cache holds",
        &["group", "resource", "watchers", "events_in_per_s", "events_out_per_s", "bytes_out_per_s", "fan_out", "capacity", "history_s"],
        by(rows.filter(|row: &Vec<Value>| !idle(row)).collect(), 4),
    )
}

fn webhooks(facts: &Facts) -> Table {
    let mut all: BTreeMap<Vec<String>, ()> = BTreeMap::new();
    let labels = |fact: &Fact| fact.labels.iter().map(|label| facts.text(*label).to_owned()).collect::<Vec<_>>();
    for fact in facts.of(Metric::WebhookDuration).iter().chain(facts.of(Metric::WebhookRejections)) {
        all.insert(labels(fact), ());
    }
    let rows = all.into_keys().map(|of| {
        let here = |fact: &Fact| labels(fact) == of;
        let duration = facts.buckets_of(Metric::WebhookDuration, here);
        let open = |fact: &Fact| labels(fact)[..2] == of[..2];
        let seen = facts.has(Metric::WebhookDuration).then_some(0.0);
        let mut row: Vec<Value> = of.iter().map(|text| text.as_str().into()).collect();
        row.extend([
            facts.rate_of(Metric::WebhookDuration, Part::Count, here).into(),
            ms(duration.quantile(0.5)),
            ms(duration.quantile(0.99)),
            count(facts.increase_of(Metric::WebhookRejections, Part::Whole, here).or(seen)),
            count(facts.increase_of(Metric::WebhookFailOpen, Part::Whole, open).or(seen)),
        ]);
        row
    });
    table(
        "webhooks",
        "Admission webhooks: calls, latency, requests that they rejected, calls that failed and were let through",
        &["name", "type", "operation", "calls_per_s", "p50_ms", "p99_ms", "rejections", "failed_open"],
        by(rows.collect(), 3),
    )
}

fn stored(facts: &Facts) -> Table {
    let rows = objects(facts).into_iter().map(|((group, resource), objects)| {
        let here = |fact: &&Fact| facts.text(fact.labels[0]) == group && facts.text(fact.labels[1]) == resource;
        let sizes = facts.of(Metric::StorageObjectBytes).iter().filter(here).filter_map(|fact| fact.last);
        let bytes = sizes.filter(|bytes| *bytes >= 0.0).max_by(f64::total_cmp);
        vec![group.as_str().into(), resource.as_str().into(), count(Some(objects)), count(bytes)]
    });
    let rows = rows.filter(|row: &Vec<Value>| row[2] != Value::Count(0)).collect();
    table("objects", "Objects in the store, and the bytes that they take there", &["group", "resource", "objects", "bytes"], rows)
}
