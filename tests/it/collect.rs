//! `plimsoll collect` from stand-ins for apiservers (`tests/oracle/apiserver.py`), a real etcd and a real cgroup: what
//! is taken is what they serve, and how they are treated is what they saw.

use crate::lab::Lab;
use crate::member::Member;
use crate::support::{Ran, folder, plimsoll, root, sample, sample_bytes};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAGES: [&str; 2] =
    ["quiet/metrics/apiserver-0/1795167937.txt.zst", "quiet/metrics/apiserver-0/1795167967.txt.zst"];

fn lab() -> Lab {
    Lab::start(&[&sample(PAGES[0]), &sample(PAGES[1])])
}

fn collect(lab: &Lab, context: &str, target: &Path, more: &[&str]) -> Ran {
    let (kubeconfig, target) = (lab.kubeconfig(), target.to_str().unwrap().to_owned());
    let first = [
        "collect",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--context",
        context,
        "-f",
        &target,
        "--qps",
        "100",
        "-o",
        "json",
    ];
    plimsoll(&[&first, more].concat())
}

/// All files below, by their paths there.
fn files(top: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![top.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => drop(found.insert(path.strip_prefix(top).unwrap().to_str().unwrap().to_owned())),
            }
        }
    }
    found
}

fn below(all: &BTreeSet<String>, folder: &str) -> Vec<String> {
    all.iter().filter(|path| path.starts_with(folder)).cloned().collect()
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777
}

fn row<'r>(report: &'r Value, what: &str, from: &str) -> &'r Value {
    let rows = report["rows"].as_array().unwrap();
    rows.iter()
        .find(|row| row["taken"] == what && row["taken_from"].as_str().unwrap().contains(from))
        .unwrap_or_else(|| panic!("{what} {from}: {report}"))
}

#[test]
fn a_bundle_holds_what_the_apiservers_serve() {
    let (lab, home) = (lab(), folder());
    let archive = home.path().join("bundle.tar.zst");
    let ran = collect(&lab, "lab", &archive, &["--include-heap", "--owner", "platform"]);
    let report = ran.json(0);
    assert_eq!(mode(&archive), 0o600);
    // tar and zstd of the machine read it.
    assert!(
        Command::new("tar").args(["--zstd", "-xf"]).arg(&archive).current_dir(home.path()).status().unwrap().success()
    );
    let bundle = home.path().join("bundle");
    let all = files(&bundle);
    assert_eq!(report["totals"]["files"].as_u64().unwrap(), all.len() as u64);
    let bytes: u64 = all.iter().map(|path| fs::metadata(bundle.join(path)).unwrap().len()).sum();
    assert_eq!(report["totals"]["bytes"].as_u64().unwrap(), bytes);
    for (server, page) in ["a", "b"].iter().zip(PAGES) {
        let metrics = below(&all, &format!("metrics/{}/", lab.name(server)));
        assert_eq!(metrics.len(), 1);
        assert!(fs::read(bundle.join(&metrics[0])).unwrap() == sample_bytes(page), "{metrics:?} differs from {page}");
        assert_eq!(below(&all, &format!("apf/{}/", lab.name(server))).len(), 3);
        assert_eq!(below(&all, &format!("heap/{}/", lab.name(server))).len(), 1);
    }
    // Objects: as many of each kind as the sample has, in pages.
    let mut kinds = 0;
    for (file, resource) in fs::read_dir(sample("list-storm/objects/1795166546")).unwrap().map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        (format!("list-storm/objects/1795166546/{name}"), name.trim_end_matches(".json.zst").to_owned())
    }) {
        if resource == "customresourcedefinitions" {
            continue;
        }
        let theirs: Value = serde_json::from_slice(&sample_bytes(&file)).unwrap();
        let mine: Vec<Value> = all
            .iter()
            .filter(|path| path.starts_with("objects/") && path.contains(&format!("/{resource}.")))
            .flat_map(|path| {
                let page: Value = serde_json::from_slice(&fs::read(bundle.join(path)).unwrap()).unwrap();
                page["items"].as_array().cloned().unwrap_or_default()
            })
            .collect();
        let names = |items: &[Value]| items.iter().map(|item| item["metadata"].to_string()).collect::<BTreeSet<_>>();
        let theirs = theirs["items"].as_array().unwrap();
        assert_eq!((mine.len(), names(&mine).len()), (theirs.len(), theirs.len()), "{resource}");
        kinds += 1;
    }
    assert_eq!(kinds, 8);
    assert!(below(&all, "objects/").iter().filter(|path| path.contains("/pods.")).count() > 1, "{all:?}");
    // The secrets that the stand-in puts into pods are in none of the files.
    for path in &all {
        let text = fs::read(bundle.join(path)).unwrap();
        assert!(memchr::memmem::find(&text, b"sesame").is_none(), "{path}");
        assert_eq!(mode(&bundle.join(path)), 0o600, "{path}");
    }
    assert!(!ran.stdout.contains("sesame") && !ran.stderr.contains("sesame"));
    // No metrics server is no loss.
    assert_eq!(row(&report, "objects", "metrics.k8s.io")["outcome"], "not there");
    let about = fs::read_to_string(bundle.join("bundle.yaml")).unwrap();
    for line in [
        "cluster: lab",
        "kubernetes_version: v1.36.0",
        "owner: platform",
        "  missing: []",
        &format!("- {}", lab.name("a")),
    ] {
        assert!(about.lines().any(|own| own == line), "{line}: {about}");
    }
    how_they_were_treated(&lab);
    commands_read_it(bundle.to_str().unwrap());
    // The archive itself is a source.
    let answer = plimsoll(&["traffic", archive.to_str().unwrap(), "--from", "metrics", "-o", "json"]).json(0);
    assert!(answer["totals"]["requests"].as_u64().unwrap() > 0, "{}", answer["totals"]);
}

/// One thing at a time, in pages, known by name.
fn how_they_were_treated(lab: &Lab) {
    let all = lab.requests("/");
    assert!(all.len() > 30, "{}", all.len());
    for request in &all {
        assert_eq!(
            (request["beside"].as_u64(), request["agent"].as_str()),
            (Some(1), Some(concat!("plimsoll/", env!("CARGO_PKG_VERSION"))))
        );
    }
    let lists: Vec<&Value> =
        all.iter().filter(|request| request["path"].as_str().unwrap().contains("limit=")).collect();
    assert!(lists.len() >= 20, "{}", lists.len());
    let mut starts: Vec<f64> = Vec::new();
    for list in &lists {
        assert!(list["path"].as_str().unwrap().contains("?limit=500"), "{list}");
        assert_eq!(list["server"], lists[0]["server"], "lists are asked of one apiserver");
        starts.push(list["start"].as_f64().unwrap());
    }
    // A request may be late at the server, but never later than the next is sent: of any run of them, all but one gap
    // is known, whatever the machine's speed.
    for (first, from) in starts.iter().enumerate() {
        for (gaps, until) in starts[first..].iter().enumerate().skip(2) {
            assert!(until - from >= 0.01 * (gaps as f64 - 1.0) - 0.001, "100 a second at most: {starts:?}");
        }
    }
    let unpaged = all
        .iter()
        .map(|request| request["path"].as_str().unwrap())
        .filter(|path| path.starts_with("/api") && !path.contains("limit="));
    assert!(unpaged.clone().all(|path| path.contains("endpointslices")), "{:?}", unpaged.collect::<Vec<_>>());
}

fn commands_read_it(bundle: &str) {
    let report = plimsoll(&["report", bundle, "-o", "json"]).json(0);
    assert_eq!(report["coverage"]["read"], json!(["metrics", "heap", "objects"]));
    assert_eq!(
        (&report["clusters"], &report["owner"], &report["coverage"]["lost"]),
        (&json!(["lab"]), &json!("platform"), &json!([]))
    );
    let sample = sample("list-storm/objects/1795166546");
    for command in [&["quota", "check"][..], &["quota", "propose"]] {
        let of = |source: &str| plimsoll(&[command, &[source, "-o", "json", "--fail-on", "never"]].concat()).json(0);
        let rows = |source: &str| {
            let mut rows = of(source)["rows"].as_array().unwrap().clone();
            // When it was taken is its own.
            rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("peak_at")));
            rows
        };
        let (mine, theirs) = (rows(bundle), rows(&sample));
        assert!(!mine.is_empty());
        assert_eq!(mine, theirs, "{command:?}");
    }
    let seats = plimsoll(&["clients", bundle, "--seats", "-o", "json"]).json(0);
    assert!(!seats["rows"].as_array().unwrap().is_empty());
}

/// The ClusterRole of the docs, without the rules that `drop` picks.
fn role(lab: &Lab, drop: impl Fn(&Value) -> bool) -> usize {
    let docs = fs::read_to_string(root().join("docs/commands/collect.md")).unwrap();
    let text = docs.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let mut role: Value = serde_yaml_ng::from_str(text).unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| !drop(rule));
    let left = rules.len();
    fs::write(lab.folder.join("role.yaml"), role.to_string()).unwrap();
    left
}

#[test]
fn the_role_of_the_docs_is_enough_and_each_missing_rule_is_named() {
    let (lab, home) = (lab(), folder());
    let all = role(&lab, |_| false);
    assert!(all >= 8);
    let ran = collect(&lab, "role", &home.path().join("whole"), &["--include-heap"]);
    let report = ran.json(0);
    let outcomes = report["rows"].as_array().unwrap().iter().map(|row| row["outcome"].as_str().unwrap());
    assert_eq!(outcomes.filter(|outcome| *outcome != "taken").collect::<Vec<_>>(), ["not there"], "the metrics server");
    // All but the EndpointSlices, without which it asks the kubeconfig's server alone, and says so.
    for number in (0..all).filter(|number| *number != 1) {
        let mut at = 0;
        let mut rule = Value::Null;
        let cell = std::cell::RefCell::new((&mut at, &mut rule));
        role(&lab, |own| {
            let mut cell = cell.borrow_mut();
            let is_it = *cell.0 == number;
            if is_it {
                *cell.1 = own.clone();
            }
            *cell.0 += 1;
            is_it
        });
        let target = home.path().join(format!("without-{number}"));
        let ran = collect(&lab, "role", &target, &["--include-heap"]);
        let report = ran.json(3);
        let missing: Vec<&Value> =
            report["rows"].as_array().unwrap().iter().filter(|row| row["outcome"] == "missing").collect();
        let named = if rule["nonResourceURLs"].is_null() { rule["resources"].as_array().unwrap().len() } else { 6 };
        assert_eq!(missing.len(), named, "{rule}: {missing:?}");
        for row in &missing {
            let why = row["reason"].as_str().unwrap();
            let says = rule["resources"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|resource| why.contains(&format!("resources [{}], verbs [list]", resource.as_str().unwrap())));
            let says = says || !rule["nonResourceURLs"].is_null() && why.contains("nonResourceURLs [/");
            assert!(says && ran.stderr.contains(why), "{rule}: {why}\n{}", ran.stderr);
        }
        // The rest is there, and the bundle says what is not.
        assert!(fs::read_to_string(target.join("bundle.yaml")).unwrap().contains("403"));
        assert_eq!(files(&target).len() as u64, report["totals"]["files"].as_u64().unwrap());
    }
    role(&lab, |rule| rule["apiGroups"] == json!(["discovery.k8s.io"]));
    let ran = collect(&lab, "role", &home.path().join("blind"), &["--no-objects"]);
    assert!(ran.exits(0).stderr.contains("the list of apiservers is unavailable"), "{}", ran.stderr);
    assert_eq!(lab.requests("/metrics").last().unwrap()["server"], "front");
}

#[test]
fn a_series_and_an_early_end() {
    let (lab, home) = (lab(), folder());
    let target = home.path().join("series");
    let began = Instant::now();
    let report =
        collect(&lab, "lab", &target, &["--no-objects", "--duration", "3s", "--every", "500ms", "--include-heap"])
            .json(0);
    assert!((3.0..8.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
    let all = files(&target);
    for server in ["a", "b"] {
        let pages = below(&all, &format!("metrics/{}/", lab.name(server))).len();
        assert!((5..=7).contains(&pages), "{pages}");
        assert_eq!(row(&report, "metrics", &lab.name(server))["files"].as_u64(), Some(pages as u64));
        assert_eq!(
            (
                below(&all, &format!("apf/{}/", lab.name(server))).len(),
                below(&all, &format!("heap/{}/", lab.name(server))).len()
            ),
            (6, 2)
        );
    }
    // Ctrl-C: what was taken is kept, whole.
    let (kubeconfig, early) = (lab.kubeconfig(), home.path().join("early.tar.zst"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args([
        "collect",
        "--no-objects",
        "--duration",
        "10m",
        "--every",
        "200ms",
        "--context",
        "lab",
        "--kubeconfig",
    ]);
    command.arg(kubeconfig).arg("-f").arg(&early).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let seen = lab.requests("/metrics").len();
    let until = Instant::now() + Duration::from_secs(20);
    while lab.requests("/metrics").len() < seen + 6 {
        assert!(Instant::now() < until, "no pages are asked for");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!early.exists(), "it has its name only when it is whole");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    let listed = Command::new("tar").args(["--zstd", "-tf"]).arg(&early).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.matches("early/metrics/").count() >= 4 && listed.contains("early/bundle.yaml"), "{listed}");
    let about = Command::new("tar").args(["--zstd", "-xOf"]).arg(&early).arg("early/bundle.yaml").output().unwrap();
    assert!(String::from_utf8(about.stdout).unwrap().contains("stopped_early: true"));
}

#[test]
fn etcd_logs_cgroups_and_other_processes() {
    let (lab, home) = (lab(), folder());
    let member = Member::plain(&home.path().join("data"));
    member.run(&["put", "/registry/configmaps/web/one", "value"]);
    let cgroup = own_cgroup();
    let url = format!("{}/metrics", member.url);
    let (log, target) = (sample("list-storm/audit"), home.path().join("whole"));
    let sources = [log.as_str(), &url, cgroup.to_str().unwrap()];
    let ran = collect(
        &lab,
        "lab",
        &target,
        &[&sources[..], &["--no-objects", "--include-etcd", "--with-bodies", "--endpoints", &member.url]].concat(),
    );
    let report = ran.json(0);
    assert!(ran.stderr.contains("all Secrets"), "{}", ran.stderr);
    let all = files(&target);
    for instance in ["apiserver-0", "apiserver-1"] {
        let path = format!("audit/audit/{instance}/audit.log.zst");
        assert!(
            fs::read(target.join(&path)).unwrap() == fs::read(format!("{log}/{instance}/audit.log.zst")).unwrap(),
            "{all:?}"
        );
    }
    let of_etcd = below(&all, &format!("metrics/{}/", member.url.trim_start_matches("http://")));
    assert!(fs::read_to_string(target.join(&of_etcd[0])).unwrap().contains("etcd_server_has_leader"), "{all:?}");
    assert_eq!((row(&report, "etcd", "127.0.0.1")["outcome"].as_str(), below(&all, "etcd/").len()), (Some("taken"), 1));
    let keys = plimsoll(&["etcd", "usage", target.to_str().unwrap(), "-o", "json"]).json(0);
    assert_eq!(keys["totals"]["keys"], 1, "{keys}");
    let memory = plimsoll(&["memory", "show", target.to_str().unwrap(), "-o", "json"]);
    let usage =
        memory.json(0)["rows"][0]["usage"].as_u64().or_else(|| memory.json(0)["rows"][0]["usage_bytes"].as_u64());
    assert!(usage.is_some_and(|usage| usage > 0), "{}", memory.stdout);
    // The same events from the bundle as from the log itself.
    let events = |source: &str| plimsoll(&["traffic", source, "--by", "verb", "-o", "json"]).json(0)["rows"].clone();
    assert_eq!(events(target.to_str().unwrap()), events(&log));
    // A database that lies there is not taken unasked, and what is not there is said.
    let database = sample("list-storm/etcd/after.db.zst");
    let asked = lab.requests("/").len();
    let refused = home.path().join("refused");
    for (source, code, says) in
        [(database.as_str(), 2, "--include-etcd"), ("no/such/log", 3, "no/such/log"), ("/dev/null", 2, "a pipe")]
    {
        let ran = collect(&lab, "lab", &refused, &["--no-objects", source]);
        assert!(ran.exits(code).stderr.contains(says), "{source}: {}", ran.stderr);
    }
    assert_eq!((lab.requests("/").len(), refused.exists()), (asked, false), "nothing is asked for in vain");
    let ran = collect(&lab, "lab", &refused, &["--no-objects", &sample("list-storm/etcd")]);
    assert!(ran.exits(3).stderr.contains("--include-etcd"), "{}", ran.stderr);
    assert!(below(&files(&refused), "etcd/").is_empty());
    // A member that is down: the rest is kept.
    let ran = collect(
        &lab,
        "lab",
        &home.path().join("down"),
        &["--no-objects", "--include-etcd", "--endpoints", "http://127.0.0.1:1"],
    );
    assert_eq!(row(&ran.json(3), "etcd", "127.0.0.1:1")["outcome"], "missing");
}

/// Names that are written out anywhere in a bundle, though they are in its logs, pages and objects: found by Python, by
/// fields and as tokens.
const NAMES_LEFT: &str = r#"
import json, os, re, subprocess, sys
common = {"default", "kube-system", "kube-public", "kube-node-lease", "kubernetes", "kube-scheduler", "kube-controller-manager", "kube-apiserver",
          "admin", "cluster-admin", "127.0.0.1", "::1"}
api = {"apiservices", "customresourcedefinitions", "flowschemas", "priorityclasses", "prioritylevelconfigurations", "runtimeclasses"}
def events(path):
    packed = path.endswith(".zst")
    raw = subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True).stdout if packed else open(path, "rb").read()
    return [json.loads(line) for line in raw.splitlines() if line.strip()]
names = set()
for path in sys.argv[2:]:
    for event in events(path):
        of = event.get("objectRef") or {}
        for user in (event["user"]["username"], (event.get("impersonatedUser") or {}).get("username", "")):
            names.update(user.split(":")[2:] if user.startswith("system:serviceaccount:") or user.startswith("system:node:") else [] if user.startswith("system:") else [user])
        names.update(event.get("sourceIPs", []))
        names.add(of.get("namespace", ""))
        if of.get("resource") not in api and not of.get("name", "").startswith("system:"):
            names.add(of.get("name", ""))
names = {name for name in names if len(name) > 1 and name not in common and not name.isdigit()}
word = re.compile(r"[A-Za-z0-9_@.-]+")
left, seen = set(), 0
for folder, _, files in os.walk(sys.argv[1]):
    for file in files:
        path = os.path.join(folder, file)
        left.update(name for name in names if name in os.path.relpath(path, sys.argv[1]).split("/"))
        text = open(path, encoding="utf-8", errors="replace").read()
        # A plain word is a name where a field says so.
        tokens = {token.strip(".") for token in word.findall(text)}
        left.update(name for name in names if not re.fullmatch("[a-z]+", name) and name in tokens)
        if "/audit/" in path:
            for event in events(path):
                seen += 1
                of = event.get("objectRef") or {}
                fields = [event["user"]["username"], of.get("namespace", ""), "" if of.get("resource") in api else of.get("name", "")]
                fields += event.get("sourceIPs", []) + event["user"]["username"].split(":")[2:]
                segments = event["requestURI"].split("?")[0].split("/")
                if "namespaces" in segments[:-1]:
                    fields.append(segments[segments.index("namespaces") + 1])
                left.update(name for name in fields if name in names)
print(json.dumps({"names": len(names), "left": sorted(left), "events": seen}))
"#;

#[test]
fn a_redacted_bundle_tells_the_same_of_nobody() {
    let (lab, home) = (lab(), folder());
    let target = home.path().join("shared");
    let sources = ["list-storm/audit", "apf-dumps/apf", "list-storm/metrics"].map(sample);
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let objects = home.path().join("pods.json");
    fs::write(&objects, sample_bytes("list-storm/objects/1795166746/pods.json.zst")).unwrap();
    let ran = collect(&lab, "lab", &target, &[&sources[..], &["--redact", objects.to_str().unwrap()]].concat());
    assert!(ran.json(0)["totals"]["files"].as_u64().unwrap() > 5);
    assert!(fs::read_to_string(target.join("bundle.yaml")).unwrap().contains("pseudonyms"));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "nothing is left beside it");
    let mut command = Command::new(crate::support::python());
    command.args(["-c", NAMES_LEFT, target.to_str().unwrap()]);
    command.args(["apiserver-0", "apiserver-1"].map(|name| sample(&format!("list-storm/audit/{name}/audit.log.zst"))));
    let answer: Value = serde_json::from_str(&crate::support::feed(command, b"").stdout).unwrap();
    assert!(answer["names"].as_u64().unwrap() > 100 && answer["events"].as_u64().unwrap() > 20_000, "{answer}");
    assert_eq!(answer["left"], json!([]), "{answer}");
    // What it shows is the same, but for who it was.
    let logs = target.join("audit").to_str().unwrap().to_owned();
    for by in ["verb,resource,code", "list-kind,subresource"] {
        let rows = |source: &str| {
            plimsoll(&["traffic", source, "--by", by, "--top", "0", "-o", "json"]).json(0)["rows"].clone()
        };
        assert_eq!(rows(&logs), rows(&sample("list-storm/audit")), "{by}");
    }
    let found = |source: &str| -> Vec<String> {
        let report = plimsoll(&["clients", source, "-o", "json"]).json(0);
        let mut ids: Vec<String> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| format!("{} {}", one["id"], one["severity"]))
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(found(&logs), found(&sample("list-storm/audit")));
    let pods =
        |path: &str| plimsoll(&["quota", "propose", path, "-o", "json"]).json(0)["rows"].as_array().unwrap().len();
    let copy = below(&files(&target), "files/").into_iter().find(|path| path.ends_with("pods.json")).expect("the pods");
    assert_eq!(pods(target.join(copy).to_str().unwrap()), pods(objects.to_str().unwrap()));
    for other in [&["--include-etcd", "--endpoints", "http://127.0.0.1:1"][..], &["--with-bodies"]] {
        collect(&lab, "lab", &home.path().join("no"), &[&["--redact"], other].concat()).exits(2);
    }
}

/// The cgroup of this process, or the nearest above it that has memory files.
fn own_cgroup() -> PathBuf {
    let lines = fs::read_to_string("/proc/self/cgroup").unwrap();
    let place = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let top = match controllers {
            "" => "/sys/fs/cgroup",
            of if of.split(',').any(|name| name == "memory") => "/sys/fs/cgroup/memory",
            _ => return None,
        };
        let all = Path::new(top).join(path.trim_start_matches('/'));
        all.ancestors().find(|folder| folder.join("memory.stat").is_file()).map(Path::to_owned)
    };
    lines.lines().find_map(place).expect("this machine has no memory cgroup")
}

#[test]
fn what_can_not_be_written_or_reached_is_said() {
    let (lab, home) = (lab(), folder());
    let taken = home.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("file"), "mine").unwrap();
    let ran = collect(&lab, "lab", &taken, &["--no-objects"]);
    assert!(ran.exits(3).stderr.contains("not empty"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(taken.join("file")).unwrap(), "mine");
    let ran = collect(&lab, "lab", &home.path().join("no/such/x.tar.zst"), &["--no-objects"]);
    assert!(ran.exits(3).stderr.contains("check that its folder exists"), "{}", ran.stderr);
    let ran = plimsoll(&["collect", "-f", home.path().join("x.tar.gz").to_str().unwrap()]);
    assert!(ran.exits(2).stderr.contains("only .tar.zst"), "{}", ran.stderr);
    let ran = collect(&lab, "down", &home.path().join("x.tar.zst"), &[]);
    assert!(ran.exits(3).stderr.contains("connection refused"), "{}", ran.stderr);
    for (args, says) in [
        (&["--qps", "0"][..], "0.01 to 1000"),
        (&["--include-etcd"], "--endpoints"),
        (&["--endpoints", "http://127.0.0.1:1"], "--include-etcd"),
        (&["--duration", "soon"], "500ms"),
    ] {
        let ran = plimsoll(&[&["collect", "-f", home.path().join("y").to_str().unwrap()], args].concat());
        assert!(ran.exits(2).stderr.contains(says), "{args:?}: {}", ran.stderr);
    }
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["taken"], "nothing unfinished is left behind");
}

/// A list whose next page has expired is begun again; of one that breaks off nothing is taken, and a bundle says so.
#[test]
fn a_list_that_breaks_off_is_no_smaller_list() {
    let (lab, home) = (lab(), tempfile::tempdir().unwrap());
    let proposed = || {
        let kubeconfig = lab.kubeconfig();
        let cluster = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "full"];
        plimsoll(&[&["quota", "propose"], &cluster[..], &["-o", "json"]].concat())
    };
    let amounts = |ran: &Ran| -> Vec<[Value; 4]> {
        let report = ran.json(0);
        let of =
            |row: &serde_json::Value| ["namespace", "resource", "peak", "proposed"].map(|field| row[field].clone());
        report["rows"].as_array().unwrap().iter().map(of).collect()
    };
    let whole = amounts(&proposed());
    assert!(!whole.is_empty());
    fs::write(lab.folder.join("expired"), "1").unwrap();
    assert_eq!(amounts(&proposed()), whole, "begun again");
    // Each time: pods are not counted at all, so that nothing is proposed for less than runs.
    fs::write(lab.folder.join("expired"), "99").unwrap();
    let without = proposed();
    assert!(without.stderr.contains("/api/v1/pods: 410"), "{}", without.stderr);
    assert_eq!(without.code, Some(3));
    let bundle = home.path().join("part.tar.zst");
    let ran = collect(&lab, "full", &bundle, &["--duration", "1s"]);
    assert!(ran.code == Some(3) && ran.stdout.contains("410"), "{}", ran.stderr);
    let ran = plimsoll(&["quota", "propose", bundle.to_str().unwrap()]);
    assert!(ran.code == Some(3) && ran.stderr.contains("a part of a list"), "{}", ran.stderr);
}
