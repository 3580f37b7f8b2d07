//! Asking again and again which APIs there are.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe, name};
use crate::model::report::Severity;
use crate::model::uri::PathClass;
use serde_json::json;

/// A minute and address. Two requests find out everything where discovery is aggregated, and kubectl keeps that for six
/// hours.
const PER_MINUTE: f64 = 30.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses().filter(|(_, what, _)| what.1.is_empty()) {
        let class = |row: &crate::analysis::rollup::read::TrafficRow<'_>| row.shape.and_then(|shape| shape.path);
        let is_schema = |row: &_| class(row) == Some(PathClass::OpenApi);
        let minutes = one.minutes(clients, |row| matches!(class(row), Some(PathClass::Discovery | PathClass::OpenApi)));
        let sources = one.copies(profile);
        let busy = minutes.with(PER_MINUTE * sources as f64);
        if busy < RECURRING_MINUTES {
            continue;
        }
        let schemas = one.sum(is_schema);
        let summary = format!(
            "{} sends {:.0} discovery requests in its busiest minute, from {sources} addresses",
            name(profile),
            minutes.busiest()
        );
        let evidence = json!({
            "requests": minutes.total(), "openapi": schemas, "busiest_minute": minutes.busiest(), "minutes": busy,
            "sources": sources,
        });
        let finding = clients.finding("client-discovery", Severity::Warning, profile, what, &minutes);
        let remedy = "cache discovery: share one RESTMapper in the program, keep the discovery cache on a persistent \
             volume (kubectl --cache-dir, helm), and use a client library with aggregated discovery (client-go 0.26 \
             or later)";
        found.push((Some(profile.who), describe(finding, 0.95, summary, evidence, remedy)));
    }
}
