//! Asks `plimsoll compare`, and its oracle (`tests/oracle/compare.py`).

use crate::support::{feed, plimsoll, python, root};
use serde_json::Value;
use std::process::Command;

pub(crate) fn oracle(script: &str, args: &[&str]) -> String {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle").join(script)).args(args);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout
}

pub(crate) fn compare(args: &[&str]) -> Value {
    plimsoll(&[&["compare"], args, &["-o", "json"]].concat()).json(0)
}

pub(crate) fn rows<'r>(report: &'r Value, wanted: impl Fn(&Value) -> bool + 'r) -> impl Iterator<Item = &'r Value> {
    report["rows"].as_array().unwrap().iter().filter(move |row| wanted(row))
}

pub(crate) fn is_change(row: &Value) -> bool {
    ["up", "down", "new", "gone"].contains(&row["verdict"].as_str().unwrap())
}

/// The changes of a report: what of.
pub(crate) fn changes(report: &Value) -> Vec<String> {
    rows(report, is_change)
        .map(|row| format!("{} {} {} {} {}", row["area"], row["agent"], row["verb"], row["resource"], row["metric"]))
        .collect()
}
