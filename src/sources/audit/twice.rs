//! Events that come twice: exports deliver at least once, and files overlap.
//!
//! What was met is remembered by a hash of its identity, for about the last two million events. Copies are dropped
//! before anything is made of them. (Definition: docs/rollup.md, section 1.)

use crate::model::event::{Event, Stage, Stream};
use crate::model::json::JsonStr;
use crate::model::time::Micros;
use hashbrown::HashTable;
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Parts of the memory that are locked apart.
const SHARDS: usize = 64;

/// Events of a part that are remembered at least; twice as many at most.
const REMEMBERED: usize = 32_768;

/// What was met.
#[derive(Debug)]
pub(super) struct Seen {
    shards: Vec<Mutex<Shard>>,
}

#[derive(Debug, Default)]
struct Shard {
    now: HashTable<u64>,
    before: HashTable<u64>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl Seen {
    /// Whether an event of this identity was not met yet; it has been from now on.
    pub(super) fn is_new(&self, identity: u64) -> bool {
        let mut shard = self.shards[(identity >> 58) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
        if shard.before.find(identity, |other| *other == identity).is_some() {
            return false;
        }
        if shard.now.find(identity, |other| *other == identity).is_some() {
            return false;
        }
        if shard.now.len() >= REMEMBERED {
            shard.before = std::mem::take(&mut shard.now);
        }
        shard.now.insert_unique(identity, identity, |other| *other);
        true
    }
}

/// What makes an event one and the same, but for the apiserver; `None` where it has no audit id. Many a writer spells
/// texts in other escapes.
pub fn identity(event: &Event<'_>, stage: Stage, at: Micros) -> Option<u64> {
    if event.audit_id.is_empty() {
        return None;
    }
    let of = |text: JsonStr<'_>, seed: u64| xxh3_64_with_seed(text.decode().as_bytes(), seed);
    let texts = of(event.received, of(event.uri, of(event.verb, of(event.audit_id, stage as u64))));
    Some(xxh3_64_with_seed(&at.to_le_bytes(), texts))
}

/// The same with the apiserver that wrote it.
pub(super) fn of_instance(identity: u64, event: &Event<'_>, stream: &Stream) -> u64 {
    let cluster = event.cluster.as_deref().unwrap_or(&stream.cluster);
    let instance = event.instance.as_deref().unwrap_or(&stream.instance);
    xxh3_64_with_seed(instance.as_bytes(), identity ^ xxh3_64(cluster.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_met_is_remembered_for_long_and_not_for_ever() {
        let seen = Seen::default();
        let id = |number: u64| xxh3_64(&number.to_le_bytes());
        assert!((0..1_000_000).all(|number| seen.is_new(id(number))));
        assert!((0..1_000_000).all(|number| !seen.is_new(id(number))));
        let more = 1_000_000..9_000_000;
        assert!(more.filter(|number| !seen.is_new(id(*number))).count() < 3, "but for what has one hash with another");
        assert!(seen.is_new(id(0)), "forgotten");
        let held: usize =
            seen.shards.iter().map(|shard| shard.lock().map_or(0, |shard| shard.now.len() + shard.before.len())).sum();
        assert!(held <= 2 * SHARDS * REMEMBERED + SHARDS, "{held}");
    }
}
