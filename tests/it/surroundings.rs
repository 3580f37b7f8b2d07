//! What the world around a run is like: nobody reads its messages, files are cut, pipes are in place of files.

use crate::support::{feed, folder, hermetic, plimsoll, run, sample, sample_bytes, write};
use serde_json::{Value, json};
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Messages that nobody can read stop no work.
#[test]
fn messages_that_can_not_be_written_stop_no_work() {
    let home = folder();
    // Something is wrong with it, so there are messages.
    let source = sample("damage");
    let truth = plimsoll(&["traffic", &source, "-o", "json"]);
    truth.exits(3);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, gone) = std::io::pipe().unwrap();
    drop(reader);
    for (what, err) in [("full", Stdio::from(full)), ("gone", Stdio::from(gone))] {
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        let output = command.args(["traffic", &source, "-o", "json"]).stderr(err).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{what}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said["totals"], truth.json(3)["totals"], "{what}");
    }
}

/// Help that can't be written was not given.
#[test]
fn help_that_can_not_be_written_is_an_error() {
    let home = folder();
    for words in [&["--help"][..], &["help", "options"], &["traffic", "--help"], &["--version"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        let output = command.args(words).stdout(Stdio::from(full)).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && stderr.contains("No space left"), "{words:?}: {stderr}");
        let (reader, gone) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        let output = command.args(words).stdout(Stdio::from(gone)).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}");
    }
}

/// Who reads no further learns by the exit code what it came to.
#[test]
fn a_reader_who_leaves_learns_the_exit_code() {
    let home = folder();
    let source = sample("damage");
    let (reader, gone) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
    let output = command.args(["traffic", &source]).stdout(Stdio::from(gone)).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A copy that is under way is cut: what is called as a log is missed, whoever looks for logs.
#[test]
fn packed_files_of_which_nothing_can_be_unpacked_are_said() {
    let home = folder();
    let log = std::fs::read(sample("list-storm/audit/apiserver-1/audit.log.zst")).unwrap();
    write(home.path(), "logs/apiserver-0/audit.log", sample_bytes("quiet/audit/apiserver-0/audit.log.zst"));
    let database = std::fs::read(sample("list-storm/etcd/after.db.zst")).unwrap();
    write(home.path(), "etcd/before.db.zst", std::fs::read(sample("list-storm/etcd/before.db.zst")).unwrap());
    write(home.path(), "objects/other.json", r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a"}}"#);
    for length in [5, 1_000, 5_000] {
        write(home.path(), "logs/apiserver-1/audit.log.zst", &log[..length]);
        write(home.path(), "etcd/after.db.zst", &database[..length]);
        write(home.path(), "objects/resourcequotas.json.zst", &log[..length]);
        let (logs, etcd, objects) = (home.path().join("logs"), home.path().join("etcd"), home.path().join("objects"));
        let [logs, etcd, objects] = [&logs, &etcd, &objects].map(|path| path.to_str().unwrap());
        for args in [&["traffic", logs][..], &["clients", logs], &["etcd", "check", etcd], &["quota", "check", objects]]
        {
            let ran = plimsoll(args);
            assert_eq!(ran.code, Some(3), "{args:?}, {length}: {}{}", ran.stdout, ran.stderr);
            assert!(ran.stderr.contains("cut off or damaged"), "{args:?}, {length}: {}", ran.stderr);
        }
    }
}

/// A folder without a database is said once.
#[test]
fn a_folder_without_a_database_is_said_once() {
    let home = folder();
    for command in [&["usage"][..], &["top"], &["flame"]] {
        let ran = plimsoll(&[&["etcd"], command, &[home.path().to_str().unwrap()]].concat());
        assert_eq!(ran.exits(3).stderr.matches("no etcd database").count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains("(looked at 0 files)"), "{}", ran.stderr);
    }
}

/// A pipe can be read once, and a report reads more often.
#[test]
fn reports_of_pipes_are_refused() {
    let home = folder();
    let log = sample_bytes("quiet/audit/apiserver-0/audit.log.zst");
    let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
    command.args(["report", "/dev/stdin"]);
    let ran = feed(command, &log);
    assert!(ran.exits(2).stderr.contains("a pipe can be read once"), "{}", ran.stderr);
}

/// Objects that a loop over namespaces wrote, each file a little later than the one before.
#[test]
fn objects_that_were_written_one_after_the_other_are_one_capture() {
    let home = folder();
    let quota = |namespace: &str, used: u64| {
        json!({"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "compute", "namespace": namespace},
            "spec": {"hard": {"pods": "10"}}, "status": {"hard": {"pods": "10"}, "used": {"pods": used.to_string()}}})
    };
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_000_000);
    let put = |name: &str, object: &Value, seconds: u64| {
        let path = write(home.path(), name, object.to_string());
        File::options().write(true).open(path).unwrap().set_modified(begin + Duration::from_secs(seconds)).unwrap();
    };
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        put(&format!("{name}.json"), &quota(name, 5 + number as u64), number as u64 * 7);
    }
    let source = home.path().to_str().unwrap();
    let namespaces = |report: &Value| {
        let rows = report["rows"].as_array().unwrap().iter();
        let used = |row: &Value| row["used"].as_str().unwrap().parse::<u64>().unwrap();
        rows.map(|row| (row["namespace"].as_str().unwrap().to_owned(), used(row))).collect::<Vec<_>>()
    };
    let sorted = |report: &Value| {
        let mut all = namespaces(report);
        all.sort();
        all
    };
    let of = |names: [(&str, u64); 4]| names.map(|(name, used)| (name.to_owned(), used)).to_vec();
    let report = plimsoll(&["quota", "check", source, "-o", "json"]).json(0);
    assert_eq!(sorted(&report), of([("a", 5), ("b", 6), ("c", 7), ("d", 8)]));
    // Of a later run, the latest counts.
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        put(&format!("later-{name}.json"), &quota(name, 1 + number as u64), 3600 + number as u64 * 7);
    }
    let report = plimsoll(&["quota", "check", source, "-o", "json"]).json(0);
    assert_eq!(sorted(&report), of([("a", 1), ("b", 2), ("c", 3), ("d", 4)]));
}

/// A time in a zone is that of the zone.
#[test]
fn times_in_zones_are_those_of_the_zones() {
    let window = |since: &str| {
        let source = sample("quiet");
        let ran = run(&["traffic", &source, "--since", since, "-o", "json"], &[], b"");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        (ran.code, report["totals"]["requests"].as_u64())
    };
    let truth = window("2026-11-20T09:44:00Z");
    assert_eq!(truth.0, Some(0));
    assert_eq!(window("2026-11-20T06:14:00[America/St_Johns]"), truth);
    assert_eq!(window("2026-11-20 06:14:00[America/St_Johns]"), truth);
    assert_eq!(window("2026-11-20 09:44:00[Nope/Zone]").0, Some(2));
}

/// A sample of a cgroup, and a capture of objects, that were taken when no clock was set.
#[test]
fn samples_and_captures_of_another_decade_are_set_aside() {
    let home = folder();
    let copy = std::fs::read(sample("list-storm/cgroup/kube-apiserver-0/1795166276.txt")).unwrap();
    let quota = |used: u64| {
        json!({"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "compute", "namespace": "a"},
            "spec": {"hard": {"pods": "10"}}, "status": {"hard": {"pods": "10"}, "used": {"pods": used.to_string()}}})
    };
    for at in ["1970-01-01T00-00-35Z", "2026-11-20T09-17-56Z", "2026-11-20T09-18-56Z", "2026-11-20T09-19-56Z"] {
        write(home.path(), &format!("cgroup/cp-0/{at}.txt"), &copy);
        let used = if at.starts_with("1970") { 9 } else { 5 };
        write(home.path(), &format!("objects/{at}/resourcequotas.json"), quota(used).to_string());
    }
    let [memory, objects] = ["cgroup", "objects"].map(|name| home.path().join(name).to_str().unwrap().to_owned());
    let ran = plimsoll(&["memory", "show", &memory]);
    assert!(ran.exits(3).stderr.contains("a sample is dated 1970-01-01T00:00:35Z"), "{}", ran.stderr);
    let report = plimsoll(&["report", &memory, "-o", "json"]).json(3);
    assert_eq!(report["window"]["from"], "2026-11-20T09:17:56Z");
    let ran = plimsoll(&["quota", "propose", &objects, "-o", "json"]);
    let report = ran.json(3);
    assert!(ran.stderr.contains("1970-01-01T00-00-35Z: dated 1970-01-01T00:00:35Z"), "{}", ran.stderr);
    assert_eq!((&report["rows"][0]["peak"], report["rows"].as_array().unwrap().len()), (&json!("5"), 1));
}

/// A packed log that is read while it is still being copied: what is there is taken, what is not is reported, and read
/// when it is there.
#[test]
fn a_packed_log_that_is_being_copied_loses_nothing() {
    let home = folder();
    let log = sample_bytes("quiet/audit/apiserver-0/audit.log.zst");
    let gz = {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packer, &log).unwrap();
        packer.finish().unwrap()
    };
    let truth = write(home.path(), "truth/audit.log", &log);
    let truth = plimsoll(&["traffic", &truth, "-o", "json"]).json(0)["totals"]["requests"].clone();
    for (name, packed) in [("audit.log.gz", gz), ("audit.log.zst", zstd::encode_all(log.as_slice(), 3).unwrap())] {
        let of = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
        let (dataset, store) = (of(&format!("{name}-dataset")), of(&format!("{name}-store")));
        let source = of(&format!("{name}-logs/{name}"));
        let build = || plimsoll(&["dataset", "build", &source, "--to", &dataset]);
        let record = || plimsoll(&["record", &source, "--store", &store, "--once", "--keep-rollups", "10s=20000d"]);
        for part in [packed.len() / 2, packed.len() * 3 / 4] {
            write(home.path(), &format!("{name}-logs/{name}"), &packed[..part]);
            // Again, too, as long as it is not whole.
            for _ in 0..2 {
                for ran in [build(), record()] {
                    ran.exits(3);
                    assert!(ran.stderr.contains(name), "{}", ran.stderr);
                }
            }
        }
        write(home.path(), &format!("{name}-logs/{name}"), &packed);
        for _ in 0..2 {
            build().exits(0);
            record().exits(0);
        }
        for source in [&dataset, &store] {
            let counted = plimsoll(&["traffic", source, "-o", "json"]).json(0);
            assert_eq!(counted["totals"]["requests"], truth, "{source}");
        }
    }
}

/// A folder is local: one that is called as a URL would be made here, and nothing be there where it points.
#[test]
fn nothing_is_written_into_a_folder_that_is_called_as_a_url() {
    let home = folder();
    let source = sample("quiet");
    for words in [
        &["dataset", "build", &source, "--to", "s3://bucket/events"][..],
        &["rollup", &source, "--to", "gs://bucket/rolled"],
        &["record", &source, "--once", "--store", "https://example.com/store"],
    ] {
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        let output = command.args(words).current_dir(home.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains("it is a URL"), "{words:?}: {stderr}");
    }
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains(':')), "{left:?}");
}

/// That a store is a later plimsoll's is reported by whoever reads it, and not only by who adds to it.
#[test]
fn a_store_of_another_version_is_reported_by_who_reads_it() {
    let home = folder();
    let store = home.path().join("store").to_str().unwrap().to_owned();
    plimsoll(&["record", &sample("quiet"), "--store", &store, "--once", "--keep-rollups", "10s=20000d"]).exits(0);
    plimsoll(&["traffic", &store]).exits(0);
    write(home.path(), "store/plimsoll-store.json", "{\"plimsoll_store\":9}\n");
    for words in [&["traffic"][..], &["report"], &["clients"], &["forecast"]] {
        let ran = plimsoll(&[words, &[&store]].concat());
        assert!([2, 3].contains(&ran.code.unwrap()), "{words:?}: {:?}", ran.code);
        assert!(ran.stderr.contains("another version of plimsoll"), "{words:?}: {}", ran.stderr);
    }
}
