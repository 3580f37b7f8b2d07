//! `plimsoll quota alert` across kills, restarts and changes of clocks: who is notified of what and when is what an
//! independent model says.

use crate::alert_lab::AlertLab;
use crate::alert_model::{Dice, model, shown};
use crate::support::{hermetic, none};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

fn names(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn clock(minute: &Value) -> String {
    let minute = minute.as_u64().unwrap();
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

/// The model's owners as a configuration.
fn owners(lab: &AlertLab, scenario: &Value) -> String {
    let mut text = String::new();
    let mut rest = String::new();
    for (name, owner) in scenario["owners"].as_object().unwrap() {
        let hours = match owner["zone"].as_str() {
            None => "always".to_owned(),
            Some(zone) => {
                let all = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
                let days: Vec<&str> =
                    owner["days"].as_array().unwrap().iter().map(|day| all[day.as_u64().unwrap() as usize]).collect();
                let file = format!("holidays-{name}.txt");
                std::fs::write(lab.path().join(&file), names(&owner["holidays"]).join("  # a holiday\n")).unwrap();
                let (from, to) = (clock(&owner["from"]), clock(&owner["to"]));
                format!(
                    "{{ zone: {zone}, days: [{}], from: \"{from}\", to: \"{to}\", holidays: [{file}] }}",
                    days.join(", ")
                )
            }
        };
        let (namespaces, channels) = (names(&owner["namespaces"]).join(", "), names(&owner["channels"]).join(", "));
        let common =
            format!("channels: [{channels}], critical-any-time: {}, hours: {hours}", owner["critical_any_time"]);
        if name == "rest" {
            rest = format!("default: {{ name: rest, {common} }}\n");
        } else {
            text += &format!("  - {{ name: {name}, namespaces: [{namespaces}], {common} }}\n");
        }
    }
    format!("{rest}owners:\n{text}")
}

fn used(run: &Value) -> Vec<(String, u64)> {
    run["quotas"].as_object().unwrap().iter().map(|(name, used)| (name.clone(), used.as_u64().unwrap())).collect()
}

/// What a message says, whatever the channel: owner, time, reason, what stands, what is over.
fn reported(accepted: &Value) -> Option<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let body = &accepted["body"];
    let lines = |text: &str| {
        let mut stands = BTreeSet::new();
        let mut over = BTreeSet::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (words.first().copied(), line.starts_with("  ")) {
                (Some("WARNING" | "CRITICAL"), _) => {
                    let name = words.iter().find(|word| word.ends_with(':')).unwrap().trim_end_matches(':');
                    stands.insert(format!("{name} {}", words[0].to_lowercase()));
                }
                (Some(name), true) if line.contains(", was ") => {
                    let level = words[words.iter().position(|word| *word == "was").unwrap() + 1];
                    over.insert(format!("{} {level}", name.trim_end_matches(':')));
                }
                _ => {}
            }
        }
        format!("{stands:?} over {over:?}")
    };
    match accepted["channel"].as_str()? {
        "mail" | "mails" => Some((text(&accepted["id"]), lines(accepted["text"].as_str()?))),
        "hook" => {
            let of = |list: &Value| -> BTreeSet<String> {
                let items = list.as_array().into_iter().flatten();
                items.map(|one| format!("{} {}", text(&one["namespace"]), text(&one["level"]))).collect()
            };
            Some((text(&body["id"]), format!("{:?} over {:?}", of(&body["alerts"]), of(&body["over"]))))
        }
        _ => None,
    }
}

fn expected(message: &Value) -> String {
    let of = |list: &Value| -> BTreeSet<String> {
        let level = |level: &Value| if level == 2 { "critical" } else { "warning" };
        list.as_array().unwrap().iter().map(|one| format!("{} {}", one[0].as_str().unwrap(), level(&one[1]))).collect()
    };
    format!("{:?} over {:?}", of(&message["alerts"]), of(&message["over"]))
}

/// Fifty runs of cron with kills, receivers that are down or fail, and clocks that change.
#[test]
fn nobody_is_forgotten_and_nobody_is_told_twice() {
    let mut lab = AlertLab::start();
    let scenario = model(&["scenario", "7"], &json!(null));
    lab.config(&owners(&lab, &scenario));
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut committed: Vec<Value> = Vec::new();
    let (mut kills, mut cut_short) = (0, Vec::new());
    let runs = scenario["runs"].as_array().unwrap();
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    for (number, run) in runs.iter().enumerate() {
        let is_last = number + 1 == runs.len();
        let faults = match dice.below(10) {
            _ if is_last => json!({}),
            0 => json!({"mail": "500"}),
            1 => json!({"hook": "500", "chat": "500"}),
            2 => json!({"pages": "500"}),
            _ => json!({"delay": 60}),
        };
        lab.faults(&faults);
        match dice.below(12) {
            0 => {
                lab.stop_receivers();
                lab.start_receivers();
            }
            1 => {
                lab.stop_alertmanager();
                lab.start_alertmanager();
            }
            2 if !is_last => lab.stop_receivers(),
            _ => {}
        }
        let at = run["now"].as_str().unwrap();
        let arguments = lab.arguments(at, &used(run));
        let more = [arguments.clone(), vec!["--give-up".to_owned(), "1500ms".to_owned()]].concat();
        let stamp = json!(at.parse::<jiff::Timestamp>().unwrap().as_microsecond());
        let mut is_done = false;
        for _ in 0..dice.below(3) {
            let from = now();
            if killed(&lab, &more, Duration::from_millis(dice.below(160))) {
                kills += 1;
                // What it had sent by then may still be on its way.
                std::thread::sleep(Duration::from_millis(200));
                cut_short.push((from, now()));
            }
            // What a killed run has decided is decided; the next one only sends it.
            let state = std::fs::read_to_string(lab.state().join("state.json")).unwrap_or_else(|_| "{}".to_owned());
            let state: Value = serde_json::from_str(&state).expect("the state is whole at any time");
            is_done |= state["at"] == stamp;
        }
        // Now and then cron's next run comes instead of the same again.
        if is_last || !is_done && dice.below(4) > 0 || is_done && dice.below(2) > 0 {
            let ran = lab.run(&more, &[]);
            ran.did_not_panic();
            assert!(matches!(ran.code, Some(0 | 3)), "{:?} {}", ran.code, ran.stderr);
            is_done = true;
        }
        if is_done {
            committed.push(run.clone());
        }
        if lab_is_down(&lab) {
            lab.start_receivers();
        }
    }
    // What could not be sent is sent now.
    lab.faults(&json!({}));
    let last = lab.arguments(runs.last().unwrap()["now"].as_str().unwrap(), &used(runs.last().unwrap()));
    let report = lab.run(&last, &["--give-up", "20s"]).json(0);
    assert_eq!(report["totals"]["failed"], 0, "{report}");

    let truth = model(&["expect"], &json!(committed));
    let accepted = lab.noted("accepted");
    let mut faults = Vec::new();
    let mut copies: BTreeMap<(String, String), Vec<&Value>> = BTreeMap::new();
    for one in &accepted {
        if let Some((id, _)) = reported(one) {
            copies.entry((one["channel"].as_str().unwrap().to_owned(), id)).or_default().push(one);
        }
    }
    // Twice only where a kill came between, and then the same.
    for ((channel, id), copies) in &copies {
        for pair in copies.windows(2) {
            let at = pair[0]["at"].as_f64().unwrap();
            if !cut_short.iter().any(|(from, to)| (*from..=*to).contains(&at)) {
                faults.push(format!("{channel} {id}: taken twice, though no run was killed then"));
            }
            if pair[0]["message_id"] != pair[1]["message_id"] || reported(pair[0]) != reported(pair[1]) {
                faults.push(format!("{channel} {id}: the second is another"));
            }
        }
    }
    // By channel and owner, in order: what was reported is what the model says.
    for (name, owner) in scenario["owners"].as_object().unwrap() {
        let wanted: Vec<String> = truth["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["owner"] == *name)
            .map(expected)
            .collect();
        for channel in names(&owner["channels"]) {
            let is_theirs = |one: &&Value| match channel.as_str() {
                "mail" => one["to"][0] == format!("{name}@example.org"),
                "hook" => one["body"]["owner"] == *name,
                "mails" => true,
                _ => false,
            };
            let mut seen = BTreeSet::new();
            let found: Vec<String> = accepted
                .iter()
                .filter(|one| one["channel"] == *channel)
                .filter(is_theirs)
                .filter_map(reported)
                .filter(|(id, _)| seen.insert(id.clone()))
                .map(|(_, text)| text)
                .collect();
            if matches!(channel.as_str(), "mail" | "mails" | "hook") && found != wanted {
                faults.push(format!("{name} by {channel}: {found:#?}, the model has {wanted:#?}"));
            }
        }
    }
    let chats = accepted
        .iter()
        .filter(|one| one["channel"] == "chat")
        .map(|one| one["body"]["text"].to_string())
        .collect::<Vec<_>>();
    let wanted = truth["messages"].as_array().unwrap().iter().filter(|message| message["owner"] == "ops").count();
    if chats.iter().collect::<BTreeSet<_>>().len() > wanted || chats.len() < wanted {
        faults.push(format!("{} messages to chat, the model has {wanted}", chats.len()));
    }
    // What Alertmanager was reported last of each alert: what stands and was reported stands there, the rest has ended.
    let end: jiff::Timestamp = runs.last().unwrap()["now"].as_str().unwrap().parse().unwrap();
    let mut last: BTreeMap<String, bool> = BTreeMap::new();
    for alert in accepted.iter().filter(|one| one["channel"] == "pages").flat_map(|one| one["body"].as_array().unwrap())
    {
        let stands = alert["endsAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap() > end;
        last.insert(shown(alert), stands);
    }
    let standing: BTreeSet<String> = last.into_iter().filter(|(_, stands)| *stands).map(|(alert, _)| alert).collect();
    let wanted: BTreeSet<String> = ["york", "ops"]
        .iter()
        .flat_map(|owner| {
            let theirs = truth["standing"][owner].as_object().unwrap();
            theirs
                .iter()
                .map(move |(name, level)| format!("{owner} {name} {}", if level == 2 { "critical" } else { "warning" }))
        })
        .collect();
    if standing != wanted {
        faults.push(format!("Alertmanager was told of {standing:?}, the model has {wanted:?}"));
    }
    // It has all of it, also after its restarts. (It takes ends that lie ahead of its clock for none: it may have
    // more.)
    let has: BTreeSet<String> = lab.alerts().iter().map(shown).collect();
    if wanted.is_empty() || !wanted.is_subset(&has) {
        faults.push(format!("Alertmanager has {has:?}, the model {wanted:?}"));
    }
    for one in accepted.iter().filter(|one| one["channel"] == "hook") {
        if one["signed"] != true {
            faults.push(format!("the signature is wrong: {one}"));
        }
    }
    none(&faults);
    assert!(kills >= 15, "only {kills} kills");
    assert!(truth["messages"].as_array().unwrap().len() >= 25, "the model has few messages: the test tells nothing");
}

/// Starts `plimsoll`, and kills it after this time; whether it was still running.
fn killed(lab: &AlertLab, arguments: &[String], after: Duration) -> bool {
    let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), lab.path());
    command.args(arguments).env("HOOK_PASSWORD", "sesame");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    // SIGKILL.
    let _ = child.kill();
    child.wait().unwrap().code().is_none()
}

fn lab_is_down(lab: &AlertLab) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", lab.port("http"))).is_err()
}
