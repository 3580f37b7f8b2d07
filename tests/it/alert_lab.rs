//! What takes alerts: a real Alertmanager, and `tests/oracle/receivers.py` for mail (aiosmtpd) and HTTP. With objects
//! to be alerted of, and a configuration of alerts that leads to all of it.

use crate::support::{Ran, feed, folder, hermetic, python, root, run, write};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The key of signatures.
pub(crate) const KEY: &str = "a key of signatures";

/// The receivers, in a folder that is removed with them.
pub(crate) struct AlertLab {
    folder: tempfile::TempDir,
    ports: Value,
    receivers: Option<Child>,
    alertmanager: Option<Child>,
}

/// Ports that are free now, no two alike. Another test may take one before it is listened on.
fn free_ports() -> Value {
    let names = ["smtp", "starttls", "http", "alertmanager"];
    let listeners = names.map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    names
        .iter()
        .zip(&listeners)
        .map(|(name, own)| ((*name).to_owned(), json!(own.local_addr().unwrap().port())))
        .collect()
}

const NO_RECEIVERS: &str = "the receivers did not start; run .ci/setup first (aiosmtpd in target/venv)";
const NO_ALERTMANAGER: &str = "Alertmanager does not answer";

/// How often other ports are tried.
const TRIES: usize = 5;

fn openssl(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("openssl");
    command.args(arguments).current_dir(folder);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "run .ci/setup first: openssl: {}", ran.stderr);
}

impl AlertLab {
    /// Starts all of it.
    pub(crate) fn start() -> Self {
        let folder = folder();
        // An authority, and a server's certificate by it.
        let common = ["-newkey", "rsa:2048", "-nodes", "-days", "2"];
        let own = ["req", "-x509", "-subj", "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem"];
        openssl(folder.path(), &[&own[..], &common].concat());
        let server = ["req", "-x509", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
        let signed = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-addext", "basicConstraints=critical,CA:FALSE"];
        openssl(folder.path(), &[&server[..], &signed, &["-keyout", "key.pem", "-out", "cert.pem"], &common].concat());
        write(folder.path(), "alertmanager.yml", "route: { receiver: none }\nreceivers: [{ name: none }]\n");
        write(folder.path(), "hook-key", KEY);
        let mut lab = Self { folder, ports: Value::Null, receivers: None, alertmanager: None };
        // A port that was free may be another test's by now.
        let is_up = (0..TRIES).any(|_| {
            lab.stop_receivers();
            lab.stop_alertmanager();
            lab.ports = free_ports();
            lab.are_receivers_up() && lab.is_alertmanager_up()
        });
        assert!(is_up, "{NO_RECEIVERS}, or {NO_ALERTMANAGER}");
        write(lab.path(), "slack-url", format!("http://127.0.0.1:{}/chat\n", lab.ports["http"]));
        lab
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn port(&self, name: &str) -> u16 {
        u16::try_from(self.ports[name].as_u64().unwrap()).unwrap()
    }

    /// Starts the receivers again, where they were.
    pub(crate) fn start_receivers(&mut self) {
        assert!(self.are_receivers_up(), "{NO_RECEIVERS}");
    }

    /// Starts the receivers; whether they listen.
    fn are_receivers_up(&mut self) -> bool {
        let mut command = Command::new(python());
        command.arg(root().join("tests/oracle/receivers.py")).arg(self.path()).arg(self.ports.to_string()).arg(KEY);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.receivers = Some(child);
        line == "ready\n"
    }

    pub(crate) fn stop_receivers(&mut self) {
        self.receivers.take().into_iter().for_each(end);
    }

    /// Starts Alertmanager again, where it was.
    pub(crate) fn start_alertmanager(&mut self) {
        assert!(self.is_alertmanager_up(), "{NO_ALERTMANAGER}");
    }

    /// Starts Alertmanager; whether it answers, and did not end, as it does where another has its port.
    fn is_alertmanager_up(&mut self) -> bool {
        let mut command = hermetic(Command::new("prometheus-alertmanager"), self.path());
        command.current_dir(self.path()).args([
            "--config.file=alertmanager.yml",
            "--storage.path=data",
            "--cluster.listen-address=",
        ]);
        command.arg(format!("--web.listen-address=127.0.0.1:{}", self.port("alertmanager")));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("there is no prometheus-alertmanager on PATH; run .ci/setup first");
        let end = Instant::now() + Duration::from_secs(30);
        let mut is_up = false;
        while !is_up && Instant::now() < end && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(50));
            is_up = TcpStream::connect(("127.0.0.1", self.port("alertmanager"))).is_ok()
                && self.alertmanager_ready().is_some();
        }
        self.alertmanager = Some(child);
        is_up
    }

    fn alertmanager_ready(&self) -> Option<()> {
        ureq_get(&format!("http://127.0.0.1:{}/-/ready", self.port("alertmanager"))).map(drop)
    }

    pub(crate) fn stop_alertmanager(&mut self) {
        self.alertmanager.take().into_iter().for_each(end);
    }

    /// The alerts that Alertmanager has.
    pub(crate) fn alerts(&self) -> Vec<Value> {
        let text = ureq_get(&format!("http://127.0.0.1:{}/api/v2/alerts", self.port("alertmanager")))
            .expect("Alertmanager answers");
        serde_json::from_str(&text).unwrap()
    }

    /// What goes wrong from now on, by channel.
    pub(crate) fn faults(&self, faults: &Value) {
        write(self.path(), "faults.new", faults.to_string());
        std::fs::rename(self.path().join("faults.new"), self.path().join("faults.json")).unwrap();
    }

    /// What was accepted, or only tried, in order.
    pub(crate) fn noted(&self, kind: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path().join(format!("{kind}.jsonl"))).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The configuration: all channels, and these owners.
    pub(crate) fn config(&self, owners: &str) -> String {
        let (smtp, starttls, http) = (self.port("smtp"), self.port("starttls"), self.port("http"));
        let text = format!(
            r#"cluster: lab
channels:
  mail: {{ smtp: {{ server: 127.0.0.1, port: {smtp}, tls: none, from: "plimsoll <plimsoll@example.org>", to: ["{{owner}}@example.org"] }} }}
  mails: {{ smtp: {{ server: localhost, port: {starttls}, tls: starttls, from: plimsoll@example.org, to: [all@example.org], ca-file: ca.pem }} }}
  hook: {{ webhook: {{ url: "http://127.0.0.1:{http}/hook", key-file: hook-key, user: plimsoll, password-env: HOOK_PASSWORD }} }}
  chat: {{ slack: {{ url-file: slack-url }} }}
  pages: {{ alertmanager: {{ url: "http://127.0.0.1:{http}/pages", hold: 72h, labels: {{ site: lab }}, link: "https://dash.example.org/{{namespace}}" }} }}
{owners}"#
        );
        write(self.path(), "alerts.yaml", text)
    }

    /// The arguments of a run at this time, on objects with so much used (of 100 pods) by namespace.
    pub(crate) fn arguments(&self, now: &str, used: &[(String, u64)]) -> Vec<String> {
        let mut items = Vec::new();
        for (namespace, used) in used {
            items.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
            items.push(json!({
                "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": namespace},
                "spec": {"hard": {"pods": "100"}},
                "status": {"hard": {"pods": "100"}, "used": {"pods": used.to_string()}},
            }));
        }
        let objects =
            write(self.path(), "objects.json", json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
        let path = |name: &str| self.path().join(name).to_str().unwrap().to_owned();
        let words = [
            "quota",
            "alert",
            &objects,
            "--alerts",
            &path("alerts.yaml"),
            "--state",
            &path("state"),
            "--now",
            now,
            "-o",
            "json",
        ];
        words.map(str::to_owned).to_vec()
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[String], more: &[&str]) -> Ran {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        run(&arguments, &[("HOOK_PASSWORD", "sesame")], b"")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state")
    }
}

impl Drop for AlertLab {
    fn drop(&mut self) {
        self.stop_receivers();
        self.stop_alertmanager();
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The body of an answer of 200.
fn ureq_get(url: &str) -> Option<String> {
    let mut command = Command::new(python());
    command.args([
        "-c",
        "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1], timeout=5).read().decode())",
        url,
    ]);
    let ran = feed(command, b"");
    (ran.code == Some(0)).then_some(ran.stdout)
}
