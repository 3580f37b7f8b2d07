//! `plimsoll serve`: what it exports equals independent counts of the logs, however these are written, rotated and
//! posted, and however often it is killed; who may ask, and what is answered.

use crate::lab::Lab;
use crate::member::Member;
use crate::support::{feed, folder, hermetic, none, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LOG: &str = "list-storm/audit/apiserver-0/audit.log.zst";

/// How long something may take that takes a second.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server that runs, and its address.
pub(crate) struct Serving {
    child: Child,
    address: String,
    /// The bearer token that it is asked with.
    token: Option<&'static str>,
    stderr_text: std::sync::Arc<std::sync::Mutex<String>>,
    _home: tempfile::TempDir,
}

impl Serving {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_reading("500ms", args)
    }

    /// One that reads when it starts, and then so often.
    fn start_reading(every: &str, args: &[&str]) -> Self {
        let home = folder();
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        command.args(["serve", "--every", every]).args(args);
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut all = String::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else { panic!("serve ended: {all}") };
            all.push_str(&line);
            if let Some((_, rest)) = line.split_once("://") {
                break rest.split(';').next().unwrap().to_owned();
            }
        };
        let stderr_text = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let own = std::sync::Arc::clone(&stderr_text);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                own.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, address, token: None, stderr_text, _home: home }
    }

    /// Status, headers and body of a request that is sent as it is.
    fn raw(&self, head: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
        let connected = TcpStream::connect(&self.address);
        let mut stream =
            connected.unwrap_or_else(|error| panic!("{error}; said: {}", self.stderr_text.lock().unwrap()));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        write!(stream, "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{length}\r\n").unwrap();
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an end of the head");
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, answer[end + 4..].to_vec())
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let head = match self.token {
            Some(token) => format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nX:"),
            None => format!("GET {path}"),
        };
        let (status, _, body) = self.raw(&head, b"");
        (status, String::from_utf8(body).unwrap())
    }

    #[track_caller]
    fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The series that it exports.
    fn series(&self) -> BTreeMap<String, f64> {
        let (status, text) = self.get("/metrics");
        if status == 200 { series(&text) } else { BTreeMap::new() }
    }

    /// The series once `done` holds of them.
    #[track_caller]
    pub(crate) fn wait(&self, done: impl Fn(&BTreeMap<String, f64>) -> bool) -> BTreeMap<String, f64> {
        let began = Instant::now();
        loop {
            let series = self.series();
            if done(&series) {
                return series;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "it never came; said: {}; {series:?}",
                self.stderr_text.lock().unwrap()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// As [`Self::wait`], with a bearer token.
    #[track_caller]
    pub(crate) fn wait_shown(mut self, token: &'static str, done: impl Fn(&BTreeMap<String, f64>) -> bool) {
        self.token = Some(token);
        self.wait(done);
    }

    fn signal(&mut self, name: &str) -> Option<i32> {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Series of a page by name and sorted labels.
fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().map(|line| Ok(line.to_owned()));
    let scrape = prometheus_parse::Scrape::parse(lines).unwrap();
    let mut all = BTreeMap::new();
    let mut put = |name: &str, labels: &prometheus_parse::Labels, more: Option<String>, value: f64| {
        let mut pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        pairs.extend(more);
        pairs.sort();
        assert_eq!(all.insert(format!("{name}{{{}}}", pairs.join(",")), value), None, "twice: {name} {pairs:?}");
    };
    for sample in scrape.samples {
        match sample.value {
            prometheus_parse::Value::Counter(value)
            | prometheus_parse::Value::Gauge(value)
            | prometheus_parse::Value::Untyped(value) => put(&sample.metric, &sample.labels, None, value),
            prometheus_parse::Value::Histogram(buckets) => {
                for bucket in buckets {
                    let bound = if bucket.less_than.is_finite() { bucket.less_than.to_string() } else { "+Inf".into() };
                    put(
                        &format!("{}_bucket", sample.metric),
                        &sample.labels,
                        Some(format!("le={bound}")),
                        bucket.count,
                    );
                }
            }
            other => panic!("{other:?}"),
        }
    }
    all
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn oracle(words: &[&str]) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/serve.py")).args(words);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Whether it counts what audit logs show of clients.
fn is_counter(name: &str) -> bool {
    name.starts_with("plimsoll_client_")
        && !["info{", "seats{"].iter().any(|gauge| name["plimsoll_client_".len()..].starts_with(gauge))
}

/// An independent count of logs: the series of clients.
#[track_caller]
pub(crate) fn counted(logs: &[&str]) -> BTreeMap<String, f64> {
    let counted = oracle(&[&["count", "--version", "v1.36.0"], logs].concat());
    counted.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.as_f64().unwrap())).collect()
}

/// What differs between exported series of clients and an independent count.
fn differences(ours: &BTreeMap<String, f64>, logs: &[&str]) -> Vec<String> {
    wrong(ours, &counted(logs))
}

/// What a report was made of.
#[track_caller]
fn inputs(report: &Value) -> Vec<&str> {
    report["inputs"].as_array().unwrap().iter().map(|input| input["path"].as_str().unwrap()).collect()
}

/// Counters of clients that differ from others.
fn wrong(ours: &BTreeMap<String, f64>, theirs: &BTreeMap<String, f64>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, value) in ours.iter().filter(|(name, _)| is_counter(name)) {
        let other = theirs.get(name).copied().unwrap_or(0.0);
        if (value - other).abs() > 1e-6 * value.abs().max(1.0) {
            faults.push(format!("{name}: {value}, counted {other}"));
        }
    }
    let missing = theirs.iter().filter(|(name, value)| **value > 0.0 && !ours.contains_key(*name));
    faults.extend(missing.map(|(name, value)| format!("{name}: missing, counted {value}")));
    faults
}

/// A folder with a log of some lines of the sample.
struct Log {
    _home: tempfile::TempDir,
    folder: PathBuf,
    lines: Vec<Vec<u8>>,
}

impl Log {
    fn new() -> Self {
        let home = folder();
        let folder = home.path().join("logs");
        fs::create_dir(&folder).unwrap();
        let lines = sample_bytes(LOG).split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        Self { _home: home, folder, lines }
    }

    fn path(&self, name: &str) -> String {
        text(&self.folder.join(name)).to_owned()
    }

    fn append(&self, name: &str, lines: std::ops::Range<usize>) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(&self.lines[lines].concat()).unwrap();
    }
}

fn events(series: &BTreeMap<String, f64>) -> f64 {
    series.get("plimsoll_serve_audit_events_total{}").copied().unwrap_or(0.0)
}

fn requests(series: &BTreeMap<String, f64>) -> f64 {
    series.iter().filter(|(name, _)| name.starts_with("plimsoll_client_requests_total{")).map(|(_, value)| value).sum()
}

/// Written bit by bit (also half a line), rotated, killed and stopped in between: each request counts once.
#[test]
fn counters_equal_a_count_of_the_log_through_rotation_and_kills() {
    let log = Log::new();
    let store = log.folder.parent().unwrap().join("store");
    let all = log.lines.len();
    let args = [text(&log.folder), "--store", text(&store), "--k8s-version", "1.36", "--keep-rollups", "10s=20000d"];
    log.append("audit.log", 0..all / 4);
    let mut serving = Serving::start(&args);
    let first = serving.wait(|series| requests(series) > 0.0);
    none(&differences(&first, &[&log.path("audit.log")]));
    // Half a line is no event yet.
    let next = &log.lines[all / 4];
    let mut file = OpenOptions::new().append(true).open(log.path("audit.log")).unwrap();
    file.write_all(&next[..next.len() / 2]).unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(requests(&serving.series()), requests(&first));
    file.write_all(&next[next.len() / 2..]).unwrap();
    log.append("audit.log", all / 4 + 1..all / 2);
    // Killed wherever it is, more than once, while the log grows.
    for part in 0..4 {
        std::thread::sleep(Duration::from_millis(150 + 230 * part));
        serving.signal("-KILL");
        log.append("audit.log", all / 2 + part as usize * 500..all / 2 + (part as usize + 1) * 500);
        serving = Serving::start(&args);
    }
    // Rotated: what the old file gained last is read behind its new name.
    log.append("audit.log", all / 2 + 2000..all / 2 + 2500);
    fs::rename(log.path("audit.log"), log.path("audit-2026-11-20T09-20-00.000.log")).unwrap();
    log.append("audit.log", all / 2 + 2500..all);
    let both = [log.path("audit-2026-11-20T09-20-00.000.log"), log.path("audit.log")];
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    let wanted = oracle(&[&["count", "--version", "v1.36.0"], both.as_slice()].concat());
    let counts = wanted.as_object().unwrap().iter().filter(|(name, _)| name.starts_with("plimsoll_client_requests_"));
    let total: f64 = counts.map(|(_, value)| value.as_f64().unwrap()).sum();
    let ours = serving.wait(|series| requests(series) >= total);
    none(&differences(&ours, &both));
    // A stop in peace keeps the counters, too.
    assert_eq!(serving.signal("-TERM"), Some(0));
    let serving = Serving::start(&args);
    none(&differences(&serving.wait(|series| requests(series) > 0.0), &both));
}

/// What apiservers, objects, APF and cgroups show of now; and what LISTs cost by it.
#[test]
fn gauges_are_what_a_cluster_shows_now() {
    let pages = ["quiet/metrics/apiserver-0/1795167937.txt.zst", "quiet/metrics/apiserver-0/1795167967.txt.zst"];
    // Both apiservers show the same: of stored objects the larger count is the cluster's, of seats the sum.
    let lab = Lab::start(&[&sample(pages[0]), &sample(pages[0])]);
    let log = Log::new();
    log.append("audit.log", 0..log.lines.len());
    let home = log.folder.parent().unwrap();
    let alerts = "channels:\n  out: {stdout: {}}\ndefault: {channels: [out]}\n\
                  owners:\n- {name: storage, namespaces: [kube-*]}\n";
    let alerts = write(home, "alerts.yaml", alerts.as_bytes());
    let kubeconfig = lab.kubeconfig();
    let (store, pages) = (home.join("store"), pages.map(sample));
    let args = [
        "--kubeconfig",
        text(&kubeconfig),
        "--context",
        "full",
        "--alerts",
        &alerts,
        "--k8s-version",
        "1.36",
        "--judge-every",
        "1s",
    ];
    let sources = [text(&log.folder), "--store", text(&store)];
    let serving = Serving::start(&[&sources[..], &args].concat());
    let ours = serving.wait(|series| requests(series) > 0.0);
    let path = log.path("audit.log");
    none(&differences(&ours, &["--page", &pages[0], &path]));
    let cost = |series: &BTreeMap<String, f64>| -> f64 {
        let of = |(name, _): &(&String, &f64)| name.starts_with("plimsoll_client_list_bytes_estimated_total{");
        series.iter().filter(of).map(|(_, value)| value).sum()
    };
    assert!(cost(&ours) > 1e6, "{}", cost(&ours));

    let dump = sample("apf-dumps/apf/apiserver-0/dump_requests-1795297222.009.txt");
    let quotas = sample("list-storm/objects/1795166546/resourcequotas.json.zst");
    let theirs = oracle(&["now", &pages[0], &dump, &quotas, "2"]);
    let theirs = theirs.as_object().unwrap();
    let gauges =
        ["plimsoll_storage_keys{", "plimsoll_storage_bytes{", "plimsoll_quota_ratio{", "plimsoll_client_seats{"];
    // The crate that parses the page cuts labels at commas: of the one user with a comma the line is looked for.
    let smith = "plimsoll_client_seats{user=\"smith, jane\",priority_level=\"global-default\",state=\"waiting\"} 6\n";
    assert!(serving.get("/metrics").1.contains(smith), "{:?}", theirs.iter().find(|(name, _)| name.contains("smith")));
    for gauge in gauges {
        let is_own = |name: &str| name.starts_with(gauge) && !name.contains("smith");
        let own: BTreeMap<&String, f64> =
            ours.iter().filter(|(name, _)| is_own(name)).map(|(name, value)| (name, *value)).collect();
        let other: BTreeMap<&String, f64> = theirs
            .iter()
            .filter(|(name, _)| is_own(name))
            .map(|(name, value)| (name, value.as_f64().unwrap()))
            .collect();
        assert!(!own.is_empty(), "{gauge}");
        let names = |all: &BTreeMap<&String, f64>| all.keys().map(|name| (*name).clone()).collect::<Vec<_>>();
        assert_eq!(names(&own), names(&other));
        assert!(own.iter().all(|(name, value)| (value - other[name]).abs() <= 1e-9 * value.abs()), "{own:?} {other:?}");
    }
    // Owners of service accounts: the configuration's for kube-*, else whom a label of the namespace names.
    let list: Value =
        serde_json::from_slice(&sample_bytes("list-storm/objects/1795166546/namespaces.json.zst")).unwrap();
    let owner = |namespace: &str| -> Option<String> {
        if namespace.starts_with("kube-") {
            return Some("storage".to_owned());
        }
        let own = list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == namespace)?;
        let keys = ["plimsoll.io/owner", "owner", "team"];
        keys.iter().find_map(|key| own["metadata"]["labels"][*key].as_str().map(str::to_owned))
    };
    let info = |name: &&String| name.starts_with("plimsoll_client_info{");
    let clients = ours.keys().filter(|name| name.starts_with("plimsoll_client_requests_total{"));
    let mut expected: Vec<String> = clients
        .filter_map(|name| {
            let pairs = name.split(['{', ',', '}']).filter_map(|pair| pair.split_once('='));
            let labels: BTreeMap<&str, &str> = pairs.collect();
            let (user, agent) = (labels["user"], labels.get("agent")?);
            let owner = owner(user.strip_prefix("system:serviceaccount:")?.split(':').next()?)?;
            Some(format!("plimsoll_client_info{{agent={agent},owner={owner},user={user}}}"))
        })
        .collect();
    expected.sort();
    expected.dedup();
    assert!(expected.iter().any(|name| name.contains("owner=storage")) && expected.len() > 5, "{expected:?}");
    assert_eq!(ours.keys().filter(info).cloned().collect::<Vec<_>>(), expected);

    // Pages are kept for as long as is judged: reports are made of them, too.
    serving.wait(|series| series.get("plimsoll_serve_judge_duration_seconds{}").is_some_and(|took| *took > 0.0));
    let report = serving.json("/api/v1/report");
    let inputs = inputs(&report);
    let kept = |name: &str| inputs.iter().any(|path| path.contains(&format!(".pages/{name}/")));
    assert!(kept(&lab.name("a")) && kept(&lab.name("b")), "{inputs:?}");
    assert_eq!(serving.json("/api/v1/episodes")["schema"], "plimsoll.guard.episodes/v1");
}

/// A cluster that can't be asked stops no log from being read; nor does a recipient that is away keep a stop waiting.
#[test]
fn what_is_away_stops_nothing_else() {
    let log = Log::new();
    log.append("audit.log", 0..2000);
    let cluster = ["--kubeconfig", "/nonexistent/kubeconfig", "--k8s-version", "1.36"];
    let serving = Serving::start(&[&[text(&log.folder)][..], &cluster].concat());
    let ours = serving.wait(|series| requests(series) > 0.0);
    none(&differences(&ours, &[&log.path("audit.log")]));
    assert!(ours["plimsoll_serve_errors_total{}"] > 0.0);
    assert_eq!(serving.get("/readyz").0, 200);
    // Port 1 is nobody's.
    let mut away = Serving::start(&[text(&log.folder), "--hand-to", "http://127.0.0.1:1"]);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(away.signal("-TERM"), Some(0), "{}", away.stderr_text.lock().unwrap());
}

/// Targets that refuse, or that take a connection and never answer, count as errors, and stop no log from being read.
#[test]
fn targets_that_refuse_or_hang_are_counted_and_stop_nothing() {
    let log = Log::new();
    log.append("audit.log", 0..500);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    // The first connection is refused with 403, all others get no answer.
    let hold = std::thread::spawn(move || {
        let mut open = Vec::new();
        for (number, connection) in silent.incoming().take(2).enumerate() {
            let mut connection = connection.unwrap();
            if number == 0 {
                let _ = connection.read(&mut [0; 4096]);
                connection
                    .write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .unwrap();
            }
            open.push(connection);
        }
        open
    });
    let url = format!("http://{address}/metrics");
    let serving = Serving::start(&[text(&log.folder), &url, "--k8s-version", "1.36"]);
    let errors = |series: &BTreeMap<String, f64>| series["plimsoll_serve_errors_total{}"];
    let refused = serving.wait(|series| requests(series) > 0.0 && errors(series) >= 1.0);
    assert_eq!(refused["plimsoll_serve_last_round_timestamp_seconds{}"], 0.0);
    log.append("audit.log", 500..1000);
    // In spite of a target that never answers.
    let ours = serving.wait(|series| events(series) >= 1000.0 && errors(series) >= 2.0);
    none(&differences(&ours, &[&log.path("audit.log")]));
    drop(hold.join().unwrap());
}

/// With metrics alone: nothing is known of clients, and what is known is judged.
#[test]
fn a_cluster_without_logs_is_judged_by_its_metrics() {
    let page = sample("quiet/metrics/apiserver-0/1795167937.txt.zst");
    let lab = Lab::start(&[&page, &page]);
    let kubeconfig = lab.kubeconfig();
    let args = ["--kubeconfig", text(&kubeconfig), "--context", "full", "--judge-every", "1s"];
    let serving = Serving::start(&args);
    let ours = serving.wait(|series| {
        series.get("plimsoll_serve_judge_duration_seconds{}").is_some_and(|took| *took > 0.0)
            && series.keys().any(|name| name.starts_with("plimsoll_storage_keys{"))
    });
    assert_eq!(ours["plimsoll_serve_errors_total{}"], 0.0, "{}", serving.stderr_text.lock().unwrap());
    assert_eq!(requests(&ours), 0.0);
    assert_eq!(serving.json("/api/v1/episodes")["rows"], serde_json::json!([]));
    let (status, page) = serving.get("/report");
    assert!(status == 200 && page.to_lowercase().starts_with("<!doctype html>"), "{status}");
    assert_eq!(serving.get("/api/v1/clients").0, 404);
    // A page by its address is kept and judged as well; those of a capture are of another day.
    let url = format!("http://127.0.0.1:{}/metrics", lab.ports["plain"]);
    let capture = sample("quiet/metrics");
    let serving = Serving::start(&[&url, &capture, "--judge-every", "1s"]);
    serving.wait(|series| series.get("plimsoll_serve_judge_duration_seconds{}").is_some_and(|took| *took > 0.0));
    let report = serving.json("/api/v1/report");
    let inputs = inputs(&report);
    assert!(!inputs.is_empty() && inputs.iter().all(|path| path.contains(".pages/127.0.0.1:")), "{inputs:?}");
    assert_eq!(serving.get("/report").0, 200);
}

/// A store in which a quota fills up by one pod an hour: 100 of 240 after 100 hours. What is left is reached in 140
/// hours from the last whole one, which is given.
pub(crate) fn with_filling_quota(home: &Path, store: &Path) -> i64 {
    let now = jiff::Timestamp::now().as_second() / 3600 * 3600;
    let mut csv = String::from("name,namespace,resourcequota,resource,type,time,value\n");
    for hour in 0..240_i64 {
        let at = now - (239 - hour) * 3600;
        csv += &format!("kube_resourcequota,web,q,pods,used,{at},{}\n", 100 + hour);
        csv += &format!("kube_resourcequota,web,q,pods,hard,{at},480\n");
    }
    let csv = write(home, "history.csv", csv.as_bytes());
    let ran = plimsoll(&["record", "import", &csv, "--store", text(store)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    now
}

/// Verdicts on cgroups, and forecasts of a store that has a history.
#[test]
fn limits_are_forecast_and_memory_is_judged() {
    let home = folder();
    let store = home.path().join("store");
    let now = with_filling_quota(home.path(), &store);
    let cgroup = sample("list-storm/cgroup");
    let group = write(home.path(), "group/memory.current", b"950\n");
    for (file, content) in [
        ("memory.max", "1000\n"),
        (
            "memory.stat",
            "anon 940\nfile 10\nactive_file 5\ninactive_file 5\nworkingset_refault_anon 0\nworkingset_refault_file 0\n",
        ),
    ] {
        write(home.path(), &format!("group/{file}"), content.as_bytes());
    }
    let group = Path::new(&group).parent().unwrap().to_owned();
    let args = [&cgroup, text(&group), "--store", text(&store), "--forecast-every", "1s"];
    let serving = Serving::start(&args);
    let is_limit = |name: &str| name.starts_with("plimsoll_limit_reached_timestamp_seconds{");
    let ours = serving.wait(|series| series.keys().any(|name| is_limit(name)));
    let at = |quantile: &str| {
        let name = format!("plimsoll_limit_reached_timestamp_seconds{{limit=web/q pods,quantile={quantile}}}");
        ours.get(&name).copied().unwrap_or_else(|| panic!("{name}: {ours:?}"))
    };
    let reached = (now + 141 * 3600) as f64;
    assert!((at("0.5") - reached).abs() < 12.0 * 3600.0, "{} {reached}", at("0.5"));
    assert!(at("0.1") <= at("0.5") && at("0.5") <= at("0.9"));
    let verdicts: Vec<&String> = ours.keys().filter(|name| name.starts_with("plimsoll_memory_verdict{")).collect();
    // The sample's groups are of another day: they say nothing of now.
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    assert!(verdicts[0].ends_with("verdict=anon-pressure}"), "{verdicts:?}");
}

/// A real member of etcd, counted from snapshots at intervals; one that goes, and what is left of snapshots.
#[test]
fn snapshots_of_etcd_are_counted_and_removed() {
    let home = folder();
    let member = Member::plain(&home.path().join("data"));
    for n in 0..7 {
        member.run(&["put", &format!("/registry/configmaps/web/{n}"), &"y".repeat(1000)]);
        member.run(&["put", &format!("/registry/deployments/web/{n}"), "z"]);
    }
    let store = home.path().join("store");
    fs::create_dir(&store).unwrap();
    // Of a process that was killed.
    let left = write(&store, ".etcd-snapshot.db.1.tmp", "secrets");
    let args = ["--etcd-endpoints", &format!("http://127.0.0.1:1,{}", member.url), "--etcd-every", "1s"];
    let mut serving = Serving::start(&[&["--store", text(&store)][..], &args].concat());
    let keys = |resource: &str| format!("plimsoll_etcd_keys{{resource={resource}}}");
    let ours = serving.wait(|series| series.contains_key(&keys("configmaps")));
    assert!(!Path::new(&left).exists());
    assert_eq!(ours[&keys("configmaps")], 7.0);
    assert_eq!(ours["plimsoll_etcd_live_bytes{resource=configmaps}"], 7000.0);
    assert_eq!(ours["plimsoll_etcd_history_bytes{resource=configmaps}"], 0.0);
    assert_eq!(ours["plimsoll_etcd_keys{group=apps,resource=deployments}"], 7.0);
    let age = jiff::Timestamp::now().as_microsecond() as f64 / 1e6 - ours["plimsoll_etcd_snapshot_timestamp_seconds{}"];
    assert!((0.0..60.0).contains(&age), "{age}");
    // The next one shows what was written since.
    member.run(&["del", "/registry/configmaps/web/0"]);
    member.run(&["put", "/registry/configmaps/web/1", "y"]);
    let ours = serving.wait(|series| series.get(&keys("configmaps")) == Some(&6.0));
    assert_eq!(ours["plimsoll_etcd_live_bytes{resource=configmaps}"], 5001.0);
    assert!(ours["plimsoll_etcd_history_bytes{resource=configmaps}"] > 2000.0);
    assert_eq!(ours["plimsoll_serve_errors_total{}"], 0.0);
    // While nobody answers, the last one stands, and it is said.
    drop(member);
    let ours = serving.wait(|series| series["plimsoll_serve_errors_total{}"] > 0.0);
    assert_eq!(ours[&keys("configmaps")], 6.0);
    assert_eq!(serving.signal("-TERM"), Some(0));
    let said = serving.stderr_text.lock().unwrap().clone();
    assert!(said.contains("no snapshot of etcd: "), "{said}");
    let names: Vec<String> =
        fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("etcd")), "{names:?}");
}

/// Each apiserver's log is read on its node; one instance counts and judges all of them, whoever is killed, away, or
/// loses its disk meanwhile.
#[test]
fn instances_hand_their_roll_ups_to_one() {
    let home = folder();
    let path = |name: &str| home.path().join(name);
    let token = write(home.path(), "token", b"s3cret\n");
    let logs = [LOG, "list-storm/audit/apiserver-1/audit.log.zst"]
        .map(|name| sample_bytes(name).split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>());
    let append = |node: usize, part: std::ops::Range<usize>| {
        let lines = &logs[node];
        let folder = path(&format!("node{node}"));
        fs::create_dir_all(&folder).unwrap();
        let mut file = OpenOptions::new().create(true).append(true).open(folder.join("audit.log")).unwrap();
        file.write_all(&lines[part.start * lines.len() / 10..part.end * lines.len() / 10].concat()).unwrap();
    };
    let keep = ["--keep-rollups", "10s=20000d", "--k8s-version", "1.36"];
    let store = path("store");
    let judge_args = [&["--store", text(&store), "--bearer-token-file", &token][..], &keep].concat();
    let mut judge = Serving::start(&judge_args);
    // The port must stay the same for those who hand over: a relay would hide what a restart does.
    let address = judge.address.clone();
    let url = format!("http://{address}");
    let judge_args = [&["--listen", address.as_str()][..], &judge_args].concat();
    let node = |number: usize, store: &str| {
        let (source, store, name) = (path(&format!("node{number}")), path(store), format!("apiserver-{number}"));
        let hand = ["--hand-to", &url, "--hand-to-token-file", &token, "--instance", &name];
        Serving::start(&[&[text(&source), "--store", text(&store)][..], &hand].concat())
    };
    append(0, 0..2);
    append(1, 0..1);
    let mut nodes = [node(0, "store0"), node(1, "store1")];
    judge.token = Some("s3cret");
    judge.wait(|series| requests(series) > 0.0);
    // The one who judges is killed while logs grow; nodes wait for it.
    judge.signal("-KILL");
    append(0, 2..4);
    append(1, 1..4);
    nodes[0].wait(|series| series.get("plimsoll_serve_parts_waiting{}").is_some_and(|parts| *parts > 0.0));
    judge = Serving::start(&judge_args);
    judge.token = Some("s3cret");
    // A node is killed, and another loses its store: only the one who judges knows where its log was left.
    nodes[0].signal("-KILL");
    append(0, 4..7);
    append(1, 4..6);
    nodes[0] = node(0, "store0");
    nodes[1].wait(|series| series.get("plimsoll_serve_parts_waiting{}") == Some(&0.0));
    nodes[1].signal("-KILL");
    nodes[1] = node(1, "store1-new");
    append(0, 7..10);
    append(1, 6..10);

    // Of each log as if it were read alone: relists that change the apiserver are facts of both together.
    let files = [0, 1].map(|node| text(&path(&format!("node{node}")).join("audit.log")).to_owned());
    let mut wanted: BTreeMap<String, f64> = BTreeMap::new();
    for file in &files {
        for (name, value) in oracle(&["count", "--version", "v1.36.0", file]).as_object().unwrap() {
            *wanted.entry(name.clone()).or_default() += value.as_f64().unwrap();
        }
    }
    let total: f64 = requests(&wanted);
    let ours = judge.wait(|series| requests(series) >= total);
    let counters = |all: &BTreeMap<String, f64>| -> BTreeMap<String, f64> {
        let own = all.iter().filter(|(name, value)| is_counter(name) && **value > 0.0);
        own.map(|(name, value)| (name.clone(), (value * 1e6).round() / 1e6)).collect()
    };
    none(&wrong(&counters(&ours), &counters(&wanted)));

    // And as if all were read by one.
    let together = path("together");
    let all = path("all");
    for (node, file) in files.iter().enumerate() {
        let folder = all.join(format!("apiserver-{node}"));
        fs::create_dir_all(&folder).unwrap();
        fs::copy(file, folder.join("audit.log")).unwrap();
    }
    let ran = plimsoll(&["record", text(&all), "--store", text(&together), "--keep-rollups", "10s=20000d"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let since = "since=2026-11-20T00:00:00Z&until=2026-11-21T00:00:00Z";
    for (question, words) in [("balance", vec!["balance"]), ("traffic", vec!["traffic", "--by", "verb,resource,user"])]
    {
        let by = if question == "traffic" { "&by=verb,resource,user&top=0" } else { "&top=0" };
        let theirs = judge.json(&format!("/api/v1/{question}?{since}{by}"));
        let span = ["--since", "2026-11-20T00:00:00Z", "--until", "2026-11-21T00:00:00Z", "--top", "0", "-o", "json"];
        let ran = plimsoll(&[&words[..], &[text(&together.join("rollups"))], &span].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let ours: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(!ours["rows"].as_array().unwrap().is_empty());
        assert_eq!(theirs["rows"], ours["rows"], "{question}");
        assert_eq!(theirs["totals"], ours["totals"], "{question}");
    }
    // Nodes keep nothing that went.
    nodes[0].wait(|series| series.get("plimsoll_serve_parts_waiting{}") == Some(&0.0));
    let left = fs::read_dir(path("store0/rollups")).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert_eq!(left.count(), 0);
}

/// What is no part, or a damaged one, never gets into the store.
#[test]
fn parts_that_are_not_whole_are_not_taken() {
    let home = folder();
    let store = home.path().join("store");
    let serving = Serving::start(&["--store", text(&store)]);
    serving.wait(|series| series.contains_key("plimsoll_serve_rounds_total{}"));
    let post = |path: &str, body: &[u8]| serving.raw(&format!("POST {path}"), body);
    for (path, status) in [
        ("/parts/../x/manifest.json?from=0", 400),
        ("/parts/a/.hidden?from=0", 400),
        ("/parts/a/b/c.parquet?from=0", 400),
        ("/parts/a/run.sh?from=0", 400),
        ("/parts/a/traffic.parquet", 400),
        ("/parts/a/traffic.parquet?from=-1", 400),
        ("/parts/a/traffic.parquet?from=7", 409),
        ("/parts/a/traffic.parquet?from=0", 200),
        ("/parts/a/manifest.json?from=0", 422),
    ] {
        assert_eq!(post(path, b"no part").0, status, "{path}");
    }
    // A whole one of which a byte is another.
    let made = home.path().join("rollup");
    let ran = plimsoll(&["rollup", &sample("quiet/audit"), "--to", text(&made)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut names: Vec<String> =
        fs::read_dir(&made).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_by_key(|name| name == "manifest.json");
    for name in &names {
        let mut bytes = fs::read(made.join(name)).unwrap();
        if name == "traffic.parquet" {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        let (status, _, body) = post(&format!("/parts/bad/{name}?from=0"), &bytes);
        let expected = if name == "manifest.json" { 422 } else { 200 };
        assert_eq!(status, expected, "{name}: {}", String::from_utf8_lossy(&body));
    }
    let rounds = serving.series()["plimsoll_serve_rounds_total{}"];
    let ours = serving.wait(|series| series["plimsoll_serve_rounds_total{}"] > rounds + 1.0);
    assert!(requests(&ours) == 0.0 && ours["plimsoll_serve_errors_total{}"] == 0.0, "{ours:?}");
    assert_eq!(serving.get("/parts"), (200, "{}".to_owned()));
}

/// Without a secret nobody but this machine is answered: no name that leads to it, and no web page from elsewhere.
#[test]
fn web_pages_from_elsewhere_get_nothing() {
    let log = Log::new();
    log.append("audit.log", 0..10);
    let serving = Serving::start(&[text(&log.folder)]);
    serving.wait_ready();
    let asked = |headers: &str| {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    let own = format!("Host: {0}\r\nOrigin: http://{0}\r\n", serving.address);
    for headers in ["Host: localhost\r\n", "Host: 127.0.0.1\r\n", &own] {
        assert_eq!(asked(headers), "200", "{headers}");
    }
    let page = format!("Host: {}\r\nOrigin: http://evil.example\r\n", serving.address);
    for headers in ["Host: evil.example\r\n", &page, "Host: localhost\r\nOrigin: null\r\n"] {
        assert_eq!(asked(headers), "403", "{headers}");
    }
}

/// As promtool and a real Prometheus see it, in both formats, packed or not.
#[test]
fn prometheus_takes_what_is_exported() {
    let log = Log::new();
    log.append("audit.log", 0..log.lines.len());
    let serving = Serving::start(&[text(&log.folder), "--k8s-version", "1.36"]);
    let ours = serving.wait(|series| requests(series) > 0.0);
    let (_, page) = serving.get("/metrics");
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]);
    let checked = feed(command, page.as_bytes());
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{}", checked.stdout);
    for banned in ["namespace=", "pod=", "instance=", "job=", "service="] {
        assert!(
            !page.lines().any(|line| line.contains(&format!("{{{banned}")) || line.contains(&format!(",{banned}")))
        );
    }
    let (status, head, body) = serving.raw("GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\nX:", b"");
    assert!(status == 200 && head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    let open = folder();
    let path = write(open.path(), "page.txt", &body);
    let mut checker = Command::new(python());
    checker.args([
        "-c",
        "import sys\nfrom prometheus_client.openmetrics.parser import text_string_to_metric_families \
         as f\nprint(sum(len(x.samples) for x in f(open(sys.argv[1]).read())))",
        &path,
    ]);
    let parsed = feed(checker, b"");
    assert_eq!(parsed.code, Some(0), "{}", parsed.stderr);
    let (_, head, packed) = serving.raw("GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip\r\nX:", b"");
    assert!(head.contains("content-encoding: gzip") && packed.len() * 3 < page.len(), "{head}");
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut unpacked).unwrap();
    assert_eq!(series(&unpacked).len(), ours.len());

    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let query = "sum by (verb) (plimsoll_client_requests_total{cluster=\"\"})";
    let answer = oracle(&["prometheus", &port, &serving.address, query]);
    let mut theirs: BTreeMap<String, f64> = BTreeMap::new();
    for row in answer.as_array().unwrap() {
        let value = row["value"][1].as_str().unwrap().parse().unwrap();
        theirs.insert(row["metric"]["verb"].as_str().unwrap().to_owned(), value);
    }
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for (name, value) in ours.iter().filter(|(name, _)| name.starts_with("plimsoll_client_requests_total{")) {
        let verb = name.trim_end_matches('}').split(',').find_map(|pair| pair.strip_prefix("verb=")).unwrap();
        *sums.entry(verb.to_owned()).or_default() += value;
    }
    assert_eq!(theirs, sums);
}

/// Scrapers that take protobuf get native histograms, in which a real Prometheus finds the quantiles of the log.
#[test]
fn prometheus_takes_native_histograms() {
    let log = Log::new();
    log.append("audit.log", 0..log.lines.len());
    let serving = Serving::start(&[text(&log.folder), "--k8s-version", "1.36"]);
    let ours = serving.wait(|series| requests(series) > 0.0);
    let ask = |query: &str| {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let answer = oracle(&["prometheus", &port, &serving.address, query, "native-histograms"]);
        let value = |row: &Value| row["value"][1].as_str().unwrap().parse::<f64>().unwrap();
        answer.as_array().unwrap().iter().map(value).collect::<Vec<f64>>()
    };
    let counted = |name: &str, part: &str| -> f64 {
        let name = format!("plimsoll_client_request_duration_seconds_{name}{{");
        ours.iter().filter(|(own, _)| own.starts_with(&name) && own.contains(part)).map(|(_, value)| value).sum()
    };
    // Counters keep their names.
    let [requests] = ask("sum(plimsoll_client_requests_total)")[..] else { panic!() };
    assert_eq!(requests, self::requests(&ours));
    let family = "plimsoll_client_request_duration_seconds";
    let [count] = ask(&format!("sum(histogram_count({family}))"))[..] else { panic!() };
    assert_eq!(count, counted("count", ""));
    let mut seconds: Vec<f64> = log.lines.iter().filter_map(|line| took(line, "get")).collect();
    seconds.sort_by(f64::total_cmp);
    assert_eq!(seconds.len() as f64, counted("count", "op=read"));
    // A bucket is 9 % wide, and one of the roll-up 6 %.
    for rank in [0.5, 0.9, 0.99] {
        let truth = seconds[(rank * seconds.len() as f64).ceil() as usize - 1];
        let [found] = ask(&format!("histogram_quantile({rank}, sum({family}{{op=\"read\"}}))"))[..] else { panic!() };
        assert!((found / truth).ln().abs() < 0.15, "{rank}: {found} s, in the log {truth} s");
    }
}

/// How long a request took that has ended, was of this verb and for an object, s.
fn took(line: &[u8], verb: &str) -> Option<f64> {
    let event: Value = serde_json::from_slice(line).ok()?;
    let lasts = ["log", "exec", "attach", "portforward", "proxy"];
    let is_it = event["stage"] == "ResponseComplete"
        && event["verb"] == verb
        && event["objectRef"]["resource"].as_str().is_some_and(|own| !own.is_empty())
        && !event["objectRef"]["subresource"].as_str().is_some_and(|own| lasts.contains(&own));
    let at = |field: &str| plimsoll::model::time::parse_any(event[field].as_str()?);
    is_it.then(|| Some((at("stageTimestamp")? - at("requestReceivedTimestamp")?) as f64 / 1e6))?
}

/// What is posted is on disk before it is acknowledged, and counts once even if it is posted again.
#[test]
fn events_are_posted_as_apiservers_do() {
    let log = Log::new();
    log.append("audit.log", 0..2000);
    let store = log.folder.parent().unwrap().join("store");
    let args = ["--store", text(&store), "--k8s-version", "1.36", "--keep-rollups", "10s=20000d"];
    // It has read, and will not again while it lives: each process counts for itself the events that it reads.
    let mut serving = Serving::start_reading("1h", &args);
    serving.wait_ready();
    let batch = |first: usize, last: usize| {
        let (first, last) = (first.to_string(), last.to_string());
        serde_json::to_string_pretty(&oracle(&["list", &log.path("audit.log"), &first, &last])).unwrap()
    };
    for (first, last) in [(0, 900), (900, 1500), (0, 900)] {
        let (status, head, _) = serving.raw("POST /audit/apiserver-0", batch(first, last).as_bytes());
        assert_eq!(status, 200, "{head}");
    }
    // Acknowledged, and killed before anything was read.
    serving.signal("-KILL");
    let serving = Serving::start(&args);
    let (status, ..) = serving.raw("POST /audit/apiserver-0", batch(900, 2000).as_bytes());
    assert_eq!(status, 200);
    let ours = serving.wait(|series| events(series) >= 2000.0);
    assert_eq!(events(&ours), 2000.0);
    none(&differences(&ours, &[&log.path("audit.log")]));

    let bad: [(&str, &[u8], u16); 8] = [
        ("POST /audit/apiserver-0", b"{", 400),
        ("POST /audit/apiserver-0", b"{\"kind\":\"List\",\"items\":[]}", 400),
        ("POST /audit/apiserver-0", b"{\"kind\":\"EventList\",\"items\":[7]}", 400),
        ("POST /audit/apiserver-0", b"{\"kind\":\"EventList\",\"items\":null}", 200),
        ("POST /audit/../../etc", b"{\"kind\":\"EventList\",\"items\":[]}", 400),
        ("POST /audit/.x", b"{\"kind\":\"EventList\",\"items\":[]}", 400),
        ("GET /audit", b"", 405),
        ("POST /metrics", b"x", 405),
    ];
    for (head, body, expected) in bad {
        let (status, _, text) = serving.raw(head, body);
        assert_eq!(status, expected, "{head}: {}", String::from_utf8_lossy(&text));
    }
    // An item that is no event is lost, and the rest counts.
    let (status, ..) = serving.raw("POST /audit/odd", b"{\"kind\":\"EventList\",\"items\":[{\"x\":1}]}");
    assert_eq!(status, 200);
}

/// The documents are those of the commands, on the store.
#[test]
fn documents_are_what_the_commands_say() {
    let log = Log::new();
    log.append("audit.log", 0..log.lines.len());
    let store = log.folder.parent().unwrap().join("store");
    let serving = Serving::start(&[text(&log.folder), "--store", text(&store), "--keep-rollups", "10s=20000d"]);
    serving.wait(|series| requests(series) > 0.0);
    let rollups = store.join("rollups");
    let (since, until) = ("2026-11-20T09:18:00Z", "2026-11-20T09:26:00Z");
    let bounds = ["--since", since, "--until", until, "-o", "json"];
    for (path, command) in [
        ("traffic?by=verb,resource", vec!["traffic", text(&rollups), "--by", "verb,resource"]),
        ("traffic?by=user&where=verb%3Dlist", vec!["traffic", text(&rollups), "--by", "user", "--where", "verb=list"]),
        ("clients?top=3", vec!["clients", text(&rollups), "--top", "3"]),
        ("balance?", vec!["balance", text(&rollups)]),
        ("controllers?", vec!["controllers", text(&rollups)]),
        ("guard/events?severity=critical", vec!["guard", "events", text(&rollups), "--severity", "critical"]),
        ("episodes?", vec!["guard", "episodes", text(&rollups)]),
    ] {
        let ours = serving.json(&format!("/api/v1/{path}&since={since}&until={until}"));
        let ran = plimsoll(&[command.as_slice(), &bounds].concat());
        let theirs: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{path}: {e}: {}", ran.stderr));
        assert_eq!(ours, theirs, "{path}");
    }
    let (status, page) = serving.get(&format!("/report?since={since}&until={until}"));
    assert!(status == 200 && page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{status}");
    assert_eq!(serving.json(&format!("/api/v1/report?since={since}&until={until}"))["schema"], "plimsoll.report/v1");
    for (path, status, says) in [
        ("/api/v1/traffic?colour=red", 400, "colour: no such parameter"),
        ("/api/v1/traffic?since=soon", 400, "since"),
        ("/api/v1/traffic?by=nothing&since=-20000d", 400, "nothing"),
        ("/api/v1/report?since=2020-01-01&until=2020-01-02", 400, "between"),
        ("/api/v1/nothing", 404, "not found"),
        ("/api/v1/traffic?since=-1h&since=-20000d", 400, "since: given more than once"),
        ("/api/v1/guard/events?kind=delete-everything&since=-20000d", 400, "is unknown; use one of delete-namespace"),
        // Not that there were no requests.
        ("/api/v1/traffic?since=2020-01-01&until=2020-01-02", 404, "nothing was recorded"),
        ("/api/v1/balance?since=2020-01-01&until=2020-01-02", 404, "nothing was recorded"),
        ("/api/v1/balance?since=-20000d&where=user%3Dnobody", 200, "balance"),
        ("/healthz", 200, "ok"),
        ("/readyz", 200, "ok"),
    ] {
        let (code, body) = serving.get(path);
        assert!(code == status && body.contains(says), "{path}: {code} {body}");
    }
}

/// Beyond this machine only with a secret, and over TLS with a certificate that may be renewed.
#[test]
fn access_needs_what_was_asked_for() {
    let home = folder();
    let token = write(home.path(), "token", "s3cret\n");
    let basic = write(home.path(), "basic", "ann:pw\n");
    let refused = plimsoll(&["serve", "--listen", "0.0.0.0:0"]);
    refused.exits(2);
    assert!(refused.stderr.contains("without authentication"), "{}", refused.stderr);
    let serving = Serving::start(&["--bearer-token-file", &token, "--basic-auth-file", &basic]);
    serving.wait_ready();
    for (header, expected) in [
        ("X: y", 401),
        ("Authorization: Bearer wrong", 401),
        ("Authorization: Bearer s3cret", 200),
        ("Authorization: Basic YW5uOnB3", 200),
        ("Authorization: Basic YW5uOg==", 401),
    ] {
        let (status, head, _) = serving.raw(&format!("GET /metrics HTTP/1.1\r\n{header}\r\nX:"), b"");
        assert_eq!(status, expected, "{header}: {head}");
    }
    let (taken, ..) = (plimsoll(&["serve", "--listen", &serving.address]), 0);
    taken.exits(2);
    assert!(taken.stderr.contains("another process listens there"), "{}", taken.stderr);

    let certificate = |name: &str| {
        let (cert, key) = (home.path().join("tls.crt"), home.path().join("tls.key"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
            .args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}")])
            .args(["-keyout", text(&key), "-out", text(&cert)])
            .output()
            .expect("openssl; run .ci/setup");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        (text(&cert).to_owned(), text(&key).to_owned())
    };
    let (cert, key) = certificate("one.example");
    let serving = Serving::start(&["--tls-cert", &cert, "--tls-key", &key]);
    let status = |name: &str| {
        let (_, port) = serving.address.rsplit_once(':').unwrap();
        let ran = Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", &cert])
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1"), &format!("https://{name}:{port}/healthz")])
            .output()
            .expect("curl; run .ci/setup");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    assert_eq!(status("one.example"), "200");
    std::thread::sleep(Duration::from_millis(20));
    certificate("two.example");
    let began = Instant::now();
    while status("two.example") != "200" {
        assert!(began.elapsed() < PATIENCE, "the new certificate is never used");
        std::thread::sleep(Duration::from_millis(500));
    }
    // One that is damaged is no reason to serve nobody, and is said once.
    let whole = std::fs::read(&cert).unwrap();
    std::fs::write(&cert, "-----BEGIN").unwrap();
    let began = Instant::now();
    let problem = "the certificate from before stays in use";
    while !serving.stderr_text.lock().unwrap().contains(problem) {
        assert!(began.elapsed() < PATIENCE, "nobody says that the certificate can't be used");
        std::thread::sleep(Duration::from_millis(200));
    }
    std::fs::write(&cert, whole).unwrap();
    assert_eq!(status("two.example"), "200");
    assert_eq!(serving.stderr_text.lock().unwrap().matches(problem).count(), 1);
    // One that has expired is served, and it is said that nobody takes it.
    let (request, name) = (text(&home.path().join("request.pem")).to_owned(), "subjectAltName=DNS:one.example");
    for args in [
        vec!["req", "-new", "-key", &key, "-subj", "/CN=one.example", "-addext", name, "-out", &request],
        // Without extensions it would be of version 1, which nobody serves.
        vec![
            "x509",
            "-req",
            "-in",
            &request,
            "-signkey",
            &key,
            "-days",
            "0",
            "-copy_extensions",
            "copyall",
            "-out",
            &cert,
        ],
    ] {
        let made = Command::new("openssl").args(&args).output().expect("openssl; run .ci/setup");
        assert!(made.status.success(), "{args:?}: {}", String::from_utf8_lossy(&made.stderr));
    }
    let began = Instant::now();
    while !serving.stderr_text.lock().unwrap().contains("the certificate expired at 20") {
        assert!(began.elapsed() < PATIENCE, "nobody says that the certificate has expired");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(status("one.example"), "000");
    let wrong = plimsoll(&["serve", "--tls-cert", &token, "--tls-key", &key]);
    wrong.exits(2);
    assert!(wrong.stderr.contains("no certificate in it"), "{}", wrong.stderr);
}

/// Who has no secret of the server's own is asked about in the cluster: who they are, and what they may see.
#[test]
fn the_cluster_decides_who_may_see_what() {
    let page = sample("quiet/metrics/apiserver-0/1795167937.txt.zst");
    let lab = Lab::start(&[&page, &page]);
    let log = Log::new();
    log.append("audit.log", 0..log.lines.len());
    let kubeconfig = lab.kubeconfig();
    let sources = [text(&log.folder), "--k8s-version", "1.36", "--keep-rollups", "10s=20000d"];
    let cluster = ["--kubeconfig", text(&kubeconfig), "--context", "full", "--review-access"];
    let serving = Serving::start(&[&sources[..], &cluster].concat());
    serving.wait_ready();
    let ask = |token: &str, path: &str| {
        let (status, _, body) =
            serving.raw(&format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nX:"), b"");
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let traffic = "/api/v1/traffic?by=user,verb,resource&since=2026-11-20T09:00:00Z&until=2026-11-20T10:00:00Z";
    let own = format!("{traffic}&namespace=kube-system");
    let other = format!("{traffic}&namespace=default");
    let trick = format!("{traffic}&namespace=kube-system&namespace=default");
    let pattern = format!("{traffic}&namespace=~.*");
    for (token, path, status, words) in [
        ("sesame-sre", "/metrics", 200, ""),
        ("sesame-sre", traffic, 200, ""),
        ("sesame-sre", &other, 200, ""),
        ("sesame-sre", &pattern, 400, "is not the name of a namespace"),
        (
            "sesame-sre",
            "/api/v1/report",
            403,
            "sre@example.org needs a ClusterRole with nonResourceURLs [/api/v1/report]",
        ),
        ("sesame-team", "/metrics", 403, "nonResourceURLs [/metrics] and verbs [get]"),
        ("sesame-team", traffic, 403, "or add ?namespace=N"),
        ("sesame-team", &own, 200, ""),
        ("sesame-team", "/api/v1/guard/events?namespace=kube-system&since=2026-11-20T09:00:00Z", 200, ""),
        ("sesame-team", "/api/v1/clients?namespace=kube-system", 403, "nonResourceURLs [/api/v1/clients]"),
        ("sesame-team", &other, 403, "verbs [get] in default"),
        ("sesame-team", &trick, 403, "verbs [get] in default"),
        ("sesame-team", &pattern, 403, ""),
        ("sesame-nobody", &own, 403, "nobody@example.org needs"),
        ("sesame-stranger", "/metrics", 401, "not authenticated"),
        ("sesame-stranger", "/healthz", 200, ""),
    ] {
        let (got, body) = ask(token, path);
        assert_eq!(got, status, "{token} {path}: {body}");
        assert!(body.contains(words), "{token} {path}: {body}");
    }
    assert_eq!(serving.get("/metrics").0, 401);
    // Without authentication nobody can ask by a password that nobody has set.
    assert_eq!(serving.raw("GET /metrics HTTP/1.1\r\nAuthorization: Basic YW5uOnB3\r\nX:", b"").0, 401);
    // What is seen of a namespace is what the command says of it.
    let rows = |document: &str| serde_json::from_str::<Value>(document).unwrap()["rows"].as_array().unwrap().clone();
    let seen = rows(&ask("sesame-team", &own).1);
    let all = rows(&ask("sesame-sre", traffic).1);
    let by = ["traffic", text(&log.folder), "--by", "user,verb,resource", "--where", "namespace=kube-system"];
    let command = plimsoll(&[&by[..], &["-o", "json"]].concat()).json(0);
    let counts = |rows: &[Value]| {
        let of = |row: &Value| ["user", "verb", "resource", "requests"].map(|name| row[name].to_string());
        rows.iter().map(of).collect::<BTreeSet<_>>()
    };
    assert_eq!(counts(&seen), counts(command["rows"].as_array().unwrap()));
    assert!(!seen.is_empty() && seen.len() < all.len(), "{} {}", seen.len(), all.len());
    // Asked once, however often: what was decided holds for a minute.
    let reviews = lab.requests("tokenreviews");
    assert!((4..=6).contains(&reviews.len()), "{reviews:?}");
    let refused = plimsoll(&["serve", "--review-access"]);
    refused.exits(2);
    assert!(refused.stderr.contains("--review-access: which cluster decides"), "{}", refused.stderr);
    // A cluster that can't be asked lets nobody in.
    let serving = Serving::start(&["--kubeconfig", text(&kubeconfig), "--context", "down", "--review-access"]);
    let (status, _, body) = serving.raw("GET /metrics HTTP/1.1\r\nAuthorization: Bearer sesame-sre\r\nX:", b"");
    assert_eq!(status, 503, "{}", String::from_utf8_lossy(&body));
}

impl Serving {
    fn wait_ready(&self) {
        let began = Instant::now();
        while self.get("/readyz").0 != 200 {
            assert!(began.elapsed() < PATIENCE, "never ready");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
