//! Writing datasets (docs/dataset.md): Parquet files by cluster, date and hour, then the description that makes what
//! was read part of the dataset. What a killed run leaves behind is removed by the next one, which reads it again.

mod captured;

pub use captured::{CapturedFile, CapturedPart};

use super::fresh::{Fresh, folder as private_folder, try_lock};
use super::noted::{NotedFile, Why};
use crate::model::bundle::Bundle;
use crate::model::dataset::{
    ABOUT, AUDIT, COUNTS, DESCRIPTION, DatasetLog, Description, EVENTS, Partition, SCHEMA, SCHEMA_KEY, TableColumn,
    table_names,
};
use crate::model::event_rows::{EventBatch, EventRows, Texts};
use crate::sources::dataset::{addition_number, around, description, is_held};
use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{
    Column, DataFrame, DataType, IntoColumn, IntoSeries, KeyValueMetadata, ListBuilderTrait, ListStringChunkedBuilder,
    NamedFrom, ParquetCompression, ParquetWriter, Series, SortMultipleOptions, StringChunkedBuilder, TimeUnit,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
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
    /// Number of the last addition.
    last: u64,
    _lock: File,
}

impl DatasetWriter {
    /// The right to write to a dataset, which is begun if need be; says why it can't be had. What a killed run left
    /// behind is removed.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        if let Some(other) = around(folder) {
            return Err(io::Error::other(format!("lies in the dataset {}; choose another folder", other.display())));
        }
        let about = folder.join(ABOUT);
        private_folder(&about)?;
        let Some(lock) = try_lock(&about.join("lock"))? else {
            return Err(io::Error::other("another plimsoll writes to this dataset; wait until it is done"));
        };
        let (description, last) = description(folder)?;
        let mut own = Self { folder: folder.to_owned(), description, last, _lock: lock };
        for table in table_names() {
            clean(&folder.join(table), &|name| is_held(&own.description, table, name) == Some(false))?;
        }
        if last > 0 {
            own.fold()?;
        }
        Ok(own)
    }

    /// What it holds of a log, by the log's name.
    pub fn log(&self, name: &str) -> Option<&DatasetLog> {
        self.description.logs.get(name)
    }

    /// What a bundle says of its cluster; it is written with what is added next.
    pub fn know(&mut self, bundle: Bundle) {
        let own = Bundle { t0: String::new(), end: String::new(), ..bundle };
        if !own.kubernetes_version.is_empty() || !own.owner.is_empty() {
            self.description.clusters.insert(own.cluster.clone(), own);
        }
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

    /// Lines of logs are part of the dataset from now on. What is said of them is small, whatever else the dataset
    /// holds; [`Self::fold`] puts it with the rest.
    pub fn commit(&mut self, logs: impl IntoIterator<Item = (String, DatasetLog)>) -> io::Result<()> {
        let logs: BTreeMap<String, DatasetLog> = logs.into_iter().collect();
        self.last += 1;
        let one = Description { logs: logs.clone(), ..self.about() };
        self.write(&addition(self.last), &one)?;
        self.description.logs.extend(logs);
        Ok(())
    }

    /// Writes one description of all that the dataset holds.
    pub fn fold(&mut self) -> io::Result<()> {
        let about = self.about();
        let Description { logs, captures, .. } = std::mem::take(&mut self.description);
        let all = Description { logs, captures, ..about };
        let written = self.write(DESCRIPTION, &all);
        self.description = all;
        written?;
        for entry in fs::read_dir(self.folder.join(ABOUT))? {
            let entry = entry?;
            if addition_number(&entry.file_name().to_string_lossy()).is_some() {
                fs::remove_file(entry.path())?;
            }
        }
        self.last = 0;
        Ok(())
    }

    fn about(&self) -> Description {
        let plimsoll = env!("CARGO_PKG_VERSION").to_owned();
        let clusters = self.description.clusters.clone();
        Description { schema: SCHEMA.to_owned(), plimsoll, clusters, ..Description::default() }
    }

    fn write(&self, name: &str, description: &Description) -> io::Result<()> {
        let mut file = Fresh::create(&self.folder.join(ABOUT).join(name))?;
        writeln!(file, "{}", serde_json::to_string_pretty(description)?)?;
        file.finish()
    }
}

/// Removes files of lines and captures that the description does not have: their run was killed.
fn clean(folder: &Path, is_left: &dyn Fn(&str) -> bool) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            clean(&path, is_left)?;
        } else if name.starts_with(".part-") || is_left(&name) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The name of what was added since the description was written, by its number from 1.
fn addition(number: u64) -> String {
    format!("added-{number}.json")
}

/// The name of a file: the log, and the byte from which on it holds its lines.
fn part_name(log: &str, from: u64) -> String {
    format!("part-{log}-{from}.parquet")
}

/// Files that are being written: of the lines of a log, one in each partition.
pub struct DatasetPart {
    folder: PathBuf,
    name: String,
    /// Blocks of events, in their order.
    waiting: BTreeMap<Partition, Vec<Block>>,
    open: BTreeMap<Partition, OpenFile>,
    bytes: usize,
}

struct OpenFile {
    fresh: Fresh,
    parquet: BatchedWriter<BufWriter<NotedFile>>,
    why: Why,
}

impl OpenFile {
    /// Begins a file of such rows.
    fn create(folder: &Path, name: &str, rows: &DataFrame) -> io::Result<Self> {
        private_folder(folder)?;
        let fresh = Fresh::create(&folder.join(name))?;
        let file = File::options().write(true).open(fresh.path())?;
        let about = vec![(SCHEMA_KEY.to_owned(), SCHEMA.to_owned())];
        let why = Why::default();
        let parquet = ParquetWriter::new(BufWriter::new(why.noting(file)))
            .with_compression(ParquetCompression::Zstd(None))
            .with_key_value_metadata(Some(KeyValueMetadata::from_static(about)))
            .batched(rows.schema())
            .map_err(|error| why.of(error))?;
        Ok(Self { fresh, parquet, why })
    }

    /// Gives the file its name; gives its bytes.
    fn finish(self) -> io::Result<u64> {
        self.parquet.finish().map_err(|error| self.why.of(error))?;
        drop(self.parquet);
        let bytes = fs::metadata(self.fresh.path())?.len();
        self.fresh.finish()?;
        Ok(bytes)
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    pub files: u64,
    pub bytes: u64,
}

impl DatasetPart {
    /// Takes the events of a block.
    pub fn take(&mut self, batch: ReadyBatch) -> io::Result<()> {
        let ReadyBatch { mut batch, mut texts } = batch;
        for (partition, rows) in std::mem::take(&mut batch.rows) {
            self.bytes += rows.bytes();
            let texts = texts.remove(&partition).unwrap_or_default();
            let own = self.waiting.entry(partition.clone()).or_default();
            own.push(Block { rows, texts });
            if own.iter().map(|block| block.rows.len()).sum::<usize>() >= GROUP {
                self.write(&partition)?;
            }
        }
        while self.bytes > WAITING {
            let Some(largest) = self.waiting.iter().max_by_key(|(_, blocks)| bytes(blocks)) else { break };
            let largest = largest.0.clone();
            self.write(&largest)?;
        }
        Ok(())
    }

    /// Writes what waits of a partition as a row group.
    fn write(&mut self, partition: &Partition) -> io::Result<()> {
        let Some(blocks) = self.waiting.remove(partition) else { return Ok(()) };
        self.bytes = self.bytes.saturating_sub(bytes(&blocks));
        let frame = frame(&blocks)?;
        drop(blocks);
        let open = match self.open.entry(partition.clone()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                place.insert(OpenFile::create(&self.folder.join(partition.folder()), &self.name, &frame)?)
            }
        };
        open.parquet.write_batch(&frame).map_err(|error| open.why.of(error))
    }

    /// All lines were taken: the files get their names.
    pub fn finish(mut self) -> io::Result<Written> {
        let waiting: Vec<Partition> = self.waiting.keys().cloned().collect();
        waiting.iter().try_for_each(|partition| self.write(partition))?;
        let mut written = Written::default();
        for open in std::mem::take(&mut self.open).into_values() {
            written.files += 1;
            written.bytes += open.finish()?;
        }
        Ok(written)
    }
}

/// The events of a block with their texts as columns already: workers make these side by side, and one thread writes.
pub struct ReadyBatch {
    /// All but texts and groups.
    pub batch: EventBatch,
    texts: BTreeMap<Partition, Vec<Series>>,
}

impl ReadyBatch {
    /// Makes columns of the texts.
    pub fn new(mut batch: EventBatch) -> Self {
        let ready = |(partition, rows): (&Partition, &mut EventRows)| {
            let height = rows.len();
            let mut names = EVENTS.iter().skip(COUNTS[..3].iter().sum()).map(|TableColumn { name, .. }| *name);
            let mut columns: Vec<Series> = std::mem::take(&mut rows.texts)
                .iter()
                .map(|texts| text(names.next().unwrap_or_default(), texts, height))
                .collect();
            let own = std::mem::take(&mut rows.groups);
            columns.push(groups(names.next().unwrap_or_default(), &own, height));
            (partition.clone(), columns)
        };
        let texts = batch.rows.iter_mut().map(ready).collect();
        Self { batch, texts }
    }
}

/// Events of a partition that wait to be written.
struct Block {
    rows: EventRows,
    texts: Vec<Series>,
}

fn bytes(blocks: &[Block]) -> usize {
    blocks.iter().map(|block| block.rows.bytes()).sum()
}

/// Blocks as one frame, sorted by time.
fn frame(blocks: &[Block]) -> io::Result<DataFrame> {
    let height = blocks.iter().map(|block| block.rows.len()).sum();
    let times: [Vec<Option<i64>>; COUNTS[0]] = std::array::from_fn(|at| joined(blocks, |own| &own.times[at]));
    let numbers = (0..COUNTS[1]).map(|at| joined(blocks, |own| &own.numbers[at]));
    let truths = (0..COUNTS[2]).map(|at| joined(blocks, |own| &own.truths[at]));
    let mut names = EVENTS.iter().map(|TableColumn { name, .. }| *name);
    let mut name = || names.next().unwrap_or_default();
    let mut columns: Vec<Column> = Vec::new();
    let is_sorted = times[0].is_sorted();
    for values in times {
        let time = DataType::Datetime(TimeUnit::Microseconds, None);
        let series = Series::new(name().into(), values).cast(&time).map_err(io::Error::other)?;
        columns.push(series.into_column());
    }
    columns.extend(numbers.map(|values| Series::new(name().into(), values).into_column()));
    columns.extend(truths.map(|values| Series::new(name().into(), values).into_column()));
    for at in 0..=COUNTS[3] {
        let mut all: Option<Series> = None;
        for own in blocks.iter().filter_map(|block| block.texts.get(at)) {
            match &mut all {
                Some(all) => drop(all.append(own).map_err(io::Error::other)?),
                None => all = Some(own.clone()),
            }
        }
        // A row group is one piece.
        columns.extend(all.map(|all| all.rechunk().into_column()));
    }
    let frame = DataFrame::new(height, columns).map_err(io::Error::other)?;
    match is_sorted {
        true => Ok(frame),
        false => {
            let in_order = SortMultipleOptions::default().with_maintain_order(true);
            frame.sort([EVENTS[0].name], in_order).map_err(io::Error::other)
        }
    }
}

/// A column of all blocks, one behind the other.
fn joined<T: Copy>(blocks: &[Block], of: impl Fn(&EventRows) -> &Vec<T>) -> Vec<T> {
    let mut all = Vec::with_capacity(blocks.iter().map(|block| block.rows.len()).sum());
    blocks.iter().for_each(|block| all.extend_from_slice(of(&block.rows)));
    all
}

fn text(name: &str, texts: &Texts, height: usize) -> Series {
    let mut builder = StringChunkedBuilder::new(name.into(), height);
    texts.iter().for_each(|text| builder.append_option(text));
    builder.finish().into_series()
}

fn groups(name: &str, (all, ends): &(Texts, Vec<usize>), height: usize) -> Series {
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
            writer.commit([("aa".to_owned(), DatasetLog { to: 50, ..DatasetLog::default() })]).unwrap();
            writer.commit([("aa".to_owned(), DatasetLog { to: 100, ..DatasetLog::default() })]).unwrap();
            // Killed here: the description was not written yet.
            assert!(!home.path().join(ABOUT).join(DESCRIPTION).exists());
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
        let writer = DatasetWriter::begin(home.path()).unwrap();
        assert_eq!(writer.log("aa").map(|log| log.to), Some(100));
        drop(writer);
        let about: Vec<_> =
            fs::read_dir(home.path().join(ABOUT)).unwrap().map(|own| own.unwrap().file_name()).collect();
        assert!(about.len() == 2 && about.iter().all(|name| name == "lock" || name == DESCRIPTION), "{about:?}");
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
