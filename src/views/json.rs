//! One JSON document.

use super::text::is_active;
use crate::model::report::{Report, Value};
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, PrettyFormatter, Serializer};
use serde_json::{Map, Number, Value as Json, json};
use std::io::{self, Write};

/// The report as JSON values.
pub(super) fn document(report: &Report) -> Json {
    let table = &report.table;
    let rows: Vec<Json> = table
        .rows
        .iter()
        .map(|row| Json::Object(table.columns.iter().cloned().zip(row.iter().map(value)).collect::<Map<_, _>>()))
        .collect();
    let totals: Map<String, Json> = report.totals.iter().map(|(name, total)| (name.clone(), value(total))).collect();
    json!({
        "schema": report.schema,
        "inputs": report.inputs,
        "window": report.window,
        "coverage": report.coverage,
        "totals": totals,
        "rows": rows,
        "findings": report.findings,
    })
}

/// A number without the noise behind its sixth decimal.
fn value(value: &Value) -> Json {
    match value {
        Value::None => Json::Null,
        Value::Text(text) => Json::String(text.clone()),
        Value::Count(count) => Json::from(*count),
        Value::Number(number) => Number::from_f64((number * 1e6).round() / 1e6).map_or(Json::Null, Json::Number),
        Value::Series(counts) => json!(counts),
    }
}

/// Writes the document.
pub(super) fn write(report: &Report, compact: bool, out: &mut dyn Write) -> io::Result<()> {
    let document = document(report);
    if compact {
        document.serialize(&mut Serializer::with_formatter(&mut *out, Harmless(CompactFormatter)))?;
    } else {
        document.serialize(&mut Serializer::with_formatter(&mut *out, Harmless(PrettyFormatter::new())))?;
    }
    writeln!(out)
}

/// `text` as a JSON string in which nothing can act on a terminal.
pub(super) fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    let written = text.serialize(&mut Serializer::with_formatter(&mut out, Harmless(CompactFormatter)));
    debug_assert!(written.is_ok(), "writing a string to memory does not fail");
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes active characters as `\u` escapes: JSON allows them raw, a terminal should not see them.
struct Harmless<F>(F);

impl<F: Formatter> Formatter for Harmless<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_active) {
            writer.write_all(&rest.as_bytes()[..at])?;
            let mut units = [0; 2];
            let c = rest[at..].chars().next().unwrap_or_default();
            for unit in c.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        self.0.write_char_escape(writer, escape)
    }
    fn begin_array<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.begin_array(w)
    }
    fn end_array<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.end_array(w)
    }
    fn begin_array_value<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(w, first)
    }
    fn end_array_value<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.end_array_value(w)
    }
    fn begin_object<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.begin_object(w)
    }
    fn end_object<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.end_object(w)
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(w, first)
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.begin_object_value(w)
    }
    fn end_object_value<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.end_object_value(w)
    }
}
