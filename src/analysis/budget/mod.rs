//! API budgets of clients: what was used of each limit, whether that is within it, a budget for what is used today
//!
//! From the roll-up of a client's requests, and the pages of its own metrics.
//! What a log does not show is never taken for nothing: each rule has the evidence that it lacks beside its count.

pub mod check;
pub mod proposed;
pub mod report;

use super::dims::{folded, short_user};
use super::metrics::catalogue::{Metric, Part};
use super::metrics::facts::{Component, Facts, Instance};
use super::rollup::read::{RequestKey, TrafficRow, Who};
use super::rollup::{Fact, Rollup};
use crate::model::budget::Rule;
use crate::model::time::{Micros, SECOND, Span};
use crate::model::units::{counted, duration, grouped};
use std::collections::{BTreeMap, BTreeSet};

/// The client's first minute, in µs: LISTs within it are those of its start.
const STARTUP: Micros = 60 * SECOND;
/// A retry sooner than this (µs) did not wait: apiservers answer 429 with a Retry-After of a second or more.
const WAITED: u64 = 1_000_000;
/// Seconds of the slots in which rules count.
const MINUTE: i64 = 60;
const HOUR: i64 = 3600;

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
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    pub requests: u64,
    /// First and last `at` of the client; `None` where it has no request.
    pub span: Option<Span>,
    pub rules: BTreeMap<Rule, Used>,
}

impl Usage {
    /// Of a rule.
    pub fn of(&self, rule: Rule) -> &Used {
        static NOTHING: Used = Used { slots: BTreeMap::new(), is_of_one: false, missing: None };
        self.rules.get(&rule).unwrap_or(&NOTHING)
    }
}

/// A resource as budgets name it.
fn named((group, resource): (&str, &str)) -> String {
    match (group, resource) {
        (_, "") => String::new(),
        ("", resource) => resource.to_owned(),
        (group, resource) => format!("{resource}.{group}"),
    }
}

/// Whether the client asks for more than the first page of a LIST here, or for a LIST as a stream.
fn begins_list(row: &TrafficRow<'_>) -> bool {
    let Some(shape) = row.shape else { return false };
    row.verb == "list" && !shape.continued || row.verb == "watch" && shape.initial_events
}

/// Whether an update or a patch was done.
fn is_write(row: &RequestKey<'_>) -> bool {
    matches!(row.verb, "update" | "patch") && row.code.is_some_and(|code| (200..300).contains(&code))
}

/// Whether reconciling asks for it: not what runs beside it, as leases, events, watches and discovery.
fn is_work(row: &TrafficRow<'_>) -> bool {
    let (group, resource) = row.what;
    let beside = matches!(resource, "" | "events") || group == "coordination.k8s.io" || group == "authorization.k8s.io";
    row.verb != "watch" && !beside
}

/// What a client used of everything that budgets limit.
pub fn usage(rollup: &Rollup, facts: &Facts, wanted: &Wanted<'_>) -> Usage {
    let subjects = rollup.subjects();
    let is_own: Vec<bool> = subjects.iter().map(|(who, _)| wanted.is(who)).collect();
    let names: Vec<String> = subjects.iter().map(|(_, what)| named(*what)).collect();
    let tile = rollup.tile_seconds();
    let span = rollup
        .clients()
        .filter(|client| wanted.is(&client.who))
        .map(|client| client.span)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let mut used: BTreeMap<Rule, Used> = Rule::ALL.into_iter().map(|rule| (rule, Used::default())).collect();
    let mut of = |rule: Rule, change: &dyn Fn(&mut Used)| {
        if let Some(used) = used.get_mut(&rule) {
            change(used);
        }
    };
    of(Rule::WritesPerObjectPerMinute, &|used| used.is_of_one = true);
    let begin = span.map_or(0, |(first, _)| first);
    let copies = copies(rollup, &is_own);
    let (mut requests, mut writes, mut bodies) = (0, 0, 0);
    let mut verbs: BTreeSet<&str> = BTreeSet::new();
    let rows: Vec<TrafficRow<'_>> = rollup.traffic().collect();
    for row in &rows {
        if matches!(row.verb, "list" | "watch" | "update" | "patch") {
            verbs.insert(if matches!(row.verb, "update" | "patch") { "write" } else { row.verb });
        }
        if !is_own[row.subject] {
            continue;
        }
        let (resource, count) = (names[row.subject].as_str(), row.requests as f64);
        let at = row.tile * SECOND;
        let is_startup = at < begin + STARTUP;
        requests += row.requests;
        of(Rule::RequestsPerMinute, &|used| used.add(resource, row.tile.div_euclid(MINUTE), count));
        if begins_list(row) && is_startup {
            of(Rule::StartupLists, &|used| used.add(resource, 0, count / copies));
        }
        let is_full = row.verb == "list" && row.shape.is_some_and(|shape| !shape.limit && !shape.continued);
        if is_full && !is_startup {
            of(Rule::FullLists, &|used| used.add(resource, row.tile.div_euclid(HOUR), count));
        }
        if row.verb == "watch" && row.shape.is_some_and(|shape| !shape.bookmarks) {
            of(Rule::WatchesWithoutBookmarks, &|used| used.add(resource, row.tile.div_euclid(HOUR), count));
        }
        if is_write(row) {
            writes += row.requests;
            bodies += row.bodies()[0];
        }
    }
    for (tile, subject, fact, gaps) in rollup.facts().filter(|(_, subject, ..)| is_own[*subject]) {
        let (rule, count) = match fact {
            Fact::NoChange => (Rule::NoOpWrites, gaps.count()),
            Fact::Retry429 => (Rule::EarlyRetries, gaps.below(WAITED)),
            _ => continue,
        };
        of(rule, &|used| used.add(&names[subject], tile.div_euclid(HOUR), count as f64));
    }
    for row in rollup.writes().filter(|row| is_own[row.subject]) {
        let count = row.writes as f64;
        of(Rule::WritesPerObjectPerMinute, &|used| used.most_of(&names[row.subject], row.minute, count));
    }
    for row in rollup.deprecated().filter(|row| wanted.is(&row.who)) {
        let version = format!("{} {}", row.version, row.resource);
        of(Rule::DeprecatedApis, &|used| used.add(&version, 0, row.requests as f64));
    }
    // What the log does not show.
    let Some((first, last)) = span.filter(|_| requests > 0) else {
        for rule in Rule::ALL {
            of(rule, &|used| used.lacks("the sources hold no request of this client"));
        }
        return Usage { requests, span: None, rules: used };
    };
    let hidden = |verb: &str| format!("nobody's {verb} requests are in the log: its audit policy leaves them out");
    if !verbs.contains("list") && !verbs.contains("watch") {
        of(Rule::StartupLists, &|used| used.lacks(hidden("list")));
    }
    if !verbs.contains("list") {
        of(Rule::FullLists, &|used| used.lacks(hidden("list")));
    }
    if !verbs.contains("watch") {
        of(Rule::WatchesWithoutBookmarks, &|used| used.lacks(hidden("watch")));
    }
    if !verbs.contains("write") {
        of(Rule::NoOpWrites, &|used| used.lacks(hidden("update and patch")));
        of(Rule::WritesPerObjectPerMinute, &|used| used.lacks(hidden("update and patch")));
    }
    if last - first < STARTUP {
        let seen =
            format!("only {} of the client are in the log, and its first minute is its start", duration(last - first));
        of(Rule::FullLists, &|used| used.lacks(seen.clone()));
    }
    if bodies < writes {
        let part = format!(
            "{} of {} updates and patches have no response body; audit this client at level RequestResponse",
            grouped(writes - bodies),
            grouped(writes)
        );
        of(Rule::NoOpWrites, &|used| used.lacks(part.clone()));
    }
    if rollup.without().any(|table| table == "writes") {
        of(Rule::WritesPerObjectPerMinute, &|used| {
            used.lacks("the roll-up is of an older version, without writes by minute")
        });
    }
    if tile > MINUTE {
        let long = format!("the sources are counted in tiles of {}", duration(tile * SECOND));
        for rule in [Rule::StartupLists, Rule::FullLists, Rule::RequestsPerMinute] {
            of(rule, &|used| used.lacks(long.clone()));
        }
    }
    let folded = rollup.folded();
    if folded > 0 {
        let some = format!("{} of clients that are not kept apart", counted(folded, "request"));
        for rule in Rule::ALL.into_iter().filter(|rule| *rule != Rule::DeprecatedApis) {
            of(rule, &|used| used.lacks(some.clone()));
        }
    }
    let reconciles = reconciles(facts, wanted, &rows, &is_own, tile);
    of(Rule::RequestsPerReconcile, &|used| match &reconciles {
        Ratio::PerItem(ratio) => used.add("", 0, *ratio),
        Ratio::Missing(what) => used.lacks(what.clone()),
    });
    Usage { requests, span: Some((first, last)), rules: used }
}

/// How many copies of the client there were, by the addresses that its requests came from; at least one.
fn copies(rollup: &Rollup, is_own: &[bool]) -> f64 {
    let mut all = super::rollup::read::Addresses::default();
    rollup.addresses().filter(|(subject, _)| is_own[*subject]).for_each(|(_, own)| all.merge(&own));
    all.count().max(1) as f64
}

/// Requests for each item, or what is missing to know.
enum Ratio {
    PerItem(f64),
    Missing(String),
}

/// Requests for each item that the client's work queues handed out, in the time in which its pages counted.
fn reconciles(facts: &Facts, wanted: &Wanted<'_>, rows: &[TrafficRow<'_>], is_own: &[bool], tile: i64) -> Ratio {
    let is_of = |instance: &Instance| match wanted.metrics {
        Some(name) => instance.name == name,
        None => match wanted.user {
            "system:kube-controller-manager" => instance.component == Component::ControllerManager,
            "system:kube-scheduler" => instance.component == Component::Scheduler,
            _ => instance.component == Component::Other,
        },
    };
    let own: Vec<usize> = (0..facts.instances.len()).filter(|place| is_of(&facts.instances[*place])).collect();
    let done = facts.increase_of(Metric::QueueWork, Part::Count, |fact| own.contains(&fact.instance));
    let Some(done) = done.filter(|_| !own.is_empty()) else {
        return Ratio::Missing(match wanted.metrics {
            Some(name) => format!("no metrics page of {name} with workqueue_work_duration_seconds among the sources"),
            None => "no metrics page of the client with workqueue_work_duration_seconds among the sources".to_owned(),
        });
    };
    if done < 1.0 {
        return Ratio::Missing("the client's work queues handed out nothing".to_owned());
    }
    let begin = |instance: &Instance| match instance.start.filter(|_| instance.since_start) {
        Some(start) => (start * 1e6) as Micros,
        None => instance.from,
    };
    let from = own.iter().map(|place| begin(&facts.instances[*place])).min().unwrap_or(0);
    let to = own.iter().map(|place| facts.instances[*place].to).max().unwrap_or(0);
    // A tile counts where its middle lies in the time.
    let middle = |row: &TrafficRow<'_>| row.tile * SECOND + tile * SECOND / 2;
    let sent: u64 = rows
        .iter()
        .filter(|row| is_own[row.subject] && is_work(row) && (from..to).contains(&middle(row)))
        .map(|row| row.requests)
        .sum();
    Ratio::PerItem(sent as f64 / done)
}
