//! `plimsoll clients --emit flowschema|fence`: manifests as the API's types take them, and the replay beside an
//! independent one.

use crate::flow::{SAMPLES, logs};
use crate::support::{Ran, count, feed, folder, number, plimsoll, python, root, run, sample, sample_bytes, write};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const BOT: &str = "system:serviceaccount:platform:legacy-sync";

fn emit(args: &[&str]) -> Ran {
    plimsoll(&[&["clients"], args].concat())
}

fn report(args: &[&str]) -> Value {
    emit(&[args, &["-o", "json"]].concat()).json(0)
}

/// The documents of a YAML text.
fn documents(text: &str) -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
}

/// Parses an object as Kubernetes' own type and writes it again: what the type does not know would be missing.
#[cfg(feature = "live")]
fn strict(object: &Value) {
    use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
    let again = match object["kind"].as_str().unwrap() {
        "FlowSchema" => serde_json::to_value(FlowSchema::deserialize(object).unwrap()),
        "PriorityLevelConfiguration" => serde_json::to_value(PriorityLevelConfiguration::deserialize(object).unwrap()),
        other => panic!("{other}"),
    };
    assert_eq!(again.unwrap(), *object);
}

#[cfg(not(feature = "live"))]
fn strict(_: &Value) {}

#[test]
fn manifests_are_what_the_api_takes() {
    for (name, ..) in &SAMPLES[..2] {
        let yaml = emit(&[&sample(name), "--emit", "flowschema"]).exits(0).stdout.clone();
        let objects = documents(&yaml);
        let json = report(&[&sample(name), "--emit", "flowschema"]);
        assert_eq!(json["schema"], "plimsoll.clients.flowschema/v1");
        assert_eq!(json["tables"]["manifests"].as_array().unwrap(), &objects, "YAML and JSON differ");
        objects.iter().for_each(strict);
        let [level, schemas @ ..] = objects.as_slice() else { panic!("no objects") };
        assert_eq!(level["kind"], "PriorityLevelConfiguration");
        assert!(schemas.len() >= 9, "{yaml}");
        let mut names: Vec<&str> = schemas.iter().map(|schema| schema["metadata"]["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), schemas.len());
        for schema in schemas {
            let spec = &schema["spec"];
            assert_eq!(spec["priorityLevelConfiguration"]["name"], level["metadata"]["name"]);
            let precedence = spec["matchingPrecedence"].as_i64().unwrap();
            // Before service-accounts and global-default, behind all that is the control plane's.
            assert!((901..9900).contains(&precedence), "{precedence}");
            let subject = &spec["rules"][0]["subjects"][0];
            let account = (&subject["serviceAccount"]["namespace"], &subject["serviceAccount"]["name"]);
            assert!(account.0 != "kube-system" && account.1 != "*" && subject["user"]["name"] != "*", "{subject}");
        }
        // Everyone with a warning is there, or it is said why not.
        let profiles = plimsoll(&["clients", &sample(name), "-o", "json"]).json(0);
        let found = profiles["findings"].as_array().unwrap().iter().filter(|finding| finding["severity"] != "info");
        for user in found.filter_map(|finding| finding["subject"]["user"].as_str()) {
            assert!(
                yaml.contains(&format!("# {user}: client-")) || yaml.contains(&format!("# Not fenced: {user}")),
                "{user} is missing"
            );
        }
    }
}

/// What the independent replay makes of a sample, by FlowSchema.
fn theirs(name: &str, cluster: &str, at: &str, seats: &str, fence: Option<&Value>) -> BTreeMap<String, Value> {
    let home = folder();
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/flow_replay.py")).args(["--seats", seats, "--objects"]);
    command.args(
        ["flowschemas", "prioritylevelconfigurations"]
            .map(|kind| sample(&format!("{name}/objects/{at}/{kind}.json.zst"))),
    );
    if let Some(fence) = fence {
        command.args(["--fence", &write(home.path(), "fence.json", fence.to_string())]);
    }
    command.arg("--logs").args(logs(name, cluster));
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn the_replay_is_that_of_an_independent_one() {
    // Few seats, so that there is something to queue and refuse. In overload-restart requests were refused, whose
    // duration is a median: exact there, and of a histogram's buckets here.
    for (name, seats, within) in [("list-storm", "3", 0.0), ("list-storm", "10", 0.0), ("overload-restart", "6", 0.01)]
    {
        let (_, cluster, at) = SAMPLES.iter().find(|sample| sample.0 == name).unwrap();
        let ours = report(&[&sample(name), "--emit", "flowschema", "--server-seats", seats]);
        let rows = ours["rows"].as_array().unwrap();
        let mut refused = [0, 0];
        for (way, fence, fields) in [
            (0, None, ["requests", "queued_now", "rejected_now", "max_wait_now_ms"]),
            (1, Some(&ours["tables"]["manifests"]), ["requests_with_fence", "queued", "rejected", "max_wait_ms"]),
        ] {
            let theirs = theirs(name, cluster, at, seats, fence);
            let met: Vec<&Value> = rows.iter().filter(|row| count(row, fields[0]) > 0).collect();
            assert_eq!(met.len(), theirs.len(), "{name} {seats}");
            for row in met {
                let schema = row["flow_schema"].as_str().unwrap();
                for (field, there) in fields.iter().zip(["requests", "queued", "rejected", "max_wait_ms"]) {
                    let (a, b) = (number(row, field), number(&theirs[schema], there));
                    assert!((a - b).abs() <= within * b + 1e-6, "{name} {seats} {schema}: {field} is {a}, not {b}");
                }
                refused[way] += count(row, fields[2]);
            }
        }
        assert!(refused[1] > 100, "{name} with {seats} seats tells nothing: {refused:?}");
    }
}

#[test]
fn neither_threads_nor_packing_change_anything() {
    let one = report(&[&sample("overload-restart"), "--emit", "flowschema", "--threads", "1"]);
    let four = report(&[&sample("overload-restart"), "--emit", "flowschema", "--threads", "4"]);
    assert_eq!(one, four);
    let home = folder();
    for file in ["audit-2026-11-20T09-37-56.438.log", "audit-2026-11-20T09-40-27.680.log", "audit.log"] {
        write(home.path(), file, sample_bytes(&format!("overload-restart/audit/apiserver-0/{file}.zst")));
    }
    let objects = sample("overload-restart/objects");
    let plain = report(&[
        home.path().to_str().unwrap(),
        "--emit",
        "flowschema",
        "--flow-schemas",
        &objects,
        "--server-seats",
        "6",
    ]);
    assert_eq!(plain["rows"], one["rows"]);
}

#[test]
fn seats_are_those_of_the_metrics() {
    for (name, server, fence) in [("list-storm", 600, 12), ("overload-restart", 6, 1)] {
        let totals = &report(&[&sample(name), "--emit", "flowschema"])["totals"];
        assert_eq!((count(totals, "server_seats"), count(totals, "fence_seats")), (server, fence), "{name}");
    }
    let report = report(&[&sample("list-storm/audit"), "--emit", "flowschema", "--client", BOT, "--shares", "245"]);
    // 600 by default, half of it.
    assert_eq!((count(&report["totals"], "server_seats"), count(&report["totals"], "fence_seats")), (600, 300));
    assert!(report["coverage"]["server_seats"].as_str().unwrap().contains("default"));
    // All that the log shows to be refused is distinguished from what the replay refuses.
    assert_eq!(count(&report["totals"], "throttled"), 0);
}

#[test]
fn a_client_is_fenced_at_once_and_let_in_step_by_step() {
    let storm = sample("list-storm");
    let args = [&storm, "--emit", "fence", "--client", BOT, "--ramp", "3"].map(AsRef::as_ref);
    let yaml = emit(&args).exits(0).stdout.clone();
    let objects = documents(&yaml);
    objects.iter().for_each(strict);
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    // Whoever applies all of it gets the fence: the steps are commands.
    assert_eq!(kinds, ["PriorityLevelConfiguration", "FlowSchema"]);
    let limited = &objects[0]["spec"]["limited"];
    assert_eq!(
        (&limited["nominalConcurrencyShares"], &limited["limitResponse"]["type"]),
        (&1.into(), &"Reject".into())
    );
    let delete = "kubectl delete flowschema plimsoll-fence-platform-legacy-sync-b97faeb0";
    assert!(yaml.matches(delete).count() == 2, "{yaml}");
    let json = report(&args);
    let steps = json["tables"]["steps"].as_array().unwrap();
    // ⌈600 × shares ÷ (245 + shares)⌉
    let shares: Vec<_> = steps.iter().map(|step| (count(step, "shares"), count(step, "seats"))).collect();
    assert_eq!(shares, [(2, 5), (4, 10), (8, 19)]);
    for step in steps {
        assert!(yaml.contains(step["command"].as_str().unwrap()), "{yaml}");
    }
    // No share at all has to be asked for; it is possible from 1.29 on.
    let none = emit(&[&args[..], &["--shares", "0"]].concat());
    assert_eq!(documents(&none.exits(0).stdout)[0]["spec"]["limited"]["nominalConcurrencyShares"], 0);
    assert!(none.stdout.contains("serves one request at a time"), "{}", none.stdout);
    let old = emit(&[&args[..], &["--shares", "0", "--k8s-version", "v1.28"]].concat());
    assert!(old.exits(2).stderr.contains("before Kubernetes 1.29"), "{}", old.stderr);
}

/// People name a client as they see it: in a table, in a finding, in `kubectl get sa`.
#[test]
fn a_client_may_be_named_as_people_know_it() {
    let storm = sample("list-storm");
    let fence =
        |client: &str, more: &[&str]| emit(&[&[storm.as_str(), "--emit", "fence", "--client", client], more].concat());
    let wanted = fence(BOT, &[]).exits(0).stdout.clone();
    assert!(wanted.contains("name: legacy-sync"), "{wanted}");
    for client in ["platform:legacy-sync", "platform/legacy-sync", "Go-http-client (platform:legacy-sync)"] {
        assert_eq!(fence(client, &[]).exits(0).stdout, wanted, "{client}");
    }
    // An agent, where one user runs it.
    let by_user = fence("system:serviceaccount:batch:event-spammer", &[]).exits(0).stdout.clone();
    assert_eq!(fence("event-spammer", &[]).exits(0).stdout, by_user);
    let several = fence("config-writer", &[]);
    assert!(
        several.exits(2).stderr.contains("several users; name one of them") && several.stdout.is_empty(),
        "{}",
        several.stderr
    );
    for (client, near) in [("platform:legacy-sink", "platform:legacy-sync"), ("event-spamer", "event-spammer")] {
        let ran = fence(client, &[]);
        assert!(ran.exits(2).stderr.contains(near) && ran.stdout.is_empty(), "{client}: {}", ran.stderr);
    }
    for client in ["", "*", "{}", "nobody-at-all-is-called-like-that"] {
        assert!(fence(client, &[]).exits(2).stdout.is_empty(), "{client}");
    }
}

/// What nodes and pods depend on runs as ordinary accounts too: no fence unless it is asked for twice.
#[test]
fn parts_of_the_cluster_are_fenced_only_by_force() {
    let home = folder();
    let mut log = String::new();
    let users = [
        ("system:serviceaccount:calico-system:calico-node", "calico-node/v3.29"),
        ("system:serviceaccount:storage:ebs-csi-node-sa", "aws-ebs-csi-driver/v1"),
        ("eks:cloud-controller-manager", "aws-cloud-controller-manager/v1"),
        ("ci-bot", "ci/v1"),
    ];
    for (user, agent) in users {
        for at in 0..5 {
            let event = serde_json::json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
                "auditID": format!("{user}{at}"), "stage": "ResponseComplete",
                "requestURI": "/api/v1/pods", "verb": "list", "user": {"username": user,
                "groups": ["system:authenticated"]}, "userAgent": agent,
                "sourceIPs": ["10.0.0.1"], "objectRef": {"resource": "pods"}, "responseStatus": {"code": 200},
                "requestReceivedTimestamp": "2026-11-20T09:00:00.000000Z",
                "stageTimestamp": format!("2026-11-20T09:00:0{at}.000000Z")});
            log += &format!("{event}\n");
        }
    }
    let path = write(home.path(), "audit.log", log);
    for (user, _) in users {
        let args = [path.as_str(), "--emit", "fence", "--client", user];
        let (plain, forced) = (emit(&args), emit(&[&args[..], &["--force"]].concat()));
        forced.exits(0);
        if user == "ci-bot" {
            assert_eq!(plain.exits(0).stdout, forced.stdout);
        } else {
            assert!(
                plain.exits(2).stderr.contains("--force overrides this") && plain.stdout.is_empty(),
                "{}",
                plain.stderr
            );
        }
    }
}

#[test]
fn what_must_not_or_can_not_be_fenced() {
    let storm = sample("list-storm");
    for (args, message) in [
        (&["--emit", "fence"][..], "give --client USER"),
        (&["--emit", "flowschema", "--client", "system:kube-scheduler"], "part of the control plane"),
        (&["--emit", "flowschema", "--client", "system:node:hollow-001"], "nodes report their heartbeats through it"),
        (&["--emit", "flowschema", "--client", "system:serviceaccount:kube-system:x"], "part of the control plane"),
        (&["--emit", "flowschema", "--client", "nobody"], "no request in the logs comes from a user"),
        (&["--emit", "flowschema", "--ramp", "2"], "--ramp requires --emit fence"),
        (&["--client", "jane"], "--emit"),
    ] {
        let ran = emit(&[&[storm.as_str()], args].concat());
        assert!(ran.exits(2).stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
    let ran = run(&["clients", "-", "--emit", "flowschema"], &[], b"");
    assert!(ran.exits(2).stderr.contains("reads the logs several times"), "{}", ran.stderr);
    // Nothing is wrong: nothing is printed.
    let quiet = emit(&[&sample("quiet"), "--emit", "flowschema", "--since", "2026-11-20T09:42:07Z"]);
    assert!(quiet.exits(0).stdout.is_empty() && quiet.stderr.contains("no client to throttle"), "{}", quiet.stderr);
    // Several clusters have several sets of levels.
    let ran = emit(&[&storm, &sample("quiet"), "--emit", "flowschema"]);
    assert!(ran.exits(2).stderr.contains("--where cluster=NAME"), "{}", ran.stderr);
    emit(&[&storm, &sample("quiet"), "--emit", "flowschema", "--where", "cluster=lab-1"]).exits(0);
}

#[test]
fn names_from_the_log_stay_comments_and_strings() {
    let home = folder();
    let user = "evil\n---\nkind: Secret # \u{1b}[31m: {x: \"y\"}";
    let mut log = String::new();
    for at in 0..5 {
        let event = serde_json::json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": format!("{at}"), "stage": "ResponseComplete",
            "requestURI": "/api/v1/pods", "verb": "list", "user": {"username": user,
            "groups": ["system:authenticated"]}, "userAgent": user,
            "sourceIPs": ["10.0.0.1"], "objectRef": {"resource": "pods"}, "responseStatus": {"code": 200},
            "requestReceivedTimestamp": "2026-11-20T09:00:00.000000Z",
            "stageTimestamp": format!("2026-11-20T09:00:0{at}.000000Z")});
        log += &format!("{event}\n");
    }
    let path = write(home.path(), "audit.log", log);
    let yaml = emit(&[&path, "--emit", "flowschema", "--client", user]).exits(0).stdout.clone();
    assert!(!yaml.contains('\u{1b}'), "{yaml}");
    // Nor do they reach the terminal where they are reported as near ones, for a fence or for a gateway.
    for form in ["fence", "gateway"] {
        let near = emit(&[&path, "--emit", form, "--client", "evil\n---"]);
        assert!(near.exits(2).stderr.contains("near it: evil") && !near.stderr.contains('\u{1b}'), "{}", near.stderr);
        assert_eq!(near.stderr.trim_end().lines().count(), 1, "{}", near.stderr);
    }
    let objects = documents(&yaml);
    assert_eq!(objects.len(), 2, "{yaml}");
    assert_eq!(objects[1]["spec"]["rules"][0]["subjects"][0]["user"]["name"], user);
    objects.iter().for_each(strict);
}
