//! What `plimsoll controllers` says.

use super::calls::{Calls, calls};
use super::classes::Classes;
use super::findings::{on_classes, on_elections, on_queues, on_schedulers, on_untried};
use super::handovers::{Handover, Lease, Run, handovers};
use super::leaders::elections;
use super::queues::{Queue, queues};
use super::scheduler::{Scheduler, Waiting, schedulers, waiting};
use crate::analysis::metrics::facts::Facts;
use crate::model::input::InputReport;
use crate::model::report::{Report, Table, Value, Window};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{counted, duration, percent};
use serde_json::json;
use std::collections::BTreeMap;

/// What was read.
#[derive(Debug, Default)]
pub struct Read {
    /// Metrics.
    pub facts: Facts,
    /// Writes to leases, by lease; `None` without audit logs.
    pub leases: Option<BTreeMap<Lease, Vec<Run>>>,
    /// From the first event that was read to the last.
    pub logged: Option<(Micros, Micros)>,
    /// Pods that wait; `None` without objects.
    pub classes: Option<Classes>,
    /// When the objects were taken.
    pub taken: Option<Micros>,
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// Rows of each table that people asked for; then they are shown what hardly matters, too.
    pub top: Option<usize>,
}

const SCHEMA: &str = "plimsoll.controllers/v1";

/// Rows of a table that people are shown where they did not say how many.
const SHOWN: usize = 10;

/// Bars of a course that people are shown, at most.
const BARS: usize = 24;

/// An extension point with less of the scheduler's time is not worth a line.
const LITTLE: f64 = 0.01;

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

const QUEUE_SHOWN: [&str; 10] =
    ["instance", "queue", "depth", "depth_peak", "depth_per_min", "depth_course", "adds_per_s", "wait_mean_ms", "work_mean_ms", "busy"];

const ATTEMPT: [&str; 10] =
    ["cluster", "instance", "result", "attempts", "attempts_per_s", "mean_ms", "p50_ms", "p99_ms", "attempts_course", "mean_course"];

const ATTEMPT_SHOWN: [&str; 7] = ["instance", "result", "attempts", "attempts_per_s", "mean_ms", "p99_ms", "attempts_course"];

const PENDING: [&str; 8] = ["cluster", "lease", "pod_queue", "pods", "pods_peak", "pods_per_min", "pods_course", "incoming_per_s"];

const PENDING_SHOWN: [&str; 6] = ["pod_queue", "pods", "pods_peak", "pods_per_min", "incoming_per_s", "pods_course"];

const STAGE: [&str; 7] = ["cluster", "instance", "stage", "calls_per_s", "mean_ms", "p99_ms", "time_share"];

const STAGE_SHOWN: [&str; 6] = ["instance", "stage", "calls_per_s", "mean_ms", "p99_ms", "time_share"];

const CALLS: [&str; 9] = ["cluster", "instance", "rps", "limiter_mean_ms", "limiter_p99_ms", "mean_ms", "p99_ms", "failed", "throttled"];

const CALLS_SHOWN: [&str; 8] = ["instance", "rps", "limiter_mean_ms", "limiter_p99_ms", "mean_ms", "p99_ms", "failed", "throttled"];

const KIND: [&str; 12] = [
    "scheduler",
    "pods",
    "gated",
    "label_sets",
    "decided_apart",
    "controller",
    "namespaces_in",
    "asks",
    "oldest",
    "reason",
    "message",
    "waits_s",
];

const KIND_SHOWN: [&str; 6] = ["pods", "label_sets", "controller", "asks", "waits_s", "why"];

const HANDOVER: [&str; 8] = ["time", "cluster", "namespace", "lease", "from_holder", "to_holder", "gap_s", "released"];

const HANDOVER_SHOWN: [&str; 6] = ["time", "lease", "from_holder", "to_holder", "gap_s", "released"];

const LEADER: [&str; 8] = ["cluster", "namespace", "lease", "holder", "candidates", "changes", "renewals", "longest_pause_s"];

fn table(name: &str, title: &str, columns: &[&str]) -> Table {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Table { name: name.to_owned(), title: title.to_owned(), columns, ..Table::default() }
}

/// The report.
pub fn report(read: Read) -> Report {
    let facts = &read.facts;
    let (queues, schedulers, calls, elections) = (queues(facts), schedulers(facts), calls(facts), elections(facts));
    let waiting = waiting(facts);
    let handovers = read.leases.as_ref().map(handovers).unwrap_or_default();
    let mut report = Report { schema: SCHEMA.to_owned(), ..Report::default() };
    let window = [super::window(facts), read.logged, read.taken.map(|at| (at, at))].into_iter().fold(None, time::together);
    if let Some((from, to)) = window {
        report.window = Window { from: time::format(from), to: time::format(to), seconds: (to - from) as f64 / SECOND as f64 };
    }
    report.findings.extend(on_queues(facts, &queues, &calls));
    report.findings.extend(on_schedulers(facts, &schedulers, &waiting));
    let seen = read.taken.map(|at| (at, at)).or(window).unwrap_or_default();
    report.findings.extend(read.classes.as_ref().and_then(|classes| on_classes(classes, &schedulers, seen)));
    report.findings.extend(read.classes.as_ref().map(|classes| on_untried(classes, read.taken)).unwrap_or_default());
    report.findings.extend(on_elections(facts, &elections, &handovers));
    report.findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.confidence.total_cmp(&a.confidence)));
    let leaders = leaders(facts, &read, &elections, &handovers);
    lead(&mut report, &read, (&queues, &schedulers, &waiting, &calls), &leaders, &handovers);
    totals(&mut report, &read, (&queues, &schedulers), &handovers);
    let mut tables = vec![
        of_queues(facts, &queues),
        of_pending(&waiting),
        of_attempts(facts, &schedulers),
        of_stages(facts, &schedulers),
        of_calls(facts, &calls),
        read.classes.as_ref().map_or_else(|| table("kinds", "", &KIND), |classes| of_kinds(classes, read.taken)),
        of_handovers(&handovers),
        leaders,
    ];
    let shown: [&[&str]; 8] = [&QUEUE_SHOWN, &PENDING_SHOWN, &ATTEMPT_SHOWN, &STAGE_SHOWN, &CALLS_SHOWN, &KIND_SHOWN, &HANDOVER_SHOWN, &[]];
    let is_one = clusters(&tables) < 2;
    let people = tables.iter().zip(shown).filter(|(table, columns)| !table.rows.is_empty() && !columns.is_empty());
    report.people = Some(people.map(|(table, columns)| for_people(table, columns, is_one, &read, &mut report.notes)).collect());
    report.table = tables.remove(0);
    report.tables = tables;
    report.coverage.insert("metrics".to_owned(), json!(!facts.instances.is_empty()));
    report.coverage.insert("audit".to_owned(), json!(read.leases.is_some()));
    report.coverage.insert("objects".to_owned(), json!(read.classes.is_some()));
    report.inputs = read.inputs;
    report
}

/// How many clusters tables tell of.
fn clusters(tables: &[Table]) -> usize {
    let of = |table: &Table| {
        let at = table.column("cluster")?;
        Some(
            table
                .rows
                .iter()
                .filter_map(|row| if let Value::Text(cluster) = &row[at] { Some(cluster.clone()) } else { None })
                .collect::<Vec<_>>(),
        )
    };
    tables.iter().filter_map(of).flatten().collect::<std::collections::BTreeSet<_>>().len()
}

/// Some columns and rows of a table, for people.
fn for_people(table: &Table, columns: &[&str], is_one: bool, read: &Read, notes: &mut Vec<String>) -> Table {
    let mut columns: Vec<&str> = columns.to_vec();
    if !is_one && table.column("cluster").is_some() {
        columns.insert(0, "cluster");
    }
    let is_single = |name: &str| {
        let at = table.column(name);
        at.is_some_and(|at| table.rows.iter().all(|row| row[at] == table.rows[0][at] || row[at] == Value::None))
    };
    // One process need not be named in each row, nor a course be drawn that has no points.
    columns.retain(|name| *name != "released" || !table.rows.iter().all(|row| row[table.column("released").unwrap_or(0)] == Value::None));
    columns.retain(|name| {
        *name != "label_sets"
            || table.rows.iter().any(|row| table.column(name).is_some_and(|at| row[at].in_order(&Value::Count(1)).is_lt()))
    });
    columns.retain(|name| !(name.ends_with("_per_min") || name.ends_with("_course")) || !is_single(name));
    let shown = read.top.unwrap_or(SHOWN);
    let day = |row: &Vec<Value>| if let Value::Text(at) = &row[0] { at.get(..10).map(str::to_owned) } else { None };
    let is_day = table.rows.iter().all(|row| day(row) == day(&table.rows[0]));
    let mut rows: Vec<&Vec<Value>> = table.rows.iter().collect();
    if table.name == "queues" {
        // What hardly waits is not worth a line.
        let (depth, wait) = (table.column("depth_peak"), table.column("wait_mean_ms"));
        let is_idle = |row: &[Value]| {
            let number = |at: Option<usize>| match at.map(|at| &row[at]) {
                Some(Value::Number(number)) => *number,
                Some(Value::Count(count)) => *count as f64,
                _ => 0.0,
            };
            number(depth) < 1.0 && number(wait) < 10.0
        };
        let busy: Vec<&Vec<Value>> = rows.iter().copied().filter(|row| !is_idle(row)).collect();
        if !busy.is_empty() && read.top.is_none() {
            rows = busy;
        }
    }
    if let Some(share) = table.column("time_share").filter(|_| read.top.is_none()) {
        rows.retain(|row| matches!(row[share], Value::Number(share) if share >= LITTLE));
    }
    if rows.len() > shown {
        rows.truncate(shown);
    }
    let left = table.rows.len() - rows.len();
    if left > 0 {
        notes.push(format!("{} more under \u{201c}{}\u{201d}; --top or -o json shows them.", counted(left as u64, "row"), table.title));
    }
    let cell = |name: &&str, row: &[Value]| match *name {
        "why" => why(table, row),
        name => match (name, table.column(name).map_or(Value::None, |at| row[at].clone())) {
            ("waits_s" | "gap_s", Value::Number(seconds)) => duration((seconds * SECOND as f64) as Micros).as_str().into(),
            // The day is that of the window.
            ("time", Value::Text(at)) if is_day => at.get(11..19).into(),
            ("time", Value::Text(at)) => at.get(..19).unwrap_or_default().replace('T', " ").as_str().into(),
            ("from_holder" | "to_holder", Value::Text(holder)) => unnumbered(&holder).into(),
            (_, Value::Series(values)) => Value::Series(short(&values)),
            (_, value) => value,
        },
    };
    Table {
        rows: rows.iter().map(|row| columns.iter().map(|name| cell(name, row)).collect()).collect(),
        columns: columns
            .iter()
            .map(|name| {
                if *name == "gap_s" {
                    "gap".to_owned()
                } else if *name == "waits_s" {
                    "waits".to_owned()
                } else {
                    (*name).to_owned()
                }
            })
            .collect(),
        ..table.clone()
    }
}

/// A holder's name without most of the random number that client-go puts behind the host's name: `host_0a1b2c3d`.
fn unnumbered(holder: &str) -> &str {
    let is_random = |tail: &str| tail.len() == 36 && tail.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match holder.rsplit_once('_') {
        Some((host, tail)) if is_random(tail) => &holder[..host.len() + 9],
        _ => holder,
    }
}

/// A course in at most [`BARS`] pieces, of each its most.
fn short(values: &[u64]) -> Vec<u64> {
    values.chunks(values.len().div_ceil(BARS).max(1)).filter_map(|chunk| chunk.iter().copied().max()).collect()
}

/// Why pods have no node, in short.
fn why(table: &Table, row: &[Value]) -> Value {
    let text = |name: &str| match table.column(name).map(|at| &row[at]) {
        Some(Value::Text(text)) => text.as_str(),
        _ => "",
    };
    let (reason, message) = (text("reason"), text("message"));
    if reason == "Unschedulable" && !message.is_empty() {
        // "0/40 nodes are available: 40 Insufficient cpu. preemption: …" says all that matters up to its second part.
        let short = message.split(". ").next().unwrap_or(message);
        return short.split_once(": ").map_or(short, |(_, why)| why).replace("node(s) ", "").as_str().into();
    }
    if reason.is_empty() { "nobody tried".into() } else { reason.into() }
}

fn name(facts: &Facts, instance: usize) -> [Value; 2] {
    let instance = &facts.instances[instance];
    [instance.cluster.as_str().into(), instance.name.as_str().into()]
}

fn of_queues(facts: &Facts, queues: &[Queue]) -> Table {
    let mut table = table("queues", "Work queues, those first in which items waited longest", &QUEUE);
    for queue in queues {
        let own = [
            facts.instances[queue.instance].component.name().into(),
            queue.name.as_str().into(),
            whole(queue.depth),
            whole(queue.course.peak()),
            queue.course.per_minute().map(|(slope, _)| slope).into(),
            course(queue.course.values()),
            queue.adds_per_s.into(),
            queue.done_per_s.into(),
            queue.retries_per_s.into(),
            queue.wait_mean_ms.into(),
            queue.wait_p99_ms.into(),
            course(queue.wait_course.clone()),
            queue.work_mean_ms.into(),
            queue.work_p99_ms.into(),
            queue.busy.into(),
            queue.longest_s.into(),
        ];
        table.rows.push(name(facts, queue.instance).into_iter().chain(own).collect());
    }
    table
}

/// A course of two points or more.
fn course(values: Vec<u64>) -> Value {
    if values.len() < 2 { Value::None } else { Value::Series(values) }
}

fn of_pending(waiting: &[Waiting]) -> Table {
    let mut table = table("pending", "Pods that wait, as the scheduler that leads counts them", &PENDING);
    for queue in waiting {
        table.rows.push(vec![
            queue.cluster.as_str().into(),
            queue.lease.as_str().into(),
            queue.queue.as_str().into(),
            whole(queue.pods),
            whole(queue.course.peak()),
            queue.course.per_minute().map(|(slope, _)| slope).into(),
            course(queue.course.values()),
            queue.incoming_per_s.into(),
        ]);
    }
    table
}

/// A number of things that a gauge tells.
fn whole(number: Option<f64>) -> Value {
    number.map(|number| number.max(0.0).round() as u64).into()
}

fn of_attempts(facts: &Facts, schedulers: &[Scheduler]) -> Table {
    let mut table = table("attempts", "Attempts to place a pod, with binding", &ATTEMPT);
    for one in schedulers.iter().flat_map(|one| &one.attempts) {
        let own = [
            one.result.as_str().into(),
            Value::Count(one.count.round() as u64),
            one.per_s.into(),
            one.mean_ms.into(),
            one.p50_ms.into(),
            one.p99_ms.into(),
            course(one.course.clone()),
            course(one.mean_course.clone()),
        ];
        table.rows.push(name(facts, one.instance).into_iter().chain(own).collect());
    }
    table
}

fn of_stages(facts: &Facts, schedulers: &[Scheduler]) -> Table {
    let mut table = table("stages", "Where the scheduler's time goes, by extension point", &STAGE);
    for stage in schedulers.iter().flat_map(|one| &one.stages) {
        let own = [stage.name.as_str().into(), stage.per_s.into(), stage.mean_ms.into(), stage.p99_ms.into(), stage.share.into()];
        table.rows.push(name(facts, stage.instance).into_iter().chain(own).collect());
    }
    table
}

fn of_calls(facts: &Facts, calls: &[Calls]) -> Table {
    let mut table =
        table("calls", "Requests to the apiserver: how long each takes, and how much of that it waits for the process's own limit", &CALLS);
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

fn of_kinds(classes: &Classes, taken: Option<Micros>) -> Table {
    let mut table = table("kinds", "Pods without a node, by what a scheduler decides by", &KIND);
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
            kind.oldest.map(time::format).as_deref().into(),
            kind.reason.as_str().into(),
            kind.message.as_str().into(),
            waits.into(),
        ]);
    }
    table
}

fn of_handovers(handovers: &[Handover]) -> Table {
    let mut table = table("handovers", "Leases that changed hands", &HANDOVER);
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

/// Who leads, by logs and by metrics.
fn leaders(facts: &Facts, read: &Read, elections: &BTreeMap<(String, String), super::leaders::Elected>, handovers: &[Handover]) -> Table {
    let mut table = table("leaders", "", &LEADER);
    let mut by_metrics = elections.clone();
    for (lease, runs) in read.leases.iter().flatten() {
        let (cluster, namespace, of) = lease;
        let elected = by_metrics.remove(&(cluster.clone(), of.clone()));
        let changes = handovers.iter().filter(|one| one.lease == *lease).count();
        // A lease that is written once, or by an apiserver for itself, is not held by a leader that others wait for.
        if changes == 0 && elected.is_none() && runs.iter().map(|run| run.writes).sum::<u64>() < 3 {
            continue;
        }
        let last = runs.last();
        let holder = last.filter(|run| !run.is_released).map(|run| run.holder.name());
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
        let leading: Vec<&str> = elected.leading.iter().map(|instance| facts.instances[*instance].name.as_str()).collect();
        let holder = (!leading.is_empty()).then(|| leading.join(", "));
        let own = [holder.as_deref().into(), Value::Count(elected.candidates.len() as u64), Value::None, Value::None, Value::None];
        table.rows.push([cluster.as_str().into(), Value::None, lease.as_str().into()].into_iter().chain(own).collect());
    }
    table
}

/// What matters most, in a line each.
fn lead(
    report: &mut Report,
    read: &Read,
    (queues, schedulers, waiting, calls): (&[Queue], &[Scheduler], &[Waiting], &[Calls]),
    leaders: &Table,
    handovers: &[Handover],
) {
    let facts = &read.facts;
    let process = |instance: usize| facts.instances[instance].name.as_str();
    let elected: Vec<String> = super::leaders::elections(facts)
        .into_iter()
        .map(|((_, lease), elected)| match elected.leading.as_slice() {
            [] => format!("{lease}: nobody"),
            leading => format!("{lease}: {}", leading.iter().map(|one| process(*one)).collect::<Vec<_>>().join(" and ")),
        })
        .collect();
    if !elected.is_empty() {
        report.lead.push(format!("leads\t{}", elected.join("; ")));
    } else if !leaders.rows.is_empty() {
        report.lead.push(format!("leads\t{} are held", counted(leaders.rows.len() as u64, "lease")));
    }
    if !handovers.is_empty() {
        let longest = handovers.iter().max_by_key(|one| one.gap);
        let longest =
            longest.map(|one| format!(", the longest time without a leader {} ({})", duration(one.gap), one.lease.2)).unwrap_or_default();
        report.lead.push(format!("handovers\t{}{longest}", handovers.len()));
    }
    if let Some(queue) = queues.first().filter(|queue| queue.wait_mean_ms.is_some_and(|wait| wait >= 10.0)) {
        let wait = duration((queue.wait_mean_ms.unwrap_or(0.0) * 1e3) as Micros);
        let depth = queue.course.peak().or(queue.depth).unwrap_or(0.0);
        report.lead.push(format!(
            "longest queue\t{} of {}: an item waits {wait} on average; {} at most",
            queue.name,
            process(queue.instance),
            counted(depth as u64, "item")
        ));
    } else if !queues.is_empty() {
        report.lead.push(format!("queues\t{}, and nothing waits in them for 10 ms on average", counted(queues.len() as u64, "work queue")));
    }
    if let Some(one) = calls.iter().max_by(|a, b| a.limiter_mean_ms.unwrap_or(0.0).total_cmp(&b.limiter_mean_ms.unwrap_or(0.0)))
        && let Some(mean) = one.limiter_mean_ms.filter(|mean| *mean >= 10.0)
    {
        report.lead.push(format!(
            "held back\t{} waits {} on average before each request, for its own limit",
            process(one.instance),
            duration((mean * 1e3) as Micros)
        ));
    }
    if !waiting.is_empty() {
        let told: Vec<String> = waiting.iter().filter_map(|queue| Some(format!("{} {}", queue.pods?, queue.queue))).collect();
        let p99 = schedulers.iter().filter_map(|one| one.sli_ms.1).reduce(f64::max);
        let sli =
            p99.map(|p99| format!("; a pod is placed within {} of being seen (p99)", duration((p99 * 1e3) as Micros))).unwrap_or_default();
        report.lead.push(format!("pods that wait\t{}{sli}", told.join(", ")));
    }
    if let Some(classes) = read.classes.as_ref().filter(|classes| classes.pods + classes.gated > 0) {
        let gated = if classes.gated > 0 { format!(", and {} behind gates", classes.gated) } else { String::new() };
        report.lead.push(format!(
            "kinds\t{} without a node{gated}: {}, of which each distinct pod decided once is {} instead of {} ({} less)",
            counted(classes.pods, "pod"),
            counted(classes.kinds.len() as u64, "kind"),
            counted(classes.distinct, "decision"),
            classes.pods,
            percent(classes.saved()),
        ));
    }
    if report.lead.is_empty() {
        report.lead.push("Nothing of controllers, schedulers or leases is in what was read.".to_owned());
    }
}

fn totals(report: &mut Report, read: &Read, (queues, schedulers): (&[Queue], &[Scheduler]), handovers: &[Handover]) {
    let sum = |of: &dyn Fn(&Queue) -> Option<f64>| -> Value {
        let values: Vec<f64> = queues.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>()).into()
    };
    report.totals = vec![
        ("queues".to_owned(), Value::Count(queues.len() as u64)),
        ("depth".to_owned(), sum(&|queue| queue.depth)),
        ("adds_per_s".to_owned(), sum(&|queue| queue.adds_per_s)),
        ("busy".to_owned(), sum(&|queue| queue.busy)),
        ("attempts".to_owned(), Value::Count(schedulers.iter().flat_map(|one| &one.attempts).map(|one| one.count.round() as u64).sum())),
        ("handovers".to_owned(), if read.leases.is_some() { Value::Count(handovers.len() as u64) } else { Value::None }),
    ];
    if let Some(classes) = &read.classes {
        let counts = [
            ("pods", classes.all),
            ("pods_waiting", classes.pods),
            ("pods_gated", classes.gated),
            ("pods_apart", classes.apart()),
            ("kinds", classes.kinds.len() as u64),
            ("decisions_distinct", classes.distinct),
            ("decisions_in_order", classes.in_order),
        ];
        report.totals.extend(counts.map(|(name, count)| (name.to_owned(), Value::Count(count))));
        report.totals.push(("decisions_saved".to_owned(), Value::Number(classes.saved())));
    }
    let mut batches: BTreeMap<&str, f64> = BTreeMap::new();
    schedulers.iter().flat_map(|one| &one.batches).for_each(|(result, count)| *batches.entry(result).or_default() += count);
    let placed: f64 = schedulers.iter().filter_map(|one| one.algorithms).sum();
    let algorithm: f64 = schedulers.iter().filter_map(|one| Some(one.algorithm_ms? * one.algorithms?)).sum();
    report.more.insert("scheduler".to_owned(), json!({
        "algorithm_mean_ms": if placed > 0.0 { Some(algorithm / placed) } else { None },
        "pod_scheduling_mean_ms": schedulers.iter().find_map(|one| one.sli_ms.0),
        "pod_scheduling_p99_ms": schedulers.iter().find_map(|one| one.sli_ms.1),
        "preemption_attempts": schedulers.iter().filter_map(|one| one.preemptions.0).sum::<f64>(),
        "preemption_victims": schedulers.iter().filter_map(|one| one.preemptions.1).sum::<f64>(),
        "unschedulable_by_plugin": schedulers.iter().filter(|one| one.leads != Some(false)).flat_map(|one| one.refusals.iter().cloned()).collect::<BTreeMap<String, f64>>(),
        "batch_attempts": batches,
    }));
}
