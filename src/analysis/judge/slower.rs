//! Times in which requests are slower than usual, though hardly any is so slow that somebody notices.

use super::excursions::runs;
use super::series::{RequestSeries, Tile, quantile};
use super::signals::{Deviation, Signal};
use crate::model::time::SECOND;
use std::ops::Range;

/// What is looked at: this quantile of the latencies of an interval.
const LATENCY_QUANTILE: f64 = 0.9;
/// Fewer requests have none.
const MIN_TIMED: f64 = 50.0;
/// Requests are slower from so many times the median of all intervals on, and by so much; s.
const TIMES: f64 = 3.0;
const BY_S: f64 = 0.02;
/// For so long at least; s.
const MIN_LENGTH_S: f64 = 20.0;

/// Times of slow requests.
pub(super) fn slower(series: &RequestSeries) -> Vec<Deviation> {
    let of = |tile: &Tile| tile.latency.quantile(LATENCY_QUANTILE).filter(|_| tile.latency.count() >= MIN_TIMED);
    let latencies: Vec<Option<f64>> = series.tiles.iter().map(of).collect();
    let Some(usual) = quantile(latencies.iter().flatten().copied().collect(), 0.5) else { return Vec::new() };
    let is_slow = |own: &Option<f64>| own.is_some_and(|own| own >= TIMES * usual && own >= usual + BY_S);
    let mut groups = runs((0..latencies.len()).filter(|at| is_slow(&latencies[*at])), 1);
    let grid = series.grid;
    groups.retain(|tiles| tiles.len() > 1 && tiles.clone().map(|at| grid.seconds(at)).sum::<f64>() >= MIN_LENGTH_S);
    let deviation = |tiles: Range<usize>| {
        let (from, to) = grid.covered(&tiles);
        let within: Vec<f64> = latencies[tiles].iter().flatten().copied().collect();
        Deviation {
            signal: Signal::Slower,
            source: series.source,
            span: (from, to.max(grid.span.0 + SECOND)),
            slack: grid.tile,
            level: within.iter().sum::<f64>() / within.len() as f64,
            baseline: usual,
            weight: within.iter().map(|own| (own / usual.max(1e-4)).ln()).sum(),
        }
    };
    groups.into_iter().map(deviation).collect()
}
