//! Which layer may import which, and how large a file may be (docs/architecture.md): read from the source text itself.

use crate::support::root;
use std::path::{Path, PathBuf};

/// What the files of a folder of `src/` may import of the crate. Any layer may import itself.
const RULES: [(&str, &[&str]); 10] = [
    ("bin", &[]),
    ("model", &[]),
    ("sources", &["model"]),
    ("analysis", &["model"]),
    ("views", &["model"]),
    ("cli", &["model", "views", "sources::audit::pass::Watcher"]),
    ("app", &["model", "cli", "commands"]),
    ("actions", &["model", "sources"]),
    ("inputs", &["model", "sources", "analysis", "views::text", "cli", "actions"]),
    ("commands", &["model", "sources", "analysis", "views", "cli", "actions", "inputs"]),
];

/// Lines that a file may have.
const LONGEST: usize = 600;

/// The source text without comments, and with what stands in strings and characters blanked out.
fn code(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 2)
        } else if let Some(length) =
            ["'\"'", "'\\\"'", "b'\"'", "'/'"].iter().find(|quote| rest.starts_with(**quote)).map(|q| q.len())
        {
            length
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(rest[..skip].chars().filter(|c| *c == '\n'));
        out.push(' ');
        rest = &rest[skip..];
    }
    out
}

/// The length of the raw string at the start of `text`.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let count = hashes.bytes().take_while(|b| *b == b'#').count();
    let start = text.len() - hashes.len() + count;
    let close = format!("\"{}", "#".repeat(count));
    text[start..]
        .strip_prefix('"')
        .map(|inner| inner.find(&close).map_or(text.len(), |end| start + 1 + end + close.len()))
}

/// Every path below `crate::` that the text imports or names; `{…}` groups are taken apart.
fn imports(text: &str) -> Vec<String> {
    let packed: String =
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ::", "::").replace(":: ", "::");
    let mut found = Vec::new();
    for (at, _) in packed.match_indices("crate::") {
        let own_word = !packed[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
        if own_word {
            expand("", &packed[at + "crate::".len()..], &mut found);
        }
    }
    found
}

/// Adds the paths of a use tree behind `prefix`; returns what follows it.
fn expand<'t>(prefix: &str, tree: &'t str, found: &mut Vec<String>) -> &'t str {
    let tree = tree.trim_start();
    if let Some(mut rest) = tree.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches([' ', ',']);
            match rest.strip_prefix('}') {
                Some(after) => return after,
                None if rest.is_empty() => return rest,
                None => rest = expand(prefix, rest, found),
            }
        }
    }
    let end = tree.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '*')).unwrap_or(tree.len());
    if end == 0 {
        found.push(prefix.trim_end_matches("::").to_owned());
        return tree.get(1..).unwrap_or_default(); // never stand still
    }
    let path = format!("{prefix}{}", &tree[..end]);
    match tree[end..].strip_prefix("::") {
        Some(rest) => expand(&format!("{path}::"), rest, found),
        None => {
            found.push(path);
            let rest = tree[end..].trim_start();
            rest.strip_prefix("as ")
                .map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'))
        }
    }
}

/// What is wrong with a file of the crate; `path` is relative to `src/`.
fn faults(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if lines > LONGEST {
        faults.push(format!("{path} has {lines} lines, more than {LONGEST}"));
    }
    let code = code(text);
    let words = code.replace(|c: char| c.is_whitespace(), " ");
    for name in ["mod utils", "mod util", "mod helpers"] {
        if words.contains(&format!("{name};")) || words.contains(&format!("{name} {{")) {
            faults.push(format!("{path} has a '{name}': name the module after what it does"));
        }
    }
    if path != "main.rs" {
        for print in ["println!", "print!"] {
            for (at, _) in code.match_indices(print) {
                // `eprintln!` ends in `println!` too; one message is enough.
                let whole = code[..at].rfind(|c: char| !c.is_alphanumeric()).map_or(0, |start| start + 1);
                faults.push(format!(
                    "{path} calls {}{print}: only a view writes, to the writer it is given",
                    &code[whole..at]
                ));
            }
        }
    }
    let layer = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    match RULES.iter().find(|(name, _)| *name == layer) {
        Some((_, allowed)) => {
            for import in imports(&code) {
                let may = |to: &str| import == to || import.strip_prefix(to).is_some_and(|rest| rest.starts_with("::"));
                if !may(layer) && !allowed.iter().any(|to| may(to)) {
                    faults.push(format!("{path} imports crate::{import}; {layer} may import {allowed:?}"));
                }
            }
        }
        None if path.contains('/') => {
            faults.push(format!("{path} is in a layer without a rule; add one here and to docs/architecture.md"))
        }
        None => {}
    }
    faults
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn layers_import_only_what_they_may() {
    let src = root().join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 30, "found only {} files", files.len());
    let mut all = Vec::new();
    let mut seen = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        seen += imports(&code(&text)).len();
        all.extend(faults(&file.strip_prefix(&src).unwrap().display().to_string(), &text));
    }
    assert!(seen > 50, "the scan sees only {seen} imports");
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn the_scan_can_fail() {
    for (path, text) in [
        ("model/a.rs", "use crate::sources::open;"),
        ("model/a.rs", "use crate::{model::time, analysis::dims};"),
        ("sources/a/b.rs", "fn f() { crate::analysis::dims::code_class(None); }"),
        ("sources/a.rs", "use crate::{\n    model::{event::Event, time},\n    views::text,\n};"),
        ("sources/a.rs", "pub use crate :: views :: text as t;"),
        ("analysis/a.rs", "use crate::sources;"),
        ("analysis.rs", "use crate::cli::Io;"),
        ("views/a.rs", "use crate::analysis::traffic::report;"),
        ("cli/a.rs", "use crate::sources::audit::pass::run;"),
        ("cli/a.rs", "use crate::sources::audit::pass::{Watcher, run};"),
        ("cli/a.rs", "use crate::analysis::dims::Dim;"),
        ("cli/a.rs", "use crate::inputs::logs;"),
        ("commands/a.rs", "use crate::app::Cli;"),
        ("inputs/a.rs", "use crate::commands::traffic;"),
        ("actions/a.rs", "use crate::analysis::dims::Dim;"),
        ("sources/a.rs", "use crate::actions::replace;"),
        ("model/a.rs", "const C: char = '\"'; use crate::views; const D: char = '\"';"),
        ("model/a.rs", "const R: &str = r#\"a\"b\"#; use crate::views;"),
        ("model/a.rs", "fn f() { println!(\"x\"); }"),
        ("views/a.rs", "fn f() { eprintln!(\"x\"); }"),
        ("views/a.rs", "fn f() { print!(\"x\"); }"),
        ("model/mod.rs", "pub mod utils;"),
        ("model/mod.rs", "mod utils { }"),
        ("utils/a.rs", ""),
        ("model/a.rs", &"\n".repeat(601)),
    ] {
        assert_eq!(faults(path, text).len(), 1, "{path}: {text:?} gives {:?}", faults(path, text));
    }
    for (path, text) in [
        ("model/a.rs", "use crate::model::time; // use crate::views;"),
        ("model/a.rs", "/* use crate::views; */ const T: &str = \"use crate::views; println!\";"),
        ("sources/a.rs", "use crate::{model::time, sources::{open, split}};"),
        ("cli/a.rs", "use crate::sources::watcher::Watcher;"),
        ("commands/a.rs", "use crate::analysis::x; use crate::sources::y;"),
        ("main.rs", "fn main() { eprintln!(\"x\"); }"),
        ("model/a.rs", &"\n".repeat(600)),
    ] {
        assert!(faults(path, text).is_empty(), "{path}: {text:?} gives {:?}", faults(path, text));
    }
}
