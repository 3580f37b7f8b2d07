//! An incident report: as a page, as Markdown, as JSON and YAML.

mod html;
mod markdown;
mod own;

use super::Format;
use super::json;
use super::yaml;
use crate::model::incident::Incident;
use crate::model::report::Report;
use serde_json::{Map, json};
use std::io::{self, Write};

/// Writes it. `report` is what its own tables and findings are.
pub fn render(incident: &Incident, report: &Report, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Html => html::write(incident, report, out),
        Format::Markdown => markdown::write(incident, report, out),
        Format::Yaml => yaml::write(&whole(incident, report), out),
        _ => json::write_with(report, &incident.sections, out),
    }?;
    out.flush()
}

/// Sections of somebody's own, as templates that are given the report; the error names the file and the place.
pub fn fill(incident: &mut Incident, report: &Report) -> Result<(), String> {
    // All of the report once more is much, and most want none.
    if incident.own.is_empty() {
        return Ok(());
    }
    own::fill(incident, &json::document(&whole(incident, report)))
}

/// The report with what other commands say.
fn whole(incident: &Incident, report: &Report) -> Report {
    let mut report = report.clone();
    let mut sections = Map::new();
    for section in &incident.sections {
        let mut document = json::document(&section.report);
        if let Some(members) = document.as_object_mut() {
            members.insert("command".to_owned(), json!(section.command));
        }
        sections.insert(section.name.to_owned(), document);
    }
    report.more.insert("sections".to_owned(), sections.into());
    report
}
