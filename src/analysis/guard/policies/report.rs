//! What `plimsoll guard policies SOURCE` says: what each policy would have said to the requests of a log.

use super::replay::Decision;
use super::requests::{ClusterContext, Request};
use super::{Policy, Terms};
use crate::model::input::InputReport;
use crate::model::registry::qualified;
use crate::model::report::{Report, Table, Value, Window};
use crate::model::time;
use crate::model::units::{counted, grouped};
use std::collections::BTreeMap;

/// What a report is made of besides requests.
#[derive(Debug, Default)]
pub struct PoliciesInput {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// When it begins and ends.
    pub window: Window,
    /// Events that were looked at.
    pub events: u64,
    /// Requests that were not held.
    pub beyond: u64,
    /// The database that shows what objects were like.
    pub database: Option<String>,
    /// Rows to show.
    pub top: Option<usize>,
}

const COLUMNS: [&str; 7] = ["policy", "protects", "asked", "denied", "allowed", "undecided", "undecided_because"];

const DENIED: [&str; 10] =
    ["at", "policy", "user", "agent", "verb", "group", "resource", "namespace", "name", "audit_id"];

/// Columns for people.
const SHOWN: [&str; 6] =
    ["policy", "policy_asked", "policy_denied", "policy_allowed", "policy_undecided", "policy_because"];
const SHOWN_DENIED: [&str; 4] = ["guard_at", "policy", "guard_who", "guard_what"];

/// What a policy said to all requests.
#[derive(Default)]
struct Count<'w> {
    denied: Vec<&'w Request>,
    allowed: u64,
    undecided: BTreeMap<&'static str, u64>,
}

/// The report. `requests` are in the order of time.
pub fn report(
    policies: &[&Policy],
    terms: &Terms,
    requests: &[Request],
    known: &ClusterContext,
    input: PoliciesInput,
) -> Report {
    let count = |policy: &Policy| {
        let mut count = Count::default();
        for (request, decision) in requests.iter().zip(known.decide_all(policy, terms, requests)) {
            match decision {
                Decision::NotAsked => {}
                Decision::Allow => count.allowed += 1,
                Decision::Deny => count.denied.push(request),
                Decision::Unknown(why) => *count.undecided.entry(why).or_default() += 1,
            }
        }
        count
    };
    let counts: Vec<(&Policy, Count<'_>)> = policies.iter().map(|policy| (*policy, count(policy))).collect();
    let mut report = Report { schema: "plimsoll.guard.policies/v1".to_owned(), ..Report::default() };
    let sum = |of: fn(&Count<'_>) -> u64| counts.iter().map(|(_, count)| of(count)).sum::<u64>();
    let [denied, allowed, undecided] = [
        sum(|count| count.denied.len() as u64),
        sum(|count| count.allowed),
        sum(|count| count.undecided.values().sum()),
    ];
    report.lead = vec![
        format!(
            "{} policies over {}: {} denied, {} let through, {} undecided.",
            policies.len(),
            counted(input.events, "request"),
            grouped(denied),
            grouped(allowed),
            grouped(undecided)
        ),
        format!("{} to {} (UTC).", input.window.from, input.window.to),
    ];
    if input.events == 0 {
        report.lead = vec!["No requests are logged here.".to_owned()];
    }
    report.totals = [
        ("events", input.events),
        ("requests", requests.len() as u64),
        ("denied", denied),
        ("allowed", allowed),
        ("undecided", undecided),
        ("beyond", input.beyond),
    ]
    .map(|(name, value)| (name.to_owned(), Value::Count(value)))
    .to_vec();
    let because = |count: &Count<'_>| {
        let why = count.undecided.iter().max_by_key(|(_, count)| **count).map(|(why, _)| (*why).to_owned());
        why.map_or(Value::None, Value::Text)
    };
    let asked = |count: &Count<'_>| count.denied.len() as u64 + count.allowed + count.undecided.values().sum::<u64>();
    let row = |(policy, count): &(&Policy, Count<'_>), is_for_people: bool| {
        let mut row: Vec<Value> = vec![Value::Text(policy.name.to_owned())];
        if !is_for_people {
            row.push(Value::Text(policy.what.to_owned()));
        }
        let counts = [asked(count), count.denied.len() as u64, count.allowed, count.undecided.values().sum()];
        row.extend(counts.map(Value::Count));
        row.push(because(count));
        row
    };
    report.table = table("policies", &COLUMNS, counts.iter().map(|one| row(one, false)).collect());
    let mut denials: Vec<(&Policy, &Request)> =
        counts.iter().flat_map(|(policy, count)| count.denied.iter().map(move |request| (*policy, *request))).collect();
    denials.sort_by(|a, b| (a.1.at, a.0.name, &a.1.audit_id).cmp(&(b.1.at, b.0.name, &b.1.audit_id)));
    report.tables = vec![table("denied", &DENIED, denials.iter().map(denial).collect())];
    let most = input.top.unwrap_or(usize::MAX);
    let mut people = vec![table("", &SHOWN, counts.iter().map(|one| row(one, true)).collect())];
    if !denials.is_empty() {
        let title = "What would have been denied".to_owned();
        let rows = denials.iter().take(most).map(for_people).collect();
        people.push(Table { title, ..table("", &SHOWN_DENIED, rows) });
    }
    report.people = Some(people);
    if denials.len() > most {
        report.notes.push(format!("{} more denied; --top 0 shows all", grouped((denials.len() - most) as u64)));
    }
    if undecided > 0 && input.database.is_none() {
        report.notes.push(
            "Undecided: the labels and annotations of these objects are unknown; an earlier etcd database (--before) \
             has them"
                .to_owned(),
        );
    }
    report
        .notes
        .extend(input.database.map(|path| format!("Objects as they are in {path}; objects created later are unknown")));
    if input.beyond > 0 {
        report.notes.push(format!("{} more were left out (too many to keep)", counted(input.beyond, "request")));
    }
    (report.inputs, report.window) = (input.inputs, input.window);
    report
}

fn table(name: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Table {
    Table {
        name: name.to_owned(),
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rows,
        ..Table::default()
    }
}

fn denial((policy, request): &(&Policy, &Request)) -> Vec<Value> {
    let text = |text: &str| Value::Text(text.to_owned());
    let target = &request.target;
    vec![
        Value::Text(time::format(request.at)),
        text(policy.name),
        text(&request.user),
        text(&request.agent),
        text(&request.verb),
        text(&target.group),
        text(&target.resource),
        text(&target.namespace),
        text(&target.name),
        text(&request.audit_id),
    ]
}

fn for_people((policy, request): &(&Policy, &Request)) -> Vec<Value> {
    let at = time::format(request.at);
    let target = &request.target;
    let within = if target.namespace.is_empty() || target.resource == "namespaces" {
        String::new()
    } else {
        format!(" in {}", target.namespace)
    };
    let what = format!("{} {} {}{within}", request.verb, qualified(&target.group, &target.resource), target.name);
    vec![
        Value::Text(at.get(..19).unwrap_or(&at).replace('T', " ")),
        Value::Text(policy.name.to_owned()),
        Value::Text(request.user.clone()),
        Value::Text(what),
    ]
}
