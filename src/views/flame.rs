//! Flame graphs: SVG that can be searched and zoomed, and *folded* text, a line for each stack, for other tools.
//!
//! Names of functions come from a file that anyone may have written. In folded text `;` and the end of the line have a
//! meaning, so they are replaced; in SVG all names are written as text, never as markup or script.

use super::Format;
use super::text::plain;
use crate::model::flame::{Tree, short_name};
use crate::model::units::{bytes, grouped};
use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{self, Direction, Options};
use std::io::{self, Write};

/// Calls narrower than this part of the whole can't be seen; in the picture they are their callers'.
const NARROWEST: u64 = 20_000;

/// Calls below this are not drawn; what they hold is their callers'. At 16 pixels each that is a picture of 6,400.
const DEEPEST: usize = 400;

/// Longer names are cut in the picture.
const MAX_NAME_CHARS: usize = 200;

/// Elements of a package's path that are shown in the picture.
const ELEMENTS: usize = 2;

/// A name without what has a meaning in folded text.
fn neutral(name: &str) -> String {
    let mut name = plain(name).replace(';', ",");
    // `f 12` at the end of a stack would be read as a weight.
    if let Some((_, last)) = name.rsplit_once(' ')
        && last.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    {
        name = name.replace(' ', "_");
    }
    let name = name.trim_start_matches('#').trim();
    if name.is_empty() { "<unknown>".to_owned() } else { name.to_owned() }
}

/// The stack of a call, root first, with `;` between.
fn stack(tree: &Tree, names: &[String], call: usize) -> String {
    let mut path = Vec::new();
    let mut at = call;
    while at != 0 {
        let Some(call) = tree.calls.get(at) else { break };
        path.push(names.get(call.name as usize).map_or("", String::as_str));
        at = call.caller as usize;
    }
    path.reverse();
    path.join(";")
}

/// Draws a tree in a form that [`Format::of_flame`] gave.
pub fn draw(tree: &Tree, form: Format, out: &mut dyn Write) -> io::Result<()> {
    if form == Format::Folded { folded(tree, out) } else { svg(tree, out) }
}

/// Writes a line for each stack: functions from the root, and what it weighs; of a comparison before and now.
pub fn folded(tree: &Tree, out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<String> = tree.names.iter().map(|name| neutral(name)).collect();
    for (number, call) in tree.calls.iter().enumerate() {
        match (call.own, tree.compares) {
            ([0, 0], _) => {}
            ([before, now], true) => writeln!(out, "{} {before} {now}", stack(tree, &names, number))?,
            ([_, now], false) => writeln!(out, "{} {now}", stack(tree, &names, number))?,
        }
    }
    out.flush()
}

/// The lines that can be seen in a picture.
fn visible(tree: &Tree) -> Vec<String> {
    let name = |name: &String| {
        let name = if tree.is_code { neutral(&short_name(name, ELEMENTS)) } else { neutral(name) };
        if name.chars().count() > MAX_NAME_CHARS {
            name.chars().take(MAX_NAME_CHARS).chain(['…']).collect()
        } else {
            name
        }
    };
    let names: Vec<String> = tree.names.iter().map(name).collect();
    let shown = tree.seen(NARROWEST, DEEPEST).into_iter().filter(|(number, own)| *number > 0 && *own != [0; 2]);
    let line = |(number, [before, now]): (usize, [u64; 2])| match tree.compares {
        true => format!("{} {before} {now}", stack(tree, &names, number)),
        false => format!("{} {now}", stack(tree, &names, number)),
    };
    shown.map(line).collect()
}

/// Writes a flame graph. There must be something to draw.
pub fn svg(tree: &Tree, out: &mut dyn Write) -> io::Result<()> {
    let lines = visible(tree);
    let total = tree.total()[1];
    let amount = if tree.unit == "bytes" { bytes(total as f64) } else { grouped(total) };
    let mut options = Options::default();
    options.title = format!("{}: {amount}", plain(&tree.title));
    options.subtitle = (!tree.subtitle.is_empty()).then(|| plain(&tree.subtitle).into_owned());
    options.count_name = plain(&tree.unit).into_owned();
    options.name_type = if tree.is_code { "Function:" } else { "Keys of:" }.to_owned();
    options.colors = Palette::Basic(BasicPalette::Mem);
    // The same profile gives the same picture.
    options.deterministic = true;
    // An apiserver's stacks are a hundred calls deep: what is widest should be seen without scrolling.
    options.direction = Direction::Inverted;
    options.image_width = Some(1400);
    options.font_type = "monospace".to_owned();
    options.notes = String::new();
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut picture)?;
    out.write_all(&picture)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::flame::Call;

    fn tree(names: &[&str], calls: &[(u32, u32, [u64; 2])]) -> Tree {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let calls = calls.iter().map(|(caller, name, own)| Call { caller: *caller, name: *name, own: *own }).collect();
        Tree { names, calls, unit: "bytes".into(), title: "t".into(), ..Tree::default() }
    }

    #[test]
    fn names_have_no_meaning_in_folded_text() {
        let names = ["", "a;b\nc", "f 12", "", "# x", "<script>alert(1)</script>"];
        let tree = tree(
            &names,
            &[(0, 0, [0; 2]), (0, 1, [0; 2]), (1, 2, [0, 5]), (1, 3, [0, 7]), (0, 4, [0, 1]), (0, 5, [0, 2])],
        );
        let mut out = Vec::new();
        folded(&tree, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "a,b\\nc;f_12 5\na,b\\nc;<unknown> 7\nx 1\n<script>alert(1)</script> 2\n");
        let mut out = Vec::new();
        svg(&tree, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !text.contains("<script>alert"), "{text}");
    }

    #[test]
    fn what_is_too_narrow_is_its_callers() {
        let tree = tree(&["", "a", "b"], &[(0, 0, [0; 2]), (0, 1, [0, 1_000_000]), (1, 2, [0, 3])]);
        assert_eq!(visible(&tree), ["a 1000003"]);
    }
}
