//! Kubernetes objects, as far as capacity depends on them.

use crate::model::quantity::Quantity;
use crate::model::time::Micros;
use crate::model::waiting::Waiting;
use crate::model::webhooks::Webhook;
use std::collections::BTreeMap;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Adds the defaults that are missing, name by name.
pub fn fill(amounts: &mut Amounts, defaults: &Amounts) {
    for (name, amount) in defaults {
        amounts.entry(name.clone()).or_insert(*amount);
    }
}

/// A namespace, with what its owner is read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// A container's resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Container {
    pub name: String,
    /// What it asks for.
    pub requests: Amounts,
    /// What it may take.
    pub limits: Amounts,
    /// An init container that runs on: a sidecar.
    pub is_sidecar: bool,
    /// While it is resized: what it has.
    pub status: Option<Resized>,
}

/// What the kubelet says a container has, which differs from its spec while it is resized.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resized {
    /// `resources.requests` of its status.
    pub requests: Amounts,
    /// `resources.limits` of its status.
    pub limits: Amounts,
    /// `allocatedResources` of its status.
    pub allocated: Amounts,
}

/// What of a pod's spec quotas look at; the same in a workload's template.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSpec {
    pub containers: Vec<Container>,
    /// Its init containers, in order.
    pub init: Vec<Container>,
    /// What is asked for the pod as a whole.
    pub pod_requests: Amounts,
    /// What the pod as a whole may take.
    pub pod_limits: Amounts,
    /// What its runtime takes.
    pub overhead: Amounts,
    /// Its priority class; empty where it has none.
    pub priority_class: String,
    /// Whether it ends after a set time (`activeDeadlineSeconds`).
    pub is_terminating: bool,
    /// Whether an affinity term looks into other namespaces.
    pub crosses_namespaces: bool,
}

/// A pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    /// Kind and name of what controls it.
    pub controller: Option<(String, String)>,
    pub spec: PodSpec,
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    pub phase: String,
    /// When it is deleted at the latest, where it is being deleted: its deletion and the time of grace.
    pub gone_by: Option<Micros>,
    /// Whether a resize that was asked for can't be done.
    pub resize_is_infeasible: bool,
    /// While it has no node: what its scheduler decides by.
    pub waiting: Option<Box<Waiting>>,
}

impl Pod {
    /// Whether all of its containers have ended for good.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// Something that makes pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    /// `Deployment`, `StatefulSet`, …
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// How many pods it wants.
    pub replicas: u64,
    /// How many more there are while a new version rolls out.
    pub surge: u64,
    /// How many fewer there may be meanwhile.
    pub unavailable: u64,
    /// The pods it makes.
    pub template: PodSpec,
    /// Kind and name of what made it, if anything did.
    pub controller: Option<(String, String)>,
}

/// One of a quota's scopes: which pods it counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// `Terminating`, `BestEffort`, `PriorityClass`, …
    pub name: String,
    /// `Exists`, `In`, `NotIn`, `DoesNotExist`; a plain scope exists.
    pub operator: String,
    /// Names of priority classes.
    pub values: Vec<String>,
}

/// A ResourceQuota.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceQuota {
    pub namespace: String,
    pub name: String,
    /// What it grants, by its spec.
    pub hard: Amounts,
    /// What is used, as the cluster counts it.
    pub used: Amounts,
    /// Which pods it counts: those that all of these hold for.
    pub scopes: Vec<Scope>,
    /// The field managers that own it, by the fields that they set; empty where the file was taken without them.
    pub managers: Vec<String>,
}

/// A LimitRange's rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LimitRange {
    pub namespace: String,
    pub name: String,
    /// `Container`, `Pod`, `PersistentVolumeClaim`.
    pub of: String,
    /// What a container asks for that says nothing.
    pub default_requests: Amounts,
    /// What a container may take that says nothing.
    pub default_limits: Amounts,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    pub name: String,
    /// What pods may take of it in all.
    pub allocatable: Amounts,
    /// Whether it takes new pods: ready, not cordoned.
    pub takes_pods: bool,
    /// Whether it has a taint that keeps pods away (`NoSchedule`, `NoExecute`).
    pub is_tainted: bool,
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claim {
    pub namespace: String,
    /// Its storage class; empty for none.
    pub class: String,
    /// The storage that counts: what is asked for, or allocated where that is more.
    pub storage: Option<Quantity>,
}

/// A Service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    pub namespace: String,
    /// Whether it is of type LoadBalancer.
    pub is_load_balancer: bool,
    /// Node ports that count.
    pub node_ports: u64,
}

/// That an object was written in a version of its API that is none of `v1`, `v2` and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OldWriting {
    /// Group and version.
    pub version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Who wrote it so: `kubectl apply`, or the manager of some of its fields; empty where the object itself is.
    pub by: String,
}

/// The objects of one cluster at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objects {
    /// Namespaces by name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// ResourceQuotas.
    pub quotas: Vec<ResourceQuota>,
    /// LimitRanges, a rule each.
    pub limit_ranges: Vec<LimitRange>,
    pub pods: Vec<Pod>,
    /// What makes pods.
    pub workloads: Vec<Workload>,
    pub nodes: Vec<Node>,
    pub claims: Vec<Claim>,
    pub services: Vec<Service>,
    /// Admission webhooks, in the order of their configurations.
    pub webhooks: Vec<Webhook>,
    /// How many objects there are by namespace and `resource` or `resource.group`, of all kinds that were read.
    pub counts: BTreeMap<(String, String), u64>,
    /// Writings in versions that a release may no longer serve.
    pub old_writings: std::collections::BTreeSet<OldWriting>,
    /// Kinds that were read, as `Pod`, `ResourceQuota`: of others nothing is known.
    pub kinds: std::collections::BTreeSet<String>,
    /// Hashes of group, kind, namespace and name of all that were read: an object that is met again is the same.
    pub met: std::collections::HashSet<u64>,
}

impl Objects {
    /// Whether objects of a kind were read, if only to find that there is none.
    pub fn has(&self, kind: &str) -> bool {
        self.kinds.contains(kind)
    }

    /// Takes in the objects of another file or list.
    pub fn merge(&mut self, from: Self) {
        #[rustfmt::skip]
        let Self {
            namespaces, quotas, limit_ranges, pods, workloads, nodes, claims, services, webhooks, counts, old_writings,
            kinds, met,
        } = from;
        self.namespaces.extend(namespaces);
        self.quotas.extend(quotas);
        self.limit_ranges.extend(limit_ranges);
        self.pods.extend(pods);
        self.workloads.extend(workloads);
        self.nodes.extend(nodes);
        self.claims.extend(claims);
        self.services.extend(services);
        self.webhooks.extend(webhooks);
        counts.into_iter().for_each(|(key, count)| *self.counts.entry(key).or_default() += count);
        self.old_writings.extend(old_writings);
        self.kinds.extend(kinds);
        self.met.extend(met);
    }

    /// Leaves out workloads that another one makes which was read too: they are counted there. A ReplicaSet without
    /// pods that something makes is an old version of it.
    pub fn settle(&mut self) {
        let read: std::collections::BTreeSet<(String, String, String)> =
            self.workloads.iter().map(|own| (own.namespace.clone(), own.kind.clone(), own.name.clone())).collect();
        self.workloads.retain(|own| match &own.controller {
            None => true,
            Some((kind, name)) => {
                let is_old = own.kind == "ReplicaSet" && own.replicas == 0;
                !is_old && !read.contains(&(own.namespace.clone(), kind.clone(), name.clone()))
            }
        });
    }
}
