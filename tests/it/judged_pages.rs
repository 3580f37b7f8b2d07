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
struct State {
    /// Seconds of load that it has answered, as far as it takes all of it.
    answered: u64,
    /// The same of kube-controller-manager.
    of_manager: u64,
}

/// A page.
fn page(state: &State) -> String {
    let mut page = String::from("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.779e9\n");
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
            1_000_000 + count(asked)
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
            let value = if below { 0 } else { 1_000_000 + count(asked) };
            writeln!(page, "apiserver_request_duration_seconds_bucket{{{labels},le=\"{bound}\"}} {value}").unwrap();
        }
        writeln!(page, "apiserver_request_duration_seconds_sum{{{labels}}} {}", count(asked) as f64 * seconds).unwrap();
        writeln!(page, "apiserver_request_duration_seconds_count{{{labels}}} {}", 1_000_000 + count(asked)).unwrap();
    }
    page
}

/// Writes pages of two apiservers; `change` makes of each, by the number of its apiserver and its own, what is written.
fn write(to: &Path, load: impl Fn(u64, u64) -> u64, change: impl Fn(u64, u64, String) -> Option<String>) {
    for apiserver in 0..2 {
        let folder = to.join(format!("metrics/apiserver-{apiserver}"));
        std::fs::create_dir_all(&folder).unwrap();
        let mut state = State { answered: 0, of_manager: 0 };
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
