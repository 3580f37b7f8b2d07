//! `plimsoll rollup`: what one pass over audit logs keeps, as files.

use crate::actions::rollup::write;
use crate::cli::{Context, Error, FailOn};
use crate::inputs::found;
use crate::inputs::manifest::{giving, manifest};
use crate::inputs::rollup;
use crate::inputs::selection::Selection;
use crate::model::report::{Report, Table, Value, Window};
use crate::model::rollup::{MANIFEST, Manifest, SEAMS, TABLES};
use crate::model::units::{bytes, counted, percent};
use crate::sources::wanted::Wanted;
use std::path::PathBuf;

/// Arguments of `plimsoll rollup`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll rollup /var/log/kubernetes/ --to before-upgrade/
  # as from the log, long after its deletion
  plimsoll clients before-upgrade/
  plimsoll compare before-upgrade/ /var/log/kubernetes/
  # roll-ups become one
  plimsoll rollup monday/ tuesday/ --to week/
  duckdb -c \"from 'before-upgrade/traffic.parquet' limit 10\"")]
pub struct Args {
    /// Audit logs, or roll-ups of some: files, folders, globs, bundles, datasets, URLs, - for stdin.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// The folder for the roll-up; it must be empty or absent.
    #[arg(long, value_name = "DIR", value_parser = crate::cli::parse_folder)]
    to: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let found = found::find(&args.sources, Wanted::Logs, context)?;
    if found.streams.is_empty() {
        return Err(Error::Input(format!("{}: no audit log", args.sources.join(", "))));
    }
    let streams: Vec<(String, String)> =
        found.streams.iter().map(|own| (own.stream.cluster.clone(), own.stream.instance.clone())).collect();
    let (rollup, outcome) =
        rollup::read(found.streams, &Selection { with_seams: true, ..Selection::default() }, context)?;
    let manifest = Manifest { bundle: found.bundle, ..manifest(&rollup, &streams, &outcome) };
    let failed = |error: std::io::Error| Error::Input(format!("{}: {error}", args.to.display()));
    let written = write(&args.to, &manifest, &giving(&rollup), &[]).map_err(failed)?;
    let row = |name: &str| {
        let table = written.tables.get(name).cloned().unwrap_or_default();
        vec![name.into(), Value::Count(table.rows), Value::Count(table.bytes)]
    };
    let stored: u64 = written.tables.values().map(|table| table.bytes).sum();
    let read: u64 = outcome.inputs.iter().map(|input| input.bytes).sum();
    let events: u64 = outcome.coverage.iter().map(crate::model::input::Coverage::total).sum();
    // What roll-ups were made of is not known here.
    let is_of_logs = outcome.inputs.iter().all(|input| input.kind != "rollup");
    let share = if is_of_logs && read > 0 {
        format!(", {} of the input size", percent(stored as f64 / read as f64))
    } else {
        String::new()
    };
    let report = Report {
        schema: "plimsoll.rollup-files/v1".to_owned(),
        inputs: outcome.inputs.clone(),
        window: Window::of(rollup.span),
        totals: vec![
            ("events".to_owned(), Value::Count(events)),
            ("bytes".to_owned(), Value::Count(stored)),
            ("read_bytes".to_owned(), Value::Count(read)),
            ("tile_seconds".to_owned(), Value::Count(manifest.tile_seconds.unsigned_abs())),
        ],
        table: Table {
            name: "tables".to_owned(),
            columns: ["table", "rows", "bytes"].map(str::to_owned).to_vec(),
            rows: TABLES.iter().chain([&SEAMS]).map(|spec| row(spec.name)).collect(),
            ..Table::default()
        },
        lead: vec![format!(
            "{} in tiles of {} s: {}{share}; {} describes them.",
            counted(events, "event"),
            manifest.tile_seconds,
            bytes(stored as f64),
            args.to.join(MANIFEST).display()
        )],
        ..Report::default()
    };
    context.print(&report, FailOn::Never)
}
