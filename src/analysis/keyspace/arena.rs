//! All keys of a database, as several threads meet their revisions. Of a key only its hash is kept, so that memory grows with the
//! number of keys alone: about 70 bytes each.

use super::by::By;
use super::stem::name_prefix;
use crate::model::keyspace::{Encoding, Object, Seen, Want};
use crate::model::registry;
use crate::model::symbols::{Symbol, Symbols};
use hashbrown::{HashMap, HashTable};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Parts of the key space that are locked apart.
const SHARDS: usize = 64;
/// Keys that get room at once: a vector that doubled would take twice the memory while it grows.
const CHUNK: usize = 512;

/// What is known of a key. Two keys of one hash would be taken for one: among ten million keys, once in 400,000 databases.
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
    /// [`Keyspace::name`] of its prefix.
    pub place: u32,
    /// [`Keyspace::name`] of what else its row is made by.
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
struct Kept {
    hash: u64,
    latest: u64,
    /// How far behind its latest revision its newest value is; all ones if it has none.
    valued_behind: u32,
    /// Its [`Sums`], if it has more than one revision; else all ones.
    sums: u32,
    place: u32,
    label: u32,
    value_bytes: u32,
    latest_stored: u32,
    managed_fields: u32,
    annotations: u32,
    last_applied: u32,
    key_bytes: u16,
    encoding: u8,
    flags: u8,
}

const NONE: u32 = u32::MAX;
const TOMBSTONE: u8 = 1;
const HELM: u8 = 2;
const UNDECODABLE: u8 = 4;

/// What adds up over the revisions of a key.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
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

impl Kept {
    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn set(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    /// The revision of its newest value.
    fn valued(&self) -> Option<u64> {
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

    /// Counts a further revision.
    fn count(&mut self, seen: &Seen<'_>, sums: &mut Vec<Sums>, compacted: u64) {
        if self.sums == NONE {
            sums.push(self.sums(&[], compacted));
            self.sums = (sums.len() - 1) as u32;
        }
        if let Some(sums) = sums.get_mut(self.sums as usize) {
            sums.add(seen.revision, seen.is_tombstone, seen.stored, compacted);
        }
        if seen.revision >= self.latest {
            self.valued_behind = match self.valued() {
                // So far behind that it can't be told by how much: what is newer still is.
                Some(valued) => short(seen.revision - valued).min(NONE - 1),
                None => NONE,
            };
            self.latest = seen.revision;
            self.latest_stored = short(seen.stored);
            self.set(TOMBSTONE, seen.is_tombstone);
        }
    }

    fn value(&mut self, seen: &Seen<'_>, object: &Object<'_>, label: u32) {
        self.valued_behind = short(self.latest.saturating_sub(seen.revision)).min(NONE - 1);
        self.label = label;
        self.value_bytes = short(seen.value.len() as u64);
        self.encoding = Encoding::of(seen.value) as u8;
        self.managed_fields = short(object.managed_fields);
        self.annotations = short(object.annotations);
        self.last_applied = short(object.last_applied);
        self.set(UNDECODABLE, object.undecodable);
    }

    fn key(&self, sums: &[Sums], compacted: u64) -> Key {
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
fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// What of a key's newest value refers to other objects, by hashes; 0 for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Links {
    /// Nothing is kept.
    #[default]
    None,
    /// Its uid, its owner's uid, and [`Keyspace::name`] of the owner's kind and name with a NUL between.
    Owner(u64, u64, u32),
    /// Managers, each with the bytes of its entries.
    Managers(Box<[(u32, u64)]>),
    /// Its uid, its lease, and the uids of all its owners.
    All(u64, u64, Box<[u64]>),
    /// The hash of the value.
    Value(u64),
}

/// What is kept beside what all rows need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mode {
    /// What rows by this need.
    By(By),
    /// Leases and owners, to be checked.
    Links,
    /// Hashes of values, to be compared.
    Values,
    /// Nothing.
    #[default]
    Plain,
}

/// Where a key is in its shard, with half of its hash: enough to pass over most others, and to grow the table, without a look at them.
#[derive(Debug, Clone, Copy)]
struct At {
    part: u32,
    number: u32,
}

impl At {
    /// What the table takes for the hash.
    fn spread(part: u32) -> u64 {
        u64::from(part) << 32 | u64::from(part)
    }
}

#[derive(Debug, Default)]
struct Shard {
    index: HashTable<At>,
    keys: Vec<Vec<Kept>>,
    sums: Vec<Sums>,
    links: Vec<Vec<Links>>,
}

impl Shard {
    /// A key, and where its sums are.
    fn key(&mut self, number: u32) -> Option<(&mut Kept, &mut Vec<Sums>)> {
        let key = self.keys.get_mut(number as usize / CHUNK)?.get_mut(number as usize % CHUNK)?;
        Some((key, &mut self.sums))
    }

    fn find(&self, hash: u64) -> Option<u32> {
        let part = hash as u32;
        let is_it = |at: &At| at.part == part && hash_of(&self.keys, at.number) == hash;
        self.index.find(At::spread(part), is_it).map(|at| at.number)
    }

    fn insert(&mut self, key: Kept, keeps_links: bool) -> u32 {
        let Self { index, keys, links, .. } = self;
        let count = index.len();
        let part = key.hash as u32;
        index.insert_unique(At::spread(part), At { part, number: count as u32 }, |at| At::spread(at.part));
        if count.is_multiple_of(CHUNK) {
            keys.push(Vec::with_capacity(CHUNK));
            if keeps_links {
                links.push(Vec::with_capacity(CHUNK));
            }
        }
        keys.last_mut().into_iter().for_each(|chunk| chunk.push(key));
        links.last_mut().into_iter().for_each(|chunk| chunk.push(Links::None));
        count as u32
    }

    fn link(&mut self, number: u32, links: Links) {
        if let Some(place) = self.links.get_mut(number as usize / CHUNK).and_then(|chunk| chunk.get_mut(number as usize % CHUNK)) {
            *place = links;
        }
    }
}

fn hash_of(keys: &[Vec<Kept>], number: u32) -> u64 {
    keys.get(number as usize / CHUNK).and_then(|chunk| chunk.get(number as usize % CHUNK)).map_or(0, |key| key.hash)
}

/// The keys.
#[derive(Debug)]
pub struct Keyspace {
    roots: Vec<String>,
    mode: Mode,
    /// The revision up to which history is gone.
    compacted: u64,
    /// Revisions up to this one that are superseded are noted; 0 for none.
    noted: u64,
    names: Mutex<Symbols>,
    shards: Vec<Mutex<Shard>>,
}

impl Keyspace {
    /// An empty one. `root` is where the apiserver keeps its objects, if that is neither `/registry` nor OpenShift's place;
    /// `compacted` is the revision up to which history is gone.
    pub fn new(root: Option<&str>, mode: Mode, compacted: u64) -> Self {
        let shards = std::iter::repeat_with(Mutex::default).take(SHARDS).collect();
        Self { roots: registry::roots(root), mode, compacted, noted: 0, names: Mutex::default(), shards }
    }

    /// Lets hands note the revisions that are superseded, or delete a key, up to `revision`.
    pub fn noting(mut self, revision: u64) -> Self {
        self.noted = revision;
        self
    }

    /// What is wanted of the objects.
    pub fn want(&self) -> Want {
        let by = if let Mode::By(by) = &self.mode { by } else { &By::Prefix };
        Want {
            owners: self.mode == Mode::Links || *by == By::Owner,
            managers: *by == By::Manager,
            label: if let By::Label(label) = by { Some(label.clone()) } else { None },
            time: false,
        }
    }

    /// Makes room for about so many keys.
    pub fn expect(&self, keys: usize) {
        for shard in &self.shards {
            lock(shard).index.reserve(keys / SHARDS, |at| At::spread(at.part));
        }
    }

    /// What a thread works with.
    pub fn hand(&self) -> Hand<'_> {
        Hand { space: self, known: HashMap::new(), folders: HashMap::new(), dropped: Vec::new() }
    }

    /// The text of a [`Key::place`] or [`Key::label`].
    pub fn name(&self, number: u32) -> String {
        lock(&self.names).get(Symbol(number)).to_owned()
    }

    /// Where the apiserver keeps its objects, each with a `/` at its end.
    pub fn roots(&self) -> &[String] {
        &self.roots
    }

    /// What a key's text names.
    pub fn parse<'k>(&self, key: &'k str) -> registry::ObjectKey<'k> {
        registry::parse(key, &self.roots)
    }

    /// Gives every key to `take`, in no order that means anything.
    pub fn each(&self, mut take: impl FnMut(&Key, &Links)) {
        for shard in &self.shards {
            let shard = lock(shard);
            for (number, chunk) in shard.keys.iter().enumerate() {
                for (at, key) in chunk.iter().enumerate() {
                    let links = shard.links.get(number).and_then(|links| links.get(at)).unwrap_or(&Links::None);
                    take(&key.key(&shard.sums, self.compacted), links);
                }
            }
        }
    }

    /// The key of this hash.
    pub fn get(&self, hash: u64) -> Option<(Key, Links)> {
        let shard = lock(self.shard(hash));
        let number = shard.find(hash)? as usize;
        let links = shard.links.get(number / CHUNK).and_then(|chunk| chunk.get(number % CHUNK)).cloned();
        let key = shard.keys.get(number / CHUNK)?.get(number % CHUNK)?;
        Some((key.key(&shard.sums, self.compacted), links.unwrap_or_default()))
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // Other bits than those by which the table finds a place.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    fn keeps_links(&self) -> bool {
        matches!(self.mode, Mode::Links | Mode::Values | Mode::By(By::Owner | By::Manager))
    }
}

/// Notes which revision of `key` is superseded once `seen` is counted.
fn note(dropped: &mut Vec<(u64, u64)>, until: u64, key: Option<&Kept>, seen: &Seen<'_>) {
    if until == 0 {
        return;
    }
    let older = key.map_or(u64::MAX, |key| key.latest.min(seen.revision));
    if older <= until {
        dropped.push((hash(seen.key), older));
    }
    if seen.is_tombstone && seen.revision <= until {
        dropped.push((hash(seen.key), seen.revision));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a key is.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// [`Keyspace::name`] of its prefix.
    number: u32,
    /// Whether Helm may keep releases there.
    may_hold_helm: bool,
}

/// A key up to its last `/`, and what follows.
fn folder_and_name(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at(memchr::memrchr(b'/', key).map_or(0, |at| at + 1))
}

/// One thread's access to a [`Keyspace`].
#[derive(Debug)]
pub struct Hand<'s> {
    space: &'s Keyspace,
    /// Numbers of names that this thread has met, by hash.
    known: HashMap<u64, u32>,
    /// Places of keys, by the hash of all before their last part.
    folders: HashMap<u64, Place>,
    /// Revisions that were superseded, or delete a key, with the hash of the key; as far as the keyspace lets them be noted.
    pub dropped: Vec<(u64, u64)>,
}

impl Hand<'_> {
    /// Takes a revision; `look` is asked for the object only if the value is the newest so far.
    pub fn take<'v>(&mut self, seen: &Seen<'v>, look: impl FnOnce(&'v [u8]) -> Object<'v>) {
        let hash = hash(seen.key);
        let space = self.space;
        let shard = space.shard(hash);
        {
            let mut shard = lock(shard);
            if let Some(number) = shard.find(hash)
                && let Some((key, sums)) = shard.key(number)
                && (seen.is_tombstone || key.valued().is_some_and(|valued| seen.revision <= valued))
            {
                note(&mut self.dropped, space.noted, Some(key), seen);
                return key.count(seen, sums, space.compacted);
            }
        }
        // Names are found, and values read, while nothing is locked.
        let place = self.place(seen.key);
        let is_helm = place.may_hold_helm && folder_and_name(seen.key).1.starts_with(b"sh.helm.release.v1.");
        let mut key = Kept {
            hash,
            latest: seen.revision,
            valued_behind: NONE,
            sums: NONE,
            place: place.number,
            label: 0,
            value_bytes: 0,
            latest_stored: short(seen.stored),
            managed_fields: 0,
            annotations: 0,
            last_applied: 0,
            key_bytes: u16::try_from(seen.key.len()).unwrap_or(u16::MAX),
            encoding: Encoding::Other as u8,
            flags: if is_helm { HELM } else { 0 } | if seen.is_tombstone { TOMBSTONE } else { 0 },
        };
        if space.mode == Mode::By(By::NamePrefix) {
            let text = String::from_utf8_lossy(seen.key);
            let parsed = space.parse(&text);
            key.label = if parsed.resource.is_empty() { place.number } else { self.name(&name_prefix(parsed.name)) };
        }
        let (mut label, mut links) = (key.label, Links::None);
        let object = if seen.is_tombstone { Object::default() } else { look(seen.value) };
        if !seen.is_tombstone {
            (label, links) = self.links(seen, &object, label);
        }
        let mut shard = lock(shard);
        let known = shard.find(hash);
        let number = known.unwrap_or_else(|| shard.insert(key, space.keeps_links()));
        let Some((key, sums)) = shard.key(number) else { return };
        note(&mut self.dropped, space.noted, known.map(|_| &*key), seen);
        if known.is_some() {
            key.count(seen, sums, space.compacted);
        }
        // Another thread may have met a newer value meanwhile.
        if !seen.is_tombstone && key.valued().is_none_or(|valued| seen.revision > valued) {
            key.value(seen, &object, label);
            shard.link(number, links);
        }
    }

    fn links(&mut self, seen: &Seen<'_>, object: &Object<'_>, label: u32) -> (u32, Links) {
        let hash = |uid: &str| if uid.is_empty() { 0 } else { xxh3_64(uid.as_bytes()) };
        match &self.space.mode {
            Mode::By(By::Kind) if !object.kind.is_empty() => (self.name(&format!("{}\0{}", object.api_version, object.kind)), Links::None),
            Mode::By(By::Label(_)) => (self.name(object.label.as_deref().unwrap_or_default()), Links::None),
            Mode::By(By::Owner) => {
                let owner = object.owner();
                let name = owner.map_or(0, |owner| self.name(&format!("{}\0{}", owner.kind, owner.name)));
                (label, Links::Owner(hash(&object.uid), owner.map_or(0, |owner| hash(&owner.uid)), name))
            }
            Mode::By(By::Manager) => {
                let mut managers: Vec<(u32, u64)> = Vec::new();
                for (manager, bytes) in &object.managers {
                    let name = self.name(manager);
                    match managers.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, sum)) => *sum += bytes,
                        None => managers.push((name, *bytes)),
                    }
                }
                (label, Links::Managers(managers.into()))
            }
            Mode::Links => {
                let owners = object.owners.iter().map(|owner| hash(&owner.uid)).collect();
                (label, Links::All(hash(&object.uid), seen.lease, owners))
            }
            Mode::Values => (label, Links::Value(xxh3_64(seen.value))),
            _ => (label, Links::None),
        }
    }

    /// Where a key is. Keys of one folder are in one place, so that few need to be taken apart.
    fn place(&mut self, key: &[u8]) -> Place {
        let folder = xxh3_64(folder_and_name(key).0);
        if let Some(known) = self.folders.get(&folder) {
            return *known;
        }
        let text = String::from_utf8_lossy(key);
        let parsed = self.space.parse(&text);
        let may_hold_helm = matches!(parsed.resource, "secrets" | "configmaps");
        let place = Place { number: self.name(parsed.prefix), may_hold_helm };
        // Without a name, as `/registry/foo`, the last part is one of the place.
        if !parsed.name.is_empty() {
            self.folders.insert(folder, place);
        }
        place
    }

    fn name(&mut self, text: &str) -> u32 {
        let hash = xxh3_64(text.as_bytes());
        *self.known.entry(hash).or_insert_with(|| lock(&self.space.names).intern(text).0)
    }
}
