//! What `plimsoll guard webhooks` says.

use super::findings::{findings, stops};
use super::seen::{Seen, WebhookCalls};
use super::{Measured, MeasuredWebhooks, Namespaces};
use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Table, Value, Window};
use crate::model::time;
use crate::model::units::{counted, grouped};
use crate::model::webhooks::{Rule, Selector, Webhook};
use serde_json::json;

/// What a report is made of besides webhooks.
#[derive(Debug, Default)]
pub struct WebhooksInput {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// Whether there were audit logs.
    pub has_logs: bool,
    /// Where the configurations come from.
    pub source: String,
    /// Rows to show.
    pub top: Option<usize>,
}

const SCHEMA: &str = "plimsoll.guard.webhooks/v1";

/// Clients and resources that are named.
const NAMED: usize = 10;

/// Findings that people are shown where they did not say how many.
const FINDINGS: usize = 8;

const COLUMNS: [&str; 25] = [
    "configuration",
    "webhook",
    "type",
    "failure_policy",
    "timeout_s",
    "backend",
    "rules",
    "namespaces",
    "objects",
    "conditions",
    "requests",
    "certain",
    "perhaps",
    "rps",
    "share",
    "control_plane",
    "clients",
    "resources",
    "stops",
    "calls_per_s",
    "p50_ms",
    "p99_ms",
    "refused",
    "failed",
    "failed_open",
];

const PEOPLE: [&str; 9] = [
    "webhook",
    "failure_policy",
    "timeout_s",
    "webhook_rules",
    "webhook_requests",
    "control_plane",
    "p99_ms",
    "failed",
    "failed_open",
];

/// The report.
pub fn report(
    webhooks: &[Webhook],
    seen: &Seen,
    measured: &MeasuredWebhooks,
    namespaces: &Namespaces,
    input: WebhooksInput,
) -> Report {
    let span = seen.span.map(|(from, to)| (time::format(from), time::format(to), (to - from) as f64 / 1e6));
    let (from, to, seconds) = span.unwrap_or_default();
    let none = WebhookCalls::default();
    let mut of: Vec<(&Webhook, &WebhookCalls, Option<&Measured>)> = webhooks
        .iter()
        .enumerate()
        .map(|(at, webhook)| {
            (webhook, seen.met.get(at).unwrap_or(&none), measured.get(&(webhook.name.clone(), webhook.mutates)))
        })
        .collect();
    // Those that stop most come first; then as they are configured.
    of.sort_by_key(|(webhook, met, _)| (!webhook.fails_closed, std::cmp::Reverse(met.sure + met.perhaps)));
    let mut found: Vec<Finding> = of
        .iter()
        .flat_map(|(webhook, met, measured)| {
            findings(webhook, met, *measured, namespaces, (&from, &to), input.has_logs)
        })
        .collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let rows: Vec<Vec<Value>> = of.iter().map(|one| row(one, seen, namespaces, &input, seconds)).collect();
    let shown = input.top.unwrap_or(usize::MAX);
    let people = of.iter().take(shown).map(|one| for_people(one, &input)).collect();
    let mut report = Report { schema: SCHEMA.to_owned(), ..Report::default() };
    report.lead = lead(&of, seen, namespaces, &input);
    report.totals = vec![
        ("webhooks".to_owned(), Value::Count(webhooks.len() as u64)),
        ("fail_closed".to_owned(), Value::Count(webhooks.iter().filter(|webhook| webhook.fails_closed).count() as u64)),
        ("writes".to_owned(), if input.has_logs { Value::Count(seen.writes) } else { Value::None }),
    ];
    report.coverage.insert("configurations".to_owned(), json!(input.source));
    report.coverage.insert("namespaces_known".to_owned(), json!(namespaces.len()));
    report.window = Window { from, to, seconds };
    report.table =
        Table { name: "webhooks".to_owned(), columns: COLUMNS.map(str::to_owned).to_vec(), rows, ..Table::default() };
    report.people = Some(vec![Table { columns: PEOPLE.map(str::to_owned).to_vec(), rows: people, ..Table::default() }]);
    report.findings_shown = Some(found.len().min(input.top.unwrap_or(FINDINGS)));
    if found.len() > FINDINGS && input.top.is_none() {
        report.notes.push(format!("{} more: -o json", counted((found.len() - FINDINGS) as u64, "finding")));
    }
    if !input.has_logs {
        report.notes.push("No audit log: the number of requests that the webhooks check is unknown.".to_owned());
    }
    if measured.is_empty() {
        report.notes.push("No metrics: their latency and failures are unknown.".to_owned());
    }
    report.findings = found;
    report.inputs = input.inputs;
    report
}

/// `CREATE,UPDATE pods, deployments.apps`.
fn rule_in_words(rule: &Rule) -> String {
    let group = |group: &String| match group.as_str() {
        "" => String::new(),
        "*" => ".*".to_owned(),
        group => format!(".{group}"),
    };
    let all = |list: &[String]| list.iter().any(|one| one == "*");
    let resources: Vec<String> =
        match (all(&rule.resources) || rule.resources.iter().any(|one| one == "*/*"), all(&rule.groups)) {
            (true, true) => vec!["everything".to_owned()],
            (_, true) => rule.resources.clone(),
            _ => rule
                .groups
                .iter()
                .flat_map(|of| rule.resources.iter().map(move |resource| format!("{resource}{}", group(of))))
                .collect(),
        };
    let operations = if all(&rule.operations) { "any".to_owned() } else { rule.operations.join(",") };
    format!("{operations} {}", resources.join(", "))
}

/// `env=prod, team exists`; empty where it takes all.
fn selector_in_words(selector: &Selector) -> String {
    let labels = selector.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.expressions.iter().map(|one| match one.operator.as_str() {
        "In" => format!("{} in ({})", one.key, one.values.join(", ")),
        "NotIn" => format!("{} not in ({})", one.key, one.values.join(", ")),
        "Exists" => format!("has {}", one.key),
        "DoesNotExist" => format!("no {}", one.key),
        other => format!("{} {other}", one.key),
    });
    labels.chain(expressions).collect::<Vec<_>>().join(" and ")
}

fn kind(webhook: &Webhook) -> &'static str {
    if webhook.mutates { "mutating" } else { "validating" }
}

fn policy(webhook: &Webhook) -> &'static str {
    if webhook.fails_closed { "Fail" } else { "Ignore" }
}

fn backend(webhook: &Webhook) -> String {
    webhook.service.as_ref().map_or_else(|| webhook.url.clone(), |(namespace, name)| format!("{namespace}/{name}"))
}

fn row(
    (webhook, met, measured): &(&Webhook, &WebhookCalls, Option<&Measured>),
    seen: &Seen,
    namespaces: &Namespaces,
    input: &WebhooksInput,
    seconds: f64,
) -> Vec<Value> {
    let requests = met.sure + met.perhaps;
    let logged = |value: Value| if input.has_logs { value } else { Value::None };
    let mut clients: Vec<(&(String, String), &u64)> = met.clients.iter().collect();
    clients.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let clients: Vec<_> = clients
        .into_iter()
        .take(NAMED)
        .map(|((user, agent), count)| json!({"user": user, "agent": agent, "requests": count}))
        .collect();
    let mut resources: Vec<(&String, &u64)> = met.resources.iter().collect();
    resources.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let resources: serde_json::Map<_, _> =
        resources.into_iter().take(NAMED).map(|(name, count)| (name.clone(), json!(count))).collect();
    let rules: Vec<String> = webhook.rules.iter().map(rule_in_words).collect();
    let count = |count: fn(&Measured) -> u64| Value::from(measured.map(count));
    vec![
        webhook.configuration.as_str().into(),
        webhook.name.as_str().into(),
        kind(webhook).into(),
        policy(webhook).into(),
        Value::Count(u64::from(webhook.timeout_s)),
        backend(webhook).as_str().into(),
        Value::Json(json!(rules)),
        selector_in_words(&webhook.namespaces).as_str().into(),
        selector_in_words(&webhook.objects).as_str().into(),
        webhook.conditions.into(),
        logged(requests.into()),
        logged(met.sure.into()),
        logged(met.perhaps.into()),
        logged(if seconds > 0.0 { Value::Number(requests as f64 / seconds) } else { Value::None }),
        logged(if seen.writes > 0 { Value::Number(requests as f64 / seen.writes as f64) } else { Value::None }),
        logged(met.control_plane.into()),
        logged(Value::Json(json!(clients))),
        logged(Value::Json(json!(resources))),
        Value::Json(json!(stops(webhook, namespaces))),
        measured.and_then(|measured| measured.calls_per_s).into(),
        measured.and_then(|measured| measured.within(webhook.timeout_s)[0]).into(),
        measured.and_then(|measured| measured.within(webhook.timeout_s)[1]).into(),
        count(|measured| measured.refused),
        Value::from(
            measured
                .map(|measured| measured.failed)
                .or(input.has_logs.then_some(0))
                .map(|failed| failed.max(met.failed)),
        ),
        count(|measured| measured.failed_open),
    ]
}

fn for_people(
    (webhook, met, measured): &(&Webhook, &WebhookCalls, Option<&Measured>),
    input: &WebhooksInput,
) -> Vec<Value> {
    let rules: Vec<String> = webhook.rules.iter().map(rule_in_words).collect();
    let requests = match (input.has_logs, met.perhaps) {
        (false, _) => Value::None,
        (_, 0) => met.sure.into(),
        (_, perhaps) => format!("{} to {}", grouped(met.sure), grouped(met.sure + perhaps)).as_str().into(),
    };
    let failed =
        measured.map(|measured| measured.failed).or(input.has_logs.then_some(0)).map(|failed| failed.max(met.failed));
    vec![
        webhook.name.as_str().into(),
        policy(webhook).into(),
        Value::Count(u64::from(webhook.timeout_s)),
        rules.join("; ").as_str().into(),
        requests,
        if input.has_logs { met.control_plane.into() } else { Value::None },
        measured.and_then(|measured| measured.within(webhook.timeout_s)[1]).into(),
        failed.into(),
        measured.map(|measured| measured.failed_open).into(),
    ]
}

fn lead(
    of: &[(&Webhook, &WebhookCalls, Option<&Measured>)],
    seen: &Seen,
    namespaces: &Namespaces,
    input: &WebhooksInput,
) -> Vec<String> {
    let closed = of.iter().filter(|(webhook, ..)| webhook.fails_closed).count() as u64;
    let mut lead = vec![format!(
        "{}, from {}; {} of them fail requests while they are down (failurePolicy: Fail).",
        counted(of.len() as u64, "webhook"),
        input.source,
        grouped(closed)
    )];
    if input.has_logs {
        let by = if namespaces.is_empty() { "; labels of namespaces are unknown" } else { "" };
        lead.push(format!(
            "REQUESTS: of {} in the log, those for which the webhook is called; where its policy is Fail, they would \
             have failed if it had been down{by}.",
            counted(seen.writes, "write")
        ));
    }
    lead
}
