//! `plimsoll guard events`: a timeline of dangerous operations.

use super::follow::{self, FollowFlags};
use crate::analysis::answer::{Answer, Rows};
use crate::analysis::guard::report::{GuardInput, report};
use crate::analysis::guard::{Around, Batch, Notable, Owners, RULES, RemovedBetween, Watch, groups, is_of_kinds, once};
use crate::analysis::quota::owners as quota_owners;
use crate::cli::{Context, Error, FailOn, TimeFlags, length_parser};
use crate::commands::show;
use crate::inputs::captures;
use crate::inputs::etcd::removed::{self, Between};
use crate::inputs::found;
use crate::inputs::rollup;
use crate::inputs::selection::Selection;
use crate::model::question;
use crate::model::report::Severity;
use crate::model::time::Micros;
use crate::sources::alerts;
use crate::sources::objects::captures::Captures;
use crate::sources::wanted::Wanted;
use std::sync::Arc;

/// Arguments of `plimsoll guard events`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll guard events /var/log/kubernetes/ --since -1h
  # databases in the bundle show what was deleted
  plimsoll guard events bundle/
  plimsoll guard events audit.log --before yesterday.db --after today.db
  plimsoll guard events audit.log --where user=bob@example.com \\
    --kind delete-namespace,delete-crd
  # for cron: 1 where something critical was done
  plimsoll guard events audit.log --fail-on critical
  # reports them live
  plimsoll guard events /var/log/kubernetes/ --follow --alerts alerts.yaml \\
    --owner platform

Kinds, severities, and limits of the audit log: docs/commands/guard.md.")]
pub(super) struct Args {
    /// Audit logs: files (plain, .gz, .zst), folders, globs, bundles, datasets, URLs, - for stdin.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
    /// Report only operations that meet the condition (repeatable, all must hold): DIM=VALUE, !=, =~REGEX, !~, >, >=,
    /// <, <=, as for traffic.
    #[arg(long = "where", value_name = "EXPR")]
    filters: Vec<String>,
    /// Report only these kinds, separated by commas (docs/commands/guard.md lists them).
    #[arg(long = "kind", value_name = "KINDS", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Report only this severity and above.
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    severity: Option<Severity>,
    /// Group operations of one kind by one actor into one row while no pause between them is longer than this.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = length_parser(1, "30s, 5m"))]
    window: Micros,
    /// A label or annotation that names a namespace's owner (repeatable; default: plimsoll.io/owner, owner, team).
    /// Namespaces are looked up among the objects that lie beside the logs.
    #[arg(long = "owner-key", value_name = "KEY")]
    owner_keys: Vec<String>,
    /// An etcd database from before the log: with --after it shows the deleted objects. Of a bundle with several, the
    /// first and the last are used.
    #[arg(long, value_name = "FILE.db", requires = "after")]
    before: Option<String>,
    /// An etcd database from after the log.
    #[arg(long, value_name = "FILE.db", requires = "before")]
    after: Option<String>,
    #[command(flatten)]
    tripwire: FollowFlags,
}

fn severity(text: &str) -> Result<Severity, String> {
    [Severity::Info, Severity::Warning, Severity::Critical]
        .into_iter()
        .find(|severity| severity.name() == text)
        .ok_or_else(|| "info, warning or critical".to_owned())
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::GuardEvents, Error> {
        if let Some(kind) = self.kinds.iter().find(|kind| !RULES.iter().any(|rule| rule.kind == **kind)) {
            let kinds: Vec<&str> = RULES.iter().map(|rule| rule.kind).collect();
            return Err(Error::Usage(format!("--kind {kind}: unknown; use one of: {}", kinds.join(", "))));
        }
        Ok(question::GuardEvents {
            sources: self.sources.clone(),
            bounds: self.time.resolve(now).map_err(Error::Usage)?,
            filters: self.filters.clone(),
            kinds: self.kinds.clone(),
            severity: self.severity,
            window: self.window,
            owner_keys: self.owner_keys.clone(),
            databases: self.before.clone().zip(self.after.clone()).map(<[String; 2]>::from),
        })
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let question = args.question(context.io.now)?;
    context.refuse_sort("a timeline is sorted by time; filter with --severity and --kind")?;
    if args.tripwire.follow {
        return follow::run(&question, &args.tripwire, selection(&question)?, context);
    }
    show(answer(&question, context)?, FailOn::Never, context)
}

fn selection(question: &question::GuardEvents) -> Result<Selection, Error> {
    let (since, until) = question.bounds;
    Ok(Selection { since, until, filters: rollup::conditions(&question.filters)?, ..Selection::default() })
}

/// Answers the question.
pub(super) fn answer(question: &question::GuardEvents, context: &mut Context<'_>) -> Result<Answer, Error> {
    let selection = selection(question)?;
    let found = found::find(&question.sources, Wanted::Logs, context)?;
    if found.streams.is_empty() {
        return Err(Error::Input(format!(
            "{}: no audit log; dangerous operations can only be found in audit logs",
            question.sources.join(", ")
        )));
    }
    let (input, outcome) = rollup::observe::<Watch>(found.streams, selection.clone(), context)?;
    let between = match &question.databases {
        Some([before, after]) => Some(removed::between(before, after, context)?),
        None => removed::within(&question.sources, context)?,
    };
    let Batch { mut operations, gone, mut seen } = Arc::unwrap_or_clone(input);
    seen.events -= once(&mut operations);
    operations.retain(|one| is_of_kinds(one, &question.kinds));
    let owners = owners(question, &operations, context)?;
    let removed = between.as_ref().map(|between| RemovedBetween {
        removed: &between.removed,
        cluster: &between.cluster,
        bounds: between.taken.into(),
    });
    let around = Around { gone: &gone, removed, seen: &seen, owners: &owners };
    let mut groups = groups(operations, around, question.window);
    // What was looked at for drains only.
    groups.retain(|group| question.kinds.is_empty() || question.kinds.iter().any(|kind| kind == group.first.kind));
    let logged = outcome.total().within(selection.since, selection.until);
    let databases = between.map_or_else(Vec::new, |Between { files, .. }| files);
    let input = GuardInput {
        inputs: outcome.inputs,
        logged,
        window: question.window,
        top: context.settings.top,
        least: question.severity.unwrap_or(Severity::Info),
        databases,
    };
    let report = report(&groups, &seen, input);
    Ok(Answer::Report(Box::new(report), Rows::Operations(groups)))
}

/// Owners of namespaces, by cluster and name, by the objects beside the logs; of several captures the first that has a
/// namespace counts, as it may be deleted.
fn owners(
    question: &question::GuardEvents,
    operations: &[Notable],
    context: &mut Context<'_>,
) -> Result<Owners, Error> {
    let mut owners = Owners::new();
    if operations.is_empty() {
        return Ok(owners);
    }
    let mut config = alerts::none();
    if !question.owner_keys.is_empty() {
        config.owner_keys.clone_from(&question.owner_keys);
    }
    let Captures { captures, errors, .. } = captures::find(&question.sources, context);
    for error in &errors {
        context.lost(error)?;
    }
    for capture in captures {
        let namespaces = &capture.objects.namespaces;
        for name in namespaces.keys() {
            let owner = quota_owners::of(&config, namespaces, name);
            if !owner.is_empty() {
                owners.entry((capture.cluster.clone(), name.clone())).or_insert(owner);
            }
        }
    }
    Ok(owners)
}
