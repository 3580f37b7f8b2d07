//! Several clusters and several captures: what is known of one is not said of another.

use crate::support::{count, folder, plimsoll, sample, write};
use serde_json::{Value, json};
use std::path::Path;

/// An event of a log.
fn event(at: &str, verb: &str, uri: &str, object: Value, more: Value) -> String {
    let mut event = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse",
        "auditID": format!("{at}{verb}{uri}"), "stage": "ResponseComplete", "requestURI": uri, "verb": verb,
        "user": {"username": "eve"}, "sourceIPs": ["10.0.0.7"], "userAgent": "kubectl/v1.36.0",
        "objectRef": object, "responseStatus": {"code": 200}, "requestReceivedTimestamp": at, "stageTimestamp": at});
    for (name, value) in more.as_object().unwrap() {
        event[name] = value.clone();
    }
    event.to_string() + "\n"
}

/// Rows, and what is said of those that are more than notes.
fn rows(source: &Path) -> (Vec<Value>, Vec<String>) {
    let report = plimsoll(&["guard", "events", source.to_str().unwrap(), "-o", "json"]).json(0);
    let summary = |finding: &Value| finding["summary"].as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter().map(summary).collect();
    (report["rows"].as_array().unwrap().clone(), findings)
}

/// Databases of two clusters show nothing that was deleted.
#[test]
fn databases_of_two_clusters_are_not_compared() {
    let (one, other) = (sample("list-storm"), sample("quiet"));
    let ran = plimsoll(&["guard", "events", &one, &other]);
    assert!(ran.exits(0).stderr.contains("are not compared with one another"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("those in"), "{}", ran.stdout);
    let home = folder();
    for (cluster, from) in [("eu", "before"), ("us", "after")] {
        let database = std::fs::read(sample(&format!("list-storm/etcd/{from}.db.zst"))).unwrap();
        write(home.path(), &format!("cluster={cluster}/etcd/{from}.db.zst"), database);
    }
    let ran = plimsoll(&["etcd", "diff", home.path().to_str().unwrap()]);
    assert!(ran.exits(3).stderr.contains("of several clusters (eu, us)"), "{}", ran.stderr);
}

/// Objects and webhooks of one cluster say nothing of requests of another.
#[test]
fn requests_of_two_clusters_are_not_judged_by_objects_of_one() {
    let (one, other) = (sample("list-storm"), sample("quiet"));
    for command in ["policies", "webhooks"] {
        let ran = plimsoll(&["guard", command, &one, &other]);
        assert!(ran.exits(2).stderr.contains("of several clusters ("), "{command}: {}", ran.stderr);
    }
}

/// What was refused is not what was done.
#[test]
fn what_was_refused_grants_and_deletes_nothing() {
    let home = folder();
    let binding = |name: &str| {
        json!({"resource": "clusterrolebindings", "name": name,
        "apiGroup": "rbac.authorization.k8s.io", "apiVersion": "v1"})
    };
    let body = |name: &str, role: &str| {
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": "bob"}]})
    };
    let create = |at: &str, name: &str, role: &str, code: u16| {
        let uri = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let more = json!({"requestObject": body(name, role), "responseStatus": {"code": code}});
        event(at, "create", uri, binding(name), more)
    };
    let log = create("2026-11-20T09:00:00.000000Z", "evil", "cluster-admin", 403)
        + &create("2026-11-20T09:00:01.000000Z", "fine", "view", 201);
    write(home.path(), "audit.log", log);
    let (found, findings) = rows(home.path());
    assert_eq!((found.len(), findings.len(), &found[0]["severity"]), (1, 0, &json!("info")), "{findings:?}");
    assert_eq!((&found[0]["names"], &found[0]["details"]), (&json!(["fine"]), &json!(["view to bob"])));
    // All of the cluster is more than a namespace, whichever came first.
    let delete = |at: &str, namespace: &str, code: u16| {
        let uri = if namespace.is_empty() { "/api/v1/secrets" } else { "/api/v1/namespaces/x/secrets" };
        let object = json!({"resource": "secrets", "namespace": namespace, "apiVersion": "v1"});
        event(at, "deletecollection", uri, object, json!({"responseStatus": {"code": code}}))
    };
    let (first, then) = ("2026-11-20T09:00:00.000000Z", "2026-11-20T09:00:04.000000Z");
    for (log, severity, place) in [
        (delete(first, "x", 200) + &delete(then, "", 200), "critical", "in all namespaces"),
        (delete(first, "", 403) + &delete(then, "x", 200), "warning", "in x"),
    ] {
        let home = folder();
        write(home.path(), "audit.log", log);
        let (found, findings) = rows(home.path());
        let row = found.iter().find(|row| row["kind"] == "delete-collection").unwrap();
        assert_eq!(row["severity"], severity, "{row}");
        assert!(findings[0].contains(place), "{findings:?}");
    }
}

/// Objects that were mended since break nothing; owners are those of the cluster.
#[test]
fn an_upgrade_breaks_what_is_there_last() {
    let cron = |version: &str, name: &str| {
        json!({"apiVersion": version, "kind": "CronJob", "metadata": {"name": name, "namespace": "shop",
            "managedFields": [{"manager": "helm", "apiVersion": version}]}, "spec": {}})
    };
    let home = folder();
    let list = |items: &[Value]| json!({"kind": "List", "apiVersion": "v1", "items": items}).to_string();
    let old = [cron("batch/v1beta1", "mended"), cron("batch/v1beta1", "deleted")];
    write(home.path(), "1793491200/cronjobs.json", list(&old));
    write(home.path(), "1795132800/cronjobs.json", list(&[cron("batch/v1", "mended")]));
    let check = |source: &Path| {
        let source = source.to_str().unwrap();
        plimsoll(&["upgrade", source, "--to", "1.37", "--fail-on", "warning", "-o", "json"])
    };
    assert_eq!(count(&check(&home.path().join("1793491200")).json(1)["totals"], "old_objects"), 2);
    assert_eq!(count(&check(home.path()).json(0)["totals"], "old_objects"), 0);
    // Manifests of several folders are all there at once.
    let home = folder();
    write(home.path(), "prod/a.yaml", cron("batch/v1beta1", "a").to_string());
    write(home.path(), "staging/b.yaml", cron("batch/v1beta1", "b").to_string());
    assert_eq!(count(&check(home.path()).json(1)["totals"], "old_objects"), 2);
}

/// A quota that an earlier proposal made is written whole: what is left out would be lifted.
#[test]
fn a_second_proposal_keeps_what_the_first_one_set() {
    let home = folder();
    let quota = json!({"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "plimsoll", "namespace": "a"},
        "spec": {"hard": {"pods": "10", "requests.cpu": "4"}},
        "status": {"hard": {"pods": "10", "requests.cpu": "4"}, "used": {"pods": "2", "requests.cpu": "2"}}});
    let pod = |name: &str| {
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "a"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}]},
        "status": {"phase": "Running"}})
    };
    let all = [quota, pod("p"), pod("q")];
    write(home.path(), "objects.json", json!({"kind": "List", "apiVersion": "v1", "items": all}).to_string());
    let ran = plimsoll(&["quota", "propose", home.path().to_str().unwrap(), "-o", "yaml"]);
    use serde::Deserialize;
    let documents: Vec<Value> = serde_yaml_ng::Deserializer::from_str(&ran.exits(0).stdout)
        .map(|document| Value::deserialize(document).unwrap())
        .filter(|document| document["kind"] == "ResourceQuota")
        .collect();
    let [only] = documents.as_slice() else { panic!("{}", ran.stdout) };
    let hard = only["spec"]["hard"].as_object().unwrap();
    assert!(["pods", "requests.cpu", "limits.memory"].iter().all(|own| hard.contains_key(*own)), "{only}");
}

/// The share of a minute is that of the same minute.
#[test]
fn a_surge_is_a_share_of_its_own_minute() {
    let home = folder();
    let mut log = String::new();
    let mut put = |second: u32, user: &str, times: u32| {
        for n in 0..times {
            let at = format!("2026-11-20T09:{:02}:{:02}.{n:06}Z", second / 60, second % 60);
            let (agent, id) = (format!("{user}/1"), format!("{second}{user}{n}"));
            let more = json!({"user": {"username": user}, "userAgent": agent, "auditID": id});
            let object = json!({"resource": "pods", "name": "p", "namespace": "a", "apiVersion": "v1"});
            log += &event(&at, "get", "/api/v1/namespaces/a/pods/p", object, more);
        }
    };
    // All others ask at the first second of each minute, but for one that surges half a minute later.
    for minute in 0..12 {
        put(minute * 60, "steady", 2_000);
        put(minute * 60 + 30, "late", if minute == 9 { 80 } else { 1 });
    }
    write(home.path(), "audit.log", log);
    let report = plimsoll(&["clients", home.path().to_str().unwrap(), "-o", "json"]).json(0);
    let surges = report["findings"].as_array().unwrap().iter().filter(|own| own["id"] == "client-surge");
    assert_eq!(surges.count(), 0, "80 of 2,080 are 4 %");
}
