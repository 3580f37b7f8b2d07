//! What is written again and again.

use super::report::{hidden, sort};
use super::{Key, Keyspace, findings, top};
use crate::analysis::keyspace::file::{File, of};
use crate::model::report::{Report, Table, Value, Window};
use crate::model::time::{self, SECOND};
use crate::model::units::{bytes, counted, duration, grouped};
use std::collections::{BTreeMap, HashMap};

pub use crate::model::question::HistoryBy as By;

/// The time that values report. etcd keeps no times; the objects do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// The latest in revisions up to the last compaction.
    before: Option<i64>,
    /// The first since.
    first: Option<i64>,
    /// The latest of all.
    last: Option<i64>,
}

impl Clock {
    /// Takes the time (seconds since 1970) that a value shows; `is_write`: whether it was written since the last
    /// compaction.
    pub fn take(&mut self, at: Option<i64>, is_write: bool) {
        let Some(at) = at else { return };
        if is_write {
            self.first = Some(self.first.map_or(at, |first| first.min(at)));
        } else {
            self.before = self.before.max(Some(at));
        }
        self.last = self.last.max(Some(at));
    }

    /// Takes in what another thread met.
    pub fn merge(&mut self, other: Self) {
        self.before = self.before.max(other.before);
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = self.last.max(other.last);
    }

    /// From the last compaction to the last write: seconds since 1970.
    pub fn window(&self) -> Option<(i64, i64)> {
        let (from, to) = (self.before.or(self.first)?, self.last?);
        (from < to).then_some((from, to))
    }
}

/// Sums of a row.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    keys: u64,
    writes: u64,
    deletes: u64,
    written: u64,
    history: u64,
}

impl Sum {
    fn add(&mut self, key: &Key) {
        self.keys += u64::from(key.writes > 0);
        self.writes += u64::from(key.writes);
        self.deletes += u64::from(key.deletes);
        self.written += key.written;
        self.history += key.history_bytes();
    }

    fn values(self, hours: Option<f64>) -> [Value; 6] {
        let per_hour = |number: u64| Value::from(hours.map(|hours| number as f64 / hours));
        [
            self.writes.into(),
            self.deletes.into(),
            self.written.into(),
            per_hour(self.writes),
            per_hour(self.written),
            self.history.into(),
        ]
    }
}

/// The fields of a row behind its names, by which rows are sorted.
pub const FIELDS: [&str; 6] =
    ["writes", "deletes", "written_bytes", "writes_per_hour", "written_bytes_per_hour", "history_bytes"];

/// The keys that the table will show, those written most since the last compaction; and those that findings are about,
/// however few are shown.
pub fn keys(space: &Keyspace, sort_by: Option<&str>, top: Option<usize>) -> Vec<Key> {
    let shown = top::leading(space, top, |key| {
        let measure = match sort_by {
            Some("writes" | "writes_per_hour") => u64::from(key.writes),
            Some("deletes") => u64::from(key.deletes),
            Some("history_bytes") => key.history_bytes(),
            _ => key.written,
        };
        (key.writes > 0).then_some(measure)
    });
    let hot = |key: &Key| Some(u64::from(key.writes)).filter(|writes| *writes >= findings::HOT);
    top::with(shown, top::leading(space, Some(findings::MAX_NAMED), hot))
}

/// How rows are made and shown.
#[derive(Debug, Clone, Default)]
pub struct Shape<'s> {
    /// What rows are grouped by.
    pub by: By,
    /// Field to sort by.
    pub sort_by: Option<&'s str>,
    /// Rows that people are shown.
    pub top: Option<usize>,
}

/// The report of `etcd history`; `names` are the texts of `keys`.
pub fn report(
    space: &Keyspace,
    keys: &[Key],
    names: &HashMap<u64, String>,
    clock: Clock,
    file: File,
    shape: &Shape<'_>,
) -> Report {
    let window = clock.window();
    let hours = window.map(|(from, to)| (to - from) as f64 / 3600.0);
    let mut total = Sum::default();
    let mut by: BTreeMap<Vec<String>, Sum> = BTreeMap::new();
    space.each(|key, _| {
        total.add(key);
        if shape.by != By::Key && key.writes > 0 {
            let place = space.name(key.place);
            let parsed = space.parse(&place);
            let names = match shape.by {
                By::Resource => vec![parsed.group, parsed.resource],
                _ => vec![parsed.prefix, parsed.group, parsed.resource, parsed.namespace],
            };
            by.entry(names.into_iter().map(str::to_owned).collect()).or_default().add(key);
        }
    });
    let names_of: &[&str] = match shape.by {
        By::Key => &["key", "group", "resource", "namespace", "name", "is_live"],
        By::Prefix => &["prefix", "group", "resource", "namespace", "keys"],
        By::Resource => &["group", "resource", "keys"],
    };
    let columns: Vec<String> = names_of.iter().copied().chain(FIELDS).map(str::to_owned).collect();
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for key in keys.iter().filter(|_| shape.by == By::Key) {
        let Some(name) = names.get(&key.hash) else { continue };
        let parsed = space.parse(name);
        let mut row: Vec<Value> =
            [name, parsed.group, parsed.resource, parsed.namespace, parsed.name].map(Value::from).into();
        row.push(if key.lives() { "yes" } else { "no" }.into());
        let mut sum = Sum::default();
        sum.add(key);
        row.extend(sum.values(hours));
        rows.push(row);
    }
    for (names, sum) in by {
        let mut row: Vec<Value> = names.into_iter().map(Value::Text).collect();
        row.push(sum.keys.into());
        row.extend(sum.values(hours));
        rows.push(row);
    }
    let first = columns[0].clone();
    sort(&columns, &mut rows, &first);
    sort(&columns, &mut rows, shape.sort_by.unwrap_or("written_bytes"));
    let returnable = file.free_bytes() + total.history;
    let mut totals: Vec<(String, Value)> = [("keys".to_owned(), total.keys.into())].into();
    totals.extend(FIELDS.iter().map(|f| (*f).to_owned()).zip(total.values(hours)));
    totals.extend(file.totals());
    totals.push(("returnable_bytes".to_owned(), returnable.into()));
    let mut found = findings::FileFindings::new(&file);
    findings::of_history(&columns, &rows, total.writes, &mut found);
    let mut notes = Vec::new();
    if shape.by == By::Key {
        rows.truncate(shape.top.unwrap_or(usize::MAX));
        notes.extend(hidden(total.keys as usize, shape.top));
    } else {
        notes.extend(hidden(rows.len(), shape.top));
    }
    notes.extend(file.notes());
    Report {
        schema: "plimsoll.etcd-history/v1".to_owned(),
        coverage: file.coverage(),
        window: window.map_or_else(Window::default, |(from, to)| Window {
            from: time::format(from * SECOND),
            to: time::format(to * SECOND),
            seconds: (to - from) as f64,
        }),
        lead: lead(&file, total, clock, returnable),
        findings: found.list,
        totals,
        shown: shape.top,
        table: Table { columns, rows, ..Table::default() },
        inputs: file.inputs,
        notes,
        ..Report::default()
    }
}

fn lead(file: &File, total: Sum, clock: Clock, returnable: u64) -> Vec<String> {
    let since = if file.compacted > 0 {
        format!(" since the compaction at revision {}", grouped(file.compacted))
    } else {
        String::new()
    };
    let span = match (clock.window(), clock.last) {
        (Some((from, to)), _) => format!(", in {} by the times in the values", duration((to - from) * SECOND)),
        (None, Some(at)) => format!("; the times in the values are all {}", time::format(at * SECOND)),
        (None, None) => "; the values hold no times".to_owned(),
    };
    vec![
        format!(
            "{} of {}{since}{span}: {}.",
            counted(total.writes, "write"),
            counted(total.keys, "key"),
            bytes(total.written as f64)
        ),
        format!(
            "Compaction would free {} of dead revisions; defragmentation then returns these and the free pages: {} \
             {} of {} ({}).",
            bytes(total.history as f64),
            if file.is_damaged() { "not more than" } else { "about" },
            bytes(returnable as f64),
            bytes(file.db_bytes as f64),
            of(returnable, file.db_bytes)
        ),
    ]
}
