//! Which layer may import which, that no files import each other in circles, and how large a file may be
//! (docs/architecture.md): read from the source text itself.

use crate::support::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the files of a folder of `src/` may import of the crate. Any layer may import itself.
const RULES: [(&str, &[&str]); 11] = [
    ("bin", &[]),
    ("model", &[]),
    ("sources", &["model"]),
    ("analysis", &["model"]),
    ("views", &["model"]),
    ("cli", &["model", "views", "sources::watcher"]),
    ("app", &["model", "cli", "commands"]),
    ("actions", &["model", "sources"]),
    ("inputs", &["model", "sources", "analysis", "views::text", "cli", "actions"]),
    ("jobs", &["model", "sources", "analysis", "views", "cli", "actions", "inputs"]),
    ("commands", &["model", "sources", "analysis", "views", "cli", "actions", "inputs", "jobs"]),
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

/// The text with single blanks between words, and none in paths.
fn packed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ::", "::").replace(":: ", "::")
}

/// Every path below `crate::` that the text imports or names; `{…}` groups are taken apart.
fn imports(text: &str) -> Vec<String> {
    let packed = packed(text);
    let mut found = Vec::new();
    for (at, _) in packed.match_indices("crate::") {
        let own_word = !packed[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
        if own_word {
            expand("", &packed[at + "crate::".len()..], &mut found);
        }
    }
    found.into_iter().map(|(path, _)| path).collect()
}

/// Adds the paths of a use tree behind `prefix`, each with the name that it gets; returns what follows it.
fn expand<'t>(prefix: &str, tree: &'t str, found: &mut Vec<(String, String)>) -> &'t str {
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
        found.push((prefix.trim_end_matches("::").to_owned(), String::new()));
        return tree.get(1..).unwrap_or_default(); // never stand still
    }
    let path = format!("{prefix}{}", &tree[..end]);
    match tree[end..].strip_prefix("::") {
        Some(rest) => expand(&format!("{path}::"), rest, found),
        None => {
            let own = path.strip_suffix("::self").unwrap_or(&path);
            let last = own.rsplit("::").next().unwrap_or(own);
            let rest = tree[end..].trim_start();
            let Some(renamed) = rest.strip_prefix("as ") else {
                found.push((path.clone(), last.to_owned()));
                return rest;
            };
            let end = renamed.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(renamed.len());
            found.push((path.clone(), renamed[..end].to_owned()));
            &renamed[end..]
        }
    }
}

/// The source text without inline test modules.
fn without_tests(code: &str) -> String {
    // Braces as characters are no blocks.
    let code = packed(code).replace("'{'", "' '").replace("'}'", "' '");
    let mut kept = String::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find("#[cfg(test)] mod ") {
        kept.push_str(&rest[..at]);
        rest = &rest[at..];
        let begin = rest.find(['{', ';']).unwrap_or(rest.len());
        let mut depth = 0;
        let end = rest[begin..].find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        rest = end.map_or("", |end| &rest[begin + end + 1..]);
    }
    kept + rest
}

/// The module that a file below `src/` is.
fn module_of(path: &str) -> String {
    let module = path.trim_end_matches(".rs");
    module.strip_suffix("/mod").unwrap_or(module).replace('/', "::")
}

/// What a module names.
struct Named {
    /// What it imports: each name, and its path as it is written.
    imported: Vec<(String, String)>,
    /// The other paths in its text; those that functions and inline modules import are among them.
    paths: Vec<String>,
}

/// What the text of a module names, its test modules left out.
fn names_in(code: &str) -> Named {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let code = without_tests(code);
    let (mut imported, mut paths) = (Vec::new(), Vec::new());
    let (mut rest, mut others, mut depth) = (code.as_str(), String::new(), 0);
    while let Some(at) = rest.find("use ") {
        let (before, tree) = (&rest[..at], &rest[at + "use ".len()..]);
        others.push_str(before);
        others.push(' ');
        depth += before.matches('{').count() as i32 - before.matches('}').count() as i32;
        rest = tree;
        if !before.ends_with(is_word) {
            let mut found = Vec::new();
            rest = expand("", tree, &mut found);
            match depth {
                0 => imported.extend(found.into_iter().map(|(path, name)| (name, path))),
                _ => paths.extend(found.into_iter().map(|(path, _)| path)),
            }
        }
    }
    others.push_str(rest);
    let mut rest = others.as_str();
    while let Some(at) = rest.find(is_word) {
        let end = rest[at..].find(|c: char| !is_word(c) && c != ':').map_or(rest.len(), |end| at + end);
        paths.push(rest[at..end].trim_end_matches(':').to_owned());
        rest = &rest[end..];
    }
    paths.retain(|path| path.contains("::"));
    Named { imported, paths }
}

/// The crate's modules, each with what its names stand for, as paths from the root.
struct Crate(BTreeMap<String, BTreeMap<String, String>>);

impl Crate {
    /// The path from the root of a path that is written in a module; `None` for other crates and local names.
    fn absolute(&self, path: &str, module: &str) -> Option<String> {
        let join = |above: &str, rest: &str| format!("{above}::{rest}").trim_matches(':').to_owned();
        let above = |module: &str| module.rsplit_once("::").map_or("", |(above, _)| above).to_owned();
        let (first, rest) = path.split_once("::").unwrap_or((path, ""));
        match first {
            "crate" => Some(rest.to_owned()),
            "self" => Some(join(module, rest)),
            "super" => {
                let (mut above_it, mut rest) = (above(module), rest);
                while let Some(further) =
                    rest.strip_prefix("super").filter(|_| rest.split("::").next() == Some("super"))
                {
                    (above_it, rest) = (above(&above_it), further.trim_start_matches("::"));
                }
                Some(join(&above_it, rest))
            }
            name if self.0.contains_key(&join(module, name)) => Some(join(module, path)),
            name => self.0.get(module)?.get(name).map(|known| join(known, rest)),
        }
    }

    /// The file that a path from the root leads to, through what modules import for others.
    fn file_of(&self, path: &str) -> Option<String> {
        let mut path = path.trim_end_matches("::self").to_owned();
        // Imports lead on a few times; a name that stands for itself never ends.
        for _ in 0..16 {
            let mut prefix = path.as_str();
            let found = loop {
                if self.0.contains_key(prefix) {
                    return Some(prefix.to_owned());
                }
                let (above, name) = prefix.rsplit_once("::")?;
                if let Some(real) = self.0.get(above).and_then(|names| names.get(name)) {
                    break format!("{real}{}", &path[prefix.len()..]);
                }
                prefix = above;
            };
            path = found;
        }
        None
    }
}

/// Which files import which: imports, and whatever else is named by a path. What a file takes from the `mod.rs` above
/// it is left out, as a folder's files share what stands there.
fn graph(files: &[(String, String)]) -> BTreeMap<String, BTreeSet<String>> {
    let read: Vec<_> = files.iter().map(|(path, text)| (module_of(path), names_in(&code(text)))).collect();
    let mut all = Crate(read.iter().map(|(module, _)| (module.clone(), BTreeMap::new())).collect());
    // Twice: an import may begin with a name that another one gives.
    for _ in 0..2 {
        for (module, named) in &read {
            let own =
                named.imported.iter().filter_map(|(name, path)| Some((name.clone(), all.absolute(path, module)?)));
            let own: BTreeMap<String, String> = own.filter(|(name, _)| !name.is_empty() && name != "*").collect();
            all.0.insert(module.clone(), own);
        }
    }
    let edges = |(module, named): &(String, Named)| {
        let paths = named.imported.iter().map(|(_, path)| path).chain(&named.paths);
        let files = paths.filter_map(|path| all.file_of(&all.absolute(path, module)?));
        let is_other = |file: &String| file != module && !module.starts_with(&format!("{file}::"));
        (module.clone(), files.filter(is_other).collect())
    };
    read.iter().map(edges).collect()
}

/// Every file that a file imports, directly or by way of others.
fn reach<'g>(graph: &'g BTreeMap<String, BTreeSet<String>>, from: &'g String) -> BTreeSet<&'g String> {
    let mut met = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        next.extend(graph.get(file).into_iter().flatten().filter(|to| met.insert(*to)));
    }
    met
}

/// The largest sets of files that all import each other, directly or by way of others; each as its imports.
fn circles(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|file| (file, reach(graph, file))).collect();
    let circle_of = |file: &String| -> BTreeSet<&String> {
        let of = &reached[file];
        of.iter().copied().filter(|other| reached.get(other).is_some_and(|back| back.contains(file))).collect()
    };
    let all: BTreeSet<BTreeSet<&String>> = graph.keys().map(circle_of).filter(|circle| !circle.is_empty()).collect();
    let line = |circle: &BTreeSet<&String>, file: &String| {
        let to: Vec<&str> = graph[file].iter().filter(|to| circle.contains(to)).map(String::as_str).collect();
        format!("{file} imports {}", to.join(", "))
    };
    all.iter().map(|circle| circle.iter().map(|file| line(circle, file)).collect::<Vec<_>>().join("\n")).collect()
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
    if matches!(layer, "sources" | "analysis") && has_text_errors(&packed(&without_tests(&code))) {
        faults.push(format!("{path} has errors that are texts: use model::problem::Problem, or an enum"));
    }
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

/// Whether a `Result` has a `String` for its error.
fn has_text_errors(code: &str) -> bool {
    code.match_indices("Result<").any(|(at, word)| {
        let inside = &code[at + word.len()..];
        let mut depth = 1;
        let end = inside.char_indices().find(|(_, c)| {
            depth += i32::from(matches!(c, '<' | '(' | '[')) - i32::from(matches!(c, '>' | ')' | ']'));
            depth == 0
        });
        end.is_some_and(|(end, _)| inside[..end].replace(' ', "").ends_with(",String"))
    })
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

/// What a module's comment says first: up to its first full stop that ends a sentence, links as plain text.
fn summary(text: &str) -> String {
    let lines = text.lines().take_while(|line| line.starts_with("//! "));
    let whole = lines.map(|line| line.trim_start_matches("//! ").trim()).collect::<Vec<_>>().join(" ");
    let end = whole.find(". ").unwrap_or(whole.len());
    whole[..end].trim_end_matches('.').replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

/// The table of folders in docs/architecture.md is that of the folders' own comments.
#[test]
fn the_folders_are_listed() {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    files.retain(|file| file.ends_with("mod.rs"));
    files.sort_by(|a, b| a.parent().cmp(&b.parent()));
    let mut table = String::from("| folder | what it holds |\n|---|---|\n");
    for file in &files {
        let folder = file.parent().unwrap().strip_prefix(root()).unwrap().display();
        let text = std::fs::read_to_string(file).unwrap();
        assert!(
            text.starts_with("//! "),
            "{folder}/mod.rs does not begin with a comment that says what the folder holds"
        );
        table += &format!("| `{folder}` | {} |\n", summary(&text));
    }
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    assert!(files.len() > 40 && page.contains(&table), "the table of docs/architecture.md should be\n{table}");
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let src = root().join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let text = |file: &PathBuf| {
        let path = file.strip_prefix(&src).unwrap().display().to_string();
        (path, std::fs::read_to_string(file).unwrap())
    };
    let graph = graph(&files.iter().map(text).collect::<Vec<_>>());
    let edges: usize = graph.values().map(BTreeSet::len).sum();
    assert!(edges > 1_000, "the scan sees only {edges} imports");
    let circles = circles(&graph);
    assert!(circles.is_empty(), "move what both need into a file that both import:\n\n{}", circles.join("\n\n"));
}

#[test]
fn circles_are_found() {
    let circles_of = |files: &[(&str, &str)]| {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        circles(&graph(&files.iter().map(own).collect::<Vec<_>>()))
    };
    for (back, expected) in [
        ("use crate::a::A;", true),
        ("use crate::{model, a::{self, A}};", true),
        ("use super::super::a;", true),
        ("mod inner { use crate::a::A; }", true),
        ("fn f() { crate::a::f::<u8>(); }", true),
        ("use crate::a as other; fn f() { other::f(); }", true),
        // Through a name that another file imports for others, and through its module.
        ("use crate::c::A;", true),
        ("use crate::c; fn f() { c::A::new(); }", true),
        ("// use crate::a;", false),
        ("const T: &str = \"use crate::a;\";", false),
        ("use a::A;", false),
        ("#[cfg(test)] mod tests { use crate::a; fn f() { '{'; } }", false),
        ("#[cfg(test)] mod tests { fn f() {} } use crate::a;", true),
        // What stands in the folder's own mod.rs.
        ("use super::B;", false),
    ] {
        let files = [
            ("a.rs", "use crate::b::own;"),
            ("b/mod.rs", "mod own; pub struct B;"),
            ("b/own.rs", back),
            ("c.rs", "pub use crate::a::A; pub struct C;"),
            ("model/mod.rs", ""),
        ];
        let found = circles_of(&files);
        assert_eq!(!found.is_empty(), expected, "{back}: {found:?}");
    }
    // Two circles are two, and what only leads to one is no part of it.
    let files = [
        ("a.rs", "use crate::b;"),
        ("b.rs", "use crate::c;"),
        ("c.rs", "use crate::a; use crate::d;"),
        ("d.rs", "use crate::e;"),
        ("e.rs", "use crate::d;"),
        ("f.rs", "use crate::a;"),
    ];
    let expected = ["a imports b\nb imports c\nc imports a", "d imports e\ne imports d"];
    assert_eq!(circles_of(&files), expected);
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
        ("cli/a.rs", "use crate::sources::{watcher::Watcher, audit::pass::run};"),
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
        ("sources/a.rs", "fn f() -> Result<Vec<(u64, u8)>, String> { g() }"),
        ("analysis/a.rs", "type Taken = Result<(), String>;"),
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
        ("sources/a.rs", "fn f() -> Result<Vec<String>, Problem> { g() }"),
        ("sources/a.rs", "fn f() -> Result<(u64, String), Problem> { g() }"),
        ("main.rs", "fn main() { eprintln!(\"x\"); }"),
        ("model/a.rs", &"\n".repeat(600)),
    ] {
        assert!(faults(path, text).is_empty(), "{path}: {text:?} gives {:?}", faults(path, text));
    }
}
