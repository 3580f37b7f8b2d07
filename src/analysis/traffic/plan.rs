//! What is counted by what, and the rows that come of it, shared by the threads.

use super::Query;
use crate::model::symbols::{Symbol, Symbols};
use crate::model::time::Micros;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows kept; requests of further ones are counted as `(other)`.
pub const MAX_ROWS: usize = 300_000;

/// The value of every dimension of the row that takes what is beyond [`MAX_ROWS`].
pub const OTHER: &str = "(other)";

/// The row of all requests together; it has a peak only.
pub(super) const ALL: u32 = 0;

/// The row for what is beyond [`MAX_ROWS`]; of intervals each has one of its own, behind all others.
const BEYOND: u32 = 1;

/// Intervals of which what is beyond is distinguished.
const MAX_BEYOND: usize = 10_000;

/// Stands in a key where a row is of no interval.
const NO_INTERVAL: u32 = u32::MAX;

/// The last interval that a row may be of.
pub(super) const LAST_INTERVAL: u32 = NO_INTERVAL - 1;

/// The query and what its threads share.
#[derive(Debug)]
pub struct Plan {
    pub(super) query: Query,
    rows: Mutex<Rows>,
}

impl Plan {
    /// A plan for `query`.
    pub fn new(query: Query) -> Self {
        let dims = query.by.len();
        let width = dims + usize::from(query.interval.is_some());
        // No event's row is that of all rows together.
        let keys = vec![NO_INTERVAL; width];
        let (symbols, index, beyond, hasher) = Default::default();
        let mut rows = Rows { dims, width, symbols, keys, index, count: 1, beyond, hasher };
        let beyond = rows.number(None, query.by.iter().map(|_| OTHER));
        debug_assert_eq!(beyond, BEYOND);
        Self { query, rows: Mutex::new(rows) }
    }

    /// The rows that were met so far.
    pub(super) fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rows by their dimensions: looked up once per thread and row.
#[derive(Debug)]
pub(super) struct Rows {
    dims: usize,
    /// Numbers of a key: one of each dimension's text, and that of the interval where there are some.
    width: usize,
    symbols: Symbols,
    /// The keys, one after the other.
    keys: Vec<u32>,
    index: HashTable<u32>,
    count: usize,
    /// By interval: the row of what is beyond.
    beyond: HashMap<u32, u32>,
    hasher: FixedState,
}

impl Rows {
    /// The number of a row; of that for what is beyond where there is no room for another.
    pub(super) fn number<'t>(&mut self, interval: Option<u32>, texts: impl Iterator<Item = &'t str>) -> u32 {
        let from = self.keys.len();
        let is_full = self.count >= MAX_ROWS;
        for text in texts {
            // What no row has is no row's; and texts are not kept for rows that are not.
            match if is_full { self.symbols.find(text) } else { Some(self.symbols.intern(text)) } {
                Some(symbol) => self.keys.push(symbol.0),
                None => {
                    self.keys.truncate(from);
                    return self.beyond(interval);
                }
            }
        }
        if self.width > self.dims {
            self.keys.push(interval.unwrap_or(NO_INTERVAL));
        }
        let (keys, width, hasher) = (&self.keys, self.width, &self.hasher);
        let key = |row: u32| &keys[row as usize * width..][..width];
        let new = &keys[from..];
        let hash = hasher.hash_one(new);
        let known = self.index.find(hash, |&row| key(row) == new).copied();
        if known.is_some() || is_full {
            self.keys.truncate(from);
            return known.unwrap_or_else(|| self.beyond(interval));
        }
        let row = self.count as u32;
        self.index.insert_unique(hash, row, |&row| hasher.hash_one(key(row)));
        self.count += 1;
        row
    }

    /// The row for what is beyond, in an interval.
    fn beyond(&mut self, interval: Option<u32>) -> u32 {
        let Some(interval) = interval else { return BEYOND };
        if let Some(&row) = self.beyond.get(&interval) {
            return row;
        }
        if self.beyond.len() >= MAX_BEYOND {
            return BEYOND;
        }
        let row = self.count as u32;
        let other = self.symbols.intern(OTHER);
        self.keys.extend(std::iter::repeat_n(other.0, self.dims).chain([interval]));
        self.beyond.insert(interval, row);
        self.count += 1;
        row
    }

    /// Whether it is a row for what is beyond.
    pub(super) fn is_beyond(&self, row: u32) -> bool {
        row == BEYOND || row as usize >= MAX_ROWS
    }

    fn key(&self, row: u32) -> (&[u32], Option<u32>) {
        let (texts, interval) = self.keys[row as usize * self.width..][..self.width].split_at(self.dims);
        (texts, interval.first().copied().filter(|interval| *interval != NO_INTERVAL))
    }

    /// All rows of requests, in the order of intervals and texts.
    pub(super) fn in_order(&self) -> Vec<u32> {
        // Texts are few and stand in many rows: only here are they compared as texts.
        let mut texts: Vec<u32> = (0..self.symbols.len() as u32).collect();
        texts.sort_unstable_by_key(|&symbol| self.symbols.get(Symbol(symbol)));
        let mut ranks = vec![0; texts.len()];
        texts.iter().zip(0u32..).for_each(|(&symbol, rank)| ranks[symbol as usize] = rank);
        let ranked = |row: u32| {
            let (texts, interval) = self.key(row);
            (interval, texts.iter().map(|&symbol| ranks[symbol as usize]))
        };
        let mut rows: Vec<u32> = (BEYOND..self.count as u32).collect();
        rows.sort_unstable_by(|&a, &b| {
            let ((a, a_texts), (b, b_texts)) = (ranked(a), ranked(b));
            a.cmp(&b).then_with(|| a_texts.cmp(b_texts))
        });
        rows
    }

    /// The texts of a row's dimensions, and which interval it is of.
    pub(super) fn texts(&self, row: u32) -> (Vec<String>, Option<Micros>) {
        let (texts, interval) = self.key(row);
        (texts.iter().map(|&symbol| self.symbols.get(Symbol(symbol)).to_owned()).collect(), interval.map(Micros::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::dims::Dim;

    fn plan(interval: Option<Micros>) -> Plan {
        Plan::new(Query { by: vec![Dim::User], interval, ..Query::default() })
    }

    #[test]
    fn rows_come_in_the_order_of_intervals_and_texts() {
        let plan = plan(Some(1));
        let mut rows = plan.rows();
        for (interval, user) in [(2, "b"), (1, "c"), (2, "a"), (1, "c")] {
            rows.number(Some(interval), [user].into_iter());
        }
        let all: Vec<_> = rows.in_order().into_iter().map(|row| rows.texts(row)).collect();
        let row = |user: &str, interval| (vec![user.to_owned()], interval);
        assert_eq!(all, [row(OTHER, None), row("c", Some(1)), row("a", Some(2)), row("b", Some(2))]);
    }

    #[test]
    fn what_is_beyond_the_limit_keeps_its_interval_and_no_text() {
        for interval in [None, Some(1)] {
            let plan = plan(interval);
            let mut rows = plan.rows();
            let place = interval.map(|_| 7);
            let numbers: Vec<u32> =
                (0..MAX_ROWS + 10).map(|user| rows.number(place, [user.to_string().as_str()].into_iter())).collect();
            assert_eq!(rows.number(place, ["5"].into_iter()), numbers[5], "what has a row keeps it");
            let beyond = numbers[MAX_ROWS];
            assert!(rows.is_beyond(beyond) && !rows.is_beyond(numbers[MAX_ROWS - 3]));
            assert!(numbers[MAX_ROWS - 2..].iter().all(|number| *number == beyond));
            assert_eq!(rows.texts(beyond), (vec![OTHER.to_owned()], place.map(Micros::from)));
            assert_eq!(rows.symbols.find("300005"), None, "texts that no row has are not kept");
        }
    }
}
