//! What a stored roll-up looks like (docs/rollup.md): the names and columns of its tables, and its manifest.

use crate::model::bundle::Bundle;
use crate::model::event::{Level, Stage};
use crate::model::input::{Coverage, InputReport, Loss};
use crate::model::time::Micros;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file that makes a folder a stored roll-up.
pub const MANIFEST: &str = "manifest.json";

/// The form of a stored roll-up. What has another form was written by a later plimsoll.
pub const SCHEMA: &str = "plimsoll.rollup/v1";

/// A table's name and columns, the first of which are its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSpec {
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [&'static str],
    /// How many of them are the key.
    pub key: usize,
}

/// All tables.
pub const TABLES: [TableSpec; 9] = [
    TableSpec {
        name: "traffic",
        key: 13,
        columns: &[
            "tile",
            "cluster",
            "instance",
            "user",
            "agent",
            "verb",
            "group",
            "resource",
            "subresource",
            "scope",
            "namespace",
            "code",
            "shape",
            "requests",
            "open",
            "latency",
            "latency_sum",
            "latency_max",
            "lifetime",
            "lifetime_sum",
            "lifetime_max",
            "bodies",
            "body_bytes",
            "body_items",
            "etcd_us",
            "webhook_us",
            "queue_us",
            "timeout_client",
            "timeout_deadline",
            "timeout_cache",
        ],
    },
    TableSpec {
        name: "pulse",
        key: 8,
        columns: &[
            "second",
            "cluster",
            "instance",
            "user",
            "agent",
            "group",
            "resource",
            "op",
            "starts",
            "ends",
            "errors",
            "throttled",
        ],
    },
    TableSpec {
        name: "sequences",
        key: 7,
        columns: &[
            "tile", "cluster", "user", "agent", "group", "resource", "fact", "count", "gaps", "gaps_sum", "gaps_max",
        ],
    },
    TableSpec {
        name: "sources",
        key: 6,
        columns: &[
            "tile",
            "cluster",
            "user",
            "agent",
            "group",
            "resource",
            "requests",
            "exact",
            "addresses",
            "sketch",
            "heaviest",
        ],
    },
    TableSpec {
        name: "objects",
        key: 7,
        columns: &[
            "cluster",
            "group",
            "resource",
            "namespace",
            "name",
            "user",
            "agent",
            "reads",
            "writes",
            "conflicts",
            "first",
            "last",
        ],
    },
    TableSpec {
        name: "notable",
        key: 19,
        columns: &[
            "at",
            "cluster",
            "instance",
            "kind",
            "user",
            "agent",
            "impersonated",
            "source",
            "verb",
            "group",
            "resource",
            "subresource",
            "namespace",
            "name",
            "code",
            "uri",
            "audit_id",
            "level",
            "detail",
        ],
    },
    TableSpec {
        name: "clients",
        key: 3,
        columns: &[
            "cluster",
            "user",
            "agent",
            "requests",
            "first",
            "last",
            "service_account",
            "versions",
            "groups",
            "nodes",
            "pods",
            "instances",
            "fleet",
            "heaviest",
        ],
    },
    TableSpec { name: "nodes", key: 4, columns: &["cluster", "user", "agent", "node", "requests"] },
    TableSpec {
        name: "deprecated",
        key: 7,
        columns: &[
            "cluster",
            "user",
            "agent",
            "version",
            "resource",
            "subresource",
            "removed",
            "requests",
            "first",
            "last",
        ],
    },
];

/// What parts of one log are joined by; what other engines make need not have it. `hash`, `turn` and `value` are 64 bits,
/// taken for signed numbers.
pub const SEAMS: TableSpec = TableSpec {
    name: "seams",
    key: 3,
    columns: &[
        "edge",
        "at",
        "received",
        "hash",
        "turn",
        "flags",
        "value",
        "cluster",
        "instance",
        "user",
        "agent",
        "verb",
        "group",
        "resource",
        "subresource",
        "scope",
        "namespace",
        "code",
        "shape",
        "name",
        "reads",
        "writes",
        "conflicts",
    ],
};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit integers.
    Number,
    /// True or false.
    Truth,
    /// Text; sets, histograms and what has no value for some rows too.
    Text,
}

/// Columns of numbers, in any table.
const NUMBERS: [&str; 36] = [
    "tile",
    "second",
    "at",
    "requests",
    "open",
    "latency_sum",
    "latency_max",
    "lifetime_sum",
    "lifetime_max",
    "bodies",
    "body_bytes",
    "body_items",
    "etcd_us",
    "webhook_us",
    "queue_us",
    "timeout_client",
    "timeout_deadline",
    "timeout_cache",
    "starts",
    "ends",
    "errors",
    "throttled",
    "count",
    "gaps_sum",
    "gaps_max",
    "reads",
    "writes",
    "conflicts",
    "first",
    "last",
    "fleet",
    "received",
    "hash",
    "turn",
    "flags",
    "value",
];

/// What a column of any table holds.
pub fn kind(column: &str) -> Kind {
    match column {
        "exact" => Kind::Truth,
        _ if NUMBERS.contains(&column) => Kind::Number,
        _ => Kind::Text,
    }
}

/// A column of some rows.
#[derive(Debug)]
pub enum Cells<'t> {
    /// Numbers.
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

/// Some rows of a stored table: its columns in the order of its [`TableSpec`].
#[derive(Debug)]
pub struct Rows<'t> {
    /// How many.
    pub count: usize,
    /// The columns.
    pub columns: Vec<Cells<'t>>,
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
    /// Last `at`.
    pub last: Option<Micros>,
    /// Events that were late.
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
    /// What was lost.
    pub lost: Vec<Loss>,
    /// In a store: when the latest of it was recorded, in µs since 1970.
    pub recorded: Option<Micros>,
    /// In a store: which lines of which logs are in it.
    pub files: Vec<StoredFile>,
    /// In a store: the roll-ups that it takes the place of.
    pub replaces: Vec<String>,
    /// The tables, by name.
    pub tables: BTreeMap<String, StoredTable>,
}

/// A table of a stored roll-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredTable {
    /// Rows.
    pub rows: u64,
    /// Bytes of its file; 0 where nobody counted them.
    pub bytes: u64,
    /// CRC32C of its file, in hexadecimal; empty where nobody computed it.
    pub crc32c: String,
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

/// What the log of one apiserver showed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredStream {
    /// Its cluster.
    pub cluster: String,
    /// The apiserver.
    pub instance: String,
    /// Lines read, blank ones left out.
    pub lines: u64,
    /// Events by level and stage.
    pub events: BTreeMap<String, BTreeMap<String, u64>>,
    /// First `at`, in µs since 1970.
    pub first: Option<Micros>,
    /// Last `at`.
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
