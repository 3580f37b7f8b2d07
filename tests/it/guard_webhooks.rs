//! What `plimsoll guard webhooks` says: requests counted by `tests/oracle/webhooks.py`, findings as
//! samples/webhooks/README.md has them.

use crate::member::Member;
use crate::metrics::unpacked;
use crate::support::{feed, folder, plimsoll, python, root, sample, write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn webhooks(args: &[&str]) -> Value {
    plimsoll(&[&["guard", "webhooks"], args, &["-o", "json", "--top", "0"]].concat()).json(0)
}

fn row<'r>(report: &'r Value, name: &str) -> &'r Value {
    report["rows"].as_array().unwrap().iter().find(|row| row["webhook"].as_str().unwrap().starts_with(name)).unwrap()
}

fn logs(of: &str) -> Vec<String> {
    let mut found = Vec::new();
    for instance in std::fs::read_dir(sample(&format!("{of}/audit"))).unwrap() {
        let files = std::fs::read_dir(instance.unwrap().path()).unwrap();
        found.extend(files.map(|file| file.unwrap().path().to_str().unwrap().to_owned()));
    }
    found
}

fn oracle(hooks: &str, namespaces: &str, logs: &[String]) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/webhooks.py")).args([hooks, namespaces]).args(logs);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Compares what each webhook is asked about.
fn compare(report: &Value, theirs: &Value) {
    assert_eq!(report["totals"]["writes"], theirs["writes"]);
    let mut met = 0;
    for (name, theirs) in theirs["webhooks"].as_object().unwrap() {
        let mine = row(report, name);
        for field in ["certain", "perhaps", "control_plane"] {
            assert_eq!(mine[field], theirs[field], "{field} of {name}");
            met += theirs[field].as_u64().unwrap();
        }
        let listed: BTreeMap<String, &Value> = mine["clients"]
            .as_array()
            .unwrap()
            .iter()
            .map(|client| {
                (
                    format!("{}|{}", client["user"].as_str().unwrap(), client["agent"].as_str().unwrap()),
                    &client["requests"],
                )
            })
            .collect();
        let all = theirs["clients"].as_object().unwrap();
        assert_eq!(listed.len(), all.len().min(10), "{name}");
        assert!(listed.iter().all(|(client, requests)| all[client] == **requests), "{name}: {listed:?} {all:?}");
    }
    assert!(met > 1000, "{met}");
}

#[test]
fn requests_are_those_of_an_independent_count() {
    let hooks = sample("webhooks/hooks.yaml");
    let scratch = folder();
    let namespaces = unpacked(Path::new(&sample("list-storm/objects/1795166396/namespaces.json.zst")));
    let namespaces = write(scratch.path(), "namespaces.json", &namespaces);
    let audit = sample("list-storm/audit");
    compare(&webhooks(&[&hooks, &namespaces, &audit]), &oracle(&hooks, &namespaces, &logs("list-storm")));
    // Without the labels of namespaces less is certain.
    compare(&webhooks(&[&hooks, &audit]), &oracle(&hooks, "-", &logs("list-storm")));
    let window = webhooks(&[&hooks, &audit, "--since", "2030-01-01"]);
    assert_eq!(window["totals"]["writes"], 0);
}

/// Findings: webhook (up to the first dot) and id.
fn found(report: &Value) -> BTreeSet<(String, String)> {
    let of = |finding: &Value| {
        let name = finding["subject"]["webhook"].as_str().unwrap().split('.').next().unwrap().to_owned();
        (name, finding["id"].as_str().unwrap().to_owned())
    };
    report["findings"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn what_is_wrong_is_said_and_nothing_else() {
    let own = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, id)| ((*name).to_owned(), (*id).to_owned())).collect::<BTreeSet<_>>()
    };
    let by_configuration = [
        ("inject", "webhook-blocks-itself"),
        ("validate", "webhook-blocks-control-plane"),
        ("validate", "webhook-blocks-itself"),
        ("validate", "webhook-long-timeout"),
        ("validate", "webhook-wide"),
    ];
    let report = webhooks(&[&sample("webhooks/hooks.yaml")]);
    assert_eq!(found(&report), own(&by_configuration));
    let unsure = report["findings"].as_array().unwrap().iter().find(|finding| finding["confidence"] == 0.5).unwrap();
    assert_eq!(unsure["subject"]["webhook"], "inject.mesh.example.com");
    assert_eq!(row(&report, "validate")["stops"].as_array().unwrap().len(), 6);
    assert_eq!(row(&report, "images")["stops"], json!([]));
    // With metrics.
    let report = webhooks(&[&sample("webhooks")]);
    let more = [("validate", "webhook-failing"), ("validate", "webhook-slow"), ("images", "webhook-failing-open")];
    assert_eq!(found(&report), own(&[by_configuration.as_slice(), &more].concat()));
    // README.md: of 600 calls 590 within 2.5 s, all within 10 s. The 594th lies four tenths of the way.
    let validate = row(&report, "validate");
    assert_eq!(
        [
            &validate["calls_per_s"],
            &validate["p99_ms"],
            &validate["refused"],
            &validate["failed"],
            &row(&report, "images")["failed_open"]
        ],
        [&json!(10.0), &json!(5500.0), &json!(7), &json!(3), &json!(4)]
    );
    plimsoll(&["guard", "webhooks", &sample("webhooks"), "--fail-on", "critical"]).exits(1);
    let table = plimsoll(&["guard", "webhooks", &sample("webhooks")]).stdout;
    assert!(table.contains("any everything") && table.contains("No audit log"), "{table}");
}

/// What a finding advises must be able to help.
#[test]
fn advice_looks_at_the_configuration_at_hand() {
    let scratch = folder();
    let hooks = |policy: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "slow"}, "webhooks": [{
            "name": "slow.example.com", "failurePolicy": policy, "timeoutSeconds": 5, "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://x"}, "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["deployments"]}]}]})
        .to_string()
    };
    // All of 200 calls took more than 2.5 s: between that and 10 s nobody knows, but none took longer than the timeout.
    let metric = "apiserver_admission_webhook_admission_duration_seconds";
    let labels = r#"name="slow.example.com",operation="CREATE",rejected="false",type="validating""#;
    let page = |calls: u64| {
        format!(
            "# TYPE {metric} histogram\n{metric}_bucket{{{labels},le=\"2.5\"}} \
             0\n{metric}_bucket{{{labels},le=\"10\"}} {calls}\n{metric}_bucket{{{labels},le=\"+Inf\"}} {calls}\n\
             {metric}_sum{{{labels}}} {}\n{metric}_count{{{labels}}} {calls}\n",
            calls * 4
        )
    };
    for (second, calls) in [(1_795_166_276, 0), (1_795_166_336, 200)] {
        write(scratch.path(), &format!("metrics/a/{second}.txt"), page(calls));
    }
    let metrics = scratch.path().join("metrics").to_str().unwrap().to_owned();
    for (policy, says) in [("Ignore", "admitted unchecked"), ("Fail", "fails")] {
        let report = webhooks(&[&write(scratch.path(), "hooks.json", hooks(policy)), &metrics]);
        let slow =
            report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "webhook-slow").unwrap();
        let remedy = slow["remedy"].as_str().unwrap();
        assert!(!remedy.contains("failurePolicy"), "{remedy}");
        assert!(
            slow["summary"].as_str().unwrap().contains(says) && slow["summary"].as_str().unwrap().contains("5 s"),
            "{slow}"
        );
        assert!(slow["evidence"]["p99_ms"].as_f64().unwrap() <= 5_000.0, "{slow}");
    }
    // A call that failed although its policy is Ignore: becoming Ignore can't help.
    let event = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "1",
        "stage": "ResponseComplete",
        "requestURI": "/apis/apps/v1/namespaces/web/deployments", "verb": "create", "user": {"username": "u"},
        "sourceIPs": ["10.0.0.1"], "userAgent": "k/v1",
        "objectRef": {"resource": "deployments", "namespace": "web", "apiGroup": "apps", "apiVersion": "v1"},
        "responseStatus": {"message": "Internal error occurred: failed calling webhook \"slow.example.com\": \
         no", "code": 500},
        "requestReceivedTimestamp": "2026-11-20T09:00:00.000000Z", "stageTimestamp": "2026-11-20T09:00:01.000000Z"});
    let log = write(scratch.path(), "audit.log", format!("{event}\n"));
    let report = webhooks(&[&write(scratch.path(), "hooks.json", hooks("Ignore")), &log]);
    let failing =
        report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "webhook-failing").unwrap();
    assert_eq!(failing["severity"], "warning", "{failing}");
    assert!(!failing["remedy"].as_str().unwrap().contains("Ignore"), "{failing}");
}

#[test]
fn calls_that_failed_are_counted_by_their_message() {
    let scratch = folder();
    let event = |n: usize, message: &str| {
        json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": format!("{n}"),
            "stage": "ResponseComplete",
            "requestURI": "/api/v1/namespaces/web/pods", "verb": "create", "user": {"username": "u"},
            "sourceIPs": ["10.0.0.1"], "userAgent": "k/v1",
            "objectRef": {"resource": "pods", "namespace": "web", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "status": "Failure", "message": message, "code": 500},
            "requestReceivedTimestamp": "2026-11-20T09:00:00.000000Z", "stageTimestamp": "2026-11-20T09:00:01.000000Z"})
        .to_string()
    };
    let says = |name: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"{name}\": failed to call webhook: Post \"https://x\": \
             context deadline exceeded"
        )
    };
    let lines: Vec<String> = (0..5)
        .map(|n| event(n, &says("validate.policy-engine.example.com")))
        .chain([event(9, &says("other")), event(10, "no")])
        .collect();
    let log = write(scratch.path(), "audit.log", lines.join("\n") + "\n");
    let report = webhooks(&[&sample("webhooks/hooks.yaml"), &log]);
    assert_eq!(row(&report, "validate")["failed"], 5);
    assert_eq!(row(&report, "images")["failed"], 0);
    assert!(found(&report).contains(&("validate".to_owned(), "webhook-failing".to_owned())));
    // What failed changed nothing.
    assert_eq!(report["totals"]["writes"], 0);
}

/// cert-manager has a validating webhook and a mutating one of the same name.
#[test]
fn webhooks_of_one_name_are_kept_apart_by_what_they_do() {
    let scratch = folder();
    let hook = |kind: &str, policy: &str| {
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: {kind}WebhookConfiguration\nmetadata: {{name: c}}\n\
             webhooks:\n- name: same.example.com\n  failurePolicy: {policy}\n  sideEffects: None\n  \
             admissionReviewVersions: [v1]\n  clientConfig: {{service: {{namespace: c, name: c}}}}\n  rules:\n  - \
             {{operations: ['*'], apiGroups: ['example.com'], apiVersions: ['*'], resources: ['*']}}\n"
        )
    };
    let hooks = [hook("Validating", "Fail"), hook("Mutating", "Ignore")].join("---\n");
    write(scratch.path(), "hooks.yaml", hooks);
    for (second, times) in [(0, 1), (60, 2)] {
        let mut page = "process_start_time_seconds 1772000000\n".to_owned();
        for (kind, calls, from) in [("validating", 100 * times, 0.005), ("admit", 50 * times, 0.1)] {
            let labels = format!("name=\"same.example.com\",operation=\"CREATE\",rejected=\"false\",type=\"{kind}\"");
            let metric = "apiserver_admission_webhook_admission_duration_seconds";
            for bound in ["0.005", "0.025", "0.1", "0.5", "+Inf"] {
                let is_below = bound.parse::<f64>().is_ok_and(|bound| bound <= from);
                let count = if is_below { 0 } else { calls };
                page += &format!("{metric}_bucket{{{labels},le=\"{bound}\"}} {count}\n");
            }
            page += &format!("{metric}_count{{{labels}}} {calls}\n");
        }
        let rejected = |error: &str, kind: &str, count: u32| {
            format!(
                "apiserver_admission_webhook_rejection_count{{error_type=\"{error}\",name=\"same.example.com\",\
                 operation=\"CREATE\",rejection_code=\"500\",type=\"{kind}\"}} {count}\n"
            )
        };
        page += &rejected("calling_webhook_error", "validating", 3 * times);
        page += &rejected("no_error", "admit", 7 * times);
        page += &format!(
            "apiserver_admission_webhook_fail_open_count{{name=\"same.example.com\",type=\"admit\"}} {}\n",
            4 * times
        );
        write(scratch.path(), &format!("metrics/apiserver-0/{}.txt", 1_772_445_600 + second), page);
    }
    let report = webhooks(&[scratch.path().to_str().unwrap()]);
    let of = |kind: &str| {
        let rows = report["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["type"] == kind).unwrap();
        ["refused", "failed", "failed_open"].map(|field| row[field].as_u64().unwrap())
    };
    assert_eq!((of("validating"), of("mutating")), ([0, 3, 0], [7, 0, 4]));
    let p50 = |kind: &str| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().find(|row| row["type"] == kind).unwrap()["p50_ms"].as_f64().unwrap()
    };
    assert!(p50("validating") < 25.0 && p50("mutating") > 100.0, "{} {}", p50("validating"), p50("mutating"));
}

/// The same configurations out of a database of a real etcd.
#[test]
fn a_database_holds_the_same_configurations() {
    let scratch = folder();
    let yaml = std::fs::read_to_string(sample("webhooks/hooks.yaml")).unwrap();
    let list: Value = serde_yaml_ng::from_str(&yaml).unwrap();
    let member = Member::plain(&scratch.path().join("data"));
    for item in list["items"].as_array().unwrap() {
        let kind = item["kind"].as_str().unwrap().to_lowercase() + "s";
        let key = format!("/registry/{kind}/{}", item["metadata"]["name"].as_str().unwrap());
        member.run(&["put", &key, &item.to_string()]);
    }
    member.run(&[
        "put",
        "/registry/namespaces/mesh",
        r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"mesh","labels":{"team":"web"}}}"#,
    ]);
    let db = scratch.path().join("snapshot.db");
    member.run(&["snapshot", "save", db.to_str().unwrap()]);
    let report = webhooks(&[db.to_str().unwrap()]);
    let plain = webhooks(&[&sample("webhooks/hooks.yaml")]);
    assert_eq!(report["rows"].as_array().unwrap().len(), plain["rows"].as_array().unwrap().len());
    for name in ["validate", "images", "inject", "configmaps", "quotas", "nodes"] {
        for field in [
            "configuration",
            "type",
            "failure_policy",
            "timeout_s",
            "backend",
            "rules",
            "namespaces",
            "objects",
            "conditions",
        ] {
            assert_eq!(row(&report, name)[field], row(&plain, name)[field], "{field} of {name}");
        }
    }
    // Now the namespace's labels are known; only the pods' own may still keep it out.
    let inject = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["subject"]["webhook"] == "inject.mesh.example.com")
        .unwrap();
    assert_eq!(inject["id"], "webhook-blocks-itself");
}

#[test]
fn where_there_are_none_it_is_said_how_to_get_them() {
    let ran = plimsoll(&["guard", "webhooks", &sample("quiet/audit")]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("kubectl get validatingwebhookconfigurations"), "{}", ran.stderr);
    let gone = plimsoll(&["guard", "webhooks", &sample("webhooks/hooks.yaml"), "no-such-file"]);
    assert_eq!(gone.code, Some(3), "{}", gone.stderr);
}
