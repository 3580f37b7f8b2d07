//! bbolt's file format, read-only: meta pages, trees of branch and leaf pages, buckets.
//! (Source: go.etcd.io/bbolt, internal/common. Numbers are little-endian, as on every machine that etcd supports.)
//!
//! Nothing of the file is trusted: every place is checked before it is read, a page is visited once, and what is
//! wrong is reported with its page and left out.

use super::map::Data;
use crate::model::problem::Problem;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a page's header.
const HEADER: usize = 16;
/// Bytes of an element of a branch or leaf page.
const ELEMENT: usize = 16;
const MAGIC: u32 = 0xED0C_DAED;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const META: u16 = 4;
const FREE: u16 = 0x10;
/// The flags that show what a page is.
const KINDS: u16 = BRANCH | LEAF | META | FREE;
/// Trees are not deeper: with two children a page, that would be more pages than any file has.
const DEEPEST: usize = 64;
/// Damage that is described; more is counted.
const MAX_LISTED: usize = 100;

/// What sort of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A page that can't be read, or belongs to more than one place.
    Page,
    /// Keys that do not ascend.
    Order,
    /// An entry that is none of etcd's.
    Entry,
}

/// What is wrong with a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// What sort of thing.
    pub fault: Fault,
    /// The page's number.
    pub page: u64,
    /// The bucket whose tree it belongs to; empty for the root.
    pub bucket: String,
    /// In words.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.bucket.is_empty() { String::new() } else { format!(" of bucket {}", self.bucket) };
        write!(f, "page {}{of}: {}", self.page, self.what)
    }
}

/// All that was found to be wrong.
#[derive(Debug, Clone, Default)]
pub struct Damages {
    /// The first of them.
    pub listed: Vec<Damage>,
    /// How many there are, by [`Fault`].
    pub counts: [u64; 3],
}

impl Damages {
    /// Adds a page that can't be read, or belongs to more than one place.
    pub fn add(&mut self, page: u64, bucket: &str, what: impl Into<String>) {
        self.add_fault(Fault::Page, page, bucket, what);
    }

    /// Adds one of any sort.
    pub fn add_fault(&mut self, fault: Fault, page: u64, bucket: &str, what: impl Into<String>) {
        self.counts[fault as usize] += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(Damage { fault, page, bucket: bucket.to_owned(), what: what.into() });
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds another's.
    pub fn merge(&mut self, other: Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        let room = MAX_LISTED.saturating_sub(self.listed.len());
        self.listed.extend(other.listed.into_iter().take(room));
    }
}

/// A meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Bytes of a page.
    pub page_size: u32,
    /// Page of the root bucket.
    pub root: u64,
    /// Page of the free-list; all ones where it is not stored, as etcd wants it.
    pub freelist: u64,
    /// Pages of the database: the first number that is not used.
    pub pages: u64,
    /// Transaction that wrote it.
    pub transaction: u64,
}

/// Neither meta page is valid.
#[derive(Debug, thiserror::Error)]
#[error(
    "not a bbolt database, or both of its meta pages are damaged; etcd's file is member/snap/db, a snapshot is made \
     by etcdctl snapshot save"
)]
pub struct NoMeta;

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// FNV-1a, as bbolt sums its meta pages.
fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Meta {
    /// Reads a meta page; `None` unless its checksum is right.
    fn parse(page: &[u8]) -> Option<Self> {
        let meta = page.get(HEADER..HEADER + 64)?;
        let valid = u32_at(meta, 0) == MAGIC && u32_at(meta, 4) == 2 && u64_at(meta, 56) == fnv64(&meta[..56]);
        let page_size = u32_at(meta, 8);
        let sane = page_size.is_power_of_two() && (512..=1 << 20).contains(&page_size);
        (valid && sane && u16_at(page, 8) & META != 0).then(|| Self {
            page_size,
            root: u64_at(meta, 16),
            freelist: u64_at(meta, 32),
            pages: u64_at(meta, 40),
            transaction: u64_at(meta, 48),
        })
    }
}

/// A bucket of the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its name; the root's own is empty.
    pub name: String,
    /// Its root page; 0 where it is inline.
    pub root: u64,
    /// Its leaf page, where it is inline.
    pub inline: Vec<u8>,
}

/// The pages of a bucket's tree, as its branch pages name them. The leaves are yet to be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    /// Leaf pages in the order of their keys.
    pub leaves: Vec<u64>,
    /// For each leaf, the first 8 bytes of the key under which its branch names it, as a number: none of the leaf's
    /// keys is below. 0 where there is none.
    pub lower: Vec<u64>,
    /// Branch pages.
    pub branches: u64,
    /// Pages that branches overflow into.
    pub overflow: u64,
    /// Pages from the root to a leaf.
    pub depth: usize,
    /// How full the branch pages are.
    pub fills: Vec<f32>,
}

/// An open database.
#[derive(Debug)]
pub struct Bolt {
    data: Data,
    /// The meta page that counts.
    pub meta: Meta,
    /// Which of the two meta pages are valid.
    pub metas_valid: [bool; 2],
    pub file_bytes: u64,
    /// Whether a snapshot's SHA-256 stands behind the pages.
    pub is_snapshot: bool,
}

impl Bolt {
    /// Opens a database: reads its meta pages.
    pub fn open(data: Data) -> Result<Self, NoMeta> {
        let bytes = data.bytes();
        let file_bytes = bytes.len() as u64;
        let read = |offset: usize| Meta::parse(bytes.get(offset..offset + HEADER + 64)?);
        let first = read(0);
        // Without the first, the size of a page is not known.
        let second = match first {
            Some(meta) => read(meta.page_size as usize),
            None => (10..17).find_map(|bits| read(1 << bits).filter(|meta| meta.page_size == 1 << bits)),
        };
        let meta = [first, second].into_iter().flatten().max_by_key(|meta| meta.transaction).ok_or(NoMeta)?;
        let is_snapshot = file_bytes % 512 == 32;
        Ok(Self { data, meta, metas_valid: [first.is_some(), second.is_some()], file_bytes, is_snapshot })
    }

    /// Whether it is a file that is mapped, and not held in memory.
    pub fn is_mapped(&self) -> bool {
        matches!(self.data, Data::Mapped(..))
    }

    /// Bytes that the database counts as its own: what etcd compares with its quota.
    pub fn db_bytes(&self) -> u64 {
        self.meta.pages.saturating_mul(u64::from(self.meta.page_size))
    }

    /// A page with what it overflows into, and of how many pages that is. `Err` says what is wrong.
    fn page(&self, id: u64) -> Result<(&[u8], u64), Problem> {
        if id < 2 || id >= self.meta.pages {
            return Err(Problem::damaged(format!("is not among the database's {} pages", self.meta.pages)));
        }
        let size = u64::from(self.meta.page_size);
        let slice = |pages: u64| {
            let start = usize::try_from(id.checked_mul(size)?).ok()?;
            self.data.bytes().get(start..start.checked_add(usize::try_from(pages.checked_mul(size)?).ok()?)?)
        };
        let page = slice(1).ok_or_else(|| Problem::damaged("is beyond the end of the file"))?;
        if u64_at(page, 0) != id {
            return Err(Problem::damaged(format!("is labelled page {}", u64_at(page, 0))));
        }
        let pages = u64::from(u32_at(page, 12)) + 1;
        match slice(pages).filter(|_| pages == 1 || id + pages <= self.meta.pages) {
            Some(bytes) => {
                self.data.looked_at(bytes.len());
                Ok((bytes, pages))
            }
            None => Err(Problem::damaged(format!("overflows into {} pages, more than there are", pages - 1))),
        }
    }

    /// The kind of a page by its header alone; `None` where there is none.
    fn flags(&self, id: u64) -> Option<u16> {
        let start = usize::try_from(id.checked_mul(u64::from(self.meta.page_size))?).ok()?;
        (id >= 2 && id < self.meta.pages).then_some(())?;
        Some(u16_at(self.data.bytes().get(start..start.checked_add(HEADER)?)?, 8) & KINDS)
    }

    /// The tree of a bucket: the pages of its branches, and which its leaves are, each once. All leaves are equally
    /// deep, as bbolt wants it.
    pub fn tree(&self, root: u64, bucket: &str, used: &Used, damages: &mut Damages) -> Tree {
        let mut tree = Tree::default();
        // Branches to visit, the next last, with their depth.
        let mut open = Vec::new();
        match self.flags(root) {
            Some(BRANCH) => open.push((root, 1)),
            // What it is, or why it can't be read, is found when it is read as a leaf.
            _ if used.take(root) => {
                (tree.depth, tree.leaves, tree.lower) = (1, vec![root], vec![0]);
            }
            _ => damages.add(root, bucket, "is referenced more than once"),
        }
        while let Some((id, depth)) = open.pop() {
            if !used.take(id) {
                damages.add(id, bucket, "is referenced more than once");
                continue;
            }
            let children = self.page(id).and_then(|(bytes, pages)| {
                tree.overflow += pages - 1;
                used.take_overflow(id, pages, bucket, damages);
                branch(bytes)
            });
            let (children, fill) = match children {
                Ok(children) => children,
                Err(what) => {
                    damages.add(id, bucket, what.to_string());
                    continue;
                }
            };
            tree.branches += 1;
            tree.fills.push(fill.share());
            if !children.is_sorted_by(|a, b| a.key < b.key) {
                damages.add_fault(Fault::Order, id, bucket, "has keys that do not ascend");
            }
            let kind = children.iter().find_map(|child| self.flags(child.id));
            if depth >= DEEPEST {
                damages.add(id, bucket, "is too deep in the tree");
            } else if kind == Some(BRANCH) {
                // The last is pushed first, so that leaves come in order.
                open.extend(children.iter().rev().map(|child| (child.id, depth + 1)));
            } else {
                tree.depth = tree.depth.max(depth + 1);
                for Child { id, key } in children {
                    if used.take(id) {
                        tree.leaves.push(id);
                        tree.lower.push(key.0);
                    } else {
                        damages.add(id, bucket, "is referenced more than once");
                    }
                }
            }
        }
        tree
    }

    /// A leaf page, and of how many pages it is with those that it overflows into.
    pub fn leaf(&self, id: u64) -> Result<(Leaf<'_>, u64), Problem> {
        let (bytes, pages) = self.page(id)?;
        match u16_at(bytes, 8) & KINDS {
            LEAF => Ok((Leaf::new(bytes)?, pages)),
            BRANCH => Err(Problem::damaged("is a branch where a leaf is required")),
            flags => Err(Problem::damaged(format!("is neither branch nor leaf (flags {flags:#x})"))),
        }
    }

    /// The pages of the stored free-list, and the pages that it lists; `None` where it is not stored, as etcd wants it.
    pub fn free_list(&self) -> Option<Result<(u64, Vec<u64>), Problem>> {
        if self.meta.freelist == u64::MAX {
            return None;
        }
        Some(self.page(self.meta.freelist).and_then(|(bytes, pages)| {
            if u16_at(bytes, 8) & KINDS != FREE {
                return Err(Problem::damaged("is not a free-list"));
            }
            // A longer list has its count in front.
            let (count, at) = match u16_at(bytes, 10) {
                u16::MAX => (u64_at(bytes, HEADER), HEADER + 8),
                count => (u64::from(count), HEADER),
            };
            let ids = bytes.get(at..).unwrap_or_default().chunks_exact(8);
            if count > ids.len() as u64 {
                return Err(Problem::damaged(format!("is a free-list with {count} pages, which is impossible")));
            }
            Ok((pages, ids.take(count as usize).map(|id| u64_at(id, 0)).collect()))
        }))
    }

    /// SHA-256 of all that stands before a snapshot's trailer, and the trailer; `None` where there is none.
    pub fn trailer(&self) -> Option<(Vec<u8>, &[u8])> {
        use sha2::Digest;
        let (content, trailer) = self.data.bytes().split_at_checked(self.data.bytes().len().checked_sub(32)?)?;
        self.is_snapshot.then(|| {
            let mut sum = sha2::Sha256::new();
            for part in content.chunks(1 << 20) {
                sum.update(part);
                self.data.looked_at(part.len());
            }
            (sum.finalize().to_vec(), trailer)
        })
    }
}

/// A child of a branch.
struct Child {
    id: u64,
    /// The first 17 bytes of its key, all of a revision, as numbers.
    key: (u64, u64, u8),
}

/// The children of a branch page, and how full the page is.
fn branch(bytes: &[u8]) -> Result<(Vec<Child>, Fill), Problem> {
    let count = usize::from(u16_at(bytes, 10));
    if u16_at(bytes, 8) & KINDS != BRANCH {
        return Err(Problem::damaged("is not a branch"));
    }
    if count == 0 || HEADER + count * ELEMENT > bytes.len() {
        return Err(Problem::damaged(format!("is a branch with {count} children, which is impossible")));
    }
    let mut used = HEADER + count * ELEMENT;
    let mut children = Vec::with_capacity(count);
    for n in 0..count {
        let at = HEADER + n * ELEMENT;
        let (pos, ksize) = (u32_at(bytes, at) as usize, u32_at(bytes, at + 4) as usize);
        let key = bytes.get(at + pos..(at + pos).saturating_add(ksize));
        let key = key.ok_or_else(|| Problem::damaged(format!("has an element ({n}) that reaches beyond it")))?;
        let mut first = [0; 17];
        match key.first_chunk() {
            Some(whole) => first = *whole,
            None => first[..ksize].copy_from_slice(key),
        }
        // Numbers on the page are little-endian, keys ascend by their first byte.
        let number = |at| u64_at(&first, at).swap_bytes();
        used += ksize;
        children.push(Child { id: u64_at(bytes, at + 8), key: (number(0), number(8), first[16]) });
    }
    Ok((children, Fill { used, of: bytes.len() }))
}

/// How full a page is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fill {
    /// Bytes of header, elements, keys and values.
    pub used: usize,
    /// Bytes of the page, with those it overflows into.
    pub of: usize,
}

impl Fill {
    /// The part that is used.
    pub fn share(self) -> f32 {
        if self.of == 0 { 0.0 } else { (self.used as f64 / self.of as f64) as f32 }
    }
}

/// An element of a leaf page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'p> {
    /// Whether its value is a bucket.
    pub is_bucket: bool,
    pub key: &'p [u8],
    pub value: &'p [u8],
}

/// A leaf page, every element of which lies within it.
#[derive(Debug, Clone, Copy)]
pub struct Leaf<'p> {
    bytes: &'p [u8],
    count: usize,
    /// How full it is.
    pub fill: Fill,
    /// All keys and values, one after the other, where they stand so.
    dense: Option<(usize, usize)>,
}

impl<'p> Leaf<'p> {
    /// Checks a page's elements.
    pub fn new(bytes: &'p [u8]) -> Result<Self, Problem> {
        let count = usize::from(u16_at(bytes, 10));
        // 0xFFFF would mean that the count stands elsewhere; only free-lists do that.
        if HEADER + count * ELEMENT > bytes.len() {
            return Err(Problem::damaged(format!("is a leaf with {count} elements, which is impossible")));
        }
        let mut used = HEADER + count * ELEMENT;
        let mut dense = Some((used, used));
        for n in 0..count {
            let ElementHeader { start, key_bytes, value_bytes, .. } = ElementHeader::read(bytes, n);
            let end = start.saturating_add(key_bytes).saturating_add(value_bytes);
            if end > bytes.len() {
                return Err(Problem::damaged(format!("has an element ({n}) that reaches beyond it")));
            }
            dense = match dense {
                Some((_, _)) if n == 0 => Some((start, end)),
                Some((first, last)) if last == start => Some((first, end)),
                _ => None,
            };
            used += key_bytes + value_bytes;
        }
        Ok(Self { bytes, count, fill: Fill { used, of: bytes.len() }, dense })
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The `n`th element, which must be below [`Leaf::len`].
    #[inline]
    pub fn get(&self, n: usize) -> Element<'p> {
        let ElementHeader { flags, start, key_bytes, value_bytes } = ElementHeader::read(self.bytes, n);
        let slice = |from: usize, length: usize| self.bytes.get(from..from + length).unwrap_or_default();
        Element {
            is_bucket: flags & 1 != 0,
            key: slice(start, key_bytes),
            value: slice(start + key_bytes, value_bytes),
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Element<'p>> + use<'p> {
        let leaf = *self;
        (0..leaf.count).map(move |n| leaf.get(n))
    }

    /// CRC-32C over all keys and values, going on from `sum`, and of how many bytes it is.
    pub fn sum(&self, sum: u32) -> (u32, usize) {
        match self.dense {
            Some((first, last)) => (crc32c::crc32c_append(sum, &self.bytes[first..last]), last - first),
            None => self.iter().fold((sum, 0), |(sum, bytes), element| {
                let sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, element.key), element.value);
                (sum, bytes + element.key.len() + element.value.len())
            }),
        }
    }
}

/// The header of an element of a leaf.
#[derive(Debug, Clone, Copy, Default)]
struct ElementHeader {
    flags: usize,
    /// Where its key starts in the page.
    start: usize,
    key_bytes: usize,
    value_bytes: usize,
}

impl ElementHeader {
    /// Of the `n`th element.
    #[inline]
    fn read(bytes: &[u8], n: usize) -> Self {
        let at = HEADER + n * ELEMENT;
        let Some(element) = bytes.get(at..at + ELEMENT) else { return Self::default() };
        let field = |field| u32_at(element, field) as usize;
        Self { flags: field(0), start: at + field(4), key_bytes: field(8), value_bytes: field(12) }
    }
}

/// Which pages belong to something.
#[derive(Debug)]
pub struct Used {
    bits: Vec<AtomicU64>,
}

impl Clone for Used {
    fn clone(&self) -> Self {
        Self { bits: self.bits.iter().map(|word| AtomicU64::new(word.load(Relaxed))).collect() }
    }
}

impl Used {
    /// Nothing but the two meta pages. Pages behind the file's end can't be used, whatever the meta page claims.
    pub fn new(bolt: &Bolt) -> Self {
        let pages = bolt.meta.pages.min(bolt.file_bytes / u64::from(bolt.meta.page_size) + 1);
        let used = Self { bits: std::iter::repeat_with(AtomicU64::default).take((pages / 64 + 1) as usize).collect() };
        used.take(0);
        used.take(1);
        used
    }

    /// Marks a page; false if it was marked.
    pub fn take(&self, page: u64) -> bool {
        // What lies beyond is reported as damage when it is read.
        let Some(word) = self.bits.get((page / 64) as usize) else { return true };
        let bit = 1 << (page % 64);
        word.fetch_or(bit, Relaxed) & bit == 0
    }

    /// Marks the pages that page `id`, of `pages` in all, overflows into.
    pub fn take_overflow(&self, id: u64, pages: u64, bucket: &str, damages: &mut Damages) {
        for page in id + 1..id + pages {
            if !self.take(page) {
                damages.add(page, bucket, "is referenced more than once");
            }
        }
    }

    /// Whether a page is marked.
    pub fn contains(&self, page: u64) -> bool {
        self.bits.get((page / 64) as usize).is_some_and(|word| word.load(Relaxed) & 1 << (page % 64) != 0)
    }

    /// How many pages are marked.
    pub fn count(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.load(Relaxed).count_ones())).sum()
    }
}
