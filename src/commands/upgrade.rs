//! `plimsoll upgrade`: which clients an upgrade of Kubernetes breaks, and which manifests.

use crate::analysis::list_route::Minor;
use crate::analysis::metrics::Retention;
use crate::analysis::metrics::facts::Component;
use crate::analysis::quota::owners;
use crate::analysis::upgrade::calls;
use crate::analysis::upgrade::objects::{old_objects, unknown};
use crate::analysis::upgrade::report::{UpgradeInput, report};
use crate::cli::{Context, Error, FailOn, TimeFlags};
use crate::inputs::selection::Selection;
use crate::inputs::{found, pages, rollup};
use crate::model::objects::Namespace;
use crate::model::time::Span;
use crate::sources::alerts;
use crate::sources::find;
use crate::sources::objects::captures::{self, Capture, Captures};
use crate::sources::wanted::Wanted;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `plimsoll upgrade`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # who breaks with the next version; exit code 1 if anybody does
  plimsoll upgrade bundle/ --fail-on critical
  # by the roll-ups of the last month
  plimsoll upgrade /var/lib/plimsoll --since -30d --to 1.37
  # metrics alone: which APIs, not by whom
  plimsoll upgrade scrapes/ --to 1.37
  # manifests of a repository, before they are applied
  plimsoll upgrade manifests/ --to 1.37 --fail-on warning

A log shows who called while it was written: take one that is as long as the rarest job. What each verdict means: \
docs/commands/upgrade.md.")]
pub struct Args {
    /// Audit logs, roll-ups, stores, metrics pages, bundles, objects, manifests.
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
    context.refuse_sort("calls are sorted by what the upgrade does to them")?;
    let (since, until) = args.time.resolve(context.io.now).map_err(Error::Usage)?;
    let config = alerts::given(args.alerts.as_deref()).map_err(Error::usage)?;
    let Captures { captures, inputs: of_objects, errors } = captures::find(&args.sources);
    let has_objects = captures.iter().any(|capture| !capture.objects.kinds.is_empty());
    let found = find::find(&args.sources, Wanted::Both, context.io.now);
    let has_calls = !(found.streams.is_empty() && found.pages.is_empty());
    let mut found = match has_calls || !has_objects {
        true => found::usable(found, has_calls, context)?,
        // What is no log and no page is objects.
        false => {
            found.losses().try_for_each(|error| context.lost(error))?;
            found
        }
    };
    errors.iter().try_for_each(|error| context.lost(error))?;
    let of_bundle = found.bundle.as_ref().and_then(|bundle| Minor::parse(&bundle.kubernetes_version));
    pages::keep(&mut found.pages, since, until);
    let (facts, read) = pages::facts(found.pages, Retention::Requests, context)?;
    let of_pages = || facts.instances_of(Component::Apiserver).filter_map(|own| Minor::parse(&own.version)).max();
    let server = of_bundle.or_else(of_pages);
    let Some(to) = args.to.or_else(|| server.map(Minor::next)) else {
        return Err(Error::Usage(
            "--to VERSION is missing: neither a bundle.yaml beside the sources nor a metrics page says which version \
             the cluster has; write --to 1.37"
                .to_owned(),
        ));
    };
    if let Some(server) = server.filter(|server| to < *server) {
        return Err(Error::Usage(format!(
            "--to 1.{} is before the version of the cluster, 1.{}: what a downgrade breaks is not known",
            to.0, server.0
        )));
    }
    let mut inputs = read.inputs;
    let (mut span, mut of_logs): (Option<Span>, _) = (None, None);
    if !found.streams.is_empty() {
        let selection = Selection { since, until, ..Selection::default() };
        let (rollup, outcome) = rollup::read(found.streams, &selection, context)?;
        inputs = outcome.inputs.into_iter().chain(inputs).collect();
        span = rollup.span;
        of_logs = Some(rollup);
    }
    let is_seen = span.is_some() || !facts.instances.is_empty();
    if !is_seen && !has_objects {
        let sources = args.sources.join(", ");
        return Err(Error::Input(format!(
            "{sources}: no event, no metrics page and no object; who calls what is unknown"
        )));
    }
    let calls = calls(of_logs.as_deref(), &facts, to);
    if !has_calls {
        inputs.extend(of_objects);
    }
    let captures = newest(captures);
    let old = old_objects(captures.iter().map(|capture| (capture.cluster.as_str(), &*capture.objects)), to);
    let unknown = unknown(captures.iter().map(|capture| &*capture.objects));
    let namespaces = namespaces(captures);
    let none = BTreeMap::new();
    // Where objects are of no cluster that is named, they are of any.
    let of = |cluster: &str| namespaces.get(cluster).or_else(|| namespaces.get("")).unwrap_or(&none);
    let calls = calls.iter().map(|call| (call, owners::of_user(&config, of(&call.cluster), &call.user))).collect();
    let objects = old.iter().map(|own| (own, owners::of(&config, of(&own.cluster), &own.namespace))).collect();
    let top = context.settings.asked_top();
    context.print(
        &report(UpgradeInput { calls, objects, unknown, to, has_calls: is_seen, inputs, span, top }),
        FailOn::Never,
    )
}

/// Of captures of one cluster that lie side by side and were taken one after the other the last that holds the same
/// kinds: what was mended since is no fault. They are in order of cluster and time.
fn newest(captures: Vec<Capture>) -> Vec<Capture> {
    let mut kept: Vec<Capture> = Vec::with_capacity(captures.len());
    for capture in captures {
        let beside = |path: &str| Path::new(path).parent().map(Path::to_owned);
        let is_later = |before: &mut Capture| {
            let is_of_one = before.cluster == capture.cluster
                && (before.path == capture.path || beside(&before.path) == beside(&capture.path));
            // What was not captured again is as it was.
            let is_whole = before.objects.kinds.iter().all(|kind| capture.objects.kinds.contains(kind));
            before.is_dated && capture.is_dated && is_of_one && is_whole
        };
        match kept.iter_mut().find_map(|before| is_later(before).then_some(before)) {
            Some(before) => *before = capture,
            None => kept.push(capture),
        }
    }
    kept
}

/// Namespaces of captured objects, by cluster; of several captures the last that has one.
fn namespaces(captures: Vec<Capture>) -> BTreeMap<String, BTreeMap<String, Namespace>> {
    let mut all: BTreeMap<String, BTreeMap<String, Namespace>> = BTreeMap::new();
    for capture in captures {
        all.entry(capture.cluster).or_default().extend(Arc::unwrap_or_clone(capture.objects).namespaces);
    }
    all
}
