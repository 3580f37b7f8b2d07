//! Nodes that are lost together: their kubelets renew their leases no more, and the node controller marks them.

use super::excursions::runs;
use super::series::{RequestSeries, quantile};
use super::signals::{Deviation, Signal, edges};
use crate::model::cause::Source;
use crate::model::time::{MINUTE, Micros, SECOND, Span};
use std::ops::Range;

/// Fewer nodes than this, or than this part of all, are machines that fail, and no episode of the cluster.
const MIN_NODES: f64 = 3.0;
const MIN_PART: f64 = 0.05;
/// Every kubelet renews its lease once in this time (a quarter of `nodeLeaseDurationSeconds`, by default 40), s.
const RENEWAL_S: f64 = 10.0;
/// Without a sign of life for so long a node is marked (`--node-monitor-grace-period`: 40 s up to Kubernetes 1.31, 50 s
/// since), in µs.
const GRACE: Micros = 50 * SECOND;
/// Marks that lie apart by less are of one loss: the controller looks every 5 s, in µs.
const PAUSE: Micros = MINUTE;
/// What kubelets renew while all live: this quantile over all intervals, as they may be gone for most of the time.
const USUAL: f64 = 0.7;
/// A fall of less than this part of what the marked nodes renewed is not theirs.
const MIN_FALL: f64 = 0.5;

/// Times in which many nodes are lost.
pub(super) fn lost(series: &RequestSeries) -> Vec<Deviation> {
    let grid = series.grid;
    let signs = |at: usize| series.tiles[at].nodes;
    let is_marked = |at: &usize| signs(*at).marks > 0.0;
    let groups = runs((0..series.tiles.len()).filter(is_marked), (PAUSE / grid.tile) as usize);
    if groups.is_empty() {
        return Vec::new();
    }
    let renewals: Vec<f64> = (0..series.tiles.len()).map(|at| signs(at).renewals).collect();
    let rates = (0..renewals.len()).filter(|at| grid.seconds(*at) * 2.0 >= grid.tile as f64 / SECOND as f64);
    let usual = quantile(rates.map(|at| renewals[at] / grid.seconds(at)).collect(), USUAL).unwrap_or(0.0);
    let of = |marked: Range<usize>| {
        let nodes: f64 = marked.clone().map(|at| signs(at).marks).sum();
        if nodes < MIN_NODES || nodes < MIN_PART * usual * RENEWAL_S {
            return None;
        }
        let fall = Fall { series, renewals: &renewals, usual, nodes };
        let span = match fall.span(&marked) {
            Some(span) => span,
            // Metrics do not say who writes: without a fall it may be somebody else.
            None if series.source == Source::Metrics => return None,
            None => between_taints(series, &marked, nodes),
        };
        Some(Deviation {
            signal: Signal::NodesLost,
            source: series.source,
            span,
            slack: grid.tile,
            level: nodes,
            baseline: 0.0,
            weight: nodes,
        })
    };
    groups.into_iter().filter_map(of).collect()
}

/// Renewals of leases around marks.
struct Fall<'s> {
    series: &'s RequestSeries,
    renewals: &'s [f64],
    /// Renewals a second while all live.
    usual: f64,
    /// How many nodes were marked.
    nodes: f64,
}

impl Fall<'_> {
    /// From when until when fewer leases are renewed than usual, by what the marked nodes renewed.
    fn span(&self, marked: &Range<usize>) -> Option<Span> {
        let grid = self.series.grid;
        let rate = |at: usize| self.renewals[at] / grid.seconds(at).max(0.1);
        let expected = self.nodes / RENEWAL_S;
        let level = quantile(marked.clone().map(rate).collect(), 0.5)?;
        if self.usual - level < MIN_FALL * expected {
            return None;
        }
        let is_low = |at: &usize| rate(*at) < (self.usual + level) / 2.0;
        let earliest = grid.start(marked.start) - GRACE - grid.tile;
        let from = (0..marked.start).rev().take_while(|at| is_low(at) && grid.start(*at) >= earliest).last();
        let to = (marked.end..self.renewals.len()).take_while(is_low).last();
        let tiles = from.unwrap_or(marked.start)..to.map_or(marked.end, |last| last + 1);
        let base = vec![self.usual; self.renewals.len()];
        Some(edges(self.series, self.renewals, &base, level, &tiles))
    }
}

/// Where nothing is known of leases, as many audit policies leave them out: from the grace period before the marks
/// until taints are removed again.
fn between_taints(series: &RequestSeries, marked: &Range<usize>, nodes: f64) -> Span {
    let grid = series.grid;
    let is_back = |at: &usize| {
        let own = series.tiles[*at].nodes;
        own.marks == 0.0 && own.taints >= nodes / 2.0
    };
    // Taints that go with the marks come in the next interval at the latest.
    let back = (marked.end + 1..series.tiles.len()).find(is_back);
    let from = (grid.start(marked.start) - GRACE).max(grid.span.0);
    (from, back.map_or(grid.span.1, |at| grid.start(at).min(grid.span.1)))
}
