//! Watches that end soon and are opened again, over and over.

use super::{ClientFinding, Clients, describe, name, resource};
use crate::analysis::clients::succeeded;
use crate::analysis::rollup::Fact;
use crate::analysis::rollup::read::TrafficRow;
use crate::model::report::Severity;
use crate::model::units::{duration, grouped};
use crate::model::uri::{Selector, WatchTimeout};
use serde_json::json;

/// Watches from one address.
const WATCHES: u64 = 10;
/// What is shorter is not told apart in words, in µs.
const SHORTEST: i64 = 10_000;
/// Half of them live less long, in µs. Informers keep theirs for 5 to 10 minutes.
const LIFETIME: f64 = 60e6;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        // A watch of one object ends with whom it is for, as a kubelet's of a pod's Secrets.
        // And one that was refused has not lived.
        let counts = |row: &TrafficRow<'_>| {
            row.verb == "watch" && succeeded(row) && row.shape.is_some_and(|shape| shape.selector != Selector::Name)
        };
        let lifetimes = one.lifetimes(counts);
        let sources = one.copies(profile);
        let Some(median) = lifetimes.quantile(0.5).filter(|median| *median < LIFETIME) else { continue };
        // Watches that were too old from the start are reported as client-too-old.
        let ended = lifetimes.count().saturating_sub(2 * one.gaps(Fact::RelistShort).count());
        if ended < WATCHES * sources {
            continue;
        }
        let minutes = one.minutes(clients, counts);
        let opened = one.sum(counts);
        let asked =
            one.sum(|row| counts(row) && row.shape.is_some_and(|shape| shape.timeout == Some(WatchTimeout::Short)));
        let why = if asked * 2 > opened { ", because it sets timeoutSeconds below 60" } else { "" };
        let summary = format!(
            "{} reopens watches of {}: {} times; half of these watches were shorter than {}{why}",
            name(profile),
            resource(what),
            grouped(opened),
            duration((median as i64).max(SHORTEST))
        );
        let evidence = json!({"watches": opened, "median_s": median / 1e6, "busiest_minute": minutes.busiest(),
            "short_timeout": asked, "sources": sources});
        let finding = clients.finding("client-watch-churn", Severity::Warning, profile, what, &minutes);
        let remedy = match asked * 2 > opened {
            true => "remove timeoutSeconds, or set it to 5 to 10 minutes",
            false => {
                "if the client did not end them, check the idle timeouts of load balancers (set them above 10 \
                 minutes) and decoding errors of the client"
            }
        };
        found.push((Some(profile.who), describe(finding, 0.9, summary, evidence, remedy)));
    }
}
