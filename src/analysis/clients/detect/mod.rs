//! Detectors of costly client behaviour: one file for each finding. (Thresholds and their reasons: docs/findings.md.)

mod access_reviews;
mod alternating_writers;
mod conflicts;
mod deprecated_api;
mod discovery;
mod etcd_lists;
mod event_flood;
mod failover;
mod fan_out;
mod forbidden_loop;
mod full_list;
mod get_polling;
mod hot_object;
mod lease_churn;
mod no_backoff;
mod no_bookmarks;
mod node_lists;
mod node_status;
mod relist_storm;
mod repeated_list;
mod surge;
mod timeouts;
mod too_old;
mod unchanged_writes;
mod uneven_nodes;
mod watch_churn;
mod write_storm;

use super::minutes::Minutes;
use super::{Clients, Profile, Use};
use crate::analysis::dims::shown_user;
use crate::analysis::rollup::read::{What, Who};
use crate::model::incident::quote;
use crate::model::question::condition;
use crate::model::registry::qualified;
use crate::model::report::{Finding, Severity};
use crate::model::time::SECOND;
use serde_json::Value as Json;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Minutes from which on behaviour recurs: a restart, a deleted namespace or an old kubectl sends one burst.
const RECURRING_MINUTES: usize = 3;

/// A finding, and the client that it is about, if it is about one.
pub type ClientFinding<'r> = (Option<Who<'r>>, Finding);

type Find = for<'c, 'r> fn(&'c Clients<'r>, &mut Vec<ClientFinding<'r>>);

const ALL: [Find; 27] = [
    repeated_list::find,
    full_list::find,
    etcd_lists::find,
    fan_out::find,
    get_polling::find,
    relist_storm::find,
    too_old::find,
    watch_churn::find,
    no_bookmarks::find,
    no_backoff::find,
    write_storm::find,
    conflicts::find,
    alternating_writers::find,
    hot_object::find,
    event_flood::find,
    access_reviews::find,
    node_status::find,
    lease_churn::find,
    timeouts::find,
    forbidden_loop::find,
    discovery::find,
    node_lists::find,
    unchanged_writes::find,
    failover::find,
    deprecated_api::find,
    uneven_nodes::find,
    surge::find,
];

/// Whether a finding is about a client: as the one that it blames, or as one of two.
pub fn is_about((whom, finding): &ClientFinding<'_>, who: Who<'_>) -> bool {
    let has = |field: &str, value: &str| finding.subject.get(field).map_or("", String::as_str) == value;
    let is = |[user, agent]: [&str; 2]| has(user, who.user) && has(agent, who.agent);
    let is_one = || is(["user", "agent"]) || is(["other_user", "other_agent"]);
    *whom == Some(who) || finding.id == alternating_writers::ID && has("cluster", who.cluster) && is_one()
}

/// Everything that is found: the gravest first, then by client. Looked for by so many threads.
pub fn all<'r>(clients: &Clients<'r>, threads: usize) -> Vec<ClientFinding<'r>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut own = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(find) = ALL.get(place) else { return own };
            let mut found = Vec::new();
            find(clients, &mut found);
            own.push((place, found));
        }
    };
    let mut found = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(ALL.len())).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            // A panic is a defect: it goes on here, where it is seen.
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    found.sort_by_key(|(place, _)| *place);
    let mut found: Vec<ClientFinding<'r>> = found.into_iter().flat_map(|(_, found)| found).collect();
    // The order within one severity is that of the list: clients with most requests first.
    found.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
    found
}

impl<'r> Clients<'r> {
    /// Every client but kube-apiserver itself.
    fn others(&self) -> impl Iterator<Item = &Profile<'r>> {
        self.list.iter().filter(|profile| !profile.is_apiserver())
    }

    /// Each of them with every resource it used.
    fn uses(&self) -> impl Iterator<Item = (&Profile<'r>, What<'r>, &Use<'r>)> {
        self.others().flat_map(|profile| profile.uses.iter().map(move |(what, one)| (profile, *what, one)))
    }

    /// A finding about a client and, if `what` is not empty, a resource, seen in `minutes`.
    fn finding(
        &self,
        id: &str,
        severity: Severity,
        profile: &Profile<'r>,
        what: What<'r>,
        minutes: &Minutes,
    ) -> Finding {
        let Who { cluster, user, agent } = profile.who;
        let (group, resource) = what;
        let subject =
            [("cluster", cluster), ("user", user), ("agent", agent), ("group", group), ("resource", resource)];
        let (first, last) = minutes.span();
        let within = |second: i64| (second * SECOND).clamp(self.span.0, self.span.1);
        Finding::new(id, severity, &subject).seen((within(first), within(last)))
    }
}

/// The words of a finding: what, with which numbers, and what to do.
fn describe(finding: Finding, confidence: f64, summary: String, mut evidence: Json, remedy: &str) -> Finding {
    evidence.as_object_mut().into_iter().flatten().for_each(|(_, value)| *value = rounded(value));
    finding.confidence(confidence).summary(summary).evidence(evidence).remedy(remedy)
}

/// Numbers with three digits behind the point at most.
fn rounded(value: &Json) -> Json {
    match value.as_f64() {
        Some(number) if value.is_f64() => Json::from((number * 1e3).round() / 1e3),
        _ => value.clone(),
    }
}

/// The command that shows who wrote what and when, from the log.
fn series(conditions: &[(&str, &str)]) -> String {
    let flag = |(dim, value): &(&str, &str)| format!(" --where {}", quote(&condition(dim, value)));
    let conditions: String = conditions.iter().map(flag).collect();
    format!("plimsoll traffic LOG --by user,verb,name,code --series{conditions}")
}

/// Namespace and name of an object, for people.
fn path(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Who a finding is about, for people.
fn name(profile: &Profile<'_>) -> String {
    format!("{} ({})", profile.who.agent, shown_user(profile.who.user))
}

/// A resource with its group, for people.
fn resource((group, resource): What<'_>) -> String {
    qualified(group, resource)
}
