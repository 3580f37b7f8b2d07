//! LISTs of everything where everything is much.

use super::{Clients, Found, name, resource, told};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::clients::succeeded;
use crate::model::report::Severity;
use crate::model::units::{bytes, grouped};
use serde_json::json;

/// Objects that one LIST returns: two pages of client-go's pager;
const OBJECTS: u64 = 1000;
/// or bytes of JSON: what takes the most seats that a LIST from the cache can.
const BYTES: u64 = 1_000_000;
/// A minute, in so many minutes: a habit.
const PER_MINUTE: f64 = 1.0;
const MINUTES: usize = 3;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<Found<'r>>) {
    let Some(sizes) = clients.sizes else { return };
    for (profile, what, one) in clients.uses() {
        let large = one.rows.iter().filter(|row| succeeded(row)).filter_map(|row| Some((row, sizes.of_list(row)?)));
        let large: Vec<_> = large.filter(|(_, size)| size.objects >= OBJECTS || size.bytes >= BYTES).collect();
        let minutes = Minutes::of(clients.tile, large.iter().map(|(row, _)| (row.tile, row.requests)));
        let Some(largest) = large.iter().map(|(_, size)| *size).max_by_key(|size| size.bytes) else { continue };
        let total: u64 = large.iter().map(|(row, size)| row.requests * size.bytes).sum();
        let severity = if minutes.with(PER_MINUTE) >= MINUTES { Severity::Warning } else { Severity::Info };
        let summary = format!(
            "{} lists {} whole, {} objects of {} at a time: {} times, {} in all",
            name(profile),
            resource(what),
            grouped(largest.objects),
            bytes(largest.bytes as f64),
            grouped(minutes.total() as u64),
            bytes(total as f64)
        );
        let evidence = json!({"lists": minutes.total(), "objects": largest.objects, "list_bytes": largest.bytes, "bytes": total, "minutes": minutes.with(PER_MINUTE)});
        let finding = clients.finding("client-full-list", severity, profile, what, &minutes);
        let remedy = "list in pages (limit=500 with continue), choose with selectors on the server, or use an informer, which lists once";
        found.push((Some(profile.who), told(finding, 0.9, summary, evidence, remedy)));
    }
}
