//! What an engine's workers run, fed as Spark feeds it; a real Spark is in `.ci/full engine`.

use crate::support::{folder, plimsoll, run, sample_bytes, write};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// Rows as the engine's SQL gives them: lines by the first characters of their time, then by file.
fn rows(files: &[(String, Vec<u8>)], digits: usize) -> Vec<u8> {
    let mut parts: BTreeMap<(String, &str), Vec<u8>> = BTreeMap::new();
    for (name, text) in files {
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let key = br#""stageTimestamp":""#;
            let at = line.windows(key.len()).position(|window| window == key).map(|at| at + key.len());
            let part = at.and_then(|at| line.get(at..at + digits)).map(String::from_utf8_lossy).unwrap_or_default();
            let rows = parts.entry((part.clone().into_owned(), name)).or_default();
            write!(rows, "{part}\t{name}\t").unwrap();
            rows.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                rows.push(b'\n');
            }
        }
    }
    parts.into_values().flatten().collect()
}

/// What a worker makes of them: the roll-ups below `home`, and what had no time.
fn parts(home: &Path, roots: &[&str], rows: &[u8]) -> Vec<Value> {
    let roots = BASE64_STANDARD.encode(serde_json::to_vec(roots).unwrap());
    let ran = run(&["rollup-part", &roots], &[], rows);
    ran.exits(0);
    let mut unplaced = Vec::new();
    for row in ran.stdout.lines() {
        let cells: Vec<&str> = row.split('\t').collect();
        let data = BASE64_STANDARD.decode(cells[3]).unwrap();
        if cells[0].is_empty() {
            unplaced.push(serde_json::from_slice(&data).unwrap());
            continue;
        }
        let path = home.join(cells[0]).join(cells[1]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(&data).unwrap();
    }
    unplaced
}

/// Tables of a roll-up with their checksums, and what it says of its logs.
fn content(folder: &Path) -> (Value, Value, Value) {
    let mut manifest: Value = serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let mut tables = manifest["tables"].take();
    tables.as_object_mut().unwrap().remove("seams").unwrap();
    (tables, manifest["streams"].take(), manifest["open_requests"].take())
}

#[test]
fn parts_of_workers_become_the_roll_up_of_the_logs() {
    let logs = [
        ("apiserver-0/audit.log", "list-storm/audit/apiserver-0/audit.log.zst"),
        ("apiserver-1/audit.log", "list-storm/audit/apiserver-1/audit.log.zst"),
    ];
    let home = folder();
    let source = home.path().join("audit");
    let named = logs.map(|(name, sample)| {
        write(&source, name, sample_bytes(sample));
        (format!("file://{}/{name}", source.display()), sample_bytes(sample))
    });
    let whole = home.path().join("whole");
    plimsoll(&["rollup", source.to_str().unwrap(), "--to", whole.to_str().unwrap()]).exits(0);
    // By hours it is one part; by minutes there are ten, and what happens across them.
    for (digits, count) in [(13, 1), (16, 10)] {
        let of = home.path().join(format!("parts-{digits}"));
        let root = format!("file://{}", source.display());
        assert!(parts(&of, &[&root], &rows(&named, digits)).is_empty());
        assert_eq!(fs::read_dir(&of).unwrap().count(), count);
        let joined = home.path().join(format!("joined-{digits}"));
        plimsoll(&["rollup", of.to_str().unwrap(), "--to", joined.to_str().unwrap()]).exits(0);
        assert_eq!(content(&joined), content(&whole), "{digits}");
    }
}

#[test]
fn what_has_no_time_is_counted_and_names_are_no_paths() {
    let home = folder();
    let log = sample_bytes("controllers/audit/apiserver-0/audit.log.zst");
    let text: Vec<u8> = [b"{\"kind\":\"Event\",\"level\":\"Meta\n\n  \n".as_slice(), &log].concat();
    let file = "s3a://bucket/../../etc/%2e%2e/a%2Fb/audit.log".to_owned();
    let unplaced = parts(home.path(), &["s3a://bucket"], &rows(&[(file.clone(), text)], 13));
    assert_eq!(unplaced, [serde_json::json!({"file": file, "lines": 1, "bytes": 30})]);
    let manifests: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(manifests.len(), 1, "{manifests:?}");
    let (_, streams, _) = content(&manifests[0]);
    assert_eq!(streams[0]["lines"], 6795);

    // What people call it with says whose it is.
    for (args, rows) in [(&["rollup-part", "x"][..], ""), (&["rollup-part", "W10="], "no columns\n")] {
        let ran = run(args, &[], rows.as_bytes());
        assert!(ran.exits(2).stderr.contains("run by an engine's workers"), "{}", ran.stderr);
    }
}

#[test]
fn sources_of_an_engine_name_what_reads_them() {
    let without = plimsoll(&["traffic", "s3a://bucket/audit/", "--by", "verb"]);
    assert!(without.exits(2).stderr.contains("s3a://bucket/audit/: an engine reads this"), "{}", without.stderr);
    let local = plimsoll(&["traffic", "audit.log", "--by", "verb", "--engine", "sc://127.0.0.1:1"]);
    assert!(local.exits(2).stderr.contains("no source for it"), "{}", local.stderr);
}
