//! A group: what one actor did of one kind, close together in time. It is one row of the timeline.

use super::classify::Seen;
use super::consequences::{Cascade, Deletions, Place, RemovedBetween};
use crate::analysis::rollup::notable::Notable;
use crate::model::report::Severity;
use crate::model::time::Micros;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Names, namespaces and details that a row holds.
const NAMED: usize = 1_000;

/// Objects that a row distinguishes; beyond, they are only counted.
const TARGETS: usize = 100_000;

/// What one actor did, of one kind, without a longer pause than the window.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// The first of them.
    pub first: Notable,
    /// When the last was answered.
    pub last: Micros,
    /// How many.
    pub count: u64,
    /// How many were done (1xx, 2xx).
    pub done: u64,
    /// How many were refused (401, 403).
    pub refused: u64,
    /// How many came to nothing otherwise: not found, conflict.
    pub failed: u64,
    /// How many failed in a way in which they may have been done all the same: no answer, 5xx.
    pub unsure: u64,
    /// The most within one window: of objects where they have names.
    pub most: u64,
    /// Namespaces; of those that stand for themselves (deleted namespaces) their names.
    pub namespaces: BTreeSet<String>,
    /// Names of what it was done to; where it was done to nothing, of what was tried.
    pub names: Vec<String>,
    /// What bodies and queries say of those that were done, or may have been.
    pub(super) done_details: BTreeSet<String>,
    /// The same of those that were refused.
    pub(super) tried: BTreeSet<String>,
    /// How many did not find what they are about.
    pub missing: u64,
    /// Whether one that was done, or may have been, was about no one namespace.
    pub is_of_all: bool,
    /// Apiservers.
    pub instances: BTreeSet<String>,
    /// What went with it.
    pub cascade: Cascade,
    /// Of drained nodes: what became of their pods.
    pub evictions: Option<Box<Evictions>>,
    /// Who owns the namespaces, as far as that is known.
    pub owners: BTreeSet<String>,
    /// Whether the actor made at least as many of these as he deleted.
    pub is_cleanup: bool,
    /// How grave it was when somebody was notified, where somebody was.
    pub reported: Option<Severity>,
    /// As grave as this whatever it is alone, as it is a part of more.
    pub floor: Severity,
    /// Operations, the first thousand of them, by [`Notable::id`].
    pub ids: Vec<String>,
    /// Times of new objects within the window of the last.
    pub(super) recent: VecDeque<Micros>,
    /// The objects, by namespace and name.
    pub(super) targets: HashMap<(String, String), Target>,
    /// The first thousand of them, as they came.
    pub(super) order: Vec<(String, String)>,
}

/// What became of an object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Target {
    /// When it was done first, or may have been.
    done: Option<Micros>,
}

/// Owners of namespaces, by cluster and name.
pub type Owners = HashMap<(String, String), String>;

/// What is known beside the operations.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// What the control plane and kubelets deleted.
    pub gone: &'a HashMap<Place, Deletions>,
    /// Objects that databases show as deleted.
    pub removed: Option<RemovedBetween<'a>>,
    /// What else the log shows.
    pub seen: &'a Seen,
    /// Owners of namespaces.
    pub owners: &'a Owners,
}

/// Whether it was certainly not done.
fn is_refused(code: Option<u16>) -> bool {
    matches!(code, Some(300..500))
}

/// Whether something was done. A command in a container is answered by 101.
pub(super) fn is_done(code: Option<u16>) -> bool {
    code.is_some_and(|code| (100..300).contains(&code))
}

impl Group {
    /// A row of one operation.
    pub fn new(one: &Notable, window: Micros) -> Self {
        let mut group = Self { first: one.clone(), last: one.at, ..Self::default() };
        group.add(one, window);
        group
    }

    /// Takes another operation.
    pub fn add(&mut self, one: &Notable, window: Micros) {
        self.count += 1;
        match one.code {
            code if is_done(code) => self.done += 1,
            Some(401 | 403) => self.refused += 1,
            // It may have been done all the same.
            None | Some(0 | 500..) => self.unsure += 1,
            _ => self.failed += 1,
        }
        self.missing += u64::from(one.code == Some(404));
        if self.ids.len() < NAMED {
            self.ids.push(one.id());
        }
        // Logs of several apiservers that are followed are not quite in order.
        self.last = self.last.max(one.at);
        let of = if one.resource == "namespaces" { &one.name } else { &one.namespace };
        if self.namespaces.len() < NAMED && !of.is_empty() {
            self.namespaces.insert(of.clone());
        }
        let target = (one.namespace.clone(), one.name.clone());
        let is_new = one.name.is_empty() || !self.targets.contains_key(&target);
        if !one.name.is_empty() && (!is_new || self.targets.len() < TARGETS) {
            let target = self.targets.entry(target).or_default();
            target.done = target.done.or((!is_refused(one.code)).then_some(one.at));
        }
        // The same pod ten times is one pod.
        if is_new || matches!(one.kind, "forbidden" | "token-create") {
            self.recent.push_back(one.at);
            while self.recent.front().is_some_and(|at| *at <= self.last - window) {
                self.recent.pop_front();
            }
            self.most = self.most.max(self.recent.len() as u64);
        }
        if is_new && !one.name.is_empty() && self.order.len() < NAMED {
            self.order.push((one.namespace.clone(), one.name.clone()));
        }
        let is_refused = is_refused(one.code);
        self.is_of_all |= !is_refused && one.namespace.is_empty();
        let details = if is_refused { &mut self.tried } else { &mut self.done_details };
        if details.len() < NAMED && !one.detail.is_empty() {
            details.insert(one.detail.clone());
        }
        self.instances.insert(one.instance.clone());
    }

    /// Takes another row of the same kind that came later.
    pub(super) fn absorb(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.count, other.count),
            (&mut self.done, other.done),
            (&mut self.refused, other.refused),
            (&mut self.failed, other.failed),
            (&mut self.unsure, other.unsure),
            (&mut self.missing, other.missing),
        ] {
            *sum += more;
        }
        self.last = self.last.max(other.last);
        self.most = self.most.max(other.most);
        self.order.extend(other.order.into_iter().filter(|target| !self.targets.contains_key(target)));
        self.order.truncate(NAMED);
        for (target, state) in other.targets {
            let mine = self.targets.entry(target).or_default();
            mine.done = mine.done.or(state.done);
        }
        self.namespaces.extend(other.namespaces);
        self.done_details.extend(other.done_details);
        self.tried.extend(other.tried);
        self.is_of_all |= other.is_of_all;
        self.instances.extend(other.instances);
        self.ids.extend(other.ids);
        self.ids.truncate(NAMED);
    }

    /// What bodies and queries say of what was done; where nothing was, of what was tried.
    pub fn details(&self) -> &BTreeSet<String> {
        if self.done + self.unsure > 0 { &self.done_details } else { &self.tried }
    }

    /// How many different objects it was done to, or may have been; requests where they have no names.
    pub fn objects(&self) -> u64 {
        let named = self.targets.values().filter(|target| target.done.is_some()).count() as u64;
        if named > 0 { named } else { self.done + self.unsure }
    }

    /// Adds what is known from elsewhere.
    pub fn finish(&mut self, around: Around<'_>) {
        let Around { gone, removed, seen, owners } = around;
        let done = |target: &&(String, String)| self.targets.get(*target).is_some_and(|target| target.done.is_some());
        // Of what was refused to some and done to others only what it was done to has to be named.
        let has_done = self.order.iter().any(|target| done(&target));
        self.names =
            self.order.iter().filter(|target| !has_done || done(target)).map(|(_, name)| name.clone()).collect();
        let of = &self.first;
        // What databases of this cluster show that were taken before and after.
        let within = |at: Micros| removed.and_then(|removed| removed.around(&of.cluster, at));
        let removed = within(of.at);
        let mut whole = Cascade { by_databases: removed.is_some(), ..Cascade::default() };
        match of.kind {
            "delete-namespace" => {
                for ((_, name), target) in &self.targets {
                    if let Some(at) = target.done {
                        whole.add(Cascade::of_namespace(gone, within(at), &of.cluster, name, at));
                    }
                }
            }
            "delete-crd" => {
                for ((_, name), _) in self.targets.iter().filter(|(_, target)| target.done.is_some()) {
                    whole.add(Cascade::of_definition(removed, name));
                }
            }
            "delete-collection" if self.done + self.unsure > 0 => {
                whole.add(Cascade::of_collection(removed, &of.group, &of.resource, &self.namespaces));
            }
            _ => {}
        }
        let cluster = &self.first.cluster;
        // Where objects are of no cluster that is named, they are of any.
        let owner = |name: &String| {
            let of = |cluster: &str| owners.get(&(cluster.to_owned(), name.clone()));
            of(cluster).or_else(|| of(""))
        };
        self.owners = self.namespaces.iter().chain(&whole.namespaces).filter_map(owner).cloned().collect();
        self.cascade = whole;
        self.is_cleanup = of.kind == "delete-pod" && !self.targets.is_empty() && self.are_own(seen);
    }

    /// Whether whoever deleted these pods had created them.
    fn are_own(&self, seen: &Seen) -> bool {
        let mut unnamed: HashMap<&str, u64> = HashMap::new();
        let of = |namespace: &str| {
            seen.created.get(&(self.first.cluster.clone(), self.first.user.clone(), namespace.to_owned()))
        };
        // What was not there any more says nothing, unless it is all there is.
        let has_done = self.targets.values().any(|target| target.done.is_some());
        for ((namespace, name), target) in self.targets.iter().filter(|(_, own)| !has_done || own.done.is_some()) {
            // What he makes again behind that was somebody else's, as far as the log shows.
            let is_before = |first: &Micros| target.done.is_none_or(|done| *first <= done);
            if !of(namespace).is_some_and(|created| created.names.get(name).is_some_and(is_before)) {
                *unnamed.entry(namespace).or_default() += 1;
            }
        }
        self.targets.len() < TARGETS
            && unnamed.iter().all(|(namespace, count)| of(namespace).is_some_and(|created| created.unnamed >= *count))
    }

    /// Whether it is known that nothing went with it.
    pub fn is_known_empty(&self) -> bool {
        self.cascade.by_databases && self.cascade.total() == 0
    }

    /// When the last of it was answered, or of what was deleted with it.
    pub fn until(&self) -> Micros {
        self.cascade.until.unwrap_or(self.last).max(self.last)
    }

    /// The names, few of them: `none-0, none-1, … none-11`.
    pub fn few(&self) -> String {
        match self.names.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [one, other] => format!("{one}, {other}"),
            [one, two, .., last] if self.names.len() > 3 => format!("{one}, {two}, … {last}"),
            names => names.join(", "),
        }
    }
}

/// What a drain did to pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evictions {
    /// Requests: kubectl asks again every 5 s where a budget refuses.
    pub requests: u64,
    /// Different pods that were evicted, or may have been.
    pub pods: u64,
    /// Requests that came to nothing: refused by a disruption budget (429), or not there any more.
    pub failed: u64,
    /// Where.
    pub namespaces: BTreeSet<String>,
}
