//! Damaged, cut and oversized metrics pages: what can be kept is kept, what is lost is counted and named with its
//! place.

use crate::metrics::{metrics, packed, pages_of};
use crate::support::{Ran, count, feed, folder, hermetic, none, plimsoll, root, run, sample, write};
use serde_json::Value;
use std::io::Write as _;
use std::process::Command;

fn expected() -> serde_json::Map<String, Value> {
    let text = std::fs::read_to_string(sample("metrics-damage/expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What the message of each kind of damage says: what is wrong, and the next step.
const WORDS: [(&str, &[&str]); 13] = [
    ("ends within a line", &["cut off", "last line does not end in a newline", "take the page again"]),
    ("ends within a histogram", &["cut off", "histogram", "take the page again"]),
    ("packed data ends early", &["ends early", "gzip -t", "copy the file again"]),
    ("HTML in place of metrics", &["HTML", "/metrics"]),
    ("JSON in place of metrics", &["response of the apiserver", "/metrics"]),
    ("no samples", &["without samples", "take the page again"]),
    ("the same series twice", &["repeats a series", "again", "first one was used"]),
    ("a second # TYPE line", &["a second # TYPE", "first description was used"]),
    ("a # TYPE line after samples", &["after its samples"]),
    ("bytes that are not UTF-8", &["not UTF-8", "check the line"]),
    ("a line that is no sample", &["neither a sample nor a comment", "check the line", "promtool check metrics"]),
    ("no # EOF at the end", &["# EOF is missing", "take the page again"]),
    ("something after # EOF", &["after # EOF", "check the line"]),
];

/// The line that is wrong in each file, counted by hand; none where there is no line to name.
const LINES: [(&str, u64); 18] = [
    ("cut-in-label", 66),
    ("cut-in-value", 86),
    ("cut-in-histogram", 52),
    ("only-comments", 1),
    ("duplicate-samples", 8),
    ("two-type-lines", 61),
    ("type-after-samples", 83),
    ("invalid-utf8", 63),
    ("nul-bytes", 64),
    ("garbage-line", 64),
    ("value-no-number", 64),
    ("unterminated-label", 64),
    ("missing-brace", 64),
    ("bad-labels", 64),
    ("duplicate-label", 64),
    ("bad-names", 64),
    ("openmetrics-without-eof", 113),
    ("openmetrics-after-eof", 115),
];

fn line_of(name: &str) -> Option<u64> {
    LINES.iter().find(|(start, _)| name.starts_with(&format!("{start}-1"))).map(|(_, line)| *line)
}

#[test]
fn every_damaged_page() {
    let mut faults = Vec::new();
    for (name, truth) in expected() {
        let path = sample(&format!("metrics-damage/{name}"));
        let (kept, lost, damage) =
            (truth["kept"].as_u64().unwrap(), truth["lost"].as_u64().unwrap(), truth["damage"].as_str().unwrap());
        let ran = plimsoll(&["traffic", &path, "--from", "metrics", "-o", "json"]);
        ran.did_not_panic();
        if ran.code != Some(3) {
            faults.push(format!("{name}: exit code {:?}: {}", ran.code, ran.stderr.trim()));
        }
        match serde_json::from_str::<Value>(&ran.stdout) {
            Ok(report) => {
                let input = &report["inputs"][0];
                let sum: u64 =
                    report["coverage"]["lost"].as_array().unwrap().iter().map(|lost| count(lost, "count")).sum();
                let found = (count(input, "records"), count(input, "skipped"), sum);
                if found != (kept, lost, lost) {
                    faults.push(format!(
                        "{name}: kept, lost and counted as lost are {found:?}, not {kept} and {lost}: {}",
                        ran.stderr.trim()
                    ));
                }
            }
            // Nothing that could be counted.
            Err(_) if kept == 0 => assert_eq!(ran.stdout, "", "{name}"),
            Err(bad) => faults.push(format!("{name}: {bad}: {}", ran.stderr)),
        }
        let place = line_of(&name).map_or(path.clone(), |line| format!("{path}:{line}: "));
        let words = WORDS.iter().find(|(kind, _)| *kind == damage).map_or(&[][..], |(_, words)| *words);
        assert!(!words.is_empty(), "no words for {damage}");
        for word in words.iter().copied().chain([place.as_str()]) {
            if !ran.stderr.contains(word) && name != "empty-1795167907.txt" {
                faults.push(format!("{name}: stderr does not say '{word}': {}", ran.stderr.trim()));
            }
        }
        if !ran.stderr.contains(&path) {
            faults.push(format!("{name}: stderr does not name the file: {}", ran.stderr.trim()));
        }
    }
    none(&faults);
}

#[test]
fn every_damaged_page_is_expected() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join("samples/metrics-damage")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        match name.as_str() {
            "README.md" | "make.py" | "expected.json" => {}
            _ if name.starts_with(['.', '_']) => {}
            _ if entry.path().is_dir() => names.push(format!("{name}/metrics.txt")),
            _ => names.push(name),
        }
    }
    names.sort();
    let mut listed: Vec<String> = expected().keys().cloned().collect();
    listed.sort();
    assert_eq!(names, listed);
}

#[test]
fn a_damaged_page_among_others() {
    let pages = pages_of("quiet/metrics/apiserver-0");
    let whole = {
        let folder = folder();
        for (time, page) in &pages {
            write(folder.path(), &format!("metrics/{time}.txt.zst"), packed(page));
        }
        metrics(folder.path().to_str().unwrap(), "verb,resource", &[])
    };
    let mut faults = Vec::new();
    for (name, truth) in expected() {
        let folder = folder();
        for (time, page) in &pages {
            write(folder.path(), &format!("metrics/{time}.txt.zst"), packed(page));
        }
        let (stem, ending) = name
            .rsplit_once('/')
            .map_or(name.as_str(), |(folder, _)| folder)
            .split_once("-17")
            .unwrap_or((&name, "95167907.txt"));
        let stem = stem.replace('/', "-");
        let bad = format!("{stem}-17{}", ending.replacen("95167907", "95167850", 1));
        let bad = write(
            folder.path(),
            &format!("metrics/{bad}"),
            std::fs::read(sample(&format!("metrics-damage/{name}"))).unwrap(),
        );
        let ran = plimsoll(&[
            "traffic",
            folder.path().to_str().unwrap(),
            "--from",
            "metrics",
            "-o",
            "json",
            "--by",
            "verb,resource",
        ]);
        ran.did_not_panic();
        if ran.code != Some(3) || !ran.stderr.contains(&bad) {
            faults.push(format!("{name}: exit code {:?}: {}", ran.code, ran.stderr.trim()));
        }
        let Ok(report) = serde_json::from_str::<Value>(&ran.stdout) else {
            faults.push(format!("{name}: no report: {}", ran.stderr));
            continue;
        };
        // Its pages are of the same server, and between two others: what it lacks, the next page makes up for.
        let times_two =
            ["duplicate-samples", "type-after-samples", "two-type-lines"].iter().any(|odd| name.starts_with(odd));
        if truth["kept"] == 0 && report["totals"]["requests"] != whole["totals"]["requests"] && !times_two {
            faults.push(format!(
                "{name}: {} requests, not {}",
                report["totals"]["requests"], whole["totals"]["requests"]
            ));
        }
        let inputs = report["inputs"].as_array().unwrap().len();
        if inputs < pages.len() {
            faults.push(format!("{name}: {inputs} inputs"));
        }
    }
    none(&faults);
}

#[test]
fn html_in_place_of_a_page() {
    let folder = folder();
    for (time, page) in pages_of("quiet/metrics/apiserver-0").into_iter().take(3) {
        write(folder.path(), &format!("metrics/{time}.txt"), page);
    }
    let clean = metrics(folder.path().to_str().unwrap(), "verb", &[]);
    let html = write(folder.path(), "metrics/1795167742.txt", "<!DOCTYPE html>\n<html><body>Log in</body></html>\n");
    let ran =
        plimsoll(&["traffic", folder.path().to_str().unwrap(), "--from", "metrics", "--by", "verb", "-o", "json"]);
    let report = ran.json(3);
    assert!(ran.stderr.contains(&html) && ran.stderr.contains("HTML"), "{}", ran.stderr);
    assert_eq!((&report["rows"], &report["totals"]), (&clean["rows"], &clean["totals"]));
}

/// Runs with GNU time in front; the peak RSS in MB.
fn measured(args: &[&str]) -> (Ran, u64) {
    let home = folder();
    let log = home.path().join("time");
    let mut command = hermetic(Command::new("python3"), home.path());
    // The largest of a process' children is what getrusage shows.
    command.args([
        "-c",
        "import resource, subprocess, sys\ncode = subprocess.run(sys.argv[2:]).returncode\n\
        open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\nsys.exit(code)",
    ]);
    command.arg(&log).arg(env!("CARGO_BIN_EXE_plimsoll")).args(args);
    let ran = feed(command, b"");
    let kilobytes: u64 = std::fs::read_to_string(log).unwrap().trim().parse().unwrap();
    (ran, kilobytes * 1024 / 1_000_000)
}

/// Writes a page of 200 MB that says `head`, then lines that `line` makes of a number, whole steps of them; how many.
fn large(path: &std::path::Path, head: &str, step: usize, line: impl Fn(usize) -> String) -> u64 {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    file.write_all(head.as_bytes()).unwrap();
    let (mut written, mut count) = (0, 0);
    while written < 200 << 20 || count % step != 0 {
        let line = line(count);
        file.write_all(line.as_bytes()).unwrap();
        written += line.len();
        count += 1;
    }
    count as u64
}

/// Reads a page of 200 MB in which no series is like another: the report, and the peak RSS in MB.
fn read_large(path: &std::path::Path) -> (Value, u64) {
    let (ran, megabytes) =
        measured(&["traffic", path.to_str().unwrap(), "--from", "metrics", "--by", "verb,resource", "-o", "json"]);
    (ran.json(0), megabytes)
}

#[test]
fn a_page_of_two_hundred_megabytes() {
    let folder = folder();
    let path = folder.path().join("1795167907.txt");
    // As an apiserver's page is made up, over and over with one label more.
    let (_, page) = pages_of("quiet/metrics/apiserver-0").pop().unwrap();
    let (lines, comments): (Vec<&str>, Vec<&str>) =
        page.lines().partition(|line| line.contains('{') && !line.starts_with('#'));
    let head: String = comments
        .iter()
        .filter(|line| line.starts_with("# TYPE") || line.starts_with("process_start"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let requests: Vec<u64> = lines
        .iter()
        .map(|line| {
            if line.starts_with("apiserver_request_total{") {
                line.rsplit(' ').next().unwrap().parse().unwrap()
            } else {
                0
            }
        })
        .collect();
    let copies = |n: usize| lines[n % lines.len()].replacen('{', &format!("{{copy=\"{}\",", n / lines.len()), 1) + "\n";
    let count_of = large(&path, &head, lines.len(), copies);
    let (report, megabytes) = read_large(&path);
    let expected: u64 = (0..count_of as usize).map(|n| requests[n % lines.len()]).sum();
    assert_eq!(count(&report["totals"], "requests"), expected);
    assert!(count_of > 800_000 && megabytes < 475, "{count_of} lines, {megabytes} MB");
    // The worst: each line is one of a client's making, and of a metric that is kept.
    let head = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.79516770105e+09\n# TYPE \
         apiserver_request_total counter\n";
    let line = |n: usize| {
        format!(
            "apiserver_request_total{{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",\
             resource=\"pods\",scope=\"resource\",subresource=\"path-{n}\",verb=\"GET\",version=\"v1\"}} 2\n"
        )
    };
    let count_of = large(&path, head, 1, line);
    let (report, megabytes) = read_large(&path);
    assert_eq!(count(&report["totals"], "requests"), count_of * 2);
    assert_eq!(count(&report["inputs"][0], "records"), count_of + 1);
    assert!(count_of > 1_000_000 && megabytes < 650, "{count_of} lines, {megabytes} MB");
}

#[test]
fn a_line_of_more_than_a_mebibyte() {
    let folder = folder();
    let series = |path: &str| {
        format!(
            "apiserver_request_total{{code=\"200\",resource=\"pods\",scope=\"resource\",subresource=\"{path}\",\
             verb=\"GET\"}} 5\n"
        )
    };
    let page = format!(
        "# TYPE apiserver_request_total counter\n{}{}{}",
        series("a"),
        series(&"x".repeat(1 << 20)),
        series("b")
    );
    let path = write(folder.path(), "1795167907.txt", &page);
    for ran in [plimsoll(&["traffic", &path, "-o", "json"]), run(&["traffic", "-", "-o", "json"], &[], page.as_bytes())]
    {
        let report = ran.json(3);
        assert_eq!(count(&report["totals"], "requests"), 10);
        assert_eq!((count(&report["inputs"][0], "records"), count(&report["inputs"][0], "skipped")), (2, 1));
        assert!(ran.stderr.contains(":3: ") && ran.stderr.contains("longer than 1 MiB"), "{}", ran.stderr);
    }
    // A long one that is not too long.
    let page =
        format!("# TYPE apiserver_request_total counter\n{}{}", series("a"), series(&"x".repeat((1 << 20) - 200)));
    let path = write(folder.path(), "1795167908.txt", page);
    assert_eq!(count(&metrics(&path, "verb", &[])["totals"], "requests"), 10);
}

#[test]
fn a_page_cut_anywhere() {
    // Every prefix of a small page: a report or a message, and what is before the cut is counted.
    let folder = folder();
    let page: String = (0..6)
        .map(|n| {
            format!("apiserver_request_total{{code=\"200\",resource=\"r{n}\",scope=\"resource\",verb=\"GET\"}} 1{n}\n")
        })
        .fold(
            "# HELP apiserver_request_total Requests.\n# TYPE apiserver_request_total counter\n".to_owned(),
            |page, line| page + &line,
        );
    for cut in (0..=page.len()).step_by(7).chain([page.len() - 1, page.len()]) {
        let path = write(folder.path(), "1795167907.txt", &page[..cut]);
        let ran = plimsoll(&["traffic", &path, "--from", "metrics", "--by", "resource", "-o", "json"]);
        ran.did_not_panic();
        let whole = page[..cut].bytes().filter(|b| *b == b'\n').count().saturating_sub(2);
        let at_end = cut == 0 || page.as_bytes()[cut - 1] == b'\n';
        if whole > 0 {
            let report = ran.json(if at_end { 0 } else { 3 });
            assert_eq!(report["rows"].as_array().unwrap().len(), whole, "the first {cut} bytes: {}", ran.stderr);
        } else {
            assert_eq!(ran.code, Some(3), "the first {cut} bytes: {}", ran.stderr);
        }
    }
}

#[test]
fn a_gzip_page_cut_anywhere() {
    let folder = folder();
    let (_, page) = pages_of("quiet/metrics/apiserver-0").remove(0);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(page.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    let zst = packed(&page);
    for (name, data) in [("gz", &gz), ("zst", &zst)] {
        for part in 1..12 {
            let cut = data.len() * part / 12;
            let path = write(folder.path(), &format!("1795167907.txt.{name}"), &data[..cut]);
            let ran = plimsoll(&["traffic", &path, "--from", "metrics", "-o", "json"]);
            assert!(ran.exits(3).stderr.contains(&path), "{name}, {cut} bytes: {}", ran.stderr);
        }
    }
}
