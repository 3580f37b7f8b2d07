//! Every form of `samples/forms` gives the rows of the plain log, whichever way it comes in: as a file, through stdin,
//! in a folder, by a glob, from a URL.

use crate::support::{
    COUNTS, agree, count, folder, none, oracle, plimsoll, root, rows, run, sample, sample_bytes, traffic, write,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

const BY: &str = "verb,resource,user,code,namespace";

/// The exit code of each form: 3 where entries that are no audit events stand between the others
/// (`samples/forms/README.md`).
const FORMS: [(&str, i32); 18] = [
    ("v1.log", 0),
    ("v1beta1.log", 0),
    ("v1.log.gz", 0),
    ("v1.log.zst", 0),
    ("crlf.log", 0),
    ("no-final-newline.log", 0),
    ("eventlist.jsonl", 0),
    ("eventlist-pretty.json", 0),
    ("host-prefix.log", 0),
    ("cri.log", 0),
    ("eks-filter-log-events.json", 0),
    ("eks-subscription.json.gz", 0),
    ("eks-s3-export.log", 0),
    ("gke.jsonl", 0),
    ("gke-array.json", 0),
    ("aks.jsonl", 0),
    ("aks-eventhub.json", 0),
    ("aks-log-analytics.json", 0),
];

fn form(name: &str) -> String {
    sample(&format!("forms/{name}"))
}

/// The rows without what a GKE entry does not carry: latencies, and 201 as another code than 200.
fn as_gke(rows: &BTreeMap<Vec<String>, Value>) -> BTreeMap<Vec<String>, [u64; 5]> {
    let mut merged = BTreeMap::<_, [u64; 5]>::new();
    for (key, row) in rows {
        let key =
            key.iter().map(|text| if text == "201" { "200".to_owned() } else { text.clone() }).collect::<Vec<_>>();
        let counts = merged.entry(key).or_default();
        COUNTS.iter().zip(counts).for_each(|(field, sum)| *sum += count(row, field));
    }
    merged
}

/// Compares a report of a form with the plain log's.
#[track_caller]
fn same_rows(name: &str, report: &Value, plain: &BTreeMap<Vec<String>, Value>) {
    let found = rows(report, BY);
    if name.starts_with("gke") {
        assert_eq!(as_gke(&found), as_gke(plain), "{name}");
        assert!(
            found.values().all(|row| row["p50_ms"].is_null() && row["max_ms"].is_null()),
            "{name} has no latency to show"
        );
    } else {
        assert_eq!(&found, plain, "{name}");
    }
    let inputs = report["inputs"].as_array().unwrap();
    let records: u64 = inputs.iter().map(|input| count(input, "records")).sum();
    assert_eq!(records, 84, "events of {name}");
}

fn plain_rows() -> BTreeMap<Vec<String>, Value> {
    rows(&traffic(&form("v1.log"), BY, &[]), BY)
}

#[test]
fn the_plain_log_is_counted_right() {
    let truth = oracle(&[BY], &[form("v1.log")], &[]);
    let report = traffic(&form("v1.log"), BY, &[]);
    agree(&report, &truth["breakdowns"][BY], BY);
    assert!(rows(&report, BY).len() > 20);
    assert_eq!((count(&report["totals"], "requests"), count(&report["totals"], "open")), (83, 1));
}

#[test]
fn every_form_is_in_the_list() {
    let mut names: Vec<String> = std::fs::read_dir(root().join("samples/forms"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !["README.md", "make.py"].contains(&name.as_str()) && !name.starts_with(['.', '_']))
        .collect();
    names.sort();
    let mut listed: Vec<&str> = FORMS.iter().map(|form| form.0).collect();
    listed.sort_unstable();
    assert_eq!(names, listed);
}

#[test]
fn as_a_file() {
    let plain = plain_rows();
    let mut faults = Vec::new();
    for (name, code) in FORMS {
        let ran = plimsoll(&["traffic", &form(name), "--by", BY, "-o", "json"]);
        same_rows(name, &serde_json::from_str(&ran.stdout).unwrap(), &plain);
        if ran.code != Some(code) {
            faults.push(format!("{name}: exit code {:?}, not {code}: {}", ran.code, ran.stderr.trim()));
        }
    }
    none(&faults);
}

#[test]
fn what_is_lost_is_what_the_oracle_loses() {
    // A CONTROL_MESSAGE at the start of every Firehose object is no loss, nor is the rest of a document behind its
    // list.
    let mut faults = Vec::new();
    for (name, _) in FORMS {
        let truth = oracle(&["verb"], &[form(name)], &[]);
        let ran = plimsoll(&["traffic", &form(name), "-o", "json"]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let (lost, skipped) = (count(&truth["breakdowns"]["verb"], "lost"), count(&report["inputs"][0], "skipped"));
        if lost != skipped {
            faults.push(format!("{name}: skipped is {skipped}, lost were {lost}: {}", ran.stderr.trim()));
        }
    }
    none(&faults);
}

#[test]
fn through_stdin() {
    let plain = plain_rows();
    for (name, _) in FORMS {
        let ran = run(&["traffic", "-", "--by", BY, "-o", "json"], &[], &std::fs::read(form(name)).unwrap());
        same_rows(name, &serde_json::from_str(&ran.did_not_panic().stdout).unwrap(), &plain);
    }
}

#[test]
fn alone_in_a_folder_beside_other_files() {
    let plain = plain_rows();
    for (name, _) in FORMS {
        let folder = folder();
        write(folder.path(), &format!("logs/{name}"), std::fs::read(form(name)).unwrap());
        write(folder.path(), "README.txt", "not a log");
        write(folder.path(), "metrics.txt", "# HELP up\n# TYPE up gauge\nup 1\n");
        let ran = plimsoll(&["traffic", folder.path().to_str().unwrap(), "--by", BY, "-o", "json"]);
        let report: Value = serde_json::from_str(&ran.did_not_panic().stdout).unwrap();
        same_rows(name, &report, &plain);
        assert_eq!(report["inputs"].as_array().unwrap().len(), 1, "{name}: {}", report["inputs"]);
    }
}

#[test]
fn by_a_glob() {
    let folder = folder();
    // Two halves under names that are no rotation of one another: two logs, distinguished by their names.
    let log = sample_bytes("forms/v1.log");
    let half = log.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(41).unwrap().0 + 1;
    let halves =
        [write(folder.path(), "b-first.log", &log[..half]), write(folder.path(), "a-second.log", &log[half..])];
    write(folder.path(), "a.txt", "not matched");
    let pattern = |end: &str| format!("{}/{end}", folder.path().display());
    let by = "instance,verb,resource,user";
    let truth = oracle(&[by], &[format!(":b-first={}", halves[0]), format!(":a-second={}", halves[1])], &[]);
    let report = traffic(&pattern("*.log"), by, &[]);
    agree(&report, &truth["breakdowns"][by], by);
    assert_eq!(report["inputs"].as_array().unwrap().len(), 2);
    let one = traffic(&pattern("[b]-*.log"), "verb", &[]);
    assert_eq!(one["inputs"][0]["path"].as_str(), Some(halves[0].as_str()));
    assert_eq!(count(&one["inputs"][0], "records"), 42);
    let nothing = plimsoll(&["traffic", &pattern("*.nothing")]);
    assert!(nothing.exits(3).stderr.contains("*.nothing"), "{}", nothing.stderr);
}

#[test]
fn rotated_files_are_one_log() {
    let plain = plain_rows();
    let log = sample_bytes("forms/v1.log");
    let cuts: Vec<usize> = log.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).collect();
    for names in [
        ["audit.log.2", "audit.log.1", "audit.log"],
        ["audit-2026-11-20T09-21-30.000.log", "audit-2026-11-20T09-21-40.000.log.gz", "audit.log"],
    ] {
        let folder = folder();
        for (name, part) in names.iter().zip([&log[..cuts[20]], &log[cuts[20]..cuts[60]], &log[cuts[60]..]]) {
            let mut content = part.to_vec();
            if name.ends_with(".gz") {
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packed.write_all(part).unwrap();
                content = packed.finish().unwrap();
            }
            write(folder.path(), name, content);
        }
        let report = traffic(folder.path().to_str().unwrap(), BY, &[]);
        same_rows("rotated", &report, &plain);
        assert_eq!(report["coverage"]["streams"].as_array().unwrap().len(), 1, "{}", report["coverage"]);
    }
}

#[test]
fn wrappers_name_cluster_and_instance() {
    const EKS: [&str; 2] = [
        "kube-apiserver-audit-8206d24f9716927edf4f46c09a731cdb",
        "kube-apiserver-audit-c0a53602f8195c1627a6b1c1c405f533",
    ];
    const AKS: [&str; 2] = ["kube-apiserver-6b497d8d5f-kkg69", "kube-apiserver-6b497d8d5f-rb9qn"];
    for (name, cluster, instances) in [
        ("v1.log", "", &[("", 83)][..]),
        ("host-prefix.log", "", &[("master-0.example.com", 83)]),
        ("eks-s3-export.log", "", &[("", 83)]),
        ("cri.log", "", &[("", 83)]),
        ("eks-filter-log-events.json", "", &[(EKS[0], 43), (EKS[1], 40)]),
        ("eks-subscription.json.gz", "plimsoll-lab", &[(EKS[0], 43), (EKS[1], 40)]),
        ("gke.jsonl", "plimsoll-lab", &[("", 83)]),
        ("gke-array.json", "plimsoll-lab", &[("", 83)]),
        ("aks.jsonl", "plimsoll-lab", &[(AKS[0], 43), (AKS[1], 40)]),
        ("aks-eventhub.json", "plimsoll-lab", &[(AKS[0], 43), (AKS[1], 40)]),
        ("aks-log-analytics.json", "plimsoll-lab", &[(AKS[0], 43), (AKS[1], 40)]),
    ] {
        let ran = plimsoll(&["traffic", &form(name), "--by", "cluster,instance", "-o", "json"]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let found: Vec<(Vec<String>, u64)> =
            rows(&report, "cluster,instance").into_iter().map(|(key, row)| (key, count(&row, "requests"))).collect();
        let expected: Vec<(Vec<String>, u64)> = instances
            .iter()
            .map(|(instance, requests)| (vec![cluster.to_owned(), (*instance).to_owned()], *requests))
            .collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// Serves `files` by name for ever; gives the address.
fn serve(files: Vec<(&'static str, Vec<u8>)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            // Read the headers to their end: a client that is cut off while it writes sees a reset.
            let agent = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .any(|line| line.to_lowercase().starts_with("user-agent: plimsoll/"));
            let name = request.split(' ').nth(1).unwrap().trim_start_matches('/');
            let found = files.iter().find(|file| file.0 == name);
            let (status, body): (_, &[u8]) = match found {
                Some((_, content)) if agent => ("200 OK", content),
                Some(_) => ("400 Bad Request", b"who are you?"),
                None => ("404 Not Found", b"nothing here"),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: \
                 close\r\n\r\n",
                body.len()
            );
            // The client may leave early.
            let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body));
        }
    });
    address
}

#[test]
fn from_a_url() {
    let plain = plain_rows();
    let names = ["v1.log", "v1.log.gz", "v1.log.zst", "eventlist-pretty.json", "aks.jsonl"];
    let address = serve(names.iter().map(|name| (*name, std::fs::read(form(name)).unwrap())).collect());
    for name in names {
        same_rows(name, &traffic(&format!("{address}/{name}"), BY, &[]), &plain);
    }
    let missing = plimsoll(&["traffic", &format!("{address}/missing.log")]);
    assert!(
        missing.exits(3).stderr.contains(&format!("{address}/missing.log")) && missing.stderr.contains("404"),
        "{}",
        missing.stderr
    );
    let closed = plimsoll(&["traffic", "http://127.0.0.1:1/audit.log"]);
    assert!(closed.exits(3).stderr.contains("http://127.0.0.1:1/audit.log"), "{}", closed.stderr);
}

/// However the parts of one log are numbered, its numbers are those of the whole: the parts follow one another in time,
/// as logs of several apiservers do not.
#[test]
fn parts_of_a_log_are_one_log_whatever_their_numbers_are() {
    let home = folder();
    let log = String::from_utf8(sample_bytes("quiet/audit/apiserver-0/audit.log.zst")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    write(home.path(), "whole/audit.log", &log);
    let at = |name: &str| home.path().join(name).display().to_string();
    let whole = traffic(&at("whole"), BY, &[]);
    let mut faults = Vec::new();
    /// What a part of so many is called, by its number.
    type Name = fn(usize, usize) -> String;
    let schemes: [(&str, Name); 9] = [
        ("to the hour", |part, _| format!("audit.log-20261120{part:02}")),
        ("to the second", |part, _| format!("audit-2026112009{part:02}00.log")),
        ("with an offset", |part, _| format!("audit-2026-11-20T09:{part:02}:00+00:00.log")),
        ("before the ending", |part, of| match of - part {
            1 => "audit.log".to_owned(),
            number => format!("audit.{number}.log"),
        }),
        ("of a machine", |part, of| match of - part {
            1 => "apiserver-0.log".to_owned(),
            number => format!("apiserver-0.{number}.log"),
        }),
        ("with zeros", |part, _| format!("audit.{part:03}.json")),
        ("as parts", |part, _| format!("audit.part{part}.json")),
        ("by split", |part, _| format!("xa{}", char::from(b'a' + part as u8))),
        ("by split behind the name", |part, _| format!("audit.log.a{}", char::from(b'a' + part as u8))),
    ];
    for (name, of) in schemes {
        for (count, packed) in [(3, 0), (3, 2), (3, 3), (8, 0), (8, 8)] {
            let to = format!("{name}, {packed} of {count}");
            for (number, part) in lines.chunks(lines.len().div_ceil(count)).enumerate() {
                let (part, called) = (part.join("\n") + "\n", of(number, count));
                match number < packed {
                    false => write(home.path(), &format!("{to}/{called}"), part),
                    true => {
                        let packed = zstd::encode_all(part.as_bytes(), 1).unwrap();
                        write(home.path(), &format!("{to}/{called}.zst"), packed)
                    }
                };
            }
            let found = traffic(&at(&to), BY, &[]);
            if found["totals"] != whole["totals"] || rows(&found, BY) != rows(&whole, BY) {
                faults.push(format!("{to}: {}, not {}", found["totals"], whole["totals"]));
            }
        }
    }
    for (number, part) in lines.chunks(lines.len().div_ceil(3)).enumerate() {
        write(home.path(), &format!("documents/audit.part{number}.json"), format!("[{}]", part.join(", ")));
    }
    let found = traffic(&at("documents"), BY, &[]);
    if found["totals"] != whole["totals"] {
        faults.push(format!("documents: {}, not {}", found["totals"], whole["totals"]));
    }
    none(&faults);
    // Logs of the same time are several, whatever their numbers are; so are those of machines one after the other.
    for number in 1..=5 {
        let own: String = lines.iter().skip(number).step_by(5).map(|line| format!("{line}\n")).collect();
        write(home.path(), &format!("five/audit.{number}.log"), &own);
        write(home.path(), &format!("packed/audit.{number}.log.zst"), zstd::encode_all(own.as_bytes(), 1).unwrap());
        let after: String = lines
            .chunks(lines.len().div_ceil(5))
            .nth(number - 1)
            .unwrap()
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        write(home.path(), &format!("machines/kube-apiserver-{number}.log"), &after);
        write(home.path(), &format!("addresses/audit-10.0.0.{number}.log"), &after);
    }
    for name in ["five", "packed", "machines", "addresses"] {
        let found = traffic(&at(name), "instance", &[]);
        assert_eq!(rows(&found, "instance").len(), 5, "{name}: {}", found["rows"]);
    }
}

/// Links that go round in circles end, below `**` as in folders.
#[test]
#[cfg(unix)]
fn links_in_circles_end() {
    let home = folder();
    write(home.path(), "real/audit.log", sample_bytes("forms/v1.log"));
    std::os::unix::fs::symlink("..", home.path().join("real/up")).unwrap();
    std::os::unix::fs::symlink("real", home.path().join("alias")).unwrap();
    let counted = |source: &str| count(&traffic(source, BY, &[])["totals"], "requests");
    let place = home.path().display();
    assert_eq!(counted(&format!("{place}/**/audit.log")), counted(&form("v1.log")));
    assert_eq!(counted(&format!("{place}/**/*.log")), counted(&form("v1.log")));
    assert_eq!(counted(&format!("{place}/./real//**/[a-b]*.log")), counted(&form("v1.log")));
}
