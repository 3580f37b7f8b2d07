//! GET again and again where a watch would say when something changes.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe, name, resource};
use crate::analysis::rollup::read::{ObjectRow, TrafficRow};
use crate::model::report::Severity;
use crate::model::units::percent;
use serde_json::json;

/// GETs a minute from one address on one resource.
const PER_MINUTE: f64 = 60.0;
/// Reads a minute of one object: more than a candidate in a leader election does, which looks every 2 s.
const OF_OBJECT: f64 = 31.0;
/// For so long, in seconds.
const SECONDS: f64 = 300.0;
/// With so many writes for each GET it is a loop that reads and writes: that shows as conflicts if it does harm.
const WRITES: f64 = 0.5;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        if what.1.is_empty() {
            continue;
        }
        let is_get = |row: &TrafficRow<'_>| row.verb == "get" && row.subresource.is_empty();
        let minutes = one.minutes(clients, is_get);
        let sources = one.copies(profile) as f64;
        let gets = minutes.total();
        let writes = one.sum(|row| matches!(row.verb, "update" | "patch" | "create" | "delete"));
        if writes as f64 >= WRITES * gets {
            continue;
        }
        let busy = minutes.with(PER_MINUTE * sources);
        let object = one.objects.iter().map(|object| (per_minute(object), object)).filter(|(rate, object)| {
            *rate >= OF_OBJECT && object.seconds() >= SECONDS && (object.writes as f64) < WRITES * object.reads as f64
        });
        let object = object.max_by(|a, b| a.0.total_cmp(&b.0));
        if busy < RECURRING_MINUTES && object.is_none() {
            continue;
        }
        let missing = one.sum(|row| is_get(row) && row.code == Some(404)) as f64 / gets;
        let most = object
            .map(|(rate, object)| format!(", most often {} ({rate:.0} a minute)", object.name))
            .unwrap_or_default();
        let absent =
            if missing >= 0.5 { format!(", {} of them answered 404", percent(missing)) } else { String::new() };
        let summary = format!(
            "{} GETs {} {:.0} times in its busiest minute{absent}{most}",
            name(profile),
            resource(what),
            minutes.busiest()
        );
        let evidence = json!({"gets": gets, "busiest_minute": minutes.busiest(), "minutes": busy, "sources": sources,
            "not_found_share": missing});
        let finding = clients.finding("client-get-polling", Severity::Warning, profile, what, &minutes);
        let remedy = "watch instead of polling: use an informer, kubectl wait, or a watch with \
             fieldSelector=metadata.name=NAME; if it must poll, at most every 10 s and with backoff";
        found.push((Some(profile.who), describe(finding, 0.9, summary, evidence, remedy)));
    }
}

fn per_minute(object: &ObjectRow<'_>) -> f64 {
    object.reads as f64 * 60.0 / object.seconds().max(60.0)
}
