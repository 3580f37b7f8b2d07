//! Sealed points of a day: rows by series and time.

use super::StoreLoss;
use super::runs::{Group, Runs};
use crate::model::problem::Problem;
use crate::model::series::{Point, Selector};
use polars::prelude::{DataFrame, StringChunked};
use std::path::Path;

/// Columns of a file of points.
pub const POINTS: [&str; 4] = ["name", "labels", "at", "value"];

/// A row group that was read.
pub struct Rows {
    name: StringChunked,
    labels: StringChunked,
    at: Vec<i64>,
    value: Vec<f64>,
}

impl Group for Rows {
    type Row = Point;

    fn new(frame: &DataFrame) -> Result<Self, Problem> {
        let text = |column| Ok::<_, Problem>(frame.column(column)?.str()?.clone());
        let at = frame.column("at")?.i64()?.into_no_null_iter().collect();
        let value = frame.column("value")?.f64()?.into_no_null_iter().collect();
        Ok(Self { name: text("name")?, labels: text("labels")?, at, value })
    }

    fn rows(&self) -> usize {
        self.at.len()
    }

    fn series(&self, at: usize) -> Option<(&str, &str)> {
        Some((self.name.get(at)?, self.labels.get(at)?))
    }

    fn row(&self, at: usize) -> Point {
        Point { at: self.at[at], value: self.value[at] }
    }
}

/// The series of a file in their order, with their points.
pub(super) type PointsFile = Runs<Rows>;

impl PointsFile {
    /// Opens a file; what can't be read is a loss.
    pub(super) fn open(path: &Path, selector: &Selector, losses: &mut Vec<StoreLoss>) -> Self {
        Self::of(path, &POINTS, selector, losses)
    }
}
