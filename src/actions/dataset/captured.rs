//! Files of captured rows: samples of pages, key spaces, quotas.

use super::{DatasetWriter, GROUP, OpenFile, part_name};
use crate::model::dataset::{CapturedTable, Cell, Description, Kind, day_folder};
use polars::prelude::{
    Column, DataFrame, DataType, IntoColumn, IntoSeries, NamedFrom, Series, StringChunkedBuilder, TimeUnit,
};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Captures of a table, and the file that holds them.
pub struct CapturedFile {
    table: &'static CapturedTable,
    folder: PathBuf,
    /// What the captures are known by.
    captures: Vec<String>,
    columns: Vec<Values>,
    waiting: usize,
    rows: u64,
    open: Option<OpenFile>,
}

/// A file that was written: its table, the captures that it holds, its rows and bytes.
pub struct CapturedPart {
    table: &'static str,
    captures: Vec<String>,
    pub rows: u64,
    pub bytes: u64,
}

enum Values {
    Times(Vec<Option<i64>>),
    Numbers(Vec<Option<u64>>),
    Reals(Vec<Option<f64>>),
    Texts(StringChunkedBuilder),
}

impl Values {
    fn new(kind: Kind, name: &str) -> Self {
        match kind {
            Kind::Time => Self::Times(Vec::new()),
            Kind::Number => Self::Numbers(Vec::new()),
            Kind::Real => Self::Reals(Vec::new()),
            Kind::Truth | Kind::Text | Kind::Texts => Self::Texts(StringChunkedBuilder::new(name.into(), 0)),
        }
    }

    /// Takes a value of its kind; of another kind it is null.
    fn push(&mut self, cell: Cell<'_>) {
        match self {
            Self::Times(all) => all.push(if let Cell::Time(at) = cell { Some(at) } else { None }),
            Self::Numbers(all) => all.push(if let Cell::Number(number) = cell { Some(number) } else { None }),
            Self::Reals(all) => all.push(if let Cell::Real(number) = cell { Some(number) } else { None }),
            Self::Texts(all) => all.append_option(if let Cell::Text(text) = cell { Some(text) } else { None }),
        }
    }

    fn column(self, name: &str) -> io::Result<Column> {
        let series = match self {
            Self::Times(all) => {
                let time = DataType::Datetime(TimeUnit::Microseconds, None);
                Series::new(name.into(), all).cast(&time).map_err(io::Error::other)?
            }
            Self::Numbers(all) => {
                let signed = |number: Option<u64>| number.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
                Series::new(name.into(), all.into_iter().map(signed).collect::<Vec<_>>())
            }
            Self::Reals(all) => Series::new(name.into(), all),
            Self::Texts(all) => all.finish().into_series(),
        };
        Ok(series.into_column())
    }
}

fn no_values(table: &CapturedTable) -> Vec<Values> {
    table.columns.iter().map(|column| Values::new(column.kind, column.name)).collect()
}

impl DatasetWriter {
    /// What the dataset holds of a table of captures.
    pub fn captures(&self, table: &CapturedTable) -> impl Iterator<Item = &str> {
        let files = self.description.captures.get(table.name);
        files.into_iter().flat_map(BTreeMap::values).flatten().map(String::as_str)
    }

    /// Begins a file of a cluster's captures of a day, by days since 1970.
    pub fn captured(&self, table: &'static CapturedTable, cluster: &str, day: i64) -> CapturedFile {
        let folder = self.folder.join(table.name).join(day_folder(cluster, day));
        let columns = no_values(table);
        CapturedFile { table, folder, captures: Vec::new(), columns, waiting: 0, rows: 0, open: None }
    }

    /// Files of captures are part of the dataset from now on.
    pub fn commit_captures(&mut self, parts: Vec<CapturedPart>) -> io::Result<()> {
        let mut all: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        for CapturedPart { table, captures, .. } in parts {
            let Some(first) = captures.first().cloned() else { continue };
            all.entry(table.to_owned()).or_default().insert(first, captures);
        }
        if all.is_empty() {
            return Ok(());
        }
        self.last += 1;
        let one = Description { captures: all.clone(), ..self.about() };
        self.write(&super::addition(self.last), &one)?;
        for (table, files) in all {
            self.description.captures.entry(table).or_default().extend(files);
        }
        Ok(())
    }
}

impl CapturedFile {
    /// A capture begins, which is known by this name.
    pub fn begin(&mut self, capture: &str) {
        self.captures.push(capture.to_owned());
    }

    /// Takes a row: a value for each column of its table.
    pub fn row<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) -> io::Result<()> {
        self.columns.iter_mut().zip(cells).for_each(|(values, cell)| values.push(cell));
        (self.waiting, self.rows) = (self.waiting + 1, self.rows + 1);
        if self.waiting < GROUP { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> io::Result<()> {
        let values = std::mem::replace(&mut self.columns, no_values(self.table));
        self.waiting = 0;
        let named = self.table.columns.iter().zip(values);
        let columns = named.map(|(column, values)| values.column(column.name)).collect::<io::Result<Vec<_>>>()?;
        let frame = DataFrame::new_infer_height(columns).map_err(io::Error::other)?;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let first = self.captures.first().map(String::as_str).unwrap_or_default();
                OpenFile::create(&self.folder, &part_name(first, 0), &frame)?
            }
        };
        let written = open.parquet.write_batch(&frame).map_err(io::Error::other);
        self.open = Some(open);
        written
    }

    /// All captures were taken: the file gets its name. A capture without rows has none.
    pub fn finish(mut self) -> io::Result<CapturedPart> {
        if self.waiting > 0 {
            self.write()?;
        }
        let bytes = self.open.map(OpenFile::finish).transpose()?.unwrap_or_default();
        Ok(CapturedPart { table: self.table.name, captures: self.captures, rows: self.rows, bytes })
    }
}
