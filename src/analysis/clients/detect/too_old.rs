//! Watches from a version that is too old, each followed by a LIST of everything.

use super::{ClientFinding, Clients, describe, name, resource};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::clients::succeeded;
use crate::analysis::rollup::Fact;
use crate::analysis::rollup::read::TrafficRow;
use crate::model::report::Severity;
use crate::model::units::counted;
use crate::model::uri::Version;
use serde_json::json;

/// Within [`WINDOW`] minutes, from one address. One happens to everybody.
const PER_WINDOW: f64 = 3.0;
const WINDOW: i64 = 10;
/// A watch that ends this soon (µs) was rejected because its version is too old.
const AT_ONCE: u64 = 1_000_000;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        // Watches that were accepted, at a certain version, and ended within a second. Those that were refused are not
        // too old.
        let from_version = |row: &&TrafficRow<'_>| {
            row.verb == "watch" && succeeded(row) && row.shape.is_some_and(|shape| shape.version == Version::At)
        };
        let at_once = one
            .rows
            .iter()
            .filter(from_version)
            .map(|row| (row.tile, row.lifetime().map_or(0, |lifetimes| lifetimes.below(AT_ONCE))));
        let (minutes, relists) = (Minutes::of(clients.tile, at_once), one.fact_minutes(clients, Fact::RelistShort));
        let minutes = if relists.total() < minutes.total() { relists } else { minutes };
        let gone = one.sum(|row| row.verb == "list" && row.code == Some(410));
        let densest = minutes.most_in(WINDOW) / one.copies(profile) as f64;
        if densest < PER_WINDOW {
            continue;
        }
        let summary = format!(
            "{} watches {} from a resourceVersion that is too old, and relists: {}",
            name(profile),
            resource(what),
            counted(minutes.total() as u64, "time")
        );
        let evidence = json!({"relists": minutes.total(), "in_10_min_per_source": densest, "lists_410": gone});
        let finding = clients.finding("client-too-old", Severity::Warning, profile, what, &minutes);
        let has_bookmarks =
            one.rows.iter().filter(from_version).all(|row| row.shape.is_some_and(|shape| shape.bookmarks));
        let remedy = match has_bookmarks {
            true => {
                "start the watch at the LIST's resourceVersion, and the next one at that of the last event or \
                 bookmark"
            }
            false => {
                "start the watch at the LIST's resourceVersion, keep that version current from events and \
                 bookmarks (allowWatchBookmarks=true), and start the next watch from it"
            }
        };
        // The 410 stands inside the stream, which no log shows: a watch that ends at once for another reason looks the
        // same.
        found.push((Some(profile.who), describe(finding, 0.85, summary, evidence, remedy)));
    }
}
