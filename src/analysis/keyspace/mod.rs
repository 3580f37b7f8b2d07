//! Usage of etcd's key space: keys, revisions and bytes, by key and by content. (Definitions: docs/commands/etcd.md.)

mod arena;
pub mod by;
pub mod check;
pub mod diff;
pub mod file;
mod findings;
pub mod flame;
pub mod history;
mod key;
mod owners;
pub mod pages;
pub mod report;
pub mod split;
mod stem;
pub mod top;

pub use arena::{Hand, Keyspace, Links, Mode};
pub use by::{By, Row};
pub use key::{Key, hash};

use crate::model::keyspace::Encoding;

/// Ways to encode a value.
pub const ENCODINGS: usize = Encoding::ALL.len();

/// Keys and bytes of one row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Live keys.
    pub keys: u64,
    /// Revisions of all keys, tombstones included.
    pub revisions: u64,
    pub tombstones: u64,
    /// Bytes of the values that live.
    pub live_bytes: u64,
    /// Bytes in the file of revisions that were superseded or deleted, and of tombstones.
    pub history_bytes: u64,
    /// Bytes of the keys that live.
    pub key_bytes: u64,
    /// The largest value that lives.
    pub max_object_bytes: u64,
    /// Bytes of `managedFields` in the values that live.
    pub managed_fields_bytes: u64,
    /// Bytes of annotations in the values that live.
    pub annotation_bytes: u64,
    /// Bytes of the annotation of `kubectl apply` in the values that live.
    pub last_applied_bytes: u64,
    /// Revisions since the last compaction.
    pub writes: u64,
    /// Their bytes in the file.
    pub written_bytes: u64,
    /// Helm releases that live: Secrets or ConfigMaps, one for each revision of a release.
    pub helm_releases: u64,
    /// Bytes of their values.
    pub helm_bytes: u64,
    /// Values that live, by encoding.
    pub encodings: [u64; ENCODINGS],
    /// Values that live and could not be read as what they claim to be.
    pub undecodable: u64,
}

impl Usage {
    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.keys += other.keys;
        self.revisions += other.revisions;
        self.tombstones += other.tombstones;
        self.live_bytes += other.live_bytes;
        self.history_bytes += other.history_bytes;
        self.key_bytes += other.key_bytes;
        self.max_object_bytes = self.max_object_bytes.max(other.max_object_bytes);
        self.managed_fields_bytes += other.managed_fields_bytes;
        self.annotation_bytes += other.annotation_bytes;
        self.last_applied_bytes += other.last_applied_bytes;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
        self.helm_releases += other.helm_releases;
        self.helm_bytes += other.helm_bytes;
        self.encodings.iter_mut().zip(other.encodings).for_each(|(mine, theirs)| *mine += theirs);
        self.undecodable += other.undecodable;
    }

    /// Adds a key's.
    pub fn add(&mut self, key: &Key) {
        self.revisions += u64::from(key.revisions);
        self.tombstones += u64::from(key.tombstones);
        self.history_bytes += key.history_bytes();
        self.writes += u64::from(key.writes);
        self.written_bytes += key.written;
        if key.lives() {
            self.keys += 1;
            self.live_bytes += key.live_bytes();
            self.key_bytes += u64::from(key.key_bytes);
            self.max_object_bytes = self.max_object_bytes.max(key.live_bytes());
            self.managed_fields_bytes += u64::from(key.managed_fields);
            self.annotation_bytes += u64::from(key.annotations);
            self.last_applied_bytes += u64::from(key.last_applied);
            self.helm_releases += u64::from(key.is_helm_release);
            self.helm_bytes += if key.is_helm_release { key.live_bytes() } else { 0 };
            self.encodings[usize::from(key.encoding) % ENCODINGS] += 1;
            self.undecodable += u64::from(key.undecodable);
        }
    }
}
