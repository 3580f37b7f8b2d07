//! What people see of the tables: the columns and rows that matter, courses as bars.

use crate::analysis::controllers::read::Read;
use crate::model::report::{Table, Value};
use crate::model::time::{Micros, SECOND};
use crate::model::units::{counted, duration};
use std::collections::BTreeSet;

/// Rows of a table that people are shown where they did not say how many.
const SHOWN: usize = 10;

/// Bars of a course.
const BARS: usize = 24;

/// An extension point with less of the scheduler's time is not worth a line.
const MIN_SHARE: f64 = 0.01;

/// Items that wait less on average (ms) don't.
const HARDLY: f64 = 10.0;

/// Columns by table; others are shown with all of theirs.
const COLUMNS: [(&str, &[&str]); 8] = [
    (
        "queues",
        &[
            "instance",
            "queue",
            "depth",
            "depth_peak",
            "depth_per_min",
            "depth_course",
            "adds_per_s",
            "wait_mean_ms",
            "work_mean_ms",
            "busy",
        ],
    ),
    ("pending", &["lease", "pod_queue", "pods", "pods_peak", "pods_per_min", "incoming_per_s", "pods_course"]),
    ("attempts", &["instance", "result", "attempts", "attempts_per_s", "mean_ms", "p99_ms", "attempts_course"]),
    ("stages", &["instance", "stage", "calls_per_s", "mean_ms", "p99_ms", "time_share"]),
    ("calls", &["instance", "rps", "limiter_mean_ms", "limiter_p99_ms", "mean_ms", "p99_ms", "failed", "throttled"]),
    ("kinds", &["pods", "label_sets", "controller", "asks", "waits_s", "why"]),
    ("handovers", &["time", "lease", "from_holder", "to_holder", "gap_s", "released"]),
    ("leaders", &["lease", "holder", "candidates", "changes", "renewals", "longest_pause_s"]),
];

/// Tables for people, of those that have rows; notes say what is left out.
pub(super) fn tables(all: &[Table], read: &Read, window: (Micros, Micros), notes: &mut Vec<String>) -> Vec<Table> {
    let clusters: BTreeSet<&str> =
        all.iter()
            .filter_map(|table| Some((table, table.column("cluster")?)))
            .flat_map(|(table, at)| {
                table.rows.iter().filter_map(move |row| {
                    if let Value::Text(cluster) = &row[at] { Some(cluster.as_str()) } else { None }
                })
            })
            .collect();
    let shown = all.iter().filter(|table| !table.rows.is_empty());
    let tables = shown.map(|table| one(table, clusters.len() > 1, read, window, notes));
    // Where nothing is worth a row, the note says how many there are.
    tables.filter(|table| !table.rows.is_empty()).collect()
}

fn one(table: &Table, many_clusters: bool, read: &Read, window: (Micros, Micros), notes: &mut Vec<String>) -> Table {
    let columns = columns(table, many_clusters, read);
    let rows = rows(table, read);
    let left = table.rows.len() - rows.len();
    if left > 0 {
        notes.push(format!(
            "{} more under \u{201c}{}\u{201d}; --top or -o json shows them.",
            counted(left as u64, "row"),
            table.title
        ));
    }
    let day = |row: &Vec<Value>| if let Value::Text(at) = &row[0] { at.get(..10).map(str::to_owned) } else { None };
    let is_one_day = table.rows.iter().all(|row| day(row) == day(&table.rows[0]));
    let cell = |name: &str, row: &[Value]| match (name, table.column(name).map_or(Value::None, |at| row[at].clone())) {
        ("why", _) => why(table, row),
        ("waits_s" | "gap_s", Value::Number(seconds)) => {
            duration((seconds * SECOND as f64).round() as Micros).as_str().into()
        }
        // The day is that of the window.
        ("time", Value::Text(at)) if is_one_day => at.get(11..19).into(),
        ("time", Value::Text(at)) => at.get(..19).unwrap_or_default().replace('T', " ").as_str().into(),
        ("from_holder" | "to_holder" | "holder", Value::Text(holder)) => short(&holder).as_str().into(),
        (_, Value::Json(course)) => Value::Series(bars(&course, window)),
        (_, value) => value,
    };
    // Durations in words have columns of their own.
    let named = |name: &str| match name {
        "gap_s" => "gap".to_owned(),
        "waits_s" => "waits".to_owned(),
        name => name.to_owned(),
    };
    Table {
        rows: rows.iter().map(|row| columns.iter().map(|name| cell(name, row)).collect()).collect(),
        columns: columns.iter().map(|name| named(name)).collect(),
        ..table.clone()
    }
}

fn columns<'t>(table: &'t Table, many_clusters: bool, read: &Read) -> Vec<&'t str> {
    if read.wide {
        return table.columns.iter().map(String::as_str).filter(|name| *name != "needs").collect();
    }
    let of = COLUMNS.iter().find(|(name, _)| *name == table.name).map_or(&[][..], |(_, columns)| *columns);
    let is_known = |name: &str| table.column(name).is_none_or(|at| table.rows.iter().any(|row| row[at] != Value::None));
    let differs =
        |name: &str| table.column(name).is_some_and(|at| table.rows.iter().any(|row| row[at] != table.rows[0][at]));
    let mut columns: Vec<&str> = of.to_vec();
    columns.retain(|name| match *name {
        // Which scheduler it is matters where there are several; so do labels where pods of a kind differ in them.
        "lease" if table.name == "pending" => differs("lease"),
        "label_sets" => {
            table.column(name).is_some_and(|at| table.rows.iter().any(|row| row[at].in_order(&Value::Count(1)).is_lt()))
        }
        // What stands still need not be said.
        name if name.ends_with("_per_min") => table
            .column(name)
            .is_some_and(|at| table.rows.iter().any(|row| matches!(row[at], Value::Number(slope) if slope != 0.0))),
        name => is_known(name),
    });
    if many_clusters && table.column("cluster").is_some() {
        columns.insert(0, "cluster");
    }
    columns
}

fn rows<'t>(table: &'t Table, read: &Read) -> Vec<&'t Vec<Value>> {
    let number = |row: &[Value], name: &str| match table.column(name).map(|at| &row[at]) {
        Some(Value::Number(number)) => *number,
        Some(Value::Count(count)) => *count as f64,
        _ => 0.0,
    };
    let matters = |row: &&Vec<Value>| match table.name.as_str() {
        _ if read.top.is_some() => true,
        "queues" => number(row, "depth_peak").max(number(row, "depth")) >= 1.0 || number(row, "wait_mean_ms") >= HARDLY,
        "stages" => number(row, "time_share") >= MIN_SHARE,
        _ => true,
    };
    table.rows.iter().filter(matters).take(read.top.unwrap_or(SHOWN)).collect()
}

/// A holder's name without most of the random number that client-go puts behind the host's name: `host_0a1b2c3d…`.
pub(super) fn short(holder: &str) -> String {
    let is_random = |tail: &str| tail.len() == 36 && tail.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match holder.rsplit_once('_') {
        Some((host, tail)) if is_random(tail) => format!("{host}_{}…", &tail[..8]),
        _ => holder.to_owned(),
    }
}

/// A course as bars over the window, so that those of several rows stand below one another: of each piece the most.
fn bars(course: &serde_json::Value, (from, to): (Micros, Micros)) -> Vec<u64> {
    let mut bars = vec![0.0_f64; BARS];
    let points =
        course.as_array().into_iter().flatten().filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()?)));
    for (at, level) in points {
        let share = (at * SECOND as f64 - from as f64) / (to - from).max(1) as f64;
        let bar = &mut bars[((share.max(0.0) * BARS as f64) as usize).min(BARS - 1)];
        *bar = bar.max(level);
    }
    bars.into_iter().map(|level| level.ceil() as u64).collect()
}

/// Why pods have no node, in short.
fn why(table: &Table, row: &[Value]) -> Value {
    let text = |name: &str| match table.column(name).map(|at| &row[at]) {
        Some(Value::Text(text)) => text.as_str(),
        _ => "",
    };
    let (reason, message) = (text("reason"), text("message"));
    if reason == "Unschedulable" && !message.is_empty() {
        // "0/40 nodes are available: 40 Insufficient cpu. preemption: …" says all that matters up to its second part.
        let short = message.split(". ").next().unwrap_or(message);
        return short.split_once(": ").map_or(short, |(_, why)| why).replace("node(s) ", "").as_str().into();
    }
    if reason.is_empty() { "no candidate".into() } else { reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::MINUTE;
    use serde_json::json;

    #[test]
    fn bars_stand_where_their_times_are() {
        let drawn = bars(&json!([[0.0, 1.0], [30.0, 5.0], [31.0, 4.0], [60.0, 0.2]]), (0, MINUTE));
        assert_eq!((drawn.len(), drawn[0], drawn[12], drawn[23]), (BARS, 1, 5, 1));
        assert_eq!(drawn.iter().sum::<u64>(), 7);
        assert_eq!(bars(&json!(null), (0, 0)), vec![0; BARS]);
    }

    #[test]
    fn holders_are_told_by_host_and_some_of_their_number() {
        assert_eq!(short("node-1_6d842452-2c3f-4231-85b3-b28dfdc25415"), "node-1_6d842452…");
        assert_eq!(short("autoscaler_1"), "autoscaler_1");
    }
}
