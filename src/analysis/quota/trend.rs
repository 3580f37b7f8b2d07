//! Where usage is going: a straight line through the highest values of days, which single days can't bend (Theil and
//! Sen).

use crate::analysis::robust::line;
use crate::model::quota::Usage;
use crate::model::series::Day;

/// Days that a trend needs.
pub const MIN_DAYS: usize = 7;

/// Days that it looks back.
pub const MAX_DAYS: usize = 60;

/// A limit that is reached later than this is not forecast.
pub const HORIZON: f64 = 365.0;

/// A straight line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// More per day.
    pub per_day: f64,
    /// The line's value on the day for which it was asked.
    pub now: f64,
    /// Days that it was made of.
    pub days: usize,
}

/// The trend of the daily maxima of the last [`MAX_DAYS`] full days before `today`; `None` where fewer than
/// [`MIN_DAYS`] are known.
///
/// The slope is the median of the slopes between any two days, the height the median of what is left over (Sen 1968).
pub fn trend(days: &[Day], today: i32) -> Option<Trend> {
    // Of today the highest value may be still to come.
    let within = |day: &&Day| day.day < today && i64::from(day.day) >= i64::from(today) - MAX_DAYS as i64;
    let points: Vec<(f64, f64)> =
        days.iter().filter(within).map(|day| (f64::from(day.day) - f64::from(today), day.max)).collect();
    if points.len() < MIN_DAYS {
        return None;
    }
    let line = line(&points)?;
    Some(Trend { per_day: line.slope, now: line.at_zero, days: points.len() })
}

impl Trend {
    /// More per week.
    pub fn per_week(self) -> f64 {
        self.per_day * 7.0
    }

    /// Days until the line is at `limit`, 0 where it is above; `None` where it does not rise, or only reaches it after
    /// [`HORIZON`].
    pub fn days_until(self, limit: f64) -> Option<f64> {
        if self.per_day <= 0.0 {
            return None;
        }
        let days = ((limit - self.now) / self.per_day).max(0.0);
        (days <= HORIZON).then_some(days)
    }
}

/// What is known in time of a resource that a quota grants: the quota's own usage, else that of its namespace. Quotas
/// name CPU and memory that is requested in two ways.
pub fn usage<'u>(usage: &'u [Usage], namespace: &str, quota: &str, resource: &str) -> Option<&'u Usage> {
    let other = match resource {
        "cpu" | "memory" | "ephemeral-storage" => Some(format!("requests.{resource}")),
        _ => resource
            .strip_prefix("requests.")
            .filter(|name| matches!(*name, "cpu" | "memory" | "ephemeral-storage"))
            .map(str::to_owned),
    };
    let find = |quota: &str, resource: &str| Usage::find(usage, namespace, quota, resource);
    let either = |quota: &str| find(quota, resource).or_else(|| find(quota, other.as_deref()?));
    either(quota).or_else(|| either(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::series::Sketch;

    fn days(values: &[(i32, f64)]) -> Vec<Day> {
        let day = |(day, max): &(i32, f64)| Day {
            day: *day,
            count: 1,
            min: *max,
            max: *max,
            max_at: 0,
            sum: *max,
            last: *max,
            last_at: 0,
            sustained: [*max; 4],
            sketch: Sketch::default(),
        };
        values.iter().map(day).collect()
    }

    #[test]
    fn a_line_is_found_under_outliers() {
        let mut values: Vec<(i32, f64)> = (0..30).map(|day| (day, 10.0 + 2.0 * f64::from(day))).collect();
        values[7].1 = 1e6;
        values[20].1 = 0.0;
        let found = trend(&days(&values), 30).unwrap();
        assert_eq!((found.per_week(), found.now, found.days), (14.0, 70.0, 30));
        assert_eq!(found.days_until(100.0), Some(15.0));
        assert_eq!(found.days_until(60.0), Some(0.0));
        assert_eq!(found.days_until(70.0 + 2.0 * 366.0), None);
    }

    #[test]
    fn too_little_is_no_trend_and_today_is_not_over() {
        let values: Vec<(i32, f64)> = (0..7).map(|day| (day, f64::from(day))).collect();
        assert_eq!(trend(&days(&values), 6), None);
        assert!(trend(&days(&values), 7).is_some());
        assert_eq!(trend(&days(&values), 67), None, "all older than 60 days but one");
        assert_eq!(trend(&days(&[(0, 5.0); 7]), 1), None, "one day, seven times: no two days to compare");
        let flat: Vec<(i32, f64)> = (0..9).map(|day| (day, 4.0)).collect();
        assert_eq!(trend(&days(&flat), 9).unwrap().days_until(8.0), None);
    }

    #[test]
    fn both_names_of_a_resource_are_one() {
        let of = |quota: &str, resource: &str| Usage {
            namespace: "a".into(),
            quota: quota.into(),
            resource: resource.into(),
            ..Usage::default()
        };
        let known = [of("", "pods"), of("", "requests.cpu"), of("q", "pods")];
        let find =
            |namespace, quota, resource| usage(&known, namespace, quota, resource).map(|usage| usage.quota.as_str());
        assert_eq!(find("a", "q", "pods"), Some("q"));
        assert_eq!(find("a", "r", "pods"), Some(""));
        assert_eq!(find("a", "q", "cpu"), Some(""));
        assert_eq!((find("a", "q", "limits.cpu"), find("b", "q", "pods")), (None, None));
        assert!(usage(&[of("", "memory")], "a", "q", "requests.memory").is_some());
    }
}
