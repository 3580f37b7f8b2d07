//! Roll-ups as files of a log so large that tiles fold: what is kept, and all sums, are those of the log.

use crate::support::{folder, plimsoll, python, root};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn run(program: &Path, args: &[&str]) -> String {
    let ran = Command::new(program).args(args).current_dir(root()).output().unwrap();
    assert!(ran.status.success(), "{program:?} {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn what_is_folded_is_in_the_sums_and_what_is_kept_is_exact() {
    let home = folder();
    let [log, rolled] = ["fleet.log", "rolled"].map(|name| home.path().join(name).to_str().unwrap().to_owned());
    let python = python();
    // So dense that each tile has more kinds of requests than rows.
    run(python, &["benches/make_logs.py", "fleet", "--size", "100MB", "--rate", "3000", &log]);
    plimsoll(&["rollup", &log, "--to", &rolled]).exits(0);
    // Counted from the log itself, tile by tile and key by key, beside what the files hold.
    let counted: Value = serde_json::from_str(&run(python, &["tests/oracle/folded.py", &log, &rolled])).unwrap();
    assert!(counted["folded_tiles"].as_u64() > Some(2) && counted["kept_rows"].as_u64() > Some(10_000), "{counted}");
    assert_eq!(counted["wrong_tiles"], 0, "{counted}");
    assert_eq!(counted["wrong_rows"], 0, "{counted}");
    let totals = |source: &str| {
        let report = plimsoll(&["traffic", source, "--by", "verb", "-o", "json"]).json(0);
        let rows = report["rows"].as_array().unwrap();
        let other: u64 =
            rows.iter().filter(|row| row["verb"] == "(other)").map(|row| row["requests"].as_u64().unwrap()).sum();
        let sums = ["requests", "errors", "client_errors", "throttled", "p50_ms", "p99_ms", "open"];
        (sums.map(|name| report["totals"][name].clone()), other)
    };
    let (of_log, of_files) = (totals(&log), totals(&rolled));
    assert_eq!((&of_files.0, of_log.1), (&of_log.0, 0));
    assert!(of_files.1 > 0, "nothing was folded");
}

/// A store of days answers the same from its copies in longer tiles as from its own.
#[test]
fn copies_in_longer_tiles_answer_as_the_tiles_themselves() {
    let home = folder();
    let [log, store] = ["hour.log", "store"].map(|name| home.path().join(name).to_str().unwrap().to_owned());
    let python = python();
    run(
        python,
        &["benches/make_logs.py", "fleet", "--nodes", "20", "--users", "30", "--rate", "5", "--seconds", "3000", &log],
    );
    run(python, &["benches/week.py", env!("CARGO_BIN_EXE_plimsoll"), &log, &store, "80"]);
    let manifests = || glob::glob(&format!("{store}/rollups/*/manifest.json")).unwrap().map(Result::unwrap);
    let copied = manifests().filter(|path| std::fs::read_to_string(path).unwrap().contains("\"coarse\"")).count();
    assert!(copied >= 3, "{copied} parts with copies");
    let (since, until) = ("2026-11-17T12:00:00Z", "2026-11-19T14:00:00Z");
    let ask = || {
        let asked: [&[&str]; 6] = [
            &["traffic", &store, "--by", "verb,resource,user", "--top", "0"],
            &["traffic", &store, "--by", "namespace,code", "--series", "--interval", "1h"],
            &["traffic", &store, "--since", since, "--until", until],
            &["clients", &store],
            &["clients", &store, "--since", since, "--until", until],
            &["balance", &store],
        ];
        asked.map(|words| {
            let mut answer = plimsoll(&[words, &["-o", "json"]].concat()).json(0);
            answer.as_object_mut().unwrap().remove("inputs");
            answer
        })
    };
    let with = ask();
    for path in manifests() {
        let mut manifest: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        manifest.as_object_mut().unwrap().remove("coarse");
        std::fs::write(&path, manifest.to_string()).unwrap();
        for copy in glob::glob(&format!("{}/*-*.parquet", path.parent().unwrap().display())).unwrap() {
            std::fs::remove_file(copy.unwrap()).unwrap();
        }
    }
    let without = ask();
    for (with, without) in with.iter().zip(&without) {
        assert!(!with["rows"].as_array().unwrap().is_empty());
        assert_eq!(with["totals"], without["totals"]);
        assert!(with == without, "{}\n{}", with["window"], without["window"]);
    }
}
