//! The kinds of operations: what they are called, how grave they are, what would have stopped them; what that says of
//! a group.

use super::bodies::{ESCALATES, UNSEEN};
use super::group::Group;
use crate::analysis::rollup::notable::Notable;
use crate::model::report::Severity;

/// A kind of operation.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name, in JSON and in docs/commands/guard.md.
    pub kind: &'static str,
    /// What was done, for people: "deleted a namespace".
    pub words: &'static str,
    /// Whether these words leave open what it was done to, so that the resource has to be named.
    pub is_open: bool,
    /// How many of one actor within the window make it worth a row; 1: each does.
    pub least: usize,
    /// How grave it is where it was done.
    severity: fn(&Group) -> Severity,
    /// What would have stopped it.
    pub stopped_by: &'static str,
}

fn info(_: &Group) -> Severity {
    Severity::Info
}

fn warning(_: &Group) -> Severity {
    Severity::Warning
}

fn critical(_: &Group) -> Severity {
    Severity::Critical
}

/// A namespace is as grave as what was in it: empty ones come and go.
fn namespace(group: &Group) -> Severity {
    if group.is_known_empty() { Severity::Info } else { Severity::Critical }
}

/// All objects go with it. Where there were none, programs that watch them fail all the same.
fn definition(group: &Group) -> Severity {
    if group.is_known_empty() { Severity::Warning } else { Severity::Critical }
}

/// One node is maintenance, many are an outage.
fn nodes(group: &Group) -> Severity {
    if group.objects() >= 3 { Severity::Critical } else { Severity::Warning }
}

fn hundreds(group: &Group) -> Severity {
    if group.objects() >= 100 { Severity::Critical } else { Severity::Warning }
}

/// Collections of what all else hangs on.
fn collection(group: &Group) -> Severity {
    let is_root = matches!(
        group.first.resource.as_str(),
        "nodes" | "namespaces" | "customresourcedefinitions" | "persistentvolumes"
    );
    if is_root || group.is_of_all { Severity::Critical } else { Severity::Warning }
}

/// Rights over everything, or for everyone.
fn rights(group: &Group) -> Severity {
    let has_detail = |what: &str| group.details().iter().any(|detail| detail.starts_with(what));
    if has_detail(ESCALATES) {
        Severity::Critical
    } else if has_detail(UNSEEN) {
        Severity::Warning
    } else {
        Severity::Info
    }
}

/// A wave through the cluster, not one node.
fn wave(group: &Group) -> Severity {
    if group.objects() >= 3 { Severity::Warning } else { Severity::Info }
}

const fn rule(
    kind: &'static str,
    words: &'static str,
    least: usize,
    severity: fn(&Group) -> Severity,
    stopped_by: &'static str,
) -> Rule {
    Rule { kind, words, is_open: false, least, severity, stopped_by }
}

/// One that may be about any resource.
const fn open(
    kind: &'static str,
    words: &'static str,
    least: usize,
    severity: fn(&Group) -> Severity,
    stopped_by: &'static str,
) -> Rule {
    Rule { is_open: true, ..rule(kind, words, least, severity, stopped_by) }
}

const BY_NAME: &str = "require an annotation with the object's name before it can be deleted \
     (ValidatingAdmissionPolicy; plimsoll guard policies)";
const BY_RIGHTS: &str = "grant this verb on this resource only to the deployment pipeline";
const BY_REVIEW: &str = "change it only through a repository with reviews";
const BY_COLLECTION: &str = "do not grant the deletecollection verb; RBAC treats it separately from delete";
const BY_EVICTION: &str = "use evictions (kubectl drain) instead of deletes: they respect disruption budgets";
const BY_OPTIONS: &str = "deny gracePeriodSeconds=0 by a ValidatingAdmissionPolicy on request.options";
const BY_NUMBER: &str = "require an annotation that confirms the new number of replicas (ValidatingAdmissionPolicy; \
     plimsoll guard policies)";
const BY_PROXY: &str = "do not grant nodes/proxy: it allows running anything on the node";

/// All of them.
pub const RULES: [Rule; 26] = [
    rule("delete-namespace", "deleted a namespace", 1, namespace, BY_NAME),
    rule("delete-crd", "deleted a CRD", 1, definition, BY_NAME),
    rule("delete-node", "deleted a node", 1, nodes, "let only the cloud controller and the autoscaler delete nodes"),
    rule("delete-apiservice", "deleted an APIService", 1, critical, BY_NAME),
    rule("delete-pdb", "deleted a disruption budget", 1, warning, BY_REVIEW),
    rule(
        "delete-volume",
        "deleted a persistent volume",
        1,
        warning,
        "set reclaimPolicy Retain, and do not grant delete on persistentvolumes",
    ),
    rule("delete-control-plane-lease", "deleted a control-plane lease", 1, critical, BY_RIGHTS),
    open("delete-collection", "deleted a collection", 1, collection, BY_COLLECTION),
    rule("delete-pod", "deleted a pod", 10, hundreds, BY_EVICTION),
    rule("evict", "evicted a pod", 10, info, "set PodDisruptionBudgets on workloads that must stay up"),
    rule("force-delete", "deleted a pod by force", 1, warning, BY_OPTIONS),
    open("scale-to-zero", "scaled to zero", 1, warning, BY_NUMBER),
    open(
        "strip-finalizers",
        "removed finalizers",
        1,
        warning,
        "deny updates that shorten metadata.finalizers by a ValidatingAdmissionPolicy",
    ),
    rule("finalize", "finalized a namespace by hand", 1, warning, "do not grant update on namespaces/finalize"),
    rule(
        "drain",
        "drained a node",
        1,
        wave,
        "drain a few nodes at a time, and set PodDisruptionBudgets on workloads that must stay up",
    ),
    rule("cordon", "cordoned a node", 1, wave, "drain a few nodes at a time"),
    open("webhook-write", "changed admission", 1, warning, BY_REVIEW),
    rule("apiservice-write", "changed an APIService", 1, warning, BY_REVIEW),
    open("rbac-write", "changed RBAC", 1, rights, BY_REVIEW),
    open("flowcontrol-write", "changed API Priority and Fairness", 1, warning, BY_REVIEW),
    rule(
        "token-create",
        "created a service account token",
        10,
        info,
        "restrict serviceaccounts/token to named accounts (resourceNames)",
    ),
    rule("csr-approve", "approved a certificate", 1, info, "use an approver that checks each request"),
    rule("exec", "ran a command in a container", 1, info, "do not grant pods/exec in production"),
    rule(
        "ephemeral-container",
        "added a container to a running pod",
        1,
        info,
        "do not grant pods/ephemeralcontainers in production",
    ),
    rule("node-proxy", "accessed a kubelet through the apiserver", 1, info, BY_PROXY),
    open("forbidden", "was forbidden", 10, warning, "the requests were rejected; find out who sent them, and why"),
];

impl Rule {
    /// The rule of a kind.
    pub fn of(kind: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.kind == kind)
    }

    /// How grave these are. What was only tried is worth knowing, no more.
    pub fn severity(&self, group: &Group) -> Severity {
        let is_tried = group.done + group.unsure == 0;
        // Of kinds of which many count: what was not found any more was not done.
        let is_little = self.least > 1 && group.objects() < self.least as u64;
        if (is_tried || is_little) && self.kind != "forbidden" { Severity::Info } else { (self.severity)(group) }
    }
}

impl Group {
    /// Whether it is worth a row.
    pub fn counts(&self) -> bool {
        Rule::of(self.first.kind).is_some_and(|rule| self.most >= rule.least as u64 && !self.is_cleanup)
    }

    /// How grave it is.
    pub fn severity(&self) -> Severity {
        Rule::of(self.first.kind).map_or(Severity::Info, |rule| rule.severity(self)).max(self.floor)
    }

    /// What would have prevented it.
    pub fn stopped_by(&self) -> Option<String> {
        Rule::of(self.first.kind).map(|rule| rule.stopped_by.to_owned())
    }
}

/// Whether an operation is of one of these kinds; of any where none is named.
pub fn is_of_kinds(one: &Notable, kinds: &[String]) -> bool {
    // A drain is derived from these two.
    let is_of_drain = |kind: &str| kind == "drain" && matches!(one.kind, "cordon" | "evict");
    kinds.is_empty() || kinds.iter().any(|kind| kind == one.kind || is_of_drain(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_one_rule() {
        let mut kinds: Vec<&str> = RULES.iter().map(|rule| rule.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), RULES.len());
    }
}
