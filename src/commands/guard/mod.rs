//! `plimsoll guard`: dangerous operations.

mod events;
mod follow;
mod policies;
mod webhooks;

use crate::cli::{Context, Error};
use clap::Subcommand;

/// Arguments of `plimsoll guard`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: GuardCommand,
}

#[derive(Debug, Subcommand)]
enum GuardCommand {
    /// Who did what that can cost a cluster dear, what went with it, and what would have stopped it; from audit logs.
    Events(Box<events::Args>),
    /// ValidatingAdmissionPolicies that stop them inside the apiserver; with a SOURCE, what they would have said to what was asked.
    Policies(Box<policies::Args>),
    /// Admission webhooks: what fails when they can't be asked, which requests they are asked about, how fast they are.
    Webhooks(Box<webhooks::Args>),
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    match &args.command {
        GuardCommand::Events(args) => events::run(args, context),
        GuardCommand::Policies(args) => policies::run(args, context),
        GuardCommand::Webhooks(args) => webhooks::run(args, context),
    }
}
