//! `plimsoll guard webhooks`: what admission webhooks stop when they can't be asked.

use crate::analysis::guard::webhooks::report::{WebhooksInput, report};
use crate::analysis::guard::webhooks::{Counter, Namespaces, Seen, measured};
use crate::analysis::metrics::Retention;
use crate::cli::{Context, Error, FailOn, TimeFlags};
use crate::inputs::etcd::newest;
use crate::inputs::rollup::{self, Chosen};
use crate::inputs::selection::Selection;
use crate::inputs::{found, pages};
use crate::model::objects::Objects;
use crate::model::webhooks::Webhook;
use crate::sources::find;
use crate::sources::objects::captures::{self, Captures};
use crate::sources::objects::read;
use crate::sources::wanted::Wanted;
use serde_json::Value;
use std::sync::Arc;

/// Arguments of `plimsoll guard webhooks`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # all of a bundle: configurations (also from a database of etcd), requests, latency
  plimsoll guard webhooks bundle/
  plimsoll guard webhooks bundle/ --fail-on critical
  kubectl get -o json \\
    validatingwebhookconfigurations,mutatingwebhookconfigurations,namespaces > hooks.json
  # configurations alone: what is wrong with them
  plimsoll guard webhooks hooks.json
  # with audit logs: which requests they check
  plimsoll guard webhooks hooks.json /var/log/kubernetes/
  # with metrics: latency and failures
  plimsoll guard webhooks hooks.json scrapes/

How requests are matched to webhooks, and limits: docs/commands/guard-webhooks.md.")]
pub(super) struct Args {
    /// Configurations and namespaces (kubectl get -o json|yaml, or a database of etcd); audit logs and metrics pages
    /// beside them: files, folders, bundles.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    context.refuse_sort("webhooks whose failure fails requests come first; sort the output of -o csv or -o json")?;
    let (since, until) = args.time.resolve(context.io.now).map_err(Error::Usage)?;
    let (webhooks, namespaces, mut input) = configured(args, context)?;
    // What is no log and no page may be a file of configurations.
    let mut found = find::find(&args.sources, Wanted::Both, context.io.now);
    for error in found.errors.iter().filter(|error| error.is_loss()) {
        context.lost(error)?;
    }
    let clusters = found.streams.iter().map(|own| own.stream.cluster.as_str());
    found::of_one_cluster("logs", clusters, "webhooks are configured in each")?;
    pages::keep(&mut found.pages, since, until);
    let (facts, read) = pages::facts(std::mem::take(&mut found.pages), Retention::Requests, context)?;
    input.inputs.extend(read.inputs);
    input.has_logs = !found.streams.is_empty();
    let mut seen = Seen::default();
    if input.has_logs {
        let selection = Selection { since, until, ..Selection::default() };
        let make = || Chosen {
            observer: Counter::new(&webhooks, &namespaces),
            selection: &selection,
            event: Counter::event,
            flush: Counter::flush,
        };
        let (counted, outcome) = rollup::pass(found.streams, &selection, make, Seen::default, Seen::merge, context)?;
        seen = counted;
        input.inputs.extend(outcome.inputs);
    }
    input.top = context.settings.asked_top();
    context.print(&report(&webhooks, &seen, &measured(&facts), &namespaces, input), FailOn::Never)
}

/// The configurations, the labels of namespaces, and where they come from: files of objects, else a database of etcd.
fn configured(args: &Args, context: &mut Context<'_>) -> Result<(Vec<Webhook>, Namespaces, WebhooksInput), Error> {
    let Captures { captures, inputs, errors } = captures::find(&args.sources);
    for error in &errors {
        context.lost(error)?;
    }
    found::of_one_cluster(
        "objects",
        captures.iter().map(|own| own.cluster.as_str()),
        "webhooks are configured in each",
    )?;
    let mut input = WebhooksInput { inputs, ..WebhooksInput::default() };
    // Of several captures the last that has configurations; each reports all namespaces that it holds.
    let has = |objects: &Objects| {
        objects.has("ValidatingWebhookConfiguration") || objects.has("MutatingWebhookConfiguration")
    };
    let labels = |objects: &Objects| -> Namespaces {
        objects.namespaces.iter().map(|(name, one)| (name.clone(), one.labels.clone())).collect()
    };
    let mut namespaces: Namespaces = captures.iter().flat_map(|capture| labels(&capture.objects)).collect();
    if let Some(capture) = captures.into_iter().rev().find(|capture| has(&capture.objects)) {
        "the given objects".clone_into(&mut input.source);
        return Ok((Arc::unwrap_or_clone(capture.objects).webhooks, namespaces, input));
    }
    let wanted = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations", "namespaces"];
    let is_wanted = |key: &crate::model::registry::ObjectKey<'_>| wanted.contains(&key.resource);
    let taken = newest::objects(None, &args.sources, &is_wanted, |_, value: &Value| value.to_string(), context)?;
    let Some((path, values)) = taken else {
        let names = args.sources.join(", ");
        return Err(Error::Input(format!(
            "{names}: no webhook configurations; take them with kubectl get \
             validatingwebhookconfigurations,mutatingwebhookconfigurations,namespaces -o json > hooks.json"
        )));
    };
    let mut objects = Objects::default();
    for value in values {
        read::objects(value.as_bytes(), &mut objects)
            .whole()
            .map_err(|what| Error::Input(format!("{path}: {what}")))?;
    }
    namespaces.extend(labels(&objects));
    input.source = path;
    Ok((objects.webhooks, namespaces, input))
}
