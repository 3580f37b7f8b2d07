//! How far the future may lie from what is predicted, by how far it lay in the backtest (a conformal interval: no
//! distribution is assumed).

use super::known;

/// The errors of a backtest, in two parts: what lasts, and what comes and goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread {
    /// For each lead how large errors were, as the mean of their amounts; it does not fall.
    scale: Vec<f64>,
    /// Errors by their lead's scale, ascending.
    normal: Vec<f64>,
    /// How fast errors grow with the lead behind what was tried: the power of the lead, 0 to 1.
    power: f64,
    /// For each lead the standard deviation of what lasts.
    lasting: Vec<f64>,
    /// What comes and goes, stretches of it as it came.
    passing: Vec<f64>,
    /// How long a stretch is.
    stretch: usize,
    /// The standard error of the trend per step, as far as it is followed.
    slope_error: f64,
    /// By how much intervals are widened, since the origins were few.
    widened: f64,
}

/// Intervals from a few origins are too narrow by this much,
const FEW_ORIGINS_FACTOR: f64 = 1.05;
/// and by this much more where errors grow with the lead and the ways from all origins overlap.
const OVERLAP: f64 = 0.6;

impl Spread {
    /// Of errors (what came less what was predicted), rows of `steps`, from origins over `room` steps; `stretch` is a
    /// day or so in steps.
    pub fn new(errors: &[f64], steps: usize, stretch: usize, room: usize, slope_error: f64) -> Self {
        let stretch = stretch.clamp(1, steps);
        // Means of amounts by stretches of leads.
        let places: Vec<usize> = (0..steps).step_by(stretch).collect();
        let of = |from: usize| errors.chunks(steps).flat_map(move |row| &row[from..(from + stretch).min(steps)]);
        let mut sizes: Vec<f64> = places
            .iter()
            .map(|from| {
                let (sum, count) = known(of(*from).map(|error| error.abs()));
                if count > 0 { sum / count as f64 } else { f64::NAN }
            })
            .collect();
        let first = sizes.iter().copied().find(|size| size.is_finite()).unwrap_or(0.0);
        sizes.iter_mut().fold(first, |before, size| {
            if size.is_nan() {
                *size = before;
            }
            *size
        });
        rising(&mut sizes);
        let scale = spread_out(&sizes, &places, stretch, steps);
        let mut normal: Vec<f64> = errors
            .iter()
            .zip(scale.iter().cycle())
            .filter(|(error, scale)| error.is_finite() && **scale > 0.0)
            .map(|(error, scale)| error / scale)
            .collect();
        normal.sort_unstable_by(f64::total_cmp);
        let mut lasting = vec![Vec::new(); places.len()];
        let mut passing = Vec::with_capacity(errors.len());
        for row in errors.chunks(steps) {
            for (part, lasting) in row.chunks(stretch).zip(&mut lasting) {
                let (sum, count) = known(part.iter().copied());
                if count == 0 || part.len() < stretch {
                    continue;
                }
                let mean = sum / count as f64;
                lasting.push(mean);
                passing.extend(part.iter().map(|error| if error.is_finite() { error - mean } else { 0.0 }));
            }
        }
        let mut deviations: Vec<f64> = lasting
            .iter()
            .map(|means| (means.iter().map(|mean| mean * mean).sum::<f64>() / means.len().max(1) as f64).sqrt())
            .collect();
        rising(&mut deviations);
        let power = match (sizes.first(), sizes.last()) {
            (Some(first), Some(last)) if sizes.len() > 1 && *first > 0.0 => {
                ((last / first).ln() / (sizes.len() as f64).ln()).clamp(0.0, 1.0)
            }
            _ => 0.5,
        };
        let widened = FEW_ORIGINS_FACTOR + OVERLAP * power * (2.0 * steps as f64 / room.max(1) as f64).min(1.0);
        Self {
            widened,
            scale,
            normal,
            power,
            lasting: spread_out(&deviations, &places, stretch, steps),
            passing,
            stretch,
            slope_error,
        }
    }

    /// How much larger a scale is at a lead (from 0) behind those that were tried.
    fn grown(&self, scale: &[f64], lead: usize) -> f64 {
        let Some(last) = scale.last() else { return 0.0 };
        if lead < scale.len() {
            return scale[lead];
        }
        let grown = last * ((lead + 1) as f64 / scale.len() as f64).powf(self.power);
        let slope = self.slope_error * (lead + 1 - scale.len()) as f64;
        grown.hypot(slope)
    }

    /// How far below and above the 10 % and the 90 % quantile lie, at a lead.
    pub fn interval(&self, lead: usize) -> (f64, f64) {
        let scale = self.grown(&self.scale, lead) * self.widened;
        let quantile = |q: f64| {
            let place = q * (self.normal.len().saturating_sub(1)) as f64;
            let (low, high) = (place.floor() as usize, place.ceil() as usize);
            match (self.normal.get(low), self.normal.get(high)) {
                (Some(below), Some(above)) => below + (above - below) * place.fract(),
                _ => 0.0,
            }
        };
        (scale * quantile(0.1).min(0.0), scale * quantile(0.9).max(0.0))
    }

    /// The standard deviation of what lasts, at a lead.
    pub fn lasting(&self, lead: usize) -> f64 {
        self.grown(&self.lasting, lead) * self.widened
    }

    /// What comes and goes, in stretches of [`Self::stretch`].
    pub fn passing(&self) -> &[f64] {
        &self.passing
    }

    /// How long a stretch is.
    pub fn stretch(&self) -> usize {
        self.stretch.max(1)
    }
}

/// Makes values rise, by the mean of those that fall (pool adjacent violators).
fn rising(values: &mut [f64]) {
    let mut pools: Vec<(f64, usize)> = Vec::with_capacity(values.len());
    for value in values.iter() {
        let mut pool = (*value, 1);
        while let Some(before) = pools.pop_if(|before| before.0 > pool.0) {
            let count = before.1 + pool.1;
            pool = ((before.0 * before.1 as f64 + pool.0 * pool.1 as f64) / count as f64, count);
        }
        pools.push(pool);
    }
    let all = pools.iter().flat_map(|(value, count)| std::iter::repeat_n(*value, *count));
    values.iter_mut().zip(all).for_each(|(value, pooled)| *value = pooled);
}

/// Values of stretches, for each lead: on straight lines between the middles.
fn spread_out(values: &[f64], places: &[usize], stretch: usize, steps: usize) -> Vec<f64> {
    let middle = |at: usize| places[at] as f64 + (stretch as f64 - 1.0) / 2.0;
    let lead = |lead: usize| {
        let at = (lead / stretch).min(values.len() - 1);
        let other = if (lead as f64) < middle(at) { at.saturating_sub(1) } else { (at + 1).min(values.len() - 1) };
        if other == at {
            return values[at];
        }
        let share = (lead as f64 - middle(at)) / (middle(other) - middle(at));
        values[at] + (values[other] - values[at]) * share
    };
    (0..steps).map(lead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_rise_that_is_nearest(values in prop::collection::vec(0i32..100, 1..30)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let mut found = values.clone();
            rising(&mut found);
            prop_assert!(found.windows(2).all(|two| two[0] <= two[1] + 1e-9));
            // By its other definition: the largest over what begins before of the least over what ends behind of means
            // (minimax).
            for at in 0..values.len() {
                let mean = |from: usize, to: usize| values[from..=to].iter().sum::<f64>() / (to - from + 1) as f64;
                let best = (0..=at).map(|from| (at..values.len()).map(|to| mean(from, to)).fold(f64::INFINITY,
                    f64::min)).fold(f64::NEG_INFINITY, f64::max);
                prop_assert!((found[at] - best).abs() < 1e-9, "{found:?} {best}");
            }
        }

        #[test]
        fn intervals_widen_and_hold_the_middle(errors in prop::collection::vec(-9.0f64..9.0, 60), gap in 0usize..60) {
            let mut errors = errors;
            errors[gap] = f64::NAN;
            let spread = Spread::new(&errors, 12, 4, 30, 0.01);
            let widths: Vec<f64> = (0..80).map(|lead| { let (below,
                above) = spread.interval(lead); assert!(below <= 0.0 && above >= 0.0); above - below }).collect();
            prop_assert!(widths.windows(2).all(|two| two[1] >= two[0] * (1.0 - 1e-9)), "{widths:?}");
        }
    }

    #[test]
    fn four_in_five_of_the_errors_are_inside() {
        let errors: Vec<f64> = (0..1_000).map(|at| f64::from((at * 7919) % 1_000) - 500.0).collect();
        let spread = Spread::new(&errors, 10, 5, 100_000, 0.0);
        let inside = errors
            .iter()
            .enumerate()
            .filter(|(at, error)| {
                let (below, above) = spread.interval(at % 10);
                **error >= below && **error <= above
            })
            .count();
        assert!((790..=840).contains(&inside), "{inside}");
    }
}
