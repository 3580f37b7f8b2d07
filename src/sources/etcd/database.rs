//! A database of etcd: its buckets, what stands in the small ones, and a pass over every revision of every key.

use super::bolt::{Bolt, Bucket, Damages, Element, Fault, Leaf, Tree, Used};
use super::mvcc::{KeyValue, Revision, key_value, revision};
use super::store::Store;
use crate::model::keyspace::BucketPages;
use std::sync::{Mutex, PoisonError};

/// Leaf pages that a thread takes at once: enough that little is locked and few sums are put together, few enough that
/// threads end together.
fn run_of(leaves: usize) -> usize {
    (leaves / 128).clamp(64, 4096)
}

/// The bucket that holds the keys.
const KEY: &str = "key";
/// The bucket that etcd makes at its first start.
const META: &str = "meta";

/// A bbolt file of another program: raft's log, containerd's metadata.
#[derive(Debug, thiserror::Error)]
#[error("a bbolt file, but not etcd's: {}; etcd's has the buckets key and meta, and is at member/snap/db", buckets(.0))]
pub struct Foreign(pub Vec<String>);

/// Names of buckets that a message has room for.
const NAMED: usize = 10;

fn buckets(names: &[String]) -> String {
    if names.is_empty() {
        return "it has no buckets".to_owned();
    }
    let short = |name: &String| name.chars().take(40).collect::<String>().escape_debug().to_string();
    let mut named: Vec<String> = names.iter().take(NAMED).map(short).collect();
    if names.len() > NAMED {
        named.push(format!("and {} more", names.len() - NAMED));
    }
    format!("its buckets are {}", named.join(", "))
}

/// What is made of revisions, on one thread.
pub trait KeyWorker: Send {
    /// Takes a revision: a value, or a tombstone, with the bytes of its key and value in the file. Those of one run of
    /// pages come newest first; runs come in any order.
    fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, stored: usize);
}

/// Of a pass that is made for what it says of pages, sums and damage.
impl KeyWorker for () {
    fn revision(&mut self, _: Revision, _: bool, _: &KeyValue<'_>, _: usize) {}
}

/// A bucket's pages as a tree has them, before its leaves are read.
fn pages_of(name: &str, tree: &Tree) -> BucketPages {
    BucketPages {
        name: name.to_owned(),
        depth: tree.depth,
        branches: tree.branches,
        leaves: tree.leaves.len() as u64,
        overflow: tree.overflow,
        branch_fills: tree.fills.clone(),
        ..BucketPages::default()
    }
}

/// CRC-32C over a bucket's name, keys and values, going on from `sum`.
fn hash(bucket: &BucketPages, sum: u32) -> u32 {
    crc32c::crc32c_combine(crc32c::crc32c_append(sum, bucket.name.as_bytes()), bucket.sum.0, bucket.sum.1)
}

/// An open database whose small buckets are read.
#[derive(Debug)]
pub struct Database {
    /// The file.
    pub bolt: Bolt,
    /// What stands in the small buckets.
    pub store: Store,
    /// What is wrong with these, with the root, and with the branches of the keys' tree.
    pub damages: Damages,
    /// The root's pages, and those of all buckets but `key`, in the order of names.
    small: Vec<BucketPages>,
    keys: Option<(Bucket, Tree)>,
    used: Used,
}

/// What a pass over the keys gave beside what the workers made of it.
#[derive(Debug)]
pub struct Walk {
    /// The root and every bucket, in the order of names.
    pub buckets: Vec<BucketPages>,
    /// CRC-32C over the names of all buckets, their keys and values, as `etcdctl snapshot status` gives it; `None` if
    /// not asked for.
    pub hash: Option<u32>,
    /// The runs of leaf pages of the keys, if hashes were asked for.
    runs: Vec<Run>,
    /// The largest revision.
    pub revision: u64,
    /// Pages that belong to something.
    pub used: Used,
    /// What is wrong, in the whole file.
    pub damages: Damages,
}

/// What one thread adds up.
#[derive(Debug, Default)]
struct Part {
    entries: u64,
    overflow: u64,
    fills: Vec<f32>,
    revision: u64,
    damages: Damages,
}

/// A run of leaves: its CRC, of how many bytes, and its first and last key.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    sum: (u32, usize),
    ends: Ends,
}

/// The first and the last revision, each with its page.
type Ends = Option<((Revision, u64), (Revision, u64))>;

impl Database {
    /// Reads the trees and all small buckets. A file without etcd's buckets is another program's, unless it is damaged
    /// where they are named.
    pub fn read(bolt: Bolt) -> Result<Self, Foreign> {
        let used = Used::new(&bolt);
        let mut damages = Damages::default();
        let mut database =
            Self { store: Store::default(), small: Vec::new(), keys: None, used, damages: Damages::default(), bolt };
        let mut found = Vec::new();
        let root = Bucket { name: String::new(), root: database.bolt.meta.root, inline: Vec::new() };
        database.small_bucket(&root, &mut damages, |element| {
            if element.is_bucket && element.value.len() >= 16 {
                let root = element.value.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
                let inline = if root == 0 { element.value[16..].to_vec() } else { Vec::new() };
                found.push(Bucket { name: String::from_utf8_lossy(element.key).into_owned(), root, inline });
            }
        });
        let has = |name: &str| found.iter().any(|bucket| bucket.name == name);
        if damages.count() == 0 && !has(KEY) {
            return Err(Foreign(found.into_iter().map(|bucket| bucket.name).collect()));
        }
        if !has(META) {
            damages.add(root.root, "", "has no bucket meta, which etcd always creates");
        }
        let mut store = Store::default();
        for bucket in found {
            if bucket.name == KEY {
                let tree = if bucket.root == 0 {
                    Tree::default()
                } else {
                    database.bolt.tree(bucket.root, KEY, &database.used, &mut damages)
                };
                database.keys = Some((bucket, tree));
            } else {
                database.small_bucket(&bucket, &mut damages, |element| store.take(&bucket.name, &element));
            }
        }
        match database.bolt.free_list() {
            Some(Ok((pages, listed))) => {
                let id = database.bolt.meta.freelist;
                if !database.used.take(id) {
                    damages.add(id, "", "is the free-list, and referenced elsewhere too");
                }
                database.used.take_overflow(id, pages, "", &mut damages);
                store.free_list = Some(listed);
            }
            Some(Err(what)) => damages.add(database.bolt.meta.freelist, "", what.to_string()),
            None => {}
        }
        (database.store, database.damages) = (store, damages);
        Ok(database)
    }

    /// Leaf pages of the keys: about as many as there are keys, for values of average size.
    pub fn key_pages(&self) -> usize {
        self.keys.as_ref().map_or(0, |(_, tree)| tree.leaves.len())
    }

    /// Gives the keys that were written in a transaction to `each`. In a damaged tree they may not be found.
    pub fn keys_of(&self, transaction: u64, mut each: impl FnMut(&[u8])) {
        let Some((bucket, tree)) = &self.keys else { return };
        // Notifies whether there may be more behind.
        let mut take = |leaf: Leaf<'_>| {
            for element in leaf.iter() {
                match revision(element.key) {
                    Some((at, _)) if at.main > transaction => return false,
                    Some((at, _)) if at.main == transaction => {
                        key_value(element.value).into_iter().for_each(|kv| each(kv.key))
                    }
                    _ => {}
                }
            }
            true
        };
        if bucket.root == 0 {
            Leaf::new(&bucket.inline).into_iter().for_each(|leaf| _ = take(leaf));
            return;
        }
        // Of several leaves that begin with this transaction, the one before the first may end with it.
        let start = tree.lower.partition_point(|lower| *lower < transaction).saturating_sub(1);
        for id in &tree.leaves[start.min(tree.leaves.len())..] {
            if !self.bolt.leaf(*id).map_or(true, |(leaf, _)| take(leaf)) {
                break;
            }
        }
    }

    /// Gives the values in so many of the last leaf pages to `each`: those that were written last.
    pub fn last_values(&self, leaves: usize, mut each: impl FnMut(&[u8])) {
        let Some((bucket, tree)) = &self.keys else { return };
        let mut take = |leaf: Leaf<'_>| {
            for element in leaf.iter() {
                if let Some((_, false)) = revision(element.key)
                    && let Some(kv) = key_value(element.value)
                {
                    each(kv.value);
                }
            }
        };
        if bucket.root == 0 {
            Leaf::new(&bucket.inline).into_iter().for_each(take);
            return;
        }
        for id in &tree.leaves[tree.leaves.len().saturating_sub(leaves)..] {
            self.bolt.leaf(*id).into_iter().for_each(|(leaf, _)| take(leaf));
        }
    }

    fn small_bucket(&mut self, bucket: &Bucket, damages: &mut Damages, mut each: impl FnMut(Element<'_>)) {
        let is_inline = bucket.root == 0;
        let tree =
            if is_inline { Tree::default() } else { self.bolt.tree(bucket.root, &bucket.name, &self.used, damages) };
        let mut pages = pages_of(&bucket.name, &tree);
        let mut before: Vec<u8> = Vec::new();
        let mut take = |id: u64, leaf: Leaf<'_>, damages: &mut Damages| {
            let (sum, bytes) = leaf.sum(pages.sum.0);
            pages.sum = (sum, pages.sum.1 + bytes);
            for element in leaf.iter() {
                if pages.entries > 0 && element.key <= before.as_slice() {
                    damages.add_fault(Fault::Order, id, &bucket.name, "has keys that do not ascend");
                }
                if element.is_bucket && !bucket.name.is_empty() {
                    damages.add_fault(
                        Fault::Entry,
                        id,
                        &bucket.name,
                        "has a nested bucket, which etcd never creates; its pages are not counted",
                    );
                }
                before.clear();
                before.extend_from_slice(element.key);
                pages.entries += 1;
                each(element);
            }
        };
        if is_inline && !bucket.inline.is_empty() {
            match Leaf::new(&bucket.inline) {
                Ok(leaf) => take(0, leaf, damages),
                Err(what) => damages.add(0, &bucket.name, what.to_string()),
            }
        }
        let mut fills = Vec::new();
        let mut overflow = 0;
        for &id in &tree.leaves {
            match self.bolt.leaf(id) {
                Ok((leaf, count)) => {
                    overflow += count - 1;
                    self.used.take_overflow(id, count, &bucket.name, damages);
                    fills.push(leaf.fill.share());
                    take(id, leaf, damages);
                }
                Err(what) => damages.add(id, &bucket.name, what.to_string()),
            }
        }
        pages.overflow += overflow;
        pages.leaf_fills = fills;
        self.small.push(pages);
    }

    /// Goes over every revision on `threads` threads, each with a worker that `make` makes; sums up all bytes if
    /// `hashes`.
    pub fn walk<W: KeyWorker>(&self, threads: usize, hashes: bool, make: impl Fn() -> W + Sync) -> (Vec<W>, Walk) {
        let mut walk = Walk {
            buckets: self.small.clone(),
            hash: None,
            runs: Vec::new(),
            revision: 0,
            used: self.used.clone(),
            damages: self.damages.clone(),
        };
        let workers = match &self.keys {
            None => Vec::new(),
            Some((bucket, tree)) => {
                let (workers, pages) = if bucket.root == 0 {
                    let mut worker = make();
                    let pages = self.inline_keys(bucket, &mut worker, &mut walk);
                    (vec![worker], pages)
                } else {
                    self.keys(tree, threads, hashes, &make, &mut walk)
                };
                walk.buckets.push(pages);
                walk.buckets.sort_by(|a, b| a.name.cmp(&b.name));
                workers
            }
        };
        // The root is no bucket of its own: its entries are the others.
        let buckets = walk.buckets.iter().filter(|bucket| !bucket.name.is_empty());
        walk.hash = hashes.then(|| buckets.fold(0, |sum, bucket| hash(bucket, sum)));
        (workers, walk)
    }

    /// CRC-32C over the keys alone, without what the last compaction that was asked for has dropped or will drop: as
    /// `etcdctl endpoint hashkv` gives it, whether or not the compaction has ended. `dropped` are the transactions of
    /// which something was dropped, ascending; `is_dropped` reports a key's text and transaction whether it was.
    /// (Source: etcd server/storage/mvcc/hash.go.)
    pub fn kv_hash(
        &self,
        walk: &Walk,
        threads: usize,
        dropped: &[u64],
        is_dropped: impl Fn(&[u8], u64) -> bool + Sync,
    ) -> u32 {
        let start = crc32c::crc32c(KEY.as_bytes());
        let sum_of = |leaf: &Leaf<'_>, sum: (u32, usize)| {
            leaf.iter().fold(sum, |(sum, bytes), element| {
                let is_out = revision(element.key).is_some_and(|(at, _)| {
                    dropped.binary_search(&at.main).is_ok()
                        && key_value(element.value).is_some_and(|kv| is_dropped(kv.key, at.main))
                });
                if is_out {
                    return (sum, bytes);
                }
                let sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, element.key), element.value);
                (sum, bytes + element.key.len() + element.value.len())
            })
        };
        let Some((bucket, tree)) = &self.keys else { return start };
        if bucket.root == 0 {
            return Leaf::new(&bucket.inline).map_or(start, |leaf| sum_of(&leaf, (start, 0)).0);
        }
        // Only runs of which something was dropped are summed up again.
        let is_touched = |run: &Run| {
            run.ends.is_some_and(|((first, _), (last, _))| {
                dropped.partition_point(|main| *main < first.main) < dropped.partition_point(|main| *main <= last.main)
            })
        };
        let sums: Vec<Mutex<(u32, usize)>> = walk.runs.iter().map(|run| Mutex::new(run.sum)).collect();
        let runs = walk.runs.iter().zip(tree.leaves.chunks(run_of(tree.leaves.len()))).zip(&sums);
        let open = Mutex::new(runs.filter(|((run, _), _)| is_touched(run)));
        let work = || {
            loop {
                let next = open.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(((_, leaves), place)) = next else { break };
                let leaves = leaves.iter().filter_map(|id| self.bolt.leaf(*id).ok());
                let sum = leaves.fold((0, 0), |sum, (leaf, _)| sum_of(&leaf, sum));
                *place.lock().unwrap_or_else(PoisonError::into_inner) = sum;
            }
        };
        std::thread::scope(|scope| {
            (1..threads.max(1)).for_each(|_| _ = scope.spawn(work));
            work();
        });
        sums.into_iter().fold(start, |whole, sum| {
            let (sum, bytes) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
            crc32c::crc32c_combine(whole, sum, bytes)
        })
    }

    /// The bucket `key` where it is so small that it stands in its parent's page, as after a compaction of a small
    /// database.
    fn inline_keys<W: KeyWorker>(&self, bucket: &Bucket, worker: &mut W, walk: &mut Walk) -> BucketPages {
        let mut pages = pages_of(KEY, &Tree::default());
        if bucket.inline.is_empty() {
            return pages;
        }
        let mut part = Part::default();
        match Leaf::new(&bucket.inline) {
            Ok(leaf) => {
                pages.sum = leaf.sum(0);
                pages.entries = leaf.len() as u64;
                take_leaf(0, &leaf, 0, worker, &mut part);
            }
            Err(what) => part.damages.add(0, KEY, what.to_string()),
        }
        walk.revision = part.revision;
        walk.damages.merge(part.damages);
        pages
    }

    fn keys<W: KeyWorker>(
        &self,
        tree: &Tree,
        threads: usize,
        hashes: bool,
        make: &(impl Fn() -> W + Sync),
        walk: &mut Walk,
    ) -> (Vec<W>, BucketPages) {
        // The newest runs first, so that most keys are met first at the revision that lives.
        let length = run_of(tree.leaves.len());
        let open = Mutex::new(tree.leaves.chunks(length).zip(tree.lower.chunks(length)).enumerate().rev());
        let done = Mutex::new(Vec::new());
        let runs = Mutex::new(vec![Run::default(); tree.leaves.len().div_ceil(length)]);
        let used = &walk.used;
        let work = || {
            let mut worker = make();
            let mut mine = Part::default();
            loop {
                let next = open.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((number, (leaves, lower))) = next else { break };
                let mut run = Run::default();
                for (&id, lower) in leaves.iter().zip(lower) {
                    let (leaf, pages) = match self.bolt.leaf(id) {
                        Ok(read) => read,
                        Err(what) => {
                            mine.damages.add(id, KEY, what.to_string());
                            continue;
                        }
                    };
                    used.take_overflow(id, pages, KEY, &mut mine.damages);
                    mine.overflow += pages - 1;
                    mine.fills.push(leaf.fill.share());
                    mine.entries += leaf.len() as u64;
                    if hashes {
                        let (sum, bytes) = leaf.sum(run.sum.0);
                        run.sum = (sum, run.sum.1 + bytes);
                    }
                    let ends = take_leaf(id, &leaf, *lower, &mut worker, &mut mine);
                    run.join(id, ends, &mut mine.damages);
                }
                runs.lock().unwrap_or_else(PoisonError::into_inner)[number] = run;
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((worker, mine));
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.clamp(1, tree.leaves.len().div_ceil(length).max(1)) {
                scope.spawn(work);
            }
            work();
        });
        let mut pages = pages_of(KEY, tree);
        let mut workers = Vec::new();
        for (worker, mine) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
            workers.push(worker);
            pages.entries += mine.entries;
            pages.overflow += mine.overflow;
            pages.leaf_fills.extend(mine.fills);
            walk.revision = walk.revision.max(mine.revision);
            walk.damages.merge(mine.damages);
        }
        let mut whole = Run::default();
        walk.runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
        for run in &walk.runs {
            whole.sum = (crc32c::crc32c_combine(whole.sum.0, run.sum.0, run.sum.1), whole.sum.1 + run.sum.1);
            if let Some(((_, id), _)) = run.ends {
                whole.join(id, run.ends, &mut walk.damages);
            }
        }
        pages.sum = whole.sum;
        (workers, pages)
    }
}

impl Run {
    /// Adds what comes next, which must be behind all that is here; `id` is the page that it begins with.
    fn join(&mut self, id: u64, next: Ends, damages: &mut Damages) {
        let Some((first, last)) = next else { return };
        self.ends = match self.ends {
            None => Some((first, last)),
            Some((begin, (end, page))) => {
                if end >= first.0 {
                    damages.add_fault(
                        Fault::Order,
                        id,
                        KEY,
                        format!("begins with a key that does not follow those of page {page}"),
                    );
                }
                Some((begin, last))
            }
        };
    }
}

/// Gives the revisions of a leaf to the worker, the newest first, after a look at their order. Returns the first and
/// the last of them, each with its page.
fn take_leaf(id: u64, leaf: &Leaf<'_>, lower: u64, worker: &mut impl KeyWorker, part: &mut Part) -> Ends {
    let mut ends: Ends = None;
    for element in leaf.iter().rev() {
        let Some((at, is_tombstone)) = revision(element.key) else {
            part.damages.add_fault(Fault::Entry, id, KEY, "has a key that is not a revision");
            continue;
        };
        ends = match ends {
            None => Some(((at, id), (at, id))),
            Some(((next, _), last)) => {
                if at >= next {
                    part.damages.add_fault(Fault::Order, id, KEY, "has keys that do not ascend");
                }
                Some(((at, id), last))
            }
        };
        let Some(kv) = key_value(element.value) else {
            part.damages.add_fault(
                Fault::Entry,
                id,
                KEY,
                format!("has a value that can't be read, of revision {}", at.main),
            );
            continue;
        };
        part.revision = part.revision.max(at.main);
        worker.revision(at, is_tombstone, &kv, element.key.len() + element.value.len());
    }
    if ends.is_some_and(|((first, _), _)| first.main < lower) {
        part.damages.add_fault(Fault::Order, id, KEY, "begins with a key below the one in its branch page");
    }
    ends
}
