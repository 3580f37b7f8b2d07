//! Many watchers of a resource that list it again at the same time.

use super::{ClientFinding, Clients, describe, resource};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::clients::{Profile, Use, first_page};
use crate::analysis::rollup::read::{TrafficRow, What};
use crate::model::report::{Finding, Severity};
use crate::model::time::SECOND;
use crate::model::units::{grouped, percent};
use crate::model::uri::Selector;
use serde_json::json;
use std::collections::BTreeMap;

/// Of the watchers of the resource, in one minute.
const SHARE: f64 = 0.5;
/// Against the median minute.
const BASELINE_FACTOR: f64 = 5.0;
/// Fewer watchers make no storm.
const WATCHERS: f64 = 10.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    // Only those that watch as well: a LIST of theirs is one again.
    let mut watchers: BTreeMap<(&str, What<'r>), Vec<(&Profile<'r>, &Use<'r>)>> = BTreeMap::new();
    for profile in &clients.list {
        for (what, one) in profile
            .uses
            .iter()
            .filter(|(what, one)| !what.1.is_empty() && one.sum(|row| row.verb == "watch" && !is_of_one(row)) > 0)
        {
            watchers.entry((profile.who.cluster, *what)).or_default().push((profile, one));
        }
    }
    for ((cluster, what), uses) in watchers {
        let known: f64 = uses.iter().map(|(profile, one)| one.copies(profile) as f64).sum();
        let minutes =
            Minutes::of(clients.tile, uses.iter().flat_map(|(profile, one)| again(clients, one, one.copies(profile))));
        let (most, median) = (minutes.busiest(), minutes.median((clients.seconds() / 60.0).ceil() as usize));
        if known < WATCHERS || most < SHARE * known || most < BASELINE_FACTOR * median.max(1.0) {
            continue;
        }
        let (from, to) = minutes.span();
        let subject = [("cluster", cluster), ("group", what.0), ("resource", what.1)];
        let finding = Finding::new("client-relist-storm", Severity::Warning, &subject)
            .seen((from * SECOND, (to * SECOND).min(clients.span.1)));
        let summary = format!(
            "{} of {} watchers of {} relisted within a minute ({})",
            grouped(most as u64),
            grouped(known as u64),
            resource(what),
            percent(most / known)
        );
        let evidence =
            json!({"relists_in_a_minute": most, "watchers": known, "median_minute": median, "clients": uses.len()});
        let remedy = "check what ended their watches: a restarted apiserver, a load balancer, a watch cache that is \
             too small (plimsoll traffic --from metrics --health); restart apiservers one at a time; --goaway-chance \
             spreads clients";
        found.push((None, describe(finding, 0.8, summary, evidence, remedy)));
    }
}

fn is_of_one(row: &TrafficRow<'_>) -> bool {
    row.shape.is_some_and(|shape| shape.selector == Selector::Name)
}

/// LISTs by tile, as far as watches were begun before them: what lists for the first time does not list again.
fn again(clients: &Clients<'_>, one: &Use<'_>, copies: u64) -> Vec<(i64, u64)> {
    // A watch has its latency where it began, and counts as a request where it ended.
    let mut tiles: BTreeMap<i64, [u64; 2]> = BTreeMap::new();
    // Watches of single objects come and go with whom they are for.
    for row in one.rows.iter().filter(|row| !is_of_one(row)) {
        let counts = tiles.entry(row.tile).or_default();
        let begun = if row.verb == "watch" { row.latency().count() } else { 0 };
        counts[1] += begun;
        if row.shape.is_some_and(|shape| shape.initial_events) {
            counts[0] += begun;
        } else if first_page(row, clients.server).is_some() {
            counts[0] += row.requests;
        }
    }
    let mut before = 0;
    let again = |(tile, [lists, begun]): (i64, [u64; 2])| {
        // Who lists all the time is no storm: each copy counts once.
        let count = lists.min(before).min(copies);
        before += begun;
        (tile, count)
    };
    tiles.into_iter().map(again).collect()
}
