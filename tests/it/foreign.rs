//! What foreign files and new users met: inputs in forms that the lab does not make, each with the answer that is right
//! for it.

use crate::support::{count, feed, folder, hermetic, plimsoll, rows, run, sample, sample_bytes, traffic, write};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Lines of a sample log.
fn lines(name: &str, most: usize) -> Vec<String> {
    let text = String::from_utf8(sample_bytes(name)).unwrap();
    text.lines().filter(|line| !line.is_empty()).take(most).map(str::to_owned).collect()
}

const QUIET: &str = "quiet/audit/apiserver-0/audit.log.zst";

/// An event of another day, at the same time of the day.
fn on(line: &str, day: &str) -> String {
    line.replace("2026-11-20T", &format!("{day}T"))
}

/// A day before all others, and one behind them.
fn stray(lines: &[String]) -> [String; 2] {
    [on(&lines[50], "1970-01-02"), on(&lines[60], "2099-06-07")]
}

/// Runs with at most so many megabytes of memory to allocate.
fn limited(megabytes: u64, args: &[&str]) -> crate::support::Ran {
    let home = folder();
    let mut command = hermetic(Command::new("sh"), home.path());
    let kilobytes = (megabytes * 1024).to_string();
    command
        .args(["-c", "ulimit -v $0 && exec \"$@\"", &kilobytes, env!("CARGO_BIN_EXE_plimsoll"), "--threads", "2"])
        .args(args);
    feed(command, b"")
}

#[test]
fn stray_times_are_set_aside_wherever_they_stand() {
    let home = folder();
    let all = lines(QUIET, 300);
    let [early, late] = stray(&all);
    let plain = write(home.path(), "plain/audit.log", all.join("\n") + "\n");
    let base = traffic(&plain, "verb,user", &[]);
    let forms = [
        ("first", [&[early.clone(), late.clone()], &all[..]].concat()),
        ("middle", [&all[..150], &[late.clone(), early.clone()], &all[150..]].concat()),
        ("last", [&all[..], &[early, late]].concat()),
    ];
    for (name, lines) in &forms {
        let text = lines.join("\n") + "\n";
        let path = write(home.path(), &format!("{name}/audit.log"), &text);
        let packed =
            write(home.path(), &format!("{name}-gz/audit.log.zst"), zstd::encode_all(text.as_bytes(), 3).unwrap());
        for source in [&path, &packed] {
            let ran = plimsoll(&["traffic", source, "--by", "verb,user", "-o", "json"]);
            let report = ran.json(3);
            for part in ["rows", "totals", "window"] {
                assert_eq!(report[part], base[part], "{source}: {part}");
            }
            assert_eq!((count(&report["inputs"][0], "skipped"), count(&report["inputs"][0], "records")), (2, 300));
            assert!(
                ran.stderr.contains("more than 32 days away") && ran.stderr.contains("1 more like it"),
                "{}",
                ran.stderr
            );
        }
        // A pipe can be read once only; what stands at its beginning says what it is about.
        let ran = run(&["traffic", "-", "--by", "verb,user", "-o", "json"], &[], text.as_bytes());
        assert_eq!(ran.json(3)["rows"], base["rows"], "{name} by a pipe");
        // Nothing of them makes what comes later late, or tiles longer.
        let clients = plimsoll(&["clients", &path, "-o", "json"]).json(3);
        assert_eq!((count(&clients["coverage"], "late_events"), &clients["window"]), (0, &base["window"]), "{name}");
    }
    // Whoever asks for that time is shown it.
    let middle = home.path().join("middle/audit.log");
    let then =
        plimsoll(&["traffic", middle.to_str().unwrap(), "--until", "1971-01-01T00:00:00Z", "-o", "json"]).json(0);
    assert_eq!(count(&then["totals"], "requests"), 1);
    // What is outside of the time that is asked for is not reported.
    let now = plimsoll(&[
        "traffic",
        middle.to_str().unwrap(),
        "--since",
        "2026-01-01T00:00:00Z",
        "--until",
        "2027-01-01T00:00:00Z",
        "-o",
        "json",
    ]);
    assert_eq!(now.json(0)["totals"]["requests"], base["totals"]["requests"]);
}

#[test]
fn reports_need_no_more_memory_for_stray_times_and_long_spans() {
    let home = folder();
    let all = lines(QUIET, 300);
    let [early, late] = stray(&all);
    let text = [&all[..], &[early, late]].concat().join("\n") + "\n";
    let path = write(home.path(), "stray/audit.log", &text);
    // Two events an hour for thirteen months.
    let start: jiff::Timestamp = "2025-10-01T00:30:00Z".parse().unwrap();
    let year: Vec<String> = (0..395 * 48)
        .map(|half_hour| {
            let at =
                (start + jiff::Span::new().minutes(30 * half_hour)).strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
            let line = &all[half_hour as usize % all.len()];
            let time = |text: &str, field: &str| {
                let from = text.find(&format!("\"{field}\":\"")).unwrap() + field.len() + 4;
                format!("{}{at}{}", &text[..from], &text[from + 27..])
            };
            time(&time(line, "requestReceivedTimestamp"), "stageTimestamp")
        })
        .collect();
    let year = year.join("\n") + "\n";
    let plain = write(home.path(), "year/audit.log", &year);
    let packed = write(home.path(), "packed/audit.log.zst", zstd::encode_all(year.as_bytes(), 3).unwrap());
    for (source, code) in [(&path, 3), (&plain, 0), (&packed, 0)] {
        let ran = limited(1_000, &["report", source, "-o", "json"]);
        let report = ran.json(code);
        let charts = report["charts"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|chart| chart["lines"].as_array().into_iter().flatten());
        assert!(charts.count() < 1_000);
        limited(1_000, &["clients", source, "-o", "json"]).json(code);
        limited(1_000, &["traffic", source, "--series", "-o", "json"]).json(code);
    }
    assert_eq!(
        count(&traffic(&plain, "verb", &[])["totals"], "requests"),
        count(&traffic(&packed, "verb", &[])["totals"], "requests")
    );
}

#[test]
fn a_page_of_another_century_stops_nothing() {
    let home = folder();
    let page = |value: u64| {
        format!(
            "# TYPE apiserver_request_total counter\napiserver_request_total{{verb=\"GET\",resource=\"pods\",\
             code=\"200\"}} {value}\n\
             # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.795166e+09\n"
        )
    };
    for (number, second) in [1_795_166_276u64, 1_795_166_291, 1_795_166_306, 1_795_166_321].into_iter().enumerate() {
        write(home.path(), &format!("metrics/apiserver-0/{second}.txt"), page(100 + 15 * number as u64));
    }
    let source = home.path().join("metrics");
    let base = plimsoll(&["traffic", source.to_str().unwrap(), "-o", "json"]).json(0);
    write(home.path(), "metrics/apiserver-0/4900000000.txt", page(500));
    for args in [&["traffic"][..], &["report"], &["balance"], &["controllers"], &["traffic", "--series"]] {
        let all = [args, &[source.to_str().unwrap(), "-o", "json"]].concat();
        let ran = limited(1_000, &all);
        assert_eq!(ran.code, Some(3), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("4900000000.txt: dated 2125-"), "{args:?}: {}", ran.stderr);
        if args == ["traffic"] {
            assert_eq!((&ran.json(3)["rows"], &ran.json(3)["window"]), (&base["rows"], &base["window"]));
        }
    }
    // Alone it is what it is.
    plimsoll(&["traffic", &format!("{}/apiserver-0/4900000000.txt", source.display()), "-o", "json"]).json(0);
}

#[test]
fn events_that_come_twice_count_once_where_that_happens() {
    let home = folder();
    let text = String::from_utf8(sample_bytes("forms/v1.log")).unwrap();
    let all: Vec<&str> = text.lines().collect();
    let base = traffic(&sample("forms/v1.log"), "verb,resource,user,code", &[]);
    let same = |source: &str, more: &[&str], copies: u64| {
        let args = [&["traffic", source, "--by", "verb,resource,user,code", "-o", "json"][..], more].concat();
        let report = plimsoll(&args).json(0);
        assert_eq!(count(&report["coverage"], "duplicate_events"), copies, "{source} {more:?}");
        assert_eq!(report["rows"], base["rows"], "{source} {more:?}");
        let message = plimsoll(&[&["traffic", source][..], more].concat());
        assert_eq!(message.exits(0).stdout.contains("counted once"), copies > 0, "{source}: {}", message.stdout);
    };
    // Exports deliver at least once.
    for form in ["eventlist.jsonl", "eks-s3-export.log", "aks.jsonl"] {
        let once = String::from_utf8(sample_bytes(&format!("forms/{form}"))).unwrap();
        let path = write(home.path(), &format!("{form}/audit.log"), format!("{once}{once}"));
        let events = all.len() as u64;
        let report = traffic(&path, "verb,resource,user,code", &[]);
        assert_eq!(count(&report["coverage"], "duplicate_events"), events, "{form}");
        assert_eq!(count(&report["totals"], "requests"), count(&base["totals"], "requests"), "{form}");
        let never = traffic(&path, "verb,resource,user,code", &["--dedupe", "never"]);
        assert_eq!(count(&never["totals"], "requests"), 2 * count(&base["totals"], "requests"), "{form}");
    }
    // Two copies under other names; files that overlap.
    write(home.path(), "copies/a.log", &text);
    write(home.path(), "copies/b.log", &text);
    same(home.path().join("copies").to_str().unwrap(), &[], all.len() as u64);
    write(home.path(), "overlap/audit-2026-11-20T09-37-56.438.log", all[..60].join("\n") + "\n");
    write(home.path(), "overlap/audit.log", all[39..].join("\n") + "\n");
    let overlap = home.path().join("overlap");
    same(overlap.to_str().unwrap(), &["--dedupe", "always"], 21);
    for threads in ["1", "2", "5"] {
        same(overlap.to_str().unwrap(), &["--dedupe", "always", "--threads", threads], 21);
    }
    // A plain log is what its apiserver wrote: an id that a client chose again is another request.
    same(&sample("forms/v1.log"), &[], 0);
    let again =
        write(home.path(), "again.log", format!("{text}{}", all[3].replace("2026-11-20T09:2", "2026-11-20T09:3")));
    let report = traffic(&again, "verb", &["--dedupe", "always"]);
    assert_eq!(count(&report["coverage"], "duplicate_events"), 0);
    // Other commands say so, too.
    let ran = plimsoll(&["clients", home.path().join("copies").to_str().unwrap(), "-o", "json"]);
    ran.exits(0);
    assert!(ran.stderr.contains("came twice and were counted once"), "{}", ran.stderr);
}

/// Bundles that were collected one after the other hold events of the same time: those of one apiserver are one log.
#[test]
fn events_that_two_bundles_hold_count_once() {
    let log: String = ["audit-2026-11-20T09-37-56.438.log", "audit-2026-11-20T09-40-27.680.log", "audit.log"]
        .map(|name| {
            let packed = sample_bytes(&format!("overload-restart/audit/apiserver-0/{name}.zst"));
            String::from_utf8(packed).unwrap()
        })
        .concat();
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let base = traffic(&sample("overload-restart"), "verb,resource,user,code", &[]);
    let (all, apart) = (lines.len(), lines.len() / 5);
    let check = |case: &str, about: Option<&str>, first: std::ops::Range<usize>, second: std::ops::Range<usize>| {
        for packing in ["", ".zst"] {
            let home = folder();
            let copies = first.end.saturating_sub(second.start);
            for (bundle, part) in [("a", first.clone()), ("b", second.clone())] {
                let text = lines[part].concat();
                let bytes =
                    if packing.is_empty() { text.into_bytes() } else { zstd::encode_all(text.as_bytes(), 3).unwrap() };
                write(home.path(), &format!("{bundle}/audit/apiserver-0/audit.log{packing}"), bytes);
                if let Some(about) = about {
                    write(home.path(), &format!("{bundle}/bundle.yaml"), about);
                }
            }
            let report = traffic(home.path().to_str().unwrap(), "verb,resource,user,code", &[]);
            assert_eq!(count(&report["coverage"], "duplicate_events"), copies as u64, "{case}, {about:?}, {packing}");
            let totals = |report: &Value| ["requests", "throttled"].map(|field| count(&report["totals"], field));
            assert_eq!(totals(&report), totals(&base), "{case}, {about:?}, {packing}");
            if about.is_some() {
                assert_eq!(report["rows"], base["rows"], "{case}, {packing}");
            }
        }
    };
    for about in [Some("cluster: lab-2\n"), None] {
        check("overlapping", about, 0..3 * apart, 2 * apart..all);
        check("one after the other", about, 0..3 * apart, 3 * apart..all);
    }
}

#[test]
fn entries_of_other_services_are_no_requests() {
    let home = folder();
    let text = String::from_utf8(sample_bytes("forms/gke.jsonl")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let base = traffic(&sample("forms/gke.jsonl"), "verb,resource", &[]);
    for service in ["container.googleapis.com", "compute.googleapis.com"] {
        let mut entry: Value = serde_json::from_str(&lines[0]).unwrap();
        entry["protoPayload"]["serviceName"] = service.into();
        entry["protoPayload"]["methodName"] = "google.container.v1.ClusterManager.GetCluster".into();
        lines.insert(5, entry.to_string());
    }
    let path = write(home.path(), "gke.jsonl", lines.join("\n") + "\n");
    let report = traffic(&path, "verb,resource", &[]);
    assert_eq!((&report["rows"], count(&report["coverage"], "other_entries")), (&base["rows"], 2));
    let message = plimsoll(&["traffic", &path]);
    assert!(message.exits(0).stdout.contains("2 entries of other services"), "{}", message.stdout);
    let only = write(home.path(), "only.jsonl", lines[5..7].join("\n") + "\n");
    assert_eq!(count(&traffic(&only, "verb", &[])["totals"], "requests"), 0);
}

#[test]
fn times_as_lakes_and_old_apiservers_write_them() {
    let home = folder();
    let text = String::from_utf8(sample_bytes("forms/v1.log")).unwrap();
    let base = traffic(&sample("forms/v1.log"), "verb,resource,user,code", &[]);
    let written = |from: &str, to: &str| {
        let field = regex::Regex::new(from).unwrap();
        field.replace_all(&text, to).into_owned()
    };
    for (name, to) in [("blank", "${1}${2} ${3}Z\""), ("no-zone", "${1}${2} ${3}\""), ("utc", "${1}${2} ${3} UTC\"")] {
        let text = written(r#"(Timestamp":")([0-9-]{10})T([0-9:.]+)Z""#, to);
        let report = traffic(&write(home.path(), &format!("{name}.log"), text), "verb,resource,user,code", &[]);
        assert_eq!(report["rows"], base["rows"], "{name}");
    }
    // Before Kubernetes 1.8 there was one time, that of arrival.
    let one = written(r#""requestReceivedTimestamp":"[^"]*","stageTimestamp":"#, r#""timestamp":"#);
    let report = traffic(&write(home.path(), "old.log", one), "verb", &[]);
    assert_eq!(count(&report["totals"], "requests"), count(&base["totals"], "requests"));
    assert!(report["totals"]["p50_ms"].is_null(), "{}", report["totals"]);
    // What has no time that can be read says what it has.
    let bad = written(r#""stageTimestamp":"[^"]*""#, r#""stageTimestamp":"20.11.2026","eventTime":"noon""#);
    let ran = plimsoll(&["traffic", &write(home.path(), "bad.log", bad)]);
    assert!(ran.exits(3).stderr.contains(r#"stageTimestamp "20.11.2026", eventTime "noon""#), "{}", ran.stderr);
}

#[test]
fn metrics_of_other_programs_and_forms_are_metrics() {
    let home = folder();
    let pcp: String = ["mem_util_inactive_anon", "mem_vmstat_pgfault", "mem_util_active"]
        .map(|name| format!("# HELP {name} x\n# TYPE {name} gauge\n{name} 1\n"))
        .concat();
    let ran = plimsoll(&["traffic", &write(home.path(), "pcp.txt", pcp)]);
    assert!(!ran.exits(3).stderr.contains("cgroup"), "{}", ran.stderr);
    assert!(ran.stderr.contains("/metrics/slis"), "{}", ran.stderr);
    // OpenMetrics writes seconds, with a fraction or without.
    for (name, at) in [("fraction", "1795166276.5"), ("whole", "1795166276")] {
        let sample = format!("apiserver_request_total{{verb=\"GET\",resource=\"pods\",code=\"200\"}} 7 {at}\n");
        let page = format!("# TYPE apiserver_request counter\n{sample}# EOF\n");
        let path = write(home.path(), &format!("{name}.txt"), page);
        let report = plimsoll(&["traffic", &path, "--since", "2026-01-01T00:00:00Z", "-o", "json"]).json(0);
        assert_eq!(count(&report["totals"], "requests"), 7, "{name}");
        assert!(
            report["window"]["to"].as_str().unwrap().starts_with("2026-11-20T09:17:56"),
            "{name}: {}",
            report["window"]
        );
    }
    let odd = "# TYPE foo{a=\"b\"} gauge\n# TYPE bar strange\nbar 1\n";
    let ran = plimsoll(&["traffic", &write(home.path(), "odd.txt", odd)]);
    assert!(!ran.stderr.contains("two pages put into one"), "{}", ran.stderr);
    assert!(ran.stderr.contains("an unknown type") && ran.stderr.contains("not a metric's name"), "{}", ran.stderr);
}

#[test]
fn what_is_packed_or_empty_is_said_with_the_next_step() {
    let home = folder();
    let packed = write(home.path(), "log.xz", b"\xfd7zXZ\x00rest of it");
    let zip = write(home.path(), "log.zip", b"PK\x03\x04rest of it");
    let commands: [&[&str]; 7] = [
        &["traffic"],
        &["guard", "events"],
        &["clients"],
        &["heap", "top"],
        &["etcd", "usage"],
        &["report"],
        &["controllers"],
    ];
    for command in commands {
        for (source, hint) in [(packed.as_str(), "unpack it with xz -d"), (zip.as_str(), "unpack it with unzip")] {
            let ran = plimsoll(&[command, &[source]].concat());
            assert_eq!(ran.code, Some(3), "{command:?} {source}: {}", ran.stderr);
            assert!(
                ran.stderr.contains(hint) || matches!(command, ["report" | "controllers" | "etcd", ..]),
                "{command:?}: {}",
                ran.stderr
            );
            assert!(ran.stdout.is_empty(), "{command:?} {source}: {}", ran.stdout);
        }
    }
    let blank = write(home.path(), "blank.log", " \n\n ");
    let ran = plimsoll(&["etcd", "usage", &blank]);
    assert!(ran.exits(3).stderr.contains("only spaces or NULs"), "{}", ran.stderr);
    assert_eq!(count(&traffic(&blank, "verb", &[])["totals"], "requests"), 0);
}

#[test]
fn what_a_path_is_for_has_to_be_said() {
    let bundle = sample("quiet");
    for (command, first) in
        [("etcd", "usage"), ("guard", "events"), ("quota", "check"), ("heap", "top"), ("memory", "show")]
    {
        let ran = plimsoll(&[command, &bundle]);
        assert!(ran.exits(2).stderr.contains(&format!("plimsoll {command} {first} {bundle}")), "{}", ran.stderr);
    }
    assert!(plimsoll(&[&bundle]).exits(2).stderr.contains(&format!("plimsoll report {bundle}")));
    // A typing error is one.
    assert!(!plimsoll(&["etcd", "usgae"]).exits(2).stderr.contains("is what to read"));
}

#[test]
fn a_config_that_nobody_named_is_a_warning() {
    let log = sample("forms/v1.log");
    let with_home = |home: &Path| {
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home);
        command.args(["traffic", &log, "-o", "json"]);
        feed(command, b"")
    };
    let home = folder();
    std::fs::create_dir_all(home.path().join(".config/plimsoll/config.toml")).unwrap();
    let ran = with_home(home.path());
    assert!(ran.exits(0).stderr.contains("can't read the config file"), "{}", ran.stderr);
    let other = folder();
    std::fs::write(other.path().join(".config"), "a file").unwrap();
    assert_eq!(with_home(other.path()).exits(0).stderr, "");
    let named = home.path().join(".config/plimsoll/config.toml");
    plimsoll(&["traffic", &log, "--config", named.to_str().unwrap()]).exits(2);
    let wrong = folder();
    write(wrong.path(), ".config/plimsoll/config.toml", "tpo = 3\n");
    with_home(wrong.path()).exits(2);
}

#[test]
fn a_forecast_of_one_page_says_what_it_needs() {
    let home = folder();
    let page = write(home.path(), "page.txt", "# TYPE up gauge\nup 1\n");
    let ran = plimsoll(&["forecast", &page]);
    assert!(
        ran.exits(3).stderr.contains("plimsoll record") && ran.stderr.contains("a forecast requires a series"),
        "{}",
        ran.stderr
    );
}

/// Pages in a folder whose name says only what is in it are of an instance without a name: sentences about it are whole
/// all the same.
#[test]
fn what_has_no_name_is_called_something() {
    let home = folder();
    let page = |number: u64| {
        format!(
            "# TYPE workqueue_depth gauge\nworkqueue_depth{{name=\"autoregister\"}} {}\n# TYPE workqueue_adds_total \
             counter\nworkqueue_adds_total{{name=\"autoregister\"}} {}\n\
             # TYPE workqueue_work_duration_seconds histogram\n\
             workqueue_work_duration_seconds_bucket{{name=\"autoregister\",le=\"+Inf\"}} 5\n\
             workqueue_work_duration_seconds_sum{{name=\"autoregister\"}} \
             1\nworkqueue_work_duration_seconds_count{{name=\"autoregister\"}} 5\n\
             # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}\n\
             # TYPE apiserver_request_total counter\napiserver_request_total{{verb=\"GET\",resource=\"pods\",\
             code=\"200\"}} {}\n",
            20 + 10 * number,
            100 + 10 * number,
            if number < 3 { 1_795_166_000 } else { 1_795_166_360 },
            100 * number
        )
    };
    for number in 0..6 {
        write(home.path(), &format!("apiserver/{}.txt", 1_795_166_276 + 30 * number), page(number));
    }
    let source = home.path().join("apiserver").to_str().unwrap().to_owned();
    let gap =
        regex::Regex::new(r"\b(of|on|only|by|from|in|to) (  *[a-z]|\.|,|$)|\((on|of|from)? ?\)|^\s*\([a-z-]+\) [a-z]")
            .unwrap();
    for args in [
        &["controllers"][..],
        &["balance"],
        &["report", "-o", "markdown"],
        &["traffic", "--from", "metrics", "--health"],
    ] {
        let ran = plimsoll(&[args, &[source.as_str()]].concat());
        let odd: Vec<&str> = ran
            .stdout
            .lines()
            .chain(ran.stderr.lines())
            .filter(|line| !line.contains("   ") && gap.is_match(line))
            .collect();
        assert!(odd.is_empty(), "{args:?}: {odd:?}");
    }
    // From within the folder there is no name at all.
    let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
    command.current_dir(&source).args(["controllers", "."]);
    let answer = feed(command, b"");
    assert!(
        answer.exits(0).stdout.contains("\"autoregister\" of apiserver is stuck")
            || answer.stdout.contains("\"autoregister\" of the process"),
        "{}",
        answer.stdout
    );
}

#[test]
fn a_report_can_be_bounded() {
    let storm = sample("list-storm");
    let report = |more: &[&str]| plimsoll(&[&["report", &storm, "-o", "json"][..], more].concat());
    let since = report(&["--since", "2026-11-20T09:20:00Z"]).json(0);
    assert!(since["window"]["from"].as_str().unwrap() >= "2026-11-20T09:20:00", "{}", since["window"]);
    let until = report(&["--until", "2026-11-20T09:20:30Z"]).json(0);
    assert!(until["window"]["to"].as_str().unwrap() <= "2026-11-20T09:20:31Z", "{}", until["window"]);
    assert!(report(&["--since", "2027-01-01T00:00:00Z"]).exits(2).stderr.contains("between --since and --until"));
}

#[test]
fn logs_beside_pages_are_called_as_they_are() {
    let home = folder();
    let all = lines("list-storm/audit/apiserver-0/audit.log.zst", 400);
    let other = lines("list-storm/audit/apiserver-1/audit.log.zst", 400);
    write(home.path(), "audit/audit.log", all.join("\n") + "\n");
    write(home.path(), "audit-1/audit.log", other.join("\n") + "\n");
    for instance in ["apiserver-0", "apiserver-1"] {
        let from = sample(&format!("list-storm/metrics/{instance}"));
        let mut files: Vec<_> = std::fs::read_dir(from).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        for file in &files[..2] {
            let name = file.file_name().unwrap().to_str().unwrap();
            write(home.path(), &format!("metrics/{instance}/{name}"), std::fs::read(file).unwrap());
        }
    }
    let source = home.path().to_str().unwrap();
    let report = plimsoll(&["balance", source, "-o", "json"]).json(0);
    let names: Vec<&str> =
        report["rows"].as_array().unwrap().iter().map(|row| row["instance"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"apiserver-0") && names.contains(&"apiserver-1"), "{names:?}");
    // Logs alone are called alike, with or without them.
    let by = traffic(source, "instance", &["--from", "audit"]);
    assert_eq!(rows(&by, "instance").len(), 2);
    assert!(rows(&by, "instance").contains_key(&vec!["apiserver-0".to_owned()]), "{}", by["rows"]);
    // Without names nothing is half a sentence.
    let nameless = folder();
    write(nameless.path(), "audit.log", all.join("\n") + "\n");
    for command in ["balance", "controllers", "report"] {
        let ran = plimsoll(&[command, nameless.path().to_str().unwrap()]);
        for half in ["only  is", " of  ", "(on )", "  is known by", "\t(apiserver)"] {
            assert!(!ran.stdout.contains(half), "{command}: {half:?} in {}", ran.stdout);
        }
    }
}

#[test]
fn list_sizes_are_those_that_a_real_apiserver_answered() {
    let data = crate::support::root().join("tests/data/list-sizes");
    let home = folder();
    let text = |name: &str| std::fs::read_to_string(data.join(name)).unwrap();
    let log = write(home.path(), "audit/audit.log", text("audit.log"));
    let unpack = |name: &str| zstd::decode_all(std::fs::read(data.join(name)).unwrap().as_slice()).unwrap();
    let database = write(home.path(), "snap.db", unpack("snap.db.zst"));
    let metrics = write(home.path(), "metrics/1795369860.txt", unpack("metrics.txt.zst"));
    let truth: Vec<Value> = serde_json::from_str(&text("truth.json")).unwrap();
    let estimates = |more: &[&str]| -> std::collections::BTreeMap<String, Value> {
        let report =
            plimsoll(&[&["clients", &log, "--k8s-version", "v1.36", "--top", "0", "-o", "json"][..], more].concat())
                .json(0);
        let of = |row: &Value| (row["client"]["agent"].as_str().unwrap().to_owned(), row["est_list_bytes"].clone());
        report["rows"].as_array().unwrap().iter().map(of).collect()
    };
    let (by_database, by_metrics) = (estimates(&["--objects", &database]), estimates(&[&metrics]));
    let (mut exact, mut near) = (0, 0);
    for list in &truth {
        let (agent, bytes) = (list["agent"].as_str().unwrap(), list["json_bytes"].as_f64().unwrap());
        let off = |estimate: &Value| estimate.as_f64().map(|estimate| (estimate / bytes - 1.0).abs());
        let database = off(&by_database[agent]).unwrap_or_else(|| panic!("{list}: nothing by the database"));
        // An envelope's length depends on how many digits a version has; stored definitions are of an older form.
        assert!(database <= 0.02, "{list}: {} by the database", by_database[agent]);
        exact += 1;
        // Metrics count no events and no single namespaces.
        if let Some(off) = off(&by_metrics[agent]).filter(|_| list["namespace"].is_null()) {
            assert!(off <= 0.12, "{list}: {} by metrics", by_metrics[agent]);
            near += usize::from(off <= 0.1);
        }
    }
    assert!(exact >= 20 && near >= 14, "{exact} by the database, {near} within a tenth by metrics");
    assert_eq!(by_metrics["truth2-events"], Value::Null, "the apiserver does not say how large events are");
}

#[test]
fn bundles_carry_sizes_of_bodies_and_not_what_is_in_them() {
    use plimsoll::sources::audit::strip;
    // What is counted is the same with and without.
    let home = folder();
    let log = sample_bytes("levels/audit.log.zst");
    let mut stripped = Vec::new();
    let done = strip::log(log.as_slice(), &mut stripped).unwrap();
    assert!(done.events > 50 && done.dropped == 0, "{done:?}");
    let whole = write(home.path(), "whole/audit.log", &log);
    let without = write(home.path(), "stripped/audit.log", &stripped);
    assert!(stripped.len() < log.len(), "{} of {}", stripped.len(), log.len());
    for args in [
        &["traffic", "--by", "verb,resource,user,code"][..],
        &["clients", "--top", "0"],
        &["guard", "events"],
        &["controllers"],
    ] {
        let of = |source: &str| {
            let mut report = plimsoll(&[args, &[source, "-o", "json"]].concat()).json(0);
            report["inputs"] = json!([]);
            report
        };
        assert_eq!(of(&whole), of(&without), "{args:?}");
    }
}

/// Etcd's default quota is no quota that anybody set: EKS allows 8 GiB.
#[test]
fn a_limit_that_is_only_assumed_alarms_nobody() {
    let home = folder();
    let mut rows = "name,time,value,instance\n".to_owned();
    for day in 0..60u64 {
        rows +=
            &format!("etcd_db_bytes,{},{},10.0.0.1\n", 1_789_948_800 + day * 86_400, 1_200_000_000 + day * 14_000_000);
    }
    let path = write(home.path(), "history.csv", rows);
    let forecast =
        |more: &[&str]| plimsoll(&[&["forecast", &path, "--fail-on", "warning", "-o", "json"][..], more].concat());
    let report = forecast(&[]).json(0);
    assert_eq!(report["rows"].as_array().unwrap().len(), 1, "{report}");
    let finding = &report["findings"][0];
    assert_eq!((&finding["id"], &finding["severity"]), (&json!("forecast-limit-reached"), &json!("info")), "{report}");
    assert!(finding["remedy"].as_str().unwrap().contains("--etcd-quota"), "{finding}");
    // The same one, named.
    forecast(&["--etcd-quota", "2Gi"]).json(1);
    forecast(&["--etcd-quota", "8Gi"]).json(0);
}

#[test]
fn a_point_of_the_future_is_no_end_of_a_history() {
    let home = folder();
    let text = String::from_utf8(sample_bytes("growth/history.csv.zst")).unwrap();
    let plain = write(home.path(), "plain.csv", &text);
    let mut lines: Vec<&str> = text.lines().collect();
    let time = lines[5].split(',').nth(1).unwrap();
    let odd = lines[5].replace(time, "7226582400");
    lines.insert(lines.len() / 2, &odd);
    let stray = write(home.path(), "stray.csv", lines.join("\n") + "\n");
    let rows = |path: &str, code: i32| plimsoll(&["forecast", path, "-o", "json"]).json(code)["rows"].clone();
    let ran = plimsoll(&["forecast", &stray]);
    assert!(ran.exits(3).stderr.contains("1 point in the future"), "{}", ran.stderr);
    assert_eq!(rows(&stray, 3), rows(&plain, 0));
}

/// What is read on is judged by what was read before.
#[test]
fn stray_times_are_set_aside_while_a_log_is_followed() {
    let home = folder();
    let all = lines("quiet/audit/apiserver-0/audit.log.zst", 300);
    let plain = write(home.path(), "plain.log", all.join("\n") + "\n");
    let [early, late] = stray(&all);
    let mut odd = all.clone();
    odd.insert(100, early);
    odd.insert(200, late);
    let odd = write(home.path(), "odd.log", odd.join("\n") + "\n");
    let follow = |path: &str, code: i32| {
        let ran = plimsoll(&[
            "traffic",
            path,
            "--follow",
            "--for",
            "1s",
            "--every",
            "500ms",
            "--by",
            "verb,resource",
            "-o",
            "json",
        ]);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
        (last["rows"].clone(), last["window"].clone())
    };
    assert_eq!(follow(&odd, 3), follow(&plain, 0));
}

#[test]
fn a_list_from_the_cache_is_not_told_to_come_from_the_cache() {
    let home = folder();
    let event = |n: u32, uri: &str| {
        json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": format!("{n}"),
            "stage": "ResponseComplete", "requestURI": uri,
            "verb": "list", "user": {"username": "bot"}, "userAgent": "bot/v1", "sourceIPs": ["10.0.0.1"],
            "objectRef": {"resource": "pods"},
            "responseStatus": {"code": 200}, "requestReceivedTimestamp": format!("2026-11-20T09:{:02}:00.000000Z", n),
            "stageTimestamp": format!("2026-11-20T09:{:02}:00.100000Z", n)})
        .to_string()
    };
    let remedy = |uri: &str| {
        let log: Vec<String> = (0..30).map(|n| event(n, uri)).collect();
        let path = write(home.path(), "audit.log", log.join("\n") + "\n");
        let report = plimsoll(&["clients", &path, "--k8s-version", "v1.30", "-o", "json"]).json(0);
        let found = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["id"] == "client-repeated-list")
            .cloned();
        found.unwrap_or_else(|| panic!("{report}"))["remedy"].as_str().unwrap().to_owned()
    };
    let (cached, quorum) = (remedy("/api/v1/pods?resourceVersion=0"), remedy("/api/v1/pods"));
    assert!(!cached.contains("resourceVersion=0"), "{cached}");
    assert!(cached.contains("watch") && quorum.contains("watch"), "{cached}\n{quorum}");
}

#[test]
fn a_profile_without_names_of_its_types_says_what_to_name() {
    let home = folder();
    let path = write(home.path(), "odd.pb.gz", {
        // A profile of one sample type whose name is no text that there is.
        let bytes = [0x0a, 0x04, 0x08, 0x00, 0x10, 0x00, 0x12, 0x02, 0x12, 0x00, 0x32, 0x00];
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packer, &bytes).unwrap();
        packer.finish().unwrap()
    });
    let ran = plimsoll(&["heap", "top", &path]);
    assert!(ran.code != Some(0) && !ran.stderr.contains("are ;") && !ran.stderr.contains("are :"), "{}", ran.stderr);
}
