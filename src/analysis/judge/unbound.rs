//! Pods that nobody binds to a node: all that shows a scheduler that is down where its own requests are not seen.

use super::pods::Pods;
use super::series::RequestSeries;
use crate::model::time::{Micros, SECOND};
use std::ops::Range;

/// So many pods that wait are no chance, where all that are created are bound.
const MIN_PODS: f64 = 8.0;
/// And for so long, in µs: a scheduler binds within a second what fits on a node.
const MIN_WAIT: Micros = 60 * SECOND;
/// Whoever can't be scheduled is told so by a write of its status, and a pod that was bound at an apiserver that is not
/// seen has several: fewer than this part of the pods that wait, or it is another reason that they do.
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
        let lasts = series.grid.start(end).min(series.grid.span.1) - series.grid.start(first).max(series.grid.span.0);
        let is_it = created >= MIN_PODS && sum(|own| own.marked) < MARKED * created && lasts >= MIN_WAIT;
        is_it.then_some(tiles)
    };
    gaps.filter_map(waits).collect()
}
