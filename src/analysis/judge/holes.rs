//! Whether a silence is a hole in a log: an apiserver that answers nobody, and a part of its log that is missing, look
//! the same in that log. What follows shows which it was.

use super::series::{RequestSeries, quantile};
use super::signals::{Deviation, Signal, near, overlap, without};
use super::stops::{GOES_ON, NEARLY_ALL, is_taken_over, one_stops, part_of_usual, reconnect};
use super::vitals::{Vital, Vitals};
use crate::analysis::metrics::facts::Component;
use crate::model::cause::Source;
use crate::model::time::{Micros, SECOND, Span};
use std::collections::BTreeSet;

/// Slow requests behind a silence are its consequence from so many times those of nearly all other intervals on.
const SLOWER_TIMES: f64 = 2.0;
/// Who waits for an apiserver does so for half of the time that it answers nobody, within bounds, s.
const MIN_WAIT_S: f64 = 1.0;
const MAX_WAIT_S: f64 = 10.0;
/// So many requests at least.
const MIN_WAITED: f64 = 5.0;
/// Where pages of none of them are to be had for so long, in µs, all of them are away together.
const ALL_GONE: Micros = 8 * SECOND;
/// What lies so far from a silence may follow from it, in µs.
const NEAR: Micros = 10 * SECOND;
/// A silence at the end of a log that is shorter than this may be how it was cut, in µs.
const TAIL: Micros = 20 * SECOND;

/// Leaves out silences of an audit log during which pages count requests as before, since the log has a hole, and those
/// of pages between which apiservers started.
pub(super) fn without_uncounted(
    all: Vec<Deviation>,
    series: &[RequestSeries],
    vitals: Option<&Vitals>,
) -> Vec<Deviation> {
    let of = |source: Source| series.iter().find(|own| own.source == source);
    // Pages of more apiservers than there are logs of count requests to those without a log, too.
    let pages = of(Source::Metrics)
        .filter(|pages| of(Source::Audit).is_some_and(|log| pages.by_instance.len() <= log.by_instance.len().max(1)));
    let go_on = |pages: &RequestSeries, own: &Deviation| match own.signal {
        // Which of them a log is of is not known by its number.
        Signal::Away(_) => {
            pages.by_instance.len() > 1
                && pages.by_instance.iter().all(|counts| part_of_usual(pages, counts, own.span) >= Some(GOES_ON))
        }
        _ => part_of_usual(pages, &pages.requests(), own.span) >= Some(GOES_ON),
    };
    without(all, |own, all| {
        is_uncounted(own, series, vitals)
            || is_of_log(own, all)
                && pages.is_some_and(|pages| go_on(pages, own))
                && !is_away_by_pages(own, series, vitals)
                && !has_consequence(own, all, series)
    })
}

/// Whether it is a short silence at the end of an audit log, and nothing else shows that anything stopped: load that
/// was measured ends before who measured it.
pub(super) fn is_tail(own: &Deviation, all: &[Deviation], series: &[RequestSeries], vitals: Option<&Vitals>) -> bool {
    let log = series.iter().find(|series| series.source == Source::Audit && own.source == Source::Audit);
    let is_at_end = log.is_some_and(|log| own.span.1 + log.grid.tile > log.grid.span.1);
    (own.signal.is_stop() || matches!(own.signal, Signal::Away(_)))
        && is_at_end
        && own.span.1 - own.span.0 < TAIL
        && !has_consequence(own, all, series)
        && !is_away_by_pages(own, series, vitals)
}

/// Whether all that shows a silence is that a log has no events: no page, no request that failed, waited or was
/// throttled near it, no restart, and nobody who connects again or moves to another apiserver.
pub(super) fn is_hole(own: &Deviation, all: &[Deviation], series: &[RequestSeries], vitals: Option<&Vitals>) -> bool {
    if !is_of_log(own, all) || has_consequence(own, all, series) || is_away_by_pages(own, series, vitals) {
        return false;
    }
    let pages = series.iter().find(|own| own.source == Source::Metrics);
    let stops = |pages: &RequestSeries| {
        part_of_usual(pages, &pages.requests(), own.span).is_some_and(|part| part < GOES_ON)
            || matches!(own.signal, Signal::Away(_)) && one_stops(pages, own.span)
    };
    if pages.is_some_and(stops) {
        return false;
    }
    let is_other = |other: &Deviation| other.signal == Signal::Silence && other.span != own.span;
    let away = all.iter().filter(|other| matches!(other.signal, Signal::Away(_)) || is_other(other));
    let away: Vec<Span> = away.map(|other| other.span).collect();
    let reconnect_at = |at: Micros| series.iter().any(|series| reconnect(series, at, &away));
    // Clients of one of several go to the others at once.
    let is_elsewhere = match own.signal {
        Signal::Away(instance) => {
            let log = series.iter().find(|series| series.source == own.source);
            reconnect_at(own.span.0) || log.is_some_and(|log| is_taken_over(log, instance, own.span))
        }
        _ => false,
    };
    !is_elsewhere && !reconnect_at(own.span.1)
}

/// Whether an episode is a part of the log that is missing, as far as anything shows.
pub(super) fn are_holes(deviations: &[Deviation]) -> bool {
    !deviations.is_empty() && deviations.iter().all(|own| matches!(own.signal, Signal::LogMissing(_)))
}

/// Whether requests failed or were throttled near a silence, waited for as long as it lasted, or pages show that an
/// apiserver was away.
fn has_consequence(own: &Deviation, all: &[Deviation], series: &[RequestSeries]) -> bool {
    let is_away = |other: &Deviation| other.signal.is_away() && other.source == Source::Metrics;
    let is_slow = || series.iter().any(|series| waited(series, own.span) || is_slower_behind(series, own.span.1));
    if series.iter().any(|series| is_failing_behind(series, own.span.1) || is_started(series, own)) {
        return true;
    }
    let is_impact = |other: &Deviation| other.is_impact() && (!matches!(other.signal, Signal::Slow(_)) || is_slow());
    all.iter().any(|other| near(other.span, own.span, NEAR) && (is_away(other) || is_impact(other)))
}

/// Whether the apiserver, or any where all of them are silent, started near a silence.
fn is_started(series: &RequestSeries, own: &Deviation) -> bool {
    let is_its = |instance: usize| match own.signal {
        Signal::Away(away) => own.source == series.source && away == instance,
        _ => true,
    };
    series.starts.iter().any(|(span, instance)| is_its(*instance) && near(*span, own.span, NEAR))
}

/// Whether more requests are slow just behind a silence than in nearly all other intervals: an apiserver that starts is
/// slow for a while.
fn is_slower_behind(series: &RequestSeries, end: Micros) -> bool {
    let (most, others) = most_behind(series, end, |at| series.tiles[at].all().slow);
    most > SLOWER_TIMES * others
}

/// Whether more requests fail just behind a silence than in nearly all other intervals: what waited at an apiserver
/// that stood still is past its deadline when it goes on.
fn is_failing_behind(series: &RequestSeries, end: Micros) -> bool {
    let (most, others) = most_behind(series, end, |at| series.tiles[at].all().errors);
    most >= MIN_WAITED && most > SLOWER_TIMES * others
}

/// What an interval just behind a moment has at most, and what nearly all others have.
fn most_behind(series: &RequestSeries, end: Micros, of: impl Fn(usize) -> f64) -> (f64, f64) {
    let grid = series.grid;
    let is_behind = |at: &usize| grid.start(at + 1) > end && grid.start(*at) < end + NEAR;
    let others = (0..series.tiles.len()).filter(|at| !is_behind(at)).map(&of).collect();
    let most = (0..series.tiles.len()).filter(is_behind).map(&of).fold(0.0, f64::max);
    (most, quantile(others, NEARLY_ALL).unwrap_or(0.0))
}

/// Whether requests took so long, when a silence ended, that they had waited for it.
fn waited(series: &RequestSeries, span: Span) -> bool {
    let length = (span.1 - span.0) as f64 / SECOND as f64;
    let least = (length / 2.0).clamp(MIN_WAIT_S, MAX_WAIT_S);
    let grid = series.grid;
    let is_its = |at: &usize| grid.start(at + 1) > span.0 && grid.start(*at) < span.1 + NEAR;
    (0..series.tiles.len()).filter(is_its).map(|at| series.tiles[at].latency.at_least(least)).sum::<f64>() >= MIN_WAITED
}

/// Whether no page of an apiserver was to be had meanwhile, or it started then. Where the counters of all of them went
/// on as usual between two pages, nobody took any.
fn is_away_by_pages(own: &Deviation, series: &[RequestSeries], vitals: Option<&Vitals>) -> bool {
    let Some(vitals) = vitals else { return false };
    let pages = series.iter().find(|series| series.source == Source::Metrics);
    let went_on = |pages: &RequestSeries, gap: Span| {
        let mut all = pages.by_instance.iter();
        all.all(|counts| part_of_usual(pages, counts, gap).is_some_and(|part| part >= GOES_ON))
    };
    let gaps = vitals.of(Vital::Unreachable).flat_map(|course| &course.points);
    let mut gaps = gaps.filter(|gap| !pages.is_some_and(|pages| went_on(pages, gap.span)));
    let mut starts = vitals.apiserver_starts((own.span.0 - NEAR, own.span.1 + NEAR));
    gaps.any(|gap| overlap(gap.span, own.span) > 0) || starts.next().is_some()
}

/// Whether all of several apiservers started one after another around a silence of pages: what a process answers before
/// its first page, and after its last, is counted by none.
fn is_uncounted(own: &Deviation, series: &[RequestSeries], vitals: Option<&Vitals>) -> bool {
    let pages = series.iter().find(|series| series.source == Source::Metrics);
    let (Some(vitals), Some(pages)) = (vitals, pages.filter(|_| own.source == Source::Metrics)) else { return false };
    let its = vitals.apiserver_starts((own.span.0 - pages.grid.tile, own.span.1 + pages.grid.tile));
    let started: BTreeSet<&str> = its.map(|start| start.instance.as_str()).collect();
    let count = pages.by_instance.len();
    own.signal.is_stop() && count > 1 && started.len() >= count && !all_gone(vitals, own.span)
}

/// Whether pages of no apiserver could be had for a while within a time, though of each they usually can.
fn all_gone(vitals: &Vitals, span: Span) -> bool {
    let of = vitals.unreachable(Component::Apiserver);
    // What is left of the time once each of them must be gone.
    let left = of.map(|course| course.points.iter().map(|point| point.span).collect::<Vec<Span>>());
    let common = left.fold(vec![(span.0 - NEAR, span.1 + NEAR)], |all, own| {
        let both = |a: &Span| own.iter().map(|b| (a.0.max(b.0), a.1.min(b.1))).collect::<Vec<Span>>();
        all.iter().flat_map(both).filter(|both| both.0 < both.1).collect()
    });
    common.iter().any(|own| own.1 - own.0 >= ALL_GONE)
}

/// Whether hardly anything is in an audit log, or in that of one apiserver: where writes alone stop, reads show that
/// the log goes on.
fn is_of_log(own: &Deviation, all: &[Deviation]) -> bool {
    let is_silence = |other: &Deviation| other.source == Source::Audit && other.signal == Signal::Silence;
    own.source == Source::Audit
        && match own.signal {
            Signal::Silence | Signal::Away(_) => true,
            Signal::WritesStop => all
                .iter()
                .any(|other| is_silence(other) && 2 * overlap(other.span, own.span) >= own.span.1 - own.span.0),
            _ => false,
        }
}
