//! Pods that wait for a node, by what a scheduler decides by: how many different ones there are, and so how much less
//! there would be to do if equal ones were decided once.

use crate::analysis::quota::usage;
use crate::model::objects::{Objects, Pod};
use crate::model::quantity::Quantity;
use crate::model::time::Micros;
use crate::model::waiting::{Apart, Waiting};
use std::collections::{BTreeMap, BTreeSet};

/// Pods that are equal in all that nodes are filtered and scored by, but labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kind {
    /// Which scheduler is to find nodes.
    pub scheduler: String,
    /// How many.
    pub pods: u64,
    /// Of them: kept back by gates, so that no scheduler looks at them.
    pub gated: u64,
    /// Sets of labels among those that are looked at: kube-scheduler takes only pods with the same labels for equal,
    /// since other pods may have affinity to them.
    pub label_sets: u64,
    /// Why none of them can be taken for equal to another.
    pub apart: Vec<Apart>,
    /// Namespaces they are in.
    pub namespaces: Vec<String>,
    /// What controls most of them: kind and name.
    pub controller: String,
    /// What each asks for: names and canonical quantities.
    pub requests: Vec<(String, String)>,
    /// What else nodes are filtered and scored by, as [`Waiting::needs`] has it.
    pub needs: String,
    /// The oldest one's creation.
    pub oldest: Option<Micros>,
    /// When those were created that no scheduler has tried yet, and may try.
    pub untried: Vec<Micros>,
    /// Why they have no node, by most of them; empty where nobody tried.
    pub reason: String,
    /// The same in full.
    pub message: String,
}

/// All pods that wait.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classes {
    /// By kind, those with most pods first.
    pub kinds: Vec<Kind>,
    /// All pods that were read, with a node or without.
    pub all: u64,
    /// Pods without a node that are looked at.
    pub pods: u64,
    /// Pods that are kept back by gates.
    pub gated: u64,
    /// Of those that are looked at: decisions that are needed if each distinct pod is decided once.
    pub distinct: u64,
    /// The same if only neighbours in the queue are decided together: by priority, then by age, as kube-scheduler takes
    /// them.
    pub in_order: u64,
}

impl Classes {
    /// The share of decisions that would be saved at best.
    pub fn saved(&self) -> f64 {
        if self.pods == 0 { 0.0 } else { 1.0 - self.distinct as f64 / self.pods as f64 }
    }

    /// Pods that are looked at and can't be taken for equal to others.
    pub fn apart(&self) -> u64 {
        self.kinds.iter().filter(|kind| !kind.apart.is_empty()).map(|kind| kind.pods - kind.gated).sum()
    }
}

/// What all pods of a kind have in common.
type Key<'p> = (&'p str, Vec<(String, i128)>, &'p str);

/// A pod's kind and labels; nothing where it can't be taken for equal to another.
type Signature<'p> = Option<(usize, &'p BTreeMap<String, String>)>;

/// What is found of the pods that wait.
pub fn classes(objects: &Objects) -> Classes {
    let waiting: Vec<(&Pod, &Waiting)> =
        objects.pods.iter().filter_map(|pod| Some((pod, pod.waiting.as_deref()?))).collect();
    let mut by_kind: BTreeMap<Key<'_>, Vec<usize>> = BTreeMap::new();
    for (number, (pod, waiting)) in waiting.iter().enumerate() {
        // The form in which a quantity is written is no matter: 1000m is 1, 1Gi is 1073741824.
        let requests = requests(pod).map(|(name, amount)| (name, amount.nanos())).collect();
        by_kind.entry((&waiting.scheduler, requests, &waiting.needs)).or_default().push(number);
    }
    let mut all = Classes { all: objects.pods.len() as u64, ..Classes::default() };
    let mut signatures: Vec<(usize, Signature<'_>)> = Vec::new();
    for (at, ((scheduler, ..), members)) in by_kind.into_iter().enumerate() {
        let of: Vec<(&Pod, &Waiting)> = members.iter().map(|number| waiting[*number]).collect();
        let kind = kind(scheduler, &of);
        let open = members.iter().filter(|number| waiting[**number].1.gates.is_empty());
        signatures
            .extend(open.map(|number| (*number, kind.apart.is_empty().then(|| (at, &waiting[*number].1.labels)))));
        all.pods += kind.pods - kind.gated;
        all.gated += kind.gated;
        all.distinct += if kind.apart.is_empty() { kind.label_sets } else { kind.pods - kind.gated };
        all.kinds.push(kind);
    }
    let place = |number: usize| {
        let (pod, waiting) = waiting[number];
        (&waiting.scheduler, -waiting.priority, waiting.created, &pod.namespace, &pod.name)
    };
    signatures.sort_by(|a, b| place(a.0).cmp(&place(b.0)));
    let changes = signatures.windows(2).filter(|two| two[1].1.is_none() || two[0].1 != two[1].1).count();
    all.in_order = changes as u64 + u64::from(!signatures.is_empty());
    all.kinds.sort_by(|a, b| {
        b.pods.cmp(&a.pods).then_with(|| (&a.controller, &a.namespaces).cmp(&(&b.controller, &b.namespaces)))
    });
    all
}

/// What a pod asks for, of which there is any.
fn requests(pod: &Pod) -> impl Iterator<Item = (String, Quantity)> {
    usage::requests(&pod.spec, false).into_iter().filter(|(_, amount)| !amount.is_zero())
}

fn kind(scheduler: &str, of: &[(&Pod, &Waiting)]) -> Kind {
    let open = || of.iter().filter(|(_, waiting)| waiting.gates.is_empty());
    let labels: BTreeSet<&BTreeMap<String, String>> = open().map(|(_, waiting)| &waiting.labels).collect();
    let controllers = of
        .iter()
        .map(|(pod, _)| pod.controller.as_ref().map_or_else(String::new, |(kind, name)| format!("{kind}/{name}")));
    let messages = of.iter().map(|(_, waiting)| (waiting.reason.clone(), waiting.message.clone()));
    let (reason, message) = most(messages);
    Kind {
        scheduler: scheduler.to_owned(),
        pods: of.len() as u64,
        gated: (of.len() - open().count()) as u64,
        label_sets: labels.len() as u64,
        apart: of.first().map(|(_, waiting)| waiting.apart.clone()).unwrap_or_default(),
        namespaces: of.iter().map(|(pod, _)| pod.namespace.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
        controller: most(controllers),
        requests: of
            .first()
            .map(|(pod, _)| requests(pod).map(|(name, amount)| (name, amount.to_string())).collect())
            .unwrap_or_default(),
        needs: of.first().map(|(_, waiting)| waiting.needs.clone()).unwrap_or_default(),
        oldest: of.iter().filter_map(|(_, waiting)| waiting.created).min(),
        untried: open().filter(|(_, own)| own.reason.is_empty()).filter_map(|(_, own)| own.created).collect(),
        reason,
        message,
    }
}

/// What occurs most often; of equals the first in order.
fn most<T: Ord + Default>(all: impl Iterator<Item = T>) -> T {
    let mut counts: BTreeMap<T, u64> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    let best = counts.into_iter().min_by_key(|(_, count)| std::cmp::Reverse(*count));
    best.map(|(one, _)| one).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, needs: &str, label: &str, created: Micros) -> Pod {
        let labels = [("app".to_owned(), label.to_owned())].into();
        let waiting = Waiting { needs: needs.to_owned(), labels, created: Some(created), ..Waiting::default() };
        Pod { name: name.to_owned(), namespace: "n".to_owned(), waiting: Some(Box::new(waiting)), ..Pod::default() }
    }

    #[test]
    fn equal_pods_are_one_decision() {
        let mut pods =
            vec![pod("a", "x", "l", 1), pod("b", "x", "l", 3), pod("c", "y", "l", 2), pod("d", "x", "other", 4)];
        pods.push(Pod::default());
        let objects = Objects { pods, ..Objects::default() };
        let all = classes(&objects);
        // a and b are equal; in the queue c stands between them.
        assert_eq!((all.all, all.pods, all.distinct, all.in_order), (5, 4, 3, 4));
        assert_eq!((all.kinds[0].pods, all.kinds[0].label_sets, all.kinds.len()), (3, 2, 2));
        assert!((all.saved() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn what_looks_at_other_pods_is_decided_one_by_one_and_gated_pods_not_at_all() {
        let mut pods = vec![pod("a", "x", "l", 1), pod("b", "x", "l", 2), pod("c", "y", "l", 3), pod("d", "y", "l", 4)];
        for pod in &mut pods[..2] {
            pod.waiting.as_mut().unwrap().apart = vec![Apart::PodAffinity];
        }
        pods[3].waiting.as_mut().unwrap().gates = vec!["quota".to_owned()];
        let all = classes(&Objects { pods, ..Objects::default() });
        assert_eq!((all.pods, all.gated, all.distinct, all.in_order, all.apart()), (3, 1, 3, 3, 2));
        assert_eq!(classes(&Objects::default()), Classes::default());
    }
}
