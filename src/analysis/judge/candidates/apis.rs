//! Causes behind what apiservers pass on: servers of other APIs, webhooks that convert objects, the key service.

use super::{Candidate, Case, View, part};
use crate::analysis::failure::Fault;
use crate::analysis::judge::profile::Count;
use crate::analysis::judge::requests::Class;
use crate::analysis::judge::signals::{MIN_BAD, Signal};
use crate::model::cause::Source;
use crate::model::registry::is_built_in_group;
use std::collections::BTreeMap;

/// Requests for one API group fail that apiservers do not serve alone: the server behind its APIService is unavailable,
/// or the webhook that converts its objects.
pub(super) fn api_group(case: &Case<'_>) -> Option<Candidate> {
    let of = |view| Some((failing_group(view)?, view));
    let failing = case.views.iter().find_map(of);
    let unavailable = case.draft.deviations.iter().find_map(|own| match &own.signal {
        Signal::ApiUnavailable(group) => Some(group.clone()),
        _ => None,
    });
    let is_only = case.draft.deviations.iter().all(|own| matches!(own.signal, Signal::ApiUnavailable(_)));
    let mut candidate = Candidate::new("api-unavailable");
    if let Some(((group, failed), view)) = failing {
        candidate = candidate.with("one_group", view.source(), failed.one_group).with(
            "others_fail",
            view.source(),
            failed.others,
        );
        candidate.name = Some(group.to_owned());
    }
    if let Some(view) = case.audit() {
        let is_its = |fault| matches!(fault, Fault::ConversionFailed | Fault::ApiUnavailable);
        let [named, other] = view.named(is_its);
        candidate = candidate.with("named", Source::Audit, named).with("named_other", Source::Audit, other);
        candidate.name =
            view.faults.most(|fault| fault == Fault::ConversionFailed).map(|own| own.0.to_owned()).or(candidate.name);
    }
    let is_its = unavailable.as_ref().is_some_and(|own| candidate.name.as_ref().is_none_or(|group| group == own));
    candidate.name = Some(candidate.name.or(unavailable)?);
    Some(candidate.with("api_unavailable", Source::Metrics, f64::from(u8::from(is_its))).with(
        "api_alone",
        Source::Metrics,
        f64::from(u8::from(is_only)),
    ))
}

/// What is stored encrypted can't be read or written: the key service fails, or a key is missing.
pub(super) fn encryption(case: &Case<'_>) -> Option<Candidate> {
    let [named, other] = case.audit()?.named(|fault| fault == Fault::Encryption);
    let candidate = Candidate::new("encryption-failing").with("named", Source::Audit, named);
    (named > 0.0).then(|| candidate.with("named_other", Source::Audit, other))
}

/// How far failures are those of one API group.
struct FailingGroup {
    /// Its part of all failures, times the part of its reads that fail: webhooks are asked about writes alone.
    one_group: f64,
    /// The part of all other requests that fail.
    others: f64,
}

/// The API group of which most requests fail, among those that apiservers do not serve alone.
fn failing_group<'v>(view: &'v View<'_>) -> Option<(&'v str, FailingGroup)> {
    let mut groups: BTreeMap<&str, [Count; 2]> = BTreeMap::new();
    for (kind, count) in &view.within.kinds {
        let class = view.series.classes[*kind as usize];
        if class != Class::Long {
            let own = groups.entry(view.requests.kinds()[*kind as usize][1].as_str()).or_default();
            own[usize::from(matches!(class, Class::Read | Class::List))].add(count);
        }
    }
    let sum = |own: &[Count; 2]| [own[0].errors + own[1].errors, own[0].requests + own[1].requests];
    let all = groups.values().map(sum).fold([0.0; 2], |all, own| [all[0] + own[0], all[1] + own[1]]);
    let others = groups.iter().filter(|(group, _)| !is_built_in_group(group));
    let (group, own) = others.max_by(|a, b| sum(a.1)[0].total_cmp(&sum(b.1)[0]))?;
    let [errors, requests] = sum(own);
    (errors >= MIN_BAD).then(|| {
        let reads = part([own[1].errors, own[1].requests]);
        (
            *group,
            FailingGroup {
                one_group: part([errors, all[0]]) * reads,
                others: part([all[0] - errors, all[1] - requests]),
            },
        )
    })
}
