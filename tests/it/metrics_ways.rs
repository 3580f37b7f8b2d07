//! The ways in which metrics pages come in (files, folders, globs, packings, stdin, URLs), and what can be asked of
//! them.

use crate::metrics::{differences, metrics, near, oracle, packed, pages_of};
use crate::support::{count, folder, micros, none, number, plimsoll, rows, run, sample, sample_bytes, traffic, write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// Pages of quiet: time and text.
fn quiet() -> Vec<(u64, String)> {
    pages_of("quiet/metrics/apiserver-0")
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

const BY: &str = "verb,resource,code";

#[test]
fn one_page_is_what_there_was_since_the_start() {
    let (time, page) = quiet().remove(0);
    let folder = folder();
    let path = write(folder.path(), &format!("{time}.txt"), &page);
    let report = metrics(&path, BY, &[]);
    none(&differences(&report, &oracle(&path, &[BY])[BY], BY));
    // The counters themselves, counted without either program.
    let sum: f64 = page
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(count(&report["totals"], "requests") as f64, sum);
    let instance = &report["coverage"]["instances"][0];
    assert!(
        instance["since_start"] == true && near(number(instance, "seconds"), time as f64 - 1_795_167_701.05),
        "{instance}"
    );
    assert!(report["totals"]["peak_rps"].is_null());
    let ran = plimsoll(&["traffic", &path]);
    assert!(ran.exits(0).stdout.contains("totals since start"), "{}", ran.stdout);
}

#[test]
fn one_page_in_every_packing_and_through_stdin() {
    let (time, page) = quiet().remove(0);
    let folder = folder();
    let plain = metrics(&write(folder.path(), &format!("{time}.txt"), &page), BY, &[]);
    for (name, data) in [
        (format!("{time}.txt.gz"), gzip(&page)),
        (format!("{time}.txt.zst"), packed(&page)),
        (format!("{time}.prom"), page.clone().into_bytes()),
    ] {
        let report = metrics(&write(folder.path(), &format!("apart/{name}/{name}"), data), BY, &[]);
        assert_eq!((&report["rows"], &report["totals"]), (&plain["rows"], &plain["totals"]), "{name}");
    }
    for data in [page.clone().into_bytes(), gzip(&page), packed(&page)] {
        for more in [&["--from", "metrics"][..], &[]] {
            let ran = run(&[&["traffic", "-", "--by", BY, "-o", "json"], more].concat(), &[], &data);
            let report = ran.json(0);
            // Taken now: rates are others, counts are not.
            let counts = |report: &Value| {
                rows(report, BY).into_iter().map(|(key, row)| (key, row["requests"].clone())).collect::<Vec<_>>()
            };
            assert_eq!(counts(&report), counts(&plain));
            assert!((micros(&report["window"]["to"]) / 1_000_000).abs_diff(now()) < 60, "{}", report["window"]);
        }
    }
}

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
}

#[test]
fn two_pages_and_many() {
    let pages = quiet();
    for take in [2, 3, pages.len()] {
        let folder = folder();
        let mut paths = Vec::new();
        for (number, (time, page)) in pages.iter().take(take).enumerate() {
            // Names and packings may be mixed.
            let (name, data) = match number % 4 {
                0 => (format!("{time}.txt"), page.clone().into_bytes()),
                1 => (format!("page-{time}000.prom.gz"), gzip(page)),
                2 => (format!("{}.txt.zst", jiff::Timestamp::from_second(*time as i64).unwrap()), packed(page)),
                _ => (
                    format!(
                        "node_{}.metrics",
                        jiff::Timestamp::from_second(*time as i64).unwrap().to_string().replace(':', "-")
                    ),
                    page.clone().into_bytes(),
                ),
            };
            paths.push(write(folder.path(), &format!("apiserver-7/{name}"), data));
        }
        let source = folder.path().to_str().unwrap();
        let report = metrics(source, BY, &[]);
        none(&differences(&report, &oracle(source, &[BY])[BY], BY));
        assert_eq!(report["coverage"]["instances"].as_array().unwrap().len(), 1, "{}", report["coverage"]);
        // As single files, in any order, and by a glob: the same.
        paths.reverse();
        let files: Vec<&str> = paths.iter().map(String::as_str).collect();
        let ran = plimsoll(&[&["traffic", "--by", BY, "-o", "json"][..], &files].concat());
        assert_eq!(ran.json(0)["rows"], report["rows"]);
        let glob = format!("{source}/apiserver-7/*");
        assert_eq!(metrics(&glob, BY, &[])["rows"], report["rows"]);
    }
}

#[test]
fn when_a_page_was_taken() {
    let (_, page) = quiet().remove(0);
    for (name, time) in [
        ("1795166276.txt", Some("2026-11-20T09:17:56Z")),
        ("1795166276.25.txt", Some("2026-11-20T09:17:56.25Z")),
        ("1795166276250.txt", Some("2026-11-20T09:17:56.25Z")),
        ("apiserver-1795166276.prom", Some("2026-11-20T09:17:56Z")),
        ("kube_1795166276.metrics.gz", Some("2026-11-20T09:17:56Z")),
        ("2026-11-20T09:17:56Z.txt", Some("2026-11-20T09:17:56Z")),
        ("2026-11-20T09-17-56Z.om", Some("2026-11-20T09:17:56Z")),
        ("2026-11-20T09:17:56.5Z.zst", Some("2026-11-20T09:17:56.5Z")),
        ("2026-11-20T11:17:56+02:00.txt", Some("2026-11-20T09:17:56Z")),
        ("2026-11-20T04:17:56-05:00.txt", Some("2026-11-20T09:17:56Z")),
        ("page.txt", None),
    ] {
        let folder = folder();
        let data = if name.ends_with(".gz") {
            gzip(&page)
        } else if name.ends_with(".zst") {
            packed(&page)
        } else {
            page.clone().into_bytes()
        };
        let path = write(folder.path(), name, data);
        let ran = plimsoll(&["traffic", &path, "-o", "json"]);
        let report = ran.json(0);
        let found = micros(&report["window"]["to"]);
        let table = plimsoll(&["traffic", &path]).stdout;
        match time {
            Some(time) => {
                assert_eq!(found, micros(&json!(time)), "{name}");
                assert!(!table.contains("modification time"), "{name}: {table}");
            }
            None => {
                assert!((found / 1_000_000).abs_diff(now()) < 60, "{name}: {found}");
                assert!(table.contains("file's modification time"), "{name}: {table}");
            }
        }
    }
}

/// Serves pages by name, over and over; `encoded`: as `Content-Encoding: gzip`.
fn serve(pages: Vec<(&'static str, Vec<u8>)>, encoded: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            let name = request.split(' ').nth(1).unwrap().trim_start_matches('/');
            let found = pages.iter().find(|page| page.0 == name);
            let (status, body) = found.map_or(("404 Not Found", &b"nothing here"[..]), |page| ("200 OK", &page.1));
            let encoding = if encoded { "Content-Encoding: gzip\r\n" } else { "" };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n{encoding}Content-Length: \
                 {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body));
        }
    });
    address
}

#[test]
fn from_a_url() {
    let (time, page) = quiet().remove(0);
    let folder = folder();
    let plain = metrics(&write(folder.path(), &format!("{time}.txt"), &page), BY, &[]);
    let counts = |report: &Value| {
        rows(report, BY).into_iter().map(|(key, row)| (key, row["requests"].clone())).collect::<Vec<_>>()
    };
    let address = serve(
        vec![("metrics", page.clone().into_bytes()), ("page.gz", gzip(&page)), ("page.zst", packed(&page))],
        false,
    );
    for name in ["metrics", "page.gz", "page.zst"] {
        let url = format!("{address}/{name}");
        for more in [&[][..], &["--from", "metrics"]] {
            let ran = plimsoll(&[&["traffic", &url, "--by", BY, "-o", "json"], more].concat());
            assert_eq!(counts(&ran.json(0)), counts(&plain), "{name}");
        }
    }
    let encoded = serve(vec![("metrics", gzip(&page))], true);
    let report = traffic(&format!("{encoded}/metrics"), BY, &[]);
    assert_eq!(counts(&report), counts(&plain));
    let missing = plimsoll(&["traffic", &format!("{address}/missing"), "--from", "metrics"]);
    assert!(
        missing.exits(3).stderr.contains("404") && missing.stderr.contains(&format!("{address}/missing")),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_folder_with_metrics_only_says_so() {
    let folder = folder();
    for (time, page) in quiet().into_iter().take(2) {
        write(folder.path(), &format!("metrics/apiserver-0/{time}.txt"), page);
    }
    let source = folder.path().to_str().unwrap();
    let ran = plimsoll(&["traffic", source]);
    assert!(ran.exits(0).stdout.contains(&format!("No audit log in {source}")), "{}", ran.stdout);
    assert!(ran.stdout.contains("but not the clients"), "{}", ran.stdout);
    // Where there is one, it is what is read.
    let both = sample("quiet");
    assert_ne!(traffic(&both, "verb", &[])["coverage"]["source"], "metrics");
    assert_eq!(metrics(&both, "verb", &[])["coverage"]["source"], "metrics");
    // Pages are asked for, and there is none; and the other way round.
    write(folder.path(), "logs/audit.log", sample_bytes("forms/v1.log"));
    let ran = plimsoll(&["traffic", &format!("{source}/logs"), "--from", "metrics"]);
    assert!(ran.exits(3).stderr.contains("metrics"), "{}", ran.stderr);
    let ran = plimsoll(&["traffic", &format!("{source}/metrics"), "--from", "audit"]);
    assert!(ran.exits(3).stderr.contains("audit"), "{}", ran.stderr);
}

#[test]
fn what_metrics_do_not_tell_is_refused() {
    let source = sample("quiet/metrics");
    for (args, words) in [
        (&["--by", "user"][..], &["user", "audit"][..]),
        (&["--by", "verb,agent"], &["agent", "audit"]),
        (&["--by", "verb", "--where", "namespace=kube-system"], &["namespace", "audit"]),
        (&["--by", "flow_schema,verb"], &["flow_schema", "verb"]),
        (&["--by", "priority_level", "--where", "resource=pods"], &["priority_level", "resource"]),
        (&["--by", "no-such-dim"], &["no-such-dim", "verb"]),
    ] {
        let ran = plimsoll(&[&["traffic", &source, "--from", "metrics"], args].concat());
        for word in words {
            assert!(ran.exits(2).stderr.contains(word), "{args:?}: no '{word}' in {}", ran.stderr);
        }
        assert_eq!(ran.stdout, "", "{args:?}");
    }
    // Not known to be metrics until they are read.
    let ran = plimsoll(&["traffic", &source, "--by", "user"]);
    assert!(ran.exits(2).stderr.contains("user"), "{}", ran.stderr);
}

#[test]
fn parts_of_a_series_are_the_whole() {
    for (name, interval) in [("overload-restart", "30s"), ("list-storm", "1m"), ("quiet", "7s")] {
        let source = sample(name);
        let whole = metrics(&source, "verb", &[]);
        let parts = metrics(&source, "verb", &["--series", "--interval", interval]);
        for field in ["requests", "rps", "peak_rps", "throttled", "p99_ms", "glance"] {
            assert_eq!(parts["totals"][field], whole["totals"][field], "{name}");
        }
        let mut sums = BTreeMap::<String, [f64; 3]>::new();
        let list = parts["rows"].as_array().unwrap();
        let times: BTreeSet<i64> = list.iter().map(|row| micros(&row["time"])).collect();
        let length = times.iter().zip(times.iter().skip(1)).map(|(a, b)| b - a).min().unwrap();
        assert!(
            times.iter().all(|time| time % length == 0) && times.len() > 3,
            "{name}: aligned to {length}: {times:?}"
        );
        for row in list {
            let sum = sums.entry(row["verb"].as_str().unwrap().to_owned()).or_default();
            for (sum, value) in sum.iter_mut().zip([number(row, "requests"), number(row, "throttled"), 1.0]) {
                *sum += value;
            }
        }
        for (key, row) in rows(&whole, "verb") {
            let [requests, throttled, parts] = sums.remove(&key[0]).unwrap_or_default();
            // Each is rounded.
            let near = |sum: f64, field: &str| (sum - number(&row, field)).abs() <= parts / 2.0 + 1e-6;
            assert!(
                near(requests, "requests") && near(throttled, "throttled"),
                "{name}: {key:?} {requests} and {throttled} in {parts} parts: {row}"
            );
        }
        assert!(sums.is_empty(), "{name}: {sums:?}");
    }
}

#[test]
fn against_a_baseline() {
    let pages = quiet();
    let (before, after) = (folder(), folder());
    for (time, page) in &pages[..4] {
        write(before.path(), &format!("apiserver-0/{time}.txt"), page);
    }
    for (time, page) in &pages[4..] {
        write(after.path(), &format!("apiserver-0/{time}.txt"), page);
    }
    let (old, new) = (before.path().to_str().unwrap(), after.path().to_str().unwrap());
    let report = metrics(new, "verb", &["--baseline", old]);
    let was = rows(&metrics(old, "verb", &[]), "verb");
    let is = rows(&metrics(new, "verb", &[]), "verb");
    let mut compared = 0;
    for (key, row) in rows(&report, "verb") {
        let expected = is.get(&key).map_or(0.0, |row| number(row, "requests"));
        assert!(near(row["requests"].as_f64().unwrap_or_default(), expected), "{key:?}: {row}");
        let Some((was, is)) = was.get(&key).zip(is.get(&key)) else { continue };
        assert_eq!(
            (&row["base_requests"], &row["base_rps"], &row["base_p99_ms"]),
            (&was["requests"], &was["rps"], &was["p99_ms"]),
            "{row}"
        );
        let change = number(is, "rps") / number(was, "rps") - 1.0;
        // Of rates that are rounded.
        assert!((number(&row, "rps_change") - change).abs() < 1e-3, "{row}: {change}");
        compared += 1;
    }
    assert!(compared > 3, "{report}");
}

#[test]
fn since_and_until() {
    let pages = quiet();
    let folder = folder();
    for (time, page) in &pages[2..6] {
        write(folder.path(), &format!("apiserver-0/{time}.txt"), page);
    }
    let truth = metrics(folder.path().to_str().unwrap(), BY, &[]);
    let at = |n: usize| jiff::Timestamp::from_second(pages[n].0 as i64).unwrap().to_string();
    let found = metrics(&sample("quiet"), BY, &["--since", &at(2), "--until", &at(6)]);
    assert_eq!((&found["rows"], &found["window"]), (&truth["rows"], &truth["window"]));
    let none = plimsoll(&["traffic", &sample("quiet"), "--from", "metrics", "--since", "2030-01-01T00:00:00Z"]);
    assert!(none.exits(3).stderr.contains("--since"), "{}", none.stderr);
}
