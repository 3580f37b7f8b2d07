//! Load from a roll-up of audit logs.

use super::{Client, Fleet, Instance, Measure};
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::read::{Addresses, Who};
use crate::model::histogram::Histogram;
use crate::model::time::SECOND;
use std::collections::BTreeMap;

/// The apiservers of each cluster. `logs` are those that were read, by cluster and apiserver: who has no request in
/// them has no load. Of a roll-up of `some` requests only, what was folded into others is in nobody's load.
pub fn of_logs(rollup: &Rollup, logs: &[(String, String)], some: bool) -> Vec<Fleet> {
    let mut fleets: BTreeMap<String, Fleet> = BTreeMap::new();
    let fleet = |cluster: &str| Fleet { cluster: cluster.to_owned(), piece: rollup.tile_seconds(), ..Fleet::default() };
    for (cluster, instance) in logs {
        let own = fleets.entry(cluster.clone()).or_insert_with(|| fleet(cluster));
        let nothing = [Measure::Requests, Measure::ServerTime, Measure::Watches].map(|measure| (measure, 0.0)).into();
        own.instances.insert(instance.clone(), Instance { load: nothing, ..Instance::default() });
    }
    let mut add = |[cluster, instance, verb]: [&str; 3], tile: i64, requests: u64, latency: &Histogram| {
        let fleet = fleets.entry(cluster.to_owned()).or_insert_with(|| fleet(cluster));
        let instance = fleet.instances.entry(instance.to_owned()).or_default();
        let (requests, is_watch) = (requests as f64, verb == "watch");
        let mut add = |measure: Measure, load: f64| *instance.load.entry(measure).or_default() += load;
        add(Measure::Requests, requests);
        add(Measure::ServerTime, if is_watch { 0.0 } else { latency.sum as f64 / SECOND as f64 });
        add(Measure::Watches, if is_watch { requests } else { 0.0 });
        *instance.course.entry(tile).or_default() += requests;
    };
    // Roll-ups of older versions have no load.
    let mut is_known = false;
    for row in rollup.load().filter(|_| !some) {
        is_known = true;
        add([row.cluster, row.instance, row.verb], row.tile, row.requests, row.latency);
    }
    let subjects = rollup.subjects();
    for row in rollup.traffic().filter(|_| !is_known) {
        let Some((who, _)) = subjects.get(row.subject) else { continue };
        add([who.cluster, row.instance, row.verb], row.tile, row.requests, row.latency());
    }
    // Other clusters' logs may go on for longer.
    for client in rollup.clients() {
        if let Some(fleet) = fleets.get_mut(client.who.cluster) {
            fleet.window = if fleet.window == (0, 0) {
                client.span
            } else {
                (fleet.window.0.min(client.span.0), fleet.window.1.max(client.span.1))
            };
        }
    }
    fleets.into_values().collect()
}

/// The clients of a cluster.
pub fn client_loads(rollup: &Rollup, cluster: &str) -> Vec<Client> {
    let subjects = rollup.subjects();
    let mut clients: BTreeMap<Who<'_>, Client> = BTreeMap::new();
    for row in rollup.traffic() {
        let Some((who, _)) = subjects.get(row.subject).filter(|(who, _)| who.cluster == cluster) else { continue };
        let client = clients.entry(*who).or_insert_with(|| Client {
            user: who.user.to_owned(),
            agent: who.agent.to_owned(),
            ..Client::default()
        });
        *client.requests.entry(row.instance.to_owned()).or_default() += row.requests as f64;
        if row.verb == "watch" {
            *client.watches.entry(row.instance.to_owned()).or_default() += row.requests as f64;
        } else {
            *client.server_time.entry(row.instance.to_owned()).or_default() += row.latency().sum as f64 / SECOND as f64;
        }
    }
    let mut addresses: BTreeMap<Who<'_>, Addresses> = BTreeMap::new();
    for (_, subject, of_tile) in rollup.addresses() {
        if let Some((who, _)) = subjects.get(subject) {
            addresses.entry(*who).or_default().merge(&of_tile);
        }
    }
    // Kubelets are as many as their nodes, wherever they come from.
    for about in rollup.clients() {
        if let Some(client) = clients.get_mut(&about.who) {
            let known = addresses.get(&about.who).map_or(0, Addresses::count);
            client.sources = known.max(about.nodes.0 as u64).max(1);
        }
    }
    clients.into_values().collect()
}
