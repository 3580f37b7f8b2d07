//! Revisions of keys in etcd, and the Kubernetes objects that they hold.

use std::borrow::Cow;

/// How a value is encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    #[default]
    Other,
}

impl Encoding {
    /// All of them, in the order of their numbers.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Protobuf, "protobuf"),
        (Self::Json, "json"),
        (Self::Cbor, "cbor"),
        (Self::Encrypted, "encrypted"),
        (Self::Other, "other"),
    ];

    /// The encoding of a value, by how it begins. (Source: apimachinery runtime/serializer, apiserver storage/value.)
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

/// What is wanted of an object, beside what is always reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Want {
    pub owners: bool,
    /// Who wrote its fields.
    pub managers: bool,
    /// The value of this label.
    pub label: Option<String>,
    /// When it was written.
    pub time: bool,
}

/// An owner reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerRef<'v> {
    /// Kind of the owner.
    pub kind: Cow<'v, str>,
    pub name: Cow<'v, str>,
    pub uid: Cow<'v, str>,
    /// Whether it is the one that controls the object.
    pub controller: bool,
}

/// What a value reports its object. (Source: meta/v1 generated.proto.)
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object<'v> {
    /// `apps/v1`.
    pub api_version: Cow<'v, str>,
    /// `Deployment`.
    pub kind: Cow<'v, str>,
    /// `metadata.uid`.
    pub uid: Cow<'v, str>,
    /// `metadata.ownerReferences`, if wanted.
    pub owners: Vec<OwnerRef<'v>>,
    /// The value of the label that was wanted.
    pub label: Option<Cow<'v, str>>,
    /// Bytes of `metadata.managedFields` as encoded.
    pub managed_fields: u64,
    /// The managers of these, if wanted, with the bytes of their entries; one may come several times.
    pub managers: Vec<(Cow<'v, str>, u64)>,
    /// Bytes of `metadata.annotations` as encoded.
    pub annotations: u64,
    /// Bytes of the annotation that `kubectl apply` leaves.
    pub last_applied: u64,
    /// The latest time that the value itself shows, if wanted: seconds since 1970.
    pub written: Option<i64>,
    /// Whether the value could not be read as what it claims to be.
    pub undecodable: bool,
}

impl Object<'_> {
    /// The owner that controls it, else its first.
    pub fn owner(&self) -> Option<&OwnerRef<'_>> {
        self.owners.iter().find(|owner| owner.controller).or_else(|| self.owners.first())
    }
}

/// One revision of a key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen<'k> {
    pub key: &'k [u8],
    /// The transaction's number. A key changes once in a transaction.
    pub revision: u64,
    /// Whether it deletes the key.
    pub is_tombstone: bool,
    pub value: &'k [u8],
    /// The revision at which the key was made, as the entry has it.
    pub created: u64,
    /// The revision, as the entry has it.
    pub modified: u64,
    /// How often the key was written since it was made.
    pub version: u64,
    /// The lease that it hangs on; 0 for none.
    pub lease: u64,
    /// Bytes of it in the file.
    pub stored: u64,
}

/// A bucket's pages and entries.
#[derive(Debug, Clone, Default)]
pub struct BucketPages {
    /// Its name; empty for the root.
    pub name: String,
    /// Entries of its leaves.
    pub entries: u64,
    /// Pages from the root to a leaf; 0 where it is inline.
    pub depth: usize,
    /// Branch pages.
    pub branches: u64,
    /// Leaf pages.
    pub leaves: u64,
    /// Pages that branches and leaves overflow into.
    pub overflow: u64,
    /// How full the branch pages are.
    pub branch_fills: Vec<f32>,
    /// How full the leaf pages are.
    pub leaf_fills: Vec<f32>,
    /// CRC-32C over keys and values, and of how many bytes it is.
    pub sum: (u32, usize),
}
