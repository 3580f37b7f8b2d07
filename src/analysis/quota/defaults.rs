//! LimitRanges for namespaces whose containers don't say what they need, and what these add to usage.

use crate::analysis::quota::admitted::{Ranges, silence};
use crate::analysis::quota::usage;
use crate::model::objects::{Amounts, Container, LimitRange, Objects, Pod, ResourceQuota};
use crate::model::quantity::Quantity;
use crate::model::time::Micros;
use std::collections::BTreeMap;

/// The name of a LimitRange, and of a quota, where none stands.
pub const NAME: &str = "plimsoll";

/// What defaults add to usage, by namespace, quota (empty: all pods) and resource.
pub type Added = BTreeMap<(String, String, String), Quantity>;

/// A LimitRange for each namespace whose containers leave out what quotas ask for: containers get the median of what
/// those that say it ask for, in the namespace or else in the cluster; and may take as much memory as the largest limit
/// there, at least what any of them asks for: a pod that asks for more than its limit is invalid.
///
/// Namespaces that have a LimitRange with such defaults are left out, and resources of which no container says
/// anything.
pub fn proposed(objects: &Objects, namespaces: &[String]) -> BTreeMap<String, LimitRange> {
    let mut found = BTreeMap::new();
    let is_wanted = |namespace: &str| namespaces.is_empty() || namespaces.iter().any(|wanted| wanted == namespace);
    for (namespace, silent) in silence(objects, &BTreeMap::new()) {
        if !is_wanted(&namespace) {
            continue;
        }
        let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
        for resource in ["cpu", "memory"] {
            let asked = median(objects, Some(&namespace), resource).or_else(|| median(objects, None, resource));
            if silent.contains(&format!("requests.{resource}"))
                && let Some(asked) = asked
            {
                requests.insert(resource.to_owned(), asked);
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
                limits.insert("memory".to_owned(), most);
            }
        }
        if requests.is_empty() && limits.is_empty() {
            continue;
        }
        let range = LimitRange {
            namespace: namespace.clone(),
            name: NAME.to_owned(),
            of: "Container".to_owned(),
            default_requests: requests,
            default_limits: limits,
        };
        found.insert(namespace, range);
    }
    found
}

/// What the pods that run now use more, once they are created again under further LimitRanges.
pub fn added(objects: &Objects, ranges: &BTreeMap<String, LimitRange>, now: Micros) -> Added {
    let mut sums: BTreeMap<(&str, &str), (Amounts, Amounts)> = BTreeMap::new();
    let all = Ranges::of(objects, ranges.values());
    let mut quotas: BTreeMap<&str, Vec<&ResourceQuota>> = BTreeMap::new();
    objects.quotas.iter().for_each(|quota| quotas.entry(&quota.namespace).or_default().push(quota));
    let is_given = |pod: &&Pod| ranges.contains_key(&pod.namespace) && usage::counts(pod, now);
    for pod in objects.pods.iter().filter(is_given) {
        let spec = all.admitted(&pod.namespace, &pod.spec);
        let (before, after) =
            (usage::of_spec(&pod.spec, pod.resize_is_infeasible), usage::of_spec(&spec, pod.resize_is_infeasible));
        let mut count = |quota, is_before: bool, is_after: bool| {
            let sum = sums.entry((&pod.namespace, quota)).or_default();
            if is_before {
                usage::add(&mut sum.0, &before);
            }
            if is_after {
                usage::add(&mut sum.1, &after);
            }
        };
        count("", true, true);
        for quota in quotas.get(pod.namespace.as_str()).into_iter().flatten() {
            count(&quota.name, usage::is_counted(quota, &pod.spec), usage::is_counted(quota, &spec));
        }
    }
    let more = sums.into_iter().flat_map(|((namespace, quota), (before, after))| {
        after.into_iter().filter_map(move |(resource, amount)| {
            let more = amount.minus(before.get(&resource).copied().unwrap_or_default());
            (more > Quantity::default()).then(|| ((namespace.to_owned(), quota.to_owned(), resource), more))
        })
    });
    more.collect()
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
