//! The history store under `plimsoll record import`: killed, filled, damaged, read by others.

use crate::support::{Ran, feed, folder, hermetic, plimsoll, python, root, run, write};
use plimsoll::model::series::{Day, DayFold, Point, Selector, Series};
use plimsoll::sources::store::{Ask, Store};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// 2026-09-01: all of it is over.
const START: i64 = 1_788_220_800;
/// So that it is kept nevertheless.
const KEEP: [&str; 4] = ["--keep-points", "3000d", "--keep", "4000d"];

type Points = BTreeMap<Series, Vec<(i64, f64)>>;

/// Imports a file, and `more`.
fn import(file: &str, store: &str, more: &[&str]) -> Ran {
    plimsoll(&[&["record", "import", file, "--store", store], &KEEP[..], more].concat())
}

fn points(store: &str) -> (Points, Vec<String>) {
    let (mut all, mut losses) = (Points::new(), Vec::new());
    let store = Store::open(Path::new(store)).unwrap();
    let mut each = |series: &Series, points: &[Point]| {
        all.entry(series.clone()).or_default().extend(points.iter().map(|point| (point.at, point.value)));
        Ok(())
    };
    store.points(&Selector::default(), (0, i64::MAX), &mut losses, &mut each).unwrap();
    (all, losses.iter().map(ToString::to_string).collect())
}

fn days(store: &str) -> BTreeMap<Series, Vec<Day>> {
    let (mut all, mut losses) = (BTreeMap::new(), Vec::new());
    let ask = Ask { selector: Selector::default(), from: 0, until: i32::MAX, with_sketch: true };
    let mut each = |series, days| {
        assert!(all.insert(series, days).is_none());
        Ok(())
    };
    Store::open(Path::new(store)).unwrap().days(&ask, &mut losses, &mut each).unwrap();
    assert_eq!(losses, []);
    all
}

/// Numbers that look like chance, the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn what_was_acknowledged_is_there_once_wherever_the_writer_is_killed() {
    const RUNS: u64 = 240;
    let home = folder();
    let store = home.path().join("store").to_str().unwrap().to_owned();
    let mut chance = Chance(7);
    let mut acknowledged: BTreeMap<u64, usize> = BTreeMap::new();
    let (mut cut_short, mut whole) = (0, 0);
    for n in 0..RUNS {
        // Short ones are killed while they seal, long ones while they append.
        let lines = if n % 3 == 0 { 60 } else { 6_000 };
        let mut csv = "name,run,time,value\n".to_owned();
        for line in 0..lines {
            // All runs write to the same two days.
            writeln!(csv, "killed,{n},{},{line}", START + line * 20).unwrap();
        }
        let file = write(home.path(), "in.csv", &csv);
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        command.args(["record", "import", &file, "--store", &store, "--batch", "20", "-v"]).args(KEEP);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut told = 0;
            let mut text = String::new();
            for line in errors.lines().map_while(Result::ok) {
                // `plimsoll: batch 3: 60 samples stored`
                let count =
                    line.split_once("batch ").and_then(|(_, rest)| rest.split_once(": ")?.1.split_once(" sample"));
                told = count.map_or(told, |(count, _)| count.replace(',', "").parse().unwrap());
                text.push_str(&line);
            }
            (told, text)
        });
        std::thread::sleep(Duration::from_micros(chance.below(60_000)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let (told, text) = reader.join().unwrap();
        assert!(!text.contains("panicked"), "{text}");
        assert!(status.success() || status.code().is_none(), "{text}");
        acknowledged.insert(n, told);
        whole += u64::from(told == lines as usize);
        cut_short += u64::from(told > 0 && told < lines as usize);
        if n % 40 == 39 || n + 1 == RUNS {
            check_killed(&store, &acknowledged);
        }
    }
    assert!(cut_short >= 40 && whole >= 20, "only {cut_short} runs were killed in the middle, {whole} wrote all");
    // A last one that is left alone, and has all of them sealed.
    let file = write(home.path(), "in.csv", format!("name,run,time,value\nkilled,{RUNS},{START},0\n"));
    import(&file, &store, &[]).exits(0);
    acknowledged.insert(RUNS, 1);
    check_killed(&store, &acknowledged);
    assert_eq!(std::fs::read_dir(Path::new(&store).join("log")).unwrap().count(), 0, "all is sealed");
}

#[track_caller]
fn check_killed(store: &str, acknowledged: &BTreeMap<u64, usize>) {
    if !Store::is_store(Path::new(store)) {
        return;
    }
    let (found, losses) = points(store);
    assert_eq!(losses, [] as [String; 0], "a killed writer damages nothing");
    for (run, told) in acknowledged {
        let own = found.get(&Series::new("killed", &[("run", &run.to_string())])).map_or(&[][..], Vec::as_slice);
        assert!(own.len() >= *told, "run {run}: {told} were acknowledged, {} are there", own.len());
        for (line, point) in own.iter().enumerate() {
            assert_eq!(
                *point,
                ((START + line as i64 * 20) * 1_000_000, line as f64),
                "run {run}: the first {} in order, each once",
                own.len()
            );
        }
    }
    // And the days agree with the points.
    for (series, days) in days(store) {
        let mut fold = DayFold::default();
        let mut expected: Vec<Day> =
            found[&series].iter().filter_map(|(at, value)| fold.add(Point { at: *at, value: *value })).collect();
        expected.extend(fold.finish());
        assert_eq!(days, expected, "{series}");
    }
}

fn many_lines(series: u64, count: i64) -> String {
    let mut chance = Chance(series);
    let mut csv = "name,who,time,value\n".to_owned();
    for line in 0..count {
        for who in 0..series {
            writeln!(
                csv,
                "size,w{who},{},{}",
                START + line * 300 + chance.below(200) as i64,
                chance.below(1_000_000) as f64 / 8.0
            )
            .unwrap();
        }
    }
    csv
}

#[test]
fn a_full_disk_is_told_and_costs_nothing_that_was_acknowledged() {
    let home = folder();
    let csv = write(home.path(), "in.csv", many_lines(50, 1_000));
    let program = env!("CARGO_BIN_EXE_plimsoll");
    // A disk of 400 KiB, and a copy of the store that lies on it: once with a file system of that size, once with a
    // limit for files.
    let (disk, copy) = (home.path().join("disk"), home.path().join("copy"));
    std::fs::create_dir(&disk).unwrap();
    let on_disk = format!(
        "mount -t tmpfs -o size=400k none {d} && {program} record import {csv} --store {d}/s --batch 500 -v; echo code $?; cp -a {d}/s {c}",
        d = disk.display(),
        c = copy.display()
    );
    let limited = format!(
        "trap '' XFSZ; ulimit -f 60; {program} record import {csv} --store {}/s --batch 500 -v; echo code $?",
        home.path().display()
    );
    let cases = [
        (vec!["unshare", "-rm", "bash", "-c", &on_disk], copy.clone(), "No space left"),
        (vec!["bash", "-c", &limited], home.path().join("s"), "File too large"),
    ];
    for (line, store, says) in cases {
        let mut command = hermetic(Command::new(line[0]), home.path());
        command.args(&line[1..]);
        let ran = feed(command, b"");
        ran.did_not_panic();
        assert!(ran.stdout.contains("code 3"), "{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stderr.contains(says) && ran.stderr.contains("--max-size") && ran.stderr.contains("log"),
            "{}",
            ran.stderr
        );
        let batches = ran.stderr.lines().filter(|line| line.contains("batch ")).count();
        assert!(batches > 5 && batches < 100, "{batches} batches were acknowledged");
        let store = store.to_str().unwrap();
        let (found, losses) = points(store);
        assert_eq!(losses, [] as [String; 0]);
        let count: usize = found.values().map(Vec::len).sum();
        assert!(count >= batches * 490, "{count} of {batches} batches are there");
        // With room again it goes on.
        import(&csv, store, &[]).exits(0);
        let (found, losses) = points(store);
        assert_eq!((found.len(), losses.len()), (50, 0));
    }
}

#[test]
fn a_store_that_may_not_be_written_stays_as_it_is_and_can_be_read() {
    let home = folder();
    let csv = write(home.path(), "in.csv", many_lines(3, 400));
    let store = home.path().join("s").to_str().unwrap().to_owned();
    import(&csv, &store, &[]).exits(0);
    let before = points(&store);
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let line = format!(
        "mount --bind {store} {store} && mount -o remount,bind,ro {store} && {program} record import {csv} --store {store}; echo code $?"
    );
    let mut command = hermetic(Command::new("unshare"), home.path());
    command.args(["-rm", "bash", "-c", &line]);
    let ran = feed(command, b"");
    ran.did_not_panic();
    assert!(
        ran.stdout.contains("code 3") && ran.stderr.contains("Read-only") && ran.stderr.contains("as it was"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    assert_eq!(points(&store), before);
}

#[test]
fn duckdb_reads_the_same_from_the_sealed_files() {
    let home = folder();
    let text = many_lines(40, 1_500);
    let csv = write(home.path(), "in.csv", &text);
    let store = home.path().join("s").to_str().unwrap().to_owned();
    import(&csv, &store, &[]).exits(0);
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/store.py")).args([&store, &csv]);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(told["faults"], Value::Array(Vec::new()), "{told}");
    assert!(told["days"].as_u64().unwrap() >= 200 && told["points"].as_u64().unwrap() > 50_000, "{told}");
    // Once more the same, as Parquet of the store itself: nothing new.
    let before = points(&store);
    let mut sealed: Vec<_> =
        std::fs::read_dir(Path::new(&store).join("points")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sealed.retain(|path| path.extension().is_some_and(|end| end == "parquet"));
    let copy = home.path().join("copy").to_str().unwrap().to_owned();
    let files: Vec<&str> = sealed.iter().map(|path| path.to_str().unwrap()).collect();
    import(files[0], &copy, &files[1..]).exits(0);
    assert_eq!(points(&copy), before);
    assert_eq!(days(&copy), days(&store));
}

#[test]
fn import_reads_what_it_knows_and_refuses_the_rest_with_its_place() {
    let home = folder();
    let store = home.path().join("s").to_str().unwrap().to_owned();
    let import = |name: &str, text: &str, more: &[&str]| {
        let file = write(home.path(), name, text);
        (file.clone(), import(&file, &store, more))
    };
    let (_, ran) = import(
        "a.csv",
        "time,value,name,pod\n2026-09-01T00:00:05Z,1.5,up,a\n1788220810.25,2,up,\n1788220811,NaN,up,\n",
        &[],
    );
    assert!(ran.exits(0).stderr.contains("2 samples stored; 1 value"), "{}", ran.stderr);
    let answer = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"__name__":"up","pod":"b"},"values":[[1788220800,"7"],[1788220815.5,"+Inf"],[1788220830,"8e3"]]}]}}"#;
    import("b.json", answer, &[]).1.exits(0);
    let unnamed = answer.replace("\"__name__\":\"up\",", "");
    let (file, ran) = import("c.json", &unnamed, &[]);
    assert!(
        ran.exits(3).stderr.contains(&format!("{file}: result 1")) && ran.stderr.contains("--name"),
        "{}",
        ran.stderr
    );
    import("c.json", &unnamed, &["--name", "expression"]).1.exits(0);
    let (found, _) = points(&store);
    let second = 1_000_000;
    let expected: Points = [
        (Series::new("expression", &[("pod", "b")]), vec![(START * second, 7.0), ((START + 30) * second, 8e3)]),
        (Series::new("up", &[]), vec![(START * second + 10_250_000, 2.0)]),
        (Series::new("up", &[("pod", "a")]), vec![((START + 5) * second, 1.5)]),
        (Series::new("up", &[("pod", "b")]), vec![(START * second, 7.0), ((START + 30) * second, 8e3)]),
    ]
    .into();
    assert_eq!(found, expected);
    for (name, text, says) in [
        ("d.csv", "name,time,value\nup,1788220900,1\nup,yesterday,1\n", ":3: 'yesterday' is no time"),
        ("e.csv", "name,time,value\nup,1788220901000,1\n", ":2: '1788220901000' is no time between"),
        ("f.csv", "name,time,value\nup,1788220902,many\n", ":2: 'many' is no number"),
        ("g.csv", "name,when,value\nup,1,1\n", ":1: there is no column 'time'"),
        ("h.csv", "name,time,value\nup,1788220903\n", ":2: "),
        ("i.csv", "name,time,value\nno name,1788220904,1\n", ":2: no name"),
        ("j.json", "{\"status\":\"error\",\"error\":\"too many samples\"}", "too many samples"),
        ("k.json", "{\"status\":\"success\",\n\"data\":7}", ":2: "),
        ("l.csv", "", "it is empty"),
        ("m.parquet", "PAR1 and no more", "m.parquet: "),
    ] {
        let (file, ran) = import(name, text, &[]);
        assert!(ran.exits(3).stderr.contains(&file) && ran.stderr.contains(says), "{name}: {}", ran.stderr);
    }
    // Standard input; and what is before a bad line is kept.
    let ran = run(
        &[&["record", "import", "-", "--store", &store], &KEEP[..]].concat(),
        &[],
        b"name,time,value\nin,1788220800,5\nin,x,6\n",
    );
    assert!(
        ran.exits(3).stderr.contains("-:3: ") && ran.stderr.contains("1 sample before it stored"),
        "{}",
        ran.stderr
    );
    assert_eq!(points(&store).0[&Series::new("in", &[])], [(START * second, 5.0)]);
}
