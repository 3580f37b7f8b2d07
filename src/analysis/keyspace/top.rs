//! The largest objects.

use super::report::sort;
use super::{Key, Keyspace, findings};
use crate::analysis::keyspace::file::{File, of};
use crate::model::report::{Report, Table, Value};
use crate::model::units::counted;
use std::collections::{HashMap, HashSet};

/// What objects are ordered by.
pub const MEASURES: [&str; 6] =
    ["live_bytes", "history_bytes", "revisions", "managed_fields_bytes", "annotation_bytes", "last_applied_bytes"];

/// The fields that rows are sorted by.
pub const SORTED: [&str; 7] = {
    let [a, b, c, d, e, f] = MEASURES;
    [a, b, c, d, e, f, "modified"]
};

/// More keys of one size than this are not distinguished by name.
const TIES: usize = 100_000;

/// A measure of a key that lives, by the name of its field.
fn measure(key: &Key, field: &str) -> u64 {
    match field {
        "history_bytes" => key.history_bytes(),
        "revisions" => u64::from(key.revisions),
        "managed_fields_bytes" => u64::from(key.managed_fields),
        "annotation_bytes" => u64::from(key.annotations),
        "last_applied_bytes" => u64::from(key.last_applied),
        "modified" => key.latest,
        _ => key.live_bytes(),
    }
}

/// The `top` keys of the largest measures, with all that are as large as the last of them; `None` leaves a key out.
pub(super) fn leading(space: &Keyspace, top: Option<usize>, measure: impl Fn(&Key) -> Option<u64>) -> Vec<Key> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    space.each(|key, _| all.extend(measure(key).map(|size| (size, key.hash))));
    if let Some(top) = top.filter(|top| *top < all.len() && *top > 0) {
        let (_, last, _) = all.select_nth_unstable_by(top - 1, |a, b| b.cmp(a));
        let least = last.0;
        all.retain(|(size, _)| *size >= least);
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.truncate(top + TIES);
    }
    all.into_iter().filter_map(|(_, hash)| space.get(hash).map(|(key, _)| key)).collect()
}

/// The keys that the table will show, and those that findings are about, however few are shown.
pub fn keys(space: &Keyspace, sort_by: Option<&str>, top: Option<usize>) -> Vec<Key> {
    let shown = leading(space, top, |key| key.lives().then(|| measure(key, sort_by.unwrap_or("live_bytes"))));
    let large = |key: &Key| Some(key.live_bytes()).filter(|size| key.lives() && *size > findings::LARGE);
    with(shown, leading(space, Some(findings::MAX_NAMED), large))
}

/// Keys, and others that are not among them.
pub(super) fn with(mut keys: Vec<Key>, others: Vec<Key>) -> Vec<Key> {
    let known: HashSet<u64> = keys.iter().map(|key| key.hash).collect();
    keys.extend(others.into_iter().filter(|key| !known.contains(&key.hash)));
    keys
}

/// The report of `etcd top`; `names` are the texts of `keys`.
pub fn report(
    space: &Keyspace,
    keys: &[Key],
    names: &HashMap<u64, String>,
    file: File,
    sort_by: Option<&str>,
    top: Option<usize>,
) -> Report {
    let columns = ["key", "group", "resource", "namespace", "name"].into_iter().chain(MEASURES).chain(["modified"]);
    let columns: Vec<String> = columns.map(str::to_owned).collect();
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for key in keys {
        let Some(name) = names.get(&key.hash) else { continue };
        let parsed = space.parse(name);
        let mut row: Vec<Value> =
            [name, parsed.group, parsed.resource, parsed.namespace, parsed.name].map(Value::from).into();
        row.extend(MEASURES.map(|field| Value::from(measure(key, field))));
        row.push(key.latest.into());
        rows.push(row);
    }
    sort(&columns, &mut rows, "key");
    let mut by_size = rows.clone();
    sort(&columns, &mut by_size, "live_bytes");
    sort(&columns, &mut rows, sort_by.unwrap_or("live_bytes"));
    rows.truncate(top.unwrap_or(usize::MAX));
    let (mut live, mut bytes) = (0, 0);
    space.each(|key, _| {
        live += u64::from(key.lives());
        bytes += key.live_bytes();
    });
    let shown: u64 =
        rows.iter().filter_map(|row| if let Value::Count(size) = row[5] { Some(size) } else { None }).sum();
    let lead =
        vec![format!("{} of {} hold {} of the live bytes.", rows.len(), counted(live, "object"), of(shown, bytes))];
    let mut totals = file.totals();
    totals.splice(0..0, [("keys_live".to_owned(), live.into()), ("live_bytes".to_owned(), bytes.into())]);
    let mut found = findings::FileFindings::new(&file);
    findings::of_objects(&by_size, &mut found);
    Report {
        schema: "plimsoll.etcd-top/v1".to_owned(),
        findings: found.list,
        coverage: file.coverage(),
        notes: file.notes(),
        lead,
        totals,
        table: Table { columns, rows, ..Table::default() },
        inputs: file.inputs,
        ..Report::default()
    }
}
