//! Whether a silence had an impact: an apiserver that answers nobody, and a part of its log that is missing, look the
//! same in that log. What follows shows which it was.

use super::series::RequestSeries;
use super::signals::{Deviation, Signal};
use crate::model::cause::Source;
use crate::model::episode::Grade;
use crate::model::time::{Micros, SECOND, Span};

/// Within this time of its end clients have connected again, in µs.
const RECONNECTS: Micros = 30 * SECOND;
/// Clients that lost their connections start so many times the watches that are usual, and so many at least.
const WATCHES_TIMES: f64 = 3.0;
const MIN_WATCHES: f64 = 5.0;
/// From this part of the typical rate on, requests go on.
const GOES_ON: f64 = 0.5;
/// What lies so far from a silence may follow from it, in µs.
const NEAR: Micros = 10 * SECOND;

/// Leaves out silences of an audit log during which pages count requests as before: the log has a hole.
pub(super) fn without_holes(all: Vec<Deviation>, series: &[RequestSeries]) -> Vec<Deviation> {
    let of = |source: Source| series.iter().find(|own| own.source == source);
    // Pages of more apiservers than there are logs of count requests to those without a log, too.
    let pages = of(Source::Metrics)
        .filter(|pages| of(Source::Audit).is_some_and(|log| pages.by_instance.len() <= log.by_instance.len().max(1)));
    let goes_on = |own: &Deviation| pages.and_then(|pages| part_of_usual(pages, own.span)) >= Some(GOES_ON);
    let is_hole = |own: &Deviation| is_silence(own, series) && goes_on(own) && !has_consequence(own, &all);
    let holes: Vec<bool> = all.iter().map(is_hole).collect();
    all.into_iter().zip(holes).filter(|(_, is_hole)| !is_hole).map(|(own, _)| own).collect()
}

/// Whether all that shows a silence is that a log has no events: no page, no request that failed, waited or was
/// throttled near it, no restart, and nobody who connects again.
pub(super) fn is_hole(own: &Deviation, all: &[Deviation], series: &[RequestSeries]) -> bool {
    if !is_silence(own, series) || has_consequence(own, all) {
        return false;
    }
    let pages = series.iter().find(|own| own.source == Source::Metrics);
    if pages.and_then(|pages| part_of_usual(pages, own.span)).is_some_and(|part| part < GOES_ON) {
        return false;
    }
    !series.iter().any(|series| reconnect(series, own.span.1))
}

/// Whether an episode of this grade is a part of the log that is missing, as far as anything shows: of nothing but
/// silences, which would be an outage.
pub(super) fn are_holes(grade: Grade, deviations: &[Deviation]) -> bool {
    grade == Grade::Degraded && !deviations.is_empty() && deviations.iter().all(|own| own.signal.is_stop())
}

/// Whether requests failed, waited or were throttled near a silence, or an apiserver was away.
fn has_consequence(own: &Deviation, all: &[Deviation]) -> bool {
    let is_near = |other: &Deviation| other.span.0 <= own.span.1 + NEAR && own.span.0 <= other.span.1 + NEAR;
    all.iter().any(|other| is_near(other) && (other.signal.is_away() || other.is_impact()))
}

/// Whether hardly anything is in an audit log: where writes alone stop, reads show that the log goes on.
fn is_silence(own: &Deviation, series: &[RequestSeries]) -> bool {
    let is_quiet = |log: &RequestSeries| part_of_usual(log, own.span).is_some_and(|part| part < GOES_ON / 2.0);
    own.source == Source::Audit
        && match own.signal {
            Signal::Silence => true,
            Signal::WritesStop => series.iter().any(|series| series.source == Source::Audit && is_quiet(series)),
            _ => false,
        }
}

/// Requests within a time by those that are usual; `None` where intervals that lie wholly within it are less than half
/// of it.
fn part_of_usual(series: &RequestSeries, span: Span) -> Option<f64> {
    let grid = series.grid;
    let within = (0..series.tiles.len()).filter(|at| span.0 <= grid.start(*at) && grid.start(at + 1) <= span.1);
    let (count, seconds) = within
        .fold((0.0, 0.0), |(count, seconds), at| (count + series.tiles[at].all().requests, seconds + grid.seconds(at)));
    (seconds * 2.0 >= (span.1 - span.0) as f64 / SECOND as f64)
        .then(|| count / (series.typical_rate() * seconds).max(1.0))
}

/// Whether many more watches than usual start when a silence has ended.
fn reconnect(series: &RequestSeries, end: Micros) -> bool {
    let grid = series.grid;
    let (mut after, mut all, mut seconds) = (0.0, 0.0, [0.0; 2]);
    for (at, tile) in series.tiles.iter().enumerate() {
        all += tile.watches;
        seconds[1] += grid.seconds(at);
        if grid.start(at + 1) > end - grid.tile && grid.start(at) < end + RECONNECTS {
            after += tile.watches;
            seconds[0] += grid.seconds(at);
        }
    }
    let usual = (all - after) / (seconds[1] - seconds[0]).max(1.0);
    after >= MIN_WATCHES && after >= WATCHES_TIMES * usual * seconds[0]
}
