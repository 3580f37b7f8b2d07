//! Metrics pages as they are read: every sample page against prometheus_client (`tests/oracle/metrics.py`), promtool
//! and the crate prometheus-parse; and what is no page, against the cases of prometheus_client's own tests.

use crate::metrics::{each, unpacked};
use crate::support::{feed, folder, none, python, root};
use md5::{Digest, Md5};
use plimsoll::sources::exposition::{Dialect, Problem, ProblemKind, read};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every page of the samples that is whole.
fn pages() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false if matches!(path.extension().and_then(|e| e.to_str()), Some("txt" | "zst" | "gz")) => {
                    found.push(path)
                }
                false => {}
            }
        }
    }
    let mut found = Vec::new();
    for name in ["list-storm/metrics", "overload-restart/metrics", "quiet/metrics", "metrics-forms"] {
        walk(&root().join("samples").join(name), &mut found);
    }
    found.sort();
    assert!(found.len() > 130, "{}", found.len());
    found
}

/// A series by name and labels, sorted by label.
type Key = (String, Vec<(String, String)>);

/// A sample: series, value, time.
type Read = (Key, f64, Option<f64>);

/// What is read of a page: samples in order, with their times, and the problems.
fn whole(page: &[u8]) -> (Vec<Read>, Vec<Problem>, Dialect) {
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    let summary = read(
        page,
        |s| {
            let mut labels: Vec<_> =
                s.labels.iter().map(|l| (l.name.decode().into_owned(), l.value.decode().into_owned())).collect();
            labels.sort();
            samples.push(((s.name.decode().into_owned(), labels), s.value, s.timestamp));
        },
        |problem| problems.push(problem),
    );
    assert_eq!(summary.samples, samples.len() as u64);
    (samples, problems, summary.dialect)
}

/// The checksum that `tests/oracle/metrics.py` defines.
fn checksum(samples: &[(Key, f64, Option<f64>)]) -> (usize, String) {
    let mut lines = BTreeMap::new();
    for ((name, labels), value, _) in samples {
        let series = labels.iter().fold(name.clone(), |series, (label, value)| series + "\0" + label + "\u{1}" + value);
        let bits = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
        lines.entry(series).or_insert(bits);
    }
    let mut lines: Vec<String> = lines.into_iter().map(|(series, bits)| format!("{series}\0{bits:016x}\n")).collect();
    lines.sort_unstable();
    let sum = Md5::digest(lines.concat());
    (lines.len(), sum.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn every_sample_of_every_page() {
    let pages = pages();
    let mut oracle = Command::new(python());
    oracle.arg(root().join("tests/oracle/metrics.py")).arg("--samples").args(&pages);
    let ran = feed(oracle, b"");
    assert_eq!(ran.code, Some(0), "the oracle failed: {}", ran.stderr);
    let truth: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(truth.len(), pages.len());
    let faults = each(&pages, |page| {
        let (samples, problems, _) = whole(&unpacked(page));
        let truth = truth.iter().find(|row| row["path"].as_str() == page.to_str()).unwrap();
        let (count, sum) = checksum(&samples);
        let mut faults = Vec::new();
        let cut = page.to_str().unwrap().contains("/no-final-newline/");
        if cut {
            // The oracle keeps the last line, which may have been cut.
            assert_eq!((count as u64 + 1, problems.len()), (truth["samples"].as_u64().unwrap(), 1), "{problems:?}");
        } else {
            if !problems.is_empty() || samples.len() != count {
                faults.push(format!("{}: {} samples, {count} series, {problems:?}", page.display(), samples.len()));
            }
            if (truth["samples"].as_u64(), truth["checksum"].as_str()) != (Some(count as u64), Some(&sum)) {
                faults.push(format!("{}: {count} samples, {sum}; the oracle has {truth}", page.display()));
            }
        }
        faults
    });
    none(&faults);
}

#[test]
fn a_changed_value_or_label_changes_the_checksum() {
    let sum = |page: &str| checksum(&whole(page.as_bytes()).0).1;
    let plain = sum("a{b=\"c\"} 1\nd 2\n");
    assert_eq!(plain, sum("d 2\na{b=\"c\"} 1\n"));
    for other in [
        "a{b=\"c\"} 1\nd 2.0000000000000004\n",
        "a{b=\"d\"} 1\nd 2\n",
        "a{e=\"c\"} 1\nd 2\n",
        "a{b=\"c\"} 1\n",
        "a 1\nd 2\n",
    ] {
        assert_ne!(plain, sum(other), "{other}");
    }
}

/// Forms that `promtool check metrics` of Prometheus 2.42 does not take (`samples/metrics-forms/README.md`).
const NOT_FOR_PROMTOOL: [&str; 5] = ["/openmetrics/", "/utf8-names/", "/crlf/", "/tabs/", "/no-final-newline/"];

#[test]
fn promtool_takes_every_page() {
    let faults = each(&pages(), |page| {
        let path = page.to_str().unwrap();
        let ran = feed(promtool(), &unpacked(page));
        // 3: it would have other names. That is not what is asked here.
        let takes = match ran.code {
            Some(0 | 3) => true,
            Some(1) => false,
            code => panic!("promtool ended with {code:?}: {}", ran.stderr),
        };
        let expected = !NOT_FOR_PROMTOOL.iter().any(|form| path.contains(form));
        if takes == expected { vec![] } else { vec![format!("{path}: {}", ran.stderr)] }
    });
    none(&faults);
}

fn promtool() -> Command {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("promtool").exists()));
    assert!(found, "there is no promtool on PATH; run .ci/setup (Debian: apt-get install prometheus)");
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]);
    command
}

/// A sample as prometheus-parse has it, taken apart again: it puts the buckets of a histogram together.
fn of_prometheus_parse(page: &str) -> Vec<(Key, f64, Option<i64>)> {
    use prometheus_parse::Value as Kind;
    let scrape = prometheus_parse::Scrape::parse(page.lines().map(|line| Ok(line.to_owned()))).unwrap();
    let mut found = Vec::new();
    for sample in scrape.samples {
        let at = sample.timestamp.timestamp_millis();
        // Buckets and quantiles have but the time of the first of them.
        let at = matches!(sample.value, Kind::Counter(_) | Kind::Gauge(_) | Kind::Untyped(_)).then_some(at);
        let mut add = |suffix: &str, more: Option<(&str, f64)>, value: f64| {
            let mut labels: Vec<(String, String)> =
                sample.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            labels.extend(more.map(|(name, bound)| (name.to_owned(), format!("{bound:?}"))));
            labels.sort();
            found.push(((format!("{}{suffix}", sample.metric), labels), value, at));
        };
        match &sample.value {
            Kind::Counter(value) | Kind::Gauge(value) | Kind::Untyped(value) => add("", None, *value),
            Kind::Histogram(buckets) => {
                buckets.iter().for_each(|bucket| add("_bucket", Some(("le", bucket.less_than)), bucket.count))
            }
            Kind::Summary(parts) => {
                parts.iter().for_each(|part| add("", Some(("quantile", part.quantile)), part.count))
            }
        }
    }
    found
}

/// Whether prometheus-parse can take a line apart: nothing in its values is a mark, a name has no colon, braces are not
/// empty.
fn is_plain(line: &str) -> bool {
    let inside = match (line.find('{'), line.rfind('}')) {
        (Some(open), Some(close)) if open < close => &line[open + 1..close],
        (None, None) => return !line.split_whitespace().next().unwrap_or_default().contains(':'),
        _ => return false,
    };
    let count = |mark: char| inside.matches(mark).count();
    let labels = count('=');
    !line[..line.find('{').unwrap()].ends_with([' ', '\t'])
        && !inside.contains(['\\', '}', '{'])
        && !inside.split('"').step_by(2).any(|between| between.contains([' ', '\t']))
        && !line.starts_with('{')
        && (count(','), count('"')) == (labels.max(1) - 1, labels * 2)
        && labels > 0
}

#[test]
fn what_prometheus_parse_reads_is_read_the_same() {
    let pages: Vec<PathBuf> =
        pages().into_iter().filter(|page| !page.to_str().unwrap().contains("/no-final-newline/")).collect();
    let faults = each(&pages, |path| {
        let page = String::from_utf8(unpacked(path)).unwrap();
        // One line of many may be beyond it; those are left out on its side only.
        let is_sample = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let plain: String = page
            .lines()
            .filter(|line| !is_sample(line) || is_plain(line.trim()))
            .map(|line| format!("{line}\n"))
            .collect();
        let lines = plain.lines().filter(|line| is_sample(line)).count();
        let mut ours = BTreeMap::new();
        for ((name, mut labels), value, at) in whole(page.as_bytes()).0 {
            for (label, value) in &mut labels {
                if label == "le" || label == "quantile" {
                    // It makes a number of these.
                    *value = value.parse::<f64>().map_or(value.clone(), |bound| format!("{bound:?}"));
                }
            }
            ours.entry((name, labels)).or_insert((value, at));
        }
        let theirs = of_prometheus_parse(&plain);
        let mut faults = Vec::new();
        if theirs.len() != lines {
            faults.push(format!("{}: it reads {} of {lines} lines", path.display(), theirs.len()));
        }
        for (key, value, at) in theirs {
            let same = ours.get(&key).or_else(|| {
                // Buckets and quantiles of families without a type stay text there.
                let mut key = key.clone();
                for (label, value) in &mut key.1 {
                    if label == "le" || label == "quantile" {
                        *value = value.parse::<f64>().map_or(value.clone(), |bound| format!("{bound:?}"));
                    }
                }
                ours.get(&key)
            });
            let equal = same.is_some_and(|(own, time)| {
                (own.to_bits() == value.to_bits() || own.is_nan() && value.is_nan())
                    && time.zip(at).is_none_or(|(time, at)| (time * 1e3).round() as i64 == at)
            });
            if !equal {
                faults.push(format!("{}: {key:?} is {same:?}, not {value} at {at:?}", path.display()));
            }
        }
        // All but what the forms hold on purpose is compared.
        let left_out = page.lines().filter(|line| is_sample(line)).count() - lines;
        let odd = ["/tabs/", "/utf8-names/", "/hostile-labels/", "/openmetrics/", "/v1.16/"]
            .iter()
            .any(|form| path.to_str().unwrap().contains(form));
        if left_out > 3 && !odd {
            faults.push(format!("{}: {left_out} lines were not compared", path.display()));
        }
        faults
    });
    none(&faults);
}

/// The samples of one line, and how many of them prometheus-parse has right.
#[track_caller]
fn beyond_prometheus_parse(line: &str, name: &str, labels: &[(&str, &str)], value: f64) {
    let (samples, problems, _) = whole(format!("{line}\n").as_bytes());
    assert!(problems.is_empty(), "{line}: {problems:?}");
    let mut labels: Vec<(String, String)> = labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    labels.sort();
    let key = (name.to_owned(), labels);
    assert_eq!(samples, [(key.clone(), value, None)], "{line}");
    let theirs = of_prometheus_parse(line);
    assert!(
        !theirs.iter().any(|(other, number, _)| *other == key && *number == value),
        "prometheus-parse reads {line} by now"
    );
}

#[test]
fn a_brace_in_a_value() {
    beyond_prometheus_parse(r#"a{path="/x}y",verb="GET"} 5"#, "a", &[("path", "/x}y"), ("verb", "GET")], 5.0);
}

#[test]
fn a_brace_and_a_number_in_a_value() {
    // Taken for the end of the labels, and 7 for the value.
    beyond_prometheus_parse(r#"a{path="} 7 "} 5"#, "a", &[("path", "} 7 ")], 5.0);
}

#[test]
fn a_comma_in_a_value() {
    beyond_prometheus_parse(r#"a{dn="cn=x,ou=y",verb="GET"} 5"#, "a", &[("dn", "cn=x,ou=y"), ("verb", "GET")], 5.0);
    beyond_prometheus_parse(r#"a{list="x,y"} 5"#, "a", &[("list", "x,y")], 5.0);
}

#[test]
fn an_equals_sign_in_a_value() {
    beyond_prometheus_parse(r#"a{selector="app=web"} 5"#, "a", &[("selector", "app=web")], 5.0);
}

#[test]
fn a_colon_in_a_name() {
    beyond_prometheus_parse(r#"job:requests:rate5m{job="x"} 5"#, "job:requests:rate5m", &[("job", "x")], 5.0);
}

#[test]
fn escapes() {
    beyond_prometheus_parse(
        r#"a{b="say \"x\"",c="C:\\dir",d="1\n2"} 5"#,
        "a",
        &[("b", "say \"x\""), ("c", "C:\\dir"), ("d", "1\n2")],
        5.0,
    );
}

#[test]
fn quotes_at_the_ends_of_a_value() {
    beyond_prometheus_parse(r#"a{b="\"x\""} 5"#, "a", &[("b", "\"x\"")], 5.0);
}

#[test]
fn blanks_around_braces_and_labels() {
    beyond_prometheus_parse(r#"a {b="c"} 5"#, "a", &[("b", "c")], 5.0);
    beyond_prometheus_parse(r#"a{ b = "c" , d="e" } 5"#, "a", &[("b", "c"), ("d", "e")], 5.0);
}

#[test]
fn braces_with_nothing_in_them() {
    beyond_prometheus_parse("a{} 5", "a", &[], 5.0);
}

#[test]
fn names_in_quotes() {
    beyond_prometheus_parse(
        r#"{"http.requests","status code"="200"} 5"#,
        "http.requests",
        &[("status code", "200")],
        5.0,
    );
}

#[test]
fn what_it_takes_for_a_sample_and_is_none() {
    // A line with more behind it, a value cut off by a label that does not end: neither is a sample.
    for line in ["a 1 2 3", "a{b=\"c} 1", "a{b=c} 1", "a{b=\"1\",b=\"2\"} 1"] {
        let (samples, problems, _) = whole(format!("{line}\nz 1\n").as_bytes());
        assert_eq!((samples.len(), problems.len()), (1, 1), "{line}: {samples:?} {problems:?}");
        assert_eq!(of_prometheus_parse(line).len(), 1, "prometheus-parse refuses {line} by now");
    }
}

/// The cases of prometheus_client's tests: page, whether it must be refused, name.
fn cases(flags: &[&str]) -> Vec<(Vec<u8>, bool, String)> {
    let cache = root().join("target/prometheus_client");
    assert!(cache.is_dir(), "run .ci/setup first: {} is missing", cache.display());
    let folder = folder();
    let into = folder.path().join("cases");
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/openmetrics_cases.py")).args(flags).arg("--into").arg(&into);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let names: BTreeSet<PathBuf> = std::fs::read_dir(&into).unwrap().map(|entry| entry.unwrap().path()).collect();
    let pages = names.iter().filter(|path| path.extension().is_some_and(|e| e == "txt"));
    pages
        .map(|path| {
            let expect = std::fs::read_to_string(path.with_extension("expect")).unwrap();
            let (verdict, name) = expect.trim().split_once(' ').unwrap();
            let number = path.file_stem().unwrap().to_str().unwrap();
            (std::fs::read(path).unwrap(), verdict == "bad", format!("{number} {name}"))
        })
        .collect()
}

fn disagreements(cases: &[(Vec<u8>, bool, String)], openmetrics: bool) -> Vec<String> {
    let mut faults = Vec::new();
    for (page, bad, name) in cases {
        let (_, problems, dialect) = whole(page);
        // A page without samples is allowed there. Here it is named, for it is of no use.
        let refused = problems.iter().any(|problem| problem.kind != ProblemKind::Empty)
            || openmetrics && dialect != Dialect::OpenMetrics;
        if refused != *bad {
            let expected = if *bad { "bad" } else { "ok" };
            faults.push(format!("{name}: expected {expected}; {problems:?}:\n{}", String::from_utf8_lossy(page)));
        }
    }
    faults
}

#[test]
fn openmetrics_is_taken_and_refused_as_its_tests_say() {
    let cases = cases(&[]);
    assert!(
        cases.iter().filter(|case| case.1).count() > 150 && cases.iter().filter(|case| !case.1).count() > 40,
        "{}",
        cases.len()
    );
    none(&disagreements(&cases, true));
}

#[test]
fn text_is_taken_as_its_tests_say() {
    let mut cases = cases(&["--text"]);
    assert!(cases.len() > 40, "{}", cases.len());
    for (page, bad, _) in &mut cases {
        // A comma and no label: prometheus_client takes it, Prometheus does not.
        if page.windows(3).any(|window| window == b"{,}") {
            assert!(!*bad && feed(promtool(), page).code == Some(1));
            *bad = true;
        }
    }
    none(&disagreements(&cases, false));
}
