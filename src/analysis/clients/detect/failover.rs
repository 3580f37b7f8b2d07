//! Leaders that change, and how long there was none.

use super::{ClientFinding, Clients, describe, name};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::controllers::handovers::GAP;
use crate::analysis::rollup::Fact;
use crate::model::report::Severity;
use crate::model::units::{counted, duration};
use serde_json::json;

/// Changes within an hour: a rollout is one for each replica.
const CHANGES: f64 = 4.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    // A kubelet's lease says that its node lives; nobody is elected.
    for (profile, what, one) in clients.uses().filter(|(profile, what, _)| what.1 == "leases" && !profile.is_kubelets())
    {
        let gaps = one.gaps(Fact::Takeover);
        let Some(longest) = gaps.quantile(1.0) else { continue };
        let changes: Minutes = one.fact_minutes(clients, Fact::Takeover);
        // Which of its leases changed its holder is not kept: who holds several changes all of them at once.
        let in_an_hour = changes.most_in(60) / one.objects.len().max(1) as f64;
        let leases: Vec<String> =
            one.objects.iter().take(3).map(|lease| format!("{}/{}", lease.namespace, lease.name)).collect();
        let of = match (leases.as_slice(), one.objects.len()) {
            ([], _) => String::new(),
            ([only], _) => format!(" of {only}"),
            (some, all) if all > some.len() => format!(", one of {} and {} more,", some.join(", "), all - some.len()),
            (some, _) => format!(", one of {},", some.join(", ")),
        };
        let evidence = json!({
            "changes": changes.total(), "changes_in_an_hour": in_an_hour, "longest_gap_s": longest / 1e6,
            "gap_p50_s": gaps.quantile(0.5).unwrap_or(0.0) / 1e6, "leases": leases.join(" "),
        });
        if longest >= GAP {
            let summary = format!(
                "{} had no leader for {}: the lease{of} was taken over late",
                name(profile),
                duration(longest as i64)
            );
            let finding = clients.finding("client-failover-gap", Severity::Warning, profile, what, &changes);
            let remedy = "release the lease on shutdown (ReleaseOnCancel), run a standby replica, and keep \
                 LeaseDuration at 15 s; until the takeover its work stops";
            found.push((Some(profile.who), describe(finding, 0.8, summary, evidence.clone(), remedy)));
        }
        if in_an_hour >= CHANGES {
            let summary =
                format!("{} changed its leader {} within an hour", name(profile), counted(in_an_hour as u64, "time"));
            let finding = clients.finding("client-leader-changes", Severity::Warning, profile, what, &changes);
            let remedy = "check why leaders lose their lease: slow or rejected renewals (plimsoll traffic --where \
                 resource=leases), CPU limits, restarts; a longer LeaseDuration tolerates short stalls";
            found.push((Some(profile.who), describe(finding, 0.8, summary, evidence, remedy)));
        }
    }
}
