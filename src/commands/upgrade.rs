//! `plimsoll upgrade`: which clients an upgrade of Kubernetes breaks.

use crate::analysis::list_route::Minor;
use crate::analysis::metrics::Retention;
use crate::analysis::quota::owners;
use crate::analysis::upgrade::calls;
use crate::analysis::upgrade::report::{UpgradeInput, report};
use crate::cli::{Context, Error, FailOn, TimeFlags};
use crate::inputs::selection::Selection;
use crate::inputs::{found, pages, rollup};
use crate::model::objects::Namespace;
use crate::model::time::Span;
use crate::sources::alerts;
use crate::sources::objects::captures::{self, Captures};
use crate::sources::wanted::Wanted;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Arguments of `plimsoll upgrade`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # who breaks with the next version; exit code 1 if anybody does
  plimsoll upgrade bundle/ --fail-on critical
  # by the roll-ups of the last month
  plimsoll upgrade /var/lib/plimsoll --since -30d --to 1.37
  # metrics alone: which APIs, not by whom
  plimsoll upgrade scrapes/ --to 1.37

A log shows who called while it was written: take one that is as long as the rarest job. What each verdict means: \
docs/commands/upgrade.md.")]
pub struct Args {
    /// Audit logs, roll-ups, stores, metrics pages, bundles; objects beside them name owners.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// Version to upgrade to [default: the one after the bundle's].
    #[arg(long, value_name = "VERSION", value_parser = found::parse_version)]
    to: Option<Minor>,
    /// The configuration of alerts: it names the owners of namespaces (docs/alerts.md).
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_ALERTS")]
    alerts: Option<PathBuf>,
    #[command(flatten)]
    time: TimeFlags,
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    if let Some(field) = &context.settings.sort_by {
        return Err(Error::Usage(format!("--sort-by {field}: calls are sorted by what the upgrade does to them")));
    }
    let (since, until) = args.time.resolve(context.io.now).map_err(Error::Usage)?;
    let config = alerts::given(args.alerts.as_deref()).map_err(Error::usage)?;
    let mut found = found::find(&args.sources, Wanted::Both, context)?;
    let server = found.bundle.as_ref().and_then(|bundle| Minor::parse(&bundle.kubernetes_version));
    let Some(to) = args.to.or_else(|| server.map(Minor::next)) else {
        return Err(Error::Usage(
            "--to VERSION is missing: no bundle.yaml beside the sources names the cluster's version; write --to 1.37"
                .to_owned(),
        ));
    };
    pages::keep(&mut found.pages, since, until);
    let (facts, read) = pages::facts(found.pages, Retention::Requests, context)?;
    let mut inputs = read.inputs;
    let (mut span, mut of_logs): (Option<Span>, _) = (None, None);
    if !found.streams.is_empty() {
        let selection = Selection { since, until, ..Selection::default() };
        let (rollup, outcome) = rollup::read(found.streams, &selection, context)?;
        inputs = outcome.inputs.into_iter().chain(inputs).collect();
        span = rollup.span;
        of_logs = Some(rollup);
    }
    let calls = calls(of_logs.as_deref(), &facts, to);
    let namespaces = namespaces(&args.sources, context)?;
    let calls = calls.iter().map(|call| (call, owners::of_user(&config, &namespaces, &call.user))).collect();
    let top = context.settings.asked_top();
    context.print(&report(UpgradeInput { calls, to, inputs, span, top }), FailOn::Never)
}

/// Namespaces of the objects beside the logs; of several captures the first that has one.
fn namespaces(sources: &[String], context: &mut Context<'_>) -> Result<BTreeMap<String, Namespace>, Error> {
    let Captures { captures, errors, .. } = captures::find(sources);
    errors.iter().try_for_each(|error| context.lost(error))?;
    let mut all = BTreeMap::new();
    for (name, namespace) in captures.into_iter().flat_map(|capture| capture.objects.namespaces) {
        all.entry(name).or_insert(namespace);
    }
    Ok(all)
}
