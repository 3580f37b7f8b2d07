//! Trying models where the answer is known: from several origins each predicts what happened then.

use super::filter::{Gains, State};
use super::profile::{Profile, profile};

/// Origins that are tried at most.
const ORIGINS: usize = 12;

/// The last origin predicts one in so many of the steps.
const LAST_ORIGIN_DIVISOR: usize = 6;

/// From where models are tried, and how far.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Steps that are known at each origin, ascending.
    pub origins: Vec<usize>,
    /// Steps that are predicted from each.
    pub steps: usize,
}

impl Plan {
    /// A plan for `known` values of which as many more are to be predicted; the first origin sees half of them at
    /// least. `None` where there are too few.
    pub fn new(known: usize, longest: usize, ahead: usize) -> Option<Self> {
        if known < 8 {
            return None;
        }
        let steps = ahead.clamp(1, known / 4);
        let first = (known / 2).max((2 * longest).min(known * 7 / 10)).min(known - steps);
        // The last origins see too late for the whole way: what began a short while ago would else not be seen at all.
        let room = known - steps.div_ceil(LAST_ORIGIN_DIVISOR) - first;
        let count = ORIGINS.min(room + 1);
        let origins = (0..count).map(|origin| first + room * origin / (count - 1).max(1)).collect();
        Some(Self { origins, steps })
    }
}

/// A series as models see it: with patterns of what was known at the first origin, and the trend per step that was
/// known at each step, of the last piece and of all.
pub struct SeriesContext<'a> {
    values: &'a [f64],
    slopes: &'a [Vec<f64>; 2],
    /// Added and as shares of the level.
    profiles: [Profile; 2],
}

impl<'a> SeriesContext<'a> {
    /// Of `values`, patterns are made of the first `patterned` of them. There is one slope more than values.
    pub fn new(values: &'a [f64], slopes: &'a [Vec<f64>; 2], periods: [usize; 2], patterned: usize) -> Self {
        let profiles = [false, true].map(|is_share| profile(&values[..patterned], periods, is_share));
        Self { values, slopes, profiles }
    }

    /// What a model predicts from each origin: rows of `steps`, origin by origin.
    pub fn predicted(&self, gains: &Gains, origins: &[usize], steps: usize) -> Vec<f64> {
        let slopes = &self.slopes[usize::from(gains.is_long)];
        let mut state = State::new(&self.profiles[usize::from(gains.is_share)], gains);
        let mut out = vec![0.0; origins.len() * steps];
        let mut seen = 0;
        for (origin, row) in origins.iter().zip(out.chunks_mut(steps.max(1))) {
            for (value, slope) in self.values[seen..*origin].iter().zip(&slopes[seen..*origin]) {
                state.step(*value, slope * gains.drift, gains);
            }
            seen = *origin;
            state.ahead(slopes[seen] * gains.drift, gains, row);
        }
        out
    }

    /// What actual: the same rows; NaN for what is still to come.
    pub fn actual(&self, plan: &Plan) -> Vec<f64> {
        let value = |at: usize| self.values.get(at).copied().unwrap_or(f64::NAN);
        plan.origins.iter().flat_map(|origin| (*origin..origin + plan.steps).map(value)).collect()
    }
}

/// How much less an origin counts than the one after it.
const OLDER: f64 = 0.95;

/// The mean of what rows of `steps` differ by, later origins weighing more; NaN where nothing is known.
pub fn mean_error(predicted: &[f64], actual: &[f64], steps: usize) -> f64 {
    let (mut sum, mut weights, mut weight) = (0.0, 0.0, 1.0);
    for (predicted, actual) in predicted.chunks(steps).zip(actual.chunks(steps)) {
        for (predicted, actual) in predicted.iter().zip(actual).filter(|(_, actual)| !actual.is_nan()) {
            sum += weight * (predicted - actual).abs();
            weights += weight;
        }
        weight /= OLDER;
    }
    sum / weights
}
