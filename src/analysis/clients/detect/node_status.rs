//! Kubelets that write the status of their nodes where a lease says that they live.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe};
use crate::model::report::Severity;
use serde_json::json;

/// A minute and node. By default it is every 5 minutes, or when something changed.
const PER_MINUTE: f64 = 2.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses().filter(|(profile, what, _)| profile.is_kubelets() && what.1 == "nodes") {
        let minutes = one.minutes(clients, |row| matches!(row.verb, "update" | "patch") && row.subresource == "status");
        let nodes = profile.about.nodes.0.max(1) as f64;
        let busy = minutes.with(PER_MINUTE * nodes);
        if busy < RECURRING_MINUTES {
            continue;
        }
        let rate = minutes.busiest() / nodes;
        let summary = format!("{nodes:.0} kubelets write the status of their nodes {rate:.1} times a minute each");
        let evidence =
            json!({"writes": minutes.total(), "nodes": nodes, "busiest_minute_per_node": rate, "minutes": busy});
        let finding = clients.finding("client-node-status", Severity::Warning, profile, what, &minutes);
        let remedy = "reset nodeStatusReportFrequency to 5m, and look for a flapping condition or a long list of \
             images; leases (kube-node-lease) are the nodes' heartbeat";
        found.push((Some(profile.who), describe(finding, 0.9, summary, evidence, remedy)));
    }
}
