//! Pages of writers that differ from page to page, pages that lack lines, and windows with one page: each with the
//! truth that its maker knows.

use crate::support::{count, folder, number, plimsoll, write};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const BEGIN: u64 = 1_795_000_000;

/// A line: name, labels in some order, value.
type Line = (String, Vec<(&'static str, String)>, u64);

/// A way to put labels together.
type Join<'j> = &'j dyn Fn(Vec<String>) -> String;

/// What one page of an apiserver says, `minutes` after it began to count: every minute 60 GETs of pods, of which one
/// fails and six take longer than a second, all of them less than 10 s.
struct Page {
    minutes: u64,
}

impl Page {
    fn lines(&self) -> Vec<Line> {
        let labels = |more: &[(&'static str, &str)]| {
            let all = [("verb", "GET"), ("resource", "pods"), ("scope", "resource"), ("subresource", "")];
            all.iter().chain(more).map(|(name, value)| (*name, (*value).to_owned())).collect::<Vec<_>>()
        };
        let mut lines = vec![
            ("apiserver_request_total".to_owned(), labels(&[("code", "200")]), 59 * self.minutes),
            ("apiserver_request_total".to_owned(), labels(&[("code", "500")]), self.minutes),
        ];
        for metric in ["apiserver_request_duration_seconds", "apiserver_request_sli_duration_seconds"] {
            for (bound, each) in [("0.1", 30), ("1", 54), ("10", 60), ("+Inf", 60)] {
                lines.push((format!("{metric}_bucket"), labels(&[("le", bound)]), each * self.minutes));
            }
            lines.push((format!("{metric}_sum"), labels(&[]), 30 * self.minutes));
            lines.push((format!("{metric}_count"), labels(&[]), 60 * self.minutes));
        }
        lines
    }

    fn head() -> String {
        format!(
            "# TYPE apiserver_request_total counter\n# TYPE apiserver_request_duration_seconds histogram\n\
             # TYPE apiserver_request_sli_duration_seconds histogram\nprocess_start_time_seconds {}\n",
            BEGIN - 3600
        )
    }

    /// As an apiserver writes it.
    fn text(&self) -> String {
        self.written(|labels| labels.join(","), |_| true)
    }

    fn written(&self, join: impl Fn(Vec<String>) -> String, is_there: impl Fn(&str) -> bool) -> String {
        let line = |(name, labels, value): Line| {
            let labels = labels.into_iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            format!("{name}{{{}}} {value}\n", join(labels))
        };
        let lines = self.lines().into_iter().map(line).filter(|line| is_there(line));
        Self::head() + &lines.collect::<String>()
    }
}

fn put(to: &Path, minutes: u64, page: &str) {
    write(to, &format!("apiserver-0/{}.txt", BEGIN + 60 * minutes), page);
}

fn health(of: &Path, more: &[&str]) -> Value {
    let source = of.to_str().unwrap();
    plimsoll(&[&["traffic", source, "--health", "--by", "verb,resource,code", "-o", "json"], more].concat()).json(0)
}

/// The row of GETs of single objects among Kubernetes' objectives: requests, slow ones.
fn objective(report: &Value) -> (u64, Option<u64>) {
    let rows = report["tables"]["slo"].as_array().unwrap();
    let row = rows.iter().find(|row| row["class"] == "read-object").unwrap();
    (count(row, "requests"), row["slow"].as_u64())
}

/// However labels are written, a series is one: no rise is counted from 0 again.
#[test]
fn a_series_is_its_labels_not_their_spelling() {
    let reversed = |mut labels: Vec<String>| {
        labels.reverse();
        labels.join(",")
    };
    let ways: [(&str, Join<'_>); 5] = [
        ("reversed", &reversed),
        ("a comma at the end", &|labels| labels.join(",") + ","),
        ("blanks", &|labels| labels.join(" , ")),
        ("empty ones left out", &|labels| {
            labels.into_iter().filter(|label| !label.ends_with("=\"\"")).collect::<Vec<_>>().join(",")
        }),
        ("bounds as OpenMetrics writes them", &|labels| {
            labels.join(",").replace("le=\"1\"", "le=\"1.0\"").replace("le=\"10\"", "le=\"10.0\"")
        }),
    ];
    let all = |number: u64| number.is_multiple_of(2);
    for (way, join) in ways {
        let (plain, other) = (folder(), folder());
        for minutes in 0..6 {
            let page = Page { minutes: 10 + minutes };
            put(plain.path(), minutes, &page.text());
            put(other.path(), minutes, &if all(minutes) { page.text() } else { page.written(join, |_| true) });
        }
        let (truth, found) = (health(plain.path(), &[]), health(other.path(), &[]));
        assert_eq!(count(&truth["totals"], "requests"), 300);
        assert_eq!(objective(&truth), (300, Some(30)));
        for part in ["rows", "totals", "tables"] {
            assert_eq!(found[part], truth[part], "{way}");
        }
    }
    // What a page has twice, in two spellings, counts once.
    let twice = folder();
    for minutes in 0..2 {
        let page = Page { minutes: 10 + minutes };
        put(twice.path(), minutes, &(page.text() + &page.written(reversed, |_| true).replace(&Page::head(), "")));
    }
    assert_eq!(count(&health(twice.path(), &[])["totals"], "requests"), 60);
}

/// A line that one page lacks is no incident, and no request is slow for that.
#[test]
fn a_line_that_a_page_lacks_changes_nothing() {
    let lacks = |line: &str| line.contains("le=\"1\"");
    let whole = folder();
    for minutes in 0..60 {
        put(whole.path(), minutes, &Page { minutes: 100 + minutes }.text());
    }
    let report = |of: &Path| plimsoll(&["report", of.to_str().unwrap(), "-o", "json"]).json(0);
    let episodes = |report: &Value| {
        let all = report["episodes"].as_array().unwrap().iter();
        all.map(|own| ["grade", "from", "to"].map(|field| own[field].clone())).collect::<Vec<_>>()
    };
    let truth = episodes(&report(whole.path()));
    for without in [3, 59] {
        let home = folder();
        for minutes in 0..60 {
            let page = Page { minutes: 100 + minutes };
            let text = page.written(|labels| labels.join(","), |line| minutes != without || !lacks(line));
            put(home.path(), minutes, &text);
        }
        let found = report(home.path());
        assert_eq!(episodes(&found), truth, "page {without}: {}", found["summary"]);
        let (requests, slow) = objective(&health(home.path(), &[]));
        assert_eq!(requests, 59 * 60);
        // Of the last minute nobody knows, at the end.
        assert!(slow.is_some_and(|slow| (slow as f64 - 6.0 * 59.0).abs() <= 54.0), "page {without}: {slow:?}");
    }
    // What rose while it was not there rose evenly.
    let home = folder();
    for minutes in 0..6 {
        let page = Page { minutes: 10 + minutes };
        let text = page.written(|labels| labels.join(","), |line| minutes != 2 || !line.contains("code=\"200\""));
        put(home.path(), minutes, &text);
    }
    let report = health(home.path(), &[]);
    assert_eq!(count(&report["totals"], "requests"), 300);
    assert!((number(&report["totals"], "peak_rps") - 1.0).abs() < 1e-9, "{}", report["totals"]);
    // Without `+Inf`, all is what the histogram counts.
    let home = folder();
    for minutes in 0..6 {
        let page = Page { minutes: 10 + minutes };
        put(home.path(), minutes, &page.written(|labels| labels.join(","), |line| !line.contains("+Inf")));
    }
    assert_eq!(objective(&health(home.path(), &[])), (300, Some(30)));
    // Where the last page has none of the bounds, nobody knows.
    let home = folder();
    for minutes in 0..3 {
        let page = Page { minutes: 10 + minutes };
        let is_bound = |line: &str| line.contains("le=\"") && !line.contains("+Inf");
        put(home.path(), minutes, &page.written(|labels| labels.join(","), |line| minutes != 2 || !is_bound(line)));
    }
    assert_eq!(objective(&health(home.path(), &[])), (120, None));
}

/// Intervals that are shorter than the time between pages add up to what the pages count.
#[test]
fn intervals_add_up_however_short_they_are() {
    let home = folder();
    for minutes in 0..21 {
        put(home.path(), minutes, &Page { minutes: 10 + minutes }.text());
    }
    let source = home.path().to_str().unwrap();
    for interval in ["7s", "10s", "60s", "90s", "1h"] {
        let by = ["--by", "code", "--series", "--interval", interval, "-o", "json"];
        let report = plimsoll(&[&["traffic", source], by.as_slice()].concat()).json(0);
        let mut of = std::collections::BTreeMap::new();
        for row in report["rows"].as_array().unwrap() {
            *of.entry(row["code"].as_str().unwrap().to_owned()).or_insert(0) += count(row, "requests");
        }
        let expected = [("200".to_owned(), 59 * 20), ("500".to_owned(), 20)];
        assert_eq!(of.into_iter().collect::<Vec<_>>(), expected, "{interval}");
    }
    // Pages that are days apart say nothing of seconds.
    let home = folder();
    for day in 0..2 {
        put(home.path(), day * 1440, &Page { minutes: 10 + day * 1440 }.text());
    }
    let ran = plimsoll(&["traffic", home.path().to_str().unwrap(), "--series", "--interval", "10s"]);
    assert!(ran.exits(2).stderr.contains("choose a longer one"), "{}", ran.stderr);
}

/// A window with one page counts from the page before it, not from the start of the process.
#[test]
fn a_window_with_one_page_counts_from_the_page_before() {
    let home = folder();
    for minutes in 0..6 {
        put(home.path(), minutes, &Page { minutes: 1000 + minutes }.text());
    }
    let at = |minutes: i64, seconds: i64| {
        let at = jiff::Timestamp::from_second(BEGIN as i64 + 60 * minutes + seconds).unwrap();
        at.to_string()
    };
    let report = health(home.path(), &["--since", &at(2, -5), "--until", &at(2, 5)]);
    assert_eq!(count(&report["totals"], "requests"), 60);
    assert_eq!(report["window"]["from"].as_str().unwrap(), at(1, 0));
}

/// Apiservers name each member of etcd that they ask: the database is as large as the largest.
#[test]
fn members_of_one_etcd_are_no_sum() {
    let home = folder();
    for minutes in 0..2 {
        let sizes: String = (1..4)
            .map(|n| format!("apiserver_storage_size_bytes{{storage_cluster_id=\"etcd-{n}\"}} {}\n", 1_500_000_000 + n))
            .collect();
        put(home.path(), minutes, &(Page { minutes: 10 + minutes }.text() + &sizes));
    }
    let report = plimsoll(&["etcd", "health", home.path().to_str().unwrap(), "-o", "json"]).json(0);
    assert_eq!(count(&report["totals"], "db_bytes"), 1_500_000_003, "{}", report["totals"]);
}

/// Pages of several processes, whatever families were asked for.
#[test]
fn pages_of_a_federation_are_of_several_processes() {
    let home = folder();
    for minutes in 0..2 {
        let page: String = (0..3)
            .map(|n| {
                format!("etcd_mvcc_db_total_size_in_bytes{{instance=\"10.0.0.{n}:2379\"}} {}\n", (n + 1) * 2_000_000)
            })
            .chain((0..3).map(|n| format!("etcd_server_quota_backend_bytes{{instance=\"10.0.0.{n}:2379\"}} 8000000\n")))
            .collect();
        write(home.path(), &format!("etcd-0/{}.txt", BEGIN + 60 * minutes), page);
    }
    let ran = plimsoll(&["etcd", "health", home.path().to_str().unwrap()]);
    assert!(ran.code == Some(3) && ran.stderr.contains("10.0.0.0:2379"), "{:?} {}", ran.code, ran.stderr);
}

/// Apiservers that one address hides, on pages that say nothing of who they are.
#[test]
fn filtered_pages_behind_one_address_are_separated_by_their_counters() {
    let rates: [(u64, u64); 3] = [(1_000, 20), (900_000, 40), (50_000, 60)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        let home = folder();
        for turn in 0..24_u64 {
            let (first, rate) = rates[order[turn as usize % 3]];
            let page: String = (0..24)
                .map(|n| {
                    let value = (first + turn * 15 * rate) * (n + 1);
                    format!("apiserver_request_total{{verb=\"GET\",resource=\"r{n}\",code=\"200\"}} {value}\n")
                })
                .collect();
            write(home.path(), &format!("lb/{}.txt", BEGIN + 15 * turn), page);
        }
        let report = plimsoll(&["traffic", home.path().to_str().unwrap(), "--by", "instance", "-o", "json"]).json(0);
        let expected: u64 = rates.iter().map(|(_, rate)| rate * 21 * 15 * 300).sum();
        assert_eq!(count(&report["totals"], "requests"), expected, "{order:?}: {}", report["coverage"]["instances"]);
        assert_eq!(report["rows"].as_array().unwrap().len(), 3, "{order:?}");
    }
}

/// What an apiserver did in a short time is compared with what others did in a long one by the second.
#[test]
fn balance_compares_rates() {
    let home = folder();
    let page = |start: u64, requests: u64| {
        format!(
            "# TYPE apiserver_request_total counter\nprocess_start_time_seconds {start}\n\
             apiserver_request_total{{verb=\"GET\",resource=\"pods\",code=\"200\"}} {requests}\n"
        )
    };
    write(home.path(), &format!("apiserver-0/{BEGIN}.txt"), page(BEGIN - 100, 2_800));
    write(home.path(), &format!("apiserver-1/{BEGIN}.txt"), page(BEGIN - 10_000, 180_000));
    let report = plimsoll(&["balance", home.path().to_str().unwrap(), "-o", "json"]).json(0);
    let share = number(&report["rows"][0], "share");
    assert!((share - 28.0 / 46.0).abs() < 1e-6, "{}", report["rows"]);
    assert_eq!(report["findings"], Value::Array(Vec::new()));
}

/// A page whose file was written when no clock was set stretches nothing over decades.
#[test]
fn a_file_of_another_decade_is_set_aside() {
    let home = folder();
    for minutes in 0..6 {
        put(home.path(), minutes, &Page { minutes: 10 + minutes }.text());
    }
    let truth = health(home.path(), &[]);
    let path = write(home.path(), "apiserver-0/page.txt", Page { minutes: 9 }.text());
    File::options().write(true).open(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(35)).unwrap();
    let source = home.path().to_str().unwrap();
    let ran = plimsoll(&["traffic", source, "--health", "--by", "verb,resource,code", "-o", "json"]);
    let found = ran.json(3);
    assert!(ran.stderr.contains("page.txt: dated 1970-01-01T00:00:35Z"), "{}", ran.stderr);
    for part in ["rows", "totals", "tables", "window"] {
        assert_eq!(found[part], truth[part], "{part}");
    }
    let report = plimsoll(&["report", source, "-o", "json"]).json(3);
    assert_eq!(report["window"], truth["window"]);
}

/// Pages that lie a decade apart are reported, in intervals that are long enough.
#[test]
fn a_report_of_pages_of_two_decades() {
    let home = folder();
    let decade = 10 * 365 * 86_400;
    for minutes in 0..6 {
        let text = Page { minutes: 10 + minutes }.text();
        put(home.path(), minutes, &text);
        let early = text.replace(&(BEGIN - 3600).to_string(), &(BEGIN - decade - 3600).to_string());
        write(home.path(), &format!("apiserver-0/{}.txt", BEGIN - decade + 60 * minutes), early);
    }
    let report = plimsoll(&["report", home.path().to_str().unwrap(), "-o", "json"]).json(0);
    let from = jiff::Timestamp::from_second((BEGIN - decade) as i64).unwrap().to_string();
    assert_eq!(report["window"]["from"], from);
}
