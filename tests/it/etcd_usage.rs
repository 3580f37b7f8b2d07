//! `etcd usage` beside etcd itself: a real member is restored from each snapshot and asked for all keys.

use crate::member::{Member, etcdctl};
use crate::support::{folder, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

const SNAPSHOTS: [&str; 3] =
    ["list-storm/etcd/after.db.zst", "overload-restart/etcd/before.db.zst", "quiet/etcd/after.db.zst"];

fn usage(path: &str, more: &[&str]) -> Value {
    plimsoll(&[&["etcd", "usage", path, "-o", "json"], more].concat()).json(0)
}

/// What etcd answers, counted in Python, beside our rows.
fn same_as_etcd(member: &Member, report: &Value) {
    let folder = folder();
    let all = write(folder.path(), "all.json", member.run(&["get", "--prefix", "", "-w", "json"]));
    let out = Command::new(python()).arg(root().join("tests/oracle/etcd_usage.py")).arg(all).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let theirs: BTreeMap<String, BTreeMap<String, u64>> = serde_json::from_slice(&out.stdout).unwrap();
    let mut ours = BTreeMap::new();
    for row in report["rows"].as_array().unwrap().iter().filter(|row| row["keys"] != 0) {
        let fields = ["keys", "live_bytes", "key_bytes", "max_object_bytes", "managed_fields_bytes"];
        let fields: BTreeMap<String, u64> =
            fields.iter().map(|field| ((*field).to_owned(), row[*field].as_u64().unwrap())).collect();
        ours.insert(row["prefix"].as_str().unwrap().to_owned(), fields);
    }
    assert!(!theirs.is_empty());
    assert_eq!(ours, theirs);
}

#[test]
fn samples_are_as_etcd_has_them() {
    for name in SNAPSHOTS {
        let folder = folder();
        let snapshot = write(folder.path(), "snapshot.db", sample_bytes(name));
        let report = usage(&sample(name), &[]);
        let status: Value = serde_json::from_str(&etcdctl(&["snapshot", "status", &snapshot, "-w", "json"])).unwrap();
        let totals = &report["totals"];
        for (own, theirs) in [("hash", "hash"), ("revision", "revision"), ("db_bytes", "totalSize")] {
            assert_eq!(totals[own], status[theirs], "{name}: {own}");
        }
        let entries: u64 =
            report["coverage"]["entries"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(
            json!(entries + totals["revisions"].as_u64().unwrap()),
            status["totalKey"],
            "{name}: entries of all buckets"
        );
        // The plain file, and one thread, give the same.
        let plain = usage(&snapshot, &["--threads", "1"]);
        assert_eq!((&plain["rows"], &plain["totals"]), (&report["rows"], totals), "{name}");
        let data = folder.path().join("data");
        etcdctl(&["snapshot", "restore", &snapshot, "--data-dir", data.to_str().unwrap(), "--skip-hash-check"]);
        same_as_etcd(&Member::plain(&data), &report);
    }
}

#[test]
fn history_tombstones_compaction_and_transactions_are_counted() {
    let folder = folder();
    let member = Member::plain(&folder.path().join("data"));
    for n in 0..5 {
        member.run(&["put", "/registry/pods/web/a", &"x".repeat(100 + n)]);
    }
    member.run(&["put", "/registry/pods/web/b", "y"]);
    member.run(&["del", "/registry/pods/web/b"]);
    member.run(&["put", "/registry/apps.example.com/widgets/web/w", "z"]);
    let snapshot = folder.path().join("one.db");
    member.run(&["snapshot", "save", snapshot.to_str().unwrap()]);
    let report = usage(snapshot.to_str().unwrap(), &[]);
    let pods = report["rows"].as_array().unwrap().iter().find(|row| row["resource"] == "pods").unwrap();
    let fields = ["namespace", "keys", "revisions", "tombstones", "live_bytes", "key_bytes", "max_object_bytes"]
        .map(|field| pods[field].clone());
    assert_eq!(fields, [json!("web"), json!(1), json!(7), json!(1), json!(104), json!(20), json!(104)]);
    // A record is a revision of 17 bytes (a tombstone 18) and the message: 4 older values, the deleted one, and its
    // tombstone.
    let message = |value: usize, version: bool| {
        2 + 20 + 2 * 2 + if version { 2 } else { 0 } + if value > 0 { 2 + value } else { 0 }
    };
    let before: usize = (100..104).map(|value| 17 + message(value, true)).sum();
    let deleted = 17 + message(1, true) + 18 + 2 + 20;
    let history = pods["history_bytes"].as_u64().unwrap();
    assert!(history.abs_diff((before + deleted) as u64) <= 6, "{history} is not about {}", before + deleted);
    let widgets = report["rows"].as_array().unwrap().iter().find(|row| row["resource"] == "widgets").unwrap();
    assert_eq!(
        (&widgets["group"], &widgets["prefix"]),
        (&json!("apps.example.com"), &json!("/registry/apps.example.com/widgets/web/"))
    );
    same_as_etcd(&member, &report);

    let revision = report["totals"]["revision"].to_string();
    member.run(&["compact", &revision, "--physical"]);
    let snapshot = folder.path().join("two.db");
    member.run(&["snapshot", "save", snapshot.to_str().unwrap()]);
    let after = usage(snapshot.to_str().unwrap(), &[]);
    let totals = ["keys", "revisions", "tombstones", "history_bytes"].map(|field| after["totals"][field].clone());
    assert_eq!(totals, [json!(2), json!(2), json!(0), json!(0)], "compaction leaves what lives");
    same_as_etcd(&member, &after);
}

#[test]
fn rows_by_resource_and_namespace_add_up() {
    let path = sample(SNAPSHOTS[0]);
    let whole = usage(&path, &[]);
    for by in ["resource", "namespace"] {
        let report = usage(&path, &["--by", by]);
        for field in
            ["keys", "revisions", "tombstones", "live_bytes", "history_bytes", "key_bytes", "managed_fields_bytes"]
        {
            let sum = |report: &Value| {
                report["rows"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum::<u64>()
            };
            assert_eq!(
                (sum(&report), &report["totals"][field]),
                (sum(&whole), &whole["totals"][field]),
                "{by}, {field}"
            );
        }
    }
    assert!(usage(&path, &["--keys-only"])["totals"]["managed_fields_bytes"].is_null());
}

#[test]
fn what_is_damaged_is_named_and_the_rest_counted() {
    let folder = folder();
    let whole = sample_bytes(SNAPSHOTS[2]);
    let keys = usage(&sample(SNAPSHOTS[2]), &[])["totals"]["keys"].as_u64().unwrap();
    // One bit in the header of every page in turn would take long: every 40th, and each field of a header.
    for (number, page) in (2..whole.len() / 4096).step_by(40).enumerate() {
        let mut bytes = whole.clone();
        bytes[page * 4096 + [0, 8, 10, 12, 20][number % 5]] ^= 0x41;
        let path = write(folder.path(), "damaged.db", &bytes);
        let ran = plimsoll(&["etcd", "usage", &path, "-o", "json"]);
        ran.did_not_panic();
        assert!(matches!(ran.code, Some(0 | 3)), "{page}: {:?} {}", ran.code, ran.stderr);
        if ran.code == Some(3) {
            assert!(ran.stderr.contains("damaged.db: page ") || ran.stderr.contains("meta pages"), "{}", ran.stderr);
        }
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(report["totals"]["keys"].as_u64().unwrap() <= keys + 1);
    }
    for length in [0, 1, 16, 4095, 4096, 8192, 12_288, whole.len() / 2, whole.len() - 4096] {
        let path = write(folder.path(), "cut.db", &whole[..length]);
        let ran = plimsoll(&["etcd", "usage", &path, "-o", "json"]);
        ran.exits(3);
        assert!(ran.stderr.contains("cut.db"), "{length}: {}", ran.stderr);
    }
    let path = write(folder.path(), "notes.txt", "nothing of the kind");
    assert!(plimsoll(&["etcd", "usage", &path]).exits(3).stderr.contains("not an etcd database"));
}

#[test]
fn findings_come_at_their_thresholds() {
    let path = sample(SNAPSHOTS[0]);
    let size = usage(&path, &[])["totals"]["db_bytes"].as_u64().unwrap();
    let found = |quota: u64| {
        let report = usage(&path, &["--quota-bytes", &quota.to_string()]);
        report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|f| f["id"] == "etcd-near-quota")
            .map(|f| f["severity"].clone())
    };
    assert_eq!(found(size * 10 / 7), None);
    assert_eq!(found(size * 10 / 8), Some(json!("warning")));
    assert_eq!(found(size), Some(json!("critical")));
    plimsoll(&["etcd", "usage", &path, "--quota-bytes", &size.to_string(), "--fail-on", "critical"]).exits(1);
}

/// A sample's database with other names for its buckets, as of another program that keeps its data in bbolt.
fn foreign(names: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = sample_bytes("quiet/etcd/before.db.zst");
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let meta = [0usize, 4096].into_iter().max_by_key(|page| number(&bytes, page + 16 + 48)).unwrap();
    let root = number(&bytes, meta + 16 + 16) as usize * 4096;
    for (from, to) in names {
        let at = memchr::memmem::find(&bytes[root..root + 4096], from).unwrap() + root;
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

#[test]
fn bbolt_files_of_others_are_named_by_their_buckets() {
    let home = folder();
    let of_raft = write(home.path(), "raft.db", foreign(&[(b"key", b"kez"), (b"meta", b"metb")]));
    let commands: [&[&str]; 8] = [
        &["usage"],
        &["flame"],
        &["top"],
        &["history"],
        &["pages"],
        &["check"],
        &["split"],
        &["extract", "--resource", "pods"],
    ];
    for command in commands {
        let ran = plimsoll(&[&["etcd", command[0], &of_raft], &command[1..]].concat());
        assert_eq!(ran.code, Some(3), "{command:?}: {}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stderr.contains("not etcd's") && ran.stderr.contains("kez") && ran.stderr.contains("metb"),
            "{command:?}: {}",
            ran.stderr
        );
        assert!(ran.stdout.is_empty(), "{command:?}: {}", ran.stdout);
    }
    plimsoll(&["etcd", "diff", &of_raft, &of_raft]).exits(3);
    // Beside one that is etcd's that one is read, and it is said.
    write(home.path(), "good.db", sample_bytes("quiet/etcd/after.db.zst"));
    let ran = plimsoll(&["etcd", "usage", home.path().to_str().unwrap(), "-o", "json"]);
    assert!(
        ran.json(3)["totals"]["keys_live"].as_u64().unwrap() > 0 && ran.stderr.contains("raft.db: a bbolt file"),
        "{}",
        ran.stderr
    );
    // Without meta alone it is etcd's, and damaged.
    let headless = write(home.path(), "headless/db", foreign(&[(b"meta", b"metb")]));
    let ran = plimsoll(&["etcd", "usage", &headless, "-o", "json"]);
    assert!(
        ran.json(3)["totals"]["keys_live"].as_u64().unwrap() > 0 && ran.stderr.contains("no bucket meta"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_bundle_with_two_databases_is_compared_with_itself() {
    let bundle = sample("quiet");
    let [before, after] = ["before", "after"].map(|name| sample(&format!("quiet/etcd/{name}.db.zst")));
    let rows = |args: &[&str]| plimsoll(&[&["etcd", "diff"], args, &["-o", "json"]].concat()).json(0)["rows"].clone();
    assert_eq!(rows(&[&bundle]), rows(&[&before, &after]));
    assert!(plimsoll(&["etcd", "diff", &before]).exits(3).stderr.contains("fewer than two etcd databases"));
}
