//! Whose page it is: load balancers, restarts, pages without a start time, pages that were cut.

use crate::metrics::{differences, metrics, near, oracle, packed, pages_of};
use crate::support::{folder, none, plimsoll, rows, sample, write};
use serde_json::Value;
use std::path::Path;

/// A page without the line that shows when its process started.
fn without_start(page: &str) -> String {
    page.lines().filter(|line| !line.contains("process_start_time_seconds")).flat_map(|line| [line, "\n"]).collect()
}

/// Writes pages into a folder.
fn put(folder: &Path, name: &str, pages: &[(f64, &str)]) {
    for (time, page) in pages {
        write(folder, &format!("{name}/{time:.3}.txt.zst"), packed(page));
    }
}

/// Every fourth page of both apiservers of list-storm; those of the second are half a second later.
fn two() -> [Vec<(f64, String)>; 2] {
    let some = |instance: &str, late: f64| {
        pages_of(&format!("list-storm/metrics/{instance}"))
            .into_iter()
            .step_by(4)
            .map(|(t, page)| (t as f64 + late, page))
            .collect()
    };
    [some("apiserver-0", 0.0), some("apiserver-1", 0.5)]
}

/// Fields of two objects that differ, but for `peak_rps`: its slots begin with the first page.
fn same(ours: &Value, theirs: &Value, place: &str, faults: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for field in a.keys().filter(|field| *field != "peak_rps") {
                same(&a[field], b.get(field).unwrap_or(&Value::Null), &format!("{place}.{field}"), faults);
            }
        }
        _ => {
            let equal = match (ours.as_f64(), theirs.as_f64()) {
                (Some(a), Some(b)) => near(a, b),
                _ => ours == theirs,
            };
            if !equal {
                faults.push(format!("{place}: {ours}, not {theirs}"));
            }
        }
    }
}

fn same_report(ours: &Value, theirs: &Value, by: &str) -> Vec<String> {
    let mut faults = Vec::new();
    same(&ours["totals"], &theirs["totals"], "totals", &mut faults);
    let (mine, other) = (rows(ours, by), rows(theirs, by));
    if !mine.keys().eq(other.keys()) {
        faults.push(format!("rows are {:?}, not {:?}", mine.keys(), other.keys()));
    }
    for (key, row) in &mine {
        same(row, other.get(key).unwrap_or(&Value::Null), &format!("{key:?}"), &mut faults);
    }
    for table in ["priority_levels", "slo", "lists", "watches", "objects"] {
        if ours["tables"][table].as_array().map(Vec::len) != theirs["tables"][table].as_array().map(Vec::len) {
            faults.push(format!("table {table}"));
        }
    }
    faults
}

/// Instances: name, pages, restarts.
fn instances(report: &Value) -> Vec<(String, u64, u64)> {
    let list = report["coverage"]["instances"].as_array().unwrap().iter();
    list.map(|i| {
        (i["instance"].as_str().unwrap().to_owned(), i["pages"].as_u64().unwrap(), i["restarts"].as_u64().unwrap())
    })
    .collect()
}

const BY: &str = "verb,resource,code";

#[test]
fn two_apiservers_behind_one_address() {
    let pages = two();
    let (apart, merged, blind) = (folder(), folder(), folder());
    for (name, pages) in ["one", "two"].iter().zip(&pages) {
        let pages: Vec<(f64, &str)> = pages.iter().map(|(time, page)| (*time, page.as_str())).collect();
        put(apart.path(), name, &pages);
        put(merged.path(), "lb", &pages);
        for (time, page) in pages {
            write(blind.path(), &format!("lb/{time:.3}.txt.zst"), packed(&without_start(page)));
        }
    }
    let report = |folder: &tempfile::TempDir, by: &str| metrics(folder.path().to_str().unwrap(), by, &[]);
    let (truth, found) = (report(&apart, BY), report(&merged, BY));
    assert_eq!(instances(&truth), [("one".to_owned(), 8, 0), ("two".to_owned(), 8, 0)]);
    assert_eq!(instances(&found), [("lb#1".to_owned(), 8, 0), ("lb#2".to_owned(), 8, 0)]);
    none(&same_report(&found, &truth, BY));
    // By instance the same numbers under other names.
    let rename = |mut report: Value| {
        for row in report["rows"].as_array_mut().unwrap() {
            row["instance"] = row["instance"].as_str().unwrap().replace("one", "lb#1").replace("two", "lb#2").into();
        }
        report
    };
    none(&same_report(&report(&merged, "instance"), &rename(report(&apart, "instance")), "instance"));
    // The oracle, peaks too.
    for by in [BY, "instance"] {
        none(&differences(&report(&merged, by), &oracle(merged.path().to_str().unwrap(), &[by])[by], by));
    }
    // By their counters alone.
    let found = report(&blind, BY);
    assert_eq!(instances(&found).len(), 2, "{:?}", instances(&found));
    let mut truth = truth;
    truth["totals"]["glance"]["oldest_start"] = Value::Null;
    none(&same_report(&found, &truth, BY));
    // People are reported.
    let ran = plimsoll(&["traffic", merged.path().to_str().unwrap(), "--from", "metrics"]);
    assert!(ran.exits(0).stdout.contains("lb#1") && ran.stdout.contains("share one address"), "{}", ran.stdout);
}

#[test]
fn a_restart_is_one_instance() {
    let source = sample("overload-restart");
    let truth = metrics(&source, BY, &[]);
    assert_eq!(instances(&truth), [("apiserver-0".to_owned(), 8, 1)]);
    assert_eq!(truth["totals"]["glance"]["restarts"], 1);
    let pages = pages_of("overload-restart/metrics/apiserver-0");
    let blind = folder();
    for (time, page) in &pages {
        write(blind.path(), &format!("apiserver-0/{time}.txt"), without_start(page));
    }
    let found = metrics(blind.path().to_str().unwrap(), BY, &[]);
    assert_eq!(instances(&found), [("apiserver-0".to_owned(), 8, 1)]);
    let mut truth = truth;
    truth["totals"]["glance"]["oldest_start"] = Value::Null;
    none(&same_report(&found, &truth, BY));
    // As the oracle has it; a restart without a start time begins with the page before, for peaks.
    for by in [BY, "instance"] {
        none(&differences(
            &metrics(blind.path().to_str().unwrap(), by, &[]),
            &oracle(blind.path().to_str().unwrap(), &[by])[by],
            by,
        ));
    }
}

#[test]
fn a_start_that_wanders() {
    // The start is reckoned from the machine's boot time, which moves when the clock is set: less than two seconds are
    // no restart.
    let pages = pages_of("quiet/metrics/apiserver-0");
    let truth = metrics(&sample("quiet"), "verb", &[]);
    let start = "process_start_time_seconds 1.79516770105e+09";
    for (step, restarts) in [(0.4, 0), (3.0, 1)] {
        let folder = folder();
        for (number, (time, page)) in pages.iter().enumerate() {
            assert!(page.contains(start));
            let moved = if number % 2 == 0 || step > 2.0 && number < 4 { 0.0 } else { step };
            let moved = if step > 2.0 && number >= 4 { step } else { moved };
            write(
                folder.path(),
                &format!("apiserver-0/{time}.txt"),
                page.replace(start, &format!("process_start_time_seconds {:.2}", 1_795_167_701.05 + moved)),
            );
        }
        let found = metrics(folder.path().to_str().unwrap(), "verb", &[]);
        if restarts == 0 {
            assert_eq!(instances(&found), [("apiserver-0".to_owned(), 9, 0)]);
            assert_eq!(found["rows"], truth["rows"]);
        } else {
            // Another process; it lived at the same time, so there are two.
            assert_eq!(instances(&found).len(), 2, "{:?}", instances(&found));
        }
    }
}

#[test]
fn a_page_that_was_cut_changes_no_total() {
    for (name, cut) in [("quiet", 4), ("overload-restart", 2), ("overload-restart", 6)] {
        let truth = metrics(&sample(name), BY, &[]);
        let folder = folder();
        let pages = pages_of(&format!("{name}/metrics/apiserver-0"));
        for share in [2, 3, 10] {
            for (number, (time, page)) in pages.iter().enumerate() {
                let page = if number == cut { &page[..page.len() / share] } else { page };
                write(folder.path(), &format!("apiserver-0/{time}.txt"), page);
            }
            let ran =
                plimsoll(&["traffic", folder.path().to_str().unwrap(), "--from", "metrics", "--by", BY, "-o", "json"]);
            let found = ran.json(3);
            assert!(ran.stderr.contains(&format!("{}.txt:", pages[cut].0)), "{}", ran.stderr);
            assert_eq!(instances(&found), instances(&truth), "{name}, 1/{share} of page {cut}");
            none(
                &same_report(&found, &truth, BY)
                    .into_iter()
                    .map(|fault| format!("{name}, 1/{share} of page {cut}: {fault}"))
                    .collect::<Vec<_>>(),
            );
        }
    }
}

#[test]
fn a_cut_page_behind_a_load_balancer() {
    let pages = two();
    let merged = folder();
    let truth = folder();
    for (which, pages) in pages.iter().enumerate() {
        for (number, (time, page)) in pages.iter().enumerate() {
            write(truth.path(), &format!("lb/{time:.3}.txt.zst"), packed(page));
            // What is left shows whose page it is: counters of the process, and some of its requests.
            let cut = page.find("apiserver_watch_events_total{").unwrap();
            let page = if which == 1 && number == 4 {
                format!("{}{}", process(page), &page[..cut + 30])
            } else {
                page.clone()
            };
            write(merged.path(), &format!("lb/{time:.3}.txt.zst"), packed(&page));
        }
    }
    let truth = metrics(truth.path().to_str().unwrap(), BY, &[]);
    let found =
        plimsoll(&["traffic", merged.path().to_str().unwrap(), "--from", "metrics", "--by", BY, "-o", "json"]).json(3);
    assert_eq!(instances(&found), instances(&truth));
    none(&same_report(&found, &truth, BY));
}

/// The lines of the process: in front of the page, so that a cut leaves them.
fn process(page: &str) -> String {
    page.lines()
        .filter(|line| line.starts_with("process_") || line.starts_with("go_memstats_mallocs"))
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// What Prometheus gives of several processes is no page of one: nothing is counted, and it is said.
#[test]
fn a_page_of_several_processes_is_none() {
    let home = folder();
    let [one, other] = two();
    for ((time, one), (_, other)) in one.iter().zip(&other) {
        let owned = |page: &str, instance: &str| -> String {
            let labelled = |line: &str| match line.split_once(['{', ' ']) {
                _ if line.starts_with('#') => String::new(),
                Some((name, rest)) if line[name.len()..].starts_with('{') => {
                    format!("{name}{{instance=\"{instance}\",{rest}\n")
                }
                Some((name, rest)) => format!("{name}{{instance=\"{instance}\"}} {rest}\n"),
                None => String::new(),
            };
            page.lines().map(labelled).collect()
        };
        let both = owned(one, "a:6443") + &owned(other, "b:6443");
        write(home.path(), &format!("both/{time:.3}.txt.zst"), packed(&both));
        write(home.path(), &format!("one/{time:.3}.txt.zst"), packed(&owned(one, "a:6443")));
        write(home.path(), &format!("plain/{time:.3}.txt.zst"), packed(one));
    }
    let of = |name: &str| home.path().join(name).display().to_string();
    let ran = plimsoll(&["traffic", &of("both"), "--from", "metrics"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stdout);
    assert!(ran.stderr.contains("several processes") && ran.stderr.contains("instance=b:6443"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("requests in"), "{}", ran.stdout);
    // Of one process they are pages as any.
    let [one, plain] = [of("one"), of("plain")].map(|name| metrics(&name, "verb,resource", &[]));
    none(&same_report(&one, &plain, "verb,resource"));
}

/// Bundles that were collected one after the other hold pages of the same processes, in part of the same time.
#[test]
fn bundles_of_one_cluster_are_those_of_its_apiservers() {
    let about = "cluster: lab-1\n";
    let whole = folder();
    let pages = |instance: &str| pages_of(&format!("list-storm/metrics/{instance}"));
    let put_part = |to: &Path, bundle: &str, is_in: &dyn Fn(usize, usize) -> bool| {
        for instance in ["apiserver-0", "apiserver-1"] {
            let pages = pages(instance);
            for (number, (time, page)) in pages.iter().enumerate() {
                if is_in(number, pages.len()) {
                    write(to, &format!("{bundle}/metrics/{instance}/{time}.txt.zst"), packed(page));
                }
            }
        }
    };
    put_part(whole.path(), "all", &|_, _| true);
    write(whole.path(), "all/bundle.yaml", about);
    let truth = metrics(whole.path().to_str().unwrap(), BY, &[]);
    type Part = fn(usize, usize) -> bool;
    let parts: [(&str, [Part; 2]); 3] = [
        ("one after the other", [|n, all| n < all / 2, |n, all| n >= all / 2]),
        ("of times that overlap", [|n, all| n < all * 3 / 5, |n, all| n >= all * 2 / 5]),
        ("copies", [|_, _| true, |_, _| true]),
    ];
    for (case, [first, second]) in parts {
        for is_stated in [true, false] {
            let home = folder();
            put_part(home.path(), "a", &first);
            put_part(home.path(), "b", &second);
            if is_stated {
                write(home.path(), "a/bundle.yaml", about);
                write(home.path(), "b/bundle.yaml", about);
            }
            let mut found = metrics(home.path().to_str().unwrap(), BY, &[]);
            assert_eq!(instances(&found), instances(&truth), "{case}, {is_stated}");
            if !is_stated {
                let text = found.to_string().replace(r#""cluster":"""#, r#""cluster":"lab-1""#);
                found = serde_json::from_str(&text).unwrap();
            }
            none(&same_report(&found, &truth, BY));
        }
    }
    // Other processes that folders call alike, of the same time, are apiservers of their own.
    let home = folder();
    for (bundle, instance) in [("a", "apiserver-0"), ("b", "apiserver-1")] {
        for (time, page) in pages(instance) {
            write(home.path(), &format!("{bundle}/metrics/cp-1/{time}.txt.zst"), packed(&page));
        }
    }
    let found = metrics(home.path().to_str().unwrap(), BY, &[]);
    let [zero, one] = [0, 1].map(|number| truth["coverage"]["instances"][number]["pages"].as_u64().unwrap());
    assert_eq!(instances(&found), [("cp-1".to_owned(), zero, 0), ("cp-1".to_owned(), one, 0)]);
    none(&same_report(&found, &truth, BY));
}
