//! `plimsoll traffic` on what is live, against stand-ins for apiservers (`tests/oracle/apiserver.py`) that serve one
//! page of a sample after the other.

use crate::lab::Lab;
use crate::support::{Ran, count, feed, folder, hermetic, none, number, plimsoll, run, sample, sample_bytes, write};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The times of the pages that are served; they are 15 s apart, but are read one after the other.
const TIMES: [u64; 4] = [1_795_166_501, 1_795_166_516, 1_795_166_531, 1_795_166_546];

fn paths(instance: &str) -> Vec<String> {
    TIMES.iter().map(|time| sample(&format!("list-storm/metrics/{instance}/{time}.txt.zst"))).collect()
}

/// Two apiservers that serve the sample's pages; `plain` serves both in turns, as a load balancer in front of them
/// would.
fn cluster() -> Lab {
    let (a, b) = (paths("apiserver-0"), paths("apiserver-1"));
    let turns: Vec<&str> = a.iter().zip(&b).flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
    Lab::start(&[&a.join(","), &b.join(","), &turns.join(",")])
}

/// `apiserver_request_total` of a page, by resource: what there is to count, without any rule.
fn requests(page: &[u8]) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for line in std::str::from_utf8(page).unwrap().lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let resource = line.split_once("resource=\"").unwrap().1.split_once('"').unwrap().0;
        *found.entry(resource.to_owned()).or_default() += line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
    }
    assert!(found.len() > 10, "{found:?}");
    found
}

/// What was added from page `from` to page `to` of these instances.
fn added(instances: &[&str], from: usize, to: usize) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for instance in instances {
        let at = |at: usize| requests(&sample_bytes(&format!("list-storm/metrics/{instance}/{}.txt.zst", TIMES[at])));
        let before = at(from);
        for (resource, value) in at(to) {
            *found.entry(resource.clone()).or_default() +=
                (value - before.get(&resource).copied().unwrap_or_default()) as u64;
        }
    }
    found.retain(|_, count| *count > 0);
    found
}

const BOTH: [&str; 2] = ["apiserver-0", "apiserver-1"];

/// The rows' requests by resource.
fn by_resource(report: &Value) -> BTreeMap<String, u64> {
    let rows = report["rows"].as_array().unwrap().iter();
    rows.map(|row| (row["resource"].as_str().unwrap().to_owned(), count(row, "requests")))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Arguments for a context of the stand-ins.
fn asking(lab: &Lab, context: &str, more: &[&str]) -> Vec<String> {
    let kubeconfig = lab.kubeconfig();
    let first = [
        "traffic",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--context",
        context,
        "--by",
        "resource",
        "-o",
        "json",
    ];
    first.iter().chain(more).map(|text| (*text).to_owned()).collect()
}

fn ask(lab: &Lab, context: &str, more: &[&str]) -> Ran {
    let arguments = asking(lab, context, more);
    plimsoll(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn instances(report: &Value) -> Vec<(String, u64)> {
    let all = report["coverage"]["instances"].as_array().unwrap().iter();
    all.map(|instance| (instance["instance"].as_str().unwrap().to_owned(), count(instance, "pages"))).collect()
}

/// Requests, seconds and rates fit one another, and the time is that of the reading.
#[track_caller]
fn check_rates(report: &Value, seconds: f64) {
    let took = number(&report["window"], "seconds");
    assert!(took >= seconds - 0.1 && took < seconds + 5.0, "{}", report["window"]);
    let all: f64 =
        report["coverage"]["instances"].as_array().unwrap().iter().map(|instance| number(instance, "seconds")).sum();
    let of_one = all / instances(report).len() as f64;
    let rps = number(&report["totals"], "rps");
    let expected = number(&report["totals"], "requests") / of_one;
    // Each apiserver has its own seconds, which differ by a few milliseconds.
    assert!((rps - expected).abs() < 0.2 * expected, "{rps} {expected}");
    let end: jiff::Timestamp = report["window"]["to"].as_str().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now().duration_since(end).as_secs() < 60, "{end}");
}

#[test]
fn two_apiservers_and_four_pages() {
    let lab = cluster();
    let ran = ask(&lab, "full", &["--every", "1s", "--for", "3s"]);
    let report = ran.json(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(by_resource(&report), added(&BOTH, 0, 3));
    let mut names = vec![(lab.name("a"), 4), (lab.name("b"), 4)];
    names.sort();
    assert_eq!(instances(&report), names);
    check_rates(&report, 3.0);
    assert!(number(&report["totals"], "peak_rps") >= number(&report["totals"], "rps") * 0.9, "{}", report["totals"]);
    for instance in report["coverage"]["instances"].as_array().unwrap() {
        assert_eq!(
            (instance["cluster"].as_str(), instance["version"].as_str(), count(instance, "restarts")),
            (Some("lab"), Some("v1.36.0"), 0)
        );
        assert_eq!(instance["since_start"], false, "{instance}");
    }
    // It asks for nothing but what docs/commands/index.md says, and says who it is.
    let mut asked: Vec<String> = Vec::new();
    for request in lab.requests("/") {
        assert_eq!(request["agent"], concat!("plimsoll/", env!("CARGO_PKG_VERSION")), "{request}");
        assert_eq!((request["status"].as_u64(), request["beside"].as_u64()), (Some(200), Some(1)), "{request}");
        asked.push(request["path"].as_str().unwrap().split('?').next().unwrap().to_owned());
    }
    asked.sort();
    assert_eq!(asked.iter().filter(|path| *path == "/metrics").count(), 8);
    asked.dedup();
    assert_eq!(asked, ["/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", "/metrics", "/version"]);
}

#[test]
fn the_kubeconfigs_own_context_and_two_pages() {
    let lab = cluster();
    let kubeconfig = lab.kubeconfig();
    let environment = [("KUBECONFIG", kubeconfig.to_str().unwrap())];
    let report = run(&["traffic", "--every", "500ms", "--by", "instance", "-o", "json"], &environment, b"").json(0);
    check_rates(&report, 0.5);
    assert!(instances(&report).iter().all(|(_, pages)| *pages == 2), "{}", report["coverage"]);
    let rows = report["rows"].as_array().unwrap();
    let mut names: Vec<&str> = rows.iter().map(|row| row["instance"].as_str().unwrap()).collect();
    names.sort_unstable();
    let mut expected = [lab.name("a"), lab.name("b")];
    expected.sort();
    assert_eq!(names, expected);
    for row in rows {
        let server = if row["instance"] == lab.name("a").as_str() { "apiserver-0" } else { "apiserver-1" };
        assert_eq!(count(row, "requests"), added(&[server], 0, 1).values().sum::<u64>(), "{row}");
    }
    // A context that there is not, and flags that a live cluster has no use for.
    let ran = ask(&lab, "no-such-context", &[]);
    assert!(ran.exits(3).stderr.contains("no-such-context") && ran.stderr.contains("it has: lab, "), "{}", ran.stderr);
    for more in [&["--since", "-1h"][..], &["--until", "now"], &["--from", "audit"]] {
        assert!(ask(&lab, "full", more).exits(2).stderr.contains("SOURCE"));
    }
}

#[test]
fn a_series_of_what_is_live() {
    let lab = cluster();
    let report = ask(&lab, "full", &["--every", "600ms", "--for", "1800ms", "--series", "--interval", "1s"]).json(0);
    let rows = report["rows"].as_array().unwrap();
    let mut sums = BTreeMap::<&str, u64>::new();
    for row in rows {
        *sums.entry(row["time"].as_str().unwrap()).or_default() += count(row, "requests");
    }
    assert!((2..=4).contains(&sums.len()), "{sums:?}");
    let (sum, expected) = (sums.values().sum::<u64>(), added(&BOTH, 0, 3).values().sum::<u64>());
    // Counts of an interval are rounded, row by row.
    assert!(sum.abs_diff(expected) <= rows.len() as u64, "{sum} {expected}");
}

// ---------------------------------------------------------------- following

/// A running `plimsoll traffic`, and what it prints line by line.
struct Running {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
    errors: std::thread::JoinHandle<String>,
    _home: tempfile::TempDir,
}

impl Running {
    fn start(arguments: &[String]) -> Self {
        let home = folder();
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        let mut child =
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(send.send(line)))
        });
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, lines, errors, _home: home }
    }

    /// The next line, as a document.
    fn document(&self) -> Value {
        let line = self.lines.recv_timeout(Duration::from_secs(20)).expect("another line");
        serde_json::from_str(&line).unwrap_or_else(|bad| panic!("one document to a line: {bad}: {line}"))
    }

    /// Sends a signal, and gives what comes after it: documents, exit code, stderr, and how long it took.
    fn end(mut self, signal: &str) -> (Vec<Value>, Option<i32>, String, Duration) {
        let sent = Instant::now();
        let kill = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        let took = sent.elapsed();
        let text = self.lines.iter().collect::<Vec<_>>().join("\n");
        let rest = serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect();
        (rest, status.code(), self.errors.join().unwrap(), took)
    }
}

#[test]
fn following_prints_all_that_was_counted_again_and_again() {
    let lab = cluster();
    let ran = ask(&lab, "full", &["--follow", "--every", "1s", "--for", "3s"]);
    ran.exits(0);
    let documents: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("one document to a line")).collect();
    assert_eq!(documents.len(), 4, "{}", ran.stdout);
    // One page shows totals since the start.
    let instances = documents[0]["coverage"]["instances"].as_array().unwrap();
    assert!(instances.iter().all(|instance| instance["since_start"] == true), "{instances:?}");
    let all: f64 = BOTH
        .iter()
        .flat_map(|i| requests(&sample_bytes(&format!("list-storm/metrics/{i}/{}.txt.zst", TIMES[0]))).into_values())
        .sum();
    assert_eq!(number(&documents[0]["totals"], "requests"), all);
    for (at, document) in documents.iter().enumerate().skip(1) {
        assert_eq!(by_resource(document), added(&BOTH, 0, at), "document {at}");
        check_rates(document, at as f64);
    }
    assert_eq!(ran.stderr, "");
    for (form, between) in [("csv", None), ("yaml", Some("---"))] {
        let mut arguments = asking(&lab, "full", &["--follow", "--every", "200ms", "--for", "500ms"]);
        arguments.iter_mut().filter(|argument| *argument == "json").for_each(|argument| form.clone_into(argument));
        let ran = plimsoll(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let text = &ran.exits(0).stdout;
        assert_eq!(
            text.lines().filter(|line| Some(*line) == between).count(),
            if between.is_some() { 2 } else { 0 },
            "{form}"
        );
        assert_eq!(
            text.lines().filter(|line| line.starts_with("resource,")).count(),
            usize::from(form == "csv"),
            "{form}"
        );
    }
}

#[test]
fn a_signal_ends_it_with_a_last_report() {
    let lab = cluster();
    for signal in ["INT", "TERM"] {
        let running = Running::start(&asking(&lab, "full", &["--follow", "--every", "300ms"]));
        for _ in 0..3 {
            running.document();
        }
        let (rest, code, errors, took) = running.end(signal);
        assert!((1..=3).contains(&rest.len()), "{} documents after SIG{signal}", rest.len());
        assert_eq!((code, errors.as_str()), (Some(0), ""), "SIG{signal}");
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
    // Without --follow, too: between two pages there is one report on the first.
    let before = lab.requests("/metrics").len();
    let running = Running::start(&asking(&lab, "full", &["--every", "60s"]));
    let end = Instant::now() + Duration::from_secs(20);
    while lab.requests("/metrics").len() < before + 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(300));
    let (rest, code, errors, took) = running.end("INT");
    assert_eq!((rest.len(), code, errors.as_str()), (1, Some(0), ""));
    assert!(
        instances(&rest[0]).iter().all(|(_, pages)| *pages == 1) && took < Duration::from_secs(3),
        "{took:?} {}",
        rest[0]["coverage"]
    );
}

// ---------------------------------------------------------------- what goes wrong

#[test]
fn one_apiserver_that_is_down() {
    let lab = cluster();
    let ran = ask(&lab, "one-down", &["--every", "500ms", "--for", "2s"]);
    let report = ran.json(3);
    assert_eq!(by_resource(&report), added(&["apiserver-0"], 0, 3));
    assert_eq!(instances(&report), [(lab.name("a"), 5)]);
    let down = format!("127.0.0.1:{}", lab.ports["closed"]);
    assert_eq!(ran.stderr.matches("check that the apiserver runs").count(), 1, "told once: {}", ran.stderr);
    assert!(ran.stderr.contains(&format!("{down}/metrics: connection refused")), "{}", ran.stderr);
    let ran = ask(&lab, "down", &["--every", "500ms"]);
    assert!(ran.exits(3).stdout.is_empty() && ran.stderr.contains("check that the apiserver runs"), "{}", ran.stderr);
}

#[test]
fn an_apiserver_that_fails_now_and_then() {
    let (a, b) = (paths("apiserver-0"), paths("apiserver-1"));
    // Two answers in a row that break off are a page that is lost; the counters that go on show what was between.
    let faulty = [&b[0], "@CUT@", "@CUT@", &b[2], &b[3]].join(",");
    let lab = Lab::start(&[&a.join(","), &faulty]);
    let ran = ask(&lab, "full", &["--every", "500ms", "--for", "1500ms"]);
    let report = ran.json(3);
    assert_eq!(by_resource(&report), added(&BOTH, 0, 3));
    let mut names = vec![(lab.name("a"), 4), (lab.name("b"), 3)];
    names.sort();
    assert_eq!(instances(&report), names);
    assert_eq!(ran.stderr.matches("ended without an answer").count(), 1, "{}", ran.stderr);
}

#[test]
fn an_apiserver_that_starts_anew() {
    let folder = folder();
    let text =
        |time: u64| String::from_utf8(sample_bytes(&format!("list-storm/metrics/apiserver-0/{time}.txt.zst"))).unwrap();
    // A process that started just before its page, and has counted a few requests.
    let mut anew = String::new();
    for line in text(TIMES[0]).lines() {
        let (series, _) = line.rsplit_once(' ').unwrap();
        anew += &match series {
            "process_start_time_seconds" => "process_start_time_seconds @NOW@\n".to_owned(),
            _ if line.starts_with('#') => format!("{line}\n"),
            _ if series.starts_with("apiserver_request_total{") => format!("{series} 2\n"),
            _ if series.starts_with("process_") || series.starts_with("go_") => format!("{series} 1\n"),
            _ => continue,
        };
    }
    let series = anew.lines().filter(|line| line.starts_with("apiserver_request_total{")).count() as u64;
    let anew = write(folder.path(), "anew.txt", anew);
    let of = paths("apiserver-0");
    let lab =
        Lab::start(&[&[of[0].as_str(), &of[1], &anew].join(","), &of[0], &[of[0].as_str(), &of[1], &anew].join(",")]);
    let expected = added(&["apiserver-0"], 0, 1).values().sum::<u64>() + 2 * series;
    let url = format!("http://{}/metrics", lab.name("plain"));
    for ran in [
        ask(&lab, "one-down", &["--every", "500ms", "--for", "1s"]),
        plimsoll(&["traffic", &url, "--every", "500ms", "--for", "1s", "-o", "json"]),
    ] {
        ran.did_not_panic();
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let instances = report["coverage"]["instances"].as_array().unwrap();
        assert_eq!(
            (instances.len(), count(&instances[0], "restarts"), count(&instances[0], "pages")),
            (1, 1, 3),
            "{instances:?}"
        );
        assert_eq!(count(&report["totals"], "requests"), expected);
    }
}

#[test]
fn without_a_kubeconfig_or_the_right_to_read() {
    let ran = plimsoll(&["traffic"]);
    assert!(ran.exits(3).stdout.is_empty(), "{}", ran.stdout);
    assert!(
        ran.stderr.contains("no kubeconfig")
            && ran.stderr.contains("--kubeconfig FILE")
            && ran.stderr.contains("KUBECONFIG"),
        "{}",
        ran.stderr
    );
    let lab = cluster();
    let ran = ask(&lab, "no-metrics", &["--every", "300ms", "--for", "1s"]);
    assert!(ran.exits(3).stdout.is_empty(), "{}", ran.stdout);
    for server in ["a", "b"] {
        let warnings: Vec<&str> =
            ran.stderr.lines().filter(|line| line.contains(&format!("{}/metrics: 403", lab.name(server)))).collect();
        assert_eq!(warnings.len(), 1, "told once: {}", ran.stderr);
        assert!(
            warnings[0].contains("nonResourceURLs [/metrics], verbs [get]")
                && warnings[0].contains("kubectl create clusterrole"),
            "{}",
            warnings[0]
        );
    }
    let ran = ask(&lab, "stranger", &[]);
    assert!(ran.exits(3).stderr.contains("401") && !ran.stderr.contains("sesame"), "{}", ran.stderr);
}

// ---------------------------------------------------------------- URLs

#[test]
fn a_load_balancer_is_no_restart() {
    let lab = cluster();
    let url = format!("http://{}/metrics", lab.name("plain"));
    // Four pages of each, in turns.
    let ran = plimsoll(&["traffic", &url, "--every", "200ms", "--for", "1400ms", "--by", "resource", "-o", "json"]);
    let report = ran.json(0);
    assert_eq!(by_resource(&report), added(&BOTH, 0, 3));
    let address = lab.name("plain");
    let all = instances(&report);
    assert_eq!(all.len(), 2, "{all:?}");
    for (number, (name, pages)) in all.iter().enumerate() {
        assert!(name.ends_with(&format!("#{}", number + 1)) && name.contains(&address), "{name}");
        assert_eq!(*pages, 4, "{all:?}");
    }
    assert!(
        report["coverage"]["instances"].as_array().unwrap().iter().all(|instance| count(instance, "restarts") == 0)
    );
    for request in lab.requests("/metrics") {
        assert_eq!(request["agent"], concat!("plimsoll/", env!("CARGO_PKG_VERSION")), "{request}");
    }
}

#[test]
fn four_pages_of_two_behind_a_url() {
    let lab = cluster();
    let url = format!("http://{}/metrics", lab.name("plain"));
    let report = plimsoll(&["traffic", &url, "--every", "1s", "--for", "3s", "--by", "resource", "-o", "json"]).json(0);
    assert_eq!(by_resource(&report), added(&BOTH, 0, 1));
    check_rates(&report, 2.0);
    assert!(number(&report["totals"], "peak_rps") > 0.0);
    // Once only, it is a page like any other.
    let lab = cluster();
    let url = format!("http://{}/metrics", lab.name("plain"));
    let report = plimsoll(&["traffic", &url, "-o", "json"]).json(0);
    assert_eq!(report["coverage"]["instances"][0]["since_start"], true, "{}", report["coverage"]);
    assert_eq!(lab.requests("/metrics").len(), 1);
}

#[test]
fn a_url_that_gives_no_metrics() {
    let lab = cluster();
    let silent = format!("http://{}/nothing-here", lab.name("plain"));
    let closed = format!("http://127.0.0.1:{}/metrics", lab.ports["closed"]);
    for url in [&silent, &closed] {
        let ran = plimsoll(&["traffic", url, "--every", "300ms", "--for", "700ms"]);
        assert!(ran.exits(3).stdout.is_empty() && ran.stderr.contains(url.as_str()), "{}", ran.stderr);
        assert_eq!(
            ran.stderr.lines().filter(|line| line.contains(url.as_str())).count(),
            1,
            "told once: {}",
            ran.stderr
        );
    }
    // One of two that is down.
    let good = format!("http://{}/metrics", lab.name("plain"));
    let ran = plimsoll(&["traffic", &closed, &good, "--every", "500ms", "--for", "1s", "-o", "json"]);
    assert!(number(&ran.json(3)["totals"], "requests") > 0.0);
}

// ---------------------------------------------------------------- a terminal

/// A terminal of 80 × 24 with a shell in it.
struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    fn open() -> Self {
        let terminal = Self { folder: folder() };
        terminal.tmux(&["-u", "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env PS1='ready$ ' sh"]);
        terminal.wait("the prompt", |screen| screen.contains("ready$"));
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = hermetic(Command::new("tmux"), self.folder.path());
        command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        command.arg("-S").arg(self.folder.path().join("socket")).args(arguments);
        let ran = feed(command, b"");
        assert_eq!(ran.code, Some(0), "run .ci/setup first? {}", ran.stderr);
        ran.stdout
    }

    fn keys(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.tmux(&["send-keys", "Enter"]);
    }

    /// What is to be seen.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn wait(&self, what: &str, ready: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let screen = self.screen();
            if ready(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "{what} never came; the screen is:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut command = hermetic(Command::new("tmux"), self.folder.path());
        command.arg("-S").arg(self.folder.path().join("socket")).arg("kill-server");
        feed(command, b"");
    }
}

#[test]
fn on_a_terminal_it_redraws_and_leaves_it_usable() {
    let lab = cluster();
    let terminal = Terminal::open();
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll")).to_str().unwrap();
    terminal.keys(&format!("cd {}; stty -a > before", terminal.folder.path().display()));
    let kubeconfig = lab.kubeconfig();
    let command = format!(
        "{program} traffic --kubeconfig {} --context full --follow --every 400ms --top 5",
        kubeconfig.display()
    );
    terminal.keys(&format!("clear; {command}"));
    let asked = || lab.requests("/metrics").len();
    let heads = |screen: &str| screen.lines().filter(|line| line.starts_with("VERB ")).count();
    terminal.wait("a table", |screen| heads(screen) > 0 && asked() >= 8);
    let mut faults = Vec::new();
    for _ in 0..5 {
        // A moment between clearing and drawing is possible, two tables at once are not.
        let screen = terminal.wait("a table", |screen| heads(screen) > 0);
        if heads(&screen) != 1 {
            faults.push(format!("{} tables at once:\n{screen}", heads(&screen)));
        }
        std::thread::sleep(Duration::from_millis(130));
    }
    // Lines that the terminal had to wrap are joined here; of what was scrolled away, nothing may be left.
    let everything = terminal.tmux(&["capture-pane", "-p", "-J", "-S", "-"]);
    for line in everything.lines().map(str::trim_end).filter(|line| line.chars().count() > 80) {
        faults.push(format!("{} columns: {line}", line.chars().count()));
    }
    if heads(&everything) > 1 {
        faults.push(format!("{} tables in what can be scrolled back to", heads(&everything)));
    }
    terminal.tmux(&["send-keys", "C-c"]);
    let screen = terminal.wait("the prompt", |screen| screen.trim_end().ends_with("ready$"));
    if heads(&screen) != 1 {
        faults.push(format!("the last report is not to be seen:\n{screen}"));
    }
    terminal.keys("echo exit code $?; stty -a > after; cmp before after && echo us\"\"able");
    let screen = terminal.wait("an answer of the shell", |screen| screen.lines().any(|line| line == "usable"));
    if !screen.lines().any(|line| line == "exit code 0") {
        faults.push(format!("it did not end well:\n{screen}"));
    }
    let state = terminal.tmux(&[
        "display-message",
        "-p",
        "#{cursor_flag} #{alternate_on} #{mouse_any_flag} #{insert_flag} #{wrap_flag}",
    ]);
    if state.trim() != "1 0 0 0 1" {
        faults.push(format!("cursor, alternate screen, mouse, insert, wrap: {state}"));
    }
    none(&faults);
}

#[test]
fn a_terminal_of_80_columns_shows_no_longer_line() {
    let lab = cluster();
    let url = format!("http://{}/metrics", lab.name("plain"));
    let mut faults = Vec::new();
    for more in [&[][..], &["--health"]] {
        let arguments = [&["traffic", &url, "--every", "300ms", "--for", "1s"], more].concat();
        let ran = run(&arguments, &[("COLUMNS", "80")], b"");
        for line in ran.exits(0).stdout.lines().filter(|line| unicode_width::UnicodeWidthStr::width(*line) > 80) {
            faults.push(format!("{} columns: {line}", unicode_width::UnicodeWidthStr::width(line)));
        }
    }
    none(&faults);
}
