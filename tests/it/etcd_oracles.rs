//! Every `etcd` subcommand that counts, beside the same counted in Python from the definitions: another reader of the
//! file, other decoders. On the samples, and on databases that a real etcd made of what is odd.

use crate::member::{Member, etcdctl, newer};
use crate::support::{folder, plimsoll, python, root, sample_bytes, write};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The ways of `usage --by`, and what names a row in each.
const BY: [(&str, &[&str]); 9] = [
    ("prefix", &["prefix", "group", "resource", "namespace"]),
    ("resource", &["group", "resource"]),
    ("namespace", &["namespace"]),
    ("name-prefix", &["group", "resource", "namespace", "name_prefix"]),
    ("kind", &["api_version", "kind"]),
    ("owner", &["namespace", "owner_kind", "owner"]),
    ("manager", &["manager"]),
    ("label:app", &["label"]),
    ("label:team", &["label"]),
];
const WEIGHTS: [&str; 5] = ["live", "history", "all", "keys", "revisions"];

fn oracle(script: &str, args: &[&str]) -> Value {
    let out = Command::new(python()).arg(root().join("tests/oracle").join(script)).args(args).output().unwrap();
    assert!(out.status.success(), "{script} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// What `plimsoll etcd …` prints, all rows. A check that finds something ends with 1.
fn ours(args: &[&str]) -> Value {
    let ran = plimsoll(&[&["etcd"], args, &["-o", "json"]].concat());
    assert!(matches!(ran.code, Some(0 | 1)), "{args:?}: {:?} {}", ran.code, ran.stderr);
    ran.did_not_panic();
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The rows by their labels; no two may have the same.
fn by_label<'a>(rows: &'a Value, labels: &[&str], what: &str) -> BTreeMap<String, &'a Value> {
    let rows = rows.as_array().unwrap();
    let found: BTreeMap<String, &Value> = rows
        .iter()
        .map(|row| (labels.iter().map(|label| row[*label].to_string()).collect::<Vec<_>>().join(" "), row))
        .collect();
    assert_eq!(found.len(), rows.len(), "{what}: rows with the same labels");
    found
}

/// Integers must be equal; figures that were divided agree to six digits.
fn agree(ours: &Value, theirs: &Value) -> bool {
    if matches!((ours.as_str(), theirs.as_bool()), (Some("yes"), Some(true)) | (Some("no"), Some(false))) {
        return true;
    }
    match (ours.as_f64(), theirs.as_f64()) {
        (Some(a), Some(b)) if ours.is_f64() || theirs.is_f64() => (a - b).abs() <= 1e-6 * b.abs().max(1.0),
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => ours == theirs,
    }
}

/// Every field that the oracle has, in every row of either; gives how many were compared.
#[track_caller]
fn same_rows(what: &str, ours: &Value, theirs: &Value, labels: &[&str]) -> usize {
    let (ours, theirs) = (by_label(ours, labels, what), by_label(theirs, labels, what));
    let missing: Vec<&String> = theirs.keys().filter(|label| !ours.contains_key(*label)).take(5).collect();
    let more: Vec<&String> = ours.keys().filter(|label| !theirs.contains_key(*label)).take(5).collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "{what}: rows that only the oracle has: {missing:?}; that only plimsoll has: {more:?}"
    );
    let mut compared = 0;
    for (label, row) in &theirs {
        for (field, value) in row.as_object().unwrap() {
            assert!(
                agree(&ours[label][field], value),
                "{what}: {label}: {field}: {} here, {value} there",
                ours[label][field]
            );
            compared += 1;
        }
    }
    compared
}

/// All subcommands that count one database.
fn same_in_every_way(database: &str) {
    let mut wanted = vec![database.to_owned()];
    wanted.extend(BY.iter().map(|(by, _)| (*by).to_owned()));
    wanted.extend(WEIGHTS.iter().map(|weight| format!("flame:{weight}")));
    wanted.extend(["top", "history", "check", "split"].map(str::to_owned));
    let theirs = oracle("etcd_usage_by.py", &wanted.iter().map(String::as_str).collect::<Vec<_>>());

    let mut compared = 0;
    let mut totals = Value::Null;
    for (by, labels) in BY {
        let report = ours(&["usage", database, "--by", by]);
        compared += same_rows(&format!("usage --by {by}"), &report["rows"], &theirs[by], labels);
        totals = report["totals"].clone();
    }
    for field in [
        "keys",
        "revisions",
        "tombstones",
        "live_bytes",
        "history_bytes",
        "key_bytes",
        "managed_fields_bytes",
        "annotation_bytes",
    ] {
        let sum: u64 = theirs["prefix"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum();
        assert_eq!(totals[field], json!(sum), "totals: {field}");
    }
    compared += same_rows("top", &ours(&["top", database, "--top", "0"])["rows"], &theirs["top"], &["key"]);
    for weight in WEIGHTS {
        compared += same_flame(database, weight, &theirs[format!("flame:{weight}")]);
    }

    let history = ours(&["history", database, "--top", "0"]);
    compared += same_rows("history", &history["rows"], &theirs["history"]["rows"], &["key"]);
    let order = |rows: &Value| rows.as_array().unwrap().iter().map(|row| row["key"].to_string()).collect::<Vec<_>>();
    assert_eq!(order(&history["rows"]), order(&theirs["history"]["rows"]), "history: the order");
    if let Some(hours) = theirs["history"]["hours"].as_f64() {
        assert!(agree(&history["window"]["seconds"], &json!(hours * 3600.0)), "history: the window");
    }
    compared +=
        same_rows("split", &ours(&["split", database, "--top", "0"])["rows"], &theirs["split"], &["group", "resource"]);
    compared += same_pages_and_hashes(database, &theirs["check"]);
    assert!(compared > 1000, "only {compared} fields were compared");
}

fn same_flame(database: &str, weight: &str, theirs: &Value) -> usize {
    let ran = plimsoll(&["etcd", "flame", database, "-o", "folded", "--weight", weight]);
    ran.exits(0);
    let lines = ran.stdout.lines().map(|line| {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        json!({"stack": stack, "weight": weight.parse::<u64>().unwrap()})
    });
    same_rows(&format!("flame --weight {weight}"), &lines.collect(), theirs, &["stack"])
}

/// `pages` and `check` beside a walk over the pages in Python.
fn same_pages_and_hashes(database: &str, checked: &Value) -> usize {
    let bolt = oracle("etcd_bolt.py", &[database]);
    let (pages, check) = (ours(&["pages", database]), ours(&["check", database]));
    let compared = same_rows("pages", &pages["rows"], &bolt["pages"]["rows"], &["bucket"]);
    for (field, value) in bolt["pages"]["totals"].as_object().unwrap() {
        assert!(
            agree(&pages["totals"][field], value),
            "pages: {field}: {} here, {value} there",
            pages["totals"][field]
        );
    }
    let runs: Vec<Value> = bolt["pages"]["runs"].as_array().unwrap().iter().map(run_length).collect();
    same_rows("runs of free pages", &pages["tables"]["runs"], &json!(runs), &["run_length"]);

    for field in ["hash", "kv_hash", "compact_revision"] {
        assert_eq!(check["totals"][field], bolt[field], "check: {field}");
    }
    assert_eq!(check["totals"]["idle_leases"], checked["idle_leases"]);
    let rows = by_label(&check["rows"], &["check"], "check");
    for name in ["revisions", "leases", "namespaces", "owners"] {
        let row = rows[&format!("{name:?}")];
        if checked[name].is_array() {
            assert_eq!(json!([row["checked"], row["failed"]]), checked[name], "check: {name}");
        }
        let status = if checked[name].is_null() {
            "unknown"
        } else if checked[name][1] == 0 {
            "ok"
        } else {
            "failed"
        };
        assert_eq!(row["status"], status, "check: {name}");
    }
    let trailer = checked["trailer"].as_bool().map_or("unknown", |good| if good { "ok" } else { "failed" });
    assert_eq!(rows["\"trailer\""]["status"], trailer);
    compared
}

/// A class of run lengths as plimsoll writes it.
fn run_length(row: &Value) -> Value {
    let (from, to) = (row["from"].as_u64().unwrap(), row["to"].as_u64().unwrap());
    let class = if from == to { from.to_string() } else { format!("{from}-{to}") };
    json!({"run_length": class, "runs": row["runs"], "free_pages": row["pages"]})
}

fn same_difference(before: &str, after: &str) {
    let theirs = oracle("etcd_diff.py", &[before, after]);
    let report = ours(&["diff", before, after, "--top", "0"]);
    same_rows("diff", &report["rows"], &theirs["rows"], &["prefix", "group", "resource", "namespace"]);
    for field in ["added", "removed", "changed"] {
        let sum: u64 = theirs["rows"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum();
        assert_eq!(report["totals"][field], json!(sum), "diff: {field}");
    }
    let objects = ours(&["diff", before, after, "--objects", "--top", "0"]);
    assert!(same_rows("diff --objects", &objects["rows"], &theirs["objects"], &["key"]) > 10);
}

fn sample_is_the_same(name: &str) {
    let folder = folder();
    let after = write(folder.path(), "after.db", sample_bytes(&format!("{name}/etcd/after.db.zst")));
    same_in_every_way(&after);
    let before = write(folder.path(), "before.db", sample_bytes(&format!("{name}/etcd/before.db.zst")));
    same_difference(&before, &after);
}

#[test]
fn a_storm_of_lists_is_the_same() {
    sample_is_the_same("list-storm");
}

#[test]
fn an_overload_is_the_same() {
    sample_is_the_same("overload-restart");
}

#[test]
fn a_quiet_cluster_is_the_same() {
    sample_is_the_same("quiet");
}

/// Saves a snapshot and gives its path; its hash of the key space must be what the member says.
fn snapshot(member: &Member, folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    member.run(&["snapshot", "save", path.to_str().unwrap()]);
    let message: Value = serde_json::from_str(&member.run(&["endpoint", "hashkv", "-w", "json"])).unwrap();
    let status: Value =
        serde_json::from_str(&etcdctl(&["snapshot", "status", path.to_str().unwrap(), "-w", "json"])).unwrap();
    let totals = &ours(&["check", path.to_str().unwrap()])["totals"];
    assert_eq!((&totals["kv_hash"], &totals["hash"]), (&message[0]["HashKV"]["hash"], &status["hash"]), "{name}");
    path.to_str().unwrap().to_owned()
}

/// What lives, as etcd itself answers: the oracle counts its answer and the file the same, so the oracle's reader is
/// right.
fn oracle_is_right(member: &Member, folder: &Path, database: &str) {
    let all = write(folder, "all.json", member.run(&["get", "--prefix", "", "-w", "json"]));
    let (answered, file) =
        (oracle("etcd_usage_by.py", &["--get", &all, "top"]), oracle("etcd_usage_by.py", &[database, "top"]));
    let rows = |found: &Value| {
        let mut rows = found["top"].as_array().unwrap().clone();
        for row in &mut rows {
            // Only the file has history.
            row["history_bytes"] = Value::Null;
            row["revisions"] = Value::Null;
        }
        rows
    };
    assert!(rows(&answered).len() > 100);
    assert_eq!(rows(&answered), rows(&file));
}

/// Puts what is odd into a member.
fn fill(port: &str) {
    let filled = Command::new(python()).arg(root().join("tests/oracle/etcd_fill.py")).arg(port).output().unwrap();
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
}

#[test]
fn what_is_odd_is_the_same_before_and_after_compaction_and_defragmentation() {
    what_is_odd(Member::plain, |_| {});
}

/// Its files hold more beside the keys; and it is what etcdutl came with.
#[test]
fn what_is_odd_is_the_same_in_etcd_3_5() {
    what_is_odd(Member::newer, |database| {
        let message =
            Command::new(newer("etcdutl")).args(["snapshot", "status", "-w", "json", database]).output().unwrap();
        let message: Value = serde_json::from_slice(&message.stdout).unwrap();
        let report = ours(&["usage", database]);
        let totals = &report["totals"];
        // The term stands in files from 3.5 on.
        assert!(report["coverage"]["term"].as_u64().is_some_and(|term| term > 0), "{}", report["coverage"]);
        assert_eq!(
            (&message["hash"], &message["revision"], &message["totalSize"]),
            (&totals["hash"], &totals["revision"], &totals["db_bytes"])
        );
    });
}

/// A database of what is odd, and how it changes.
fn what_is_odd(start: impl Fn(&Path) -> Member, last: impl Fn(&str)) {
    let folder = folder();
    let data = folder.path().join("data");
    let member = start(&data);
    let port = member.url.rsplit(':').next().unwrap();
    fill(port);

    let full = snapshot(&member, folder.path(), "full.db");
    same_in_every_way(&full);
    oracle_is_right(&member, folder.path(), &full);

    let revision = ours(&["usage", &full])["totals"]["revision"].to_string();
    member.run(&["put", "/registry/configmaps/web/last", "{\"kind\":\"ConfigMap\"}"]);
    member.run(&["del", "/registry/configmaps/web/old-3"]);
    member.run(&["compact", &revision, "--physical"]);
    let compacted = snapshot(&member, folder.path(), "compacted.db");
    same_in_every_way(&compacted);
    same_difference(&full, &compacted);

    member.run(&["defrag"]);
    let defragmented = snapshot(&member, folder.path(), "defragmented.db");
    same_in_every_way(&defragmented);
    oracle_is_right(&member, folder.path(), &defragmented);
    drop(member);
    // The file as it lies on the member's disk: longer than its pages, and no trailer.
    let live = data.join("member/snap/db");
    same_in_every_way(live.to_str().unwrap());
    last(&defragmented);
}

/// Cut, flipped, in circles, with wrong counts: each of a sample of the ways that `etcd_damage.py` has. By hand it runs
/// all of them.
#[test]
fn damage_ends_soon_without_a_panic_and_costs_only_what_it_hits() {
    let folder = folder();
    let member = Member::plain(&folder.path().join("data"));
    let port = member.url.rsplit(':').next().unwrap();
    fill(port);
    let path = folder.path().join("whole.db");
    member.run(&["snapshot", "save", path.to_str().unwrap()]);
    drop(member);
    let script = root().join("tests/oracle/etcd_damage.py");
    let out = Command::new(python())
        .arg(script)
        .args([env!("CARGO_BIN_EXE_plimsoll"), path.to_str().unwrap(), "--cases", "250"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{printed}{}", String::from_utf8_lossy(&out.stderr));
    let counts: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(counts["cases"], 250);
    assert!(counts["leaves"].as_u64().unwrap() > 3 && counts["codes"]["3"].as_u64().unwrap() > 100, "{counts}");
}

/// The same buckets in files as other machines and older versions write them. That these are sound is etcdctl's word.
#[test]
fn other_page_sizes_and_stored_free_lists_are_the_same() {
    let folder = folder();
    let member = Member::plain(&folder.path().join("data"));
    fill(member.url.rsplit(':').next().unwrap());
    let whole = folder.path().join("whole.db");
    member.run(&["snapshot", "save", whole.to_str().unwrap()]);
    drop(member);
    let hash = ours(&["check", whole.to_str().unwrap()])["totals"]["hash"].clone();
    // The last one's free-list has more entries than its page's own count can hold.
    for (size, free, list) in
        [("1024", "30", true), ("16384", "100", true), ("65536", "9", false), ("4096", "70000", true)]
    {
        let path = folder.path().join(format!("{size}.db"));
        let script = root().join("tests/oracle/etcd_relay.py");
        let mut relay = Command::new(python());
        relay.arg(script).args([&whole, &path]).args(["--page-size", size, "--free", free]);
        if list {
            relay.arg("--freelist");
        }
        assert!(relay.status().unwrap().success());
        let path = path.to_str().unwrap();
        let status: Value = serde_json::from_str(&etcdctl(&["snapshot", "status", path, "-w", "json"])).unwrap();
        assert_eq!(status["hash"], hash, "{size}");
        let check = ours(&["check", path]);
        let rows = by_label(&check["rows"], &["check"], "check");
        let stored = &rows["\"free-list\""];
        let found = json!([stored["status"], stored["checked"]]);
        let count: u64 = free.parse().unwrap();
        assert_eq!(found, if list { json!(["ok", count]) } else { json!(["unknown", null]) }, "{size}");
        assert_eq!(check["totals"]["hash"], hash, "{size}");
        if list {
            same_in_every_way(path);
        } else {
            same_pages_and_hashes(path, &oracle("etcd_usage_by.py", &[path, "check"])["check"]);
        }
    }
}
