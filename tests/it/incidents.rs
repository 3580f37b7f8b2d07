//! The judge on captures of a real control plane of which the truth is known (`benches/incidents/captured/`): a few of
//! them here, all of them in `.ci/full incidents`.

use crate::support::{feed, python, root};
use serde_json::Value;
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
    let faults = ["apiserver-killed", "etcd-stalled", "webhook-slow", "write-storm"];
    let rows = scored(&faults, "audit,metrics");
    assert_eq!(rows.len(), 8);
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
    for row in scored(&["quiet-backup", "quiet-scale-up"], "loose,audit,metrics") {
        assert!(row["grave"].as_array().unwrap().is_empty(), "{row}");
    }
}
