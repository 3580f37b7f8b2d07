//! The terminal UI in a real terminal (tmux), as a person uses it: replayed, live, and when things fail.

use crate::lab::Lab;
use crate::screen::{Screen, page};
use crate::support::{folder, plimsoll, python, sample, sample_bytes, write};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_bundle_is_replayed_looked_into_filtered_exported_and_left() {
    let home = folder();
    let storm = sample("list-storm");
    let screen = Screen::start("replay", (120, 40), &[&storm], home.path());
    let text = screen.shows("5 critical");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("node-agent (monitoring:node-agent) sent"), "{text}");
    screen.keys(&["2"]);
    let text = screen.shows("traffic (");
    let answer = plimsoll(&[
        "traffic",
        &storm,
        "--by",
        "verb,resource",
        "--since",
        "2026-11-20T09:17:56Z",
        "--until",
        "2026-11-20T09:25:56Z",
        "-o",
        "json",
    ]);
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    let rows = answer["rows"].as_array().unwrap();
    assert!(text.contains(&format!("traffic ({})", rows.len())), "{} rows: {text}", rows.len());
    screen.keys(&["Enter"]);
    screen.shows("by user where verb=create and resource=events");
    screen.keys(&["Escape"]);
    screen.shows("by verb, resource");
    screen.keys(&["/"]);
    screen.line("^(pods|leases)$");
    let of = |resource: &str| rows.iter().filter(|row| row["resource"] == resource).count();
    screen.shows(&format!("traffic ({} of {})", of("pods") + of("leases"), rows.len()));
    let file = home.path().join("rows.csv");
    screen.keys(&["e"]);
    screen.keys(&["C-u"]);
    screen.line(file.to_str().unwrap());
    screen.shows("written: ");
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.lines().count() - 1, of("pods") + of("leases"));
    let header: Vec<&str> = written.lines().next().unwrap().split(',').collect();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    for line in written.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let own = rows
            .iter()
            .find(|row| row["verb"] == cells[at("verb")] && row["resource"] == cells[at("resource")])
            .unwrap();
        assert_eq!(own["requests"].to_string(), cells[at("requests")], "{line}");
    }
    // A moment: the minute before 09:24:00. Keys that are typed faster than they are read are all meant.
    screen.keys(&["Escape", ":"]);
    screen.line("time 09:24:00");
    screen.keys(&[":"]);
    screen.line("window 1m");
    screen.shows("09:23:00 to 09:24:00 UTC (1m)");
    let title = |text: &str| {
        text.split_once("traffic (").and_then(|(_, rest)| rest.split_once(')')).map(|(title, _)| title.to_owned())
    };
    screen.until("all rows again", |text| title(text).is_some_and(|title| !title.contains(" of ")));
    let requests = counted(&storm, 60, "2026-11-20T09:23:00Z");
    // Those whose end is not in the window are counted too, and reported.
    let number = |text: &str, before: &str| -> Option<u64> {
        let word = text[..text.find(before)?].split([' ', '\n']).rfind(|word| !word.is_empty())?;
        word.replace(',', "").parse().ok()
    };
    screen.until(&format!("{requests} requests that ended"), |text| {
        number(text, " requests in").zip(number(text, " still open")).is_some_and(|(all, open)| all - open == requests)
    });
    // It plays, and the moment moves.
    screen.keys(&["space"]);
    screen.shows("playing ×10");
    screen.until("a later moment", |text| !text.contains("09:23:00 to 09:24:00"));
    screen.keys(&["space"]);
    screen.shows("replay");
    screen.keys(&["q"]);
    screen.is_sane();
}

#[test]
fn commands_are_copied_prompts_replaced_and_filters_shown_at_80_columns() {
    let home = folder();
    let screen = Screen::start("copy", (80, 24), &[&sample("list-storm")], home.path());
    // A terminal that takes what programs copy (OSC 52).
    assert!(screen.tmux(&["set", "-s", "set-clipboard", "on"]).0);
    let text = screen.shows("analysing…");
    assert!(!text.contains("Findings: 0") && text.contains(" 4Etcd "), "{text}");
    // Not "so far": which finding is the gravest is known when all are.
    screen.shows("Findings: 5 critical");
    screen.keys(&["Enter"]);
    // From the start to the remedy of the heaviest episode in two keys.
    screen.shows("─ episode ─");
    let popup = screen.settled();
    screen.keys(&["G"]);
    screen.keys(&["k"]);
    let height =
        |text: &str| text.lines().filter(|line| line.contains('│') || line.contains('┌') || line.contains('└')).count();
    assert_eq!(height(&screen.settled()), height(&popup), "it keeps its size");
    // The command alone, as a shell takes it.
    screen.keys(&["y"]);
    screen.shows("copied: plimsoll clients");
    let copied = screen.tmux(&["show-buffer"]).1;
    assert!(copied.contains("--emit fence --client system:serviceaccount:monitoring:node-agent"), "{copied}");
    screen.keys(&["Escape", "2"]);
    screen.shows("traffic (");
    screen.keys(&["e"]);
    screen.shows("write to: ");
    screen.keys(&["-l", "abc"]);
    let text = screen.shows("write to: abc");
    assert!(text.lines().any(|line| line.trim_end() == "write to: abc"), "typing replaces what was proposed: {text}");
    screen.keys(&["Escape", "/"]);
    screen.line("leases");
    screen.until("the filter's text", |text| {
        text.lines().any(|line| line.contains("traffic (") && line.contains("/leases"))
    });
    // A jump puts what happened into the middle of what is looked at.
    screen.keys(&["Escape", ":"]);
    screen.line("window 1m");
    screen.keys(&[":"]);
    screen.line("time 09:22:30");
    screen.until("that minute", |text| text.lines().next().is_some_and(|line| line.contains("09:21:30 to 09:22:30")));
    screen.keys(&[">"]);
    let text = screen.until("an event", |text| text.lines().last().is_some_and(|line| line.starts_with("09:")));
    let seconds =
        |clock: &str| clock.split(':').map(|part| part.parse::<i64>().unwrap()).fold(0, |all, part| all * 60 + part);
    let event = seconds(&text.lines().last().unwrap()[..8]);
    let window = text.lines().next().unwrap().split("replay").nth(1).unwrap().trim().to_owned();
    let (from, to) = (seconds(&window[..8]), seconds(&window[12..20]));
    // Once the logs are held, windows are cut at whole tiles of 10 s.
    assert!((event - (from + to) / 2).abs() <= 10 && to - from == 60, "{event} in {window}");
    screen.keys(&["q"]);
    screen.is_sane();
}

/// Requests of a bundle's logs whose last event lies in so many seconds from a moment on, by Python.
fn counted(bundle: &str, seconds: i64, from: &str) -> u64 {
    let script = r#"
import sys, json, glob, subprocess, datetime
folder, seconds, start = sys.argv[1], int(sys.argv[2]), datetime.datetime.fromisoformat(sys.argv[3].replace("Z", "+00:00"))
end = start + datetime.timedelta(seconds=seconds)
n = 0
for path in glob.glob(folder + "/audit/*/*"):
    data = subprocess.run(["zstd", "-dc", path], capture_output=True).stdout if path.endswith(".zst") else open(path, "rb").read()
    for line in data.splitlines():
        event = json.loads(line)
        at = datetime.datetime.fromisoformat(event["stageTimestamp"].replace("Z", "+00:00"))
        if event["stage"] in ("ResponseComplete", "Panic") and start <= at < end:
            n += 1
print(n)
"#;
    let out = Command::new(python()).args(["-c", script, bundle, &seconds.to_string(), from]).output().unwrap();
    String::from_utf8_lossy(&out.stdout)
        .trim()
        .parse()
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&out.stderr)))
}

#[test]
fn signals_and_small_screens_leave_the_terminal_sane() {
    let home = folder();
    let quiet = sample("quiet");
    let screen = Screen::start("signal", (80, 24), &[&quiet], home.path());
    screen.shows("1Overview");
    screen.tmux(&["resize-window", "-x", "30", "-y", "8"]);
    screen.shows("40 by 12 is required");
    screen.tmux(&["resize-window", "-x", "300", "-y", "80"]);
    screen.shows("8 Forecast");
    assert!(Command::new("kill").args(["-TERM", &screen.process()]).status().unwrap().success());
    screen.is_sane();
    // Without a terminal, and with paths that are wrong, it says so and does not begin.
    let ran = plimsoll(&["tui", &quiet]);
    assert!(ran.stderr.contains("needs a terminal"), "{}", ran.stderr);
    ran.exits(2);
    let screen = Screen::start("nowhere", (80, 24), &["/nowhere/at/all"], home.path());
    let text = screen.shows("EXIT 3");
    assert!(text.contains("/nowhere/at/all"), "{text}");
}

#[test]
fn live_with_each_form_of_credentials() {
    let home = folder();
    let lab =
        Lab::start(&[&write(home.path(), "page-a.txt", page(1_000)), &write(home.path(), "page-b.txt", page(2_000))]);
    let kubeconfig = lab.kubeconfig();
    // A token, a client certificate, a plugin that gives a token.
    for context in ["lab", "jane", "plugin-token"] {
        let words = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--context", context, "--every", "1s"];
        let screen = Screen::start(&format!("creds-{context}"), (120, 24), &words, home.path());
        screen.shows("2 sources answer");
        screen.keys(&["q"]);
        screen.is_sane();
    }
    // Nobody answers: it says so, and goes on trying.
    let words = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "no-such-host", "--every", "1s"];
    let screen = Screen::start("creds-down", (120, 24), &words, home.path());
    screen.shows("fails since");
    screen.keys(&["q"]);
    screen.is_sane();
}

#[test]
fn a_log_that_is_written_is_followed_and_saved() {
    let home = folder();
    let path = home.path().join("audit.log");
    let events = sample_bytes("list-storm/audit/apiserver-0/audit.log.zst");
    let lines: Vec<Value> =
        events.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let done: Vec<&Value> = lines.iter().filter(|event| event["stage"] == "ResponseComplete").take(3_000).collect();
    std::fs::write(&path, b"").unwrap();
    let screen =
        Screen::start("follow", (120, 30), &["--follow", path.to_str().unwrap(), "--every", "1s"], home.path());
    screen.shows("live");
    // As it would be written now, and rotated in the middle.
    let mut count = 0;
    for (number, chunk) in done.chunks(500).enumerate() {
        let mut text = String::new();
        for event in chunk {
            let mut event = (*event).clone();
            let now = jiff::Timestamp::now();
            for field in ["requestReceivedTimestamp", "stageTimestamp"] {
                event[field] = Value::String(now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string());
            }
            event["auditID"] = Value::String(format!("00000000-0000-4000-8000-{count:012}"));
            event["requestObject"] = serde_json::json!({"kind": "Secret", "data": {"password": "c2VjcmV0LXdvcmQ="}});
            writeln!(text, "{event}").unwrap();
            count += 1;
        }
        if number == 3 {
            std::fs::rename(&path, home.path().join("audit-2026-11-20T09-37-56.438.log")).unwrap();
        }
        std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(400));
    }
    screen.keys(&["2"]);
    screen.keys(&["a"]);
    screen.shows("3,000 requests in");
    let bundle = home.path().join("saved");
    screen.keys(&["B"]);
    screen.keys(&["C-u"]);
    screen.line(bundle.to_str().unwrap());
    screen.shows("written: ");
    let answer = plimsoll(&["traffic", bundle.to_str().unwrap(), "-o", "json"]).json(0);
    assert_eq!(done.len(), 3_000);
    assert_eq!(answer["totals"]["requests"], 3_000, "what was seen live can be read again");
    // What clients sent stays behind.
    let found = Command::new("grep").args(["-rl", "c2VjcmV0LXdvcmQ"]).arg(&bundle).output().unwrap();
    assert_eq!((found.status.code(), found.stdout.len()), (Some(1), 0), "bodies are in the bundle");
    let sizes = Command::new("grep").args(["-rl", "plimsoll.io/request-bytes"]).arg(&bundle).output().unwrap();
    assert!(sizes.status.success(), "their sizes are");
    screen.keys(&["q"]);
    screen.is_sane();
}
