//! docs/rollup.md, section 6, walked through: each command that reads audit logs, with each of its flags.

use crate::rollup_files::log_and_roll_up;
use crate::support::{Ran, plimsoll, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// What a roll-up answers in place of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The same JSON but for `inputs`.
    Same,
    /// The same but for these fields, wherever they are.
    But(&'static [&'static str]),
    /// Exit code 2, and the log is named as what would show.
    Refused,
    /// The flag is not about what audit logs show.
    Aside,
}
use Answer::{Aside, But, Refused, Same};

/// Peaks by second are known of some rows only (docs/rollup.md, section 6).
const PEAK: Answer = But(&["peak_rps"]);

/// Command, flag, the words of a command line that uses it (`SINCE` and `UNTIL` are edges of tiles), and what it
/// answers.
const LIST: &[(&str, &str, &[&str], Answer)] = &[
    ("traffic", "", &["SOURCE"], PEAK),
    ("traffic", "--by", &["SOURCE", "--by", "verb,resource,code", "--top", "0"], PEAK),
    ("traffic", "--by", &["SOURCE", "--by", "list-kind,scope,agent"], PEAK),
    ("traffic", "--by", &["SOURCE", "--by", "name"], Refused),
    ("traffic", "--by", &["SOURCE", "--by", "source-ip"], Refused),
    ("traffic", "--by", &["SOURCE", "--by", "agent-version"], Refused),
    ("traffic", "--by", &["SOURCE", "--by", "stage"], Refused),
    ("traffic", "--by", &["SOURCE", "--by", "node"], Refused),
    ("traffic", "--by", &["SOURCE", "--by", "flow_schema"], Refused),
    ("traffic", "--where", &["SOURCE", "--by", "verb", "--where", "resource=pods"], PEAK),
    ("traffic", "--where", &["SOURCE", "--by", "verb", "--where", "name=a"], Refused),
    ("traffic", "--from", &["SOURCE", "--from", "audit", "--by", "verb"], PEAK),
    ("traffic", "--health", &[], Aside),
    (
        "traffic",
        "--since",
        &["SOURCE", "--since", "SINCE", "--by", "verb"],
        But(&["peak_rps", "open", "requests", "rps", "share"]),
    ),
    (
        "traffic",
        "--until",
        &["SOURCE", "--until", "UNTIL", "--by", "verb"],
        But(&["peak_rps", "open", "requests", "rps", "share"]),
    ),
    ("traffic", "--follow", &["SOURCE", "--follow", "--for", "1s"], Refused),
    ("traffic", "--every", &[], Aside),
    ("traffic", "--for", &[], Aside),
    ("traffic", "--series", &["SOURCE", "--series", "--interval", "30s"], PEAK),
    ("traffic", "--interval", &["SOURCE", "--series", "--interval", "15s"], Refused),
    ("traffic", "--baseline", &["SOURCE", "--baseline", "SOURCE", "--by", "verb"], PEAK),
    ("traffic", "--k8s-version", &["SOURCE", "--k8s-version", "v1.30", "--by", "list-kind"], PEAK),
    ("traffic", "--flow-schemas", &[], Aside),
    ("clients", "", &["SOURCE"], Same),
    ("clients", "--where", &["SOURCE", "--where", "agent!=kubectl"], Same),
    ("clients", "--where", &["SOURCE", "--where", "resource=pods"], Refused),
    ("clients", "--seats", &[], Aside),
    ("clients", "--objects", &[], Aside),
    ("clients", "--since", &["SOURCE", "--since", "SINCE"], But(&[])),
    ("clients", "--until", &["SOURCE", "--until", "UNTIL"], But(&[])),
    ("clients", "--k8s-version", &["SOURCE", "--k8s-version", "v1.30"], Same),
    ("clients", "--emit", &["SOURCE", "--emit", "fence", "--client", "CLIENT"], Refused),
    ("clients", "--emit", &["SOURCE", "--emit", "flowschema", "--client", "CLIENT"], Refused),
    ("clients", "--client", &[], Aside),
    ("clients", "--shares", &[], Aside),
    ("clients", "--force", &[], Aside),
    ("clients", "--server-seats", &[], Aside),
    ("clients", "--ramp", &[], Aside),
    ("clients", "--gateway", &[], Aside),
    ("clients", "--flow-schemas", &[], Aside),
    ("balance", "", &["SOURCE"], Same),
    ("balance", "--where", &["SOURCE", "--where", "user=~^system:"], Same),
    ("balance", "--where", &["SOURCE", "--where", "source-ip=10.0.0.1"], Refused),
    ("balance", "--within", &["SOURCE", "--within", "1m"], Same),
    ("balance", "--since", &["SOURCE", "--since", "SINCE"], But(&[])),
    ("balance", "--until", &["SOURCE", "--until", "UNTIL"], But(&[])),
    ("compare", "", &["SOURCE", "SOURCE"], Same),
    ("compare", "--at", &["SOURCE", "--at", "SINCE"], But(&[])),
    ("compare", "--before", &["SOURCE", "--before", "SINCE..UNTIL", "--after", "UNTIL..END"], But(&[])),
    ("compare", "--after", &["SOURCE", "--before", "SINCE..UNTIL", "--after", "UNTIL..END"], But(&[])),
    // Two of the samples have no episode; of the third guard_episodes.rs asks for it.
    ("compare", "--episode", &[], Aside),
    ("compare", "--where", &["SOURCE", "SOURCE", "--where", "agent!=kubectl"], Same),
    ("compare", "--where", &["SOURCE", "SOURCE", "--where", "namespace=web"], Refused),
    ("compare", "--at-least", &["SOURCE", "SOURCE", "--at-least", "10%"], Same),
    ("compare", "--fail-on-increase", &["SOURCE", "SOURCE", "--fail-on-increase", "rps=10%"], Same),
    ("controllers", "", &["SOURCE"], Same),
    ("controllers", "--since", &["SOURCE", "--since", "SINCE"], Same),
    ("controllers", "--until", &["SOURCE", "--until", "UNTIL"], Same),
    // Which capture of pods is shown; logs end there as by --until.
    ("controllers", "--at", &[], Aside),
    ("guard events", "", &["SOURCE"], Same),
    ("guard events", "--since", &["SOURCE", "--since", "SINCE"], Same),
    ("guard events", "--until", &["SOURCE", "--until", "UNTIL"], Same),
    ("guard events", "--where", &["SOURCE", "--where", "verb=delete"], Same),
    ("guard events", "--where", &["SOURCE", "--where", "namespace=~^k", "--where", "agent=kubectl"], Same),
    ("guard events", "--where", &["SOURCE", "--where", "name=a"], Refused),
    ("guard events", "--where", &["SOURCE", "--where", "code=403"], Refused),
    ("guard events", "--where", &["SOURCE", "--where", "source-ip=10.0.0.1"], Refused),
    ("guard events", "--kind", &["SOURCE", "--kind", "drain,exec,forbidden"], Same),
    ("guard events", "--severity", &["SOURCE", "--severity", "critical"], Same),
    ("guard events", "--window", &["SOURCE", "--window", "5s"], Same),
    ("guard events", "--owner-key", &["SOURCE", "--owner-key", "team"], Same),
    ("guard events", "--before", &[], Aside),
    ("guard events", "--after", &[], Aside),
    ("guard events", "--follow", &["SOURCE", "--follow", "--for", "1s"], Refused),
    ("guard events", "--for", &[], Aside),
    ("guard events", "--alerts", &[], Aside),
    ("guard events", "--owner", &[], Aside),
    ("guard events", "--state", &[], Aside),
    ("guard events", "--give-up", &[], Aside),
    ("guard policies", "", &["SOURCE"], Refused),
    ("guard policies", "--since", &["SOURCE", "--since", "SINCE"], Refused),
    ("guard policies", "--until", &["SOURCE", "--until", "UNTIL"], Refused),
    ("guard policies", "--before", &[], Aside),
    ("guard policies", "--only", &["SOURCE", "--only", "roots"], Refused),
    ("guard policies", "--audit-only", &["SOURCE", "--audit-only"], Refused),
    ("guard policies", "--critical", &["SOURCE", "--critical", "a"], Refused),
    ("guard policies", "--confirm-name", &["SOURCE", "--confirm-name", "a"], Refused),
    ("guard policies", "--confirm-replicas", &["SOURCE", "--confirm-replicas", "a"], Refused),
    ("guard policies", "--node-may-delete", &["SOURCE", "--node-may-delete", "a"], Refused),
    ("guard policies", "--exempt", &["SOURCE", "--exempt", "a"], Refused),
    ("guard policies", "--params", &[], Aside),
    ("guard policies", "--opens", &[], Aside),
    ("guard policies", "--closes", &[], Aside),
    ("guard policies", "--time-zone", &[], Aside),
    ("guard policies", "--image", &[], Aside),
    ("guard webhooks", "", &["SOURCE", "HOOKS"], Refused),
    ("guard webhooks", "--since", &["SOURCE", "HOOKS", "--since", "SINCE"], Refused),
    ("guard webhooks", "--until", &["SOURCE", "HOOKS", "--until", "UNTIL"], Refused),
    ("quota propose", "--api", &["SOURCE", "--api"], Refused),
    ("rollup", "", &["SOURCE", "--to", "TO"], But(&["bytes", "read_bytes"])),
    ("rollup", "--to", &[], Aside),
    ("report", "--from", &[], Aside),
];

/// Flags that every command has, and those that say where other things than audit logs are.
const COMMON: &[&str] = &[
    "--output",
    "--no-headers",
    "--sort-by",
    "--top",
    "--color",
    "--progress",
    "--fail-on",
    "--config",
    "--threads",
    "--dedupe",
    "--quiet",
    "--verbose",
    "--cache",
    "--cache-from",
    "--engine",
    "--engine-program",
    "--cache-size",
    "--no-cache",
    "--help",
    "--version",
    "--kubeconfig",
    "--context",
    "--as",
    "--as-group",
];

/// The flags of a command, as its help lists them.
fn flags(command: &str) -> BTreeSet<String> {
    let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
    let help = plimsoll(&words).stdout;
    let flag = |line: &str| {
        let line = line.trim_start();
        let line = if line.starts_with('-') && !line.starts_with("--") { line.get(4..)? } else { line };
        let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(line.len());
        (line.starts_with("--") && end > 2).then(|| line[..end].to_owned())
    };
    // Help texts that begin a line with a flag are indented further.
    let at = help.lines().filter(|line| line.starts_with("      --") || line.starts_with("  -")).filter_map(flag);
    at.filter(|flag| !COMMON.contains(&flag.as_str()) && flag != "--request-timeout").collect()
}

#[test]
fn each_flag_is_on_the_list_and_the_document_has_each_command() {
    let text = std::fs::read_to_string(root().join("docs/rollup.md")).unwrap();
    let section = text.split("## 6. As files").nth(1).unwrap().split("## 7.").next().unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 10);
    for command in
        ["traffic", "clients", "balance", "compare", "controllers", "guard events", "guard policies", "guard webhooks"]
    {
        let listed: BTreeSet<String> = LIST
            .iter()
            .filter(|(own, flag, ..)| *own == command && !flag.is_empty())
            .map(|(_, flag, ..)| (*flag).to_owned())
            .collect();
        assert_eq!(listed, flags(command), "{command}: the flags listed here, and those of its help");
        assert!(LIST.iter().any(|(own, flag, ..)| *own == command && flag.is_empty()), "{command}");
    }
    for (command, flag, _, answer) in LIST.iter().filter(|(.., answer)| *answer != Aside) {
        let names = |row: &&&str| row.contains(&format!("`{command}")) || row.contains(&format!("`{flag}`"));
        let mut of: Vec<&&str> = rows.iter().filter(|row| names(row)).collect();
        assert!(!of.is_empty() || *command == "rollup", "{command} {flag} is in no row of section 6");
        of.retain(|row| row.contains("refused"));
        assert!(
            *answer != Refused || !of.is_empty() || ["--where", "--interval", "--by"].contains(flag),
            "{command} {flag}: section 6 does not say that it is refused"
        );
    }
}

/// What a command says of a source; `TO` is a folder of its own.
fn asked(command: &str, words: &[&str], source: &str, values: &[String; 4]) -> Ran {
    let [since, until, end, client] = values;
    let home = tempfile::tempdir().unwrap();
    let to = home.path().join("to").to_str().unwrap().to_owned();
    let hooks = home.path().join("hooks.json");
    std::fs::write(&hooks, r#"{"kind":"ValidatingWebhookConfigurationList","apiVersion":"admissionregistration.k8s.io/v1","items":[{"kind":"ValidatingWebhookConfiguration","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"a"},"webhooks":[]}]}"#).unwrap();
    let replaced = words.iter().map(|word| match *word {
        "SOURCE" => source.to_owned(),
        "TO" => to.clone(),
        "CLIENT" => client.clone(),
        "HOOKS" => hooks.to_str().unwrap().to_owned(),
        word => word.replace("SINCE", since).replace("UNTIL", until).replace("END", end),
    });
    let all: Vec<String> =
        command.split(' ').map(str::to_owned).chain(replaced).chain(["-o".into(), "json".into()]).collect();
    plimsoll(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Removes fields wherever they are.
fn without(reported: &mut Value, fields: &[&str]) {
    match reported {
        Value::Object(all) => {
            all.retain(|name, _| !fields.contains(&name.as_str()));
            all.values_mut().for_each(|value| without(value, fields));
        }
        Value::Array(all) => all.iter_mut().for_each(|value| without(value, fields)),
        _ => {}
    }
}

/// Whether counts are the same but for what began before the window: a tenth, or a few.
fn is_near(a: &Value, b: &Value) -> bool {
    let counts = |totals: &Value| -> Vec<(String, u64)> {
        let all = totals.as_object().into_iter().flatten();
        all.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect()
    };
    let (a, b) = (counts(a), counts(b));
    a.len() == b.len()
        && a.iter().zip(&b).all(|((name, a), (other, b))| name == other && a.abs_diff(*b) <= 5 + a.max(b) / 10)
}

#[test]
fn each_command_and_flag_answers_as_the_list_says() {
    let mut faults = Vec::new();
    for name in ["quiet", "drain", "overload-restart"] {
        let (_home, log, roll) = log_and_roll_up(name);
        let manifest: Value =
            serde_json::from_slice(&std::fs::read(Path::new(&roll).join("manifest.json")).unwrap()).unwrap();
        let [first, last] = ["first", "last"].map(|name| manifest[name].as_i64().unwrap());
        let edge = |at: i64| plimsoll::model::time::format(at.div_euclid(10_000_000) * 10_000_000);
        let times = [edge(first + (last - first) / 3), edge(first + (last - first) / 3 * 2), edge(last + 10_000_000)];
        let [since, until, end] = times;
        let client = if name == "drain" { "kubectl" } else { "bob@example.com" };
        let values = [since, until, end, client.to_owned()];
        for (command, flag, words, answer) in LIST.iter().filter(|(.., answer)| *answer != Aside) {
            let of_roll = asked(command, words, &roll, &values);
            of_roll.did_not_panic();
            let line = format!("{name}: {command} {flag} {words:?}");
            if *answer == Refused {
                let names_log = ["log itself", "can't be followed", "use a multiple"];
                let is_refused = names_log.iter().any(|words| of_roll.stderr.contains(words));
                // Following is refused as an input is.
                let code = if *flag == "--follow" { 3 } else { 2 };
                if !is_refused || of_roll.code != Some(code) {
                    faults.push(format!("{line}: {:?} {}", of_roll.code, of_roll.stderr));
                }
                continue;
            }
            let of_log = asked(command, words, &log, &values);
            if of_roll.code != of_log.code || !matches!(of_log.code, Some(0 | 1)) {
                faults
                    .push(format!("{line}: {:?} {} {:?} {}", of_roll.code, of_roll.stderr, of_log.code, of_log.stderr));
                continue;
            }
            let [mut of_roll, mut of_log] =
                [of_roll, of_log].map(|ran| serde_json::from_str::<Value>(&ran.stdout).unwrap());
            for reported in [&mut of_roll, &mut of_log] {
                without(reported, &["inputs", "generated_at", "source", "late_events"]);
                if let But(fields) = answer {
                    without(reported, fields);
                }
            }
            // Of a window the log knows what began in it alone; what is left is approximate.
            let is_window =
                *answer == But(&[]) || words.iter().any(|word| word.contains("SINCE") || word.contains("UNTIL"));
            if is_window && matches!(answer, But(_)) {
                if of_roll["schema"] != of_log["schema"] || !is_near(&of_roll["totals"], &of_log["totals"]) {
                    faults.push(format!("{line}: {} {}", of_roll["totals"], of_log["totals"]));
                }
            } else if of_roll != of_log {
                let differs = of_log.as_object().unwrap().iter().filter(|(name, value)| of_roll[*name] != **value);
                let differs: Vec<String> = differs
                    .map(|(name, value)| {
                        format!("{name}: {:.300} {:.300}", of_roll[name].to_string(), value.to_string())
                    })
                    .collect();
                faults.push(format!("{line}: {}", differs.join("; ")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
