//! Every form of `samples/metrics-forms`: pages as other versions of Kubernetes give them, and in other notations.

use crate::metrics::{differences, each, oracle};
use crate::support::{count, micros, none, number, plimsoll, rows, sample};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn expected() -> serde_json::Map<String, Value> {
    let text = std::fs::read_to_string(sample("metrics-forms/expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The exit code of each form: the last line of one may have been cut.
fn code(name: &str) -> i32 {
    if name == "no-final-newline" { 3 } else { 0 }
}

#[track_caller]
fn form(name: &str, by: &str, more: &[&str]) -> Value {
    let path = sample(&format!("metrics-forms/{name}"));
    plimsoll(&[&["traffic", &path, "--from", "metrics", "--by", by, "-o", "json"], more].concat()).json(code(name))
}

#[test]
fn every_form_is_expected() {
    let mut names: Vec<String> = std::fs::read_dir(sample("metrics-forms"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().is_dir())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut listed: Vec<String> = expected().keys().cloned().collect();
    listed.sort();
    assert_eq!(names, listed);
    assert_eq!(names.len(), 18);
}

#[test]
fn what_each_form_comes_to() {
    let mut faults = Vec::new();
    for (name, truth) in expected() {
        let report = form(&name, "resource,code", &[]);
        let mut check = |what: &str, ours: &Value, theirs: &Value| {
            let same = match (ours.as_f64(), theirs.as_f64()) {
                (Some(a), Some(b)) => (a - b).abs() <= 0.001,
                _ => ours == theirs,
            };
            if !same {
                faults.push(format!("{name}: {what} is {ours}, not {theirs}"));
            }
        };
        let (totals, instance) = (&report["totals"], &report["coverage"]["instances"][0]);
        let glance = &totals["glance"];
        for field in ["requests", "errors", "client_errors", "throttled"] {
            check(field, &totals[field], &truth[field]);
        }
        let start = truth["process_start"].as_f64().unwrap();
        // One page only: since the start.
        let seconds = truth["seconds"].as_f64().unwrap_or(truth["time"].as_f64().unwrap() - start);
        check("seconds", &instance["seconds"], &json!(seconds));
        check("since_start", &instance["since_start"], &json!(truth["seconds"].is_null()));
        check("started", &json!(micros(&instance["started"]) as f64 / 1e6), &json!(start));
        check("time", &json!(micros(&report["window"]["to"]) as f64 / 1e6), &truth["time"]);
        let version = instance["version"].as_str().unwrap().trim_start_matches('v');
        check("version", &json!(version.rsplit_once('.').unwrap().0), &truth["version"]);

        let pairs: serde_json::Map<String, Value> = rows(&report, "resource,code")
            .into_iter()
            .filter(|(key, row)| !key[0].is_empty() && row["requests"] != 0)
            .map(|(key, row)| (key.join(" "), row["requests"].clone()))
            .collect();
        check(
            "resource_requests",
            &json!(pairs.values().map(|v| v.as_u64().unwrap()).sum::<u64>()),
            &truth["resource_requests"],
        );
        check(
            "requests_by_resource_and_code",
            &Value::Object(sorted(pairs)),
            &Value::Object(sorted(truth["requests_by_resource_and_code"].as_object().unwrap().clone())),
        );
        // `open` has no code.
        let open = form(&name, "verb", &[]);
        check("open", &open["totals"]["open"], &truth["open"]);
        // 1.16 to 1.22 call watches of one object GET; here they are watches.
        check("watches", &glance["watches"], &truth["open"]);
        check("open watches", &rows(&open, "verb")[&vec!["watch".to_owned()]]["open"], &truth["open"]);
        check("inflight", &glance["inflight"], &truth["inflight"]);
        check("inflight_limit", &glance["inflight_limit"], &truth["inflight_limit"]);
        check("seats", &glance["seats"]["in_use"], &truth["seats_in_use"]);
        check("objects", &glance["objects"], &truth["objects"]);
        check("storage", &glance["storage"]["bytes"], &truth["storage_bytes"]);
        check("watch_cache.capacity", &glance["watch_cache"]["capacity"], &truth["watch_cache_capacity"]);
        let times =
            |rate: &Value| rate.as_f64().map_or(Value::Null, |rate| json!((rate * seconds * 100.0).round() / 100.0));
        check("watch events", &times(&glance["watch_events_per_s"]), &truth["watch_events"]);
        check("list bytes", &json!(times(&glance["list_bytes_per_s"]).as_f64().unwrap().round()), &truth["list_bytes"]);
        let flows = form(&name, "flow_schema", &[]);
        let dispatched = if flows["rows"] == json!([]) { Value::Null } else { flows["totals"]["requests"].clone() };
        check("dispatched", &dispatched, &truth["flow_dispatched"]);
        let slo = report["tables"]["slo"].as_array().map_or(&[][..], Vec::as_slice);
        check("slo is there", &json!(!slo.is_empty()), &json!(!truth["slo_requests"].is_null()));
        check(
            "quantiles are there",
            &json!(!open["totals"]["p50_ms"].is_null()),
            &json!(!truth["timed_resource_requests"].is_null()),
        );
    }
    none(&faults);
}

fn sorted(map: serde_json::Map<String, Value>) -> serde_json::Map<String, Value> {
    map.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect()
}

#[test]
fn every_form_as_the_oracle_has_it() {
    let faults = each(&expected().into_iter().collect::<Vec<_>>(), |(name, _)| {
        if name == "no-final-newline" {
            return vec![]; // the oracle keeps the last line
        }
        let by = "verb,resource,group,code";
        let truth = oracle(&sample(&format!("metrics-forms/{name}")), &[by, "verb,scope"]);
        let mut faults = differences(&form(name, by, &[]), &truth[by], by);
        faults.extend(differences(&form(name, "verb,scope", &[]), &truth["verb,scope"], "verb,scope"));
        faults.into_iter().map(|fault| format!("{name}: {fault}")).collect()
    });
    none(&faults);
}

#[test]
fn hostile_labels_are_whole_and_harmless() {
    let truth = &expected()["hostile-labels"];
    let paths: BTreeMap<String, u64> = truth["requests_by_path"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, n)| (path.clone(), n.as_u64().unwrap()))
        .collect();
    let report = form("hostile-labels", "subresource,code", &["--where", "code=404", "--where", "resource="]);
    let found: BTreeMap<String, u64> = rows(&report, "subresource,code")
        .into_iter()
        .map(|(key, row)| (key[0].clone(), count(&row, "requests")))
        .collect();
    for (path, requests) in &paths {
        assert_eq!(found.get(path), Some(requests), "{path:?} among {found:?}");
    }
    let odd = expected()["openmetrics"]["odd_path"].as_str().unwrap().to_owned();
    let report = form("openmetrics", "subresource", &[]);
    assert_eq!(count(&rows(&report, "subresource")[&vec![odd]], "requests"), 7);
    for output in ["table", "wide", "csv", "markdown", "json"] {
        let path = sample("metrics-forms/hostile-labels");
        let ran = plimsoll(&["traffic", &path, "--from", "metrics", "--by", "subresource", "--top", "0", "-o", output]);
        let control = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(
            !ran.exits(0).stdout.contains(control),
            "{output}: {:?}",
            ran.stdout.split('\n').find(|line| line.contains(control))
        );
    }
}

#[test]
fn what_is_absent_is_a_dash() {
    for (name, words) in [
        ("v1.13-names", &["limit unknown", "- of - in use", "room for - events", "- of - quota", "- events/s"][..]),
        ("v1.20", &["- of 602 in use", "room for - events"]),
        ("v1.22", &["room for"]),
    ] {
        let path = sample(&format!("metrics-forms/{name}"));
        let ran = plimsoll(&["traffic", &path, "--from", "metrics", "--health"]);
        for word in words {
            assert!(ran.exits(0).stdout.contains(word), "{name}: no '{word}' in {}", ran.stdout);
        }
    }
    // A table's cells: 1.13 does not show how LISTs were answered.
    let ran = plimsoll(&["traffic", &sample("metrics-forms/v1.13-names"), "--from", "metrics", "--health"]);
    let pods = ran
        .stdout
        .lines()
        .find(|line| line.trim_start().starts_with("pods ") && line.contains("96.8 KiB"))
        .unwrap_or_else(|| panic!("{}", ran.stdout));
    assert!(pods.trim_end().ends_with(" -"), "{pods}");
    let report = form("v1.13-names", "verb", &[]);
    for row in report["tables"]["lists"].as_array().unwrap() {
        for field in ["cache_per_s", "etcd_objects_per_s", "fetched_per_list"] {
            assert!(row[field].is_null(), "{field} of {row}");
        }
    }
    for field in ["peak_rps", "p50_ms"] {
        assert!(form("timestamps", "verb", &[])["totals"][field].is_null(), "{field}");
    }
}

#[test]
fn names_of_resources_are_those_of_today() {
    // Go types, prefixes of the store and kinds come to the names that 1.36 gives itself.
    let sums = |name: &str, table: &str, field: &str| -> BTreeMap<String, f64> {
        let report = form(name, "verb", &[]);
        let rows = report["tables"][table].as_array().cloned().unwrap_or_default();
        rows.iter()
            .filter(|row| row[field].as_f64().is_some_and(|n| n > 0.0))
            .map(|row| (row["resource"].as_str().unwrap().to_owned(), number(row, field)))
            .collect()
    };
    for (table, field, from) in [
        ("objects", "objects", 13),
        ("watches", "events_out_per_s", 16),
        ("lists", "cache_per_s", 25),
        ("watches", "events_in_per_s", 27),
    ] {
        let today = sums("v1.36", table, field);
        assert!(!today.is_empty(), "{table}.{field}");
        for (minor, name) in [
            (13, "v1.13-names"),
            (16, "v1.16"),
            (20, "v1.20"),
            (22, "v1.22"),
            (25, "v1.25"),
            (27, "v1.27"),
            (30, "v1.30"),
            (33, "v1.33"),
        ] {
            if minor >= from {
                assert_eq!(sums(name, table, field), today, "{table}.{field} of {name}");
            }
        }
    }
}
