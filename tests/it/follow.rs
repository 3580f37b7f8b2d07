//! `plimsoll traffic --follow` on logs that are written and rotated meanwhile.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may panic")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// An event whose object has `number` as its name; as long as those of a real log.
fn line(number: u64) -> String {
    let (second, micros) = (number / 2000 % 60, number % 2000 * 500);
    format!(
        r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{number:08x}-7e14-4b8f-9c2d-0123456789ab","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/batch/pods/{number}","verb":"get","user":{{"username":"system:serviceaccount:batch:worker","uid":"u9","groups":["system:serviceaccounts","system:serviceaccounts:batch","system:authenticated"]}},"sourceIPs":["127.0.0.75"],"userAgent":"worker/v3 (linux/amd64)","objectRef":{{"resource":"pods","namespace":"batch","name":"{number}","apiVersion":"v1"}},"responseStatus":{{"metadata":{{}},"code":200}},"requestReceivedTimestamp":"2026-11-20T09:22:{second:02}.{micros:06}Z","stageTimestamp":"2026-11-20T09:22:{second:02}.{micros:06}Z","annotations":{{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"lab-full\" of ClusterRole \"cluster-admin\" to Group \"lab:full\""}}}}{}"#,
        '\n'
    )
}

fn lines(numbers: std::ops::Range<u64>) -> String {
    numbers.map(line).collect()
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// A running `plimsoll traffic --follow -o json`.
struct Follow {
    child: Child,
    documents: Receiver<(Instant, Value)>,
    errors: std::thread::JoinHandle<String>,
}

/// What it came to.
struct Ended {
    status: ExitStatus,
    last: Value,
    errors: String,
}

impl Follow {
    fn start(source: &Path, more: &[&str]) -> Self {
        Self::start_with(source, more, Stdio::null())
    }

    fn start_with(source: &Path, more: &[&str], stdin: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .env_clear()
            .args(["traffic", "--follow", "-o", "json"])
            .args(more)
            .arg(source)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (send, documents) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let document = serde_json::from_str(&line).expect("one whole document to a line");
                let _ = send.send((Instant::now(), document));
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, documents, errors }
    }

    /// Waits until so many requests have been counted.
    fn wait_for(&self, requests: u64) {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (_, document) =
                self.documents.recv_timeout(left).unwrap_or_else(|_| panic!("{requests} requests were never counted"));
            if counted(&document) == requests {
                return;
            }
        }
    }

    /// Sends SIGTERM, and waits.
    fn stop(self) -> Ended {
        let kill = format!("kill -TERM {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        self.end()
    }

    fn end(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        let errors = self.errors.join().unwrap();
        let last =
            self.documents.iter().last().map(|(_, document)| document).unwrap_or_else(|| panic!("{status}: {errors}"));
        Ended { status, last, errors }
    }
}

fn counted(document: &Value) -> u64 {
    document["totals"]["requests"].as_u64().unwrap()
}

impl Ended {
    /// Each of `0..count` was counted exactly once, and nothing was lost.
    fn has_each_once(&self, count: u64) {
        self.has_exactly(0..count);
        assert_eq!(self.status.code(), Some(0), "{}", self.errors);
        assert_eq!(self.last["coverage"]["lost"], serde_json::json!([]));
    }

    fn has_exactly(&self, numbers: impl Iterator<Item = u64>) {
        let rows = self.last["rows"].as_array().unwrap();
        let found: BTreeMap<u64, u64> = rows
            .iter()
            .map(|row| (row["name"].as_str().unwrap().parse().unwrap(), row["requests"].as_u64().unwrap()))
            .collect();
        let expected: BTreeMap<u64, u64> = numbers.map(|number| (number, 1)).collect();
        let missing: Vec<&u64> = expected.keys().filter(|n| !found.contains_key(n)).collect();
        let doubled: Vec<_> = found.iter().filter(|(n, count)| **count != 1 || !expected.contains_key(n)).collect();
        assert!(
            missing.is_empty() && doubled.is_empty(),
            "missing {} {:?}, doubled {} {:?}\n{}\n{}",
            missing.len(),
            &missing[..missing.len().min(20)],
            doubled.len(),
            &doubled[..doubled.len().min(20)],
            self.errors,
            self.last["inputs"],
        );
    }
}

/// Writes like an apiserver, but worse: in pieces of any length, with many rotations, and with lines that go
/// to the old file after it was renamed.
struct Writer {
    folder: PathBuf,
    file: File,
    next: u64,
    rotations: u64,
    random: u64,
    late: Vec<(File, Instant, u64)>,
    pack: bool,
    /// Rotated files, to be deleted after this time.
    delete_after: Option<Duration>,
    rotated: Vec<(PathBuf, Instant)>,
}

impl Writer {
    fn new(folder: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(folder.join("audit.log")).unwrap();
        Self {
            folder: folder.to_owned(),
            file,
            next: 0,
            rotations: 0,
            random: 88_172_645_463_325_252,
            late: Vec::new(),
            pack: false,
            delete_after: None,
            rotated: Vec::new(),
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn write(&mut self, count: u64) {
        let text = lines(self.next..self.next + count);
        self.next += count;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let length = (1 + self.random(3000) as usize).min(rest.len());
            self.file.write_all(&rest[..length]).unwrap();
            rest = &rest[length..];
            if self.random(40) == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
    }

    fn rotate(&mut self) {
        self.rotations += 1;
        let (second, milli) = (self.rotations / 1000, self.rotations % 1000);
        let rotated = self.folder.join(format!("audit-2026-11-20T09-37-{second:02}.{milli:03}.log"));
        std::fs::rename(self.folder.join("audit.log"), &rotated).unwrap();
        let new = OpenOptions::new().create(true).append(true).open(self.folder.join("audit.log")).unwrap();
        let mut old = std::mem::replace(&mut self.file, new);
        if self.random(2) == 0 {
            old.write_all(line(self.next).as_bytes()).unwrap();
            self.next += 1;
            let due = Instant::now() + Duration::from_millis(self.random(400));
            self.late.push((old, due, self.next));
            self.next += 1;
        } else if self.pack {
            let packed = Command::new("gzip").arg(&rotated).status().unwrap();
            assert!(packed.success());
        }
        self.rotated.push((rotated, Instant::now()));
        if let Some(age) = self.delete_after {
            let (old, kept) = std::mem::take(&mut self.rotated).into_iter().partition(|(_, at)| at.elapsed() > age);
            self.rotated = kept;
            old.iter().for_each(|(path, _): &(PathBuf, Instant)| std::fs::remove_file(path).unwrap());
        }
    }

    fn write_late(&mut self, all: bool) {
        let (due, late) =
            std::mem::take(&mut self.late).into_iter().partition(|(_, due, _)| all || *due <= Instant::now());
        self.late = late;
        for (mut file, _, number) in due {
            file.write_all(line(number).as_bytes()).unwrap();
        }
    }

    /// About `count` events, with a rotation every few hundred, sometimes two or three at once.
    fn run(&mut self, count: u64) {
        let end = self.next + count;
        while self.next < end {
            let some = 100 + self.random(400);
            self.write(some);
            self.rotate();
            for _ in 0..self.random(3) {
                let few = 1 + self.random(5);
                self.write(few);
                self.rotate();
            }
            self.write_late(false);
        }
        self.write(7);
        self.write_late(true);
    }
}

#[test]
fn rotation_loses_nothing_and_counts_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(folder.path());
    writer.run(2000); // rotated files that are there before
    let follow = Follow::start(folder.path(), &["--by", "name", "--every", "1s"]);
    writer.run(25_000); // from before it has opened anything
    let ended = follow.stop();
    ended.has_each_once(writer.next);
    assert_eq!(ended.last["coverage"]["streams"].as_array().unwrap().len(), 1);
}

#[test]
fn rotation_of_a_named_file_brings_its_siblings_but_not_those_of_before() {
    let folder = tempfile::tempdir().unwrap();
    append(&folder.path().join("audit-2026-11-19T09-37-00.000.log"), &lines(900_000..900_100));
    let mut writer = Writer::new(folder.path());
    writer.write(10);
    let follow = Follow::start(&folder.path().join("audit.log"), &["--by", "name", "--every", "200ms"]);
    follow.wait_for(10);
    writer.run(25_000);
    follow.stop().has_each_once(writer.next);
}

#[test]
fn a_rotated_file_that_is_packed_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(folder.path());
    writer.pack = true;
    writer.write(10);
    let follow = Follow::start(folder.path(), &["--by", "name", "--every", "200ms"]);
    follow.wait_for(10);
    writer.run(15_000);
    std::thread::sleep(Duration::from_millis(2500)); // packed files are looked at once they have settled
    let ended = follow.stop();
    ended.has_each_once(writer.next);
}

#[test]
fn inodes_of_deleted_files_are_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(folder.path());
    writer.delete_after = Some(Duration::from_millis(1500));
    writer.write(10);
    let follow = Follow::start(folder.path(), &["--by", "name", "--every", "200ms"]);
    follow.wait_for(10);
    for _ in 0..16 {
        writer.run(1_500);
        std::thread::sleep(Duration::from_millis(300));
    }
    follow.stop().has_each_once(writer.next);
}

#[test]
fn a_rotated_file_that_was_closed_is_read_on_if_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(folder.path());
    writer.write(10);
    let follow = Follow::start(&folder.path().join("audit.log"), &["--by", "name", "--every", "200ms"]);
    follow.wait_for(10);
    let old = folder.path().join("audit.log.1");
    std::fs::rename(folder.path().join("audit.log"), &old).unwrap();
    append(&folder.path().join("audit.log"), &lines(10..20));
    follow.wait_for(20);
    std::thread::sleep(Duration::from_millis(3500));
    append(&old, &lines(20..25));
    follow.wait_for(25);
    append(&folder.path().join("audit.log"), &lines(25..30));
    follow.stop().has_each_once(30);
}

#[test]
fn only_whole_lines_are_counted_and_an_unfinished_one_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let (whole, half) = (line(2), line(3));
    append(&path, &(lines(0..2) + &whole[..300]));
    let follow = Follow::start(&path, &["--by", "name", "--every", "150ms"]);
    follow.wait_for(2);
    append(&path, &whole[300..]);
    follow.wait_for(3);
    append(&path, &half[..200]);
    let ended = follow.stop();
    ended.has_each_once(3);
    assert_eq!(ended.last["coverage"]["unfinished_lines"], 1);
}

#[test]
fn copytruncate_is_told_and_read_from_the_start_with_what_the_copy_has_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    append(&path, &lines(0..100));
    let follow = Follow::start(&path, &["--by", "name", "--every", "150ms"]);
    follow.wait_for(100);
    append(&path, &lines(100..110)); // before the next look, perhaps
    std::fs::copy(&path, folder.path().join("audit.log.1")).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    append(&path, &lines(110..150));
    follow.wait_for(150);
    append(&path, &lines(150..160));
    let ended = follow.stop();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.errors);
    assert!(ended.errors.contains("may be lost") && ended.errors.contains("copytruncate"), "{}", ended.errors);
    assert_eq!(ended.errors.lines().count(), 1, "{}", ended.errors);
    ended.has_exactly(0..160);
}

#[test]
fn a_log_that_is_gone_is_waited_for_and_a_new_apiservers_log_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("apiserver-a"), folder.path().join("apiserver-b"));
    std::fs::create_dir(&a).unwrap();
    let follow = Follow::start(folder.path(), &["--by", "name", "--every", "150ms"]);
    follow.wait_for(0);
    append(&a.join("audit.log"), &lines(0..10));
    follow.wait_for(10);
    std::fs::remove_file(a.join("audit.log")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    append(&a.join("audit.log"), &lines(10..20));
    append(&a.join("notes.txt"), "this is not an audit log, though it stands in the same folder as one\n");
    follow.wait_for(20);
    std::fs::create_dir(&b).unwrap();
    append(&b.join("audit.log"), &lines(20..30));
    follow.wait_for(30);
    let ended = follow.stop();
    ended.has_each_once(30);
    let instances: Vec<_> =
        ended.last["coverage"]["streams"].as_array().unwrap().iter().map(|s| s["instance"].as_str().unwrap()).collect();
    assert_eq!(instances, ["apiserver-a", "apiserver-b"]);
    assert!(ended.errors.contains("waiting"), "{}", ended.errors);
}

#[test]
fn standard_input_is_read_as_it_comes_and_ends_the_run() {
    let mut follow = Follow::start_with(Path::new("-"), &["--by", "name", "--every", "150ms"], Stdio::piped());
    let mut input = follow.child.stdin.take().unwrap();
    let text = lines(0..30);
    input.write_all(&text.as_bytes()[..2000]).unwrap();
    follow.wait_for(text.as_bytes()[..2000].iter().filter(|&&b| b == b'\n').count() as u64);
    input.write_all(&text.as_bytes()[2000..]).unwrap();
    follow.wait_for(30);
    drop(input);
    follow.end().has_each_once(30);
}

#[test]
fn it_ends_by_itself_after_the_time_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    append(&path, &lines(0..5));
    let start = Instant::now();
    let ended = Follow::start(&path, &["--by", "name", "--for", "700ms"]).end();
    let took = start.elapsed();
    ended.has_each_once(5);
    assert!((Duration::from_millis(700)..Duration::from_secs(5)).contains(&took), "{took:?}");
}

#[test]
fn what_makes_no_sense_together_is_a_usage_error() {
    for flags in [
        &["--follow", "--series"][..],
        &["--follow", "--baseline", "b"],
        &["--every", "1s"],
        &["--follow", "--for", "soon"],
    ] {
        let run =
            Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(["traffic", "audit.log"]).args(flags).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{flags:?}");
    }
}

#[test]
fn csv_has_its_headings_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    append(&path, &lines(0..5));
    let run = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["traffic", "--follow", "--every", "200ms", "--for", "900ms", "-o", "csv", "--by", "verb"])
        .arg(&path)
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("verb,")).count(), 1, "{text}");
    assert!(text.lines().filter(|line| line.starts_with("get,5,")).count() >= 2, "{text}");
}

#[test]
fn it_keeps_up_with_twenty_thousand_events_a_second() {
    const BURST: u64 = 300;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    append(&path, &line(0));
    let follow = Follow::start(&path, &["--by", "verb,user", "--every", "500ms"]);
    follow.wait_for(1);
    let written = Arc::new(AtomicU64::new(1));
    let start = Instant::now();
    let writer = std::thread::spawn({
        let written = Arc::clone(&written);
        move || {
            let mut file = OpenOptions::new().append(true).open(path).unwrap();
            let mut marks = Vec::new();
            let text = lines(1..1 + BURST);
            while start.elapsed() < Duration::from_secs(3) {
                file.write_all(text.as_bytes()).unwrap();
                marks.push((Instant::now(), written.fetch_add(BURST, Ordering::Relaxed) + BURST));
                // 30,000 a second, whatever time it took.
                let due = start + Duration::from_millis(10) * marks.len() as u32;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            marks
        }
    });
    let marks = writer.join().unwrap();
    let (took, total) = (start.elapsed().as_secs_f64(), written.load(Ordering::Relaxed));
    assert!(total as f64 / took >= 20_000.0, "the writer itself was too slow: {total} in {took} s");
    let mut worst = Duration::ZERO;
    for (at, document) in follow.documents.try_iter() {
        // What it had not counted when it printed: since when was that written?
        let counted = counted(&document);
        let oldest = marks.iter().find(|(_, written)| *written > counted).map_or(at, |(written_at, _)| *written_at);
        worst = worst.max(at.saturating_duration_since(oldest));
    }
    assert!(worst < Duration::from_millis(1500), "{worst:?} behind");
    let ended = follow.stop();
    assert_eq!((counted(&ended.last), ended.status.code()), (total, Some(0)), "{}", ended.errors);
}
