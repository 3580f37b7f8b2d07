//! A client that suddenly sends far more than before.

use super::{ClientFinding, Clients, describe, name};
use crate::analysis::clients::minutes::Minutes;
use crate::model::incident::quote;
use crate::model::question::condition;
use crate::model::report::Severity;
use crate::model::units::percent;
use serde_json::json;

/// The busiest minute against the median minute before it.
const BASELINE_FACTOR: f64 = 5.0;
/// Minutes before, from which its usual rate is known.
const BEFORE: usize = 3;
/// Of all requests of that minute.
const SHARE: f64 = 0.1;
/// And so many requests.
const REQUESTS: f64 = 60.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for profile in clients.others() {
        let minutes = Minutes::of(clients.tile, profile.rows().map(|row| (row.tile, row.requests)));
        let Some((usual, most, at)) = minutes.rise(BEFORE) else { continue };
        if most < BASELINE_FACTOR * usual.max(1.0) || most < REQUESTS {
            continue;
        }
        let all = in_minute(clients, at);
        if most < SHARE * all {
            continue;
        }
        let summary = format!(
            "{} sent {most:.0} requests in a minute, {:.0} times its earlier rate; {} of all requests at that time",
            name(profile),
            most / usual.max(1.0),
            percent(most / all)
        );
        let evidence = json!({"busiest_minute": most, "usual_minute": usual, "share_of_minute": most / all});
        let finding = clients.finding("client-surge", Severity::Info, profile, ("", ""), &minutes);
        let remedy = format!(
            "check what changed for it at that time: a deployment, more replicas, a loop (plimsoll traffic LOG \
             --series --where {})",
            quote(&condition("user", profile.who.user))
        );
        found.push((Some(profile.who), describe(finding, 0.9, summary, evidence, &remedy)));
    }
}

/// What all clients sent in the minute that begins then, in seconds; of a tile that is longer, its part.
fn in_minute(clients: &Clients<'_>, begin: i64) -> f64 {
    let rows = clients.list.iter().flat_map(|profile| profile.rows());
    let within = |tile: i64| (tile + clients.tile).min(begin + 60) - tile.max(begin);
    rows.map(|row| row.requests as f64 * within(row.tile).max(0) as f64 / clients.tile as f64).sum()
}
