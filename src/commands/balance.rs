//! `plimsoll balance`: how evenly several apiservers carry the load.

use super::show;
use crate::analysis::answer::Answer;
use crate::analysis::balance::report::{BalanceInput, Loaded, report};
use crate::analysis::balance::{Fleet, add_pages, client_loads, of_logs, of_pages, short_pages};
use crate::analysis::metrics::Retention;
use crate::cli::{Context, Error, FailOn, TimeFlags, length_parser};
use crate::inputs::rollup::{self, Covered};
use crate::inputs::selection::Selection;
use crate::inputs::{found, pages};
use crate::model::event::called;
use crate::model::question;
use crate::model::time::{Micros, SECOND};
use crate::sources::wanted::Wanted;

/// Arguments of `plimsoll balance`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # logs and metrics of all apiservers
  plimsoll balance bundle/
  plimsoll balance /var/log/kubernetes/*/audit.log --since -1h
  # metrics alone: no clients
  plimsoll balance scrapes/
  # for cron: 1 where one apiserver carries too much
  plimsoll balance bundle/ --fail-on warning

The skew is the busiest's share times the number of apiservers: 1 is even, their number is all on one. What \
--goaway-chance is expected to
do, and what it takes for granted: docs/commands/balance.md.")]
pub struct Args {
    /// Audit logs and metrics pages of all apiservers: files, folders, globs, bundles.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// Consider only requests that meet the condition (repeatable, all must hold): DIM=VALUE, !=, =~REGEX, !~, >, >=,
    /// <, <=. DIM is as for clients.
    #[arg(long = "where", value_name = "EXPR")]
    filters: Vec<String>,
    /// Recommend a kube-apiserver --goaway-chance that balances the load within this time.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = length_parser(1, "10m, 1h"))]
    within: Micros,
    #[command(flatten)]
    time: TimeFlags,
}

impl Args {
    /// What the flags ask.
    pub fn question(&self, now: Micros) -> Result<question::Balance, Error> {
        Ok(question::Balance {
            sources: self.sources.clone(),
            filters: self.filters.clone(),
            within: self.within,
            bounds: self.time.resolve(now).map_err(Error::Usage)?,
        })
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    context.refuse_sort("clients are sorted by imbalance; sort the output of -o csv or -o json")?;
    let question = args.question(context.io.now)?;
    show(answer(&question, context)?, FailOn::Never, context)
}

/// Answers the question.
pub(super) fn answer(question: &question::Balance, context: &mut Context<'_>) -> Result<Answer, Error> {
    let (since, until) = question.bounds;
    let filters = rollup::conditions_on_clients(&question.filters, "")?;
    let mut found = found::find(&question.sources, Wanted::Both, context)?;
    pages::keep(&mut found.pages, since, until);
    let (facts, read) = pages::facts(std::mem::take(&mut found.pages), Retention::Requests, context)?;
    let mut input = BalanceInput {
        inputs: read.inputs,
        top: context.settings.asked_top(),
        within: question.within as f64 / SECOND as f64,
        has_logs: !found.streams.is_empty(),
        ..BalanceInput::default()
    };
    let fleets: Vec<Loaded> =
        if found.streams.is_empty() {
            if !filters.is_empty() {
                return Err(Error::Usage("--where requires audit logs: metrics do not identify clients".to_owned()));
            }
            let fleets = of_pages(&facts);
            input.partial = short_pages(&facts);
            fleets.into_iter().map(|fleet| (fleet, Vec::new())).collect()
        } else {
            let logs: Vec<(String, String)> =
                found.streams.iter().map(|own| (own.stream.cluster.clone(), own.stream.instance.clone())).collect();
            let empty = std::mem::take(&mut found.empty_logs);
            let is_filtered = !filters.is_empty();
            let (rollup, outcome) =
                rollup::read(found.streams, &Selection { since, until, filters, ..Selection::default() }, context)?;
            let spans: Vec<Covered> =
                logs.iter().zip(&outcome.coverage).map(|(log, own)| (log.clone(), own.first.zip(own.last))).collect();
            input.partial = rollup::short_logs(&spans, since.zip(until));
            input.notes.extend(rollup.folded_in_words());
            input.notes.extend(empty.iter().map(|(_, name)| format!("The log of {} is empty.", called(name))));
            input.inputs = outcome.inputs.into_iter().chain(input.inputs).collect();
            let all: Vec<(String, String)> = logs.iter().cloned().chain(empty).collect();
            let mut fleets = of_logs(&rollup, &all, is_filtered);
            for ((cluster, instance), span) in &spans {
                fleets.iter_mut().filter(|fleet| fleet.cluster == *cluster).for_each(|own| own.cover(instance, *span));
            }
            // What metrics show is of everybody.
            if !is_filtered {
                let unlogged = add_pages(&mut fleets, &facts);
                input.partial.extend(unlogged.iter().map(|name| {
                    format!("{} has metrics but no log, so the others' share appears larger.", called(name))
                }));
            }
            let with_clients = |fleet: Fleet| {
                let clients = client_loads(&rollup, &fleet.cluster);
                (fleet, clients)
            };
            fleets.into_iter().map(with_clients).collect()
        };
    if fleets.is_empty() {
        return Err(Error::Input(format!(
            "{}: no data of an apiserver within the window",
            question.sources.join(", ")
        )));
    }
    Ok(Answer::of(report(&fleets, input)))
}
