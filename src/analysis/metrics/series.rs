//! Series of pages: which are known, what they are called, and the values that one page gives them.

use super::catalogue::{Catalogue, Entry, Metric, Part, Shape, label_names};
use super::names;
use crate::model::sample::Sample;
use crate::model::symbols::{Symbol, Symbols};
use hashbrown::hash_table::HashTable;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::default);

/// A series that is not known.
const IGNORED: u32 = u32::MAX;

/// Series of a folder that are distinguished; further ones are left out.
const MAX_SERIES: usize = 1 << 21;

/// What of pages is kept: what nobody asks for would only take memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Retention {
    /// What apiservers and etcd count, and the course of requests in time.
    #[default]
    Requests,
    /// The same with the course of latencies.
    Latencies,
    /// What controllers and schedulers count, too.
    Controllers,
    /// All of these, with the course of what an incident shows in: requests in flight, seats, memory, the size of
    /// etcd's database, compactions.
    Incident,
}

/// A series that is known.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) entry: &'static Entry,
    pub(super) part: Part,
    /// The values of the entry's labels.
    pub(super) labels: Box<[Symbol]>,
    /// Of a bucket: its upper bound.
    pub(super) bound: f64,
}

impl Series {
    /// Whether it is asked for at all.
    pub(super) fn is_kept(&self, kept: Retention) -> bool {
        !self.entry.metric.is_of_controllers() || matches!(kept, Retention::Controllers | Retention::Incident)
    }

    pub(super) fn is_counter(&self) -> bool {
        self.entry.shape != Shape::Gauge
    }

    /// Whether its course in time is kept.
    pub(super) fn is_timed(&self, kept: Retention) -> bool {
        match self.entry.metric {
            Metric::Requests | Metric::Terminations | Metric::FlowDispatched | Metric::FlowRejected => true,
            Metric::CacheEvents | Metric::QueueAdds | Metric::ScheduleAttempts | Metric::ScheduleIncoming => true,
            Metric::QueueWait | Metric::QueueWork | Metric::ScheduleAttempt => {
                matches!(self.part, Part::Sum | Part::Count)
            }
            Metric::Duration | Metric::FlowExecution => {
                matches!(kept, Retention::Latencies | Retention::Incident) && self.part == Part::Bucket
            }
            Metric::EtcdRequests
            | Metric::WebhookDuration
            | Metric::FlowWait
            | Metric::EtcdWalFsync
            | Metric::EtcdCommit => kept == Retention::Incident && matches!(self.part, Part::Sum | Part::Count),
            Metric::WebhookRejections
            | Metric::WebhookFailOpen
            | Metric::EtcdLeaderChanges
            | Metric::AuthenticationAttempts => kept == Retention::Incident,
            _ => false,
        }
    }

    /// Whether the values of a gauge are kept, page by page.
    pub(super) fn is_followed(&self, kept: Retention) -> bool {
        match self.entry.metric {
            Metric::QueueDepth | Metric::PendingPods | Metric::LeaderStatus | Metric::DeprecatedApis => true,
            Metric::Inflight
            | Metric::FlowSeats
            | Metric::FlowQueued
            | Metric::ProcessResident
            | Metric::EtcdDbSize
            | Metric::EtcdHasLeader
            | Metric::EtcdCompacted
            | Metric::UnavailableApis => kept == Retention::Incident,
            _ => false,
        }
    }
}

/// The series of one folder's pages, by number, and the values on the page that is read.
#[derive(Debug, Default)]
pub struct SeriesTable {
    pub(super) symbols: Symbols,
    pub(super) series: Vec<Series>,
    index: HashTable<(u64, u32)>,
    page: PageValues,
    /// By series: the number of the last page that had it, and where its value stands there.
    met: Vec<(u32, u32)>,
    /// Pages begun.
    pages: u32,
}

/// What one page says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageValues {
    pub(super) values: Vec<(u32, f64)>,
    pub(super) dropped: u64,
}

impl PageValues {
    /// Of each series, by its number in the folder's table, one value, none of them NaN; and how many samples there
    /// were of series beyond the limit.
    pub fn new(values: Vec<(u32, f64)>, dropped: u64) -> Self {
        Self { values, dropped }
    }

    /// Series and values.
    pub fn values(&self) -> &[(u32, f64)] {
        &self.values
    }

    /// Samples of series beyond the limit.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl SeriesTable {
    /// Begins a page.
    pub fn begin(&mut self) {
        self.page.values.clear();
        self.page.dropped = 0;
        self.pages += 1;
    }

    /// Takes a sample of the page. Of several points of one series the last counts; what is infinite is no amount.
    #[inline]
    pub fn sample(&mut self, sample: &Sample<'_, '_>) {
        let hash = xxh3_64(sample.series);
        let series = match self.index.find(hash, |(other, _)| *other == hash) {
            Some((_, series)) => *series,
            None => self.add(hash, sample),
        };
        if series == IGNORED || !sample.value.is_finite() {
            return;
        }
        let (page, place) = &mut self.met[series as usize];
        if *page == self.pages {
            self.page.values[*place as usize].1 = sample.value;
        } else {
            (*page, *place) = (self.pages, self.page.values.len() as u32);
            self.page.values.push((series, sample.value));
        }
    }

    /// The page that was read.
    pub fn page(&self) -> &PageValues {
        &self.page
    }

    /// How many series are known.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Whether the page that was read has it.
    pub fn is_on_page(&self, series: u32) -> bool {
        self.met.get(series as usize).is_some_and(|(page, _)| *page == self.pages)
    }

    /// Adds a series that was not met before.
    #[cold]
    fn add(&mut self, hash: u64, sample: &Sample<'_, '_>) -> u32 {
        if self.index.len() >= MAX_SERIES {
            self.page.dropped += 1;
            return IGNORED;
        }
        let number = match self.known(sample) {
            Some(series) => {
                self.series.push(series);
                self.met.push((0, 0));
                self.series.len() as u32 - 1
            }
            None => IGNORED,
        };
        self.index.insert_unique(hash, (hash, number), |(other, _)| *other);
        number
    }

    fn known(&mut self, sample: &Sample<'_, '_>) -> Option<Series> {
        let (entry, part) = CATALOGUE.find(&sample.name.decode())?;
        let value = |label: &str| {
            label_names(label).find_map(|name| sample.label(name)).map(|value| value.decode()).unwrap_or_default()
        };
        let bound = match part {
            Part::Bucket => value("le").parse::<f64>().ok().filter(|bound| !bound.is_nan())? * entry.scale,
            _ => 0.0,
        };
        let found = label_names("resource").find_map(|name| Some((name, sample.label(name)?.decode())));
        let (label, text) = found.unwrap_or_default();
        let group = sample.label("group").map(|value| value.decode());
        let (group, resource) = names::resource(label, &text, group.as_deref());
        let labels = entry.labels.iter().map(|&label| match label {
            "resource" => self.symbols.intern(&resource),
            "group" => self.symbols.intern(&group),
            _ => self.symbols.intern(&value(label)),
        });
        let labels = labels.collect();
        Some(Series { entry, part, labels, bound })
    }
}
