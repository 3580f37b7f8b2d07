//! Facts that need the order of events: retries, lists after a watch ended, the same read again.

use super::observe::Written;
use super::rows::Fact;
use crate::model::time::{Micros, SECOND};
use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};
use std::hash::Hash;

/// How long a failed request, or the end of a watch, is remembered.
pub const LOOK_BACK: Micros = 120 * SECOND;

/// How long a read is remembered, and a write.
pub const READ_LOOK_BACK: Micros = 900 * SECOND;

/// A watch that ended within this time told its client that its version was too old.
const SHORT_WATCH_US: u64 = SECOND as u64;

/// Entries of one generation of memory.
const MAX_REMEMBERED: usize = 1 << 19;

/// What is remembered for a while: two generations, the older of which is forgotten when a third begins.
#[derive(Debug)]
pub(super) struct Memory<K, V> {
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
    pub(super) fn replace(&mut self, at: Micros, key: K, value: V) -> Option<V> {
        self.update(at, key, |_| value)
    }

    /// Puts what follows from what was remembered in its place; gives what was.
    pub(super) fn update(&mut self, at: Micros, key: K, next: impl FnOnce(Option<V>) -> V) -> Option<V> {
        if at.saturating_sub(self.began) > READ_LOOK_BACK || self.young.len() >= MAX_REMEMBERED {
            self.old = std::mem::take(&mut self.young);
            self.began = at;
        }
        match self.young.entry(key) {
            Entry::Occupied(mut entry) => {
                let before = *entry.get();
                entry.insert(next(Some(before)));
                Some(before)
            }
            Entry::Vacant(entry) => {
                let before = self.old.get(&key).copied();
                entry.insert(next(before));
                before
            }
        }
    }

    fn get(&self, key: K) -> Option<V> {
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }

    /// All that is remembered, by key.
    pub(super) fn all(&self) -> Vec<(K, V)>
    where
        K: Ord,
    {
        let old = self.old.iter().filter(|(key, _)| !self.young.contains_key(*key));
        let mut all: Vec<(K, V)> = self.young.iter().chain(old).map(|(key, value)| (*key, *value)).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }
}

/// The last request of an actor with a verb and URI.
#[derive(Debug, Clone, Copy, Default)]
pub struct Last {
    pub at: Micros,
    /// Which retry the next one is.
    pub failed: Option<Fact>,
    /// When the last read that can be repeated arrived.
    pub read: Option<Micros>,
    /// Of a write: hash of the version that the object then had, else 0.
    pub version: u64,
}

/// The last end of a watch, or list, of an actor on a resource; or the last write of a client to a lease.
#[derive(Debug, Clone, Copy)]
pub enum Turn {
    /// A watch ended.
    Ended {
        /// When.
        at: Micros,
        /// Whether its client was answered that its version was too old.
        short: bool,
    },
    /// A list followed.
    Listed,
    /// The last write to a lease, and which actor's it was.
    Held {
        /// When.
        at: Micros,
        /// Actor, verb and URI.
        request: u64,
    },
}

impl Turn {
    fn at(self) -> Micros {
        match self {
            Self::Ended { at, .. } | Self::Held { at, .. } => at,
            Self::Listed => Micros::MIN,
        }
    }
}

/// A request, as far as facts need it.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub at: Micros,
    /// When it arrived (`at` where the log does not say).
    pub received: Micros,
    /// Actor, verb and URI.
    pub request: u64,
    /// Actor, group and resource; of a write to a lease: client, verb and URI.
    pub turn: u64,
    /// Whether it is a request at all: not the start of one whose end is still to come.
    pub complete: bool,
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
    firsts: Option<Box<Firsts>>,
}

/// The requests that what came before the log could make facts of.
#[derive(Debug, Default)]
struct Firsts {
    began: Option<Micros>,
    /// Actors, verbs and URIs that were met, and turns.
    met: HashSet<u64, foldhash::fast::FixedState>,
    met_turns: HashSet<u64, foldhash::fast::FixedState>,
    all: Vec<(Request, u32)>,
}

impl Firsts {
    fn take(&mut self, request: &Request, subject: u32) {
        // A watch that ends much later may have begun right behind what came before.
        let since = request.received - *self.began.get_or_insert(request.at);
        if since > READ_LOOK_BACK && request.watch_end.is_none() || self.met.len() >= MAX_REMEMBERED {
            return;
        }
        // What follows a failure does so soon; what is read or written again may take its time.
        let is_soon = since <= LOOK_BACK;
        let complete = request.complete
            && self.met.insert(request.request)
            && (is_soon || request.rereads || request.written.is_some());
        let is_turn = request.holds || request.lists || request.watch_end.is_some();
        let turns = is_turn && self.met_turns.insert(request.turn);
        let (holds, lists) = (turns && request.holds, turns && request.lists && is_soon);
        if complete || holds || lists {
            let (rereads, written) = (complete && request.rereads, request.written.filter(|_| complete));
            let first = Request { complete, holds, lists, rereads, written, watch_end: None, code: None, ..*request };
            self.all.push((first, subject));
        }
    }
}

impl Sequences {
    /// The same, and the first requests are kept.
    pub fn with_firsts() -> Self {
        Self { firsts: Some(Box::default()), ..Self::default() }
    }

    /// The first requests, where they were kept.
    pub fn firsts(&mut self) -> Option<Vec<(Request, u32)>> {
        self.firsts.take().map(|firsts| firsts.all)
    }

    /// The last requests that facts could be made with of what comes after `end`.
    pub fn lasts(&self, end: Micros) -> Vec<(u64, Last)> {
        let matters = |last: &Last| {
            // The retry of a watch is seen when that ends.
            (last.failed.is_some() || last.version != 0) && last.at >= end - READ_LOOK_BACK
                || last.read.is_some_and(|read| read >= end - READ_LOOK_BACK)
        };
        self.requests.all().into_iter().filter(|(_, last)| matters(last)).collect()
    }

    /// The same of turns.
    pub fn turns(&self, end: Micros) -> Vec<(u64, Turn)> {
        let matters = |turn: &Turn| match turn {
            Turn::Ended { at, .. } => *at >= end - LOOK_BACK,
            Turn::Held { at, .. } => *at >= end - READ_LOOK_BACK,
            Turn::Listed => false,
        };
        self.turns.all().into_iter().filter(|(_, turn)| matters(turn)).collect()
    }

    /// Remembers what another roll-up ended with, unless something later is known.
    pub fn remember(&mut self, requests: &[(u64, Last)], turns: &[(u64, Turn)]) {
        for (key, last) in requests {
            if self.requests.get(*key).is_none_or(|known| known.at <= last.at) {
                self.requests.replace(last.at, *key, *last);
            }
        }
        for (key, turn) in turns {
            if self.turns.get(*key).is_none_or(|known| known.at() <= turn.at()) {
                self.turns.replace(turn.at(), *key, *turn);
            }
        }
    }

    /// Takes a request of a client on a resource, in the order of time; hands each fact and its gap (µs) to `found`.
    pub fn take(&mut self, request: &Request, subject: u32, mut found: impl FnMut(Fact, u64)) {
        if let Some(firsts) = &mut self.firsts {
            firsts.take(request, subject);
        }
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
            let short = from_version && lifetime.is_some_and(|lifetime| lifetime < SHORT_WATCH_US);
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
