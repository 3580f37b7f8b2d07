//! What `plimsoll controllers` says.

use super::calls::{Calls, calls};
use super::classes::Classes;
use super::findings::{is_held, on_calls, on_classes, on_elections, on_queues, on_schedulers, on_untried};
use super::handovers::{Handover, handovers};
use super::leaders::elections;
use super::people;
use super::queues::{Queue, queues};
use super::read::Read;
use super::scheduler::{Scheduler, Waiting, placed_ms, schedulers, waiting};
use super::tables::{of_attempts, of_calls, of_handovers, of_kinds, of_leaders, of_pending, of_queues, of_stages};
use crate::model::report::{Finding, Report, Table, Value, Window};
use crate::model::time::{self, Micros};
use crate::model::units::{counted, duration, percent};
use serde_json::json;
use std::collections::BTreeMap;

const SCHEMA: &str = "plimsoll.controllers/v1";

/// Findings that people are shown where they did not say how many.
const FINDINGS: usize = 10;

/// Leases that the first line names.
const NAMED: usize = 4;

/// Of queues whose items wait less (ms) the lines above the tables say nothing.
const WORTH: f64 = 100.0;

/// The report, and the leases that changed hands.
pub fn report(read: Read) -> (Report, Vec<Handover>) {
    let facts = &read.facts;
    let (queues, schedulers, calls, elections) = (queues(facts), schedulers(facts), calls(facts), elections(facts));
    let waiting = waiting(facts);
    let handovers = read.leases.as_ref().map(handovers).unwrap_or_default();
    let mut report = Report { schema: SCHEMA.to_owned(), shown: read.top, ..Report::default() };
    let window =
        time::together(super::window(facts), read.logged).or(read.taken.map(|at| (at, at))).unwrap_or_default();
    report.window = Window::of(Some(window).filter(|window| *window != (0, 0)));
    report.findings.extend(on_queues(facts, &queues, &calls));
    report.findings.extend(on_calls(facts, &calls));
    report.findings.extend(on_schedulers(facts, &schedulers, &waiting));
    let seen = read.taken.map_or(window, |at| (at, at));
    if let Some(classes) = &read.classes {
        report.findings.extend(on_classes(classes, &schedulers, seen));
        report.findings.extend(on_untried(classes, read.taken));
    }
    report.findings.extend(on_elections(facts, &elections, &handovers, &read));
    report.findings.sort_by(Finding::graver);
    let leaders = of_leaders(facts, &read, &elections, &handovers);
    lead(&mut report, &read, (&queues, &waiting, &calls), &leaders, &handovers);
    totals(&mut report, &read, (&queues, &schedulers), &handovers);
    let mut tables = vec![
        of_queues(facts, &queues),
        of_pending(&waiting),
        of_attempts(facts, &schedulers),
        of_stages(facts, &schedulers),
        of_calls(facts, &calls),
    ];
    tables.extend(read.classes.as_ref().map(|classes| of_kinds(classes, read.taken)));
    tables.extend([of_handovers(&handovers), leaders]);
    report.people = Some(people::tables(&tables, &read, window, &mut report.notes));
    notes(&mut report, &read);
    report.table = tables.remove(0);
    report.tables = tables;
    for (name, is_there) in [
        ("metrics", !facts.instances.is_empty()),
        ("audit", read.leases.is_some()),
        ("objects", read.classes.is_some()),
    ] {
        report.coverage.insert(name.to_owned(), json!(is_there));
    }
    report.inputs = read.inputs;
    (report, handovers)
}

fn notes(report: &mut Report, read: &Read) {
    let shown = read.top.unwrap_or(FINDINGS).min(report.findings.len());
    report.findings_shown = Some(shown);
    if report.findings.len() > shown {
        report.notes.push(format!(
            "{} more; --top or -o json shows them.",
            counted((report.findings.len() - shown) as u64, "finding")
        ));
    }
    if read.undated > 0 {
        let pages = counted(read.undated as u64, "page");
        report.notes.push(format!(
            "The time of {pages} is the file's modification time, which copying may have changed; name files by Unix \
             seconds or RFC 3339."
        ));
    }
    let has_names = read.leases.iter().flatten().flat_map(|(_, runs)| runs).any(|run| !run.holder.identity.is_empty());
    if read.leases.as_ref().is_some_and(|leases| !leases.is_empty()) && !has_names {
        report.notes.push(
            "The log has no bodies of leases: holders are identified by their address, so several behind one address \
             count as one."
                .to_owned(),
        );
    }
}

/// What matters most, in a line each.
fn lead(
    report: &mut Report,
    read: &Read,
    (queues, waiting, calls): (&[Queue], &[Waiting], &[Calls]),
    leaders: &Table,
    handovers: &[Handover],
) {
    let process = |instance: usize| read.facts.instances[instance].called();
    let text =
        |row: &[Value], at: usize| if let Value::Text(text) = &row[at] { text.clone() } else { "nobody".to_owned() };
    let elections = elections(&read.facts);
    let mut elected: Vec<String> = elections
        .iter()
        .map(|((_, lease), elected)| match elected.leading.as_slice() {
            [] => format!("{lease}: no leader"),
            leading => {
                format!("{lease}: {}", leading.iter().map(|one| process(*one)).collect::<Vec<_>>().join(" and "))
            }
        })
        .collect();
    if elected.is_empty() {
        elected =
            leaders.rows.iter().map(|row| format!("{}: {}", text(row, 2), people::short(&text(row, 3)))).collect();
    }
    if !elected.is_empty() {
        let more = elected.len().saturating_sub(NAMED);
        elected.truncate(NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        report.lead.push(format!("leads\t{}{more}", elected.join("; ")));
    }
    if let Some(longest) = handovers.iter().max_by_key(|one| one.gap) {
        let (count, gap) = (handovers.len(), duration(longest.gap));
        report.lead.push(format!("handovers\t{count}, the longest time without a leader {gap} ({})", longest.lease.2));
    }
    let items: f64 = queues.iter().filter_map(|queue| queue.depth).sum();
    if let Some(queue) = queues.first().filter(|queue| queue.wait_mean_ms.is_some_and(|wait| wait >= WORTH)) {
        let wait = duration((queue.wait_mean_ms.unwrap_or(0.0) * 1e3) as Micros);
        let most = queue.most().map(|most| format!("; {} at most", counted(most as u64, "item"))).unwrap_or_default();
        report.lead.push(format!(
            "longest waits\t{} of {}: items wait {wait} on average{most}",
            queue.name,
            process(queue.instance)
        ));
    } else if !queues.is_empty() {
        let waits = if items >= 1.0 {
            format!("{} wait", counted(items as u64, "item"))
        } else {
            "no pending items".to_owned()
        };
        report.lead.push(format!("queues\t{}; {waits}", counted(queues.len() as u64, "work queue")));
    }
    if let Some(one) = calls
        .iter()
        .filter(|one| is_held(one))
        .max_by(|a, b| a.limiter_mean_ms.unwrap_or(0.0).total_cmp(&b.limiter_mean_ms.unwrap_or(0.0)))
    {
        let mean = duration((one.limiter_mean_ms.unwrap_or(0.0) * 1e3) as Micros);
        report.lead.push(format!(
            "client-side throttling\t{} delays each request by {mean} on average (its own limit)",
            process(one.instance)
        ));
    }
    if !waiting.is_empty() {
        let reported: Vec<String> =
            waiting.iter().filter_map(|queue| Some(format!("{} {}", queue.pods?, queue.queue))).collect();
        let placed = placed_ms(&read.facts).1.map(|p99| {
            format!("; placed pods were bound within {} of being seen (p99)", duration((p99 * 1e3) as Micros))
        });
        report.lead.push(format!("pending pods\t{}{}", reported.join(", "), placed.unwrap_or_default()));
    }
    if let Some(classes) = &read.classes {
        report.lead.push(format!("kinds\t{}", kinds(classes)));
    }
    if report.lead.is_empty() {
        report.lead.push("These sources have no data on controllers, schedulers or leases.".to_owned());
    }
}

/// How many kinds of pods wait.
fn kinds(classes: &Classes) -> String {
    let gated = if classes.gated > 0 { format!(", and {} behind gates", classes.gated) } else { String::new() };
    match classes.pods {
        0 => format!("{}, none pending for a node{gated}", counted(classes.all, "pod")),
        pods => format!(
            "{} without a node{gated}: {}; one decision for identical pods: {} instead of {pods} ({} fewer)",
            counted(pods, "pod"),
            counted(classes.kinds.len() as u64, "kind"),
            counted(classes.distinct, "decision"),
            percent(classes.saved()),
        ),
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
        (
            "attempts".to_owned(),
            Value::Count(schedulers.iter().flat_map(|one| &one.attempts).map(|one| one.count.round() as u64).sum()),
        ),
        (
            "handovers".to_owned(),
            if read.leases.is_some() { Value::Count(handovers.len() as u64) } else { Value::None },
        ),
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
    schedulers
        .iter()
        .flat_map(|one| &one.batches)
        .for_each(|(result, count)| *batches.entry(result).or_default() += count);
    let choices: f64 = schedulers.iter().filter_map(|one| one.algorithms).sum();
    let algorithm: f64 = schedulers.iter().filter_map(|one| Some(one.algorithm_ms? * one.algorithms?)).sum();
    let placed = placed_ms(&read.facts);
    // Where no page has it, nothing is known of it.
    let preempted = |of: fn(&Scheduler) -> Option<f64>| schedulers.iter().filter_map(of).reduce(|all, own| all + own);
    let mut unschedulable: BTreeMap<&str, f64> = BTreeMap::new();
    for (plugin, pods) in schedulers.iter().filter(|one| one.leads != Some(false)).flat_map(|one| &one.refusals) {
        *unschedulable.entry(plugin).or_default() += pods;
    }
    report.more.insert(
        "scheduler".to_owned(),
        json!({
            "algorithm_mean_ms": if choices > 0.0 { Some(algorithm / choices) } else { None },
            "pod_scheduling_mean_ms": placed.0,
            "pod_scheduling_p99_ms": placed.1,
            "preemption_attempts": preempted(|one| one.preemptions.0),
            "preemption_victims": preempted(|one| one.preemptions.1),
            "unschedulable_by_plugin": unschedulable,
            "batch_attempts": batches,
        }),
    );
}
