//! The report of `fleet`.

use super::offenders::{Offender, offenders};
use super::outliers::{Outlier, outliers};
use super::state::{ClusterState, Outlook, Usage};
use crate::analysis::dims::short_user;
use crate::analysis::incident::episodes;
use crate::model::episode::Grade;
use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::series::DAY;
use crate::model::time::{Micros, SECOND, format, together};
use crate::model::units::{bytes, counted, duration, percent, significant};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What the report is made of.
#[derive(Debug)]
pub struct FleetInput {
    pub clusters: Vec<ClusterState>,
    pub inputs: Vec<InputReport>,
    pub now: Micros,
    /// How far was looked ahead for limits.
    pub horizon: Micros,
    /// Rows to show.
    pub top: Option<usize>,
    /// The field by which clusters are sorted; without it those in trouble come first.
    pub sort_by: Option<String>,
}

/// The fields of a row.
pub const FIELDS: [&str; 26] = [
    "cluster",
    "owner",
    "version",
    "slo_left",
    "outages",
    "incidents",
    "degraded",
    "surges",
    "seats_share",
    "etcd_share",
    "limit_days",
    "limit_name",
    "blocked_clients",
    "top_client",
    "top_client_share",
    "unknown_share",
    "data_age",
    "unknown",
    "etcd_bytes",
    "upgrade_to",
    "fleet_nodes",
    "cluster_rps",
    "looked_at_from",
    "looked_at_to",
    "source",
    "problem",
];

fn cells(own: &ClusterState, input: &FleetInput) -> Vec<Value> {
    let [outages, incidents, degraded, surges] = Grade::ALL.map(|grade| Value::from(own.count(grade)));
    let (limit_days, limit_name) = match &own.outlook {
        Outlook::Unknown => (Value::None, Value::None),
        Outlook::Far => (Value::None, format!("none within {}", duration(input.horizon)).as_str().into()),
        Outlook::At(name, at) => ((left(own, *at, input) as f64 / DAY as f64).into(), name.as_str().into()),
    };
    let heaviest = own.heaviest();
    let known = own.known();
    let unknown: Vec<&str> = known.iter().filter(|(_, is_known)| !is_known).map(|(name, _)| *name).collect();
    let time = |at: Option<Micros>| at.map_or(Value::None, |at| format(at).as_str().into());
    vec![
        own.name.as_str().into(),
        Value::text(&own.owner),
        Value::text(&own.version),
        own.slo.and_then(|slo| slo.left()).into(),
        outages,
        incidents,
        degraded,
        surges,
        own.seats.into(),
        own.storage.and_then(|(used, quota)| Some(used / quota?)).into(),
        limit_days,
        limit_name,
        own.upgrade.map(|(_, clients)| clients).into(),
        heaviest.map_or(Value::None, |(own, _)| Value::text(called(own))),
        heaviest.map(|(_, share)| share).into(),
        (unknown.len() as f64 / known.len() as f64).into(),
        own.span.map_or(Value::None, |(_, to)| duration((input.now - to).max(0) / SECOND * SECOND).as_str().into()),
        Value::text(unknown.join(", ")),
        own.storage.map(|(used, _)| used).into(),
        own.upgrade.map_or(Value::None, |(to, _)| format!("1.{}", to.0).as_str().into()),
        own.nodes.into(),
        own.rates.map(|[requests, _]| requests).into(),
        time(own.span.map(|span| span.0)),
        time(own.span.map(|span| span.1)),
        own.source.as_str().into(),
        Value::text(&own.problem),
    ]
}

/// What people are shown of a cluster.
const PEOPLE: [&str; 18] = [
    "cluster",
    "slo_left",
    "episodes",
    "seats_share",
    "etcd_share",
    "first_limit",
    "blocked_clients",
    "heaviest_client",
    "unknown_share",
    "data_age",
    "owner",
    "source",
    "version",
    "upgrade_to",
    "unknown",
    "etcd_bytes",
    "fleet_nodes",
    "cluster_rps",
];
/// Of these, those that are left out where no cluster has any; the source, where names are enough.
const SOME: [&str; 3] = ["owner", "first_limit", "source"];

/// The table for people: what a row shows, in fewer columns.
fn for_people(clusters: &[ClusterState], rows: &[Vec<Value>], input: &FleetInput) -> Table {
    let of_field =
        |row: &[Value], field: &str| FIELDS.iter().position(|own| *own == field).map(|place| row[place].clone());
    let names: BTreeSet<&str> = clusters.iter().map(|own| own.name.as_str()).collect();
    let are_unique = names.len() == clusters.len();
    let row = |(own, row): (&ClusterState, &Vec<Value>)| -> Vec<Value> {
        let limit = match &own.outlook {
            Outlook::Unknown => Value::None,
            Outlook::Far => format!("none in {}", duration(input.horizon)).as_str().into(),
            Outlook::At(name, at) => format!("{} d: {name}", left(own, *at, input) / DAY).as_str().into(),
        };
        let heaviest = own
            .heaviest()
            .map_or(Value::None, |(client, share)| format!("{} {}", percent(share), called(client)).as_str().into());
        PEOPLE
            .iter()
            .map(|field| match *field {
                "episodes" => in_words(own).map_or(Value::None, |text| text.as_str().into()),
                "first_limit" => limit.clone(),
                "source" if are_unique => Value::None,
                "heaviest_client" => heaviest.clone(),
                field => of_field(row, field).unwrap_or_default(),
            })
            .collect()
    };
    let rows: Vec<Vec<Value>> = clusters.iter().zip(rows).map(row).collect();
    let is_shown = |place: &usize| !SOME.contains(&PEOPLE[*place]) || rows.iter().any(|row| row[*place] != Value::None);
    let shown: Vec<usize> = (0..PEOPLE.len()).filter(is_shown).collect();
    let columns: Vec<&str> = shown.iter().map(|place| PEOPLE[*place]).collect();
    let pick = |row: &Vec<Value>| shown.iter().map(|place| row[*place].clone()).collect();
    table("clusters", "", &columns, rows.iter().map(pick).collect())
}

/// `1 outage, 2 surges`; `none`; nothing where that could not be judged.
fn in_words(own: &ClusterState) -> Option<String> {
    own.episodes.as_ref()?;
    let words: Vec<String> = Grade::ALL
        .into_iter()
        .filter_map(|grade| match (own.count(grade).filter(|count| *count > 0)?, grade) {
            (count, Grade::Degraded) => Some(format!("{count} {}", grade.name())),
            (count, _) => Some(counted(count, grade.name())),
        })
        .collect();
    Some(if words.is_empty() { "none".to_owned() } else { words.join(", ") })
}

/// How long it is from the end of a cluster's data until `at`: of old data, what it said then lies in the past by now.
fn left(own: &ClusterState, at: Micros, input: &FleetInput) -> Micros {
    (at - own.span.map_or(input.now, |(_, to)| to)).max(0)
}

/// A client in a word: its agent, or where that is empty its user.
fn called(client: &Usage) -> &str {
    match &client.who {
        (user, agent) if agent.is_empty() => user,
        (_, agent) => agent,
    }
}

/// Those in trouble first: by grade of the episodes, what is left of the error budget, how near a limit is.
fn by_trouble(own: &ClusterState) -> (Reverse<[u64; 3]>, i64, i64, String) {
    let [outages, incidents, degraded, _] = Grade::ALL.map(|grade| own.count(grade).unwrap_or(0));
    let left = own.slo.and_then(|slo| slo.left()).map_or(1_000, |left| (left * 1e3) as i64);
    let limit = match &own.outlook {
        Outlook::At(_, at) => *at,
        _ => Micros::MAX,
    };
    (Reverse([outages, incidents, degraded]), left, limit, own.name.clone())
}

fn table(name: &str, title: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Table {
    Table {
        name: name.to_owned(),
        title: title.to_owned(),
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rows,
        ..Table::default()
    }
}

/// Clusters that are named in a cell; of more their number.
const NAMED: usize = 3;

/// The table of offenders; for people with fewer columns, and short names of service accounts.
fn of_offenders(offenders: &[Offender<'_>], is_for_people: bool) -> Table {
    let row = |own: &Offender<'_>| {
        let mut named = own.clusters.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        if own.clusters.len() > NAMED {
            named += &format!(" and {} more", own.clusters.len() - NAMED);
        }
        let user = if is_for_people { short_user(own.user) } else { own.user };
        let numbers = [own.requests.into(), own.server_seconds.into()];
        let first = [Value::text(own.agent), Value::text(user), (own.clusters.len() as u64).into()];
        let last = [own.share.into(), own.findings.join(", ").as_str().into(), named.as_str().into()];
        first.into_iter().chain(numbers.into_iter().filter(|_| !is_for_people)).chain(last).collect()
    };
    let numbers: &[&str] = if is_for_people { &[] } else { &["requests", "server_seconds"] };
    let columns =
        [&["agent", "user", "on_clusters"], numbers, &["fleet_time_share", "problems", "cluster_names"]].concat();
    table("offenders", "Clients with findings on several clusters", &columns, offenders.iter().map(row).collect())
}

fn of_outliers(outliers: &[Outlier<'_>]) -> Table {
    let row = |own: &Outlier<'_>| {
        let factor = if own.median > 0.0 { Value::from(own.value / own.median) } else { Value::None };
        vec![
            own.cluster.into(),
            own.words.into(),
            own.value.into(),
            own.median.into(),
            factor,
            (own.peers as u64).into(),
            own.nodes.into(),
        ]
    };
    let columns = ["cluster", "fleet_measure", "fleet_value", "peers_median", "peers_factor", "peers", "fleet_nodes"];
    table(
        "outliers",
        "Clusters with three times what is usual among those of their size (up to twice as many nodes, or half)",
        &columns,
        outliers.iter().map(row).collect(),
    )
}

/// What was found: the episodes of each cluster, and clusters that differ.
fn findings(clusters: &[ClusterState], outliers: &[Outlier<'_>]) -> Vec<Finding> {
    let mut all = Vec::new();
    for cluster in clusters {
        for episode in cluster.episodes.iter().flatten() {
            let mut finding = episodes::finding(episode);
            finding.summary = format!("{}: {}", cluster.name, finding.summary);
            all.push(finding.about("cluster", &cluster.name));
        }
    }
    all.extend(outliers.iter().map(|own| {
        let span = clusters.iter().find(|cluster| cluster.name == own.cluster).and_then(|cluster| cluster.span);
        Finding::new("fleet-outlier", Severity::Info, &[("cluster", own.cluster), ("measure", own.measure)])
            .seen(span.unwrap_or_default())
            .summary(format!(
                "{} has {} {}; the median of {} of its size is {}",
                own.cluster,
                significant(own.value),
                own.words,
                counted(own.peers as u64, "cluster"),
                significant(own.median)
            ))
            .evidence(serde_json::json!({
                "value": own.value, "median": own.median, "peers": own.peers, "nodes": own.nodes
            }))
            .remedy(format!(
                "see what is different there: plimsoll compare with a cluster of its size, or plimsoll clients of {}",
                own.cluster
            ))
    }));
    all.sort_by(Finding::graver);
    all
}

fn lead(clusters: &[ClusterState], offenders: &[Offender<'_>]) -> Vec<String> {
    let having = |is: &dyn Fn(&ClusterState) -> bool| clusters.iter().filter(|own| is(own)).count() as u64;
    let with = |grade: Grade| having(&|own| own.count(grade).unwrap_or(0) > 0);
    let judged = having(&|own| own.episodes.is_some());
    let mut first = format!(
        "{}: {} with an outage, {} with an incident",
        counted(clusters.len() as u64, "cluster"),
        with(Grade::Outage),
        with(Grade::Incident)
    );
    let unjudged = clusters.len() as u64 - judged;
    if unjudged > 0 {
        first += &format!("; {unjudged} without data to judge by");
    }
    let mut sentences = vec![first + "."];
    let overspent = having(&|own| own.slo.and_then(|slo| slo.left()).is_some_and(|left| left < 0.0));
    let blocked = having(&|own| own.upgrade.is_some_and(|(_, clients)| clients > 0));
    let near = having(&|own| matches!(own.outlook, Outlook::At(..)));
    let mut more = Vec::new();
    if overspent > 0 {
        more.push(format!("{overspent} above the error budget"));
    }
    if near > 0 {
        more.push(format!("{near} will reach a limit"));
    }
    if blocked > 0 {
        more.push(format!("{blocked} with clients that the next version breaks"));
    }
    if !offenders.is_empty() {
        more.push(format!("{} with findings on several clusters", counted(offenders.len() as u64, "client")));
    }
    if !more.is_empty() {
        sentences.push(format!("{}.", more.join("; ")));
    }
    sentences
}

/// Notes that say what a person may wonder about.
fn notes(input: &FleetInput) -> Vec<String> {
    let mut notes = Vec::new();
    for own in input.clusters.iter().filter(|own| !own.problem.is_empty()) {
        notes.push(format!("{}: not read: {}", own.name, own.problem));
    }
    if let Some(own) = input.clusters.iter().find(|own| own.storage.is_some_and(|(_, quota)| quota.is_none())) {
        let used = own.storage.map_or(0.0, |(used, _)| used);
        notes.push(format!(
            "etcd's quota is on etcd's own metrics pages; where these are missing, as of {} ({} used), its share is \
             not known.",
            own.name,
            bytes(used)
        ));
    }
    notes
}

/// The report.
pub fn report(mut input: FleetInput) -> Report {
    input.clusters.sort_by_cached_key(by_trouble);
    if let Some(place) = input.sort_by.as_ref().and_then(|field| FIELDS.iter().position(|own| own == field)) {
        let mut keyed: Vec<(Value, ClusterState)> = std::mem::take(&mut input.clusters)
            .into_iter()
            .map(|own| (cells(&own, &input).swap_remove(place), own))
            .collect();
        keyed.sort_by(|(a, _), (b, _)| a.in_order(b));
        input.clusters = keyed.into_iter().map(|(_, own)| own).collect();
    }
    let rows: Vec<Vec<Value>> = input.clusters.iter().map(|own| cells(own, &input)).collect();
    let offenders = offenders(&input.clusters);
    let outliers = outliers(&input.clusters);
    let of = |grade: Grade| input.clusters.iter().filter_map(|own| own.count(grade)).sum::<u64>();
    let totals = [
        ("clusters".to_owned(), Value::Count(input.clusters.len() as u64)),
        ("unread".to_owned(), Value::Count(input.clusters.iter().filter(|own| !own.problem.is_empty()).count() as u64)),
    ];
    let by_grade = Grade::ALL.map(|grade| (grade.plural().to_owned(), Value::Count(of(grade))));
    let others = [
        ("offenders".to_owned(), Value::Count(offenders.len() as u64)),
        ("outliers".to_owned(), Value::Count(outliers.len() as u64)),
    ];
    let with_rows = |is_for_people| -> Vec<Table> {
        let all = [of_offenders(&offenders, is_for_people), of_outliers(&outliers)];
        all.into_iter().filter(|own| !own.rows.is_empty()).collect()
    };
    let tables = with_rows(false);
    let people = std::iter::once(for_people(&input.clusters, &rows, &input)).chain(with_rows(true));
    let mut people: Vec<Table> = people.collect();
    people.iter_mut().for_each(|own| own.rows.truncate(input.top.unwrap_or(usize::MAX)));
    let findings = findings(&input.clusters, &outliers);
    let grave = findings.iter().filter(|own| own.severity > Severity::Info).count();
    Report {
        schema: "plimsoll.fleet/v1".to_owned(),
        window: Window::of(input.clusters.iter().fold(None, |all, own| together(all, own.span))),
        totals: totals.into_iter().chain(by_grade).chain(others).collect(),
        lead: lead(&input.clusters, &offenders),
        notes: notes(&input),
        findings,
        findings_shown: Some(grave),
        tables,
        people: Some(people),
        table: table("clusters", "", &FIELDS, rows),
        shown: input.top,
        inputs: input.inputs,
        ..Report::default()
    }
}
