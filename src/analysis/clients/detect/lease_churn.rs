//! Leases that are renewed more often than leader election needs.

use super::{ClientFinding, Clients, describe, name};
use crate::analysis::clients::minutes::Minutes;
use crate::model::report::Severity;
use serde_json::json;

/// A minute and lease. Leaders renew every 2 s by default.
const PER_MINUTE: f64 = 60.0;
/// For so long, in seconds.
const SECONDS: f64 = 120.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses().filter(|(_, what, _)| what.1 == "leases") {
        let rates = one.objects.iter().filter_map(|lease| {
            let seconds = lease.seconds();
            let rate = lease.writes as f64 * 60.0 / seconds.max(1.0);
            (seconds >= SECONDS && rate > PER_MINUTE).then_some((rate, lease))
        });
        let Some((rate, lease)) = rates.max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let summary =
            format!("{} writes lease {}/{} {rate:.0} times a minute", name(profile), lease.namespace, lease.name);
        let evidence =
            json!({"writes": lease.writes, "per_minute": rate, "namespace": lease.namespace, "lease": lease.name});
        let minutes = Minutes::between(clients.tile, lease.span);
        let finding = clients.finding("client-lease-churn", Severity::Warning, profile, what, &minutes);
        found.push((
            Some(profile.who),
            describe(
                finding,
                0.9,
                summary,
                evidence,
                "lengthen retryPeriod and renewDeadline of its leader election (default 2 s and 10 s)",
            ),
        ));
    }
}
