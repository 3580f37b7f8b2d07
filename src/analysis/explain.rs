//! What a finding, a metric, a field or a term means, by the project's documents, which the program carries with it.

use crate::model::columns::{self, Column};
use include_dir::{Dir, include_dir};
use std::collections::{BTreeMap, BTreeSet};

static RUNBOOKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/docs/runbooks");
const FINDINGS: &str = include_str!("../../docs/findings.md");
const GUARD: &str = include_str!("../../docs/commands/guard.md");
const METRICS: &str = include_str!("../../docs/metrics.md");
const CONTROLLERS: &str = include_str!("../../docs/commands/controllers.md");
const GLOSSARY: &str = include_str!("../../docs/glossary.md");

/// Names that are offered where one is not known.
const OFFERED: usize = 5;
/// A name is alike if it differs by this part of its letters.
const ALIKE: f64 = 0.6;

/// What can be explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A finding, by its id.
    Finding,
    /// A metric, or a field that is computed from metrics.
    Metric,
    Term,
    /// A column of a table, by its heading or its field.
    Column,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Metric => "metric",
            Self::Term => "term",
            Self::Column => "column",
        }
    }
}

/// An explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub name: String,
    pub kind: Kind,
    /// The first sentence.
    pub summary: String,
    /// All of it, as Markdown without its heading.
    pub text: String,
    /// Where it stands, below `docs/`.
    pub page: String,
}

/// All findings and terms, by kind and name; metrics are looked up, as there are hundreds.
pub fn topics() -> Vec<Topic> {
    let mut all = findings();
    all.extend(terms());
    all.sort_by_key(|own| (own.kind, own.name.to_lowercase()));
    all
}

/// What a name means: a finding's id, a term (in any case), a metric or a field; `topics` are [all](topics). `Err` with
/// names that are alike.
pub fn explain(name: &str, topics: &[Topic]) -> Result<Topic, Vec<String>> {
    let wanted = comparable(name);
    // `episode` is a finding, `Episode` a term.
    let exact = topics.iter().find(|own| own.name == name.trim());
    if let Some(found) = exact.or_else(|| topics.iter().find(|own| comparable(&own.name) == wanted)) {
        return Ok(found.clone());
    }
    // `relists`, `full LISTs`.
    let singular = wanted.strip_suffix('s').unwrap_or(&wanted);
    if let Some(found) = topics.iter().find(|own| comparable(&own.name).trim_end_matches('s') == singular) {
        return Ok(found.clone());
    }
    if let Some(found) = field(name.trim(), &wanted) {
        return Ok(found);
    }
    if wanted.is_empty() {
        return Err(Vec::new());
    }
    let alike = |name: &str| {
        let theirs = comparable(name);
        let score =
            if theirs.contains(&wanted) { 1.0 } else { strsim::normalized_damerau_levenshtein(&theirs, &wanted) };
        (score, name.to_owned())
    };
    let names = topics.iter().map(|own| own.name.as_str()).chain(metrics());
    let mut scored: Vec<(f64, String)> = names.map(alike).filter(|(score, _)| *score >= ALIKE).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    Err(scored.into_iter().take(OFFERED).map(|(_, name)| name).collect())
}

/// A name as it is compared: `Watch cache`, `watch-cache` and `WATCH CACHE` are one.
fn comparable(name: &str) -> String {
    name.trim().to_lowercase().replace(['-', '_'], " ")
}

/// Cells of a row of a Markdown table; none where the line is no row.
fn cells(line: &str) -> Vec<&str> {
    let Some(inner) = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) else { return Vec::new() };
    let (mut all, mut from) = (Vec::new(), 0);
    for (at, _) in inner.match_indices('|').filter(|(at, _)| !inner[..*at].ends_with('\\')) {
        all.push(inner[from..at].trim());
        from = at + 1;
    }
    all.push(inner[from..].trim());
    all
}

/// Rows of tables: the heading above, the cells of the table's head, and the row's.
fn rows(document: &str) -> Vec<(String, Vec<&str>, Vec<&str>)> {
    let (mut section, mut head): (String, Vec<&str>) = (String::new(), Vec::new());
    let mut all = Vec::new();
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            section = line.trim_start_matches('#').trim().to_owned();
        }
        let own = cells(line);
        if own.is_empty() {
            head.clear();
        } else if lines.peek().is_some_and(|next| next.trim().starts_with("|--") || next.trim().starts_with("| --")) {
            head = own;
            lines.next();
        } else if !head.is_empty() {
            all.push((section.clone(), head.clone(), own));
        }
    }
    all
}

/// A row as sentences: `severity: warning`.
fn row_text(head: &[&str], row: &[&str]) -> String {
    let parts = head.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty());
    parts.map(|(name, cell)| format!("{name}: {cell}\n\n")).collect::<String>().trim_end().to_owned()
}

/// Each finding: its runbook and its row in the catalogue.
fn findings() -> Vec<Topic> {
    let mut all: BTreeMap<String, Topic> = BTreeMap::new();
    for (document, page) in [(FINDINGS, "findings.md"), (GUARD, "commands/guard.md")] {
        for (_, head, row) in rows(document) {
            let Some(id) = row.first().and_then(|cell| cell.split("<a id=\"").nth(1)?.split('"').next()) else {
                continue;
            };
            let text = row_text(&head, &row);
            let summary = row.get(1).map_or_else(String::new, |cell| unlinked(cell));
            let topic = Topic { name: id.to_owned(), kind: Kind::Finding, summary, text, page: format!("{page}#{id}") };
            all.insert(id.to_owned(), topic);
        }
    }
    for file in RUNBOOKS.files() {
        let (Some(id), Some(text)) = (file.path().file_stem().and_then(|name| name.to_str()), file.contents_utf8())
        else {
            continue;
        };
        // The page itself begins with the id as its heading.
        let Some(body) = text.strip_prefix(&format!("# {id}\n")) else { continue };
        let row = all.get(id).map_or_else(String::new, |own| format!("\n\n## In the catalogue\n\n{}", own.text));
        let topic = Topic {
            name: id.to_owned(),
            kind: Kind::Finding,
            summary: sentence(body),
            text: format!("{}{row}", body.trim()),
            page: format!("runbooks/{id}.md"),
        };
        all.insert(id.to_owned(), topic);
    }
    all.into_values().collect()
}

/// The terms of the glossary.
fn terms() -> Vec<Topic> {
    let parts = GLOSSARY.split("\n## ").skip(1);
    let term = |part: &str| {
        let (name, text) = part.split_once('\n')?;
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let anchor: String = name.trim().to_lowercase().chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        Some(Topic {
            name: name.trim().to_owned(),
            kind: Kind::Term,
            summary: sentence(text),
            text: text.trim().to_owned(),
            page: format!("glossary.md#{anchor}"),
        })
    };
    parts.filter_map(term).collect()
}

/// Whether it can be the name of a metric or a field.
fn is_name(name: &str) -> bool {
    name.len() > 2 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Names of metrics that the documents explain: of several words.
fn metrics() -> BTreeSet<&'static str> {
    let quoted = [METRICS, CONTROLLERS].into_iter().flat_map(|document| document.split('`').skip(1).step_by(2));
    quoted.filter(|name| is_name(name) && name.contains('_')).collect()
}

/// A metric or a field: the rows and paragraphs that name it, of docs/metrics.md, else of docs/commands/controllers.md.
fn metric(name: &str) -> Option<Topic> {
    let quoted = format!("`{name}`");
    let (document, page) = [(METRICS, "metrics.md"), (CONTROLLERS, "commands/controllers.md")]
        .into_iter()
        .find(|(document, _)| is_name(name) && document.contains(&quoted))?;
    let mut texts: Vec<String> = Vec::new();
    for (section, head, row) in rows(document) {
        if row.iter().any(|cell| cell.contains(&quoted)) {
            let cells = head.iter().zip(&row).filter(|(_, cell)| !cell.is_empty());
            let cells: String = cells.map(|(head, cell)| format!("{head}: {cell}\n\n")).collect();
            texts.push(format!("## {section}\n\n{}", cells.trim_end()));
        }
    }
    let is_row = |part: &&str| part.starts_with('|') || part.starts_with('#');
    let paragraphs = document.split("\n\n").filter(|part| part.contains(&quoted)).filter(|part| !is_row(part));
    texts.extend(paragraphs.map(|part| part.trim().to_owned()));
    let text = texts.join("\n\n");
    let summary =
        texts.first().map_or_else(String::new, |text| sentence(text.rsplit("\n\n").next().unwrap_or_default()));
    Some(Topic { name: name.to_owned(), kind: Kind::Metric, summary, text, page: page.to_owned() })
}

/// A field or a heading of a table, a metric, or what is both.
fn field(name: &str, wanted: &str) -> Option<Topic> {
    let is_it = |column: &Column| column.name == name || comparable(column.title) == wanted && !wanted.is_empty();
    let found: Vec<(&str, &Column)> = columns::families()
        .into_iter()
        .flat_map(|(family, own)| own.iter().filter(|column| is_it(column)).map(move |column| (family, column)))
        .collect();
    let metric = metric(name);
    let Some((_, first)) = found.first() else { return metric };
    let mut text = String::new();
    for (family, Column { name, title, kind, meaning, .. }) in &found {
        let heading = if title.is_empty() { String::new() } else { format!(", heading {title}") };
        let unit = if kind.unit().is_empty() { String::new() } else { format!(", {}", kind.unit()) };
        text += &format!("- {family}: {meaning} (`{name}`{heading}{unit})\n");
    }
    if let Some(metric) = metric {
        text += &format!("\n{}", metric.text);
    }
    let (summary, page) = (first.meaning.to_owned(), "columns.md".to_owned());
    Some(Topic { name: name.to_owned(), kind: Kind::Column, summary, text: text.trim_end().to_owned(), page })
}

/// The first sentence of a text, on one line and without markup.
fn sentence(text: &str) -> String {
    let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
    let line = unlinked(&paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let ends = line.match_indices(". ").map(|(at, _)| at);
    let end = ends.into_iter().find(|at| line[at + 2..].starts_with(|c: char| c.is_uppercase())).map(|at| at + 1);
    line[..end.unwrap_or(line.len())].to_owned()
}

/// A text without anchors, bold type and code marks, and links as words and, outside of the documents, their address.
pub fn readable(text: &str) -> String {
    without_markup(text, true)
}

/// A text without links, anchors, bold type and code marks.
pub fn unlinked(text: &str) -> String {
    without_markup(text, false)
}

fn without_markup(text: &str, with_addresses: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['[', '<', '*', '`']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let link = from.strip_prefix('[').and_then(|inner| {
            let (words, behind) = inner.split_once("](")?;
            let end = behind.find(')')?;
            (!words.contains('[')).then(|| (words, &behind[..end], &behind[end + 1..]))
        });
        if let Some((words, address, behind)) = link {
            out.push_str(&unlinked(words));
            if with_addresses && address.starts_with("http") {
                out.push_str(&format!(" ({address})"));
            }
            rest = behind;
        } else if let Some(behind) = from.strip_prefix("<a id=").and_then(|inner| inner.split_once("</a>")) {
            rest = behind.1;
        } else if let Some(behind) = from.strip_prefix("**").or_else(|| from.strip_prefix('`')) {
            rest = behind;
        } else {
            let first = from.chars().next().map_or(1, char::len_utf8);
            out.push_str(&from[..first]);
            rest = &from[first..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_and_term_has_a_summary_and_a_text() {
        let all = topics();
        let count = |kind: Kind| all.iter().filter(|own| own.kind == kind).count();
        assert!(count(Kind::Finding) >= 100 && count(Kind::Term) >= 50, "{}", all.len());
        for own in &all {
            assert!(!own.summary.is_empty() && own.text.len() > 40, "{own:?}");
            assert!(!own.summary.contains("](") && !own.summary.contains("<a"), "{own:?}");
            assert_eq!(explain(&own.name, &all).as_ref(), Ok(own));
        }
    }

    /// Never more than info: there is nothing to do about them at night.
    const INFO_ONLY: [&str; 19] = [
        "client-no-bookmarks",
        "client-surge",
        "client-uneven-nodes",
        "etcd-fragmented",
        "etcd-free-list",
        "etcd-managed-fields",
        "fleet-outlier",
        "guard-csr-approve",
        "guard-ephemeral-container",
        "guard-evict",
        "guard-exec",
        "guard-node-proxy",
        "guard-token-create",
        "memory-cache-full",
        "pending-alike",
        "quota-never-reached",
        "quota-no-limits",
        "quota-no-owner",
        "quota-overcommitted",
    ];

    #[test]
    fn each_finding_that_may_be_a_warning_has_a_runbook() {
        let all = findings();
        let without: Vec<&str> =
            all.iter().filter(|own| !own.page.starts_with("runbooks/")).map(|own| own.name.as_str()).collect();
        assert_eq!(without, INFO_ONLY);
        for own in all.iter().filter(|own| own.page.starts_with("runbooks/")) {
            assert!(own.text.contains("## In the catalogue"), "{}: no row in docs/findings.md", own.name);
            for section in
                ["## What users see", "## Confirm", "## Act now", "## Prevent", "## False alarms", "## Sources"]
            {
                assert!(own.text.contains(section), "{}: no section {section}", own.name);
            }
        }
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        let all = topics();
        let explain = |text: &str| explain(text, &all);
        let name = |text: &str| explain(text).map(|own| own.name);
        assert_eq!(name("watch-cache"), Ok("Watch cache".to_owned()));
        assert_eq!(name(" RELISTS "), Ok("Relist".to_owned()));
        assert!(explain("client-fan-out").unwrap().text.contains("## Act now"));
        let field = explain("wal_fsync_p99_ms").unwrap();
        assert!(field.text.contains("FSYNC P99 MS") && field.text.contains("etcd_disk_wal_fsync_duration_seconds"));
        assert_eq!(explain("oldest wait MS").map(|own| own.kind), Ok(Kind::Column));
        let several = explain("LIMIT").unwrap();
        assert!(several.text.contains("`limit_bytes`") && several.text.contains("`forecast_limit`"), "{several:?}");
        assert!(explain("etcd_disk_wal_fsync_duration_seconds").is_ok());
        assert!(explain("client-fan-aut").unwrap_err().contains(&"client-fan-out".to_owned()));
        assert_eq!(explain("qqqqqqqq"), Err(Vec::new()));
        assert_eq!(explain(" "), Err(Vec::new()));
    }

    #[test]
    fn markup_is_taken_out() {
        assert_eq!(readable("[b](d.md) [c](https://d/e)"), "b c (https://d/e)");
        assert_eq!(unlinked("a [b `c`](d.md#e) **f** <a id=\"x\"></a>`g` [h] 3 < 4"), "a b c f g [h] 3 < 4");
    }
}
