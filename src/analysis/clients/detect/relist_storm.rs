//! Many watchers of a resource that list it again at the same time.

use super::{Clients, Found, resource, told};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::clients::{Use, listing};
use crate::analysis::rollup::read::{TrafficRow, What};
use crate::model::report::{Finding, Severity};
use crate::model::time::{self, SECOND};
use crate::model::units::{grouped, percent};
use serde_json::json;
use std::collections::BTreeMap;

/// Of the watchers of the resource, in one minute.
const SHARE: f64 = 0.5;
/// Against the median minute.
const TIMES: f64 = 5.0;
/// Fewer watchers make no storm.
const WATCHERS: f64 = 10.0;
/// The log's first minute, in seconds: everybody lists when an apiserver starts, and what was before is not known.
const START: i64 = 60;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<Found<'r>>) {
    // Only those that watch as well: a LIST of theirs is one again.
    let mut watchers: BTreeMap<(&str, What<'r>), Vec<&Use<'r>>> = BTreeMap::new();
    for profile in &clients.list {
        for (what, one) in profile.uses.iter().filter(|(what, one)| !what.1.is_empty() && one.sum(|row| row.verb == "watch") > 0) {
            watchers.entry((profile.who.cluster, *what)).or_default().push(one);
        }
    }
    let begins = |row: &TrafficRow<'_>| {
        let initial = row.verb == "watch" && row.shape.is_some_and(|shape| shape.initial_events);
        initial || listing(row, clients.server).is_some_and(|list| !list.further_page)
    };
    for ((cluster, what), uses) in watchers {
        let known: f64 = uses.iter().map(|one| one.sources() as f64).sum();
        let first = clients.span.0.div_euclid(SECOND) + START;
        let rows = uses.iter().flat_map(|one| &one.rows).filter(|row| row.tile >= first && begins(row));
        let minutes = Minutes::of(clients.tile, rows.map(|row| (row.tile, row.requests)));
        let (most, median) = (minutes.busiest(), minutes.median());
        if known < WATCHERS || most < SHARE * known || most < TIMES * median.max(1.0) {
            continue;
        }
        let mut finding =
            Finding::new("client-relist-storm", Severity::Warning, &[("cluster", cluster), ("group", what.0), ("resource", what.1)]);
        let (from, to) = minutes.span();
        (finding.first_seen, finding.last_seen) = (time::format(from * SECOND), time::format((to * SECOND).min(clients.span.1)));
        let summary = format!(
            "{} of {} watchers of {} listed it again within a minute ({})",
            grouped(most as u64),
            grouped(known as u64),
            resource(what),
            percent(most / known)
        );
        let evidence = json!({"relists_in_a_minute": most, "watchers": known, "median_minute": median, "clients": uses.len()});
        let remedy = "see what ended their watches then: an apiserver that started again, a load balancer, a watch cache that is too small (plimsoll traffic --from metrics --health); restart apiservers one after the other, --goaway-chance spreads clients";
        found.push((None, told(finding, 0.8, summary, evidence, remedy)));
    }
}
