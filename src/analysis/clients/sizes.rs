//! How large objects are as JSON: what a LIST of them costs before it is packed.

use crate::analysis::rollup::read::{TrafficRow, What};
use crate::model::registry::is_built_in;
use crate::model::uri::{Scope, Selector};
use std::collections::BTreeMap;

/// What stands around the items of a list: its kind, version and resourceVersion.
const ENVELOPE: u64 = 90;

/// Objects, and the bytes of their JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// How many there are.
    pub objects: u64,
    /// Bytes of their JSON without blanks.
    pub bytes: u64,
}

impl Size {
    /// One of so many equal parts.
    pub fn part(self, parts: u64) -> Self {
        Self { objects: self.objects / parts.max(1), bytes: self.bytes / parts.max(1) }
    }
}

/// Objects by group, resource and namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Where this is known from: a file.
    pub source: String,
    by: BTreeMap<(String, String), BTreeMap<String, Size>>,
    /// Objects of which only the stored bytes are known: encrypted, damaged, or of a newer Kubernetes.
    pub unread: u64,
}

impl Sizes {
    /// Of a file, of which nothing is counted yet.
    pub fn of_file(path: &str) -> Self {
        Self { source: path.to_owned(), ..Self::default() }
    }

    /// Counts an object of so many bytes.
    pub fn add(&mut self, (group, resource): What<'_>, namespace: &str, bytes: u64) {
        let namespaces = self.by.entry((group.to_owned(), resource.to_owned())).or_default();
        let size = namespaces.entry(namespace.to_owned()).or_default();
        size.objects += 1;
        size.bytes += bytes;
    }

    /// Takes in another thread's.
    pub fn merge(&mut self, other: Self) {
        for (what, namespaces) in other.by {
            let mine = self.by.entry(what).or_default();
            for (namespace, size) in namespaces {
                let sum = mine.entry(namespace).or_default();
                sum.objects += size.objects;
                sum.bytes += size.bytes;
            }
        }
        self.unread += other.unread;
    }

    /// All objects of a resource, or those in a namespace. A built-in one that the file does not have has none; of
    /// others, and of those that often have an etcd of their own or are kept nowhere, nothing is known then.
    pub fn of(&self, (group, resource): What<'_>, namespace: Option<&str>) -> Option<Size> {
        // Events are stored once, whatever group they are asked for by.
        let group = if resource == "events" { "" } else { group };
        let all = self.by.get(&(group.to_owned(), resource.to_owned()));
        let is_kept = is_built_in(group, resource) && !matches!(resource, "events" | "componentstatuses");
        if all.is_none() && !is_kept {
            return None;
        }
        let wanted = all.into_iter().flatten().filter(|(name, _)| namespace.is_none_or(|namespace| *name == namespace));
        Some(wanted.fold(Size::default(), |sum, (_, size)| Size {
            objects: sum.objects + size.objects,
            bytes: sum.bytes + size.bytes,
        }))
    }

    /// What one LIST like this returns, if that can be said: all of the resource, all in a namespace, or a node's
    /// share. What labels and fields choose, and how long a page is, no log shows.
    pub fn of_list(&self, row: &TrafficRow<'_>) -> Option<Size> {
        let shape =
            row.shape.filter(|shape| row.verb == "list" && shape.path.is_none() && !shape.limit && !shape.continued)?;
        let all = self.of(row.what, (row.scope == Scope::Namespace).then_some(row.namespace))?;
        let size = match shape.selector {
            Selector::None => all,
            Selector::Name => all.part(all.objects),
            Selector::Node => {
                all.part(self.of(("", "nodes"), None).map(|nodes| nodes.objects).filter(|nodes| *nodes > 0)?)
            }
            Selector::Field | Selector::Label => return None,
        };
        Some(Size { bytes: size.bytes + ENVELOPE, ..size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_by_place() {
        let mut sizes = Sizes::default();
        sizes.add(("", "pods"), "a", 100);
        let mut other = Sizes::default();
        other.add(("", "pods"), "a", 50);
        other.add(("", "pods"), "b", 30);
        other.add(("", "events"), "b", 7);
        sizes.merge(other);
        assert_eq!(sizes.of(("", "pods"), None), Some(Size { objects: 3, bytes: 180 }));
        assert_eq!(sizes.of(("", "pods"), Some("a")), Some(Size { objects: 2, bytes: 150 }));
        assert_eq!(sizes.of(("events.k8s.io", "events"), None), Some(Size { objects: 1, bytes: 7 }));
        assert_eq!(sizes.of(("", "services"), None), Some(Size::default()), "there are none");
        for elsewhere in [("metrics.k8s.io", "pods"), ("example.com", "widgets"), ("apps", "pods")] {
            assert_eq!(sizes.of(elsewhere, None), None, "{elsewhere:?}");
        }
        assert_eq!(Sizes::default().of(("", "events"), None), None, "they may be in another etcd");
    }
}
