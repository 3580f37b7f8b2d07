//! Roll-ups as files: they answer as their logs do, whoever wrote them, and say so where they can't.

use crate::support::{Ran, feed, folder, hermetic, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) const SAMPLES: [&str; 6] = ["list-storm", "overload-restart", "quiet", "levels", "drain", "controllers"];

/// A sample's logs alone, with what its bundle says of itself.
pub(crate) fn logs_of(name: &str, home: &Path) -> String {
    let to = home.join(name);
    let mut all = vec![sample(name)];
    while let Some(from) = all.pop() {
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let text = path.to_str().unwrap().to_owned();
            let below = path.strip_prefix(sample(name)).unwrap().to_owned();
            let file = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                all.push(text);
            } else if file.starts_with("audit") || file == "bundle.yaml" {
                write(&to, below.to_str().unwrap(), fs::read(path).unwrap());
            }
        }
    }
    to.to_str().unwrap().to_owned()
}

#[track_caller]
pub(crate) fn rolled(sources: &[&str], to: &str) -> Value {
    plimsoll(&[&["rollup"], sources, &["--to", to, "-o", "json"]].concat()).json(0)
}

/// A sample's logs, and their roll-up.
#[track_caller]
pub(crate) fn log_and_roll_up(name: &str) -> (tempfile::TempDir, String, String) {
    let home = folder();
    let log = logs_of(name, home.path());
    let roll = home.path().join("roll").to_str().unwrap().to_owned();
    rolled(&[&log], &roll);
    (home, log, roll)
}

/// What a command says of a source, but for what was read.
#[track_caller]
pub(crate) fn answer_of(command: &[&str], source: &str) -> Value {
    let words: Vec<&str> =
        command.iter().map(|word| if *word == "SOURCE" { source } else { word }).chain(["-o", "json"]).collect();
    let mut answer = plimsoll(&words).json(0);
    answer.as_object_mut().unwrap().remove("inputs");
    answer.as_object_mut().unwrap().remove("generated_at");
    answer
}

pub(crate) fn manifest(folder: &str) -> Value {
    serde_json::from_slice(&fs::read(Path::new(folder).join("manifest.json")).unwrap()).unwrap()
}

#[test]
fn they_answer_as_their_logs_do() {
    for name in SAMPLES {
        let home = folder();
        let log = logs_of(name, home.path());
        let roll = home.path().join("roll").to_str().unwrap().to_owned();
        let answer = rolled(&[&log], &roll);
        assert!(answer["totals"]["events"].as_u64().unwrap() > 100, "{answer}");
        for command in [
            &["clients", "SOURCE"][..],
            &["clients", "SOURCE", "--where", "user=~system:.*"],
            &["balance", "SOURCE"],
            &["balance", "SOURCE", "--where", "agent!=kubectl"],
            &["compare", "SOURCE", "SOURCE"],
            &["guard", "events", "SOURCE"],
            &["guard", "events", "SOURCE", "--window", "10m", "--severity", "warning"],
            &["guard", "events", "SOURCE", "--kind", "delete-namespace,exec,drain,rbac-write"],
            &["controllers", "SOURCE"],
        ] {
            let (mut of_roll, mut of_log) = (answer_of(command, &roll), answer_of(command, &log));
            // Comparisons name their sources.
            for side in ["before", "after"] {
                for answer in [&mut of_roll, &mut of_log] {
                    answer.get_mut(side).and_then(Value::as_object_mut).map(|own| own.remove("source"));
                }
            }
            assert_eq!(of_roll, of_log, "{name}: {command:?}");
        }
        // Rolled up once more, it is the same, byte by byte.
        let again = home.path().join("again").to_str().unwrap().to_owned();
        rolled(&[&roll], &again);
        assert_eq!(manifest(&again)["tables"], manifest(&roll)["tables"], "{name}");
        // Where the log itself is there, it is read.
        let both = home.path().join(name).join("roll");
        fs::rename(&roll, &both).unwrap();
        let answer = plimsoll(&["clients", &log, "-o", "json"]).json(0);
        let kinds: Vec<&Value> = answer["inputs"].as_array().unwrap().iter().map(|input| &input["kind"]).collect();
        assert!(!kinds.is_empty() && kinds.iter().all(|kind| **kind == "audit"), "{name}: {kinds:?}");
    }
}

/// Rows without what a roll-up does not know of them.
fn rows(answer: &Value, dims: &[&str]) -> Vec<Value> {
    let without = |row: &Value| {
        let mut row = row.clone();
        let own = row.as_object_mut().unwrap();
        own.remove("peak_rps");
        // As in rows of all kubelets together, users are not distinguished.
        assert!(dims.iter().all(|dim| own.contains_key(*dim)), "{own:?}");
        row
    };
    let mut all: Vec<Value> = answer["rows"].as_array().unwrap().iter().map(without).collect();
    all.sort_by_key(Value::to_string);
    all
}

#[test]
fn traffic_by_what_they_keep_is_that_of_the_log() {
    for name in SAMPLES {
        let (_home, log, roll) = log_and_roll_up(name);
        for (by, conditions) in [
            ("verb,resource", &[][..]),
            ("group,subresource,scope", &[]),
            ("namespace,code", &["--where", "code>=400"]),
            ("code-class,instance,cluster", &["--where", "verb!=watch"]),
            ("list-kind,agent", &["--where", "verb=list"]),
            ("serviceaccount", &["--where", "resource=~pods|leases"]),
            ("user", &["--where", "user!~^system:node:"]),
            ("minute", &["--where", "verb=get"]),
        ] {
            let command = [&["traffic", "SOURCE", "--top", "0", "--by", by][..], conditions].concat();
            let (of_roll, of_log) = (answer_of(&command, &roll), answer_of(&command, &log));
            let dims: Vec<&str> = by.split(',').collect();
            assert_eq!(rows(&of_roll, &dims), rows(&of_log, &dims), "{name}: {command:?}");
            for field in ["requests", "open", "errors", "client_errors", "throttled", "p50_ms", "p99_ms", "max_ms"] {
                assert_eq!(of_roll["totals"][field], of_log["totals"][field], "{name}: {field} of {command:?}");
            }
        }
        // Where arrivals are known by second, so are peaks.
        let command = ["traffic", "SOURCE", "--top", "0", "--by", "agent,resource"];
        let (of_roll, of_log) = (answer_of(&command, &roll), answer_of(&command, &log));
        assert_eq!(of_roll["rows"], of_log["rows"], "{name}");
        assert_eq!(of_roll["totals"], of_log["totals"], "{name}");
        // And in time.
        let command = ["traffic", "SOURCE", "--by", "verb", "--series", "--interval", "30s", "--where", "verb!=watch"];
        assert_eq!(rows(&answer_of(&command, &roll), &["verb"]), rows(&answer_of(&command, &log), &["verb"]), "{name}");
    }
}

#[test]
fn a_window_is_taken_in_whole_tiles_and_that_is_said() {
    let (_home, log, roll) = log_and_roll_up("list-storm");
    let ask = |source: &str, since: &str, until: &str| {
        let more = ["--by", "verb,resource", "--where", "verb!=watch", "--since", since, "--until", until];
        plimsoll(&[&["traffic", source, "-o", "json"], &more[..]].concat())
    };
    let (since, until) = ("2026-11-20T09:22:00Z", "2026-11-20T09:24:30Z");
    let (of_roll, of_log) = (ask(&roll, since, until), ask(&log, since, until));
    assert!(!of_roll.stderr.contains("whole tiles"), "{}", of_roll.stderr);
    let (answer, expected) = (of_roll.json(0), of_log.json(0));
    let counts = |answer: &Value| -> Vec<(String, Value)> {
        let rows = rows(answer, &["verb", "resource"]).into_iter();
        rows.map(|row| (format!("{} {}", row["verb"], row["resource"]), row["requests"].clone())).collect()
    };
    assert_eq!(counts(&answer), counts(&expected));
    let off = ask(&roll, "2026-11-20T09:22:03Z", "2026-11-20T09:24:21Z");
    let answer_of = "2026-11-20T09:22:00Z to 2026-11-20T09:24:30Z instead of the requested window";
    assert!(off.stderr.contains(answer_of), "{}", off.stderr);
    assert_eq!(counts(&off.json(0)), counts(&expected));
    // What does not reach to the ends of the window is not wider than that.
    let wide = ask(&roll, "2026-11-20T09:00:03Z", "2026-11-20T10:00:03Z");
    assert!(!wide.stderr.contains("whole tiles"), "{}", wide.stderr);
}

#[test]
fn parts_of_each_apiserver_make_the_whole() {
    let home = folder();
    let log = logs_of("list-storm", home.path());
    let whole = home.path().join("whole").to_str().unwrap().to_owned();
    rolled(&[&log], &whole);
    let parts: Vec<String> = ["apiserver-0", "apiserver-1"]
        .iter()
        .map(|name| {
            let to = home.path().join(format!("part-{name}")).to_str().unwrap().to_owned();
            rolled(&[&format!("{log}/audit/{name}")], &to);
            to
        })
        .collect();
    let ask = |sources: &[&str]| {
        let mut answer =
            plimsoll(&[&["traffic"], sources, &["--by", "instance,verb,code", "-o", "json"]].concat()).json(0);
        answer["totals"].as_object_mut().unwrap().remove("peak_rps");
        (rows(&answer, &["instance"]), answer["totals"].clone())
    };
    let of_parts = ask(&[&parts[0], &parts[1]]);
    assert_eq!(of_parts, ask(&[&whole]));
    // A part beside the log of the other.
    assert_eq!(ask(&[&parts[0], &format!("{log}/audit/apiserver-1")]).1, of_parts.1);
    let merged = home.path().join("merged").to_str().unwrap().to_owned();
    rolled(&[&parts[0], &parts[1]], &merged);
    for table in ["traffic", "pulse", "notable", "deprecated", "nodes"] {
        let rows = |folder: &str| manifest(folder)["tables"][table]["rows"].clone();
        assert_eq!(rows(&merged), rows(&whole), "{table}");
    }
}

#[test]
fn one_that_sql_made_answers_the_same() {
    let home = folder();
    let log = logs_of("quiet", home.path());
    let [csv, made, native] = ["csv", "made", "native"].map(|name| home.path().join(name).to_str().unwrap().to_owned());
    rolled(&[&log], &native);
    let mut sql = Command::new(python());
    sql.arg(root().join("tests/oracle/rollup.py")).args(["--out", &csv]);
    sql.arg(format!("lab-3:apiserver-0:a={log}/audit/apiserver-0/audit.log.zst"));
    let ran = feed(hermetic(sql, home.path()), b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // Parquet of what DuckDB guesses the types to be; of the manifest what nobody can guess.
    let script = r#"
import duckdb, json, pathlib, sys
csv, made, native = map(pathlib.Path, sys.argv[1:])
made.mkdir()
for table in csv.glob("*.csv"):
    if table.stem == "coverage_events": continue
    texts = {name: "VARCHAR" for name in ("code", "shape", "subresource", "namespace", "group", "name", "versions", "pods", "removed", "impersonated", "detail", "addresses", "sketch", "heaviest", "gaps", "latency", "lifetime")}
    columns = [line for line in open(table).readline().strip().split(",")]
    types = {name: kind for name, kind in texts.items() if name in columns}
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{table}', header=true, types={types}, nullstr='')) TO '{made / table.stem}.parquet'")
known = json.load(open(native / "manifest.json"))
own = {name: known[name] for name in ("schema", "tile_seconds", "first", "last", "streams", "open_requests", "bundle", "late_events")}
json.dump(own, open(made / "manifest.json", "w"))
"#;
    let mut convert = Command::new(python());
    convert.args(["-c", script, &csv, &made, &native]);
    let ran = feed(hermetic(convert, home.path()), b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for command in [&["clients", "SOURCE"][..], &["balance", "SOURCE"], &["traffic", "SOURCE", "--by", "agent"]] {
        let (mut of_sql, mut of_log) = (answer_of(command, &made), answer_of(command, &log));
        // How often audit ids repeat is taken from the manifest alone.
        for answer in [&mut of_sql, &mut of_log] {
            answer["coverage"].as_object_mut().unwrap().remove("repeated_audit_ids");
        }
        assert_eq!(of_sql, of_log, "{command:?}");
    }
}

/// The lines of each apiserver's log in a sample, with their times, in order.
pub(crate) fn lines_of(name: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut all = Vec::new();
    for instance in ["apiserver-0", "apiserver-1"] {
        let mut files: Vec<Vec<(String, String)>> = Vec::new();
        for entry in fs::read_dir(Path::new(&sample(name)).join("audit").join(instance)).into_iter().flatten() {
            let path = entry.unwrap().path();
            let text =
                String::from_utf8(sample_bytes(path.strip_prefix(sample("")).unwrap().to_str().unwrap())).unwrap();
            let timed = |line: &str| {
                let event: Value = serde_json::from_str(line).unwrap();
                (event["stageTimestamp"].as_str().unwrap().to_owned(), line.to_owned())
            };
            files.push(text.lines().filter(|line| !line.is_empty()).map(timed).collect());
        }
        files.sort();
        all.push((instance.to_owned(), files.concat()));
    }
    all
}

#[test]
fn parts_that_follow_one_another_are_the_whole() {
    let mut seed = 20_261_120u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for name in ["list-storm", "overload-restart"] {
        let logs = lines_of(name);
        let home = folder();
        let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
        let mut times: Vec<&str> = logs.iter().flat_map(|(_, lines)| lines).map(|(at, _)| at.as_str()).collect();
        times.sort_unstable();
        for (instance, lines) in &logs {
            let text: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
            write(&home.path().join("log"), &format!("audit/{instance}/audit.log"), text);
        }
        rolled(&[&path("log")], &path("whole"));
        let whole = manifest(&path("whole"));
        for round in 0..4 {
            // As rotated files are cut, each at the first line behind a moment.
            let mut cuts: Vec<&str> = (0..=round).map(|_| times[random(times.len())]).collect();
            cuts.sort_unstable();
            let mut parts = Vec::new();
            for part in 0..=cuts.len() {
                let mut is_empty = true;
                let folder = format!("{round}-{part}");
                for (instance, lines) in &logs {
                    let from = |cut: &str| lines.iter().position(|(at, _)| at.as_str() >= cut).unwrap_or(lines.len());
                    let (first, last) = (
                        part.checked_sub(1).map_or(0, |cut| from(cuts[cut])),
                        cuts.get(part).map_or(lines.len(), |cut| from(cut)),
                    );
                    let text: String =
                        lines[first..last.max(first)].iter().map(|(_, line)| format!("{line}\n")).collect();
                    is_empty &= text.is_empty();
                    write(&home.path().join(&folder), &format!("audit/{instance}/audit.log"), text);
                }
                if !is_empty {
                    rolled(&[&path(&folder)], &path(&format!("{folder}-rolled")));
                    parts.push(path(&format!("{folder}-rolled")));
                }
            }
            let together = path(&format!("{round}-whole"));
            // In any order.
            let first = random(parts.len());
            parts.rotate_left(first);
            let sources: Vec<&str> = parts.iter().map(String::as_str).collect();
            rolled(&sources, &together);
            let joined = manifest(&together);
            for field in ["tables", "first", "last", "late_events", "open_requests", "repeated_audit_ids"] {
                let fields = |answer: &Value| match answer[field].as_object() {
                    Some(all) => all.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
                    None => vec![(field.to_owned(), answer[field].clone())],
                };
                for (joined, whole) in fields(&joined).into_iter().zip(fields(&whole)) {
                    // What parts can't know of one another: turns between writes of different parts, and of a minute
                    // that they share what the part with fewer writes had.
                    if ["writes", "alternations"].contains(&joined.0.as_str()) {
                        let [joined, whole] = [&joined, &whole].map(|(_, table)| table["rows"].as_u64().unwrap());
                        assert!(joined <= whole && joined + 3 * cuts.len() as u64 >= whole, "{joined} {whole}");
                        continue;
                    }
                    assert_eq!(joined, whole, "{name} cut at {cuts:?}: {field}");
                }
            }
            for command in [&["clients", "SOURCE"][..], &["guard", "events", "SOURCE"], &["controllers", "SOURCE"]] {
                assert_eq!(answer_of(command, &together), answer_of(command, &path("log")), "{cuts:?}: {command:?}");
            }
            // As they lie there, too.
            for command in [&["guard", "events"][..], &["controllers"]] {
                let words = [command, sources.as_slice(), &["-o", "json"]].concat();
                let mut answer = plimsoll(&words).json(0);
                answer.as_object_mut().unwrap().retain(|name, _| name != "inputs" && name != "generated_at");
                assert_eq!(answer, answer_of(&[command, &["SOURCE"]].concat(), &path("log")), "{cuts:?}: {command:?}");
            }
        }
    }
}

#[test]
fn a_copy_beside_one_is_not_counted_once_more() {
    let (home, _, roll) = log_and_roll_up("quiet");
    let requests = |ran: Ran, code: i32| ran.json(code)["totals"]["requests"].as_u64().unwrap();
    let alone = requests(plimsoll(&["traffic", &roll, "-o", "json"]), 0);
    let copy = home.path().join("roll.bak");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(&roll).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let both = plimsoll(&["traffic", &roll, copy.to_str().unwrap(), "-o", "json"]);
    assert!(both.stderr.contains("is a copy of ") && both.stderr.contains("roll.bak"), "{}", both.stderr);
    assert!(both.stderr.contains("name only one of them"), "{}", both.stderr);
    assert_eq!(requests(both, 3), alone);
}

#[test]
fn what_they_do_not_hold_is_refused_with_what_would_answer() {
    let (_home, log, roll) = log_and_roll_up("list-storm");
    let roll = roll.as_str();
    for (command, words) in [
        (&["guard", "events", roll, "--where", "name=web-1"][..], "give the audit log itself"),
        (&["guard", "policies", roll], "give the audit log itself"),
        (&["quota", "propose", roll, "--api"], "give the audit log itself"),
        (&["clients", roll, "--emit", "fence", "--client", "node-agent"], "give the audit log itself"),
        (&["traffic", roll, "--by", "name"], "do not keep name"),
        (&["traffic", roll, "--by", "verb", "--where", "source-ip=10.0.0.1"], "do not keep source-ip"),
        (&["traffic", roll, "--series", "--interval", "15s"], "use a multiple"),
        (&["clients", roll, "--where", "resource=pods"], "name the log itself"),
        (&["rollup", &log, "--to", roll], "not empty"),
    ] {
        let ran: Ran = plimsoll(command);
        ran.did_not_panic();
        assert!(ran.stderr.contains(words), "{command:?}: {}", ran.stderr);
        assert_eq!(ran.code, Some(if command[0] == "rollup" { 3 } else { 2 }), "{command:?}: {}", ran.stderr);
    }
    let followed = plimsoll(&["traffic", roll, "--follow", "--for", "1s"]);
    assert!(followed.stderr.contains("can't be followed"), "{}", followed.stderr);
    // A report says which of its parts are missing, and has the others.
    let report = plimsoll(&["report", roll, "-o", "json"]);
    report.did_not_panic();
    let answer: Value = serde_json::from_str(&report.stdout).unwrap();
    assert!(answer["summary"].to_string().contains("node-agent"), "{}", answer["summary"]);
}

#[test]
fn damage_and_other_forms_are_told_and_never_taken_for_data() {
    let home = folder();
    let log = logs_of("quiet", home.path());
    let roll = home.path().join("roll");
    let path = roll.to_str().unwrap();
    rolled(&[&log], path);
    let table = roll.join("traffic.parquet");
    let whole = fs::read(&table).unwrap();
    let text = fs::read_to_string(roll.join("manifest.json")).unwrap();
    let fails = |words: &str| {
        let ran = plimsoll(&["clients", path]);
        ran.exits(3);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    };
    // Without checksums, as from another engine, a decoder meets what there is.
    let unchecked = text.replace("\"crc32c\": \"", "\"other\": \"");
    assert_ne!(unchecked, text);
    let mut seed = 7u64;
    for manifest in [&text, &unchecked] {
        fs::write(roll.join("manifest.json"), manifest).unwrap();
        fs::write(&table, &whole[..whole.len() / 2]).unwrap();
        fails("traffic.parquet");
        fs::remove_file(&table).unwrap();
        fails("a roll-up has a file for each table");
        for _ in 0..12 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut bad = whole.clone();
            let at = (seed >> 33) as usize % bad.len();
            bad[at] ^= 0x55;
            fs::write(&table, bad).unwrap();
            let ran = plimsoll(&["clients", path]);
            assert!(matches!(ran.code, Some(0 | 3)), "{at}: {:?} {}", ran.code, ran.stderr);
            assert!(manifest != &text || ran.code == Some(3), "a checksum tells: {at}");
        }
    }
    fs::write(&table, &whole).unwrap();
    for (manifest, words) in [
        (text.replace("rollup/v1", "rollup/v2"), "use the plimsoll that wrote it"),
        (text.replace("\"tile_seconds\": 10", "\"tile_seconds\": 7"), "it must be 10, 60, 600 or 3600"),
        (text[..text.len() / 2].to_owned(), "is not a manifest"),
    ] {
        fs::write(roll.join("manifest.json"), manifest).unwrap();
        fails(words);
    }
    fs::write(roll.join("manifest.json"), text).unwrap();
    plimsoll(&["clients", path]).exits(0);
}

#[test]
fn folded_rows_keep_the_sums() {
    let home = folder();
    // Half a minute of 6,000 agents each, of which no tile keeps more than 4,096 rows.
    let mut lines = String::new();
    for n in 0..18_000u32 {
        let (at, agent, code) = (n / 600, n % 6_000, [200, 200, 404, 429, 500][n as usize * 7 % 5]);
        for again in 0..=agent % 3 {
            lines += &format!(
                "{{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Metadata\",\
                 \"auditID\":\"{n}-{again}\",\"stage\":\"ResponseComplete\",\"requestURI\":\"/api/v1/pods\",\
                 \"verb\":\"list\",\"user\":{{\"username\":\"jane\"}},\"sourceIPs\":[\"10.0.0.9\"],\
                 \"userAgent\":\"agent-{agent}/v1\",\"objectRef\":{{\"resource\":\"pods\",\
                 \"apiVersion\":\"v1\"}},\"responseStatus\":{{\"code\":{code}}},\
                 \"requestReceivedTimestamp\":\"2026-11-20T09:00:{at:02}.000000Z\",\
                 \"stageTimestamp\":\"2026-11-20T09:00:{at:02}.{:06}Z\"}}\n",
                1_000 + n * 13 % 90_000,
            );
        }
    }
    let log = write(home.path(), "audit.log", lines);
    let roll = home.path().join("roll").to_str().unwrap().to_owned();
    rolled(&[&log], &roll);
    let command = ["traffic", "SOURCE", "--by", "agent", "--top", "0"];
    let (of_roll, of_log) = (answer_of(&command, &roll), answer_of(&command, &log));
    assert!(of_roll["coverage"]["folded_requests"].as_u64().unwrap() > 0, "{}", of_roll["coverage"]);
    for field in ["requests", "open", "errors", "throttled", "peak_rps", "p50_ms", "p90_ms", "p99_ms", "max_ms"] {
        assert_eq!(of_roll["totals"][field], of_log["totals"][field], "{field}");
    }
    // Nobody has more than the log says, and all together as much.
    let by_agent = |answer: &Value| -> std::collections::BTreeMap<String, u64> {
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.map(|row| (row["agent"].as_str().unwrap().to_owned(), row["requests"].as_u64().unwrap())).collect()
    };
    let (kept, all) = (by_agent(&of_roll), by_agent(&of_log));
    assert_eq!(kept.values().sum::<u64>(), all.values().sum::<u64>());
    assert!(kept.iter().filter(|(agent, _)| *agent != "(other)").all(|(agent, count)| *count <= all[agent]));
    assert_eq!(answer_of(&["clients", "SOURCE"], &roll), answer_of(&["clients", "SOURCE"], &log));
}

/// Parts of one log that together are longer than each: the whole has longer tiles than any of them.
#[test]
fn a_report_of_parts_that_together_are_long() {
    let home = folder();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let mut parts = Vec::new();
    for part in 0..4u32 {
        let event = |number: u32| {
            let (hour, minute, second) = (2 * part + number / 360, number / 6 % 60, number % 6 * 10);
            let at = format!("2026-11-20T{hour:02}:{minute:02}:{second:02}.000000Z");
            format!(
                "{{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Metadata\",\
                 \"auditID\":\"{part}-{number}\",\"stage\":\"ResponseComplete\",\"requestURI\":\"/api/v1/pods\",\
                 \"verb\":\"list\",\"user\":{{\"username\":\"jane\"}},\"objectRef\":{{\"resource\":\"pods\",\
                 \"apiVersion\":\"v1\"}},\"responseStatus\":{{\"code\":200}},\
                 \"requestReceivedTimestamp\":\"{at}\",\"stageTimestamp\":\"{at}\"}}\n"
            )
        };
        let log = write(home.path(), &format!("log-{part}/audit.log"), (0..720).map(event).collect::<String>());
        parts.push(path(&format!("roll-{part}")));
        rolled(&[&log], &parts[part as usize]);
    }
    let sources: Vec<&str> = parts.iter().map(String::as_str).collect();
    for command in [&["report"][..], &["traffic", "--series"]] {
        let ran = plimsoll(&[command, &sources, &["-o", "json"]].concat());
        let answer = ran.json(0);
        assert!(answer.to_string().contains("2026-11-20T07:"), "{command:?}: all eight hours are in it");
    }
}
