//! What has to hold between the answers to different questions: conditions, bounds in time, intervals, baselines,
//! threads.

use crate::support::{COUNTS, count, folder, micros, number, plimsoll, rows, sample, sample_bytes, traffic, write};
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The sums over the rows whose value of `dim` passes.
fn sums(rows: &[(String, Value)], passes: impl Fn(&str) -> bool) -> [u64; 5] {
    COUNTS.map(|field| rows.iter().filter(|(value, _)| passes(value)).map(|(_, row)| count(row, field)).sum())
}

fn totals(report: &Value) -> [u64; 5] {
    COUNTS.map(|field| count(&report["totals"], field))
}

fn by_value(source: &str, dim: &str) -> Vec<(String, Value)> {
    rows(&traffic(source, dim, &[]), dim).into_iter().map(|(key, row)| (key[0].clone(), row)).collect()
}

fn matches(pattern: &str) -> impl Fn(&str) -> bool {
    let regex = Regex::new(pattern).unwrap();
    move |value| regex.is_match(value)
}

fn as_number(value: &str) -> Option<i64> {
    value.parse().ok()
}

/// A condition on a dimension, and the test that its values have to pass.
type Condition = (&'static str, &'static str, Box<dyn Fn(&str) -> bool>);

#[test]
fn conditions_choose_rows() {
    let conditions: Vec<Condition> = vec![
        ("verb", "verb=list", Box::new(|v| v == "list")),
        ("verb", "verb = list", Box::new(|v| v == "list")),
        ("verb", "verb!=watch", Box::new(|v| v != "watch")),
        ("namespace", "namespace=", Box::new(str::is_empty)),
        ("namespace", "namespace!=", Box::new(|v| !v.is_empty())),
        ("resource", "resource=~^(pods|nodes)$", Box::new(matches("^(pods|nodes)$"))),
        ("resource", "resource=~s", Box::new(matches("s"))),
        ("user", "user=~^system:serviceaccount:", Box::new(matches("^system:serviceaccount:"))),
        ("user", "user!~^system:", Box::new(matches("^[^s]|^s[^y]|^sy[^s]|^$"))),
        ("agent", "agent!~(?i)^KUBE", Box::new(|v| !v.to_lowercase().starts_with("kube"))),
        ("code", "code>399", Box::new(|v| as_number(v).is_some_and(|code| code > 399))),
        ("code", "code>=404", Box::new(|v| as_number(v).is_some_and(|code| code >= 404))),
        ("code", "code<=201", Box::new(|v| as_number(v).is_some_and(|code| code <= 201))),
        ("code", "code<400", Box::new(|v| as_number(v).is_some_and(|code| code < 400))),
        ("code", "code>200", Box::new(|v| as_number(v).is_some_and(|code| code > 200))),
        ("code", "code<1000", Box::new(|v| as_number(v).is_some())),
        ("resource", "resource>nodes", Box::new(|v| v > "nodes")),
        ("resource", "resource<nodes", Box::new(|v| !v.is_empty() && v < "nodes")),
        ("instance", "instance=apiserver-0", Box::new(|v| v == "apiserver-0")),
        ("scope", "scope=object", Box::new(|v| v == "object")),
        ("source-ip", "source-ip=~^127\\.0\\.1\\.", Box::new(matches(r"^127\.0\.1\."))),
    ];
    for name in ["list-storm", "overload-restart"] {
        let source = sample(name);
        let mut chosen = 0;
        let mut known: BTreeMap<&str, Vec<(String, Value)>> = BTreeMap::new();
        for (dim, condition, passes) in &conditions {
            let all = known.entry(dim).or_insert_with(|| by_value(&source, dim));
            let expected = sums(all, passes);
            // Broken down by something else, so that the condition is not tested by what it is compared with.
            let found = traffic(&source, "verb,resource", &["--where", condition]);
            assert_eq!(totals(&found), expected, "{condition} on {name}");
            assert!(expected[0] > 0, "{condition} chooses nothing of {name}");
            chosen += usize::from(expected[0] < sums(all, |_| true)[0]);
        }
        assert!(chosen >= conditions.len() - 3, "the conditions choose nearly everything of {name}");
    }
}

#[test]
fn all_conditions_must_hold() {
    let source = sample("overload-restart");
    let all = rows(&traffic(&source, "verb,resource,code", &[]), "verb,resource,code");
    let expected: u64 = all
        .iter()
        .filter(|(key, _)| key[0] == "list" && key[1] != "pods" && as_number(&key[2]).is_some_and(|code| code > 399))
        .map(|(_, row)| count(row, "requests"))
        .sum();
    let found = traffic(&source, "user", &["--where", "verb=list", "--where", "resource!=pods", "--where", "code>399"]);
    assert_eq!(count(&found["totals"], "requests"), expected);
    assert!(expected > 0);
    // Nothing is an answer too.
    let nothing = traffic(&source, "user", &["--where", "verb=list", "--where", "verb=get"]);
    assert_eq!((count(&nothing["totals"], "requests"), nothing["rows"].as_array().unwrap().len()), (0, 0));
}

/// A sample's log without long-running requests, as lines.
fn short_requests(folder: &tempfile::TempDir) -> String {
    let mut log = Vec::new();
    for line in sample_bytes("quiet/audit/apiserver-0/audit.log.zst").split_inclusive(|&b| b == b'\n') {
        let event: Value = serde_json::from_slice(line).unwrap();
        let subresource = event["objectRef"]["subresource"].as_str().unwrap_or_default();
        let long = event["verb"] == "watch"
            || event["verb"] == "proxy"
            || ["attach", "exec", "log", "portforward", "proxy"].contains(&subresource)
            || event["requestURI"].as_str().unwrap().starts_with("/debug/pprof/");
        if !long && event["stage"] == "ResponseComplete" {
            log.extend_from_slice(line);
        }
    }
    write(folder.path(), "audit.log", log)
}

#[test]
fn before_and_after_make_the_whole() {
    const BY: &str = "verb,resource,user";
    let folder = folder();
    let path = short_requests(&folder);
    let all = traffic(&path, BY, &[]);
    let lines = std::fs::read_to_string(&path).unwrap().lines().count() as u64;
    assert_eq!(count(&all["totals"], "requests"), lines);
    // A time at which an event ended: it belongs to what comes after.
    let text = std::fs::read_to_string(&path).unwrap();
    let exact = text.lines().nth(1000).unwrap().split("\"stageTimestamp\":\"").nth(1).unwrap()[..27].to_owned();
    for at in ["2026-11-20T09:43:00Z", "2026-11-20T09:44:00.5Z", "2026-11-20T10:44:30+01:00", &exact] {
        let (before, after) = (traffic(&path, BY, &["--until", at]), traffic(&path, BY, &["--since", at]));
        let mut sum: BTreeMap<Vec<String>, [u64; 5]> = BTreeMap::new();
        for (key, row) in rows(&before, BY).into_iter().chain(rows(&after, BY)) {
            let counts = sum.entry(key).or_default();
            COUNTS.iter().zip(counts).for_each(|(field, all)| *all += count(&row, field));
        }
        let whole: BTreeMap<_, _> =
            rows(&all, BY).into_iter().map(|(key, row)| (key, COUNTS.map(|field| count(&row, field)))).collect();
        assert_eq!(sum, whole, "split at {at}");
        assert!(totals(&before)[0] > 100 && totals(&after)[0] > 100, "{at} splits nothing off");
        let split = at.parse::<jiff::Timestamp>().unwrap().as_microsecond();
        let expected = text
            .lines()
            .filter(|line| {
                let event: Value = serde_json::from_str(line).unwrap();
                micros(&event["stageTimestamp"]) < split
            })
            .count() as u64;
        assert_eq!(count(&before["totals"], "requests"), expected, "ended before {at}");
    }
    for (bounds, expected) in [
        (["--since", "2030-01-01"], 0),
        (["--until", "2030-01-01"], lines),
        (["--since", "now-9999d"], lines),
        (["--since", "-9999d"], lines),
        (["--until", "now-9999d"], 0),
    ] {
        assert_eq!(count(&traffic(&path, BY, &bounds)["totals"], "requests"), expected, "{bounds:?}");
    }
}

#[test]
fn intervals_sum_up_to_the_whole() {
    const BY: &str = "verb,user";
    for (name, interval, seconds) in [("list-storm", "10s", 10), ("overload-restart", "1m", 60), ("quiet", "7s", 7)] {
        let source = sample(name);
        let whole = traffic(&source, BY, &[]);
        let series = traffic(&source, BY, &["--series", "--interval", interval]);
        let mut sum: BTreeMap<Vec<String>, [u64; 5]> = BTreeMap::new();
        let mut times = BTreeSet::new();
        for (key, row) in rows(&series, &format!("time,{BY}")) {
            let at = micros(&row["time"]);
            assert_eq!(at.rem_euclid(seconds * 1_000_000), 0, "{key:?} is not aligned to {interval}");
            times.insert(at);
            let counts = sum.entry(key[1..].to_vec()).or_default();
            COUNTS.iter().zip(counts).for_each(|(field, all)| *all += count(&row, field));
            let rate = count(&row, "requests") as f64 / seconds as f64;
            assert!((number(&row, "rps") - rate).abs() <= 1e-6, "{row}");
        }
        let expected: BTreeMap<_, _> =
            rows(&whole, BY).into_iter().map(|(key, row)| (key, COUNTS.map(|field| count(&row, field)))).collect();
        assert_eq!(sum, expected, "{name} by {interval}");
        assert_eq!(totals(&series), totals(&whole));
        assert!(times.len() > 3, "{times:?}");
        let (from, to) = (micros(&whole["window"]["from"]), micros(&whole["window"]["to"]));
        assert!(
            times.iter().all(|at| *at > from - seconds * 1_000_000 && *at <= to),
            "{name}: intervals outside the log"
        );
    }
    // Without a length one is chosen; people get the course of each row, and a line per interval.
    let chosen = traffic(&sample("quiet"), "verb", &["--series"]);
    assert_eq!(totals(&chosen), totals(&traffic(&sample("quiet"), "verb", &[])));
    let shown = plimsoll(&["traffic", &sample("quiet"), "--by", "verb", "--series", "--interval", "1m"]);
    assert!(shown.exits(0).stdout.contains('█') && shown.stdout.contains("2026-11-20T09:43:00Z"), "{}", shown.stdout);
}

#[test]
fn a_log_is_unchanged_against_itself() {
    let source = sample("list-storm");
    let report = traffic(&source, "verb,resource,user", &["--baseline", &source]);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() > 100);
    for row in rows.iter().chain([&report["totals"]]) {
        assert_eq!(row["base_requests"], row["requests"], "{row}");
        assert_eq!(row["base_rps"], row["rps"], "{row}");
        assert_eq!(row["rps_change"].as_f64(), Some(0.0), "{row}");
        assert_eq!(row["base_error_rate"], row["error_rate"], "{row}");
        assert_eq!(row["base_p99_ms"], row["p99_ms"], "{row}");
        assert_eq!(row["p99_change"].as_f64(), row["p99_ms"].as_f64().map(|_| 0.0), "{row}");
    }
}

#[test]
fn a_baseline_shows_what_came_and_went() {
    let (now, was) = (sample("list-storm"), sample("quiet"));
    let report = rows(&traffic(&now, "agent", &["--baseline", &was]), "agent");
    // Requests by agent, and the seconds of the log.
    let alone = |source: &str| {
        let report = traffic(source, "agent", &[]);
        let requests: BTreeMap<_, _> =
            rows(&report, "agent").into_iter().map(|(key, row)| (key, count(&row, "requests"))).collect();
        (requests, number(&report["window"], "seconds"))
    };
    let ((after, seconds), (before, base_seconds)) = (alone(&now), alone(&was));
    let keys: BTreeSet<_> = after.keys().chain(before.keys()).collect();
    assert_eq!(report.keys().collect::<Vec<_>>(), keys.into_iter().collect::<Vec<_>>());
    for (key, row) in &report {
        let [now, was] = [&after, &before].map(|requests| requests.get(key).copied().unwrap_or(0));
        assert_eq!((count(row, "requests"), count(row, "base_requests")), (now, was), "{key:?}");
        match row["rps_change"].as_f64() {
            Some(change) => {
                let truth = (now as f64 / seconds) / (was as f64 / base_seconds) - 1.0;
                assert!((change - truth).abs() <= 1e-6, "{change} and not {truth}: {row}");
            }
            None => assert_eq!(was, 0, "{row}"),
        }
    }
    assert!(report.values().any(|row| row["rps_change"].is_null()), "list-storm has agents that quiet has not");
    assert!(report.values().any(|row| row["rps_change"].as_f64().is_some_and(|change| change != 0.0)));
}

#[test]
fn threads_change_nothing() {
    // Unpacked, so that the files are read in blocks by all threads; two instances, so that streams interleave.
    let folder = folder();
    for (from, to) in [
        ("list-storm/audit/apiserver-0/audit.log.zst", "apiserver-0/audit.log"),
        ("list-storm/audit/apiserver-1/audit.log.zst", "apiserver-1/audit.log"),
        (
            "overload-restart/audit/apiserver-0/audit-2026-11-20T09-37-56.438.log.zst",
            "apiserver-2/audit-2026-11-20T09-37-56.438.log",
        ),
        (
            "overload-restart/audit/apiserver-0/audit-2026-11-20T09-40-27.680.log.zst",
            "apiserver-2/audit-2026-11-20T09-40-27.680.log",
        ),
        ("overload-restart/audit/apiserver-0/audit.log.zst", "apiserver-2/audit.log.zst"),
    ] {
        let content = if to.ends_with(".zst") { std::fs::read(sample(from)).unwrap() } else { sample_bytes(from) };
        write(folder.path(), to, content);
    }
    let source = folder.path().to_str().unwrap();
    for more in [
        &["--by", "verb,resource,user"][..],
        &["--by", "name,source-ip,minute"],
        &["--by", "stage,instance,code"],
        &["--by", "agent", "--series", "--interval", "10s"],
        &["--by", "user", "--where", "code>399"],
    ] {
        let report = |threads: &str| {
            let ran = plimsoll(&[&["traffic", source, "-o", "json", "--threads", threads], more].concat());
            ran.exits(0);
            ran.stdout
        };
        let one = report("1");
        assert!(one.len() > 2000, "{more:?}: {one}");
        for threads in ["2", "3", "4", "5", "6", "7", "8"] {
            assert!(report(threads) == one, "{more:?} with {threads} threads differs from one");
        }
    }
}
