//! Stored roll-ups (docs/rollup.md, section 6): a folder with a manifest and a Parquet file for each table, whoever
//! made it. Files are read a row group at a time; where the manifest has their checksums, these are compared first.

use crate::model::event::Stream;
use crate::model::rollup::{Cells, Kind, MANIFEST, Manifest, Rows, SCHEMA, TABLES, TableSpec, kind};
use crate::model::stray::Kept;
use crate::model::time::SECOND;
use crate::sources::find::{Found, LogStream};
use crate::sources::open::{Source, SourceError};
use polars::io::SerReader;
use polars::prelude::{Column, DataFrame, DataType, ParquetReader, StringChunked};
use std::fs::File;
use std::io::{BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Takes rows of a table.
pub type Take<'t> = dyn FnMut(&TableSpec, &Rows<'_>) -> Result<(), String> + 't;

/// A stored roll-up.
#[derive(Debug, Clone, PartialEq)]
pub struct Rolled {
    /// Its folder.
    pub folder: PathBuf,
    /// What it says of itself.
    pub manifest: Manifest,
}

/// The logs that a stored roll-up was made of, each as a stream whose only file is the manifest. Where a log itself is
/// there, it is read.
pub(super) fn add(found: &mut Found, source: &Source) {
    let rolled = match open(Path::new(&source.path)) {
        Ok(rolled) => rolled,
        Err(why) => return found.errors.push(SourceError::Rolled(why)),
    };
    let has_log = rolled.manifest.streams.iter().any(|stored| {
        let is_it = |own: &LogStream| own.stream.cluster == stored.cluster && own.stream.instance == stored.instance;
        found.streams.iter().any(|own| !own.is_rolled() && is_it(own))
    });
    if has_log {
        return;
    }
    found.bundle = found.bundle.take().or(rolled.manifest.bundle);
    let streams = rolled.manifest.streams;
    let rolled = Some(rolled.manifest.tile_seconds * SECOND);
    for stored in streams {
        let (id, files) = (found.streams.len() as u32, source.again().into_iter().collect());
        let stream = Stream { id, cluster: stored.cluster, instance: stored.instance };
        found.streams.push(LogStream { stream, files, kept: Kept::default(), has_copies: false, rolled });
    }
}

/// Opens the roll-up whose manifest this file is; says what is wrong with it.
pub fn open(manifest: &Path) -> Result<Rolled, String> {
    let failed = |why: String| format!("{}: {why}", manifest.display());
    let text = std::fs::read_to_string(manifest).map_err(|error| failed(error.to_string()))?;
    let read: Manifest = serde_json::from_str(&text).map_err(|error| failed(format!("is no manifest: {error}")))?;
    if read.schema != SCHEMA {
        let why =
            format!("has the form {:?}, and this plimsoll reads {SCHEMA}: use the one that wrote it", read.schema);
        return Err(failed(why));
    }
    if ![10, 60, 600, 3600].contains(&read.tile_seconds) {
        return Err(failed(format!("tile_seconds is {}; it may be 10, 60, 600 or 3600", read.tile_seconds)));
    }
    Ok(Rolled { folder: manifest.parent().unwrap_or(Path::new("")).to_owned(), manifest: read })
}

impl Rolled {
    /// Where a table lies.
    pub fn path(&self, table: &str) -> PathBuf {
        self.folder.join(format!("{table}.parquet"))
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        let of = |path: PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
        TABLES.iter().map(|table| of(self.path(table.name))).sum::<u64>() + of(self.folder.join(MANIFEST))
    }

    /// Hands the rows of all tables to `take`.
    pub fn read(&self, take: &mut Take<'_>) -> Result<(), String> {
        TABLES.iter().try_for_each(|spec| self.read_table(spec, take))
    }

    fn read_table(&self, spec: &TableSpec, take: &mut Take<'_>) -> Result<(), String> {
        let path = self.path(spec.name);
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        self.check(spec, &path).map_err(|why| failed(&why))?;
        let groups = guarded(|| {
            let mut reader = ParquetReader::new(File::open(&path).map_err(|error| error.to_string())?);
            let meta = reader.get_metadata().map_err(|error| error.to_string())?;
            Ok(meta.row_groups.iter().map(|group| group.num_rows()).collect::<Vec<usize>>())
        });
        let mut from = 0;
        for rows in groups.map_err(|why| failed(&why))? {
            let frame = guarded(|| {
                let file = File::open(&path).map_err(|error| error.to_string())?;
                let names = spec.columns.iter().map(|name| (*name).to_owned()).collect();
                let reader = ParquetReader::new(file).with_columns(Some(names)).with_slice(Some((from, rows)));
                reader.finish().map_err(|error| error.to_string())
            });
            let frame = frame.map_err(|why| failed(&why))?;
            from += rows;
            with_rows(spec, &frame, |rows| take(spec, rows)).map_err(|why| failed(&why))?;
        }
        Ok(())
    }

    /// Whether the file is the one that the manifest tells of.
    fn check(&self, spec: &TableSpec, path: &Path) -> Result<(), String> {
        let file = File::open(path).map_err(|error| format!("{error}; a roll-up has a file for each table"))?;
        let Some(known) = self.manifest.tables.get(spec.name).filter(|known| !known.crc32c.is_empty()) else {
            return Ok(());
        };
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let (mut sum, mut block) = (0, vec![0; 1 << 20]);
        loop {
            let count = reader.read(&mut block).map_err(|error| error.to_string())?;
            if count == 0 {
                break;
            }
            sum = crc32c::crc32c_append(sum, &block[..count]);
        }
        match format!("{sum:08x}") == known.crc32c {
            true => Ok(()),
            false => Err("has changed since it was written; make the roll-up again, or copy it again".to_owned()),
        }
    }
}

/// Shows the rows of a frame.
fn with_rows(
    spec: &TableSpec,
    frame: &DataFrame,
    take: impl FnOnce(&Rows<'_>) -> Result<(), String>,
) -> Result<(), String> {
    enum Held {
        Number(Vec<i64>),
        Text(StringChunked),
        Truth(Vec<bool>),
    }
    let held = |name: &str| -> Result<Held, String> {
        let bad = |error: polars::prelude::PolarsError| format!("column {name}: {error}");
        let column: &Column = frame.column(name).map_err(bad)?;
        Ok(match kind(name) {
            Kind::Number => {
                let numbers = column.cast(&DataType::Int64).map_err(bad)?;
                Held::Number(numbers.i64().map_err(bad)?.iter().map(Option::unwrap_or_default).collect())
            }
            Kind::Truth if *column.dtype() == DataType::Boolean => {
                Held::Truth(column.bool().map_err(bad)?.iter().map(|value| value == Some(true)).collect())
            }
            Kind::Truth | Kind::Text => {
                Held::Text(column.cast(&DataType::String).map_err(bad)?.str().map_err(bad)?.clone())
            }
        })
    };
    let held: Vec<Held> = spec.columns.iter().map(|name| held(name)).collect::<Result<_, _>>()?;
    fn cells(held: &Held) -> Cells<'_> {
        match held {
            Held::Number(all) => Cells::Number(all.clone()),
            Held::Text(all) => Cells::Text(all.iter().map(Option::unwrap_or_default).collect()),
            Held::Truth(all) => Cells::Text(all.iter().map(|is| if *is { "true" } else { "false" }).collect()),
        }
    }
    take(&Rows { count: frame.height(), columns: held.iter().map(cells).collect() })
}

/// Keeps a decoder's panic from ending the program: what it is given may have been made by anything.
fn guarded<T>(decode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err("it can't be decoded".to_owned()))
}
