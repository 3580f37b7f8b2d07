//! Proposals and what lint finds, as reports.

use crate::analysis::quota::api::{ApiQuota, Demands};
use crate::analysis::quota::propose::{Censored, Commitment, Proposal, Proposals, Rules};
use crate::model::quantity::Quantity;
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::time::{self, Micros};
use crate::model::units::{counted, percent};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What a report is made of besides proposals.
#[derive(Debug, Default)]
pub struct QuotaInput {
    /// What was read.
    pub inputs: Vec<crate::model::input::InputReport>,
    /// Whether rows are projects.
    pub of_projects: bool,
    /// Whether there were audit logs to distinguish refusals from.
    pub has_logs: bool,
    /// Rows to show people.
    pub top: Option<usize>,
    /// Field to sort by.
    pub sort_by: Option<String>,
}

/// Fields of a row that it can be sorted by; `namespace` is called `project` where rows are projects.
pub const FIELDS: [&str; 14] = [
    "namespace",
    "project",
    "quota",
    "resource",
    "peak",
    "peak_at",
    "sustained",
    "used",
    "hard",
    "proposed",
    "change",
    "censored",
    "refused",
    "days",
];

fn text(quantity: Option<Quantity>) -> Value {
    quantity.map(|quantity| quantity.to_string()).map_or(Value::None, Value::Text)
}

/// A number that people read beside, as text.
fn number(quantity: Option<Quantity>) -> Value {
    quantity.map_or(Value::Json(serde_json::Value::Null), |quantity| Value::Json(json!(quantity.value())))
}

/// The report of `quota propose`.
pub fn proposed(proposals: &Proposals, commitments: &[Commitment], rules: &Rules, input: QuotaInput) -> Report {
    let first = if input.of_projects { "project" } else { "namespace" };
    let columns = [
        first,
        "quota",
        "resource",
        "peak",
        "peak_at",
        "sustained",
        "spike",
        "used",
        "hard",
        "proposed",
        "change",
        "censored",
        "refused",
        "days",
        "reason",
        "peak_value",
        "used_value",
        "hard_value",
        "proposed_value",
    ];
    let mut rows: Vec<&Proposal> = proposals.rows.iter().collect();
    if let Some(field) = &input.sort_by {
        rows.sort_by(|a, b| ordered(a, b, field));
    }
    let row = |row: &&Proposal| {
        let censored = match row.censored {
            Some(Censored::Refused) => "refused",
            Some(Censored::AtQuota) => "at-quota",
            None => "no",
        };
        let spike = match (row.sustained, row.is_spike) {
            (None, _) => "unknown",
            (_, true) => "yes",
            (_, false) => "no",
        };
        vec![
            Value::Text(row.namespace.clone()),
            Value::Text(row.quota.clone()),
            Value::Text(row.resource.clone()),
            text(Some(row.peak)),
            Value::Text(time::format(row.peak_at)),
            text(row.sustained),
            spike.into(),
            text(Some(row.used)),
            text(row.hard),
            text(Some(row.proposed)),
            row.change().into(),
            censored.into(),
            row.refused.into(),
            row.days.into(),
            Value::Text(row.reason(rules)),
            number(Some(row.peak)),
            number(Some(row.used)),
            number(row.hard),
            number(Some(row.proposed)),
        ]
    };
    let table = Table {
        name: "rows".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().map(row).collect(),
        ..Table::default()
    };
    let names: BTreeSet<&str> = proposals.rows.iter().map(|row| row.namespace.as_str()).collect();
    let mut notes = Vec::new();
    let days = proposals.rows.iter().map(|row| row.days).max().unwrap_or_default();
    if days < 7 && !proposals.rows.is_empty() {
        notes.push(format!(
            "Only {} of history: a weekly peak may be missing; plimsoll record collects history, --prometheus \
             queries it.",
            counted(days, "day")
        ));
    }
    notes.extend(left_out(proposals));
    if proposals.rows.iter().any(|row| row.censored == Some(Censored::AtQuota)) && !input.has_logs {
        notes.push(
            "Where usage was at its quota (95% and more), demand may be higher: audit logs as further input show \
             denied requests."
                .to_owned(),
        );
    }
    let mut findings = Vec::new();
    for row in commitments.iter().filter(|row| row.proposed > row.allocatable) {
        let summary = format!(
            "proposed quotas for {} add up to {}, {} of the nodes' allocatable ({})",
            row.resource,
            row.proposed,
            percent(row.proposed.value() / row.allocatable.value()),
            row.allocatable
        );
        let [proposed, allocatable, hard] = [row.proposed, row.allocatable, row.hard].map(|amount| amount.to_string());
        let finding = Finding::new("quota-overcommitted", Severity::Info, &[("resource", &row.resource)])
            .summary(summary)
            .evidence(json!({"proposed": proposed, "allocatable": allocatable, "hard": hard}))
            .remedy(
                "some overcommitment is common, because namespaces rarely peak together; if yours can, add nodes or \
                 lower quotas",
            );
        findings.push(finding);
    }
    let commitment = |row: &Commitment| {
        let share = |of: Quantity| {
            if row.allocatable.is_zero() { Value::None } else { Value::from(of.value() / row.allocatable.value()) }
        };
        vec![
            Value::Text(row.resource.clone()),
            text(Some(row.allocatable)),
            text(Some(row.hard)),
            text(Some(row.proposed)),
            share(row.hard),
            share(row.proposed),
        ]
    };
    let cluster = Table {
        name: "cluster".to_owned(),
        title: "Compared with node capacity".to_owned(),
        columns: ["resource", "allocatable", "hard", "proposed", "hard_share", "proposed_share"]
            .map(str::to_owned)
            .to_vec(),
        rows: commitments.iter().map(commitment).collect(),
        ..Table::default()
    };
    let shown = input.top.unwrap_or(table.rows.len()).min(table.rows.len());
    if shown < table.rows.len() {
        notes.push(format!("{shown} of {} limits; --top 0, -o json, yaml and csv show all.", table.rows.len()));
    }
    let first_rows = Table { rows: table.rows[..shown].to_vec(), ..table.clone() };
    let people = if cluster.rows.is_empty() { vec![first_rows] } else { vec![first_rows, cluster.clone()] };
    let mut coverage = serde_json::Map::new();
    coverage.insert("days".to_owned(), days.into());
    coverage.insert("audit_logs".to_owned(), input.has_logs.into());
    let silent: Vec<serde_json::Value> = proposals
        .left_out
        .iter()
        .map(|(namespace, resource)| json!({"namespace": namespace, "resource": resource}))
        .collect();
    coverage.insert("left_out".to_owned(), silent.into());
    Report {
        schema: "plimsoll.quota-propose/v1".to_owned(),
        inputs: input.inputs,
        window: Window::of(proposals.span),
        coverage,
        totals: vec![
            ("namespaces".to_owned(), (names.len() as u64).into()),
            ("proposals".to_owned(), (proposals.rows.len() as u64).into()),
            ("headroom".to_owned(), rules.headroom.into()),
        ],
        lead: vec![format!(
            "{} for {}: {} + {} headroom, rounded up.",
            counted(proposals.rows.len() as u64, "limit"),
            counted(names.len() as u64, if input.of_projects { "project" } else { "namespace" }),
            match rules.peak {
                super::propose::Peak::Max => "the peak of usage",
                super::propose::Peak::P999 => "the 99.9th percentile of usage",
                super::propose::Peak::P99 => "the 99th percentile of usage",
            },
            rules.headroom_in_words()
        )],
        shown: input.top,
        people: Some(people),
        table,
        tables: if commitments.is_empty() { Vec::new() } else { vec![cluster] },
        notes,
        findings,
        ..Report::default()
    }
}

fn ordered(a: &Proposal, b: &Proposal, field: &str) -> std::cmp::Ordering {
    match field {
        "namespace" | "project" => a.namespace.cmp(&b.namespace),
        "quota" => a.quota.cmp(&b.quota),
        "resource" => a.resource.cmp(&b.resource),
        "peak" => b.peak.cmp(&a.peak),
        "peak_at" => b.peak_at.cmp(&a.peak_at),
        "sustained" => b.sustained.cmp(&a.sustained),
        "used" => b.used.cmp(&a.used),
        "hard" => b.hard.cmp(&a.hard),
        "proposed" => b.proposed.cmp(&a.proposed),
        "censored" => (b.censored.is_some(), b.refused).cmp(&(a.censored.is_some(), a.refused)),
        "refused" => b.refused.cmp(&a.refused),
        "days" => b.days.cmp(&a.days),
        // Change: the largest, up or down.
        _ => b.change().map(f64::abs).unwrap_or(-1.0).total_cmp(&a.change().map(f64::abs).unwrap_or(-1.0)),
    }
}

/// A sentence on namespaces that get no quota since their containers are silent.
fn left_out(proposals: &Proposals) -> Option<String> {
    let names: BTreeSet<&str> = proposals.left_out.iter().map(|(namespace, _)| namespace.as_str()).collect();
    let first: Vec<&str> = names.iter().copied().take(5).collect();
    let others = if names.len() > first.len() { ", …" } else { "" };
    (!names.is_empty()).then(|| {
        format!(
            "In {} some containers have no requests, so a quota would reject their pods: those resources are left \
             out ({}{others}); --limit-range adds defaults and includes them.",
            counted(names.len() as u64, "namespace"),
            first.join(", ")
        )
    })
}

/// The report of `quota lint`: a row for each finding; people get them counted by what they are, and the gravest in
/// full.
pub fn linted(
    findings: Vec<Finding>,
    at: Micros,
    inputs: Vec<crate::model::input::InputReport>,
    top: Option<usize>,
) -> Report {
    let columns = ["severity", "namespace", "quota", "resource", "kind", "name", "problem", "summary"];
    let row = |finding: &Finding| {
        let subject = |name: &str| Value::Text(finding.subject.get(name).cloned().unwrap_or_default());
        let severity = finding.severity.name().into();
        let (id, summary) = (Value::Text(finding.id.clone()), Value::Text(finding.summary.clone()));
        [vec![severity], columns[1..6].iter().map(|name| subject(name)).collect(), vec![id, summary]].concat()
    };
    // Findings of one kind, and in which namespaces.
    #[derive(Default)]
    struct Kind<'f> {
        count: u64,
        namespaces: BTreeSet<&'f str>,
    }
    let mut counts: BTreeMap<(Reverse<Severity>, &str), Kind<'_>> = BTreeMap::new();
    for finding in &findings {
        let kind = counts.entry((Reverse(finding.severity), &finding.id)).or_default();
        kind.count += 1;
        kind.namespaces.extend(finding.subject.get("namespace").map(String::as_str));
    }
    let row_of = |((severity, id), kind): (&(Reverse<Severity>, &str), &Kind<'_>)| {
        vec![severity.0.name().into(), (*id).into(), kind.count.into(), (kind.namespaces.len() as u64).into()]
    };
    let by_problem = Table {
        name: "problems".to_owned(),
        columns: ["severity", "problem", "count", "namespaces"].map(str::to_owned).to_vec(),
        rows: counts.iter().map(row_of).collect(),
        ..Table::default()
    };
    let count = |severity| findings.iter().filter(|finding: &&Finding| finding.severity == severity).count() as u64;
    let of_severity =
        [Severity::Critical, Severity::Warning, Severity::Info].map(|severity| (severity.name(), count(severity)));
    let shown = top.unwrap_or(findings.len()).min(findings.len());
    let mut notes = Vec::new();
    if shown < findings.len() {
        notes.push(format!("The {shown} most severe of {} findings; --top 0 and -o json show all.", findings.len()));
    }
    Report {
        schema: "plimsoll.quota-lint/v1".to_owned(),
        inputs,
        window: Window::of((at > 0).then_some((at, at))),
        totals: of_severity.iter().map(|(name, count)| ((*name).to_owned(), Value::Count(*count))).collect(),
        lead: vec![if findings.is_empty() {
            "Nothing found.".to_owned()
        } else {
            let each: Vec<String> = of_severity
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| format!("{count} {name}"))
                .collect();
            format!("{}: {}.", counted(findings.len() as u64, "finding"), each.join(", "))
        }],
        table: Table {
            name: "rows".to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: findings.iter().map(row).collect(),
            ..Table::default()
        },
        people: Some(vec![by_problem]),
        findings_shown: Some(shown),
        notes,
        findings,
        ..Report::default()
    }
}

/// The report of `quota propose --api`. `granted`: name, shares and seats of each level, in the order of rows that get
/// one.
pub fn api(
    rows: &[ApiQuota],
    granted: &[(String, u32, u32)],
    demands: &Demands,
    inputs: Vec<crate::model::input::InputReport>,
    (top, notes): (Option<usize>, Vec<String>),
) -> Report {
    let columns = [
        "user",
        "requests",
        "peak_rps",
        "peak_seats",
        "peak_at",
        "flow_schema",
        "priority_level",
        "proposed_rps",
        "proposed_seats",
        "shares",
        "level",
        "reason",
    ];
    let mut levels = granted.iter();
    let row = |row: &ApiQuota| {
        let own = if row.without.is_empty() { levels.next() } else { None };
        vec![
            Value::Text(row.user.clone()),
            row.requests.into(),
            row.peak_rps.into(),
            row.peak_seats.into(),
            Value::Text(time::format(row.peak_at)),
            Value::Text(row.matches.first().map(|(name, _)| name.clone()).unwrap_or_default()),
            Value::Text(row.level.clone()),
            row.proposed_rps.into(),
            u64::from(row.proposed_seats).into(),
            own.map(|(_, shares, _)| u64::from(*shares)).into(),
            Value::Text(own.map(|(name, ..)| name.clone()).unwrap_or_default()),
            Value::Text(row.without.clone()),
        ]
    };
    let rows: Vec<Vec<Value>> = rows.iter().map(row).collect();
    let seats: u64 = granted.iter().map(|(.., seats)| u64::from(*seats)).sum();
    Report {
        schema: "plimsoll.quota-propose/v1".to_owned(),
        inputs,
        window: Window::of(demands.span),
        totals: vec![
            ("users".to_owned(), (demands.users.len() as u64).into()),
            ("proposals".to_owned(), (rows.len() as u64).into()),
            ("seats".to_owned(), seats.into()),
        ],
        lead: vec![format!(
            "{} of {}, by seats in use; their levels have {} together.",
            rows.len(),
            counted(demands.users.len() as u64, "user"),
            counted(seats, "seat")
        )],
        table: Table {
            name: "rows".to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows,
            headings: vec![("reason", "WHY NOT")],
            ..Table::default()
        },
        shown: top,
        notes,
        ..Report::default()
    }
}
