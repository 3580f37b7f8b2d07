//! When an object was written: the latest of the times in it.

/// Keeps the later one.
pub(super) fn later(latest: &mut Option<i64>, time: Option<i64>) {
    *latest = (*latest).max(time);
}

/// Seconds of an RFC 3339 time.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}
