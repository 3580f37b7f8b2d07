//! Samples of a dataset as the metrics page that they were.

use super::parquet::{Parquet, reals, texts};
use crate::model::dataset::PageRows;
use crate::model::problem::{Problem, guarded};
use std::io::{self, Cursor, Read};
use std::path::Path;

/// A page of a file.
pub(in crate::sources) fn page(path: &Path, page: PageRows) -> io::Result<Box<dyn Read + Send>> {
    let none = || Problem::damaged("holds no samples of a dataset any more");
    let read = guarded(|| text(&Parquet::open(path)?.ok_or_else(none)?, page));
    Ok(Box::new(Cursor::new(read.map_err(io::Error::other)?)))
}

fn text(parquet: &Parquet, page: PageRows) -> Result<Vec<u8>, Problem> {
    let frame = parquet.read(&["name", "labels", "value"], (page.from, page.rows))?;
    let (names, labels, values) = (texts(&frame, "name")?, texts(&frame, "labels")?, reals(&frame, "value")?);
    let mut out = Vec::new();
    for row in 0..frame.height() {
        let (Some(name), Some(value)) = (names.get(row), values.get(row)) else { continue };
        out.extend_from_slice(name.as_bytes());
        if let Some(labels) = labels.get(row) {
            out.push(b'{');
            out.extend_from_slice(labels.as_bytes());
            out.push(b'}');
        }
        let value = match value {
            value if value.is_nan() => "NaN".to_owned(),
            value if value.is_infinite() => if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
            value => value.to_string(),
        };
        out.push(b' ');
        out.extend_from_slice(value.as_bytes());
        out.push(b'\n');
    }
    Ok(out)
}
