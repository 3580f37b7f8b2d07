//! `plimsoll collect`: a bundle of a live cluster.

mod also;
mod redact;
mod report;
mod take;
mod taker;

use crate::actions::bundle::{ARCHIVE, BundleWriter, part};
use crate::cli::repeat::{sleep_until, stop_signal};
use crate::cli::{Context, Error, FailOn, KubeFlags, Progress, parse_every};
use crate::jobs::etcd_pull::AccessFlags;
use crate::model::time::{self, SECOND};
use crate::sources::etcd::pull::Endpoint;
use crate::sources::watcher::Watcher;
use redact::StagingFolder;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use taker::Taker;

/// Arguments of `plimsoll collect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll collect  # what the kubeconfig's cluster is doing now
  plimsoll collect --duration 5m --every 10s -f incident.tar.zst
  plimsoll collect --duration 5m /var/log/kubernetes/audit \\
    https://127.0.0.1:2381/metrics
  plimsoll collect --include-heap --include-etcd --endpoints \\
    https://10.0.0.11:2379 --cacert ca.crt --cert client.crt --key client.key
  tar --zstd -xf incident.tar.zst && plimsoll report incident/ -o html \\
    > report.html

It sends each apiserver one request at a time, lists in pages of 500, honours Retry-After, and never writes \
to the cluster.
Contents, what is left out, and the ClusterRole it needs: docs/commands/collect.md.")]
pub struct Args {
    /// Include these: audit logs and other files, folders of cgroups, metrics pages by URL (etcd, scheduler,
    /// controller-manager).
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Write the bundle here: an archive if the name ends in .tar.zst, else a folder [default: CLUSTER-TIME.tar.zst].
    #[arg(short = 'f', long, value_name = "PATH")]
    output_file: Option<PathBuf>,
    /// Collect for this long, with metrics at intervals [default: collect once].
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    duration: Option<Duration>,
    /// Time between two pages of metrics.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_every)]
    every: Duration,
    /// Maximum list pages per second.
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = rate)]
    qps: f64,
    /// List no objects.
    #[arg(long)]
    no_objects: bool,
    /// Take heap profiles: each stops the apiserver for a moment.
    #[arg(long)]
    include_heap: bool,
    /// Take a snapshot of etcd: it holds all Secrets, and the member reads its whole database for it.
    #[arg(long, requires = "endpoints")]
    include_etcd: bool,
    /// Members of etcd to try, separated by commas, until one has sent a whole snapshot.
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "include_etcd", value_parser = Endpoint::parse)]
    endpoints: Vec<Endpoint>,
    /// Copy audit logs with request and response bodies [default: their sizes only]. Bodies may hold Secrets if the
    /// audit policy logs them.
    #[arg(long)]
    with_bodies: bool,
    /// Write pseudonyms in place of users, addresses, namespaces and names of objects, the same one for the same name
    /// in all files.
    #[arg(long, conflicts_with_all = ["include_etcd", "with_bodies"])]
    redact: bool,
    /// Owner of the cluster, for reports.
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    #[command(flatten)]
    access: AccessFlags,
    #[command(flatten)]
    kube: KubeFlags,
}

/// Names that a folder is hardly meant to have.
const OTHER_ARCHIVES: [&str; 6] = [".tar", ".tgz", ".gz", ".zip", ".zst", ".xz"];

fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| (0.01..=1000.0).contains(rate))
        .ok_or_else(|| "a number from 0.01 to 1000".to_owned())
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let stop = stop_signal()?;
    also::check(&args.sources)?;
    let named = args.output_file.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
    if let Some(ending) = OTHER_ARCHIVES.into_iter().find(|ending| named.ends_with(ending) && !named.ends_with(ARCHIVE))
    {
        return Err(Error::Usage(format!(
            "-f {named}: {ending} archives can't be written, only {ARCHIVE}; any other name is a folder"
        )));
    }
    let access = args.access.access(&stop)?;
    if args.with_bodies {
        context.notice(
            "the bundle will hold the request and response bodies of the audit log; anyone who can read it \
             can read them",
        )?;
    }
    let cluster = crate::inputs::live::connect(&args.kube, context)?;
    let target = args.output_file.clone().unwrap_or_else(|| {
        let at = time::format(context.io.now - context.io.now % SECOND).replace(':', "-");
        PathBuf::from(format!("{}-{at}{ARCHIVE}", part(cluster.name())))
    });
    let shown = target.display().to_string();
    let unwritten = |error: std::io::Error| {
        let hint = if error.kind() == std::io::ErrorKind::NotFound { "; check that its folder exists" } else { "" };
        Error::Input(format!("{shown}: can't write it: {error}{hint}"))
    };
    let writer = BundleWriter::create(&target).map_err(unwritten)?;
    // Names are known when all is there: it is put together elsewhere first.
    let whole = args.redact.then(|| StagingFolder::beside(&target)).transpose().map_err(unwritten)?;
    let writer = match &whole {
        Some(whole) => {
            drop(writer);
            BundleWriter::create(&whole.path()).map_err(unwritten)?
        }
        None => writer,
    };
    let mut taker = Taker::new(args, cluster, writer, &target, &stop);
    let began = Instant::now();
    let seconds = args.duration.map_or(0, |length| length.as_secs());
    let progress = Progress::count(seconds, "seconds", context.settings.progress && seconds > 0);
    taker.tick().map_err(unwritten)?;
    taker.moment().map_err(unwritten)?;
    taker.objects().map_err(unwritten)?;
    taker.files().map_err(unwritten)?;
    if let Some(length) = args.duration {
        let mut reported = 0;
        while let Some(next) = taker.next.filter(|next| *next <= began + length && !stop.load(Ordering::Relaxed)) {
            sleep_until(next, &stop);
            taker.tick().map_err(unwritten)?;
            let now = began.elapsed().as_secs().min(seconds);
            progress.read(now.saturating_sub(std::mem::replace(&mut reported, now)));
        }
        taker.moment().map_err(unwritten)?;
    }
    progress.finish();
    if stop.load(Ordering::Relaxed) {
        let wanted = args.duration.map_or_else(String::new, |length| format!(" of {} s", length.as_secs()));
        context.notice(format!(
            "stopped after {} s{wanted}: the data collected so far is kept",
            began.elapsed().as_secs()
        ))?;
    }
    if args.include_etcd && !stop.load(Ordering::Relaxed) {
        taker.etcd(&access, &target, context)?;
    }
    let mut taken = taker.finish().map_err(unwritten)?;
    if let Some(whole) = whole {
        let redacted = redact::bundle(&whole, &target).map_err(unwritten)?;
        (taken.files, taken.bytes) = (redacted.files, redacted.bytes);
        for path in &redacted.left_out {
            context.lost(format!("{path}: left out, because the names in it can't be located"))?;
        }
        taken.pseudonyms = Some(redacted.names as u64);
    }
    for row in taken.rows.iter().filter(|row| row.is_lost()) {
        context.lost(&row.why)?;
    }
    context.print(&report::report(&taken, &target, began.elapsed()), FailOn::Never)
}
