//! Instants and how they are written: microseconds since 1970, UTC, as audit logs carry them.

use crate::model::json::JsonStr;

/// An instant in microseconds since 1970-01-01T00:00:00Z.
pub type Micros = i64;

/// A time: when it begins, and when it ends.
pub type Span = (Micros, Micros);

/// Bounds of what is asked for: from when on, and until when, which is not part of it. `None` bounds nothing.
pub type Bounds = (Option<Micros>, Option<Micros>);

/// Microseconds in one second.
pub const SECOND: i64 = 1_000_000;

/// A minute, in microseconds.
pub const MINUTE: Micros = 60 * SECOND;

/// An hour, in microseconds.
pub const HOUR: Micros = 60 * MINUTE;

/// A day, in microseconds.
pub const DAY: Micros = 24 * HOUR;

/// Reads RFC 3339 timestamps; remembers the last minute read, since neighbours in a log share it.
#[derive(Debug, Clone, Default)]
pub struct TimeParser {
    minute: [u8; 17],
    base: Micros,
}

impl TimeParser {
    /// The instant that a JSON string holds, if it is one.
    #[inline]
    pub fn parse_json(&mut self, text: JsonStr<'_>) -> Option<Micros> {
        self.parse(&text.bytes())
    }

    /// The instant written in `text` (`2026-11-20T09:17:29.739946Z`, or any RFC 3339 form), if it is one.
    #[inline]
    pub fn parse(&mut self, text: &[u8]) -> Option<Micros> {
        // The encoder's own form (metav1.MicroTime), 27 bytes.
        if let Ok(text) = <&[u8; 27]>::try_from(text)
            && text[26] == b'Z'
            && text[19] == b'.'
        {
            if text.first_chunk() != Some(&self.minute) {
                self.learn(text)?;
            }
            // `SS.mmmmmm`, the dot left out: eight digits, read at once. A word holds `S.mmmmmm`, and the
            // seconds go in place of its first two bytes.
            let seconds = u16::from_le_bytes([text[17], text[18]]);
            let behind = u64::from_le_bytes(*text[18..].first_chunk()?);
            let value = eight_digits(((behind & !0xffff) | u64::from(seconds)).to_le_bytes())?;
            if value < 60 * SECOND as u64 {
                return Some(self.base + value as i64);
            }
        }
        if let Some((whole, length)) = of_sql(text) {
            return self.parse(&whole[..length]);
        }
        parse_any(std::str::from_utf8(text).ok()?)
    }

    #[cold]
    fn learn(&mut self, text: &[u8]) -> Option<()> {
        let mut whole = *b"0000-00-00T00:00:00Z";
        whole[..17].copy_from_slice(&text[..17]);
        self.base = parse_any(std::str::from_utf8(&whole).ok()?)?;
        self.minute.copy_from_slice(&text[..17]);
        Some(())
    }
}

/// A time as SQL writes it, a blank for `T`, ` UTC` behind, or no zone, which means UTC: in the form of RFC 3339, and
/// how long that is.
#[cold]
fn of_sql(text: &[u8]) -> Option<([u8; 32], usize)> {
    let bare = text.strip_suffix(b" UTC").unwrap_or(text);
    let rest = bare.get(11..)?;
    let is_clock = rest.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
    if !matches!(bare[10], b' ' | b'T' | b't') || !(8..=20).contains(&rest.len()) || !is_clock {
        return None;
    }
    let mut whole = [0; 32];
    whole[..bare.len()].copy_from_slice(bare);
    (whole[10], whole[bare.len()]) = (b'T', b'Z');
    Some((whole, bare.len() + 1))
}

/// The number that eight digits write: pairs, then fours, then all, side by side in one word.
#[inline]
fn eight_digits(digits: [u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(digits);
    let value = word.wrapping_sub(0x3030_3030_3030_3030);
    // A digit is 0x30 to 0x39: its high half is 3, and still is when 6 is added.
    let high = 0xf0f0_f0f0_f0f0_f0f0;
    if (word & high) != 0x3030_3030_3030_3030
        || (word.wrapping_add(0x0606_0606_0606_0606) & high) != 0x3030_3030_3030_3030
    {
        return None;
    }
    let pairs = (value.wrapping_mul(10).wrapping_add(value >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

/// Reads any RFC 3339 timestamp, with any offset; parts below a microsecond are cut off.
pub fn parse_any(text: &str) -> Option<Micros> {
    Some(text.parse::<jiff::Timestamp>().ok()?.as_microsecond())
}

/// Reads a date, or a date and a time of day, in UTC, as tables show them: `2026-11-20`, `2026-11-20 09:17[:24]`.
pub fn parse_utc(text: &str) -> Option<Micros> {
    let at: jiff::civil::DateTime = text.parse().ok()?;
    Some(at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_microsecond())
}

/// `2026-11-20 09:17:24`, in UTC.
pub fn second(at: Micros) -> String {
    let text = format(at);
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// The time of day: `09:21:56`.
pub fn clock(at: Micros) -> String {
    let text = format(at);
    text.get(11..19).map_or(text.clone(), str::to_owned)
}

/// Whether two moments are of one day, in UTC.
fn is_one_day(a: Micros, b: Micros) -> bool {
    a.div_euclid(DAY) == b.div_euclid(DAY)
}

/// The end of a time whose begin stands before it: [`clock`], with the date where that is another day.
pub fn end_of((from, to): Span) -> String {
    if is_one_day(from, to) { clock(to) } else { second(to) }
}

/// A moment of a time: [`clock`], with the date where the time is of several days.
pub fn moment_of(at: Micros, span: Option<Span>) -> String {
    if span.is_none_or(|(from, to)| is_one_day(from, to)) { clock(at) } else { second(at) }
}

/// What covers less of a window than this part says little of it.
const MOST: f64 = 0.9;

/// Whether a time covers so little of a window that what is counted in it says little of the whole.
pub fn is_short((from, to): Span, window: Span) -> bool {
    let length = (window.1 - window.0) as f64;
    length > 0.0 && ((to.min(window.1) - from.max(window.0)).max(0) as f64) < MOST * length
}

/// First and last instant of two stretches of time together.
#[inline]
pub fn together(a: Option<Span>, b: Option<Span>) -> Option<Span> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// First and last instant of all stretches of time together.
pub fn all_together(spans: impl IntoIterator<Item = Span>) -> Option<Span> {
    spans.into_iter().fold(None, |all, span| together(all, Some(span)))
}

/// Whether a moment lies within bounds.
#[inline]
pub fn is_within((since, until): Bounds, at: Micros) -> bool {
    since.is_none_or(|since| at >= since) && until.is_none_or(|until| at < until)
}

/// What of a time lies within bounds; `None` where nothing does.
pub fn clipped((since, until): Bounds, (from, to): Span) -> Option<Span> {
    let part = (since.map_or(from, |since| from.max(since)), until.map_or(to, |until| to.min(until)));
    Some(part).filter(|(from, to)| from < to)
}

/// A moment that metrics give in seconds since 1970; what lies beyond the years that can be written is the last one
/// that can, so that times may be subtracted from one another.
pub fn of_seconds(seconds: f64) -> Micros {
    let [first, last] = [jiff::Timestamp::MIN, jiff::Timestamp::MAX].map(jiff::Timestamp::as_microsecond);
    ((seconds * SECOND as f64) as Micros).clamp(first, last)
}

/// A moment that a sample of a metrics page is stamped with, in seconds since 1970; where that is of no time in which
/// anything was scraped, in thousands of these, or in thousandths: text pages have milliseconds, OpenMetrics has
/// seconds, and many a writer takes the one for the other.
pub fn of_stamp(seconds: f64) -> Micros {
    let scraped = 1e9..1e10;
    let units = [seconds, seconds * 1e3, seconds / 1e3];
    of_seconds(units.into_iter().find(|own| scraped.contains(own)).unwrap_or(seconds))
}

/// `2026-11-20T09:17:29.739946Z`; without the fraction where it is zero.
pub fn format(at: Micros) -> String {
    match jiff::Timestamp::from_microsecond(at) {
        Ok(stamp) if at % SECOND == 0 => stamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Ok(stamp) => stamp.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        Err(_) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoders_form_and_any_other_agree() {
        let mut parser = TimeParser::default();
        for text in [
            "2026-11-20T09:17:29.739946Z",
            "2026-11-20T09:17:30.000000Z",
            "2026-02-28T23:59:59.999999Z",
            "1970-01-01T00:00:00.000001Z",
        ] {
            assert_eq!(parser.parse(text.as_bytes()), parse_any(text), "{text}");
        }
        assert_eq!(parser.parse(b"2026-11-20T09:17:29Z"), Some(1_795_166_249_000_000));
        assert_eq!(parser.parse(b"2026-11-20T10:17:29.5+01:00"), Some(1_795_166_249_500_000));
    }

    #[test]
    fn times_of_sql_are_times() {
        let mut parser = TimeParser::default();
        for text in [
            "2026-11-20 09:17:29.739946",
            "2026-11-20T09:17:29.739946",
            "2026-11-20 09:17:29.739946 UTC",
            "2026-11-20 09:17:29.739946+00",
        ] {
            assert_eq!(parser.parse(text.as_bytes()), Some(1_795_166_249_739_946), "{text}");
        }
        assert_eq!(parser.parse(b"2026-11-20 09:17:29"), Some(1_795_166_249_000_000));
        for text in ["2026-11-20", "2026-11-20 09:17", "2026-11-20 09:17:29 CET", "2026-11-20 99:17:29"] {
            assert_eq!(parser.parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        let mut parser = TimeParser::default();
        for text in
            ["", "null", "2026-13-20T09:17:29.739946Z", "2026-11-20T09:17:2x.739946Z", "2026-11-20T09:17:29.73994xZ"]
        {
            assert_eq!(parser.parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn eight_digits_are_the_number_they_write(number in 0u64..100_000_000) {
            let text = format!("{number:08}");
            proptest::prop_assert_eq!(eight_digits(text.as_bytes().try_into().unwrap()), Some(number));
        }

        #[test]
        fn other_bytes_are_no_number(bytes in proptest::array::uniform8(proptest::prelude::any::<u8>())) {
            let text = std::str::from_utf8(&bytes).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
            proptest::prop_assert_eq!(eight_digits(bytes), text.and_then(|t| t.parse().ok()));
        }
    }

    #[test]
    fn formats_what_it_reads() {
        assert_eq!(format(1_795_166_249_739_946), "2026-11-20T09:17:29.739946Z");
        assert_eq!(format(1_795_166_249_000_000), "2026-11-20T09:17:29Z");
    }
}
