//! When a limit is first reached, over many possible futures.
//!
//! A future is what is predicted, plus an error that lasts and grows (normal, as wide as in the backtest), plus
//! stretches of errors that came and went in the backtest, drawn by a fixed sequence: the same input gives the same
//! dates.

use super::known;
use super::spread::Spread;
use crate::analysis::quantiles::normal_quantile;

/// Futures that are tried.
const FUTURES: usize = 400;

/// When futures reach a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reach {
    /// Leads (from 0) by which a tenth, half and nine tenths of them have.
    pub leads: [Option<usize>; 3],
    /// The share that does within the horizon.
    pub probability: f64,
}

/// How high the highest value stood above the mean of its stretch (a day or so), and that mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Height {
    /// Above the mean.
    pub above: f64,
    pub mean: f64,
}

impl Height {
    /// The highest of all in stretches of this length, of which half is known.
    pub fn of(values: &[f64], stretch: usize) -> Self {
        let mut height = Self { above: 0.0, mean: 0.0 };
        for part in values.chunks(stretch.max(1)) {
            let (sum, count) = known(part.iter().copied());
            let mean = sum / count as f64;
            // What is not known is no larger than anything.
            let above = part.iter().fold(f64::NEG_INFINITY, |most, value| most.max(value - mean));
            if count * 2 >= part.len() && above > height.above {
                height = Self { above, mean };
            }
        }
        height
    }

    /// How high a value may stand where the mean of its stretch is this: as high above it as it ever was, higher as the
    /// level is.
    fn highest(self, mean: f64) -> f64 {
        let larger = if self.mean > 0.0 { (mean / self.mean).max(1.0) } else { 1.0 };
        mean + self.above * larger
    }
}

/// How high futures may be, step by step: the lower of two bounds.
///
/// - As high above the mean of their `stretch` (a day or so) as `values` ever were. But a day's mean of mere noise
///   swings, and what is predicted for noise that was taken for a pattern swings with it.
/// - As high as `values` ever were, with some room for what is rare, and higher as what is predicted rises from `week`
///   to week.
pub fn ceiling(values: &[f64], path: &[f64], stretch: usize, week: usize) -> Vec<f64> {
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let height = Height::of(values, stretch);
    let days = path.chunks(stretch).flat_map(|part| std::iter::repeat_n(height.highest(mean(part)), part.len()));
    let most = most(values);
    let (first, last) = (mean(&path[..week.min(path.len())]), mean(&path[path.len().saturating_sub(week)..]));
    // It rises within a week as well, and since the highest was.
    let a_week =
        if path.len() > week { (last - first).max(0.0) / (path.len() - week) as f64 * week as f64 } else { 0.0 };
    let weeks = path.chunks(week).flat_map(|part| {
        // A rest of a week is not like a week.
        let rise = (if part.len() < week { last } else { mean(part) } - first).max(0.0) + a_week;
        let larger = if first > 0.0 && most > first { rise / first * (most - first) } else { 0.0 };
        std::iter::repeat_n(most + rise + larger, part.len())
    });
    days.zip(weeks).map(|(day, week)| day.min(week)).collect()
}

/// How high values like these may come to be: as much above the highest as that was above the third, and a twentieth of
/// its height above the middle.
fn most(values: &[f64]) -> f64 {
    let mut known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    known.sort_unstable_by(|a, b| b.total_cmp(a));
    let Some(highest) = known.first() else { return f64::INFINITY };
    highest + (highest - known[2.min(known.len() - 1)]) + (highest - known[known.len() / 2]) / 20.0
}

/// What futures do beside what is predicted and its errors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beside {
    /// Heights of events that stand apart, of which each came once in `known` stretches; and that number.
    pub bursts: Vec<f64>,
    pub known: usize,
    /// How far below the line over its peaks a sawtooth was, step by step.
    pub below: Vec<f64>,
    /// Places in that from which it went on as it may now.
    pub starts: Vec<usize>,
}

/// Follows futures until they reach `limit`. What comes and goes lifts none above the ceiling, but for bursts.
pub fn reach(path: &[f64], spread: &Spread, ceiling: &[f64], limit: f64, beside: &Beside) -> Reach {
    let passing = spread.passing();
    let stretch = spread.stretch();
    let stretches = passing.len() / stretch;
    let lasting: Vec<f64> = (0..path.len()).map(|lead| spread.lasting(lead)).collect();
    let highest = passing.iter().chain(&beside.bursts).copied().fold(0.0, f64::max);
    // No future can be higher than this.
    let can = path.iter().zip(&lasting).any(|(value, lasting)| value + lasting * WIDEST + highest >= limit);
    if !can {
        return Reach::default();
    }
    let mut random = Sequence(0x9e37_79b9_7f4a_7c15);
    let mut firsts: Vec<usize> = Vec::new();
    for future in 0..FUTURES {
        let normal = normal_quantile((future as f64 + 0.5) / FUTURES as f64).clamp(-WIDEST, WIDEST);
        let mut from = 0;
        let mut left = 0;
        let mut burst = (0, 0.0);
        let mut tooth = beside.starts.get(future % beside.starts.len().max(1)).copied().unwrap_or(0);
        let first = path.iter().zip(&lasting).zip(ceiling).position(|((value, lasting), most)| {
            if left == 0 {
                from = if stretches > 0 { random.below(stretches) * stretch } else { 0 };
                left = stretch;
                burst = (0, 0.0);
                if !beside.bursts.is_empty()
                    && let Some(height) = beside.bursts.get(random.below(beside.known.max(1)))
                {
                    burst = (random.below(stretch) + 1, *height);
                }
            }
            if !beside.starts.is_empty() && tooth >= beside.below.len() {
                tooth = beside.starts[random.below(beside.starts.len())];
            }
            let below = beside.below.get(tooth).copied().unwrap_or(0.0);
            tooth += 1;
            let risen = if burst.0 == left { burst.1 } else { 0.0 };
            let passed = passing.get(from + stretch - left).copied().unwrap_or(0.0);
            left -= 1;
            (value + passed).min(most.max(*value)) + risen - below + lasting * normal >= limit
        });
        firsts.extend(first);
    }
    firsts.sort_unstable();
    let at = |share: usize| firsts.get((FUTURES * share).div_ceil(10) - 1).copied();
    Reach { leads: [at(1), at(5), at(9)], probability: firsts.len() as f64 / FUTURES as f64 }
}

/// How many standard deviations away the outermost futures are.
const WIDEST: f64 = 3.0;

/// Numbers that are spread evenly, always the same (SplitMix64).
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ (mixed >> 31)) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No bound.
    const ANY: [f64; 500] = [f64::INFINITY; 500];

    #[test]
    fn without_errors_it_is_the_path() {
        let path: Vec<f64> = (0..100).map(f64::from).collect();
        let spread = Spread::new(&[0.0; 40], 10, 5, 100, 0.0);
        assert_eq!(
            reach(&path, &spread, &ANY, 70.0, &Beside::default()),
            Reach { leads: [Some(70); 3], probability: 1.0 }
        );
        assert_eq!(reach(&path, &spread, &ANY, 99.5, &Beside::default()), Reach::default());
    }

    #[test]
    fn what_lasts_is_normal() {
        // Errors of one or minus one over whole stretches: a deviation of 1 at every lead, and nothing that passes.
        let errors: Vec<f64> = (0..8).flat_map(|origin| [if origin % 2 == 0 { 1.0 } else { -1.0 }; 10]).collect();
        let spread = Spread::new(&errors, 10, 10, 1_000, 0.0);
        let wide = spread.lasting(0);
        // A limit one and a half deviations above: the share of a normal distribution that lies there is 0.0668.
        let found = reach(&[0.0; 10], &spread, &ANY, 1.5 * wide, &Beside::default());
        assert!((found.probability - 0.0668).abs() < 0.004, "{found:?}");
        assert_eq!(found.leads, [None; 3]);
        // At the median half of them are above, from the first step on.
        let found = reach(&[0.0; 10], &spread, &ANY, 0.0, &Beside::default());
        assert_eq!((found.leads[1], found.leads[2]), (Some(0), None));
        assert!((found.probability - 0.5).abs() < 0.01);
    }

    #[test]
    fn bursts_add_up_over_time() {
        // In one of 50 stretches of 10 steps there is a burst.
        let mut errors = vec![0.0; 500];
        errors[203] = 5.0;
        let spread = Spread::new(&errors, 10, 10, 10_000, 0.0);
        let short = reach(&[0.0; 10], &spread, &ANY, 3.0, &Beside::default()).probability;
        let long = reach(&[0.0; 500], &spread, &ANY, 3.0, &Beside::default()).probability;
        assert!(short < 0.06, "{short}");
        // 1 - 0.98^50 = 0.636
        assert!((long - 0.636).abs() < 0.08, "{long}");
    }

    #[test]
    fn nothing_is_higher_above_its_day_than_it_ever_was() {
        // Days of 0 to 9; a model that takes hours for one another is off by up to 9 at any of them.
        let values: Vec<f64> = (0..200).map(|at| f64::from(at % 10)).collect();
        let height = Height::of(&values, 10);
        assert_eq!(height, Height { above: 4.5, mean: 4.5 });
        let mut errors = vec![0.0; 200];
        errors.iter_mut().step_by(2).for_each(|error| *error = 9.0);
        errors.iter_mut().skip(1).step_by(2).for_each(|error| *error = -9.0);
        let spread = Spread::new(&errors, 10, 10, 10_000, 0.0);
        assert_eq!(reach(&values, &spread, &ANY, 10.0, &Beside::default()).probability, 1.0);
        let ceiling = ceiling(&values, &values, 10, 70);
        assert_eq!(reach(&values, &spread, &ceiling, 9.3, &Beside::default()).probability, 0.0);
        assert_eq!(reach(&values, &spread, &ceiling, 9.0, &Beside::default()).probability, 1.0);
        // Of twice the level twice as much.
        assert_eq!((height.highest(9.0), height.highest(1.0)), (18.0, 5.5));
    }

    #[test]
    fn noise_stays_where_it_was_and_growth_does_not() {
        // Days of 45 and of 55 on average, none above 90: by its days alone noise that is taken for a level of 90 could
        // be at 160.
        let values: Vec<f64> =
            (0..280).map(|at| if at % 20 < 10 { [10.0, 80.0][at % 2] } else { [20.0, 90.0][at % 2] }).collect();
        assert_eq!(Height::of(&values, 10).highest(90.0), 160.0);
        // A twentieth of what the highest is above the middle, and the third is as high.
        assert_eq!(ceiling(&values, &[90.0; 140], 10, 70), [93.5; 140]);
        // One burst among values of 50. It may come 40 higher, and 2; what is predicted doubles in a week, and so does
        // that.
        let mut values = vec![50.0; 280];
        values[..10].fill(0.0);
        values[3] = 90.0;
        let path: Vec<f64> = (0..140).map(|at| if at < 70 { 50.0 } else { 100.0 }).collect();
        let ceiling = ceiling(&values, &path, 10, 70);
        assert_eq!((ceiling[0], ceiling[139]), (132.0 + 50.0 + 82.0, 132.0 + 100.0 + 2.0 * 82.0));
    }
}
