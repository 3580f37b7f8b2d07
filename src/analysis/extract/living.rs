//! What lives in a database, so that it can be asked what does not: 16 bytes a key, and as much for its object's uid.

use hashbrown::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_128;

/// A revision of a key: the transaction, the place within it.
type Revision = (u64, u64);

/// The keys that live, and the uids of their objects. Keys are known by 128 bits of their hash.
#[derive(Debug, Default)]
pub struct Living {
    keys: HashMap<u128, (Revision, Option<u128>)>,
    uids: HashSet<u128>,
}

impl Living {
    /// Takes a revision of a key, in any order: whether it lives then, and as which uid.
    pub fn take(&mut self, key: &[u8], at: Revision, lives: bool, uid: Option<&str>) {
        // A tombstone has no uid; a key that lives without one has a hash of nothing.
        let known = lives.then(|| xxh3_128(uid.unwrap_or_default().as_bytes()));
        let entry = self.keys.entry(xxh3_128(key)).or_insert((at, known));
        if at >= entry.0 {
            *entry = (at, known);
        }
    }

    /// Whether a revision of this key is newer than all that were taken.
    pub fn is_latest(&self, key: &[u8], at: Revision) -> bool {
        self.keys.get(&xxh3_128(key)).is_none_or(|(latest, _)| *latest <= at)
    }

    /// Adds what another has taken of the same database.
    pub fn merge(&mut self, other: Self) {
        for (key, (at, known)) in other.keys {
            let entry = self.keys.entry(key).or_insert((at, known));
            if at >= entry.0 {
                *entry = (at, known);
            }
        }
    }

    /// All has been taken.
    pub fn finish(&mut self) {
        let nothing = xxh3_128(b"");
        self.keys.retain(|_, (_, known)| known.is_some());
        self.uids = self.keys.values().filter_map(|(_, known)| *known).filter(|uid| *uid != nothing).collect();
    }

    /// Whether a key lives.
    pub fn has_key(&self, key: &str) -> bool {
        self.keys.contains_key(&xxh3_128(key.as_bytes()))
    }

    /// Whether an object lives.
    pub fn has_uid(&self, uid: &str) -> bool {
        self.uids.contains(&xxh3_128(uid.as_bytes()))
    }
}
