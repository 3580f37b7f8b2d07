//! From points in whatever order to values at equal distances of time.
//!
//! The value of an interval is the highest that was seen in it: limits are reached by peaks. An interval without a
//! point is not known. The last one counts only if it is over: if its last point is no more than one and a half of the
//! series' typical distances from its end. (Points that two sources show count twice, so the distance seems shorter,
//! and the last interval may be left out although it is over.)

use crate::model::forecast::Grid;
use crate::model::series::{DAY, Day, Point, Series};
use crate::model::stray::is_stray;
use crate::model::time::{Bounds, Micros, is_within};
use hashbrown::HashMap;

/// Series that are held at once.
pub const SERIES: usize = 2_097_152;

/// How long intervals are, and how many are kept of a series: the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The length of an interval.
    pub step: Micros,
    /// Intervals that are kept, counted back from the last.
    pub most: usize,
}

/// Folds the points of one series.
#[derive(Debug, Clone, Default)]
pub struct GridFold {
    /// The number of the first interval, counted from 1970.
    first: i64,
    /// The last one has a value.
    values: Vec<f64>,
    /// Points that came, and intervals that got their first value: with both the typical distance is known.
    points: u64,
    fresh: u64,
    last_at: Micros,
}

impl GridFold {
    /// Takes a point.
    pub fn add(&mut self, shape: Shape, point: Point) {
        self.merge(shape, point.at, point.value, 1, point.at);
    }

    /// Takes a day as a whole. The interval is no shorter than a day.
    pub fn add_day(&mut self, shape: Shape, day: &Day) {
        self.merge(shape, Micros::from(day.day) * DAY, day.max, day.count, day.last_at);
    }

    fn merge(&mut self, shape: Shape, at: Micros, value: f64, points: u64, last_at: Micros) {
        let Some(place) = self.place(at.div_euclid(shape.step), shape.most) else { return };
        if place.is_nan() {
            *place = value;
            self.fresh += 1;
        } else if value > *place {
            *place = value;
        }
        // The same instant twice says nothing of how far apart points are.
        if last_at != self.last_at || self.points == 0 {
            self.points += points;
        }
        self.last_at = self.last_at.max(last_at);
    }

    /// Where the value of an interval stands; `None` if it is too long before the last one.
    fn place(&mut self, index: i64, most: usize) -> Option<&mut f64> {
        let kept = self.values.len();
        if kept == 0 {
            self.first = index;
            self.values.push(f64::NAN);
            return self.values.first_mut();
        }
        let offset = index - self.first;
        if offset < 0 {
            let need = usize::try_from(-offset).ok()?;
            let room = most.saturating_sub(kept);
            if need > room {
                return None;
            }
            // More than is needed: what comes backwards does not move all values each time.
            let more = need.max(kept).min(room);
            self.values.splice(0..0, std::iter::repeat_n(f64::NAN, more));
            self.first -= more as i64;
            return self.values.get_mut(more - need);
        }
        let offset = usize::try_from(offset).ok()?;
        if offset >= kept {
            if offset - kept >= most {
                self.values.clear();
                self.first = index;
                self.values.push(f64::NAN);
                return self.values.first_mut();
            }
            let over = (offset + 1).saturating_sub(most);
            if over > 0 {
                self.values.drain(..over.min(kept));
                self.first += over as i64;
            }
            let wanted = offset + 1 - over;
            if wanted > self.values.capacity() {
                // Doubled, but never beyond what is kept: forty thousand series of sixty days are half a gigabyte as it
                // is.
                let room = (self.values.capacity() * 2).max(64).min(most).max(wanted);
                self.values.reserve_exact(room - self.values.len());
            }
            self.values.resize(wanted, f64::NAN);
            return self.values.last_mut();
        }
        self.values.get_mut(offset)
    }

    /// Takes what another one has, interval by interval.
    fn join(&mut self, shape: Shape, other: &Self) {
        for (index, value) in (other.first..).zip(&other.values).filter(|(_, value)| !value.is_nan()) {
            let at = (index * shape.step).min(other.last_at);
            self.merge(shape, index * shape.step, *value, 1, at);
        }
    }

    /// Intervals with a value, and all from the first of them to the last.
    pub fn filled(&self) -> (usize, usize) {
        let begin = self.values.iter().position(|value| !value.is_nan()).unwrap_or(self.values.len());
        (self.values.iter().filter(|value| !value.is_nan()).count(), self.values.len() - begin)
    }

    /// The grid; empty where no interval is over.
    pub fn finish(mut self, shape: Shape) -> Grid {
        let end = (self.first + self.values.len() as i64) * shape.step;
        let typical = (shape.step as f64 * self.fresh as f64 / self.points.max(1) as f64) as Micros;
        if self.last_at + typical + typical / 2 < end {
            self.values.pop();
            while self.values.last().is_some_and(|value| value.is_nan()) {
                self.values.pop();
            }
        }
        let begin = self.values.iter().position(|value| !value.is_nan()).unwrap_or(self.values.len());
        self.values.drain(..begin);
        Grid { from: (self.first + begin as i64) * shape.step, step: shape.step, values: self.values }
    }
}

/// A series on its grid.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    pub series: Series,
    /// Its values.
    pub grid: Grid,
    /// Its last point, also of an interval that is not over.
    pub last: Point,
}

/// Collects the histories of many series from any number of sources; each series is one, whoever reports it.
pub struct Gathering<'g> {
    ids: HashMap<Series, usize>,
    kept: Vec<SeriesState>,
    fine: Shape,
    days: Option<Shape>,
    since: Option<Micros>,
    until: Option<Micros>,
    /// From here on nothing can have happened yet.
    ahead: Micros,
    wanted: Box<dyn Fn(&Series) -> bool + 'g>,
}

struct SeriesState {
    series: Series,
    course: Course,
    /// What is dated ahead of the present.
    ahead: Option<Box<Course>>,
}

/// What is known of a series.
struct Course {
    fine: GridFold,
    days: GridFold,
    last: Point,
    points: u64,
}

impl Default for Course {
    fn default() -> Self {
        let last = Point { at: Micros::MIN, value: f64::NAN };
        Self { fine: GridFold::default(), days: GridFold::default(), last, points: 0 }
    }
}

/// The number of a series that nobody wants.
pub const UNWANTED: usize = usize::MAX;

impl std::fmt::Debug for Gathering<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gathering").field("series", &self.kept.len()).finish_non_exhaustive()
    }
}

impl<'g> Gathering<'g> {
    /// Collects on one grid, and on days as well where `days` is given; only the points from `since` to before `until`.
    pub fn new(
        fine: Shape,
        days: Option<Shape>,
        (since, until): Bounds,
        wanted: impl Fn(&Series) -> bool + 'g,
    ) -> Self {
        Self {
            ids: HashMap::new(),
            kept: Vec::new(),
            fine,
            days,
            since,
            until,
            ahead: Micros::MAX,
            wanted: Box::new(wanted),
        }
    }

    /// Points from here on are stray if there are few of them: a wrong clock would else be the end of every series.
    #[must_use]
    pub fn before(mut self, ahead: Micros) -> Self {
        self.ahead = ahead;
        self
    }

    /// The number by which a series is named here; [`UNWANTED`] where its points need not come. `None`: there are too
    /// many.
    pub fn series(&mut self, series: &Series) -> Option<usize> {
        if let Some(id) = self.ids.get(series) {
            return Some(*id);
        }
        if self.ids.len() >= SERIES {
            return None;
        }
        let id = if (self.wanted)(series) { self.kept.len() } else { UNWANTED };
        self.ids.insert(series.clone(), id);
        if id != UNWANTED {
            self.kept.push(SeriesState { series: series.clone(), course: Course::default(), ahead: None });
        }
        Some(id)
    }

    /// Takes a point of a series; what is no finite number is left out.
    pub fn point(&mut self, id: usize, point: Point) {
        let is_within = is_within((self.since, self.until), point.at);
        let Some(kept) = self.kept.get_mut(id).filter(|_| is_within && point.value.is_finite()) else { return };
        let course = kept.course(point.at >= self.ahead);
        course.fine.add(self.fine, point);
        if let Some(days) = self.days {
            course.days.add(days, point);
        }
        course.see(point, 1);
    }

    /// Takes a day of a series, on the grid of days alone.
    pub fn day(&mut self, id: usize, day: &Day) {
        let Some(kept) = self.kept.get_mut(id).filter(|_| day.max.is_finite()) else { return };
        let course = kept.course(day.last_at >= self.ahead);
        match self.days {
            Some(shape) => course.days.add_day(shape, day),
            None => course.fine.add_day(self.fine, day),
        }
        course.see(Point { at: day.last_at, value: day.last }, day.count);
    }

    /// Whether most intervals of the finer grid have a value.
    pub fn is_dense(&self) -> bool {
        let sum = |one: (usize, usize), other: (usize, usize)| (one.0 + other.0, one.1 + other.1);
        let (filled, all) = self.kept.iter().map(|kept| kept.course.fine.filled()).fold((0, 0), sum);
        filled * 2 >= all
    }

    /// How many series there are that are wanted.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// All of them by series, on days where that is asked for, else on the finer grid, and how many stray points were
    /// set aside. Series without a point are left out.
    pub fn finish(self, on_days: bool) -> (Vec<History>, u64) {
        let (fine, days) = (self.fine, self.days.filter(|_| on_days));
        drop(self.ids);
        let mut strays = 0;
        let known = self.kept.into_iter().map(|kept| {
            let mut course = kept.course;
            match kept.ahead {
                Some(ahead) if is_stray(ahead.points, course.points) => strays += ahead.points,
                Some(ahead) => course.join(*ahead, fine, self.days),
                None => {}
            }
            (kept.series, course)
        });
        let mut all: Vec<History> = known
            .filter(|(_, course)| course.last.at > Micros::MIN)
            .map(|(series, course)| {
                let grid = match days {
                    Some(shape) => course.days.finish(shape),
                    None => course.fine.finish(fine),
                };
                History { series, grid, last: course.last }
            })
            .collect();
        all.sort_by(|a, b| a.series.cmp(&b.series));
        (all, strays)
    }
}

impl SeriesState {
    fn course(&mut self, is_ahead: bool) -> &mut Course {
        if is_ahead { self.ahead.get_or_insert_default() } else { &mut self.course }
    }
}

impl Course {
    fn join(&mut self, other: Self, fine: Shape, days: Option<Shape>) {
        self.fine.join(fine, &other.fine);
        if let Some(days) = days {
            self.days.join(days, &other.days);
        }
        self.see(other.last, other.points);
    }

    fn see(&mut self, point: Point, points: u64) {
        self.points += points;
        if point.at > self.last.at || (point.at == self.last.at && point.value > self.last.value) {
            self.last = point;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{HOUR, SECOND};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const HOURS: Shape = Shape { step: HOUR, most: 48 };

    fn fold(points: &[(i64, f64)]) -> Grid {
        let mut fold = GridFold::default();
        points.iter().for_each(|(minute, value)| fold.add(HOURS, Point { at: minute * 60 * SECOND, value: *value }));
        fold.finish(HOURS)
    }

    proptest! {
        #[test]
        fn an_interval_has_its_highest_value_in_whatever_order(points in prop::collection::vec((0i64..20_000,
            -5i32..500), 1..300)) {
            let points: Vec<(i64, f64)> = points.into_iter().map(|(at, value)| (at, f64::from(value))).collect();
            let mut hours: BTreeMap<i64, f64> = BTreeMap::new();
            for (minute, value) in &points {
                let best = hours.entry(minute / 60).or_insert(*value);
                *best = best.max(*value);
            }
            let grid = fold(&points);
            let last = *hours.keys().next_back().unwrap();
            let found: BTreeMap<i64, f64> =
                grid.values.iter().enumerate().filter(|(_, value)| !value.is_nan()).map(|(at,
                    value)| (grid.at(at) / HOUR, *value)).collect();
            // The last interval may not be over; what is more than 48 before the last is not kept.
            let is_over = found.contains_key(&last);
            let expected: BTreeMap<i64, f64> =
                hours.into_iter().filter(|(hour, _)| *hour > last - 48 && (is_over || *hour < last)).collect();
            prop_assert_eq!(found, expected);
            prop_assert!(!grid.values.first().is_some_and(|value| value.is_nan()));
            prop_assert!(!grid.values.last().is_some_and(|value| value.is_nan()));
        }
    }

    #[test]
    fn the_last_interval_counts_if_it_is_over() {
        let minutes = |until: i64| (0..until).map(|minute| (minute, minute as f64)).collect::<Vec<_>>();
        assert_eq!(fold(&minutes(180)).values, [59.0, 119.0, 179.0]);
        assert_eq!(fold(&minutes(150)).values, [59.0, 119.0]);
        // One value an hour: the last one is all there will be.
        assert_eq!(fold(&[(0, 1.0), (60, 2.0), (180, 4.0)]).values[2..].len(), 2);
        assert_eq!(fold(&[(0, 1.0), (60, 2.0), (120, 3.0)]).values, [1.0, 2.0, 3.0]);
        // The same, each of them twice.
        assert_eq!(fold(&[(0, 1.0), (0, 1.0), (60, 2.0), (60, 2.0), (120, 3.0), (120, 3.0)]).values, [1.0, 2.0, 3.0]);
        // Every half an hour, and the second half is missing.
        assert_eq!(fold(&[(0, 1.0), (30, 2.0), (60, 3.0), (90, 4.0), (120, 5.0)]).values, [2.0, 4.0]);
        assert_eq!(fold(&[]).values.len(), 0);
    }

    #[test]
    fn only_the_last_ones_are_kept() {
        let grid = fold(&[(0, 1.0), (60 * 47, 2.0), (60 * 48, 3.0)]);
        assert_eq!((grid.from, grid.values.as_slice()), (47 * HOUR, [2.0, 3.0].as_slice()));
        let grid = fold(&[(60 * 1_000, 1.0), (60 * 900, 2.0), (60 * 990, 3.0)]);
        assert_eq!((grid.from, grid.values.len()), (990 * HOUR, 11));
        let grid = fold(&[(0, 1.0), (60 * 100_000, 2.0)]);
        assert_eq!((grid.from, grid.values.as_slice()), (100_000 * HOUR, [2.0].as_slice()));
    }

    #[test]
    fn series_of_several_sources_are_one() {
        let mut all = Gathering::new(HOURS, Some(Shape { step: DAY, most: 9 }), (Some(HOUR), None), |series| {
            series.name != "none"
        });
        let one = Series::new("one", &[("a", "b")]);
        let id = all.series(&one).unwrap();
        assert_eq!((all.series(&one), all.series(&Series::new("none", &[]))), (Some(id), Some(UNWANTED)));
        for (at, value) in [(0, 9.0), (HOUR, 1.0), (2 * HOUR, f64::NAN), (3 * HOUR, 2.0)] {
            all.point(id, Point { at, value });
        }
        all.point(UNWANTED, Point { at: HOUR, value: 1.0 });
        assert!(all.is_dense());
        let (found, strays) = all.finish(false);
        assert_eq!(strays, 0);
        assert_eq!((found.len(), found[0].grid.from, found[0].grid.values.len()), (1, HOUR, 3));
        assert_eq!(found[0].last, Point { at: 3 * HOUR, value: 2.0 });
    }

    #[test]
    fn a_point_of_the_future_ends_no_series() {
        let of = |points: &[(Micros, f64)]| {
            let mut all = Gathering::new(HOURS, None, (None, None), |_| true).before(200 * HOUR);
            let id = all.series(&Series::new("one", &[])).unwrap();
            points.iter().for_each(|(at, value)| all.point(id, Point { at: *at, value: *value }));
            let (found, strays) = all.finish(false);
            (found[0].grid.values.clone(), found[0].last.value, strays)
        };
        let hours = |from: i64, until: i64| (from..until).map(|hour| (hour * HOUR, hour as f64)).collect::<Vec<_>>();
        let real = of(&hours(100, 140));
        let mut odd = hours(100, 140);
        for place in [0, 20, 40] {
            odd.insert(place, (2_000_000 * HOUR, 9.0));
            assert_eq!(of(&odd), (real.0.clone(), real.1, 1), "{place}");
            odd.remove(place);
        }
        // What reaches into the future, as this clock has it, is no stray; nor is what is there alone.
        assert_eq!(of(&hours(190, 220)), (hours(190, 220).iter().map(|(_, value)| *value).collect(), 219.0, 0));
        assert_eq!(of(&hours(300, 340)).2, 0);
    }
}
