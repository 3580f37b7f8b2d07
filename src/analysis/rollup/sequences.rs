//! Facts that need the order of events: retries, lists after a watch ended, the same read again.

use super::observe::Written;
use super::rows::Fact;
use crate::model::time::{Micros, SECOND};
use hashbrown::HashMap;
use std::hash::Hash;

/// How long a failed request, or the end of a watch, is remembered.
pub const LOOK_BACK: Micros = 120 * SECOND;

/// How long a read is remembered: also how much of its predecessor a part of a split input reads.
pub const READ_LOOK_BACK: Micros = 900 * SECOND;

/// A watch that ended within this told its client that its version was too old.
const SHORT: u64 = SECOND as u64;

/// Entries of one generation of memory.
const MAX_REMEMBERED: usize = 1 << 19;

/// What is remembered for a while: two generations, the older of which is forgotten when a third begins.
#[derive(Debug)]
struct Memory<K, V> {
    young: HashMap<K, V, foldhash::fast::FixedState>,
    old: HashMap<K, V, foldhash::fast::FixedState>,
    began: Micros,
}

impl<K: Eq + Hash, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), began: Micros::MIN }
    }
}

impl<K: Eq + Hash + Copy, V: Copy> Memory<K, V> {
    /// Puts `value` in place of what was remembered, which is returned.
    fn replace(&mut self, at: Micros, key: K, value: V) -> Option<V> {
        if at.saturating_sub(self.began) > READ_LOOK_BACK || self.young.len() >= MAX_REMEMBERED {
            self.old = std::mem::take(&mut self.young);
            self.began = at;
        }
        let before = self.young.insert(key, value);
        before.or_else(|| self.old.get(&key).copied())
    }

    fn get(&self, key: K) -> Option<V> {
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }
}

/// The last request of an actor with a verb and URI.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    at: Micros,
    failed: Option<Fact>,
    /// When the last read that can be repeated arrived.
    read: Option<Micros>,
    /// Of a write: hash of the version that the object then had, else 0.
    version: u64,
}

/// The last end of a watch, or list, of an actor on a resource; or the last write of a client to a lease.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Ended {
        at: Micros,
        short: bool,
    },
    Listed,
    /// The last write to a lease, and which actor's it was.
    Held {
        at: Micros,
        request: u64,
    },
}

/// A request, as far as facts need it.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// `at`.
    pub at: Micros,
    /// When it arrived (`at` where the log does not say).
    pub received: Micros,
    /// Actor, verb and URI.
    pub request: u64,
    /// Actor, group and resource; of a write to a lease: client, verb and URI.
    pub turn: u64,
    /// Whether it is a request at all: not the start of one whose end is still to come.
    pub complete: bool,
    /// Its code.
    pub code: Option<u16>,
    /// Whether it is a write to a lease that was done.
    pub holds: bool,
    /// Of a write that was done: the object as it is now.
    pub written: Option<Written>,
    /// Whether it lists.
    pub lists: bool,
    /// Whether it can be the same as an earlier read.
    pub rereads: bool,
    /// Of an ended watch: its lifetime in µs where known, and whether it began at a certain version.
    pub watch_end: Option<(Option<u64>, bool)>,
}

/// What is remembered to find facts.
#[derive(Debug, Default)]
pub struct Sequences {
    requests: Memory<u64, Last>,
    turns: Memory<u64, Turn>,
}

impl Sequences {
    /// Takes a request, in the order of time; hands each fact and its gap (µs) to `found`.
    pub fn take(&mut self, request: &Request, mut found: impl FnMut(Fact, u64)) {
        let gap = |since: Micros, limit: Micros| {
            (0..=limit).contains(&(request.received - since)).then_some((request.received - since) as u64)
        };
        if request.complete {
            let failed = match request.code {
                Some(429) => Some(Fact::Retry429),
                Some(0 | 500..) => Some(Fact::Retry5xx),
                _ => None,
            };
            let before = self.requests.get(request.request);
            let read = if request.rereads { Some(request.received) } else { before.and_then(|last| last.read) };
            if let Some(last) = before {
                if let Some(fact) = last.failed
                    && let Some(gap) = gap(last.at, LOOK_BACK)
                {
                    found(fact, gap);
                }
                if request.rereads
                    && let Some(gap) = last.read.and_then(|read| gap(read, READ_LOOK_BACK))
                {
                    found(Fact::Reread, gap);
                }
            }
            if let Some(written) = request.written {
                let again = before
                    .is_some_and(|last| last.version == written.version && gap(last.at, READ_LOOK_BACK).is_some());
                if written.same || again {
                    found(Fact::NoChange, (request.at - request.received).max(0) as u64);
                }
            }
            // A write that succeeded and was not remembered need not be.
            if failed.is_some() || request.rereads || request.written.is_some() || before.is_some() {
                let version = request.written.map_or(0, |written| written.version);
                self.requests.replace(request.at, request.request, Last { at: request.at, failed, read, version });
            }
        }
        if request.holds {
            let before =
                self.turns.replace(request.at, request.turn, Turn::Held { at: request.at, request: request.request });
            if let Some(Turn::Held { at, request: holder }) = before
                && holder != request.request
                && let Some(gap) = gap(at, READ_LOOK_BACK)
            {
                found(Fact::Takeover, gap);
            }
        } else if let Some((lifetime, from_version)) = request.watch_end {
            let short = from_version && lifetime.is_some_and(|lifetime| lifetime < SHORT);
            self.turns.replace(request.at, request.turn, Turn::Ended { at: request.at, short });
        } else if request.lists
            && let Some(Turn::Ended { at, short }) = self.turns.get(request.turn)
        {
            self.turns.replace(request.at, request.turn, Turn::Listed);
            if let Some(gap) = gap(at, LOOK_BACK) {
                found(if short { Fact::RelistShort } else { Fact::Relist }, gap);
            }
        }
    }
}
