//! What `plimsoll forecast` reads: hours and days as SQL has them, from every source; limits; refusals.

use crate::forecast_grids::{Grids, equal, forecast, grids};
use crate::support::{feed, folder, plimsoll, python, root, write};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// What DuckDB makes of a file (tests/oracle/forecast_grids.py).
fn oracle(file: &str, step: i64) -> Grids {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/forecast_grids.py")).args([file, &step.to_string()]);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let found: BTreeMap<String, BTreeMap<String, f64>> = serde_json::from_str(&ran.stdout).unwrap();
    let numbered =
        |grid: BTreeMap<String, f64>| grid.into_iter().map(|(at, value)| (at.parse().unwrap(), value)).collect();
    found.into_iter().map(|(series, grid)| (series, numbered(grid))).collect()
}

/// Numbers that look like chance, the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Today's beginning, in seconds: a store drops points by the clock.
fn today() -> i64 {
    jiff::Timestamp::now().as_second() / 86_400 * 86_400
}

/// Days that the data are about; they end with yesterday.
const DAYS: i64 = 40;

/// Series about every ten minutes: with gaps of hours and days, out of order, some points twice, some values that are
/// none.
fn data() -> String {
    let mut chance = Chance(3);
    let end = today();
    let mut lines = Vec::new();
    for n in 0..24u64 {
        let labels = if n % 3 == 0 { format!("\"x, {n}\",") } else { format!("n{n},\"\"\"q\"\"\"") };
        // Of some the last hour or day is not over.
        let until = end - [0, 1_500, 7_200][(n % 3) as usize];
        let mut at = end - DAYS * 86_400 + chance.below(50_000) as i64;
        while at < until {
            let value = match chance.below(200) {
                0 => "NaN".to_owned(),
                1 => "-5e3".to_owned(),
                number => format!("{}.{number}", n * 100 + chance.below(900)),
            };
            let line = format!("depth,{labels},{at},{value}\n");
            if chance.below(20) == 0 {
                lines.push(line.clone());
            }
            lines.push(line);
            at += match chance.below(150) {
                0 => 11 * 3_600,
                // What ends a day before all others would be left out.
                1 if n == 5 && at < end - 6 * 86_400 => 4 * 86_400,
                _ => 590 + chance.below(20) as i64,
            };
        }
    }
    // Out of order by a good deal.
    for at in 0..lines.len() {
        let other = (at + chance.below(3_000) as usize).min(lines.len() - 1);
        lines.swap(at, other);
    }
    "name,a,b,time,value\n".to_owned() + &lines.concat()
}

/// The same as Parquet, in this order.
fn parquet(home: &Path, csv: &str, order: &str) -> String {
    let out = home.join(format!("{}.parquet", order.len())).to_str().unwrap().to_owned();
    let code = format!(
        "import duckdb; duckdb.sql(\"copy (select name, a, b, cast(time as double) as time, cast(value as double) as \
         value from \
         read_csv('{csv}', all_varchar=true, header=true) order by {order}) to '{out}' (format parquet, \
         row_group_size 20000)\")"
    );
    let mut command = Command::new(python());
    command.args(["-c", &code]);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    out
}

#[test]
fn hours_and_days_are_what_sql_says_from_every_source() {
    let home = folder();
    let csv = write(home.path(), "in.csv", data());
    let packed =
        write(home.path(), "in.csv.zst", zstd::encode_all(std::fs::read(&csv).unwrap().as_slice(), 1).unwrap());
    let (hours, days) = (oracle(&csv, 3_600), oracle(&csv, 86_400));
    assert_eq!(hours.len(), 24);
    let lengths = |grids: &Grids| grids.values().map(BTreeMap::len).sum::<usize>();
    assert!(lengths(&hours) > 10_000 && lengths(&days) > 24 * 30, "{} {}", lengths(&hours), lengths(&days));
    let store = |name: &str, more: &[&str]| {
        let store = home.path().join(name).to_str().unwrap().to_owned();
        plimsoll(&[&["record", "import", &csv, "--store", &store, "--keep", "4000d"], more].concat()).exits(0);
        store
    };
    let whole = store("whole", &["--keep-points", "3000d"]);
    for source in
        [&csv, &packed, &parquet(home.path(), &csv, "time"), &parquet(home.path(), &csv, "name, a, b, time"), &whole]
    {
        let (step, found) = grids(&forecast(&[source]).json(0));
        assert_eq!(step, 3_600, "{source}");
        equal(&found, &hours, source);
        let (step, found) = grids(&forecast(&[source, "--step", "1d"]).json(0));
        assert_eq!(step, 86_400, "{source}");
        equal(&found, &days, source);
    }
    // Most of the store's points are dropped: of the rest there are days.
    let short = store("short", &["--keep-points", "10d"]);
    let (step, found) = grids(&forecast(&[&short]).json(0));
    assert_eq!(step, 86_400);
    equal(&found, &days, "days of a store");
    // Other steps, a window, and two sources that have the same points.
    let quarters = oracle(&csv, 900);
    let (_, found) = grids(&forecast(&[&csv, "--step", "15m"]).json(0));
    equal(&found, &quarters, "a quarter of an hour");
    // With each point twice the last quarter may seem not to be over.
    let (_, mut found) = grids(&forecast(&[&csv, &whole, "--step", "15m"]).json(0));
    for (series, grid) in &mut found {
        quarters[series].last_key_value().map(|(at, value)| grid.entry(*at).or_insert(*value));
    }
    equal(&found, &quarters, "two sources");
    let since = today() - 5 * 86_400;
    let (_, found) =
        grids(&forecast(&[&csv, "--since", &jiff::Timestamp::from_second(since).unwrap().to_string()]).json(0));
    let mut later = hours.clone();
    later.values_mut().for_each(|grid| grid.retain(|hour, _| *hour >= since / 3_600));
    equal(&found, &later, "--since");
    // The test can see.
    let mut wrong = hours;
    *wrong.values_mut().next().unwrap().values_mut().next_back().unwrap() += 1.0;
    assert!(std::panic::catch_unwind(|| equal(&grids(&forecast(&[&csv]).json(0)).1, &wrong, "")).is_err());
}

#[test]
fn one_value_a_day_makes_days_and_what_ended_is_left_out() {
    let home = folder();
    let mut csv = "name,time,value\n".to_owned();
    for day in 0..200 {
        writeln!(csv, "sold,{},{day}", 1_600_000_000 + day * 86_400).unwrap();
        if day < 190 {
            writeln!(csv, "gone,{},{day}", 1_600_000_000 + day * 86_400).unwrap();
        }
    }
    let file = write(home.path(), "in.csv", csv);
    let report = forecast(&[&file]).json(0);
    let (step, found) = grids(&report);
    assert_eq!((step, found.len(), found["sold"].len()), (86_400, 1, 200));
    let (_, found) = grids(&forecast(&[&file, "--ended"]).json(0));
    assert_eq!((found.len(), found["gone"].len()), (2, 190));
    let ran = plimsoll(&["forecast", &file]);
    assert!(ran.exits(0).stdout.contains("1 series ended more than 3d before the last point of all"), "{}", ran.stdout);
}

#[test]
fn ranges_of_prometheus_in_files() {
    let home = folder();
    let values: Vec<Value> =
        (0..48).map(|hour| json!([1_700_000_000 / 3_600 * 3_600 + hour * 3_600, hour.to_string()])).collect();
    let answer = |metric: Value| {
        json!({"status": "success", "data": {"resultType": "matrix",
        "result": [{"metric": metric, "values": values}]}})
    };
    let file = write(home.path(), "a.json", answer(json!({"__name__": "etcd_db_bytes", "instance": "a"})).to_string());
    let report = forecast(&[&file, "--etcd-quota", "8Gi"]).json(0);
    let row = &report["rows"][0];
    assert_eq!((row["limit"].as_f64(), row["limit_from"].as_str()), (Some(8_589_934_592.0), Some("--etcd-quota")));
    assert_eq!(grids(&report).1["etcd_db_bytes|instance=a"].len(), 48);
    let nameless = write(home.path(), "b.json", answer(json!({"x": "y"})).to_string());
    assert!(forecast(&[&nameless]).exits(3).stderr.contains("--name"));
    assert_eq!(forecast(&[&nameless, "--name", "mine"]).json(0)["rows"][0]["series"], "mine{x=\"y\"}");
}

#[test]
fn limits_and_picks_are_those_of_the_flags() {
    let home = folder();
    let mut csv = "name,namespace,resourcequota,resource,type,time,value\n".to_owned();
    for hour in 0..100 {
        let at = 1_700_000_000 + hour * 3_600;
        for namespace in ["web", "batch"] {
            writeln!(csv, "kube_resourcequota,{namespace},team,requests.memory,used,{at},{hour}").unwrap();
            writeln!(csv, "kube_resourcequota,{namespace},team,requests.memory,hard,{at},{}", 1_000 - hour).unwrap();
        }
        writeln!(csv, "queue,,,,,{at},{hour}").unwrap();
        writeln!(csv, "namespace_usage,web,,memory,,{at},{hour}").unwrap();
    }
    let file = write(home.path(), "in.csv", csv);
    let limits = write(home.path(), "limits.csv", "series,limit\nqueue,2k\n");
    let ask = |more: &[&str]| -> Vec<(String, Option<f64>)> {
        let report = forecast(&[&[file.as_str()], more].concat()).json(0);
        let rows = report["rows"].as_array().unwrap().iter();
        let mut rows: Vec<_> = rows
            .map(|row| {
                let namespace = row["labels"]["namespace"].as_str().unwrap_or_default();
                (format!("{} {namespace}", row["name"].as_str().unwrap()).trim().to_owned(), row["limit"].as_f64())
            })
            .collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    };
    let row = |name: &str, limit| (name.to_owned(), limit);
    let (batch, web) = (row("kube_resourcequota batch", Some(901.0)), row("kube_resourcequota web", Some(901.0)));
    assert_eq!(ask(&[]), [batch.clone(), web.clone(), row("queue", None)]);
    assert_eq!(ask(&["--limits", &limits]), [batch.clone(), web.clone(), row("queue", Some(2_000.0))]);
    assert_eq!(
        ask(&["--limits", &limits, "--limit", "^queue=1", "--limit", "queue|web=3Ki"]),
        [
            batch,
            row("kube_resourcequota web", Some(3_072.0)),
            row("namespace_usage web", Some(3_072.0)),
            row("queue", Some(1.0))
        ]
    );
    assert_eq!(ask(&["-n", "web"]), std::slice::from_ref(&web));
    assert_eq!(ask(&["--select", "namespace=\"web\""]), [web.clone(), row("namespace_usage web", None)]);
    assert_eq!(ask(&["--select", "kube_resourcequota{namespace=\"web\",type=\"used\"}"]), [web]);
    assert!(forecast(&[&file, "-n", "none"]).exits(3).stderr.contains("no series is left"));
}

#[test]
fn what_makes_no_sense_is_refused_with_the_next_step() {
    let home = folder();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let good = write(home.path(), "good.csv", "name,time,value\na,1700000000,1\na,1700003600,2\n");
    let text = write(home.path(), "notes.txt", "Remember the milk.\nAnd bread.\n");
    let binary = write(home.path(), "binary", [0u8, 159, 146, 150].repeat(50));
    let half = write(home.path(), "half.csv", "name,time,value\na,1700000000,1\na,soon,2\n");
    let nothing = write(home.path(), "nothing.csv", "name,time,value\n");
    let wrong = write(home.path(), "limits.csv", "series,limit\na,much\n");
    let empty = path("empty");
    let header = write(home.path(), "in.csv", "name,time,value\n");
    plimsoll(&["record", "import", &header, "--store", &empty]).exits(0);
    let folder = home.path().to_str().unwrap();
    let absent = path("absent");
    let [good, text, binary, half, nothing, empty, wrong, absent] =
        [&good, &text, &binary, &half, &nothing, &empty, &wrong, &absent].map(|path| path.as_str());
    let cases: [(&[&str], i32, &str); 18] = [
        (&[], 2, "give a SOURCE"),
        (&[absent], 3, "check the path"),
        (&[folder], 3, "record"),
        (&[empty], 3, "no series here is forecast by default"),
        (&[nothing], 3, "no series here is forecast by default"),
        (&[text], 3, "notes.txt:1: no column 'name'"),
        (&[binary], 3, "binary"),
        (&[good, "--step", "7h"], 2, "1h, 15m, 1d"),
        (&[good, "--horizon", "soon"], 2, "12h, 30d, 8w"),
        (&[good, "--horizon", "9000d", "--step", "1m"], 2, "choose a longer --step"),
        (&[good, "--season", "90m", "--step", "1h"], 2, "whole steps"),
        (&[good, "--limits", wrong], 3, "limits.csv:2: 'much' is neither"),
        (&[good, "--limits", absent], 3, "check the path"),
        (&[good, "--limit", "a"], 2, "REGEX=NUMBER"),
        (&[good, "--select", "a("], 2, "regular expression"),
        (&[good, "--until", "2001-01-01"], 3, "no points"),
        (&[good, "--sort-by", "colour"], 2, "unknown field"),
        (&[good, "--since", "1970-01-01", "--step", "1m"], 2, "choose a longer --step"),
    ];
    for (args, code, expected) in cases {
        let ran = plimsoll(&[&["forecast"], args].concat());
        assert!(
            ran.exits(code).stderr.contains(expected) && ran.stdout.is_empty(),
            "{args:?}: {} {}",
            ran.stdout,
            ran.stderr
        );
    }
    plimsoll(&["forecast", good]).exits(0);
    // What stands before the damage is used.
    let ran = forecast(&[half]);
    assert!(ran.stderr.contains("half.csv:3: 'soon' is not a time"), "{}", ran.stderr);
    assert_eq!(grids(&ran.json(3)).1["a"].len(), 1);
}

#[test]
fn the_exit_code_is_that_of_the_days_left() {
    let home = folder();
    let mut csv = "name,time,value\n".to_owned();
    // Ten more each day, and a little noise; at the end about 590.
    let mut chance = Chance(1);
    for hour in 0..60 * 24 {
        writeln!(csv, "depth,{},{}", 1_700_000_400 + hour * 3_600, hour as f64 / 2.4 + chance.below(10) as f64 / 2.0)
            .unwrap();
    }
    let file = write(home.path(), "in.csv", csv);
    for (limit, fail_on, code) in [
        ("100", "critical", 1),
        ("640", "critical", 1),
        ("740", "critical", 0),
        ("740", "warning", 1),
        ("740", "never", 0),
        ("5000", "warning", 0),
    ] {
        let ran = plimsoll(&[
            "forecast",
            &file,
            "--limit",
            &format!("depth={limit}"),
            "--fail-on",
            fail_on,
            "--horizon",
            "30d",
        ]);
        assert_eq!(ran.code, Some(code), "{limit} {fail_on}: {} {}", ran.stdout, ran.stderr);
    }
    // Fifteen days: critical for those who say so.
    let within = ["forecast", &file, "--limit", "depth=740", "--fail-on", "critical", "--critical-within", "20d"];
    plimsoll(&within).exits(1);
}

/// Each cluster's quota limits its own use, whatever else the series carry; nothing is added to both at once.
#[test]
fn clusters_in_one_file_keep_their_limits() {
    let home = folder();
    let mut csv = "name,namespace,resourcequota,resource,type,cluster,instance,time,value\n".to_owned();
    let from = today() - DAYS * 86_400;
    for hour in 0..DAYS * 24 {
        for (cluster, start, hard) in [("eu", 40.0, 60.0), ("us", 50.0, 100.0)] {
            let used = start + 0.45 * hour as f64 / 24.0;
            for (kind, value) in [("used", used), ("hard", hard)] {
                let at = from + hour * 3_600;
                writeln!(csv, "kube_resourcequota,a,compute,pods,{kind},{cluster},ksm-{cluster},{at},{value}").unwrap();
            }
        }
    }
    let file = write(home.path(), "two.csv", csv);
    let found = plimsoll(&["forecast", &file, "-o", "json"]).json(0);
    let rows: Vec<(&str, f64)> = found["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["title"].as_str().unwrap(), row["limit"].as_f64().unwrap()))
        .collect();
    assert_eq!(rows, [("a/compute pods (cluster=eu)", 60.0), ("a/compute pods (cluster=us)", 100.0)]);
    // 58 of 60 and 0.45 more a day: in four days and some hours.
    let days = found["rows"][0]["days_left"].as_f64().unwrap();
    assert!((3.5..5.0).contains(&days) && found["rows"][1]["days_left"].is_null(), "{days}");
    let refused = plimsoll(&["forecast", &file, "--nodes", "3"]);
    assert!(refused.exits(2).stderr.contains("one cluster; here are several: eu, us"), "{}", refused.stderr);
    // The same as of a month ago is said to be old.
    let old = csv_of_old(from - 30 * 86_400);
    let file = write(home.path(), "old.csv", old);
    let found = plimsoll(&["forecast", &file, "--limit", "q=200"]).exits(0).stdout.clone();
    assert!(found.contains("The newest data is 40d"), "{found}");
    let dated = plimsoll(&["forecast", &file, "--limit", "q=200", "--until", "now"]).exits(0).stdout.clone();
    assert!(!dated.contains("The newest data"), "{dated}");
}

/// A line of thirty days.
fn csv_of_old(from: i64) -> String {
    let line = |hour: i64| format!("q,{},{}\n", from + hour * 3_600, 100.0 + hour as f64 / 24.0);
    "name,time,value\n".to_owned() + &(0..30 * 24).map(line).collect::<String>()
}
