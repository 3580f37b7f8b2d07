//! Kubernetes objects as documents that can be applied: YAML with comments, or one JSON list.

use super::json;
use super::text::{is_active, plain};
use super::yaml::word;
use serde_json::{Map, Value as Json, json};
use std::io::{self, Write};

/// Writes an object as a YAML document, below comments.
pub fn yaml(comments: &[String], object: &Map<String, Json>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "---")?;
    for comment in comments {
        writeln!(out, "# {}", plain(comment))?;
    }
    members(object, 0, false, out)
}

/// Objects as YAML documents, each below its comments.
pub fn documents(all: &[(Vec<String>, Map<String, Json>)]) -> String {
    let mut out = Vec::new();
    for (comments, object) in all {
        // A vector takes whatever is written to it.
        let _ = yaml(comments, object, &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes objects as a JSON list, as kubectl takes it.
pub fn list(objects: Vec<Map<String, Json>>, out: &mut dyn Write) -> io::Result<()> {
    json::any(&json!({"apiVersion": "v1", "kind": "List", "items": objects}), out)
}

/// The members of an object; of an item of a list the first one stands behind the dash.
fn members(object: &Map<String, Json>, indent: usize, mut behind_dash: bool, out: &mut dyn Write) -> io::Result<()> {
    for (name, value) in object {
        let indent_here = if std::mem::take(&mut behind_dash) { 0 } else { indent };
        write!(out, "{:indent_here$}{}:", "", word(name))?;
        value_of(value, indent, out)?;
    }
    Ok(())
}

/// What stands behind `name:` or, in a list, behind the dash.
fn value_of(value: &Json, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    match value {
        Json::Object(object) if object.is_empty() => writeln!(out, " {{}}"),
        Json::Array(items) if items.is_empty() => writeln!(out, " []"),
        Json::Object(object) => {
            writeln!(out)?;
            members(object, indent + 2, false, out)
        }
        Json::Array(items) => {
            writeln!(out)?;
            for item in items {
                write!(out, "{:indent$}-", "")?;
                match item {
                    Json::Object(object) if !object.is_empty() => {
                        write!(out, " ")?;
                        members(object, indent + 2, true, out)?;
                    }
                    other => value_of(other, indent + 2, out)?,
                }
            }
            Ok(())
        }
        Json::String(text) => match block(text) {
            Some(chomping) => {
                writeln!(out, " |{chomping}")?;
                for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                    let indent = if line.is_empty() { 0 } else { indent + 2 };
                    writeln!(out, "{:indent$}{line}", "")?;
                }
                Ok(())
            }
            None => writeln!(out, " {}", word(text)),
        },
        scalar => writeln!(out, " {scalar}"),
    }
}

/// How a text of several lines can stand as they are; `None` where it can't.
fn block(text: &str) -> Option<&'static str> {
    let begins_plain = text.starts_with(|c: char| !c.is_whitespace());
    let is_harmless = !text.contains(|c: char| c != '\n' && is_active(c));
    if !(text.contains('\n') && begins_plain && is_harmless) {
        return None;
    }
    Some(match text.len() - text.trim_end_matches('\n').len() {
        0 => "-",
        1 => "",
        _ => "+",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_reads_back_as_it_was() {
        let texts = [
            "plain",
            "",
            "yes",
            "NO",
            "null",
            "~",
            "1",
            "0x1f",
            "1e3",
            "1_000",
            "12:30:45",
            "2026-01-01",
            ".5",
            ".inf",
            "-",
            "- a",
            "a: b",
            "a #b",
            "#",
            "&a",
            "*a",
            "!a",
            "%a",
            "@a",
            "`a",
            "{a}",
            "[a]",
            "|",
            ">",
            "'",
            "\"",
            "\\",
            "a\nb",
            "a\nb\n",
            "a\nb\n\n",
            "\na",
            " a\nb",
            "a\n  b\n c ",
            "a\n\nb",
            "\n",
            "a\tb",
            "a\r\nb",
            "tab\n\tb",
            "é\n漢",
            "\u{1b}[31m",
            "\u{9b}x\ny",
            "\u{202e}x",
            "\u{feff}",
            "\u{10ffff}",
            "---\nx",
            "...\nx",
            "# x\ny",
            "a\n# b",
            "=",
            "<<",
            "true",
            "y",
        ];
        let mut object = Map::new();
        for (at, text) in texts.iter().enumerate() {
            object.insert(format!("k{at}"), json!(text));
            object.insert(
                format!("l{at}"),
                json!([text, [text, []], {"a": text, "b": [{}, {"c": text}]}, null, 1, -2.5, true]),
            );
            object.insert((*text).to_owned(), json!({"x": {"y": {}}, "z": []}));
        }
        let mut out = Vec::new();
        yaml(&["a\nb".to_owned(), "c".to_owned()], &object, &mut out).expect("a Vec takes all");
        let text = String::from_utf8(out).expect("UTF-8");
        let back: Json = serde_yaml_ng::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(back, Json::Object(object));
        assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\t']));
        assert!(text.starts_with("---\n# a\\nb\n# c\n"));
    }
}
