//! Proposals as Kubernetes objects: ResourceQuotas, and LimitRanges where containers don't say what they need.

use crate::analysis::quota::propose::{Censored, Proposal, Proposals, Rules};
use crate::model::objects::{Container, Objects};
use crate::model::quantity::Quantity;
use crate::model::quota::Quotas;
use crate::model::time;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The name of a quota where none stands.
const NAME: &str = "plimsoll";

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
    peak
}

/// A LimitRange for each namespace whose containers leave out what quotas ask for: containers get the median of what
/// those that say it ask for, in the namespace or else in the cluster; and may take as much memory as the largest limit
/// there, at least what any of them asks for: a pod that asks for more than its limit is invalid.
///
/// Namespaces that have a LimitRange with such defaults are left out, and resources of which no container says
/// anything.
pub fn limit_ranges(objects: &Objects, namespaces: &[String]) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let is_wanted = |namespace: &str| namespaces.is_empty() || namespaces.iter().any(|wanted| wanted == namespace);
    for (namespace, silent) in super::lint::silence(objects) {
        if !is_wanted(&namespace) {
            continue;
        }
        let (mut requests, mut limits) = (Map::new(), Map::new());
        for resource in ["cpu", "memory"] {
            let key = format!("requests.{resource}");
            let asked = median(objects, Some(&namespace), resource).or_else(|| median(objects, None, resource));
            if silent.contains(&key)
                && let Some(asked) = asked
            {
                requests.insert(resource.to_owned(), asked.to_string().into());
            }
        }
        if silent.contains("limits.memory") {
            let of = |container: &Container| container.limits.get("memory").copied();
            let here = containers(objects, Some(&namespace)).filter_map(of).max();
            let most = here.or_else(|| containers(objects, None).filter_map(of).max());
            let asked = median(objects, Some(&namespace), "memory").or_else(|| median(objects, None, "memory"));
            let is_unlimited = |container: &&Container| !container.limits.contains_key("memory");
            let without = containers(objects, Some(&namespace)).filter(is_unlimited);
            let needed = without.filter_map(|container| container.requests.get("memory").copied());
            if let Some(most) = most.into_iter().chain(asked).chain(needed).max() {
                limits.insert("memory".to_owned(), most.to_string().into());
            }
        }
        if requests.is_empty() && limits.is_empty() {
            continue;
        }
        let mut rule = json!({"type": "Container"});
        if !requests.is_empty() {
            rule["defaultRequest"] = Value::Object(requests);
        }
        if !limits.is_empty() {
            rule["default"] = Value::Object(limits);
        }
        let manifest = json!({
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {
                "name": NAME,
                "namespace": namespace,
                "annotations": {format!("{DOMAIN}/reason"): "containers here have no requests; quotas reject such \
                     pods"},
            },
            "spec": {"limits": [rule]},
        });
        found.insert(namespace, manifest);
    }
    found
}

fn containers<'o>(objects: &'o Objects, namespace: Option<&'o str>) -> impl Iterator<Item = &'o Container> {
    let here = move |of: &str| namespace.is_none_or(|namespace| namespace == of);
    let pods = objects.pods.iter().filter(move |pod| here(&pod.namespace)).map(|pod| &pod.spec);
    let templates =
        objects.workloads.iter().filter(move |workload| here(&workload.namespace)).map(|workload| &workload.template);
    pods.chain(templates).flat_map(|spec| spec.containers.iter().chain(&spec.init))
}

/// The median (the upper one of two) of what containers ask for.
fn median(objects: &Objects, namespace: Option<&str>, resource: &str) -> Option<Quantity> {
    let mut asked: Vec<Quantity> =
        containers(objects, namespace).filter_map(|container| container.requests.get(resource).copied()).collect();
    asked.sort();
    asked.get(asked.len() / 2).copied()
}
