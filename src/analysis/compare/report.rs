//! What `plimsoll compare` says.

use super::limits::{self, Limit};
use super::noise::{Measured, Verdict};
use super::words::{name, quantity, signed};
use super::{Area, Metric, Row, Unit};
use crate::model::forecast::Unit as PictureUnit;
use crate::model::input::InputReport;
use crate::model::picture::Contrast;
use crate::model::report::{Report, Table, Value, Window};
use crate::model::time::{self, Micros};
use crate::model::units::{counted, duration, grouped};
use serde_json::json;

/// What a report is made of besides rows.
#[derive(Debug, Default)]
pub struct CompareInput {
    /// What was read, of both sides.
    pub inputs: Vec<InputReport>,
    /// The time of each side.
    pub windows: [Option<(Micros, Micros)>; 2],
    /// What each side is called.
    pub names: [String; 2],
    /// Rows of each area that people are shown.
    pub top: Option<usize>,
    /// By how much what may rise.
    pub limits: Vec<Limit>,
    /// Changes below this are none.
    pub least: f64,
    /// Sentences about what one side has less of than the other: part of any change may come from that.
    pub partial: Vec<String>,
    /// Sentences about what could not be compared.
    pub notes: Vec<String>,
}

const SCHEMA: &str = "plimsoll.compare/v1";

/// Rows of an area that people are shown where they did not say how many.
const SHOWN: usize = 10;

/// Rows of an area that are drawn where they did not say how many.
const DRAWN: usize = 4;

/// Rows that moved much, but perhaps by chance, that people are shown.
const UNSURE: usize = 5;

/// How sure it is that something rose, where one side has less than the other.
const PARTIAL: f64 = 0.5;

/// Fields of subjects.
const FIELDS: [&str; 9] = ["cluster", "instance", "user", "agent", "verb", "group", "resource", "subresource", "name"];

/// What stands beside them.
const MEASURES: [&str; 9] = ["metric", "unit", "before", "after", "change", "change_share", "low", "high", "verdict"];

const PEOPLE: [&str; 7] = [
    "compare_what",
    "compare_metric",
    "compare_before",
    "compare_after",
    "compare_change",
    "compare_between",
    "compare_course",
];

/// The report.
pub fn report(rows: &mut [Row], input: CompareInput) -> Report {
    // The most moved first, within what can be set beside one another.
    rows.sort_by(|a, b| rank(a).cmp(&rank(b)).then(weight(b).total_cmp(&weight(a))).then_with(|| key(a).cmp(&key(b))));
    let windows = input.windows.map(Window::of);
    let mut findings = limits::findings(rows, &input.limits, (&windows[1].from, &windows[1].to));
    if !input.partial.is_empty() {
        findings.iter_mut().for_each(|finding| finding.confidence = PARTIAL);
    }
    let top = input.top.unwrap_or(SHOWN);
    let mut report = Report { schema: SCHEMA.to_owned(), ..Report::default() };
    report.lead = lead(rows, &input);
    let changed = |area: Area| {
        rows.iter().filter(move |row| row.pair.area == area && (row.verdict.is_change() || area == Area::Total))
    };
    let mut people = Vec::new();
    for area in Area::ALL {
        let all: Vec<&Row> = changed(area).collect();
        let shown = if area == Area::Total { all.len() } else { top };
        let mut table = Table { name: area.name().to_owned(), title: area.title().to_owned(), ..Table::default() };
        table.columns = PEOPLE.map(str::to_owned).to_vec();
        table.rows = all.iter().take(shown).map(|row| for_people(row)).collect();
        if all.len() > shown {
            report.notes.push(format!(
                "{}: {} more changed; --top or -o json shows them.",
                area.title(),
                grouped((all.len() - shown) as u64)
            ));
        }
        if !table.rows.is_empty() {
            people.push(without_idle(table));
        }
    }
    let unsure: Vec<&Row> = rows
        .iter()
        .filter(|row| row.verdict == Verdict::Unsure && matches!(row.pair.area, Area::Clients | Area::Requests))
        .collect();
    if !unsure.is_empty() {
        let title =
            "Large changes that may be noise (few bursts, or a short window); compare longer windows".to_owned();
        let rows = unsure.iter().take(top.min(UNSURE)).map(|row| for_people(row)).collect();
        people.push(without_idle(Table {
            title,
            rows,
            columns: PEOPLE.map(str::to_owned).to_vec(),
            ..Table::default()
        }));
    }
    report.people = Some(people);
    if !input.partial.is_empty() {
        report.coverage.insert("partial".to_owned(), input.partial.clone().into());
    }
    report.notes.extend(input.partial.into_iter().chain(input.notes));
    if rows.iter().any(|row| row.verdict.is_change() && row.bounds.is_some()) {
        let sure = "INTERVAL contains the true change, with 95 % confidence for all rows together, unless the load \
             varies in cycles as long as the windows. \"noise\": the difference may be chance; \"uncertain\": twice \
             or half as much, and yet it may be chance";
        report.notes.push(format!("{sure}. Rules: docs/commands/compare.md."));
    }
    if rows.iter().any(|row| row.verdict.is_change() && row.pair.area == Area::Objects) {
        report.notes.push("Objects are counted by apiservers, about once a minute.".to_owned());
    }
    if input.windows.iter().flatten().any(|(from, to)| to - from < SHORT_WINDOW_US) {
        report.notes.push("A window of less than five minutes shows only large changes.".to_owned());
    }
    if rows.iter().any(|row| row.verdict.is_change() && row.pair.area == Area::Heap) {
        report.notes.push("A heap profile shows one moment: memory of requests in progress comes and goes.".to_owned());
    }
    let count = |verdict: Verdict| Value::Count(rows.iter().filter(|row| row.verdict == verdict).count() as u64);
    let verdicts = [
        Verdict::Up,
        Verdict::Down,
        Verdict::New,
        Verdict::Gone,
        Verdict::Unsure,
        Verdict::Noise,
        Verdict::Same,
        Verdict::Few,
    ];
    report.totals = vec![("compared".to_owned(), Value::Count(rows.len() as u64))];
    report.totals.extend(verdicts.map(|verdict| (verdict.name().to_owned(), count(verdict))));
    report.coverage.insert("least_change".to_owned(), json!(input.least));
    report.more.insert("before".to_owned(), side(&input.names[0], &windows[0]));
    report.more.insert("after".to_owned(), side(&input.names[1], &windows[1]));
    let [_, after] = windows;
    report.window = after;
    report.table = Table {
        name: "changes".to_owned(),
        columns: ["area"].into_iter().chain(FIELDS).chain(MEASURES).map(str::to_owned).collect(),
        rows: rows.iter().map(cells).collect(),
        ..Table::default()
    };
    report.findings = findings;
    report.inputs = input.inputs;
    report
}

/// What is drawn of rows that are in the report's order: all requests, then what moved most of clients and of verbs and
/// resources.
pub fn contrasts(rows: &[Row], top: Option<usize>) -> Vec<Contrast> {
    let drawn = |area: Area| {
        let of = rows.iter().filter(move |row| {
            row.pair.area == area && (row.verdict.is_change() || row.pair.metric == "rps" && area == Area::Total)
        });
        of.filter_map(contrast).take(top.unwrap_or(DRAWN))
    };
    [Area::Total, Area::Clients, Area::Requests].into_iter().flat_map(drawn).collect()
}

/// A row that is known in time.
fn contrast(row: &Row) -> Option<Contrast> {
    let side = |side: &Measured| -> Option<Vec<(f64, f64)>> {
        let rate = |(seconds, amount): (f64, f64)| (seconds, if seconds > 0.0 { amount / seconds } else { 0.0 });
        Some(side.amounts()?.into_iter().map(rate).collect())
    };
    let sides = [side(&row.pair.before)?, side(&row.pair.after)?];
    let metric = Metric::named(row.pair.metric).map_or(row.pair.metric, |metric| metric.title);
    let cells = for_people(row);
    let text = |at: usize| if let Value::Text(text) = &cells[at] { text.as_str() } else { "" };
    let between = if text(5) == "-" { String::new() } else { format!(", between {}", text(5)) };
    let caption = format!("{} before, {} after: {}{between}", text(2), text(3), text(4));
    Some(Contrast { title: format!("{}: {metric}", name(row)), caption, unit: PictureUnit::PerSecond, sides })
}

/// A table without its last columns, where no row has anything in them.
fn without_idle(mut table: Table) -> Table {
    for name in ["compare_course", "compare_between"] {
        let is_idle = |value: &Value| matches!(value, Value::None) || *value == Value::from("-");
        if let Some(at) = table.column(name).filter(|at| table.rows.iter().all(|row| is_idle(&row[*at]))) {
            table.columns.remove(at);
            table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    table
}

fn side(name: &str, window: &Window) -> serde_json::Value {
    json!({ "source": name, "from": window.from, "to": window.to, "seconds": window.seconds })
}

/// Area, then what changed, then metrics in their order where rows are few.
fn rank(row: &Row) -> (Area, bool, usize) {
    let place = super::METRICS.iter().position(|metric| metric.name == row.pair.metric).unwrap_or_default();
    let of_few = row.pair.area == Area::Total || row.pair.subject.is_empty();
    (row.pair.area, !row.verdict.is_change() && row.pair.area != Area::Total, if of_few { place } else { usize::MAX })
}

/// How far it moved: of latencies by how many times, of all else by how much.
fn weight(row: &Row) -> f64 {
    let [before, after] = [&row.pair.before, &row.pair.after].map(|side| side.value().unwrap_or(0.0));
    match row.pair.area {
        Area::Latency if before > 0.0 && after > 0.0 => (after / before).ln().abs(),
        Area::Etcd if unit(row) == Unit::Count => 0.0,
        _ => row.moved().abs(),
    }
}

fn key(row: &Row) -> (&[(&'static str, String)], &str) {
    (&row.pair.subject, row.pair.metric)
}

fn unit(row: &Row) -> Unit {
    Metric::named(row.pair.metric).map_or(Unit::Count, |metric| metric.unit)
}

fn cells(row: &Row) -> Vec<Value> {
    let mut cells = vec![Value::from(row.pair.area.name())];
    let field = |name: &str| row.pair.subject.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str());
    cells.extend(FIELDS.map(|name| Value::from(field(name).unwrap_or_default())));
    let bound = |bound: fn((f64, f64)) -> f64| Value::from(row.bounds.map(|bounds| bound(bounds) - 1.0));
    cells.extend([
        row.pair.metric.into(),
        unit(row).name().into(),
        row.pair.before.value().into(),
        row.pair.after.value().into(),
        row.moved().into(),
        row.change().into(),
        bound(|bounds| bounds.0),
        bound(|bounds| bounds.1),
        row.verdict.name().into(),
    ]);
    cells
}

fn for_people(row: &Row) -> Vec<Value> {
    let metric = Metric::named(row.pair.metric).map_or(row.pair.metric, |metric| metric.title);
    let side = |side: &Measured| side.value().map_or_else(|| "-".to_owned(), |value| quantity(unit(row), value));
    // One scale for all of a row: factors from a doubling on.
    let is_factor =
        row.change().is_some_and(|change| change >= 1.0) || row.bounds.is_some_and(|(_, high)| high >= 11.0);
    let change = match (row.verdict, row.change()) {
        (Verdict::New, _) => "new".to_owned(),
        (Verdict::Gone, _) => "gone".to_owned(),
        (Verdict::Noise, _) => "noise".to_owned(),
        (Verdict::Unsure, _) => "uncertain".to_owned(),
        (Verdict::Few, _) => "too few".to_owned(),
        (Verdict::Same, _) | (_, None) => "same".to_owned(),
        (_, Some(change)) => signed(change, is_factor),
    };
    let between = match row.bounds {
        // From nothing any number is any times as many.
        Some(_) if row.pair.before.value() == Some(0.0) => "-".to_owned(),
        Some((low, high)) if !matches!(row.verdict, Verdict::Same | Verdict::New) => {
            format!("{} … {}", signed(low - 1.0, is_factor), signed(high - 1.0, is_factor))
        }
        _ => "-".to_owned(),
    };
    vec![
        name(row).as_str().into(),
        metric.into(),
        side(&row.pair.before).as_str().into(),
        side(&row.pair.after).as_str().into(),
        change.as_str().into(),
        between.as_str().into(),
        course(&row.pair.before, &row.pair.after),
    ]
}

/// Windows below this distinguish little from chance, in microseconds.
const SHORT_WINDOW_US: Micros = 300_000_000;

/// Bars of one side.
const BARS: usize = 12;

/// How it went before, a gap, and how it went after: bars of equal time.
fn course(before: &Measured, after: &Measured) -> Value {
    let (Some(before), Some(after)) = (before.amounts(), after.amounts()) else { return Value::None };
    let long = |pieces: &[(f64, f64)]| pieces.iter().map(|(seconds, _)| seconds).sum::<f64>();
    // No shorter than a piece, else bars between two would be empty.
    let longest = before.iter().chain(&after).map(|(seconds, _)| *seconds).fold(0.0, f64::max);
    let bar = (long(&before).max(long(&after)) / BARS as f64).max(longest);
    let bars = |pieces: &[(f64, f64)]| {
        let mut sums = vec![(0.0, 0.0); ((long(pieces) / bar).round() as usize).clamp(1, BARS)];
        let (mut at, count) = (0.0, sums.len());
        for (seconds, amount) in pieces {
            let sum = &mut sums[((at / bar) as usize).min(count - 1)];
            *sum = (sum.0 + seconds, sum.1 + amount);
            at += seconds;
        }
        sums.into_iter()
            .map(|(seconds, amount)| if seconds > 0.0 { amount / seconds } else { 0.0 })
            .collect::<Vec<f64>>()
    };
    let rates = [bars(&before), vec![0.0], bars(&after)].concat();
    let most = rates.iter().copied().fold(0.0, f64::max);
    // Whatever is not nothing is seen.
    Value::Series(
        rates.iter().map(|rate| if *rate > 0.0 { ((rate / most * 1000.0) as u64).max(1) } else { 0 }).collect(),
    )
}

fn lead(rows: &[Row], input: &CompareInput) -> Vec<String> {
    let when = |name: &str, side: usize| {
        let span = input.windows[side].map(|(from, to)| {
            format!(", {} to {} UTC ({})", time::second(from), time::second(to), duration(to - from))
        });
        format!("{name}\t{}{}", input.names[side], span.unwrap_or_default())
    };
    let count = |wanted: &[Verdict]| rows.iter().filter(|row| wanted.contains(&row.verdict)).count() as u64;
    let changed = count(&[Verdict::Up, Verdict::Down, Verdict::New, Verdict::Gone]);
    let told_apart = match changed {
        0 => format!("nothing, of {} compared", counted(rows.len() as u64, "number")),
        _ => format!("{} of {} compared", grouped(changed), counted(rows.len() as u64, "number")),
    };
    let rest = format!(
        "; {} uncertain, {} within noise, {} unchanged, {} with too little data",
        grouped(count(&[Verdict::Unsure])),
        grouped(count(&[Verdict::Noise])),
        grouped(count(&[Verdict::Same])),
        grouped(count(&[Verdict::Few]))
    );
    let mut lead = vec![when("before", 0), when("after", 1), format!("changed\t{told_apart}{rest}")];
    for (verdict, what) in [(Verdict::New, "new clients"), (Verdict::Gone, "removed clients")] {
        let of = |row: &&Row| row.pair.area == Area::Clients && row.verdict == verdict && row.pair.metric == "rps";
        let names: Vec<String> = rows.iter().filter(of).take(5).map(name).collect();
        let more = rows.iter().filter(of).count().saturating_sub(names.len());
        if !names.is_empty() {
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            lead.push(format!("{what}\t{}{more}", names.join(", ")));
        }
    }
    lead
}
