//! Exponential smoothing with up to two seasons: a filter of fixed gains that runs once over a series.
//!
//! With one season and no rest this is additive (or multiplicative) Holt–Winters, with two it is Taylor's double
//! seasonal form (2003), whose autoregressive rest it shares. The trend is not smoothed: it is that of the last
//! straight piece.

use super::profile::Profile;

/// How a filter follows what it sees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gains {
    pub level: f64,
    pub season: [f64; 2],
    /// How much of what the level does not follow is still there a step later.
    pub rest: f64,
    /// Whether the trend is that of all that is known, and not of the last straight piece: where it grows in steps.
    pub is_long: bool,
    /// How much of the trend is followed: 0 none, 1 all.
    pub drift: f64,
    /// How much of the trend is left a step later, in what is predicted.
    pub fading: f64,
    /// How many of the seasons are used.
    pub seasons: usize,
    /// Whether seasons are shares of the level, rather than added to it.
    pub is_share: bool,
}

/// What a filter knows after some steps.
#[derive(Debug, Clone)]
pub struct State {
    level: f64,
    rest: f64,
    /// A level below is taken for this one, where shares of it are reckoned: they would be without bounds.
    least: f64,
    /// Where in each season the next value falls.
    at: [usize; 2],
    phases: [Vec<f64>; 2],
}

impl State {
    /// Before the first step.
    pub fn new(profile: &Profile, gains: &Gains) -> Self {
        let mut phases = profile.phases.clone();
        phases[gains.seasons.min(2)..].fill(vec![0.0]);
        Self { level: profile.level, rest: 0.0, least: (profile.level.abs() / 5.0).max(1e-9), at: [0, 0], phases }
    }

    /// Takes the next value, NaN for a gap, given the trend per step.
    pub fn step(&mut self, value: f64, slope: f64, gains: &Gains) {
        let level = self.level + slope;
        let [first, second] = self.at;
        let [days, weeks] = &mut self.phases;
        let season = days[first] + weeks[second];
        let carried = gains.rest * self.rest;
        self.at = [next(first, days.len()), next(second, weeks.len())];
        if !value.is_finite() {
            (self.level, self.rest) = (level, carried);
            return;
        }
        let (fit, of_level, of_season) = if gains.is_share {
            let factor = (1.0 + season).max(0.2);
            (level * factor, 1.0 / factor, 1.0 / level.abs().max(self.least))
        } else {
            (level + season, 1.0, 1.0)
        };
        let error = value - fit - carried;
        self.level = level + gains.level * error * of_level;
        self.rest = carried + (1.0 - gains.level) * error;
        days[first] += gains.season[0] * error * of_season;
        weeks[second] += gains.season[1] * error * of_season;
    }

    /// The next values, given the trend per step.
    pub fn ahead(&self, slope: f64, gains: &Gains, out: &mut [f64]) {
        let (mut level, mut rest, mut slope) = (self.level, self.rest, slope);
        let [mut first, mut second] = self.at;
        let [days, weeks] = &self.phases;
        for value in out {
            level += slope;
            slope *= gains.fading;
            rest *= gains.rest;
            let season = days[first] + weeks[second];
            *value = rest + if gains.is_share { level * (1.0 + season).max(0.0) } else { level + season };
            (first, second) = (next(first, days.len()), next(second, weeks.len()));
        }
    }
}

/// The phase behind this one.
fn next(phase: usize, phases: usize) -> usize {
    if phase + 1 == phases { 0 } else { phase + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gains(level: f64, season: [f64; 2], seasons: usize) -> Gains {
        Gains { level, season, rest: 0.0, is_long: false, drift: 0.0, fading: 1.0, seasons, is_share: false }
    }

    #[test]
    fn simple_smoothing_is_a_weighted_mean() {
        // l = 0.3 y3 + 0.7 * 0.3 y2 + 0.49 * 0.3 y1 + 0.343 l0
        let profile = Profile { phases: [vec![0.0], vec![0.0]], level: 10.0 };
        let gains = gains(0.3, [0.0, 0.0], 0);
        let mut state = State::new(&profile, &gains);
        [12.0, 9.0, 20.0].iter().for_each(|value| state.step(*value, 0.0, &gains));
        let mut out = [0.0; 2];
        state.ahead(0.0, &gains, &mut out);
        let expected = 0.3 * 20.0 + 0.21 * 9.0 + 0.147 * 12.0 + 0.343 * 10.0;
        assert!((out[0] - expected).abs() < 1e-12 && out[0] == out[1], "{out:?} {expected}");
    }

    #[test]
    fn the_last_season_is_repeated_where_only_it_is_followed() {
        let profile = Profile { phases: [vec![0.0; 4], vec![0.0]], level: 0.0 };
        let gains = gains(0.0, [1.0, 0.0], 1);
        let mut state = State::new(&profile, &gains);
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].iter().for_each(|value| state.step(*value, 0.0, &gains));
        let mut out = [0.0; 6];
        state.ahead(0.0, &gains, &mut out);
        assert_eq!(out, [3.0, 4.0, 5.0, 6.0, 3.0, 4.0]);
    }

    #[test]
    fn a_gap_changes_nothing_but_the_time() {
        let profile = Profile { phases: [vec![1.0, -1.0], vec![0.0]], level: 5.0 };
        let gains = gains(0.5, [0.5, 0.0], 1);
        let mut state = State::new(&profile, &gains);
        [f64::NAN; 3].iter().for_each(|value| state.step(*value, 2.0, &gains));
        let mut out = [0.0; 2];
        state.ahead(2.0, &gains, &mut out);
        assert_eq!(out, [5.0 + 8.0 - 1.0, 5.0 + 10.0 + 1.0]);
    }

    #[test]
    fn a_trend_fades() {
        let profile = Profile { phases: [vec![0.0], vec![0.0]], level: 0.0 };
        let gains = Gains { fading: 0.5, ..gains(0.1, [0.0, 0.0], 0) };
        let mut out = [0.0; 3];
        State::new(&profile, &gains).ahead(8.0, &gains, &mut out);
        assert_eq!(out, [8.0, 12.0, 14.0]);
    }
}
