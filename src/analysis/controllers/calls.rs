//! What the processes ask of the apiserver: whether their own limits, or the apiserver, hold them back.

use super::{mean_ms, quantile_ms};
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::Facts;

/// The requests of one process to the apiserver.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calls {
    /// Index of the instance.
    pub instance: usize,
    /// Requests each second.
    pub per_s: Option<f64>,
    /// How long one waits for the process's own limit, before it is sent (ms, mean).
    pub limiter_mean_ms: Option<f64>,
    /// The same, by the 99th percentile.
    pub limiter_p99_ms: Option<f64>,
    /// How long one takes, with that (ms, mean).
    pub mean_ms: Option<f64>,
    /// The same, by the 99th percentile.
    pub p99_ms: Option<f64>,
    /// Requests that failed: no answer, or 5xx.
    pub errors: f64,
    /// Requests that the apiserver refused for now (429).
    pub throttled: f64,
    /// How many were sent.
    pub requests: f64,
}

const METRICS: [Metric; 3] = [Metric::ClientRequests, Metric::ClientDuration, Metric::ClientLimiter];

/// Processes that asked anything; apiservers are left out, which mostly ask themselves.
pub fn calls(facts: &Facts) -> Vec<Calls> {
    let of = facts
        .sliced(&METRICS, |_, fact| (!facts.instances[fact.instance].component.is_store()).then_some(fact.instance));
    let reported = of.into_iter().map(|(instance, slice)| {
        let with = |accept: fn(&str) -> bool| {
            slice
                .of(Metric::ClientRequests)
                .iter()
                .filter(|fact| accept(facts.text(fact.labels[0])))
                .map(|fact| fact.increase)
                .sum::<f64>()
        };
        Calls {
            instance,
            per_s: slice.rate(Metric::ClientRequests, Part::Whole),
            limiter_mean_ms: mean_ms(&slice, Metric::ClientLimiter),
            limiter_p99_ms: quantile_ms(&slice, Metric::ClientLimiter, 0.99),
            mean_ms: mean_ms(&slice, Metric::ClientDuration),
            p99_ms: quantile_ms(&slice, Metric::ClientDuration, 0.99),
            errors: with(|code| code == "<error>" || code.starts_with('5')),
            throttled: with(|code| code == "429"),
            requests: with(|_| true),
        }
    });
    reported.filter(|calls| calls.requests > 0.0).collect()
}
