//! The Parquet files of a dataset: what they hold, and their columns.

use crate::model::dataset::{AUDIT, EVENTS, Kind, METRICS, PageRows, Part, SCHEMA, SCHEMA_KEY, log_and_byte};
use crate::model::problem::{Problem, guarded};
use crate::model::time::Micros;
use polars::io::SerReader;
use polars::io::parquet::metadata::FileMetadataRef;
use polars::prelude::{
    ArrowDataType, BooleanChunked, Column, DataFrame, DataType, Float64Chunked, Int64Chunked, ParquetReader,
    StringChunked, TimeUnit,
};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows: the first, and how many.
pub(super) type Rows = (usize, usize);

/// Columns that the first datasets did not have.
const ADDED: [&str; 2] = ["request_object", "response_object"];

/// Whether a column of this type holds what one of a kind does.
fn holds(dtype: &ArrowDataType, kind: Kind) -> bool {
    use ArrowDataType as Is;
    match kind {
        // All of them are null.
        _ if matches!(dtype, Is::Null) => true,
        Kind::Time => matches!(dtype, Is::Timestamp(..)),
        Kind::Number => matches!(
            dtype,
            Is::Int8 | Is::Int16 | Is::Int32 | Is::Int64 | Is::UInt8 | Is::UInt16 | Is::UInt32 | Is::UInt64
        ),
        Kind::Truth => matches!(dtype, Is::Boolean),
        Kind::Real => matches!(dtype, Is::Float32 | Is::Float64),
        Kind::Text => match dtype {
            Is::Dictionary(_, of, _) => holds(of, Kind::Text),
            dtype => {
                matches!(dtype, Is::Utf8 | Is::LargeUtf8 | Is::Utf8View | Is::Binary | Is::LargeBinary | Is::BinaryView)
            }
        },
        Kind::Texts => match dtype {
            Is::List(of) | Is::LargeList(of) => holds(&of.dtype, Kind::Text),
            _ => false,
        },
    }
}

/// A file of a dataset's events or samples.
pub(super) struct Parquet {
    path: PathBuf,
    meta: FileMetadataRef,
    /// Its table's name.
    table: &'static str,
    /// The columns that it has: older ones lack some.
    columns: Vec<&'static str>,
}

impl Parquet {
    /// `None` where it holds something else.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, Problem> {
        let mut reader = ParquetReader::new(File::open(path)?);
        let schema = reader.schema()?;
        let meta = Arc::clone(reader.get_metadata()?);
        // Who rewrites a file may leave out what it says of itself; the columns are what counts.
        let mut about = meta.key_value_metadata().iter().flatten().filter(|own| own.key == SCHEMA_KEY);
        if let Some(other) = about.find_map(|own| own.value.as_deref().filter(|schema| *schema != SCHEMA)) {
            return Err(Problem::damaged(format!("its schema is {other:?}, and this plimsoll reads {SCHEMA}"))
                .hint("use the plimsoll that wrote it"));
        }
        let (table, columns) = match () {
            () if ["audit_id", "event_time", "stage"].iter().filter(|name| schema.contains(name)).count() > 1 => {
                (AUDIT, &EVENTS[..])
            }
            () if schema.contains("le") => (METRICS.name, METRICS.columns),
            () => return Ok(None),
        };
        for column in columns.iter().filter(|column| !ADDED.contains(&column.name)) {
            let of = schema.get(column.name).map(|field| &field.dtype);
            if !of.is_some_and(|dtype| holds(dtype, column.kind)) {
                let is =
                    of.map_or("is missing".to_owned(), |dtype| format!("is {dtype:?}, not {}", column.kind.name()));
                return Err(Problem::damaged(format!("its column {} {is}", column.name))
                    .hint("build the dataset again; docs/dataset.md lists the columns"));
            }
        }
        let columns = columns.iter().map(|column| column.name).filter(|name| schema.contains(name)).collect();
        Ok(Some(Self { path: path.to_owned(), meta, table, columns }))
    }

    /// Its row groups.
    pub(super) fn groups(&self) -> impl Iterator<Item = Rows> {
        self.meta.row_groups.iter().map(|group| group.num_rows()).scan(0, |from, rows| {
            *from += rows;
            Some((*from - rows, rows))
        })
    }

    /// Those of some columns that it has.
    pub(super) fn read(&self, columns: &[&str], rows: Rows) -> Result<DataFrame, Problem> {
        let names = columns.iter().filter(|name| self.columns.contains(name)).map(|name| (*name).to_owned()).collect();
        let mut reader = ParquetReader::new(File::open(&self.path)?).with_columns(Some(names)).with_slice(Some(rows));
        reader.set_metadata(Arc::clone(&self.meta));
        Ok(reader.finish()?)
    }

    fn part(&self) -> Result<Option<Part>, Problem> {
        let rows: usize = self.groups().map(|(_, rows)| rows).sum();
        if rows == 0 {
            return Ok(None);
        }
        let time = if self.table == AUDIT { "event_time" } else { "taken_at" };
        let ends = [0, rows - 1].map(|row| self.read(&[time, "instance"], (row, 1)));
        let [first, last] = ends;
        let (first, last) = (first?, last?);
        let at = |frame| Ok::<_, Problem>(numbers(frame, time)?.get(0).unwrap_or_default());
        let instance = texts(&first, "instance")?.get(0).unwrap_or_default().to_owned();
        let pages = if self.table == AUDIT { Vec::new() } else { self.pages(time)? };
        Ok(Some(Part { first: at(&first)?, last: at(&last)?, instance, pages }))
    }

    /// Which rows were one page.
    fn pages(&self, time: &str) -> Result<Vec<PageRows>, Problem> {
        let mut pages: Vec<PageRows> = Vec::new();
        for (from, rows) in self.groups() {
            let taken = numbers(&self.read(&[time], (from, rows))?, time)?;
            for (row, at) in taken.iter().enumerate() {
                let at: Micros = at.unwrap_or_default();
                match pages.last_mut().filter(|page| page.at == at) {
                    Some(page) => page.rows += 1,
                    None => pages.push(PageRows { at, from: from + row, rows: 1 }),
                }
            }
        }
        Ok(pages)
    }
}

/// What a file of a dataset shows of its events or pages; `None` where it has none.
pub(in crate::sources) fn part(path: &Path) -> io::Result<Option<Part>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if log_and_byte(&name).is_none() {
        return Ok(None);
    }
    let read = guarded(|| Parquet::open(path)?.map_or(Ok(None), |parquet| parquet.part()));
    read.map_err(io::Error::other)
}

/// A column as such values; nulls where an older dataset does not have it.
fn cast(frame: &DataFrame, name: &str, to: &DataType) -> Result<Column, Problem> {
    let here = |error: polars::prelude::PolarsError| Problem::from(error).at(format!("column {name}"));
    match frame.column(name) {
        // Times as numbers are in µs, in whatever unit they were written.
        Ok(column) if matches!(column.dtype(), DataType::Datetime(..)) => {
            let micros = column.cast(&DataType::Datetime(TimeUnit::Microseconds, None)).map_err(here)?;
            micros.cast(to).map(|column| column.rechunk()).map_err(here)
        }
        Ok(column) => column.cast(to).map(|column| column.rechunk()).map_err(here),
        Err(_) => Ok(Column::full_null(name.into(), frame.height(), to)),
    }
}

pub(super) fn numbers(frame: &DataFrame, name: &str) -> Result<Int64Chunked, Problem> {
    Ok(cast(frame, name, &DataType::Int64)?.i64()?.clone())
}

pub(super) fn truths(frame: &DataFrame, name: &str) -> Result<BooleanChunked, Problem> {
    Ok(cast(frame, name, &DataType::Boolean)?.bool()?.clone())
}

pub(super) fn texts(frame: &DataFrame, name: &str) -> Result<StringChunked, Problem> {
    Ok(cast(frame, name, &DataType::String)?.str()?.clone())
}

pub(super) fn reals(frame: &DataFrame, name: &str) -> Result<Float64Chunked, Problem> {
    Ok(cast(frame, name, &DataType::Float64)?.f64()?.clone())
}
