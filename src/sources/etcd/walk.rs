//! One pass over a database: its buckets and pages, and every revision of every key, the newest first.

use super::bolt::{Bolt, Bucket, Damages, Element, Fill, Tree, Used, elements};
use super::mvcc::{KeyValue, Revision, key_value, revision};
use std::sync::Mutex;

/// Leaf pages that a thread takes at once: enough that little is locked, few enough that threads end together.
const RUN: usize = 256;

/// What is made of revisions, on one thread.
pub trait KeyWorker: Send {
    /// Takes a revision: a value, or a tombstone, with the bytes of its key and value in the file. Those of one run of pages come
    /// newest first; runs come in any order.
    fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, stored: usize);
}

/// What a pass gave beside what the workers made of it.
#[derive(Debug, Default)]
pub struct Walk {
    /// Every bucket and its tree.
    pub buckets: Vec<(String, Tree)>,
    /// Entries of buckets other than `key`, by bucket.
    pub entries: Vec<(String, u64)>,
    /// Values of the bucket `meta`.
    pub meta: Vec<(Vec<u8>, Vec<u8>)>,
    /// How full the leaf pages of the bucket `key` are.
    pub fills: Vec<Fill>,
    /// CRC-32C over the names of all buckets, their keys and values, as `etcdctl snapshot status` calls it the hash; only of a whole database.
    pub hash: u32,
    /// Entries of all buckets.
    pub entries_in_all: u64,
    /// The largest revision.
    pub revision: u64,
    /// Pages that belong to something.
    pub used_pages: u64,
    /// What is wrong.
    pub damages: Damages,
}

/// Walks through a database on `threads` threads, each with a worker that `make` makes.
pub fn walk<W: KeyWorker>(bolt: &Bolt, threads: usize, make: impl Fn() -> W + Sync) -> (Vec<W>, Walk) {
    let mut walk = Walk::default();
    let mut used = Used::new(bolt);
    let buckets = bolt.buckets(&mut used, &mut walk.damages);
    let mut workers = Vec::new();
    for bucket in &buckets {
        walk.hash = crc32c::crc32c_append(walk.hash, bucket.name.as_bytes());
        let tree = if bucket.root == 0 { Tree::default() } else { bolt.tree(bucket.root, &bucket.name, &mut used, &mut walk.damages) };
        if bucket.name == "key" && bucket.root == 0 {
            workers.push(inline_keys(bucket, make(), &mut walk));
        } else if bucket.name == "key" {
            workers = keys(bolt, bucket, &tree, threads, &make, &mut walk);
        } else {
            small(bolt, bucket, &tree, &mut walk);
        }
        walk.buckets.push((bucket.name.clone(), tree));
    }
    if bolt.meta.freelist != u64::MAX {
        // Only other users of bbolt store it; etcd finds free pages anew when it starts.
        used.take(bolt.meta.freelist);
    }
    walk.used_pages = used.count;
    (workers, walk)
}

/// A bucket of few entries.
fn small(bolt: &Bolt, bucket: &Bucket, tree: &Tree, walk: &mut Walk) {
    let mut count = 0;
    let mut meta = Vec::new();
    let mut hash = walk.hash;
    let mut take = |element: Element<'_>| {
        count += 1;
        hash = crc32c::crc32c_append(crc32c::crc32c_append(hash, element.key), element.value);
        if bucket.name == "meta" {
            meta.push((element.key.to_vec(), element.value.to_vec()));
        }
    };
    let mut buffer = Vec::new();
    if bucket.root == 0
        && !bucket.inline.is_empty()
        && let Err(what) = elements(&bucket.inline, &mut take)
    {
        walk.damages.add(0, &bucket.name, what);
    }
    for &leaf in &tree.leaves {
        if let Err(what) = bolt.leaf(leaf, &mut buffer, &mut take) {
            walk.damages.add(leaf, &bucket.name, what);
        }
    }
    walk.hash = hash;
    walk.entries_in_all += count;
    walk.entries.push((bucket.name.clone(), count));
    walk.meta.extend(meta);
}

/// The bucket `key` where it is so small that it stands in its parent's page, as after a compaction of a small database.
fn inline_keys<W: KeyWorker>(bucket: &Bucket, mut worker: W, walk: &mut Walk) -> W {
    let mut page: Vec<Element<'_>> = Vec::new();
    if !bucket.inline.is_empty()
        && let Err(what) = elements(&bucket.inline, |element| page.push(element))
    {
        walk.damages.add(0, &bucket.name, what);
    }
    for element in &page {
        walk.hash = crc32c::crc32c_append(crc32c::crc32c_append(walk.hash, element.key), element.value);
    }
    walk.entries_in_all += page.len() as u64;
    for element in page.iter().rev() {
        take(0, element, &mut worker, walk);
    }
    worker
}

/// The bucket `key`.
fn keys<W: KeyWorker>(
    bolt: &Bolt,
    bucket: &Bucket,
    tree: &Tree,
    threads: usize,
    make: &(impl Fn() -> W + Sync),
    walk: &mut Walk,
) -> Vec<W> {
    // The newest runs first, so that most keys are met first at the revision that lives.
    let runs = Mutex::new(tree.leaves.chunks(RUN).enumerate().rev());
    let done = Mutex::new(Vec::new());
    // By run: its CRC and how many bytes it is of.
    let sums = Mutex::new(vec![(0u32, 0usize); tree.leaves.len().div_ceil(RUN)]);
    let work = || {
        let mut worker = make();
        let mut mine = Walk::default();
        let mut buffer = Vec::new();
        loop {
            let next = runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
            let Some((number, run)) = next else { break };
            let mut sum = (0, 0);
            for &leaf in run {
                let mut page: Vec<Element<'_>> = Vec::new();
                match bolt.leaf(leaf, &mut buffer, |element| page.push(element)) {
                    Ok(fill) => mine.fills.push(fill),
                    Err(what) => mine.damages.add(leaf, &bucket.name, what),
                }
                for element in &page {
                    sum.0 = crc32c::crc32c_append(crc32c::crc32c_append(sum.0, element.key), element.value);
                    sum.1 += element.key.len() + element.value.len();
                }
                mine.entries_in_all += page.len() as u64;
                for element in page.iter().rev() {
                    take(leaf, element, &mut worker, &mut mine);
                }
            }
            sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[number] = sum;
        }
        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((worker, mine));
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, tree.leaves.len().div_ceil(RUN).max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let mut workers = Vec::new();
    for (worker, mine) in done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        workers.push(worker);
        walk.entries_in_all += mine.entries_in_all;
        walk.fills.extend(mine.fills);
        walk.revision = walk.revision.max(mine.revision);
        walk.damages.merge(mine.damages);
    }
    let sums = sums.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    walk.hash = sums.into_iter().fold(walk.hash, |hash, (sum, bytes)| crc32c::crc32c_combine(hash, sum, bytes));
    workers
}

fn take(leaf: u64, element: &Element<'_>, worker: &mut impl KeyWorker, walk: &mut Walk) {
    let Some((at, is_tombstone)) = revision(element.key) else {
        return walk.damages.add(leaf, "key", "has a key that is no revision");
    };
    let Some(kv) = key_value(element.value) else {
        return walk.damages.add(leaf, "key", format!("has a value that can't be read, of revision {}", at.main));
    };
    walk.revision = walk.revision.max(at.main);
    worker.revision(at, is_tombstone, &kv, element.key.len() + element.value.len());
}
