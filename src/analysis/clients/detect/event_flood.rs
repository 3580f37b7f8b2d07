//! Events by the thousand.

use super::{ClientFinding, Clients, describe, name};
use crate::analysis::rollup::read::TrafficRow;
use crate::model::report::Severity;
use crate::model::units::grouped;
use serde_json::json;

/// A minute from one address: 5 a second, where client-go's recorder allows a burst of 25 for an object and then one in
/// 5 minutes.
const PER_MINUTE: f64 = 300.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses().filter(|(_, what, _)| what.1 == "events") {
        let is_write = |row: &TrafficRow<'_>| matches!(row.verb, "create" | "patch" | "update");
        let minutes = one.minutes(clients, is_write);
        let busiest = minutes.busiest() / one.copies(profile) as f64;
        if busiest < PER_MINUTE {
            continue;
        }
        let refused = one.sum(|row| is_write(row) && row.code.is_some_and(|code| (400..500).contains(&code)));
        let of_these = if refused > 0 { format!(", {} of them refused", grouped(refused)) } else { String::new() };
        let summary = format!(
            "{} writes {:.0} Events/s in its busiest minute, {} Events in total{of_these}",
            name(profile),
            minutes.busiest() / 60.0,
            grouped(minutes.total() as u64)
        );
        let evidence = json!({"events": minutes.total(), "refused": refused, "busiest_minute": minutes.busiest(),
            "busiest_minute_per_source": busiest, "minutes": minutes.with(PER_MINUTE)});
        let finding = clients.finding("client-event-flood", Severity::Warning, profile, what, &minutes);
        let remedy = "record Events through client-go's recorder, which aggregates repeated ones, or use \
             logs or metrics instead of Events; cluster admins can move Events to a separate etcd";
        found.push((Some(profile.who), describe(finding, 0.95, summary, evidence, remedy)));
    }
}
