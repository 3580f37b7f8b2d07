//! What `plimsoll balance` says, against `tests/oracle/balance.py`: the logs counted by Python, connections simulated,
//! a restart of which all is known.

use crate::support::{feed, folder, plimsoll, python, root, sample, write};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn oracle(args: &[&str]) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/balance.py")).args(args);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn balance(args: &[&str]) -> Value {
    plimsoll(&[&["balance"], args, &["-o", "json", "--top", "0"]].concat()).json(0)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn the_sample_s_busy_apiserver_and_its_clients_are_named() {
    let report = balance(&[&sample("list-storm")]);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(
        rows.iter().map(|row| row["instance"].as_str().unwrap()).collect::<Vec<_>>(),
        ["apiserver-0", "apiserver-1"]
    );
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["id"], &finding["severity"], &finding["subject"]["instance"]),
        (&"uneven-apiservers".into(), &"critical".into(), &"apiserver-0".into())
    );
    // Requests as `traffic` counts them, which has oracles of its own.
    let traffic = plimsoll(&["traffic", &sample("list-storm/audit"), "--by", "instance", "-o", "json"]).json(0);
    for theirs in traffic["rows"].as_array().unwrap() {
        let mine = rows.iter().find(|row| row["instance"] == theirs["instance"]).unwrap();
        assert_eq!((&mine["requests"], &mine["share"]), (&theirs["requests"], &theirs["share"]));
    }
    let logs = ["apiserver-0", "apiserver-1"].map(|name| {
        let found = std::fs::read_dir(sample(&format!("list-storm/audit/{name}"))).unwrap().next().unwrap().unwrap();
        format!("{name}={}", found.path().display())
    });
    let theirs = oracle(&["counts", &logs[0], &logs[1]]);
    let mut times = [0.0, 0.0];
    for (row, time) in rows.iter().zip(&mut times) {
        *time = number(&theirs["server_time_s"][row["instance"].as_str().unwrap()]);
        assert!((number(&row["server_time_s"]) - *time).abs() < 1e-3 * *time, "{row} {time}");
    }
    assert!((number(&report["totals"]["skew_server_time_s"]) - 2.0 * times[0] / (times[0] + times[1])).abs() < 1e-3);
    // Every client with more there than an even share, and by how much.
    let mut expected: Vec<(String, f64, f64)> = Vec::new();
    for (client, on) in theirs["clients"].as_object().unwrap() {
        let there = on.get("apiserver-0").map_or(0.0, number);
        let all: f64 = on.as_object().unwrap().values().map(number).sum();
        if there > all / 2.0 {
            expected.push((client.clone(), all, there - all / 2.0));
        }
    }
    let mut listed: Vec<(String, f64, f64)> = report["tables"]["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                format!("{}|{}", row["user"].as_str().unwrap(), row["agent"].as_str().unwrap()),
                number(&row["requests"]),
                number(&row["more_than_even"]),
            )
        })
        .collect();
    assert_eq!(listed[0].0, "system:serviceaccount:ci:deploy-bot|python-requests");
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    listed.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(listed, expected);
    // NOTES.md: 36 nodes, of which a sixth talk to apiserver-1.
    let fleet =
        report["tables"]["clients"].as_array().unwrap().iter().find(|row| row["agent"] == "node-agent").unwrap();
    assert_eq!(fleet["sources"], 36);
    assert!((number(&fleet["share_there"]) - 5.0 / 6.0).abs() < 0.01, "{fleet}");
    plimsoll(&["balance", &sample("list-storm"), "--fail-on", "critical"]).exits(1);
    // By metrics alone, of the time that they cover.
    let metrics = balance(&[&sample("list-storm/metrics")]);
    let traffic = plimsoll(&["traffic", &sample("list-storm/metrics"), "--by", "instance", "-o", "json"]).json(0);
    for theirs in traffic["rows"].as_array().unwrap() {
        let mine =
            metrics["rows"].as_array().unwrap().iter().find(|row| row["instance"] == theirs["instance"]).unwrap();
        assert_eq!(mine["requests"], theirs["requests"]);
    }
    assert_eq!(metrics["tables"]["clients"], serde_json::json!([]));
}

#[test]
fn goaway_does_what_simulated_connections_do() {
    let scratch = folder();
    let ran = plimsoll(&["balance", &sample("list-storm"), "-o", "json", "--top", "0"]);
    let path = write(scratch.path(), "report.json", &ran.stdout);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let theirs = oracle(&["goaway", &path]);
    let rows = report["tables"]["goaway"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for (mine, theirs) in rows.iter().zip(theirs["skews"].as_array().unwrap()) {
        assert_eq!(mine["goaway_chance"], theirs[0]);
        for (field, skew) in ["skew_1m", "skew_10m", "skew_1h"].into_iter().zip(theirs[1].as_array().unwrap()) {
            assert!((number(&mine[field]) - number(skew)).abs() < 0.06, "{field} of {mine}, not {skew}");
        }
    }
    // The recommended one is the smallest that does it in time.
    let chance = number(&report["recommended_goaway_chance"]);
    let does = |row: &&Value| row["recovery_s"].as_f64().is_some_and(|seconds| seconds <= 600.0);
    assert_eq!(number(&rows.iter().find(does).unwrap()["goaway_chance"]), chance);
}

#[test]
fn a_restart_is_followed() {
    let scratch = folder();
    let truth = oracle(&["restart", scratch.path().to_str().unwrap()]);
    let report = balance(&[scratch.path().to_str().unwrap()]);
    let b = report["rows"].as_array().unwrap().iter().find(|row| row["instance"] == "b").unwrap();
    // To the next whole piece of time.
    let (back, truth_back) = (number(&b["recovered_s"]), number(&truth["back"]));
    assert!(back >= truth_back - 10.0 && back <= truth_back + 30.0, "{back}, not {truth_back}");
    let table = plimsoll(&["balance", scratch.path().to_str().unwrap()]).stdout;
    assert!(table.contains("it got its share of requests again after"), "{table}");
    // While it is down and coming back: one apiserver carries all, since it went.
    let report = plimsoll(&["balance", scratch.path().to_str().unwrap(), "--until", "2026-11-20T09:24:00Z"]).stdout;
    assert!(
        report.contains("since") && report.contains("2026-11-20 09:23:00 UTC: ") && report.contains("b started at"),
        "{report}"
    );
}

/// A log of `count` requests of so many clients, one a second each, on the apiservers that `on` gives.
fn made(folder: &Path, instances: &[&str], clients: usize, seconds: usize, on: impl Fn(usize, usize) -> usize) {
    let mut logs = vec![String::new(); instances.len()];
    for second in 0..seconds {
        for client in 0..clients {
            let at = format!("2026-11-20T09:{:02}:{:02}.{client:06}Z", second / 60, second % 60);
            let event = serde_json::json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
                "auditID": format!("{second}-{client}"),
                "stage": "ResponseComplete", "requestURI": "/api/v1/pods", "verb": "list",
                "user": {"username": format!("u{client}")}, "sourceIPs": [format!("10.0.0.{client}")],
                "userAgent": "k/v1", "objectRef": {"resource": "pods"}, "responseStatus": {"code": 200},
                "requestReceivedTimestamp": at, "stageTimestamp": at});
            logs[on(client, second)] += &format!("{event}\n");
        }
    }
    for (instance, log) in instances.iter().zip(logs) {
        std::fs::create_dir_all(folder.join("audit").join(instance)).unwrap();
        write(folder, &format!("audit/{instance}/audit.log"), log);
    }
}

#[test]
fn what_a_newcomer_stumbled_over() {
    let path = |folder: &tempfile::TempDir| folder.path().to_str().unwrap().to_owned();
    // One connection is always on one apiserver, whatever it is reported.
    let one = folder();
    made(one.path(), &["a", "b"], 2, 600, |client, second| usize::from(client == 1 && second % 100 == 0));
    let report = balance(&[&path(&one)]);
    assert_eq!(report["recommended_goaway_chance"], Value::Null, "{report}");
    let skews = report["tables"]["goaway"].as_array().unwrap();
    assert!(skews.iter().all(|row| number(&row["skew_1h"]) >= 1.3), "{skews:?}");
    // Who has no request in his log has no load, also where a condition leaves none.
    let three = folder();
    made(three.path(), &["a", "b", "c"], 20, 300, |client, _| client % 2);
    let report = balance(&[&path(&three)]);
    assert_eq!(number(&report["totals"]["skew_requests"]), 1.5);
    let only = balance(&[&path(&one), "--where", "user=u0"]);
    assert_eq!((only["rows"].as_array().unwrap().len(), number(&only["totals"]["skew_requests"])), (2, 2.0));
    // A log that ends early is reported, and what follows from it is less sure.
    let short = folder();
    made(short.path(), &["a", "b"], 20, 900, |client, _| client % 2);
    let log = short.path().join("audit/b/audit.log");
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&log, lines[..lines.len() / 10].join("\n") + "\n").unwrap();
    let report = plimsoll(&["balance", &path(&short)]).stdout;
    assert!(report.contains("The log of b has only") && !report.contains("confidence 90"), "{report}");
    // Another cluster changes nothing.
    let alone = balance(&[&sample("list-storm")]);
    let both = balance(&[&sample("quiet"), &sample("list-storm")]);
    assert_eq!(alone["tables"]["goaway"], both["tables"]["goaway"]);
    // Few requests say nothing.
    let few = folder();
    made(few.path(), &["a", "b"], 1, 20, |_, second| usize::from(second == 3));
    assert_eq!(balance(&[&path(&few)])["findings"], serde_json::json!([]));
}

#[test]
fn what_is_even_or_alone_is_said_so() {
    let alone = plimsoll(&["balance", &sample("quiet")]);
    alone.exits(0);
    assert!(alone.stdout.contains("these sources cover only apiserver-0"), "{}", alone.stdout);
    let wrong = plimsoll(&["balance", &sample("quiet"), "--where", "verb=list"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    let wrong = plimsoll(&["balance", &sample("quiet/metrics"), "--where", "user=x"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
}

/// Clients of what is uneven: one whose few LISTs take long.
#[test]
fn whose_time_is_uneven_is_named_and_what_ends_early_is_said() {
    let path = |folder: &tempfile::TempDir| folder.path().to_str().unwrap().to_owned();
    let home = folder();
    made(home.path(), &["a", "b"], 40, 600, |client, second| (client + second) % 2);
    let log = home.path().join("audit/a/audit.log");
    let mut lines = std::fs::read_to_string(&log).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let began: jiff::Timestamp = first["requestReceivedTimestamp"].as_str().unwrap().parse().unwrap();
    for number in 0..55 {
        let at = began + jiff::SignedDuration::from_secs(10 * number);
        let mut event = first.clone();
        event["auditID"] = format!("heavy-{number}").into();
        event["verb"] = "list".into();
        event["user"]["username"] = "heavy".into();
        event["userAgent"] = "lister/1".into();
        event["requestReceivedTimestamp"] = format!("{at:.6}").into();
        event["stageTimestamp"] = format!("{:.6}", at + jiff::SignedDuration::from_secs(8)).into();
        lines += &format!("{event}\n");
    }
    let mut sorted: Vec<&str> = lines.lines().collect();
    sorted.sort_by_key(|line| {
        serde_json::from_str::<Value>(line).unwrap()["stageTimestamp"].as_str().unwrap().to_owned()
    });
    std::fs::write(&log, sorted.join("\n") + "\n").unwrap();
    let report = balance(&[&path(&home)]);
    let summary = report["findings"][0]["summary"].as_str().unwrap();
    assert!(summary.starts_with("a carries") && summary.contains("server time"), "{summary}");
    assert!(summary.contains("comes from lister (heavy)"), "{summary}");
    assert_eq!(report["tables"]["clients"][0]["user"], "heavy");
    // Pages of one apiserver that end early are no skew with a date.
    let labels = "code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"cluster\"";
    let page = |count: u64| {
        let series = format!("apiserver_request_total{{{labels},subresource=\"\",verb=\"LIST\",version=\"v1\"}}");
        format!("process_start_time_seconds 1795160000\n{series} {count}\n")
    };
    let pages = folder();
    for number in 0..41 {
        let name = |instance: &str| format!("metrics/{instance}/{}.txt", 1_795_167_000 + 15 * number);
        write(pages.path(), &name("a"), page(1_000 + 150 * number));
        if number <= 10 {
            write(pages.path(), &name("b"), page(2_000 + 150 * number));
        }
    }
    let report = balance(&[&path(&pages)]);
    assert!(report["coverage"]["partial"][0].as_str().unwrap().contains("The pages of b are of"), "{report:.300}");
    // Each sends ten a second as long as it is known.
    assert_eq!(report["findings"], Value::Array(Vec::new()));
    let shares: Vec<f64> = report["rows"].as_array().unwrap().iter().map(|row| number(&row["share"])).collect();
    assert_eq!(shares, [0.5, 0.5]);
}
