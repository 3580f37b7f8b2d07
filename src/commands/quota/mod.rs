//! `plimsoll quota`: proposals, checks, alerts and lint.

mod alert;
mod api;
mod check;
mod lint;
mod propose;

use crate::analysis::answer::Answer;
use crate::cli::{Context, Error};
use crate::model::question::Question;
use crate::model::time::Micros;
use clap::Subcommand;

/// Arguments of `plimsoll quota`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: QuotaCommand,
}

#[derive(Debug, Subcommand)]
enum QuotaCommand {
    /// Propose quotas: peak of usage plus headroom.
    Propose(Box<propose::Args>),
    /// Check how full quotas are; exit code 1 if critical.
    Check(Box<check::Args>),
    /// Alert owners of quotas that are nearly full.
    Alert(Box<alert::Args>),
    /// Find mistakes in quotas, requests and limits.
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

impl Args {
    /// What the flags ask of files; `None` for commands that do something else.
    pub fn question(&self, now: Micros) -> Result<Option<Question>, Error> {
        Ok(Some(match &self.command {
            QuotaCommand::Propose(args) => Question::QuotaPropose(args.question(now)?),
            QuotaCommand::Check(args) => Question::QuotaCheck(args.question(now)?),
            QuotaCommand::Lint(args) => Question::QuotaLint(args.question(now)?),
            QuotaCommand::Alert(_) => return Ok(None),
        }))
    }
}

/// Answers a question about quotas, of files.
pub(super) fn answer(question: &Question, context: &mut Context<'_>) -> Result<Answer, Error> {
    match question {
        Question::QuotaPropose(own) => propose::answer(own, None, None, context),
        Question::QuotaCheck(own) => check::answer(own, None, context),
        Question::QuotaLint(own) => lint::answer(own, None, context),
        _ => Err(Error::Usage("this is not a question about quotas".to_owned())),
    }
}
