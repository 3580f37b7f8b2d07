//! The documents: links lead somewhere, commands are those of the program, and the tutorial shows what it prints.

use crate::support::{folder, hermetic, none, plimsoll, root};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn documents() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)).to_vec();
    for pattern in
        ["docs/*.md", "docs/commands/*.md", "docs/runbooks/*.md", "samples/*.md", "samples/*/*.md", "dashboards/*.md"]
    {
        all.extend(glob::glob(root().join(pattern).to_str().unwrap()).unwrap().map(Result::unwrap));
    }
    assert!(all.len() > 100, "{}", all.len());
    all
}

/// The lines of a document, and whether each is within a block of code; with the block's language.
fn lines(text: &str) -> Vec<(Option<String>, &str)> {
    let mut language: Option<String> = None;
    let mut all = Vec::new();
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), &language) {
            (Some(name), None) => language = Some(name.trim().to_owned()),
            (Some(_), Some(_)) => language = None,
            (None, _) => all.push((language.clone(), line)),
        }
    }
    all
}

/// What links may lead to in a document: its headings, as GitHub names them, and its anchors.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for (language, line) in lines(text) {
        if language.is_none() && line.starts_with('#') {
            let words = line.trim_start_matches('#').trim().to_lowercase().replace(['`', '*'], "");
            let kept: String = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ')).collect();
            let name = kept.replace(' ', "-");
            let number = met.entry(name.clone()).or_default();
            all.insert(if *number == 0 { name } else { format!("{name}-{number}") });
            *number += 1;
        }
        all.extend(line.split("<a id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    all
}

/// The targets of links of a line, without what is code.
fn links(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let found = prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
    found.collect()
}

#[test]
fn links_lead_somewhere() {
    let mut texts: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    let (mut count, mut broken) = (0, Vec::new());
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for (_, line) in lines(&text).into_iter().filter(|(language, _)| language.is_none()) {
            for link in links(line).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
                count += 1;
                let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
                let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
                let is_there = target.exists()
                    && (anchor.is_empty() || {
                        let text = || anchors(&fs::read_to_string(&target).unwrap());
                        texts.entry(target.clone()).or_insert_with(text).contains(anchor)
                    });
                if !is_there {
                    broken.push(format!("{}: {link}", path.strip_prefix(root()).unwrap().display()));
                }
            }
        }
    }
    assert!(count > 300, "{count}");
    assert!(broken.is_empty(), "{} of {count}:\n{}", broken.len(), broken.join("\n"));
}

/// The words of a command of plimsoll in a line of shell; `None` where the line has none.
fn words(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ");
    let line = line.strip_prefix("kubectl plimsoll ").or_else(|| line.strip_prefix("plimsoll "))?;
    let (mut all, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            // $(command) stands for one word.
            (None, '(') if word.ends_with('$') => {
                word.push(c);
                quote = Some(')');
            }
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, is_word) = (Some(c), true),
            (None, '|' | '>' | ';' | '&' | '<') => break,
            (None, '#') if !is_word => break,
            (None, ' ') => {
                if is_word {
                    all.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (None, c) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    all.extend(is_word.then_some(word));
    Some(all)
}

#[test]
fn commands_are_those_of_the_program() {
    let mut commands: BTreeMap<Vec<String>, String> = BTreeMap::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("\\\n", " ");
        for (language, line) in lines(&text) {
            let is_shell = language.as_deref().is_some_and(|name| ["sh", "console", "bash", "text"].contains(&name));
            let Some(words) = is_shell.then(|| words(line)).flatten() else { continue };
            // A synopsis, and a line that begins with the name and goes on as prose.
            let is_form = words.iter().any(|word| word.contains(['[', '…', '⟨']) || word == "...");
            if !is_form && words.first().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_lowercase())) {
                commands
                    .entry(words)
                    .or_insert_with(|| format!("{}: {line}", path.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(commands.len() > 200, "{}", commands.len());
    // Words are read from left to right: what is wrong before --help is said in its place.
    let mut wrong = Vec::new();
    for (words, place) in &commands {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let ran = plimsoll(&words);
        if ran.code != Some(0) {
            wrong.push(format!("{place}\n    {}", ran.stderr.lines().next().unwrap_or_default()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), commands.len(), wrong.join("\n"));
}

/// Commands of documents that read samples run to their end, without a fault in an input: exit code 0, or 1 for
/// findings.
#[test]
fn commands_on_samples_run() {
    // What does not end, needs a terminal, or shows how to read what an earlier command wrote.
    const LIVE: [&str; 8] = ["tui", "serve", "--follow", "watch", "--every", "--daemon", "--seats", "--yes"];
    let mut commands: BTreeMap<Vec<String>, String> = BTreeMap::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap().replace("\\\n", " ");
        for (language, line) in lines(&text) {
            let is_shell = language.as_deref().is_some_and(|name| ["sh", "bash"].contains(&name));
            let Some(words) = is_shell.then(|| words(line)).flatten() else { continue };
            let reads = |word: &String| word.split(['=', ',']).any(|part| part.starts_with("samples/"));
            let is_live = words.iter().any(|word| LIVE.contains(&word.as_str()));
            let is_form = words.iter().any(|word| word.contains(['[', '…', '⟨', '$']) || word == "...");
            if words.iter().any(reads) && !is_live && !is_form {
                commands.entry(words).or_insert_with(|| path.strip_prefix(root()).unwrap().display().to_string());
            }
        }
    }
    assert!(commands.len() > 35, "{}", commands.len());
    let folder = folder();
    #[cfg(unix)]
    std::os::unix::fs::symlink(root().join("samples"), folder.path().join("samples")).unwrap();
    let all: Vec<(&Vec<String>, &String)> = commands.iter().collect();
    let run = |part: &[(&Vec<String>, &String)]| {
        let mut faults = Vec::new();
        for (words, place) in part {
            let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), folder.path());
            let ran = command.args(*words).current_dir(folder.path()).output().unwrap();
            if !matches!(ran.status.code(), Some(0 | 1)) {
                let message = String::from_utf8_lossy(&ran.stderr);
                faults.push(format!("{place}: plimsoll {}: {:?} {message}", words.join(" "), ran.status.code()));
            }
        }
        faults
    };
    let faults: Vec<String> = std::thread::scope(|scope| {
        let run = &run;
        let parts = all.chunks(all.len().div_ceil(4)).map(|part| scope.spawn(move || run(part)));
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    none(&faults);
}

/// Blocks of a document that show a command and what it prints; `...` stands for any lines.
fn shown(path: &Path) -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(path).unwrap();
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for (_, line) in lines(&text).into_iter().filter(|(language, _)| language.as_deref() == Some("console")) {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.to_owned(), Vec::new())),
            (None, Some((_, output))) => output.push(line.to_owned()),
            (None, None) => panic!("{line}"),
        }
    }
    all
}

/// What a command prints in a terminal of this width, from the repository's root; blank lines are not counted.
fn printed(command: &str, columns: &str) -> Vec<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_plimsoll")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let home = folder();
    let mut shell = hermetic(Command::new("sh"), home.path());
    shell.args(["-c", command]).current_dir(root()).env("COLUMNS", columns).env("PATH", path);
    shell.env("TMPDIR", home.path());
    let ran = shell.output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap();
    text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// What `expected` has that was not printed, or the other way round; a line `...` stands for any lines.
fn differs(expected: &[String], printed: &[String]) -> Option<String> {
    let (mut rest, mut is_cut) = (printed, false);
    for line in expected.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()) {
        if line == "..." {
            is_cut = true;
            continue;
        }
        let Some(at) = rest.iter().position(|own| own == line).filter(|at| is_cut || *at == 0) else {
            return Some(format!("does not print\n{line}\nbut\n{}", rest[..rest.len().min(12)].join("\n")));
        };
        rest = &rest[at + 1..];
        is_cut = false;
    }
    (!is_cut && !rest.is_empty()).then(|| format!("prints more:\n{}", rest.join("\n")))
}

/// Documents show what the program prints in 100 columns, the README in 120.
#[test]
fn documents_show_what_the_program_prints() {
    let (mut compared, mut faults) = (0, Vec::new());
    for path in documents() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let columns = if name == "README.md" { "120" } else { "100" };
        for (command, expected) in shown(&path) {
            if expected.is_empty() || !command.starts_with("plimsoll ") {
                continue;
            }
            compared += 1;
            if let Some(what) = differs(&expected, &printed(&command, columns)) {
                faults.push(format!("{name}: $ {command}\n{what}"));
            }
        }
    }
    assert!(compared > 30, "{compared}");
    none(&faults);
    // The check can fail.
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(differs(&lines("a\n...\nc"), &lines("a\nb\nc")), None);
    for (expected, printed) in [("a", "a\nb"), ("a\nb", "a"), ("b", "a\nb"), ("...\nd", "a")] {
        assert!(differs(&lines(expected), &lines(printed)).is_some(), "{expected:?}");
    }
}

/// The long flags in a help text.
fn flags(help: &str) -> BTreeSet<String> {
    let flag = Regex::new(r"(?m)^ {2,6}(?:-\w, )?--([a-z][a-z0-9-]*)").unwrap();
    // Behind the examples, whose lines may begin with a flag.
    let help = help.split_once("\nUsage:").map_or(help, |(_, flags)| flags);
    flag.captures_iter(help).map(|found| found[1].to_owned()).collect()
}

/// The commands that a help text lists, `help` aside.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let name = Regex::new(r"^  ([a-z]+)\s").unwrap();
    let own = list.lines().take_while(|line| line.is_empty() || line.starts_with("  "));
    own.filter_map(|line| Some(name.captures(line)?[1].to_owned())).filter(|name| name != "help").collect()
}

/// One page per command: it exists, shows real output, names every flag and none that is not there.
#[test]
fn each_command_has_a_page_with_its_flags() {
    // No output without a cluster, a terminal, or an end.
    const WITHOUT_OUTPUT: [&str; 3] = ["collect", "serve", "tui"];
    let mut shared = flags(&plimsoll(&["help", "options"]).stdout);
    shared.extend(["help", "version"].map(str::to_owned));
    let page = |name: &str| fs::read_to_string(root().join("docs").join(name));
    let live = flags_of_tables(&page("commands/index.md").unwrap());
    let prometheus = flags_of_tables(&page("prometheus.md").unwrap());
    let (mut commands, mut faults) = (0, Vec::new());
    let listed = Regex::new(r"(?m)^  ([a-z]+)  +[A-Z]").unwrap();
    let help = plimsoll(&["--help"]).stdout;
    let names = listed.captures_iter(&help).map(|found| found[1].to_owned());
    for command in names.chain(["completions", "man"].map(str::to_owned)) {
        let command = command.as_str();
        let file =
            if command == "man" { "commands/completions.md".to_owned() } else { format!("commands/{command}.md") };
        let Ok(text) = page(&file) else {
            faults.push(format!("docs/{file} is missing"));
            continue;
        };
        commands += 1;
        let help = plimsoll(&[command, "--help"]).stdout;
        let mut own = flags(&help);
        for sub in subcommands(&help) {
            own.extend(flags(&plimsoll(&[command, &sub, "--help"]).stdout));
        }
        let other = |flag: &String| {
            live.contains(flag) && text.contains("index.md#")
                || prometheus.contains(flag) && text.contains("prometheus.md")
        };
        let is_named = |flag: &str| Regex::new(&format!(r"--{flag}\b")).unwrap().is_match(&text);
        for flag in own.iter().filter(|flag| !shared.contains(*flag) && !is_named(flag) && !other(flag)) {
            faults.push(format!("docs/{file} does not name --{flag}"));
        }
        for flag in flags_of_tables(&text).difference(&own).filter(|flag| !shared.contains(*flag)) {
            faults.push(format!("docs/{file}: plimsoll {command} has no --{flag}"));
        }
        if !text.contains("```console\n$ plimsoll ") && !WITHOUT_OUTPUT.contains(&command) {
            faults.push(format!("docs/{file} shows no output"));
        }
        for (list, place) in [("README.md", "](docs/"), ("docs/commands/index.md", "](")] {
            let link =
                format!("{place}{}", if list == "README.md" { &file } else { file.trim_start_matches("commands/") });
            if !fs::read_to_string(root().join(list)).unwrap().contains(&link)
                && !["completions", "man"].contains(&command)
            {
                faults.push(format!("{list} does not link docs/{file}"));
            }
        }
    }
    assert!(commands > 15, "{commands}");
    none(&faults);
}

/// The flags in the first columns of a page's tables of flags.
fn flags_of_tables(page: &str) -> BTreeSet<String> {
    let flag = Regex::new(r"`--([a-z][a-z0-9-]*)").unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `-"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    cells.flat_map(|cell| flag.captures_iter(cell).map(|found| found[1].to_owned()).collect::<Vec<_>>()).collect()
}

/// The list of pages of the site names each document once, and nothing else.
#[test]
fn the_site_has_every_page() {
    let text = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: Vec<String> = text.lines().flat_map(links).collect();
    let mut pages: BTreeSet<String> = BTreeSet::new();
    for pattern in ["docs/*.md", "docs/commands/*.md", "docs/runbooks/*.md", "docs/runbooks/alerts/*.md"] {
        for path in glob::glob(root().join(pattern).to_str().unwrap()).unwrap().map(Result::unwrap) {
            pages.insert(path.strip_prefix(root().join("docs")).unwrap().display().to_string());
        }
    }
    pages.remove("SUMMARY.md");
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), pages);
    assert_eq!(listed.len(), pages.len(), "a page is listed twice");
}

/// docs/columns.md, as the program's own list of columns makes it.
fn columns_page() -> String {
    let mut page = "# Columns

Headings of tables, and the fields of JSON, YAML and CSV behind them. `plimsoll explain` knows each by both names.
A share of 1 is 100 %. Fields that are not listed are dimensions, such as `verb`, `resource`, `namespace` and `user`,
or are explained on the command's page.
"
    .to_owned();
    for (title, columns) in plimsoll::model::columns::families() {
        page += &format!("\n## {title}\n\n| heading | field | unit | meaning |\n|---|---|---|---|\n");
        for column in columns {
            let wide = if column.wide { " (`-o wide`)" } else { "" };
            let meaning = column.meaning.replace('|', "\\|");
            page += &format!("| {}{wide} | `{}` | {} | {meaning} |\n", column.title, column.name, column.kind.unit());
        }
    }
    page
}

#[test]
fn the_page_of_columns_is_that_of_the_program() {
    let path = root().join("docs/columns.md");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always") {
        fs::write(&path, columns_page()).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == columns_page(),
        "docs/columns.md is old: INSTA_UPDATE=always cargo test docs::the_page_of writes it"
    );
}
