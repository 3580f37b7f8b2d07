//! Tables of what is known of controllers, with all that machines want.

use super::Course;
use super::calls::Calls;
use super::classes::Classes;
use super::handovers::{Handover, Run, ran_out};
use super::leaders::Elected;
use super::queues::Queue;
use super::scheduler::{Scheduler, Waiting};
use crate::analysis::controllers::read::Read;
use crate::analysis::metrics::facts::Facts;
use crate::model::report::{Table, Value};
use crate::model::time::{self, Micros, SECOND};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;

const QUEUE: [&str; 18] = [
    "cluster",
    "instance",
    "component",
    "queue",
    "depth",
    "depth_peak",
    "depth_per_min",
    "depth_course",
    "adds_per_s",
    "done_per_s",
    "retries_per_s",
    "wait_mean_ms",
    "wait_p99_ms",
    "wait_course",
    "work_mean_ms",
    "work_p99_ms",
    "busy",
    "longest_s",
];

const ATTEMPT: [&str; 10] = [
    "cluster",
    "instance",
    "result",
    "attempts",
    "attempts_per_s",
    "mean_ms",
    "p50_ms",
    "p99_ms",
    "attempts_course",
    "mean_course",
];

const PENDING: [&str; 8] =
    ["cluster", "lease", "pod_queue", "pods", "pods_peak", "pods_per_min", "pods_course", "incoming_per_s"];

const STAGE: [&str; 7] = ["cluster", "instance", "stage", "calls_per_s", "mean_ms", "p99_ms", "time_share"];

const CALLS: [&str; 9] =
    ["cluster", "instance", "rps", "limiter_mean_ms", "limiter_p99_ms", "mean_ms", "p99_ms", "failed", "throttled"];

const KIND: [&str; 13] = [
    "scheduler",
    "pods",
    "gated",
    "label_sets",
    "decided_apart",
    "controller",
    "namespaces_in",
    "asks",
    "needs",
    "oldest",
    "reason",
    "message",
    "waits_s",
];

const HANDOVER: [&str; 8] = ["time", "cluster", "namespace", "lease", "from_holder", "to_holder", "gap_s", "released"];

const LEADER: [&str; 8] =
    ["cluster", "namespace", "lease", "holder", "candidates", "changes", "renewals", "longest_pause_s"];

fn table(name: &str, title: &str, columns: &[&str]) -> Table {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Table { name: name.to_owned(), title: title.to_owned(), columns, ..Table::default() }
}

/// What a gauge shows, as a number of things; nothing where it can't be one.
fn whole(number: Option<f64>) -> Value {
    const MAX_EXACT: f64 = (1_u64 << 53) as f64;
    number.filter(|number| (0.0..MAX_EXACT).contains(number)).map(|number| number.round() as u64).into()
}

/// A course of two points or more: times (Unix seconds) and values.
fn course(course: &Course) -> Value {
    if course.levels.len() < 2 {
        return Value::None;
    }
    Value::Json(json!(course.levels.iter().map(|(at, level)| (*at as f64 / SECOND as f64, level)).collect::<Vec<_>>()))
}

fn name(facts: &Facts, instance: usize) -> [Value; 2] {
    let instance = &facts.instances[instance];
    [instance.cluster.as_str().into(), instance.name.as_str().into()]
}

pub(super) fn of_queues(facts: &Facts, queues: &[Queue]) -> Table {
    let mut table = table("queues", "Work queues, by total waiting time", &QUEUE);
    for queue in queues {
        let own = [
            facts.instances[queue.instance].component.name().into(),
            queue.name.as_str().into(),
            whole(queue.depth),
            whole(queue.course.peak()),
            queue.course.per_minute().map(|(slope, _)| slope).into(),
            course(&queue.course),
            queue.adds_per_s.into(),
            queue.done_per_s.into(),
            queue.retries_per_s.into(),
            queue.wait_mean_ms.into(),
            queue.wait_p99_ms.into(),
            course(&queue.wait_course),
            queue.work_mean_ms.into(),
            queue.work_p99_ms.into(),
            queue.busy.into(),
            queue.longest_s.into(),
        ];
        table.rows.push(name(facts, queue.instance).into_iter().chain(own).collect());
    }
    table
}

pub(super) fn of_pending(waiting: &[Waiting]) -> Table {
    let mut table = table("pending", "Pending pods, as the leading scheduler counts them", &PENDING);
    for queue in waiting {
        table.rows.push(vec![
            queue.cluster.as_str().into(),
            queue.lease.as_str().into(),
            queue.queue.as_str().into(),
            whole(queue.pods),
            whole(queue.course.peak()),
            queue.course.per_minute().map(|(slope, _)| slope).into(),
            course(&queue.course),
            queue.incoming_per_s.into(),
        ]);
    }
    table
}

pub(super) fn of_attempts(facts: &Facts, schedulers: &[Scheduler]) -> Table {
    let mut table = table("attempts", "Scheduling attempts, including binding", &ATTEMPT);
    for one in schedulers.iter().flat_map(|one| &one.attempts) {
        let own = [
            one.result.as_str().into(),
            Value::Count(one.count.round() as u64),
            one.per_s.into(),
            one.mean_ms.into(),
            one.p50_ms.into(),
            one.p99_ms.into(),
            course(&one.course),
            course(&one.mean_course),
        ];
        table.rows.push(name(facts, one.instance).into_iter().chain(own).collect());
    }
    table
}

pub(super) fn of_stages(facts: &Facts, schedulers: &[Scheduler]) -> Table {
    let mut table = table("stages", "Scheduler time by extension point", &STAGE);
    for stage in schedulers.iter().flat_map(|one| &one.stages) {
        let own = [
            stage.name.as_str().into(),
            stage.per_s.into(),
            stage.mean_ms.into(),
            stage.p99_ms.into(),
            stage.share.into(),
        ];
        table.rows.push(name(facts, stage.instance).into_iter().chain(own).collect());
    }
    table
}

pub(super) fn of_calls(facts: &Facts, calls: &[Calls]) -> Table {
    let mut table = table("calls", "Requests to the apiserver: duration and client-side throttling", &CALLS);
    for one in calls {
        let own = [
            one.per_s.into(),
            one.limiter_mean_ms.into(),
            one.limiter_p99_ms.into(),
            one.mean_ms.into(),
            one.p99_ms.into(),
            Value::Count(one.errors.round() as u64),
            Value::Count(one.throttled.round() as u64),
        ];
        table.rows.push(name(facts, one.instance).into_iter().chain(own).collect());
    }
    table
}

pub(super) fn of_kinds(classes: &Classes, taken: Option<Micros>) -> Table {
    let mut table = table("kinds", "Pods without a node, by scheduling constraints", &KIND);
    for kind in &classes.kinds {
        let asks: Vec<String> = kind.requests.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
        let apart: Vec<&str> = kind.apart.iter().map(|apart| apart.name()).collect();
        let namespaces = match kind.namespaces.as_slice() {
            [one] => one.clone(),
            more => format!("{} ({})", more.first().cloned().unwrap_or_default(), more.len()),
        };
        let waits = taken.zip(kind.oldest).map(|(taken, oldest)| ((taken - oldest).max(0)) as f64 / SECOND as f64);
        table.rows.push(vec![
            kind.scheduler.as_str().into(),
            kind.pods.into(),
            kind.gated.into(),
            kind.label_sets.into(),
            apart.join(" ").as_str().into(),
            kind.controller.as_str().into(),
            namespaces.as_str().into(),
            asks.join(", ").as_str().into(),
            kind.needs.as_str().into(),
            kind.oldest.map(time::format).as_deref().into(),
            kind.reason.as_str().into(),
            kind.message.as_str().into(),
            waits.into(),
        ]);
    }
    table
}

pub(super) fn of_handovers(handovers: &[Handover]) -> Table {
    let mut table = table("handovers", "Lease handovers", &HANDOVER);
    for one in handovers {
        let (cluster, namespace, lease) = &one.lease;
        table.rows.push(vec![
            time::format(one.at).as_str().into(),
            cluster.as_str().into(),
            namespace.as_str().into(),
            lease.as_str().into(),
            one.from.name().into(),
            one.to.name().into(),
            Value::Number(one.gap as f64 / SECOND as f64),
            one.is_released.map(|released| if released { "given up" } else { "ran out" }).into(),
        ]);
    }
    table
}

/// Leases and their holders, by logs and by metrics.
pub(super) fn of_leaders(
    facts: &Facts,
    read: &Read,
    elections: &BTreeMap<(String, String), Elected>,
    handovers: &[Handover],
) -> Table {
    let mut table = table("leaders", "Leases and their holders", &LEADER);
    let mut by_metrics = elections.clone();
    for (lease, runs) in read.leases.iter().flatten() {
        let (cluster, namespace, of) = lease;
        let elected = by_metrics.remove(&(cluster.clone(), of.clone()));
        let changes = handovers.iter().filter(|one| one.lease == *lease).count();
        let last = runs.last();
        let is_dead = |run: &&Run| read.logged_until.get(cluster).is_some_and(|until| ran_out(run, *until).is_some());
        let holder = last.filter(|run| !run.is_released && !is_dead(run)).map(|run| run.holder.name());
        table.rows.push(vec![
            cluster.as_str().into(),
            namespace.as_str().into(),
            of.as_str().into(),
            holder.into(),
            elected.map(|elected| elected.candidates.len() as u64).into(),
            Value::Count(changes as u64),
            Value::Count(runs.iter().map(|run| run.writes).sum()),
            runs.iter().map(|run| run.longest).max().map(|longest| longest as f64 / SECOND as f64).into(),
        ]);
    }
    for ((cluster, lease), elected) in by_metrics {
        let leading: Vec<Cow<'_, str>> =
            elected.leading.iter().map(|instance| facts.instances[*instance].called()).collect();
        let holder = (!leading.is_empty()).then(|| leading.join(", "));
        let own = [
            holder.as_deref().into(),
            Value::Count(elected.candidates.len() as u64),
            Value::None,
            Value::None,
            Value::None,
        ];
        table.rows.push([cluster.as_str().into(), Value::None, lease.as_str().into()].into_iter().chain(own).collect());
    }
    let number = |row: &[Value], at: usize| if let Value::Count(count) = row[at] { count } else { 0 };
    table.rows.sort_by_key(|row| std::cmp::Reverse((number(row, 5), number(row, 6))));
    table
}
