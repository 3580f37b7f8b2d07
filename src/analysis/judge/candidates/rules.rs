//! Causes that are rules of the cluster: who wrote one, and what it refuses.

use super::{Candidate, Case, View};
use crate::analysis::judge::profile::Profile;
use crate::analysis::judge::requests::{Class, Kind};
use crate::analysis::judge::signals::Signal;
use crate::model::cause::Source;

/// Whether priority and fairness goes by objects of a kind.
pub(super) fn is_flow([_, group, ..]: &Kind) -> bool {
    group == "flowcontrol.apiserver.k8s.io"
}

/// Whether writes are admitted or refused by objects of a kind.
fn is_admission([_, group, resource, _]: &Kind) -> bool {
    matches!(group.as_str(), "admissionregistration.k8s.io" | "rbac.authorization.k8s.io")
        || matches!(resource.as_str(), "resourcequotas" | "limitranges")
        || ["policies", "constraints", "constrainttemplates"].iter().any(|end| resource.ends_with(end))
}

/// Who writes most objects of which a rule is made, but for the control plane itself.
pub(super) fn writer(view: &View<'_>, profile: &Profile, is_rule: fn(&Kind) -> bool) -> Option<u32> {
    let is_its = |(caller, kind): &(u32, u32)| {
        let own = &view.requests.kinds()[*kind as usize];
        let is_write = view.series.classes[*kind as usize] == Class::Write;
        is_rule(own) && own[3] != "status" && is_write && !view.series.is_own[*caller as usize]
    };
    let writes = profile.pairs.iter().filter(|(key, _)| is_its(key));
    writes.max_by(|a, b| a.1.requests.total_cmp(&b.1.requests)).map(|own| own.0.0)
}

/// Rules that refuse the writes of many clients.
pub(super) fn refusals(case: &Case<'_>) -> Option<Candidate> {
    let view = case.audit()?;
    case.draft.deviations.iter().find(|own| own.signal == Signal::RefusedWrites)?;
    let [refused, writes] = view.within.tiles.refused;
    let by = writer(view, &view.within, is_admission);
    let mut candidate = Candidate::new("writes-refused")
        .with("refused", Source::Audit, refused / writes.max(1.0))
        .with("rules_changed", Source::Audit, f64::from(u8::from(by.is_some())));
    candidate.caller = by.map(|by| view.requests.callers()[by as usize].clone());
    Some(candidate)
}
