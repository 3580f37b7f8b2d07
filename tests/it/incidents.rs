//! The judge on captures of a real control plane of which the truth is known (`benches/incidents/captured/`): a few of
//! them here, all of them in `.ci/full incidents`.

use crate::support::{feed, folder, plimsoll, python, root, sample, write};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn scored(captures: &[&str], forms: &str) -> Vec<Value> {
    let home = root().join("benches/incidents/captured");
    let mut command = Command::new(python());
    command.arg(home.join("score.py")).args(["--json", "--forms", forms, "--program", env!("CARGO_BIN_EXE_plimsoll")]);
    command.args(captures.iter().map(|name| home.join(format!("{name}.tar.zst"))));
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn incidents_are_found_and_explained_in_every_form() {
    let faults =
        ["apiserver-killed", "etcd-stalled", "webhook-slow", "write-storm", "scored8/s8-avon", "scored8/s8-wye"];
    let rows = scored(&faults, "audit,metrics");
    assert_eq!(rows.len(), 12);
    for row in rows {
        let all = |field: &str| row[field].as_array().unwrap().iter().all(|own| own == true);
        assert!(all("found") && all("right") && row["false"].as_array().unwrap().is_empty(), "{row}");
    }
}

/// What hardly any request shows: nodes without kubelets, objects that went with a namespace, a record that lies within
/// the incident, a limit of memory.
#[test]
fn incidents_that_are_not_load_are_found_in_a_bundle() {
    let faults = ["nodes-notready", "namespace-deletion", "list-storm-throughout", "memory-pressure"];
    for row in scored(&faults, "bundle,loose") {
        let all = |field: &str| row[field].as_array().unwrap().iter().all(|own| own == true);
        assert!(all("found") && all("right") && row["false"].as_array().unwrap().is_empty(), "{row}");
    }
}

#[test]
fn much_that_is_harmless_is_no_alarm() {
    let rows = scored(&["quiet-backup", "quiet-scale-up"], "loose,audit,metrics");
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert!(row["grave"].as_array().unwrap().is_empty(), "{row}");
    }
}

/// Audit logs of a bundle, of which lines of some seconds are missing; from the first line on.
fn with_hole(bundle: &str, (from, to): (f64, f64), folder: &Path) -> String {
    let to_seconds = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let at: jiff::Timestamp = event["stageTimestamp"].as_str().unwrap().parse().unwrap();
        at.as_microsecond() as f64 / 1e6
    };
    let pattern = format!("{}/audit/*/audit*.zst", sample(bundle));
    let paths: Vec<_> = glob::glob(&pattern).unwrap().map(Result::unwrap).collect();
    assert!(!paths.is_empty(), "{pattern}");
    let packed = |path: &Path| zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let logs: Vec<(String, String)> = paths
        .iter()
        .map(|path| {
            let instance = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
            (instance, String::from_utf8(packed(path)).unwrap())
        })
        .collect();
    let begin = logs.iter().flat_map(|(_, text)| text.lines()).map(to_seconds).fold(f64::MAX, f64::min);
    for (instance, text) in &logs {
        let kept = |line: &&str| !(from..to).contains(&(to_seconds(line) - begin));
        let text: String = text.lines().filter(kept).flat_map(|line| [line, "\n"]).collect();
        let path = folder.join(instance);
        std::fs::create_dir_all(&path).unwrap();
        let mut log = std::fs::OpenOptions::new().create(true).append(true).open(path.join("audit.log")).unwrap();
        std::io::Write::write_all(&mut log, text.as_bytes()).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

/// A part of the logs that is missing is no outage, hides no incident that follows, and becomes no baseline.
#[test]
fn holes_in_logs_are_no_outages_and_hide_none() {
    let grades = |source: &str| {
        let report = plimsoll(&["guard", "episodes", source, "-o", "json"]).json(0);
        let rows = report["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["grade"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (bundle, hole) in [
        ("quiet", (60.0, 90.0)),
        ("quiet", (75.0, 175.0)),
        ("quiet", (200.0, 260.0)),
        ("controllers", (60.0, 90.0)),
        ("controllers", (100.0, 200.0)),
        ("list-storm", (135.0, 235.0)),
    ] {
        let home = folder();
        let found = grades(&with_hole(bundle, hole, home.path()));
        assert!(!found.iter().any(|own| matches!(own.as_str(), "outage" | "incident")), "{bundle} {hole:?}: {found:?}");
    }
    for hole in [(0.0, 0.0), (72.0, 82.0), (73.0, 103.0)] {
        let home = folder();
        let found = grades(&with_hole("overload-restart", hole, home.path()));
        assert!(found.iter().any(|own| own == "incident"), "{hole:?}: {found:?}");
    }
    // Of nothing it can't be said that all was well.
    let home = folder();
    let empty = write(home.path(), "audit.log", "");
    let ran = plimsoll(&["guard", "episodes", &empty]);
    ran.exits(3);
    assert!(ran.stdout.starts_with("Unknown whether there was an episode"), "{}", ran.stdout);
    let quiet = sample("quiet/audit");
    plimsoll(&["guard", "episodes", &quiet, "--since", "2030-01-01T00:00:00Z"]).exits(3);
}
