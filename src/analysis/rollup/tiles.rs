//! Rows by tile of time: open while events may still come, then folded to a limit, then merged into
//! coarser tiles as the span of the input grows (docs/rollup.md, sections 3 and 5).
//!
//! Folding keeps the largest rows, so folding to a large limit and then to a smaller one is the same
//! as folding to the smaller one at once: what comes out depends on the input alone.

use super::keys::Keys;
use crate::model::time::{HOUR, Micros, SECOND};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

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

const LEVELS: [(i64, Micros); 4] = [(10, 6 * HOUR), (60, 48 * HOUR), (600, 30 * 24 * HOUR), (3600, Micros::MAX)];

impl Scale {
    /// Of the traffic table.
    pub const TRAFFIC: Self = Self { levels: LEVELS, first_hour: 4096, limits: [1024, 768, 512, 512], delay: 0 };
    /// Of sequences and sources.
    pub const SUBJECTS: Self = Self { levels: LEVELS, first_hour: 1024, limits: [256, 192, 128, 128], delay: 0 };
    /// Of load, which is not folded: verbs and classes of codes are few.
    pub const LOAD: Self = Self { levels: LEVELS, first_hour: 1 << 16, limits: [1 << 16; 4], delay: 0 };
    /// Of pulse: seconds first, and requests that began up to [`PULSE_DELAY`] before their end.
    pub const PULSE: Self = Self {
        levels: [(1, 6 * HOUR), LEVELS[1], LEVELS[2], LEVELS[3]],
        first_hour: 256,
        limits: [64, 768, 512, 512],
        delay: PULSE_DELAY,
    };

    /// The level at which tiles are so long, in seconds.
    fn level_of(length: i64) -> usize {
        LEVELS.iter().position(|(own, _)| *own >= length).unwrap_or(LEVELS.len() - 1)
    }

    /// The length of a tile for a span, in seconds.
    pub fn length(&self, span: Micros) -> i64 {
        self.levels[self.level(span)].0
    }

    /// The level for a span.
    fn level(&self, span: Micros) -> usize {
        self.levels.iter().position(|(_, longest)| span <= *longest).unwrap_or(self.levels.len() - 1)
    }
}

/// The length of a tile for a span (µs), in seconds.
pub fn tile_for(span: Micros) -> i64 {
    Scale::TRAFFIC.length(span)
}

/// A start that lies further behind the event that reports it is late for its second of pulse.
pub const PULSE_DELAY: Micros = 180 * SECOND;

/// What a row holds beside its key.
pub trait Row: Default {
    /// Whether what comes out depends on the order in which rows are added.
    const IS_ORDERED: bool = false;
    /// Adds another's.
    fn merge(&mut self, other: Self, keys: &Keys);
    /// By what rows are ranked when a tile is folded.
    fn count(&self) -> u64;
    /// A number for each key, small enough for the index of a list.
    fn dense(key: u64) -> usize {
        key as usize
    }
    /// The order of two keys by their text, for ties.
    fn order(keys: &Keys, a: u64, b: u64) -> Ordering;
    /// Makes it as small as it gets: its tile is closed.
    fn close(&mut self, _keys: &Keys) {}
}

/// The key of `(other)`: where folded rows go.
pub const OTHER_KEY: u64 = 0;

/// The rows of one tile.
///
/// While it is open a key may have several rows, which are put together when it is closed: that spares a
/// table of keys for each tile.
#[derive(Debug)]
pub struct Rows<V> {
    rows: Vec<(u64, V)>,
    /// Goes up from one tile to the next that is opened.
    stamp: u32,
    /// Whether a key may have several rows.
    several: bool,
    /// The number of rows beyond which several of one key are put together.
    limit: usize,
}

/// Rows beyond which several of one key are put together.
const MERGE_ROWS_FROM: usize = 1024;

impl<V> Default for Rows<V> {
    fn default() -> Self {
        Self { rows: Vec::new(), stamp: 0, several: false, limit: MERGE_ROWS_FROM }
    }
}

impl<V: Row> Rows<V> {
    /// A new row, whether or not its key has one.
    fn another(&mut self, key: u64, keys: &Keys) -> &mut V {
        self.several = true;
        if self.rows.len() >= self.limit {
            self.settle(keys);
            self.several = true;
            self.limit = MERGE_ROWS_FROM.max(self.rows.len() * 2);
        }
        self.push(key)
    }

    #[inline]
    fn push(&mut self, key: u64) -> &mut V {
        let at = self.rows.len();
        self.rows.push((key, V::default()));
        &mut self.rows[at].1
    }

    /// Adds the rows of another tile; they are put together when all are there.
    fn append(&mut self, mut other: Self) {
        self.several |= other.several || !self.rows.is_empty();
        self.rows.append(&mut other.rows);
    }

    /// Makes one row of all of one key, in the order in which they were added.
    fn settle(&mut self, keys: &Keys) {
        if !std::mem::take(&mut self.several) {
            return;
        }
        self.rows.sort_by_key(|(key, _)| *key);
        let mut settled: Vec<(u64, V)> = Vec::with_capacity(self.rows.len());
        for (key, row) in self.rows.drain(..) {
            match settled.last_mut() {
                Some(last) if last.0 == key => last.1.merge(row, keys),
                _ => settled.push((key, row)),
            }
        }
        self.rows = settled;
    }

    /// Keeps the `limit` rows with the largest counts, ties by the text of their keys; the rest go to `(other)`.
    fn fold(&mut self, limit: usize, keys: &Keys) {
        self.settle(keys);
        let others = self.rows.iter().filter(|(key, _)| *key == OTHER_KEY).count();
        if self.rows.len() - others > limit {
            let rank = |row: &(u64, V)| (row.0 != OTHER_KEY, std::cmp::Reverse(row.1.count()));
            let order = |a: &(u64, V), b: &(u64, V)| rank(a).cmp(&rank(b)).then_with(|| V::order(keys, a.0, b.0));
            if V::IS_ORDERED {
                self.rows.sort_unstable_by(order);
            } else {
                // Most rows of a large tile are of one request, and comparing texts is what costs.
                self.rows.select_nth_unstable_by(limit + others, order);
            }
            let rest = self.rows.split_off(limit + others);
            let place = self.rows.iter().position(|(key, _)| *key == OTHER_KEY).unwrap_or_else(|| {
                self.rows.push((OTHER_KEY, V::default()));
                self.rows.len() - 1
            });
            let other = &mut self.rows[place].1;
            rest.into_iter().for_each(|(_, row)| other.merge(row, keys));
        }
        self.rows.iter_mut().for_each(|(_, row)| row.close(keys));
        self.rows.shrink_to_fit();
    }
}

/// Rows by tile. Keys of the maps are starts of tiles, in seconds.
#[derive(Debug)]
pub struct Tiles<V> {
    scale: Scale,
    /// Finest tiles that may still change; ascending.
    open: Vec<(i64, Rows<V>)>,
    /// For each key, by its dense number, the latest tile with a row of it, by its stamp, and the row's place.
    last: Vec<(u32, u32)>,
    stamps: u32,
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
    /// Last event minus first (µs).
    pub span: Micros,
}

impl<V: Row> Tiles<V> {
    /// No rows yet.
    pub fn new(scale: Scale) -> Self {
        Self {
            scale,
            open: Vec::new(),
            last: Vec::new(),
            stamps: 0,
            closed: Default::default(),
            late: BTreeMap::new(),
            level: 0,
            refolded: false,
        }
    }

    /// Folds tiles to so many rows, whatever the span: to see what folding does in a small log.
    pub fn fold_to(&mut self, rows: usize) {
        self.scale.first_hour = rows;
        self.scale.limits = [rows; 4];
    }

    /// What comes is not in finer tiles than of this length, in seconds.
    pub fn at_least(&mut self, length: i64) {
        self.level = self.level.max(Scale::level_of(length));
    }

    /// The length of a tile when all is in it, in seconds.
    pub fn length(&self, span: Micros) -> i64 {
        self.scale.levels[self.level.max(self.scale.level(span))].0
    }

    /// A row of a key in the tile of `at`, for something to be added to it; those of late events apart.
    #[inline]
    pub fn row(&mut self, at: Micros, late: bool, key: u64, keys: &Keys) -> &mut V {
        let length = self.scale.levels[0].0;
        let tile = at.div_euclid(length * SECOND) * length;
        if late {
            return self.late.entry(tile).or_default().another(key, keys);
        }
        let place = self.place(tile);
        let index = V::dense(key);
        if index >= self.last.len() {
            self.last.resize(index + 1, (0, 0));
        }
        let last = &mut self.last[index];
        let rows = &mut self.open[place].1;
        if last.0 == rows.stamp {
            return &mut rows.rows[last.1 as usize].1;
        }
        if last.0 < rows.stamp {
            // No tile since has a row of it, nor has this.
            *last = (rows.stamp, rows.rows.len() as u32);
            return rows.push(key);
        }
        if rows.rows.len() >= rows.limit {
            // The places change, so no key must be taken to be where it was.
            self.stamps += 1;
            rows.stamp = self.stamps;
        }
        rows.another(key, keys)
    }

    /// Where an open tile stands; it is opened if need be.
    #[inline]
    fn place(&mut self, tile: i64) -> usize {
        // Events come in the order of time: it is the last but for a few.
        match self.open.last() {
            Some(last) if last.0 == tile => self.open.len() - 1,
            _ => self.open.binary_search_by_key(&tile, |open| open.0).unwrap_or_else(|place| {
                self.stamps += 1;
                let usual = self.open.last().map_or(0, |(_, rows)| rows.rows.len());
                let rows = Rows { rows: Vec::with_capacity(usual), stamp: self.stamps, ..Rows::default() };
                self.open.insert(place, (tile, rows));
                place
            }),
        }
    }

    /// A row of a key in the tile of `at` whose length is so many seconds, as a roll-up had it that is over.
    pub fn stored(&mut self, length: i64, at: Micros, key: u64, keys: &Keys) -> &mut V {
        let level = Scale::level_of(length);
        let length = self.scale.levels[level].0;
        self.closed[level].entry(at.div_euclid(length * SECOND) * length).or_default().another(key, keys)
    }

    /// The first row of a key in the stored tile of `at` that is `wanted`, whatever the tile's length; else that of all
    /// others.
    pub fn find(&mut self, at: Micros, key: u64, keys: &Keys, wanted: impl Fn(&V) -> bool) -> Option<&mut V> {
        for level in 0..self.closed.len() {
            let length = self.scale.levels[level].0;
            if let Some(rows) = self.closed[level].get_mut(&(at.div_euclid(length * SECOND) * length)) {
                rows.settle(keys);
            }
        }
        let of = |rows: &Rows<V>, key: u64| rows.rows.iter().position(|(own, row)| *own == key && wanted(row));
        let place = [key, OTHER_KEY].into_iter().find_map(|key| {
            (0..self.closed.len()).find_map(|level| {
                let length = self.scale.levels[level].0;
                let tile = at.div_euclid(length * SECOND) * length;
                Some((level, tile, of(self.closed[level].get(&tile)?, key)?))
            })
        });
        let (level, tile, place) = place?;
        self.closed[level].get_mut(&tile).map(|rows| &mut rows.rows[place].1)
    }

    /// Folds stored tiles of several roll-ups, as those of one are folded.
    pub fn refold(&mut self, span: Micros, keys: &Keys) {
        for (level, tiles) in self.closed.iter_mut().enumerate() {
            let limit = if level == 0 && span <= HOUR { self.scale.first_hour } else { self.scale.limits[level] };
            tiles.values_mut().for_each(|rows| rows.fold(limit, keys));
        }
    }

    /// Closes the tiles whose time is over, and makes coarser ones as the span demands.
    pub fn close(&mut self, progress: Progress, keys: &Keys) {
        let Progress { released, span } = progress;
        let released = released.saturating_sub(self.scale.delay);
        let length = self.scale.levels[0].0;
        let limit = if span <= HOUR { self.scale.first_hour } else { self.scale.limits[0] };
        if span > HOUR && !self.refolded {
            self.refolded = true;
            self.closed[0].values_mut().for_each(|rows| rows.fold(limit, keys));
        }
        let done = self.open.partition_point(|(tile, _)| (tile + length) * SECOND <= released);
        for (tile, mut rows) in self.open.drain(..done) {
            rows.fold(limit, keys);
            self.closed[0].insert(tile, rows);
        }
        self.level = self.level.max(self.scale.level(span));
        for level in 0..self.level {
            self.promote(level, released, keys);
        }
    }

    /// Merges the tiles of a level into those of the next whose time is over.
    fn promote(&mut self, level: usize, released: Micros, keys: &Keys) {
        let length = self.scale.levels[level + 1].0;
        let parent = |tile: i64| tile.div_euclid(length) * length;
        let done: Vec<i64> = self.closed[level]
            .keys()
            .copied()
            .filter(|&tile| (parent(tile) + length).saturating_mul(SECOND) <= released)
            .collect();
        let mut parents: BTreeMap<i64, Rows<V>> = BTreeMap::new();
        for tile in done {
            if let Some(rows) = self.closed[level].remove(&tile) {
                parents.entry(parent(tile)).or_default().append(rows);
            }
        }
        let limit = self.scale.limits[level + 1];
        for (tile, rows) in parents {
            // A roll-up in longer tiles may have had rows of it.
            let all = self.closed[level + 1].entry(tile).or_default();
            all.append(rows);
            all.fold(limit, keys);
        }
    }

    /// All rows, in tiles of one length: (start in seconds, rows).
    pub fn finish(mut self, span: Micros, keys: &Keys) -> Vec<(i64, Rows<V>)> {
        self.close(Progress { released: Micros::MAX, span }, keys);
        let level = self.level;
        let length = self.scale.levels[level].0;
        let mut tiles = std::mem::take(&mut self.closed[level]);
        let mut again = BTreeSet::new();
        for (tile, rows) in self.late {
            let tile = tile.div_euclid(length) * length;
            tiles.entry(tile).or_default().append(rows);
            again.insert(tile);
        }
        // What came late makes a tile no larger than others: else a roll-up that is read again is another one.
        let limit = if level == 0 && span <= HOUR { self.scale.first_hour } else { self.scale.limits[level] };
        for (tile, rows) in &mut tiles {
            if again.contains(tile) { rows.fold(limit, keys) } else { rows.settle(keys) }
        }
        tiles.into_iter().collect()
    }
}

/// The rows of all tiles, by time and by the text of their keys: keys are few, so they are ranked once.
pub(super) fn sorted<V: Row>(tiles: Vec<(i64, Rows<V>)>, keys: &Keys) -> Vec<(i64, u64, V)> {
    let mut met: Vec<u64> = Vec::new();
    let mut is_met: Vec<bool> = Vec::new();
    for (key, _) in tiles.iter().flat_map(|(_, rows)| &rows.rows) {
        let place = V::dense(*key);
        if place >= is_met.len() {
            is_met.resize(place + 1, false);
        }
        if !std::mem::replace(&mut is_met[place], true) {
            met.push(*key);
        }
    }
    met.sort_by(|a, b| V::order(keys, *a, *b));
    let mut rank = vec![0u32; is_met.len()];
    met.iter().zip(0..).for_each(|(key, place)| rank[V::dense(*key)] = place);
    // Tiles come in the order of time; their rows are few. Each is freed when its rows are among the others: a long log
    // has them nearly once in memory.
    let mut all = Vec::with_capacity(tiles.iter().map(|(_, rows)| rows.rows.len()).sum());
    for (tile, mut rows) in tiles {
        rows.rows.sort_unstable_by_key(|(key, _)| rank[V::dense(*key)]);
        all.extend(rows.rows.into_iter().map(|(key, row)| (tile, key, row)));
    }
    all
}
