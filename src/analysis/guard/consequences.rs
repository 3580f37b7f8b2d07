//! What went with what was deleted: deletions by the control plane and by kubelets, by place and time; objects that are
//! gone from etcd.

use crate::analysis::keyspace::diff::Removed;
use crate::model::registry::qualified;
use crate::model::time::{Bounds, MINUTE, Micros, SECOND};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How long a slot of time is.
const SLOT: Micros = 10 * SECOND;
/// What goes with a namespace goes without longer pauses: finalizers are tried again within minutes.
const PAUSE: Micros = 900 * SECOND;

/// What was deleted between two databases.
#[derive(Debug, Clone, Copy)]
pub struct RemovedBetween<'a> {
    pub removed: &'a Removed,
    /// The cluster that the databases are of; empty where nobody says.
    pub cluster: &'a str,
    /// When they were taken, as far as that is known.
    pub bounds: Bounds,
}

/// How exactly it is known when a database was taken: by what was written to it last.
const TAKEN_WITHIN: Micros = MINUTE;

impl<'a> RemovedBetween<'a> {
    /// What was deleted in a cluster by something that happened then; `None` where the databases do not show that.
    pub fn around(&self, cluster: &str, at: Micros) -> Option<&'a Removed> {
        let is_its = self.cluster.is_empty() || cluster.is_empty() || self.cluster == cluster;
        let (from, to) = self.bounds;
        let is_before = from.is_some_and(|from| at < from - TAKEN_WITHIN);
        let is_behind = to.is_some_and(|to| at > to + TAKEN_WITHIN);
        (is_its && !is_before && !is_behind).then_some(self.removed)
    }
}

/// Where and when things were deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub cluster: String,
    /// In which namespace; empty for what is in none.
    pub namespace: String,
    pub group: String,
    pub resource: String,
    /// Which ten seconds, counted from 1970.
    pub slot: i64,
}

impl Place {
    /// The slot of a moment.
    pub fn slot_of(at: Micros) -> i64 {
        at.div_euclid(SLOT)
    }
}

/// What was deleted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletions {
    /// Single objects.
    pub objects: u64,
    /// Collections, of which the log does not say how many objects they held.
    pub collections: u64,
    pub first: Micros,
    pub last: Micros,
}

impl Default for Deletions {
    fn default() -> Self {
        Self { objects: 0, collections: 0, first: Micros::MAX, last: Micros::MIN }
    }
}

impl Deletions {
    /// Takes a deletion.
    pub fn add(&mut self, at: Micros, is_collection: bool) {
        let (objects, collections) = (u64::from(!is_collection), u64::from(is_collection));
        self.merge(&Self { objects, collections, first: at, last: at });
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.objects += other.objects;
        self.collections += other.collections;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// What went with a namespace or a definition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cascade {
    /// Objects by resource with its group; of those that went by a collection only where databases show.
    pub objects: BTreeMap<String, u64>,
    /// Namespaces that lost some, where databases show.
    pub namespaces: BTreeSet<String>,
    /// Resources whose objects were deleted as a collection, which the log does not count.
    pub collections: Vec<String>,
    /// Whether databases show what was removed, so that nothing is left unsaid.
    pub by_databases: bool,
    /// When the last of it went.
    pub until: Option<Micros>,
}

impl Cascade {
    /// All objects that are known to be gone.
    pub fn total(&self) -> u64 {
        self.objects.values().sum()
    }

    /// Adds what went with another.
    pub fn add(&mut self, other: Self) {
        other.objects.into_iter().for_each(|(resource, count)| *self.objects.entry(resource).or_default() += count);
        self.namespaces.extend(other.namespaces);
        self.collections.extend(other.collections);
        self.collections.sort_unstable();
        self.collections.dedup();
        self.until = self.until.max(other.until);
    }

    /// What went with a namespace that was deleted at this time.
    pub fn of_namespace(
        gone: &HashMap<Place, Deletions>,
        removed: Option<&Removed>,
        cluster: &str,
        namespace: &str,
        at: Micros,
    ) -> Self {
        let mut cascade = Self { by_databases: removed.is_some(), ..Self::default() };
        let mut collections: BTreeMap<String, u64> = BTreeMap::new();
        let mut theirs: Vec<(&Place, &Deletions)> = gone
            .iter()
            .filter(|(place, gone)| place.cluster == cluster && place.namespace == namespace && gone.last >= at)
            .collect();
        theirs.sort_by_key(|(_, gone)| gone.first);
        for (place, gone) in theirs {
            // One of the same name that was made again loses objects of its own.
            if gone.first > cascade.until.unwrap_or(at) + PAUSE {
                break;
            }
            let resource = qualified(&place.group, &place.resource);
            if gone.collections > 0 {
                *collections.entry(resource.clone()).or_default() += gone.collections;
            }
            if gone.objects > 0 && removed.is_none() {
                *cascade.objects.entry(resource).or_default() += gone.objects;
            }
            cascade.until = cascade.until.max(Some(gone.last));
        }
        cascade.collections = collections.into_keys().collect();
        if let Some(removed) = removed {
            let theirs = removed.iter().filter(|([.., within], _)| within == namespace);
            cascade.objects =
                theirs.map(|([group, resource, _], count)| (qualified(group, resource), *count)).collect();
        }
        cascade
    }

    /// What a collection held.
    pub fn of_collection(
        removed: Option<&Removed>,
        group: &str,
        resource: &str,
        namespaces: &BTreeSet<String>,
    ) -> Self {
        let mut cascade = Self { by_databases: removed.is_some(), ..Self::default() };
        for ([its_group, its_resource, namespace], count) in removed.into_iter().flatten() {
            if its_group == group
                && its_resource == resource
                && (namespaces.is_empty() || namespaces.contains(namespace))
            {
                *cascade.objects.entry(qualified(group, resource)).or_default() += count;
                cascade.namespaces.insert(namespace.clone());
            }
        }
        cascade
    }

    /// What went with a definition: its name is the plural with the group. Custom resources vanish without an event.
    pub fn of_definition(removed: Option<&Removed>, name: &str) -> Self {
        let mut cascade = Self { by_databases: removed.is_some(), ..Self::default() };
        for ([group, resource, namespace], count) in removed.into_iter().flatten() {
            if qualified(group, resource) == name {
                *cascade.objects.entry(name.to_owned()).or_default() += count;
                cascade.namespaces.insert(namespace.clone());
            }
        }
        cascade
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_with_a_namespace_comes_after_it() {
        let mut gone: HashMap<Place, Deletions> = HashMap::new();
        let mut add = |namespace: &str, resource: &str, second: i64, is_collection: bool| {
            let at = second * SECOND;
            let place = Place {
                namespace: namespace.into(),
                resource: resource.into(),
                slot: Place::slot_of(at),
                ..Place::default()
            };
            gone.entry(place).or_default().add(at, is_collection);
        };
        add("a", "pods", 5, false);
        add("a", "pods", 100, false);
        add("a", "pods", 117, false);
        add("a", "secrets", 101, true);
        add("b", "pods", 101, false);
        // A namespace of the same name, an hour later.
        add("a", "pods", 3700, false);
        let cascade = Cascade::of_namespace(&gone, None, "", "a", 100 * SECOND);
        assert_eq!(cascade.objects, BTreeMap::from([("pods".to_owned(), 2)]));
        assert_eq!(
            (cascade.collections.as_slice(), cascade.until),
            (["secrets".to_owned()].as_slice(), Some(117 * SECOND))
        );
        let of = |group: &str, resource: &str, namespace: &str| [group, resource, namespace].map(str::to_owned);
        let removed = Removed::from([
            (of("", "secrets", "a"), 7),
            (of("x.io", "things", "b"), 3),
            (of("x.io", "things", "c"), 2),
        ]);
        let cascade = Cascade::of_namespace(&gone, Some(&removed), "", "a", 100 * SECOND);
        assert_eq!((cascade.objects.clone(), cascade.total()), (BTreeMap::from([("secrets".to_owned(), 7)]), 7));
        assert_eq!(Cascade::of_definition(Some(&removed), "things.x.io").total(), 5);
        assert_eq!(Cascade::of_definition(None, "things.x.io").total(), 0);
        let of = |namespaces: &[&str]| {
            let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
            Cascade::of_collection(Some(&removed), "x.io", "things", &namespaces).total()
        };
        assert_eq!((of(&["b"]), of(&["b", "a"]), of(&[])), (3, 3, 5));
    }
}
