//! What deviates from its baseline, and when: the signals that episodes are made of.

use super::controllers::{self, Silence};
use super::excursions::{baseline, excursions, runs};
use super::nodes;
use super::refusals::{self, Refusals};
use super::series::{ClassImpact, RequestSeries, Tile, quantile};
use super::signals::{Deviation, Signal, edges};
use super::slower;
use super::stops::{self, seconds_of_baseline};
use crate::model::cause::Source;
use crate::model::time::{HOUR, MINUTE, Micros, SECOND};
use std::ops::Range;

/// Median of the square of a normal deviation, in variances.
const CHI_SQUARED: f64 = 0.455;
/// What fails all the time comes in clumps of so many at most.
const MOST_CLUMPS: f64 = 30.0;
/// Fewer intervals do not show how counts scatter.
const MIN_SCATTER: usize = 60;
/// How many standard deviations of what fails all the time are no chance.
const SIGMAS: f64 = 5.0;
/// Intervals in which such a part of all requests fails are of no baseline.
const FAILING: f64 = 0.2;
/// Fewer intervals do not show what is usual.
pub const MIN_INTERVALS: usize = 6;
/// Kubernetes' objectives allow one request in a hundred to be slow; so many may fail or be throttled, too.
const ALLOWED: f64 = 0.01;
/// Fewer bad requests than this are chance.
const MIN_BAD: f64 = 10.0;
/// And in one interval fewer than this are.
const MIN_BAD_ONCE: f64 = 2.0;
/// A single interval is an impact only with this part of its requests.
const MIN_SHARE_ONCE: f64 = 0.05;
/// Over more intervals, this part.
const MIN_SHARE: f64 = 0.012;
/// An interval that is in an impact is in it with this part at least.
const MIN_PART: f64 = 0.1;
/// Impact that pauses for less than this goes on, in µs.
const PAUSE: Micros = 20 * SECOND;
/// What is bad all the time is this quantile of its parts over intervals: a longer episode than the rest would be
/// usual.
const USUAL: f64 = 0.25;
/// Each part is that of so many intervals to both sides, too.
const AROUND: usize = 3;
/// The load itself deviates from so many times its baseline on.
pub(super) const MIN_TIMES: f64 = 1.5;
/// A caller matters if it adds this part of all requests, or of all work, to the baseline.
const MIN_CALLER: f64 = 0.2;
/// Load deviates by so many requests a second at least.
const MIN_RATE: f64 = 1.0;
/// Slow requests of one impact began this long before they ended at most, in µs.
const MAX_AGE: Micros = MINUTE;
/// What is wrong for longer than apiservers keep audit logs by default is wrong all the time, in µs.
const MAX_RECORD: Micros = HOUR;
/// Of what is usually answered this part is missed.
const MISSED: f64 = 0.5;
/// In a record that lies within an impact as a whole this part of the requests takes long, or fails.
pub(super) const THROUGHOUT: f64 = 0.2;
/// Where so many of them fail, however long they do, it is an outage; and so many of the writes.
pub(super) const MOST_FAIL: f64 = 0.5;
pub(super) const WRITES_FAIL: f64 = 0.95;

/// All deviations in a series.
pub fn deviations(series: &RequestSeries) -> Vec<Deviation> {
    let mut all = Vec::new();
    if series.tiles.len() < MIN_INTERVALS {
        return all;
    }
    for (signal, bad) in [
        (Signal::Slow(None), (|own: &ClassImpact| (own.slow, own.timed)) as fn(&ClassImpact) -> (f64, f64)),
        (Signal::Errors, |own: &ClassImpact| (own.errors, own.requests)),
        (Signal::Throttled, |own: &ClassImpact| (own.throttled, own.requests)),
    ] {
        let found = impacts(series, signal == Signal::Errors, |tile| bad(&tile.all()));
        all.extend(found.into_iter().map(|own| own.deviation(series, signal.clone())));
    }
    // A failing webhook fails writes, of which there may be few among all requests.
    let failed = impacts(series, true, |tile| (tile.felt[2].errors, tile.felt[2].requests));
    all.extend(failed.into_iter().map(|own| own.deviation(series, Signal::FailedWrites)));
    // A rule that refuses refuses many clients' writes, and a key that is not valid any more those of many clients.
    for (signal, of) in [
        (Signal::RefusedWrites, (|tile: &Tile| &tile.refusals) as fn(&Tile) -> &Refusals),
        (Signal::Unauthorized, |tile| &tile.unauthorized),
    ] {
        let refused = impacts(series, true, |tile| of(tile).counts());
        let are_many = |own: &Impact| {
            let tiles = &series.tiles[own.tiles.clone()];
            match series.source {
                Source::Metrics => signal == Signal::Unauthorized && are_missed(series, &own.tiles, of),
                _ => refusals::are_many(tiles.iter().map(of), tiles.iter().map(|tile| tile.denied).sum()),
            }
        };
        all.extend(refused.into_iter().filter(are_many).map(|own| own.deviation(series, signal.clone())));
    }
    // A slow store or webhook is slow for writes, of which there may be few among all requests.
    for class in 0..3 {
        let found = impacts(series, false, |tile| {
            let own = &tile.felt[class];
            (own.slow, own.timed)
        });
        all.extend(found.into_iter().map(|own| own.deviation(series, Signal::Slow(Some(class)))));
    }
    all.extend(stops::stops(series));
    all.extend(throughout(series));
    all.extend(failing_throughout(series));
    all.extend(nodes::lost(series));
    let silences = controllers::silences(series);
    all.extend(controllers::silent(series, &silences));
    all.extend(slower::slower(series));
    all.extend(loads(series, &silences));
    all
}

/// Whether half of what is usually answered is missing while as much is refused: pages do not say who is refused, and
/// one client does not ask for half of everything.
fn are_missed(series: &RequestSeries, tiles: &Range<usize>, of: fn(&Tile) -> &Refusals) -> bool {
    let refused = |tile: &Tile| of(tile).counts().0;
    let answered: Vec<f64> = series.tiles.iter().map(|tile| tile.all().requests - refused(tile)).collect();
    let seconds: f64 = tiles.clone().map(|at| series.grid.seconds(at)).sum();
    let usual = series.typical_of(&answered) * seconds;
    let missing = usual - answered[tiles.clone()].iter().sum::<f64>();
    let refused: f64 = series.tiles[tiles.clone()].iter().map(refused).sum();
    missing >= MISSED * usual && refused >= MISSED * missing
}

/// A record that lies within an impact as a whole: nothing shows what is usual, but in three quarters of it a fifth of
/// all requests take longer than 99 in 100 do wherever a control plane is well. What lasts for longer than a record of
/// an incident does is a habit.
fn throughout(series: &RequestSeries) -> Option<Deviation> {
    let long = all_along(series, Signal::SlowThroughout, THROUGHOUT, |tile| {
        let all = tile.all();
        (all.long, all.timed)
    });
    long.filter(|_| !is_habit(series))
}

/// A record in which requests fail as a whole: in three quarters of it a fifth of all requests, and a fifth of the
/// reads, of the LISTs and of the writes, each as far as there are some, since one API that is missing, or one client,
/// fails in one of these; or nearly all writes.
fn failing_throughout(series: &RequestSeries) -> Vec<Deviation> {
    let of_class = |class: usize| move |tile: &Tile| (tile.felt[class].errors, tile.felt[class].requests);
    let sum = |class: usize| series.tiles.iter().map(of_class(class)).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    let is_everywhere = (0..3).map(sum).filter(|own| own.1 >= MIN_BAD).all(|(bad, all)| bad >= THROUGHOUT * all);
    let all = all_along(series, Signal::Errors, THROUGHOUT, |tile| {
        let all = tile.all();
        (all.errors, all.requests)
    });
    let all = all.filter(|own| is_everywhere && (own.level >= MOST_FAIL || !is_habit(series)));
    let writes = all_along(series, Signal::FailedWrites, WRITES_FAIL, of_class(2));
    all.into_iter().chain(writes).collect()
}

/// Whether a record is longer than that of an incident.
fn is_habit(series: &RequestSeries) -> bool {
    series.grid.span.1 - series.grid.span.0 > MAX_RECORD
}

/// A record in three quarters of which this part of what `of` gives (how many are bad, of how many) is bad.
fn all_along(
    series: &RequestSeries,
    signal: Signal,
    least: f64,
    of: impl Fn(&Tile) -> (f64, f64),
) -> Option<Deviation> {
    let counts: Vec<(f64, f64)> = series.tiles.iter().map(of).collect();
    let (bad, all) = counts.iter().fold((0.0, 0.0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
    let shares = counts.iter().filter(|own| own.1 > 0.0).map(|own| own.0 / own.1).collect();
    let usual = quantile(shares, USUAL).unwrap_or(0.0);
    (usual >= least && bad >= MIN_BAD).then(|| Deviation {
        signal,
        source: series.source,
        span: series.grid.span,
        slack: series.grid.tile,
        level: bad / all,
        baseline: 0.0,
        weight: bad,
    })
}

/// Intervals in which more requests are bad than are allowed.
struct Impact {
    tiles: Range<usize>,
    bad: f64,
    all: f64,
    /// The part that is bad between the first interval and the last, where there are some.
    inner: f64,
    baseline: f64,
    /// Which part of the first interval and of the last is in it, as far as they are like those inside.
    parts: [f64; 2],
}

impl Impact {
    fn deviation(self, series: &RequestSeries, signal: Signal) -> Deviation {
        let grid = series.grid;
        let micros = |part: f64| (part * grid.tile as f64) as Micros;
        let mut from = (grid.start(self.tiles.start + 1) - micros(self.parts[0])).max(grid.span.0);
        let to = (grid.start(self.tiles.end - 1) + micros(self.parts[1])).min(grid.span.1).max(from + SECOND);
        if matches!(signal, Signal::Slow(_)) {
            // What ended slow began earlier: half of the slow ones this long ago.
            let first = &series.tiles[self.tiles.start].latency;
            let count = first.count();
            let slow = series.tiles[self.tiles.start].all().slow;
            let age = first.quantile(1.0 - (slow / count.max(1.0) / 2.0)).unwrap_or(0.0);
            from -= ((age * SECOND as f64) as Micros).min(MAX_AGE);
            from = from.max(grid.span.0);
        }
        // The first interval and the last may lie in it in part only.
        let level = match signal {
            Signal::Errors | Signal::FailedWrites => self.inner,
            _ => self.bad / self.all.max(1.0),
        };
        Deviation {
            signal,
            source: series.source,
            span: (from, to),
            slack: grid.tile,
            level,
            baseline: self.baseline,
            weight: self.bad,
        }
    }
}

/// In clumps of how many what is so all the time comes: how far its counts scatter about their median share, as a
/// multiple of chance. Of a short record an episode is in most of what is looked at together.
fn clumps(windows: &[(f64, f64)], median: f64) -> f64 {
    if windows.len() < MIN_SCATTER {
        return 1.0;
    }
    let expected = windows.iter().map(|(bad, all)| (bad, median * all)).filter(|own| own.1 > 0.0);
    let scatter = expected.map(|(bad, usual)| (bad - usual).powi(2) / usual).collect();
    (quantile(scatter, 0.5).unwrap_or(0.0) / CHI_SQUARED).clamp(1.0, MOST_CLUMPS)
}

/// Where more requests are bad than allowed; `may_clump` if those that are so all the time may come in clumps, as
/// retries of what fails do.
fn impacts(series: &RequestSeries, may_clump: bool, bad: impl Fn(&Tile) -> (f64, f64)) -> Vec<Impact> {
    let counts: Vec<(f64, f64)> = series.tiles.iter().map(&bad).collect();
    // What fails all the time is a chronic offender's, and no episode; one that fails rarely does so in some intervals
    // only.
    let sum =
        |tiles: &Range<usize>| counts[tiles.clone()].iter().fold((0.0, 0.0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
    let seconds = |tiles: &Range<usize>| tiles.clone().map(|tile| series.grid.seconds(tile)).sum::<f64>();
    let around: Vec<Range<usize>> =
        (0..counts.len()).map(|at| at.saturating_sub(AROUND)..(at + AROUND + 1).min(counts.len())).collect();
    let windows: Vec<(f64, f64)> = around.iter().map(sum).collect();
    let shares: Vec<f64> = windows.iter().filter(|own| own.1 > 0.0).map(|(bad, all)| bad / all).collect();
    let usual = quantile(shares.clone(), USUAL).unwrap_or(0.0);
    let clumps = if may_clump { clumps(&windows, quantile(shares, 0.5).unwrap_or(0.0)) } else { 0.0 };
    // Of what fails all the time as often a larger part does where the rest becomes less.
    let rates = windows.iter().zip(&around).map(|(own, tiles)| own.0 / seconds(tiles).max(1.0)).collect();
    let usual_rate = quantile(rates, USUAL).unwrap_or(0.0);
    let allowed = 2.0 * usual + ALLOWED;
    let pause = (PAUSE / series.grid.tile).max(1) as usize;
    let is_bad = |at: &usize| {
        let (bad, all) = counts[*at];
        bad >= MIN_BAD_ONCE && bad > allowed * all
    };
    let found = runs((0..counts.len()).filter(is_bad), pause);
    let is_impact = |tiles: &Range<usize>| {
        let (bad, all) = sum(tiles);
        let least = if tiles.len() > 1 { MIN_SHARE } else { MIN_SHARE_ONCE };
        let is_more = bad >= 2.0 * usual_rate * seconds(tiles);
        let chance = SIGMAS * (clumps * usual * all).sqrt();
        bad - usual * all >= chance.max(MIN_BAD) && bad / all.max(1.0) >= least + 2.0 * usual && is_more
    };
    found
        .into_iter()
        .filter(is_impact)
        .map(|tiles| {
            let (bad, all) = sum(&tiles);
            let excess = |at: usize| counts[at].0 - usual * counts[at].1;
            let inside: Vec<f64> = match tiles.len() {
                0..=2 => vec![tiles.clone().map(excess).fold(0.0, f64::max)],
                _ => (tiles.start + 1..tiles.end - 1).map(excess).collect(),
            };
            let level = quantile(inside, 0.5).unwrap_or(0.0).max(1e-9);
            let part = |at: usize| (excess(at) / level).clamp(MIN_PART, 1.0);
            let parts = if tiles.len() == 1 { [1.0; 2] } else { [part(tiles.start), part(tiles.end - 1)] };
            let inner = match tiles.len() {
                0..=2 => bad / all.max(1.0),
                _ => {
                    let (bad, all) = sum(&(tiles.start + 1..tiles.end - 1));
                    bad / all.max(1.0)
                }
            };
            Impact { tiles, bad, all, inner, baseline: usual, parts }
        })
        .collect()
}

/// Times in which more is asked for than the baseline.
fn loads(series: &RequestSeries, silences: &[Silence]) -> Vec<Deviation> {
    let seconds = seconds_of_baseline(series);
    let mut of_baseline = seconds.clone();
    // What lasts for most of the record is all that there is to compare with.
    let is_short = |own: &&Silence| 2 * own.tiles.len() < series.tiles.len();
    silences.iter().filter(is_short).for_each(|own| of_baseline[own.tiles.clone()].fill(0.0));
    let len = series.tiles.len();
    // What fails is no work, and is asked again: neither is usual.
    let is_failing = |at: &usize| {
        let all = series.tiles[*at].all();
        all.errors >= FAILING * all.requests.max(1.0)
    };
    let failing: Vec<usize> = (0..len).filter(is_failing).collect();
    if 2 * failing.len() < len {
        failing.into_iter().for_each(|at| of_baseline[at] = 0.0);
    }
    let mut all = Vec::new();
    let mut add = |signal: Signal, counts: &[f64], least: f64| {
        let usual = baseline(counts, &of_baseline, series.grid.tile);
        for own in excursions(counts, &seconds, &usual, series.grid.tile) {
            let time: f64 = seconds[own.tiles.clone()].iter().sum();
            if own.times(time) < MIN_TIMES || own.level - own.baseline < least {
                continue;
            }
            let base = vec![own.baseline; len];
            let span = edges(series, counts, &base, own.level, &own.tiles);
            // The load of an apiserver whose pages begin or end then.
            let is_seam = |at: &Micros| (at - span.0).abs().min((at - span.1).abs()) <= 2 * series.grid.tile;
            if series.seams.iter().any(is_seam) {
                continue;
            }
            all.push(Deviation {
                signal: signal.clone(),
                source: series.source,
                span,
                slack: series.grid.tile,
                level: own.level,
                baseline: own.baseline,
                weight: own.score,
            });
        }
    };
    let of = |value: &dyn Fn(&Tile) -> f64| series.tiles.iter().map(value).collect::<Vec<f64>>();
    add(Signal::Requests, &series.requests(), MIN_RATE);
    add(Signal::Lists, &of(&|tile| tile.felt[1].requests), MIN_RATE);
    add(Signal::Writes, &of(&|tile| tile.felt[2].requests), MIN_RATE);
    // Work is in seconds: in units of what a typical request takes, it is counted as requests are.
    let typical = series.typical_rate();
    let work = of(&|tile| tile.work);
    let mean = work.iter().sum::<f64>() / series.by_caller.iter().map(|own| own.total).sum::<f64>().max(1.0);
    let in_requests: Vec<f64> = work.iter().map(|work| work / mean.max(1e-9)).collect();
    add(Signal::Work, &in_requests, MIN_CALLER * typical);
    if series.by_caller.len() > 1 {
        for (caller, own) in series.by_caller.iter().enumerate() {
            // One that could not matter need not be looked at.
            if own.total >= MIN_RATE * 10.0 {
                add(Signal::Caller(caller), &own.dense(len), (MIN_CALLER * typical).max(MIN_RATE));
            }
        }
    }
    all
}
