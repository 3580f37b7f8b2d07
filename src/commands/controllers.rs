//! `plimsoll controllers`: how the scheduler and the controllers keep up.

use super::show;
use crate::analysis::answer::{Answer, Rows};
use crate::analysis::controllers::classes::{Classes, classes};
use crate::analysis::controllers::handovers::{Runs, Watcher, together};
use crate::analysis::controllers::read::Read;
use crate::analysis::controllers::report::report;
use crate::analysis::metrics::Retention;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::Tables;
use crate::cli::{Context, Error, FailOn, MomentFlags, TimeFlags};
use crate::inputs::captures;
use crate::inputs::etcd::{self, newest};
use crate::inputs::rollup::{self, Observe};
use crate::inputs::selection::Selection;
use crate::inputs::{moment, pages};
use crate::model::event::Timed;
use crate::model::objects::Objects;
use crate::model::problem::Problem;
use crate::model::question;
use crate::model::registry::ObjectKey;
use crate::model::time::{Micros, all_together, clipped};
use crate::sources::find;
use crate::sources::objects::captures::Captures;
use crate::sources::objects::read;
use crate::sources::pages::PageFolder;
use crate::sources::wanted::Wanted;
use crate::views::Format;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Arguments of `plimsoll controllers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # pages of kube-controller-manager, kube-scheduler, or any controller
  plimsoll controllers scrapes/
  # with audit logs: leaders over time; with pods: kinds of pending pods
  plimsoll controllers bundle/
  kubectl get pods -A -o json > pods.json && plimsoll controllers pods.json
  plimsoll controllers bundle/ --since -1h --fail-on warning
  # one page: totals since the process started
  plimsoll controllers kube-controller-manager.txt --top 50

Columns, how pods are grouped, limits of the method: docs/commands/controllers.md.")]
pub struct Args {
    /// Metrics pages, audit logs, pods (kubectl get -o json|yaml, or a database of etcd): files, folders, globs,
    /// bundles, URLs.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
    #[command(flatten)]
    moment: MomentFlags,
}

impl Args {
    /// What the flags ask.
    pub fn question(&self, now: Micros) -> Result<question::Controllers, Error> {
        let (at, bounds) = self.moment.bounds(&self.time, now).map_err(Error::Usage)?;
        Ok(question::Controllers { sources: self.sources.clone(), at, bounds })
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    context.refuse_sort("the longest wait comes first; sort the output of -o csv or -o json")?;
    let question = args.question(context.io.now)?;
    show(answer(&question, context)?, FailOn::Never, context)
}

/// Answers the question.
pub(super) fn answer(question: &question::Controllers, context: &mut Context<'_>) -> Result<Answer, Error> {
    let (since, until) = question::up_to(question.at, question.bounds);
    let mut gathered =
        Read { top: context.settings.asked_top(), wide: context.settings.format == Format::Wide, ..Read::default() };
    // What is no log and no page may be a file of pods.
    let mut found = find::find(&question.sources, Wanted::Both, context.io.now);
    for error in found.errors.iter().filter(|error| error.is_loss()) {
        context.lost(error)?;
    }
    let clusters: Vec<String> = found.streams.iter().map(|stream| stream.stream.cluster.clone()).collect();
    let logs = match found.streams.is_empty() {
        true => None,
        false => {
            let selection = Selection { since, until, ..Selection::default() };
            Some(rollup::observe::<Watcher>(std::mem::take(&mut found.streams), selection, context)?)
        }
    };
    let too_early = objects(question, &mut gathered, context)?;
    pages::keep(&mut found.pages, since, until);
    found.pages.iter_mut().for_each(name);
    let (facts, pages) = pages::facts(std::mem::take(&mut found.pages), Retention::Controllers, context)?;
    (gathered.facts, gathered.undated) = (facts, pages.undated);
    gathered.inputs.extend(pages.inputs);
    if let Some((seen, outcome)) = logs {
        let spans = outcome.coverage.iter().filter_map(|own| own.first.zip(own.last));
        gathered.logged = all_together(spans.filter_map(|span| clipped((since, until), span)));
        for (cluster, last) in clusters.into_iter().zip(outcome.coverage.iter().map(|own| own.last)) {
            // Events may be older than the log: of an export, which names its clusters itself, nothing is known here.
            if let Some(last) = last.map(|last| until.map_or(last, |until| last.min(until))) {
                gathered.logged_until.entry(cluster).and_modify(|all| *all = last.min(*all)).or_insert(last);
            }
        }
        gathered.leases = Some(together(Arc::unwrap_or_clone(seen)));
        gathered.inputs.extend(outcome.inputs);
    }
    if let Some(why) = too_early {
        if gathered.facts.instances.iter().all(|own| own.pages == 0) && gathered.logged.is_none() {
            return Err(Error::Usage(why));
        }
        context.lost(why)?;
    }
    if gathered.facts.instances.is_empty() && gathered.leases.is_none() && gathered.classes.is_none() {
        return Err(Error::Input(format!("{}: no metrics page, audit log or pods", question.sources.join(", "))));
    }
    let (report, handovers) = report(gathered);
    Ok(Answer::Report(Box::new(report), Rows::Handovers(handovers)))
}

impl Observe for Watcher {
    type Batch = Runs;
    type All = Vec<Runs>;
    fn selected(&mut self, event: &Timed<'_, '_>) {
        self.event(event);
    }
    fn flush(&mut self) -> Runs {
        Self::flush(self)
    }
    fn take(all: &mut Vec<Runs>, batch: Runs) {
        all.push(batch);
    }
    fn stored(_: &Selection) -> Result<Tables, Problem> {
        Ok(Tables::Leases)
    }
    fn of_rollup(rollup: &Rollup, _: &Selection) -> Vec<Runs> {
        vec![rollup.leases()]
    }
}

/// What a person names without a folder around it is called as the file, or the folder, is.
fn name(folder: &mut PageFolder) {
    if folder.instance.is_empty()
        && let [first, more @ ..] = folder.pages.as_slice()
    {
        let path = Path::new(&first.source.path);
        let own = if more.is_empty() { path.file_name() } else { path.parent().and_then(Path::file_name) };
        folder.instance = own.map(|own| own.to_string_lossy().into_owned()).unwrap_or_default();
    }
}

/// Reads pods: of the last capture that has any, else of a database of etcd. Gives why there is none by the moment that
/// is looked at.
fn objects(
    question: &question::Controllers,
    gathered: &mut Read,
    context: &mut Context<'_>,
) -> Result<Option<String>, Error> {
    let (sources, moment) = (&question.sources, question.at);
    let Captures { mut captures, inputs, errors } = captures::find(sources, context);
    for error in &errors {
        context.lost(error)?;
    }
    gathered.inputs = inputs;
    if let Some(moment) = moment.filter(|_| !captures.is_empty()) {
        // Only what has pods is shown.
        captures.retain(|capture| capture.objects.has("Pod"));
        captures = match moment::of_objects(captures, moment, context) {
            Ok(captures) => captures,
            // Metrics and logs up to then are shown all the same, where there are some.
            Err(Error::Usage(why)) => return Ok(Some(why)),
            Err(other) => return Err(other),
        };
    }
    // A list of nothing does not say of what.
    if !captures.is_empty() && captures.iter().all(|capture| capture.objects.kinds.is_empty()) {
        gathered.classes = Some(Classes::default());
        return Ok(None);
    }
    if let Some(capture) = captures.into_iter().rev().find(|capture| capture.objects.has("Pod")) {
        gathered.classes = Some(classes(&capture.objects));
        gathered.taken = Some(capture.at);
        return Ok(None);
    }
    let is_pod = |key: &ObjectKey<'_>| key.resource == "pods" && key.group.is_empty();
    let database = match moment {
        Some(moment) if etcd::has_any(sources, context) => Some(etcd::path_at(sources, moment, context)?),
        _ => None,
    };
    if let Some((path, values)) =
        newest::objects(database.as_deref(), sources, &is_pod, |_, value: &Value| value.to_string(), context)?
    {
        let mut objects = Objects::default();
        for value in values {
            read::objects(value.as_bytes(), &mut objects)
                .whole()
                .map_err(|what| Error::Input(format!("{path}: {what}")))?;
        }
        gathered.classes = Some(classes(&objects));
    }
    Ok(None)
}
