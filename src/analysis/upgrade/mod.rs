//! Calls that an upgrade of Kubernetes breaks: who makes them, and what to call instead.
//!
//! What breaks is the apiserver's own word: `k8s.io/removed-release` in audit events, `removed_release` of metrics.

mod apis;
pub mod objects;
pub mod report;

use crate::analysis::list_route::Minor;
use crate::analysis::metrics::catalogue::Metric;
use crate::analysis::metrics::facts::{Fact, Facts};
use crate::analysis::rollup::Rollup;
use crate::model::time::{Span, together};
use apis::{Api, api};
use std::collections::{BTreeMap, BTreeSet};

/// What an upgrade means for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The version that is upgraded to does not serve it.
    Breaks,
    /// The same, by a program that comes with Kubernetes and is upgraded along.
    Along,
    /// A later version does not serve it.
    Later,
    /// It is deprecated; no version that ends it is named.
    Deprecated,
}

impl Fate {
    /// All of them, the gravest first.
    pub const ALL: [Self; 4] = [Self::Breaks, Self::Along, Self::Later, Self::Deprecated];

    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Breaks => "breaks",
            Self::Along => "upgraded-along",
            Self::Later => "later",
            Self::Deprecated => "deprecated",
        }
    }
}

/// A deprecated API that somebody called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub cluster: String,
    /// User; empty where only metrics show that it was called.
    pub user: String,
    pub agent: String,
    /// Group and version.
    pub version: String,
    pub resource: String,
    /// The first version that does not serve it; empty where none is named.
    pub removed: String,
    pub fate: Fate,
    /// Group and version to use instead, or what took its place; empty where that is not known.
    pub instead: &'static str,
    /// Requests; `None` where only metrics show it.
    pub requests: Option<u64>,
    /// First and last of them.
    pub span: Option<Span>,
}

/// Programs that come with Kubernetes: who upgrades it upgrades them.
const OF_KUBERNETES: [&str; 6] = [
    "cloud-controller-manager",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubelet",
];

fn fate(removed: &str, agent: &str, to: Minor) -> Fate {
    match Minor::parse(removed) {
        Some(removed) if removed <= to => match OF_KUBERNETES.contains(&agent) {
            true => Fate::Along,
            false => Fate::Breaks,
        },
        Some(_) => Fate::Later,
        None => Fate::Deprecated,
    }
}

/// Calls of deprecated APIs, the gravest first, then those with most requests. An API that only metrics name is a call
/// by nobody.
pub fn calls(rollup: Option<&Rollup>, facts: &Facts, to: Minor) -> Vec<Call> {
    // Subresources are a row each there.
    let mut logged: BTreeMap<_, (u64, Option<Span>)> = BTreeMap::new();
    for row in rollup.iter().flat_map(|rollup| rollup.deprecated()) {
        let key = (row.who.cluster, row.who.user, row.who.agent, row.version, row.resource, row.removed);
        let (requests, span) = logged.entry(key).or_default();
        *requests += row.requests;
        *span = together(*span, Some(row.span));
    }
    let of_log = |((cluster, user, agent, version, resource, removed), (requests, span))| Call {
        cluster: String::from(cluster),
        user: String::from(user),
        agent: String::from(agent),
        version: String::from(version),
        resource: String::from(resource),
        removed: String::from(removed),
        fate: fate(removed, agent, to),
        instead: instead(version, resource),
        requests: Some(requests),
        span,
    };
    let mut calls: Vec<Call> = logged.into_iter().map(of_log).collect();
    let mut by_nobody: BTreeSet<[String; 4]> = BTreeSet::new();
    // An apiserver that started again has forgotten what an earlier page shows.
    let is_met = |fact: &&Fact| facts.levels(fact).iter().any(|(_, value)| *value > 0.0);
    for fact in facts.of(Metric::DeprecatedApis).iter().filter(is_met) {
        let cluster = facts.instances[fact.instance].cluster.clone();
        let [group, version, resource, _, removed] = [0, 1, 2, 3, 4].map(|place| facts.text(fact.labels[place]));
        let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let is_called =
            calls.iter().any(|call| call.cluster == cluster && call.version == version && call.resource == resource);
        if !is_called {
            by_nobody.insert([cluster, version, resource.to_owned(), removed.to_owned()]);
        }
    }
    calls.extend(by_nobody.into_iter().map(|[cluster, version, resource, removed]| Call {
        cluster,
        user: String::new(),
        agent: String::new(),
        fate: fate(&removed, "", to),
        instead: instead(&version, &resource),
        version,
        resource,
        removed,
        requests: None,
        span: None,
    }));
    calls.sort_by(|a, b| {
        a.fate
            .cmp(&b.fate)
            .then_with(|| b.requests.cmp(&a.requests))
            .then_with(|| (&a.cluster, &a.user, &a.agent).cmp(&(&b.cluster, &b.user, &b.agent)))
            .then_with(|| (&a.version, &a.resource).cmp(&(&b.version, &b.resource)))
    });
    calls
}

/// Who makes calls that break: cluster, user and agent. What only metrics show is the calls of one that nobody names.
pub fn clients_that_break<'c>(calls: impl Iterator<Item = &'c Call>) -> BTreeSet<[&'c str; 3]> {
    calls
        .filter(|call| call.fate == Fate::Breaks)
        .map(|call| [call.cluster.as_str(), call.user.as_str(), call.agent.as_str()])
        .collect()
}

fn instead(version: &str, resource: &str) -> &'static str {
    api(version, resource).map_or("", |Api { instead, .. }| instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_is_what_the_new_version_does_not_serve() {
        let to = Minor(25);
        assert_eq!(fate("1.25", "helm", to), Fate::Breaks);
        assert_eq!(fate("1.22", "helm", to), Fate::Breaks);
        assert_eq!(fate("1.25", "kubelet", to), Fate::Along);
        assert_eq!(fate("1.26", "helm", to), Fate::Later);
        assert_eq!(fate("", "helm", to), Fate::Deprecated);
        // An apiserver of a vendor may write anything.
        assert_eq!(fate("soon", "helm", to), Fate::Deprecated);
    }
}
