//! The first tab: what matters most, the load in time, what was found.

use super::popup::ANALYSING;
use super::state::State;
use super::timeline::{bars, highest};
use crate::model::forecast::Unit;
use crate::model::incident::Chart;
use crate::model::report::{Finding, Severity};
use crate::model::time::Micros;
use crate::model::units::{amount, counted};
use crate::views::text::{fit, fit_end, plain, wrapped};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Lines of a chart that are shown: of many apiservers the first.
const LINES: usize = 3;
/// Columns from which on charts stand in two columns.
const WIDE_COLUMNS: u16 = 140;
/// A rate that fills a bar, at least: lower ones are nearly nothing.
const LEAST_RATE: f64 = 0.1;
/// Columns of a chart's name, and of a number.
const NAME: u16 = 24;
const NUMBER: u16 = 9;

/// A number in time, with a short name.
struct Line<'a> {
    name: String,
    chart: &'a Chart,
    points: &'a [(Micros, f64)],
}

/// What is said first: sources that fail, the verdict, what the report says.
fn words(state: &State) -> Vec<(Severity, String)> {
    let mut all = Vec::new();
    for (name, standing) in &state.sources {
        if let Some(failure) = standing.failure(state.now) {
            all.push((Severity::Critical, format!("{name} {failure}")));
        }
    }
    match (&state.story[..], &state.course) {
        ([first, rest @ ..], _) => {
            let severity = state.course.as_ref().map_or(Severity::Info, |course| course.severity);
            all.push((severity, first.clone()));
            all.extend(rest.iter().take(3).map(|line| (Severity::Info, line.clone())));
        }
        ([], Some(course)) => {
            all.push((course.severity, course.verdict.clone()));
        }
        ([], None) if !state.is_live && state.found.as_ref().is_some_and(|found| found.holders.is_empty()) => {
            all.push((
                Severity::Warning,
                "No load data in these sources; the Log tab (0) lists what could not be read.".to_owned(),
            ));
        }
        ([], None) => all.push((Severity::Info, ANALYSING.to_owned())),
    }
    all
}

/// How the memory of cgroups went.
fn memory(state: &State) -> Vec<Line<'_>> {
    lines(state).into_iter().filter(|line| line.chart.name.starts_with("cgroup_")).collect()
}

/// Of the tab Memory what its table has, and what is below it: how memory went, if anything of it is known.
pub(super) fn with_memory(state: &State, area: Rect) -> (Rect, Rect) {
    let height = (memory(state).len() as u16).min(area.height / 2);
    (Rect { height: area.height - height, ..area }, Rect { y: area.bottom() - height, height, ..area })
}

/// Draws how the memory of cgroups went.
pub(super) fn draw_memory(state: &State, area: Rect, buffer: &mut Buffer) {
    draw_charts(state, &memory(state), area, buffer);
}

fn lines(state: &State) -> Vec<Line<'_>> {
    let Some(course) = &state.course else { return Vec::new() };
    let mut all = Vec::new();
    let has_any = |points: &[(Micros, f64)]| points.iter().any(|(_, value)| *value > 0.0);
    for chart in course.charts.iter().filter(|chart| chart.name != "clients") {
        let of = |line: &str| match chart.name.as_str() {
            "failures" if line.starts_with("429") => "429s".to_owned(),
            "failures" if line.starts_with("requests") => "slow (1 s or longer)".to_owned(),
            "latency_ms" if line == "median" => "p50 ms".to_owned(),
            "latency_ms" => "p99 ms".to_owned(),
            "server_time" => "in flight (mean)".to_owned(),
            "requests" | "failures" => line.to_owned(),
            "inflight" => format!("in flight {line}"),
            "seats" => format!("seats {line}"),
            "queued" => format!("waiting {line}"),
            "resident" => format!("memory {line}"),
            "etcd" => format!("etcd's size {line}"),
            name => format!("{} {line}", name.trim_start_matches("cgroup_")),
        };
        let most = if chart.name.starts_with("cgroup_") { 4 } else { LINES };
        for (line, points) in chart.lines.iter().filter(|(_, points)| has_any(points)).take(most) {
            all.push(Line { name: of(line), chart, points });
        }
    }
    all
}

/// Draws it.
pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let theme = &state.theme;
    let width = usize::from(area.width);
    let mut y = area.y;
    let room = area.height / 4;
    for (severity, text) in words(state) {
        for line in wrapped(&text, width) {
            if y < area.y + room.max(3) {
                buffer.set_stringn(
                    area.x,
                    y,
                    line,
                    width,
                    if severity == Severity::Info { theme.text } else { theme.of(severity) },
                );
                y += 1;
            }
        }
    }
    y += 1;
    let findings = state.all_findings();
    let least = (findings.len() as u16 + 1).min(area.height / 3);
    let charts = Rect { y, height: area.bottom().saturating_sub(y + least + 1), ..area };
    let used = draw_charts(state, &lines(state), charts, buffer);
    y = charts.y + used + u16::from(used > 0);
    draw_findings(state, &findings, Rect { y, height: area.bottom().saturating_sub(y), ..area }, buffer);
}

/// Draws numbers in time; how many lines that took.
fn draw_charts(state: &State, all: &[Line<'_>], area: Rect, buffer: &mut Buffer) -> u16 {
    let Some(span) = state.clock.span else { return 0 };
    let columns = if area.width >= WIDE_COLUMNS { 2 } else { 1 };
    let width = (area.width - 2 * (columns - 1)) / columns;
    let rows = (all.len() as u16).div_ceil(columns).min(area.height);
    if width < NAME + 2 * NUMBER + 12 || rows == 0 {
        return 0;
    }
    let theme = &state.theme;
    let plot = width - NAME - 2 * NUMBER - 1;
    for (number, line) in all.iter().enumerate().take(usize::from(rows * columns)) {
        let (column, row) = (number as u16 / rows, number as u16 % rows);
        let (x, y) = (area.x + column * (width + 2), area.y + row);
        let values = highest(line.points, span, plot);
        // Lines of one chart are set beside one another; what fails is far less than what is asked for, though.
        let shared =
            line.chart.lines.iter().flat_map(|(_, points)| points).map(|(_, value)| *value).fold(0.0, f64::max);
        let own = line.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let most = if line.chart.name.starts_with("cgroup_") { shared } else { own };
        // One request in minutes is no full bar.
        let most = if line.chart.unit == Unit::PerSecond { most.max(LEAST_RATE) } else { most };
        // A size is that of its moment; a rate is of the time from there on.
        let is_size = line.chart.unit == Unit::Bytes;
        let is_here = |at: Micros| at < state.clock.at || is_size && at == state.clock.at;
        let here = line.points.iter().rev().find(|(at, _)| is_here(*at)).map(|(_, value)| *value);
        let number = |value: f64| amount(line.chart.unit, value);
        buffer.set_stringn(x, y, fit(&plain(&line.name), usize::from(NAME - 1)), usize::from(NAME), theme.text);
        let here = here.map_or_else(|| "-".to_owned(), number);
        buffer.set_stringn(x + NAME, y, format!("{here:>8}"), usize::from(NUMBER), theme.heading);
        buffer.set_stringn(x + NAME + NUMBER, y, bars(&values, most), usize::from(plot), theme.line);
        let right = format!("≤ {}", number(own));
        buffer.set_stringn(x + NAME + NUMBER + plot + 1, y, right, usize::from(NUMBER), theme.dim);
        let at = super::timeline::column(span, plot, state.clock.at - 1);
        buffer.set_style(Rect { x: x + NAME + NUMBER + at, y, width: 1, height: 1 }, theme.selected);
    }
    rows
}

fn draw_findings(state: &State, findings: &[&Finding], area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let theme = &state.theme;
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    let is_asked = state.asked.iter().any(|asked| asked.role == super::want::Role::Story);
    let is_first = state.story.is_empty() && state.pane().asked.is_some() && state.pane().answer.is_none();
    let is_busy = is_asked || state.found.is_none() || is_first;
    let counts = format!(
        "{} critical, {}, {}",
        count(Severity::Critical),
        counted(count(Severity::Warning), "warning"),
        counted(count(Severity::Info), "note")
    );
    // What is not known yet is not none.
    let title = match (is_busy, findings.is_empty()) {
        (true, true) => format!("Findings: {ANALYSING}"),
        (true, false) => format!("Findings so far: {counts}; {ANALYSING}"),
        (false, _) => format!("Findings: {counts} (Enter: what to do)"),
    };
    buffer.set_stringn(area.x, area.y, title, usize::from(area.width), theme.heading);
    let height = usize::from(area.height - 1).max(1);
    let selected = state.selected.min(findings.len().saturating_sub(1));
    let first = (selected / height * height).min(findings.len().saturating_sub(height));
    for (y, (number, finding)) in (area.y + 1..area.bottom()).zip(findings.iter().enumerate().skip(first)) {
        let name = finding.severity.name();
        let text = format!("{name:<8} {}", plain(&finding.summary));
        let style = if number == selected { theme.selected } else { theme.of(finding.severity) };
        buffer.set_stringn(area.x, y, fit_end(&text, usize::from(area.width)), usize::from(area.width), style);
    }
}
