//! From objects, and from series in time, to what is known of quotas.

use crate::analysis::quota::usage;
use crate::model::objects::{Amounts, Objects};
use crate::model::quantity::Quantity;
use crate::model::quota::{Quotas, Standing, Usage, form};
use crate::model::series::{Day, DayFold, Point, Series};
use crate::model::time::Micros;
use std::collections::BTreeMap;

/// Series of what ResourceQuotas grant and what is used, by `namespace`, `resourcequota`, `resource` and `type`
/// (`hard`, `used`): named and labelled as kube-state-metrics does.
pub const QUOTA: &str = "kube_resourcequota";
/// What the pods of a namespace ask for, by `namespace` and `resource` (`cpu` in cores, `memory` in bytes).
pub const REQUESTS: &str = "namespace_requests";
/// What the pods of a namespace may take, by `namespace` and `resource`.
pub const LIMITS: &str = "namespace_limits";
/// How many objects a namespace has, and what its claims ask for, by `namespace` and `resource` as quotas name it.
pub const OBJECTS: &str = "namespace_objects";
/// What a node can hold, by `node` and `resource`; of nodes that take pods. Named as kube-state-metrics does.
pub const ALLOCATABLE: &str = "kube_node_status_allocatable";

/// Whose usage: namespace, quota (empty for none) and resource.
pub type Key = (String, String, String);

/// What is used, by whom, at one moment.
fn used(objects: &Objects, now: Micros) -> BTreeMap<Key, Quantity> {
    let all = usage::by_namespace(objects, now);
    let mut found = BTreeMap::new();
    for quota in &objects.quotas {
        let counted = usage::of_quota(quota, objects, &all, now);
        for resource in quota.hard.keys() {
            // What the cluster counted, else what the objects come to.
            if let Some(used) = quota.used.get(resource).or_else(|| counted.get(resource)) {
                found.insert((quota.namespace.clone(), quota.name.clone(), resource.clone()), *used);
            }
        }
    }
    for (namespace, amounts) in all {
        for (resource, used) in amounts {
            found.insert((namespace.clone(), String::new(), resource), used);
        }
    }
    found
}

/// What nodes that take pods can hold.
fn allocatable(objects: &Objects) -> Amounts {
    let mut sum = Amounts::new();
    objects.nodes.iter().filter(|node| node.takes_pods).for_each(|node| usage::add(&mut sum, &node.allocatable));
    sum
}

/// The samples that the objects come to, for a store: [`QUOTA`], [`REQUESTS`], [`LIMITS`], [`OBJECTS`],
/// [`ALLOCATABLE`].
pub fn samples(objects: &Objects, now: Micros) -> Vec<(Series, f64)> {
    let mut samples = Vec::new();
    for quota in &objects.quotas {
        for (resource, hard) in &quota.hard {
            let labels =
                [("namespace", quota.namespace.as_str()), ("resourcequota", &quota.name), ("resource", resource)];
            samples.push((Series::new(QUOTA, &[&labels[..], &[("type", "hard")]].concat()), hard.value()));
        }
    }
    for ((namespace, quota, resource), used) in used(objects, now) {
        let labels = |resource| [("namespace", namespace.as_str()), ("resource", resource)];
        let series = if !quota.is_empty() {
            Series::new(
                QUOTA,
                &[&labels(resource.as_str())[..], &[("resourcequota", &quota), ("type", "used")]].concat(),
            )
        } else if let Some(of) = resource.strip_prefix("requests.").filter(|of| *of != "storage") {
            Series::new(REQUESTS, &labels(of))
        } else if let Some(of) = resource.strip_prefix("limits.") {
            Series::new(LIMITS, &labels(of))
        } else if matches!(resource.as_str(), "cpu" | "memory" | "ephemeral-storage")
            || resource.starts_with("hugepages-")
        {
            // The same as those with requests in front.
            continue;
        } else {
            Series::new(OBJECTS, &labels(resource.as_str()))
        };
        samples.push((series, used.value()));
    }
    for node in objects.nodes.iter().filter(|node| node.takes_pods) {
        for (resource, amount) in &node.allocatable {
            samples.push((Series::new(ALLOCATABLE, &[("node", &node.name), ("resource", resource)]), amount.value()));
        }
    }
    samples
}

/// Collects what is known of quotas: objects in the order of time, then series.
#[derive(Debug, Default)]
pub struct Collector {
    quotas: Quotas,
    folds: BTreeMap<Key, (DayFold, Vec<Day>)>,
    days: BTreeMap<Key, Vec<Day>>,
    hard: BTreeMap<Key, BTreeMap<i32, f64>>,
    /// What nodes held at their last moment, where no objects say it: by resource, then node.
    nodes: BTreeMap<String, BTreeMap<String, (Micros, f64)>>,
}

impl Collector {
    /// Takes the objects of a moment; later ones after earlier ones.
    pub fn objects(&mut self, cluster: &str, at: Micros, objects: &Objects) {
        let used = used(objects, at);
        for (key, used) in &used {
            let (fold, days) = self.folds.entry(key.clone()).or_default();
            days.extend(fold.add(Point { at, value: used.value() }));
        }
        for quota in &objects.quotas {
            for (resource, hard) in &quota.hard {
                let key = (quota.namespace.clone(), quota.name.clone(), resource.clone());
                self.hard.entry(key).or_default().insert(Day::of(at), hard.value());
            }
        }
        let quotas = &mut self.quotas;
        cluster.clone_into(&mut quotas.cluster);
        quotas.at = at;
        // A file may hold some kinds only: what it does not hold stays as it was.
        if objects.has("Namespace") {
            quotas.namespaces.clone_from(&objects.namespaces);
        }
        if objects.has("Node") {
            quotas.allocatable = allocatable(objects);
        }
        if objects.has("ResourceQuota") {
            quotas.standings.clear();
            quotas.scopes.clear();
            for quota in &objects.quotas {
                let (namespace, name) = (quota.namespace.clone(), quota.name.clone());
                if !quota.scopes.is_empty() {
                    quotas.scopes.insert((namespace.clone(), name.clone()), quota.scopes.clone());
                }
                for (resource, hard) in &quota.hard {
                    let key = (namespace.clone(), name.clone(), resource.clone());
                    let used = used.get(&key).copied();
                    let (namespace, quota, resource) = key;
                    quotas.standings.push(Standing { namespace, quota, resource, hard: *hard, used });
                }
            }
        }
    }

    /// Takes days of a series of one of the names above; others are left out. Whether it was one of them.
    pub fn series(&mut self, series: &Series, days: Vec<Day>) -> bool {
        let (namespace, resource) = (series.label("namespace").to_owned(), series.label("resource").to_owned());
        let quota = series.label("resourcequota").to_owned();
        match (series.name.as_str(), series.label("type")) {
            (QUOTA, "hard") => {
                let hard = self.hard.entry((namespace, quota, resource)).or_default();
                hard.extend(days.iter().map(|day| (day.day, day.last)));
            }
            (QUOTA, "used") => self.take_days((namespace, quota, resource), days),
            (REQUESTS, _) => self.take_days((namespace, String::new(), format!("requests.{resource}")), days),
            (LIMITS, _) => self.take_days((namespace, String::new(), format!("limits.{resource}")), days),
            (OBJECTS, _) => self.take_days((namespace, String::new(), resource), days),
            (ALLOCATABLE, _) => {
                if let Some(last) = days.last() {
                    let held =
                        self.nodes.entry(resource).or_default().entry(series.label("node").to_owned()).or_default();
                    if last.last_at >= held.0 {
                        *held = (last.last_at, last.last);
                    }
                }
            }
            _ => return false,
        }
        true
    }

    fn take_days(&mut self, key: Key, days: Vec<Day>) {
        let mine = self.days.entry(key).or_default();
        if mine.is_empty() {
            *mine = days;
            return;
        }
        mine.extend(days);
        mine.sort_by_key(|day| day.day);
        // From several sources: the same day twice.
        mine.dedup_by(|later, earlier| {
            let same = later.day == earlier.day;
            if same {
                earlier.merge(later);
            }
            same
        });
    }

    /// What is known. Where there are no objects, what stands now is the last that the series say, if that is not older
    /// than a day before the newest of all.
    pub fn finish(mut self) -> Quotas {
        for (key, (mut fold, mut days)) in std::mem::take(&mut self.folds) {
            days.extend(fold.finish());
            self.take_days(key, days);
        }
        let newest = self.days.values().flatten().map(|day| day.last_at).max().unwrap_or_default();
        let mut quotas = self.quotas;
        if quotas.standings.is_empty() && !self.hard.is_empty() {
            quotas.at = quotas.at.max(newest);
            for ((namespace, quota, resource), hard) in &self.hard {
                let Some((day, hard)) = hard.last_key_value() else { continue };
                let key = (namespace.clone(), quota.clone(), resource.clone());
                let used = self.days.get(&key).and_then(|days| days.last());
                let in_form = |value| Quantity::measured(value, form(resource));
                if *day + 1 < Day::of(newest) {
                    continue;
                }
                let Some(hard) = in_form(*hard) else { continue };
                let used = used.and_then(|day| in_form(day.last));
                let (namespace, quota, resource) = key;
                quotas.standings.push(Standing { namespace, quota, resource, hard, used });
            }
        }
        if quotas.allocatable.is_empty() {
            for (resource, nodes) in &self.nodes {
                let latest = nodes.values().map(|(at, _)| *at).max().unwrap_or_default();
                // A node without a sample for a day no longer exists.
                let held = nodes
                    .values()
                    .filter(|(at, _)| latest - at < crate::model::series::DAY)
                    .map(|(_, value)| *value)
                    .sum();
                if let Some(held) = Quantity::measured(held, form(resource)) {
                    quotas.allocatable.insert(resource.clone(), held);
                }
            }
        }
        let hard = self.hard;
        let days = self.days.into_iter();
        quotas.usage = days
            .map(|(key, days)| {
                let hard = hard.get(&key).into_iter().flatten().map(|(day, hard)| (*day, *hard)).collect();
                let (namespace, quota, resource) = key;
                Usage { namespace, quota, resource, days, hard }
            })
            .collect();
        quotas
    }
}
