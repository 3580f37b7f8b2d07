//! The models that are tried, and the mean of those that were best.
//!
//! A mean of several good models is better than the best of them (M4 competition, Makridakis et al. 2020); it is less
//! often far off.

use super::backtest::{Plan, SeriesContext, mean_error};
use super::filter::Gains;

/// How many of the best are taken together.
const TOGETHER: usize = 8;

/// Gains of levels that are tried.
const LEVELS: [f64; 5] = [0.02, 0.08, 0.25, 0.6, 0.95];
/// Gains of the two seasons.
const SEASONS: [[f64; 2]; 7] = [[0.02, 0.02], [0.15, 0.1], [0.4, 0.3], [0.1, 0.5], [0.6, 0.1], [0.3, 0.6], [0.05, 0.8]];
/// How much of a rest is left a step later.
const RESTS: [f64; 3] = [0.0, 0.6, 0.9];
/// How much of the trend is followed, and after what share of the steps of a backtest a third of it is left (0: it
/// stays).
const DRIFTS: [(f64, f64); 5] = [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (1.0, 1.0), (1.0, 0.3)];

/// Gains of level and seasons with which kinds of models are compared.
const FIRST: [(f64, [f64; 2]); 4] = [(0.08, [0.4, 0.3]), (0.6, [0.3, 0.6]), (0.08, [0.6, 0.1]), (0.25, [0.1, 0.5])];

/// The models that were best, and what their mean predicted.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The models, the best first.
    pub models: Vec<Gains>,
    /// What their mean predicted: a row of steps for each origin.
    pub predicted: Vec<f64>,
    /// The mean of its errors.
    pub error: f64,
}

/// Which kinds of models make sense.
#[derive(Debug, Clone, Copy)]
pub struct Kinds {
    /// Seasons in steps; 1: none.
    pub periods: [usize; 2],
    /// Whether seasons may be shares of the level.
    pub is_positive: bool,
    /// Whether the last straight piece is not all of it.
    pub is_cut: bool,
}

/// Tries models one choice after the other: the kind of season and trend, then how fast each is followed.
///
/// `actual` is what actual after each origin, without what the choice should not be judged by ([`without_jumps`]).
pub fn best(known: &SeriesContext<'_>, plan: &Plan, kinds: Kinds, actual: &[f64]) -> Best {
    let Kinds { periods, is_positive, is_cut } = kinds;
    let mut tried: Vec<(f64, Gains, Vec<f64>)> = Vec::new();
    let mut attempt = |gains: Gains| -> f64 {
        if let Some((error, ..)) = tried.iter().find(|(_, known, _)| *known == gains) {
            return *error;
        }
        let predicted = known.predicted(&gains, &plan.origins, plan.steps);
        let error = mean_error(&predicted, actual, plan.steps);
        let error = if error.is_nan() { f64::INFINITY } else { error };
        tried.push((error, gains, predicted));
        error
    };
    let mut pick = |choices: Vec<Gains>| -> Gains {
        let mut least = (f64::INFINITY, choices[0]);
        for gains in choices {
            let error = attempt(gains);
            if error < least.0 {
                least = (error, gains);
            }
        }
        least.1
    };
    let drifts = DRIFTS
        .map(|(drift, share)| (drift, if share > 0.0 { (-1.0 / (share * plan.steps as f64)).exp() } else { 1.0 }));
    let most = if periods[1] > 1 { 2 } else { usize::from(periods[0] > 1) };
    let mut first = Vec::new();
    for seasons in 0..=most {
        for is_share in [false, true] {
            if is_share && (seasons == 0 || !is_positive) {
                continue;
            }
            for (drift, fading) in [drifts[0], drifts[2]] {
                for (level, season) in FIRST.into_iter().take(if seasons == 0 { 2 } else { 4 }) {
                    first.push(Gains { level, season, rest: 0.0, is_long: false, drift, fading, seasons, is_share });
                }
            }
        }
    }
    let mut chosen = pick(first);
    for _ in 0..2 {
        chosen =
            pick(LEVELS.iter().flat_map(|level| RESTS.map(|rest| Gains { level: *level, rest, ..chosen })).collect());
        if chosen.seasons > 0 {
            chosen = pick(SEASONS.iter().map(|season| Gains { season: *season, ..chosen }).collect());
        }
        let mut kinds: Vec<Gains> =
            drifts.iter().map(|(drift, fading)| Gains { drift: *drift, fading: *fading, ..chosen }).collect();
        if is_cut {
            let long = |(drift, fading): &(f64, f64)| Gains { is_long: true, drift: *drift, fading: *fading, ..chosen };
            kinds.extend(drifts.iter().filter(|(drift, _)| *drift > 0.0).map(long));
        }
        if chosen.seasons > 0 && is_positive {
            kinds.push(Gains { is_share: !chosen.is_share, ..chosen });
        }
        chosen = pick(kinds);
    }
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    tried.truncate(TOGETHER);
    let models: Vec<Gains> = tried.iter().map(|(_, gains, _)| *gains).collect();
    let predicted = mean(tried.iter().map(|(.., predicted)| predicted.as_slice()), actual.len());
    let error = mean_error(&predicted, actual, plan.steps);
    Best { models, predicted, error }
}

/// Leaves out what actual after a jump behind its origin, and all that origins less than `young` steps behind a jump
/// predicted, unless jumps are what the series does, or three quarters of all would be left out.
pub fn without_jumps(actual: Vec<f64>, plan: &Plan, jumps: &[usize], known: usize, young: usize) -> Vec<f64> {
    if jumps.len() > 2 {
        return actual;
    }
    let mut left = actual.clone();
    for (origin, row) in plan.origins.iter().zip(left.chunks_mut(plan.steps)) {
        if let Some(jump) = jumps.iter().find(|jump| *jump >= origin) {
            row.iter_mut().skip(jump - origin).for_each(|value| *value = f64::NAN);
        }
        // Whoever has seen the new level for a few days only knows less of where it goes than is known now.
        if jumps.iter().any(|jump| jump < origin && *origin < jump + ((known - jump) / 2).min(young)) {
            row.fill(f64::NAN);
        }
    }
    let count = |values: &[f64]| values.iter().filter(|value| value.is_finite()).count();
    if count(&left) * 4 >= count(&actual) { left } else { actual }
}

/// The mean of rows.
pub fn mean<'r>(rows: impl ExactSizeIterator<Item = &'r [f64]>, length: usize) -> Vec<f64> {
    let count = rows.len() as f64;
    let mut out = vec![0.0; length];
    for row in rows {
        out.iter_mut().zip(row).for_each(|(sum, value)| *sum += value / count);
    }
    out
}
