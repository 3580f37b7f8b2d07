//! Profiles as a report.

use super::cost::Origin;
use super::detect::{ClientFinding, is_about};
use super::{Clients, Profile, listing};
use crate::analysis::list_route::Route;
use crate::analysis::rollup::Fact;
use crate::model::event::{Level, Stage};
use crate::model::histogram::Histogram;
use crate::model::input::{Coverage, InputReport};
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::time::{self, Micros};
use crate::model::units::{counted, duration, grouped};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// The fields of a row.
pub const FIELDS: [&str; 28] = [
    "client",
    "service_account",
    "versions",
    "instances",
    "nodes",
    "heaviest_nodes",
    "uneven_nodes",
    "pods",
    "source_ips",
    "requests",
    "rps",
    "share",
    "peak_rps",
    "verbs",
    "lists",
    "est_list_bytes",
    "est_list_bytes_per_s",
    "est_list_sources",
    "est_wire_bytes",
    "lists_not_estimated",
    "watches",
    "relists",
    "errors",
    "throttled",
    "retry_after_429_ms_p50",
    "first_seen",
    "last_seen",
    "findings",
];

/// What people are shown.
const PEOPLE: [&str; 12] = [
    "agent",
    "user",
    "source_ips",
    "requests",
    "rps",
    "peak_rps",
    "est_list_bytes_per_s",
    "full_lists",
    "paged_lists",
    "watches",
    "relists",
    "throttled",
];

/// What is known of the input.
#[derive(Debug, Default)]
pub struct Read {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// What the logs show at all.
    pub coverage: Map<String, Json>,
    /// What is to be said of requests that are in no row.
    pub folded: Option<String>,
    /// Events by level and stage.
    pub logged: Coverage,
    /// The time from the first event to the last, whatever was asked for.
    pub covered: Option<(Micros, Micros)>,
    /// Rows that people are shown.
    pub top: Option<usize>,
    /// The field by which rows are sorted, the largest first: one of [`MEASURES`].
    pub sort_by: Option<String>,
}

/// Fields by which rows can be sorted.
pub const MEASURES: [&str; 8] =
    ["requests", "rps", "peak_rps", "source_ips", "est_list_bytes_per_s", "watches", "relists", "throttled"];

/// The report.
pub fn report(clients: &Clients<'_>, found: &[ClientFinding<'_>], read: Read) -> Report {
    let mut table =
        Table { name: "clients".to_owned(), columns: FIELDS.map(str::to_owned).to_vec(), ..Table::default() };
    let mut people = Table {
        columns: PEOPLE.iter().chain(&["problems"]).map(|name| (*name).to_owned()).collect(),
        ..Table::default()
    };
    for profile in &clients.list {
        let mine: Vec<&Finding> =
            found.iter().filter(|one| is_about(one, profile.who)).map(|(_, finding)| finding).collect();
        let row = row(clients, profile, &mine);
        people.rows.push(for_people(profile, &row, &mine));
        table.rows.push(row);
    }
    let findings: Vec<Finding> = found.iter().map(|(_, finding)| finding.clone()).collect();
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    // Those with something to report come first, then those that cost most.
    let mut rows = people.rows;
    let sort_by = read.sort_by.as_deref().or(clients.is_cost_known.then_some("est_list_bytes_per_s"));
    if let Some(at) = sort_by.and_then(|field| people.columns.iter().position(|column| column == field)) {
        // What is not known may be the most: without being asked for, it stands where nothing does, by requests.
        let order = |value: &Value| match value {
            Value::None if read.sort_by.is_none() => Value::Number(0.0),
            other => other.clone(),
        };
        rows.sort_by(|a, b| order(&a[at]).in_order(&order(&b[at])));
    }
    if read.sort_by.is_none() {
        rows.sort_by_key(|row| matches!(row.last(), Some(Value::Text(problems)) if problems.is_empty()));
    }
    let mut notes = Vec::new();
    let unknown = unknown(clients, &read.logged);
    if !unknown.is_empty() {
        notes.push(format!("Missing inputs: {}.", unknown.join("; ")));
    }
    notes.extend(read.folded);
    let mut coverage = read.coverage;
    coverage.insert("levels".to_owned(), levels(&read.logged));
    coverage.insert("unknown".to_owned(), json!(unknown));
    if let Some(top) = read.top.filter(|top| rows.len() > *top) {
        notes.push(format!("{} more clients not shown; --top 0 shows all.", grouped((rows.len() - top) as u64)));
        rows.truncate(top);
    }
    if let Some(top) = read.top.filter(|top| findings.len() > *top) {
        notes.push(format!("{} more findings not shown; --top 0 shows all.", grouped((findings.len() - top) as u64)));
    }
    people.rows = rows;
    if !clients.is_cost_known
        && let Some(at) = people.column("est_list_bytes_per_s")
    {
        people.columns.remove(at);
        people.rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
    let seconds = clients.seconds();
    let (from, to) = clients.span;
    let lead = if clients.requests == 0 && clients.list.is_empty() {
        Coverage::nothing_counted(read.covered)
    } else {
        format!(
            "{} of {} in {}: {}, {}, {}.",
            counted(clients.requests, "request"),
            counted(clients.list.len() as u64, "client"),
            duration(to - from),
            counted(count(Severity::Critical), "critical finding"),
            counted(count(Severity::Warning), "warning"),
            counted(count(Severity::Info), "note"),
        )
    };
    Report {
        schema: "plimsoll.clients/v1".to_owned(),
        inputs: read.inputs,
        window: match clients.span {
            (0, 0) => Window::default(),
            span => Window { seconds, ..Window::of(Some(span)) },
        },
        coverage,
        totals: vec![
            ("requests".to_owned(), clients.requests.into()),
            ("clients".to_owned(), (clients.list.len() as u64).into()),
            ("rps".to_owned(), (clients.requests as f64 / seconds).into()),
        ],
        table,
        people: Some(vec![people]),
        findings_shown: read.top,
        lead: vec![lead],
        notes,
        findings,
        ..Report::default()
    }
}

/// Events by level.
fn levels(logged: &Coverage) -> Json {
    let counts =
        Level::ALL.iter().zip(&logged.events).map(|(level, stages)| (level.name(), stages.iter().sum::<u64>()));
    Json::Object(
        counts
            .filter(|(name, count)| !name.is_empty() && *count > 0)
            .map(|(name, count)| (name.to_owned(), count.into()))
            .collect(),
    )
}

/// What the input does not hold, and so no finding can be about.
fn unknown(clients: &Clients<'_>, logged: &Coverage) -> Vec<String> {
    let mut unknown = Vec::new();
    if logged.events[Level::RequestResponse as usize].iter().sum::<u64>() == 0 {
        unknown.push("no-op writes (the audit policy logs no responses)");
    }
    if !clients.is_cost_known {
        unknown.push(
            "the size of LIST responses (give an etcd database with --objects, or a bundle with metrics of \
             Kubernetes 1.34 or later)",
        );
    }
    if !clients.has_writers {
        unknown.push(
            "clients that overwrite each other, and writes to one object per minute (a roll-up of an older plimsoll \
             lacks the tables writes and alternations)",
        );
    }
    if clients.server.is_none() {
        unknown.push("whether the cache or etcd serves most LISTs (give --k8s-version)");
    }
    let has_watches = clients.list.iter().flat_map(Profile::rows).any(|row| row.verb == "watch");
    let started: u64 = logged.events.iter().map(|stages| stages[Stage::ResponseStarted as usize]).sum();
    if has_watches && started == 0 {
        unknown.push("open watches, and unauthenticated requests (the audit policy omits the stage ResponseStarted)");
    }
    unknown.into_iter().map(str::to_owned).collect()
}

fn group<N: Into<String>>(values: impl IntoIterator<Item = (N, Value)>) -> Value {
    Value::Group(values.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn row(clients: &Clients<'_>, profile: &Profile<'_>, mine: &[&Finding]) -> Vec<Value> {
    let who = profile.who;
    let about = &profile.about;
    let mut verbs: BTreeMap<&str, u64> = BTreeMap::new();
    let mut errors: BTreeMap<u16, u64> = BTreeMap::new();
    let mut lists: [u64; 5] = [0; 5];
    let (mut opened, mut bookmarks, mut throttled) = (0, 0, 0);
    let mut lifetimes = Histogram::default();
    let cost = &profile.cost;
    let list_bytes = clients.is_cost_known.then(|| cost.known()).flatten();
    for row in profile.rows() {
        *verbs.entry(row.verb).or_default() += row.requests;
        match row.code {
            Some(429) => throttled += row.requests,
            Some(code @ (0 | 400..)) => *errors.entry(code).or_default() += row.requests,
            _ => {}
        }
        if let Some(list) = listing(row, clients.server) {
            let route = match list.route {
                Route::Cache => 2,
                Route::Etcd => 3,
                Route::Unsure => 4,
            };
            let paged = usize::from(!list.full);
            lists[paged] += row.requests;
            lists[route] += row.requests;
        }
        if row.verb == "watch" {
            opened += row.requests;
            bookmarks += if row.shape.is_some_and(|shape| shape.bookmarks) { row.requests } else { 0 };
            row.lifetime().into_iter().for_each(|one| lifetimes.merge(one));
        }
    }
    let relists: u64 =
        profile.uses.values().map(|one| one.gaps(Fact::Relist).count() + one.gaps(Fact::RelistShort).count()).sum();
    let mut retries = Histogram::default();
    profile.uses.values().for_each(|one| retries.merge(&one.gaps(Fact::Retry429)));
    let text = |text: &str| Value::Text(text.to_owned());
    let (from, to): (Micros, Micros) = about.span;
    vec![
        group([("cluster", text(who.cluster)), ("user", text(who.user)), ("agent", text(who.agent))]),
        text(about.service_account),
        Value::Json(json!(about.versions)),
        Value::Json(json!(about.instances)),
        (about.nodes.0 as u64).into(),
        group(about.nodes.1.iter().map(|(node, requests)| (*node, (*requests).into()))),
        group(profile.uneven_nodes().into_iter().map(|(node, requests)| (node, requests.into()))),
        Value::Json(json!(about.pods)),
        profile.sources().into(),
        profile.requests.into(),
        (profile.requests as f64 / clients.seconds()).into(),
        (profile.requests as f64 / clients.requests.max(1) as f64).into(),
        profile.peak_rps(clients).into(),
        group(verbs.into_iter().map(|(verb, requests)| (verb, requests.into()))),
        group(["full", "paged", "cache", "etcd", "unsure"].into_iter().zip(lists.map(Value::from))),
        list_bytes.into(),
        list_bytes.map(|bytes| bytes as f64 / clients.seconds()).into(),
        match list_bytes {
            Some(_) => {
                group(Origin::ALL.into_iter().zip(cost.bytes).map(|(origin, bytes)| (origin.name(), bytes.into())))
            }
            None => Value::None,
        },
        cost.wire.map(|bytes| bytes.round() as u64).into(),
        cost.not_estimated.into(),
        group([
            ("opened", opened.into()),
            ("bookmarks", bookmarks.into()),
            ("median_s", lifetimes.quantile(0.5).map(|median| median / 1e6).into()),
        ]),
        relists.into(),
        group(errors.into_iter().map(|(code, requests)| (code.to_string(), requests.into()))),
        throttled.into(),
        retries.quantile(0.5).map(|gap| gap / 1e3).into(),
        text(&time::format(from)),
        text(&time::format(to)),
        Value::Json(json!(mine)),
    ]
}

fn for_people(profile: &Profile<'_>, row: &[Value], mine: &[&Finding]) -> Vec<Value> {
    let field = |name: &str| {
        FIELDS.iter().position(|field| *field == name).and_then(|at| row.get(at)).cloned().unwrap_or_default()
    };
    let within = |name: &str, part: &str| match field(name) {
        Value::Group(values) => {
            values.into_iter().find(|(name, _)| name == part).map(|(_, value)| value).unwrap_or_default()
        }
        _ => Value::None,
    };
    let mut problems: Vec<&str> =
        mine.iter().filter(|f| f.severity >= Severity::Warning).map(|f| f.id.trim_start_matches("client-")).collect();
    problems.sort_unstable();
    problems.dedup();
    // What all service accounts begin with shows nothing.
    let user = if profile.about.service_account.is_empty() { profile.who.user } else { profile.about.service_account };
    vec![
        Value::Text(profile.who.agent.to_owned()),
        Value::Text(user.to_owned()),
        field("source_ips"),
        field("requests"),
        field("rps"),
        field("peak_rps"),
        field("est_list_bytes_per_s"),
        within("lists", "full"),
        within("lists", "paged"),
        within("watches", "opened"),
        field("relists"),
        field("throttled"),
        Value::Text(problems.join(" ")),
    ]
}
