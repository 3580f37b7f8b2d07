//! Requests that are refused, and made again all the same.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe, name};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::rollup::read::TrafficRow;
use crate::model::report::Severity;
use crate::model::units::{counted, percent};
use serde_json::json;
use std::collections::BTreeMap;

/// Refusals in a minute and address. client-go's reflector waits up to 30 s between its tries: 2 a minute.
const PER_MINUTE: f64 = 3.0;
/// So many do not recur for long: who tries once a second waits for nothing.
const QUICK_PER_MINUTE: f64 = 60.0;
const QUICK_MINUTES: usize = 2;
/// Of the requests of the same kind.
const SHARE: f64 = 0.5;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for profile in clients.others() {
        let refused = |row: &&TrafficRow<'r>| matches!(row.code, Some(401 | 403));
        if !profile.rows().any(|row| refused(&row)) {
            continue;
        }
        // What it may do does not excuse what it may not: only kinds of requests that are refused count.
        let mut kinds: BTreeMap<(&str, &str, &str), [u64; 2]> = BTreeMap::new();
        for row in profile.rows() {
            let counts = kinds.entry((row.verb, row.what.0, row.what.1)).or_default();
            counts[0] += row.requests;
            counts[1] += if refused(&row) { row.requests } else { 0 };
        }
        kinds.retain(|_, [all, bad]| *bad as f64 >= SHARE * *all as f64);
        let is_refused =
            |row: &&TrafficRow<'r>| refused(row) && kinds.contains_key(&(row.verb, row.what.0, row.what.1));
        let minutes = Minutes::of(clients.tile, profile.rows().filter(is_refused).map(|row| (row.tile, row.requests)));
        let sources = profile.sources().max(1) as f64;
        let busy = minutes.with(PER_MINUTE * sources);
        if busy < RECURRING_MINUTES && minutes.with(QUICK_PER_MINUTE * sources) < QUICK_MINUTES {
            continue;
        }
        let most = kinds
            .iter()
            .max_by_key(|(_, [_, bad])| *bad)
            .map(|((verb, _, resource), _)| format!("{verb} {resource}"))
            .unwrap_or_default();
        let share = minutes.total() / profile.requests as f64;
        let summary = format!(
            "{} keeps sending requests that fail with 401 or 403: {}, {} of all it sent, most of them {}",
            name(profile),
            counted(minutes.total() as u64, "request"),
            percent(share),
            most.trim()
        );
        let evidence =
            json!({"refused": minutes.total(), "share": share, "busiest_minute": minutes.busiest(), "minutes": busy});
        let finding = clients.finding("client-forbidden-loop", Severity::Warning, profile, ("", ""), &minutes);
        let of_code = |code: u16| {
            profile.rows().filter(is_refused).filter(|row| row.code == Some(code)).map(|row| row.requests).sum::<u64>()
        };
        let remedy = match of_code(401) > of_code(403) {
            true => {
                "renew its credentials (an expired token or certificate, or one of another cluster), or stop the \
                 client; it should back off after each failure"
            }
            false => {
                "grant the missing permission (a Role, or a ClusterRole for all namespaces, and its binding), or stop \
                 these requests; creates that exceed a quota are 403s too, and need more quota or fewer objects; in \
                 every case the client should back off after each failure"
            }
        };
        found.push((Some(profile.who), describe(finding, 0.9, summary, evidence, remedy)));
    }
}
