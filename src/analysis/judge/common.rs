//! The time that the audit logs of all apiservers have in common.
//!
//! Logs are rotated by their size, so that of the busier apiserver goes less far back, and each is copied at a moment
//! of its own. Where one of them is not there yet, or no longer, the load of its clients seems to come or go.

use super::requests::{Axes, FaultCount, Grid, Kind, Requests, Row};
use super::series::RequestSeries;
use super::stops::{GOES_ON, is_taken_over, others, part_of_usual, reconnect};
use super::vitals::Vitals;
use crate::model::cause::Source;
use crate::model::time::{Micros, SECOND, Span};

/// Requests that are missing of an apiserver at least: by fewer nobody is misled.
const MIN_MISSING: f64 = 20.0;
/// An apiserver that starts or ends so near has no log before or behind, in µs.
const NEAR: Micros = 20 * SECOND;
/// An interval with less than this part of what is usual is one in which the log begins or ends.
const WHOLE: f64 = 0.8;

/// Requests of the time that all logs have in common.
pub(super) struct Common<'r> {
    of: &'r dyn Requests,
    axes: Axes,
    faults: Vec<FaultCount>,
    /// Intervals before it.
    before: usize,
}

impl Common<'_> {
    /// The time.
    pub(super) fn span(&self) -> Span {
        self.axes.grid.span
    }
}

/// `None` where all logs begin and end alike, an apiserver began or ended with its log, the time in common is less than
/// half of all, or somebody named a time that is not in it.
pub(super) fn common<'r>(
    requests: &'r dyn Requests,
    series: &RequestSeries,
    vitals: Option<&Vitals>,
    given: &[Span],
) -> Option<Common<'r>> {
    if requests.source() != Source::Audit || series.by_instance.len() < 2 {
        return None;
    }
    let grid = series.grid;
    let held: Vec<(usize, usize)> =
        (0..series.by_instance.len()).filter_map(|instance| held(series, instance, vitals)).collect();
    let from = held.iter().map(|own| own.0).max()?;
    let to = held.iter().map(|own| own.1).min()?;
    let span = (grid.start(from).max(grid.span.0), grid.start(to).min(grid.span.1));
    let is_in = |own: &Span| own.0 >= span.0 && own.1 <= span.1;
    if span == grid.span || 2 * (span.1 - span.0) < grid.span.1 - grid.span.0 || !given.iter().all(is_in) {
        return None;
    }
    let own = Grid { span, ..grid };
    let before = usize::try_from(own.first() - grid.first()).unwrap_or(0);
    let is_in = |tile: usize| (before..before + own.len()).contains(&tile);
    let faults = requests.faults().iter().filter(|fault| is_in(fault.tile));
    let faults = faults.map(|fault| FaultCount { tile: fault.tile - before, ..fault.clone() }).collect();
    Some(Common { of: requests, axes: Axes { grid: own, ..requests.axes().clone() }, faults, before })
}

/// The first interval of a log and the one behind its last, as far as it was cut there; else those of all.
fn held(series: &RequestSeries, instance: usize, vitals: Option<&Vitals>) -> Option<(usize, usize)> {
    let (grid, counts) = (series.grid, &series.by_instance[instance]);
    let first = counts.iter().position(|count| *count > 0.0)?;
    let last = counts.iter().rposition(|count| *count > 0.0)?;
    let usual = series.typical_of(&counts[first..=last]);
    let expected = |from: usize, to: usize| (from..to).map(|at| usual * grid.seconds(at)).sum::<f64>();
    let others = others(series, instance);
    let is_cut = |from: usize, to: usize, edge: Micros| {
        let span = (grid.start(from).max(grid.span.0), grid.start(to).min(grid.span.1));
        let starts = vitals.is_some_and(|vitals| vitals.apiserver_starts((edge - NEAR, edge + NEAR)).next().is_some());
        expected(from, to) >= MIN_MISSING
            && !starts
            && part_of_usual(series, &others, span).is_some_and(|part| part >= GOES_ON)
            && !reconnect(series, edge, &[span])
            && !is_taken_over(series, instance, span)
    };
    let is_whole = |at: usize| counts[at] >= WHOLE * expected(at, at + 1);
    let begin = if is_cut(0, first, grid.start(first)) { first + usize::from(!is_whole(first)) } else { 0 };
    let len = counts.len();
    let end = if is_cut(last + 1, len, grid.start(last + 1)) { last + usize::from(is_whole(last)) } else { len };
    (begin < end).then_some((begin, end))
}

impl Requests for Common<'_> {
    fn source(&self) -> Source {
        self.of.source()
    }

    fn axes(&self) -> &Axes {
        &self.axes
    }

    fn leaves_out(&self, kind: &Kind) -> bool {
        self.of.leaves_out(kind)
    }

    fn seams(&self) -> &[Micros] {
        self.of.seams()
    }

    fn faults(&self) -> &[FaultCount] {
        &self.faults
    }

    fn starts(&self) -> &[(Span, usize)] {
        self.of.starts()
    }

    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        let len = self.axes.grid.len();
        self.of.each(&mut |row| {
            if let Some(tile) = row.tile.checked_sub(self.before).filter(|tile| *tile < len) {
                take(Row { tile, ..row });
            }
        });
    }
}
