//! A page of Markdown as text for a terminal: paragraphs are wrapped, commands stay as they are.

use super::Style;
use super::text::{plain, wrapped};
use std::io::{self, Write};

/// Lines are no longer than this, however wide the terminal is.
const WIDEST: usize = 100;

/// Writes it; `unlinked` takes the markup out of a paragraph.
pub fn write(text: &str, unlinked: fn(&str) -> String, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let width = style.width.unwrap_or(WIDEST).clamp(20, WIDEST);
    let mut paragraph = String::new();
    let mut is_code = false;
    let flush = |paragraph: &mut String, out: &mut dyn Write| -> io::Result<()> {
        let text = unlinked(paragraph);
        paragraph.clear();
        let indent = text.len() - text.trim_start().len();
        // What belongs to an item of a list stands below its words.
        let hanging = if text.trim_start().starts_with("- ") { indent + 2 } else { indent };
        for (number, line) in wrapped(text.trim(), width - hanging.min(width / 2)).into_iter().enumerate() {
            let by = if number == 0 { indent } else { hanging };
            if !line.is_empty() {
                writeln!(out, "{:by$}{line}", "")?;
            }
        }
        Ok(())
    };
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            flush(&mut paragraph, out)?;
            is_code = !is_code;
        } else if is_code {
            writeln!(out, "    {}", plain(line))?;
        } else if let Some(heading) = line.strip_prefix("# ") {
            flush(&mut paragraph, out)?;
            writeln!(out, "{}", unlinked(heading))?;
        } else if let Some(heading) = line.strip_prefix("## ") {
            flush(&mut paragraph, out)?;
            // Paths keep their letters.
            let heading = unlinked(heading);
            writeln!(out, "{}", if heading.contains('/') { heading } else { heading.to_uppercase() })?;
        } else if line.trim().is_empty() {
            flush(&mut paragraph, out)?;
            writeln!(out)?;
        } else {
            let first = line.trim_start();
            let is_item =
                first.starts_with("- ") || first.starts_with(|c: char| c.is_ascii_digit()) && first.contains(". ");
            if is_item || first.starts_with('|') {
                flush(&mut paragraph, out)?;
                paragraph.push_str(line);
            } else {
                paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
                paragraph.push_str(first);
            }
        }
    }
    flush(&mut paragraph, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_wrapped_and_commands_stay() {
        let style = Style { width: Some(30), color: false, headers: true, compact: false };
        let mut out = Vec::new();
        let text = "One two three four five\nsix seven.\n\n## Act\n\n- a b c d e f g h i j k l m n o p q\n  \
             r\n\n```sh\nplimsoll clients audit.log --where user=somebody\n```\nend";
        write(text, str::to_owned, &style, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "One two three four five six\nseven.\n\nACT\n\n- a b c d e f g h i j k l m\n  n o p q r\n\n    plimsoll \
             clients audit.log --where user=somebody\nend\n"
        );
    }
}
