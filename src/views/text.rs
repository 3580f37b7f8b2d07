//! Strings from logs are written by whoever calls the apiserver: what could act on a terminal, a
//! spreadsheet or a page is made visible instead.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Whether a character could do something other than be seen: control characters (C0, C1), marks that
/// turn or hide text, separators of lines, private use.
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Fillers and what joins letters, too: with one of them a name looks like another.
            '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}'
            | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // What is no character.
            | '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
}

/// `text` with every active character written as `\u{..}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_active(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// `text` so that it is text wherever it stands in XML.
pub(super) fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in plain(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no such characters.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// `text` cut to `width` columns, with `…` for what was cut. Keeps the start and, where there is room, as much of the
/// end, where names differ.
pub fn fit(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    if width == 0 {
        return Cow::Borrowed("");
    }
    let tail_width = match width {
        0..16 => 0,
        16..24 => width / 3,
        _ => width / 2,
    };
    let head_width = width - 1 - tail_width;
    let mut head = String::new();
    for c in text.chars() {
        head.push(c);
        if head.width() > head_width {
            head.pop();
            break;
        }
    }
    let mut tail: Vec<char> = Vec::new();
    let mut used = 0;
    for c in text.chars().rev() {
        used += c.to_string().width();
        if used > tail_width {
            break;
        }
        tail.push(c);
    }
    Cow::Owned(head + "…" + &tail.into_iter().rev().collect::<String>())
}

/// `text` cut at its end.
pub fn fit_end(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += UnicodeWidthChar::width(c).unwrap_or(0);
        if used > width {
            out.pop();
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

/// `text` broken at blanks into lines of this width.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in plain(text).split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    // A word that is longer than a line is cut, not lost.
    lines.into_iter().map(|line| if line.width() > width { fit(&line, width).into_owned() } else { line }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_act_is_made_visible() {
        assert_eq!(plain("kubectl/v1"), "kubectl/v1");
        assert_eq!(plain("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(plain("a\nb\u{9b}c\u{202e}d"), "a\\nb\\u{9b}c\\u{202e}d");
        assert_eq!(plain("größe 漢"), "größe 漢");
    }

    #[test]
    fn fitting_keeps_both_ends_and_never_exceeds() {
        assert_eq!(fit("short", 10), "short");
        assert_eq!(fit("abcdefghij", 5), "abcd…");
        let long = "system:serviceaccount:kube-system:replicaset-controller";
        let short = fit(long, 40);
        assert!(short.width() <= 40 && short.ends_with("controller"), "{short}");
        for width in 0..30 {
            assert!(fit("漢字漢字漢字漢字漢字漢字漢字", width).width() <= width);
        }
    }
}
