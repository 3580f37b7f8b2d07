//! Samples in files of others: CSV, Parquet, and what Prometheus answers. (Forms: docs/history.md.)

use super::key;
use super::table::Table;
use crate::model::names;
use crate::model::problem::Problem;
use crate::model::series::Series;
use crate::model::time::{Micros, SECOND, parse_any};
use crate::sources::content::{Content, look};
use crate::sources::open::{Place, recognise};
use polars::prelude::{Column, DataFrame, DataType};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of a JSON answer that are read.
const LARGEST: u64 = 1 << 30;
/// Unix seconds that are taken: 1970 to 2200.
const SECONDS: std::ops::Range<f64> = 0.0..7_258_118_400.0;

/// What a sample's value or an error of whoever takes it comes to.
pub type Taken = Result<(), Problem>;

/// Takes what is read.
pub trait Sink {
    /// A series that was not met before: gives the number by which it is named from then on; says what is wrong with
    /// it.
    fn series(&mut self, series: &Series) -> Result<usize, Problem>;
    /// A sample of it.
    fn sample(&mut self, series: usize, at: Micros, value: f64) -> Taken;
}

/// What a file came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Samples that were given on.
    pub samples: u64,
    /// Values that are no finite numbers: Prometheus marks with them that a series ended.
    pub not_finite: u64,
}

/// Why a file was not read to its end: file, place, and what to do. Samples before that place were given on.
pub type Refused = Problem;

/// Reads a file, or standard input (`-`), into `sink`. `name`: that of series which have none, as answers to
/// expressions.
pub fn read(argument: &str, name: Option<&str>, sink: &mut dyn Sink) -> Result<Imported, Refused> {
    if argument == "-" {
        return text("-", Box::new(std::io::stdin()), name, sink);
    }
    let path = Path::new(argument);
    let mut begin = [0; 4];
    let mut file =
        std::fs::File::open(path).map_err(|error| Problem::from(error).at(argument).hint("check the path"))?;
    if file.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        // What was looked at in a pipe can't be read again.
        return text(argument, Box::new(file), name, sink);
    }
    if file.read_exact(&mut begin).is_ok() && &begin == b"PAR1" {
        return parquet(path, sink);
    }
    let mut source = recognise(&Place::File(path.to_owned()))?;
    other(source.content, argument).map_err(|problem| problem.at(argument))?;
    let reader = source.reader().map_err(|error| Problem::from(error).at(argument))?;
    text(argument, Box::new(reader), name, sink)
}

/// Says why a file of another kind is not read.
fn other(content: Content, path: &str) -> Result<(), Problem> {
    match content {
        Content::Metrics => Err(Problem::malformed(format!(
            "a metrics page shows one moment, and a forecast requires a series: plimsoll record {path} --store \
             history --once, page after page, then plimsoll forecast history"
        ))),
        Content::Database | Content::Profile | Content::Dump | Content::Archive(_) => {
            Err(Problem::malformed(content.in_words())
                .hint("CSV, Parquet and JSON files with series are read here (docs/history.md)"))
        }
        _ => Ok(()),
    }
}

fn text(path: &str, input: Box<dyn Read + '_>, name: Option<&str>, sink: &mut dyn Sink) -> Result<Imported, Refused> {
    let mut input = BufReader::with_capacity(256 << 10, input);
    let begin = input.fill_buf().map_err(|error| Problem::from(error).at(path))?;
    other(look(begin).0, path).map_err(|problem| problem.at(path))?;
    match begin.trim_ascii_start().first() {
        Some(b'{') => answer(path, input, name, sink),
        Some(_) => lines(path, input, sink),
        None => Err(Problem::malformed("it is empty")
            .at(path)
            .hint("a CSV file begins with a line that names its columns: name,…,time,value")),
    }
}

/// Unix seconds, or RFC 3339.
fn instant(text: &str) -> Result<Micros, Problem> {
    match text.parse::<f64>() {
        Ok(seconds) if SECONDS.contains(&seconds) => Ok((seconds * SECOND as f64).round() as Micros),
        Ok(_) => Err(Problem::malformed(format!("'{text}' is not a time between 1970 and 2200"))
            .hint("numbers are seconds since 1970, not milliseconds")),
        Err(_) => {
            let hint = "times are seconds since 1970 or RFC 3339, of 1970 to 2200";
            let at = parse_any(text).filter(|at| SECONDS.contains(&(*at as f64 / SECOND as f64)));
            at.ok_or_else(|| Problem::malformed(format!("'{text}' is not a time")).hint(hint))
        }
    }
}

/// A number; `None` for what is no finite one, or nothing at all.
fn number(text: &str) -> Result<Option<f64>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let value: f64 = text.parse().map_err(|_| Problem::malformed(format!("'{text}' is not a number")))?;
    Ok(value.is_finite().then_some(value))
}

/// Bytes of a line at most: what has more is no table, and would fill the memory.
const LONGEST_LINE: usize = 16 << 20;

/// Reads until a line is too long.
struct ShortLines<R> {
    input: R,
    /// Bytes since the last line's end.
    since: usize,
}

impl<R: Read> Read for ShortLines<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(into)?;
        self.since = match memchr::memrchr(b'\n', &into[..count]) {
            Some(end) => count - end - 1,
            None => self.since + count,
        };
        if self.since > LONGEST_LINE {
            return Err(std::io::Error::other(format!("a line of more than {} MiB", LONGEST_LINE >> 20)));
        }
        Ok(count)
    }
}

fn lines(path: &str, input: impl Read, sink: &mut dyn Sink) -> Result<Imported, Refused> {
    let input = ShortLines { input, since: 0 };
    let mut reader = csv::ReaderBuilder::new().buffer_capacity(64 << 10).from_reader(input);
    let broken = |error: &csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        Problem::malformed(error.to_string())
            .at(format!("{path}:{line}"))
            .hint("each line has as many fields as the first")
    };
    let head = reader.headers().map_err(|error| broken(&error))?.clone();
    let find = |wanted: &str| {
        head.iter().position(|column| column == wanted).ok_or_else(|| {
            Problem::malformed(format!("no column '{wanted}'"))
                .at(format!("{path}:1"))
                .hint("the first line must list the columns name,…,time,value; those between are labels")
        })
    };
    let (name, time, value) = (find("name")?, find("time")?, find("value")?);
    let labels: Vec<usize> = (0..head.len()).filter(|column| ![name, time, value].contains(column)).collect();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut imported = Imported::default();
    let mut record = csv::StringRecord::new();
    let mut series_of = Vec::new();
    loop {
        match reader.read_record(&mut record) {
            Ok(false) => return Ok(imported),
            Ok(true) => {}
            Err(error) => return Err(broken(&error)),
        }
        let line = record.position().map_or(0, csv::Position::line);
        let field = |column: usize| record.get(column).unwrap_or_default();
        let refused = |problem: Problem| problem.at(format!("{path}:{line}"));
        series_of.clear();
        for column in std::iter::once(name).chain(labels.iter().copied()) {
            series_of.extend_from_slice(field(column).as_bytes());
            series_of.push(0xff);
        }
        let id = match known.get(&series_of) {
            Some(id) => *id,
            None => {
                let pairs: Vec<(&str, &str)> =
                    labels.iter().map(|column| (head.get(*column).unwrap_or_default(), field(*column))).collect();
                let id = sink.series(&Series::new(field(name), &pairs)).map_err(refused)?;
                known.insert(series_of.clone(), id);
                id
            }
        };
        let at = instant(field(time).trim()).map_err(refused)?;
        match number(field(value).trim()).map_err(refused)? {
            Some(value) => {
                sink.sample(id, at, value).map_err(refused)?;
                imported.samples += 1;
            }
            None => imported.not_finite += 1,
        }
    }
}

/// `/api/v1/query_range` or `/api/v1/query`.
#[derive(Deserialize)]
struct Answer {
    status: String,
    data: Option<Data>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: serde_json::Value,
}

#[derive(Deserialize)]
struct Item {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
    value: Option<(f64, String)>,
}

fn answer(path: &str, input: impl Read, name: Option<&str>, sink: &mut dyn Sink) -> Result<Imported, Refused> {
    let form = "an answer of Prometheus to /api/v1/query_range is expected";
    let answer: Answer = serde_json::from_reader(input.take(LARGEST))
        .map_err(|error| Problem::malformed(error.to_string()).at(format!("{path}:{}", error.line())).hint(form))?;
    if answer.status != "success" {
        let error = answer.error.unwrap_or(answer.status);
        return Err(Problem::malformed(format!("Prometheus answered with an error: {error}")).at(format!("{path}:1")));
    }
    let data =
        answer.data.ok_or_else(|| Problem::malformed("the answer holds no data").at(format!("{path}:1")).hint(form))?;
    if !matches!(data.result_type.as_str(), "matrix" | "vector") {
        return Err(Problem::malformed(format!("the result is a {}, not a matrix", data.result_type))
            .at(format!("{path}:1"))
            .hint(form));
    }
    let serde_json::Value::Array(items) = data.result else {
        return Err(Problem::malformed("the result is not a list").at(format!("{path}:1")).hint(form));
    };
    let mut imported = Imported::default();
    for (n, item) in items.into_iter().enumerate() {
        let refused = |problem: Problem| problem.at(format!("{path}: result {}", n + 1));
        if item.get("histograms").is_some() {
            let what = Problem::malformed("a native histogram");
            return Err(refused(what.hint("query a number, such as histogram_quantile()")));
        }
        let Item { mut metric, values, value } = serde_json::from_value(item).map_err(|error| refused(error.into()))?;
        let own = metric.remove("__name__").or_else(|| name.map(str::to_owned));
        let own = own.ok_or_else(|| {
            let what = Problem::malformed("the series has no name, as the result of an expression");
            refused(what.hint("give one with --name"))
        })?;
        let pairs: Vec<(&str, &str)> = metric.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let id = sink.series(&Series::new(names::of_metric(&own), &pairs)).map_err(refused)?;
        for (seconds, text) in values.into_iter().chain(value) {
            let at = instant(&seconds.to_string()).map_err(refused)?;
            match number(&text).map_err(refused)? {
                Some(value) => {
                    sink.sample(id, at, value).map_err(refused)?;
                    imported.samples += 1;
                }
                None => imported.not_finite += 1,
            }
        }
    }
    Ok(imported)
}

fn parquet(path: &Path, sink: &mut dyn Sink) -> Result<Imported, Refused> {
    let shown = path.display();
    let mut table = Table::open(path).map_err(|problem| problem.at(&shown))?;
    let columns = table.columns();
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let time = ["time", "at"].into_iter().find(|column| names.contains(column));
    let (Some(time), true, true) = (time, names.contains(&"name"), names.contains(&"value")) else {
        return Err(Problem::malformed(format!("its columns are {}", names.join(", ")))
            .at(shown)
            .hint("it requires name, time (or at, in microseconds) and value"));
    };
    let mut imported = Imported::default();
    let mut known: HashMap<String, usize> = HashMap::new();
    for group in 0..table.groups() {
        let place = table.describe(group);
        let refused = |problem: Problem| problem.at(format!("{shown}: {place}"));
        let frame = table
            .read(group, &names)
            .map_err(|problem| refused(problem.hint("times are text, seconds, or microseconds in a column 'at'")))?;
        rows(&frame, time, &mut known, &mut imported, sink).map_err(refused)?;
    }
    Ok(imported)
}

fn rows(
    frame: &DataFrame,
    time: &str,
    known: &mut HashMap<String, usize>,
    imported: &mut Imported,
    sink: &mut dyn Sink,
) -> Taken {
    let at = times(frame.column(time)?, time == "at")?;
    let value = frame.column("value")?.cast(&DataType::Float64)?;
    let value: Vec<Option<f64>> = value.f64()?.iter().collect();
    let mut texts = Vec::new();
    for column in frame.columns() {
        if [time, "value"].contains(&column.name().as_str()) {
            continue;
        }
        let text = column.str().map_err(|_| Problem::malformed(format!("column {} is not text", column.name())))?;
        texts.push((column.name().to_string(), text.clone()));
    }
    let mut series_of = String::new();
    for row in 0..frame.height() {
        series_of.clear();
        for (_, text) in &texts {
            series_of.push_str(text.get(row).unwrap_or_default());
            series_of.push('\u{1}');
        }
        let id = match known.get(&series_of) {
            Some(id) => *id,
            None => {
                let mut series = Series::default();
                for (column, text) in &texts {
                    let text = text.get(row).unwrap_or_default();
                    match column.as_str() {
                        "name" => text.clone_into(&mut series.name),
                        // As in the files of a store.
                        "labels" if text.starts_with('{') => {
                            let inner = key::series(&format!("x{text}")).ok_or_else(|| {
                                Problem::malformed(format!("labels are not JSON: {text}"))
                                    .at(format!("row {}", row + 1))
                            })?;
                            series.labels.extend(inner.labels);
                        }
                        _ if text.is_empty() => {}
                        label => drop(series.labels.insert(label.to_owned(), text.to_owned())),
                    }
                }
                let id = sink.series(&series).map_err(|problem| problem.at(format!("row {}", row + 1)))?;
                known.insert(series_of.clone(), id);
                id
            }
        };
        let at = at[row].clone().map_err(|problem| problem.at(format!("row {}", row + 1)))?;
        match value[row].filter(|value| value.is_finite()) {
            Some(value) => {
                sink.sample(id, at, value)?;
                imported.samples += 1;
            }
            None => imported.not_finite += 1,
        }
    }
    Ok(())
}

/// A column of times: text, seconds, or microseconds.
fn times(column: &Column, in_micros: bool) -> Result<Vec<Result<Micros, Problem>>, Problem> {
    let none = || Problem::malformed("no time");
    if in_micros {
        let at = column.cast(&DataType::Int64)?;
        return Ok(at.i64()?.iter().map(|at| at.ok_or_else(none)).collect());
    }
    if let Ok(text) = column.str() {
        return Ok(text.iter().map(|text| instant(text.ok_or_else(none)?)).collect());
    }
    let seconds = column.cast(&DataType::Float64)?;
    Ok(seconds.f64()?.iter().map(|seconds| instant(&seconds.ok_or_else(none)?.to_string())).collect())
}
