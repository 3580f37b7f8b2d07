//! Processes throttled by their own client-side limit.

use super::{Draft, ms};
use crate::analysis::controllers::calls::Calls;
use crate::analysis::metrics::facts::{Component, Facts};
use crate::model::report::{Finding, Severity};
use serde_json::json;

/// Mean wait for its own limit (ms) from which a process counts as throttled.
const HELD: f64 = 100.0;
/// Fewer requests are too few to judge.
const MIN_REQUESTS: f64 = 100.0;

/// Whether the process waits for its own limit.
pub(in crate::analysis::controllers) fn is_held(calls: &Calls) -> bool {
    calls.requests >= MIN_REQUESTS && calls.limiter_mean_ms.is_some_and(|mean| mean >= HELD)
}

/// What sets the limit of a process' client, with its default.
pub(super) fn limit(component: Component) -> &'static str {
    match component {
        Component::Scheduler => "clientConnection.qps and burst in its configuration (50 and 100 by default)",
        Component::ControllerManager => "--kube-api-qps and --kube-api-burst (20 and 30 by default)",
        _ => "QPS and Burst of its client-go configuration (5 and 10 by default)",
    }
}

/// The findings on requests.
pub(in crate::analysis::controllers) fn on_calls(facts: &Facts, calls: &[Calls]) -> Vec<Finding> {
    let of = |calls: &Calls| {
        let instance = &facts.instances[calls.instance];
        let mean = calls.limiter_mean_ms.unwrap_or(0.0);
        let draft = Draft {
            id: "client-side-throttling",
            severity: Severity::Warning,
            confidence: 0.9,
            summary: format!(
                "{} throttles itself: its client-side limit delays each request by {}",
                instance.called(),
                ms(mean)
            ),
            evidence: json!({"limiter_mean_ms": mean, "limiter_p99_ms": calls.limiter_p99_ms,
                "requests_per_s": calls.per_s, "request_mean_ms": calls.mean_ms}),
            remedy: format!(
                "raise {}, if the apiserver has free seats: plimsoll clients --seats",
                limit(instance.component)
            ),
        };
        draft.of(instance, ("", ""))
    };
    calls.iter().filter(|calls| is_held(calls)).map(of).collect()
}
