//! What `plimsoll guard events` says: a timeline, findings, what the log hides.

use super::classify::Seen;
use super::rules::Rule;
use super::words::{gone, outcome, summary, what, who};
use crate::analysis::guard::group::{Evictions, Group};
use crate::model::input::{Coverage, InputReport};
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::time::{self, Micros};
use crate::model::units::{counted, grouped};
use serde_json::json;
use std::collections::BTreeMap;

/// Findings that people are shown where they did not say how many.
const FINDINGS: usize = 8;

/// What a report is made of besides rows.
#[derive(Debug, Default)]
pub struct GuardInput {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// What the logs show.
    pub logged: Coverage,
    /// How close in time operations are one row.
    pub window: Micros,
    /// Rows to show.
    pub top: Option<usize>,
    /// Only rows as grave as this.
    pub least: Severity,
    /// Names of the databases that were compared.
    pub databases: Vec<String>,
}

const SCHEMA: &str = "plimsoll.guard.events/v1";

/// A row with its rule, and how grave it is.
type Row<'a> = (&'a Group, &'static Rule, Severity);

const COLUMNS: [&str; 31] = [
    "at",
    "until",
    "severity",
    "kind",
    "user",
    "impersonated",
    "agent",
    "source",
    "verb",
    "group",
    "resource",
    "subresource",
    "namespaces",
    "names",
    "count",
    "done",
    "refused",
    "failed",
    "unsure",
    "most_in_window",
    "objects",
    "evictions",
    "evicted",
    "evictions_failed",
    "objects_by_resource",
    "collections",
    "owners",
    "details",
    "level",
    "where",
    "stopped_by",
];

/// Columns for people.
const SHOWN: [&str; 6] = ["guard_at", "guard_severity", "guard_who", "guard_what", "guard_outcome", "guard_gone"];

/// The report.
pub fn report(groups: &[Group], seen: &Seen, input: GuardInput) -> Report {
    let mut rows: Vec<Row<'_>> = groups.iter().filter_map(row).collect();
    rows.retain(|(.., severity)| *severity >= input.least);
    let mut report = Report { schema: SCHEMA.to_owned(), shown: input.top, ..Report::default() };
    report.window = Window::of(input.logged.first.zip(input.logged.last));
    report.lead = lead(&rows, seen, &input);
    report.totals = totals(&rows, seen);
    report.coverage.insert("window_s".to_owned(), json!(input.window as f64 / 1e6));
    report.coverage.insert("databases".to_owned(), json!(input.databases));
    report.coverage.insert("hidden_writes".to_owned(), json!(seen.hidden.iter().collect::<BTreeMap<_, _>>()));
    report.table = table(&rows);
    let is_one_day = rows.iter().all(|(group, ..)| day(group.first.at) == day(rows[0].0.first.at));
    let is_one_cluster = rows.iter().all(|(group, ..)| group.first.cluster == rows[0].0.first.cluster);
    let shown = rows
        .iter()
        .take(input.top.unwrap_or(usize::MAX))
        .map(|row| for_people(row, is_one_day, is_one_cluster))
        .collect();
    report.people = Some(vec![Table { columns: SHOWN.map(str::to_owned).to_vec(), rows: shown, ..Table::default() }]);
    let mut findings: Vec<Finding> =
        rows.iter().filter(|(.., severity)| *severity > Severity::Info).map(finding).collect();
    // As stable as the order in time before it.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    report.findings_shown = Some(findings.len().min(input.top.unwrap_or(FINDINGS)));
    let hidden = findings.len() - report.findings_shown.unwrap_or_default();
    report.findings = findings;
    report.notes = notes(&rows, seen, &input);
    if hidden > 0 {
        report.notes.push(format!("{} more: -o json", counted(hidden as u64, "finding")));
    }
    report.inputs = input.inputs;
    report
}

/// What is reported while logs are followed: these rows, and a line for each.
pub fn news(groups: &[Group]) -> Report {
    let rows: Vec<Row<'_>> = groups.iter().filter_map(row).collect();
    let line = |(group, _, severity): &Row<'_>| {
        format!("{} {:<8}\t{}", time::second(group.first.at), severity.name(), summary(group))
    };
    Report {
        schema: SCHEMA.to_owned(),
        lead: rows.iter().map(line).collect(),
        people: Some(Vec::new()),
        findings: rows.iter().filter(|(.., severity)| *severity > Severity::Info).map(finding).collect(),
        findings_shown: Some(0),
        table: table(&rows),
        ..Report::default()
    }
}

fn table(rows: &[Row<'_>]) -> Table {
    Table {
        name: "operations".to_owned(),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows.iter().map(cells).collect(),
        ..Table::default()
    }
}

fn row(group: &Group) -> Option<Row<'_>> {
    Rule::of(group.first.kind).map(|rule| (group, rule, group.severity()))
}

fn day(at: Micros) -> i64 {
    at.div_euclid(crate::model::series::DAY)
}

fn count(rows: &[Row<'_>], severity: Severity) -> u64 {
    rows.iter().filter(|(.., one)| *one == severity).count() as u64
}

fn totals(rows: &[Row<'_>], seen: &Seen) -> Vec<(String, Value)> {
    let sum = |of: fn(&Group) -> u64| rows.iter().map(|(group, ..)| of(group)).sum::<u64>();
    [
        ("events", seen.events),
        ("rows", rows.len() as u64),
        ("operations", sum(|group| group.count + group.evictions.as_ref().map_or(0, |evictions| evictions.requests))),
        ("done", sum(|group| group.done)),
        ("refused", sum(|group| group.refused)),
        ("critical", count(rows, Severity::Critical)),
        ("warning", count(rows, Severity::Warning)),
        ("dry_runs", seen.dry_runs),
        ("beyond", seen.beyond),
    ]
    .map(|(name, value)| (name.to_owned(), Value::Count(value)))
    .to_vec()
}

fn lead(rows: &[Row<'_>], seen: &Seen, input: &GuardInput) -> Vec<String> {
    let window = Window::of(input.logged.first.zip(input.logged.last));
    let mut actors: Vec<&str> = rows.iter().map(|(group, ..)| group.first.user.as_str()).collect();
    actors.sort_unstable();
    actors.dedup();
    let events = counted(seen.events, "request");
    if seen.events == 0 {
        return vec!["No requests are logged here.".to_owned()];
    }
    if rows.is_empty() {
        return vec![format!("No dangerous operation found in {events} from {} to {}.", window.from, window.to)];
    }
    vec![
        format!(
            "{} by {}: {} critical, {}, {}.",
            counted(rows.len() as u64, "dangerous operation"),
            counted(actors.len() as u64, "actor"),
            count(rows, Severity::Critical),
            counted(count(rows, Severity::Warning), "warning"),
            counted(count(rows, Severity::Info), "note")
        ),
        format!("From {events}, {} to {} (UTC).", window.from, window.to),
    ]
}

fn for_people((group, _, severity): &Row<'_>, is_one_day: bool, is_one_cluster: bool) -> Vec<Value> {
    let at = time::format(group.first.at);
    // Of one day the time will do: the line above has the date.
    let at = at.get(if is_one_day { 11..19 } else { 0..19 }).unwrap_or(&at).replace('T', " ");
    vec![
        Value::Text(at),
        severity.name().into(),
        Value::Text(if is_one_cluster { who(group) } else { format!("{} in {}", who(group), group.first.cluster) }),
        Value::Text(what(group)),
        Value::Text(outcome(group)),
        Value::text(gone(group)),
    ]
}

fn cells((group, rule, severity): &Row<'_>) -> Vec<Value> {
    let first = &group.first;
    let text = |text: &str| Value::Text(text.to_owned());
    let evictions = |of: fn(&Evictions) -> u64| Value::from(group.evictions.as_deref().map(of));
    vec![
        Value::Text(time::format(first.at)),
        Value::Text(time::format(group.until())),
        severity.name().into(),
        first.kind.into(),
        text(&first.user),
        text(&first.impersonated),
        text(&first.agent),
        text(&first.source),
        text(&first.verb),
        text(&first.group),
        text(&first.resource),
        text(&first.subresource),
        Value::Json(json!(group.namespaces)),
        Value::Json(json!(group.names)),
        Value::Count(group.count),
        Value::Count(group.done),
        Value::Count(group.refused),
        Value::Count(group.failed),
        Value::Count(group.unsure),
        Value::Count(group.most),
        // Not known is not none.
        if gone(group) == "unknown" { Value::None } else { Value::Count(group.cascade.total()) },
        evictions(|evictions| evictions.requests),
        evictions(|evictions| evictions.pods),
        evictions(|evictions| evictions.failed),
        Value::Json(json!(group.cascade.objects)),
        Value::Json(json!(group.cascade.collections)),
        Value::Json(json!(group.owners)),
        Value::Json(json!(group.details())),
        first.level.into(),
        Value::Json(json!({"cluster": first.cluster, "instances": group.instances, "audit_id": first.audit_id})),
        rule.stopped_by.into(),
    ]
}

fn finding((group, rule, severity): &Row<'_>) -> Finding {
    let first = &group.first;
    let named = if group.names.len() == 1 { group.names[0].as_str() } else { "" };
    let subject = [
        ("cluster", first.cluster.as_str()),
        ("user", &first.user),
        ("impersonated", &first.impersonated),
        ("group", &first.group),
        ("resource", &first.resource),
        ("namespace", &first.namespace),
        ("name", named),
    ];
    Finding::new(&format!("guard-{}", first.kind), *severity, &subject)
        .seen((first.at, group.last))
        .summary(summary(group))
        .evidence(json!({
            "count": group.count,
            "done": group.done,
            "refused": group.refused,
            "failed": group.failed,
            "unsure": group.unsure,
            "most_in_window": group.most,
            "namespaces": group.namespaces.len(),
            "objects": group.cascade.total(),
            "objects_known": group.cascade.by_databases,
            "owners": group.owners,
            "audit_id": first.audit_id,
        }))
        .remedy(format!("prevention: {}", rule.stopped_by))
}

/// What people should know: what the log does not show.
fn notes(rows: &[Row<'_>], seen: &Seen, input: &GuardInput) -> Vec<String> {
    let mut notes = Vec::new();
    let lost = |kind: &str| {
        rows.iter().any(|(group, ..)| group.first.kind == kind && group.done > 0 && !group.cascade.by_databases)
    };
    let unsaid = [
        ("delete-crd", "custom resources are deleted with their CRD without audit events"),
        (
            "delete-namespace",
            "most of a namespace is deleted by deletecollection, whose audit event lacks the number of objects",
        ),
        ("delete-collection", "the audit event of deletecollection lacks the number of objects"),
    ];
    let unsaid: Vec<&str> = unsaid.into_iter().filter(|(kind, _)| lost(kind)).map(|(_, why)| why).collect();
    if !unsaid.is_empty() {
        let why = unsaid.join("; ");
        notes.push(format!(
            "CASCADE counts only what the log shows: {why}. Give etcd databases (--before, --after) for the full \
             count"
        ));
    }
    if !seen.hidden.is_empty() {
        let mut hidden: Vec<(&String, &u64)> = seen.hidden.iter().collect();
        hidden.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let named: Vec<String> =
            hidden.iter().take(4).map(|(what, count)| format!("{} {what}", grouped(**count))).collect();
        notes.push(format!(
            "Unknown: the changes of {} (the audit level Metadata logs no bodies). They may include scaling to zero, \
             cordons and removed finalizers; level Request shows them",
            named.join(", ")
        ));
    }
    if seen.dry_runs > 0 {
        notes.push(format!("{} left out", counted(seen.dry_runs, "dry run")));
    }
    if seen.beyond > 0 {
        notes.push(format!(
            "{} more were left out (too many to keep); narrow with --since and --until",
            counted(seen.beyond, "operation")
        ));
    }
    notes.extend((input.databases.len() == 2).then(|| {
        format!("Deleted objects: those in {} that are missing in {}", input.databases[0], input.databases[1])
    }));
    notes
}
