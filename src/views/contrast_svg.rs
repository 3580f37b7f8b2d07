//! Before and after as one SVG that needs nothing else: a panel for each number, with both sides from their starts.
//!
//! The sides differ in width and dashes as well as in colour. All text is escaped, and nothing is script or a reference
//! to elsewhere.

use super::chart::Margins;
use super::text::{fit, plain, xml};
use crate::model::picture::Contrast;
use crate::model::time::{Micros, SECOND};
use crate::model::units::{amount, duration};
use std::fmt::Write as _;
use std::io::{self, Write};

/// A panel in pixels.
const PANEL: (f64, f64) = (480.0, 190.0);

/// What lies around the plot.
const AROUND: Margins = Margins { left: 64.0, top: 46.0, right: 16.0, bottom: 30.0 };

/// From so many panels on they stand in two columns.
const TWO_COLUMNS_FROM: usize = 3;

const STYLE: &str = "\
svg{background:#fff;color:#222;font:12px sans-serif}\
text{fill:currentColor}.title{font-size:13px;font-weight:bold}.soft{fill-opacity:.75}\
.grid{stroke:currentColor;stroke-opacity:.15;fill:none}\
.before{stroke:currentColor;stroke-opacity:.55;stroke-width:1.5;stroke-dasharray:4 \
3;fill:none}.after{stroke:#0072b2;stroke-width:2;fill:none}\
@media(prefers-color-scheme:dark){svg{background:#1b1b1f;color:#ddd}.after{stroke:#56b4e9}}";

/// Writes the panels of those of which anything is known in time. Whether there was one to draw; else nothing is
/// written.
pub fn draw(contrasts: &[Contrast], out: &mut dyn Write) -> io::Result<bool> {
    let panels: Vec<&Contrast> = contrasts.iter().filter(|one| one.sides.iter().any(|side| !side.is_empty())).collect();
    if panels.is_empty() {
        return Ok(false);
    }
    let columns = if panels.len() < TWO_COLUMNS_FROM { 1 } else { 2 };
    let (width, below) = (PANEL.0 * columns as f64, PANEL.1 * panels.len().div_ceil(columns) as f64);
    let height = below + 22.0;
    let mut text = String::new();
    all(&panels, columns, (width, below, height), &mut text).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(true)
}

fn all(
    panels: &[&Contrast],
    columns: usize,
    (width, below, height): (f64, f64, f64),
    out: &mut String,
) -> std::fmt::Result {
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" style=\"max-width:100%;height:auto\" role=\"img\">\
         <title>plimsoll compare</title><style>{STYLE}</style>"
    )?;
    for (number, contrast) in panels.iter().enumerate() {
        let (x, y) = (PANEL.0 * (number % columns) as f64, PANEL.1 * (number / columns) as f64);
        writeln!(out, r#"<g transform="translate({x},{y})">"#)?;
        panel(contrast, out)?;
        writeln!(out, "</g>")?;
    }
    writeln!(
        out,
        r#"<text class="soft" x="{}" y="{}">dashes: before · line: after, each from its own start</text>"#,
        AROUND.left,
        below + 10.0
    )?;
    writeln!(out, "</svg>")
}

fn seconds(side: &[(f64, f64)]) -> f64 {
    side.iter().map(|(seconds, _)| seconds).sum()
}

fn panel(contrast: &Contrast, out: &mut String) -> std::fmt::Result {
    let long = contrast.sides.iter().map(|side| seconds(side)).fold(1.0, f64::max);
    let most = contrast.sides.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max);
    let high = if most > 0.0 { most } else { 1.0 };
    let (left, right, top, bottom) = (AROUND.left, PANEL.0 - AROUND.right, AROUND.top, PANEL.1 - AROUND.bottom);
    let x = |at: f64| left + at / long * (right - left);
    let y = |value: f64| bottom - value / high * (bottom - top);
    writeln!(out, r#"<text class="title" x="{left}" y="18">{}</text>"#, xml(&fit(&plain(&contrast.title), 56)))?;
    writeln!(out, r#"<text class="soft" x="{left}" y="35">{}</text>"#, xml(&fit(&plain(&contrast.caption), 66)))?;
    for part in [0.0, 0.5, 1.0] {
        let at = y(high * part);
        writeln!(out, r#"<path class="grid" d="M{left} {at:.1}H{right}"/>"#)?;
        let value = amount(contrast.unit, high * part);
        writeln!(out, r#"<text class="soft" text-anchor="end" x="{}" y="{:.1}">{value}</text>"#, left - 6.0, at + 4.0)?;
    }
    for (side, class) in contrast.sides.iter().zip(["before", "after"]) {
        let mut path = String::new();
        let mut at = 0.0;
        for (number, (seconds, value)) in side.iter().enumerate() {
            write!(
                path,
                "{}{:.1} {:.1}H{:.1}",
                if number == 0 { 'M' } else { 'L' },
                x(at),
                y(*value),
                x(at + seconds)
            )?;
            at += seconds;
        }
        if !path.is_empty() {
            writeln!(out, r#"<path class="{class}" d="{path}"/>"#)?;
        }
    }
    let end = duration((long * SECOND as f64) as Micros);
    writeln!(out, r#"<text class="soft" x="{left}" y="{}">0</text>"#, bottom + 16.0)?;
    writeln!(out, r#"<text class="soft" text-anchor="end" x="{right}" y="{}">{end}</text>"#, bottom + 16.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forecast::Unit;

    fn contrast(title: &str) -> Contrast {
        let sides = [vec![(10.0, 1.0), (10.0, 2.0)], vec![(10.0, 4.0), (5.0, 0.0)]];
        Contrast { title: title.into(), caption: "1.5/s to 2.7/s".into(), unit: Unit::PerSecond, sides }
    }

    fn svg(contrasts: &[Contrast]) -> String {
        let mut out = Vec::new();
        assert!(draw(contrasts, &mut out).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn steps_are_where_the_numbers_are() {
        let text = svg(&[contrast("a")]);
        // 20 s over 400 pixels from 64 on, 0 to 4 over 114 pixels from 160 upwards.
        assert!(text.contains(r#"class="before" d="M64.0 131.5H264.0L264.0 103.0H464.0""#), "{text}");
        assert!(text.contains(r#"class="after" d="M64.0 46.0H264.0L264.0 160.0H364.0""#), "{text}");
        assert_eq!(svg(&vec![contrast("a"); 5]).matches("<g ").count(), 5);
    }

    #[test]
    fn names_are_text_and_what_is_not_known_is_not_drawn() {
        let text = svg(&[contrast("</text><script>alert(1)</script>\u{1b}")]);
        assert!(
            text.contains("&lt;/text&gt;&lt;script&gt;") && !text.contains("<script") && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(!draw(&[Contrast::default()], &mut Vec::new()).unwrap());
    }
}
