//! The rows of a Parquet file, series by series: both kinds of file are sorted by series, and a series may span row
//! groups.

use super::table::Table;
use super::{StoreLoss, key};
use crate::model::problem::Problem;
use crate::model::series::Selector;
use polars::prelude::DataFrame;
use std::path::Path;

/// The rows of a row group.
pub trait Group: Sized {
    /// What a row comes to.
    type Row;
    /// The rows of a frame with the columns that were asked for.
    fn new(frame: &DataFrame) -> Result<Self, Problem>;
    /// How many there are.
    fn rows(&self) -> usize;
    /// Name and labels of the series of a row that there is.
    fn series(&self, at: usize) -> Option<(&str, &str)>;
    /// A row that there is.
    fn row(&self, at: usize) -> Self::Row;
}

/// The series of a file in their order.
pub struct Runs<G> {
    table: Option<Table>,
    columns: &'static [&'static str],
    selector: Selector,
    /// The row group that is read next.
    group: usize,
    /// The one that was read, and its next row.
    rows: Option<(G, usize)>,
}

impl<G> std::fmt::Debug for Runs<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<G: Group> Runs<G> {
    /// Opens a file; what can't be read is a loss.
    pub(super) fn of(
        path: &Path,
        columns: &'static [&'static str],
        selector: &Selector,
        losses: &mut Vec<StoreLoss>,
    ) -> Self {
        let mut lost = |what| {
            losses.push(StoreLoss { path: path.display().to_string(), place: "the whole file".to_owned(), what })
        };
        let table = match Table::open(path) {
            Ok(table) => {
                table.complaint.clone().into_iter().for_each(&mut lost);
                Some(table)
            }
            Err(error) => {
                lost(error.to_string());
                None
            }
        };
        Self { table, columns, selector: selector.clone(), group: 0, rows: None }
    }

    /// The rows that come next, from the file where need be; `None` at its end.
    fn fill(&mut self, losses: &mut Vec<StoreLoss>) -> Option<&mut (G, usize)> {
        let table = self.table.as_mut()?;
        while self.rows.as_ref().is_none_or(|(rows, next)| *next >= rows.rows()) {
            self.rows = None;
            if self.group >= table.groups() {
                return None;
            }
            let group = self.group;
            self.group += 1;
            if !table.may_hold(group, &self.selector) {
                continue;
            }
            match table.read(group, self.columns).and_then(|frame| G::new(&frame)) {
                Ok(rows) => self.rows = Some((rows, 0)),
                Err(problem) => {
                    let (path, place) = (table.name(), table.describe(group));
                    losses.push(StoreLoss { path, place, what: problem.to_string() });
                }
            }
        }
        self.rows.as_mut()
    }

    /// The next series and its rows.
    pub fn next(&mut self, losses: &mut Vec<StoreLoss>) -> Option<(String, Vec<G::Row>)> {
        loop {
            let (rows, next) = self.fill(losses)?;
            let (name, labels) = rows.series(*next)?;
            let (name, labels) = (name.to_owned(), labels.to_owned());
            let key = format!("{name}{labels}");
            let is_wanted = key::matches(&self.selector, &key);
            let mut run = Vec::new();
            while let Some((rows, next)) = self.fill(losses) {
                if rows.series(*next) != Some((&name, &labels)) {
                    break;
                }
                if is_wanted {
                    run.push(rows.row(*next));
                }
                *next += 1;
            }
            if is_wanted {
                return Some((key, run));
            }
        }
    }
}
