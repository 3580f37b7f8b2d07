//! What a stored roll-up looks like (docs/rollup.md): the names and columns of its tables, and its manifest.

use crate::model::bundle::Bundle;
use crate::model::event::{Level, Stage};
use crate::model::input::{Coverage, InputReport, Loss};
use crate::model::time::Micros;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

pub use crate::model::rollup_tables::{Kind, LATER, SEAMS, TABLES, TableSpec, kind};

/// The file that makes a folder a stored roll-up.
pub const MANIFEST: &str = "manifest.json";

/// The form of a stored roll-up. What has another form was written by a later plimsoll.
pub const SCHEMA: &str = "plimsoll.rollup/v1";

/// Writes to one object in a minute from which on `writes` has a row: one each 5 s.
pub const MIN_MINUTE_WRITES: u32 = 12;

/// A column of some rows.
#[derive(Debug)]
pub enum Cells<'t> {
    Number(Vec<i64>),
    /// Text; truth values as `true` and `false`.
    Text(Vec<&'t str>),
}

impl<'t> Cells<'t> {
    /// A number; 0 where the column holds text.
    pub fn number(&self, row: usize) -> i64 {
        if let Self::Number(all) = self { all.get(row).copied().unwrap_or_default() } else { 0 }
    }

    /// A count.
    pub fn count(&self, row: usize) -> u64 {
        self.number(row).max(0) as u64
    }

    /// A text; empty where the column holds numbers.
    pub fn text(&self, row: usize) -> &'t str {
        if let Self::Text(all) = self { all.get(row).copied().unwrap_or_default() } else { "" }
    }
}

/// A value of one row of a table that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field<'k> {
    Text(Cow<'k, str>),
    Number(i64),
}

impl Field<'_> {
    /// The number; 0 where a text is none.
    pub fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or_default(),
        }
    }

    /// The same, borrowing nothing.
    pub fn owned(self) -> Field<'static> {
        match self {
            Self::Number(number) => Field::Number(number),
            Self::Text(text) => Field::Text(Cow::Owned(text.into_owned())),
        }
    }

    /// The text, of a number its digits.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }
}

impl<'k> From<&'k str> for Field<'k> {
    fn from(text: &'k str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Field<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for Field<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Field<'_> {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or_default())
    }
}

/// Some rows of a stored table: its columns in the order of its [`TableSpec`].
#[derive(Debug)]
pub struct Rows<'t> {
    /// How many.
    pub count: usize,
    pub columns: Vec<Cells<'t>>,
}

/// Lengths that tiles may have, in seconds.
pub const TILES: [i64; 4] = [10, 60, 600, 3600];

/// The tables with most rows: those that a store holds in longer tiles as well.
pub fn coarse_tables() -> impl Iterator<Item = &'static TableSpec> {
    TABLES.iter().filter(|spec| spec.has_copies())
}

impl TableSpec {
    /// Whether it is one of the [tables with most rows](coarse_tables).
    pub fn has_copies(&self) -> bool {
        ["traffic", "pulse", "sequences", "sources"].contains(&self.name)
    }

    /// The name of its file, or of that with its copy in tiles of so many seconds.
    pub fn file(&self, copy: Option<i64>) -> String {
        copy.map_or_else(|| format!("{}.parquet", self.name), |tile| format!("{}-{tile}.parquet", self.name))
    }
}

/// What a stored roll-up says of itself: [`MANIFEST`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// The plimsoll that wrote it; empty if something else did.
    pub plimsoll: String,
    /// The length of a tile in seconds.
    pub tile_seconds: i64,
    /// First `at`, in µs since 1970.
    pub first: Option<Micros>,
    pub last: Option<Micros>,
    pub late_events: u64,
    /// Long-running requests that were open at the end.
    pub open_requests: u64,
    /// Requests whose audit id another one has, and whether that is an estimate.
    pub repeated_audit_ids: (u64, bool),
    /// Requests on objects that were dropped for want of room.
    pub objects_dropped: u64,
    /// Dangerous operations that were dropped for want of room.
    pub notable_dropped: u64,
    /// What the bundle said of itself that the logs lay in.
    pub bundle: Option<Bundle>,
    /// What the logs showed.
    pub streams: Vec<StoredStream>,
    /// What was read.
    pub sources: Vec<StoredSource>,
    pub lost: Vec<Loss>,
    /// Dangerous operations in full that were dropped for want of room.
    pub operations_dropped: u64,
    /// Tables that it does not have: a part of it was written by an older plimsoll.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// In a store: when the latest of it was recorded, in µs since 1970.
    pub recorded: Option<Micros>,
    /// In a store: which lines of which logs are in it.
    pub files: Vec<StoredFile>,
    /// In a store: the roll-ups that it takes the place of.
    pub replaces: Vec<String>,
    /// The tables, by name.
    pub tables: BTreeMap<String, StoredTable>,
    /// In a store: [some tables](coarse_tables) once more in longer tiles, by their length in seconds, for questions
    /// about a long time.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub coarse: BTreeMap<i64, BTreeMap<String, StoredTable>>,
}

impl Manifest {
    /// Where it begins in the first of its logs, by which parts of one log are put in order.
    pub fn start(&self) -> Option<(&str, u64)> {
        self.files.iter().map(|file| (file.log.as_str(), file.from)).min()
    }

    /// Whether all its tables are another's, by their checksums. Those of nothing are none.
    pub fn has_same_rows(&self, other: &Self) -> bool {
        let is_summed = |own: &StoredTable| !own.crc32c.is_empty();
        self.first.is_some()
            && self.first == other.first
            && self.tables == other.tables
            && self.tables.values().all(is_summed)
    }
}

/// A table of a stored roll-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredTable {
    pub rows: u64,
    /// Bytes of its file; 0 where nobody counted them.
    pub bytes: u64,
    /// CRC32C of its file, in hexadecimal; empty where nobody computed it.
    pub crc32c: String,
    /// Of each row group: its rows, and the smallest and the largest number in the table's first column; empty where
    /// that is not a number, or nobody looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<(u64, i64, i64)>,
}

/// A file that a roll-up was made from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredSource {
    /// Its name.
    pub path: String,
    /// Bytes of it, as it lay on disk.
    pub bytes: u64,
    /// Events in it.
    pub records: u64,
    /// Lines of it that could not be used.
    pub skipped: u64,
}

impl From<&InputReport> for StoredSource {
    fn from(input: &InputReport) -> Self {
        let InputReport { path, bytes, records, skipped, .. } = input.clone();
        Self { path, bytes, records, skipped }
    }
}

/// Lines of a log file that are in a roll-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredFile {
    /// Hash of its first line, whatever it is called by now and however it is packed.
    pub log: String,
    /// The first byte, unpacked.
    pub from: u64,
    /// The byte behind the last.
    pub to: u64,
}

impl StoredFile {
    /// Moves the position of its log, by the log's hash, to its end, unless that lies further already.
    pub fn advance(&self, positions: &mut BTreeMap<String, u64>) {
        advance(positions, &self.log, self.to);
    }
}

/// Moves the position of a log to `to`, unless it lies further already.
pub fn advance(positions: &mut BTreeMap<String, u64>, log: &str, to: u64) {
    let own = positions.entry(log.to_owned()).or_default();
    *own = (*own).max(to);
}

/// What the log of one apiserver showed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredStream {
    pub cluster: String,
    /// The apiserver.
    pub instance: String,
    /// Lines read, blank ones left out.
    pub lines: u64,
    /// Events by level and stage.
    pub events: BTreeMap<String, BTreeMap<String, u64>>,
    /// First `at`, in µs since 1970.
    pub first: Option<Micros>,
    pub last: Option<Micros>,
    /// Last lines that were still being written.
    pub unfinished_lines: u64,
    /// Events that were read before.
    pub copies: u64,
    /// Entries of other services.
    pub others: u64,
}

impl StoredStream {
    /// What the log of an apiserver showed.
    pub fn new(cluster: &str, instance: &str, coverage: &Coverage) -> Self {
        let mut events: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for level in Level::ALL {
            for stage in Stage::ALL {
                let count = coverage.events[level as usize][stage as usize];
                if count > 0 {
                    let of = events.entry(level.name().to_owned()).or_default();
                    of.insert(stage.name().to_owned(), count);
                }
            }
        }
        Self {
            cluster: cluster.to_owned(),
            instance: instance.to_owned(),
            lines: coverage.lines,
            events,
            first: coverage.first,
            last: coverage.last,
            unfinished_lines: coverage.unfinished_lines,
            copies: coverage.copies,
            others: coverage.others,
        }
    }

    /// The same as it was counted.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage {
            lines: self.lines,
            first: self.first,
            last: self.last,
            unfinished_lines: self.unfinished_lines,
            copies: self.copies,
            others: self.others,
            ..Coverage::default()
        };
        for level in Level::ALL {
            let of = self.events.get(level.name());
            for stage in Stage::ALL {
                let count = of.and_then(|of| of.get(stage.name())).copied();
                coverage.events[level as usize][stage as usize] = count.unwrap_or_default();
            }
        }
        coverage
    }
}
