//! The same request at once after 429 or a server error.

use super::{ClientFinding, Clients, describe, name};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::rollup::{Fact, RETRY_AFTER};
use crate::model::histogram::Histogram;
use crate::model::report::Severity;
use crate::model::units::{counted, duration, percent};
use serde_json::json;

/// Fewer are no habit.
const RETRIES: u64 = 10;
/// Of all retries.
const SHARE: f64 = 0.5;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for profile in clients.others() {
        let mut gaps = Histogram::default();
        let mut tiles = Vec::new();
        for one in profile.uses.values() {
            for (tile, _, some) in
                one.facts.iter().filter(|(_, fact, _)| matches!(fact, Fact::Retry429 | Fact::Retry5xx))
            {
                gaps.merge(some);
                tiles.push((*tile, some.count()));
            }
        }
        let soon = gaps.below(RETRY_AFTER);
        let share = soon as f64 / gaps.count().max(1) as f64;
        if soon < RETRIES || share < SHARE {
            continue;
        }
        let throttled: u64 = profile.rows().filter(|row| row.code == Some(429)).map(|row| row.requests).sum();
        // Who waits the same time after each failure comes back together with all others that failed then.
        let spread = gaps.quantile(0.9).zip(gaps.quantile(0.1)).map_or(0.0, |(p90, p10)| p90 / p10.max(1e3));
        let median = gaps.quantile(0.5).unwrap_or(0.0) / 1e3;
        let summary = format!(
            "{} retries without backoff after 429s and server errors: {} within a second ({} of its retries), half \
             of them within {}",
            name(profile),
            counted(soon, "time"),
            percent(share),
            duration((median * 1e3).ceil() as i64)
        );
        let evidence = json!({"retries": gaps.count(), "within_1_s": soon, "share": share, "median_ms": median,
            "p90_to_p10": spread, "throttled": throttled});
        let minutes = Minutes::of(clients.tile, tiles.into_iter());
        let finding = clients.finding("client-no-backoff", Severity::Warning, profile, ("", ""), &minutes);
        let remedy = "honour Retry-After, and use exponential backoff with jitter (client-go: 10 retries, \
             wait.Backoff); until then a FlowSchema of its own isolates it";
        found.push((Some(profile.who), describe(finding, 0.95, summary, evidence, remedy)));
    }
}
