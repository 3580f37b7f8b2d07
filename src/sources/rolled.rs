//! Stored roll-ups (docs/rollup.md, section 6): a folder with a manifest and a Parquet file for each table, whoever
//! made it. Files are read a row group at a time; where the manifest has their checksums, these are compared first.

use crate::model::event::Stream;
use crate::model::problem::{Problem, ProblemKind, guarded};
use crate::model::rollup::{
    Cells, Kind, LATER, MANIFEST, Manifest, Rows, SCHEMA, SEAMS, StoredStream, StoredTable, TABLES, TILES, TableSpec,
    kind,
};
use crate::model::stray::KeptDays;
use crate::model::time::{self, MINUTE, Micros, SECOND};
use crate::sources::archive_names::shown;
use crate::sources::found::{Discovery, LogStream};
use crate::sources::open::{Place, Source, SourceError};
use crate::sources::store::marker::other_version;
use polars::io::SerReader;
use polars::prelude::{Column, DataFrame, DataType, ParquetReader, StringChunked};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Parts of a log that was cut overlap by what was late; longer ones hold the same requests, in µs.
const OVERLAP: Micros = MINUTE;

/// How a table is read.
#[derive(Debug, Clone)]
pub struct Reading {
    pub spec: &'static TableSpec,
    /// The length of its tiles in seconds, where it is [a copy in longer ones](Manifest::coarse).
    pub copy: Option<i64>,
    /// Rows that are wanted, by their first column where that holds numbers.
    pub within: RangeInclusive<i64>,
}

impl Reading {
    /// All rows of a table in its own tiles.
    pub fn all(spec: &'static TableSpec) -> Self {
        Self { spec, copy: None, within: i64::MIN..=i64::MAX }
    }
}

/// Takes rows of a table.
pub type Take<'t> = dyn FnMut(&TableSpec, &Rows<'_>) -> Result<(), Problem> + 't;

/// A stored roll-up.
#[derive(Debug, Clone, PartialEq)]
pub struct Rolled {
    pub folder: PathBuf,
    /// What it says of itself.
    pub manifest: Manifest,
}

/// The logs that stored roll-ups were made of, each as a stream whose only file is the manifest. Where a log itself is
/// there, it is read; of a store's parts those that others have taken the place of are not.
pub(super) fn add(found: &mut Discovery, sources: &[Source]) {
    let mut all = Vec::new();
    report_other_versions(found, sources);
    for source in sources {
        let Place::File(manifest) = &source.place else { continue };
        match open(manifest) {
            Ok(rolled) => all.push((source, rolled)),
            Err(why) => found.errors.push(SourceError::Stored(why)),
        }
    }
    let replaced = replaced(all.iter().map(|(_, rolled)| rolled));
    all.retain(|(_, rolled)| !is_one_of(&rolled.folder, &replaced));
    without_copies(found, &mut all);
    report_overlaps(found, &all);
    if all.is_empty() {
        return;
    }
    let logs: Vec<Logged> = found.streams.iter().map(Logged::of).collect();
    all.into_iter().for_each(|(source, rolled)| add_one(found, source, rolled, &logs));
}

/// Reports stores that another version of plimsoll made: their roll-ups have a version of their own, but more may lie
/// there than is known here.
fn report_other_versions(found: &mut Discovery, sources: &[Source]) {
    let store = |source: &Source| match &source.place {
        Place::File(manifest) => manifest.ancestors().nth(3).map(Path::to_owned),
        _ => None,
    };
    for store in sources.iter().filter_map(store).collect::<BTreeSet<PathBuf>>() {
        if let Ok(Some(marker)) = other_version(&store) {
            let what = format!("the store was made by another version of plimsoll ({marker})");
            let problem = Problem::new(ProblemKind::Version, what).hint("use that one").at(shown(&store));
            found.errors.push(SourceError::Stored(problem));
        }
    }
}

/// Of roll-ups with the same tables, as a backup beside what it is of, one is read; the others are reported.
fn without_copies(found: &mut Discovery, all: &mut Vec<(&Source, Rolled)>) {
    let mut kept: Vec<(&Source, Rolled)> = Vec::new();
    for (source, rolled) in all.drain(..) {
        match kept.iter().find(|(_, other)| rolled.manifest.has_same_rows(&other.manifest)) {
            None => kept.push((source, rolled)),
            Some((_, other)) => {
                let what = format!("is a copy of {}, and is not read once more", shown(&other.folder));
                let hint = "move it away, or name only one of them";
                found.errors.push(SourceError::Stored(Problem::unanswered(what).hint(hint).at(shown(&rolled.folder))));
            }
        }
    }
    *all = kept;
}

/// Reports roll-ups that hold the same apiserver's requests of one time, which would count twice. What a store holds
/// has each line once.
fn report_overlaps(found: &mut Discovery, all: &[(&Source, Rolled)]) {
    let all: Vec<&Rolled> = all.iter().map(|(_, own)| own).filter(|own| own.manifest.files.is_empty()).collect();
    for (place, own) in all.iter().enumerate() {
        if let Some(other) = all[..place].iter().find(|other| share_time(&own.manifest, &other.manifest)) {
            let what = format!("holds a time of the same apiserver that {} holds, too", shown(&other.folder));
            let hint = "its requests count twice: roll up the logs of both together, or name only one";
            found.errors.push(SourceError::Stored(Problem::unanswered(what).hint(hint).at(shown(&own.folder))));
        }
    }
}

/// Whether both hold a time of one apiserver; of those without a name nobody knows.
fn share_time(one: &Manifest, other: &Manifest) -> bool {
    let is_same = |a: &StoredStream, b: &StoredStream| {
        let spans = a.first.zip(a.last).zip(b.first.zip(b.last));
        let shared = spans.map(|(a, b)| a.1.min(b.1) - a.0.max(b.0));
        a.cluster == b.cluster && a.instance == b.instance && shared.is_some_and(|shared| shared >= OVERLAP)
    };
    let mut named = one.streams.iter().filter(|own| !own.instance.is_empty());
    named.any(|own| other.streams.iter().any(|other| is_same(own, other)))
}

/// A log that is there itself: from when until when, as far as that can be looked at.
struct Logged {
    stream: Stream,
    first: Option<Micros>,
    last: Option<Micros>,
}

impl Logged {
    fn of(own: &LogStream) -> Self {
        let last = own.files.iter().map(Source::last_time).collect::<Option<Vec<_>>>();
        Self {
            stream: own.stream.clone(),
            first: own.files.iter().filter_map(|file| file.first).min(),
            last: last.and_then(|all| all.into_iter().max()),
        }
    }

    /// Whether it is the log of a roll-up, or part of it. A roll-up that ends before a log begins, or begins when that
    /// has ended, is the only source for its time.
    fn is_in(&self, rolled: &Manifest) -> bool {
        let is_its =
            |stored: &StoredStream| self.stream.cluster == stored.cluster && self.stream.instance == stored.instance;
        let is_later = self.first.zip(rolled.last).is_some_and(|(first, last)| first > last);
        let is_earlier = self.last.zip(rolled.first).is_some_and(|(last, first)| last < first);
        rolled.streams.iter().any(is_its) && !is_later && !is_earlier
    }
}

fn add_one(found: &mut Discovery, source: &Source, rolled: Rolled, logs: &[Logged]) {
    let last = rolled.manifest.last;
    let (first, tile) = (rolled.manifest.first, rolled.manifest.tile_seconds * SECOND);
    let its: Vec<&Logged> = logs.iter().filter(|own| own.is_in(&rolled.manifest)).collect();
    if !its.is_empty() {
        let begins = its.iter().filter_map(|own| own.first).min();
        if let Some((from, to)) = first.zip(begins).filter(|(from, to)| from + tile < *to) {
            let (from, to) = (time::format(from), time::format(to));
            let what = format!("is not read from {from} to {to}, since the log is there, which begins then");
            let hint = "name the roll-up without the log for that time";
            found.errors.push(SourceError::Stored(Problem::unanswered(what).hint(hint).at(shown(&rolled.folder))));
        }
        return;
    }
    found.bundle = found.bundle.take().or(rolled.manifest.bundle);
    found.rolled_to = found.rolled_to.max(last);
    found.rolled_from = found.rolled_from.into_iter().chain(first).min();
    let mut streams = rolled.manifest.streams;
    if streams.is_empty() {
        // Others need not say whose it is.
        streams.push(StoredStream::default());
    }
    let rolled = Some(rolled.manifest.tile_seconds * SECOND);
    for stored in streams {
        let is_its = |own: &&mut LogStream| {
            own.is_rolled() && (&own.stream.cluster, &own.stream.instance) == (&stored.cluster, &stored.instance)
        };
        if let Some(own) = found.streams.iter_mut().find(is_its) {
            own.files.extend(source.again());
            own.rolled = own.rolled.max(rolled);
            continue;
        }
        let (id, files) = (found.streams.len() as u32, source.again().into_iter().collect());
        let stream = Stream { id, cluster: stored.cluster, instance: stored.instance };
        found.streams.push(LogStream { stream, files, kept: KeptDays::default(), has_copies: false, rolled });
    }
}

/// Opens the roll-up whose manifest this file is; says what is wrong with it.
pub fn open(manifest: &Path) -> Result<Rolled, Problem> {
    let here = |problem: Problem| problem.at(shown(manifest));
    let text = std::fs::read_to_string(manifest).map_err(|error| here(error.into()))?;
    let not = |error: serde_json::Error| here(Problem::malformed(format!("is not a manifest: {error}")));
    let read: Manifest = serde_json::from_str(&text).map_err(not)?;
    if read.schema != SCHEMA {
        let what = format!("has schema {:?}, and this plimsoll reads {SCHEMA}", read.schema);
        return Err(here(Problem::new(ProblemKind::Version, what).hint("use the plimsoll that wrote it")));
    }
    if !TILES.contains(&read.tile_seconds) {
        let what = format!("tile_seconds is {}", read.tile_seconds);
        return Err(here(Problem::malformed(what).hint("it must be 10, 60, 600 or 3600")));
    }
    Ok(Rolled { folder: manifest.parent().unwrap_or(Path::new("")).to_owned(), manifest: read })
}

impl Rolled {
    /// The name of its folder.
    pub fn name(&self) -> Option<String> {
        self.folder.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// Names of the roll-ups beside it that it replaces and that are still there.
    pub fn left(&self) -> impl Iterator<Item = String> {
        let is_there = |name: &&String| self.folder.with_file_name(name).is_dir();
        self.manifest.replaces.iter().filter(is_there).cloned()
    }

    /// The longest tiles no longer than this (seconds) that it has tables in beside its own, if those are shorter.
    pub fn copy(&self, tile: i64) -> Option<i64> {
        self.manifest.coarse.keys().rev().copied().find(|own| *own <= tile && *own > self.manifest.tile_seconds)
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        let of = |path: PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
        let copies = self.manifest.coarse.values().flat_map(BTreeMap::values).map(|table| table.bytes).sum::<u64>();
        TABLES.iter().chain([&SEAMS]).map(|table| of(self.folder.join(table.file(None)))).sum::<u64>()
            + of(self.folder.join(MANIFEST))
            + copies
    }

    /// Whether its files are those that the manifest reports: all of them, with their checksums.
    pub fn verify(&self) -> Result<(), Problem> {
        let own = TABLES.iter().chain([&SEAMS]).map(|spec| (spec.file(None), self.manifest.tables.get(spec.name)));
        let coarse = self.manifest.coarse.iter().flat_map(|(tile, tables)| {
            let of = |name: &String| TABLES.iter().find(|spec| spec.name == name);
            tables.iter().filter_map(move |(name, table)| Some((of(name)?.file(Some(*tile)), Some(table))))
        });
        for (file, known) in own.chain(coarse).filter(|(_, known)| known.is_some()) {
            let path = self.folder.join(file);
            check(known, &path).map_err(|problem| problem.at(shown(&path)))?;
        }
        Ok(())
    }

    /// Hands the rows of these tables to `take`; it need not have seams.
    pub fn read(&self, tables: &[&'static TableSpec], take: &mut Take<'_>) -> Result<(), Problem> {
        tables.iter().try_for_each(|spec| self.read_table(&Reading::all(spec), take))
    }

    /// Whether it can be joined to what comes before it and behind it.
    pub fn has_seams(&self) -> bool {
        self.manifest.tables.contains_key(SEAMS.name)
    }

    /// Whether it has a table; those of an older plimsoll lack some.
    pub fn has(&self, table: &TableSpec) -> bool {
        let is_without = self.manifest.without.iter().any(|name| name == table.name);
        !LATER.contains(&table.name) || !is_without && self.folder.join(table.file(None)).is_file()
    }

    /// Hands the rows of a table to `take`, but for groups of rows of which none is wanted; it need not have seams.
    pub fn read_table(&self, Reading { spec, copy, within }: &Reading, take: &mut Take<'_>) -> Result<(), Problem> {
        if spec.name == SEAMS.name && !self.has_seams() {
            return Ok(());
        }
        let path = self.folder.join(spec.file(*copy));
        let tables = copy.map_or(Some(&self.manifest.tables), |tile| self.manifest.coarse.get(&tile));
        let known = tables.and_then(|tables| tables.get(spec.name));
        let here = |problem: Problem| problem.at(shown(&path));
        check(known, &path).map_err(here)?;
        let groups = guarded(|| {
            let mut reader = ParquetReader::new(File::open(&path)?);
            let meta = Arc::clone(reader.get_metadata()?);
            Ok((meta.row_groups.iter().map(|group| group.num_rows()).collect::<Vec<usize>>(), meta))
        });
        let (groups, meta) = groups.map_err(here)?;
        let ranges = known.map_or(&[][..], |known| &known.groups);
        let ranges = if ranges.len() == groups.len() { ranges } else { &[] };
        let mut from = 0;
        for (place, rows) in groups.into_iter().enumerate() {
            if ranges.get(place).is_some_and(|(_, first, last)| last < within.start() || first > within.end()) {
                from += rows;
                continue;
            }
            let frame = guarded(|| {
                let file = File::open(&path)?;
                let names = spec.columns.iter().map(|name| (*name).to_owned()).collect();
                let mut reader = ParquetReader::new(file).with_columns(Some(names)).with_slice(Some((from, rows)));
                reader.set_metadata(Arc::clone(&meta));
                reader.finish().map_err(Problem::from)
            });
            let frame = frame.map_err(here)?;
            from += rows;
            with_rows(spec, &frame, |rows| take(spec, rows)).map_err(here)?;
        }
        Ok(())
    }
}

/// Whether a file is the one that the manifest reports.
fn check(known: Option<&StoredTable>, path: &Path) -> Result<(), Problem> {
    let file = File::open(path).map_err(|error| Problem::from(error).hint("a roll-up has a file for each table"))?;
    let Some(known) = known.filter(|known| !known.crc32c.is_empty()) else { return Ok(()) };
    let (_, sum) = checksum(file)?;
    match format!("{sum:08x}") == known.crc32c {
        true => Ok(()),
        false => {
            Err(Problem::damaged("has changed since it was written").hint("make the roll-up again, or copy it again"))
        }
    }
}

/// Bytes and CRC32C of what a reader gives.
pub fn checksum(mut from: impl Read) -> io::Result<(u64, u32)> {
    let (mut bytes, mut sum, mut block) = (0, 0, vec![0; 1 << 20]);
    loop {
        let count = from.read(&mut block)?;
        if count == 0 {
            return Ok((bytes, sum));
        }
        bytes += count as u64;
        sum = crc32c::crc32c_append(sum, &block[..count]);
    }
}

/// Shows the rows of a frame.
fn with_rows(
    spec: &TableSpec,
    frame: &DataFrame,
    take: impl FnOnce(&Rows<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    enum ColumnData {
        Number(Vec<i64>),
        Text(StringChunked),
        Truth(Vec<bool>),
    }
    let held = |name: &str| -> Result<ColumnData, Problem> {
        let bad = |error: polars::prelude::PolarsError| Problem::from(error).at(format!("column {name}"));
        let column: &Column = frame.column(name).map_err(bad)?;
        Ok(match kind(name) {
            Kind::Number => {
                let numbers = column.cast(&DataType::Int64).map_err(bad)?;
                let numbers = numbers.i64().map_err(bad)?;
                ColumnData::Number(match numbers.cont_slice() {
                    Ok(all) => all.to_vec(),
                    Err(_) => numbers.iter().map(Option::unwrap_or_default).collect(),
                })
            }
            Kind::Truth if *column.dtype() == DataType::Boolean => {
                ColumnData::Truth(column.bool().map_err(bad)?.iter().map(|value| value == Some(true)).collect())
            }
            Kind::Truth | Kind::Text => {
                ColumnData::Text(column.cast(&DataType::String).map_err(bad)?.str().map_err(bad)?.clone())
            }
        })
    };
    let mut held: Vec<ColumnData> = spec.columns.iter().map(|name| held(name)).collect::<Result<_, _>>()?;
    fn cells(held: &mut ColumnData) -> Cells<'_> {
        match held {
            ColumnData::Number(all) => Cells::Number(std::mem::take(all)),
            ColumnData::Text(all) => Cells::Text(all.iter().map(Option::unwrap_or_default).collect()),
            ColumnData::Truth(all) => Cells::Text(all.iter().map(|is| if *is { "true" } else { "false" }).collect()),
        }
    }
    take(&Rows { count: frame.height(), columns: held.iter_mut().map(cells).collect() })
}

/// The names of roll-ups whose place others have taken.
pub fn replaced<'p>(parts: impl Iterator<Item = &'p Rolled>) -> BTreeSet<String> {
    parts.flat_map(|part| &part.manifest.replaces).cloned().collect()
}

/// Whether a folder is called so.
pub fn is_one_of(folder: &Path, names: &BTreeSet<String>) -> bool {
    folder.file_name().is_some_and(|name| names.contains(name.to_string_lossy().as_ref()))
}
