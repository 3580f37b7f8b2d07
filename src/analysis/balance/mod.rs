//! Load balance across apiservers: skew, onset, responsible clients, remedies. (Rules: docs/commands/balance.md.)

mod course;
pub mod goaway;
mod logs;
mod pages;
pub mod report;

pub use logs::{client_loads, of_logs};
pub use pages::{add_pages, of_pages, short_pages};

use crate::model::time::{Micros, SECOND, Span, is_short};
use std::collections::BTreeMap;

/// What load is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    Requests,
    /// Seconds that requests were worked on, without those that run for long.
    ServerTime,
    /// Watches that were opened.
    Watches,
    /// Long-running requests that are open, by the last metrics pages.
    LongRunning,
    /// Requests in flight, by the last metrics pages.
    Inflight,
    /// Resident memory, by the last metrics pages.
    Memory,
}

impl Measure {
    /// All.
    pub const ALL: [Self; 6] =
        [Self::Requests, Self::ServerTime, Self::Watches, Self::LongRunning, Self::Inflight, Self::Memory];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::ServerTime => "server_time_s",
            Self::Watches => "watches",
            Self::LongRunning => "long_running",
            Self::Inflight => "inflight",
            Self::Memory => "memory_bytes",
        }
    }

    /// Whether it is counted over time, and not as it is at its end.
    fn is_counted(self) -> bool {
        matches!(self, Self::Requests | Self::ServerTime | Self::Watches)
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::ServerTime => "server time",
            Self::Watches => "watches opened",
            Self::LongRunning => "long-running requests",
            Self::Inflight => "requests in flight",
            Self::Memory => "memory",
        }
    }
}

/// An apiserver.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instance {
    /// Its load, as far as it is known.
    pub load: BTreeMap<Measure, f64>,
    /// When its last process started, in microseconds.
    pub started: Option<Micros>,
    /// How often a process took another's place.
    pub restarts: u64,
    /// From when to when it is known, where that is less than of others.
    pub covered: Option<Span>,
    /// Seconds in which its load was counted, where that is not all of the time; 0 where that is not known.
    pub seconds: Option<f64>,
    /// Requests by piece of time: its start in seconds, and how many.
    course: BTreeMap<i64, f64>,
}

/// The apiservers of one cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fleet {
    pub cluster: String,
    /// Its apiservers by name.
    pub instances: BTreeMap<String, Instance>,
    /// From the first to the last that is known.
    pub window: (Micros, Micros),
    /// Length of the pieces of time of their courses, in seconds.
    piece: i64,
}

impl Fleet {
    /// Notes from when to when an apiserver's log has events, if that is much less than those of others.
    pub fn cover(&mut self, instance: &str, span: Option<Span>) {
        let span = span.filter(|span| is_short(*span, self.window));
        self.instances.get_mut(instance).into_iter().for_each(|own| own.covered = span);
    }

    /// How long the window is, in seconds: at least one.
    fn seconds(&self) -> f64 {
        ((self.window.1 - self.window.0) as f64 / SECOND as f64).max(1.0)
    }

    /// The load of all.
    pub fn total(&self, measure: Measure) -> f64 {
        self.instances.values().filter_map(|instance| instance.load.get(&measure)).sum()
    }

    /// What an apiserver carries, of what is counted a second of its own time; `None` where that is not known.
    pub fn rate(&self, own: &Instance, measure: Measure) -> Option<f64> {
        let load = *own.load.get(&measure)?;
        let seconds = own.seconds.unwrap_or_else(|| self.seconds());
        if !measure.is_counted() { Some(load) } else { (seconds > 0.0).then(|| load / seconds) }
    }

    /// What all carry; `None` where that of one is not known, or there is nothing.
    fn all(&self, measure: Measure) -> Option<f64> {
        let all: Option<f64> = self.instances.values().map(|own| self.rate(own, measure)).sum();
        all.filter(|all| *all > 0.0)
    }

    /// The part of it that an apiserver carries; `None` where not all are known, or there is none.
    pub fn share(&self, own: &Instance, measure: Measure) -> Option<f64> {
        Some(self.rate(own, measure)? / self.all(measure)?)
    }

    /// Who carries most, and its share; `None` where not all are known, or there is none.
    pub fn busiest(&self, measure: Measure) -> Option<(&str, f64)> {
        let all = self.all(measure)?;
        let rates = self.instances.iter().filter_map(|(name, own)| Some((name.as_str(), self.rate(own, measure)?)));
        let (name, most) = rates.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(a.0)))?;
        Some((name, most / all))
    }

    /// The busiest's share, times the number of apiservers: 1 is even, their number is all on one.
    pub fn skew(&self, measure: Measure) -> Option<f64> {
        self.busiest(measure).map(|(_, share)| share * self.instances.len() as f64)
    }
}

/// How much of what could be uneven is: 0 is even, 1 is all on one of `instances`.
pub fn concentration(skew: f64, instances: usize) -> f64 {
    if instances < 2 { 0.0 } else { (skew - 1.0) / (instances as f64 - 1.0) }
}

/// A client's part of the load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Client {
    pub user: String,
    pub agent: String,
    /// Addresses that it comes from: each has a connection or more.
    pub sources: u64,
    /// Requests by apiserver.
    pub requests: BTreeMap<String, f64>,
    /// Seconds of server time by apiserver.
    pub server_time: BTreeMap<String, f64>,
    /// Watches that were opened, by apiserver.
    pub watches: BTreeMap<String, f64>,
}

impl Client {
    /// What an even share on one of `instances` would have less; of what lasts, by the watches that were opened.
    pub fn excess(&self, on: &str, instances: usize, by: Measure) -> f64 {
        let load = match by {
            Measure::ServerTime => &self.server_time,
            Measure::Watches | Measure::LongRunning => &self.watches,
            _ => &self.requests,
        };
        load.get(on).copied().unwrap_or(0.0) - load.values().sum::<f64>() / instances as f64
    }

    /// All its requests.
    pub fn total(&self) -> f64 {
        self.requests.values().sum()
    }
}
