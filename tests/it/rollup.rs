//! The roll-up: equal to the SQL of docs/rollup.md on every sample, and the same however the input is
//! split, threaded, ordered or shifted.

use crate::support::{folder, plimsoll, python, root, sample, sample_bytes, write};
use plimsoll::analysis::rollup::{Batch, Observer, Part, Rollup};
use plimsoll::inputs::rollup::roll_up;
use plimsoll::model::event::{Stage, Stream, Timed};
use plimsoll::model::rollup::{LATER, TABLES};
use plimsoll::model::time::{Micros, SECOND, TimeParser, format};
use plimsoll::sources::audit::read_line;
use plimsoll::sources::find::audit_logs;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::path::Path;

type Tables = BTreeMap<&'static str, Vec<Vec<String>>>;

fn text(rollup: &Rollup) -> Tables {
    let rows = |name| {
        let mut rows = Vec::new();
        assert!(rollup.rows(name, |row| rows.push(row)), "{name}");
        rows
    };
    TABLES.iter().map(|table| (table.name, rows(table.name))).collect()
}

#[track_caller]
fn same(a: &Tables, b: &Tables, what: &str) {
    for table in TABLES {
        let (a, b) = (&a[table.name], &b[table.name]);
        if let Some(at) = (0..a.len().max(b.len())).find(|&i| a.get(i) != b.get(i)) {
            panic!(
                "{what}: {} differs at row {at} of {} and {}:\n{:?}\n{:?}",
                table.name,
                a.len(),
                b.len(),
                a.get(at),
                b.get(at)
            );
        }
    }
}

fn of_file(path: &str, threads: usize) -> Tables {
    let found = audit_logs(&[path.to_owned()]);
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    text(&roll_up(found.streams, threads, &()).0)
}

/// A log with times of other centuries, and with commands in containers that run, end, and are refused.
fn odd_log(folder: &std::path::Path) -> String {
    let text = String::from_utf8(sample_bytes("quiet/audit/apiserver-0/audit.log.zst")).unwrap();
    let mut lines: Vec<String> = text.lines().take(900).map(str::to_owned).collect();
    for (at, day) in [(100, "1970-01-02"), (400, "2099-06-07"), (401, "2099-06-08"), (700, "2027-03-01")] {
        let odd = lines[at].replace("2026-11-20T", &format!("{day}T"));
        lines.insert(at, odd);
    }
    // Only the arrival is of another day.
    lines[500] =
        lines[500].replace("\"requestReceivedTimestamp\":\"2026-11-20", "\"requestReceivedTimestamp\":\"1970-01-01");
    let exec = |id: u32, stage: &str, second: u32, code: u16| {
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"exec-{id}","stage":"{stage}","requestURI":"/api/v1/namespaces/web/pods/web-1/exec?command=sh","verb":"create","user":{{"username":"jane","groups":["system:authenticated"]}},"sourceIPs":["10.0.0.9"],"userAgent":"kubectl/v1.36.0","objectRef":{{"resource":"pods","namespace":"web","name":"web-1","apiVersion":"v1","subresource":"exec"}},"responseStatus":{{"metadata":{{}},"code":{code}}},"requestReceivedTimestamp":"2026-11-20T09:41:50.000000Z","stageTimestamp":"2026-11-20T09:4{}:{:02}.000000Z"}}"#,
            1 + second / 60,
            second % 60
        )
    };
    lines.extend([
        exec(1, "ResponseStarted", 51, 101),
        exec(2, "ResponseStarted", 52, 101),
        exec(3, "ResponseStarted", 53, 403),
        exec(3, "ResponseComplete", 54, 403),
        exec(4, "ResponseComplete", 55, 101),
        exec(1, "ResponseComplete", 200, 101),
    ]);
    lines.extend(few_events());
    crate::support::write(folder, "audit.log", lines.join("\n") + "\n")
}

/// Events of which there are few, or none, in samples: one for each rule of the tables that hold them.
fn few_events() -> Vec<String> {
    let mut all = Vec::new();
    let start = plimsoll::model::time::parse_any("2026-11-20T09:46:00Z").unwrap();
    // Verb, resource with its group and subresource, namespace, name, user, code, query, body, answer.
    let mut event = |second: i64, what: [&str; 6], user: &str, code: u16, query: &str, body: &str, more: &str| {
        let [verb, group, resource, subresource, namespace, name] = what;
        let at = start + second * SECOND + (all.len() as i64 * 7_919) % 900_000;
        let prefix = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let path =
            [resource, name, subresource].into_iter().filter(|part| !part.is_empty()).map(|part| format!("/{part}"));
        let uri = format!("{prefix}{within}{}{query}", path.collect::<String>());
        let body = if body.is_empty() { String::new() } else { format!(r#""requestObject":{body},"#) };
        let level = if body.is_empty() { "Metadata" } else { "Request" };
        let agent = user.rsplit(':').next().unwrap();
        all.push(format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"{level}","auditID":"few-{}","stage":"ResponseComplete","requestURI":"{uri}","verb":"{verb}","user":{{"username":"{user}"}},"sourceIPs":["10.0.0.{}"],"userAgent":"{agent}/v1","objectRef":{{"apiGroup":"{group}","resource":"{resource}","subresource":"{subresource}","namespace":"{namespace}","name":"{name}"}},"responseStatus":{{"code":{code}{more}}},{body}"requestReceivedTimestamp":"{}","stageTimestamp":"{}"}}"#,
            all.len(),
            user.len(),
            stamp(at - 1_500),
            stamp(at),
        ));
    };
    let (bot, jane, plane) =
        ("system:serviceaccount:ci:bot", "jane", "system:serviceaccount:kube-system:namespace-controller");
    let node = "system:node:n1";
    let (pod, map) = (["", "pods", "", "web"], ["", "configmaps", "", "web"]);
    let of = |verb: &'static str, [group, resource, sub, space]: [&'static str; 4], name: &'static str| {
        [verb, group, resource, sub, space, name]
    };
    // Often within a minute, and at the end of the log half as often.
    for n in 0..20 {
        event(n * 2, of("update", map, "busy"), jane, 200, "", "", "");
        event(n * 2, of("update", map, "tried"), jane, 409, "", "", "");
        event(n * 2, of("patch", map, "dry"), jane, 200, "?dryRun=All", "", "");
    }
    // In turns, also with one that writes twice, and too slowly.
    for (n, user) in [bot, jane, bot, jane, jane, bot, plane, bot].into_iter().enumerate() {
        event(n as i64 * 5, of("update", map, "fought"), user, 200, "", "", "");
    }
    for (n, user) in [bot, jane, bot, jane, bot].into_iter().enumerate() {
        event(n as i64 * 59, of("patch", map, "slow"), user, 200, "", "", "");
        event(n as i64 * 61, of("patch", map, "slower"), user, 200, "", "", "");
    }
    for (name, query, body) in [
        ("p1", "?gracePeriodSeconds=0", ""),
        ("p2", "", r#"{"gracePeriodSeconds":0}"#),
        ("p3", "?gracePeriodSeconds=30", ""),
        ("p4", "?dryRun=All&gracePeriodSeconds=0", ""),
        ("p5", "", r#"{"dryRun":["All"]}"#),
    ] {
        event(60, of("create", pod, name), bot, 201, "", "", "");
        event(61, of("delete", pod, name), bot, 200, query, body, "");
        event(62, of("delete", pod, name), node, 200, query, body, "");
    }
    event(63, of("create", pod, ""), bot, 201, "", "", "");
    event(63, of("create", pod, ""), bot, 201, "", "", "");
    event(63, of("create", pod, "p6"), bot, 201, "?dryRun=All", "", "");
    event(63, of("create", pod, "p7"), node, 201, "", "", "");
    event(64, of("deletecollection", pod, ""), plane, 200, "", "", "");
    event(64, of("delete", pod, "p8"), plane, 404, "", "", "");
    event(64, of("deletecollection", ["", "secrets", "", "web"], ""), jane, 200, "?labelSelector=a", "", "");
    let deployment = ["apps", "deployments", "", "web"];
    for (n, body) in [
        "",
        r#"{"spec":{"replicas":0}}"#,
        r#"{"spec":{"replicas":2}}"#,
        r#"[{"op":"test","path":"/spec/replicas","value":0}]"#,
        r#"[{"op":"replace","path":"/spec/replicas","value":0}]"#,
        r#"[{"op":"add","path":"/spec","value":{"replicas":0}}]"#,
        r#"{"metadata":{"finalizers":null}}"#,
        r#"{"metadata":{"finalizers":[]}}"#,
        r#"{"metadata":{"finalizers":["a/b"]}}"#,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a/b"]}}"#,
        r#"[{"op":"remove","path":"/metadata/finalizers/0"}]"#,
        r#"[{"op":"replace","path":"/metadata/finalizers","value":[]}]"#,
    ]
    .into_iter()
    .enumerate()
    {
        event(70 + n as i64, of("patch", deployment, "shop"), jane, 200, "", body, "");
        event(70 + n as i64, of("update", deployment, "shop"), plane, 200, "", body, "");
    }
    event(83, of("patch", ["apps", "deployments", "scale", "web"], "shop"), jane, 200, "", "", "");
    event(84, of("update", ["", "nodes", "", ""], "n1"), jane, 200, "", r#"{"spec":{"unschedulable":true}}"#, "");
    event(84, of("update", ["", "nodes", "", ""], "n2"), jane, 200, "", "", "");
    event(84, of("update", ["", "nodes", "status", ""], "n2"), jane, 200, "", "", "");
    let rights = ["rbac.authorization.k8s.io", "roles", "", "web"];
    event(85, of("update", rights, "r"), jane, 200, "", "", "");
    event(85, of("update", rights, "r"), jane, 200, "?dryRun=All", "", "");
    event(85, of("delete", rights, "r"), jane, 200, "", "", "");
    for verb in ["get", "list", "create", "connect", "BREW"] {
        event(86, of(verb, ["", "secrets", "", "web"], "s"), jane, 403, "", "", "");
        event(86, of(verb, map, "c"), jane, 403, "", "", "");
    }
    let message = |text: &str| format!(r#","message":"pods is forbidden: exceeded quota: {text}""#);
    for (second, text) in [
        (
            90,
            "compute, requested: pods=1,requests.cpu=250m, used: pods=9,requests.cpu=9750m, limited: \
             pods=9,requests.cpu=10",
        ),
        (91, "compute, requested: requests.cpu=1500m, used: requests.cpu=9750m, limited: requests.cpu=10"),
        (92, "other, requested: count/jobs.batch=1, used: count/jobs.batch=999, limited: count/jobs.batch=999"),
        (93, "without numbers"),
    ] {
        event(second, of("create", pod, ""), bot, 403, "", "", &message(text));
    }
    // Answers that say why, and some that only look like it.
    let hook = r#"Internal error occurred: failed calling webhook \"v.hook.io\": Post \"x\""#;
    let denies = r#"admission webhook \"deny.io\" denied the request: failed calling webhook \"other\""#;
    let policy = "pods is forbidden: ValidatingAdmissionPolicy 'cost' with binding 'all' denied request: no";
    for (n, (code, text)) in [
        (500, hook),
        (500, hook),
        (403, hook),
        (404, hook),
        (500, r#"failed calling webhook \"cut"#),
        (500, "failed calling webhook x, then etcdserver: no leader"),
        (500, "etcdserver: request timed out, possibly due to previous leader failure"),
        (500, "etcdserver: request timed out, possibly due to connection lost"),
        (500, "etcdserver: mvcc: database space exceeded"),
        (500, "rpc error: code = Unavailable desc = etcdserver: no leader"),
        (500, "etcdserver: leader changed"),
        (500, r#"unable to transform key \"/registry/secrets/a\": rpc error: code = Unavailable"#),
        (500, "conversion webhook for example.com/v1, Kind=Topic failed: EOF"),
        (503, "the server is currently unable to handle the request"),
        (504, "Timeout: request did not complete within requested timeout - context deadline exceeded"),
        (429, "storage is (re)initializing"),
        (429, "Too many requests, please try again later."),
        (403, denies),
        (400, denies),
        (500, denies),
        (403, r#"admission webhook \"x\" asks for more"#),
        (422, policy),
        (403, "pods is forbidden: User jane cannot create"),
    ]
    .into_iter()
    .enumerate()
    {
        let more = format!(r#","message":"{text}""#);
        event(94 + n as i64 % 20, of("create", pod, ""), if n % 2 == 0 { bot } else { jane }, code, "", "", &more);
    }
    let proxied = ["", "services", "proxy", "web"];
    event(95, of("get", proxied, "shop"), jane, 503, "", "", r#","message":"error trying to reach service: no""#);
    let lease = ["coordination.k8s.io", "leases", "", "kube-system"];
    let held = |holder: &str| {
        format!(r#"{{"metadata":{{"name":"l"}},"spec":{{"holderIdentity":"{holder}","leaseDurationSeconds":15}}}}"#)
    };
    for (n, holder) in ["a", "a", "b", "b", "", "", "b", "a"].into_iter().enumerate() {
        event(100 + 3 * n as i64, of("update", lease, "l"), bot, 200, "", &held(holder), "");
    }
    event(125, of("create", lease, ""), bot, 201, "", &held("c"), "");
    event(126, of("patch", lease, "l"), bot, 200, "", r#"{"metadata":{"labels":{"a":"b"}}}"#, "");
    event(
        127,
        of("patch", lease, "l"),
        bot,
        200,
        "",
        r#"[{"op":"replace","path":"/spec/holderIdentity","value":"d"}]"#,
        "",
    );
    event(128, of("update", ["coordination.k8s.io", "leases", "", "kube-node-lease"], "n1"), node, 200, "", "", "");
    for (n, user) in [bot, jane, jane, bot].into_iter().enumerate() {
        event(130 + n as i64, of("update", lease, "bodyless"), user, 200, "", "", "");
    }
    for n in 0..8 {
        event(300 + n, of("update", map, "last"), jane, 200, "", "", "");
    }
    all
}

#[test]
fn every_table_is_what_the_sql_says() {
    let out = folder();
    let log = |path: &str| sample(path);
    let mut empty: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    let odd = odd_log(&out.path().join("made"));
    for (name, logs) in [
        ("made", vec![format!("::a={odd}")]),
        (
            "list-storm",
            vec![
                format!("lab-1:apiserver-0:a={}", log("list-storm/audit/apiserver-0/audit.log.zst")),
                format!("lab-1:apiserver-1:b={}", log("list-storm/audit/apiserver-1/audit.log.zst")),
            ],
        ),
        (
            "overload-restart",
            vec![
                format!(
                    "lab-2:apiserver-0:a={}",
                    log("overload-restart/audit/apiserver-0/audit-2026-11-20T09-37-56.438.log.zst")
                ),
                log("overload-restart/audit/apiserver-0/audit-2026-11-20T09-40-27.680.log.zst"),
                log("overload-restart/audit/apiserver-0/audit.log.zst"),
            ],
        ),
        ("quiet", vec![format!("lab-3:apiserver-0:a={}", log("quiet/audit/apiserver-0/audit.log.zst"))]),
        ("levels", vec![format!("::a={}", log("levels/audit.log.zst"))]),
        ("drain", vec![format!("::a={}", log("drain/audit.log.zst"))]),
        ("controllers", vec![format!("lab-2:apiserver-0:a={}", log("controllers/audit/apiserver-0/audit.log.zst"))]),
    ] {
        let target = out.path().join(name);
        let ran = std::process::Command::new(python())
            .arg(root().join("tests/oracle/rollup.py"))
            .arg("--out")
            .arg(&target)
            .args(&logs)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let native = of_file(&if name == "made" { odd.clone() } else { sample(name) }, 2);
        for table in TABLES {
            let mut reader = csv::Reader::from_path(target.join(format!("{}.csv", table.name))).unwrap();
            assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), table.columns, "{}", table.name);
            let mut sql: Vec<Vec<String>> =
                reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
            let mut rows = native[table.name].clone();
            assert!(
                !rows.is_empty()
                    || LATER.contains(&table.name)
                    || !["list-storm", "overload-restart", "quiet"].contains(&name),
                "{name}: {}",
                table.name
            );
            empty.retain(|of| *of != table.name || rows.is_empty());
            sql.sort();
            rows.sort();
            for (row, expected) in rows.iter().zip(&sql) {
                assert_eq!(row, expected, "{name}: {}", table.name);
            }
            assert_eq!(rows.len(), sql.len(), "{name}: {}", table.name);
        }
    }
    assert!(empty.is_empty(), "no log has rows of {empty:?}");
}

/// What the samples of a lab's every day lack; the numbers are those of samples/levels/README.md.
#[test]
fn what_only_bodies_messages_and_annotations_tell() {
    let tables = of_file(&sample("levels"), 2);
    let sum = |table: &str, column: &str, is: &dyn Fn(&[String]) -> bool| -> u64 {
        let columns = TABLES.iter().find(|spec| spec.name == table).unwrap().columns;
        let at = columns.iter().position(|name| *name == column).unwrap();
        tables[table].iter().filter(|row| is(row)).map(|row| row[at].parse::<u64>().unwrap()).sum()
    };
    let fact = |name: &str, resource: &str| sum("sequences", "count", &|row| row[6] == name && row[5] == resource);
    assert_eq!(fact("no-change", "configmaps"), 6 + 2 + 5 + 4);
    assert_eq!(fact("no-change", "leases"), 3);
    assert_eq!(fact("takeover", "leases"), 1);
    let timeout = |column| sum("traffic", column, &|_| true);
    assert_eq!((timeout("timeout_client"), timeout("timeout_deadline"), timeout("timeout_cache")), (2, 2, 5));
    assert_eq!(sum("deprecated", "requests", &|row| row[3] == "v1" && row[4] == "endpoints"), 3);
    assert_eq!(sum("objects", "conflicts", &|row| row[4] == "state"), 1);
    assert_eq!(sum("traffic", "body_items", &|row| row[5] == "list" && row[12] == "rv=unset,sel=node"), 90);
    let class = |name: &str| sum("traffic", "requests", &|row| row[12] == format!("path={name}"));
    // The apiserver took //api//v1 and /api/v1/nonsense for resources.
    assert_eq!(
        (class("discovery"), class("openapi"), class("health"), class("metrics"), class("version")),
        (6, 4, 3, 1, 1)
    );
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    for name in ["list-storm", "overload-restart"] {
        let one = of_file(&sample(name), 1);
        for threads in 2..=8 {
            same(&one, &of_file(&sample(name), threads), &format!("{name}, {threads} threads"));
        }
    }
}

/// The observations of some lines.
fn batch(lines: &[&str], stream: &Stream) -> Batch {
    let mut observer = Observer::whole();
    let mut times = TimeParser::default();
    for line in lines {
        read_line(line.as_bytes(), &mut |event| {
            let (at, stage) = (times.parse_json(event.at).unwrap(), event.stage.unwrap());
            let received = times.parse_json(event.received);
            if stage != Stage::RequestReceived {
                observer.event(Timed { event, stage, at, received, stream });
            }
        });
    }
    observer.flush()
}

fn at(line: &str) -> Micros {
    let from = line.rfind("\"stageTimestamp\":\"").unwrap() + 18;
    plimsoll::model::time::parse_any(&line[from..from + 27]).unwrap()
}

fn stream(id: u32) -> Stream {
    Stream { id, cluster: "c".into(), instance: format!("apiserver-{id}") }
}

/// One pass over streams, in blocks of `block` lines.
fn whole(streams: &[Vec<&str>], block: usize) -> Part {
    let mut part = Part::new(streams.len()).with_seams();
    for (id, lines) in streams.iter().enumerate() {
        for chunk in lines.chunks(block) {
            part.take(id, batch(chunk, &stream(id as u32)));
        }
        part.end(id);
    }
    part
}

fn sample_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}

#[test]
fn lines_shuffled_within_the_slack_give_the_same_bytes() {
    let log = String::from_utf8(sample_bytes("quiet/audit/apiserver-0/audit.log.zst")).unwrap();
    let lines = sample_lines(&log);
    let expected = text(&whole(std::slice::from_ref(&lines), 700).finish());
    let mut runner = TestRunner::new(Config { cases: 10, ..Config::default() });
    runner
        .run(&any::<u64>(), |seed| {
            let mut state = seed | 1;
            let mut jitter = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 33) % 4_900_000) as Micros
            };
            let mut shuffled: Vec<(Micros, &str)> = lines.iter().map(|line| (at(line) + jitter(), *line)).collect();
            shuffled.sort_by_key(|(at, _)| *at);
            let shuffled: Vec<&str> = shuffled.into_iter().map(|(_, line)| line).collect();
            assert_ne!(shuffled, lines);
            same(&expected, &text(&whole(&[shuffled], 333).finish()), "shuffled");
            Ok(())
        })
        .unwrap();
}

#[test]
fn late_lines_count_but_make_no_fact() {
    let log = String::from_utf8(sample_bytes("quiet/audit/apiserver-0/audit.log.zst")).unwrap();
    let lines = sample_lines(&log);
    let mut moved = lines.clone();
    let early: Vec<&str> = moved.drain(3000..3100).collect();
    moved.extend(&early);
    let (in_order, late) = (whole(&[lines], 500).finish(), whole(&[moved], 500).finish());
    assert_eq!((in_order.late, late.late), (0, 100));
    let (in_order, late) = (text(&in_order), text(&late));
    for table in ["traffic", "pulse", "sources", "notable", "clients"] {
        assert_eq!(in_order[table], late[table], "{table}");
    }
    let facts = |tables: &Tables| tables["sequences"].iter().map(|row| row[7].parse::<u64>().unwrap()).sum::<u64>();
    assert!(facts(&late) < facts(&in_order));
}

#[test]
fn a_shift_in_time_and_other_names_change_nothing_else() {
    let log = String::from_utf8(sample_bytes("quiet/audit/apiserver-0/audit.log.zst")).unwrap();
    let lines = sample_lines(&log);
    let shift = 86_400 * SECOND;
    let moved: Vec<String> = lines
        .iter()
        .map(|line| line.replace("2026-11-20T", "2026-11-21T").replace("alice@example.com", "carol@example.com"))
        .collect();
    let a = text(&whole(&[lines], 700).finish());
    let b = text(&whole(&[moved.iter().map(String::as_str).collect()], 700).finish());
    for (name, rows) in &a {
        let back = |row: &Vec<String>| -> Vec<String> {
            let columns = TABLES.iter().find(|table| table.name == *name).unwrap().columns;
            let time = |column: &str, text: &str| match (column, text.parse::<i64>()) {
                ("tile" | "second" | "minute", Ok(at)) => (at - shift / SECOND).to_string(),
                ("at" | "first" | "last" | "received", Ok(at)) if at != 0 => (at - shift).to_string(),
                _ => text.replace("carol@", "alice@"),
            };
            columns.iter().zip(row).map(|(column, text)| time(column, text)).collect()
        };
        let mut rows_b: Vec<Vec<String>> = b[name].iter().map(back).collect();
        let mut rows_a = rows.clone();
        rows_a.sort();
        rows_b.sort();
        assert_eq!(rows_a, rows_b, "{name}");
    }
}

/// An event of a made-up user.
fn made(user: usize, at: Micros) -> String {
    let received = at - 1000;
    format!(
        r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{at}-{user}","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/n/pods/p","verb":"get","user":{{"username":"u{user:06}","groups":["g"]}},"sourceIPs":["10.0.0.1"],"userAgent":"a/1","objectRef":{{"resource":"pods","namespace":"n","name":"p{user}","apiVersion":"v1"}},"responseStatus":{{"metadata":{{}},"code":200}},"requestReceivedTimestamp":"{}","stageTimestamp":"{}"}}"#,
        stamp(received),
        stamp(at),
    )
}

/// The apiserver's form, always with six digits.
fn stamp(at: Micros) -> String {
    let text = format(at);
    if at % SECOND == 0 { text.replace('Z', ".000000Z") } else { text }
}

#[test]
fn rows_beyond_the_limit_are_folded_the_same_way_however_the_input_is_cut() {
    // Two hours, so that the limit is that of the second hour: 1,024 rows a tile; user u has u mod 7 + 1 requests a
    // tile.
    let start = 1_795_166_400 * SECOND;
    let mut lines = Vec::new();
    for tile in [0i64, 1, 360, 720] {
        for user in 0..1500usize {
            for n in 0..=(user % 7) {
                lines.push((start + tile * 10 * SECOND + (user * 7 + n) as i64 * 900, user));
            }
        }
    }
    lines.sort_unstable();
    let lines: Vec<String> = lines.into_iter().map(|(at, user)| made(user, at)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let one = text(&whole(std::slice::from_ref(&lines), 1000).finish());
    let tile = one["traffic"][0][0].clone();
    let first: Vec<&Vec<String>> = one["traffic"].iter().filter(|row| row[0] == tile).collect();
    assert_eq!(first.len(), 1025, "1,024 rows and (other)");
    let count = |row: &Vec<String>| row[13].parse::<u64>().unwrap();
    let other = first.iter().find(|row| row[3] == "(other)").unwrap();
    let kept = first.iter().filter(|row| row[3] != "(other)").map(|row| count(row));
    let all: u64 = (0..1500u64).map(|user| user % 7 + 1).sum();
    assert_eq!(kept.clone().sum::<u64>() + count(other), all, "nothing is lost by folding");
    // The largest are kept: 1,024 of 1,500 users, so all with 4 or more requests (856 users) and some with 3.
    assert_eq!(kept.min(), Some(3));
    // As files, and put together again.
    let home = folder();
    let roll = |name: &str, sources: &[String]| {
        let to = home.path().join(format!("{name}.rolled")).to_str().unwrap().to_owned();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        plimsoll(&[&["rollup"], sources.as_slice(), &["--to", &to]].concat()).exits(0);
        let manifest = std::fs::read_to_string(Path::new(&to).join("manifest.json")).unwrap();
        (to, serde_json::from_str::<serde_json::Value>(&manifest).unwrap()["tables"].clone())
    };
    let log = |name: &str, lines: &[&str]| write(home.path(), &format!("{name}/audit.log"), lines.join("\n") + "\n");
    let (_, all) = roll("all", &[log("all", &lines)]);
    assert_eq!(all["traffic"]["rows"], one["traffic"].len());
    // Between tiles: what a part folded stays folded.
    let of_tile = lines.len() / 4;
    for cuts in [vec![0, of_tile, lines.len()], vec![0, of_tile, of_tile * 2, of_tile * 3, lines.len()]] {
        let part = |(number, cut): (usize, &[usize])| {
            let name = format!("{}-{number}", cuts.len());
            roll(&name, &[log(&name, &lines[cut[0]..cut[1]])]).0
        };
        let parts: Vec<String> = cuts.windows(2).enumerate().map(part).collect();
        let (_, joined) = roll(&format!("{}", cuts.len()), &parts);
        for (name, whole) in all.as_object().unwrap() {
            assert_eq!(joined[name], *whole, "{name}, cut at {cuts:?}");
        }
    }
}

/// Columns that rows of one tile add up to, by table.
const SUMS: [(&str, &[&str]); 8] = [
    ("traffic", &["requests", "open", "latency_sum", "lifetime_sum", "bodies", "body_bytes", "body_items", "etcd_us"]),
    ("pulse", &["starts", "ends", "errors", "throttled"]),
    ("sequences", &["count", "gaps_sum"]),
    ("sources", &["requests"]),
    ("omitted", &["count"]),
    ("cascades", &["objects", "collections"]),
    ("refusals", &["count"]),
    ("failures", &["count"]),
];

#[test]
fn folding_a_large_fleet_keeps_sums_and_what_it_keeps() {
    let home = folder();
    let log = home.path().join("fleet.log");
    let ran = std::process::Command::new(python())
        .arg(root().join("benches/make_logs.py"))
        .args(["fleet", "--size", "20MB"])
        .arg(&log)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let log = std::fs::read_to_string(log).unwrap();
    let lines = sample_lines(&log);
    let whole_of = |rows: Option<usize>| {
        let mut part = Part::new(1).with_seams();
        if let Some(rows) = rows {
            part = part.fold_to(rows);
        }
        for chunk in lines.chunks(900) {
            part.take(0, batch(chunk, &stream(0)));
        }
        part.end(0);
        text(&part.finish())
    };
    let (all, folded) = (whole_of(None), whole_of(Some(30)));
    for (name, sums) in SUMS {
        let spec = TABLES.iter().find(|spec| spec.name == name).unwrap();
        let column = |wanted: &str| spec.columns.iter().position(|column| *column == wanted).unwrap();
        let is_other = |row: &&Vec<String>| row[1..spec.key].iter().all(|text| text == "(other)");
        for sum in sums {
            let by_tile = |tables: &Tables| {
                let mut by: BTreeMap<String, u64> = BTreeMap::new();
                for row in &tables[name] {
                    *by.entry(row[0].clone()).or_default() += row[column(sum)].parse::<u64>().unwrap();
                }
                by
            };
            assert_eq!(by_tile(&folded), by_tile(&all), "{name}: {sum}");
        }
        let known: std::collections::HashSet<&Vec<String>> = all[name].iter().collect();
        let kept = folded[name].iter().filter(|row| !is_other(row));
        for row in kept.clone() {
            // Requests that are open at the end are known late, and count beside what was folded.
            let is_open = name == "traffic" && row[14] != "0";
            assert!(is_open || known.contains(row), "{name}: {row:?}");
        }
        // The largest are kept, and something was folded where there was much.
        if ["traffic", "pulse", "sequences", "sources", "cascades"].contains(&name) {
            assert!(kept.count() < known.len(), "{name}");
            assert!(folded[name].iter().any(|row| is_other(&row)), "{name}");
        }
    }
    // What has no tiles, and what is not folded, is the same.
    for name in ["load", "operations", "created", "leases", "writes", "alternations", "notable", "clients", "nodes"] {
        assert_eq!(folded[name], all[name], "{name}");
    }
    let of_load: u64 = folded["load"].iter().map(|row| row[5].parse::<u64>().unwrap()).sum();
    let of_traffic: u64 = all["traffic"].iter().map(|row| row[13].parse::<u64>().unwrap()).sum();
    assert!(of_load == of_traffic && of_load > 10_000, "{of_load} {of_traffic}");
}
