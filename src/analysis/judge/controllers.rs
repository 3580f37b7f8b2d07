//! Controllers that ask for nothing any more: as long as they live, they renew their lease, or ask whether it is free,
//! every two seconds. What else they ask is the work that others make for them, of which there may be none.

use super::excursions::runs;
use super::requests::CONTROLLERS;
use super::series::{RequestSeries, quantile};
use super::signals::{Deviation, Signal, edges};
use crate::model::time::{Micros, SECOND, Span};
use std::ops::Range;

/// They ask every 2 s (`--leader-elect-retry-period`); where they are seen less often than every 5 s, the audit policy
/// leaves their leases out, and nothing is known. A second.
const MIN_RATE: f64 = 0.2;
/// What they ask of leases while they live: this quantile over all intervals, as they may be gone for most of the time.
const USUAL: f64 = 0.7;
/// Less than this part of it is silence.
const SILENT: f64 = 0.1;
/// So many are expected of an interval, else its silence is chance.
const MIN_EXPECTED: f64 = 4.0;
/// Meanwhile each apiserver answers this part of what it usually does: else it is away, or its log lacks a part.
const ALIVE: f64 = 0.4;
/// A process that is started again asks within seconds. In µs.
const MIN_SILENCE: Micros = 30 * SECOND;

/// Intervals in which one of the controllers asks for nothing.
pub(super) struct Silence {
    /// Of which, by its name.
    name: &'static str,
    /// What it asks of leases while it lives, a second.
    usual: f64,
    /// Nothing of its work is asked for in these either: they show no baseline.
    pub(super) tiles: Range<usize>,
    /// From when until when.
    span: Span,
}

/// All silences of the controllers.
pub(super) fn silences(series: &RequestSeries) -> Vec<Silence> {
    let mut all = Vec::new();
    for (number, (_, name)) in CONTROLLERS.iter().enumerate() {
        let (counts, usual) = requests(series, number);
        let base = vec![usual; counts.len()];
        all.extend(silent_tiles(series, counts, usual).into_iter().map(|tiles| Silence {
            name,
            usual,
            span: edges(series, counts, &base, 0.0, &tiles),
            tiles,
        }));
    }
    all
}

/// Silences that no restart explains.
pub(super) fn silent(series: &RequestSeries, silences: &[Silence]) -> Vec<Deviation> {
    let long = silences.iter().filter(|own| own.span.1 - own.span.0 >= MIN_SILENCE);
    let of = |own: &Silence| Deviation {
        signal: Signal::ControllerSilent(own.name),
        source: series.source,
        span: own.span,
        slack: series.grid.tile,
        level: 0.0,
        baseline: own.usual,
        weight: own.tiles.len() as f64,
    };
    long.map(of).collect()
}

/// What a controller asks of leases by interval, and a second while it lives.
fn requests(series: &RequestSeries, number: usize) -> (&[f64], f64) {
    let counts = &series.leases[number];
    let rates = counts.iter().enumerate().map(|(at, count)| count / series.grid.seconds(at).max(0.1));
    let usual = quantile(rates.collect(), USUAL).unwrap_or(0.0);
    (counts, usual)
}

/// Runs of intervals, not at the beginning of what was read, in which hardly anything is asked though all apiservers
/// answer.
fn silent_tiles(series: &RequestSeries, counts: &[f64], usual: f64) -> Vec<Range<usize>> {
    let grid = series.grid;
    if usual < MIN_RATE {
        return Vec::new();
    }
    let typical: Vec<f64> = series.by_instance.iter().map(|own| series.typical_of(own)).collect();
    let is_alive = |at: usize| {
        let mut of = series.by_instance.iter().zip(&typical);
        of.all(|(own, typical)| own[at] >= ALIVE * typical * grid.seconds(at))
    };
    let is_silent = |at: &usize| {
        let expected = usual * grid.seconds(*at);
        expected >= MIN_EXPECTED && counts[*at] < SILENT * expected && is_alive(*at)
    };
    let found = runs((0..counts.len()).filter(is_silent), 0);
    // What the record's last interval covers may be too little to be silent.
    let is_long = |tiles: &Range<usize>| grid.start(tiles.end) - grid.start(tiles.start) + grid.tile >= MIN_SILENCE;
    found.into_iter().filter(|tiles| tiles.start > 0 && is_long(tiles)).collect()
}
