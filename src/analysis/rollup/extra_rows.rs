//! Rows of the tables that hold what few events have, and of `load` (docs/rollup.md, section 4).

use super::keys::{Keys, LoadKey};
use super::tiles::Row;
use crate::analysis::guard::consequences::Deletions;
use crate::analysis::quota::refused::Refusals;
use crate::model::histogram::Histogram;
use crate::model::time::{Micros, together};
use std::cmp::Ordering;

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
pub struct Cascades(pub Deletions);

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

/// A row of `failures`: requests whose messages name the same.
#[derive(Debug, Default, Clone, Copy)]
pub struct Failures {
    pub count: u64,
    /// First and last `at`.
    pub span: Option<(Micros, Micros)>,
}

impl Row for Failures {
    fn merge(&mut self, other: Self, _keys: &Keys) {
        self.count += other.count;
        self.span = together(self.span, other.span);
    }
    fn count(&self) -> u64 {
        self.count
    }
    fn order(keys: &Keys, a: u64, b: u64) -> Ordering {
        let text = |key: u64| {
            let own = *keys.failures.get(key as u32);
            let [cluster, rest @ ..] = keys.subject_text(own.subject);
            (cluster, keys.symbols.get(own.instance), rest, own.fault(), keys.symbols.get(own.name))
        };
        text(a).cmp(&text(b))
    }
}
