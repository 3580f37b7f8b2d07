//! Forecasts of a series: its trend, and when it reaches its limit.
//!
//! Of the days of a series `pieces` finds where its level or slope changed, and so the trend of today. A pool of
//! `filter`s with seasons (`profile`) is tried from several origins (`backtest`); the mean of the best predicts
//! (`models`), their errors say how surely (`spread`), and many futures with such errors say when a limit is reached
//! (`reach`). Nothing is drawn by chance: the same history gives the same forecast.

mod backtest;
mod bursts;
pub mod capacity;
pub mod drivers;
mod filter;
mod models;
mod peaks;
mod pieces;
mod profile;
mod reach;
pub mod report;
mod sawtooth;
mod spread;
pub mod targets;
pub mod words;

use crate::model::forecast::{Backtest, Change, Forecast, Grid, Reached, Step, Verdict};
use crate::model::series::DAY;
use crate::model::units::{counted, duration};
use backtest::{Plan, SeriesContext};
use pieces::Piece;
use reach::Beside;
use sawtooth::Teeth;
use spread::Spread;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How many steps to look ahead.
    pub steps: usize,
    /// Seasons in steps, ascending, where they are given; none: days and weeks, where the backtest finds them.
    pub seasons: Option<Vec<usize>>,
    /// Intervals that are exceptions, holidays and the like: from, until, in microseconds. They teach nothing.
    pub events: Vec<(i64, i64)>,
}

/// Values that a forecast needs at least.
const MIN_POINTS: usize = 14;

/// Numbers above can't be carried ahead: they would leave the range of numbers.
const LARGEST: f64 = 1e300;

/// How many times its own length a history is carried ahead at most.
const FURTHER: usize = 2;

/// Days that a trend needs at least: three make a piece, and the backtest has to see some of it.
const DAYS: usize = 6;

/// Days within which a limit that was reached is reported, even if it is not now.
const RECENT: i64 = 7;

/// Days after a jump of which a backtest learns nothing.
const WEEK: usize = 7;

/// What is so many times larger than anything that ever was is not forecast, but a model gone astray.
const NONSENSE: f64 = 100.0;

/// A change of level of this many times the noise of days is a jump.
const JUMP: f64 = 4.0;

/// What is forecast of a series.
pub fn forecast(grid: &Grid, limit: Option<f64>, options: &Options) -> Forecast {
    let is_known = |(at, value): &(usize, &f64)| value.is_finite() && !is_event(grid, *at, options);
    let known = grid.values.iter().enumerate().filter(is_known).count();
    let last = grid.values.iter().rposition(|value| value.is_finite());
    let Some(last) = last else {
        return Forecast { note: "no data".to_owned(), ..Forecast::default() };
    };
    let current = Some((grid.at(last), grid.values[last]));
    let at_limit = limit.is_some_and(|limit| grid.values[last] >= limit);
    let mut forecast = Forecast { current, ..Forecast::default() };
    if at_limit {
        let now = Some(grid.at(last));
        forecast.verdict = Verdict::AtLimit;
        forecast.reached = Reached { p10: now, p50: now, p90: now };
        forecast.probability = Some(1.0);
    }
    let too_few = || format!("{known} values are too few for a forecast; {MIN_POINTS} are required");
    if known < MIN_POINTS || grid.step <= 0 {
        forecast.note = too_few();
        return forecast;
    }
    let per_day = usize::try_from(DAY / grid.step).unwrap_or(1).max(1);
    let first = grid.values.iter().position(|value| value.is_finite()).unwrap_or(0);
    let taught = |(at, value): (usize, &f64)| if is_event(grid, first + at, options) { f64::NAN } else { *value };
    let mut values: Vec<f64> = grid.values[first..].iter().enumerate().map(taught).collect();
    let bursts = bursts::bursts(&values, stretch(per_day));
    bursts.places.iter().for_each(|at| values[*at] = f64::NAN);
    // Scaled, so that squares of the largest numbers are still numbers.
    let largest = values.iter().filter(|value| value.is_finite()).fold(0.0f64, |most, value| most.max(value.abs()));
    if largest > LARGEST {
        forecast.note = "its values are too large".to_owned();
        return forecast;
    }
    let unit = if largest > 0.0 { largest } else { 1.0 };
    values.iter_mut().for_each(|value| *value = if value.is_finite() { *value / unit } else { f64::NAN });
    // Nobody sees much further ahead than back.
    let steps = options.steps.min(values.len() * FURTHER);
    forecast.ahead = grid.step * steps as i64;
    let mut notes = Vec::new();
    if steps < options.steps {
        notes.push(format!("its history is too short to forecast further than {}", duration(forecast.ahead)));
    }
    let is_young = known_days(grid) < DAYS;
    if is_young {
        notes.push(format!("a trend requires at least {DAYS} days"));
    }
    let is_near = |at: &usize| grid.step * (last - at) as i64 <= RECENT * DAY;
    let was_above = limit.is_some_and(|limit| (0..last).rev().take_while(is_near).any(|at| grid.values[at] >= limit));
    if was_above && !at_limit {
        notes.push(format!("it was at its limit within the last {RECENT} days"));
    }
    let beside = Beside {
        bursts: bursts.heights.iter().map(|height| height / unit).filter(|height| height.is_finite()).collect(),
        known: values.len().div_ceil(stretch(per_day)),
        ..Beside::default()
    };
    let of = Scaled { values, per_day, steps, is_over: false };
    let Some(seen) = of.forecast(&options.seasons, limit.map(|limit| limit / unit), &beside) else {
        forecast.note = too_few();
        return forecast;
    };
    let end = grid.end();
    let at = |lead: usize| end + grid.step * lead as i64;
    forecast.path = seen
        .path
        .iter()
        .enumerate()
        .map(|(lead, (p10, p50, p90))| Step { at: at(lead), p10: p10 * unit, p50: p50 * unit, p90: p90 * unit })
        .collect();
    // Of less, what a day brings is taken for a trend, or the trend for what a day brings.
    forecast.growth_per_week = (!is_young).then(|| seen.growth * unit * (7 * DAY) as f64 / grid.step as f64);
    forecast.model = seen.model;
    forecast.seasons = seen.seasons;
    forecast.changes =
        seen.changes.iter().map(|(index, by)| Change { at: grid.at(first + index), by: by * unit }).collect();
    forecast.backtest = seen.backtest.map(|test| Backtest { error: test.error * unit, ..test });
    if let (Some(reach), false) = (seen.reach, at_limit) {
        let [p10, p50, p90] = reach.leads.map(|lead| lead.map(at));
        forecast.reached = Reached { p10, p50, p90 };
        forecast.probability = Some(reach.probability);
    }
    if seen.is_sawtooth {
        notes.push(
            "it rises slowly and drops repeatedly (a sawtooth): dates and growth are those of its peaks".to_owned(),
        );
    }
    if seen.is_led_by_peaks {
        notes.push("its peaks rise faster than its mean: dates and growth are those of its peaks".to_owned());
    }
    if !bursts.places.is_empty() {
        notes.push(format!("{} far from all others left out of the fit", counted(bursts.places.len() as u64, "value")));
    }
    forecast.note = notes.join("; ");
    forecast.verdict = match (limit, at_limit) {
        (None, _) => Verdict::NoLimit,
        (_, true) => Verdict::AtLimit,
        _ if forecast.reached.p50.is_some() => Verdict::Reaches,
        _ if forecast.reached.p10.is_some() => Verdict::MayReach,
        // A trend would not have been seen.
        _ if is_young => Verdict::TooShort,
        _ => Verdict::Clear,
    };
    if forecast.verdict == Verdict::TooShort {
        // It is not unlikely: nobody knows.
        forecast.probability = None;
    }
    forecast
}

/// The sum of those values that are known, and how many they are.
fn known(values: impl Iterator<Item = f64>) -> (f64, usize) {
    values.filter(|value| value.is_finite()).fold((0.0, 0), |(sum, count), value| (sum + value, count + 1))
}

/// Days of which something is known.
fn known_days(grid: &Grid) -> usize {
    let mut days: Vec<i64> = (0..grid.values.len())
        .filter(|at| grid.values[*at].is_finite())
        .map(|at| grid.at(at).div_euclid(DAY))
        .collect();
    days.dedup();
    days.len()
}

/// Whether an interval is part of an exception.
fn is_event(grid: &Grid, index: usize, options: &Options) -> bool {
    let at = grid.at(index);
    options.events.iter().any(|(from, until)| at < *until && at + grid.step > *from)
}

/// Over how many steps errors are taken together: a day, of days a week.
fn stretch(per_day: usize) -> usize {
    if per_day > 1 { per_day } else { 7 }
}

/// A series between -1 and 1.
struct Scaled {
    values: Vec<f64>,
    per_day: usize,
    steps: usize,
    /// Whether it is the line over the peaks of another.
    is_over: bool,
}

/// What is forecast of it.
struct Seen {
    path: Vec<(f64, f64, f64)>,
    growth: f64,
    model: &'static str,
    seasons: Vec<usize>,
    changes: Vec<(usize, f64)>,
    backtest: Option<Backtest>,
    reach: Option<reach::Reach>,
    is_sawtooth: bool,
    is_led_by_peaks: bool,
}

impl Seen {
    /// Growth and dates in shorter steps, of which one of its own has so many, and all of the horizon `steps`.
    fn in_steps(mut self, of: usize, steps: usize) -> Self {
        self.growth /= of as f64;
        if let Some(reach) = &mut self.reach {
            reach.leads = reach.leads.map(|lead| lead.map(|lead| (lead * of + of / 2).min(steps - 1)));
        }
        self
    }
}

impl Scaled {
    fn forecast(&self, seasons: &Option<Vec<usize>>, limit: Option<f64>, beside: &Beside) -> Option<Seen> {
        let n = self.values.len();
        let periods = self.periods(seasons);
        let plan = Plan::new(n, periods[0].max(periods[1]), self.steps)?;
        let pieces = pieces::cut(&self.days(), pieces::grain(&self.values));
        let slopes = [&pieces.last, &pieces.whole].map(|known| self.slopes(known));
        let known = SeriesContext::new(&self.values, &slopes, periods, plan.origins[0]);
        let kinds = models::Kinds {
            periods,
            is_positive: self.values.iter().all(|value| value.is_nan() || *value > 0.0),
            is_cut: !pieces.cuts.is_empty(),
        };
        let jumps: Vec<(usize, f64)> = pieces
            .cuts
            .iter()
            .filter(|(_, by)| by.abs() > JUMP * pieces.noise)
            .map(|(day, by)| (day * self.per_day, *by))
            .collect();
        let places: Vec<usize> = jumps.iter().map(|(at, _)| *at).collect();
        let actual = |young: usize| models::without_jumps(known.actual(&plan), &plan, &places, n, young);
        let best = models::best(&known, &plan, kinds, &actual(WEEK * self.per_day));
        let actual = actual(0);
        let whole = SeriesContext::new(&self.values, &slopes, periods, n);
        let rows: Vec<Vec<f64>> = best.models.iter().map(|model| whole.predicted(model, &[n], self.steps)).collect();
        let sensible: Vec<&[f64]> =
            rows.iter().map(Vec::as_slice).filter(|row| row.iter().all(|value| value.abs() < NONSENSE)).collect();
        if sensible.is_empty() {
            return None;
        }
        let mut path = models::mean(sensible.into_iter(), self.steps);
        let never_below = self.values.iter().all(|value| value.is_nan() || *value >= 0.0);
        if never_below {
            path.iter_mut().for_each(|value| *value = value.max(0.0));
        }
        let errors: Vec<f64> =
            actual.iter().zip(&best.predicted).map(|(actual, predicted)| actual - predicted).collect();
        let drift = best.models.iter().map(|model| model.drift).sum::<f64>() / best.models.len() as f64;
        let is_long = best.models.first().is_some_and(|model| model.is_long);
        let slope_error = if is_long { &pieces.whole } else { &pieces.last }
            .last()
            .filter(|piece| piece.slope_error.is_finite())
            .map_or(0.0, |piece| piece.slope_error * drift / self.per_day as f64);
        let spread = Spread::new(&errors, plan.steps, stretch(self.per_day), n - plan.origins[0], slope_error);
        let teeth = sawtooth::teeth(&self.values);
        let is_sawtooth = teeth.is_some();
        // Of a sawtooth the line over its peaks says when a limit is reached, and how fast it grows.
        let over_teeth = teeth.and_then(|Teeth { line, below, alike }| {
            let beside = Beside { below, starts: alike, ..beside.clone() };
            self.over(line, 1).forecast(seasons, limit, &beside)
        });
        let leading = best.models.first()?;
        let longest = periods[..leading.seasons].iter().copied().max().unwrap_or(1).min(self.steps / 2).max(1);
        let growth = if self.steps > longest {
            let sum = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
            (sum(&path[self.steps - longest..]) - sum(&path[..longest])) / (self.steps - longest) as f64
        } else {
            0.0
        };
        let peaks = (!self.is_over && over_teeth.is_none()).then(|| peaks::leading(&self.values, self.per_day, growth));
        let over_peaks = peaks.flatten().and_then(|peaks| {
            let beside = Beside { known: self.values.len() / (WEEK * self.per_day), ..beside.clone() };
            let found = self.over(peaks, self.per_day).forecast(&Some(Vec::new()), limit, &beside)?;
            Some(found.in_steps(self.per_day, self.steps))
        });
        let is_led_by_peaks = over_peaks.is_some();
        let over = over_teeth.or(over_peaks);
        let reach = limit.and_then(|limit| match &over {
            Some(over) => over.reach,
            None => {
                let ceiling = reach::ceiling(&self.values, &path, stretch(self.per_day), WEEK * self.per_day);
                Some(reach::reach(&path, &spread, &ceiling, limit, beside))
            }
        });
        let steps = path
            .iter()
            .enumerate()
            .map(|(lead, value)| {
                let (below, above) = spread.interval(lead);
                let low = value + below;
                (if never_below { low.max(0.0) } else { low }, *value, value + above)
            })
            .collect();
        Some(Seen {
            growth: over.map_or(growth, |over| over.growth),
            path: steps,
            model: name(leading),
            seasons: periods[..leading.seasons].iter().copied().filter(|period| *period > 1).collect(),
            // Of a sawtooth they would be its teeth.
            changes: if is_sawtooth { Vec::new() } else { jumps },
            backtest: self.tested(&errors, &plan, periods[0]),
            reach,
            is_sawtooth,
            is_led_by_peaks,
        })
    }

    /// A line over its peaks, in steps of so many of its own.
    fn over(&self, values: Vec<f64>, of: usize) -> Self {
        Self { values, per_day: self.per_day / of, steps: self.steps.div_ceil(of), is_over: true }
    }

    /// Seasons that there is enough history for: each at least twice before the first origin.
    fn periods(&self, given: &Option<Vec<usize>>) -> [usize; 2] {
        let n = self.values.len();
        let usual = if self.per_day > 1 { vec![self.per_day, 7 * self.per_day] } else { vec![7] };
        let mut periods = [1, 1];
        let ahead = self.steps.min(n / 4);
        let wanted = given.as_ref().unwrap_or(&usual);
        for (slot, period) in periods.iter_mut().zip(wanted.iter().filter(|period| **period > 1)) {
            if n >= 2 * period + ahead.min(*period) {
                *slot = *period;
            }
        }
        periods
    }

    /// Means of days.
    fn days(&self) -> Vec<f64> {
        let sums: Vec<(f64, usize)> = self.values.chunks(self.per_day).map(|day| known(day.iter().copied())).collect();
        // As many as days usually have: points may be further apart than steps.
        let mut counts: Vec<usize> = sums.iter().map(|(_, count)| *count).filter(|count| *count > 0).collect();
        counts.sort_unstable();
        let usual = counts.get(counts.len() / 2).copied().unwrap_or(1);
        let mean = |(sum, count): (f64, usize)| if count * 2 >= usual { sum / count as f64 } else { f64::NAN };
        let days: Vec<f64> = sums.into_iter().map(mean).collect();
        // Without what each day of the week is different by, else every weekend would be a change: added or as a share,
        // whichever fits better.
        let [added, shared] = [false, true].map(|is_share| {
            let week = profile::profile(&days, [7, 1], is_share);
            profile::without(&days, &week.phases[0], is_share)
        });
        let is_share =
            days.iter().all(|day| day.is_nan() || *day > 0.0) && pieces::noise(&shared) < pieces::noise(&added);
        if is_share { shared } else { added }
    }

    /// The trend per step that was known before each step, and behind the last.
    fn slopes(&self, known: &[Piece]) -> Vec<f64> {
        let known = |step: usize| {
            let piece = (step / self.per_day).checked_sub(1).and_then(|day| known.get(day));
            piece.filter(|piece| piece.is_sloped()).map_or(0.0, |piece| piece.slope / self.per_day as f64)
        };
        (0..=self.values.len()).map(known).collect()
    }

    /// How good the backtest was.
    fn tested(&self, errors: &[f64], plan: &Plan, period: usize) -> Option<Backtest> {
        let mean = |(sum, count): (f64, usize)| sum / count as f64;
        let season_later = &self.values[period.min(self.values.len())..];
        let naive = mean(known(self.values.iter().zip(season_later).map(|(before, value)| (value - before).abs())));
        let error = mean(known(errors.iter().map(|error| error.abs())));
        if !error.is_finite() || naive.is_nan() || naive <= 0.0 {
            return None;
        }
        // The intervals of the earlier half of the origins are made of the later, and the other way round.
        let half = plan.origins.len() / 2;
        if half == 0 {
            return None;
        }
        let (earlier, later) = errors.split_at(half * plan.steps);
        let (mut inside, mut all) = (0usize, 0usize);
        for (tried, others) in [(earlier, later), (later, earlier)] {
            let spread =
                Spread::new(others, plan.steps, stretch(self.per_day), (self.values.len() - plan.origins[0]) / 2, 0.0);
            for row in tried.chunks(plan.steps) {
                for (lead, error) in row.iter().enumerate().filter(|(_, error)| error.is_finite()) {
                    let (below, above) = spread.interval(lead);
                    inside += usize::from(*error >= below && *error <= above);
                    all += 1;
                }
            }
        }
        let coverage = if all > 0 { inside as f64 / all as f64 } else { return None };
        Some(Backtest { mase: error / naive, coverage, error, origins: plan.origins.len(), steps: plan.steps })
    }
}

/// What a model is called.
fn name(model: &filter::Gains) -> &'static str {
    match (model.seasons, model.is_share, model.drift > 0.0) {
        (0, _, false) => "level",
        (0, _, true) => "trend",
        (_, false, false) => "season",
        (_, false, true) => "trend+season",
        (_, true, false) => "season (multiplied)",
        (_, true, true) => "trend+season (multiplied)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::HOUR;
    use proptest::prelude::*;

    fn grid(step: i64, values: Vec<f64>) -> Grid {
        Grid { from: 20_000 * DAY, step, values }
    }

    fn options(steps: usize) -> Options {
        Options { steps, seasons: None, events: Vec::new() }
    }

    /// Noise between -1 and 1, always the same (the mixing of SplitMix64).
    fn noise(at: usize) -> f64 {
        let mut mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    #[test]
    fn a_line_reaches_its_limit_when_it_does() {
        // 10 a day from 1,000 on; after 60 days at 1,600; the limit of 1,800 is reached 20 days later.
        let values = (0..1440).map(|at| 1_000.0 + at as f64 * 10.0 / 24.0 + 5.0 * noise(at)).collect();
        let found = forecast(&grid(HOUR, values), Some(1_800.0), &options(720));
        assert_eq!(found.verdict, Verdict::Reaches);
        assert!((found.growth_per_week.unwrap() - 70.0).abs() < 0.5, "{:?}", found.growth_per_week);
        let day = |at: Option<i64>| (at.unwrap() - 20_060 * DAY) as f64 / DAY as f64;
        // Noise reaches it up to half a day early.
        assert!((19.0..20.3).contains(&day(found.reached.p50)), "{}", day(found.reached.p50));
        assert!(found.reached.p10 <= found.reached.p50 && found.reached.p50 <= found.reached.p90);
        assert_eq!(found.path.len(), 720);
    }

    #[test]
    fn a_week_is_found_and_wobbles_reach_nothing() {
        let hour = |at: usize| {
            let (day, hour) = (at / 24, at % 24);
            let busy = if day % 7 < 5 && (8..18).contains(&hour) { 50.0 } else { 0.0 };
            100.0 + busy + 3.0 * noise(at)
        };
        let found = forecast(&grid(HOUR, (0..1440).map(hour).collect()), Some(200.0), &options(336));
        assert_eq!(found.seasons, [24, 168]);
        assert_eq!((found.verdict, found.probability), (Verdict::Clear, Some(0.0)));
        let worst = (0..336)
            .map(|lead| (found.path[lead].p50 - (hour(1440 + lead) - 3.0 * noise(1440 + lead))).abs())
            .fold(0.0, f64::max);
        assert!(worst < 5.0, "{worst}");
        let test = found.backtest.unwrap();
        assert!(test.mase < 0.8 && (0.6..1.0).contains(&test.coverage), "{test:?}");
    }

    #[test]
    fn a_jump_is_no_growth() {
        let values: Vec<f64> = (0..960).map(|at| if at < 480 { 100.0 } else { 200.0 } + 4.0 * noise(at)).collect();
        let found = forecast(&grid(HOUR, values), Some(260.0), &options(480));
        // Another such jump is possible, no more.
        assert!(found.probability.unwrap() < 0.2 && found.reached.p50.is_none(), "{:?}", found.probability);
        assert!(found.growth_per_week.unwrap().abs() < 1.0, "{:?}", found.growth_per_week);
        assert_eq!(found.changes.len(), 1);
        assert_eq!(found.changes[0].at, 20_020 * DAY);
        assert!((found.changes[0].by - 100.0).abs() < 4.0);
    }

    #[test]
    fn holidays_teach_nothing() {
        let plain: Vec<f64> = (0..400).map(|at| 50.0 + f64::from(u8::from(at % 7 > 4)) * -20.0 + noise(at)).collect();
        let mut with = plain.clone();
        with[380..394].fill(2.0);
        let events = vec![(20_380 * DAY, 20_394 * DAY)];
        let left_out = forecast(&grid(DAY, with.clone()), None, &Options { events, ..options(28) });
        let taken = forecast(&grid(DAY, with), None, &options(28));
        let truth = forecast(&grid(DAY, plain), None, &options(28));
        let far =
            |found: &Forecast| found.path.iter().zip(&truth.path).map(|(a, b)| (a.p50 - b.p50).abs()).sum::<f64>();
        assert!(far(&left_out) < 28.0 && far(&left_out) * 3.0 < far(&taken), "{} {}", far(&left_out), far(&taken));
    }

    #[test]
    fn strange_series_get_sensible_words() {
        for (values, verdict) in [
            (vec![], Verdict::TooShort),
            (vec![3.0], Verdict::TooShort),
            (vec![f64::NAN; 500], Verdict::TooShort),
            (vec![5.0; 13], Verdict::TooShort),
            (vec![5.0; 400], Verdict::Clear),
            (vec![0.0; 400], Verdict::Clear),
            (vec![-7.0; 400], Verdict::Clear),
            (vec![10.0; 400], Verdict::AtLimit),
        ] {
            let found = forecast(&grid(HOUR, values.clone()), Some(10.0), &options(200));
            assert_eq!(found.verdict, verdict, "{} x {:?}", values.len(), values.first());
            assert_eq!(found.note.is_empty(), verdict != Verdict::TooShort, "{}", found.note);
            assert!(found.path.iter().all(|step| step.p10 <= step.p50 && step.p50 <= step.p90), "{values:?}");
            if verdict == Verdict::Clear {
                assert_eq!((found.reached, found.probability), (Reached::default(), Some(0.0)));
                assert!(found.path.iter().all(|step| step.p50 == values[0]), "{:?}", found.path[0]);
            }
        }
        let short = forecast(&grid(HOUR, (0..48).map(|at| f64::from(at % 5)).collect()), Some(1e9), &options(10_000));
        assert_eq!(short.path.len(), 96);
        assert!(short.note.contains("too short"), "{}", short.note);
        assert_eq!(forecast(&grid(0, vec![1.0; 90]), None, &options(9)).verdict, Verdict::TooShort);
        assert_eq!(forecast(&grid(HOUR, vec![1.0; 90]), None, &options(0)).path, []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn nothing_panics_and_nothing_is_nonsense(
            values in prop::collection::vec(prop_oneof![6 => -1e3f64..1e3, 2 => Just(f64::NAN), 1 => Just(0.0),
                1 => -1.7e308f64..1.7e308, 1 => Just(f64::INFINITY)], 0..300),
            limit in prop::option::of(-1e4f64..1e4),
            step in prop::sample::select(vec![HOUR, DAY, HOUR / 4, 3 * DAY]),
            steps in 0usize..200,
        ) {
            let known = values.iter().rposition(|value| value.is_finite());
            let grid = grid(step, values);
            let found = forecast(&grid, limit, &options(steps));
            prop_assert_eq!(&found, &forecast(&grid, limit, &options(steps)));
            prop_assert_eq!(found.current.map(|(at, _)| at), known.map(|at| grid.at(at)));
            for step in &found.path {
                prop_assert!(step.p10 <= step.p50 && step.p50 <= step.p90 && step.p50.is_finite(), "{:?}", step);
            }
            let horizon = grid.end() + step * steps as i64;
            let at_limit = found.verdict == Verdict::AtLimit;
            for at in [found.reached.p10, found.reached.p50, found.reached.p90].into_iter().flatten() {
                prop_assert!(at_limit || (at >= grid.end() && at < horizon), "{} {}", at, horizon);
            }
            if let Some(probability) = found.probability {
                prop_assert!((0.0..=1.0).contains(&probability));
                prop_assert_eq!(found.reached.p50.is_some(), probability >= 0.5);
            }
        }

        #[test]
        fn another_unit_gives_the_same(seed in 0usize..1_000, up in 1i32..60) {
            let values: Vec<f64> = (0..200).map(|at| 500.0 + 3.0 * at as f64 + 40.0 * noise(at + seed * 331)).collect();
            let factor = 2f64.powi(up);
            let one = forecast(&grid(DAY, values.clone()), Some(1_400.0), &options(60));
            let other = forecast(&grid(DAY, values.iter().map(|value| value * factor).collect()),
                Some(1_400.0 * factor), &options(60));
            prop_assert_eq!(one.reached, other.reached);
            prop_assert_eq!(one.probability, other.probability);
            for (a, b) in one.path.iter().zip(&other.path) {
                prop_assert_eq!(a.p50 * factor, b.p50);
            }
        }
    }
}
