//! How often a report reads what it is made of: bytes by file, as strace counts them (`tests/oracle/reads.py`).

use crate::support::{feed, folder, hermetic, plimsoll, python, root, run, sample, sample_bytes, traffic, write};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// The sample's logs and pages as they lie on an apiserver's disk: not packed, and not written just now.
pub(crate) fn unpacked(to: &Path) -> String {
    for name in ["apiserver-0", "apiserver-1"] {
        write(to, &format!("audit/{name}/audit.log"), sample_bytes(&format!("list-storm/audit/{name}/audit.log.zst")));
        for page in fs::read_dir(sample(&format!("list-storm/metrics/{name}"))).unwrap() {
            let file = page.unwrap().file_name().into_string().unwrap();
            let bytes = sample_bytes(&format!("list-storm/metrics/{name}/{file}"));
            write(to, &format!("metrics/{name}/{}", file.trim_end_matches(".zst")), bytes);
        }
    }
    let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    for folder in ["audit", "metrics"].iter().flat_map(|kind| fs::read_dir(to.join(kind)).unwrap()) {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            fs::File::options().write(true).open(file.unwrap().path()).unwrap().set_modified(hour_ago).unwrap();
        }
    }
    to.to_str().unwrap().to_owned()
}

/// What a command prints, and what it read, by file.
struct Traced {
    output: String,
    read: serde_json::Map<String, Value>,
}

fn traced(args: &[&str]) -> Traced {
    let home = folder();
    let mut command = hermetic(Command::new(python()), home.path());
    command.arg(root().join("tests/oracle/reads.py")).arg(env!("CARGO_BIN_EXE_plimsoll")).args(args);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "strace: {}; run .ci/setup first", ran.stderr);
    let mut answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    Traced {
        output: answer["output"].as_str().unwrap().to_owned(),
        read: std::mem::take(answer["read"].as_object_mut().unwrap()),
    }
}

impl Traced {
    /// How often the files below a folder were read. Their ends are looked at besides, to determine what they hold and
    /// from when to when, so only large files are counted.
    fn passes(&self, below: &str) -> f64 {
        let size = |path: &str| fs::metadata(path).unwrap().len() as f64;
        let own = self.read.iter().filter(|(path, _)| path.contains(below) && size(path) > 1.5e6);
        let passes = own.map(|(path, bytes)| bytes.as_u64().unwrap() as f64 / size(path));
        passes.reduce(f64::max).unwrap_or_else(|| panic!("nothing below {below} was read: {:?}", self.read.keys()))
    }
}

#[test]
fn a_report_reads_each_log_twice_and_once_more_if_the_window_moves() {
    let home = folder();
    let bundle = unpacked(home.path());
    let window = ["--from", "2026-11-20T09:22:00Z", "--to", "2026-11-20T09:24:30Z"];
    let given = traced(&[&["report", &bundle, "-o", "json"], window.as_slice()].concat());
    // Where it is found, it may be found to begin earlier when it is known who caused it.
    let found = traced(&["report", &bundle, "-o", "json"]);
    let passes = [&given, &found].map(|answer| answer.passes("/audit/"));
    assert!((2.0..=2.4).contains(&passes[0]) && (2.0..=3.4).contains(&passes[1]), "{passes:?}");
    // Pages of the window and of the time before it are among those that were read for all of the time.
    let passes = [&given, &found].map(|answer| answer.passes("/metrics/"));
    assert!(passes.iter().all(|passes| (1.0..=1.2).contains(passes)), "{passes:?}");
    // A fence takes what all clients do, once for all of them, then what it would hold back, and what would have become
    // of that.
    let page = traced(&[&["report", &bundle, "-o", "html"], window.as_slice()].concat());
    let fences = page.output.matches("<summary>Manifests that throttle").count();
    let passes = page.passes("/audit/");
    assert!(fences > 0 && passes <= 3.6 + 2.0 * fences as f64, "{passes} with {fences} fences");
}

#[test]
fn a_report_opens_databases_and_heaps_once_and_says_what_the_commands_say() {
    let bundle = sample("list-storm");
    let answer = traced(&["report", &bundle, "-o", "json"]);
    for name in ["before.db.zst", "after.db.zst"] {
        let (path, bytes) = answer.read.iter().find(|(path, _)| path.ends_with(name)).unwrap();
        // Its begin is looked at besides, to determine what it is.
        let passes = bytes.as_f64().unwrap() / fs::metadata(path).unwrap().len() as f64;
        assert!((1.0..1.9).contains(&passes), "{name}: {passes}");
    }
    // So is each heap profile, and none but for its beginning that nothing asks for.
    let heaps: Vec<_> = answer.read.iter().filter(|(path, _)| path.contains("/heap/")).collect();
    assert!(heaps.len() >= 6, "{heaps:?}");
    for (path, bytes) in heaps {
        let (bytes, size) = (bytes.as_u64().unwrap(), fs::metadata(path).unwrap().len());
        assert!(bytes <= size + 80_000, "{path}: {bytes} of {size}");
    }
    // One walk for several questions answers each as a walk of its own does.
    let report: Value = serde_json::from_str(&answer.output).unwrap();
    for (section, words) in [
        ("etcd_usage", &["etcd", "usage"][..]),
        ("etcd_history", &["etcd", "history"]),
        ("etcd_check", &["etcd", "check"]),
    ] {
        let after = sample("list-storm/etcd/after.db.zst");
        let alone = plimsoll(&[words, &[&after, "-o", "json", "--top", "0"]].concat());
        let alone: Value = serde_json::from_str(&alone.stdout).unwrap();
        let own = &report["sections"][section];
        assert!(!own["rows"].as_array().unwrap().is_empty(), "{section}");
        for field in ["rows", "totals", "findings"] {
            assert_eq!(own[field], alone[field], "{section} {field}");
        }
    }
}

#[test]
fn two_windows_of_one_log_are_compared_in_one_pass() {
    let home = folder();
    let bundle = unpacked(home.path());
    let answer = traced(&["compare", &format!("{bundle}/audit"), "--at", "2026-11-20T09:22:00Z", "-o", "json"]);
    let passes = answer.passes("/audit/");
    assert!((1.0..=1.2).contains(&passes), "{passes}");
}

/// What is stray is judged within each window: 60 events are few beside thousands of another month.
#[test]
fn two_windows_that_lie_far_apart_are_judged_each_by_itself() {
    let home = folder();
    let november = String::from_utf8(sample_bytes("list-storm/audit/apiserver-0/audit.log.zst")).unwrap();
    let january: Vec<String> =
        november.lines().take(60).map(|line| line.replace("2026-11-20T", "2026-01-20T")).collect();
    let log = write(home.path(), "audit.log", january.join("\n") + "\n" + &november);
    let day = |month: &str| format!("2026-{month}-20T00:00:00Z..2026-{month}-21T00:00:00Z");
    let ran = plimsoll(&["compare", &log, "--before", &day("01"), "--after", &day("11"), "-o", "json"]);
    let answer = ran.json(0);
    assert_eq!(ran.stderr, "");
    let alone = traffic(&log, "verb", &["--since", "2026-01-20T00:00:00Z", "--until", "2026-01-21T00:00:00Z"]);
    assert!(answer["before"]["from"].as_str().unwrap().starts_with("2026-01-20T"), "{}", answer["before"]);
    let total = answer["rows"].as_array().unwrap().iter().find(|row| row["area"] == "total" && row["metric"] == "rps");
    let seconds = answer["before"]["seconds"].as_f64().unwrap();
    let requests = total.unwrap()["before"].as_f64().unwrap() * seconds;
    assert!((requests - alone["totals"]["requests"].as_f64().unwrap()).abs() < 1.0, "{requests}, {}", alone["totals"]);
}

#[test]
fn what_two_arguments_name_is_read_once() {
    let home = folder();
    let bundle = unpacked(home.path());
    std::os::unix::fs::symlink(
        format!("{bundle}/audit/apiserver-0/audit.log"),
        home.path().join("audit/apiserver-1/link.log"),
    )
    .unwrap();
    let once = traffic(&bundle, "instance", &["--dedupe", "never"]);
    assert_eq!(
        once["totals"],
        traffic(&sample("list-storm"), "instance", &["--dedupe", "never"])["totals"],
        "a link counts no event again"
    );
    let twice = plimsoll(&[
        "traffic",
        &bundle,
        &format!("{bundle}/audit"),
        "--by",
        "instance",
        "--dedupe",
        "never",
        "-o",
        "json",
    ])
    .json(0);
    assert_eq!((&once["totals"], &once["rows"]), (&twice["totals"], &twice["rows"]));
}

#[test]
fn how_somebody_likes_tables_changes_no_report() {
    let rows = |environment: &[(&str, &str)]| {
        let report = run(&["report", &sample("quiet"), "-o", "json"], environment, b"").json(0);
        let sections = report["sections"].as_object().unwrap();
        sections
            .iter()
            .map(|(name, section)| (name.clone(), section["rows"].as_array().map_or(0, Vec::len)))
            .collect::<Vec<_>>()
    };
    let usual = rows(&[]);
    assert!(usual.iter().any(|(_, rows)| *rows > 10), "{usual:?}");
    assert_eq!(usual, rows(&[("PLIMSOLL_TOP", "1"), ("PLIMSOLL_PROGRESS", "never")]));
}
