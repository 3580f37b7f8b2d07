//! The key space as a report.

use super::file::File;
use super::{By, Row, Usage, findings};
use crate::model::report::{Report, Table, Value};
use crate::model::units::{bytes, counted, grouped};
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

/// Where apiservers note up to which revision they compacted: the one key of theirs that is below no prefix.
const COMPACTED: &str = "compact_rev_key";

/// How rows are made and shown.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// What rows are grouped by.
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
    // Keys below another prefix name no resource: all that is known of them is how they begin.
    let resource = columns.iter().position(|column| column == "resource");
    let is_foreign = |row: &&Vec<Value>| row[0] != COMPACTED.into() && resource.is_some_and(|at| row[at] == "".into());
    let count = |row: &Vec<Value>| if let Value::Count(keys) = row[names.len()] { keys } else { 0 };
    let foreign: u64 = rows.iter().filter(is_foreign).map(count).sum();
    if foreign * 2 > total.keys {
        notes.push(format!(
            "{} of {} name no resource of Kubernetes: give the apiserver's --etcd-prefix with --prefix.",
            grouped(foreign),
            counted(total.keys, "key")
        ));
    }
    let headings = if foreign > 0 { vec![("prefix", "PREFIX")] } else { Vec::new() };
    if shape.by == By::Manager {
        notes.push(
            "A key counts for each manager that wrote one of its fields, so rows add up to more than the total."
                .to_owned(),
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
        table: Table { columns, rows, headings, ..Table::default() },
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
