//! What is wrong with how seats are held: levels in which requests wait or are refused, and users who take most of
//! them.

use super::{Capture, LevelNow, SeatUse, Seats};
use crate::model::apf::Moment;
use crate::model::report::{Finding, Severity};
use crate::model::time::{Micros, SECOND};
use crate::model::units::{counted, duration, percent};
use serde_json::json;
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
    // What the last arrival shows is the least that it can be.
    let confidence = if capture.moment == Moment::Arrival || capture.moment == Moment::Modified { 0.7 } else { 0.9 };
    Finding::new(id, severity, &subject).confidence(confidence).seen((capture.at, capture.at))
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
    let of_limit = level.limits[1].or(level.limits[0]).map(|limit| format!(" of {limit}")).unwrap_or_default();
    let held = level.seats.map_or_else(String::new, |seats| format!("; {seats}{of_limit} seats in use"));
    let summary = format!(
        "in priority level {name}{} {} in queues, the oldest for {}{held}",
        of_instance(capture),
        if level.queued == 1 {
            "1 request is queued".to_owned()
        } else {
            format!("{} wait", counted(level.queued, "request"))
        },
        duration(oldest),
    );
    let waits = finding("apf-level-waits", Severity::Warning, capture, name, "")
        .summary(summary)
        .evidence(json!({
            "queued": level.queued,
            "executing": level.executing,
            "oldest_wait_ms": ms(Some(oldest)),
            "seats": level.seats,
            "seats_queued": level.seats_queued,
            "limit": level.limits[1].or(level.limits[0]),
        }))
        .remedy(
            "the rows show who holds and who queues for seats; throttle that client, give it a FlowSchema and level \
             of its own, or give this level more shares",
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
    let summary = format!(
        "{} accounts for {} of the used and requested seats of priority level {name}{}: {} executing, {} queued; \
         others wait up to {}",
        called(user),
        percent(most.demand() as f64 / demand as f64),
        of_instance(capture),
        most.executing,
        most.queued,
        duration(others_wait),
    );
    let one = finding("apf-one-user", severity, capture, name, user)
        .summary(summary)
        .evidence(json!({
            "demand_share": share(most.demand(), demand),
            "seats_executing": most.seats,
            "seats_queued": most.seats_queued,
            "executing": most.executing,
            "queued": most.queued,
            "others_oldest_wait_ms": ms(Some(others_wait)),
        }))
        .remedy(
            "plimsoll clients on the audit log lists this client's findings; a FlowSchema with its own priority level \
             isolates it",
        );
    found.push(one);
}

fn refuses(capture: &Capture, name: &str, level: &LevelNow, found: &mut Vec<Finding>) {
    let Some((refused, micros)) = level.refused.filter(|(refused, _)| *refused > 0) else { return };
    let users = users(level);
    let held: u64 = users.iter().map(|(_, held)| held.seats).sum();
    let most = users.iter().max_by_key(|(_, held)| held.seats).filter(|(_, most)| most.seats > 0);
    let who = most.map_or_else(String::new, |(user, most)| {
        format!("; {} holds {} of {} seats", called(user), most.seats, level.seats.unwrap_or(held))
    });
    let summary = format!(
        "priority level {name}{} rejected {} in {}{who}",
        of_instance(capture),
        counted(refused, "request"),
        duration(micros)
    );
    let refuses = finding("apf-level-rejects", Severity::Warning, capture, name, "")
        .summary(summary)
        .evidence(json!({
            "rejected": refused,
            "seconds": micros as f64 / SECOND as f64,
            "seats": level.seats,
            "holder": most.map(|(user, _)| *user),
            "holder_seats": most.map(|(_, held)| held.seats),
        }))
        .remedy(
            "rejected clients get 429 and should back off; find who sends most to this level, or give the level more \
             shares or queues",
        );
    found.push(refuses);
}

fn of_instance(capture: &Capture) -> String {
    if capture.instance.is_empty() { String::new() } else { format!(" of {}", capture.instance) }
}

fn share(part: u64, whole: u64) -> f64 {
    (part as f64 / whole.max(1) as f64 * 1e3).round() / 1e3
}
