//! Every number of `plimsoll traffic`, by every dimension and on every sample, against independent counts: the plain
//! Python of `tests/oracle/traffic.py`, numpy's quantiles, and jq.

use crate::support::{
    COUNTS, count, differences, feed, folder, micros, none, number, oracle, plimsoll, rows, sample, sample_bytes,
    traffic, write,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const BREAKDOWNS: [&str; 26] = [
    "verb",
    "resource",
    "group",
    "subresource",
    "namespace",
    "name",
    "user",
    "serviceaccount",
    "agent",
    "agent-version",
    "source-ip",
    "node",
    "code",
    "code-class",
    "instance",
    "cluster",
    "scope",
    "stage",
    "minute",
    "verb,resource",
    "instance,code",
    "stage,verb",
    "agent,source-ip",
    "verb,resource,user",
    "minute,verb,code-class",
    "group,resource,subresource,scope",
];

/// The logs of a sample as the oracle wants them: cluster from `bundle.yaml`, instance from the folder.
fn labelled(name: &str) -> Vec<String> {
    let bundle = std::fs::read_to_string(sample(&format!("{name}/bundle.yaml"))).unwrap();
    let cluster = bundle.lines().find_map(|line| line.strip_prefix("cluster: ")).expect("bundle.yaml names a cluster");
    let mut files = Vec::new();
    for folder in std::fs::read_dir(sample(&format!("{name}/audit"))).unwrap() {
        let folder = folder.unwrap();
        let instance = folder.file_name().into_string().unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            files.push(format!("{cluster}:{instance}={}", file.unwrap().path().display()));
        }
    }
    files.sort();
    files
}

fn check_sample(name: &str, instances: &[&str], files: usize) {
    let labelled = labelled(name);
    assert_eq!(labelled.len(), files, "{labelled:?}");
    let truth = oracle(&BREAKDOWNS, &labelled, &[]);
    let mut faults = Vec::new();
    for by in BREAKDOWNS {
        let report = traffic(&sample(name), by, &[]);
        let expected = &truth["breakdowns"][by];
        faults.extend(differences(&report, expected, by));
        check_arithmetic(&report, &truth);
        let records: u64 = report["inputs"].as_array().unwrap().iter().map(|input| count(input, "records")).sum();
        assert_eq!(records, count(expected, "events"), "events of {name}");
    }
    none(&faults);
    let by_instance = rows(&traffic(&sample(name), "instance", &[]), "instance");
    assert_eq!(by_instance.keys().map(|key| key[0].as_str()).collect::<Vec<_>>(), instances);
}

/// What follows from the counts: shares, rates, and the sums; and the window from the oracle's first and last event.
fn check_arithmetic(report: &Value, truth: &Value) {
    let (window, totals) = (&report["window"], &report["totals"]);
    assert_eq!(micros(&window["from"]), truth["first"].as_i64().unwrap());
    assert_eq!(micros(&window["to"]), truth["last"].as_i64().unwrap());
    let seconds = (truth["last"].as_f64().unwrap() - truth["first"].as_f64().unwrap()) / 1e6;
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6;
    assert!(near(number(window, "seconds"), seconds) && seconds > 100.0, "{window}");
    let rows = report["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for field in COUNTS {
        assert_eq!(rows.iter().map(|row| count(row, field)).sum::<u64>(), count(totals, field), "{field}");
    }
    assert_eq!(count(totals, "rows"), rows.len() as u64);
    let all = count(totals, "requests") as f64;
    for row in rows.iter().chain([totals]) {
        let requests = count(row, "requests") as f64;
        assert!(near(number(row, "rps"), requests / seconds), "rps of {row}");
        assert!(near(number(row, "error_rate"), count(row, "errors") as f64 / requests), "error_rate of {row}");
    }
    for row in rows {
        assert!(near(number(row, "share"), count(row, "requests") as f64 / all), "share of {row}");
    }
    let order: Vec<u64> = rows.iter().map(|row| count(row, "requests")).collect();
    assert!(order.is_sorted_by(|a, b| a >= b), "the busiest first");
}

#[test]
fn list_storm_by_everything() {
    check_sample("list-storm", &["apiserver-0", "apiserver-1"], 2);
}

#[test]
fn overload_restart_by_everything() {
    // A server that was killed: long-running requests without an end; rotated files are one stream.
    check_sample("overload-restart", &["apiserver-0"], 3);
    let totals = &traffic(&sample("overload-restart"), "verb", &[])["totals"];
    assert!(count(totals, "open") > 100 && count(totals, "throttled") > 100, "{totals}");
}

#[test]
fn quiet_by_everything() {
    check_sample("quiet", &["apiserver-0"], 1);
}

#[test]
fn the_comparison_finds_a_wrong_number() {
    let by = "verb";
    let truth = oracle(&[by], &labelled("quiet"), &[]);
    let report = traffic(&sample("quiet"), by, &[]);
    let differs = |report: &Value| !differences(report, &truth["breakdowns"][by], by).is_empty();
    assert!(!differs(&report));
    for (field, change) in
        [("requests", 1.0), ("errors", 1.0), ("peak_rps", 0.1), ("p99_ms", 20.0), ("p50_ms", 1.0), ("max_ms", 0.001)]
    {
        let mut wrong = report.clone();
        let value = &mut wrong["rows"][0][field];
        *value = match value.as_u64() {
            Some(count) => (count + 1).into(),
            None => (value.as_f64().unwrap() + change).into(),
        };
        assert!(differs(&wrong), "a wrong {field} goes unseen");
    }
    let mut missing = report;
    missing["rows"].as_array_mut().unwrap().pop();
    assert!(differs(&missing), "a missing row goes unseen");
}

/// The oracle and the program might share a misunderstanding; jq's count is a third.
#[test]
fn quiet_by_verb_as_jq_counts() {
    const PROGRAM: &str = r#"
        [inputs] as $all
        | [$all[] | select(.stage == "ResponseComplete" or .stage == "Panic")] as $ends
        | (reduce $ends[] as $e ({}; .[$e.auditID] = true)) as $ended
        | $ends + [$all[] | select(.stage == "ResponseStarted" and ($ended[.auditID] | not))]
        | {verbs: (group_by(.verb) | map({key: .[0].verb, value: length}) | from_entries),
           from: ([$all[].stageTimestamp] | min), to: ([$all[].stageTimestamp] | max)}"#;
    let mut jq = Command::new("jq");
    jq.args(["-n", "-c", PROGRAM]);
    let ran = feed(jq, &sample_bytes("quiet/audit/apiserver-0/audit.log.zst"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let truth: Value = serde_json::from_str(&ran.stdout).unwrap();
    let report = traffic(&sample("quiet"), "verb", &[]);
    let found: BTreeMap<String, u64> =
        rows(&report, "verb").iter().map(|(key, row)| (key[0].clone(), count(row, "requests"))).collect();
    let expected: BTreeMap<String, u64> = serde_json::from_value(truth["verbs"].clone()).unwrap();
    assert_eq!(found, expected);
    assert!(expected.len() > 5, "{expected:?}");
    assert_eq!((&report["window"]["from"], &report["window"]["to"]), (&truth["from"], &truth["to"]));
}

/// Query of a LIST, its resource, and its `list-kind` on v1.30, on v1.36, and where the version is not known.
const LISTS: [(&str, &str, [&str; 3]); 9] = [
    ("", "pods", ["full-etcd", "full-cache", "full-unsure"]),
    ("?resourceVersion=0", "pods", ["full-cache", "full-cache", "full-cache"]),
    ("?resourceVersion=", "pods", ["full-etcd", "full-cache", "full-unsure"]),
    ("?limit=500", "pods", ["paged-etcd", "paged-cache", "paged-unsure"]),
    ("?limit=0", "pods", ["full-etcd", "full-cache", "full-unsure"]),
    ("?limit=500&continue=eyJ2", "pods", ["paged-etcd", "paged-unsure", "paged-unsure"]),
    ("?resourceVersion=7&resourceVersionMatch=NotOlderThan", "pods", ["full-cache", "full-cache", "full-cache"]),
    ("?resourceVersion=7&resourceVersionMatch=Exact", "pods", ["full-etcd", "full-unsure", "full-unsure"]),
    ("", "events", ["full-etcd", "full-etcd", "full-etcd"]), // events have no watch cache
];

#[test]
fn list_kind_follows_the_version() {
    let folder = folder();
    let mut log = String::new();
    for (number, (query, resource, _)) in LISTS.iter().enumerate() {
        // `name` shows the requests apart.
        log += &format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{number}","stage":"ResponseComplete","requestURI":"/api/v1/{resource}{query}","verb":"list","user":{{"username":"u"}},"userAgent":"a","objectRef":{{"resource":"{resource}","name":"{number}","apiVersion":"v1"}},"responseStatus":{{"code":200}},"requestReceivedTimestamp":"2026-11-20T09:18:00.000000Z","stageTimestamp":"2026-11-20T09:18:00.001000Z"}}"#
        );
        log.push('\n');
    }
    let path = write(folder.path(), "audit.log", log);
    for (at, version) in [Some("v1.30"), Some("v1.36"), None].into_iter().enumerate() {
        let flags: Vec<&str> = version.into_iter().flat_map(|version| ["--k8s-version", version]).collect();
        let found = rows(&traffic(&path, "name,list-kind", &flags), "name,list-kind");
        let expected: Vec<Vec<String>> =
            LISTS.iter().enumerate().map(|(number, list)| vec![number.to_string(), list.2[at].to_owned()]).collect();
        assert_eq!(found.into_keys().collect::<Vec<_>>(), expected, "on {version:?}");
    }
    plimsoll(&["traffic", &path, "--k8s-version", "banana"]).exits(2);
}

#[test]
fn list_kind_of_a_sample() {
    let mut paged = BTreeMap::<bool, u64>::new();
    for line in
        sample_bytes("quiet/audit/apiserver-0/audit.log.zst").split(|&b| b == b'\n').filter(|line| !line.is_empty())
    {
        let event: Value = serde_json::from_slice(line).unwrap();
        if event["verb"] == "list" && event["objectRef"]["resource"].is_string() {
            let uri = event["requestURI"].as_str().unwrap();
            *paged.entry(["?limit=", "&limit=", "&continue="].iter().any(|text| uri.contains(text))).or_default() += 1;
        }
    }
    assert!(paged[&true] > 10 && paged[&false] > 10, "{paged:?}");
    let report = traffic(&sample("quiet"), "list-kind", &["--where", "verb=list", "--where", "resource!="]);
    let mut found = BTreeMap::<bool, u64>::new();
    for (key, row) in rows(&report, "list-kind") {
        let (pages, route) = key[0].split_once('-').expect("paged or full, and who answers");
        assert!(["paged", "full"].contains(&pages) && ["cache", "etcd", "unsure"].contains(&route), "{key:?}");
        *found.entry(pages == "paged").or_default() += count(&row, "requests");
    }
    assert_eq!(found, paged);
}

/// Logs that say the same in another way, and logs that say it twice, against the oracle.
#[test]
fn order_repetition_and_spelling_change_nothing() {
    const BY: &str = "verb,user,code";
    let text = String::from_utf8(sample_bytes("forms/v1.log")).unwrap();
    let large =
        String::from_utf8(sample_bytes("overload-restart/audit/apiserver-0/audit-2026-11-20T09-40-27.680.log.zst"))
            .unwrap();
    let reversed = |text: &str| text.lines().rev().flat_map(|line| [line, "\n"]).collect::<String>();
    let folder = folder();
    let mut faults = Vec::new();
    for (name, log) in [
        ("reversed.log", reversed(&text)),
        ("reversed-large.log", reversed(&large)),
        ("twice.log", format!("{text}{text}")),
        ("twice-large.log", format!("{large}{large}")),
        ("escaped-verb.log", text.replace("\"verb\":\"watch\"", "\"verb\":\"w\\u0061tch\"")),
        ("escaped-times.log", text.replace("Timestamp\":\"2026", "Timestamp\":\"\\u0032026")),
    ] {
        let path = write(folder.path(), name, log);
        let truth = oracle(&[BY], std::slice::from_ref(&path), &[]);
        let ran = plimsoll(&["traffic", &path, "--by", BY, "-o", "json"]);
        let report = serde_json::from_str(&ran.stdout).unwrap();
        faults.extend(
            differences(&report, &truth["breakdowns"][BY], BY).into_iter().map(|fault| format!("{name}: {fault}")),
        );
        if ran.code != Some(0) {
            faults.push(format!("{name}: exit code {:?}: {}", ran.code, ran.stderr.trim()));
        }
    }
    none(&faults);
}

/// A failed watch whose start stands in the log of one apiserver and whose end in that of another, as a log service may
/// have them, is one request in every run, however far one log is ahead of the other.
#[test]
fn a_failed_watch_is_one_request_however_its_logs_are_read() {
    let home = folder();
    let event = |number: u64, stage: &str, verb: &str, code: u16, millis: u64| {
        let at = |millis: u64| {
            format!("2026-11-20T10:{:02}:{:02}.{:03}000Z", millis / 60_000, millis / 1000 % 60, millis % 1000)
        };
        let uri = if verb == "watch" { "/api/v1/pods?watch=1" } else { "/api/v1/pods/x" };
        format!(
            "{{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Metadata\",\"auditID\":\"{number}\",\
             \"stage\":\"{stage}\",\"requestURI\":\"{uri}\",\"verb\":\"{verb}\",\"user\":{{\"username\":\"ann\"}},\
             \"sourceIPs\":[\"10.0.0.1\"],\"userAgent\":\"a/1\",\"objectRef\":{{\"resource\":\"pods\",\
             \"apiVersion\":\"v1\"}},\"responseStatus\":{{\"code\":{code}}},\"requestReceivedTimestamp\":\"{}\",\
             \"stageTimestamp\":\"{}\"}}\n",
            at(number * 100),
            at(number * 100 + millis),
        )
    };
    let (mut first, mut second) = (String::new(), String::new());
    for number in 0..3000 {
        if number % 10 == 0 {
            first += &event(number, "ResponseStarted", "watch", 403, 1);
            second += &event(number, "ResponseComplete", "watch", 403, 2);
        } else {
            let log = if number % 2 == 0 { &mut second } else { &mut first };
            *log += &event(number, "ResponseComplete", "get", 200, 1);
        }
    }
    let (a, b) = (write(home.path(), "a/audit.log", first), write(home.path(), "b/audit.log", second));
    let folder_of = |path: &str| Path::new(path).parent().unwrap().display().to_string();
    let sources = [folder_of(&a), folder_of(&b)];
    for _ in 0..6 {
        for command in [&["traffic", "--by", "verb"][..], &["clients"]] {
            let ran = plimsoll(&[command, &[&sources[0], &sources[1], "-o", "json"]].concat());
            assert_eq!(ran.json(0)["totals"]["requests"], 3000, "{command:?}");
        }
    }
}
