//! From what a person names to what is known of quotas: objects, history, and what quotas refused.

use crate::analysis::quota::collect::Collector;
#[cfg(feature = "live")]
use crate::analysis::quota::collect::{ALLOCATABLE, LIMITS, QUOTA, REQUESTS};
use crate::analysis::quota::refused::Refused;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::Tables;
use crate::cli::{Context, Error, KubeFlags, MomentFlags, TimeFlags};
#[cfg(feature = "live")]
use crate::cli::{PrometheusFlags, StepFlags};
use crate::inputs::captures;
use crate::inputs::found;
use crate::inputs::moment;
use crate::inputs::rollup::{self, Observe};
use crate::inputs::selection::Selection;
use crate::model::alike::most_alike;
use crate::model::event::Timed;
use crate::model::input::InputReport;
use crate::model::objects::Objects;
use crate::model::problem::Problem;
use crate::model::question::{self, QuotaSources};
use crate::model::quota::Quotas;
use crate::model::series::Day;
#[cfg(feature = "live")]
use crate::model::series::{DAY, Series};
use crate::model::time::{self, Bounds, Micros, is_within};
#[cfg(feature = "live")]
use crate::model::units::counted;
use crate::sources::find;
use crate::sources::objects::captures::Captures;
use std::sync::Arc;

/// Where quotas, their usage and its history are read from.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SourceFlags {
    /// Bundles, folders or files with objects as kubectl get -o json|yaml writes them, with audit logs beside them
    /// where there are any; a store that record keeps; none: the live cluster of the kubeconfig.
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// Read the live cluster too, beside stores or a Prometheus.
    #[arg(long)]
    pub live: bool,
    /// Time range.
    #[command(flatten)]
    pub time: TimeFlags,
    /// Moment.
    #[command(flatten)]
    pub moment: MomentFlags,
    /// Use only this namespace (repeatable).
    #[arg(short, long = "namespace", value_name = "NAME")]
    pub namespaces: Vec<String>,
    /// Which cluster to read.
    #[command(flatten)]
    pub kube: KubeFlags,
    /// Which Prometheus to take history from.
    #[cfg(feature = "live")]
    #[command(flatten)]
    pub prometheus: PrometheusFlags,
    /// How far apart its points are.
    #[cfg(feature = "live")]
    #[command(flatten)]
    pub step: StepFlags,
}

impl SourceFlags {
    /// What they ask of files.
    pub fn question(&self, now: Micros) -> Result<QuotaSources, Error> {
        let (at, bounds) = self.moment.bounds(&self.time, now).map_err(Error::Usage)?;
        Ok(QuotaSources { sources: self.sources.clone(), at, bounds, namespaces: self.namespaces.clone() })
    }
}

/// What is read: the sources of a question, and what else the command line gives access to.
#[derive(Debug, Clone, Copy)]
pub struct QuotaOptions<'q> {
    /// The sources.
    pub sources: &'q QuotaSources,
    /// A live cluster, a Prometheus; `None` where only files are meant.
    pub access: Option<&'q SourceFlags>,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Inputs {
    /// What is known of quotas.
    pub quotas: Quotas,
    /// The objects as they are now; empty where only series were read.
    pub objects: Arc<Objects>,
    /// What quotas refused, where there are audit logs.
    pub refused: Refused,
    /// Whether there were audit logs.
    pub has_logs: bool,
    /// The first day and the last that count.
    pub days: (Option<i32>, Option<i32>),
    /// What was read.
    pub inputs: Vec<InputReport>,
}

/// Kinds of objects that check and alert read of a live cluster: they need no more, and no more has to be allowed.
pub const NEEDED: [&str; 2] = ["Namespace", "ResourceQuota"];

/// Reads all of it; of a store sketches too, where quantiles are asked for.
pub fn read(asked: QuotaOptions<'_>, with_sketch: bool, context: &mut Context<'_>) -> Result<Inputs, Error> {
    read_some(asked, &|_| true, with_sketch, context)
}

/// Reads all of it; of a live cluster only objects of the kinds that are wanted.
pub fn read_kinds(
    asked: QuotaOptions<'_>,
    is_wanted: &dyn Fn(&str) -> bool,
    context: &mut Context<'_>,
) -> Result<Inputs, Error> {
    read_some(asked, is_wanted, false, context)
}

fn read_some(
    asked: QuotaOptions<'_>,
    is_wanted: &dyn Fn(&str) -> bool,
    with_sketch: bool,
    context: &mut Context<'_>,
) -> Result<Inputs, Error> {
    let QuotaSources { sources, at: moment, bounds, .. } = asked.sources;
    let (moment, (since, until)) = (*moment, question::up_to(*moment, *bounds));
    let is_live = asked.access.is_some_and(|flags| flags.live);
    let days = (since.map(Day::of), until.map(|until| Day::of(until - 1)));
    let mut collector = Collector::default();
    let mut inputs = Inputs { days, ..Inputs::default() };
    let (stores, sources): (Vec<String>, Vec<String>) = sources.iter().cloned().partition(|source| is_store(source));
    stored(&stores, moment, with_sketch, &mut collector, &mut inputs, context)?;
    let has_history = history(asked.access, (since, until), &mut collector, context)? || !stores.is_empty();
    if is_live && !sources.is_empty() {
        return Err(Error::Usage(format!(
            "--live: objects are already read from {}; remove one of the two",
            sources.join(", ")
        )));
    }
    if moment.is_some() && (is_live || sources.is_empty() && !has_history) {
        return Err(Error::Usage("--at: a live cluster has only the present; give captures or a store".to_owned()));
    }
    if sources.is_empty() && has_history && !is_live {
        // What stands now is the last that the history says.
    } else if sources.is_empty() {
        live(asked.access, is_wanted, &mut collector, &mut inputs, context)?;
    } else {
        files(&sources, moment, (since, until), &mut collector, &mut inputs, context)?;
    }
    inputs.quotas = collector.finish();
    asked.sources.namespaces.iter().try_for_each(|namespace| inputs.has(namespace))?;
    Ok(inputs)
}

impl Inputs {
    /// Refuses a namespace of which nothing is known: misspelt, it would be one in which all is well.
    fn has(&self, namespace: &str) -> Result<(), Error> {
        let Quotas { namespaces, standings, usage, .. } = &self.quotas;
        let of_quotas = standings.iter().map(|own| &own.namespace).chain(usage.iter().map(|own| &own.namespace));
        let known = || namespaces.keys().chain(self.objects.namespaces.keys()).chain(of_quotas.clone());
        if known().any(|own| own == namespace) {
            return Ok(());
        }
        let hint = most_alike(known().map(String::as_str), namespace);
        let hint = hint.map_or_else(String::new, |own| format!("; there is {own}"));
        Err(Error::Input(format!("--namespace {namespace}: nothing in these sources is of this namespace{hint}")))
    }
}

/// Whether a SOURCE is a store that `record` keeps.
#[cfg(feature = "history")]
fn is_store(source: &str) -> bool {
    crate::sources::store::Store::is_store(std::path::Path::new(source))
}

#[cfg(not(feature = "history"))]
fn is_store(_: &str) -> bool {
    false
}

/// The series of stores that speak of quotas.
#[cfg(feature = "history")]
fn stored(
    stores: &[String],
    moment: Option<Micros>,
    with_sketch: bool,
    collector: &mut Collector,
    inputs: &mut Inputs,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    use crate::analysis::quota::collect::{ALLOCATABLE, LIMITS, OBJECTS, QUOTA, REQUESTS};
    use crate::model::series::Selector;
    use crate::sources::store::{Ask, Store};
    for folder in stores {
        let failed = |error: crate::sources::store::StoreError| Error::Input(error.to_string());
        let store = Store::open(std::path::Path::new(folder)).map_err(failed)?;
        let mut losses = Vec::new();
        let mut points = 0;
        for name in [QUOTA, REQUESTS, LIMITS, OBJECTS, ALLOCATABLE] {
            // Days are counted from 1970, and no store is from before or will see the year 2200.
            // Of the day of a moment only a part counts: its points up to then.
            let whole = inputs.days.1.map_or(84_000, |last| if moment.is_some() { last } else { last + 1 });
            let ask =
                Ask { selector: Selector::new(name, &[]), from: inputs.days.0.unwrap_or(0), until: whole, with_sketch };
            let mut each = |series: crate::model::series::Series, days: Vec<Day>| {
                points += days.iter().map(|day| day.count).sum::<u64>();
                collector.series(&series, days);
                Ok(())
            };
            store.days(&ask, &mut losses, &mut each).map_err(failed)?;
            if let Some(moment) = moment.filter(|moment| Day::of(*moment) >= ask.from) {
                store.part_of_day(&ask.selector, moment, &mut losses, &mut each).map_err(failed)?;
            }
        }
        for loss in &losses {
            context.lost(loss)?;
        }
        inputs.inputs.push(InputReport {
            path: folder.clone(),
            kind: "store",
            bytes: 0,
            records: points,
            skipped: losses.len() as u64,
            first_error: losses.first().map(ToString::to_string),
        });
    }
    Ok(())
}

#[cfg(not(feature = "history"))]
fn stored(
    _: &[String],
    _: Option<Micros>,
    _: bool,
    _: &mut Collector,
    _: &mut Inputs,
    _: &mut Context<'_>,
) -> Result<(), Error> {
    Ok(())
}

/// Series of a Prometheus that is named, the last sixty days if nothing else is said. Whether there is one.
#[cfg(feature = "live")]
fn history(
    access: Option<&SourceFlags>,
    (since, until): Bounds,
    collector: &mut Collector,
    context: &mut Context<'_>,
) -> Result<bool, Error> {
    let Some(flags) = access.filter(|flags| flags.prometheus.prometheus.is_some()) else { return Ok(false) };
    let until = until.unwrap_or(context.io.now);
    let window = (since.unwrap_or(until - HISTORY), until);
    let names = QUERIES.map(|(name, ..)| name);
    for (series, days) in
        crate::inputs::prometheus::days(&flags.prometheus, flags.step.micros(), &names, window, context)?
    {
        let known = QUERIES.iter().find(|(name, ..)| *name == series.name);
        let Some((_, name, kind)) = known else { continue };
        let mut labels = series.labels;
        if !kind.is_empty() {
            labels.insert("type".to_owned(), (*kind).to_owned());
        }
        collector.series(&Series { name: (*name).to_owned(), labels }, days);
    }
    Ok(true)
}

#[cfg(not(feature = "live"))]
fn history(_: Option<&SourceFlags>, _: Bounds, _: &mut Collector, _: &mut Context<'_>) -> Result<bool, Error> {
    Ok(false)
}

/// How far back a Prometheus is asked.
#[cfg(feature = "live")]
const HISTORY: Micros = 60 * DAY;

/// Queries of Prometheus, with the name of the series that they stand for and its `type`.
#[cfg(feature = "live")]
const QUERIES: [(&str, &str, &str); 5] = [
    ("quota-used", QUOTA, "used"),
    ("quota-hard", QUOTA, "hard"),
    ("requests", REQUESTS, ""),
    ("limits", LIMITS, ""),
    ("allocatable", ALLOCATABLE, ""),
];

/// Objects, and audit logs, in files.
fn files(
    sources: &[String],
    moment: Option<Micros>,
    (since, until): Bounds,
    collector: &mut Collector,
    inputs: &mut Inputs,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let found = find::audit_logs(sources);
    for error in found.losses() {
        context.lost(error)?;
    }
    let logs = match found.streams.is_empty() {
        true => None,
        false => {
            let selection = Selection { since, until, ..Selection::default() };
            Some(rollup::observe::<Refused>(found.streams, selection, context)?)
        }
    };
    let Captures { mut captures, inputs: reported, errors } = captures::find(sources, context);
    for error in &errors {
        context.lost(error)?;
    }
    inputs.inputs.extend(reported);
    found::of_one_cluster("objects", captures.iter().map(|own| own.cluster.as_str()), "quotas belong to one")?;
    if let Some(moment) = moment.filter(|_| !captures.is_empty()) {
        captures = moment::of_objects(captures, moment, context)?;
    }
    let within = |at: Micros| is_within((since, until), at);
    let mut taken = 0;
    let ends = (captures.first().map(|own| own.at), captures.last().map(|own| own.at));
    for capture in captures.iter().filter(|capture| within(capture.at)) {
        collector.objects(&capture.cluster, capture.at, &capture.objects);
        taken += 1;
    }
    if let Some(last) = captures.into_iter().rfind(|capture| within(capture.at)) {
        inputs.objects = last.objects;
    }
    let is_bounded = since.is_some() || until.is_some();
    if let (0, true, Some(first), Some(last)) = (taken, is_bounded, ends.0, ends.1) {
        return Err(Error::Usage(format!(
            "--since, --until: no objects of this time in {}; they are of {} to {}",
            sources.join(", "),
            time::format(first),
            time::format(last)
        )));
    }
    if taken == 0 {
        let what = if errors.is_empty() { "no Kubernetes objects" } else { "no objects that could be read" };
        return Err(Error::Input(format!(
            "{}: {what} found; take some with kubectl get \
             namespaces,resourcequotas,limitranges,pods,nodes,deployments -A -o json > objects.json",
            sources.join(", ")
        )));
    }
    if let Some((refused, outcome)) = logs {
        inputs.has_logs = true;
        inputs.refused.merge(Arc::unwrap_or_clone(refused));
        inputs.inputs.extend(outcome.inputs);
    }
    Ok(())
}

impl Observe for Refused {
    type Batch = Self;
    type All = Self;
    fn selected(&mut self, event: &Timed<'_, '_>) {
        self.event(event);
    }
    fn flush(&mut self) -> Self {
        std::mem::take(self)
    }
    fn take(all: &mut Self, batch: Self) {
        all.merge(batch);
    }
    fn stored(_: &Selection) -> Result<Tables, Problem> {
        Ok(Tables::Refusals)
    }
    fn of_rollup(rollup: &Rollup, _: &Selection) -> Self {
        rollup.refused()
    }
}

/// The live cluster, as it is now.
#[cfg(feature = "live")]
fn live(
    access: Option<&SourceFlags>,
    is_wanted: &dyn Fn(&str) -> bool,
    collector: &mut Collector,
    inputs: &mut Inputs,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    use crate::sources::objects::live;
    let Some(flags) = access else { return Err(Error::Usage("name a SOURCE".to_owned())) };
    let cluster = crate::inputs::live::connect(&flags.kube, context)?;
    let (objects, errors) = live::take(&cluster, is_wanted);
    for error in &errors {
        context.lost(error)?;
    }
    if objects.kinds.is_empty() {
        return Err(Error::Input(format!("{}: no list could be read; see the messages above", cluster.name())));
    }
    let records = objects.counts.values().sum();
    let skipped = errors.len() as u64;
    let first_error = errors.first().map(ToString::to_string);
    inputs.inputs.push(InputReport {
        path: cluster.name().to_owned(),
        kind: "objects",
        bytes: 0,
        records,
        skipped,
        first_error,
    });
    collector.objects(cluster.name(), context.io.now, &objects);
    context.notice(format!("read {} of {}", counted(records, "object"), cluster.name()))?;
    inputs.objects = Arc::new(objects);
    Ok(())
}

#[cfg(not(feature = "live"))]
fn live(
    _: Option<&SourceFlags>,
    _: &dyn Fn(&str) -> bool,
    _: &mut Collector,
    _: &mut Inputs,
    _: &mut Context<'_>,
) -> Result<(), Error> {
    Err(KubeFlags::unavailable())
}
