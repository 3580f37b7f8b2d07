//! Messages that have a JSON form of their own. (Source: apimachinery meta/v1 time.go, micro_time.go, duration.go,
//! helpers.go; api/resource/quantity.go; util/intstr; runtime/extension.go; Go's time.Duration.String.)

use super::cbor_json;
use super::mvcc::{Field, Fields};
use super::schema::Type;
use jiff::Timestamp;
use serde_json::{Number, Value};

/// Seconds from the year 1, which is Go's zero time, to 1970.
const GO_ZERO: i64 = -62_135_596_800;
/// From here on Go writes floating-point numbers with an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// The JSON of a message; `None` where it is damaged.
pub(super) fn value(kind: Type, message: &[u8]) -> Option<Value> {
    let mut fields = Fields::new(message);
    let (mut numbers, mut texts) = ([0_i64; 4], [&[][..]; 4]);
    let mut strings = Vec::new();
    for (number, field) in fields.by_ref() {
        let slot = usize::try_from(number).ok().filter(|slot| *slot < 4).unwrap_or(0);
        match field {
            Field::Number(value) => numbers[slot] = value as i64,
            Field::Bytes(bytes) => {
                texts[slot] = bytes;
                if slot == 1 && kind == Type::Strings {
                    strings.push(Value::from(String::from_utf8_lossy(bytes).into_owned()));
                }
            }
        }
    }
    if fields.damaged {
        return None;
    }
    let [seconds, nanos] = [numbers[1], numbers[2]];
    Some(match kind {
        Type::Time | Type::MicroTime if message.is_empty() => Value::Null,
        Type::Time => time(seconds, 0, "%Y-%m-%dT%H:%M:%SZ")?,
        Type::MicroTime => time(seconds, nanos / 1000 * 1000, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        Type::Duration => Value::from(duration(numbers[1])),
        Type::Quantity if texts[1].is_empty() => Value::from("0"),
        Type::Quantity => Value::from(String::from_utf8_lossy(texts[1]).into_owned()),
        Type::IntOrString if numbers[1] == 0 => Value::from(numbers[2]),
        Type::IntOrString => Value::from(String::from_utf8_lossy(texts[3]).into_owned()),
        Type::Strings => Value::Array(strings),
        Type::Raw => raw(texts[1])?,
        _ => return None,
    })
}

fn time(seconds: i64, nanos: i64, form: &str) -> Option<Value> {
    if seconds == GO_ZERO && nanos == 0 {
        return Some(Value::Null);
    }
    let at = Timestamp::new(seconds, i32::try_from(nanos).ok()?).ok()?;
    Some(Value::from(at.strftime(form).to_string()))
}

/// Bytes that hold JSON, or CBOR where that is turned on.
fn raw(bytes: &[u8]) -> Option<Value> {
    match bytes {
        [] => Some(Value::Null),
        // CBOR with its mark; fieldsV1 has a map without.
        [0xd9, 0xd9, 0xf7, ..] | [0xa0..=0xbf, ..] => cbor_json::json(bytes),
        json => serde_json::from_slice(json).ok(),
    }
}

/// A floating-point number as Go writes it: whole ones without a fraction.
pub(super) fn double(value: f64) -> Option<Value> {
    if value.fract() == 0.0 && value.abs() < EXPONENT_FROM && value.abs() < i64::MAX as f64 {
        return Some(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number)
}

/// A duration of nanoseconds as Go writes it: `1h0m0s`, `1.5s`, `100ms`.
fn duration(nanos: i64) -> String {
    let size = nanos.unsigned_abs();
    let fraction = |value: u64, unit: u64| {
        let digits = unit.ilog10() as usize;
        let text = format!("{}.{:0digits$}", value / unit, value % unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let text = match size {
        0 => return "0s".to_owned(),
        1..1_000 => format!("{size}ns"),
        1_000..1_000_000 => fraction(size, 1_000) + "µs",
        1_000_000..1_000_000_000 => fraction(size, 1_000_000) + "ms",
        _ => {
            let minutes = size / 60_000_000_000;
            let seconds = fraction(size % 60_000_000_000, 1_000_000_000) + "s";
            match minutes {
                0 => seconds,
                1..60 => format!("{minutes}m{seconds}"),
                _ => format!("{}h{}m{seconds}", minutes / 60, minutes % 60),
            }
        }
    };
    if nanos < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_go_writes_them() {
        // What Go 1.27 prints for these.
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (5_025_001_000_000, "1h23m45.001s"),
            (-90_000_000_000, "-1m30s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(duration(nanos), text);
        }
    }

    #[test]
    fn what_no_time_can_be_is_damaged() {
        assert_eq!(value(Type::Time, &[0x08, 0x80]), None);
        let mut far = vec![0x08];
        far.extend([0xff; 8]);
        far.push(0x7f);
        assert_eq!(value(Type::Time, &far), None);
    }
}
