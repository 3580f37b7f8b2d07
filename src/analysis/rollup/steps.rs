//! What a roll-up that is held in memory keeps beside its tables, so that a window of it is the roll-up of the log's
//! window: the ends of tiles, arrivals by second of every kind of request, and the long-running requests whose start
//! and end may lie on two sides of the window's edge.

use crate::model::time::{Micros, SECOND, together};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The finest tile, in seconds.
const TILE: i64 = 10;
/// Arrivals that are held before those of one second are put together, and beyond which they are given up: 16 bytes
/// each.
const MAX_ARRIVALS: usize = 1 << 20;
const MAX_STEPS: usize = 8 << 20;

/// Requests of one kind that arrived in one second, by the tile in which they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    /// Start of the tile in which they count, in tiles since 1970.
    tile: u32,
    /// Second of arrival.
    second: u32,
    key: u32,
    count: u32,
}

/// Requests of one kind by second of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivalCount {
    /// Start of the tile in which they count, in seconds.
    pub tile: i64,
    /// In seconds.
    pub second: i64,
    /// Number of their traffic key.
    pub key: u32,
    pub count: u64,
}

/// A long-running request whose start and end were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Long {
    /// The start's `at`.
    pub start: Micros,
    /// The end's.
    pub end: Micros,
    /// When it arrived.
    pub received: Micros,
    /// The traffic key of its start.
    pub key: u32,
    /// Whether the start failed, which is all there is of it where its end is not seen.
    pub failed: bool,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Steps {
    /// By tile: first and last `at`, and late events.
    edges: BTreeMap<i64, (Micros, Micros, u64)>,
    arrivals: Vec<Arrival>,
    /// How many there were when they were last put together.
    settled: usize,
    is_given_up: bool,
    long: Vec<Long>,
}

impl Steps {
    /// An event.
    #[inline]
    pub fn event(&mut self, at: Micros, late: bool) {
        let edge = self.edges.entry(at.div_euclid(TILE * SECOND)).or_insert((at, at, 0));
        *edge = (edge.0.min(at), edge.1.max(at), edge.2 + u64::from(late));
    }

    /// A request that counts at this time arrived then.
    #[inline]
    pub fn arrived(&mut self, at: Micros, received: Micros, key: u32) {
        if self.is_given_up {
            return;
        }
        // What is before 1970 or beyond 2106 is no log's time.
        let of = |at: Micros, length: i64| u32::try_from(at.div_euclid(length * SECOND)).unwrap_or_default();
        let (tile, second) = (of(at, TILE), of(received, 1));
        match self.arrivals.last_mut() {
            Some(last) if (last.tile, last.second, last.key) == (tile, second, key) => last.count += 1,
            _ => self.arrivals.push(Arrival { tile, second, key, count: 1 }),
        }
        if self.arrivals.len() > self.settled * 2 + MAX_ARRIVALS {
            self.settle();
        }
    }

    /// A long-running request ended that was seen to start.
    pub fn ended(&mut self, long: Long) {
        self.long.push(long);
    }

    fn settle(&mut self) {
        self.arrivals.sort_unstable();
        self.arrivals.dedup_by(|later, earlier| {
            let is_one = (later.tile, later.second, later.key) == (earlier.tile, earlier.second, earlier.key);
            if is_one {
                earlier.count += later.count;
            }
            is_one
        });
        self.settled = self.arrivals.len();
        if self.settled > MAX_STEPS {
            (self.arrivals, self.is_given_up) = (Vec::new(), true);
        }
    }

    /// All of the log is in it.
    pub fn finish(&mut self) {
        self.settle();
        self.arrivals.shrink_to_fit();
        self.long.sort_by_key(|long| (long.start, long.end));
    }

    /// First and last event of whole tiles, and how many were late.
    pub fn span(&self, (from, to): (Micros, Micros)) -> (Option<(Micros, Micros)>, u64) {
        let tile = |at: Micros| at.div_euclid(TILE * SECOND);
        if from >= to {
            return (None, 0);
        }
        let edges = self.edges.range(tile(from)..=tile(to - 1)).map(|(_, edge)| edge);
        edges.fold((None, 0), |(span, late), edge| (together(span, Some((edge.0, edge.1))), late + edge.2))
    }

    /// Requests that count in whole tiles. `None` where there were too many to be held.
    pub fn arrivals(&self, (from, to): (Micros, Micros)) -> Option<impl Iterator<Item = ArrivalCount>> {
        let tile = |at: Micros| at.div_euclid(TILE * SECOND);
        let place = |at: i64| self.arrivals.partition_point(|arrival| i64::from(arrival.tile) < at);
        let rows = place(tile(from))..place(tile(to.saturating_sub(1)).saturating_add(1));
        let row = |arrival: &Arrival| ArrivalCount {
            tile: i64::from(arrival.tile) * TILE,
            second: i64::from(arrival.second),
            key: arrival.key,
            count: u64::from(arrival.count),
        };
        (!self.is_given_up).then(|| self.arrivals[rows.start..rows.end.max(rows.start)].iter().map(row))
    }

    /// Long-running requests that began within bounds and ended behind them.
    pub fn across(&self, (from, to): (Micros, Micros)) -> impl Iterator<Item = &Long> {
        let place = |at: Micros| self.long.partition_point(|long| long.start < at);
        let (first, last) = (place(from), place(to));
        self.long[first..last.max(first)].iter().filter(move |long| long.end >= to)
    }
}

/// A window of a roll-up: what of it lies beside the tables.
#[derive(Debug, Clone)]
pub struct StepWindow {
    pub(super) steps: Arc<Steps>,
    pub(super) bounds: (Micros, Micros),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_its_own_ends_arrivals_and_open_requests() {
        let s = SECOND;
        let mut steps = Steps::default();
        for (at, late) in [(101, false), (108, true), (112, false), (130, false)] {
            steps.event(at * s, late);
        }
        // The second ended in the next tile; the third is another kind.
        [(105, 104, 1), (111, 104, 1), (105, 104, 2), (106, 104, 1)]
            .iter()
            .for_each(|(at, received, key)| steps.arrived(at * s, received * s, *key));
        steps.ended(Long { start: 103 * s, end: 125 * s, received: 102 * s, key: 3, failed: false });
        steps.ended(Long { start: 99 * s, end: 104 * s, received: 99 * s, key: 3, failed: false });
        steps.finish();
        let window = (100 * s, 110 * s);
        assert_eq!(steps.span(window), (Some((101 * s, 108 * s)), 1));
        assert_eq!(steps.span((Micros::MIN, Micros::MAX)), (Some((101 * s, 130 * s)), 1));
        assert_eq!(steps.span((140 * s, 150 * s)), (None, 0));
        let arrivals: Vec<_> = steps.arrivals(window).unwrap().collect();
        let one = |key, count| ArrivalCount { tile: 100, second: 104, key, count };
        assert_eq!(arrivals, [one(1, 2), one(2, 1)]);
        let all: u64 = steps.arrivals((Micros::MIN, Micros::MAX)).unwrap().map(|row| row.count).sum();
        assert_eq!(all, 4);
        assert_eq!(steps.across(window).map(|long| long.end).collect::<Vec<_>>(), [125 * s]);
        assert_eq!(steps.across((90 * s, 100 * s)).count(), 1);
        assert_eq!(steps.across((100 * s, 130 * s)).count(), 0, "its end is within");
    }
}
