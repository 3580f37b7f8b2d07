//! One program on many nodes that lists or watches the whole cluster: what it costs grows with nodes times objects.

use super::{ClientFinding, Clients, describe, name, resource};
use crate::analysis::clients::first_page;
use crate::analysis::rollup::read::TrafficRow;
use crate::model::report::Severity;
use crate::model::units::{bytes, grouped};
use crate::model::uri::{Scope, Selector};
use serde_json::json;

/// Addresses or nodes from which on a program is one of many.
const SOURCES: u64 = 20;
/// Whole LISTs from each address, so that it is a habit.
const LISTS: u64 = 3;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        let sources = one.copies(profile).max(profile.about.nodes.0 as u64);
        if sources < SOURCES || profile.is_kubelets() {
            continue;
        }
        let whole = |row: &TrafficRow<'_>| {
            row.scope == Scope::Cluster && row.shape.is_some_and(|shape| shape.selector == Selector::None)
        };
        let is_list = |row: &_| whole(row) && first_page(row, clients.server).is_some();
        let (lists, watches) = (one.sum(is_list), one.sum(|row| row.verb == "watch" && whole(row)));
        if lists + watches < sources {
            continue;
        }
        let is_habit = lists >= LISTS * sources;
        let minutes = one.minutes(clients, |row| is_list(row) || row.verb == "watch" && whole(row));
        // What each further node costs.
        let bytes_per_s = one.rows.iter().filter(|row| is_list(row));
        let bytes_per_s =
            bytes_per_s.filter_map(|row| Some(row.requests * clients.known.of_list(profile.who.cluster, row)?.0.bytes));
        let bytes_per_s =
            clients.is_cost_known.then(|| bytes_per_s.sum::<u64>() as f64 / clients.seconds()).filter(|sum| *sum > 0.0);
        let per_node = bytes_per_s.map(|sum| sum / sources as f64);
        let cost =
            per_node.map(|each| format!("; on average {}/s of responses per address", bytes(each))).unwrap_or_default();
        let summary = format!(
            "{} runs at {} addresses, each reading all {} of the cluster: {} LISTs, {} watches{cost}",
            name(profile),
            grouped(sources),
            resource(what),
            grouped(lists),
            grouped(watches)
        );
        let evidence = json!({"sources": sources, "lists": lists, "watches": watches,
            "busiest_minute": minutes.busiest(), "list_bytes_per_s": bytes_per_s,
            "list_bytes_per_s_per_source": per_node});
        let finding = clients.finding(
            "client-fan-out",
            if is_habit { Severity::Warning } else { Severity::Info },
            profile,
            what,
            &minutes,
        );
        let remedy = match what {
            ("", "pods") => {
                "request only the node's own objects (fieldSelector=spec.nodeName=NODE), read from the kubelet, or \
                 have one central program watch and distribute the data"
            }
            _ => {
                "request only what each node needs (by label or namespace), or have one central program watch and \
                 distribute the data"
            }
        };
        found.push((Some(profile.who), describe(finding, 0.95, summary, evidence, remedy)));
    }
}
