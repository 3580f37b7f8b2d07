//! bbolt's file format, read-only: meta pages, trees of branch and leaf pages, buckets.
//! (Source: go.etcd.io/bbolt, internal/common. Numbers are little-endian, as on every machine that etcd supports.)
//!
//! Nothing of the file is trusted: every place is checked before it is read, a page is visited once, and what is
//! wrong is told with its page and left out.

use std::fmt;
use std::fs::File;
use std::io;

/// Bytes of a page's header.
const HEADER: usize = 16;
/// Bytes of an element of a branch or leaf page.
const ELEMENT: usize = 16;
const MAGIC: u32 = 0xED0C_DAED;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const META: u16 = 4;
/// Trees are not deeper: with two children a page, that would be more pages than any file has.
const DEEPEST: usize = 64;
/// Damage that is described; more is counted.
const TOLD: usize = 100;

/// Where the file's bytes are.
#[derive(Debug)]
pub enum Data {
    /// On the disk. It is not mapped into memory: a file that becomes shorter while it is read gives an error, not a crash.
    File(File),
    /// In memory, as unpacked or read from a pipe.
    Memory(Vec<u8>),
}

impl Data {
    /// How many bytes there are.
    fn bytes(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Fills `buffer` from `offset` on.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Self::File(file) => std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset),
            #[cfg(windows)]
            Self::File(file) => {
                let mut at = 0;
                while at < buffer.len() {
                    match std::os::windows::fs::FileExt::seek_read(file, &mut buffer[at..], offset + at as u64)? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        more => at += more,
                    }
                }
                Ok(())
            }
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let part = start.checked_add(buffer.len()).and_then(|end| bytes.get(start..end));
                buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// What is wrong with a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
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
    pub told: Vec<Damage>,
    /// How many there are.
    pub count: u64,
}

impl Damages {
    /// Adds one.
    pub fn add(&mut self, page: u64, bucket: &str, what: impl Into<String>) {
        self.count += 1;
        if self.told.len() < TOLD {
            self.told.push(Damage { page, bucket: bucket.to_owned(), what: what.into() });
        }
    }

    /// Adds another's.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        let room = TOLD.saturating_sub(self.told.len());
        self.told.extend(other.told.into_iter().take(room));
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

/// Why a file is not read at all.
#[derive(Debug, thiserror::Error)]
pub enum BoltError {
    /// The system would not read it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Neither meta page is valid.
    #[error(
        "not a bbolt database, or both of its meta pages are damaged; etcd's file is member/snap/db, a snapshot is made by etcdctl snapshot save"
    )]
    NoMeta,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
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
    /// Its name.
    pub name: String,
    /// Its root page; 0 where it is inline.
    pub root: u64,
    /// Its leaf page, where it is inline.
    pub inline: Vec<u8>,
}

/// The pages of a bucket's tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Leaf pages in the order of their keys.
    pub leaves: Vec<u64>,
    /// Branch pages.
    pub branches: u64,
    /// Pages from the root to a leaf.
    pub depth: usize,
    /// Pages of all these, with those that overflow into more.
    pub pages: u64,
}

/// An open database.
#[derive(Debug)]
pub struct Bolt {
    data: Data,
    /// The meta page that counts.
    pub meta: Meta,
    /// Which of the two meta pages are valid.
    pub metas_valid: [bool; 2],
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Whether a snapshot's SHA-256 stands behind the pages.
    pub is_snapshot: bool,
}

impl Bolt {
    /// Opens a database: reads its meta pages.
    pub fn open(data: Data) -> Result<Self, BoltError> {
        let file_bytes = data.bytes()?;
        let read = |offset: u64| {
            let mut page = vec![0; HEADER + 64];
            data.read(offset, &mut page).ok().and_then(|()| Meta::parse(&page))
        };
        let first = read(0);
        // Without the first, the size of a page is not known.
        let second = match first {
            Some(meta) => read(u64::from(meta.page_size)),
            None => (10..17).find_map(|bits| read(1 << bits).filter(|meta| meta.page_size == 1 << bits)),
        };
        let meta = [first, second].into_iter().flatten().max_by_key(|meta| meta.transaction).ok_or(BoltError::NoMeta)?;
        let is_snapshot = file_bytes % 512 == 32;
        Ok(Self { data, meta, metas_valid: [first.is_some(), second.is_some()], file_bytes, is_snapshot })
    }

    /// Bytes that the database counts as its own: what etcd compares with its quota.
    pub fn db_bytes(&self) -> u64 {
        self.meta.pages.saturating_mul(u64::from(self.meta.page_size))
    }

    /// Reads a page with what it overflows into. `Err` says what is wrong.
    fn page(&self, id: u64, buffer: &mut Vec<u8>) -> Result<u64, String> {
        let size = self.meta.page_size as usize;
        if id < 2 || id >= self.meta.pages {
            return Err(format!("is not among the database's {} pages", self.meta.pages));
        }
        let offset = id * size as u64;
        if offset + size as u64 > self.file_bytes {
            return Err("lies behind the end of the file".to_owned());
        }
        let gone = |error: io::Error| format!("can't be read ({error}); was the file cut while it was read? take a snapshot");
        buffer.resize(size, 0);
        self.data.read(offset, buffer).map_err(gone)?;
        if u64_at(buffer, 0) != id {
            return Err(format!("calls itself page {}", u64_at(buffer, 0)));
        }
        let overflow = u64::from(u32_at(buffer, 12));
        if overflow > 0 {
            let end = offset + (overflow + 1) * size as u64;
            if id + overflow >= self.meta.pages || end > self.file_bytes {
                return Err(format!("overflows into {overflow} pages, more than there are"));
            }
            buffer.resize((overflow as usize + 1) * size, 0);
            self.data.read(offset, buffer).map_err(gone)?;
        }
        Ok(overflow + 1)
    }

    /// The buckets of the root, in the order of their names.
    pub fn buckets(&self, used: &mut Used, damages: &mut Damages) -> Vec<Bucket> {
        let tree = self.tree(self.meta.root, "", used, damages);
        let mut buckets = Vec::new();
        let mut buffer = Vec::new();
        for leaf in tree.leaves {
            let read = self.leaf(leaf, &mut buffer, |element| {
                if element.is_bucket && element.value.len() >= 16 {
                    let root = u64_at(element.value, 0);
                    let inline = if root == 0 { element.value[16..].to_vec() } else { Vec::new() };
                    buckets.push(Bucket { name: String::from_utf8_lossy(element.key).into_owned(), root, inline });
                }
            });
            if let Err(what) = read {
                damages.add(leaf, "", what);
            }
        }
        buckets
    }

    /// The tree of a bucket: its pages, each once.
    pub fn tree(&self, root: u64, bucket: &str, used: &mut Used, damages: &mut Damages) -> Tree {
        let mut tree = Tree::default();
        // Pages to visit, the next last, with their depth.
        let mut open = vec![(root, 1)];
        let mut buffer = Vec::new();
        while let Some((id, depth)) = open.pop() {
            if !used.take(id) {
                damages.add(id, bucket, "belongs to more than one place");
                continue;
            }
            let pages = match self.page(id, &mut buffer) {
                Ok(pages) => pages,
                Err(what) => {
                    damages.add(id, bucket, what);
                    continue;
                }
            };
            for more in 1..pages {
                if !used.take(id + more) {
                    damages.add(id + more, bucket, "belongs to more than one place");
                }
            }
            tree.pages += pages;
            tree.depth = tree.depth.max(depth);
            match u16_at(&buffer, 8) & 0x17 {
                LEAF => tree.leaves.push(id),
                BRANCH if depth < DEEPEST => {
                    tree.branches += 1;
                    let count = usize::from(u16_at(&buffer, 10));
                    if count == 0 || HEADER + count * ELEMENT > buffer.len() {
                        damages.add(id, bucket, format!("is a branch that claims {count} children"));
                        continue;
                    }
                    // The last is pushed first, so that leaves come in order.
                    open.extend((0..count).rev().map(|n| (u64_at(&buffer, HEADER + n * ELEMENT + 8), depth + 1)));
                }
                BRANCH => damages.add(id, bucket, "lies too deep in the tree"),
                flags => damages.add(id, bucket, format!("is neither branch nor leaf (flags {flags:#x})")),
            }
        }
        tree
    }

    /// Gives the elements of a leaf page to `each`; says how many of its bytes are used.
    pub fn leaf<'b>(&self, id: u64, buffer: &'b mut Vec<u8>, each: impl FnMut(Element<'b>)) -> Result<Fill, String> {
        self.page(id, buffer)?;
        elements(buffer, each)
    }
}

/// How full a page is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fill {
    /// Bytes of header, elements, keys and values.
    pub used: usize,
    /// Bytes of the page, with those it overflows into.
    pub of: usize,
}

/// An element of a leaf page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'p> {
    /// Whether its value is a bucket.
    pub is_bucket: bool,
    /// Key.
    pub key: &'p [u8],
    /// Value.
    pub value: &'p [u8],
}

/// The elements of a leaf page in `bytes`.
pub fn elements<'p>(bytes: &'p [u8], mut each: impl FnMut(Element<'p>)) -> Result<Fill, String> {
    let count = usize::from(u16_at(bytes, 10));
    // 0xFFFF would mean that the count stands elsewhere; only free-lists do that.
    if HEADER + count * ELEMENT > bytes.len() {
        return Err(format!("is a leaf that claims {count} elements"));
    }
    let mut used = HEADER + count * ELEMENT;
    for n in 0..count {
        let at = HEADER + n * ELEMENT;
        let [flags, pos, ksize, vsize] = [0, 4, 8, 12].map(|field| u32_at(bytes, at + field) as usize);
        let start = at + pos;
        let key = start.checked_add(ksize).and_then(|end| bytes.get(start..end));
        let value = start.checked_add(ksize).and_then(|begin| bytes.get(begin..begin.checked_add(vsize)?));
        let (Some(key), Some(value)) = (key, value) else {
            return Err(format!("has an element ({n}) that reaches beyond it"));
        };
        used += ksize + vsize;
        each(Element { is_bucket: flags & 1 != 0, key, value });
    }
    Ok(Fill { used, of: bytes.len() })
}

/// Which pages belong to something.
#[derive(Debug)]
pub struct Used {
    bits: Vec<u64>,
    /// How many.
    pub count: u64,
}

impl Used {
    /// Nothing but the two meta pages. Pages behind the file's end can't be used, whatever the meta page claims.
    pub fn new(bolt: &Bolt) -> Self {
        let pages = bolt.meta.pages.min(bolt.file_bytes / u64::from(bolt.meta.page_size) + 1);
        let mut used = Self { bits: vec![0; (pages / 64 + 1) as usize], count: 0 };
        used.take(0);
        used.take(1);
        used
    }

    /// Marks a page; false if it was marked.
    pub fn take(&mut self, page: u64) -> bool {
        // What lies beyond is told as damage when it is read.
        let Some(word) = self.bits.get_mut((page / 64) as usize) else { return true };
        let bit = 1 << (page % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// Whether a page is marked.
    pub fn contains(&self, page: u64) -> bool {
        self.bits.get((page / 64) as usize).is_some_and(|word| word & 1 << (page % 64) != 0)
    }
}
