//! Rows of the key space.

use super::arena::{Keyspace, Links};
use super::{Usage, owners};
use hashbrown::HashMap;

pub use crate::model::question::KeysBy as By;

impl By {
    /// The columns that name a row.
    pub fn columns(&self) -> &'static [&'static str] {
        match self {
            Self::Prefix => &["prefix", "group", "resource", "namespace"],
            Self::Resource => &["group", "resource"],
            Self::Namespace => &["namespace"],
            Self::NamePrefix => &["group", "resource", "namespace", "name_prefix"],
            Self::Kind => &["api_version", "kind"],
            Self::Owner => &["namespace", "owner_kind", "owner"],
            Self::Manager => &["manager"],
            Self::Label(_) => &["label"],
        }
    }
}

/// What is added up by place and label. Most rows are made by places alone, whose numbers are small.
#[derive(Debug, Default)]
struct Sums {
    places: Vec<Usage>,
    labelled: HashMap<(u32, u32), Usage>,
}

impl Sums {
    fn at(&mut self, place: u32, label: u32) -> &mut Usage {
        let number = place as usize;
        if label != 0 {
            return self.labelled.entry((place, label)).or_default();
        }
        if self.places.len() <= number {
            self.places.resize_with(number + 1, Usage::default);
        }
        &mut self.places[number]
    }

    fn merge(&mut self, other: Self) {
        other.into_rows().for_each(|((place, label), usage)| self.at(place, label).merge(&usage));
    }

    /// Those that anything was added to.
    fn into_rows(self) -> impl Iterator<Item = ((u32, u32), Usage)> {
        let places = (0..).zip(self.places).map(|(place, usage)| ((place, 0), usage));
        places.filter(|(_, usage)| usage.revisions > 0).chain(self.labelled)
    }
}

/// A row: what names it, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// A value for each of [`By::columns`].
    pub names: Vec<String>,
    /// What it holds.
    pub usage: Usage,
}

/// The rows, in the order of their names, and the sum over all keys; added up on `threads` threads.
pub fn rows(space: &Keyspace, by: &By, threads: usize) -> (Vec<Row>, Usage) {
    let tops = if *by == By::Owner { owners::tops(space) } else { HashMap::new() };
    let parts = space.fold(threads, |(total, sums): &mut (Usage, Sums), key, links| match (by, links) {
        (By::Manager, links) => {
            // A key counts with each of its managers, but once in all.
            total.add(key);
            match links {
                Links::Managers(managers) if !managers.is_empty() => {
                    for (manager, bytes) in managers {
                        let mut usage = Usage::default();
                        usage.add(key);
                        usage.managed_fields_bytes = if key.lives() { *bytes } else { 0 };
                        sums.at(0, *manager).merge(&usage);
                    }
                }
                _ => sums.at(0, 0).add(key),
            }
        }
        (By::Owner, Links::Owner(uid, owner, _)) => {
            let (place, label) = owners::top(&tops, *uid, *owner, key.place);
            sums.at(place, label).add(key);
        }
        (By::Kind | By::Label(_), _) => sums.at(0, key.label).add(key),
        _ => sums.at(key.place, key.label).add(key),
    });
    let (mut total, mut sums) = (Usage::default(), Sums::default());
    for (part, its) in parts {
        total.merge(&part);
        sums.merge(its);
    }
    let sums: Vec<((u32, u32), Usage)> = sums.into_rows().collect();
    if *by != By::Manager {
        sums.iter().for_each(|(_, usage)| total.merge(usage));
    }
    let rows = sums.into_iter().map(|((place, label), usage)| Row { names: names(space, by, place, label), usage });
    let mut rows: Vec<Row> = rows.collect();
    rows.sort_unstable_by(|a, b| a.names.cmp(&b.names));
    // Two places of one resource, where rows are made by that.
    rows.dedup_by(|next, row| {
        next.names == row.names && {
            row.usage.merge(&next.usage);
            true
        }
    });
    (rows, total)
}

fn names(space: &Keyspace, by: &By, place: u32, label: u32) -> Vec<String> {
    let place = space.name(place);
    let parsed = space.parse(&place);
    let label = space.name(label);
    let pair = || label.split_once('\0').unwrap_or_default();
    let names: &[&str] = match by {
        By::Prefix => &[parsed.prefix, parsed.group, parsed.resource, parsed.namespace],
        By::Resource => &[parsed.group, parsed.resource],
        By::Namespace => &[parsed.namespace],
        By::NamePrefix => &[parsed.group, parsed.resource, parsed.namespace, &label],
        By::Kind => &[pair().0, pair().1],
        By::Owner => &[parsed.namespace, pair().0, pair().1],
        By::Manager | By::Label(_) => &[&label],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}
