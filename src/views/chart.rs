//! Charts for the terminal: history, what is forecast and how surely, the limit. Lines are drawn in braille dots, eight
//! to a character; each thing has a shape of its own, so that no colour is needed.

use super::Style;
use super::text::{fit, plain};
use crate::model::forecast::Step;
use crate::model::picture::Picture;
use crate::model::series::DAY;
use crate::model::time::Micros;
use crate::model::units::amount;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Columns where the terminal does not say how many it has.
const WIDTH: usize = 100;

/// More columns than this are left empty: lines would only become flatter.
const WIDEST: usize = 200;

/// History that is shown, in horizons: more would leave too little room for what comes.
const PAST: i64 = 3;

/// What a character of the chart shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Nothing,
    Now,
    Band,
    Limit,
    Median,
    History,
}

impl Shape {
    /// How it is coloured; what matters stays readable without.
    fn color(self) -> &'static str {
        match self {
            Self::Nothing | Self::History => "",
            Self::Now | Self::Band => "\u{1b}[2m",
            Self::Limit => "\u{1b}[31m",
            Self::Median => "\u{1b}[36m",
        }
    }
}

/// The space around a plot, in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Margins {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// The part of time and values that a chart shows. Also what [`super::forecast_svg`] draws in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    /// From when.
    pub from: Micros,
    /// Until when.
    pub to: Micros,
    /// The lowest value.
    pub low: f64,
    /// The highest value.
    pub high: f64,
}

impl Frame {
    /// What of a picture can be shown well; `None` where nothing is known of it.
    pub(super) fn of(picture: &Picture) -> Option<Self> {
        let end = picture.grid.end();
        let to = picture.path.last().map_or(end, |last| last.at + picture.grid.step).max(end);
        let past = if to > end { (to - end).saturating_mul(PAST).max(14 * DAY) } else { Micros::MAX };
        let known = past_values(picture, end.saturating_sub(past)).collect::<Vec<_>>();
        let from = known.first()?.0;
        let values = || {
            known
                .iter()
                .map(|(_, value)| *value)
                .chain(picture.path.iter().map(|step| step.p50))
                .filter(|v| v.is_finite())
        };
        let (mut low, mut high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        // Nothing is far away where the chart begins at zero.
        if low >= 0.0 && low < 0.5 * high {
            low = 0.0;
        }
        if let Some(limit) = picture.limit.filter(|limit| limit.is_finite() && *limit >= low) {
            // A limit that is far away would make all else flat.
            let is_near = limit - low <= 4.0 * (high - low) || limit.abs() <= 2.5 * high.abs();
            if is_near {
                high = high.max(limit);
            }
        }
        // The band may be so wide that nothing else could be seen.
        let room = 0.5 * (high - low);
        let band = |side: fn(&Step) -> f64| picture.path.iter().map(side).filter(|v| v.is_finite());
        high = band(|step| step.p90).fold(high, |most, value| most.max(value.min(high + room)));
        low = band(|step| step.p10).fold(low, |least, value| least.min(value.max(low - room)));
        if high <= low {
            let around = (high.abs() * 0.5).max(1.0);
            (low, high) =
                if low >= 0.0 { ((low - around).max(0.0), high + around) } else { (low - around, high + around) };
        }
        Some(Self { from, to: to.max(from + 1), low, high })
    }

    /// Where a value is, from 0 at the top to 1 at the bottom; outside where it can't be shown.
    pub(super) fn down(&self, value: f64) -> f64 {
        // Halves, since the whole may be more than a number can hold.
        (self.high / 2.0 - value / 2.0) / (self.high / 2.0 - self.low / 2.0)
    }

    /// Where a moment is, from 0 at the left to 1 at the right.
    pub(super) fn along(&self, at: Micros) -> f64 {
        (at - self.from) as f64 / (self.to - self.from) as f64
    }

    /// Values at which the axis has a label: round ones, at most so many.
    pub(super) fn ticks(&self, most: usize, binary: bool) -> Vec<f64> {
        let least = (self.high / 2.0 - self.low / 2.0) / most.max(1) as f64 * 2.0;
        let step = if binary && least >= 1.0 {
            least.log2().ceil().exp2()
        } else {
            let power = 10f64.powf(least.log10().floor());
            [1.0, 2.0, 5.0, 10.0]
                .into_iter()
                .map(|times| times * power)
                .find(|step| *step >= least * 0.999_999)
                .unwrap_or(least)
        };
        let first = (self.low / step).ceil();
        let ticks = (0..=most).map(|at| (first + at as f64) * step);
        ticks
            .filter(|value| value.is_finite() && *value <= self.high * (1.0 + 1e-12))
            .map(|value| value + 0.0)
            .collect()
    }
}

/// Intervals of the history from a moment on, with what is known of them.
pub(super) fn past_values(picture: &Picture, from: Micros) -> impl Iterator<Item = (Micros, f64)> + '_ {
    let values = picture.grid.values.iter().enumerate().map(|(index, value)| (picture.grid.at(index), *value));
    values.filter(move |(at, value)| *at >= from && value.is_finite())
}

/// A day as it is written below a chart.
pub(super) fn day(at: Micros) -> String {
    jiff::Timestamp::from_microsecond(at).unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// The plot: characters, each with what it shows.
struct Canvas {
    columns: usize,
    rows: usize,
    cells: Vec<(char, Shape)>,
    dots: Vec<(u8, Shape)>,
    frame: Frame,
}

impl Canvas {
    fn new(columns: usize, rows: usize, frame: Frame) -> Self {
        Self {
            columns,
            rows,
            cells: vec![(' ', Shape::Nothing); columns * rows],
            dots: vec![(0, Shape::Nothing); columns * rows],
            frame,
        }
    }

    /// The column of dots for a moment.
    fn x(&self, at: Micros) -> i64 {
        ((self.frame.along(at) * (2 * self.columns) as f64) as i64).clamp(0, 2 * self.columns as i64 - 1)
    }

    /// The row of dots for a value; outside where it can't be shown.
    fn y(&self, value: f64) -> i64 {
        let y = self.frame.down(value) * (4 * self.rows - 1) as f64;
        (y.clamp(-1e6, 1e6)).round() as i64
    }

    fn dot(&mut self, x: i64, y: i64, shape: Shape) {
        // From the top left: which bit of a braille character each dot is.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        if x < 0 || y < 0 || y >= 4 * self.rows as i64 || x >= 2 * self.columns as i64 {
            return;
        }
        let (x, y) = (x as usize, y as usize);
        if let Some((bits, owner)) = self.dots.get_mut(y / 4 * self.columns + x / 2) {
            *bits |= BITS[y % 4][x % 2];
            *owner = shape;
        }
    }

    /// A line between two dots; where `gaps`, only every other column of it.
    fn line(&mut self, from: (i64, i64), to: (i64, i64), shape: Shape, gaps: bool) {
        let steps = (to.0 - from.0).abs().max((to.1 - from.1).abs()).clamp(1, 1 << 12);
        for at in 0..=steps {
            let between = |a: i64, b: i64| a + ((b - a) * at + steps / 2).div_euclid(steps);
            let x = between(from.0, to.0);
            if !gaps || x % 2 == 0 {
                self.dot(x, between(from.1, to.1), shape);
            }
        }
    }

    /// Values as a line, broken where an interval is not known.
    fn course(&mut self, values: impl Iterator<Item = (Micros, f64)>, step: Micros, shape: Shape, gaps: bool) {
        let mut last: Option<(Micros, (i64, i64))> = None;
        for (at, value) in values.filter(|(_, value)| value.is_finite()) {
            let here = (self.x(at), self.y(value));
            let from = last.filter(|(before, _)| at - before <= step).map_or(here, |(_, from)| from);
            self.line(from, here, shape, gaps);
            last = Some((at, here));
        }
    }

    fn fill(&mut self, column: usize, row: usize, c: char, shape: Shape) {
        if let Some(cell) = (column < self.columns).then(|| self.cells.get_mut(row * self.columns + column)).flatten() {
            *cell = (c, shape);
        }
    }

    /// Between which values the middle 80 % of futures lie.
    fn band(&mut self, path: &[Step], step: Micros) {
        let mut reach: Vec<Option<(i64, i64)>> = vec![None; self.columns];
        for one in path.iter().filter(|one| one.p10.is_finite() && one.p90.is_finite()) {
            let (top, bottom) = (self.y(one.p90), self.y(one.p10));
            for column in self.x(one.at) / 2..=self.x(one.at + step - 1) / 2 {
                let reach = &mut reach[column as usize];
                *reach = Some(reach.map_or((top, bottom), |(a, b)| (a.min(top), b.max(bottom))));
            }
        }
        for (column, reach) in reach.into_iter().enumerate() {
            let Some((top, bottom)) = reach else { continue };
            // A character is filled where half of it is inside.
            (0..self.rows)
                .filter(|row| top <= *row as i64 * 4 + 2 && bottom > *row as i64 * 4)
                .for_each(|row| self.fill(column, row, '░', Shape::Band));
        }
    }

    /// A row as text; dots stand before all else.
    fn row(&self, row: usize, color: bool) -> String {
        let mut text = String::new();
        let mut on = "";
        for at in row * self.columns..(row + 1) * self.columns {
            let (c, shape) = match self.dots.get(at) {
                Some((bits, shape)) if *bits != 0 => (char::from_u32(0x2800 + u32::from(*bits)).unwrap_or(' '), *shape),
                _ => self.cells.get(at).copied().unwrap_or((' ', Shape::Nothing)),
            };
            let wanted = if color { shape.color() } else { "" };
            if wanted != on {
                text += if on.is_empty() { "" } else { "\u{1b}[0m" };
                text += wanted;
                on = wanted;
            }
            text.push(c);
        }
        text + if on.is_empty() { "" } else { "\u{1b}[0m" }
    }
}

/// Writes pictures, one below the other, each behind an empty line.
pub(super) fn write(pictures: &[Picture], style: &Style, out: &mut dyn Write) -> io::Result<()> {
    for picture in pictures {
        if let Some(frame) = Frame::of(picture) {
            writeln!(out)?;
            draw(picture, frame, style, out)?;
        }
    }
    Ok(())
}

/// One as lines of text without colours; none where nothing is known of it.
#[cfg(feature = "tui")]
pub(super) fn lines(picture: &Picture, width: usize) -> Vec<String> {
    let style = Style { width: Some(width), color: false, headers: true, compact: false };
    let mut text = Vec::new();
    let is_drawn = Frame::of(picture).is_some_and(|frame| draw(picture, frame, &style, &mut text).is_ok());
    let text = String::from_utf8_lossy(&text);
    if is_drawn { text.lines().map(str::to_owned).collect() } else { Vec::new() }
}

fn draw(picture: &Picture, frame: Frame, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let width = style.width.unwrap_or(WIDTH).clamp(40, WIDEST);
    let rows = if width < 120 { 12 } else { 16 };
    let end = picture.grid.end();
    let limit = picture.limit.filter(|limit| *limit >= frame.low && *limit <= frame.high);
    let limit_text = limit.map_or(String::new(), |limit| format!(" {}", amount(picture.unit, limit)));
    let is_binary =
        matches!(picture.unit, crate::model::forecast::Unit::Bytes | crate::model::forecast::Unit::BytesPerSecond);
    let ticks = frame.ticks(5, is_binary);
    let labels: Vec<String> = ticks.iter().map(|tick| amount(picture.unit, *tick)).collect();
    let left = labels.iter().map(|label| label.width()).max().unwrap_or(0);
    let columns = width.saturating_sub(left + 2 + limit_text.width()).max(20);
    let mut canvas = Canvas::new(columns, rows, frame);
    let now = (canvas.x(end) / 2) as usize;
    if !picture.path.is_empty() {
        (0..rows).for_each(|row| canvas.fill(now, row, '┊', Shape::Now));
    }
    canvas.band(&picture.path, picture.grid.step);
    let limit_row = limit.map(|limit| (canvas.y(limit).clamp(0, 4 * rows as i64 - 1) / 4) as usize);
    limit_row.iter().for_each(|row| (0..columns).for_each(|column| canvas.fill(column, *row, '━', Shape::Limit)));
    let step = picture.grid.step;
    canvas.course(picture.path.iter().map(|one| (one.at, one.p50)), step, Shape::Median, true);
    canvas.course(past_values(picture, frame.from), step, Shape::History, false);

    let bold = if style.color { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
    let caption = if picture.caption.is_empty() { String::new() } else { format!(": {}", plain(&picture.caption)) };
    let title = fit(&plain(&picture.title), width.saturating_sub(caption.width()).max(12)).into_owned();
    let caption = fit(&caption, width.saturating_sub(title.width())).into_owned();
    writeln!(out, "{}{title}{}{caption}", bold.0, bold.1)?;
    for row in 0..rows {
        let tick = ticks
            .iter()
            .zip(&labels)
            .find(|(tick, _)| (canvas.y(**tick).clamp(0, 4 * rows as i64 - 1) / 4) as usize == row);
        let label = tick.map_or("", |(_, label)| label.as_str());
        let value = if limit_row == Some(row) { limit_text.as_str() } else { "" };
        let line =
            format!("{label:>left$} {}{}{value}", if tick.is_some() { '┤' } else { '│' }, canvas.row(row, style.color));
        writeln!(out, "{}", line.trim_end())?;
    }
    let mut axis = vec!['─'; columns];
    if let Some(mark) = axis.get_mut(now).filter(|_| !picture.path.is_empty()) {
        *mark = '┴';
    }
    let changes: Vec<_> =
        picture.changes.iter().filter(|change| change.at >= frame.from && change.at <= frame.to).collect();
    for change in &changes {
        axis[(canvas.x(change.at) / 2) as usize] = '▲';
    }
    writeln!(out, "{:left$} └{}", "", axis.iter().collect::<String>())?;
    writeln!(out, "{:left$}  {}", "", dates(&frame, picture, columns, now).trim_end())?;
    let mut legend = vec!["⠒⠒ history".to_owned()];
    if !picture.path.is_empty() {
        legend.extend(["⠂⠂ forecast".to_owned(), "░░ 10–90%".to_owned()]);
    }
    match (limit, picture.limit) {
        (Some(_), _) => legend.push("━━ limit".to_owned()),
        (None, Some(limit)) if limit > frame.high => {
            legend.push(format!("limit {}, far above", amount(picture.unit, limit)))
        }
        (None, Some(limit)) => legend.push(format!("limit {}, below", amount(picture.unit, limit))),
        (None, None) => {}
    }
    let reported: Vec<String> = changes
        .iter()
        .rev()
        .take(2)
        .map(|change| {
            let sign = if change.by > 0.0 { "+" } else { "" };
            format!("{} {sign}{}", day(change.at), amount(picture.unit, change.by))
        })
        .collect();
    if !reported.is_empty() {
        legend.push(format!("▲ level changed {}", reported.join(", ")));
    }
    let mut line = String::new();
    for part in legend {
        if !line.is_empty() && left + 4 + line.width() + part.width() > width {
            writeln!(out, "{:left$}  {line}", "")?;
            line.clear();
        }
        line += if line.is_empty() { "" } else { "  " };
        line += &part;
    }
    writeln!(out, "{:left$}  {line}", "")
}

/// The dates below the axis: first, now, when the limit is reached, last; those that have room, in the order of what
/// matters.
fn dates(frame: &Frame, picture: &Picture, columns: usize, now: usize) -> String {
    let mut line = vec![' '; columns];
    let mut put = |column: usize, text: &str| {
        let length = text.chars().count();
        let start = column.saturating_sub(length / 2).min(columns.saturating_sub(length));
        let around = line.get(start.saturating_sub(2)..(start + length + 2).min(columns));
        if length <= columns && around.is_some_and(|around| around.iter().all(|c| *c == ' ')) {
            line.iter_mut().skip(start).zip(text.chars()).for_each(|(cell, c)| *cell = c);
        }
    };
    if !picture.path.is_empty() {
        put(now, &day(picture.grid.end()));
    }
    if let Some(at) = picture.reached {
        put((frame.along(at) * columns as f64) as usize, &format!("↑{}", day(at)));
    }
    put(0, &day(frame.from));
    put(columns, &day(frame.to));
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forecast::{Change, Grid, Unit};

    const START: Micros = 20_000 * DAY;

    /// Sixty days of growth, then thirty forecast.
    pub(in crate::views) fn picture() -> Picture {
        let end = START + 60 * DAY;
        let step = |day: i64| {
            let p50 = 40.0 + 0.5 * (day + 60) as f64;
            Step { at: end + day * DAY, p10: p50 - 0.2 * day as f64, p50, p90: p50 + 0.2 * day as f64 }
        };
        Picture {
            title: "web/q pods".into(),
            caption: "limit in 20d, 80% within 30d".into(),
            unit: Unit::Count,
            grid: Grid { from: START, step: DAY, values: (0..60).map(|day| 40.0 + 0.5 * f64::from(day)).collect() },
            path: (0..30).map(step).collect(),
            limit: Some(80.0),
            changes: vec![Change { at: START + 10 * DAY, by: 12.0 }],
            reached: Some(end + 20 * DAY),
        }
    }

    fn drawn(picture: &Picture, width: usize, color: bool) -> Vec<String> {
        let mut out = Vec::new();
        write(
            std::slice::from_ref(picture),
            &Style { width: Some(width), color, headers: true, compact: false },
            &mut out,
        )
        .unwrap();
        String::from_utf8(out).unwrap().lines().skip(1).map(str::to_owned).collect()
    }

    /// Which rows of a chart's column hold one of the characters; the plot begins behind the axis.
    fn rows_of(lines: &[String], column: usize, is_meant: impl Fn(char) -> bool) -> Vec<usize> {
        let plot = |line: &String| line.chars().skip_while(|c| !matches!(c, '│' | '┤')).skip(1).nth(column);
        lines.iter().enumerate().filter(|(_, line)| plot(line).is_some_and(&is_meant)).map(|(row, _)| row).collect()
    }

    fn is_dots(c: char) -> bool {
        ('\u{2801}'..='\u{28ff}').contains(&c)
    }

    #[test]
    fn the_chart_is_where_the_numbers_are() {
        for (width, rows) in [(80, 12), (200, 16)] {
            let lines = drawn(&picture(), width, false);
            assert!(lines.iter().all(|line| line.width() <= width), "{lines:#?}");
            assert_eq!(lines[0], "web/q pods: limit in 20d, 80% within 30d");
            let limit: Vec<usize> =
                lines.iter().enumerate().filter(|(_, line)| line.ends_with("━ 80")).map(|(row, _)| row).collect();
            // From 40 (or below) to 90.9, drawn by what Frame says: the limit's row is that share of the way down.
            let frame = Frame::of(&picture()).unwrap();
            let expected = 1 + ((frame.down(80.0) * (4 * rows - 1) as f64).round() as usize) / 4;
            assert_eq!(limit, [expected], "{lines:#?}");
            // The plot is as wide as the line less the axis (two digits, a blank, a stroke) and the limit's value.
            let columns = width - 4 - 3;
            let row_of = |value: f64| 1 + ((frame.down(value) * (4 * rows - 1) as f64).round() as usize) / 4;
            for (day, what) in [(0i64, "first"), (30, "middle"), (59, "last")] {
                let column = (frame.along(START + day * DAY) * columns as f64) as usize;
                let found = rows_of(&lines, column, is_dots);
                let wanted = row_of(40.0 + 0.5 * day as f64);
                assert!(
                    found.iter().any(|row| row.abs_diff(wanted) <= 1),
                    "{what}: {found:?}, not {wanted}\n{lines:#?}"
                );
                assert!(found.len() <= 2, "{what}: one value to a day\n{lines:#?}");
            }
            // On the last day the band is from 79.2 to 90.8, the median 84.5: ten to fifteen of a hundred steps each
            // way.
            let last = rows_of(&lines, columns - 1, |c| c == '░' || is_dots(c) || c == '━');
            assert!(
                last.contains(&row_of(90.0)) && last.contains(&row_of(80.0)) && !last.contains(&row_of(70.0)),
                "{last:?}\n{lines:#?}"
            );
            let axis = &lines[rows + 1];
            let mark = axis.chars().position(|c| c == '▲').unwrap() - 4;
            assert_eq!(mark, (frame.along(START + 10 * DAY) * columns as f64) as usize);
            let dates = &lines[rows + 2];
            // Days 20,000, 20,060, 20,080, 20,090.
            for date in ["2024-10-04", "2024-12-03"] {
                assert!(dates.contains(date), "{date} {lines:#?}");
            }
            assert!(lines[rows + 3].contains("▲ level changed 2024-10-14 +12"), "{lines:#?}");
        }
        assert!(drawn(&picture(), 200, false)[18].contains("↑2024-12-23"));
        assert_eq!(drawn(&picture(), 80, false), drawn(&picture(), 80, false));
    }

    #[test]
    fn colour_adds_and_takes_nothing() {
        let strip = |line: &String| {
            let parts = line.split('\u{1b}').enumerate();
            parts
                .map(|(at, part)| if at == 0 { part } else { part.split_once('m').unwrap().1 })
                .collect::<String>()
                .trim_end()
                .to_owned()
        };
        let (plain, colored) = (drawn(&picture(), 80, false), drawn(&picture(), 80, true));
        assert!(
            plain.iter().all(|line| !line.contains('\u{1b}')) && colored.iter().any(|line| line.contains('\u{1b}'))
        );
        assert_eq!(colored.iter().map(strip).collect::<Vec<_>>(), plain);
    }

    #[test]
    fn odd_series_are_drawn_or_left_out() {
        let of = |values: Vec<f64>| Picture {
            grid: Grid { values, ..picture().grid },
            path: Vec::new(),
            changes: Vec::new(),
            reached: None,
            ..picture()
        };
        for (values, is_drawn) in [
            (vec![], false),
            (vec![f64::NAN; 5], false),
            (vec![5.0], true),
            (vec![5.0; 60], true),
            (vec![0.0; 60], true),
            (vec![-1e308, 1e308, f64::NAN, f64::INFINITY], true),
            (vec![1e-300, 2e-300], true),
            (vec![-5.0, -4.0], true),
        ] {
            for width in [1, 40, 80, 5_000] {
                let lines = drawn(&of(values.clone()), width, false);
                assert_eq!(!lines.is_empty(), is_drawn, "{values:?}");
                assert!(lines.iter().all(|line| line.width() <= width.clamp(40, 200)), "{values:?} {lines:#?}");
                assert!(!is_drawn || lines.iter().any(|line| line.contains(is_dots)), "{values:?} {lines:#?}");
            }
        }
        let far = drawn(&Picture { limit: Some(1e9), ..of(vec![5.0, 6.0]) }, 80, false);
        assert!(far.last().unwrap().contains("limit 1G, far above"), "{far:#?}");
        let hostile = drawn(&Picture { title: "\u{1b}[31m\n".into(), ..picture() }, 80, false);
        assert!(hostile[0].starts_with("\\u{1b}[31m\\n"), "{hostile:#?}");
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let frame = |low: f64, high: f64| Frame { from: 0, to: 1, low, high };
        assert_eq!(frame(0.0, 100.0).ticks(5, false), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(frame(37.0, 91.0).ticks(5, false), [40.0, 60.0, 80.0]);
        let gib = 1024f64.powi(3);
        assert_eq!(frame(0.0, 8.5 * gib).ticks(5, true), [0.0, 2.0 * gib, 4.0 * gib, 6.0 * gib, 8.0 * gib]);
        assert_eq!(frame(-0.3, 0.3).ticks(5, false), [-0.2, 0.0, 0.2]);
    }
}
