//! The seasonal pattern that a filter begins with.

/// What each phase of each season adds to the level.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// What each phase of the two seasons adds, or which share of the level; their mean is zero. A season of one
    /// phase is none.
    pub phases: [Vec<f64>; 2],
    /// The level of the first season.
    pub level: f64,
}

/// A share of the level below which no season goes: dividing by less would let models run away.
const LEAST_SHARE: f64 = 0.05;

/// A value that is so many times the level is taken for this one: it is not a season.
const MOST_SHARE: f64 = 10.0;

/// The pattern of the known values: by how much phases of each season differ from a moving mean over the longest.
pub fn profile(values: &[f64], periods: [usize; 2], is_share: bool) -> Profile {
    let longest = periods[0].max(periods[1]);
    let mut phases = periods.map(|period| vec![0.0; period]);
    if longest > 1 && values.len() >= 2 * longest {
        let trend = moving_mean(values, longest);
        let apart = |(value, trend): (&f64, &f64)| {
            if is_share { (value / trend.abs().max(1e-9)).min(MOST_SHARE) - 1.0 } else { value - trend }
        };
        let mut left: Vec<f64> = values.iter().zip(&trend).map(apart).collect();
        for (season, phases) in phases.iter_mut().enumerate().filter(|(_, phases)| phases.len() > 1) {
            // Of the longer season only a few cycles are known.
            *phases = phase_means(&left, phases.len(), season == 1 || periods[1] == 1);
            left.iter_mut().zip(phases.iter().cycle()).for_each(|(value, mean)| *value -= mean);
        }
    }
    let first = values
        .iter()
        .zip(phases[0].iter().cycle().zip(phases[1].iter().cycle()))
        .filter(|(value, _)| value.is_finite());
    let (sum, count) = first.take(longest.max(3)).fold((0.0, 0usize), |(sum, count), (value, (one, other))| {
        let without = if is_share { value / (1.0 + one + other).max(LEAST_SHARE) } else { value - one - other };
        (sum + without, count + 1)
    });
    Profile { phases, level: if count > 0 { sum / count as f64 } else { 0.0 } }
}

/// Values without a season: what they would be at its mean.
pub fn without(values: &[f64], phases: &[f64], is_share: bool) -> Vec<f64> {
    let apart =
        |(value, phase): (&f64, &f64)| if is_share { value / (1.0 + phase).max(LEAST_SHARE) } else { value - phase };
    values.iter().zip(phases.iter().cycle()).map(apart).collect()
}

/// The mean of each phase without the fifth at either end; with `is_shrunk` nearer to zero, by how far chance alone
/// would bring them from it (James and Stein).
fn phase_means(values: &[f64], period: usize, is_shrunk: bool) -> Vec<f64> {
    let mut means = Vec::with_capacity(period);
    let (mut chance, mut counted) = (0.0, 0usize);
    let mut phase = Vec::new();
    for first in 0..period {
        phase.clear();
        phase.extend(values.iter().skip(first).step_by(period).copied().filter(|value| value.is_finite()));
        phase.sort_unstable_by(f64::total_cmp);
        let cut = phase.len() / 5;
        let kept = &phase[cut..phase.len() - cut];
        let mean = if kept.is_empty() { 0.0 } else { kept.iter().sum::<f64>() / kept.len() as f64 };
        if phase.len() > 1 {
            let squares: f64 = phase.iter().map(|value| (value - mean).powi(2)).sum();
            chance += squares / ((phase.len() - 1) * phase.len()) as f64;
            counted += 1;
        }
        means.push(mean);
    }
    let mean = means.iter().sum::<f64>() / period as f64;
    means.iter_mut().for_each(|value| *value -= mean);
    if is_shrunk && counted > 0 {
        let seen = means.iter().map(|value| value * value).sum::<f64>() / period as f64;
        let keep = if seen > 0.0 { (1.0 - chance / counted as f64 / seen).max(0.0) } else { 0.0 };
        means.iter_mut().for_each(|value| *value *= keep);
    }
    means
}

/// The mean over a whole season around each value; where there is none, at the ends and in long gaps, the nearest
/// before or behind.
fn moving_mean(values: &[f64], length: usize) -> Vec<f64> {
    let n = values.len();
    let mut sums = Vec::with_capacity(n + 1);
    let (mut sum, mut count) = (0.0, 0usize);
    sums.push((sum, count));
    for value in values {
        if value.is_finite() {
            sum += value;
            count += 1;
        }
        sums.push((sum, count));
    }
    let mean = |from: usize| {
        let (until, from) = (sums.get(from + length)?, sums.get(from)?);
        (until.1 > from.1).then(|| (until.0 - from.0) / (until.1 - from.1) as f64)
    };
    let half = length / 2;
    let around = |at: usize| {
        let first = mean(at.checked_sub(half)?)?;
        // Of an even length the middle is between two values: the mean of both windows.
        Some(if length.is_multiple_of(2) {
            mean(at + 1 - half).map_or(first, |second| (first + second) / 2.0)
        } else {
            first
        })
    };
    let mut means: Vec<f64> = (0..n).map(|at| around(at).unwrap_or(f64::NAN)).collect();
    let known = means.iter().copied().find(|mean| mean.is_finite()).unwrap_or(0.0);
    means.iter_mut().fold(known, |before, mean| {
        if !mean.is_finite() {
            *mean = before;
        }
        *mean
    });
    means
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_over_a_season_has_none() {
        // 7 is odd, 4 is even; a line under the season stays a line.
        for length in [7, 4] {
            let values: Vec<f64> = (0..10 * length)
                .map(|at| 3.0 * at as f64 + [5.0, -1.0, -4.0, 0.0, 2.0, -2.0, 0.0][at % length])
                .collect();
            let season: f64 = [5.0, -1.0, -4.0, 0.0, 2.0, -2.0, 0.0][..length].iter().sum::<f64>() / length as f64;
            let means = moving_mean(&values, length);
            for (at, mean) in means.iter().enumerate().skip(length).take(8 * length) {
                assert!((mean - 3.0 * at as f64 - season).abs() < 1e-9, "{length} {at}: {mean}");
            }
        }
    }

    #[test]
    fn phases_are_what_they_add() {
        let season = [5.0, -1.0, -4.0, 0.0];
        let added: Vec<f64> = (0..80).map(|at| 100.0 + season[at % 4]).collect();
        let found = profile(&added, [4, 1], false);
        assert_eq!(found.phases, [season.to_vec(), vec![0.0]]);
        assert_eq!(found.level, 100.0);
        assert!(without(&added, &found.phases[0], false).iter().all(|value| *value == 100.0));
        let shared: Vec<f64> = (0..80).map(|at| 100.0 * (1.0 + season[at % 4] / 10.0)).collect();
        let found = profile(&shared, [4, 1], true);
        assert!(
            found.phases[0].iter().zip(season).all(|(found, share)| (found - share / 10.0).abs() < 1e-9),
            "{found:?}"
        );
        assert!((found.level - 100.0).abs() < 1e-9);
    }

    #[test]
    fn chance_is_no_season_and_too_little_is_none() {
        let noise: Vec<f64> = (0..140u64)
            .map(|at| ((at + 1).wrapping_mul(0xd134_2543_de82_ef95).rotate_left(29) >> 40) as f64 / 1e6)
            .collect();
        let strongest = |values: &[f64]| {
            profile(values, [7, 1], false).phases[0].iter().fold(0.0f64, |most, value| most.max(value.abs()))
        };
        assert!(strongest(&noise) < 1.5, "{}", strongest(&noise));
        assert_eq!(strongest(&noise[..13]), 0.0);
        assert_eq!(strongest(&[f64::NAN; 40]), 0.0);
    }
}
