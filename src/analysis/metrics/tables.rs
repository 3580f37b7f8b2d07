//! The tables behind the glance: priority levels, objects, LISTs, watches, webhooks, objectives.
//! (Rules: docs/metrics.md, section 4.)

use super::capacity::{limit_metric, objects};
use super::catalogue::{Metric, Part};
use super::facts::{Fact, Facts};
use super::glance::count;
use super::objectives::{Missed, missed};
use super::traffic::is_watch;
use crate::analysis::objectives::BUDGET;
use crate::model::report::{Table, Value};

/// All tables that the pages have something for.
pub fn tables(facts: &Facts) -> Vec<Table> {
    let all = [priority_levels(facts), objectives(facts), lists(facts), watches(facts), webhooks(facts), stored(facts)];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn table(name: &str, title: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Table {
    Table {
        name: name.to_owned(),
        title: title.to_owned(),
        columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        rows,
        ..Table::default()
    }
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
    const METRICS: [Metric; 8] = [
        Metric::FlowSeats,
        Metric::LevelNominal,
        Metric::LevelLimit,
        Metric::FlowExecuting,
        Metric::FlowQueued,
        Metric::FlowDispatched,
        Metric::FlowRejected,
        Metric::FlowWait,
    ];
    // Of queues, only the waits that ended in execution count.
    let of = facts.sliced(&METRICS, |metric, fact| {
        let counts = metric != Metric::FlowWait || facts.text(fact.labels[2]) == "true";
        counts.then(|| facts.text(fact.labels[0]))
    });
    let rows = of.into_iter().map(|(level, of)| {
        let wait = of.buckets(Metric::FlowWait);
        let (seats, limit) = (of.last(Metric::FlowSeats), of.last(limit_metric(facts)));
        vec![
            Value::from(level),
            count(seats),
            count(limit),
            count(of.last(Metric::LevelNominal)),
            seats.zip(limit).filter(|(_, limit)| *limit > 0.0).map(|(seats, limit)| seats / limit).into(),
            count(of.last(Metric::FlowExecuting)),
            count(of.last(Metric::FlowQueued)),
            of.rate(Metric::FlowDispatched, Part::Whole).into(),
            count(of.increase(Metric::FlowRejected, Part::Whole)),
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
    let row = |own: Missed| {
        vec![
            own.class.into(),
            Value::Count(own.bound),
            count(own.requests),
            count(own.slow),
            count(own.errors),
            own.bad_share().map(|bad| 1.0 - bad).into(),
            own.bad_share().map(|bad| bad / BUDGET).into(),
        ]
    };
    table(
        "slo",
        "Service level objective: 99 % of requests within the latency target and without error (burn rate above 1: \
         the monthly error budget runs out)",
        &["class", "bound_s", "requests", "slow", "errors", "good_share", "burn_rate"],
        missed(facts).into_iter().map(row).collect(),
    )
}

/// Group and resource of a fact, whether of a request metric or another; none where it is of no resource.
fn resource<'f>(facts: &'f Facts, fact: &Fact) -> Option<(&'f str, &'f str)> {
    let (group, resource) = if fact.labels.len() > 2 { (1, 3) } else { (0, 1) };
    let found = (facts.text(fact.labels[group]), facts.text(fact.labels[resource]));
    (!found.1.is_empty()).then_some(found)
}

fn lists(facts: &Facts) -> Table {
    const OF_REQUESTS: [Metric; 3] = [Metric::Requests, Metric::ResponseSizes, Metric::Duration];
    const OF_STORE: [Metric; 3] = [Metric::CacheLists, Metric::CacheFetched, Metric::StorageFetched];
    let of = facts.sliced(&[OF_REQUESTS, OF_STORE].concat(), |metric, fact| {
        let counts = OF_STORE.contains(&metric) || facts.text(fact.labels[0]) == "LIST";
        resource(facts, fact).filter(|_| counts)
    });
    let listed =
        of.into_iter().filter(|(_, of)| of.increase(Metric::Requests, Part::Whole).is_some_and(|lists| lists > 0.0));
    let rows = listed.map(|((group, resource), of)| {
        let fetched = [Metric::CacheFetched, Metric::StorageFetched].map(|metric| of.increase(metric, Part::Whole));
        let fetched = fetched.iter().any(Option::is_some).then(|| fetched.iter().flatten().sum::<f64>());
        let per_list = fetched.zip(of.increase(Metric::Requests, Part::Whole)).map(|(fetched, asked)| fetched / asked);
        vec![
            group.into(),
            resource.into(),
            of.rate(Metric::Requests, Part::Whole).into(),
            of.rate(Metric::ResponseSizes, Part::Sum).into(),
            of.buckets(Metric::ResponseSizes).quantile(0.99).into(),
            ms(of.buckets(Metric::Duration).quantile(0.99)),
            of.rate(Metric::CacheLists, Part::Whole).into(),
            of.rate(Metric::StorageFetched, Part::Whole).into(),
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
        by(rows.collect(), 3),
    )
}

fn watches(facts: &Facts) -> Table {
    const METRICS: [Metric; 5] =
        [Metric::LongRunning, Metric::CacheEvents, Metric::WatchEvents, Metric::WatchEventSizes, Metric::CacheCapacity];
    let of = facts.sliced(&METRICS, |metric, fact| {
        let counts = metric != Metric::LongRunning || is_watch(facts, fact);
        resource(facts, fact).filter(|_| counts)
    });
    let rows = of.into_iter().map(|((group, resource), of)| {
        let incoming = of.rate(Metric::CacheEvents, Part::Whole);
        let outgoing = of.rate(Metric::WatchEvents, Part::Whole);
        // Each instance has a cache and receives every event.
        let history = of.of(Metric::CacheCapacity).iter().filter_map(|fact| {
            let same = of.of(Metric::CacheEvents).iter().filter(|other| other.instance == fact.instance);
            let rate: f64 = same.map(|fact| facts.rate(fact)).sum();
            Some(fact.last? / Some(rate).filter(|rate| *rate > 0.0)?)
        });
        vec![
            group.into(),
            resource.into(),
            count(of.last(Metric::LongRunning)),
            incoming.into(),
            outgoing.into(),
            of.rate(Metric::WatchEventSizes, Part::Sum).into(),
            incoming
                .zip(outgoing)
                .filter(|(incoming, _)| *incoming > 0.0)
                .map(|(incoming, outgoing)| outgoing / incoming)
                .into(),
            count(of.last(Metric::CacheCapacity)),
            history.min_by(f64::total_cmp).into(),
        ]
    });
    let is_still = |value: &Value| matches!(value, Value::None | Value::Count(0)) || *value == Value::Number(0.0);
    let idle = |row: &[Value]| [2, 3, 4].iter().all(|at| is_still(&row[*at]));
    table(
        "watches",
        "Watches by resource: events received, events sent to watchers, and seconds of history in the watch cache",
        &[
            "group",
            "resource",
            "watchers",
            "events_in_per_s",
            "events_out_per_s",
            "bytes_out_per_s",
            "fan_out",
            "capacity",
            "history_s",
        ],
        by(rows.filter(|row: &Vec<Value>| !idle(row)).collect(), 4),
    )
}

fn webhooks(facts: &Facts) -> Table {
    let labels = |fact: &Fact| [0, 1, 2].map(|at| fact.labels.get(at).map_or("", |label| facts.text(*label)));
    let of = facts.sliced(&[Metric::WebhookDuration, Metric::WebhookRejections], |_, fact| Some(labels(fact)));
    // Calls that were let through are not taken from operation.
    let open = facts.sliced(&[Metric::WebhookFailOpen], |_, fact| Some([labels(fact)[0], labels(fact)[1]]));
    let seen = facts.has(Metric::WebhookDuration).then_some(0.0);
    let rows = of.into_iter().map(|(names, of)| {
        let duration = of.buckets(Metric::WebhookDuration);
        let failed_open =
            open.get(&[names[0], names[1]]).and_then(|open| open.increase(Metric::WebhookFailOpen, Part::Whole));
        let mut row: Vec<Value> = names.iter().map(|text| (*text).into()).collect();
        row.extend([
            of.rate(Metric::WebhookDuration, Part::Count).into(),
            ms(duration.quantile(0.5)),
            ms(duration.quantile(0.99)),
            count(of.increase(Metric::WebhookRejections, Part::Whole).or(seen)),
            count(failed_open.or(seen)),
        ]);
        row
    });
    table(
        "webhooks",
        "Admission webhooks: calls, latency, denied requests, and failed calls whose requests were admitted",
        &["name", "type", "operation", "calls_per_s", "p50_ms", "p99_ms", "rejections", "failed_open"],
        by(rows.collect(), 3),
    )
}

fn stored(facts: &Facts) -> Table {
    let of = facts.sliced(&[Metric::StorageObjectBytes], |_, fact| resource(facts, fact));
    let rows = objects(facts).into_iter().filter(|(_, objects)| *objects > 0.0).map(|((group, resource), objects)| {
        let sizes =
            of.get(&(group.as_str(), resource.as_str())).into_iter().flat_map(|of| of.of(Metric::StorageObjectBytes));
        let bytes = sizes.filter_map(|fact| fact.last).filter(|bytes| *bytes >= 0.0).max_by(f64::total_cmp);
        vec![group.as_str().into(), resource.as_str().into(), count(Some(objects)), count(bytes)]
    });
    table("objects", "Objects in etcd, and their bytes", &["group", "resource", "objects", "bytes"], rows.collect())
}
