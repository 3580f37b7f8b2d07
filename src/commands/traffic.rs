//! `plimsoll traffic`: who sends what.

use super::flow::{self, FlowFlags, Matched};
use super::logs::{Bounds, Fold, Question, ask};
use super::traffic_follow::{self, FollowFlags};
use super::{pages, show, traffic_live, traffic_metrics};
use crate::analysis::answer::{Answer, ClientRate, Rows};
use crate::analysis::dims::Dim;
use crate::analysis::filter::Filter;
use crate::analysis::list_route::Minor;
use crate::analysis::metrics::Kept;
use crate::analysis::metrics::facts::Facts;
use crate::analysis::reconcile::{Comparison, Seen, Windows};
use crate::analysis::rollup::{Rollup, stored};
use crate::analysis::traffic::logs::{self, Reading};
use crate::analysis::traffic::report::{self, BASE_FIELDS, FIELDS, Line, Measured, Shape};
use crate::analysis::traffic::stored as from_rollup;
use crate::analysis::traffic::{self as analysis, Batch, Breakdown, Plan, Query, Traffic};
use crate::cli::{Context, Error, FailOn, KubeFlags, TimeFlags};
use crate::model::bundle::Bundle;
use crate::model::event::Timed;
use crate::model::question::{self, Kind};
use crate::model::time::{Micros, SECOND};
use crate::model::units::parse_duration;
use crate::sources::audit::pass::{Delivery, Outcome, Worker};
use crate::sources::audit::settle;
use crate::sources::find::{self, Found, LogStream, Wanted};
use crate::views::text::plain;
use std::str::FromStr;
use std::sync::Arc;

/// Arguments of `plimsoll traffic`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
DIMENSIONS
  of audit logs: verb resource group subresource namespace name user serviceaccount agent agent-version
    source-ip node code code-class instance cluster scope list-kind stage minute flow_schema priority_level
  of metrics: verb resource group version subresource scope code component instance cluster, or
    flow_schema priority_level instance cluster

EXAMPLES
  plimsoll traffic audit.log --by verb,resource,user
  plimsoll traffic /var/log/kubernetes/ --by agent --where verb=list --where 'resource!=leases' --since -1h
  kubectl logs -n kube-system kube-apiserver-0 | plimsoll traffic - --by user --series
  plimsoll traffic /var/log/kubernetes/ --follow --every 5s --by user
  plimsoll traffic after/ --baseline before/ --by user --sort-by rps_change
  plimsoll traffic --context prod --by verb,resource --follow
  kubectl get --raw /metrics | plimsoll traffic - --by verb,resource
  plimsoll traffic bundle/ --from metrics --health")]
pub struct Args {
    /// Audit logs or metrics pages: files (plain, .gz, .zst), folders, globs, bundles, URLs, - for stdin. Without any:
    /// the metrics of all apiservers that the kubeconfig can name.
    #[arg(value_name = "SOURCE")]
    pub(super) sources: Vec<String>,
    /// Break down by these dimensions.
    #[arg(long, value_delimiter = ',', default_value = "verb,resource", value_name = "DIM,…")]
    pub(super) by: Vec<String>,
    /// Count only what meets the condition (repeatable, all must hold): DIM=VALUE, !=, =~REGEX, !~, >, <.
    #[arg(long = "where", value_name = "EXPR")]
    pub(super) filters: Vec<String>,
    /// What to read where there are both (default: audit logs).
    #[arg(long, value_enum, value_name = "KIND")]
    pub(super) from: Option<Kind>,
    /// With metrics: how the control plane does (priority levels, objectives, LISTs, watches, webhooks, objects), in
    /// place of the rows.
    #[arg(long, conflicts_with_all = ["series", "baseline", "follow"])]
    pub(super) health: bool,
    #[command(flatten)]
    time: TimeFlags,
    #[command(flatten)]
    pub(super) follow: FollowFlags,
    /// Split by time: a table per interval, and the course of each row as bars.
    #[arg(long, conflicts_with = "follow")]
    pub(super) series: bool,
    /// Length of an interval (10s, 5m, 1h); chosen by the log's span where not given.
    #[arg(long, value_name = "DURATION", requires = "series")]
    interval: Option<String>,
    /// Compare with this source.
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["series", "follow"])]
    baseline: Vec<String>,
    /// The apiservers' version (v1.34); decides whether a LIST is answered by cache or etcd (default: what a bundle
    /// says).
    #[arg(long, value_name = "VERSION", env = "PLIMSOLL_K8S_VERSION")]
    k8s_version: Option<String>,
    #[command(flatten)]
    pub(super) flow: FlowFlags,
    #[command(flatten)]
    pub(super) kube: KubeFlags,
}

/// The apiservers' version, and where it is known from.
pub(super) type Version = (String, &'static str);

impl Args {
    /// What the flags ask of sources that can be read as they are.
    pub fn question(&self, now: Micros) -> Result<question::Traffic, Error> {
        Ok(question::Traffic {
            sources: self.sources.clone(),
            by: self.by.clone(),
            filters: self.filters.clone(),
            from: self.from,
            health: self.health,
            bounds: self.time.resolve(now).map_err(Error::Usage)?,
            series: self.series,
            interval: self.interval.as_deref().map(interval).transpose()?,
            baseline: self.baseline.clone(),
            k8s_version: self.k8s_version.clone(),
            flow_schemas: self.flow.flow_schemas.clone(),
        })
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let question = args.question(context.io.now)?;
    check_sort_field(&question, context)?;
    if traffic_live::is_live(args) {
        return traffic_live::run(args, &question, context);
    }
    if args.follow.is_timed() && !args.follow.wanted() {
        return Err(Error::Usage(
            "--every and --for need --follow, or something live to read again and again: a cluster or URLs of /metrics"
                .to_owned(),
        ));
    }
    if args.follow.wanted() {
        return follow(args, &question, context);
    }
    show(answer(&question, context)?, FailOn::Never, context)
}

/// Counts while logs are written.
fn follow(args: &Args, question: &question::Traffic, context: &mut Context<'_>) -> Result<(), Error> {
    if question.from == Some(Kind::Metrics) {
        return Err(Error::Usage(
            "--follow reads audit logs, or takes pages of what is live: a cluster or URLs".to_owned(),
        ));
    }
    if question.health {
        return Err(Error::Usage(HEALTH.to_owned()));
    }
    let counted = Counted::of(question)?;
    let matched = counted.matched(&question.flow_schemas, &question.sources, context)?;
    let version = |bundle: Option<&Bundle>| server_version(question.k8s_version.as_deref(), bundle);
    let query = |server: &Option<Version>| counted.query(server, &matched);
    let flow = counted.by_flow().then(|| (matched.coverage.clone(), matched.note.clone()));
    traffic_follow::run(&question.sources, &args.follow, query, version, flow, context)
}

const HEALTH: &str = "--health needs metrics pages; add --from metrics if there are any";

/// What is counted of audit logs, and by what.
struct Counted {
    by: Vec<Dim>,
    filters: Vec<Filter<Dim>>,
    bounds: Bounds,
}

impl Counted {
    fn of(question: &question::Traffic) -> Result<Self, Error> {
        let (by, filters) = dims::<Dim>(question)?;
        Ok(Self { by, filters, bounds: question.bounds })
    }

    /// Whether requests are matched with FlowSchemas.
    fn by_flow(&self) -> bool {
        self.by.iter().chain(self.filters.iter().map(|filter| &filter.dim)).any(|dim| dim.is_flow())
    }

    fn matched(&self, schemas: &[String], sources: &[String], context: &mut Context<'_>) -> Result<Matched, Error> {
        let flags = FlowFlags { flow_schemas: schemas.to_vec() };
        if self.by_flow() { flow::matched(&flags, sources, context) } else { Ok(Matched::default()) }
    }

    fn query(&self, server: &Option<Version>, matched: &Matched) -> Query {
        Query {
            by: self.by.clone(),
            filters: self.filters.clone(),
            since: self.bounds.0,
            until: self.bounds.1,
            interval: None,
            server: server.as_ref().and_then(|(version, _)| Minor::parse(version)),
            flow: self.by_flow().then(|| Arc::clone(&matched.sets)),
        }
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::Traffic, context: &mut Context<'_>) -> Result<Answer, Error> {
    let wanted = match question.from {
        Some(Kind::Audit) => Wanted::Logs,
        Some(Kind::Metrics) => Wanted::Pages,
        None => Wanted::Both,
    };
    let mut found = find(&question.sources, wanted, context)?;
    if found.streams.is_empty() || question.from == Some(Kind::Metrics) {
        let has_baseline = !question.baseline.is_empty();
        let base = has_baseline.then(|| find(&question.baseline, Wanted::Pages, context)).transpose()?;
        return traffic_metrics::answer(question, found, base, context).map(Answer::of);
    }
    if question.health {
        return Err(Error::Usage(HEALTH.to_owned()));
    }
    let (since, until) = question.bounds;
    let counted = Counted::of(question)?;
    let matched = counted.matched(&question.flow_schemas, &question.sources, context)?;
    let server = server_version(question.k8s_version.as_deref(), found.bundle.as_ref())?;
    let mut query = counted.query(&server, &matched);
    let base = match question.baseline.is_empty() {
        true => None,
        // The bounds are those of the log that is looked at; the baseline is taken whole.
        false => {
            let flow = match counted.by_flow() {
                true => Some(counted.matched(&question.flow_schemas, &question.baseline, context)?.sets),
                false => None,
            };
            let query = Query { since: None, until: None, flow, ..query.clone() };
            let found = find(&question.baseline, Wanted::Logs, context)?;
            let (breakdown, _) = read(&query, found, None, false, context)?;
            Some(logs::measured(&query, breakdown))
        }
    };
    if question.series {
        query.interval = Some(question.interval.unwrap_or_else(|| {
            let length = settle::span(&found.streams).map_or(60 * SECOND, interval_for);
            settle::in_tiles(&found.streams, length)
        }));
    }
    // How much the log shows is known where there are metrics of the same instances.
    pages::keep(&mut found.pages, since, until);
    let facts = if found.pages.is_empty() {
        Facts::default()
    } else {
        pages::facts(std::mem::take(&mut found.pages), Kept::Requests, context)?.0
    };
    // A roll-up does not hold what metrics of the same seconds are compared with.
    let is_rolled = found.streams.iter().any(LogStream::is_rolled);
    let windows = if is_rolled { None } else { Windows::new(found.streams.iter().map(|s| &s.stream), &facts) };
    let metrics = windows.map(|windows| (Arc::new(windows), &facts));
    let (breakdown, mut reading) = read(&query, found, metrics, !context.is_composing(), context)?;
    reading.server = server;
    reading.flow = counted.by_flow().then_some((matched.coverage, matched.note));
    let told = logs::told(&breakdown, reading);
    let measured = logs::measured(&query, breakdown);
    let rates = match (counted.by.as_slice(), context.is_composing()) {
        ([Dim::User, Dim::Agent], true) => Rows::Rates(rates(&measured)),
        _ => Rows::Other,
    };
    let report = report::report(measured, base.as_ref(), told, &shape(context));
    Ok(Answer::Report(Box::new(report), rates))
}

/// Requests a second of each client, of a breakdown by user and agent.
fn rates(measured: &Measured) -> Vec<ClientRate> {
    let rate = |line: &Line| {
        let [user, agent] = line.dims.as_slice() else { return None };
        Some(ClientRate { user: user.clone(), agent: agent.clone(), rps: line.measures.rps? })
    };
    measured.rows.iter().filter_map(rate).collect()
}

/// How a breakdown is to be shown. Another command that asks may want the rows that people are not shown.
pub(super) fn shape(context: &Context<'_>) -> Shape {
    Shape { sort_by: context.settings.sort_by.clone(), top: context.settings.top, shown_only: !context.is_composing() }
}

/// `--by` and `--where` as dimensions of what is read.
pub(super) fn dims<D: FromStr<Err = String>>(question: &question::Traffic) -> Result<(Vec<D>, Vec<Filter<D>>), Error> {
    let usage = |flag: &'static str| move |why: String| Error::Usage(format!("{flag}: {why}"));
    let by = question.by.iter().map(|text| text.parse().map_err(usage("--by"))).collect::<Result<_, _>>()?;
    let filters =
        question.filters.iter().map(|text| text.parse().map_err(usage("--where"))).collect::<Result<_, _>>()?;
    Ok((by, filters))
}

/// Finds what is to be read; says what could not be used.
pub(super) fn find(sources: &[String], wanted: Wanted, context: &mut Context<'_>) -> Result<Found, Error> {
    let found = find::find(sources, wanted, context.io.now);
    let is_some = !(found.streams.is_empty() && found.pages.is_empty());
    usable(found, is_some, context)
}

/// What was found, if it is what was looked for; says what could not be used.
pub(super) fn usable(found: Found, is_some: bool, context: &mut Context<'_>) -> Result<Found, Error> {
    if !is_some {
        let errors: Vec<String> = found.errors.iter().map(|error| plain(&error.to_string()).into_owned()).collect();
        return Err(Error::Input(errors.join("\nplimsoll: ")));
    }
    for error in &found.errors {
        context.lost(error)?;
    }
    Ok(found)
}

/// Asks for a breakdown of audit logs, and beside it what they show of what metrics count.
#[derive(Debug, Clone)]
pub(super) struct Breaking {
    /// What to count.
    pub(super) query: Query,
    /// When metrics of the same instances were counting.
    pub(super) windows: Option<Arc<Windows>>,
    /// Whether what was counted is not given back, as this is the last that the program reads.
    pub(super) is_last: bool,
}

impl Breaking {
    /// A breakdown alone.
    pub(super) fn of(query: Query) -> Self {
        Self { query, windows: None, is_last: false }
    }
}

/// A breakdown, and what was seen of what metrics count.
pub(super) type Broken = (Breakdown, Vec<Seen>);

impl Question for Breaking {
    type Fold = Folding;
    type Answer = Broken;
    fn bounds(&self) -> Bounds {
        (self.query.since, self.query.until)
    }
    fn fold(&self, _: usize) -> Folding {
        Folding { plan: Plan::new(self.query.clone()), windows: self.windows.clone(), is_last: self.is_last }
    }
    fn is(&self, other: &Self) -> bool {
        self.query == other.query && self.windows == other.windows
    }
    fn stored(&self) -> Result<stored::Wanted, String> {
        from_rollup::is_answered(&self.query)?;
        Ok(stored::Wanted {
            since: self.query.since,
            until: self.query.until,
            tables: stored::Tables::Requests,
            ..Default::default()
        })
    }
    fn is_exact(&self, held: &Rollup) -> bool {
        let dims = self.query.by.iter().chain(self.query.filters.iter().map(|filter| &filter.dim));
        let is_user = |dim: &Dim| matches!(dim, Dim::User | Dim::ServiceAccount | Dim::Client);
        self.windows.is_none() && held.is_exact(dims.copied().any(|dim| is_user(&dim)))
    }
    fn of_rollup(&self, rollup: Rollup) -> Result<Broken, String> {
        Ok((from_rollup::breakdown(&self.query, &rollup)?, Vec::new()))
    }
    fn cache_use(&self) -> super::logs::CacheUse {
        let is_same = self.windows.is_none() && from_rollup::is_exact(&self.query);
        if is_same { super::logs::CacheUse::IfCheap } else { super::logs::CacheUse::Never }
    }
    fn of_kept(&self, rollup: Rollup) -> Option<Broken> {
        Some((from_rollup::exact(&self.query, &rollup)?, Vec::new()))
    }
}

/// Counts.
pub(super) struct Folding {
    plan: Plan,
    windows: Option<Arc<Windows>>,
    is_last: bool,
}

impl Fold for Folding {
    type Worker<'f> = Counting<'f>;
    type Batch = Batch;
    type State = Traffic;
    type Answer = Broken;
    fn worker(&self) -> Counting<'_> {
        Counting(self.plan.fold(), self.windows.clone().map(Seen::new))
    }
    fn begin(&self) -> Traffic {
        Traffic::default()
    }
    fn take(&self, traffic: &mut Traffic, delivery: Delivery<Batch>) {
        if let Delivery::Block { batch, .. } = delivery {
            traffic.take(batch);
        }
    }
    fn finish(&self, traffic: Traffic, workers: Vec<Counting<'_>>) -> Broken {
        let (folds, seen): (Vec<_>, Vec<_>) = workers.into_iter().map(|worker| (worker.0, worker.1)).unzip();
        let breakdown = traffic.finish(&self.plan, &folds);
        if self.is_last {
            // Giving back row by row what was counted takes a tenth of the time.
            std::mem::forget(folds);
        }
        (breakdown, seen.into_iter().flatten().collect())
    }
}

/// Reads the logs and counts; says what was lost. What was counted is not given back if this is the last that the
/// program reads.
pub(super) fn read(
    query: &Query,
    found: Found,
    metrics: Option<(Arc<Windows>, &Facts)>,
    is_last: bool,
    context: &mut Context<'_>,
) -> Result<(Breakdown, Reading), Error> {
    let streams = found.streams.iter().map(|s| (s.stream.cluster.clone(), s.stream.instance.clone())).collect();
    let windows = metrics.as_ref().map(|(windows, _)| Arc::clone(windows));
    let asked = Breaking { query: query.clone(), windows, is_last };
    let (told, outcome) = ask(found.streams, asked, context)?;
    if outcome.total().unfinished_lines > 0 && context.settings.verbose {
        context.say("the last line of an input is not finished; it was left out, as the log may still be written")?;
    }
    let spans: Vec<_> = outcome.coverage.iter().map(|coverage| coverage.first.zip(coverage.last)).collect();
    let against_metrics = metrics.and_then(|(windows, facts)| Comparison::new(&windows, &told.1, facts, &spans));
    let Outcome { inputs, losses, coverage } = outcome;
    let reading = Reading { inputs, losses, coverage, streams, server: None, against_metrics, flow: None };
    let breakdown = Arc::try_unwrap(told).map_or_else(|shared| shared.0.clone(), |(breakdown, _)| breakdown);
    Ok((breakdown, reading))
}

/// The fold of analysis as a worker of the source's pass.
pub(super) struct Counting<'p>(pub(super) analysis::Fold<'p>, pub(super) Option<Seen>);

impl Worker for Counting<'_> {
    type Batch = Batch;
    #[inline]
    fn event(&mut self, event: Timed<'_, '_>) {
        if let Some(seen) = &mut self.1 {
            seen.event(&event);
        }
        self.0.event(event);
    }
    fn flush(&mut self) -> Batch {
        self.0.flush()
    }
}

fn interval(text: &str) -> Result<Micros, Error> {
    match parse_duration(text) {
        Some(length) if length >= SECOND && length % SECOND == 0 => Ok(length),
        _ => {
            Err(Error::Usage(format!("--interval {text}: an interval is a whole number of seconds, e.g. 10s, 5m, 1h")))
        }
    }
}

/// The shortest round interval that makes no more than 60 of the span.
pub(super) fn interval_for(span: Micros) -> Micros {
    const STEPS: [i64; 11] = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 86_400];
    STEPS.iter().map(|step| step * SECOND).find(|step| span / step < 60).unwrap_or(7 * 86_400 * SECOND)
}

fn check_sort_field(args: &question::Traffic, context: &Context<'_>) -> Result<(), Error> {
    let dims = args.by.iter().map(String::as_str);
    let base = BASE_FIELDS.iter().copied().filter(|_| !args.baseline.is_empty());
    let time = args.series.then_some("time");
    let mut fields: Vec<&str> = time.into_iter().chain(dims).chain(FIELDS).chain(base).collect();
    fields.dedup();
    context.sort_by(&fields).map(drop)
}

/// The apiservers' version, as given or as a bundle says, and where it is known from.
pub(super) fn server_version(given: Option<&str>, bundle: Option<&Bundle>) -> Result<Option<Version>, Error> {
    if let Some(version) = given {
        Minor::parse(version)
            .ok_or_else(|| Error::Usage(format!("--k8s-version {version}: expected something like v1.34")))?;
        return Ok(Some((version.to_owned(), "--k8s-version")));
    }
    let of_bundle = bundle.map(|bundle| bundle.kubernetes_version.clone());
    Ok(of_bundle.filter(|version| Minor::parse(version).is_some()).map(|version| (version, "bundle.yaml")))
}
