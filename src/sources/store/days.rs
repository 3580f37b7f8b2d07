//! Sealed days: a row for each series and day, by series and day.

use super::table::Table;
use super::{StoreLoss, key, log};
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
    /// The day.
    pub day: Day,
    /// When the first point was.
    pub first_at: Micros,
    /// Until when the last value stood: until the next point if that was known, else as long as a value stands at most.
    pub until: Micros,
    /// The sustained levels if no point ever follows: then nobody knows how long the last value stood.
    pub ended: [f64; 4],
}

/// A row group that was read.
struct Rows {
    name: StringChunked,
    labels: StringChunked,
    day: Vec<i32>,
    count: Vec<u64>,
    instants: [Vec<i64>; 4],
    numbers: Vec<Vec<f64>>,
    sketch: Option<BinaryChunked>,
    next: usize,
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

impl Rows {
    fn new(frame: &DataFrame, with_sketch: bool) -> Result<Self, String> {
        let fail = |error: polars::prelude::PolarsError| error.to_string();
        let text = |column| Ok::<_, String>(frame.column(column).map_err(fail)?.str().map_err(fail)?.clone());
        let instants = |column| Ok::<_, String>(frame.column(column).map_err(fail)?.i64().map_err(fail)?.into_no_null_iter().collect());
        let numbers = |column| Ok::<_, String>(frame.column(column).map_err(fail)?.f64().map_err(fail)?.into_no_null_iter().collect());
        let [a, b, c, d] = INSTANTS;
        let sketch = match with_sketch {
            true => Some(frame.column("sketch").map_err(fail)?.binary().map_err(fail)?.clone()),
            false => None,
        };
        Ok(Self {
            name: text("name")?,
            labels: text("labels")?,
            day: frame.column("day").map_err(fail)?.i32().map_err(fail)?.into_no_null_iter().collect(),
            count: frame.column("count").map_err(fail)?.u64().map_err(fail)?.into_no_null_iter().collect(),
            instants: [instants(a)?, instants(b)?, instants(c)?, instants(d)?],
            numbers: NUMBERS.iter().map(|column| numbers(column)).collect::<Result<_, _>>()?,
            sketch,
            next: 0,
        })
    }

    fn at_next(&self) -> Option<(&str, &str)> {
        // polars panics behind the end.
        if self.next >= self.day.len() {
            return None;
        }
        Some((self.name.get(self.next)?, self.labels.get(self.next)?))
    }

    /// The next row. All columns are as long.
    fn take(&mut self) -> Row {
        let at = self.next;
        self.next += 1;
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

/// The series of a file in their order.
pub struct DaysFile {
    table: Option<Table>,
    group: usize,
    rows: Option<Rows>,
    selector: Selector,
    columns: usize,
}

impl std::fmt::Debug for DaysFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DaysFile").field("table", &self.table).finish_non_exhaustive()
    }
}

impl DaysFile {
    /// Opens a file; what can't be read is a loss.
    pub fn open(path: &Path, selector: &Selector, with_sketch: bool, losses: &mut Vec<StoreLoss>) -> Self {
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
        let columns = DAYS.len() - usize::from(!with_sketch);
        Self { table, group: 0, rows: None, selector: selector.clone(), columns }
    }

    fn fill(&mut self, losses: &mut Vec<StoreLoss>) {
        let Some(table) = &mut self.table else { return };
        while self.rows.as_ref().is_none_or(|rows| rows.next >= rows.day.len()) && self.group < table.groups() {
            let group = self.group;
            self.group += 1;
            self.rows = None;
            if !table.may_hold(group, &self.selector) {
                continue;
            }
            let columns = &DAYS[..self.columns];
            match table.read(group, columns).and_then(|frame| Rows::new(&frame, columns.len() == DAYS.len())) {
                Ok(rows) => self.rows = Some(rows),
                Err(what) => losses.push(StoreLoss { path: table.name(), place: table.describe(group), what }),
            }
        }
    }

    /// The next series and its days.
    pub fn next(&mut self, losses: &mut Vec<StoreLoss>) -> Option<(String, Vec<Row>)> {
        loop {
            self.fill(losses);
            let (name, labels) = self.rows.as_ref()?.at_next()?;
            let (name, labels) = (name.to_owned(), labels.to_owned());
            let key = format!("{name}{labels}");
            let is_wanted = key::matches(&self.selector, &key);
            let mut days = Vec::new();
            while let Some(rows) = &mut self.rows {
                while rows.at_next() == Some((&name, &labels)) {
                    match is_wanted {
                        true => days.push(rows.take()),
                        false => rows.next += 1,
                    }
                }
                if rows.next < rows.day.len() {
                    break;
                }
                self.fill(losses);
                if self.rows.as_ref().is_none_or(|rows| rows.next >= rows.day.len()) {
                    self.rows = None;
                }
            }
            if is_wanted {
                return Some((key, days));
            }
        }
    }
}
