//! Who sends what: requests, errors, latency and peaks by any dimensions.
//!
//! Each thread folds its events by exactly the dimensions asked for ([`Fold`]); what needs an order
//! (starts and ends of long-running requests, the busiest seconds) goes to [`Traffic`] in the order of
//! the log. The rules of counting are those of docs/rollup.md.

mod fold;
pub mod logs;
mod plan;
mod quick;
pub mod report;
pub mod stored;

use crate::analysis::dims::Dim;
use crate::analysis::filter::Filter;
use crate::analysis::flow::Sets;
use crate::analysis::list_route::Minor;
use crate::analysis::peak::{Peaks, WINDOW};
use crate::analysis::pending::{Pending, Start, Started};
use crate::analysis::repeated::{IdSample, RepeatedIds};
use crate::model::event::{Event, Stage};
use crate::model::histogram::Histogram;
use crate::model::time::Micros;
pub use fold::{Batch, Fold};
use hashbrown::HashMap;
use plan::ALL;
pub use plan::{MAX_ROWS, OTHER, Plan};
use std::sync::Arc;

/// What to count, and by what.
#[derive(Debug, Clone, Default, PartialEq)]
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
        self.count(outcome, 1);
    }

    /// Counts requests that ended alike.
    #[inline]
    fn count(&mut self, outcome: Outcome, requests: u64) {
        self.requests += requests;
        match outcome {
            Outcome::Ok => {}
            Outcome::Error => self.errors += requests,
            Outcome::ClientError => self.client_errors += requests,
            Outcome::Throttled => self.throttled += requests,
        }
    }
}

/// How a request ended, as far as its code shows.
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
    /// The outcome that `event` reports.
    #[inline]
    pub fn of(event: &Event<'_>, stage: Stage) -> Self {
        match event.code {
            None if stage == Stage::Panic => Self::Error,
            code => Self::of_code(code),
        }
    }

    /// The same of a response code alone.
    #[inline]
    pub fn of_code(code: Option<u16>) -> Self {
        match code {
            Some(429) => Self::Throttled,
            Some(400..=499) => Self::ClientError,
            Some(0 | 500..) => Self::Error,
            Some(_) | None => Self::Ok,
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
    /// Largest number of requests that arrived in ten consecutive seconds, by ten; `None` where a roll-up does not
    /// show.
    pub peak_rps: Option<f64>,
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
    /// Whether it was made from a stored roll-up.
    pub is_rolled: bool,
    /// Requests that came too late to be seen in a peak.
    pub late_for_peak: u64,
    pub audit_ids: RepeatedIds,
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
        if self.pending.too_many() {
            self.pending.expired().into_iter().for_each(|start| self.remains(start));
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
    pub fn finish(self, plan: &Plan, folds: &[Fold<'_>]) -> Breakdown {
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
        let stats = |row: u32| {
            let mut sum = Stats::default();
            folds
                .iter()
                .filter_map(|fold| fold.stats(row))
                .chain(self.extra.get(&row))
                .for_each(|stats| sum.merge(stats));
            sum
        };
        let peaks = self.peaks.finish();
        let first = folds.iter().filter_map(|fold| fold.first).min();
        let last = folds.iter().filter_map(|fold| fold.last).max();
        let peak = |row: u32| peaks.get(row as usize).copied().unwrap_or(0) as f64 / WINDOW as f64;
        let mut total = Stats::default();
        let mut ids = IdSample::default();
        folds.iter().for_each(|fold| ids.merge(&fold.ids));
        let known = plan.rows();
        let order = known.in_order();
        let mut rows = Vec::with_capacity(order.len());
        let mut folded = 0;
        for number in order {
            let stats = stats(number);
            total.merge(&stats);
            if known.is_beyond(number) {
                folded += stats.requests;
            }
            if stats.requests == 0 {
                continue; // only the latency of watches whose end stands in another row
            }
            let (dims, interval) = known.texts(number);
            let interval = plan.query.interval.zip(interval).map(|(length, index)| index * length);
            rows.push(Row { interval, dims, stats, peak_rps: Some(peak(number)) });
        }
        Breakdown {
            rows,
            total: Row { interval: None, dims: Vec::new(), stats: total, peak_rps: Some(peak(ALL)) },
            first,
            last,
            folded,
            is_rolled: false,
            late_for_peak: self.peaks.late,
            audit_ids: ids.repeated(),
        }
    }
}
