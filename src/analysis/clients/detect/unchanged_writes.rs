//! Writes that leave the object as it was.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe, name, resource};
use crate::analysis::rollup::Fact;
use crate::model::report::Severity;
use crate::model::units::{counted, percent};
use serde_json::json;

/// A minute and copy.
const PER_MINUTE: f64 = 5.0;
/// Of its updates and patches of that resource.
const SHARE: f64 = 0.5;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        let minutes = one.fact_minutes(clients, Fact::NoChange);
        let busy = minutes.with(PER_MINUTE * one.copies(profile) as f64);
        if busy < RECURRING_MINUTES {
            continue;
        }
        let writes = one.sum(|row| matches!(row.verb, "update" | "patch")) as f64;
        let share = minutes.total() / writes.max(1.0);
        if share < SHARE {
            continue;
        }
        let summary = format!(
            "{} writes {} without changing them: {} ({} of its updates and patches)",
            name(profile),
            resource(what),
            counted(minutes.total() as u64, "time"),
            percent(share)
        );
        let evidence = json!({"unchanged": minutes.total(), "writes": writes, "share": share,
            "busiest_minute": minutes.busiest(), "minutes": busy});
        let finding = clients.finding("client-unchanged-writes", Severity::Warning, profile, what, &minutes);
        let remedy = "compare with the informer's copy before writing (equality.Semantic.DeepEqual), and write only \
             changes; such a write costs admission, webhooks and a read from etcd";
        found.push((Some(profile.who), describe(finding, 0.95, summary, evidence, remedy)));
    }
}
