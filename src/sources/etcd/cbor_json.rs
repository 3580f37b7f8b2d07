//! CBOR as apiservers write it, to JSON. (Source: RFC 8949; apimachinery runtime/serializer/cbor: text is encoded as
//! byte strings, and bytes carry the tag 22, for they are base64 in JSON.)

use super::cbor::{Head, read_head};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value};

/// As deep as serde_json goes.
const DEEPEST: usize = 128;
/// Tag: bytes that are base64 in JSON.
const BASE64: u64 = 22;

/// The one item that `bytes` hold; `None` where they hold something else.
pub(super) fn json(bytes: &[u8]) -> Option<Value> {
    let mut reader = Reader { rest: bytes };
    let value = reader.item(0)?;
    reader.rest.is_empty().then_some(value)
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn take(&mut self, length: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn head(&mut self) -> Option<Head> {
        let (head, rest) = read_head(self.rest)?;
        self.rest = rest;
        Some(head)
    }

    /// Whether an item of open length ends here.
    fn ends(&mut self) -> bool {
        let ends = self.rest.first() == Some(&0xff);
        if ends {
            self.rest = &self.rest[1..];
        }
        ends
    }

    fn string(&mut self, head: &Head) -> Option<Vec<u8>> {
        if head.info != 31 {
            return Some(self.take(head.argument)?.to_vec());
        }
        let mut all = Vec::new();
        while !self.ends() {
            let part = self.head()?;
            if part.major != head.major || part.info == 31 {
                return None;
            }
            all.extend_from_slice(self.take(part.argument)?);
        }
        Some(all)
    }

    fn item(&mut self, depth: usize) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        let head = self.head()?;
        let is_open = head.info == 31;
        Some(match head.major {
            0 if !is_open => Value::from(head.argument),
            1 if !is_open => Value::from(-1 - i64::try_from(head.argument).ok()?),
            2 | 3 => Value::from(String::from_utf8(self.string(&head)?).ok()?),
            4 => {
                let mut items = Vec::new();
                while if is_open { !self.ends() } else { (items.len() as u64) < head.argument } {
                    items.push(self.item(depth + 1)?);
                }
                Value::Array(items)
            }
            5 => {
                let mut members = Map::new();
                let mut count = 0;
                while if is_open { !self.ends() } else { count < head.argument } {
                    let Value::String(key) = self.item(depth + 1)? else { return None };
                    members.insert(key, self.item(depth + 1)?);
                    count += 1;
                }
                Value::Object(members)
            }
            6 if head.argument == BASE64 && matches!(self.rest.first()? >> 5, 2) => {
                let head = self.head()?;
                Value::from(BASE64_STANDARD.encode(&self.string(&head)?))
            }
            // Other tags say more of an item than JSON can.
            6 => self.item(depth + 1)?,
            7 => match head.info {
                20 => Value::Bool(false),
                21 => Value::Bool(true),
                22 | 23 => Value::Null,
                25 => Value::Number(Number::from_f64(half(u16::try_from(head.argument).ok()?))?),
                26 => Value::Number(Number::from_f64(f64::from(f32::from_bits(u32::try_from(head.argument).ok()?)))?),
                27 => Value::Number(Number::from_f64(f64::from_bits(head.argument))?),
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// A number of 16 bits. (RFC 8949, appendix D.)
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * 2_f64.powi(exponent - 25),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    fn hex(text: &str) -> Vec<u8> {
        text.as_bytes()
            .chunks(2)
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).expect("ASCII"), 16).expect("hex"))
            .collect()
    }

    #[test]
    fn rfc_8949_appendix_a() {
        for (bytes, value) in [
            ("00", json!(0)),
            ("1818", json!(24)),
            ("1bffffffffffffffff", json!(u64::MAX)),
            ("20", json!(-1)),
            ("3903e7", json!(-1000)),
            ("f93c00", json!(1.0)),
            ("f90001", json!(5.960_464_477_539_063e-8)),
            ("fb3ff199999999999a", json!(1.1)),
            ("fa47c35000", json!(100_000.0)),
            ("f4", json!(false)),
            ("f6", json!(null)),
            ("6449455446", json!("IETF")),
            ("62c3bc", json!("ü")),
            ("83010203", json!([1, 2, 3])),
            ("a26161016162820203", json!({"a": 1, "b": [2, 3]})),
            ("9f018202039f0405ffff", json!([1, [2, 3], [4, 5]])),
            ("bf61610161629f0203ffff", json!({"a": 1, "b": [2, 3]})),
            ("7f657374726561646d696e67ff", json!("streaming")),
            // A self-described map with a byte string for text, as apiservers write it, and bytes for base64.
            ("d9d9f7a2414101614bd643010203", json!({"A": 1, "K": "AQID"})),
        ] {
            assert_eq!(super::json(&hex(bytes)), Some(value), "{bytes}");
        }
        for bad in
            ["", "18", "62", "8301", "a1", "a10102", "ff", "1c", "f97c00", "0000", "7f01ff", "9bffffffffffffffff"]
        {
            assert_eq!(super::json(&hex(bad)), None, "{bad}");
        }
        assert_eq!(super::json(&[0x81; 1000]), None);
    }
}
