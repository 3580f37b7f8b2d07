//! What the judge reads: requests by time, caller and kind, whatever they were counted from.

use crate::analysis::failure::Fault;
use crate::analysis::traffic::Outcome;
use crate::model::cause::Source;
use crate::model::event::is_lasting;
use crate::model::time::{Micros, SECOND, Span};
use std::ops::Range;

/// Who asks: user (all kubelets are one) and agent; both empty where the source does not say.
pub type Caller = [String; 2];

/// What is asked for: verb, API group, resource, subresource; of LISTs [`IN_NAMESPACE`] in its place, where they are of
/// one namespace: they cost far less than those of all.
pub type Kind = [String; 4];

/// LISTs of one namespace.
pub const IN_NAMESPACE: &str = "(in a namespace)";

/// The kind of requests with this verb, group, resource and subresource.
pub fn kind_of([verb, group, resource, subresource]: [&str; 4], is_of_namespace: bool) -> Kind {
    let narrow = if verb == "list" && is_of_namespace { IN_NAMESPACE } else { subresource };
    [verb, group, resource, narrow].map(str::to_owned)
}

/// The verb of what pages count without its kind: requests without valid credentials, which are answered with 401
/// before anybody looks at what they ask for.
pub const UNAUTHENTICATED: &str = "unauthenticated";

/// Whoever sends so many times more than before asks for more.
pub const MORE: f64 = 1.3;

/// How time is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Length of an interval, in µs.
    pub tile: Micros,
    /// Where the first interval since 1970 begins, below `tile`: pages are not taken at whole tens of seconds.
    pub phase: Micros,
    /// What the source covers, in µs since 1970.
    pub span: Span,
}

impl Grid {
    /// Number since 1970 of the first interval.
    pub fn first(self) -> i64 {
        self.number(self.span.0)
    }

    /// Number since 1970 of the interval of a moment.
    pub fn number(self, at: Micros) -> i64 {
        (at - self.phase).div_euclid(self.tile)
    }

    /// When the interval of this number since 1970 begins.
    pub fn begin(self, number: i64) -> Micros {
        number * self.tile + self.phase
    }

    /// How many intervals there are, those at the ends in part covered.
    pub fn len(self) -> usize {
        let last = self.number((self.span.1 - 1).max(self.span.0));
        usize::try_from(last - self.first() + 1).unwrap_or(0)
    }

    /// Whether nothing is covered.
    pub fn is_empty(self) -> bool {
        self.span.1 <= self.span.0
    }

    /// When intervals are, as far as the source covers them.
    pub fn covered(self, tiles: &Range<usize>) -> Span {
        (self.start(tiles.start).max(self.span.0), self.start(tiles.end).min(self.span.1))
    }

    /// Seconds of an interval that the source covers.
    pub fn seconds(self, at: usize) -> f64 {
        let (from, to) = self.covered(&(at..at + 1));
        (to - from).max(0) as f64 / SECOND as f64
    }

    /// When an interval begins.
    pub fn start(self, at: usize) -> Micros {
        self.begin(self.first() + at as i64)
    }

    /// What rose between two moments, spread evenly over the time between them: `take` is given each interval and its
    /// part.
    pub fn spread(self, (from, to): Span, increase: f64, mut take: impl FnMut(usize, f64)) {
        if from >= to {
            return;
        }
        for number in self.number(from)..=self.number(to - 1) {
            let start = self.begin(number);
            let part = (start + self.tile).min(to) - start.max(from);
            if let Some(place) = self.place(start) {
                take(place, increase * part as f64 / (to - from) as f64);
            }
        }
    }

    /// Whether an interval and a time have a part in common.
    pub fn meets(self, at: usize, span: Span) -> bool {
        self.start(at) < span.1 && self.start(at + 1) > span.0
    }

    /// The interval of a moment; `None` outside of what is covered.
    pub fn place(self, at: Micros) -> Option<usize> {
        let place = usize::try_from(self.number(at) - self.first()).ok()?;
        (place < self.len()).then_some(place)
    }
}

/// A kind of request is slower from so many times its price on, and by so much, s.
pub(super) const SLOWER: f64 = 2.0;
pub(super) const SLOWER_BY_S: f64 = 0.02;

/// Requests of one caller and kind at one apiserver that ended in one interval.
#[derive(Debug, Clone, Copy)]
pub struct Row<'r> {
    /// Number of the interval, from 0.
    pub tile: usize,
    /// Place among [`Requests::callers`].
    pub caller: usize,
    /// Place among [`Requests::kinds`].
    pub kind: usize,
    /// Whether the apiserver started in this time: then these are nobody's load, and show only that it answers.
    pub is_start: bool,
    /// Which of [`CONTROLLERS`] asks, where that is known though callers are not.
    pub controller: Option<usize>,
    /// Place among [`Requests::instances`].
    pub instance: usize,
    /// How many ended; of long-running ones also those whose end is not known.
    pub requests: f64,
    /// Of these, code 0 or ≥ 500.
    pub errors: f64,
    /// Of these, code 429.
    pub throttled: f64,
    /// Of these, code 400, 403 or 422: a rule of the cluster refused them.
    pub refused: f64,
    /// Of these, code 401: no valid credentials.
    pub unauthorized: f64,
    /// Seconds that the apiserver says slow requests spent in etcd, in webhooks, in the APF queue.
    pub spent: [f64; 3],
    /// Latencies: seconds, and how many. Of watches the time to their start.
    pub latency: &'r [(f32, f32)],
}

impl Row<'_> {
    /// Of requests that failed, those that took no longer than such a request does in quiet intervals (`price`, s):
    /// they are asked again, and nobody asks for more. What waits for its deadline is work that could not be done.
    pub fn unserved(&self, price: f64) -> f64 {
        let slow = SLOWER * price + SLOWER_BY_S;
        let (count, fast) = self.latency.iter().fold((0.0, 0.0), |sum, (seconds, count)| {
            let count = f64::from(*count);
            (sum.0 + count, sum.1 + if f64::from(*seconds) <= slow { count } else { 0.0 })
        });
        if self.errors > 0.0 && count > 0.0 { self.errors * fast / count } else { 0.0 }
    }

    /// Its caller and kind.
    pub fn pair(&self) -> (u32, u32) {
        (self.caller as u32, self.kind as u32)
    }
}

/// What rows are numbered by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes {
    /// How time is cut.
    pub grid: Grid,
    pub callers: Vec<Caller>,
    /// The kinds of requests.
    pub kinds: Vec<Kind>,
    /// The apiservers.
    pub instances: Vec<String>,
}

/// Requests of an interval whose messages name the same.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultCount {
    /// Number of the interval.
    pub tile: usize,
    pub fault: Fault,
    /// The webhook, API group, policy or quota; may be empty.
    pub name: String,
    pub count: f64,
}

/// Requests in time.
pub trait Requests {
    /// What they were counted from.
    fn source(&self) -> Source;

    /// What its rows are numbered by.
    fn axes(&self) -> &Axes;

    /// How time is cut.
    fn grid(&self) -> Grid {
        self.axes().grid
    }

    /// The callers.
    fn callers(&self) -> &[Caller] {
        &self.axes().callers
    }

    /// The kinds of requests.
    fn kinds(&self) -> &[Kind] {
        &self.axes().kinds
    }

    /// The apiservers.
    fn instances(&self) -> &[String] {
        &self.axes().instances
    }

    /// Whether some of a kind are in the source and left out here: what apiservers ask themselves.
    fn leaves_out(&self, _kind: &Kind) -> bool {
        false
    }

    /// When what is read of one of several apiservers begins or ends, though it was there before or behind: the load of
    /// all changes then, and nobody asks for more or less.
    fn seams(&self) -> &[Micros] {
        &[]
    }

    /// What messages of requests that failed or were denied name, by interval.
    fn faults(&self) -> &[FaultCount] {
        &[]
    }

    /// Intervals in which apiservers started, as far as the source says so, and the number of each.
    fn starts(&self) -> &[(Span, usize)] {
        &[]
    }

    /// Hands each row to `take`, in any order; a key may come in several rows.
    fn each(&self, take: &mut dyn FnMut(Row<'_>));
}

/// What a request does, as far as its cost and its victims are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// GET and what is no resource.
    Read,
    List,
    /// What etcd has to keep: create, update, patch, delete.
    Write,
    /// Reviews and tokens, which are created and not kept.
    Review,
    /// What lasts: watches, exec, logs.
    Long,
}

impl Class {
    /// Of a kind of request.
    pub fn of([verb, _, resource, subresource]: &Kind) -> Self {
        let is_long = is_lasting(subresource.as_bytes());
        match verb.as_str() {
            verb if is_long_running(verb) => Self::Long,
            _ if is_long => Self::Long,
            "list" => Self::List,
            "create" if resource.ends_with("reviews") || subresource == "token" => Self::Review,
            "create" | "update" | "patch" | "delete" | "deletecollection" => Self::Write,
            _ => Self::Read,
        }
    }
}

/// Whether requests with this verb last, whatever they are for: when one ends, and how long it took, says nothing of
/// the load.
pub fn is_long_running(verb: &str) -> bool {
    matches!(verb, "watch" | "connect" | "proxy")
}

/// How requests of a kind ended that have this code. An eviction that a PodDisruptionBudget refuses has 429, too:
/// nothing is throttled, and whoever drains a node asks again.
pub fn outcome(code: Option<u16>, [_, _, _, subresource]: &Kind) -> Outcome {
    match Outcome::of_code(code) {
        Outcome::Throttled if subresource == "eviction" => Outcome::ClientError,
        other => other,
    }
}

/// Users of the controllers that each cluster has, and their names.
pub const CONTROLLERS: [(&str, &str); 2] =
    [("system:kube-controller-manager", "kube-controller-manager"), ("system:kube-scheduler", "kube-scheduler")];

/// Which of them a caller is.
pub fn controller([user, _]: &Caller) -> Option<usize> {
    CONTROLLERS.iter().position(|(own, _)| own == user)
}

/// Which of them a caller is, or is an account of: each controller may have one of its own.
pub fn account_of_controller(caller: &Caller) -> Option<usize> {
    let [user, agent] = caller;
    let is_account = || user.starts_with("system:serviceaccount:kube-system:");
    controller(caller).or_else(|| CONTROLLERS.iter().position(|(_, name)| name == agent && is_account()))
}

/// Accounts of what kube-controller-manager and cloud-controller-manager run, where each of their controllers has one
/// (the roles of Kubernetes' bootstrap policy, 1.20 to 1.36).
const BUILT_IN: [&str; 47] = [
    "attachdetach-controller",
    "bootstrap-signer",
    "certificate-controller",
    "cloud-provider",
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemon-set-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "endpoint-controller",
    "endpointslice-controller",
    "endpointslicemirroring-controller",
    "ephemeral-volume-controller",
    "expand-controller",
    "generic-garbage-collector",
    "horizontal-pod-autoscaler",
    "job-controller",
    "legacy-service-account-token-cleaner",
    "namespace-controller",
    "node-controller",
    "persistent-volume-binder",
    "pod-garbage-collector",
    "podcertificaterequestcleaner",
    "podgroup-protection-controller",
    "pv-protection-controller",
    "pvc-protection-controller",
    "replicaset-controller",
    "replication-controller",
    "resource-claim-controller",
    "resourcepoolstatusrequest-controller",
    "resourcequota-controller",
    "root-ca-cert-publisher",
    "route-controller",
    "selinux-warning-controller",
    "service-account-controller",
    "service-ca-cert-publisher",
    "service-cidrs-controller",
    "service-controller",
    "statefulset-controller",
    "storage-version-garbage-collector",
    "storage-version-migrator-controller",
    "token-cleaner",
    "ttl-after-finished-controller",
    "ttl-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
];

/// Whether a caller is a part of the control plane, or a kubelet: what it asks for follows from what others do.
/// Whatever else has an account in kube-system (an autoscaler, a CSI driver, DNS) is a client as any other.
pub fn is_control_plane([user, agent]: &Caller) -> bool {
    let own = ["system:node:", "system:kube-", "system:apiserver", "system:cloud-controller-manager"];
    if own.iter().any(|prefix| user.starts_with(prefix)) {
        return true;
    }
    let manager = ["kube-controller-manager", "cloud-controller-manager"];
    user.strip_prefix("system:serviceaccount:kube-system:")
        .is_some_and(|name| BUILT_IN.contains(&name) || manager.iter().any(|own| agent.starts_with(own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kube_system_holds_beside_the_control_plane_is_a_client() {
        let is_own = |user: &str, agent: &str| is_control_plane(&[user.to_owned(), agent.to_owned()]);
        let account = |name: &str| format!("system:serviceaccount:kube-system:{name}");
        assert!(is_own(&account("deployment-controller"), "k3s"));
        assert!(is_own(&account("some-new-controller"), "kube-controller-manager"));
        assert!(is_own("system:kube-scheduler", "") && is_own("system:node:*", "kubelet"));
        assert!(!is_own(&account("cluster-autoscaler"), "cluster-autoscaler"));
        assert!(!is_own(&account("ebs-csi-controller-sa"), "csi-provisioner"));
        assert!(!is_own("system:serviceaccount:shop:deployment-controller", "kube-controller-manager"));
    }
}
