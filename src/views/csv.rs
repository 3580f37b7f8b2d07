//! Rows only, comma-separated (RFC 4180).

use super::text::plain;
use crate::model::report::{Report, Value};
use std::io::{self, Write};

/// Writes the rows.
pub(super) fn write(report: &Report, headers: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = csv::Writer::from_writer(out);
    if headers {
        rows.write_record(report.table.columns.iter().map(|name| harmless(name))).map_err(io_error)?;
    }
    for row in report.shown_rows() {
        rows.write_record(row.iter().map(field)).map_err(io_error)?;
    }
    rows.flush()
}

/// The error below, so that a closed pipe is known as one.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn field(value: &Value) -> String {
    match value {
        Value::None | Value::Json(serde_json::Value::Null) => String::new(),
        Value::Text(text) => harmless(text),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => ((number * 1e6).round() / 1e6 + 0.0).to_string(),
        Value::Group(values) => {
            let pairs = values.iter().map(|(name, value)| format!("{}={}", plain(name), field(value)));
            harmless(&pairs.collect::<Vec<_>>().join(" "))
        }
        Value::Json(json) => harmless(&json.to_string()),
        Value::Series(counts) => counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// A spreadsheet runs what starts like a formula; a quote in front makes it text (OWASP, CSV injection).
fn harmless(text: &str) -> String {
    let text = plain(text);
    if text.starts_with(['=', '+', '-', '@', '|', '%']) { format!("'{text}") } else { text.into_owned() }
}
