//! What `plimsoll compare` says, against `tests/oracle/compare.py`: roll-ups by DuckDB, bounds by scipy, logs of which
//! is known what changed.

use crate::compare_lab::{changes, compare, is_change, oracle, rows};
use crate::support::{feed, folder, plimsoll, python, sample};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

const BASE: [&str; 2] = ["2026-11-20T09:17:56", "2026-11-20T09:21:56"];
const INCIDENT: [&str; 2] = ["2026-11-20T09:21:56", "2026-11-20T09:24:26"];

fn window([from, to]: [&str; 2]) -> String {
    format!("{from}Z..{to}Z")
}

/// A storm's baseline and incident, as `compare` has them.
fn storm(more: &[&str]) -> Value {
    let (before, after) = (window(BASE), window(INCIDENT));
    compare(&[&[sample("list-storm").as_str(), "--before", &before, "--after", &after], more].concat())
}

#[test]
fn the_storm_s_clients_come_first_and_others_are_not_named() {
    let report = storm(&[]);
    let of_clients =
        rows(&report, |row| row["area"] == "clients" && is_change(row)).map(|row| row["agent"].as_str().unwrap());
    let named: Vec<&str> = of_clients.collect();
    let first: BTreeSet<&str> = named.iter().copied().take(2).collect();
    assert_eq!(first, BTreeSet::from(["node-agent", "event-spammer"]), "{named:?}");
    // NOTES.md: whose pace is the same in the incident as before.
    let steady = [
        "python-requests",
        "route-watcher",
        "config-writer",
        "authz-proxy",
        "curl",
        "web-operator",
        "velero-server",
        "hollow-kubelet",
    ];
    for name in steady {
        let row =
            rows(&report, |row| row["area"] == "clients" && row["agent"] == name && row["metric"] == "rps").next();
        assert!(row.is_some(), "{name} is compared");
        assert!(!named.contains(&name), "{name} is not said to have changed: {named:?}");
    }
    // By how much, NOTES.md says: every 2.5 s in place of 30 s; every second in place of 8 s.
    for (name, times) in [("node-agent", 12.0), ("Go-http-client", 8.0), ("event-spammer", 40.0)] {
        let row = rows(&report, |row| row["area"] == "clients" && row["agent"] == name && row["metric"] == "rps")
            .next()
            .unwrap();
        let (low, high) = (row["low"].as_f64().unwrap() + 1.0, row["high"].as_f64().unwrap_or(f64::INFINITY) + 1.0);
        assert_eq!(row["verdict"], "up", "{row}");
        assert!(low <= times && times <= high, "{name}: between {low} and {high}, not {times}");
    }
    let table = plimsoll(&[
        "compare",
        &sample("list-storm"),
        "--before",
        "09:17:56..09:21:56",
        "--after",
        "09:21:56..09:24:26",
    ])
    .stdout;
    // Of short windows the pieces of time are fewer than the bars could be; none between is empty.
    let short =
        plimsoll(&["compare", &sample("list-storm"), "--before", "09:20..09:21", "--after", "09:22..09:23"]).stdout;
    let bars = short
        .lines()
        .find(|line| line.starts_with("all ") && line.contains(" requests "))
        .unwrap()
        .rsplit("  ")
        .next()
        .unwrap();
    assert!(bars.split(' ').map(|side| side.chars().count()).collect::<Vec<_>>() == [6, 6], "{bars}");
    assert!(table.contains("\nmonitoring:node-agent "), "{table}");
}

/// Every row of requests, counted by DuckDB and judged with scipy, on windows that were cut out of the logs by Python.
#[test]
fn rows_are_those_of_an_independent_count() {
    let scratch = folder();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let logs = ["apiserver-0", "apiserver-1"].map(|name| {
        let found = std::fs::read_dir(sample(&format!("list-storm/audit/{name}"))).unwrap().next().unwrap().unwrap();
        (name, found.path().to_str().unwrap().to_owned())
    });
    let mut sides = Vec::new();
    for (name, window) in [("before", BASE), ("after", INCIDENT)] {
        let mut streams = Vec::new();
        for (instance, log) in &logs {
            let cut = path(&format!("{name}-{instance}.log"));
            oracle("compare.py", &["cut", window[0], window[1], &cut, log]);
            streams.push(format!("lab-1:{instance}:{instance}={cut}"));
        }
        let streams: Vec<&str> = streams.iter().map(String::as_str).collect();
        oracle("rollup.py", &[&["--out", &path(name)], streams.as_slice()].concat());
        sides.push(path(name));
    }
    let micros = |text: &str| {
        (text.parse::<jiff::civil::DateTime>().unwrap().to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp())
            .as_microsecond()
            .to_string()
    };
    let [b0, b1, a0, a1] = [BASE[0], BASE[1], INCIDENT[0], INCIDENT[1]].map(micros);
    let theirs: Value =
        serde_json::from_str(&oracle("compare.py", &["rows", &sides[0], &b0, &b1, &sides[1], &a0, &a1])).unwrap();
    let report = storm(&["--where", "cluster=lab-1"]);
    assert_eq!(report["rows"].as_array().unwrap().len(), theirs.as_array().unwrap().len());
    let mut bounded = 0;
    for their in theirs.as_array().unwrap() {
        let [area, subject, metric, before, after, bounds] = std::array::from_fn(|at| &their[at]);
        let same = |row: &Value| {
            let fields = ["cluster", "user", "agent", "verb", "group", "resource", "subresource"];
            row["area"] == *area
                && row["metric"] == *metric
                && fields.iter().all(|field| row[field] == *subject.get(*field).unwrap_or(&Value::from("")))
        };
        let mine: Vec<&Value> = rows(&report, same).collect();
        assert_eq!(mine.len(), 1, "{their}");
        let near = |a: &Value, b: &Value, less: f64| match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - (b - less)).abs() <= 1e-6 * (1.0 + b.abs()),
            (None, None) => true,
            _ => false,
        };
        assert!(near(&mine[0]["before"], before, 0.0) && near(&mine[0]["after"], after, 0.0), "{} {their}", mine[0]);
        let none = Value::Null;
        let (low, high) = (bounds.get(0).unwrap_or(&none), bounds.get(1).unwrap_or(&none));
        assert!(near(&mine[0]["low"], low, 1.0) && near(&mine[0]["high"], high, 1.0), "{} {their}", mine[0]);
        bounded += usize::from(!low.is_null());
    }
    assert!(bounded > 50, "{bounded}");
}

/// 429s where there were none, for as long as a storm lasts: that is no chance. A single burst may be.
#[test]
fn what_was_not_there_before_is_new() {
    let home = folder();
    let event = |second: u64, number: u64, code: u16| {
        let at = format!("2026-11-20T{:02}:{:02}:{:02}.{number:06}Z", 9 + second / 3600, second / 60 % 60, second % 60);
        serde_json::json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": format!("{second}-{number}"), "stage": "ResponseComplete",
            "requestURI": "/api/v1/pods", "verb": "list", "user": {"username": "bot"}, "userAgent": "bot/v1",
            "sourceIPs": ["10.0.0.1"],
            "objectRef": {"resource": "pods"}, "responseStatus": {"code": code}, "requestReceivedTimestamp": at,
            "stageTimestamp": at})
        .to_string()
            + "\n"
    };
    // Twice ten minutes of five requests a second, and 240 429s behind the first: in four minutes, or in eight seconds.
    let verdict = |name: &str, from: u64, to: u64| {
        let mut log = String::new();
        for second in 0..1_200 {
            (0..5).for_each(|number| log += &event(second, number, 200));
            let more = if (from..to).contains(&second) { 240 / (to - from) } else { 0 };
            (0..more).for_each(|number| log += &event(second, 100 + number, 429));
        }
        let path = crate::support::write(home.path(), name, log);
        let report = compare(&[&path, "--at", "2026-11-20T09:10:00Z"]);
        let row =
            rows(&report, |row| row["area"] == "total" && row["metric"] == "throttled_per_s").next().unwrap().clone();
        assert_eq!(
            (row["before"].as_f64(), row["after"].as_f64().map(|rate| rate > 0.39)),
            (Some(0.0), Some(true)),
            "{row}"
        );
        assert_eq!(
            rows(&report, |row| row["verdict"] == "noise" && row["metric"] == "throttled_per_s").count(),
            0,
            "{report}"
        );
        row["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("storm.log", 700, 940), "new");
    assert_eq!(verdict("burst.log", 700, 708), "unsure");
    // What is not sure is not called noise.
    let answer =
        plimsoll(&["compare", home.path().join("burst.log").to_str().unwrap(), "--at", "2026-11-20T09:10:00Z"]);
    assert!(answer.exits(0).stdout.contains("uncertain"), "{}", answer.stdout);
}

#[test]
fn what_is_compared_with_itself_has_not_changed() {
    for source in [
        sample("list-storm"),
        sample("list-storm/audit"),
        sample("quiet/metrics"),
        sample("list-storm/etcd/after.db.zst"),
        sample("list-storm/heap"),
    ] {
        let report = compare(&[&source, &source]);
        assert_eq!(changes(&report), [""; 0], "{source}");
        let odd: Vec<&Value> = rows(&report, |row| row["verdict"] != "same" || row["before"] != row["after"]).collect();
        assert!(odd.is_empty(), "{source}: {odd:?}");
    }
    let quiet = window(["2026-11-20T09:44:00", "2026-11-20T09:46:00"]);
    assert_eq!(changes(&compare(&[&sample("quiet"), "--before", &quiet, "--after", &quiet])), [""; 0]);
}

#[test]
fn increases_beyond_what_is_allowed_fail() {
    let (before, after) = (window(BASE), window(INCIDENT));
    let run = |limits: &[&str]| {
        let source = sample("list-storm");
        let mut args = vec!["compare", &source, "--before", &before, "--after", &after, "-o", "json"];
        limits.iter().for_each(|limit| args.extend(["--fail-on-increase", limit]));
        plimsoll(&args)
    };
    let report = run(&["clients.rps=30%"]).json(1);
    let findings = report["findings"].as_array().unwrap();
    let answer: BTreeSet<&str> = findings.iter().map(|finding| finding["subject"]["agent"].as_str().unwrap()).collect();
    let risen: BTreeSet<&str> = rows(&report, |row| {
        row["area"] == "clients" && row["metric"] == "rps" && ["up", "new"].contains(&row["verdict"].as_str().unwrap())
    })
    .filter(|row| row["change_share"].as_f64().is_none_or(|change| change > 0.3))
    .map(|row| row["agent"].as_str().unwrap())
    .collect();
    assert_eq!(answer, risen);
    assert!(findings.iter().all(|finding| finding["id"] == "increase-over-limit" && finding["severity"] == "critical"));
    run(&["usage=5%"]).json(1);
    // Ten thousand per cent is a hundred and one times.
    run(&["rps=10000%", "p99_ms=10000%"]).json(0);
    for wrong in ["rps", "rps=x", "pps=3%", "clusters.rps=3%"] {
        assert_eq!(run(&[wrong]).code, Some(2), "{wrong}");
    }
}

#[test]
fn states_and_levels_are_those_of_their_own_commands() {
    let (before, after) = (sample("list-storm/etcd/before.db.zst"), sample("list-storm/etcd/after.db.zst"));
    let report = compare(&[&before, &after]);
    let usage = |path: &str| plimsoll(&["etcd", "usage", path, "--by", "resource", "-o", "json"]).json(0);
    let sides = [usage(&before), usage(&after)];
    let mut compared = 0;
    for (side, usage) in ["before", "after"].into_iter().zip(&sides) {
        for theirs in usage["rows"].as_array().unwrap() {
            let name = if theirs["resource"] == "" { "other keys" } else { "" };
            for metric in ["keys", "live_bytes", "history_bytes"] {
                let same = |row: &Value| {
                    row["metric"] == metric
                        && row["resource"] == theirs["resource"]
                        && row["group"] == theirs["group"]
                        && row["name"] == name
                };
                let Some(mine) = rows(&report, same).next() else {
                    assert_eq!(theirs[metric].as_f64(), Some(0.0), "{theirs}");
                    continue;
                };
                assert_eq!(mine[side].as_f64(), theirs[metric].as_f64(), "{metric} {theirs}");
                compared += 1;
            }
        }
        let whole = |metric: &str| {
            rows(&report, |row| row["metric"] == metric && row["resource"] == "" && row["name"] == "").next().unwrap()
                [side]
                .as_f64()
        };
        assert_eq!(whole("db_bytes"), usage["totals"]["db_bytes"].as_f64());
        assert_eq!(whole("in_use_bytes"), usage["totals"]["in_use_bytes"].as_f64());
    }
    assert!(compared > 60, "{compared}");
    // NOTES.md: the CRD and the namespace were deleted in between.
    for resource in ["namespaces", "customresourcedefinitions"] {
        let keys = rows(&report, |row| row["resource"] == resource && row["metric"] == "keys").next().unwrap();
        assert_eq!((&keys["change"], &keys["verdict"]), (&Value::from(-1.0), &Value::from("down")), "{keys}");
    }

    let heaps = |at: usize| {
        let mut found: Vec<_> =
            std::fs::read_dir(sample("list-storm/heap")).unwrap().map(|file| file.unwrap().path()).collect();
        found.sort();
        found[at].to_str().unwrap().to_owned()
    };
    let report = compare(&[&heaps(0), &heaps(5)]);
    for (side, at) in [("before", 0), ("after", 5)] {
        let top = plimsoll(&["heap", "top", &heaps(at), "-o", "json"]).json(0);
        let whole = rows(&report, |row| row["metric"] == "heap_bytes" && row["name"] == "").next().unwrap();
        assert_eq!(whole[side].as_f64(), top["totals"]["total"].as_f64(), "{}", top["totals"]);
    }

    // The mean of a level over the window, weighted by time, of files that Python reads as well.
    let storm = storm(&[]);
    let script = "import sys,os,re\nf=sys.argv[1];lo,hi=map(float,sys.argv[2:4])\nv=[]\nfor n in \
         sorted(os.listdir(f)):\n t=float(re.search(r'\\d{10}(\\.\\d+)?',n).group())\n if lo<=t<hi:\n  \
         d=open(os.path.join(f,n)).read()\n  v.append((t,int(re.search(r'== \
         memory.usage_in_bytes\\n(\\d+)',d).group(1))))\ng=[b[0]-a[0] for a,b in \
         zip(v,v[1:])];g.append(g[-1])\nprint(sum(a[1]*w for a,w in zip(v,g))/sum(g))";
    for (side, [from, to]) in [("before", BASE), ("after", INCIDENT)] {
        let seconds = |text: &str| {
            text.parse::<jiff::civil::DateTime>()
                .unwrap()
                .to_zoned(jiff::tz::TimeZone::UTC)
                .unwrap()
                .timestamp()
                .as_second()
                .to_string()
        };
        let mut command = Command::new(python());
        command.args(["-c", script, &sample("list-storm/cgroup/kube-apiserver-0"), &seconds(from), &seconds(to)]);
        let ran = feed(command, b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let theirs: f64 = ran.stdout.trim().parse().unwrap();
        let mine = rows(&storm, |row| row["area"] == "memory" && row["metric"] == "usage").next().unwrap()[side]
            .as_f64()
            .unwrap();
        assert!((mine - theirs).abs() < 1.0, "{side}: {mine}, not {theirs}");
    }
}

#[test]
fn what_a_newcomer_stumbled_over() {
    // Two clusters: what is alike stands beside one another.
    let report = compare(&[&sample("quiet"), &sample("list-storm")]);
    let is_scheduler =
        |row: &Value| row["area"] == "clients" && row["agent"] == "kube-scheduler" && row["metric"] == "rps";
    let scheduler: Vec<&Value> = rows(&report, is_scheduler).collect();
    assert!(
        scheduler.len() == 1
            && scheduler[0]["before"].as_f64() > Some(0.0)
            && scheduler[0]["after"].as_f64() > Some(0.0),
        "{scheduler:?}"
    );
    // All of a database is not what no apiserver put there.
    for (side, name) in [("before", "quiet"), ("after", "list-storm")] {
        let usage = plimsoll(&["etcd", "usage", &sample(name), "-o", "json"]).json(0);
        let whole = |metric: &str| {
            rows(&report, |row| row["metric"] == metric && row["resource"] == "" && row["name"] == "").next().unwrap()
                [side]
                .clone()
        };
        for metric in ["keys", "live_bytes", "history_bytes"] {
            let sum: f64 = usage["rows"].as_array().unwrap().iter().map(|row| row[metric].as_f64().unwrap()).sum();
            assert_eq!(whole(metric).as_f64(), Some(sum), "{metric} {side}");
        }
    }
    // Gauges of objects are 0 for a minute after an apiserver's start.
    let report = compare(&[&sample("quiet"), "--before", "09:42:30..09:44:00", "--after", "09:44:00..09:45:30"]);
    let objects: Vec<&Value> = rows(&report, |row| row["area"] == "objects" && is_change(row)).collect();
    assert!(objects.iter().all(|row| row["before"].as_f64() > Some(0.0)), "{objects:?}");
    // One page knows a rate, but not how it wanders.
    let pages = ["1795166276.txt.zst", "1795166576.txt.zst"]
        .map(|name| sample(&format!("list-storm/metrics/apiserver-0/{name}")));
    let report = compare(&[&pages[0], &pages[1]]);
    let rps = rows(&report, |row| row["area"] == "total" && row["metric"] == "rps").next().unwrap();
    assert!(rps["verdict"] == "few" && rps["after"].as_f64() > Some(1.0), "{rps}");
    // A surge within a longer window is named, if only as one that may be chance.
    let table = plimsoll(&["compare", &sample("list-storm"), "--at", "09:22"]).stdout;
    let (_, unsure) = table.split_once("Large changes that may be noise").unwrap_or_else(|| panic!("{table}"));
    assert!(unsure.contains("event-spammer") || unsure.contains("node-agent"), "{table}");
    // A limit that nothing can be checked by fails, and one that makes no sense is refused.
    let (quiet, storm) = (sample("quiet/audit"), sample("list-storm/audit"));
    assert_eq!(plimsoll(&["compare", &quiet, &storm, "--fail-on-increase", "db_bytes=1%"]).code, Some(3));
    for wrong in ["heap.rps=5%", "clients.p99_ms=1%", "objects=5%"] {
        assert_eq!(plimsoll(&["compare", &quiet, &storm, "--fail-on-increase", wrong]).code, Some(2), "{wrong}");
    }
    // One apiserver's log more is no change of everybody.
    let answer = plimsoll(&["compare", &sample("list-storm/audit"), &sample("list-storm/audit/apiserver-0")]).stdout;
    assert!(answer.contains("BEFORE has the logs of 2 apiservers, AFTER of 1"), "{answer}");
}

#[test]
fn mistakes_are_met_with_the_next_step() {
    let storm = sample("list-storm");
    for (args, hint) in [
        (vec!["compare", &storm], "give BEFORE and AFTER"),
        (vec!["compare", &storm, &storm, "--before", "09:00"], "FROM..TO"),
        (vec!["compare", &storm, &storm, "--before", "10:00..09:00"], "ends before it begins"),
        (vec!["compare", &storm, &storm, "--where", "verb=list"], "conditions may be about"),
        (vec!["compare", &storm, &storm, "--sort-by", "rps"], "the largest change comes first"),
        (vec!["compare", &storm, &storm, "--at", "noon"], "is not a time"),
    ] {
        let ran = plimsoll(&args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(hint), "{args:?}: {}", ran.stderr);
    }
    let nothing = plimsoll(&["compare", &sample("NOTES.md"), &storm]);
    assert_eq!(nothing.code, Some(3), "{}", nothing.stderr);
    let beyond = plimsoll(&["compare", &storm, "--before", "2020-01-01..2020-01-02", "--after", "2026-01-01.."]);
    assert_eq!(beyond.code, Some(3), "{}", beyond.stderr);
    assert!(beyond.stderr.contains("no event within the BEFORE window"), "{}", beyond.stderr);
}

#[test]
fn what_changed_is_drawn() {
    let windows = ["compare", &sample("list-storm"), "--before", "09:18..09:21", "--after", "09:22..09:24"];
    let picture = plimsoll(&[&windows[..], &["-o", "svg", "--top", "2"]].concat());
    let text = &picture.exits(0).stdout;
    // All requests, two clients, two verbs and resources; in the order of the table. Of latencies only quantiles are
    // known.
    let titles: Vec<&str> = text
        .split(r#"class="title""#)
        .skip(1)
        .filter_map(|behind| behind.split_once('>')?.1.split_once('<'))
        .map(|(title, _)| title)
        .collect();
    let report = plimsoll(&[&windows[..], &["-o", "json"]].concat()).json(0);
    let all = report["rows"].as_array().unwrap();
    let total = all.iter().find(|row| row["area"] == "total" && row["metric"] == "rps").unwrap();
    assert_eq!((titles[0], titles.len()), ("all: requests", 5), "{titles:?}");
    assert!(titles.contains(&"batch:event-spammer: requests"), "{titles:?}");
    // The areas under both lines are the rates times the windows, as the table has them.
    let (before, after) = (report["before"]["seconds"].as_f64().unwrap(), report["after"]["seconds"].as_f64().unwrap());
    let first = text.split("<g ").nth(1).unwrap();
    let area = |class: &str| -> f64 {
        let path = first.split_once(&format!(r#"class="{class}" d=""#)).unwrap().1.split_once('"').unwrap().0;
        let steps = path.split(['M', 'L']).skip(1).map(|step| {
            let (from, rest) = step.split_once(' ').unwrap();
            let (y, to) = rest.split_once('H').unwrap();
            (to.parse::<f64>().unwrap() - from.parse::<f64>().unwrap()) * (160.0 - y.parse::<f64>().unwrap())
        });
        steps.sum()
    };
    let expected = total["after"].as_f64().unwrap() * after / (total["before"].as_f64().unwrap() * before);
    let drawn = area("after") / area("before");
    assert!((drawn / expected - 1.0).abs() < 0.01, "{drawn} {expected}");
    assert!(!text.contains("<script") && !text.contains("href"));
    // Of two databases nothing is known in time.
    let databases = ["before.db.zst", "after.db.zst"].map(|name| sample(&format!("list-storm/etcd/{name}")));
    plimsoll(&["compare", &databases[0], &databases[1], "-o", "svg"]).exits(3);
}
