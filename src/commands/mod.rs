//! One file per subcommand: its arguments, and how it connects sources, analysis and views.

pub mod clients;
pub mod etcd;
pub mod flow;
pub mod heap;
#[cfg(feature = "live")]
pub mod live;
pub mod memory;
mod pages;
#[cfg(feature = "live")]
pub mod prometheus;
pub mod quota;
#[cfg(feature = "history")]
pub mod record;
pub mod rollup;
mod shell;
pub mod traffic;
mod traffic_follow;
mod traffic_live;
mod traffic_metrics;

use crate::cli::{Context, Error};
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
    /// What quotas should be, and what is wrong with them.
    Quota(quota::Args),
    /// Keep a flight recorder: samples of a cluster into a history store.
    #[cfg(feature = "history")]
    Record(Box<record::Args>),
    /// What the Go heap of an apiserver, or of any Go program, holds.
    Heap(heap::Args),
    /// Print a completion script for a shell.
    Completions(shell::CompletionArgs),
    /// Print the manual page.
    Man,
}

impl Command {
    /// Runs the command.
    pub fn run(&self, context: &mut Context<'_>) -> Result<(), Error> {
        let draws = matches!(self, Self::Heap(args) if args.draws()) || matches!(self, Self::Etcd(args) if args.draws());
        if context.settings.format.is_of_stacks() && !draws {
            return Err(Error::Usage("-o svg and -o folded are for plimsoll heap flame and plimsoll etcd flame".to_owned()));
        }
        match self {
            Self::Traffic(args) => traffic::run(args, context),
            Self::Clients(args) => clients::run(args, context),
            Self::Etcd(args) => etcd::run(args, context),
            Self::Memory(args) => memory::run(args, context),
            Self::Quota(args) => quota::run(args, context),
            #[cfg(feature = "history")]
            Self::Record(args) => record::run(args, context),
            Self::Heap(args) => heap::run(args, context),
            Self::Completions(args) => shell::completions(args, context),
            Self::Man => shell::man(context),
        }
    }
}
