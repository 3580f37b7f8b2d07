//! One file per subcommand: its arguments, and how it connects sources, analysis and views.

pub mod etcd;
mod etcd_extract;
#[cfg(feature = "live")]
mod etcd_pull;
mod etcd_usage;
pub mod heap;
#[cfg(feature = "live")]
pub mod live;
pub mod memory;
mod pages;
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
    /// What fills etcd, and how it does.
    Etcd(etcd::Args),
    /// Whether a cgroup is really full, of cache or of heap, and giving cache back.
    Memory(memory::Args),
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
        if context.settings.format.is_of_stacks() && !matches!(self, Self::Heap(args) if args.draws()) {
            return Err(Error::Usage("-o svg and -o folded are for plimsoll heap flame".to_owned()));
        }
        match self {
            Self::Traffic(args) => traffic::run(args, context),
            Self::Etcd(args) => etcd::run(args, context),
            Self::Memory(args) => memory::run(args, context),
            Self::Heap(args) => heap::run(args, context),
            Self::Completions(args) => shell::completions(args, context),
            Self::Man => shell::man(context),
        }
    }
}
