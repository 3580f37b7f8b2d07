//! Rows by tile of time: open while events may still come, then folded to a limit, then merged into
//! coarser tiles as the span of the input grows (docs/rollup.md, sections 3 and 5).
//!
//! Folding keeps the largest rows, so folding to a large limit and then to a smaller one is the same
//! as folding to the smaller one at once: what comes out depends on the input alone. Tiles that touch
//! a place where the input was split are left as they are until the parts are merged.

use super::keys::{Keys, Renumbering};
use crate::model::time::{Micros, SECOND};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How long tiles are, how many rows one may have, and how long it stays open.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Lengths of tiles in seconds, and the longest span (µs) for which each is used.
    levels: [(i64, Micros); 4],
    /// Rows in a tile of the finest level while the span is at most an hour.
    first_hour: usize,
    /// Rows in a tile of each level.
    limits: [usize; 4],
    /// How long after its end (µs) a tile may still get rows.
    delay: Micros,
}

const HOUR: Micros = 3600 * SECOND;

const LEVELS: [(i64, Micros); 4] = [(10, 6 * HOUR), (60, 48 * HOUR), (600, 30 * 24 * HOUR), (3600, Micros::MAX)];

impl Scale {
    /// Of the traffic table.
    pub const TRAFFIC: Self = Self { levels: LEVELS, first_hour: 4096, limits: [1024, 768, 512, 512], delay: 0 };
    /// Of sequences and sources.
    pub const SUBJECTS: Self = Self { levels: LEVELS, first_hour: 1024, limits: [256, 192, 128, 128], delay: 0 };
    /// Of pulse: seconds first, and requests that began up to [`PULSE_DELAY`] before their end.
    pub const PULSE: Self =
        Self { levels: [(1, 6 * HOUR), LEVELS[1], LEVELS[2], LEVELS[3]], first_hour: 256, limits: [64, 768, 512, 512], delay: PULSE_DELAY };

    /// The level for a span.
    fn level(&self, span: Micros) -> usize {
        self.levels.iter().position(|(_, longest)| span <= *longest).unwrap_or(self.levels.len() - 1)
    }
}

/// A start that lies further behind the event that tells of it is late for its second of pulse.
pub const PULSE_DELAY: Micros = 180 * SECOND;

/// What a row holds beside its key.
pub trait Row: Default {
    /// Adds another's.
    fn merge(&mut self, other: Self, keys: &Keys);
    /// By what rows are ranked when a tile is folded.
    fn count(&self) -> u64;
    /// The order of two keys by their text, for ties.
    fn order(keys: &Keys, a: u64, b: u64) -> Ordering;
    /// Makes it as small as it gets: its tile is closed.
    fn close(&mut self, _keys: &Keys) {}
    /// Its own symbols as another set of keys numbers them.
    fn renumber(&mut self, _to: &Renumbering) {}
}

/// The key of `(other)`: where folded rows go.
pub const OTHER_KEY: u64 = 0;

/// The rows of one tile.
#[derive(Debug)]
pub struct Rows<V> {
    rows: Vec<(u64, V)>,
    /// Where each key stands in `rows`; not kept up in tiles that are closed.
    index: HashMap<u64, u32, FixedState>,
}

impl<V> Default for Rows<V> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: HashMap::default() }
    }
}

impl<V: Row> Rows<V> {
    /// The row of a key.
    #[inline]
    pub fn row(&mut self, key: u64) -> &mut V {
        if self.index.len() != self.rows.len() {
            self.index = self.rows.iter().enumerate().map(|(at, (key, _))| (*key, at as u32)).collect();
        }
        let at = match self.index.entry(key) {
            hashbrown::hash_map::Entry::Occupied(found) => *found.get(),
            hashbrown::hash_map::Entry::Vacant(free) => {
                let at = self.rows.len() as u32;
                free.insert(at);
                self.rows.push((key, V::default()));
                at
            }
        };
        &mut self.rows[at as usize].1
    }

    fn merge(&mut self, other: Self, keys: &Keys) {
        for (key, row) in other.rows {
            self.row(key).merge(row, keys);
        }
    }

    /// Keeps the `limit` rows with the largest counts, ties by the text of their keys; the rest go to `(other)`.
    fn fold(&mut self, limit: usize, keys: &Keys) {
        let others = self.rows.iter().filter(|(key, _)| *key == OTHER_KEY).count();
        if self.rows.len() - others > limit {
            let rank = |row: &(u64, V)| (row.0 != OTHER_KEY, std::cmp::Reverse(row.1.count()));
            self.rows.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| V::order(keys, a.0, b.0)));
            let rest = self.rows.split_off(limit + others);
            self.index = HashMap::default();
            let other = self.row(OTHER_KEY);
            rest.into_iter().for_each(|(_, row)| other.merge(row, keys));
        }
        self.rows.iter_mut().for_each(|(_, row)| row.close(keys));
        self.rows.shrink_to_fit();
        self.index = HashMap::default();
    }

    /// Gives every key another number; keys that become equal are merged.
    fn renumber(self, change: &impl Fn(u64) -> u64, to: &Renumbering, keys: &Keys) -> Self {
        let mut rows = Self::default();
        for (key, mut row) in self.rows {
            row.renumber(to);
            rows.row(change(key)).merge(row, keys);
        }
        rows
    }

    /// The rows, in no order.
    pub fn into_rows(self) -> Vec<(u64, V)> {
        self.rows
    }
}

/// Rows by tile. Keys of the maps are starts of tiles, in seconds.
#[derive(Debug)]
pub struct Tiles<V> {
    scale: Scale,
    /// Finest tiles that may still change, or that touch a split.
    open: BTreeMap<i64, Rows<V>>,
    /// Closed and folded tiles, by level.
    closed: [BTreeMap<i64, Rows<V>>; 4],
    /// Rows of late events: they came after their tile may have been folded.
    late: BTreeMap<i64, Rows<V>>,
    /// The level in force.
    level: usize,
    /// Whether the limit of the first hour is over.
    refolded: bool,
}

/// How far a pass has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// No event before this (µs) will come but late ones.
    pub released: Micros,
    /// Events at or before this (µs) may stand in another part of the input.
    pub split: Micros,
    /// Last event minus first (µs).
    pub span: Micros,
}

impl<V: Row> Tiles<V> {
    /// No rows yet.
    pub fn new(scale: Scale) -> Self {
        Self { scale, open: BTreeMap::new(), closed: Default::default(), late: BTreeMap::new(), level: 0, refolded: false }
    }

    /// The rows of the tile of `at`; those of late events apart.
    #[inline]
    pub fn at(&mut self, at: Micros, late: bool) -> &mut Rows<V> {
        let length = self.scale.levels[0].0;
        let tile = at.div_euclid(length * SECOND) * length;
        let tiles = if late { &mut self.late } else { &mut self.open };
        tiles.entry(tile).or_default()
    }

    /// Closes the tiles whose time is over, and makes coarser ones as the span demands.
    pub fn close(&mut self, progress: Progress, keys: &Keys) {
        let Progress { released, split, span } = progress;
        let released = released.saturating_sub(self.scale.delay);
        let length = self.scale.levels[0].0;
        let limit = if span <= HOUR { self.scale.first_hour } else { self.scale.limits[0] };
        if span > HOUR && !self.refolded {
            self.refolded = true;
            self.closed[0].values_mut().for_each(|rows| rows.fold(limit, keys));
        }
        while let Some(entry) = self.open.first_entry() {
            let tile = *entry.key();
            // Tiles that touch the split come first in time: they stay, and with them nothing later is closed out of turn.
            if (tile + length) * SECOND > released {
                break;
            }
            if tile * SECOND <= split {
                let done: Vec<i64> =
                    self.open.range(..).map(|(t, _)| *t).filter(|t| t * SECOND > split && (t + length) * SECOND <= released).collect();
                for tile in done {
                    if let Some(mut rows) = self.open.remove(&tile) {
                        rows.fold(limit, keys);
                        self.closed[0].insert(tile, rows);
                    }
                }
                break;
            }
            let mut rows = entry.remove();
            rows.fold(limit, keys);
            self.closed[0].insert(tile, rows);
        }
        self.level = self.level.max(self.scale.level(span));
        for level in 0..self.level {
            self.promote(level, released, split, keys);
        }
    }

    /// Merges the tiles of a level into those of the next whose time is over.
    fn promote(&mut self, level: usize, released: Micros, split: Micros, keys: &Keys) {
        let length = self.scale.levels[level + 1].0;
        let parent = |tile: i64| tile.div_euclid(length) * length;
        let done: Vec<i64> = self.closed[level]
            .keys()
            .copied()
            .filter(|&tile| (parent(tile) + length).saturating_mul(SECOND) <= released && parent(tile) * SECOND > split)
            .collect();
        let mut parents: BTreeMap<i64, Rows<V>> = BTreeMap::new();
        for tile in done {
            if let Some(rows) = self.closed[level].remove(&tile) {
                parents.entry(parent(tile)).or_default().merge(rows, keys);
            }
        }
        let limit = self.scale.limits[level + 1];
        for (tile, mut rows) in parents {
            rows.fold(limit, keys);
            self.closed[level + 1].insert(tile, rows);
        }
    }

    /// Takes in the tiles of a part of the same input, its keys renumbered.
    pub fn merge(&mut self, other: Self, change: &impl Fn(u64) -> u64, to: &Renumbering, keys: &Keys) {
        let add = |mine: &mut BTreeMap<i64, Rows<V>>, theirs: BTreeMap<i64, Rows<V>>| {
            for (tile, rows) in theirs {
                mine.entry(tile).or_default().merge(rows.renumber(change, to, keys), keys);
            }
        };
        add(&mut self.open, other.open);
        for (mine, theirs) in self.closed.iter_mut().zip(other.closed) {
            add(mine, theirs);
        }
        add(&mut self.late, other.late);
        self.level = self.level.max(other.level);
        self.refolded &= other.refolded;
    }

    /// All rows, in tiles of one length: (start in seconds, rows).
    pub fn finish(mut self, span: Micros, keys: &Keys) -> Vec<(i64, Rows<V>)> {
        self.close(Progress { released: Micros::MAX, split: Micros::MIN, span }, keys);
        let level = self.level;
        let length = self.scale.levels[level].0;
        let mut tiles = std::mem::take(&mut self.closed[level]);
        for (tile, rows) in self.late {
            tiles.entry(tile.div_euclid(length) * length).or_default().merge(rows, keys);
        }
        tiles.into_iter().collect()
    }
}
