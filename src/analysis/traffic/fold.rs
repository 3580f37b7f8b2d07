//! Counts events on one thread, by exactly the dimensions asked for.
//!
//! The counts of a large cluster's rows are more than a processor's caches hold. So what an event adds is written down,
//! and counted when its block ends, all at once: a processor waits for many of them at the same time then, and not for
//! each between one line of a log and the next.

use super::plan::{ALL, LAST_INTERVAL, Plan};
use super::quick::{Quick, SEPARATOR};
use super::{Outcome, Stats};
use crate::analysis::dims::{Dim, EventContext};
use crate::analysis::flow::{Classifier, Sets};
use crate::analysis::repeated::IdSample;
use crate::model::event::Timed;
use crate::model::time::{Micros, SECOND, is_within};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// What a block gave that is needed in the order of the log.
#[derive(Debug, Default)]
pub struct Batch {
    /// Row, second of arrival and number of the requests that are not long-running; also of all rows together.
    pub(super) starts: Vec<(u32, Second, u32)>,
    pub(super) long: Vec<Long>,
}

/// Seconds since 1970; 32 bits reach to 2106, and what is beyond is no log's time.
type Second = u32;

/// A started or terminal event of a long-running request.
#[derive(Debug)]
pub(super) struct Long {
    pub(super) identity: u128,
    pub(super) at: Micros,
    /// Row and second of arrival; `None` if the event is not to be counted.
    pub(super) row: Option<(u32, i64)>,
    /// Of a started event: its outcome, and whether it failed (code 400 or more).
    pub(super) started: Option<(Outcome, bool)>,
}

/// What an event adds to its row.
#[derive(Debug)]
struct Addition {
    row: u32,
    /// Of a request: how it ended.
    request: Option<Outcome>,
    /// The second in which it arrived, if that is not for [`Long`] to say.
    second: Option<Second>,
    latency: Option<u64>,
}

/// Folds events on one thread.
#[derive(Debug)]
pub struct Fold<'p> {
    plan: &'p Plan,
    /// The rows this thread has met: where their keys stand in `keys`, and their numbers.
    known: HashTable<RowEntry>,
    keys: Vec<u8>,
    /// Rows by what the reader knows of events by number, each at the place of its hash.
    quick: Option<Quick>,
    flow: Option<Classifier<'p>>,
    /// What this block's events add.
    additions: Vec<Addition>,
    /// By row.
    counts: Vec<Counts>,
    /// Rows that have met an arrival in this block.
    arrivals: Vec<u32>,
    pub(super) ids: IdSample,
    hasher: FixedState,
    key: Vec<u8>,
    scratch: Vec<u8>,
    batch: Batch,
    pub(super) first: Option<Micros>,
    pub(super) last: Option<Micros>,
}

impl Plan {
    /// A worker for one thread.
    pub fn fold(&self) -> Fold<'_> {
        Fold {
            plan: self,
            known: HashTable::new(),
            keys: Vec::new(),
            quick: Quick::of(&self.query),
            flow: self.query.flow.as_deref().map(Sets::classifier),
            additions: Vec::new(),
            counts: vec![Counts::default(); 2],
            arrivals: Vec::new(),
            ids: IdSample::default(),
            hasher: FixedState::with_seed(1),
            key: Vec::new(),
            scratch: Vec::new(),
            batch: Batch::default(),
            first: None,
            last: None,
        }
    }
}

impl Fold<'_> {
    /// What the thread has counted of a row.
    pub(super) fn stats(&self, row: u32) -> Option<&Stats> {
        self.counts.get(row as usize).map(|counts| &counts.stats)
    }

    /// Takes one event.
    #[inline]
    pub fn event(&mut self, event: Timed<'_, '_>) {
        let query = &self.plan.query;
        if !is_within((query.since, query.until), event.at) {
            return;
        }
        self.first = Some(self.first.map_or(event.at, |first| first.min(event.at)));
        self.last = Some(self.last.map_or(event.at, |last| last.max(event.at)));
        let long_running = event.event.is_long_running();
        let terminal = event.stage.is_terminal();
        let flow = self.flow.as_mut().map(|classifier| classifier.flow(&event)).unwrap_or_default();
        let known = EventContext { server: query.server, flow };
        if !query.filters.iter().all(|filter| filter.accepts(&event, known)) {
            if long_running && terminal {
                self.batch.long.push(Long {
                    identity: event.identity(&mut self.scratch),
                    at: event.at,
                    row: None,
                    started: None,
                });
            }
            return;
        }
        let row = self.row_of(&event, known);
        let outcome = Outcome::of(event.event, event.stage);
        let second = event.received_or_at().div_euclid(SECOND);
        if terminal {
            self.ids.add(id_hash(&event));
        }
        if long_running {
            let latency = if !terminal && event.event.verb.is("watch") { event.elapsed() } else { None };
            self.additions.push(Addition { row, request: terminal.then_some(outcome), second: None, latency });
            self.batch.long.push(Long {
                identity: event.identity(&mut self.scratch),
                at: event.at,
                row: Some((row, second)),
                started: (!terminal).then_some((outcome, event.event.code.is_some_and(|code| code >= 400))),
            });
        } else {
            // A started event of a request that is not long-running is all there is of it.
            let second = Some(Second::try_from(second).unwrap_or_default());
            self.additions.push(Addition { row, request: Some(outcome), second, latency: event.elapsed() });
        }
    }

    /// Counts an arrival. Neighbours in a log mostly arrived in the same second: what is handed on is counted first.
    #[inline]
    fn arrived(&mut self, row: u32, second: Second) {
        let counts = &mut self.counts[row as usize];
        if counts.arrived == 0 {
            self.arrivals.push(row);
        } else if counts.second == second {
            counts.arrived += 1;
            return;
        } else {
            self.batch.starts.push((row, counts.second, counts.arrived));
        }
        (counts.second, counts.arrived) = (second, 1);
    }

    /// Ends a block.
    pub fn flush(&mut self) -> Batch {
        let mut additions = std::mem::take(&mut self.additions);
        for Addition { row, request, second, latency } in additions.drain(..) {
            let stats = &mut self.counts[row as usize].stats;
            if let Some(outcome) = request {
                stats.request(outcome);
            }
            if let Some(latency) = latency {
                stats.latency.add(latency);
            }
            if let Some(second) = second {
                self.arrived(row, second);
                self.arrived(ALL, second);
            }
        }
        self.additions = additions;
        for row in self.arrivals.drain(..) {
            let counts = &mut self.counts[row as usize];
            self.batch.starts.push((row, counts.second, std::mem::take(&mut counts.arrived)));
        }
        std::mem::take(&mut self.batch)
    }

    /// The row of an event.
    #[inline]
    fn row_of(&mut self, event: &Timed<'_, '_>, known: EventContext<'_>) -> u32 {
        if let Some(quick) = &mut self.quick
            && let Some(key) = quick.key(event, known)
        {
            if let Some(row) = quick.find(key) {
                return row;
            }
            let row = self.new_row(None, event, known);
            if let Some(quick) = &mut self.quick {
                quick.keep(key, row);
            }
            return row;
        }
        self.row_by_text(event, known)
    }

    /// One look-up by the text of all dimensions together.
    fn row_by_text(&mut self, event: &Timed<'_, '_>, known: EventContext<'_>) -> u32 {
        let query = &self.plan.query;
        self.key.clear();
        for dim in &query.by {
            match (dim, event.event.caller) {
                // The reader knows the user by a number.
                (Dim::User, Some(caller)) => {
                    self.key.extend_from_slice(&caller.generation.to_le_bytes());
                    self.key.extend_from_slice(&caller.index.to_le_bytes());
                    self.key.push(NUMBER);
                }
                _ => {
                    dim.write(event, known, &mut self.key);
                    self.key.push(SEPARATOR);
                }
            }
        }
        // What is before 1970 or beyond 2106 is no log's time, and goes to the first or the last interval.
        let interval =
            query.interval.map(|length| event.at.div_euclid(length).clamp(0, i64::from(LAST_INTERVAL)) as u32);
        if let Some(interval) = interval {
            self.key.extend(interval.to_le_bytes());
        }
        let hash = self.hasher.hash_one(self.key.as_slice());
        let (keys, key) = (&self.keys, &self.key);
        match self.known.find(hash, |one| one.hash == hash && keys[one.from..one.to] == **key) {
            Some(found) => found.row,
            None => {
                let row = self.new_row(interval, event, known);
                self.remember(hash, row);
                row
            }
        }
    }

    /// The row of an event that this thread has not met, or has forgotten.
    #[cold]
    fn new_row(&mut self, interval: Option<u32>, event: &Timed<'_, '_>, known: EventContext<'_>) -> u32 {
        let query = &self.plan.query;
        let texts: Vec<_> = query.by.iter().map(|dim| dim.of(event, known)).collect();
        let row = self.plan.rows().number(interval, texts.iter().map(AsRef::as_ref));
        if self.counts.len() <= row as usize {
            self.counts.resize(row as usize + 1, Counts::default());
        }
        row
    }

    /// Remembers the row whose key has just been made.
    fn remember(&mut self, hash: u64, row: u32) {
        if self.keys.len() > MAX_KEYS {
            // Hostile input: forget the rows met so far, not their counts.
            self.known.clear();
            self.keys.clear();
        }
        let from = self.keys.len();
        self.keys.extend_from_slice(&self.key);
        let met = RowEntry { hash, from, to: self.keys.len(), row };
        self.known.insert_unique(hash, met, |met| met.hash);
    }
}

/// What a thread has counted of a row.
#[derive(Debug, Clone, Default)]
struct Counts {
    stats: Stats,
    /// The second in which its latest request arrived, and how many did then that are yet to be handed on.
    second: Second,
    arrived: u32,
}

/// A row that a thread has met.
#[derive(Debug, Clone, Copy)]
struct RowEntry {
    hash: u64,
    from: usize,
    to: usize,
    row: u32,
}

/// Stands behind the number of a caller.
const NUMBER: u8 = 0xfe;

/// Bytes of keys that a thread holds.
const MAX_KEYS: usize = 64 << 20;

/// What distinguishes one request's audit id from another's.
#[inline]
fn id_hash(event: &Timed<'_, '_>) -> u64 {
    xxhash_rust::xxh3::xxh3_64(event.event.audit_id.raw())
}
