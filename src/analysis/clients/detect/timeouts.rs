//! Requests that end in 504: they took longer than the server or the client waits.

use super::{ClientFinding, Clients, describe, name};
use crate::analysis::clients::minutes::Minutes;
use crate::model::report::Severity;
use crate::model::units::{counted, percent};
use serde_json::json;

/// In a minute,
const PER_MINUTE: f64 = 5.0;
/// or of all its requests, if they are so many.
const SHARE: f64 = 0.01;
const MIN_TIMEOUTS: f64 = 10.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for profile in clients.others() {
        let rows = profile.rows().filter(|row| row.code == Some(504)).map(|row| (row.tile, row.requests));
        let minutes = Minutes::of(clients.tile, rows);
        let share = minutes.total() / profile.requests as f64;
        if minutes.busiest() < PER_MINUTE && (minutes.total() < MIN_TIMEOUTS || share < SHARE) {
            continue;
        }
        let mut causes = [0; 3];
        profile.rows().for_each(|row| causes.iter_mut().zip(row.timeouts()).for_each(|(sum, count)| *sum += count));
        let [gone, deadline, behind] = causes;
        // The one that explains most of them, if it explains half.
        let main = [
            (deadline, ", most of them because the request's timeout was reached"),
            (behind, ", most of them because the watch cache was behind the requested resourceVersion"),
            (gone, ", most of them because the client disconnected; the apiserver still did the work"),
        ];
        let why =
            main.iter().filter(|(count, _)| *count as f64 * 2.0 >= minutes.total()).max_by_key(|(count, _)| *count);
        let summary = format!(
            "{}: {} ended in 504 ({} of its requests){}",
            name(profile),
            counted(minutes.total() as u64, "request"),
            percent(share),
            why.map_or("", |(_, words)| words)
        );
        let evidence = json!({
            "timeouts": minutes.total(), "share": share, "busiest_minute": minutes.busiest(),
            "client_gone": gone, "deadline": deadline, "cache_behind": behind,
        });
        let finding = clients.finding("client-timeouts", Severity::Warning, profile, ("", ""), &minutes);
        let remedy = match why.map(|(_, words)| *words) {
            Some(words) if words == main[1].1 => {
                "check the watch cache: an apiserver that falls behind etcd (plimsoll etcd health, plimsoll traffic \
                 --from metrics --health) answers late; do not request resourceVersions of another apiserver"
            }
            Some(words) if words == main[2].1 => {
                "raise the client's own timeout, which is shorter than the request takes, or request less at once \
                 (limit, selectors)"
            }
            _ => {
                "request less at once (limit, selectors) or more time (timeout=); check whether etcd or webhooks are \
                 slow (plimsoll etcd health, plimsoll traffic --from metrics --health)"
            }
        };
        found.push((Some(profile.who), describe(finding, 0.9, summary, evidence, remedy)));
    }
}
