//! Aligned columns for people.

use super::Style;
use super::chart;
use super::columns::{self, Kind};
use super::text::{fit, plain};
use crate::model::report::{Finding, Report, Severity, Table, Value};
use crate::model::units::percent;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// A text column is not cut below this.
const MIN_TEXT: usize = 12;

/// Writes the table, with its lead and notes.
pub(super) fn write(report: &Report, style: &Style, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    if style.headers {
        prose(&report.lead, style, out)?;
        if !report.lead.is_empty() {
            writeln!(out)?;
        }
    }
    for (number, (table, rows)) in tables_for_people(report).into_iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        if style.headers && !table.title.is_empty() {
            prose(std::slice::from_ref(&table.title), style, out)?;
        }
        grid(table, rows, style, wide, out)?;
    }
    chart::write(&report.pictures, style, out)?;
    findings(report.shown_findings(), style, out)?;
    if style.headers && !report.notes.is_empty() {
        writeln!(out)?;
        prose(&report.notes, style, out)?;
    }
    Ok(())
}

/// Findings: how grave, what, what to do.
fn findings(findings: &[Finding], style: &Style, out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        let color = match finding.severity {
            Severity::Critical => "\u{1b}[1;31m",
            Severity::Warning => "\u{1b}[1;33m",
            Severity::Info => "\u{1b}[1m",
        };
        let (on, off) = if style.color { (color, "\u{1b}[0m") } else { ("", "") };
        writeln!(out, "\n{on}{}{off} {} (confidence {})", finding.severity.name(), plain(&finding.id), percent(finding.confidence))?;
        prose(&[format!("  \t{}.", finding.summary), format!("  \tWhat to do: {}.", finding.remedy)], style, out)?;
    }
    Ok(())
}

/// Sentences, broken at blanks to the width of the terminal.
fn prose(lines: &[String], style: &Style, out: &mut dyn Write) -> io::Result<()> {
    // Lines that name what they are about stand in columns: a tab is behind the name.
    let names = lines.iter().filter_map(|line| line.split_once('\t')).map(|(name, _)| plain(name).width()).max().unwrap_or(0);
    for line in lines {
        let mut used = 0;
        let mut indent = 0;
        let mut text = line.as_str();
        if let Some((name, rest)) = line.split_once('\t') {
            let name = plain(name);
            indent = names + 2;
            let bold = if style.color { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
            write!(out, "{}{name}{}{}", bold.0, bold.1, " ".repeat(indent - name.width()))?;
            text = rest;
        }
        for word in plain(text).split(' ') {
            let width = word.width();
            if used > 0 && style.width.is_some_and(|limit| indent + used + 1 + width > limit) {
                write!(out, "\n{}", " ".repeat(indent))?;
                used = 0;
            } else if used > 0 {
                write!(out, " ")?;
                used += 1;
            }
            write!(out, "{word}")?;
            used += width;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The tables that people are shown, each with the rows to show.
pub(super) fn tables_for_people(report: &Report) -> Vec<(&Table, &[Vec<Value>])> {
    match &report.people {
        Some(tables) => tables.iter().map(|table| (table, table.rows.as_slice())).collect(),
        None => vec![(&report.table, report.shown_rows())],
    }
}

fn grid(table: &Table, rows: &[Vec<Value>], style: &Style, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    // A column that is empty everywhere tells nothing, nor does one of noughts that only some tables need.
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|&c| wide || columns::of(&table.columns[c]).is_none_or(|column| !column.wide))
        .filter(|&c| wide || table.columns[c] != "open" || rows.iter().any(|row| row[c] != 0u64.into()))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let mut shown = shown;
    let (titles, kinds, cells, widths) = loop {
        let titles: Vec<String> = shown.iter().map(|&c| plain(&columns::title(&table.columns[c])).into_owned()).collect();
        let kinds: Vec<Kind> = shown.iter().map(|&c| columns::kind(&table.columns[c])).collect();
        let cell = |row: &Vec<Value>, c: usize| plain(&columns::show(columns::kind(&table.columns[c]), &row[c])).into_owned();
        let cells: Vec<Vec<String>> = rows.iter().map(|row| shown.iter().map(|&c| cell(row, c)).collect()).collect();
        if let Some(widths) = widths(&titles, &kinds, &cells, style.width) {
            break (titles, kinds, cells, widths);
        }
        // `-o wide` was asked for all of them.
        let goes = FIRST_TO_GO.iter().find_map(|name| shown.iter().position(|&c| table.columns[c] == *name));
        match goes.filter(|_| !wide) {
            Some(goes) => drop(shown.remove(goes)),
            None => break (titles.clone(), kinds.clone(), cells.clone(), widths(&titles, &kinds, &cells, None).unwrap_or_default()),
        }
    };
    let heading = style.headers.then_some(&titles);
    for (number, row) in heading.into_iter().chain(&cells).enumerate() {
        let is_heading = style.headers && number == 0;
        let mut line = String::new();
        for ((text, kind), width) in row.iter().zip(&kinds).zip(&widths) {
            let text = fit(text, *width);
            let pad = " ".repeat(width - text.width());
            let right = !matches!(kind, Kind::Text | Kind::Spark);
            line += if right { &pad } else { &text };
            line += if right { &text } else { &pad };
            line += "  ";
        }
        let line = line.trim_end();
        if style.color && is_heading { writeln!(out, "\u{1b}[1m{line}\u{1b}[0m")? } else { writeln!(out, "{line}")? }
    }
    Ok(())
}

/// Columns that go first where a line would be too long, in this order.
const FIRST_TO_GO: [&str; 54] = [
    "depth_course",
    "attempts_course",
    "adds_per_s",
    "limiter_p99_ms",
    "inflight",
    "excess_time_share",
    "more_than_even",
    "restarts",
    "memory_bytes",
    "watches_share",
    "webhook_rules",
    "sources",
    "compare_course",
    "compare_between",
    "spike",
    "peak_at",
    "quota",
    "used",
    "level",
    "agents",
    "schema",
    "asks",
    "timed_out_total",
    "demand_share",
    "p50_ms",
    "peak_rps",
    "open",
    "throttled",
    "share",
    "client_errors",
    "cache_per_s",
    "etcd_objects_per_s",
    "p99_bytes",
    "fetched_per_list",
    "executing",
    "bytes_out_per_s",
    "events_in_per_s",
    "failed_open",
    "in_use_bytes",
    "quota_bytes",
    "slow_watchers",
    "events_per_s",
    "proposals_failed",
    "pending_events",
    "leader_changes",
    "is_leader",
    "component",
    "proposals_pending",
    "version",
    "p99_ms",
    "errors",
    "watches",
    "full_lists",
    "source_ips",
];

/// The width of each column: what it needs, the widest text columns cut until the line fits. `None`
/// where it does not fit all the same.
fn widths(titles: &[String], kinds: &[Kind], cells: &[Vec<String>], limit: Option<usize>) -> Option<Vec<usize>> {
    let mut widths: Vec<usize> = titles.iter().map(|title| title.width()).collect();
    for row in cells {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.width());
        }
    }
    // Even where lines may be long, one hostile value should not push the rest away.
    widths.iter_mut().for_each(|width| *width = (*width).min(limit.unwrap_or(160).max(MIN_TEXT)));
    let Some(limit) = limit else { return Some(widths) };
    while widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) > limit {
        let widest = (0..widths.len()).filter(|&c| kinds[c] == Kind::Text && widths[c] > MIN_TEXT).max_by_key(|&c| widths[c])?;
        widths[widest] -= 1;
    }
    Some(widths)
}
