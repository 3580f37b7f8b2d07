//! Clients with the same faults on several clusters: what is mended once is mended everywhere.

use super::state::{ClusterState, Usage};
use std::collections::{BTreeMap, BTreeSet};

/// A client, and where it offends.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offender<'s> {
    pub(super) user: &'s str,
    pub(super) agent: &'s str,
    /// Clusters on which it has findings, where it costs most first.
    pub(super) clusters: Vec<&'s str>,
    /// Of these clusters: its requests, and its server time.
    pub(super) requests: u64,
    pub(super) server_seconds: f64,
    /// Its part of the server time of all clients of these clusters.
    pub(super) share: f64,
    /// Ids of the findings that it has on several clusters, those on most first; of a client without such all.
    pub(super) findings: Vec<&'s str>,
}

/// Clients with findings on two clusters or more: those on most clusters first, then those that cost most.
pub(super) fn offenders(clusters: &[ClusterState]) -> Vec<Offender<'_>> {
    let mut all: BTreeMap<(&str, &str), Vec<(&ClusterState, &Usage)>> = BTreeMap::new();
    for cluster in clusters {
        for usage in cluster.clients.iter().flatten().filter(|usage| !usage.findings.is_empty()) {
            all.entry((&usage.who.0, &usage.who.1)).or_default().push((cluster, usage));
        }
    }
    // The same cluster may be named twice.
    let names = |on: &[(&ClusterState, _)]| on.iter().map(|(own, _)| &own.name).collect::<BTreeSet<_>>().len();
    let mut offenders: Vec<Offender<'_>> =
        all.into_iter().filter(|(_, on)| names(on) > 1).map(|(who, on)| offender(who, on)).collect();
    offenders.sort_by(|a, b| {
        (b.clusters.len().cmp(&a.clusters.len()))
            .then_with(|| b.server_seconds.total_cmp(&a.server_seconds))
            .then_with(|| (a.user, a.agent).cmp(&(b.user, b.agent)))
    });
    offenders
}

fn offender<'s>((user, agent): (&'s str, &'s str), mut on: Vec<(&'s ClusterState, &'s Usage)>) -> Offender<'s> {
    on.sort_by(|a, b| b.1.server_seconds.total_cmp(&a.1.server_seconds).then_with(|| a.0.name.cmp(&b.0.name)));
    // A cluster that is named twice is one.
    let mut names: BTreeSet<&str> = BTreeSet::new();
    on.retain(|(own, _)| names.insert(own.name.as_str()));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    on.iter().flat_map(|(_, usage)| &usage.findings).for_each(|id| *counts.entry(id.as_str()).or_default() += 1);
    let mut findings: Vec<(&str, usize)> = counts.into_iter().collect();
    findings.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let most = findings.first().map_or(0, |(_, count)| *count);
    let findings = findings.into_iter().filter(|(_, count)| *count > 1 || most < 2).map(|(id, _)| id).collect();
    let server_seconds: f64 = on.iter().map(|(_, usage)| usage.server_seconds).sum();
    let of_all: f64 = on.iter().map(|(own, _)| own.server_seconds()).sum();
    Offender {
        user,
        agent,
        clusters: on.iter().map(|(own, _)| own.name.as_str()).collect(),
        requests: on.iter().map(|(_, usage)| usage.requests).sum(),
        server_seconds,
        share: if of_all > 0.0 { server_seconds / of_all } else { 0.0 },
        findings,
    }
}
