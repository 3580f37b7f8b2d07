//! `plimsoll upgrade`: calls that a version does not serve any more equal a count of the raw events, in each form that
//! sources have.

use crate::support::{feed, folder, plimsoll, python, root, sample, write};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// One event of a client that calls a deprecated API; `removed` is empty where no release is named.
fn event(number: u64, user: &str, agent: &str, api: [&str; 3], removed: &str) -> String {
    let [group, version, resource] = api;
    let at = format!("2026-11-20T10:{:02}:{:02}.000000Z", number / 60 % 60, number % 60);
    let mut notes = json!({"authorization.k8s.io/decision": "allow", "k8s.io/deprecated": "true"});
    if !removed.is_empty() {
        notes["k8s.io/removed-release"] = removed.into();
    }
    let event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": format!("id-{number}"),
        "stage": "ResponseComplete", "requestURI": format!("/apis/{group}/{version}/namespaces/shop/{resource}/x"),
        "verb": "get", "user": {"username": user, "groups": ["system:authenticated"]}, "sourceIPs": ["10.0.0.9"],
        "userAgent": format!("{agent}/v1.2 (linux/amd64)"),
        "objectRef": {"resource": resource, "namespace": "shop", "name": "x", "apiGroup": group, "apiVersion": version},
        "responseStatus": {"metadata": {}, "code": 200}, "requestReceivedTimestamp": at, "stageTimestamp": at,
        "annotations": notes,
    });
    event.to_string() + "\n"
}

/// Calls of every verdict, and some by hostile names.
fn log() -> String {
    let pdb = ["policy", "v1beta1", "poddisruptionbudgets"];
    let capacity = ["storage.k8s.io", "v1beta1", "csistoragecapacities"];
    let autoscaler = "system:serviceaccount:kube-system:cluster-autoscaler";
    let mut lines = String::new();
    let calls = [
        ("system:serviceaccount:ci:deployer", "helm", pdb, "1.25", 7),
        (autoscaler, "cluster-autoscaler", pdb, "1.25", 3),
        ("system:node:a", "kubelet", capacity, "1.25", 2),
        ("system:node:b", "kubelet", capacity, "1.25", 2),
        ("jane", "kubectl", ["flowcontrol.apiserver.k8s.io", "v1beta2", "flowschemas"], "1.29", 4),
        ("jane", "kubectl", ["example.com", "v1alpha1", "widgets"], "", 1),
        ("odd", "x\u{1b}[31m,=1+1", pdb, "1.99999999999999999999", 1),
    ];
    let mut number = 0;
    for (user, agent, api, removed, times) in calls {
        for _ in 0..times {
            number += 1;
            lines += &event(number, user, agent, api, removed);
        }
    }
    lines
}

#[track_caller]
fn document(args: &[&str]) -> Value {
    let ran = plimsoll(&[&["upgrade"], args, &["-o", "json"]].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

fn rows(document: &Value) -> Vec<Value> {
    let mut rows: Vec<Value> = document["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            json!([
                text("user"),
                text("agent"),
                text("api_version"),
                text("resource"),
                text("removed_release"),
                text("upgrade_verdict"),
                row["requests"],
                text("first_seen"),
                text("last_seen")
            ])
        })
        .collect();
    rows.sort_by_key(ToString::to_string);
    rows
}

/// What the oracle counts, its times as ours are written.
#[track_caller]
fn counted(minor: &str, file: &str) -> Vec<Value> {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/upgrade.py")).args([minor, file]);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    for row in &mut rows {
        for place in [7, 8] {
            let at: jiff::Timestamp = row[place].as_str().unwrap().parse().unwrap();
            row[place] = plimsoll::model::time::format(at.as_microsecond()).into();
        }
    }
    rows.sort_by_key(ToString::to_string);
    rows
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn calls_are_those_of_the_raw_events_in_each_form() {
    let home = folder();
    let file = write(home.path(), "logs/audit.log", log());
    let logs = text(&home.path().join("logs")).to_owned();
    let theirs = counted("25", &file);
    assert_eq!(theirs.len(), 6);
    let ours = document(&[&file, "--to", "1.25"]);
    assert_eq!(rows(&ours), theirs);
    let totals = &ours["totals"];
    let names = ["calls", "clients_that_break", "breaks", "upgraded_along", "later", "deprecated"];
    assert_eq!(names.map(|name| totals[name].as_u64().unwrap()), [6, 2, 2, 1, 1, 2]);
    let first = &ours["rows"][0];
    assert_eq!((first["use_instead"].as_str(), first["requests"].as_u64()), (Some("policy/v1"), Some(7)));
    assert_eq!(ours["findings"].as_array().unwrap().len(), 2);
    // A version further on, and one before all of them.
    assert_eq!(document(&[&file, "--to", "v1.29.3"])["totals"]["breaks"], 3);
    assert_eq!(document(&[&file, "--to", "1.24"])["totals"]["breaks"], 0);

    // Roll-up, store, and the logs beside a bundle.yaml, which names the version.
    let made = home.path().join("rollup");
    plimsoll(&["rollup", &logs, "--to", text(&made)]).exits(0);
    let store = home.path().join("store");
    plimsoll(&["record", &logs, "--store", text(&store), "--keep-rollups", "10s=20000d"]).exits(0);
    for source in [&made, &store] {
        assert_eq!(rows(&document(&[text(source), "--to", "1.25"])), theirs, "{}", source.display());
    }
    let bundle = home.path().join("bundle");
    write(&bundle, "audit/apiserver-0/audit.log", log());
    write(&bundle, "bundle.yaml", "cluster: shop\nkubernetes_version: v1.24.7\n");
    let of_bundle = document(&[text(&bundle)]);
    assert_eq!((rows(&of_bundle), &of_bundle["coverage"]["to_version"]), (theirs, &json!("1.25")));

    // A version after which no number comes.
    write(&bundle, "bundle.yaml", "cluster: shop\nkubernetes_version: v1.4294967295\n");
    assert_eq!(document(&[text(&bundle)])["coverage"]["to_version"], "1.4294967295");

    // Exit codes, a missing version, a wrong one; nothing of a window without calls.
    plimsoll(&["upgrade", &file, "--to", "1.25", "--fail-on", "critical"]).exits(1);
    plimsoll(&["upgrade", &file, "--to", "1.24", "--fail-on", "critical"]).exits(0);
    let refused = plimsoll(&["upgrade", &file]);
    refused.exits(2);
    assert!(refused.stderr.contains("--to 1.37"), "{}", refused.stderr);
    plimsoll(&["upgrade", &file, "--to", "soon"]).exits(2);
    // Names are shown, and steer no terminal.
    let table = plimsoll(&["upgrade", &file, "--to", "1.25", "-o", "wide"]);
    assert!(table.stdout.contains("breaks") && !table.stdout.contains('\u{1b}'), "{}", table.stdout);
}

#[test]
fn metrics_show_which_apis_and_nobody() {
    let home = folder();
    let line = |group: &str, version: &str, resource: &str, removed: &str| {
        format!(
            "apiserver_requested_deprecated_apis{{group=\"{group}\",removed_release=\"{removed}\",\
             resource=\"{resource}\",subresource=\"\",version=\"{version}\"}} 1\n"
        )
    };
    let page = "# TYPE apiserver_requested_deprecated_apis gauge\n".to_owned()
        + &line("policy", "v1beta1", "poddisruptionbudgets", "1.25")
        + &line("", "v1", "endpoints", "")
        + "apiserver_request_total{code=\"200\",verb=\"GET\",resource=\"pods\"} 7\n";
    let path = write(home.path(), "metrics/apiserver-0/1795167937.txt", page);
    let ours = document(&[&path, "--to", "1.25"]);
    let expected = json!([
        ["", "", "policy/v1beta1", "poddisruptionbudgets", "1.25", "breaks", null, "", ""],
        ["", "", "v1", "endpoints", "", "deprecated", null, "", ""]
    ]);
    assert_eq!(Value::from(rows(&ours)), expected);
    let shown = plimsoll(&["upgrade", &path, "--to", "1.25"]);
    assert!(shown.stdout.contains("metrics name no clients"), "{}", shown.stdout);
    // Where the log shows who it was, the metric adds nothing.
    let bundle = home.path().join("bundle");
    write(&bundle, "audit/apiserver-0/audit.log", log());
    write(&bundle, "metrics/apiserver-0/1795167937.txt", std::fs::read(&path).unwrap());
    let both = document(&[text(&bundle), "--to", "1.25"]);
    let nobody: Vec<&Value> = both["rows"].as_array().unwrap().iter().filter(|row| row["user"].is_null()).collect();
    assert_eq!(nobody.len(), 1, "{nobody:?}");
    assert_eq!(nobody[0]["resource"], "endpoints");
}

#[test]
fn owners_are_those_of_namespaces() {
    let ours = document(&[&sample("list-storm"), "--top", "0"]);
    assert_eq!(ours["coverage"]["to_version"], "1.37");
    assert_eq!((&ours["totals"]["breaks"], &ours["totals"]["deprecated"]), (&json!(0), &json!(3)));
    let home = folder();
    let bundle = home.path();
    write(bundle, "audit/apiserver-0/audit.log", log());
    let namespaces = json!({"kind": "List", "apiVersion": "v1", "items": [
        {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "ci", "labels": {"team": "delivery"}}}]});
    write(bundle, "objects/1795166546/namespaces.json", namespaces.to_string());
    let alerts = "channels:\n  out: {stdout: {}}\ndefault: {channels: [out]}\n\
                  owners:\n- {name: platform, namespaces: [kube-*]}\n";
    let alerts = write(bundle, "alerts.yaml", alerts);
    let ours = document(&[text(bundle), "--to", "1.25", "--alerts", &alerts]);
    let owners: Vec<&Value> = ours["rows"].as_array().unwrap().iter().map(|row| &row["owner"]).take(2).collect();
    assert_eq!(owners, [&json!("delivery"), &json!("platform")]);
}

/// Objects as kubectl lists them with their managers, and manifests of a repository.
#[test]
fn objects_of_old_versions_are_those_that_say_so() {
    let home = folder();
    let manifest =
        json!({"apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "ValidatingWebhookConfiguration"});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly", "namespace": "shop",
            "managedFields": [{"manager": "helm", "apiVersion": "batch/v1beta1"},
                {"manager": "kube-controller-manager", "apiVersion": "batch/v1"}]}},
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "hourly", "namespace": "shop",
            "managedFields": [{"manager": "helm", "apiVersion": "batch/v1beta1"}]}},
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {
            "name": "guard",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": manifest.to_string()}}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "beta", "namespace": "shop"}},
    ]});
    write(home.path(), "objects/list.json", list.to_string());
    write(
        home.path(),
        "objects/namespaces.json",
        json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "annotations": {"owner": "team-shop"}}})
        .to_string(),
    );
    let manifest = "apiVersion: flowcontrol.apiserver.k8s.io/v1beta3\nkind: FlowSchema\nmetadata:\n  name: mine\n---\n\
        apiVersion: example.com/v1beta1\nkind: Widget\nmetadata:\n  name: ours\n";
    write(home.path(), "objects/flow.yaml", manifest);
    let objects = home.path().join("objects").display().to_string();
    let of_objects = plimsoll(&["upgrade", &objects, "--to", "1.37", "-o", "json"]).json(0);
    let rows: Vec<Value> = of_objects["tables"]["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            json!([
                row["upgrade_verdict"],
                row["object_kind"],
                row["namespace"],
                row["old_objects"],
                row["written_in"],
                row["written_by"],
                row["removed_release"],
                row["use_instead"]
            ])
        })
        .collect();
    let breaks = |rest: Value| [vec!["breaks".into()], rest.as_array().unwrap().clone()].concat();
    assert_eq!(
        json!(rows),
        json!([
            breaks(json!([
                "ValidatingWebhookConfiguration",
                null,
                1,
                "admissionregistration.k8s.io/v1beta1",
                "kubectl apply",
                "1.22",
                "admissionregistration.k8s.io/v1"
            ])),
            breaks(json!(["CronJob", "shop", 2, "batch/v1beta1", "helm", "1.25", "batch/v1"])),
            breaks(json!([
                "FlowSchema",
                null,
                1,
                "flowcontrol.apiserver.k8s.io/v1beta3",
                null,
                "1.32",
                "flowcontrol.apiserver.k8s.io/v1"
            ])),
        ])
    );
    assert_eq!(of_objects["totals"]["old_objects"], 4);
    let ids: Vec<&str> =
        of_objects["findings"].as_array().unwrap().iter().map(|own| own["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["upgrade-old-manifest"; 3]);
    // Before the release that ends them, they are for later; with a log beside them, calls are told too.
    let earlier = plimsoll(&["upgrade", &objects, "--to", "1.24", "-o", "json"]).json(0);
    assert_eq!((&earlier["totals"]["old_objects"], earlier["findings"].as_array().unwrap().len()), (&1.into(), 1));
    let log = write(home.path(), "audit.log", log());
    let both = document(&[&objects, &log, "--to", "1.37"]);
    assert_eq!(both["totals"]["old_objects"], 4);
    assert!(both["totals"]["calls"].as_u64() > Some(3), "{}", both["totals"]);
    let ran = plimsoll(&["upgrade", &objects, "--to", "1.37", "--fail-on", "warning"]);
    ran.exits(1);
    assert!(ran.stdout.contains("4 objects were written in versions that 1.37 does not serve"), "{}", ran.stdout);
    assert!(ran.stdout.contains("no audit log and no metrics page"), "{}", ran.stdout);
}

#[test]
fn manifests_that_mention_audit_events_are_manifests_and_pages_are_taken_together() {
    let home = folder();
    let budget = |above: &str, version: &str| {
        format!("{above}apiVersion: {version}\nkind: PodDisruptionBudget\nmetadata:\n  name: web\n  namespace: shop\n")
    };
    for (number, above) in ["", "# see audit.k8s.io/v1 policy\n"].into_iter().enumerate() {
        let file = write(home.path(), &format!("{number}/pdb.yaml"), budget(above, "policy/v1beta1"));
        let ran = plimsoll(&["upgrade", &file, "--to", "1.37", "--fail-on", "warning", "-o", "json"]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["totals"]["old_objects"], 1);
    }
    // A version that is in no list is named; nothing in any source is no answer.
    let file = write(home.path(), "claim.yaml", budget("", "resource.k8s.io/v1alpha2"));
    let report = document(&[&file, "--to", "1.37"]);
    assert_eq!(report["coverage"]["unknown_versions"], json!(["resource.k8s.io/v1alpha2 PodDisruptionBudget"]));
    let empty = write(home.path(), "empty.log", "");
    plimsoll(&["upgrade", &empty, "--to", "1.37"]).exits(3);
    plimsoll(&["upgrade", &file, "--to", "1.37;x"]).exits(2);
    // Two managers of one object.
    let object = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop", "managedFields": [
            {"manager": "helm", "apiVersion": "policy/v1beta1"}, {"manager": "argo", "apiVersion": "policy/v1beta1"},
        ]},
    });
    let file = write(home.path(), "two.json", object.to_string());
    let report = document(&[&file, "--to", "1.37"]);
    assert_eq!(
        (&report["totals"]["old_objects"], report["tables"]["objects"].as_array().unwrap().len()),
        (&json!(1), 2)
    );
    // An apiserver that started again has forgotten what its first page shows.
    let labels = "code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"cluster\"";
    let page = |start: u64, called: &str| {
        let series = format!("apiserver_request_total{{{labels},subresource=\"\",verb=\"LIST\",version=\"v1\"}}");
        format!("process_start_time_seconds {start}\n{series} 10\n{called}")
    };
    let called = "apiserver_requested_deprecated_apis{group=\"policy\",removed_release=\"1.25\",\
                  resource=\"poddisruptionbudgets\",subresource=\"\",version=\"v1beta1\"} 1\n";
    write(home.path(), "metrics/apiserver-0/1795167900.txt", page(1_795_160_000, called));
    write(home.path(), "metrics/apiserver-0/1795167960.txt", page(1_795_167_930, ""));
    let ran = plimsoll(&["upgrade", text(&home.path().join("metrics")), "--to", "1.37"]);
    assert!(ran.stdout.contains("of clients that metrics do not name would fail"), "{}", ran.stdout);
}
