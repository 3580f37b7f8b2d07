//! LISTs of everything where everything is much, and what a burst of them takes.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe, name, resource};
use crate::analysis::clients::cost::Origin;
use crate::analysis::clients::minutes::Minutes;
use crate::model::report::Severity;
use crate::model::units::{bytes, grouped};
use crate::model::uri::Version;
use serde_json::json;

/// Objects that one LIST returns: two pages of client-go's pager;
const OBJECTS: u64 = 1000;
/// or bytes of JSON: what takes the most seats that a LIST from the cache can.
const BYTES: u64 = 1_000_000;
/// A minute.
const PER_MINUTE: f64 = 1.0;
const WINDOW: i64 = 5;
/// Of a client's LISTs.
const NEARLY_ALL: f64 = 0.95;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        let whole = one.rows.iter().filter(|row| row.shape.is_some_and(|shape| !shape.limit && !shape.continued));
        let large = whole.filter_map(|row| Some((row, clients.known.of_list(profile.who.cluster, row)?)));
        let large: Vec<_> = large.filter(|(_, (size, _))| size.objects >= OBJECTS || size.bytes >= BYTES).collect();
        let minutes = Minutes::of(clients.tile, large.iter().map(|(row, _)| (row.tile, row.requests)));
        let Some((largest, origin)) = large.iter().map(|(_, known)| *known).max_by_key(|(size, _)| size.bytes) else {
            continue;
        };
        let total: u64 = large.iter().map(|(row, (size, _))| row.requests * size.bytes).sum();
        // Where nearly all of its LISTs are such, so are those that were on their way together. Longer tiles do not
        // show.
        let lists = one.sum(|row| row.verb == "list") as f64;
        let at_once = (clients.pulse() == 1 && minutes.total() >= NEARLY_ALL * lists).then_some(one.lists_at_once.most);
        let burst = at_once.map(|count| count * largest.bytes);
        let together = at_once.zip(burst).filter(|(count, _)| *count > 1);
        let together =
            together.map(|(count, burst)| format!("; up to {count} within a second, {}", bytes(burst as f64)));
        let source = match origin {
            Origin::Responses => "from the responses in the log",
            Origin::Snapshot => "from the etcd database",
            Origin::Metrics => "from the apiserver's metrics",
        };
        let is_habit =
            minutes.with(PER_MINUTE) >= RECURRING_MINUTES && minutes.most_in(WINDOW) >= PER_MINUTE * WINDOW as f64;
        let severity = if is_habit { Severity::Warning } else { Severity::Info };
        let are_alike = large.iter().all(|(_, (size, _))| size.objects == largest.objects);
        let summary = format!(
            "{} lists all {} without limit: {} LISTs of {}{} objects and {} each ({source}), {} in all{}",
            name(profile),
            resource(what),
            grouped(minutes.total() as u64),
            if are_alike { "" } else { "up to " },
            grouped(largest.objects),
            bytes(largest.bytes as f64),
            bytes(total as f64),
            together.unwrap_or_default()
        );
        let evidence = json!({"lists": minutes.total(), "objects": largest.objects, "list_bytes": largest.bytes,
            "bytes": total, "minutes": minutes.with(PER_MINUTE), "source": origin.name(), "at_once": at_once,
            "burst_bytes": burst});
        let finding = clients.finding("client-full-list", severity, profile, what, &minutes);
        // The watch cache of older apiservers ignores limit where resourceVersion=0.
        let from_cache = large.iter().filter(|(row, _)| row.shape.is_some_and(|shape| shape.version == Version::Zero));
        let is_zero = from_cache.map(|(row, _)| row.requests).sum::<u64>() as f64 * 2.0 > minutes.total();
        let pages = if is_zero {
            "limit=500 with continue, and without resourceVersion=0, which ignores limit"
        } else {
            "limit=500 with continue"
        };
        let remedy = format!("list in pages ({pages}), filter with selectors, or use an informer, which lists once");
        found.push((
            Some(profile.who),
            describe(finding, if origin == Origin::Metrics { 0.8 } else { 0.9 }, summary, evidence, &remedy),
        ));
    }
}
