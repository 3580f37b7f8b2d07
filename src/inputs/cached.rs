//! Roll-ups that are kept across runs: looked for before logs are read, extended by what these gained, and kept when
//! one was made. An answer from the cache is the same as that of the logs; where it might not be, they are read.

use super::log_question::{self, Answered, CacheUse, LogQuestion};
use super::manifest::{giving, manifest};
use super::rolled::take_in;
use crate::actions::cache as writing;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::folds::Folds;
use crate::analysis::rollup::stored::{Loader, Tables, Wanted};
use crate::cli::{Context, Error};
use crate::inputs::selection::Selection;
use crate::model::cached::{Entry, EntryStream, FORM};
use crate::model::event::Stage;
use crate::model::input::{Coverage, InputReport, Loss, LossKind};
use crate::model::problem::Problem;
use crate::model::rollup::{Manifest, SEAMS, TABLES};
use crate::model::stray::MAX_DURATION;
use crate::model::time::{Bounds, Micros};
use crate::model::units::{bytes, duration};
use crate::sources::audit::pass::Outcome;
use crate::sources::cache::{self as reading, CachedRollup, Rest};
use crate::sources::clock;
use crate::sources::found::LogStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log is so many times larger than the tables that answer a question which reading it answers quickly.
const WORTH: u64 = 16;

/// What a log gained is added to its entry when it is more than one part of so many.
const GAINED: u64 = 64;

/// Rows of tables that are bounded as a whole, less than which nothing of them was left out.
const BOUNDED: [(&str, u64); 3] = [("objects", 50_000), ("notable", 50_000), ("deprecated", 10_000)];

/// Logs whose roll-up can be kept.
pub(crate) struct Cacheable {
    cache: PathBuf,
    streams: Vec<LogStream>,
    /// As they were when they were found, their prints included.
    described: Vec<EntryStream>,
}

/// What an entry comes to with what the logs gained.
struct Loaded {
    rollup: Rollup,
    outcome: Outcome,
    /// Bytes that were read of the logs.
    gained: u64,
}

impl Cacheable {
    /// Whether a roll-up of these logs is worth keeping, and can be.
    pub(crate) fn of(streams: &[LogStream], how: CacheUse, context: &Context<'_>) -> Option<Self> {
        let cache = context.settings.cache.folder.clone().filter(|_| how != CacheUse::Never)?;
        let size: u64 = streams.iter().flat_map(|own| &own.files).map(|file| file.size).sum();
        if size < context.settings.cache.from.max(1) || !reading::can_be_kept(streams) {
            return None;
        }
        let streams: Vec<LogStream> = streams.iter().map(LogStream::again).collect::<Option<_>>()?;
        // What can't be read now can't be read by the pass either, which says so.
        let mut described = reading::describe(&streams).ok()??;
        reading::mark(&mut described, &streams).ok()?.then_some(Self { cache, streams, described })
    }

    /// The answer of what is kept, where it is that of the logs.
    pub(crate) fn ask<Q: LogQuestion>(
        &self,
        question: &Q,
        context: &mut Context<'_>,
    ) -> Result<Option<Answered<Q::Answer>>, Error> {
        let how = question.cache_use();
        let Some(wanted) = question.stored().ok().filter(|_| how != CacheUse::Never) else { return Ok(None) };
        let Some((rollup, outcome, message)) = self.find(&wanted, how, context)? else { return Ok(None) };
        let Some(answer) = question.of_kept(rollup) else { return Ok(None) };
        if context.settings.verbose {
            context.notice_once(message)?;
        }
        Ok(Some((Arc::new(answer), outcome)))
    }

    /// The roll-up of all of these logs, where an entry stands for them and it may answer what is `wanted`.
    fn find(
        &self,
        wanted: &Wanted,
        how: CacheUse,
        context: &mut Context<'_>,
    ) -> Result<Option<(Rollup, Outcome, String)>, Error> {
        let contents = reading::contents(&self.cache);
        contents.damaged.iter().try_for_each(|folder| discard(folder, context))?;
        let mut kept = contents.kept;
        kept.sort_by_key(|kept| std::cmp::Reverse(kept.entry.covers()));
        for kept in kept {
            let Ok(Some(rest)) = reading::behind(&kept.entry, &self.described, &self.streams, context.settings.dedupe)
            else {
                continue;
            };
            match self.load(&kept, rest, wanted, how, context) {
                Ok(Some(Loaded { rollup, outcome, gained })) => {
                    writing::use_now(&kept.folder);
                    if gained * GAINED > kept.entry.covers() && how == CacheUse::Whole {
                        self.keep(&rollup, &outcome, context)?;
                    }
                    return Ok(Some((rollup, outcome, in_words(&kept, gained, context))));
                }
                Ok(None) => {}
                Err(_) => discard(&kept.folder, context)?,
            }
        }
        Ok(None)
    }

    /// `None` where the answer might not be that of the logs; an error where the entry is damaged.
    fn load(
        &self,
        kept: &CachedRollup,
        rest: Rest,
        wanted: &Wanted,
        how: CacheUse,
        context: &Context<'_>,
    ) -> Result<Option<Loaded>, Problem> {
        let before = &kept.rolled.manifest;
        let gained = rest.bytes;
        if !is_within((wanted.since, wanted.until), before) || gained > kept.entry.covers() {
            return Ok(None);
        }
        if how == CacheUse::IfCheap && (gained > 0 || !self.is_cheap(kept)) {
            return Ok(None);
        }
        let mut outcome = Outcome {
            losses: before.lost.iter().filter_map(|loss| self.lost(loss, &kept.entry)).collect(),
            coverage: before.streams.iter().map(|own| own.coverage()).collect(),
            ..Outcome::default()
        };
        if outcome.losses.len() != before.lost.len() {
            return Ok(None);
        }
        let new = if gained == 0 {
            None
        } else {
            let selection = Selection { with_seams: true, ..Selection::default() };
            let (rollup, of_new) = log_question::answer(rest.streams, &selection, context.settings.reading(), &());
            if !is_exact(before, &rollup, &of_new) || !is_within((wanted.since, wanted.until), &span_of(&rollup)) {
                return Ok(None);
            }
            Some((rollup, of_new))
        };
        let is_joined = new.as_ref().is_some_and(|(rollup, _)| rollup.span.is_some());
        let with_seams = wanted.with_seams || is_joined;
        let tables = if is_joined { Tables::All } else { wanted.tables };
        let all = Wanted { since: None, until: None, with_seams, tables, ..wanted.clone() };
        let (mut loader, mut folds) = (Loader::new(all), Folds::default());
        loader.begin(before, kept.rolled.has_seams());
        // An entry was made by this version: it has all tables.
        let specs: Vec<_> = tables.specs().chain(with_seams.then_some(&SEAMS)).collect();
        kept.rolled.read(&specs, &mut |spec, rows| {
            if is_joined {
                folds.take(spec, rows);
            }
            loader.take(spec, rows)
        })?;
        if let Some((rollup, of_new)) = &new {
            if is_joined {
                if !folds.join_exactly(&Folds::of(rollup)) {
                    return Ok(None);
                }
                take_in(&mut loader, tables, rollup, of_new)?;
            }
            outcome.coverage.iter_mut().zip(&of_new.coverage).for_each(|(all, own)| all.merge(own));
        }
        let rollup = loader.finish();
        if let Some((new, _)) = new.as_ref().filter(|_| is_joined) {
            // Where tiles became coarser, what was folded may not be what would have been of the whole.
            let lengths = [before.tile_seconds, new.tile_seconds(), rollup.tile_seconds()];
            let is_folded = || folds.any() || Folds::of(new).any() || Folds::of(&rollup).any();
            if lengths[0] != lengths[2] && is_folded() || lengths[1] != lengths[2] && is_folded() {
                return Ok(None);
            }
        }
        self.inputs(kept, new.map(|(_, of_new)| of_new.inputs), &mut outcome);
        Ok(Some(Loaded { rollup, outcome, gained }))
    }

    /// What was read, as if all of it had been.
    fn inputs(&self, kept: &CachedRollup, new: Option<Vec<InputReport>>, outcome: &mut Outcome) {
        let mut new = new.unwrap_or_default().into_iter();
        for (known, own) in kept.entry.streams.iter().zip(&self.streams) {
            let mut known = known.files.iter();
            for source in &own.files {
                let mut input = InputReport { path: source.path.clone(), kind: "audit", ..InputReport::default() };
                if source.size > 0 {
                    let before = known.next();
                    let read = if before.is_some_and(|before| before.to >= source.size) { None } else { new.next() };
                    let (records, skipped) = before.map_or((0, 0), |before| (before.records, before.skipped));
                    input.bytes = source.size;
                    input.records = records + read.as_ref().map_or(0, |read| read.records);
                    input.skipped = skipped + read.as_ref().map_or(0, |read| read.skipped);
                }
                input.first_error = outcome.losses.iter().find(|loss| loss.path == input.path).map(Loss::to_string);
                outcome.inputs.push(input);
            }
        }
    }

    /// A loss of a file, by the name that it has now.
    fn lost(&self, loss: &Loss, entry: &Entry) -> Option<Loss> {
        let place = entry.files().position(|file| file.path == loss.path)?;
        let (stream, place) =
            entry
                .streams
                .iter()
                .enumerate()
                .try_fold(place, |place, (stream, own)| {
                    if place < own.files.len() { Err((stream, place)) } else { Ok(place - own.files.len()) }
                })
                .err()?;
        let path = self.streams[stream].files.iter().filter(|file| file.size > 0).nth(place)?.path.clone();
        Some(Loss { path, ..loss.clone() })
    }

    /// Whether the tables of a breakdown are much smaller than the logs, and hold all of it.
    fn is_cheap(&self, kept: &CachedRollup) -> bool {
        let manifest = &kept.rolled.manifest;
        let tables: u64 =
            ["traffic", "pulse"].iter().filter_map(|name| manifest.tables.get(*name)).map(|table| table.bytes).sum();
        // Of a panic without a code, rows of a roll-up don't show that it is an error.
        let panics =
            manifest.streams.iter().flat_map(|own| own.events.values()).any(|of| of.contains_key(Stage::Panic.name()));
        // Peaks of ten seconds are derived from seconds.
        let is_fine = manifest.tile_seconds <= 10 && manifest.late_events == 0;
        is_fine && tables * WORTH <= kept.entry.covers() && !panics
    }

    /// Keeps the roll-up of these logs, made with seams; says so where that can't be done.
    pub(crate) fn keep(&self, rollup: &Rollup, outcome: &Outcome, context: &mut Context<'_>) -> Result<(), Error> {
        match self.write(rollup, outcome, context) {
            Ok(()) => Ok(()),
            Err(error) => context.notice_once(format!(
                "{}: a roll-up can't be kept: {error}; the log will be read again (--cache names another folder, \
                 --no-cache keeps none)",
                self.cache.display()
            )),
        }
    }

    fn write(&self, rollup: &Rollup, outcome: &Outcome, context: &Context<'_>) -> std::io::Result<()> {
        let is_told =
            |loss: &Loss| matches!(loss.kind, LossKind::Stray | LossKind::Shrunk | LossKind::Io | LossKind::Damaged);
        if outcome.losses.iter().any(is_told) || !outcome.total().days.are_one_group() {
            return Ok(());
        }
        // Whoever writes to the logs may have changed them while they were read.
        let mut described = self.described.clone();
        let was = self.described.clone();
        if !reading::mark(&mut described, &self.streams)? || described != was {
            return Ok(());
        }
        let mut outcome = outcome.clone();
        let mut is_cut = false;
        for ((own, coverage), streams) in described.iter_mut().zip(&mut outcome.coverage).zip(&self.streams) {
            if coverage.unfinished_lines == 0 {
                continue;
            }
            // The last line is being written: it is left to whoever reads on.
            let source = streams.files.iter().rfind(|file| file.size > 0);
            let (Some(file), Some(source)) = (own.files.last_mut(), source) else { return Ok(()) };
            file.to = reading::whole_lines(source, source.size)?;
            if coverage.unfinished_lines > 1 || file.is_closed || file.to == source.size {
                return Ok(());
            }
            (coverage.lines, coverage.unfinished_lines) = (coverage.lines - 1, 0);
            is_cut = true;
        }
        if is_cut && !reading::mark(&mut described, &self.streams)? {
            return Ok(());
        }
        let mut inputs = outcome.inputs.iter();
        for (own, streams) in described.iter_mut().zip(&self.streams) {
            let mut files = own.files.iter_mut();
            for source in &streams.files {
                let input = inputs.next();
                let file = if source.size > 0 { files.next() } else { None };
                if let (Some(file), Some(input)) = (file, input) {
                    (file.records, file.skipped) = (input.records, input.skipped);
                }
            }
        }
        let names: Vec<(String, String)> =
            described.iter().map(|own| (own.cluster.clone(), own.instance.clone())).collect();
        let entry = Entry {
            form: FORM.to_owned(),
            plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
            dedupe: context.settings.dedupe,
            made: clock::now(),
            streams: described,
            ..Entry::default()
        };
        let manifest = manifest(rollup, &names, &outcome);
        let before: Vec<PathBuf> = reading::contents(&self.cache)
            .kept
            .into_iter()
            .filter(|kept| takes_place_of(&entry, kept))
            .map(|kept| kept.folder)
            .collect();
        if writing::keep(&self.cache, entry, &manifest, &giving(rollup), context.settings.cache.size)?.is_some() {
            before.iter().try_for_each(|folder| writing::remove(folder))?;
            writing::bound(&self.cache, context.settings.cache.size)?;
        }
        Ok(())
    }
}

/// Whether nobody needs an entry any more when there is a new one: all of its files are in that, or were replaced.
fn takes_place_of(new: &Entry, kept: &CachedRollup) -> bool {
    let old = &kept.entry;
    let is_there = |file: &crate::model::cached::EntryFile| {
        new.files().any(|other| other.path == file.path || other.log == file.log && other.to >= file.to)
    };
    let names = |entry: &Entry| -> Vec<(String, String)> {
        entry.streams.iter().map(|own| (own.cluster.clone(), own.instance.clone())).collect()
    };
    new.dedupe == old.dedupe && names(new) == names(old) && old.files().all(is_there)
}

/// Removes an entry that is damaged.
fn discard(folder: &Path, context: &mut Context<'_>) -> Result<(), Error> {
    if context.settings.verbose {
        context.notice(format!("{}: a damaged entry of the cache was removed", folder.display()))?;
    }
    // Where it can't be removed it is passed over again.
    let _ = writing::remove(folder);
    Ok(())
}

/// What an answer was made from.
fn in_words(kept: &CachedRollup, gained: u64, context: &Context<'_>) -> String {
    let age = duration((context.io.now - kept.entry.made).max(0));
    let more = match gained {
        0 => String::new(),
        gained => format!(" and {} appended since", bytes(gained as f64)),
    };
    format!(
        "answered from a roll-up of {} of audit log, made {age} ago ({}){more}; --no-cache reads the log itself",
        bytes(kept.entry.covers() as f64),
        kept.folder.display()
    )
}

/// Whether a window has all of a roll-up in it.
fn is_within((since, until): Bounds, manifest: &Manifest) -> bool {
    since.is_none_or(|since| manifest.first.is_none_or(|first| since <= first))
        && until.is_none_or(|until| manifest.last.is_none_or(|last| until > last))
}

fn span_of(rollup: &Rollup) -> Manifest {
    let (first, last) = rollup.span.map_or((None, None), |(first, last)| (Some(first), Some(last)));
    Manifest { first, last, ..Manifest::default() }
}

/// Whether what a log gained joins to what is kept as if all had been read at once: it lies behind all of that, and
/// nothing of either was left out, lost, or set aside.
fn is_exact(before: &Manifest, new: &Rollup, of_new: &Outcome) -> bool {
    let total: Coverage = of_new.total();
    let known = |table: &str| before.tables.get(table).map_or(u64::MAX, |table| table.rows);
    let rows = |table: &str| {
        let place = TABLES.iter().position(|spec| spec.name == table);
        place.map_or(u64::MAX, |place| new.sizes()[place] as u64)
    };
    let is_whole = BOUNDED.iter().all(|(table, limit)| known(table).saturating_add(rows(table)) < *limit);
    let is_behind = |last: Micros, (first, _): (Micros, Micros)| first > last && first - last <= MAX_DURATION;
    is_whole
        && before.objects_dropped + before.notable_dropped + new.objects_dropped + new.notable_dropped == 0
        && of_new.losses.is_empty()
        && total.copies == 0
        && total.days.are_one_group()
        && before.last.zip(new.span).is_none_or(|(last, span)| is_behind(last, span))
}
