//! The roll-up's tables in their final form (docs/rollup.md): text, sorted by key, the same bytes
//! whichever way they were made.

use crate::model::time::Micros;
use std::cmp::Ordering;

/// A table: rows of text under named columns, the first of which are its key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: Vec<&'static str>,
    /// How many of them are the key.
    pub key: usize,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table; `columns` are separated by blanks.
    pub fn new(name: &'static str, key: usize, columns: &'static str) -> Self {
        Self { name, columns: columns.split(' ').collect(), key, rows: Vec::new() }
    }

    /// Sorts by key: the leading time as a number, everything else as text.
    pub fn sort(&mut self) {
        let timed = matches!(self.columns.first(), Some(&"tile" | &"second" | &"at"));
        let time = |row: &Vec<String>| if timed { row[0].parse::<i64>().unwrap_or_default() } else { 0 };
        self.rows.sort_by(|a, b| match time(a).cmp(&time(b)) {
            Ordering::Equal => a.cmp(b),
            unequal => unequal,
        });
    }
}

/// All tables of a roll-up, and what stands beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rollup {
    /// traffic, pulse, sequences, sources, objects, notable, clients.
    pub tables: Vec<Table>,
    /// First and last `at`, in µs.
    pub span: Option<(Micros, Micros)>,
    /// Events that were late.
    pub late: u64,
    /// Long-running requests still open.
    pub open: u64,
    /// Requests whose audit id another one has.
    pub repeated_ids: u64,
    /// Requests on objects that were dropped for want of room.
    pub objects_dropped: u64,
    /// Notable events that were dropped for want of room.
    pub notable_dropped: u64,
}

impl Rollup {
    /// The table of a name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}
