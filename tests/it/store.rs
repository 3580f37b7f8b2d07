//! The history store under `plimsoll record import`: filled, damaged, read by others.

use crate::store_lab::{KEEP, Points, START, check_full, days, import, many_lines, points};
use crate::support::{feed, folder, hermetic, python, root, run, write};
use plimsoll::model::series::Series;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

#[test]
fn a_full_disk_is_told_and_costs_nothing_that_was_acknowledged() {
    let home = folder();
    let csv = write(home.path(), "in.csv", many_lines(50, 1_000));
    // A limit for files stands for the disk; tests/full has one that is really full.
    let limited = format!(
        "trap '' XFSZ; ulimit -f 60; {} record import {csv} --store {}/s --batch 500 -v; echo code $?",
        env!("CARGO_BIN_EXE_plimsoll"),
        home.path().display()
    );
    let mut command = hermetic(Command::new("bash"), home.path());
    command.args(["-c", &limited]);
    check_full(&feed(command, b""), &csv, &home.path().join("s"), "File too large");
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
    let reported: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(reported["faults"], Value::Array(Vec::new()), "{reported}");
    assert!(reported["days"].as_u64().unwrap() >= 200 && reported["points"].as_u64().unwrap() > 50_000, "{reported}");
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
        ("d.csv", "name,time,value\nup,1788220900,1\nup,yesterday,1\n", ":3: 'yesterday' is not a time"),
        ("e.csv", "name,time,value\nup,1788220901000,1\n", ":2: '1788220901000' is not a time between"),
        ("f.csv", "name,time,value\nup,1788220902,many\n", ":2: 'many' is not a number"),
        ("g.csv", "name,when,value\nup,1,1\n", ":1: no column 'time'"),
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
