//! What `plimsoll report` says, against `tests/oracle/report.py` (the audit log counted again), against the commands
//! that own each number, and in headless Chromium (`tests/oracle/page.py`); and what is true of the samples
//! (`samples/NOTES.md`, `truth` in their `bundle.yaml`).

use crate::support::{
    count, feed, folder, micros, number, picture_of, plimsoll, python, root, sample, sample_bytes, write,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn oracle(args: &[&str]) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/report.py")).args(args);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn report(source: &str, more: &[&str]) -> Value {
    plimsoll(&[&["report", source, "-o", "json"], more].concat()).json(0)
}

/// When the incident of a sample was, as its notes say.
fn truth(name: &str) -> [i64; 2] {
    let text = fs::read_to_string(sample(&format!("{name}/bundle.yaml"))).unwrap();
    let time = |field: &str| {
        let rest = &text[text.find(field).unwrap() + field.len() + 2..];
        micros(&json!(rest[..20].to_owned()))
    };
    [time("incident_from"), time("incident_to")]
}

const SECOND: i64 = 1_000_000;

/// Behind an overload clients that were restarted away from list again: what they suffer lasts for half a minute more.
fn is_near_the_truth(report: &Value, name: &str) {
    let window = [&report["incident"]["from"], &report["incident"]["to"]].map(micros);
    for ((found, truth), slack) in window.iter().zip(truth(name)).zip([15, 30]) {
        assert!((found - truth).abs() <= slack * SECOND, "{name}: {}", report["incident"]);
    }
}

/// Copies a bundle without some of its folders.
fn copy(from: &Path, to: &Path, without: &[&str]) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if without.contains(&name) {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(name), &[]);
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

fn copied(name: &str, to: &Path, without: &[&str]) -> String {
    let bundle = to.join("bundle");
    copy(Path::new(&sample(name)), &bundle, without);
    bundle.to_str().unwrap().to_owned()
}

fn near(mine: f64, theirs: f64, what: &str) {
    assert!((mine - theirs).abs() <= 2e-6 + 1e-6 * theirs.abs(), "{what}: {mine}, not {theirs}");
}

#[test]
fn the_storm_is_explained() {
    let bundle = sample("list-storm");
    let report = report(&bundle, &[]);
    is_near_the_truth(&report, "list-storm");
    // The culprit, what speaks for it, and what to do.
    let first = &report["rows"][0];
    assert_eq!(
        (first["cause"].as_str(), first["likely"].as_str()),
        (Some("client-surge"), Some(if number(first, "confidence") >= 0.8 { "very likely" } else { "likely" })),
        "{first}"
    );
    assert_eq!(first["subject"], json!({"user": "system:serviceaccount:monitoring:node-agent", "agent": "node-agent"}));
    let evidence = &report["evidence"][0];
    assert!(evidence["missing"].as_array().unwrap().is_empty());
    let now = evidence["now"].to_string();
    assert!(
        now.contains("--emit fence --client system:serviceaccount:monitoring:node-agent")
            && now.contains("kubectl get pods -n monitoring"),
        "{now}"
    );
    assert!(evidence["later"].to_string().contains("informer"), "{evidence}");
    assert!(
        report["summary"][0].as_str().unwrap().contains("node-agent (monitoring:node-agent) sent"),
        "{}",
        report["summary"]
    );
    // What people did, each at its time.
    let timeline = report["tables"]["timeline"].as_array().unwrap();
    for (who, what, at) in [
        ("bob@example.com", "scaled to zero: deployments app-0 in web", "2026-11-20T09:22:41"),
        ("bob@example.com", "deleted a namespace: legacy-team", "2026-11-20T09:23:11"),
        ("bob@example.com", "deleted a CRD: jobsets.batch.example.com", "2026-11-20T09:23:13"),
        ("alice@example.com", "deleted a collection: all configmaps in sandbox", "2026-11-20T09:23:14"),
        ("bob@example.com", "deleted 12 pods: none-0, none-1, … none-11 in data", "2026-11-20T09:23:14"),
        ("bob@example.com", "deleted a node: hollow-002", "2026-11-20T09:23:14"),
    ] {
        let found = timeline
            .iter()
            .find(|entry| entry["what"].as_str().unwrap().starts_with(what))
            .unwrap_or_else(|| panic!("{what}"));
        assert_eq!((found["who"].as_str().unwrap(), &found["at"].as_str().unwrap()[..19]), (who, at), "{found}");
    }
    let compactions =
        timeline.iter().filter(|entry| entry["kind"] == "compaction").map(|entry| entry["at"].as_str().unwrap());
    let compactions: Vec<&str> = compactions.collect();
    assert_eq!(
        compactions,
        ["2026-11-20T09:21:28Z", "2026-11-20T09:23:28Z", "2026-11-20T09:25:28Z"],
        "etcd's own times"
    );
    let relist = timeline.iter().find(|entry| entry["kind"] == "relist").unwrap();
    assert!(relist["what"].as_str().unwrap().starts_with("stale-cache"), "{relist}");
    let times: Vec<i64> = timeline.iter().map(|entry| micros(&entry["at"])).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn added_load_is_what_python_counts() {
    // What a request costs is taken from quiet intervals by the one, from the baseline by the other; that of the second
    // sample is overloaded itself, and one in ten requests in it is slow.
    for (name, tolerance) in [("list-storm", 0.15), ("overload-restart", 0.3)] {
        let bundle = sample(name);
        let report = report(&bundle, &[]);
        let incident = &report["incident"];
        let is_it = |own: &&Value| own["from"] == incident["from"] && own["to"] == incident["to"];
        let episode = report["episodes"].as_array().unwrap().iter().find(is_it).unwrap();
        let parts = json!({"calm": episode["counted"]["baseline"], "within": episode["counted"]["within"]});
        let theirs = oracle(&["load", &bundle, &parts.to_string()]);
        let clients = report["clients"].as_array().unwrap();
        assert!(clients.len() >= 8, "{}", clients.len());
        let mut ranked = 0;
        for client in clients.iter().filter(|client| !client["added_share"].is_null()) {
            let other = theirs["clients"]
                .as_array()
                .unwrap()
                .iter()
                .find(|other| other["user"] == client["user"] && other["agent"] == client["agent"]);
            let other = other.unwrap_or_else(|| panic!("{client}"));
            for field in ["before_rps", "within_rps"] {
                near(number(client, field), number(other, field), &format!("{name} {} {field}", client["user"]));
            }
            let shares = [number(client, "added_share"), number(other, "added_share")];
            assert!((shares[0] - shares[1]).abs() <= tolerance, "{name} {}: {shares:?}", client["user"]);
            ranked += 1;
        }
        assert!(ranked >= 8, "{ranked}");
        // Quantiles are those of buckets that are a fifth wide.
        let shown = report["episodes"].as_array().unwrap().iter().find(is_it).unwrap()["effects"].as_array().unwrap();
        let p99 = shown.iter().find(|effect| effect["measure"] == "p99_s").unwrap();
        for (at, field) in ["before", "within"].into_iter().enumerate() {
            let other = theirs["alike_p99_s"][at].as_f64().unwrap();
            assert!((number(p99, field) / other).ln().abs() < 0.15, "{name} {field}: {p99}, not {other}");
        }
        assert_eq!(clients[0]["user"], theirs["clients"][0]["user"]);
        // The table says what the headline does.
        let of_phase = |measure: &str| {
            report["tables"]["phases"].as_array().unwrap().iter().find(|phase| phase["measure"] == measure).unwrap()
        };
        let requests = shown.iter().find(|effect| effect["measure"] == "rps").unwrap();
        for field in ["before", "within"] {
            let (ours, headline) = (number(of_phase("rps"), field), number(requests, field));
            assert!((ours / headline).ln().abs() < 0.02, "{name} {field}: {ours}, in the headline {headline}");
        }
        for (at, part) in [("before", "calm"), ("within", "within")] {
            for phase in report["tables"]["phases"].as_array().unwrap() {
                if let Some(other) = theirs["phases"][part][phase["measure"].as_str().unwrap()].as_f64() {
                    near(number(phase, at), other, &format!("{name} {at} {}", phase["measure"]));
                }
            }
        }
    }
}

#[test]
fn a_restart_within_an_overload_is_told_and_not_blamed() {
    let report = report(&sample("overload-restart"), &[]);
    is_near_the_truth(&report, "overload-restart");
    let restart =
        report["tables"]["timeline"].as_array().unwrap().iter().find(|entry| entry["kind"] == "restart").unwrap();
    assert!(restart["at"].as_str().unwrap().starts_with("2026-11-20T09:38:47"), "{restart}");
    let causes = report["rows"].as_array().unwrap();
    let place = |kind: &str| causes.iter().position(|cause| cause["cause"] == kind).unwrap();
    assert!(place("client-surge") < place("relist-storm"), "{causes:?}");
    let user = causes[place("client-surge")]["subject"]["user"].as_str().unwrap();
    assert!(
        ["system:serviceaccount:platform:legacy-sync", "system:serviceaccount:monitoring:node-agent"].contains(&user),
        "{user}"
    );
    let evidence = &report["evidence"][place("relist-storm")];
    assert!(evidence["contradicts"].to_string().contains("the episode began before the restart"), "{evidence}");
    assert!(report["summary"].to_string().contains("429"), "{}", report["summary"]);
}

#[test]
fn where_nothing_happened_no_incident_is_found() {
    let quiet = report(&sample("quiet"), &[]);
    assert_eq!(quiet["incident"]["verdict"], "none", "{}", quiet["incident"]);
    assert_eq!(
        (count(&quiet["totals"], "warning"), count(&quiet["totals"], "critical")),
        (0, 0),
        "{}",
        quiet["findings"]
    );
    // The baseline of the storm, cut out of log and pages: chronic findings, no incident.
    let home = folder();
    let bundle = copied("list-storm", home.path(), &["audit", "metrics", "cgroup", "heap"]);
    let until = "2026-11-20T09:21:50";
    for instance in ["apiserver-0", "apiserver-1"] {
        let log = String::from_utf8(sample_bytes(&format!("list-storm/audit/{instance}/audit.log.zst"))).unwrap();
        let stamp = |line: &str| line[line.find("\"stageTimestamp\":\"").unwrap() + 18..][..19].to_owned();
        let kept: Vec<&str> = log.lines().filter(|line| *stamp(line) < *until).collect();
        assert!(!kept.is_empty() && kept.len() < log.lines().count());
        write(Path::new(&bundle), &format!("audit/{instance}/audit.log"), kept.join("\n") + "\n");
    }
    let baseline = report(&bundle, &[]);
    assert_eq!(baseline["incident"]["verdict"], "none", "{}", baseline["incident"]);
    assert!(baseline["summary"][0].as_str().unwrap().starts_with("NO INCIDENT FOUND"), "{}", baseline["summary"]);
    assert!(count(&baseline["totals"], "warning") >= 5, "what is always wrong is told: {}", baseline["findings"]);
    assert!(baseline["rows"].as_array().unwrap().is_empty());
}

#[test]
fn without_any_one_source_it_works_and_is_no_surer() {
    let whole = number(&report(&sample("list-storm"), &[])["rows"][0], "confidence");
    for (source, folders) in [
        ("audit", "audit"),
        ("metrics", "metrics"),
        ("etcd", "etcd"),
        ("cgroup", "cgroup"),
        ("heap", "heap"),
        ("objects", "objects"),
    ] {
        let home = folder();
        let bundle = copied("list-storm", home.path(), &[folders]);
        let report = report(&bundle, &[]);
        assert_eq!(report["coverage"]["missing"], json!([source]));
        assert_eq!(report["incident"]["verdict"], "surge", "without {source}: {}", report["incident"]);
        let first = &report["rows"][0];
        let is_same = first["cause"] == "client-surge";
        assert!(!is_same || number(first, "confidence") <= whole + 1e-9, "without {source}: {first}, with all {whole}");
        assert!(!report["evidence"][0]["missing"].as_array().unwrap().is_empty());
        assert!(report["summary"].to_string().contains("Missing inputs"), "{}", report["summary"]);
        if source == "audit" {
            // Nobody can be named, but what was asked for can.
            assert_eq!((&first["cause"], &first["subject"]["request"]), (&json!("request-surge"), &json!("list pods")));
        } else {
            assert_eq!(first["subject"]["agent"], "node-agent", "without {source}");
            is_near_the_truth(&report, "list-storm");
        }
    }
}

/// A log as it lies on a disk has what was before, too: this one begins with the start of its control plane, which is
/// louder than the incident.
#[test]
fn what_a_log_begins_with_hides_no_incident() {
    for without in [&["bundle.yaml"][..], &["bundle.yaml", "metrics", "etcd", "cgroup", "heap", "objects"]] {
        let home = folder();
        let report = report(&copied("overload-restart", home.path(), without), &[]);
        assert_eq!(report["incident"]["verdict"], "incident", "without {without:?}: {}", report["summary"]);
        is_near_the_truth(&report, "overload-restart");
    }
}

#[test]
fn every_number_is_that_of_the_command_that_owns_it() {
    for name in ["list-storm", "overload-restart", "controllers", "drain", "apf-dumps", "growth"] {
        let ran = plimsoll(&["report", &sample(name), "-o", "json"]);
        if name == "growth" {
            // A history alone is nothing that a report could be made of.
            ran.exits(3);
            continue;
        }
        let sections = ran.json(0)["sections"].as_object().unwrap().clone();
        let least = if name == "list-storm" { 17 } else { 3 };
        assert!(sections.len() >= least, "{name}: {:?}", sections.keys());
        for (section, answer) in sections {
            let command: Vec<&str> =
                answer["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
            let alone = plimsoll(&[command.as_slice(), &["-o", "json"]].concat());
            let alone: Value =
                serde_json::from_str(&alone.stdout).unwrap_or_else(|bad| panic!("{command:?}: {bad} {}", alone.stderr));
            for (member, value) in alone.as_object().unwrap() {
                assert_eq!(&answer[member], value, "{name} {section}: {member} of {command:?}");
            }
        }
    }
}

#[test]
fn a_person_uses_the_page() {
    let home = folder();
    let ran = plimsoll(&[
        "report",
        &sample("list-storm"),
        "-o",
        "html",
        "--title",
        "Outage & <b>aftermath</b>",
        "--owner",
        "platform",
    ]);
    ran.exits(0);
    assert!(ran.stdout.len() < 3_000_000, "{} bytes", ran.stdout.len());
    let page = picture_of(home.path(), &ran.stdout);
    for nothing in ["complaints", "thrown", "console", "requests", "nameless"] {
        assert_eq!(page[nothing], json!([]), "{nothing}");
    }
    assert_eq!(
        (page["dialogs"].as_u64(), page["handlers"].as_u64(), page["headless_tables"].as_u64()),
        (Some(0), Some(0), Some(0))
    );
    let csp = page["csp"].as_str().unwrap();
    assert!(csp.starts_with("default-src 'none'; style-src 'sha256-") && !csp.contains("unsafe"), "{csp}");
    assert_eq!(page["blocked"], json!(["blocked", "blocked", "blocked"]));
    assert_eq!(
        page["elements"],
        json!({"script": 2, "img": 0, "iframe": 0, "object": 0, "embed": 0, "link": 0, "form": 0, "style": 1})
    );
    assert_eq!(page["title"], "Outage & <b>aftermath</b>");
    assert!(page["first_sentence"].as_str().unwrap().contains("node-agent"), "{}", page["first_sentence"]);
    assert!(number(&page, "first_screen") < 720.0, "the summary is on the first screen: {}", page["first_screen"]);
    // Sorting, both ways.
    let sorted: Vec<Vec<f64>> = serde_json::from_value(page["sorted"].clone()).unwrap();
    assert!(sorted[0].len() > 20 && sorted[0].is_sorted_by(|a, b| a >= b) && sorted[1].is_sorted(), "{sorted:?}");
    assert_eq!(page["sort_said"], "ascending");
    let filtered = page["filtered"].as_array().unwrap();
    assert!(filtered.len() == 1 && filtered[0].as_str().unwrap().contains("legacy-team"), "{filtered:?}");
    assert!(page["filter_said"].as_str().unwrap().starts_with("1 of "));
    // Charts, by keyboard.
    assert!(page["charts"].as_array().unwrap().len() >= 9 && page["band"].as_u64() >= Some(9), "{}", page["charts"]);
    let readout = page["readout"].as_str().unwrap();
    assert!(readout.starts_with("09:1") && readout.contains("requests ") && readout.contains("LISTs "), "{readout}");
    assert_eq!(page["hidden_lines"], 1);
    assert!(page["numbers"].as_u64() > Some(80), "{}", page["numbers"]);
    // Flame graphs, by keyboard.
    assert_eq!(page["flames"].as_array().unwrap().len(), 4, "{}", page["flames"]);
    assert!(page["found"][0].as_u64() > Some(0), "{}", page["found"]);
    assert_eq!((page["zoomed"][1].as_str(), page["flame_focus"].as_str()), (Some("100%"), Some("0")));
    assert_ne!(page["unzoomed"], "100%");
    assert_eq!(page["copied"], "Copied");
    for scheme in ["light", "dark"] {
        assert!(page["contrast"][scheme][0].as_f64().unwrap() >= 4.5, "{scheme}: {}", page["contrast"][scheme]);
    }
    for width in ["overflow_1280", "overflow_390"] {
        assert!(page[width].as_f64().unwrap() <= 0.0, "{width}: {}", page[width]);
    }
}

/// Strings of whoever calls the apiserver.
const HOSTILE: [&str; 4] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(2)>",
    "</script><script>alert(3)</script>",
    "x\u{202e}gnp.exe\u{1b}[31m{{ 7*7 }}'\"&`$(reboot)|[a](javascript:alert(4))",
];

/// The storm with hostile names: the agent of the culprit, a namespace, a user, an object; and an agent of a megabyte.
fn hostile_storm(home: &Path) -> String {
    let bundle = copied("list-storm", home, &["audit", "etcd", "heap", "cgroup"]);
    let quoted = |text: &str| serde_json::to_string(text).unwrap().trim_matches('"').to_owned();
    for instance in ["apiserver-0", "apiserver-1"] {
        let log = String::from_utf8(sample_bytes(&format!("list-storm/audit/{instance}/audit.log.zst"))).unwrap();
        let log = log
            .replace("\"userAgent\":\"node-agent/", &format!("\"userAgent\":\"{}/", quoted(HOSTILE[3])))
            .replace(
                "system:serviceaccount:monitoring:node-agent",
                &format!("system:serviceaccount:monitoring:{}", quoted(HOSTILE[0])),
            )
            .replace("bob@example.com", &quoted(HOSTILE[1]))
            .replace("legacy-team", &quoted(HOSTILE[2]))
            .replace("\"userAgent\":\"curl/", &format!("\"userAgent\":\"{}/", "A".repeat(1 << 20)));
        write(Path::new(&bundle), &format!("audit/{instance}/audit.log"), log);
    }
    bundle
}

#[test]
fn hostile_names_stay_text() {
    let home = folder();
    let bundle = hostile_storm(home.path());
    let html = plimsoll(&["report", &bundle, "-o", "html"]);
    html.exits(0);
    assert!(html.stdout.len() < 3_000_000, "{} bytes", html.stdout.len());
    let active = |text: &str| {
        text.chars()
            .find(|c| c.is_control() && *c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    assert_eq!(active(&html.stdout), None);
    let page = picture_of(home.path(), &html.stdout);
    for nothing in ["complaints", "thrown", "console", "requests"] {
        assert_eq!(page[nothing], json!([]), "{nothing}");
    }
    assert_eq!((page["dialogs"].as_u64(), page["handlers"].as_u64()), (Some(0), Some(0)));
    assert_eq!(
        page["elements"],
        json!({"script": 2, "img": 0, "iframe": 0, "object": 0, "embed": 0, "link": 0, "form": 0, "style": 1})
    );
    // And they are there to be read.
    assert!(page["first_sentence"].as_str().unwrap().contains(HOSTILE[0]), "{}", page["first_sentence"]);
    assert!(page["timeline"].to_string().contains("onerror=alert(2)"), "{}", page["timeline"]);
    let markdown = plimsoll(&["report", &bundle, "-o", "markdown"]);
    markdown.exits(0);
    assert_eq!(active(&markdown.stdout), None);
    // Outside of fences there is no markup.
    let outside: String = markdown.stdout.split("```").step_by(2).collect();
    assert!(!outside.contains('<') && !outside.contains("](") && outside.contains("&lt;script&gt;"), "{outside}");
    for form in ["json", "yaml", "table"] {
        let ran = plimsoll(&["report", &bundle, "-o", form]);
        ran.exits(0);
        assert_eq!(active(&ran.stdout), None, "{form}");
    }
    let read = report(&bundle, &[]);
    assert_eq!(read["rows"][0]["subject"]["user"], format!("system:serviceaccount:monitoring:{}", HOSTILE[0]));
    // A command to copy is one word for a shell, whatever is in it.
    let now = read["evidence"][0]["now"][1].as_str().unwrap();
    assert!(now.ends_with(&format!("--client 'system:serviceaccount:monitoring:{}'", HOSTILE[0])), "{now}");
}

#[test]
fn pseudonyms_hide_every_name() {
    let bundle = sample("list-storm");
    let names = oracle(&["names", &bundle]);
    let of = |kind: &str| {
        names[kind]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect::<BTreeSet<String>>()
    };
    let mut secret: BTreeSet<String> = BTreeSet::new();
    for user in of("users") {
        match (user.strip_prefix("system:serviceaccount:"), user.strip_prefix("system:node:")) {
            (Some(account), _) => {
                secret.extend(account.split_once(':').into_iter().flat_map(|(a, b)| [a.to_owned(), b.to_owned()]));
            }
            (_, Some(node)) => drop(secret.insert(node.to_owned())),
            _ if user.starts_with("system:") => {}
            _ => drop(secret.insert(user)),
        }
    }
    secret.extend(of("namespaces").into_iter().chain(of("names")).chain(of("addresses")));
    let common = [
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "127.0.0.1",
        "kubernetes",
        "kube-scheduler",
        "kube-controller-manager",
        "system",
    ];
    secret
        .retain(|name| name.len() > 1 && !common.contains(&name.as_str()) && !name.bytes().all(|b| b.is_ascii_digit()));
    assert!(secret.len() > 300, "{}", secret.len());
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    for form in ["json", "markdown", "html"] {
        let ran = plimsoll(&["report", &bundle, "-o", form, "--redact"]);
        ran.exits(0);
        let plain = ran.stdout.replace("&#64;", "@").replace("&#x2f;", "/").replace("\\u002f", "/");
        // A name that is a word of the language is looked for where only a name can stand.
        for name in &secret {
            let is_plain = name.bytes().all(|b| b.is_ascii_lowercase());
            for (at, _) in plain.match_indices(name.as_str()) {
                let (before, after) = (&plain[..at], &plain[at + name.len()..]);
                let alone =
                    !before.chars().next_back().is_some_and(is_word) && !after.chars().next().is_some_and(is_word);
                let as_name = !is_plain
                    || before.ends_with("serviceaccount:")
                    || before.ends_with(" -n ")
                    || after.starts_with(":") && before.ends_with('(');
                // Roles, flow schemas and resources that every cluster has may be called like an object.
                let context = &plain[plain.floor_char_boundary(at.saturating_sub(60))
                    ..plain.ceil_char_boundary((at + name.len() + 30).min(plain.len()))];
                let is_standard = name.contains("controller")
                    || name.starts_with("system:")
                    || name.ends_with(".io")
                    || STANDARD.contains(&name.as_str());
                assert!(!(alone && as_name) || is_standard, "-o {form}: {name} in …{context}…");
            }
        }
        for inside in ["plimsoll-fence-monitoring", "event-spammer", "helm.release.v1", "node-agent-"] {
            assert!(!plain.contains(inside), "-o {form}: {inside}");
        }
        assert!(plain.contains("user-") && plain.contains("namespace-"), "-o {form}");
    }
    // The same twice, and the same numbers as without.
    let (a, b) = (report(&bundle, &["--redact"]), report(&bundle, &["--redact"]));
    assert_eq!((&a["rows"], &a["tables"]), (&b["rows"], &b["tables"]));
    let open = report(&bundle, &[]);
    assert_eq!(open["rows"][0]["confidence"], a["rows"][0]["confidence"]);
}

#[test]
fn a_quiet_window_that_is_named_has_no_culprit() {
    let answer = plimsoll(&[
        "report",
        &sample("quiet"),
        "--from",
        "2026-11-20T09:44:00Z",
        "--to",
        "2026-11-20T09:45:00Z",
        "-o",
        "json",
    ])
    .json(0);
    assert_eq!((&answer["rows"], &answer["incident"]["verdict"]), (&json!([]), &json!("none")));
    let own = &answer["episodes"][0];
    assert_eq!((&own["grade"], &own["given"], &own["causes"]), (&json!("none"), &json!(true), &json!([])));
    assert_eq!(answer["tables"]["phases"].as_array().map(|rows| rows.is_empty()), Some(false), "before, during, after");
    assert!(
        answer["summary"][0].as_str().unwrap().starts_with("NO INCIDENT FOUND in the 1m named"),
        "{}",
        answer["summary"]
    );
    assert!(answer["summary"][1].as_str().unwrap().contains("as named"), "{}", answer["summary"]);
    let window = ["--from", "2026-11-20T09:44:00Z", "--to", "2026-11-20T09:45:00Z"];
    plimsoll(&[&["report", &sample("quiet"), "--fail-on", "critical"], &window[..]].concat()).exits(0);
    let page = plimsoll(&[&["report", &sample("quiet"), "-o", "html"], &window[..]].concat()).stdout;
    assert!(page.contains("No incident found") && !page.contains("incident begins"), "the page says so, too");
    // A window that reaches beyond the data is as long as they are.
    let beyond = ["--from", "2026-11-20T09:44:00Z", "--to", "2026-11-20T19:45:00Z"];
    let answer = plimsoll(&[&["report", &sample("quiet"), "-o", "json"], &beyond[..]].concat()).json(0);
    let to = answer["episodes"][0]["to"].as_str().unwrap();
    assert!(to < "2026-11-20T09:48", "{to}");
    let summary = answer["summary"].as_array().unwrap();
    let is_note = |line: &&Value| line.as_str().unwrap().contains("of the time that was named, 2026-11-20T09:44:00");
    assert_eq!(summary.iter().filter(is_note).count(), 1, "{summary:?}");
    // All of the time: nothing is compared with nothing.
    let whole = ["--from", "2026-11-20T09:42:07Z", "--to", "2026-11-20T09:46:27Z"];
    let answer = plimsoll(&[&["report", &sample("quiet"), "-o", "json"], &whole[..]].concat()).json(0);
    assert_eq!((&answer["rows"], &answer["incident"]["verdict"]), (&json!([]), &json!("none")));
    assert!(answer["summary"][0].as_str().unwrap().contains("hardly any other time"), "{}", answer["summary"]);
}

/// Names that objects of every cluster have.
const STANDARD: [&str; 1] = ["v1."];

#[test]
fn sections_of_ones_own() {
    let home = folder();
    let bundle = hostile_storm(home.path());
    let markdown = write(
        home.path(),
        "impact.md.j2",
        "## Impact\n\nFrom {{ incident.from }}: {{ rows[0].subject.user }}; {{ totals.events }} events\n",
    );
    let html =
        write(home.path(), "note.html", "<p class=\"mine\">{{ rows[0].subject.user }} in {{ clusters[0] }}</p>\n");
    let ran = plimsoll(&["report", &bundle, "-o", "markdown", "--template", &markdown]);
    ran.exits(0);
    assert!(
        ran.stdout.contains("## Impact") && ran.stdout.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{}",
        ran.stdout
    );
    let ran = plimsoll(&["report", &bundle, "-o", "html", "--template", &html, "--template", &markdown]);
    ran.exits(0);
    assert!(ran.stdout.contains(
        "<p class=\"mine\">system:serviceaccount:monitoring:&lt;script&gt;alert(1)&lt;&#x2f;script&gt; in lab-1</p>"
    ));
    let page = picture_of(home.path(), &ran.stdout);
    assert_eq!((page["elements"]["script"].as_u64(), page["complaints"].as_array().map(Vec::len)), (Some(2), Some(0)));
    let wrong = write(home.path(), "wrong.md", "one\n{{ nothing.here }}\n");
    let ran = plimsoll(&["report", &sample("drain"), "-o", "markdown", "--template", &wrong]);
    ran.exits(2);
    assert!(ran.stderr.contains("wrong.md") && ran.stderr.contains("wrong.md:2"), "{}", ran.stderr);
}

#[test]
fn loose_files_and_windows_that_are_named() {
    let audit = sample("list-storm/audit");
    let (pages, database) = (sample("list-storm/metrics"), sample("list-storm/etcd/after.db.zst"));
    let [from, to] = ["2026-11-20T09:22:00Z", "2026-11-20T09:24:00Z"];
    let ran = plimsoll(&["report", &audit, &pages, &database, "--from", from, "--to", to, "-o", "json"]);
    let answer = ran.json(0);
    let window = &answer["incident"];
    assert_eq!(
        (window["given"].as_bool(), micros(&window["from"]), micros(&window["to"])),
        (Some(true), micros(&json!(from)), micros(&json!(to)))
    );
    assert_eq!(answer["coverage"]["read"], json!(["audit", "metrics", "etcd"]));
    assert_eq!(answer["rows"][0]["subject"]["agent"], "node-agent");
    assert_eq!(answer["coverage"]["lost"], json!([]), "each command is given what it can read");
    // With a history: forecasts.
    let history = sample("growth/history.csv.zst");
    let answer = plimsoll(&["report", &pages, "--history", &history, "-o", "json"]).json(0);
    let alone = plimsoll(&["forecast", &history, "-o", "json"]).json(0);
    assert_eq!(
        (&answer["sections"]["forecast"]["rows"], alone["rows"].as_array().map(Vec::len)),
        (&alone["rows"], Some(15))
    );
    for (args, code, says) in [
        (&["report", "-"][..], 2, "write it to a file"),
        (&["report", &audit, "--from", from], 2, "require each other"),
        (&["report", &audit, "--from", to, "--to", from], 2, "not before"),
        (&["report", &audit, "-o", "csv"], 2, "-o json"),
        (&["report", &audit, "-o", "svg"], 2, "-o svg is only for"),
        (&["traffic", &audit, "-o", "html"], 2, "plimsoll report"),
        (
            &["report", &audit, "--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T12:05:00Z"],
            2,
            "the sources cover 2026-11-20T09:17",
        ),
        (&["report", "docs"], 3, "heap profiles, objects"),
        (&["report", "no/such/bundle"], 3, "no/such/bundle"),
        (&["report", &audit, "--template", "no/such/file"], 2, "no/such/file"),
    ] {
        let ran = plimsoll(args);
        ran.exits(code);
        assert!(ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
    }
    let failing = plimsoll(&["report", &sample("list-storm"), "--fail-on", "critical", "-q"]);
    assert_eq!(failing.code, Some(1), "{}", failing.stderr);
}

#[test]
fn a_damaged_log_is_told_once() {
    let home = folder();
    let path: PathBuf = home.path().join("audit.log");
    fs::copy(sample("damage/broken-line.log"), &path).unwrap();
    let ran = plimsoll(&["report", path.to_str().unwrap(), "-o", "json"]);
    let answer = ran.json(3);
    assert!(!answer["coverage"]["lost"].as_array().unwrap().is_empty());
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let once: BTreeSet<&&str> = lines.iter().collect();
    assert_eq!(lines.len(), once.len(), "{}", ran.stderr);
}

#[test]
fn findings_are_documented() {
    let docs = fs::read_to_string(root().join("docs/findings.md")).unwrap();
    assert!(docs.contains("<a id=\"incident\"></a>`incident`"));
    let guide = fs::read_to_string(root().join("docs/judge.md")).unwrap();
    let pattern = root().join("src/analysis/judge/candidates/*.rs").display().to_string();
    // What lowers other candidates makes some for its tests.
    let files = glob::glob(&pattern).unwrap().map(Result::unwrap).filter(|path| !path.ends_with("rivals.rs"));
    let source: String = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    let of = |start: &str, text: &str, names: &mut BTreeSet<String>| {
        let found = text.match_indices(start).filter_map(|(at, _)| text[at + start.len()..].split('"').next());
        names.extend(found.map(str::to_owned));
    };
    let (mut kinds, mut features) = (BTreeSet::new(), BTreeSet::new());
    of("Candidate::new(\"", &source, &mut kinds);
    kinds.extend(["write-burst", "client-surge"].map(str::to_owned));
    let flat: String = source.split_whitespace().collect();
    of(".with(\"", &flat, &mut features);
    assert!(kinds.len() >= 19 && features.len() >= 80, "{kinds:?} {features:?}");
    // What was fitted is what is computed, and neither is without a definition.
    let weights = fs::read_to_string(root().join("src/analysis/judge/weights.rs")).unwrap();
    for name in kinds.iter().chain(&features) {
        assert!(guide.contains(&format!("`{name}`")), "{name} is not in docs/judge.md");
    }
    for kind in &kinds {
        assert!(weights.contains(&format!("(\"{kind}\", \"bias\"")), "{kind} has no weights");
    }
}

/// Of the time between two bundles neither has recorded anything: it is no outage.
#[test]
fn a_time_between_two_bundles_is_not_known() {
    let home = folder();
    let log = String::from_utf8(sample_bytes("quiet/audit/apiserver-0/audit.log.zst")).unwrap();
    let part = |name: &str, from: &str, to: &str| {
        let is_in = |line: &&str| {
            let event: Value = serde_json::from_str(line).unwrap();
            let at = event["stageTimestamp"].as_str().unwrap().to_owned();
            at.as_str() >= from && at.as_str() < to
        };
        let lines: String = log.lines().filter(is_in).map(|line| format!("{line}\n")).collect();
        write(home.path(), &format!("{name}/audit/apiserver-0/audit.log"), lines);
        let about = format!("cluster: lab-3\nkubernetes_version: v1.36.0\nt0: {from}\nend: {to}\n");
        write(home.path(), &format!("{name}/bundle.yaml"), about);
        home.path().join(name).display().to_string()
    };
    let first = part("a", "2026-11-20T09:42:07Z", "2026-11-20T09:43:30Z");
    let last = part("b", "2026-11-20T09:45:00Z", "2026-11-20T09:46:28Z");
    let report = plimsoll(&["report", &first, &last, "-o", "json"]).json(0);
    assert_eq!(report["episodes"], json!([]), "{}", report["summary"]);
    let summary = report["summary"].as_array().unwrap();
    let is_said = |line: &Value| line.as_str().unwrap().contains("2026-11-20 09:43:30 to 2026-11-20 09:45:00");
    assert!(summary.iter().any(is_said), "{summary:?}");
}

/// What happens in the second of two bundles of one cluster does not begin in the time between them.
#[test]
fn no_episode_is_in_a_time_that_is_not_known() {
    let home = folder();
    let bundle = |name: &str| {
        let to = home.path().join(name);
        let mut all = vec![PathBuf::from(sample(name))];
        while let Some(from) = all.pop() {
            for entry in std::fs::read_dir(from).unwrap() {
                let path = entry.unwrap().path();
                let below = path.strip_prefix(sample(name)).unwrap().to_str().unwrap().to_owned();
                if path.is_dir() {
                    all.push(path);
                    continue;
                }
                let mut content = std::fs::read(path).unwrap();
                if below == "bundle.yaml" {
                    let about = String::from_utf8(content).unwrap();
                    let (_, rest) = about.split_once('\n').expect("the first line names the cluster");
                    content = format!("cluster: prod\n{rest}").into_bytes();
                }
                write(&to, &below, content);
            }
        }
        to.display().to_string()
    };
    let (first, second) = (bundle("list-storm"), bundle("overload-restart"));
    let report = plimsoll(&["report", &first, &second, "-o", "json"]).json(0);
    let episodes = report["episodes"].as_array().unwrap();
    let ends = |own: &Value| ["from", "to"].map(|end| own[end].as_str().unwrap().to_owned());
    for [from, to] in episodes.iter().map(ends) {
        assert!(to.as_str() <= "2026-11-20T09:25:57" || from.as_str() >= "2026-11-20T09:36:01", "{from} to {to}");
    }
    // The first bundle holds a surge and no more, however its logs end.
    let in_first = episodes.iter().filter(|own| ends(own)[0].as_str() < "2026-11-20T09:25:57");
    assert!(
        in_first.clone().count() == 1 && in_first.clone().all(|own| own["grade"] == "surge"),
        "{}",
        report["summary"]
    );
    let is_restart = |own: &&Value| {
        let [from, to] = ends(own);
        from.as_str() < "2026-11-20T09:38:47" && to.as_str() > "2026-11-20T09:38:47"
    };
    assert!(episodes.iter().find(is_restart).is_some_and(|own| own["grade"] == "outage"), "{}", report["summary"]);
    // Each bundle has the episodes that it has alone, whoever lists them; a third has none, and adds none.
    let third = bundle("quiet");
    let listed = |all: &Value| -> Vec<[String; 3]> {
        let field = |own: &Value, name: &str| own[name].as_str().unwrap().to_owned();
        all.as_array().unwrap().iter().map(|own| ["from", "to", "grade"].map(|name| field(own, name))).collect()
    };
    let alone: Vec<[String; 3]> = [&first, &second, &third]
        .iter()
        .flat_map(|one| listed(&plimsoll(&["report", one, "-o", "json"]).json(0)["episodes"]))
        .collect();
    assert_eq!(listed(&plimsoll(&["report", &third, &first, &second, "-o", "json"]).json(0)["episodes"]), alone);
    assert_eq!(listed(&plimsoll(&["guard", "episodes", &third, &first, &second, "-o", "json"]).json(0)["rows"]), alone);
    // What has no time, or lies in one folder with the others, changes nothing.
    let database = sample("list-storm/etcd/before.db.zst");
    let with = plimsoll(&["report", &third, &first, &second, &database, "-o", "json"]).json(0);
    assert_eq!(listed(&with["episodes"]), alone);
    let all = home.path().display().to_string();
    assert_eq!(listed(&plimsoll(&["report", &all, "-o", "json"]).json(0)["episodes"]), alone);
    let between = ["--from", "2026-11-20T09:30:00Z", "--to", "2026-11-20T09:31:00Z"];
    let ran = plimsoll(&[&["report", first.as_str(), second.as_str()], between.as_slice()].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stderr.contains("no bundle is of"), "{}", ran.stderr);
    let ran = plimsoll(&["report", &third, "--history", "/nonexistent/store"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    // What was named and is not there is missing from what is reported.
    for command in ["report", "quota check"] {
        let words: Vec<&str> = command.split(' ').chain(["no/such/log", second.as_str()]).collect();
        let ran = plimsoll(&words);
        assert_eq!(ran.code, Some(3), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains("no/such/log"), "{command}: {}", ran.stderr);
    }
    // The possible causes of an outage have steps, too.
    let page = plimsoll(&["report", &second, "-o", "markdown"]);
    assert!(page.stdout.contains("## If it is ongoing"), "{}", page.stdout);
}
