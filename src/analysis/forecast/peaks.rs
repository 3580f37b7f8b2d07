//! Peaks that rise faster than the mean: work that grows in working hours only, while nights and weekends stay.
//!
//! A season of a level carries the growth of the mean. What reaches a limit is the highest of each week.

use super::pieces::line;

const WEEK: usize = 7;

/// Whole weeks that show a trend of their peaks.
const MIN_WEEKS: usize = 4;

/// Standard errors by which it must be steeper than the mean's.
const SURE: f64 = 3.0;

/// For each day from the seventh on the highest value of it and the six before, where the peaks of weeks rise faster
/// than `growth` a step, and than what is lowest in each; else `None`.
pub fn leading(values: &[f64], per_day: usize, growth: f64) -> Option<Vec<f64>> {
    // Days are counted from the end: the last one is whole.
    let days: Vec<f64> = values.rchunks(per_day).rev().map(highest).collect();
    let weeks: Vec<f64> = days.rchunks_exact(WEEK).rev().map(highest).collect();
    if weeks.len() < MIN_WEEKS || weeks.iter().any(|week| week.is_nan()) {
        return None;
    }
    let lows: Vec<f64> = values.rchunks_exact(WEEK * per_day).rev().map(lowest).collect();
    let ((slope, error), (of_lows, beside)) = (line(&weeks)?, line(&lows)?);
    let is_faster = slope - growth * (WEEK * per_day) as f64 > SURE * error;
    if slope <= 0.0 || !is_faster || slope - of_lows <= SURE * error.hypot(beside) {
        return None;
    }
    Some(days.windows(WEEK).map(highest).collect())
}

/// The highest known value; NaN where none is.
fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

/// The lowest known value.
fn lowest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hours of working days rise by `by` a week, on top of what all hours do.
    fn hours(by: f64, all: f64) -> Vec<f64> {
        let hour = |at: usize| {
            let (day, week) = (at / 24 % 7, at as f64 / 168.0);
            let works = day < 5 && (9..18).contains(&(at % 24));
            20.0 + all * week + if works { 80.0 + by * week } else { 0.0 } + (at * 7919 % 13) as f64 / 13.0
        };
        (0..1_440).map(hour).collect()
    }

    #[test]
    fn work_that_grows_leads_and_growth_of_all_does_not() {
        let found = leading(&hours(8.0, 0.0), 24, 8.0 / 168.0 * 45.0 / 168.0).unwrap();
        assert_eq!(found.len(), 54);
        assert!(found.windows(2).all(|two| two[1] >= two[0] - 1.0), "{found:?}");
        assert!((found[53] - found[46] - 8.0).abs() < 1.5, "{found:?}");
        assert_eq!(leading(&hours(0.0, 8.0), 24, 8.0 / 168.0), None);
        assert_eq!(leading(&hours(0.0, 0.0), 24, 0.0), None);
        assert_eq!(leading(&hours(8.0, 0.0)[..600], 24, 0.0), None, "three weeks");
        assert_eq!(leading(&[f64::NAN; 1_000], 24, 0.0), None);
    }
}
