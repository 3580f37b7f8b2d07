//! One file per subcommand: its arguments, and how it connects sources, analysis and views.

pub mod balance;
#[cfg(feature = "history")]
pub mod cache;
#[cfg(feature = "history")]
mod cached;
#[cfg(not(feature = "history"))]
#[path = "uncached.rs"]
mod cached;
pub mod clients;
#[cfg(feature = "live")]
pub mod collect;
pub mod compare;
pub mod controllers;
pub mod etcd;
pub mod flow;
#[cfg(feature = "history")]
pub mod forecast;
pub mod guard;
pub mod heap;
#[cfg(feature = "live")]
pub mod live;
pub mod logs;
pub mod memory;
mod messages;
pub mod pages;
#[cfg(feature = "live")]
pub mod prometheus;
pub mod quota;
#[cfg(feature = "history")]
pub mod record;
pub mod report;
#[cfg(feature = "history")]
mod rolled;
pub mod rollup;
#[cfg(feature = "history")]
pub mod rollup_files;
mod shell;
pub mod traffic;
mod traffic_follow;
mod traffic_live;
mod traffic_metrics;
#[cfg(feature = "tui")]
pub mod tui;

use crate::cli::{Context, Error};
use crate::views::Format;
use clap::Subcommand;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Who sends what to the apiserver: requests, errors, latency and peaks by any dimensions.
    Traffic(Box<traffic::Args>),
    /// How each client behaves, what is wrong with it, and what to do.
    Clients(Box<clients::Args>),
    /// What fills etcd, and how it does.
    Etcd(etcd::Args),
    /// Whether a cgroup is really full, of cache or of heap, and giving cache back.
    Memory(memory::Args),
    /// Dangerous operations: who did what, what went with it, and what would have stopped it.
    Guard(guard::Args),
    /// How evenly several apiservers carry the load, since when not, who pins it, and what would even it out.
    Balance(Box<balance::Args>),
    /// What changed between two times or two clusters, and what of it is more than noise.
    Compare(Box<compare::Args>),
    /// How the scheduler and the controllers keep up: work queues, pods that wait, leaders that change.
    Controllers(Box<controllers::Args>),
    /// One file that explains an incident: what happened, since when, who caused it, how sure that is, what to do.
    Report(Box<report::Args>),
    /// See it in the terminal: a live cluster, logs that are being written, or a bundle that is replayed.
    #[cfg(feature = "tui")]
    Tui(Box<tui::Args>),
    /// Take a bundle of a live cluster, politely: metrics, objects, seats and queues, heap and etcd where wanted.
    #[cfg(feature = "live")]
    Collect(Box<collect::Args>),
    /// What quotas should be, and what is wrong with them.
    Quota(quota::Args),
    /// When limits will be reached: quotas, nodes, seats, etcd, memory, or any series.
    #[cfg(feature = "history")]
    Forecast(Box<forecast::Args>),
    /// Keep a flight recorder: samples of a cluster into a history store.
    #[cfg(feature = "history")]
    Record(Box<record::Args>),
    /// Keep what one pass over audit logs yields, as files: the log is gone soon, its roll-up answers for it.
    #[cfg(feature = "history")]
    Rollup(rollup_files::Args),
    /// What the Go heap of an apiserver, or of any Go program, holds.
    Heap(heap::Args),
    /// List or remove the roll-ups of large audit logs that are kept across runs.
    #[cfg(feature = "history")]
    Cache(cache::Args),
    /// Print a completion script for a shell.
    Completions(shell::CompletionArgs),
    /// Print the manual page.
    Man,
}

impl Command {
    /// Runs the command.
    pub fn run(&self, context: &mut Context<'_>) -> Result<(), Error> {
        let draws =
            matches!(self, Self::Heap(args) if args.draws()) || matches!(self, Self::Etcd(args) if args.draws());
        let draws = draws || matches!(self, Self::Compare(_)) && context.settings.format == Format::Svg;
        #[cfg(feature = "history")]
        let draws = draws || matches!(self, Self::Forecast(_)) && context.settings.format == Format::Svg;
        if context.settings.format.is_of_stacks() && !draws {
            let others = "-o svg is for plimsoll forecast and plimsoll compare, -o svg and -o folded for plimsoll heap flame and plimsoll etcd flame";
            return Err(Error::Usage(others.to_owned()));
        }
        if context.settings.format == Format::Html && !matches!(self, Self::Report(_)) {
            return Err(Error::Usage("-o html is for plimsoll report".to_owned()));
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
            Self::Forecast(args) => forecast::run(args, context),
            #[cfg(feature = "history")]
            Self::Record(args) => record::run(args, context),
            #[cfg(feature = "history")]
            Self::Rollup(args) => rollup_files::run(args, context),
            Self::Heap(args) => heap::run(args, context),
            #[cfg(feature = "history")]
            Self::Cache(args) => cache::run(args, context),
            Self::Completions(args) => shell::completions(args, context),
            Self::Man => shell::man(context),
        }
    }
}
