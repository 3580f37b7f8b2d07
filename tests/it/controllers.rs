//! What `plimsoll controllers` says, against `tests/oracle/controllers.py`: pages, pods and leases read by Python; and
//! what the bundle's own script did (`samples/controllers/README.md`).

use crate::support::{feed, folder, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::{Value, json};
use std::process::Command;

fn oracle(args: &[&str]) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/controllers.py")).args(args);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn controllers(args: &[&str]) -> Value {
    plimsoll(&[&["controllers"], args, &["-o", "json"]].concat()).json(0)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn rows<'v>(report: &'v Value, table: &str) -> &'v [Value] {
    let rows = if table == "queues" { &report["rows"] } else { &report["tables"][table] };
    rows.as_array().unwrap_or_else(|| panic!("no {table}"))
}

/// Compares the fields of `theirs` with those of `mine`.
fn equal(mine: &Value, theirs: &Value, what: &str) {
    for (field, value) in theirs.as_object().unwrap() {
        match value {
            Value::Null => assert!(mine[field].is_null(), "{what} {field}: {mine}"),
            _ => {
                let (mine, theirs) = (number(&mine[field]), number(value));
                assert!((mine - theirs).abs() <= 1e-6 + 1e-6 * theirs.abs(), "{what} {field}: {mine}, not {theirs}");
            }
        }
    }
}

fn findings<'v>(report: &'v Value, id: &str) -> Vec<&'v Value> {
    report["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id).collect()
}

#[test]
fn queues_attempts_and_calls_are_those_that_python_counts() {
    let bundle = sample("controllers");
    let report = controllers(&[&bundle]);
    let theirs = oracle(&["metrics", &format!("{bundle}/metrics")]);
    for (table, key, member) in
        [("queues", "queue", "queues"), ("attempts", "result", "attempts"), ("stages", "stage", "stages")]
    {
        let all: usize = theirs
            .as_object()
            .unwrap()
            .values()
            .filter_map(|process| Some(process.get(member)?.as_object()?.len()))
            .sum();
        assert_eq!(rows(&report, table).len(), all, "{table}");
        for row in rows(&report, table) {
            let process = row["instance"].as_str().unwrap();
            equal(
                row,
                &theirs[process][member][row[key].as_str().unwrap()],
                &format!("{process} {} {}", table, row[key]),
            );
        }
    }
    for row in rows(&report, "calls") {
        equal(row, &theirs[row["instance"].as_str().unwrap()]["calls"], "calls");
    }
    assert_eq!(rows(&report, "calls").len(), 4);
    // Pods that wait are those of whoever led: first a, then b, then a again.
    let (a, b) = (&theirs["kube-scheduler-a"], &theirs["kube-scheduler-b"]);
    let leads = if number(&a["last"]) > number(&b["last"]) { a } else { b };
    for row in rows(&report, "pending") {
        let queue = row["pod_queue"].as_str().unwrap();
        let levels = |process: &Value| -> Vec<f64> {
            process["pending"][queue].as_array().unwrap().iter().map(number).collect()
        };
        assert_eq!(row["pods"].as_f64(), levels(leads).last().copied(), "{queue}");
        assert_eq!(row["pods_peak"].as_f64(), levels(a).into_iter().chain(levels(b)).reduce(f64::max), "{queue}");
        // What came in counts where whoever saw it led.
        let came: f64 = [a, b].iter().map(|process| process["came_in"].get(queue).map_or(0.0, number)).sum();
        let seconds = number(&a["seconds"]).max(number(&b["seconds"]));
        assert!((row["incoming_per_s"].as_f64().unwrap_or(0.0) - came / seconds).abs() < 1e-6, "{queue}: {row} {came}");
        assert_eq!(row["pods_course"].as_array().unwrap().len(), levels(a).len() + levels(b).len());
    }
    assert_eq!(rows(&report, "pending").len(), 4);
    let (sum, count) = [a, b].iter().fold((0.0, 0.0), |(sum, count), own| {
        (sum + number(&own["algorithm"][0]), count + number(&own["algorithm"][1]))
    });
    assert!((number(&report["scheduler"]["algorithm_mean_ms"]) - sum / count * 1e3).abs() < 1e-5);
    let p99 = number(&theirs["all"]["sli_p99_ms"]);
    assert!(
        (number(&report["scheduler"]["pod_scheduling_p99_ms"]) - p99).abs() < 1e-5,
        "{} {p99}",
        report["scheduler"]
    );
    assert!(
        (number(&report["scheduler"]["pod_scheduling_mean_ms"]) - number(&theirs["all"]["sli_mean_ms"])).abs() < 1e-5
    );
    // What the capture's script did: a controller manager that may send 20 requests a second got 120 deployments at
    // once.
    let held: Vec<&str> = findings(&report, "client-side-throttling")
        .iter()
        .map(|one| one["subject"]["instance"].as_str().unwrap())
        .collect();
    assert_eq!(held, ["kube-controller-manager-a", "kube-controller-manager-b"]);
    let behind = findings(&report, "queue-behind");
    assert_eq!(behind[0]["subject"]["queue"], "deployment");
    assert!(behind.iter().all(|one| one["severity"] == "info"), "all of it was done in the end");
    assert_eq!(findings(&report, "scheduler-unschedulable").len(), 1);
    assert_eq!(findings(&report, "leader-missing").len(), 0);
}

#[test]
fn pods_without_a_node_are_as_many_kinds_as_python_finds() {
    let bundle = sample("controllers");
    let report = controllers(&[&bundle]);
    let file = std::fs::read_dir(sample("controllers/objects")).unwrap().next().unwrap().unwrap().path();
    let theirs = oracle(&["kinds", &file.display().to_string()]);
    for name in
        ["pods", "pods_waiting", "pods_gated", "pods_apart", "kinds", "decisions_distinct", "decisions_in_order"]
    {
        assert_eq!(report["totals"][name], theirs[name], "{name}");
    }
    let mut sizes: Vec<Value> = rows(&report, "kinds").iter().map(|row| json!([row["pods"], row["gated"]])).collect();
    sizes.sort_by_key(|size| (size[0].as_u64(), size[1].as_u64()));
    assert_eq!(json!(sizes), theirs["sizes"]);
    // By capture.py: 40 pods that want a disk no node has, 12 gated, 8 of a scheduler that is not there, 10 of 50 that
    // must be apart on 40 nodes.
    let of = |pods: u64| {
        rows(&report, "kinds").iter().find(|row| row["pods"] == pods).unwrap_or_else(|| panic!("no kind of {pods}"))
    };
    assert_eq!((&of(12)["gated"], &of(12)["reason"]), (&json!(12), &json!("SchedulingGated")));
    assert_eq!((&of(8)["scheduler"], &of(8)["reason"]), (&json!("batch-scheduler"), &json!("")));
    assert_eq!((&of(10)["decided_apart"], &of(40)["asks"]), (&json!("pod-affinity"), &json!("cpu 100m, memory 64Mi")));
    let absent = findings(&report, "scheduler-absent");
    assert_eq!((absent.len(), &absent[0]["subject"]["scheduler"]), (1, &json!("batch-scheduler")));
    let alike = findings(&report, "pending-alike");
    assert_eq!(
        (&alike[0]["evidence"]["pods"], &alike[0]["evidence"]["distinct"]),
        (&theirs["pods_waiting"], &theirs["decisions_distinct"])
    );
    // A file of pods alone, in whatever order and form, says the same.
    let dir = folder();
    let name = format!("controllers/objects/{}", file.file_name().unwrap().to_str().unwrap());
    let mut list: Value = serde_json::from_slice(&sample_bytes(&name)).unwrap();
    list["items"].as_array_mut().unwrap().reverse();
    let alone = controllers(&[&write(dir.path(), "pods.json", serde_json::to_string_pretty(&list).unwrap())]);
    assert_eq!(alone["tables"]["kinds"].as_array().unwrap().len(), 5);
    assert_eq!(
        (&alone["totals"]["decisions_distinct"], &alone["totals"]["decisions_in_order"]),
        (&theirs["decisions_distinct"], &theirs["decisions_in_order"])
    );
}

#[test]
fn leases_change_hands_when_the_log_says_so() {
    let log = sample("controllers/audit/apiserver-0/audit.log.zst");
    let theirs = oracle(&["leases", &log]);
    let expected = theirs.as_array().unwrap();
    // capture.py killed a scheduler, ended a controller manager, and ended the other scheduler, which gave its lease
    // up.
    assert_eq!(expected.iter().map(|one| one["released"].as_bool().unwrap()).collect::<Vec<_>>(), [false, false, true]);
    let dir = folder();
    let copy = |name: &str, text: &str| write(dir.path(), name, text);
    let text = String::from_utf8(sample_bytes("controllers/audit/apiserver-0/audit.log.zst")).unwrap();
    // The same as one EventList a line, as two logs of two apiservers, and read by one thread.
    let lists: String = text
        .lines()
        .map(|line| {
            format!(
                "{{\"kind\":\"EventList\",\"apiVersion\":\"audit.k8s.io/v1\",\"metadata\":{{}},\"items\":[{line}]}}\n"
            )
        })
        .collect();
    let (odd, even): (Vec<_>, Vec<_>) = text.lines().enumerate().partition(|(number, _)| number % 2 == 1);
    let join = |lines: &[(usize, &str)]| lines.iter().map(|(_, line)| format!("{line}\n")).collect::<String>();
    let two = dir.path().join("two");
    for (name, lines) in [("apiserver-0", &odd), ("apiserver-1", &even)] {
        write(&two, &format!("{name}/audit.log"), join(lines));
    }
    let ways: [Vec<String>; 4] = [
        vec![log.clone()],
        vec![copy("lists.log", &lists)],
        vec![two.display().to_string()],
        vec![log.clone(), "--threads".to_owned(), "1".to_owned()],
    ];
    for way in &ways {
        let report = controllers(&way.iter().map(String::as_str).collect::<Vec<_>>());
        let mine = rows(&report, "handovers");
        assert_eq!(mine.len(), expected.len(), "{way:?}");
        for (mine, theirs) in mine.iter().zip(expected) {
            assert_eq!(
                (&mine["lease"], &mine["from_holder"], &mine["to_holder"]),
                (&theirs["lease"], &theirs["from"], &theirs["to"])
            );
            assert!((number(&mine["gap_s"]) - number(&theirs["gap_s"])).abs() < 2e-6, "{mine} {theirs}");
            assert_eq!(mine["released"], if theirs["released"] == true { "given up" } else { "ran out" });
        }
        assert_eq!(report["totals"]["handovers"], 3);
    }
    // Without bodies holders are addresses: all processes of this bundle have one, so nothing is seen to change, and
    // nothing is invented.
    let bare: String = text
        .lines()
        .map(|line| {
            let mut event: Value = serde_json::from_str(line).unwrap();
            let members = event.as_object_mut().unwrap();
            members.remove("requestObject");
            members.remove("responseObject");
            members.insert("level".to_owned(), json!("Metadata"));
            // From the first lease's end on another address writes, to report by.
            let at = members["requestReceivedTimestamp"].as_str().unwrap().to_owned();
            if at.as_str() >= "2026-11-22T20:12:30"
                && members.get("objectRef").is_some_and(|of| of["name"] == "kube-controller-manager")
            {
                members.insert("sourceIPs".to_owned(), json!(["10.0.0.7"]));
            }
            format!("{event}\n")
        })
        .collect();
    let report = controllers(&[&copy("bare.log", &bare)]);
    let [only] = rows(&report, "handovers") else { panic!("{}", report["tables"]["handovers"]) };
    assert_eq!(
        (&only["to_holder"], &only["released"], &only["lease"]),
        (&json!("10.0.0.7"), &Value::Null, &json!("kube-controller-manager"))
    );
    assert!((number(&only["gap_s"]) - number(&expected[1]["gap_s"])).abs() < 2e-6);
}

/// A page of a controller with one queue.
fn page(start: u64, depth: u64, adds: u64, waits: (f64, u64), more: &str) -> String {
    format!(
        "process_start_time_seconds {start}\nworkqueue_depth{{name=\"thing\"}} \
         {depth}\nworkqueue_adds_total{{name=\"thing\"}} {adds}\nworkqueue_retries_total{{name=\"thing\"}} {adds}\n\
         workqueue_queue_duration_seconds_bucket{{name=\"thing\",le=\"+Inf\"}} \
         {count}\nworkqueue_queue_duration_seconds_sum{{name=\"thing\"}} \
         {sum}\nworkqueue_queue_duration_seconds_count{{name=\"thing\"}} {count}\n\
         workqueue_work_duration_seconds_bucket{{name=\"thing\",le=\"+Inf\"}} \
         {count}\nworkqueue_work_duration_seconds_sum{{name=\"thing\"}} \
         {count}\nworkqueue_work_duration_seconds_count{{name=\"thing\"}} {count}\n{more}",
        sum = waits.0,
        count = waits.1
    )
}

#[test]
fn a_queue_that_grows_is_critical_and_one_at_rest_is_nothing() {
    let dir = folder();
    for n in 0..12_u64 {
        let longest = format!("workqueue_longest_running_processor_seconds{{name=\"thing\"}} {}\n", 100 + n * 10);
        let text = page(1_000_000_000, 200 * n, 100 * n, (2000.0 * n as f64, 50 * n), &longest);
        write(dir.path(), &format!("{}.txt", 1_795_000_000 + 10 * n), text);
    }
    let path = dir.path().display().to_string();
    let report = controllers(&[&path]);
    let [behind] = findings(&report, "queue-behind")[..] else { panic!("{}", report["findings"]) };
    assert_eq!(
        (&behind["severity"], &behind["evidence"]["depth"], &behind["evidence"]["depth_per_minute"]),
        (&json!("critical"), &json!(2200.0), &json!(1200.0))
    );
    // Five items are done each second: 2,200 take 440 s.
    assert!((number(&behind["evidence"]["drain_s"]) - 440.0).abs() < 1e-6);
    assert_eq!(findings(&report, "queue-stuck").len(), 1);
    assert_eq!(findings(&report, "queue-retries").len(), 1);
    plimsoll(&["controllers", &path, "--fail-on", "critical"]).exits(1);
    // One that nobody works off has no wait that could be known: items wait, and nothing is done.
    let left = folder();
    for n in 0..6_u64 {
        write(
            left.path(),
            &format!("{}.txt", 1_795_000_000 + 10 * n),
            page(1_000_000_000, 5_000 + n, 100 + n, (0.0, 0), ""),
        );
    }
    let report = controllers(&[&left.path().display().to_string()]);
    let [stuck] = findings(&report, "queue-stalled")[..] else { panic!("{}", report["findings"]) };
    assert_eq!((&stuck["severity"], &stuck["evidence"]["depth"]), (&json!("critical"), &json!(5005.0)));
    let still = folder();
    for n in 0..12_u64 {
        let text = page(
            1_000_000_000,
            0,
            100 * n,
            (0.001 * n as f64, 100 * n),
            "workqueue_longest_running_processor_seconds{name=\"thing\"} 0\n",
        );
        write(still.path(), &format!("{}.txt", 1_795_000_000 + 10 * n), text);
    }
    let report = controllers(&[&still.path().display().to_string()]);
    assert_eq!(findings(&report, "queue-behind").len() + findings(&report, "queue-stuck").len(), 0);
}

#[test]
fn nobody_who_leads_is_told_and_two_pages_of_old_leaders_are_not_two_leaders() {
    let lead = |leads: u64| {
        format!(
            "process_start_time_seconds 1000000000\nleader_election_master_status{{name=\"kube-scheduler\"}} \
             {leads}\nscheduler_pending_pods{{queue=\"active\"}} 0\n"
        )
    };
    let dir = folder();
    for (process, pages) in [("a", [1, 1, 1, 9, 9, 9]), ("b", [0, 0, 0, 0, 1, 1])] {
        for (n, leads) in pages.into_iter().enumerate().filter(|(_, leads)| *leads < 9) {
            write(dir.path(), &format!("{process}/{}.txt", 1_795_000_000 + 10 * n), lead(leads));
        }
    }
    let report = controllers(&[&dir.path().display().to_string()]);
    let [election] = rows(&report, "leaders") else { panic!("{}", report["tables"]["leaders"]) };
    assert_eq!((&election["holder"], &election["candidates"]), (&json!("b"), &json!(2)));
    assert!(findings(&report, "leader-missing").is_empty());
    write(dir.path(), "b/1795000060.txt", lead(0));
    let report = controllers(&[&dir.path().display().to_string()]);
    assert_eq!(findings(&report, "leader-missing")[0]["severity"], "critical");
    // A last page that breaks off before it says who leads takes nobody's lead away.
    write(dir.path(), "b/1795000060.txt", lead(1));
    write(dir.path(), "b/1795000070.txt", "process_start_time_seconds 1000000000\n");
    let report = controllers(&[&dir.path().display().to_string()]);
    assert_eq!(rows(&report, "leaders")[0]["holder"], "b");
    // Two programs in one folder, started within a second of one another, are two processes.
    let both = folder();
    let other = "process_start_time_seconds 1000000001\n\
        leader_election_master_status{name=\"kube-controller-manager\"} 1\nworkqueue_depth{name=\"q\"} 3\n\
        workqueue_adds_total{name=\"q\"} 9\n";
    write(both.path(), "scheduler-1795000000.txt", lead(1));
    write(both.path(), "manager-1795000001.txt", other);
    let report = controllers(&[&both.path().display().to_string()]);
    let leads: Vec<(&Value, bool)> =
        rows(&report, "leaders").iter().map(|row| (&row["lease"], row["holder"].is_string())).collect();
    assert_eq!(leads, [(&json!("kube-controller-manager"), true), (&json!("kube-scheduler"), true)]);
}

/// Logs of one lease, written by hand: who, when (s), and the body.
fn lease_log(writes: &[(u64, &str, &str, Value)]) -> String {
    let event = |(second, verb, source, body): &(u64, &str, &str, Value)| {
        let at = format!("2026-11-22T20:{:02}:{:02}.000000Z", second / 60, second % 60);
        json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request",
            "auditID": format!("id-{second}-{source}"), "stage": "ResponseComplete",
            "requestURI": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l", "verb": verb,
            "user": {"username": "u"}, "sourceIPs": [source], "userAgent": "x/v1",
            "objectRef": {"resource": "leases", "namespace": "kube-system", "name": "l",
            "apiGroup": "coordination.k8s.io", "apiVersion": "v1"},
            "responseStatus": {"code": 200}, "requestObject": body, "requestReceivedTimestamp": at,
            "stageTimestamp": at})
    };
    writes.iter().map(|write| format!("{}\n", event(write))).collect()
}

#[test]
fn a_lease_that_ran_out_is_a_leader_missing() {
    let held = |name: &str| {
        json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": name, "renewTime": "x",
        "leaseDurationSeconds": 15}})
    };
    let long =
        |name: &str| json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 3600}});
    let dir = folder();
    // Something else goes on being logged.
    let other = lease_log(&[(320, "update", "9", held("z"))])
        .replace("leases/l", "leases/m")
        .replace(r#""name":"l""#, r#""name":"m""#);
    let judged = |name: &str, text: String| {
        let report = controllers(&[&write(dir.path(), name, text)]);
        let missing = findings(&report, "leader-missing");
        let leaders = rows(&report, "leaders");
        let l = leaders.iter().find(|row| row["lease"] == "l").unwrap();
        (missing.len(), missing.first().map(|one| one["severity"].clone()), l["holder"].clone())
    };
    let renewed: Vec<_> = [0, 2, 4].map(|at| (at, "update", "1", held("a"))).to_vec();
    assert_eq!(judged("dead.log", lease_log(&renewed) + &other), (1, Some(json!("critical")), Value::Null));
    let until: Vec<_> = (0..100).map(|at| (at * 3, "update", "1", held("a"))).collect();
    assert_eq!(judged("alive.log", lease_log(&until) + &other.replace("20:05:20", "20:04:59")).0, 0);
    let identity: Vec<_> = [0, 2, 4].map(|at| (at, "update", "1", long("a"))).to_vec();
    assert_eq!(judged("long.log", lease_log(&identity) + &other), (0, None, json!("a")), "an hour is not over");
    // One of two logs ends early: what comes later may be in neither.
    write(dir.path(), "two/apiserver-0/audit.log", lease_log(&renewed));
    write(dir.path(), "two/apiserver-1/audit.log", &other);
    let report = controllers(&[dir.path().join("two").to_str().unwrap()]);
    assert_eq!(findings(&report, "leader-missing").len(), 0);
}

#[test]
fn leases_that_are_given_up_patched_and_labelled() {
    let held = |name: &str| json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": name, "renewTime": "x"}});
    let dir = folder();
    let judged = |name: &str, writes: &[(u64, &str, &str, Value)]| {
        let report = controllers(&[&write(dir.path(), name, lease_log(writes))]);
        let of = |row: &Value| {
            (
                row["from_holder"].as_str().unwrap().to_owned(),
                row["to_holder"].as_str().unwrap().to_owned(),
                number(&row["gap_s"]),
                row["released"].clone(),
            )
        };
        let judged: Vec<_> = rows(&report, "handovers").iter().map(of).collect();
        (judged, rows(&report, "leaders")[0]["renewals"].clone(), findings(&report, "leader-gap").len())
    };
    let (a, b) = ("a".to_owned(), "b".to_owned());
    // Given up, and taken again three minutes later by the same.
    let again = [(0, "update", "1", held("a")), (20, "update", "1", held("")), (200, "update", "1", held("a"))];
    assert_eq!(judged("again.log", &again), (vec![(a.clone(), a.clone(), 180.0, json!("given up"))], json!(3), 1));
    // Patches of all kinds say who holds it, or renew; a label does neither.
    let patches = [
        (0, "update", "1", held("a")),
        (2, "patch", "9", json!({"metadata": {"labels": {"x": "y"}}})),
        (4, "patch", "1", json!({"spec": {"renewTime": "x"}})),
        (10, "patch", "1", json!([{"op": "replace", "path": "/spec/holderIdentity", "value": "b"}])),
        (12, "patch", "1", json!({"spec": {"holderIdentity": "b", "renewTime": "x"}})),
        (14, "update", "1", held("b")),
    ];
    assert_eq!(judged("patches.log", &patches), (vec![(a, b, 6.0, json!("ran out"))], json!(5), 0));
}

#[test]
fn what_is_not_there_is_said() {
    let dir = folder();
    let ran = plimsoll(&["controllers", &write(dir.path(), "words.txt", "nothing of the kind\n")]);
    ran.exits(3);
    assert!(ran.stderr.contains("no metrics page, audit log or pods"), "{}", ran.stderr);
    // A cluster in which no pod waits.
    let empty = write(dir.path(), "pods.json", r#"{"apiVersion":"v1","kind":"List","items":[]}"#);
    let ran = plimsoll(&["controllers", &empty]);
    assert!(ran.exits(0).stdout.contains("0 pods, none pending for a node"), "{}", ran.stdout);
    plimsoll(&["controllers"]).exits(2);
    plimsoll(&["controllers", &sample("controllers"), "--sort-by", "depth"]).exits(2);
    // An apiserver has work queues too, and a quiet one has nothing wrong with them.
    let report = controllers(&[&sample("quiet")]);
    assert_eq!(
        report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["id"].as_str().unwrap().starts_with("queue-"))
            .count(),
        0
    );
    assert!(!rows(&report, "queues").is_empty());
}
