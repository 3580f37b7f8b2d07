//! What LISTs return, from whatever shows it: response bodies in the log, an etcd database, metrics.

use super::sizes::{Size, Sizes};
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::Facts;
use crate::analysis::rollup::read::TrafficRow;
use crate::model::registry::is_built_in;
use crate::model::uri::{Scope, Selector};
use std::collections::BTreeMap;

/// Where an estimate comes from, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The bodies of these very responses.
    Responses,
    /// The objects of an etcd database, as JSON.
    Snapshot,
    /// What the apiserver's metrics say of stored objects, times what JSON takes more.
    Metrics,
}

impl Origin {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Responses, Self::Snapshot, Self::Metrics];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Snapshot => "snapshot",
            Self::Metrics => "metrics",
        }
    }
}

/// What is known of the size of LISTs.
#[derive(Debug, Default)]
pub struct SizeContext {
    /// Objects of a database.
    pub snapshot: Option<Sizes>,
    /// What metrics show.
    pub metrics: Metered,
}

/// What the apiserver's metrics report the size of LISTs.
#[derive(Debug, Default, PartialEq)]
pub struct Metered {
    /// By cluster, group and resource: all objects, and their JSON by estimate.
    stored: BTreeMap<[String; 3], Size>,
    /// By cluster, group, resource and scope: bytes that a LIST's answer had on the wire, on average.
    wire: BTreeMap<[String; 4], f64>,
}

impl Metered {
    /// From `apiserver_resource_objects`, `apiserver_resource_size_estimate_bytes` and `apiserver_response_sizes`.
    pub fn new(facts: &Facts) -> Self {
        let mut metered = Self::default();
        for (metric, is_bytes) in [(Metric::StorageObjects, false), (Metric::StorageObjectBytes, true)] {
            for fact in facts.of(metric) {
                let Some(value) = fact.last.filter(|value| *value >= 0.0) else { continue };
                let cluster = facts.instances[fact.instance].cluster.as_str();
                let [group, resource] =
                    [0, 1].map(|label| fact.labels.get(label).map_or("", |label| facts.text(*label)));
                let size = metered.stored.entry([cluster, group, resource].map(str::to_owned)).or_default();
                // Each apiserver counts for itself, once a minute.
                if is_bytes {
                    size.bytes = size.bytes.max(value.round() as u64);
                } else {
                    size.objects = size.objects.max(value as u64);
                }
            }
        }
        metered.convert();
        let mut sums: BTreeMap<[String; 4], [f64; 2]> = BTreeMap::new();
        for fact in facts.of(Metric::ResponseSizes) {
            let place = match fact.part {
                Part::Sum => 0,
                Part::Count => 1,
                _ => continue,
            };
            let [verb, group, _, resource, _, scope] = [0, 1, 2, 3, 4, 5].map(|label| facts.text(fact.labels[label]));
            if verb == "LIST" {
                let cluster = facts.instances[fact.instance].cluster.as_str();
                sums.entry([cluster, group, resource, scope].map(str::to_owned)).or_default()[place] += fact.increase;
            }
        }
        metered.wire = sums
            .into_iter()
            .filter(|(_, [_, count])| *count > 0.0)
            .map(|(key, [sum, count])| (key, sum / count))
            .collect();
        metered
    }

    /// From objects, and the bytes they take in etcd, by group and resource of a cluster without a name.
    pub fn of_stored<'s>(stored: impl Iterator<Item = ([&'s str; 2], Size)>) -> Self {
        let stored = stored.map(|([group, resource], size)| (["", group, resource].map(str::to_owned), size)).collect();
        let mut metered = Self { stored, ..Self::default() };
        metered.convert();
        metered
    }

    /// From stored bytes to those of JSON. Before 1.34 there are counts only.
    fn convert(&mut self) {
        self.stored.retain(|_, size| size.bytes > 0 || size.objects == 0);
        for ([_, group, resource], size) in &mut self.stored {
            size.bytes = as_json(group, resource, *size);
        }
    }
}

/// What metadata takes of a stored Secret or ConfigMap, about: names, uid, one entry of managedFields.
const METADATA: f64 = 600.0;

/// How many bytes stored objects are as JSON in a LIST. Built-in ones are stored as protobuf, which has numbers for the
/// names of fields, so each object gains what its fields are called, and the times and versions that are written out.
/// What a ConfigMap holds is text and stays about as long as it is; what a Secret holds becomes base64. Custom
/// resources are stored as JSON, to which a LIST adds `resourceVersion` and a comma; from definitions and APIServices,
/// which are stored so too, it takes kind and version. The numbers are fitted to what a real apiserver answered
/// (tests/data/list-sizes) and to the databases of samples/; much managedFields or many small objects move them by a
/// tenth.
pub fn as_json(group: &str, resource: &str, stored: Size) -> u64 {
    let (bytes, objects) = (stored.bytes as f64, stored.objects as f64);
    let each = bytes / objects.max(1.0);
    let json = match (group, resource) {
        ("", "configmaps") => 1.05 * each + 150.0,
        ("", "secrets") => each + 180.0 + (each - METADATA).max(0.0) / 3.0,
        ("", "serviceaccounts") | ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            1.3 * each + 20.0
        }
        ("", "events") | ("events.k8s.io", "events") => 1.24 * each + 264.0,
        ("apiextensions.k8s.io", "customresourcedefinitions") => each - 89.0,
        ("apiregistration.k8s.io", "apiservices") => each - 33.0,
        _ if is_built_in(group, resource) => 1.36 * each + 50.0,
        _ => each + 27.0,
    };
    (json.max(0.0) * objects).round() as u64
}

impl SizeContext {
    /// Whether anything but the log itself is known.
    pub fn is_any(&self) -> bool {
        self.snapshot.is_some() || !self.metrics.stored.is_empty()
    }

    /// What one LIST of this row returns, and how that is known; `None` if nothing shows it, or for requests other than
    /// answered LISTs.
    pub fn of_list(&self, cluster: &str, row: &TrafficRow<'_>) -> Option<(Size, Origin)> {
        if row.verb != "list" || row.code.is_some_and(|code| code >= 400) {
            return None;
        }
        let [bodies, bytes, items] = row.bodies();
        if let Some((objects, bytes)) = items.checked_div(bodies).zip(bytes.checked_div(bodies)) {
            return Some((Size { objects, bytes }, Origin::Responses));
        }
        if let Some(size) = self.snapshot.as_ref().and_then(|snapshot| snapshot.of_list(row)) {
            return Some((size, Origin::Snapshot));
        }
        let shape = row.shape.filter(|shape| shape.path.is_none() && !shape.limit && !shape.continued)?;
        let of = |group: &str, resource: &str| {
            self.metrics.stored.get(&[cluster, group, resource].map(str::to_owned)).copied()
        };
        let all = if row.scope == Scope::Cluster { of(row.what.0, row.what.1)? } else { return None };
        match shape.selector {
            Selector::None => Some((all, Origin::Metrics)),
            Selector::Node => {
                Some((all.part(of("", "nodes").filter(|nodes| nodes.objects > 0)?.objects), Origin::Metrics))
            }
            _ => None,
        }
    }

    /// Bytes on the wire of one LIST of this row's resource and scope, on average over all clients.
    pub fn wire_of_list(&self, cluster: &str, row: &TrafficRow<'_>) -> Option<f64> {
        let scope = match row.scope {
            Scope::Cluster => "cluster",
            Scope::Namespace => "namespace",
            _ => return None,
        };
        if row.verb != "list" || self.metrics.wire.is_empty() {
            return None;
        }
        self.metrics.wire.get(&[cluster, row.what.0, row.what.1, scope].map(str::to_owned)).copied()
    }
}

/// What a client's LISTs come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cost {
    /// Bytes of JSON, by [`Origin`].
    pub bytes: [u64; 3],
    /// LISTs that were answered and of which nothing shows how much they returned.
    pub not_estimated: u64,
    /// Bytes on the wire, of the LISTs of which metrics show it.
    pub wire: Option<f64>,
}

impl Cost {
    /// Adds the LISTs of a row.
    pub fn add(&mut self, known: &SizeContext, cluster: &str, row: &TrafficRow<'_>) {
        if row.verb != "list" || row.what.1.is_empty() || row.code.is_some_and(|code| code >= 400) {
            return;
        }
        match known.of_list(cluster, row) {
            // Of all responses that the log holds the sum is known, not only the average.
            Some((_, Origin::Responses)) => {
                let [bodies, bytes, _] = row.bodies().map(u128::from);
                self.bytes[0] += (bytes * u128::from(row.requests) / bodies.max(1)) as u64;
            }
            Some((size, origin)) => self.bytes[origin as usize] += size.bytes * row.requests,
            None => self.not_estimated += row.requests,
        }
        if let Some(wire) = known.wire_of_list(cluster, row) {
            *self.wire.get_or_insert_default() += wire * row.requests as f64;
        }
    }

    /// All bytes of JSON that are known.
    pub fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The same; nothing where nothing is known of any LIST that was answered. Where something is known of some, it is
    /// the least that it can be.
    pub fn known(&self) -> Option<u64> {
        (self.not_estimated == 0 || self.total() > 0).then(|| self.total())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of an object in etcd and as JSON, from the databases of samples/ by the decoder of `etcd extract`.
    #[test]
    fn json_is_within_a_tenth_of_what_objects_are() {
        for (group, resource, stored, json) in [
            ("", "secrets", 54_191, 72_322),
            ("", "configmaps", 4_335, 4_500),
            ("", "pods", 3_964, 5_860),
            ("apps", "deployments", 2_064, 3_059),
            ("coordination.k8s.io", "leases", 490, 787),
            ("", "events", 468, 846),
            ("", "serviceaccounts", 122, 197),
            ("wgpolicyk8s.io", "policyreports", 2_896, 2_895),
            ("apiregistration.k8s.io", "apiservices", 881, 848),
            ("rbac.authorization.k8s.io", "clusterroles", 859, 1_291),
            ("storage.k8s.io", "csinodes", 657, 900),
        ] {
            let estimate = as_json(group, resource, Size { objects: 10, bytes: 10 * stored }) as f64 / 10.0;
            assert!((estimate / f64::from(json) - 1.0).abs() <= 0.1, "{group} {resource}: {estimate} of {json}");
        }
    }

    #[test]
    fn what_nobody_knows_is_not_nothing() {
        let cost = |bytes, not_estimated| Cost { bytes: [0, bytes, 0], not_estimated, wire: None }.known();
        assert_eq!((cost(0, 0), cost(0, 40), cost(9, 40)), (Some(0), None, Some(9)));
    }
}
