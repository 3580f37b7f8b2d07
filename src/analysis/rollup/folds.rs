//! Where roll-ups folded rows: parts of one log are exactly the whole only where none of them did so in a tile that
//! both have rows in.

use super::keys::OTHER;
use super::rows::{SourceSet, Sources};
use super::tables::Rollup;
use super::tiles::OTHER_KEY;
use crate::model::rollup::{Rows, TableSpec};
use std::collections::{BTreeMap, BTreeSet};

/// Tables that have tiles, and are folded.
const TILED: [&str; 4] = ["traffic", "pulse", "sequences", "sources"];

/// In which tiles of each table a roll-up has rows, and in which some were folded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Folds {
    tables: BTreeMap<&'static str, Tiles>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Tiles {
    all: BTreeSet<i64>,
    folded: BTreeSet<i64>,
    last: Option<i64>,
}

impl Tiles {
    fn add(&mut self, tile: i64, is_folded: bool) {
        // Rows come by tile.
        if self.last.replace(tile) != Some(tile) {
            self.all.insert(tile);
        }
        if is_folded {
            self.folded.insert(tile);
        }
    }
}

impl Folds {
    /// Those of a roll-up.
    pub fn of(rollup: &Rollup) -> Self {
        let mut all = Self::default();
        let [traffic, pulse, facts, sources] = TILED;
        rollup.traffic.iter().for_each(|(tile, key, _)| all.add(traffic, *tile, *key == OTHER_KEY));
        rollup.pulse.iter().for_each(|(tile, key, _)| all.add(pulse, *tile, *key == OTHER_KEY));
        rollup.facts.iter().for_each(|(tile, key, _)| all.add(facts, *tile, *key == OTHER_KEY));
        let is_sketch = |row: &Sources| matches!(row.set, SourceSet::Sketch { .. });
        rollup.sources.iter().for_each(|(tile, key, row)| all.add(sources, *tile, *key == OTHER_KEY || is_sketch(row)));
        all
    }

    fn add(&mut self, table: &'static str, tile: i64, is_folded: bool) {
        self.tables.entry(table).or_default().add(tile, is_folded);
    }

    /// Takes rows of a stored one.
    pub fn take(&mut self, spec: &TableSpec, rows: &Rows<'_>) {
        let Some(table) = TILED.into_iter().find(|table| *table == spec.name) else { return };
        let exact = spec.columns.iter().position(|column| *column == "exact");
        let tiles = self.tables.entry(table).or_default();
        for row in 0..rows.count {
            let text = |column: usize| rows.columns[column].text(row);
            // A row of all that was folded has this in every column of text.
            let is_other = spec.columns[1..spec.key].iter().enumerate().all(|(at, _)| text(at + 1) == OTHER);
            let is_sketch = exact.is_some_and(|exact| text(exact) == "false");
            tiles.add(rows.columns[0].number(row), is_other || is_sketch);
        }
    }

    /// Whether anything was folded.
    pub fn any(&self) -> bool {
        self.tables.values().any(|tiles| !tiles.folded.is_empty())
    }

    /// Whether no tile of both was folded in one of them.
    pub fn join_exactly(&self, other: &Self) -> bool {
        let apart =
            |one: &Tiles, other: &Tiles| one.folded.is_disjoint(&other.all) && other.folded.is_disjoint(&one.all);
        self.tables.iter().all(|(name, own)| other.tables.get(name).is_none_or(|other| apart(own, other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rollup::{Cells, TABLES};

    fn stored(table: &str, rows: &[(i64, bool)]) -> Folds {
        let spec = TABLES.iter().find(|spec| spec.name == table).unwrap();
        let column = |at: usize| match at {
            0 => Cells::Number(rows.iter().map(|(tile, _)| *tile).collect()),
            _ => Cells::Text(rows.iter().map(|(_, is_other)| if *is_other { OTHER } else { "a" }).collect()),
        };
        let mut folds = Folds::default();
        folds.take(spec, &Rows { count: rows.len(), columns: (0..spec.columns.len()).map(column).collect() });
        folds
    }

    #[test]
    fn a_tile_that_one_folded_and_the_other_has_is_not_exact() {
        for table in TILED {
            let whole = stored(table, &[(10, false), (20, false)]);
            let folded = stored(table, &[(20, false), (20, true)]);
            assert!(!whole.any() && folded.any(), "{table}");
            assert!(!whole.join_exactly(&folded) && !folded.join_exactly(&whole), "{table}");
            assert!(folded.join_exactly(&stored(table, &[(10, false), (30, true)])), "{table}");
        }
        assert!(stored("traffic", &[(10, true)]).join_exactly(&stored("pulse", &[(10, true)])));
        assert!(!stored("objects", &[(10, true)]).any());
    }
}
