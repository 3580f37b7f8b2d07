//! Where an apiserver spent the time of a slow request, as it notes it in annotations.

use crate::model::event::{Event, SPENT};
use crate::model::json::text_of;
use crate::model::walk::member;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Time spent in etcd, in webhooks, in the APF queue, in µs; the apiserver notes them for slow requests.
pub(in crate::analysis) fn spent(event: &Event<'_>) -> [u64; 3] {
    const PREFIX: &str = "apiserver.latency.k8s.io/";
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(PREFIX));
    if FINDER.find(event.annotations).is_none() {
        return [0; 3];
    }
    let of = |name: &str| {
        let text = member(event.annotations, name).and_then(text_of);
        text.and_then(|text| go_duration(&text.decode())).unwrap_or(0)
    };
    let [etcd, mutating, validating, queue] = SPENT.map(of);
    [etcd, mutating + validating, queue]
}

/// A duration as Go writes it (`1m2.5s`, `512.3ms`, `15µs`), in whole µs, rounded down.
fn go_duration(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut nanos = 0u128;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|&n| n > 0)?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let scale: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let part = &part[..part.len().min(12)];
        nanos += whole.parse::<u64>().ok().map(u128::from)? * scale;
        if !part.is_empty() {
            nanos += part.parse::<u64>().ok().map(u128::from)? * scale / 10u128.pow(part.len() as u32);
        }
        rest = behind;
    }
    u64::try_from(nanos / 1_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations() {
        for (text, micros) in [
            ("1.234567s", Some(1_234_567)),
            ("512.3ms", Some(512_300)),
            ("15µs", Some(15)),
            ("999ns", Some(0)),
            ("1m2.5s", Some(62_500_000)),
            ("1h0m0.5s", Some(3_600_500_000)),
            ("0s", Some(0)),
            ("5", None),
            ("x", None),
            (".s", None),
        ] {
            assert_eq!(go_duration(text), micros, "{text}");
        }
    }
}
