//! The JSON document as YAML: plain words where they can't be mistaken, quoted strings elsewhere, so that nothing in a
//! log can change the structure.

use super::json::{findings, head, more, row, tables};
use super::text::is_active;
use crate::model::report::Report;
use serde_json::Value as Json;
use std::io::{self, Write};

/// Characters of a key that stands before its colon on one line (YAML 1.2.2, section 7.4: at most 1,024 before it).
const LONGEST_KEY: usize = 1_000;

/// Writes the document, rows one by one.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "schema: {}", word(&report.schema))?;
    for (name, value) in head(report) {
        write!(out, "{name}:")?;
        nested(&value, 0, out)?;
    }
    let rows = report.shown_rows();
    writeln!(out, "{}", if rows.is_empty() { "rows: []" } else { "rows:" })?;
    for values in rows {
        members(&Json::Array(vec![row(&report.table.columns, values)]), 2, out)?;
    }
    if let Some(tables) = tables(report) {
        write!(out, "tables:")?;
        nested(&tables, 0, out)?;
    }
    for (name, value) in more(report) {
        write!(out, "{name}:")?;
        nested(&value, 0, out)?;
    }
    write!(out, "findings:")?;
    nested(&findings(report), 0, out)
}

fn members(value: &Json, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                let key = word(key);
                match key.chars().count() <= LONGEST_KEY {
                    true => write!(out, "{:indent$}{key}:", "")?,
                    false => write!(out, "{:indent$}? {key}\n{:indent$}:", "", "")?,
                }
                nested(value, indent, out)?;
            }
            Ok(())
        }
        Json::Array(items) => {
            for item in items {
                write!(out, "{:indent$}-", "")?;
                match item {
                    Json::Object(map) if !map.is_empty() => {
                        let mut text = Vec::new();
                        members(item, indent + 2, &mut text)?;
                        // The first member stands on the dash's line.
                        out.write_all(b" ")?;
                        out.write_all(&text[indent + 2..])?;
                    }
                    other => nested(other, indent, out)?,
                }
            }
            Ok(())
        }
        scalar => writeln!(out, "{}", word_of(scalar)),
    }
}

fn nested(value: &Json, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    match value {
        Json::Object(map) if map.is_empty() => writeln!(out, " {{}}"),
        Json::Array(items) if items.is_empty() => writeln!(out, " []"),
        Json::Array(items) if items.iter().all(|i| i.is_number()) => {
            let numbers: Vec<String> = items.iter().map(word_of).collect();
            writeln!(out, " [{}]", numbers.join(", "))
        }
        Json::Object(_) | Json::Array(_) => {
            writeln!(out)?;
            members(value, indent + 2, out)
        }
        scalar => writeln!(out, " {}", word_of(scalar)),
    }
}

fn word_of(scalar: &Json) -> String {
    match scalar {
        Json::String(text) => word(text),
        Json::Number(number) => number_of(&number.to_string()),
        other => other.to_string(),
    }
}

/// A number as YAML 1.1 knows it, too: `8e-6` is text there, `8.0e-6` a number.
fn number_of(text: &str) -> String {
    let Some((digits, exponent)) = text.split_once('e') else { return text.to_owned() };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

/// `text` unquoted if it can only be read as itself.
pub(super) fn word(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// `text` in double quotes, with every active character as an escape that YAML knows.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match (c, u32::from(c)) {
            ('"' | '\\', _) => out.extend(['\\', c]),
            (c, code @ 0x1_0000..) if is_active(c) => out += &format!("\\U{code:08x}"),
            (c, code) if is_active(c) => out += &format!("\\u{code:04x}"),
            (c, _) => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_numbers_to_older_readers_too() {
        let of = |number: f64| word_of(&json!(number));
        assert_eq!([of(8e-6), of(1.5e-7), of(1e300), of(0.25)], ["8.0e-6", "1.5e-7", "1.0e+300", "0.25"]);
        assert_eq!(word("a\u{fffe}"), "\"a\\ufffe\"");
    }
}
