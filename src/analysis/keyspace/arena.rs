//! All keys of a database, as several threads meet their revisions. Of a key only its hash is kept, so that memory
//! grows with the number of keys alone: about 70 bytes each.

use super::key::{HELM, Key, NONE, StoredKey, Sums, TOMBSTONE, hash, short};
use super::stem::name_prefix;
use crate::model::keyspace::{Encoding, Object, Seen, Want};
use crate::model::question::KeysBy as By;
use crate::model::registry;
use crate::model::symbols::{Symbol, Symbols};
use hashbrown::{HashMap, HashTable};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Parts of the key space that are locked apart.
const SHARDS: usize = 64;
/// Keys that get room at once: a vector that doubled would take twice the memory while it grows.
const CHUNK: usize = 512;
/// Revisions that a thread gathers for a shard.
const TOGETHER: usize = 32;

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
    /// Its uid and its lease; no owner.
    Lease(u64, u64),
    /// Its uid and its owner's uid; no lease.
    Owned(u64, u64),
    /// Its uid, its lease, and the uids of all its owners, where there is more to say.
    All(Box<(u64, u64, Vec<u64>)>),
    /// The hash of the value.
    Value(u64),
}

impl Links {
    /// Uid, lease, and the uids of the owners, where these are kept.
    pub fn all(&self) -> Option<(u64, u64, &[u64])> {
        match self {
            Self::Lease(uid, lease) => Some((*uid, *lease, &[])),
            Self::Owned(uid, owner) => Some((*uid, 0, std::slice::from_ref(owner))),
            Self::All(all) => Some((all.0, all.1, &all.2)),
            _ => None,
        }
    }
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

/// Where a key is in its shard, with half of its hash: enough to pass over most others, and to grow the table, without
/// a look at them.
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
    keys: Vec<Vec<StoredKey>>,
    sums: Vec<Sums>,
    links: Vec<Vec<Links>>,
}

impl Shard {
    fn get(&self, number: u32) -> Option<&StoredKey> {
        self.keys.get(number as usize / CHUNK)?.get(number as usize % CHUNK)
    }

    /// Adds a revision, as a key of which it is the only one; notes which one is superseded by it.
    fn add(&mut self, one: &StoredKey, links: Links, space: &Keyspace, dropped: &mut Vec<(u64, u64)>) {
        let number = self.find(one.hash);
        let key =
            number.and_then(|number| self.keys.get_mut(number as usize / CHUNK)?.get_mut(number as usize % CHUNK));
        if space.noted > 0 {
            let older = key.as_ref().map(|key| key.latest.min(one.latest));
            let deleting = one.is(TOMBSTONE).then_some(one.latest);
            dropped.extend(
                older.into_iter().chain(deleting).filter(|main| *main <= space.noted).map(|main| (one.hash, main)),
            );
        }
        match (number, key) {
            (Some(number), Some(key)) => {
                if key.merge(one, &mut self.sums, space.compacted) {
                    self.link(number, links);
                }
            }
            _ => {
                let number = self.insert(*one, space.keeps_links());
                self.link(number, links);
            }
        }
    }

    fn find(&self, hash: u64) -> Option<u32> {
        let part = hash as u32;
        let is_it = |at: &At| at.part == part && self.get(at.number).is_some_and(|key| key.hash == hash);
        self.index.find(At::spread(part), is_it).map(|at| at.number)
    }

    fn insert(&mut self, key: StoredKey, keeps_links: bool) -> u32 {
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

    fn each(&self, compacted: u64, mut take: impl FnMut(&Key, &Links)) {
        for (number, chunk) in self.keys.iter().enumerate() {
            for (at, key) in chunk.iter().enumerate() {
                let links = self.links.get(number).and_then(|links| links.get(at)).unwrap_or(&Links::None);
                take(&key.key(&self.sums, compacted), links);
            }
        }
    }

    fn link(&mut self, number: u32, links: Links) {
        if let Some(place) =
            self.links.get_mut(number as usize / CHUNK).and_then(|chunk| chunk.get_mut(number as usize % CHUNK))
        {
            *place = links;
        }
    }
}

/// The shard of a key, by other bits than those by which its table finds a place.
fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// The keys.
#[derive(Debug)]
pub struct Keyspace {
    roots: Vec<String>,
    mode: Mode,
    /// The revision up to which history is compacted.
    compacted: u64,
    /// Revisions up to this one that are superseded are noted; 0 for none.
    noted: u64,
    names: Mutex<Symbols>,
    shards: Vec<Mutex<Shard>>,
}

impl Keyspace {
    /// An empty one. `root` is where the apiserver keeps its objects, if that is neither `/registry` nor OpenShift's
    /// place; `compacted` is the revision up to which history is compacted.
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
        let waiting = std::iter::repeat_with(|| Vec::with_capacity(TOGETHER)).take(SHARDS).collect();
        Hand { space: self, known: HashMap::new(), folders: HashMap::new(), waiting, dropped: Vec::new() }
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
        self.shards.iter().for_each(|shard| lock(shard).each(self.compacted, &mut take));
    }

    /// The same on `threads` threads, each of which adds up what it is given.
    pub fn fold<T: Default + Send>(&self, threads: usize, take: impl Fn(&mut T, &Key, &Links) + Sync) -> Vec<T> {
        let open = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let work = || {
            let mut sum = T::default();
            while let Some(shard) = self.shards.get(open.fetch_add(1, Ordering::Relaxed)) {
                lock(shard).each(self.compacted, |key, links| take(&mut sum, key, links));
            }
            lock(&done).push(sum);
        };
        // Should a thread panic, the scope does: no share is left out.
        std::thread::scope(|scope| {
            (1..threads.clamp(1, SHARDS)).for_each(|_| _ = scope.spawn(work));
            work();
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of this hash.
    pub fn get(&self, hash: u64) -> Option<(Key, Links)> {
        let shard = lock(&self.shards[shard_of(hash)]);
        let number = shard.find(hash)?;
        let links =
            shard.links.get(number as usize / CHUNK).and_then(|chunk| chunk.get(number as usize % CHUNK)).cloned();
        let key = shard.get(number)?;
        Some((key.key(&shard.sums, self.compacted), links.unwrap_or_default()))
    }

    fn keeps_links(&self) -> bool {
        matches!(self.mode, Mode::Links | Mode::Values | Mode::By(By::Owner | By::Manager))
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
    /// Revisions on their way into each shard: taken there together, they wait for its lock, and for memory, once.
    waiting: Vec<Vec<(StoredKey, Links)>>,
    /// Revisions that were superseded, or delete a key, with the hash of the key; as far as the keyspace lets them be
    /// noted.
    dropped: Vec<(u64, u64)>,
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.hand_over_all();
    }
}

impl Hand<'_> {
    /// Takes a revision; `look` is asked for the object only if the value is the newest so far.
    pub fn take<'v>(&mut self, seen: &Seen<'v>, look: impl FnOnce(&'v [u8]) -> Object<'v>) {
        let hash = hash(seen.key);
        {
            let shard = lock(&self.space.shards[shard_of(hash)]);
            let key = shard.find(hash).and_then(|number| shard.get(number));
            if key.and_then(StoredKey::valued).is_some_and(|valued| seen.revision <= valued) {
                drop(shard);
                return self.add(hash, seen, None);
            }
        }
        // Values are read while nothing is locked.
        let object = if seen.is_tombstone { Object::default() } else { look(seen.value) };
        self.add(hash, seen, Some(&object));
    }

    /// Takes a revision of which the object is known, or need not be.
    pub fn take_object(&mut self, seen: &Seen<'_>, object: &Object<'_>) {
        self.add(hash(seen.key), seen, Some(object));
    }

    /// Whether a key is that of an object of Kubernetes, and its value of no form that objects have.
    pub fn is_no_object(&self, seen: &Seen<'_>) -> bool {
        if Encoding::of(seen.value) != Encoding::Other {
            return false;
        }
        let text = String::from_utf8_lossy(seen.key);
        let parsed = self.space.parse(&text);
        !parsed.resource.is_empty() && !parsed.name.is_empty()
    }

    /// Ends the work; what was superseded, or deletes a key, and the hash of that.
    pub fn finish(mut self) -> Vec<(u64, u64)> {
        self.hand_over_all();
        std::mem::take(&mut self.dropped)
    }

    fn add(&mut self, hash: u64, seen: &Seen<'_>, object: Option<&Object<'_>>) {
        let mut key = self.key(hash, seen);
        let mut links = Links::None;
        if let (Some(object), false) = (object, seen.is_tombstone) {
            let label;
            (label, links) = self.links(seen, object);
            key.value(seen, object, label.unwrap_or(key.label));
            if self.is_no_object(seen) {
                key.cannot_be_read();
            }
        }
        let number = shard_of(hash);
        let waiting = &mut self.waiting[number];
        waiting.push((key, links));
        if waiting.len() == TOGETHER {
            self.hand_over(number);
        }
    }

    /// Adds all pending events.
    fn hand_over_all(&mut self) {
        let full = self.waiting.iter().enumerate().filter(|(_, waiting)| !waiting.is_empty());
        let full: Vec<usize> = full.map(|(number, _)| number).collect();
        full.into_iter().for_each(|number| self.hand_over(number));
    }

    /// Adds pending events to their shard.
    fn hand_over(&mut self, number: usize) {
        let Some(waiting) = self.waiting.get_mut(number) else { return };
        let mut shard = lock(&self.space.shards[number]);
        // Nothing of this waits for anything before it, so that the memory which is needed below is fetched at once.
        let known = waiting.iter().filter(|(key, _)| shard.find(key.hash).is_some()).count();
        std::hint::black_box(known);
        for (key, links) in waiting.drain(..) {
            shard.add(&key, links, self.space, &mut self.dropped);
        }
    }

    /// A key of which this is the only revision, without its value.
    fn key(&mut self, hash: u64, seen: &Seen<'_>) -> StoredKey {
        let place = self.place(seen.key);
        let is_helm = place.may_hold_helm && folder_and_name(seen.key).1.starts_with(b"sh.helm.release.v1.");
        let mut label = 0;
        if self.space.mode == Mode::By(By::NamePrefix) {
            let text = String::from_utf8_lossy(seen.key);
            let parsed = self.space.parse(&text);
            label = if parsed.resource.is_empty() { place.number } else { self.name(&name_prefix(parsed.name)) };
        }
        StoredKey {
            hash,
            latest: seen.revision,
            valued_behind: NONE,
            sums: NONE,
            place: place.number,
            label,
            value_bytes: 0,
            latest_stored: short(seen.stored),
            managed_fields: 0,
            annotations: 0,
            last_applied: 0,
            key_bytes: u16::try_from(seen.key.len()).unwrap_or(u16::MAX),
            encoding: Encoding::Other as u8,
            flags: if is_helm { HELM } else { 0 } | if seen.is_tombstone { TOMBSTONE } else { 0 },
        }
    }

    /// What of the object is kept beside its sizes: a label, where rows are made by one, and links.
    fn links(&mut self, seen: &Seen<'_>, object: &Object<'_>) -> (Option<u32>, Links) {
        let hash = |uid: &str| if uid.is_empty() { 0 } else { xxh3_64(uid.as_bytes()) };
        match &self.space.mode {
            Mode::By(By::Kind) => {
                let named = !object.kind.is_empty();
                (
                    Some(if named { self.name(&format!("{}\0{}", object.api_version, object.kind)) } else { 0 }),
                    Links::None,
                )
            }
            Mode::By(By::Label(_)) => (Some(self.name(object.label.as_deref().unwrap_or_default())), Links::None),
            Mode::By(By::Owner) => {
                let owner = object.owner();
                let name = owner.map_or(0, |owner| self.name(&format!("{}\0{}", owner.kind, owner.name)));
                (None, Links::Owner(hash(&object.uid), owner.map_or(0, |owner| hash(&owner.uid)), name))
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
                (None, Links::Managers(managers.into()))
            }
            Mode::Links => {
                let uid = hash(&object.uid);
                let links = match (&object.owners[..], seen.lease) {
                    ([], lease) => Links::Lease(uid, lease),
                    ([owner], 0) => Links::Owned(uid, hash(&owner.uid)),
                    (owners, lease) => {
                        Links::All(Box::new((uid, lease, owners.iter().map(|owner| hash(&owner.uid)).collect())))
                    }
                };
                (None, links)
            }
            Mode::Values => (None, Links::Value(xxh3_64(seen.value))),
            _ => (None, Links::None),
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
