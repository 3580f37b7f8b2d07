//! The report of `upgrade`.

use super::objects::OldObjects;
use super::{Call, Fate, clients_that_break};
use crate::analysis::list_route::Minor;
use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::time::{Span, format, second};
use crate::model::units::counted;
use std::collections::BTreeSet;

/// What the report is made of.
#[derive(Debug)]
pub struct UpgradeInput<'c> {
    /// Calls, and who owns the client of each; an empty name where nobody is known to.
    pub calls: Vec<(&'c Call, String)>,
    /// Objects that were written in versions that end, and whose they are.
    pub objects: Vec<(&'c OldObjects, String)>,
    /// Versions in which objects were written, and of which it is not known when they end.
    pub unknown: BTreeSet<String>,
    pub to: Minor,
    /// Whether calls could be seen at all: in a log, or in metrics.
    pub has_calls: bool,
    pub inputs: Vec<InputReport>,
    /// First and last event; `None` where there was no log.
    pub span: Option<Span>,
    /// Rows to show.
    pub top: Option<usize>,
}

const COLUMNS: [&str; 12] = [
    "upgrade_verdict",
    "user",
    "agent",
    "api_version",
    "resource",
    "removed_release",
    "use_instead",
    "requests",
    "last_seen",
    "owner",
    "first_seen",
    "cluster",
];

const OBJECT_COLUMNS: [&str; 10] = [
    "upgrade_verdict",
    "object_kind",
    "namespace",
    "old_objects",
    "written_in",
    "written_by",
    "removed_release",
    "use_instead",
    "owner",
    "cluster",
];

/// Versions that a sentence names.
const NAMED: usize = 5;

/// A finding for manifests that can't be applied any more.
fn old_finding(old: &OldObjects, owner: &str, to: Minor) -> Finding {
    let subject = [
        ("cluster", old.cluster.as_str()),
        ("kind", old.kind.as_str()),
        ("namespace", old.namespace.as_str()),
        ("version", old.version.as_str()),
        ("manager", old.by.as_str()),
        ("owner", owner),
    ];
    let place = if old.namespace.is_empty() { String::new() } else { format!(" in {}", old.namespace) };
    let by = if old.by.is_empty() { String::new() } else { format!(" by {}", old.by) };
    let remedy = match old.instead {
        "" => "write the manifest in a version that is served".to_owned(),
        instead => format!("write the manifest in {instead} and apply it"),
    };
    Finding::new("upgrade-old-manifest", Severity::Warning, &subject)
        .summary(format!(
            "{} of kind {}{place} ({}) written{by} in {}, which Kubernetes 1.{} does not serve (removed in 1.{})",
            counted(old.names.len() as u64, "object"),
            old.kind,
            old.names.first().map_or("", String::as_str),
            old.version,
            to.0,
            old.removed.0
        ))
        .evidence(serde_json::json!({"objects": old.names.len(), "removed_release": format!("1.{}", old.removed.0)}))
        .remedy(remedy)
}

/// A finding for each client and API that the upgrade breaks.
fn finding(call: &Call, owner: &str, to: Minor, span: Span) -> Finding {
    let client = match call.user.as_str() {
        "" => "a client that only metrics show",
        user => user,
    };
    let subject = [
        ("cluster", call.cluster.as_str()),
        ("user", call.user.as_str()),
        ("agent", call.agent.as_str()),
        ("version", call.version.as_str()),
        ("resource", call.resource.as_str()),
        ("owner", owner),
    ];
    let calls = call.requests.map_or(String::new(), |requests| format!(": {}", counted(requests, "request")));
    let remedy = match call.instead {
        "" => "move to the version that the server's warning names, then upgrade".to_owned(),
        instead => format!("move to {instead}, then upgrade"),
    };
    Finding::new("upgrade-breaks", Severity::Critical, &subject)
        .seen(call.span.unwrap_or(span))
        .summary(format!(
            "{client} calls {} {}, which Kubernetes 1.{} does not serve (removed in {}){calls}",
            call.version, call.resource, to.0, call.removed
        ))
        .evidence(serde_json::json!({"requests": call.requests, "removed_release": call.removed}))
        .remedy(remedy)
}

/// The report.
pub fn report(input: UpgradeInput<'_>) -> Report {
    let UpgradeInput { calls, objects, unknown, to, has_calls, inputs, span, top } = input;
    let count = |fate: Fate| calls.iter().filter(|(call, _)| call.fate == fate).count() as u64;
    let clients = clients_that_break(calls.iter().map(|(call, _)| *call));
    let time = |at: Option<i64>| at.map_or(Value::None, |at| Value::Text(format(at)));
    let row = |(call, owner): &(&Call, String)| -> Vec<Value> {
        vec![
            call.fate.name().into(),
            Value::text(&call.user),
            Value::text(&call.agent),
            call.version.as_str().into(),
            call.resource.as_str().into(),
            Value::text(&call.removed),
            Value::text(call.instead),
            call.requests.map_or(Value::None, Value::Count),
            time(call.span.map(|span| span.1)),
            Value::text(owner.as_str()),
            time(call.span.map(|span| span.0)),
            Value::text(&call.cluster),
        ]
    };
    let breaks = count(Fate::Breaks);
    let named = clients.iter().filter(|[_, user, _]| !user.is_empty()).count() as u64;
    let is_unnamed = calls.iter().any(|(call, _)| call.fate == Fate::Breaks && call.requests.is_none());
    let whose = match (named, is_unnamed) {
        (0, true) => "clients that metrics do not name".to_owned(),
        (_, true) => format!("{} and of others that metrics do not name", counted(named, "client")),
        _ => counted(named, "client"),
    };
    let mut lead = match breaks {
        0 => format!("No call was seen that an apiserver marked as not served by Kubernetes 1.{}.", to.0),
        _ => format!(
            "{} of {whose} would fail on Kubernetes 1.{}.",
            counted(breaks, "kind") + " of deprecated API calls",
            to.0
        ),
    };
    match span {
        Some((from, to)) => {
            let (from, to) = (second(from), second(to));
            lead += &format!(" Looked at: {from} to {to}; a job that runs more rarely is not in it.");
        }
        None if !has_calls => {
            lead =
                "There is no audit log and no metrics page with anything in it: nobody knows who calls what.".to_owned()
        }
        None => lead += " There is no audit log: metrics name no clients, and forget calls when an apiserver restarts.",
    }
    let breaking = objects.iter().filter(|(own, _)| own.fate == Fate::Breaks);
    // Several may have written one.
    let ones: BTreeSet<[&str; 4]> = breaking
        .flat_map(|(own, _)| {
            own.names.iter().map(|name| [&own.cluster, &own.kind, &own.namespace, name].map(String::as_str))
        })
        .collect();
    let old = ones.len() as u64;
    if old > 0 {
        let were = if old == 1 { "was" } else { "were" };
        lead += &format!(
            " {} {were} written in versions that 1.{} does not serve: their manifests can't be applied again.",
            counted(old, "object"),
            to.0
        );
    }
    let old_row = |(own, owner): &(&OldObjects, String)| -> Vec<Value> {
        vec![
            own.fate.name().into(),
            own.kind.as_str().into(),
            Value::text(&own.namespace),
            Value::Count(own.names.len() as u64),
            own.version.as_str().into(),
            Value::text(&own.by),
            format!("1.{}", own.removed.0).as_str().into(),
            Value::text(own.instead),
            Value::text(owner.as_str()),
            Value::text(&own.cluster),
        ]
    };
    let findings = calls
        .iter()
        .filter(|(call, _)| call.fate == Fate::Breaks)
        .map(|(call, owner)| finding(call, owner, to, span.unwrap_or_default()))
        .chain(
            objects.iter().filter(|(own, _)| own.fate == Fate::Breaks).map(|(own, owner)| old_finding(own, owner, to)),
        )
        .collect();
    let totals = [
        ("calls".to_owned(), Value::Count(calls.len() as u64)),
        ("clients_that_break".to_owned(), Value::Count(clients.len() as u64)),
        ("old_objects".to_owned(), Value::Count(old)),
    ];
    let by_fate = Fate::ALL.map(|fate| (fate.name().replace('-', "_"), Value::Count(count(fate))));
    let shown = top.unwrap_or(calls.len());
    let mut notes = Vec::new();
    if calls.len() > shown {
        notes.push(format!("{} more; --top 0 shows all", counted((calls.len() - shown) as u64, "call")));
    }
    if let Some(more) = top.and_then(|top| objects.len().checked_sub(top)).filter(|more| *more > 0) {
        let more = counted(more as u64, "more row");
        notes.push(format!("{more} of objects of old versions; --top 0 shows all"));
    }
    if !unknown.is_empty() {
        let some: Vec<&str> = unknown.iter().take(NAMED).map(String::as_str).collect();
        let more = if unknown.len() > NAMED { ", …" } else { "" };
        notes.push(format!(
            "Objects were written in versions of which it is not known when they end: {}{more}",
            some.join(", ")
        ));
    }
    let table = Table {
        name: "calls".to_owned(),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: calls.iter().take(shown).map(row).collect(),
        ..Table::default()
    };
    let old_table = Table {
        name: "objects".to_owned(),
        title: "Objects written in versions that end".to_owned(),
        columns: OBJECT_COLUMNS.map(str::to_owned).to_vec(),
        rows: objects.iter().take(top.unwrap_or(objects.len())).map(old_row).collect(),
        ..Table::default()
    };
    let has_rows = |table: &&Table| !table.rows.is_empty();
    let mut report = Report {
        people: Some([&table, &old_table].into_iter().filter(has_rows).cloned().collect()),
        tables: vec![old_table],
        schema: "plimsoll.upgrade/v1".to_owned(),
        inputs,
        window: Window::of(span),
        totals: totals.into_iter().chain(by_fate).collect(),
        table,
        lead: vec![lead],
        notes,
        findings,
        ..Report::default()
    };
    report.coverage.insert("unknown_versions".to_owned(), unknown.into_iter().collect::<Vec<String>>().into());
    report.coverage.insert("to_version".to_owned(), format!("1.{}", to.0).into());
    report
}
