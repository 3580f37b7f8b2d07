//! Requests by minute.

use crate::model::time::{Micros, SECOND};
use std::collections::BTreeMap;

/// How many requests there were in each minute, counted from the first; minutes without any are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Minutes {
    /// When the first begins, in seconds.
    first: i64,
    counts: BTreeMap<i64, f64>,
    /// When the last tile with a request ends, in seconds.
    end: i64,
}

impl Minutes {
    /// From tiles of `length` seconds. A tile of more than a minute counts evenly for each of its minutes.
    pub(super) fn of(length: i64, tiles: impl Iterator<Item = (i64, u64)>) -> Self {
        let tiles: Vec<(i64, u64)> = tiles.filter(|(_, count)| *count > 0).collect();
        let first = tiles.iter().map(|(tile, _)| *tile).min().unwrap_or(0);
        let end = tiles.iter().map(|(tile, _)| tile + length).max().unwrap_or(0);
        let each = (length / 60).max(1);
        let minutes = (end - first) as usize / 60 + each as usize + 1;
        let parts = tiles
            .iter()
            .flat_map(|(tile, count)| (0..each).map(move |n| ((tile - first) / 60 + n, *count as f64 / each as f64)));
        let counts = if minutes / 16 <= tiles.len() {
            // Mostly tiles are many more than minutes.
            let mut counts = vec![0.0; minutes];
            parts.for_each(|(minute, count)| counts[minute as usize] += count);
            (0..).zip(counts).filter(|(_, count)| *count > 0.0).collect()
        } else {
            let mut counts: BTreeMap<i64, f64> = BTreeMap::new();
            parts.for_each(|(minute, count)| *counts.entry(minute).or_default() += count);
            counts
        };
        Self { first, counts, end }
    }

    /// From one moment to another, in µs, of what is not counted by tile.
    pub(super) fn between(length: i64, span: (Micros, Micros)) -> Self {
        Self::of(length, [span.0, span.1].map(|at| (at.div_euclid(SECOND), 1)).into_iter())
    }

    /// All of them.
    pub(super) fn total(&self) -> f64 {
        self.counts.values().sum()
    }

    /// The most in one minute.
    pub(super) fn busiest(&self) -> f64 {
        self.counts.values().copied().fold(0.0, f64::max)
    }

    /// The most in `length` minutes that follow one another.
    pub(super) fn most_in(&self, length: i64) -> f64 {
        let ends = self.counts.keys();
        ends.map(|end| self.counts.range(end - length + 1..=*end).map(|(_, count)| count).sum()).fold(0.0, f64::max)
    }

    /// How many minutes had so many or more.
    pub(super) fn with(&self, least: f64) -> usize {
        self.counts.values().filter(|count| **count >= least).count()
    }

    /// When the first request came, and the last, in seconds, as far as tiles show.
    pub(super) fn span(&self) -> (i64, i64) {
        (self.first, self.end)
    }

    /// Of the busiest minute with `before` minutes or more in front of it: the median of those, its own count, and when
    /// it began, in seconds.
    pub(super) fn rise(&self, before: usize) -> Option<(f64, f64, i64)> {
        let later = self.counts.iter().filter(|(minute, _)| **minute >= before as i64);
        let (minute, most) = later.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))?;
        let earlier: Vec<f64> = self.counts.range(..minute).map(|(_, count)| *count).collect();
        Some((middle(earlier, usize::try_from(*minute).ok()?), *most, self.first + minute * 60))
    }

    /// The median over so many minutes, most of which may have had no request.
    pub(super) fn median(&self, minutes: usize) -> f64 {
        middle(self.counts.values().copied().collect(), minutes)
    }
}

/// The median of `filled` minutes among so many, of which the others had no request.
fn middle(mut filled: Vec<f64>, minutes: usize) -> f64 {
    filled.sort_by(f64::total_cmp);
    let empty = minutes.saturating_sub(filled.len());
    let place = (filled.len() + empty) / 2;
    place.checked_sub(empty).and_then(|place| filled.get(place)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_begin_with_the_first_request() {
        let minutes = Minutes::of(10, [(100, 3), (150, 2), (160, 4), (400, 1)].into_iter());
        assert_eq!((minutes.total(), minutes.busiest(), minutes.with(4.0), minutes.span()), (10.0, 5.0, 2, (100, 410)));
        assert_eq!((minutes.most_in(1), minutes.most_in(2), minutes.most_in(10)), (5.0, 9.0, 10.0));
        assert_eq!((minutes.median(3), minutes.median(6), minutes.median(7)), (4.0, 1.0, 0.0));
    }

    #[test]
    fn long_tiles_are_spread() {
        let minutes = Minutes::of(600, [(0, 50)].into_iter());
        assert_eq!((minutes.busiest(), minutes.with(5.0), minutes.total()), (5.0, 10, 50.0));
        assert_eq!(Minutes::of(10, std::iter::empty()), Minutes::default());
        // However far apart.
        let far = Minutes::of(3600, [(0, 60), (1 << 50, 120)].into_iter());
        assert_eq!((far.total(), far.busiest(), far.with(1.0)), (180.0, 2.0, 120));
    }
}
