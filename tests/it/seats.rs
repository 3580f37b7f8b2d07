//! `plimsoll clients --seats`: a real apiserver's dump pages beside an independent reader, findings, damage.

use crate::support::{Ran, count, feed, folder, number, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const DETAILED: &str = "apf-dumps/apf/apiserver-0/dump_requests-1795297222.009.txt";
const PLAIN: &str = "apf-dumps/apf/apiserver-0/dump_requests_plain-1795297222.061.txt";

fn ask(args: &[&str]) -> Ran {
    plimsoll(&[&["clients", "--seats"], args, &["-o", "json"]].concat())
}

fn oracle(page: &str) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/seats.py")).arg(sample(page));
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Rows by level, schema and user.
pub(crate) fn rows(report: &Value) -> BTreeMap<String, &Value> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    let all = report["rows"].as_array().unwrap();
    let found: BTreeMap<_, _> = all
        .iter()
        .map(|row| (["priority_level", "flow_schema", "user"].map(|field| text(row, field)).join("|"), row))
        .collect();
    assert_eq!(found.len(), all.len(), "two rows of one holder");
    found
}

/// Every row and level is the oracle's, `times` over.
#[track_caller]
pub(crate) fn agrees(report: &Value, page: &str, times: u64) {
    let theirs = oracle(page);
    let (ours, expected) = (rows(report), theirs["rows"].as_object().unwrap());
    assert_eq!(ours.keys().collect::<Vec<_>>(), {
        let mut keys: Vec<_> = expected.keys().collect();
        keys.sort();
        keys
    });
    assert!(ours.len() >= 7, "{}", ours.len());
    for (key, row) in expected {
        for field in ["executing", "queued", "seats_executing", "seats_queued"] {
            assert_eq!(count(ours[key], field), times * count(row, field), "{key} {field}");
        }
        for field in ["oldest_wait_ms", "longest_run_ms"] {
            let (a, b) = (ours[key][field].as_f64(), row[field].as_f64());
            assert!(a == b || (a.unwrap() - b.unwrap()).abs() < 0.001, "{key} {field}: {a:?} {b:?}");
        }
    }
    for (name, level) in theirs["levels"].as_object().unwrap() {
        let of: Vec<&Value> = levels(report).into_iter().filter(|row| row["priority_level"] == name.as_str()).collect();
        assert_eq!(of.len() as u64, times);
        for row in of {
            for field in ["executing", "queued", "seats"] {
                assert_eq!(count(row, field), count(level, field), "{name} {field}");
            }
        }
    }
}

fn levels(report: &Value) -> Vec<&Value> {
    report["tables"]["priority_levels"].as_array().unwrap().iter().collect()
}

fn level<'r>(report: &'r Value, name: &str) -> &'r Value {
    levels(report).into_iter().find(|row| row["priority_level"] == name).unwrap()
}

/// Finding, level and user.
fn found(report: &Value) -> Vec<[String; 4]> {
    let all = report["findings"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|f| [&f["id"], &f["severity"], &f["subject"]["priority_level"], &f["subject"]["user"]].map(text)).collect()
}

#[test]
fn rows_are_those_of_an_independent_reader() {
    let report = ask(&[&sample(DETAILED)]).json(0);
    agrees(&report, DETAILED, 1);
    assert_eq!(report["coverage"]["captures"][0]["at_from"], "page");
    // Names that hold commas, double blanks and letters of two bytes; and a path that holds commas.
    let rows = rows(&report);
    assert!(
        rows.contains_key("global-default|global-default|smith, jane")
            && rows.contains_key("global-default|global-default|Zoë  Müller")
    );
    let agent = rows["workload-low|agents|node-agent"];
    assert_eq!((count(&agent["verbs"], "get"), count(&agent["resources"], "/odd path/with, comma")), (5, 1), "{agent}");
    // Without details the flow is all that is known.
    let plain = ask(&[&sample(PLAIN)]).json(0);
    agrees(&plain, PLAIN, 1);
    assert!(plain["rows"].as_array().unwrap().iter().all(|row| row["user_from"] == "flow"));
    assert!(plimsoll(&["clients", "--seats", &sample(PLAIN)]).stdout.contains("includeRequestDetails"));
}

#[test]
fn a_bundle_gives_limits_refusals_and_profiles() {
    let bundle = sample("apf-dumps");
    let report = ask(&[&bundle]).json(0);
    agrees(&report, DETAILED, 1);
    assert_eq!(count(&report["coverage"]["captures"][0], "left_out_pages"), 1);
    // Limits as they stand on the metrics page.
    let page = sample_bytes("apf-dumps/metrics/apiserver-0/1795297222.080.txt.zst");
    let mut compared = 0;
    for line in std::str::from_utf8(&page).unwrap().lines() {
        for (metric, field) in [("nominal_limit_seats", "nominal"), ("current_limit_seats", "limit")] {
            if let Some(rest) = line.strip_prefix(&format!("apiserver_flowcontrol_{metric}{{priority_level=\"")) {
                let (name, value) = rest.split_once("\"} ").unwrap();
                assert_eq!(number(level(&report, name), field), value.parse::<f64>().unwrap(), "{name} {field}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 16, "{compared}");
    // Totals and states as they stand on the pages of levels, of which the second counts.
    let pages = ["1795297218.179", "1795297221.933"].map(|at| {
        let text = sample_bytes(&format!("apf-dumps/apf/apiserver-0/dump_priority_levels-{at}.txt"));
        let text = String::from_utf8(text).unwrap();
        let row = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        text.lines().skip(1).map(row).map(|row| (row[0].clone(), row)).collect::<BTreeMap<_, _>>()
    });
    for (name, row) in &pages[1] {
        let ours = level(&report, name);
        let answer = |at: usize| row[at].parse::<u64>().unwrap();
        assert_eq!((count(ours, "dispatched_total"), count(ours, "rejected_total")), (answer(6), answer(7)), "{name}");
        assert_eq!(count(ours, "refused"), answer(7) - pages[0][name][7].parse::<u64>().unwrap(), "{name}");
        // The level had no request a tenth of a second before, and has one on the page of requests.
        assert_eq!(ours["state"] == "idle", row[2] == "true" && name != "tenants", "{name} {ours}");
    }
    // Who it is, by the audit log of the same seconds.
    let profiles = plimsoll(&["clients", &bundle, "-o", "json"]).json(0);
    let rows = rows(&report);
    let mut joined = 0;
    for row in rows.values() {
        let same: Vec<&Value> = profiles["rows"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|profile| profile["client"]["user"] == row["user"])
            .collect();
        assert_eq!(
            same.iter().map(|profile| count(profile, "requests")).sum::<u64>(),
            row["requests"].as_u64().unwrap_or_default()
        );
        let ids = same.iter().flat_map(|profile| profile["findings"].as_array().unwrap()).map(|f| &f["id"]);
        let mut ids: Vec<&Value> = ids.collect();
        ids.sort_by_key(|id| id.as_str());
        ids.dedup();
        assert_eq!(
            row["client_findings"].as_array().map(|ids| ids.iter().collect::<Vec<_>>()).unwrap_or_default(),
            ids
        );
        joined += ids.len();
    }
    assert!(joined > 0 && rows["tenants|tenants|tenant-sync"]["agents"][0] == "tenant-sync");
    let wanted = [
        ["apf-level-waits", "warning", "global-default", ""],
        ["apf-level-rejects", "warning", "tenants", ""],
        ["apf-level-waits", "warning", "workload-low", ""],
        ["apf-one-user", "info", "global-default", "backup-tool"],
        ["apf-one-user", "info", "workload-low", "system:serviceaccount:shop:report-job"],
    ];
    assert_eq!(found(&report), wanted.map(|texts| texts.map(str::to_owned)));
    let people = plimsoll(&["clients", "--seats", &bundle]).exits(0).stdout.clone();
    assert!(
        people.contains("no-backoff") && people.contains("Priority levels") && people.contains("smith, jane"),
        "{people}"
    );
}

/// A page of requests: level, user, seats, ms since it arrived, and whether it executes. The last request is that for
/// the page.
fn page(requests: &[(&str, &str, u64, u64, bool)]) -> String {
    let time = |ms: u64| format!("2026-11-21T21:40:{:02}.{:03}Z", (59_000 - ms) / 1000, (59_000 - ms) % 1000);
    let mut text = "PriorityLevelName,FlowSchemaName,QueueIndex,RequestIndexInQueue,FlowDistingsher,ArriveTime,\
        InitialSeats,FinalSeats,AdditionalLatency,StartTime,UserName,Verb,APIPath,Namespace,Name,APIVersion,\
        Resource,SubResource\n"
        .to_owned();
    for (level, user, seats, ms, executes) in requests.iter().copied().chain([("exempt", "me", 1, 0, true)]) {
        let started = if executes { time(ms) } else { "0001-01-01T00:00:00Z".to_owned() };
        text += &format!(
            "{level},s,0,{},{user},{},{seats},0,0s,{started},{user},list,/api/v1/pods,,,v1,pods,\n",
            -i32::from(executes),
            time(ms)
        );
    }
    text
}

#[test]
fn thresholds_of_findings() {
    let home = folder();
    let check = |name: &str, requests: &[(&str, &str, u64, u64, bool)], wanted: &[[&str; 4]]| {
        let report = ask(&[&write(home.path(), &format!("{name}.txt"), page(requests))]).json(0);
        assert_eq!(found(&report), wanted.iter().map(|texts| texts.map(str::to_owned)).collect::<Vec<_>>(), "{name}");
    };
    let waits = |severity: &'static str| ["apf-level-waits", severity, "low", ""];
    let one = |severity: &'static str| ["apf-one-user", severity, "low", "a"];
    check("no-queue", &[("low", "a", 9, 5000, true), ("low", "b", 1, 5000, true)], &[]);
    check("short", &[("low", "a", 9, 5000, true), ("low", "b", 1, 999, false)], &[]);
    check("long", &[("low", "a", 9, 5000, true), ("low", "b", 1, 1000, false)], &[waits("warning"), one("warning")]);
    // How long a request may wait is assumed here: that it is half of it is no more than a warning.
    check(
        "half-time",
        &[("low", "a", 9, 5000, true), ("low", "b", 1, 7500, false)],
        &[waits("warning"), one("warning")],
    );
    check(
        "below-half",
        &[("low", "a", 9, 100, true), ("low", "b", 1, 7499, false)],
        &[waits("warning"), one("warning")],
    );
    // Just half of the demand, just below, and a user who has the level alone or whom fair queuing keeps apart.
    check(
        "half",
        &[("low", "a", 5, 100, true), ("low", "b", 2, 2000, false), ("low", "c", 3, 50, true)],
        &[waits("warning"), one("warning")],
    );
    check(
        "less",
        &[("low", "a", 5, 100, true), ("low", "b", 3, 2000, false), ("low", "c", 3, 50, true)],
        &[waits("warning")],
    );
    check("alone", &[("low", "a", 5, 100, true), ("low", "a", 3, 2000, false)], &[waits("warning")]);
    check("apart", &[("low", "a", 5, 2000, false), ("low", "b", 3, 20, false)], &[waits("warning"), one("info")]);
    // Levels are judged one by one.
    check(
        "levels",
        &[("high", "a", 9, 5000, true), ("low", "a", 1, 5000, true), ("low", "b", 2, 3000, false)],
        &[waits("warning")],
    );
}

#[test]
fn every_finding_is_in_the_docs() {
    let docs = std::fs::read_to_string(root().join("docs/findings.md")).unwrap();
    let report = ask(&[&sample("apf-dumps")]).json(0);
    let mut ids: Vec<String> = found(&report).into_iter().map(|[id, ..]| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids, ["apf-level-rejects", "apf-level-waits", "apf-one-user"]);
    for id in ids {
        assert!(docs.contains(&format!("<a id=\"{id}\"></a>`{id}`")), "{id}");
    }
}

#[test]
fn damage_is_told_and_text_is_harmless() {
    let home = folder();
    let text = page(&[("low", "a\u{1b}[31m=cmd", 9, 5000, true), ("low", "b", 1, 2000, false)]);
    let damaged = write(home.path(), "damaged.txt", text.replacen("2026-11-21", "yesterday", 1));
    let ran = ask(&[&damaged]);
    let report = ran.json(3);
    assert!(ran.stderr.contains("damaged.txt:2: line is not a row of this page"), "{}", ran.stderr);
    assert_eq!((rows(&report).len(), count(&report["inputs"][0], "skipped")), (2, 1));
    let whole = write(home.path(), "whole.txt", &text);
    for form in ["table", "csv", "markdown", "json"] {
        let ran = plimsoll(&["clients", "--seats", &whole, "-o", form]);
        assert!(!ran.exits(0).stdout.contains('\u{1b}'), "{form}");
    }
    // What is no page at all, and a folder without one.
    let log = sample("apf-dumps/audit/apiserver-0/audit.log.zst");
    let ran = plimsoll(&["clients", "--seats", &log]);
    assert!(ran.exits(3).stderr.contains("no dump page"), "{}", ran.stderr);
    let ran = plimsoll(&["clients", "--seats", &sample("quiet/objects")]);
    assert!(ran.exits(3).stderr.contains("dump_requests?includeRequestDetails=1"), "{}", ran.stderr);
    let ran = plimsoll(&["clients", "--seats", &sample("list-storm/audit")]);
    assert!(ran.exits(3).stderr.contains("(looked at 2 files)"), "{}", ran.stderr);
    let ran = plimsoll(&["traffic", &sample(DETAILED)]);
    assert!(ran.exits(3).stderr.contains("it is a dump page of API Priority and Fairness"), "{}", ran.stderr);
    // The other commands leave dump pages in a bundle alone.
    plimsoll(&["traffic", &sample("apf-dumps")]).exits(0);
}

#[cfg(feature = "live")]
mod live {
    use super::*;
    use crate::lab::Lab;

    fn lab() -> Lab {
        let page = sample("apf-dumps/metrics/apiserver-0/1795297222.080.txt.zst");
        Lab::start(&[&page, &page])
    }

    fn live(lab: &Lab, context: &str) -> Ran {
        ask(&["--kubeconfig", lab.kubeconfig().to_str().unwrap(), "--context", context])
    }

    #[test]
    fn every_apiserver_is_asked() {
        let lab = lab();
        let ran = live(&lab, "full");
        let report = ran.json(0);
        assert_eq!(ran.stderr, "");
        agrees(&report, DETAILED, 2);
        let mut names = [lab.name("a"), lab.name("b")];
        names.sort();
        assert_eq!(report["rows"][0]["instances"], serde_json::json!(names));
        assert_eq!(count(level(&report, "workload-low"), "nominal"), 4);
        let mut asked: Vec<String> = Vec::new();
        for request in lab.requests("/") {
            assert_eq!(request["agent"], concat!("plimsoll/", env!("CARGO_PKG_VERSION")), "{request}");
            assert_eq!((request["status"].as_u64(), request["beside"].as_u64()), (Some(200), Some(1)), "{request}");
            asked.push(request["path"].as_str().unwrap().to_owned());
        }
        for path in ["dump_priority_levels", "dump_queues", "dump_requests?includeRequestDetails=1"] {
            let path = format!("/debug/api_priority_and_fairness/{path}");
            assert_eq!(asked.iter().filter(|asked| **asked == path).count(), 2, "{asked:?}");
        }
    }

    #[test]
    fn what_is_forbidden_is_said() {
        let lab = lab();
        let ran = live(&lab, "no-metrics");
        let report = ran.json(0);
        assert!(ran.stderr.contains("the limits of levels are unknown"), "{}", ran.stderr);
        assert!(level(&report, "workload-low")["nominal"].is_null());
        agrees(&report, DETAILED, 2);
        let ran = live(&lab, "no-debug");
        assert!(ran.exits(3).stderr.contains("/debug/api_priority_and_fairness/dump_requests"), "{}", ran.stderr);
        let since = plimsoll(&["clients", "--seats", "--since", "-1h"]);
        assert!(since.exits(2).stderr.contains("only the present"), "{}", since.stderr);
    }
}
