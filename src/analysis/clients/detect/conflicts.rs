//! Clients that write the same object and find each time that somebody was before them.

use super::{ClientFinding, Clients, describe, name, path, resource};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::rollup::read::{ObjectRow, What};
use crate::model::report::Severity;
use crate::model::time::SECOND;
use crate::model::units::percent;
use serde_json::json;
use std::collections::BTreeMap;

/// Conflicts a minute on one object.
const PER_MINUTE: f64 = 10.0;
/// Of the writes to it; now and then one is how optimistic locking works.
const SHARE: f64 = 0.05;
/// For so long, in seconds.
const SECONDS: f64 = 120.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Object<'r> {
    cluster: &'r str,
    what: What<'r>,
    namespace: &'r str,
    name: &'r str,
}

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    let mut objects: BTreeMap<Object<'r>, Vec<(usize, ObjectRow<'r>)>> = BTreeMap::new();
    for (number, profile) in clients.list.iter().enumerate().filter(|(_, profile)| !profile.is_apiserver()) {
        for (what, one) in &profile.uses {
            for object in one.objects.iter().filter(|object| object.writes > 0) {
                let key = Object {
                    cluster: profile.who.cluster,
                    what: *what,
                    namespace: object.namespace,
                    name: object.name,
                };
                objects.entry(key).or_default().push((number, *object));
            }
        }
    }
    for (Object { what, namespace, name: object, .. }, rows) in objects {
        if rows.iter().all(|(_, row)| row.conflicts == 0) {
            continue;
        }
        let sum = |of: fn(&ObjectRow<'_>) -> u64| rows.iter().map(|(_, row)| of(row)).sum::<u64>() as f64;
        let (conflicts, writes) = (sum(|row| row.conflicts), sum(|row| row.writes));
        let first = rows.iter().map(|(_, row)| row.span.0).min().unwrap_or(0);
        let last = rows.iter().map(|(_, row)| row.span.1).max().unwrap_or(0);
        let seconds = (last - first) as f64 / SECOND as f64;
        let per_minute = conflicts * 60.0 / seconds.max(1.0);
        if per_minute < PER_MINUTE || conflicts / writes.max(1.0) < SHARE || seconds < SECONDS {
            continue;
        }
        for (number, row) in rows.iter().filter(|(_, row)| row.conflicts > 0) {
            let Some(profile) = clients.list.get(*number) else { continue };
            let others =
                rows.iter().filter(|(other, _)| other != number).filter_map(|(other, _)| clients.list.get(*other));
            let others: Vec<String> = others.map(name).take(5).collect();
            let with = if others.is_empty() { "itself, in several copies".to_owned() } else { others.join(", ") };
            let share = row.conflicts as f64 / row.writes.max(1) as f64;
            let path = path(namespace, object);
            let summary = format!(
                "{} writes {} {path} in competition with {with}: {} of its writes fail as conflicts (409); \
                 {per_minute:.0} conflicts a minute on this object",
                name(profile),
                resource(what),
                percent(share)
            );
            let evidence = json!({
                "conflicts": row.conflicts, "writes": row.writes, "conflict_share": share,
                "all_conflicts_per_minute": per_minute,
                "clients": rows.len(), "namespace": namespace, "object": object,
            });
            let minutes = Minutes::between(clients.tile, row.span);
            let finding = clients.finding("client-conflicts", Severity::Warning, profile, what, &minutes);
            let remedy = "give the object one owner, or let each client write only its own fields (server-side apply \
                 or patch); read the object again before each retry, and back off";
            found.push((Some(profile.who), describe(finding, 0.95, summary, evidence, remedy)));
        }
    }
}
