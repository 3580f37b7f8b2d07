//! Roll-ups by a real Apache Spark: a Spark Connect server with two workers, started by the test.

use crate::support::{Ran, feed, folder, hermetic, plimsoll, root, sample, sample_bytes, write};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// One Spark at a time: each takes all of a small machine.
static ALONE: Mutex<()> = Mutex::new(());

/// A Spark Connect server with two workers of one core.
struct Spark {
    _alone: MutexGuard<'static, ()>,
    home: tempfile::TempDir,
    port: u16,
    child: Child,
}

impl Spark {
    #[track_caller]
    fn start(token: Option<&str>) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let home = folder();
        let site = root().join("target/engine-venv/lib");
        let python = fs::read_dir(&site).expect(".ci/setup --full engine installs Spark").next().unwrap().unwrap();
        let pyspark = python.path().join("site-packages/pyspark");
        // Workers write beside what Spark is made of.
        for entry in fs::read_dir(&pyspark).unwrap() {
            let entry = entry.unwrap();
            std::os::unix::fs::symlink(entry.path(), home.path().join(entry.file_name())).unwrap();
        }
        let _ = fs::remove_file(home.path().join("work"));
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let log = fs::File::create(home.path().join("server.log")).unwrap();
        let mut started = Command::new(home.path().join("bin/spark-submit"));
        started
            .args(["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"])
            .args(["--master", "local-cluster[2,1,1024]"])
            .args(["--conf", "spark.ui.enabled=false", "--conf", "spark.connect.grpc.binding.address=127.0.0.1"])
            .args(["--conf", &format!("spark.connect.grpc.binding.port={port}")])
            .args(["--conf", &format!("spark.local.dir={}", home.path().join("local").display())]);
        if let Some(token) = token {
            started.args(["--conf", &format!("spark.connect.authenticate.token={token}")]);
        }
        started.arg("spark-internal").env_clear().current_dir(home.path()).process_group(0);
        started.env("PATH", std::env::var_os("PATH").unwrap()).env("SPARK_HOME", home.path());
        started.env("SPARK_LOCAL_IP", "127.0.0.1");
        let child = started.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let spark = Self { _alone: alone, home, port, child };
        let end = Instant::now() + Duration::from_secs(180);
        while !spark.log().contains("Registered executor") || TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "Spark did not start: {}", spark.log());
            sleep(Duration::from_millis(200));
        }
        spark
    }

    fn url(&self) -> String {
        format!("sc://127.0.0.1:{}", self.port)
    }

    /// Its processes whose command line has this.
    fn processes(&self, what: &str) -> Vec<String> {
        let group = self.child.id().to_string();
        let pids = Command::new("pgrep").args(["-g", &group, "-f", what]).output().unwrap().stdout;
        String::from_utf8(pids).unwrap().lines().map(str::to_owned).collect()
    }

    /// Those of workers that roll up.
    fn workers(&self) -> Vec<String> {
        self.processes(" rollup-part ")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("server.log")).unwrap_or_default()
    }
}

impl Drop for Spark {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-9", "--", &format!("-{}", self.child.id())]).status();
        let _ = self.child.wait();
    }
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Writes a sample's logs as an object store might have them.
fn logs(home: &Path, sample: &str, files: &[(&str, &str)]) -> PathBuf {
    let to = home.join(sample);
    for (name, from) in files {
        write(&to, name, sample_bytes(&format!("{sample}/{from}")));
    }
    to
}

const LIST_STORM: [(&str, &str); 2] = [
    ("audit/apiserver-0/audit.log", "audit/apiserver-0/audit.log.zst"),
    ("audit/apiserver-1/audit.log", "audit/apiserver-1/audit.log.zst"),
];

/// Tables with their checksums, and what a roll-up says of its logs. What joins parts has an order of its own.
fn content(folder: &Path) -> (Value, Vec<Value>) {
    let mut manifest: Value = serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let mut tables = manifest["tables"].take();
    tables.as_object_mut().unwrap().remove("seams").unwrap();
    let names = ["tile_seconds", "first", "last", "late_events", "open_requests", "repeated_audit_ids", "streams"];
    (tables, names.map(|name| manifest[name].take()).to_vec())
}

/// The roll-up of a folder, by the engine and by the reader.
#[track_caller]
fn is_equal(spark: &Spark, source: &Path) {
    let home = folder();
    let (here, there) = (home.path().join("here"), home.path().join("there"));
    plimsoll(&["rollup", source.to_str().unwrap(), "--to", here.to_str().unwrap()]).exits(0);
    let ran = plimsoll(&["rollup", &uri(source), "--to", there.to_str().unwrap(), "--engine", &spark.url()]);
    ran.exits(0);
    let ((tables, facts), (own_tables, own_facts)) = (content(&there), content(&here));
    for (name, table) in own_tables.as_object().unwrap() {
        assert_eq!(&tables[name], table, "{name} of {}", source.display());
    }
    assert_eq!(facts, own_facts, "{}", source.display());
}

/// A log of so many hours with two apiservers, of which one's is packed: the sample's, hour by hour.
fn hours(home: &Path, count: usize) -> PathBuf {
    let to = home.join("hours");
    for (place, apiserver) in ["apiserver-0", "apiserver-1"].iter().enumerate() {
        let text = String::from_utf8(sample_bytes(&format!("list-storm/audit/{apiserver}/audit.log.zst"))).unwrap();
        for hour in 0..count {
            // Audit ids are of one request.
            let moved = text
                .replace("2026-11-20T09:", &format!("2026-11-20T{:02}:", 10 + hour))
                .replace("\"auditID\":\"", &format!("\"auditID\":\"{hour:02}"));
            let name = format!("{apiserver}/audit-2026-11-20T{:02}-30-00.000.log", 10 + hour);
            if place == 0 {
                write(&to, &name, moved);
            } else {
                let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
                packed.write_all(moved.as_bytes()).unwrap();
                write(&to, &format!("{name}.gz"), packed.finish().unwrap());
            }
        }
    }
    to
}

#[test]
fn roll_ups_are_those_of_the_logs() {
    let spark = Spark::start(None);
    let home = folder();
    is_equal(&spark, &logs(home.path(), "list-storm", &LIST_STORM));
    is_equal(
        &spark,
        &logs(home.path(), "quiet", &[("audit/apiserver-0/audit.log", "audit/apiserver-0/audit.log.zst")]),
    );
    is_equal(
        &spark,
        &logs(home.path(), "controllers", &[("audit/apiserver-0/audit.log", "audit/apiserver-0/audit.log.zst")]),
    );
    is_equal(&spark, &logs(home.path(), "drain", &[("audit.log", "audit.log.zst")]));
    // Several hours, rotated and packed, and what happens across them.
    is_equal(&spark, &hours(home.path(), 5));
    // What two sources name is read once.
    let twice = home.path().join("list-storm");
    let (all, one) = (uri(&twice), uri(&twice.join("audit/apiserver-0/audit.log")));
    let url = spark.url();
    let answer = |sources: &[&str]| {
        let words = [&["traffic"], sources, &["--by", "verb", "-o", "json", "--engine", &url]].concat();
        plimsoll(&words).json(0)["totals"].take()
    };
    assert_eq!(answer(&[&all, &one]), answer(&[&all]));
    // Ten clusters, by partitions; a file that was copied, too.
    let fleet = home.path().join("fleet");
    let log = sample_bytes("controllers/audit/apiserver-0/audit.log.zst");
    for cluster in 0..10 {
        write(&fleet, &format!("cluster=c-{cluster}/instance=cp-1/date=2026-11-20/audit.log"), &log);
        if cluster == 3 {
            write(&fleet, &format!("cluster=c-{cluster}/instance=cp-1/date=2026-11-21/audit.log"), &log);
        }
    }
    is_equal(&spark, &fleet);
}

/// Datasets are rolled up there as they are here, which is as their logs are (tests/it/dataset.rs).
#[test]
fn datasets_are_read_as_their_logs_were() {
    let spark = Spark::start(None);
    let home = folder();
    let build = |name: &str, sources: &[&str]| {
        let to = home.path().join(name);
        let ran = plimsoll(&[&["dataset", "build"], sources, &["--to", to.to_str().unwrap()]].concat());
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.stderr);
        to
    };
    for name in ["list-storm", "controllers", "levels"] {
        is_equal(&spark, &build(name, &[&sample(name)]));
    }
    let raw = hours(home.path(), 3);
    let several = build("several", &[raw.to_str().unwrap()]);
    is_equal(&spark, &several);
    // Ten clusters, one of which is called so that it is no folder's name.
    let log = sample_bytes("controllers/audit/apiserver-0/audit.log.zst");
    for cluster in 0..10 {
        let own = format!("fleet/{cluster}");
        write(home.path(), &format!("{own}/audit/cp-1/audit.log"), &log);
        let name = if cluster == 3 { "../a b=%2F".to_owned() } else { format!("c-{cluster}") };
        write(home.path(), &format!("{own}/bundle.yaml"), format!("cluster: \"{name}\"\n"));
    }
    is_equal(&spark, &build("clusters", &[home.path().join("fleet").to_str().unwrap()]));
    // What a killed build left behind is no part of it.
    let file = Command::new("find").arg(several.join("audit")).args(["-name", "*.parquet"]).output().unwrap().stdout;
    let file = String::from_utf8(file).unwrap().lines().next().unwrap().to_owned();
    fs::copy(&file, file.rsplit_once('-').unwrap().0.to_owned() + "-99999999999.parquet").unwrap();
    is_equal(&spark, &several);
}

#[test]
fn commands_answer_as_from_the_logs() {
    let spark = Spark::start(None);
    let home = folder();
    let source = logs(home.path(), "list-storm", &LIST_STORM);
    let (log, url) = (source.to_str().unwrap().to_owned(), spark.url());
    let answer = |words: &[&str]| {
        let mut answer = plimsoll(&[words, &["-o", "json"]].concat()).json(0);
        for name in ["inputs", "generated_at"] {
            answer.as_object_mut().unwrap().remove(name);
        }
        answer
    };
    for command in [
        &["traffic", "SOURCE", "--by", "verb,resource"][..],
        &["clients", "SOURCE"],
        &["balance", "SOURCE"],
        &["guard", "events", "SOURCE"],
        &["controllers", "SOURCE"],
        &["compare", "SOURCE", "SOURCE"],
    ] {
        let with = |source: &str| command.iter().map(|word| word.replace("SOURCE", source)).collect::<Vec<String>>();
        let (of_log, of_engine) = (with(&log), with(&uri(&source)));
        let mut here = answer(&of_log.iter().map(String::as_str).collect::<Vec<_>>());
        let words: Vec<&str> = of_engine.iter().map(String::as_str).chain(["--engine", &url]).collect();
        let mut there = answer(&words);
        // docs/rollup.md, section 6: peaks of kinds that roll-ups don't time; what is named after the source.
        for one in [&mut here, &mut there] {
            for row in one["rows"].as_array_mut().unwrap() {
                row.as_object_mut().unwrap().remove("peak_rps");
            }
        }
        // What is named after the source is named after its URI.
        let here = here.to_string().replace(&log, &uri(&source));
        assert_eq!(there.to_string(), here, "{command:?}");
    }
    let inputs = plimsoll(&["clients", &uri(&source), "--engine", &url, "-o", "json"]).json(0)["inputs"].take();
    assert_eq!(inputs[0]["path"], uri(&source));
    // An incident, found and explained by what the workers sent.
    let report = answer(&["report", &uri(&source), "--engine", &url]);
    let reader = answer(&["report", &log]);
    for name in ["grade", "from", "to", "causes"] {
        assert_eq!(report["episodes"][0][name], reader["episodes"][0][name], "{name}");
    }
}

/// Forwards connections until it is closed, and cuts them when asked to.
struct Proxy {
    port: u16,
    cut: Arc<AtomicBool>,
}

impl Proxy {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = Self { port: listener.local_addr().unwrap().port(), cut: Arc::default() };
        let cut = Arc::clone(&own.cut);
        std::thread::spawn(move || {
            for from in listener.incoming() {
                let Ok(from) = from else { break };
                let Ok(to) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let ends = [from, to];
                // Each cut ends the connections of its time.
                let is_over = Arc::new(AtomicBool::new(false));
                for (a, b) in [(0, 1), (1, 0)] {
                    let (mut a, mut b) = (ends[a].try_clone().unwrap(), ends[b].try_clone().unwrap());
                    let is_over = Arc::clone(&is_over);
                    std::thread::spawn(move || {
                        let mut buffer = vec![0; 1 << 16];
                        while let Ok(read @ 1..) = a.read(&mut buffer) {
                            if is_over.load(Ordering::Relaxed) || b.write_all(&buffer[..read]).is_err() {
                                break;
                            }
                        }
                        let _ = (a.shutdown(std::net::Shutdown::Both), b.shutdown(std::net::Shutdown::Both));
                    });
                }
                let cut = Arc::clone(&cut);
                std::thread::spawn(move || {
                    while !cut.swap(false, Ordering::Relaxed) {
                        sleep(Duration::from_millis(20));
                    }
                    is_over.store(true, Ordering::Relaxed);
                    ends.iter().for_each(|end| drop(end.shutdown(std::net::Shutdown::Both)));
                });
            }
        });
        own
    }
}

/// A run of the program that goes on.
fn begun(args: &[&str], home: &Path) -> Child {
    let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { stdout: text(&output.stdout), stderr: text(&output.stderr), code: output.status.code() }
}

fn waits_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_there() {
        assert!(Instant::now() < end, "{what} did not come");
        sleep(Duration::from_millis(5));
    }
}

/// Faults of workers, connections and people, one after the other on one server.
#[test]
fn faults_lose_nothing_and_are_explained() {
    let spark = Spark::start(None);
    let home = folder();
    let source = hours(home.path(), 10);
    let here = home.path().join("here");
    plimsoll(&["rollup", source.to_str().unwrap(), "--to", here.to_str().unwrap()]).exits(0);
    let to = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let args = |to: &str, url: &str| ["rollup", &uri(&source), "--to", to, "--engine", url].map(str::to_owned).to_vec();
    let start = |to: &str, url: &str| {
        let args = args(to, url);
        begun(&args.iter().map(String::as_str).collect::<Vec<_>>(), home.path())
    };

    // A worker's program is killed in the middle.
    let child = start(&to("killed"), &spark.url());
    waits_for("a worker", || !spark.workers().is_empty());
    spark.workers().iter().for_each(|pid| drop(Command::new("kill").args(["-9", pid]).status()));
    ended(child).exits(0);
    assert_eq!(content(Path::new(&to("killed"))), content(&here));

    // A whole worker.
    let child = start(&to("executor"), &spark.url());
    waits_for("a worker", || !spark.workers().is_empty());
    let one = spark.processes("CoarseGrainedExecutorBackend").first().unwrap().clone();
    assert!(Command::new("kill").args(["-9", &one]).status().unwrap().success());
    ended(child).exits(0);
    assert_eq!(content(Path::new(&to("executor"))), content(&here));

    // The connection is cut.
    let proxy = Proxy::to(spark.port);
    let child = start(&to("cut"), &format!("sc://127.0.0.1:{}", proxy.port));
    waits_for("a worker", || !spark.workers().is_empty());
    proxy.cut.store(true, Ordering::Relaxed);
    let ran = ended(child);
    ran.did_not_panic();
    match ran.code {
        Some(0) => assert_eq!(content(Path::new(&to("cut"))), content(&here)),
        _ => assert!(ran.exits(3).stderr.contains("sc://127.0.0.1:"), "{}", ran.stderr),
    }

    // A person stops it: the workers end as well.
    let child = start(&to("stopped"), &spark.url());
    waits_for("a worker", || !spark.workers().is_empty());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ran = ended(child);
    assert!(ran.exits(3).stderr.contains("stopped"), "{}", ran.stderr);
    waits_for("the end of the workers", || spark.workers().is_empty());
    assert!(!Path::new(&to("stopped")).exists());

    // What is wrong, and what to do.
    let fails = |args: &[&str], words: &[&str]| {
        let ran = plimsoll(args);
        ran.exits(3);
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.lines().count() <= 2, "{}", ran.stderr);
    };
    let url = spark.url();
    fails(
        &["traffic", "file:///nowhere/audit/", "--by", "verb", "--engine", &url],
        &["/nowhere/audit", "check the path"],
    );
    fails(&["traffic", "s3a://bucket/audit/", "--by", "verb", "--engine", &url], &["s3a://bucket/audit/", "connector"]);
    let script = write(home.path(), "other", "not a program of this platform");
    let _ = Command::new("chmod").args(["755", &script]).status();
    let named = ["traffic", &uri(&source), "--by", "verb", "--engine", &url, "--engine-program", &script];
    fails(&named, &["--engine-program"]);
    let objects = home.path().join("objects");
    write(&objects, "pods.json", "{\"items\":[]}\n");
    fails(&["traffic", &uri(&objects), "--by", "verb", "--engine", &url], &["no audit log"]);

    // The server ends in the middle.
    let child = start(&to("ended"), &url);
    waits_for("a worker", || !spark.workers().is_empty());
    drop(spark);
    let ran = ended(child);
    assert!(ran.exits(3).stderr.contains("sc://127.0.0.1:"), "{}", ran.stderr);
    assert!(!Path::new(&to("ended")).exists());
    fails(&["traffic", &uri(&source), "--by", "verb", "--engine", &url], &["Spark Connect server"]);
}

#[test]
fn tokens_are_those_of_the_server() {
    let spark = Spark::start(Some("right"));
    let home = folder();
    let source = logs(home.path(), "controllers", &[("audit.log", "audit/apiserver-0/audit.log.zst")]);
    let traffic = |token: &str| {
        let url = format!("{};token={token}", spark.url());
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        command.args(["traffic", &uri(&source), "--by", "verb"]).env("PLIMSOLL_ENGINE", url);
        feed(command, b"")
    };
    traffic("right").exits(0);
    let ran = traffic("wrong");
    assert!(ran.exits(3).stderr.contains("check the token"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("wrong"), "{}", ran.stderr);
}
