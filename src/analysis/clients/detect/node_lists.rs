//! LISTs of a node's pods that etcd answers: it decodes the pods of all nodes to find them.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe, name, resource};
use crate::analysis::clients::{first_page, is_turned_away};
use crate::analysis::list_route::Route;
use crate::model::report::Severity;
use crate::model::units::grouped;
use crate::model::uri::{Scope, Selector};
use serde_json::json;

/// A minute and copy.
const PER_MINUTE: f64 = 1.0;
/// Five of them follow one another: what is done now and then is not done every minute.
const WINDOW: i64 = 5;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        let of_node = |row: &crate::analysis::rollup::read::TrafficRow<'_>| {
            let is_of_node =
                row.scope == Scope::Cluster && row.shape.is_some_and(|shape| shape.selector == Selector::Node);
            let is_from_etcd = || first_page(row, clients.server).is_some_and(|list| list.route != Route::Cache);
            is_of_node && !is_turned_away(row.code) && is_from_etcd()
        };
        let minutes = one.minutes(clients, of_node);
        let sources = one.copies(profile);
        let busy = minutes.with(PER_MINUTE * sources as f64);
        if busy < RECURRING_MINUTES || minutes.most_in(WINDOW) < PER_MINUTE * (WINDOW as u64 * sources) as f64 {
            continue;
        }
        let sure = clients.server.is_some();
        let by = if sure { "from etcd" } else { "perhaps from etcd" };
        let summary = format!(
            "{} lists the {} of single nodes {by}, and each LIST decodes those of all nodes: {} times from {sources} \
             addresses",
            name(profile),
            resource(what),
            grouped(minutes.total() as u64)
        );
        let evidence =
            json!({"lists": minutes.total(), "minutes": busy, "busiest_minute": minutes.busiest(), "sources": sources});
        let severity = if sure { Severity::Warning } else { Severity::Info };
        let finding = clients.finding("client-node-lists", severity, profile, what, &minutes);
        let remedy = "list with resourceVersion=0, which the watch cache serves from an index by node, or watch with \
             the same field selector";
        found.push((Some(profile.who), describe(finding, if sure { 0.9 } else { 0.5 }, summary, evidence, remedy)));
    }
}
