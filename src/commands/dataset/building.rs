//! A dataset that is added to: what logs have gained, and what was added in all.

use crate::actions::dataset::{DatasetPart, DatasetWriter, ReadyBatch, Written};
use crate::analysis::dataset::RowReader;
use crate::cli::{Context, Error};
use crate::inputs::rollup;
use crate::inputs::selection::Selection;
use crate::model::dataset::DatasetLog;
use crate::model::event::Timed;
use crate::model::input::{Coverage, InputReport};
use crate::model::time::{Micros, Span, together};
use crate::sources::audit::pass::Worker;
use crate::sources::audit::strip::kept;
use crate::sources::found::LogStream;
use crate::sources::open::Source;
use crate::sources::packing::Packing;
use crate::sources::piece::{End, Piece, identity, piece};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Of a table of captures: how many were added, with how many rows, and how many it had already.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CapturedRows {
    pub(super) captures: u64,
    pub(super) rows: u64,
    pub(super) known: u64,
}

/// A worker that makes rows.
struct Rows<'l> {
    reader: RowReader,
    log: &'l str,
}

impl Worker for Rows<'_> {
    type Batch = ReadyBatch;
    fn event(&mut self, event: Timed<'_, '_>) {
        self.reader.event(&event, self.log);
    }
    fn flush(&mut self) -> ReadyBatch {
        ReadyBatch::new(self.reader.flush())
    }
}

/// What a run added.
#[derive(Debug, Default)]
pub(super) struct Added {
    pub(super) written: Written,
    pub(super) events: u64,
    pub(super) logs: u64,
    /// Logs of which there was nothing new.
    pub(super) known: u64,
    pub(super) inputs: Vec<InputReport>,
    pub(super) span: Option<Span>,
    /// By table of captures.
    pub(super) captured: BTreeMap<&'static str, CapturedRows>,
}

pub(super) fn failed(place: &dyn Display, error: &io::Error) -> Error {
    Error::Input(format!("{place}: {error}"))
}

/// What is read and added at once: file by file, but files that may hold copies of each other's events together.
pub(super) fn units(stream: LogStream) -> Vec<LogStream> {
    if stream.has_copies {
        return vec![stream];
    }
    let LogStream { stream: name, files, kept, has_copies, rolled } = stream;
    let of_one = |file| LogStream { stream: name.clone(), files: vec![file], kept: kept.clone(), has_copies, rolled };
    files.into_iter().map(of_one).collect()
}

/// A log that has something new.
struct Gained {
    /// Its name in the dataset.
    log: String,
    /// What the dataset has of it.
    before: DatasetLog,
    path: String,
    /// Its bytes on disk if it is packed.
    packed: Option<u64>,
    end: End,
}

/// What blocks of logs come to.
struct Taken {
    part: DatasetPart,
    /// Events of the first log, those of earlier runs included, and the latest `at` so far.
    events: u64,
    latest: Micros,
    /// What went wrong with writing.
    result: io::Result<()>,
}

impl Taken {
    fn take(&mut self, mut batch: ReadyBatch) {
        batch.batch.settle(&mut self.events, &mut self.latest);
        if self.result.is_ok() {
            self.result = self.part.take(batch);
        }
    }
}

/// A dataset that is added to.
pub(super) struct Building<'a> {
    pub(super) to: &'a Path,
    pub(super) writer: DatasetWriter,
    pub(super) added: Added,
}

impl Building<'_> {
    pub(super) fn unwritten(&self, error: &io::Error) -> Error {
        failed(&self.to.display(), error)
    }

    /// Adds what logs have that the dataset has not.
    pub(super) fn add(&mut self, unit: LogStream, latest: &mut Micros, context: &mut Context<'_>) -> Result<(), Error> {
        let (gained, sources) = self.gained(&unit.files, latest, context)?;
        let Some(Gained { log, before, .. }) = gained.first() else { return Ok(()) };
        let (cluster, instance) = (unit.stream.cluster.clone(), unit.stream.instance.clone());
        let (writer, latest_before) = (&self.writer, *latest);
        let begin = || Taken {
            part: writer.part(log, before.to),
            events: before.events,
            latest: latest_before,
            result: Ok(()),
        };
        let make = || Rows { reader: RowReader::new(kept), log };
        let stream = LogStream { files: sources, ..unit };
        let (taken, outcome) = rollup::pass(vec![stream], &Selection::default(), make, begin, Taken::take, context)?;
        let new = taken.events - before.events;
        *latest = taken.latest;
        let written = taken.result.and_then(|()| taken.part.finish()).map_err(|error| self.unwritten(&error))?;
        let coverage: Coverage = outcome.total();
        let added = &mut self.added;
        added.wrote(written.files, written.bytes);
        added.events += new;
        added.logs += gained.len() as u64;
        added.span = together(added.span, coverage.first.zip(coverage.last));
        let mut read = Vec::new();
        // All events of files that were read together count for the first.
        for (place, (own, input)) in gained.into_iter().zip(outcome.inputs).enumerate() {
            let Gained { log, before, path, packed, end } = own;
            let (to, packed) = (end.at().max(before.to), packed.filter(|_| !end.is_damaged()));
            let log_after = DatasetLog {
                path: path.clone(),
                cluster: cluster.clone(),
                instance: instance.clone(),
                to,
                packed,
                events: before.events + if place == 0 { new } else { 0 },
                // What could not be unpacked yet is read when it can be.
                skipped: before.skipped + input.skipped.saturating_sub(u64::from(end.is_damaged())),
                latest: *latest,
            };
            // What was read of it, unpacked.
            added.inputs.push(InputReport { path, bytes: to.saturating_sub(before.to), ..input });
            read.push((log, log_after));
        }
        self.writer.commit(read).map_err(|error| self.unwritten(&error))
    }

    /// The logs among these files that have something new, and what that is; `latest` becomes what the dataset knows of
    /// them.
    fn gained(
        &mut self,
        files: &[Source],
        latest: &mut Micros,
        context: &mut Context<'_>,
    ) -> Result<(Vec<Gained>, Vec<Source>), Error> {
        let (mut gained, mut sources): (Vec<Gained>, Vec<Source>) = (Vec::new(), Vec::new());
        for file in files {
            let named = identity(file).map_err(|error| Error::Input(error.to_string()))?;
            let Some(log) = named else { continue };
            // Of copies of one log that lie side by side, packed and not, the first is read.
            if let Some(same) = gained.iter().find(|own| own.log == log) {
                let is_packed_copy = same.packed.is_some() != (file.packing != Packing::None);
                if !is_packed_copy {
                    context.notice(format!(
                        "{}: begins as {} does, and is taken for the same log",
                        file.path, same.path
                    ))?;
                }
                continue;
            }
            let before = self.writer.log(&log).cloned().unwrap_or_default();
            *latest = before.latest.max(*latest);
            let packed = (file.packing != Packing::None).then_some(file.size);
            let is_known = packed.is_some() && before.packed == packed;
            let new = if is_known { Ok(None) } else { piece(file, before.to) };
            match new.map_err(|error| failed(&file.path, &error))? {
                Some(Piece { source, end }) => {
                    sources.push(source);
                    gained.push(Gained { log, before, path: file.path.clone(), packed, end });
                }
                None => {
                    self.added.known += 1;
                    if packed.is_some() && !is_known {
                        let whole = [(log, DatasetLog { packed, ..before })];
                        self.writer.commit(whole).map_err(|error| self.unwritten(&error))?;
                    }
                }
            }
        }
        Ok((gained, sources))
    }
}

impl Added {
    /// Counts files that were written.
    pub(super) fn wrote(&mut self, files: u64, bytes: u64) {
        (self.written.files, self.written.bytes) = (self.written.files + files, self.written.bytes + bytes);
    }
}
