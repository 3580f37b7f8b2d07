//! Pods that no scheduler tries, and pods that are alike.

use super::{Draft, ms};
use crate::analysis::controllers::classes::Classes;
use crate::analysis::controllers::scheduler::Scheduler;
use crate::model::report::{Finding, Severity};
use crate::model::time::{MINUTE, Micros, SECOND};
use crate::model::units::{counted, duration};
use serde_json::json;
use std::collections::BTreeMap;

/// A pod that nobody tried for so long has no scheduler (µs).
const UNTRIED: Micros = MINUTE;
/// Pods that wait, from which on it matters how many kinds there are, and how many times fewer those must be.
const ALIKE: u64 = 100;
const FEWER: u64 = 10;

/// The findings on pods that no scheduler tries.
pub(in crate::analysis::controllers) fn on_untried(classes: &Classes, taken: Option<Micros>) -> Vec<Finding> {
    let Some(now) = taken else { return Vec::new() };
    let mut by_scheduler: BTreeMap<&str, (u64, Micros)> = BTreeMap::new();
    for kind in &classes.kinds {
        for waits in kind.untried.iter().map(|created| now - created).filter(|waits| *waits >= UNTRIED) {
            let one = by_scheduler.entry(&kind.scheduler).or_default();
            *one = (one.0 + 1, one.1.max(waits));
        }
    }
    let reported = by_scheduler.into_iter().map(|(scheduler, (pods, since))| {
        let draft = Draft {
            id: "scheduler-absent",
            severity: Severity::Warning,
            confidence: 0.8,
            summary: format!(
                "{} without a node, which {scheduler} never tried to schedule; the oldest has waited for {}",
                counted(pods, "pod"),
                duration(since)
            ),
            evidence: json!({"pods": pods, "oldest_s": since as f64 / SECOND as f64}),
            remedy: format!(
                "check that a scheduler named {scheduler} runs and is the leader; to use another scheduler, \
                 recreate the pods: spec.schedulerName can't be changed"
            ),
        };
        draft.about(&[("scheduler", scheduler)], (now - since, now))
    });
    reported.collect()
}

/// The finding on pods that are alike.
pub(in crate::analysis::controllers) fn on_classes(
    classes: &Classes,
    schedulers: &[Scheduler],
    seen: (Micros, Micros),
) -> Option<Finding> {
    if classes.pods < ALIKE || classes.distinct * FEWER > classes.pods {
        return None;
    }
    let scheduler = schedulers.iter().find(|one| one.leads != Some(false));
    let saved = classes.pods - classes.distinct;
    let time = scheduler.and_then(|one| one.algorithm_ms).map(|each| each * saved as f64);
    let takes = time
        .map(|time| {
            format!(
                "; skipping the repeated decisions would save {} whenever the scheduler tries all of them",
                ms(time)
            )
        })
        .unwrap_or_default();
    let used = scheduler
        .map(|one| one.batches.iter().filter(|(result, _)| result == "hint_used").map(|(_, count)| count).sum::<f64>());
    let draft = Draft {
        id: "pending-alike",
        severity: Severity::Info,
        confidence: 0.8,
        summary: format!(
            "{} are only {} to the scheduler{takes}",
            counted(classes.pods, "pending pod"),
            counted(classes.distinct, "distinct pod")
        ),
        evidence: json!({"pods": classes.pods, "distinct": classes.distinct, "in_order": classes.in_order,
            "saved_ms": time, "hints_used": used}),
        remedy: "kube-scheduler 1.35 and later schedules identical neighbouring pods in its queue together \
             (OpportunisticBatching), but only where PodTopologySpread has no default constraints (defaultingType: \
             List) and each node has room for only one of them; keep identical pods adjacent: \
             create them together and with one priority"
            .to_owned(),
    };
    Some(draft.about(&[], seen))
}
