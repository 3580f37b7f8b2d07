//! Pods as the apiserver admits them, with what it fills in where containers don't say what they need, and what they
//! leave out all the same.

use crate::model::objects::{Container, LimitRange, Objects, PodSpec, fill};
use std::collections::{BTreeMap, BTreeSet};

/// What quotas ask containers to say.
const STATED: [&str; 4] = ["requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// The rules of LimitRanges for containers, by namespace.
pub struct Ranges<'o>(BTreeMap<&'o str, Vec<&'o LimitRange>>);

impl<'o> Ranges<'o> {
    /// Those of the cluster, and behind them further ones.
    pub fn of(objects: &'o Objects, further: impl IntoIterator<Item = &'o LimitRange>) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<&LimitRange>> = BTreeMap::new();
        for range in objects.limit_ranges.iter().chain(further).filter(|range| range.of == "Container") {
            by_namespace.entry(&range.namespace).or_default().push(range);
        }
        Self(by_namespace)
    }

    /// A pod's spec as the apiserver admits it in a namespace: what has only a limit requests as much, and what says
    /// nothing gets the defaults of the first LimitRange that has one (kubernetes/plugin/pkg/admission/limitranger).
    pub fn admitted(&self, namespace: &str, spec: &PodSpec) -> PodSpec {
        let mut spec = spec.clone();
        let ranges = self.0.get(namespace).map_or(&[][..], Vec::as_slice);
        for container in spec.containers.iter_mut().chain(&mut spec.init) {
            fill(&mut container.requests, &container.limits);
            for range in ranges {
                fill(&mut container.requests, &range.default_requests);
                fill(&mut container.limits, &range.default_limits);
            }
        }
        spec
    }
}

/// Which of what quotas ask containers to say some container of a pod, as it was admitted, leaves out.
pub fn left_out(spec: &PodSpec) -> BTreeSet<String> {
    let is_left_out = |resource: &&str| {
        let (kind, name) = resource.split_once('.').unwrap_or_default();
        let is_request = kind == "requests";
        let whole = if is_request { &spec.pod_requests } else { &spec.pod_limits };
        let own =
            |container: &Container| if is_request { &container.requests } else { &container.limits }.contains_key(name);
        !whole.contains_key(name) && !spec.containers.iter().chain(&spec.init).all(own)
    };
    STATED.into_iter().filter(is_left_out).map(str::to_owned).collect()
}

/// What quotas ask containers to say and some pod, or some workload's template, leaves out, by namespace; `further`
/// LimitRanges speak for them as well.
pub fn silence(objects: &Objects, further: &BTreeMap<String, LimitRange>) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let ranges = Ranges::of(objects, further.values());
    let pods = objects.pods.iter().filter(|pod| !pod.has_ended()).map(|pod| (&pod.namespace, &pod.spec));
    let templates = objects.workloads.iter().map(|workload| (&workload.namespace, &workload.template));
    for (namespace, spec) in pods.chain(templates) {
        let missing = left_out(&ranges.admitted(namespace, spec));
        if !missing.is_empty() {
            found.entry(namespace.clone()).or_default().extend(missing);
        }
    }
    found
}
