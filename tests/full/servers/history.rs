//! Sixty days of quotas and API requests in a real Prometheus, and the truth about them.
//!
//! The data are made from a formula with known peaks, gaps and counter resets, written as OpenMetrics, and put into
//! Prometheus' own blocks by `promtool tsdb create-blocks-from openmetrics`. [`Truth`] keeps every point, so that a
//! test compares with what went in and with nothing that was read back.

use crate::support::{folder, jumble, root};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Seconds between samples.
pub(crate) const EVERY: i64 = 300;
/// 2026-09-01T00:00:00Z in seconds.
pub(crate) const START: i64 = 1_788_220_800;
/// Days of data.
pub(crate) const DAYS: i64 = 60;
/// Its end in seconds.
pub(crate) const END: i64 = START + DAYS * 86_400;
/// Namespaces with a ResourceQuota named `team`.
pub(crate) const NAMESPACES: usize = 6;
/// What the quotas are on.
pub(crate) const RESOURCES: [&str; 2] = ["requests.cpu", "requests.memory"];

/// A series as it went in: labels as on the page, and points by seconds.
pub(crate) struct Fed {
    pub(crate) name: &'static str,
    pub(crate) labels: BTreeMap<&'static str, String>,
    pub(crate) points: Vec<(i64, f64)>,
}

/// All that went in.
pub(crate) struct Truth {
    pub(crate) fed: Vec<Fed>,
}

/// The name of a namespace; one has what PromQL and regular expressions take for their own.
pub(crate) fn namespace(number: usize) -> String {
    if number == 0 { "team.0|x".to_owned() } else { format!("team-{number}") }
}

/// Seconds at the end in which there are pods, nodes and objects.
pub(crate) const LAST: i64 = 7_200;

/// What the other standard queries are about, in namespace team-1: constant but for one peak of objects. With it stands
/// what must not count: a second kube-state-metrics, pods that are done, init containers that are no sidecars, nodes
/// that take no pods.
fn last_hours() -> Vec<Fed> {
    let mut fed = Vec::new();
    let mut add = |name: &'static str, labels: &[(&'static str, &str)], value: f64| {
        let labels = labels
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        let points = (0..LAST / EVERY).map(|step| (END - LAST + step * EVERY, value)).collect();
        fed.push(Fed { name, labels, points });
    };
    let container = |instance, pod, name, resource| {
        [("instance", instance), ("namespace", "team-1"), ("pod", pod), ("container", name), ("resource", resource)]
    };
    for (instance, pod, name, value) in [
        ("a", "runs", "main", 0.5),
        ("b", "runs", "main", 0.5),
        ("a", "done", "main", 4.0),
        ("a", "waits", "main", 1.0),
    ] {
        add("kube_pod_container_resource_requests", &container(instance, pod, name, "cpu"), value);
    }
    add("kube_pod_container_resource_limits", &container("a", "runs", "main", "cpu"), 2.0);
    for (name, value) in [("side", 0.25), ("setup", 8.0)] {
        add("kube_pod_init_container_resource_requests", &container("a", "waits", name, "cpu"), value);
    }
    let info =
        |name, policy| [("namespace", "team-1"), ("pod", "waits"), ("container", name), ("restart_policy", policy)];
    add("kube_pod_init_container_info", &info("side", "Always"), 1.0);
    add("kube_pod_init_container_info", &info("setup", ""), 1.0);
    for (pod, phase, value) in [
        ("runs", "Running", 1.0),
        ("runs", "Pending", 0.0),
        ("done", "Succeeded", 1.0),
        ("done", "Running", 0.0),
        ("waits", "Pending", 1.0),
    ] {
        add("kube_pod_status_phase", &[("namespace", "team-1"), ("pod", pod), ("phase", phase)], value);
    }
    for (node, cpu) in [("one", 4.0), ("two", 8.0)] {
        add("kube_node_status_allocatable", &[("node", node), ("resource", "cpu")], cpu);
    }
    for (node, value) in [("one", 0.0), ("two", 1.0)] {
        add("kube_node_spec_unschedulable", &[("node", node)], value);
    }
    for (name, value) in [("main", 100.0), ("side", 50.0), ("", 175.0)] {
        add(
            "container_memory_working_set_bytes",
            &[("namespace", "team-1"), ("container", name), ("pod", "runs")],
            value,
        );
    }
    add("apiserver_storage_objects", &[("instance", "a"), ("resource", "pods")], 10.0);
    add("apiserver_resource_size_estimate_bytes", &[("instance", "a"), ("group", ""), ("resource", "pods")], 5e6);
    add("apiserver_resource_size_estimate_bytes", &[("instance", "b"), ("group", ""), ("resource", "pods")], 6e6);
    add("apiserver_storage_objects", &[("instance", "b"), ("resource", "pods")], 12.0);
    add("etcd_mvcc_db_total_size_in_bytes", &[("instance", "e")], 1e9);
    add("etcd_server_quota_backend_bytes", &[("instance", "e")], 8e9);
    let level = |instance, level, flow| [("instance", instance), ("priority_level", level), ("flow_schema", flow)];
    for (instance, flow, seats) in [("a", "one", 3.0), ("a", "two", 2.0), ("b", "one", 4.0)] {
        add("apiserver_flowcontrol_current_executing_seats", &level(instance, "low", flow), seats);
    }
    add("apiserver_flowcontrol_current_limit_seats", &level("a", "low", ""), 100.0);
    add("apiserver_flowcontrol_current_limit_seats", &level("b", "low", ""), 120.0);
    // Where there is the one, the other does not count.
    add("apiserver_flowcontrol_nominal_limit_seats", &level("a", "low", ""), 10.0);
    add("apiserver_flowcontrol_nominal_limit_seats", &level("a", "old", ""), 30.0);
    add("apiserver_flowcontrol_dispatched_requests_total", &level("a", "low", "one"), 0.0);
    let objects = fed.iter_mut().rfind(|fed| fed.name == "apiserver_storage_objects").unwrap();
    objects.points[7].1 = 99.0;
    // One a second.
    let dispatched = fed.iter_mut().find(|fed| fed.name.ends_with("dispatched_requests_total")).unwrap();
    dispatched.points.iter_mut().enumerate().for_each(|(step, point)| point.1 = step as f64 * EVERY as f64);
    fed
}

impl Truth {
    /// The formula.
    fn new() -> Self {
        let mut fed = Vec::new();
        let steps = DAYS * 86_400 / EVERY;
        for number in 0..NAMESPACES {
            for (place, resource) in RESOURCES.iter().enumerate() {
                let seed = (number * 2 + place) as u64;
                let unit = if place == 0 { 0.001 } else { 1_048_576.0 };
                // The single peak of the sixty days, at some instant of its own.
                let peak = (jumble(seed) % steps as u64) as i64;
                let mut used = Vec::new();
                let mut hard = Vec::new();
                for step in 0..steps {
                    let at = START + step * EVERY;
                    // The last namespace is new in the middle. Namespace 1 is not scraped for seven hours each tenth
                    // day.
                    let is_new = number == NAMESPACES - 1 && step < steps / 2;
                    let is_gap = number == 1
                        && (at - START) / 86_400 % 10 == 4
                        && (36_000..61_200).contains(&((at - START) % 86_400));
                    if is_new || (is_gap && step != peak) {
                        continue;
                    }
                    let daily = 400 + ((at % 86_400) / EVERY * 2) % 288;
                    let value =
                        daily + (jumble((seed << 32) | step as u64) % 50) as i64 + if step == peak { 1_000 } else { 0 };
                    used.push((at, value as f64 * unit));
                    hard.push((at, if step < steps / 3 { 1_500.0 } else { 2_000.0 } * unit));
                }
                for (kind, points) in [("used", used), ("hard", hard)] {
                    let labels = [
                        ("namespace", namespace(number)),
                        ("resourcequota", "team".to_owned()),
                        ("resource", (*resource).to_owned()),
                        ("type", kind.to_owned()),
                        ("instance", "10.0.0.1:8080".to_owned()),
                    ];
                    fed.push(Fed { name: "kube_resourcequota", labels: labels.into(), points });
                }
            }
        }
        for (place, verb) in ["GET", "LIST"].iter().enumerate() {
            let mut count = 0u64;
            let mut points = Vec::new();
            for step in 0..steps {
                // A restart every ninth day and a bit.
                if step % 2_700 == 1_000 {
                    count = 0;
                }
                count += 300 * (place as u64 + 1) + jumble(step as u64) % 30;
                points.push((START + step * EVERY, count as f64));
            }
            let labels = [
                ("verb", (*verb).to_owned()),
                ("resource", "pods".to_owned()),
                ("instance", "10.0.0.2:6443".to_owned()),
            ];
            fed.push(Fed { name: "apiserver_request_total", labels: labels.into(), points });
        }
        fed.extend(last_hours());
        Self { fed }
    }

    /// The points of a quota's series: `used` or `hard`.
    pub(crate) fn quota(&self, kind: &str, namespace: &str, resource: &str) -> &[(i64, f64)] {
        let is =
            |fed: &&Fed| fed.labels.get("type").is_some_and(|own| own == kind) && fed.labels["namespace"] == namespace;
        let found = self.fed.iter().filter(is).find(|fed| fed.labels["resource"] == resource);
        &found.unwrap_or_else(|| panic!("nothing went in of {kind} {namespace} {resource}")).points
    }

    /// A page of one day.
    fn page(&self, day: i64) -> String {
        let mut text = String::new();
        let mut name = "";
        let days = START + day * 86_400..START + (day + 1) * 86_400;
        for fed in &self.fed {
            if fed.name != name {
                name = fed.name;
                let (family, kind) = name.strip_suffix("_total").map_or((name, "gauge"), |family| (family, "counter"));
                let _ = writeln!(text, "# TYPE {family} {kind}");
            }
            let labels: Vec<String> = fed.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            let labels = labels.join(",");
            for (at, value) in fed.points.iter().filter(|(at, _)| days.contains(at)) {
                let _ = writeln!(text, "{name}{{{labels}}} {value} {at}");
            }
        }
        text + "# EOF\n"
    }
}

/// Where the blocks are, and what went into them.
pub(crate) fn history() -> &'static (PathBuf, Truth) {
    static HISTORY: OnceLock<(PathBuf, Truth)> = OnceLock::new();
    HISTORY.get_or_init(|| {
        let truth = Truth::new();
        let mut hasher = DefaultHasher::new();
        (0..DAYS).for_each(|day| truth.page(day).hash(&mut hasher));
        // They are kept for the next run, under a name that changes with what is in them.
        let kept = root().join("target/prometheus-blocks");
        let blocks = kept.join(format!("{:016x}", hasher.finish()));
        if !blocks.is_dir() {
            let _ = std::fs::remove_dir_all(&kept);
            std::fs::create_dir_all(&kept).unwrap();
            let made = tempfile::tempdir_in(&kept).unwrap();
            make_blocks(&truth, made.path());
            std::fs::rename(made.keep(), &blocks).unwrap();
        }
        (blocks, truth)
    })
}

/// Has promtool make the blocks. It reads the whole page once for each block of two hours: so a page a day.
fn make_blocks(truth: &Truth, into: &Path) {
    let home = folder();
    let next = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let day = next.fetch_add(1, Ordering::Relaxed);
                    if day >= DAYS {
                        return;
                    }
                    let page = home.path().join(format!("{day}.txt"));
                    std::fs::write(&page, truth.page(day)).unwrap();
                    let mut promtool = Command::new("promtool");
                    promtool.args(["tsdb", "create-blocks-from", "openmetrics"]).arg(&page).arg(into);
                    let done = promtool.output().expect("promtool is missing: run .ci/setup");
                    assert!(done.status.success(), "promtool: {}", String::from_utf8_lossy(&done.stderr));
                    std::fs::remove_file(&page).unwrap();
                }
            });
        }
    });
}

/// A Prometheus on a loopback port, with the history.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    pub(crate) home: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn link(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => link(&entry.path(), &to),
            // Blocks never change: Prometheus only deletes them.
            false => {
                std::fs::hard_link(entry.path(), &to).or_else(|_| std::fs::copy(entry.path(), &to).map(drop)).unwrap()
            }
        }
    }
}

impl Server {
    /// Starts one with more flags; `ready` shows whether it answers, by its URL.
    pub(crate) fn start(scheme: &str, flags: &[String], ready: impl Fn(&str) -> bool) -> Self {
        let home = folder();
        link(&history().0, &home.path().join("data"));
        std::fs::write(
            home.path().join("prometheus.yml"),
            format!("global: {{query_log_file: {}/queries}}\n", home.path().display()),
        )
        .unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = std::fs::File::create(home.path().join("log")).unwrap();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}/prometheus.yml", home.path().display()));
        command.arg(format!("--storage.tsdb.path={}/data", home.path().display()));
        command
            .args(["--storage.tsdb.retention.time=100y", "--log.level=warn"])
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        // Blocks of two hours stay as they are: putting them together would be work for nothing.
        command.args(["--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h"]).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().expect("prometheus is missing: run .ci/setup");
        let mut server = Self { child, url: format!("{scheme}://127.0.0.1:{port}"), home };
        let until = Instant::now() + Duration::from_secs(60);
        while !ready(&server.url) {
            let log = || std::fs::read_to_string(server.home.path().join("log")).unwrap();
            assert!(server.child.try_wait().unwrap().is_none(), "prometheus has ended: {}", log());
            assert!(Instant::now() < until, "prometheus does not answer within 60 s: {}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
        server
    }

    /// Starts one without TLS or passwords.
    pub(crate) fn plain(flags: &[String]) -> Self {
        Self::start("http", flags, |url| get(url, "/-/ready").is_some())
    }

    /// The queries that it has answered, as it logged them itself: expression, peak of samples.
    pub(crate) fn queries(&self) -> Vec<(String, u64)> {
        let text = std::fs::read_to_string(self.home.path().join("queries")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        // Those that it ended for the limit's sake stand there, too.
        lines
            .filter(|line| line["error"].is_null())
            .map(|line| {
                let peak =
                    line["stats"]["samples"]["peakSamples"].as_u64().expect("statistics of samples in the query log");
                (line["params"]["query"].as_str().unwrap().to_owned(), peak)
            })
            .collect()
    }
}

/// What a server without TLS answers with 200 to a GET; `None` for all else.
pub(crate) fn get(url: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://")?).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.lines().next()?.contains(" 200 ").then(|| body.to_owned())
}
