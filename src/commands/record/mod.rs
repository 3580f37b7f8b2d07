//! `plimsoll record`: samples of a cluster into a history store.

mod import;
mod take;

use crate::actions::store::{Keep, KeepRollups, Sample, Writer, drop_old, open_or_make, put_together, seal};
use crate::cli::repeat::sleep_until;
use crate::cli::repeat::stop_signal;
use crate::cli::{Context, Error, KubeFlags, length_parser, parse_every, parse_length};
use crate::inputs::recording::{self, Gained, Recording, failed};
use crate::model::series::Series;
use crate::model::time::Micros;
use crate::model::units::{bytes, counted, parse_bytes};
use crate::sources::store::{Store, date};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
pub(super) use take::Taker;

/// Time between looks at what is over, old or too much.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

/// A part of a log is no shorter than this while logs are followed.
const SHORTEST_PART: Duration = Duration::from_secs(60);

/// Arguments of `plimsoll record`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "EXAMPLES
  # from cron: the kubeconfig's cluster, as it is now
  plimsoll record --store /var/lib/plimsoll --once
  # a flight recorder
  plimsoll record --store /var/lib/plimsoll --every 15s --max-size 1GB
  plimsoll record https://etcd-0:2381/metrics /sys/fs/cgroup/kubepods.slice \\
    --store history --every 30s
  # audit logs too: who did what, after the log is deleted
  plimsoll record /var/log/kubernetes/ --store history --every 1m
  # a bundle: its times are kept
  plimsoll record samples/list-storm --store history
  # samples of others; see record import --help
  plimsoll record import old.csv answer.json --store history")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// Audit logs, metrics pages (files, folders, bundles, URLs), folders of cgroups, files of objects; none: the live
    /// cluster of the kubeconfig.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// The folder of the store; created if it is absent.
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_STORE", required = true)]
    store: Option<PathBuf>,
    /// Record once, and exit.
    #[arg(long, conflicts_with_all = ["every", "length"])]
    once: bool,
    /// Time between samples [default: 15s for live sources; files are read once].
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    every: Option<Duration>,
    /// Stop after this duration [default: run until SIGINT or SIGTERM].
    #[arg(long = "for", id = "length", value_name = "TIME", value_parser = parse_every)]
    length: Option<Duration>,
    /// List a live cluster's objects, and its pods' usage, no more often than this.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_every)]
    objects_every: Duration,
    #[command(flatten)]
    keep: KeepFlags,
    #[command(flatten)]
    kube: KubeFlags,
}

#[derive(Debug, clap::Subcommand)]
enum Sub {
    /// Import samples from CSV, Parquet or Prometheus query results.
    Import(import::Args),
}

/// How much is kept.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Retention")]
pub(super) struct KeepFlags {
    /// Maximum size: the oldest points are dropped first, then the oldest days.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Keep single points for this long; of older days their peak, quantiles and mean.
    #[arg(long, value_name = "TIME", default_value = "14d",
        value_parser = length_parser(2 * crate::model::series::DAY, "14d, 8w"))]
    keep_points: Micros,
    /// Keep days for this long.
    #[arg(long, value_name = "TIME", default_value = "400d",
        value_parser = length_parser(2 * crate::model::series::DAY, "14d, 8w"))]
    keep: Micros,
    /// Keep roll-ups of audit logs in tiles of these lengths up to these ages: 10s, 1m, 10m and 1h.
    #[arg(long, value_name = "TILE=AGE,...", default_value = "10s=2d,1m=30d,10m=400d", value_parser = keep_rollups)]
    keep_rollups: KeepRollups,
}

fn size(text: &str) -> Result<u64, String> {
    let size = parse_bytes(text).filter(|bytes| *bytes >= 1 << 20);
    size.ok_or_else(|| "write a size of at least 1MiB: 64MiB, 2G, 500MB".to_owned())
}

fn keep_rollups(text: &str) -> Result<KeepRollups, String> {
    let tiles = [("10s", 10), ("1m", 60), ("10m", 600), ("1h", 3600)];
    let mut all: Vec<(i64, Micros)> = Vec::new();
    for pair in text.split(',').map(str::trim) {
        let (tile, to) = pair.split_once('=').ok_or("write TILE=AGE,...: 10s=2d,1m=30d,10m=400d")?;
        let known = tiles.iter().find(|(name, _)| *name == tile);
        let (_, tile) = known.ok_or_else(|| format!("{tile}: tiles are 10s, 1m, 10m or 1h long"))?;
        let to = parse_length(to, crate::model::series::DAY / 24, "2d, 8w")?;
        if all.last().is_some_and(|(finer, before)| finer >= tile || *before >= to) {
            return Err("each tile must be longer than the one before, and kept for longer".to_owned());
        }
        all.push((*tile, to));
    }
    Ok(KeepRollups(all))
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    if let Some(Sub::Import(args)) = &args.command {
        return import::run(args, context);
    }
    let Some(folder) = &args.store else {
        return Err(Error::Usage("--store DIR is required: the folder of the store".to_owned()));
    };
    let mut recorder = Recorder::open(folder, &args.keep)?;
    let mut taker = Taker::new(&args.sources, &args.kube, args.objects_every, &recorder.store);
    let mut logs = Recording::new(SHORTEST_PART);
    let every = args.every.unwrap_or(Duration::from_secs(15));
    let is_once = args.once || args.every.is_none() && args.length.is_none() && !taker.is_live();
    let stop = stop_signal()?;
    let began = Instant::now();
    let end = args.length.map(|length| began + length);
    let mut next = began;
    loop {
        let events = logs.round(&args.sources, &recorder.store, is_once, context)?.as_ref().map(Gained::events);
        let samples = taker.round(is_once, context)?;
        recorder.store(&samples, context)?;
        // Cron mails whatever is said; somebody who reads files in waits for a word.
        if is_once && !args.once {
            let of_logs = events.map(|events| format!(", and {},", counted(events, "audit event")));
            context.notice(format!(
                "{}{} stored in {}",
                counted(samples.len() as u64, "sample"),
                of_logs.unwrap_or_default(),
                folder.display()
            ))?;
        }
        taker.remember(context)?;
        recorder.look_after(is_once, context)?;
        next = (next + every).max(Instant::now());
        if is_once || stop.load(Ordering::Relaxed) || end.is_some_and(|end| next > end) {
            break;
        }
        sleep_until(next, &stop);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if !is_once {
        logs.round(&args.sources, &recorder.store, true, context)?;
    }
    recorder.look_after(true, context)
}

/// Writes what was taken, and keeps the store in order.
pub(super) struct Recorder {
    pub(super) store: Store,
    writer: Writer,
    keep: KeepFlags,
    looked: Option<Instant>,
    batches: u64,
}

impl Recorder {
    /// Opens the store in a folder, made if need be.
    pub(super) fn open(folder: &Path, keep: &KeepFlags) -> Result<Self, Error> {
        let store = open_or_make(folder).map_err(failed)?;
        let mut recorder = Self { writer: Writer::new(&store), store, keep: keep.clone(), looked: None, batches: 0 };
        if let Some(limit) = keep.max_size {
            recorder.writer.limit_files(limit / 8);
        }
        Ok(recorder)
    }

    pub(super) fn store(&mut self, samples: &[(Series, Micros, f64)], context: &mut Context<'_>) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(samples.len());
        for (series, at, value) in samples {
            match self.writer.series(series) {
                Some(series) => batch.push(Sample { series, at: *at, value: *value }),
                None => {
                    context.lost(format!("{series}: not a name of a series, or too long; its sample was left out"))?
                }
            }
        }
        let appended = self.writer.append(&batch).map_err(failed)?;
        self.batches += 1;
        if appended.refused > 0 {
            context.lost(format!(
                "{} without a finite value or a sensible time left out",
                counted(appended.refused, "sample")
            ))?;
        }
        if context.settings.verbose {
            context.notice(format!("batch {}: {} stored", self.batches, counted(appended.stored, "sample")))?;
        }
        Ok(())
    }

    /// Seals what is over and drops what is too old or too much, now and then.
    pub(super) fn look_after(&mut self, now_at_any_rate: bool, context: &mut Context<'_>) -> Result<(), Error> {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= HOUSEKEEPING);
        if !is_due && !now_at_any_rate {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        // Of a store that may not grow, a half is for what logs show.
        recording::look_after(&self.store, &self.keep.keep_rollups, self.keep.max_size.map(|most| most / 2), context)?;
        look_after(&self.store, &mut self.writer, &self.keep, context)
    }
}

/// Seals, puts together, drops; says what was lost or dropped.
fn look_after(store: &Store, writer: &mut Writer, keep: &KeepFlags, context: &mut Context<'_>) -> Result<(), Error> {
    let now = jiff::Timestamp::now().as_microsecond();
    let sealed = seal(store, now, Some(writer)).map_err(failed)?;
    for loss in &sealed.losses {
        context.lost(loss)?;
    }
    let reported = if context.settings.verbose { sealed.days.as_slice() } else { &[] };
    for day in reported {
        context.notice(format!("{} sealed", date(*day)))?;
    }
    for loss in put_together(store, now).map_err(failed)? {
        context.lost(loss)?;
    }
    let dropped = drop_old(store, now, Keep { points: keep.keep_points, days: keep.keep, bytes: keep.max_size })
        .map_err(failed)?;
    let limit =
        keep.max_size.map(|limit| format!("to keep the store below {}", bytes(limit as f64))).unwrap_or_default();
    if let (Some(first), Some(last)) = (dropped.points.first(), dropped.points.last()) {
        context.notice(format!(
            "{limit} the points of {} to {} were dropped; their daily aggregates are kept",
            date(*first),
            date(*last)
        ))?;
    }
    if let (Some((first, _)), Some((_, last))) = (dropped.days.first(), dropped.days.last()) {
        context.notice(format!("{limit} the days {} to {} were dropped", date(*first), date(*last)))?;
    }
    for log in &dropped.logs {
        context.notice(format!("{limit} unsealed samples were dropped: {log}"))?;
    }
    if dropped.is_over {
        context.notice(format!(
            "the store has {}, and nothing more can be dropped: the data being written takes that much",
            bytes(dropped.bytes as f64)
        ))?;
    }
    Ok(())
}
