//! The time that is looked at: a window that ends at a moment, which stands still, plays, or follows the present.

use crate::model::time::{HOUR, MINUTE, Micros, SECOND, Span};

/// Lengths of a window, shortest first; behind them all of the time.
const LENGTHS: [Micros; 7] = [10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR];
/// How fast time may be played.
const SPEEDS: [i64; 8] = [1, 2, 5, 10, 30, 60, 300, 3_600];
/// Steps that the time of a bundle is cut into.
const STEPS: i64 = 60;

/// The time that is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clock {
    /// What the sources cover, in whole seconds.
    pub span: Option<Span>,
    /// The moment that is looked at.
    pub at: Micros,
    /// How long the window is that ends there; `None` for all of the time.
    length: Option<Micros>,
    /// Whether the moment moves.
    pub is_playing: bool,
    /// Whether it moves with the present.
    pub is_live: bool,
    /// Whether the sources hold more than they say they are about.
    pub is_bounded: bool,
    /// Windows end at whole multiples of this, where logs are held as tiles of this length.
    pub tile: Micros,
    speed: usize,
    /// What time it was when it was last reported.
    reported: Option<Micros>,
}

impl Clock {
    /// One that follows the present, with a window of a minute; or one that looks at all there is.
    pub fn new(is_live: bool) -> Self {
        let length = is_live.then_some(MINUTE);
        Self { is_live, is_playing: is_live, length, speed: 3, tile: SECOND, ..Self::default() }
    }

    /// The sources cover this. The moment stays, unless there was none or it follows the present.
    pub fn covers(&mut self, (from, to): Span) {
        let whole = (from.div_euclid(SECOND) * SECOND, to.div_euclid(SECOND) * SECOND + SECOND);
        let is_first = self.span.is_none();
        // What is still being written grows; of what is read again the first part may be gone.
        self.span = Some(whole);
        if is_first || self.is_live && self.is_playing {
            self.at = whole.1;
        }
        self.at = self.at.clamp(whole.0, whole.1);
    }

    /// Whether all of the time is looked at.
    pub fn is_all(&self) -> bool {
        self.length.is_none() && self.span.is_none_or(|span| self.at >= span.1)
    }

    /// From when to when one looks; `None` where the sources have no time.
    pub fn window(&self) -> Option<Span> {
        let (from, end) = self.span?;
        let down = |at: Micros| at.div_euclid(self.tile) * self.tile;
        let to = down(self.at + self.tile - 1);
        let Some(length) = self.length else {
            let to = if self.at < end { to.min(end) } else { self.at };
            return Some((from.min(to - SECOND), to));
        };
        // What a bundle says it is about begins when it says.
        let start = down(to - length).max(if self.is_bounded { from } else { down(from) });
        Some((start.min(to - self.tile), to))
    }

    /// The moment that captures are looked for, unless it is the end of all of the time: there the newest are shown.
    pub fn moment(&self) -> Option<Micros> {
        self.span.filter(|(_, end)| self.at < *end).map(|_| self.at)
    }

    /// The time that commands are asked for: `None` where it is all there is.
    pub fn asked(&self) -> Option<Span> {
        self.window()
            .filter(|_| self.is_bounded || !self.is_all())
            .map(|(from, to)| (from.div_euclid(SECOND) * SECOND, to.div_euclid(SECOND) * SECOND))
    }

    /// How long the window is; `None` for all of the time.
    pub fn length(&self) -> Option<Micros> {
        self.length
    }

    /// How fast it plays.
    pub fn speed(&self) -> i64 {
        SPEEDS[self.speed]
    }

    /// It is `now`: what plays moves on. Returns whether the moment has moved.
    pub fn tick(&mut self, now: Micros) -> bool {
        let since = self.reported.replace(now).map_or(0, |reported| (now - reported).clamp(0, 5 * SECOND));
        let Some((_, end)) = self.span.filter(|_| self.is_playing && !self.is_live) else { return false };
        let before = self.at;
        self.at = (self.at + since * self.speed()).min(end);
        self.is_playing = self.at < end;
        self.at != before
    }

    /// Plays, or stands still. At the end it plays from the beginning.
    pub fn toggle(&mut self) {
        self.is_playing = !self.is_playing;
        if let Some((from, end)) = self.span.filter(|_| self.is_playing) {
            match self.is_live {
                true => self.at = end,
                false if self.at >= end => self.at = from + SECOND,
                false => {}
            }
        }
        if self.is_playing && !self.is_live && self.length.is_none() {
            self.length = self.fitting();
        }
    }

    /// The longest window of which eight fit into all of the time.
    fn fitting(&self) -> Option<Micros> {
        let fits = |(from, end): Span| {
            LENGTHS.iter().rfind(|length| **length <= (end - from) / 8).copied().unwrap_or(LENGTHS[0])
        };
        self.span.map(fits)
    }

    /// Goes to what happened at a moment, so that it stands in the middle of the window, and stands still there.
    pub fn go_around(&mut self, at: Micros) {
        self.length = self.length.or_else(|| self.fitting());
        let half = self.length.unwrap_or(0) / 2;
        self.go((at + half).div_euclid(SECOND) * SECOND + SECOND);
    }

    /// Goes to a moment, and stands still there.
    pub fn go(&mut self, at: Micros) {
        if let Some((from, to)) = self.span {
            self.at = at.clamp(from + SECOND.min(to - from), to);
            self.is_playing = false;
        }
    }

    /// How far a step is.
    pub fn step(&self) -> Micros {
        let whole = self.span.map_or(0, |(from, to)| to - from);
        let step =
            self.length().map_or(whole, |length| length.min(whole)) / if self.length.is_some() { 2 } else { STEPS };
        (step.div_euclid(self.tile) * self.tile).max(self.tile)
    }

    /// So many steps on, or back.
    pub fn by_steps(&mut self, steps: i64) {
        self.go(self.at + steps * self.step());
    }

    /// A longer or shorter window.
    pub fn resize(&mut self, longer: bool) {
        let whole = self.span.map_or(0, |(from, to)| to - from);
        let shorter = |than: Micros| LENGTHS.iter().rfind(|length| **length < than).copied();
        self.length = match (self.length, longer) {
            (None, true) => None,
            (None, false) => shorter(whole),
            (Some(now), true) => LENGTHS.iter().find(|length| **length > now && **length < whole).copied(),
            (Some(now), false) => Some(shorter(now).unwrap_or(now)),
        };
    }

    /// Looks at all of the time.
    pub fn all(&mut self) {
        self.length = None;
        if let Some((_, to)) = self.span {
            self.at = to;
        }
        self.is_playing = self.is_live;
    }

    /// Looks at so much time before the moment.
    pub fn set_length(&mut self, length: Micros) {
        self.length = Some(length.div_euclid(SECOND).max(1) * SECOND);
    }

    /// Plays faster or slower.
    pub fn hurry(&mut self, faster: bool) {
        self.speed = if faster { (self.speed + 1).min(SPEEDS.len() - 1) } else { self.speed.saturating_sub(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_cut_at_the_edges_of_tiles() {
        let mut clock = clock(false);
        clock.tile = 10 * SECOND;
        assert_eq!(clock.asked(), None, "all of it is all of it");
        let mut back = clock.clone();
        for _ in 0..3 {
            back.by_steps(-1);
            let (from, to) = back.asked().unwrap();
            assert_eq!((Some(from), to % (10 * SECOND)), (back.span.map(|span| span.0), 0), "all until a moment");
        }
        clock.set_length(MINUTE);
        assert_eq!(clock.asked(), Some((1_550 * SECOND, 1_610 * SECOND)), "the last second is in it");
        for _ in 0..100 {
            clock.by_steps(-1);
            let (from, to) = clock.asked().unwrap();
            assert_eq!((from % (10 * SECOND), to % (10 * SECOND)), (0, 0));
            assert!((from..=to).contains(&clock.at) && to - from <= MINUTE && to > from);
        }
        assert_eq!(clock.asked(), Some((1_000 * SECOND, 1_010 * SECOND)));
        clock.set_length(15 * SECOND);
        clock.go(1_234 * SECOND);
        assert_eq!((clock.asked(), clock.step()), (Some((1_220 * SECOND, 1_240 * SECOND)), 10 * SECOND));
    }

    #[test]
    fn a_moment_is_one_before_the_end() {
        let mut clock = clock(false);
        assert_eq!(clock.moment(), None);
        clock.go(1_234 * SECOND);
        assert_eq!(clock.moment(), Some(1_234 * SECOND));
        let mut live = super::tests::clock(true);
        assert_eq!(live.moment(), None);
        live.by_steps(-1);
        assert_eq!(live.moment(), Some(1_571 * SECOND));
        live.toggle();
        assert_eq!(live.moment(), None);
    }

    fn clock(is_live: bool) -> Clock {
        let mut clock = Clock::new(is_live);
        clock.covers((1_000 * SECOND + 5, 1_600 * SECOND));
        clock
    }

    #[test]
    fn a_bundle_is_looked_at_as_a_whole_first_and_then_by_windows() {
        let mut clock = clock(false);
        assert_eq!((clock.asked(), clock.window()), (None, Some((1_000 * SECOND, 1_601 * SECOND))));
        clock.resize(false);
        assert_eq!(
            clock.asked(),
            Some((1_301 * SECOND, 1_601 * SECOND)),
            "the longest that is shorter than all: 5 minutes"
        );
        clock.by_steps(-1);
        assert_eq!(clock.asked(), Some((1_151 * SECOND, 1_451 * SECOND)), "by half a window");
        clock.by_steps(-10);
        assert_eq!(clock.asked(), Some((1_000 * SECOND, 1_001 * SECOND)), "not before the beginning, and never empty");
        clock.set_length(120 * SECOND);
        clock.resize(true);
        assert_eq!(clock.length(), Some(300 * SECOND), "the next that is longer");
        clock.all();
        assert_eq!(clock.asked(), None);
    }

    #[test]
    fn playing_moves_the_moment_and_stops_at_the_end() {
        let mut clock = clock(false);
        clock.toggle();
        assert_eq!((clock.at, clock.length(), clock.speed()), (1_001 * SECOND, Some(MINUTE), 10));
        assert!(!clock.tick(0), "how long ago the last tick was is not known yet");
        assert!(clock.tick(SECOND) && clock.at == 1_011 * SECOND);
        clock.hurry(true);
        (2..200).for_each(|second| _ = clock.tick(second * SECOND));
        assert_eq!((clock.at, clock.is_playing), (1_601 * SECOND, false));
        assert!(!clock.tick(300 * SECOND));
    }

    #[test]
    fn the_present_is_followed_until_one_looks_back() {
        let mut clock = clock(true);
        clock.covers((1_000 * SECOND, 1_700 * SECOND));
        assert_eq!(clock.asked(), Some((1_641 * SECOND, 1_701 * SECOND)));
        clock.by_steps(-2);
        clock.covers((1_000 * SECOND, 1_800 * SECOND));
        assert_eq!(clock.at, 1_641 * SECOND, "one looks back: it stands still");
        clock.toggle();
        assert_eq!(clock.at, 1_801 * SECOND);
    }
}
