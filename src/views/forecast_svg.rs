//! Charts as one SVG that needs nothing else: a panel for each series with history, what is forecast, its range, the
//! limit.
//!
//! Names come from whoever made the series, so all text is escaped, and nothing in the picture is script or a reference
//! to elsewhere. Lines differ in dashes as well as in colour; the colours are those of Okabe and Ito, which people with
//! any colour vision distinguishes.

use super::chart::{Frame, Margins, day, past_values};
use super::text::{fit, plain, xml};
use crate::model::forecast::{Step, Unit};
use crate::model::picture::Picture;
use crate::model::time::Micros;
use crate::model::units::amount;
use std::fmt::Write as _;
use std::io::{self, Write};

/// A panel in pixels.
const PANEL: (f64, f64) = (720.0, 270.0);

/// What lies around the plot.
const AROUND: Margins = Margins { left: 64.0, top: 48.0, right: 76.0, bottom: 44.0 };

/// How far apart the middles of two dates are at least.
const APART: f64 = 78.0;

/// What lines and areas are.
const LEGEND: &str = "line: history · dashes: forecast · area: 8 in 10 futures · ▲ the level changed";

/// From so many panels on they stand in two columns.
const TWO_COLUMNS_FROM: usize = 4;

const STYLE: &str = "\
svg{background:#fff;color:#222;font:12px sans-serif}\
text{fill:currentColor}.title{font-size:14px;font-weight:bold}.soft{fill-opacity:.75}\
.grid{stroke:currentColor;stroke-opacity:.15;fill:none}.now{stroke:currentColor;stroke-opacity:.5;stroke-dasharray:2 \
4;fill:none}\
.past{stroke:currentColor;stroke-width:1.5;fill:none}.band{fill:#0072b2;fill-opacity:.25;stroke:none}\
.next{stroke:#0072b2;stroke-width:2;stroke-dasharray:5 3;fill:none}\
.limit{stroke:#d55e00;stroke-width:2;stroke-dasharray:12 3 2 3;fill:none}\
.change{fill:currentColor;fill-opacity:.6}.date{fill:#d55e00}\
@media(prefers-color-scheme:dark){svg{background:#1b1b1f;color:#ddd}.band{fill:#56b4e9}\
.next{stroke:#56b4e9}.limit{stroke:#e69f00}.date{fill:#e69f00}}";

/// Writes pictures into one SVG; those of which nothing is known are left out. Whether there was one to draw; else
/// nothing is written.
pub fn draw(pictures: &[Picture], out: &mut dyn Write) -> io::Result<bool> {
    let panels: Vec<(&Picture, Frame)> =
        pictures.iter().filter_map(|picture| Some((picture, Frame::of(picture)?))).collect();
    if panels.is_empty() {
        return Ok(false);
    }
    let columns = if panels.len() < TWO_COLUMNS_FROM { 1 } else { 2 };
    let (width, below) = (PANEL.0 * columns as f64, PANEL.1 * panels.len().div_ceil(columns) as f64);
    let height = below + 24.0;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" style=\"max-width:100%;height:auto\" role=\"img\">\
         <title>plimsoll forecast</title><style>{STYLE}</style>"
    )?;
    for (number, (picture, frame)) in panels.iter().enumerate() {
        let (x, y) = (PANEL.0 * (number % columns) as f64, PANEL.1 * (number / columns) as f64);
        writeln!(out, r#"<g transform="translate({x},{y})">"#)?;
        let mut text = String::new();
        panel(picture, *frame, &mut text).map_err(io::Error::other)?;
        out.write_all(text.as_bytes())?;
        writeln!(out, "</g>")?;
    }
    writeln!(out, r#"<text class="soft" x="{}" y="{}">{LEGEND}</text>"#, AROUND.left, below + 12.0)?;
    writeln!(out, "</svg>")?;
    out.flush()?;
    Ok(true)
}

/// Where things are in a panel.
struct Place(Frame);

impl Place {
    fn x(&self, at: Micros) -> f64 {
        AROUND.left + self.0.along(at).clamp(0.0, 1.0) * (PANEL.0 - AROUND.left - AROUND.right)
    }

    /// Cut a little outside of the plot.
    fn y(&self, value: f64) -> f64 {
        AROUND.top + self.0.down(value).clamp(0.0, 1.0) * (PANEL.1 - AROUND.top - AROUND.bottom)
    }
}

/// One pixel's worth of values: the first, the smallest, the largest and the last are drawn, the rest would lie on
/// them.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    for same in points.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        let edge = |wins: fn(f64, f64) -> bool| {
            same.iter().copied().reduce(|best, point| if wins(point.1, best.1) { point } else { best })
        };
        let mut some = [same.first().copied(), edge(|a, b| a < b), edge(|a, b| a > b), same.last().copied()]
            .map(Option::unwrap_or_default)
            .to_vec();
        some.sort_by(|a, b| a.0.total_cmp(&b.0));
        some.dedup();
        kept.extend(some);
    }
    kept
}

/// Points as the path of a line, begun again behind each interval that is not known.
fn line(values: impl Iterator<Item = (Micros, f64)>, step: Micros, place: &Place) -> String {
    let values: Vec<(Micros, f64)> = values.filter(|(_, value)| value.is_finite()).collect();
    let mut path = String::new();
    for run in values.chunk_by(|a, b| b.0 - a.0 <= step) {
        let points: Vec<(f64, f64)> = run.iter().map(|(at, value)| (place.x(*at), place.y(*value))).collect();
        for (number, (x, y)) in thin(&points).into_iter().enumerate() {
            path += &format!("{}{x:.1} {y:.1}", if number == 0 { 'M' } else { 'L' });
        }
        if let [(x, y)] = points[..] {
            // A single value has no length of its own.
            path += &format!("L{:.1} {y:.1}", x + 1.0);
        }
    }
    path
}

fn panel(picture: &Picture, frame: Frame, out: &mut String) -> std::fmt::Result {
    let place = Place(frame);
    let (left, right, top, bottom) = (AROUND.left, PANEL.0 - AROUND.right, AROUND.top, PANEL.1 - AROUND.bottom);
    writeln!(out, r#"<text class="title" x="{left}" y="20">{}</text>"#, xml(&fit(&plain(&picture.title), 68)))?;
    writeln!(out, r#"<text class="soft" x="{left}" y="37">{}</text>"#, xml(&fit(&plain(&picture.caption), 100)))?;
    let is_binary = matches!(picture.unit, Unit::Bytes | Unit::BytesPerSecond);
    for tick in frame.ticks(5, is_binary) {
        let y = place.y(tick);
        writeln!(out, r#"<path class="grid" d="M{left} {y:.1}H{right}"/>"#)?;
        writeln!(
            out,
            r#"<text class="soft" text-anchor="end" x="{}" y="{:.1}">{}</text>"#,
            left - 6.0,
            y + 4.0,
            amount(picture.unit, tick)
        )?;
    }
    let (step, end) = (picture.grid.step, picture.grid.end());
    let band: Vec<&Step> = picture.path.iter().filter(|one| one.p10.is_finite() && one.p90.is_finite()).collect();
    if !band.is_empty() {
        let side = |value: fn(&Step) -> f64| {
            thin(&band.iter().map(|one| (place.x(one.at), place.y(value(one)))).collect::<Vec<_>>())
        };
        let (upper, mut lower) = (side(|one| one.p90), side(|one| one.p10));
        lower.reverse();
        let mut path = String::new();
        for (number, (x, y)) in upper.into_iter().chain(lower).enumerate() {
            path += &format!("{}{x:.1} {y:.1}", if number == 0 { 'M' } else { 'L' });
        }
        writeln!(out, r#"<path class="band" d="{path}Z"/>"#)?;
    }
    if !picture.path.is_empty() {
        writeln!(out, r#"<path class="now" d="M{0:.1} {top}V{bottom}"/>"#, place.x(end))?;
    }
    match picture.limit {
        Some(limit) if limit >= frame.low && limit <= frame.high => {
            let y = place.y(limit);
            writeln!(out, r#"<path class="limit" d="M{left} {y:.1}H{right}"/>"#)?;
            writeln!(
                out,
                r#"<text class="date" x="{}" y="{:.1}">limit {}</text>"#,
                right + 4.0,
                y + 4.0,
                amount(picture.unit, limit)
            )?;
        }
        Some(limit) => {
            let (where_, y) = if limit > frame.high { ("↑", top) } else { ("↓", bottom) };
            writeln!(
                out,
                r#"<text class="date" x="{}" y="{y}">{where_} {}</text>"#,
                right + 4.0,
                amount(picture.unit, limit)
            )?;
        }
        None => {}
    }
    writeln!(out, r#"<path class="past" d="{}"/>"#, line(past_values(picture, frame.from), step, &place))?;
    let next = picture.path.iter().map(|one| (one.at, one.p50));
    writeln!(out, r#"<path class="next" d="{}"/>"#, line(next, step, &place))?;
    for change in picture.changes.iter().filter(|change| change.at >= frame.from && change.at <= frame.to) {
        let (x, sign) = (place.x(change.at), if change.by > 0.0 { "+" } else { "" });
        writeln!(
            out,
            r#"<path class="change" d="M{x:.1} {bottom}l-5 8h10z"><title>new level from {}: {sign}{}</title></path>"#,
            day(change.at),
            amount(picture.unit, change.by)
        )?;
    }
    dates(picture, &place, out)
}

/// Dates below the plot: of those that would lie on one another, the first; when the limit is reached stands lower
/// where it is near now.
fn dates(picture: &Picture, place: &Place, out: &mut String) -> std::fmt::Result {
    let frame = place.0;
    let mut mark = |at: Micros, class: &str, up: f64| {
        writeln!(
            out,
            r#"<text class="{class}" text-anchor="middle" x="{:.1}" y="{}">{}</text>"#,
            place.x(at),
            PANEL.1 - up,
            day(at)
        )
    };
    let end = picture.grid.end();
    let is_near = |at: &Micros| (place.x(*at) - place.x(end)).abs() < APART;
    if let Some(at) = picture.reached.filter(is_near) {
        mark(at, "date", 4.0)?;
    }
    let reached = picture.reached.filter(|at| !is_near(at)).map(|at| (at, "date"));
    let now = (!picture.path.is_empty()).then_some((end, "soft"));
    let mut taken: Vec<f64> = Vec::new();
    for (at, class) in [reached, now, Some((frame.from, "soft")), Some((frame.to, "soft"))].into_iter().flatten() {
        let x = place.x(at);
        if taken.iter().all(|other| (other - x).abs() >= APART) {
            taken.push(x);
            mark(at, class, 18.0)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forecast::{Change, Grid};
    use crate::model::series::DAY;

    fn picture(title: &str) -> Picture {
        let end = 20_060 * DAY;
        Picture {
            title: title.into(),
            caption: "limit in 20d".into(),
            grid: Grid {
                from: 20_000 * DAY,
                step: DAY,
                values: (0..60).map(|day| if day == 30 { f64::NAN } else { f64::from(day) }).collect(),
            },
            path: (0..30).map(|day| Step { at: end + day * DAY, p10: 55.0, p50: 60.0, p90: 65.0 }).collect(),
            limit: Some(70.0),
            changes: vec![Change { at: 20_010 * DAY, by: 5.0 }],
            reached: Some(end + 20 * DAY),
            ..Picture::default()
        }
    }

    fn svg(pictures: &[Picture]) -> String {
        let mut out = Vec::new();
        assert!(draw(pictures, &mut out).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_are_text_and_nothing_else() {
        let text = svg(&[picture("</text><script>alert(1)</script>\u{1b}\u{0}&\"'")]);
        assert!(
            text.contains("&lt;/text&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\u{1b}\\u{0}&amp;&quot;&#39;"),
            "{text}"
        );
        assert!(!text.contains("<script") && !text.contains("href") && !text.contains("url("), "{text}");
        assert_eq!(svg(&[picture("a")]), svg(&[picture("a")]));
    }

    #[test]
    fn lines_are_where_the_numbers_are() {
        let text = svg(&[picture("a")]);
        let path = |class: &str| {
            let (_, behind) = text.split_once(&format!(r#"class="{class}" d=""#)).unwrap();
            behind.split_once('"').unwrap().0
        };
        // From 0 to 70 over 178 pixels, from 48 at the top; 90 days over 580 pixels, from 64 at the left.
        assert_eq!(path("limit"), "M64 48.0H644");
        assert!(path("past").starts_with("M64.0 226.0L70.4 223.5L"), "{}", path("past"));
        assert_eq!(path("past").matches('M').count(), 2, "a gap is a gap");
        assert!(path("next").starts_with("M450.7 73.4L"), "{}", path("next"));
        let band = path("band");
        assert!(band.starts_with("M450.7 60.7L") && band.ends_with("L450.7 86.1Z"), "{band}");
        assert!(text.contains(">2025-01-02<") || text.contains(">2024-12-23<"), "{text}");
    }

    #[test]
    fn what_is_thinned_keeps_its_edges() {
        let points: Vec<(f64, f64)> = (0..1000).map(|at| (f64::from(at) / 100.0, f64::from((at * 37) % 101))).collect();
        let kept = thin(&points);
        assert!(kept.len() <= 40, "{}", kept.len());
        for pixel in 0..10 {
            let edges = |points: &[(f64, f64)]| {
                let of = points.iter().filter(|point| point.0.floor() == f64::from(pixel)).map(|point| point.1);
                of.fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y)))
            };
            assert_eq!(edges(&kept), edges(&points));
        }
    }

    #[test]
    fn nothing_to_draw_is_said() {
        let mut out = Vec::new();
        let empty = Picture { grid: Grid::default(), ..picture("a") };
        assert!(!draw(&[empty], &mut out).unwrap() && out.is_empty());
        assert_eq!(svg(&vec![picture("a"); 5]).matches("<g ").count(), 5);
    }
}
