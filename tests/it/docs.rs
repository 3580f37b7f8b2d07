//! The documents: links lead somewhere, commands are those of the program, and the tutorial shows what it prints.

use crate::support::{folder, hermetic, plimsoll, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn documents() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)).to_vec();
    for pattern in ["docs/*.md", "docs/runbooks/*.md", "samples/*.md", "samples/*/*.md", "dashboards/*.md"] {
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

#[test]
fn the_tutorial_shows_what_the_program_prints() {
    let mut compared = 0;
    for (command, expected) in shown(&root().join("docs/tutorial.md")) {
        if expected.is_empty() || !command.starts_with("plimsoll ") {
            continue;
        }
        let binary = Path::new(env!("CARGO_BIN_EXE_plimsoll")).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
        let home = folder();
        let mut shell = hermetic(Command::new("sh"), home.path());
        shell.args(["-c", &command]).current_dir(root()).env("COLUMNS", "100").env("PATH", path);
        let ran = shell.output().unwrap();
        let printed = String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap();
        // Blank lines are not counted.
        let lines = printed.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let mut rest: Vec<&str> = lines.collect();
        let mut is_cut = false;
        for line in expected.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()) {
            if line == "..." {
                is_cut = true;
                continue;
            }
            let at = rest.iter().position(|own| *own == line);
            let at = at.filter(|at| is_cut || *at == 0);
            let at =
                at.unwrap_or_else(|| panic!("$ {command}\nhas no line\n{line}\n\nbut prints:\n{}", rest.join("\n")));
            rest.drain(..=at);
            is_cut = false;
            compared += 1;
        }
        assert!(is_cut || rest.is_empty(), "$ {command}\nprints more:\n{}", rest.join("\n"));
    }
    assert!(compared > 30, "{compared}");
}
