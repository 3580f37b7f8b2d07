//! `plimsoll dataset build`: each event and capture once, each column as its source has it, whenever and however often
//! it is built.

use crate::support::{
    Ran, count, feed, folder, plimsoll, python, root, rows, run, sample, sample_bytes, traffic, write,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

#[track_caller]
fn build(sources: &[&str], to: &Path) -> Value {
    let ran = plimsoll(&[&["dataset", "build"], sources, &["--to", to.to_str().unwrap(), "-o", "json"]].concat());
    assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

fn oracle(name: &str, arguments: &[String]) -> Ran {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle").join(name)).args(arguments);
    feed(command, b"")
}

/// That the dataset holds these logs, each with its cluster and apiserver.
#[track_caller]
fn holds(dataset: &Path, logs: &[(&Path, &str, &str)]) -> u64 {
    let named = |(path, cluster, instance): &(&Path, &str, &str)| format!("{}={cluster},{instance}", path.display());
    let arguments: Vec<String> = std::iter::once(dataset.display().to_string()).chain(logs.iter().map(named)).collect();
    let ran = oracle("dataset.py", &arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let counts: Value = serde_json::from_str(&ran.stdout).unwrap();
    // And the columns of the partition.
    assert_eq!(counts["columns"].as_u64(), Some(plimsoll::model::dataset::EVENTS.len() as u64 + 3 - 1));
    counts["events"].as_u64().unwrap()
}

/// Files of a dataset, and their bytes; the description without what differs from run to run.
fn files(dataset: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = ["audit", "metrics", "keyspace", "quotas"].map(|table| dataset.join(table)).to_vec();
    folders.retain(|folder| folder.is_dir());
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(dataset).unwrap().display().to_string();
                    all.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
    }
    all
}

/// The audit logs of a bundle: path, cluster, apiserver.
fn logs(bundle: &str, cluster: &str, instances: &[&str]) -> Vec<(PathBuf, String, String)> {
    let path = |instance: &&str| Path::new(bundle).join("audit").join(instance).join("audit.log.zst");
    instances.iter().map(|instance| (path(instance), cluster.to_owned(), (*instance).to_owned())).collect()
}

#[test]
fn each_column_equals_the_raw_events() {
    for (name, cluster, instances) in [
        ("list-storm", "lab-1", &["apiserver-0", "apiserver-1"][..]),
        ("quiet", "lab-3", &["apiserver-0"]),
        ("controllers", "lab-2", &["apiserver-0"]),
        ("apf-dumps", "lab-apf", &["apiserver-0"]),
    ] {
        let home = folder();
        let bundle = sample(name);
        let document = build(&[&bundle], home.path());
        let logs = logs(&bundle, cluster, instances);
        let logs: Vec<(&Path, &str, &str)> = logs
            .iter()
            .map(|(path, cluster, instance)| (path.as_path(), cluster.as_str(), instance.as_str()))
            .collect();
        assert_eq!(document["totals"]["events"].as_u64(), Some(holds(home.path(), &logs)), "{name}");
        // The check can fail: a file less, and a log more.
        let one = files(home.path()).into_keys().next().unwrap();
        let arguments = [home.path().display().to_string(), format!("{}={cluster},{}", logs[0].0.display(), logs[0].2)];
        if logs.len() > 1 {
            assert_eq!(oracle("dataset.py", &arguments).code, Some(1));
        } else {
            write(home.path(), "audit/copy.parquet", std::fs::read(home.path().join(one)).unwrap());
            assert_ne!(oracle("dataset.py", &arguments).code, Some(0));
        }
    }
}

/// Bundles, and logs in all forms and kinds of damage that have events.
fn all_logs() -> Vec<String> {
    let bundles = ["list-storm", "quiet", "controllers", "apf-dumps", "overload-restart", "drain", "levels"];
    let mut sources: Vec<String> = bundles.iter().map(|name| sample(name)).collect();
    for folder in ["forms", "damage"] {
        for entry in std::fs::read_dir(sample(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let has_none = name.starts_with("make") || name.ends_with(".md") || name.starts_with("not-audit");
            // Of texts longer than a roll-up keeps them, and paths that are escaped in several ways.
            if !has_none && !["empty.log", "hostile.log"].contains(&name.as_str()) {
                sources.push(path.display().to_string());
            }
        }
    }
    assert!(sources.len() > 25);
    sources
}

/// The tables of a roll-up with their checksums, and what it says of its logs.
fn rolled(source: &str, to: &Path) -> (Value, Vec<Value>) {
    let ran = plimsoll(&["rollup", source, "--to", to.to_str().unwrap()]);
    assert!(matches!(ran.code, Some(0 | 3)), "{source}: {}", ran.stderr);
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(to.join("manifest.json")).unwrap()).unwrap();
    let mut tables = manifest["tables"].take();
    // What joins parts has an order of its own.
    tables.as_object_mut().unwrap().remove("seams").unwrap();
    // Wrappers name clusters and apiservers event by event, datasets file by file; and these leave out that a request
    // came in.
    let events = |level: &str| -> u64 {
        let streams = manifest["streams"].as_array().unwrap().iter();
        let stages = streams.filter_map(|own| own["events"][level].as_object()).flatten();
        stages.filter(|own| own.0 != "RequestReceived").map(|own| own.1.as_u64().unwrap()).sum()
    };
    let events = ["Unknown", "Metadata", "Request", "RequestResponse"].map(events);
    let names = ["tile_seconds", "last", "late_events", "open_requests", "repeated_audit_ids"];
    (tables, names.map(|name| manifest[name].take()).into_iter().chain([events.to_vec().into()]).collect())
}

/// A command's answer without what is named after its source.
fn answer(command: &[&str], source: &str) -> Value {
    fn without_inputs(value: &mut Value) {
        match value {
            Value::Object(all) => {
                for key in ["inputs", "generated_at", "written", "sources", "coverage"] {
                    all.remove(key);
                }
                all.values_mut().for_each(without_inputs);
            }
            Value::Array(all) => all.iter_mut().for_each(without_inputs),
            _ => {}
        }
    }
    let ran = plimsoll(&[command, &[source, "-o", "json"]].concat());
    assert!(matches!(ran.code, Some(0 | 1 | 3)), "{command:?}: {}", ran.stderr);
    let mut document: Value = serde_json::from_str(&ran.stdout.replace(source, "SOURCE")).unwrap();
    without_inputs(&mut document);
    document
}

#[test]
fn a_dataset_is_read_as_its_logs_were() {
    for source in all_logs() {
        let home = folder();
        let path = |name: &str| home.path().join(name);
        build(&[&source], &path("dataset"));
        let (tables, facts) = rolled(&source, &path("of-logs"));
        let (own_tables, own_facts) = rolled(path("dataset").to_str().unwrap(), &path("of-dataset"));
        for (name, table) in tables.as_object().unwrap() {
            assert_eq!(&own_tables[name], table, "{name} of {source}");
        }
        assert_eq!(own_facts, facts, "{source}");
    }
}

/// Folders of a sample without the description around them, of which a dataset holds the cluster's name alone.
fn loose(home: &Path, name: &str, folders: &[&str]) -> String {
    let to = home.join(name);
    let from = PathBuf::from(sample(name));
    let mut places = folders.iter().map(|own| from.join(own)).filter(|own| own.is_dir()).collect::<Vec<_>>();
    if places.is_empty() {
        places.push(from.clone());
    }
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&from).unwrap().display().to_string();
            match path.is_dir() {
                true => places.push(path),
                false if name.ends_with(".yaml") => {}
                false => drop(write(&to, &name, std::fs::read(&path).unwrap())),
            }
        }
    }
    to.display().to_string()
}

#[test]
fn commands_answer_from_a_dataset_as_from_its_logs() {
    for name in ["list-storm", "levels"] {
        let home = folder();
        let dataset = home.path().join("events").display().to_string();
        let logs = loose(home.path(), name, &["audit"]);
        build(&[&logs], Path::new(&dataset));
        for command in [
            &["traffic", "--by", "verb,resource,user"][..],
            &["traffic", "--by", "minute,instance", "--since", "2026-11-20T09:20:00Z"],
            &["clients"],
            &["controllers"],
            &["guard", "events"],
            &["balance"],
        ] {
            let [mut own, mut other] = [&dataset, &logs].map(|source| answer(command, source));
            if name == "levels" {
                // It begins with a request that comes in, which datasets leave out.
                [&mut own, &mut other].into_iter().for_each(|document| drop(document["window"].take()));
            }
            assert_eq!(own, other, "{name}: {command:?}");
        }
        // One of its partitions, and what a killed build left in it.
        let of = |folder: &str| answer(&["traffic", "--by", "verb"], folder)["totals"].take();
        let cluster = std::fs::read_dir(format!("{dataset}/audit")).unwrap().next().unwrap().unwrap().path();
        assert_eq!(of(cluster.to_str().unwrap()), of(&dataset));
        let file = files(Path::new(&dataset)).into_keys().next().unwrap();
        let left = file.rsplit_once('-').unwrap().0.to_owned() + "-99999999999.parquet";
        std::fs::copy(Path::new(&dataset).join(&file), Path::new(&dataset).join(&left)).unwrap();
        assert_eq!(of(cluster.to_str().unwrap()), of(&dataset));
        assert_eq!(of(&dataset), of(&logs));
    }
}

#[test]
fn of_a_dataset_only_the_hours_that_are_asked_for_are_read() {
    let home = folder();
    let dataset = home.path().join("events").display().to_string();
    for instance in ["apiserver-0", "apiserver-1"] {
        let log = String::from_utf8(sample_bytes(&format!("list-storm/audit/{instance}/audit.log.zst"))).unwrap();
        // Three hours that are alike.
        let hours = ["09", "10", "11"].map(|hour| log.replace("2026-11-20T09:", &format!("2026-11-20T{hour}:")));
        write(home.path(), &format!("logs/{instance}/audit.log"), hours.concat());
    }
    let logs = home.path().join("logs").display().to_string();
    build(&[&logs], Path::new(&dataset));
    let read = |window: &[&str]| {
        let command = [&["traffic", "--by", "verb,resource,user"], window].concat();
        assert_eq!(answer(&command, &dataset), answer(&command, &logs), "{window:?}");
        for other in [&["clients"][..], &["guard", "events"], &["balance"], &["controllers"]] {
            let command = [other, window].concat();
            assert_eq!(answer(&command, &dataset), answer(&command, &logs), "{command:?}");
        }
        let ran = plimsoll(&[&command[..], &[&dataset, "-o", "json"]].concat());
        let document: Value = serde_json::from_str(&ran.stdout).unwrap();
        let inputs = document["inputs"].as_array().unwrap().iter().map(|own| own["path"].as_str().unwrap());
        let mut hours: Vec<String> = inputs.map(|path| path.split("hour=").nth(1).unwrap()[..2].to_owned()).collect();
        hours.dedup();
        hours.join(" ")
    };
    assert_eq!(read(&[]), "09 10 11 09 10 11");
    let at = |time: &str| format!("2026-11-20T{time}Z");
    let [ten, half, eleven, past] = ["10:00:00", "10:20:00", "11:00:00", "11:00:01"].map(at);
    assert_eq!(read(&["--since", &half, "--until", &eleven]), "10");
    assert_eq!(read(&["--since", &half, "--until", &past]), "10 11 10 11");
    assert_eq!(read(&["--since", &eleven]), "11");
    assert_eq!(read(&["--until", &ten]), "09");
    // Where nothing is, and far away.
    let [quiet, more] = ["10:50:00", "10:55:00"].map(at);
    assert_eq!(read(&["--since", &quiet, "--until", &more]), "10");
}

/// A report of logs and pages, whichever form these have.
#[test]
fn pages_are_read_as_they_were() {
    for name in ["quiet", "list-storm"] {
        let home = folder();
        let dataset = home.path().join("events").display().to_string();
        let sources = loose(home.path(), name, &["audit", "metrics"]);
        build(&[&sources], Path::new(&dataset));
        for command in [&["traffic", "--from", "metrics", "--by", "verb,resource"][..], &["report"]] {
            let (own, other) = (answer(command, &dataset), answer(command, &sources));
            for (key, value) in other.as_object().unwrap() {
                assert_eq!(own.get(key), Some(value), "{name}: {command:?}: {key}");
            }
        }
    }
}

#[test]
fn a_damaged_dataset_says_what_is_missing() {
    let home = folder();
    let dataset = home.path().join("events");
    build(&[&sample("quiet/audit")], &dataset);
    let file = dataset.join(files(&dataset).into_keys().next().unwrap());
    let whole = std::fs::read(&file).unwrap();
    // The middle of a column; the end, without which Parquet is nothing.
    let mut torn = whole.clone();
    torn[whole.len() / 4..whole.len() / 2].fill(0xa5);
    for damaged in [&torn, &whole[..whole.len() - 40]] {
        std::fs::write(&file, damaged).unwrap();
        let ran = plimsoll(&["traffic", dataset.to_str().unwrap()]);
        assert!(ran.code == Some(3) && ran.stderr.contains("part-"), "{:?}: {}", ran.code, ran.stderr);
    }
    // It is not followed, nor recorded, and it is said what to give instead.
    std::fs::write(&file, &whole).unwrap();
    let source = dataset.to_str().unwrap();
    let ran = plimsoll(&["traffic", source, "--follow", "--for", "2s"]);
    assert!(ran.code == Some(3) && ran.stderr.contains("a dataset does not grow"), "{:?}: {}", ran.code, ran.stderr);
    let store = home.path().join("store").display().to_string();
    let ran = plimsoll(&["record", source, "--store", &store, "--once"]);
    assert!(ran.code == Some(3) && ran.stderr.contains("give the logs"), "{:?}: {}", ran.code, ran.stderr);
    // A dataset is not built of itself.
    let ran =
        plimsoll(&["dataset", "build", dataset.to_str().unwrap(), "--to", home.path().join("b").to_str().unwrap()]);
    assert!(ran.code == Some(2) && ran.stderr.contains("copy its folder"), "{}", ran.stderr);
}

/// What a bundle says of a cluster is known of a dataset of it, and so is what was lost when it was built.
#[test]
fn what_is_known_of_a_log_is_known_of_its_dataset() {
    let home = folder();
    let dataset = home.path().join("events");
    let text = dataset.display().to_string();
    build(&[&sample("list-storm/audit")], &dataset);
    // The apiservers' version decides which LISTs the watch cache serves.
    let [own, of_log] = [text.as_str(), &sample("list-storm/audit")].map(|source| answer(&["clients"], source));
    let cache_lists = |answer: &Value| -> u64 {
        answer["rows"].as_array().unwrap().iter().filter_map(|row| row["lists"]["cache"].as_u64()).sum()
    };
    assert!(cache_lists(&of_log) > 1000, "{}", cache_lists(&of_log));
    assert_eq!(own["rows"], of_log["rows"]);
    plimsoll(&["traffic", &text]).exits(0);
    let broken = sample("damage/broken-line.log");
    let ran = plimsoll(&["dataset", "build", &broken, "--to", &text]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let ran = plimsoll(&["traffic", &text]);
    assert!(ran.exits(3).stderr.contains("broken-line.log could not be used when it was built"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("could not be used").count(), 1, "{}", ran.stderr);
    for command in [&["clients"][..], &["controllers"], &["guard", "episodes"], &["guard", "events"], &["report"]] {
        let ran = plimsoll(&[command, &[text.as_str()]].concat());
        assert_eq!(ran.exits(3).stderr.matches("could not be used").count(), 1, "{command:?}: {}", ran.stderr);
    }
}

/// A dataset of several clusters is several clusters, whatever they are asked for.
#[test]
fn clusters_of_a_dataset_are_told_apart() {
    let home = folder();
    let dataset = home.path().join("events");
    let text = dataset.display().to_string();
    build(&[&sample("list-storm"), &sample("overload-restart")], &dataset);
    let logs = ["list-storm", "overload-restart"].map(|name| loose(home.path(), name, &["audit", "metrics"]));
    let rows = |sources: &[&str]| -> Vec<Value> {
        let document = plimsoll(&[&["fleet"], sources, &["-o", "json"]].concat()).json(0);
        let mut rows = document["clusters"].as_array().or(document["rows"].as_array()).unwrap().clone();
        for row in &mut rows {
            for field in ["source", "data_age"] {
                row.as_object_mut().unwrap().remove(field);
            }
        }
        rows
    };
    let apart = rows(&[&format!("lab-1={}", logs[0]), &format!("lab-2={}", logs[1])]);
    assert_eq!(apart.len(), 2);
    assert_eq!(rows(&[&text]), apart);
    let judged = plimsoll(&["guard", "episodes", &text]);
    assert!(judged.stdout.contains("of 2 clusters (lab-1, lab-2)"), "{}", judged.stdout);
    assert!(judged.stdout.contains("'plimsoll fleet' judges each"), "{}", judged.stdout);
    let ran = plimsoll(&["dataset", "query", "top-clients", &text, "--sort-by", "verb"]);
    assert!(ran.exits(2).stderr.contains("order by"), "{}", ran.stderr);
}

/// Conditions that are unknown of a row are what DuckDB makes of them.
#[test]
fn rows_without_a_value_are_counted_as_duckdb_counts_them() {
    let home = folder();
    let dataset = home.path().join("events");
    let text = dataset.display().to_string();
    build(&[&sample("quiet")], &dataset);
    for condition in ["is true", "is not true", "is false", "is not false"] {
        let sql = format!("select count(*) as n from audit where (namespace = 'kube-system') {condition}");
        let own = plimsoll(&["dataset", "query", &sql, &text, "-o", "json"]).json(0)["rows"][0]["n"].take();
        let count = format!(
            "import duckdb; print(duckdb.sql(\"{}\").fetchall()[0][0])",
            sql.replace("from audit", &format!("from read_parquet('{text}/audit/**/*.parquet')"))
        );
        let mut python = Command::new(python());
        python.args(["-c", &count]);
        let counted = feed(python, b"");
        assert_eq!(own.to_string(), counted.exits(0).stdout.trim(), "{condition}");
    }
}

#[test]
fn a_dataset_and_a_rollup_hold_the_same_requests() {
    for source in all_logs() {
        let home = folder();
        let (dataset, rollup) = (home.path().join("dataset"), home.path().join("rollup").display().to_string());
        build(&[&source], &dataset);
        plimsoll(&["rollup", &source, "--to", &rollup]);
        let ran = oracle("dataset_rollup.py", &[dataset.display().to_string(), rollup]);
        assert_eq!(ran.code, Some(0), "{source}: {}", ran.stderr);
        let counts: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(counts["requests"].as_u64() > Some(0), "{source}");
    }
}

#[test]
fn what_a_log_gains_is_added_once() {
    let home = folder();
    let raw = sample_bytes("list-storm/audit/apiserver-0/audit.log.zst");
    let line_end = |from: usize| from + raw[from..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let (third, half) = (line_end(raw.len() / 3), line_end(raw.len() / 2));
    let to = home.path().join("events");
    let log = write(home.path(), "logs/audit.log", &raw[..third]);
    let logs = home.path().join("logs").display().to_string();
    let first = build(&[&logs], &to);
    assert_eq!(holds(&to, &[(Path::new(&log), "", "")]), first["totals"]["events"].as_u64().unwrap());
    // A line that is being written is left for the next time.
    write(home.path(), "logs/audit.log", &raw[..half + 40]);
    let second = build(&[&logs], &to);
    let again = build(&[&logs], &to);
    assert_eq!((&again["totals"]["events"], &again["totals"]["files"]), (&0.into(), &0.into()));
    // Rotated under another name, packed; a new log begins.
    write(home.path(), "logs/audit.log", &raw[..half]);
    std::fs::rename(&log, home.path().join("logs/audit-2026-11-20T09-22-00.000.log")).unwrap();
    write(home.path(), "logs/audit.log", &raw[half..]);
    let third = build(&[&logs], &to);
    let packed = zstd::encode_all(&raw[..half], 3).unwrap();
    write(home.path(), "logs/audit-2026-11-20T09-22-00.000.log.zst", packed);
    std::fs::remove_file(home.path().join("logs/audit-2026-11-20T09-22-00.000.log")).unwrap();
    let fourth = build(&[&logs], &to);
    assert_eq!(fourth["totals"]["events"], 0);
    // Known by its size: it is not unpacked once more.
    assert_eq!(build(&[&logs], &to)["totals"]["known_logs"], 2);
    let parts = [write(home.path(), "a.log", &raw[..half]), write(home.path(), "b.log", &raw[half..])];
    let [a, b] = parts.each_ref().map(|path| (Path::new(path), "", ""));
    let all = holds(&to, &[a, b]);
    let added = [&first, &second, &third].map(|document| document["totals"]["events"].as_u64().unwrap());
    assert_eq!(added.iter().sum::<u64>(), all);
    assert!(added.iter().all(|count| *count > 0), "{added:?}");
}

/// A log is the same log however much it has gained: its first line says which, also when it was short.
#[test]
fn a_short_log_that_grows_is_one_log() {
    let home = folder();
    let raw = sample_bytes("quiet/audit/apiserver-0/audit.log.zst");
    let to = home.path().join("events");
    let end_of = |lines: usize| end_of_lines(&raw, lines);
    let mut added = 0;
    for lines in [1, 40, 70, 90, 500, 1_200] {
        let log = write(home.path(), "logs/audit.log", &raw[..end_of(lines)]);
        let document = build(&[&log], &to);
        added += document["totals"]["events"].as_u64().unwrap();
        assert_eq!(holds(&to, &[(Path::new(&log), "", "")]), added, "{lines} lines");
    }
    assert_eq!(added, 1_200);
    // Another log that begins alike is taken for it, and that is said.
    let first = write(home.path(), "two/a.log", &raw[..end_of(40)]);
    write(home.path(), "two/b.log", &raw[..end_of(41)]);
    let ran =
        plimsoll(&["dataset", "build", home.path().join("two").to_str().unwrap(), "--to", &format!("{first}.ds")]);
    assert!(ran.stderr.contains("is taken for the same log"), "{}", ran.stderr);
    // A dataset within another would be counted with it.
    let inner = to.join("audit");
    let ran = plimsoll(&["dataset", "build", &first, "--to", inner.to_str().unwrap()]);
    assert!(ran.code == Some(3) && ran.stderr.contains("lies in the dataset"), "{}", ran.stderr);
}

/// Where so many lines end.
fn end_of_lines(raw: &[u8], lines: usize) -> usize {
    raw.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(lines - 1).unwrap().0 + 1
}

/// Kills a build at every call by which it makes what it wrote durable, and visible; each time the next run makes what
/// one makes in peace. How many times it was killed. tests/full kills at any time.
fn killed_everywhere(home: &Path, source: &str) -> usize {
    let quiet = home.join("quiet");
    build(&[source], &quiet);
    let mut kills = 0;
    for call in ["rename", "fsync", "unlink"] {
        // Until it is not met so often.
        for nth in 1.. {
            let killed = home.join(format!("{call}-{nth}"));
            let mut command = Command::new("strace");
            command
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"])
                .arg(format!("inject={call}:signal=KILL:when={nth}"))
                .arg(env!("CARGO_BIN_EXE_plimsoll"))
                .args(["dataset", "build", source, "--to", killed.to_str().unwrap()]);
            let ran = feed(command, b"");
            let was_killed = ran.code != Some(0);
            assert!(!was_killed || !ran.stderr.contains("strace:"), "{}; run .ci/setup first", ran.stderr);
            build(&[source], &killed);
            assert_eq!(files(&killed), files(&quiet), "killed at {call} {nth}");
            if !was_killed {
                break;
            }
            kills += 1;
        }
    }
    kills
}

#[test]
fn a_killed_build_loses_and_doubles_nothing() {
    let home = folder();
    let raw = sample_bytes("list-storm/audit/apiserver-0/audit.log.zst");
    let half = raw.len() / 2 + raw[raw.len() / 2..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let parts =
        [write(home.path(), "logs/a/audit.log", &raw[..half]), write(home.path(), "logs/b/audit.log", &raw[half..])];
    let kills = killed_everywhere(home.path(), home.path().join("logs").to_str().unwrap());
    assert!(kills > 10, "{kills}");
    let [a, b] = [(Path::new(&parts[0]), "", "a"), (Path::new(&parts[1]), "", "b")];
    holds(&home.path().join("quiet"), &[a, b]);
}

/// A copy of some captures of the sample: two pages of one apiserver, a database, two lists of quotas.
fn captures(home: &Path) -> PathBuf {
    let bundle = home.join("bundle");
    let of = |name: &str| Path::new(&sample("list-storm")).join(name);
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(of("metrics/apiserver-1")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let copies = pages.into_iter().take(2).chain([
        of("bundle.yaml"),
        of("etcd/before.db.zst"),
        of("objects/1795166396/resourcequotas.json.zst"),
        of("objects/1795166546/resourcequotas.json.zst"),
    ]);
    for from in copies {
        let to = bundle.join(from.strip_prefix(sample("list-storm")).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }
    bundle
}

#[test]
fn captured_rows_equal_pages_databases_and_objects() {
    for (name, databases) in [("quiet", &["before", "after"][..]), ("controllers", &[])] {
        let home = folder();
        let to = home.path().join("dataset");
        let bundle = sample(name);
        let document = build(&[&bundle], &to);
        let usage = |database: &&str| {
            let ran = plimsoll(&["etcd", "usage", &format!("{bundle}/etcd/{database}.db.zst"), "-o", "json"]);
            write(home.path(), &format!("{database}.json"), ran.stdout)
        };
        let mut arguments = vec![to.display().to_string(), bundle.clone()];
        arguments.extend(databases.iter().map(usage));
        let ran = oracle("captured.py", &arguments);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        let counts: Value = serde_json::from_str(&ran.stdout).unwrap();
        let tables = document["tables"]["captures"].as_array().unwrap();
        let rows = |table: &str| {
            let own = tables.iter().find(|row| row["dataset_table"] == table);
            own.map_or(0, |own| own["captured_rows"].as_u64().unwrap())
        };
        for table in ["metrics", "keyspace", "quotas"] {
            assert_eq!(counts[table].as_u64(), Some(rows(table)), "{name}: {table}");
        }
        assert!(rows("metrics") > 10_000, "{name}");
        // The check can fail.
        arguments[1] = sample(if name == "quiet" { "controllers" } else { "quiet" });
        assert_ne!(oracle("captured.py", &arguments).code, Some(0), "{name}");
    }
}

#[test]
fn captures_are_added_once() {
    let home = folder();
    let bundle = captures(home.path());
    let source = bundle.to_str().unwrap();
    let to = home.path().join("dataset");
    let totals =
        |document: &Value| ["captures", "known_captures"].map(|name| document["totals"][name].as_u64().unwrap());
    assert_eq!(totals(&build(&[source], &to)), [5, 0]);
    let before = files(&to);
    assert_eq!(totals(&build(&[source], &to)), [0, 5]);
    // A page that was unpacked since is the same page; one more is one more.
    let folder = bundle.join("metrics/apiserver-1");
    let page = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = zstd::decode_all(std::fs::File::open(&page).unwrap()).unwrap();
    std::fs::write(page.with_extension(""), &text).unwrap();
    std::fs::remove_file(&page).unwrap();
    std::fs::write(folder.join("1795169999.txt"), &text).unwrap();
    assert_eq!(totals(&build(&[source], &to)), [1, 5]);
    assert_eq!(files(&to).len(), before.len() + 1);
    // Pages whose time is only that of their files are known by what they hold, whenever these are copied.
    let dated = |name: &str| write(home.path(), name, &text);
    assert_eq!(totals(&build(&[&dated("loose/a/metrics.txt")], &to)), [1, 0]);
    let again = dated("loose/b/metrics.txt");
    assert_eq!(totals(&build(&[&again], &to)), [0, 1]);
    // Only the tables that are wanted.
    let only = home.path().join("only");
    build(&[source, "--tables", "quotas,keyspace"], &only);
    let tables: Vec<String> = files(&only).into_keys().map(|name| name.split('/').next().unwrap().to_owned()).collect();
    assert!(
        tables.iter().all(|table| ["quotas", "keyspace"].contains(&table.as_str())) && tables.len() == 3,
        "{tables:?}"
    );
    let ran = plimsoll(&["dataset", "build", source, "--to", only.to_str().unwrap(), "--tables", "pods"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("audit, metrics, keyspace, quotas"), "{}", ran.stderr);
    let ran = plimsoll(&["dataset", "build", source, "--to", only.to_str().unwrap(), "--tables", "audit"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
}

#[test]
fn a_killed_build_loses_and_doubles_no_capture() {
    let home = folder();
    let bundle = captures(home.path());
    assert!(killed_everywhere(home.path(), bundle.to_str().unwrap()) > 10);
}

#[test]
fn what_can_not_be_built_is_said() {
    let home = folder();
    let path = |name: &str| home.path().join(name).display().to_string();
    let quiet = sample("quiet");
    let to = path("events");
    // A roll-up has no events; what comes through a pipe can't be known again.
    assert_eq!(plimsoll(&["rollup", &quiet, "--to", &path("rollup")]).code, Some(0));
    let ran = plimsoll(&["dataset", "build", &path("rollup"), "--to", &to]);
    assert!(ran.code == Some(2) && ran.stderr.contains("no single events"), "{}", ran.stderr);
    let events = sample_bytes("quiet/audit/apiserver-0/audit.log.zst");
    let ran = run(&["dataset", "build", "-", "--to", &to], &[], &events);
    assert!(ran.code == Some(2) && ran.stderr.contains("write it to a file"), "{}", ran.stderr);
    // A folder that is a file, a dataset of a later version, one that another process writes.
    write(home.path(), "file", "x");
    let ran = plimsoll(&["dataset", "build", &quiet, "--to", &path("file")]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    write(home.path(), "later/_plimsoll/dataset.json", r#"{"schema": "plimsoll.dataset/v7"}"#);
    let ran = plimsoll(&["dataset", "build", &quiet, "--to", &path("later")]);
    assert!(ran.code == Some(3) && ran.stderr.contains("v7"), "{}", ran.stderr);
    write(home.path(), "busy/_plimsoll/lock", "");
    let lock = std::fs::File::open(home.path().join("busy/_plimsoll/lock")).unwrap();
    lock.lock().unwrap();
    let ran = plimsoll(&["dataset", "build", &quiet, "--to", &path("busy")]);
    assert!(ran.code == Some(3) && ran.stderr.contains("another plimsoll"), "{}", ran.stderr);
    // What a wrong clock dated is set aside, and it is said.
    let odd = [1970, 2099].map(|year| {
        let line =
            String::from_utf8_lossy(&events).lines().last().unwrap().replace("2026-11-20T", &format!("{year}-11-20T"));
        line + "\n"
    });
    let log = write(home.path(), "odd.log", [odd[0].as_bytes(), &events, odd[1].as_bytes()].concat());
    let ran = plimsoll(&["dataset", "build", &log, "--to", &path("odd"), "-o", "json"]);
    assert!(ran.code == Some(3) && ran.stderr.contains("odd.log"), "{}", ran.stderr);
    let years: Vec<String> = files(&home.path().join("odd")).into_keys().collect();
    assert!(!years.is_empty() && years.iter().all(|name| name.contains("date=2026-11-20")), "{years:?}");
    // Nothing in a folder.
    std::fs::create_dir(path("empty")).unwrap();
    let ran = plimsoll(&["dataset", "build", &path("empty"), "--to", &path("none")]);
    assert!(ran.code == Some(3) && !home.path().join("none").exists(), "{}", ran.stderr);
    // A cluster whose name climbs out of the folder stays in it.
    let mut event: Value = serde_json::from_slice(
        sample_bytes("quiet/audit/apiserver-0/audit.log.zst").split(|b| *b == b'\n').next().unwrap(),
    )
    .unwrap();
    event["user"]["username"] = "../../evil\u{1b}[31m".into();
    let log = write(home.path(), "bundle/audit/audit.log", event.to_string() + "\n");
    write(home.path(), "bundle/bundle.yaml", "cluster: ../../../evil=1\n");
    let document = build(&[home.path().join("bundle").to_str().unwrap()], Path::new(&to));
    assert_eq!(document["totals"]["events"], 1);
    let names: Vec<String> = files(Path::new(&to)).into_keys().collect();
    assert!(names[0].starts_with("audit/cluster=%2E.%2F..%2F..%2Fevil%3D1/date="), "{names:?}");
    assert!(!home.path().join("evil=1").exists());
    holds(Path::new(&to), &[(Path::new(&log), "../../../evil=1", "")]);
}

#[test]
fn the_page_lists_every_column() {
    use plimsoll::model::dataset::{CAPTURED, EVENTS};
    let page = std::fs::read_to_string(root().join("docs/dataset.md")).unwrap();
    let table: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let columns = EVENTS.iter().chain(CAPTURED.iter().flat_map(|table| table.columns));
    let expected = columns.map(|own| format!("| `{}` | {} | {} |", own.name, own.kind.name(), own.meaning));
    assert_eq!(table, expected.collect::<Vec<_>>());
}

/// A file that somebody rewrote is read if its columns are what they were; else it is refused, and never left out.
#[test]
fn a_file_that_was_rewritten_is_read_or_refused() {
    let home = folder();
    let built = home.path().join("built").display().to_string();
    plimsoll(&["dataset", "build", &sample("quiet"), "--tables", "audit", "--to", &built]).exits(0);
    let right = traffic(&built, "verb,code", &[]);
    for (name, select, fault) in [
        ("as it is", "*", None),
        ("milliseconds", "* replace (event_time::timestamp_ms as event_time)", None),
        ("without code", "* exclude (code)", Some("code")),
        ("without audit_id", "* exclude (audit_id)", Some("audit_id")),
        ("text for code", "* replace (code::varchar as code)", Some("code")),
    ] {
        let to = home.path().join(name);
        let script = format!(
            r#"
import duckdb, glob, os, sys
for f in glob.glob(sys.argv[1] + "/audit/**/*.parquet", recursive=True):
    to = sys.argv[2] + f[len(sys.argv[1]):]
    os.makedirs(os.path.dirname(to), exist_ok=True)
    rows = f"select {select} from read_parquet('{{f}}', hive_partitioning=false)"
    duckdb.sql(f"copy ({{rows}}) to '{{to}}' (format parquet)")
"#
        );
        let mut command = Command::new(python());
        command.args(["-c", &script, &built, &to.display().to_string()]);
        let ran = feed(command, b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let folder = to.display().to_string();
        match fault {
            None => {
                // Of milliseconds latencies are rounded.
                let counts = |report: &Value| -> Vec<(Vec<String>, u64)> {
                    let rows = rows(report, "verb,code");
                    rows.iter().map(|(key, row)| (key.clone(), count(row, "requests"))).collect()
                };
                assert_eq!(counts(&traffic(&folder, "verb,code", &[])), counts(&right), "{name}");
            }
            Some(column) => {
                let ran = plimsoll(&["traffic", &folder]);
                assert_eq!(ran.code, Some(3), "{name}: {}", ran.stdout);
                assert!(ran.stderr.contains(&format!("its column {column} is")), "{name}: {}", ran.stderr);
            }
        }
    }
}
