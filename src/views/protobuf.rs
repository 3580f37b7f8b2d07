//! Metrics as protobuf messages: `io.prometheus.client.MetricFamily` of Prometheus' client model (metrics.proto), of
//! which four kinds of fields are needed.

use crate::model::exposed::{Exposed, Family, FamilyKind, NATIVE_SCHEMA, Observations};

/// Observations up to this are zero, in seconds: times are measured in microseconds.
const ZERO_THRESHOLD: f64 = 1e-6;

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// A signed number (sint32, sint64): small ones are short, whatever their sign.
    fn signed(&mut self, field: u32, value: i64) {
        self.number(field, ((value << 1) ^ (value >> 63)) as u64);
    }

    fn double(&mut self, field: u32, value: f64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }
}

/// A family behind its length.
pub(super) fn family(Family { spec, series }: &Family) -> Vec<u8> {
    let (kind, total) = match spec.kind {
        FamilyKind::Counter => (0, "_total"),
        FamilyKind::Gauge => (1, ""),
        FamilyKind::Histogram => (4, ""),
    };
    let mut own = Message::default();
    own.bytes(1, format!("{}{total}", spec.name).as_bytes());
    own.bytes(2, spec.help.as_bytes());
    own.number(3, kind);
    for (labels, value) in series {
        own.message(4, |metric| {
            for (name, value) in spec.labels.iter().zip(labels).filter(|(_, value)| !value.is_empty()) {
                metric.message(1, |pair| {
                    pair.bytes(1, name.as_bytes());
                    pair.bytes(2, value.as_bytes());
                });
            }
            match (value, spec.kind) {
                (Exposed::Number(value), FamilyKind::Counter) => metric.message(3, |own| own.double(1, *value)),
                (Exposed::Number(value), _) => metric.message(2, |own| own.double(1, *value)),
                (Exposed::Histogram(value), _) => metric.message(7, |own| histogram(value, own)),
            }
        });
    }
    let mut all = Message::default();
    all.varint(own.0.len() as u64);
    all.0.append(&mut own.0);
    all.0
}

fn histogram(value: &Observations, own: &mut Message) {
    own.number(1, value.count);
    own.double(2, value.sum);
    for (bound, count) in &value.buckets {
        own.message(3, |bucket| {
            bucket.number(1, *count);
            bucket.double(2, *bound);
        });
    }
    own.signed(5, i64::from(NATIVE_SCHEMA));
    own.double(6, ZERO_THRESHOLD);
    own.number(7, value.zeros);
    for (offset, length) in spans(&value.native) {
        own.message(12, |span| {
            span.signed(1, offset);
            span.number(2, length);
        });
    }
    // Counts as differences, across the gaps between spans as well.
    let mut before = 0;
    for (_, count) in &value.native {
        own.signed(13, *count as i64 - before);
        before = *count as i64;
    }
}

/// Buckets that follow one another: how far each such span begins behind the end of the one before, and its length.
fn spans(buckets: &[(i16, u64)]) -> Vec<(i64, u64)> {
    let mut all: Vec<(i64, u64)> = Vec::new();
    let mut next = 0;
    for (bucket, _) in buckets {
        let bucket = i64::from(*bucket);
        match all.last_mut() {
            Some(last) if bucket == next => last.1 += 1,
            _ => all.push((bucket - next, 1)),
        }
        next = bucket + 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_buckets_without_gaps() {
        assert_eq!(spans(&[(-80, 1), (-9, 1), (-8, 3), (2, 1)]), [(-80, 1), (70, 2), (9, 1)]);
        assert_eq!(spans(&[]), []);
    }

    #[test]
    fn numbers_are_written_as_protobuf_does() {
        let mut own = Message::default();
        own.number(1, 300);
        own.signed(2, -2);
        own.signed(2, i64::MIN);
        assert_eq!(own.0[..5], [0x08, 0xac, 0x02, 0x10, 0x03]);
        assert_eq!(own.0[5..], [0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }
}
