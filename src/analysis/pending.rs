//! Long-running requests between their start and their end.
//!
//! A started event counts as a request only while no terminal event of the same request exists
//! (docs/rollup.md, "A request is"). So starts are held until their end comes; ends whose start has
//! not been seen are remembered for a while, since lines may stand slightly out of order.

use crate::model::time::{Micros, SECOND};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::collections::BTreeSet;

/// A failed start waits so long for its end; then it is the whole response (401 on a watch).
pub const FAILED_WAIT: Micros = 120 * SECOND;

/// How long an end is remembered for a start that stands behind it in the log.
const EARLY_END: Micros = 10 * SECOND;

/// Starts held at most, and early ends; 64 bytes each.
const MAX_HELD: usize = 2 << 20;

/// Early ends held before the old ones are forgotten.
const MANY_ENDS: usize = 1 << 16;

/// Failed starts held where no clock says which have waited long enough ([`Pending::too_many`]).
const MANY_FAILED: usize = 1 << 16;

/// A started event that waits for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start<T> {
    pub at: Micros,
    /// Whether its code is 400 or more.
    pub failed: bool,
    /// Whatever else is to be known of it.
    pub what: T,
    /// How many there are: more than one where a log was given twice.
    pub times: u32,
}

/// Requests that have started and not ended.
#[derive(Debug, Clone)]
pub struct Pending<T> {
    starts: HashMap<u128, Start<T>>,
    /// The failed ones among them, by `at`: they are looked for again and again, and watches may be a million.
    failed: BTreeSet<(Micros, u128)>,
    early_ends: HashMap<u128, Micros>,
    /// When those of them that are too old were last forgotten.
    forgot: Micros,
    newest: Micros,
    /// Starts that could not be held: they count as open even if their end came later.
    pub overflow: u64,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self {
            starts: HashMap::new(),
            failed: BTreeSet::new(),
            early_ends: HashMap::new(),
            forgot: Micros::MIN,
            newest: Micros::MIN,
            overflow: 0,
        }
    }
}

/// What became of a start that was handed in.
#[derive(Debug, PartialEq, Eq)]
pub enum Started<T> {
    /// It waits for its end.
    Waits,
    /// Its end was seen already.
    Ended,
    /// There is no room: it counts as open.
    NoRoom(Start<T>),
}

impl<T: Copy> Pending<T> {
    /// Takes a started event. A second one of the same request (identical in audit id, URI and time of
    /// arrival) waits beside the first.
    pub fn start(&mut self, identity: u128, start: Start<T>) -> Started<T> {
        self.newest = self.newest.max(start.at);
        if self.early_ends.get(&identity).is_some_and(|&end| end >= start.at) {
            return Started::Ended;
        }
        if self.starts.len() >= MAX_HELD {
            self.overflow += 1;
            return Started::NoRoom(start);
        }
        match self.starts.entry(identity) {
            Entry::Occupied(mut held) => held.get_mut().times += start.times,
            Entry::Vacant(free) => {
                if start.failed {
                    self.failed.insert((start.at, identity));
                }
                free.insert(start);
            }
        }
        Started::Waits
    }

    /// Takes a terminal event; returns its start, if it was waiting for this end.
    pub fn end(&mut self, identity: u128, at: Micros) -> Option<Start<T>> {
        self.newest = self.newest.max(at);
        if let Entry::Occupied(mut found) = self.starts.entry(identity)
            && at >= found.get().at
            && !(found.get().failed && at > found.get().at + FAILED_WAIT)
        {
            let start = Start { times: 1, ..*found.get() };
            if found.get().times > 1 {
                found.get_mut().times -= 1;
            } else {
                if start.failed {
                    self.failed.remove(&(start.at, identity));
                }
                found.remove();
            }
            return Some(start);
        }
        // Those that are too old are forgotten once in a second of the log, not for each further one.
        if self.early_ends.len() >= MANY_ENDS && self.newest.saturating_sub(self.forgot) >= SECOND {
            let oldest = self.newest.saturating_sub(EARLY_END);
            self.early_ends.retain(|_, end| *end >= oldest);
            self.forgot = self.newest;
        }
        if self.early_ends.len() < MAX_HELD {
            self.early_ends.insert(identity, at);
        }
        None
    }

    /// Whether more failed starts wait than is usual. Where logs are read side by side, what was read last is no clock:
    /// one log may be an hour ahead of another, whose ends are still to come. There failed starts wait to the end, or
    /// until they are too many.
    pub fn too_many(&self) -> bool {
        self.failed.len() > MANY_FAILED
    }

    /// Takes out the failed starts that have waited long enough.
    pub fn expired(&mut self) -> Vec<Start<T>> {
        let oldest = self.newest.saturating_sub(FAILED_WAIT + EARLY_END);
        let mut expired = Vec::new();
        while let Some(&(at, identity)) = self.failed.first()
            && at < oldest
        {
            self.failed.pop_first();
            expired.extend(self.starts.remove(&identity));
        }
        expired
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Takes out all that wait.
    pub fn drain(&mut self) -> impl Iterator<Item = (u128, Start<T>)> + '_ {
        self.failed.clear();
        self.starts.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(at: Micros, failed: bool) -> Start<()> {
        Start { at, failed, what: (), times: 1 }
    }

    #[test]
    fn an_end_ends_the_start_before_it() {
        let mut pending = Pending::default();
        pending.start(1, start(10, false));
        assert_eq!(pending.end(1, 20), Some(start(10, false)));
        pending.start(3, start(10, false));
        pending.start(3, start(10, false));
        assert!(pending.end(3, 11).is_some() && pending.end(3, 11).is_some(), "a log given twice");
        assert_eq!(pending.end(2, 20), None);
        assert_eq!(pending.start(2, start(15, false)), Started::Ended, "lines out of order");
        assert!(pending.is_empty());
    }

    #[test]
    fn a_failed_start_is_final_after_a_while() {
        let mut pending = Pending::default();
        pending.start(1, start(0, true));
        pending.start(2, start(0, false));
        pending.start(3, start(FAILED_WAIT * 2, false));
        assert_eq!(pending.expired(), [start(0, true)]);
        assert_eq!((pending.expired(), pending.len()), (Vec::new(), 2));
        assert_eq!(pending.end(2, FAILED_WAIT * 3), Some(start(0, false)), "watches live long");
    }

    #[test]
    fn a_million_ends_without_a_start_take_no_time() {
        let began = std::time::Instant::now();
        let mut pending: Pending<()> = Pending::default();
        for identity in 0..1_000_000u128 {
            // All within a moment: none is old enough to be forgotten.
            assert_eq!(pending.end(identity, 5), None);
        }
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
        assert_eq!(pending.start(7, start(1, false)), Started::Ended);
        pending.end(1, 2 * EARLY_END);
        assert_eq!(pending.early_ends.len(), 1, "the old ones are forgotten");
    }
}
