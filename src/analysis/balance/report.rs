//! What `plimsoll balance` says.

use super::course::Since;
use super::goaway::{CHANCES, EVEN, MAX_CHANCE, Model, after_rolling_restart};
use super::{Client, Fleet, Measure, concentration};
use crate::analysis::dims::short_user;
use crate::model::event::called;
use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{counted, duration, percent, significant};
use serde_json::json;

/// What a report is made of besides loads.
#[derive(Debug, Default)]
pub struct BalanceInput {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// Clients that people are shown.
    pub top: Option<usize>,
    /// Within how many seconds the load is to be even.
    pub within: f64,
    /// Whether clients are known.
    pub has_logs: bool,
    /// What is to be said of apiservers that are known for less of the time than others, or not at all.
    pub partial: Vec<String>,
    /// What else is to be said of the logs.
    pub notes: Vec<String>,
}

const SCHEMA: &str = "plimsoll.balance/v1";

/// Clients that people are shown where they did not say how many.
const SHOWN: usize = 8;

/// From so much of all that could be uneven on, it is a finding.
const UNEVEN: f64 = 0.4;

/// From so much on, one apiserver carries it all.
const ALL: f64 = 0.8;

/// A skew that stays above this is not worth the reconnects.
const HOPELESS: f64 = 1.5;

/// Requests of which nothing is said of balance, when there are fewer.
const MIN_REQUESTS: f64 = 100.0;

/// A fleet with its clients.
pub type Loaded = (Fleet, Vec<Client>);

const INSTANCE: [&str; 15] = [
    "cluster",
    "instance",
    "requests",
    "rps",
    "share",
    "server_time_s",
    "server_time_share",
    "watches",
    "watches_share",
    "long_running",
    "inflight",
    "memory_bytes",
    "started",
    "restarts",
    "recovered_s",
];

/// Those that people are shown.
const INSTANCE_SHOWN: [&str; 10] = [
    "cluster",
    "instance",
    "requests",
    "share",
    "server_time_share",
    "watches_share",
    "long_running",
    "inflight",
    "memory_bytes",
    "restarts",
];

const CLIENT: [&str; 9] = [
    "cluster",
    "user",
    "agent",
    "sources",
    "requests",
    "share_there",
    "more_than_even",
    "excess_share",
    "excess_time_share",
];

const GOAWAY: [&str; 7] =
    ["cluster", "goaway_chance", "reconnects_per_s", "skew_1m", "skew_10m", "skew_1h", "recovery_s"];

const ROLLOUT: [&str; 4] = ["cluster", "rollout", "last_share", "busiest_share"];

/// The report.
pub fn report(fleets: &[Loaded], input: BalanceInput) -> Report {
    let mut report = Report { schema: SCHEMA.to_owned(), ..Report::default() };
    let table = |name: &str, title: &str, columns: &[&str]| Table {
        name: name.to_owned(),
        title: title.to_owned(),
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        ..Table::default()
    };
    let mut instances = table("instances", "", &INSTANCE);
    let mut clients = table("clients", "Clients that send more than an even share to the busiest apiserver", &CLIENT);
    let mut chances = table(
        "goaway",
        "Expected effect of --goaway-chance (with a load balancer that spreads new connections)",
        &GOAWAY,
    );
    let mut rollouts = table(
        "rollouts",
        "Shares after a rolling restart of all apiservers, if clients reconnect only when theirs stops",
        &ROLLOUT,
    );
    for (fleet, of_clients) in fleets {
        add_instances(&mut instances, fleet);
        lead(&mut report, fleet);
        let Some((busiest, _)) = fleet.busiest(Measure::Requests).filter(|_| fleet.instances.len() > 1) else {
            continue;
        };
        let worst = worst(fleet);
        let pins = pins(fleet, of_clients, worst.as_ref().map_or((Measure::Requests, busiest), |own| (own.0, own.1)));
        let on = worst.as_ref().map_or(busiest, |own| own.1);
        add_clients(&mut clients, fleet, on, &pins);
        // What is said of one cluster is not said of another.
        report.more.clear();
        // A log that ends early makes the others' shares larger: no connection has to move for that.
        if input.has_logs && fleet.instances.values().all(|own| own.covered.is_none()) {
            add_chances(&mut chances, fleet, of_clients, busiest, &input, &mut report);
        }
        add_rollouts(&mut rollouts, fleet);
        let of = if fleets.len() > 1 { format!("{}: ", fleet.cluster) } else { String::new() };
        report.findings.extend(finding((&of, fleet), worst, &pins, &input, &report.more));
    }
    report.window = window(fleets);
    report.totals = totals(fleets);
    let shown = input.top.unwrap_or(SHOWN);
    let mut few = clients.clone();
    if few.rows.len() > shown {
        report
            .notes
            .push(format!("{} more; --top or -o json shows them.", counted((few.rows.len() - shown) as u64, "client")));
        few.rows.truncate(shown);
    }
    report.notes.extend(input.partial.iter().chain(&input.notes).cloned());
    if !input.partial.is_empty() {
        report.coverage.insert("partial".to_owned(), input.partial.clone().into());
    }
    if !input.has_logs {
        report.notes.push(
            "Metrics do not identify clients; audit logs would show which clients pin the load, and the remedy."
                .to_owned(),
        );
    }
    let is_one = fleets.len() == 1;
    let shown = [(&instances, INSTANCE_SHOWN.as_slice()), (&few, &CLIENT), (&chances, &GOAWAY), (&rollouts, &ROLLOUT)];
    let shown = shown
        .into_iter()
        .filter(|(table, _)| !table.rows.is_empty())
        .map(|(table, columns)| for_people(table, columns, is_one));
    report.people = Some(shown.collect());
    report.table = instances;
    report.tables = vec![clients, chances, rollouts];
    report.inputs = input.inputs;
    report
}

/// Some columns of a table; the cluster only where there are several; times in words.
fn for_people(table: &Table, columns: &[&str], is_one: bool) -> Table {
    let wanted = columns.iter().filter(|name| !(is_one && **name == "cluster"));
    let places: Vec<usize> = wanted.filter_map(|name| table.column(name)).collect();
    let cell = |place: usize, value: &Value| match (table.columns[place].as_str(), value) {
        ("recovery_s", Value::Number(seconds)) => duration((seconds * SECOND as f64) as Micros).as_str().into(),
        ("recovery_s", _) => "over a day".into(),
        ("goaway_chance", Value::Number(chance)) => chance.to_string().as_str().into(),
        ("user", Value::Text(user)) => short_user(user).into(),
        _ => value.clone(),
    };
    // Columns that go elsewhere where a line is too long must not go here.
    let name = |place: usize| match table.columns[place].as_str() {
        "recovery_s" => "even_after".to_owned(),
        "share" => "requests_share".to_owned(),
        name => name.to_owned(),
    };
    Table {
        columns: places.iter().map(|place| name(*place)).collect(),
        rows: table.rows.iter().map(|row| places.iter().map(|place| cell(*place, &row[*place])).collect()).collect(),
        headings: vec![("restarts", "RESTARTS")],
        ..table.clone()
    }
}

fn window(fleets: &[Loaded]) -> Window {
    let from = fleets.iter().map(|(fleet, _)| fleet.window.0).min();
    let to = fleets.iter().map(|(fleet, _)| fleet.window.1).max();
    // Of no events both are 0.
    Window::of(from.zip(to).filter(|span| *span != (0, 0)))
}

fn totals(fleets: &[Loaded]) -> Vec<(String, Value)> {
    // Of several clusters the most uneven counts.
    let most = |measure: Measure| fleets.iter().filter_map(|(fleet, _)| fleet.skew(measure)).reduce(f64::max);
    let mut totals: Vec<(String, Value)> = vec![(
        "apiservers".to_owned(),
        Value::Count(fleets.iter().map(|(fleet, _)| fleet.instances.len() as u64).sum()),
    )];
    totals.extend(Measure::ALL.map(|measure| (format!("skew_{}", measure.name()), most(measure).into())));
    totals
}

fn add_instances(table: &mut Table, fleet: &Fleet) {
    let restarts = fleet.restarts();
    for (name, instance) in &fleet.instances {
        let load = |measure: Measure| instance.load.get(&measure).copied();
        let count = |measure: Measure| Value::from(load(measure).map(|load| load.round() as u64));
        let share = |measure: Measure| Value::from(fleet.share(instance, measure));
        let recovered = restarts.iter().find(|restart| restart.instance == *name).and_then(|restart| restart.recovered);
        table.rows.push(vec![
            fleet.cluster.as_str().into(),
            name.as_str().into(),
            count(Measure::Requests),
            fleet.rate(instance, Measure::Requests).into(),
            share(Measure::Requests),
            load(Measure::ServerTime).into(),
            share(Measure::ServerTime),
            count(Measure::Watches),
            share(Measure::Watches),
            count(Measure::LongRunning),
            count(Measure::Inflight),
            count(Measure::Memory),
            instance.started.map(time::format).as_deref().into(),
            instance.restarts.into(),
            recovered.into(),
        ]);
    }
}

/// What is most uneven, if it is uneven enough for a finding; who carries most of it; and how uneven it is.
fn worst(fleet: &Fleet) -> Option<(Measure, &str, f64)> {
    let count = fleet.instances.len();
    let (measure, uneven) = [Measure::Requests, Measure::ServerTime, Measure::LongRunning, Measure::Memory]
        .into_iter()
        .filter_map(|measure| Some((measure, concentration(fleet.skew(measure)?, count))))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (busiest, _) = fleet.busiest(measure).filter(|_| uneven >= UNEVEN)?;
    // Whose requests are there is clearer than whose time, where both are.
    let of_requests = concentration(fleet.skew(Measure::Requests).unwrap_or(1.0), count);
    let is_there = fleet.busiest(Measure::Requests).is_some_and(|(name, _)| name == busiest);
    let is_alike = is_there && of_requests >= UNEVEN && measure == Measure::ServerTime;
    Some(if is_alike { (Measure::Requests, busiest, of_requests) } else { (measure, busiest, uneven) })
}

/// A client with more on an apiserver than an even share: of what is looked at, of requests, and of server time.
struct Pin<'c> {
    client: &'c Client,
    excess: f64,
    requests: f64,
    time: f64,
}

/// Clients with more of a measure on an apiserver than an even share, most first. Nobody is known to hold memory.
fn pins<'c>(fleet: &Fleet, clients: &'c [Client], (measure, on): (Measure, &str)) -> Vec<Pin<'c>> {
    let count = fleet.instances.len();
    let pin = |client: &'c Client| {
        let excess = |by: Measure| client.excess(on, count, by);
        let [excess, requests, time] = [measure, Measure::Requests, Measure::ServerTime].map(excess);
        Pin { client, excess, requests, time }
    };
    let mut pins: Vec<Pin<'c>> = clients.iter().map(pin).collect();
    pins.retain(|pin| pin.excess > 0.0);
    let key = |pin: &Pin<'c>| (&pin.client.user, &pin.client.agent);
    pins.sort_by(|a, b| b.excess.total_cmp(&a.excess).then_with(|| key(a).cmp(&key(b))));
    pins
}

fn add_clients(table: &mut Table, fleet: &Fleet, busiest: &str, pins: &[Pin<'_>]) {
    let all: f64 = pins.iter().map(|pin| pin.requests.max(0.0)).sum();
    let all_time: f64 = pins.iter().map(|pin| pin.time.max(0.0)).sum();
    for Pin { client, requests, time, .. } in pins {
        let there = client.requests.get(busiest).copied().unwrap_or(0.0) / client.total();
        table.rows.push(vec![
            fleet.cluster.as_str().into(),
            client.user.as_str().into(),
            client.agent.as_str().into(),
            client.sources.into(),
            Value::Count(client.total() as u64),
            there.into(),
            Value::Number(*requests),
            Some(requests.max(0.0) / all).filter(|share| share.is_finite()).into(),
            Some(time.max(0.0) / all_time).filter(|share| share.is_finite()).into(),
        ]);
    }
}

fn add_chances(
    table: &mut Table,
    fleet: &Fleet,
    clients: &[Client],
    busiest: &str,
    input: &BalanceInput,
    report: &mut Report,
) {
    let model = Model::new(clients, busiest, fleet.instances.len(), fleet.seconds());
    if fleet.skew(Measure::Requests).is_none_or(|skew| skew <= EVEN) || is_even_now(fleet) {
        return;
    }
    for chance in CHANCES {
        let skew = |after: f64| Value::from(model.skew(chance, after));
        let row = [skew(60.0), skew(600.0), skew(3600.0), model.recovery(chance).into()];
        let head = [fleet.cluster.as_str().into(), Value::Number(chance), Value::Number(chance * model.rate())];
        table.rows.push(head.into_iter().chain(row).collect());
    }
    let within = duration((input.within * SECOND as f64) as Micros);
    let floor = model.floor();
    let is_no_better = fleet.skew(Measure::Requests).is_some_and(|now| floor >= now);
    let at_best = if floor > EVEN {
        format!("; a skew of {} at best, because few connections carry most of the load", significant(floor))
    } else {
        String::new()
    };
    report.lead.push(match model.chance_for(input.within) {
        _ if floor > HOPELESS => {
            "to rebalance\tno --goaway-chance helps: a few connections carry most of the load, each on one \
             apiserver. Split or rate-limit the clients below"
                .to_owned()
        }
        _ if is_no_better => format!(
            "to rebalance\tno --goaway-chance helps: connections that lie anywhere make a skew of {}; split or \
             rate-limit the clients below",
            significant(floor)
        ),
        Some(chance) => format!(
            "to rebalance\tset --goaway-chance={chance} on the kube-apiservers (balanced within {within}, {} \
             reconnects per second{at_best}); or restart the clients below",
            significant(chance * model.rate())
        ),
        None => format!(
            "to rebalance\tno --goaway-chance up to {MAX_CHANCE} does so within {within}: the clients that pin the \
             load send too few requests on each connection; restart them"
        ),
    });
    let recommended = model.chance_for(input.within).filter(|_| floor <= HOPELESS && !is_no_better);
    report.more.insert("recommended_goaway_chance".to_owned(), json!(recommended));
    report.more.insert("skew_at_best".to_owned(), json!(floor));
}

fn add_rollouts(table: &mut Table, fleet: &Fleet) {
    for (name, surge) in [("one by one", false), ("one by one, the new one first (max-surge 1)", true)] {
        let shares = after_rolling_restart(fleet.instances.len(), surge);
        let most = shares.iter().copied().fold(0.0, f64::max);
        let last = shares.last().copied().unwrap_or(0.0);
        table.rows.push(vec![fleet.cluster.as_str().into(), name.into(), Value::Number(last), Value::Number(most)]);
    }
}

/// How uneven, where, and since when.
fn lead(report: &mut Report, fleet: &Fleet) {
    let of = if fleet.cluster.is_empty() { String::new() } else { format!("{}: ", fleet.cluster) };
    let Some((busiest, share)) = fleet.busiest(Measure::Requests) else {
        report
            .lead
            .push(format!("{of}these sources have no requests for some apiservers, so their balance is unknown"));
        return;
    };
    let count = fleet.instances.len();
    if count < 2 {
        report.lead.push(format!(
            "{of}these sources cover only {}; balance requires the logs or metrics of all apiservers",
            called(busiest)
        ));
        return;
    }
    let skew = |measure: Measure| {
        // Of a handful the busiest has most by chance.
        let (name, _) = fleet.busiest(measure).filter(|_| fleet.total(measure) >= 10.0)?;
        let skew = fleet.skew(measure)?;
        Some(format!(
            "{} {}{}",
            measure.words(),
            significant(skew),
            if name == busiest { String::new() } else { format!(" (on {})", called(name)) }
        ))
    };
    let skews: Vec<String> = Measure::ALL.into_iter().filter_map(skew).collect();
    report.lead.push(format!(
        "busiest\t{of}{}, with {} of the requests of {count} apiservers",
        called(busiest),
        percent(share)
    ));
    report.lead.push(format!("skew\t{} (1 is even, {count} is all on one)", skews.join(", ")));
    if skews.is_empty() {
        report.lead.pop();
        return;
    }
    let since = match fleet.since(busiest) {
        Some(since) if is_even_now(fleet) => format!("{}. It is even now", since_text(&since)),
        Some(since) => since_text(&since),
        None => format!("the start of the data, {}", clock(fleet.window.0)),
    };
    report.lead.push(format!("since\t{since}"));
    for restart in fleet.restarts() {
        let back = match restart.recovered {
            Some(seconds) => {
                format!("it got its share of requests again after {}", duration((seconds * SECOND as f64) as Micros))
            }
            None => "it did not get its share of requests again".to_owned(),
        };
        report.lead.push(format!("restart\t{} at {}: {back}", called(&restart.instance), clock(restart.at)));
    }
}

/// Whether the load has become even within the window.
fn is_even_now(fleet: &Fleet) -> bool {
    let since = fleet.busiest(Measure::Requests).and_then(|(busiest, _)| fleet.since(busiest));
    since.is_some_and(|since| since.after * fleet.instances.len() as f64 <= EVEN)
}

fn clock(at: Micros) -> String {
    format!("{} UTC", time::second(at))
}

fn since_text(since: &Since) -> String {
    let restart = match &since.restart {
        Some((name, at)) => format!("; {name} started at {}", clock(*at)),
        None => "; no apiserver started near it".to_owned(),
    };
    // Its log may begin then.
    let before = if since.before > 0.0 { percent(since.before) } else { "no request".to_owned() };
    format!("{}: {before} before, {} from then on{restart}", clock(since.at), percent(since.after))
}

/// The finding of a fleet, which is called `of` where there are several.
fn finding(
    (of, fleet): (&str, &Fleet),
    worst: Option<(Measure, &str, f64)>,
    pins: &[Pin<'_>],
    input: &BalanceInput,
    more: &serde_json::Map<String, serde_json::Value>,
) -> Option<Finding> {
    let count = fleet.instances.len();
    if fleet.total(Measure::Requests) < MIN_REQUESTS || is_even_now(fleet) {
        return None;
    }
    let (measure, busiest, uneven) = worst?;
    let (_, share) = fleet.busiest(measure)?;
    let severity = if uneven >= ALL { Severity::Critical } else { Severity::Warning };
    let mut summary =
        format!("{of}{busiest} carries {} of the {} of {count} apiservers", percent(share), measure.words());
    let name = |Pin { client, .. }: &Pin<'_>| {
        let short = |text: &str| text.chars().take(40).collect::<String>();
        match client.agent.as_str() {
            "" => short(&client.user),
            agent => format!("{} ({})", short(agent), short(short_user(&client.user))),
        }
    };
    let names: Vec<String> = pins.iter().filter(|_| measure != Measure::Memory).take(3).map(name).collect();
    if !names.is_empty() {
        summary += &format!("; most of the excess comes from {}", names.join(", "));
    }
    let chance = match more.get("recommended_goaway_chance").and_then(serde_json::Value::as_f64) {
        Some(chance) => format!(
            "set --goaway-chance={chance} on the apiservers, if clients reach them through a load balancer that \
             spreads connections; "
        ),
        None => String::new(),
    };
    let skews = Measure::ALL.map(|measure| (format!("skew_{}", measure.name()), json!(fleet.skew(measure))));
    let clients = Some(names.join(", ")).filter(|names| !names.is_empty());
    let since = fleet.since(busiest).filter(|_| measure == Measure::Requests).map_or(fleet.window.0, |since| since.at);
    let finding = Finding::new("uneven-apiservers", severity, &[("cluster", &fleet.cluster), ("instance", busiest)])
        // Of an apiserver whose log or metrics are not all there nothing is sure.
        .confidence(if input.partial.is_empty() && input.notes.is_empty() { 0.9 } else { 0.5 })
        .seen((since, fleet.window.1))
        .summary(summary)
        .evidence(skews.into_iter().collect())
        .evidence(json!({"clients": clients, "apiservers": count}))
        .remedy(format!(
            "{chance}restart the clients that pin the load; in rollouts start the new apiserver before the old one \
             stops"
        ));
    Some(finding)
}
