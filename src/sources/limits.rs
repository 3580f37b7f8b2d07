//! What people know beforehand, in CSV files: limits of series, and events that are exceptions.

use crate::model::problem::{Problem, ProblemKind};
use crate::model::quantity::Quantity;
use crate::model::series::DAY;
use crate::model::time::{Micros, format, parse_any};
use crate::model::units::parse_bytes;
use std::collections::HashMap;
use std::path::Path;

/// The longest file.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A number, or a quantity as Kubernetes writes it: `1500`, `0.5`, `8Gi`, `100m`; or a size as people write it: `8GiB`,
/// `500MB`.
pub fn amount(text: &str) -> Result<f64, Problem> {
    let text = text.trim();
    let is_number = text.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let number = if is_number {
        text.parse::<f64>().ok()
    } else if text.ends_with('B') {
        parse_bytes(text).map(|bytes| bytes as f64)
    } else {
        text.parse::<Quantity>().ok().map(Quantity::value)
    };
    number.filter(|number| number.is_finite()).ok_or_else(|| {
        Problem::malformed(format!("'{text}' is neither a number nor a quantity, as 1500, 8Gi, 8GiB or 100m"))
    })
}

/// Limits by the text of a series or its name: a file with the columns `series` and `limit`. Errors name file and line.
pub fn limits(path: &Path) -> Result<HashMap<String, f64>, Problem> {
    let mut limits = HashMap::new();
    rows(path, &["series", "limit"], &mut |fields| {
        if fields[0].is_empty() {
            return Err(Problem::malformed("the series has no name"));
        }
        if limits.insert(fields[0].to_owned(), amount(fields[1])?).is_some() {
            return Err(Problem::malformed(format!("{} has a limit already", fields[0])));
        }
        Ok(())
    })?;
    Ok(limits)
}

/// Events: a file with the columns `from`, `until` and `name`. Times are RFC 3339 or dates (UTC); `until` is no part of
/// it, and may be left empty: then it is the day, or the hour, of `from`.
pub fn events(path: &Path) -> Result<Vec<(Micros, Micros)>, Problem> {
    let mut events = Vec::new();
    rows(path, &["from", "until", "name"], &mut |fields| {
        let (from, lasts) = instant(fields[0])?;
        let until = if fields[1].is_empty() { from + lasts } else { instant(fields[1])?.0 };
        if until <= from {
            return Err(Problem::malformed(format!("it ends at {}, which is not after its start", format(until)))
                .hint("for a whole day leave `until` empty"));
        }
        events.push((from, until));
        Ok(())
    })?;
    events.sort_unstable();
    Ok(events)
}

/// When, and how long it lasts if nothing else is said.
fn instant(text: &str) -> Result<(Micros, Micros), Problem> {
    let date = (text.len() == 10).then(|| parse_any(&format!("{text}T00:00:00Z"))).flatten();
    let hour = DAY / 24;
    date.map(|at| (at, DAY))
        .or_else(|| parse_any(text).map(|at| (at, hour)))
        .ok_or_else(|| Problem::malformed(format!("'{text}' is not a time: write 2026-12-25 or 2026-12-25T08:00:00Z")))
}

/// The fields of these columns, row by row.
fn rows(path: &Path, columns: &[&str], each: &mut dyn FnMut(&[&str]) -> Result<(), Problem>) -> Result<(), Problem> {
    let shown = path.display();
    let file = std::fs::File::open(path).map_err(|error| Problem::io(path, &error).hint("check the path"))?;
    if file.metadata().map_err(|error| Problem::io(path, &error))?.len() > MAX_FILE_BYTES {
        return Err(Problem::new(ProblemKind::TooLarge, "it is larger than 64 MiB").at(shown));
    }
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(file);
    let broken = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        Problem::malformed(error.to_string()).at(format!("{shown}:{line}"))
    };
    let head = reader.headers().map_err(broken)?.clone();
    let mut places = Vec::new();
    for column in columns {
        let place = head.iter().position(|name| name.trim_start_matches('\u{feff}') == *column);
        places.push(place.ok_or_else(|| {
            Problem::malformed(format!("no column '{column}'"))
                .at(format!("{shown}:1"))
                .hint(format!("the first line is {}", columns.join(",")))
        })?);
    }
    let mut record = csv::StringRecord::new();
    loop {
        match reader.read_record(&mut record) {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => return Err(broken(error)),
        }
        let line = record.position().map_or(0, csv::Position::line);
        let fields: Vec<&str> = places.iter().map(|place| record.get(*place).unwrap_or_default()).collect();
        each(&fields).map_err(|problem| problem.at(format!("{shown}:{line}")))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.csv");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn amounts_are_numbers_or_quantities() {
        for (text, value) in [
            ("1500", 1500.0),
            ("8Gi", 8_589_934_592.0),
            ("100m", 0.1),
            (" 1e3 ", 1000.0),
            ("0.1234567890123", 0.123_456_789_012_3),
            ("-2", -2.0),
        ] {
            assert_eq!(amount(text), Ok(value), "{text}");
        }
        for bad in ["", "NaN", "inf", "8 Gi", "many", "1e999"] {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn limits_are_read() {
        let (_kept, path) = file("series,limit\nH1,10\n\"a{b=\"\"c\"\"}\",8Gi\n");
        let found = limits(&path).unwrap();
        assert_eq!((found["H1"], found["a{b=\"c\"}"], found.len()), (10.0, 8_589_934_592.0, 2));
        for (text, expected) in [
            ("series,limits\n", "f.csv:1: no column 'limit'"),
            ("series,limit\na,much\n", "f.csv:2: 'much' is neither"),
            ("series,limit\na,1\na,2\n", "f.csv:3: a has a limit already"),
            ("series,limit\na\n", "f.csv:2:"),
            ("series,limit\n,4\n", "no name"),
        ] {
            let (_kept, path) = file(text);
            let error = limits(&path).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert!(limits(Path::new("none.csv")).unwrap_err().to_string().contains("check the path"));
    }

    #[test]
    fn events_are_read() {
        let (_kept, path) =
            file("name,from,until\nx,1970-01-03,\ny,1970-01-01,1970-01-03T12:00:00Z\nz,1970-01-01T01:00:00Z,\n");
        let hour = DAY / 24;
        assert_eq!(events(&path).unwrap(), [(0, 2 * DAY + 12 * hour), (hour, 2 * hour), (2 * DAY, 3 * DAY)]);
        for (text, expected) in [
            ("from,until,name\nsoon,,x\n", ":2: 'soon' is not a time"),
            ("from,until,name\n1970-01-02,1970-01-02,x\n", "not after its start"),
        ] {
            let (_kept, path) = file(text);
            let error = events(&path).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
