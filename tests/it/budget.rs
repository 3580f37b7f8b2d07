//! `plimsoll budget`, against `tests/oracle/budget.py`: the same rules counted event by event by Python.

use crate::support::{feed, folder, plimsoll, python, root, sample, write};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

fn oracle(args: &[&str]) -> BTreeMap<String, f64> {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/budget.py")).args(args);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

const RULES: [&str; 9] = [
    "fullLists",
    "startupLists",
    "watchesWithoutBookmarks",
    "requestsPerMinute",
    "writesPerObjectPerMinute",
    "requestsPerReconcile",
    "noOpWrites",
    "earlyRetries",
    "deprecatedAPIs",
];

/// A budget of one client with these limits.
fn budget(user: &str, limits: &str) -> String {
    // YAML takes no control characters but as escapes.
    let escaped: String = Value::from(user)
        .to_string()
        .chars()
        .map(|c| if c.is_ascii() { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) })
        .collect();
    format!("apiVersion: plimsoll.io/v1alpha1\nkind: Budget\nclient: {{user: {escaped}}}\nlimits: {limits}\n")
}

/// The rows of a check, by rule and resource.
fn rows(report: &Value) -> BTreeMap<(String, String), Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["rows"].as_array().unwrap().iter();
    all.map(|row| ((text(&row["rule"]), text(&row["resource"])), row.clone())).collect()
}

fn logs(bundle: &str) -> Vec<String> {
    let pattern = format!("{}/audit/*/*", sample(bundle));
    let found: Vec<String> =
        glob::glob(&pattern).unwrap().map(|path| path.unwrap().to_str().unwrap().to_owned()).collect();
    assert!(!found.is_empty(), "{pattern}");
    found
}

#[test]
fn counts_are_those_of_python() {
    let place = folder();
    let cases: [(&str, &str, &[&str]); 6] = [
        ("overload-restart", "system:serviceaccount:platform:legacy-sync", &[]),
        ("list-storm", "system:serviceaccount:data:stale-cache", &[]),
        ("list-storm", "system:kube-controller-manager", &[]),
        ("list-storm", "system:kube-scheduler", &[]),
        ("quiet", "system:kube-controller-manager", &[]),
        (
            "controllers",
            "system:kube-controller-manager",
            &["metrics/kube-controller-manager-a", "metrics/kube-controller-manager-b"],
        ),
    ];
    let mut seen: BTreeMap<String, f64> = BTreeMap::new();
    for (bundle, user, pages) in cases {
        let pages: Vec<String> = pages.iter().map(|page| format!("{}/{page}", sample(bundle))).collect();
        let logs = logs(bundle);
        let mut args = vec![user];
        pages.iter().for_each(|page| args.extend(["--pages", page]));
        args.extend(logs.iter().map(String::as_str));
        let theirs = oracle(&args);
        // Limits that nothing is within, so that each is counted.
        let limits: BTreeMap<&str, f64> =
            RULES.iter().map(|rule| (*rule, if *rule == "writesPerObjectPerMinute" { 12.0 } else { 0.0 })).collect();
        let file = write(place.path(), "budget.yaml", budget(user, &json!(limits).to_string()));
        let ran = plimsoll(&[&["budget", "check", &file][..], &args_of(&logs, &pages), &["-o", "json"]].concat());
        let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
        let mine = rows(&report);
        for (rule, theirs) in &theirs {
            let row = &mine[&(rule.clone(), String::new())];
            let mine = row["counted"].as_f64().unwrap_or_else(|| panic!("{bundle} {user} {rule}: {row}"));
            assert!((mine - theirs).abs() < 1e-5 * theirs.max(0.1), "{bundle} {user} {rule}: {mine}, not {theirs}");
            *seen.entry(rule.clone()).or_default() += theirs;
        }
    }
    // Each rule was counted where there was something to count.
    let nothing: Vec<&String> = seen.iter().filter(|(_, count)| **count == 0.0).map(|(rule, _)| rule).collect();
    assert_eq!((seen.len(), nothing), (8, Vec::new()));
}

/// A small controller against a kube-apiserver with the flags of envtest: what is counted is what it knows it sent.
#[test]
fn a_run_of_envtest_is_counted_as_it_was_sent() {
    let truth: Value = serde_json::from_str(&std::fs::read_to_string(sample("envtest/truth.json")).unwrap()).unwrap();
    let user = truth["client"].as_str().unwrap();
    let place = folder();
    let limits = r#"{fullLists: 0, startupLists: 4, watchesWithoutBookmarks: 1, requestsPerMinute: 30,
        noOpWrites: 7, earlyRetries: 0, deprecatedAPIs: 0}"#;
    let file = write(place.path(), "budget.yaml", budget(user, limits));
    let log = sample("envtest/audit.log.zst");
    let ran = plimsoll(&["budget", "check", &file, &log, "-o", "json"]);
    ran.exits(1);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let mine = rows(&report);
    for rule in [
        "fullLists",
        "startupLists",
        "watchesWithoutBookmarks",
        "requestsPerMinute",
        "noOpWrites",
        "earlyRetries",
        "deprecatedAPIs",
    ] {
        assert_eq!(
            mine[&(rule.to_owned(), String::new())]["counted"].as_f64(),
            truth["rules"][rule].as_f64(),
            "{rule}"
        );
    }
    let requests =
        plimsoll(&["traffic", &log, "--by", "verb", "--where", &format!("user={user}"), "-o", "json"]).json(0);
    for row in requests["rows"].as_array().unwrap() {
        assert_eq!(row["requests"], truth["verbs"][row["verb"].as_str().unwrap()], "{row}");
    }
}

fn args_of<'a>(logs: &'a [String], pages: &'a [String]) -> Vec<&'a str> {
    logs.iter().chain(pages).map(String::as_str).collect()
}

/// An event of a test cluster's log.
fn event(second: u32, verb: &str, uri: &str, more: Value) -> String {
    let time = format!("2026-11-20T09:{:02}:{:02}.000000Z", second / 60, second % 60);
    let mut event = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
        "auditID": format!("{second}-{verb}-{uri}"), "stage": "ResponseComplete", "requestURI": uri, "verb": verb,
        "user": {"username": "bot"}, "sourceIPs": ["10.0.0.1"], "userAgent": "bot/v1",
        "objectRef": {"resource": "pods", "namespace": "a", "name": "x", "apiVersion": "v1"},
        "responseStatus": {"code": 200}, "requestReceivedTimestamp": time, "stageTimestamp": time});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event.to_string() + "\n"
}

/// A start with one LIST and a watch, then a GET and an update each ten seconds for five minutes.
fn log(level: &str) -> String {
    let mut text = event(0, "list", "/api/v1/pods?limit=500", json!({"objectRef": {"resource": "pods"}}));
    let watch = "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5";
    text += &event(1, "watch", watch, json!({"objectRef": {"resource": "pods"}}));
    for number in 1..=30 {
        text += &event(number * 10, "get", "/api/v1/namespaces/a/pods/x", json!({}));
        let body = match level {
            "RequestResponse" => json!({"level": level, "responseObject": {"kind": "Pod",
                "metadata": {"name": "x", "resourceVersion": number.to_string()}}}),
            _ => json!({}),
        };
        text += &event(number * 10 + 1, "update", "/api/v1/namespaces/a/pods/x", body);
    }
    text
}

const PAGE: &str = "# TYPE workqueue_work_duration_seconds histogram
workqueue_work_duration_seconds_bucket{name=\"pods\",le=\"+Inf\"} 30
workqueue_work_duration_seconds_sum{name=\"pods\"} 1
workqueue_work_duration_seconds_count{name=\"pods\"} 30
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1795165195
";

#[test]
fn a_controller_in_ci_passes_only_where_all_is_known() {
    let place = folder();
    let whole = write(place.path(), "whole/audit.log", log("RequestResponse"));
    let page = write(place.path(), "metrics/bot/1795165520.txt", PAGE);
    let limits = "{fullLists: 0, startupLists: 1, watchesWithoutBookmarks: 0, requestsPerMinute: 13, \
                  writesPerObjectPerMinute: 12, requestsPerReconcile: 2.1, noOpWrites: 0, earlyRetries: 0, \
                  deprecatedAPIs: 0}";
    let file = write(place.path(), "budget.yaml", budget("bot", limits));
    let check = |sources: &[&str]| plimsoll(&[&["budget", "check", &file], sources, &["-o", "json"]].concat());
    let report = check(&[&whole, &page]).json(0);
    assert_eq!(
        report["totals"],
        json!({"budgets": 1, "limits": 9, "within": 9, "excepted": 0, "exceeded": 0,
        "unknown": 0})
    );
    // 30 GETs, 30 updates and the paged LIST for 30 items; the watch is not counted.
    let ratio = rows(&report)[&("requestsPerReconcile".to_owned(), String::new())]["counted"].as_f64().unwrap();
    assert!((ratio - 61.0 / 30.0).abs() < 1e-5, "{ratio}");
    // Each thing that is missing makes what rests on it unknown, and nothing else; never exit code 0.
    let bare = write(place.path(), "bare/audit.log", log("Metadata"));
    let unknown = |sources: &[&str]| -> Vec<String> {
        let ran = check(sources);
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let rows = rows(&report).into_iter().filter(|(_, row)| row["budget_verdict"] == "unknown");
        let names: Vec<String> = rows.map(|((rule, _), _)| rule).collect();
        for name in &names {
            assert!(ran.stderr.contains(&format!("{name} of bot: not checked: ")), "{}", ran.stderr);
        }
        names
    };
    assert_eq!(unknown(&[&bare, &page]), ["noOpWrites"]);
    assert_eq!(unknown(&[&whole]), ["requestsPerReconcile"]);
    let without = |dropped: &str| {
        let pattern = format!("\"verb\":\"{dropped}\"");
        let kept: Vec<String> = log("RequestResponse")
            .lines()
            .filter(|line| !line.contains(&pattern))
            .map(|line| format!("{line}\n"))
            .collect();
        write(place.path(), &format!("no-{dropped}/audit.log"), kept.concat())
    };
    // What counts all requests takes all verbs.
    let all = |more: &[&'static str]| -> Vec<&'static str> {
        let mut all = [&["deprecatedAPIs", "earlyRetries", "requestsPerMinute"], more].concat();
        all.sort_unstable();
        all
    };
    assert_eq!(unknown(&[&without("watch"), &page]), all(&["watchesWithoutBookmarks"]));
    assert_eq!(unknown(&[&without("list"), &page]), all(&["fullLists"]));
    assert_eq!(unknown(&[&without("update"), &page]), all(&["noOpWrites", "writesPerObjectPerMinute"]));
    // Pages that go on when the log has ended, and a log of which a line is damaged.
    let late = write(place.path(), "late/bot/1795167000.txt", PAGE);
    assert_eq!(unknown(&[&whole, &late]), ["requestsPerReconcile"]);
    let damaged = log("RequestResponse").replacen("\"verb\":\"get\"", "\"verb\":", 1);
    let damaged = write(place.path(), "damaged/audit.log", damaged);
    assert_eq!(unknown(&[&damaged, &page]).len(), 9);
    // Only the start.
    let start: Vec<String> = log("RequestResponse").lines().take(9).map(|line| format!("{line}\n")).collect();
    let start = write(place.path(), "start/audit.log", start.concat());
    assert_eq!(unknown(&[&start, &page]), ["fullLists", "requestsPerReconcile"]);
    // Of somebody else nothing is known.
    let file = write(place.path(), "other.yaml", budget("somebody", "{fullLists: 0, deprecatedAPIs: 0}"));
    let ran = plimsoll(&["budget", "check", &file, &whole]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stdout.contains("2 unknown") && ran.stderr.contains("no request of this client"), "{}", ran.stderr);
}

#[test]
fn exceptions_hold_until_their_day_is_over() {
    let place = folder();
    let logs = logs("overload-restart");
    let user = "platform:legacy-sync";
    let check = |exceptions: &str| {
        let text = format!("{}exceptions: {exceptions}\n", budget(user, "{fullLists: 3, requestsPerMinute: 10}"));
        let file = write(place.path(), "budget.yaml", text);
        let mut args = vec!["budget", "check", &file];
        args.extend(logs.iter().map(String::as_str));
        plimsoll(&[&args[..], &["-o", "json"]].concat())
    };
    let verdicts = |report: &Value| -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = report["rows"].as_array().unwrap().iter();
        all.map(|row| (text(&row["rule"]), text(&row["resource"]), text(&row["budget_verdict"]))).collect()
    };
    let row = |rule: &str, resource: &str, verdict: &str| (rule.to_owned(), resource.to_owned(), verdict.to_owned());
    let both = "[{rule: fullLists, resource: configmaps, max: 5000, until: 2999-12-31, reason: OPS-1}, \
                {rule: requestsPerMinute, max: 800, until: 2999-12-31, reason: OPS-2}]";
    let report = check(both).json(0);
    let expected = [
        row("fullLists", "", "within"),
        row("fullLists", "configmaps", "excepted"),
        row("requestsPerMinute", "", "excepted"),
    ];
    assert_eq!(verdicts(&report), expected);
    // Not enough of it, and one that is over.
    let report = check(&both.replace("5000", "50").replace("800, until: 2999", "800, until: 2025")).json(1);
    let expected = [
        row("fullLists", "", "within"),
        row("fullLists", "configmaps", "exceeded"),
        row("requestsPerMinute", "", "exceeded"),
    ];
    assert_eq!(verdicts(&report), expected);
    let note = report["notes"].to_string() + &report["messages"].to_string();
    let people = plimsoll(
        &[
            &["budget", "check", place.path().join("budget.yaml").to_str().unwrap()][..],
            &logs.iter().map(String::as_str).collect::<Vec<_>>(),
        ]
        .concat(),
    );
    let said = "The exception to requestsPerMinute for platform:legacy-sync ended on 2025-12-31: OPS-2.";
    assert!(people.stdout.contains(said), "{note} {}", people.stdout);
    assert_eq!(report["findings"].as_array().unwrap().len(), 2);
    assert_eq!(report["findings"][0]["id"], "budget-exceeded");
}

#[test]
fn what_is_proposed_holds_for_what_it_was_made_of() {
    let place = folder();
    let requests = Regex::new("requestsPerMinute: [0-9]+").unwrap();
    for (bundle, client) in [("list-storm", "stale-cache"), ("controllers", "system:kube-controller-manager")] {
        let source = sample(bundle);
        let made = plimsoll(&["budget", "init", &source, "--client", client, "--owner", "team: a", "--headroom", "0%"]);
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        let file = write(place.path(), "budget.yaml", &made.stdout);
        let report = plimsoll(&["budget", "check", &file, &source, "-o", "json"]).json(0);
        let limits = report["totals"]["limits"].as_u64().unwrap();
        assert_eq!(report["totals"]["within"].as_u64(), Some(limits), "{report}");
        assert_eq!(report["rows"][0]["owner"], "team: a");
        // Less than that is exceeded.
        let less = requests.replace(&made.stdout, "requestsPerMinute: 1");
        let file = write(place.path(), "less.yaml", less.as_bytes());
        plimsoll(&["budget", "check", &file, &source]).exits(1);
    }
}

#[test]
fn junit_is_xml_whatever_names_are_in_it() {
    let place = folder();
    let whole = write(place.path(), "audit.log", log("Metadata"));
    let odd = "a<b>&\"'\u{1b}[31m\u{0}\u{fffe}\u{202e}]]>";
    let text = [
        budget("bot", "{requestsPerMinute: 1, fullLists: 0, noOpWrites: 0}"),
        "---\n".to_owned(),
        budget(odd, "{fullLists: 0}"),
    ]
    .concat();
    let file = write(place.path(), "budget.yaml", text);
    let to = place.path().join("junit.xml");
    plimsoll(&["budget", "check", &file, &whole, "--junit", to.to_str().unwrap()]).exits(3);
    let script = "import sys, json, xml.etree.ElementTree as t\n\
        root = t.parse(sys.argv[1]).getroot()\n\
        cases = [(s.get('name'), c.get('name'), [x.tag for x in c]) for s in root for c in s]\n\
        print(json.dumps([dict(root.attrib), cases]))";
    let mut command = Command::new(python());
    command.args(["-c", script]).arg(&to);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&found[0]["tests"], &found[0]["failures"], &found[0]["errors"]),
        (&"4".into(), &"1".into(), &"2".into())
    );
    assert_eq!(found[1][0], json!(["bot", "fullLists", ["system-out"]]));
    assert_eq!(found[1][1], json!(["bot", "requestsPerMinute", ["failure"]]));
    assert_eq!(found[1][2], json!(["bot", "noOpWrites", ["error"]]));
    assert_eq!(found[1][3][2], json!(["error"]));
    assert!(!found[1][3][0].as_str().unwrap().contains('\u{1b}'));
}

#[test]
fn roll_ups_and_stores_say_the_same_as_logs() {
    let place = folder();
    let source = format!("{}/audit", sample("overload-restart"));
    let made = plimsoll(&["budget", "init", &source, "--client", "platform:legacy-sync", "--headroom", "0%"]);
    let tight = made.stdout.replace("fullLists: ", "fullLists: 0 # ");
    let file = write(place.path(), "budget.yaml", tight);
    let (to, store) = (place.path().join("rolled"), place.path().join("store"));
    plimsoll(&["rollup", &source, "--to", to.to_str().unwrap()]).exits(0);
    plimsoll(&["record", &source, "--store", store.to_str().unwrap(), "--once"]).exits(0);
    let check = |source: &str| plimsoll(&["budget", "check", &file, source, "-o", "json"]).json(1);
    let of_logs = check(&source);
    assert_eq!(of_logs["totals"]["exceeded"], 1, "{of_logs}");
    assert_eq!(check(to.to_str().unwrap())["rows"], of_logs["rows"]);
    assert_eq!(check(store.to_str().unwrap())["rows"], of_logs["rows"]);
}
