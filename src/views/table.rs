//! Aligned columns for people.

use super::Style;
use super::chart;
use super::columns::{self, Kind};
use super::text::{fit, fit_end, plain, wrapped};
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
        writeln!(
            out,
            "\n{on}{}{off} {} (confidence {})",
            finding.severity.name(),
            plain(&finding.id),
            percent(finding.confidence)
        )?;
        let (label, remedy) = finding.advice();
        prose(&[format!("  \t{}.", finding.summary), format!("  \t{label}: {remedy}.")], style, out)?;
    }
    match findings.first() {
        Some(first) if style.headers => {
            writeln!(out)?;
            prose(&[format!("To explain a finding: plimsoll explain {}", plain(&first.id))], style, out)
        }
        _ => Ok(()),
    }
}

/// Sentences, broken at blanks to the width of the terminal.
fn prose(lines: &[String], style: &Style, out: &mut dyn Write) -> io::Result<()> {
    // Lines that name what they are about stand in columns: a tab is behind the name.
    let names =
        lines.iter().filter_map(|line| line.split_once('\t')).map(|(name, _)| plain(name).width()).max().unwrap_or(0);
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
    // A column that is empty everywhere shows nothing, nor does one of zeros that only some tables need.
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|&c| wide || !columns::is_wide(table, c))
        .filter(|&c| wide || table.is_raw || table.columns[c] != "open" || rows.iter().any(|row| row[c] != 0u64.into()))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let titles: Vec<String> = shown.iter().map(|&c| plain(&columns::heading(table, c)).into_owned()).collect();
    let kinds: Vec<Kind> = shown.iter().map(|&c| columns::kind_in(table, c)).collect();
    let cell = |row: &Vec<Value>, (&c, kind): (&usize, &Kind)| plain(&columns::show(*kind, &row[c])).into_owned();
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| shown.iter().zip(&kinds).map(|of| cell(row, of)).collect()).collect();
    let need = |at: usize| cells.iter().map(|row| row[at].width()).chain([titles[at].width()]).max().unwrap_or(0);
    let needs: Vec<Need<'_>> =
        (0..shown.len()).map(|at| Need { name: &table.columns[shown[at]], kind: kinds[at], width: need(at) }).collect();
    // `-o wide` was asked for all of them.
    let laid = layout(&needs, style.width, if wide { None } else { Some(MIN_TEXT) });
    // The last column, if it holds sentences, is broken into lines.
    let is_sentence =
        |&(at, width): &(usize, usize)| !wide && width >= MIN_SENTENCE && SENTENCES.contains(&needs[at].name);
    let sentence = laid.last().copied().filter(is_sentence);
    let cut = &laid[..laid.len() - usize::from(sentence.is_some())];
    let heading = style.headers.then_some(&titles);
    for (number, row) in heading.into_iter().chain(&cells).enumerate() {
        let is_heading = style.headers && number == 0;
        let mut line = String::new();
        for &(at, width) in cut {
            line += &aligned(&row[at], kinds[at], width);
            line += "  ";
        }
        let indent = line.width();
        let broken = sentence.map(|(at, width)| wrapped(&fit_end(&row[at], MAX_LINES * width), width));
        let mut broken = broken.unwrap_or_default().into_iter();
        line += &broken.next().unwrap_or_default();
        let line = line.trim_end();
        if style.color && is_heading {
            writeln!(out, "\u{1b}[1m{line}\u{1b}[0m")?
        } else {
            writeln!(out, "{line}")?
        }
        for more in broken {
            writeln!(out, "{:indent$}{more}", "")?;
        }
    }
    Ok(())
}

/// Columns of sentences: where such a column is the last, it is broken into lines instead of cut.
const SENTENCES: [&str; 4] = ["summary", "incident_what", "why", "reason"];
/// In fewer columns a sentence is cut,
const MIN_SENTENCE: usize = 12;
/// and where it is longer than so many lines.
const MAX_LINES: usize = 6;

/// `text` cut or filled up to `width` columns: numbers stand at the right.
pub(super) fn aligned(text: &str, kind: Kind, width: usize) -> String {
    let text = fit(text, width);
    let pad = " ".repeat(width.saturating_sub(text.width()));
    if kind.is_text() { format!("{text}{pad}") } else { format!("{pad}{text}") }
}

/// Columns that go first where a line would be too long, in this order.
const FIRST_TO_GO: [&str; 56] = [
    "guard_gone",
    "guard_outcome",
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

/// A column that might be shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need<'a> {
    /// Its JSON field name.
    pub name: &'a str,
    /// How its values are written.
    pub kind: Kind,
    /// How wide the widest of its cells is.
    pub width: usize,
}

/// Which columns stand in a line of `limit`, by their place in `needs`, and how wide each is: what it needs, the widest
/// text columns cut. Where texts would be cut below `least`, columns go, as [`FIRST_TO_GO`] has it; without `least`
/// none does.
pub(super) fn layout(needs: &[Need<'_>], limit: Option<usize>, least: Option<usize>) -> Vec<(usize, usize)> {
    let mut shown: Vec<usize> = (0..needs.len()).collect();
    loop {
        if let Some(widths) = widths(needs, &shown, limit, least.unwrap_or(MIN_TEXT)) {
            return shown.into_iter().zip(widths).collect();
        }
        let goes = FIRST_TO_GO.iter().find_map(|name| shown.iter().position(|&at| needs[at].name == *name));
        match goes.filter(|_| least.is_some()) {
            Some(goes) => drop(shown.remove(goes)),
            // There is none left that may go: texts are cut further.
            None if least.is_some_and(|least| least > MIN_TEXT) => return layout(needs, limit, Some(MIN_TEXT)),
            // It does not fit: texts are as short as they get, unless all was asked for.
            None => {
                let most = if least.is_some() { MIN_TEXT } else { usize::MAX };
                let widths = widths(needs, &shown, None, MIN_TEXT).unwrap_or_default();
                let cut = |at: usize, width: usize| if needs[at].kind == Kind::Text { width.min(most) } else { width };
                return shown.into_iter().zip(widths).map(|(at, width)| (at, cut(at, width))).collect();
            }
        }
    }
}

/// The width of each column: what it needs, the widest text columns cut until the line fits. `None`
/// where it does not fit all the same.
fn widths(needs: &[Need<'_>], shown: &[usize], limit: Option<usize>, least: usize) -> Option<Vec<usize>> {
    // Even where lines may be long, one hostile value should not push the rest away.
    let most = limit.unwrap_or(160).max(MIN_TEXT);
    let mut widths: Vec<usize> = shown.iter().map(|&at| needs[at].width.min(most)).collect();
    let Some(limit) = limit else { return Some(widths) };
    while widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) > limit {
        // On a small screen what was done matters more than who did it in full.
        let floor = |name: &str| if name == "guard_what" && least > MIN_TEXT { least.max(36) } else { least };
        let is_long = |at: &usize| needs[shown[*at]].kind == Kind::Text && widths[*at] > floor(needs[shown[*at]].name);
        let widest = (0..widths.len()).filter(is_long).max_by_key(|&at| widths[at])?;
        widths[widest] -= 1;
    }
    Some(widths)
}
