//! Sealed points of a day: rows by series and time.

use super::table::Table;
use super::{StoreLoss, key};
use crate::model::series::{Point, Selector};
use polars::prelude::{DataFrame, StringChunked};
use std::path::Path;

/// Columns of a file of points.
pub const POINTS: [&str; 4] = ["name", "labels", "at", "value"];

/// A row group that was read.
struct Rows {
    name: StringChunked,
    labels: StringChunked,
    at: Vec<i64>,
    value: Vec<f64>,
    next: usize,
}

impl Rows {
    fn new(frame: &DataFrame) -> Result<Self, String> {
        let fail = |error: polars::prelude::PolarsError| error.to_string();
        let text = |column| Ok::<_, String>(frame.column(column).map_err(fail)?.str().map_err(fail)?.clone());
        let at = frame.column("at").map_err(fail)?.i64().map_err(fail)?.into_no_null_iter().collect();
        let value = frame.column("value").map_err(fail)?.f64().map_err(fail)?.into_no_null_iter().collect();
        Ok(Self { name: text("name")?, labels: text("labels")?, at, value, next: 0 })
    }

    fn at_next(&self) -> Option<(&str, &str)> {
        // polars panics behind the end.
        if self.next >= self.at.len() {
            return None;
        }
        Some((self.name.get(self.next)?, self.labels.get(self.next)?))
    }
}

/// The series of a file in their order.
pub(super) struct PointsFile<'s> {
    table: Option<Table>,
    group: usize,
    rows: Option<Rows>,
    selector: &'s Selector,
}

impl<'s> PointsFile<'s> {
    /// Opens a file; what can't be read is a loss.
    pub(super) fn open(path: &Path, selector: &'s Selector, losses: &mut Vec<StoreLoss>) -> Self {
        let mut lost = |what| losses.push(StoreLoss { path: path.display().to_string(), place: "the whole file".to_owned(), what });
        let table = match Table::open(path) {
            Ok(table) => {
                table.complaint.clone().into_iter().for_each(&mut lost);
                Some(table)
            }
            Err(error) => {
                lost(error);
                None
            }
        };
        Self { table, group: 0, rows: None, selector }
    }

    /// The rows that come next, from the file where need be.
    fn fill(&mut self, losses: &mut Vec<StoreLoss>) {
        let Some(table) = &mut self.table else { return };
        while self.rows.as_ref().is_none_or(|rows| rows.next >= rows.at.len()) && self.group < table.groups() {
            let group = self.group;
            self.group += 1;
            self.rows = None;
            if !table.may_hold(group, self.selector) {
                continue;
            }
            match table.read(group, &POINTS).and_then(|frame| Rows::new(&frame)) {
                Ok(rows) => self.rows = Some(rows),
                Err(what) => losses.push(StoreLoss { path: table.name(), place: table.describe(group), what }),
            }
        }
    }

    /// The next series and its points.
    pub(super) fn next(&mut self, losses: &mut Vec<StoreLoss>) -> Option<(String, Vec<Point>)> {
        loop {
            self.fill(losses);
            let (name, labels) = self.rows.as_ref()?.at_next()?;
            let (name, labels) = (name.to_owned(), labels.to_owned());
            let key = format!("{name}{labels}");
            let is_wanted = key::matches(self.selector, &key);
            let mut points = Vec::new();
            while let Some(rows) = &mut self.rows {
                while rows.at_next() == Some((&name, &labels)) {
                    if is_wanted {
                        points.push(Point { at: rows.at[rows.next], value: rows.value[rows.next] });
                    }
                    rows.next += 1;
                }
                if rows.next < rows.at.len() {
                    break;
                }
                self.fill(losses);
                if self.rows.as_ref().is_none_or(|rows| rows.next >= rows.at.len()) {
                    self.rows = None;
                }
            }
            if is_wanted {
                return Some((key, points));
            }
        }
    }
}
