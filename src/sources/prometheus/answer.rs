//! The body of an answer, read as a stream: no more than its points are ever held, and no more of them than asked for.

use crate::model::series::Point;
use crate::model::time::Micros;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

/// The most warnings of one answer that are kept, and the most text of one.
const WARNINGS: usize = 16;

/// What an answer says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// `success` or `error`.
    pub(super) status: String,
    /// `matrix`, `vector`, `scalar`, `string`.
    pub(super) kind: String,
    /// Of an error: which sort.
    pub(super) error_type: String,
    pub(super) error: String,
    /// Series by labels, with their points as they came.
    pub(super) rows: Vec<(BTreeMap<String, String>, Vec<Point>)>,
    /// What the server warns of.
    pub(super) warnings: Vec<String>,
    /// The most samples that the server held at once for this query, where it says so.
    pub(super) peak: Option<u64>,
    /// Points that are no finite numbers.
    pub(super) left_out: u64,
    /// Series with native histograms, which are no numbers.
    pub(super) histograms: u64,
}

/// What is taken of an answer, and what of it has come.
#[derive(Debug)]
pub(super) struct Bound {
    points: u64,
    seen: Cell<u64>,
    left_out: Cell<u64>,
    histograms: Cell<u64>,
    is_exceeded: Cell<bool>,
    is_over: Cell<bool>,
}

/// Why a body is no answer.
#[derive(Debug)]
pub(super) enum Unread {
    /// It broke off.
    Cut(String),
    /// It holds more than was asked for.
    TooMany,
    /// It is something else.
    Foreign(String),
}

/// Reads an answer of at most so many points.
pub(super) fn read(reader: impl Read, points: u64) -> Result<Answer, Unread> {
    let bound = Bound {
        points,
        seen: Cell::default(),
        left_out: Cell::default(),
        histograms: Cell::default(),
        is_exceeded: Cell::default(),
        is_over: Cell::default(),
    };
    // A point takes some 40 bytes, a series' labels perhaps some thousands; there are no more series than points.
    let reader = Capped {
        reader,
        left: (64 << 20) + points.saturating_mul(256),
        is_exceeded: &bound.is_exceeded,
        is_over: &bound.is_over,
    };
    let mut parser = serde_json::Deserializer::from_reader(io::BufReader::with_capacity(64 << 10, reader));
    let read = Body(&bound).deserialize(&mut parser).and_then(|answer| parser.end().map(|()| answer));
    match read {
        Ok(answer) => Ok(Answer { left_out: bound.left_out.get(), histograms: bound.histograms.get(), ..answer }),
        Err(_) if bound.is_exceeded.get() => Err(Unread::TooMany),
        // A number that ends behind its point is no number to the parser: that it wanted more shows.
        Err(error) if error.is_io() || bound.is_over.get() => Err(Unread::Cut(error.to_string())),
        Err(error) => Err(Unread::Foreign(error.to_string())),
    }
}

/// A reader that fails behind so many bytes, and remembers that it has come to its end.
struct Capped<'b, R> {
    reader: R,
    left: u64,
    is_exceeded: &'b Cell<bool>,
    is_over: &'b Cell<bool>,
}

impl<R: Read> Read for Capped<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.reader.read(buffer)?;
        self.is_over.set(size == 0);
        match self.left.checked_sub(size as u64) {
            Some(left) => self.left = left,
            None => {
                self.is_exceeded.set(true);
                return Err(io::Error::other("the answer is larger than requested"));
            }
        }
        Ok(size)
    }
}

/// `$name`: reads a map by handing each key to an arm; `$out` is what comes of it.
macro_rules! map_seed {
    ($name:ident, $out:ty, $what:literal, |$bound:ident, $out_name:ident, $key:ident, $map:ident| $arms:block) => {
        struct $name<'b>(&'b Bound);

        impl<'de> DeserializeSeed<'de> for $name<'_> {
            type Value = $out;
            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<$out, D::Error> {
                from.deserialize_map(self)
            }
        }

        impl<'de> Visitor<'de> for $name<'_> {
            type Value = $out;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($what)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut $map: A) -> Result<$out, A::Error> {
                let $bound = self.0;
                let mut $out_name = <$out>::default();
                while let Some(key) = $map.next_key::<String>()? {
                    let $key = key.as_str();
                    $arms
                }
                Ok($out_name)
            }
        }
    };
}

map_seed!(Body, Answer, "an answer of Prometheus", |bound, answer, key, map| {
    match key {
        "status" => answer.status = map.next_value()?,
        "errorType" => answer.error_type = map.next_value()?,
        "error" => answer.error = map.next_value()?,
        // `infos` are hints on how an expression is written; they say nothing of what is missing.
        "warnings" => {
            let warnings: Option<Vec<String>> = map.next_value()?;
            let room = WARNINGS - answer.warnings.len().min(WARNINGS);
            answer.warnings.extend(warnings.into_iter().flatten().take(room));
        }
        "data" => {
            let Some((kind, rows, peak)) = map.next_value_seed(Maybe(Data(bound)))? else { continue };
            (answer.kind, answer.rows, answer.peak) = (kind, rows, peak);
        }
        _ => drop(map.next_value::<IgnoredAny>()?),
    }
});

type Rows = Vec<(BTreeMap<String, String>, Vec<Point>)>;

/// Statistics, of which one is used.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats {
    samples: SampleStats,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SampleStats {
    peak_samples: Option<u64>,
}

map_seed!(Data, (String, Rows, Option<u64>), "the data of an answer", |bound, data, key, map| {
    match key {
        "resultType" => data.0 = map.next_value()?,
        "result" => data.1 = map.next_value_seed(List(|| Row(bound)))?,
        "stats" => data.2 = map.next_value::<Option<Stats>>()?.unwrap_or_default().samples.peak_samples,
        _ => drop(map.next_value::<IgnoredAny>()?),
    }
});

map_seed!(Row, (BTreeMap<String, String>, Vec<Point>), "a series", |bound, row, key, map| {
    match key {
        "metric" => row.0 = map.next_value()?,
        "values" => row.1 = map.next_value_seed(List(|| Pair(bound)))?.into_iter().flatten().collect(),
        "value" => row.1 = map.next_value_seed(Pair(bound))?.into_iter().collect(),
        "histograms" | "histogram" => {
            bound.histograms.set(bound.histograms.get() + 1);
            map.next_value::<IgnoredAny>()?;
        }
        _ => drop(map.next_value::<IgnoredAny>()?),
    }
});

/// `null`, or what the seed reads.
struct Maybe<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Maybe<S> {
    type Value = Option<S::Value>;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Maybe<S> {
    type Value = Option<S::Value>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the data of an answer, or null")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(from).map(Some)
    }
}

/// A list, each element by a seed.
struct List<F>(F);

impl<'de, S: DeserializeSeed<'de>, F: Fn() -> S> DeserializeSeed<'de> for List<F> {
    type Value = Vec<S::Value>;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de>, F: Fn() -> S> Visitor<'de> for List<F> {
    type Value = Vec<S::Value>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut out = Vec::new();
        while let Some(next) = list.next_element_seed((self.0)())? {
            out.push(next);
        }
        Ok(out)
    }
}

/// `[1435781430.781, "1"]`: `None` where the value is no finite number.
struct Pair<'b>(&'b Bound);

impl<'de> DeserializeSeed<'de> for Pair<'_> {
    type Value = Option<Point>;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Pair<'_> {
    type Value = Option<Point>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time and a value")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Self::Value, A::Error> {
        let bound = self.0;
        bound.seen.set(bound.seen.get() + 1);
        if bound.seen.get() > bound.points {
            bound.is_exceeded.set(true);
            return Err(A::Error::custom("more points than requested"));
        }
        let short = || A::Error::invalid_length(0, &"a time and a value");
        let seconds: f64 = pair.next_element()?.ok_or_else(short)?;
        let value = pair.next_element_seed(Number)?.ok_or_else(short)?;
        while pair.next_element::<IgnoredAny>()?.is_some() {}
        // To the millisecond, which is what Prometheus keeps.
        let at = (seconds * 1e3).round() as Micros * 1_000;
        if !value.is_finite() {
            bound.left_out.set(bound.left_out.get() + 1);
            return Ok(None);
        }
        Ok(Some(Point { at, value }))
    }
}

/// A number, written as text as Prometheus does (`NaN` and `+Inf` can't stand in JSON otherwise).
struct Number;

impl<'de> DeserializeSeed<'de> for Number {
    type Value = f64;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<f64, D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for Number {
    type Value = f64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number as text")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<f64, E> {
        text.parse().map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
    fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }
    fn visit_u64<E>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }
    fn visit_i64<E>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }
}

/// The answer to a question about the values of a label.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Values {
    /// `success` or `error`.
    pub(super) status: String,
    /// The values.
    pub(super) data: Vec<String>,
    /// What the server warns of.
    pub(super) warnings: Vec<String>,
}

/// Reads the values of a label, up to 64 MiB of them.
pub(super) fn read_values(reader: impl Read) -> Result<Values, Unread> {
    let (is_exceeded, is_over) = (Cell::default(), Cell::default());
    let reader = Capped { reader, left: 64 << 20, is_exceeded: &is_exceeded, is_over: &is_over };
    match serde_json::from_reader(io::BufReader::new(reader)) {
        Ok(values) => Ok(values),
        Err(_) if is_exceeded.get() => Err(Unread::TooMany),
        Err(error) if error.is_io() || is_over.get() => Err(Unread::Cut(error.to_string())),
        Err(error) => Err(Unread::Foreign(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::SECOND;

    const MATRIX: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"__name__":"up","namespace":"a\"\u00e9"},"values":[[1435781430.781,"1"],[1435781445.781,"NaN"],[1435781460.781,"-1.5e+06"],[1435781475,"+Inf"]]},
        {"metric":{},"histograms":[[1435781430.781,{"count":"60","buckets":[]}]]}],
        "stats":{"timings":{"evalTotalTime":0.1},"samples":{"totalQueryableSamples":9,"peakSamples":7}}},
        "warnings":["one store is down"],"infos":["a hint"]}"#;

    #[test]
    fn an_answer_is_read() {
        let answer = read(MATRIX.as_bytes(), 4).unwrap();
        let at = 1_435_781_430_781_000;
        let points = vec![Point { at, value: 1.0 }, Point { at: at + 30 * SECOND, value: -1.5e6 }];
        let labels = |list: &[(&str, &str)]| {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let expected = Answer {
            status: "success".to_owned(),
            kind: "matrix".to_owned(),
            rows: vec![(labels(&[("__name__", "up"), ("namespace", "a\"é")]), points), (labels(&[]), vec![])],
            warnings: vec!["one store is down".to_owned()],
            peak: Some(7),
            left_out: 2,
            histograms: 1,
            ..Answer::default()
        };
        assert_eq!(answer, expected);
        let vector =
            r#"{"data":{"result":[{"value":[5,"2"],"metric":{"a":"b"}}],"resultType":"vector"},"status":"success"}"#;
        assert_eq!(
            read(vector.as_bytes(), 1).unwrap().rows,
            [(labels(&[("a", "b")]), vec![Point { at: 5 * SECOND, value: 2.0 }])]
        );
        let error = r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory","data":null}"#;
        let error = read(error.as_bytes(), 1).unwrap();
        assert_eq!((error.error_type.as_str(), error.error.len()), ("execution", 56));
    }

    #[test]
    fn more_than_was_asked_for_is_not_taken() {
        assert!(matches!(read(MATRIX.as_bytes(), 3), Err(Unread::TooMany)));
        // Endless labels instead of points.
        let endless = io::Read::chain(&br#"{"data":{"result":[{"metric":{"a":""#[..], io::repeat(b'x'));
        assert!(matches!(read(endless, 1), Err(Unread::TooMany)));
    }

    #[test]
    fn an_answer_may_end_anywhere() {
        for end in 0..MATRIX.len() - 1 {
            assert!(matches!(read(&MATRIX.as_bytes()[..end], 9), Err(Unread::Cut(_))), "{end}");
        }
        for other in [
            "<html>Sign in</html>",
            "[]",
            r#"{"data":{"result":[{"values":[["x","1"]]}]}}"#,
            r#"{"status":"success"} x"#,
        ] {
            assert!(matches!(read(other.as_bytes(), 9), Err(Unread::Foreign(_))), "{other}");
        }
    }
}
