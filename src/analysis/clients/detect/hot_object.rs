//! One object that a client writes again and again.

use super::{ClientFinding, Clients, describe, name, path, resource, series};
use crate::analysis::clients::Use;
use crate::analysis::clients::minutes::Minutes;
use crate::model::report::Severity;
use crate::model::units::counted;
use serde_json::json;
use std::collections::BTreeMap;

/// A minute and object: leaders renew every 2 s by default, so this is twice as often as leader election needs.
const PER_MINUTE: f64 = 60.0;
/// In three minutes that follow one another: two minutes of that, however they lie in the minutes of the clock. A
/// roll-out that is over in one is no loop.
const IN_THREE_MINUTES: f64 = 120.0;
/// The least time that is judged where minutes are not known, in seconds.
const SECONDS: f64 = 120.0;

/// An object that is written too often.
struct Hot<'r> {
    namespace: &'r str,
    name: &'r str,
    writes: f64,
    per_minute: f64,
    minutes: Minutes,
}

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    // Leases have a finding of their own.
    for (profile, what, one) in clients.uses().filter(|(_, what, _)| what.1 != "leases") {
        let all = if clients.has_writers { by_minute(one) } else { by_span(clients, one) };
        let Some(hot) = all.iter().max_by(|a, b| a.per_minute.total_cmp(&b.per_minute)) else { continue };
        let more = match all.len() {
            1 => String::new(),
            count => format!("; {} likewise", counted(count as u64 - 1, "more object")),
        };
        let object = path(hot.namespace, hot.name);
        let summary = format!(
            "{} writes {} {object} {:.0} times a minute (reported from 60){more}",
            name(profile),
            resource(what),
            hot.per_minute
        );
        let evidence = json!({
            "per_minute": hot.per_minute, "writes": hot.writes, "namespace": hot.namespace, "object": hot.name,
            "objects": all.len(), "table": if clients.has_writers { "writes" } else { "objects" },
        });
        // Its own parts write what others change: the status of a roll-out, quotas.
        let severity = if profile.is_control_plane() { Severity::Info } else { Severity::Warning };
        let remedy = format!(
            "write only when something changed, and batch changes for a few seconds (a workqueue with AddAfter); for \
             leader election use a Lease with the default retryPeriod of 2 s; to see when and what it writes: {}",
            series(&[("agent", profile.who.agent), ("resource", what.1), ("name", hot.name)])
        );
        let finding = clients.finding("client-hot-object", severity, profile, what, &hot.minutes);
        found.push((Some(profile.who), describe(finding, 0.95, summary, evidence, &remedy)));
    }
}

/// By writes that were done in minutes of the clock; those to subresources count as well.
fn by_minute<'r>(one: &Use<'r>) -> Vec<Hot<'r>> {
    let mut objects: BTreeMap<(&str, &str), Vec<(i64, u64)>> = BTreeMap::new();
    for row in &one.written {
        let [_, _, _, _, namespace, name, ..] = row.key;
        objects.entry((namespace, name)).or_default().push((row.minute, row.writes));
    }
    let hot = objects.into_iter().filter_map(|((namespace, name), rows)| {
        let minutes = Minutes::of(60, rows.into_iter());
        let (per_minute, writes) = (minutes.busiest(), minutes.total());
        let is_hot = per_minute > PER_MINUTE && minutes.most_in(3) > IN_THREE_MINUTES;
        is_hot.then_some(Hot { namespace, name, writes, per_minute, minutes })
    });
    hot.collect()
}

/// By all writes from the first to the last, as leases are judged.
fn by_span<'r>(clients: &Clients<'r>, one: &Use<'r>) -> Vec<Hot<'r>> {
    let hot = one.objects.iter().filter_map(|object| {
        let (seconds, writes) = (object.seconds(), object.writes as f64);
        let per_minute = writes * 60.0 / seconds.max(1.0);
        let (namespace, name, minutes) = (object.namespace, object.name, Minutes::between(clients.tile, object.span));
        let is_hot = per_minute > PER_MINUTE && seconds >= SECONDS;
        is_hot.then_some(Hot { namespace, name, writes, per_minute, minutes })
    });
    hot.collect()
}
