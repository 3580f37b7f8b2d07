//! `plimsoll record` on audit logs: what a store reports logs that are gone is what the logs reported, however they
//! grew and were rotated, and however often the recorder was killed.

use crate::support::{Ran, folder, hermetic, plimsoll, sample_bytes, write};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// For ever: the samples are old.
const KEEP: &str = "10s=20000d";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn record(sources: &[&str], store: &Path, keep: &str) -> Ran {
    let ran = plimsoll(&[&["record"], sources, &["--store", text(store), "--once", "--keep-rollups", keep]].concat());
    ran.did_not_panic();
    ran
}

/// The tables of a roll-up of sources, as their checksums show them.
fn tables(sources: &[&str], to: &Path) -> Value {
    plimsoll(&[&["rollup"], sources, &["--to", text(to)]].concat()).exits(0);
    let manifest: Value = serde_json::from_slice(&fs::read(to.join("manifest.json")).unwrap()).unwrap();
    manifest["tables"].clone()
}

/// The manifests of the parts that count, by the names of their folders.
fn named_parts(store: &Path) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(store.join("rollups")).unwrap() {
        let folder = entry.unwrap().path();
        if let Ok(text) = fs::read(folder.join("manifest.json")) {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            all.insert(name, serde_json::from_slice::<Value>(&text).unwrap());
        }
    }
    let replaced: Vec<Value> = all.values().flat_map(|part| part["replaces"].as_array().unwrap().clone()).collect();
    all.retain(|name, _| !replaced.contains(&Value::from(name.as_str())));
    all
}

fn parts(store: &Path) -> Vec<Value> {
    named_parts(store).into_values().collect()
}

/// The time of each line, and where it ends.
fn lines_of(log: &[u8]) -> Vec<(String, usize)> {
    let mut end = 0;
    let mut line = |line: &[u8]| {
        end += line.len();
        let event: Value = serde_json::from_slice(line).unwrap();
        (event["stageTimestamp"].as_str().unwrap().to_owned(), end)
    };
    log.split_inclusive(|byte| *byte == b'\n').map(&mut line).collect()
}

#[test]
fn a_log_that_grows_and_is_rotated_is_stored_once_whoever_is_killed() {
    let mut seed = 4_711u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let home = folder();
    let (whole, logs, store) = (home.path().join("whole"), home.path().join("logs"), home.path().join("store"));
    let instances = ["apiserver-0", "apiserver-1"];
    let all: Vec<Vec<u8>> =
        instances.iter().map(|of| sample_bytes(&format!("list-storm/audit/{of}/audit.log.zst"))).collect();
    for (of, bytes) in instances.iter().zip(&all) {
        write(&whole, &format!("audit/{of}/audit.log"), bytes);
        write(&logs, &format!("audit/{of}/audit.log"), "");
    }
    let ends: Vec<Vec<(String, usize)>> = all.iter().map(|bytes| lines_of(bytes)).collect();
    let times: BTreeSet<&str> = ends.iter().flatten().map(|(at, _)| at.as_str()).collect();
    let times: Vec<&str> = times.into_iter().collect();
    let mut done = [0usize; 2];
    let mut rotations = 0;
    let mut now = 0;
    for round in 0.. {
        let is_last = now >= times.len();
        now += times.len() / 7 + random(times.len() / 7);
        for (of, bytes) in all.iter().enumerate() {
            // All that was written up to a moment, and some of the line behind it.
            let reached = times.get(now).map_or(bytes.len(), |now| {
                let lines = ends[of].iter().take_while(|(at, _)| at.as_str() < *now).last().map_or(0, |(_, end)| *end);
                (lines + random(200)).min(bytes.len())
            });
            let reached = reached.max(done[of]);
            let path = logs.join("audit").join(instances[of]).join("audit.log");
            OpenOptions::new().append(true).open(&path).unwrap().write_all(&bytes[done[of]..reached]).unwrap();
            done[of] = reached;
            let at_line = done[of] > 0 && bytes[done[of] - 1] == b'\n';
            // As lumberjack rotates: between two lines; some of what was rotated is packed, and stays beside it.
            if (round % 2 == 1 || at_line) && !is_last {
                let end = bytes[done[of]..].iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                let rest = &bytes[done[of]..done[of] + end];
                OpenOptions::new().append(true).open(&path).unwrap().write_all(rest).unwrap();
                done[of] += end;
                rotations += 1;
                let old = path.with_file_name(format!("audit-2026-11-20T09-{:02}-00.000.log", 10 + rotations));
                fs::rename(&path, &old).unwrap();
                fs::write(&path, "").unwrap();
                if random(2) == 0 {
                    let gzip = if random(2) == 0 { &["-q"][..] } else { &["-q", "--keep"] };
                    assert!(Command::new("gzip").args(gzip).arg(&old).status().unwrap().success());
                }
            }
        }
        // Some runs don't live to see their end.
        for _ in 0..random(4) {
            let mut run = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
            run.args(["record", text(&logs), "--store", text(&store), "--once", "--keep-rollups", KEEP]);
            let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(random(120) as u64));
            let _ = child.kill();
            child.wait().unwrap();
        }
        record(&[text(&logs)], &store, KEEP).exits(0);
        if is_last {
            break;
        }
        assert!(round < 100);
    }
    assert!(rotations > 4);
    // Each byte of each log once.
    let stored: u64 = parts(&store)
        .iter()
        .flat_map(|part| part["streams"].as_array().unwrap().clone())
        .map(|own| own["lines"].as_u64().unwrap())
        .sum();
    let lines: usize = all.iter().map(|bytes| bytes.iter().filter(|byte| **byte == b'\n').count()).sum();
    assert_eq!(stored, lines as u64);
    let (of_logs, of_store) =
        (tables(&[text(&whole)], &home.path().join("a")), tables(&[text(&store)], &home.path().join("b")));
    for (name, table) in of_logs.as_object().unwrap() {
        // What parts can't know of one another (docs/rollup.md, section 7).
        if ["writes", "alternations"].contains(&name.as_str()) {
            let [stored, whole] = [&of_store[name], table].map(|table| table["rows"].as_u64().unwrap());
            assert!(stored <= whole + 2 * rotations as u64, "{name}: {stored} {whole}");
            continue;
        }
        assert_eq!(of_store[name], *table, "{name}");
    }
    // What it shows when the logs are gone.
    fs::remove_dir_all(&logs).unwrap();
    for command in [
        &["clients", "SOURCE"][..],
        &["balance", "SOURCE"],
        &["guard", "events", "SOURCE"],
        &["controllers", "SOURCE"],
        &["traffic", "SOURCE", "--by", "agent,resource"],
    ] {
        let ask = |source: &Path| {
            let words: Vec<&str> = command
                .iter()
                .map(|word| if *word == "SOURCE" { text(source) } else { word })
                .chain(["-o", "json"])
                .collect();
            let mut answer = plimsoll(&words).json(0);
            answer.as_object_mut().unwrap().retain(|field, _| field != "inputs" && field != "generated_at");
            answer
        };
        assert_eq!(ask(&store), ask(&whole), "{command:?}");
    }
    let window = ["--from", "2026-11-20T09:21:50Z", "--to", "2026-11-20T09:24:30Z"];
    let report = plimsoll(&[&["report", text(&store), "-o", "json"], &window[..]].concat());
    let answer: Value = serde_json::from_str(&report.stdout).unwrap_or_else(|_| panic!("{}", report.stderr));
    assert!(answer["summary"].to_string().contains("node-agent"), "{}", answer["summary"]);
    // A log that goes on beside it takes the place of the parts that it reports again, not of those before.
    let again = record(&[text(&whole)], &store, KEEP);
    again.exits(0);
}

fn event(at: i64, user: &str) -> String {
    let at = plimsoll::model::time::format(at * 1_000_000);
    format!(
        "{{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Metadata\",\
         \"auditID\":\"{user}-{at}\",\"stage\":\"ResponseComplete\",\"requestURI\":\"/api/v1/pods\",\
         \"verb\":\"list\",\"user\":{{\"username\":\"{user}\"}},\"userAgent\":\"tool/1\",\
         \"objectRef\":{{\"resource\":\"pods\",\"apiVersion\":\"v1\"}},\
         \"responseStatus\":{{\"code\":200}},\"requestReceivedTimestamp\":\"{at}\",\
         \"stageTimestamp\":\"{at}\"}}\n"
    )
}

#[test]
fn what_is_old_becomes_coarser_and_what_is_very_old_goes_and_is_not_read_again() {
    let home = folder();
    let store = home.path().join("store");
    let now = now_in_seconds();
    let day = 86_400;
    // Nine days, an event each ten minutes, in files of six hours.
    let begin = (now / day - 9) * day;
    let mut files = Vec::new();
    let mut requests = 0;
    for file in 0..36 {
        let lines: String =
            (0..36).map(|n| event(begin + file * 21_600 + n * 600, &format!("user-{}", n % 5))).collect();
        requests += 36;
        files.push(write(&home.path().join("logs"), &format!("audit.log.{}", 36 - file), lines));
    }
    for file in &files {
        record(&[file], &store, "10s=2d,1m=5d,10m=100d").exits(0);
    }
    // What was recorded just now is fine, however long ago it was.
    assert!(parts(&store).iter().all(|part| part["tile_seconds"] == 10));
    as_it_happened(&store);
    record(&[&files[0]], &store, "10s=2d,1m=5d,10m=100d").exits(0);
    let answer = parts(&store);
    let count = |answer: &Value| answer["totals"]["requests"].as_u64().unwrap();
    let ask = || plimsoll(&["traffic", text(&store), "--by", "user", "-o", "json"]).json(0);
    assert_eq!(count(&ask()), requests);
    let tiles: BTreeSet<i64> = answer.iter().map(|part| part["tile_seconds"].as_i64().unwrap()).collect();
    assert_eq!(tiles, BTreeSet::from([10, 60]), "{}", answer.len());
    // A day is one part once all of it is old: about six of nine are.
    assert!(answer.len() < 24, "{}", answer.len());
    // Days that are older than is kept are dropped, and their logs, which lie there still, are not read again.
    as_it_happened(&store);
    for _ in 0..2 {
        record(&[text(&home.path().join("logs"))], &store, "10s=1d,1m=3d").exits(0);
        let left = count(&ask());
        // In the last minutes of a day the third day is over, too.
        assert!((2 * 144..=5 * 144).contains(&left), "{left}");
    }
    // The coarsest length is that of the answer.
    let wrong = plimsoll(&["traffic", text(&store), "--by", "user", "--series", "--interval", "30s"]);
    wrong.exits(2);
    // A word of the flag that means nothing.
    for bad in ["10s", "5s=1d", "1m=2d,10s=5d", "10s=2d,1m=1d", "10s=soon"] {
        plimsoll(&["record", &files[0], "--store", text(&store), "--once", "--keep-rollups", bad]).exits(2);
    }
}

/// As if each part had been recorded when it happened.
fn as_it_happened(store: &Path) {
    for entry in fs::read_dir(store.join("rollups")).unwrap() {
        let path = entry.unwrap().path().join("manifest.json");
        if let Ok(text) = fs::read(&path) {
            let mut manifest: Value = serde_json::from_slice(&text).unwrap();
            manifest["recorded"] = manifest["last"].clone();
            fs::write(&path, manifest.to_string()).unwrap();
        }
    }
}

fn now_in_seconds() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
}

#[test]
fn what_was_replaced_never_counts_again() {
    let home = folder();
    let store = home.path().join("store");
    let begin = now_in_seconds() / 3600 * 3600 - 7200;
    let mut requests = 0;
    let mut record_more = || {
        for _ in 0..13 {
            let log = write(home.path(), &format!("{requests}/audit.log"), event(begin + requests, "jane"));
            record(&[&log], &store, KEEP).exits(0);
            requests += 1;
        }
        requests
    };
    let count = || plimsoll(&["traffic", text(&store), "-o", "json"]).json(0)["totals"]["requests"].as_i64().unwrap();
    let first = record_more();
    assert_eq!(count(), first);
    // The parts that these became, and what they were made of, which lies there still.
    let before = named_parts(&store);
    assert!(before.values().any(|part| !part["replaces"].as_array().unwrap().is_empty()));
    let all = record_more();
    let after = named_parts(&store);
    // As if a recorder had been killed while it removed what was replaced: the later ones are gone, the first are not.
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        fs::remove_dir_all(store.join("rollups").join(name)).unwrap();
    }
    assert!(before.len() < 13 && all == 26);
    assert_eq!(count(), all);
}

#[test]
fn every_form_of_a_log_is_recorded_and_pipes_are_refused() {
    let home = folder();
    let forms = fs::read_dir(crate::support::sample("forms")).unwrap().map(|entry| entry.unwrap().path());
    let mut logs = 0;
    for form in forms.filter(|form| !form.ends_with("README.md") && !form.ends_with("make.py")) {
        let store = home.path().join(form.file_name().unwrap());
        for _ in 0..2 {
            record(&[text(&form)], &store, KEEP).exits(0);
        }
        let requests =
            |source: &Path| plimsoll(&["traffic", text(source), "-o", "json"]).json(0)["totals"]["requests"].clone();
        assert_eq!(requests(&store), requests(&form), "{}", form.display());
        logs += 1;
    }
    assert!(logs >= 15, "{logs}");
    let store = home.path().join("piped");
    let words = ["record", "-", "--store", text(&store), "--once"];
    let piped = crate::support::run(&words, &[], event(now_in_seconds(), "jane").as_bytes());
    piped.exits(2);
    assert!(piped.stderr.contains("write it to a file"), "{}", piped.stderr);
}

#[test]
fn logs_are_bounded_and_two_recorders_are_one_too_many() {
    let home = folder();
    let store = home.path().join("store");
    let logs: Vec<u8> = sample_bytes("list-storm/audit/apiserver-0/audit.log.zst");
    // Hour after hour, as if it had gone on for long.
    let lines = String::from_utf8(logs).unwrap();
    for hour in 0..12 {
        let moved = lines.replace("2026-11-20T09:", &format!("2026-11-20T{:02}:", 9 + hour));
        let log = write(home.path(), &format!("logs-{hour}/audit.log"), moved);
        let ran =
            plimsoll(&["record", &log, "--store", text(&store), "--once", "--keep-rollups", KEEP, "--max-size", "2MB"]);
        ran.exits(0);
    }
    let bytes: u64 = parts(&store)
        .iter()
        .flat_map(|part| part["tables"].as_object().unwrap().clone())
        .map(|(_, own)| own["bytes"].as_u64().unwrap())
        .sum();
    assert!(bytes <= 1_000_000, "{bytes}");
    let answer = plimsoll(&["traffic", text(&store), "-o", "json"]).json(0);
    assert!(answer["window"]["to"].as_str().unwrap() > "2026-11-20T20:", "the latest stays: {}", answer["window"]);
    // Whoever comes second leaves it to the first.
    let lock = fs::File::open(store.join("rollups/.writer")).unwrap();
    lock.lock().unwrap();
    let log = write(home.path(), "logs-13/audit.log", event(now_in_seconds(), "late"));
    let ran = record(&[&log], &store, KEEP);
    ran.exits(0);
    assert!(ran.stderr.contains("another plimsoll record"), "{}", ran.stderr);
    drop(lock);
}

/// One request of a log that somebody asks every ten seconds.
fn request(number: u32) -> String {
    let at = format!("2026-11-20T{:02}:{:02}:{:02}.5Z", number / 360, number / 6 % 60, number % 6 * 10);
    format!(
        r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{number}","stage":"ResponseComplete","requestURI":"/api/v1/nodes/a","verb":"get","user":{{"username":"bob"}},"objectRef":{{"resource":"nodes","name":"a"}},"responseStatus":{{"code":200}},"requestReceivedTimestamp":"{at}","stageTimestamp":"{at}"}}"#
    ) + "\n"
}

#[test]
fn a_part_in_longer_tiles_and_one_without_share_a_tile() {
    let home = folder();
    let (log, store) = (home.path().join("audit.log"), home.path().join("store"));
    // Eight hours are answered in minutes; only the first part is long enough to hold them, and it ends within one.
    let lines: Vec<String> = (0..8 * 360).map(request).collect();
    for round in [&lines[..2_829], &lines[2_829..]] {
        let mut file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        file.write_all(round.concat().as_bytes()).unwrap();
        record(&[text(&log)], &store, KEEP).exits(0);
    }
    assert_eq!(parts(&store).len(), 2);
    for command in ["traffic", "clients"] {
        assert_eq!(plimsoll(&[command, text(&store), "-o", "json"]).json(0)["totals"]["requests"], 2_880, "{command}");
    }
}

#[test]
fn what_is_dated_in_the_future_is_set_aside_and_said() {
    let home = folder();
    let (log, store) = (home.path().join("audit.log"), home.path().join("store"));
    write(home.path(), "audit.log", (0..40).map(request).collect::<String>());
    record(&[text(&log)], &store, KEEP).exits(0);
    let before = plimsoll(&["traffic", text(&store), "-o", "json"]).json(0);
    let mut file = OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(request(41).replace("2026-", "9998-").as_bytes()).unwrap();
    let ran = record(&[text(&log)], &store, KEEP);
    ran.exits(3);
    assert!(ran.stderr.contains("in the future"), "{}", ran.stderr);
    let after = plimsoll(&["traffic", text(&store), "-o", "json"]);
    let after: Value = serde_json::from_str(&after.stdout).unwrap();
    assert_eq!((&after["totals"], &after["window"]), (&before["totals"], &before["window"]));
}

/// A line that comes a minute late stands behind the cut between two parts: a watch that crosses the cut is one all the
/// same.
#[test]
fn a_late_line_behind_a_cut_doubles_no_watch() {
    let home = folder();
    let (log, store) = (home.path().join("audit.log"), home.path().join("store"));
    let bytes = sample_bytes("list-storm/audit/apiserver-0/audit.log.zst");
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let cut = lines.len() / 2;
    let event = |line: &[u8]| serde_json::from_slice::<Value>(line).unwrap();
    let at = |line: &[u8]| {
        let time = event(line)["stageTimestamp"].as_str().unwrap().to_owned();
        time.parse::<jiff::Timestamp>().unwrap().as_second()
    };
    let end = at(lines[cut - 1]);
    let late = lines[..cut].iter().rposition(|line| event(line)["verb"] == "get" && end - at(line) >= 60).unwrap();
    let line = lines.remove(late);
    lines.insert(cut + 2, line);
    let count = |source: &Path| {
        let report = plimsoll(&["traffic", text(source), "--by", "verb", "-o", "json"]).json(0);
        let row = |row: &Value| (row["verb"].to_string(), row["requests"].as_u64(), row["open"].as_u64());
        report["rows"].as_array().unwrap().iter().map(row).collect::<BTreeSet<_>>()
    };
    fs::write(&log, lines[..cut - 1].concat()).unwrap();
    record(&[text(&log)], &store, KEEP).exits(0);
    fs::write(&log, lines.concat()).unwrap();
    assert_ne!(count(&store), count(&log), "half of it is there");
    record(&[text(&log)], &store, KEEP).exits(0);
    assert_eq!(count(&store), count(&log));
}
