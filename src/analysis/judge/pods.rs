//! What requests do with pods.

use super::requests::{Caller, Kind, Row};

/// What a kind of request does with pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodStep {
    Created,
    Bound,
    /// Its status is written.
    Marked,
}

impl PodStep {
    pub(super) fn of([verb, group, resource, subresource]: &Kind) -> Option<Self> {
        match (verb.as_str(), group.as_str(), resource.as_str(), subresource.as_str()) {
            ("create", "", "pods", "") => Some(Self::Created),
            ("create", "", "pods", "binding") | ("create", "", "bindings", "") => Some(Self::Bound),
            ("update" | "patch", "", "pods", "status") => Some(Self::Marked),
            _ => None,
        }
    }
}

/// What happened to pods in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pods {
    pub(super) created: f64,
    pub(super) bound: f64,
    pub(super) marked: f64,
}

impl Pods {
    /// Adds what was done; kubelets create pods that are theirs already.
    pub(super) fn add(&mut self, step: PodStep, [user, _]: &Caller, row: &Row<'_>) {
        let done = (row.requests - row.errors - row.throttled - row.refused).max(0.0);
        match step {
            PodStep::Created if user.starts_with("system:node:") => {}
            PodStep::Created => self.created += done,
            PodStep::Bound => self.bound += done,
            PodStep::Marked => self.marked += done,
        }
    }
}
