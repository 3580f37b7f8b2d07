//! The forms of the output, with values that whoever calls the apiserver wrote to do harm; and what scripts rely on:
//! exit codes, closed pipes, colour.

use crate::support::{
    agree, count, feed, folder, hermetic, oracle, plimsoll, python, rows, run, sample, traffic, write,
};
use serde_json::Value;
use std::io::Read;
use std::process::{Command, Stdio};
use unicode_width::UnicodeWidthStr;

const FORMS: [&str; 6] = ["table", "wide", "json", "yaml", "csv", "markdown"];
const BY: &str = "agent,agent-version,user";

/// User agents that a terminal, a spreadsheet, a page, YAML or JSON could take for something else.
const AGENTS: [&str; 32] = [
    "\u{1b}[2J\u{1b}]0;owned\u{7}",
    "c1\u{9b}31mred\u{85}next",
    "bidi\u{202e}\u{2066}\u{200f}\u{61c}turned",
    "line\u{2028}and\u{2029}paragraph",
    "tag\u{e0001}\u{e0041}plane\u{10fffd}private\u{f0000}",
    "del\u{7f}nul\u{0}end",
    "one\r\ntwo\nthree",
    "tab\tafter",
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "|pipe|in|cell|",
    "\\|backslash",
    "<script>alert(1)<",
    "<img\u{a0}src=x>",
    "![x](http:x)",
    "**bold**`code`",
    "null",
    "true",
    "~",
    "1e3",
    "0x10",
    "- item",
    "key:\u{a0}value",
    "#comment",
    "'single\"double",
    "漢字かな交じり文漢字かな交じり文",
    "e\u{301}\u{301}\u{301}🚀👩\u{200d}🚀",
    "",
];

/// A log with one request by each of [`AGENTS`].
fn agents_log() -> String {
    let mut log = String::new();
    for (second, agent) in AGENTS.iter().enumerate() {
        let agent = serde_json::to_string(agent).unwrap();
        log += &format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{second}","stage":"ResponseComplete","requestURI":"/api/v1/pods","verb":"list","user":{{"username":{agent}}},"userAgent":{agent},"objectRef":{{"resource":"pods","apiVersion":"v1"}},"responseStatus":{{"code":200}},"requestReceivedTimestamp":"2026-11-20T09:18:{second:02}.000000Z","stageTimestamp":"2026-11-20T09:18:{second:02}.001000Z"}}"#
        );
        log.push('\n');
    }
    log
}

/// Characters that act instead of being seen.
fn acts(c: char) -> bool {
    let spans =
        [('\u{200b}', '\u{200f}'), ('\u{2028}', '\u{202e}'), ('\u{2060}', '\u{2069}'), ('\u{e0000}', '\u{e0fff}')];
    (c.is_control() && c != '\n')
        || matches!(c, '\u{61c}' | '\u{feff}')
        || spans.iter().any(|(first, last)| (first..=last).contains(&&c))
}

/// The two hostile logs; the test's own is complete, the sample has what only a log can have (lengths, escapes,
/// bodies).
fn with_hostile_logs(mut check: impl FnMut(&str)) {
    let folder = folder();
    check(&write(folder.path(), "agents.log", agents_log()));
    check(&sample("damage/hostile.log"));
}

fn show(source: &str, form: &str) -> String {
    let ran = plimsoll(&["traffic", source, "--by", BY, "--top", "0", "-o", form]);
    ran.did_not_panic();
    assert!(!ran.stderr.contains(acts), "{:?}", ran.stderr);
    ran.stdout
}

#[test]
fn nothing_acts_on_a_terminal_in_any_form() {
    with_hostile_logs(|source| {
        for form in FORMS {
            let text = show(source, form);
            assert!(text.len() > 1000, "{form} of {source}: {text}");
            let bad: Vec<String> =
                text.lines().filter(|line| line.contains(acts)).map(|line| format!("{line:?}")).collect();
            assert!(bad.is_empty(), "{form} of {source}:\n{}", bad.join("\n"));
        }
    });
}

#[test]
fn values_are_what_the_log_says() {
    let folder = folder();
    let path = write(folder.path(), "agents.log", agents_log());
    let found = rows(&traffic(&path, "user", &[]), "user");
    let mut expected: Vec<Vec<String>> = AGENTS.iter().map(|agent| vec![(*agent).to_owned()]).collect();
    expected.sort();
    assert_eq!(found.into_keys().collect::<Vec<_>>(), expected);
    // Python reads the JSON as serde does.
    let json = show(&path, "json");
    let mut check = Command::new(python());
    check.args([
        "-c",
        "import json,sys; sys.stdout.write(json.dumps([r['user'] for r in json.load(sys.stdin)['rows']]))",
    ]);
    let mut users: Vec<String> = serde_json::from_str(&feed(check, json.as_bytes()).stdout).unwrap();
    users.sort();
    assert_eq!(users, expected.concat());
}

#[test]
fn hostile_events_are_counted_as_what_they_are() {
    let path = sample("damage/hostile.log");
    for by in ["verb,code,scope", "agent,agent-version,source-ip,name"] {
        let truth = oracle(&[by], std::slice::from_ref(&path), &[]);
        let ran = plimsoll(&["traffic", &path, "--by", by, "-o", "json"]);
        agree(&serde_json::from_str(&ran.stdout).unwrap(), &truth["breakdowns"][by], by);
    }
}

#[test]
fn yaml_is_the_json() {
    with_hostile_logs(|source| {
        let json: Value = serde_json::from_str(&show(source, "json")).unwrap();
        let text = show(source, "yaml");
        let yaml: Value =
            serde_yaml_ng::from_str(&text).unwrap_or_else(|bad| panic!("{source}: the YAML can't be read: {bad}"));
        assert_eq!(yaml, json, "{source}");
        assert_eq!(yaml["rows"].as_array().unwrap().len() as u64, count(&json["totals"], "rows"));
    });
}

#[test]
fn csv_holds_all_rows_and_no_formula() {
    with_hostile_logs(|source| {
        let json: Value = serde_json::from_str(&show(source, "json")).unwrap();
        let text = show(source, "csv");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headers = reader.headers().unwrap().clone();
        assert_eq!(headers.iter().take(4).collect::<Vec<_>>(), ["agent", "agent-version", "user", "requests"]);
        let mut sum = 0;
        let mut seen = 0;
        for row in reader.records() {
            let row = row.unwrap();
            for cell in &row {
                assert!(!cell.contains(['\n', '\r', '\t']), "{cell:?}");
                let is_number = cell.parse::<f64>().is_ok() && !cell.starts_with('+') && !cell.starts_with("-");
                assert!(is_number || !cell.trim_start().starts_with(['=', '+', '-', '@']), "{cell:?} is a formula");
            }
            sum += row[3].parse::<u64>().unwrap();
            seen += 1;
        }
        assert_eq!((seen, sum), (count(&json["totals"], "rows"), count(&json["totals"], "requests")), "{source}");
        assert_eq!(text.lines().count() as u64, seen + 1, "a row is a line");
    });
    let plain = plimsoll(&["traffic", &sample("forms/v1.log"), "-o", "csv", "--no-headers"]);
    assert!(!plain.exits(0).stdout.contains("requests"), "{}", plain.stdout);
}

#[test]
fn markdown_stays_a_table() {
    with_hostile_logs(|source| {
        let rows = count(&serde_json::from_str::<Value>(&show(source, "json")).unwrap()["totals"], "rows") as usize;
        let text = show(source, "markdown");
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(table.len(), rows + 2, "{text}");
        let bars = |line: &str| {
            let mut escaped = false;
            let mut bars = 0;
            for c in line.chars() {
                bars += usize::from(c == '|' && !escaped);
                escaped = c == '\\' && !escaped;
            }
            bars
        };
        for line in &table {
            assert_eq!(bars(line), bars(table[0]), "{line}");
        }
        for raw in ["<script", "<img", "![", "**b", "`code`"] {
            let at = text.match_indices(raw).find(|(at, _)| !text[..*at].ends_with('\\'));
            assert!(at.is_none(), "{raw} stands in {source}'s table");
        }
    });
}

/// The lines of the table: from its heading to the next blank line.
fn grid(text: &str) -> Vec<&str> {
    text.lines()
        .skip_while(|line| !line.starts_with("VERB") && !line.starts_with("AGENT"))
        .take_while(|line| !line.is_empty())
        .collect()
}

#[test]
fn a_table_fits_the_terminal() {
    for (columns, by) in [
        ("80", "verb,resource,user"),
        ("100", "verb,resource,user"),
        ("120", "verb,resource,user,agent"),
        ("80", "agent"),
    ] {
        for source in [sample("list-storm"), sample("damage/hostile.log")] {
            let ran = run(&["traffic", &source, "--by", by], &[("COLUMNS", columns)], b"");
            let lines = grid(&ran.stdout);
            assert!(lines.len() > 4, "{}", ran.stdout);
            let limit: usize = columns.parse().unwrap();
            let widest = lines.iter().max_by_key(|line| line.width()).unwrap();
            assert!(widest.width() <= limit, "--by {by}: {} columns of {limit}:\n{widest}", widest.width());
        }
    }
    // Wide characters count twice.
    let folder = folder();
    let path = write(folder.path(), "agents.log", agents_log());
    let ran = run(&["traffic", &path, "--by", "agent,user", "--top", "0"], &[("COLUMNS", "100")], b"");
    assert_eq!(grid(&ran.stdout).len(), AGENTS.len() + 1);
    assert!(grid(&ran.stdout).iter().all(|line| line.width() <= 100), "{}", ran.stdout);
}

#[test]
fn people_are_shown_25_rows_and_machines_all() {
    let source = sample("quiet");
    let all = count(&traffic(&source, "name", &[])["totals"], "rows");
    assert!(all > 100);
    let lines = |more: &[&str]| {
        plimsoll(&[&["traffic", &source, "--by", "name", "--no-headers"], more].concat()).stdout.lines().count() as u64
    };
    assert_eq!(lines(&[]), 25);
    assert_eq!(lines(&["--top", "3"]), 3);
    assert_eq!(lines(&["--top", "0"]), all);
    assert_eq!(lines(&["-o", "csv"]), all);
    assert_eq!(traffic(&source, "name", &[])["rows"].as_array().unwrap().len() as u64, all);
}

#[test]
fn exit_codes() {
    let log = sample("forms/v1.log");
    for bad in [
        &["--by", "banana"][..],
        &["--by", "component"],
        &["--where", "verb"],
        &["--where", "banana=1"],
        &["--where", "verb=~("],
        &["--since", "yesterday-ish"],
        &["--until", "2026-13-01T00:00:00Z"],
        &["--since", "2026-11-21", "--until", "2026-11-20"],
        &["--sort-by", "banana"],
        &["--interval", "0s", "--series"],
        &["--threads", "0"],
        &["-o", "banana"],
        &["--fail-on", "banana"],
        &["--no-such-flag"],
    ] {
        let ran = plimsoll(&[&["traffic", log.as_str()], bad].concat());
        assert!(!ran.exits(2).stderr.is_empty() && ran.stdout.is_empty(), "{bad:?}: {} {}", ran.stdout, ran.stderr);
    }
    // Without SOURCE it asks the kubeconfig's cluster, of which there is none here.
    assert!(plimsoll(&["traffic"]).exits(3).stderr.contains("no kubeconfig"));
    plimsoll(&["traffic", &log]).exits(0);
    for severity in ["critical", "warning", "never"] {
        plimsoll(&["traffic", &log, "--fail-on", severity]).exits(0); // a breakdown finds nothing
    }
    assert!(plimsoll(&["--help"]).exits(0).stdout.contains("traffic"));
    assert!(plimsoll(&["--version"]).exits(0).stdout.contains(env!("CARGO_PKG_VERSION")));
    // Data on stdout, nothing else.
    assert_eq!(plimsoll(&["traffic", &log, "-o", "json"]).exits(0).stderr, "");
}

#[test]
fn a_closed_pipe_is_no_error() {
    for form in ["json", "csv", "table"] {
        let home = folder();
        let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        command.args(["traffic", &sample("list-storm"), "--by", "name,user,agent", "--top", "0", "-o", form]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut start = [0; 10];
        out.read_exact(&mut start).unwrap();
        drop(out); // as head does; what is to come is far more than a pipe holds
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{form}");
        assert!(matches!(output.status.code(), Some(0) | None), "{form}: {:?}", output.status);
    }
}

/// Runs the program on a terminal and gives what it writes there.
fn on_a_terminal(environment: &[(&str, &str)], args: &[&str]) -> String {
    const SCRIPT: &str = "import os,pty,sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let home = folder();
    let mut command = hermetic(Command::new(python()), home.path());
    command
        .args(["-c", SCRIPT, env!("CARGO_BIN_EXE_plimsoll")])
        .args(args)
        .envs(environment.iter().copied())
        .env("TERM", "xterm-256color");
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    assert!(ran.stdout.contains("REQUESTS"), "{}", ran.stdout);
    ran.stdout
}

#[test]
fn colour_only_where_it_is_wanted() {
    let log = sample("forms/v1.log");
    let args = ["traffic", log.as_str(), "--progress", "never"];
    assert!(!plimsoll(&args).stdout.contains('\u{1b}'), "none into a pipe");
    assert!(!on_a_terminal(&[("NO_COLOR", "1")], &args).contains('\u{1b}'), "none where NO_COLOR is set");
    let never = [&args[..], &["--color", "never"]].concat();
    assert!(!on_a_terminal(&[], &never).contains('\u{1b}'), "none with --color never");
}

#[test]
fn colour_always_is_colour() {
    let log = sample("forms/v1.log");
    assert!(
        plimsoll(&["traffic", &log, "--color", "always"]).exits(0).stdout.contains('\u{1b}'),
        "--color always changes nothing"
    );
    let json = plimsoll(&["traffic", &log, "--color", "always", "-o", "json"]);
    assert!(!json.stdout.contains('\u{1b}'), "what machines read has no colour");
}
