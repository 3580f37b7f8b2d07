//! How much each series moves when things are added: by what it means, and by what the history shows to go with it.

use super::observed::{Assumption, Daily, Else, Observed, Sure, link, now, same};
use super::plan::Plan;
use crate::analysis::forecast::words::grouped;
use crate::analysis::quota::collect::{LIMITS, OBJECTS, QUOTA, REQUESTS};
use crate::model::forecast::{Target, Unit};
use crate::model::names::{
    APISERVER_OBJECT_BYTES, APISERVER_OBJECTS, APISERVER_RPS, APISERVER_SEATS, CGROUP_MEMORY, CLUSTER_REQUESTS,
    ETCD_DB, ETCD_IN_USE,
};
use crate::model::problem::Problem;
use crate::model::quota::is_bytes;
use crate::model::series::Series;
use crate::model::units::{amount, counted, significant};
use std::collections::BTreeMap;

/// Objects of which each node has its own.
const OF_NODES: [&str; 2] = ["leases.coordination.k8s.io", "csinodes.storage.k8s.io"];

/// Objects that come with pods by their nature, even where nothing varied enough to show it.
const WITH_PODS: [&str; 5] =
    ["events", "events.events.k8s.io", "endpointslices.discovery.k8s.io", "endpoints", "replicasets.apps"];

/// FlowSchemas of what kubelets send.
const KUBELETS: [&str; 2] = ["system-nodes", "system-node-high"];

/// How a series moves.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shift {
    /// How much higher it is.
    pub by: f64,
    /// How much higher its limit is.
    pub limit: f64,
}

/// What moves, and what is assumed for it.
#[derive(Debug)]
pub struct Effects<'h> {
    observed: &'h Observed<'h>,
    /// More objects of namespaces, by namespace and resource as quotas name it.
    namespaces: BTreeMap<(String, String), f64>,
    /// More objects in etcd, by resource with group.
    objects: BTreeMap<String, f64>,
    nodes: f64,
    nodes_now: Option<f64>,
    pods: f64,
    /// More requests a second by a family of series: kubelets' and others', each as more ÷ what there is now.
    requests: BTreeMap<(bool, bool), f64>,
    /// What is assumed, by name.
    assumed: BTreeMap<String, Option<Assumption>>,
    /// The order in which it was used.
    used: Vec<String>,
    /// What can't be determined, in sentences without their period.
    pub unknown: Vec<String>,
}

impl<'h> Effects<'h> {
    /// What a plan comes to by what was observed.
    pub fn new(plan: &Plan, observed: &'h Observed<'h>) -> Self {
        let mut effects = Self {
            observed,
            namespaces: BTreeMap::new(),
            objects: BTreeMap::new(),
            nodes: 0.0,
            nodes_now: now(&observed.nodes()),
            pods: 0.0,
            requests: BTreeMap::new(),
            assumed: BTreeMap::new(),
            used: Vec::new(),
            unknown: Vec::new(),
        };
        effects.plan_nodes(plan);
        for one in plan.additions.iter().filter(|one| one.what != "nodes") {
            let (what, there) = (same(&one.what).to_owned(), now(&observed.namespace(&one.namespace, same(&one.what))));
            match there {
                None => effects.unknown.push(format!("{what} has no history in {}; treated as new", one.namespace)),
                Some(there) if one.amount < -there => {
                    effects.unknown.push(format!("{} has no more than {} {what}", one.namespace, significant(there)))
                }
                _ => {}
            }
            // No more can go than there is.
            let more = one.amount.max(-there.unwrap_or(0.0));
            *effects.namespaces.entry((one.namespace.clone(), what)).or_default() += more;
        }
        effects.follow_pods();
        effects.count_objects();
        effects
    }

    /// What is assumed, in the order in which it was used first.
    pub fn assumptions(&self) -> Vec<&Assumption> {
        self.used.iter().filter_map(|name| self.assumed.get(name)?.as_ref()).collect()
    }

    /// A ratio, found once.
    fn assume(&mut self, name: &str, find: impl FnOnce() -> Option<Assumption>) -> Option<f64> {
        if !self.assumed.contains_key(name) {
            self.assumed.insert(name.to_owned(), find());
            self.used.push(name.to_owned());
        }
        self.assumed.get(name)?.as_ref().map(|found| found.ratio)
    }

    /// What is taken for granted, one for one, and why.
    fn take_for_granted(&mut self, name: &str, from: String) {
        let (ratio, unit, interval, sure) = (1.0, Unit::Count, None, Sure::Given);
        self.assume(name, || Some(Assumption { name: name.to_owned(), ratio, unit, interval, from, sure }));
    }

    /// Refuses to take away all nodes that there are.
    pub(super) fn leave_some_node(&self) -> Result<(), Problem> {
        match self.nodes_now.filter(|now| now + self.nodes <= 0.0) {
            None => Ok(()),
            Some(now) => {
                let (taken, now) = (counted((-self.nodes).round() as u64, "node"), now.round());
                Err(Problem::setting(format!("takes away {taken} of {now}: nothing is left to forecast")).at("--add"))
            }
        }
    }

    /// More nodes; with `--nodes` what they carry as well.
    fn plan_nodes(&mut self, plan: &Plan) {
        self.nodes = plan.additions.iter().filter(|one| one.what == "nodes").map(|one| one.amount).sum();
        let Some(wanted) = plan.nodes else {
            if self.nodes != 0.0 && self.nodes_now.is_none() {
                self.unknown.push(
                    "the current number of nodes is unknown: the capacity of the cluster is assumed constant"
                        .to_owned(),
                );
            }
            return;
        };
        let Some(nodes) = self.nodes_now.filter(|nodes| *nodes > 0.0) else {
            self.unknown.push("the current number of nodes is unknown, so --nodes has no effect".to_owned());
            return;
        };
        self.nodes = wanted as f64 - nodes;
        let observed = self.observed;
        let name = "pods per node";
        let ratio =
            self.assume(name, || link(name, Unit::Count, "nodes", &observed.nodes(), &observed.pods(), Else::Ratio));
        let (Some(ratio), Some(pods)) = (ratio, now(&observed.pods()).filter(|pods| *pods > 0.0)) else {
            self.unknown.push("the current number of pods is unknown, so --nodes adds none".to_owned());
            return;
        };
        // Namespaces keep their shares: of what they have together, whose days need not peak at the same hour.
        let theirs: Vec<(&str, f64)> = observed
            .namespaces()
            .into_iter()
            .map(|name| (name, now(&observed.namespace(name, "pods")).unwrap_or_default()))
            .collect();
        let together: f64 = theirs.iter().map(|(_, pods)| pods).sum();
        for (namespace, pods) in theirs.into_iter().filter(|(_, pods)| *pods > 0.0) {
            self.namespaces.insert((namespace.to_owned(), "pods".to_owned()), pods / together * ratio * self.nodes);
        }
        let given = "share of the added pods";
        let from = format!("each namespace gets its current share of the {} pods", amount(Unit::Count, pods));
        self.take_for_granted(given, from);
    }

    /// What pods ask for comes with them.
    fn follow_pods(&mut self) {
        let pods: Vec<(String, f64)> = self
            .namespaces
            .iter()
            .filter(|((_, what), _)| what == "pods")
            .map(|((namespace, _), more)| (namespace.clone(), *more))
            .collect();
        self.pods = pods.iter().map(|(_, more)| more).sum();
        let observed = self.observed;
        for (namespace, more) in pods {
            let there = observed.namespace(&namespace, "pods");
            for resource in [
                "requests.cpu",
                "requests.memory",
                "limits.cpu",
                "limits.memory",
                "requests.ephemeral-storage",
                "limits.ephemeral-storage",
            ] {
                let of = observed.namespace(&namespace, resource);
                if of.is_empty() {
                    continue;
                }
                let name = format!("{resource} per pod of {namespace}");
                let unit = if is_bytes(resource) { Unit::Bytes } else { Unit::Cores };
                let ratio = self.assume(&name, || link(&name, unit, "pods", &there, &of, Else::Ratio));
                if let Some(ratio) = ratio {
                    *self.namespaces.entry((namespace.clone(), resource.to_owned())).or_default() += ratio * more;
                }
            }
            if there.is_empty() {
                self.unknown.push(format!("no data on pods of {namespace}: their requests are left out"));
            }
        }
    }

    /// Objects in etcd: those that are added, and those that come with pods and nodes.
    fn count_objects(&mut self) {
        let observed = self.observed;
        for ((_, what), more) in &self.namespaces {
            let what = what.strip_prefix("count/").unwrap_or(what);
            if !what.starts_with("requests.") && !what.starts_with("limits.") {
                *self.objects.entry(what.to_owned()).or_default() += more;
            }
        }
        if self.nodes != 0.0 {
            *self.objects.entry("nodes".to_owned()).or_default() += self.nodes;
        }
        let mut kinds: Vec<String> =
            observed.all(|series| series.name == APISERVER_OBJECTS).map(|(series, _)| grouped(series)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let (pods, nodes) = (observed.pods(), observed.nodes());
        let mut still = 0;
        for kind in kinds.into_iter().filter(|kind| kind != "pods" && kind != "nodes") {
            let of_nodes = OF_NODES.contains(&kind.as_str());
            let (by_name, by, more) = if of_nodes { ("node", &nodes, self.nodes) } else { ("pod", &pods, self.pods) };
            if more == 0.0 || self.objects.contains_key(&kind) {
                continue;
            }
            let otherwise =
                if of_nodes || WITH_PODS.contains(&kind.as_str()) { Else::RatioIfUntested } else { Else::Nothing };
            let name = format!("{kind} per {by_name}");
            let found = self.assume(&name, || {
                link(&name, Unit::Count, &format!("{by_name}s"), by, &observed.objects(&kind), otherwise)
            });
            match found {
                Some(ratio) => *self.objects.entry(kind).or_default() += ratio * more,
                None => still += 1,
            }
        }
        if still > 0 {
            self.unknown.push(format!(
                "{} of objects: no relation found, so their number is assumed constant",
                counted(still, "other kind")
            ));
        }
    }

    /// How a target moves; `None` where it does not.
    pub fn on(&mut self, target: &Target) -> Option<Shift> {
        let series = &target.series;
        let label = |name: &str| series.label(name);
        let of_namespace = |effects: &Self, resource: &str| {
            effects.namespaces.get(&(label("namespace").to_owned(), same(resource).to_owned())).copied()
        };
        let by = match series.name.as_str() {
            QUOTA => of_namespace(self, label("resource")),
            OBJECTS => of_namespace(self, label("resource")),
            REQUESTS => of_namespace(self, &format!("requests.{}", label("resource"))),
            LIMITS => of_namespace(self, &format!("limits.{}", label("resource"))),
            CLUSTER_REQUESTS => return self.on_cluster(target),
            APISERVER_OBJECTS if series.labels.is_empty() => Some(self.all_objects()),
            APISERVER_OBJECTS => self.objects.get(&grouped(series)).copied(),
            APISERVER_OBJECT_BYTES => self.on_bytes(series),
            APISERVER_RPS => self.on_requests(series, now_of(target)),
            APISERVER_SEATS => self.on_seats(series, now_of(target)),
            ETCD_DB | ETCD_IN_USE => self.on_etcd(series),
            CGROUP_MEMORY if label("path").contains("apiserver") && label("kind") != "limit" => self.on_memory(series),
            _ => None,
        }?;
        (by.is_finite() && by != 0.0).then_some(Shift { by, limit: 0.0 })
    }

    /// All objects that are added and that etcd counts.
    fn all_objects(&self) -> f64 {
        self.objects.values().sum()
    }

    fn on_cluster(&mut self, target: &Target) -> Option<Shift> {
        let resource = match target.series.label("resource") {
            "pods" => "pods".to_owned(),
            resource => format!("requests.{resource}"),
        };
        let by: f64 = self.namespaces.iter().filter(|((_, what), _)| *what == resource).map(|(_, more)| more).sum();
        let mut limit = 0.0;
        if let (Some(nodes), Some(all)) =
            (self.nodes_now.filter(|nodes| *nodes > 0.0 && self.nodes != 0.0), target.limit)
        {
            let name = format!("{} per node", target.series.label("resource"));
            let from = format!("{} of {} together", amount(target.unit, all), counted(nodes.round() as u64, "node"));
            let each = Assumption {
                name: name.clone(),
                ratio: all / nodes,
                unit: target.unit,
                interval: None,
                from,
                sure: Sure::Untested,
            };
            limit = self.assume(&name, || Some(each)).unwrap_or_default() * self.nodes;
        }
        (by != 0.0 || limit != 0.0).then_some(Shift { by, limit })
    }

    /// What a LIST of all objects of a resource reads.
    fn on_bytes(&mut self, series: &Series) -> Option<f64> {
        let (observed, kind) = (self.observed, grouped(series));
        let more = *self.objects.get(&kind)?;
        let (there, of) = (self.count(&kind), observed.sum(|other| other == series, |value| value));
        let name = format!("bytes per object of {kind}");
        let ratio = self.assume(&name, || link(&name, Unit::Bytes, &kind, &there, &of, Else::Ratio))?;
        Some(ratio * more)
    }

    fn on_etcd(&mut self, series: &Series) -> Option<f64> {
        let observed = self.observed;
        let instance = series.label("instance").to_owned();
        let of =
            |name: &str| observed.sum(|other| other.name == name && other.label("instance") == instance, |value| value);
        // A file grows by what comes to be in use; what it holds free besides is used up first, which is left out to be
        // on the safe side.
        let in_use = of(ETCD_IN_USE);
        let of = if in_use.is_empty() { of(ETCD_DB) } else { in_use };
        let name = if instance.is_empty() {
            "etcd bytes per object".to_owned()
        } else {
            format!("etcd bytes per object ({instance})")
        };
        let ratio =
            self.assume(&name, || link(&name, Unit::Bytes, "objects", &observed.all_objects(), &of, Else::Ratio))?;
        Some(ratio * self.all_objects())
    }

    fn on_memory(&mut self, series: &Series) -> Option<f64> {
        let observed = self.observed;
        let path = series.label("path").to_owned();
        let name = format!("memory per object ({path})");
        let of = observed.sum(
            |other| other.name == CGROUP_MEMORY && other.label("path") == path && other.label("kind") == "working_set",
            |value| value,
        );
        let ratio =
            self.assume(&name, || link(&name, Unit::Bytes, "objects", &observed.all_objects(), &of, Else::Ratio))?;
        Some(ratio * self.all_objects())
    }

    /// More requests of a family ÷ those that there are: of series by FlowSchema or by verb, of kubelets or of all
    /// others.
    fn requests(&mut self, by_schema: bool, kubelets: bool) -> f64 {
        if let Some(known) = self.requests.get(&(by_schema, kubelets)) {
            return *known;
        }
        let observed = self.observed;
        let of = observed.requests(|series| is_by_schema(series) == by_schema && is_kubelets(series) == kubelets);
        let (by_name, by, more) =
            if kubelets { ("node", observed.nodes(), self.nodes) } else { ("pod", observed.pods(), self.pods) };
        let mut share = 0.0;
        if more != 0.0
            && let Some(now) = now(&of).filter(|now| *now > 0.0)
        {
            let whose = if kubelets { "kubelets'" } else { "others'" };
            let how = if by_schema { "FlowSchemas" } else { "verbs" };
            let name = format!("{whose} requests/s per {by_name}, by {how}");
            let ratio = self.assume(&name, || {
                link(&name, Unit::PerSecond, &format!("{by_name}s"), &by, &of, Else::RatioIfUntested)
            });
            share = ratio.unwrap_or_default() * more / now;
        }
        self.requests.insert((by_schema, kubelets), share);
        share
    }

    fn on_requests(&mut self, series: &Series, current: f64) -> Option<f64> {
        if series.labels.is_empty() {
            let observed = self.observed;
            let of = |kubelets: bool| {
                now(&observed.requests(|one| !is_by_schema(one) && is_kubelets(one) == kubelets)).unwrap_or_default()
            };
            return Some(of(true) * self.requests(false, true) + of(false) * self.requests(false, false));
        }
        Some(current * self.requests(is_by_schema(series), is_kubelets(series)))
    }

    /// Seats are taken as requests come.
    fn on_seats(&mut self, series: &Series, current: f64) -> Option<f64> {
        let observed = self.observed;
        let level = series.label("priority_level");
        let of = |kubelets: bool| {
            now(&observed.requests(|one| one.label("priority_level") == level && is_kubelets(one) == kubelets))
                .unwrap_or_default()
        };
        let (theirs, others) = (of(true), of(false));
        if series.label("kind") == "limit" || theirs + others <= 0.0 {
            return None;
        }
        let more = theirs * self.requests(true, true) + others * self.requests(true, false);
        if more == 0.0 {
            return None;
        }
        let given = "seats";
        let from = "a priority level's seats grow in proportion to its requests".to_owned();
        self.take_for_granted(given, from);
        Some(current * more / (theirs + others))
    }

    /// Of resources that are added: how many there are and how many there will be, which is how LISTs of all of them
    /// grow.
    pub fn lists(&self) -> Vec<(String, f64, f64)> {
        let known = self.objects.iter().filter_map(|(kind, more)| Some((kind.clone(), now(&self.count(kind))?, *more)));
        known
            .filter(|(_, there, more)| *there > 0.0 && *more != 0.0)
            .map(|(kind, there, more)| (kind, there, (there + more).max(0.0)))
            .collect()
    }

    fn count(&self, kind: &str) -> Daily {
        match kind {
            "pods" => self.observed.pods(),
            "nodes" => self.observed.nodes(),
            kind => self.observed.objects(kind),
        }
    }
}

/// The last known value of a target.
fn now_of(target: &Target) -> f64 {
    target.grid.values.iter().rev().find(|value| value.is_finite()).copied().unwrap_or_default()
}

fn is_by_schema(series: &Series) -> bool {
    !series.label("flow_schema").is_empty()
}

/// Whether nodes send it: by the FlowSchema, else by what it is about.
fn is_kubelets(series: &Series) -> bool {
    if is_by_schema(series) {
        return KUBELETS.contains(&series.label("flow_schema"));
    }
    matches!(series.label("resource"), "nodes" | "leases" | "csinodes")
}
