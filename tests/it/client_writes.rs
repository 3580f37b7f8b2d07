//! Who writes what, and in turns with whom, beside an independent count.

use crate::support::{feed, folder, plimsoll, python, root, sample, write};
use plimsoll::inputs::rollup::roll_up;
use plimsoll::sources::find::audit_logs;
use serde_json::{Value, json};
use std::process::Command;

const SAMPLES: [(&str, &str); 3] = [("list-storm", "lab-1"), ("overload-restart", "lab-2"), ("quiet", "lab-3")];

/// What tests/oracle/writers.py counts in logs, each given as `CLUSTER:INSTANCE=FILE`.
fn counted(logs: impl Iterator<Item = String>) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/writers.py")).args(logs);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn of_sample(name: &str, cluster: &str) -> Value {
    let pattern = root().join("samples").join(name).join("audit/*/*");
    let files = glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap);
    let log = |file: std::path::PathBuf| {
        let instance = file.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        format!("{cluster}:{instance}={}", file.display())
    };
    counted(files.map(log))
}

fn findings(source: &str, id: &str) -> Vec<Value> {
    let report = plimsoll(&["clients", source, "-o", "json"]).json(0);
    report["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id).cloned().collect()
}

#[test]
fn tables_of_writers_are_those_of_an_independent_count() {
    let mut rows = 0;
    for (name, cluster) in SAMPLES {
        let theirs = of_sample(name, cluster);
        let (rollup, _) = roll_up(audit_logs(&[sample(name)]).streams, 2, &());
        let writes: Vec<Value> = rollup
            .writes()
            .map(|row| {
                let mut all = vec![json!(row.minute)];
                all.extend(row.key.map(|text| json!(text)));
                all.push(json!(row.writes));
                Value::Array(all)
            })
            .collect();
        assert_eq!(Value::Array(writes), theirs["writes"], "{name}");
        let turns: Vec<Value> = rollup
            .alternations()
            .map(|row| {
                let mut all: Vec<Value> = row.key.iter().chain(&row.other).map(|text| json!(text)).collect();
                all.extend([json!(row.turns), json!(row.span.0), json!(row.span.1)]);
                Value::Array(all)
            })
            .collect();
        assert_eq!(Value::Array(turns.clone()), theirs["alternations"], "{name}");
        rows += turns.len() + theirs["writes"].as_array().unwrap().len();
    }
    assert!(rows > 80, "{rows}");
}

#[test]
fn who_overwrites_whom_is_that_of_an_independent_count() {
    for (name, cluster) in &SAMPLES[..2] {
        let theirs = of_sample(name, cluster);
        let row = theirs["alternations"].as_array().unwrap().iter().find(|row| row[5] == "cfg-7").unwrap();
        let conflicts = theirs["conflicts"].as_array().unwrap().iter().filter(|row| row[4] == "cfg-7");
        let conflicts: u64 = conflicts.map(|row| row[7].as_u64().unwrap()).sum();
        let found = findings(&sample(name), "client-alternating-writers");
        let [found] = &found[..] else { panic!("{name}: {found:?}") };
        let evidence = &found["evidence"];
        assert_eq!((&evidence["turns"], &evidence["conflicts"]), (&row[10], &json!(conflicts)), "{name}");
        assert_eq!((&found["subject"]["user"], &found["subject"]["other_user"]), (&row[6], &row[8]), "{name}");
    }
}

#[test]
fn a_storm_is_that_of_an_independent_count() {
    let home = folder();
    let event = |n: i64, user: &str, name: &str, ms: i64| {
        let at = plimsoll::model::time::format(1_795_166_400_000_000 + ms * 1000);
        let object = json!({"resource": "configmaps", "namespace": "a", "name": name, "apiVersion": "v1"});
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": format!("id-{n}"),
            "stage": "ResponseComplete", "requestURI": format!("/api/v1/namespaces/a/configmaps/{name}"),
            "verb": "update", "user": {"username": user}, "sourceIPs": ["10.0.0.7"], "userAgent": format!("{user}/v1"),
            "objectRef": object, "responseStatus": {"code": 200}, "requestReceivedTimestamp": at, "stageTimestamp": at,
        })
    };
    let storm = (0..4800).map(|n| n * 25).map(|ms| (ms, event(ms, "storm", &format!("c-{}", ms % 700), ms)));
    let mut events: Vec<(i64, Value)> = storm.collect();
    events.extend((0..400).map(|n| n * 300 + 7).map(|ms| (ms, event(ms, "calm", "c", ms))));
    events.sort_by_key(|(ms, _)| *ms);
    let log: String = events.iter().map(|(_, event)| format!("{event}\n")).collect();
    let log = write(home.path(), "audit.log", log);
    let theirs = counted(std::iter::once(format!(":={log}")));
    let row = theirs["busiest"].as_array().unwrap().iter().find(|row| row[1] == "storm").unwrap();
    let found = findings(&log, "client-write-storm");
    let [found] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&found["subject"]["user"], &found["severity"]), (&json!("storm"), &json!("critical")));
    assert_eq!(found["evidence"]["writes"], row[3]);
    let [writes, all] = [3, 4].map(|at| row[at].as_f64().unwrap());
    assert!((found["evidence"]["share"].as_f64().unwrap() - writes / all).abs() < 1e-3, "{found} {row}");
    // The other one writes a single object 200 times a minute.
    let minute = theirs["writes"].as_array().unwrap().iter().filter(|row| row[7] == "calm");
    let most = minute.map(|row| row[9].as_u64().unwrap()).max().unwrap();
    let hot = findings(&log, "client-hot-object");
    let hot = hot.iter().find(|finding| finding["subject"]["user"] == "calm").unwrap();
    assert_eq!(hot["evidence"]["per_minute"].as_f64(), Some(most as f64));
}
