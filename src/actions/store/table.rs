//! Writing a Parquet file of the store, and its index with the checksums of what was written.

use super::{sync, write};
use crate::model::series::Point;
use crate::sources::store::{BLOCK, DAYS, Group, Index, POINTS, Row, StoreError, index_path, key, log};
use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{Column, DataFrame, IdxCa, ParquetCompression, ParquetWriter};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a row group of days.
const DAY_ROWS: usize = 16 << 10;
/// Rows of a row group of points.
const POINT_ROWS: usize = 256 << 10;

/// Counts and sums what passes on its way to the file.
struct Summing {
    file: BufWriter<File>,
    sum: u32,
    filled: usize,
    sums: Vec<u32>,
    bytes: u64,
}

impl Summing {
    fn add(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.sum = crc32c::crc32c_append(self.sum, now);
            self.filled += now.len();
            bytes = later;
            if self.filled == BLOCK {
                self.sums.push(self.sum);
                (self.sum, self.filled) = (0, 0);
            }
        }
    }
}

/// The file, for polars and for us.
#[derive(Clone)]
struct Shared(Arc<Mutex<Summing>>);

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Summing) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|to| {
            let written = to.file.write(bytes)?;
            to.add(&bytes[..written]);
            Ok(written)
        })
    }
    fn flush(&mut self) -> io::Result<()> {
        self.with(|to| to.file.flush())
    }
}

/// A Parquet file that is being written, a row group at a time. It gets its name in [`Self::finish`]; dropped before,
/// it is removed.
pub(super) struct Table {
    target: PathBuf,
    temporary: PathBuf,
    shared: Shared,
    parquet: Option<BatchedWriter<Shared>>,
    groups: Vec<Group>,
    is_done: bool,
}

impl Table {
    /// Begins the file `STEM.VERSION.parquet` in a folder.
    pub(super) fn create(folder: &Path, stem: &str, version: u64) -> Result<Self, StoreError> {
        let target = folder.join(format!("{stem}.{version}.parquet"));
        let temporary = folder.join(format!("{stem}.{version}.parquet.tmp"));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(StoreError::io(&temporary))?;
        let file = BufWriter::with_capacity(256 << 10, file);
        let shared = Shared(Arc::new(Mutex::new(Summing { file, sum: 0, filled: 0, sums: Vec::new(), bytes: 0 })));
        Ok(Self { target, temporary, shared, parquet: None, groups: Vec::new(), is_done: false })
    }

    fn failed(&self, error: impl std::fmt::Display) -> StoreError {
        StoreError::Table(self.target.display().to_string(), format!("could not be written: {error}"))
    }

    /// An error of polars: what the system said, if it was that.
    fn polars(&self, error: polars::prelude::PolarsError) -> StoreError {
        match error {
            polars::prelude::PolarsError::IO { error, .. } => {
                let error = io::Error::new(error.kind(), error.to_string());
                StoreError::Io { path: self.target.display().to_string(), error }
            }
            other => self.failed(other),
        }
    }

    /// Writes a row group, whose first and last series are these.
    fn group(&mut self, columns: Vec<Column>, first: String, last: String) -> Result<(), StoreError> {
        let frame = DataFrame::new_infer_height(columns).map_err(|error| self.polars(error))?;
        if self.parquet.is_none() {
            let writer = ParquetWriter::new(self.shared.clone()).with_compression(ParquetCompression::Zstd(None));
            self.parquet = Some(writer.batched(frame.schema()).map_err(|error| self.polars(error))?);
        }
        let rows = frame.height() as u64;
        if let Some(parquet) = &mut self.parquet {
            let written = parquet.write_batch(&frame);
            written.map_err(|error| self.polars(error))?;
        }
        self.groups.push(Group { rows, first, last });
        Ok(())
    }

    /// The file is whole: on disk with its index, and named. `None` if nothing was written to it.
    pub(super) fn finish(mut self) -> Result<Option<PathBuf>, StoreError> {
        let Some(parquet) = self.parquet.take() else { return Ok(None) };
        parquet.finish().map_err(|error| self.polars(error))?;
        let groups = std::mem::take(&mut self.groups);
        let index = self.shared.with(|to| {
            to.file.flush()?;
            to.file.get_ref().sync_all()?;
            if to.filled > 0 {
                to.sums.push(to.sum);
            }
            let footer = footer(to.file.get_mut(), to.bytes)?;
            Ok(Index { bytes: to.bytes, sums: std::mem::take(&mut to.sums), groups, footer })
        });
        let index = index.map_err(StoreError::io(&self.target))?;
        let text = index.to_text().ok_or_else(|| self.failed("its index can't be written as JSON"))?;
        // The index first: without its file it means nothing, and a file is never without its index.
        write(&index_path(&self.target), text.as_bytes())?;
        std::fs::rename(&self.temporary, &self.target).map_err(StoreError::io(&self.target))?;
        self.is_done = true;
        if let Some(folder) = self.target.parent() {
            sync(folder)?;
        }
        Ok(Some(self.target.clone()))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// The last bytes of a Parquet file, from its footer on, in hexadecimal.
fn footer(file: &mut File, bytes: u64) -> io::Result<String> {
    let mut end = [0; 8];
    file.seek(SeekFrom::Start(bytes.saturating_sub(8)))?;
    file.read_exact(&mut end)?;
    let length = end.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length));
    let mut footer = Vec::new();
    file.seek(SeekFrom::Start(bytes.saturating_sub(u64::from(length) + 8)))?;
    file.read_to_end(&mut footer)?;
    Ok(footer.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Text columns of a row group, and its first and last series: each text once, and which of them each row has.
#[derive(Default)]
struct Names {
    keys: Vec<String>,
    rows: Vec<u32>,
}

impl Names {
    fn push(&mut self, key: &str) {
        if self.keys.last().is_none_or(|last| last != key) {
            self.keys.push(key.to_owned());
        }
        self.rows.push(self.keys.len() as u32 - 1);
    }

    fn take(&mut self) -> Result<(Vec<Column>, String, String), polars::prelude::PolarsError> {
        let Self { keys, rows } = std::mem::take(self);
        let rows = IdxCa::from_vec("rows".into(), rows);
        let column = |name: &str, part: fn(&str) -> &str| {
            let texts: Vec<&str> = keys.iter().map(|key| part(key)).collect();
            Column::new(name.into(), texts).take(&rows)
        };
        let columns = vec![column("name", |key| key::parts(key).0)?, column("labels", |key| key::parts(key).1)?];
        let end = |key: Option<&String>| key.cloned().unwrap_or_default();
        Ok((columns, end(keys.first()), end(keys.last())))
    }
}

/// A file of points that is being written.
pub(super) struct PointsWriter {
    table: Table,
    names: Names,
    at: Vec<i64>,
    value: Vec<f64>,
}

impl PointsWriter {
    pub(super) fn new(table: Table) -> Self {
        Self { table, names: Names::default(), at: Vec::new(), value: Vec::new() }
    }

    /// Adds a series, which must come behind those before it.
    pub(super) fn add(&mut self, key: &str, points: &[Point]) -> Result<(), StoreError> {
        for point in points {
            self.names.push(key);
            self.at.push(point.at);
            self.value.push(point.value);
            if self.at.len() >= POINT_ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if self.at.is_empty() {
            return Ok(());
        }
        let (mut columns, first, last) = self.names.take().map_err(|error| self.table.failed(error))?;
        let [_, _, at, value] = POINTS;
        columns.push(Column::new(at.into(), std::mem::take(&mut self.at)));
        columns.push(Column::new(value.into(), std::mem::take(&mut self.value)));
        self.table.group(columns, first, last)
    }

    pub(super) fn finish(mut self) -> Result<Option<PathBuf>, StoreError> {
        self.flush()?;
        self.table.finish()
    }
}

/// A file of days that is being written.
pub(super) struct DaysWriter {
    table: Table,
    names: Names,
    rows: Vec<Row>,
}

impl DaysWriter {
    pub(super) fn new(table: Table) -> Self {
        Self { table, names: Names::default(), rows: Vec::new() }
    }

    /// Adds a day of a series; series come in order, and the days of each.
    pub(super) fn add(&mut self, key: &str, row: Row) -> Result<(), StoreError> {
        self.names.push(key);
        self.rows.push(row);
        if self.rows.len() >= DAY_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let (mut columns, first, last) = self.names.take().map_err(|error| self.table.failed(error))?;
        let rows = std::mem::take(&mut self.rows);
        for name in DAYS.iter().skip(2) {
            let instants = |of: fn(&Row) -> i64| Column::new((*name).into(), rows.iter().map(of).collect::<Vec<i64>>());
            let numbers =
                |of: &dyn Fn(&Row) -> f64| Column::new((*name).into(), rows.iter().map(of).collect::<Vec<f64>>());
            columns.push(match *name {
                "day" => Column::new((*name).into(), rows.iter().map(|row| row.day.day).collect::<Vec<i32>>()),
                "count" => Column::new((*name).into(), rows.iter().map(|row| row.day.count).collect::<Vec<u64>>()),
                "min" => numbers(&|row| row.day.min),
                "max" => numbers(&|row| row.day.max),
                "max_at" => instants(|row| row.day.max_at),
                "sum" => numbers(&|row| row.day.sum),
                "last" => numbers(&|row| row.day.last),
                "last_at" => instants(|row| row.day.last_at),
                "first_at" => instants(|row| row.first_at),
                "until" => instants(|row| row.until),
                "sustained_5m" => numbers(&|row| row.day.sustained[0]),
                "sustained_15m" => numbers(&|row| row.day.sustained[1]),
                "sustained_1h" => numbers(&|row| row.day.sustained[2]),
                "sustained_4h" => numbers(&|row| row.day.sustained[3]),
                "ended_5m" => numbers(&|row| row.ended[0]),
                "ended_15m" => numbers(&|row| row.ended[1]),
                "ended_1h" => numbers(&|row| row.ended[2]),
                "ended_4h" => numbers(&|row| row.ended[3]),
                _ => {
                    let packed: Vec<Vec<u8>> = rows.iter().map(|row| log::pack(row.day.sketch.buckets())).collect();
                    let packed: Vec<&[u8]> = packed.iter().map(Vec::as_slice).collect();
                    Column::new((*name).into(), packed)
                }
            });
        }
        self.table.group(columns, first, last)
    }

    pub(super) fn finish(mut self) -> Result<Option<PathBuf>, StoreError> {
        self.flush()?;
        self.table.finish()
    }
}
