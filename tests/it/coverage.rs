//! `coverage.audit_vs_metrics`: what share of the requests that the apiservers counted is in the audit log
//! (docs/metrics.md, section 6). The log is counted a second time by DuckDB, the pages by
//! `tests/oracle/etcd_health.py`.

use crate::support::{count, feed, folder, none, number, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Reads `[{"metrics": FOLDER, "instance": NAME, "logs": [FILE…]}…]`, prints what the comparison should say.
const TRUTH: &str = r#"
import collections, duckdb, etcd_health, json, sys
SQL = """
    WITH event AS (
        SELECT verb, objectRef->>'resource' AS resource, epoch_us(stageTimestamp::TIMESTAMPTZ) / 1e6 AS ended FROM read_json($logs,
            format = 'newline_delimited', columns = {stage: 'VARCHAR', verb: 'VARCHAR', objectRef: 'JSON', responseStatus: 'JSON',
                annotations: 'JSON', stageTimestamp: 'VARCHAR'})
        WHERE stage IN ('ResponseComplete', 'Panic') AND coalesce(objectRef->>'resource', '') <> '' AND verb <> 'connect'
            AND coalesce(objectRef->>'subresource', '') NOT IN ('exec', 'attach', 'portforward', 'proxy', 'log')
            AND coalesce(responseStatus->>'code', '') <> '401'
            AND coalesce(annotations->>'$."authorization.k8s.io/decision"', '') <> 'forbid')
    SELECT verb, resource, count(*) FILTER (within), count(*) FILTER (NOT within AND nearly) FROM (
        SELECT verb, resource,
            len(list_filter($spans, lambda s: ended > s[1] AND ended <= s[2])) > 0 AS within,
            len(list_filter($spans, lambda s: ended > s[1] - 1 AND ended <= s[2] + 1)) > 0 AS nearly FROM event)
    GROUP BY ALL"""
ENDS = """
    SELECT min(ended), max(ended) FROM (SELECT epoch_us(stageTimestamp::TIMESTAMPTZ) / 1e6 AS ended FROM read_json($logs,
        format = 'newline_delimited', columns = {stage: 'VARCHAR', stageTimestamp: 'VARCHAR'}) WHERE stage <> 'RequestReceived')"""
kinds, seconds = collections.defaultdict(lambda: [0, 0, 0.0]), []
for pair in json.load(sys.stdin):
    spans = etcd_health.requests(pair["metrics"], pair["instance"])
    first, last = duckdb.execute(ENDS, {"logs": pair["logs"]}).fetchone()
    spans = [span for span in spans if first - 5 <= span[0] and span[1] <= last + 5]
    seconds.append(sum(end - start for start, end, _ in spans))
    for _, _, found in spans:
        for verb, resource, increase in found:
            kinds[verb, resource][2] += increase
    for verb, resource, within, nearly in duckdb.execute(SQL, {"logs": pair["logs"], "spans": [[float(s), float(e)] for s, e, _ in spans]}).fetchall():
        kinds[verb, resource][0] += within
        kinds[verb, resource][1] += nearly
audit, metrics = sum(k[0] for k in kinds.values()), sum(k[2] for k in kinds.values())
missing = [{"verb": verb, "resource": resource, "audit": a, "metrics": m, "share": a / m}
           for (verb, resource), (a, nearly, m) in kinds.items() if m >= 20 and (a + nearly) / m < 0.9]
missing.sort(key=lambda k: (k["audit"] - k["metrics"], k["verb"], k["resource"]))
json.dump({"seconds": max(seconds), "audit": audit, "metrics": metrics, "share": audit / metrics, "missing": missing}, sys.stdout)
"#;

/// What the comparison of these logs with these pages should say.
fn truth(pairs: &[(&str, &str, Vec<String>)]) -> Value {
    let pairs: Vec<Value> = pairs
        .iter()
        .map(|(metrics, instance, logs)| json!({"metrics": metrics, "instance": instance, "logs": logs}))
        .collect();
    let mut command = Command::new(python());
    command.args(["-c", TRUTH]).env("PYTHONPATH", root().join("tests/oracle")).env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = feed(command, json!(pairs).to_string().as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn report(source: &str) -> Value {
    plimsoll(&["traffic", source, "-o", "json"]).json(0)
}

fn compared(source: &str) -> Value {
    report(source)["coverage"]["audit_vs_metrics"].clone()
}

/// What people are shown.
fn table(source: &str) -> String {
    plimsoll(&["traffic", source]).exits(0).stdout.clone()
}

fn differences(what: &str, mine: &Value, theirs: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |at: &str, a: &Value, b: &Value| {
        let same = match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-6,
            _ => a == b,
        };
        if !same {
            faults.push(format!("{what}: {at} is {a}, not {b}"));
        }
    };
    for field in ["seconds", "audit", "metrics", "share"] {
        check(field, &mine[field], &theirs[field]);
    }
    let kinds = |of: &Value| -> BTreeMap<String, Value> {
        let kinds = of["missing"].as_array().map(Vec::as_slice).unwrap_or_default();
        kinds.iter().map(|kind| (named(kind), kind.clone())).collect()
    };
    let (mine, theirs) = (kinds(mine), kinds(theirs));
    for name in mine.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        for field in ["audit", "metrics", "share"] {
            let of = |kinds: &BTreeMap<String, Value>| kinds.get(name).map_or(Value::Null, |kind| kind[field].clone());
            check(&format!("{field} of {name}"), &of(&mine), &of(&theirs));
        }
    }
    faults
}

/// `update leases`
fn named(kind: &Value) -> String {
    format!("{} {}", kind["verb"].as_str().unwrap(), kind["resource"].as_str().unwrap())
}

/// The logs of an instance of a sample.
fn logs(name: &str, instance: &str) -> Vec<String> {
    let folder = std::fs::read_dir(sample(&format!("{name}/audit/{instance}"))).unwrap();
    let mut files: Vec<String> = folder.map(|file| file.unwrap().path().to_str().unwrap().to_owned()).collect();
    files.sort();
    files
}

#[test]
fn the_samples_logs_show_what_their_metrics_count() {
    let mut faults = Vec::new();
    for (name, instances) in [
        ("list-storm", &["apiserver-0", "apiserver-1"][..]),
        ("overload-restart", &["apiserver-0"]),
        ("quiet", &["apiserver-0"]),
    ] {
        let metrics = sample(&format!("{name}/metrics"));
        let pairs: Vec<_> =
            instances.iter().map(|instance| (metrics.as_str(), *instance, logs(name, instance))).collect();
        let (mine, theirs) = (compared(&sample(name)), truth(&pairs));
        faults.extend(differences(name, &mine, &theirs));
        // samples/NOTES.md: they agree within 3 %.
        let share = number(&mine, "share");
        assert!((0.97..=1.03).contains(&share), "{name}: {share}");
        assert!(mine["missing"] == json!([]) && count(&mine, "audit") > 1000, "{name}: {mine}");
        let table = table(&sample(name));
        assert!(
            table.contains("The log shows")
                && table.contains("requests that the apiservers' metrics count")
                && !table.contains("hides"),
            "{table}"
        );
    }
    none(&faults);
}

/// A bundle with the metrics of a sample's instance (or others) and the lines of its log that are wanted.
struct Bundle {
    folder: tempfile::TempDir,
    log: String,
}

impl Bundle {
    fn new(name: &str, instance: &str, wanted: impl FnMut(&Value) -> bool) -> Self {
        let folder = folder();
        let mut wanted = wanted;
        let mut log = String::new();
        for file in logs(name, instance) {
            let text = String::from_utf8(zstd::decode_all(std::fs::read(file).unwrap().as_slice()).unwrap()).unwrap();
            log.extend(text.split_inclusive('\n').filter(|line| wanted(&serde_json::from_str(line).unwrap())));
        }
        let log = write(folder.path(), &format!("audit/{instance}/audit.log"), log);
        for page in std::fs::read_dir(sample(&format!("{name}/metrics/{instance}"))).unwrap() {
            let page = page.unwrap();
            let called = page.file_name().into_string().unwrap();
            write(folder.path(), &format!("metrics/{instance}/{called}"), std::fs::read(page.path()).unwrap());
        }
        Self { folder, log }
    }

    fn source(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    fn path(&self, below: &str) -> std::path::PathBuf {
        self.folder.path().join(below)
    }

    fn truth(&self, instance: &str) -> Value {
        truth(&[(self.path("metrics").to_str().unwrap(), instance, vec![self.log.clone()])])
    }
}

#[test]
fn what_a_policy_leaves_out_is_named() {
    // As the policy that Kubernetes' documentation recommends, and many providers have.
    let quiet = |event: &Value| {
        let of = &event["objectRef"];
        let reads = ["get", "list", "watch"].contains(&event["verb"].as_str().unwrap());
        of["resource"] != "leases" && !(of["resource"] == "nodes" && reads)
    };
    let bundle = Bundle::new("list-storm", "apiserver-0", quiet);
    let (mine, theirs) = (compared(bundle.source()), bundle.truth("apiserver-0"));
    none(&differences("filtered", &mine, &theirs));
    let missing = mine["missing"].as_array().unwrap();
    let names: Vec<String> = missing.iter().map(named).collect();
    for name in ["update leases", "get leases", "get nodes"] {
        assert!(names.contains(&name.to_owned()), "{name} is not in {names:?}");
    }
    assert!(names.iter().all(|name| name.ends_with(" leases") || name.ends_with(" nodes")), "{names:?}");
    assert!(
        missing
            .iter()
            .all(|kind| count(kind, "audit") == 0 && number(kind, "metrics") >= 20.0 && number(kind, "share") == 0.0),
        "{missing:?}"
    );
    assert!(
        missing.iter().map(|kind| -number(kind, "metrics")).is_sorted_by(|a, b| a <= b),
        "the most first: {missing:?}"
    );
    assert!(number(&mine, "share") < 0.95, "{mine}");
    let table = table(bundle.source());
    let updates = &missing[names.iter().position(|name| name == "update leases").unwrap()];
    let expected = format!("update leases (0 of {})", grouped(number(updates, "metrics") as u64));
    let told_at_once = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told_at_once.contains("hides") && told_at_once.contains(&expected), "{expected}: {table}");
}

fn grouped(number: u64) -> String {
    if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
}

#[test]
fn a_kind_is_missing_below_nine_tenths() {
    // Every nth update of a lease is left out: a fifth is too much, a twentieth is not.
    for (every, is_missing) in [(5, true), (20, false)] {
        let mut seen = 0;
        let bundle = Bundle::new("quiet", "apiserver-0", |event| {
            let is_update = event["objectRef"]["resource"] == "leases" && event["verb"] == "update";
            seen += usize::from(is_update);
            !(is_update && seen % every == 0)
        });
        let mine = compared(bundle.source());
        none(&differences(&format!("every {every}"), &mine, &bundle.truth("apiserver-0")));
        let names: Vec<String> = mine["missing"].as_array().unwrap().iter().map(named).collect();
        assert_eq!(names, if is_missing { vec!["update leases"] } else { vec![] }, "{mine}");
    }
}

/// What `coverage` leaves out on the log's side does not make a share.
#[test]
fn what_the_apiserver_does_not_count_does_not_count() {
    let bundle = Bundle::new("quiet", "apiserver-0", |_| true);
    let before = compared(bundle.source());
    let mut log = std::fs::read_to_string(&bundle.log).unwrap();
    // In the middle of the time that both cover.
    let event = |number: usize, verb: &str, of: &str, code: u16, more: &str| {
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"more-{number}-{verb}-{code}","stage":"ResponseComplete","requestURI":"/x","verb":"{verb}","user":{{"username":"u"}},"userAgent":"a",{of}"responseStatus":{{"code":{code}}},"requestReceivedTimestamp":"2026-11-20T09:44:00.000000Z","stageTimestamp":"2026-11-20T09:44:00.{number:06}Z"{more}}}"#
        ) + "\n"
    };
    let pods = r#""objectRef":{"resource":"pods","namespace":"web","name":"p","apiVersion":"v1"},"#;
    for number in 0..50 {
        log += &event(
            number,
            "get",
            pods,
            403,
            r#","annotations":{"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":""}"#,
        );
        log += &event(number, "get", pods, 401, "");
        log += &event(number, "get", "", 200, "");
        for subresource in ["exec", "attach", "portforward", "proxy", "log"] {
            let of = pods.replace(r#""apiVersion""#, &format!(r#""subresource":"{subresource}","apiVersion""#));
            log += &event(number, "create", &of, 101, "");
        }
    }
    std::fs::write(&bundle.log, &log).unwrap();
    assert_eq!(compared(bundle.source()), before);
    // A 403 of admission is counted: here the apiserver had come so far.
    for number in 0..50 {
        log += &event(number, "create", pods, 403, r#","annotations":{"authorization.k8s.io/decision":"allow"}"#);
    }
    std::fs::write(&bundle.log, &log).unwrap();
    assert_eq!(count(&compared(bundle.source()), "audit"), count(&before, "audit") + 50);
}

#[test]
fn where_there_is_nothing_to_compare_nothing_is_said() {
    let not_compared = |source: &str| {
        let ran = report(source);
        assert!(
            ran["coverage"].as_object().unwrap().contains_key("audit_vs_metrics")
                && ran["coverage"]["audit_vs_metrics"].is_null(),
            "{source}"
        );
        assert_eq!(ran["coverage"]["source"], "audit");
        let table = table(source);
        assert!(!table.contains("metrics") && !table.contains("hides"), "{table}");
    };
    // Audit logs only.
    not_compared(&sample("quiet/audit"));
    let bundle = Bundle::new("quiet", "apiserver-0", |_| true);
    assert!(compared(bundle.source()).is_object());
    // Pages of another instance.
    std::fs::rename(bundle.path("metrics/apiserver-0"), bundle.path("metrics/apiserver-1")).unwrap();
    not_compared(bundle.source());
    // One page only: nothing was counted between pages.
    let only = folder();
    write(only.path(), "audit/apiserver-0/audit.log", sample_bytes("quiet/audit/apiserver-0/audit.log.zst"));
    write(
        only.path(),
        "metrics/apiserver-0/1795167967.txt",
        sample_bytes("quiet/metrics/apiserver-0/1795167967.txt.zst"),
    );
    not_compared(only.path().to_str().unwrap());
}

#[test]
fn metrics_of_another_cluster_are_not_compared() {
    let bundle = |cluster: &str, what: &str| {
        let folder = folder();
        write(folder.path(), "bundle.yaml", format!("cluster: {cluster}\n"));
        match what {
            "audit" => drop(write(
                folder.path(),
                "audit/apiserver-0/audit.log",
                sample_bytes("quiet/audit/apiserver-0/audit.log.zst"),
            )),
            _ => {
                for time in [1_795_167_727, 1_795_167_967] {
                    let page = sample_bytes(&format!("quiet/metrics/apiserver-0/{time}.txt.zst"));
                    write(folder.path(), &format!("metrics/apiserver-0/{time}.txt"), page);
                }
            }
        }
        folder
    };
    let log = bundle("one", "audit");
    for (cluster, is_compared) in [("one", true), ("two", false)] {
        let metrics = bundle(cluster, "metrics");
        let of = |folder: &tempfile::TempDir| folder.path().to_str().unwrap().to_owned();
        let ran = plimsoll(&["traffic", &of(&log), &of(&metrics), "-o", "json"]).json(0);
        assert_eq!(ran["coverage"]["audit_vs_metrics"].is_object(), is_compared, "{cluster}: {}", ran["coverage"]);
    }
}

/// Renames the pages as if they had been taken at another time.
fn shift(folder: &Path, seconds: i64) {
    for page in std::fs::read_dir(folder).unwrap() {
        let page = page.unwrap();
        let name = page.file_name().into_string().unwrap();
        let (time, rest) = name.split_once('.').unwrap();
        std::fs::rename(page.path(), folder.join(format!("{}.{rest}", time.parse::<i64>().unwrap() + seconds)))
            .unwrap();
    }
}

/// A log that was not being written while the pages were taken hides nothing: no share of it can be determined.
#[test]
fn pages_of_another_time_accuse_no_policy() {
    let mut faults = Vec::new();
    for (what, seconds) in [("a day later", 86_400), ("a day earlier", -86_400)] {
        let bundle = Bundle::new("quiet", "apiserver-0", |_| true);
        shift(&bundle.path("metrics/apiserver-0"), seconds);
        let (mine, table) = (compared(bundle.source()), table(bundle.source()));
        if mine["missing"].as_array().is_some_and(|missing| !missing.is_empty()) {
            faults
                .push(format!("pages {what}: {} kinds are called missing", mine["missing"].as_array().unwrap().len()));
        }
        if table.contains("hides") {
            faults.push(format!("pages {what}: {}", table.lines().find(|line| line.contains("hides")).unwrap()));
        }
    }
    // The log begins, or ends, in the middle of the time of the pages; it lacks nothing while it lasts.
    const MIDDLE: &str = "2026-11-20T09:44:07";
    for (what, wanted) in [("later", (|time| time >= MIDDLE) as fn(&str) -> bool), ("earlier", |time| time < MIDDLE)] {
        let bundle = Bundle::new("quiet", "apiserver-0", |event| wanted(event["stageTimestamp"].as_str().unwrap()));
        let mine = compared(bundle.source());
        faults.extend(differences(what, &mine, &bundle.truth("apiserver-0")));
        let names: Vec<String> =
            mine["missing"].as_array().map(|missing| missing.iter().map(named).collect()).unwrap_or_default();
        if !names.is_empty() {
            faults.push(format!("a log that {what}: {names:?} are called missing; {mine}"));
        }
    }
    none(&faults);
}

#[test]
fn from_metrics_reads_the_metrics_of_a_bundle() {
    let ran = plimsoll(&["traffic", &sample("quiet"), "--from", "metrics", "-o", "json"]).json(0);
    assert_eq!(ran["coverage"]["source"], "metrics");
    assert!(ran["inputs"].as_array().unwrap().iter().all(|input| input["kind"] == "metrics"), "{}", ran["inputs"]);
    assert!(ran["coverage"]["audit_vs_metrics"].is_null());
    // More than the log is compared with: requests for no resource and connects are counted, too.
    assert!(number(&ran["totals"], "requests") >= number(&compared(&sample("quiet")), "metrics"));
    let table = plimsoll(&["traffic", &sample("quiet"), "--from", "metrics"]);
    assert!(!table.exits(0).stdout.contains("No audit log was found"), "there is one: {}", table.stdout);
    let ran = plimsoll(&["traffic", &sample("quiet"), "--from", "audit", "-o", "json"]).json(0);
    assert!(
        ran["coverage"]["audit_vs_metrics"].is_null() && ran["coverage"]["source"] == "audit",
        "--from audit reads no metrics"
    );
}

#[test]
fn a_folder_without_either_or_with_metrics_only() {
    let folder = folder();
    write(folder.path(), "neither/notes.txt", "nothing to see\n");
    write(folder.path(), "neither/data.json", "{\"a\": 1}\n");
    let neither = folder.path().join("neither");
    for more in [&[][..], &["--from", "metrics"], &["--from", "audit"]] {
        let ran = plimsoll(&[&["traffic", neither.to_str().unwrap()], more].concat());
        assert!(ran.exits(3).stdout.is_empty(), "{}", ran.stdout);
        assert!(
            ran.stderr.contains("neither: ") && ran.stderr.contains(" audit") | ran.stderr.contains("metrics"),
            "{}",
            ran.stderr
        );
    }
    for more in [&[][..], &["--from", "metrics"]] {
        let ran = plimsoll(&[&["traffic", &sample("quiet/metrics")], more].concat());
        let message = ran.exits(0).stdout.contains("No audit log in ");
        assert_eq!((message, ran.stderr.as_str()), (more.is_empty(), ""), "{}", ran.stdout);
        assert!(ran.stdout.contains("apiserver"), "{}", ran.stdout);
    }
    let ran = plimsoll(&["traffic", &sample("quiet/metrics"), "--from", "audit"]);
    assert!(ran.exits(3).stderr.contains("audit"), "{}", ran.stderr);
}
