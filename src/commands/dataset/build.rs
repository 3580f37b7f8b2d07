//! `plimsoll dataset build`: from logs, pages, databases and objects to a dataset, each exactly once.

use super::captures::{self, CapturedRows};
use crate::actions::dataset::{DatasetPart, DatasetWriter, ReadyBatch, Written};
use crate::analysis::dataset::RowReader;
use crate::cli::{Context, Error, FailOn};
use crate::inputs::rollup;
use crate::inputs::selection::Selection;
use crate::model::dataset::{AUDIT, CAPTURED, DatasetLog};
use crate::model::event::Timed;
use crate::model::input::{Coverage, InputReport};
use crate::model::report::{Report, Table, Value, Window};
use crate::model::time::{Micros, Span, together};
use crate::model::units::{bytes, counted, percent};
use crate::sources::audit::pass::Worker;
use crate::sources::find;
use crate::sources::found::{Discovery, LogStream};
use crate::sources::open::{Packing, Place, Source, SourceError};
use crate::sources::piece::{End, Piece, identity, piece};
use crate::sources::wanted::Wanted;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Arguments of `plimsoll dataset build`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll dataset build /var/log/kubernetes/ --to events/
  # again, later: only what the logs have gained
  plimsoll dataset build /var/log/kubernetes/ --to events/
  duckdb -c \"select verb, count(*) from \\
    read_parquet('events/audit/**/*.parquet') group by all\"

Columns, partitions, how engines read them: docs/dataset.md.")]
pub struct Args {
    /// Audit logs, metrics pages, databases of etcd, objects with quotas: files, folders, globs, bundles.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// The folder of the dataset; it is added to.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Build only these tables: audit, metrics, keyspace, quotas (default: of all that the sources hold).
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = table)]
    tables: Vec<String>,
}

/// The tables of a dataset.
pub(super) fn tables() -> impl Iterator<Item = &'static str> {
    [AUDIT].into_iter().chain(CAPTURED.iter().map(|table| table.name))
}

fn table(name: &str) -> Result<String, String> {
    let all: Vec<&str> = tables().collect();
    all.contains(&name).then(|| name.to_owned()).ok_or_else(|| format!("the tables are {}", all.join(", ")))
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
    written: Written,
    pub(super) events: u64,
    logs: u64,
    /// Logs of which there was nothing new.
    known: u64,
    pub(super) inputs: Vec<InputReport>,
    span: Option<Span>,
    /// By table of captures.
    pub(super) captured: BTreeMap<&'static str, CapturedRows>,
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let is_wanted = |table: &str| args.tables.is_empty() || args.tables.iter().any(|own| own == table);
    let added = build(&args.sources, &args.to, &is_wanted, context)?;
    context.print(&report(added, args), FailOn::Never)
}

/// Adds to a dataset what sources hold for the tables that are wanted.
pub(super) fn build(
    sources: &[String],
    to: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
    context: &mut Context<'_>,
) -> Result<Added, Error> {
    let captures = captures::find(sources, is_wanted, context);
    let found = find::find(sources, Wanted::Both, context.io.now);
    let Discovery { streams, pages, errors, .. } = found;
    let streams = if is_wanted(AUDIT) { streams } else { Vec::new() };
    let is_other = |error: &&SourceError| !captures.explains(error);
    if streams.is_empty() && captures.is_empty() && (pages.is_empty() || !is_wanted("metrics")) {
        let errors: Vec<String> = errors.iter().filter(is_other).map(ToString::to_string).collect();
        return Err(Error::Input(match errors.is_empty() {
            true => format!("{}: nothing for a dataset found", sources.join(", ")),
            false => errors.join("\nplimsoll: "),
        }));
    }
    if let Some(file) = streams.iter().filter(|own| own.is_rolled()).flat_map(|own| &own.files).next() {
        return Err(Error::Usage(format!("{}: a roll-up holds no single events; give the log itself", file.path)));
    }
    errors.iter().filter(is_other).try_for_each(|error| context.lost(error))?;
    let is_file = |source: &&Source| matches!(source.place, Place::File(_));
    let paged = pages.iter().filter(|_| is_wanted("metrics")).flat_map(|folder| &folder.pages);
    let mut all = streams.iter().flat_map(|stream| &stream.files).chain(paged.map(|page| &page.source));
    if let Some(source) = all.find(|source| !is_file(source)) {
        let why = "a dataset is built from files, so that nothing is in it twice; write it to a file";
        return Err(Error::Usage(format!("{}: {why}", source.path)));
    }
    let writer = DatasetWriter::begin(to).map_err(|error| failed(&to.display(), &error))?;
    let mut building = Building { to, writer, added: Added::default() };
    for stream in streams {
        // Late is what lies before what the files before it had already.
        let mut latest = Micros::MIN;
        for unit in units(stream) {
            building.add(unit, &mut latest, context)?;
        }
    }
    if is_wanted("metrics") {
        building.add_pages(pages, context)?;
    }
    building.add_captures(captures, context)?;
    building.writer.fold().map_err(|error| building.unwritten(&error))?;
    Ok(building.added)
}

pub(super) fn failed(place: &dyn Display, error: &io::Error) -> Error {
    Error::Input(format!("{place}: {error}"))
}

/// What is read and added at once: file by file, but files that may hold copies of each other's events together.
fn units(stream: LogStream) -> Vec<LogStream> {
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
    to: &'a Path,
    pub(super) writer: DatasetWriter,
    pub(super) added: Added,
}

impl Building<'_> {
    pub(super) fn unwritten(&self, error: &io::Error) -> Error {
        failed(&self.to.display(), error)
    }

    /// Adds what logs have that the dataset has not.
    fn add(&mut self, unit: LogStream, latest: &mut Micros, context: &mut Context<'_>) -> Result<(), Error> {
        let (gained, sources) = self.gained(&unit.files, latest)?;
        let Some(Gained { log, before, .. }) = gained.first() else { return Ok(()) };
        let (cluster, instance) = (unit.stream.cluster.clone(), unit.stream.instance.clone());
        let (writer, latest_before) = (&self.writer, *latest);
        let begin = || Taken {
            part: writer.part(log, before.to),
            events: before.events,
            latest: latest_before,
            result: Ok(()),
        };
        let make = || Rows { reader: RowReader::default(), log };
        let stream = LogStream { files: sources, ..unit };
        let (taken, outcome) = rollup::pass(vec![stream], &Selection::default(), make, begin, Taken::take, context)?;
        let new = taken.events - before.events;
        *latest = taken.latest;
        let written = taken.result.and_then(|()| taken.part.finish()).map_err(|error| self.unwritten(&error))?;
        let coverage: Coverage = outcome.total();
        let added = &mut self.added;
        added.written.files += written.files;
        added.written.bytes += written.bytes;
        added.events += new;
        added.logs += gained.len() as u64;
        added.span = together(added.span, coverage.first.zip(coverage.last));
        let mut read = Vec::new();
        // All events of files that were read together count for the first.
        for (place, (own, input)) in gained.into_iter().zip(outcome.inputs).enumerate() {
            let Gained { log, before, path, packed, end } = own;
            let to = end.at();
            let log_after = DatasetLog {
                path: path.clone(),
                cluster: cluster.clone(),
                instance: instance.clone(),
                to,
                packed,
                events: before.events + if place == 0 { new } else { 0 },
                skipped: before.skipped + input.skipped,
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
    fn gained(&mut self, files: &[Source], latest: &mut Micros) -> Result<(Vec<Gained>, Vec<Source>), Error> {
        let (mut gained, mut sources): (Vec<Gained>, Vec<Source>) = (Vec::new(), Vec::new());
        for file in files {
            let named = identity(file).map_err(|error| Error::Input(error.to_string()))?;
            // Of copies of one log that lie side by side, packed and not, the first is read.
            let Some(log) = named.filter(|log| gained.iter().all(|own| own.log != *log)) else { continue };
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
    /// Counts what was read, and a file that was written.
    pub(super) fn read(&mut self, inputs: impl IntoIterator<Item = InputReport>) {
        self.inputs.extend(inputs);
    }

    pub(super) fn wrote(&mut self, files: u64, bytes: u64) {
        (self.written.files, self.written.bytes) = (self.written.files + files, self.written.bytes + bytes);
    }
}

fn report(added: Added, args: &Args) -> Report {
    let Added { written, events, logs, known, inputs, span, captured } = added;
    let of_logs: Vec<&InputReport> = inputs.iter().filter(|input| input.kind == "audit").collect();
    let read: u64 = inputs.iter().map(|input| input.bytes).sum();
    let captures = |of: fn(&CapturedRows) -> u64| captured.values().map(of).sum::<u64>();
    let (new, old) = (captures(|own| own.captures), captures(|own| own.known));
    let to = args.to.display();
    let mut what = Vec::new();
    if logs > 0 {
        what.push(format!("{} of {}", counted(events, "event"), counted(logs, "log")));
    }
    if new > 0 {
        what.push(format!("{} of {}", counted(captures(|own| own.rows), "row"), counted(new, "capture")));
    }
    let lead = match what.is_empty() {
        true if old == 0 => format!("Nothing new: {} in {to} already.", counted(known, "log")),
        true => format!("Nothing new: {} and {} in {to} already.", counted(known, "log"), counted(old, "capture")),
        false => {
            let mut lead = format!("{} added to {to}: {}", what.join(" and "), bytes(written.bytes as f64));
            // Of logs unpacked bytes were read; of captures, those on disk.
            if new == 0 && read > 0 {
                lead += &format!(", {} of what was read", percent(written.bytes as f64 / read as f64));
            }
            lead + "."
        }
    };
    let row = |input: &&InputReport| -> Vec<Value> {
        vec![
            input.path.as_str().into(),
            Value::Count(input.records),
            Value::Count(input.bytes),
            Value::Count(input.skipped),
        ]
    };
    let of_table = |(name, own): (&&str, &CapturedRows)| -> Vec<Value> {
        vec![(*name).into(), Value::Count(own.captures), Value::Count(own.rows), Value::Count(own.known)]
    };
    let captures = Table {
        name: "captures".to_owned(),
        columns: ["dataset_table", "captures", "captured_rows", "known_captures"].map(str::to_owned).to_vec(),
        rows: captured.iter().map(of_table).collect(),
        ..Table::default()
    };
    let table = Table {
        name: "logs".to_owned(),
        columns: ["log_path", "dataset_events", "read_bytes", "skipped_lines"].map(str::to_owned).to_vec(),
        rows: of_logs.iter().map(row).collect(),
        ..Table::default()
    };
    let has_rows = |table: &&Table| !table.rows.is_empty();
    Report {
        people: Some([&table, &captures].into_iter().filter(has_rows).cloned().collect()),
        schema: "plimsoll.dataset-build/v1".to_owned(),
        window: Window::of(span),
        totals: [
            ("events", events),
            ("logs", logs),
            ("known_logs", known),
            ("captures", new),
            ("known_captures", old),
            ("files", written.files),
            ("bytes", written.bytes),
            ("read_bytes", read),
        ]
        .map(|(name, count)| (name.to_owned(), Value::Count(count)))
        .to_vec(),
        table,
        tables: Some(captures).filter(|table| !table.rows.is_empty()).into_iter().collect(),
        lead: vec![lead],
        inputs,
        ..Report::default()
    }
}
