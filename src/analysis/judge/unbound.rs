//! Pods that nobody binds to a node: all that shows a scheduler that is down where its own requests are not seen.

use super::pods::Pods;
use super::series::RequestSeries;
use crate::model::time::{MINUTE, Micros};
use std::ops::Range;

/// So many pending pods are no chance, where all that are created are bound.
const MIN_PODS: f64 = 8.0;
/// And for so long, in µs: a scheduler binds within a second what fits on a node.
const MIN_WAIT: Micros = MINUTE;
/// The scheduler writes the status of a pod that fits nowhere, and kubelets that of pods which were bound at an
/// apiserver without a log here: with as many such writes as this part of the pending pods, they wait for another
/// reason.
const MARKED: f64 = 0.5;

/// Intervals from the first pod that waits to the last before one is bound.
pub(super) fn unbound(series: &RequestSeries) -> Vec<Range<usize>> {
    let of = |at: usize| series.tiles[at].pods;
    let len = series.tiles.len();
    let bound: Vec<usize> = (0..len).filter(|at| of(*at).bound > 0.0).collect();
    let begins = std::iter::once(0).chain(bound.iter().map(|at| at + 1));
    let gaps = begins.zip(bound.iter().copied().chain(std::iter::once(len)));
    let waits = |(begin, end): (usize, usize)| {
        let first = (begin..end).find(|at| of(*at).created > 0.0)?;
        let tiles = first..end;
        let sum = |of: fn(&Pods) -> f64| tiles.clone().map(|at| of(&series.tiles[at].pods)).sum::<f64>();
        let created = sum(|own| own.created);
        let (from, to) = series.grid.covered(&tiles);
        let is_it = created >= MIN_PODS && sum(|own| own.marked) < MARKED * created && to - from >= MIN_WAIT;
        is_it.then_some(tiles)
    };
    gaps.filter_map(waits).collect()
}
