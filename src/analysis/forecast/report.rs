//! What `plimsoll forecast` says: rows by urgency, findings, pictures.

use super::drivers;
use super::words;
use crate::model::forecast::{Forecast, Reached, Step, Target, Verdict};
use crate::model::input::InputReport;
use crate::model::picture::Picture;
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::series::DAY;
use crate::model::time::{self, Micros, all_together};
use crate::model::units::{amount, counted, duration, grouped, percent};
use serde_json::{Value as Json, json};
use std::cmp::Ordering;

/// Fields by which rows can be sorted; urgency where none is named.
pub const FIELDS: [&str; 8] =
    ["series", "name", "limit", "current", "growth_per_week", "days_left", "probability", "verdict"];

/// Findings that people are shown where they did not say how many.
const FINDINGS: usize = 5;

/// Up to so many rows the first is drawn without being asked for.
const MAX_ROWS_DRAWN_UNASKED: usize = 5;

/// A horizon from which on a day and a month could mean two years.
const YEAR_SHOWN_FROM: Micros = 300 * DAY;

/// What a report is made of besides forecasts.
#[derive(Debug, Default)]
pub struct ForecastInput {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// The cluster, where it is known.
    pub cluster: String,
    /// How long an interval is.
    pub step: Micros,
    /// How far was looked ahead, from the end of each history.
    pub horizon: Micros,
    /// A limit that is reached within so many days is a warning.
    pub warn_within: f64,
    /// A limit that is reached within so many days is critical.
    pub critical_within: f64,
    /// Whether rows hold what is forecast of each interval.
    pub points: bool,
    /// How many pictures; by default one of few rows.
    pub charts: Option<usize>,
    /// Rows to show.
    pub top: Option<usize>,
    /// Field to sort by.
    pub sort_by: Option<String>,
    /// Sentences below the table.
    pub notes: Vec<String>,
}

/// A series with what is forecast of it.
struct Row<'t> {
    /// Its place among the targets.
    index: usize,
    target: &'t Target,
    forecast: &'t Forecast,
    /// What is forecast, nothing of it outside the horizon.
    reached: Reached,
    /// Days until the limit is reached, as likely fewer as more.
    days_left: Option<f64>,
    is_flat: bool,
    name: String,
}

/// The report. Of a forecast whose path was dropped to save memory `again` gives it once more, by the target's index.
pub fn report(
    targets: &[Target],
    forecasts: &[Forecast],
    again: &dyn Fn(usize) -> Forecast,
    input: ForecastInput,
) -> Report {
    let mut rows: Vec<Row<'_>> = targets
        .iter()
        .zip(forecasts)
        .enumerate()
        .map(|(index, (target, forecast))| Row::new(index, target, forecast, input.horizon))
        .collect();
    rows.sort_by(Row::by_urgency);
    let mut report = Report {
        schema: "plimsoll.forecast/v1".to_owned(),
        window: window(targets),
        shown: input.top,
        ..Report::default()
    };
    report.totals = totals(&rows);
    report.coverage.insert("cluster".to_owned(), input.cluster.clone().into());
    report.coverage.insert("step_s".to_owned(), json!(input.step as f64 / 1e6));
    report.coverage.insert("horizon_s".to_owned(), json!(input.horizon as f64 / 1e6));
    report.lead = lead(&rows, &input);
    (report.findings, report.findings_shown) = findings(&rows, &input);
    let hidden = report.findings.len() - report.findings_shown.unwrap_or_default();
    report.pictures = pictures(&rows, again, &input);
    let further: &[&str] = if input.points { &["points", "history"] } else { &[] };
    let columns = COLUMNS.iter().chain(further).map(|name| (*name).to_owned()).collect();
    report.table = Table { name: "series".to_owned(), columns, ..Table::default() };
    if let Some(at) = input.sort_by.as_deref().and_then(|field| report.table.column(field)) {
        // As stable as the sort by urgency before it.
        let mut keyed: Vec<(Value, Row<'_>)> =
            rows.into_iter().map(|row| (cells(&row, &input)[at].clone(), row)).collect();
        keyed.sort_by(|a, b| a.0.in_order(&b.0));
        rows = keyed.into_iter().map(|(_, row)| row).collect();
    }
    let people = rows.iter().take(input.top.unwrap_or(rows.len())).map(|row| shown(row, &input)).collect();
    report.people = Some(vec![Table {
        columns: SHOWN.iter().map(|name| (*name).to_owned()).collect(),
        rows: people,
        ..Table::default()
    }]);
    report.table.rows = rows.iter().take(input.top.unwrap_or(rows.len())).map(|row| cells(row, &input)).collect();
    let more = rows.len().saturating_sub(report.table.rows.len());
    report.inputs = input.inputs;
    report.notes = input.notes;
    if more > 0 {
        report.notes.push(format!("{} more, less urgent; --top 0 shows all", counted(more as u64, "series")));
    }
    if hidden > 0 {
        report.notes.push(format!("{} more: -o json", counted(hidden as u64, "finding")));
    }
    report
}

/// From the first interval of all to the last.
fn window(targets: &[Target]) -> Window {
    let known = targets.iter().filter(|target| !target.grid.values.is_empty());
    Window::of(all_together(known.map(|target| (target.grid.from, target.grid.end()))))
}

/// When the limit is reached: nothing outside the horizon.
fn within(target: &Target, forecast: &Forecast, horizon: Micros) -> Reached {
    let end = target.grid.end();
    let within = |at: Option<Micros>| at.filter(|at| *at <= end.saturating_add(horizon)).map(|at| at.max(end));
    let Reached { p10, p50, p90 } = forecast.reached;
    Reached { p10: within(p10), p50: within(p50), p90: within(p90) }
}

/// Limits that one in ten of the possible futures reaches within the horizon, by the names of what is limited, the most
/// urgent first; what is at its limit has reached it at the end of its history. `None` where nothing could be forecast.
pub fn limits(targets: &[Target], forecasts: &[Forecast], horizon: Micros) -> Option<Vec<(String, Reached)>> {
    if forecasts.iter().all(|own| matches!(own.verdict, Verdict::TooShort | Verdict::NoLimit)) {
        return None;
    }
    let rows = targets.iter().zip(forecasts).enumerate();
    let mut rows: Vec<Row<'_>> = rows
        .map(|(index, (target, forecast))| {
            let mut row = Row::new(index, target, forecast, horizon);
            if forecast.verdict == Verdict::AtLimit {
                let end = Some(target.grid.end());
                row.reached = Reached { p10: end, p50: end, p90: end };
            }
            row
        })
        .filter(|row| row.reached.p10.is_some())
        .collect();
    rows.sort_by(Row::by_urgency);
    Some(rows.into_iter().map(|row| (row.name, row.reached)).collect())
}

impl<'t> Row<'t> {
    fn new(index: usize, target: &'t Target, forecast: &'t Forecast, horizon: Micros) -> Self {
        let end = target.grid.end();
        let reached = within(target, forecast, horizon);
        let days_left = match forecast.verdict {
            Verdict::AtLimit => Some(0.0),
            _ => reached.p50.map(|at| (at - end) as f64 / DAY as f64),
        };
        let mut known = target.grid.values.iter().filter(|value| value.is_finite());
        let first = known.next();
        let is_flat = first.is_some_and(|first| known.all(|value| value == first));
        Self { index, target, forecast, reached, days_left, is_flat, name: words::name(target) }
    }

    fn current(&self) -> Option<f64> {
        self.forecast.current.map(|(_, value)| value).filter(|value| value.is_finite())
    }

    /// How likely the limit is reached within the horizon.
    fn probability(&self) -> Option<f64> {
        self.forecast.probability.filter(|p| p.is_finite()).map(|p| p.clamp(0.0, 1.0))
    }

    /// How far was looked ahead.
    fn ahead(&self, input: &ForecastInput) -> Micros {
        if self.forecast.ahead > 0 { self.forecast.ahead.min(input.horizon) } else { input.horizon }
    }

    /// Growth a week as a share of what is left below the limit.
    fn of_headroom(&self) -> f64 {
        let left = self.target.limit.zip(self.current()).map(|(limit, current)| limit - current);
        let share = self.forecast.growth_per_week.zip(left).map(|(more, left)| more / left.max(f64::MIN_POSITIVE));
        share.filter(|share| !share.is_nan()).unwrap_or(f64::NEG_INFINITY)
    }

    /// Whatever is at its limit, then by the date, the earliest that has to be reckoned with, how likely, growth, name.
    fn by_urgency(a: &Self, b: &Self) -> Ordering {
        let late = |at: Option<Micros>| at.unwrap_or(Micros::MAX);
        let likely = |row: &Self| row.probability().unwrap_or(-1.0);
        let full = |row: &Self| row.forecast.verdict != Verdict::AtLimit;
        full(a)
            .cmp(&full(b))
            .then(late(a.reached.p50).cmp(&late(b.reached.p50)))
            .then(late(a.reached.p10).cmp(&late(b.reached.p10)))
            .then(likely(b).total_cmp(&likely(a)))
            .then(b.of_headroom().total_cmp(&a.of_headroom()))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.target.series.cmp(&b.target.series))
    }

    /// How large values were of late, in the last quarter of those that are known.
    fn usual(&self) -> f64 {
        let known: Vec<f64> = self.target.grid.values.iter().copied().filter(|value| value.is_finite()).collect();
        let known = known[known.len() - known.len().div_ceil(4)..].iter();
        let (sum, count) = known.fold((0.0, 0.0), |(sum, count), value| (sum + value.abs(), count + 1.0));
        sum / count
    }

    fn amount(&self, value: f64) -> String {
        amount(self.target.unit, value)
    }

    fn growth(&self) -> Option<String> {
        let more = self.forecast.growth_per_week.filter(|more| more.is_finite())?;
        // A week's growth that no digit of the value shows.
        let is_nothing = more.abs() < 5e-4 * self.current().unwrap_or_default().abs();
        Some(if is_nothing {
            "0".to_owned()
        } else {
            format!("{}{}", if more > 0.0 { "+" } else { "" }, self.amount(more))
        })
    }
}

/// A number, nothing where it is none.
pub(super) fn number(value: Option<f64>) -> Json {
    value.filter(|value| value.is_finite()).map_or(Json::Null, |value| json!(value))
}

/// A time in JSON.
fn at(at: Option<Micros>) -> Json {
    at.map_or(Json::Null, |at| json!(time::format(at)))
}

/// Fields of a row for machines.
const COLUMNS: [&str; 21] = [
    "series",
    "limit",
    "current",
    "growth_per_week",
    "reached",
    "probability",
    "model",
    "backtest",
    "name",
    "labels",
    "title",
    "unit",
    "limit_from",
    "verdict",
    "days_left",
    "error",
    "note",
    "seasons",
    "changes",
    "drivers",
    "ahead_s",
];

fn cells(row: &Row<'_>, input: &ForecastInput) -> Vec<Value> {
    let (target, forecast) = (row.target, row.forecast);
    let changes: Vec<Json> = forecast
        .changes
        .iter()
        .map(|change| json!({"at": time::format(change.at), "by": number(Some(change.by))}))
        .collect();
    let seasons: Vec<f64> = forecast.seasons.iter().map(|steps| *steps as f64 * input.step as f64 / 1e6).collect();
    let drivers = drivers::of(target).into_iter();
    let drivers: Vec<Json> = drivers
        .map(|driver| {
            json!({"name": driver.name, "growth_per_week": number(Some(driver.per_week)),
            "share": number(Some(driver.share))})
        })
        .collect();
    let backtest = forecast.backtest.map_or(Json::Null, |tried| {
        json!({"mase": number(Some(tried.mase)), "coverage": number(Some(tried.coverage)),
            "error": number(Some(tried.error)),
               "origins": tried.origins, "steps": tried.steps})
    });
    let mut cells = vec![
        Value::Text(target.series.to_string()),
        target.limit.into(),
        row.current().into(),
        forecast.growth_per_week.into(),
        Value::Json(json!({"p10": at(row.reached.p10), "p50": at(row.reached.p50), "p90": at(row.reached.p90)})),
        row.probability().into(),
        forecast.model.into(),
        Value::Json(backtest),
        Value::Text(target.series.name.clone()),
        Value::Json(json!(target.series.labels)),
        Value::Text(row.name.clone()),
        target.unit.name().into(),
        Value::Text(target.limit_from.clone()),
        forecast.verdict.name().into(),
        row.days_left.into(),
        Value::Text(words::error(forecast.backtest.as_ref(), target.unit, row.usual(), input.step)),
        Value::Text(forecast.note.clone()),
        Value::Json(json!(seasons)),
        Value::Json(Json::Array(changes)),
        Value::Json(Json::Array(drivers)),
        Value::Number(row.ahead(input) as f64 / 1e6),
    ];
    if input.points {
        cells.push(Value::Json(Json::Array(forecast.path.iter().map(point).collect())));
        let known: Vec<Json> = target.grid.values.iter().map(|value| number(Some(*value))).collect();
        cells.push(Value::Json(json!({"from": time::format(target.grid.from), "values": known})));
    }
    cells
}

fn point(step: &Step) -> Json {
    let [p10, p50, p90] = [step.p10, step.p50, step.p90].map(|value| number(Some(value)));
    json!({"at": time::format(step.at), "p10": p10, "p50": p50, "p90": p90})
}

/// Columns for people.
const SHOWN: [&str; 12] = [
    "forecast_series",
    "forecast_now",
    "forecast_limit",
    "forecast_growth",
    "forecast_date",
    "forecast_range",
    "forecast_chance",
    "forecast_limit_from",
    "forecast_model",
    "forecast_error",
    "forecast_drivers",
    "forecast_note",
];

fn shown(row: &Row<'_>, input: &ForecastInput) -> Vec<Value> {
    let (target, forecast) = (row.target, row.forecast);
    let drivers: Vec<String> = drivers::of(target)
        .iter()
        .take(3)
        .map(|driver| {
            format!(
                "{} {}{} ({})",
                driver.name,
                if driver.per_week > 0.0 { "+" } else { "" },
                row.amount(driver.per_week),
                percent(driver.share)
            )
        })
        .collect();
    vec![
        Value::Text(row.name.clone()),
        row.current().map(|value| Value::Text(row.amount(value))).unwrap_or_default(),
        target.limit.map(|limit| Value::Text(row.amount(limit))).unwrap_or_default(),
        row.growth().map(Value::Text).unwrap_or_default(),
        Value::text(reached(row, input)),
        Value::text(range(row, input)),
        // To three digits it would be a promise.
        row.probability().map(|p| Value::Text(chance(p))).unwrap_or_default(),
        Value::text(target.limit_from.clone()),
        Value::text(forecast.model),
        Value::text(words::error(forecast.backtest.as_ref(), target.unit, row.usual(), input.step)),
        Value::text(drivers.join(", ")),
        Value::text(forecast.note.clone()),
    ]
}

/// `63%`; never certain.
fn chance(p: f64) -> String {
    match p * 100.0 {
        p if p < 1.0 => "<1%".to_owned(),
        p if p > 99.0 => ">99%".to_owned(),
        p => format!("{p:.0}%"),
    }
}

/// `Dec 28`; where the horizon is long `2027-12-28`.
fn date(at: Micros, input: &ForecastInput) -> String {
    let stamp = jiff::Timestamp::from_microsecond(at).unwrap_or_default();
    stamp.strftime(if input.horizon < YEAR_SHOWN_FROM { "%b %-d" } else { "%Y-%m-%d" }).to_string()
}

/// The date for people, or why there is none.
fn reached(row: &Row<'_>, input: &ForecastInput) -> String {
    match (row.forecast.verdict, row.reached.p50) {
        (Verdict::AtLimit, _) => "now".to_owned(),
        (Verdict::TooShort, _) => "?".to_owned(),
        (Verdict::NoLimit, _) => String::new(),
        (_, Some(at)) => date(at, input),
        (_, None) => format!(">{}", duration(row.ahead(input))),
    }
}

/// `Dec 20–Jan 15`; open where 9 in 10 is behind the horizon; nothing where not even one in ten is before it.
fn range(row: &Row<'_>, input: &ForecastInput) -> String {
    match (row.forecast.verdict, row.reached.p10, row.reached.p90) {
        (Verdict::AtLimit | Verdict::TooShort | Verdict::NoLimit, ..) | (_, None, _) => String::new(),
        (_, Some(from), Some(to)) if date(from, input) == date(to, input) => date(from, input),
        (_, Some(from), Some(to)) => format!("{}–{}", date(from, input), date(to, input)),
        (_, Some(from), None) => format!("{} or later", date(from, input)),
    }
}

fn count(rows: &[Row<'_>], verdict: Verdict) -> u64 {
    rows.iter().filter(|row| row.forecast.verdict == verdict).count() as u64
}

fn totals(rows: &[Row<'_>]) -> Vec<(String, Value)> {
    let verdicts =
        [Verdict::AtLimit, Verdict::Reaches, Verdict::MayReach, Verdict::Clear, Verdict::NoLimit, Verdict::TooShort];
    let mut totals = vec![("series".to_owned(), Value::Count(rows.len() as u64))];
    totals.extend(verdicts.map(|verdict| (verdict.name().replace('-', "_"), Value::Count(count(rows, verdict)))));
    totals.push(("flat".to_owned(), Value::Count(rows.iter().filter(|row| row.is_flat).count() as u64)));
    totals
}

fn lead(rows: &[Row<'_>], input: &ForecastInput) -> Vec<String> {
    let ahead = duration(input.horizon);
    let end = rows.iter().map(|row| row.target.grid.end()).max().map(time::format).unwrap_or_default();
    let flat = rows.iter().filter(|row| row.is_flat).count() as u64;
    let parts = [
        (count(rows, Verdict::AtLimit), "at its limit now"),
        (count(rows, Verdict::Reaches), "that probably reach the limit"),
        (count(rows, Verdict::MayReach), "that may reach it (more than 1 in 10)"),
        (count(rows, Verdict::Clear), "not forecast to reach it"),
        (count(rows, Verdict::NoLimit), "without a known limit"),
        (count(rows, Verdict::TooShort), "with too little history"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if rows.is_empty() {
        return vec!["no series to forecast".to_owned()];
    }
    let mut first = format!(
        "{}, forecast for {ahead} from {end} in steps of {}",
        counted(rows.len() as u64, "series"),
        duration(input.step)
    );
    if !parts.is_empty() {
        first += &format!(": {}", parts.join(", "));
    }
    let short = rows.iter().filter(|row| row.ahead(input) < input.horizon).count() as u64;
    if short > 0 {
        first += &format!(
            "; {} to a shorter horizon: at most twice their history",
            if short == rows.len() as u64 { "all".to_owned() } else { grouped(short) }
        );
    }
    if flat > 0 {
        first += &format!("; {flat} constant");
    }
    let mut lead = vec![first];
    if rows.iter().any(|row| row.target.limit.is_some()) {
        lead.push(format!(
            "REACHED: median date the limit is reached. RANGE: 10th to 90th percentile. CHANCE: probability within \
             {ahead}."
        ));
    }
    lead
}

/// Findings by urgency, and how many people are shown.
fn findings(rows: &[Row<'_>], input: &ForecastInput) -> (Vec<Finding>, Option<usize>) {
    let mut findings: Vec<Finding> = rows.iter().filter_map(|row| finding(row, input)).collect();
    // As stable as the sort before it.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let grave = findings.iter().filter(|finding| finding.severity > Severity::Info).count();
    let shown = grave.min(input.top.unwrap_or(FINDINGS));
    (findings, Some(shown))
}

fn finding(row: &Row<'_>, input: &ForecastInput) -> Option<Finding> {
    let (target, forecast, days) = (row.target, row.forecast, row.days_left?);
    let limit = target.limit?;
    let severity = match days {
        // What a limit is by default may be far from what it is.
        _ if target.limit_is_assumed() => Severity::Info,
        days if days <= input.critical_within => Severity::Critical,
        days if days <= input.warn_within => Severity::Warning,
        _ => Severity::Info,
    };
    let mut subject: Vec<(&str, &str)> =
        target.series.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    subject.extend([("cluster", input.cluster.as_str()), ("series", target.series.name.as_str())]);
    let is_full = row.forecast.verdict == Verdict::AtLimit;
    let probability = if is_full { 1.0 } else { row.probability().unwrap_or(0.5) };
    let seen = forecast.current.map_or(target.grid.end(), |(at, _)| at);
    let now = row.current().map_or_else(|| "?".to_owned(), |value| row.amount(value));
    let perhaps = if target.limit_is_assumed() { ", assuming that is its quota" } else { "" };
    let mut summary = format!("{}: {now} of {}{perhaps}", row.name, row.amount(limit));
    match (is_full, row.reached.p50) {
        (false, Some(middle)) => {
            let day = |at: Micros| time::format(at).get(..10).unwrap_or_default().to_owned();
            let early = row.reached.p10.map_or(String::new(), |at| format!("10th percentile {}", day(at)));
            let late =
                row.reached.p90.map_or_else(|| "90th beyond the horizon".to_owned(), |at| format!("90th {}", day(at)));
            summary += &format!("; reaches its limit around {} (median; {early}, {late})", day(middle));
        }
        _ => summary += "; at its limit now",
    }
    let since = |at: Option<Micros>| at.map(|at| (at - target.grid.end()) as f64 / DAY as f64);
    let evidence = serde_json::json!({
        "days_left": number(Some(days)),
        "p10_days": number(since(row.reached.p10)),
        "p90_days": number(since(row.reached.p90)),
        "probability": number(Some(probability)),
        "growth_per_week": number(forecast.growth_per_week),
        "current": number(row.current()),
        "limit": number(Some(limit)),
        "limit_from": target.limit_from,
        "limit_is_assumed": target.limit_is_assumed(),
    });
    let remedy = match target.limit_is_assumed() {
        true => {
            "give its quota with --etcd-quota (etcd's --quota-backend-bytes; see the metric \
             etcd_server_quota_backend_bytes)"
        }
        false => words::remedy(&target.series),
    };
    let finding = Finding::new("forecast-limit-reached", severity, &subject)
        // Only what is there now is certain.
        .confidence(if is_full { 1.0 } else { probability.min(0.99) })
        .seen((seen, seen))
        .summary(summary)
        .evidence(evidence)
        .remedy(remedy);
    Some(finding)
}

/// The most urgent as pictures.
fn pictures(rows: &[Row<'_>], again: &dyn Fn(usize) -> Forecast, input: &ForecastInput) -> Vec<Picture> {
    let wanted = input.charts.unwrap_or(usize::from(rows.len() <= MAX_ROWS_DRAWN_UNASKED));
    let drawn = rows.iter().filter(|row| row.target.grid.values.iter().filter(|value| value.is_finite()).count() > 1);
    let picture = |row: &Row<'_>| {
        let path = if row.forecast.path.is_empty() { again(row.index).path } else { row.forecast.path.clone() };
        let chance = row.probability().map(chance);
        let caption = match (row.forecast.verdict, row.days_left, chance) {
            (Verdict::AtLimit, ..) => "at its limit now".to_owned(),
            (Verdict::TooShort, ..) => "too little history".to_owned(),
            (Verdict::NoLimit, ..) => row.growth().map_or(String::new(), |growth| format!("{growth} a week")),
            (_, Some(days), Some(chance)) => {
                format!(
                    "limit in {}, {chance} within {}",
                    duration((days * DAY as f64) as Micros),
                    duration(row.ahead(input))
                )
            }
            (_, _, Some(chance)) => format!("limit not reached within {} ({chance})", duration(row.ahead(input))),
            _ => String::new(),
        };
        Picture {
            title: row.name.clone(),
            caption,
            unit: row.target.unit,
            grid: row.target.grid.clone(),
            path,
            limit: row.target.limit,
            changes: row.forecast.changes.clone(),
            reached: row.reached.p50,
        }
    };
    drawn.take(wanted).map(picture).collect()
}

#[cfg(test)]
mod tests;
