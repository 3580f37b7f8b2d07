//! What lies over a tab: details, help, and lines that are being typed.

use super::Tab;
use super::grid::Grid;
use super::sheet::{Answer, Body};
use crate::model::incident::commands;
use crate::model::report::{Finding, Severity, Table, Value};
use crate::model::units::{bytes, grouped, percent, significant};
use crate::views::columns;
use crate::views::text::{fit, plain, wrapped};
use ratatui::layout::Rect;
use serde_json::Value as Json;
use unicode_width::UnicodeWidthStr;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
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
    /// Commands that its findings name.
    pub commands: Vec<String>,
}

/// What stands where something is still being found out.
pub const ANALYSING: &str = "analysing…";

/// What is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// A filter of rows.
    Filter,
    Command,
    /// A file to write what is shown to.
    Export,
    /// A bundle to write.
    Save,
}

/// A line that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub asks: Asks,
    /// What stands in it.
    pub text: String,
    /// Whether that is only what it would be if nothing were typed: the first letter takes its place.
    pub is_default: bool,
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
        Self { title: title.to_owned(), lines: Vec::new(), scroll: 0, about: Vec::new(), commands: Vec::new() }
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
            "The view shows the output of the command that Y copies. Columns: docs/commands/index.md.",
        );
        popup
    }

    /// Everything about a finding.
    pub fn finding(finding: &Finding) -> Self {
        let mut popup = Self::new(&finding.id);
        popup.add_finding(finding);
        popup
    }

    /// Its lines as they stand in a box of this inner width, long ones broken.
    pub(super) fn laid(&self, inner: usize) -> Vec<(Look, String)> {
        let named = self.lines.iter().filter_map(|(_, line)| line.split_once('\t'));
        let names = named.map(|(name, _)| plain(name).width()).max().unwrap_or(0).min(inner / 3);
        let mut lines = Vec::new();
        for (look, line) in &self.lines {
            match line.split_once('\t') {
                Some((name, text)) => {
                    for (number, part) in wrapped(text, inner.saturating_sub(names + 2)).into_iter().enumerate() {
                        let name = if number == 0 { fit(&plain(name), names).into_owned() } else { String::new() };
                        lines
                            .push((*look, format!("{name}{}  {part}", " ".repeat(names.saturating_sub(name.width())))));
                    }
                }
                None => lines.extend(wrapped(line, inner).into_iter().map(|line| (*look, line))),
            }
        }
        lines
    }

    /// Its box within an area, and how wide a line in it is: it stays as large as all of its lines make it.
    pub(super) fn place(&self, area: Rect) -> (Rect, usize) {
        let width = area.width.saturating_sub(4).min(110);
        let inner = usize::from(width.saturating_sub(4));
        let height = (self.laid(inner).len() as u16).saturating_add(2).min(area.height);
        (Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }, inner)
    }

    /// How far it can be scrolled.
    pub(super) fn scrolls(&self, area: Rect) -> usize {
        let (place, inner) = self.place(area);
        self.laid(inner).len().saturating_sub(usize::from(place.height.saturating_sub(2)))
    }

    fn add_finding(&mut self, finding: &Finding) {
        self.gap();
        self.commands.extend(commands(&finding.remedy));
        self.line(
            Look::Of(finding.severity),
            format!("{} {} (confidence {})", finding.severity.name(), finding.id, percent(finding.confidence)),
        );
        self.line(Look::Text, format!("{}.", finding.summary.trim_end_matches('.')));
        let (label, remedy) = finding.advice();
        self.line(Look::Text, format!("{label}:\t{remedy}."));
        for (name, value) in &finding.subject {
            self.line(Look::Dim, format!("{name}\t{value}"));
        }
        for (name, value) in &finding.evidence {
            self.line(Look::Dim, format!("{name}\t{}", evidence(name, value)));
        }
        for (name, at) in [("first seen", &finding.first_seen), ("last seen", &finding.last_seen)] {
            if !at.is_empty() {
                self.line(Look::Dim, format!("{name}\t{at}"));
            }
        }
        self.line(Look::Dim, format!("more\tplimsoll explain {}", finding.id));
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
        answer
            .findings
            .iter()
            .filter(|finding| is_about(finding, &texts))
            .for_each(|finding| popup.add_finding(finding));
        popup.gap();
        for (name, value) in fields.iter().filter(|(name, _)| *name != "findings") {
            let column = columns::of(name);
            let text = columns::show(column.map_or(columns::Kind::Text, |column| column.kind), value);
            if !matches!(text.as_str(), "" | "-" | "[]" | "{}") {
                // A number alone does not say of what.
                let meaning = column.filter(|column| !column.kind.is_text()).map(|column| column.meaning);
                let value = meaning.map_or_else(|| text.clone(), |meaning| format!("{text:<9} {meaning}"));
                popup.line(Look::Text, format!("{}\t{value}", name.replace('_', " ")));
            }
        }
        popup.about = texts;
        Some(popup)
    }

    /// How it went in time, known now.
    pub fn add_course(&mut self, answer: &Answer) {
        let bars =
            answer.parts.iter().find_map(|part| if let Body::Grid(grid) = &part.body { grid.bars() } else { None });
        // The line is there already, so that the box keeps its size.
        let is_waiting = self.lines.first().is_some_and(|(_, line)| line.ends_with(ANALYSING));
        let bars = bars.filter(|bars| !bars.trim().is_empty()).unwrap_or_else(|| "-".to_owned());
        if let Some(line) = self.lines.first_mut().filter(|_| is_waiting) {
            line.1 = format!("in time\t{bars}");
        }
    }
}

/// A number of a finding's evidence, no more exact than it is.
fn evidence(name: &str, value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => match (number.as_u64(), number.as_f64()) {
            _ if name.ends_with("bytes") || name.contains("bytes_per_s") => bytes(number.as_f64().unwrap_or(0.0)),
            (Some(count), _) => grouped(count),
            (None, Some(number)) if name == "share" || name.ends_with("_share") => percent(number),
            (None, Some(number)) => significant(number),
            (None, None) => number.to_string(),
        },
        Json::Array(values) => values.iter().map(|value| evidence(name, value)).collect::<Vec<_>>().join(", "),
        Json::Object(values) => values
            .iter()
            .map(|(name, value)| format!("{name} {}", evidence(name, value)))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
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

/// Whether a row with all columns is the one of which some are shown: all texts that both have are the same, or what is
/// shown is the end of a longer name, and there is one.
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
