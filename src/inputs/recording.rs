//! Audit logs that are read on, round by round, into a store: what they gained since the last round becomes a roll-up,
//! and older roll-ups are put together (docs/history.md).

use super::manifest::{giving, manifest};
use super::selection::Selection;
use super::{log_question, rolled};
use crate::actions::rollup::CoarseCopy;
use crate::actions::store::{Age, KeepRollups, RollupsWriter};
use crate::analysis::rollup::Rollup;
use crate::cli::{Context, Error};
use crate::model::input::LossKind;
use crate::model::rollup::{Manifest, StoredFile};
use crate::model::series::DAY;
use crate::model::stray::KeptDays;
use crate::model::time::Micros;
use crate::sources::arguments::is_url;
use crate::sources::audit::pass::Outcome;
use crate::sources::clock;
use crate::sources::find;
use crate::sources::found::LogStream;
use crate::sources::open::Place;
use crate::sources::packing::Packing;
use crate::sources::piece::{End, Piece, identity, piece};
use crate::sources::rolled::Rolled;
use crate::sources::store::{Parts, Store, StoreError};
use crate::sources::wanted::Wanted;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So far ahead of this machine's clock an apiserver's may be; what it dates later is set aside.
const AHEAD: Micros = DAY;

/// Reads on in logs.
#[derive(Debug)]
pub(crate) struct Recording {
    /// A part is no shorter than this while logs are followed.
    shortest: Duration,
    read: Option<Instant>,
    /// What the apiserver is called whose log lies in no folder of its name.
    instance: String,
    /// Packed logs that are damaged, or still being written, with their bytes on disk then: until these change, there
    /// is no more of them, and their loss was reported.
    damaged: BTreeMap<String, u64>,
}

/// What logs gained in a round, which is in the store.
#[derive(Debug, Default)]
pub(crate) struct Gained {
    /// Its roll-up; none where there was nothing new.
    pub(crate) rollup: Option<Rollup>,
    /// What was read and lost.
    pub(crate) outcome: Outcome,
    /// Which bytes of which logs it is made of.
    pub(crate) files: Vec<StoredFile>,
}

impl Gained {
    /// Events that were read.
    pub(crate) fn events(&self) -> u64 {
        self.outcome.coverage.iter().map(crate::model::input::Coverage::total).sum()
    }
}

/// An error of the store as one of a command.
pub(crate) fn failed(error: StoreError) -> Error {
    Error::Input(crate::views::text::plain(&error.to_string()).into_owned())
}

/// A file that is read on, until it was.
struct Begun {
    path: String,
    log: String,
    from: u64,
    /// Its bytes on disk if it is packed.
    packed: Option<u64>,
    end: End,
}

impl Recording {
    /// Rounds that are at least so far apart.
    pub(crate) fn new(shortest: Duration) -> Self {
        Self { shortest, read: None, instance: String::new(), damaged: BTreeMap::new() }
    }

    /// The same, which calls an apiserver so whose log lies in no folder of its name.
    pub(crate) fn named(self, instance: &str) -> Self {
        Self { instance: instance.to_owned(), ..self }
    }

    /// Reads what the logs among `sources` gained into the store; `None` where there are none, where the last round was
    /// just now (but for `at_any_rate`), or where another process reads logs into this store.
    pub(crate) fn round(
        &mut self,
        sources: &[String],
        store: &Store,
        at_any_rate: bool,
        context: &mut Context<'_>,
    ) -> Result<Option<Gained>, Error> {
        let is_due = self.read.is_none_or(|read| read.elapsed() >= self.shortest);
        // URLs are metrics pages, which are scraped beside: no log that ends there could be read on.
        let sources: Vec<String> = sources.iter().filter(|source| !is_url(source)).cloned().collect();
        if sources.is_empty() || !(is_due || at_any_rate) {
            return Ok(None);
        }
        let found = find::find(&sources, Wanted::Logs, context.io.now);
        let mut files = found.streams.iter().flat_map(|stream| &stream.files);
        if let Some(pipe) = files.find(|file| !matches!(file.place, Place::File(_))) {
            let why = "an audit log from a pipe can't be resumed; write it to a file";
            return Err(Error::Usage(format!("{}: {why}", pipe.path)));
        }
        if found.streams.iter().all(LogStream::is_rolled) {
            return Ok(None);
        }
        self.read = Some(Instant::now());
        let Some(mut writer) = RollupsWriter::begin(store).map_err(failed)? else {
            context
                .notice("another plimsoll record or serve already reads logs into this store; this one skips them")?;
            return Ok(None);
        };
        let parts = store.rollups().map_err(failed)?;
        parts.errors.iter().try_for_each(|error| context.lost(error))?;
        let read_to = parts.read_to();
        // One event of another decade would stretch the tiles of all that is asked of the store from then on.
        let kept = KeptDays::until(context.io.now + AHEAD);
        let (mut streams, mut begun) = (Vec::new(), Vec::new());
        for mut stream in found.streams.into_iter().filter(|stream| !stream.is_rolled()) {
            if stream.stream.instance.is_empty() {
                stream.stream.instance.clone_from(&self.instance);
            }
            let mut files = Vec::new();
            for file in std::mem::take(&mut stream.files) {
                let Some(log) = identity(&file).map_err(|error| Error::Input(error.to_string()))? else { continue };
                let packed = (file.packing != Packing::None).then_some(file.size);
                if packed.is_some_and(|bytes| writer.is_whole(&log, bytes) || self.damaged.get(&log) == Some(&bytes)) {
                    continue;
                }
                // Of copies of one log that lie side by side, packed and not, the first is read.
                if begun.iter().any(|other: &Begun| other.log == log) {
                    continue;
                }
                let from = writer.read_to(&log, &read_to);
                match piece(&file, from).map_err(|error| Error::Input(format!("{}: {error}", file.path)))? {
                    Some(Piece { source, end }) => {
                        begun.push(Begun { path: source.path.clone(), log, from, packed, end });
                        files.push(source);
                    }
                    None => {
                        if let Some(bytes) = packed {
                            writer.was_whole(log, bytes).map_err(failed)?;
                        }
                    }
                }
            }
            streams.push(LogStream { files, kept: kept.clone(), ..stream });
        }
        if begun.is_empty() {
            return Ok(Some(Gained::default()));
        }
        let names: Vec<(String, String)> =
            streams.iter().map(|own| (own.stream.cluster.clone(), own.stream.instance.clone())).collect();
        let selection = Selection { with_seams: true, ..Selection::default() };
        let (rollup, mut outcome) = log_question::answer(streams, &selection, context.settings.reading(), &());
        for loss in &mut outcome.losses {
            // Where it is in the log: how many lines lie before the piece, nobody counts again.
            if let Some(own) = begun.iter().find(|own| own.path == loss.path && own.from > 0) {
                (loss.offset, loss.line) = (loss.offset + own.from, 0);
            }
            context.lost(loss)?;
        }
        // What could not be unpacked yet is read when it can be: the part that is added lacks nothing of what it is of.
        for own in begun.iter().filter(|own| own.end.is_damaged()) {
            outcome.losses.retain(|loss| loss.kind != LossKind::Damaged || loss.path != own.path);
            outcome.inputs.iter_mut().filter(|input| input.path == own.path).for_each(|input| {
                input.skipped = input.skipped.saturating_sub(1);
            });
        }
        let file = |own: &Begun| StoredFile { log: own.log.clone(), from: own.from, to: own.end.at().max(own.from) };
        let files: Vec<StoredFile> = begun.iter().map(file).collect();
        let recorded = Some(clock::now());
        let of_part = manifest(&rollup, &names, &outcome);
        let manifest = Manifest { bundle: found.bundle, recorded, files: files.clone(), ..of_part };
        add(&writer, &manifest, &rollup)?;
        for own in begun {
            match own.packed {
                Some(bytes) if own.end.is_damaged() => _ = self.damaged.insert(own.log, bytes),
                Some(bytes) => writer.was_whole(own.log, bytes).map_err(failed)?,
                None => {}
            }
        }
        Ok(Some(Gained { rollup: Some(rollup), outcome, files }))
    }
}

/// Puts roll-ups together, makes old ones coarser, and drops what is too old, or too much.
pub(crate) fn look_after(
    store: &Store,
    keep: &KeepRollups,
    most: Option<u64>,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    if !store.rollups_folder().is_dir() {
        return Ok(());
    }
    let Some(mut writer) = RollupsWriter::begin(store).map_err(failed)? else { return Ok(()) };
    // What is put together may be put together with more.
    loop {
        let parts = store.rollups().map_err(failed)?;
        parts.errors.iter().try_for_each(|error| context.lost(error))?;
        writer.clean(&parts).map_err(failed)?;
        let now = clock::now();
        let when = |part: &Rolled| {
            let first = part.manifest.first.unwrap_or(now);
            Age {
                first,
                last: part.manifest.last.unwrap_or(first),
                recorded: part.manifest.recorded.unwrap_or(Micros::MIN),
                tile: part.manifest.tile_seconds,
            }
        };
        let plan = keep.plan(&parts.parts.iter().map(when).collect::<Vec<_>>(), now);
        let old: Vec<&Rolled> = plan.drop.iter().map(|place| &parts.parts[*place]).collect();
        writer.drop_parts(&old).map_err(failed)?;
        for (tile, group) in &plan.join {
            let group: Vec<&Rolled> = group.iter().map(|place| &parts.parts[*place]).collect();
            let (rollup, manifest) = rolled::join(&group, *tile)?;
            add(&writer, &manifest, &rollup)?;
            if context.settings.verbose {
                context.notice(format!("{} roll-ups merged into one with tiles of {tile} s", group.len()))?;
            }
        }
        if plan.join.is_empty() {
            return match most {
                Some(most) => bound(&mut writer, &parts, most, context),
                None => Ok(()),
            };
        }
    }
}

/// Drops the oldest roll-ups of a store whose roll-ups are to be handed over, and not put together before.
pub(crate) fn limit(store: &Store, most: u64, context: &mut Context<'_>) -> Result<(), Error> {
    let Some(mut writer) = RollupsWriter::begin(store).map_err(failed)? else { return Ok(()) };
    let parts = store.rollups().map_err(failed)?;
    bound(&mut writer, &parts, most, context)
}

/// Adds a part to a store, with its copies in longer tiles.
fn add(writer: &RollupsWriter, manifest: &Manifest, rollup: &Rollup) -> Result<(), Error> {
    let coarser = rolled::coarser(rollup)?;
    let copies = coarser.iter().map(|(tile, rollup)| CoarseCopy { tile: *tile, give: giving(rollup) });
    let copies: Vec<CoarseCopy<'_>> = copies.collect();
    writer.add(manifest, &giving(rollup), &copies).map_err(failed)
}

/// Drops the oldest roll-ups until all of them have no more than so many bytes. The latest stays.
fn bound(writer: &mut RollupsWriter, parts: &Parts, most: u64, context: &mut Context<'_>) -> Result<(), Error> {
    let sizes: Vec<u64> = parts.parts.iter().map(Rolled::bytes).collect();
    let mut bytes: u64 = sizes.iter().sum();
    let mut gone: Vec<&Rolled> = Vec::new();
    for (part, size) in parts.parts.iter().zip(sizes).rev().skip(1).rev() {
        if bytes <= most {
            break;
        }
        bytes -= size;
        gone.push(part);
    }
    let when = |at: Option<Micros>| crate::model::time::format(at.unwrap_or_default());
    if let (Some(first), Some(last)) = (gone.first(), gone.last()) {
        let (from, to) = (when(first.manifest.first), when(last.manifest.last));
        context.notice(format!("audit roll-ups of {from} to {to} were dropped to limit the store's size"))?;
    }
    writer.drop_parts(&gone).map_err(failed)
}
