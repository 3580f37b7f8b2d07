//! How full a control plane is, by metrics pages.

use super::catalogue::Metric;
use super::facts::{Component, Facts};
use crate::model::time::Micros;
use std::collections::BTreeMap;

/// Bytes of etcd's database, of what of it is in use, and of its quota: of several members the fullest. `None` where
/// pages lack it.
pub fn storage(facts: &Facts) -> [Option<f64>; 3] {
    // A negative size is none that anything has.
    let largest = |metric| facts.largest_of(metric, |_| true).filter(|size| *size >= 0.0);
    let quotas = facts.of(Metric::EtcdQuota).iter().filter_map(|fact| fact.last);
    [
        largest(Metric::EtcdDbSize).or_else(|| largest(Metric::StorageSize)),
        largest(Metric::EtcdDbInUse),
        quotas.min_by(f64::total_cmp).filter(|quota| *quota > 0.0),
    ]
}

/// The largest share of its seats that an apiserver had taken on a page, the level `exempt`, which has no limit, left
/// out; `None` where pages lack seats or their limit.
pub fn seats(facts: &Facts) -> Option<f64> {
    let is_limited = |label| facts.text(label) != "exempt";
    // Those of a page where they are kept, else those of the last: a restart may have changed them.
    let mut limits: BTreeMap<(usize, Micros), (usize, f64)> = BTreeMap::new();
    for fact in facts.of(limit_metric(facts)).iter().filter(|fact| is_limited(fact.labels[0])) {
        let last = fact.last.map(|limit| (Micros::MAX, limit));
        for (at, limit) in facts.levels(fact).iter().copied().chain(last) {
            let (levels, sum) = limits.entry((fact.instance, at)).or_default();
            (*levels, *sum) = (*levels + 1, *sum + limit);
        }
    }
    let mut taken: BTreeMap<(usize, Micros), f64> = BTreeMap::new();
    for fact in facts.of(Metric::FlowSeats).iter().filter(|fact| is_limited(fact.labels[0])) {
        for (at, seats) in facts.levels(fact) {
            *taken.entry((fact.instance, *at)).or_default() += seats;
        }
        // The last page is among these where they are kept.
        if facts.levels(fact).is_empty()
            && let Some(seats) = fact.last
        {
            *taken.entry((fact.instance, Micros::MAX)).or_default() += seats;
        }
    }
    let share = |((instance, at), seats): ((usize, Micros), f64)| {
        let of = |at| limits.get(&(instance, at));
        // Of many pages some are dropped, level by level: then they lack levels.
        let last = of(Micros::MAX);
        let limit = of(at).filter(|own| last.is_none_or(|last| own.0 == last.0)).or(last);
        limit.map(|(_, limit)| *limit).filter(|limit| *limit > 0.0).map(|limit| seats / limit)
    };
    taken.into_iter().filter_map(share).max_by(f64::total_cmp)
}

/// Nodes, as the apiservers count these objects.
pub fn nodes(facts: &Facts) -> Option<u64> {
    let nodes = objects(facts).into_iter().find(|((group, resource), _)| group.is_empty() && resource == "nodes");
    nodes.map(|(_, count)| count.max(0.0) as u64)
}

/// The apiservers' version; of several the oldest, since an upgrade is done when the last is. Empty where pages do not
/// show it.
pub fn version(facts: &Facts) -> &str {
    let versions = facts.instances_of(Component::Apiserver).map(|own| own.version.as_str());
    let minor = |version: &&str| crate::analysis::list_route::Minor::parse(version);
    versions.filter(|version| minor(version).is_some()).min_by_key(minor).unwrap_or_default()
}

/// What limits the seats: the level's present limit, or where pages lack that its nominal one.
pub(super) fn limit_metric(facts: &Facts) -> Metric {
    if facts.has(Metric::LevelLimit) { Metric::LevelLimit } else { Metric::LevelNominal }
}

/// Objects by group and resource, the most first: of each resource the largest number that an instance of a cluster
/// shows, of all clusters together.
pub(super) fn objects(facts: &Facts) -> Vec<((String, String), f64)> {
    let mut of_clusters: BTreeMap<(&str, &str, &str), f64> = BTreeMap::new();
    for fact in facts.of(Metric::StorageObjects) {
        let Some(value) = fact.last.filter(|value| *value >= 0.0) else { continue };
        let cluster = facts.instances[fact.instance].cluster.as_str();
        let most = of_clusters.entry((cluster, facts.text(fact.labels[0]), facts.text(fact.labels[1]))).or_default();
        *most = most.max(value);
    }
    let mut by_resource: BTreeMap<(String, String), f64> = BTreeMap::new();
    for ((_, group, resource), count) in of_clusters {
        *by_resource.entry((group.to_owned(), resource.to_owned())).or_default() += count;
    }
    let mut objects: Vec<_> = by_resource.into_iter().collect();
    objects.sort_by(|a, b| b.1.total_cmp(&a.1));
    objects
}
