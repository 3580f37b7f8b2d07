//! What the judge makes of audit logs that are made here, whose failed requests say why: which cause it names, and that
//! the report counts them as they are, from logs and from their roll-up.

use crate::support::{folder, plimsoll, write};
use serde_json::{Value, json};
use std::path::Path;

/// The first event, Unix seconds.
const BEGIN: i64 = 1_780_000_000;
/// Seconds of the record, and of what is wrong in it.
const LENGTH: i64 = 900;
const WRONG: std::ops::Range<i64> = 400..600;

/// A request that failed: its code and message.
type Failure = (u16, String);

/// User, verb, resource, requests a second.
const ASKED: [(&str, &str, &str, i64); 7] = [
    ("system:kube-controller-manager", "update", "leases", 1),
    ("system:kube-scheduler", "update", "leases", 1),
    ("system:serviceaccount:a:one", "update", "configmaps", 3),
    ("system:serviceaccount:b:two", "create", "pods", 2),
    ("system:serviceaccount:c:three", "update", "secrets", 2),
    ("system:serviceaccount:d:four", "get", "pods", 6),
    ("system:serviceaccount:e:five", "get", "secrets", 3),
];

fn event(number: i64, at: f64, (user, verb, resource): (&str, &str, &str), failure: Option<&Failure>) -> String {
    let took = 0.004 + (number % 7) as f64 * 0.001;
    let stamp = |at: f64| {
        let micros = (at * 1e6) as i64;
        jiff::Timestamp::from_microsecond(BEGIN * 1_000_000 + micros).unwrap().to_string()
    };
    let mut event = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
        "auditID": format!("a-{number}"), "stage": "ResponseComplete", "verb": verb,
        "requestURI": format!("/api/v1/namespaces/n/{resource}/x"), "user": {"username": user},
        "sourceIPs": ["10.0.0.1"], "userAgent": format!("{}/v1", user.rsplit(':').next().unwrap()),
        "objectRef": {"resource": resource, "namespace": "n", "name": format!("x-{}", number % 50), "apiVersion": "v1"},
        "responseStatus": {"code": 200}, "requestReceivedTimestamp": stamp(at), "stageTimestamp": stamp(at + took)});
    if let Some((code, message)) = failure {
        event["responseStatus"] = json!({"code": code, "status": "Failure", "message": message});
    }
    event.to_string() + "\n"
}

/// Writes a log in which requests for which `fails` says so fail while something is wrong, and are asked again twice at
/// once. How many failed.
fn log(to: &Path, fails: impl Fn(&str, &str, i64) -> Option<Failure>) -> u64 {
    let (mut all, mut number, mut failed) = (Vec::new(), 0, 0);
    for second in 0..LENGTH {
        for (user, verb, resource, rate) in ASKED {
            // A little more in some seconds than in others.
            for n in 0..rate + i64::from((second * 7 + rate) % 5 == 0) {
                number += 1;
                let at = second as f64 + n as f64 / (rate + 2) as f64;
                let failure = WRONG.contains(&second).then(|| fails(verb, resource, number)).flatten();
                let tries = if failure.is_some() { 3 } else { 1 };
                for again in 0..tries {
                    number += i64::from(again > 0);
                    failed += u64::from(failure.is_some());
                    let at = at + again as f64 * 0.02;
                    all.push((at, event(number, at, (user, verb, resource), failure.as_ref())));
                }
            }
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    write(to, "audit/apiserver-0/audit.log", all.into_iter().map(|(_, line)| line).collect::<String>());
    failed
}

/// The only episode of a report: grade, cause, and requests by what their messages name.
fn judged(from: &Path) -> (String, String, Vec<(String, String, u64)>) {
    let report: Value = plimsoll(&["report", from.to_str().unwrap(), "-o", "json"]).json(0);
    let [episode] = &report["episodes"].as_array().unwrap()[..] else { panic!("{}", report["summary"]) };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = report["tables"]["failures"].as_array().unwrap().iter();
    let failures = rows.map(|row| (text(&row["fault"]), text(&row["name"]), row["requests"].as_u64().unwrap()));
    (text(&episode["grade"]), text(&episode["causes"][0]["cause"]), failures.collect())
}

#[test]
fn what_failed_requests_say_is_counted_and_is_the_cause() {
    let writes = |verb: &str| matches!(verb, "create" | "update");
    let full = || (500, "etcdserver: mvcc: database space exceeded".to_owned());
    let leader = || (500, "etcdserver: no leader".to_owned());
    let hook = || (500, "Internal error occurred: failed calling webhook \"v.example.com\": refused".to_owned());
    let key = || (500, "Internal error occurred: encryptedDEKSource with keyID hash \"a\" expired at now".to_owned());
    type Fails<'f> = Box<dyn Fn(&str, &str, i64) -> Option<Failure> + 'f>;
    let cases: [(&str, &str, &str, Fails<'_>); 5] = [
        ("store-full", "", "slow-etcd", Box::new(|verb, _, _| writes(verb).then(full))),
        ("store-leader", "", "slow-etcd", Box::new(|_, _, _| Some(leader()))),
        (
            "webhook-failed",
            "v.example.com",
            "webhook-drag",
            Box::new(|verb, of, _| (writes(verb) && of == "pods").then(hook)),
        ),
        // Its rules take leases, too.
        ("webhook-failed", "v.example.com", "webhook-drag", Box::new(|verb, _, _| writes(verb).then(hook))),
        ("encryption", "", "encryption-failing", Box::new(|_, of, _| (of == "secrets").then(key))),
    ];
    for (fault, name, cause, fails) in cases {
        let home = folder();
        let failed = log(home.path(), fails);
        let (grade, first, failures) = judged(home.path());
        assert_eq!(first, cause, "{fault} {grade}");
        assert_eq!(failures, [(fault.to_owned(), name.to_owned(), failed)], "{cause}");
        let roll = home.path().join("roll");
        plimsoll(&["rollup", home.path().to_str().unwrap(), "--to", roll.to_str().unwrap()]).exits(0);
        assert_eq!(judged(&roll), (grade, first, failures), "{cause}: the roll-up");
    }
}

/// One client lists all pods more often than before, and all requests take longer; others list pods of a namespace,
/// which costs a hundredth: a price of both together would say that hardly more is asked for.
#[test]
fn lists_of_all_objects_have_a_price_of_their_own() {
    let home = folder();
    let (mut all, mut number) = (Vec::new(), 0);
    for second in 0..LENGTH {
        let is_wrong = WRONG.contains(&second);
        let slower = if is_wrong { 8.0 } else { 1.0 };
        let mut add = |user: &str, verb: &str, resource: &str, scope: &str, offset: f64, seconds: f64| {
            number += 1;
            let at = second as f64 + offset;
            let mut event: Value = serde_json::from_str(&event(number, at, (user, verb, resource), None)).unwrap();
            let stamp = jiff::Timestamp::from_microsecond(((BEGIN as f64 + at + seconds) * 1e6) as i64).unwrap();
            event["stageTimestamp"] = stamp.to_string().into();
            if verb == "list" {
                event["requestURI"] = format!("/api/v1/{scope}{resource}").into();
                event["objectRef"] = json!({"resource": resource, "apiVersion": "v1"});
                if !scope.is_empty() {
                    event["objectRef"]["namespace"] = "n".into();
                }
            }
            all.push((at + seconds, event.to_string() + "\n"));
        };
        for (user, verb, resource, rate) in ASKED {
            for n in 0..rate {
                add(user, verb, resource, "", n as f64 / (rate + 2) as f64, slower * 0.005);
            }
        }
        for n in 0..12 {
            add("system:serviceaccount:f:six", "list", "pods", "namespaces/n/", n as f64 / 13.0, slower * 0.008);
        }
        if is_wrong || second % 8 == 0 {
            add("system:serviceaccount:monitoring:node-agent", "list", "pods", "", 0.5, slower.min(3.0) * 1.0);
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    write(home.path(), "audit/apiserver-0/audit.log", all.into_iter().map(|(_, line)| line).collect::<String>());
    let report: Value = plimsoll(&["report", home.path().to_str().unwrap(), "-o", "json"]).json(0);
    let [episode] = &report["episodes"].as_array().unwrap()[..] else { panic!("{}", report["summary"]) };
    let first = &episode["causes"][0];
    assert_eq!(first["cause"], "client-surge", "{episode}");
    assert_eq!(first["subject"]["user"], "system:serviceaccount:monitoring:node-agent");
    assert!(first["confidence"].as_f64().unwrap() > 0.8, "{first}");
    assert!(first["summary"].as_str().unwrap().ends_with("mostly LIST pods"), "{}", first["summary"]);
}

/// The first episode's grade, cause and who caused it, where there is one.
fn first(from: &Path) -> Option<(String, String, String)> {
    let report: Value = plimsoll(&["report", from.to_str().unwrap(), "-o", "json"]).json(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let episode = report["episodes"].as_array().unwrap().first()?;
    let cause = &episode["causes"][0];
    Some((text(&episode["grade"]), text(&cause["cause"]), text(&cause["subject"]["user"])))
}

/// A log of writes alone, in which nothing is said for 25 s: the lease that an apiserver creates when it starts tells
/// an apiserver that was away from a part of the log that is missing.
#[test]
fn an_apiserver_that_starts_says_so_in_its_log() {
    let gone = 400..425;
    for is_said in [true, false] {
        let (mut all, mut number) = (String::new(), 0);
        for second in (0..LENGTH).filter(|second| !gone.contains(second)) {
            let mut add = |offset: f64, of: (&str, &str, &str)| {
                number += 1;
                all += &event(number, second as f64 + offset, of, None);
            };
            if is_said && second == gone.end {
                add(0.0, ("system:apiserver", "create", "leases"));
            }
            for (user, verb, resource, rate) in ASKED.into_iter().filter(|own| own.1 != "get") {
                (0..rate).for_each(|n| add(0.1 + n as f64 / (rate + 2) as f64, (user, verb, resource)));
            }
        }
        let home = folder();
        write(home.path(), "audit/apiserver-0/audit.log", all);
        let found = first(home.path()).map(|own| (own.0, own.1));
        let found = found.as_ref().map(|own| (own.0.as_str(), own.1.as_str()));
        match is_said {
            true => assert_eq!(found, Some(("outage", "relist-storm"))),
            false => assert!(found.is_none_or(|own| own.0 == "degraded"), "{found:?}"),
        }
    }
}

/// Somebody creates Jobs without end; most of the load is what the control plane does about them.
#[test]
fn who_makes_the_control_plane_work_is_the_cause() {
    let (mut all, mut number) = (String::new(), 0);
    let of_jobs: [(&str, &str, &str, &str, i64); 6] = [
        ("system:serviceaccount:search:reindex", "create", "jobs", "", 5),
        ("system:serviceaccount:kube-system:job-controller", "create", "pods", "", 5),
        ("system:serviceaccount:kube-system:job-controller", "update", "jobs", "status", 12),
        ("system:kube-scheduler", "create", "pods", "binding", 5),
        ("system:node:n1", "patch", "pods", "status", 14),
        ("system:node:n2", "patch", "pods", "status", 13),
    ];
    for second in 0..LENGTH {
        let mut add = |at: f64, (user, verb, resource): (&str, &str, &str), subresource: &str| {
            number += 1;
            let mut event: Value =
                serde_json::from_str(&event(number, second as f64 + at, (user, verb, resource), None)).unwrap();
            if !subresource.is_empty() {
                event["objectRef"]["subresource"] = subresource.into();
                event["requestURI"] = format!("/api/v1/namespaces/n/{resource}/x/{subresource}").into();
            }
            all += &(event.to_string() + "\n");
        };
        let mut lines: Vec<(f64, (&str, &str, &str), &str)> = Vec::new();
        for (user, verb, resource, rate) in ASKED {
            lines.extend((0..rate).map(|n| (n as f64 / (rate + 2) as f64, (user, verb, resource), "")));
        }
        for (user, verb, resource, subresource, rate) in of_jobs.into_iter().filter(|_| WRONG.contains(&second)) {
            lines.extend((0..rate).map(|n| (n as f64 / (rate + 2) as f64, (user, verb, resource), subresource)));
        }
        lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines.into_iter().for_each(|(at, of, subresource)| add(at, of, subresource));
    }
    let home = folder();
    write(home.path(), "audit/apiserver-0/audit.log", all);
    let found = first(home.path()).unwrap();
    assert_eq!(
        (found.1.as_str(), found.2.as_str()),
        ("write-burst", "system:serviceaccount:search:reindex"),
        "{found:?}"
    );
}
