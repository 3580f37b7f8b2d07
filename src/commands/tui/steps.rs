//! Steps in time through logs that are held in memory: what they show is what the log itself says of the window.

use super::console::worker;
use super::engine::Worker;
use crate::analysis::answer::Answer;
use crate::cli::Shown;
use crate::commands;
use crate::model::question::{Clients, GuardEvents, Kind, Question, Traffic};
use crate::model::report::Report;
use crate::model::time::{self, Bounds, SECOND};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The logs of a sample, unpacked, as they lie there for an hour.
fn unpacked(to: &Path) -> Vec<PathBuf> {
    let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    let one = |name: &str| {
        let packed = fs::read(format!("samples/list-storm/audit/{name}/audit.log.zst")).unwrap();
        let folder = to.join("audit").join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("audit.log");
        fs::write(&path, zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(hour_ago).unwrap();
        path
    };
    ["apiserver-0", "apiserver-1"].map(one).to_vec()
}

/// Leaves nothing in logs, and only their marks as they were.
fn overwrite(logs: &[PathBuf]) {
    for log in logs {
        let meta = fs::metadata(log).unwrap();
        fs::write(log, vec![b'x'; meta.len() as usize]).unwrap();
        File::options().write(true).open(log).unwrap().set_modified(meta.modified().unwrap()).unwrap();
    }
}

fn report(worker: &Worker, question: &Question) -> Report {
    let shown = Shown { format: crate::views::Format::Wide, top: Some(0) };
    let answer = worker.with(|context| context.compose(shown, |context| commands::answer(question, context)));
    match answer.unwrap() {
        Answer::Report(report, _) => *report,
        other => panic!("{other:?}"),
    }
}

fn json(report: &Report) -> Value {
    let mut text = Vec::new();
    let style = crate::views::Style { width: None, color: false, headers: true, compact: false };
    crate::views::render(report, crate::views::Format::Json, &style, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Windows in whole tiles, among them some at both ends, and one of all.
fn windows() -> Vec<Bounds> {
    let at = |clock: &str| time::parse_any(&format!("2026-11-20T09:{clock}Z")).unwrap();
    let window = |(from, seconds): (&str, i64)| (Some(at(from)), Some(at(from) + seconds * SECOND));
    let all =
        [("17:50", 10), ("17:00", 60), ("20:00", 10), ("21:50", 60), ("22:30", 120), ("25:00", 600), ("10:00", 3_600)];
    all.map(window).to_vec()
}

#[test]
fn windows_of_logs_that_are_held_are_those_of_the_logs() {
    let home = tempfile::tempdir().unwrap();
    let logs = unpacked(home.path());
    let source = home.path().join("audit").to_str().unwrap().to_owned();
    let (reading, holding) = (worker(), worker().holding(&[&source]));
    let traffic = |by: &[&str], filters: &[&str], interval: Option<i64>, bounds: Bounds| {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Question::Traffic(Traffic {
            sources: vec![source.clone()],
            from: Some(Kind::Audit),
            by: texts(by),
            filters: texts(filters),
            series: interval.is_some(),
            interval: interval.map(|seconds| seconds * SECOND),
            bounds,
            ..Traffic::default()
        })
    };
    let questions = |bounds: Bounds| {
        [
            traffic(&["verb", "resource"], &[], None, bounds),
            traffic(&["namespace", "code", "scope"], &["verb!=watch"], None, bounds),
            traffic(&["agent"], &["resource=pods"], None, bounds),
            traffic(&["list-kind", "minute"], &[], None, bounds),
            traffic(&["verb"], &[], Some(30), bounds),
        ]
    };
    let mut reported = Vec::new();
    for question in windows().into_iter().flat_map(questions) {
        let own = json(&report(&reading, &question));
        let mut held = json(&report(&holding, &question));
        // Which audit ids occur more than once is known of all of the log only.
        held["coverage"]["repeated_audit_ids"] = own["coverage"]["repeated_audit_ids"].clone();
        assert_eq!(held, own, "{question:?}");
        reported.push((question, held));
    }
    assert!(
        reported.iter().any(|(_, reported)| reported["totals"]["open"].as_u64() > Some(0)),
        "including open requests"
    );
    // Nothing of the logs is read.
    overwrite(&logs);
    for (question, reported) in &reported {
        let mut again = json(&report(&holding, question));
        again["coverage"]["repeated_audit_ids"] = reported["coverage"]["repeated_audit_ids"].clone();
        assert_eq!(&again, reported, "{question:?}");
    }
    // What was written to since is read.
    let lines = fs::read_to_string("samples/forms/v1.log").unwrap();
    fs::write(&logs[0], &lines).unwrap();
    fs::write(&logs[1], "").unwrap();
    let question = traffic(&["verb"], &[], None, (None, None));
    assert_eq!(json(&report(&holding, &question)), json(&report(&reading, &question)));
}

#[test]
fn clients_of_a_window_are_those_of_the_log() {
    let home = tempfile::tempdir().unwrap();
    unpacked(home.path());
    let source = home.path().join("audit").to_str().unwrap().to_owned();
    let (reading, holding) = (worker(), worker().holding(&[&source]));
    for bounds in windows() {
        let question = Question::Clients(Clients { sources: vec![source.clone()], bounds, ..Clients::default() });
        let [own, held] = [&reading, &holding].map(|worker| json(&report(worker, &question)));
        let rows = |reported: &Value| {
            let rows = reported["rows"].as_array().unwrap().clone();
            let same = ["client", "source_ips", "requests", "rps", "share", "verbs", "lists", "errors", "throttled"];
            let row = |row: &Value| same.map(|field| row[field].clone());
            let mut rows: Vec<_> = rows.iter().map(row).collect();
            rows.sort_by_key(|row| row[0].to_string());
            rows
        };
        assert_eq!(held["window"], own["window"]);
        for (held, own) in rows(&held).iter().zip(rows(&own)) {
            assert_eq!(*held, own, "{bounds:?}");
        }
        assert_eq!(rows(&held).len(), rows(&own).len());
    }
}

#[test]
fn dangerous_operations_of_a_window_are_those_of_the_log_which_is_not_read_again() {
    let home = tempfile::tempdir().unwrap();
    let logs = unpacked(home.path());
    let source = home.path().join("audit").to_str().unwrap().to_owned();
    let (reading, holding) = (worker(), worker().holding(&[&source]));
    let question =
        |bounds| Question::GuardEvents(GuardEvents { sources: vec![source.clone()], bounds, ..GuardEvents::default() });
    let questions: Vec<Question> = windows().into_iter().chain([(None, None)]).map(question).collect();
    let of_logs: Vec<Value> = questions.iter().map(|question| json(&report(&reading, question))).collect();
    overwrite(&logs);
    let mut rows = 0;
    for (question, own) in questions.iter().zip(of_logs) {
        let held = json(&report(&holding, question));
        rows += held["rows"].as_array().unwrap().len();
        assert_eq!(held, own, "{question:?}");
    }
    assert!(rows > 5, "{rows} operations");
}
