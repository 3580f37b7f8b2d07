//! The key space as a tree: resource, namespace, what names have in common.

use super::{Row, Usage};
use crate::model::flame::{Call, Tree};
use crate::model::registry::qualified;
use std::collections::HashMap;

/// Rows beyond this are their namespace's.
const MAX_FRAMES: usize = 2_000_000;

pub use crate::model::question::Weight;

impl Weight {
    /// What a row weighs.
    pub fn of(self, usage: &Usage) -> u64 {
        match self {
            Self::Live => usage.live_bytes,
            Self::History => usage.history_bytes,
            Self::All => usage.live_bytes + usage.history_bytes,
            Self::Keys => usage.keys,
            Self::Revisions => usage.revisions,
        }
    }

    /// What is counted, and its unit.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Live => ("etcd, live bytes", "bytes"),
            Self::History => ("etcd, history bytes", "bytes"),
            Self::All => ("etcd, live and history bytes", "bytes"),
            Self::Keys => ("etcd, keys", "keys"),
            Self::Revisions => ("etcd, revisions", "revisions"),
        }
    }
}

/// The tree of rows by name-prefix, as they were (the first) and are.
pub fn tree(sides: [&[Row]; 2], weight: Weight) -> Tree {
    let mut tree =
        Tree { names: vec![String::new()], calls: vec![Call { caller: 0, name: 0, own: [0; 2] }], ..Tree::default() };
    let mut names: HashMap<String, u32> = HashMap::new();
    let mut calls: HashMap<(u32, u32), u32> = HashMap::new();
    for (when, rows) in sides.into_iter().enumerate() {
        for row in rows {
            let own = weight.of(&row.usage);
            let mut at = 0;
            for name in frames(&row.names).into_iter().filter(|_| own > 0) {
                let number = *names.entry(name).or_insert_with_key(|name| {
                    tree.names.push(name.clone());
                    (tree.names.len() - 1) as u32
                });
                if tree.calls.len() >= MAX_FRAMES && !calls.contains_key(&(at, number)) {
                    break;
                }
                at = *calls.entry((at, number)).or_insert_with(|| {
                    tree.calls.push(Call { caller: at, name: number, own: [0; 2] });
                    (tree.calls.len() - 1) as u32
                });
            }
            tree.calls[at as usize].own[when] += own;
        }
    }
    (tree.title, tree.unit) = (weight.names().0.to_owned(), weight.names().1.to_owned());
    tree
}

/// The frames of a row: `deployments.apps`, `web`, `shop-*`.
fn frames(names: &[String]) -> Vec<String> {
    let [group, resource, namespace, name] = names else { return Vec::new() };
    if resource.is_empty() {
        return vec![name.trim_end_matches('/').to_owned()];
    }
    let resource = qualified(group, resource);
    let namespace = if namespace.is_empty() { "(cluster)".to_owned() } else { namespace.clone() };
    vec![resource, namespace, name.clone()]
}
