//! The breakdown as a report: rows as fields, totals, what the log shows at all, and the sentences
//! above and below the table.

use super::{Breakdown, Query, Row, Stats};
use crate::model::event::{Level, Stage};
use crate::model::input::{Coverage, InputReport, Loss};
use crate::model::report::{Report, Table, Value, Window};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{counted, duration, grouped, percent, significant};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, HashMap};

/// How the result is to be shown.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Field to sort by; requests where not given.
    pub sort_by: Option<String>,
    /// Rows that people are shown; all where not given.
    pub top: Option<usize>,
}

/// What was read, beside the breakdown itself.
#[derive(Debug, Default)]
pub struct Reading {
    /// One per file.
    pub inputs: Vec<InputReport>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// What each stream shows.
    pub coverage: Vec<Coverage>,
    /// Cluster and instance of each stream.
    pub streams: Vec<(String, String)>,
    /// The version of the apiservers and where it is known from, if it is.
    pub server: Option<(String, &'static str)>,
}

/// The fields of a row behind its dimensions.
pub const FIELDS: [&str; 13] = [
    "requests",
    "open",
    "share",
    "rps",
    "peak_rps",
    "errors",
    "client_errors",
    "throttled",
    "error_rate",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "max_ms",
];

/// The fields that a baseline adds.
pub const BASE_FIELDS: [&str; 6] = ["base_requests", "base_rps", "rps_change", "base_error_rate", "base_p99_ms", "p99_change"];

/// A breakdown and the seconds it covers.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// The breakdown.
    pub breakdown: &'a Breakdown,
    /// From the first to the last event within the query's bounds, whether its filters accept them or not; at least one second.
    pub seconds: f64,
}

impl<'a> Measured<'a> {
    /// Measures `breakdown`, which answers `query`.
    pub fn new(breakdown: &'a Breakdown) -> Self {
        let window = window(breakdown).map_or(0, |(from, to)| to - from);
        Self { breakdown, seconds: (window as f64 / SECOND as f64).max(1.0) }
    }
}

/// The time counted: from the first to the last event within the query's bounds.
fn window(breakdown: &Breakdown) -> Option<(Micros, Micros)> {
    breakdown.first.zip(breakdown.last)
}

/// The report of a breakdown, against a baseline if there is one.
pub fn report(query: &Query, now: Measured<'_>, base: Option<Measured<'_>>, reading: Reading, shape: &Shape) -> Report {
    let breakdown = now.breakdown;
    let dims: Vec<String> = query.by.iter().map(|dim| dim.name().to_owned()).collect();
    let mut table = rows(&dims, query, now, base);
    let sort_by = shape.sort_by.as_deref().unwrap_or(if query.interval.is_some() { "time" } else { "requests" });
    sort(&mut table, sort_by);
    let seconds = now.seconds;
    let window = window(breakdown);
    let mut totals: Vec<(String, Value)> =
        FIELDS.iter().map(|f| (*f).to_owned()).zip(fields(&breakdown.total, breakdown, seconds)).filter(|(f, _)| f != "share").collect();
    totals.push(("rows".to_owned(), (table.rows.len() as u64).into()));
    if let Some(base) = base {
        let values = base_fields(Some(&base.breakdown.total), &breakdown.total, now, base);
        totals.extend(BASE_FIELDS.iter().map(|f| (*f).to_owned()).zip(values));
    }
    let lead = lead(breakdown, window, seconds, &reading);
    let mut notes = Vec::new();
    let summary = query.interval.map(|interval| {
        let summary = trends(&dims, query, now, interval, shape.top);
        (summary, intervals(now, interval))
    });
    if let (Some(top), None) = (shape.top, query.interval)
        && table.rows.len() > top
    {
        let at = table.column("requests").unwrap_or(0);
        let rest: u64 = table.rows[top..].iter().map(|row| if let Value::Count(n) = row[at] { n } else { 0 }).sum();
        let share = rest as f64 / breakdown.total.stats.requests.max(1) as f64;
        notes.push(format!(
            "{} not shown, with {} of the requests; --top 0 shows all.",
            counted((table.rows.len() - top) as u64, "more row"),
            percent(share)
        ));
    }
    notes.extend(notes_on(breakdown, &reading));
    Report {
        schema: "plimsoll.traffic/v1".to_owned(),
        window: window.map_or_else(Window::default, |(from, to)| Window {
            from: time::format(from),
            to: time::format(to),
            seconds: (to - from) as f64 / SECOND as f64,
        }),
        coverage: coverage(breakdown, &reading),
        inputs: reading.inputs,
        totals,
        table,
        shown: shape.top,
        people: summary.map(|(trends, intervals)| vec![trends, intervals]),
        lead,
        notes,
        findings: Vec::new(),
    }
}

fn rows(dims: &[String], query: &Query, now: Measured<'_>, base: Option<Measured<'_>>) -> Table {
    let mut columns = Vec::new();
    columns.extend(query.interval.map(|_| "time".to_owned()));
    columns.extend(dims.iter().cloned());
    columns.extend(FIELDS.iter().map(|f| (*f).to_owned()));
    if base.is_some() {
        columns.extend(BASE_FIELDS.iter().map(|f| (*f).to_owned()));
    }
    let mut before: HashMap<&[String], &Row> =
        base.iter().flat_map(|b| b.breakdown.rows.iter()).map(|row| (row.dims.as_slice(), row)).collect();
    let seconds = query.interval.map_or(now.seconds, |interval| interval as f64 / SECOND as f64);
    let mut table = Table { columns, rows: Vec::new() };
    let nothing = Row::default();
    let mut add = |row: &Row, dims: &[String], was: Option<&Row>| {
        let mut values: Vec<Value> = Vec::new();
        values.extend(row.interval.map(|at| Value::Text(time::format(at))));
        values.extend(dims.iter().map(|text| Value::from(text.as_str())));
        values.extend(fields(row, now.breakdown, seconds));
        if let Some(base) = base {
            values.extend(base_fields(was, row, now, base));
        }
        table.rows.push(values);
    };
    for row in &now.breakdown.rows {
        add(row, &row.dims, before.remove(row.dims.as_slice()));
    }
    // What is gone is a change too.
    let mut gone: Vec<_> = before.into_iter().collect();
    gone.sort_by_key(|(dims, _)| *dims);
    for (dims, was) in gone {
        add(&nothing, dims, Some(was));
    }
    table
}

fn fields(row: &Row, breakdown: &Breakdown, seconds: f64) -> [Value; 13] {
    let Stats { requests, open, errors, client_errors, throttled, latency } = &row.stats;
    let ms = |q: f64| Value::from(latency.quantile(q).map(|micros| micros / 1e3));
    let per = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
    [
        Value::Count(*requests),
        Value::Count(*open),
        per(*requests, breakdown.total.stats.requests).into(),
        (*requests as f64 / seconds).into(),
        row.peak_rps.into(),
        Value::Count(*errors),
        Value::Count(*client_errors),
        Value::Count(*throttled),
        per(*errors, *requests).into(),
        ms(0.5),
        ms(0.9),
        ms(0.99),
        (!latency.is_empty()).then(|| latency.max as f64 / 1e3).into(),
    ]
}

fn base_fields(was: Option<&Row>, row: &Row, now: Measured<'_>, base: Measured<'_>) -> [Value; 6] {
    let requests = was.map_or(0, |was| was.stats.requests);
    let (rate, base_rate) = (row.stats.requests as f64 / now.seconds, requests as f64 / base.seconds);
    let p99 = |row: &Row| row.stats.latency.quantile(0.99).map(|micros| micros / 1e3);
    let base_p99 = was.and_then(p99);
    let change = |now: f64, was: f64| (was > 0.0).then(|| now / was - 1.0);
    [
        Value::Count(requests),
        base_rate.into(),
        change(rate, base_rate).into(),
        was.filter(|was| was.stats.requests > 0).map(|was| was.stats.errors as f64 / was.stats.requests as f64).into(),
        base_p99.into(),
        base_p99.zip(p99(row)).and_then(|(was, now)| change(now, was)).into(),
    ]
}

/// Sorts by a field: numbers and counts from the largest, text from the smallest; ties as they were.
fn sort(table: &mut Table, field: &str) {
    let Some(at) = table.column(field) else { return };
    table.rows.sort_by(|a, b| match (&a[at], &b[at]) {
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (a, b) => number(b).total_cmp(&number(a)),
    });
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Count(count) => *count as f64,
        Value::Number(number) => *number,
        _ => f64::NEG_INFINITY,
    }
}

/// For people: each row once, with its course over time as bars.
fn trends(dims: &[String], query: &Query, now: Measured<'_>, interval: Micros, top: Option<usize>) -> Table {
    let (first, last) = bounds(now.breakdown, interval);
    let slots = ((last - first) / interval + 1).clamp(1, 4096) as usize;
    let mut by_row: BTreeMap<&[String], (Stats, Vec<u64>)> = BTreeMap::new();
    for row in &now.breakdown.rows {
        let (stats, counts) = by_row.entry(row.dims.as_slice()).or_insert_with(|| (Stats::default(), vec![0; slots]));
        stats.merge(&row.stats);
        if let Some(slot) = row.interval.map(|at| ((at - first) / interval) as usize).filter(|&slot| slot < slots) {
            counts[slot] += row.stats.requests;
        }
    }
    let mut columns = dims.to_vec();
    columns.extend(["requests", "share", "rps", "trend"].map(str::to_owned));
    let total = now.breakdown.total.stats.requests.max(1) as f64;
    let mut rows: Vec<(u64, Vec<Value>)> = by_row
        .into_iter()
        .map(|(dims, (stats, counts))| {
            let mut row: Vec<Value> = dims.iter().map(|text| Value::from(text.as_str())).collect();
            let requests = stats.requests;
            row.extend([
                requests.into(),
                (requests as f64 / total).into(),
                (requests as f64 / now.seconds).into(),
                Value::Series(squeeze(&counts)),
            ]);
            (requests, row)
        })
        .collect();
    rows.sort_by_key(|(requests, _)| std::cmp::Reverse(*requests));
    rows.truncate(top.unwrap_or(usize::MAX));
    debug_assert_eq!(query.interval, Some(interval));
    Table { columns, rows: rows.into_iter().map(|(_, row)| row).collect() }
}

/// At most 60 bars.
fn squeeze(counts: &[u64]) -> Vec<u64> {
    let width = counts.len().div_ceil(60);
    counts.chunks(width.max(1)).map(|chunk| chunk.iter().sum()).collect()
}

/// For people: all rows together, by interval; intervals without requests too.
fn intervals(now: Measured<'_>, interval: Micros) -> Table {
    let mut by_time: BTreeMap<Micros, Stats> = BTreeMap::new();
    for row in &now.breakdown.rows {
        by_time.entry(row.interval.unwrap_or_default()).or_default().merge(&row.stats);
    }
    let (first, last) = bounds(now.breakdown, interval);
    let mut columns = vec!["time".to_owned()];
    columns.extend(FIELDS.iter().filter(|f| **f != "peak_rps").map(|f| (*f).to_owned()));
    let mut rows = Vec::new();
    let mut at = first;
    while at <= last && rows.len() < 4096 {
        let row = Row { stats: by_time.remove(&at).unwrap_or_default(), ..Row::default() };
        let mut values = vec![Value::Text(time::format(at))];
        let named = FIELDS.iter().zip(fields(&row, now.breakdown, interval as f64 / SECOND as f64));
        values.extend(named.filter(|(f, _)| **f != "peak_rps").map(|(_, value)| value));
        rows.push(values);
        at += interval;
    }
    Table { columns, rows }
}

fn bounds(breakdown: &Breakdown, interval: Micros) -> (Micros, Micros) {
    let align = |at: Micros| at - at.rem_euclid(interval);
    (align(breakdown.first.unwrap_or(0)), align(breakdown.last.unwrap_or(0)))
}

fn lead(breakdown: &Breakdown, window: Option<(Micros, Micros)>, seconds: f64, reading: &Reading) -> Vec<String> {
    let total = &breakdown.total;
    let Some((from, to)) = window else {
        return vec!["No request was counted: no event matched, or the log holds none.".to_owned()];
    };
    let Stats { requests, open, errors, client_errors, throttled, latency } = &total.stats;
    let share = |count: u64| percent(count as f64 / (*requests).max(1) as f64);
    let mut first = format!(
        "{} in {} ({}/s, peak {}/s): {} 5xx, {} 4xx, {} 429",
        counted(*requests, "request"),
        duration(to - from),
        significant(*requests as f64 / seconds),
        significant(total.peak_rps),
        share(*errors),
        share(*client_errors),
        share(*throttled),
    );
    if let (Some(p50), Some(p99)) = (latency.quantile(0.5), latency.quantile(0.99)) {
        first += &format!(", p50 {} ms, p99 {} ms", significant(p50 / 1e3), significant(p99 / 1e3));
    }
    if *open > 0 {
        first += &format!("; {} still open", grouped(*open));
    }
    let names: Vec<&str> = reading.streams.iter().map(|(_, instance)| instance.as_str()).filter(|name| !name.is_empty()).collect();
    let mut clusters: Vec<&str> = reading.streams.iter().map(|(cluster, _)| cluster.as_str()).filter(|name| !name.is_empty()).collect();
    clusters.dedup();
    let mut second = format!("{} to {}", time::format(from), time::format(to));
    if !names.is_empty() && names.len() <= 4 {
        second += &format!(", {}", names.join(", "));
    } else if names.len() > 4 {
        second += &format!(", {} apiservers", names.len());
    }
    if !clusters.is_empty() {
        second += &format!(" of {}", clusters.join(", "));
    }
    vec![first + ".", second + "."]
}

/// What a reader of the shares has to know.
fn notes_on(breakdown: &Breakdown, reading: &Reading) -> Vec<String> {
    let mut notes = Vec::new();
    let lost: u64 = reading.losses.iter().map(|loss| loss.count).sum();
    if lost > 0 {
        notes.push(format!("{} of the input lost or damaged; the messages say which and why.", counted(lost, "part")));
    }
    if breakdown.folded > 0 {
        notes.push(format!(
            "{} of rows beyond {} counted as {}.",
            counted(breakdown.folded, "request"),
            grouped(super::MAX_ROWS as u64),
            super::OTHER
        ));
    }
    if breakdown.audit_ids.repeated > 0 {
        let about = if breakdown.audit_ids.estimated { "about " } else { "" };
        notes.push(format!(
            "{about}{} with an audit id that another one has (clients may choose it, or a log was given twice); all are counted.",
            counted(breakdown.audit_ids.repeated, "request")
        ));
    }
    if breakdown.late_for_peak > 0 {
        notes.push(format!("{} too far out of order to be seen in PEAK/S.", counted(breakdown.late_for_peak, "request")));
    }
    notes
}

fn coverage(breakdown: &Breakdown, reading: &Reading) -> Map<String, Json> {
    let mut all = Coverage::default();
    reading.coverage.iter().for_each(|c| all.merge(c));
    let mut levels = Map::new();
    for level in Level::ALL {
        let stages: Map<String, Json> = Stage::ALL
            .iter()
            .map(|&stage| (stage.name().to_owned(), all.events[level as usize][stage as usize]))
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name, count.into()))
            .collect();
        if !stages.is_empty() {
            let name = if level == Level::Unknown { "unknown" } else { level.name() };
            levels.insert(name.to_owned(), Json::Object(stages));
        }
    }
    let lost: Vec<Json> = reading
        .losses
        .iter()
        .map(|loss| json!({"path": loss.path, "line": loss.line, "offset": loss.offset, "reason": loss.kind.explain().0, "count": loss.count, "detail": loss.detail}))
        .collect();
    let streams: Vec<Json> = reading
        .streams
        .iter()
        .zip(&reading.coverage)
        .map(|((cluster, instance), c)| json!({"cluster": cluster, "instance": instance, "events": c.total(), "first": c.first.map(time::format), "last": c.last.map(time::format)}))
        .collect();
    let value = json!({
        "source": "audit",
        "lines": all.lines,
        "events": levels,
        "streams": streams,
        "lost": lost,
        "unfinished_lines": all.unfinished_lines,
        "repeated_audit_ids": {"requests": breakdown.audit_ids.repeated, "estimated": breakdown.audit_ids.estimated},
        "folded_requests": breakdown.folded,
        "late_for_peak": breakdown.late_for_peak,
        "kubernetes_version": reading.server.as_ref().map(|(version, _)| version),
        "kubernetes_version_from": reading.server.as_ref().map(|(_, from)| from),
    });
    if let Json::Object(map) = value { map } else { Map::new() }
}
