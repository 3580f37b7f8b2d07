//! What Kubernetes' service level objectives make of metrics pages: requests by class, and those that missed.

use super::catalogue::{Metric, Part};
use super::facts::{Fact, Facts};
use super::glance::Class;
use crate::analysis::objectives::{CLASSES, SloCount};
use crate::model::event::is_lasting;

/// Requests of a class, and those that missed its objective; `None` where pages do not show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Missed {
    pub(super) class: &'static str,
    /// Seconds within which they must be answered.
    pub(super) bound: u64,
    pub(super) requests: Option<f64>,
    pub(super) slow: Option<f64>,
    pub(super) errors: Option<f64>,
}

impl Missed {
    /// Share of requests that missed it.
    pub(super) fn bad_share(&self) -> Option<f64> {
        let requests = self.requests.filter(|requests| *requests > 0.0)?;
        Some((self.slow? + self.errors?) / requests)
    }
}

/// All classes; none where pages lack the metric of the objectives.
pub(super) fn missed(facts: &Facts) -> Vec<Missed> {
    if !facts.has(Metric::SliDuration) {
        return Vec::new();
    }
    let class = |fact: &Fact| {
        let label = |at: usize| facts.text(fact.labels[at]);
        if is_lasting(label(4).as_bytes()) {
            return None;
        }
        match (Class::of(facts, fact)?, label(5)) {
            (Class::Write, _) => Some("write"),
            (_, "resource") => Some("read-object"),
            (_, "namespace") => Some("read-namespace"),
            (_, "cluster") => Some("read-cluster"),
            _ => None,
        }
    };
    let of_class = |(name, bound): (&'static str, u64)| {
        let buckets = facts.buckets_of(Metric::SliDuration, |fact| class(fact) == Some(name));
        // Where nothing of a class was asked for, nothing was slow; where the bound has no bucket, it can't be
        // reported.
        let all = facts.increase_of(Metric::SliDuration, Part::Count, |fact| class(fact) == Some(name));
        let slow = match buckets.count().or(all).filter(|all| *all > 0.0) {
            None => Some(0.0),
            Some(all) => buckets.up_to(bound as f64).map(|in_time| (all - in_time).max(0.0)),
        };
        let failed = |fact: &Fact| {
            class(fact) == Some(name)
                && facts.text(fact.labels[7]).parse::<u16>().is_ok_and(|code| code == 0 || code >= 500)
        };
        let errors = facts.increase_of(Metric::Requests, Part::Whole, failed);
        let requests = facts.increase_of(Metric::Requests, Part::Whole, |fact| class(fact) == Some(name));
        Missed { class: name, bound, requests, slow, errors }
    };
    CLASSES.map(of_class).to_vec()
}

/// What pages show of all classes together; `None` where they lack the metric of the objectives, or requests.
pub fn slo(facts: &Facts) -> Option<SloCount> {
    let all = missed(facts);
    let sum = |of: fn(&Missed) -> Option<f64>| all.iter().map(of).sum::<Option<f64>>();
    let slo = SloCount { requests: sum(|own| own.requests)?, bad: sum(|own| own.slow)? + sum(|own| own.errors)? };
    (slo.requests > 0.0).then_some(slo)
}
