//! `plimsoll quota`: what quotas should be, and what is wrong with them.

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
