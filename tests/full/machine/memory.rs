//! `plimsoll memory` on real cgroups of this machine (v1; run as root).

use super::group::{Group, file_on_disk, fills_cache, holds_memory, reads_again_and_again};
use crate::support::{count, folder, number, plimsoll, run};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn show(group: &Group, more: &[&str]) -> Value {
    plimsoll(&[&["memory", "show", &group.path, "-o", "json"], more].concat()).json(0)["rows"][0].clone()
}

/// A full group whose cache nobody reads, and the folder of the file.
fn full_of_cache() -> (Group, tempfile::TempDir) {
    let place = folder();
    let file = file_on_disk(place.path(), 160 * MIB);
    let mut group = Group::new(96 * MIB);
    group.run(&fills_cache(&file, 160 * MIB));
    (group, place)
}

#[test]
fn a_group_full_of_idle_cache_is_told_as_such() {
    let (group, _place) = full_of_cache();
    let row = show(&group, &[]);
    assert_eq!(row["verdict"], "cache-full-reclaimable", "{row}");
    assert_eq!(count(&row, "limit"), 96 * MIB);
    assert_eq!(row["limit_by"], group.path.as_str());
    assert!(number(&row, "usage_share") >= 0.9 && count(&row, "unreclaimable") < 60 * MIB, "{row}");
    // The kernel charges in batches of 64 pages per CPU.
    assert!(number(&row, "unexplained").abs() < 4e6, "{row}");
    let text = plimsoll(&["memory", "show", &group.path, "--over", "0s"]);
    assert!(text.exits(0).stdout.contains("cache-full-reclaimable") && text.stdout.contains("ffff"), "{}", text.stdout);
    assert!(text.stdout.lines().any(|line| line.starts_with('[') && line.len() == 78), "{}", text.stdout);
}

#[test]
fn anonymous_memory_near_the_limit_is_told_as_such() {
    let mut group = Group::new(96 * MIB);
    group.run(&holds_memory(84 * MIB));
    let row = show(&group, &[]);
    assert_eq!(row["verdict"], "anon-pressure", "{row}");
    assert!(count(&row, "anon") >= 84 * MIB, "{row}");
    let report = plimsoll(&["memory", "show", &group.path, "-o", "json", "--fail-on", "warning"]).json(1);
    assert_eq!(report["findings"][0]["id"], "memory-anon-pressure");
}

#[test]
fn a_file_larger_than_the_limit_read_in_a_loop_is_thrashing() {
    let place = folder();
    let file = file_on_disk(place.path(), 128 * MIB);
    let mut group = Group::new(64 * MIB);
    group.run(&reads_again_and_again(&file));
    let row = show(&group, &["--over", "3s"]);
    assert_eq!(row["verdict"], "cache-thrashing", "{row}");
    assert!(number(&row, "refault_share_per_min") >= 0.1 && count(&row, "limit_hits") > 0, "{row}");
    // And it is not taken from.
    let ran = plimsoll(&[
        "memory",
        "reclaim",
        &group.path,
        "--yes",
        "--pause",
        "2s",
        "--state",
        place.path().to_str().unwrap(),
    ]);
    ran.exits(3);
    assert!(ran.stdout.contains("the cache is in use"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_group_is_found_by_process_and_shown_with_those_below() {
    let mut group = Group::new(256 * MIB);
    fs::create_dir(group.folder.join("below")).unwrap();
    group.run(&holds_memory(8 * MIB));
    let pid = fs::read_to_string(group.folder.join("cgroup.procs")).unwrap().trim().to_owned();
    let report = plimsoll(&["memory", "show", "--pid", &pid, "--recursive", "--over", "0s", "-o", "json"]).json(0);
    let paths: Vec<&str> = report["rows"].as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [group.path.clone(), format!("{}/below", group.path)]);
    assert_eq!(
        (&report["rows"][0]["verdict"], &report["rows"][1]["depth"]),
        (&Value::from("healthy"), &Value::from(1))
    );
    // The one below has no limit of its own: the one above counts.
    assert_eq!(report["rows"][1]["limit"], Value::from(256 * MIB));
    let _ = fs::remove_dir(group.folder.join("below"));
}

#[test]
fn reclaim_says_first_and_then_frees_the_cache() {
    let (mut group, _place) = full_of_cache();
    let state = folder();
    let state = state.path().to_str().unwrap();
    let args = [
        "memory",
        "reclaim",
        &group.path,
        "--state",
        state,
        "--step",
        "4MiB",
        "--pause",
        "100ms",
        "--most",
        "90%",
        "-o",
        "json",
    ];
    let before = group.number("memory.usage_in_bytes");
    let dry = plimsoll(&args).json(0);
    assert_eq!(
        (&dry["rows"][0]["dry_run"], &dry["rows"][0]["method"]),
        (&"yes".into(), &"memory.limit_in_bytes".into())
    );
    assert_eq!(dry["rows"][0]["freed"], 0);
    assert!(group.number("memory.usage_in_bytes") + MIB > before);
    let done = plimsoll(&[&args[..], &["--yes"]].concat()).json(0);
    let row = &done["rows"][0];
    let freed = count(row, "freed");
    assert!(freed > 30 * MIB && count(row, "steps") > 3, "{row}");
    assert!(group.number("memory.usage_in_bytes") + freed / 2 < before, "{row}");
    assert_eq!(group.limit(), 96 * MIB);
    assert!(group.lives());
    // Another goal: there is nothing left to do.
    let again = plimsoll(&[
        "memory",
        "reclaim",
        &group.path,
        "--state",
        state,
        "--until",
        "headroom=5%",
        "--yes",
        "-o",
        "json",
    ])
    .json(0);
    assert!(again["rows"][0]["ended"].as_str().unwrap().contains("nothing to do"), "{again}");
    assert!(leftovers(Path::new(state)).is_empty());
}

#[test]
fn reclaim_stops_when_what_it_took_is_read_again() {
    let place = folder();
    let file = file_on_disk(place.path(), 60 * MIB);
    // It fits: nothing is read from the disk again until somebody takes it away.
    let mut group = Group::new(96 * MIB);
    group.run(&reads_again_and_again(&file));
    let state = place.path().to_str().unwrap();
    let args = [
        "memory",
        "reclaim",
        &group.path,
        "--state",
        state,
        "--until",
        "cache<1MiB",
        "--step",
        "16MiB",
        "--most",
        "100%",
    ];
    // Between steps there is time to read it again, on a busy machine too.
    let report = plimsoll(&[&args[..], &["--pause", "2s", "--yes", "-o", "json"]].concat()).json(0);
    let row = &report["rows"][0];
    assert!(row["ended"].as_str().unwrap().starts_with("stopped: refaults rise"), "{row}");
    // All of it would be four.
    assert!(count(row, "steps") <= 3, "{row}");
    assert_eq!(group.limit(), 96 * MIB);
    assert!(group.lives());
}

fn leftovers(state: &Path) -> Vec<String> {
    let names = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

/// Runs reclaim, and does something at one of its writes to the group's limit: the first shows that it can restore, the
/// second lowers, the third restores.
fn traced(group: &Group, state: &Path, inject: &str) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-o", state.join("trace.lock").to_str().unwrap(), "-e", "trace=write"]);
    command.args([
        "-P",
        group.folder.join("memory.limit_in_bytes").to_str().unwrap(),
        "-e",
        &format!("inject=write:{inject}"),
    ]);
    command.args([
        env!("CARGO_BIN_EXE_plimsoll"),
        "memory",
        "reclaim",
        &group.path,
        "--state",
        state.to_str().unwrap(),
    ]);
    command.args(["--step", "4MiB", "--pause", "100ms", "--most", "90%", "--yes", "-q"]).stdout(Stdio::null());
    command
}

/// What reclaim wrote to the limit, by strace's account.
fn trace(state: &Path) -> String {
    fs::read_to_string(state.join("trace.lock"))
        .unwrap_or_else(|error| panic!("strace wrote nothing ({error}); run .ci/setup first"))
}

#[test]
fn the_limit_is_what_it_was_after_sigint_in_mid_step() {
    let (mut group, _place) = full_of_cache();
    let state = folder();
    // While the kernel reclaims, and while the limit is low.
    for write in [2, 3] {
        let status = traced(&group, state.path(), &format!("signal=INT:when={write}")).status().unwrap();
        assert_eq!(status.code(), Some(0));
        assert!(trace(state.path()).contains("--- SIGINT"), "{}", trace(state.path()));
        assert_eq!(group.limit(), 96 * MIB);
        assert!(leftovers(state.path()).is_empty());
    }
    assert!(group.lives());
}

#[test]
fn a_limit_left_low_by_a_killed_run_is_restored_by_the_next() {
    let (mut group, _place) = full_of_cache();
    let state = folder();
    let shown = state.path().to_str().unwrap();
    // It is held when it is about to restore.
    let mut tracer = traced(&group, state.path(), "delay_enter=60s:when=3")
        .spawn()
        .unwrap_or_else(|error| panic!("strace: {error}"));
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while group.limit() == 96 * MIB {
        assert!(std::time::Instant::now() < end, "the limit was never lowered");
        std::thread::sleep(Duration::from_millis(5));
    }
    let low = group.limit();
    // While it runs, nobody else may.
    let busy = plimsoll(&["memory", "reclaim", &group.path, "--state", shown, "--most", "90%", "--yes"]);
    assert!(busy.exits(3).stdout.contains("another plimsoll"), "{}", busy.stdout);
    assert_eq!(group.limit(), low);
    let held = fs::read_to_string(format!("/proc/{0}/task/{0}/children", tracer.id())).unwrap();
    assert!(Command::new("kill").args(["-KILL", held.trim()]).status().unwrap().success());
    // The tracer would hold the dead until the end of the delay.
    tracer.kill().unwrap();
    tracer.wait().unwrap();
    let dead = || {
        fs::read_to_string(format!("/proc/{}/status", held.trim())).map_or(true, |status| status.contains("State:\tZ"))
    };
    while !dead() {
        assert!(std::time::Instant::now() < end, "SIGKILL did not end it");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(group.limit(), low, "nothing could restore it yet");
    let dry = plimsoll(&["memory", "reclaim", &group.path, "--state", shown]);
    assert!(dry.exits(3).stderr.contains("--yes restores it"), "{}", dry.stderr);
    let next = plimsoll(&["memory", "reclaim", &group.path, "--state", shown, "--until", "cache<1TiB", "--yes"]);
    assert!(next.exits(0).stderr.contains("restored: "), "{}", next.stderr);
    assert_eq!(group.limit(), 96 * MIB);
    assert!(leftovers(state.path()).is_empty() && group.lives());
}

#[test]
fn a_limit_that_somebody_else_has_set_since_is_left_alone() {
    let group = Group::new(96 * MIB);
    let state = folder();
    let note =
        serde_json::json!({"folder": group.folder, "file": "memory.limit_in_bytes", "was": 200 * MIB, "set": 50 * MIB});
    fs::write(state.path().join("memory-0000000000000001.json"), note.to_string()).unwrap();
    let ran = plimsoll(&["memory", "reclaim", &group.path, "--state", state.path().to_str().unwrap(), "--yes"]);
    assert!(ran.exits(0).stderr.contains("left unchanged"), "{}", ran.stderr);
    assert_eq!(group.limit(), 96 * MIB);
}

#[test]
fn etcd_is_refused_unless_told_twice() {
    let place = folder();
    let file = file_on_disk(place.path(), 40 * MIB);
    let mut group = Group::new(96 * MIB);
    fs::copy("/bin/sleep", place.path().join("etcd")).unwrap();
    group.run(&fills_cache(&file, 40 * MIB));
    let mut etcd = Command::new("/bin/sh")
        .args([
            "-c",
            "echo $$ > \"$0\" && exec \"$1\" 600",
            group.folder.join("cgroup.procs").to_str().unwrap(),
            place.path().join("etcd").to_str().unwrap(),
        ])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let args = [
        "memory",
        "reclaim",
        &group.path,
        "--state",
        place.path().to_str().unwrap(),
        "--pause",
        "100ms",
        "--step",
        "8MiB",
    ];
    let refused = plimsoll(&[&args[..], &["--yes"]].concat());
    assert!(refused.exits(3).stdout.contains("etcd runs here"), "{}", refused.stdout);
    let done = plimsoll(&[&args[..], &["--yes", "--even-etcd"]].concat());
    etcd.kill().unwrap();
    etcd.wait().unwrap();
    assert!(done.exits(0).stdout.contains("freed in"), "{}", done.stdout);
}

#[test]
fn an_empty_group_is_emptied_at_once() {
    let (group, _place) = {
        let (mut group, place) = full_of_cache();
        let pid = fs::read_to_string(group.folder.join("cgroup.procs")).unwrap().trim().to_owned();
        Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        while group.lives() {
            std::thread::sleep(Duration::from_millis(20));
        }
        (group, place)
    };
    let state = folder();
    let report = plimsoll(&[
        "memory",
        "reclaim",
        &group.path,
        "--state",
        state.path().to_str().unwrap(),
        "--pause",
        "100ms",
        "--yes",
        "-o",
        "json",
    ])
    .json(0);
    assert_eq!(report["rows"][0]["method"], "memory.force_empty");
    assert!(count(&report["rows"][0], "freed") > 60 * MIB, "{report}");
}

#[test]
fn where_it_could_not_restore_it_refuses() {
    let (group, _place) = full_of_cache();
    // A file where the folder for notes should be.
    let state = folder();
    let file = state.path().join("file");
    fs::write(&file, "").unwrap();
    let ran = plimsoll(&["memory", "reclaim", &group.path, "--state", file.to_str().unwrap(), "--yes"]);
    assert!(ran.exits(3).stdout.contains("nothing was changed"), "{}", ran.stdout);
    let usage = plimsoll(&["memory", "reclaim", "--yes"]);
    usage.exits(2);
}

#[test]
fn watch_gives_lines_findings_and_a_textfile() {
    let (group, place) = full_of_cache();
    let file = place.path().join("plimsoll.prom");
    let ran = run(
        &[
            "memory",
            "watch",
            &group.path,
            "--every",
            "200ms",
            "--for",
            "500ms",
            "--until",
            "1500ms",
            "-o",
            "json",
            "--textfile",
            file.to_str().unwrap(),
            "--fail-on",
            "critical",
        ],
        &[],
        b"",
    );
    let lines: Vec<Value> = ran.exits(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 5, "{}", lines.len());
    assert_eq!(lines[0]["findings"].as_array().unwrap().len(), 0, "not held for long enough");
    let last = lines.last().unwrap();
    assert_eq!(last["findings"][0]["id"], "memory-cache-full", "{last}");
    assert!(last["findings"][0]["first_seen"].as_str() < last["findings"][0]["last_seen"].as_str());
    assert!(number(&last["rows"][0], "refaults_per_s") < 100.0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains(&format!(
            "plimsoll_memory_verdict{{group=\"{}\",verdict=\"cache-full-reclaimable\"}} 1",
            group.path
        )),
        "{text}"
    );
    assert!(text.contains("plimsoll_memory_finding{"), "{text}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn the_daemon_reclaims_when_cache_passes_its_high_mark() {
    let place = folder();
    let file = file_on_disk(place.path(), 160 * MIB);
    let mut group = Group::new(96 * MIB);
    group.run(&fills_cache(&file, 40 * MIB));
    let state = folder();
    let args = ["--every", "200ms", "--pause", "100ms", "--step", "4MiB", "--most", "100%", "--yes", "-o", "json"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args([
            "memory",
            "reclaim",
            &group.path,
            "--daemon",
            "--high",
            "85%",
            "--low",
            "60%",
            "--state",
            state.path().to_str().unwrap(),
        ])
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    // Below its mark it does nothing.
    std::thread::sleep(Duration::from_millis(800));
    let before = group.number("memory.usage_in_bytes");
    assert!(before > 40 * MIB && before < 60 * MIB, "{before}");
    // The cache grows past it, twice.
    for _ in 0..2 {
        group.run(&fills_cache(&file, 160 * MIB));
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while group.number("memory.usage_in_bytes") > 62 * MIB {
            assert!(std::time::Instant::now() < end, "usage stays at {}", group.number("memory.usage_in_bytes"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let acted: Vec<Value> = lines.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    // While the cache still grows it may act more than once.
    assert!(acted.len() >= 2, "{acted:?}");
    for report in &acted {
        assert!(number(&report["rows"][0], "usage_before") >= 0.85 * 96.0 * MIB as f64, "{report}");
    }
    assert_eq!(group.limit(), 96 * MIB);
    assert!(group.lives());
}
