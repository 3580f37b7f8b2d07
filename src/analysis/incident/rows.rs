//! Reading what other commands said, row by row.

use crate::model::incident::Section;
use crate::model::report::{Report, Table, Value};
use crate::model::time::{self, Micros};

/// A row of a table, by the names of its columns.
#[derive(Debug, Clone, Copy)]
pub struct Cells<'t> {
    columns: &'t [String],
    values: &'t [Value],
}

impl<'t> Cells<'t> {
    fn value(&self, name: &str) -> Option<&'t Value> {
        self.columns.iter().position(|column| column == name).and_then(|at| self.values.get(at))
    }

    /// A text; empty where there is none.
    pub fn text(&self, name: &str) -> &'t str {
        match self.value(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// A number of any kind.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.value(name)? {
            Value::Count(count) => Some(*count as f64),
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// A time.
    pub fn time(&self, name: &str) -> Option<Micros> {
        time::parse_any(self.text(name))
    }
}

fn of(table: &Table) -> impl Iterator<Item = Cells<'_>> {
    table.rows.iter().map(|values| Cells { columns: &table.columns, values })
}

/// The rows of a report.
pub fn rows(report: &Report) -> impl Iterator<Item = Cells<'_>> {
    of(&report.table)
}

/// The rows of a further table of a report.
pub fn rows_of<'r>(report: &'r Report, name: &'r str) -> impl Iterator<Item = Cells<'r>> {
    report.tables.iter().filter(move |table| table.name == name).flat_map(of)
}

/// The rows that people are shown.
pub fn for_people(report: &Report) -> impl Iterator<Item = Cells<'_>> {
    report.people.iter().flatten().flat_map(of)
}

/// The report of a section.
pub fn section<'s>(sections: &'s [Section], name: &str) -> Option<&'s Report> {
    sections.iter().find(|section| section.name == name).map(|section| &section.report)
}
