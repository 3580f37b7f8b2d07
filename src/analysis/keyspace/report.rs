//! The key space as a report, and what every report about a database begins with.

use super::findings;
use super::{By, Row, Usage};
use crate::model::input::InputReport;
use crate::model::report::{Report, Table, Value};
use crate::model::units::{bytes, counted, grouped, percent};
use serde_json::{Map, Value as Json, json};

/// The fields of a row behind its names.
pub const FIELDS: [&str; 11] = [
    "keys",
    "revisions",
    "tombstones",
    "live_bytes",
    "history_bytes",
    "key_bytes",
    "max_object_bytes",
    "managed_fields_bytes",
    "annotation_bytes",
    "last_applied_bytes",
    "share",
];

/// What is known of the file.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// Bytes that the database counts as its own.
    pub db_bytes: u64,
    /// Of these, in pages that hold something.
    pub in_use_bytes: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// The largest revision.
    pub revision: u64,
    /// The revision up to which history is gone; 0 if all is there.
    pub compacted: u64,
    /// Whether a compaction was asked for that has not ended.
    pub compacting: bool,
    /// The hash, as `etcdctl snapshot status` gives it; `None` if something could not be read.
    pub hash: Option<u32>,
    /// Entries by bucket.
    pub entries: Vec<(String, u64)>,
    /// What is damaged, in words, and how much there is.
    pub damages: (Vec<String>, u64),
    /// The quota, if known.
    pub quota: Option<u64>,
    /// Whether values were looked at.
    pub decoded: bool,
    /// Where in the log of writes the file stands.
    pub consistent_index: Option<u64>,
    /// Its term.
    pub term: Option<u64>,
    /// The version of the file's schema, from etcd 3.6 on.
    pub storage_version: Option<String>,
    /// Members: name, and where peers reach it.
    pub members: Vec<(String, String)>,
    /// Alarms: member, and what is wrong.
    pub alarms: Vec<(String, String)>,
    /// Leases.
    pub leases: u64,
}

impl File {
    /// Bytes in pages that hold nothing.
    pub fn free_bytes(&self) -> u64 {
        self.db_bytes.saturating_sub(self.in_use_bytes)
    }

    /// Where it was read.
    pub fn path(&self) -> &str {
        self.inputs.first().map_or("", |input| input.path.as_str())
    }

    /// The sums that every report about a database has.
    pub fn totals(&self) -> Vec<(String, Value)> {
        let fragmentation = (self.db_bytes > 0).then(|| self.free_bytes() as f64 / self.db_bytes as f64);
        let totals: [(&str, Value); 8] = [
            ("db_bytes", self.db_bytes.into()),
            ("in_use_bytes", self.in_use_bytes.into()),
            ("free_bytes", self.free_bytes().into()),
            ("page_size", self.page_size.into()),
            ("fragmentation", fragmentation.into()),
            ("revision", self.revision.into()),
            ("compact_revision", self.compacted.into()),
            ("hash", self.hash.map(u64::from).into()),
        ];
        totals.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// What the file shows at all.
    pub fn coverage(&self) -> Map<String, Json> {
        let entries: Map<String, Json> =
            self.entries.iter().map(|(bucket, count)| (bucket.clone(), json!(count))).collect();
        let members: Vec<Json> =
            self.members.iter().map(|(name, url)| json!({"name": name, "peer_url": url})).collect();
        let alarms: Vec<Json> =
            self.alarms.iter().map(|(member, alarm)| json!({"member": member, "alarm": alarm})).collect();
        let value = json!({
            "source": "etcd", "entries": entries, "decoded": self.decoded, "damaged": self.damages.0, "damages": self.damages.1,
            "consistent_index": self.consistent_index, "term": self.term, "storage_version": self.storage_version,
            "compaction_under_way": self.compacting, "leases": self.leases, "members": members, "alarms": alarms,
        });
        if let Json::Object(map) = value { map } else { Map::new() }
    }

    /// The sentence about its size.
    pub fn size(&self) -> String {
        let mut text = format!(
            "Database {}, of it {} free pages ({})",
            bytes(self.db_bytes as f64),
            bytes(self.free_bytes() as f64),
            of(self.free_bytes(), self.db_bytes)
        );
        if let Some(quota) = self.quota.filter(|quota| *quota > 0) {
            text += &format!("; {} of the quota of {}", of(self.db_bytes, quota), bytes(quota as f64));
        }
        text + "."
    }

    /// What people are to know of damage.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.damages.1 > 0 {
            notes.push(format!(
                "{} of the database damaged; what can be read is counted.",
                counted(self.damages.1, "place")
            ));
        }
        if self.compacting {
            notes.push(
                "A compaction was under way when the file was taken: part of the history is gone already.".to_owned(),
            );
        }
        notes
    }
}

/// A part as per cent; `-` of nothing.
pub fn of(part: u64, whole: u64) -> String {
    if whole > 0 { percent(part as f64 / whole as f64) } else { "-".to_owned() }
}

/// How rows are made and shown.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// What rows are made by.
    pub by: By,
    /// Field to sort by; live and history bytes where not given.
    pub sort_by: Option<String>,
    /// Rows that people are shown.
    pub top: Option<usize>,
}

/// The report of `etcd usage`.
pub fn report(rows: Vec<Row>, total: &Usage, file: File, shape: &Shape) -> Report {
    let names = shape.by.columns();
    let mut columns: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    columns.extend(FIELDS.iter().map(|field| (*field).to_owned()));
    let findings = findings::of_usage(&file, total, &rows, &shape.by);
    let row =
        |row: Row| row.names.into_iter().map(Value::Text).chain(fields(&row.usage, total, file.decoded)).collect();
    let mut rows: Vec<Vec<Value>> = rows.into_iter().map(row).collect();
    match shape.sort_by.as_deref() {
        Some(field) => sort(&columns, &mut rows, field),
        None => {
            let (live, history) = (names.len() + 3, names.len() + 4);
            let bytes = |row: &[Value]| {
                [live, history].iter().map(|at| if let Value::Count(n) = row[*at] { n } else { 0 }).sum::<u64>()
            };
            rows.sort_by_key(|row| std::cmp::Reverse(bytes(row)));
        }
    }
    let mut totals: Vec<(String, Value)> = FIELDS
        .iter()
        .map(|f| (*f).to_owned())
        .zip(fields(total, total, file.decoded))
        .filter(|(f, _)| f != "share")
        .collect();
    totals.extend(file.totals());
    totals.extend([("keys_live".to_owned(), total.keys.into()), ("rows".to_owned(), (rows.len() as u64).into())]);
    let mut notes = hidden(rows.len(), shape.top);
    if shape.by == By::Manager {
        notes.push(
            "A key counts with each manager that wrote a field of it, so rows are more than the whole.".to_owned(),
        );
    }
    notes.extend(file.notes());
    let mut coverage = file.coverage();
    let encodings = crate::model::keyspace::Encoding::ALL.iter().map(|(_, name)| *name).zip(total.encodings);
    let encodings: Map<String, Json> = encodings.map(|(name, count)| (name.to_owned(), json!(count))).collect();
    coverage.insert("encodings".to_owned(), encodings.into());
    coverage.insert("undecodable".to_owned(), total.undecodable.into());
    Report {
        schema: "plimsoll.etcd-usage/v1".to_owned(),
        coverage,
        lead: lead(&file, total),
        inputs: file.inputs,
        totals,
        table: Table { columns, rows, ..Table::default() },
        shown: shape.top,
        notes,
        findings,
        ..Report::default()
    }
}

/// Says that rows are not shown.
pub(super) fn hidden(rows: usize, top: Option<usize>) -> Vec<String> {
    let more = top.map_or(0, |top| rows.saturating_sub(top));
    if more > 0 {
        vec![format!("{} not shown; --top 0 shows all.", counted(more as u64, "more row"))]
    } else {
        Vec::new()
    }
}

fn fields(usage: &Usage, total: &Usage, decoded: bool) -> [Value; 11] {
    [
        usage.keys.into(),
        usage.revisions.into(),
        usage.tombstones.into(),
        usage.live_bytes.into(),
        usage.history_bytes.into(),
        usage.key_bytes.into(),
        usage.max_object_bytes.into(),
        decoded.then_some(usage.managed_fields_bytes).into(),
        decoded.then_some(usage.annotation_bytes).into(),
        decoded.then_some(usage.last_applied_bytes).into(),
        (total.live_bytes > 0).then(|| usage.live_bytes as f64 / total.live_bytes as f64).into(),
    ]
}

/// Sorts rows by a field: text upwards, numbers downwards. A field that there is not changes nothing.
pub(super) fn sort(columns: &[String], rows: &mut [Vec<Value>], field: &str) {
    if let Some(at) = columns.iter().position(|column| column == field) {
        rows.sort_by(|a, b| a[at].in_order(&b[at]));
    }
}

fn lead(file: &File, total: &Usage) -> Vec<String> {
    let first = format!(
        "{} at revision {}: {} live, {} history ({}).",
        counted(total.keys, "key"),
        grouped(file.revision),
        bytes(total.live_bytes as f64),
        bytes(total.history_bytes as f64),
        counted(total.revisions - total.keys, "revision"),
    );
    vec![first, file.size()]
}
