//! One JSON document.

use super::text::is_active;
use crate::model::incident::Section;
use crate::model::report::{Report, Table, Value};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, PrettyFormatter, Serializer};
use serde_json::{Map, Value as Json, json};
use std::io::{self, BufWriter, Write};

/// The report in the order of its fields; rows are written one by one, however many there are.
struct Document<'r> {
    report: &'r Report,
    /// What other commands say, where it is a report of several.
    sections: Option<&'r [Section]>,
    /// The command that says it, where it is a section.
    command: Option<&'r [String]>,
}

impl Serialize for Document<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { report, sections, command } = *self;
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("schema", &report.schema)?;
        for (name, value) in head(report) {
            map.serialize_entry(name, &value)?;
        }
        map.serialize_entry("rows", &Rows(&report.table.columns, report.shown_rows()))?;
        if !report.tables.is_empty() {
            map.serialize_entry("tables", &Tables(&report.tables))?;
        }
        for (name, value) in more(report) {
            map.serialize_entry(&name, &value)?;
        }
        if let Some(sections) = sections {
            map.serialize_entry("sections", &Sections(sections))?;
        }
        map.serialize_entry("findings", &findings(report))?;
        if let Some(command) = command {
            map.serialize_entry("command", command)?;
        }
        map.end()
    }
}

struct Sections<'r>(&'r [Section]);

impl Serialize for Sections<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0
                .iter()
                .map(|own| (own.name, Document { report: &own.report, sections: None, command: Some(&own.command) })),
        )
    }
}

struct Tables<'r>(&'r [Table]);

impl Serialize for Tables<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|table| (&table.name, Rows(&table.columns, &table.rows))))
    }
}

struct Rows<'r>(&'r [String], &'r [Vec<Value>]);

impl Serialize for Rows<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.1.iter().map(|row| Row(self.0, row)))
    }
}

struct Row<'r>(&'r [String], &'r [Value]);

impl Serialize for Row<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1.iter().map(Cell)))
    }
}

/// What stands before the rows.
pub(super) fn head(report: &Report) -> [(&'static str, Json); 4] {
    let totals: Map<String, Json> = report.totals.iter().map(|(name, total)| (name.clone(), value(total))).collect();
    [
        ("inputs", json!(report.inputs)),
        ("window", json!(report.window)),
        ("coverage", rounded(Json::Object(report.coverage.clone()))),
        ("totals", Json::Object(totals)),
    ]
}

/// The further tables, if there are any.
pub(super) fn tables(report: &Report) -> Option<Json> {
    let rows = |table: &Table| Json::Array(table.rows.iter().map(|values| row(&table.columns, values)).collect());
    let all: Map<String, Json> = report.tables.iter().map(|table| (table.name.clone(), rows(table))).collect();
    (!all.is_empty()).then_some(Json::Object(all))
}

/// Further members.
pub(super) fn more(report: &Report) -> Map<String, Json> {
    report.more.iter().map(|(name, value)| (name.clone(), rounded(value.clone()))).collect()
}

/// The findings.
pub(super) fn findings(report: &Report) -> Json {
    rounded(json!(report.findings))
}

/// The same with all numbers as in rows.
fn rounded(json: Json) -> Json {
    match json {
        Json::Number(number) if number.is_f64() => {
            number.as_f64().map_or(Json::Null, |number| value(&Value::Number(number)))
        }
        Json::Array(items) => items.into_iter().map(rounded).collect(),
        Json::Object(members) => members.into_iter().map(|(name, member)| (name, rounded(member))).collect(),
        other => other,
    }
}

/// One row.
pub(super) fn row(columns: &[String], values: &[Value]) -> Json {
    Json::Object(columns.iter().cloned().zip(values.iter().map(value)).collect())
}

fn value(value: &Value) -> Json {
    json!(Cell(value))
}

/// A value, its number without the noise behind the sixth decimal.
struct Cell<'r>(&'r Value);

impl Serialize for Cell<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::None => serializer.serialize_unit(),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Count(count) => count.serialize(serializer),
            // The sum of nothing is -0.
            Value::Number(number) => serializer.serialize_f64((number * 1e6).round() / 1e6 + 0.0),
            Value::Series(counts) => counts.serialize(serializer),
            Value::Group(values) => serializer.collect_map(values.iter().map(|(name, value)| (name, Cell(value)))),
            // A number by itself is as somebody asked for it.
            Value::Json(number @ Json::Number(_)) => number.serialize(serializer),
            Value::Json(json) => rounded(json.clone()).serialize(serializer),
        }
    }
}

/// Writes the document.
pub(super) fn write(report: &Report, compact: bool, out: &mut dyn Write) -> io::Result<()> {
    write_document(&Document { report, sections: None, command: None }, compact, out)
}

/// Writes the document of a report of several, with what other commands say.
pub(super) fn write_with(report: &Report, sections: &[Section], out: &mut dyn Write) -> io::Result<()> {
    write_document(&Document { report, sections: Some(sections), command: None }, false, out)
}

fn write_document(document: &Document<'_>, compact: bool, out: &mut dyn Write) -> io::Result<()> {
    // JSON is written in small pieces.
    let mut out = BufWriter::with_capacity(1 << 16, out);
    if compact {
        document.serialize(&mut Serializer::with_formatter(&mut out, Harmless(CompactFormatter)))?;
    } else {
        document.serialize(&mut Serializer::with_formatter(&mut out, Harmless(PrettyFormatter::new())))?;
    }
    writeln!(out)?;
    out.flush()
}

/// The document as one value.
pub(super) fn document(report: &Report) -> Json {
    let mut all = Map::new();
    all.insert("schema".to_owned(), json!(report.schema));
    all.extend(head(report).map(|(name, value)| (name.to_owned(), value)));
    all.insert(
        "rows".to_owned(),
        report.shown_rows().iter().map(|values| row(&report.table.columns, values)).collect(),
    );
    all.extend(tables(report).map(|tables| ("tables".to_owned(), tables)));
    all.extend(more(report));
    all.insert("findings".to_owned(), findings(report));
    Json::Object(all)
}

/// Writes any JSON, with active characters as escapes.
pub(super) fn any(json: &Json, out: &mut dyn Write) -> io::Result<()> {
    json.serialize(&mut Serializer::with_formatter(&mut *out, Harmless(PrettyFormatter::new())))?;
    writeln!(out)
}

/// Writes active characters as `\u` escapes: JSON allows them raw, a terminal should not see them.
struct Harmless<F>(F);

impl<F: Formatter> Formatter for Harmless<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
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
