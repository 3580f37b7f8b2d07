//! Pairs of what is as it is: databases, heaps, memory.

use super::logs::named;
use super::noise::Measured;
use super::{Area, Pair, Subject};
use crate::analysis::heap::groups::GROUPS;
use crate::analysis::heap::measure::Measured as Heap;
use crate::analysis::keyspace::{Row, Usage};
use crate::analysis::memory::account::Account;
use crate::model::memory::Sample;
use crate::model::time::SECOND;
use std::collections::BTreeMap;

/// Numbers by what they are of.
pub(super) type Levels = BTreeMap<(Area, Subject, &'static str), f64>;

/// Pairs of states: what only one side has was not, or is no more.
pub(super) fn pairs(mut before: Levels, after: Levels) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let state = |area: Area, level: Option<f64>| match (area, level) {
        (_, None) => Measured::None,
        // Apiservers count objects about once a minute, and before the first time it is 0.
        (Area::Objects, Some(0.0)) => Measured::None,
        (Area::Memory, Some(level)) => Measured::Moment(level),
        (_, Some(level)) => Measured::State(level),
    };
    for ((area, subject, metric), value) in after {
        let old = before.remove(&(area, subject.clone(), metric));
        pairs.push(Pair { area, subject, metric, before: state(area, old), after: state(area, Some(value)) });
    }
    for ((area, subject, metric), value) in before {
        pairs.push(Pair { area, subject, metric, before: state(area, Some(value)), after: Measured::None });
    }
    // By metrics what is not reported is not known.
    pairs.retain(|pair| pair.area != Area::Objects || pair.before != Measured::None && pair.after != Measured::None);
    pairs
}

/// A database.
#[derive(Debug)]
pub struct Database {
    /// Rows by resource.
    pub rows: Vec<Row>,
    /// All of them.
    pub total: Usage,
    /// The file's size.
    pub db_bytes: u64,
    /// What of it is in use.
    pub in_use_bytes: u64,
}

/// Pairs of two databases of etcd.
pub fn databases(before: &Database, after: &Database) -> Vec<Pair> {
    let levels = |database: &Database| {
        let mut levels = Levels::new();
        let mut put = |subject: &Subject, usage: &Usage| {
            let of = [("keys", usage.keys), ("live_bytes", usage.live_bytes), ("history_bytes", usage.history_bytes)];
            levels.extend(of.map(|(metric, value)| ((Area::Etcd, subject.clone(), metric), value as f64)));
        };
        put(&Subject::new(), &database.total);
        for row in &database.rows {
            let [group, resource] = [0, 1].map(|at| row.names.get(at).map_or("", String::as_str));
            // What is no object of an apiserver, such as etcd's own keys.
            let name = if group.is_empty() && resource.is_empty() { "other keys" } else { "" };
            put(&named(&[("group", group), ("resource", resource), ("name", name)]), &row.usage);
        }
        let file = [("db_bytes", database.db_bytes), ("in_use_bytes", database.in_use_bytes)];
        levels.extend(file.map(|(metric, value)| ((Area::Etcd, Subject::new(), metric), value as f64)));
        levels
    };
    let mut pairs = pairs(levels(before), levels(after));
    // What is nothing on both sides is no news on either.
    pairs.retain(|pair| pair.before.value().unwrap_or(0.0) + pair.after.value().unwrap_or(0.0) > 0.0);
    pairs
}

/// Pairs of two heaps: all of it, and by what it is for where it is an apiserver's. A sample stands for `each` bytes.
pub fn heaps(heap: &Heap<'_>, instance: &str, each: f64) -> Vec<Pair> {
    let pair = |name: &str, [before, after]: [u64; 2]| Pair {
        area: Area::Heap,
        subject: named(&[("instance", instance), ("name", name)]),
        metric: "heap_bytes",
        before: Measured::Sampled(before as f64, each),
        after: Measured::Sampled(after as f64, each),
    };
    let mut pairs = vec![pair("", heap.total)];
    let groups = GROUPS.iter().zip(&heap.groups).filter(|(_, held)| held.weight != [0; 2]);
    pairs.extend(groups.map(|(group, held)| pair(group.name, held.weight)));
    pairs
}

/// A cgroup's memory in a window.
#[derive(Debug)]
pub struct Memory {
    /// What the group is called.
    pub name: String,
    /// Where its samples lie.
    pub place: String,
    /// Samples in order of time.
    pub samples: Vec<Sample>,
}

/// Pairs of cgroups of the same name.
pub fn memory(before: &[Memory], after: &[Memory]) -> Vec<Pair> {
    let [before, after] = [before, after].map(distinguished);
    let mut names: Vec<&str> = before.iter().chain(&after).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut pairs = Vec::new();
    for name in names {
        let of = |side: &[(String, &Memory)]| {
            let own = side.iter().find(|(other, _)| other == name);
            own.map(|(_, memory)| courses(&memory.samples)).unwrap_or_default()
        };
        let (mut old, mut new) = (of(&before), of(&after));
        for metric in ["usage", "working_set", "anon", "file"] {
            let (before, after) = (old.remove(metric).unwrap_or_default(), new.remove(metric).unwrap_or_default());
            if before != Measured::None || after != Measured::None {
                pairs.push(Pair { area: Area::Memory, subject: named(&[("name", name)]), metric, before, after });
            }
        }
    }
    pairs
}

/// Groups by what they are called; of several that are called alike, by as much of where they lie as tells these apart.
fn distinguished(side: &[Memory]) -> Vec<(String, &Memory)> {
    fn parts(own: &Memory) -> Vec<&str> {
        own.place.split('/').collect()
    }
    let of = |memory: &Memory| {
        let alike: Vec<_> = side.iter().filter(|other| other.name == memory.name).map(parts).collect();
        let own = parts(memory);
        let is_common = |place: &usize| alike.iter().all(|other| other.get(*place) == own.get(*place));
        let apart = own[(0..own.len()).take_while(is_common).count()..].join("/");
        if apart.is_empty() { memory.name.clone() } else { apart }
    };
    side.iter().map(|memory| (of(memory), memory)).collect()
}

/// Each level lasts until the next sample, the last as long as the one before it.
fn courses(samples: &[Sample]) -> BTreeMap<&'static str, Measured> {
    let mut lengths: Vec<f64> =
        samples.windows(2).map(|two| ((two[1].at - two[0].at) as f64 / SECOND as f64).max(1e-3)).collect();
    lengths.push(lengths.last().copied().unwrap_or(1.0));
    let mut courses: BTreeMap<&'static str, Vec<(f64, f64)>> = BTreeMap::new();
    for (sample, seconds) in samples.iter().zip(lengths) {
        let account = Account::of(sample, None);
        let of = [
            ("usage", account.usage),
            ("working_set", account.working_set),
            ("anon", account.anon),
            ("file", account.file),
        ];
        for (metric, value) in of {
            if let Some(value) = value {
                courses.entry(metric).or_default().push((seconds, value as f64));
            }
        }
    }
    courses.into_iter().map(|(metric, course)| (metric, Measured::Levels(course))).collect()
}
