//! `plimsoll memory show` with a Go program's own account beside the cgroup: sample bundles.

use crate::support::{feed, folder, number, plimsoll, python, root, sample, write};
use serde_json::Value;
use std::process::Command;

/// The row of the table `heap` that this source gave.
#[track_caller]
fn row<'r>(report: &'r Value, source: &str) -> &'r Value {
    let rows = report["tables"]["heap"].as_array().unwrap_or_else(|| panic!("no table heap: {report}"));
    rows.iter().find(|row| row["source"] == source).unwrap_or_else(|| panic!("no row by {source}: {rows:?}"))
}

/// What the independent reader of profiles says is in use.
fn in_use(path: &str) -> f64 {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/heap.py")).arg(path);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "the oracle failed: {}", ran.stderr);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    answer[path]["inuse_space"]["total"].as_f64().unwrap()
}

#[test]
fn a_bundles_profile_stands_beside_anonymous_memory() {
    for (bundle, last) in [("quiet", "heap-1795167937-after"), ("list-storm", "heap-1795166726-after")] {
        let report = plimsoll(&["memory", "show", &sample(bundle), "-o", "json"]).json(0);
        let (profile, metrics) = (row(&report, "profile"), row(&report, "metrics"));
        assert_eq!(number(profile, "objects_in_use"), in_use(&sample(&format!("{bundle}/heap/{last}.pb.gz"))));
        assert_eq!((&profile["anon"], &profile["path"]), (&report["rows"][0]["anon"], &report["rows"][0]["path"]));
        assert_eq!(number(profile, "anon_beyond_objects"), number(profile, "anon") - number(profile, "objects_in_use"));
        // Objects lie in spans, and protobuf shows nothing of those.
        assert!(number(profile, "objects_in_use") < number(metrics, "heap_in_use"), "{profile} {metrics}");
        assert!(profile["heap_idle"].is_null() && !metrics["heap_idle"].is_null());
    }
    // Beside a copy alone, with what it can't determine and how far away it is.
    let ran = plimsoll(&["memory", "show", &sample("quiet/cgroup"), "--heap", &sample("list-storm/heap")]);
    let text = &ran.exits(0).stdout;
    assert!(
        text.contains("was taken 21m before the sample of kube-apiserver-0") && text.contains("?debug=1"),
        "{text}"
    );
}

#[test]
fn what_is_no_profile_is_told_and_the_cgroup_shown_all_the_same() {
    let home = folder();
    let cut = write(
        home.path(),
        "heap.txt",
        "heap profile: 1: 2 [3: 4] @ heap/2\n\n# runtime.MemStats\n# HeapInuse = many\n",
    );
    for (path, expected) in
        [(cut.as_str(), "heap.txt: line 4 has no amount of bytes"), (&sample("quiet/audit"), "no Go profile")]
    {
        let ran = plimsoll(&["memory", "show", &sample("quiet/cgroup"), "--heap", path]);
        assert!(
            ran.exits(3).stderr.contains(expected) && ran.stdout.contains("anonymous"),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
    }
}
