//! Kubernetes' service level objectives for API requests: which requests they cover, how fast these must be, and how
//! many may miss that. (Source: kubernetes/community, sig-scalability/slos/api_call_latency.md.)

use crate::analysis::rollup::Rollup;
use crate::model::event::is_lasting;
use crate::model::time::SECOND;
use crate::model::uri::Scope;

/// Share of requests that may be slow or fail.
pub const BUDGET: f64 = 0.01;

/// Classes of requests, and the seconds within which these must be answered.
pub const CLASSES: [(&str, u64); 4] = [("write", 1), ("read-object", 1), ("read-namespace", 30), ("read-cluster", 30)];

/// Requests that an objective covers, and those that missed it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SloCount {
    /// Requests.
    pub requests: f64,
    /// Of these, those that failed or took too long.
    pub bad: f64,
}

impl SloCount {
    /// What is left of the error budget of this time, 1 being all of it; below 0 where it is overspent. `None` without
    /// requests.
    pub fn left(self) -> Option<f64> {
        (self.requests > 0.0).then(|| 1.0 - self.bad / self.requests / BUDGET)
    }
}

/// The class of a request as audit logs show it; none where no objective covers it.
fn class(verb: &str, resource: &str, subresource: &str, scope: Scope) -> Option<&'static str> {
    if resource.is_empty() || is_lasting(subresource.as_bytes()) {
        return None;
    }
    match (verb, scope) {
        ("create" | "update" | "patch" | "delete" | "deletecollection", _) => Some("write"),
        ("get" | "list", Scope::Object) => Some("read-object"),
        ("get" | "list", Scope::Namespace) => Some("read-namespace"),
        ("get" | "list", Scope::Cluster) => Some("read-cluster"),
        _ => None,
    }
}

/// What audit logs show. Their latencies hold what webhooks and queues took, which the objectives leave out: this errs
/// towards the worse.
pub fn of_logs(rollup: &Rollup) -> SloCount {
    let mut slo = SloCount::default();
    for row in rollup.traffic() {
        let (_, resource) = row.what;
        let class = class(row.verb, resource, row.subresource, row.scope);
        let Some(bound) = CLASSES.iter().find(|(name, _)| Some(*name) == class).map(|(_, bound)| *bound) else {
            continue;
        };
        let ended = row.requests.saturating_sub(row.open());
        let bound = bound * SECOND.unsigned_abs();
        let bad = match row.code {
            None | Some(0 | 500..) => ended,
            Some(_) => row.latency().count().saturating_sub(row.latency().up_to(bound)),
        };
        slo.requests += ended as f64;
        slo.bad += bad as f64;
    }
    slo
}
