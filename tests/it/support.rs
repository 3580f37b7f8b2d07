//! Runs the program in a clean environment, and the independent counts it is compared with.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What a run of the program came to.
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
}

impl Ran {
    /// Its stdout as JSON; the exit code must be `code`.
    #[track_caller]
    pub(crate) fn json(&self, code: i32) -> Value {
        self.exits(code);
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|bad| panic!("stdout is not JSON ({bad}): {}\n{}", self.stdout, self.stderr))
    }

    /// Checks the exit code, and that nothing panicked.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        self.did_not_panic();
        assert_eq!(self.code, Some(code), "exit code; stderr: {}", self.stderr);
        self
    }

    /// A thread that panics says so on stderr, whatever the exit code.
    #[track_caller]
    pub(crate) fn did_not_panic(&self) -> &Self {
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }
}

/// A folder for one test, removed when dropped. Its name says nothing that could be taken for an instance's.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("it").tempdir().unwrap()
}

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file or folder in `samples/`.
pub(crate) fn sample(name: &str) -> String {
    let path = root().join("samples").join(name);
    assert!(path.exists(), "{} is missing", path.display());
    path.to_str().unwrap().to_owned()
}

/// The text of a sample log, unpacked.
pub(crate) fn sample_bytes(name: &str) -> Vec<u8> {
    let packed = std::fs::read(sample(name)).unwrap();
    match Path::new(name).extension().and_then(|e| e.to_str()) {
        Some("zst") => zstd::decode_all(packed.as_slice()).unwrap(),
        _ => packed,
    }
}

/// Writes a file into `folder` and gives its path.
pub(crate) fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Hides everything of the environment but `PATH`, so that a person's config file or `PLIMSOLL_*` change nothing.
pub(crate) fn hermetic(mut command: Command, home: &Path) -> Command {
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home).current_dir(root());
    command
}

/// A jumble that is the same at each run.
pub(crate) fn jumble(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Runs `plimsoll` with these arguments.
pub(crate) fn plimsoll(args: &[&str]) -> Ran {
    run(args, &[], b"")
}

/// Runs `plimsoll` with more in its environment and `stdin`.
pub(crate) fn run(args: &[&str], environment: &[(&str, &str)], stdin: &[u8]) -> Ran {
    let home = folder();
    let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
    command.args(args).envs(environment.iter().copied());
    feed(command, stdin)
}

/// Runs `plimsoll traffic SOURCE --by BY -o json` and more; the exit code must be 0.
#[track_caller]
pub(crate) fn traffic(source: &str, by: &str, more: &[&str]) -> Value {
    plimsoll(&[&["traffic", source, "--by", by, "-o", "json"], more].concat()).json(0)
}

/// Runs a command with `stdin` and takes what it prints.
pub(crate) fn feed(mut command: Command, stdin: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut input, mut errors) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that does not read its stdin may be gone by now.
            let _ = input.write_all(stdin);
        });
        let stderr = scope.spawn(move || {
            let mut text = Vec::new();
            errors.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).expect("stdout is UTF-8");
        Ran { stdout, stderr: stderr.join().unwrap(), code: output.status.code() }
    })
}

/// What headless Chromium makes of a flame graph: clicked, reset, and searched for `term` (tests/oracle/svg.py).
#[track_caller]
pub(crate) fn picture(home: &std::path::Path, svg: &str, term: &str) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/svg.py")).args([&write(home, "flame.svg", svg), term]);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// What headless Chromium makes of an incident report that a person uses (tests/oracle/page.py).
#[track_caller]
pub(crate) fn picture_of(home: &std::path::Path, html: &str) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/page.py")).arg(write(home, "report.html", html));
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The rows of a report by the values of these dimensions; every key must occur once.
#[track_caller]
pub(crate) fn rows(report: &Value, by: &str) -> BTreeMap<Vec<String>, Value> {
    let mut found = BTreeMap::new();
    for row in report["rows"].as_array().expect("rows") {
        let key: Vec<String> =
            by.split(',').map(|dim| row[dim].as_str().unwrap_or_else(|| panic!("{dim} in {row}")).to_owned()).collect();
        assert!(found.insert(key, row.clone()).is_none(), "two rows are the same: {row}");
    }
    found
}

/// A count in a row or among the totals.
#[track_caller]
pub(crate) fn count(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("{field} is not a count in {row}"))
}

/// A measure in a row or among the totals.
#[track_caller]
pub(crate) fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} is not a number in {row}"))
}

/// Microseconds since 1970 of a time in a report.
#[track_caller]
pub(crate) fn micros(time: &Value) -> i64 {
    time.as_str().expect("a time").parse::<jiff::Timestamp>().expect("RFC 3339").as_microsecond()
}

/// A Python that has the modules of the independent counts.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let own = root().join("target/venv/bin/python");
        let python = if own.exists() {
            own
        } else {
            std::env::var_os("PLIMSOLL_PYTHON").unwrap_or_else(|| "python3".into()).into()
        };
        let check = Command::new(&python).args(["-c", "import duckdb, numpy, zstandard"]).output();
        match check {
            Ok(output) if output.status.success() => python,
            Ok(output) => {
                panic!("run .ci/setup first: {}: {}", python.display(), String::from_utf8_lossy(&output.stderr))
            }
            Err(error) => panic!("run .ci/setup first: {}: {error}", python.display()),
        }
    })
}

/// Counts the requests of `files` (`[CLUSTER:INSTANCE=]FILE`) a second time, by each of `bys`; see
/// `tests/oracle/traffic_many.py`.
pub(crate) fn oracle(bys: &[&str], files: &[String], flags: &[&str]) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/traffic_many.py")).arg(bys.join(" ")).args(flags).args(files);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "the oracle failed: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("the oracle prints JSON")
}

/// The fields that have to be equal in every count.
pub(crate) const COUNTS: [&str; 5] = ["requests", "open", "errors", "client_errors", "throttled"];

/// Compares the rows of a report with the oracle's, key by key: the counts, `max_ms` and `peak_rps` exactly, the
/// quantiles within half a bucket. Says what differs.
#[track_caller]
pub(crate) fn differences(report: &Value, oracle: &Value, by: &str) -> Vec<String> {
    let found = rows(report, by);
    let mut expected = rows(oracle, by);
    // A watch's latency belongs to its start; a row of nothing but that holds no request and is not shown.
    expected.retain(|_, row| count(row, "requests") > 0);
    let mut faults = Vec::new();
    for key in found.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
        let (mine, theirs) = match (found.get(key), expected.get(key)) {
            (Some(mine), Some(theirs)) => (mine, theirs),
            (Some(_), None) => {
                faults.push(format!("--by {by}: the oracle has no {key:?}"));
                continue;
            }
            (None, _) => {
                faults.push(format!("--by {by}: there is no {key:?}"));
                continue;
            }
        };
        let mut check = |field: &str, truth: Option<f64>, allowed: f64| {
            let value = mine[field].as_f64();
            let same = match (value, truth) {
                (Some(value), Some(truth)) => (value - truth).abs() <= allowed,
                (None, None) => mine[field].is_null(),
                _ => false,
            };
            if !same {
                faults.push(format!("--by {by}: {key:?}: {field} is {}, not {truth:?}", mine[field]));
            }
        };
        for field in COUNTS {
            check(field, Some(number(theirs, field)), 0.0);
        }
        check("peak_rps", Some(number(theirs, "peak_10s") / 10.0), 1e-6);
        check("max_ms", theirs["max_ms"].as_f64(), 1e-6);
        for (index, field) in ["p50_ms", "p90_ms", "p99_ms"].into_iter().enumerate() {
            let truth = theirs["quantiles_us"][index].as_f64().map(|micros| micros / 1e3);
            // Half a bucket is a 32nd, or half a microsecond; the JSON is rounded to a nanosecond.
            check(field, truth, truth.unwrap_or_default() / 32.0 + 0.000_501);
        }
    }
    faults
}

/// [`differences`], of which there must be none.
#[track_caller]
pub(crate) fn agree(report: &Value, oracle: &Value, by: &str) {
    none(&differences(report, oracle, by));
}

/// Fails with the first of `faults`, if there are any.
#[track_caller]
pub(crate) fn none(faults: &[String]) {
    let first: Vec<&str> = faults.iter().take(20).map(String::as_str).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), first.join("\n"));
}

/// All objects of the kustomization in a folder.
pub(crate) fn kustomization(folder: &Path) -> Vec<Value> {
    let read =
        |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let kustomization: Value = serde_yaml_ng::from_str(&read("kustomization.yaml")).unwrap();
    let files = kustomization["resources"].as_array().unwrap().iter().map(|name| read(name.as_str().unwrap()));
    let documents = |text: String| -> Vec<Value> {
        serde_yaml_ng::Deserializer::from_str(&text).map(|one| serde::Deserialize::deserialize(one).unwrap()).collect()
    };
    files.flat_map(documents).collect()
}
