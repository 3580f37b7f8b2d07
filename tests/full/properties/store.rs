//! The history store whose writer is killed at any point.

use crate::store_lab::{Chance, KEEP, START, days, import, points};
use crate::support::{folder, hermetic, write};
use plimsoll::model::series::{Day, DayFold, Point, Series};
use plimsoll::sources::store::Store;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

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
            let mut reported = 0;
            let mut text = String::new();
            for line in errors.lines().map_while(Result::ok) {
                // `plimsoll: batch 3: 60 samples stored`
                let count =
                    line.split_once("batch ").and_then(|(_, rest)| rest.split_once(": ")?.1.split_once(" sample"));
                reported = count.map_or(reported, |(count, _)| count.replace(',', "").parse().unwrap());
                text.push_str(&line);
            }
            (reported, text)
        });
        std::thread::sleep(Duration::from_micros(chance.below(60_000)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let (reported, text) = reader.join().unwrap();
        assert!(!text.contains("panicked"), "{text}");
        assert!(status.success() || status.code().is_none(), "{text}");
        acknowledged.insert(n, reported);
        whole += u64::from(reported == lines as usize);
        cut_short += u64::from(reported > 0 && reported < lines as usize);
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
    for (run, reported) in acknowledged {
        let own = found.get(&Series::new("killed", &[("run", &run.to_string())])).map_or(&[][..], Vec::as_slice);
        assert!(own.len() >= *reported, "run {run}: {reported} were acknowledged, {} are there", own.len());
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
