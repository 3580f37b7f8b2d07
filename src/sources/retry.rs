//! Repeating a request that a server could not answer: growing pauses, what `Retry-After` asks for, and an end.
//!
//! Apiservers ([`live`](super::live)), Prometheus ([`prometheus`](super::prometheus)) and the receivers of alerts
//! (`actions::notify`) each have a [`RetryPolicy`] of their own.

use crate::model::time::Micros;
use std::time::Duration;

/// The longest time that [`retry_after`] returns. Whoever asks for more is asked again at the next run anyway.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(86_400);

/// What the time that a server asks for does to the next pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// The pause is never shorter than the growing one.
    Lengthens,
    /// The pause is as long as the server asks for, even if that is zero.
    Replaces,
}

/// When a request is repeated.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// How often it is sent, the first time included.
    pub tries: u32,
    /// The pause after the first failure; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest such pause. A server may ask for a longer one.
    pub longest_pause: Duration,
    /// The sum of all pauses.
    pub total_pause: Duration,
    /// How `Retry-After` counts.
    pub asked: RetryAfter,
}

/// The failures of one request so far.
#[derive(Debug)]
pub struct Retries {
    policy: RetryPolicy,
    failed: u32,
    slept: Duration,
}

impl Retries {
    /// A request that was not sent yet.
    pub fn new(policy: RetryPolicy) -> Self {
        Self { policy, failed: 0, slept: Duration::ZERO }
    }

    /// Failures that [`Self::pause`] was called for.
    pub fn failed(&self) -> u32 {
        self.failed
    }

    /// Counts a failure, for which the server asked for a pause or not: how long to wait before the next try, or `None`
    /// to give up.
    pub fn pause(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let policy = &self.policy;
        // 31 doublings of the shortest pause are longer than any that is meant.
        let factor = 2u32.pow(self.failed.min(31));
        let own = policy.first_pause.saturating_mul(factor).min(policy.longest_pause);
        let pause = match (asked, policy.asked) {
            (Some(asked), RetryAfter::Replaces) => asked,
            (asked, _) => asked.unwrap_or_default().max(own),
        };
        self.failed = self.failed.saturating_add(1);
        let slept = self.slept.saturating_add(pause);
        if self.failed >= policy.tries || slept > policy.total_pause {
            return None;
        }
        self.slept = slept;
        Some(pause)
    }
}

/// The time that a `Retry-After` header asks for: seconds, or a date, which is compared with `now`. `None` if it is
/// neither; zero for a date in the past; at most [`MAX_RETRY_AFTER`].
pub fn retry_after(text: &str, now: Micros) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are more seconds than anybody waits.
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_microsecond();
    let left = u64::try_from(at.saturating_sub(now)).unwrap_or(0);
    Some(Duration::from_micros(left).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::SECOND;

    const SECS: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (text, expected) in [
            ("3", Some(SECS(3))),
            (" 0 ", Some(SECS(0))),
            ("86400", Some(MAX_RETRY_AFTER)),
            ("86401", Some(MAX_RETRY_AFTER)),
            ("1000000000000", Some(MAX_RETRY_AFTER)),
            ("18446744073709551615", Some(MAX_RETRY_AFTER)),
            ("100000000000000000000000000000", Some(MAX_RETRY_AFTER)),
            // 2026-11-20T09:17:00Z is now.
            ("Fri, 20 Nov 2026 09:17:09 GMT", Some(SECS(9))),
            ("Fri, 20 Nov 2026 10:17:09 +0100", Some(SECS(9))),
            ("Fri, 20 Nov 2026 09:16:59 GMT", Some(SECS(0))),
            ("Sat, 01 Jan 2000 00:00:00 GMT", Some(SECS(0))),
            ("Fri, 01 Jan 2100 00:00:00 GMT", Some(MAX_RETRY_AFTER)),
            ("Fri, 20 Nov 2026 25:17:09 GMT", None),
            ("-1", None),
            ("-1000000000000", None),
            ("+3", None),
            ("1.5", None),
            ("1e3", None),
            ("NaN", None),
            ("soon", None),
            ("", None),
            (" ", None),
        ] {
            let now = crate::model::time::parse_any("2026-11-20T09:17:00Z").unwrap();
            assert_eq!(retry_after(text, now), expected, "{text:?}");
        }
    }

    #[test]
    fn absurd_clocks_do_not_overflow() {
        for now in [i64::MIN, -SECOND, 0, i64::MAX] {
            let found = retry_after("Fri, 20 Nov 2026 09:17:09 GMT", now).unwrap();
            assert!(found <= MAX_RETRY_AFTER, "{now}: {found:?}");
        }
    }

    /// All pauses of a request that always fails in this way.
    fn pauses(policy: RetryPolicy, asked: &[Option<Duration>]) -> Vec<Option<Duration>> {
        let mut retries = Retries::new(policy);
        let found = asked.iter().map(|asked| retries.pause(*asked)).collect();
        assert_eq!(retries.failed() as usize, asked.len());
        found
    }

    const POLICY: RetryPolicy = RetryPolicy {
        tries: 6,
        first_pause: Duration::from_secs(1),
        longest_pause: Duration::from_secs(4),
        total_pause: Duration::from_secs(60),
        asked: RetryAfter::Lengthens,
    };

    #[test]
    fn pauses_double_up_to_the_longest_and_end_with_the_tries() {
        let some = |secs: u64| Some(SECS(secs));
        assert_eq!(pauses(POLICY, &[None; 6]), [some(1), some(2), some(4), some(4), some(4), None]);
        assert_eq!(pauses(RetryPolicy { tries: 1, ..POLICY }, &[None]), [None]);
        assert_eq!(pauses(RetryPolicy { tries: 0, ..POLICY }, &[None]), [None]);
    }

    #[test]
    fn a_server_lengthens_a_pause_or_replaces_it() {
        let some = |secs: u64| Some(SECS(secs));
        let asked = [some(0), some(9), some(1), None];
        assert_eq!(pauses(POLICY, &asked), [some(1), some(9), some(4), some(4)]);
        let replaces = RetryPolicy { asked: RetryAfter::Replaces, ..POLICY };
        assert_eq!(pauses(replaces, &asked), [some(0), some(9), some(1), some(4)]);
    }

    #[test]
    fn all_pauses_together_are_bounded() {
        let some = |secs: u64| Some(SECS(secs));
        assert_eq!(pauses(POLICY, &[some(60), some(1)]), [some(60), None]);
        assert_eq!(pauses(POLICY, &[some(61), some(1)]), [None, some(2)]);
        assert_eq!(pauses(POLICY, &[None, Some(Duration::MAX)]), [some(1), None]);
    }

    #[test]
    fn many_failures_do_not_overflow() {
        let policy = RetryPolicy { tries: u32::MAX, total_pause: Duration::MAX, ..POLICY };
        assert!(pauses(policy, &[None; 100]).iter().skip(2).all(|pause| *pause == Some(SECS(4))));
        let wide = RetryPolicy { longest_pause: Duration::MAX, ..policy };
        assert!(pauses(wide, &[None; 100]).iter().all(Option::is_some));
    }
}
