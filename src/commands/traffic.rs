//! `plimsoll traffic`: who sends what.

use super::traffic_follow::{self, FollowFlags};
use crate::analysis::dims::Dim;
use crate::analysis::filter::Filter;
use crate::analysis::list_route::Minor;
use crate::analysis::traffic::report::{self, BASE_FIELDS, FIELDS, Measured, Reading, Shape};
use crate::analysis::traffic::{Batch, Breakdown, Fold, Plan, Query, Traffic};
use crate::cli::{Context, Error, FailOn, Progress, TimeFlags};
use crate::model::bundle::Bundle;
use crate::model::event::Timed;
use crate::model::time::{Micros, SECOND};
use crate::model::units::parse_duration;
use crate::sources::audit::pass::{self, Delivery, Worker};
use crate::sources::open::{self, Found};
use crate::views::text::plain;

/// Arguments of `plimsoll traffic`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
DIMENSIONS
  verb resource group subresource namespace name user serviceaccount agent agent-version source-ip node
  code code-class instance cluster scope list-kind stage minute

EXAMPLES
  plimsoll traffic audit.log --by verb,resource,user
  plimsoll traffic /var/log/kubernetes/ --by agent --where verb=list --where 'resource!=leases' --since -1h
  kubectl logs -n kube-system kube-apiserver-0 | plimsoll traffic - --by user --series
  plimsoll traffic /var/log/kubernetes/ --follow --every 5s --by user
  plimsoll traffic after/ --baseline before/ --by user --sort-by rps_change")]
pub struct Args {
    /// Audit logs: files (plain, .gz, .zst), folders, globs, bundles, URLs, - for stdin.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// Break down by these dimensions.
    #[arg(long, value_delimiter = ',', default_value = "verb,resource", value_name = "DIM,…")]
    by: Vec<Dim>,
    /// Count only what meets the condition (repeatable, all must hold): DIM=VALUE, !=, =~REGEX, !~, >, <.
    #[arg(long = "where", value_name = "EXPR")]
    filters: Vec<Filter>,
    #[command(flatten)]
    time: TimeFlags,
    #[command(flatten)]
    follow: FollowFlags,
    /// Split by time: a table per interval, and the course of each row as bars.
    #[arg(long, conflicts_with = "follow")]
    series: bool,
    /// Length of an interval (10s, 5m, 1h); chosen by the log's span where not given.
    #[arg(long, value_name = "DURATION", requires = "series")]
    interval: Option<String>,
    /// Compare with this source.
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["series", "follow"])]
    baseline: Vec<String>,
    /// The apiservers' version (v1.34); decides whether a LIST is answered by cache or etcd (default: what a bundle says).
    #[arg(long, value_name = "VERSION", env = "PLIMSOLL_K8S_VERSION")]
    k8s_version: Option<String>,
}

/// The apiservers' version, and where it is known from.
pub(super) type Version = (String, &'static str);

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let (since, until) = args.time.resolve(context.io.now).map_err(Error::Usage)?;
    let interval = args.interval.as_deref().map(interval).transpose()?;
    check_sort_field(args, context)?;
    let query = |server: &Option<Version>| Query {
        by: args.by.clone(),
        filters: args.filters.clone(),
        since,
        until,
        interval: None,
        server: server.as_ref().and_then(|(version, _)| Minor::parse(version)),
    };
    if args.follow.wanted() {
        let version = |bundle: Option<&Bundle>| server_version(args, bundle);
        return traffic_follow::run(&args.sources, &args.follow, query, version, context);
    }
    let found = find(&args.sources, context)?;
    let server = server_version(args, found.bundle.as_ref())?;
    let mut query = query(&server);
    let base = match args.baseline.is_empty() {
        true => None,
        // The bounds are those of the log that is looked at; the baseline is taken whole.
        false => Some((Query { since: None, until: None, ..query.clone() }, find(&args.baseline, context)?)),
    };
    let base = base.map(|(query, found)| read(&query, found, context).map(|(breakdown, _)| breakdown)).transpose()?;
    if args.series {
        query.interval = Some(interval.unwrap_or_else(|| open::span(&found).map_or(60 * SECOND, interval_for)));
    }
    let (breakdown, mut reading) = read(&query, found, context)?;
    reading.server = server;
    let shape = Shape { sort_by: context.settings.sort_by.clone(), top: context.settings.top };
    let base = base.as_ref().map(Measured::new);
    let report = report::report(&query, Measured::new(&breakdown), base, reading, &shape);
    context.print(&report, FailOn::Never)
}

/// Finds the logs; says what could not be used.
fn find(sources: &[String], context: &mut Context<'_>) -> Result<Found, Error> {
    let found = open::audit_logs(sources);
    if found.streams.is_empty() {
        let errors: Vec<String> = found.errors.iter().map(|error| plain(&error.to_string()).into_owned()).collect();
        return Err(Error::Input(errors.join("\nplimsoll: ")));
    }
    for error in &found.errors {
        context.lost(error)?;
    }
    Ok(found)
}

/// Reads the logs and counts; says what was lost.
fn read(query: &Query, found: Found, context: &mut Context<'_>) -> Result<(Breakdown, Reading), Error> {
    let streams = found.streams.iter().map(|s| (s.stream.cluster.clone(), s.stream.instance.clone())).collect();
    let bytes = found.streams.iter().flat_map(|s| &s.files).map(|file| file.size).sum();
    let progress = Progress::bytes(bytes, context.settings.progress);
    let plan = Plan::new(query.clone());
    let mut traffic = Traffic::default();
    let (workers, outcome) = pass::run(
        found.streams,
        context.settings.threads,
        &progress,
        || Counting(plan.fold()),
        |delivery| {
            if let Delivery::Block { batch, .. } = delivery {
                traffic.take(batch);
            }
        },
    );
    progress.finish();
    for loss in &outcome.losses {
        context.lost(loss)?;
    }
    if outcome.total().unfinished_lines > 0 && context.settings.verbose {
        context.say("the last line of an input is not finished; it was left out, as the log may still be written")?;
    }
    let breakdown = traffic.finish(&plan, workers.into_iter().map(|worker| worker.0).collect());
    let reading = Reading { inputs: outcome.inputs, losses: outcome.losses, coverage: outcome.coverage, streams, server: None };
    Ok((breakdown, reading))
}

/// The fold of analysis as a worker of the source's pass.
pub(super) struct Counting<'p>(pub(super) Fold<'p>);

impl Worker for Counting<'_> {
    type Batch = Batch;
    #[inline]
    fn event(&mut self, event: Timed<'_, '_>) {
        self.0.event(event);
    }
    fn flush(&mut self) -> Batch {
        self.0.flush()
    }
}

fn interval(text: &str) -> Result<Micros, Error> {
    match parse_duration(text) {
        Some(length) if length >= SECOND && length % SECOND == 0 => Ok(length),
        _ => Err(Error::Usage(format!("--interval {text}: an interval is a whole number of seconds, e.g. 10s, 5m, 1h"))),
    }
}

/// The shortest round interval that makes no more than 60 of the span.
fn interval_for(span: Micros) -> Micros {
    const STEPS: [i64; 11] = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 86_400];
    STEPS.iter().map(|step| step * SECOND).find(|step| span / step < 60).unwrap_or(7 * 86_400 * SECOND)
}

fn check_sort_field(args: &Args, context: &Context<'_>) -> Result<(), Error> {
    let Some(field) = &context.settings.sort_by else { return Ok(()) };
    let dims = args.by.iter().map(|dim| dim.name());
    let base = BASE_FIELDS.iter().copied().filter(|_| !args.baseline.is_empty());
    let time = args.series.then_some("time");
    let mut fields: Vec<&str> = time.into_iter().chain(dims).chain(FIELDS).chain(base).collect();
    if fields.contains(&field.as_str()) {
        return Ok(());
    }
    fields.dedup();
    Err(Error::Usage(format!("--sort-by {field}: no such field; there are: {}", fields.join(" "))))
}

/// The apiservers' version, and where it is known from.
fn server_version(args: &Args, bundle: Option<&Bundle>) -> Result<Option<Version>, Error> {
    if let Some(version) = &args.k8s_version {
        Minor::parse(version).ok_or_else(|| Error::Usage(format!("--k8s-version {version}: expected something like v1.34")))?;
        return Ok(Some((version.clone(), "--k8s-version")));
    }
    let of_bundle = bundle.map(|bundle| bundle.kubernetes_version.clone());
    Ok(of_bundle.filter(|version| Minor::parse(version).is_some()).map(|version| (version, "bundle.yaml")))
}
