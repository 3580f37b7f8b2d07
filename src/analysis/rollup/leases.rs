//! Who wrote to which lease: runs of one holder's writes, cut at tiles.

use super::keys::Keys;
use super::tiles::Scale;
use crate::analysis::controllers::handovers::{Holder, Holds, Lease, Run, join};
use crate::model::symbols::Symbol;
use crate::model::time::{Micros, SECOND};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// Leases kept in a tile: those with most writes.
const MAX_LEASES: usize = 1_024;

/// Cluster, namespace, name.
pub type LeaseKey = [Symbol; 3];

/// Identity, user, agent, source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named(pub [Symbol; 4]);

impl Holds for Named {
    fn is(&self, other: &Self) -> bool {
        let ([mine, own @ ..], [theirs, others @ ..]) = (self.0, other.0);
        if mine == Symbol::EMPTY || theirs == Symbol::EMPTY { own == others } else { mine == theirs }
    }
}

type Runs = HashMap<LeaseKey, Vec<Run<Named>>, foldhash::fast::FixedState>;

/// Runs by tile and lease.
#[derive(Debug)]
pub struct Leases {
    /// The length of a tile in seconds.
    length: i64,
    tiles: BTreeMap<i64, Runs>,
    /// Tiles before this one are put together.
    settled: i64,
    /// Writes that are late.
    late: Vec<(Micros, LeaseKey, Run<Named>)>,
}

impl Default for Leases {
    fn default() -> Self {
        Self { length: 10, tiles: BTreeMap::new(), settled: i64::MIN, late: Vec::new() }
    }
}

impl Leases {
    /// Takes a write at a time.
    pub fn take(
        &mut self,
        at: Micros,
        late: bool,
        (namespace, name, run): (String, String, Run),
        cluster: Symbol,
        keys: &mut Keys,
    ) {
        let lease = [cluster, keys.intern(&namespace), keys.intern(&name)];
        let Run { holder: Holder { identity, user, agent, source }, first, last, writes, longest, is_released, lasts } =
            run;
        let holder = Named([identity, user, agent, source].map(|text| keys.intern(&text)));
        let run = Run { holder, first, last, writes, longest, is_released, lasts };
        if late {
            self.late.push((at, lease, run));
        } else {
            self.add(at, lease, run);
        }
    }

    /// Adds a run of the tile of `at`.
    pub fn add(&mut self, at: Micros, lease: LeaseKey, run: Run<Named>) {
        let tile = at.div_euclid(self.length * SECOND) * self.length;
        self.tiles.entry(tile).or_default().entry(lease).or_default().push(run);
    }

    /// Makes tiles that are over small, and longer ones as the span demands.
    pub fn close(&mut self, released: Micros, length: i64, keys: &Keys) {
        self.lengthen(length);
        let end = released.div_euclid(self.length * SECOND) * self.length;
        for (_, runs) in self.tiles.range_mut(self.settled.min(end)..end) {
            settle(runs, keys);
        }
        self.settled = self.settled.max(end);
    }

    /// Makes tiles so long, in seconds.
    pub fn lengthen(&mut self, length: i64) {
        if length <= self.length {
            return;
        }
        self.length = length;
        self.settled = i64::MIN;
        for (tile, runs) in std::mem::take(&mut self.tiles) {
            let into = self.tiles.entry(tile.div_euclid(length) * length).or_default();
            for (lease, runs) in runs {
                into.entry(lease).or_default().extend(runs);
            }
        }
    }

    /// All runs: tile, lease, run; by tile, and by the text of the lease.
    pub fn finish(mut self, length: i64, keys: &Keys) -> Vec<(i64, LeaseKey, Run<Named>)> {
        self.lengthen(length);
        for (at, lease, run) in std::mem::take(&mut self.late) {
            self.add(at, lease, run);
        }
        let text = |lease: &LeaseKey| lease.map(|symbol| keys.symbols.get(symbol));
        let mut all = Vec::new();
        for (tile, mut runs) in self.tiles {
            settle(&mut runs, keys);
            let mut runs: Vec<(LeaseKey, Vec<Run<Named>>)> = runs.into_iter().collect();
            runs.sort_by(|(a, _), (b, _)| text(a).cmp(&text(b)));
            all.extend(runs.into_iter().flat_map(|(lease, runs)| runs.into_iter().map(move |run| (tile, lease, run))));
        }
        all
    }
}

/// Puts what follows one another together, and keeps the leases that were written to most.
fn settle(runs: &mut Runs, keys: &Keys) {
    for runs in runs.values_mut() {
        let text = |run: &Run<Named>| run.holder.0.map(|symbol| keys.symbols.get(symbol));
        runs.sort_by(|a, b| (a.last, a.first).cmp(&(b.last, b.first)).then_with(|| text(a).cmp(&text(b))));
        let mut joined = Vec::new();
        runs.drain(..).for_each(|run| join(&mut joined, run));
        *runs = joined;
    }
    if runs.len() > MAX_LEASES {
        let mut all: Vec<(u64, LeaseKey)> =
            runs.iter().map(|(lease, runs)| (runs.iter().map(|run| run.writes).sum(), *lease)).collect();
        let text = |lease: &LeaseKey| lease.map(|symbol| keys.symbols.get(symbol));
        all.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| text(&a.1).cmp(&text(&b.1))));
        all.iter().skip(MAX_LEASES).for_each(|(_, lease)| drop(runs.remove(lease)));
    }
}

/// The length of a tile for a span.
pub fn length(span: Micros) -> i64 {
    Scale::TRAFFIC.length(span)
}

/// A run with its texts.
pub fn in_words((lease, run): (&LeaseKey, &Run<Named>), keys: &Keys) -> (Lease, Run) {
    let text = |symbol: Symbol| keys.symbols.get(symbol).to_owned();
    let ([cluster, namespace, name], [identity, user, agent, source]) = (lease.map(text), run.holder.0.map(text));
    let Run { first, last, writes, longest, is_released, lasts, .. } = *run;
    let holder = Holder { identity, user, agent, source };
    ((cluster, namespace, name), Run { holder, first, last, writes, longest, is_released, lasts })
}
