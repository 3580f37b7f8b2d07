//! Instants and how they are written: microseconds since 1970, UTC, as audit logs carry them.

use crate::model::json::JsonStr;

/// An instant in microseconds since 1970-01-01T00:00:00Z.
pub type Micros = i64;

/// Microseconds in one second.
pub const SECOND: i64 = 1_000_000;

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
        if text.is_escaped() { self.parse(text.decode().as_bytes()) } else { self.parse(text.raw()) }
    }

    /// The instant written in `text` (`2026-11-20T09:17:29.739946Z`, or any RFC 3339 form), if it is one.
    #[inline]
    pub fn parse(&mut self, text: &[u8]) -> Option<Micros> {
        // The encoder's own form (metav1.MicroTime), 27 bytes.
        if text.len() == 27 && text[26] == b'Z' && text[19] == b'.' {
            if text[..17] != self.minute {
                self.learn(text)?;
            }
            let seconds = two(text[17], text[18])?;
            if seconds < 60 {
                let mut micros = 0i64;
                for &digit in &text[20..26] {
                    micros = micros * 10 + i64::from(digit.wrapping_sub(b'0'));
                    if !digit.is_ascii_digit() {
                        return None;
                    }
                }
                return Some(self.base + seconds * SECOND + micros);
            }
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

fn two(tens: u8, ones: u8) -> Option<i64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

/// Reads any RFC 3339 timestamp, with any offset; parts below a microsecond are cut off.
pub fn parse_any(text: &str) -> Option<Micros> {
    Some(text.parse::<jiff::Timestamp>().ok()?.as_microsecond())
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
        for text in
            ["2026-11-20T09:17:29.739946Z", "2026-11-20T09:17:30.000000Z", "2026-02-28T23:59:59.999999Z", "1970-01-01T00:00:00.000001Z"]
        {
            assert_eq!(parser.parse(text.as_bytes()), parse_any(text), "{text}");
        }
        assert_eq!(parser.parse(b"2026-11-20T09:17:29Z"), Some(1_795_166_249_000_000));
        assert_eq!(parser.parse(b"2026-11-20T10:17:29.5+01:00"), Some(1_795_166_249_500_000));
    }

    #[test]
    fn what_is_no_time_is_none() {
        let mut parser = TimeParser::default();
        for text in ["", "null", "2026-13-20T09:17:29.739946Z", "2026-11-20T09:17:2x.739946Z", "2026-11-20T09:17:29.73994xZ"] {
            assert_eq!(parser.parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn formats_what_it_reads() {
        assert_eq!(format(1_795_166_249_739_946), "2026-11-20T09:17:29.739946Z");
        assert_eq!(format(1_795_166_249_000_000), "2026-11-20T09:17:29Z");
    }
}
