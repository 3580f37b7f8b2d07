//! `plimsoll heap` against the official pprof tool (`tests/data/pprof`), against an independent reading of the format
//! (`tests/oracle/heap.py`), and on what is no profile.

use crate::support::{Ran, feed, folder, none, picture, plimsoll, python, root, run, sample, write};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

const KINDS: [&str; 4] = ["inuse_space", "inuse_objects", "alloc_space", "alloc_objects"];
const STORM: &str = "list-storm/heap/heap-1795166606-incident.pb.gz";

/// Every sample profile.
fn profiles() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        glob::glob(root().join("samples/*/heap/*.pb.gz").to_str().unwrap()).unwrap().map(Result::unwrap).collect();
    found.sort();
    assert_eq!(found.len(), 16);
    found
}

fn unpacked(path: impl AsRef<Path>) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

fn heap(args: &[&str]) -> Value {
    plimsoll(&[&["heap"], args, &["-o", "json"]].concat()).json(0)
}

/// Flat and cum by name; what has the same name is added up in `flat` only if `names` say so.
type Rows = BTreeMap<String, [u64; 2]>;

fn name(row: &Value, by: &str) -> String {
    let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
    match by {
        "line" => match row["line"].as_u64() {
            Some(line) => format!("{} {}:{line}", text("function"), text("file")),
            None => format!("{} {}", text("function"), text("file")).trim().to_owned(),
        },
        by => text(by),
    }
}

#[track_caller]
fn rows(report: &Value, by: &str) -> Rows {
    let mut found = Rows::new();
    for row in report["rows"].as_array().unwrap() {
        let values = ["flat", "cum"].map(|field| row[field].as_u64().unwrap());
        assert!(found.insert(name(row, by), values).is_none(), "two rows are the same: {row}");
    }
    found
}

/// What differs between two sets of rows.
fn differences(mine: &Rows, theirs: &Rows, about: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for name in mine.keys().chain(theirs.keys().filter(|name| !mine.contains_key(*name))) {
        if mine.get(name) != theirs.get(name) {
            faults.push(format!("{about}: {name}: {:?}, not {:?}", mine.get(name), theirs.get(name)));
        }
    }
    faults
}

#[test]
fn top_is_equal_to_the_official_tool() {
    let packed = std::fs::read(root().join("tests/data/pprof/top.tsv.zst")).unwrap();
    let text = String::from_utf8(zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    // (granularity, profile, sample type) → rows; the total has no name.
    let mut reference: BTreeMap<(&str, &str, &str), Rows> = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let [by, name, profile, values @ ..] = cells.as_slice() else { panic!("{line}") };
        for (kind, value) in KINDS.iter().zip(values) {
            if let Some((flat, cum)) = value.split_once(',') {
                let rows = reference.entry((*by, *profile, *kind)).or_default();
                rows.insert((*name).to_owned(), [flat.parse().unwrap(), cum.parse().unwrap()]);
            }
        }
    }
    // 16 profiles by two granularities, and 9 filters, each for four sample types.
    assert_eq!(reference.len(), (16 * 2 + 9) * 4);
    let mut faults = Vec::new();
    let mut compared = 0;
    for ((by, profile, kind), mut expected) in reference {
        let by = if by == "functions" { "function" } else { "line" };
        let mut words = profile
            .split(' ')
            .map(|word| word.replace("-show_from", "-show-from"))
            .map(|word| if word.starts_with('-') { format!("-{word}") } else { word });
        let path = root().join(words.next().unwrap());
        let filters: Vec<String> = words.collect();
        let mut args = vec!["top", path.to_str().unwrap(), "--by", by, "--sample-type", kind];
        args.extend(filters.iter().map(String::as_str));
        let report = heap(&args);
        let total = expected.remove("").unwrap();
        assert_eq!(report["totals"]["total"].as_u64().unwrap(), total[0], "{profile} {kind}");
        compared += expected.len();
        faults.extend(differences(&rows(&report, by), &expected, &format!("{profile} by {by} {kind}")));
    }
    assert!(compared > 100_000, "only {compared} rows");
    none(&faults);
}

/// An independent count of `files`.
fn oracle(files: &[PathBuf], flags: &[&str]) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/heap.py")).args(flags).args(files);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "the oracle failed: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn top_is_equal_to_an_independent_count() {
    let files: Vec<PathBuf> = profiles().into_iter().step_by(3).collect();
    let mut faults = Vec::new();
    for by in ["function", "file", "line"] {
        let counted = oracle(&files, &["--by", by]);
        for (path, kinds) in counted.as_object().unwrap() {
            for (kind, expected) in kinds.as_object().unwrap() {
                let report = heap(&["top", path, "--by", by, "--sample-type", kind]);
                assert_eq!(report["totals"]["total"], expected["total"]);
                let expected: Rows = serde_json::from_value(expected["nodes"].clone()).unwrap();
                faults.extend(differences(&rows(&report, by), &expected, &format!("{path} by {by} {kind}")));
            }
        }
    }
    none(&faults);
}

#[test]
fn groups_and_packages_add_up() {
    for path in profiles() {
        for kind in ["inuse_space", "alloc_objects"] {
            let report = heap(&["top", path.to_str().unwrap(), "--by", "package", "--sample-type", kind]);
            let total = report["totals"]["total"].as_u64().unwrap();
            let sum = |rows: &Value, field: &str| {
                rows.as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum::<u64>()
            };
            assert_eq!(sum(&report["tables"]["groups"], "held"), total);
            assert_eq!(sum(&report["rows"], "flat"), total);
        }
    }
}

/// The stacks of folded text, with the last number of each line.
fn folded(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        *found.entry(stack.to_owned()).or_default() += weight.parse::<u64>().unwrap();
    }
    found
}

#[test]
fn the_flame_is_the_same_heap() {
    let path = PathBuf::from(sample(STORM));
    let counted = oracle(std::slice::from_ref(&path), &["--flame"]);
    let path = path.to_str().unwrap();
    for kind in KINDS {
        let expected = &counted[path][kind];
        let text = plimsoll(&["heap", "flame", path, "-o", "folded", "--sample-type", kind]).exits(0).stdout.clone();
        // `;` in the name of a generic function is no end of a name.
        let mine = folded(&text);
        assert_eq!(mine.values().sum::<u64>(), expected["total"].as_u64().unwrap());
        let plain = |stack: &str| stack.replace([';', ','], "|");
        let mine: BTreeMap<String, u64> = mine.into_iter().map(|(stack, weight)| (plain(&stack), weight)).collect();
        let theirs: BTreeMap<String, u64> = expected["stacks"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(stack, weight)| (plain(stack), weight.as_u64().unwrap()))
            .collect();
        assert_eq!(mine, theirs, "{kind}");
        let svg = plimsoll(&["heap", "flame", path, "--sample-type", kind]).exits(0).stdout.clone();
        let total = svg.split_once("total_samples=\"").unwrap().1.split('"').next().unwrap();
        assert_eq!(total, expected["total"].to_string());
    }
}

/// What an XML parser that is not ours says of a picture: its texts, its elements with an attribute that loads or runs
/// something, and the elements' names.
fn parsed(svg: &str) -> Value {
    let script = "import json, sys, xml.etree.ElementTree as E\n\
        root = E.fromstring(sys.stdin.buffer.read())\n\
        local = lambda name: name.rsplit('}')[-1]\n\
        every = list(root.iter())\n\
        acting = [local(e.tag) + ' ' + local(a) + '=' + v for e in every for a, v in e.attrib.items() if local(a) in \
        ('href', 'src') or local(a).startswith('on')]\n\
        print(json.dumps({'titles': [e.text for e in every if local(e.tag) == 'title'], 'acting': acting, 'tags': \
        sorted({local(e.tag) for e in every}), 'scripts': sum(local(e.tag) == 'script' for e in every)}))";
    let mut command = Command::new(python());
    command.args(["-c", script]);
    let ran = feed(command, svg.as_bytes());
    assert_eq!(ran.code, Some(0), "no XML: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn the_picture_is_safe_and_the_same_each_time() {
    let ran = plimsoll(&["heap", "flame", &sample(STORM)]);
    let svg = &ran.exits(0).stdout;
    assert_eq!(*svg, plimsoll(&["heap", "flame", &sample(STORM), "-o", "svg"]).stdout);
    let picture = parsed(svg);
    assert_eq!(
        picture["acting"].to_string(),
        "[\"svg onload=init(evt)\"]",
        "nothing is loaded, and only the one script runs"
    );
    assert_eq!(picture["scripts"], 1);
    let titles = picture["titles"].to_string();
    assert!(titles.contains("all (156,508,334 bytes, 100%)") && titles.contains("handlers.handleList ("), "{titles}");
    // Names that would like to be more than names.
    let mut bytes = unpacked(sample(STORM));
    let evil = br#"</text><script>alert(1)</script><a xlink:href="javascript:x" onload='y'>]]>"#;
    let at = memchr::memmem::find(
        &bytes,
        b"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.(*deferredResponseWriter).Write",
    )
    .unwrap();
    bytes[at..at + evil.len()].copy_from_slice(evil);
    let home = folder();
    let picture = parsed(&plimsoll(&["heap", "flame", &write(home.path(), "evil.pb", &bytes)]).exits(0).stdout);
    assert_eq!(picture["acting"].to_string(), "[\"svg onload=init(evt)\"]");
    assert_eq!(picture["scripts"], 1);
    assert!(picture["titles"].to_string().contains("alert(1)"));
}

#[test]
fn the_picture_can_be_zoomed_and_searched() {
    let home = folder();
    let (old, new) = (sample("list-storm/heap/heap-1795166306-base.pb.gz"), sample(STORM));
    let total = heap(&["top", &new])["totals"]["total"].as_u64().unwrap();
    // What a person who searches for this should read: the share of all stacks with such a function in them.
    let term = "ListResource";
    let text = plimsoll(&["heap", "flame", &new, "-o", "folded"]).exits(0).stdout.clone();
    let matched: u64 = folded(&text).iter().filter(|(stack, _)| stack.contains(term)).map(|(_, weight)| weight).sum();
    let percent = matched as f64 / total as f64 * 100.0;
    assert!(percent > 5.0, "{percent}");
    for more in [&[][..], &["--diff", &old]] {
        let svg = plimsoll(&[&["heap", "flame", &new], more].concat()).exits(0).stdout.clone();
        let seen = picture(home.path(), &svg, term);
        assert_eq!(
            (&seen["total"], &seen["zoom_changed"], &seen["errors"]),
            (&total.into(), &true.into(), &Value::Array(vec![])),
            "{seen}"
        );
        assert!(
            seen["title"].as_str().unwrap().starts_with("inuse_space: ") && seen["frames"].as_u64().unwrap() > 100,
            "{seen}"
        );
        // Rounded to a tenth; what is too narrow to be drawn is its callers'.
        assert!(
            seen["matched_frames"].as_u64().unwrap() > 0
                && (seen["matched_percent"].as_f64().unwrap() - percent).abs() < 0.2,
            "{seen}"
        );
    }
}

#[test]
fn two_profiles_are_compared() {
    let (old, new) =
        (sample("list-storm/heap/heap-1795166306-base.pb.gz"), sample("list-storm/heap/heap-1795166726-after.pb.gz"));
    let report = heap(&["diff", &old, &new]);
    let (before, now) = (rows(&heap(&["top", &old]), "function"), rows(&heap(&["top", &new]), "function"));
    let none = [0, 0];
    let mut seen = 0;
    for row in report["rows"].as_array().unwrap() {
        let (was, is) =
            (before.get(&name(row, "function")).unwrap_or(&none), now.get(&name(row, "function")).unwrap_or(&none));
        for (index, field) in ["flat", "cum"].iter().enumerate() {
            assert_eq!(row[field].as_u64().unwrap(), is[index], "{row}");
            assert_eq!(row[format!("base_{field}")].as_u64().unwrap(), was[index], "{row}");
            assert_eq!(row[format!("{field}_change")].as_f64().unwrap(), is[index] as f64 - was[index] as f64, "{row}");
        }
        seen += usize::from(was != &none) + usize::from(is != &none);
    }
    assert_eq!(seen, before.len() + now.len());
    assert_eq!(report["window"]["seconds"].as_f64().unwrap().round(), 420.0);
    // A bundle gives its first and its last.
    assert_eq!(heap(&["diff", &sample("list-storm")])["rows"], report["rows"]);
    // The picture of it: as much as there is now, and both weights in text.
    let svg = plimsoll(&["heap", "flame", &new, "--diff", &old]).exits(0).stdout.clone();
    assert!(svg.contains(&format!("total_samples=\"{}\"", report["totals"]["total"])));
    let text = plimsoll(&["heap", "flame", &new, "--diff", &old, "-o", "folded"]).exits(0).stdout.clone();
    let sums = text.lines().fold([0u64; 2], |sum, line| {
        let mut words = line.rsplit(' ').map(|word| word.parse::<u64>().unwrap());
        let (now, before) = (words.next().unwrap(), words.next().unwrap());
        [sum[0] + before, sum[1] + now]
    });
    assert_eq!(sums, [report["totals"]["base_total"].as_u64().unwrap(), report["totals"]["total"].as_u64().unwrap()]);
}

#[test]
fn lists_are_found_in_an_incident_and_only_there() {
    let ids = |report: Value| {
        report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| finding["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for path in profiles() {
        let path = path.to_str().unwrap();
        let storm = path.contains("list-storm") && (path.contains("95166606") || path.contains("-after"));
        let expected: &[&str] = if storm || path.contains("95167511") { &["heap-list-allocations"] } else { &[] };
        assert_eq!(ids(heap(&["top", path])), expected, "{path}");
    }
    let (old, new) = (sample("list-storm/heap/heap-1795166486-base.pb.gz"), sample(STORM));
    let report = heap(&["diff", &old, &new]);
    assert!(report["findings"][0]["evidence"]["list_share"].as_f64().unwrap() > 0.7, "{}", report["findings"]);
    assert_eq!(plimsoll(&["heap", "top", &new, "--fail-on", "warning"]).code, Some(1));
}

#[test]
fn the_text_form_is_the_same_heap() {
    let home = folder();
    let path = sample("quiet/heap/heap-1795167757-base.pb.gz");
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/heap_text.py")).arg(&path);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let text = write(home.path(), "heap.txt", &ran.stdout);
    // What go tool pprof -raw makes of the same text (tests/data/pprof/README.md).
    let packed = std::fs::read(root().join("tests/data/pprof/legacy.values.zst")).unwrap();
    let values = String::from_utf8(zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    for (column, kind) in ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"].iter().enumerate() {
        let sum: u64 = values.lines().map(|line| line.split(' ').nth(column).unwrap().parse::<u64>().unwrap()).sum();
        let args = |path| ["top", path, "--by", "line", "--sample-type", kind];
        let (mine, theirs) = (heap(&args(&text)), heap(&args(&path)));
        assert_eq!(mine["totals"]["total"].as_u64().unwrap(), sum, "{kind}");
        none(&differences(&rows(&mine, "line"), &rows(&theirs, "line"), kind));
    }
}

#[test]
fn a_folder_gives_its_latest_profile_and_several_are_added_up() {
    let latest = heap(&["top", &sample("list-storm")]);
    assert!(latest["inputs"][0]["path"].as_str().unwrap().ends_with("heap-1795166726-after.pb.gz"));
    assert_eq!(latest["window"]["from"], "2026-11-20T09:25:26.594454Z");
    // By the time in the profile where names have none.
    let home = folder();
    for (name, file) in [("z.pb.gz", "heap-1795166306-base.pb.gz"), ("a.pb.gz", "heap-1795166726-after.pb.gz")] {
        std::fs::copy(sample(&format!("list-storm/heap/{file}")), home.path().join(name)).unwrap();
    }
    let here = home.path().to_str().unwrap();
    assert!(heap(&["top", here])["inputs"][0]["path"].as_str().unwrap().ends_with("a.pb.gz"));
    let (a, z) = (format!("{here}/a.pb.gz"), format!("{here}/z.pb.gz"));
    let total = |sources: &[&str]| heap(&[&["top"], sources].concat())["totals"]["total"].as_u64().unwrap();
    assert_eq!(total(&[&a, &z]), total(&[&a]) + total(&[&z]));
    assert_eq!(total(&[&format!("{here}/*.gz")]), total(&[&a, &z]));
    // Instances are folders.
    for name in ["one", "two"] {
        std::fs::create_dir(home.path().join(name)).unwrap();
        std::fs::copy(&a, home.path().join(name).join("heap.pb.gz")).unwrap();
    }
    assert_eq!(total(&[here, "--instance", "two"]), total(&[&a]));
    let ran = plimsoll(&["heap", "top", here, "--instance", "three"]);
    assert!(ran.exits(2).stderr.contains("there are one, two"), "{}", ran.stderr);
    let stdin = run(&["heap", "top", "-", "-o", "json"], &[], &std::fs::read(&a).unwrap()).json(0);
    assert_eq!(stdin["totals"]["total"].as_u64().unwrap(), total(&[&a]));
}

#[track_caller]
fn refused(ran: &Ran, file: &str, expected: &str) {
    ran.exits(3);
    assert!(
        ran.stderr.contains(file) && ran.stderr.contains(expected),
        "{}\nshould have {file} and: {expected}",
        ran.stderr
    );
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
}

#[test]
fn what_is_no_whole_profile_is_refused_with_its_place() {
    let home = folder();
    let packed = std::fs::read(sample(STORM)).unwrap();
    let bytes = unpacked(sample(STORM));
    let mut damaged = packed.clone();
    damaged[100_000] ^= 0x55;
    let snapshot = [&[0u8; 16][..], &[0xed, 0xda, 0x0c, 0xed], &[0; 100]].concat();
    let cases: [(&str, &[u8], &str); 12] = [
        ("cut.pb.gz", &packed[..packed.len() / 2], "of the unpacked profile: "),
        ("cut-short.pb.gz", &packed[..12], "byte 0 of the unpacked profile: "),
        ("damaged.pb.gz", &damaged, "gzip -t"),
        ("cut.pb", &bytes[..bytes.len() / 2], "(unpacked) ends within a field"),
        ("other.pb", &[0xde, 0xad, 0xbe, 0xef, 0, 0, 1, 2, 3], "byte "),
        ("empty.pb", b"", "it is empty"),
        ("metrics.txt", b"# HELP up x\n# TYPE up gauge\nup 1\n", "not a Go profile (it looks like Prometheus metrics)"),
        ("audit.log", br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"x"}"#, "not a Go profile"),
        ("snapshot.db", &snapshot, "not a Go profile (it looks like an etcd snapshot)"),
        ("page.html", b"<!doctype html><p>log in", "not a Go profile (it is an HTML page"),
        ("goroutine.txt", b"goroutine profile: total 7\n1 @ 0x1\n", "it is a Go profile as text, but not of the heap"),
        ("row.txt", b"heap profile: 1: 2 [3: 4] @ heap/1048576\n1: x\n", "row.txt: line 2 is not a row"),
    ];
    for (name, bytes, expected) in cases {
        let path = write(home.path(), name, bytes);
        for command in ["top", "flame"] {
            refused(&plimsoll(&["heap", command, &path]), name, expected);
        }
        refused(&plimsoll(&["heap", "diff", &path, &path]), name, expected);
    }
    refused(&plimsoll(&["heap", "top", "/not/here"]), "/not/here", "check the path");
    let folder_without = folder();
    write(folder_without.path(), "x.txt", "text");
    refused(
        &plimsoll(&["heap", "top", folder_without.path().to_str().unwrap()]),
        "",
        "no Go profile in this folder (looked at 1 file)",
    );
    // One good profile is shown all the same.
    let broken = write(home.path(), "broken.pb.gz", &packed[..1000]);
    let ran = plimsoll(&["heap", "top", &sample(STORM), &broken, "-o", "json"]);
    assert_eq!(ran.json(3)["totals"]["total"], 156_508_334u64);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let storm = sample(STORM);
    for (args, expected) in [
        (
            &["top", &storm, "--sample-type", "cpu"][..],
            "no sample type cpu; use one of: alloc_objects, alloc_space, inuse_objects, inuse_space",
        ),
        (&["top", &storm, "--sort-by", "size"], "unknown field; use one of: function, package, file"),
        (&["top", &storm, "--focus", "("], "unclosed group"),
        (&["top", &storm, "-o", "svg"], "for plimsoll heap flame"),
        (&["flame", &storm, "-o", "json"], "plimsoll heap top -o json"),
        (&["diff"], "SOURCE"),
    ] {
        let ran = plimsoll(&[&["heap"], args].concat());
        assert!(ran.exits(2).stderr.contains(expected), "{}", ran.stderr);
    }
    refused(&plimsoll(&["heap", "diff", &storm]), "", "only one profile to compare");
    refused(&plimsoll(&["heap", "flame", &storm, "--focus", "nothing-is-called-so"]), "", "nothing to draw");
    let ran = plimsoll(&["heap", "top", &storm, "--focus", "nothing-is-called-so"]);
    assert!(ran.exits(0).stdout.contains("--focus matches nothing"), "{}", ran.stdout);
}

#[test]
fn tables_fit_a_terminal() {
    let storm = sample(STORM);
    for args in [
        &["top", &storm][..],
        &["top", &storm, "--by", "line"],
        &["top", &storm, "--by", "file"],
        &["top", &storm, "--by", "package"],
        &["diff", &sample("list-storm")],
        &["diff", &sample("list-storm"), "--by", "line"],
    ] {
        let ran = run(&[&["heap"], args].concat(), &[("COLUMNS", "80")], b"");
        let text = &ran.exits(0).stdout;
        for line in text.lines() {
            let long_word = line.split(' ').any(|word| word.contains("/samples/"));
            assert!(unicode_width::UnicodeWidthStr::width(line) <= 80 || long_word, "{line}");
        }
    }
    let ran = plimsoll(&["heap", "top", &storm, "-o", "wide", "--top", "3"]);
    assert!(ran.stdout.contains("k8s.io/api/core/v1.(*Secret).Unmarshal"), "{}", ran.stdout);
    let csv = plimsoll(&["heap", "top", &storm, "-o", "csv", "--top", "1"]);
    assert!(
        csv.stdout.starts_with("function,package,file,line,flat,cum,flat_share,cum_share\nbytes.Clone,,/"),
        "{}",
        csv.stdout
    );
}
