//! What a tab shows is what a command prints: which question it asks.

use super::Tab;
use super::found::SourceKinds;
use super::state::State;
use super::want::{Role, Want};
use crate::model::cause::Source;
use crate::model::question::{
    self, Clients, EtcdDiff, EtcdFlame, EtcdUsage, Fleet, Forecast, GuardEvents, HeapFlame, HeapTop, Kind, MemoryShow,
    Question, QuotaCheck, QuotaPropose, QuotaSources, Traffic, Weight,
};
use crate::model::time::{self, Bounds, Micros, Span};

fn want(question: Question) -> Want {
    Want::Answer(Box::new(question))
}

/// What widths of the key space are, and what it means.
pub(super) const WEIGHTS: [(Weight, &str); 4] = [
    (Weight::Live, "live bytes"),
    (Weight::History, "history bytes (freed by compaction)"),
    (Weight::Keys, "live keys"),
    (Weight::Revisions, "revisions"),
];

/// Why a tab has nothing to ask, and what would change that.
pub type Missing = &'static str;

impl State {
    /// What a tab shows, given what there is, the time that is looked at, and how one looks at it.
    pub fn wants(&self, tab: Tab) -> Result<Vec<Want>, Missing> {
        use Source::{Audit, Cgroup, Heap, Metrics};
        if tab == Tab::Fleet {
            return Ok(vec![want(Question::Fleet(Fleet { sources: self.fleet.clone(), ..Fleet::default() }))]);
        }
        let Some(found) = &self.found else { return Err("Reading the sources …") };
        let bounds = bounds(self.clock.asked());
        // What was captured now and then is shown as it was at the moment that is looked at.
        let at = self.clock.moment();
        match tab {
            Tab::Overview if found.has(Metrics) => {
                let (sources, from) = (found.of(&[Metrics]), Some(Kind::Metrics));
                let by = ["verb", "resource"].map(str::to_owned).to_vec();
                let health = Traffic { sources, from, by, health: true, bounds, ..Traffic::default() };
                Ok(vec![want(Question::Traffic(health))])
            }
            Tab::Overview => Err("Control-plane health requires metrics pages of apiservers; give some as SOURCE."),
            Tab::Traffic => {
                let kind = if found.has(Audit) && !self.by_metrics { Audit } else { Metrics };
                if !found.has(kind) {
                    return Err("Traffic requires audit logs or metrics pages of apiservers; give some as SOURCE.");
                }
                let traffic = Traffic {
                    sources: found.of(&[kind]),
                    from: Some(if kind == Audit { Kind::Audit } else { Kind::Metrics }),
                    by: self.pivot.by.clone(),
                    filters: self.pivot.filters.clone(),
                    bounds,
                    ..Traffic::default()
                };
                Ok(vec![want(Question::Traffic(traffic))])
            }
            Tab::Clients if found.has(Audit) => {
                let clients = Clients { sources: found.of(&[Audit, Metrics]), bounds, ..Clients::default() };
                Ok(vec![want(Question::Clients(clients))])
            }
            Tab::Clients if !found.dumps.is_empty() => {
                let clients = Clients { sources: found.dumps.clone(), seats: true, bounds, ..Clients::default() };
                Ok(vec![want(Question::Clients(clients))])
            }
            Tab::Clients => {
                Err("Client profiles require audit logs or dump pages of API Priority and Fairness; give some as \
                     SOURCE.")
            }
            Tab::Keyspace => self.keyspace(found),
            Tab::Memory if found.has(Cgroup) => {
                let memory = MemoryShow { sources: found.of(&[Cgroup]), at, ..MemoryShow::default() };
                Ok(vec![want(Question::MemoryShow(memory))])
            }
            Tab::Memory => Err("Memory requires cgroups; give one (/sys/fs/cgroup/…), or copies of its files."),
            Tab::Heap if found.has(Heap) => {
                let sources = found.of(&[Heap]);
                let flame = HeapFlame { sources: sources.clone(), at, ..HeapFlame::default() };
                let top = HeapTop { sources, at, ..HeapTop::default() };
                Ok(vec![want(Question::HeapFlame(flame)), want(Question::HeapTop(top))])
            }
            Tab::Heap => Err("The heap requires Go heap profiles (/debug/pprof/heap); give some as SOURCE."),
            Tab::Quotas if found.has(Source::Objects) => {
                let source = |sources: Vec<String>| QuotaSources { sources, at, ..QuotaSources::default() };
                let own = found.of(&[Source::Objects]);
                let with_stores = [own.clone(), found.stores.clone()].concat();
                let check = QuotaCheck { source: source(with_stores), ..QuotaCheck::default() };
                let propose = QuotaPropose { source: source(own), ..QuotaPropose::default() };
                Ok(vec![want(Question::QuotaCheck(check)), want(Question::QuotaPropose(propose))])
            }
            Tab::Quotas => {
                Err("Quotas require a cluster's objects (kubectl get -A -o json, or plimsoll collect); give some as \
                     SOURCE.")
            }
            Tab::Forecast if found.history.is_empty() => {
                Err("Forecasts require history: give a store of plimsoll record with --history.")
            }
            Tab::Forecast => {
                let forecast = Forecast { sources: found.history.clone(), at, chart: Some(12), ..Forecast::default() };
                Ok(vec![want(Question::Forecast(forecast))])
            }
            Tab::Guard if found.has(Audit) => {
                let guard = GuardEvents { sources: found.of(&[Audit]), bounds, ..GuardEvents::default() };
                Ok(vec![want(Question::GuardEvents(guard))])
            }
            Tab::Guard => Err("Dangerous operations require audit logs; give some as SOURCE."),
            Tab::Log | Tab::Fleet => Err(""),
        }
    }

    /// The key space as it is, or how it changed.
    fn keyspace(&self, found: &SourceKinds) -> Result<Vec<Want>, Missing> {
        let Some(source) = found.database() else {
            return Err("The key space requires an etcd snapshot; give one (plimsoll etcd pull takes it).");
        };
        let weight = WEIGHTS[self.weight].0;
        let compared = found.ends.as_slice();
        let at = self.clock.moment();
        let flame = |diff: Option<String>, at: Option<Micros>| {
            want(Question::EtcdFlame(EtcdFlame { source: source.clone(), at, weight, diff, ..EtcdFlame::default() }))
        };
        Ok(match compared {
            [first, last] if self.compares => {
                let (before, after) = (first.clone(), Some(last.clone()));
                let diff = EtcdDiff { before, after, ..EtcdDiff::default() };
                vec![flame(Some(first.clone()), None), want(Question::EtcdDiff(diff))]
            }
            _ => {
                let usage = EtcdUsage { source: source.clone(), at, ..EtcdUsage::default() };
                vec![flame(None, at), want(Question::EtcdUsage(usage))]
            }
        })
    }

    /// What is asked beside the tabs: the load in time, and of what is no more being written, what happened when.
    pub fn beside(&self, role: Role) -> Option<Want> {
        let sources = self.found.as_ref()?.of(&Source::ALL);
        match role {
            _ if sources.is_empty() => None,
            Role::Course => Some(Want::Course(sources)),
            Role::Story if !self.is_live => {
                Some(want(Question::Report(question::Report { sources, ..question::Report::default() })))
            }
            Role::Story | Role::View(_) | Role::Detail => None,
        }
    }

    /// What is asked of a client whose details are looked at: its requests in time.
    pub fn course_of(&self, about: &[(String, String)]) -> Option<Want> {
        let found = self.found.as_ref().filter(|found| self.tab == Tab::Clients && found.has(Source::Audit))?;
        let who = ["user", "agent"].map(|dim| about.iter().find(|(name, value)| name == dim && !value.is_empty()));
        let [Some((_, user)), agent] = who else { return None };
        // All kubelets are one client.
        let user = if user.contains('*') { "user=~^system:node:".to_owned() } else { format!("user={user}") };
        let agent = agent.map(|(_, agent)| format!("agent={agent}"));
        // Some forty bars.
        let length = self.clock.window().map_or(60 * time::SECOND, |(from, to)| to - from);
        let course = Traffic {
            sources: found.of(&[Source::Audit]),
            from: Some(Kind::Audit),
            series: true,
            by: vec!["agent".to_owned()],
            filters: std::iter::once(user).chain(agent).collect(),
            interval: Some((length / (40 * time::SECOND)).max(1) * time::SECOND),
            bounds: bounds(self.clock.asked()),
            ..Traffic::default()
        };
        Some(want(Question::Traffic(course)))
    }
}

fn bounds(span: Option<Span>) -> Bounds {
    span.map_or((None, None), |(from, to)| (Some(from), Some(to)))
}
