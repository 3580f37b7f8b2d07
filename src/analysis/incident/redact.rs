//! Pseudonyms in place of users, addresses, namespaces and names of objects: the same one for the same name, wherever
//! it stands.
//!
//! A name that is a plain word (`web`, `data`) is replaced only where it stands as a name: alone, behind a slash or a
//! colon, behind `in` or `-n`. Elsewhere it is a word of the sentence.

use crate::analysis::dims::account;
use crate::model::cause::Cause;
use crate::model::incident::Incident;
use crate::model::report::{Finding, Report, Table, Value};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// Names that every cluster has show nothing of this one.
const COMMON: [&str; 13] = [
    "system",
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "kubernetes",
    "kube-scheduler",
    "kube-controller-manager",
    "kube-apiserver",
    "admin",
    "cluster-admin",
    "(other)",
    "127.0.0.1",
];

/// What stands before a plain word that is a name.
const BEFORE: [&str; 12] = [": ", " in ", "-n ", "/", ":", "=", "(", "\"", "'", "namespace ", "namespaces ", "owner "];

/// Longest name that is looked for.
const MAX_NAME_CHARS: usize = 253;

/// How deep in a flame graph of the key space namespaces are.
const NAMESPACES: usize = 2;

/// What the objects of a fence are called; the client's name is part of it.
const FENCE: &str = "plimsoll-fence-";

/// What a name is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    User,
    Address,
    Namespace,
    /// An object: a node, a pod, a service account.
    Name,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Address => "address",
            Self::Namespace => "namespace",
            Self::Name => "name",
        }
    }
}

/// Names, and what is written in their place.
#[derive(Debug, Default)]
pub struct Names {
    by_name: BTreeMap<String, String>,
    /// The lengths that names have, the longest first.
    lengths: Vec<usize>,
}

/// Parts of a user's name that are names themselves.
fn parts(user: &str) -> Vec<(String, Kind)> {
    if let Some((namespace, account)) = account(user) {
        return vec![(namespace.to_owned(), Kind::Namespace), (account.to_owned(), Kind::Name)];
    }
    if let Some(node) = user.strip_prefix("system:node:") {
        return vec![(node.to_owned(), Kind::Name)];
    }
    if user.starts_with("system:") { Vec::new() } else { vec![(user.to_owned(), Kind::User)] }
}

impl Names {
    /// Pseudonyms for these, in the order of their names.
    pub fn new(found: impl IntoIterator<Item = (String, Kind)>) -> Self {
        let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
        for (name, kind) in found {
            let all = if kind == Kind::User { parts(&name) } else { vec![(name, kind)] };
            for (name, kind) in all {
                let is_one =
                    name.len() > 1 && name.len() <= MAX_NAME_CHARS && !COMMON.contains(&name.as_str()) && name != "*";
                if is_one && !name.bytes().all(|b| b.is_ascii_digit()) {
                    kinds.entry(name).and_modify(|known| *known = kind.min(*known)).or_insert(kind);
                }
            }
        }
        let mut counts: BTreeMap<Kind, u64> = BTreeMap::new();
        let mut names = Self::default();
        // Not in the order of their names: numbers would show which comes before which.
        let mut kinds: Vec<(String, Kind)> = kinds.into_iter().collect();
        kinds.sort_by_cached_key(|(name, _)| (xxh3_64(name.as_bytes()), name.clone()));
        for (name, kind) in kinds {
            let count = counts.entry(kind).or_default();
            *count += 1;
            names.by_name.insert(name, format!("{}-{count}", kind.word()));
        }
        let lengths: BTreeSet<usize> = names.by_name.keys().map(String::len).collect();
        names.lengths = lengths.into_iter().rev().collect();
        names
    }

    /// How many names have one.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    /// A text with pseudonyms.
    pub fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let starts = !text[..at].chars().next_back().is_some_and(is_word);
            let found = self.lengths.iter().filter(|_| starts).find_map(|length| {
                let end = at + length;
                let name = text.get(at..end)?;
                let ends = !text[end..].chars().next().is_some_and(is_word);
                let pseudonym = self.by_name.get(name).filter(|_| ends)?;
                (!is_plain(name) || stands_as_name(text, at, end)).then_some((end, pseudonym))
            });
            match found {
                Some((end, pseudonym)) => {
                    out.push_str(pseudonym);
                    at = end;
                }
                None => {
                    let c = text[at..].chars().next().unwrap_or_default();
                    out.push(c);
                    at += c.len_utf8();
                }
            }
        }
        out
    }

    fn json(&self, value: &mut Json) {
        match value {
            Json::String(text) => *text = self.text(text),
            Json::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Json::Object(members) => {
                let old = std::mem::take(members);
                *members = old
                    .into_iter()
                    .map(|(name, mut member)| {
                        self.json(&mut member);
                        (self.text(&name), member)
                    })
                    .collect::<Map<_, _>>();
            }
            _ => {}
        }
    }

    fn all<'t>(&self, texts: impl IntoIterator<Item = &'t mut String>) {
        texts.into_iter().for_each(|text| *text = self.text(text));
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::Text(text) => *text = self.text(text),
            Value::Group(values) => values.iter_mut().for_each(|(name, value)| {
                *name = self.text(name);
                self.value(value);
            }),
            Value::Json(json) => self.json(json),
            _ => {}
        }
    }

    fn table(&self, table: &mut Table) {
        table.rows.iter_mut().flatten().for_each(|value| self.value(value));
    }

    fn finding(&self, finding: &mut Finding) {
        // One of names could be guessed and confirmed.
        if finding.subject.values().any(|value| self.text(value) != *value) {
            let subject: Vec<(String, String)> =
                finding.subject.iter().map(|(field, value)| (field.clone(), self.text(value))).collect();
            let words: Vec<(&str, &str)> =
                subject.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect();
            finding.fingerprint = Finding::new(&finding.id, finding.severity, &words).fingerprint;
        }
        self.all(finding.subject.values_mut().chain([&mut finding.summary, &mut finding.remedy]));
        finding.evidence.values_mut().for_each(|value| self.json(value));
    }

    fn report(&self, report: &mut Report) {
        self.all(report.lead.iter_mut().chain(&mut report.notes));
        self.table(&mut report.table);
        report.tables.iter_mut().chain(report.people.iter_mut().flatten()).for_each(|table| self.table(table));
        report.findings.iter_mut().for_each(|finding| self.finding(finding));
        report.totals.iter_mut().for_each(|(_, value)| self.value(value));
        report.coverage.values_mut().chain(report.more.values_mut()).for_each(|value| self.json(value));
        report.pictures.iter_mut().for_each(|picture| self.all([&mut picture.title, &mut picture.caption]));
    }

    fn cause(&self, cause: &mut Cause) {
        self.all(cause.subject.iter_mut().map(|(_, value)| value));
        self.all([&mut cause.summary]);
        self.all(cause.supports.iter_mut().chain(&mut cause.contradicts).map(|evidence| &mut evidence.text));
        self.all(cause.now.iter_mut().chain(&mut cause.later));
        for (command, text) in &mut cause.manifests {
            self.all(command.iter_mut().chain([text]));
        }
    }

    /// The report with pseudonyms.
    pub fn redact(&self, mut incident: Incident) -> Incident {
        self.all(&mut incident.summary);
        self.all(&mut incident.lost);
        incident.causes.iter_mut().for_each(|cause| self.cause(cause));
        for episode in &mut incident.episodes {
            let names = episode.failures.iter_mut().map(|own| &mut own.name);
            self.all(std::iter::once(&mut episode.headline).chain(names));
            episode.causes.iter_mut().for_each(|cause| self.cause(cause));
        }
        for card in &mut incident.clients {
            self.all([&mut card.user, &mut card.agent].into_iter().chain(card.asks.iter_mut().map(|(what, _)| what)));
            card.findings.iter_mut().for_each(|finding| self.finding(finding));
        }
        self.all(incident.timeline.iter_mut().flat_map(|entry| [&mut entry.who, &mut entry.what]));
        self.all(incident.charts.iter_mut().flat_map(|chart| chart.lines.iter_mut().map(|(name, _)| name)));
        for section in &mut incident.sections {
            self.all(&mut section.command);
            self.report(&mut section.report);
        }
        for flame in incident.flames.iter_mut().filter(|flame| !flame.tree.is_code) {
            // Below resource and namespace a frame is a name, or what several names begin with.
            flame.tree = flame.tree.pruned(NAMESPACES);
            self.all(&mut flame.tree.names);
        }
        incident
    }
}

/// Names that stand in columns and subjects of reports.
pub fn named(incident: &Incident) -> Vec<(String, Kind)> {
    let mut all = Vec::new();
    for (_, text) in incident.causes.iter().flat_map(|cause| &cause.manifests) {
        let fences = text
            .match_indices(FENCE)
            .map(|(at, _)| text[at..].chars().take_while(|c| is_word(*c) || *c == '.').collect());
        all.extend(fences.map(|name: String| (name, Kind::Name)));
    }
    let kind = |field: &str| match field {
        "user" | "other_user" | "impersonated" => Some(Kind::User),
        "source" | "source_ip" | "source_ips" | "source-ip" => Some(Kind::Address),
        "namespace" | "namespaces" | "namespaces_in" => Some(Kind::Namespace),
        "name" | "names" | "node" | "nodes" | "holder" | "from_holder" | "to_holder" | "object" | "pods" => {
            Some(Kind::Name)
        }
        _ => None,
    };
    for report in incident.sections.iter().map(|section| &section.report) {
        for finding in &report.findings {
            all.extend(finding.subject.iter().filter_map(|(field, value)| Some((value.clone(), kind(field)?))));
        }
        for table in std::iter::once(&report.table).chain(&report.tables) {
            for (at, kind) in table.columns.iter().enumerate().filter_map(|(at, column)| Some((at, kind(column)?))) {
                for value in table.rows.iter().filter_map(|row| row.get(at)) {
                    match value {
                        Value::Text(text) => all.push((text.clone(), kind)),
                        Value::Json(Json::Array(items)) => {
                            all.extend(items.iter().filter_map(|item| Some((item.as_str()?.to_owned(), kind))))
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    all
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// Whether a name could be a word of a sentence.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_lowercase())
}

fn stands_as_name(text: &str, from: usize, to: usize) -> bool {
    let (before, after) = (&text[..from], &text[to..]);
    // The group of an API, or a host, whose first label is called like something here.
    if after.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic())) {
        return false;
    }
    let alone = before.is_empty() && (after.is_empty() || after.starts_with([':', '/']));
    // A program that is called like its account: `catalog (shop:catalog)`.
    let user = after.strip_prefix(" (").and_then(|rest| rest.split(')').next());
    let is_agent = user.is_some_and(|user| user.strip_suffix(&text[from..to]).is_some_and(|rest| rest.ends_with(':')));
    alone
        || is_agent
        || after.starts_with(['/', ':']) && !after.starts_with(": ")
        || BEFORE.iter().any(|start| before.ends_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_where_they_are_names() {
        let names = Names::new([
            ("system:serviceaccount:data:stale-cache".to_owned(), Kind::User),
            ("bob@example.com".to_owned(), Kind::User),
            ("10.0.0.7".to_owned(), Kind::Address),
            ("app-0".to_owned(), Kind::Name),
            ("system:serviceaccount:data:web".to_owned(), Kind::User),
            ("app-0-x".to_owned(), Kind::Name),
            ("system:kube-scheduler".to_owned(), Kind::User),
            ("default".to_owned(), Kind::Namespace),
        ]);
        // Which number each has is nobody's business, but that it is one each.
        let [app, longer, cache, web] = ["app-0", "app-0-x", "stale-cache", "web"].map(|name| names.text(name));
        let numbers: BTreeSet<&str> =
            [&app, &longer, &cache, &web].into_iter().filter_map(|name| name.strip_prefix("name-")).collect();
        assert_eq!(numbers, BTreeSet::from(["1", "2", "3", "4"]));
        for (text, redacted) in [
            (
                "bob@example.com (kubectl, from 10.0.0.7) scaled app-0 in data",
                format!("user-1 (kubectl, from address-1) scaled {app} in namespace-1"),
            ),
            (
                "system:serviceaccount:data:stale-cache reads data",
                format!("system:serviceaccount:namespace-1:{cache} reads data"),
            ),
            ("app-0-x app-0-y xapp-0 data/app-0", format!("{longer} app-0-y xapp-0 namespace-1/{app}")),
            ("system:kube-scheduler in default", "system:kube-scheduler in default".to_owned()),
            ("110.0.0.7 10.0.0.77 größe", "110.0.0.7 10.0.0.77 größe".to_owned()),
            ("data", "namespace-1".to_owned()),
            // A program that is called like its account; a word is a word.
            ("web (data:web) sent more", format!("{web} (namespace-1:{web}) sent more")),
            ("the web (a page) of data:web", format!("the web (a page) of namespace-1:{web}")),
            ("/registry/data.example.com/data/app-0", format!("/registry/data.example.com/namespace-1/{app}")),
        ] {
            assert_eq!(names.text(text), redacted, "{text}");
        }
    }
}
