//! What is known of one key, and in how few bytes it is kept.

use crate::model::keyspace::{Encoding, Object, Seen};
use xxhash_rust::xxh3::xxh3_64;

/// What is known of a key. Two keys of one hash would be taken for one: among ten million keys, once in 400,000
/// databases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Key {
    /// xxh3 of its text.
    pub hash: u64,
    /// Its latest revision.
    pub latest: u64,
    /// Bytes in the file of all its revisions.
    stored: u64,
    /// Of those since the last compaction.
    pub written: u64,
    /// [`Keyspace::name`](super::Keyspace::name) of its prefix.
    pub place: u32,
    /// [`Keyspace::name`](super::Keyspace::name) of what else its row is made by.
    pub label: u32,
    /// Its revisions in the file.
    pub revisions: u32,
    /// Those that delete it.
    pub tombstones: u32,
    /// Revisions since the last compaction.
    pub writes: u32,
    /// Those of them that delete it.
    pub deletes: u32,
    /// Bytes of its newest value.
    value_bytes: u32,
    /// Bytes in the file of its latest revision.
    latest_stored: u32,
    /// Bytes of `managedFields` in its newest value.
    pub managed_fields: u32,
    /// Bytes of annotations in it.
    pub annotations: u32,
    /// Bytes of the annotation of `kubectl apply` in it.
    pub last_applied: u32,
    /// Bytes of its text.
    pub key_bytes: u16,
    /// How its newest value is encoded.
    pub encoding: u8,
    /// Whether its latest revision deletes it.
    is_tombstone: bool,
    /// Whether Helm keeps a revision of a release in it.
    pub is_helm_release: bool,
    /// Whether its newest value could not be read as what it claims to be.
    pub undecodable: bool,
}

impl Key {
    /// Whether it lives.
    pub fn lives(&self) -> bool {
        !self.is_tombstone
    }

    /// Bytes of its value, if it lives.
    pub fn live_bytes(&self) -> u64 {
        if self.is_tombstone { 0 } else { u64::from(self.value_bytes) }
    }

    /// Bytes in the file of what compaction would free.
    pub fn history_bytes(&self) -> u64 {
        if self.is_tombstone { self.stored } else { self.stored - u64::from(self.latest_stored) }
    }
}

/// A key as it is kept: most have one revision, and need no sums.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredKey {
    pub(super) hash: u64,
    pub(super) latest: u64,
    /// How far behind its latest revision its newest value is; all ones if it has none.
    pub(super) valued_behind: u32,
    /// Its [`Sums`], if it has more than one revision; else all ones.
    pub(super) sums: u32,
    pub(super) place: u32,
    pub(super) label: u32,
    pub(super) value_bytes: u32,
    pub(super) latest_stored: u32,
    pub(super) managed_fields: u32,
    pub(super) annotations: u32,
    pub(super) last_applied: u32,
    pub(super) key_bytes: u16,
    pub(super) encoding: u8,
    pub(super) flags: u8,
}

pub(super) const NONE: u32 = u32::MAX;
pub(super) const TOMBSTONE: u8 = 1;
pub(super) const HELM: u8 = 2;
const UNDECODABLE: u8 = 4;

/// What adds up over the revisions of a key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    stored: u64,
    written: u64,
    revisions: u32,
    tombstones: u32,
    writes: u32,
    deletes: u32,
}

impl Sums {
    fn add(&mut self, revision: u64, is_tombstone: bool, stored: u64, compacted: u64) {
        self.revisions += 1;
        self.tombstones += u32::from(is_tombstone);
        self.stored += stored;
        if revision > compacted {
            self.writes += 1;
            self.deletes += u32::from(is_tombstone);
            self.written += stored;
        }
    }
}

impl StoredKey {
    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn set(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    /// The revision of its newest value.
    pub(super) fn valued(&self) -> Option<u64> {
        (self.valued_behind != NONE).then(|| self.latest.saturating_sub(u64::from(self.valued_behind)))
    }

    /// The sums over its revisions, which for a single one need not be kept.
    fn sums(&self, sums: &[Sums], compacted: u64) -> Sums {
        sums.get(self.sums as usize).copied().unwrap_or_else(|| {
            let mut one = Sums::default();
            one.add(self.latest, self.is(TOMBSTONE), u64::from(self.latest_stored), compacted);
            one
        })
    }

    /// Adds a further revision, which is a key of its own until then. Whether its value is the newest.
    pub(super) fn merge(&mut self, one: &Self, sums: &mut Vec<Sums>, compacted: u64) -> bool {
        if self.sums == NONE {
            sums.push(self.sums(&[], compacted));
            self.sums = (sums.len() - 1) as u32;
        }
        if let Some(sums) = sums.get_mut(self.sums as usize) {
            sums.add(one.latest, one.is(TOMBSTONE), u64::from(one.latest_stored), compacted);
        }
        let is_newest = one.valued_behind != NONE && self.valued().is_none_or(|valued| one.latest > valued);
        let valued = if is_newest { Some(one.latest) } else { self.valued() };
        if one.latest >= self.latest {
            self.latest = one.latest;
            self.latest_stored = one.latest_stored;
            self.set(TOMBSTONE, one.is(TOMBSTONE));
        }
        // So far behind that it can't be determined by how much: what is newer still is.
        self.valued_behind = valued.map_or(NONE, |valued| short(self.latest - valued).min(NONE - 1));
        if is_newest {
            self.label = one.label;
            self.value_bytes = one.value_bytes;
            self.encoding = one.encoding;
            self.managed_fields = one.managed_fields;
            self.annotations = one.annotations;
            self.last_applied = one.last_applied;
            self.set(UNDECODABLE, one.is(UNDECODABLE));
        }
        is_newest
    }

    /// Gives a key of one revision its value.
    pub(super) fn value(&mut self, seen: &Seen<'_>, object: &Object<'_>, label: u32) {
        self.valued_behind = 0;
        self.label = label;
        self.value_bytes = short(seen.value.len() as u64);
        self.encoding = Encoding::of(seen.value) as u8;
        self.managed_fields = short(object.managed_fields);
        self.annotations = short(object.annotations);
        self.last_applied = short(object.last_applied);
        self.set(UNDECODABLE, object.undecodable);
    }

    /// Notes that no apiserver can read its value.
    pub(super) fn cannot_be_read(&mut self) {
        self.set(UNDECODABLE, true);
    }

    pub(super) fn key(&self, sums: &[Sums], compacted: u64) -> Key {
        let Sums { stored, written, revisions, tombstones, writes, deletes } = self.sums(sums, compacted);
        Key {
            hash: self.hash,
            latest: self.latest,
            stored,
            written,
            place: self.place,
            label: self.label,
            revisions,
            tombstones,
            writes,
            deletes,
            value_bytes: self.value_bytes,
            latest_stored: self.latest_stored,
            managed_fields: self.managed_fields,
            annotations: self.annotations,
            last_applied: self.last_applied,
            key_bytes: self.key_bytes,
            encoding: self.encoding,
            is_tombstone: self.is(TOMBSTONE),
            is_helm_release: self.is(HELM),
            undecodable: self.is(UNDECODABLE),
        }
    }
}

/// The hash by which a key is known.
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// etcd takes no value of 4 GiB.
pub(super) fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
