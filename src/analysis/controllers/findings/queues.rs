//! Work queues that are behind, stand still, hold a stuck worker, or go round and round.

use super::throttling::limit;
use super::{Draft, is_held, ms, seconds};
use crate::analysis::controllers::calls::Calls;
use crate::analysis::controllers::queues::Queue;
use crate::analysis::metrics::facts::Facts;
use crate::model::report::{Finding, Severity};
use crate::model::units::{counted, significant};
use serde_json::{Value, json};

/// A queue is behind where items wait for so long on average (ms) …
const WAITS: f64 = 1e3;
/// … and so many of them did.
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

/// The findings on work queues.
pub(in crate::analysis::controllers) fn on_queues(facts: &Facts, queues: &[Queue], calls: &[Calls]) -> Vec<Finding> {
    let of = |queue: &Queue| {
        let instance = &facts.instances[queue.instance];
        let named = format!("work queue \"{}\" of {}", queue.name, instance.called());
        let is_held = calls.iter().any(|calls| calls.instance == queue.instance && is_held(calls));
        let held_by = is_held.then(|| limit(instance.component));
        // Of a queue that stands still it is not known how long items wait.
        let late = stalled(queue, &named).or_else(|| behind(queue, &named, held_by));
        let all = [late, stuck(queue, &named), retries(queue, &named)];
        all.into_iter().flatten().map(|draft| draft.of(instance, ("queue", &queue.name))).collect::<Vec<_>>()
    };
    queues.iter().flat_map(of).collect()
}

fn evidence(queue: &Queue) -> Value {
    json!({
        "depth": queue.depth, "depth_peak": queue.most(), "depth_per_minute": queue.course.per_minute().map(|(slope,
        _)| slope),
        "wait_mean_ms": queue.wait_mean_ms, "work_mean_ms": queue.work_mean_ms, "busy": queue.busy,
        "retries_per_s": queue.retries_per_s,
        "drain_s": queue.drain_s(),
    })
}

/// How many more each minute, where their number surely rises.
fn growth(queue: &Queue) -> Option<f64> {
    queue.course.per_minute().filter(|(_, surely)| *surely).map(|(slope, _)| slope)
}

fn stalled(queue: &Queue, named: &str) -> Option<Draft> {
    let depth = queue.depth.filter(|depth| *depth >= WAITING)?;
    // Where pages do not say how many were processed, nobody knows that none are.
    let (added, done) = (queue.adds_per_s.unwrap_or(0.0), queue.done_per_s?);
    let pace = if done == 0.0 && queue.course.levels.len() >= 2 {
        "none are processed".to_owned()
    } else if growth(queue).is_some() && done < IDLE * added {
        format!("{} a second are added and {} processed", significant(added), significant(done))
    } else {
        return None;
    };
    Some(Draft {
        id: "queue-stalled",
        severity: Severity::Critical,
        confidence: 0.9,
        summary: format!("{named} is stuck: {} pending, and {pace}", counted(depth as u64, "item")),
        evidence: evidence(queue),
        remedy: "check whether its workers run: whether the process is the leader, its log, and its goroutines \
             (/debug/pprof/goroutine?debug=2)"
            .to_owned(),
    })
}

fn behind(queue: &Queue, named: &str, held_by: Option<&str>) -> Option<Draft> {
    let wait = queue.wait_mean_ms.filter(|wait| *wait >= WAITS)?;
    let most = queue.most().filter(|most| *most >= WAITING)?;
    let depth = queue.depth.unwrap_or(0.0);
    let growth = growth(queue);
    let (severity, [falls, waited], now) = if depth >= WAITING {
        let is_critical = wait >= WAITS_LONG || depth >= WAITING_MANY && growth.is_some();
        let more = growth.map(|slope| format!(", {} more each minute", significant(slope))).unwrap_or_default();
        let drain = queue
            .cleared_s()
            .map(|drain| format!("; at this rate it takes {} to clear them", seconds(drain)))
            .unwrap_or_default();
        let severity = if is_critical { Severity::Critical } else { Severity::Warning };
        (severity, ["falls", "wait"], format!("{} pending now{more}{drain}", counted(depth as u64, "item")))
    } else {
        (
            Severity::Info,
            ["fell", "waited"],
            format!("{} pending at peak, {depth} at the end", counted(most as u64, "item")),
        )
    };
    let remedy = match (held_by, queue.work_mean_ms.filter(|work| *work >= LABORIOUS)) {
        (Some(limit), _) => {
            format!("raise {limit} before adding workers: the process is throttled by its own client-side limit")
        }
        (None, Some(work)) => format!(
            "an item takes {}: check its requests to the apiserver and their latency (plimsoll traffic --where \
             agent=...), then add workers (--concurrent-...-syncs)",
            ms(work)
        ),
        (None, None) => {
            "add workers (--concurrent-...-syncs, MaxConcurrentReconciles), and check what adds so many items"
                .to_owned()
        }
    };
    let summary = format!("{named} {falls} behind: items {waited} {} on average, {now}", ms(wait));
    Some(Draft { id: "queue-behind", severity, confidence: 0.9, summary, evidence: evidence(queue), remedy })
}

fn stuck(queue: &Queue, named: &str) -> Option<Draft> {
    let longest = queue.longest_s.filter(|longest| *longest >= STUCK)?;
    Some(Draft {
        id: "queue-stuck",
        severity: Severity::Warning,
        confidence: 0.8,
        summary: format!("a worker of {named} has been processing one item for {}", seconds(longest)),
        evidence: json!({"longest_s": longest, "unfinished_s": queue.unfinished_s}),
        remedy: "save the goroutines of the process (/debug/pprof/goroutine?debug=2) before restarting it: it is \
             blocked by a lock, a webhook or a request without a timeout"
            .to_owned(),
    })
}

fn retries(queue: &Queue, named: &str) -> Option<Draft> {
    let retries = queue.retries_per_s.filter(|retries| *retries >= RETRIES)?;
    if queue.adds_per_s.is_none_or(|adds| retries < RETRIED * adds) {
        return None;
    }
    Some(Draft {
        id: "queue-retries",
        severity: Severity::Warning,
        confidence: 0.7,
        summary: format!("{named} keeps retrying the same items: {} a second are requeued", significant(retries)),
        evidence: evidence(queue),
        remedy: "check the process's log for the error that it retries; a reconciler that always requeues loads the \
             apiserver without end"
            .to_owned(),
    })
}
