//! What etcd keeps in bbolt: revisions of keys. (Source: etcd server/storage/mvcc/revision.go, api/mvccpb.)

/// A revision: the transaction's number, and the place within it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// The transaction.
    pub main: u64,
    /// The place within it.
    pub sub: u64,
}

/// Reads a key of the bucket `key`: the revision, and whether it is a tombstone.
pub fn revision(key: &[u8]) -> Option<(Revision, bool)> {
    let number = |at: usize| key.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    let is_tombstone = match key.len() {
        17 => false,
        18 if key[17] == b't' => true,
        _ => return None,
    };
    (key[8] == b'_').then_some(())?;
    Some((Revision { main: number(0)?, sub: number(9)? }, is_tombstone))
}

/// A key with its value at one revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyValue<'p> {
    pub key: &'p [u8],
    /// The revision at which it was made.
    pub created: u64,
    /// The revision of this value.
    pub modified: u64,
    /// How often it was written since it was made.
    pub version: u64,
    pub value: &'p [u8],
    /// The lease that it hangs on; 0 for none.
    pub lease: u64,
}

/// A field of a protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'p> {
    /// A varint, or a fixed number.
    Number(u64),
    /// Bytes: text, or a message.
    Bytes(&'p [u8]),
}

/// The fields of a protobuf message, in order; ends early, with `None`, where the message is damaged.
#[derive(Debug, Clone)]
pub struct Fields<'p> {
    rest: &'p [u8],
    /// Whether something was not as it must be.
    pub damaged: bool,
}

impl<'p> Fields<'p> {
    /// The fields of `message`.
    pub fn new(message: &'p [u8]) -> Self {
        Self { rest: message, damaged: false }
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        // Most are one byte.
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Some(u64::from(*byte));
        }
        let mut value = 0;
        for (n, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * n).min(63);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[n + 1..];
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self, length: u64) -> Option<&'p [u8]> {
        let length = usize::try_from(length).ok().filter(|length| *length <= self.rest.len())?;
        let (bytes, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(bytes)
    }

    #[inline]
    fn field(&mut self) -> Option<(u64, Field<'p>)> {
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Number(self.bytes(8)?.try_into().ok().map(u64::from_le_bytes)?),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.bytes(length)?)
            }
            5 => Field::Number(self.bytes(4)?.try_into().ok().map(|b| u64::from(u32::from_le_bytes(b)))?),
            _ => return None,
        };
        Some((tag >> 3, field))
    }
}

impl<'p> Iterator for Fields<'p> {
    type Item = (u64, Field<'p>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.damaged {
            return None;
        }
        let field = self.field();
        self.damaged = field.is_none();
        field
    }
}

/// Reads a value of the bucket `key`; `None` where it is damaged.
pub fn key_value(message: &[u8]) -> Option<KeyValue<'_>> {
    let mut kv = KeyValue::default();
    let mut fields = Fields::new(message);
    for field in fields.by_ref() {
        match field {
            (1, Field::Bytes(key)) => kv.key = key,
            (2, Field::Number(n)) => kv.created = n,
            (3, Field::Number(n)) => kv.modified = n,
            (4, Field::Number(n)) => kv.version = n,
            (5, Field::Bytes(value)) => kv.value = value,
            (6, Field::Number(n)) => kv.lease = n,
            _ => {}
        }
    }
    (!fields.damaged).then_some(kv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_revisions() {
        let key = |main: u64, sub: u64, tail: &[u8]| [&main.to_be_bytes()[..], b"_", &sub.to_be_bytes(), tail].concat();
        assert_eq!(revision(&key(7, 1, b"")), Some((Revision { main: 7, sub: 1 }, false)));
        assert_eq!(revision(&key(7, 1, b"t")), Some((Revision { main: 7, sub: 1 }, true)));
        assert_eq!(revision(&key(7, 1, b"x")), None);
        assert_eq!(revision(b"short"), None);
    }

    #[test]
    fn a_message_that_breaks_off_is_damaged() {
        let whole = [0x0a, 2, b'a', b'b', 0x18, 0x96, 0x01, 0x2a, 1, b'v'];
        assert_eq!(key_value(&whole), Some(KeyValue { key: b"ab", modified: 150, value: b"v", ..KeyValue::default() }));
        for cut in [1, 3, 5, 6, 8, 9] {
            assert_eq!(key_value(&whole[..cut]), None, "{cut}");
        }
    }
}
