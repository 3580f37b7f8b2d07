//! Kubernetes' values in etcd: how they are encoded, and what can be told of them cheaply.
//! (Source: apimachinery runtime/serializer/protobuf, apiserver storage/value; api meta/v1/generated.proto.)

use super::mvcc::{Field, Fields};

/// How a value is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// `k8s\0` and an envelope: built-in resources.
    Protobuf,
    /// JSON: custom resources.
    Json,
    /// CBOR, where that is turned on.
    Cbor,
    /// Encrypted at rest: counted, never opened.
    Encrypted,
    /// Something else.
    Other,
}

impl Encoding {
    /// All of them.
    pub const ALL: [(Self, &'static str); 5] =
        [(Self::Protobuf, "protobuf"), (Self::Json, "json"), (Self::Cbor, "cbor"), (Self::Encrypted, "encrypted"), (Self::Other, "other")];

    /// The encoding of a value.
    pub fn of(value: &[u8]) -> Self {
        match value {
            [b'k', b'8', b's', 0, ..] => Self::Protobuf,
            [b'{', ..] => Self::Json,
            [0xd9, 0xd9, 0xf7, ..] => Self::Cbor,
            _ if value.starts_with(b"k8s:enc:") => Self::Encrypted,
            _ => Self::Other,
        }
    }
}

/// What a value tells of its object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Object {
    /// Bytes of `metadata.managedFields` as encoded; 0 where it has none, or the encoding does not tell.
    pub managed_fields: u64,
    /// Whether the value could not be read as what it claims to be.
    pub undecodable: bool,
}

/// Looks at a value.
pub fn look(value: &[u8], encoding: Encoding) -> Object {
    match encoding {
        Encoding::Protobuf => protobuf(&value[4..]).unwrap_or(Object { undecodable: true, ..Object::default() }),
        Encoding::Json => json(value),
        _ => Object::default(),
    }
}

/// `runtime.Unknown`: the object's own message is its field 2, whose field 1 is the metadata.
fn protobuf(envelope: &[u8]) -> Option<Object> {
    let raw = bytes_of(envelope, 2)??;
    let Some(metadata) = bytes_of(raw, 1)? else { return Some(Object::default()) };
    let mut managed_fields = 0;
    let mut fields = Fields::new(metadata);
    for field in fields.by_ref() {
        if let (17, Field::Bytes(entry)) = field {
            // Two bytes of tag, and the length, belong to the entry.
            let length_bytes = (64 - (entry.len() as u64 | 1).leading_zeros()).div_ceil(7);
            managed_fields += 2 + u64::from(length_bytes) + entry.len() as u64;
        }
    }
    // Not every kind begins with metadata (a RangeAllocation does, a Lease does): what does not parse has none.
    Some(Object { managed_fields: if fields.damaged { 0 } else { managed_fields }, undecodable: false })
}

/// The first field of this number that holds bytes; `None` outside where the message is damaged before it.
fn bytes_of(message: &[u8], number: u64) -> Option<Option<&[u8]>> {
    let mut fields = Fields::new(message);
    let found = fields.by_ref().find_map(|(n, field)| match field {
        Field::Bytes(bytes) if n == number => Some(bytes),
        _ => None,
    });
    (found.is_some() || !fields.damaged).then_some(found)
}

fn json(value: &[u8]) -> Object {
    #[derive(serde::Deserialize)]
    struct Outer<'v> {
        #[serde(borrow)]
        metadata: Option<Metadata<'v>>,
    }
    #[derive(serde::Deserialize)]
    struct Metadata<'v> {
        #[serde(borrow, rename = "managedFields")]
        managed_fields: Option<&'v serde_json::value::RawValue>,
    }
    match serde_json::from_slice::<Outer<'_>>(value) {
        Ok(outer) => {
            let raw = outer.metadata.and_then(|metadata| metadata.managed_fields);
            Object { managed_fields: raw.map_or(0, |raw| raw.get().len() as u64), undecodable: false }
        }
        Err(_) => Object { managed_fields: 0, undecodable: true },
    }
}
