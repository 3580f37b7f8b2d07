//! How often a live source is asked: no more than it can bear.

use crate::sources::live::LiveError;
use std::time::Duration;

/// A source that fails, or asks to be left alone, is asked again after at most this, or what it asks for.
const LONGEST: Duration = Duration::from_secs(60);
/// The pause is at least so many times as long as the answer took: asking is a tenth of the source's time at most.
const TIMES: u32 = 10;
/// How often the pause is doubled at most.
const DOUBLINGS: u32 = 10;

/// The pause between two questions to one source.
#[derive(Debug, Clone)]
pub(super) struct Interval {
    every: Duration,
    /// How often the pause is doubled now.
    doubled: u32,
}

impl Interval {
    /// As often as the user says, where the source can bear it.
    pub(super) fn new(every: Duration) -> Self {
        Self { every, doubled: 0 }
    }

    /// The pause that the user wants.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// It answered within this time; `is_busy`: only when asked again, after a 429 or 503. The pause doubles while it is
    /// busy, and halves again when it is not.
    pub(super) fn answered(&mut self, took: Duration, is_busy: bool) -> Duration {
        self.doubled = if is_busy { (self.doubled + 1).min(DOUBLINGS) } else { self.doubled.saturating_sub(1) };
        let base = self.every.max(took.saturating_mul(TIMES));
        base.saturating_mul(1 << self.doubled).min(LONGEST.max(base))
    }

    /// It failed: the pause doubles each time, and is no shorter than what it asked for.
    pub(super) fn failed(&mut self, retry_after: Option<Duration>) -> Duration {
        let pause = self.every.saturating_mul(1 << self.doubled).min(LONGEST.max(self.every));
        self.doubled = (self.doubled + 1).min(DOUBLINGS);
        pause.max(retry_after.unwrap_or_default())
    }
}

/// How long a server asks to be left alone.
pub(super) fn retry_after(error: &LiveError) -> Option<Duration> {
    if let LiveError::Busy { retry_after, .. } = error { *retry_after } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn slow_answers_are_asked_for_less_often() {
        let mut interval = Interval::new(10 * S);
        assert_eq!(interval.answered(S / 2, false), 10 * S);
        assert_eq!(interval.answered(3 * S, false), 30 * S, "ten times the time that it took");
        assert_eq!(interval.answered(20 * S, false), 200 * S, "however long that is");
        assert_eq!(interval.answered(S, false), 10 * S);
    }

    #[test]
    fn who_is_busy_is_left_alone_and_asked_as_before_when_that_is_over() {
        let mut interval = Interval::new(10 * S);
        let busy: Vec<u64> = (0..4).map(|_| interval.answered(S, true).as_secs()).collect();
        assert_eq!(busy, [20, 40, 60, 60], "no more than a minute");
        let well: Vec<u64> = (0..5).map(|_| interval.answered(S, false).as_secs()).collect();
        assert_eq!(well, [60, 40, 20, 10, 10]);
    }

    #[test]
    fn who_fails_is_asked_later_and_later_but_not_before_it_wants_to() {
        let mut interval = Interval::new(10 * S);
        let pauses: Vec<u64> = (0..5).map(|_| interval.failed(None).as_secs()).collect();
        assert_eq!(pauses, [10, 20, 40, 60, 60]);
        assert_eq!(Interval::new(10 * S).failed(Some(300 * S)), 300 * S, "Retry-After counts, however long it is");
        assert_eq!(Interval::new(10 * S).failed(Some(S)), 10 * S);
        let mut once = Interval::new(S);
        once.failed(None);
        assert_eq!(once.answered(S / 100, false), S, "one failure is forgotten at once");
        let mut seldom = Interval::new(300 * S);
        assert_eq!((seldom.failed(None), seldom.failed(None)), (300 * S, 300 * S), "never more often than told");
    }
}
