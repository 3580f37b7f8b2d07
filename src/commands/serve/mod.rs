//! `plimsoll serve`: the recorder with an HTTP interface. It follows audit logs into a store, exports counters by
//! client for Prometheus, and answers the questions of the commands.

mod access;
mod api;
mod beside;
mod counted;
mod forecasts;
mod hand_over;
mod pages;
mod parts;
mod posted;
mod published;
mod reviews;
mod snapshots;

use crate::actions::fresh::Temporary;
use crate::actions::hand_over::Recipient;
use crate::actions::web::{Tls, WebServer};
use crate::analysis::list_route::Minor;
use crate::cli::repeat::{sleep_until, stop_signal};
use crate::cli::{Context, Error, KubeFlags, parse_every};
use crate::inputs::found::parse_version;
use crate::inputs::recording::Recording;
use crate::jobs::recorder::{KeepFlags, Recorder};
use crate::jobs::samples::Taker;
use crate::sources::alerts;
use crate::sources::arguments::is_url;
use crate::sources::clock::now;
use access::AccessFlags;
use counted::Counted;
use forecasts::Forecasts;
use hand_over::HandOver;
use pages::KeptPages;
use parts::Incoming;
use posted::Posted;
use published::{Published, Web};
use snapshots::{SnapshotFlags, Snapshots};
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Parts that can't be handed over just now are no shorter than this.
const WHILE_AWAY: Duration = Duration::from_secs(60);

/// Arguments of `plimsoll serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # then: curl localhost:9797/metrics
  plimsoll serve /var/log/kubernetes/ --store /var/lib/plimsoll
  # only events posted to /audit, and metrics of the pod's cluster
  plimsoll serve --cluster --store /data
  # on each control-plane node: another instance judges the logs of all
  plimsoll serve /var/log/kubernetes/ --store /var/lib/plimsoll --hand-to https://plimsoll:9797
  # the latest report
  curl -s localhost:9797/report > report.html

Metrics, endpoints, deployment: docs/commands/serve.md.")]
pub struct Args {
    /// Audit logs, metrics pages, folders of cgroups: what record takes; none: only events that are posted to /audit.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Keep roll-ups and counters in this folder (default: a temporary one, removed at the end).
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_STORE", value_parser = crate::cli::parse_folder)]
    store: Option<PathBuf>,
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9797")]
    listen: SocketAddr,
    /// Time between readings of the sources.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_every)]
    every: Duration,
    /// Time between evaluations of the last hour: episodes, findings.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_every)]
    judge_every: Duration,
    /// List a live cluster's objects no more often than this.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_every)]
    objects_every: Duration,
    /// Scrape the apiservers of the live cluster, and list its quotas.
    #[arg(long)]
    cluster: bool,
    /// Time between forecasts of when limits will be reached.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_every)]
    forecast_every: Duration,
    /// The configuration of alerts: it names the owners of namespaces (docs/alerts.md).
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_ALERTS")]
    alerts: Option<PathBuf>,
    /// Clients with series of their own: the busiest of each reading; all others count as "other".
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=2000))]
    max_clients: u16,
    /// The apiservers' version, which decides who answers a LIST: 1.36.
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    k8s_version: Option<Minor>,
    #[command(flatten)]
    hand_over: HandOverFlags,
    #[command(flatten)]
    access: AccessFlags,
    #[command(flatten)]
    snapshots: SnapshotFlags,
    #[command(flatten)]
    keep: KeepFlags,
    #[command(flatten)]
    kube: KubeFlags,
}

/// Whether another instance counts and judges.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several apiservers")]
struct HandOverFlags {
    /// Hand the roll-ups of these logs to the plimsoll serve at this URL, which counts and judges those of all
    /// apiservers.
    #[arg(long, value_name = "URL", value_parser = web_address)]
    hand_to: Option<String>,
    /// The bearer token that it requires is in this file.
    #[arg(long, value_name = "FILE", requires = "hand_to")]
    hand_to_token_file: Option<PathBuf>,
    /// Trust these certificates (PEM) in place of the system's.
    #[arg(long, value_name = "FILE", requires = "hand_to")]
    hand_to_ca_file: Option<PathBuf>,
    /// Name of the apiserver whose log lies in no folder of its name (default with --hand-to: the host's).
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    instance: Option<String>,
}

/// A URL over HTTP.
fn web_address(text: &str) -> Result<String, String> {
    match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(text.to_owned()),
        false => Err("give a URL that begins with https:// or http://".to_owned()),
    }
}

impl HandOverFlags {
    fn recipient(&self) -> Option<Recipient> {
        let (token, authorities) = (self.hand_to_token_file.clone(), self.hand_to_ca_file.clone());
        self.hand_to.as_ref().map(|url| Recipient { url: url.trim_end_matches('/').to_owned(), token, authorities })
    }

    fn instance(&self) -> String {
        let host = || fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let given = self.instance.clone().filter(|name| !name.is_empty());
        given.or_else(|| self.hand_to.as_ref().map(|_| host())).unwrap_or_default()
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    if args.sources.iter().any(|source| source == "-") {
        return Err(Error::Usage(
            "-: a pipe can't be resumed after a restart; write it to a file, or post events to /audit".to_owned(),
        ));
    }
    // A folder that apiservers have yet to make is a mistake far more often.
    let is_absent =
        |source: &&String| !source.contains(['*', '?', '[']) && !is_url(source) && !Path::new(source).exists();
    if let Some(absent) = args.sources.iter().find(is_absent) {
        return Err(Error::Input(format!("{absent}: there is no such file or folder")));
    }
    let has_cluster = args.cluster || args.kube.kubeconfig.is_some() || args.kube.context.is_some();
    let (access, tls) = (args.access.access(args.listen)?, args.access.tls()?.map(Arc::new));
    let reviewer = args.access.reviewer(has_cluster, &args.kube)?;
    // A store of its own goes with the process.
    let temporary = match &args.store {
        Some(_) => None,
        None => Some(
            Temporary::make("serve").map_err(|error| Error::Input(format!("{error}; choose a folder with --store")))?,
        ),
    };
    let folder = args.store.as_deref().unwrap_or_else(|| temporary.as_ref().map_or(Path::new(""), Temporary::path));
    let mut recorder = Recorder::open(folder, &args.keep)?;
    let posted = Arc::new(Posted::open(folder)?);
    let sources: Vec<String> = args.sources.iter().cloned().chain([posted.source()]).collect();
    let owners = alerts::given(args.alerts.as_deref()).map_err(Error::usage)?;
    let mut counted = Counted::open(&recorder.store, usize::from(args.max_clients), args.k8s_version, owners, context)?;
    let published = Arc::new(Published::default());
    let incoming = Arc::new(Incoming::open(&recorder.store)?);
    let web = Web::new(
        Arc::clone(&published),
        Arc::clone(&posted),
        Arc::clone(&incoming),
        &recorder.store,
        context.settings.clone(),
    );
    let secure = if tls.is_some() { "https" } else { "http" };
    let server = WebServer::start(args.listen, tls.clone(), (access, reviewer), Arc::new(web)).map_err(|error| {
        match error.kind() {
            ErrorKind::AddrInUse => {
                Error::Usage(format!("--listen {}: another process listens there; choose another port", args.listen))
            }
            _ => Error::Usage(format!("--listen {}: {error}", args.listen)),
        }
    })?;
    context.notice(format!("listening on {secure}://{}; metrics: /metrics, report: /report", server.address()))?;

    let mut handing = args.hand_over.recipient().map(HandOver::new);
    recorder.hands_over = handing.is_some();
    let shortest = if handing.is_some() { WHILE_AWAY } else { Duration::ZERO };
    let mut logs = Recording::new(shortest).named(&args.hand_over.instance());
    let mut taker =
        Taker::new(&args.sources, &args.kube, args.objects_every, &recorder.store).with_pages(pages::KEEP, has_cluster);
    let mut pages = KeptPages::new(&recorder.store, args.judge_every);
    let mut forecasts = Forecasts::new(&recorder.store, args.forecast_every, &context.settings);
    let stop = stop_signal()?;
    let mut snapshots = Snapshots::new(&args.snapshots, &recorder.store, &stop, &context.settings)?;
    let mut next = Instant::now();
    let mut judged: Option<Instant> = None;
    // Once the logs were read for the first time.
    let mut is_ready = false;
    // What was reported last, until it works again.
    let mut failing = String::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        // Each step is taken, whether or not others fail: a cluster that is away stops no log from being read. Pages
        // first: they tell how large the LISTs of the logs are.
        let mut failures = 0;
        let scraped = (|| {
            let mut taken = taker.round(false, context)?;
            failures = taken.failures;
            recorder.store(&taken.samples, context)?;
            let kept = pages.take(std::mem::take(&mut taken.pages));
            counted.take_now(taken);
            taker.remember(context)?;
            counted.has_news |= kept.map_err(|error| Error::Input(format!("keeping a metrics page: {error}")))?;
            Ok(())
        })();
        let read = (|| match &mut handing {
            Some(handing) => {
                if let Some(gained) = handing.read(&mut logs, &sources, &recorder.store, context)? {
                    counted.note(&gained);
                }
                let handed = handing.give(&recorder.store);
                counted.waiting = Some(handing.waiting);
                handed
            }
            None => {
                if let Some(gained) = logs.round(&sources, &recorder.store, true, context)? {
                    counted.take(gained, context)?;
                }
                let adopted = incoming.adopt(context)?;
                counted.take_parts(&adopted, context)
            }
        })();
        is_ready |= read.is_ok();
        let kept = posted.clean(&recorder.store).and_then(|()| recorder.look_after(false, context));
        // A log may be rotated just now, a disk be full for a while.
        match scraped.and(read).and(kept) {
            Ok(()) => {
                if failures == 0 {
                    counted.last_success = Some(now());
                }
                failing.clear();
            }
            Err(error) => {
                counted.errors += 1;
                let why = error.message().unwrap_or_default();
                if why != failing {
                    context.warn(format!("{why}; retried every {:?}", args.every))?;
                    failing = why;
                }
            }
        }
        counted.errors += failures;
        if let Some(why) = tls.as_deref().and_then(Tls::problem) {
            counted.errors += 1;
            context.warn(why)?;
        }
        counted.rounds += 1;
        counted.round_seconds = began.elapsed().as_secs_f64();
        let is_due = judged.is_none_or(|judged| judged.elapsed() >= args.judge_every);
        if is_due && (counted.has_news || counted.shows_something()) {
            judged = Some(Instant::now());
            counted.has_news = false;
            counted.judge(&recorder.store, context);
        }
        if handing.is_none()
            && let Some(limits) = forecasts.round()
        {
            counted.gauges.limits(limits);
        }
        match snapshots.as_mut().and_then(Snapshots::round) {
            Some(Ok(space)) => counted.gauges.etcd(space),
            Some(Err(why)) => {
                counted.errors += 1;
                context.warn(format!("no snapshot of etcd: {why}; retried in five minutes at the latest"))?;
            }
            None => {}
        }
        if is_ready {
            published.publish(counted.families());
        }
        next = (next + args.every).max(Instant::now());
        sleep_until(next, &stop);
    }
    context.notice("stopping")?;
    drop(server);
    drop(snapshots);
    // What was written or posted until now is not lost, whether or not there is a next start.
    match &mut handing {
        Some(handing) => {
            let read = handing.read(&mut logs, &sources, &recorder.store, context);
            if let Err(error) = read.and_then(|_| handing.give(&recorder.store)) {
                let why = error.message().unwrap_or_default();
                context.warn(format!("{why}; handed over after the next start"))?;
            }
        }
        None => {
            if let Some(gained) = logs.round(&sources, &recorder.store, true, context)? {
                counted.take(gained, context)?;
            }
        }
    }
    recorder.look_after(true, context)
}

/// Whether what somebody sent may be the name of a file: plain characters, no dot in front, and not too long.
fn is_plain_name(name: &str, max_bytes: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= max_bytes && !name.starts_with('.') && name.chars().all(is_plain)
}
