//! API budgets of clients: what was used of each limit, whether that is within it, a budget for what is used today
//!
//! From the roll-up of a client's requests, and the pages of its own metrics.
//! What a log does not show is never taken for nothing: each rule has the evidence that it lacks beside its count.

pub mod check;
pub mod proposed;
pub mod report;

use super::clients::{Clients, Profile, listing};
use super::dims::{folded, short_user};
use super::metrics::catalogue::{Metric, Part};
use super::metrics::facts::{Component, Facts, Instance};
use super::rollup::read::{Addresses, TrafficRow, Who};
use super::rollup::{Fact, Op, RETRY_AFTER, Rollup};
use crate::model::budget::Rule;
use crate::model::registry::qualified;
use crate::model::time::{self, Micros, SECOND, Span, all_together};
use crate::model::units::{counted, duration, grouped};
use std::collections::BTreeMap;

/// The client's first minute, in µs: LISTs within it are those of its start.
const STARTUP: Micros = time::MINUTE;
/// In tiles it lasts at least for this, in µs.
const SHORTEST_STARTUP: Micros = 50 * SECOND;
/// Seconds of the slots in which rules count.
const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 3600;

/// Whose use is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'w> {
    /// User, or service account as `NAMESPACE:NAME`.
    pub user: &'w str,
    /// Agent product; `None`: all of the user.
    pub agent: Option<&'w str>,
    /// Name of the folder or file of the client's own metrics pages.
    pub metrics: Option<&'w str>,
}

impl Wanted<'_> {
    fn is(&self, who: &Who<'_>) -> bool {
        let asked = self.user;
        let is_user = who.user == asked || who.user == folded(asked) || short_user(who.user) == asked;
        is_user && self.agent.is_none_or(|agent| agent == who.agent)
    }
}

/// What was used of one rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Used {
    /// By resource (`pods`, `deployments.apps`) and slot of time.
    slots: BTreeMap<String, BTreeMap<i64, f64>>,
    /// Whether resources are not added up, since each count is one of a single object.
    is_of_one: bool,
    /// What is missing to know all of it.
    pub missing: Option<String>,
}

impl Used {
    fn add(&mut self, resource: &str, slot: i64, count: f64) {
        if count > 0.0 {
            *self.slots.entry(resource.to_owned()).or_default().entry(slot).or_default() += count;
        }
    }

    fn most_of(&mut self, resource: &str, slot: i64, count: f64) {
        let own = self.slots.entry(resource.to_owned()).or_default().entry(slot).or_default();
        *own = own.max(count);
    }

    fn lacks(&mut self, what: impl Into<String>) {
        if self.missing.is_none() {
            self.missing = Some(what.into());
        }
    }

    /// The most in any slot, over the resources for which `takes` holds; and which it was in that slot, the most first.
    pub fn most(&self, takes: impl Fn(&str) -> bool) -> (f64, Vec<(&str, f64)>) {
        let mut by_slot: BTreeMap<i64, Vec<(&str, f64)>> = BTreeMap::new();
        for (resource, slots) in self.slots.iter().filter(|(resource, _)| takes(resource)) {
            for (slot, count) in slots {
                by_slot.entry(*slot).or_default().push((resource, *count));
            }
        }
        let whole = |counts: &[(&str, f64)]| match self.is_of_one {
            true => counts.iter().map(|(_, count)| *count).fold(0.0, f64::max),
            false => counts.iter().map(|(_, count)| count).sum(),
        };
        let sums = by_slot.into_values().map(|counts| (whole(&counts), counts));
        let (most, mut counts) = sums.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        counts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        (most, counts)
    }
}

/// What a client used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    pub requests: u64,
    /// First and last `at` of the client; `None` where it has no request.
    pub span: Option<Span>,
    /// In the order of [`Rule::ALL`].
    rules: [Used; Rule::ALL.len()],
}

impl Usage {
    /// Of a rule.
    pub fn of(&self, rule: Rule) -> &Used {
        &self.rules[rule as usize]
    }

    /// Says that part of the sources could not be read: what it held counts for no rule.
    pub fn was_damaged(&mut self) {
        self.rules.iter_mut().for_each(|used| used.lacks("part of the sources could not be read"));
    }

    fn of_mut(&mut self, rule: Rule) -> &mut Used {
        &mut self.rules[rule as usize]
    }
}

/// Whether the client asks for the first page of a LIST here, or for a LIST as a stream.
fn begins_list(row: &TrafficRow<'_>) -> bool {
    listing(row, None).is_some_and(|list| !list.further_page)
        || row.verb == "watch" && row.shape.is_some_and(|shape| shape.initial_events)
}

/// Requests that began in the tile of a row: a watch counts when it is opened, where the log shows that, since it may
/// last for minutes.
fn begun(row: &TrafficRow<'_>, are_starts_logged: bool) -> u64 {
    let is_opened_here = row.verb == "watch" && are_starts_logged && row.code.is_none_or(|code| code < 400);
    if is_opened_here { row.latency().count() } else { row.requests }
}

/// When the client's first minute ends that begins at `begin`: at the end of a tile, and no later than a minute after
/// it, unless tiles are so long that hardly anything of it would be left.
fn startup_end(begin: Micros, tile: i64) -> Micros {
    let tile = tile.max(1) * SECOND;
    (begin.div_euclid(tile) * tile + STARTUP).max(begin + SHORTEST_STARTUP)
}

/// Whether it is an update or a patch.
fn is_write(row: &TrafficRow<'_>) -> bool {
    matches!(row.verb, "update" | "patch")
}

/// Whether it writes at all.
fn is_change(row: &TrafficRow<'_>) -> bool {
    matches!(Op::of(row.verb), Op::Write | Op::Delete)
}

/// Whether reconciling asks for it: not what runs beside it, as leases, events, reviews, watches and discovery.
fn is_work(row: &TrafficRow<'_>) -> bool {
    let (group, resource) = row.what;
    let beside = matches!(resource, "" | "events")
        || matches!(group, "coordination.k8s.io" | "authorization.k8s.io" | "authentication.k8s.io");
    row.verb != "watch" && !beside
}

/// What a client used of everything that budgets limit; `clients` are those of the roll-up.
pub fn usage(rollup: &Rollup, clients: &Clients<'_>, facts: &Facts, wanted: &Wanted<'_>) -> Usage {
    let own: Vec<&Profile<'_>> = clients.list.iter().filter(|profile| wanted.is(&profile.who)).collect();
    let Some(span) = all_together(own.iter().map(|profile| profile.about.span)) else {
        let mut nothing = Usage::default();
        nothing.rules.iter_mut().for_each(|used| used.lacks("the sources hold no request of this client"));
        return nothing;
    };
    let mut usage = Usage { span: Some(span), ..Usage::default() };
    let started = startup_end(span.0, clients.tile);
    let copies = copies(rollup, wanted, started);
    count(&own, (started, copies), &mut usage);
    look_for_gaps(&own, clients, &mut usage);
    if rollup.without().any(|table| table == "writes") {
        let what = "the roll-up is of an older version, without writes by minute";
        usage.of_mut(Rule::WritesPerObjectPerMinute).lacks(what);
    }
    let folded = rollup.folded();
    if folded > 0 {
        let some = format!("{} of clients that are not kept apart", counted(folded, "request"));
        for rule in Rule::ALL.into_iter().filter(|rule| *rule != Rule::DeprecatedApis) {
            usage.of_mut(rule).lacks(some.clone());
        }
    }
    match reconciles(facts, wanted, &own, (rollup.span, clients.tile)) {
        Ratio::PerItem(ratio) => usage.of_mut(Rule::RequestsPerReconcile).add("", 0, ratio),
        Ratio::Missing(what) => usage.of_mut(Rule::RequestsPerReconcile).lacks(what),
    }
    usage
}

/// How many copies of the client started up to a time: by the addresses that its requests came from until then.
fn copies(rollup: &Rollup, wanted: &Wanted<'_>, started: Micros) -> f64 {
    let subjects = rollup.subjects();
    let mut addresses = Addresses::default();
    for (tile, subject, own) in rollup.addresses() {
        if tile * SECOND < started && subjects.get(subject).is_some_and(|(who, _)| wanted.is(who)) {
            addresses.merge(&own);
        }
    }
    addresses.count().max(1) as f64
}

/// Counts what the client did; up to `started` so many copies of it started.
fn count(own: &[&Profile<'_>], (started, copies): (Micros, f64), usage: &mut Usage) {
    let is_start = |row: &TrafficRow<'_>| row.verb == "watch" && row.latency().count() > 0;
    let are_starts_logged = own.iter().flat_map(|profile| profile.rows()).any(is_start);
    usage.of_mut(Rule::WritesPerObjectPerMinute).is_of_one = true;
    for profile in own {
        usage.requests += profile.requests;
        for ((group, resource), one) in &profile.uses {
            let resource = qualified(group, resource);
            for row in &one.rows {
                let (hour, count) = (row.tile.div_euclid(HOUR_S), begun(row, are_starts_logged) as f64);
                let is_startup = row.tile * SECOND < started;
                usage.of_mut(Rule::RequestsPerMinute).add(&resource, row.tile.div_euclid(MINUTE_S), count);
                if is_startup && begins_list(row) {
                    usage.of_mut(Rule::StartupLists).add(&resource, 0, count / copies);
                }
                if !is_startup && listing(row, None).is_some_and(|list| list.full) {
                    usage.of_mut(Rule::FullLists).add(&resource, hour, count);
                }
                if row.verb == "watch" && row.shape.is_some_and(|shape| !shape.bookmarks) {
                    usage.of_mut(Rule::WatchesWithoutBookmarks).add(&resource, hour, count);
                }
            }
            for (tile, fact, gaps) in &one.facts {
                let (rule, count) = match fact {
                    Fact::NoChange => (Rule::NoOpWrites, gaps.count()),
                    Fact::Retry429 => (Rule::EarlyRetries, gaps.below(RETRY_AFTER)),
                    _ => continue,
                };
                usage.of_mut(rule).add(&resource, tile.div_euclid(HOUR_S), count as f64);
            }
            for row in &one.written {
                usage.of_mut(Rule::WritesPerObjectPerMinute).most_of(&resource, row.minute, row.writes as f64);
            }
        }
        for row in &profile.deprecated {
            let version = format!("{} {}", row.version, row.resource);
            usage.of_mut(Rule::DeprecatedApis).add(&version, 0, row.requests as f64);
        }
    }
}

/// Says of each rule what the log does not show.
fn look_for_gaps(own: &[&Profile<'_>], clients: &Clients<'_>, usage: &mut Usage) {
    let has = |is: &dyn Fn(&TrafficRow<'_>) -> bool| clients.list.iter().any(|profile| profile.rows().any(is));
    let (lists, watches) = (has(&|row| row.verb == "list"), has(&|row| row.verb == "watch"));
    let hidden = |verb: &str| {
        format!("nobody's {verb} requests are in the log: its audit policy, or whoever filtered it, leaves them out")
    };
    if !lists && !watches {
        usage.of_mut(Rule::StartupLists).lacks(hidden("list"));
    }
    if !lists {
        usage.of_mut(Rule::FullLists).lacks(hidden("list"));
    }
    if !watches {
        usage.of_mut(Rule::WatchesWithoutBookmarks).lacks(hidden("watch"));
    }
    // What counts all requests takes all of them: somebody asks for each of these in any log that has them.
    let (reads, changes) = (has(&|row| row.verb == "get"), has(&|row| is_change(row)));
    for (verb, is_logged) in [("get", reads), ("list", lists), ("watch", watches), ("write", changes)] {
        for rule in [Rule::RequestsPerMinute, Rule::EarlyRetries, Rule::DeprecatedApis] {
            if !is_logged {
                usage.of_mut(rule).lacks(hidden(verb));
            }
        }
    }
    if !has(&is_write) {
        usage.of_mut(Rule::NoOpWrites).lacks(hidden("update and patch"));
        usage.of_mut(Rule::WritesPerObjectPerMinute).lacks(hidden("update and patch"));
    }
    if let Some((first, last)) = usage.span.filter(|(first, last)| last - first < STARTUP) {
        let seen = duration(last - first);
        let part = format!("only {seen} of the client are in the log, and its first minute is its start");
        usage.of_mut(Rule::FullLists).lacks(part);
    }
    let is_done = |row: &&TrafficRow<'_>| is_write(row) && row.code.is_some_and(|code| (200..300).contains(&code));
    let done = own.iter().flat_map(|profile| profile.rows()).filter(is_done);
    let (writes, bodies) = done.fold((0, 0), |sum, row| (sum.0 + row.requests, sum.1 + row.bodies()[0]));
    if bodies < writes {
        usage.of_mut(Rule::NoOpWrites).lacks(format!(
            "{} of {} updates and patches have no response body; audit this client at level RequestResponse",
            grouped(writes - bodies),
            grouped(writes)
        ));
    }
    if clients.tile > MINUTE_S {
        let long = format!("the sources are counted in tiles of {}", duration(clients.tile * SECOND));
        for rule in [Rule::StartupLists, Rule::FullLists, Rule::RequestsPerMinute] {
            usage.of_mut(rule).lacks(long.clone());
        }
    }
}

/// Requests for each item, or what is missing to know.
enum Ratio {
    PerItem(f64),
    Missing(String),
}

/// The log of the time in which pages counted may begin later than that and end earlier by so much, or by a
/// twentieth of that time: a process asks for nothing while it starts.
const PAGES_SLACK: Micros = 30 * SECOND;

/// Requests for each item that the client's work queues handed out, in the time in which its pages counted. `log` is
/// what the log covers, and the length of a tile in seconds.
fn reconciles(facts: &Facts, wanted: &Wanted<'_>, own: &[&Profile<'_>], log: (Option<Span>, i64)) -> Ratio {
    let (covered, tile) = log;
    let is_of = |instance: &Instance| match wanted.metrics {
        Some(name) => instance.name == name,
        None => match wanted.user {
            "system:kube-controller-manager" => instance.component == Component::ControllerManager,
            "system:kube-scheduler" => instance.component == Component::Scheduler,
            _ => instance.component == Component::Other,
        },
    };
    let places: Vec<usize> = (0..facts.instances.len()).filter(|place| is_of(&facts.instances[*place])).collect();
    let done = facts.increase_of(Metric::QueueWork, Part::Count, |fact| places.contains(&fact.instance));
    let Some(done) = done.filter(|_| !places.is_empty()) else {
        return Ratio::Missing(match wanted.metrics {
            Some(name) => format!("no metrics page of {name} with workqueue_work_duration_seconds among the sources"),
            None => "no metrics page of the client with workqueue_work_duration_seconds among the sources".to_owned(),
        });
    };
    if done < 1.0 {
        return Ratio::Missing("the client's work queues handed out nothing".to_owned());
    }
    let begin = |instance: &Instance| match instance.start.filter(|_| instance.since_start) {
        Some(start) => time::of_seconds(start),
        None => instance.from,
    };
    let from = places.iter().map(|place| begin(&facts.instances[*place])).min().unwrap_or(0);
    let to = places.iter().map(|place| facts.instances[*place].to).max().unwrap_or(0);
    let slack = PAGES_SLACK.max((to - from) / 20);
    if let Some((first, last)) = covered.filter(|(first, last)| *first > from + slack || *last < to - slack) {
        let [from, to, first, last] = [from, to, first, last].map(time::format);
        return Ratio::Missing(format!("its pages count from {from} to {to}, and the log has {first} to {last} only"));
    }
    // A tile counts in full that lies in the time in part: at the end of a run in CI the page is the last request.
    let is_in = |row: &&TrafficRow<'_>| row.tile * SECOND < to && (row.tile + tile) * SECOND > from;
    let rows = own.iter().flat_map(|profile| profile.rows());
    let sent: u64 = rows.filter(|row| is_work(row) && is_in(row)).map(|row| row.requests).sum();
    Ratio::PerItem(sent as f64 / done)
}
