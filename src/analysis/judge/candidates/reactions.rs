//! What the control plane does about objects that others write: pods of their Jobs are created, bound, started, and
//! their status is written, again and again. Whoever made it do so caused that load.

use super::View;
use crate::analysis::judge::requests::Kind;
use std::collections::BTreeMap;

/// For each object that somebody writes the control plane sends so many requests at most: of a Job, its pod is created,
/// bound, and passes three phases, each with an event and the Job's own status.
const TIMES: f64 = 25.0;
/// Resources whose objects make pods, or are pods.
const MAKERS: [&str; 8] =
    ["pods", "jobs", "cronjobs", "deployments", "replicasets", "replicationcontrollers", "daemonsets", "statefulsets"];
/// What kubelets and controllers write whether or not there is anything to do.
const USUAL: [&str; 2] = ["leases", "nodes"];

/// Added work (s a second) and requests a second that count as another caller's, by caller: more for who wrote objects,
/// less for who reacted.
pub(super) fn moved(view: &View<'_>) -> BTreeMap<usize, [f64; 2]> {
    let mut made: BTreeMap<usize, f64> = BTreeMap::new();
    let mut reacted: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
    for (caller, kind, added) in view.pairs() {
        let (caller, kind) = (caller as usize, &view.requests.kinds()[kind as usize]);
        let rise = added.rps[1] - added.rps[0];
        if rise <= 0.0 {
            continue;
        }
        if !view.series.is_own[caller] {
            if makes_pods(kind) {
                *made.entry(caller).or_default() += rise;
            }
        } else if is_reaction(kind) {
            let own = reacted.entry(caller).or_default();
            *own = [own[0] + added.work.max(0.0), own[1] + rise];
        }
    }
    let written: f64 = made.values().sum();
    let all = reacted.values().fold([0.0; 2], |sum, own| [sum[0] + own[0], sum[1] + own[1]]);
    if written <= 0.0 || all[1] <= 0.0 {
        return BTreeMap::new();
    }
    let part = (TIMES * written / all[1]).min(1.0);
    let of_makers = made.into_iter().map(|(caller, own)| (caller, all.map(|sum| part * sum * own / written)));
    let of_others = reacted.into_iter().map(|(caller, own)| (caller, own.map(|own| -part * own)));
    of_makers.chain(of_others).collect()
}

/// Whether such a request makes the control plane start or end pods.
fn makes_pods([verb, _, resource, subresource]: &Kind) -> bool {
    let is_write = matches!(verb.as_str(), "create" | "update" | "patch" | "delete");
    is_write && MAKERS.contains(&resource.as_str()) && matches!(subresource.as_str(), "" | "scale" | "eviction")
}

/// Whether the control plane sends it about a single object, which may be another's.
fn is_reaction([verb, _, resource, _]: &Kind) -> bool {
    matches!(verb.as_str(), "get" | "create" | "update" | "patch" | "delete")
        && !USUAL.contains(&resource.as_str())
        && !resource.ends_with("reviews")
}
