//! `plimsoll record`: what it writes of a bundle, again and again, live, and beside another.

use crate::support::{feed, folder, hermetic, plimsoll, python, root, sample, write};
use plimsoll::model::series::{Point, Selector, Series};
use plimsoll::sources::store::{Store, key};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

type Points = BTreeMap<String, Vec<(i64, f64)>>;

/// By series as text; times in microseconds.
fn points(store: &str) -> Points {
    let (mut all, mut losses) = (Points::new(), Vec::new());
    let mut each = |series: &Series, points: &[Point]| {
        all.entry(key::key(series).unwrap()).or_default().extend(points.iter().map(|point| (point.at, point.value)));
        Ok(())
    };
    Store::open(Path::new(store)).unwrap().points(&Selector::default(), (0, i64::MAX), &mut losses, &mut each).unwrap();
    assert_eq!(losses, []);
    all
}

fn oracle(bundle: &str) -> Points {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/record.py")).arg(bundle);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let answer: BTreeMap<String, Vec<(i64, f64)>> = serde_json::from_str(&ran.stdout).unwrap();
    answer
        .into_iter()
        .map(|(key, points)| (key, points.into_iter().map(|(at, value)| (at * 1_000_000, value)).collect()))
        .collect()
}

/// Of another's count only part: what objects come to beside the quotas' own status is compared where quotas are.
fn is_compared(key: &str) -> bool {
    !["namespace_", "kube_node"].iter().any(|other| key.starts_with(other))
}

#[track_caller]
fn agree(found: &Points, expected: &Points) {
    let names: Vec<_> = found.keys().filter(|key| is_compared(key)).collect();
    assert_eq!(names, expected.keys().collect::<Vec<_>>());
    for (key, expected) in expected {
        let found = &found[key];
        assert_eq!(found.len(), expected.len(), "{key}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                found.0 == expected.0 && (found.1 - expected.1).abs() <= 1e-9 * expected.1.abs().max(1.0),
                "{key}: {found:?} {expected:?}"
            );
        }
    }
}

#[test]
fn a_bundle_is_recorded_as_another_reads_it() {
    let home = folder();
    let (bundle, store) = (sample("list-storm"), home.path().join("s").to_str().unwrap().to_owned());
    plimsoll(&["record", &bundle, "--store", &store, "--keep-points", "3000d"]).exits(0);
    let found = points(&store);
    agree(&found, &oracle(&bundle));
    for name in [
        "apiserver_objects",
        "apiserver_rps",
        "apiserver_seats",
        "etcd_quota_bytes",
        "cgroup_memory_bytes",
        "kube_resourcequota",
    ] {
        assert!(found.keys().any(|key| key.starts_with(name)), "{name} is missing");
    }
    for name in ["namespace_requests", "namespace_limits", "namespace_objects", "kube_node_status_allocatable"] {
        assert!(found.keys().any(|key| key.starts_with(name)), "{name} is missing");
    }
    // The same again writes nothing new.
    plimsoll(&["record", &bundle, "--store", &store, "--keep-points", "3000d"]).exits(0);
    assert_eq!(points(&store), found);
}

/// Copies a bundle's pages one moment after the other, and records after each.
#[test]
fn runs_of_cron_remember_the_counters_of_the_run_before() {
    let home = folder();
    let (bundle, store) = (sample("list-storm"), home.path().join("s").to_str().unwrap().to_owned());
    let copy = home.path().join("bundle");
    let metrics = Path::new(&bundle).join("metrics");
    let mut times: Vec<_> =
        std::fs::read_dir(metrics.join("etcd-0")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    times.sort();
    for (n, time) in times.iter().take(6).enumerate() {
        for instance in ["apiserver-0", "apiserver-1", "etcd-0"] {
            let to = copy.join("metrics").join(instance);
            std::fs::create_dir_all(&to).unwrap();
            std::fs::copy(metrics.join(instance).join(time), to.join(time)).unwrap();
        }
        let ran = plimsoll(&["record", copy.to_str().unwrap(), "--store", &store, "--once", "--keep-points", "3000d"]);
        assert_eq!(ran.exits(0).stderr.contains("rates (apiserver_rps) start with the next"), n == 0, "{}", ran.stderr);
    }
    std::fs::create_dir_all(copy.join("cgroup")).unwrap();
    std::fs::create_dir_all(copy.join("objects")).unwrap();
    agree(&points(&store), &oracle(copy.to_str().unwrap()));
}

#[test]
fn what_is_not_recorded_is_refused_and_a_source_that_fails_is_tried_again() {
    let home = folder();
    let store = home.path().join("s").to_str().unwrap().to_owned();
    let letter = write(home.path(), "letter.txt", "dear reader\n");
    let ran = plimsoll(&["record", &letter, "--store", &store, "--once"]);
    assert!(ran.exits(3).stderr.contains("none of the recorded inputs found"), "{}", ran.stderr);
    let ran = plimsoll(&["record", "/no/such/page", "--store", &store, "--once"]);
    assert!(ran.exits(3).stderr.contains("/no/such/page"), "{}", ran.stderr);
    plimsoll(&["record", &letter]).exits(2);
    plimsoll(&["record", &letter, "--store", &store, "--once", "--every", "1s"]).exits(2);
    plimsoll(&["record", &letter, "--store", &store, "--max-size", "1kB"]).exits(2);
    let other = write(home.path(), "full/a.txt", "x");
    let ran =
        plimsoll(&["record", &letter, "--store", Path::new(&other).parent().unwrap().to_str().unwrap(), "--once"]);
    assert!(ran.exits(3).stderr.contains("is not a store"), "{}", ran.stderr);
    // A page that is there only later.
    let late = home.path().join("late.prom");
    let mut child = recorder(home.path(), &[late.to_str().unwrap(), "--store", &store, "--every", "100ms"]);
    std::thread::sleep(Duration::from_millis(400));
    write(
        home.path(),
        "late.prom",
        "# TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes 8\n",
    );
    let began = Instant::now();
    while !points(&store).keys().any(|key| key.starts_with("etcd_quota_bytes")) {
        assert!(began.elapsed() < Duration::from_secs(20), "the page was never taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    stop(&mut child, "TERM");
}

fn recorder(home: &Path, arguments: &[&str]) -> std::process::Child {
    let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home);
    command
        .arg("record")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[track_caller]
fn stop(child: &mut std::process::Child, signal: &str) {
    assert!(Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0), "SIG{signal} ends it well");
}

#[test]
fn two_recorders_write_to_one_store_and_end_well() {
    let home = folder();
    let store = home.path().join("s").to_str().unwrap().to_owned();
    let page =
        |n: u64| format!("# TYPE etcd_mvcc_db_total_size_in_bytes gauge\netcd_mvcc_db_total_size_in_bytes {n}\n");
    let mut children: Vec<_> = ["a", "b"]
        .iter()
        .map(|name| {
            let file = write(home.path(), &format!("{name}.prom"), page(0));
            recorder(home.path(), &[&file, "--store", &store, "--every", "100ms"])
        })
        .collect();
    let mut wanted = 0;
    let began = Instant::now();
    // As often as the clock of files allows: a page is taken again when it has a later time.
    while wanted < 12 {
        assert!(began.elapsed() < Duration::from_secs(30), "the recorders are too slow");
        std::thread::sleep(Duration::from_millis(150));
        wanted += 1;
        // A recorder that looks while a page is being written would rightly miss part of it.
        for name in ["a", "b"] {
            let new = write(home.path(), &format!("new/{name}.prom"), page(wanted));
            std::fs::rename(new, home.path().join(format!("{name}.prom"))).unwrap();
        }
    }
    std::thread::sleep(Duration::from_millis(600));
    stop(&mut children[0], "TERM");
    stop(&mut children[1], "INT");
    let found = points(&store);
    assert_eq!(found.len(), 2, "{found:?}");
    for (series, points) in found {
        assert!(points.len() > 6 && points.last().unwrap().1 == 12.0, "{series}: {points:?}");
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{series}: {points:?}");
    }
}

#[test]
fn the_help_and_the_documents_name_what_is_recorded() {
    let text = std::fs::read_to_string(root().join("docs/history.md")).unwrap();
    let home = folder();
    let store = home.path().join("s").to_str().unwrap().to_owned();
    plimsoll(&["record", &sample("list-storm"), "--store", &store, "--keep-points", "3000d"]).exits(0);
    let names: std::collections::BTreeSet<String> =
        points(&store).keys().map(|key| key.split('{').next().unwrap().to_owned()).collect();
    for name in names {
        assert!(text.contains(&format!("`{name}")), "docs/history.md does not tell of {name}");
    }
    let marker: Value =
        serde_json::from_str(&std::fs::read_to_string(Path::new(&store).join("plimsoll-store.json")).unwrap()).unwrap();
    assert_eq!(marker["plimsoll_store"], 1);
}
