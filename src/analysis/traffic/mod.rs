//! Who sends what: requests, errors, latency and peaks by any dimensions.
//!
//! Each thread folds its events by exactly the dimensions asked for ([`Fold`]); what needs an order
//! (starts and ends of long-running requests, the busiest seconds) goes to [`Traffic`] in the order of
//! the log. The rules of counting are those of docs/rollup.md.

pub mod logs;
mod quick;
pub mod report;

use crate::analysis::dims::{Dim, Known};
use crate::analysis::filter::Filter;
use crate::analysis::flow::{Classifier, Sets};
use crate::analysis::list_route::Minor;
use crate::analysis::peak::{Peaks, WINDOW};
use crate::analysis::pending::{Pending, Start, Started};
use crate::analysis::repeated::{IdSample, RepeatedIds};
use crate::model::event::{Event, Stage, Timed};
use crate::model::histogram::Histogram;
use crate::model::symbols::{Symbol, Symbols};
use crate::model::time::{Micros, SECOND};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use quick::Quick;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows kept; requests of further ones are counted as `(other)`.
pub const MAX_ROWS: usize = 300_000;

/// The value of every dimension of the row that takes what is beyond [`MAX_ROWS`].
pub const OTHER: &str = "(other)";

/// What to count, and by what.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The dimensions of a row.
    pub by: Vec<Dim>,
    /// Conditions, all of which must hold.
    pub filters: Vec<Filter>,
    /// Events before this are left out.
    pub since: Option<Micros>,
    /// Events at or after this are left out.
    pub until: Option<Micros>,
    /// The length of an interval, where rows are also split by time.
    pub interval: Option<Micros>,
    /// The apiservers' version, where known: it decides who answers a LIST.
    pub server: Option<Minor>,
    /// FlowSchemas, where a dimension needs them.
    pub flow: Option<Arc<Sets>>,
}

/// What happened to the requests of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests, open ones included.
    pub requests: u64,
    /// Long-running requests whose end is not in the log.
    pub open: u64,
    /// Code 0 or ≥ 500, or a panic.
    pub errors: u64,
    /// Codes 400 to 499 but 429.
    pub client_errors: u64,
    /// Code 429.
    pub throttled: u64,
    /// Time to the response, in µs; of watches to its start; not of other long-running requests.
    pub latency: Histogram,
}

impl Stats {
    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.open += other.open;
        self.errors += other.errors;
        self.client_errors += other.client_errors;
        self.throttled += other.throttled;
        self.latency.merge(&other.latency);
    }

    #[inline]
    fn request(&mut self, outcome: Outcome) {
        self.requests += 1;
        match outcome {
            Outcome::Ok => {}
            Outcome::Error => self.errors += 1,
            Outcome::ClientError => self.client_errors += 1,
            Outcome::Throttled => self.throttled += 1,
        }
    }
}

/// How a request ended, as far as its code tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Neither of the others, or no code.
    Ok,
    /// The server failed: code 0 or ≥ 500, or a panic.
    Error,
    /// The client asked for something it should not have: 400 to 499 but 429.
    ClientError,
    /// 429.
    Throttled,
}

impl Outcome {
    /// The outcome that `event` tells of.
    #[inline]
    pub fn of(event: &Event<'_>, stage: Stage) -> Self {
        match event.code {
            Some(429) => Self::Throttled,
            Some(400..=499) => Self::ClientError,
            Some(0 | 500..) => Self::Error,
            Some(_) => Self::Ok,
            None if stage == Stage::Panic => Self::Error,
            None => Self::Ok,
        }
    }
}

/// A row of the result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// Start of the interval, where the query has intervals.
    pub interval: Option<Micros>,
    /// The values of the dimensions, in the query's order.
    pub dims: Vec<String>,
    /// The counts.
    pub stats: Stats,
    /// Largest number of requests that arrived in ten consecutive seconds, by ten.
    pub peak_rps: f64,
}

/// The result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Breakdown {
    /// Rows with a request, in the order of their dimensions.
    pub rows: Vec<Row>,
    /// All rows together.
    pub total: Row,
    /// Smallest `at` of the events within the query's bounds.
    pub first: Option<Micros>,
    /// Largest `at` of the events within the query's bounds.
    pub last: Option<Micros>,
    /// Requests that were counted as `(other)` for want of room.
    pub folded: u64,
    /// Requests that came too late to be seen in a peak.
    pub late_for_peak: u64,
    /// Audit ids.
    pub audit_ids: RepeatedIds,
}

/// Rows by their dimensions, shared by the threads: looked up once per thread and row.
#[derive(Debug, Default)]
struct Shared {
    symbols: Symbols,
    rows: HashMap<Box<[u32]>, u32>,
    keys: Vec<Box<[u32]>>,
}

/// The query and what its threads share.
#[derive(Debug)]
pub struct Plan {
    query: Query,
    shared: Mutex<Shared>,
}

impl Plan {
    /// A plan for `query`.
    pub fn new(query: Query) -> Self {
        let plan = Self { query, shared: Mutex::default() };
        let other = vec![OTHER; plan.query.by.len()];
        let (all, beyond) = (plan.add(Box::new([])), plan.row(None, other.into_iter()));
        debug_assert_eq!((all, beyond), (ALL, BEYOND));
        plan
    }

    /// The number of a row; [`BEYOND`] where there is no room for another.
    fn row<'t>(&self, interval: Option<u32>, dims: impl Iterator<Item = &'t str>) -> u32 {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = &mut *shared;
        let mut key: Vec<u32> = dims.map(|text| shared.symbols.intern(text).0).collect();
        key.extend(interval);
        if let Some(&row) = shared.rows.get(key.as_slice()) {
            return row;
        }
        if shared.keys.len() >= MAX_ROWS {
            return BEYOND;
        }
        let row = shared.keys.len() as u32;
        let key = key.into_boxed_slice();
        shared.keys.push(key.clone());
        shared.rows.insert(key, row);
        row
    }

    fn add(&self, key: Box<[u32]>) -> u32 {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.keys.push(key);
        shared.keys.len() as u32 - 1
    }

    /// A worker for one thread.
    pub fn fold(&self) -> Fold<'_> {
        Fold {
            plan: self,
            known: HashTable::new(),
            keys: Vec::new(),
            quick: Quick::of(&self.query),
            flow: self.query.flow.as_deref().map(Sets::classifier),
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

/// What a block gave that is needed in the order of the log.
#[derive(Debug, Default)]
pub struct Batch {
    /// Row, second of arrival and number of the requests that are not long-running; also of all rows together.
    starts: Vec<(u32, Second, u32)>,
    long: Vec<Long>,
}

/// Seconds since 1970; 32 bits reach to 2106, and what is beyond is no log's time.
type Second = u32;

/// A started or terminal event of a long-running request.
#[derive(Debug)]
struct Long {
    identity: u128,
    at: Micros,
    /// Row and second of arrival; `None` if the event is not to be counted.
    row: Option<(u32, i64)>,
    /// Of a started event: its outcome, and whether it failed (code 400 or more).
    started: Option<(Outcome, bool)>,
}

/// Folds events on one thread.
#[derive(Debug)]
pub struct Fold<'p> {
    plan: &'p Plan,
    /// The rows this thread has met: where their keys stand in `keys`, and their numbers.
    known: HashTable<Met>,
    keys: Vec<u8>,
    /// Rows by what the reader knows of events by number, each at the place of its hash.
    quick: Option<Quick>,
    flow: Option<Classifier<'p>>,
    /// By row.
    counts: Vec<Counts>,
    /// Rows that have met an arrival in this block.
    arrivals: Vec<u32>,
    ids: IdSample,
    hasher: FixedState,
    key: Vec<u8>,
    scratch: Vec<u8>,
    batch: Batch,
    first: Option<Micros>,
    last: Option<Micros>,
}

impl Fold<'_> {
    /// Takes one event.
    #[inline]
    pub fn event(&mut self, event: Timed<'_, '_>) {
        let query = &self.plan.query;
        let counted = query.since.is_none_or(|since| event.at >= since) && query.until.is_none_or(|until| event.at < until);
        if !counted {
            return;
        }
        self.first = Some(self.first.map_or(event.at, |first| first.min(event.at)));
        self.last = Some(self.last.map_or(event.at, |last| last.max(event.at)));
        let long_running = event.event.is_long_running();
        let terminal = event.stage.is_terminal();
        let flow = self.flow.as_mut().map(|classifier| classifier.flow(&event)).unwrap_or_default();
        let known = Known { server: query.server, flow };
        if !query.filters.iter().all(|filter| filter.accepts(&event, known)) {
            if long_running && terminal {
                self.batch.long.push(Long { identity: event.identity(&mut self.scratch), at: event.at, row: None, started: None });
            }
            return;
        }
        let row = self.row_of(&event, known);
        let counts = &mut self.counts[row as usize];
        let stats = &mut counts.stats;
        let outcome = Outcome::of(event.event, event.stage);
        let second = event.received_or_at().div_euclid(SECOND);
        if terminal {
            self.ids.add(id_hash(&event));
        }
        if long_running {
            if terminal {
                stats.request(outcome);
            } else if event.event.verb.is("watch")
                && let Some(latency) = event.elapsed()
            {
                stats.latency.add(latency);
            }
            self.batch.long.push(Long {
                identity: event.identity(&mut self.scratch),
                at: event.at,
                row: Some((row, second)),
                started: (!terminal).then_some((outcome, event.event.code.is_some_and(|code| code >= 400))),
            });
        } else {
            // A started event of a request that is not long-running is all there is of it.
            stats.request(outcome);
            if let Some(latency) = event.elapsed() {
                stats.latency.add(latency);
            }
            let second = Second::try_from(second).unwrap_or_default();
            self.arrived(row, second);
            self.arrived(ALL, second);
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
        for row in self.arrivals.drain(..) {
            let counts = &mut self.counts[row as usize];
            self.batch.starts.push((row, counts.second, std::mem::take(&mut counts.arrived)));
        }
        std::mem::take(&mut self.batch)
    }

    /// The row of an event.
    #[inline]
    fn row_of(&mut self, event: &Timed<'_, '_>, known: Known<'_>) -> u32 {
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
    fn row_by_text(&mut self, event: &Timed<'_, '_>, known: Known<'_>) -> u32 {
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
        let interval = query.interval.map(|length| event.at.div_euclid(length) as u32);
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
    fn new_row(&mut self, interval: Option<u32>, event: &Timed<'_, '_>, known: Known<'_>) -> u32 {
        let query = &self.plan.query;
        let texts: Vec<_> = query.by.iter().map(|dim| dim.of(event, known)).collect();
        let row = self.plan.row(interval, texts.iter().map(AsRef::as_ref));
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
        let met = Met { hash, from, to: self.keys.len(), row };
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
struct Met {
    hash: u64,
    from: usize,
    to: usize,
    row: u32,
}

/// The row of all requests together; it has a peak only.
const ALL: u32 = 0;

/// The row for what is beyond [`MAX_ROWS`].
const BEYOND: u32 = 1;

/// Stands behind the text of a dimension in a key: a byte that is in no UTF-8.
const SEPARATOR: u8 = 0xff;

/// Stands behind the number of a caller.
const NUMBER: u8 = 0xfe;

/// Bytes of keys that a thread holds.
const MAX_KEYS: usize = 64 << 20;

/// What tells one request's audit id from another's.
#[inline]
fn id_hash(event: &Timed<'_, '_>) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(event.event.audit_id.raw(), u64::from(event.stream.id))
}

/// Puts together what the threads found.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    peaks: Peaks,
    pending: Pending<(u32, i64, Outcome)>,
    /// By row: starts that no end belongs to.
    extra: HashMap<u32, Stats>,
}

impl Traffic {
    /// Takes a block, in the order of its stream.
    pub fn take(&mut self, batch: Batch) {
        for (row, second, count) in batch.starts {
            self.peaks.add(row, i64::from(second), count);
        }
        for long in batch.long {
            match (long.started, long.row) {
                (Some((outcome, failed)), Some((row, second))) => {
                    let start = Start { at: long.at, failed, what: (row, second, outcome), times: 1 };
                    match self.pending.start(long.identity, start) {
                        Started::Waits => self.arrived(row, second),
                        Started::Ended => {} // counted with its end
                        Started::NoRoom(start) => {
                            self.arrived(row, second);
                            self.remains(start);
                        }
                    }
                }
                (_, row) => {
                    let start = self.pending.end(long.identity, long.at).map(|start| start.what);
                    match (start, row) {
                        (None, Some((row, second))) => self.arrived(row, second),
                        // It arrived under its start's row, and counts under its end's.
                        (Some((from, second, _)), Some((to, _))) if from != to => self.peaks.move_one(from, to, second),
                        _ => {}
                    }
                }
            }
        }
        self.peaks.settle();
        for start in self.pending.expired() {
            self.remains(start);
        }
    }

    /// A long-running request arrived.
    fn arrived(&mut self, row: u32, second: i64) {
        self.peaks.add(row, second, 1);
        self.peaks.add(ALL, second, 1);
    }

    /// A start that no end belongs to: open, or failed and complete.
    fn remains(&mut self, start: Start<(u32, i64, Outcome)>) {
        let (row, _, outcome) = start.what;
        let extra = self.extra.entry(row).or_default();
        for _ in 0..start.times {
            extra.request(outcome);
            extra.open += u64::from(!start.failed);
        }
    }

    /// The result.
    pub fn finish(self, plan: &Plan, folds: Vec<Fold<'_>>) -> Breakdown {
        self.result(plan, &folds.iter().collect::<Vec<_>>())
    }

    /// The result of all blocks taken so far, as [`Traffic::finish`] would give it; more may follow. All that
    /// `folds` took must have been flushed and handed in. Costs a copy of what waits for its end and of the peaks.
    pub fn snapshot(&self, plan: &Plan, folds: &[&Fold<'_>]) -> Breakdown {
        self.clone().result(plan, folds)
    }

    fn result(mut self, plan: &Plan, folds: &[&Fold<'_>]) -> Breakdown {
        let waiting: Vec<_> = self.pending.drain().map(|(_, start)| start).collect();
        waiting.into_iter().for_each(|start| self.remains(start));
        let shared = plan.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stats = vec![Stats::default(); shared.keys.len()];
        for fold in folds {
            stats.iter_mut().zip(&fold.counts).for_each(|(all, one)| all.merge(&one.stats));
        }
        for (row, more) in &self.extra {
            stats[*row as usize].merge(more);
        }
        let peaks = self.peaks.finish();
        let first = folds.iter().filter_map(|fold| fold.first).min();
        let last = folds.iter().filter_map(|fold| fold.last).max();
        let peak = |row: usize| peaks.get(row).copied().unwrap_or(0) as f64 / WINDOW as f64;
        let folded = stats.get(1).map_or(0, |other| other.requests);
        let mut total = Stats::default();
        let mut ids = IdSample::default();
        folds.iter().for_each(|fold| ids.merge(&fold.ids));
        let mut rows = Vec::new();
        for (number, (key, stats)) in shared.keys.iter().zip(stats).enumerate().skip(1) {
            total.merge(&stats);
            if stats.requests == 0 {
                continue; // only the latency of watches whose end stands in another row
            }
            let width = plan.query.by.len();
            let dims = key[..width].iter().map(|&symbol| shared.symbols.get(Symbol(symbol)).to_owned()).collect();
            let interval = plan.query.interval.zip(key.get(width)).map(|(length, &index)| i64::from(index) * length);
            rows.push(Row { interval, dims, stats, peak_rps: peak(number) });
        }
        rows.sort_by(|a, b| (a.interval, &a.dims).cmp(&(b.interval, &b.dims)));
        Breakdown {
            rows,
            total: Row { interval: None, dims: Vec::new(), stats: total, peak_rps: peak(ALL as usize) },
            first,
            last,
            folded,
            late_for_peak: self.peaks.late,
            audit_ids: ids.repeated(),
        }
    }
}
