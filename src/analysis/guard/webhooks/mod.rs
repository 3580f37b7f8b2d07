//! Admission webhooks: matched requests, health, and what stops when one is unreachable. (Rules:
//! docs/commands/guard-webhooks.md.)

mod asked;
mod findings;
pub mod report;
mod seen;

pub use asked::Namespaces;
pub use seen::{Counter, Seen};

use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::{Fact, Facts};
use crate::analysis::metrics::quantile::Buckets;
use std::collections::BTreeMap;

/// The label `type` of mutating webhooks; that of others is `validating`.
const MUTATING: &str = "admit";

/// What metrics report a webhook.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Calls a second.
    pub calls_per_s: Option<f64>,
    /// Median, in ms.
    pub p50_ms: Option<f64>,
    /// 99th percentile, in ms.
    pub p99_ms: Option<f64>,
    /// Requests that it refused.
    pub refused: u64,
    /// Calls that failed, so that requests did.
    pub failed: u64,
    /// Calls that failed, and requests were let through.
    pub failed_open: u64,
}

impl Measured {
    /// The median and the 99th percentile of a webhook with this timeout, in ms. Between the bounds of a histogram's
    /// buckets a quantile is a guess; no call takes longer than its timeout.
    pub fn within(&self, timeout_s: u32) -> [Option<f64>; 2] {
        let longest = f64::from(timeout_s.max(1)) * 1e3;
        [self.p50_ms, self.p99_ms].map(|quantile| Some(quantile?.min(longest)))
    }
}

/// What metrics show, by webhook: its name, and whether it mutates.
pub type MeasuredWebhooks = BTreeMap<(String, bool), Measured>;

/// What metrics show. A validating webhook and a mutating one may have one name; the label `type` says which is meant.
pub fn measured(facts: &Facts) -> MeasuredWebhooks {
    let mut found = MeasuredWebhooks::new();
    let mut buckets: BTreeMap<(String, bool), Buckets> = BTreeMap::new();
    let label = |fact: &Fact, at: usize| fact.labels.get(at).map_or("", |label| facts.text(*label));
    let key = |fact: &Fact| (label(fact, 0).to_owned(), label(fact, 1) == MUTATING);
    for fact in facts.of(Metric::WebhookDuration) {
        let of = found.entry(key(fact)).or_default();
        match fact.part {
            Part::Count => *of.calls_per_s.get_or_insert(0.0) += facts.rate(fact),
            Part::Bucket => buckets.entry(key(fact)).or_default().add(fact.bound, fact.increase),
            _ => {}
        }
    }
    for (key, buckets) in buckets {
        let of = found.entry(key).or_default();
        [of.p50_ms, of.p99_ms] = [0.5, 0.99].map(|q| buckets.quantile(q).map(|seconds| seconds * 1e3));
    }
    for fact in facts.of(Metric::WebhookRejections) {
        let of = found.entry(key(fact)).or_default();
        // `no_error`: it answered, and said no.
        let count = if matches!(label(fact, 3), "no_error" | "") { &mut of.refused } else { &mut of.failed };
        *count += fact.increase.round() as u64;
    }
    for fact in facts.of(Metric::WebhookFailOpen) {
        found.entry(key(fact)).or_default().failed_open += fact.increase.round() as u64;
    }
    // Without a second page there is no rate.
    found.values_mut().for_each(|of| of.calls_per_s = of.calls_per_s.filter(|rate| rate.is_finite()));
    found
}
