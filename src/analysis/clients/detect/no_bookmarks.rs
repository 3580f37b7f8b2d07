//! Watches without bookmarks: after a pause they begin at a version that may be too old.

use super::{ClientFinding, Clients, describe, name, resource};
use crate::analysis::rollup::read::TrafficRow;
use crate::model::report::Severity;
use crate::model::units::grouped;
use crate::model::uri::Selector;
use serde_json::json;

/// Bookmarks come once a minute: a watch that lives as long could use one, in µs.
const LIFETIME: f64 = 60e6;
/// Or it is opened again and again from one address.
const AGAIN: u64 = 10;

const REMEDY: &str = "set allowWatchBookmarks=true, as client-go's informers do; without bookmarks the \
     resourceVersion of a reopened watch may be too old, and the client must list again";

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        let without = |row: &TrafficRow<'_>| {
            row.verb == "watch" && row.shape.is_some_and(|shape| !shape.bookmarks && shape.selector != Selector::Name)
        };
        let opened = one.sum(without);
        let lives = one.lifetimes(without).quantile(0.5).is_some_and(|median| median >= LIFETIME);
        if opened == 0 || !lives && opened < AGAIN * one.copies(profile) {
            continue;
        }
        let minutes = one.minutes(clients, without);
        let summary = format!(
            "{} watches {} without bookmarks ({} watches opened)",
            name(profile),
            resource(what),
            grouped(opened)
        );
        let evidence = json!({"watches_without_bookmarks": opened});
        let finding = clients.finding("client-no-bookmarks", Severity::Info, profile, what, &minutes);
        found.push((Some(profile.who), describe(finding, 0.95, summary, evidence, REMEDY)));
    }
}
