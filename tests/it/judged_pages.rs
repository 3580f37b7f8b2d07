//! What the judge makes of metrics pages that are made here, with one thing wrong in them: pages that lack a part, that
//! begin late, or hold a value that can't be, are no incident; an apiserver that is gone, and a controller that stops,
//! are.

use crate::support::{folder, plimsoll};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// The first page, Unix seconds; pages lie ten seconds apart.
const BEGIN: u64 = 1_780_000_000;
const PAGES: u64 = 90;

/// Bounds of the buckets of latency, s.
const BOUNDS: [&str; 9] = ["0.005", "0.025", "0.05", "0.1", "0.2", "0.4", "1", "5", "60"];

/// Verb, resource, part of the control plane that asks, requests a second, seconds that each takes.
const ASKED: [(&str, &str, &str, u64, f64); 6] = [
    ("GET", "pods", "", 6, 0.003),
    ("LIST", "pods", "", 1, 0.03),
    ("PUT", "configmaps", "", 3, 0.01),
    ("PUT", "leases", "", 4, 0.01),
    ("PUT", "leases", "kube-controller-manager", 1, 0.01),
    ("PUT", "leases", "kube-scheduler", 1, 0.01),
];

/// What an apiserver is like at a page.
#[derive(Clone, Copy)]
struct State {
    /// When its process started, Unix seconds, and what it had counted of each before.
    started: u64,
    before: u64,
    /// Seconds of load that it has answered, as far as it takes all of it.
    answered: u64,
    /// The same of kube-controller-manager.
    of_manager: u64,
}

/// A page.
fn page(state: &State) -> String {
    let before = state.before;
    let mut page = format!("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}\n", state.started);
    page += "# TYPE apiserver_request_total counter\n";
    let count = |(_, _, client, rate, _): &(&str, &str, &str, u64, f64)| {
        rate * if *client == "kube-controller-manager" { state.of_manager } else { state.answered }
    };
    for asked @ (verb, resource, client, ..) in &ASKED {
        let group = if *resource == "leases" { "coordination.k8s.io" } else { "" };
        writeln!(
            page,
            "apiserver_request_total{{code=\"200\",component=\"apiserver\",group=\"{group}\",resource=\"{resource}\",\
             scope=\"namespace\",subresource=\"\",system_client=\"{client}\",verb=\"{verb}\",version=\"v1\"}} {}",
            before + count(asked)
        )
        .unwrap();
    }
    page += "# TYPE apiserver_request_duration_seconds histogram\n";
    for asked @ (verb, resource, client, _, seconds) in &ASKED {
        if !client.is_empty() {
            continue;
        }
        let group = if *resource == "leases" { "coordination.k8s.io" } else { "" };
        let labels = format!(
            "component=\"apiserver\",group=\"{group}\",resource=\"{resource}\",scope=\"namespace\",subresource=\"\",\
             verb=\"{verb}\",version=\"v1\""
        );
        for bound in BOUNDS.iter().chain(["+Inf"].iter()) {
            let below = bound.parse::<f64>().is_ok_and(|bound| bound < *seconds);
            let value = if below { 0 } else { before + count(asked) };
            writeln!(page, "apiserver_request_duration_seconds_bucket{{{labels},le=\"{bound}\"}} {value}").unwrap();
        }
        writeln!(page, "apiserver_request_duration_seconds_sum{{{labels}}} {}", count(asked) as f64 * seconds).unwrap();
        writeln!(page, "apiserver_request_duration_seconds_count{{{labels}}} {}", before + count(asked)).unwrap();
    }
    page
}

/// Writes pages of two apiservers; `change` makes of each, by the number of its apiserver and its own, what is written.
fn write(to: &Path, load: impl Fn(u64, u64) -> u64, change: impl Fn(u64, u64, String) -> Option<String>) {
    for apiserver in 0..2 {
        let folder = to.join(format!("metrics/apiserver-{apiserver}"));
        std::fs::create_dir_all(&folder).unwrap();
        let mut state = State { started: 1_779_000_000, before: 1_000_000, answered: 0, of_manager: 0 };
        for number in 0..PAGES {
            // A little more in some intervals than in others.
            state.answered += load(apiserver, number) * (9 + number % 3);
            state.of_manager += if (40..60).contains(&number) && to.ends_with("manager") { 0 } else { 10 };
            if let Some(page) = change(apiserver, number, page(&state)) {
                std::fs::write(folder.join(format!("{}.txt", BEGIN + 10 * number)), page).unwrap();
            }
        }
    }
}

/// The episodes of what `write` wrote: grade, state, seconds from the first page on, cause.
fn episodes(from: &Path) -> Vec<(String, String, i64, i64, String)> {
    let ran = plimsoll(&["guard", "episodes", from.to_str().unwrap(), "-o", "json"]);
    let document: Value = serde_json::from_str(&ran.did_not_panic().stdout).unwrap();
    let seconds = |at: &Value| {
        let at: jiff::Timestamp = at.as_str().unwrap().parse().unwrap();
        at.as_second() - BEGIN as i64
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |row: &Value| {
        (text(&row["grade"]), text(&row["state"]), seconds(&row["from"]), seconds(&row["to"]), text(&row["cause"]))
    };
    document["rows"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn pages_that_lack_a_part_or_hold_what_can_not_be_are_no_incident() {
    let steady = |_, _| 1;
    for (name, cut) in [("cut-30", 30), ("cut-50", 50), ("cut-75", 75)] {
        let to = folder();
        write(to.path(), steady, |apiserver, number, page| {
            let is_cut = number == 45 && (apiserver == 0 || cut == 50);
            Some(if is_cut { page[..page.len() * cut / 100].to_owned() } else { page })
        });
        assert_eq!(episodes(to.path()), [], "{name}");
    }
    for (name, value) in [("zero", "0"), ("huge", "1e18"), ("negative", "-5"), ("nan", "NaN")] {
        let to = folder();
        write(to.path(), steady, |apiserver, number, page| {
            let line = page.lines().find(|line| line.starts_with("apiserver_request_total")).unwrap();
            let absurd = format!("{} {value}", line.rsplit_once(' ').unwrap().0);
            Some(if (apiserver, number) == (0, 45) { page.replace(line, &absurd) } else { page })
        });
        assert_eq!(episodes(to.path()), [], "{name}");
    }
}

#[test]
fn pages_of_one_of_two_apiservers_that_begin_late_or_end_early_are_no_surge() {
    for (name, is_there) in [("late", (|number| number >= 40) as fn(u64) -> bool), ("early", |number| number < 60)] {
        let to = folder();
        write(to.path(), |_, _| 1, |apiserver, number, page| (apiserver == 0 || is_there(number)).then_some(page));
        assert_eq!(episodes(to.path()), [], "{name}");
    }
}

#[test]
fn an_apiserver_that_is_gone_for_good_stays_gone() {
    for gone in [30, 60] {
        let to = folder();
        let load = |apiserver, number| if number < gone { 1 } else { 2 * u64::from(apiserver == 0) };
        write(to.path(), load, |apiserver, number, page| (apiserver == 0 || number < gone).then_some(page));
        let found = episodes(to.path());
        let [(grade, state, from, _, _)] = &found[..] else { panic!("{gone}: {found:?}") };
        assert_eq!((grade.as_str(), state.as_str()), ("degraded", "ongoing"), "{found:?}");
        assert!((from - 10 * gone as i64).abs() <= 15, "{found:?}");
    }
}

#[test]
fn pages_say_which_controller_asks_for_nothing() {
    let to = folder();
    let to = to.path().join("manager");
    write(&to, |_, _| 1, |_, _, page| Some(page));
    let found = episodes(&to);
    let [(grade, _, from, to, cause)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((grade.as_str(), cause.as_str()), ("incident", "controllers-down"), "{found:?}");
    assert!((from - 395).abs() <= 15 && (to - 595).abs() <= 15, "{found:?}");
}

/// The only apiserver is away for 40 s of two minutes: an outage, behind which all is as it was before.
#[test]
fn what_is_as_before_a_restart_is_no_surge() {
    let to = folder();
    let home = to.path().join("metrics/apiserver-0");
    std::fs::create_dir_all(&home).unwrap();
    let first = State { started: 1_779_000_000, before: 1_000_000, answered: 0, of_manager: 0 };
    for number in (0..6).chain(10..16) {
        let seconds = 10 * number + number % 3;
        let state = match number {
            0..6 => State { answered: seconds, of_manager: seconds, ..first },
            _ => State { started: BEGIN + 95, before: 0, answered: seconds - 95, of_manager: seconds - 95 },
        };
        std::fs::write(home.join(format!("{}.txt", BEGIN + 10 * number)), page(&state)).unwrap();
    }
    let found = episodes(to.path());
    let [(grade, state, from, to, cause)] = &found[..] else { panic!("{found:?}") };
    assert_eq!([grade, state, cause].map(String::as_str), ["outage", "ended", "relist-storm"], "{found:?}");
    assert!((from - 55).abs() <= 10 && (to - 100).abs() <= 10, "{found:?}");
}

/// A member of etcd answers nothing while it is defragmented: the timeline says when it was, and for how long.
#[test]
fn defragmentations_are_in_the_timeline() {
    let to = folder();
    write(to.path(), |_, _| 1, |_, _, page| Some(page));
    let home = to.path().join("metrics/etcd-0");
    std::fs::create_dir_all(&home).unwrap();
    for number in 0..PAGES {
        let (seconds, count) = if number < 45 { (2.0, 1) } else { (14.5, 3) };
        let page = format!(
            "etcd_server_has_leader 1\nprocess_start_time_seconds 1.779e9\n\
             # TYPE etcd_disk_backend_defrag_duration_seconds histogram\n\
             etcd_disk_backend_defrag_duration_seconds_bucket{{le=\"+Inf\"}} {count}\n\
             etcd_disk_backend_defrag_duration_seconds_sum {seconds}\n\
             etcd_disk_backend_defrag_duration_seconds_count {count}\n"
        );
        std::fs::write(home.join(format!("{}.txt", BEGIN + 10 * number)), page).unwrap();
    }
    let report = plimsoll(&["report", to.path().to_str().unwrap(), "-o", "json"]).json(0);
    assert_eq!(report["episodes"].as_array().unwrap().len(), 0, "{}", report["summary"]);
    let timeline = report["tables"]["timeline"].as_array().unwrap().iter();
    let rows: Vec<_> = timeline.filter(|row| row["kind"] == "defragmentation").collect();
    let [row] = &rows[..] else { panic!("{}", report["tables"]["timeline"]) };
    assert_eq!(row["what"], "etcd-0: defragmented, for 12.5 s");
    assert_eq!(row["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second(), BEGIN as i64 + 450);
}
