//! A pod that has no node yet.

use crate::model::time::Micros;
use std::collections::BTreeMap;

/// Why a scheduler can't take a pod for equal to another, however alike the two are: where it fits depends on where
/// others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Apart {
    /// It has affinity or anti-affinity to pods.
    PodAffinity,
    /// It has topology spread constraints.
    TopologySpread,
    /// It claims devices (`resourceClaims`).
    ResourceClaims,
}

impl Apart {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::PodAffinity => "pod-affinity",
            Self::TopologySpread => "topology-spread",
            Self::ResourceClaims => "resource-claims",
        }
    }
}

/// What a scheduler decides by, beside the resources that a pod asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Which scheduler is to find a node.
    pub scheduler: String,
    /// Its priority: the higher comes first.
    pub priority: i64,
    /// When it was created, in microseconds.
    pub created: Option<Micros>,
    pub labels: BTreeMap<String, String>,
    /// What nodes are filtered and scored by (node selector and affinity, tolerations, host ports, images, volumes,
    /// affinity to pods, spread, claims), in one form: equal needs are equal texts.
    pub needs: String,
    /// Why it can't be taken for equal to others.
    pub apart: Vec<Apart>,
    /// Gates that keep it from being looked at.
    pub gates: Vec<String>,
    /// Why it has no node, in one word (`Unschedulable`, `SchedulingGated`); empty where nobody tried.
    pub reason: String,
    /// The same in full.
    pub message: String,
}
