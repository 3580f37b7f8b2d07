//! Answers from stored roll-ups, in place of the logs that they were made of.

use super::log_question::{self, Answered, LogQuestion};
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::{Loader, Tables, Wanted};
use crate::analysis::rollup::tile_for;
use crate::cli::{Context, Error};
use crate::inputs::selection::Selection;
use crate::model::input::{Coverage, InputReport};
use crate::model::problem::Problem;
use crate::model::rollup::{
    Cells, Field, Kind, Manifest, Rows, SEAMS, StoredFile, StoredSource, TILES, TableSpec, coarse_tables, kind,
};
use crate::model::time::{self, Bounds, DAY, Micros, SECOND};
use crate::sources::archive_names::shown;
use crate::sources::audit::pass::Outcome;
use crate::sources::found::LogStream;
use crate::sources::open::{Place, Source};
use crate::sources::rolled::{Reading, Rolled, open};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Rows of a log's own roll-up that are taken in at once.
const BATCH: usize = 4_096;

/// Answers a question from the roll-ups among these logs; logs that are there themselves are rolled up for it.
pub(crate) fn answer<Q: LogQuestion>(
    streams: Vec<LogStream>,
    question: &Q,
    context: &mut Context<'_>,
) -> Result<Answered<Q::Answer>, Error> {
    let wanted = question.stored().map_err(Error::usage)?;
    let (rollup, outcome) = load(streams, wanted, context)?;
    Ok((Arc::new(question.of_rollup(rollup).map_err(Error::usage)?), outcome))
}

/// What is wanted of roll-ups, as one; of the time in whole tiles, and it is said where that is more than was asked
/// for.
fn load(streams: Vec<LogStream>, wanted: Wanted, context: &mut Context<'_>) -> Result<(Rollup, Outcome), Error> {
    let Wanted { since, until, with_seams, tables, .. } = wanted;
    let is_of_some = !wanted.filters.is_empty();
    let asked = (since, until);
    let read_from = since.map(|since| if tables.look_back() { since - LOOK_BACK } else { since });
    let mut loader = Loader::new(wanted);
    let mut outcome = Outcome::default();
    let order: Vec<(String, String, bool)> =
        streams.iter().map(|own| (own.stream.cluster.clone(), own.stream.instance.clone(), own.is_rolled())).collect();
    let mut coverage = Coverages::new();
    let mut of_raw = Vec::new();
    let (stored, raw): (Vec<LogStream>, Vec<LogStream>) = streams.into_iter().partition(LogStream::is_rolled);
    let files = stored.iter().flat_map(|own| &own.files);
    let manifest = |file: &Source| if let Place::File(path) = &file.place { Some(path.clone()) } else { None };
    let names: BTreeSet<PathBuf> = files.filter_map(manifest).collect();
    let mut widened: Option<(Micros, Micros)> = None;
    let is_one = names.len() + raw.len() <= 1;
    let mut parts = Vec::new();
    for name in names {
        let rolled = open(&name).map_err(Error::input)?;
        if !is_outside(&rolled.manifest, (read_from, until)) {
            parts.push(rolled);
        }
    }
    let tile = if with_seams || is_of_some { None } else { whole_tile(&parts, (read_from, until)) };
    let with_seams = tables.has_seams() && (with_seams || !is_one);
    for rolled in parts {
        let specs = present(&rolled, tables, &mut loader)?;
        loader.begin(&rolled.manifest, rolled.has_seams());
        let (from, to) = loader.bounds();
        let span = (rolled.manifest.first.unwrap_or(Micros::MAX), rolled.manifest.last.unwrap_or(Micros::MIN));
        let is_before = asked.0.is_some_and(|since| from < since && span.0 < since && span.1 >= from);
        let is_behind = asked.1.is_some_and(|until| to > until && span.1 >= until && span.0 < to);
        if is_before || is_behind {
            let now = (from.max(span.0), to.min(span.1));
            widened = Some(widened.map_or(now, |before| (before.0.min(now.0), before.1.max(now.1))));
        }
        let specs: Vec<_> = specs.into_iter().chain(with_seams.then_some(&SEAMS)).collect();
        read(&rolled, &specs, tile.and_then(|tile| rolled.copy(tile)), &mut loader).map_err(Error::input)?;
        report_losses(&rolled, &mut outcome);
        add_coverage(&mut coverage, &rolled.manifest);
    }
    if !raw.is_empty() {
        // Of a window what came before it matters to some.
        let since = if tables.look_back() { None } else { since };
        let selection = Selection { since, until, with_seams: true, ..Selection::default() };
        let (rollup, of_logs) = log_question::answer(raw, &selection, context.settings.reading(), &());
        take_in(&mut loader, tables, &rollup, &of_logs).map_err(Error::input)?;
        outcome.inputs.extend(of_logs.inputs);
        outcome.losses.extend(of_logs.losses);
        of_raw = of_logs.coverage;
    }
    // In the order of the logs.
    let mut of_raw = of_raw.into_iter();
    for (cluster, instance, is_rolled) in order {
        let own = if is_rolled { coverage.remove(&(cluster, instance)) } else { of_raw.next() };
        outcome.coverage.push(own.unwrap_or_default());
    }
    outcome.widened = widened;
    if let Some((from, to)) = widened {
        let message = format!(
            "roll-ups are cut at whole tiles: using {} to {} instead of the requested window",
            time::format(from),
            time::format(to)
        );
        context.notice_once(message)?;
    }
    Ok((loader.finish(), outcome))
}

/// Reads tables of a roll-up, those with most rows in longer tiles where it has `copy`.
fn read(rolled: &Rolled, specs: &[&'static TableSpec], copy: Option<i64>, loader: &mut Loader) -> Result<(), Problem> {
    let own = rolled.manifest.tile_seconds;
    for spec in specs {
        let copy = copy.filter(|_| spec.has_copies());
        loader.in_tiles(copy.unwrap_or(own));
        let reading = Reading { spec, copy, within: loader.wants(spec) };
        rolled.read_table(&reading, &mut |spec, rows| loader.take(spec, rows))?;
    }
    loader.in_tiles(own);
    Ok(())
}

/// The length of a tile of all that roll-ups have of a window, in seconds; `None` where the window's ends are not those
/// of such tiles.
fn whole_tile(parts: &[Rolled], (since, until): Bounds) -> Option<i64> {
    let first = parts.iter().filter_map(|part| part.manifest.first).min()?;
    let last = parts.iter().filter_map(|part| part.manifest.last).max()?;
    let (from, to) = (since.map_or(first, |since| since.max(first)), until.map_or(last, |until| until.min(last)));
    let tile = tile_for(to - from);
    let is_edge =
        |at: Option<Micros>, is_within: bool| at.is_none_or(|at| !is_within || at.rem_euclid(tile * SECOND) == 0);
    (is_edge(since, since > Some(first)) && is_edge(until, until <= Some(last))).then_some(tile)
}

/// What the logs showed, by cluster and apiserver.
type Coverages = BTreeMap<(String, String), Coverage>;

/// Adds what a roll-up's logs showed.
fn add_coverage(all: &mut Coverages, manifest: &Manifest) {
    for stream in &manifest.streams {
        let key = (stream.cluster.clone(), stream.instance.clone());
        all.entry(key).or_default().merge(&stream.coverage());
    }
}

/// How long before a window roll-ups are read where what came before shows what happens in it.
const LOOK_BACK: Micros = DAY;

/// The tables that are read of a roll-up. One that it lacks is missing of the whole as well, where the answer can do
/// without; else the roll-up is refused.
fn present(rolled: &Rolled, tables: Tables, loader: &mut Loader) -> Result<Vec<&'static TableSpec>, Error> {
    let (has, lacks): (Vec<&'static TableSpec>, Vec<&'static TableSpec>) =
        tables.specs().partition(|spec| rolled.has(spec));
    let (optional, needed): (Vec<&TableSpec>, Vec<&TableSpec>) =
        lacks.into_iter().partition(|spec| tables.can_lack(spec));
    optional.iter().for_each(|spec| loader.lacks(spec.name));
    if !needed.is_empty() {
        let names: Vec<&str> = needed.iter().map(|spec| spec.name).collect();
        return Err(Error::Usage(format!(
            "{}: made by an older plimsoll, without the tables {}: create the roll-up again, or give the audit log \
             instead (docs/rollup.md, section 6)",
            shown(&rolled.folder),
            names.join(", ")
        )));
    }
    Ok(has)
}

/// Whether nothing of a roll-up is in a window.
fn is_outside(manifest: &Manifest, (since, until): Bounds) -> bool {
    let tile = manifest.tile_seconds * SECOND;
    let is_before = since.zip(manifest.last).is_some_and(|(since, last)| last + tile < since);
    is_before || until.zip(manifest.first).is_some_and(|(until, first)| first - tile >= until)
}

/// One roll-up of several, in tiles that are at least so many seconds long.
pub(crate) fn join(parts: &[&Rolled], tile: i64) -> Result<(Rollup, Manifest), Error> {
    let mut loader = Loader::new(Wanted { with_seams: true, tables: Tables::All, ..Wanted::default() });
    loader.at_least(tile);
    let mut streams = Coverages::new();
    let mut sources: BTreeMap<String, StoredSource> = BTreeMap::new();
    let mut files: BTreeMap<String, StoredFile> = BTreeMap::new();
    let (mut lost, mut bundle) = (Vec::new(), None);
    for part in parts {
        let manifest = &part.manifest;
        loader.begin(manifest, part.has_seams());
        let specs: Vec<_> = present(part, Tables::All, &mut loader)?.into_iter().chain([&SEAMS]).collect();
        part.read(&specs, &mut |spec, rows| loader.take(spec, rows)).map_err(Error::input)?;
        add_coverage(&mut streams, manifest);
        for source in &manifest.sources {
            let own = sources.entry(source.path.clone()).or_default();
            own.path.clone_from(&source.path);
            own.bytes += source.bytes;
            own.records += source.records;
            own.skipped += source.skipped;
        }
        for file in &manifest.files {
            let own = files.entry(file.log.clone()).or_insert_with(|| file.clone());
            (own.from, own.to) = (own.from.min(file.from), own.to.max(file.to));
        }
        lost.extend(manifest.lost.iter().cloned());
        bundle = bundle.or_else(|| manifest.bundle.clone());
    }
    let rollup = loader.finish();
    let names: Vec<(String, String)> = streams.keys().cloned().collect();
    let outcome = Outcome { coverage: streams.into_values().collect(), losses: lost, ..Outcome::default() };
    // What a part replaced and is still there is replaced by the whole as well: it must not count again when the part
    // is removed before it.
    let replaces = parts.iter().flat_map(|part| part.name().into_iter().chain(part.left()));
    let manifest = Manifest {
        sources: sources.into_values().collect(),
        files: files.into_values().collect(),
        recorded: parts.iter().filter_map(|part| part.manifest.recorded).max(),
        replaces: replaces.collect(),
        bundle,
        ..super::manifest::manifest(&rollup, &names, &outcome)
    };
    Ok((rollup, manifest))
}

/// The same roll-up in all longer tiles, where it is so long that they are worth it: what a store's parts hold for
/// questions about days and weeks.
pub(crate) fn coarser(rollup: &Rollup) -> Result<Vec<(i64, Rollup)>, Error> {
    let mut all: Vec<(i64, Rollup)> = Vec::new();
    let is_long = rollup.span.is_some_and(|(first, last)| last - first >= LONG);
    for tile in TILES.into_iter().filter(|tile| is_long && *tile > rollup.tile_seconds()) {
        let from = all.last().map_or(rollup, |(_, finer)| finer);
        let mut loader = Loader::new(Wanted::default());
        loader.at_least(tile);
        loader.begin(&super::manifest::manifest(from, &[], &Outcome::default()), false);
        for spec in coarse_tables() {
            take_table(&mut loader, spec, from).map_err(Error::input)?;
        }
        all.push((tile, loader.finish()));
    }
    Ok(all)
}

/// A part that is shorter is read as it is.
const LONG: Micros = 1_800 * SECOND;

/// Reports what a stored roll-up was made of, and what was lost then.
fn report_losses(rolled: &Rolled, outcome: &mut Outcome) {
    let manifest = &rolled.manifest;
    outcome.inputs.push(InputReport {
        path: shown(&rolled.folder),
        kind: "rollup",
        bytes: rolled.bytes(),
        records: manifest.sources.iter().map(|source| source.records).sum(),
        skipped: manifest.sources.iter().map(|source| source.skipped).sum(),
        first_error: None,
    });
    outcome.losses.extend(manifest.lost.iter().cloned());
}

/// Takes in the roll-up of logs that are there themselves.
pub(crate) fn take_in(loader: &mut Loader, tables: Tables, rollup: &Rollup, outcome: &Outcome) -> Result<(), Problem> {
    take_part(loader, tables, rollup, &super::manifest::manifest(rollup, &[], outcome))
}

/// Takes in a roll-up with its seams, of which the manifest is known.
pub(crate) fn take_part(
    loader: &mut Loader,
    tables: Tables,
    rollup: &Rollup,
    manifest: &Manifest,
) -> Result<(), Problem> {
    loader.begin(manifest, true);
    tables.specs().chain([&SEAMS]).try_for_each(|spec| take_table(loader, spec, rollup))
}

/// The text of a column of texts.
fn plain_text<'f>(field: &'f Field<'static>) -> &'f str {
    if let Field::Text(text) = field { text } else { "" }
}

/// Takes in one of its tables.
pub(crate) fn take_table(loader: &mut Loader, spec: &'static TableSpec, rollup: &Rollup) -> Result<(), Problem> {
    let mut batch: Vec<Vec<Field<'static>>> = Vec::with_capacity(BATCH);
    let mut result = Ok(());
    let flush = |batch: &mut Vec<Vec<Field<'static>>>, loader: &mut Loader| {
        let column = |at: usize| match kind(spec.columns[at]) {
            Kind::Number => Cells::Number(batch.iter().map(|row| row[at].number()).collect()),
            Kind::Truth | Kind::Text => Cells::Text(batch.iter().map(|row| plain_text(&row[at])).collect()),
        };
        let rows = Rows { count: batch.len(), columns: (0..spec.columns.len()).map(column).collect() };
        let taken = loader.take(spec, &rows);
        batch.clear();
        taken
    };
    rollup.fields(spec.name, &mut |row| {
        batch.push(row.into_iter().map(Field::owned).collect());
        if batch.len() == BATCH && result.is_ok() {
            result = flush(&mut batch, loader);
        }
    });
    result.and_then(|()| flush(&mut batch, loader))
}
