//! Controllers that ask for nothing any more: as long as they live, they renew their lease, or ask whether it is free,
//! every two seconds. What else they ask is the work that others make for them, of which there may be none.

use super::excursions::runs;
use super::requests::CONTROLLERS;
use super::series::{RequestSeries, quantile};
use super::signals::{Deviation, Signal, edges};
use super::unbound::unbound;
use crate::model::cause::Source;
use crate::model::time::{MINUTE, Micros, SECOND, Span};
use std::ops::Range;

/// They ask every 2 s (`--leader-elect-retry-period`); where they are seen less often than every 5 s, the audit policy
/// leaves their leases out, and nothing is known. A second.
const MIN_RATE: f64 = 0.2;
/// What they ask of leases while they live: this quantile over all intervals, as they may be gone for most of the time.
const USUAL: f64 = 0.9;
/// So many are expected of an interval, else its silence is chance.
const MIN_EXPECTED: f64 = 4.0;
/// Meanwhile each apiserver answers this part of what it usually does: else it is away, or its log lacks a part.
const ALIVE: f64 = 0.1;
/// Of one that has too little to do to be seen in an interval, so many requests show that its log goes on.
const SHOWS: f64 = 3.0;
/// Where so many other clients, and this part of those that usually ask for something, are silent as well, it is their
/// apiserver that is, or its log, whoever merged it with those of others.
const MIN_OTHERS: usize = 2;
const PART_OF_OTHERS: f64 = 0.25;
/// Shortest silence that counts: a process that is started again asks within seconds. In µs.
const MIN_SILENCE: Micros = 30 * SECOND;
/// Grace period at the begin of a record, in which a controller that asks for nothing may still be starting. In µs.
const STARTS: Micros = MINUTE;
/// Their places in [`CONTROLLERS`].
const MANAGER: usize = 0;
const SCHEDULER: usize = 1;

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
        let leases = Asking::new(series, series.leases[number].clone());
        if leases.usual < MIN_RATE {
            continue;
        }
        let base = vec![leases.usual; leases.counts.len()];
        let tiles = silent_tiles(series, [&leases, &Asking::new(series, series.asked[number].clone())]);
        all.extend(tiles.into_iter().map(|tiles| Silence {
            name,
            usual: leases.usual,
            span: edges(series, &leases.counts, &base, 0.0, &tiles),
            tiles,
        }));
    }
    if all.iter().all(|own| own.name != CONTROLLERS[SCHEDULER].1) {
        all.extend(unseen(series));
    }
    all
}

/// A scheduler of which nothing is seen but that pods wait: in audit logs that have the other controller's leases and
/// none of its requests, it is silent throughout; of pages, while pods wait.
fn unseen(series: &RequestSeries) -> Vec<Silence> {
    let spans: Vec<Span> = match series.source {
        Source::Audit => Some(series.grid.span).filter(|_| is_never_seen(series)).into_iter().collect(),
        _ if series.has_bindings => unbound(series).iter().map(|tiles| series.grid.covered(tiles)).collect(),
        _ => Vec::new(),
    };
    // Nor was it there before: no time has another baseline.
    let of = |span| Silence { name: CONTROLLERS[SCHEDULER].1, usual: 0.0, tiles: 0..0, span };
    spans.into_iter().map(of).collect()
}

/// Whether audit logs that have the other controller's leases have no request of the scheduler, and pods wait.
fn is_never_seen(series: &RequestSeries) -> bool {
    let is_there = || series.asked[SCHEDULER].iter().any(|count| *count > 0.0);
    let is_logged = || Asking::new(series, series.leases[MANAGER].clone()).usual >= MIN_RATE;
    !unbound(series).is_empty() && !is_there() && is_logged()
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
        weight: (own.span.1 - own.span.0) as f64 / series.grid.tile as f64,
    };
    long.map(of).collect()
}

/// What a controller asks by interval, and a second while it lives.
struct Asking {
    counts: Vec<f64>,
    usual: f64,
}

impl Asking {
    fn new(series: &RequestSeries, counts: Vec<f64>) -> Self {
        let rates = counts.iter().enumerate().map(|(at, count)| count / series.grid.seconds(at).max(0.1));
        let usual = quantile(rates.collect(), USUAL).unwrap_or(0.0);
        Self { counts, usual }
    }

    /// Whether nothing is asked in an interval: who is dead asks for nothing, who has little to do for its lease.
    fn is_silent(&self, at: usize, seconds: f64) -> bool {
        let expected = self.usual * seconds;
        expected >= MIN_EXPECTED && self.counts[at] == 0.0
    }
}

/// Runs of intervals in which nothing is asked, of leases and at all, though all apiservers answer. At the
/// beginning of what was read they last for longer than a start.
fn silent_tiles(series: &RequestSeries, asking: [&Asking; 2]) -> Vec<Range<usize>> {
    let grid = series.grid;
    let typical: Vec<f64> = series.by_instance.iter().map(|own| series.typical_of(own)).collect();
    let is_busy = |usual: f64| usual * grid.tile as f64 / SECOND as f64 >= MIN_EXPECTED;
    let is_alive = |at: usize| {
        let mut busy = series.by_instance.iter().zip(&typical).filter(|(_, usual)| is_busy(**usual));
        busy.all(|(own, usual)| own[at] >= ALIVE * usual * grid.seconds(at))
    };
    let goes_on = |tiles: &Range<usize>| {
        let mut idle = series.by_instance.iter().zip(&typical).filter(|(_, usual)| !is_busy(**usual));
        idle.all(|(own, _)| own[tiles.clone()].iter().sum::<f64>() >= SHOWS)
    };
    let clients = clients(series);
    let others = Asking::new(series, series.other_leases.clone());
    let is_silent = |at: &usize| {
        let seconds = grid.seconds(*at);
        asking.iter().all(|own| own.is_silent(*at, seconds)) && is_alive(*at) && !others.is_silent(*at, seconds)
    };
    let found = runs((0..series.tiles.len()).filter(is_silent), 0);
    // What the record's last interval covers may be too little to be silent.
    let is_long = |tiles: &Range<usize>| grid.start(tiles.end) - grid.start(tiles.start) + grid.tile >= MIN_SILENCE;
    let is_start = |tiles: &Range<usize>| tiles.start == 0 && grid.start(tiles.end) - grid.span.0 < STARTS;
    let is_alone = |tiles: &Range<usize>| {
        let seconds: f64 = tiles.clone().map(|at| grid.seconds(at)).sum();
        let asking: Vec<&Asking> = clients.iter().filter(|own| own.usual * seconds >= 2.0 * MIN_EXPECTED).collect();
        let silent = asking.iter().filter(|own| own.counts[tiles.clone()].iter().all(|count| *count == 0.0)).count();
        silent < MIN_OTHERS || (silent as f64) < PART_OF_OTHERS * asking.len() as f64
    };
    let is_its = |tiles: &Range<usize>| is_long(tiles) && !is_start(tiles) && goes_on(tiles) && is_alone(tiles);
    found.into_iter().filter(is_its).collect()
}

/// What each client asks for that does not belong to the control plane, at its typical rate: one that asks now and then
/// is silent in between.
fn clients(series: &RequestSeries) -> Vec<Asking> {
    let clients = series.by_caller.iter().zip(&series.is_own).filter(|own| !own.1 && series.by_caller.len() > 1);
    let of = |counts: Vec<f64>| Asking { usual: series.typical_of(&counts), counts };
    clients.map(|own| of(own.0.dense(series.tiles.len()))).collect()
}
