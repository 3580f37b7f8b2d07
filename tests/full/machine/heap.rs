//! `plimsoll memory show` with a Go program's own account beside the cgroup: a real etcd in a cgroup of this machine.

use super::group::Group;
use crate::support::{folder, number, plimsoll, run, write};
use serde_json::Value;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The row of the table `heap` that this source gave.
#[track_caller]
fn row<'r>(report: &'r Value, source: &str) -> &'r Value {
    let rows = report["tables"]["heap"].as_array().unwrap_or_else(|| panic!("no table heap: {report}"));
    rows.iter().find(|row| row["source"] == source).unwrap_or_else(|| panic!("no row by {source}: {rows:?}"))
}

/// What the independent reader of profiles says is in use.
struct Etcd(Child, String);

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A real etcd in the group, and its URL.
fn etcd(group: &Group, data: &std::path::Path) -> Etcd {
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (url, peer) = (format!("http://127.0.0.1:{}", port()), format!("http://127.0.0.1:{}", port()));
    let enter = format!("echo $$ > '{}' && exec \"$@\"", group.folder.join("cgroup.procs").display());
    let child = Command::new("sh")
        .args(["-c", &enter, "sh", "etcd", "--enable-pprof", "--data-dir", data.to_str().unwrap()])
        .args(["--listen-client-urls", &url, "--advertise-client-urls", &url, "--listen-peer-urls", &peer])
        .args([
            "--initial-advertise-peer-urls",
            &peer,
            "--initial-cluster",
            &format!("default={peer}"),
            "--log-level",
            "error",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("etcd: {error}; run .ci/setup first"));
    let etcd = Etcd(child, url);
    let end = Instant::now() + Duration::from_secs(30);
    while fetched(&format!("{}/health", etcd.1)).is_none() {
        assert!(Instant::now() < end, "etcd did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    etcd
}

fn fetched(url: &str) -> Option<String> {
    let script = "import sys,urllib.request as r\nprint(r.urlopen(sys.argv[1],timeout=5).read().decode(),end='')";
    let output = Command::new("python3").args(["-c", script, url]).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_real_programs_text_profile_tells_idle_and_released_memory() {
    let home = folder();
    let group = Group::new(512 << 20);
    let etcd = etcd(&group, &home.path().join("data"));
    let text = fetched(&format!("{}/debug/pprof/heap?debug=1", etcd.1)).unwrap();
    let path = write(home.path(), "heap.txt", &text);
    let report = plimsoll(&[
        "memory",
        "show",
        &group.path,
        "--over",
        "0s",
        "--heap",
        &path,
        "--metrics",
        &format!("{}/metrics", etcd.1),
        "-o",
        "json",
    ])
    .json(0);
    // The same numbers, taken out of the text by another way.
    let reported = |name: &str| -> f64 {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("# {name} = ")))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        line.split_whitespace().nth(3).unwrap().parse().unwrap()
    };
    let (profile, metrics) = (row(&report, "profile"), row(&report, "metrics"));
    for (field, name) in [
        ("heap_in_use", "HeapInuse"),
        ("heap_idle", "HeapIdle"),
        ("heap_released", "HeapReleased"),
        ("stacks", "Stack"),
        ("go_total", "Sys"),
        ("next_gc", "NextGC"),
    ] {
        assert_eq!(number(profile, field), reported(name), "{field}");
        assert!(reported(name) > 0.0 || field == "heap_released", "{name}");
    }
    // And what the program's metrics say, a moment later.
    for field in ["heap_in_use", "heap_idle", "go_total"] {
        let (a, b) = (number(profile, field), number(metrics, field));
        assert!((a / b - 1.0).abs() < 0.5, "{field}: {a} and {b}");
    }
    // And the kernel of the process: all of the group's anonymous memory is its.
    let status = std::fs::read_to_string(format!("/proc/{}/status", etcd.0.id())).unwrap();
    let resident =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap().trim().trim_end_matches(" kB");
    let resident = resident.parse::<f64>().unwrap() * 1024.0;
    assert!((number(profile, "anon") / resident - 1.0).abs() < 0.2, "{profile}: {resident}");
    // What Go holds and has touched is most of that.
    assert!(
        number(profile, "heap_in_use") < number(profile, "anon") * 1.5 && number(profile, "go_held") < 4.0 * resident,
        "{profile}"
    );
    // From its URL, in words.
    let url = format!("{}/debug/pprof/heap?debug=1", etcd.1);
    let ran = run(&["memory", "show", &group.path, "--over", "0s", "--heap", &url], &[], b"");
    assert!(
        ran.exits(0).stdout.contains("heap idle, not released") && !ran.stdout.contains("protobuf"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}
