//! Breakdowns of audit logs, and beside them what the logs show of the requests that metrics count.

use crate::analysis::dims::Dim;
use crate::analysis::metrics::facts::Facts;
use crate::analysis::reconcile::{Comparison, Seen, Windows};
use crate::analysis::rollup::{Rollup, stored};
use crate::analysis::traffic::logs::Reading;
use crate::analysis::traffic::stored as from_rollup;
use crate::analysis::traffic::{self as analysis, Batch, Breakdown, Plan, Query, Traffic};
use crate::cli::{Context, Error};
use crate::inputs::log_question::{CacheUse, Fold, LogQuestion};
use crate::inputs::logs::ask;
use crate::model::event::Timed;
use crate::model::problem::Problem;
use crate::model::time::Bounds;
use crate::sources::audit::pass::{Delivery, Outcome, Worker};
use crate::sources::found::Discovery;
use std::sync::Arc;

/// Asks for a breakdown of audit logs, and beside it what they show of what metrics count.
#[derive(Debug, Clone)]
pub(crate) struct Breaking {
    /// What to count.
    pub(crate) query: Query,
    /// When metrics of the same instances were counting.
    pub(crate) windows: Option<Arc<Windows>>,
    /// Whether what was counted is not given back, as this is the last that the program reads.
    pub(crate) is_last: bool,
}

impl Breaking {
    /// A breakdown alone.
    pub(crate) fn of(query: Query) -> Self {
        Self { query, windows: None, is_last: false }
    }
}

/// A breakdown, and what was seen of what metrics count.
pub(crate) type Broken = (Breakdown, Vec<Seen>);

impl LogQuestion for Breaking {
    type Fold = Folding;
    type Answer = Broken;
    fn bounds(&self) -> Bounds {
        (self.query.since, self.query.until)
    }
    fn looks_at(&self) -> Bounds {
        // What pages count is compared with all of the logs.
        if self.windows.is_some() { (None, None) } else { self.bounds() }
    }
    fn fold(&self, _: usize) -> Folding {
        Folding { plan: Plan::new(self.query.clone()), windows: self.windows.clone(), is_last: self.is_last }
    }
    fn is(&self, other: &Self) -> bool {
        self.query == other.query && self.windows == other.windows
    }
    fn stored(&self) -> Result<stored::Wanted, Problem> {
        from_rollup::is_answered(&self.query)?;
        Ok(stored::Wanted {
            since: self.query.since,
            until: self.query.until,
            tables: stored::Tables::Requests,
            ..Default::default()
        })
    }
    fn is_exact(&self, held: &Rollup) -> bool {
        let dims = self.query.by.iter().chain(self.query.filters.iter().map(|filter| &filter.dim));
        let is_user = |dim: &Dim| matches!(dim, Dim::User | Dim::ServiceAccount | Dim::Client);
        self.windows.is_none() && held.is_exact(dims.copied().any(|dim| is_user(&dim)))
    }
    fn of_rollup(&self, rollup: Rollup) -> Result<Broken, Problem> {
        Ok((from_rollup::breakdown(&self.query, &rollup)?, Vec::new()))
    }
    fn cache_use(&self) -> CacheUse {
        let is_same = self.windows.is_none() && from_rollup::is_exact(&self.query);
        if is_same { CacheUse::IfCheap } else { CacheUse::Never }
    }
    fn of_kept(&self, rollup: Rollup) -> Option<Broken> {
        Some((from_rollup::exact(&self.query, &rollup)?, Vec::new()))
    }
}

/// Counts.
pub(crate) struct Folding {
    plan: Plan,
    windows: Option<Arc<Windows>>,
    is_last: bool,
}

impl Fold for Folding {
    type Worker<'f> = Counting<'f>;
    type Batch = Batch;
    type State = Traffic;
    type Answer = Broken;
    fn worker(&self) -> Counting<'_> {
        Counting(self.plan.fold(), self.windows.clone().map(Seen::new))
    }
    fn begin(&self) -> Traffic {
        Traffic::default()
    }
    fn take(&self, traffic: &mut Traffic, delivery: Delivery<Batch>) {
        if let Delivery::Block { batch, .. } = delivery {
            traffic.take(batch);
        }
    }
    fn finish(&self, traffic: Traffic, workers: Vec<Counting<'_>>) -> Broken {
        let (folds, seen): (Vec<_>, Vec<_>) = workers.into_iter().map(|worker| (worker.0, worker.1)).unzip();
        let breakdown = traffic.finish(&self.plan, &folds);
        if self.is_last {
            // Giving back row by row what was counted takes a tenth of the time.
            std::mem::forget(folds);
        }
        (breakdown, seen.into_iter().flatten().collect())
    }
}

/// Reads the logs and counts; says what was lost. What was counted is not given back if this is the last that the
/// program reads.
pub(crate) fn read(
    query: &Query,
    found: Discovery,
    metrics: Option<(Arc<Windows>, &Facts)>,
    is_last: bool,
    context: &mut Context<'_>,
) -> Result<(Breakdown, Reading), Error> {
    let streams = found.streams.iter().map(|s| (s.stream.cluster.clone(), s.stream.instance.clone())).collect();
    let windows = metrics.as_ref().map(|(windows, _)| Arc::clone(windows));
    let asked = Breaking { query: query.clone(), windows, is_last };
    let (reported, outcome) = ask(found.streams, asked, context)?;
    if outcome.total().unfinished_lines > 0 && context.settings.verbose {
        context.notice(
            "the last line of an input is incomplete; it was left out, because the log may still be being \
             written",
        )?;
    }
    let spans: Vec<_> = outcome.coverage.iter().map(|coverage| coverage.first.zip(coverage.last)).collect();
    let against_metrics = metrics.and_then(|(windows, facts)| Comparison::new(&windows, &reported.1, facts, &spans));
    let Outcome { inputs, losses, coverage, .. } = outcome;
    let reading = Reading { inputs, losses, coverage, streams, server: None, against_metrics, flow: None };
    let breakdown = Arc::try_unwrap(reported).map_or_else(|shared| shared.0.clone(), |(breakdown, _)| breakdown);
    Ok((breakdown, reading))
}

/// The fold of analysis as a worker of the source's pass.
pub(crate) struct Counting<'p>(pub(crate) analysis::Fold<'p>, pub(crate) Option<Seen>);

impl Worker for Counting<'_> {
    type Batch = Batch;
    #[inline]
    fn event(&mut self, event: Timed<'_, '_>) {
        if let Some(seen) = &mut self.1 {
            seen.event(&event);
        }
        self.0.event(event);
    }
    fn flush(&mut self) -> Batch {
        self.0.flush()
    }
}
