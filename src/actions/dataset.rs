//! Writing datasets (docs/dataset.md): Parquet files by cluster, date and hour, then the description that makes what
//! was read part of the dataset. What a killed run leaves behind is removed by the next one, which reads it again.

use super::fresh::{Fresh, folder as private_folder};
use crate::model::dataset::{
    ABOUT, AUDIT, DESCRIPTION, DatasetLog, Description, EVENTS, EventColumn, Partition, SCHEMA,
};
use crate::model::event_rows::{EventBatch, EventRows, Texts};
use polars::prelude::{
    BatchedWriter, Column, DataFrame, DataType, IntoColumn, IntoSeries, KeyValueMetadata, ListBuilderTrait,
    ListStringChunkedBuilder, NamedFrom, ParquetCompression, ParquetWriter, Series, SortMultipleOptions,
    StringChunkedBuilder, TimeUnit,
};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Rows of a row group.
const GROUP: usize = 64 << 10;

/// Bytes of rows that wait to be written, at most, about.
const WAITING: usize = 192 << 20;

/// A dataset that is added to: by one process at a time.
#[derive(Debug)]
pub struct DatasetWriter {
    folder: PathBuf,
    description: Description,
    _lock: File,
}

impl DatasetWriter {
    /// The right to write to a dataset, which is begun if need be; says why it can't be had. What a killed run left
    /// behind is removed.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        let about = folder.join(ABOUT);
        private_folder(&about)?;
        let lock = File::options().create(true).append(true).open(about.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("another plimsoll writes to this dataset; wait until it is done"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let description = match fs::read(about.join(DESCRIPTION)) {
            Ok(text) => serde_json::from_slice::<Description>(&text)
                .map_err(|error| io::Error::other(format!("{ABOUT}/{DESCRIPTION}: {error}")))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Description { schema: SCHEMA.to_owned(), ..Description::default() }
            }
            Err(error) => return Err(error),
        };
        if description.schema != SCHEMA {
            let what = format!("its schema is {:?}, and this plimsoll writes {SCHEMA}", description.schema);
            return Err(io::Error::other(what + "; use the plimsoll that wrote it"));
        }
        let own = Self { folder: folder.to_owned(), description, _lock: lock };
        own.clean(&folder.join(AUDIT))?;
        Ok(own)
    }

    /// What it holds of a log, by the log's name.
    pub fn log(&self, name: &str) -> Option<&DatasetLog> {
        self.description.logs.get(name)
    }

    /// Removes files of lines that the description does not have: their run was killed.
    fn clean(&self, folder: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() {
                self.clean(&path)?;
            } else if name.starts_with(".part-") || is_part(&name).is_some_and(|(log, from)| self.is_left(log, from)) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn is_left(&self, log: &str, from: u64) -> bool {
        self.log(log).is_none_or(|own| from >= own.to)
    }

    /// Begins with lines of a log, from a byte on.
    pub fn part(&self, log: &str, from: u64) -> DatasetPart {
        DatasetPart {
            folder: self.folder.join(AUDIT),
            name: part_name(log, from),
            waiting: BTreeMap::new(),
            open: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Lines of logs are part of the dataset from now on.
    pub fn commit(&mut self, logs: impl IntoIterator<Item = (String, DatasetLog)>) -> io::Result<()> {
        self.description.logs.extend(logs);
        env!("CARGO_PKG_VERSION").clone_into(&mut self.description.plimsoll);
        let mut file = Fresh::create(&self.folder.join(ABOUT).join(DESCRIPTION))?;
        writeln!(file, "{}", serde_json::to_string_pretty(&self.description)?)?;
        file.finish()
    }
}

/// The name of a file: the log, and the byte from which on it holds its lines.
fn part_name(log: &str, from: u64) -> String {
    format!("part-{log}-{from}.parquet")
}

/// Log and byte of a file of this name; `None` where it is somebody else's.
fn is_part(name: &str) -> Option<(&str, u64)> {
    let (log, from) = name.strip_prefix("part-")?.strip_suffix(".parquet")?.rsplit_once('-')?;
    Some((log, from.parse().ok()?))
}

/// Files that are being written: of the lines of a log, one in each partition.
pub struct DatasetPart {
    folder: PathBuf,
    name: String,
    waiting: BTreeMap<Partition, EventRows>,
    open: BTreeMap<Partition, OpenFile>,
    bytes: usize,
}

struct OpenFile {
    fresh: Fresh,
    parquet: BatchedWriter<BufWriter<File>>,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    pub files: u64,
    pub bytes: u64,
}

impl DatasetPart {
    /// Takes the events of a block.
    pub fn take(&mut self, batch: EventBatch) -> io::Result<()> {
        for (partition, rows) in batch.rows {
            self.bytes += rows.bytes();
            let own = self.waiting.entry(partition.clone()).or_default();
            own.append(&rows);
            if own.len() >= GROUP {
                self.write(&partition)?;
            }
        }
        while self.bytes > WAITING {
            let Some(largest) = self.waiting.iter().max_by_key(|(_, rows)| rows.bytes()) else { break };
            let largest = largest.0.clone();
            self.write(&largest)?;
        }
        Ok(())
    }

    /// Writes what waits of a partition as a row group.
    fn write(&mut self, partition: &Partition) -> io::Result<()> {
        let Some(rows) = self.waiting.remove(partition).filter(|rows| !rows.is_empty()) else { return Ok(()) };
        self.bytes = self.bytes.saturating_sub(rows.bytes());
        let frame = frame(rows)?;
        if !self.open.contains_key(partition) {
            let folder = self.folder.join(partition.folder());
            private_folder(&folder)?;
            let fresh = Fresh::create(&folder.join(&self.name))?;
            let file = File::options().write(true).open(fresh.path())?;
            let about = vec![("plimsoll.schema".to_owned(), SCHEMA.to_owned())];
            let parquet = ParquetWriter::new(BufWriter::new(file))
                .with_compression(ParquetCompression::Zstd(None))
                .with_key_value_metadata(Some(KeyValueMetadata::from_static(about)))
                .batched(frame.schema())
                .map_err(io::Error::other)?;
            self.open.insert(partition.clone(), OpenFile { fresh, parquet });
        }
        match self.open.get_mut(partition) {
            Some(open) => open.parquet.write_batch(&frame).map_err(io::Error::other),
            None => Ok(()),
        }
    }

    /// All lines were taken: the files get their names.
    pub fn finish(mut self) -> io::Result<Written> {
        let waiting: Vec<Partition> = self.waiting.keys().cloned().collect();
        waiting.iter().try_for_each(|partition| self.write(partition))?;
        let mut written = Written::default();
        for OpenFile { fresh, parquet } in std::mem::take(&mut self.open).into_values() {
            parquet.finish().map_err(io::Error::other)?;
            drop(parquet);
            written.files += 1;
            written.bytes += fs::metadata(fresh.path())?.len();
            fresh.finish()?;
        }
        Ok(written)
    }
}

/// Rows as columns, sorted by time.
fn frame(rows: EventRows) -> io::Result<DataFrame> {
    let height = rows.len();
    let EventRows { times, numbers, truths, texts, groups, .. } = rows;
    let mut names = EVENTS.iter().map(|EventColumn { name, .. }| *name);
    let mut name = || names.next().unwrap_or_default();
    let mut columns: Vec<Column> = Vec::new();
    let is_sorted = times[0].is_sorted();
    for values in times {
        let time = DataType::Datetime(TimeUnit::Microseconds, None);
        let series = Series::new(name().into(), values).cast(&time).map_err(io::Error::other)?;
        columns.push(series.into_column());
    }
    columns.extend(numbers.into_iter().map(|values| Series::new(name().into(), values).into_column()));
    columns.extend(truths.into_iter().map(|values| Series::new(name().into(), values).into_column()));
    for values in texts {
        columns.push(text(name(), &values, height).into_column());
    }
    columns.push(list(name(), &groups, height).into_column());
    let frame = DataFrame::new(height, columns).map_err(io::Error::other)?;
    match is_sorted {
        true => Ok(frame),
        false => {
            let in_order = SortMultipleOptions::default().with_maintain_order(true);
            frame.sort([EVENTS[0].name], in_order).map_err(io::Error::other)
        }
    }
}

fn text(name: &str, values: &Texts, height: usize) -> Series {
    let mut builder = StringChunkedBuilder::new(name.into(), height);
    values.iter().for_each(|text| builder.append_option(text));
    builder.finish().into_series()
}

fn list(name: &str, (all, ends): &(Texts, Vec<usize>), height: usize) -> Series {
    let mut builder = ListStringChunkedBuilder::new(name.into(), height, height * 2);
    let (mut texts, mut from) = (all.iter(), 0);
    for end in ends {
        builder.append_values_iter(texts.by_ref().take(end - from).map(Option::unwrap_or_default));
        from = *end;
    }
    builder.finish().into_series()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_its_own_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let hour = home.path().join(AUDIT).join("cluster=a/date=2026-11-20/hour=09");
        {
            let mut writer = DatasetWriter::begin(home.path()).unwrap();
            // One process at a time.
            assert!(DatasetWriter::begin(home.path()).unwrap_err().to_string().contains("another plimsoll"));
            writer.commit([("aa".to_owned(), DatasetLog { to: 100, ..DatasetLog::default() })]).unwrap();
        }
        fs::create_dir_all(&hour).unwrap();
        let names = [
            "part-aa-0.parquet",
            "part-aa-100.parquet",
            "part-bb-0.parquet",
            ".part-aa-0.parquet.7.tmp",
            "mine.parquet",
            "part-.txt",
        ];
        names.iter().for_each(|name| fs::write(hour.join(name), "").unwrap());
        DatasetWriter::begin(home.path()).unwrap();
        let mut left: Vec<String> = fs::read_dir(&hour)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        assert_eq!(left, ["mine.parquet", "part-.txt", "part-aa-0.parquet"]);
        // A dataset of another schema is left alone.
        fs::write(home.path().join(ABOUT).join(DESCRIPTION), r#"{"schema": "plimsoll.dataset/v9"}"#).unwrap();
        assert!(DatasetWriter::begin(home.path()).unwrap_err().to_string().contains("v9"));
    }
}
