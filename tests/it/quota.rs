//! `plimsoll quota propose` and `quota lint` on the samples, beside an independent count (tests/oracle/quota.py), and
//! on made objects.

use crate::support::{Ran, feed, folder, number, plimsoll, python, root, sample, write};
use plimsoll::analysis::quota::usage::of_pod;
use plimsoll::model::objects::Objects;
use plimsoll::sources::objects::read;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

/// What Kubernetes 1.36's own evaluator (PodUsageFunc) says of 600 made pods with every odd part, and of 20 real ones,
/// at 09:24:36 (tests/data/quota-pods.jsonl.zst).
#[test]
fn pods_use_what_kubernetes_says() {
    let packed = std::fs::read(root().join("tests/data/quota-pods.jsonl.zst")).unwrap();
    let table = zstd::decode_all(packed.as_slice()).unwrap();
    let mut seen = 0;
    for line in std::str::from_utf8(&table).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let mut objects = Objects::default();
        read::objects(row["pod"].to_string().as_bytes(), &mut objects).whole().unwrap();
        let used = of_pod(&objects.pods[0], 1_795_166_676_000_000);
        let used: BTreeMap<&str, String> =
            used.iter().map(|(name, amount)| (name.as_str(), amount.to_string())).collect();
        let truth = row["used"].as_object().unwrap().iter();
        let truth: BTreeMap<&str, String> =
            truth.map(|(name, amount)| (name.as_str(), amount.as_str().unwrap().to_owned())).collect();
        assert_eq!(used, truth, "{}", row["pod"]);
        seen += 1;
    }
    assert_eq!(seen, 620);
}

#[track_caller]
fn oracle(bundle: &str, headroom: &str) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/quota.py")).args([bundle, headroom]);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Every row of a bundle's proposals is what the oracle counts; how many rows there are.
#[track_caller]
fn agrees(name: &str, headroom: &str, flag: &str) -> usize {
    let report = plimsoll(&["quota", "propose", &sample(name), "--headroom", flag, "-o", "json"]).json(0);
    let truth = oracle(&sample(name), headroom);
    let truth_rows = truth["rows"].as_object().unwrap();
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        let text = |field: &str| row[field].as_str().unwrap();
        let key = format!("{}|{}|{}", text("namespace"), text("quota"), text("resource"));
        let expected = &truth_rows[&key];
        for (field, truth) in
            [("peak_value", "peak"), ("used_value", "used"), ("proposed_value", "proposed"), ("refused", "refused")]
        {
            assert_eq!(number(row, field), number(expected, truth), "{field} of {key}: {row}\n{expected}");
        }
        assert_eq!(row["hard_value"], expected["hard"], "{key}: {row}");
        assert!(number(row, "proposed_value") >= number(row, "used_value"), "{row}");
    }
    let ours: Vec<String> = rows
        .iter()
        .map(|row| format!("{}|{}|{}", row["namespace"], row["quota"], row["resource"]).replace('"', ""))
        .collect();
    assert_eq!(ours.len(), truth_rows.len(), "{ours:?}\n{:?}", truth_rows.keys().collect::<Vec<_>>());
    for row in report["tables"]["cluster"].as_array().unwrap() {
        let of = row["resource"].as_str().unwrap();
        let sum: f64 = rows.iter().filter(|row| row["resource"] == of).map(|row| number(row, "proposed_value")).sum();
        let held = number(&truth["allocatable"], of.rsplit('.').next().unwrap());
        assert!((number(row, "proposed_share") - sum / held).abs() < 1e-6, "{row} {sum} {held}");
    }
    ours.len()
}

#[test]
fn proposals_are_what_an_independent_count_says() {
    assert!(agrees("list-storm", "1/5", "20%") > 20);
    assert!(agrees("overload-restart", "1/2", "0.5") > 20);
    assert!(agrees("quiet", "0", "0") > 10);
}

#[test]
fn what_was_refused_counts() {
    let report = plimsoll(&["quota", "propose", &sample("list-storm"), "-n", "batch", "-o", "json"]).json(0);
    let row = report["rows"].as_array().unwrap().iter().find(|row| row["resource"] == "requests.cpu").unwrap();
    // 9800m are used, 250m more were asked for, again and again.
    assert_eq!((&row["peak"], &row["censored"], &row["hard"]), (&"10050m".into(), &"refused".into(), &"10".into()));
    assert!(number(row, "refused") > 10.0, "{row}");
    // Without the logs nobody knows; that it stood at the quota is said.
    let objects = format!("{}/objects", sample("list-storm"));
    let report = plimsoll(&["quota", "propose", &objects, "-n", "batch", "-o", "json"]).json(0);
    let row = report["rows"].as_array().unwrap().iter().find(|row| row["resource"] == "requests.cpu").unwrap();
    assert_eq!((&row["peak"], &row["censored"]), (&"9800m".into(), &"at-quota".into()));
    assert!(row["reason"].as_str().unwrap().contains("may be higher"), "{row}");
}

/// Documents of YAML as JSON.
fn documents(text: &str) -> Vec<Value> {
    use serde::Deserialize;
    serde_yaml_ng::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
}

#[test]
fn manifests_hold_what_is_proposed() {
    let source = sample("list-storm");
    let rows = plimsoll(&["quota", "propose", &source, "-o", "json"]).json(0);
    let rows = rows["rows"].as_array().unwrap();
    let ran: Ran = plimsoll(&["quota", "propose", &source, "-o", "yaml"]);
    ran.exits(0);
    let manifests = documents(&ran.stdout);
    assert!(ran.stderr.contains("would be lower than now and stay unchanged"), "{}", ran.stderr);
    let (mut raised, mut kept) = (0, 0);
    for manifest in &manifests {
        assert_eq!((&manifest["apiVersion"], &manifest["kind"]), (&"v1".into(), &"ResourceQuota".into()));
        let peaks: Value =
            serde_json::from_str(manifest["metadata"]["annotations"]["plimsoll.io/peaks"].as_str().unwrap()).unwrap();
        assert_eq!(manifest["metadata"]["annotations"]["plimsoll.io/headroom"], "20%");
        for (resource, amount) in manifest["spec"]["hard"].as_object().unwrap() {
            let quota = manifest["metadata"]["name"].as_str().unwrap().replace("plimsoll", "");
            let is_row = |row: &&Value| {
                row["namespace"] == manifest["metadata"]["namespace"]
                    && row["quota"] == quota
                    && row["resource"] == *resource
            };
            let row = rows.iter().find(is_row).unwrap_or_else(|| panic!("{manifest} {resource}"));
            // What stands is never lowered unasked.
            if row["hard_value"].as_f64().is_some_and(|hard| hard >= number(row, "proposed_value")) {
                assert_eq!(*amount, row["hard"], "{row}");
                kept += 1;
                continue;
            }
            assert_eq!(*amount, row["proposed"]);
            assert_eq!((&peaks[resource]["peak"], &peaks[resource]["at"]), (&row["peak"], &row["peak_at"]));
            raised += 1;
        }
        // Nothing that the cluster sets.
        assert_eq!(
            manifest.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["apiVersion", "kind", "metadata", "spec"]
        );
    }
    // All that rises is there; a quota of which nothing rises is not.
    let rises = |row: &&Value| row["hard_value"].as_f64().is_none_or(|hard| hard < number(row, "proposed_value"));
    assert_eq!(raised, rows.iter().filter(rises).count());
    assert!(raised > 10 && kept > 0, "{raised} {kept}");
    // The quota that is full: what refuses is raised, memory is not taken away.
    let batch = manifests.iter().find(|manifest| manifest["metadata"]["namespace"] == "batch").unwrap();
    let hard = &batch["spec"]["hard"];
    assert_eq!((&hard["requests.cpu"], &hard["limits.memory"]), (&"12500m".into(), &"20Gi".into()), "{batch}");
    // The same in files.
    let place = folder();
    let into = place.path().join("quotas");
    plimsoll(&["quota", "propose", &source, "--kustomize", into.to_str().unwrap(), "-o", "yaml"]).exits(0);
    let kustomization = documents(&std::fs::read_to_string(into.join("kustomization.yaml")).unwrap()).remove(0);
    let files: Vec<&str> =
        kustomization["resources"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let written: Vec<Value> =
        files.iter().flat_map(|name| documents(&std::fs::read_to_string(into.join(name)).unwrap())).collect();
    assert_eq!(written, manifests);
}

#[test]
fn limit_ranges_speak_for_silent_containers() {
    let source = sample("list-storm");
    let ran = plimsoll(&["quota", "propose", &source, "--limit-range", "-o", "yaml"]);
    ran.exits(0);
    let ranges: Vec<Value> =
        documents(&ran.stdout).into_iter().filter(|manifest| manifest["kind"] == "LimitRange").collect();
    let silent: std::collections::BTreeSet<String> = oracle(&source, "1/5")["silent"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[0].as_str().unwrap().to_owned())
        .collect();
    let given: std::collections::BTreeSet<String> =
        ranges.iter().map(|range| range["metadata"]["namespace"].as_str().unwrap().to_owned()).collect();
    assert_eq!(given, silent);
    for range in &ranges {
        let rule = &range["spec"]["limits"][0];
        assert_eq!(rule["type"], "Container");
        assert!(rule["defaultRequest"]["cpu"].is_string() && rule["default"]["memory"].is_string(), "{range}");
    }
}

fn list(items: Vec<Value>) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn quota(namespace: &str, hard: Value, used: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": namespace},
        "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
}

fn deployment(namespace: &str, name: &str, replicas: u64, surge: Value, resources: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}, "spec": {
        "replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}},
        "template": {"spec": {"containers": [{"name": "c", "resources": resources}]}}}})
}

/// Findings as `id: subject`, of a list of objects.
#[track_caller]
fn lint(items: Vec<Value>, more: &[&str]) -> Vec<String> {
    let place = folder();
    let path = write(place.path(), "objects.json", list(items));
    let report = plimsoll(&[&["quota", "lint", &path, "-o", "json"], more].concat()).json(0);
    assert_eq!(report["rows"].as_array().unwrap().len(), report["findings"].as_array().unwrap().len());
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| {
            let subject = finding["subject"]
                .as_object()
                .unwrap()
                .values()
                .map(|value| value.as_str().unwrap())
                .collect::<Vec<_>>();
            format!(
                "{} {}: {}",
                finding["severity"].as_str().unwrap(),
                finding["id"].as_str().unwrap(),
                subject.join(" ")
            )
        })
        .collect()
}

#[test]
fn a_rollout_that_finds_no_room_is_found_beforehand() {
    let asks = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}});
    let web = |used: &str, replicas, surge| {
        vec![
            quota("web", json!({"requests.cpu": "10"}), json!({"requests.cpu": used})),
            deployment("web", "app", replicas, surge, asks.clone()),
        ]
    };
    // 25% of 8 are 2 more pods.
    assert_eq!(lint(web("8", 8, json!("25%")), &[]), Vec::<String>::new());
    assert_eq!(
        lint(web("8001m", 8, json!("25%")), &[]),
        ["warning quota-blocks-rollout: Deployment app web q requests.cpu"]
    );
    // Two of the old pods may go before new ones have come, which frees what these need.
    assert_eq!(
        lint(web("9500m", 8, json!("25%")), &[]),
        ["warning quota-blocks-rollout: Deployment app web q requests.cpu"]
    );
    // Not where all must stay: of three, a quarter is none.
    let mut all_stay = web("9500m", 8, json!("25%"));
    all_stay[1]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!(0);
    for items in [all_stay, web("9500m", 3, json!("25%"))] {
        assert_eq!(lint(items, &[]), ["critical quota-blocks-rollout: Deployment app web q requests.cpu"]);
    }
    // An old pod goes first.
    assert_eq!(lint(web("10", 8, json!(0)), &[]), Vec::<String>::new());
    // Scaled to nothing.
    assert_eq!(lint(web("10", 0, json!(3)), &[]), Vec::<String>::new());
}

#[test]
fn silent_containers_are_found_unless_someone_speaks_for_them() {
    let silent = || deployment("web", "app", 1, json!(0), json!({"requests": {"cpu": "1"}}));
    let granted = || quota("web", json!({"memory": "10Gi"}), json!({"memory": "0"}));
    let found = lint(vec![granted(), silent()], &[]);
    assert_eq!(
        found,
        ["critical quota-refuses-silent-pods: Deployment app web q", "warning quota-no-requests: Deployment app web"]
    );
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "web"},
        "spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}});
    assert_eq!(lint(vec![granted(), silent(), range], &[]), Vec::<String>::new());
    // A limit says what is asked for, too.
    let limited = deployment("web", "app", 1, json!(0), json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}));
    assert_eq!(lint(vec![granted(), limited], &[]), Vec::<String>::new());
}

/// What a rollout's pods ask for is what the cluster makes of their template: a limit alone is a request, and a
/// LimitRange speaks for silent ones. A Deployment makes one ReplicaSet.
#[test]
fn a_rollout_is_measured_as_it_is_admitted() {
    let stands = |resource: &str| vec![format!("critical quota-blocks-rollout: Deployment app web q {resource}")];
    let full = |hard: Value, used: Value, resources: Value| {
        let mut app = deployment("web", "app", 3, json!(1), resources);
        app["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!(0);
        vec![quota("web", hard, used), app]
    };
    let (hard, used) = (json!({"requests.cpu": "10"}), json!({"requests.cpu": "9500m"}));
    let memory = json!({"memory": "1Gi"});
    let limits = json!({"requests": memory, "limits": {"cpu": "1", "memory": "1Gi"}});
    assert_eq!(lint(full(hard.clone(), used.clone(), limits), &[]), stands("requests.cpu"));
    // By defaults; of what is stored without them, as the cluster completes it.
    let silent = json!({"requests": memory, "limits": memory});
    for limit in
        [json!({"defaultRequest": {"cpu": "1"}}), json!({"default": {"cpu": "1"}}), json!({"max": {"cpu": "1"}})]
    {
        let mut rule = limit;
        rule["type"] = "Container".into();
        let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "web"},
            "spec": {"limits": [rule]}});
        let mut items = full(hard.clone(), used.clone(), silent.clone());
        items.push(range);
        assert_eq!(lint(items, &[]), stands("requests.cpu"));
    }
    let stated = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": memory});
    for resource in ["count/pods", "count/replicasets.apps"] {
        let of = |used: u64| full(json!({resource: "5"}), json!({resource: used.to_string()}), stated.clone());
        assert_eq!(lint(of(5), &[]), stands(resource));
        assert_eq!(lint(of(4), &[]), Vec::<String>::new());
    }
}

/// The quota has room for what the LimitRange of the same output will add: two silent pods, and one that says it all.
#[test]
fn a_quota_counts_with_the_defaults_that_are_proposed() {
    let home = folder();
    let pod = |name: &str, resources: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "web"},
            "spec": {"containers": [{"name": "c", "resources": resources}]}, "status": {"phase": "Running"}})
    };
    let says = json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}});
    let pods = vec![pod("a", says), pod("b", json!({})), pod("c", json!({}))];
    let path = write(home.path(), "objects.json", list(pods));
    let flags = ["quota", "propose", &path, "--limit-range", "--headroom", "0%", "--resource", "requests.cpu", "-o"];
    let row = &plimsoll(&[&flags[..], &["json"]].concat()).json(0)["rows"][0];
    assert_eq!((&row["peak"], &row["proposed"]), (&"500m".into(), &"1500m".into()), "{row}");
    assert!(row["reason"].as_str().unwrap().starts_with("1 of containers that get defaults; "), "{row}");
    let ran = plimsoll(&[&flags[..], &["yaml"]].concat());
    let made = documents(&ran.stdout);
    assert_eq!(made[0]["spec"]["hard"]["requests.cpu"], "1500m", "{}", ran.stdout);
    assert_eq!(made[1]["spec"]["limits"][0]["defaultRequest"]["cpu"], "500m", "{}", ran.stdout);
    // Without it, what they don't say gets no quota.
    let without = plimsoll(&["quota", "propose", &path, "-o", "json"]).json(0);
    assert_eq!(without["rows"].as_array().unwrap().iter().filter(|row| row["resource"] != "pods").count(), 0);
    // A namespace in which nothing is said at all: what others ask for becomes its default, and its quota.
    let mut other = pod("d", json!({}));
    other["metadata"]["namespace"] = "shop".into();
    let says = json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}});
    let path = write(home.path(), "both.json", list(vec![pod("a", says), other]));
    let report = plimsoll(&["quota", "propose", &path, "--limit-range", "-n", "shop", "-o", "json"]).json(0);
    let rows: Vec<(&str, &str)> = report["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["resource"].as_str().unwrap(), row["proposed"].as_str().unwrap()))
        .collect();
    let expected =
        [("limits.memory", "2496Mi"), ("pods", "2"), ("requests.cpu", "600m"), ("requests.memory", "1248Mi")];
    assert_eq!(rows, expected);
}

/// One answer to whose a namespace is: what lint takes for an owner, check names.
#[test]
fn an_owner_is_who_the_namespace_names() {
    let home = folder();
    let namespace = |labels: Value, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "web", "labels": labels, "annotations": annotations}})
    };
    for (labels, annotations, owner) in [
        (json!({"team": "pay"}), json!({}), "pay"),
        (json!({"example.com/team": "pay"}), json!({}), "pay"),
        (json!({"example.com/team": "x", "team": "pay"}), json!({}), "pay"),
        (json!({"team": ""}), json!({"example.com/owner": "pay"}), "pay"),
        (json!({"plimsoll.io/owner": "pay", "owner": "x"}), json!({}), "pay"),
        (json!({"team": "pay"}), json!({"example.com/owner": "x"}), "pay"),
        (json!({"steam": "pay", "team/x": "y"}), json!({"owner": ""}), ""),
    ] {
        let items =
            vec![namespace(labels.clone(), annotations), quota("web", json!({"pods": "5"}), json!({"pods": "1"}))];
        let none = lint(items.clone(), &[]).iter().any(|found| found.contains("quota-no-owner"));
        let path = write(home.path(), "objects.json", list(items));
        let row = &plimsoll(&["quota", "check", &path, "-o", "json"]).json(0)["rows"][0];
        assert_eq!((row["owner"].as_str().unwrap(), none), (owner, owner.is_empty()), "{labels}");
    }
}

/// A controller that was not read may be a resource of anybody's own; what it made is a workload all the same.
#[test]
fn what_a_resource_of_ones_own_made_is_looked_at() {
    let owned = |kind: &str, api: &str| {
        let mut set = deployment("web", "db", 1, json!(0), json!({}));
        set["kind"] = "StatefulSet".into();
        set["metadata"]["ownerReferences"] =
            json!([{"apiVersion": api, "kind": kind, "name": "db", "uid": "u", "controller": true}]);
        set
    };
    let wanted = "warning quota-no-requests: StatefulSet db web";
    for (kind, api) in [("Postgres", "db.example.com/v1"), ("Deployment", "example.com/v1")] {
        assert!(lint(vec![owned(kind, api)], &[]).contains(&wanted.to_owned()), "{kind}");
    }
    // One that was read speaks for what it made.
    let mut set = deployment("web", "app-1", 1, json!(0), json!({}));
    set["kind"] = "ReplicaSet".into();
    set["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "app", "uid": "u", "controller": true}]);
    let app = deployment(
        "web",
        "app",
        1,
        json!(0),
        json!({"requests": {"cpu": "1", "memory": "1"}, "limits": {"memory": "1"}}),
    );
    assert!(!lint(vec![app, set], &[]).iter().any(|found| found.contains("app-1")));
}

/// What the cluster does not count and nothing here shows is not none: it is not checked, and that is said.
#[test]
fn usage_that_nobody_reports_is_not_zero() {
    let home = folder();
    let hard = json!({"pods": "10", "requests.storage": "1Gi", "count/jobs.batch": "5", "services": "2"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}});
    let path = write(home.path(), "objects.json", list(vec![quota("a", hard.clone(), json!({"services": "2"})), pod]));
    let ran = plimsoll(&["quota", "check", &path, "-o", "json"]);
    let rows = ran.json(1)["rows"].as_array().unwrap().clone();
    let row = |row: &Value| (row["resource"].as_str().unwrap().to_owned(), row["used"].as_str().map(str::to_owned));
    let of = |name: &str, used: Option<&str>| (name.to_owned(), used.map(str::to_owned));
    // The pod is here, services are counted by the cluster; jobs and claims are neither.
    let expected =
        [of("services", Some("2")), of("pods", Some("1")), of("count/jobs.batch", None), of("requests.storage", None)];
    assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), expected);
    assert!(rows[2]["used_share"].is_null() && rows[2]["used_value"].is_null() && rows[2]["level"].is_null());
    assert!(
        ran.stderr.contains("not checked: count/jobs.batch of quota a/q and 1 more: the cluster"),
        "{}",
        ran.stderr
    );
    // Nothing that stands is over while nobody counts.
    let path = write(home.path(), "objects.json", list(vec![quota("a", hard, json!({}))]));
    let ran = plimsoll(&["quota", "check", &path, "-o", "json"]);
    let rows = ran.json(0)["rows"].as_array().unwrap().clone();
    assert!(rows.len() == 4 && rows.iter().all(|row| row["used"].is_null()), "{rows:?}");
    assert!(ran.stderr.contains("of quota a/q and 3 more"), "{}", ran.stderr);
}

#[test]
fn lists_in_any_order_and_odd_quotas_are_read() {
    let place = folder();
    let pod = json!({"metadata": {"name": "a", "namespace": "web"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"}});
    let rows = |text: &str| {
        let path = write(place.path(), "pods.json", text);
        let mut rows = plimsoll(&["quota", "propose", &path, "-o", "json"]).json(0)["rows"].clone();
        rows.as_array_mut().unwrap().iter_mut().for_each(|row| row["peak_at"] = Value::Null);
        rows
    };
    let wanted = rows(&format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{pod}]}}"#));
    assert_eq!(wanted.as_array().unwrap().iter().filter(|row| row["resource"] == "pods").count(), 1, "{wanted}");
    assert_eq!(
        rows(&format!(r#"{{"items":[{pod}],"metadata":{{}},"kind":"PodList","apiVersion":"v1"}}"#)),
        wanted,
        "items first"
    );
    // A quota that says nothing yet.
    let empty = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "web"},
        "spec": {"hard": null}, "status": {"hard": null, "used": null}});
    let partly = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "r", "namespace": "web"},
        "spec": {"hard": {"pods": "4", "services": null}}, "status": null});
    let path = write(place.path(), "quotas.json", list(vec![empty, partly]));
    let report = plimsoll(&["quota", "check", &path, "-o", "json"]).json(0);
    assert_eq!(report["rows"].as_array().unwrap().len(), 1, "{report}");
    // A template is no manifest: it says so.
    let template =
        write(place.path(), "chart.yaml", "{{- if .Values.quota }}\napiVersion: v1\nkind: ResourceQuota\n{{- end }}\n");
    let ran = plimsoll(&["quota", "check", &template]);
    assert!(ran.exits(3).stderr.contains("helm template"), "{}", ran.stderr);
}

#[test]
fn decreases_need_two_weeks_and_a_flag() {
    let place = folder();
    let capture = |day: i64, used: &str| {
        let mut own =
            quota("web", json!({"pods": "100", "requests.cpu": "2"}), json!({"pods": used, "requests.cpu": "2"}));
        own["metadata"]["creationTimestamp"] = "2026-10-01T00:00:00Z".into();
        write(place.path(), &format!("objects/{}/quotas.json", 1_793_000_000 + day * 86_400), list(vec![own]));
    };
    let hard = |more: &[&str]| {
        let path = place.path().to_str().unwrap().to_owned();
        let ran = plimsoll(&[&["quota", "propose", &path, "-o", "yaml"], more].concat());
        documents(&ran.exits(0).stdout)[0]["spec"]["hard"].clone()
    };
    (0..10).for_each(|day| capture(day, "20"));
    let kept = json!({"pods": "100", "requests.cpu": "2400m"});
    assert_eq!((hard(&[]), hard(&["--allow-decrease"])), (kept.clone(), kept.clone()), "ten days");
    (10..16).for_each(|day| capture(day, "20"));
    assert_eq!(
        (hard(&[]), hard(&["--allow-decrease"])),
        (kept, json!({"pods": "24", "requests.cpu": "2400m"})),
        "sixteen days"
    );
}

#[test]
fn a_reason_is_called_what_it_is() {
    let headings = |args: &[&str]| {
        plimsoll(args)
            .exits(0)
            .stdout
            .lines()
            .find(|line| line.contains("NAMESPACE") || line.contains("USER"))
            .unwrap_or_default()
            .to_owned()
    };
    let storm = sample("list-storm");
    let of = headings(&["quota", "propose", &storm, "-o", "wide"]);
    assert!(of.contains("REASON") && !of.contains("WHY NOT"), "{of}");
    let of = headings(&["quota", "propose", &storm, "--api", "-o", "wide"]);
    assert!(of.contains("WHY NOT"), "{of}");
}

#[test]
fn lint_of_the_sample() {
    let source = sample("list-storm");
    let report = plimsoll(&["quota", "lint", &source, "--owner-key", "plimsoll.example/owner", "-o", "json"]).json(0);
    let truth = oracle(&source, "1/5");
    let of = |id: &str| -> std::collections::BTreeSet<String> {
        let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id);
        findings.map(|finding| finding["subject"]["namespace"].as_str().unwrap().to_owned()).collect()
    };
    let silent = |requests: bool| -> std::collections::BTreeSet<String> {
        let rows = truth["silent"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row[1].as_str().unwrap().starts_with("requests.") == requests);
        rows.map(|row| row[0].as_str().unwrap().to_owned())
            .filter(|namespace| !namespace.starts_with("kube-"))
            .collect()
    };
    assert_eq!(of("quota-no-requests"), silent(true));
    assert!(!silent(true).is_empty());
    // Namespaces with pods and no quota, by the objects themselves.
    let read = |kind: &str| -> Value {
        let path = format!("list-storm/objects/1795166746/{kind}.json.zst");
        serde_json::from_slice(&crate::support::sample_bytes(&path)).unwrap()
    };
    let namespaces = |list: &Value| -> std::collections::BTreeSet<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["namespace"].as_str().unwrap().to_owned())
            .collect()
    };
    let (pods, quotas) = (namespaces(&read("pods")), namespaces(&read("resourcequotas")));
    let without: std::collections::BTreeSet<String> =
        pods.difference(&quotas).filter(|name| !name.starts_with("kube-")).cloned().collect();
    assert_eq!(of("quota-none"), without);
    let unowned: std::collections::BTreeSet<String> = read("namespaces")["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["metadata"]["annotations"]["plimsoll.example/owner"].is_null())
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .filter(|name| !["kube-system", "kube-public", "kube-node-lease"].contains(&name.as_str()))
        .collect();
    assert_eq!(of("quota-no-owner"), unowned);
}

#[test]
fn projects_are_the_sum_of_their_namespaces() {
    let source = sample("list-storm");
    let alone = plimsoll(&["quota", "propose", &source, "-o", "json"]).json(0);
    let place = folder();
    let file = write(place.path(), "projects.yaml", "shop: [web, ads]\n");
    for args in [["--projects", file.as_str()], ["--project-label", "team"]] {
        let summed = plimsoll(&[&["quota", "propose", &source, "-o", "json"], &args[..]].concat()).json(0);
        let total = |report: &Value, resource: &str| -> f64 {
            report["rows"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|row| row["resource"] == resource)
                .map(|row| number(row, "proposed_value"))
                .sum()
        };
        for resource in ["pods", "requests.cpu", "requests.memory"] {
            assert!((total(&summed, resource) - total(&alone, resource)).abs() < 1e-6, "{resource}");
        }
        assert!(summed["rows"][0]["project"].is_string());
    }
    let shop = plimsoll(&["quota", "propose", &source, "--projects", &file, "-o", "json"]).json(0);
    let row = shop["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["project"] == "shop" && row["resource"] == "pods")
        .unwrap()
        .clone();
    let parts: f64 = alone["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| ["web", "ads"].iter().any(|name| row["namespace"] == *name) && row["resource"] == "pods")
        .map(|row| number(row, "proposed_value"))
        .sum();
    assert_eq!(number(&row, "proposed_value"), parts);
    let twice = write(place.path(), "twice.yaml", "a: [web]\nb: [web]\n");
    assert!(plimsoll(&["quota", "propose", &source, "--projects", &twice]).exits(2).stderr.contains("in two projects"));
}

#[test]
fn scopes_stay_and_damage_is_told() {
    let place = folder();
    let scoped = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "web"},
        "spec": {"hard": {"pods": "10"}, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass",
        "operator": "In", "values": ["high"]}]}},
        "status": {"used": {"pods": "4"}}});
    let path = write(place.path(), "objects.json", list(vec![scoped.clone()]));
    let ran = plimsoll(&["quota", "propose", &path, "-o", "yaml"]);
    ran.exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.contains("1 limit would be lower")), ("", true), "{}", ran.stderr);
    let mut full = scoped.clone();
    (full["spec"]["hard"]["services"], full["status"]["used"]["pods"]) = ("7".into(), "10".into());
    let path = write(place.path(), "objects.json", list(vec![full]));
    let spec = |more: &[&str]| {
        let ran = plimsoll(&[&["quota", "propose", &path, "-o", "yaml"], more].concat());
        documents(&ran.exits(0).stdout).first().map(|quota| quota["spec"].clone()).filter(|spec| !spec.is_null())
    };
    // Written whole: a limit that is left out would be lifted by server-side apply.
    let whole = json!({"hard": {"pods": "12", "services": "7"}, "scopeSelector": scoped["spec"]["scopeSelector"]});
    assert_eq!(spec(&[]), Some(whole.clone()));
    assert_eq!((spec(&["--resource", "pods"]), spec(&["--resource", "services"])), (Some(whole), None));
    let bad = write(
        place.path(),
        "bad.json",
        r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q","namespace":"web"},"spec":{"hard":{"pods":"ten"}}}"#,
    );
    let ran = plimsoll(&["quota", "propose", &bad]);
    assert!(
        ran.exits(3).stderr.contains("bad.json: document 1: ResourceQuota web/q: pods: 'ten' is not a quantity"),
        "{}",
        ran.stderr
    );
    let ran = plimsoll(&["quota", "propose", &sample("damage/not-audit.log")]);
    assert!(ran.exits(3).stderr.contains("no Kubernetes objects"), "{}", ran.stderr);
}

#[test]
fn api_quotas_are_what_an_independent_count_says() {
    let source = sample("list-storm");
    let logs: Vec<String> = glob::glob(&format!("{source}/audit/*/*"))
        .unwrap()
        .map(|path| path.unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/quota_api.py")).args(&logs);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let truth: Value = serde_json::from_str(&ran.stdout).unwrap();
    let report =
        plimsoll(&["quota", "propose", &source, "--api", "--clients", "100", "--server-seats", "2000", "-o", "json"])
            .json(0);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let expected = &truth[row["user"].as_str().unwrap()];
        assert_eq!(row["requests"], expected["requests"], "{row}");
        for field in ["peak_rps", "peak_seats"] {
            assert!((number(row, field) - number(expected, field)).abs() < 1e-5, "{field}: {row} {expected}");
        }
        let seats = number(row, "peak_seats") * 1.2;
        assert!(
            number(row, "proposed_seats") >= seats && number(row, "proposed_seats") < seats.max(1.0) + 1.0,
            "{row}"
        );
    }
    // No user of the log that may be limited is missing.
    let limited = |user: &&String| {
        !user.starts_with("system:")
            || user.starts_with("system:serviceaccount:") && !user.starts_with("system:serviceaccount:kube-system:")
    };
    let expected = truth.as_object().unwrap().keys().filter(limited).count();
    assert_eq!(rows.len(), expected);
}

#[test]
fn api_quotas_are_levels_with_as_many_seats() {
    let source = sample("list-storm");
    let args = ["quota", "propose", &source, "--api", "--clients", "5"];
    let report = plimsoll(&[&args[..], &["-o", "json"]].concat()).json(0);
    let ran = plimsoll(&[&args[..], &["-o", "yaml"]].concat());
    ran.exits(0);
    let manifests = documents(&ran.stdout);
    let rows: Vec<&Value> = report["rows"].as_array().unwrap().iter().filter(|row| row["shares"].is_number()).collect();
    assert_eq!(manifests.len(), 2 * rows.len());
    assert!(rows.len() >= 3);
    // The built-in levels have 245 shares; the shares of all show how many seats each has of 600.
    let shares = |manifest: &Value| manifest["spec"]["limited"]["nominalConcurrencyShares"].as_u64().unwrap();
    let built_in: u64 = 245;
    let all: u64 = built_in
        + manifests.iter().filter(|manifest| manifest["kind"] == "PriorityLevelConfiguration").map(shares).sum::<u64>();
    for (row, pair) in rows.iter().zip(manifests.chunks(2)) {
        let [level, schema] = pair else { unreachable!() };
        assert_eq!(
            (&level["metadata"]["name"], &schema["spec"]["priorityLevelConfiguration"]["name"]),
            (&row["level"], &row["level"])
        );
        assert_eq!(row["shares"].as_u64(), Some(shares(level)));
        let seats = (600 * shares(level)).div_ceil(all);
        assert!(seats >= row["proposed_seats"].as_u64().unwrap(), "{row} has {seats} seats");
        let subject = &schema["spec"]["rules"][0]["subjects"][0];
        let user = match subject["kind"].as_str().unwrap() {
            "ServiceAccount" => format!(
                "system:serviceaccount:{}:{}",
                subject["serviceAccount"]["namespace"].as_str().unwrap(),
                subject["serviceAccount"]["name"].as_str().unwrap()
            ),
            _ => subject["user"]["name"].as_str().unwrap().to_owned(),
        };
        assert_eq!(row["user"], user);
    }
    let ran = plimsoll(&["quota", "propose", &source, "--api", "--server-seats", "2"]);
    assert!(ran.exits(2).stderr.contains("half of an apiserver's seats"), "{}", ran.stderr);
}

#[test]
fn every_finding_of_quotas_is_in_the_docs() {
    let docs = std::fs::read_to_string(root().join("docs/findings.md")).unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for file in ["lint.rs", "report.rs"] {
        let text = std::fs::read_to_string(root().join("src/analysis/quota").join(file)).unwrap();
        ids.extend(
            text.split('"').filter(|part| part.starts_with("quota-") && !part.contains([' ', '/'])).map(str::to_owned),
        );
    }
    ids.remove("quota-propose");
    assert!(ids.len() >= 8, "{ids:?}");
    for id in ids {
        assert!(docs.contains(&format!("<a id=\"{id}\"></a>`{id}`")), "{id} is not in docs/findings.md");
    }
}

/// What is misspelt is no namespace in which all is well.
#[test]
fn an_unknown_namespace_or_resource_is_an_error() {
    let bundle = sample("list-storm");
    for (args, what) in [
        (vec!["check", &bundle, "-n", "batchh"], "there is batch"),
        (vec!["lint", &bundle, "-n", "batchh"], "there is batch"),
        (vec!["propose", &bundle, "-n", "batchh"], "there is batch"),
        (vec!["propose", &bundle, "--resource", "requests.cpuu"], "no quota and no usage of it"),
    ] {
        let ran = plimsoll(&[&["quota"], args.as_slice()].concat());
        assert_eq!(ran.code, Some(3), "{args:?}: {}", ran.stdout);
        assert!(ran.stderr.contains(what), "{args:?}: {}", ran.stderr);
    }
    // Twenty times is no headroom.
    plimsoll(&["quota", "propose", &bundle, "--headroom", "20"]).exits(2);
    let ran = plimsoll(&["quota", "check", &bundle, "--until", "2020-01-01"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("they are of 2026-11-20"), "{}", ran.stderr);
}
