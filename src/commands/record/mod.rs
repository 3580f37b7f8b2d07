//! `plimsoll record`: samples of a cluster into a history store.

mod import;

use crate::cli::repeat::sleep_until;
use crate::cli::repeat::stop_signal;
use crate::cli::{Context, Error, KubeFlags, parse_every};
use crate::inputs::recording::{Gained, Recording};
use crate::jobs::recorder::{KeepFlags, Recorder};
use crate::jobs::samples::Taker;
use crate::model::units::counted;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_STORE", required = true, value_parser = crate::cli::parse_folder)]
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
        let samples = taker.round(is_once, context)?.samples;
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
