//! Statistics that single values can't bend: medians, and straight lines by Theil and Sen.

/// A straight line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// More for each unit of x.
    pub slope: f64,
    /// Its value at x = 0.
    pub at_zero: f64,
    /// Between these the true slope lies in 95 of 100 cases, if what is left over is independent (Sen 1968).
    pub interval: (f64, f64),
}

/// The line through points, whose slope is the median of the slopes between any two of different x, and whose height
/// the median of what is left over (Theil 1950, Sen 1968). `None` where no two have a different x. Takes time and
/// memory with the square of the points.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (at, (x, y)) in points.iter().enumerate() {
        slopes.extend(
            points[at + 1..].iter().filter(|(other, _)| other != x).map(|(other, later)| (later - y) / (other - x)),
        );
    }
    let slope = median(&mut slopes)?;
    let mut rests: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    Some(Line { slope, at_zero: median(&mut rests)?, interval: interval(&mut slopes, points) })
}

/// The interval of the median of slopes: so many ranks from the middle as the variance of Kendall's statistic says (Sen
/// 1968, 2.6). It is without end where there are too few points for one.
fn interval(slopes: &mut [f64], points: &[(f64, f64)]) -> (f64, f64) {
    let variance =
        variance(points.len()) - ties(points.iter().map(|point| point.0)) - ties(points.iter().map(|point| point.1));
    let spread = 1.959_963_984_540_054 * variance.max(0.0).sqrt();
    let pairs = slopes.len() as f64;
    let mut rank = |rank: f64, beyond: f64| {
        let is_there = (0.0..pairs).contains(&rank);
        if is_there { *slopes.select_nth_unstable_by(rank as usize, f64::total_cmp).1 } else { beyond }
    };
    let lower = rank(((pairs - spread) / 2.0).round() - 1.0, f64::NEG_INFINITY);
    (lower, rank(((pairs + spread) / 2.0).round(), f64::INFINITY))
}

/// The variance of Kendall's statistic of so many points.
fn variance(count: usize) -> f64 {
    let n = count as f64;
    n * (n - 1.0) * (2.0 * n + 5.0) / 18.0
}

/// What of it falls away because values occur more than once.
fn ties(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.chunk_by(|a, b| a == b).map(|same| variance(same.len())).sum()
}

/// The value in the middle, or the mean of the two; `None` of nothing. Puts the values into another order.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    let lower = if is_even { below.iter().copied().max_by(f64::total_cmp)? } else { upper };
    Some(lower + (upper - lower) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What scipy 1.17 says: `stats.theilslopes(y, x, 0.95, "joint")`.
    #[test]
    fn the_line_and_its_interval_are_scipys() {
        let y = [1.0, 3.2, 4.9, 7.1, 30.0, 10.8, 13.3, 15.1, 16.8, -4.0, 21.2, 23.0];
        let plain: Vec<(f64, f64)> = y.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
        let x = [5.0, 5.0, 6.0, 6.0, 6.0, 7.0, 7.0, 8.0, 9.0, 9.0, 9.0, 9.0, 10.0, 11.0];
        let y = [10.0, 11.0, 12.0, 12.0, 13.0, 15.0, 14.0, 17.0, 18.0, 18.0, 18.0, 20.0, 20.0, 21.0];
        let tied: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        for (points, slope, at_zero, lower, upper) in [
            (plain, 1.981_666_666_666_666_5, 1.178_333_333_333_334_1, 1.799_999_999_999_999, 2.033_333_333_333_333),
            (tied, 2.0, 0.0, 1.666_666_666_666_666_7, 2.0),
        ] {
            let found = line(&points).unwrap();
            for (name, mine, scipy) in [
                ("slope", found.slope, slope),
                ("height", found.at_zero, at_zero),
                ("lower", found.interval.0, lower),
                ("upper", found.interval.1, upper),
            ] {
                assert!((mine - scipy).abs() < 1e-9, "{name}: {mine}, not {scipy}");
            }
        }
    }

    #[test]
    fn no_line_through_one_x() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(1.0, 2.0), (1.0, 5.0)]), None);
        let two = line(&[(1.0, 2.0), (2.0, 5.0)]).unwrap();
        assert_eq!((two.slope, two.at_zero), (3.0, -1.0));
        assert_eq!(two.interval, (f64::NEG_INFINITY, f64::INFINITY));
    }
}
