//! Writing a roll-up as files (docs/rollup.md, section 6): a Parquet file for each table, then the manifest, which
//! makes the folder a roll-up. Nobody but the user may read them.

use super::fresh::{Fresh, folder as private_folder, is_free};
use super::noted::{NotedFile, Why};
use crate::model::rollup::{
    Field, Kind, MANIFEST, Manifest, SEAMS, StoredTable, TABLES, TableSpec, coarse_tables, kind,
};
use crate::sources::rolled::checksum;
use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{
    Column, DataFrame, IntoColumn, IntoSeries, NamedFrom, ParquetCompression, ParquetWriter, Series,
    StringChunkedBuilder,
};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows of a row group.
const GROUP: usize = 32 << 10;

/// Threads that write tables side by side, at most: each holds a row group as text.
const WRITERS: usize = 2;

/// Hands the rows of a table to who asks.
pub type Give<'g> = dyn Fn(&TableSpec, &mut dyn FnMut(Vec<Field<'_>>)) + Sync + 'g;

/// The same roll-up in longer tiles.
pub struct CoarseCopy<'g> {
    /// Their length in seconds.
    pub tile: i64,
    pub give: Box<Give<'g>>,
}

/// Writes a roll-up into a folder that is empty or not there yet, and some of its tables in longer tiles; gives the
/// manifest with what was written.
pub fn write(folder: &Path, manifest: &Manifest, give: &Give<'_>, copies: &[CoarseCopy<'_>]) -> io::Result<Manifest> {
    is_free(folder)?;
    let was_there = folder.exists();
    private_folder(folder)?;
    let written = fill(folder, manifest, give, copies);
    if written.is_err() {
        // What is there of it would stand in the way of the next try.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
        if !was_there {
            let _ = std::fs::remove_dir(folder);
        }
    }
    written
}

/// Writes the tables, and the manifest last.
fn fill(folder: &Path, manifest: &Manifest, give: &Give<'_>, copies: &[CoarseCopy<'_>]) -> io::Result<Manifest> {
    let mut manifest = manifest.clone();
    let is_there = |spec: &&TableSpec| !manifest.without.iter().any(|name| name == spec.name);
    let own = TABLES.iter().chain([&SEAMS]).filter(is_there).map(|spec| (None, spec, give));
    let coarse = copies.iter().flat_map(|copy| coarse_tables().map(|spec| (Some(copy.tile), spec, &*copy.give)));
    let all: Vec<(Option<i64>, &TableSpec, &Give<'_>)> = own.chain(coarse).collect();
    let next = AtomicUsize::new(0);
    let write_some = || -> io::Result<Vec<(Option<i64>, String, StoredTable)>> {
        let mut written = Vec::new();
        while let Some((copy, spec, give)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            written.push((*copy, spec.name.to_owned(), table(&folder.join(spec.file(*copy)), spec, give)?));
        }
        Ok(written)
    };
    let count = std::thread::available_parallelism().map_or(1, NonZero::get).min(WRITERS);
    let written: Vec<io::Result<Vec<_>>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..count).map(|_| scope.spawn(write_some)).collect();
        let mine = write_some();
        let joined = others.into_iter().map(|other| {
            other.join().unwrap_or_else(|_| Err(io::Error::other("a thread that wrote a table panicked")))
        });
        joined.chain([mine]).collect()
    });
    for (copy, name, table) in written.into_iter().collect::<io::Result<Vec<_>>>()?.into_iter().flatten() {
        match copy {
            None => manifest.tables.insert(name, table),
            Some(tile) => manifest.coarse.entry(tile).or_default().insert(name, table),
        };
    }
    let mut file = Fresh::create(&folder.join(MANIFEST))?;
    writeln!(file, "{}", serde_json::to_string_pretty(&manifest)?)?;
    file.finish()?;
    Ok(manifest)
}

fn table(target: &Path, spec: &TableSpec, give: &Give<'_>) -> io::Result<StoredTable> {
    let fresh = Fresh::create(target)?;
    let file = File::options().write(true).open(fresh.path())?;
    let mut group = Group::new(spec);
    let schema = group.frame()?;
    let why = Why::default();
    let mut parquet = ParquetWriter::new(BufWriter::new(why.noting(file)))
        .with_compression(ParquetCompression::Zstd(None))
        .batched(schema.schema())
        .map_err(|error| why.of(error))?;
    let (mut rows, mut groups) = (0, Vec::new());
    let mut result = Ok(());
    give(spec, &mut |row| {
        rows += 1;
        group.add(&row);
        if group.rows == GROUP && result.is_ok() {
            groups.extend(group.range());
            result = group.write(&mut parquet, &why);
        }
    });
    result?;
    // A file without any row has its columns all the same.
    if group.rows > 0 || rows == 0 {
        groups.extend(group.range());
        group.write(&mut parquet, &why)?;
    }
    parquet.finish().map_err(|error| why.of(error))?;
    drop(parquet);
    let (bytes, sum) = checksum(File::open(fresh.path())?)?;
    fresh.finish()?;
    Ok(StoredTable { rows, bytes, crc32c: format!("{sum:08x}"), groups })
}

/// Rows that are yet to be written.
struct Group<'s> {
    spec: &'s TableSpec,
    columns: Vec<Values>,
    rows: usize,
}

enum Values {
    Number(Vec<i64>),
    Truth(Vec<bool>),
    Text(StringChunkedBuilder),
}

/// Texts that are yet to come.
fn no_texts(name: &str) -> StringChunkedBuilder {
    StringChunkedBuilder::new(name.into(), 0)
}

impl<'s> Group<'s> {
    fn new(spec: &'s TableSpec) -> Self {
        let values = |name: &&str| match kind(name) {
            Kind::Number => Values::Number(Vec::new()),
            Kind::Truth => Values::Truth(Vec::new()),
            Kind::Text => Values::Text(no_texts(name)),
        };
        Self { spec, columns: spec.columns.iter().map(values).collect(), rows: 0 }
    }

    fn add(&mut self, row: &[Field<'_>]) {
        for (values, field) in self.columns.iter_mut().zip(row) {
            match values {
                Values::Number(all) => all.push(field.number()),
                Values::Truth(all) => all.push(field.text() == "true"),
                Values::Text(all) => all.append_value(field.text()),
            }
        }
        self.rows += 1;
    }

    /// Its rows, and the smallest and the largest number in the first column, if that holds numbers.
    fn range(&self) -> Option<(u64, i64, i64)> {
        let Some(Values::Number(all)) = self.columns.first() else { return None };
        let (first, last) = all.iter().min().zip(all.iter().max())?;
        Some((self.rows as u64, *first, *last))
    }

    fn frame(&mut self) -> io::Result<DataFrame> {
        self.rows = 0;
        let column = |(name, values): (&&str, &mut Values)| -> Column {
            match values {
                Values::Number(all) => Series::new((*name).into(), std::mem::take(all)).into_column(),
                Values::Truth(all) => Series::new((*name).into(), std::mem::take(all)).into_column(),
                Values::Text(all) => std::mem::replace(all, no_texts(name)).finish().into_series().into_column(),
            }
        };
        let columns: Vec<Column> = self.spec.columns.iter().zip(&mut self.columns).map(column).collect();
        DataFrame::new_infer_height(columns).map_err(io::Error::other)
    }

    fn write(&mut self, parquet: &mut BatchedWriter<BufWriter<NotedFile>>, why: &Why) -> io::Result<()> {
        parquet.write_batch(&self.frame()?).map_err(|error| why.of(error))
    }
}
