//! From what a person names to what is known of quotas: objects, history, and what quotas refused.

use crate::analysis::quota::collect::Collector;
use crate::analysis::quota::refused::Refused;
use crate::cli::{Context, Error, KubeFlags, TimeFlags};
use crate::commands::traffic;
use crate::model::event::Timed;
use crate::model::input::InputReport;
use crate::model::objects::Objects;
use crate::model::quota::Quotas;
use crate::model::series::Day;
use crate::model::time::Micros;
use crate::model::units::counted;
use crate::sources::audit::pass::{self, Delivery, Worker};
use crate::sources::find;
use crate::sources::objects::captures::{self, Captures};

/// Where quotas, their usage and its history are read from.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SourceFlags {
    /// Bundles, folders or files with objects as kubectl get -o json|yaml writes them, with audit logs beside them where there are any; a
    /// store that record keeps; none: the live cluster of the kubeconfig.
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// Which time to look at.
    #[command(flatten)]
    pub time: TimeFlags,
    /// Look at this namespace only (repeatable).
    #[arg(short, long = "namespace", value_name = "NAME")]
    pub namespaces: Vec<String>,
    /// Which cluster to read.
    #[command(flatten)]
    pub kube: KubeFlags,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Inputs {
    /// What is known of quotas.
    pub quotas: Quotas,
    /// The objects as they are now; empty where only series were read.
    pub objects: Objects,
    /// What quotas refused, where there are audit logs.
    pub refused: Refused,
    /// Whether there were audit logs.
    pub has_logs: bool,
    /// The first day and the last that count.
    pub days: (Option<i32>, Option<i32>),
    /// What was read.
    pub inputs: Vec<InputReport>,
}

/// Reads all of it.
pub fn read(flags: &SourceFlags, context: &mut Context<'_>) -> Result<Inputs, Error> {
    let (since, until) = flags.time.resolve(context.io.now).map_err(Error::Usage)?;
    let days = (since.map(Day::of), until.map(|until| Day::of(until - 1)));
    let mut collector = Collector::default();
    let mut inputs = Inputs { days, ..Inputs::default() };
    if flags.sources.is_empty() {
        live(flags, &mut collector, &mut inputs, context)?;
    } else {
        files(flags, (since, until), &mut collector, &mut inputs, context)?;
    }
    inputs.quotas = collector.finish();
    Ok(inputs)
}

/// Objects, and audit logs, in files.
fn files(
    flags: &SourceFlags,
    (since, until): (Option<Micros>, Option<Micros>),
    collector: &mut Collector,
    inputs: &mut Inputs,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let Captures { captures, inputs: told, errors } = captures::find(&flags.sources);
    for error in &errors {
        context.lost(error)?;
    }
    inputs.inputs.extend(told);
    let clusters: std::collections::BTreeSet<&str> = captures.iter().map(|capture| capture.cluster.as_str()).collect();
    if clusters.len() > 1 {
        let names: Vec<&str> = clusters.into_iter().collect();
        return Err(Error::Usage(format!("objects of several clusters ({}): quotas are a cluster's own; name one", names.join(", "))));
    }
    let within = |at: Micros| since.is_none_or(|since| at >= since) && until.is_none_or(|until| at < until);
    let mut taken = 0;
    for capture in captures.iter().filter(|capture| within(capture.at)) {
        collector.objects(&capture.cluster, capture.at, &capture.objects);
        taken += 1;
    }
    if let Some(last) = captures.into_iter().rfind(|capture| within(capture.at)) {
        inputs.objects = last.objects;
    }
    if taken == 0 {
        let what = if errors.is_empty() { "no Kubernetes objects" } else { "no objects that could be read" };
        return Err(Error::Input(format!(
            "{}: {what} in here; take some with kubectl get namespaces,resourcequotas,limitranges,pods,nodes,deployments -A -o json > objects.json",
            flags.sources.join(", ")
        )));
    }
    let found = find::audit_logs(&flags.sources);
    if !found.streams.is_empty() {
        inputs.has_logs = true;
        let progress = traffic::progress(&found.streams, context);
        let mut refused = Refused::default();
        let make = || Refusing { refused: Refused::default(), since, until };
        let (_, outcome) = pass::run(found.streams, context.settings.threads, &progress, make, |delivery| {
            if let Delivery::Block { batch, .. } = delivery {
                refused.merge(batch);
            }
        });
        progress.finish();
        for loss in &outcome.losses {
            context.lost(loss)?;
        }
        inputs.inputs.extend(outcome.inputs);
        inputs.refused = refused;
    }
    Ok(())
}

/// The fold of refusals as a worker of the source's pass.
struct Refusing {
    refused: Refused,
    since: Option<Micros>,
    until: Option<Micros>,
}

impl Worker for Refusing {
    type Batch = Refused;
    #[inline]
    fn event(&mut self, event: Timed<'_, '_>) {
        if self.since.is_none_or(|since| event.at >= since) && self.until.is_none_or(|until| event.at < until) {
            self.refused.event(&event);
        }
    }
    fn flush(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }
}

/// The live cluster, as it is now.
#[cfg(feature = "live")]
fn live(flags: &SourceFlags, collector: &mut Collector, inputs: &mut Inputs, context: &mut Context<'_>) -> Result<(), Error> {
    use crate::sources::live::Cluster;
    use crate::sources::objects::live;
    let cluster = Cluster::connect(&crate::commands::live::target(&flags.kube)).map_err(|error| Error::Input(error.to_string()))?;
    for note in cluster.notes() {
        context.say(note)?;
    }
    let (objects, errors) = live::take(&cluster, &|_| true);
    for error in &errors {
        context.lost(error)?;
    }
    if objects.kinds.is_empty() {
        return Err(Error::Input(format!("{}: no list could be read; the messages above say why", cluster.name())));
    }
    let records = objects.counts.values().sum();
    let skipped = errors.len() as u64;
    let first_error = errors.first().map(ToString::to_string);
    inputs.inputs.push(InputReport { path: cluster.name().to_owned(), kind: "objects", bytes: 0, records, skipped, first_error });
    collector.objects(cluster.name(), context.io.now, &objects);
    context.say(format!("read {} of {}", counted(records, "object"), cluster.name()))?;
    inputs.objects = objects;
    Ok(())
}

#[cfg(not(feature = "live"))]
fn live(_: &SourceFlags, _: &mut Collector, _: &mut Inputs, _: &mut Context<'_>) -> Result<(), Error> {
    Err(Error::Usage("this plimsoll was built without the 'live' feature: name a SOURCE".to_owned()))
}
