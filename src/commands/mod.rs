//! One file per subcommand: its arguments, and how it connects sources, analysis and views.

pub mod balance;
pub mod budget;
#[cfg(feature = "history")]
pub mod cache;
pub mod clients;
#[cfg(feature = "live")]
pub mod collect;
pub mod compare;
pub mod controllers;
pub mod dashboards;
#[cfg(feature = "history")]
pub mod dataset;
pub mod engine;
pub mod etcd;
pub mod explain;
#[cfg(feature = "history")]
pub mod fleet;
#[cfg(feature = "history")]
pub mod forecast;
pub mod guard;
pub mod heap;
pub mod memory;
pub mod quota;
#[cfg(feature = "history")]
pub mod record;
pub mod report;
#[cfg(feature = "history")]
pub mod rollup_files;
#[cfg(feature = "history")]
pub mod rollup_part;
#[cfg(feature = "serve")]
pub mod serve;
mod shell;
pub mod traffic;
mod traffic_flags;
mod traffic_follow;
mod traffic_live;
mod traffic_metrics;
#[cfg(feature = "tui")]
pub mod tui;
pub mod upgrade;

use crate::analysis::answer::Answer;
use crate::cli::{Context, Error, FailOn};
use crate::model::question::Question;
use crate::views::{self, Format};
use clap::Subcommand;
use std::io::Write as _;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Break requests down by verb, resource, client and more.
    Traffic(Box<traffic_flags::Args>),
    /// Profile client behaviour: findings and remedies.
    Clients(Box<clients::Args>),
    /// Show what fills etcd, and etcd health.
    Etcd(etcd::Args),
    /// Distinguish page cache from heap in cgroups; reclaim cache.
    Memory(memory::Args),
    /// Detect dangerous operations, incidents and risky webhooks.
    Guard(guard::Args),
    /// Show load balance across apiservers, and remedies.
    Balance(Box<balance::Args>),
    /// Compare two time windows or clusters; report significant changes.
    Compare(Box<compare::Args>),
    /// Show work queues, pending pods and leader changes.
    Controllers(Box<controllers::Args>),
    /// Write one file that explains an incident.
    Report(Box<report::Args>),
    /// Explore a live cluster, logs or a bundle.
    #[cfg(feature = "tui")]
    Tui(Box<tui::Args>),
    /// Collect a bundle of a live cluster, rate-limited.
    #[cfg(feature = "live")]
    Collect(Box<collect::Args>),
    /// Propose, check and lint quotas; alert their owners.
    Quota(quota::Args),
    /// Show many clusters side by side: health, limits, offenders.
    #[cfg(feature = "history")]
    Fleet(fleet::Args),
    /// Show which clients an upgrade of Kubernetes breaks.
    Upgrade(upgrade::Args),
    /// Check what clients ask of apiservers against budgets.
    Budget(budget::Args),
    /// Forecast when quotas, nodes and etcd reach their limits.
    #[cfg(feature = "history")]
    Forecast(Box<forecast::Args>),
    /// Record samples and audit roll-ups into a store.
    #[cfg(feature = "history")]
    Record(Box<record::Args>),
    /// Export metrics, reports and answers over HTTP.
    #[cfg(feature = "serve")]
    Serve(Box<serve::Args>),
    /// Write roll-ups of audit logs as Parquet files.
    #[cfg(feature = "history")]
    Rollup(rollup_files::Args),
    /// Roll up what an engine hands to a worker.
    #[cfg(feature = "history")]
    #[command(hide = true)]
    RollupPart(rollup_part::Args),
    /// Write audit events as Parquet that any engine reads.
    #[cfg(feature = "history")]
    Dataset(dataset::Args),
    /// Write Grafana boards and Prometheus rules to a folder.
    Dashboards(dashboards::Args),
    /// Analyse heap profiles of apiservers and Go programs.
    Heap(heap::Args),
    /// Explain a finding, a metric or a term, offline.
    Explain(explain::Args),
    /// List or remove cached roll-ups of large logs.
    #[cfg(feature = "history")]
    Cache(cache::Args),
    /// Print a shell completion script.
    Completions(shell::CompletionArgs),
    /// Print the manual page, or write one for each command.
    Man(shell::ManArgs),
}

impl Command {
    /// Runs the command; `parser` is that of the whole command line.
    pub fn run(&self, parser: fn() -> clap::Command, context: &mut Context<'_>) -> Result<(), Error> {
        let draws =
            matches!(self, Self::Heap(args) if args.draws()) || matches!(self, Self::Etcd(args) if args.draws());
        let draws = draws || matches!(self, Self::Compare(_)) && context.settings.format == Format::Svg;
        #[cfg(feature = "history")]
        let draws = draws || matches!(self, Self::Forecast(_)) && context.settings.format == Format::Svg;
        if context.settings.format.is_of_stacks() && !draws {
            let others = "-o svg is only for plimsoll forecast and plimsoll compare; -o svg and -o folded only for \
                 plimsoll heap flame and plimsoll etcd flame";
            return Err(Error::Usage(others.to_owned()));
        }
        let has_page = matches!(self, Self::Report(_));
        #[cfg(feature = "history")]
        let has_page = has_page || matches!(self, Self::Fleet(_));
        if context.settings.format == Format::Html && !has_page {
            return Err(Error::Usage("-o html is only for plimsoll report and plimsoll fleet".to_owned()));
        }
        match self {
            Self::Traffic(args) => traffic::run(args, context),
            Self::Clients(args) => clients::run(args, context),
            Self::Etcd(args) => etcd::run(args, context),
            Self::Memory(args) => memory::run(args, context),
            Self::Guard(args) => guard::run(args, context),
            Self::Balance(args) => balance::run(args, context),
            Self::Compare(args) => compare::run(args, context),
            Self::Controllers(args) => controllers::run(args, context),
            Self::Report(args) => report::run(args, context),
            #[cfg(feature = "tui")]
            Self::Tui(args) => tui::run(args, context),
            #[cfg(feature = "live")]
            Self::Collect(args) => collect::run(args, context),
            Self::Quota(args) => quota::run(args, context),
            #[cfg(feature = "history")]
            Self::Fleet(args) => fleet::run(args, context),
            Self::Upgrade(args) => upgrade::run(args, context),
            Self::Budget(args) => budget::run(args, context),
            #[cfg(feature = "history")]
            Self::Forecast(args) => forecast::run(args, context),
            #[cfg(feature = "history")]
            Self::Record(args) => record::run(args, context),
            #[cfg(feature = "serve")]
            Self::Serve(args) => serve::run(args, context),
            #[cfg(feature = "history")]
            Self::Rollup(args) => rollup_files::run(args, context),
            #[cfg(feature = "history")]
            Self::RollupPart(args) => rollup_part::run(args, context),
            #[cfg(feature = "history")]
            Self::Dataset(args) => dataset::run(args, context),
            Self::Dashboards(args) => dashboards::run(args, context),
            Self::Heap(args) => heap::run(args, context),
            Self::Explain(args) => explain::run(args, context),
            #[cfg(feature = "history")]
            Self::Cache(args) => cache::run(args, context),
            Self::Completions(args) => shell::completions(args, parser(), context),
            Self::Man(args) => shell::man(args, parser(), context),
        }
    }

    /// The question that the command asks, given what time it is; `None` for commands that do something else, and for
    /// what can't be asked of files: a live cluster, a log that is followed.
    pub fn question(&self, context: &mut Context<'_>) -> Result<Option<Question>, Error> {
        let now = context.io.now;
        Ok(Some(match self {
            Self::Traffic(args) => Question::Traffic(args.question(now)?),
            Self::Clients(args) => Question::Clients(args.question(now)?),
            Self::Balance(args) => Question::Balance(args.question(now)?),
            Self::Compare(args) => Question::Compare(args.question(context)?),
            Self::Controllers(args) => Question::Controllers(args.question(now)?),
            Self::Report(args) => Question::Report(args.question(now)?),
            Self::Guard(args) => return args.question(now),
            Self::Etcd(args) => return args.question(now),
            Self::Memory(args) => return args.question(now),
            Self::Heap(args) => return args.question(now),
            Self::Quota(args) => return args.question(now),
            #[cfg(feature = "history")]
            Self::Forecast(args) => Question::Forecast(args.question(now)?),
            #[cfg(feature = "history")]
            Self::Fleet(args) => return args.question(now),
            _ => return Ok(None),
        }))
    }
}

/// Answers a question.
pub fn answer(question: &Question, context: &mut Context<'_>) -> Result<Answer, Error> {
    find(question, context).map(|answer| dated(answer, context))
}

/// Names the captures that stand for the moment that was asked for.
fn dated(mut answer: Answer, context: &mut Context<'_>) -> Answer {
    match &mut answer {
        Answer::Report(report, _) => context.date(report),
        Answer::Flame(tree) => context.date_tree(tree),
        Answer::Manifests(_) => {}
    }
    answer
}

/// The command that answers, and its answer.
fn find(question: &Question, context: &mut Context<'_>) -> Result<Answer, Error> {
    match question {
        Question::Traffic(own) => traffic::answer(own, context),
        Question::Clients(own) => clients::answer(own, context),
        Question::Balance(own) => balance::answer(own, context),
        Question::Compare(own) => compare::answer(own, context),
        Question::Controllers(own) => controllers::answer(own, context),
        Question::GuardEvents(own) => guard::answer(own, context),
        Question::EtcdUsage(_)
        | Question::EtcdFlame(_)
        | Question::EtcdTop(_)
        | Question::EtcdHistory(_)
        | Question::EtcdPages(_)
        | Question::EtcdCheck(_)
        | Question::EtcdDiff(_)
        | Question::EtcdSplit(_)
        | Question::EtcdHealth(_) => etcd::answer(question, context),
        Question::MemoryShow(own) => memory::answer(own, context),
        Question::HeapTop(own) => heap::top(own, None, context),
        Question::HeapFlame(own) => heap::flame(own, None, context),
        Question::HeapDiff(own) => heap::diff(own, context),
        Question::QuotaPropose(_) | Question::QuotaCheck(_) | Question::QuotaLint(_) => {
            quota::answer(question, context)
        }
        #[cfg(feature = "history")]
        Question::Forecast(own) => forecast::answer(own, context),
        #[cfg(not(feature = "history"))]
        Question::Forecast(_) => Err(Error::Usage("this plimsoll was built without the 'history' feature".to_owned())),
        #[cfg(feature = "history")]
        Question::Fleet(own) => fleet::answer(own, context),
        #[cfg(not(feature = "history"))]
        Question::Fleet(_) => Err(Error::Usage("this plimsoll was built without the 'history' feature".to_owned())),
        Question::Report(own) => report::answer(own, context),
    }
}

/// Prints an answer.
fn show(answer: Answer, fail_on: FailOn, context: &mut Context<'_>) -> Result<(), Error> {
    match dated(answer, context) {
        Answer::Report(report, _) => context.print(&report, fail_on),
        Answer::Flame(tree) => {
            let form = context.settings.format.of_flame().unwrap_or(Format::Svg);
            Ok(views::flame::draw(&tree, form, &mut context.io.out)?)
        }
        Answer::Manifests(text) => {
            context.io.out.write_all(text.as_bytes())?;
            Ok(context.io.out.flush()?)
        }
    }
}
