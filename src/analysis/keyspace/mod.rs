//! What fills etcd: keys, revisions and bytes by resource and namespace. (Definitions: docs/etcd.md.)

pub mod report;

use crate::model::registry::{self, ROOTS};
use crate::model::symbols::{Symbol, Symbols};
use hashbrown::HashMap;
use hashbrown::hash_table::{Entry, HashTable};
use xxhash_rust::xxh3::xxh3_64;

/// One revision of a key, as a source gives it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'k> {
    /// The key.
    pub key: &'k [u8],
    /// Revision: transaction and place within it.
    pub revision: (u64, u64),
    /// Whether it deletes the key.
    pub is_tombstone: bool,
    /// Bytes of the value.
    pub value_bytes: u64,
    /// Bytes of `managedFields` in it.
    pub managed_fields: u64,
    /// How the value is encoded, by a number that the source gives; below [`ENCODINGS`].
    pub encoding: u8,
    /// Whether the value could not be read as what it claims to be.
    pub undecodable: bool,
    /// Bytes of it in the file.
    pub stored: u64,
}

/// Ways to encode a value.
pub const ENCODINGS: usize = 8;

/// What is known of a key.
#[derive(Debug, Clone, Copy)]
struct Key {
    hash: u64,
    /// Its row.
    row: u32,
    key_bytes: u32,
    latest: (u64, u64),
    is_tombstone: bool,
    revisions: u32,
    tombstones: u32,
    /// Of the latest revision.
    value_bytes: u64,
    managed_fields: u64,
    encoding: u8,
    undecodable: bool,
    latest_stored: u64,
    /// Of all revisions.
    stored: u64,
}

/// Keys and bytes of one prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys that live.
    pub keys: u64,
    /// Revisions of all keys, tombstones included.
    pub revisions: u64,
    /// Tombstones.
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
        self.encodings.iter_mut().zip(other.encodings).for_each(|(mine, theirs)| *mine += theirs);
        self.undecodable += other.undecodable;
    }

    fn add(&mut self, key: &Key) {
        self.revisions += u64::from(key.revisions);
        self.tombstones += u64::from(key.tombstones);
        self.history_bytes += key.stored;
        if !key.is_tombstone {
            self.keys += 1;
            self.live_bytes += key.value_bytes;
            self.key_bytes += u64::from(key.key_bytes);
            self.history_bytes -= key.latest_stored;
            self.max_object_bytes = self.max_object_bytes.max(key.value_bytes);
            self.managed_fields_bytes += key.managed_fields;
            self.encodings[usize::from(key.encoding) % ENCODINGS] += 1;
            self.undecodable += u64::from(key.undecodable);
        }
    }
}

/// Group, resource, namespace and prefix of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// API group.
    pub group: String,
    /// Resource; empty for keys that are not Kubernetes'.
    pub resource: String,
    /// Namespace.
    pub namespace: String,
    /// The keys' common start.
    pub prefix: String,
}

/// The keys that one thread met. No key's text is kept, so that memory grows with the number of keys alone.
#[derive(Debug, Default)]
pub struct Keyspace {
    roots: Vec<String>,
    keys: HashTable<Key>,
    prefixes: Symbols,
    places: HashMap<Symbol, Place>,
}

impl Keyspace {
    /// An empty one; `root` is where the apiserver keeps its objects, if that is neither `/registry` nor OpenShift's place.
    pub fn new(root: Option<&str>) -> Self {
        let roots = match root {
            Some(root) => vec![format!("{}/", root.trim_end_matches('/'))],
            None => ROOTS.map(str::to_owned).to_vec(),
        };
        Self { roots, ..Self::default() }
    }

    /// Whether this revision is the latest of its key so far, so that its value is worth a look.
    pub fn is_latest(&self, key: &[u8], revision: (u64, u64)) -> bool {
        let hash = xxh3_64(key);
        self.keys.find(hash, |other| other.hash == hash).is_none_or(|known| known.latest < revision)
    }

    /// Takes a revision.
    pub fn take(&mut self, seen: Seen<'_>) {
        let hash = xxh3_64(seen.key);
        let found = self.keys.find_mut(hash, |other| other.hash == hash);
        let new = Key {
            hash,
            row: found.as_ref().map_or(0, |known| known.row),
            key_bytes: seen.key.len() as u32,
            latest: seen.revision,
            is_tombstone: seen.is_tombstone,
            revisions: 1,
            tombstones: u32::from(seen.is_tombstone),
            value_bytes: seen.value_bytes,
            managed_fields: seen.managed_fields,
            encoding: seen.encoding,
            undecodable: seen.undecodable,
            latest_stored: seen.stored,
            stored: seen.stored,
        };
        match found {
            Some(known) => known.join(new),
            None => {
                let row = self.row(&String::from_utf8_lossy(seen.key));
                self.keys.insert_unique(hash, Key { row, ..new }, |other| other.hash);
            }
        }
    }

    fn row(&mut self, key: &str) -> u32 {
        let roots: Vec<&str> = self.roots.iter().map(String::as_str).collect();
        let parsed = registry::parse(key, &roots);
        let prefix = self.prefixes.intern(parsed.prefix);
        self.places.entry(prefix).or_insert_with(|| Place {
            group: parsed.group.to_owned(),
            resource: parsed.resource.to_owned(),
            namespace: parsed.namespace.to_owned(),
            prefix: parsed.prefix.to_owned(),
        });
        prefix.0
    }

    /// Takes in what another thread met.
    pub fn merge(&mut self, other: Self) {
        let mut renumbered: HashMap<u32, u32> = HashMap::new();
        for (prefix, place) in other.places {
            let own = self.prefixes.intern(&place.prefix);
            renumbered.insert(prefix.0, own.0);
            self.places.entry(own).or_insert(place);
        }
        for key in other.keys {
            let key = Key { row: renumbered.get(&key.row).copied().unwrap_or_default(), ..key };
            match self.keys.entry(key.hash, |known| known.hash == key.hash, |known| known.hash) {
                Entry::Occupied(mut known) => known.get_mut().join(key),
                Entry::Vacant(free) => drop(free.insert(key)),
            }
        }
    }

    /// The rows, in the order of their places, and the sum of all.
    pub fn finish(self) -> (Vec<(Place, Usage)>, Usage) {
        let mut by_row: HashMap<u32, Usage> = HashMap::new();
        self.keys.iter().for_each(|key| by_row.entry(key.row).or_default().add(key));
        let mut total = Usage::default();
        by_row.values().for_each(|usage| total.merge(usage));
        let mut places = self.places;
        let mut rows: Vec<(Place, Usage)> =
            by_row.into_iter().filter_map(|(row, usage)| Some((places.remove(&Symbol(row))?, usage))).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        (rows, total)
    }
}

impl Key {
    /// Adds revisions of the same key.
    fn join(&mut self, other: Self) {
        let latest = if other.latest > self.latest { other } else { *self };
        *self = Self {
            revisions: self.revisions + other.revisions,
            tombstones: self.tombstones + other.tombstones,
            stored: self.stored + other.stored,
            row: self.row,
            ..latest
        };
    }
}
