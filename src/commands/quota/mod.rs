//! `plimsoll quota`: what quotas should be, and what is wrong with them.

mod alert;
mod api;
mod check;
pub mod inputs;
mod lint;
mod propose;

use crate::cli::{Context, Error};
use clap::Subcommand;

/// Arguments of `plimsoll quota`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: QuotaCommand,
}

#[derive(Debug, Subcommand)]
enum QuotaCommand {
    /// What each namespace's quota should be: the peak of what was used, and headroom.
    Propose(Box<propose::Args>),
    /// How full quotas are, and when they will be full; exit code 1 where one is critical.
    Check(Box<check::Args>),
    /// Tell owners whose quotas come near their limits: by mail, Slack, webhook or Alertmanager, in working hours, for
    /// cron.
    Alert(Box<alert::Args>),
    /// What is wrong with quotas, requests and limits as they stand.
    Lint(Box<lint::Args>),
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    match &args.command {
        QuotaCommand::Propose(args) => propose::run(args, context),
        QuotaCommand::Check(args) => check::run(args, context),
        QuotaCommand::Alert(args) => alert::run(args, context),
        QuotaCommand::Lint(args) => lint::run(args, context),
    }
}
