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
