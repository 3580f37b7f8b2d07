//! Questions whether somebody may do something, asked again before the answer could have changed.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe, name, resource};
use crate::model::report::Severity;
use serde_json::json;

/// A minute from one address. Who keeps answers as long as kubelets do (5 minutes) would have to ask 300 different
/// ones.
const PER_MINUTE: f64 = 60.0;
const REVIEWS: [&str; 5] = [
    "subjectaccessreviews",
    "localsubjectaccessreviews",
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "tokenreviews",
];

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses().filter(|(_, what, _)| REVIEWS.contains(&what.1)) {
        let minutes = one.minutes(clients, |row| row.verb == "create");
        let busy = minutes.with(PER_MINUTE * one.copies(profile) as f64);
        if busy < RECURRING_MINUTES {
            continue;
        }
        let summary = format!(
            "{} creates {} {:.1} times a second in its busiest minute",
            name(profile),
            resource(what),
            minutes.busiest() / 60.0
        );
        let evidence = json!({"reviews": minutes.total(), "busiest_minute": minutes.busiest(), "minutes": busy,
            "sources": one.copies(profile)});
        let finding = clients.finding("client-access-reviews", Severity::Warning, profile, what, &minutes);
        let remedy = "cache the answers: k8s.io/apiserver's delegating authorizer and authenticator cache for 10 s by \
             default; for comparison, kubelets cache allowed answers for 5 minutes, denied ones for 30 s";
        // Whether the questions are the same stands in their bodies, which logs of level Metadata leave out.
        found.push((Some(profile.who), describe(finding, 0.75, summary, evidence, remedy)));
    }
}
