//! What lies over a tab: details, help, and lines that are being typed.

use super::Tab;
use super::grid::Grid;
use super::sheet::{Answer, Body};
use crate::model::report::{Finding, Severity, Table, Value};
use crate::model::units::percent;
use crate::views::columns;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A heading.
    Heading,
    /// A sentence.
    Text,
    /// What may be overlooked.
    Dim,
    /// Something of this severity.
    Of(Severity),
}

/// Lines in a box over the tab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Popup {
    /// Its heading.
    pub title: String,
    /// Its lines; a tab stands between a name and what is said of it.
    pub lines: Vec<(Look, String)>,
    /// Lines that are scrolled off its top.
    pub scroll: usize,
    /// Whom it is about: names and values of a row.
    pub about: Vec<(String, String)>,
}

/// What is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// A filter of rows.
    Filter,
    /// A command.
    Command,
    /// A file to write what is shown to.
    Export,
    /// A bundle to write.
    Save,
}

/// A line that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What for.
    pub asks: Asks,
    /// What stands in it.
    pub text: String,
}

impl Asks {
    /// What stands before what is typed.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Filter => "/",
            Self::Command => ":",
            Self::Export => "write to: ",
            Self::Save => "save as bundle: ",
        }
    }
}

impl Popup {
    fn new(title: &str) -> Self {
        Self { title: title.to_owned(), lines: Vec::new(), scroll: 0, about: Vec::new() }
    }

    fn line(&mut self, look: Look, text: impl Into<String>) {
        self.lines.push((look, text.into()));
    }

    fn gap(&mut self) {
        if !self.lines.is_empty() {
            self.line(Look::Text, "");
        }
    }

    /// What the keys of a tab do.
    pub fn help(tab: Tab, keys: &[(String, &'static str)]) -> Self {
        let mut popup = Self::new(&format!("{}: help (Esc closes it)", tab.name()));
        popup.line(Look::Text, format!("{}.", tab.about()));
        popup.gap();
        for (keys, what) in keys {
            popup.line(Look::Text, format!("{keys}\t{what}"));
        }
        popup.gap();
        popup.line(
            Look::Dim,
            "What is shown is what the command prints that Y copies; what the columns mean: docs/commands.md.",
        );
        popup
    }

    /// Everything about a finding.
    pub fn finding(finding: &Finding) -> Self {
        let mut popup = Self::new(&finding.id);
        popup.tell(finding);
        popup
    }

    fn tell(&mut self, finding: &Finding) {
        self.gap();
        self.line(
            Look::Of(finding.severity),
            format!("{} {} (confidence {})", finding.severity.name(), finding.id, percent(finding.confidence)),
        );
        self.line(Look::Text, format!("{}.", finding.summary.trim_end_matches('.')));
        self.line(Look::Text, format!("What to do:\t{}.", finding.remedy.trim_end_matches('.')));
        for (name, value) in &finding.subject {
            self.line(Look::Dim, format!("{name}\t{value}"));
        }
        for (name, value) in &finding.evidence {
            self.line(
                Look::Dim,
                format!("{name}\t{}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            );
        }
        for (name, at) in [("first seen", &finding.first_seen), ("last seen", &finding.last_seen)] {
            if !at.is_empty() {
                self.line(Look::Dim, format!("{name}\t{at}"));
            }
        }
        self.line(Look::Dim, format!("more\t{}", finding.docs));
    }

    /// Everything about a row: all its columns, and what was found of whom it is about.
    pub fn row(grid: &Grid, answer: &Answer) -> Option<Self> {
        let shown = grid.selected_fields();
        let whole = answer
            .whole
            .iter()
            .find_map(|table| Some((table, table.rows.iter().find(|row| is_same(table, row, &shown))?)));
        let mut popup = Self::new(&grid.title);
        let fields: Vec<(&str, &Value)> = match whole {
            Some((table, row)) => table.columns.iter().map(String::as_str).zip(row).collect(),
            None => shown.clone(),
        };
        if fields.is_empty() {
            return None;
        }
        let texts: Vec<(String, String)> = fields.iter().flat_map(|(name, value)| named(name, value)).collect();
        // What to do stands first.
        answer.findings.iter().filter(|finding| is_about(finding, &texts)).for_each(|finding| popup.tell(finding));
        popup.gap();
        for (name, value) in fields.iter().filter(|(name, _)| *name != "findings") {
            let text = columns::show(columns::kind(name), value);
            if !matches!(text.as_str(), "" | "-" | "[]" | "{}") {
                popup.line(Look::Text, format!("{}\t{text}", name.replace('_', " ")));
            }
        }
        popup.about = texts;
        Some(popup)
    }

    /// How it went in time, known now.
    pub fn add_course(&mut self, answer: &Answer) {
        let bars =
            answer.parts.iter().find_map(|part| if let Body::Grid(grid) = &part.body { grid.bars() } else { None });
        if let Some(bars) = bars.filter(|bars| !bars.trim().is_empty()) {
            self.lines.insert(0, (Look::Heading, format!("in time\t{bars}")));
        }
    }
}

/// Texts of a value by their names: those of a group's members too.
fn named(name: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Text(text) => vec![(name.to_owned(), text.clone())],
        Value::Group(members) => members.iter().flat_map(|(name, value)| named(name, value)).collect(),
        _ => Vec::new(),
    }
}

/// Whether a row with all columns is the one of which some are shown: all texts that both have are the same, or what is shown is the end of a
/// longer name, and there is one.
fn is_same(table: &Table, row: &[Value], shown: &[(&str, &Value)]) -> bool {
    let own: Vec<(String, String)> =
        table.columns.iter().zip(row).flat_map(|(name, value)| named(name, value)).collect();
    let both: Vec<bool> = shown
        .iter()
        .filter_map(|(name, value)| if let Value::Text(text) = value { Some((*name, text)) } else { None })
        .filter_map(|(name, text)| {
            own.iter()
                .find(|(own, _)| own == name)
                .map(|(_, own)| own == text || own.strip_suffix(text.as_str()).is_some_and(|rest| rest.ends_with(':')))
        })
        .collect();
    !both.is_empty() && both.iter().all(|is| *is)
}

/// Whether a finding is about the one with these names: nothing of its subject is another, and something is the same.
fn is_about(finding: &Finding, texts: &[(String, String)]) -> bool {
    let same: Vec<bool> = finding
        .subject
        .iter()
        .filter_map(|(name, value)| texts.iter().find(|(own, _)| own == name).map(|(_, own)| own == value))
        .collect();
    !same.is_empty() && same.iter().all(|is| *is)
}
