//! What `plimsoll guard events` finds, against what samples/NOTES.md says was done, and against
//! `tests/oracle/guard.py`, which reads the same logs and databases.

use crate::alert_lab::AlertLab;
use crate::support::{feed, folder, hermetic, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn events(args: &[&str]) -> Value {
    plimsoll(&[&["guard", "events"], args, &["-o", "json"]].concat()).json(0)
}

fn oracle(args: &[&str]) -> String {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/guard.py")).args(args);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout
}

/// The logs of a sample.
fn logs(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for instance in std::fs::read_dir(sample(&format!("{name}/audit"))).unwrap() {
        let files = std::fs::read_dir(instance.unwrap().path()).unwrap();
        found.extend(files.map(|file| file.unwrap().path().to_str().unwrap().to_owned()));
    }
    found.sort();
    found
}

type Told = (String, String, String, u64);

/// Kind, user, names, how many were done.
fn operations(report: &Value) -> Vec<Told> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    let row = |row: &Value| {
        let names: Vec<&str> = row["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        (text(row, "kind"), text(row, "user"), names.join(" "), row["done"].as_u64().unwrap())
    };
    report["rows"].as_array().unwrap().iter().map(row).collect()
}

/// A row by its kind.
fn row<'r>(report: &'r Value, kind: &str) -> &'r Value {
    report["rows"].as_array().unwrap().iter().find(|row| row["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// The human operations of NOTES.md, and the one of the set-up before them.
fn expected() -> Vec<Told> {
    let none: Vec<String> = (0..12).map(|n| format!("none-{n}")).collect();
    [
        ("rbac-write", "bob@example.com", "", 1),
        ("scale-to-zero", "bob@example.com", "app-0", 1),
        ("delete-namespace", "bob@example.com", "legacy-team", 1),
        ("delete-crd", "bob@example.com", "jobsets.batch.example.com", 1),
        ("delete-collection", "alice@example.com", "", 1),
        ("delete-pod", "bob@example.com", &none.join(" "), 0),
        ("delete-node", "bob@example.com", "hollow-002", 1),
    ]
    .map(|(kind, user, names, done)| (kind.to_owned(), user.to_owned(), names.to_owned(), done))
    .to_vec()
}

/// What is compared with [`expected`]: a binding's name is in its body only. Pods that a quota denied (403 by
/// admission) are no question of rights, and so not here.
fn human(report: &Value) -> Vec<Told> {
    let mut rows = operations(report);
    rows.iter_mut().filter(|(kind, ..)| kind == "rbac-write").for_each(|(_, _, names, _)| names.clear());
    rows
}

#[test]
fn each_operation_of_the_notes_and_no_other() {
    for name in ["list-storm", "overload-restart"] {
        let report = events(&[&sample(name)]);
        assert_eq!(human(&report), expected(), "{name}");
        let rights = row(&report, "rbac-write");
        assert_eq!(
            (&rights["severity"], &rights["details"]),
            (&json!("critical"), &json!(["grants cluster-admin to lab:full"]))
        );
    }
    // The set-up of the notes, before t0.
    let quiet = operations(&events(&[&sample("quiet")]));
    assert_eq!(quiet.iter().map(|(kind, ..)| kind.as_str()).collect::<Vec<_>>(), ["rbac-write"]);
}

/// Every operation is in a row, but for those that are too few, and those of who cleans up after himself.
#[test]
fn python_counts_the_same() {
    for (name, few) in [
        (
            "list-storm",
            vec![
                ("delete-pod", "system:serviceaccount:batch:job-launcher", 56),
                // Every seven seconds: nine a minute at most.
                ("forbidden", "system:serviceaccount:sandbox:probe", 52),
            ],
        ),
        (
            "overload-restart",
            vec![
                ("delete-pod", "system:serviceaccount:batch:job-launcher", 2),
                ("forbidden", "system:serviceaccount:sandbox:probe", 17),
                ("forbidden", "system:serviceaccount:batch:event-spammer", 5),
                ("forbidden", "system:serviceaccount:gateway:authz-proxy", 2),
                ("forbidden", "system:serviceaccount:batch:job-launcher", 4),
            ],
        ),
        ("quiet", vec![]),
    ] {
        let logs = logs(name);
        let args: Vec<&str> = ["operations"].into_iter().chain(logs.iter().map(String::as_str)).collect();
        let counted: Value = serde_json::from_str(&oracle(&args)).unwrap();
        let mut theirs: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for (kind, users) in counted.as_object().unwrap() {
            for (user, counts) in users.as_object().unwrap() {
                theirs.insert((kind.clone(), user.clone()), (counts[0].as_u64().unwrap(), counts[1].as_u64().unwrap()));
            }
        }
        for (kind, user, count) in few {
            assert_eq!(
                theirs.remove(&(kind.to_owned(), user.to_owned())).map(|(count, _)| count),
                Some(count),
                "{name}: {kind} of {user}"
            );
        }
        let report = events(&[&sample(name)]);
        let mut ours: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for row in report["rows"].as_array().unwrap() {
            let key = (row["kind"].as_str().unwrap().to_owned(), row["user"].as_str().unwrap().to_owned());
            let sum = ours.entry(key).or_default();
            *sum = (sum.0 + row["count"].as_u64().unwrap(), sum.1 + row["done"].as_u64().unwrap());
        }
        assert_eq!(ours, theirs, "{name}");
    }
}

/// As one document, as one log of both apiservers, and at level Metadata, of which the blind spots are said.
#[test]
fn other_forms_of_the_log_hold_the_same() {
    let home = folder();
    let logs = logs("list-storm");
    let form = |form: &str, name: &str| {
        let out = home.path().join(name).to_str().unwrap().to_owned();
        let args: Vec<&str> = [form, &out].into_iter().chain(logs.iter().map(String::as_str)).collect();
        oracle(&args);
        events(&[&out])
    };
    let lines = form("merged", "audit.log");
    assert_eq!(human(&lines), expected());
    assert_eq!(human(&form("eventlist", "list.json")), expected());
    let bare = form("metadata", "bare.log");
    let mut seen = expected();
    seen.retain(|(kind, ..)| kind != "scale-to-zero");
    assert_eq!(human(&bare), seen);
    let rights = row(&bare, "rbac-write");
    assert_eq!((&rights["details"], &rights["severity"]), (&json!(["unknown rights"]), &json!("warning")));
    // What was in the bodies of these can't be known.
    let hidden = bare["coverage"]["hidden_writes"].as_object().unwrap();
    assert_eq!(hidden.get("patch of deployments/scale"), Some(&json!(1)), "{hidden:?}");
    assert_eq!(hidden.get("create of clusterrolebindings"), Some(&json!(1)), "{hidden:?}");
    let words = plimsoll(&["guard", "events", home.path().join("bare.log").to_str().unwrap()]).stdout;
    assert!(words.contains("Unknown: the changes of ") && words.contains("1 patch of deployments/scale"), "{words}");
    assert_eq!(lines["coverage"]["hidden_writes"].get("patch of deployments/scale"), None);
}

#[test]
fn what_went_with_it_is_what_two_databases_say() {
    let (before, after) = (sample("list-storm/etcd/before.db.zst"), sample("list-storm/etcd/after.db.zst"));
    let truth: Value = serde_json::from_str(&oracle(&["removed", &before, &after])).unwrap();
    let of_bundle = events(&[&sample("list-storm")]);
    let named = events(&[&sample("list-storm/audit"), "--before", &before, "--after", &after]);
    for report in [&of_bundle, &named] {
        assert_eq!(row(report, "delete-namespace")["objects_by_resource"], truth["namespaces"]["legacy-team"]);
        assert_eq!(
            row(report, "delete-collection")["objects_by_resource"]["configmaps"],
            truth["namespaces"]["sandbox"]["configmaps"]
        );
        assert_eq!(
            row(report, "delete-crd")["objects"],
            truth["resources"].get("jobsets.batch.example.com").cloned().unwrap_or(json!(0))
        );
    }
    assert!(row(&of_bundle, "delete-namespace")["objects"].as_u64() > Some(100));
    // Labels of the bundle's objects name whom it hits.
    assert_ne!(row(&of_bundle, "delete-namespace")["owners"], json!([]));
    // The log alone: kubelets delete pods one by one, all else goes unsaid.
    let alone = events(&[&sample("list-storm/audit")]);
    let gone = row(&alone, "delete-namespace");
    assert_eq!(gone["objects_by_resource"], json!({"pods": 30}));
    assert!(gone["collections"].as_array().unwrap().contains(&json!("policyreports.wgpolicyk8s.io")), "{gone}");
    // Without objects at hand a definition is as grave as ever.
    assert_eq!(row(&alone, "delete-crd")["severity"], "critical");
}

/// An event; `more` overrides.
fn event(number: u64, verb: &str, uri: &str, resource: &str, more: &Value) -> String {
    let at = jiff::Timestamp::now().to_string();
    let mut event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": format!("a-{number}"),
        "stage": "ResponseComplete",
        "requestURI": uri, "verb": verb, "user": {"username": "eve"}, "sourceIPs": ["10.0.0.9"],
        "userAgent": "kubectl/v1.36",
        "objectRef": {"resource": resource, "name": "x", "apiVersion": "v1"}, "responseStatus": {"code": 200},
        "requestReceivedTimestamp": at, "stageTimestamp": at,
    });
    more.as_object().into_iter().flatten().for_each(|(name, value)| event[name] = value.clone());
    event.to_string() + "\n"
}

#[test]
fn dry_runs_and_hidden_bodies_are_said() {
    let home = folder();
    let lines = [
        event(1, "delete", "/api/v1/namespaces/x?dryRun=All", "namespaces", &Value::Null),
        event(2, "patch", "/api/v1/nodes/x", "nodes", &Value::Null),
        event(3, "delete", "/api/v1/namespaces/x", "namespaces", &Value::Null),
    ];
    let log = write(home.path(), "audit.log", lines.concat());
    let report = events(&[&log]);
    assert_eq!(operations(&report), [("delete-namespace".to_owned(), "eve".to_owned(), "x".to_owned(), 1)]);
    assert_eq!(
        (&report["totals"]["dry_runs"], &report["coverage"]["hidden_writes"]),
        (&json!(1), &json!({"patch of nodes": 1}))
    );
    plimsoll(&["guard", "events", &log, "--kind", "nothing"]).exits(2);
    plimsoll(&["guard", "events", &log, "--sort-by", "count"]).exits(2);
    plimsoll(&["guard", "events", &log, "--kind", "delete-crd", "--fail-on", "critical"]).exits(0);
    plimsoll(&["guard", "events", &log, "--fail-on", "critical"]).exits(1);
    plimsoll(&["guard", "events", &log, "--follow", "--until", "now"]).exits(2);
    plimsoll(&["guard", "events", &log, "--alerts", "alerts.yaml"]).exits(2);
}

/// The time so many seconds after a noon.
fn second(seconds: i64) -> String {
    let noon: jiff::Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
    (noon + jiff::Span::new().seconds(seconds)).strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()
}

/// A stage of an exec: its start (code 101 and no end), its end.
fn exec(number: u64, stage: &str, at: i64, code: u16) -> String {
    let uri = format!("/api/v1/namespaces/n/pods/x/exec?command=sh&n={number}");
    let more = json!({
        "stage": stage, "responseStatus": {"code": code}, "requestReceivedTimestamp": second(number as i64),
        "stageTimestamp": second(at),
        "objectRef": {"resource": "pods", "subresource": "exec", "namespace": "n", "name": "x", "apiVersion": "v1"},
    });
    event(number, "get", &uri, "pods", &more)
}

#[test]
fn a_running_exec_is_seen_where_it_starts_and_counted_once() {
    let home = folder();
    let cases = [
        ("starts.log", vec![exec(1, "ResponseStarted", 2, 101)], (1, 1)),
        ("both.log", vec![exec(1, "ResponseStarted", 2, 101), exec(1, "ResponseComplete", 900, 101)], (1, 1)),
        ("ends.log", vec![exec(1, "ResponseComplete", 900, 101)], (1, 1)),
        ("refused.log", vec![exec(1, "ResponseStarted", 2, 403), exec(1, "ResponseComplete", 2, 403)], (1, 0)),
        (
            "two.log",
            vec![
                exec(1, "ResponseStarted", 2, 101),
                exec(2, "ResponseStarted", 3, 101),
                exec(1, "ResponseComplete", 9, 101),
            ],
            (2, 2),
        ),
    ];
    for (name, lines, (count, done)) in cases {
        let report = events(&[&write(home.path(), name, lines.concat())]);
        let exec = row(&report, "exec");
        assert_eq!(
            (&exec["count"], &exec["done"], &report["totals"]["events"]),
            (&json!(count), &json!(done), &json!(count)),
            "{name}"
        );
        if name != "ends.log" {
            assert!(exec["at"].as_str().unwrap().starts_with("2026-11-20T12:00:02"), "{name} {exec}");
        }
    }
    // A tripwire says it where it starts, and not again where it ends.
    let log = write(home.path(), "follow.log", "");
    let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
    command.args([
        "guard",
        "events",
        &log,
        "--follow",
        "--for",
        "6s",
        "--severity",
        "info",
        "-o",
        "csv",
        "--since",
        "2026-11-20T00:00:00Z",
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let append =
        |text: &str| std::fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(text.as_bytes()).unwrap();
    let mut out = child.stdout.take().unwrap();
    append(&exec(1, "ResponseStarted", 2, 101));
    std::thread::sleep(Duration::from_secs(3));
    append(&exec(1, "ResponseComplete", 900, 101));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut out, &mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(text.lines().filter(|line| line.contains(",exec,")).count(), 1, "{text}");
}

/// Pods that a client made or deleted, one a second.
fn pods(verb: &str, names: std::ops::Range<u64>, from: i64, code: u16) -> String {
    let one = |name: u64| {
        let at = second(from + name as i64);
        let more = json!({
            "user": {"username": "batch"}, "responseStatus": {"code": code}, "requestReceivedTimestamp": at,
            "stageTimestamp": at,
            "objectRef": {"resource": "pods", "namespace": "n", "name": format!("p-{name}"), "apiVersion": "v1"},
        });
        event(from as u64 * 1_000 + name, verb, "/api/v1/namespaces/n/pods/x", "pods", &more)
    };
    names.map(one).collect()
}

#[test]
fn who_deletes_what_it_made_before_the_window_cleans_up() {
    let home = folder();
    let log = write(home.path(), "audit.log", pods("create", 0..40, 0, 201) + &pods("delete", 0..12, 600, 200));
    let since = second(300);
    for more in
        [&[][..], &["--since", &since], &["--where", "verb=delete"], &["--since", &since, "--where", "user=batch"]]
    {
        let report = events(&[&[log.as_str()], more].concat());
        assert_eq!(operations(&report), [], "{more:?}");
    }
    // What the window holds is said of the window.
    let report = events(&[&log, "--since", &since]);
    assert!(report["window"]["from"].as_str().unwrap() >= since.as_str(), "{}", report["window"]);
    assert_eq!(report["totals"]["events"], 12);
    // Pods of others are another matter.
    let others = pods("delete", 0..12, 600, 200).replace("batch", "bob");
    let report =
        events(&[&write(home.path(), "others.log", pods("create", 0..40, 0, 201) + &others), "--since", &since]);
    assert_eq!(row(&report, "delete-pod")["severity"], "warning");
    // What was not there any more was not deleted.
    let gone = pods("delete", 0..1, 600, 200).replace("batch", "bob")
        + &pods("delete", 1..12, 600, 404).replace("batch", "bob");
    let report = events(&[&write(home.path(), "gone.log", gone)]);
    assert_eq!(row(&report, "delete-pod")["severity"], "info");
    let again = pods("create", 0..12, 0, 201) + &pods("delete", 0..12, 300, 200) + &pods("delete", 0..12, 700, 404);
    assert_eq!(operations(&events(&[&write(home.path(), "again.log", again)])), []);
    // Whoever makes pods again that he deleted did not make those.
    let replaced = pods("delete", 0..12, 0, 200) + &pods("create", 0..12, 300, 201);
    assert_eq!(operations(&events(&[&write(home.path(), "replaced.log", replaced)])).len(), 1);
    // An administrator of the cluster is no part of it.
    let admin = pods("delete", 0..12, 0, 200).replace("batch", "system:admin");
    assert_eq!(row(&events(&[&write(home.path(), "admin.log", admin)]), "delete-pod")["severity"], "warning");
    let node = pods("delete", 0..12, 0, 200).replace("batch", "system:node:n");
    assert_eq!(operations(&events(&[&write(home.path(), "node.log", node)])), []);
}

/// One of each kind, and what is almost one.
#[test]
fn each_kind_is_found() {
    let home = folder();
    let mut number = 0;
    let mut lines = String::new();
    let mut add = |verb: &str, uri: &str, resource: &str, more: Value| {
        number += 1;
        lines += &event(number, verb, uri, resource, &more);
    };
    let of = |group: &str, resource: &str, sub: &str, namespace: &str| {
        json!({"objectRef": {"resource": resource,
        "subresource": sub, "apiGroup": group, "namespace": namespace, "name": "x", "apiVersion": "v1"}})
    };
    let with = |mut more: Value, body: Value| {
        more["level"] = "Request".into();
        more["requestObject"] = body;
        more
    };
    for resource in
        ["namespaces", "customresourcedefinitions", "nodes", "apiservices", "poddisruptionbudgets", "persistentvolumes"]
    {
        add("delete", &format!("/{resource}/x"), resource, Value::Null);
        add("delete", &format!("/{resource}/x/status"), resource, of("", resource, "status", ""));
    }
    add("delete", "/l", "leases", of("coordination.k8s.io", "leases", "", "kube-system"));
    add("delete", "/l", "leases", of("coordination.k8s.io", "leases", "", "shop"));
    add("deletecollection", "/s?labelSelector=a", "secrets", of("", "secrets", "", "shop"));
    add("delete", "/p?gracePeriodSeconds=0", "pods", of("", "pods", "", "shop"));
    for number in 0..10 {
        let named = |mut more: Value| {
            more["objectRef"]["name"] = format!("p-{number}").into();
            more
        };
        add("delete", "/p", "pods", named(of("", "pods", "", "shop")));
        add("create", "/p/eviction", "pods", named(of("", "pods", "eviction", "shop")));
        add("create", "/token", "serviceaccounts", of("", "serviceaccounts", "token", "shop"));
        let mut refused = of("", "secrets", "", "shop");
        refused["responseStatus"] = json!({"code": 403});
        add("create", "/s", "secrets", refused);
    }
    let scale = || of("apps", "statefulsets", "scale", "shop");
    add("patch", "/s", "statefulsets", with(scale(), json!([{"op": "replace", "path": "/spec/replicas", "value": 0}])));
    add("patch", "/s", "statefulsets", with(scale(), json!({"spec": {"replicas": 1}})));
    let claim = || of("", "persistentvolumeclaims", "", "shop");
    add("patch", "/c", "persistentvolumeclaims", with(claim(), json!({"metadata": {"finalizers": null}})));
    add("patch", "/c", "persistentvolumeclaims", with(claim(), json!({"metadata": {"finalizers": ["a/b"]}})));
    add("update", "/n/finalize", "namespaces", of("", "namespaces", "finalize", ""));
    add("patch", "/n", "nodes", with(of("", "nodes", "", ""), json!({"spec": {"unschedulable": true}})));
    add("patch", "/n", "nodes", with(of("", "nodes", "", ""), json!({"spec": {"unschedulable": false}})));
    add(
        "update",
        "/w",
        "validatingwebhookconfigurations",
        of("admissionregistration.k8s.io", "validatingwebhookconfigurations", "", ""),
    );
    add("update", "/a", "apiservices", of("apiregistration.k8s.io", "apiservices", "", ""));
    let role = with(
        of("rbac.authorization.k8s.io", "clusterroles", "", ""),
        json!({"rules": [{"verbs": ["escalate"], "resources": ["clusterroles"]}]}),
    );
    add("create", "/r", "clusterroles", role);
    add("patch", "/f", "flowschemas", of("flowcontrol.apiserver.k8s.io", "flowschemas", "", ""));
    add("patch", "/f", "flowschemas", of("flowcontrol.apiserver.k8s.io", "flowschemas", "status", ""));
    add(
        "update",
        "/c/approval",
        "certificatesigningrequests",
        of("certificates.k8s.io", "certificatesigningrequests", "approval", ""),
    );
    add("create", "/exec", "pods", of("", "pods", "exec", "shop"));
    add("patch", "/e", "pods", of("", "pods", "ephemeralcontainers", "shop"));
    add("get", "/p", "nodes", of("", "nodes", "proxy", ""));
    let log = write(home.path(), "audit.log", &lines);
    let report = events(&[&log]);
    let mut kinds: Vec<String> = operations(&report).into_iter().map(|(kind, ..)| kind).collect();
    kinds.sort_unstable();
    // Each kind of the docs, once; a drain is made of others.
    let text = std::fs::read_to_string(root().join("docs/commands/guard.md")).unwrap();
    let mut documented: Vec<String> = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| <a id=\"guard-")?.split_once('"')?.0.to_owned()))
        .collect();
    documented.retain(|kind| kind != "drain");
    documented.sort_unstable();
    assert_eq!(kinds, documented);
    let findings = std::fs::read_to_string(root().join("docs/findings.md")).unwrap();
    for finding in report["findings"].as_array().unwrap() {
        let id = finding["id"].as_str().unwrap();
        assert!(findings.contains(&format!("`{id}`")), "docs/findings.md has no {id}");
    }
    let args: Vec<&str> = vec!["operations", &log];
    let counted: Value = serde_json::from_str(&oracle(&args)).unwrap();
    let theirs: u64 = counted
        .as_object()
        .unwrap()
        .values()
        .flat_map(|users| users.as_object().unwrap().values())
        .map(|one| one[0].as_u64().unwrap())
        .sum();
    // Removed finalizers are no kind of the oracle's.
    assert_eq!(report["totals"]["operations"], json!(theirs + 1));
}

/// What a newcomer stumbled over: who made what, what was refused, what is one object, what is there twice, and what
/// nobody knows.
#[test]
fn rows_are_about_objects_that_were_touched() {
    let home = folder();
    let mut number = 0;
    let mut lines = |of: &[(&str, &str, &str, &str, u16)]| -> String {
        let mut text = String::new();
        for (verb, resource, namespace, name, code) in of {
            number += 1;
            let more = json!({"objectRef": {"resource": resource, "namespace": namespace, "name": name},
                "responseStatus": {"code": code}});
            text += &event(number, verb, "/", resource, &more);
        }
        text
    };
    let found = |name: &str, text: String| events(&[&write(home.path(), name, text)]);
    let pods: Vec<String> = (0..40).map(|n| format!("p-{n}")).collect();
    let each = |verb: &'static str, namespace: &'static str, count: usize| {
        pods[..count].iter().map(move |name| (verb, "pods", namespace, name.as_str(), 200))
    };
    // Who cleans up deletes what he made himself, not as much elsewhere.
    let own: Vec<_> = each("create", "ci", 40).chain(each("delete", "ci", 40)).collect();
    let others: Vec<_> = each("create", "ci", 40).chain(each("delete", "prod", 30)).collect();
    assert_eq!(operations(&found("own.log", lines(&own))), []);
    assert_eq!(operations(&found("others.log", lines(&others))).len(), 1);
    // What was refused is not named beside what was done.
    let report =
        found("mix.log", lines(&[("delete", "namespaces", "", "prod", 403), ("delete", "namespaces", "", "tmp", 200)]));
    assert_eq!(operations(&report), [("delete-namespace".to_owned(), "eve".to_owned(), "tmp".to_owned(), 1)]);
    assert_eq!(row(&report, "delete-namespace")["refused"], json!(1));
    // One node three times is one; and a log that is given twice is one log.
    let once = lines(&[
        ("delete", "nodes", "", "n", 200),
        ("delete", "nodes", "", "n", 200),
        ("delete", "nodes", "", "n", 200),
    ]);
    assert_eq!(row(&found("node.log", once.clone()), "delete-node")["severity"], "warning");
    let twice = found("twice.log", once.clone() + &once);
    assert_eq!(row(&twice, "delete-node")["count"], json!(3));
    // Who gave up waiting does not know that it was not done.
    let report = found("unsure.log", lines(&[("delete", "namespaces", "", "prod", 504)]));
    let gone = row(&report, "delete-namespace");
    assert_eq!((&gone["unsure"], &gone["severity"], &gone["objects"]), (&json!(1), &json!("critical"), &Value::Null));
    // Reads of secrets that are refused count, those of other things don't.
    let reads: Vec<_> =
        (0..12).flat_map(|_| [("get", "secrets", "shop", "s", 403), ("get", "configmaps", "shop", "c", 403)]).collect();
    assert_eq!(operations(&found("reads.log", lines(&reads))).len(), 1);
}

/// A tripwire that runs.
struct Tripwire(Child);

impl Tripwire {
    fn start(lab: &AlertLab, log: &Path, more: &[&str]) -> Self {
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), lab.path());
        command
            .args(["guard", "events", log.to_str().unwrap(), "--follow", "--alerts"])
            .arg(lab.path().join("alerts.yaml"));
        command
            .arg("--state")
            .arg(lab.state())
            .args(["--give-up", "1s", "-o", "json"])
            .args(more)
            .env("HOOK_PASSWORD", "sesame");
        let tripwire =
            Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        // It holds the lock when it is ready; what is logged from then on is reported.
        let end = Instant::now() + Duration::from_secs(60);
        while !lab.state().join("sent.log").exists() {
            assert!(Instant::now() < end, "it does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(300));
        tripwire
    }

    /// Asks it to end; its reports, its messages, its exit code.
    fn end(self) -> (Vec<Value>, String, Option<i32>) {
        Command::new("kill").arg(self.0.id().to_string()).status().unwrap();
        let output = self.0.wait_with_output().unwrap();
        let reports = serde_json::Deserializer::from_slice(&output.stdout).into_iter().map(Result::unwrap).collect();
        (reports, String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
    }
}

fn append(path: &Path, text: &str) {
    std::fs::File::options().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn wait_for(lab: &AlertLab, kind: &str, count: usize) -> Vec<Value> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let noted = lab.noted(kind);
        if noted.len() >= count {
            return noted;
        }
        assert!(Instant::now() < end, "{} of {count}: {noted:?}", noted.len());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_tripwire_tells_each_once_by_every_channel() {
    let mut lab = AlertLab::start();
    lab.config(
        "default: { name: ops, channels: [mail, hook, chat, pages], to: [ops@example.org], hours: { zone: UTC, \
         days: [Sun], from: \"00:00\", to: \"00:01\" } }\n",
    );
    let log = lab.path().join("audit.log");
    append(
        &log,
        &event(1, "delete", "/api/v1/namespaces/x", "namespaces", &json!({"stageTimestamp": "2026-01-01T00:00:00Z"})),
    );
    let wire = Tripwire::start(&lab, &log, &[]);
    append(&log, &event(2, "list", "/api/v1/pods", "pods", &Value::Null));
    append(&log, &event(3, "delete", "/api/v1/namespaces/x", "namespaces", &Value::Null));
    let taken = wait_for(&lab, "accepted", 4);
    append(
        &log,
        &event(
            4,
            "create",
            "/exec",
            "pods",
            &json!({"objectRef": {"resource": "pods", "subresource": "exec", "name": "x"}}),
        ),
    );
    append(
        &log,
        &event(
            5,
            "delete",
            "/api/v1/namespaces/y",
            "namespaces",
            &json!({"objectRef": {"resource": "namespaces", "name": "y"}}),
        ),
    );
    wait_for(&lab, "accepted", 8);
    let (reports, stderr, code) = wire.end();
    assert_eq!(code, Some(0), "{stderr}");
    // From before it was started: not reported. Another namespace soon after is; commands in containers are no more
    // than info.
    let names: Vec<String> = reports.iter().flat_map(operations).map(|(_, _, names, _)| names).collect();
    assert_eq!(names, ["x", "y"], "{reports:?}");
    assert!(stderr.contains("4 requests checked, 2 operations reported"), "{stderr}");
    assert_eq!(taken.len(), 4, "{taken:?}");
    let by = |channel: &str| {
        taken.iter().find(|one| one["channel"] == channel).unwrap_or_else(|| panic!("nothing by {channel}"))
    };
    let (mail, hook, chat) = (by("mail"), by("hook"), by("chat"));
    assert_eq!(mail["subject"], "critical: eve deleted a namespace: x (lab)");
    assert_eq!(mail["to"], json!(["ops@example.org"]));
    assert!(mail["text"].as_str().unwrap().contains("\n  by         kubectl from 10.0.0.9\r\n"), "{mail}");
    assert_eq!((&hook["body"]["schema"], &hook["signed"]), (&json!("plimsoll.guard.message/v1"), &json!(true)));
    assert_eq!((&hook["body"]["operations"][0]["audit_id"], &hook["id"]), (&json!("a-3"), &mail["id"]));
    assert!(chat["body"]["text"].as_str().unwrap().contains("CRITICAL eve deleted a namespace: x"), "{chat}");
    let alerts = lab.alerts();
    assert_eq!(alerts.len(), 2, "{alerts:?}");
    let labels = &alerts.iter().find(|alert| alert["labels"]["audit_id"] == "a-3").unwrap()["labels"];
    assert_eq!(
        (&labels["alertname"], &labels["kind"], &labels["user"]),
        (&json!("PlimsollGuard"), &json!("delete-namespace"), &json!("eve"))
    );

    // What was reported is not reported again, however often it is read.
    let wire = Tripwire::start(&lab, &log, &["--since", "-1h"]);
    std::thread::sleep(Duration::from_secs(2));
    let (reports, stderr, code) = wire.end();
    assert_eq!((reports.len(), code), (0, Some(0)), "{stderr}");
    assert_eq!(lab.noted("accepted").len(), 8);

    // What can't be delivered waits for the next run.
    lab.stop_receivers();
    let wire = Tripwire::start(&lab, &log, &[]);
    append(&log, &event(6, "delete", "/crd", "customresourcedefinitions", &Value::Null));
    std::thread::sleep(Duration::from_secs(4));
    let (reports, stderr, code) = wire.end();
    assert_eq!((reports.len(), code), (1, Some(3)), "{stderr}");
    assert!(stderr.contains("1 message in the outbox"), "{stderr}");
    lab.start_receivers();
    let wire = Tripwire::start(&lab, &log, &[]);
    let taken = wait_for(&lab, "accepted", 12);
    let (reports, stderr, code) = wire.end();
    assert_eq!((reports.len(), code), (0, Some(0)), "{stderr}");
    // Slack and Alertmanager have no ids.
    let ids: Vec<&Value> = taken[8..].iter().map(|one| &one["id"]).filter(|id| !id.is_null()).collect();
    assert!(ids.len() == 2 && ids[0] == ids[1], "{taken:?}");
}

/// What `kubectl drain node-00 node-01 node-02` did, and a cordon behind it, counted by Python.
#[test]
fn a_real_drain_is_one_row() {
    let script = r#"
import json, sys
nodes, done, requests, failed = [], set(), 0, 0
for line in sys.stdin:
    e = json.loads(line)
    ref = e.get("objectRef", {})
    if ref.get("resource") == "nodes" and e["verb"] == "patch" and (e.get("requestObject") or {}).get("spec", {}).get("unschedulable"):
        nodes.append(ref["name"])
    if ref.get("subresource") == "eviction":
        requests += 1
        if e["responseStatus"]["code"] == 201: done.add(ref["name"])
        else: failed += 1
print(json.dumps([nodes, requests, len(done), failed]))
"#;
    let mut command = Command::new(python());
    command.args(["-c", script]);
    let theirs: Value = serde_json::from_str(&feed(command, &sample_bytes("drain/audit.log.zst")).stdout).unwrap();
    // README.md: three nodes, then a fourth that was only cordoned; a budget let none of its pods go.
    assert_eq!(theirs, serde_json::json!([["node-00", "node-01", "node-02", "node-05"], 33, 21, 12]));
    let report = plimsoll(&["guard", "events", &sample("drain"), "-o", "json"]).json(0);
    let rows: Vec<&Value> = report["rows"].as_array().unwrap().iter().filter(|row| row["agent"] == "kubectl").collect();
    assert_eq!(rows.iter().map(|row| row["kind"].as_str().unwrap()).collect::<Vec<_>>(), ["drain", "cordon"]);
    assert_eq!(rows[0]["names"], serde_json::json!(["node-00", "node-01", "node-02"]));
    assert_eq!(
        (&rows[0]["evictions"], &rows[0]["evicted"], &rows[0]["evictions_failed"]),
        (&theirs[1], &theirs[2], &theirs[3])
    );
    assert_eq!((&rows[0]["severity"], &rows[0]["done"]), (&"warning".into(), &3.into()));
    let only = plimsoll(&["guard", "events", &sample("drain"), "--kind", "drain", "-o", "json"]).json(0);
    assert_eq!(only["rows"].as_array().unwrap().len(), 1);
    let text = plimsoll(&["guard", "events", &sample("drain")]);
    assert!(text.exits(0).stdout.contains("drained 3 nodes: node-00, node-01, node-02; 21 pods"), "{}", text.stdout);
}

/// Databases that were swapped would show as deleted what was created.
#[test]
fn databases_in_the_wrong_order_are_refused() {
    let bundle = sample("list-storm");
    let of = |name: &str| sample(&format!("list-storm/etcd/{name}.db.zst"));
    let args = |before: &str, after: &str| {
        plimsoll(&["guard", "events", &bundle, "--before", &of(before), "--after", &of(after)])
    };
    args("before", "after").exits(0);
    let swapped = args("after", "before");
    assert_eq!(swapped.code, Some(2), "{}", swapped.stdout);
    assert!(swapped.stderr.contains("swap them"), "{}", swapped.stderr);
}
