//! Who holds the seats, as a report.

use super::{Capture, Holder, LevelNow, SeatUse, Seats, findings};
use crate::analysis::clients::Clients;
use crate::analysis::clients::detect::ClientFinding;
use crate::analysis::dims::folded;
use crate::model::apf::Moment;
use crate::model::input::InputReport;
use crate::model::report::{Report, Severity, Table, Value, Window};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{counted, duration, grouped};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// The fields of a row.
pub const FIELDS: [&str; 21] = [
    "cluster",
    "user",
    "user_from",
    "flow_schema",
    "priority_level",
    "instances",
    "executing",
    "queued",
    "seats_executing",
    "seats_queued",
    "seats_share",
    "demand_share",
    "oldest_wait_ms",
    "longest_run_ms",
    "flows",
    "verbs",
    "resources",
    "asks",
    "agents",
    "requests",
    "client_findings",
];

/// The fields of a priority level.
const LEVELS: [&str; 17] = [
    "cluster",
    "instance",
    "priority_level",
    "state",
    "executing",
    "queued",
    "seats",
    "seats_queued",
    "limit",
    "nominal",
    "utilization",
    "oldest_wait_ms",
    "dispatched_total",
    "rejected_total",
    "timed_out_total",
    "cancelled_total",
    "refused",
];

/// The level that may take seats beyond its limit, which shrinks to what it needs.
const EXEMPT: &str = "exempt";

/// Verbs and resources of a row that people are shown.
const ASKS: usize = 2;

/// What is known beside the pages.
#[derive(Debug, Default)]
pub struct Read<'a, 'r> {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// Profiles of clients and what is wrong with them, where there are audit logs.
    pub profiles: Option<(&'a Clients<'r>, &'a [ClientFinding<'r>])>,
    /// The field to sort rows by.
    pub sort_by: Option<String>,
    /// Rows that people are shown.
    pub top: Option<usize>,
}

/// What audit logs know of a user.
#[derive(Debug, Default)]
struct UserContext<'r> {
    agents: Vec<&'r str>,
    requests: u64,
    findings: BTreeMap<&'r str, Severity>,
}

fn known<'a>(profiles: Option<(&'a Clients<'_>, &'a [ClientFinding<'_>])>, holder: &Holder) -> Option<UserContext<'a>> {
    let (clients, found) = profiles?;
    let user = folded(&holder.user);
    let same = |cluster: &str| cluster == holder.cluster || cluster.is_empty() || holder.cluster.is_empty();
    let mut known = UserContext::default();
    for profile in clients.list.iter().filter(|profile| profile.who.user == user && same(profile.who.cluster)) {
        known.agents.push(profile.who.agent);
        known.requests += profile.requests;
        for (_, finding) in found.iter().filter(|(who, _)| *who == Some(profile.who)) {
            known.findings.insert(&finding.id, finding.severity);
        }
    }
    (known.requests > 0).then_some(known)
}

/// The report.
pub fn report(seats: &Seats, read: Read<'_, '_>) -> Report {
    let mut table =
        Table { name: "holders".to_owned(), columns: FIELDS.map(str::to_owned).to_vec(), ..Table::default() };
    let mut problems = Vec::new();
    for (holder, held, instances) in &seats.holders {
        let known = known(read.profiles, holder);
        problems.push(known.as_ref().map(grave).unwrap_or_default());
        table.rows.push(row(seats, holder, held, instances, known));
    }
    let order = order(&table, read.sort_by.as_deref());
    table.rows = order.iter().map(|&at| table.rows[at].clone()).collect();
    let problems: Vec<String> = order.iter().map(|&at| problems[at].clone()).collect();
    let levels = levels(seats);
    let mut notes = notes(seats, &read);
    let shown = read.top.unwrap_or(usize::MAX).min(table.rows.len());
    if shown < table.rows.len() {
        notes.push(format!("{} more rows not shown; --top 0 shows all.", grouped((table.rows.len() - shown) as u64)));
    }
    let people = vec![for_people(&table, &problems, shown, read.profiles.is_some()), levels_for_people(&levels)];
    let sums = sums(seats);
    let (from, to) = span(seats);
    Report {
        schema: "plimsoll.clients.seats/v1".to_owned(),
        inputs: read.inputs,
        window: Window::of(Some((from, to))),
        coverage: coverage(seats, read.profiles.map(|(clients, _)| clients)),
        totals: vec![
            ("executing".to_owned(), sums[0].into()),
            ("queued".to_owned(), sums[1].into()),
            ("seats_executing".to_owned(), sums[2].into()),
            ("seats_queued".to_owned(), sums[3].into()),
        ],
        lead: lead(seats, sums),
        table,
        tables: vec![levels],
        people: Some(people.into_iter().filter(|table| !table.rows.is_empty()).collect()),
        notes,
        findings: findings::all(seats),
        ..Report::default()
    }
}

/// Requests that execute and that wait, and the seats of both: of their holders; where an apiserver's page of requests
/// is missing, of its levels. `None` where no page shows.
fn sums(seats: &Seats) -> [Option<u64>; 4] {
    let held = seats.holders.iter().map(|(_, held, _)| held);
    if seats.captures.iter().all(|capture| capture.details.is_some()) {
        let all = held.fold([0; 4], |sum, own| {
            [sum[0] + own.executing, sum[1] + own.queued, sum[2] + own.seats, sum[3] + own.seats_queued]
        });
        return all.map(Some);
    }
    let levels = || seats.captures.iter().flat_map(|capture| capture.levels.values());
    let is_any = levels().next().is_some();
    let all = |of: fn(&LevelNow) -> Option<u64>| levels().map(of).sum::<Option<u64>>().filter(|_| is_any);
    let of_seats = |level: &LevelNow| level.seats.or((level.executing == 0).then_some(0));
    let of_queued = |level: &LevelNow| level.seats_queued.or((level.queued == 0).then_some(0));
    [all(|level| Some(level.executing)), all(|level| Some(level.queued)), all(of_seats), all(of_queued)]
}

/// Ids of findings that ask for something.
fn grave(known: &UserContext<'_>) -> String {
    let grave = known.findings.iter().filter(|(_, severity)| **severity >= Severity::Warning);
    grave.map(|(id, _)| id.trim_start_matches("client-")).collect::<Vec<_>>().join(" ")
}

fn span(seats: &Seats) -> (Micros, Micros) {
    let times = || seats.captures.iter().map(|capture| capture.at);
    (times().min().unwrap_or_default(), times().max().unwrap_or_default())
}

fn ms(micros: Option<Micros>) -> Value {
    micros.map(|micros| micros as f64 / 1e3).into()
}

fn ratio(part: u64, whole: u64) -> Value {
    if whole == 0 { Value::None } else { Value::Number(part as f64 / whole as f64) }
}

fn row(
    seats: &Seats,
    holder: &Holder,
    held: &SeatUse,
    instances: &BTreeSet<String>,
    known: Option<UserContext<'_>>,
) -> Vec<Value> {
    let text = |text: &str| Value::Text(text.to_owned());
    let (of_level, demand) = seats.totals(&holder.cluster, &holder.level);
    let (mut verbs, mut resources): (BTreeMap<&str, u64>, BTreeMap<&str, u64>) = Default::default();
    for ((verb, resource), count) in &held.asks {
        *verbs.entry(verb).or_default() += count;
        *resources.entry(resource).or_default() += count;
    }
    let group = |of: BTreeMap<&str, u64>| {
        Value::Group(of.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect())
    };
    let mut asks: Vec<_> = held.asks.iter().collect();
    asks.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let asks: Vec<String> = asks.iter().map(|((verb, what), count)| format!("{verb} {what} {count}")).collect();
    let without_executing =
        seats.captures.iter().any(|capture| instances.contains(&capture.instance) && !capture.lists_executing);
    let of_executing = |value: Value| if without_executing { Value::None } else { value };
    vec![
        text(&holder.cluster),
        text(&holder.user),
        text(if holder.is_user { "details" } else { "flow" }),
        text(&holder.flow_schema),
        text(&holder.level),
        Value::Json(json!(instances)),
        of_executing(held.executing.into()),
        held.queued.into(),
        of_executing(held.seats.into()),
        held.seats_queued.into(),
        of_executing(ratio(held.seats, of_level)),
        of_executing(ratio(held.demand(), demand)),
        ms(held.oldest_wait),
        ms(held.longest_run),
        (held.flows.len() as u64).into(),
        group(verbs),
        group(resources),
        Value::Json(json!(asks)),
        known.as_ref().map_or(Value::None, |known| Value::Json(json!(known.agents))),
        known.as_ref().map(|known| known.requests).into(),
        known.as_ref().map_or(Value::None, |known| Value::Json(json!(known.findings.keys().collect::<Vec<_>>()))),
    ]
}

/// The order of the rows: by a field, numbers from the largest, text from the smallest; else as they are.
fn order(table: &Table, field: Option<&str>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..table.rows.len()).collect();
    let Some(column) = field.and_then(|field| table.column(field)) else { return order };
    order.sort_by(|a, b| table.rows[*a][column].in_order(&table.rows[*b][column]));
    order
}

fn state(level: &LevelNow) -> &'static str {
    match (level.reported.quiescing, level.reported.idle) {
        (Some(true), _) => "quiescing",
        (_, Some(true)) if level.executing + level.queued == 0 => "idle",
        (None, None) => "",
        _ => "active",
    }
}

fn levels(seats: &Seats) -> Table {
    let mut rows = Vec::new();
    for capture in &seats.captures {
        for (name, level) in &capture.levels {
            let limit = level.limits[1].or(level.limits[0]);
            let count = |number: Option<f64>| number.map(|number| number.max(0.0) as u64);
            rows.push(vec![
                Value::Text(capture.cluster.clone()),
                Value::Text(capture.instance.clone()),
                Value::Text(name.clone()),
                Value::Text(state(level).to_owned()),
                level.executing.into(),
                level.queued.into(),
                level.seats.into(),
                level.seats_queued.into(),
                count(limit).into(),
                count(level.limits[0]).into(),
                level
                    .seats
                    .zip(limit.filter(|limit| *limit > 0.0 && name != EXEMPT))
                    .map(|(seats, limit)| seats as f64 / limit)
                    .into(),
                ms(level.oldest_wait),
                level.reported.dispatched.into(),
                level.reported.rejected.into(),
                level.reported.timed_out.into(),
                level.reported.cancelled.into(),
                level.refused.map(|(refused, _)| refused).into(),
            ]);
        }
    }
    Table {
        name: "priority_levels".to_owned(),
        title: "Priority levels".to_owned(),
        columns: LEVELS.map(str::to_owned).to_vec(),
        rows,
        ..Table::default()
    }
}

/// A table of some columns of another.
fn some(table: &Table, names: &[&str]) -> Table {
    let columns: Vec<usize> = names.iter().filter_map(|name| table.column(name)).collect();
    let rows = table.rows.iter().map(|row| columns.iter().map(|&at| row[at].clone()).collect()).collect();
    Table { columns: columns.iter().map(|&at| table.columns[at].clone()).collect(), rows, ..Table::default() }
}

fn for_people(table: &Table, problems: &[String], shown: usize, joined: bool) -> Table {
    const NAMES: [&str; 12] = [
        "user",
        "flow_schema",
        "priority_level",
        "executing",
        "queued",
        "seats_executing",
        "seats_queued",
        "demand_share",
        "oldest_wait_ms",
        "longest_run_ms",
        "asks",
        "agents",
    ];
    let mut people = some(table, &NAMES[..if joined { 12 } else { 11 }]);
    if let Some(at) = people.column("flow_schema") {
        "schema".clone_into(&mut people.columns[at]);
    }
    // A flow without a distinguisher has no name.
    for row in people.rows.iter_mut().filter(|row| row[0] == Value::Text(String::new())) {
        row[0] = Value::Text("(no name)".to_owned());
    }
    for row in &mut people.rows {
        for value in row.iter_mut() {
            if let Value::Json(Json::Array(items)) = value {
                let mut texts: Vec<&str> = items.iter().filter_map(Json::as_str).take(ASKS).collect();
                if items.len() > ASKS {
                    texts.push("…");
                }
                *value = Value::Text(texts.join(", "));
            }
        }
    }
    if joined {
        people.columns.push("problems".to_owned());
        people.rows.iter_mut().zip(problems).for_each(|(row, problems)| row.push(Value::Text(problems.clone())));
    }
    people.rows.truncate(shown);
    people
}

/// Levels that hold, wait or have refused something.
fn levels_for_people(levels: &Table) -> Table {
    const NAMES: [&str; 12] = [
        "instance",
        "priority_level",
        "state",
        "executing",
        "queued",
        "seats",
        "seats_queued",
        "limit",
        "nominal",
        "utilization",
        "rejected_total",
        "timed_out_total",
    ];
    let mut people = some(levels, &NAMES);
    let is_some = |value: &Value| matches!(value, Value::Count(1..));
    let at = ["executing", "queued", "rejected_total", "timed_out_total"].map(|name| people.column(name));
    people.rows.retain(|row| {
        at.iter().flatten().any(|&at| is_some(&row[at])) || row[2] == Value::Text("quiescing".to_owned())
    });
    people.title.clone_from(&levels.title);
    // What no page shows needs no column.
    for name in ["instance", "limit", "nominal", "utilization", "rejected_total", "timed_out_total"] {
        if let Some(at) = people.column(name)
            && people.rows.iter().all(|row| matches!(&row[at], Value::None) || row[at] == Value::Text(String::new()))
        {
            people.columns.remove(at);
            people.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    people
}

fn lead(seats: &Seats, [executing, queued, seats_executing, seats_queued]: [Option<u64>; 4]) -> Vec<String> {
    let some = |count: Option<u64>, one: &str| {
        count.map_or_else(|| format!("an unknown number of {one}s"), |count| counted(count, one))
    };
    let (from, to) = span(seats);
    let at = if from == to { time::format(to) } else { format!("{} to {}", time::format(from), time::format(to)) };
    vec![format!(
        "At {at}, {}: {} executing on {}, {} waiting for {}.",
        counted(seats.captures.len() as u64, "apiserver"),
        some(executing, "request"),
        some(seats_executing, "seat"),
        queued.map_or_else(|| "an unknown number".to_owned(), grouped),
        some(seats_queued, "seat"),
    )]
}

fn notes(seats: &Seats, read: &Read<'_, '_>) -> Vec<String> {
    let mut notes = Vec::new();
    let any = |of: fn(&Capture) -> bool| seats.captures.iter().any(of);
    if any(|capture| capture.details.is_none()) {
        notes.push("Without an apiserver's dump_requests page the holders of its seats are unknown.".to_owned());
    }
    if any(|capture| capture.details == Some(false)) {
        notes.push(
            "USER is the flow distinguisher where a page was taken without ?includeRequestDetails=1: the user or the \
             namespace, by the FlowSchema's distinguisherMethod; empty where it has none."
                .to_owned(),
        );
    }
    if any(|capture| capture.details.is_some() && !capture.lists_executing) {
        notes.push(
            "This apiserver's dump_requests lists only queued requests (Kubernetes 1.27 and older): executing \
             requests are unknown."
                .to_owned(),
        );
    }
    if any(|capture| matches!(capture.moment, Moment::Arrival | Moment::Modified) && capture.details.is_some()) {
        notes.push(
            "The time of the page is unknown: waits are measured to its last arrival, and may be longer.".to_owned(),
        );
    }
    let left_out: u64 = seats.captures.iter().map(|capture| capture.left_out).sum();
    if left_out > 0 {
        notes.push(format!(
            "{} of requests left out: only one per apiserver is used; --until selects an earlier one.",
            counted(left_out, "other page")
        ));
    }
    if let Some((clients, _)) = read.profiles {
        let (from, to) = clients.span;
        let (at, _) = span(seats);
        if at < from - 300 * SECOND || at > to + 300 * SECOND {
            notes.push(format!(
                "The audit logs and the pages are from different times: {} to {}.",
                time::format(from),
                time::format(to)
            ));
        } else {
            notes.push(format!("AGENTS and FINDINGS come from the audit logs' {}.", duration(to - from)));
        }
    }
    notes
}

fn coverage(seats: &Seats, clients: Option<&Clients<'_>>) -> Map<String, Json> {
    let captures = seats.captures.iter().map(|capture| {
        json!({"cluster": capture.cluster, "instance": capture.instance, "at": time::format(capture.at),
            "at_from": capture.moment.name(),
               "details": capture.details, "lists_executing": capture.lists_executing,
               "left_out_pages": capture.left_out})
    });
    let mut coverage = Map::new();
    coverage.insert("captures".to_owned(), captures.collect());
    let span = clients.map(|clients| json!({"from": time::format(clients.span.0), "to": time::format(clients.span.1)}));
    coverage.insert("audit_logs".to_owned(), json!(span));
    coverage
}
