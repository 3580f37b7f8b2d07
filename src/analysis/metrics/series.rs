//! Series of pages: which are known, what they are called, and the values that one page gives them.

use super::catalogue::{Catalogue, Entry, Metric, Part, Shape, label_names};
use super::names;
use crate::model::sample::Sample;
use crate::model::symbols::{Symbol, Symbols};
use hashbrown::hash_table::HashTable;
use std::borrow::Cow;
use std::sync::LazyLock;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::default);

/// A series that is not known.
const IGNORED: u32 = u32::MAX;

/// No amount is as large: bytes of a year at 30 GB a second are not.
const MAX_VALUE: f64 = 1e18;

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
    /// A hash of its further labels.
    rest: u32,
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

    /// Whether it is the same: of the labels that are not kept, by their hash.
    fn is(&self, other: &Self) -> bool {
        let same = |own: &Self| (own.entry.metric, own.entry.age, own.part, own.rest, own.bound.to_bits());
        same(self) == same(other) && self.labels == other.labels
    }

    /// A hash of what [`Series::is`] compares.
    fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&[self.entry.metric as u8, self.entry.age, self.part as u8]);
        hash.update(&self.rest.to_le_bytes());
        hash.update(&self.bound.to_bits().to_le_bytes());
        self.labels.iter().for_each(|label| hash.update(&label.0.to_le_bytes()));
        hash.digest()
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
            | Metric::EtcdDefragmentation
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
            | Metric::LevelLimit
            | Metric::LevelNominal
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

/// A series as it stands on pages: a hash of that, and its number. There may be millions: in parts that leave no gap.
#[derive(Debug, Clone, Copy)]
struct Written {
    high: u32,
    low: u32,
    series: u32,
}

impl Written {
    fn new(hash: u64, series: u32) -> Self {
        Self { high: (hash >> 32) as u32, low: hash as u32, series }
    }

    fn hash(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

/// The series of one folder's pages, by number, and the values on the page that is read.
#[derive(Debug, Default)]
pub struct SeriesTable {
    pub(super) symbols: Symbols,
    pub(super) series: Vec<Series>,
    /// By what stands on pages.
    index: HashTable<Written>,
    /// By name and labels, however these are written.
    same: HashTable<u32>,
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

    /// Takes a sample of the page. Of several points of one series the last counts; what is not a number, or beyond
    /// all that is counted, is no amount.
    #[inline]
    pub fn sample(&mut self, sample: &Sample<'_, '_>) {
        let hash = xxh3_64(sample.series);
        let series = match self.index.find(hash, |other| other.hash() == hash) {
            Some(known) => known.series,
            None => self.add(hash, sample),
        };
        let is_amount = sample.value.is_finite() && sample.value.abs() < MAX_VALUE;
        if series == IGNORED || !is_amount {
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
                let (all, hash) = (&mut self.series, series.hash());
                let known = self.same.find(hash, |other| all[*other as usize].is(&series)).copied();
                known.unwrap_or_else(|| {
                    let number = all.len() as u32;
                    all.push(series);
                    self.met.push((0, 0));
                    self.same.insert_unique(hash, number, |other| all[*other as usize].hash());
                    number
                })
            }
            None => IGNORED,
        };
        self.index.insert_unique(hash, Written::new(hash, number), Written::hash);
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
        Some(Series { entry, part, rest: rest(sample, entry), labels, bound })
    }
}

/// A hash of the labels that are not kept. They have no order, and one without a value is none.
fn rest(sample: &Sample<'_, '_>, entry: &Entry) -> u32 {
    let is_kept =
        |name: &str| name == "le" || entry.labels.iter().any(|label| label_names(label).any(|own| own == name));
    let mut labels: Vec<(Cow<'_, str>, Cow<'_, str>)> =
        sample.labels.iter().map(|label| (label.name.decode(), label.value.decode())).collect();
    labels.retain(|(name, value)| !value.is_empty() && !is_kept(name));
    labels.sort_unstable();
    let mut hash = Xxh3::new();
    for text in labels.iter().flat_map(|(name, value)| [name, value]) {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hash.digest() as u32
}
