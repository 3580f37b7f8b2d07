//! Straight pieces: where a series of days changed its level or its slope.
//!
//! The days are cut into pieces so that the sum of squares around a straight line in each, plus a price for each piece,
//! is least (optimal partitioning, Jackson et al. 2005). The best last piece of all that is known up to each day falls
//! out by the way, so that a backtest sees at each of its origins only what was known there.

/// A straight line through days.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Its first day, as an index.
    pub from: usize,
    /// Its height at its last day.
    pub level: f64,
    /// More per day.
    pub slope: f64,
    /// The standard error of the slope.
    pub slope_error: f64,
    /// Days of it that are known.
    pub days: usize,
    /// Whether all of them are.
    pub is_whole: bool,
}

/// A slope of less than so many standard errors is none, where many days are known.
const SURE: f64 = 2.0;

impl Piece {
    /// Whether the slope is not zero by chance. Of few days the error itself is hardly known: a jump among three
    /// looks like a slope of 1.7 of its errors, and of any number of them with a gap between; in the middle of four
    /// like one of 2.8.
    pub fn is_sloped(&self) -> bool {
        let sure = match self.days {
            3 if self.is_whole => 4.0,
            0..=3 => return false,
            4 => 3.0,
            _ => SURE,
        };
        self.slope.abs() > sure * self.slope_error
    }
}

/// How days are cut.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pieces {
    /// For each day the last piece of what was known up to it.
    pub last: Vec<Piece>,
    /// For each day the line through all that was known up to it, however its level changed.
    pub whole: Vec<Piece>,
    /// Where the whole is cut: the first known day of each piece but the first, and how far the level jumps there.
    pub cuts: Vec<(usize, f64)>,
    /// The noise from day to day, as a standard deviation.
    pub noise: f64,
}

/// A day that lies so many times the noise from its neighbours lies apart from them.
const APART: f64 = 4.0;

/// Known days that a piece needs at least.
const MIN_POINTS: usize = 3;

/// The price of a piece, in variances of the noise: by Schwarz' criterion 3 ln n for a place, a level and a slope, and
/// half more against noise that is not independent from day to day.
fn price(days: usize) -> f64 {
    4.5 * (days.max(8) as f64).ln()
}

/// Sums of a stretch, from which its line follows.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

/// The line of least squares: its slope, where its middle is, the spread of x, and the sum of squares that is left.
struct Line {
    slope: f64,
    x: f64,
    y: f64,
    spread: f64,
    left: f64,
}

impl Sums {
    /// With one more.
    fn plus(self, x: f64, y: f64) -> Self {
        Self {
            n: self.n + 1.0,
            x: self.x + x,
            y: self.y + y,
            xx: self.xx + x * x,
            xy: self.xy + x * y,
            yy: self.yy + y * y,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            n: self.n - other.n,
            x: self.x - other.x,
            y: self.y - other.y,
            xx: self.xx - other.xx,
            xy: self.xy - other.xy,
            yy: self.yy - other.yy,
        }
    }

    fn line(self) -> Line {
        if self.n < 1.0 {
            return Line { slope: 0.0, x: 0.0, y: 0.0, spread: 0.0, left: 0.0 };
        }
        let (x, y) = (self.x / self.n, self.y / self.n);
        let spread = (self.xx - self.n * x * x).max(0.0);
        let both = self.xy - self.n * x * y;
        let slope = if spread > 1e-9 { both / spread } else { 0.0 };
        Line { slope, x, y, spread, left: (self.yy - self.n * y * y - slope * both).max(0.0) }
    }
}

/// The slope of the line of least squares through values, and its standard error; `None` of fewer than three.
pub fn line(values: &[f64]) -> Option<(f64, f64)> {
    let mut sums = Sums::default();
    for (at, value) in values.iter().enumerate() {
        sums = sums.plus(at as f64, *value);
    }
    let line = sums.line();
    let deviation = (line.left / (sums.n - 2.0)).sqrt();
    (sums.n >= 3.0).then(|| (line.slope, deviation / line.spread.sqrt()))
}

/// Fewer steps between values, which are no multiples of the least, are changes of their own.
const FEW_STEPS: usize = 4;

/// The smallest step between values: counts go by ones, rounded numbers by their last digit. A single step, between two
/// levels, is a change of its own and no grain; so are a few that are no multiples of one.
pub fn grain(values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let largest = sorted.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    // What is less differs by how numbers are kept.
    let steps = sorted.windows(2).map(|two| two[1] - two[0]).filter(|step| *step > 1e-9 * largest);
    let steps: Vec<f64> = steps.collect();
    let grain = steps.iter().copied().fold(f64::INFINITY, f64::min);
    let is_multiple = |step: &f64| (step / grain - (step / grain).round()).abs() < 1e-6;
    let is_regular = steps.iter().all(is_multiple);
    if steps.len() >= FEW_STEPS || steps.len() > 1 && is_regular { grain } else { 0.0 }
}

/// Cuts days, of which those that are not known are NaN. Values go by steps of `grain`: days can't be known better than
/// rounding lets them, or a slow rise of counts would be flat pieces with jumps between.
///
/// A day that lies apart from both before and both behind it says nothing of the trend: one hour may be a hundred times
/// the others, or a level may change at noon. It is seen two days later; until then it counts.
pub fn cut(days: &[f64], grain: f64) -> Pieces {
    let noise_of = |days: &[f64]| noise(days).max(grain / 12f64.sqrt());
    let noise = noise_of(days);
    let apart: Vec<usize> = (2..days.len().saturating_sub(2)).filter(|at| is_apart(days, *at, noise)).collect();
    let whole = cut_all(days, noise);
    if apart.is_empty() {
        return whole;
    }
    let mut kept = days.to_vec();
    apart.iter().for_each(|at| kept[*at] = f64::NAN);
    let mut found = cut_all(&kept, noise_of(&kept));
    for at in &apart {
        found.last[*at..at + 2].copy_from_slice(&whole.last[*at..at + 2]);
    }
    // A level that changed within a day did so on that day.
    found.cuts.iter_mut().filter(|own| apart.contains(&(own.0 - 1))).for_each(|own| own.0 -= 1);
    found
}

/// Whether a day lies apart from the two before it and the two behind it, which agree with one another on either side.
fn is_apart(days: &[f64], at: usize, noise: f64) -> bool {
    let [a, b, day, c, d] = [at - 2, at - 1, at, at + 1, at + 2].map(|at| days[at]);
    let far = APART * noise;
    let (before, behind) = ((a - b).abs(), (c - d).abs());
    // A slope is as steep on both sides of it.
    let step = before.max(behind);
    let is_known = days[at - 2..=at + 2].iter().all(|day| day.is_finite());
    is_known
        && step <= far.max(2.0 * before.min(behind))
        && [b, c].iter().all(|near| (day - near).abs() > far + 2.0 * step)
}

fn cut_all(days: &[f64], noise: f64) -> Pieces {
    let n = days.len();
    let base = days.iter().copied().find(|value| value.is_finite()).unwrap_or(0.0);
    let mut sums = vec![Sums::default(); n + 1];
    for (at, value) in days.iter().enumerate() {
        sums[at + 1] = if value.is_finite() { sums[at].plus(at as f64, value - base) } else { sums[at] };
    }
    let price = price(n) * noise * noise;
    let mut best = vec![0.0; n + 1];
    let mut start = vec![0usize; n + 1];
    for until in 1..=n {
        best[until] = sums[until].line().left;
        for from in MIN_POINTS..=until.saturating_sub(MIN_POINTS) {
            let own = sums[until].minus(sums[from]);
            let cost = best[from] + price + own.line().left;
            if cost < best[until] && own.n >= MIN_POINTS as f64 {
                (best[until], start[until]) = (cost, from);
            }
        }
    }
    let piece_from = |from: usize, until: usize| {
        let own = sums[until].minus(sums[from]);
        let line = own.line();
        let deviation = (line.left / (own.n - 2.0).max(1.0)).sqrt().max(noise);
        let slope_error = if line.spread > 1e-9 { deviation / line.spread.sqrt() } else { f64::INFINITY };
        Piece {
            from,
            level: line.y + base + line.slope * ((until - 1) as f64 - line.x),
            slope: line.slope,
            slope_error,
            days: own.n as usize,
            is_whole: own.n as usize == until - from,
        }
    };
    let piece = |until: usize| piece_from(start[until], until);
    let last: Vec<Piece> = (1..=n).map(piece).collect();
    let whole: Vec<Piece> = (1..=n).map(|until| piece_from(0, until)).collect();
    let mut cuts = Vec::new();
    let mut at = n;
    while at > 0 && start[at] > 0 {
        let after = sums[at].minus(sums[start[at]]).line();
        at = start[at];
        let before = piece(at);
        let begins = after.y + base + after.slope * (at as f64 - after.x);
        // In a gap nobody can see where; it is seen behind it.
        let seen = days[at..].iter().position(|day| day.is_finite()).unwrap_or(0);
        cuts.push((at + seen, begins - (before.level + before.slope)));
    }
    cuts.reverse();
    Pieces { last, whole, cuts, noise }
}

/// How much days differ from the mean of their neighbours, as a standard deviation; by the median, so that steps do not
/// count.
pub fn noise(days: &[f64]) -> f64 {
    let mut rests: Vec<f64> = days
        .windows(3)
        .map(|three| (three[1] - (three[0] + three[2]) / 2.0).abs())
        .filter(|rest| rest.is_finite())
        .collect();
    if rests.is_empty() {
        return 0.0;
    }
    let mean = rests.iter().sum::<f64>() / rests.len() as f64;
    let middle = rests.len() / 2;
    let median = *rests.select_nth_unstable_by(middle, f64::total_cmp).1;
    // The variance of y1 - (y0 + y2) / 2 is 1.5 of that of y.
    (if median > 0.0 { median * 1.4826 } else { mean }) / 1.5f64.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sum of squares around the line of least squares, by its definition.
    fn left(days: &[f64]) -> f64 {
        let n = days.len() as f64;
        let x = (0..days.len()).map(|at| at as f64).sum::<f64>() / n;
        let y = days.iter().sum::<f64>() / n;
        let over: f64 = days.iter().enumerate().map(|(at, day)| (at as f64 - x) * (day - y)).sum();
        let spread: f64 = (0..days.len()).map(|at| (at as f64 - x).powi(2)).sum();
        let slope = if spread > 0.0 { over / spread } else { 0.0 };
        days.iter().enumerate().map(|(at, day)| (day - y - slope * (at as f64 - x)).powi(2)).sum()
    }

    /// The least cost of all ways to cut, by trying each.
    fn least(days: &[f64], price: f64) -> f64 {
        let cuts = (MIN_POINTS..=days.len().saturating_sub(MIN_POINTS))
            .map(|at| least(&days[..at], price) + price + left(&days[at..]));
        cuts.fold(left(days), f64::min)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_other_cut_is_cheaper(days in prop::collection::vec(-50i32..50, 6..15)) {
            let days: Vec<f64> = days.into_iter().map(f64::from).collect();
            let price = price(days.len()) * noise(&days).powi(2);
            let found = cut(&days, 0.0);
            let mut bounds: Vec<usize> = vec![0];
            bounds.extend(found.cuts.iter().map(|(at, _)| *at));
            bounds.push(days.len());
            let residual: f64 = bounds.windows(2).map(|two| left(&days[two[0]..two[1]])).sum();
            let cost = residual + price * found.cuts.len() as f64;
            prop_assert!((cost - least(&days, price)).abs() < 1e-6 * cost.max(1.0), "{cost} {}", least(&days, price));
        }

    }

    #[test]
    fn a_step_and_a_new_slope_are_found() {
        let wobble =
            |at: usize| ((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let days: Vec<f64> =
            (0..60).map(|at| if at < 25 { 10.0 } else { 30.0 + 2.0 * (at as f64 - 25.0) } + wobble(at)).collect();
        let found = cut(&days, 0.0);
        assert_eq!(found.cuts.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [25]);
        assert!((found.cuts[0].1 - 20.0).abs() < 1.0, "{:?}", found.cuts);
        let last = found.last[59];
        assert_eq!(last.from, 25);
        assert!((last.slope - 2.0).abs() < 3.0 * last.slope_error && last.slope_error < 0.02, "{last:?}");
        assert!((last.level - (30.0 + 2.0 * 34.0)).abs() < 0.5);
        // Before the step nothing of it was known.
        assert_eq!((found.last[24].from, found.last[24].slope.abs() < 0.02), (0, true));
    }

    #[test]
    fn a_slow_rise_of_counts_is_a_slope() {
        for per_day in [0.1, 0.15, 0.3, 0.7] {
            let days: Vec<f64> = (0..90).map(|day| (20.0 + per_day * f64::from(day)).round()).collect();
            let found = cut(&days, grain(&days));
            assert!(found.cuts.is_empty(), "{per_day}: {:?}", found.cuts);
            assert!((found.last[89].slope - per_day).abs() < 0.01, "{per_day}: {:?}", found.last[89]);
        }
        assert_eq!((grain(&[0.5, 3.0, 1.0, f64::NAN, 1.0]), grain(&[2.0, 2.0]), grain(&[])), (0.5, 0.0, 0.0));
        assert_eq!(grain(&[10.0, 95.0, 10.0]), 0.0);
        assert_eq!((grain(&[10.0, 20.0, 35.0]), grain(&[10.0, 20.0, 30.0])), (0.0, 10.0));
    }

    #[test]
    fn a_step_between_two_levels_without_noise_is_found_whole() {
        for at in [10, 20, 30, 37] {
            let days: Vec<f64> = (0..40).map(|day| if day < at { 10.0 } else { 95.0 }).collect();
            let found = cut(&days, grain(&days));
            let [(day, by)] = found.cuts[..] else { panic!("{:?}", found.cuts) };
            assert!(day == at && (by - 85.0).abs() < 1e-9 && by > 4.0 * found.noise, "{day} {by} {}", found.noise);
        }
    }

    #[test]
    fn one_day_apart_takes_no_trend() {
        let wobble = |at: usize| ((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / 1e8;
        for (odd, by) in [(20, 400.0), (30, -90.0), (37, 1e6)] {
            let mut days: Vec<f64> = (0..40).map(|at| 100.0 + 2.0 * at as f64 + wobble(at)).collect();
            days[odd] += by;
            let found = cut(&days, 0.0);
            let last = found.last[39];
            assert!(found.cuts.is_empty() && (last.slope - 2.0).abs() < 0.01 && last.is_sloped(), "{odd}: {last:?}");
            // Two days later nobody had seen yet that it was one day.
            assert!((found.last[odd + 1].slope - 2.0).abs() > 0.1 || !found.last[odd + 1].is_sloped());
            assert!((found.last[odd + 2].slope - 2.0).abs() < 0.01, "{odd}: {:?}", found.last[odd + 2]);
        }
        // Two such days are a level that came and went.
        let mut days = vec![10.0; 40];
        days[20..22].fill(90.0);
        assert!(cut(&days, 0.0).last[39].slope.abs() < 0.01);
    }

    #[test]
    fn a_level_that_changes_within_a_day_is_one_step() {
        for half in [20.0, 45.0, 80.0] {
            let mut days: Vec<f64> = (0..40).map(|at| if at < 20 { 10.0 } else { 95.0 } + f64::from(at % 2)).collect();
            days[20] = half;
            let found = cut(&days, 0.0);
            let [(at, by)] = found.cuts[..] else { panic!("{half}: {:?}", found.cuts) };
            assert!((20..=21).contains(&at) && (by - 85.0).abs() < 1.5, "{half}: {at} {by}");
        }
    }

    #[test]
    fn a_jump_is_never_a_slope() {
        // On each of the days behind a jump, also where it came in a gap.
        for gap in 0..4 {
            let mut days: Vec<f64> =
                (0..50).map(|at| f64::from(at % 2) / 10.0 + if at < 25 { 0.0 } else { 14.0 }).collect();
            days[25 - gap..25].fill(f64::NAN);
            for (at, piece) in cut(&days, 0.0).last.iter().enumerate() {
                assert!(!piece.is_sloped() || piece.slope.abs() < 0.1, "gap {gap}, day {at}: {piece:?}");
            }
        }
    }

    #[test]
    fn days_that_are_not_known_are_left_out() {
        let mut days: Vec<f64> = (0..30).map(|at| 5.0 + at as f64).collect();
        days[7..15].fill(f64::NAN);
        let found = cut(&days, 0.0);
        assert!((found.last[29].slope - 1.0).abs() < 1e-9 && found.cuts.is_empty());
        assert!(cut(&[f64::NAN; 9], 0.0).cuts.is_empty());
        assert_eq!(cut(&[], 0.0).last, []);
    }
}
