//! What drives a sum: how fast each of its parts grows.

use crate::analysis::robust::line;
use crate::model::forecast::{Grid, Target};
use crate::model::series::DAY;
use crate::model::time::Micros;

/// Days that are looked at: growth of long ago drives nothing now.
const DAYS: i64 = 28;

/// Parts that are named.
const MAX_DRIVERS: usize = 5;

/// A part of a sum that grows or shrinks.
#[derive(Debug, Clone, PartialEq)]
pub struct Driver {
    /// Which part.
    pub name: String,
    /// How much more it is a week.
    pub per_week: f64,
    /// Its share of what all parts that grow grow together; negative where it shrinks.
    pub share: f64,
}

/// The highest values of the last days of a grid, as day and value. A day that had only begun when the grid ends is
/// left out if there are others: its highest value may be still to come.
pub fn days(grid: &Grid, most: i64) -> Vec<(f64, f64)> {
    let mut days: Vec<(Micros, f64)> = Vec::new();
    let end = grid.end();
    for (index, value) in grid.values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
        let day = grid.at(index).div_euclid(DAY);
        if day < end.div_euclid(DAY) - most {
            continue;
        }
        match days.last_mut() {
            Some((same, highest)) if *same == day => *highest = highest.max(*value),
            _ => days.push((day, *value)),
        }
    }
    if days.len() > 1 && days.last().is_some_and(|(day, _)| (day + 1) * DAY > end) {
        days.pop();
    }
    days.into_iter().map(|(day, value)| (day as f64, value)).collect()
}

/// The parts of a target that grow fastest, then those that shrink fastest; none where nothing is known of its parts.
pub fn of(target: &Target) -> Vec<Driver> {
    let slope = |grid: &Grid| line(&days(grid, DAYS)).map(|line| line.slope * 7.0).filter(|slope| slope.is_finite());
    let slopes: Vec<(&str, f64)> =
        target.parts.iter().filter_map(|part| Some((part.name.as_str(), slope(&part.grid)?))).collect();
    let growing: f64 = slopes.iter().map(|(_, slope)| slope.max(0.0)).sum();
    let all = if growing > 0.0 { growing } else { slopes.iter().map(|(_, slope)| slope.abs()).sum() };
    let mut drivers: Vec<Driver> = slopes
        .into_iter()
        .map(|(name, per_week)| Driver { name: name.to_owned(), per_week, share: per_week / all })
        // Below one in a hundred nothing is driven.
        .filter(|driver| driver.share.abs() >= 0.01)
        .collect();
    drivers.sort_by(|a, b| b.per_week.total_cmp(&a.per_week).then_with(|| a.name.cmp(&b.name)));
    drivers.truncate(MAX_DRIVERS);
    drivers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forecast::Part;
    use crate::model::time::HOUR;

    fn part(name: &str, value: impl Fn(usize) -> f64) -> Part {
        Part {
            name: name.into(),
            grid: Grid { from: 20_000 * DAY, step: HOUR, values: (0..24 * 40 + 3).map(value).collect() },
        }
    }

    #[test]
    fn growth_is_that_of_the_last_four_weeks() {
        let grow = |per_day: f64| move |at: usize| 100.0 + per_day * (at / 24) as f64 + (at % 24) as f64;
        let parts = vec![
            part("fast", grow(3.0)),
            part("slow", grow(1.0)),
            part("shrinks", grow(-2.0)),
            part("flat", grow(0.0)),
            // It grew until 29 days before the end.
            part("once", |at| (at.min(24 * 11) / 24) as f64 * 50.0),
            part("unknown", |_| f64::NAN),
        ];
        let found = of(&Target { parts, ..Target::default() });
        let found: Vec<(&str, f64, f64)> =
            found.iter().map(|driver| (driver.name.as_str(), driver.per_week, driver.share)).collect();
        assert_eq!(found, [("fast", 21.0, 0.75), ("slow", 7.0, 0.25), ("shrinks", -14.0, -0.5)]);
    }

    #[test]
    fn a_day_that_has_only_begun_is_none() {
        let grid = part("a", |at| at as f64).grid;
        let days = days(&grid, 2);
        assert_eq!(days, [(20_038.0, (24.0 * 39.0) - 1.0), (20_039.0, 24.0 * 40.0 - 1.0)]);
    }
}
