//! The key space as a report.

use super::{Place, Usage};
use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Severity, Table, Value};
use crate::model::units::{bytes, counted, grouped, percent};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// The fields of a row behind its names.
pub const FIELDS: [&str; 9] =
    ["keys", "revisions", "tombstones", "live_bytes", "history_bytes", "key_bytes", "max_object_bytes", "managed_fields_bytes", "share"];

/// What rows are made by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum By {
    /// Resource and namespace.
    #[default]
    Prefix,
    /// Resource.
    Resource,
    /// Namespace.
    Namespace,
}

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
    /// The hash, as `etcdctl snapshot status` gives it; `None` if something could not be read.
    pub hash: Option<u32>,
    /// Entries by bucket.
    pub entries: Vec<(String, u64)>,
    /// Live values by encoding.
    pub encodings: Vec<(&'static str, u64)>,
    /// Live values that could not be read as what they claim to be.
    pub undecodable: u64,
    /// What is damaged, in words, and how much more there is.
    pub damages: (Vec<String>, u64),
    /// The quota, if given.
    pub quota: Option<u64>,
    /// Whether values were looked at.
    pub decoded: bool,
}

/// How the result is to be shown.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// What rows are made by.
    pub by: By,
    /// Field to sort by; live and history bytes where not given.
    pub sort_by: Option<String>,
    /// Rows that people are shown.
    pub top: Option<usize>,
}

/// The report.
pub fn report(rows: Vec<(Place, Usage)>, total: &Usage, file: File, shape: &Shape) -> Report {
    let names: &[&str] = match shape.by {
        By::Prefix => &["prefix", "group", "resource", "namespace"],
        By::Resource => &["group", "resource"],
        By::Namespace => &["namespace"],
    };
    let mut by: BTreeMap<Vec<String>, Usage> = BTreeMap::new();
    for (place, usage) in rows {
        let key = match shape.by {
            By::Prefix => vec![place.prefix, place.group, place.resource, place.namespace],
            By::Resource => vec![place.group, place.resource],
            By::Namespace => vec![place.namespace],
        };
        by.entry(key).or_default().merge(&usage);
    }
    let mut columns: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    columns.extend(FIELDS.iter().map(|field| (*field).to_owned()));
    let mut rows: Vec<Vec<Value>> =
        by.into_iter().map(|(key, usage)| key.into_iter().map(Value::Text).chain(fields(&usage, total, file.decoded)).collect()).collect();
    let at = |field: &str| columns.iter().position(|column| column == field);
    match shape.sort_by.as_deref().and_then(at) {
        Some(at) => rows.sort_by(|a, b| order(&a[at], &b[at])),
        None => {
            let (live, history) = (names.len() + 3, names.len() + 4);
            let bytes = |row: &[Value]| [live, history].iter().map(|at| if let Value::Count(n) = row[*at] { n } else { 0 }).sum::<u64>();
            rows.sort_by_key(|row| std::cmp::Reverse(bytes(row)));
        }
    }
    let free = file.db_bytes.saturating_sub(file.in_use_bytes);
    let fragmentation = (file.db_bytes > 0).then(|| free as f64 / file.db_bytes as f64);
    let mut totals: Vec<(String, Value)> =
        FIELDS.iter().map(|f| (*f).to_owned()).zip(fields(total, total, file.decoded)).filter(|(f, _)| f != "share").collect();
    totals.extend(
        [
            ("db_bytes", file.db_bytes.into()),
            ("in_use_bytes", file.in_use_bytes.into()),
            ("free_bytes", free.into()),
            ("page_size", file.page_size.into()),
            ("fragmentation", fragmentation.into()),
            ("revision", file.revision.into()),
            ("keys_live", total.keys.into()),
            ("hash", file.hash.map(u64::from).into()),
            ("rows", (rows.len() as u64).into()),
        ]
        .map(|(name, value): (&str, Value)| (name.to_owned(), value)),
    );
    let mut notes = Vec::new();
    if let Some(top) = shape.top.filter(|top| rows.len() > *top) {
        notes.push(format!("{} not shown; --top 0 shows all.", counted((rows.len() - top) as u64, "more row")));
    }
    if file.damages.1 > 0 {
        notes.push(format!("{} of the database damaged; what can be read is counted.", counted(file.damages.1, "place")));
    }
    let findings = findings(&file, total);
    Report {
        schema: "plimsoll.etcd-usage/v1".to_owned(),
        coverage: coverage(&file),
        lead: lead(&file, total, free),
        inputs: file.inputs,
        totals,
        table: Table { columns, rows, ..Table::default() },
        shown: shape.top,
        notes,
        findings,
        ..Report::default()
    }
}

fn fields(usage: &Usage, total: &Usage, decoded: bool) -> [Value; 9] {
    [
        usage.keys.into(),
        usage.revisions.into(),
        usage.tombstones.into(),
        usage.live_bytes.into(),
        usage.history_bytes.into(),
        usage.key_bytes.into(),
        usage.max_object_bytes.into(),
        decoded.then_some(usage.managed_fields_bytes).into(),
        (total.live_bytes > 0).then(|| usage.live_bytes as f64 / total.live_bytes as f64).into(),
    ]
}

fn order(a: &Value, b: &Value) -> std::cmp::Ordering {
    let number = |value: &Value| match value {
        Value::Count(count) => *count as f64,
        Value::Number(number) => *number,
        _ => -1.0,
    };
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (a, b) => number(b).total_cmp(&number(a)),
    }
}

fn lead(file: &File, total: &Usage, free: u64) -> Vec<String> {
    let share = |part: u64, of: u64| if of > 0 { percent(part as f64 / of as f64) } else { "-".to_owned() };
    let mut first = format!("{} at revision {}", counted(total.keys, "key"), grouped(file.revision));
    first += &format!(
        ": {} live, {} history ({}).",
        bytes(total.live_bytes as f64),
        bytes(total.history_bytes as f64),
        counted(total.revisions - total.keys, "revision"),
    );
    let mut second =
        format!("Database {}, of it {} free pages ({})", bytes(file.db_bytes as f64), bytes(free as f64), share(free, file.db_bytes));
    if let Some(quota) = file.quota.filter(|quota| *quota > 0) {
        second += &format!("; {} of the quota of {}", share(file.db_bytes, quota), bytes(quota as f64));
    }
    vec![first, second + "."]
}

fn coverage(file: &File) -> Map<String, Json> {
    let entries: Map<String, Json> = file.entries.iter().map(|(bucket, count)| (bucket.clone(), json!(count))).collect();
    let encodings: Map<String, Json> = file.encodings.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    let value = json!({
        "source": "etcd", "entries": entries, "encodings": encodings, "undecodable": file.undecodable, "decoded": file.decoded,
        "damaged": file.damages.0, "damages": file.damages.1,
    });
    if let Json::Object(map) = value { map } else { Map::new() }
}

fn findings(file: &File, total: &Usage) -> Vec<Finding> {
    let mut found = Vec::new();
    let path = file.inputs.first().map_or("", |input| input.path.as_str());
    let mut add = |id: &str, severity, summary: String, evidence: Json, remedy: &str| {
        let mut finding = Finding::new(id, severity, &[("path", path)]);
        finding.summary = summary;
        finding.evidence = evidence.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
        remedy.clone_into(&mut finding.remedy);
        found.push(finding);
    };
    if let Some(quota) = file.quota.filter(|quota| *quota > 0) {
        let share = file.db_bytes as f64 / quota as f64;
        if share >= 0.8 {
            add(
                "etcd-near-quota",
                if share >= 0.95 { Severity::Critical } else { Severity::Warning },
                format!(
                    "the database takes {} of its quota ({}); at the quota etcd refuses all writes",
                    percent(share),
                    bytes(file.db_bytes as f64)
                ),
                json!({"db_bytes": file.db_bytes, "in_use_bytes": file.in_use_bytes, "quota_share": share}),
                "delete what the largest rows hold and is not needed, let it be compacted, then defragment one member after the other",
            );
        }
    }
    if file.db_bytes > 100_000_000 && file.in_use_bytes * 2 < file.db_bytes {
        add(
            "etcd-fragmented",
            Severity::Info,
            format!(
                "only {} of the file's {} is in use",
                percent(file.in_use_bytes as f64 / file.db_bytes as f64),
                bytes(file.db_bytes as f64)
            ),
            json!({"db_bytes": file.db_bytes, "in_use_bytes": file.in_use_bytes}),
            "defragment in a quiet hour, one member after the other: each is blocked meanwhile",
        );
    }
    const MIB: u64 = 1 << 20;
    if total.max_object_bytes > MIB / 2 {
        add(
            "etcd-large-object",
            if total.max_object_bytes > MIB { Severity::Critical } else { Severity::Warning },
            format!("the largest object takes {}; etcd refuses requests above 1.5 MiB", bytes(total.max_object_bytes as f64)),
            json!({"max_object_bytes": total.max_object_bytes}),
            "find it with --sort-by max_object_bytes; split it, or keep its data elsewhere",
        );
    }
    if file.undecodable > 0 {
        add(
            "etcd-undecodable",
            Severity::Warning,
            format!("{} can't be read as what they claim to be", counted(file.undecodable, "value")),
            json!({"undecodable": file.undecodable}),
            "an apiserver can't serve such objects, nor lists of their resource: compare with another member's snapshot, then delete them by key",
        );
    }
    found
}
