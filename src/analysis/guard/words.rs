//! What was done, in words.

use super::group::{Evictions, Group};
use super::rules::Rule;
use crate::analysis::dims::short_user;
use crate::model::alert::{GuardEvent, Level};
use crate::model::report::Severity;
use crate::model::units::{counted, grouped};
use std::collections::BTreeMap;

/// Resources of a cascade that a sentence names.
const NAMED: usize = 6;

/// `bob`, `bob as system:admin`, `batch:job-launcher`: people know service accounts without what they all begin with.
pub(super) fn who(group: &Group) -> String {
    let first = &group.first;
    let short = |user: &str| match short_user(user) {
        "" => "somebody".to_owned(),
        user => user.to_owned(),
    };
    if first.impersonated.is_empty() {
        short(&first.user)
    } else {
        format!("{} as {}", short(&first.user), short(&first.impersonated))
    }
}

/// `deleted a namespace: legacy-team`, `deleted 12 pods: none-0, none-1, … none-11 in data`.
pub(super) fn what(group: &Group) -> String {
    let first = &group.first;
    let Some(rule) = Rule::of(first.kind) else { return String::new() };
    let is_collection = first.kind == "delete-collection";
    let within = match group.namespaces.len() {
        _ if first.resource == "namespaces" || !is_collection && first.namespace.is_empty() => String::new(),
        1.. if is_collection && group.is_of_all => " in all namespaces".to_owned(),
        0 => String::new(),
        1 => group.namespaces.first().map_or_else(String::new, |namespace| format!(" in {namespace}")),
        many => format!(" in {}", counted(many as u64, "namespace")),
    };
    let slash = if first.subresource.is_empty() { "" } else { "/" };
    let names = group.few();
    let of = match first.kind {
        "delete-collection" => format!("all {}", first.resource),
        "forbidden" => format!("{} {}{slash}{}", first.verb, first.resource, first.subresource),
        _ if rule.is_open => format!("{} {names}", first.resource),
        _ => names,
    };
    let reported = format!("{}: {}", counted_words(rule.words, group.count), of.trim_end());
    let pods = group.evictions.as_deref().map(drained).unwrap_or_default();
    format!("{}{within}{pods}", reported.trim_end_matches([':', ' ']))
}

/// What was done, so many times: `deleted a pod`, `deleted 12 pods`, `scaled to zero 2 times`.
fn counted_words(words: &str, count: u64) -> String {
    if count <= 1 {
        return words.to_owned();
    }
    match words.split_once(" a ").or_else(|| words.split_once(" an ")) {
        Some((before, object)) => {
            let object = object.strip_prefix("whole ").unwrap_or(object);
            let prepositions = [" by ", " in ", " to ", " through "].iter().filter_map(|word| object.find(word));
            let (noun, rest) = object.split_at(prepositions.min().unwrap_or(object.len()));
            format!("{before} {} {noun}s{rest}", grouped(count))
        }
        None => format!("{words} {} times", grouped(count)),
    }
}

/// `; 21 pods evicted, 12 evictions refused`: a budget's refusal is asked again, so that the last word may have been a
/// yes.
fn drained(evictions: &Evictions) -> String {
    let refused = if evictions.failed > 0 {
        format!(", {} rejected", counted(evictions.failed, "eviction"))
    } else {
        String::new()
    };
    format!("; {} evicted{refused}", counted(evictions.pods, "pod"))
}

/// `done`, `10 done, 2 denied`, `12 not there`.
pub(super) fn outcome(group: &Group) -> String {
    let of = |count: u64, what: &str| {
        (count > 0).then(|| if group.count == 1 { what.to_owned() } else { format!("{} {what}", grouped(count)) })
    };
    let failed = if group.missing == group.count { "not there" } else { "failed" };
    [
        of(group.done, "done"),
        of(group.refused, "denied"),
        of(group.failed, failed),
        of(group.unsure, "unknown (no answer, or 5xx)"),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

/// `30 pods, 12 secrets, 7 others`.
fn objects(by_resource: &BTreeMap<String, u64>) -> String {
    let mut sorted: Vec<(&String, &u64)> = by_resource.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let mut words: Vec<String> =
        sorted.iter().take(NAMED).map(|(resource, count)| format!("{} {resource}", grouped(**count))).collect();
    let rest: u64 = sorted.iter().skip(NAMED).map(|(_, count)| **count).sum();
    if rest > 0 {
        words.push(format!("{} others", grouped(rest)));
    }
    words.join(", ")
}

/// Whether other objects went with it, or may have.
fn deletes_others(group: &Group) -> bool {
    let is_of_kind = matches!(group.first.kind, "delete-namespace" | "delete-crd" | "delete-collection");
    is_of_kind && group.done + group.unsure > 0
}

/// What went with it, as far as it is known; empty where nothing can.
pub(super) fn gone(group: &Group) -> String {
    match (group.cascade.by_databases, group.cascade.total()) {
        _ if !deletes_others(group) => String::new(),
        (true, total) => grouped(total),
        (false, 0) => "unknown".to_owned(),
        (false, total) => format!("{} or more", grouped(total)),
    }
}

/// The outcome, unless all succeeded, which what was done says already.
fn shortfall(group: &Group) -> Option<String> {
    (group.done != group.count).then(|| outcome(group)).filter(|text| !text.is_empty())
}

/// A sentence with all of it.
pub(super) fn summary(group: &Group) -> String {
    let first = &group.first;
    let mut reported = format!("{} ({}, from {}) {}", who(group), first.agent, first.source, what(group));
    if let Some(shortfall) = shortfall(group) {
        reported += &format!("; {shortfall}");
    }
    let cascade = &group.cascade;
    if cascade.total() > 0 {
        // The objects of a collection are what the request deletes, not what follows from it.
        let cascade_of = if first.kind == "delete-collection" { "" } else { "cascade: " };
        let least = if cascade.by_databases { "" } else { "at least " };
        reported += &format!("; {cascade_of}{least}{} deleted", objects(&cascade.objects));
    } else if deletes_others(group) && !cascade.by_databases {
        reported += "; number of deleted objects unknown";
    }
    if let Some(detail) = group.details().first().filter(|_| first.kind != "forbidden") {
        reported += &format!("; {detail}");
    }
    // A namespace that no label gives an owner stands for itself.
    let owners: Vec<&str> =
        group.owners.iter().map(String::as_str).filter(|owner| !group.namespaces.contains(*owner)).collect();
    if !owners.is_empty() {
        reported += &format!("; owner: {}", owners.join(", "));
    }
    reported
}

/// What a message says of it; nothing where it is no more than info.
pub(super) fn guard_event(group: &Group) -> Option<GuardEvent> {
    let level = match group.severity() {
        Severity::Info => return None,
        Severity::Warning => Level::Warning,
        Severity::Critical => Level::Critical,
    };
    let first = &group.first;
    Some(GuardEvent {
        at: first.at,
        last: group.last,
        kind: first.kind.to_owned(),
        level,
        user: first.user.clone(),
        impersonated: first.impersonated.clone(),
        agent: first.agent.clone(),
        source: first.source.clone(),
        what: what(group),
        outcome: outcome(group),
        count: group.count,
        group: first.group.clone(),
        resource: first.resource.clone(),
        namespaces: group.namespaces.iter().cloned().collect(),
        stopped_by: Rule::of(first.kind).map_or("", |rule| rule.stopped_by).to_owned(),
        audit_id: first.audit_id.clone(),
    })
}

impl Group {
    /// Who did it, for people.
    pub fn who(&self) -> String {
        who(self)
    }

    /// What was done, for people.
    pub fn what(&self) -> String {
        what(self)
    }

    /// What came of it where not all succeeded, for people: `3 done, 2 denied`.
    pub fn shortfall(&self) -> Option<String> {
        shortfall(self)
    }

    /// What a message says of it; nothing where it is no more than info.
    pub fn guard_event(&self) -> Option<GuardEvent> {
        guard_event(self)
    }
}
