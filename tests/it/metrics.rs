//! `traffic --from metrics` on the samples: every number of its JSON against the plain Python of
//! `tests/oracle/metrics.py`.

use crate::support::{feed, micros, none, number, plimsoll, python, root, rows, sample};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// What `work` says of each of `items`, on all cores.
pub(crate) fn each<T: Sync>(items: &[T], work: impl Fn(&T) -> Vec<String> + Sync) -> Vec<String> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let one = || {
        let mut found = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            found.extend(work(item));
        }
        found
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..std::thread::available_parallelism().map_or(2, usize::from)).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// A page's text.
pub(crate) fn unpacked(path: &Path) -> Vec<u8> {
    let packed = std::fs::read(path).unwrap();
    match path.extension().and_then(|e| e.to_str()) {
        Some("zst") => zstd::decode_all(packed.as_slice()).unwrap(),
        _ => packed,
    }
}

/// Pages of an instance of a sample, oldest first: their times and texts.
pub(crate) fn pages_of(instance: &str) -> Vec<(u64, String)> {
    let folder = sample(instance);
    let mut pages: Vec<(u64, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let time = path.file_name().unwrap().to_str().unwrap().split('.').next().unwrap().parse().unwrap();
            (time, String::from_utf8(unpacked(&path)).unwrap())
        })
        .collect();
    pages.sort();
    pages
}

/// The pages packed with Zstandard, as files of this folder.
pub(crate) fn packed(text: &str) -> Vec<u8> {
    zstd::encode_all(text.as_bytes(), 1).unwrap()
}

/// `traffic SOURCE --from metrics -o json` and more; the exit code must be 0.
#[track_caller]
pub(crate) fn metrics(source: &str, by: &str, more: &[&str]) -> Value {
    plimsoll(&[&["traffic", source, "--from", "metrics", "--by", by, "-o", "json"], more].concat()).json(0)
}

/// What `tests/oracle/metrics.py` makes of a source, for each of `many` (`BY where CONDITION where …`).
pub(crate) fn oracle(source: &str, many: &[&str]) -> BTreeMap<String, Value> {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/metrics.py")).arg("--many").arg(many.join(";")).arg(source);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "the oracle failed: {}", ran.stderr);
    let answer: Value = serde_json::from_str(&ran.stdout).expect("the oracle prints JSON");
    many.iter().map(|asked| ((*asked).to_owned(), answer["breakdowns"][*asked].clone())).collect()
}

/// Whether two numbers are the same: JSON has six decimals.
pub(crate) fn near(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() <= theirs.abs() * 1e-9 + 0.000_000_6
}

/// Adds to `faults` where two values differ. Objects must have the same fields.
fn compare(ours: &Value, theirs: &Value, place: &str, faults: &mut Vec<String>) {
    if let (Value::Object(mine), Value::Object(other)) = (ours, theirs) {
        for field in mine.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
            match (mine.get(field), other.get(field)) {
                (Some(a), Some(b)) => compare(a, b, &format!("{place}.{field}"), faults),
                (a, b) => faults.push(format!("{place}.{field}: {a:?}, the oracle has {b:?}")),
            }
        }
        return;
    }
    let same = match (ours.as_f64(), theirs.as_f64()) {
        (Some(a), Some(b)) => near(a, b),
        (None, None) => ours == theirs,
        _ => false,
    };
    if !same {
        faults.push(format!("{place}: {ours}, the oracle has {theirs}"));
    }
}

/// The dims that show the rows of each table apart.
const TABLES: [(&str, &[&str]); 6] = [
    ("priority_levels", &["priority_level"]),
    ("objects", &["group", "resource"]),
    ("lists", &["group", "resource"]),
    ("watches", &["group", "resource"]),
    ("webhooks", &["name", "type", "operation"]),
    ("slo", &["class"]),
];

/// Everything in which a report differs from what the oracle says.
pub(crate) fn differences(report: &Value, truth: &Value, by: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut totals, mut theirs) = (report["totals"].clone(), truth["totals"].clone());
    let (mut glance, mut other) = (totals["glance"].take(), truth["glance"].clone());
    if let Some(start) = other["oldest_start"].as_f64() {
        // A time is text here.
        assert_eq!(micros(&glance["oldest_start"]), (start * 1e6).round() as i64);
        (glance["oldest_start"], other["oldest_start"]) = (Value::Null, Value::Null);
    }
    compare(&glance, &other, "glance", &mut faults);
    let count = report["rows"].as_array().unwrap().len();
    if totals["rows"].as_u64() != Some(count as u64) {
        faults.push(format!("{count} rows, and totals.rows is {}", totals["rows"]));
    }
    let own = totals.as_object_mut().unwrap();
    own.shift_remove("rows");
    own.shift_remove("glance");
    theirs["max_ms"] = Value::Null; // histograms do not tell
    compare(&totals, &theirs, "totals", &mut faults);
    tables(&mut faults, "rows", by, &report["rows"], &truth["rows"]);
    for (name, dims) in TABLES {
        tables(&mut faults, name, &dims.join(","), &report["tables"][name], &truth["tables"][name]);
    }
    for (at, expected) in [("from", "from"), ("to", "to")] {
        if micros(&report["window"][at]) != micros(&truth["window"][expected]) {
            faults
                .push(format!("window.{at} is {}, the oracle has {}", report["window"][at], truth["window"][expected]));
        }
    }
    compare(&report["window"]["seconds"], &truth["window"]["seconds"], "window.seconds", &mut faults);
    let seen = |list: &Value, restarts: fn(&Value) -> u64| -> Vec<(String, String, u64, u64, i64)> {
        let mut seen: Vec<_> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|i| {
                let text = |field: &str| i[field].as_str().unwrap().to_owned();
                (
                    text("cluster"),
                    text("instance"),
                    i["pages"].as_u64().unwrap(),
                    restarts(i),
                    (number(i, "seconds") * 1e6).round() as i64,
                )
            })
            .collect();
        seen.sort();
        seen
    };
    let ours = seen(&report["coverage"]["instances"], |i| i["restarts"].as_u64().unwrap());
    let theirs = seen(&truth["instances"], |i| i["processes"].as_u64().unwrap() - 1);
    if ours != theirs {
        faults.push(format!("instances are {ours:?}, the oracle has {theirs:?}"));
    }
    faults
}

/// Compares rows that these dims distinguishes.
fn tables(faults: &mut Vec<String>, name: &str, by: &str, ours: &Value, theirs: &Value) {
    let keyed = |list: &Value| match list {
        Value::Null => BTreeMap::new(), // a table without rows is not there
        list => rows(&serde_json::json!({ "rows": list }), by),
    };
    let (ours, mut theirs) = (keyed(ours), keyed(theirs));
    for row in theirs.values_mut().filter(|_| name == "rows") {
        row["max_ms"] = Value::Null;
    }
    for key in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        match (ours.get(key), theirs.get(key)) {
            (Some(a), Some(b)) => compare(a, b, &format!("{name} by {by}: {key:?}"), faults),
            (Some(row), _) => faults.push(format!("{name} by {by}: the oracle has no {key:?}: {row}")),
            (_, row) => faults.push(format!("{name} by {by}: there is no {key:?}: {row:?}")),
        }
    }
}

const MANY: [&str; 14] = [
    "verb,resource",
    "verb",
    "resource,group,version,subresource,scope,component",
    "code",
    "instance",
    "cluster,instance,scope",
    "flow_schema,priority_level",
    "priority_level",
    "verb,resource where scope=cluster where verb!=watch",
    "resource where verb=list",
    "code where resource=~^(pods|nodes)$",
    "instance where code=429",
    "verb where instance!=apiserver-1",
    "flow_schema where priority_level=workload-low",
];

/// The conditions of an entry of `MANY` as flags, and what it breaks down by.
fn flags(asked: &str) -> (&str, Vec<&str>) {
    let mut parts = asked.split(" where ");
    let by = parts.next().unwrap();
    (by, parts.flat_map(|condition| ["--where", condition]).collect())
}

fn check_sample(name: &str) {
    let source = sample(name);
    let truth = oracle(&source, &MANY);
    let mut faults = Vec::new();
    for (asked, truth) in &truth {
        let (by, more) = flags(asked);
        let report = metrics(&source, by, &more);
        assert!(
            !report["rows"].as_array().unwrap().is_empty() || asked == "instance where code=429",
            "{asked}: {report}"
        );
        faults.extend(differences(&report, truth, by).into_iter().map(|fault| format!("{name}, {asked}: {fault}")));
    }
    none(&faults);
}

#[test]
fn list_storm_by_everything() {
    check_sample("list-storm");
}

#[test]
fn overload_restart_by_everything() {
    check_sample("overload-restart");
    let report = metrics(&sample("overload-restart"), "verb", &[]);
    assert_eq!(report["totals"]["glance"]["restarts"], 1);
    assert!(number(&report["totals"], "throttled") > 10.0, "{}", report["totals"]);
}

#[test]
fn quiet_by_everything() {
    check_sample("quiet");
}

#[test]
fn the_comparison_finds_a_wrong_number() {
    let source = sample("quiet");
    let truth = oracle(&source, &["verb"]).remove("verb").unwrap();
    let report = metrics(&source, "verb", &[]);
    assert_eq!(differences(&report, &truth, "verb"), Vec::<String>::new());
    let mut places = Vec::new();
    fn numbers(value: &Value, place: String, places: &mut Vec<String>) {
        match value {
            Value::Number(_) => places.push(place),
            Value::Object(map) => map.iter().for_each(|(key, value)| numbers(value, format!("{place}/{key}"), places)),
            Value::Array(list) => {
                list.iter().take(2).enumerate().for_each(|(at, value)| numbers(value, format!("{place}/{at}"), places))
            }
            _ => {}
        }
    }
    for part in ["totals", "rows", "tables", "window"] {
        numbers(&report[part], format!("/{part}"), &mut places);
    }
    assert!(places.len() > 80, "{places:?}");
    for place in places {
        let mut wrong = report.clone();
        let value = wrong.pointer_mut(&place).unwrap();
        *value = (value.as_f64().unwrap() * 1.000_001 + 0.000_002).into();
        assert!(!differences(&wrong, &truth, "verb").is_empty(), "a wrong {place} is not noticed");
    }
}
