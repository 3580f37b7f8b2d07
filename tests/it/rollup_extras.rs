//! Roll-ups answer `guard events`, `controllers` and what quotas refused as their logs do.

use crate::rollup_files::{SAMPLES, answer_of, log_and_roll_up, logs_of, rolled};
use crate::support::{folder, plimsoll, sample, sample_bytes, write};
use plimsoll::model::rollup::LATER;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Times of a roll-up that are edges of its tiles: a fifth and four fifths of it.
fn edges(roll: &str) -> [String; 2] {
    let manifest: Value = serde_json::from_slice(&fs::read(Path::new(roll).join("manifest.json")).unwrap()).unwrap();
    let [first, last] = ["first", "last"].map(|name| manifest[name].as_i64().unwrap());
    [1, 4].map(|fifths| {
        let at = (first + (last - first) / 5 * fifths).div_euclid(10_000_000) * 10_000_000;
        plimsoll::model::time::format(at)
    })
}

#[test]
fn operations_within_a_window_and_of_some_are_those_of_the_log() {
    let mut rows = 0;
    for name in SAMPLES {
        let (_home, log, roll) = log_and_roll_up(name);
        let [since, until] = edges(&roll);
        for flags in [
            &["--since", &since, "--until", &until][..],
            &["--since", &since],
            &["--until", &until, "--where", "verb!=create"],
            &["--where", "user!~^system:"],
            &["--where", "resource=~pods|namespaces", "--where", "namespace!=kube-system"],
            &["--where", "agent=kubectl", "--kind", "exec,delete-namespace"],
            &["--where", "serviceaccount=~."],
        ] {
            let command = [&["guard", "events", "SOURCE"][..], flags].concat();
            let (of_roll, of_log) = (answer_of(&command, &roll), answer_of(&command, &log));
            assert_eq!(of_roll, of_log, "{name}: {command:?}");
            rows += of_log["rows"].as_array().unwrap().len();
        }
        for flags in [&["--since", &since, "--until", &until][..], &["--since", &since], &["--until", &until]] {
            let command = [&["controllers", "SOURCE"][..], flags].concat();
            assert_eq!(answer_of(&command, &roll), answer_of(&command, &log), "{name}: {command:?}");
        }
    }
    assert!(rows > 50, "{rows}");
}

#[test]
fn a_window_within_tiles_has_the_operations_of_the_window() {
    let (_home, log, roll) = log_and_roll_up("list-storm");
    let all = answer_of(&["guard", "events", "SOURCE"], &log);
    let at: Vec<&str> = all["rows"].as_array().unwrap().iter().map(|row| row["at"].as_str().unwrap()).collect();
    let middle = at[at.len() / 2];
    let command = ["guard", "events", "SOURCE", "--since", middle];
    let (of_roll, of_log) = (answer_of(&command, &roll), answer_of(&command, &log));
    let without_cascades = |answer: &Value| -> Vec<Value> {
        let rows = answer["rows"].as_array().unwrap().iter().cloned();
        rows.map(|mut row| {
            row.as_object_mut().unwrap().retain(|name, _| !["objects_by_resource", "objects"].contains(&name.as_str()));
            row
        })
        .collect()
    };
    assert_eq!(without_cascades(&of_roll), without_cascades(&of_log));
    assert!(of_log["rows"].as_array().unwrap().len() < at.len());
    let words = plimsoll(&["guard", "events", &roll, "--since", middle]);
    assert!(words.stderr.contains("cut at whole tiles"), "{}", words.stderr);
}

#[test]
fn a_log_beside_a_roll_up_and_one_in_a_store_are_one() {
    let home = folder();
    let log = logs_of("list-storm", home.path());
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    rolled(&[&format!("{log}/audit/apiserver-0")], &path("part"));
    let bundle = fs::read(Path::new(&log).join("bundle.yaml")).unwrap();
    write(&home.path().join("other"), "bundle.yaml", bundle);
    fs::create_dir_all(home.path().join("other/audit")).unwrap();
    fs::rename(Path::new(&log).join("audit/apiserver-1"), home.path().join("other/audit/apiserver-1")).unwrap();
    let of = |sources: &[&str], command: &[&str]| {
        let mut answer = plimsoll(&[command, sources, &["-o", "json"]].concat()).json(0);
        answer.as_object_mut().unwrap().retain(|name, _| name != "inputs" && name != "generated_at");
        answer
    };
    for command in [&["guard", "events"][..], &["controllers"]] {
        let whole = of(&[&sample("list-storm/audit")], command);
        let mixed = of(&[&path("part"), &path("other")], command);
        // Logs without their bundle are of no named cluster.
        assert_eq!(mixed["totals"], whole["totals"], "{command:?}");
    }
    plimsoll(&["record", "--store", &path("store"), "--once", &sample("quiet")]).exits(0);
    for command in [&["guard", "events", "SOURCE"][..], &["controllers", "SOURCE"]] {
        let alone = logs_of("quiet", home.path());
        assert_eq!(answer_of(command, &path("store")), answer_of(command, &alone), "{command:?}");
    }
    let report = plimsoll(&["report", &path("store"), "-o", "json"]).json(0);
    let sections = report["sections"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
    let names = sections.unwrap_or_else(|| {
        let all = report["sections"].as_array().unwrap().iter();
        all.map(|section| section["name"].as_str().unwrap().to_owned()).collect()
    });
    assert!(names.iter().any(|name| name == "guard"), "{names:?}");
    assert!(names.iter().any(|name| name == "controllers"), "{names:?}");
}

#[test]
fn one_of_an_older_plimsoll_is_read_and_refused_where_it_lacks_tables() {
    let (home, _, roll) = log_and_roll_up("quiet");
    let whole = answer_of(&["clients", "SOURCE"], &roll);
    let joined_before = home.path().join("joined-before").to_str().unwrap().to_owned();
    // Of another cluster, so that nothing counts twice.
    rolled(&[&sample("drain")], &joined_before);
    for table in LATER {
        fs::remove_file(Path::new(&roll).join(format!("{table}.parquet"))).unwrap();
    }
    let name = Path::new(&roll).join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&name).unwrap()).unwrap();
    manifest["tables"].as_object_mut().unwrap().retain(|name, _| !LATER.contains(&name.as_str()));
    fs::write(&name, manifest.to_string()).unwrap();
    // What it lacks is said, and the rest is the same.
    let mut older: Value = answer_of(&["clients", "SOURCE"], &roll);
    let unknown = older["coverage"]["unknown"].as_array().unwrap().clone();
    assert!(unknown.iter().any(|name| name.as_str().unwrap().contains("writes")), "{unknown:?}");
    older["coverage"]["unknown"] = whole["coverage"]["unknown"].clone();
    assert_eq!(older, whole);
    let is_refused = |roll: &str| {
        for command in [&["guard", "events"][..], &["controllers"]] {
            let ran = plimsoll(&[command, &[roll]].concat());
            ran.exits(2);
            assert!(ran.stderr.contains("made by an older plimsoll") && ran.stderr.contains("roll"), "{}", ran.stderr);
        }
    };
    is_refused(&roll);
    // What is made of it lacks them too: it must not say that nothing happened.
    let joined = home.path().join("joined-roll").to_str().unwrap().to_owned();
    rolled(&[&roll, &joined_before], &joined);
    assert!(!Path::new(&joined).join("operations.parquet").exists());
    is_refused(&joined);
    answer_of(&["clients", "SOURCE"], &joined);
}

#[test]
fn what_quotas_refused_is_known_beside_a_roll_up() {
    let home = folder();
    let at = |name: &str| home.path().join(name);
    let log = logs_of("list-storm", home.path());
    let roll = at("roll").to_str().unwrap().to_owned();
    rolled(&[&log], &roll);
    // The log's quota, in the namespace that the log names.
    let text = String::from_utf8(crate::support::sample_bytes("list-storm/audit/apiserver-0/audit.log.zst")).unwrap();
    let refused: Vec<Value> = text
        .lines()
        .filter(|line| line.contains("exceeded quota: compute"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let namespace = refused[0]["objectRef"]["namespace"].as_str().unwrap();
    let meta = |name: &str, more: Value| {
        let mut meta = json!({"name": name});
        meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        meta
    };
    let objects = json!({"kind": "List", "apiVersion": "v1", "items": [
        {"kind": "Namespace", "apiVersion": "v1", "metadata": meta(namespace, json!({}))},
        {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": meta("compute", json!({"namespace": namespace})),
         "spec": {"hard": {"requests.cpu": "10"}},
         "status": {"hard": {"requests.cpu": "10"}, "used": {"requests.cpu": "9800m"}}},
    ]});
    let captured = write(home.path(), "captured/objects.json", objects.to_string());
    let of = |source: &str, command: &[&str]| {
        let mut answer = plimsoll(&[command, &[&captured, source, "-o", "json"]].concat());
        assert!(matches!(answer.code, Some(0 | 1)), "{}", answer.stderr);
        answer.code = Some(0);
        let mut answer = answer.json(0);
        answer.as_object_mut().unwrap().retain(|name, _| name != "inputs" && name != "generated_at");
        answer
    };
    for command in [&["quota", "check"][..], &["quota", "propose"]] {
        assert_eq!(of(&roll, command), of(&log, command), "{command:?}");
    }
    let proposed = of(&roll, &["quota", "propose"]);
    let row = proposed["proposals"].as_array().or(proposed["rows"].as_array()).unwrap()[0].clone();
    assert_eq!(row["refused"].as_u64().unwrap(), refused.len() as u64, "{row}");
}

/// Rates of a window are those of the whole tiles that were counted, and what nobody knows is no number.
#[test]
fn a_window_between_tiles_has_the_rates_of_what_was_counted() {
    let (_home, log, roll) = log_and_roll_up("overload-restart");
    let compare = |source: &str, after: &str| {
        plimsoll(&["compare", source, "--before", "..2026-11-20T09:38:15Z", "--after", after, "-o", "json"]).json(0)
    };
    let rps = |report: &Value| {
        let rows = report["rows"].as_array().unwrap();
        let all = rows.iter().find(|row| row["metric"] == "rps" && row["area"] == "total").cloned();
        all.unwrap_or_else(|| panic!("{rows:?}"))["after"].as_f64().unwrap()
    };
    // Six seconds within one tile of ten.
    let of_tile = rps(&compare(&log, "2026-11-20T09:38:20Z..2026-11-20T09:38:30Z"));
    let of_roll = rps(&compare(&roll, "2026-11-20T09:38:20Z..2026-11-20T09:38:26Z"));
    assert!((of_roll / of_tile - 1.0).abs() < 0.02, "{of_roll} {of_tile}");
    // Times of day are those of the day on which the roll-up begins.
    let of_day = plimsoll(&["compare", &roll, "--at", "09:38", "-o", "json"]).json(0);
    let of_time = plimsoll(&["compare", &roll, "--at", "2026-11-20T09:38:00Z", "-o", "json"]).json(0);
    assert_eq!(of_day["rows"], of_time["rows"]);
    let peaks = |source: &str| -> Vec<Value> {
        let report = plimsoll(&["traffic", source, "--by", "agent", "--where", "verb=get", "-o", "json"]).json(0);
        report["rows"].as_array().unwrap().iter().map(|row| row["peak_rps"].clone()).collect()
    };
    assert!(peaks(&log).iter().all(|peak| peak.as_f64().is_some_and(|peak| peak > 0.0)));
    assert!(peaks(&roll).iter().all(Value::is_null), "{:?}", peaks(&roll));
    let open = |source: &str| {
        plimsoll(&["clients", source, "--where", "user=system:kube-scheduler", "-o", "json"]).json(0)["coverage"]
            ["open_requests"]
            .clone()
    };
    assert_eq!(open(&roll), open(&log));
    let episodes = |source: &str| plimsoll(&["guard", "episodes", source, "-o", "json"]).json(0)["window"].clone();
    for source in [&log, &roll] {
        let window = episodes(source);
        assert!(window["seconds"].as_f64().unwrap() > 100.0, "{window}");
    }
}

/// The same requests in two roll-ups count twice, which is reported.
#[test]
fn roll_ups_of_one_apiserver_that_overlap_are_reported() {
    let home = folder();
    let text = sample_bytes("list-storm/audit/apiserver-0/audit.log.zst");
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let roll = |name: &str, lines: &[&[u8]]| {
        write(home.path(), &format!("{name}/audit/apiserver-0/audit.log"), lines.concat());
        let to = home.path().join(format!("{name}.roll")).to_str().unwrap().to_owned();
        rolled(&[home.path().join(name).to_str().unwrap()], &to);
        to
    };
    let (most, half) = (lines.len() * 3 / 4, lines.len() / 2);
    let [first, second, rest] =
        [("first", &lines[..most]), ("second", &lines[half..]), ("rest", &lines[most..])].map(|own| roll(own.0, own.1));
    let ran = plimsoll(&["traffic", &first, &second]);
    ran.exits(3);
    assert!(ran.stderr.contains("count twice"), "{}", ran.stderr);
    // Parts of what was cut are whole together.
    plimsoll(&["traffic", &first, &rest]).exits(0);
}
