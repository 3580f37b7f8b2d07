//! Keys and rows of the tables that hold what few events have, and of `load` (docs/rollup.md, section 4).

use super::keys::{Keys, Numbered, OTHER, OTHER_SYMBOL, TrafficKey};
use super::tiles::Row;
use crate::analysis::dims::code_class;
use crate::analysis::guard::consequences::Gone;
use crate::analysis::quota::refused::Refusals;
use crate::model::histogram::Histogram;
use crate::model::symbols::Symbol;
use std::cmp::Ordering;

/// Verbs that `load` tells apart; a client may send any word for a method.
pub const VERBS: [&str; 14] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "post",
    "put",
    "head",
    "options",
    "connect",
    "proxy",
];

/// Key of a row of `load`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoadKey {
    /// Cluster.
    pub cluster: Symbol,
    /// Apiserver.
    pub instance: Symbol,
    /// One of [`VERBS`], else `(other)`.
    pub verb: Symbol,
    /// Class of the code: `2xx`.
    pub class: &'static str,
}

/// What an operation that is left out of a timeline was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Omitted {
    /// A dangerous operation that was a dry run.
    DryRun,
    /// A write that may be dangerous, whose body the audit level hides.
    Hidden,
    /// Folded rows.
    Other,
}

impl Omitted {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::DryRun, Self::Hidden, Self::Other];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::DryRun => "dry-run",
            Self::Hidden => "hidden",
            Self::Other => OTHER,
        }
    }
}

/// Key of a row of `omitted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OmittedKey {
    /// Number of client and resource.
    pub subject: u32,
    /// Apiserver.
    pub instance: Symbol,
    /// Verb.
    pub verb: Symbol,
    /// Subresource.
    pub subresource: Symbol,
    /// Namespace.
    pub namespace: Symbol,
    /// What it was.
    pub fact: Omitted,
}

/// Key of a row of `cascades`: cluster, namespace, group, resource; and of `refusals`: cluster, namespace, quota,
/// resource.
pub type FourKey = [Symbol; 4];

/// Keys by number; number 0 is `(other)` in each table.
#[derive(Debug)]
pub struct ExtraKeys {
    /// Of `load`.
    pub loads: Numbered<LoadKey>,
    /// Of `omitted`.
    pub omitted: Numbered<OmittedKey>,
    /// Of `cascades`.
    pub cascades: Numbered<FourKey>,
    /// Of `refusals`.
    pub refusals: Numbered<FourKey>,
}

impl Default for ExtraKeys {
    fn default() -> Self {
        let other = OTHER_SYMBOL;
        Self {
            loads: Numbered::new(LoadKey { cluster: other, instance: other, verb: other, class: OTHER }),
            omitted: Numbered::new(OmittedKey {
                subject: 0,
                instance: other,
                verb: other,
                subresource: other,
                namespace: other,
                fact: Omitted::Other,
            }),
            cascades: Numbered::new([other; 4]),
            refusals: Numbered::new([other; 4]),
        }
    }
}

impl LoadKey {
    /// Where a traffic key counts.
    pub fn of(key: &TrafficKey, keys: &Keys) -> Self {
        let verb = keys.symbols.get(key.verb);
        let verb = if VERBS.contains(&verb) { key.verb } else { OTHER_SYMBOL };
        let cluster = keys.subjects.get(key.subject).cluster;
        Self { cluster, instance: key.instance, verb, class: code_class(key.code) }
    }
}

/// A row of `load`.
#[derive(Debug, Default)]
pub struct Load {
    /// Requests, open ones included.
    pub requests: u64,
    /// Long-running requests that had not ended.
    pub open: u64,
    /// Terminal events.
    pub ended: u64,
    /// Latencies in µs.
    pub latency: Histogram,
}

impl Row for Load {
    fn merge(&mut self, other: Self, _keys: &Keys) {
        self.requests += other.requests;
        self.open += other.open;
        self.ended += other.ended;
        self.latency.merge(&other.latency);
    }
    fn count(&self) -> u64 {
        self.requests
    }
    fn order(keys: &Keys, a: u64, b: u64) -> Ordering {
        let text = |key: u64| {
            let LoadKey { cluster, instance, verb, class } = *keys.extra.loads.get(key as u32);
            ([cluster, instance, verb].map(|symbol| keys.symbols.get(symbol)), class)
        };
        text(a).cmp(&text(b))
    }
}

/// A row of `omitted`.
#[derive(Debug, Default, Clone, Copy)]
pub struct Count(pub u64);

impl Row for Count {
    fn merge(&mut self, other: Self, _keys: &Keys) {
        self.0 += other.0;
    }
    fn count(&self) -> u64 {
        self.0
    }
    fn order(keys: &Keys, a: u64, b: u64) -> Ordering {
        let text = |key: u64| {
            let k = keys.extra.omitted.get(key as u32);
            let texts = [k.instance, k.verb, k.subresource, k.namespace].map(|symbol| keys.symbols.get(symbol));
            (keys.subject_text(k.subject), texts, k.fact)
        };
        text(a).cmp(&text(b))
    }
}

/// A row of `cascades`.
#[derive(Debug, Default, Clone, Copy)]
pub struct Cascades(pub Gone);

impl Row for Cascades {
    fn merge(&mut self, other: Self, _keys: &Keys) {
        self.0.merge(&other.0);
    }
    fn count(&self) -> u64 {
        self.0.objects + self.0.collections
    }
    fn order(keys: &Keys, a: u64, b: u64) -> Ordering {
        let text = |key: u64| keys.extra.cascades.get(key as u32).map(|symbol| keys.symbols.get(symbol));
        text(a).cmp(&text(b))
    }
}

impl Row for Refusals {
    fn merge(&mut self, other: Self, _keys: &Keys) {
        Self::merge(self, &other);
    }
    fn count(&self) -> u64 {
        self.count
    }
    fn order(keys: &Keys, a: u64, b: u64) -> Ordering {
        let text = |key: u64| keys.extra.refusals.get(key as u32).map(|symbol| keys.symbols.get(symbol));
        text(a).cmp(&text(b))
    }
}
