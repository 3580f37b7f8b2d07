//! Proposals as Kubernetes objects: ResourceQuotas, and LimitRanges where containers don't say what they need.

use crate::analysis::quota::defaults::NAME;
use crate::analysis::quota::propose::{Censored, Proposal, Proposals, Rules};
use crate::model::objects::{Amounts, LimitRange};
use crate::model::quota::Quotas;
use crate::model::time;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The domain of annotations.
const DOMAIN: &str = "plimsoll.io";

/// ResourceQuotas, one for each that is to change and one for each namespace that has none, by namespace.
///
/// A quota that stands is written whole: what server-side apply set before and does not find any more it deletes, and a
/// limit that is left out would be lifted. They hold what server-side apply needs and nothing that the cluster sets;
/// scopes are those of the quota that stands, since they can't be changed.
pub fn quotas(proposals: &Proposals, quotas: &Quotas, rules: &Rules) -> BTreeMap<String, Vec<Value>> {
    let mut by_quota: BTreeMap<(&str, &str), Vec<&Proposal>> = BTreeMap::new();
    for proposal in &proposals.rows {
        let quota = if proposal.quota.is_empty() { NAME } else { &proposal.quota };
        by_quota.entry((&proposal.namespace, quota)).or_default().push(proposal);
    }
    let window =
        proposals.span.map(|(from, to)| format!("{}/{}", time::format(from), time::format(to))).unwrap_or_default();
    let mut manifests: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for ((namespace, quota), rows) in by_quota {
        let changes = |row: &&&Proposal| row.hard != Some(row.granted(rules));
        if !rows.iter().any(|row| changes(&row)) {
            continue;
        }
        let standing = quotas.standings.iter().filter(|own| own.namespace == namespace && own.quota == quota);
        let mut hard: Map<String, Value> =
            standing.map(|own| (own.resource.clone(), own.hard.to_string().into())).collect();
        let is_new = hard.is_empty();
        // What does not change stays as it is written.
        let changed: Vec<&&Proposal> = rows.iter().filter(changes).collect();
        hard.extend(changed.iter().map(|row| (row.resource.clone(), row.granted(rules).to_string().into())));
        // `cpu` is another name of `requests.cpu`: of two that say the same, one.
        for (short, long) in [("cpu", "requests.cpu"), ("memory", "requests.memory")] {
            if is_new && hard.contains_key(long) {
                hard.remove(short);
            }
        }
        let peaks: Map<String, Value> = changed.iter().map(|row| (row.resource.clone(), peak(row))).collect();
        let annotations = json!({
            format!("{DOMAIN}/headroom"): rules.headroom_in_words(),
            format!("{DOMAIN}/peaks"): Value::Object(peaks).to_string(),
            format!("{DOMAIN}/window"): window,
        });
        let mut spec = json!({"hard": hard});
        if let Some(scopes) = quotas.scopes.get(&(namespace.to_owned(), quota.to_owned())) {
            let expressions: Vec<Value> = scopes
                .iter()
                .map(|scope| {
                    let mut expression = json!({"scopeName": scope.name, "operator": scope.operator});
                    if !scope.values.is_empty() {
                        expression["values"] = json!(scope.values);
                    }
                    expression
                })
                .collect();
            let is_plain =
                |scope: &crate::model::objects::Scope| scope.operator == "Exists" && scope.name != "PriorityClass";
            if scopes.iter().all(is_plain) {
                spec["scopes"] = scopes.iter().map(|scope| scope.name.clone()).collect();
            } else {
                spec["scopeSelector"] = json!({"matchExpressions": expressions});
            }
        }
        manifests.entry(namespace.to_owned()).or_default().push(json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": quota, "namespace": namespace, "annotations": annotations},
            "spec": spec,
        }));
    }
    manifests
}

fn peak(row: &Proposal) -> Value {
    let mut peak = json!({"peak": row.peak.to_string(), "at": time::format(row.peak_at)});
    match row.censored {
        Some(Censored::Refused) => peak["censored"] = "denied requests are counted".into(),
        Some(Censored::AtQuota) => peak["censored"] = "usage was at the quota".into(),
        None => {}
    }
    if row.is_spike {
        peak["spike"] = true.into();
    }
    if !row.defaults.is_zero() {
        peak["defaults"] = row.defaults.to_string().into();
    }
    peak
}

/// A LimitRange as a Kubernetes object.
pub fn limit_range(range: &LimitRange) -> Value {
    let written = |amounts: &Amounts| -> Map<String, Value> {
        amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect()
    };
    let mut rule = json!({"type": range.of});
    if !range.default_requests.is_empty() {
        rule["defaultRequest"] = written(&range.default_requests).into();
    }
    if !range.default_limits.is_empty() {
        rule["default"] = written(&range.default_limits).into();
    }
    let reason = "containers here have no requests; quotas reject such pods";
    json!({
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {
            "name": range.name,
            "namespace": range.namespace,
            "annotations": {format!("{DOMAIN}/reason"): reason},
        },
        "spec": {"limits": [rule]},
    })
}
