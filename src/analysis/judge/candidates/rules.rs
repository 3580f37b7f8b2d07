//! Causes that are rules of the cluster: who wrote one, and what it refuses.

use super::{BEFORE, Candidate, Case, View};
use crate::analysis::failure::Fault;
use crate::analysis::judge::requests::{Class, Kind};
use crate::analysis::judge::signals::Signal;
use crate::model::cause::Source;
use crate::model::time::{Micros, Span};
use std::collections::BTreeMap;

/// Whether priority and fairness goes by objects of a kind.
pub(super) fn is_flow([_, group, ..]: &Kind) -> bool {
    group == "flowcontrol.apiserver.k8s.io"
}

/// API groups by whose objects writes are admitted or refused: Kubernetes' own, Kyverno's, Gatekeeper's, Kubewarden's.
const ADMISSION_GROUPS: [&str; 7] = [
    "admissionregistration.k8s.io",
    "rbac.authorization.k8s.io",
    "kyverno.io",
    "policies.kyverno.io",
    "constraints.gatekeeper.sh",
    "templates.gatekeeper.sh",
    "policies.kubewarden.io",
];

/// Whether writes are admitted or refused by objects of a kind.
fn is_admission([_, group, resource, _]: &Kind) -> bool {
    ADMISSION_GROUPS.contains(&group.as_str()) || matches!(resource.as_str(), "resourcequotas" | "limitranges")
}

/// Whether a quota is written, other than that it is deleted.
fn is_quota([verb, _, resource, _]: &Kind) -> bool {
    resource == "resourcequotas" && !verb.starts_with("delete")
}

/// Whether a caller's requests of a kind change rules; the control plane itself keeps their status.
fn changes(view: &View<'_>, caller: usize, kind: usize, is_rule: fn(&Kind) -> bool) -> bool {
    let own = &view.requests.kinds()[kind];
    let is_write = view.series.classes[kind] == Class::Write;
    is_rule(own) && own[3] != "status" && is_write && !view.series.is_own[caller]
}

/// Who wrote rules when an episode began, or shortly before; or else until it ended, as whoever undoes what was wrong
/// does. In intervals that are neither of it nor of its baseline, too.
pub(super) fn writer(view: &View<'_>, (begin, end): Span, is_rule: fn(&Kind) -> bool) -> Option<usize> {
    let grid = view.series.grid;
    let mut by_caller: [BTreeMap<usize, f64>; 2] = Default::default();
    view.requests.each(&mut |row| {
        let is_in = |from: Micros, to: Micros| grid.start(row.tile + 1) > from && grid.start(row.tile) < to + grid.tile;
        let done = row.requests - row.errors - row.refused;
        if done > 0.0 && is_in(begin - BEFORE, end) && changes(view, row.caller, row.kind, is_rule) {
            *by_caller[usize::from(!is_in(begin - BEFORE, begin))].entry(row.caller).or_default() += done;
        }
    });
    let most = |all: BTreeMap<usize, f64>| all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    by_caller.into_iter().find_map(most).map(|own| own.0)
}

/// Rules that refuse the writes of many clients.
pub(super) fn refusals(case: &Case<'_>) -> Option<Candidate> {
    let view = case.audit()?;
    case.draft.deviations.iter().find(|own| own.signal == Signal::RefusedWrites)?;
    let [refused, writes] = view.within.tiles.refused;
    // What a quota refuses, no other rule does.
    let is_rule = match view.faults.count(|fault| fault == Fault::QuotaExceeded) >= 0.5 * refused {
        true => is_quota,
        false => is_admission as fn(&Kind) -> bool,
    };
    let by = writer(view, case.draft.span, is_rule);
    let mut candidate = Candidate::new("writes-refused")
        .with("refused", Source::Audit, refused / writes.max(1.0))
        .with("rules_changed", Source::Audit, f64::from(u8::from(by.is_some())));
    // Where one rule denies most of it, it is the one.
    let denied = view.faults.most(Fault::is_denial).filter(|own| own.1 >= 0.5 * refused);
    candidate.name = denied.map(|own| own.0.to_owned());
    candidate.caller = by.map(|by| view.requests.callers()[by].clone());
    Some(candidate)
}

/// Credentials of many clients that are not valid any more: a key that was rotated, a certificate that expired.
pub(super) fn credentials(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.first()?;
    case.draft.deviations.iter().find(|own| own.signal == Signal::Unauthorized)?;
    let sums = &view.within.tiles;
    Some(
        Candidate::new("credentials-invalid")
            .with("unauthorized", view.source(), (sums.unauthorized / sums.requests.max(1.0)).min(1.0))
            .with("impact", view.source(), case.has(|own| own.is_felt() && *own != Signal::Unauthorized)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_admission_are_known_by_their_groups() {
        let is = |group: &str, resource: &str| is_admission(&["create", group, resource, ""].map(str::to_owned));
        for (group, resource) in [
            ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
            ("rbac.authorization.k8s.io", "rolebindings"),
            ("kyverno.io", "clusterpolicies"),
            ("constraints.gatekeeper.sh", "k8srequiredlabels"),
            ("", "resourcequotas"),
        ] {
            assert!(is(group, resource), "{resource}");
        }
        for (group, resource) in [("networking.k8s.io", "networkpolicies"), ("iam.example.com", "accesspolicies")] {
            assert!(!is(group, resource), "{resource}");
        }
    }
}
