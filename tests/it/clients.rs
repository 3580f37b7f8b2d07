//! `plimsoll clients`: rows beside an independent count, findings beside what the samples' notes say, thresholds.

use crate::support::{Ran, feed, folder, plimsoll, python, root, run, sample, sample_bytes, write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

const SAMPLES: [(&str, &str); 3] = [("list-storm", "lab-1"), ("overload-restart", "lab-2"), ("quiet", "lab-3")];

fn clients(args: &[&str]) -> Value {
    plimsoll(&[&["clients"], args, &["-o", "json"]].concat()).json(0)
}

fn of_sample(name: &str) -> Value {
    clients(&[&sample(name)])
}

/// Rows by client.
fn by_client(report: &Value) -> BTreeMap<[String; 3], &Value> {
    let rows = report["rows"].as_array().unwrap();
    let key = |row: &Value| ["cluster", "user", "agent"].map(|name| row["client"][name].as_str().unwrap().to_owned());
    let found: BTreeMap<_, _> = rows.iter().map(|row| (key(row), row)).collect();
    assert_eq!(found.len(), rows.len(), "two rows of one client");
    found
}

/// Counts are equal, figures that were divided to six digits, medians from histograms within 1/32.
#[track_caller]
fn same(what: &str, field: &str, ours: &Value, theirs: &Value) {
    let within = if field.ends_with("median_s") || field.ends_with("p50") { 1.0 / 31.0 } else { 1e-5 };
    let is_same = match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            assert_eq!(a.keys().collect::<BTreeSet<_>>(), b.keys().collect::<BTreeSet<_>>(), "{what} {field}");
            return a.iter().for_each(|(name, value)| same(what, &format!("{field}.{name}"), value, &b[name]));
        }
        _ => match (ours.as_f64(), theirs.as_f64()) {
            (Some(a), Some(b)) if ours.is_f64() || theirs.is_f64() => (a - b).abs() <= within * b.abs() + 1e-6,
            _ => ours == theirs,
        },
    };
    assert!(is_same, "{what} {field}: {ours} here, {theirs} there");
}

#[test]
fn rows_are_those_of_an_independent_count() {
    let mut compared = 0;
    for (sample, cluster) in SAMPLES {
        let mut command = Command::new(python());
        command.arg(root().join("tests/oracle/clients.py")).args(["--version", "v1.36.0"]);
        let pattern = root().join("samples").join(sample).join("audit/*/*");
        for file in glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap) {
            let instance = file.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
            command.arg(format!("{cluster}:{instance}={}", file.display()));
        }
        let ran = feed(command, b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let theirs: Value = serde_json::from_str(&ran.stdout).unwrap();
        let ours = of_sample(sample);
        assert_eq!(ours["totals"]["requests"], theirs["requests"]);
        let (ours, theirs) = (by_client(&ours), by_client(&theirs));
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{sample}");
        for (client, row) in &theirs {
            for (field, value) in row.as_object().unwrap().iter().filter(|(field, _)| !field.ends_with("_us")) {
                same(&format!("{sample} {client:?}"), field, &ours[client][field], value);
                compared += 1;
            }
        }
    }
    assert!(compared > 1500, "{compared}");
}

/// User, agent, finding; of those that ask for something.
fn warnings(report: &Value) -> BTreeSet<[String; 3]> {
    let found = report["findings"].as_array().unwrap().iter();
    let found = found.filter(|finding| finding["severity"] != "info" && finding["subject"].get("user").is_some());
    found
        .map(|f| {
            [&f["subject"]["user"], &f["subject"]["agent"], &f["id"]]
                .map(|text| text.as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

fn strings(list: &Value) -> Vec<Vec<String>> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()).collect()
}

fn fits(pattern: &[String], found: &[String]) -> bool {
    pattern.iter().zip(found).all(|(wanted, text)| wanted == "*" || wanted == text)
}

/// What is found of what must be, and how much of what is found is right, over all samples.
#[test]
fn culprits_are_found_and_nobody_else() {
    let truth: Value =
        serde_json::from_slice(&fs::read(root().join("tests/data/clients-truth.json")).unwrap()).unwrap();
    let (mut right, mut wanted, mut wrong) = (0, 0, Vec::new());
    let mut missing = Vec::new();
    for (sample, _) in SAMPLES {
        let answered = &truth["samples"][sample];
        let (must, may, good) =
            (strings(&answered["must"]), strings(&answered["may"]), strings(&answered["well_behaved"]));
        let found = warnings(&of_sample(sample));
        wanted += must.len();
        for pair in &must {
            match found.iter().any(|found| fits(pair, found)) {
                true => right += 1,
                false => missing.push((sample, pair.clone())),
            }
        }
        for pair in &found {
            let is_right = must.iter().chain(&may).any(|known| fits(&known[..3], pair));
            let is_judged = must.iter().chain(&good).any(|known| fits(&known[..2], pair));
            if is_judged && !is_right {
                wrong.push((sample, pair.clone()));
            }
        }
    }
    let (recall, precision) =
        (f64::from(right) / wanted as f64, f64::from(right) / (right as usize + wrong.len()) as f64);
    assert!(
        wanted >= 24 && recall >= 0.95 && precision >= 0.95,
        "recall {recall}, precision {precision}: missing {missing:?}, wrong {wrong:?}"
    );
    // What is written in the documentation.
    let listed = format!("recall {recall:.2}, precision {precision:.2}");
    assert!(
        fs::read_to_string(root().join("docs/findings.md")).unwrap().contains(&listed),
        "docs/findings.md should say: {listed}"
    );
}

/// Findings without what changes with names and times.
fn shape(report: &Value, change: impl Fn(&str) -> String) -> BTreeSet<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let shape = |f: &Value| {
        change(&format!("{} {} {} {} {}", f["id"], f["severity"], f["subject"], f["confidence"], f["evidence"]))
    };
    findings.map(shape).collect()
}

#[test]
fn names_times_and_company_change_nothing() {
    let log = plain_log("overload-restart");
    let place = folder();
    let report = |text: &str| clients(&[&write(place.path(), "audit.log", text), "--k8s-version", "v1.36"]);
    let before = shape(&report(&log), str::to_owned);
    assert!(before.len() > 12, "{before:?}");
    let renamed =
        log.replace("node-agent", "zz-blue").replace("legacy-sync", "aa-red").replace("python-requests", "okhttp");
    let back = |text: &str| {
        text.replace("zz-blue", "node-agent").replace("aa-red", "legacy-sync").replace("okhttp", "python-requests")
    };
    assert_eq!(shape(&report(&renamed), back), before);
    assert_eq!(shape(&report(&log.replace("2026-11-20T09:", "2027-03-01T17:")), str::to_owned), before);
    // Two clusters in one run have the findings of both.
    let together = clients(&[&sample("list-storm"), &sample("overload-restart")]);
    let apart: BTreeSet<String> =
        ["list-storm", "overload-restart"].iter().flat_map(|sample| ids(&of_sample(sample))).collect();
    assert_eq!(ids(&together), apart);
}

/// A sample's log as one text.
fn plain_log(sample: &str) -> String {
    let pattern = root().join("samples").join(sample).join("audit/*/*");
    let files = glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap);
    let mut texts: Vec<String> =
        files.map(|file| String::from_utf8(sample_bytes(file.to_str().unwrap())).unwrap()).collect();
    texts.sort_by_key(|text| text.find("stageTimestamp\":\"").map(|at| text[at + 17..at + 44].to_owned()));
    texts.concat()
}

fn ids(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|f| format!("{} {} {}", f["id"], f["severity"], f["subject"])).collect()
}

/// Bytes of JSON by kind, as kubectl printed the objects.
const PRINTED: &str = r"
import glob, json, sys, zstandard
for path in glob.glob(sys.argv[1] + '/*'):
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(open(path, 'rb').read())
    for item in json.loads(raw)['items']:
        print(item['kind'], len(json.dumps(item, separators=(',', ':'), ensure_ascii=False).encode()))
";

#[test]
fn lists_are_as_large_as_what_kubectl_printed() {
    let mut command = Command::new(python());
    command.args(["-c", PRINTED, &sample("list-storm/objects/1795166746")]);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut printed: BTreeMap<&str, f64> = BTreeMap::new();
    for (kind, bytes) in ran.stdout.lines().map(|line| line.split_once(' ').unwrap()) {
        *printed.entry(kind).or_default() += bytes.parse::<f64>().unwrap();
    }
    let usage =
        plimsoll(&["etcd", "usage", &sample("list-storm/etcd/after.db.zst"), "--by", "resource", "-o", "json"]).json(0);
    let usage = usage["rows"].as_array().unwrap();
    let one = |uri: &str| {
        let mut log = Log::default();
        log.add(APP, "list", uri, 0, 5, 200).add(APP, "list", uri, 5000, 5, 200);
        let report: Value =
            serde_json::from_str(&log.run(&["--objects", &sample("list-storm/etcd/after.db.zst")]).stdout).unwrap();
        report["rows"][0]["est_list_bytes"].as_f64().map(|bytes| bytes / 2.0)
    };
    for (kind, uri) in [
        ("Pod", "/api/v1/pods"),
        ("Node", "/api/v1/nodes"),
        ("Deployment", "/apis/apps/v1/deployments"),
        ("Namespace", "/api/v1/namespaces"),
    ] {
        // kubectl leaves managedFields out, which the apiserver sends.
        let resource = uri.rsplit('/').next().unwrap();
        let managed =
            usage.iter().find(|row| row["resource"] == resource).unwrap()["managed_fields_bytes"].as_f64().unwrap();
        let (ours, theirs) = (one(uri).unwrap() - managed, printed[kind]);
        assert!(theirs > 5000.0 && (ours / theirs - 1.0).abs() < 0.2, "{kind}: {ours} here, {theirs} there");
    }
    // Pages and labels are not guessed; a namespace is a part; a node has its share.
    assert_eq!(one("/api/v1/pods?limit=500"), None);
    assert_eq!(one("/api/v1/pods?labelSelector=a%3Db"), None);
    let one = |uri: &str| one(uri).unwrap();
    let (all, some) = (one("/api/v1/configmaps"), one("/api/v1/namespaces/apps/configmaps"));
    assert!(some > 0.0 && some < all / 2.0, "{some} of {all}");
    // A list has a frame of its own, however few are in it.
    let frame = one("/api/v1/pods?fieldSelector=spec.nodeName%3Dn") - one("/api/v1/pods") / 15.0;
    assert!((50.0..100.0).contains(&frame), "{frame}");
}

/// What is not known of the largest must not put it behind those of whom it is known that it is nothing.
#[test]
fn those_of_unknown_cost_stand_by_their_requests() {
    let report = plimsoll(&["clients", &sample("overload-restart")]);
    let rows: Vec<&str> =
        report.exits(0).stdout.lines().skip_while(|line| !line.starts_with("AGENT")).skip(1).collect();
    let place =
        |agent: &str| rows.iter().position(|row| row.starts_with(agent)).unwrap_or_else(|| panic!("{agent}: {rows:?}"));
    assert_eq!(place("Go-http-client"), 0, "{rows:?}");
    assert!(rows[0].split_whitespace().any(|cell| cell == "-"), "{}", rows[0]);
    assert!(place("python-requests") < place("node-agent"));
}

#[test]
fn large_lists() {
    let finding = |uri: &str, every: u64, code: u16| {
        let mut log = Log::default();
        log.every(APP, "list", uri, every, 5, code);
        let report: Value =
            serde_json::from_str(&log.run(&["--objects", &sample("list-storm/etcd/after.db.zst")]).stdout).unwrap();
        let found = report["findings"].as_array().unwrap().iter().find(|f| f["id"] == "client-full-list").cloned();
        found.map(|f| f["severity"].as_str().unwrap().to_owned())
    };
    assert_eq!(finding("/api/v1/configmaps", 30_000, 200).as_deref(), Some("warning"));
    assert_eq!(finding("/api/v1/configmaps", 5000, 200).as_deref(), Some("info"));
    assert_eq!(finding("/api/v1/configmaps", 30_000, 403), None);
    assert_eq!(finding("/api/v1/nodes", 30_000, 200), None);
    assert_eq!(finding("/api/v1/configmaps?limit=500", 30_000, 200), None);
}

#[test]
fn conditions_choose_clients_and_not_the_time() {
    // A client of two minutes among eight: its rate is of all the time that was looked at, as without a condition.
    let all = clients(&[&sample("list-storm")]);
    let user = "system:serviceaccount:batch:event-spammer";
    let one = clients(&[&sample("list-storm"), "--where", &format!("user={user}")]);
    assert_eq!(one["window"], all["window"]);
    let rps = |report: &Value| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().find(|row| row["client"]["user"] == user).unwrap()["rps"].as_f64().unwrap()
    };
    assert_eq!(rps(&one), rps(&all));
    // Counted from the log: terminal events, by all of the seconds between the first event and the last.
    let (mut requests, mut first, mut last) = (0.0, f64::MAX, f64::MIN);
    for instance in ["apiserver-0", "apiserver-1"] {
        for line in sample_bytes(&format!("list-storm/audit/{instance}/audit.log.zst")).split(|byte| *byte == b'\n') {
            let Ok(event) = serde_json::from_slice::<Value>(line) else { continue };
            let stamp: jiff::Timestamp = event["stageTimestamp"].as_str().unwrap().parse().unwrap();
            let at = stamp.as_microsecond() as f64 / 1e6;
            (first, last) = (first.min(at), last.max(at));
            let is_its = event["user"]["username"] == user && event["stage"] == "ResponseComplete";
            requests += if is_its { 1.0 } else { 0.0 };
        }
    }
    let counted = requests / (last - first);
    assert!((rps(&one) / counted - 1.0).abs() < 0.01, "{} {counted}", rps(&one));
    // Of a stored roll-up too.
    let home = folder();
    let to = home.path().join("r").display().to_string();
    plimsoll(&["rollup", &sample("list-storm"), "--to", &to]).exits(0);
    let stored = clients(&[&to, "--where", &format!("user={user}")]);
    assert_eq!((&stored["window"], rps(&stored)), (&one["window"], rps(&one)));
    // A condition on the cluster chooses logs.
    let none = clients(&[&sample("list-storm"), "--where", "cluster!=lab-1"]);
    assert!(none["rows"].as_array().unwrap().is_empty(), "{none}");
}

#[test]
fn conditions_choose_clients_and_times() {
    let all = of_sample("list-storm");
    let some =
        clients(&[&sample("list-storm"), "--where", "agent=~config-writer|curl", "--where", "resource!=secrets"]);
    let agents: BTreeSet<_> =
        some["rows"].as_array().unwrap().iter().map(|row| row["client"]["agent"].as_str().unwrap()).collect();
    assert_eq!(agents.into_iter().collect::<Vec<_>>(), ["config-writer", "curl"]);
    let requests = |report: &Value, user: &str| {
        let rows = by_client(report).into_iter().filter(|(client, _)| client[1] == user);
        rows.map(|(_, row)| row["requests"].as_u64().unwrap()).sum::<u64>()
    };
    let writer = "system:serviceaccount:apps:config-writer-a";
    assert_eq!(requests(&some, writer), requests(&all, writer));
    let found = warnings(&some).into_iter().filter(|found| found[0] == writer).map(|[_, _, id]| id);
    assert_eq!(found.collect::<Vec<_>>(), ["client-alternating-writers", "client-conflicts"]);
    // Two halves are the whole, but for what is open where they meet.
    let half = |flag| clients(&[&sample("list-storm"), flag, "2026-11-20T09:22:00Z"]);
    assert_eq!(requests(&half("--since"), writer) + requests(&half("--until"), writer), requests(&all, writer));
    let refused = plimsoll(&["clients", &sample("quiet"), "--where", "verb=list"]);
    refused.exits(2);
    assert!(refused.stderr.contains("judged by all that they do"), "{}", refused.stderr);
}

#[test]
fn findings_are_those_of_the_documentation() {
    let docs = fs::read_to_string(root().join("docs/findings.md")).unwrap();
    let source = glob::glob(root().join("src/analysis/clients/detect/*.rs").to_str().unwrap()).unwrap();
    let source: String = source.map(|path| fs::read_to_string(path.unwrap()).unwrap()).collect();
    let used: BTreeSet<&str> =
        source.split('"').filter(|text| text.starts_with("client-") && !text.contains(' ')).collect();
    assert!(used.len() >= 17, "{used:?}");
    for id in &used {
        assert!(docs.contains(&format!("<a id=\"{id}\"></a>`{id}`")), "{id} is not in docs/findings.md");
    }
    // That of `controllers` is about a program's own limit.
    let listed = docs.match_indices("<a id=\"client-").map(|(at, _)| docs[at + 7..].split('"').next().unwrap());
    let listed = listed.filter(|id| *id != "client-side-throttling");
    assert!(listed.clone().all(|id| used.contains(id)), "{:?}", listed.collect::<Vec<_>>());
}

// ---------------------------------------------------------------- thresholds

/// A log that is made event by event.
#[derive(Default)]
struct Log {
    lines: Vec<(u64, String)>,
}

/// Who sends, from where.
#[derive(Clone, Copy)]
struct From<'t>(&'t str, &'t str, &'t str);

const APP: From<'static> = From("system:serviceaccount:team:app", "app/v1", "10.0.0.7");

impl Log {
    /// A request at `ms`, of `length` ms.
    fn add(&mut self, from: From<'_>, verb: &str, uri: &str, ms: u64, length: u64, code: u16) -> &mut Self {
        let path = uri.split('?').next().unwrap();
        // Fewer segments name no resource.
        let segments = path.trim_matches('/').split('/').count();
        let has_resource = path.starts_with("/api") && segments >= if path.starts_with("/apis") { 4 } else { 3 };
        let mut parts: Vec<&str> =
            path.trim_start_matches("/api/v1/").trim_start_matches("/apis/").split('/').collect();
        let group = if path.starts_with("/apis/") && has_resource { parts.drain(..2).next().unwrap() } else { "" };
        let namespace = if parts[0] == "namespaces" && parts.len() > 2 { parts.drain(..2).nth(1).unwrap() } else { "" };
        let name = parts.get(1).copied().unwrap_or_default();
        let time = |ms: u64| {
            let (seconds, rest) = (ms / 1000, ms % 1000);
            format!("2026-11-20T{:02}:{:02}:{:02}.{rest:03}000Z", 9 + seconds / 3600, seconds / 60 % 60, seconds % 60)
        };
        let number = self.lines.len();
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": format!("id-{number}"),
            "stage": "ResponseComplete", "requestURI": uri, "verb": verb,
            "user": {"username": from.0, "groups": ["system:authenticated"]}, "sourceIPs": [from.2],
            "userAgent": from.1,
            "objectRef": {"resource": parts[0], "apiGroup": group, "namespace": namespace, "name": name,
            "subresource": parts.get(2).copied().unwrap_or_default(), "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": code}, "requestReceivedTimestamp": time(ms),
            "stageTimestamp": time(ms + length),
        });
        if !has_resource {
            event.as_object_mut().unwrap().remove("objectRef");
        }
        self.lines.push((ms + length, event.to_string()));
        if verb == "watch" {
            event["stage"] = "ResponseStarted".into();
            event["stageTimestamp"] = time(ms + 1).into();
            self.lines.push((ms + 1, event.to_string()));
        }
        self
    }

    /// So many requests, each `every` ms after the one before.
    fn every(&mut self, from: From<'_>, verb: &str, uri: &str, every: u64, times: u64, code: u16) -> &mut Self {
        (0..times).for_each(|n| _ = self.add(from, verb, uri, n * every, 5, code));
        self
    }

    /// Changes the request that was added last.
    fn but(&mut self, change: impl FnOnce(&mut Value)) -> &mut Self {
        let (_, line) = self.lines.last_mut().unwrap();
        let mut event: Value = serde_json::from_str(line).unwrap();
        change(&mut event);
        *line = event.to_string();
        self
    }

    /// What is said of it.
    fn run(&self, more: &[&str]) -> Ran {
        let mut lines = self.lines.clone();
        lines.sort();
        let text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
        run(&[&["clients", "-", "-o", "json", "--k8s-version", "v1.30"], more].concat(), &[], text.as_bytes())
    }

    /// The findings, by id.
    fn found(&self) -> BTreeMap<String, Value> {
        let ran = self.run(&[]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
        report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| (f["id"].as_str().unwrap().to_owned(), f.clone()))
            .collect()
    }

    #[track_caller]
    fn finds(&self, id: &str, is_found: bool) {
        let found = self.found();
        assert_eq!(found.contains_key(id), is_found, "{id}: {:?}", found.keys().collect::<Vec<_>>());
    }
}

const PODS: &str = "/api/v1/pods?resourceVersion=0";

#[test]
fn repeated_lists() {
    Log::default().every(APP, "list", PODS, 60_000, 5, 200).finds("client-repeated-list", true);
    // Four in ten minutes; one page of a small collection; with a watch; refused; all in one minute.
    Log::default().every(APP, "list", PODS, 150_000, 8, 200).finds("client-repeated-list", false);
    Log::default().every(APP, "list", "/api/v1/pods?limit=500", 10_000, 40, 200).finds("client-repeated-list", false);
    Log::default()
        .every(APP, "list", PODS, 60_000, 9, 200)
        .add(APP, "watch", PODS, 1000, 400_000, 200)
        .finds("client-repeated-list", false);
    Log::default().every(APP, "list", PODS, 30_000, 20, 403).finds("client-repeated-list", false);
    Log::default().every(APP, "list", PODS, 1000, 20, 200).finds("client-repeated-list", false);
    // Twenty copies, each once in five minutes.
    let mut log = Log::default();
    let sources: Vec<String> = (0..20).map(|n| format!("10.0.1.{n}")).collect();
    sources.iter().for_each(|ip| _ = log.every(From(APP.0, APP.1, ip), "list", PODS, 290_000, 3, 200));
    log.finds("client-repeated-list", false);
}

#[test]
fn lists_from_etcd() {
    // Without a version a LIST reads etcd up to 1.30.
    Log::default().every(APP, "list", "/api/v1/pods", 50_000, 8, 200).finds("client-etcd-lists", true);
    Log::default().every(APP, "list", PODS, 50_000, 8, 200).finds("client-etcd-lists", false);
    Log::default().every(APP, "list", "/api/v1/events", 50_000, 8, 200).finds("client-etcd-lists", false);
    Log::default().every(APP, "list", "/api/v1/pods", 100_000, 20, 200).finds("client-etcd-lists", false);
}

#[test]
fn fan_outs() {
    let with = |sources: u64, uri: &str| {
        let mut log = Log::default();
        let sources: Vec<String> = (0..sources).map(|n| format!("10.0.1.{n}")).collect();
        sources.iter().for_each(|ip| _ = log.every(From(APP.0, APP.1, ip), "list", uri, 60_000, 3, 200));
        log.found().get("client-fan-out").map(|finding| finding["severity"].as_str().unwrap().to_owned())
    };
    assert_eq!(with(20, PODS).as_deref(), Some("warning"));
    assert_eq!(with(19, PODS), None);
    assert_eq!(with(40, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"), None);
    assert_eq!(with(40, "/api/v1/namespaces/a/pods"), None);
}

#[test]
fn get_polling() {
    let uri = "/apis/apps/v1/namespaces/web/deployments/a";
    Log::default().every(APP, "get", uri, 900, 270, 404).finds("client-get-polling", true);
    Log::default().every(APP, "get", uri, 1100, 150, 404).finds("client-get-polling", false);
    // One object, every 1.9 s for more than five minutes; as often as candidates of an election; with a write for each.
    Log::default().every(APP, "get", uri, 1900, 170, 200).finds("client-get-polling", true);
    Log::default().every(APP, "get", uri, 2000, 170, 200).finds("client-get-polling", false);
    Log::default()
        .every(APP, "get", uri, 900, 270, 200)
        .every(APP, "update", uri, 900, 270, 200)
        .finds("client-get-polling", false);
    // In one busy minute only.
    Log::default().every(APP, "get", uri, 100, 500, 200).finds("client-get-polling", false);
}

#[test]
fn watches_from_too_old_versions() {
    let cycle = |times: u64, every: u64, life: u64, code: u16| {
        let mut log = Log::default();
        for n in 0..times {
            log.add(APP, "watch", "/api/v1/configmaps?watch=true&resourceVersion=5", n * every, life, code);
            log.add(APP, "list", "/api/v1/configmaps", n * every + life + 20, 5, 200);
        }
        log
    };
    cycle(3, 60_000, 100, 200).finds("client-too-old", true);
    cycle(2, 60_000, 100, 200).finds("client-too-old", false);
    cycle(3, 301_000, 100, 200).finds("client-too-old", false);
    cycle(6, 60_000, 1500, 200).finds("client-too-old", false);
    cycle(6, 60_000, 100, 403).finds("client-too-old", false);
}

#[test]
fn watch_churn_and_bookmarks() {
    let watches = |times: u64, life: u64, more: &str, code: u16| {
        let mut log = Log::default();
        let uri = format!("/api/v1/services?watch=true{more}");
        (0..times).for_each(|n| _ = log.add(APP, "watch", &uri, n * (life + 50), life, code));
        log
    };
    watches(10, 50_000, "", 200).finds("client-watch-churn", true);
    watches(9, 50_000, "", 200).finds("client-watch-churn", false);
    watches(10, 65_000, "", 200).finds("client-watch-churn", false);
    watches(20, 5000, "&fieldSelector=metadata.name%3Da", 200).finds("client-watch-churn", false);
    watches(20, 5000, "", 429).finds("client-watch-churn", false);
    watches(1, 65_000, "", 200).finds("client-no-bookmarks", true);
    watches(1, 50_000, "", 200).finds("client-no-bookmarks", false);
    watches(10, 65_000, "&allowWatchBookmarks=true", 200).finds("client-no-bookmarks", false);
}

#[test]
fn retries_without_backoff() {
    Log::default().every(APP, "list", PODS, 900, 11, 429).finds("client-no-backoff", true);
    Log::default().every(APP, "list", PODS, 900, 10, 429).finds("client-no-backoff", false);
    Log::default().every(APP, "create", "/api/v1/namespaces/a/pods", 900, 11, 503).finds("client-no-backoff", true);
    Log::default().every(APP, "list", PODS, 1100, 40, 429).finds("client-no-backoff", false);
    Log::default().every(APP, "list", PODS, 900, 40, 200).finds("client-no-backoff", false);
}

#[test]
fn conflicts() {
    let fight = |every: u64, each: u64, code: u16| {
        let mut log = Log::default();
        for n in 0..200 {
            let who = From(if n % 2 == 0 { "a" } else { "b" }, "writer", "10.0.0.1");
            log.add(
                who,
                "update",
                "/api/v1/namespaces/a/configmaps/c",
                n * every,
                5,
                if n % each == 0 { code } else { 200 },
            );
        }
        log
    };
    fight(1000, 5, 409).finds("client-conflicts", true);
    fight(1000, 7, 409).finds("client-conflicts", false);
    fight(100, 5, 409).finds("client-conflicts", false);
    fight(1000, 5, 422).finds("client-conflicts", false);
    let found = fight(1000, 5, 409).found();
    assert!(
        found["client-conflicts"]["summary"]
            .as_str()
            .unwrap()
            .contains("writes configmaps a/c in competition with writer ("),
        "{found:?}"
    );
}

#[test]
fn floods() {
    let events = "/api/v1/namespaces/a/events";
    Log::default().every(APP, "create", events, 190, 330, 201).finds("client-event-flood", true);
    Log::default().every(APP, "create", events, 210, 330, 201).finds("client-event-flood", false);
    Log::default().every(APP, "create", "/api/v1/namespaces/a/pods", 190, 330, 201).finds("client-event-flood", false);
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    Log::default().every(APP, "create", reviews, 900, 210, 201).finds("client-access-reviews", true);
    Log::default().every(APP, "create", reviews, 1050, 210, 201).finds("client-access-reviews", false);
    Log::default().every(APP, "create", reviews, 100, 900, 201).finds("client-access-reviews", false);
}

#[test]
fn refusals_and_timeouts() {
    let secrets = "/api/v1/secrets";
    Log::default().every(APP, "list", secrets, 15_000, 12, 403).finds("client-forbidden-loop", true);
    Log::default().every(APP, "list", secrets, 30_000, 20, 403).finds("client-forbidden-loop", false);
    Log::default().every(APP, "list", secrets, 50, 200, 403).finds("client-forbidden-loop", false);
    // Short, and without any pause.
    Log::default().every(APP, "list", secrets, 250, 400, 401).finds("client-forbidden-loop", true);
    Log::default().every(APP, "list", secrets, 1500, 80, 401).finds("client-forbidden-loop", false);
    Log::default()
        .every(APP, "list", secrets, 15_000, 12, 403)
        .every(APP, "list", secrets, 10_000, 30, 200)
        .finds("client-forbidden-loop", false);
    Log::default().every(APP, "list", PODS, 9000, 6, 504).finds("client-timeouts", true);
    Log::default().every(APP, "list", PODS, 16_000, 6, 504).finds("client-timeouts", false);
}

#[test]
fn node_status_and_leases() {
    let nodes = |every: u64| {
        let mut log = Log::default();
        for n in 0..3 {
            let user = format!("system:node:n{n}");
            log.every(
                From(&user, "kubelet/v1", "10.0.0.1"),
                "patch",
                &format!("/api/v1/nodes/n{n}/status"),
                every,
                240_000 / every,
                200,
            );
        }
        log
    };
    nodes(28_000).finds("client-node-status", true);
    nodes(40_000).finds("client-node-status", false);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l";
    Log::default().every(APP, "update", lease, 900, 150, 200).finds("client-lease-churn", true);
    Log::default().every(APP, "update", lease, 1100, 150, 200).finds("client-lease-churn", false);
}

#[test]
fn surges_and_storms() {
    let surge = |factor: u64| {
        let mut log = Log::default();
        log.every(APP, "get", "/api/v1/namespaces/a/pods/p", 3000, 80, 200);
        (0..20 * factor).for_each(|n| {
            _ = log.add(APP, "get", "/api/v1/namespaces/a/pods/p", 241_000 + n * 50_000 / (20 * factor), 5, 200)
        });
        log
    };
    surge(6).finds("client-surge", true);
    surge(3).finds("client-surge", false);
    // Twelve watchers list and watch; after three minutes some of them again.
    let storm = |again: u64| {
        let mut log = Log::default();
        for n in 0..12 {
            let ip = format!("10.0.2.{n}");
            let from = From(APP.0, APP.1, &ip);
            log.add(from, "list", PODS, n * 100, 5, 200).add(
                from,
                "watch",
                "/api/v1/pods?watch=true&resourceVersion=9",
                n * 100 + 50,
                400_000,
                200,
            );
            if n < again {
                log.add(from, "list", PODS, 180_000 + n * 100, 5, 200);
            }
        }
        log
    };
    storm(7).finds("client-relist-storm", true);
    storm(4).finds("client-relist-storm", false);
    storm(0).finds("client-relist-storm", false);
}

#[test]
fn discovery() {
    let apis = |every: u64, times: u64| {
        let mut log = Log::default();
        log.every(APP, "get", "/apis/apps/v1?timeout=32s", every, times, 200);
        log
    };
    apis(1900, 120).finds("client-discovery", true);
    apis(2100, 120).finds("client-discovery", false);
    // All groups once.
    apis(20, 60).finds("client-discovery", false);
    // Health checks as often, and the same by ten copies.
    Log::default().every(APP, "get", "/readyz", 1000, 240, 200).finds("client-discovery", false);
    let mut log = Log::default();
    let sources: Vec<String> = (0..10).map(|n| format!("10.0.1.{n}")).collect();
    sources.iter().for_each(|ip| _ = log.every(From(APP.0, APP.1, ip), "get", "/openapi/v2", 5000, 60, 200));
    log.finds("client-discovery", false);
}

#[test]
fn lists_of_a_nodes_pods() {
    let of_node = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1";
    Log::default().every(APP, "list", of_node, 55_000, 5, 200).finds("client-node-lists", true);
    Log::default().every(APP, "list", of_node, 130_000, 5, 200).finds("client-node-lists", false);
    Log::default()
        .every(APP, "list", &format!("{of_node}&resourceVersion=0"), 10_000, 40, 200)
        .finds("client-node-lists", false);
    Log::default()
        .every(APP, "list", "/api/v1/pods?labelSelector=a%3Db", 10_000, 40, 200)
        .finds("client-node-lists", false);
    // From 1.31 on the cache may answer: it has an index.
    let mut log = Log::default();
    let ran = log.every(APP, "list", of_node, 10_000, 40, 200).run(&["--k8s-version", "v1.34"]);
    assert!(!ran.stdout.contains("client-node-lists"), "{}", ran.stdout);
}

/// An update whose response has a version.
fn update(log: &mut Log, ms: u64, version: u64, more: &str) {
    let uri = format!("/api/v1/namespaces/a/configmaps/c{more}");
    log.add(APP, "update", &uri, ms, 5, 200).but(|event| {
        event["level"] = "RequestResponse".into();
        event["responseObject"] =
            json!({"kind": "ConfigMap", "metadata": {"name": "c", "resourceVersion": version.to_string()}});
    });
}

#[test]
fn writes_that_change_nothing() {
    let writes = |every: u64, changes: u64, more: &str| {
        let mut log = Log::default();
        (0..60).for_each(|n| {
            update(&mut log, n * every, if n % 10 < changes { 100 + n } else { 99 + n - (n % 10 - changes) }, more)
        });
        log
    };
    writes(4000, 0, "").finds("client-unchanged-writes", true);
    writes(4000, 4, "").finds("client-unchanged-writes", true);
    writes(4000, 6, "").finds("client-unchanged-writes", false);
    writes(20_000, 0, "").finds("client-unchanged-writes", false);
    writes(4000, 0, "?dryRun=All").finds("client-unchanged-writes", false);
    // Without bodies it is not known, and that is said.
    let lease = "/api/v1/namespaces/a/configmaps/c";
    let report: Value =
        serde_json::from_str(&Log::default().every(APP, "update", lease, 9000, 40, 200).run(&[]).stdout).unwrap();
    assert!(report["coverage"]["unknown"].to_string().contains("no-op writes"), "{report}");
    assert!(!report["findings"].to_string().contains("client-unchanged-writes"), "{report}");
}

#[test]
fn leaders() {
    let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/app";
    let (one, other) = (From(APP.0, APP.1, "10.0.0.7"), From(APP.0, APP.1, "10.0.0.8"));
    let after = |gap: u64| {
        let mut log = Log::default();
        (0..5).for_each(|n| _ = log.add(one, "update", lease, n * 2000, 5, 200));
        (0..5).for_each(|n| _ = log.add(other, "update", lease, 8005 + gap + n * 2000, 5, 200));
        log
    };
    after(31_500).finds("client-failover-gap", true);
    after(20_000).finds("client-failover-gap", false);
    let found = after(31_500).found();
    assert_eq!(found["client-failover-gap"]["evidence"]["leases"], "a/app");
    // Refused writes hold nothing; one address that pauses is one leader.
    let mut log = Log::default();
    log.every(one, "update", lease, 2000, 20, 200)
        .every(other, "update", lease, 2000, 20, 409)
        .finds("client-failover-gap", false);
    Log::default()
        .add(one, "update", lease, 0, 5, 200)
        .add(one, "update", lease, 60_000, 5, 200)
        .finds("client-failover-gap", false);
    let swaps = |times: u64| {
        let mut log = Log::default();
        (0..=times)
            .for_each(|n| _ = log.add(if n % 2 == 0 { one } else { other }, "update", lease, n * 10_000, 5, 200));
        log
    };
    swaps(4).finds("client-leader-changes", true);
    swaps(3).finds("client-leader-changes", false);
}

#[test]
fn deprecated_apis() {
    let calls = |user: &str, removed: Option<&str>, deprecated: &str| {
        let mut log = Log::default();
        let from = From(user, "app/v1", "10.0.0.7");
        log.add(from, "list", "/apis/policy/v1beta1/podsecuritypolicies", 0, 5, 200).but(|event| {
            event["annotations"]["k8s.io/deprecated"] = deprecated.into();
            if let Some(removed) = removed {
                event["annotations"]["k8s.io/removed-release"] = removed.into();
            }
        });
        let found = log.found();
        found
            .get("client-deprecated-api")
            .map(|f| (f["severity"].as_str().unwrap().to_owned(), f["evidence"]["version"].clone()))
    };
    let answered = |severity: &str| Some((severity.to_owned(), Value::from("policy/v1beta1")));
    // The server is 1.30.
    assert_eq!(calls(APP.0, Some("1.32"), "true"), answered("warning"));
    assert_eq!(calls(APP.0, Some("1.33"), "true"), answered("info"));
    assert_eq!(calls(APP.0, None, "true"), answered("info"));
    assert_eq!(calls(APP.0, Some("1.32"), "false"), None);
    assert_eq!(calls("system:kube-controller-manager", Some("1.32"), "true"), None);
}

#[test]
fn nodes_that_send_more_than_others() {
    let fleet = |nodes: u64, most: u64| {
        let mut log = Log::default();
        for n in 0..nodes {
            let user = format!("system:node:n{n}");
            let times = if n == 3 { most } else { 40 + n };
            log.every(From(&user, "kubelet/v1", "10.0.0.1"), "get", &format!("/api/v1/nodes/n{n}"), 5000, times, 200);
        }
        log.found().get("client-uneven-nodes").map(|f| f["evidence"]["names"].as_str().unwrap().to_owned())
    };
    // The one in the middle sends 44.
    assert_eq!(fleet(7, 132).as_deref(), Some("n3"));
    assert_eq!(fleet(7, 131), None);
    assert_eq!(fleet(4, 400), None);
}

#[test]
fn why_requests_took_too_long() {
    let found = |message: &str| {
        let mut log = Log::default();
        for n in 0..6 {
            log.add(APP, "list", PODS, n * 9000, 5, 504)
                .but(|event| event["responseStatus"]["message"] = message.into());
        }
        log.found()["client-timeouts"].clone()
    };
    let gone = found("Timeout: request did not complete within requested timeout - context canceled");
    assert_eq!((&gone["evidence"]["client_gone"], &gone["evidence"]["deadline"]), (&json!(6), &json!(0)));
    assert!(gone["summary"].as_str().unwrap().contains("the client disconnected"), "{gone}");
    let behind = found("Timeout: Too large resource version: 9, current: 5");
    assert!(behind["summary"].as_str().unwrap().contains("the watch cache was behind"), "{behind}");
    assert!(!found("boom")["summary"].as_str().unwrap().contains("most of them"));
}

/// One LIST each of what four lines name, with what is beside the log.
fn costs(log: &str, more: &[&str]) -> BTreeMap<String, Value> {
    let report = clients(&[&[log], more].concat());
    report["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["client"]["agent"].as_str().unwrap().to_owned(), row.clone()))
        .collect()
}

#[test]
fn what_lists_cost_by_metrics_and_by_the_database() {
    let bundle = folder();
    let mut log = Log::default();
    let lists = [("pods", "/api/v1/pods"), ("nodes", "/api/v1/nodes"), ("configmaps", "/api/v1/configmaps")];
    let lists = lists.into_iter().chain([
        ("deployments", "/apis/apps/v1/deployments"),
        ("policyreports", "/apis/wgpolicyk8s.io/v1alpha2/policyreports"),
    ]);
    for (n, (agent, uri)) in (0..).zip(lists) {
        log.add(From(APP.0, agent, APP.2), "list", uri, n * 1000, 5, 200);
    }
    log.add(From(APP.0, "labels", APP.2), "list", "/api/v1/pods?labelSelector=a", 6000, 5, 200);
    let lines: String = log.lines.iter().map(|(_, line)| format!("{line}\n")).collect();
    write(bundle.path(), "audit.log", &lines);
    let page = glob::glob(root().join("samples/list-storm/metrics/apiserver-0/*").to_str().unwrap())
        .unwrap()
        .map(Result::unwrap)
        .max()
        .unwrap();
    fs::create_dir(bundle.path().join("metrics")).unwrap();
    fs::copy(&page, bundle.path().join("metrics").join(page.file_name().unwrap())).unwrap();
    let by_metrics = costs(bundle.path().to_str().unwrap(), &[]);
    let by_database = costs(
        &format!("{}/audit.log", bundle.path().display()),
        &["--objects", &sample("list-storm/etcd/after.db.zst")],
    );
    for agent in ["pods", "nodes", "configmaps", "deployments", "policyreports"] {
        let bytes = |rows: &BTreeMap<String, Value>| rows[agent]["est_list_bytes"].as_f64().unwrap();
        let (ours, theirs) = (bytes(&by_metrics), bytes(&by_database));
        assert!(
            theirs > 20_000.0 && (ours / theirs - 1.0).abs() < 0.2,
            "{agent}: {ours} by metrics, {theirs} by the database"
        );
        assert_eq!(by_metrics[agent]["est_list_sources"]["metrics"], by_metrics[agent]["est_list_bytes"]);
        assert_eq!(by_database[agent]["est_list_sources"]["snapshot"], by_database[agent]["est_list_bytes"]);
        assert_eq!(by_metrics[agent]["lists_not_estimated"], 0);
    }
    assert_eq!(by_metrics["labels"]["lists_not_estimated"], 1);
    // On the wire, gzip makes pods a fifteenth; the page says it of all LISTs since the apiserver's start.
    let text = String::from_utf8(sample_bytes(page.to_str().unwrap())).unwrap();
    let of = |suffix: &str| -> f64 {
        let line = |line: &&str| {
            line.starts_with(&format!("apiserver_response_sizes_{suffix}{{"))
                && ["verb=\"LIST\"", "resource=\"pods\"", "scope=\"cluster\""].iter().all(|label| line.contains(label))
        };
        text.lines().filter(line).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    let wire = by_metrics["pods"]["est_wire_bytes"].as_f64().unwrap();
    assert!(
        (wire - of("sum") / of("count")).abs() < 1.0
            && wire * 5.0 < by_metrics["pods"]["est_list_bytes"].as_f64().unwrap(),
        "{wire}"
    );
}

/// Bytes and items of the LISTs in a log that holds them.
const BODIES: &str = r#"
import json, sys, zstandard
raw = zstandard.ZstdDecompressor().decompressobj().decompress(open(sys.argv[1], "rb").read())
for line in raw.decode().splitlines():
    event = json.loads(line)
    if event["verb"] == "list" and event["stage"] == "ResponseComplete" and event["responseStatus"]["code"] == 200 and event["objectRef"]["resource"] == "pods":
        print(len(line[line.index('"responseObject":') + 17:line.rindex(',"requestReceivedTimestamp"')].encode()), len(event["responseObject"]["items"]))
"#;

#[test]
fn what_lists_cost_by_their_responses() {
    let mut command = Command::new(python());
    command.args(["-c", BODIES, &sample("levels/audit.log.zst")]);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let lists: Vec<(u64, u64)> = ran
        .stdout
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()))
        .collect();
    assert_eq!(lists.len(), 21);
    let rows = costs(&sample("levels"), &[]);
    let agent = &rows["node-agent"];
    assert_eq!(agent["est_list_bytes"], lists.iter().map(|(bytes, _)| bytes).sum::<u64>());
    assert_eq!(agent["est_list_sources"], json!({"responses": agent["est_list_bytes"], "snapshot": 0, "metrics": 0}));
    // Half a megabyte of pods is much where it is a thousand of them.
    let mut log = Log::default();
    for n in 0..5 {
        let items: Vec<Value> = (0..1200).map(|n| json!({"metadata": {"name": format!("p{n}")}})).collect();
        log.add(APP, "list", "/api/v1/pods?resourceVersion=0", n * 30_000, 5, 200)
            .but(|event| event["responseObject"] = json!({"items": items}));
    }
    let found = &log.found()["client-full-list"];
    assert_eq!(
        (&found["severity"], &found["evidence"]["objects"], &found["evidence"]["source"]),
        (&json!("warning"), &json!(1200), &json!("responses"))
    );
}

#[test]
fn whom_lists_cost_most_comes_first() {
    let by = |flags: &[&str]| {
        let ran = plimsoll(&[&["clients", &sample("list-storm"), "--top", "0"], flags].concat());
        ran.exits(0);
        ran.stdout
    };
    let first = |text: &str| text.lines().nth(3).unwrap_or_default().to_owned();
    assert!(first(&by(&[])).contains("node-agent"), "{}", by(&[]));
    assert!(
        first(&by(&["--sort-by", "peak_rps"])).contains("event-spammer")
            || first(&by(&["--sort-by", "peak_rps"])).contains("kubectl")
    );
    plimsoll(&["clients", &sample("quiet"), "--sort-by", "colour"]).exits(2);
}

/// The log without what `keep` says no to, and each line as `change` makes it.
fn edited(log: &str, change: impl Fn(Value) -> Vec<Value>) -> String {
    let events = log.lines().map(|line| serde_json::from_str(line).unwrap());
    events.flat_map(change).map(|event| format!("{event}\n")).collect()
}

#[test]
fn stages_that_are_left_out_and_levels_without_bodies() {
    let place = folder();
    let report = |text: &str| clients(&[&write(place.path(), "audit.log", text), "--k8s-version", "v1.36"]);
    let log = plain_log("list-storm");
    let whole = report(&log);
    // With RequestReceived too nothing changes.
    let received = edited(&log, |event| {
        let mut before = event.clone();
        before["stage"] = "RequestReceived".into();
        before["stageTimestamp"] = before["requestReceivedTimestamp"].clone();
        before.as_object_mut().unwrap().remove("responseStatus");
        vec![before, event]
    });
    assert_eq!(shape(&report(&received), str::to_owned), shape(&whole, str::to_owned));
    // Without ResponseStarted the culprits are the same, and what can't be seen is said.
    let unstarted = edited(&log, |event| if event["stage"] == "ResponseStarted" { vec![] } else { vec![event] });
    let unstarted = report(&unstarted);
    assert_eq!(warnings(&unstarted), warnings(&whole));
    assert!(unstarted["coverage"]["unknown"].to_string().contains("ResponseStarted"), "{}", unstarted["coverage"]);
    assert!(!whole["coverage"]["unknown"].to_string().contains("ResponseStarted"), "{}", whole["coverage"]);
    // Without bodies: what only they show is not reported, and that is said; all else is the same.
    let log = plain_log_of(&sample("levels/audit.log.zst"));
    let bare = edited(&log, |mut event| {
        event["level"] = "Metadata".into();
        event.as_object_mut().unwrap().retain(|name, _| name != "requestObject" && name != "responseObject");
        vec![event]
    });
    let (with, without) = (report(&log), report(&bare));
    assert_eq!(
        with["coverage"]["levels"]["RequestResponse"].as_u64().map(|count| count > 100),
        Some(true),
        "{}",
        with["coverage"]
    );
    assert_eq!(without["coverage"]["levels"].as_object().unwrap().keys().collect::<Vec<_>>(), ["Metadata"]);
    let answered = |report: &Value| report["coverage"]["unknown"].to_string();
    assert!(
        answered(&without).contains("no-op writes") && answered(&without).contains("the size of LIST responses"),
        "{}",
        answered(&without)
    );
    assert!(
        !answered(&with).contains("no-op writes") && !answered(&with).contains("the size of LIST responses"),
        "{}",
        answered(&with)
    );
    assert_eq!(ids(&with), ids(&without));
}

fn plain_log_of(path: &str) -> String {
    String::from_utf8(sample_bytes(path)).unwrap()
}

#[test]
fn a_time_without_events_has_no_window() {
    for command in ["clients", "balance", "traffic"] {
        let report =
            plimsoll(&[command, &sample("list-storm"), "--since", "2026-12-01T00:00:00Z", "-o", "json"]).json(0);
        assert_eq!((&report["window"]["from"], &report["window"]["to"]), (&json!(""), &json!("")), "{command}");
    }
    let text = plimsoll(&["clients", &sample("list-storm"), "--since", "2026-12-01T00:00:00Z"]);
    assert!(text.exits(0).stdout.starts_with("No request was counted"), "{}", text.stdout);
}
