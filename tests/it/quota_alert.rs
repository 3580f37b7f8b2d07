//! `plimsoll quota alert` against real receivers: who is notified of what and when is what an independent model says
//! (`tests/oracle/alerts_model.py`), and what becomes of channels that fail.

use crate::alert_lab::AlertLab;
use crate::alert_model::{Dice, model, shown};
use crate::support::feed;
use plimsoll::analysis::quota::{calendar, trend};
use plimsoll::model::alert::Calendar;
use plimsoll::model::series::{Day, Sketch};
use plimsoll::model::time::SECOND;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

/// A configuration in which one owner has every channel.
fn all_channels(lab: &AlertLab) {
    lab.config("default: { name: ops, channels: [mail, mails, hook, chat, pages] }\n");
}

fn full() -> Vec<(String, u64)> {
    vec![("shop".to_owned(), 97)]
}

#[test]
fn each_channel_gets_its_form() {
    let lab = AlertLab::start();
    all_channels(&lab);
    // Of today: Alertmanager believes in no end that lies ahead.
    let hour = jiff::Timestamp::now().as_second() / 3_600 - 4;
    let at = |later: i64| {
        jiff::Timestamp::from_second((hour + later) * 3_600).unwrap().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    };
    let report = lab.run(&lab.arguments(&at(0), &full()), &[]).json(0);
    assert_eq!(report["totals"]["sent"], 5, "{report}");
    let accepted = lab.noted("accepted");
    let of = |channel: &str| {
        accepted.iter().find(|one| one["channel"] == channel).unwrap_or_else(|| panic!("nothing by {channel}"))
    };
    let id = report["rows"][0]["message_id"].as_str().unwrap();
    let mail = of("mail");
    assert_eq!((&mail["to"], &mail["sender"]), (&json!(["ops@example.org"]), &json!("plimsoll@example.org")));
    assert_eq!(mail["subject"], "critical: 1 quota of ops near its limit (lab)");
    assert_eq!(mail["message_id"], format!("<{id}@plimsoll>"));
    assert!(
        mail["text"]
            .as_str()
            .unwrap()
            .contains(&format!("full       97 of 100, 97.0%, since {}", at(0)[..16].replace('T', " "))),
        "{mail}"
    );
    assert!(mail["text"].as_str().unwrap().contains("kubectl -n shop patch resourcequota "), "{mail}");
    assert!(mail["text"].as_str().unwrap().contains(r#"{"spec":{"hard":{"pods":"120"}}}"#), "{mail}");
    // What a reader wants to know: what it means, how old it is, and nothing that would lower anything.
    assert!(!mail["text"].as_str().unwrap().contains("kubectl apply"), "{mail}");
    assert_eq!((&of("mails")["tls"], &mail["tls"]), (&json!(true), &json!(false)), "STARTTLS");
    let hook = of("hook");
    assert_eq!((&hook["signed"], &hook["id"]), (&json!(true), &json!(id)));
    assert_eq!(hook["authorization"], "Basic cGxpbXNvbGw6c2VzYW1l");
    let body = &hook["body"];
    assert_eq!(
        (&body["schema"], &body["level"], &body["alerts"][0]["share"]),
        (&json!("plimsoll.quota-alert.message/v1"), &json!("critical"), &json!(0.97))
    );
    assert!(
        of("chat")["body"]["text"].as_str().unwrap().contains("• CRITICAL `shop` pods: 97 of 100 (97.0%)"),
        "{}",
        of("chat")
    );
    let alerts = lab.alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    let millis = |later: i64| json!(at(later).replace('Z', ".000Z"));
    assert_eq!((&alerts[0]["startsAt"], &alerts[0]["endsAt"]), (&millis(0), &millis(72)));
    assert_eq!(shown(&alerts[0]), "ops shop critical");
    // Again, an hour later: nothing new, but Alertmanager is reported that it still stands.
    let report = lab.run(&lab.arguments(&at(1), &full()), &[]).json(0);
    assert_eq!((report["totals"]["sent"].as_u64(), lab.noted("accepted").len()), (Some(0), 7));
    assert_eq!(lab.alerts()[0]["endsAt"], millis(73));
    // Nearly over: what Alertmanager knew as critical ends, and is a warning when that is reported.
    let nearly = [("shop".to_owned(), 85)];
    lab.run(&lab.arguments(&at(2), &nearly), &["--repeat", "1h"]).exits(0);
    assert_eq!(lab.alerts().iter().map(shown).collect::<Vec<_>>(), ["ops shop warning"]);
    // Over: Alertmanager has its end, the others are reported.
    let report = lab.run(&lab.arguments(&at(3), &[("shop".to_owned(), 10)]), &[]).json(0);
    assert_eq!(report["rows"][0]["reason"], "clear");
    assert!(lab.alerts().is_empty(), "{:?}", lab.alerts());
    let last = lab.noted("accepted").into_iter().rfind(|one| one["channel"] == "mail").unwrap();
    assert_eq!(last["subject"], "resolved: quotas of ops are below their thresholds again (lab)");
}

#[test]
fn a_channel_that_fails_holds_up_no_other_and_loses_nothing() {
    let mut lab = AlertLab::start();
    all_channels(&lab);
    lab.faults(&json!({"mail": "hang", "hook": "500", "mails": "refuse", "chat": {"after": 2}}));
    lab.stop_alertmanager();
    let began = Instant::now();
    let ran = lab.run(&lab.arguments("2037-05-04T10:00:00Z", &full()), &["--give-up", "4s"]);
    let report = ran.json(3);
    assert!(began.elapsed() < Duration::from_secs(12), "it took {:?}", began.elapsed());
    let by = |status: &str| -> BTreeSet<String> {
        let rows = report["rows"].as_array().unwrap().iter();
        rows.filter(|row| row["status"] == status).map(|row| row["channel"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(by("sent"), ["chat".to_owned()].into());
    assert_eq!(by("failed").len(), 4);
    for (channel, what) in
        [("mail", "channel mail:"), ("hook", "channel hook: HTTP 503: down"), ("mails", "550"), ("pages", "HTTP 502")]
    {
        assert!(ran.stderr.contains(what), "{channel}: {}", ran.stderr);
    }
    assert_eq!(ran.stderr.matches("1 message in the outbox").count(), 4, "{}", ran.stderr);
    let tried = lab.noted("tried");
    let tries = |channel: &str| {
        tried.iter().filter(|one| one["channel"] == channel).map(|one| one["at"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    // Retry-After: 2 seconds; without it half a second, one, two.
    let chat = tries("chat");
    assert!(chat.len() == 2 && chat[1] - chat[0] >= 2.0, "{chat:?}");
    let hook = tries("hook");
    assert!(
        hook.len() == 4 && hook[1] - hook[0] >= 0.5 && hook[2] - hook[1] >= 1.0 && hook[3] - hook[2] >= 2.0,
        "{hook:?}"
    );
    assert_eq!(tries("mails").len(), 1, "what is refused is not tried again at once");
    let other = |kind: &str| lab.noted("accepted").iter().filter(|one| one["channel"] != kind).count();
    assert_eq!(other("chat"), 0);
    // The next run delivers what is left, with the same id, and nothing else.
    lab.faults(&json!({}));
    lab.start_alertmanager();
    let id = report["rows"][0]["message_id"].clone();
    let report = lab.run(&lab.arguments("2037-05-04T11:00:00Z", &full()), &[]).json(0);
    assert_eq!(report["totals"]["sent"], 4, "{report}");
    assert!(report["rows"].as_array().unwrap().iter().all(|row| row["message_id"] == id), "{report}");
    assert_eq!(lab.alerts().len(), 1);
    // Where the objects can't be read, what is due is sent all the same.
    lab.faults(&json!({"mail": "500"}));
    lab.run(
        &lab.arguments("2037-05-04T12:00:00Z", &[("shop".to_owned(), 97), ("new".to_owned(), 99)]),
        &["--give-up", "1s"],
    )
    .exits(3);
    lab.faults(&json!({}));
    let mut arguments = lab.arguments("2037-05-04T13:00:00Z", &full());
    std::fs::write(&arguments[2], "{").unwrap();
    let before = lab.noted("accepted").len();
    lab.run(&arguments, &[]).exits(3);
    let after: Vec<Value> =
        lab.noted("accepted").into_iter().skip(before).filter(|one| one["channel"] == "mail").collect();
    assert_eq!(after.len(), 1);
    assert!(after[0]["text"].as_str().unwrap().contains("CRITICAL (new)  new: pods"), "{after:?}");
    // And nothing is taken for over.
    arguments = lab.arguments("2037-05-04T14:00:00Z", &[("shop".to_owned(), 97), ("new".to_owned(), 99)]);
    assert_eq!(lab.run(&arguments, &[]).json(0)["totals"]["sent"], 0);
}

#[test]
fn mail_goes_nowhere_if_the_server_is_not_the_one() {
    let lab = AlertLab::start();
    lab.config("default: { name: ops, channels: [mails] }\n");
    // The server's own certificate is by another authority now.
    std::fs::copy(lab.path().join("key.pem"), lab.path().join("other-key.pem")).unwrap();
    let ran = {
        let mut command = Command::new("openssl");
        command.current_dir(lab.path()).args([
            "req",
            "-x509",
            "-key",
            "other-key.pem",
            "-subj",
            "/CN=other",
            "-days",
            "2",
            "-out",
            "ca.pem",
        ]);
        feed(command, b"")
    };
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = lab.run(&lab.arguments("2037-05-04T10:00:00Z", &full()), &["--give-up", "300ms"]);
    assert!(ran.exits(3).stderr.contains("certificate"), "{}", ran.stderr);
    assert!(lab.noted("tried").is_empty());
}

#[test]
fn a_dry_run_shows_who_would_be_told_when_and_changes_nothing() {
    let lab = AlertLab::start();
    lab.config(
        "default: { name: rest, channels: [mail], hours: { zone: Europe/Berlin, from: \"09:00\", to: \"17:00\" }, \
         critical-any-time: false }\n\
         owners: [{ name: ops, namespaces: [\"ops-*\"], hours: always, channels: [chat, pages] }]\n",
    );
    // A Saturday; clocks are put forward in the night.
    let used = [("shop".to_owned(), 97), ("ops-a".to_owned(), 85), ("small".to_owned(), 3)];
    let arguments = lab.arguments("2037-03-28T12:00:00Z", &used);
    let report = lab.run(&arguments, &["--dry-run"]).json(0);
    let rows: BTreeSet<String> = report["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            ["owner", "channel", "status", "when", "local", "level"]
                .map(|name| row[name].as_str().unwrap_or("-"))
                .join(" ")
        })
        .collect();
    let wanted = [
        "ops chat now 2037-03-28T12:00:00Z - warning",
        "ops pages now 2037-03-28T12:00:00Z - warning",
        "rest mail waits 2037-03-30T07:00:00Z Mon 2037-03-30 09:00 CEST critical",
    ];
    assert_eq!(rows, wanted.map(str::to_owned).into());
    assert!(!lab.state().exists() && lab.noted("tried").is_empty());
    let table = lab.run(&arguments[..arguments.len() - 2], &["--dry-run"]);
    assert!(
        table.exits(0).stdout.contains("1 message would be sent in 2 deliveries, 1 waiting for working hours"),
        "{}",
        table.stdout
    );
}

#[test]
fn working_hours_are_those_of_zoneinfo() {
    let mut dice = Dice(4711);
    let zones = [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kolkata",
        "Asia/Kathmandu",
        "Pacific/Chatham",
        "America/St_Johns",
        "Africa/Casablanca",
        "America/Sao_Paulo",
        "Asia/Tehran",
        "UTC",
        "Pacific/Apia",
        "America/Havana",
        "Europe/Dublin",
    ];
    let start = "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second();
    let mut cases = Vec::new();
    for number in 0..1_200u64 {
        let zone = zones[dice.below(zones.len() as u64) as usize];
        let (from, to) = (dice.below(96) * 15, (dice.below(96) + 1) * 15);
        if from == to {
            continue;
        }
        // A third near the changes of clocks of 2026.
        let near = [
            "2026-03-08T07:00:00Z",
            "2026-03-29T01:00:00Z",
            "2026-10-25T01:00:00Z",
            "2026-11-01T06:00:00Z",
            "2026-04-04T15:00:00Z",
        ];
        let at = if number % 3 == 0 {
            let near = near[dice.below(5) as usize].parse::<jiff::Timestamp>().unwrap().as_second();
            near - 86_400 + dice.below(2 * 86_400) as i64
        } else {
            start + dice.below(2 * 365 * 86_400) as i64
        };
        let mut days: Vec<usize> = (0..7).filter(|_| dice.below(3) > 0).collect();
        if days.is_empty() {
            days.push(dice.below(7) as usize);
        }
        let today = jiff::Timestamp::from_second(at).unwrap().to_zoned(jiff::tz::TimeZone::UTC).date();
        let holidays: BTreeSet<jiff::civil::Date> = (0..5)
            .filter(|_| dice.below(3) == 0)
            .map(|ahead| today.checked_add(jiff::Span::new().days(ahead)).unwrap())
            .collect();
        let mut working = [false; 7];
        days.iter().for_each(|day| working[*day] = true);
        let zoned = jiff::tz::TimeZone::get(zone).unwrap();
        let calendar =
            Calendar { zone: zoned, days: working, from: from as u16, to: to as u16, holidays: holidays.clone() };
        let next = calendar::next_open(&calendar, at * SECOND).map(|next| next / SECOND);
        let holidays: Vec<String> = holidays.iter().map(ToString::to_string).collect();
        cases.push(json!({"zone": zone, "days": days, "from": from, "to": to, "holidays": holidays, "at": at,
                          "open": calendar::is_open(&calendar, at * SECOND), "next": next}));
    }
    let answer = model(&["hours"], &json!(cases));
    assert!(cases.iter().filter(|case| case["open"] == false).count() > 300);
    assert_eq!(answer["count"], 0, "{answer:#}");
}

#[test]
fn trends_are_those_of_numpy() {
    let mut dice = Dice(99);
    let mut cases = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..150 {
        let (today, step) = (20_000 + dice.below(50) as i32, dice.below(2_000) as f64 / 100.0 - 8.0);
        let (first, noise) = (dice.below(1_000) as f64, dice.below(60));
        let mut series: Vec<(i32, f64)> = Vec::new();
        let length = 3 + dice.below(80) as i32;
        for day in today - length..=today {
            if dice.below(6) > 0 {
                series.push((day, first + step * f64::from(day - today + length) + dice.below(noise + 1) as f64));
            }
        }
        let limit = first + dice.below(4_000) as f64;
        let days: Vec<Day> = series
            .iter()
            .map(|(day, max)| Day {
                day: *day,
                count: 1,
                min: 0.0,
                max: *max,
                max_at: 0,
                sum: *max,
                last: *max,
                last_at: 0,
                sustained: [*max; 4],
                sketch: Sketch::default(),
            })
            .collect();
        ours.push((trend::trend(&days, today), limit));
        let (days, values): (Vec<i32>, Vec<f64>) = series.into_iter().unzip();
        cases.push(json!({"today": today, "days": days, "values": values, "limit": limit}));
    }
    let answers = model(&["trend"], &json!(cases));
    let (mut with, mut reached) = (0, 0);
    for ((ours, limit), theirs) in ours.into_iter().zip(answers.as_array().unwrap()) {
        let Some(ours) = ours else {
            assert!(theirs.is_null(), "{theirs}");
            continue;
        };
        with += 1;
        let near = |a: f64, b: &Value| (a - b.as_f64().unwrap()).abs() <= 1e-9 * (1.0 + a.abs());
        assert!(near(ours.per_day, &theirs["per_day"]) && near(ours.now, &theirs["now"]), "{ours:?} {theirs}");
        match ours.days_until(limit) {
            Some(days) => {
                reached += 1;
                assert!((days - theirs["until"].as_f64().unwrap()).abs() < 1e-6, "{days} {theirs}");
            }
            None => assert!(theirs["until"].is_null(), "{theirs}"),
        }
    }
    assert!(with > 100 && reached > 30, "{with} {reached}");
}
