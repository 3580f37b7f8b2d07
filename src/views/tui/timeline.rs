//! The course of time in two lines: how many requests there were, what is looked at, what happened when.

use super::state::State;
use crate::model::time::{Micros, Span, moment_of};
use crate::views::columns::spark;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Columns of a label at either end, with the blank beside it.
const LABEL: u16 = 9;

/// Where in time a column of `area` begins, of those between the labels.
pub(super) fn moment_at(state: &State, area: Rect, x: u16) -> Option<Micros> {
    let span = state.clock.span?;
    let inner = inner(area);
    (inner.width > 0).then(|| begin(span, inner.width, x.saturating_sub(inner.x).min(inner.width)))
}

fn inner(area: Rect) -> Rect {
    Rect { x: area.x + LABEL, width: area.width.saturating_sub(2 * LABEL), ..area }
}

/// When a column begins where time is cut into `columns`.
fn begin((from, to): Span, columns: u16, column: u16) -> Micros {
    from + (i128::from(to - from) * i128::from(column) / i128::from(columns.max(1))) as i64
}

/// The column of a moment.
pub(super) fn column((from, to): Span, columns: u16, at: Micros) -> u16 {
    let along = i128::from(at - from) * i128::from(columns) / i128::from((to - from).max(1));
    along.clamp(0, i128::from(columns.saturating_sub(1))) as u16
}

/// The highest value in each column; nothing where a column has none.
pub(super) fn highest(points: &[(Micros, f64)], span: Span, columns: u16) -> Vec<Option<f64>> {
    let mut all = vec![None; usize::from(columns)];
    // Points that lie farther apart than columns are wide hold until the next, if that is the next but a few.
    let apart = points.windows(2).map(|two| two[1].0 - two[0].0).min().unwrap_or(0);
    for (at, value) in points.iter().filter(|(at, value)| value.is_finite() && (span.0..=span.1).contains(at)) {
        let until = column(span, columns, (at + apart - 1).max(*at));
        for own in &mut all[usize::from(column(span, columns, *at))..=usize::from(until)] {
            *own = Some(own.map_or(*value, |own: f64| own.max(*value)));
        }
    }
    all
}

/// Values as a line of bars, the highest of `most` full.
pub(super) fn bars(values: &[Option<f64>], most: f64) -> String {
    const FINE: f64 = 10_000.0;
    let scaled = values.iter().map(|value| {
        value.map_or(0, |value| if most > 0.0 { (value / most * FINE).ceil().max(0.0) as u64 } else { 0 })
    });
    let mut all: Vec<u64> = scaled.collect();
    all.push(FINE as u64);
    let mut line = spark(&all);
    line.pop();
    line
}

/// Draws both lines.
pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let Some(span) = state.clock.span.filter(|_| area.height >= 2 && area.width > 3 * LABEL) else { return };
    let theme = &state.theme;
    let inner = inner(area);
    // Of several days the date comes before hours and minutes.
    let label = |at: Micros| match moment_of(at, Some(span)) {
        text if text.len() > 8 => text.get(5..16).unwrap_or(&text).to_owned(),
        text => text,
    };
    for (at, is_last) in [(span.0, false), (span.1, true)] {
        let text = label(at);
        let x = if is_last { area.right().saturating_sub(text.len() as u16) } else { area.x };
        buffer.set_stringn(x, area.y, &text, text.len(), theme.dim);
    }
    let requests = state.course.as_ref().and_then(|course| course.charts.iter().find(|chart| chart.name == "requests"));
    let points = requests.and_then(|chart| chart.lines.first()).map_or(&[][..], |(_, points)| points.as_slice());
    let values = highest(points, span, inner.width);
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let line = bars(&values, most);
    buffer.set_stringn(inner.x, inner.y, &line, usize::from(inner.width), theme.dim);
    if let Some((from, to)) = state.clock.window() {
        let (left, right) = (column(span, inner.width, from), column(span, inner.width, to.max(from + 1) - 1));
        let looked_at = Rect { x: inner.x + left, width: right - left + 1, height: 1, ..inner };
        buffer.set_style(looked_at, theme.line);
        if let Some(window) = state.course.as_ref().and_then(|course| course.window) {
            let (left, right) = (column(span, inner.width, window.0), column(span, inner.width, window.1));
            buffer.set_stringn(
                inner.x + left,
                inner.y + 1,
                "─".repeat(usize::from(right - left + 1)),
                usize::from(inner.width),
                theme.dim,
            );
        }
        let at = inner.x + right;
        buffer.set_stringn(at, inner.y + 1, "┃", 1, theme.title);
    }
    for mark in &state.marks {
        let x = inner.x + column(span, inner.width, mark.at);
        buffer.set_stringn(x, inner.y + 1, "▲", 1, theme.of(mark.severity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_show_the_highest_of_their_time() {
        let points: Vec<(Micros, f64)> = (0..10).map(|at| (at * 10, at as f64)).collect();
        assert_eq!(highest(&points, (0, 100), 5), [1.0, 3.0, 5.0, 7.0, 9.0].map(Some));
        assert_eq!(highest(&points[..2], (0, 100), 5), [Some(1.0), None, None, None, None]);
        let wide = highest(&[(0, 1.0), (50, 2.0)], (0, 100), 4);
        assert_eq!(wide, [1.0, 1.0, 2.0, 2.0].map(Some), "a value holds until the next");
        assert_eq!(bars(&[Some(0.0), None, Some(5.0), Some(10.0)], 10.0), "  ▄█");
    }
}
