//! What is wrong with controllers, schedulers and elections. (Thresholds and their reasons: docs/findings.md.)

use super::calls::Calls;
use super::classes::Classes;
use super::handovers::{GAP, Handover};
use super::leaders::Elected;
use super::queues::Queue;
use super::scheduler::{Scheduler, Waiting};
use crate::analysis::metrics::facts::{Facts, Instance};
use crate::model::report::{Finding, Severity};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{counted, duration, percent, significant};
use serde_json::{Value, json};

/// A queue is behind where items wait for so long on average (ms) …
const WAITS: f64 = 1e3;
/// … and so many of them still do.
const WAITING: f64 = 10.0;
/// From here on it is critical: items wait so long (ms), or so many of them wait and ever more.
const WAITS_LONG: f64 = 30e3;
const WAITING_MANY: f64 = 1000.0;
/// Of an item that takes so long (ms) requests to the apiserver are the most likely cause.
const LABORIOUS: f64 = 100.0;
/// A queue that grows and of which hardly this much of what comes is done stands still.
const IDLE: f64 = 0.1;
/// A worker that is at one item for so long (s) is stuck.
const STUCK: f64 = 120.0;
/// Items that come back: so many each second, and of all that are added.
const RETRIES: f64 = 5.0;
const RETRIED: f64 = 0.8;
/// Waiting for its own limit (ms, mean) holds a process back.
const HELD: f64 = 100.0;
/// Requests of which a process has too few for that to be said.
const FEW: f64 = 100.0;
/// Pods that are ready to be tried, and are not.
const ACTIVE: f64 = 100.0;
/// Pods that fit nowhere.
const UNSCHEDULABLE: f64 = 100.0;
/// An attempt that succeeds takes too long (ms, p99): pods are to start within 5 s altogether.
const SLOW: f64 = 1e3;
/// Attempts that fail in the scheduler itself: how many, and of all.
const ERRORS: f64 = 10.0;
const ERRORS_SHARE: f64 = 0.01;
/// A pod that nobody tried for so long has no scheduler (µs).
const UNTRIED: Micros = 60 * SECOND;
/// Pods that wait, from which on it matters how many kinds there are, and how many times fewer those must be.
const ALIKE: u64 = 100;
const FEWER: u64 = 10;

struct Told<'f> {
    found: Vec<Finding>,
    instances: &'f [Instance],
}

impl Told<'_> {
    #[expect(clippy::too_many_arguments, reason = "all of a finding, said once")]
    fn add(
        &mut self,
        id: &str,
        severity: Severity,
        confidence: f64,
        of: usize,
        what: (&str, &str),
        summary: String,
        evidence: Value,
        remedy: String,
    ) {
        let instance = &self.instances[of];
        let subject = [("cluster", instance.cluster.as_str()), ("instance", &instance.name), what];
        self.found.push(finding(id, severity, confidence, &subject, (instance.from, instance.to), summary, evidence, remedy));
    }
}

#[expect(clippy::too_many_arguments, reason = "all of a finding, said once")]
fn finding(
    id: &str,
    severity: Severity,
    confidence: f64,
    subject: &[(&str, &str)],
    seen: (Micros, Micros),
    summary: String,
    evidence: Value,
    remedy: String,
) -> Finding {
    let mut finding = Finding::new(id, severity, subject);
    (finding.first_seen, finding.last_seen) = (time::format(seen.0), time::format(seen.1));
    (finding.confidence, finding.summary, finding.remedy) = (confidence, summary, remedy);
    if let Value::Object(evidence) = evidence {
        finding.evidence = evidence.into_iter().filter(|(_, value)| !value.is_null()).collect();
    }
    finding
}

fn ms(millis: f64) -> String {
    duration((millis * 1e3) as Micros)
}

/// The findings on work queues.
pub(super) fn on_queues(facts: &Facts, queues: &[Queue], calls: &[Calls]) -> Vec<Finding> {
    let mut told = Told { found: Vec::new(), instances: &facts.instances };
    for queue in queues {
        let process = &facts.instances[queue.instance].name;
        let growth = queue.course.per_minute();
        let (depth, wait) = (queue.depth.unwrap_or(0.0), queue.wait_mean_ms.unwrap_or(0.0));
        let grows = growth.is_some_and(|(_, surely)| surely);
        let peak = queue.course.peak().unwrap_or(depth).max(depth);
        let evidence = json!({
            "depth": queue.depth, "depth_peak": peak, "depth_per_minute": growth.map(|(slope, _)| slope), "wait_mean_ms": queue.wait_mean_ms,
            "work_mean_ms": queue.work_mean_ms, "busy": queue.busy, "retries_per_s": queue.retries_per_s, "drain_s": queue.drain_s(),
        });
        // The wait is known only of items that a worker took.
        let (added, done) = (queue.adds_per_s.unwrap_or(0.0), queue.done_per_s.unwrap_or(0.0));
        let is_left = depth >= WAITING && queue.course.levels.len() >= 2 && done == 0.0;
        if is_left || depth >= WAITING && grows && done < IDLE * added {
            let pace = if is_left {
                "nothing of it is done".to_owned()
            } else {
                format!("{} a second come and {} are done", significant(added), significant(done))
            };
            let summary = format!("{} of {process} stands still: {} wait, and {pace}", queue.name, counted(depth as u64, "item"));
            let remedy = "see whether its workers run at all: whether the process leads, what it logs, and what its goroutines wait for (/debug/pprof/goroutine?debug=2)".to_owned();
            told.add("queue-stalled", Severity::Critical, 0.9, queue.instance, ("queue", &queue.name), summary, evidence.clone(), remedy);
        } else if wait >= WAITS && peak >= WAITING {
            let is_still = depth >= WAITING;
            let severity = match is_still {
                true if wait >= WAITS_LONG || depth >= WAITING_MANY && grows => Severity::Critical,
                true => Severity::Warning,
                false => Severity::Info,
            };
            let grows = growth.filter(|_| grows).map(|(slope, _)| format!(", {} more each minute", significant(slope))).unwrap_or_default();
            let drain =
                queue.drain_s().map(|s| format!("; at its pace they take {}", duration((s * SECOND as f64) as Micros))).unwrap_or_default();
            let (is, now) = match is_still {
                true => ("is", format!("{} wait now{grows}{drain}", counted(depth as u64, "item"))),
                false => ("was", format!("{} waited at most, {} at the end", counted(peak as u64, "item"), depth)),
            };
            let summary = format!("{} of {process} {is} behind: an item waits {} on average, {now}", queue.name, ms(wait));
            let is_held = calls.iter().any(|calls| calls.instance == queue.instance && is_held(calls));
            let remedy = if is_held {
                "its process waits for its own limit on requests: raise --kube-api-qps and --kube-api-burst before adding workers"
                    .to_owned()
            } else if queue.work_mean_ms.is_some_and(|work| work >= LABORIOUS) {
                format!(
                    "an item takes {}: see what it asks of the apiserver and how long that takes (plimsoll traffic --where agent=...), then add workers (--concurrent-...-syncs)",
                    ms(queue.work_mean_ms.unwrap_or(0.0))
                )
            } else {
                "add workers (--concurrent-...-syncs, MaxConcurrentReconciles), and see what adds so many items".to_owned()
            };
            told.add("queue-behind", severity, 0.9, queue.instance, ("queue", &queue.name), summary, evidence.clone(), remedy);
        }
        if let Some(longest) = queue.longest_s.filter(|longest| *longest >= STUCK) {
            let summary = format!(
                "a worker of {} of {process} has been at one item for {}",
                queue.name,
                duration((longest * SECOND as f64) as Micros)
            );
            let evidence = json!({"longest_s": longest, "unfinished_s": queue.unfinished_s});
            let remedy = "take goroutines of the process (/debug/pprof/goroutine?debug=2) before it is restarted: it waits for a lock, a webhook or a request without a timeout".to_owned();
            told.add("queue-stuck", Severity::Warning, 0.8, queue.instance, ("queue", &queue.name), summary, evidence, remedy);
        }
        let retried =
            queue.retries_per_s.zip(queue.adds_per_s).map_or(0.0, |(retries, adds)| if adds > 0.0 { retries / adds } else { 0.0 });
        if queue.retries_per_s.is_some_and(|retries| retries >= RETRIES) && retried >= RETRIED {
            let summary = format!(
                "{} of {process} goes over the same items again and again: {} a second come back",
                queue.name,
                significant(queue.retries_per_s.unwrap_or(0.0))
            );
            let remedy = "read the process's log for the error that it retries; a reconciler that asks for another look each time loads the apiserver without end".to_owned();
            told.add("queue-retries", Severity::Warning, 0.7, queue.instance, ("queue", &queue.name), summary, evidence, remedy);
        }
    }
    for calls in calls.iter().filter(|calls| is_held(calls)) {
        let process = &facts.instances[calls.instance].name;
        let mean = calls.limiter_mean_ms.unwrap_or(0.0);
        let summary = format!("{process} holds itself back: each of its requests waits {} for its own limit before it is sent", ms(mean));
        let evidence = json!({"limiter_mean_ms": mean, "limiter_p99_ms": calls.limiter_p99_ms, "requests_per_s": calls.per_s, "request_mean_ms": calls.mean_ms});
        let remedy = "raise --kube-api-qps and --kube-api-burst (by default 20 and 30 of kube-controller-manager, 50 and 100 of kube-scheduler), as far as the apiserver has seats to spare: plimsoll clients --seats".to_owned();
        told.add("client-side-throttling", Severity::Warning, 0.9, calls.instance, ("", ""), summary, evidence, remedy);
    }
    told.found
}

pub(super) fn is_held(calls: &Calls) -> bool {
    calls.requests >= FEW && calls.limiter_mean_ms.is_some_and(|mean| mean >= HELD)
}

/// The findings on schedulers.
pub(super) fn on_schedulers(facts: &Facts, schedulers: &[Scheduler], waiting: &[Waiting]) -> Vec<Finding> {
    let mut told = Told { found: Vec::new(), instances: &facts.instances };
    // Who does not lead tries nothing.
    for one in schedulers.iter().filter(|one| one.leads != Some(false)) {
        let process = &facts.instances[one.instance].name;
        let cluster = &facts.instances[one.instance].cluster;
        let is_own = |queue: &&Waiting| queue.cluster == *cluster && (queue.lease == *process || one.lease.as_ref() == Some(&queue.lease));
        let of = |name: &str| waiting.iter().filter(is_own).find(|queue| queue.queue == name);
        let pods = |name: &str| of(name).and_then(|queue| queue.pods).unwrap_or(0.0);
        let growth = |name: &str| of(name).and_then(|queue| queue.course.per_minute());
        let (active, unschedulable) = (pods("active"), pods("unschedulable"));
        let scheduled = one.attempts.iter().find(|attempts| attempts.result == "scheduled");
        if active >= ACTIVE {
            let (slope, grows) = growth("active").unwrap_or((0.0, false));
            let severity = if grows { Severity::Critical } else { Severity::Warning };
            let more = if grows { format!(", {} more each minute", significant(slope)) } else { String::new() };
            let pace = scheduled.and_then(|own| own.per_s).unwrap_or(0.0);
            let summary = format!(
                "{process} is behind: {} ready to be tried wait{more}, and it places {} a second",
                counted(active as u64, "pod"),
                significant(pace)
            );
            let evidence = json!({"active": active, "per_minute": slope, "scheduled_per_s": pace, "attempt_mean_ms": scheduled.and_then(|own| own.mean_ms)});
            let slowest =
                one.stages.first().map(|stage| format!(" ({} takes {} of its time)", stage.name, percent(stage.share))).unwrap_or_default();
            let remedy = format!(
                "see where its time goes{slowest}: lower percentageOfNodesToScore, make expensive constraints fewer, raise its --kube-api-qps if it holds itself back"
            );
            told.add("scheduler-behind", severity, 0.8, one.instance, ("", ""), summary, evidence, remedy);
        }
        if unschedulable >= UNSCHEDULABLE {
            let why: Vec<String> = one
                .refusals
                .iter()
                .filter(|(plugin, _)| plugin != "SchedulingGates")
                .take(3)
                .map(|(plugin, pods)| format!("{plugin} {pods}"))
                .collect();
            let because = if why.is_empty() { String::new() } else { format!(" (pods by what refuses them: {})", why.join(", ")) };
            let summary = format!("{} fit nowhere{because}", counted(unschedulable as u64, "pod"));
            let evidence = json!({"unschedulable": unschedulable, "per_minute": growth("unschedulable").map(|(slope, _)| slope), "plugins": why.join(", ")});
            let remedy = "add nodes, or see by the kinds of pods that wait what they ask for (give it the pods, too); each change of the cluster makes the scheduler try them again".to_owned();
            told.add("scheduler-unschedulable", Severity::Warning, 0.9, one.instance, ("", ""), summary, evidence, remedy);
        }
        if let Some(p99) = scheduled.and_then(|own| own.p99_ms).filter(|p99| *p99 >= SLOW) {
            let summary = format!("{process} takes {} to place a pod (p99)", ms(p99));
            let evidence = json!({"attempt_p99_ms": p99, "algorithm_mean_ms": one.algorithm_ms, "bind_mean_ms": one.stages.iter().find(|stage| stage.name == "Bind").and_then(|stage| stage.mean_ms)});
            let remedy = "where Bind takes most, the apiserver is slow or the scheduler's own limit holds it back; where Filter or Score do, it is nodes and constraints".to_owned();
            told.add("scheduler-slow", Severity::Warning, 0.8, one.instance, ("", ""), summary, evidence, remedy);
        }
        let all: f64 = one.attempts.iter().map(|attempts| attempts.count).sum();
        let errors = one.attempts.iter().find(|attempts| attempts.result == "error").map_or(0.0, |attempts| attempts.count);
        if errors >= ERRORS && errors >= ERRORS_SHARE * all {
            let summary = format!(
                "{process} fails: {} ended in an error of the scheduler itself, {} of all",
                counted(errors as u64, "attempt"),
                percent(errors / all)
            );
            let evidence = json!({"errors": errors, "attempts": all});
            let remedy = "read its log: bindings that the apiserver refuses, volumes, plugins".to_owned();
            told.add("scheduler-errors", Severity::Warning, 0.9, one.instance, ("", ""), summary, evidence, remedy);
        }
    }
    told.found
}

/// The findings on pods that no scheduler tries.
pub(super) fn on_untried(classes: &Classes, taken: Option<Micros>) -> Vec<Finding> {
    let mut by_scheduler: std::collections::BTreeMap<&str, (u64, Micros)> = std::collections::BTreeMap::new();
    for kind in classes.kinds.iter().filter(|kind| kind.reason.is_empty() && kind.pods > kind.gated) {
        let since = kind.oldest.zip(taken).map_or(0, |(oldest, taken)| taken - oldest);
        let one = by_scheduler.entry(&kind.scheduler).or_default();
        *one = (one.0 + kind.pods - kind.gated, one.1.max(since));
    }
    let told = by_scheduler.into_iter().filter(|(_, (_, since))| *since >= UNTRIED).map(|(scheduler, (pods, since))| {
        let summary =
            format!("{} without a node that {scheduler} never tried; the oldest is there for {}", counted(pods, "pod"), duration(since));
        let evidence = json!({"pods": pods, "oldest_s": since as f64 / SECOND as f64});
        let remedy =
            format!("see whether a scheduler of the name {scheduler} runs and leads; spec.schedulerName of a pod can't be changed");
        let seen = taken.map(|taken| (taken - since, taken)).unwrap_or_default();
        finding("scheduler-absent", Severity::Warning, 0.8, &[("scheduler", scheduler)], seen, summary, evidence, remedy)
    });
    told.collect()
}

/// The finding on pods that are alike.
pub(super) fn on_classes(classes: &Classes, schedulers: &[Scheduler], seen: (Micros, Micros)) -> Option<Finding> {
    if classes.pods < ALIKE || classes.distinct * FEWER > classes.pods {
        return None;
    }
    let scheduler = schedulers.iter().find(|one| one.leads != Some(false));
    let saved = classes.pods - classes.distinct;
    let time = scheduler.and_then(|one| one.algorithm_ms).map(|each| each * saved as f64);
    let takes = time.map(|time| format!("; that many choices less are {} of the scheduler's time", ms(time))).unwrap_or_default();
    let summary = format!("{} that wait are only {}{takes}", counted(classes.pods, "pod"), counted(classes.distinct, "different one"));
    let used = scheduler.map(|one| one.batches.iter().filter(|(result, _)| result == "hint_used").map(|(_, count)| count).sum::<f64>());
    let evidence =
        json!({"pods": classes.pods, "distinct": classes.distinct, "in_order": classes.in_order, "saved_ms": time, "hints_used": used});
    let remedy = "kube-scheduler 1.35 and later decides neighbours in its queue together (OpportunisticBatching), but only where PodTopologySpread has no default constraints (defaultingType: List) and a node takes one of them; keep equal pods next to each other, by creating them together and with one priority";
    Some(finding("pending-alike", Severity::Info, 0.8, &[], seen, summary, evidence, remedy.to_owned()))
}

/// The findings on elections: nobody leads, by metrics; for too long nobody led, by logs.
pub(super) fn on_elections(
    facts: &Facts,
    elections: &std::collections::BTreeMap<(String, String), Elected>,
    handovers: &[Handover],
) -> Vec<Finding> {
    let mut found = Vec::new();
    for ((cluster, lease), elected) in elections.iter().filter(|(_, elected)| elected.leading.is_empty()) {
        let names: Vec<&str> = elected.candidates.iter().map(|candidate| facts.instances[*candidate].name.as_str()).collect();
        let summary = format!("nobody leads {lease}, as far as is known: {}", names.join(", "));
        let evidence = json!({"candidates": names.join(", ")});
        let remedy = format!(
            "see whether others would lead whose metrics are not at hand; else who holds the lease (kubectl -n kube-system get lease {lease}) and whether it can be renewed"
        );
        let seen = (facts.last(), facts.last());
        let subject = [("cluster", cluster.as_str()), ("lease", lease.as_str())];
        // One of several says little.
        let (severity, confidence) = if elected.candidates.len() > 1 { (Severity::Critical, 0.8) } else { (Severity::Info, 0.5) };
        found.push(finding("leader-missing", severity, confidence, &subject, seen, summary, evidence, remedy));
    }
    for handover in handovers.iter().filter(|handover| handover.gap as f64 >= GAP) {
        let (cluster, namespace, name) = &handover.lease;
        let took = if handover.to == handover.from { "came back".to_owned() } else { format!("took over from {}", handover.from.name()) };
        let summary = format!("{namespace}/{name} had no leader for {}: {} {took}", duration(handover.gap), handover.to.name());
        let evidence = json!({"gap_s": handover.gap as f64 / SECOND as f64, "from": handover.from.name(), "to": handover.to.name(), "released": handover.is_released});
        let subject = [("cluster", cluster.as_str()), ("lease", name), ("namespace", namespace)];
        let seen = (handover.at - handover.gap, handover.at);
        let remedy = "give up the lease when the leader ends, run a second replica that is warm, and see that leaseDurationSeconds is 15; until the takeover nobody did its work".to_owned();
        found.push(finding("leader-gap", Severity::Warning, 0.9, &subject, seen, summary, evidence, remedy));
    }
    found
}
