//! What requests say of nodes: that a kubelet lives, that it does not.

use super::requests::{Caller, Kind};

/// What a kind of request says of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// The node controller writes that a kubelet does not answer: it alone replaces the status of nodes, others patch
    /// it.
    Mark,
    /// A kubelet lives.
    Renewal,
    /// Taints are added or removed.
    Taint,
}

impl Sign {
    /// What a kind of request says if the right one sends it.
    pub fn of([verb, group, resource, subresource]: &Kind) -> Option<Self> {
        match (verb.as_str(), group.as_str(), resource.as_str(), subresource.as_str()) {
            ("update", "", "nodes", "status") => Some(Self::Mark),
            ("patch", "", "nodes", "") => Some(Self::Taint),
            ("update" | "patch", "coordination.k8s.io", "leases", "") => Some(Self::Renewal),
            _ => None,
        }
    }

    /// Whether it is this caller who gives it; metrics name none.
    pub fn is_of(self, [user, _]: &Caller) -> bool {
        let is_controller = || {
            matches!(
                user.as_str(),
                "system:serviceaccount:kube-system:node-controller" | "system:kube-controller-manager"
            )
        };
        user.is_empty()
            || match self {
                Self::Mark | Self::Taint => is_controller(),
                Self::Renewal => user.starts_with("system:node:"),
            }
    }
}

/// Requests of an interval that say something of nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeSigns {
    pub marks: f64,
    pub renewals: f64,
    pub taints: f64,
}

impl NodeSigns {
    /// Adds requests.
    pub fn add(&mut self, sign: Sign, requests: f64) {
        match sign {
            Sign::Mark => self.marks += requests,
            Sign::Renewal => self.renewals += requests,
            Sign::Taint => self.taints += requests,
        }
    }
}
