//! What `plimsoll forecast` says: of series whose truth is known, and of series that make no sense.

use crate::support::{folder, jumble, plimsoll, sample, write};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// `samples/growth`, whose end is 2026-11-20.
fn growth_file() -> String {
    sample("growth/history.csv.zst")
}

/// Rows by the name that people read.
fn rows(report: &Value) -> BTreeMap<&str, &Value> {
    report["rows"].as_array().unwrap().iter().map(|row| (row["title"].as_str().unwrap(), row)).collect()
}

fn days(row: &Value, quantile: &str) -> Option<f64> {
    let end: jiff::Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
    let at: jiff::Timestamp = row["reached"][quantile].as_str()?.parse().unwrap();
    Some(at.duration_since(end).as_secs_f64() / 86_400.0)
}

#[test]
fn dates_are_those_that_the_sample_was_made_with() {
    let report = plimsoll(&["forecast", &growth_file(), "--horizon", "60d", "-o", "json"]).json(0);
    let rows = rows(&report);
    // samples/growth/README.md: when, and how much more a week.
    let range = |name: &str| ["p10", "p50", "p90"].map(|quantile| days(rows[name], quantile).unwrap_or(f64::INFINITY));
    for (name, truth) in [
        ("web/compute requests.cpu", 20.0..=24.0),
        ("ml/compute requests.cpu", 21.0..=21.0),
        ("cluster requests.cpu", 19.0..=22.0),
    ] {
        let [p10, _, p90] = range(name);
        assert!(
            p10 <= *truth.end() && *truth.start() <= p90 && rows[name]["verdict"] == "reaches",
            "{name}: {p10} to {p90}"
        );
    }
    // Of the sum the trend since ml moved in is not sure enough for more than a range.
    for (name, truth, growth) in
        [("web/compute requests.cpu", 20.0..=24.0, 1.5), ("ml/compute requests.cpu", 21.0..=21.0, 3.85)]
    {
        let [_, p50, _] = range(name);
        assert!((truth.start() - 3.0..=truth.end() + 3.0).contains(&p50), "{name}: {p50}");
        let per_week = rows[name]["growth_per_week"].as_f64().unwrap();
        assert!((per_week / growth - 1.0).abs() < 0.15, "{name}: {per_week} a week");
    }
    for name in
        ["batch/compute requests.cpu", "seats workload-low", "etcd db 10.0.0.11:2379", "memory /kubepods/apiserver"]
    {
        assert_eq!((rows[name]["verdict"].as_str(), days(rows[name], "p50")), (Some("clear"), None), "{name}");
    }
    // ml moved in at the beginning of day 41, and everything before teaches nothing of its level.
    let changes = rows["ml/compute requests.cpu"]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(changes[0]["at"].as_str().unwrap().starts_with("2026-11-01"), "{changes:?}");
    assert!((changes[0]["by"].as_f64().unwrap() - 14.0).abs() < 2.0, "{changes:?}");
    // What drives the sums.
    let driver = |name: &str| rows[name]["drivers"][0]["name"].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (driver("cluster requests.cpu"), driver("all objects"), driver("etcd db 10.0.0.11:2379")),
        ("ml".to_owned(), "workflows.argoproj.io".to_owned(), "workflows.argoproj.io".to_owned())
    );
    let bytes = rows["LIST bytes workflows.argoproj.io"]["growth_per_week"].as_f64().unwrap();
    assert!((bytes / (260.0 * 60_000.0 * 7.0) - 1.0).abs() < 0.05, "{bytes}");
    // The same twice, on any number of threads.
    let of = |threads: &str| {
        plimsoll(&["forecast", &growth_file(), "--horizon", "60d", "-o", "json", "--points", "--threads", threads])
            .json(0)["rows"]
            .clone()
    };
    assert_eq!(of("1"), of("2"));
}

/// A CSV of series, hour by hour.
fn csv(home: &Path, series: &[(&str, Vec<String>)]) -> String {
    let mut text = "name,time,value\n".to_owned();
    for (name, values) in series {
        for (hour, value) in values.iter().enumerate().filter(|(_, value)| !value.is_empty()) {
            writeln!(text, "{name},{},{value}", 1_789_948_800 + hour * 3_600).unwrap();
        }
    }
    write(home, "odd.csv", text)
}

/// What only wobbles, hour by hour without any pattern, is hardly ever forecast to reach what it never reached.
#[test]
fn noise_alarms_nobody() {
    let home = folder();
    let mut series: Vec<(String, Vec<String>)> = Vec::new();
    let mut limits = "series,limit\n".to_owned();
    for kind in ["even", "on-and-off", "counts", "walks"] {
        for number in 0..50_u64 {
            let mut level = 0.0;
            let mut draw = |hour: u64| {
                let drawn = jumble(jumble(number) ^ hour);
                match kind {
                    "even" => (drawn % 88) as f64,
                    "on-and-off" => [65.0, 5.0][usize::from(drawn % 10 > 2)],
                    // How many of 48 coins fall so: about 24.
                    "counts" => f64::from((drawn >> 16).count_ones()),
                    // It forgets half of where it was each hour.
                    _ => {
                        level = level / 2.0 + f64::from((drawn >> 16).count_ones()) - 24.0;
                        100.0 + level
                    }
                }
            };
            let values: Vec<f64> = (0..720).map(&mut draw).collect();
            let highest = values.iter().copied().fold(0.0, f64::max);
            let name = format!("{kind}-{number}");
            writeln!(limits, "{name},{}", highest * 1.15).unwrap();
            series.push((name, values.iter().map(f64::to_string).collect()));
        }
    }
    let named: Vec<(&str, Vec<String>)> = series.iter().map(|(name, values)| (name.as_str(), values.clone())).collect();
    let (path, limits) = (csv(home.path(), &named), write(home.path(), "limits.csv", limits));
    let report =
        plimsoll(&["forecast", &path, "--limits", &limits, "--horizon", "30d", "--step", "1h", "-o", "json"]).json(0);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 200);
    let alarms: Vec<&str> =
        rows.iter().filter(|row| !row["reached"]["p50"].is_null()).map(|row| row["name"].as_str().unwrap()).collect();
    // Before futures were bounded by what was highest it was a third of them. Now and then a model sees a rise where
    // there is none.
    assert!(alarms.len() <= 6, "{alarms:?}");
}

#[test]
fn odd_series_are_met_with_words_and_no_nonsense() {
    let home = folder();
    let all = |value: fn(usize) -> String| (0..720).map(value).collect::<Vec<_>>();
    let series = [
        ("flat", all(|_| "5".into())),
        ("zero", all(|_| "0".into())),
        ("one", vec!["5".into()]),
        ("few", (0..13).map(|hour| hour.to_string()).collect()),
        ("step", all(|hour| if hour < 600 { "5" } else { "60" }.into())),
        ("negative", all(|hour| format!("{}", -1_000 + hour as i64))),
        ("huge", all(|hour| format!("{}e306", 1.0 + hour as f64 / 100.0))),
        ("large", all(|hour| format!("{}e290", 1.0 + hour as f64 / 100.0))),
        ("tiny", all(|hour| format!("{}e-300", 1 + hour))),
        ("gaps", all(|hour| if hour % 50 < 40 { String::new() } else { hour.to_string() })),
        ("rare", all(|hour| if hour % 240 == 7 { "90" } else { "0" }.into())),
        ("wild", all(|hour| (jumble(hour as u64) % 88).to_string())),
        ("nan", all(|hour| if hour % 3 == 0 { "NaN" } else { "5" }.into())),
    ];
    let path = csv(home.path(), &series);
    let ran =
        plimsoll(&["forecast", &path, "--ended", "--limit", ".=100", "--horizon", "90d", "--step", "1h", "-o", "json"]);
    let report = ran.json(0);
    assert!(ran.stderr.contains("240 values left out: not finite numbers"), "{}", ran.stderr);
    let rows = rows(&report);
    assert_eq!(rows.len(), series.len());
    let verdict = |name: &str| rows[name]["verdict"].as_str().unwrap();
    for (name, expected) in [
        ("flat", "clear"),
        ("zero", "clear"),
        ("one", "too-short"),
        ("few", "too-short"),
        ("huge", "at-limit"),
        ("large", "at-limit"),
        ("tiny", "clear"),
        ("nan", "clear"),
    ] {
        assert_eq!(verdict(name), expected, "{name}: {}", rows[name]);
    }
    // Five days after a jump nobody knows whether there will be another, nor how high rare bursts go; neither is
    // forecast.
    for name in ["step", "rare", "wild"] {
        let row = rows[name];
        assert!(matches!(verdict(name), "clear" | "may-reach") && row["reached"]["p50"].is_null(), "{row}");
    }
    // A line: from -281 by one an hour, 100 is reached after 381 hours.
    let row = rows["negative"];
    let hours = row["days_left"].as_f64().unwrap() * 24.0;
    assert!((hours - 381.0).abs() <= 24.0, "{row}");
    for (name, row) in &rows {
        for quantile in ["p10", "p50", "p90"] {
            // Of what is at its limit it is now: the last value.
            let at: Option<jiff::Timestamp> = row["reached"][quantile].as_str().map(|at| at.parse().unwrap());
            assert!(
                at.is_none_or(|at| (1_789_948_800..1_789_948_800 + (720 + 90 * 24) * 3_600).contains(&at.as_second())),
                "{name}: {row}"
            );
        }
        let has_too_little = matches!(*name, "one" | "few");
        assert_eq!(row["note"].as_str().unwrap().contains("too few"), has_too_little, "{name}: {row}");
        assert!(row["growth_per_week"].is_number() || has_too_little || *name == "huge", "{name}: {row}");
    }
    assert!(rows["huge"]["note"].as_str().unwrap().contains("too large"), "{}", rows["huge"]);
    // No values at all.
    let empty = csv(home.path(), &[]);
    assert!(plimsoll(&["forecast", &empty]).exits(3).stderr.contains("no series"));
    let empty = csv(home.path(), &[("a", vec!["NaN".into(); 30])]);
    assert!(plimsoll(&["forecast", &empty]).exits(3).stderr.contains("no points"));
}

#[test]
fn what_if_is_told_with_what_is_assumed() {
    let report =
        plimsoll(&["forecast", &growth_file(), "--horizon", "60d", "--add", "web:+10 pods", "-o", "json"]).json(0);
    let scenario = &report["scenario"];
    let row = |title: &str| {
        let rows = scenario["rows"].as_array().unwrap();
        rows.iter().find(|row| row["title"] == title).unwrap_or_else(|| panic!("{title}: {rows:?}")).clone()
    };
    // The sample has 3.1 pods for each core, rounded.
    let quota = row("web/compute requests.cpu");
    let more = quota["after"]["current"].as_f64().unwrap() - quota["before"]["current"].as_f64().unwrap();
    assert!((more - 10.0 / 3.1).abs() < 0.1, "{quota}");
    let date = |side: &str| quota[side]["reached"]["p50"].as_str().unwrap().to_owned();
    assert!(date("after") < date("before"), "{quota}");
    assert!(
        scenario["assumptions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["name"] == "requests.cpu per pod of web" && one["sure"] == "measured")
    );
    let table =
        plimsoll(&["forecast", &growth_file(), "--horizon", "60d", "--add", "web:+10 pods", "--from", "2026-12-01"]);
    assert!(
        table.stdout.contains("With web:+10 pods from 2026-12-01:")
            && table.stdout.contains("Assumed: requests.cpu per pod of web"),
        "{}",
        table.stdout
    );
}

#[test]
fn what_a_newcomer_stumbled_over() {
    let home = folder();
    let row = |report: &Value| report["rows"][0].clone();
    // Counts that rise by one in ten days are no flat pieces.
    let mut text = "name,time,value\n".to_owned();
    for day in 0..90 {
        writeln!(text, "stair,{},{}", 1_787_356_800 + day * 86_400, (20.3 + 0.1 * f64::from(day)).round()).unwrap();
    }
    let stair = write(home.path(), "stair.csv", text);
    let found = row(&plimsoll(&["forecast", &stair, "--step", "1d", "--limit", "stair=31", "-o", "json"]).json(0));
    // 31 is shown from 30.5 on: 10.2 / 0.1 = 102 days after the first, 12 after the last.
    let (growth, days) = (found["growth_per_week"].as_f64().unwrap(), found["days_left"].as_f64().unwrap());
    assert!((growth - 0.7).abs() < 0.1 && (days - 12.0).abs() <= 8.0, "{found}");
    // Steps shorter than the distance of points.
    let found = row(&plimsoll(&[
        "forecast",
        &growth_file(),
        "--select",
        "cgroup",
        "--step",
        "15m",
        "--horizon",
        "10d",
        "-o",
        "json",
    ])
    .json(0));
    let per_week = found["growth_per_week"].as_f64().unwrap();
    assert!((per_week / (28.6e6 * 7.0) - 1.0).abs() < 0.1, "{found}");
    // No further than twice the history, and it is said.
    let ran = plimsoll(&["forecast", &growth_file(), "--select", "cgroup", "--horizon", "200d"]);
    assert!(ran.stdout.contains(">120d") && ran.stdout.contains("all to a shorter horizon"), "{}", ran.stdout);
    // A limit that limits nothing, a name of the table.
    let ran = plimsoll(&["forecast", &growth_file(), "--limit", "all objects=40k", "--limit", "nothing=1"]);
    assert!(
        ran.stdout.contains("--limit nothing matches no series") && !ran.stdout.contains("--limit all objects matches"),
        "{}",
        ran.stdout
    );
    // A value that is missing is a gap.
    let holes = write(home.path(), "holes.csv", "name,time,value\na,1789948800,1\na,1789952400,\na,1789956000,3\n");
    let ran = plimsoll(&["forecast", &holes, "--step", "1h", "--points", "-o", "json"]);
    assert_eq!(row(&ran.json(0))["history"]["values"], serde_json::json!([1.0, null, 3.0]));
    // Where everything is an exception nothing is known.
    let events = write(home.path(), "events.csv", "from,until,name\n2026-01-01,2027-01-01,all\n");
    let found =
        row(&plimsoll(&["forecast", &growth_file(), "--select", "cgroup", "--events", &events, "-o", "json"]).json(0));
    assert_eq!(found["verdict"], "too-short", "{found}");
    // Etcd's growth is that of its peaks: 15.6 MB a day.
    let found = row(&plimsoll(&["forecast", &growth_file(), "--select", "etcd", "-o", "json"]).json(0));
    assert!((found["growth_per_week"].as_f64().unwrap() / (15.6e6 * 7.0) - 1.0).abs() < 0.1, "{found}");
    plimsoll(&["forecast", &growth_file(), "--add", "web:+1 pods", "-o", "svg"]).exits(2);
}

#[test]
fn nodes_are_known_by_what_they_can_hold() {
    let scenario = |args: &[&str]| {
        plimsoll(&[&["forecast", &growth_file(), "-o", "json"], args].concat()).json(0)["scenario"].clone()
    };
    let cpu = |scenario: &Value| {
        let rows = scenario["rows"].as_array().unwrap();
        rows.iter().find(|row| row["title"] == "cluster requests.cpu").unwrap_or_else(|| panic!("{rows:?}")).clone()
    };
    // Eight nodes of 15.5 cores become twelve.
    let found = cpu(&scenario(&["--nodes", "12"]));
    assert_eq!((found["before"]["limit"].as_f64(), found["after"]["limit"].as_f64()), (Some(124.0), Some(186.0)));
    // No more goes than there is.
    let found = scenario(&["--add", "web:-1000 pods"]);
    assert!(found["unknown"].to_string().contains("web has no more than"), "{found}");
    let left = cpu(&found)["after"]["current"].as_f64().unwrap();
    // batch and ml stay: 22 and 28.
    assert!((45.0..65.0).contains(&left), "{left}");
    // What comes behind the horizon changes nothing before it.
    let found = scenario(&["--add", "web:+20 pods", "--from", "2028-01-01"]);
    let row = found["rows"].as_array().unwrap().iter().find(|row| row["title"] == "web/compute requests.cpu").unwrap();
    assert_eq!(
        (&row["after"]["probability"], &row["after"]["reached"]),
        (&row["before"]["probability"], &row["before"]["reached"])
    );
    assert!(scenario(&["--add", "web:+3 count/foos.example.com"])["unknown"].to_string().contains("has no history"));
}
