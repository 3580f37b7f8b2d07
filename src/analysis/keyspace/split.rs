//! Which resources to move to an etcd of their own, by `kube-apiserver --etcd-servers-overrides`.
//! (Source: apiserver server/options/etcd.go: `group/resource#servers;servers`, of resources that are compiled in.)

use super::report::sort;
use super::{Row, Usage};
use crate::analysis::keyspace::file::{File, of};
use crate::model::report::{Report, Table, Value};
use crate::model::units::bytes;

/// A resource with this part of the bytes or of the writes is worth a move.
const WORTH: f64 = 0.2;
/// Events are, with this part: they need not be copied.
const WORTH_EVENTS: f64 = 0.05;

/// The fields of a row.
pub const COLUMNS: [&str; 9] =
    ["group", "resource", "keys", "bytes", "share", "writes", "write_share", "can_move", "move"];

/// The report of `etcd split`, from rows by resource.
pub fn report(rows: &[Row], total: &Usage, file: File, sort_by: Option<&str>, top: Option<usize>) -> Report {
    let all = total.live_bytes + total.history_bytes;
    let share = |part: u64, of: u64| if of > 0 { part as f64 / of as f64 } else { 0.0 };
    let mut table = Vec::new();
    let mut moved = (Vec::new(), 0, 0);
    for Row { names, usage } in rows {
        let (group, resource) = (names[0].as_str(), names[1].as_str());
        let size = usage.live_bytes + usage.history_bytes;
        let shares = (share(size, all), share(usage.writes, total.writes));
        let can = can_move(group, resource);
        let worth = if resource == "events" { WORTH_EVENTS } else { WORTH };
        let moves = can && (shares.0 >= worth || shares.1 >= worth);
        if moves {
            moved.0.push((group.to_owned(), resource.to_owned(), shares));
            moved.1 += size;
            moved.2 += usage.writes;
        }
        let yes = |is: bool| Value::from(if is { "yes" } else { "no" });
        table.push(vec![
            group.into(),
            resource.into(),
            usage.keys.into(),
            size.into(),
            shares.0.into(),
            usage.writes.into(),
            shares.1.into(),
            yes(can),
            yes(moves),
        ]);
    }
    let columns: Vec<String> = COLUMNS.map(str::to_owned).into();
    sort(&columns, &mut table, sort_by.unwrap_or("bytes"));
    if sort_by.is_none() {
        table.sort_by_key(|row| row[8] != "yes".into());
    }
    moved.0.sort_by(|a, b| b.2.0.total_cmp(&a.2.0));
    let mut totals: Vec<(String, Value)> = [
        ("bytes", all.into()),
        ("writes", total.writes.into()),
        ("moved_bytes", moved.1.into()),
        ("moved_writes", moved.2.into()),
        ("left_bytes", (all - moved.1).into()),
        ("left_writes", (total.writes - moved.2).into()),
    ]
    .map(|(name, value): (&str, Value)| (name.to_owned(), value))
    .into();
    totals.extend(file.totals());
    let mut lead = Vec::new();
    if moved.0.is_empty() {
        lead.push("No built-in resource takes enough bytes or writes to justify a separate etcd.".to_owned());
    } else {
        let names: Vec<&str> = moved.0.iter().map(|(_, resource, _)| resource.as_str()).collect();
        lead.push(format!(
            "Move {}: {} of the bytes ({}) and {} of the writes; {} stay.",
            names.join(" and "),
            of(moved.1, all),
            bytes(moved.1 as f64),
            of(moved.2, total.writes),
            bytes((all - moved.1) as f64)
        ));
    }
    let mut coverage = file.coverage();
    let flag = flag(&moved.0);
    coverage.insert("etcd_servers_overrides".to_owned(), flag.clone().into());
    let mut notes = super::report::hidden(table.len(), top);
    notes.extend(steps(&moved.0, &flag));
    notes.extend(file.notes());
    Report {
        schema: "plimsoll.etcd-split/v1".to_owned(),
        coverage,
        lead,
        totals,
        table: Table { columns, rows: table, ..Table::default() },
        shown: top,
        notes,
        inputs: file.inputs,
        ..Report::default()
    }
}

/// Whether the apiserver takes an override for it: only for resources that are compiled into kube-apiserver itself.
fn can_move(group: &str, resource: &str) -> bool {
    let built_in = crate::model::registry::GROUPS.iter().any(|(name, of)| *name == resource && *of == group);
    let is_core =
        group.is_empty() && !resource.is_empty() && !["ranges", "masterleases", "peerserverleases"].contains(&resource);
    // CRDs and APIServices are stored by servers of their own inside of kube-apiserver, as are custom resources.
    (built_in || is_core) && !["apiextensions.k8s.io", "apiregistration.k8s.io"].contains(&group)
}

/// The flag, with a place for the new servers.
fn flag(moved: &[(String, String, (f64, f64))]) -> String {
    let overrides: Vec<String> =
        moved.iter().map(|(group, resource, _)| format!("{group}/{resource}#https://NEW-ETCD:2379")).collect();
    if overrides.is_empty() { String::new() } else { format!("--etcd-servers-overrides={}", overrides.join(",")) }
}

/// How to move.
fn steps(moved: &[(String, String, (f64, f64))], flag: &str) -> Vec<String> {
    if moved.is_empty() {
        return Vec::new();
    }
    let mut steps = vec![
        "How to move:".to_owned(),
        "  1\tSet up the new etcd with the apiserver's certificates (separate several servers by ;).".to_owned(),
    ];
    let copied: Vec<&str> =
        moved.iter().map(|(_, resource, _)| resource.as_str()).filter(|resource| *resource != "events").collect();
    if copied.is_empty() {
        steps.push(
            "  2\tEvents need not be copied: they expire within an hour, and clients restart their watches.".to_owned(),
        );
    } else {
        steps.push(format!(
            "  2\tStop every apiserver (writes to {} must stop: a copy of a live store loses later writes).",
            copied.join(", ")
        ));
        steps.push(
            "  3\tRestore a snapshot of the old etcd into the new one, so that revisions continue: resourceVersions \
             must not go back. Only Events can skip this."
                .to_owned(),
        );
    }
    let next = if copied.is_empty() { 3 } else { 4 };
    steps.push(format!("  {next}\tStart every apiserver with {flag}"));
    steps.push(format!(
        "  {}\tOnce all works, delete the moved prefixes from the old etcd and all others from the new one; compact \
         and defragment.",
        next + 1
    ));
    steps.push("Custom resources, CRDs and APIServices can't be moved: the flag does not support them.".to_owned());
    steps
}
