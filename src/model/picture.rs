//! What charts show: a series, its limit and its future; a number before and after.

use crate::model::forecast::{Change, Grid, Step, Unit};
use crate::model::time::Micros;

/// A series as a picture, whoever draws it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// What it is called.
    pub title: String,
    /// What is said of it, in a sentence without its period.
    pub caption: String,
    /// What it counts.
    pub unit: Unit,
    /// Its history.
    pub grid: Grid,
    /// Its future; empty where nothing is forecast.
    pub path: Vec<Step>,
    /// How high it may become.
    pub limit: Option<f64>,
    /// Sudden and lasting changes of its level.
    pub changes: Vec<Change>,
    /// By when half of the possible futures have reached the limit.
    pub reached: Option<Micros>,
}

/// A number on two sides, each in time from its own start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contrast {
    pub title: String,
    /// What is said of it, in a sentence without its period.
    pub caption: String,
    /// What it counts.
    pub unit: Unit,
    /// Before and after: seconds, and the value within them.
    pub sides: [Vec<(f64, f64)>; 2],
}
