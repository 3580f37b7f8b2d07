//! Numbers as people read and write them.

use crate::model::forecast::Unit;
use crate::model::time::{Micros, SECOND};

/// `1 line`, `1,234 lines`, `1,234 series`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 || what.ends_with("series") { "" } else { "s" })
}

/// Digits in groups of three: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `12.3%`; what is neither nothing nor visible is `<0.1%`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0%".to_owned(),
        p if p < 0.0 => format!("-{}", percent(-share)),
        p if p < 0.1 => "<0.1%".to_owned(),
        p if (99.95..100.5).contains(&p) => "100%".to_owned(),
        p if p >= 100.5 => format!("{}%", grouped(p.round() as u64)),
        p => format!("{p:.1}%"),
    }
}

/// `+12.3%`; from tenfold on `×12`.
pub fn signed_percent(change: f64) -> String {
    match change * 100.0 {
        p if p.abs() < 0.05 => "0%".to_owned(),
        p if p >= 1000.0 => format!("×{}", significant(change + 1.0)),
        p => format!("{p:+.1}%"),
    }
}

/// Bytes with a binary unit: `512 B`, `1.5 KiB`, `2 GiB`.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value.abs() >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // There is no part of a byte.
    let number = if unit == 0 && value.fract() == 0.0 { format!("{value}") } else { significant(value) };
    format!("{number} {}", UNITS[unit])
}

/// Three significant digits, without a tail of zeros or an exponent.
pub fn significant(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if size >= 1000.0 {
        let sign = if number < 0.0 { "-" } else { "" };
        format!("{sign}{}", grouped(size.round() as u64))
    } else if size >= 100.0 {
        format!("{number:.0}")
    } else if size >= 10.0 {
        format!("{number:.1}")
    } else if size >= 0.01 {
        format!("{number:.2}")
    } else {
        "<0.01".to_owned()
    }
}

/// An amount of what a series counts, in at most seven characters for amounts below 10^18: `412Gi`, `12.3`, `350m`,
/// `1.23M`, `42/s`.
pub fn amount(unit: Unit, value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let (sign, size) = (if value < 0.0 { "-" } else { "" }, value.abs());
    let text = match unit {
        Unit::Bytes => scaled(size, 1024.0, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        Unit::BytesPerSecond => scaled(size, 1024.0, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]) + "/s",
        Unit::Cores if size > 0.0 && size < 0.995 => format!("{:.0}m", (size * 1e3).max(1.0)),
        Unit::Count | Unit::Cores => many(size),
        Unit::PerSecond => many(size) + "/s",
    };
    format!("{sign}{text}")
}

/// Three digits and a thousand times more for each letter, from a hundred thousand on.
fn many(size: f64) -> String {
    if size < 99_999.5 { short(size) } else { scaled(size, 1e3, &["", "k", "M", "G", "T", "P", "E"]) }
}

/// Three significant digits, and no zeros behind the point.
fn short(size: f64) -> String {
    let text = significant(size);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn scaled(size: f64, base: f64, letters: &[&str]) -> String {
    let mut value = size;
    let mut at = 0;
    while value >= 999.5 && at + 1 < letters.len() {
        value /= base;
        at += 1;
    }
    if value >= 1e6 {
        return format!("{size:.2e}");
    }
    // Nothing is smaller than one byte, so it needs no fraction.
    let digits = if at == 0 && base > 1e3 { format!("{value:.0}") } else { short(value) };
    format!("{digits}{}", letters.get(at).copied().unwrap_or_default())
}

/// `8m 49s`, `2d 3h`, `1.5s`: the two largest parts.
pub fn duration(micros: Micros) -> String {
    // Rounded to what is shown, and no further.
    let rounded = |unit: i64| micros.saturating_add(unit * SECOND / 2) / (unit * SECOND) * unit;
    let seconds = match micros / SECOND {
        ..10 => 0,
        10..3_599 => rounded(1),
        3_599..86_370 => rounded(60),
        _ => rounded(3_600),
    };
    let part = |count: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 { format!("{count}{unit}") } else { format!("{count}{unit} {rest}{small}") }
    };
    match seconds {
        ..10 => format!("{}s", significant(micros as f64 / SECOND as f64)),
        10..60 => format!("{seconds}s"),
        60..3_600 => part(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => part(seconds / 3_600, "h", seconds / 60 % 60, "m"),
        _ => part(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

/// Reads `90s`, `10m`, `1h30m`, `7d`, `500ms`, `2w`.
pub fn parse_duration(text: &str) -> Option<Micros> {
    let mut rest = text.trim();
    let mut total = 0f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let scale = match unit {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            "w" => 604_800.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * scale;
        rest = behind.trim_start();
    }
    let micros = total * SECOND as f64;
    (micros < i64::MAX as f64 / 4.0).then_some(micros.round() as i64)
}

/// Reads `80%`, `12.5%`, `0.8`: a share, 0 and above. A bare number above 1 is none: `80` may be either.
pub fn parse_share(text: &str) -> Option<f64> {
    let text = text.trim();
    let share = match text.strip_suffix('%') {
        Some(per_cent) => per_cent.trim_end().parse::<f64>().ok()? / 100.0,
        None => text.parse::<f64>().ok().filter(|share| *share <= 1.0)?,
    };
    (share.is_finite() && share >= 0.0).then_some(share)
}

/// Reads `4096`, `64MiB`, `64Mi`, `2G`, `500MB`, `1.5GiB`: with `i` and as a single letter by 1024, as the kernel has
/// it; with `B` by 1000.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let power = match unit.chars().next() {
        None | Some('b') => 0,
        Some(letter) => i32::try_from("kmgtp".find(letter)?).ok()? + 1,
    };
    let base: f64 = match unit.get(1..).unwrap_or_default() {
        "" | "i" | "ib" => 1024.0,
        "b" if power > 0 => 1000.0,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * base.powi(power);
    (bytes < 9e18).then_some(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!((counted(1, "series"), counted(2, "series")), ("1 series".to_owned(), "2 series".to_owned()));
        assert_eq!((counted(1, "line"), counted(2000, "line")), ("1 line".to_owned(), "2,000 lines".to_owned()));
        assert_eq!(percent(0.0004), "<0.1%");
        assert_eq!(percent(0.4567), "45.7%");
        assert_eq!(signed_percent(-0.5), "-50.0%");
        assert_eq!(signed_percent(11.0), "×12.0");
        assert_eq!(significant(0.1234), "0.12");
        assert_eq!(significant(12345.6), "12,346");
        assert_eq!(duration(529 * SECOND), "8m 49s");
        assert_eq!(duration(1_500_000), "1.50s");
        assert_eq!(duration(90_000 * SECOND), "1d 1h");
        assert_eq!(duration(149_900_000), "2m 30s");
        assert_eq!(duration(3_599_600_000), "1h");
        assert_eq!(duration(86_399 * SECOND), "1d");
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_duration("90s"), Some(90 * SECOND));
        assert_eq!(parse_duration("1h30m"), Some(5_400 * SECOND));
        assert_eq!(parse_duration("500ms"), Some(SECOND / 2));
        assert_eq!(parse_duration("7d"), Some(604_800 * SECOND));
        for bad in ["", "5", "x", "5 parsecs", "-5s", "s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn shares_are_read() {
        for (text, share) in
            [("80%", Some(0.8)), (" 12.5 %", Some(0.125)), ("0.8", Some(0.8)), ("1", Some(1.0)), ("120%", Some(1.2))]
        {
            assert_eq!(parse_share(text), share, "{text}");
        }
        for bad in ["", "%", "80", "-1%", "x", "NaN", "inf%"] {
            assert_eq!(parse_share(bad), None, "{bad}");
        }
    }

    #[test]
    fn bytes_have_binary_units_and_at_most_three_digits() {
        for (number, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1000.0, "0.98 KiB"),
            (1536.0, "1.50 KiB"),
            (-2_097_152.0, "-2.00 MiB"),
            (1_073_741_824.0 * 1.75, "1.75 GiB"),
            (8_589_934_592.0, "8.00 GiB"),
        ] {
            assert_eq!(bytes(number), text, "{number}");
        }
    }

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("64Mi", 64 << 20),
            ("2G", 2 << 30),
            ("500MB", 500_000_000),
            ("1.5KiB", 1536),
            ("7B", 7),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for bad in ["", "MiB", "5 parsecs", "-5", "1Zi", "9999999999P"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn amounts_are_short_and_keep_three_digits() {
        use Unit::*;
        for (unit, value, text) in [
            (Bytes, 0.0, "0"),
            (Bytes, 999.0, "999"),
            (Bytes, 1000.0, "0.98Ki"),
            (Bytes, 8.0 * 1024f64.powi(3), "8Gi"),
            (Bytes, -1.5 * 1024f64.powi(2), "-1.5Mi"),
            (Cores, 0.35, "350m"),
            (Cores, 0.0001, "1m"),
            (Cores, 0.996, "1"),
            (Cores, 60.0, "60"),
            (Count, 12_345.0, "12,345"),
            (Count, 99_999.4, "99,999"),
            (Count, 123_456.0, "123k"),
            (Count, 1.5e9, "1.5G"),
            (Count, 1e300, "1.00e300"),
            (Count, f64::NAN, "-"),
            (PerSecond, 41.96, "42/s"),
            (BytesPerSecond, 2048.0, "2Ki/s"),
        ] {
            assert_eq!(amount(unit, value), text, "{unit:?} {value}");
        }
    }
}
