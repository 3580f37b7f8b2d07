//! `plimsoll guard episodes`: what it prints is what `report` finds; what is followed is reported once, by every
//! channel.

use crate::alert_lab::AlertLab;
use crate::support::{feed, folder, hermetic, plimsoll, python, root, sample};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn its_rows_are_the_episodes_of_a_report() {
    for name in ["list-storm", "overload-restart", "quiet"] {
        let ran = plimsoll(&["guard", "episodes", &sample(name), "-o", "json"]);
        let (found, answer) = (ran.json(0), plimsoll(&["report", &sample(name), "-o", "json"]).json(0));
        let rows = found["rows"].as_array().unwrap();
        let theirs = answer["episodes"].as_array().unwrap();
        assert_eq!(rows.len(), theirs.len(), "{name}");
        for (row, own) in rows.iter().zip(theirs) {
            for field in ["id", "grade", "state", "from", "to"] {
                assert_eq!(row[field], own[field], "{name} {field}");
            }
        }
    }
    plimsoll(&["guard", "episodes", &sample("overload-restart"), "--fail-on", "critical"]).exits(1);
    // Its load rose, and nobody noticed.
    plimsoll(&["guard", "episodes", &sample("list-storm"), "--fail-on", "warning"]).exits(0);
    let quiet = plimsoll(&["guard", "episodes", &sample("quiet"), "--fail-on", "warning"]);
    assert!(quiet.exits(0).stdout.starts_with("No episode found"), "{}", quiet.stdout);
    plimsoll(&["guard", "episodes", "-"]).exits(2);
    plimsoll(&["guard", "episodes", "nothing-here"]).exits(3);
}

#[test]
fn an_episode_is_what_compare_compares_with_its_baseline() {
    let of = |more: &[&str]| plimsoll(&[&["compare", &sample("list-storm"), "-o", "json"], more].concat());
    let report = plimsoll(&["report", &sample("list-storm"), "-o", "json"]).json(0);
    let own = &report["episodes"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let window = |span: &Value| format!("{}..{}", text(&span["from"]), text(&span["to"]));
    let named = of(&["--before", &window(&own["baseline"]), "--after", &window(own)]).json(0);
    assert!(!named["rows"].as_array().unwrap().is_empty());
    assert_eq!(of(&["--episode"]).json(0), named);
    assert_eq!(of(&["--episode", &text(&own["id"])]).json(0), named);
    let ran = of(&["--episode", "e-19700101T000000Z"]);
    assert!(ran.exits(2).stderr.contains(&text(&own["id"])), "{}", ran.stderr);
    let ran = plimsoll(&["compare", &sample("quiet"), "--episode"]);
    assert!(ran.exits(2).stderr.contains("has no episode"), "{}", ran.stderr);
}

/// Bundles of two clusters, or of two times, are judged one by one: what lies between was not seen.
#[test]
fn bundles_of_different_times_are_judged_apart() {
    let rows = |sources: &[&str]| -> Vec<Value> {
        let sources: Vec<String> = sources.iter().map(|name| sample(name)).collect();
        let mut args = vec!["guard", "episodes"];
        args.extend(sources.iter().map(String::as_str));
        args.extend(["-o", "json"]);
        plimsoll(&args).json(0)["rows"].as_array().unwrap().clone()
    };
    let apart = [rows(&["list-storm"]), rows(&["overload-restart"])].concat();
    assert_eq!(rows(&["list-storm", "overload-restart"]), apart);
    assert_eq!(rows(&["overload-restart", "list-storm"]), apart);
    assert_eq!(apart.len(), 2);
}

#[test]
fn episodes_of_a_roll_up_are_those_of_its_log() {
    let home = folder();
    let to = home.path().join("roll").to_str().unwrap().to_owned();
    let log = sample("overload-restart/audit");
    plimsoll(&["rollup", &log, "--to", &to]).exits(0);
    // A roll-up begins and ends with a whole tile, so rates at its ends, and with them moments, differ by milliseconds.
    let rows = |source: &str| {
        let answer = plimsoll(&["guard", "episodes", source, "-o", "json"]).json(0);
        let of = |row: &Value| ["id", "grade", "state", "cause", "user", "headline"].map(|field| row[field].clone());
        answer["rows"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert!(!rows(&log).is_empty());
    assert_eq!(rows(&to), rows(&log));
    let all = |source: &str| {
        let answer = plimsoll(&["compare", source, "--episode", "-o", "json"]).json(0);
        assert!(!answer["rows"].as_array().unwrap().is_empty(), "{answer}");
        answer["schema"].clone()
    };
    assert_eq!(all(&to), all(&log));
}

struct Follower(Child);

impl Follower {
    fn start(lab: &AlertLab, log: &Path) -> Self {
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), lab.path());
        command.args(["guard", "episodes", log.to_str().unwrap(), "--follow", "--every", "1s", "--alerts"]);
        command.arg(lab.path().join("alerts.yaml")).arg("--state").arg(lab.state());
        command.args(["--give-up", "2s", "-o", "json"]).env("HOOK_PASSWORD", "sesame");
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn end(self) -> (Vec<Value>, String) {
        Command::new("kill").arg(self.0.id().to_string()).status().unwrap();
        let output = self.0.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let reports = serde_json::Deserializer::from_slice(&output.stdout).into_iter().map(Result::unwrap).collect();
        (reports, String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Waits for a message by HTTP about an episode that is over, or not.
fn wait_for(lab: &AlertLab, is_over: bool) -> Value {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let noted = lab.noted("accepted");
        let is_it = |one: &&Value| one["channel"] == "hook" && one["body"]["episodes"][0]["is_over"] == is_over;
        if let Some(found) = noted.iter().find(is_it) {
            return found.clone();
        }
        assert!(Instant::now() < end, "{noted:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_live_episode_is_told_when_it_begins_and_when_it_is_over() {
    let lab = AlertLab::start();
    lab.config(
        "default: { name: ops, channels: [mail, hook, chat, pages], to: [ops@example.org], hours: { zone: UTC, \
         days: [Sun], from: \"00:00\", to: \"00:01\" } }\n",
    );
    let home = lab.path().to_owned();
    let mut unpack = Command::new("tar");
    unpack
        .arg("--zstd")
        .arg("-xf")
        .arg(root().join("benches/incidents/captured/list-storm.tar.zst"))
        .arg("-C")
        .arg(&home);
    assert_eq!(feed(unpack, b"").code, Some(0));
    let (log, later) = (home.join("audit.log"), home.join("later"));
    let mut shift = Command::new(python());
    shift.arg(root().join("tests/oracle/shift_log.py")).arg(home.join("list-storm")).arg("45").arg(&log).arg(&later);
    let ran = feed(shift, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let client: Value = serde_json::from_str(&ran.stdout).unwrap();
    let follower = Follower::start(&lab, &log);
    let began = wait_for(&lab, false);
    let own = &began["body"]["episodes"][0];
    assert_eq!((&own["level"], &own["user"]), (&json!("critical"), &client["user"]), "{own}");
    assert_eq!((&began["body"]["schema"], &began["signed"]), (&json!("plimsoll.guard.message/v1"), &json!(true)));
    let alerts = lab.alerts();
    let is_it = |alert: &&Value| alert["labels"]["alertname"] == "PlimsollEpisode";
    let alert = alerts.iter().find(is_it).unwrap_or_else(|| panic!("{alerts:?}"));
    assert_eq!((&alert["labels"]["user"], &alert["labels"]["cause"]), (&client["user"], &own["cause"]), "{alert}");
    // The rest of the log comes: the episode ends, which is reported once.
    let rest = std::fs::read(&later).unwrap();
    std::io::Write::write_all(&mut std::fs::File::options().append(true).open(&log).unwrap(), &rest).unwrap();
    let over = wait_for(&lab, true);
    assert_eq!(over["body"]["episodes"][0]["id"], own["id"]);
    let (reports, stderr) = follower.end();
    let rows: Vec<&Value> = reports.iter().flat_map(|report| report["rows"].as_array().unwrap()).collect();
    assert_eq!(rows.iter().filter(|row| row["state"] == "ended").count(), 1, "{rows:?}");
    assert!(stderr.contains("changes"), "{stderr}");
    let mail = lab.noted("accepted");
    let mail = mail.iter().find(|one| one["channel"] == "mail").unwrap();
    assert!(mail["subject"].as_str().unwrap().starts_with("critical: "), "{mail}");
    assert!(mail["text"].as_str().unwrap().contains("do now      "), "{mail}");
    // Another run shows nothing of it again.
    let follower = Follower::start(&lab, &log);
    std::thread::sleep(Duration::from_secs(4));
    let (reports, stderr) = follower.end();
    assert!(reports.is_empty() && stderr.contains("reported 0 changes"), "{reports:?} {stderr}");
}
