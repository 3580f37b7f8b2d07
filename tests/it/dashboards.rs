//! `plimsoll dashboards`: the folder `dashboards/` is what it writes; every panel answers on captured pages in a real
//! Prometheus; every alert fires and stays silent where it should; Grafana's published schema takes the boards.

use crate::lab::Lab;
use crate::member::Member;
use crate::serve::{Serving, counted, with_filling_quota};
use crate::support::{feed, folder, none, plimsoll, python, root, sample, write};
use plimsoll::views::dashboards::metrics::METRICS;
use plimsoll::views::dashboards::panel::{Panel, boards};
use plimsoll::views::dashboards::rules::rules;
use plimsoll::views::dashboards::{alert_table, runbook};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files below a folder, by their path within it.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), text);
            }
        }
    }
    found
}

/// The boards as they are checked in.
fn checked_in() -> Vec<Value> {
    let own = files(&root().join("dashboards/grafana"));
    assert!(own.len() >= 10, "{own:?}");
    own.values().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// Panels of a board that are no headings.
fn panels(board: &Value) -> impl Iterator<Item = &Value> {
    board["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row")
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// What an oracle (tests/oracle/dashboards.py) prints.
#[track_caller]
fn oracle(words: &[String]) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/dashboards.py")).args(words);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Runs a program that `.ci/setup` installs; what it prints to stdout.
#[track_caller]
fn passes(program: &str, words: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(words).current_dir(root());
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}; run .ci/setup"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{program} {words:?}:\n{out}{err}");
    out
}

fn captured(name: &str) -> String {
    root().join(format!("benches/incidents/captured/{name}.tar.zst")).to_str().unwrap().to_owned()
}

#[test]
fn the_folder_is_what_the_command_writes() {
    let home = folder();
    let to = home.path().join("new/dashboards");
    let ran = plimsoll(&["dashboards", "--to", to.to_str().unwrap(), "-o", "json"]).json(0);
    let (written, ours) = (files(&to), files(&root().join("dashboards")));
    let names = |all: &BTreeMap<PathBuf, String>| all.keys().cloned().collect::<Vec<_>>();
    let advice = "run `plimsoll dashboards --to dashboards` and commit what it writes";
    assert_eq!(names(&written), names(&ours), "{advice}");
    for (path, text) in &written {
        assert!(ours[path] == *text, "dashboards/{} is not what the command writes: {advice}", path.display());
    }
    assert_eq!(ran["schema"], "plimsoll.dashboards/v1");
    assert_eq!(ran["totals"]["files"], written.len());
    for row in ran["rows"].as_array().unwrap() {
        assert_eq!(written[Path::new(text(row, "file"))].len() as u64, row["bytes"].as_u64().unwrap(), "{row}");
    }
    // Again: files of the same names are replaced, others stay.
    write(&to, "grafana/overview.json", "{}");
    write(&to, "grafana/own.json", "{}");
    plimsoll(&["dashboards", "--to", to.to_str().unwrap()]).exits(0);
    let mut again = files(&to);
    assert_eq!(again.remove(Path::new("grafana/own.json")).as_deref(), Some("{}"));
    assert!(again == written);
    // A file in the place of the folder.
    let file = write(home.path(), "file", "");
    let ran = plimsoll(&["dashboards", "--to", &file]);
    assert!(ran.exits(3).stderr.contains("choose a writable folder"), "{}", ran.stderr);
}

#[test]
fn boards_resolve_what_they_refer_to() {
    let mut ids = BTreeSet::new();
    for board in checked_in() {
        let title = text(&board, "title");
        assert!(ids.insert(text(&board, "uid").to_owned()), "{title}: two boards of one uid");
        let variables: BTreeSet<&str> =
            board["templating"]["list"].as_array().unwrap().iter().map(|one| text(one, "name")).collect();
        assert!(["datasource", "cluster", "instance"].iter().all(|name| variables.contains(name)), "{title}");
        let resolves = |whose: &str, expr: &str| {
            for (at, _) in expr.match_indices('$') {
                let rest = &expr[at + 1..];
                let rest = rest.strip_prefix('{').unwrap_or(rest);
                let name = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
                let is_known = variables.contains(name) || ["__rate_interval", "__range"].contains(&name);
                assert!(is_known, "{title} / {whose}: ${name} is not a variable of the board");
            }
        };
        let of_board = |value: &Value| assert_eq!(*value, json!({"type": "prometheus", "uid": "${datasource}"}));
        for variable in board["templating"]["list"].as_array().unwrap() {
            if variable["type"] == "query" {
                of_board(&variable["datasource"]);
                resolves(text(variable, "name"), text(&variable["query"], "query"));
            }
        }
        for annotation in board["annotations"]["list"].as_array().unwrap() {
            if annotation["builtIn"].is_null() {
                of_board(&annotation["datasource"]);
                resolves(text(annotation, "name"), text(annotation, "expr"));
            }
        }
        let mut numbers = BTreeSet::new();
        let mut places: Vec<[u64; 4]> = Vec::new();
        for panel in board["panels"].as_array().unwrap() {
            assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{title}: two panels of one id");
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
            assert!(x + w <= 24 && w > 0 && h > 0, "{title}: {panel}");
            let overlaps = |o: &[u64; 4]| x < o[0] + o[2] && o[0] < x + w && y < o[1] + o[3] && o[1] < y + h;
            assert!(!places.iter().any(overlaps), "{title}: {} overlaps another panel", panel["title"]);
            places.push([x, y, w, h]);
        }
        for panel in panels(&board) {
            of_board(&panel["datasource"]);
            assert!(
                !text(panel, "description").is_empty() && !text(&panel["fieldConfig"]["defaults"], "unit").is_empty()
            );
            let mut names = BTreeSet::new();
            for target in panel["targets"].as_array().unwrap() {
                of_board(&target["datasource"]);
                resolves(text(panel, "title"), text(target, "expr"));
                assert!(names.insert(text(target, "refId").to_owned()), "{title}: {panel}");
            }
        }
    }
}

/// A panel's query with values for the variables of a board, as a reader may choose them.
fn chosen(expr: &str) -> String {
    let mut expr = expr.to_owned();
    for (name, value) in [
        ("$__rate_interval", "4m"),
        ("$__range", "5m"),
        ("$container", "kube-apiserver|etcd"),
        ("$cluster", ".*"),
        ("$instance", ".*"),
        ("$namespace", ".*"),
        ("$job", ".*"),
    ] {
        expr = expr.replace(name, value);
    }
    assert!(!expr.contains('$'), "{expr}");
    expr
}

/// Every expression of the boards by board, panel and query.
fn questions() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for board in checked_in() {
        let uid = text(&board, "uid");
        for panel in panels(&board) {
            for target in panel["targets"].as_array().unwrap() {
                let name = format!("{uid} / {} / {}", text(panel, "title"), text(target, "refId"));
                all.insert(name, chosen(text(target, "expr")));
            }
        }
        for annotation in board["annotations"]["list"].as_array().unwrap().iter().filter(|one| one["expr"].is_string())
        {
            all.insert(
                format!("{uid} / {} / annotation", text(annotation, "name")),
                format!("last_over_time(({})[5m:15s])", chosen(text(annotation, "expr"))),
            );
        }
    }
    all
}

/// Numbers of an answer, by the values of these labels.
fn numbers(answer: &Value, labels: &[&str]) -> BTreeMap<String, f64> {
    let series = answer.as_array().into_iter().flatten();
    let named = series.filter_map(|series| {
        let values: Vec<&str> =
            labels.iter().map(|label| series["metric"][label].as_str().unwrap_or_default()).collect();
        Some((values.join(" ").trim().to_owned(), series["value"].as_f64()?))
    });
    named.collect()
}

#[test]
fn every_panel_answers_on_captured_pages_and_numbers_are_those_of_a_second_count() {
    let home = folder();
    let metrics: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let page = exported("list-storm", home.path());
    let asked = json!({"metrics": metrics, "queries": questions(), "exports": {"list-storm": page}});
    let file = write(home.path(), "questions.json", asked.to_string());
    let versions = ["metrics-forms/v1.30", "metrics-forms/v1.33"];
    let bundles: Vec<String> = ["list-storm", "overload-restart", "controllers", "webhooks"]
        .iter()
        .chain(&versions)
        .map(|name| sample(name))
        .collect();
    let words = [&["panels".to_owned(), file], bundles.as_slice(), &[captured("etcd-no-leader")]].concat();
    let asked = oracle(&words);
    let answers = &asked["answers"];

    // A panel has data if one of its queries has a number in one of the captures.
    let mut faults = Vec::new();
    let (mut all, mut empty) = (0, 0);
    for board in boards().unwrap() {
        for panel in board.panels() {
            let prefix = format!("plimsoll-{} / {} / ", board.id, panel.title());
            let own = answers.as_object().unwrap().iter().filter(|(name, _)| name.starts_with(&prefix));
            let mut has_data = false;
            let mut queries = 0;
            for (_, by_cluster) in own {
                queries += 1;
                has_data |= by_cluster.as_object().unwrap().values().any(|answer| !numbers(answer, &[]).is_empty());
            }
            assert_eq!(queries, panel.queries.len(), "{prefix}");
            all += 1;
            empty += usize::from(!has_data);
            if has_data == is_said_to_be_empty(panel) {
                faults.push(format!("{prefix}: {}", if has_data { "has data: remove `needs`" } else { "no data" }));
            }
        }
    }
    none(&faults);
    assert!(empty * 10 <= all, "{empty} of {all} panels have no data");
    let restarts = "plimsoll-overview / Restarts of apiservers and etcd / annotation";
    assert!(answers[restarts]["overload-restart"].is_array(), "{}", answers[restarts]);

    // Names and labels of other versions.
    for version in ["v1.30", "v1.33"] {
        for name in [
            "overview / Error budget burn, 5 min",
            "overview / Fullest priority level",
            "overview / p99 by verb",
            "list-cost / Objects stored",
            "list-cost / LISTs from the watch cache",
            "list-cost / Objects read from etcd by resource",
            "etcd / Objects by resource",
            "etcd / Fastest growing resources",
            "etcd / Writes by resource",
            "etcd / Size seen by the apiservers",
            "clients / Watch events sent",
            "clients / Open watches",
            "priority-and-fairness / Queue wait p99 by level",
        ] {
            let answer = &answers[format!("plimsoll-{name} / A")][version];
            assert!(!numbers(answer, &[]).is_empty(), "{version}: {name}: {answer}");
        }
    }

    // Of list-storm all series last for the whole window, so that nothing is extrapolated.
    for (cluster, allowed) in [("list-storm", 1e-9), ("etcd-no-leader", 0.15)] {
        let counted = &asked["counted"][cluster];
        let near = |mine: f64, truth: f64| (mine - truth).abs() <= allowed * truth.abs().max(1e-3);
        for (name, field) in [
            ("overview / Error budget burn, 5 min", "burn"),
            ("overview / etcd database / quota", "database"),
            ("overview / Fullest priority level", "level"),
        ] {
            let mine = numbers(&answers[format!("plimsoll-{name} / A")][cluster], &[]);
            let (mine, truth) = (mine[""], counted[field].as_f64().unwrap());
            assert!(near(mine, truth), "{cluster}: {name}: {mine}, not {truth}");
        }
        for (name, field, labels) in [
            ("overview / Slowest resources", "slowest", &["verb", "resource"][..]),
            ("list-cost / Mean size of a LIST", "list_size", &["resource"]),
            ("etcd / Objects by resource", "objects", &["resource", "group"]),
        ] {
            let mine = numbers(&answers[format!("plimsoll-{name} / A")][cluster], labels);
            assert!(mine.len() >= 3, "{cluster}: {name}: {mine:?}");
            for (key, value) in mine {
                let truth = counted[field][&key].as_f64().unwrap_or_else(|| panic!("{cluster}: {name}: no {key}"));
                assert!(near(value, truth), "{cluster}: {name}: {key}: {value}, not {truth}");
            }
        }
    }
    assert!(asked["counted"]["etcd-no-leader"]["burn"].as_f64().unwrap() > 1.0, "the outage shows");
    shares_of_clients_are_those_of_the_log(answers, "list-storm");
}

/// What `plimsoll serve` exports of a sample's logs as if they were of now, beside a live cluster and a store with a
/// history; the file of the page.
fn exported(name: &str, home: &Path) -> String {
    let path = |name: &str| home.join(name).to_str().unwrap().to_owned();
    oracle(&["shift".to_owned(), sample(name), path("logs")]);
    let page = sample("quiet/metrics/apiserver-0/1795167937.txt.zst");
    let lab = Lab::start(&[&page, &page]);
    let alerts = "channels:\n  out: {stdout: {}}\ndefault: {channels: [out]}\n\
                  owners:\n- {name: storage, namespaces: ['*']}\n";
    let alerts = write(home, "alerts.yaml", alerts);
    let store = path("store");
    with_filling_quota(home, Path::new(&store));
    let kubeconfig = lab.kubeconfig();
    let member = Member::plain(&home.join("etcd"));
    for value in ["old", "new"] {
        member.run(&["put", "/registry/configmaps/web/own", value]);
    }
    let serving = Serving::start(&[
        "--etcd-endpoints",
        &member.url,
        &path("logs"),
        "--store",
        &store,
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--context",
        "full",
        "--alerts",
        &alerts,
        "--judge-every",
        "1s",
        "--forecast-every",
        "1s",
    ]);
    let wanted =
        ["client_requests_total", "limit_reached_timestamp_seconds", "client_seats", "finding_active", "etcd_keys"];
    serving.wait(|series| {
        let has = |name: &str| series.keys().any(|own| own.starts_with(&format!("plimsoll_{name}{{")));
        wanted.iter().all(|name| has(name))
    });
    let (status, text) = serving.get("/metrics");
    assert_eq!(status, 200);
    write(home, "page.txt", text)
}

/// Of what clients of a sample cost, panels show the shares that a count of its logs shows.
#[track_caller]
fn shares_of_clients_are_those_of_the_log(answers: &Value, name: &str) {
    let logs = ["apiserver-0", "apiserver-1"].map(|own| sample(&format!("{name}/audit/{own}/audit.log.zst")));
    let counted = counted(&logs.each_ref().map(String::as_str));
    let sums = |metric: &str, where_: &str| {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        let of = |(name, _): &(&String, &f64)| name.starts_with(metric) && name.contains(where_);
        for (name, value) in counted.iter().filter(of) {
            let label = |key: &str| {
                let after = name.split([',', '{', '}']).find_map(|pair| pair.strip_prefix(key));
                after.unwrap_or_default().to_owned()
            };
            *sums.entry(format!("{} {}", label("user="), label("agent=")).trim().to_owned()).or_default() += value;
        }
        sums
    };
    for (panel, metric, where_) in [
        ("clients / Requests by client", "plimsoll_client_requests_total{", ""),
        ("clients / Requests in flight by client", "plimsoll_client_request_duration_seconds_sum{", ""),
        ("list-cost / LIST time by client", "plimsoll_client_request_duration_seconds_sum{", "op=list"),
    ] {
        let mine = numbers(&answers[format!("plimsoll-{panel} / A")][name], &["user", "agent"]);
        let theirs = sums(metric, where_);
        assert_eq!(mine.len(), 10, "{panel}: {mine:?}");
        let largest = |all: &BTreeMap<String, f64>| all.values().copied().fold(0.0, f64::max);
        let mut tenth: Vec<f64> = theirs.values().copied().collect();
        tenth.sort_by(|a, b| b.total_cmp(a));
        for (client, value) in &mine {
            let (share, wanted) = (value / largest(&mine), theirs[client] / largest(&theirs));
            assert!((share - wanted).abs() < 1e-6, "{panel}: {client}: {share}, not {wanted}");
            assert!(theirs[client] >= tenth[9] * (1.0 - 1e-9), "{panel}: {client} is none of the ten largest");
        }
    }
}

fn is_said_to_be_empty(panel: &Panel) -> bool {
    panel.needs.is_some()
}

#[test]
fn every_alert_fires_where_it_should_and_not_where_it_nearly_should() {
    passes(
        "promtool",
        &["check", "rules", "dashboards/prometheus/recordings.yaml", "dashboards/prometheus/alerts.yaml"],
    );
    passes("promtool", &["test", "rules", "tests/oracle/alerts_test.yaml"]);
    let cases: Value =
        serde_yaml_ng::from_str(&std::fs::read_to_string(root().join("tests/oracle/alerts_test.yaml")).unwrap())
            .unwrap();
    let (mut firing, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for case in cases["tests"].as_array().unwrap() {
        for question in case["promql_expr_test"].as_array().unwrap() {
            if let Some((_, rest)) = text(question, "expr").split_once("ALERTS{alertname=\"") {
                let name = rest.split('"').next().unwrap().to_owned();
                let is_silent = question["exp_samples"].as_array().unwrap().is_empty();
                if is_silent { &mut silent } else { &mut firing }.insert(name);
            }
        }
    }
    let names: BTreeSet<String> = rules().unwrap().alerts.into_iter().map(|alert| alert.name).collect();
    assert_eq!(firing, names, "alerts with a case in which they fire");
    assert_eq!(silent, names, "alerts with a case in which they don't");
}

#[test]
fn the_same_rules_are_in_the_object_of_the_operator() {
    let read = |name: &str| {
        let text = std::fs::read_to_string(root().join("dashboards").join(name)).unwrap();
        serde_yaml_ng::Deserializer::from_str(&text)
            .map(|document| serde::Deserialize::deserialize(document).unwrap())
            .collect::<Vec<Value>>()
    };
    let groups = |value: &Value| value["groups"].as_array().unwrap().clone();
    let plain = ["prometheus/recordings.yaml", "prometheus/alerts.yaml"].map(|name| groups(&read(name)[0])).concat();
    let object = &read("kube-prometheus/prometheusrule.yaml")[0];
    assert_eq!(object["kind"], "PrometheusRule");
    assert_eq!(groups(&object["spec"]), plain);
    // What is scraped by the monitors is all that the control plane exports of the table.
    let monitors = read("kube-prometheus/servicemonitors.yaml");
    assert!(monitors.len() == 5 && monitors.iter().all(|monitor| monitor["kind"] == "ServiceMonitor"));
    let kept: Vec<&str> = monitors
        .iter()
        .map(|monitor| &monitor["spec"]["endpoints"][0]["metricRelabelings"][0])
        .filter(|kept| kept.is_object())
        .map(|kept| text(kept, "regex"))
        .collect();
    assert_eq!(kept.len(), 4, "all but serve's");
    // Its selector finds the Service that samples/deploy makes.
    let service = std::fs::read_to_string(root().join("samples/deploy/serve.yaml")).unwrap();
    let own = &monitors[4]["spec"];
    for (is, wanted) in [
        (
            &own["selector"]["matchLabels"]["app.kubernetes.io/name"],
            "  labels: { app.kubernetes.io/name: plimsoll-serve }",
        ),
        (&own["namespaceSelector"]["matchNames"][0], "  namespace: plimsoll\n"),
        (&own["endpoints"][0]["port"], "{ name: https, port: 9797"),
    ] {
        assert!(service.contains(wanted) && wanted.contains(is.as_str().unwrap()), "{is}: {wanted}");
    }
    let is_kept = |name: &str| kept.iter().any(|regex| regex.split(['(', ')', '|']).any(|word| word == name));
    for name in ["apiserver_request_total", "etcd_server_has_leader", "scheduler_pending_pods", "workqueue_depth"] {
        assert!(is_kept(name), "{name}");
    }
    assert!(!is_kept("container_memory_rss"));
}

#[test]
fn routes_send_quotas_to_their_owners() {
    let file = "dashboards/alertmanager/routes.yaml";
    passes("amtool", &["check-config", file]);
    let config = format!("--config.file={file}");
    for (labels, receiver) in [
        (&["alertname=EtcdNoLeader", "severity=critical"][..], "platform-pager"),
        (&["alertname=QuotaNearlyFull", "severity=warning", "namespace=shop", "team=web"], "team-web"),
        (&["alertname=PlimsollQuota", "severity=critical", "namespace=shop", "owner=web"], "team-web"),
        (&["alertname=PlimsollQuota", "severity=warning", "namespace=shop", "owner=data"], "team-data"),
        (&["alertname=PlimsollQuota", "severity=critical", "namespace=shop", "owner=nobody"], "platform-tickets"),
        (&["alertname=QuotaNearlyFull", "severity=warning", "namespace=batch-night"], "team-batch"),
        (&["alertname=QuotaNearlyFull", "severity=warning", "namespace=other"], "platform-tickets"),
        (&["alertname=EtcdDatabaseGrowth", "severity=warning", "team=web"], "platform-tickets"),
    ] {
        let message = passes("amtool", &[&["config", "routes", "test", &config][..], labels].concat());
        assert_eq!(message.trim(), receiver, "{labels:?}");
    }
}

#[test]
fn quiet_captures_raise_no_alert_and_incidents_do() {
    let files = ["recordings", "alerts"].map(|name| root().join(format!("dashboards/prometheus/{name}.yaml")));
    let mut words = vec!["rules".to_owned()];
    words.extend(files.iter().map(|file| file.to_str().unwrap().to_owned()));
    words.push("--".to_owned());
    let quiet = ["quiet-baseline", "quiet-rolling-update", "quiet-scale-up"];
    words.extend(["quiet", "controllers", "list-storm"].map(sample));
    words.extend(quiet.iter().chain(&["etcd-no-leader", "webhook-failing"]).map(|name| captured(name)));
    let seen = oracle(&words);
    for name in quiet.iter().chain(&["quiet", "controllers"]) {
        // Not even for a moment: what is pending would fire if it lasted.
        assert_eq!(seen[name], json!({}), "{name}");
    }
    let alerts = |name: &str, state: &str| -> Vec<String> {
        let all = seen[name].as_object().unwrap().iter();
        all.filter(|(_, counts)| counts[state].as_u64().unwrap() > 0).map(|(alert, _)| alert.clone()).collect()
    };
    // A CRD was deleted; the quota of `batch` was full. The captures are shorter than most alerts have to hold.
    assert_eq!(alerts("list-storm", "firing"), ["CustomResourceDefinitionDeleted"]);
    assert_eq!(alerts("list-storm", "pending"), ["QuotaNearlyFull"]);
    assert_eq!(alerts("etcd-no-leader", "pending"), ["EtcdNoLeader"]);
    assert_eq!(alerts("webhook-failing", "pending"), ["WebhookFailingClosed"]);
}

#[test]
fn the_published_schema_of_grafana_takes_the_boards() {
    let mut words = vec!["grafana".to_owned()];
    let folder = root().join("dashboards/grafana");
    words.extend(files(&folder).keys().map(|name| folder.join(name).to_str().unwrap().to_owned()));
    let lost = oracle(&words);
    let faults: Vec<String> = lost
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(board, faults)| {
            faults.as_array().unwrap().iter().map(move |fault| format!("{board}: {}", fault.as_str().unwrap()))
        })
        .collect();
    none(&faults);
}

#[test]
fn documents_have_each_board_and_each_alert() {
    let read = |name: &str| std::fs::read_to_string(root().join("docs").join(name)).unwrap();
    let page = read("commands/dashboards.md");
    for board in boards().unwrap() {
        assert!(
            page.contains(&format!("`{}`", board.id)),
            "docs/commands/dashboards.md does not describe {}",
            board.id
        );
    }
    let rules = rules().unwrap();
    assert!(
        page.contains(&alert_table(&rules)),
        "the table of alerts in docs/commands/dashboards.md should be\n{}",
        alert_table(&rules)
    );
    let mut runbooks: BTreeSet<String> = BTreeSet::new();
    for alert in &rules.alerts {
        let name = format!("runbooks/alerts/{}.md", alert.id);
        let text = read(&name);
        assert!(text.starts_with(&format!("# {}\n", alert.name)), "{name}");
        for part in ["**Meaning.**", "**Impact.**", "## Check", "## Fix", "**Prevention.**"] {
            assert!(text.contains(part), "{name} has no {part}");
        }
        assert!(runbook(&alert.id).ends_with(&format!("/docs/{name}")), "{}", runbook(&alert.id));
        assert!(boards().unwrap().iter().any(|board| board.id == alert.board), "{name}: no board {}", alert.board);
        runbooks.insert(format!("{}.md", alert.id));
    }
    let there: BTreeSet<String> =
        files(&root().join("docs/runbooks/alerts")).keys().map(|path| path.to_str().unwrap().to_owned()).collect();
    assert_eq!(there, runbooks);
}
