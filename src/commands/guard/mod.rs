//! `plimsoll guard`: dangerous operations, episodes, policies and webhooks.

mod episodes;
mod events;
mod follow;
mod mail;
mod policies;
mod webhooks;

use crate::analysis::answer::Answer;
use crate::analysis::guard::{Batch, Watch, stored};
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::Tables;
use crate::cli::{Context, Error};
use crate::inputs::rollup::Observe;
use crate::inputs::selection::Selection;
use crate::model::event::Timed;
use crate::model::problem::Problem;
use crate::model::question::{self, Question};
use crate::model::time::Micros;
use clap::Subcommand;

/// Arguments of `plimsoll guard`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: GuardCommand,
}

#[derive(Debug, Subcommand)]
enum GuardCommand {
    /// List dangerous operations: who, what, cascade, prevention.
    Events(Box<events::Args>),
    /// List outages, incidents and surges; report them live with --follow.
    Episodes(Box<episodes::Args>),
    /// Print admission policies, or replay them over audit logs.
    Policies(Box<policies::Args>),
    /// Judge admission webhooks: failures, scope, latency.
    Webhooks(Box<webhooks::Args>),
}

/// Looks for dangerous operations among what was asked for, and beside that at what shows what they mean.
impl Observe for Watch {
    type Batch = Batch;
    type All = Batch;
    fn selected(&mut self, event: &Timed<'_, '_>) {
        self.event(event);
    }
    fn event(&mut self, event: &Timed<'_, '_>, selection: &Selection) {
        if selection.takes(event) {
            self.selected(event);
        } else if selection.until.is_none_or(|until| event.at < until) {
            self.beside(event);
        }
    }
    fn flush(&mut self) -> Batch {
        Self::flush(self)
    }
    fn take(all: &mut Batch, batch: Batch) {
        all.take(batch);
    }
    fn stored(selection: &Selection) -> Result<Tables, Problem> {
        selection.filters.iter().try_for_each(stored::is_answered)?;
        Ok(if selection.filters.is_empty() { Tables::Operations } else { Tables::OperationsOfSome })
    }
    fn of_rollup(rollup: &Rollup, selection: &Selection) -> Batch {
        stored::batch(rollup, &selection.filters)
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    match &args.command {
        GuardCommand::Events(args) => events::run(args, context),
        GuardCommand::Episodes(args) => episodes::run(args, context),
        GuardCommand::Policies(args) => policies::run(args, context),
        GuardCommand::Webhooks(args) => webhooks::run(args, context),
    }
}

impl Args {
    /// What the flags ask of files.
    pub fn question(&self, now: Micros) -> Result<Option<Question>, Error> {
        match &self.command {
            GuardCommand::Events(args) => Ok(Some(Question::GuardEvents(args.question(now)?))),
            _ => Ok(None),
        }
    }
}

/// Answers `guard events`.
pub(super) fn answer(question: &question::GuardEvents, context: &mut Context<'_>) -> Result<Answer, Error> {
    events::answer(question, context)
}
