//! From logs to their roll-up: what every analysis of audit logs but `traffic` begins with.

use super::traffic;
use crate::analysis::dims::Known;
use crate::analysis::filter::Filter;
use crate::analysis::rollup::{Batch, Observer, Part, Rollup, Whole};
use crate::cli::{Context, Error};
use crate::model::event::Timed;
use crate::model::time::{self, Micros};
use crate::sources::audit::pass::{self, Delivery, Outcome, Watcher, Worker};
use crate::sources::find::LogStream;

/// Which events are taken.
#[derive(Debug, Default)]
pub struct Selection {
    /// From here on.
    pub since: Option<Micros>,
    /// Before this.
    pub until: Option<Micros>,
    /// Those that meet all conditions. They should be about who asks for what: stages of one request must not be told apart.
    pub filters: Vec<Filter>,
}

impl Selection {
    /// Whether it is to be taken.
    pub fn takes(&self, event: &Timed<'_, '_>) -> bool {
        self.since.is_none_or(|since| event.at >= since)
            && self.until.is_none_or(|until| event.at < until)
            && self.filters.iter().all(|filter| filter.accepts(event, Known::default()))
    }
}

/// Reads `streams` and makes their roll-up.
pub fn roll_up(streams: Vec<LogStream>, threads: usize, watcher: &dyn Watcher) -> (Rollup, Outcome) {
    roll_up_some(streams, &Selection::default(), threads, watcher)
}

/// The same, of some events.
pub fn roll_up_some(
    streams: Vec<LogStream>,
    selection: &Selection,
    threads: usize,
    watcher: &dyn Watcher,
) -> (Rollup, Outcome) {
    let make = || Observing { observer: Observer::default(), selection };
    let mut part = Part::new(streams.len(), Whole::First);
    let (_, outcome) = pass::run(streams, threads, watcher, make, |delivery| match delivery {
        Delivery::Block { stream, batch } => part.take(stream, batch),
        Delivery::End { stream } => part.end(stream),
    });
    (part.finish(), outcome)
}

/// The same for a command: with progress, and it is said what was lost.
pub(super) fn read(
    streams: Vec<LogStream>,
    selection: &Selection,
    context: &mut Context<'_>,
) -> Result<(Rollup, Outcome), Error> {
    let progress = traffic::progress(&streams, context);
    let (rollup, outcome) = roll_up_some(streams, selection, context.settings.threads, &progress);
    progress.finish();
    tell(&outcome, context)?;
    Ok((rollup, outcome))
}

/// Runs workers over logs for a command: with progress, and it is said what was lost.
pub(super) fn pass<W: Worker>(
    streams: Vec<LogStream>,
    make: impl Fn() -> W + Sync,
    mut take: impl FnMut(W::Batch),
    context: &mut Context<'_>,
) -> Result<Outcome, Error> {
    let progress = traffic::progress(&streams, context);
    let (_, outcome) = pass::run(streams, context.settings.threads, &progress, make, |delivery| {
        if let Delivery::Block { batch, .. } = delivery {
            take(batch);
        }
    });
    progress.finish();
    tell(&outcome, context)?;
    Ok(outcome)
}

/// An apiserver, and from when to when its log has events; nothing where it has none.
pub(super) type Covered = (String, Option<(Micros, Micros)>);

/// What is to be said of apiservers whose logs cover less of the time than those of others, within a window if one was asked for.
pub(super) fn short_logs(logs: &[Covered], window: Option<(Micros, Micros)>) -> Vec<String> {
    let all = logs.iter().filter_map(|(_, span)| *span).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let Some(all) = all else { return Vec::new() };
    let (from, to) = window.map_or(all, |window| (window.0.max(all.0), window.1.min(all.1)));
    let long = (to - from) as f64;
    let short = logs.iter().filter_map(|(name, span)| {
        let covers = span.map_or(0, |span| (span.1.min(to) - span.0.max(from)).max(0)) as f64;
        let told = span.map_or_else(
            || "is empty".to_owned(),
            |(first, last)| format!("has only {} to {}", time::format(first), time::format(last)),
        );
        (long > 0.0 && covers < 0.9 * long)
            .then(|| format!("The log of {name} {told}: what is said of rates and balance counts the rest as silence."))
    });
    short.collect()
}

fn tell(outcome: &Outcome, context: &mut Context<'_>) -> Result<(), Error> {
    outcome.losses.iter().try_for_each(|loss| context.lost(loss))
}

/// What analysis looks at events with, as a worker of the source's pass: of those that are taken.
pub(super) struct Chosen<'s, O, B> {
    pub(super) observer: O,
    pub(super) selection: &'s Selection,
    /// Takes an event.
    pub(super) event: fn(&mut O, &Timed<'_, '_>),
    /// Gives what was seen since the last time.
    pub(super) flush: fn(&mut O) -> B,
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
pub(super) fn conditions(texts: &[String]) -> Result<Vec<Filter>, Error> {
    texts.iter().map(|text| text.parse().map_err(|why| Error::Usage(format!("--where: {why}")))).collect()
}

/// What conditions on clients may be about. How clients behave shows in all that they do: without the watches, an informer's LISTs would look
/// like polling.
const WHO: [&str; 10] =
    ["user", "serviceaccount", "agent", "source-ip", "node", "cluster", "instance", "group", "resource", "namespace"];

/// The same where clients are judged, or compared; `because` says why nothing else may be asked for.
pub(super) fn conditions_on_clients(texts: &[String], because: &str) -> Result<Vec<Filter>, Error> {
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

/// The observer of analysis as a worker of the source's pass.
struct Observing<'s> {
    observer: Observer,
    selection: &'s Selection,
}

impl Worker for Observing<'_> {
    type Batch = Batch;
    #[inline]
    fn event(&mut self, event: Timed<'_, '_>) {
        if self.selection.takes(&event) {
            self.observer.event(event);
        }
    }
    fn flush(&mut self) -> Batch {
        self.observer.flush()
    }
}
