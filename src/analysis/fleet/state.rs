//! What is known of one cluster.

use super::recorded::Recorded;
use crate::analysis::clients::detect::{ClientFinding, is_about};
use crate::analysis::clients::{Clients, Profile};
use crate::analysis::list_route::Minor;
use crate::analysis::metrics::facts::Facts;
use crate::analysis::metrics::{capacity, objectives as paged};
use crate::analysis::objectives::{self, SloCount};
use crate::analysis::rollup::Rollup;
use crate::analysis::upgrade;
use crate::model::episode::{Episode, Grade};
use crate::model::forecast::Reached;
use crate::model::report::Severity;
use crate::model::time::{Micros, SECOND, Span};
use std::collections::BTreeSet;

/// What was read of a cluster.
#[derive(Debug)]
pub struct ClusterInput<'c> {
    pub name: String,
    /// What was named to read it.
    pub source: String,
    /// Who answers for it; empty where nobody is named.
    pub owner: String,
    /// The apiservers' version, where a bundle says it.
    pub version: String,
    /// What the data covers.
    pub span: Option<Span>,
    /// Episodes; `None` where there is nothing to judge by.
    pub episodes: Option<Vec<Episode>>,
    pub rollup: Option<&'c Rollup>,
    pub facts: &'c Facts,
    pub recorded: Recorded,
    /// When limits of the whole cluster will be reached, the most urgent first; `None` without a history.
    pub limits: Option<Vec<(String, Reached)>>,
    /// Profiles of the roll-up's clients, and what was found of them.
    pub clients: Option<(&'c Clients<'c>, &'c [ClientFinding<'c>])>,
    /// The version to upgrade to; `None`: the one after the cluster's.
    pub to: Option<Minor>,
}

/// When the first limit will be reached.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Outlook {
    /// There is no history to forecast from.
    #[default]
    Unknown,
    /// Not within the time that was looked ahead.
    Far,
    /// What is limited, and when half of all likely courses have reached it.
    At(String, Micros),
}

/// What a client does on a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// User (all kubelets are one) and product of the agent.
    pub who: (String, String),
    pub requests: u64,
    /// Seconds that apiservers worked on its requests, or let them wait; watches left out.
    pub server_seconds: f64,
    /// Ids of what was found of it, warnings and above.
    pub findings: BTreeSet<String>,
}

/// What is known of one cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterState {
    pub name: String,
    pub source: String,
    /// Empty where nobody is named.
    pub owner: String,
    /// Empty where it is not known.
    pub version: String,
    pub span: Option<Span>,
    /// Why there is nothing else; empty otherwise.
    pub problem: String,
    pub episodes: Option<Vec<Episode>>,
    /// Requests under Kubernetes' objectives.
    pub slo: Option<SloCount>,
    /// The largest share of its seats that were taken.
    pub seats: Option<f64>,
    /// Bytes of etcd's database, and its quota.
    pub storage: Option<(f64, Option<f64>)>,
    pub outlook: Outlook,
    /// The version to upgrade to, and clients that it breaks.
    pub upgrade: Option<(Minor, u64)>,
    /// Clients, those that cost most first.
    pub clients: Option<Vec<Usage>>,
    pub nodes: Option<u64>,
    /// Requests and LISTs a second.
    pub rates: Option<[f64; 2]>,
}

impl ClusterState {
    /// What the input shows.
    pub fn new(input: ClusterInput<'_>) -> Self {
        let ClusterInput { facts, rollup, recorded, clients, .. } = input;
        let version = match capacity::version(facts) {
            "" => input.version,
            version => version.to_owned(),
        };
        // Logs show what clients felt: metrics of the objectives leave out how long requests queued.
        let slo = rollup.map(objectives::of_logs).filter(|slo| slo.requests > 0.0).or_else(|| paged::slo(facts));
        let storage = match capacity::storage(facts) {
            [Some(used), _, quota] => Some((used, quota)),
            _ => recorded.storage(),
        };
        let outlook = match input.limits {
            None => Outlook::Unknown,
            Some(limits) => {
                let first = limits.into_iter().find_map(|(name, reached)| Some((name, reached.p50?)));
                first.map_or(Outlook::Far, |(name, at)| Outlook::At(name, at))
            }
        };
        let to = input.to.or_else(|| Minor::parse(&version).map(Minor::next));
        let sees_calls = rollup.is_some() || facts.has_requests();
        let upgrade = to.filter(|_| sees_calls).map(|to| {
            let calls = upgrade::calls(rollup, facts, to);
            (to, upgrade::clients_that_break(calls.iter()).len() as u64)
        });
        let clients = clients.map(|(clients, findings)| usages(clients, findings));
        let nodes = capacity::nodes(facts).or_else(|| recorded.nodes()).or_else(|| rollup.and_then(kubelets));
        Self {
            rates: rollup.and_then(rates),
            seats: capacity::seats(facts).or_else(|| recorded.seats()),
            name: input.name,
            source: input.source,
            owner: input.owner,
            version,
            span: input.span,
            problem: String::new(),
            episodes: input.episodes,
            slo,
            storage,
            outlook,
            upgrade,
            clients,
            nodes,
        }
    }

    /// A cluster of which nothing could be read.
    pub fn unread(name: String, source: String, problem: String) -> Self {
        Self { name, source, problem, ..Self::default() }
    }

    /// How many episodes of this grade there were; `None` where that could not be judged.
    pub fn count(&self, grade: Grade) -> Option<u64> {
        Some(self.episodes.as_ref()?.iter().filter(|own| own.grade == grade).count() as u64)
    }

    /// What the columns of a row are about, and whether it is known.
    pub fn known(&self) -> [(&'static str, bool); 7] {
        [
            ("episodes", self.episodes.is_some()),
            ("objectives", self.slo.is_some()),
            ("seats", self.seats.is_some()),
            ("etcd", self.storage.is_some_and(|(_, quota)| quota.is_some())),
            ("forecast", self.outlook != Outlook::Unknown),
            ("upgrade", self.upgrade.is_some()),
            ("clients", self.clients.is_some()),
        ]
    }

    /// The client with most server time, and its share of that of all.
    pub fn heaviest(&self) -> Option<(&Usage, f64)> {
        let all = self.server_seconds();
        let first = self.clients.as_ref()?.first().filter(|_| all > 0.0)?;
        Some((first, first.server_seconds / all))
    }

    /// Server time of all clients.
    pub fn server_seconds(&self) -> f64 {
        self.clients.iter().flatten().map(|own| own.server_seconds).sum()
    }
}

fn usages(clients: &Clients<'_>, findings: &[ClientFinding<'_>]) -> Vec<Usage> {
    let usage = |profile: &Profile<'_>| {
        let own = findings.iter().filter(|one| is_about(one, profile.who));
        Usage {
            who: (profile.who.user.to_owned(), profile.who.agent.to_owned()),
            requests: profile.requests,
            server_seconds: profile.server_seconds(),
            findings: own
                .filter(|(_, finding)| finding.severity >= Severity::Warning)
                .map(|(_, finding)| finding.id.clone())
                .collect(),
        }
    };
    let mut all: Vec<Usage> = clients.list.iter().map(usage).collect();
    all.sort_by(|a, b| b.server_seconds.total_cmp(&a.server_seconds).then_with(|| a.who.cmp(&b.who)));
    all
}

/// Requests and LISTs a second of the time that the roll-up covers.
fn rates(rollup: &Rollup) -> Option<[f64; 2]> {
    let (from, to) = rollup.span?;
    let seconds = (to - from) as f64 / SECOND as f64;
    let (mut requests, mut lists) = (rollup.folded(), 0);
    for row in rollup.traffic() {
        requests += row.requests;
        lists += if row.verb == "list" { row.requests } else { 0 };
    }
    (seconds >= 1.0).then(|| [requests, lists].map(|count| count as f64 / seconds))
}

/// Nodes whose kubelets called.
fn kubelets(rollup: &Rollup) -> Option<u64> {
    let kubelets = rollup.clients().filter(|row| row.who.user == "system:node:*");
    kubelets.map(|row| row.nodes.0 as u64).max().filter(|nodes| *nodes > 0)
}
