//! The language of output and code: words that stay out (docs/architecture.md, "Words"), and a catalogue of all fixed
//! sentences of the program in `target/ci/catalogue.txt`, to be read in one sitting.

use crate::support::{none, root};
use regex::Regex;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Words that no sentence of the program has, each with what to write.
const SENTENCES: [(&str, &str); 16] = [
    (r"\bnoughts?\b", "zero, trailing zeros"),
    (r"\banew\b", "again, restarted"),
    (r"\bcame on top\b", "added load"),
    (r"\bwas felt\b", "impact"),
    (r"\bthe usual\b", "baseline"),
    (r"\bstands? out\b", "outlier, deviates from the baseline"),
    (r"\bat hand\b", "missing inputs"),
    (r"\bgoes together with\b", "correlated with"),
    (r"\bwho led\b|\bgave up\b", "leader, handover"),
    (r"\bsent away\b", "rejected, throttled"),
    (r"\bis told by\b|\bare told by\b|\bcan't be told\b", "requires X; use Y"),
    (r"\bwith it went\b|\bis gone\b|\bare gone\b", "deleted, cascade"),
    (r"\bpolitely\b", "rate-limited"),
    (r"\bnext time: ", "prevention: "),
    (r"\bfore(?:see|sees|seen|told|tells)\b", "forecast, predicted"),
    (r"(?:^|[^e] )(?:it|this|that) is no (?:[a-z])", "is not a"),
];

/// Names that no item of the code has: they say nothing of what it is.
const NAMES: [&str; 31] = [
    "Told",
    "Known",
    "Found",
    "Kept",
    "Asked",
    "Door",
    "Manners",
    "Person",
    "People",
    "Pulses",
    "Beat",
    "PIECE",
    "foresee",
    "foretold",
    "Deed",
    "Parcel",
    "FIRM_HIGH",
    "off_nought",
    "LEAST",
    "Heard",
    "Meant",
    "Felt",
    "TOLD",
    "ANEW",
    "told_by",
    "foresee_all",
    "told",
    "said",
    "tell",
    "heard",
    "anew",
];

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

/// The string literals of a source text with their lines, without those of its inline test module; joined where they
/// are continued.
fn literals(text: &str) -> Vec<(usize, String)> {
    let text = text.find("#[cfg(test)]\nmod ").map_or(text, |end| &text[..end]);
    let token =
        Regex::new(r##"(?s)//[^\n]*|b?r#"(.*?)"#|b?r"([^"]*)"|"((?:\\.|[^"\\])*)"|b?'(?:\\[^']+|[^'\\])'"##).unwrap();
    let continued = Regex::new(r"\\\n\s*").unwrap();
    let mut found = Vec::new();
    for part in token.captures_iter(text) {
        let Some(own) = part.get(1).or(part.get(2)).or(part.get(3)) else { continue };
        let line = text[..own.start()].lines().count().max(1);
        found.push((line, continued.replace_all(own.as_str(), "").into_owned()));
    }
    found
}

/// The words of the code besides comments and strings, with where they stand.
fn identifiers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    static TOKEN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r##"(?s)//[^\n]*|b?r#".*?"#|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*"##).unwrap());
    let words = TOKEN.find_iter(text).filter(|word| !word.as_str().starts_with(['/', '"']));
    words.map(|word| (word.start(), word.as_str()))
}

/// A sentence: at least three words, not a command line, a query or a format.
fn is_sentence(text: &str) -> bool {
    let words = text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count();
    words >= 3 && !text.contains("EXAMPLES") && !text.contains("<svg") && !text.contains("SELECT ")
}

#[test]
fn sentences_comments_and_names_use_the_terms_of_the_field() {
    let mut all = Vec::new();
    files(&root().join("src"), &mut all);
    let rules: Vec<(Regex, &str)> =
        SENTENCES.iter().map(|(rule, instead)| (Regex::new(&format!("(?i){rule}")).unwrap(), *instead)).collect();
    let (mut faults, mut catalogue) = (Vec::new(), String::new());
    for path in &all {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let is_test = name.ends_with("tests.rs");
        for (line, sentence) in literals(&text).into_iter().filter(|(_, text)| !is_test && is_sentence(text)) {
            let _ = writeln!(catalogue, "{name}:{line}: {sentence}");
            for (rule, instead) in &rules {
                if let Some(word) = rule.find(&sentence) {
                    faults.push(format!("{name}:{line}: \"{}\": write: {instead}", word.as_str().trim()));
                }
            }
        }
        for (number, line) in text.lines().enumerate() {
            let Some((_, comment)) = line.split_once("//").filter(|(code, _)| code.trim().is_empty()) else { continue };
            let comment = comment.replace("no longer", "");
            for (rule, instead) in &rules {
                if let Some(word) = rule.find(&comment) {
                    faults.push(format!("{name}:{}: \"{}\": write: {instead}", number + 1, word.as_str().trim()));
                }
            }
        }
        for (at, word) in identifiers(&text).filter(|(_, word)| NAMES.contains(word)) {
            let line = text[..at].lines().count().max(1);
            faults.push(format!("{name}:{line}: {word}: name it after what it is"));
        }
    }
    let to = root().join("target/ci");
    std::fs::create_dir_all(&to).unwrap();
    std::fs::write(to.join("catalogue.txt"), &catalogue).unwrap();
    assert!(catalogue.lines().count() > 1_500, "the catalogue misses sentences");
    none(&faults);
}

/// The lines of a source text that are too wide, raw strings aside: their content is data.
fn wide(text: &str) -> Vec<usize> {
    static TOKEN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r##"(?s)//[^\n]*|b?r#".*?"#|"(?:\\.|[^"\\])*"|'"'"##).unwrap());
    let mut raw = vec![false; text.lines().count() + 1];
    for part in TOKEN.find_iter(text).filter(|part| part.as_str().trim_start_matches('b').starts_with("r#")) {
        let first = text[..part.start()].matches('\n').count();
        raw[first..=first + part.as_str().matches('\n').count()].fill(true);
    }
    let too_wide = |(at, line): (usize, &str)| (line.chars().count() > 120 && !raw[at]).then_some(at + 1);
    text.lines().enumerate().filter_map(too_wide).collect()
}

#[test]
fn no_line_is_wider_than_120_columns() {
    let mut all = Vec::new();
    ["src", "tests", "examples", "benches", "fuzz/fuzz_targets"]
        .iter()
        .for_each(|folder| files(&root().join(folder), &mut all));
    let mut faults = Vec::new();
    for path in &all {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        faults.extend(
            wide(&std::fs::read_to_string(path).unwrap()).iter().map(|line| format!("{name}:{line}: too wide")),
        );
    }
    none(&faults);
    let long = "x".repeat(121);
    assert_eq!(wide(&format!("a\n{long}\nlet a = r#\"{long}\n\"#;\n// {long}\n")), [2, 5]);
}

/// Documents follow the same list, what is code aside.
#[test]
fn documents_use_the_terms_of_the_field() {
    let mut pages = vec![root().join("README.md")];
    for pattern in ["docs/*.md", "docs/*/*.md", "docs/*/*/*.md"] {
        pages.extend(glob::glob(root().join(pattern).to_str().unwrap()).unwrap().map(Result::unwrap));
    }
    let own =
        [(r"\btells?\b|\btold\b", "show, report"), (r"\breckon", "compute"), (r"\bfenc(?:e|ed|es)\b", "throttle")];
    let rules: Vec<(Regex, &str)> = SENTENCES
        .iter()
        .chain(&own)
        .map(|(rule, instead)| (Regex::new(&format!("(?i){rule}")).unwrap(), *instead))
        .collect();
    // Runbooks speak to people, who tell one another things.
    let addressed = ["tell the", "tell its owner", "tell their owners"];
    let code = Regex::new(r"`[^`]*`|\]\([^)]*\)|<a id=[^>]*>").unwrap();
    let mut faults = Vec::new();
    for path in &pages {
        let text = std::fs::read_to_string(path).unwrap();
        let mut in_code = false;
        for (number, line) in text.lines().enumerate() {
            in_code ^= line.trim_start().starts_with("```");
            let prose = code.replace_all(line, "");
            if in_code || addressed.iter().any(|words| prose.to_lowercase().contains(words)) {
                continue;
            }
            for (rule, instead) in &rules {
                if let Some(word) = rule.find(&prose) {
                    let name = path.strip_prefix(root()).unwrap().display();
                    faults.push(format!("{name}:{}: \"{}\": write: {instead}", number + 1, word.as_str().trim()));
                }
            }
            // Wider lines are tables.
            if line.chars().count() > 160 && !line.starts_with(['|', '[', '<', '`']) && !line.contains("](") {
                faults.push(format!("{}:{}: wider than 160 columns", path.display(), number + 1));
            }
        }
    }
    assert!(pages.len() > 100, "{}", pages.len());
    none(&faults);
}

#[test]
fn the_check_finds_what_it_looks_for() {
    let text = "// \"it is no comment\"\nlet a = \"the lease \\\n   is gone here\"; let b = r#\"one two three\"#; let \
         c = '\"';\n\
                #[cfg(test)]\nmod tests { let d = \"not looked at\"; }";
    assert_eq!(literals(text), [(2, "the lease is gone here".to_owned()), (3, "one two three".to_owned())]);
    let words: Vec<&str> = identifiers(text).map(|(_, word)| word).take(3).collect();
    assert_eq!(words, ["let", "a", "let"]);
    for (bad, number) in [("this is no address", 15), ("what is told by metrics", 10), ("Next time: no right", 13)] {
        let rule = Regex::new(&format!("(?i){}", SENTENCES[number].0)).unwrap();
        assert!(rule.is_match(bad), "{bad}");
    }
    let rule = Regex::new(&format!("(?i){}", SENTENCES[15].0)).unwrap();
    assert!(!rule.is_match("there is no such file"));
}
