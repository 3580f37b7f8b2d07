//! How often a live source is asked: no more than it can bear.

use super::shared::Shared;
use crate::model::report::Severity;
use crate::model::time::Micros;
use crate::model::units::duration;
use crate::sources::clock::now;
use crate::sources::live::LiveError;
use crate::views::tui::{Msg, Standing, Status};
use std::time::Duration;

/// After this many failures the cluster is discovered again: credentials run out, apiservers move.
const MAX_FAILURES: u32 = 3;
/// A source that fails, or asks to be left alone, is asked again after at most this, or what it asks for.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The pause is at least so many times as long as the answer took: asking is a tenth of the source's time at most.
const PAUSE_FACTOR: u32 = 10;
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

    /// It answered within this time; `is_busy`: only when asked again, after a 429 or 503. The pause doubles while it
    /// is busy, and halves again when it is not.
    pub(super) fn answered(&mut self, took: Duration, is_busy: bool) -> Duration {
        self.doubled = if is_busy { (self.doubled + 1).min(DOUBLINGS) } else { self.doubled.saturating_sub(1) };
        let base = self.every.max(took.saturating_mul(PAUSE_FACTOR));
        base.saturating_mul(1 << self.doubled).min(MAX_PAUSE.max(base))
    }

    /// It failed: the pause doubles each time, and is no shorter than what it asked for.
    pub(super) fn failed(&mut self, retry_after: Option<Duration>) -> Duration {
        let pause = self.every.saturating_mul(1 << self.doubled).min(MAX_PAUSE.max(self.every));
        self.doubled = (self.doubled + 1).min(DOUBLINGS);
        pause.max(retry_after.unwrap_or_default())
    }
}

/// How a source does, and when it is asked next.
pub(super) struct Pace<'a> {
    shared: &'a Shared,
    name: String,
    interval: Interval,
    failures: u32,
    since: Micros,
    /// Whether it is asked less often than the user said, and that was reported.
    is_slow: bool,
}

impl<'a> Pace<'a> {
    /// One that is asked this often.
    pub(super) fn new(shared: &'a Shared, name: &str, every: Duration) -> Self {
        let interval = Interval::new(every);
        Self { shared, name: name.to_owned(), interval, failures: 0, since: 0, is_slow: false }
    }

    /// Reports how the source does.
    pub(super) fn report(&self, standing: Standing) {
        self.shared.send(Msg::Source(Status { name: self.name.clone(), standing }));
    }

    /// It gave what was asked for, within this time, and whether only after an answer of 429 or 503; when it is asked
    /// next.
    pub(super) fn well(&mut self, took: Duration, is_busy: bool) -> Duration {
        self.failures = 0;
        self.report(Standing::Well(now()));
        let pause = self.interval.answered(took, is_busy);
        let is_slow = pause > self.interval.every();
        if is_slow != std::mem::replace(&mut self.is_slow, is_slow) {
            let length = |time: Duration| duration(i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
            let (pause, took) = (length(pause), length(took));
            let what = match (is_slow, is_busy) {
                (true, true) => format!("{}: overloaded (429 or 503); next read in {pause}", self.name),
                (true, false) => format!("{}: an answer takes {took}; now read every {pause}", self.name),
                (false, _) => format!("{}: read every {pause} again", self.name),
            };
            self.shared.send_said(Severity::Info, what);
        }
        pause
    }

    /// It failed, and perhaps asked to be left alone for a time; when it is asked again.
    pub(super) fn failed(&mut self, why: String, retry_after: Option<Duration>) -> Duration {
        if self.failures == 0 {
            self.since = now();
        }
        let pause = self.interval.failed(retry_after);
        self.failures += 1;
        let again = Some(now().saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX / 2)));
        self.report(Standing::Failing { since: self.since, why, again });
        pause
    }

    /// Whether it has failed so often that the cluster is to be discovered again.
    pub(super) fn is_long_gone(&self) -> bool {
        self.failures >= MAX_FAILURES
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
