//! Values in time: a series, its points, and what a day of it comes to.
//!
//! The store keeps days when points have grown old, Prometheus is asked for points and gives days here, and quotas and
//! forecasts work on days alone: so the same answer comes from either.

pub use crate::model::time::DAY;
use crate::model::time::{HOUR, MINUTE, Micros};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// A sample stands until the next one, but no longer than this: what comes later is behind a gap.
pub const STANDS: Micros = 65 * MINUTE;

/// The times for which a [`Day`] knows a sustained level: five and fifteen minutes, one and four hours.
pub const SUSTAINED: [Micros; 4] = [5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR];

/// Which series: a name and labels, as Prometheus has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Series {
    pub name: String,
    /// Its labels by name.
    pub labels: BTreeMap<String, String>,
}

impl Series {
    /// A series of these labels; empty values are left out, as Prometheus has it.
    pub fn new(name: &str, labels: &[(&str, &str)]) -> Self {
        let given = labels.iter().filter(|(_, value)| !value.is_empty());
        Self {
            name: name.to_owned(),
            labels: given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
    }

    /// The value of a label; empty where there is none.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

impl fmt::Display for Series {
    /// `name{a="b",c="d"}`, as on a metrics page.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (at, (name, value)) in self.labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(f, "{}{name}=\"{value}\"", if at == 0 { '{' } else { ',' })?;
        }
        if self.labels.is_empty() { Ok(()) } else { f.write_str("}") }
    }
}

/// Which series are meant: those of a name, or of any where it is empty, that have these labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    pub name: String,
    /// Labels and their values; an empty value is met where the label is absent.
    pub labels: Vec<(String, String)>,
}

impl Selector {
    /// The series of this name with these labels.
    pub fn new(name: &str, labels: &[(&str, &str)]) -> Self {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { name: name.to_owned(), labels }
    }

    /// Whether a series is meant.
    pub fn matches(&self, series: &Series) -> bool {
        (self.name.is_empty() || self.name == series.name)
            && self.labels.iter().all(|(name, value)| series.label(name) == value)
    }
}

/// A value at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// When.
    pub at: Micros,
    /// What: a finite number.
    pub value: f64,
}

/// What a series was on one day.
#[derive(Debug, Clone, PartialEq)]
pub struct Day {
    /// Days since 1970-01-01, UTC.
    pub day: i32,
    /// Points.
    pub count: u64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// When `max` was first seen.
    pub max_at: Micros,
    /// The sum of all values.
    pub sum: f64,
    /// The last value.
    pub last: f64,
    /// When it was seen.
    pub last_at: Micros,
    /// For each of [`SUSTAINED`]: the highest level that the series kept for that long without a gap. A time that began
    /// the day before counts. Negative infinity where no such time was seen.
    pub sustained: [f64; 4],
    /// How often which value was seen.
    pub sketch: Sketch,
}

impl Day {
    /// The day that an instant falls on.
    pub fn of(at: Micros) -> i32 {
        at.div_euclid(DAY) as i32
    }

    /// Takes in another part of the same day; sustained levels that span both are not seen.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        if other.max > self.max || (other.max == self.max && other.max_at < self.max_at) {
            (self.max, self.max_at) = (other.max, other.max_at);
        }
        self.sum += other.sum;
        if other.last_at >= self.last_at {
            (self.last, self.last_at) = (other.last, other.last_at);
        }
        for (mine, other) in self.sustained.iter_mut().zip(other.sustained) {
            *mine = mine.max(other);
        }
        self.sketch.merge(&other.sketch);
    }
}

/// How often which value was seen, by buckets of which there are 128 to each power of two: a quantile is given by its
/// bucket's upper end, so it is never below the true value, and at most 1/128 above. What is not above zero is one
/// bucket.
///
/// Merging is exact, and in whatever order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sketch {
    buckets: BTreeMap<u16, u64>,
}

impl Sketch {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        *self.buckets.entry(Self::bucket(value)).or_default() += 1;
    }

    /// Its exponent and seven bits of its mantissa, rounded up, counted from 2^-200.
    fn bucket(value: f64) -> u16 {
        if value <= 0.0 {
            return 0;
        }
        let cut = value.to_bits().div_ceil(1 << 45);
        cut.saturating_sub(LOWEST).clamp(1, u64::from(u16::MAX)) as u16
    }

    /// The upper end of a bucket.
    fn upper(bucket: u16) -> f64 {
        if bucket == 0 { 0.0 } else { f64::from_bits((LOWEST + u64::from(bucket)) << 45) }
    }

    /// Takes in another.
    pub fn merge(&mut self, other: &Self) {
        other.buckets.iter().for_each(|(bucket, count)| *self.buckets.entry(*bucket).or_default() += count);
    }

    /// A value that a share of `q` (0 to 1) of all is not above; `None` where there is none. It may exceed the largest
    /// value: cut it there.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let all: u64 = self.buckets.values().sum();
        let rank = ((q * all as f64).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += *count;
            seen >= rank
        });
        found.map(|(bucket, _)| Self::upper(*bucket))
    }

    /// The buckets, ascending, with their counts: what a store writes.
    pub fn buckets(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.buckets.iter().map(|(bucket, count)| (*bucket, *count))
    }

    /// A sketch of these buckets: what a store reads.
    pub fn from_buckets(buckets: impl IntoIterator<Item = (u16, u64)>) -> Self {
        Self { buckets: buckets.into_iter().collect() }
    }
}

/// Exponent and mantissa of 2^-200, which has the first bucket: 2^-200 (below any nano) to 2^311.
const LOWEST: u64 = ((1023 - 200) << 7) - 1;

/// Makes days of points that come in order of time. Points that are not later than the one before, and values that are
/// no numbers, are left out.
#[derive(Debug, Clone, Default)]
pub struct DayFold {
    day: Option<Day>,
    /// Of the run without gaps: from when on the series was not below which level. Later starts, higher levels.
    run: VecDeque<Point>,
    last: Option<Point>,
}

impl DayFold {
    /// Takes a point; gives the day before, if this is the first point of another.
    pub fn add(&mut self, point: Point) -> Option<Day> {
        if !point.value.is_finite() || self.last.is_some_and(|last| point.at <= last.at) {
            return None;
        }
        let ended = self.stand(point.at);
        let day = Day::of(point.at);
        let done = if self.day.as_ref().is_some_and(|open| open.day != day) { self.day.take() } else { None };
        let open = self.day.get_or_insert_with(|| Day {
            day,
            count: 0,
            min: point.value,
            max: point.value,
            max_at: point.at,
            sum: 0.0,
            last: point.value,
            last_at: point.at,
            sustained: [f64::NEG_INFINITY; 4],
            sketch: Sketch::default(),
        });
        open.count += 1;
        open.sum += point.value;
        open.min = open.min.min(point.value);
        if point.value > open.max {
            (open.max, open.max_at) = (point.value, point.at);
        }
        (open.last, open.last_at) = (point.value, point.at);
        open.sketch.add(point.value);
        if ended {
            self.run.clear();
        }
        let mut from = point.at;
        while let Some(higher) = self.run.pop_back_if(|before| before.value >= point.value) {
            from = higher.at;
        }
        self.run.push_back(Point { at: from, value: point.value });
        self.last = Some(point);
        done
    }

    /// The last day. How long its last value stood is not known.
    pub fn finish(&mut self) -> Option<Day> {
        self.stand(self.last?.at);
        self.run.clear();
        self.last = None;
        self.day.take()
    }

    /// What stood until `until`, where the next point is: raises the sustained levels of the open day. Whether a gap
    /// follows.
    fn stand(&mut self, until: Micros) -> bool {
        let (Some(last), Some(day)) = (self.last, self.day.as_mut()) else { return false };
        let end = until.min(last.at + STANDS);
        for (level, length) in day.sustained.iter_mut().zip(SUSTAINED) {
            let began = self.run.partition_point(|from| from.at <= end - length);
            if let Some(from) = began.checked_sub(1).and_then(|at| self.run.get(at)) {
                *level = level.max(from.value);
            }
        }
        // What can't be the longest's beginning any more.
        while self.run.get(1).is_some_and(|second| second.at <= end - SUSTAINED[3]) {
            self.run.pop_front();
        }
        until > last.at + STANDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::SECOND;
    use proptest::prelude::*;

    fn days(points: &[(Micros, f64)]) -> Vec<Day> {
        let mut fold = DayFold::default();
        let mut days: Vec<Day> =
            points.iter().filter_map(|(at, value)| fold.add(Point { at: *at, value: *value })).collect();
        days.extend(fold.finish());
        days
    }

    /// By trying every pair of points, as the definition has it.
    fn sustained(points: &[(Micros, f64)], day: i32, length: Micros) -> f64 {
        let mut best = f64::NEG_INFINITY;
        for first in 0..points.len() {
            let mut low = f64::INFINITY;
            for at in first..points.len() {
                low = low.min(points[at].1);
                let until = points.get(at + 1).map_or(points[at].0, |next| next.0);
                let end = until.min(points[at].0 + STANDS);
                if end - points[first].0 >= length && Day::of(points[at].0) == day {
                    best = best.max(low);
                }
                if until > points[at].0 + STANDS {
                    break;
                }
            }
        }
        best
    }

    proptest! {
        #[test]
        fn days_are_what_their_definition_says(steps in prop::collection::vec((1i64..400, 0u8..9), 1..120)) {
            let mut at = 20_000 * DAY - 600 * MINUTE;
            let points: Vec<(Micros, f64)> = steps.iter().map(|(step, value)| {
                // Now and then a gap.
                at += if *step > 390 { 300 } else { step % 40 } * MINUTE + SECOND;
                (at, f64::from(*value))
            }).collect();
            let days = days(&points);
            let of = |day: i32| points.iter().filter(move |(at, _)| Day::of(*at) == day);
            prop_assert_eq!(days.iter().map(|day| day.count).sum::<u64>(), points.len() as u64);
            for day in &days {
                let max = of(day.day).map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
                prop_assert_eq!(day.max, max);
                prop_assert_eq!(Some(&day.max_at), of(day.day).find(|point| point.1 == max).map(|point| &point.0));
                prop_assert_eq!(day.sum, of(day.day).map(|point| point.1).sum::<f64>());
                prop_assert_eq!(Some((day.last_at, day.last)), of(day.day).next_back().copied());
                for (level, length) in day.sustained.iter().zip(SUSTAINED) {
                    prop_assert_eq!(*level, sustained(&points, day.day, length));
                }
            }
        }

        #[test]
        fn a_quantile_is_at_most_a_bucket_above(values in prop::collection::vec(1e-9f64..1e18, 1..200),
            cut in 0usize..200, per_cent in 0u8..=100) {
            let q = f64::from(per_cent) / 100.0;
            let mut whole = Sketch::default();
            let mut parts = [Sketch::default(), Sketch::default()];
            for (at, value) in values.iter().enumerate() {
                whole.add(*value);
                parts[usize::from(at >= cut)].add(*value);
            }
            let [mut first, second] = parts;
            first.merge(&second);
            prop_assert_eq!(&first, &whole);
            prop_assert_eq!(&Sketch::from_buckets(whole.buckets()), &whole);
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let (found, truth) = (whole.quantile(q).unwrap(), sorted[rank - 1]);
            prop_assert!(found >= truth && found <= truth * (1.0 + 1.0 / 128.0), "{found} {truth}");
        }
    }

    #[test]
    fn a_spike_is_not_sustained() {
        let points: Vec<_> =
            (0..288).map(|at| (i64::from(at) * 5 * MINUTE, if at == 100 || at == 101 { 9.0 } else { 2.0 })).collect();
        let day = &days(&points)[0];
        assert_eq!((day.max, day.max_at), (9.0, 500 * MINUTE));
        assert_eq!(day.sustained, [9.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn it_reads_like_a_metrics_page() {
        let series = Series::new("a", &[("z", "1"), ("b", "x\"y\\"), ("none", "")]);
        assert_eq!(series.to_string(), r#"a{b="x\"y\\",z="1"}"#);
        assert_eq!(Series::new("a", &[]).to_string(), "a");
    }
}
