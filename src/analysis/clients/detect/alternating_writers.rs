//! Two clients that overwrite one another's object in turns, most of the time without a conflict that would show them.

use super::{ClientFinding, Clients, describe, name, path, resource, series};
use crate::analysis::clients::Profile;
use crate::analysis::rollup::read::{What, Who};
use crate::model::incident::quote;
use crate::model::report::{Finding, Severity};
use crate::model::time::SECOND;
use crate::model::units::{counted, duration};
use serde_json::json;
use std::collections::BTreeMap;

/// Its id.
pub(super) const ID: &str = "client-alternating-writers";

/// Writes that follow one of the other, before which the same client had written.
const TURNS: u64 = 10;
/// From the first turn to the last: ten take five minutes at most. Who deploys now and then what another one amends
/// stays below.
const PER_MINUTE: f64 = 2.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    let profiles: BTreeMap<Who<'r>, &Profile<'r>> = clients.others().map(|profile| (profile.who, profile)).collect();
    for row in &clients.alternations {
        let [cluster, group, kind, subresource, namespace, object, user, agent] = row.key;
        let [other_user, other_agent] = row.other;
        let of = |user, agent| profiles.get(&Who { cluster, user, agent }).copied();
        let (Some(one), Some(other)) = (of(user, agent), of(other_user, other_agent)) else { continue };
        let span = row.span.1 - row.span.0;
        let per_minute = row.turns as f64 * 60.0 / (span as f64 / SECOND as f64).max(60.0);
        let what = (group, kind);
        let conflicts = conflicts(one, what, namespace, object) + conflicts(other, what, namespace, object);
        // Where most of it ends in a 409 they know of one another: that is client-conflicts.
        if row.turns < TURNS || per_minute < PER_MINUTE || conflicts >= row.turns {
            continue;
        }
        // The cluster's own parts may share an object, each with fields of its own.
        let is_own = one.is_control_plane() || other.is_control_plane();
        let (severity, confidence) = if is_own { (Severity::Info, 0.5) } else { (Severity::Warning, 0.8) };
        let subject = [
            ("cluster", cluster),
            ("user", user),
            ("agent", agent),
            ("other_user", other_user),
            ("other_agent", other_agent),
            ("group", group),
            ("resource", kind),
            ("subresource", subresource),
            ("namespace", namespace),
            ("object", object),
        ];
        let finding = Finding::new(ID, severity, &subject).seen(row.span);
        let summary = format!(
            "{} and {} overwrite each other on {} {}: {} in {} ({:.0} a minute), {} (409)",
            name(one),
            name(other),
            resource(what),
            path(namespace, object),
            counted(row.turns, "alternation"),
            duration(span),
            per_minute,
            counted(conflicts, "conflict"),
        );
        let evidence = json!({
            "turns": row.turns, "turns_per_minute": per_minute, "seconds": span as f64 / SECOND as f64,
            "conflicts": conflicts, "namespace": namespace, "object": object, "subresource": subresource,
        });
        let (kinds, named) = (quote(&resource(what)), quote(object));
        let of = if namespace.is_empty() { String::new() } else { format!("-n {} ", quote(namespace)) };
        let form = "--show-managed-fields -o yaml";
        // A Role may be called --server=, and what stands behind -- is no flag.
        let shown = match object.starts_with('-') {
            true => format!("{of}{form} {kinds} -- {named}"),
            false => format!("{kinds} {of}{named} {form}"),
        };
        let remedy = format!(
            "give the object one owner, or use server-side apply with one fieldManager per client and without \
             --force-conflicts; to see the owner of each field: kubectl get {shown}; to see both writers: {}",
            series(&[("resource", kind), ("name", object)]),
        );
        // Neither is to blame alone, and a limit would only slow the fight down: no client is named for a fence.
        found.push((None, describe(finding, confidence, summary, evidence, &remedy)));
    }
}

/// Writes of a client to an object that failed with 409.
fn conflicts(profile: &Profile<'_>, what: What<'_>, namespace: &str, object: &str) -> u64 {
    let objects = profile.uses.get(&what).into_iter().flat_map(|one| &one.objects);
    objects.filter(|row| row.namespace == namespace && row.name == object).map(|row| row.conflicts).sum()
}
