//! Requests to APIs that a later Kubernetes does not have.

use super::{ClientFinding, Clients, describe, name};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::list_route::Minor;
use crate::model::report::Severity;
use crate::model::units::counted;
use serde_json::json;

/// Releases before the one without the API: time to change clients, and to try them out.
const AHEAD: u32 = 2;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    // What comes with Kubernetes is changed with it.
    for profile in clients.others().filter(|profile| !profile.is_kubernetes()) {
        for row in &profile.deprecated {
            let minutes = Minutes::of(clients.tile, std::iter::once((row.span.0.div_euclid(1_000_000), row.requests)));
            let removed = Minor::parse(row.removed);
            let is_near = removed.zip(clients.server).is_none_or(|(removed, server)| removed.0 <= server.0 + AHEAD);
            let severity = if removed.is_some() && is_near { Severity::Warning } else { Severity::Info };
            let until =
                if row.removed.is_empty() { String::new() } else { format!(", removed in Kubernetes {}", row.removed) };
            let summary = format!(
                "{} uses {} {}{until}: {}",
                name(profile),
                row.version,
                row.resource,
                counted(row.requests, "request")
            );
            let evidence = json!({"requests": row.requests, "version": row.version, "removed_release": row.removed});
            let group = row.version.split_once('/').map_or("", |(group, _)| group);
            let mut finding =
                clients.finding("client-deprecated-api", severity, profile, (group, row.resource), &minutes);
            (finding.first_seen, finding.last_seen) =
                (crate::model::time::format(row.span.0), crate::model::time::format(row.span.1));
            let remedy = "migrate it to the API version in the server's warning (kubectl convert, or a newer client \
                 release) before the cluster is upgraded";
            found.push((Some(profile.who), describe(finding, 1.0, summary, evidence, remedy)));
        }
    }
}
