//! What is wrong with how seats are held: levels in which requests wait or are refused, and users who take most of
//! them.

use super::{Capture, LevelNow, SeatUse, Seats};
use crate::model::apf::Moment;
use crate::model::report::{Finding, Severity};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{counted, duration, percent};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// A request that waits so long is not just between two that execute: a healthy level lets requests wait milliseconds.
const LONG_WAIT: Micros = SECOND;

/// From this share on one user takes most of a level.
const DOMINANT_SHARE: f64 = 0.5;

/// Everything that is found: the gravest first.
pub(super) fn all(seats: &Seats) -> Vec<Finding> {
    let mut found = Vec::new();
    for capture in &seats.captures {
        for (name, level) in &capture.levels {
            waits(capture, name, level, &mut found);
            refuses(capture, name, level, &mut found);
        }
    }
    found.sort_by_key(|finding: &Finding| std::cmp::Reverse(finding.severity));
    found
}

fn finding(id: &str, severity: Severity, capture: &Capture, level: &str, user: &str) -> Finding {
    let subject = [
        ("cluster", capture.cluster.as_str()),
        ("instance", &capture.instance),
        ("priority_level", level),
        ("user", user),
    ];
    let mut finding = Finding::new(id, severity, &subject);
    // What the last arrival shows is the least that it can be.
    finding.confidence =
        if capture.moment == Moment::Arrival || capture.moment == Moment::Modified { 0.7 } else { 0.9 };
    finding.first_seen = time::format(capture.at);
    finding.last_seen = finding.first_seen.clone();
    finding
}

fn evidence(finding: &mut Finding, evidence: Json) {
    let given = evidence.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    finding.evidence = given.map(|(name, value)| (name.clone(), value.clone())).collect();
}

fn ms(wait: Option<Micros>) -> Option<i64> {
    wait.map(|wait| wait / 1000)
}

/// Users of a level over its FlowSchemas, those who hold and wait for most first.
fn users(level: &LevelNow) -> Vec<(&str, SeatUse)> {
    let mut users: BTreeMap<&str, SeatUse> = BTreeMap::new();
    for ((_, user), held) in &level.by {
        users.entry(user).or_default().merge(held);
    }
    let mut users: Vec<(&str, SeatUse)> = users.into_iter().collect();
    users.sort_by_key(|(_, held)| std::cmp::Reverse(held.demand()));
    users
}

/// A user for people; a flow may have no name.
fn called(user: &str) -> &str {
    if user.is_empty() { "(no name)" } else { user }
}

fn waits(capture: &Capture, name: &str, level: &LevelNow, found: &mut Vec<Finding>) {
    let Some(oldest) = level.oldest_wait.filter(|wait| *wait >= LONG_WAIT) else { return };
    // How long a request may wait depends on --request-timeout, which is not known here: no wait alone is critical.
    let mut waits = finding("apf-level-waits", Severity::Warning, capture, name, "");
    let of_limit = level.limits[1].or(level.limits[0]).map(|limit| format!(" of {limit}")).unwrap_or_default();
    let held = level.seats.map_or_else(String::new, |seats| format!("; {seats}{of_limit} seats in use"));
    waits.summary = format!(
        "in priority level {name}{} {} in queues, the oldest for {}{held}",
        of_instance(capture),
        if level.queued == 1 {
            "1 request is queued".to_owned()
        } else {
            format!("{} wait", counted(level.queued, "request"))
        },
        duration(oldest),
    );
    "the rows show who holds and who queues for seats; throttle that client, give it a FlowSchema and level of its \
     own, or give this level more shares"
        .clone_into(&mut waits.remedy);
    evidence(
        &mut waits,
        json!({"queued": level.queued, "executing": level.executing, "oldest_wait_ms": ms(Some(oldest)),
            "seats": level.seats,
               "seats_queued": level.seats_queued, "limit": level.limits[1].or(level.limits[0])}),
    );
    found.push(waits);
    let users = users(level);
    let demand: u64 = users.iter().map(|(_, held)| held.demand()).sum();
    let Some((user, most)) = users.first() else { return };
    let others_wait = users.iter().skip(1).filter_map(|(_, held)| held.oldest_wait).max();
    if (most.demand() as f64) < DOMINANT_SHARE * demand as f64 {
        return;
    }
    // A level that one user has alone is that user's own affair; and where others hardly wait, fair queuing keeps them
    // apart.
    let Some(others_wait) = others_wait else { return };
    let severity = if others_wait >= LONG_WAIT { Severity::Warning } else { Severity::Info };
    let mut one = finding("apf-one-user", severity, capture, name, user);
    one.summary = format!(
        "{} accounts for {} of the used and requested seats of priority level {name}{}: {} executing, {} queued; \
         others wait up to {}",
        called(user),
        percent(most.demand() as f64 / demand as f64),
        of_instance(capture),
        most.executing,
        most.queued,
        duration(others_wait),
    );
    "plimsoll clients on the audit log lists this client's findings; a FlowSchema with its own priority level \
     isolates it"
        .clone_into(&mut one.remedy);
    evidence(
        &mut one,
        json!({"demand_share": share(most.demand(), demand), "seats_executing": most.seats,
            "seats_queued": most.seats_queued,
               "executing": most.executing, "queued": most.queued, "others_oldest_wait_ms": ms(Some(others_wait))}),
    );
    found.push(one);
}

fn refuses(capture: &Capture, name: &str, level: &LevelNow, found: &mut Vec<Finding>) {
    let Some((refused, micros)) = level.refused.filter(|(refused, _)| *refused > 0) else { return };
    let mut refuses = finding("apf-level-rejects", Severity::Warning, capture, name, "");
    let users = users(level);
    let held: u64 = users.iter().map(|(_, held)| held.seats).sum();
    let most = users.iter().max_by_key(|(_, held)| held.seats).filter(|(_, most)| most.seats > 0);
    let who = most.map_or_else(String::new, |(user, most)| {
        format!("; {} holds {} of {} seats", called(user), most.seats, level.seats.unwrap_or(held))
    });
    refuses.summary = format!(
        "priority level {name}{} rejected {} in {}{who}",
        of_instance(capture),
        counted(refused, "request"),
        duration(micros)
    );
    "rejected clients get 429 and should back off; find who sends most to this level, or give the level more shares \
     or queues"
        .clone_into(&mut refuses.remedy);
    evidence(
        &mut refuses,
        json!({"rejected": refused, "seconds": micros as f64 / SECOND as f64, "seats": level.seats,
               "holder": most.map(|(user, _)| *user), "holder_seats": most.map(|(_, held)| held.seats)}),
    );
    found.push(refuses);
}

fn of_instance(capture: &Capture) -> String {
    if capture.instance.is_empty() { String::new() } else { format!(" of {}", capture.instance) }
}

fn share(part: u64, whole: u64) -> f64 {
    (part as f64 / whole.max(1) as f64 * 1e3).round() / 1e3
}
