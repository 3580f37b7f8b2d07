//! Processes that hold themselves back.

use super::{Draft, ms};
use crate::analysis::controllers::calls::Calls;
use crate::analysis::metrics::facts::Facts;
use crate::model::report::{Finding, Severity};
use serde_json::json;

/// Waiting for its own limit (ms, mean) holds a process back.
const HELD: f64 = 100.0;
/// Requests of which a process has too few for that to be said.
const MIN_REQUESTS: f64 = 100.0;

/// Whether the process waits for its own limit.
pub(in crate::analysis::controllers) fn is_held(calls: &Calls) -> bool {
    calls.requests >= MIN_REQUESTS && calls.limiter_mean_ms.is_some_and(|mean| mean >= HELD)
}

/// The findings on requests.
pub(in crate::analysis::controllers) fn on_calls(facts: &Facts, calls: &[Calls]) -> Vec<Finding> {
    let of = |calls: &Calls| {
        let instance = &facts.instances[calls.instance];
        let mean = calls.limiter_mean_ms.unwrap_or(0.0);
        let said = Draft {
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
            remedy: "raise clientConnection.qps and burst of kube-scheduler's configuration (50 and 100 by default), \
                 or --kube-api-qps and --kube-api-burst of kube-controller-manager (20 and 30), if the apiserver has \
                 free seats: plimsoll clients --seats"
                .to_owned(),
        };
        said.of(instance, ("", ""))
    };
    calls.iter().filter(|calls| is_held(calls)).map(of).collect()
}
