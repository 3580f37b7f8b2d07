//! Schedulers that are behind, slow or failing, and pods that fit on no node.

use super::{Draft, ms};
use crate::analysis::controllers::scheduler::{Attempts, Scheduler, Waiting};
use crate::analysis::metrics::facts::Facts;
use crate::model::report::{Finding, Severity};
use crate::model::units::{counted, percent, significant};
use serde_json::json;

/// Pods that are ready to be tried, and are not.
const ACTIVE: f64 = 100.0;
/// Pods that fit on no node.
const UNSCHEDULABLE: f64 = 100.0;
/// An attempt that succeeds takes too long (ms, p99): pods are to start within 5 s altogether.
const SLOW_MS: f64 = 1e3;
/// Attempts that fail in the scheduler itself: how many, and of all.
const ERRORS: f64 = 10.0;
const ERRORS_SHARE: f64 = 0.01;
/// Plugins that a sentence names.
const NAMED: usize = 3;

/// A scheduler with the pods that wait for it.
struct SchedulerView<'s> {
    process: &'s str,
    scheduler: &'s Scheduler,
    waiting: Vec<&'s Waiting>,
}

/// The findings on schedulers that lead: who does not tries nothing.
pub(in crate::analysis::controllers) fn on_schedulers(
    facts: &Facts,
    schedulers: &[Scheduler],
    waiting: &[Waiting],
) -> Vec<Finding> {
    let of = |scheduler: &Scheduler| {
        let instance = &facts.instances[scheduler.instance];
        let lease = scheduler.lease.as_ref().unwrap_or(&instance.name);
        let waiting =
            waiting.iter().filter(|queue| queue.cluster == instance.cluster && queue.lease == *lease).collect();
        let called = instance.called();
        let looked = SchedulerView { process: &called, scheduler, waiting };
        let all = [looked.behind(), looked.unschedulable(), looked.slow(), looked.errors()];
        all.into_iter().flatten().map(|draft| draft.of(instance, ("", ""))).collect::<Vec<_>>()
    };
    schedulers.iter().filter(|one| one.leads != Some(false)).flat_map(of).collect()
}

impl SchedulerView<'_> {
    /// Pods of a queue, if there are so many, and how many more each minute: with whether their number surely rises.
    fn pods(&self, queue: &str, least: f64) -> Option<(f64, Option<(f64, bool)>)> {
        let queue = self.waiting.iter().find(|one| one.queue == queue)?;
        Some((queue.pods.filter(|pods| *pods >= least)?, queue.course.per_minute()))
    }

    fn attempts(&self, result: &str) -> Option<&Attempts> {
        self.scheduler.attempts.iter().find(|attempts| attempts.result == result)
    }

    fn behind(&self) -> Option<Draft> {
        let (active, growth) = self.pods("active", ACTIVE)?;
        let more =
            growth.filter(|(_, surely)| *surely).map(|(slope, _)| format!(", {} more each minute", significant(slope)));
        let pace = self.attempts("scheduled").and_then(|own| own.led_per_s.or(own.per_s)).unwrap_or(0.0);
        let slowest = self
            .scheduler
            .stages
            .first()
            .map(|stage| format!(" ({} takes {} of its time)", stage.name, percent(stage.share)));
        Some(Draft {
            id: "scheduler-behind",
            severity: if more.is_some() { Severity::Critical } else { Severity::Warning },
            confidence: 0.8,
            summary: format!(
                "{} is behind: {} ready to be scheduled, pending{}, and it places {} a second",
                self.process,
                counted(active as u64, "pod"),
                more.unwrap_or_default(),
                significant(pace)
            ),
            evidence: json!({
                "active": active, "per_minute": growth.map(|(slope, _)| slope), "scheduled_per_s": pace,
                "attempt_mean_ms": self.attempts("scheduled").and_then(|own| own.mean_ms),
            }),
            remedy: format!(
                "check where its time goes{}: lower percentageOfNodesToScore, use fewer expensive constraints, raise \
                 clientConnection.qps in its configuration if it throttles itself",
                slowest.unwrap_or_default()
            ),
        })
    }

    fn unschedulable(&self) -> Option<Draft> {
        let (pods, growth) = self.pods("unschedulable", UNSCHEDULABLE)?;
        let refusals = self.scheduler.refusals.iter().filter(|(plugin, _)| plugin != "SchedulingGates");
        let why: Vec<String> = refusals.take(NAMED).map(|(plugin, pods)| format!("{plugin} {pods}")).collect();
        let because = if why.is_empty() {
            String::new()
        } else {
            format!(" (pods by scheduler plugin that rejects them: {})", why.join(", "))
        };
        Some(Draft {
            id: "scheduler-unschedulable",
            severity: Severity::Warning,
            confidence: 0.9,
            summary: format!("{} fit on no node{because}", counted(pods as u64, "pod")),
            evidence: json!({"unschedulable": pods, "per_minute": growth.map(|(slope, _)| slope),
                "plugins": why.join(", ")}),
            remedy:
                "add nodes, or see what these pods request: plimsoll controllers with the pods (kubectl get pods -A \
                 -o json) as a further source; until then the scheduler tries them again after each change in the \
                 cluster"
                    .to_owned(),
        })
    }

    fn slow(&self) -> Option<Draft> {
        let p99 = self.attempts("scheduled")?.p99_ms.filter(|p99| *p99 >= SLOW_MS)?;
        let bind = self.scheduler.stages.iter().find(|stage| stage.name == "Bind").and_then(|stage| stage.mean_ms);
        Some(Draft {
            id: "scheduler-slow",
            severity: Severity::Warning,
            confidence: 0.8,
            summary: format!("{} takes {} to place a pod (p99)", self.process, ms(p99)),
            evidence: json!({"attempt_p99_ms": p99, "algorithm_mean_ms": self.scheduler.algorithm_ms,
                "bind_mean_ms": bind}),
            remedy: "if Bind takes most of the time, the apiserver is slow or the scheduler throttles itself; if \
                 Filter or Score does, the reason is the number of nodes or constraints"
                .to_owned(),
        })
    }

    fn errors(&self) -> Option<Draft> {
        let all: f64 = self.scheduler.attempts.iter().map(|attempts| attempts.count).sum();
        let errors = self.attempts("error")?.count;
        (errors >= ERRORS && errors >= ERRORS_SHARE * all).then(|| Draft {
            id: "scheduler-errors",
            severity: Severity::Warning,
            confidence: 0.9,
            summary: format!(
                "{} fails: {} ended in an internal scheduler error, {} of all",
                self.process,
                counted(errors as u64, "attempt"),
                percent(errors / all)
            ),
            evidence: json!({"errors": errors, "attempts": all}),
            remedy: "check its log for bindings that the apiserver rejects, volumes and plugins".to_owned(),
        })
    }
}
