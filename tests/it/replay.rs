//! What a moment showed: captures by `--at`, and the terminal UI that steps through a bundle.

use crate::reads::unpacked;
use crate::screen::Screen;
use crate::support::{feed, folder, hermetic, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Asks `tests/oracle/moment.py`.
#[track_caller]
fn oracle(args: &[&str]) -> Value {
    let home = folder();
    let mut command = hermetic(Command::new(python()), home.path());
    command.arg(root().join("tests/oracle/moment.py")).args(args);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Seconds since 1970 as `--at` takes them.
fn time(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

/// What a command says, without where it was read and what the moment adds.
fn answer(mut report: Value) -> Value {
    for name in ["inputs", "window"] {
        report[name] = Value::Null;
    }
    report["coverage"].as_object_mut().unwrap().retain(|name, _| !matches!(name.as_str(), "captures" | "at"));
    report
}

const MOMENTS: [i64; 7] = [1795166200, 1795166300, 1795166396, 1795166397, 1795166545, 1795166700, 1795169999];

/// Each moment: what the command says of the folder is what it says of the capture that Python chooses, alone.
#[track_caller]
fn each_moment(captures: &str, command: &[&str], more: &[&str]) {
    let moments = MOMENTS.map(|at| at.to_string());
    let args: Vec<&str> = [captures].into_iter().chain(moments.iter().map(String::as_str)).collect();
    let names = oracle(&args);
    let (mut met, mut early) = (std::collections::BTreeSet::new(), 0);
    for (moment, name) in MOMENTS.iter().zip(names.as_array().unwrap()) {
        let at = time(*moment);
        let ran = plimsoll(&[command, &[captures, "--at", &at, "-o", "json"], more].concat());
        let Some(name) = name.as_str() else {
            ran.exits(2);
            let first = oracle(&[captures, "1795169999"]).as_array().unwrap().len();
            assert!(first == 1 && ran.stderr.contains("the earliest is"), "{}", ran.stderr);
            early += 1;
            continue;
        };
        let own: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
        let alone = plimsoll(&[command, &[&format!("{captures}/{name}"), "-o", "json"], more].concat());
        let alone: Value = serde_json::from_str(&alone.stdout).unwrap();
        let capture = &own["coverage"]["captures"][0];
        assert!(capture["path"].as_str().unwrap().contains(name) || capture["path"] == captures, "{capture}");
        assert!(capture["age_s"].as_f64().unwrap() >= 0.0);
        assert_eq!(answer(own), answer(alone), "{command:?} at {at}: {name}");
        met.insert(name.to_owned());
    }
    assert!(met.len() > 1 && early > 0, "{met:?}");
}

#[test]
fn databases_objects_and_heaps_are_those_of_the_moment() {
    let home = folder();
    let databases = home.path().join("etcd");
    let [before, after] = ["before", "after"].map(|name| sample_bytes(&format!("list-storm/etcd/{name}.db.zst")));
    write(&databases, "1795166276.db", &before);
    write(&databases, "1795166546.db", &after);
    let databases = databases.to_str().unwrap();
    for command in
        [&["etcd", "usage"][..], &["etcd", "top"], &["etcd", "history"], &["etcd", "pages"], &["etcd", "check"]]
    {
        each_moment(databases, command, &["--fail-on", "never"]);
    }
    // Without a time in the name, what was written last says when that was; the file's own time says nothing.
    let unnamed = home.path().join("unnamed");
    let paths = [("before.db", &before), ("after.db", &after)].map(|(name, bytes)| write(&unnamed, name, bytes));
    let written = paths.map(|path| oracle(&["--written", &path]).as_i64().unwrap());
    assert!(written[0] + 60 < written[1], "{written:?}");
    for (moment, name) in [(written[0] + 5, "before.db"), (written[1] - 20, "before.db"), (written[1] + 60, "after.db")]
    {
        let ran = plimsoll(&["etcd", "usage", unnamed.to_str().unwrap(), "--at", &time(moment), "-o", "json"]).json(0);
        assert!(ran["inputs"][0]["path"].as_str().unwrap().ends_with(name), "{moment}: {}", ran["inputs"]);
    }
    plimsoll(&["etcd", "usage", unnamed.to_str().unwrap(), "--at", &time(written[0] - 600)]).exits(2);
    let flame = plimsoll(&["etcd", "flame", databases, "--at", &time(1795166400), "-o", "folded"]);
    let alone = plimsoll(&["etcd", "flame", &format!("{databases}/1795166276.db"), "-o", "folded"]);
    assert_eq!(flame.exits(0).stdout, alone.stdout);
    let objects = sample("list-storm/objects");
    for command in [&["quota", "lint"][..], &["controllers"]] {
        let early = command[0] == "controllers";
        if early {
            // Nothing else is known then: that is said, and the capture that there is later.
            let ran = plimsoll(&[command, &[&objects, "--at", &time(MOMENTS[0])]].concat());
            assert!(ran.code == Some(2) && ran.stderr.contains("the earliest is"), "{:?} {}", ran.code, ran.stderr);
            continue;
        }
        each_moment(&objects, command, &[]);
    }
    each_moment(&sample("list-storm/heap"), &["heap", "top"], &[]);
}

#[test]
fn memory_is_that_of_the_moment_and_its_rates_come_from_before() {
    let group = sample("list-storm/cgroup/kube-apiserver-0");
    let at = |moment: &str| plimsoll(&["memory", "show", &group, "--at", moment, "-o", "json"]).json(0);
    let moment = 1795166545;
    let own = at(&time(moment));
    // The same of a folder that ends there.
    let home = folder();
    let cut = home.path().join("kube-apiserver-0");
    let mut newest = 0;
    for file in fs::read_dir(&group).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let seconds: i64 = name[..10].parse().unwrap();
        if seconds <= moment {
            newest = newest.max(seconds);
            write(&cut, &name, fs::read(format!("{group}/{name}")).unwrap());
        }
    }
    let then = plimsoll(&["memory", "show", cut.to_str().unwrap(), "-o", "json"]).json(0);
    assert_eq!(own["rows"], then["rows"]);
    assert_eq!(own["coverage"]["captures"][0]["at"], time(newest));
    assert_eq!(own["coverage"]["with_rates"], 1);
    assert_ne!(own["rows"], at(&time(moment + 100))["rows"]);
    plimsoll(&["memory", "show", &group, "--at", "2026-11-20T00:00:00Z"]).exits(2);
}

#[test]
fn quotas_and_forecasts_are_told_as_they_were_then() {
    // Quotas: what came later is as if it were not there.
    let objects = sample("list-storm/objects");
    let home = folder();
    for name in ["1795166396", "1795166546"] {
        for file in fs::read_dir(format!("{objects}/{name}")).unwrap() {
            let path = file.unwrap().path();
            write(
                home.path(),
                &format!("{name}/{}", path.file_name().unwrap().to_str().unwrap()),
                fs::read(&path).unwrap(),
            );
        }
    }
    let until = home.path().to_str().unwrap();
    for command in ["check", "propose"] {
        let now =
            plimsoll(&["quota", command, &objects, "--at", &time(1795166600), "-o", "json", "--fail-on", "never"]);
        let then = plimsoll(&["quota", command, until, "-o", "json", "--fail-on", "never"]).json(0);
        let now = now.json(0);
        assert_eq!(now["rows"], then["rows"], "{command}");
        assert!(!now["rows"].as_array().unwrap().is_empty());
    }
    plimsoll(&["quota", "check", &objects, "--at", "-1h", "--until", "-2h"]).exits(2);
    // Forecasts: of a file that ends at the moment.
    let history = String::from_utf8(sample_bytes("growth/history.csv.zst")).unwrap();
    let mut lines = history.lines();
    let header = lines.next().unwrap();
    let place = header.split(',').position(|name| name == "time").unwrap();
    let of = |line: &str| -> jiff::Timestamp {
        let cell = line.split(',').nth(place).unwrap();
        cell.parse().unwrap_or_else(|_| jiff::Timestamp::from_second(cell.parse().unwrap()).unwrap())
    };
    let moment: jiff::Timestamp = "2026-10-01T11:30:00Z".parse().unwrap();
    let known: Vec<&str> = lines.clone().filter(|line| of(line) <= moment).collect();
    assert!(known.len() > 1_000 && known.len() < lines.count());
    let path = write(home.path(), "then.csv", format!("{header}\n{}\n", known.join("\n")));
    let then = plimsoll(&["forecast", &path, "-o", "json"]).json(0);
    let all = sample("growth/history.csv.zst");
    let now = plimsoll(&["forecast", &all, "--at", "2026-10-01T11:30:00Z", "-o", "json"]).json(0);
    assert_eq!(now["rows"], then["rows"]);
    assert_ne!(now["rows"], plimsoll(&["forecast", &all, "-o", "json"]).json(0)["rows"]);
}

/// Bytes that were read of files below a folder, by a trace from a place on.
fn read_of(trace: &Path, from: u64, below: &str) -> u64 {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/reads.py")).arg("--trace").arg(trace).arg(from.to_string());
    let ran = feed(command, b"");
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
    let read = answer["read"].as_object().unwrap();
    read.iter().filter(|(path, _)| path.contains(below)).map(|(_, bytes)| bytes.as_u64().unwrap()).sum()
}

#[test]
fn a_step_in_time_reads_no_byte_of_the_logs() {
    let home = folder();
    let bundle = unpacked(home.path());
    let trace = home.path().join("trace");
    let above = format!("strace -f -y -s 0 -e trace=read,pread64,readv,preadv,preadv2 -o '{}'", trace.display());
    let screen = Screen::start_under("steps", (140, 40), &above, &[&bundle], home.path());
    screen.keys(&["0"]);
    screen.shows("kept in memory");
    let end = || fs::metadata(&trace).unwrap().len();
    assert!(read_of(&trace, 0, "/audit/") > 20_000_000, "at first they are read");
    let idle =
        |what: &str| screen.until(what, |text| !text.lines().next().is_some_and(|line| line.contains("analysing")));
    screen.keys(&[":"]);
    screen.line("window 1m");
    screen.keys(&["1"]);
    idle("the overview");
    let from = end();
    let window = |text: &str| text.lines().next().unwrap().split("replay").nth(1).unwrap().trim().to_owned();
    for (tab, shown) in [("1", "Findings"), ("2", "traffic ("), ("3", "clients (")] {
        screen.keys(&[tab]);
        screen.shows(shown);
        let mut before = window(&idle("a tab"));
        for _ in 0..4 {
            screen.keys(&[","]);
            let text = screen.until("an earlier window", |text| window(text) != before);
            before = window(&text);
            idle("what it shows");
        }
        screen.keys(&[".", ".", ".", "."]);
        idle("the time before");
    }
    screen.keys(&["2"]);
    screen.until("traffic", |text| text.contains("traffic (") && text.contains("PEAK"));
    idle("traffic");
    assert_eq!(read_of(&trace, from, "/audit/"), 0);
    // The count is one that can fail: addresses are not held.
    let from = end();
    screen.keys(&[":"]);
    screen.line("by source-ip");
    screen.until("by address", |text| text.contains("by source-ip") && text.contains("127.0.0.1"));
    idle("addresses");
    assert!(read_of(&trace, from, "/audit/") > 20_000_000);
    screen.keys(&["q"]);
    screen.is_sane();
}

#[test]
fn tabs_follow_the_moment_that_is_looked_at() {
    let home = folder();
    let storm = sample("list-storm");
    let screen = Screen::start("moment", (140, 40), &[&storm], home.path());
    screen.shows("5 critical");
    screen.keys(&["4"]);
    screen.shows("5,109 keys");
    screen.keys(&[":"]);
    screen.line("time 09:22:00");
    let text = screen.until("the database before", |text| text.contains("before.db.zst of "));
    assert!(text.contains("before 2026") || text.contains(", 4m"), "its age: {text}");
    for (tab, capture) in
        [("5", "kube-apiserver-0 of 2026-11-20T09:21:56"), ("6", "-base.pb.gz"), ("7", "objects/1795166396")]
    {
        screen.keys(&[tab]);
        screen.until(capture, |text| text.contains("Capture at 2026-11-20T09:22:00Z") && text.contains(capture));
    }
    screen.keys(&[":"]);
    screen.line("time 09:18:00");
    screen.until("none yet", |text| text.contains("no capture of objects from then or before; the earliest is"));
    screen.keys(&["a"]);
    screen.until("the newest again", |text| !text.contains("Capture at") && text.contains("quotas"));
    screen.keys(&["q"]);
    screen.is_sane();
}
