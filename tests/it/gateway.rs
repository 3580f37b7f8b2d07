//! `plimsoll clients --emit gateway` and `--emit watch-cache`.

use crate::support::{Ran, count, feed, folder, number, plimsoll, python, root, run, sample, sample_bytes, write};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// An audit log: who (user, agent), when (ms), what.
#[derive(Default)]
struct Log(Vec<(u64, String)>);

impl Log {
    fn add(&mut self, user: &str, agent: &str, ms: u64) {
        let time = |ms: u64| {
            format!(
                "2026-11-20T{:02}:{:02}:{:02}.{:03}000Z",
                9 + ms / 3_600_000,
                ms / 60_000 % 60,
                ms / 1000 % 60,
                ms % 1000
            )
        };
        let event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": format!("id-{}", self.0.len()),
            "stage": "ResponseComplete", "requestURI": "/api/v1/pods", "verb": "list", "user": {"username": user},
            "sourceIPs": ["10.0.0.7"],
            "userAgent": agent, "objectRef": {"resource": "pods", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 200},
            "requestReceivedTimestamp": time(ms), "stageTimestamp": time(ms + 5),
        });
        self.0.push((ms, event.to_string()));
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut lines = self.0.clone();
        lines.sort();
        let text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
        run(&[&["clients", "-", "--emit", "gateway"], args].concat(), &[], text.as_bytes())
    }

    /// Limits by gateway and name.
    fn limits(&self, args: &[&str]) -> BTreeMap<(String, String), Value> {
        let report = self.run(&[args, &["-o", "json"]].concat()).json(0);
        let rows = report["rows"].as_array().unwrap().iter();
        rows.map(|row| {
            ((row["gateway"].as_str().unwrap().to_owned(), row["match"].as_str().unwrap().to_owned()), row.clone())
        })
        .collect()
    }
}

const BAD: &str = "system:serviceaccount:team:bad";

/// `bad` polls twice a second for eight minutes, in the eighth twenty times a second. `good` has its agent and asks for
/// one second 30 times, once. `plain` does nothing wrong.
fn log() -> Log {
    let mut log = Log::default();
    (0..960).for_each(|n| log.add(BAD, "tool/v1", n * 500));
    (0..1080).for_each(|n| log.add(BAD, "tool/v1", 420_000 + n * 1000 / 18));
    (0..30).for_each(|n| log.add("good", "tool/v2", 100_000 + n * 30));
    log.add("plain", "other/v1", 5000);
    log
}

#[test]
fn limits_are_what_is_needed_and_a_fifth() {
    let limits = log().limits(&[]);
    assert_eq!(limits.len(), 2, "{:?}", limits.keys());
    // The median minute has 120 requests: 2/s; 2.4 is 3. The busiest ten seconds have twenty a second.
    let user = &limits[&("kubegateway".to_owned(), BAD.to_owned())];
    assert_eq!(
        (count(user, "qps"), count(user, "burst"), number(user, "median_rps"), number(user, "peak_rps")),
        (3, 6, 2.0, 20.0)
    );
    // In the last minute 20 come each second, of which 3 pass, and once what the bucket held over.
    let over = count(user, "over_limit");
    assert!((60 * 17 - 6..=60 * 17).contains(&over), "{over}");
    assert_eq!((count(user, "requests"), &user["findings"]), (2040, &json!(["client-repeated-list"])));
    // Its agent is shared: the other's busiest ten seconds, 3/s, come on top. (2 + 3) × 1.2 = 6.
    let agent = &limits[&("envoy".to_owned(), "tool".to_owned())];
    assert_eq!((count(agent, "qps"), count(agent, "requests"), &agent["sharing"]), (6, 2070, &json!(["good"])));
    // Others only if they are named; nothing is below 1/s.
    let named = log().limits(&["--client", "plain"]);
    assert_eq!(named.keys().map(|(_, whom)| whom.as_str()).collect::<Vec<_>>(), ["other", "plain"]);
    assert!(named.values().all(|row| count(row, "qps") == 1 && count(row, "over_limit") == 0));
    let ran = log().run(&["--client", "nobody"]);
    assert!(ran.exits(2).stderr.contains("--client nobody"), "{}", ran.stderr);
}

#[test]
fn what_must_not_be_limited_is_not() {
    let mut log = Log::default();
    for user in ["system:kube-scheduler", "system:serviceaccount:kube-system:dns", "team-*", "-all", "fine"] {
        (0..480).for_each(|n| log.add(user, &format!("a{}", user.len()), n * 1000));
    }
    let ran = log.run(&["-o", "json"]);
    let rows = ran.json(0);
    let whom: Vec<String> =
        rows["rows"].as_array().unwrap().iter().map(|row| format!("{} {}", row["gateway"], row["match"])).collect();
    assert_eq!(whom, ["\"kubegateway\" \"fine\"", "\"envoy\" \"a4\"", "\"envoy\" \"a6\""], "{}", ran.stderr);
    for message in ["system:kube-scheduler", "kube-system:dns", "team-*", "treat its name as a pattern"] {
        assert!(ran.stderr.contains(message), "{message}: {}", ran.stderr);
    }
    let asked = log.run(&["--client", "system:kube-scheduler"]);
    assert!(asked.exits(2).stderr.contains("--force overrides this"), "{}", asked.stderr);
    assert_eq!(log.limits(&["--client", "system:kube-scheduler", "--force"]).len(), 2);
    let mut quiet = Log::default();
    quiet.add("a", "b/v1", 0);
    let ran = quiet.run(&[]);
    assert!(ran.exits(0).stdout.is_empty() && ran.stderr.contains("no client to limit"), "{}", ran.stderr);
}

fn documents(text: &str) -> Vec<Value> {
    use serde::Deserialize as _;
    serde_yaml_ng::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
}

/// Checks what KubeGateway's own validation asks for (pkg/apis/proxy/v1alpha1/validation), and gives users and rates.
fn kubegateway(document: &Value) -> BTreeMap<String, u64> {
    assert_eq!(
        (document["apiVersion"].as_str(), document["kind"].as_str()),
        (Some("proxy.kubegateway.io/v1alpha1"), Some("UpstreamCluster"))
    );
    assert!(
        Regex::new("^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
            .unwrap()
            .is_match(document["metadata"]["name"].as_str().unwrap())
    );
    let mut schemas: BTreeMap<&str, u64> = BTreeMap::new();
    for schema in document["spec"]["flowControl"]["flowControlSchemas"].as_array().unwrap() {
        let (qps, burst) = (count(&schema["tokenBucket"], "qps"), count(&schema["tokenBucket"], "burst"));
        assert!(qps > 0 && burst >= qps, "{schema}");
        assert_eq!(schemas.insert(schema["name"].as_str().unwrap(), qps), None);
    }
    let mut users = BTreeMap::new();
    for policy in document["spec"]["dispatchPolicies"].as_array().unwrap() {
        assert_eq!(policy["strategy"], "RoundRobin");
        let qps = schemas.remove(policy["flowControlSchemaName"].as_str().unwrap()).expect("a schema for each policy");
        let rules = policy["rules"].as_array().unwrap();
        assert_eq!(rules.len(), 2);
        assert_eq!(
            (&rules[0]["resources"], &rules[0]["apiGroups"], &rules[1]["nonResourceURLs"]),
            (&json!(["*"]), &json!(["*"]), &json!(["*"]))
        );
        for rule in rules {
            let account = &rule["serviceAccounts"][0];
            let user = match rule["users"][0].as_str() {
                Some(user) => user.to_owned(),
                None => format!(
                    "system:serviceaccount:{}:{}",
                    account["namespace"].as_str().unwrap(),
                    account["name"].as_str().unwrap()
                ),
            };
            assert_eq!(rule["verbs"], json!(["*"]));
            users.insert(user, qps);
        }
    }
    assert!(schemas.is_empty(), "{schemas:?}");
    users
}

/// The rate at which Envoy's filter lets a user agent through; the largest if several match.
fn envoy(document: &Value, agent: &str) -> Option<u64> {
    let filter = &document["http_filters"][0]["typed_config"];
    let mut buckets: BTreeMap<String, u64> = BTreeMap::new();
    for descriptor in filter["descriptors"].as_array().unwrap() {
        assert_eq!(descriptor["token_bucket"]["fill_interval"], "1s");
        buckets.insert(descriptor["entries"].to_string(), count(&descriptor["token_bucket"], "tokens_per_fill"));
    }
    let limits = filter["rate_limits"].as_array().unwrap();
    assert_eq!(limits.len(), buckets.len());
    let rates = limits.iter().filter_map(|limit| {
        let action = &limit["actions"][0]["header_value_match"];
        // Envoy's regular expressions match the whole value.
        let regex = action["headers"][0]["string_match"]["safe_regex"]["regex"].as_str().unwrap();
        assert_eq!(action["headers"][0]["name"], "user-agent");
        Regex::new(&format!("^(?:{regex})$")).unwrap().is_match(agent).then(|| {
            buckets[&json!([{"key": action["descriptor_key"], "value": action["descriptor_value"]}]).to_string()]
        })
    });
    rates.max()
}

#[test]
fn documents_say_what_the_report_says() {
    let text = plimsoll(&["clients", &sample("list-storm"), "--emit", "gateway"]).exits(0).stdout.clone();
    let report = plimsoll(&["clients", &sample("list-storm"), "--emit", "gateway", "-o", "json"]).json(0);
    let found = documents(&text);
    assert_eq!(found.len(), 2);
    let users = kubegateway(&found[0]);
    let (mut compared, mut agents) = (BTreeSet::new(), 0);
    for row in report["rows"].as_array().unwrap() {
        let (whom, qps) = (row["match"].as_str().unwrap(), count(row, "qps"));
        if row["gateway"] == "kubegateway" {
            assert_eq!(users[whom], qps);
            compared.insert(whom);
            continue;
        }
        agents += 1;
        for agent in [whom.to_owned(), format!("{whom}/v1.2 (linux)"), format!("{whom} x")] {
            assert_eq!(envoy(&found[1], &agent), Some(qps), "{agent}");
        }
        for other in [format!("{whom}x/v1"), format!("x{whom}"), String::new()] {
            assert_eq!(envoy(&found[1], &other), None, "{other}");
        }
    }
    assert!(compared.len() == users.len() && compared.len() >= 10 && agents >= 9, "{compared:?}");
    assert_eq!(
        documents(&plimsoll(&["clients", &sample("list-storm"), "--emit", "gateway", "--gateway", "envoy"]).stdout),
        found[1..]
    );
}

#[test]
fn hostile_names_stay_names() {
    let (user, agent) = ("a: [b]\n- c # \u{1b}[31m\"'", "a.*(b|c)#: \u{1b}[31mx");
    let mut log = Log::default();
    (0..480).for_each(|n| log.add(user, agent, n * 1000));
    let text = log.run(&[]).exits(0).stdout.clone();
    assert!(!text.contains('\u{1b}'), "{text}");
    let found = documents(&text);
    assert_eq!(kubegateway(&found[0]).keys().collect::<Vec<_>>(), [user]);
    let product = agent.split(' ').next().unwrap();
    assert_eq!(
        (envoy(&found[1], agent), envoy(&found[1], product), envoy(&found[1], "aXbc#:")),
        (Some(2), Some(2), None)
    );
}

#[test]
fn watch_caches_hold_what_an_independent_count_says() {
    let report = plimsoll(&["clients", &sample("list-storm"), "--emit", "watch-cache", "-o", "json"]).json(0);
    let rows = report["rows"].as_array().unwrap();
    let (mut compared, mut bounded) = (0, 0);
    for instance in ["apiserver-0", "apiserver-1"] {
        let mut command = Command::new(python());
        command.arg(root().join("tests/oracle/watch_cache.py"));
        let pattern = root().join(format!("samples/list-storm/metrics/{instance}/*.zst"));
        glob::glob(pattern.to_str().unwrap()).unwrap().for_each(|page| _ = command.arg(page.unwrap()));
        let ran = feed(command, b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let theirs: BTreeMap<String, Value> = serde_json::from_str(&ran.stdout).unwrap();
        let ours: BTreeMap<String, &Value> = rows
            .iter()
            .filter(|row| row["instance"] == instance)
            .map(|row| (format!("{}/{}", row["group"].as_str().unwrap(), row["resource"].as_str().unwrap()), row))
            .collect();
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        for (key, row) in &theirs {
            for (field, theirs) in [
                ("capacity", &row["capacity"]),
                ("events_in_per_s", &row["rate"]),
                ("history_s", &row["history"]),
                ("shortest_history_s", &row["shortest"]),
            ] {
                let (a, b) = (ours[key][field].as_f64(), theirs.as_f64());
                let same = match (a, b) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1e-4 * b.abs() + 1e-3,
                    (a, b) => a.unwrap_or_default() == b.unwrap_or_default(),
                };
                assert!(same, "{instance} {key} {field}: {a:?} here, {b:?} there");
                compared += 1;
            }
            bounded += usize::from(row["shortest"].is_f64());
        }
    }
    assert!(compared > 100 && bounded >= 2, "{compared} {bounded}");
    // samples/NOTES.md: stale-cache watches configmaps from a version that is too old.
    for row in rows {
        let too_old: Vec<&str> = row["too_old"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let is_configmaps = row["resource"] == "configmaps";
        assert_eq!(
            too_old,
            if is_configmaps { vec!["stale-cache (system:serviceaccount:data:stale-cache)"] } else { vec![] },
            "{row}"
        );
        assert_eq!(
            row["proposals"].as_array().unwrap().is_empty(),
            !is_configmaps && row["at_risk"].as_array().unwrap().is_empty()
        );
    }
    let people = plimsoll(&["clients", &sample("list-storm"), "--emit", "watch-cache"]).exits(0).stdout.clone();
    assert!(people.contains("allowWatchBookmarks=true") && people.contains("only 0 has an effect"), "{people}");
    // After a restart caches begin empty, and hold no more than what came since; else 75 s at least.
    let restarted =
        plimsoll(&["clients", &sample("overload-restart/metrics"), "--emit", "watch-cache", "-o", "json"]).json(0);
    let last = sample_bytes("overload-restart/metrics/apiserver-0/1795167586.txt.zst");
    let came = std::str::from_utf8(&last)
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("apiserver_watch_cache_events_received_total{"));
    let mut compared = 0;
    for line in came.filter(|line| !line.ends_with(" 0")) {
        let (labels, events) = line.rsplit_once(' ').unwrap();
        let resource = labels.split("resource=\"").nth(1).unwrap().trim_end_matches("\"}");
        let row = restarted["rows"].as_array().unwrap().iter().find(|row| row["resource"] == resource).unwrap();
        // The page was taken 58.85 s after the process started.
        assert!((number(row, "events_in_per_s") - events.parse::<f64>().unwrap() / 58.85).abs() < 1e-4, "{row}");
        assert!((number(row, "history_s") - 58.85).abs() < 0.01, "{row}");
        compared += 1;
    }
    assert_eq!(compared, 7);
    assert!(
        restarted["rows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["shortest_history_s"].as_f64().is_none_or(|least| least > 58.0))
    );
    // Metrics alone do, logs alone do not.
    let alone = plimsoll(&["clients", &sample("list-storm/metrics"), "--emit", "watch-cache", "-o", "json"]).json(0);
    assert_eq!(alone["rows"].as_array().unwrap().len(), rows.len());
    let ran = plimsoll(&["clients", &sample("list-storm/audit"), "--emit", "watch-cache"]);
    assert!(ran.exits(3).stderr.contains("watch_cache_capacity"), "{}", ran.stderr);
}

/// Watches of pods without bookmarks that live longer than the least that the cache held (87.7 s on apiserver-0).
#[test]
fn watches_that_outlive_the_cache_are_at_risk() {
    let check = |agent: &str, query: &str, seconds: u64, times: u64| {
        let home = folder();
        let pattern = root().join("samples/list-storm/metrics/apiserver-0/*.zst");
        for page in glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap) {
            write(
                home.path(),
                &format!("metrics/apiserver-0/{}", page.file_name().unwrap().to_str().unwrap()),
                std::fs::read(&page).unwrap(),
            );
        }
        let mut lines = Vec::new();
        for n in 0..times {
            for (stage, at) in [("ResponseStarted", n * 300), ("ResponseComplete", n * 300 + seconds)] {
                let time =
                    |at: u64| format!("2026-11-20T{:02}:{:02}:{:02}.000000Z", 9 + at / 3600, at / 60 % 60, at % 60);
                let event = json!({
                    "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
                    "auditID": format!("id-{n}"), "stage": stage,
                    "requestURI": format!("/api/v1/pods?watch=true&resourceVersion=7{query}"), "verb": "watch",
                    "user": {"username": "u"},
                    "sourceIPs": ["10.0.0.7"], "userAgent": agent,
                    "objectRef": {"resource": "pods", "apiVersion": "v1"},
                    "responseStatus": {"metadata": {}, "code": 200}, "requestReceivedTimestamp": time(n * 300),
                    "stageTimestamp": time(at),
                });
                lines.push((at, event.to_string()));
            }
        }
        lines.sort();
        write(
            home.path(),
            "audit/apiserver-0/audit.log",
            lines.into_iter().map(|(_, line)| line + "\n").collect::<String>(),
        );
        let report =
            plimsoll(&["clients", home.path().to_str().unwrap(), "--emit", "watch-cache", "-o", "json"]).json(0);
        let rows = report["rows"].as_array().unwrap();
        assert!(rows.iter().filter(|row| row["resource"] != "pods").all(|row| row["at_risk"] == json!([])));
        let pods = rows.iter().find(|row| row["resource"] == "pods").unwrap();
        assert!((number(pods, "shortest_history_s") - 87.7).abs() < 0.1, "{pods}");
        (pods["at_risk"].as_array().unwrap().len(), pods["proposals"].to_string().contains("timeoutSeconds below 87"))
    };
    assert_eq!(check("long/v1", "", 200, 3), (1, true));
    assert_eq!(check("marked/v1", "&allowWatchBookmarks=true", 200, 3), (0, false));
    assert_eq!(check("short/v1", "", 80, 3), (0, false));
    assert_eq!(check("few/v1", "", 200, 2), (0, false));
}
