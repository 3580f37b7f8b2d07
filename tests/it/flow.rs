//! FlowSchemas: which one a request matches, beside an independent matching.

use crate::support::{agree, folder, oracle, plimsoll, root, rows, run, sample, traffic, write};
use serde_json::{Value, json};

/// Sample, cluster, time of the last capture of its objects.
pub(crate) const SAMPLES: [(&str, &str, &str); 3] = [
    ("list-storm", "lab-1", "1795166746"),
    ("overload-restart", "lab-2", "1795167481"),
    ("quiet", "lab-3", "1795167847"),
];

/// Its logs as the oracle takes them.
pub(crate) fn logs(name: &str, cluster: &str) -> Vec<String> {
    let pattern = root().join("samples").join(name).join("audit/*/*");
    let files = glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap);
    files
        .map(|file| {
            format!("{cluster}:{}={}", file.parent().unwrap().file_name().unwrap().to_str().unwrap(), file.display())
        })
        .collect()
}

#[test]
fn every_request_of_the_samples_matches_what_it_matches_elsewhere() {
    let bys = [
        "flow_schema,priority_level",
        "flow_schema,user,verb,resource",
        "priority_level,code",
        "flow_schema,namespace,scope",
    ];
    for (name, cluster, at) in SAMPLES {
        let objects = |kind: &str| format!("--flow={}", sample(&format!("{name}/objects/{at}/{kind}.json.zst")));
        let flags = [objects("flowschemas"), objects("prioritylevelconfigurations")];
        let theirs = oracle(&bys, &logs(name, cluster), &flags.each_ref().map(String::as_str));
        for by in bys {
            let ours = traffic(&sample(name), by, &[]);
            agree(&ours, &theirs["breakdowns"][by], by);
            // What kube-apiserver makes itself is what these servers had.
            let alone = traffic(&format!("{}/audit", sample(name)), by, &[]);
            assert_eq!(alone["rows"], ours["rows"], "{name} --by {by}");
            assert_eq!(alone["coverage"]["flow_schemas"]["source"], "built-in");
        }
        let coverage = &traffic(&sample(name), "flow_schema", &[])["coverage"]["flow_schemas"];
        assert_eq!(
            (&coverage["source"], &coverage["sets"][0]["flow_schemas"]),
            (&json!("objects"), &json!(11)),
            "{coverage}"
        );
        let paths = coverage["sets"][0]["paths"].as_array().unwrap();
        assert!(
            paths.len() == 2 && paths.iter().all(|path| path.as_str().unwrap().contains(at)),
            "not of the last capture: {coverage}"
        );
    }
}

/// A rule for every part that rules have, and a log that differs from rule to rule.
const OWN: &str = r#"
apiVersion: flowcontrol.apiserver.k8s.io/v1beta3
kind: PriorityLevelConfiguration
metadata: { name: own }
spec: { type: Limited, limited: { nominalConcurrencyShares: 1, limitResponse: { type: Reject } } }
---
apiVersion: flowcontrol.apiserver.k8s.io/v1beta3
kind: FlowSchema
metadata: { name: web-logs }
spec:
  priorityLevelConfiguration: { name: own }
  matchingPrecedence: 50
  rules:
    - subjects: [{ kind: ServiceAccount, serviceAccount: { namespace: web, name: "*" } }]
      resourceRules: [{ verbs: [get, list], apiGroups: [""], resources: [pods, pods/status], namespaces: [web, db] }]
---
apiVersion: flowcontrol.apiserver.k8s.io/v1beta3
kind: FlowSchema
metadata: { name: jane }
spec:
  priorityLevelConfiguration: { name: own }
  matchingPrecedence: 60
  rules:
    - subjects: [{ kind: User, user: { name: jane } }]
      resourceRules: [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true }]
      nonResourceRules: [{ verbs: [get], nonResourceURLs: ["/openapi"] }]
---
apiVersion: flowcontrol.apiserver.k8s.io/v1beta3
kind: FlowSchema
metadata: { name: nowhere }
spec:
  priorityLevelConfiguration: { name: missing }
  matchingPrecedence: 1
  rules:
    - subjects: [{ kind: User, user: { name: "*" } }]
      nonResourceRules: [{ verbs: ["*"], nonResourceURLs: ["*"] }]
"#;

fn event(user: &Value, verb: &str, uri: &str, reference: &Value, more: &Value) -> String {
    let mut event = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": uri,
        "stage": "ResponseComplete",
        "requestURI": uri, "verb": verb, "user": user, "sourceIPs": ["10.0.0.1"],
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "2026-11-20T09:00:00.000000Z", "stageTimestamp": "2026-11-20T09:00:00.010000Z"});
    if !reference.is_null() {
        event["objectRef"] = reference.clone();
    }
    more.as_object().into_iter().flatten().for_each(|(name, value)| event[name] = value.clone());
    event.to_string() + "\n"
}

#[test]
fn every_part_of_a_rule_counts() {
    let account = |namespace: &str| {
        json!({"username": format!("system:serviceaccount:{namespace}:app"),
        "groups": ["system:serviceaccounts", "system:authenticated"]})
    };
    let jane = json!({"username": "jane", "groups": ["system:authenticated"]});
    let admin = json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]});
    let pods = |namespace: &str, subresource: &str| {
        let mut of = json!({"resource": "pods", "apiVersion": "v1"});
        for (name, value) in [("namespace", namespace), ("subresource", subresource)] {
            if !value.is_empty() {
                of[name] = json!(value);
            }
        }
        of
    };
    let none = Value::Null;
    let cases = [
        (account("web"), "get", "/api/v1/namespaces/web/pods/a", pods("web", ""), none.clone(), "web-logs"),
        (
            account("web"),
            "get",
            "/api/v1/namespaces/web/pods/a/status",
            pods("web", "status"),
            none.clone(),
            "web-logs",
        ),
        (account("web"), "update", "/api/v1/namespaces/web/pods/a", pods("web", ""), none.clone(), "service-accounts"),
        (account("web"), "list", "/api/v1/namespaces/db/pods", pods("db", ""), none.clone(), "web-logs"),
        (account("web"), "list", "/api/v1/namespaces/x/pods", pods("x", ""), none.clone(), "service-accounts"),
        (account("web"), "list", "/api/v1/pods", pods("", ""), none.clone(), "service-accounts"),
        (account("db"), "list", "/api/v1/namespaces/db/pods", pods("db", ""), none.clone(), "service-accounts"),
        (account("web"), "get", "/api/v1/namespaces/web/pods/a/log", pods("web", "log"), none.clone(), ""),
        (jane.clone(), "list", "/api/v1/pods", pods("", ""), none.clone(), "jane"),
        (jane.clone(), "list", "/api/v1/namespaces/db/pods", pods("db", ""), none.clone(), "global-default"),
        (jane.clone(), "watch", "/api/v1/pods?watch=1", pods("", ""), none.clone(), "jane"),
        (jane.clone(), "get", "/openapi/v3?x=1", none.clone(), none.clone(), "jane"),
        (jane.clone(), "get", "/openapis", none.clone(), none.clone(), "global-default"),
        (jane.clone(), "get", "/readyz/etcd", none.clone(), none.clone(), "probes"),
        (jane.clone(), "get", "/debug/pprof/heap", none.clone(), none.clone(), ""),
        (admin.clone(), "list", "/api/v1/pods", pods("", ""), none.clone(), "exempt"),
        (
            admin,
            "list",
            "/api/v1/pods",
            pods("", ""),
            json!({"impersonatedUser": {"username": "jane", "groups": ["system:authenticated"]}}),
            "jane",
        ),
        (
            json!({}),
            "get",
            "/api/v1/pods",
            none.clone(),
            json!({"stage": "ResponseStarted", "responseStatus": {"code": 401}}),
            "",
        ),
        (json!({"username": "x", "groups": []}), "get", "/version", none.clone(), none, "catch-all"),
    ];
    let home = folder();
    let objects = write(home.path(), "own.yaml", OWN);
    // The order of fields that the encoder writes is not that of this log: each is read by the general reader. The
    // samples take the fast one.
    for (at, (user, verb, uri, reference, more, expected)) in cases.iter().enumerate() {
        let log = write(home.path(), &format!("{at}.log"), event(user, verb, uri, reference, more));
        let args = ["traffic", &log, "--by", "flow_schema", "-o", "json", "--flow-schemas", &objects];
        let ran = plimsoll(&args);
        assert!(ran.stderr.contains("nowhere"), "the schema without its level is not told of: {}", ran.stderr);
        let report = ran.json(0);
        let found = rows(&report, "flow_schema");
        // The objects lack all built-in ones but those that an apiserver always has.
        let given = ["web-logs", "jane", "exempt", ""];
        let expected = if given.contains(expected) { expected } else { "catch-all" };
        assert_eq!(found.keys().map(|key| key[0].as_str()).collect::<Vec<_>>(), [expected], "case {at}: {uri}");
        // Together with the built-in ones, in JSON and YAML.
        let built_in = root().join("src/sources/objects/flowcontrol.yaml");
        let more = ["--flow-schemas", built_in.to_str().unwrap(), "--where", &format!("flow_schema={}", cases[at].5)];
        let report = plimsoll(&[&args[..], &more].concat()).json(0);
        assert_eq!(report["totals"]["requests"], 1, "case {at}: {uri}");
    }
}

#[test]
fn files_that_hold_no_flow_schemas_are_an_error() {
    let home = folder();
    let log =
        write(home.path(), "a.log", event(&json!({"username": "x"}), "get", "/version", &Value::Null, &Value::Null));
    for (name, content, message) in [
        ("empty.json", "{}", "no FlowSchema and no PriorityLevelConfiguration"),
        ("broken.yaml", "kind: [", "not YAML"),
        ("pods.json", r#"{"kind":"List","items":[{"kind":"Pod","apiVersion":"v1"}]}"#, "no FlowSchema"),
    ] {
        let path = write(home.path(), name, content);
        let ran = plimsoll(&["traffic", &log, "--by", "flow_schema", "--flow-schemas", &path]);
        assert!(ran.exits(3).stderr.contains(message) && ran.stderr.contains(name), "{}", ran.stderr);
    }
    let ran = run(&["traffic", &log, "--by", "flow_schema", "--flow-schemas", "absent"], &[], b"");
    assert!(ran.exits(3).stderr.contains("absent"), "{}", ran.stderr);
    // One that lies in a bundle and is broken is reported, and the rest is done.
    write(
        home.path(),
        "objects/flowschemas.json",
        r#"{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{}}"#,
    );
    let ran = plimsoll(&["traffic", home.path().to_str().unwrap(), "--by", "flow_schema"]);
    assert!(
        ran.exits(3).stderr.contains("FlowSchema without a name") && ran.stdout.contains("catch-all"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
}
