//! Sealed days: a row for each series and day, by series and day.

use super::runs::{Group, Runs};
use super::{StoreLoss, log};
use crate::model::problem::Problem;
use crate::model::series::{Day, Selector, Sketch};
use crate::model::time::Micros;
use polars::prelude::{BinaryChunked, DataFrame, StringChunked};
use std::path::Path;

/// Columns of a file of days, in order. The last one is the sketch.
pub const DAYS: [&str; 21] = [
    "name",
    "labels",
    "day",
    "count",
    "min",
    "max",
    "max_at",
    "sum",
    "last",
    "last_at",
    "first_at",
    "until",
    "sustained_5m",
    "sustained_15m",
    "sustained_1h",
    "sustained_4h",
    "ended_5m",
    "ended_15m",
    "ended_1h",
    "ended_4h",
    "sketch",
];

/// A day of a series, and what it takes to put it beside its neighbours.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub day: Day,
    /// When the first point was.
    pub first_at: Micros,
    /// Until when the last value stood: until the next point if that was known, else as long as a value stands at most.
    pub until: Micros,
    /// The sustained levels if no point ever follows: then nobody knows how long the last value stood.
    pub ended: [f64; 4],
}

/// A row group that was read.
pub struct Rows {
    name: StringChunked,
    labels: StringChunked,
    day: Vec<i32>,
    count: Vec<u64>,
    instants: [Vec<i64>; 4],
    numbers: Vec<Vec<f64>>,
    sketch: Option<BinaryChunked>,
}

const INSTANTS: [&str; 4] = ["max_at", "last_at", "first_at", "until"];
const NUMBERS: [&str; 12] = [
    "min",
    "max",
    "sum",
    "last",
    "sustained_5m",
    "sustained_15m",
    "sustained_1h",
    "sustained_4h",
    "ended_5m",
    "ended_15m",
    "ended_1h",
    "ended_4h",
];

impl Group for Rows {
    type Row = Row;

    fn new(frame: &DataFrame) -> Result<Self, Problem> {
        let text = |column| Ok::<_, Problem>(frame.column(column)?.str()?.clone());
        let instants = |column| Ok::<_, Problem>(frame.column(column)?.i64()?.into_no_null_iter().collect());
        let numbers = |column| Ok::<_, Problem>(frame.column(column)?.f64()?.into_no_null_iter().collect());
        let [a, b, c, d] = INSTANTS;
        // Where sketches were not asked for there is no such column.
        let sketch = match frame.column("sketch") {
            Ok(column) => Some(column.binary()?.clone()),
            Err(_) => None,
        };
        Ok(Self {
            name: text("name")?,
            labels: text("labels")?,
            day: frame.column("day")?.i32()?.into_no_null_iter().collect(),
            count: frame.column("count")?.u64()?.into_no_null_iter().collect(),
            instants: [instants(a)?, instants(b)?, instants(c)?, instants(d)?],
            numbers: NUMBERS.iter().map(|column| numbers(column)).collect::<Result<_, _>>()?,
            sketch,
        })
    }

    fn rows(&self) -> usize {
        self.day.len()
    }

    fn series(&self, at: usize) -> Option<(&str, &str)> {
        Some((self.name.get(at)?, self.labels.get(at)?))
    }

    /// All columns are as long.
    fn row(&self, at: usize) -> Row {
        let [max_at, last_at, first_at, until] = [0, 1, 2, 3].map(|column: usize| self.instants[column][at]);
        let number = |column: usize| self.numbers[column][at];
        let sketch = self.sketch.as_ref().and_then(|sketch| log::unpack(sketch.get(at)?)).map(Sketch::from_buckets);
        let day = Day {
            day: self.day[at],
            count: self.count[at],
            min: number(0),
            max: number(1),
            max_at,
            sum: number(2),
            last: number(3),
            last_at,
            sustained: [4, 5, 6, 7].map(number),
            sketch: sketch.unwrap_or_default(),
        };
        Row { day, first_at, until, ended: [8, 9, 10, 11].map(number) }
    }
}

/// The series of a file in their order, with their days.
pub type DaysFile = Runs<Rows>;

impl DaysFile {
    /// Opens a file; what can't be read is a loss.
    pub fn open(path: &Path, selector: &Selector, with_sketch: bool, losses: &mut Vec<StoreLoss>) -> Self {
        let columns = if with_sketch { &DAYS[..] } else { &DAYS[..DAYS.len() - 1] };
        Self::of(path, columns, selector, losses)
    }
}
