//! `plimsoll guard policies`: what its CEL decides, by a CEL library (`tests/oracle/policies.py`), is what its replay
//! decides; and the replay of samples.

use crate::support::{feed, folder, plimsoll, python, root, sample, write};
use plimsoll::analysis::guard::policies::replay::{AdmissionRequest, Decision, FieldValue, New, Old, is_marked};
use plimsoll::analysis::guard::policies::{POLICIES, Terms, Window};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

/// With a change window there are all of them.
const WINDOW: [&str; 8] = [
    "--opens",
    "0 9 * * 1-5",
    "--closes",
    "0 16 * * 1-5",
    "--time-zone",
    "Europe/Berlin",
    "--image",
    "example.org/kubectl:1",
];

/// What a CEL library says to cases.
fn by_cel(manifests: &Value, cases: &[Value]) -> Vec<String> {
    let home = folder();
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/policies.py")).arg(write(home.path(), "list.json", manifests.to_string()));
    let ran = feed(command, json!(cases).to_string().as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Objects with and without marks, confirmations, replicas, and an end in sight.
fn objects(resource: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for labels in [
        json!(null),
        json!({"plimsoll.io/critical": "true"}),
        json!({"plimsoll.io/critical": "false"}),
        json!({"team": "web"}),
    ] {
        for annotations in [
            json!(null),
            json!({"plimsoll.io/critical": "true", "plimsoll.io/confirm-delete": "x"}),
            json!({"plimsoll.io/confirm-delete": "x", "plimsoll.io/confirm-replicas": "3",
                "plimsoll.io/node-may-delete": "true"}),
            json!({"plimsoll.io/confirm-delete": "y", "plimsoll.io/confirm-replicas": "0",
                "kubernetes.io/config.mirror": "abc"}),
        ] {
            for number in [0, 3] {
                let mut object = json!({"metadata": {"name": "x"}});
                if !labels.is_null() {
                    object["metadata"]["labels"] = labels.clone();
                }
                if !annotations.is_null() {
                    object["metadata"]["annotations"] = annotations.clone();
                }
                match resource {
                    "pods" => object["status"] = json!({"phase": if number == 0 { "Running" } else { "Failed" }}),
                    "deployments" => {
                        object["spec"] = json!({"replicas": number, "template": {"spec": {"priority": number}}})
                    }
                    "scale" if number > 0 => object["spec"] = json!({"replicas": number}),
                    "scale" => object["spec"] = json!({}),
                    _ => {}
                }
                if number == 3 && resource != "deployments" {
                    object["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
                }
                all.push(object);
            }
        }
    }
    all
}

#[test]
fn cel_and_replay_decide_alike() {
    let window =
        Window { opens: "0 9 * * 1-5".into(), closes: "0 16 * * 1-5".into(), zone: "UTC".into(), image: "x".into() };
    let terms = Terms { window: Some(window), ..Terms::default() };
    let list = plimsoll(&[&["guard", "policies", "-o", "json"][..], &WINDOW].concat()).json(0);
    let with_params =
        plimsoll(&[&["guard", "policies", "-o", "json", "--params", "ops/guard"][..], &WINDOW].concat()).json(0);
    let data =
        with_params["items"].as_array().unwrap().iter().find(|item| item["kind"] == "ConfigMap").unwrap()["data"]
            .clone();
    let callers = [
        ("eve", vec!["system:authenticated"]),
        ("system:node:n1", vec!["system:nodes"]),
        ("system:serviceaccount:kube-system:gc", vec!["system:serviceaccounts", "system:serviceaccounts:kube-system"]),
    ];
    let kinds = [
        ("", "pods", ""),
        ("", "namespaces", ""),
        ("apps", "deployments", ""),
        ("apps", "deployments", "scale"),
        ("example.org", "things", ""),
    ];
    let (mut cases, mut ours, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (user, groups) in &callers {
        for (group, resource, sub) in kinds {
            let kind = if sub.is_empty() { resource } else { sub };
            let all = objects(kind);
            for (at, old) in all.iter().enumerate() {
                for operation in ["DELETE", "UPDATE"] {
                    let object =
                        if operation == "DELETE" { Value::Null } else { all[(at * 7 + 5) % all.len()].clone() };
                    let namespace = json!({"metadata": {"name": "shop",
                        "labels": if at % 2 == 0 { json!({"plimsoll.io/critical": "true"}) } else { json!({}) }}});
                    let is_open = at % 3 == 0;
                    let mut new = New::of_update(&object, &terms);
                    if sub == "scale" {
                        new.replicas = FieldValue::Set(object["spec"]["replicas"].as_i64().unwrap_or(0));
                    }
                    let is_same = object["spec"]["template"] == old["spec"]["template"];
                    new.template = if is_same { FieldValue::Unchanged } else { FieldValue::Set(()) };
                    let asked = AdmissionRequest {
                        user: (*user).to_owned(),
                        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
                        operation,
                        group: group.to_owned(),
                        resource: resource.to_owned(),
                        subresource: sub.to_owned(),
                        new,
                    };
                    for policy in &POLICIES {
                        let in_critical = is_marked(&namespace, &terms.critical, false);
                        let decision = policy.decide(
                            &terms,
                            &asked,
                            Some(&Old::of(old, &terms)),
                            Some(in_critical),
                            Some(is_open),
                        );
                        ours.push(match decision {
                            Decision::NotAsked => "not asked",
                            Decision::Allow => "allow",
                            Decision::Deny => "deny",
                            Decision::Unknown(why) => why,
                        });
                        names.push(policy.name);
                        cases.push(json!({
                            "policy": format!("plimsoll-{}", policy.name),
                            "request": {"user": user, "groups": groups, "operation": operation, "group": group,
                            "resource": resource, "subresource": sub},
                            "object": object, "oldObject": old, "namespaceObject": namespace,
                            "params": {"data": {"open": if is_open { "true" } else { "false" }}},
                        }));
                    }
                }
            }
        }
    }
    let mut seen: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let theirs = by_cel(&list, &cases);
    for ((case, own), (cel, name)) in cases.iter().zip(&ours).zip(theirs.iter().zip(&names)) {
        assert_eq!(own, cel, "{case}");
        *seen.entry((name, own)).or_default() += 1;
    }
    // Each policy denies and allows something here.
    for policy in &POLICIES {
        for what in ["deny", "allow"] {
            assert!(
                seen.get(&(policy.name, what)).is_some_and(|count| *count >= 3),
                "{} {what}: {seen:?}",
                policy.name
            );
        }
    }
    // The same where keys and names stand in a ConfigMap.
    for case in &mut cases {
        let open = case["params"]["data"]["open"].clone();
        case["params"] = json!({"data": data});
        case["params"]["data"]["open"] = open;
    }
    assert_eq!(by_cel(&with_params, &cases), theirs);
}

#[test]
fn manifests_are_whole() {
    let list = plimsoll(&[&["guard", "policies", "-o", "json", "--audit-only"][..], &WINDOW].concat()).json(0);
    let items = list["items"].as_array().unwrap();
    let of = |kind: &str| items.iter().filter(|item| item["kind"] == kind).collect::<Vec<_>>();
    assert_eq!(
        (of("ValidatingAdmissionPolicy").len(), of("ValidatingAdmissionPolicyBinding").len(), of("CronJob").len()),
        (7, 7, 2)
    );
    assert!(
        of("ValidatingAdmissionPolicyBinding")
            .iter()
            .all(|one| one["spec"]["validationActions"] == json!(["Warn", "Audit"]))
    );
    // Without a window there is no such policy, and it can't be asked for.
    let yaml = plimsoll(&["guard", "policies"]);
    assert_eq!(
        (yaml.code, yaml.stdout.matches("\nkind: ValidatingAdmissionPolicy\n").count()),
        (Some(0), 6),
        "{}",
        yaml.stdout
    );
    assert!(yaml.stdout.contains("- Deny\n"));
    assert!(plimsoll(&["guard", "policies", "--only", "change-window"]).exits(2).stderr.contains("requires --opens"));
    assert!(
        plimsoll(&["guard", "policies", "--only", "nothing"]).exits(2).stderr.contains("use one of: critical-objects")
    );
    // What is given becomes a value of CEL and YAML, never more.
    let named =
        plimsoll(&["guard", "policies", "--exempt", "o'brien\\", "--critical", "example.org/vital", "-o", "json"])
            .json(0);
    let text = named.to_string();
    assert!(text.contains("example.org/vital") && text.contains(r"'o\\'brien\\\\'"), "{text}");
    for bad in [
        ["--critical", "a' || true || 'b"],
        ["--opens", "0 9 * * $(x)"],
        ["--opens", "61 9 * * *"],
        ["--opens", "0 25 * * *"],
        ["--params", "kube-system"],
        ["--exempt", "a b"],
    ] {
        plimsoll(&[&["guard", "policies", "--closes", "0 1 * * *", "--image", "x"], &bad[..]].concat()).exits(2);
    }
}

#[test]
fn the_storm_s_deletions_would_have_been_denied() {
    let report = plimsoll(&["guard", "policies", &sample("list-storm"), "-o", "json"]).json(0);
    let denied: Vec<(&str, &str, &str)> = report["tables"]["denied"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["policy"].as_str().unwrap(), row["resource"].as_str().unwrap(), row["name"].as_str().unwrap()))
        .collect();
    assert_eq!(
        denied,
        [
            ("roots", "namespaces", "legacy-team"),
            ("roots", "customresourcedefinitions", "jobsets.batch.example.com"),
            ("roots", "nodes", "hollow-002")
        ]
    );
    let row = |name: &str| report["rows"].as_array().unwrap().iter().find(|row| row["policy"] == name).unwrap().clone();
    // The database knows the namespace that was scaled in, which nobody marked.
    assert_eq!((&row("scale")["asked"], &row("scale")["allowed"]), (&json!(1), &json!(1)));
    // All deletions that were done are asked about, however they end.
    let all = row("critical-objects");
    let sum = ["denied", "allowed", "undecided"].iter().map(|field| all[*field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(all["asked"], json!(sum));
    // The log alone knows the objects whose creation it holds with its body; of the node, nothing is guessed.
    let alone = plimsoll(&["guard", "policies", &sample("list-storm/audit"), "-o", "json"]).json(0);
    let row = |name: &str| alone["rows"].as_array().unwrap().iter().find(|row| row["policy"] == name).unwrap().clone();
    assert_eq!((&row("roots")["undecided"], &row("roots")["denied"]), (&json!(1), &json!(2)));
    assert!(row("roots")["undecided_because"].as_str().unwrap().starts_with("object unknown"));
}

/// What the log's own writes make of an object decides about its deletion.
#[test]
fn writes_in_the_log_are_followed() {
    let home = folder();
    let event = |second: u32, verb: &str, name: &str, code: u16, bodies: [Option<Value>; 2]| {
        let at = format!("2026-11-20T09:00:{second:02}.000000Z");
        let mut event = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse",
            "auditID": format!("a-{second}"), "stage": "ResponseComplete", "verb": verb,
            "requestURI": format!("/api/v1/namespaces/{name}"), "user": {"username": "eve"},
            "sourceIPs": ["10.0.0.9"], "userAgent": "kubectl/v1.36",
            "objectRef": {"resource": "namespaces", "namespace": name, "name": name, "apiVersion": "v1"},
            "responseStatus": {"code": code}, "requestReceivedTimestamp": at, "stageTimestamp": at});
        for (field, body) in ["requestObject", "responseObject"].into_iter().zip(bodies) {
            body.into_iter().for_each(|body| event[field] = body);
        }
        event.to_string() + "\n"
    };
    let space = |name: &str, confirms: bool| {
        let annotations = if confirms { json!({"plimsoll.io/confirm-delete": name}) } else { json!({}) };
        Some(json!({"kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}))
    };
    let patch = |name: &str| Some(json!({"metadata": {"annotations": {"plimsoll.io/confirm-delete": name}}}));
    let lines = [
        // Confirmed just before, as the policy asks for.
        event(0, "create", "kept", 201, [space("kept", false), None]),
        event(1, "patch", "kept", 200, [patch("kept"), space("kept", true)]),
        event(2, "delete", "kept", 200, [None, None]),
        // Made again without, and deleted again.
        event(3, "create", "kept", 201, [space("kept", false), None]),
        event(4, "delete", "kept", 200, [None, None]),
        // The log does not hold what the patch made of it, or nothing of the object at all.
        event(5, "create", "dim", 201, [space("dim", false), None]),
        event(6, "patch", "dim", 200, [None, None]),
        event(7, "delete", "dim", 200, [None, None]),
        event(8, "delete", "dark", 200, [None, None]),
    ];
    let log = write(home.path(), "audit.log", lines.concat());
    let report = plimsoll(&["guard", "policies", &log, "--only", "roots", "-o", "json"]).json(0);
    let row = &report["rows"][0];
    assert_eq!(["allowed", "denied", "undecided"].map(|field| row[field].as_u64().unwrap()), [1, 1, 2], "{row}");
    assert_eq!(report["tables"]["denied"][0]["audit_id"], "a-4");
}
