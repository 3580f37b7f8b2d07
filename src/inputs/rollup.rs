//! From logs to their roll-up: what every analysis of audit logs but `traffic` begins with.

use super::log_question::{self, Answered, Fold, LogQuestion};
use super::selection::Selection;
use super::{logs, together};
use crate::analysis::filter::Filter;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::{Tables, Wanted};
use crate::cli::{Context, Error};
use crate::model::event::{Timed, called};
use crate::model::problem::Problem;
use crate::model::time::{self, Bounds, Span, is_short};
use crate::sources::audit::pass::{self, Delivery, Outcome, Worker};
use crate::sources::audit::settle::{LogBounds, settled};
use crate::sources::found::LogStream;
use crate::sources::watcher::Watcher;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

/// Reads `streams` and makes their roll-up, with all tables.
pub fn roll_up(streams: Vec<LogStream>, threads: usize, watcher: &dyn Watcher) -> (Rollup, Outcome) {
    log_question::answer(streams, &Selection { with_seams: true, ..Selection::default() }, threads, watcher)
}

/// The same, of some events and for a command: with progress, and it is said what was lost.
pub(crate) fn read(
    streams: Vec<LogStream>,
    selection: &Selection,
    context: &mut Context<'_>,
) -> Result<Answered<Rollup>, Error> {
    let (rollup, outcome) = logs::ask(streams, selection.clone(), context)?;
    report_copies(&outcome, context)?;
    Ok((rollup, outcome))
}

/// The same of several selections; those of the same logs by one pass.
pub(crate) fn read_all(
    asked: Vec<(Vec<LogStream>, Selection)>,
    context: &mut Context<'_>,
) -> Result<Vec<Answered<Rollup>>, Error> {
    let answers = together::ask_all(asked, context)?;
    // Of one pass all have the same.
    let messages: BTreeSet<String> =
        answers.iter().filter_map(|(_, outcome)| outcome.total().copies_in_words()).collect();
    messages.into_iter().try_for_each(|message| context.notice(message))?;
    Ok(answers)
}

/// Asks observers that keep nothing but what each block gives.
pub(crate) fn observe<O: Observe>(
    streams: Vec<LogStream>,
    selection: Selection,
    context: &mut Context<'_>,
) -> Result<(Arc<O::All>, Outcome), Error> {
    let (all, outcome) = logs::ask(streams, Observed::<O> { selection, observer: PhantomData }, context)?;
    report_copies(&outcome, context)?;
    Ok((all, outcome))
}

/// Looks at events one by one, on one thread.
pub(crate) trait Observe: Default + Send + 'static {
    /// What a block gave.
    type Batch: Send + 'static;
    /// What all blocks gave.
    type All: Default + Send + Sync + 'static;

    /// Takes an event of the selection.
    fn selected(&mut self, event: &Timed<'_, '_>);

    /// Takes an event, whether the selection has it or not.
    fn event(&mut self, event: &Timed<'_, '_>, selection: &Selection) {
        if selection.takes(event) {
            self.selected(event);
        }
    }

    /// What was seen since the last time.
    fn flush(&mut self) -> Self::Batch;

    /// Puts it together with what came before.
    fn take(all: &mut Self::All, batch: Self::Batch);

    /// Which tables of a stored roll-up have the same; says what it would take where none do.
    fn stored(selection: &Selection) -> Result<Tables, Problem>;

    /// What all blocks gave, from these tables.
    fn of_rollup(rollup: &Rollup, selection: &Selection) -> Self::All;
}

/// Asks for what an observer sees of a selection.
pub(crate) struct Observed<O> {
    selection: Selection,
    observer: PhantomData<fn() -> O>,
}

impl<O: Observe> LogQuestion for Observed<O> {
    type Fold = Self;
    type Answer = O::All;
    fn bounds(&self) -> Bounds {
        (self.selection.since, self.selection.until)
    }
    fn fold(&self, _: usize) -> Self {
        Self { selection: self.selection.clone(), observer: PhantomData }
    }
    fn is(&self, other: &Self) -> bool {
        self.selection == other.selection
    }
    fn stored(&self) -> Result<Wanted, Problem> {
        let tables = O::stored(&self.selection)?;
        Ok(Wanted { since: self.selection.since, until: self.selection.until, tables, ..Wanted::default() })
    }
    fn is_exact(&self, held: &Rollup) -> bool {
        held.has_all_rare()
    }
    fn of_rollup(&self, rollup: Rollup) -> Result<O::All, Problem> {
        Ok(O::of_rollup(&rollup, &self.selection))
    }
}

impl<O: Observe> Fold for Observed<O> {
    type Worker<'f> = One<'f, O>;
    type Batch = O::Batch;
    type State = O::All;
    type Answer = O::All;
    fn worker(&self) -> One<'_, O> {
        One { observer: O::default(), selection: &self.selection }
    }
    fn begin(&self) -> O::All {
        O::All::default()
    }
    fn take(&self, all: &mut O::All, delivery: Delivery<O::Batch>) {
        if let Delivery::Block { batch, .. } = delivery {
            O::take(all, batch);
        }
    }
    fn finish(&self, all: O::All, _: Vec<One<'_, O>>) -> O::All {
        all
    }
}

/// An observer as a worker of the source's pass.
pub(crate) struct One<'s, O> {
    pub(crate) observer: O,
    pub(crate) selection: &'s Selection,
}

impl<O: Observe> Worker for One<'_, O> {
    type Batch = O::Batch;
    fn event(&mut self, event: Timed<'_, '_>) {
        self.observer.event(&event, self.selection);
    }
    fn flush(&mut self) -> O::Batch {
        self.observer.flush()
    }
}

/// Runs workers that borrow what they look for over logs, for a command that is never asked by another: with progress,
/// and it is said what was lost. Where the ends of the logs misled, it begins once more.
pub(crate) fn pass<W: Worker, S>(
    streams: Vec<LogStream>,
    selection: &Selection,
    make: impl Fn() -> W + Sync,
    begin: impl Fn() -> S,
    take: impl Fn(&mut S, W::Batch),
    context: &mut Context<'_>,
) -> Result<(S, Outcome), Error> {
    log_question::only_logs(&streams, "this")?;
    let progress = log_question::progress(&streams, context);
    let window = (selection.since, selection.until);
    let (all, outcome) = settled(streams, LogBounds { judged: window, read: window }, |streams| {
        let mut all = begin();
        let (_, outcome) = pass::run(streams, context.settings.reading(), &progress, &make, |delivery| {
            if let Delivery::Block { batch, .. } = delivery {
                take(&mut all, batch);
            }
        });
        (all, outcome)
    });
    progress.finish();
    outcome.losses.iter().try_for_each(|loss| context.lost(loss))?;
    report_copies(&outcome, context)?;
    Ok((all, outcome))
}

/// An apiserver by cluster and name, and from when to when its log has events; nothing where it has none.
pub(crate) type Covered = ((String, String), Option<Span>);

/// What is to be said of apiservers whose logs cover less of the time than those of others of their cluster, within a
/// window if one was asked for.
pub(crate) fn short_logs(logs: &[Covered], window: Option<Span>) -> Vec<String> {
    let of_cluster = |cluster: &str| {
        let own = logs.iter().filter(|((of, _), _)| of == cluster);
        let all = own.fold(None, |all, (_, span)| time::together(all, *span))?;
        Some(window.map_or(all, |window| (window.0.max(all.0), window.1.min(all.1))))
    };
    let short = logs.iter().filter_map(|((cluster, name), span)| {
        let window = of_cluster(cluster).filter(|(from, to)| from < to)?;
        let reported = span.map_or_else(
            || "is empty".to_owned(),
            |(first, last)| format!("has only {} to {}", time::format(first), time::format(last)),
        );
        span.is_none_or(|span| is_short(span, window)).then(|| {
            format!(
                "The log of {} {reported}; rates and balance count the rest of the time as zero requests.",
                called(name)
            )
        })
    });
    short.collect()
}

fn report_copies(outcome: &Outcome, context: &mut Context<'_>) -> Result<(), Error> {
    outcome.total().copies_in_words().map_or(Ok(()), |message| context.notice(message))
}

/// What analysis looks at events with, as a worker of the source's pass: of those that are taken.
pub(crate) struct Chosen<'s, O, B> {
    pub(crate) observer: O,
    pub(crate) selection: &'s Selection,
    /// Takes an event.
    pub(crate) event: fn(&mut O, &Timed<'_, '_>),
    /// Gives what was seen since the last time.
    pub(crate) flush: fn(&mut O) -> B,
}

impl<O: Send, B: Send> Worker for Chosen<'_, O, B> {
    type Batch = B;
    fn event(&mut self, event: Timed<'_, '_>) {
        if self.selection.takes(&event) {
            (self.event)(&mut self.observer, &event);
        }
    }
    fn flush(&mut self) -> B {
        (self.flush)(&mut self.observer)
    }
}

/// The conditions of `--where`.
pub(crate) fn conditions(texts: &[String]) -> Result<Vec<Filter>, Error> {
    texts.iter().map(|text| text.parse().map_err(|why| Error::Usage(format!("--where: {why}")))).collect()
}

/// What conditions on clients may be about. How clients behave shows in all that they do: without the watches, an
/// informer's LISTs would look like polling.
const WHO: [&str; 10] =
    ["user", "serviceaccount", "agent", "source-ip", "node", "cluster", "instance", "group", "resource", "namespace"];

/// The same where clients are judged, or compared; `because` says why nothing else may be asked for.
pub(crate) fn conditions_on_clients(texts: &[String], because: &str) -> Result<Vec<Filter>, Error> {
    let filters = conditions(texts)?;
    match filters.iter().find(|filter| !WHO.contains(&filter.dim.name())) {
        Some(filter) => Err(Error::Usage(format!(
            "--where {}: {because}conditions may be about {}",
            filter.dim.name(),
            WHO.join(", ")
        ))),
        None => Ok(filters),
    }
}
