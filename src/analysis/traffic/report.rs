//! A breakdown as a report: rows as fields, totals, series, a baseline. The same for audit logs ([`super::logs`])
//! and metrics ([`crate::analysis::metrics`]), which say what they measured as [`Measured`].

use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Table, Value, Window};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{counted, percent};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

/// How the result is to be shown.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Field to sort by; requests where not given.
    pub sort_by: Option<String>,
    /// Rows that people are shown; all where not given.
    pub top: Option<usize>,
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

/// Rows of a further table that people are shown, unless they ask for all.
const TABLE_ROWS: usize = 10;

/// What was measured of some requests. `None` where the source does not tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measures {
    /// Requests.
    pub requests: u64,
    /// Long-running requests that have not ended.
    pub open: Option<u64>,
    /// Requests a second.
    pub rps: Option<f64>,
    /// The highest rate.
    pub peak_rps: Option<f64>,
    /// Code 0 or ≥ 500.
    pub errors: Option<u64>,
    /// Codes 400 to 499 but 429.
    pub client_errors: Option<u64>,
    /// Code 429.
    pub throttled: u64,
    /// Median, 90th and 99th percentile, in ms.
    pub latency_ms: [Option<f64>; 3],
    /// The longest, in ms.
    pub max_ms: Option<f64>,
}

/// Measures of one row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// Start of the interval, where time is cut into intervals.
    pub interval: Option<Micros>,
    /// The values of the dimensions.
    pub dims: Vec<String>,
    /// What was measured.
    pub measures: Measures,
}

/// A breakdown, whatever it was made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The names of the dimensions.
    pub dims: Vec<String>,
    /// The rows.
    pub rows: Vec<Line>,
    /// The length of an interval, and all rows of it together.
    pub series: Option<(Micros, Vec<Line>)>,
    /// All rows together.
    pub total: Measures,
    /// The time it covers.
    pub window: Option<(Micros, Micros)>,
    /// The seconds of the window, at least one.
    pub seconds: f64,
}

/// What a source has to say beside its numbers.
#[derive(Debug, Default)]
pub struct Told {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// What the inputs show at all.
    pub coverage: Map<String, Json>,
    /// Further totals.
    pub totals: Vec<(String, Value)>,
    /// Further tables.
    pub tables: Vec<Table>,
    /// Whether people are shown those in place of the rows.
    pub show_tables: bool,
    /// Sentences above the table.
    pub lead: Vec<String>,
    /// Sentences below it.
    pub notes: Vec<String>,
    /// Findings.
    pub findings: Vec<Finding>,
}

/// The report of a breakdown, against a baseline if there is one.
pub fn report(now: Measured, base: Option<&Measured>, told: Told, shape: &Shape) -> Report {
    let sort_by = shape.sort_by.as_deref().unwrap_or(if now.series.is_some() { "time" } else { "requests" });
    let fields = fields(&now.total, now.total.requests);
    let mut totals: Vec<(String, Value)> = FIELDS.iter().map(|f| (*f).to_owned()).zip(fields).filter(|(f, _)| f != "share").collect();
    if let Some(base) = base {
        let values = base_fields(Some(&base.total), &now.total, base.total.rps);
        totals.extend(BASE_FIELDS.iter().map(|f| (*f).to_owned()).zip(values));
    }
    let series = now.series.as_ref().map(|(interval, lines)| {
        let trends = trends(&now, *interval, shape.top);
        vec![trends, intervals(&now, *interval, lines)]
    });
    let (requests, window) = (now.total.requests, now.window);
    let mut table = rows(now, base);
    sort(&mut table, sort_by);
    let before_base = FIELDS.len() - 1;
    totals.insert(before_base, ("rows".to_owned(), (table.rows.len() as u64).into()));
    totals.extend(told.totals);
    let mut notes = Vec::new();
    if let (Some(top), None) = (shape.top, &series)
        && table.rows.len() > top
        && !told.show_tables
    {
        let at = table.column("requests").unwrap_or(0);
        let rest: u64 = table.rows[top..].iter().map(|row| if let Value::Count(n) = row[at] { n } else { 0 }).sum();
        let share = rest as f64 / requests.max(1) as f64;
        notes.push(format!(
            "{} not shown, with {} of the requests; --top 0 shows all.",
            counted((table.rows.len() - top) as u64, "more row"),
            percent(share)
        ));
    }
    notes.extend(told.notes);
    let first_rows = |table: &Table| {
        let mut table = table.clone();
        let (all, shown) = (table.rows.len(), shape.top.map_or(usize::MAX, |top| top.min(TABLE_ROWS)));
        if all > shown {
            table.rows.truncate(shown);
            table.title += &format!(" (the first {shown} of {all})");
        }
        table
    };
    let shown = told.show_tables.then(|| told.tables.iter().map(first_rows).collect());
    Report {
        schema: "plimsoll.traffic/v1".to_owned(),
        window: window.map_or_else(Window::default, |(from, to)| Window {
            from: time::format(from),
            to: time::format(to),
            seconds: (to - from) as f64 / SECOND as f64,
        }),
        coverage: told.coverage,
        inputs: told.inputs,
        totals,
        table,
        shown: shape.top,
        tables: told.tables,
        people: shown.or(series),
        lead: told.lead,
        notes,
        findings: told.findings,
        ..Report::default()
    }
}

fn rows(now: Measured, base: Option<&Measured>) -> Table {
    let mut columns = Vec::new();
    columns.extend(now.series.as_ref().map(|_| "time".to_owned()));
    columns.extend(now.dims);
    columns.extend(FIELDS.iter().map(|f| (*f).to_owned()));
    if base.is_some() {
        columns.extend(BASE_FIELDS.iter().map(|f| (*f).to_owned()));
    }
    let mut before: HashMap<&[String], &Measures> =
        base.iter().flat_map(|b| &b.rows).map(|line| (line.dims.as_slice(), &line.measures)).collect();
    let mut table = Table { columns, ..Table::default() };
    let all = now.total.requests;
    let base_rps = base.and_then(|base| base.total.rps);
    let mut add = |line: Line, was: Option<&Measures>| {
        let mut values: Vec<Value> = Vec::new();
        values.extend(line.interval.map(|at| Value::Text(time::format(at))));
        values.extend(line.dims.into_iter().map(Value::Text));
        values.extend(fields(&line.measures, all));
        if base.is_some() {
            values.extend(base_fields(was, &line.measures, base_rps));
        }
        table.rows.push(values);
    };
    for line in now.rows {
        let was = before.remove(line.dims.as_slice());
        add(line, was);
    }
    // What is gone is a change too.
    let mut gone: Vec<_> = before.into_iter().collect();
    gone.sort_by_key(|(dims, _)| *dims);
    for (dims, was) in gone {
        let measures = Measures {
            rps: now.total.rps.map(|_| 0.0),
            peak_rps: now.total.peak_rps.map(|_| 0.0),
            open: now.total.open.map(|_| 0),
            errors: now.total.errors.map(|_| 0),
            client_errors: now.total.client_errors.map(|_| 0),
            ..Measures::default()
        };
        add(Line { interval: None, dims: dims.to_vec(), measures }, Some(was));
    }
    table
}

fn fields(m: &Measures, of: u64) -> [Value; 13] {
    let per = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
    let [p50, p90, p99] = m.latency_ms;
    [
        Value::Count(m.requests),
        m.open.into(),
        per(m.requests, of).into(),
        m.rps.into(),
        m.peak_rps.into(),
        m.errors.into(),
        m.client_errors.into(),
        Value::Count(m.throttled),
        m.errors.and_then(|errors| per(errors, m.requests)).into(),
        p50.into(),
        p90.into(),
        p99.into(),
        m.max_ms.into(),
    ]
}

/// `base_rps` is the rate of all of the baseline: where there is one, a row that it lacks had a rate of 0.
fn base_fields(was: Option<&Measures>, now: &Measures, base_rps: Option<f64>) -> [Value; 6] {
    let rate = was.map_or(base_rps.map(|_| 0.0), |was| was.rps);
    let base_p99 = was.and_then(|was| was.latency_ms[2]);
    let change = |(now, was): (f64, f64)| (was > 0.0).then(|| now / was - 1.0);
    [
        Value::Count(was.map_or(0, |was| was.requests)),
        rate.into(),
        now.rps.zip(rate).and_then(change).into(),
        was.filter(|was| was.requests > 0).and_then(|was| Some(was.errors? as f64 / was.requests as f64)).into(),
        base_p99.into(),
        now.latency_ms[2].zip(base_p99).and_then(change).into(),
    ]
}

/// Sorts by a field: numbers and counts from the largest, text from the smallest; ties as they were.
fn sort(table: &mut Table, field: &str) {
    let Some(at) = table.column(field) else { return };
    table.rows.sort_by(|a, b| a[at].in_order(&b[at]));
}

/// For people: each row once, with its course over time as bars.
fn trends(now: &Measured, interval: Micros, top: Option<usize>) -> Table {
    let (first, last) = bounds(now, interval);
    let slots = ((last - first) / interval + 1).clamp(1, 4096) as usize;
    let mut by_row: HashMap<&[String], (u64, Vec<u64>)> = HashMap::new();
    for line in &now.rows {
        let (requests, counts) = by_row.entry(line.dims.as_slice()).or_insert_with(|| (0, vec![0; slots]));
        *requests += line.measures.requests;
        if let Some(slot) = line.interval.map(|at| ((at - first) / interval) as usize).filter(|&slot| slot < slots) {
            counts[slot] += line.measures.requests;
        }
    }
    let mut columns = now.dims.clone();
    columns.extend(["requests", "share", "rps", "trend"].map(str::to_owned));
    let total = now.total.requests.max(1) as f64;
    let mut lines: Vec<_> = by_row.into_iter().collect();
    lines.sort_by(|(a, (more, _)), (b, (less, _))| less.cmp(more).then_with(|| a.cmp(b)));
    lines.truncate(top.unwrap_or(usize::MAX));
    let rows = lines.into_iter().map(|(dims, (requests, counts))| {
        let mut row: Vec<Value> = dims.iter().map(|text| Value::from(text.as_str())).collect();
        let share = requests as f64 / total;
        row.extend([requests.into(), share.into(), (requests as f64 / now.seconds).into(), Value::Series(squeeze(&counts))]);
        row
    });
    Table { rows: rows.collect(), columns, ..Table::default() }
}

/// At most 60 bars.
fn squeeze(counts: &[u64]) -> Vec<u64> {
    let width = counts.len().div_ceil(60);
    counts.chunks(width.max(1)).map(|chunk| chunk.iter().sum()).collect()
}

/// For people: all rows together, by interval; intervals without requests too.
fn intervals(now: &Measured, interval: Micros, lines: &[Line]) -> Table {
    let by_time: HashMap<Micros, &Measures> = lines.iter().map(|line| (line.interval.unwrap_or_default(), &line.measures)).collect();
    let (first, last) = bounds(now, interval);
    let mut columns = vec!["time".to_owned()];
    columns.extend(FIELDS.iter().filter(|f| **f != "peak_rps").map(|f| (*f).to_owned()));
    let nothing = Measures { rps: Some(0.0), open: Some(0), errors: Some(0), client_errors: Some(0), ..Measures::default() };
    let mut rows = Vec::new();
    let mut at = first;
    while at <= last && rows.len() < 4096 {
        let mut values = vec![Value::Text(time::format(at))];
        let fields = fields(by_time.get(&at).unwrap_or(&&nothing), now.total.requests);
        values.extend(FIELDS.iter().zip(fields).filter(|(f, _)| **f != "peak_rps").map(|(_, value)| value));
        rows.push(values);
        at += interval;
    }
    Table { columns, rows, ..Table::default() }
}

fn bounds(now: &Measured, interval: Micros) -> (Micros, Micros) {
    let align = |at: Micros| at - at.rem_euclid(interval);
    let (first, last) = now.window.unwrap_or_default();
    (align(first), align(last))
}
