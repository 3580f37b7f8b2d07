//! `plimsoll fleet`: many clusters side by side.

#[cfg(feature = "live")]
mod contexts;
mod read;
mod sources;

use crate::analysis::answer::Answer;
use crate::analysis::fleet::ClusterState;
use crate::analysis::fleet::report::{FIELDS, FleetInput, report};
use crate::analysis::list_route::Minor;
use crate::cli::{Context, Error, FailOn, Settings, TimeFlags, side_by_side, silent};
use crate::inputs::found;
use crate::model::input::InputReport;
use crate::model::question::{self, Fleet};
use crate::model::report::Report;
use crate::model::time::{Bounds, Micros};
use crate::model::units::counted;
pub(super) use sources::{NamedCluster, several};
use std::collections::BTreeMap;
use std::path::Path;

/// Arguments of `plimsoll fleet`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # each store, bundle or roll-up below a folder is a cluster
  plimsoll fleet /var/lib/plimsoll/clusters/
  # names of your own; two sources of one cluster
  plimsoll fleet eu=eu/logs eu=eu/scrapes us=us.tar.zst
  # who breaks with 1.37, and where
  plimsoll fleet stores/ --to 1.37 --sort-by blocked_clients
  # clusters that answer now
  plimsoll fleet --contexts 'prod-*'
  # for cron: exit code 1 where a cluster had an outage or incident
  plimsoll fleet stores/ --fail-on critical
  # one page for a browser; in the terminal: plimsoll tui stores/
  plimsoll fleet stores/ -o html > fleet.html

What each column tells, and what it needs: docs/commands/fleet.md.")]
pub struct Args {
    /// Stores of record or serve, roll-ups, bundles, logs, metrics pages: a cluster each; NAME=SOURCE names it.
    #[cfg_attr(feature = "live", arg(value_name = "SOURCE", required_unless_present = "contexts"))]
    #[cfg_attr(not(feature = "live"), arg(value_name = "SOURCE", required = true))]
    sources: Vec<String>,
    #[cfg(feature = "live")]
    #[command(flatten)]
    live: contexts::ContextFlags,
    /// Version to upgrade to, for BLOCKS [default: the one after each cluster's].
    #[arg(long, value_name = "VERSION", value_parser = found::parse_version)]
    to: Option<Minor>,
    /// Without --since the last 24 hours of each cluster's data.
    #[command(flatten)]
    time: TimeFlags,
}

/// What is asked of each cluster.
#[derive(Debug)]
struct Bounded {
    bounds: Bounds,
    to: Option<Minor>,
    /// How far is looked ahead for limits.
    horizon: Micros,
}

/// What came of a cluster, and what was lost on the way.
type Outcome = (ClusterState, Vec<String>);

impl Args {
    /// What the flags ask; `None` of clusters that answer now.
    pub fn question(&self, now: Micros) -> Result<Option<question::Question>, Error> {
        #[cfg(feature = "live")]
        if self.live.is_some() {
            return Ok(None);
        }
        Ok(Some(question::Question::Fleet(self.fleet(now)?)))
    }

    fn fleet(&self, now: Micros) -> Result<Fleet, Error> {
        Ok(Fleet {
            sources: self.sources.clone(),
            bounds: self.time.resolve(now).map_err(Error::Usage)?,
            to: self.to.map(|Minor(minor)| format!("1.{minor}")),
        })
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let question = args.fleet(context.io.now)?;
    // What is wrong with it is told before clusters are asked.
    #[cfg_attr(not(feature = "live"), expect(unused_mut, reason = "no cluster is asked"))]
    let (asked, mut named) = prepared(&question, context)?;
    #[cfg(feature = "live")]
    let _pages = contexts::take(&args.live, context)?.map(|(live, pages)| {
        named.extend(live);
        pages
    });
    let report = reported(&named, &asked, context)?;
    context.print(&report, FailOn::Never)
}

/// Answers the question.
pub(super) fn answer(question: &Fleet, context: &mut Context<'_>) -> Result<Answer, Error> {
    let (asked, named) = prepared(question, context)?;
    Ok(Answer::of(reported(&named, &asked, context)?))
}

/// What is asked of each cluster, and which are read from files.
fn prepared(question: &Fleet, context: &Context<'_>) -> Result<(Bounded, Vec<NamedCluster>), Error> {
    context.sort_by(&FIELDS)?;
    let Fleet { sources, bounds, to } = question;
    if let Some(pipe) = sources.iter().find(|source| *source == "-" || source.ends_with("=-")) {
        return Err(Error::Usage(format!("{pipe}: a fleet is read from files and folders, not from a pipe")));
    }
    if let Some(name) = sources.iter().find(|source| source.ends_with('=') && !Path::new(source).exists()) {
        return Err(Error::Usage(format!("{name}: a source must follow the name, as in {name}prod.tar.zst")));
    }
    let to = to.as_deref().map(found::parse_version).transpose().map_err(Error::Usage)?;
    let asked = Bounded { bounds: *bounds, to, horizon: question::Forecast::default().horizon };
    Ok((asked, sources::clusters(sources)))
}

/// What clusters come to.
fn reported(named: &[NamedCluster], asked: &Bounded, context: &mut Context<'_>) -> Result<Report, Error> {
    let sort_by = context.sort_by(&FIELDS)?;
    let outcomes = read_all(named, asked, context);
    let mut clusters = Vec::new();
    let mut inputs = Vec::new();
    for ((cluster, losses), own) in outcomes.into_iter().zip(named) {
        for loss in &losses {
            context.lost(format!("{}: {loss}", cluster.name))?;
        }
        if !cluster.problem.is_empty() {
            context.lost(format!("{}: {}", cluster.name, cluster.problem))?;
        }
        inputs.push(InputReport {
            path: own.shown(),
            kind: "cluster",
            records: cluster.clients.iter().flatten().map(|client| client.requests).sum(),
            skipped: losses.len() as u64,
            first_error: losses.first().or(Some(&cluster.problem).filter(|own| !own.is_empty())).cloned(),
            ..InputReport::default()
        });
        clusters.push(cluster);
    }
    let problems: Vec<&str> = clusters.iter().map(|own| own.problem.as_str()).collect();
    if problems.iter().all(|problem| !problem.is_empty()) {
        return Err(Error::Input("none of the clusters could be read".to_owned()));
    }
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    clusters.iter().for_each(|own| *times.entry(own.name.as_str()).or_default() += 1);
    for (name, count) in times.into_iter().filter(|own| own.1 > 1) {
        context.notice(format!(
            "{} are called {name}, and are taken for as many clusters; if they are one, name it before each: \
             {name}=SOURCE",
            counted(count, "source")
        ))?;
    }
    let (now, top) = (context.io.now, context.settings.asked_top());
    let input = FleetInput { clusters, inputs, now, horizon: asked.horizon, top, sort_by };
    Ok(report(input))
}

/// Reads all clusters, several at a time.
fn read_all(named: &[NamedCluster], asked: &Bounded, context: &Context<'_>) -> Vec<Outcome> {
    let workers = context.settings.threads.clamp(1, named.len().max(1));
    let mut settings = context.settings.clone();
    settings.threads = (context.settings.threads / workers).max(1);
    let (now, shown) = (context.io.now, ("clusters", context.settings.progress));
    side_by_side(named, workers, shown, |own| read_one(own, asked, &settings, now))
}

fn read_one(own: &NamedCluster, asked: &Bounded, settings: &Settings, now: Micros) -> Outcome {
    if let Some(problem) = &own.problem {
        let name = own.name.clone().unwrap_or_default();
        return (ClusterState::unread(name, own.shown(), problem.clone()), Vec::new());
    }
    let ask = |context: &mut Context<'_>| {
        context.report_losses_once();
        let read = read::read(own, asked, context);
        let losses = own.losses.iter().map(String::as_str).chain(context.losses());
        (read, losses.map(str::to_owned).collect::<Vec<String>>())
    };
    let ((read, losses), _) = silent(settings, now, ask);
    match read {
        Ok(state) => (state, losses),
        Err(error) => {
            let name = own.name.clone().unwrap_or_else(|| read::place(own));
            let problem = error.message().unwrap_or_else(|| "could not be read".to_owned());
            (ClusterState::unread(name, own.shown(), problem), losses)
        }
    }
}
