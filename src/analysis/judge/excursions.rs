//! Where a series of counts leaves its baseline upwards, and where it falls silent.
//!
//! The baseline is what the series is like for most of the lower part of its values: with a low quantile as its start,
//! an excursion may last for two thirds of the time without becoming the baseline. Noise is taken from the series
//! itself, and never less than counts of that size have by chance (Poisson). Excursions are all maximal scoring
//! subsequences (Ruzzo and Tompa 1999) of what lies above the noise.

use super::series::quantile;
use crate::analysis::robust::median;
use crate::model::time::{HOUR, Micros, SECOND};
use std::ops::Range;

/// Where the baseline begins to be looked for: this quantile of all values.
const BASELINE_QUANTILE: f64 = 0.3;
/// Around the low quantile values up to so many times of it, or three times the noise, are the baseline's.
const BASELINE_TIMES: f64 = 1.4;
/// Loads that go with the day have a baseline that does: this far to both sides, in µs.
const AROUND: Micros = 3 * HOUR;
/// Noise is this quantile of all distances from the baseline, times what makes a standard deviation of it.
const NOISE_QUANTILE: f64 = 0.4;
const NOISE_TIMES: f64 = 1.9;
/// Relative differences below this are noise, however steady a series is.
const MIN_NOISE: f64 = 0.12;
/// An interval speaks for an excursion from so many times the noise on.
const MIN_Z: f64 = 2.0;
/// And no interval speaks for more than that.
const MAX_Z: f64 = 8.0;
/// An excursion that pauses for longer than this is two, in µs.
const PAUSE: Micros = 30 * SECOND;
/// An excursion's sum of scores is at least this: two intervals far out, or more that are less so.
const MIN_SCORE: f64 = 8.0;
/// The same of long intervals, each of which holds more.
const MIN_SCORE_LONG: f64 = 5.0;
const LONG: Micros = 30 * SECOND;

/// A part of a series that lies above its baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Excursion {
    /// Intervals.
    pub tiles: Range<usize>,
    /// Mean rate of the intervals that lie wholly within, a second.
    pub level: f64,
    /// Baseline at that time, a second.
    pub baseline: f64,
    /// Sum of scores: how far it lies above the noise, over all intervals.
    pub score: f64,
}

impl Excursion {
    /// How many times the baseline; a baseline of nothing counts as one event in the time.
    pub fn times(&self, seconds: f64) -> f64 {
        (self.level + 1e-9) / self.baseline.max(1.0 / seconds.max(1.0))
    }
}

/// The baseline of a series by second, and how far values of it lie from it by chance, relative to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// By interval, a second.
    pub rate: Vec<f64>,
    /// Standard deviation of the logarithm of values that are the baseline's.
    pub noise: f64,
}

/// The baseline of counts; `seconds` are those of each interval, `tile` its full length in µs.
pub fn baseline(counts: &[f64], seconds: &[f64], tile: Micros) -> Baseline {
    let rates: Vec<f64> = counts.iter().zip(seconds).map(|(count, seconds)| count / seconds.max(0.1)).collect();
    let full = tile as f64 / SECOND as f64;
    // What the series covers only in part says little.
    let is_whole: Vec<bool> = seconds.iter().map(|own| *own >= full / 2.0).collect();
    let around = (AROUND / tile).max(1) as usize;
    let of = |range: Range<usize>| -> f64 {
        let within: Vec<f64> = range.clone().filter(|at| is_whole[*at]).map(|at| rates[at]).collect();
        let Some(low) = quantile(within.clone(), BASELINE_QUANTILE) else { return 0.0 };
        let noise = (1.0 / (low * full).max(1.0)).sqrt().max(MIN_NOISE);
        let top = low * BASELINE_TIMES.max(1.0 + 3.0 * noise);
        median(&mut within.into_iter().filter(|rate| *rate <= top).collect::<Vec<_>>()).unwrap_or(low)
    };
    let len = rates.len();
    let rate = if len <= 2 * around {
        vec![of(0..len); len]
    } else {
        // Every so often, and a straight line between.
        let step = (around / 12).max(1);
        let places: Vec<usize> = (0..len).step_by(step).chain([len - 1]).collect();
        let values: Vec<f64> = places.iter().map(|at| of(at.saturating_sub(around)..(at + around).min(len))).collect();
        let mut rate = Vec::with_capacity(len);
        for at in 0..len {
            let place = (at / step).min(places.len() - 2);
            let (a, b) = (places[place], places[place + 1]);
            let part = (at - a) as f64 / (b - a).max(1) as f64;
            rate.push(values[place] + (values[place + 1] - values[place]) * part.min(1.0));
        }
        rate
    };
    let whole = || (0..len).filter(|at| is_whole[*at]);
    let rests = whole().map(|at| (counts[at].ln_1p() - (rate[at] * full).ln_1p()).abs());
    // The lower part of all distances: what excursions have is not of the baseline. Where these last for most of the
    // time, no more than the lower two thirds of what the baseline's own intervals have.
    let own = whole().filter(|at| rates[*at] <= BASELINE_TIMES * rate[*at]).count() as f64;
    let part = NOISE_QUANTILE.min(own / whole().count().max(1) as f64 * 2.0 / 3.0);
    let noise = quantile(rests.collect(), part).unwrap_or(0.0) * NOISE_TIMES;
    Baseline { rate, noise }
}

/// Where counts lie above their baseline `own`.
pub fn excursions(counts: &[f64], seconds: &[f64], own: &Baseline, tile: Micros) -> Vec<Excursion> {
    let score = |at: usize| {
        let expected = own.rate[at] * seconds[at];
        let noise = (1.0 / (expected + 1.0)).sqrt().max(own.noise).max(MIN_NOISE);
        (((counts[at] + 1.0) / (expected + 1.0)).ln() / noise).clamp(-MIN_Z, MAX_Z) - MIN_Z
    };
    let scores: Vec<f64> = (0..counts.len()).map(score).collect();
    maximal(&scores)
        .into_iter()
        .flat_map(|(tiles, _)| parts(&scores, tiles, tile))
        .map(|tiles| (tiles.clone(), scores[tiles].iter().sum::<f64>()))
        .filter(|(_, score)| *score >= if tile < LONG { MIN_SCORE } else { MIN_SCORE_LONG })
        .map(|(tiles, score)| {
            let rate = |tiles: Range<usize>| {
                let time: f64 = seconds[tiles.clone()].iter().sum();
                counts[tiles].iter().sum::<f64>() / time.max(0.1)
            };
            // The first and the last interval may lie in it in part only.
            let level = match tiles.len() {
                0..=2 => tiles.clone().map(|at| rate(at..at + 1)).fold(0.0, f64::max),
                _ => rate(tiles.start + 1..tiles.end - 1),
            };
            let baseline = own.rate[tiles.clone()].iter().sum::<f64>() / tiles.len() as f64;
            Excursion { tiles, level, baseline, score }
        })
        .collect()
}

/// A subsequence cut where more than so many scores in a row speak against it: a strong one reaches over a pause of
/// minutes to the next, and these are two. What lies at the begin of the record, where things are set up, ends as soon
/// as two intervals speak against it.
fn parts(scores: &[f64], tiles: Range<usize>, tile: Micros) -> Vec<Range<usize>> {
    let pause = (PAUSE / tile).max(2) as usize;
    let speaks = |tiles: Range<usize>| tiles.filter(|at| scores[*at] > 0.0);
    let first = runs(speaks(tiles.clone()), 1).into_iter().next().filter(|first| first.start <= 1);
    let rest = first.as_ref().map_or(tiles.start, |first| first.end)..tiles.end;
    first.into_iter().chain(runs(speaks(rest), pause)).collect()
}

/// Intervals, in ascending order, as runs that pause for at most so many.
pub(super) fn runs(intervals: impl Iterator<Item = usize>, pause: usize) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for at in intervals {
        match all.last_mut() {
            Some(last) if at - last.end <= pause => last.end = at + 1,
            _ => all.push(at..at + 1),
        }
    }
    all
}

/// All maximal scoring subsequences, from left to right, and their sums (Ruzzo and Tompa 1999).
pub fn maximal(scores: &[f64]) -> Vec<(Range<usize>, f64)> {
    // Of each candidate: intervals, sum up to its begin, sum up to its end.
    let mut found: Vec<(Range<usize>, f64, f64)> = Vec::new();
    let mut sum = 0.0;
    for (at, score) in scores.iter().enumerate() {
        let before = sum;
        sum += score;
        if *score <= 0.0 {
            continue;
        }
        let mut own = (at..at + 1, before, sum);
        while let Some(place) = found.iter().rposition(|other| other.1 < own.1) {
            if found[place].2 >= own.2 {
                break;
            }
            own = (found[place].0.start..own.0.end, found[place].1, own.2);
            found.truncate(place);
        }
        found.push(own);
    }
    found.into_iter().map(|(tiles, before, after)| (tiles, after - before)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::MINUTE;
    use proptest::prelude::*;

    const TILE: Micros = 10 * SECOND;

    fn found(counts: &[f64]) -> Vec<(Range<usize>, f64)> {
        let seconds = vec![10.0; counts.len()];
        let all = excursions(counts, &seconds, &baseline(counts, &seconds, TILE), TILE);
        all.into_iter().map(|own| (own.tiles, (own.level / own.baseline.max(0.1) * 10.0).round() / 10.0)).collect()
    }

    fn wave(n: usize) -> f64 {
        400.0 + 40.0 * (n as f64 * 1.7).sin()
    }

    #[test]
    fn steps_bursts_and_ramps_are_found_where_they_are() {
        let with = |of: &dyn Fn(usize) -> f64, len: usize| (0..len).map(|n| wave(n) * of(n)).collect::<Vec<_>>();
        assert_eq!(found(&with(&|_| 1.0, 60)), []);
        let step = found(&with(&|n| if (20..32).contains(&n) { 2.0 } else { 1.0 }, 60));
        assert_eq!((step.len(), &step[0].0), (1, &(20..32)));
        // It lasts for six tenths of the time, from the middle to the end.
        let long = found(&with(&|n| if n >= 24 { 3.0 } else { 1.0 }, 60));
        assert_eq!((long.len(), &long[0].0), (1, &(24..60)));
        let short = found(&with(&|n| if n == 20 || n == 21 { 6.0 } else { 1.0 }, 60));
        assert_eq!((short.len(), &short[0].0), (1, &(20..22)));
        // Or for two thirds of a time in which loads differ as they do, a quarter of it before.
        let most = found(&with(&|n| if n >= 20 { 4.0 } else { [0.9, 1.2, 0.95, 1.25][n % 4] }, 60));
        assert_eq!((most.len(), &most[0].0), (1, &(20..60)));
        // What is set up at the begin does not hide what follows.
        let set_up = found(&with(
            &|n| {
                if n < 2 {
                    9.0
                } else if (5..14).contains(&n) {
                    3.0
                } else {
                    1.0
                }
            },
            60,
        ));
        assert_eq!(set_up.iter().map(|own| own.0.clone()).collect::<Vec<_>>(), [0..2, 5..14]);
        let ramp = found(&with(&|n| 1.0 + (n.saturating_sub(40).min(20)) as f64 / 5.0, 70));
        assert!(ramp.len() == 1 && (41..44).contains(&ramp[0].0.start) && ramp[0].0.end == 70, "{ramp:?}");
    }

    #[test]
    fn the_day_is_no_excursion() {
        // Two days by the minute, three times as much by day as by night.
        let counts: Vec<f64> = (0..2880)
            .map(|n| 6000.0 * (1.0 + 0.5 * (n as f64 / 1440.0 * std::f64::consts::TAU).sin()) * (wave(n) / 400.0))
            .collect();
        let (seconds, tile) = (vec![60.0; counts.len()], MINUTE);
        let all = excursions(&counts, &seconds, &baseline(&counts, &seconds, tile), tile);
        assert!(all.iter().all(|own| own.level < 1.5 * own.baseline), "{all:?}");
    }

    proptest! {
        #[test]
        fn the_best_subsequence_is_among_the_maximal_ones(scores in prop::collection::vec(-5.0f64..5.0, 1..40)) {
            let sums = (0..scores.len()).flat_map(|from| (from..scores.len()).map(move |to| (from, to)));
            let truth = sums.map(|(from, to)| scores[from..=to].iter().sum::<f64>()).fold(0.0, f64::max);
            let best = maximal(&scores).iter().map(|own| own.1).fold(0.0, f64::max);
            prop_assert!((truth - best).abs() < 1e-9);
        }
    }
}
