//! Clusters that differ from those of their size.

use super::state::ClusterState;
use crate::analysis::robust::median;
use crate::model::time::SECOND;

/// Clusters are of one size whose nodes differ by this factor at most.
const ALIKE: u64 = 2;

/// With fewer others of its size a cluster has no peers to differ from: of three one may differ itself, and the one in
/// the middle is still usual.
const MIN_PEERS: usize = 3;

/// Peers differ by [`ALIKE`] in size, and so may what nodes do; what is still more has another reason.
const FACTOR: f64 = 3.0;

/// A number of a cluster that differs from those of its peers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outlier<'s> {
    pub(super) cluster: &'s str,
    /// Its name in JSON.
    pub(super) measure: &'static str,
    /// What people call it.
    pub(super) words: &'static str,
    /// For each node.
    pub(super) value: f64,
    /// The same of the peer in the middle.
    pub(super) median: f64,
    pub(super) peers: usize,
    pub(super) nodes: u64,
}

type Of = fn(&ClusterState) -> Option<f64>;

/// What is compared, for each node, and from how much on it matters: less is as little as makes no difference.
const MEASURES: [(&str, &str, f64, Of); 4] = [
    ("rps_per_node", "requests/s per node", 0.1, |own| own.rates.map(|[requests, _]| requests)),
    ("lists_per_node", "LISTs/s per node", 0.01, |own| own.rates.map(|[_, lists]| lists)),
    ("server_time_per_node", "server time per node (ms/s)", 1.0, |own| {
        let (from, to) = own.span?;
        let seconds = (to - from) as f64 / SECOND as f64;
        own.clients.as_ref()?;
        (seconds >= 1.0).then(|| own.server_seconds() / seconds * 1e3)
    }),
    ("etcd_bytes_per_node", "etcd bytes per node", 64_000.0, |own| own.storage.map(|(used, _)| used)),
];

/// Where a cluster has three times what is usual among those of its size, the largest factor first.
pub(super) fn outliers(clusters: &[ClusterState]) -> Vec<Outlier<'_>> {
    let mut all = Vec::new();
    for (place, cluster) in clusters.iter().enumerate() {
        let Some(nodes) = cluster.nodes.filter(|nodes| *nodes > 0) else { continue };
        let is_peer = |(other, own): &(usize, &ClusterState)| {
            *other != place
                && own.name != cluster.name
                && own.nodes.is_some_and(|own| own > 0 && own.max(nodes) <= ALIKE * own.min(nodes))
        };
        let peers: Vec<&ClusterState> = clusters.iter().enumerate().filter(is_peer).map(|(_, own)| own).collect();
        for (measure, words, least, of) in MEASURES {
            let each = |own: &ClusterState| Some(of(own)? / own.nodes? as f64);
            let Some(value) = each(cluster) else { continue };
            let mut others: Vec<f64> = peers.iter().filter_map(|own| each(own)).collect();
            if others.len() < MIN_PEERS {
                continue;
            }
            let peers = others.len();
            let Some(median) = median(&mut others) else { continue };
            if value >= least && value >= FACTOR * median {
                all.push(Outlier { cluster: &cluster.name, measure, words, value, median, peers, nodes });
            }
        }
    }
    let factor = |own: &Outlier<'_>| own.value / own.median.max(f64::MIN_POSITIVE);
    all.sort_by(|a, b| {
        factor(b).total_cmp(&factor(a)).then_with(|| (a.cluster, a.measure).cmp(&(b.cluster, b.measure)))
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, nodes: u64, rps: f64) -> ClusterState {
        let name = name.to_owned();
        ClusterState { name, nodes: Some(nodes), rates: Some([rps, 0.0]), ..ClusterState::default() }
    }

    #[test]
    fn a_cluster_is_compared_with_those_of_its_size() {
        let mut all = vec![
            cluster("a", 100, 100.0),
            cluster("b", 110, 100.0),
            cluster("c", 90, 100.0),
            cluster("busy", 100, 300.0),
            // Ten times as large, and as busy for each node.
            cluster("large", 1_000, 1_000.0),
        ];
        let found: Vec<(&str, usize)> = outliers(&all).iter().map(|own| (own.cluster, own.peers)).collect();
        assert_eq!(found, [("busy", 3)]);
        // Just below three times.
        all[3] = cluster("busy", 100, 290.0);
        assert_eq!(outliers(&all), []);
        // Two others are no measure; neither is the same cluster once more.
        all[3] = cluster("busy", 100, 3_000.0);
        all[2].name = "a".to_owned();
        all.remove(1);
        assert_eq!(outliers(&all), []);
        // Nothing is known of nodes, or there are none.
        all.iter_mut().for_each(|own| own.nodes = Some(0));
        assert_eq!(outliers(&all), []);
    }
}
