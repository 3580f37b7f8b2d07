//! Flags of `plimsoll traffic`, and what they come to: a question, dimensions, intervals, how it is shown.

use crate::analysis::filter::Filter;
use crate::analysis::traffic::report::Shape;
use crate::cli::{Context, Error, KubeFlags, TimeFlags, parse_every};
use crate::inputs::flow::FlowFlags;
use crate::model::problem::Problem;
use crate::model::question::{self, Kind};
use crate::model::time::{DAY, Micros, SECOND};
use crate::model::units::parse_duration;
use std::str::FromStr;
use std::time::Duration;

/// Arguments of `plimsoll traffic`.
#[derive(Debug, clap::Args)]
#[command(after_help = "DIMENSIONS
  of audit logs: verb resource group subresource namespace name user serviceaccount agent agent-version
    source-ip node code code-class instance cluster scope list-kind stage minute flow_schema priority_level
  of metrics: verb resource group version subresource scope code component instance cluster, or
    flow_schema priority_level instance cluster

EXAMPLES
  plimsoll traffic audit.log --by verb,resource,user
  plimsoll traffic /var/log/kubernetes/ --by agent --where verb=list \\
    --where 'resource!=leases' --since -1h
  kubectl logs -n kube-system kube-apiserver-0 | plimsoll traffic - --by user \\
    --series
  plimsoll traffic /var/log/kubernetes/ --follow --every 5s --by user
  plimsoll traffic after/ --baseline before/ --by user --sort-by rps_change
  plimsoll traffic --context prod --by verb,resource --follow
  kubectl get --raw /metrics | plimsoll traffic - --by verb,resource
  plimsoll traffic bundle/ --from metrics --health")]
pub struct Args {
    /// Files of audit logs or metrics pages (plain, .gz, .zst), folders, globs, bundles, datasets, URLs, - for stdin.
    /// Without any: the metrics of all apiservers that the kubeconfig can name.
    #[arg(value_name = "SOURCE")]
    pub(super) sources: Vec<String>,
    /// Break down by these dimensions.
    #[arg(long, value_delimiter = ',', default_value = "verb,resource", value_name = "DIM,…")]
    pub(super) by: Vec<String>,
    /// Count only requests that meet the condition (repeatable, all must hold): DIM=VALUE, !=, =~REGEX, !~, >, >=, <,
    /// <=.
    #[arg(long = "where", value_name = "EXPR")]
    pub(super) filters: Vec<String>,
    /// Which kind to read if the sources hold both (default: audit logs).
    #[arg(long, value_enum, value_name = "KIND")]
    pub(super) from: Option<Kind>,
    /// With metrics: show control-plane health (priority levels, objectives, LISTs, watches, webhooks, objects) in
    /// place of the rows.
    #[arg(long, conflicts_with_all = ["series", "baseline", "follow"])]
    pub(super) health: bool,
    #[command(flatten)]
    time: TimeFlags,
    #[command(flatten)]
    pub(super) follow: FollowFlags,
    /// Split by time: one table per interval, and each row's trend as bars.
    #[arg(long, conflicts_with = "follow")]
    pub(super) series: bool,
    /// With --series: length of an interval (10s, 5m, 1h) [default: by the log's length].
    #[arg(long, value_name = "DURATION", requires = "series")]
    interval: Option<String>,
    /// Compare with this source, and show the change of each row.
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["series", "follow"])]
    baseline: Vec<String>,
    /// The apiservers' version, for example v1.34; decides whether cache or etcd answers a LIST (default: the
    /// bundle's).
    #[arg(long, value_name = "VERSION", env = "PLIMSOLL_K8S_VERSION")]
    k8s_version: Option<String>,
    #[command(flatten)]
    pub(super) flow: FlowFlags,
    #[command(flatten)]
    pub(super) kube: KubeFlags,
}

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

/// How a breakdown is to be shown. Another command that asks may want the rows that people are not shown.
pub(super) fn shape(context: &Context<'_>) -> Shape {
    Shape { sort_by: context.settings.sort_by.clone(), top: context.settings.top, shown_only: !context.is_composing() }
}

/// `--by` and `--where` as dimensions of what is read.
pub(super) fn dims<D: FromStr<Err = Problem>>(question: &question::Traffic) -> Result<(Vec<D>, Vec<Filter<D>>), Error> {
    let usage = |flag: &'static str| move |problem: Problem| Error::usage(problem.at(flag));
    let by = question.by.iter().map(|text| text.parse().map_err(usage("--by"))).collect::<Result<_, _>>()?;
    let filters =
        question.filters.iter().map(|text| text.parse().map_err(usage("--where"))).collect::<Result<_, _>>()?;
    Ok((by, filters))
}

fn interval(text: &str) -> Result<Micros, Error> {
    match parse_duration(text) {
        Some(length) if length >= SECOND && length % SECOND == 0 => Ok(length),
        _ => Err(Error::Usage(format!("--interval {text}: not a whole number of seconds; write 10s, 5m, 1h"))),
    }
}

/// The shortest round interval that makes no more than 60 of the span.
pub(super) fn interval_for(span: Micros) -> Micros {
    const STEPS: [i64; 11] = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 86_400];
    STEPS.iter().map(|step| step * SECOND).find(|step| span / step < 60).unwrap_or(7 * DAY)
}

/// Flags of `plimsoll traffic --follow`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct FollowFlags {
    /// Follow logs as they grow and rotate, or scrape a live cluster repeatedly, and print the totals so far each
    /// time.
    #[arg(long)]
    follow: bool,
    /// Interval of printing and scraping [default: 10s].
    #[arg(long, value_name = "DURATION")]
    every: Option<String>,
    /// Stop after this duration [default with --follow: run until SIGINT or SIGTERM; for a live cluster without
    /// --follow: after the second page].
    #[arg(long = "for", value_name = "DURATION")]
    length: Option<String>,
}

impl FollowFlags {
    /// Whether to follow.
    pub(super) fn wanted(&self) -> bool {
        self.follow
    }

    /// Whether a time was given.
    pub(super) fn is_timed(&self) -> bool {
        self.every.is_some() || self.length.is_some()
    }

    /// `--every`.
    pub(super) fn every(&self) -> Result<Duration, Error> {
        duration("--every", self.every.as_deref().unwrap_or("10s"))
    }

    /// `--for`.
    pub(super) fn length(&self) -> Result<Option<Duration>, Error> {
        self.length.as_deref().map(|text| duration("--for", text)).transpose()
    }
}

fn duration(flag: &str, text: &str) -> Result<Duration, Error> {
    parse_every(text).map_err(|what| Error::Usage(format!("{flag} {text}: {what}")))
}
