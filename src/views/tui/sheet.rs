//! What a question came to, made ready to be drawn: by whoever answers, so that the one who draws need not.

use super::grid::Grid;
use super::icicle::Icicle;
use super::{Tab, Want};
use crate::model::flame::Tree;
use crate::model::incident::{Chart, Entry};
use crate::model::picture::Picture;
use crate::model::report::{Finding, Report, Severity, Table};
use crate::model::time::{Micros, Span};
use crate::model::units::percent;
use crate::views::table::tables_for_people;
use crate::views::tui::want::Role;

/// A part of a tab.
#[derive(Debug, Clone)]
pub struct Part {
    /// Which of the answer's wants shows it.
    pub want: usize,
    /// What it shows.
    pub body: Body,
}

/// What a part shows.
#[derive(Debug, Clone)]
pub enum Body {
    /// The load in time and all findings: what the first tab begins with.
    Load,
    /// A table.
    Grid(Box<Grid>),
    /// A flame graph.
    Icicle(Box<Icicle>),
    /// Series with their future.
    Pictures(Vec<Picture>),
    /// Sentences.
    Notes(Vec<String>),
}

impl Part {
    /// What it is called.
    pub fn name(&self) -> &str {
        match &self.body {
            Body::Load => "load",
            Body::Grid(grid) => &grid.title,
            Body::Icicle(icicle) => &icicle.title,
            Body::Pictures(_) => "charts",
            Body::Notes(_) => "notes",
        }
    }

    /// The same, and how much there is of it.
    pub fn title(&self) -> String {
        match &self.body {
            Body::Grid(grid) => {
                let filter =
                    if grid.filter_text.is_empty() { String::new() } else { format!(" /{}", grid.filter_text) };
                match grid.counts() {
                    (shown, all) if shown != all => format!("{} ({shown} of {all}){filter}", self.name()),
                    (_, all) => format!("{} ({all}){filter}", self.name()),
                }
            }
            Body::Pictures(pictures) => format!("{} ({})", self.name(), pictures.len()),
            Body::Load | Body::Icicle(_) | Body::Notes(_) => self.name().to_owned(),
        }
    }
}

/// The load in time, and what it comes to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    /// Numbers in time.
    pub charts: Vec<Chart>,
    /// Whether something deviates from the baseline, in a sentence.
    pub verdict: String,
    /// How grave that is.
    pub severity: Severity,
    /// When it was that something stood out.
    pub window: Option<Span>,
    /// What the sources cover.
    pub span: Option<Span>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// When.
    pub at: Micros,
    /// How grave.
    pub severity: Severity,
    /// What, in a sentence without its period.
    pub what: String,
}

/// What a question came to.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The question's number.
    pub number: u64,
    pub role: Role,
    /// What was asked.
    pub wants: Vec<Want>,
    /// Sentences above all parts.
    pub lead: Vec<String>,
    /// What there is to see.
    pub parts: Vec<Part>,
    /// Tables with all columns, where the parts show some of them.
    pub whole: Vec<Table>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Timeline.
    pub marks: Vec<Mark>,
    /// The load in time.
    pub course: Option<Course>,
    /// What could not be determined, and why.
    pub errors: Vec<String>,
}

impl Answer {
    /// One in which nothing stands yet.
    pub fn new(number: u64, role: Role, wants: Vec<Want>) -> Self {
        Self {
            number,
            role,
            wants,
            lead: Vec::new(),
            parts: Vec::new(),
            whole: Vec::new(),
            findings: Vec::new(),
            marks: Vec::new(),
            course: None,
            errors: Vec::new(),
        }
    }

    /// Takes in what a want's command said.
    pub fn add(&mut self, want: usize, report: &Report) {
        let part = |body: Body| Part { want, body };
        self.lead.extend(report.lead.iter().cloned());
        let several = report.people.as_ref().is_some_and(|people| people.len() > 1);
        for (number, (table, rows)) in tables_for_people(report).into_iter().enumerate() {
            let title = match (table.title.trim_end_matches([':', '.']), table.name.as_str()) {
                ("", "" | "rows") if number > 0 => "more",
                ("", "" | "rows") => report.schema.split(['.', '/']).nth(1).unwrap_or("rows"),
                ("", name) => name,
                (title, _) => title,
            };
            if !rows.is_empty() || table.rows.is_empty() && !several {
                let table = Table { rows: rows.to_vec(), ..table.clone() };
                self.parts.push(part(Body::Grid(Box::new(Grid::new(&table, title)))));
            }
        }
        if report.people.is_some() {
            self.whole.push(report.table.clone());
        }
        if !report.pictures.is_empty() {
            self.parts.push(part(Body::Pictures(report.pictures.clone())));
        }
        self.findings.extend(report.findings.iter().cloned());
        let notes: Vec<String> =
            report.notes.iter().filter(|note| !note.contains("-o ") && !note.contains("--top")).cloned().collect();
        if !notes.is_empty() {
            self.parts.push(part(Body::Notes(notes)));
        }
    }

    /// Takes in what happened when.
    pub fn mark(&mut self, entries: &[Entry]) {
        let mark = |entry: &Entry| {
            let what = format!("{} {}", entry.who, entry.what).trim().to_owned();
            Mark { at: entry.at, severity: entry.severity, what }
        };
        self.marks.extend(entries.iter().map(mark));
    }

    /// Takes in a want's flame graph.
    pub fn draw(&mut self, want: usize, tree: &Tree) {
        self.parts.push(Part { want, body: Body::Icicle(Box::new(Icicle::new(tree))) });
    }

    /// All is in it: findings become a part, notes go to the end.
    pub fn finish(&mut self) {
        self.findings.sort_by(Finding::graver);
        if !self.findings.is_empty() {
            let grid = Grid::new(&findings(&self.findings), "findings");
            let notes =
                self.parts.iter().position(|part| matches!(part.body, Body::Notes(_))).unwrap_or(self.parts.len());
            self.parts.insert(notes, Part { want: 0, body: Body::Grid(Box::new(grid)) });
        }
        if self.role == Role::View(Tab::Overview) {
            self.parts.insert(0, Part { want: 0, body: Body::Load });
        }
        self.marks.sort_by_key(|mark| mark.at);
    }
}

/// Findings as a table: a row for each, in their order.
pub fn findings<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> Table {
    let row = |finding: &'f Finding| {
        let summary = format!("{}.", finding.summary.trim_end_matches('.'));
        vec![
            finding.severity.name().into(),
            percent(finding.confidence).as_str().into(),
            finding.id.as_str().into(),
            summary.as_str().into(),
        ]
    };
    let columns = ["severity", "incident_confidence", "finding", "summary"].map(str::to_owned).to_vec();
    Table { name: "findings".to_owned(), columns, rows: findings.into_iter().map(row).collect(), ..Table::default() }
}
