//! `plimsoll record import`: samples of others.

use crate::actions::store::{Appended, Sample, SeriesId, Writer, open_or_make};
use crate::cli::{Context, Error};
use crate::inputs::recording::failed;
use crate::jobs::recorder::{KeepFlags, look_after};
use crate::model::problem::{Problem, ProblemKind};
use crate::model::series::Series;
use crate::model::time::Micros;
use crate::model::units::counted;
use crate::sources::store::import::{self, Sink, Taken};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "FORMS
  CSV      first line: name,LABEL…,time,value in any order; time in Unix seconds or RFC 3339; an empty \
label is none
  Parquet  the same columns; a store's own points (name, labels as JSON, at in microseconds, value) as well
  JSON     what Prometheus answers to /api/v1/query_range (or query); give --name where the query is an \
expression

The same sample may be imported again: a series has one value at an instant, the largest that was given.

EXAMPLES
  plimsoll record import usage.csv.gz --store history
  curl -sG prom:9090/api/v1/query_range -d query=kube_resourcequota -d start=… \\
    -d end=… -d step=5m > a.json
  plimsoll record import a.json --store history")]
pub(super) struct Args {
    /// Files to import; - for CSV or JSON on standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// The folder of the store; created if it is absent.
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_STORE", value_parser = crate::cli::parse_folder)]
    store: PathBuf,
    /// Name for series that have none.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Number of samples that are written and flushed to disk together.
    #[arg(long, value_name = "N", default_value_t = 65_536,
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    batch: u32,
    #[command(flatten)]
    keep: KeepFlags,
}

/// Appends in batches.
struct Batches<'c, 'io> {
    writer: Writer,
    ids: Vec<SeriesId>,
    batch: Vec<Sample>,
    size: usize,
    stored: Appended,
    batches: u64,
    context: &'c mut Context<'io>,
    /// What ended it, if the store or the terminal did.
    error: Option<Error>,
}

impl Batches<'_, '_> {
    fn flush(&mut self) -> Taken {
        let result = self.writer.append(&self.batch).map_err(failed).and_then(|appended| {
            self.stored.stored += appended.stored;
            self.stored.refused += appended.refused;
            self.batches += 1;
            if self.context.settings.verbose && !self.batch.is_empty() {
                self.context.notice(format!(
                    "batch {}: {} stored",
                    self.batches,
                    counted(self.stored.stored, "sample")
                ))?;
            }
            Ok(())
        });
        self.batch.clear();
        result.map_err(|error| {
            let problem = Problem::new(ProblemKind::Io, error.to_string());
            self.error = Some(error);
            problem
        })
    }
}

impl Sink for Batches<'_, '_> {
    fn series(&mut self, series: &Series) -> Result<usize, Problem> {
        let id = self.writer.series(series);
        let what = "a name may have letters, digits, _ and :, and at most 32 KiB";
        self.ids.push(id.ok_or_else(|| Problem::malformed(what).at(series))?);
        Ok(self.ids.len() - 1)
    }

    fn sample(&mut self, series: usize, at: Micros, value: f64) -> Taken {
        let Some(series) = self.ids.get(series) else { return Ok(()) };
        self.batch.push(Sample { series: *series, at, value });
        if self.batch.len() >= self.size { self.flush() } else { Ok(()) }
    }
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let store = open_or_make(&args.store).map_err(failed)?;
    let mut batches = Batches {
        writer: Writer::new(&store),
        ids: Vec::new(),
        batch: Vec::new(),
        size: args.batch as usize,
        stored: Appended::default(),
        batches: 0,
        context,
        error: None,
    };
    for file in &args.files {
        let before = batches.stored;
        let read = import::read(file, args.name.as_deref(), &mut batches);
        // What was read before a line that makes no sense is kept.
        let flushed = if batches.error.is_none() { batches.flush() } else { Ok(()) };
        if let Some(error) = batches.error.take() {
            return Err(error);
        }
        let stored = batches.stored.stored - before.stored;
        match read {
            Ok(imported) => {
                let other = imported.not_finite + batches.stored.refused - before.refused;
                let left = if other > 0 {
                    format!("; {} left out: not finite numbers", counted(other, "value"))
                } else {
                    String::new()
                };
                batches.context.notice(format!("{file}: {} stored{left}", counted(stored, "sample")))?;
            }
            Err(refused) => {
                batches.context.lost(format!("{refused}; {} before it stored", counted(stored, "sample")))?
            }
        }
        if let Err(what) = flushed {
            batches.context.lost(what)?;
        }
    }
    let Batches { mut writer, context, .. } = batches;
    look_after(&store, &mut writer, &args.keep, context)?;
    context.verdict()
}
