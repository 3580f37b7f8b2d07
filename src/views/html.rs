//! Pages of HTML: no network, no markup out of strings, a policy that forbids anything remote; and the page of any
//! report.

use super::columns::{self, Kind};
use super::table::tables_for_people;
use super::text::{is_active, plain};
use crate::model::report::{Finding, Report, Severity, Table, Value};
use crate::model::units::counted;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minijinja::{AutoEscape, Environment};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::io::{self, Write};

const HEAD: &str = include_str!("templates/head.html");
const TAIL: &str = include_str!("templates/tail.html");
const TABLES: &str = include_str!("templates/tables.html");
const STYLE: &str = include_str!("templates/report.css");
const SCRIPT: &str = include_str!("templates/report.js");

/// Characters of a text that are shown.
const MAX_TEXT_CHARS: usize = 600;
/// Findings that a page of tables shows.
const FINDINGS: usize = 200;

/// Fills the template of a page's body and writes the page. `page` is what it shows, as text; `data` what the script
/// draws; `owns` are sections of somebody's own, which may be markup.
pub(super) fn fill(body: &str, page: Json, data: Json, owns: Json, out: &mut dyn Write) -> io::Result<()> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let template = [HEAD, body, TAIL].concat();
    environment.add_template("page", &template).map_err(io::Error::other)?;
    let mut page = harmless(page);
    if let Some(members) = page.as_object_mut() {
        let raw = [
            ("owns", owns),
            ("style", json!(STYLE)),
            ("script", json!(SCRIPT)),
            ("style_hash", json!(hash(STYLE))),
            ("script_hash", json!(hash(SCRIPT))),
            ("data", json!(script_json(&harmless(data)))),
        ];
        members.extend(raw.map(|(name, value)| (name.to_owned(), value)));
    }
    let template = environment.get_template("page").map_err(io::Error::other)?;
    let text = template.render(page).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

/// Writes a report: what it says first, its tables for people, findings, notes.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let window = &report.window;
    let name = report.schema.trim_start_matches("plimsoll.").split('/').next().unwrap_or_default();
    let tables: Vec<Json> = tables_for_people(report)
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(table, rows)| {
            let title = if table.title.is_empty() { sentence(&table.name) } else { table.title.clone() };
            let (id, name) = (format!("t-{}", table.name), sentence(&table.name));
            json!({"id": id, "name": name, "title": title, "grid": grid(table, rows)})
        })
        .collect();
    let grave = |severity: Severity| report.findings.iter().filter(|own| own.severity == severity).count() as u64;
    let (badge, class) = match (grave(Severity::Critical), grave(Severity::Warning)) {
        (0, 0) => ("Nothing critical".to_owned(), "none"),
        (0, warnings) => (counted(warnings, "warning"), "degraded"),
        (critical, _) => (format!("{critical} critical"), "incident"),
    };
    let more = report.findings.len().saturating_sub(FINDINGS);
    let lost = report.inputs.iter().filter_map(|own| {
        let error = own.first_error.as_deref()?;
        let is_noted = report.notes.iter().any(|note| note.contains(error));
        (!is_noted).then(|| if error.contains(&own.path) { error.to_owned() } else { format!("{}: {error}", own.path) })
    });
    let page = json!({
        "title": format!("{} report", sentence(name)),
        "lead": report.lead.iter().map(|line| line.replace('\t', " ")).collect::<Vec<_>>(),
        "badge": badge, "class": class, "tables": tables,
        "findings": report.findings.iter().take(FINDINGS).map(finding).collect::<Vec<_>>(),
        "more": (more > 0).then(|| format!("{}: -o json has them.", counted(more as u64, "more finding"))),
        "notes": report.notes,
        "span": (!window.from.is_empty()).then(|| format!("{} to {}", window.from, window.to)),
        "inputs": report.inputs.iter().map(|own| own.path.as_str()).collect::<Vec<_>>(),
        "lost": lost.collect::<Vec<_>>(),
    });
    fill(TABLES, page, json!({}), json!([]), out)
}

/// As a policy names it.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

/// JSON that stays data wherever it stands in a page.
fn script_json(value: &Json) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// All texts without what could act, and none longer than a person reads. Lines of manifests stay lines.
fn harmless(value: Json) -> Json {
    match value {
        Json::String(text) if text.contains('\n') => {
            Json::String(text.chars().filter(|c| *c == '\n' || !is_active(*c)).collect())
        }
        Json::String(text) => {
            let text = plain(&text);
            let cut = text.char_indices().nth(MAX_TEXT_CHARS).map(|(at, _)| format!("{}…", &text[..at]));
            Json::String(cut.unwrap_or_else(|| text.into_owned()))
        }
        Json::Array(items) => items.into_iter().map(harmless).collect(),
        Json::Object(members) => members.into_iter().map(|(name, member)| (name, harmless(member))).collect(),
        other => other,
    }
}

/// A finding: what a template shows of it.
pub(super) fn finding(finding: &Finding) -> Json {
    let tame = |text: &str| text.trim_end_matches('.').to_owned();
    let (label, remedy) = finding.advice();
    json!({"id": finding.id, "severity": finding.severity.name(), "summary": tame(&finding.summary),
        "label": label, "remedy": tame(remedy)})
}

/// A table without columns that are empty everywhere, and without those that only `-o wide` shows.
pub(super) fn grid(table: &Table, rows: &[Vec<Value>]) -> Json {
    let is_empty = |c: usize| {
        rows.iter().all(|row| matches!(&row[c], Value::None) || matches!(&row[c], Value::Text(text) if text.is_empty()))
    };
    let shown: Vec<usize> = (0..table.columns.len()).filter(|&c| !columns::is_wide(table, c) && !is_empty(c)).collect();
    let kinds: Vec<Kind> = shown.iter().map(|&c| columns::kind_in(table, c)).collect();
    let is_number = |kind: Kind| !kind.is_text();
    let heads = shown
        .iter()
        .zip(&kinds)
        .map(|(&c, kind)| json!({"title": sentence(&columns::heading(table, c)), "number": is_number(*kind)}));
    let cell = |value: &Value, kind: Kind| {
        let number = match value {
            Value::Count(count) => Some(*count as f64),
            Value::Number(number) => Some(*number),
            _ => None,
        };
        json!({"t": columns::show(kind, value), "v": number, "n": is_number(kind)})
    };
    let rows =
        rows.iter().map(|row| shown.iter().zip(&kinds).map(|(&c, kind)| cell(&row[c], *kind)).collect::<Vec<_>>());
    json!({"title": table.title, "heads": heads.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>()})
}

/// `P50 MS` as `P50 ms`: headings are capitals in a terminal only.
fn sentence(title: &str) -> String {
    let mut words = title.split(' ').map(|word| match word {
        "5XX" | "4XX" => word.replace("XX", "xx"),
        "APF" | "CRD" | "LIST" | "SLO" => word.to_owned(),
        word => word.to_lowercase(),
    });
    let first = words.next().unwrap_or_default();
    let mut letters = first.chars();
    let first: String =
        letters.next().map(|c| c.to_uppercase().collect::<String>() + letters.as_str()).unwrap_or_default();
    std::iter::once(first).chain(words).collect::<Vec<_>>().join(" ")
}
