//! A breakdown as a report: rows as fields, totals, series, a baseline. The same for audit logs ([`super::logs`])
//! and metrics ([`crate::analysis::metrics`]), which say what they measured as [`Measured`].

use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Table, Value, Window};
use crate::model::time::{self, Micros};
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
    /// Whether the report holds the rows that are shown, and no others: of a large cluster there are 100,000.
    pub shown_only: bool,
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
pub const BASE_FIELDS: [&str; 6] =
    ["base_requests", "base_rps", "rps_change", "base_error_rate", "base_p99_ms", "p99_change"];

/// Rows of a further table that people are shown, unless they ask for all.
const TABLE_ROWS: usize = 10;

/// What was measured of some requests. `None` where the source does not show.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measures {
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
    pub measures: Measures,
}

/// A breakdown, whatever it was made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The names of the dimensions.
    pub dims: Vec<String>,
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
pub struct TrafficInput {
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
    pub findings: Vec<Finding>,
}

/// The report of a breakdown, against a baseline if there is one.
pub fn report(now: Measured, base: Option<&Measured>, input: TrafficInput, shape: &Shape) -> Report {
    let sort_by = shape.sort_by.as_deref().unwrap_or(if now.series.is_some() { "time" } else { "requests" });
    let fields = fields(&now.total, now.total.requests);
    let mut totals: Vec<(String, Value)> =
        FIELDS.iter().map(|f| (*f).to_owned()).zip(fields).filter(|(f, _)| f != "share").collect();
    if let Some(base) = base {
        let values = base_fields(Some(&base.total), &now.total, base.total.rps);
        totals.extend(BASE_FIELDS.iter().map(|f| (*f).to_owned()).zip(values));
    }
    let series = now.series.as_ref().map(|(interval, lines)| {
        let trends = trends(&now, *interval, shape.top);
        vec![trends, intervals(&now, *interval, lines)]
    });
    let (requests, window) = (now.total.requests, now.window);
    let mut rows = Rows::new(now, base);
    let order = rows.order(sort_by);
    let before_base = FIELDS.len() - 1;
    totals.insert(before_base, ("rows".to_owned(), (order.len() as u64).into()));
    totals.extend(input.totals);
    let mut notes = Vec::new();
    if let (Some(top), None) = (shape.top, &series)
        && order.len() > top
        && !input.show_tables
    {
        let rest: u64 = order[top..].iter().map(|&row| rows.lines[row].measures.requests).sum();
        let share = rest as f64 / requests.max(1) as f64;
        notes.push(format!(
            "{} not shown, with {} of the requests; --top 0 shows all.",
            counted((order.len() - top) as u64, "more row"),
            percent(share)
        ));
    }
    let made = if shape.shown_only { shape.top.unwrap_or(usize::MAX) } else { usize::MAX };
    let table = Table {
        rows: order.iter().take(made).map(|&row| rows.values(row)).collect(),
        columns: rows.columns,
        ..Table::default()
    };
    notes.extend(input.notes);
    let first_rows = |table: &Table| {
        let mut table = table.clone();
        let (all, shown) = (table.rows.len(), shape.top.map_or(usize::MAX, |top| top.min(TABLE_ROWS)));
        if all > shown {
            table.rows.truncate(shown);
            table.title += &format!(" (the first {shown} of {all})");
        }
        table
    };
    let shown = input.show_tables.then(|| input.tables.iter().map(first_rows).collect());
    Report {
        schema: "plimsoll.traffic/v1".to_owned(),
        window: Window::of(window),
        coverage: input.coverage,
        inputs: input.inputs,
        totals,
        table,
        shown: shape.top,
        tables: input.tables,
        people: shown.or(series),
        lead: input.lead,
        notes,
        findings: input.findings,
        ..Report::default()
    }
}

/// The rows before anything is made of them that can be shown: that takes longer than to count them.
struct Rows<'b> {
    columns: Vec<String>,
    lines: Vec<Line>,
    /// By row: what it was in the baseline. Empty where there is none.
    was: Vec<Option<&'b Measures>>,
    /// Columns before those of [`FIELDS`], of which one may be the time.
    before: usize,
    has_time: bool,
    has_base: bool,
    /// Requests of all rows; the rate of all of the baseline.
    requests: u64,
    base_rps: Option<f64>,
}

impl<'b> Rows<'b> {
    fn new(now: Measured, base: Option<&'b Measured>) -> Self {
        let has_time = now.series.is_some();
        let mut columns: Vec<String> = has_time.then(|| "time".to_owned()).into_iter().chain(now.dims).collect();
        let before = columns.len();
        columns.extend(FIELDS.iter().chain(base.map_or(&[][..], |_| &BASE_FIELDS)).map(|f| (*f).to_owned()));
        let mut lines = now.rows;
        let was = base.map_or(Vec::new(), |base| against(&mut lines, &now.total, base));
        let base_rps = base.and_then(|base| base.total.rps);
        Self { columns, lines, was, before, has_time, has_base: base.is_some(), requests: now.total.requests, base_rps }
    }

    /// The order of the rows by a field: numbers and counts from the largest, text from the smallest; ties as they
    /// were.
    fn order(&self, field: &str) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        if let Some(column) = self.columns.iter().position(|column| column == field) {
            let keys: Vec<Value> = order.iter().map(|&row| self.value(row, column)).collect();
            order.sort_by(|&a, &b| keys[a].in_order(&keys[b]));
        }
        order
    }

    /// What stands in a column of a row.
    fn value(&self, row: usize, column: usize) -> Value {
        let line = &self.lines[row];
        let [of_field, of_base] = [self.before, self.before + FIELDS.len()].map(|from| column.checked_sub(from));
        let value = match (of_field, of_base) {
            (None, _) if self.has_time && column == 0 => line.interval.map(time::format),
            (None, _) => line.dims.get(column - usize::from(self.has_time)).cloned(),
            (Some(at), None) => {
                return fields(&line.measures, self.requests).into_iter().nth(at).unwrap_or(Value::None);
            }
            (_, Some(at)) => {
                return base_fields(self.was[row], &line.measures, self.base_rps)
                    .into_iter()
                    .nth(at)
                    .unwrap_or(Value::None);
            }
        };
        value.map_or(Value::None, Value::Text)
    }

    /// All that stands in a row; its dimensions are taken from it.
    fn values(&mut self, row: usize) -> Vec<Value> {
        let line = &mut self.lines[row];
        let mut values = Vec::with_capacity(self.columns.len());
        // What is beyond the limit of rows is of no interval.
        values.extend(self.has_time.then(|| line.interval.map_or(Value::None, |at| Value::Text(time::format(at)))));
        values.extend(std::mem::take(&mut line.dims).into_iter().map(Value::Text));
        values.extend(fields(&line.measures, self.requests));
        if self.has_base {
            values.extend(base_fields(self.was[row], &line.measures, self.base_rps));
        }
        values
    }
}

/// What rows were before. Removed rows are added: that is a change too.
fn against<'b>(lines: &mut Vec<Line>, total: &Measures, base: &'b Measured) -> Vec<Option<&'b Measures>> {
    let mut before: HashMap<&[String], &Measures> =
        base.rows.iter().map(|line| (line.dims.as_slice(), &line.measures)).collect();
    let mut was: Vec<_> = lines.iter().map(|line| before.remove(line.dims.as_slice())).collect();
    let mut gone: Vec<_> = before.into_iter().collect();
    gone.sort_by_key(|(dims, _)| *dims);
    let nothing = Measures {
        rps: total.rps.map(|_| 0.0),
        peak_rps: total.peak_rps.map(|_| 0.0),
        open: total.open.map(|_| 0),
        errors: total.errors.map(|_| 0),
        client_errors: total.client_errors.map(|_| 0),
        ..Measures::default()
    };
    lines.extend(gone.iter().map(|(dims, _)| Line { interval: None, dims: dims.to_vec(), measures: nothing.clone() }));
    was.extend(gone.into_iter().map(|(_, measures)| Some(measures)));
    was
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

/// Bars of a row, at most.
const BARS: i64 = 60;

/// Intervals that people are shown, at most.
const SHOWN: usize = 4096;

/// For people: each row once, with its course over time as bars.
fn trends(now: &Measured, interval: Micros, top: Option<usize>) -> Table {
    let (first, last) = bounds(now, interval);
    let slots = (last - first) / interval + 1;
    // Bars are few however many intervals there are.
    let width = (slots + BARS - 1).div_euclid(BARS).max(1);
    let bars = (slots + width - 1).div_euclid(width).clamp(1, BARS) as usize;
    let mut by_row: HashMap<&[String], (u64, Vec<u64>)> = HashMap::new();
    for line in &now.rows {
        let (requests, counts) = by_row.entry(line.dims.as_slice()).or_insert_with(|| (0, vec![0; bars]));
        *requests += line.measures.requests;
        let bar = line.interval.and_then(|at| usize::try_from((at - first) / interval / width).ok());
        if let Some(count) = bar.and_then(|bar| counts.get_mut(bar)) {
            *count += line.measures.requests;
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
        row.extend([requests.into(), share.into(), (requests as f64 / now.seconds).into(), Value::Series(counts)]);
        row
    });
    Table { rows: rows.collect(), columns, ..Table::default() }
}

/// For people: all rows together, by interval; intervals without requests too.
fn intervals(now: &Measured, interval: Micros, lines: &[Line]) -> Table {
    let by_time: HashMap<Micros, &Measures> =
        lines.iter().map(|line| (line.interval.unwrap_or_default(), &line.measures)).collect();
    let (first, last) = bounds(now, interval);
    let mut columns = vec!["time".to_owned()];
    columns.extend(FIELDS.iter().filter(|f| **f != "peak_rps").map(|f| (*f).to_owned()));
    let nothing =
        Measures { rps: Some(0.0), open: Some(0), errors: Some(0), client_errors: Some(0), ..Measures::default() };
    let mut rows = Vec::new();
    let count = (last - first) / interval + 1;
    // Of more than can be shown, those without requests are left out.
    let mut times: Vec<Micros> = match count <= SHOWN as Micros {
        true => (0..count).map(|number| first + number * interval).collect(),
        false => by_time.keys().copied().collect(),
    };
    times.sort_unstable();
    times.truncate(SHOWN);
    for at in times {
        let mut values = vec![Value::Text(time::format(at))];
        let fields = fields(by_time.get(&at).unwrap_or(&&nothing), now.total.requests);
        values.extend(FIELDS.iter().zip(fields).filter(|(f, _)| **f != "peak_rps").map(|(_, value)| value));
        rows.push(values);
    }
    Table { columns, rows, ..Table::default() }
}

fn bounds(now: &Measured, interval: Micros) -> (Micros, Micros) {
    let align = |at: Micros| at - at.rem_euclid(interval);
    let (first, last) = now.window.unwrap_or_default();
    (align(first), align(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_value_for_each_column() {
        let line = |interval: Option<Micros>, user: &str, requests: u64| Line {
            interval,
            dims: vec![user.to_owned()],
            measures: Measures { requests, ..Measures::default() },
        };
        let rows = vec![line(None, "(other)", 1), line(Some(0), "jane", 2), line(Some(60 * time::SECOND), "jane", 3)];
        let now = Measured {
            dims: vec!["user".to_owned()],
            rows,
            series: Some((60 * time::SECOND, Vec::new())),
            total: Measures { requests: 6, ..Measures::default() },
            window: Some((0, 90 * time::SECOND)),
            seconds: 90.0,
        };
        for shown_only in [false, true] {
            let shape = Shape { sort_by: Some("requests".to_owned()), top: Some(2), shown_only };
            let report = report(now.clone(), None, TrafficInput::default(), &shape);
            assert_eq!(report.table.rows.len(), if shown_only { 2 } else { 3 });
            assert!(report.table.rows.iter().all(|row| row.len() == report.table.columns.len()));
            let cell = |row: usize, column: &str| report.table.rows[row][report.table.column(column).unwrap()].clone();
            assert_eq!(
                (cell(0, "requests"), cell(0, "time")),
                (Value::Count(3), Value::Text("1970-01-01T00:01:00Z".to_owned()))
            );
            assert_eq!(
                report.totals.iter().find(|(name, _)| name == "rows").map(|(_, rows)| rows.clone()),
                Some(Value::Count(3))
            );
        }
        let shape = Shape { sort_by: Some("user".to_owned()), ..Shape::default() };
        let report = report(now, None, TrafficInput::default(), &shape);
        let row = &report.table.rows[0];
        assert_eq!(
            (&row[0], &row[1], row.len()),
            (&Value::None, &Value::Text("(other)".to_owned()), report.table.columns.len())
        );
    }
}
