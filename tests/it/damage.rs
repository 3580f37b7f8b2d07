//! Damaged, cut, oversized and missing inputs: what can be kept is kept, what is lost is counted and named with its
//! place, and nothing panics.

use crate::support::{Ran, count, folder, none, plimsoll, root, rows, run, sample, sample_bytes, traffic, write};
use serde_json::Value;
use std::io::Read;

/// File, events kept, lines lost (`samples/damage/README.md`), exit code, and what stderr has to say: the file and its
/// line or byte.
const DAMAGED: [(&str, u64, u64, i32, &[&str]); 9] = [
    ("truncated.log.gz", 235, 1, 3, &["truncated.log.gz", "byte "]),
    ("truncated.log.zst", 291, 1, 3, &["truncated.log.zst", "byte "]),
    ("nul-bytes.log", 19, 1, 3, &["nul-bytes.log:9:", "nul-bytes.log:14:", "NUL"]),
    ("invalid-utf8.log", 10, 0, 3, &["invalid-utf8.log:3:", "UTF-8"]),
    ("broken-line.log", 11, 2, 3, &["broken-line.log:5:"]),
    ("empty.log", 0, 0, 0, &[]),
    ("unfinished-last-line.log", 9, 0, 0, &[]), // the log is still being written
    ("hostile.log", 30, 0, 0, &[]),
    ("truncated-bodies.log", 5, 2, 3, &["truncated-bodies.log:4:"]),
];

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.did_not_panic().stdout)
        .unwrap_or_else(|bad| panic!("{bad}: {} {}", ran.stdout, ran.stderr))
}

fn kept(report: &Value) -> u64 {
    count(&report["inputs"][0], "records")
}

#[test]
fn what_can_be_kept_is_kept_and_the_rest_is_counted() {
    let mut faults = Vec::new();
    for (name, events, lost, code, words) in DAMAGED {
        let path = sample(&format!("damage/{name}"));
        let ran = plimsoll(&["traffic", &path, "-o", "json"]);
        let input = &report(&ran)["inputs"][0];
        let found = (count(input, "records"), count(input, "skipped"), ran.code);
        if found != (events, lost, Some(code)) {
            faults.push(format!(
                "{name}: kept, lost, exit code are {found:?}, not {:?}: {}",
                (events, lost, code),
                ran.stderr.trim()
            ));
        }
        if let Some(missing) = words.iter().find(|word| !ran.stderr.contains(**word)) {
            faults.push(format!("{name}: stderr does not say '{missing}': {}", ran.stderr.trim()));
        }
        if code == 0 && !ran.stderr.is_empty() {
            faults.push(format!("{name}: nothing was lost, but stderr says: {}", ran.stderr.trim()));
        }
        if input["first_error"].is_null() != (code == 0) {
            faults.push(format!("{name}: first_error is {}", input["first_error"]));
        }
    }
    none(&faults);
}

#[test]
fn every_damaged_sample_is_tested() {
    let mut names: Vec<String> = std::fs::read_dir(root().join("samples/damage"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            !["README.md", "make.py", "not-audit.log"].contains(&name.as_str()) && !name.starts_with(['.', '_'])
        })
        .collect();
    let mut listed: Vec<&str> = DAMAGED.iter().map(|row| row.0).collect();
    names.sort();
    listed.sort_unstable();
    assert_eq!(names, listed);
}

#[test]
fn another_programs_log_is_refused() {
    let path = sample("damage/not-audit.log");
    let ran = plimsoll(&["traffic", &path]);
    assert!(ran.exits(3).stderr.contains(&path), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    // Beside a good one it is named, and the good one is counted.
    let ran = plimsoll(&["traffic", &path, &sample("forms/v1.log"), "-o", "json"]);
    assert_eq!(count(&ran.json(3)["totals"], "requests"), 83);
    assert!(ran.stderr.contains(&path), "{}", ran.stderr);
}

#[test]
fn what_is_missing_is_named() {
    let folder = folder();
    let missing = folder.path().join("no-such.log").display().to_string();
    let ran = plimsoll(&["traffic", &missing]);
    assert!(ran.exits(3).stderr.contains(&missing), "{}", ran.stderr);
    let ran = plimsoll(&["traffic", &missing, &sample("forms/v1.log"), "-o", "json"]);
    assert_eq!(count(&ran.json(3)["totals"], "requests"), 83);
    assert!(ran.stderr.contains(&missing), "{}", ran.stderr);

    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (files, name) in [(false, "without files"), (true, "with other files")] {
        if files {
            write(&empty, "notes.txt", "hello");
            write(&empty, "image.png", [0x89, b'P', b'N', b'G', 0, 1, 2, 3]);
        }
        let ran = plimsoll(&["traffic", empty.to_str().unwrap()]);
        assert!(ran.exits(3).stderr.contains(empty.to_str().unwrap()), "{name}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{name}");
    }
    write(&empty, "deep/er/audit.log", sample_bytes("forms/v1.log"));
    assert_eq!(count(&traffic(empty.to_str().unwrap(), "verb", &[])["totals"], "requests"), 83);
}

/// An event of the plain sample that is complete in itself.
fn lines(count: usize) -> Vec<Vec<u8>> {
    let log = sample_bytes("forms/v1.log");
    let lines = log.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec);
    lines.filter(|line| line.windows(18).any(|w| w == b"\"ResponseComplete\"")).take(count).collect()
}

#[test]
fn a_line_of_a_hundred_megabytes_is_passed_over() {
    let folder = folder();
    let good = lines(8);
    // Whole JSON, only long: the body of a write that the policy logs.
    let text = String::from_utf8(good[0].clone()).unwrap();
    let (head, tail) = text.split_once("\"responseStatus\"").unwrap();
    let long = |length: usize| {
        format!("{head}\"requestObject\":{{\"data\":\"{}\"}},\"responseStatus\"{tail}", "x".repeat(length))
    };
    let log = [good[..3].concat(), long(100 << 20).into_bytes(), good[3..].concat()].concat();
    let path = write(folder.path(), "audit.log", &log);
    for ran in [plimsoll(&["traffic", &path, "-o", "json"]), run(&["traffic", "-", "-o", "json"], &[], &log)] {
        let report = ran.json(3);
        assert_eq!((kept(&report), count(&report["inputs"][0], "skipped")), (8, 1), "{}", ran.stderr);
        assert_eq!(count(&report["totals"], "requests"), 8);
        assert!(
            ran.stderr.contains(":4: ") && ran.stderr.contains(&format!("byte {}", good[..3].concat().len())),
            "{}",
            ran.stderr
        );
    }
    // Cut off within: the same. And one of a few megabytes is a line like any other.
    let cut = write(folder.path(), "cut.log", &log[..90 << 20]);
    let ran = plimsoll(&["traffic", &cut, "-o", "json"]);
    assert_eq!(kept(&report(&ran)), 3, "{}", ran.stderr);
    let log = [good[..3].concat(), long(5 << 20).into_bytes(), good[3..].concat()].concat();
    let path = write(folder.path(), "audit.log", &log);
    assert_eq!(kept(&traffic(&path, "verb", &[])), 9);
}

#[test]
fn lines_behind_a_broken_one_are_named_by_their_number() {
    // Far apart, so that they lie in blocks that different threads read.
    let folder = folder();
    let good = lines(50).concat();
    let mut log = Vec::new();
    let mut line = 0;
    for _ in 0..60 {
        log.extend_from_slice(&good);
        line += 50;
    }
    let place = log.len();
    log.extend_from_slice(b"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Meta\n");
    for _ in 0..60 {
        log.extend_from_slice(&good);
    }
    assert!(log.len() > 4 << 20, "{}", log.len());
    let path = write(folder.path(), "audit.log", &log);
    for threads in ["1", "4"] {
        let ran = plimsoll(&["traffic", &path, "-o", "json", "--threads", threads]);
        assert_eq!(kept(&ran.json(3)), 6000);
        assert!(
            ran.stderr.contains(&format!("{path}:{}: ", line + 1)) && ran.stderr.contains(&format!("byte {place}")),
            "{}",
            ran.stderr
        );
    }
    let ran = run(&["traffic", "-"], &[], &log);
    assert!(ran.exits(3).stderr.contains(&format!("-:{}: ", line + 1)), "{}", ran.stderr);
}

#[test]
fn carriage_returns_and_blank_lines_are_no_events() {
    let folder = folder();
    let plain = rows(&traffic(&sample("forms/v1.log"), "verb,resource,user", &[]), "verb,resource,user");
    let text = String::from_utf8(sample_bytes("forms/v1.log")).unwrap();
    for (name, log) in [
        ("crlf.log", text.replace('\n', "\r\n")),
        ("blank.log", text.replace('\n', "\n\n  \r\n")),
        ("bom.log", format!("\u{feff}{text}")),
    ] {
        let path = write(folder.path(), name, log);
        assert_eq!(rows(&traffic(&path, "verb,resource,user", &[]), "verb,resource,user"), plain, "{name}");
    }
}

/// What gzip gives of the first bytes of a file.
fn gunzip(packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    // The error at the cut is what this is about.
    let _ = flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut plain);
    plain
}

fn newlines(text: &[u8]) -> u64 {
    text.iter().filter(|b| **b == b'\n').count() as u64
}

#[test]
fn a_gzip_file_cut_anywhere() {
    let folder = folder();
    let packed = std::fs::read(sample("forms/v1.log.gz")).unwrap();
    let mut before = 0;
    for cut in (0..packed.len()).step_by(61).chain([1, 2, 3, 9, 10, 11, 18, packed.len() - 8, packed.len() - 1]) {
        let path = write(folder.path(), "cut.log.gz", &packed[..cut]);
        let ran = plimsoll(&["traffic", &path, "-o", "json"]);
        ran.exits(if cut == 0 { 0 } else { 3 });
        if cut > 0 {
            assert!(ran.stderr.contains(&path), "cut at {cut}: {}", ran.stderr);
        }
        if cut >= 2 {
            let whole = newlines(&gunzip(&packed[..cut]));
            assert_eq!(kept(&report(&ran)), whole, "cut at {cut}: {}", ran.stderr);
            before = before.max(whole);
        }
    }
    assert_eq!(before, 84, "the last cut leaves all lines");
    // A byte changed somewhere: an error or other text, but no panic.
    for at in (10..packed.len()).step_by(97) {
        let mut changed = packed.clone();
        changed[at] ^= 0x55;
        let ran = plimsoll(&["traffic", &write(folder.path(), "changed.log.gz", changed), "-o", "json"]);
        ran.exits(3);
    }
}

#[test]
fn every_prefix_of_a_log() {
    let folder = folder();
    let log = lines(5).concat();
    let ends: Vec<usize> = log.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at).collect();
    assert_eq!(ends.len(), 5);
    let around = ends.iter().flat_map(|end| [end - 1, *end, end + 1, end + 2]).filter(|cut| *cut <= log.len());
    for cut in (0..log.len()).step_by(97).chain(around) {
        // The newline itself may be missing: an event that is whole counts.
        let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
        let path = write(folder.path(), "audit.log", &log[..cut]);
        for ran in [plimsoll(&["traffic", &path, "-o", "json"]), run(&["traffic", "-", "-o", "json"], &[], &log[..cut])]
        {
            ran.did_not_panic();
            if whole > 0 || cut == 0 {
                let report = ran.json(0);
                assert_eq!(
                    (kept(&report), count(&report["inputs"][0], "skipped")),
                    (whole, 0),
                    "the first {cut} bytes: {}",
                    ran.stderr
                );
            } else {
                // Too little to decide what it is, or a log whose first line is still being written.
                assert!(matches!(ran.code, Some(0 | 3)), "the first {cut} bytes: {:?} {}", ran.code, ran.stderr);
            }
        }
    }
}

#[test]
fn a_hostile_name_of_a_file_does_nothing_to_the_terminal() {
    let folder = folder();
    let name = "\u{1b}[31mred\u{202e}.log";
    write(folder.path(), name, "this is not an audit log\n");
    let glob = format!("{}/*.log", folder.path().display());
    for more in [None, Some(sample("forms/v1.log"))] {
        let mut args = vec!["traffic", &glob];
        args.extend(more.as_deref());
        let ran = plimsoll(&args);
        assert!(ran.exits(3).stderr.contains("red"), "{}", ran.stderr);
        assert!(!ran.stderr.contains(['\u{1b}', '\u{202e}']), "{:?}", ran.stderr);
    }
    let log = [lines(3).concat(), b"broken\n".to_vec(), lines(3).concat()].concat();
    write(folder.path(), name, log);
    let ran = plimsoll(&["traffic", &glob, "-o", "json"]);
    assert!(!ran.exits(3).stderr.contains(['\u{1b}', '\u{202e}']), "{:?}", ran.stderr);
    assert!(!ran.stdout.contains(['\u{1b}', '\u{202e}']), "{:?}", ran.stdout);
}

/// `/proc/self/mem` opens, and gives an error at its first byte; it stands in for a bad disk.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_can_not_be_read() {
    let ran = plimsoll(&["traffic", "/proc/self/mem", &sample("forms/v1.log"), "-o", "json"]);
    assert_eq!(count(&ran.json(3)["totals"], "requests"), 83);
    assert!(ran.stderr.contains("/proc/self/mem"), "{}", ran.stderr);
}
