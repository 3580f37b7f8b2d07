//! `plimsoll budget`: what a client may ask of the apiserver, checked against logs.

use crate::actions::fresh::replace;
use crate::analysis::budget::check::{check, client, has_ended};
use crate::analysis::budget::report::{BudgetInput, report};
use crate::analysis::budget::{Wanted, proposed, usage};
use crate::analysis::clients::cost::SizeContext;
use crate::analysis::clients::{Clients, named};
use crate::analysis::metrics::Retention;
use crate::analysis::metrics::facts::Facts;
use crate::analysis::rollup::Rollup;
use crate::cli::{Context, Error, FailOn, TimeFlags, parse_tenfold_share};
use crate::inputs::selection::Selection;
use crate::inputs::{found, pages, rollup};
use crate::model::budget::{Checked, Verdict};
use crate::model::input::InputReport;
use crate::sources::budget;
use crate::sources::wanted;
use crate::views::junit;
use crate::views::text::plain;
use clap::Subcommand;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `plimsoll budget`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: BudgetCommand,
}

#[derive(Debug, Subcommand)]
enum BudgetCommand {
    /// Check what clients did against their budgets.
    Check(Box<CheckArgs>),
    /// Write a budget for what a client does today.
    Init(Box<InitArgs>),
}

/// Arguments of `plimsoll budget check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # in CI: the audit log of a test cluster, and the controller's own metrics
  plimsoll budget check budget.yaml audit.log controller-metrics.txt
  # for the pull request, and for the CI system
  plimsoll budget check budget.yaml artifacts/ --junit budget.xml -o markdown
  # all budgets of a fleet, by the store that record keeps
  plimsoll budget check budgets.yaml /var/lib/plimsoll --since -1d

Exit codes: 0 all within, 1 a limit is exceeded, 3 a limit could not be checked: verbs or bodies are not in the log.
The form of a budget, how each rule counts, and logs of envtest and kind: docs/commands/budget.md.")]
struct CheckArgs {
    /// The file with one budget or several.
    #[arg(value_name = "BUDGET.yaml")]
    budget: PathBuf,
    /// Audit logs, roll-ups, stores, bundles; metrics pages of the clients beside them.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
    /// Write the result as JUnit XML to this file, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Arguments of `plimsoll budget init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll budget init audit.log --client ci:deploy-bot > budget.yaml
  plimsoll budget init bundle/ --client my-operator --owner team-a \\
    --metrics my-operator --headroom 50%

Limits that the sources can't show are left out; a comment names what is missing.")]
struct InitArgs {
    /// Audit logs, roll-ups, stores, bundles; metrics pages of the client beside them.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
    /// The client: a user, a service account as NAMESPACE:NAME, or an agent that only one user runs.
    #[arg(long, value_name = "CLIENT")]
    client: String,
    /// Only requests by this agent product.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Name of the folder or file with the client's own metrics pages.
    #[arg(long, value_name = "NAME")]
    metrics: Option<String>,
    /// Who answers for the client.
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Allow this much more than was used.
    #[arg(long, value_name = "PCT", default_value = "20%", value_parser = parse_tenfold_share)]
    headroom: f64,
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    context.refuse_sort("limits are in the order of the file")?;
    match &args.command {
        BudgetCommand::Check(args) => check_all(args, context),
        BudgetCommand::Init(args) => init(args, context),
    }
}

/// What the sources hold.
struct Read {
    rollup: Arc<Rollup>,
    facts: Facts,
    inputs: Vec<InputReport>,
    /// Whether nothing of the logs was lost.
    is_whole: bool,
}

fn read(sources: &[String], time: &TimeFlags, context: &mut Context<'_>) -> Result<Read, Error> {
    let (since, until) = time.resolve(context.io.now).map_err(Error::Usage)?;
    let mut found = found::find(sources, wanted::Wanted::Both, context)?;
    if found.streams.is_empty() {
        return Err(Error::Input(format!("{}: no audit log; metrics do not identify clients", sources.join(", "))));
    }
    let clusters = found.streams.iter().map(|own| own.stream.cluster.as_str());
    found::of_one_cluster("logs", clusters, "a budget is for what a client does in one")?;
    pages::keep(&mut found.pages, since, until);
    let (facts, pages) = pages::facts(found.pages, Retention::Controllers, context)?;
    let selection = Selection { since, until, ..Selection::default() };
    let (rollup, outcome) = rollup::read(found.streams, &selection, context)?;
    let is_whole = outcome.losses.is_empty() && pages.losses.is_empty();
    let inputs = outcome.inputs.into_iter().chain(pages.inputs).collect();
    Ok(Read { rollup, facts, inputs, is_whole })
}

fn check_all(args: &CheckArgs, context: &mut Context<'_>) -> Result<(), Error> {
    let budgets =
        budget::read(&args.budget).map_err(|problem| Error::Usage(plain(&problem.to_string()).into_owned()))?;
    let Read { rollup, facts, inputs, is_whole } = read(&args.sources, &args.time, context)?;
    let known = SizeContext::default();
    let clients = Clients::new(&rollup, None, &known);
    let mut checked: Vec<Checked> = Vec::new();
    let mut ended = Vec::new();
    for one in &budgets {
        let wanted = Wanted { user: &one.user, agent: one.agent.as_deref(), metrics: one.metrics.as_deref() };
        let mut used = usage(&rollup, &clients, &facts, &wanted);
        if !is_whole {
            used.was_damaged();
        }
        checked.extend(check(one, &used, context.io.now));
        for exception in one.exceptions.iter().filter(|exception| has_ended(exception, context.io.now)) {
            ended.push(format!(
                "The exception to {} for {} ended on {}: {}.",
                exception.rule.name(),
                client(one),
                exception.last_day,
                exception.reason
            ));
        }
    }
    if let Some(path) = &args.junit {
        let mut text = Vec::new();
        junit::write(&checked, &mut text)?;
        replace(path, &text)
            .map_err(|error| Error::Input(format!("--junit {}: {error}; choose a writable file", path.display())))?;
    }
    for one in checked.iter().filter(|one| one.verdict == Verdict::Unknown) {
        context.lost(format!("{} of {}: not checked: {}", one.rule.name(), one.client, one.detail))?;
    }
    let budgets = budgets.len() as u64;
    let report = report(BudgetInput { checked, ended, inputs, span: rollup.span, budgets });
    context.print(&report, FailOn::Critical)
}

fn init(args: &InitArgs, context: &mut Context<'_>) -> Result<(), Error> {
    let Read { rollup, facts, .. } = read(&args.sources, &args.time, context)?;
    let known = SizeContext::default();
    let clients = Clients::new(&rollup, None, &known);
    let user = named::resolve(&clients, &args.client)
        .map_err(|why| Error::Usage(plain(&format!("--client {}: {why}", args.client)).into_owned()))?;
    let wanted = Wanted { user, agent: args.agent.as_deref(), metrics: args.metrics.as_deref() };
    let used = usage(&rollup, &clients, &facts, &wanted);
    if used.span.is_none() {
        let agent = args.agent.as_deref().unwrap_or_default();
        return Err(Error::Usage(plain(&format!("--agent {agent}: no request of {user} by it")).into_owned()));
    }
    let text = proposed::document(&used, &wanted, args.owner.as_deref(), args.headroom);
    Ok(context.io.out.write_all(text.as_bytes())?)
}
