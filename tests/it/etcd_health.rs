//! `plimsoll etcd health`: rows against an independent computation (`tests/oracle/etcd_health.py`) on sample pages and
//! on pages of a real etcd, and every finding of docs/findings.md just below and just above each of its thresholds.

use crate::metrics::unpacked;
use crate::support::{Ran, feed, folder, none, number, plimsoll, python, root, run, sample, write};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use unicode_width::UnicodeWidthStr;

const FORMS: [&str; 6] = ["table", "wide", "json", "yaml", "csv", "markdown"];

/// The last page of the sample's etcd.
const PAGE: &str = "list-storm/metrics/etcd-0/1795166741.txt.zst";

fn health(source: &str) -> Value {
    plimsoll(&["etcd", "health", source, "-o", "json"]).json(0)
}

/// What `tests/oracle/etcd_health.py` prints. A real etcd ends with this process: it holds the other end of its
/// standard input.
fn python_says(arguments: &[&str]) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/etcd_health.py")).args(arguments);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = child;
    let held = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(held);
    assert!(output.status.success(), "run .ci/setup first? {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the oracle prints JSON")
}

/// Compares all fields of all rows.
fn compare(what: &str, report: &Value, truth: &Value) -> Vec<String> {
    let (mine, theirs) = (report["rows"].as_array().unwrap(), truth["rows"].as_array().unwrap());
    let mut faults = Vec::new();
    if mine.len() != theirs.len() || mine.is_empty() {
        faults.push(format!("{what}: {} rows, not {}", mine.len(), theirs.len()));
    }
    for (mine, theirs) in mine.iter().zip(theirs) {
        let fields: BTreeSet<&String> =
            [mine, theirs].into_iter().flat_map(|row| row.as_object().unwrap().keys()).collect();
        for field in fields {
            let same = match (mine.get(field), theirs.get(field)) {
                (Some(a), Some(b)) => match (a.as_f64(), b.as_f64()) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1.5e-6 * b.abs().max(1.0),
                    _ => a == b,
                },
                _ => false,
            };
            if !same {
                faults.push(format!(
                    "{what}: {}: {field} is {:?}, not {:?}",
                    theirs["instance"],
                    mine.get(field),
                    theirs.get(field)
                ));
            }
        }
    }
    faults
}

/// The faults of what is in this folder.
fn faults(what: &str, source: &Path) -> Vec<String> {
    let source = source.to_str().unwrap();
    compare(what, &health(source), &python_says(&["rows", source]))
}

/// Copies those pages of a sample whose place among the pages of their instance is wanted.
fn some_pages(name: &str, to: &Path, wanted: impl Fn(usize, usize) -> bool) {
    for instance in std::fs::read_dir(sample(&format!("{name}/metrics"))).unwrap() {
        let instance = instance.unwrap();
        let mut pages: Vec<_> = std::fs::read_dir(instance.path()).unwrap().map(|page| page.unwrap()).collect();
        pages.sort_by_key(std::fs::DirEntry::file_name);
        let target = to.join(instance.file_name());
        std::fs::create_dir_all(&target).unwrap();
        for (at, page) in pages.iter().enumerate().filter(|(at, _)| wanted(*at, pages.len())) {
            let copied = std::fs::copy(page.path(), target.join(page.file_name()));
            assert!(copied.is_ok(), "page {at}: {copied:?}");
        }
    }
}

#[test]
fn rows_of_the_samples() {
    let mut all = Vec::new();
    for name in ["list-storm", "overload-restart", "quiet"] {
        let source = sample(&format!("{name}/metrics"));
        let report = health(&sample(name));
        all.extend(compare(name, &report, &python_says(&["rows", &source])));
        assert_eq!(report["findings"], serde_json::json!([]), "nothing is wrong with the etcd of {name}");
    }
    none(&all);
}

#[test]
fn rows_of_one_page_and_of_some() {
    let folder = folder();
    let mut all = Vec::new();
    for name in ["list-storm", "overload-restart", "quiet"] {
        for (what, wanted) in [
            ("the first page", (|at, _| at == 0) as fn(usize, usize) -> bool),
            ("the last page", |at, count| at + 1 == count),
            ("first and last", |at, count| at == 0 || at + 1 == count),
            ("every third", |at, _| at % 3 == 1),
        ] {
            let source = folder.path().join(name).join(what);
            some_pages(name, &source, wanted);
            all.extend(faults(&format!("{name}, {what}"), &source));
        }
    }
    none(&all);
    let once = health(folder.path().join("list-storm/the last page").to_str().unwrap());
    let etcd = once["rows"].as_array().unwrap().iter().find(|row| row["component"] == "etcd").unwrap();
    // Made 1795166245.4 s, page at 1795166741; of the start's own change of leader nothing is left.
    assert!((number(etcd, "seconds") - 495.6).abs() < 0.01 && number(etcd, "leader_changes") == 0.0, "{etcd}");
}

// ---------------------------------------------------------------- a real etcd

#[test]
fn a_real_etcd_and_its_restart() {
    let folder = folder();
    let did = python_says(&["member", folder.path().to_str().unwrap()]);
    let pages: Vec<&str> = did["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    let before = folder.path().join("before");
    for page in &pages[..2] {
        let name = Path::new(page).file_name().unwrap().to_str().unwrap();
        write(&before, &format!("etcd-0/{name}"), std::fs::read(page).unwrap());
    }
    let whole = Path::new(did["source"].as_str().unwrap());
    none(&[faults("before the restart", &before), faults("with the restart", whole)].concat());
    for (source, status, restarts) in [(before.as_path(), &did["before"], 0), (whole, &did["after"], 1)] {
        let report = health(source.to_str().unwrap());
        let row = &report["rows"][0];
        assert_eq!(
            report["rows"].as_array().unwrap().len(),
            1,
            "one after the other, not beside one another: {}",
            report["rows"]
        );
        assert_eq!(
            (number(row, "db_bytes"), number(row, "in_use_bytes")),
            (number(status, "dbSize"), number(status, "dbSizeInUse"))
        );
        assert_eq!((&row["version"], number(row, "quota_bytes")), (&status["version"], 1_073_741_824.0));
        assert_eq!((row["has_leader"].as_str(), row["is_leader"].as_str()), (Some("yes"), Some("yes")));
        assert_eq!((number(row, "restarts"), number(row, "leader_changes")), (f64::from(restarts), 0.0));
        assert!(number(row, "wal_fsync_p99_ms") > 0.0 && number(row, "commit_p99_ms") > 0.0, "{row}");
    }
}

#[test]
fn a_real_etcd_fills_up() {
    let folder = folder();
    let did = python_says(&["quota", folder.path().to_str().unwrap()]);
    assert!(
        did["answer"]["error"].as_str().is_some_and(|error| error.contains("database space exceeded")),
        "{}",
        did["answer"]
    );
    assert_eq!(did["alarms"]["alarms"][0]["alarm"], "NOSPACE", "{}", did["alarms"]);
    let mut severities = Vec::new();
    let steps = did["steps"].as_array().unwrap();
    for step in steps {
        let report = health(step["page"].as_str().unwrap());
        let (row, found) = (&report["rows"][0], found(&report, "etcd-near-quota"));
        let (size, limit) = (number(&step["status"], "dbSize"), number(step, "quota"));
        assert_eq!((number(row, "db_bytes"), number(row, "quota_bytes")), (size, limit));
        let expected = if size >= 0.95 * limit {
            Some("critical")
        } else if size >= 0.8 * limit {
            Some("warning")
        } else {
            None
        };
        assert_eq!(found.as_ref().map(|finding| finding.0.as_str()), expected, "{row}");
        severities.push(expected);
    }
    severities.dedup();
    assert_eq!(severities, [None, Some("warning"), Some("critical")]);
    let last = steps[steps.len() - 1]["page"].as_str().unwrap();
    plimsoll(&["etcd", "health", last, "--fail-on", "critical"]).exits(1);
    // Behind NOSPACE the file may be larger than the quota; that is reported as it is.
    let report = health(last);
    let share = number(&report["rows"][0], "quota_share") * 100.0;
    let table = plimsoll(&["etcd", "health", last]).stdout;
    let answer = table
        .lines()
        .find_map(|line| line.strip_prefix("share of quota")?.trim().strip_suffix('%')?.parse::<f64>().ok());
    assert!(answer.is_some_and(|answer| (answer - share).abs() <= 0.51), "{share}: {table}");
}

#[test]
fn three_real_members_of_which_two_are_killed() {
    let folder = folder();
    let did = python_says(&["cluster", folder.path().to_str().unwrap()]);
    let (well, ill) = (did["well"].as_str().unwrap(), did["ill"].as_str().unwrap());
    none(&[faults("well", Path::new(well)), faults("ill", Path::new(ill))].concat());
    let report = health(well);
    assert_eq!((report["rows"].as_array().unwrap().len(), report["totals"]["members"].as_u64()), (3, Some(3)));
    for row in report["rows"].as_array().unwrap() {
        let leads = did["leader"][row["instance"].as_str().unwrap()].as_bool().unwrap();
        assert_eq!(row["is_leader"], if leads { "yes" } else { "no" }, "{row}");
        assert!(number(row, "peer_rtt_p99_ms") > 0.0, "{row}");
    }
    assert!(found(&report, "etcd-no-leader").is_none());
    let report = plimsoll(&["etcd", "health", ill, "-o", "json", "--fail-on", "critical"]).json(1);
    assert_eq!(found(&report, "etcd-no-leader").map(|finding| finding.0), Some("critical".to_owned()));
    assert_eq!(
        (&report["rows"][0]["instance"], &report["rows"][0]["has_leader"]),
        (&did["survivor"], &Value::from("no"))
    );
}

// ---------------------------------------------------------------- findings

/// Severity and confidence of the finding with this id.
#[track_caller]
fn found(report: &Value, id: &str) -> Option<(String, f64)> {
    let all: Vec<&Value> =
        report["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id).collect();
    assert!(all.len() <= 1, "{all:?}");
    all.first().map(|finding| (finding["severity"].as_str().unwrap().to_owned(), number(finding, "confidence")))
}

/// What is changed of a page: the value of a series; or a histogram with buckets and counts.
#[derive(Clone)]
enum Edit {
    Set(&'static str, f64),
    Histogram(&'static str, Vec<(f64, u64)>),
}
use Edit::{Histogram, Set};

/// The sample's page, edited.
fn page(edits: &[Edit]) -> String {
    let mut text = String::from_utf8(unpacked(Path::new(&sample(PAGE)))).unwrap();
    for edit in edits {
        let name = match edit {
            Set(name, _) | Histogram(name, _) => *name,
        };
        let of_it = |line: &str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| {
                rest.starts_with([' ', '{']) || matches!(edit, Histogram(..)) && rest.starts_with(['_'])
            })
        };
        text = text
            .split_inclusive('\n')
            .filter(|line| !of_it(line) && *line != format!("# TYPE {name} histogram\n"))
            .collect();
        match edit {
            Set(name, value) => text += &format!("{name} {value}\n"),
            Histogram(name, buckets) => {
                text += &format!("# TYPE {name} histogram\n");
                for (bound, count) in buckets {
                    text += &format!(
                        "{name}_bucket{{le=\"{}\"}} {count}\n",
                        if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() }
                    );
                }
                text += &format!("{name}_sum 1\n{name}_count {}\n", buckets.last().unwrap().1);
            }
        }
    }
    text
}

/// The report on one such page: totals since the start.
fn with(edits: &[Edit]) -> Value {
    let folder = folder();
    write(folder.path(), "etcd-0/1795166741.txt", page(edits));
    health(folder.path().to_str().unwrap())
}

const FSYNC: &str = "etcd_disk_wal_fsync_duration_seconds";
const COMMIT: &str = "etcd_disk_backend_commit_duration_seconds";
const PEERS: &str = "etcd_network_peer_round_trip_time_seconds";
const SIZE: &str = "etcd_mvcc_db_total_size_in_bytes";
const IN_USE: &str = "etcd_mvcc_db_total_size_in_use_in_bytes";
const QUOTA: &str = "etcd_server_quota_backend_bytes";
const CHANGES: &str = "etcd_server_leader_changes_seen_total";
const START: &str = "process_start_time_seconds";

#[test]
fn latencies_just_below_at_and_above_each_threshold() {
    let mut faults = Vec::new();
    for (id, field, metric, limits) in [
        ("etcd-slow-fsync", "wal_fsync_p99_ms", FSYNC, [10.0, 100.0, 500.0]),
        ("etcd-slow-commit", "commit_p99_ms", COMMIT, [25.0, 250.0, 1000.0]),
        ("etcd-slow-peers", "peer_rtt_p99_ms", PEERS, [50.0, 150.0, 500.0]),
    ] {
        let severities = [None, Some("info"), Some("warning"), Some("critical")];
        let mut check = |what: String, buckets: Vec<(f64, u64)>, p99: f64, severity: Option<&str>, confidence: f64| {
            let report = with(&[Histogram(metric, buckets)]);
            let expected = severity.map(|severity| (severity.to_owned(), confidence));
            let shown = number(&report["rows"][0], field);
            if found(&report, id) != expected || (shown - p99).abs() > 1e-5 {
                faults.push(format!(
                    "{id}, {what}: p99 is {shown}, not {p99}; found {:?}, not {expected:?}",
                    found(&report, id)
                ));
            }
        };
        for (at, limit) in limits.into_iter().enumerate() {
            let bound = limit / 1e3;
            // Of 10,000 in two buckets, `first` are in the one up to half of the limit, the others between that and
            // half beyond it.
            for (first, severity) in [(9801u32, severities[at]), (9799, severities[at + 1])] {
                let p99 = limit * (0.5 + (9900.0 - f64::from(first)) / (10_000.0 - f64::from(first)));
                let buckets = vec![(bound * 0.5, first.into()), (bound * 1.5, 10_000), (f64::INFINITY, 10_000)];
                check(format!("{first} of 10000 at {limit} ms"), buckets, p99, severity, 0.9);
            }
            // The 99th of 100 is the last in the bucket up to the limit.
            check(
                format!("{limit} ms exactly"),
                vec![(bound, 99), (bound * 2.0, 100), (f64::INFINITY, 100)],
                limit,
                severities[at + 1],
                0.6,
            );
        }
        // How many observations make how sure.
        let bound = limits[1] / 1e3;
        for (count, severity, confidence) in
            [(19, None, 0.0), (20, Some("warning"), 0.6), (199, Some("warning"), 0.6), (200, Some("warning"), 0.9)]
        {
            let buckets = vec![(bound, 0), (bound * 2.0, count), (f64::INFINITY, count)];
            check(format!("{count} observations"), buckets, limits[1] * 1.99, severity, confidence);
        }
    }
    none(&faults);
}

#[test]
fn counts_just_below_and_above_each_threshold() {
    // What is edited, and what is found then.
    type Case = (&'static str, Vec<Edit>, Option<(&'static str, f64)>);
    let info = Some(("info", 0.9));
    let start = |seconds: f64| Set(START, 1_795_166_741.0 - seconds);
    let sizes = |size: f64, in_use: f64, quota: f64| vec![Set(SIZE, size), Set(IN_USE, in_use), Set(QUOTA, quota)];
    // Where docs/findings.md does not say how sure a finding is, it is as sure as can be measured.
    let cases: Vec<Case> = vec![
        ("etcd-no-leader", vec![Set("etcd_server_has_leader", 1.0)], None),
        ("etcd-no-leader", vec![Set("etcd_server_has_leader", 0.0)], Some(("critical", 1.0))),
        // The first is the start's own.
        ("etcd-leader-changes", vec![Set(CHANGES, 1.0)], None),
        ("etcd-leader-changes", vec![Set(CHANGES, 2.0)], info),
        ("etcd-leader-changes", vec![Set(CHANGES, 3.0), start(60.0)], info),
        ("etcd-leader-changes", vec![Set(CHANGES, 4.0), start(680.0)], info),
        ("etcd-leader-changes", vec![Set(CHANGES, 4.0), start(670.0)], Some(("warning", 0.9))),
        ("etcd-leader-changes", vec![Set(CHANGES, 41.0), start(9010.0)], info),
        ("etcd-leader-changes", vec![Set(CHANGES, 41.0), start(8990.0)], Some(("warning", 0.9))),
        ("etcd-failed-proposals", vec![Set("etcd_server_proposals_failed_total", 5.0)], None),
        ("etcd-failed-proposals", vec![Set("etcd_server_proposals_failed_total", 6.0)], Some(("warning", 0.8))),
        ("etcd-pending-proposals", vec![Set("etcd_server_proposals_pending", 4.0)], None),
        ("etcd-pending-proposals", vec![Set("etcd_server_proposals_pending", 5.0)], Some(("warning", 0.6))),
        ("etcd-delayed-events", vec![Set("etcd_debugging_mvcc_pending_events_total", 999.0)], None),
        ("etcd-delayed-events", vec![Set("etcd_debugging_mvcc_pending_events_total", 1000.0)], Some(("warning", 0.7))),
        ("etcd-near-quota", sizes(7_999_999_999.0, 7e9, 1e10), None),
        ("etcd-near-quota", sizes(8e9, 7e9, 1e10), Some(("warning", 1.0))),
        ("etcd-near-quota", sizes(9_499_999_999.0, 7e9, 1e10), Some(("warning", 1.0))),
        ("etcd-near-quota", sizes(9.5e9, 7e9, 1e10), Some(("critical", 1.0))),
        ("etcd-near-quota", sizes(9.5e9, 7e9, 0.0), None),
        ("etcd-fragmented", sizes(200_000_000.0, 100_000_000.0, 1e10), None),
        ("etcd-fragmented", sizes(200_000_000.0, 99_999_999.0, 1e10), info),
        ("etcd-fragmented", sizes(100_000_000.0, 10_000_000.0, 1e10), None),
        ("etcd-fragmented", sizes(100_000_001.0, 10_000_000.0, 1e10), info),
    ];
    let mut faults = Vec::new();
    for (at, (id, edits, expected)) in cases.into_iter().enumerate() {
        let report = with(&edits);
        let expected = expected.map(|(severity, confidence)| (severity.to_owned(), confidence));
        if found(&report, id) != expected {
            faults.push(format!("case {at}: {id}: {:?}, not {expected:?}: {}", found(&report, id), report["rows"][0]));
        }
        // Nothing else is found by the way.
        let others: Vec<&Value> =
            report["findings"].as_array().unwrap().iter().map(|f| &f["id"]).filter(|other| *other != id).collect();
        if !others.is_empty() {
            faults.push(format!("case {at}: {id}: also {others:?}"));
        }
    }
    none(&faults);
}

/// Two pages, ten minutes apart, of one process or of two.
fn leader_changes_over(values: [f64; 2], starts: [f64; 2]) -> Value {
    let folder = folder();
    for ((time, value), start) in [1_795_166_741u64, 1_795_167_341].into_iter().zip(values).zip(starts) {
        write(folder.path(), &format!("etcd-0/{time}.txt"), page(&[Set(CHANGES, value), Set(START, start)]));
    }
    health(folder.path().to_str().unwrap())
}

#[test]
fn a_change_of_leader_that_a_start_brings_is_none() {
    let starts = [1_795_166_245.4, 1_795_166_245.4];
    let changes = |report: &Value| number(&report["rows"][0], "leader_changes");
    assert_eq!(changes(&leader_changes_over([7.0, 7.0], starts)), 0.0);
    let report = leader_changes_over([7.0, 8.0], starts);
    assert_eq!((changes(&report), found(&report, "etcd-leader-changes").unwrap().0.as_str()), (1.0, "info"));
    let report = leader_changes_over([7.0, 10.0], starts);
    assert_eq!(
        (changes(&report), found(&report, "etcd-leader-changes").unwrap().0.as_str()),
        (3.0, "warning"),
        "3 in 10 minutes is 4.5 in 15"
    );
    // A start seven minutes later: of its two, one is its own.
    let report = leader_changes_over([7.0, 2.0], [1_795_166_245.4, 1_795_167_161.0]);
    assert_eq!((changes(&report), number(&report["rows"][0], "restarts")), (1.0, 1.0));
    let report = leader_changes_over([7.0, 1.0], [1_795_166_245.4, 1_795_167_161.0]);
    assert_eq!((changes(&report), found(&report, "etcd-leader-changes")), (0.0, None));
}

/// Edits that make one finding of each id.
fn everything_wrong() -> Vec<Edit> {
    let slow = |metric| Histogram(metric, vec![(1.0, 0), (2.0, 1000), (f64::INFINITY, 1000)]);
    vec![
        slow(FSYNC),
        slow(COMMIT),
        slow(PEERS),
        Set("etcd_server_has_leader", 0.0),
        Set(CHANGES, 100.0),
        Set("etcd_server_proposals_failed_total", 100.0),
        Set("etcd_server_proposals_pending", 100.0),
        Set("etcd_debugging_mvcc_pending_events_total", 10_000.0),
        Set(SIZE, 8e9),
        Set(IN_USE, 1e9),
    ]
}

fn ids(report: &Value) -> BTreeSet<String> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn findings_are_those_of_the_documentation() {
    let text = std::fs::read_to_string(root().join("docs/findings.md")).unwrap();
    let anchored = |text: &str| -> Vec<String> {
        text.split("<a id=\"etcd-").skip(1).map(|rest| format!("etcd-{}", rest.split('"').next().unwrap())).collect()
    };
    let documented: BTreeSet<String> = anchored(&text).into_iter().collect();
    assert!(documented.len() >= 10 && anchored(&text).len() == documented.len(), "{documented:?}");
    for id in &documented {
        assert!(text.contains(&format!("<a id=\"{id}\"></a>`{id}`")), "{id}: the anchor is another than the name");
    }
    let (mut in_code, mut of_health) = (BTreeSet::new(), BTreeSet::new());
    let mut folders = vec![root().join("src/analysis")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // What it finds are causes and entries of a timeline.
                if !path.ends_with("incident") {
                    folders.push(path);
                }
            } else {
                let code = std::fs::read_to_string(&path).unwrap();
                let code = code.split("#[cfg(test)]").next().unwrap();
                for rest in code.split("\"etcd-").skip(1) {
                    let id = rest.split('"').next().unwrap();
                    if !id.is_empty() && id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') {
                        if path.ends_with("metrics/etcd.rs") {
                            of_health.insert(format!("etcd-{id}"));
                        }
                        in_code.insert(format!("etcd-{id}"));
                    }
                }
            }
        }
    }
    assert_eq!(in_code, documented);
    // Those of health are all found on a page on which everything is wrong.
    assert_eq!(ids(&with(&everything_wrong())), of_health);
}

#[test]
fn a_finding_says_all_that_it_should() {
    let report = with(&everything_wrong());
    let rank = |finding: &Value| {
        ["critical", "warning", "info"].iter().position(|severity| finding["severity"] == *severity).unwrap()
    };
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().map(rank).is_sorted(), "the gravest first");
    let mut prints = BTreeSet::new();
    for finding in findings {
        let id = finding["id"].as_str().unwrap();
        assert!((0.0..=1.0).contains(&number(finding, "confidence")), "{finding}");
        assert_eq!(finding["docs"], format!("docs/findings.md#{id}"));
        assert_eq!(finding["subject"]["instance"], "etcd-0", "{finding}");
        assert_eq!(finding["last_seen"], "2026-11-20T09:25:41Z", "{finding}");
        assert!(finding["first_seen"].as_str() <= finding["last_seen"].as_str(), "{finding}");
        assert!(!finding["evidence"].as_object().unwrap().is_empty(), "{finding}");
        assert!(
            finding["summary"].as_str().unwrap().starts_with("etcd-0: ")
                && finding["remedy"].as_str().unwrap().len() > 20,
            "{finding}"
        );
        assert!(prints.insert(finding["fingerprint"].as_str().unwrap()), "two findings have one fingerprint");
        for (name, value) in finding["evidence"].as_object().unwrap() {
            let value = value.as_f64().unwrap_or_default();
            assert!(
                (value * 1e6 - (value * 1e6).round()).abs() < 1e-3,
                "{id}: {name} is not rounded to six decimals: {value}"
            );
        }
    }
}

/// A remedy may name no command that there is not.
#[test]
fn remedies_name_commands_that_exist() {
    let mut named = BTreeSet::new();
    for edits in [everything_wrong(), vec![Set(SIZE, 8e9), Set(IN_USE, 8e9)]] {
        for finding in with(&edits)["findings"].as_array().unwrap() {
            for rest in finding["remedy"].as_str().unwrap().split("plimsoll ").skip(1) {
                let words = rest.split(|c: char| !c.is_ascii_lowercase() && c != ' ').next().unwrap();
                let words: Vec<&str> = words.split(' ').take(if words.starts_with("etcd") { 2 } else { 1 }).collect();
                named.insert(words.join(" "));
            }
        }
    }
    for command in &named {
        let ran = plimsoll(&[&command.split(' ').collect::<Vec<_>>()[..], &["--help"]].concat());
        assert_eq!(ran.code, Some(0), "plimsoll {command}: {}", ran.stderr);
    }
    assert!(!named.is_empty());
}

fn prints(report: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (text(&finding["id"]), text(&finding["fingerprint"])))
        .collect()
}

#[test]
fn fingerprints_tell_subjects_and_not_times() {
    let folder = folder();
    let put = |name: &str, time: u64, more: &[Edit]| {
        write(folder.path(), &format!("{name}/{time}.txt"), page(&[&everything_wrong()[..], more].concat()));
    };
    put("a/etcd-0", 1_795_166_741, &[]);
    put("later/etcd-0", 1_795_196_741, &[Set("etcd_server_proposals_pending", 7.0), Set(SIZE, 8.1e9)]);
    put("other/etcd-1", 1_795_166_741, &[]);
    put("cluster/etcd-0", 1_795_166_741, &[]);
    write(folder.path(), "cluster/bundle.yaml", "cluster: prod-7\n");
    let of = |name: &str| prints(&health(folder.path().join(name).to_str().unwrap()));
    let first = of("a");
    assert_eq!(first.len(), 10);
    assert_eq!(of("a"), first);
    assert_eq!(of("later"), first, "another time, other numbers");
    for other in ["other", "cluster"] {
        let other = of(other);
        assert!(other.len() == 10 && first.iter().all(|(id, print)| other[id] != *print), "{first:?} {other:?}");
    }
    // A milder finding is the same finding.
    let mild = prints(&with(&[Set(SIZE, 9.0e8), Set(IN_USE, 8.0e8), Set(QUOTA, 1e9)]));
    assert_eq!(mild["etcd-near-quota"], first["etcd-near-quota"]);
}

#[test]
fn exit_codes() {
    let folder = folder();
    let source =
        |name: &str, edits: &[Edit]| write(folder.path(), &format!("{name}/etcd-0/1795166741.txt"), page(edits));
    let nothing = source("nothing", &[]);
    let info = source("info", &[Set(CHANGES, 2.0)]);
    let warning = source("warning", &[Set("etcd_server_proposals_pending", 9.0)]);
    let critical = source("critical", &[Set("etcd_server_has_leader", 0.0)]);
    for (source, fail_on, code) in [
        (&nothing, "warning", 0),
        (&info, "warning", 0),
        (&warning, "never", 0),
        (&warning, "critical", 0),
        (&warning, "warning", 1),
        (&critical, "never", 0),
        (&critical, "critical", 1),
        (&critical, "warning", 1),
    ] {
        for form in FORMS {
            let ran = plimsoll(&["etcd", "health", source, "--fail-on", fail_on, "-o", form]);
            assert_eq!(ran.exits(code).stderr, "", "{source} --fail-on {fail_on} -o {form}");
            assert!(!ran.stdout.is_empty());
        }
    }
    plimsoll(&["etcd", "health", &critical]).exits(0);
    run(&["etcd", "health", &critical], &[("PLIMSOLL_FAIL_ON", "critical")], b"").exits(1);
    plimsoll(&["etcd", "health", &critical, "--fail-on", "sometimes"]).exits(2);
    plimsoll(&["etcd", "health"]).exits(2);
    // What is lost beats what is found.
    write(
        folder.path(),
        "critical/etcd-0/1795166742.txt",
        page(&[Set("etcd_server_has_leader", 0.0)]) + "not a metric at all {\n",
    );
    let both = folder.path().join("critical");
    let ran = plimsoll(&["etcd", "health", both.to_str().unwrap(), "--fail-on", "critical"]);
    assert!(
        ran.exits(3).stdout.contains("etcd-no-leader") && ran.stderr.contains("1795166742.txt"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    // Sources without pages of etcd or an apiserver.
    let other = write(folder.path(), "node/1795166741.txt", "node_load1 0.5\n");
    let ran = plimsoll(&["etcd", "health", &other]);
    assert!(ran.exits(3).stderr.contains(":2379/metrics"), "{}", ran.stderr);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let ran = plimsoll(&["etcd", "health", folder.path().join("empty").to_str().unwrap()]);
    assert!(ran.exits(3).stderr.contains("empty"), "{}", ran.stderr);
    let ran = run(&["etcd", "health", "-", "-o", "json"], &[], page(&everything_wrong()).as_bytes());
    assert_eq!(ids(&ran.json(0)).len(), 10);
}

// ---------------------------------------------------------------- forms of output

/// A folder with `count` members on which everything is wrong.
fn members(folder: &Path, names: &[String]) -> String {
    let text = page(&everything_wrong());
    for name in names {
        write(folder, &format!("{name}/1795166741.txt"), &text);
    }
    folder.to_str().unwrap().to_owned()
}

#[test]
fn every_form_holds_the_findings() {
    let folder = folder();
    let source = members(folder.path(), &["etcd-0".to_owned()]);
    let report = health(&source);
    let form = |form: &str| plimsoll(&["etcd", "health", &source, "-o", form]).exits(0).stdout.clone();
    let yaml: Value = serde_yaml_ng::from_str(&form("yaml")).unwrap();
    let mut faults = Vec::new();
    same("", &report, &yaml, &mut faults);
    none(&faults);
    for text in [form("table"), form("wide"), form("markdown")] {
        let packed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for finding in report["findings"].as_array().unwrap() {
            for field in ["id", "severity", "summary", "remedy"] {
                let value = finding[field].as_str().unwrap();
                assert!(packed.contains(&value.replace('\\', "")), "{field} {value:?} is not in {text}");
            }
        }
        let at = |id: &str| text.find(id).unwrap();
        assert!(at("etcd-no-leader") < at("etcd-fragmented"), "the gravest first");
        assert!(!text.contains("Nothing was found"), "{text}");
    }
    let mut csv = csv::Reader::from_reader(std::io::Cursor::new(form("csv")));
    let heads = csv.headers().unwrap().clone();
    let records: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(records.len(), rows.len(), "rows only");
    for (record, row) in records.iter().zip(rows) {
        assert_eq!(heads.iter().collect::<Vec<_>>(), row.as_object().unwrap().keys().collect::<Vec<_>>());
        for (head, cell) in heads.iter().zip(record) {
            match &row[head] {
                Value::Null => assert_eq!(cell, "", "{head}"),
                Value::String(text) => assert_eq!(cell, text, "{head}"),
                number => assert_eq!(cell.parse::<f64>().ok(), number.as_f64(), "{head}"),
            }
        }
    }
    assert!(plimsoll(&["etcd", "health", &sample("list-storm")]).stdout.contains("No problem found."));
}

/// Whether two documents are the same; numbers by their value.
fn same(at: &str, a: &Value, b: &Value, faults: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) if x.keys().eq(y.keys()) => {
            x.iter().for_each(|(key, value)| same(&format!("{at}.{key}"), value, &y[key], faults))
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            x.iter().zip(y).for_each(|(x, y)| same(at, x, y, faults))
        }
        _ if a == b || a.as_f64().is_some_and(|number| b.as_f64() == Some(number)) => {}
        _ => faults.push(format!("{at}: {a} in JSON, {b} in YAML")),
    }
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    let mut faults = Vec::new();
    for count in [1, 2, 6, 7, 12] {
        for prefix in ["etcd-", "etcd-ip-10-0-113-24.eu-central-1.compute.internal-"] {
            let folder = folder();
            let source =
                members(folder.path(), &(0..count).map(|number| format!("{prefix}{number}")).collect::<Vec<_>>());
            for columns in [80, 160] {
                let ran = run(&["etcd", "health", &source], &[("COLUMNS", &columns.to_string())], b"");
                let long = ran.exits(0).stdout.lines().filter(|line| line.width() > columns).collect::<Vec<_>>();
                if let Some(line) = long.first() {
                    faults.push(format!(
                        "{count} × {prefix}: {} of {} lines are longer than {columns}, e.g. {}: {line}",
                        long.len(),
                        ran.stdout.lines().count(),
                        line.width()
                    ));
                }
                let found = ran.stdout.matches("etcd-near-quota").count();
                if found != count {
                    faults.push(format!("{count} × {prefix} at {columns}: {found} findings"));
                }
            }
        }
    }
    none(&faults);
}

#[test]
fn hostile_names_do_nothing() {
    const NAMES: [&str; 8] = [
        "etcd\u{1b}[2J\u{1b}]0;owned\u{7}",
        "c1\u{9b}31mred",
        "bidi\u{202e}\u{2066}turned",
        "two\nlines",
        "|pipe|in|cell|",
        "=1+1",
        "<script>alert(1)<",
        "![x](http:x)**bold**",
    ];
    let folder = folder();
    for (number, name) in NAMES.into_iter().enumerate() {
        let source = folder.path().join(number.to_string());
        let source = members(&source, &[name.to_owned()]);
        assert_eq!(health(&source)["rows"][0]["instance"], name, "JSON holds it as it is");
        for form in FORMS {
            let Ran { stdout, stderr, .. } = plimsoll(&["etcd", "health", &source, "-o", form]);
            let what = format!("{name:?} as {form}");
            let active: BTreeSet<char> = stdout
                .chars()
                .chain(stderr.chars())
                .filter(|c| *c != '\n' && plimsoll::views::text::is_active(*c))
                .collect();
            assert!(active.is_empty(), "{what}: {active:?}");
            let seen = stdout.matches("etcd-no-leader").count();
            assert!(form == "csv" || seen >= 1, "{what}: {stdout}");
            if form == "markdown" {
                assert!(!stdout.contains("<script") && !stdout.contains("![x]("), "{stdout}");
                // All rows of a table have as many cells as its head.
                let cells = |line: &str| line.replace("\\|", "").matches('|').count();
                let table: Vec<usize> = stdout.lines().filter(|line| line.starts_with('|')).map(cells).collect();
                assert!(table.len() > 10 && table.iter().all(|count| *count == table[0]), "{stdout}");
            }
            if form == "csv" && name.starts_with('=') {
                assert!(stdout.contains("'=1+1"), "{stdout}");
            }
        }
    }
    // A lost page of such a name is reported without doing anything, too.
    let source = folder.path().join("lost");
    write(&source, "e\u{1b}[31mtcd/1795166741.txt", page(&[]) + "not a \u{1b}[31mmetric {\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["etcd", "health"]).arg(&source);
    let ran = feed(command, b"");
    assert!(ran.exits(3).stderr.contains("\\u{1b}[31m") && !ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
}
