//! `plimsoll fleet`: each row says what the commands and the raw data of its cluster say, in each form that sources
//! have.

use crate::lab::Lab;
use crate::support::{feed, folder, picture_of, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

#[track_caller]
fn document(args: &[&str]) -> Value {
    let ran = plimsoll(&[&["fleet"], args, &["-o", "json"]].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

/// The row of a cluster, by the end of its source.
#[track_caller]
fn row<'d>(document: &'d Value, source: &str) -> &'d Value {
    let rows = document["rows"].as_array().unwrap();
    rows.iter().find(|row| row["source"].as_str().unwrap().ends_with(source)).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// What a bundle says it is about.
fn bounds(bundle: &str) -> [String; 2] {
    let said = std::fs::read_to_string(Path::new(bundle).join("bundle.yaml")).unwrap();
    ["t0: ", "end: "].map(|key| {
        let line = said.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().trim_matches(['"', '\'']).to_owned()
    })
}

/// What the oracle counts in the audit logs of a bundle, in the time that it is about.
#[track_caller]
fn counted(bundle: &str) -> Value {
    let [since, until] = bounds(bundle);
    counted_within(Path::new(bundle), &since, &until)
}

/// What the oracle counts in the audit logs below a folder.
#[track_caller]
fn counted_within(folder: &Path, since: &str, until: &str) -> Value {
    let mut logs = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.starts_with("audit") && (name.ends_with(".log") || name.ends_with(".zst")) {
                logs.push(path);
            }
        }
    }
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/fleet.py")).args([since, until]).args(logs);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// That a row has the objectives and the client with most server time of the raw log.
#[track_caller]
fn agrees(row: &Value, counted: &Value) {
    let requests = number(&counted["requests"]);
    assert!(requests > 0.0, "{row}");
    let left = |bad: &str| 1.0 - number(&counted[bad]) / requests / 0.01;
    let (least, most, own) = (left("bad_most"), left("bad_least"), number(&row["slo_left"]));
    assert!(least - 1e-6 <= own && own <= most + 1e-6, "{own} is not in {least}..{most}: {row}");
    let clients = counted["seconds"].as_array().unwrap();
    let all: f64 = clients.iter().map(|client| number(&client[2])).sum();
    assert_eq!(row["top_client"], clients[0][1], "{row}");
    let share = number(&row["top_client_share"]);
    assert!((share - number(&clients[0][2]) / all).abs() < 1e-6, "{share}: {}", clients[0]);
}

const BUNDLES: [&str; 3] = ["list-storm", "overload-restart", "quiet"];

#[test]
fn rows_equal_a_count_of_the_raw_logs() {
    let all: Vec<String> = BUNDLES.iter().map(|name| sample(name)).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let document = document(&all);
    for name in BUNDLES {
        agrees(row(&document, name), &counted(&sample(name)));
    }
    assert_eq!(document["totals"]["clusters"], 3);
}

#[test]
fn rows_say_what_the_commands_say() {
    let all: Vec<String> = BUNDLES.iter().map(|name| sample(name)).collect();
    let fleet = document(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let say = |args: &[&str]| -> Value {
        let ran = plimsoll(&[args, &["-o", "json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
    };
    let mut clients_of: BTreeMap<&str, Value> = BTreeMap::new();
    for name in BUNDLES {
        let (source, row) = (sample(name), row(&fleet, name));
        let episodes = say(&["guard", "episodes", &source]);
        for grade in ["outages", "incidents", "degraded", "surges"] {
            assert_eq!(row[grade], episodes["totals"][grade], "{name}: {grade}");
        }
        let upgrade = say(&["upgrade", &source]);
        assert_eq!(row["blocked_clients"], upgrade["totals"]["clients_that_break"], "{name}");
        assert_eq!(row["upgrade_to"], upgrade["coverage"]["to_version"], "{name}");
        let [since, until] = bounds(&source);
        let clients = say(&["clients", &source, "--since", &since, "--until", &until]);
        let seen: u64 = clients["rows"].as_array().unwrap().iter().map(|row| row["requests"].as_u64().unwrap()).sum();
        let input =
            fleet["inputs"].as_array().unwrap().iter().find(|own| own["path"].as_str() == Some(&source)).unwrap();
        assert_eq!(input["records"].as_u64(), Some(seen), "{name}");
        clients_of.insert(name, clients);
    }
    // A warning about a client of both clusters, of which `clients` of each says the same.
    let offenders = fleet["tables"]["offenders"].as_array().unwrap();
    assert!(!offenders.is_empty());
    for offender in offenders {
        let mut on = BTreeSet::new();
        for (name, clients) in &clients_of {
            let is_its = |finding: &&Value| {
                let subject = &finding["subject"];
                let is = |user: &str, agent: &str| {
                    subject[user].as_str().unwrap_or_default() == offender["user"].as_str().unwrap_or_default()
                        && subject[agent].as_str().unwrap_or_default() == offender["agent"].as_str().unwrap_or_default()
                };
                finding["severity"] != "info" && (is("user", "agent") || is("other_user", "other_agent"))
            };
            if clients["findings"].as_array().unwrap().iter().any(|finding| is_its(&finding)) {
                on.insert(name);
            }
        }
        assert_eq!(offender["on_clusters"].as_u64(), Some(on.len() as u64), "{offender} on {on:?}");
        assert!(on.len() > 1);
    }
}

#[test]
fn a_cluster_is_read_in_every_form() {
    let home = folder();
    let storm = PathBuf::from(sample("list-storm"));
    let path = |name: &str| home.path().join(name).display().to_string();
    // A packed bundle, a roll-up, a store; each is a cluster below the folder.
    let mut packed = Command::new("tar");
    packed.args(["-C", storm.parent().unwrap().to_str().unwrap(), "-cf", &path("a.tar"), "list-storm"]);
    assert!(packed.status().unwrap().success());
    let ran = plimsoll(&["rollup", storm.to_str().unwrap(), "--to", &path("b")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = plimsoll(&["record", storm.to_str().unwrap(), "--once", "--store", &path("c")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // Whole tiles of it.
    let (since, until) = ("2026-11-20T09:18:00Z", "2026-11-20T09:25:00Z");
    let within = ["--since", since, "--until", until];
    let all = document(&[&[home.path().to_str().unwrap()][..], &within].concat());
    assert_eq!(all["rows"].as_array().unwrap().len(), 3, "{all}");
    let counts = counted_within(&storm, since, until);
    for source in ["a.tar", "/b", "/c"] {
        let own = row(&all, source);
        agrees(own, &counts);
        assert_eq!((&own["version"], &own["blocked_clients"]), (&"v1.36.0".into(), &0.into()), "{own}");
        assert_eq!(own["cluster"], "lab-1", "{own}");
    }
    // The same cluster three times has no peers, and offends nowhere else.
    assert_eq!(all["tables"].get("offenders"), None, "{all}");
    // What each form lacks is said: a roll-up alone has neither seats nor etcd.
    assert_eq!(row(&all, "/b")["unknown"], "seats, etcd, forecast");
    assert!((number(&row(&all, "/b")["unknown_share"]) - 3.0 / 7.0).abs() < 1e-6);
    // A store and the pages beside it agree on how full etcd is.
    let (of_pages, of_store) = (number(&row(&all, "a.tar")["etcd_share"]), number(&row(&all, "/c")["etcd_share"]));
    assert!(of_pages > 0.0 && (of_pages / of_store - 1.0).abs() < 0.05, "{of_pages} {of_store}");
    // Logs alone, and metrics alone, under names of one's own.
    let (logs, pages) = (storm.join("audit"), storm.join("metrics"));
    let (logs, pages) = (logs.to_str().unwrap(), pages.to_str().unwrap());
    let names = [("logs", logs), ("pages", pages), ("both", logs), ("both", pages)];
    let names = names.map(|(name, source)| format!("{name}={source}"));
    let parts = document(&[&names.each_ref().map(String::as_str)[..], &within].concat());
    let of = |name: &str| parts["rows"].as_array().unwrap().iter().find(|row| row["cluster"] == name).unwrap();
    agrees(of("logs"), &counts);
    agrees(of("both"), &counts);
    assert_eq!(of("pages")["top_client"], Value::Null);
    assert!(number(&of("pages")["slo_left"]) <= 1.0);
    assert_eq!(of("both")["etcd_share"], of("pages")["etcd_share"]);
    assert_eq!(parts["rows"].as_array().unwrap().len(), 3);
}

#[test]
fn what_can_not_be_read_is_said_and_hides_nothing() {
    let home = folder();
    let path = |name: &str| home.path().join(name).display().to_string();
    std::fs::create_dir(path("empty")).unwrap();
    std::fs::create_dir(path("odd")).unwrap();
    write(home.path(), "odd/manifest.json", "{\"schema\": \"\u{1b}[31m\"}");
    let quiet = sample("quiet");
    let missing = path("missing");
    let sources = [quiet.as_str(), &path("empty"), &path("odd"), &missing];
    let ran = plimsoll(&[&["fleet"], &sources[..]].concat());
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let all = document(&sources);
    assert_eq!((&all["totals"]["clusters"], &all["totals"]["unread"]), (&4.into(), &3.into()));
    agrees(row(&all, "quiet"), &counted(&quiet));
    for name in ["empty", "odd", "missing"] {
        let own = row(&all, name);
        assert_eq!(own["cluster"], name);
        assert!(!own["problem"].as_str().unwrap().is_empty());
        assert!((number(&own["unknown_share"]) - 1.0).abs() < 1e-6, "{own}");
        assert_eq!(own["slo_left"], Value::Null);
    }
    assert!(![&ran.stdout, &ran.stderr].iter().any(|text| text.contains('\u{1b}')), "{} {}", ran.stdout, ran.stderr);
    // A store of a later version: its roll-ups are read, and that its series are not is said.
    let store = path("store");
    let recorded = plimsoll(&["record", &quiet, "--once", "--store", &store]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    write(home.path(), "store/plimsoll-store.json", "{\"version\": 99}");
    let ran = plimsoll(&["fleet", &store]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("version") && ran.stdout.contains("lab-3"), "{} {}", ran.stderr, ran.stdout);
    // Of none anything could be read.
    let ran = plimsoll(&["fleet", &missing]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("none of the clusters"), "{}", ran.stderr);
    // A pipe is refused; so is a field that rows do not have.
    for wrong in [&["fleet", "-"][..], &["fleet", &quiet, "--sort-by", "beauty"]] {
        assert_eq!(plimsoll(wrong).code, Some(2), "{wrong:?}");
    }
    // A time without data, a version of ten digits.
    let none = document(&[&quiet, "--since", "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z"]);
    assert_eq!(none["rows"][0]["outages"], Value::Null, "{none}");
    assert_eq!(document(&[&quiet, "--to", "1.4294967295"])["rows"][0]["upgrade_to"], "1.4294967295");
}

#[test]
fn those_in_trouble_come_first_and_fail_a_pipeline() {
    let [storm, overload, quiet] = BUNDLES.map(sample);
    let names = |document: &Value| -> Vec<String> {
        document["rows"].as_array().unwrap().iter().map(|row| row["cluster"].as_str().unwrap().to_owned()).collect()
    };
    let sources = [format!("quiet={quiet}"), format!("storm={storm}"), format!("overload={overload}")];
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    assert_eq!(names(&document(&sources))[0], "overload");
    let sorted = document(&[&sources[..], &["--sort-by", "cluster"]].concat());
    assert_eq!(names(&sorted), ["overload", "quiet", "storm"]);
    let fails = |sources: &[&str]| plimsoll(&[&["fleet"], sources, &["--fail-on", "critical"]].concat()).code;
    assert_eq!((fails(&sources), fails(&[&quiet])), (Some(1), Some(0)));
    // Two clusters of one finding are told apart.
    let twice = document(&[&format!("a={overload}"), &format!("b={overload}")]);
    let prints: BTreeSet<&str> =
        twice["findings"].as_array().unwrap().iter().map(|own| own["fingerprint"].as_str().unwrap()).collect();
    assert_eq!(prints.len(), twice["findings"].as_array().unwrap().len());
}

#[test]
fn the_page_has_the_rows_of_the_table() {
    let home = folder();
    let [storm, overload, quiet] = BUNDLES.map(sample);
    let hostile = format!("<img src onerror>={quiet}");
    let sources = ["fleet", &hostile, &format!("storm={storm}"), &format!("overload={overload}"), "none=no/such/place"];
    let html = plimsoll(&[&sources[..], &["-o", "html"]].concat());
    assert_eq!(html.code, Some(3), "one could not be read: {}", html.stderr);
    let page = picture_of(home.path(), &html.stdout);
    for nothing in ["complaints", "thrown", "console", "requests", "nameless"] {
        assert_eq!(page[nothing], json!([]), "{nothing}");
    }
    assert_eq!((page["dialogs"].as_u64(), page["handlers"].as_u64()), (Some(0), Some(0)));
    assert_eq!((&page["elements"]["img"], &page["elements"]["script"]), (&json!(0), &json!(2)));
    assert!(["overflow_1280", "overflow_390"].iter().all(|width| page[*width].as_i64().unwrap() <= 0));
    let least = |scheme: &str| page["contrast"][scheme][0].as_f64().unwrap();
    assert!(least("light") >= 4.5 && least("dark") >= 4.5, "{}", page["contrast"]);
    // Each cell is one of the row that the Markdown has.
    let markdown = plimsoll(&[&sources[..], &["-o", "markdown"]].concat()).stdout;
    let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    let clusters = page["tables"]["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 4);
    for (row, line) in clusters.iter().zip(rows) {
        let line = line.replace('\\', "").replace("&lt;", "<").replace("&gt;", ">");
        for cell in row.as_array().unwrap() {
            assert!(line.contains(&format!("| {} |", cell.as_str().unwrap())), "{cell} is not in {line}");
        }
    }
    assert!(page["tables"]["offenders"].as_array().is_some_and(|rows| !rows.is_empty()));
    let plain = plimsoll(&sources).stdout;
    assert_eq!(page["first_sentence"].as_str(), plain.lines().next());
}

#[test]
fn a_clock_that_was_wrong_does_not_move_the_day_that_is_looked_at() {
    let home = folder();
    let raw = String::from_utf8(sample_bytes("quiet/audit/apiserver-0/audit.log.zst")).unwrap();
    let last = raw.lines().last().unwrap();
    let at = |year: &str| last.replace("2026-11-20T", &format!("{year}-11-20T"));
    // At its ends, where the time that it covers is looked for.
    let log = write(home.path(), "odd/audit.log", format!("{}\n{raw}{}\n", at("1970"), at("2099")));
    let ran = plimsoll(&["fleet", &log, "-o", "json"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let all: Value = serde_json::from_str(&ran.stdout).unwrap();
    let plain = write(home.path(), "plain/audit.log", &raw);
    let plain = document(&[&plain]);
    let (odd, plain) = (&all["rows"][0], &plain["rows"][0]);
    for field in
        ["slo_left", "outages", "incidents", "surges", "top_client", "top_client_share", "looked_at_to", "cluster_rps"]
    {
        assert_eq!(odd[field], plain[field], "{field}");
    }
    assert!(odd["top_client"].is_string() && number(&odd["slo_left"]) <= 1.0, "{odd}");
}

#[test]
fn what_only_metrics_show_to_break_counts_as_upgrade_counts_it() {
    let home = folder();
    let api = |group: &str, resource: &str| {
        format!(
            "apiserver_requested_deprecated_apis{{group=\"{group}\",removed_release=\"1.25\",resource=\"{resource}\",\
             subresource=\"\",version=\"v1beta1\"}} 1\n"
        )
    };
    let requests = "apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",\
                    resource=\"pods\",scope=\"cluster\",subresource=\"\",verb=\"LIST\",version=\"v1\"} 10\n";
    let page = [requests, &api("policy", "poddisruptionbudgets"), &api("batch", "cronjobs")].concat();
    write(home.path(), "metrics/apiserver-0/1795167907.txt", page);
    let source = home.path().join("metrics").display().to_string();
    let row = document(&[&source, "--to", "1.37"])["rows"][0].clone();
    let ran = plimsoll(&["upgrade", &source, "--to", "1.37", "-o", "json"]);
    let upgrade: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(upgrade["totals"]["breaks"], 2, "{upgrade}");
    assert_eq!(row["blocked_clients"], upgrade["totals"]["clients_that_break"]);
    assert_eq!(row["blocked_clients"], 1);
}

/// Contexts of a kubeconfig are clusters as their pages in files are; one that is away hides no other.
#[test]
fn contexts_are_asked_as_their_pages_in_files_are_read() {
    let names = ["1795167937", "1795167967"];
    let pages = names.map(|at| sample(&format!("quiet/metrics/apiserver-0/{at}.txt.zst")));
    let lab = Lab::start(&[&pages.join(","), &pages.join(",")]);
    let kubeconfig = lab.kubeconfig();
    let home = folder();
    for (at, page) in names.iter().zip(&pages) {
        for instance in ["a", "b"] {
            let to = home.path().join("files").join(instance);
            std::fs::create_dir_all(&to).unwrap();
            std::fs::copy(page, to.join(format!("{at}.txt.zst"))).unwrap();
        }
    }
    let files = format!("files={}", home.path().join("files").display());
    let live = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--for", "2s"];
    let args = [&["fleet", &files, "--contexts", "ful?,down", "-o", "json"][..], &live].concat();
    let ran = plimsoll(&args);
    ran.exits(3);
    assert!(ran.stderr.contains("down: "), "{}", ran.stderr);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let (files, full, down) = (row(&document, "files"), row(&document, "context full"), row(&document, "context down"));
    for field in ["version", "seats_share", "slo_left", "upgrade_to", "blocked_clients", "etcd_share"] {
        assert_eq!(full[field], files[field], "{field}");
    }
    assert_eq!(full["version"], "v1.36.0");
    assert!(number(&full["slo_left"]) > 0.9, "{full}");
    let age = |row: &Value| row["data_age"].as_str().unwrap().contains('d');
    assert!(!age(full) && age(files), "{full} {files}");
    assert!(down["problem"].as_str().unwrap().contains("localhost"), "{down}");
    assert_eq!((full["cluster"].as_str(), down["cluster"].as_str()), (Some("full"), Some("down")));
    // Each apiserver twice, and nothing but metrics.
    assert_eq!(lab.requests("/metrics").len(), 4);
    let wrong = plimsoll(&[&["fleet", "--contexts", "prod-*"][..], &live].concat());
    wrong.exits(2);
    assert!(
        wrong.stderr.contains("--contexts 'prod-*': no such context; the kubeconfig has lab, "),
        "{}",
        wrong.stderr
    );
    plimsoll(&["fleet"]).exits(2);
}
