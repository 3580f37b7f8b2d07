//! Databases that no apiserver alone has written: values that are no objects, keys that are no text, another prefix,
//! hashes that were cut. What etcdctl and etcdutl say of each is what is compared with.

use crate::member::Member;
use crate::support::{folder, plimsoll, sample};
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// Writes a key that need not be text.
fn put(member: &Member, key: &[u8], value: &str) {
    let done = Command::new("etcdctl")
        .args(["--endpoints", &member.url, "put", "--"])
        .args([OsStr::from_bytes(key), OsStr::new(value)])
        .env("ETCDCTL_API", "3")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn config_map(name: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"}}}}"#)
}

fn snapshot(member: &Member, to: &Path) -> String {
    let path = to.to_str().unwrap().to_owned();
    member.run(&["snapshot", "save", &path]);
    path
}

fn rows(of: &[&str], code: i32) -> Vec<Value> {
    let answer = plimsoll(&[of, &["-o", "json"]].concat()).json(code);
    answer["rows"].as_array().unwrap().clone()
}

#[test]
fn values_that_no_apiserver_can_read_and_keys_that_are_no_text_are_reported() {
    let home = folder();
    let member = Member::plain(&home.path().join("data"));
    put(&member, b"/registry/configmaps/default/ok", &config_map("ok"));
    for (name, value) in [("text", "this is not an object"), ("number", "5"), ("list", "[1,2]"), ("nothing", "")] {
        put(&member, format!("/registry/configmaps/default/{name}").as_bytes(), value);
    }
    // Not of an apiserver: nothing need be in it.
    put(&member, b"compact_rev_key", "7");
    put(&member, b"/registry/configmaps/default/\xff1", &config_map("odd"));
    put(&member, b"/registry/configmaps/default/\xfe1", &config_map("odder"));
    put(&member, b"/registry/configmaps/default/\xfd1", &config_map("gone"));
    let gone = Command::new("etcdctl")
        .args(["--endpoints", &member.url, "del", "--"])
        .arg(OsStr::from_bytes(b"/registry/configmaps/default/\xfd1"))
        .env("ETCDCTL_API", "3")
        .status();
    assert!(gone.unwrap().success());
    let database = snapshot(&member, &home.path().join("odd.db"));
    let checks = rows(&["etcd", "check", &database], 0);
    let values = checks.iter().find(|row| row["check"] == "values").unwrap();
    assert_eq!((&values["status"], &values["failed"]), (&"failed".into(), &4.into()), "{values}");
    let usage = plimsoll(&["etcd", "usage", &database, "-o", "json"]).json(0);
    assert_eq!(usage["coverage"]["undecodable"], 4, "{usage}");
    assert!(usage["findings"].to_string().contains("etcd-undecodable"), "{usage}");
    let extracted = plimsoll(&["etcd", "extract", &database, "--key-prefix", "/registry/"]);
    assert_eq!(extracted.code, Some(3), "{}", extracted.stderr);
    assert_eq!(extracted.stderr.matches("its key is no text").count(), 2, "{}", extracted.stderr);
    assert_eq!(extracted.stdout.matches("kind: ConfigMap").count(), 1, "{}", extracted.stdout);
    let nothing = plimsoll(&["etcd", "extract", &database, "--key-prefix", "/registry/configmaps/default/text"]);
    assert!(nothing.stderr.contains("nothing that matches could be extracted"), "{}", nothing.stderr);
    assert!(!nothing.stderr.contains("no live object matches"), "{}", nothing.stderr);
}

#[test]
fn a_hash_that_was_cut_is_damage_as_it_is_to_etcd() {
    let home = folder();
    let member = Member::newer(&home.path().join("data"));
    put(&member, b"/registry/configmaps/default/ok", &config_map("ok"));
    let database = snapshot(&member, &home.path().join("whole.db"));
    let whole = std::fs::read(&database).unwrap();
    let restored = |path: &Path, to: &str| {
        let mut command = Command::new(crate::member::newer("etcdutl"));
        command.args(["snapshot", "restore"]).arg(path).arg("--data-dir").arg(home.path().join(to));
        command.output().unwrap().status.success()
    };
    let cases = [("cut", whole.len() - 1, 0), ("longer", whole.len(), 100), ("whole", whole.len(), 0)];
    for (name, length, more) in cases {
        let path = home.path().join(format!("{name}.db"));
        let bytes = [&whole[..length], &vec![7; more][..]].concat();
        std::fs::write(&path, bytes).unwrap();
        let takes = restored(&path, name);
        assert_eq!(takes, name == "whole", "etcdutl of {name}");
        let ran = plimsoll(&["etcd", "check", path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(if takes { 0 } else { 1 }), "{name}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout.contains("The database is damaged: trailer"), !takes, "{name}: {}", ran.stdout);
    }
}

#[test]
fn keys_below_another_prefix_are_named_and_times_of_leases_in_json_count() {
    let home = folder();
    let member = Member::plain(&home.path().join("data"));
    for second in 0..60 {
        let metadata = r#"{"name":"a","namespace":"x","creationTimestamp":"2026-11-30T05:00:00Z"}"#;
        let lease = format!(
            r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{metadata},
                "spec":{{"renewTime":"2026-11-30T06:{second:02}:00.000000Z"}}}}"#
        );
        put(&member, b"/kube2/leases/x/a", &lease);
    }
    put(&member, b"/kube2/configmaps/x/b", &config_map("b"));
    let database = snapshot(&member, &home.path().join("prefix.db"));
    let history = plimsoll(&["etcd", "history", &database, "-o", "json"]).json(0);
    // From the making of the lease, which each of its values has.
    let window = &history["window"];
    assert_eq!((&window["to"], &window["seconds"]), (&"2026-11-30T06:59:00Z".into(), &3540.0.into()), "{history}");
    let shown = plimsoll(&["etcd", "usage", &database]);
    assert!(shown.stdout.contains("PREFIX") && shown.stdout.contains("/kube2/leases/"), "{}", shown.stdout);
    assert!(shown.stdout.contains("2 of 2 keys name no resource"), "{}", shown.stdout);
    let named = plimsoll(&["etcd", "usage", &database, "--prefix", "/kube2"]);
    assert!(!named.stdout.contains("PREFIX") && named.stdout.contains("leases"), "{}", named.stdout);
    // Every store has a key of the apiservers' own that is below no prefix.
    let usual = plimsoll(&["etcd", "usage", &sample("quiet")]);
    assert!(usual.code == Some(0) && !usual.stdout.contains("PREFIX"), "{}", usual.stdout);
    // Sorted by what is asked for, of all keys and not of the largest.
    let latest = rows(&["etcd", "top", &database, "--sort-by", "modified", "--top", "1"], 0);
    assert_eq!(latest[0]["key"], "/kube2/configmaps/x/b", "{latest:?}");
    for command in ["usage", "top", "history", "split", "pages", "check"] {
        let ran = plimsoll(&["etcd", command, &database, "--sort-by", "nonsense"]);
        assert_eq!(ran.code, Some(2), "etcd {command}: {}", ran.stderr);
        assert!(ran.stderr.contains("--sort-by nonsense"), "etcd {command}: {}", ran.stderr);
    }
}

#[test]
fn pages_of_two_members_in_one_folder_are_two_members() {
    let home = folder();
    let page = |server: &str, start: f64, size: u64| {
        format!(
            "# TYPE etcd_server_id gauge\netcd_server_id{{server_id=\"{server}\"}} 1\n\
             # TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes 20000000\n\
             # TYPE etcd_mvcc_db_total_size_in_bytes gauge\netcd_mvcc_db_total_size_in_bytes {size}\n\
             # TYPE etcd_mvcc_db_total_size_in_use_in_bytes gauge\netcd_mvcc_db_total_size_in_use_in_bytes {size}\n\
             # TYPE etcd_server_has_leader gauge\netcd_server_has_leader 1\n\
             # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {start}\n"
        )
    };
    // The second one started when the page of the first one was taken: by that alone it would be a restart.
    let full = home.path().join("1795166276.txt");
    std::fs::write(&full, page("ac7c97ef0ec193b0", 1_795_166_000.0, 20_561_920)).unwrap();
    let other = home.path().join("1795166300.txt");
    std::fs::write(&other, page("60f98d3b71ac64f3", 1_795_166_280.0, 1_000_000)).unwrap();
    for order in [[&full, &other], [&other, &full]] {
        let named = order.map(|path| path.to_str().unwrap());
        let ran = plimsoll(&["etcd", "health", named[0], named[1], "--fail-on", "warning", "-o", "json"]);
        let answer = ran.json(1);
        assert_eq!(answer["rows"].as_array().unwrap().len(), 2, "{answer}");
        assert!(answer["findings"].to_string().contains("etcd-near-quota"), "{answer}");
    }
    // The same member that started again is one.
    std::fs::write(&other, page("ac7c97ef0ec193b0", 1_795_166_280.0, 1_000_000)).unwrap();
    assert_eq!(rows(&["etcd", "health", full.to_str().unwrap(), other.to_str().unwrap()], 0).len(), 1);
}
