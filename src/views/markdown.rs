//! A Markdown table, fit for a ticket.

use super::Style;
use super::chart;
use super::columns;
use super::table::tables_for_people;
use super::text::plain;
use crate::model::picture::Picture;
use crate::model::report::Report;
use std::io::{self, Write};

/// Writes lead, table and notes.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for line in &report.lead {
        match line.split_once('\t') {
            Some((what, text)) => writeln!(out, "- **{}** {}", escape(what), escape(text))?,
            None => writeln!(out, "{}\n", escape(line))?,
        }
    }
    if report.lead.last().is_some_and(|line| line.contains('\t')) {
        writeln!(out)?;
    }
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    for (number, (table, rows)) in tables_for_people(report).into_iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let all = 0..table.columns.len();
        if !table.title.is_empty() {
            writeln!(out, "### {}\n", escape(&table.title))?;
        }
        let heading = |c: usize| match columns::heading(table, c) {
            heading if table.is_raw => escape(&heading),
            heading => escape(&heading.to_lowercase()),
        };
        writeln!(out, "{}", line(all.clone().map(heading).collect()))?;
        let mark = |c: usize| if columns::kind_in(table, c).is_text() { "---" } else { "--:" };
        writeln!(out, "{}", line(all.clone().map(|c| mark(c).to_owned()).collect()))?;
        for row in rows {
            let cells = all.clone().zip(row).map(|(c, v)| escape(&columns::show(columns::kind_in(table, c), v)));
            writeln!(out, "{}", line(cells.collect()))?;
        }
    }
    if !report.pictures.is_empty() {
        // A name that begins with backticks would close the fence.
        let tame = |picture: &Picture| Picture { title: picture.title.replace('`', "'"), ..picture.clone() };
        let pictures: Vec<Picture> = report.pictures.iter().map(tame).collect();
        writeln!(out, "\n```text")?;
        chart::write(&pictures, &Style { width: Some(80), color: false, headers: true, compact: false }, out)?;
        writeln!(out, "```")?;
    }
    for finding in report.shown_findings() {
        let (label, remedy) = finding.advice();
        writeln!(
            out,
            "\n- **{}** {}: {}. {label}: {}.",
            finding.severity.name(),
            escape(&finding.id),
            escape(&finding.summary),
            escape(remedy)
        )?;
    }
    for note in &report.notes {
        writeln!(out, "\n{}", escape(note))?;
    }
    Ok(())
}

/// `text` so that neither Markdown nor HTML in it acts.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in plain(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"), // no mention of people
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            ':' if out.ends_with("http") || out.ends_with("https") => out.push_str("&#58;"),
            '.' if out.to_ascii_lowercase().ends_with("www") => out.push_str("&#46;"),
            c => out.push(c),
        }
    }
    out
}
