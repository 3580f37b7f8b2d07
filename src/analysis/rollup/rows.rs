//! What the rows of the tiled tables hold.

use super::keys::Keys;
use super::tiles::Row;
use crate::model::histogram::Histogram;
use crate::model::symbols::Symbol;
use hashbrown::HashMap;
use std::cmp::Ordering;

/// A row of `traffic`.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Requests, open ones included.
    pub requests: u64,
    /// Open ones.
    pub open: u64,
    /// Latencies in µs.
    pub latency: Histogram,
    /// What only some rows have.
    pub more: Option<Box<TrafficMore>>,
}

/// What only some rows of `traffic` have.
#[derive(Debug, Default)]
pub struct TrafficMore {
    /// Lifetimes of long-running requests, in µs.
    pub lifetime: Histogram,
    /// Events with a response body, its bytes, its items.
    pub bodies: [u64; 3],
    /// µs spent in etcd, webhooks, APF queue.
    pub spent: [u64; 3],
    /// Requests that took too long, by [`Timeout`].
    pub timeouts: [u64; 3],
}

impl Traffic {
    /// What only some rows have, made if need be.
    pub fn more(&mut self) -> &mut TrafficMore {
        self.more.get_or_insert_default()
    }
}

impl Row for Traffic {
    fn merge(&mut self, other: Self, _keys: &Keys) {
        self.requests += other.requests;
        self.open += other.open;
        self.latency.merge(&other.latency);
        if let Some(theirs) = other.more {
            let mine = self.more();
            mine.lifetime.merge(&theirs.lifetime);
            for (mine, theirs) in mine.bodies.iter_mut().zip(theirs.bodies) {
                *mine += theirs;
            }
            for (mine, theirs) in mine.spent.iter_mut().zip(theirs.spent) {
                *mine += theirs;
            }
            for (mine, theirs) in mine.timeouts.iter_mut().zip(theirs.timeouts) {
                *mine += theirs;
            }
        }
    }

    fn count(&self) -> u64 {
        self.requests
    }

    fn order(keys: &Keys, a: u64, b: u64) -> Ordering {
        let text = |key: u64| {
            let k = keys.traffic.get(key as u32);
            let s = |symbol| keys.symbols.get(symbol);
            (
                keys.subject_text(k.subject),
                [s(k.instance), s(k.verb), s(k.subresource), s(k.namespace)],
                k.scope,
                k.code,
                k.shape,
            )
        };
        text(a).cmp(&text(b))
    }
}

/// A row of `pulse`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// Requests that arrived.
    pub starts: u32,
    /// Requests that ended.
    pub ends: u32,
    /// Of those, code 0 or ≥ 500.
    pub errors: u32,
    /// Of those, code 429.
    pub throttled: u32,
}

impl Row for Pulse {
    fn merge(&mut self, other: Self, _keys: &Keys) {
        self.starts += other.starts;
        self.ends += other.ends;
        self.errors += other.errors;
        self.throttled += other.throttled;
    }

    fn count(&self) -> u64 {
        u64::from(self.starts) + u64::from(self.ends)
    }

    fn order(keys: &Keys, a: u64, b: u64) -> Ordering {
        let text = |key: u64| {
            let k = keys.pulses.get(key as u32);
            (keys.subject_text(k.subject), keys.symbols.get(k.instance), k.op)
        };
        text(a).cmp(&text(b))
    }
}

/// Retries sooner than this (µs) have not waited: apiservers answer 429 with a Retry-After of a second or more.
pub const RETRY_AFTER: u64 = 1_000_000;

/// A fact that needs the order of events. Its number is part of a row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// A watch that lived ended, then a list.
    Relist,
    /// A watch from a version that ended within a second, then a list: too old a version.
    RelistShort,
    /// The same read again.
    Reread,
    /// The same request after 429.
    Retry429,
    /// The same request after code 0 or ≥ 500.
    Retry5xx,
    /// A write that left the object as it was; its gap is its own duration.
    NoChange,
    /// A lease written to from another address than before.
    Takeover,
}

impl Fact {
    /// All facts, by their number.
    pub const ALL: [Self; 7] =
        [Self::Relist, Self::RelistShort, Self::Reread, Self::Retry429, Self::Retry5xx, Self::NoChange, Self::Takeover];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relist => "relist",
            Self::RelistShort => "relist-short",
            Self::Reread => "reread",
            Self::Retry429 => "retry-429",
            Self::Retry5xx => "retry-5xx",
            Self::NoChange => "no-change",
            Self::Takeover => "takeover",
        }
    }

    /// The key of its row for a subject.
    pub fn key(self, subject: u32) -> u64 {
        if subject == 0 { 0 } else { u64::from(subject) << 8 | self as u64 }
    }

    /// The subject and the fact of a key.
    pub fn of(key: u64) -> (u32, Self) {
        ((key >> 8) as u32, Self::ALL[(key & 0xff) as usize % Self::ALL.len()])
    }
}

/// A row of `sequences`: gaps in µs.
#[derive(Debug, Default)]
pub struct Gaps(pub Histogram);

impl Row for Gaps {
    fn merge(&mut self, other: Self, _keys: &Keys) {
        self.0.merge(&other.0);
    }

    fn count(&self) -> u64 {
        self.0.count()
    }

    fn dense(key: u64) -> usize {
        let (subject, fact) = Fact::of(key);
        if key == 0 { 0 } else { subject as usize * Fact::ALL.len() + fact as usize }
    }

    fn order(keys: &Keys, a: u64, b: u64) -> Ordering {
        let text = |key: u64| {
            let (subject, fact) = Fact::of(key);
            (keys.subject_text(subject), fact.name())
        };
        text(a).cmp(&text(b))
    }
}

/// Addresses that are kept one by one.
pub const EXACT: usize = 256;

/// Heaviest addresses that are kept where there are more.
pub const HEAVIEST: usize = 16;

/// A row of `sources`: where a client's requests came from.
#[derive(Debug, Default)]
pub struct Sources {
    pub requests: u64,
    /// Which addresses.
    pub set: SourceSet,
}

/// Addresses and how often each was met.
type Counts = Vec<(Symbol, u32)>;

/// Addresses with their counts.
#[derive(Debug)]
pub enum SourceSet {
    /// All, while the tile is open and there are more than a few.
    Open(HashMap<Symbol, u32, foldhash::fast::FixedState>),
    /// All, when it is closed or while they are few.
    Exact(Vec<(Symbol, u32)>),
    /// More than [`EXACT`]: the smallest hashes, and the heaviest addresses.
    Sketch {
        /// The [`EXACT`] smallest first 64 bits of the addresses' MD5.
        smallest: Vec<u64>,
        /// The [`HEAVIEST`] heaviest.
        heaviest: Vec<(Symbol, u32)>,
    },
}

/// Addresses up to which a list is searched quicker than a table; most clients have one.
const MAX_INLINE: usize = 16;

impl Default for SourceSet {
    fn default() -> Self {
        Self::Exact(Vec::new())
    }
}

impl SourceSet {
    /// Adds `count` to an address, of a set that is not a sketch.
    #[inline]
    fn count(&mut self, source: Symbol, count: u32) {
        match self {
            Self::Open(counts) => *counts.entry(source).or_default() += count,
            Self::Exact(counts) => {
                if let Some(at) = counts.iter().position(|(known, _)| *known == source) {
                    counts[at].1 += count;
                } else if counts.len() < MAX_INLINE {
                    counts.push((source, count));
                } else {
                    let mut open: HashMap<_, _, _> = counts.drain(..).collect();
                    open.insert(source, count);
                    *self = Self::Open(open);
                }
            }
            Self::Sketch { .. } => {}
        }
    }
}

impl Sources {
    /// Counts a request.
    #[inline]
    pub fn add(&mut self, source: Symbol, keys: &Keys) {
        if let SourceSet::Sketch { .. } = self.set {
            let one = Self { requests: 1, set: SourceSet::Exact(vec![(source, 1)]) };
            return self.merge(one, keys);
        }
        self.requests += 1;
        self.set.count(source, 1);
    }

    fn pairs(set: SourceSet) -> Result<Counts, (Vec<u64>, Counts)> {
        match set {
            SourceSet::Open(counts) => Ok(counts.into_iter().collect()),
            SourceSet::Exact(counts) => Ok(counts),
            SourceSet::Sketch { smallest, heaviest } => Err((smallest, heaviest)),
        }
    }
}

/// The first 64 bits of the MD5 of `text`: a hash that every SQL engine has.
pub fn md5_64(text: &str) -> u64 {
    (md5_128(text) >> 64) as u64
}

/// The MD5 of `text` as a number.
pub fn md5_128(text: &str) -> u128 {
    use md5::{Digest, Md5};
    u128::from_be_bytes(Md5::digest(text.as_bytes()).into())
}

/// The heaviest of `counts`: by count, then by text.
fn heaviest(mut counts: Vec<(Symbol, u32)>, keys: &Keys) -> Vec<(Symbol, u32)> {
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| keys.symbols.get(a.0).cmp(keys.symbols.get(b.0))));
    counts.truncate(HEAVIEST);
    counts
}

fn smallest(counts: &[(Symbol, u32)], keys: &Keys) -> Vec<u64> {
    let mut hashes: Vec<u64> = counts.iter().map(|(source, _)| md5_64(keys.symbols.get(*source))).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.truncate(EXACT);
    hashes
}

impl Row for Sources {
    // Of a sketch that is added to another the heaviest are kept, time and again.
    const IS_ORDERED: bool = true;

    fn merge(&mut self, other: Self, keys: &Keys) {
        self.requests += other.requests;
        // As most rows of stored roll-ups are met.
        if matches!(&self.set, SourceSet::Exact(counts) if counts.is_empty()) {
            self.set = other.set;
            return;
        }
        let theirs = match (&self.set, Self::pairs(other.set)) {
            // In place: a folded tile adds hundreds of rows to that of all others, which grows large.
            (SourceSet::Open(_) | SourceSet::Exact(_), Ok(theirs)) => {
                return theirs.into_iter().for_each(|(source, count)| self.set.count(source, count));
            }
            (_, theirs) => theirs,
        };
        let sketch = |set: Result<Counts, (Vec<u64>, Counts)>| {
            set.map_or_else(|sketch| sketch, |counts| (smallest(&counts, keys), counts))
        };
        let ((mut hashes, mine), (more, theirs)) = (sketch(Self::pairs(std::mem::take(&mut self.set))), sketch(theirs));
        hashes.extend(more);
        hashes.sort_unstable();
        hashes.dedup();
        hashes.truncate(EXACT);
        let mut sums = SourceSet::default();
        mine.into_iter().chain(theirs).for_each(|(source, count)| sums.count(source, count));
        let counts = Self::pairs(sums).unwrap_or_default();
        self.set = SourceSet::Sketch { smallest: hashes, heaviest: heaviest(counts, keys) };
    }

    fn count(&self) -> u64 {
        self.requests
    }

    fn order(keys: &Keys, a: u64, b: u64) -> Ordering {
        keys.subject_text(a as u32).cmp(&keys.subject_text(b as u32))
    }

    fn close(&mut self, keys: &Keys) {
        if let SourceSet::Open(counts) = &mut self.set {
            let counts: Vec<(Symbol, u32)> = counts.drain().collect();
            self.set = if counts.len() <= EXACT {
                SourceSet::Exact(counts)
            } else {
                SourceSet::Sketch { smallest: smallest(&counts, keys), heaviest: heaviest(counts, keys) }
            };
        }
    }
}
