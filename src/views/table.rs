//! Aligned columns for people.

use super::Style;
use super::columns::{self, Kind};
use super::text::{fit, plain};
use crate::model::report::{Report, Table, Value};
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// A text column is not cut below this.
const MIN_TEXT: usize = 12;

/// Writes the table, with its lead and notes.
pub(super) fn write(report: &Report, style: &Style, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    if style.headers {
        for line in &report.lead {
            writeln!(out, "{}", plain(line))?;
        }
        if !report.lead.is_empty() {
            writeln!(out)?;
        }
    }
    for (number, (table, rows)) in tables_for_people(report).into_iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        grid(table, rows, style, wide, out)?;
    }
    if style.headers && !report.notes.is_empty() {
        writeln!(out)?;
        for line in &report.notes {
            writeln!(out, "{}", plain(line))?;
        }
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
    let mut cells: Vec<Vec<String>> = Vec::with_capacity(rows.len());
    for row in rows {
        cells.push(shown.iter().map(|&c| plain(&columns::show(columns::kind(&table.columns[c]), &row[c])).into_owned()).collect());
    }
    let titles: Vec<String> = shown.iter().map(|&c| columns::title(&table.columns[c]).into_owned()).collect();
    let kinds: Vec<Kind> = shown.iter().map(|&c| columns::kind(&table.columns[c])).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let widths = widths(&titles, &kinds, &cells, style.width);
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

/// The width of each column: what it needs, the widest text columns cut until the line fits.
fn widths(titles: &[String], kinds: &[Kind], cells: &[Vec<String>], limit: Option<usize>) -> Vec<usize> {
    let mut widths: Vec<usize> = titles.iter().map(|title| title.width()).collect();
    for row in cells {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.width());
        }
    }
    // Even where lines may be long, one hostile value should not push the rest away.
    widths.iter_mut().for_each(|width| *width = (*width).min(limit.unwrap_or(160).max(MIN_TEXT)));
    let Some(limit) = limit else { return widths };
    while widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) > limit {
        let widest = (0..widths.len()).filter(|&c| kinds[c] == Kind::Text && widths[c] > MIN_TEXT).max_by_key(|&c| widths[c]);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
    }
    widths
}
