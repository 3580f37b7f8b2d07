//! Hours and days of a forecast's history, as its report has them.

use crate::support::{Ran, plimsoll};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Intervals by series and number.
pub(crate) type Grids = BTreeMap<String, BTreeMap<i64, f64>>;

/// `plimsoll forecast` with the history in its JSON.
pub(crate) fn forecast(args: &[&str]) -> Ran {
    plimsoll(&[&["forecast"], args, &["--points", "-o", "json"]].concat())
}

fn seconds(time: &Value) -> i64 {
    crate::support::micros(time) / 1_000_000
}

/// The same of a report, with the step that it says.
pub(crate) fn grids(report: &Value) -> (i64, Grids) {
    let step = report["coverage"]["step_s"].as_f64().unwrap() as i64;
    let mut found = Grids::new();
    for row in report["rows"].as_array().unwrap() {
        let mut key = row["name"].as_str().unwrap().to_owned();
        row["labels"]
            .as_object()
            .unwrap()
            .iter()
            .for_each(|(name, value)| write!(key, "|{name}={}", value.as_str().unwrap()).unwrap());
        let from = seconds(&row["history"]["from"]);
        assert_eq!(from % step, 0);
        let values = row["history"]["values"].as_array().unwrap().iter().enumerate();
        let values = values.filter_map(|(at, value)| Some((from / step + at as i64, value.as_f64()?)));
        assert!(found.insert(key, values.collect()).is_none());
    }
    (step, found)
}

/// The same intervals with the same values, as JSON rounds them.
#[track_caller]
pub(crate) fn equal(found: &Grids, expected: &Grids, what: &str) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    for (series, grid) in expected {
        let found = &found[series];
        let differs = grid
            .iter()
            .find(|(at, value)| found.get(at).is_none_or(|other| (other - *value).abs() > 1e-9 * value.abs()));
        assert!(differs.is_none(), "{what}: {series}: {differs:?} is {:?}", differs.and_then(|(at, _)| found.get(at)));
        let more = found.keys().find(|at| !grid.contains_key(at));
        assert!(more.is_none(), "{what}: {series}: {more:?} is too much");
    }
}
