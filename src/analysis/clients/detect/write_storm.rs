//! A client that writes far more than all others.

use super::{ClientFinding, Clients, describe, name, resource, series};
use crate::analysis::clients::Profile;
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::rollup::read::{TrafficRow, What};
use crate::model::incident::quote;
use crate::model::report::Severity;
use crate::model::units::{bytes, duration, percent, significant};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Writes a second over a minute: twice what client-go lets a client send by default (5 a second, 10 at once).
const RATE: f64 = 10.0;
/// Of the cluster's writes in that minute: one client in four.
const SHARE: f64 = 0.25;
/// From here on it is critical, with [`CRITICAL_SHARE`]: half again what kube-controller-manager and, up to 0.20,
/// controller-runtime allow themselves (20 a second), so it goes on at full speed with its own limit raised or removed.
const CRITICAL_RATE: f64 = 30.0;
/// More than all others together.
const CRITICAL_SHARE: f64 = 0.5;
/// Seconds.
const WINDOW: i64 = 60;
/// A second, in each tile of the minute but one: who creates a thousand objects in ten seconds, and is done, is no
/// storm.
const STEADY_RATE: f64 = RATE / 2.0;

/// Questions that are asked by a create: nothing is stored.
const QUESTIONS: [&str; 6] = [
    "localsubjectaccessreviews",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "selfsubjectrulesreviews",
    "subjectaccessreviews",
    "tokenreviews",
];

/// Writes by start of their tile.
type Tiles = BTreeMap<i64, u64>;

/// The busiest minute of a client, among those in which it storms.
struct Storm {
    /// Where the minute begins, in seconds.
    at: i64,
    writes: u64,
    all: u64,
    is_critical: bool,
    /// The tiles of all of its minutes.
    tiles: BTreeSet<i64>,
}

/// Writes of a cluster, and of each client in it.
type Cluster<'c, 'r> = (Tiles, Vec<(&'c Profile<'r>, Tiles)>);

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    let mut clusters: BTreeMap<&str, Cluster<'_, 'r>> = BTreeMap::new();
    for profile in &clients.list {
        let mut own = Tiles::new();
        for row in profile.rows().filter(|row| is_write(profile, row)) {
            *own.entry(row.tile).or_default() += row.requests;
        }
        let (all, profiles) = clusters.entry(profile.who.cluster).or_default();
        own.iter().for_each(|(tile, writes)| *all.entry(*tile).or_default() += writes);
        if !profile.is_apiserver() {
            profiles.push((profile, own));
        }
    }
    for (all, profiles) in clusters.into_values() {
        let storms = profiles.iter().filter_map(|(profile, own)| Some((*profile, storm(clients.tile, own, &all)?)));
        let (parts, others): (Vec<_>, Vec<_>) = storms.partition(|(profile, _)| profile.is_control_plane());
        let explained: BTreeSet<i64> = others.iter().flat_map(|(_, storm)| &storm.tiles).copied().collect();
        // The cluster's own parts write what others asked for: they are named only where none of those is.
        let alone = parts.into_iter().filter(|(_, storm)| storm.tiles.is_disjoint(&explained));
        for (profile, storm) in others.into_iter().chain(alone) {
            found.push(words(clients, profile, &storm));
        }
    }
}

/// Whether it is a write that an apiserver worked on. Events have a finding of their own, and often an etcd; kubelets
/// write a lease each 10 s to say that they live.
fn is_write(profile: &Profile<'_>, row: &TrafficRow<'_>) -> bool {
    matches!(row.verb, "create" | "update" | "patch" | "delete" | "deletecollection")
        && !matches!(row.code, Some(401 | 403 | 429))
        && row.what.1 != "events"
        && !QUESTIONS.contains(&row.what.1)
        && row.subresource != "token"
        && !(row.what.1 == "leases" && profile.is_kubelets())
}

/// How many tiles of a length a minute has.
fn window(length: i64) -> i64 {
    (WINDOW / length).max(1)
}

/// The minutes in which a client writes that much, and of all.
fn storm(length: i64, own: &Tiles, all: &Tiles) -> Option<Storm> {
    let tiles = window(length);
    let seconds = (tiles * length) as f64;
    let within = |counts: &Tiles, at: i64| -> u64 { counts.range(at..at + tiles * length).map(|(_, n)| n).sum() };
    let mut worst: Option<Storm> = None;
    let mut covered = BTreeSet::new();
    for at in own.keys().copied() {
        let (writes, all) = (within(own, at), within(all, at));
        let (rate, share) = (writes as f64 / seconds, writes as f64 / all.max(1) as f64);
        if rate < RATE || share < SHARE || !is_steady(length, own, at) {
            continue;
        }
        covered.extend(own.range(at..at + tiles * length).map(|(tile, _)| *tile));
        let is_critical = rate >= CRITICAL_RATE && share >= CRITICAL_SHARE;
        if worst.as_ref().is_none_or(|worst| (is_critical, writes) > (worst.is_critical, worst.writes)) {
            worst = Some(Storm { at, writes, all, is_critical, tiles: BTreeSet::new() });
        }
    }
    worst.map(|worst| Storm { tiles: covered, ..worst })
}

/// Whether the writes of the minute that begins at `at` are no burst that is over sooner. In tiles of a minute that
/// shows only in the one before or behind; longer ones are means that no burst reaches.
fn is_steady(length: i64, own: &Tiles, at: i64) -> bool {
    let is_busy = |tile: i64| own.get(&tile).is_some_and(|writes| *writes as f64 >= STEADY_RATE * length as f64);
    let tiles = window(length);
    match tiles {
        1 => length > WINDOW || is_busy(at - length) || is_busy(at + length),
        _ => (0..tiles).filter(|n| is_busy(at + n * length)).count() as i64 >= tiles - 1,
    }
}

fn words<'r>(clients: &Clients<'r>, profile: &Profile<'r>, storm: &Storm) -> ClientFinding<'r> {
    let (length, seconds) = (clients.tile, (window(clients.tile) * clients.tile) as f64);
    let within = storm.at..storm.at + window(length) * length;
    let mut kinds: BTreeMap<(&str, What<'_>), u64> = BTreeMap::new();
    let (mut bodies, mut body_bytes) = (0, 0);
    for row in profile.rows().filter(|row| within.contains(&row.tile) && is_write(profile, row)) {
        *kinds.entry((row.verb, row.what)).or_default() += row.requests;
        let [events, bytes, _] = row.bodies();
        (bodies, body_bytes) = (bodies + events, body_bytes + bytes);
    }
    let (verb, what) = kinds.iter().max_by_key(|(_, writes)| **writes).map(|(kind, _)| *kind).unwrap_or_default();
    let rate = storm.writes as f64 / seconds;
    let share = storm.writes as f64 / storm.all.max(1) as f64;
    let rest = (storm.all - storm.writes) as f64 / seconds;
    let bytes_per_s = (bodies > 0).then_some(body_bytes as f64 / seconds);
    let lasted = storm.tiles.len() as i64 * length;
    let size = bytes_per_s.map_or_else(String::new, |rate| format!(", {}/s of objects", bytes(rate)));
    let summary = format!(
        "{} sends {} writes/s in its busiest minute (all other clients together {}/s), {} of the cluster's writes, \
         mostly {verb} {}{size}; high for {} in total",
        name(profile),
        significant(rate),
        significant(rest),
        percent(share),
        resource(what),
        duration(lasted * 1_000_000),
    );
    let evidence = json!({
        "writes_per_s": rate, "share": share, "others_per_s": rest, "writes": storm.writes, "bytes_per_s": bytes_per_s,
        "seconds": lasted, "verb": verb, "resource": resource(what), "sources": profile.sources(),
    });
    let minutes = Minutes::of(length, storm.tiles.iter().map(|tile| (*tile, 1)));
    let severity = match (profile.is_control_plane(), storm.is_critical) {
        (true, _) => Severity::Info,
        (false, false) => Severity::Warning,
        (false, true) => Severity::Critical,
    };
    let look = series(&[("agent", profile.who.agent), ("verb", verb), ("resource", what.1)]);
    let remedy = if profile.is_control_plane() {
        format!(
            "it writes on behalf of others: find who created, changed or deleted objects just before (plimsoll guard \
             events LOG); to see what it writes: {look}"
        )
    } else {
        format!(
            "limit its rate with a gateway (plimsoll clients LOG --emit gateway); if many of its writes are in flight \
             at once, limit its seats with a FlowSchema (plimsoll clients LOG --emit fence --client {}); to see what \
             it writes: {look}; then set a client-side limit (client-go: QPS and Burst of rest.Config), and write only \
             when something changed",
            quote(profile.who.user)
        )
    };
    let finding = clients.finding("client-write-storm", severity, profile, ("", ""), &minutes);
    (Some(profile.who), describe(finding, 0.9, summary, evidence, &remedy))
}
