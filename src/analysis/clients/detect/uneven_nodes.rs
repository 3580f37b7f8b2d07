//! Nodes of a fleet that send much more than the others.

use super::{ClientFinding, Clients, describe, name};
use crate::analysis::clients::minutes::Minutes;
use crate::model::report::Severity;
use crate::model::units::grouped;
use serde_json::json;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for profile in clients.others() {
        let outliers = profile.uneven_nodes();
        let Some((node, requests)) = outliers.first() else { continue };
        let median = profile.about.median_node;
        let times = *requests as f64 / median.max(1) as f64;
        let more = if outliers.len() > 1 { format!(" ({} nodes in all)", outliers.len()) } else { String::new() };
        let summary = format!(
            "{} sends {} requests from node {node}, {times:.1} times the median of its nodes{more}",
            name(profile),
            grouped(*requests)
        );
        let nodes: Vec<&str> = outliers.iter().map(|(node, _)| *node).collect();
        let evidence = json!({
            "nodes": profile.about.nodes.0, "outliers": outliers.len(), "median_requests": median,
            "most_requests": requests, "times": times,
            "names": nodes.join(" "),
        });
        let minutes = Minutes::between(clients.tile, profile.about.span);
        let finding = clients.finding("client-uneven-nodes", Severity::Info, profile, ("", ""), &minutes);
        let remedy = "check the node and its logs for more pods than elsewhere, a crash loop or an older version \
             (plimsoll traffic LOG --by node,verb,resource,code)";
        found.push((Some(profile.who), describe(finding, 0.9, summary, evidence, remedy)));
    }
}
