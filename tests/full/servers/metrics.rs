//! A real Prometheus scrapes pages, and what `traffic --from metrics` says of them is what its PromQL answers
//! (`tests/oracle/prometheus.py` asks it): calm pages, pages with all that makes counting hard, and the samples.

use crate::support::{feed, folder, micros, none, number, plimsoll, python, root, rows, sample};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// `traffic SOURCE --from metrics -o json` and more; the exit code must be 0.
#[track_caller]
fn metrics(source: &str, by: &str, more: &[&str]) -> Value {
    plimsoll(&[&["traffic", source, "--from", "metrics", "--by", by, "-o", "json"], more].concat()).json(0)
}

/// Runs Prometheus on the pages of a plan; its answers. The pages lie in `out` by the time at which it took them.
fn scraped(plan: &Path, out: &Path, queries: &Path) -> Value {
    let mut last = String::new();
    // A machine that is too busy misses a scrape; prometheus.py notices.
    for attempt in 0..4 {
        let _ = std::fs::remove_dir_all(out);
        let mut command = Command::new(python());
        command.arg(root().join("tests/oracle/prometheus.py"));
        command.arg("--pages").arg(plan).arg("--out").arg(out).arg("--queries").arg(queries);
        let ran = feed(command, b"");
        if ran.code == Some(0) {
            return serde_json::from_str(&ran.stdout).unwrap();
        }
        assert!(
            !ran.stderr.contains("no `prometheus`"),
            "there is no prometheus on PATH; run .ci/setup (Debian: apt-get install prometheus)"
        );
        last = format!("attempt {attempt}: {}", ran.stderr);
    }
    panic!("Prometheus did not take the pages: {last}");
}

/// Answers of one query by the values of these labels; those that are the same in all of them are added.
fn answers(all: &Value, query: &str, labels: &[&str]) -> BTreeMap<Vec<String>, Option<f64>> {
    let mut found = BTreeMap::new();
    for row in all[query].as_array().unwrap_or_else(|| panic!("no query {query}")) {
        let key = labels.iter().map(|label| row["metric"][*label].as_str().unwrap_or_default().to_owned()).collect();
        let sum: &mut Option<f64> = found.entry(key).or_default();
        *sum = sum.map_or(row["value"].as_f64(), |sum| Some(sum + row["value"].as_f64().unwrap_or_default()));
    }
    found
}

/// Prometheus' answers beside a report's numbers.
struct Beside {
    all: Value,
    faults: Vec<String>,
    compared: usize,
}

impl Beside {
    fn number(&mut self, what: &str, ours: &Value, theirs: Option<f64>) {
        self.compared += 1;
        let same = match (ours.as_f64(), theirs) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * b.abs() + 0.000_001,
            // A sum over no series is no answer.
            (Some(a), None) => a == 0.0,
            (None, b) => b.is_none(),
        };
        if !same {
            self.faults.push(format!("{what}: {ours}, Prometheus has {theirs:?}"));
        }
    }

    /// A query with one answer.
    fn one(&mut self, query: &str, ours: &Value) {
        let theirs = answers(&self.all, query, &[]).remove(&vec![]).flatten();
        self.number(query, ours, theirs);
    }

    /// A query by labels. `ours` must have all that Prometheus has if `all`, and no more.
    fn by(&mut self, query: &str, labels: &[&str], mut ours: BTreeMap<Vec<String>, Value>, all: bool) {
        for (key, theirs) in answers(&self.all, query, labels) {
            match ours.remove(&key) {
                Some(own) => self.number(&format!("{query} {key:?}"), &own, theirs),
                None if !all || theirs.is_none_or(|value| value == 0.0) => {}
                None => self.faults.push(format!("{query}: there is no {key:?}, Prometheus has {theirs:?}")),
            }
        }
        for (key, own) in ours {
            self.number(&format!("{query} {key:?}"), &own, None);
        }
    }
}

/// A field of rows by dims.
fn field(report: &Value, dims: &str, field: &str) -> BTreeMap<Vec<String>, Value> {
    rows(report, dims).into_iter().map(|(key, row)| (key, row[field].clone())).collect()
}

/// A field of a table's rows by dims.
fn of_table(report: &Value, table: &str, dims: &str, name: &str) -> BTreeMap<Vec<String>, Value> {
    field(&json!({ "rows": report["tables"].get(table).cloned().unwrap_or(json!([])) }), dims, name)
}

/// The verb of a series in audit names.
fn verb(label: &str, scope: &str, resource: &str) -> String {
    match label {
        _ if resource.is_empty() => label.to_lowercase(),
        "POST" => "create".to_owned(),
        "PUT" => "update".to_owned(),
        "APPLY" => "patch".to_owned(),
        "WATCHLIST" => "watch".to_owned(),
        "DELETE" if scope != "resource" => "deletecollection".to_owned(),
        other => other.to_lowercase(),
    }
}

const SERIES: &str = "verb,resource,group,version,subresource,component,code,instance";

/// All questions at once. `calm`: Prometheus' own `increase` gives the same.
fn compare(source: &str, all: Value, calm: bool) -> Beside {
    let mut beside = Beside { all, faults: Vec::new(), compared: 0 };
    let report = metrics(source, SERIES, &[]);
    let totals = &report["totals"];
    let glance = &totals["glance"];
    let mut series = BTreeMap::<Vec<String>, f64>::new();
    for (key, value) in
        answers(&beside.all, "requests_by_series", &[&SERIES.split(',').collect::<Vec<_>>()[..], &["scope"]].concat())
    {
        let mut key = key;
        let scope = key.pop().unwrap();
        key[0] = verb(&key[0], &scope, &key[1]);
        *series.entry(key).or_default() += value.unwrap();
    }
    series.retain(|_, requests| *requests > 0.0);
    let mut own = field(&report, SERIES, "requests");
    own.retain(|_, requests| *requests != json!(0));
    let keys: Vec<&Vec<String>> = series.keys().collect();
    assert_eq!(own.keys().collect::<Vec<_>>(), keys, "series of {source}");
    for (key, requests) in &own {
        beside.number(&format!("requests_by_series {key:?}"), requests, series.get(key).copied());
    }
    for name in ["requests", "errors", "client_errors", "throttled", "rps"] {
        beside.one(name, &totals[name]);
    }
    // `code` among the dims takes the quantiles away.
    let by_verb = metrics(source, "verb,resource", &[]);
    for name in ["p50_ms", "p90_ms", "p99_ms"] {
        beside.one(name, &by_verb["totals"][name]);
        let plain = metrics(source, "resource", &[]);
        beside.by(&format!("{name}_by_resource"), &["resource"], field(&plain, "resource", name), false);
    }
    let rates = |query: &str| {
        let mut rates = BTreeMap::<Vec<String>, f64>::new();
        for (key, value) in answers(&beside.all, query, &["verb", "resource"]) {
            let verb = verb(&key[0], "resource", &key[1]);
            *rates.entry(vec![verb, key[1].clone()]).or_default() += value.unwrap();
        }
        rates
    };
    let (requests, rps) = (rates("requests_by_verb_resource"), rates("rps_by_verb_resource"));
    let mut sums = BTreeMap::<Vec<String>, (f64, f64)>::new();
    for (mut key, row) in rows(&by_verb, "verb,resource") {
        key[0] = key[0].replace("deletecollection", "delete");
        let sum = sums.entry(key).or_default();
        *sum = (sum.0 + number(&row, "requests"), sum.1 + number(&row, "rps"));
    }
    for (key, (own_requests, own_rps)) in sums {
        beside.number(&format!("requests_by_verb_resource {key:?}"), &json!(own_requests), requests.get(&key).copied());
        beside.number(&format!("rps_by_verb_resource {key:?}"), &json!(own_rps), rps.get(&key).copied());
    }
    let by_instance = metrics(source, "instance", &[]);
    beside.by("requests_by_instance", &["instance"], field(&by_instance, "instance", "requests"), true);
    beside.by("rps_by_instance", &["instance"], field(&by_instance, "instance", "rps"), true);
    let instances = json!({ "rows": report["coverage"]["instances"] });
    beside.by("seconds", &["instance"], field(&instances, "instance", "seconds"), true);
    let open = field(&metrics(source, "resource", &[]), "resource", "open");
    beside.by("open_by_resource", &["resource"], open, true);

    for (query, ours) in [
        ("p99_ms_of_get", &glance["latency"]["get"]["p99_ms"]),
        ("p99_ms_of_list", &glance["latency"]["list"]["p99_ms"]),
        ("p99_ms_of_write", &glance["latency"]["write"]["p99_ms"]),
        ("list_bytes_per_s", &glance["list_bytes_per_s"]),
        ("list_p99_bytes", &glance["list_size"]["p99_bytes"]),
        ("watch_events_per_s", &glance["watch_events_per_s"]),
        ("watch_bytes_per_s", &glance["watch_bytes_per_s"]),
        ("rps", &glance["qps"]),
        ("inflight_limit", &glance["inflight_limit"]),
        ("seats_in_use", &glance["seats"]["in_use"]),
        ("seats_limit", &glance["seats"]["limit"]),
        ("watches", &glance["watches"]),
        ("watch_cache_capacity", &glance["watch_cache"]["capacity"]),
        ("objects", &glance["objects"]),
        ("storage_bytes", &glance["storage"]["bytes"]),
        ("oldest_start", &json!(micros(&glance["oldest_start"]) as f64 / 1e6)),
    ] {
        beside.one(query, ours);
    }
    let inflight = [("readOnly", "read_only"), ("mutating", "mutating")];
    let inflight =
        inflight.iter().map(|(label, name)| (vec![(*label).to_owned()], glance["inflight"][*name].clone())).collect();
    beside.by("inflight", &["request_kind"], inflight, true);

    let kind = "group,resource";
    let labels = ["group", "resource"];
    beside.by("watch_events_per_s_by_resource", &labels, of_table(&report, "watches", kind, "events_out_per_s"), true);
    beside.by(
        "watch_events_in_per_s_by_resource",
        &labels,
        of_table(&report, "watches", kind, "events_in_per_s"),
        true,
    );
    beside.by("cache_lists_per_s_by_resource", &labels, of_table(&report, "lists", kind, "cache_per_s"), false);
    let level = ["priority_level"];
    for (query, name) in [
        ("dispatched_per_s_by_level", "dispatched_per_s"),
        ("rejected_by_level", "rejected"),
        ("wait_p50_ms_by_level", "wait_p50_ms"),
        ("wait_p99_ms_by_level", "wait_p99_ms"),
    ] {
        beside.by(query, &level, of_table(&report, "priority_levels", "priority_level", name), true);
    }
    let by_level = metrics(source, "priority_level", &[]);
    beside.by("execution_p99_ms_by_level", &level, field(&by_level, "priority_level", "p99_ms"), false);
    let hook = "name,type,operation";
    beside.by(
        "webhook_calls_per_s",
        &hook.split(',').collect::<Vec<_>>(),
        of_table(&report, "webhooks", hook, "calls_per_s"),
        true,
    );
    for (class, row) in rows(&json!({ "rows": report["tables"]["slo"] }), "class") {
        for name in ["requests", "slow", "errors"] {
            beside.one(&format!("slo_{name}_{}", class[0]), &row[name]);
        }
    }
    if calm {
        beside.one("plain_requests", &totals["requests"]);
        beside.one("plain_watch_events_per_s", &glance["watch_events_per_s"]);
        beside.by("plain_requests_by_instance", &["instance"], field(&by_instance, "instance", "requests"), true);
        for name in ["p50_ms", "p90_ms", "p99_ms"] {
            beside.one(&format!("plain_{name}"), &by_verb["totals"][name]);
        }
        beside.by(
            "plain_wait_p99_ms_by_level",
            &level,
            of_table(&report, "priority_levels", "priority_level", "wait_p99_ms"),
            true,
        );
    } else {
        let plain = answers(&beside.all, "plain_requests", &[])[&vec![]].unwrap();
        assert!(
            number(totals, "requests") > plain + 0.5,
            "new series count in full here: {} and {plain}",
            totals["requests"]
        );
    }
    beside
}

/// Where pages of `make_pages.py` come from.
fn made(into: &Path, flags: &[&str]) -> std::path::PathBuf {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/make_pages.py")).arg(into).args(flags);
    assert_eq!(feed(command, b"").code, Some(0));
    into.join("pages.json")
}

/// Every `step`-th page of instances of a sample.
fn of_sample(into: &Path, name: &str, instances: &[&str], step: usize) -> std::path::PathBuf {
    let mut plan = serde_json::Map::new();
    for instance in instances {
        let mut pages: Vec<_> = std::fs::read_dir(sample(&format!("{name}/metrics/{instance}")))
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        pages.sort();
        plan.insert(
            (*instance).to_owned(),
            pages.iter().step_by(step).collect::<Vec<_>>().iter().map(|path| json!(path)).collect(),
        );
    }
    let path = into.join("pages.json");
    std::fs::write(&path, Value::Object(plan).to_string()).unwrap();
    path
}

#[test]
fn what_prometheus_answers_is_what_is_shown() {
    let queries = root().join("tests/oracle/prometheus_queries.json");
    type Plan = fn(&Path) -> std::path::PathBuf;
    let plans: [(&str, bool, Plan); 5] = [
        ("calm", true, |into| made(into, &["--seed", "5", "--calm"])),
        ("storm 1", false, |into| made(into, &["--seed", "1"])),
        ("storm 2", false, |into| made(into, &["--seed", "2"])),
        ("list-storm", false, |into| of_sample(into, "list-storm", &["apiserver-0", "apiserver-1"], 9)),
        ("overload-restart", false, |into| of_sample(into, "overload-restart", &["apiserver-0"], 1)),
    ];
    let faults: Vec<String> = std::thread::scope(|scope| {
        let queries = &queries;
        let threads: Vec<_> = plans
            .into_iter()
            .map(|(name, calm, plan)| {
                scope.spawn(move || {
                    let (into, out) = (folder(), folder());
                    // The folders' names are those of instances; the one above must not be.
                    let out = out.path().join("metrics");
                    let all = scraped(&plan(into.path()), &out, queries);
                    if calm {
                        // The comparison finds wrong numbers.
                        let mut wrong = all.clone();
                        for value in
                            wrong.as_object_mut().unwrap().values_mut().flat_map(|rows| rows.as_array_mut().unwrap())
                        {
                            value["value"] = value["value"].as_f64().map(|value| value * 1.001).into();
                        }
                        let wrong = compare(out.to_str().unwrap(), wrong, true);
                        assert!(
                            wrong.faults.len() > wrong.compared / 2,
                            "{} of {}",
                            wrong.faults.len(),
                            wrong.compared
                        );
                    }
                    let beside = compare(out.to_str().unwrap(), all, calm);
                    assert!(beside.compared > 150, "{name}: {} numbers", beside.compared);
                    beside.faults.into_iter().map(move |fault| format!("{name}: {fault}")).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    none(&faults);
}

#[test]
fn a_series_that_begins_later() {
    // `docs/metrics.md`, section 2: it counts in full, for Kubernetes makes series on first use. `increase` leaves its
    // first value out.
    let page = |start: u64, old: u64, new: Option<u64>| {
        let series = |code: &str, value| {
            format!(
                "apiserver_request_total{{code=\"{code}\",resource=\"pods\",scope=\"resource\",verb=\"GET\"}} {value}\n"
            )
        };
        let mut page = format!(
            "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {start}\n# TYPE \
             apiserver_request_total counter\n"
        );
        page += &series("200", old);
        page += &new.map(|new| series("404", new)).unwrap_or_default();
        page
    };
    let (into, out) = (folder(), folder());
    let mut names = Vec::new();
    for (number, (old, new)) in [(100, None), (110, None), (130, Some(7)), (140, Some(9))].into_iter().enumerate() {
        names.push(crate::support::write(into.path(), &format!("{number}.txt"), page(1_700_000_000, old, new)));
    }
    let plan = crate::support::write(into.path(), "pages.json", json!({ "one": names }).to_string());
    let queries = crate::support::write(
        into.path(),
        "queries.json",
        r#"{"plain": "sum by (code) ({plain:apiserver_request_total})", "ours": "sum by (code) ({increase:apiserver_request_total})"}"#,
    );
    let out = out.path().join("metrics");
    let all = scraped(Path::new(&plan), &out, Path::new(&queries));
    let code = |code: &str| vec![code.to_owned()];
    let report = metrics(out.to_str().unwrap(), "code", &[]);
    assert_eq!(field(&report, "code", "requests"), BTreeMap::from([(code("200"), json!(40)), (code("404"), json!(9))]));
    let round = |query: &str| -> Vec<i64> {
        answers(&all, query, &["code"]).values().map(|value| value.unwrap().round() as i64).collect()
    };
    assert_eq!(round("ours"), [40, 9]);
    // It extrapolates to the ends of the range, too: never to the 9.
    let plain = round("plain");
    assert!(plain[0] == 40 && plain[1] < 7, "{plain:?}");
}
