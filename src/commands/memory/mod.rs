//! `plimsoll memory`: memory of cgroups, and reclaim.

mod reclaim;
mod show;
pub(super) mod watch;

use crate::analysis::answer::Answer;
use crate::cli::{Context, Error};
use crate::model::question::{self, Question};
use crate::model::time::Micros;

/// Arguments of `plimsoll memory`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what cgroups hold, their headroom, and a verdict.
    Show(Box<show::Args>),
    /// Watch cgroups: rates, pressure, a chart, findings.
    Watch(Box<watch::Args>),
    /// Reclaim page cache; a dry run without --yes.
    Reclaim(Box<reclaim::Args>),
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    match &args.command {
        Command::Show(args) => show::run(args, context),
        Command::Watch(args) => watch::run(args, context),
        Command::Reclaim(args) => reclaim::run(args, context),
    }
}

impl Args {
    /// What the flags ask; `None` for commands that do something else.
    pub fn question(&self, now: Micros) -> Result<Option<Question>, Error> {
        match &self.command {
            Command::Show(args) => Ok(Some(Question::MemoryShow(args.question(now)?))),
            _ => Ok(None),
        }
    }
}

/// Answers `memory show`.
pub(super) fn answer(question: &question::MemoryShow, context: &mut Context<'_>) -> Result<Answer, Error> {
    show::answer(question, context).map(Answer::of)
}
