//! A metrics page as samples for the history: gauges as they stand, and rates of counters between two pages of one
//! process. (Names: `model::names`, docs/history.md. Rules of processes: docs/metrics.md, section 1.)

use super::catalogue::{Catalogue, Metric, label_names};
use super::fold::START_SLACK;
use super::names;
use crate::analysis::metrics::names::verb_of;
use crate::model::names::{
    APISERVER_OBJECT_BYTES, APISERVER_OBJECTS, APISERVER_RPS, APISERVER_SEATS, ETCD_DB, ETCD_IN_USE, ETCD_QUOTA,
};
use crate::model::sample::Sample;
use crate::model::series::Series;
use crate::model::time::{self, HOUR, Micros, SECOND};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Processes that are remembered.
const MAX_PROCESSES: usize = 256;
/// For how long a process is remembered that others of its instance are seen without.
const REMEMBERED: Micros = 24 * HOUR;
/// A rate stands for so many of the times it was taken over: pages of processes behind one address come in turns.
const STANDS: f64 = 2.5;

/// What a page holds of what is recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scrape {
    /// Whose page it is: what its folder is called, or its address.
    pub instance: String,
    /// When it was taken.
    pub at: Micros,
    /// Unix seconds at which the process started, if the page shows.
    pub start: Option<f64>,
    /// Counts of requests.
    counters: BTreeMap<Series, f64>,
    /// What stands.
    gauges: BTreeMap<Series, f64>,
}

/// Takes the samples of a page.
#[derive(Debug, Default)]
pub struct Scraping {
    catalogue: Catalogue,
    start: Option<f64>,
    /// By metric: the age of the name it was met under, of several the newest, and what it says.
    found: BTreeMap<Metric, (u8, BTreeMap<Series, f64>)>,
}

/// What is recorded.
const WANTED: [Metric; 12] = [
    Metric::Requests,
    Metric::FlowDispatched,
    Metric::StorageObjects,
    Metric::StorageObjectBytes,
    Metric::FlowSeats,
    Metric::LevelLimit,
    Metric::LevelNominal,
    Metric::StorageSize,
    Metric::EtcdDbSize,
    Metric::EtcdDbInUse,
    Metric::EtcdQuota,
    Metric::ProcessStart,
];

impl Scraping {
    /// Begins a page.
    pub fn begin(&mut self) {
        self.start = None;
        self.found.clear();
    }

    /// Takes a sample.
    pub fn sample(&mut self, sample: &Sample<'_, '_>) {
        let name = sample.name.decode();
        let Some((entry, _)) = self.catalogue.find(&name) else { return };
        let (metric, value) = (entry.metric, sample.value);
        if !WANTED.contains(&metric) || !value.is_finite() {
            return;
        }
        if metric == Metric::ProcessStart {
            self.start = Some(value);
            return;
        }
        let label = |name: &str| {
            label_names(name)
                .find_map(|name| sample.label(name))
                .map_or_else(String::new, |value| value.decode().into_owned())
        };
        let level = || label("priority_level");
        let series = match metric {
            Metric::Requests => {
                let [verb, resource, scope] = ["verb", "resource", "scope"].map(label);
                let verb = verb_of(&verb, &resource, &scope, false);
                let (group, subresource) = (label("group"), label("subresource"));
                Series::new(
                    APISERVER_RPS,
                    &[("verb", &verb), ("group", &group), ("resource", &resource), ("subresource", &subresource)],
                )
            }
            Metric::FlowDispatched => {
                Series::new(APISERVER_RPS, &[("flow_schema", &label("flow_schema")), ("priority_level", &level())])
            }
            Metric::StorageObjects | Metric::StorageObjectBytes => {
                let found = label_names("resource").find_map(|name| Some((name, sample.label(name)?.decode())));
                let (label, text) = found.unwrap_or_default();
                let group = sample.label("group").map(|value| value.decode());
                let (group, resource) = names::resource(label, &text, group.as_deref());
                let name = if metric == Metric::StorageObjects { APISERVER_OBJECTS } else { APISERVER_OBJECT_BYTES };
                Series::new(name, &[("group", &group), ("resource", &resource)])
            }
            Metric::FlowSeats => Series::new(APISERVER_SEATS, &[("priority_level", &level()), ("kind", "executing")]),
            Metric::LevelLimit | Metric::LevelNominal => {
                Series::new(APISERVER_SEATS, &[("priority_level", &level()), ("kind", "limit")])
            }
            Metric::EtcdDbInUse => Series::new(ETCD_IN_USE, &[]),
            Metric::EtcdQuota => Series::new(ETCD_QUOTA, &[]),
            _ => Series::new(ETCD_DB, &[]),
        };
        let (age, found) = self.found.entry(metric).or_insert_with(|| (entry.age, BTreeMap::new()));
        if entry.age < *age {
            *age = entry.age;
            found.clear();
        }
        // An apiserver that can't count objects says -1.
        if entry.age > *age || matches!(metric, Metric::StorageObjects | Metric::StorageObjectBytes) && value < 0.0 {
            return;
        }
        match metric {
            // By code and the like, which are not distinguished here.
            Metric::Requests | Metric::FlowDispatched | Metric::FlowSeats => *found.entry(series).or_default() += value,
            _ => highest(found, series, value),
        }
    }

    /// Ends the page of `instance`, taken `at`. `None` if it holds nothing of what is recorded.
    pub fn end(&mut self, instance: &str, at: Micros) -> Option<Scrape> {
        let mut found = std::mem::take(&mut self.found);
        // What a level may lend and borrow is in its current limit; older apiservers have the nominal one only.
        if found.contains_key(&Metric::LevelLimit) {
            found.remove(&Metric::LevelNominal);
        }
        let is_etcd = found.contains_key(&Metric::EtcdDbSize) || found.contains_key(&Metric::EtcdQuota);
        let mut scrape = Scrape { instance: instance.to_owned(), at, start: self.start, ..Scrape::default() };
        for (metric, (_, samples)) in found {
            match metric {
                Metric::Requests | Metric::FlowDispatched => scrape.counters.extend(samples),
                _ if is_etcd => scrape.gauges.extend(samples.into_iter().map(|(mut series, value)| {
                    series.labels.insert("instance".to_owned(), instance.to_owned());
                    (series, value)
                })),
                _ => scrape.gauges.extend(samples),
            }
        }
        (!scrape.counters.is_empty() || !scrape.gauges.is_empty()).then_some(scrape)
    }
}

fn highest(into: &mut BTreeMap<Series, f64>, series: Series, value: f64) {
    let known = into.entry(series).or_insert(value);
    *known = known.max(value);
}

/// What is remembered of a process: its counters on its last page, and the rates up to then.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct ProcessState {
    instance: String,
    start: Option<f64>,
    at: Micros,
    counters: Vec<(Series, f64)>,
    rates: Vec<(Series, f64)>,
    /// Until when the rates stand.
    until: Micros,
}

/// What is remembered between pages, so that counters become rates: also from one run to the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    processes: Vec<ProcessState>,
    /// When the last page of each instance was taken.
    last: BTreeMap<String, Micros>,
}

impl Rates {
    /// When the last page of an instance was taken.
    pub fn last(&self, instance: &str) -> Option<Micros> {
        self.last.get(instance).copied()
    }

    /// Takes a page. Whether the rates since the last page of its process are known: not on the first.
    pub fn take(&mut self, scrape: &Scrape) -> bool {
        let last = self.last.insert(scrape.instance.clone(), scrape.at);
        if scrape.counters.is_empty() {
            return true;
        }
        let place = self.processes.iter().position(|known| known.instance == scrape.instance && known.is_of(scrape));
        let (before, from) = match place {
            Some(place) => {
                let known = self.processes.remove(place);
                (Some(known.counters.into_iter().collect::<BTreeMap<_, _>>()), Some(known.at))
            }
            None => {
                // A process that began since the instance's last page counted from 0; if it is the only one there, it
                // took the other's place.
                let began = scrape.start.map(|start| time::of_seconds(start + START_SLACK));
                let is_new = last.is_some_and(|last| began.is_some_and(|began| began > last));
                let others = self.processes.iter().filter(|known| known.instance == scrape.instance).count();
                if is_new && others == 1 {
                    self.processes.retain(|known| known.instance != scrape.instance);
                }
                (is_new.then(BTreeMap::new), last)
            }
        };
        let mut known = ProcessState {
            instance: scrape.instance.clone(),
            start: scrape.start,
            at: scrape.at,
            counters: scrape.counters.iter().map(|(series, value)| (series.clone(), *value)).collect(),
            ..ProcessState::default()
        };
        let length = from.map_or(0, |from| scrape.at - from);
        let is_known = before.is_some() && length > 0;
        if let Some(before) = before.filter(|_| length > 0) {
            let seconds = length as f64 / SECOND as f64;
            known.rates = rates(&before, &scrape.counters, seconds);
            known.until = scrape.at + (length as f64 * STANDS) as Micros;
        }
        let is_recent = |other: &ProcessState| other.instance != known.instance || known.at - other.at < REMEMBERED;
        self.processes.retain(is_recent);
        self.processes.push(known);
        if self.processes.len() > MAX_PROCESSES {
            self.processes.remove(0);
        }
        is_known
    }

    /// The samples of pages that were taken at about the same time, each taken by [`Self::take`] before: all instances
    /// together.
    pub fn round(&self, scrapes: &[Scrape], at: Micros) -> BTreeMap<Series, f64> {
        let mut samples: BTreeMap<Series, f64> = BTreeMap::new();
        for (series, value) in scrapes.iter().flat_map(|scrape| &scrape.gauges) {
            // What etcd holds is taken from each apiserver; seats are each one's own.
            match series.name == APISERVER_SEATS {
                true => *samples.entry(series.clone()).or_default() += value,
                false => highest(&mut samples, series.clone(), *value),
            }
        }
        if scrapes.iter().any(|scrape| !scrape.counters.is_empty()) {
            for (series, rate) in self.processes.iter().filter(|known| known.until >= at).flat_map(|known| &known.rates)
            {
                *samples.entry(series.clone()).or_default() += rate;
            }
        }
        samples
    }
}

/// Increases by second. A counter that fell began again.
fn rates(before: &BTreeMap<Series, f64>, now: &BTreeMap<Series, f64>, seconds: f64) -> Vec<(Series, f64)> {
    let rate = |(series, value): (&Series, &f64)| {
        let before = before.get(series).copied().unwrap_or(0.0);
        let increase = if *value < before { *value } else { value - before };
        (series.clone(), increase / seconds)
    };
    now.iter().map(rate).collect()
}

impl ProcessState {
    /// Whether a page is of this process: it has the same start, and hardly a counter fell.
    fn is_of(&self, scrape: &Scrape) -> bool {
        if let (Some(mine), Some(other)) = (self.start, scrape.start)
            && (mine - other).abs() > START_SLACK
        {
            return false;
        }
        let fell = self
            .counters
            .iter()
            .filter(|(series, value)| scrape.counters.get(series).is_some_and(|now| now < value))
            .count();
        fell * 10 <= self.counters.len() && scrape.at > self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(instance: &str, at: i64, start: f64, lists: f64, gets: f64) -> Scrape {
        let series = |verb| Series::new(APISERVER_RPS, &[("verb", verb), ("resource", "pods")]);
        Scrape {
            instance: instance.to_owned(),
            at: at * SECOND,
            start: Some(start),
            counters: [(series("list"), lists), (series("get"), gets)].into(),
            gauges: BTreeMap::new(),
        }
    }

    fn round(rates: &mut Rates, pages: &[Scrape]) -> Vec<f64> {
        for page in pages {
            rates.take(page);
        }
        let at = pages.iter().map(|page| page.at).max().unwrap();
        rates.round(pages, at).into_values().collect()
    }

    #[test]
    fn increases_of_all_instances_by_second() {
        let mut rates = Rates::default();
        assert_eq!(round(&mut rates, &[page("a", 100, 1.0, 50.0, 5.0), page("b", 100, 2.0, 10.0, 0.0)]), [0.0; 0]);
        // `get` before `list`, as labels are ordered.
        assert_eq!(round(&mut rates, &[page("a", 110, 1.0, 70.0, 5.0), page("b", 110, 2.0, 20.0, 40.0)]), [4.0, 3.0]);
        // Remembered in between.
        let text = serde_json::to_string(&rates).unwrap();
        let mut rates: Rates = serde_json::from_str(&text).unwrap();
        assert_eq!(round(&mut rates, &[page("a", 120, 1.0, 80.0, 5.0), page("b", 120, 2.0, 20.0, 40.0)]), [0.0, 1.0]);
    }

    #[test]
    fn a_restart_counts_from_zero() {
        let mut rates = Rates::default();
        round(&mut rates, &[page("a", 100, 1.0, 500.0, 5.0)]);
        round(&mut rates, &[page("a", 110, 1.0, 600.0, 5.0)]);
        assert_eq!(round(&mut rates, &[page("a", 120, 115.0, 30.0, 1.0)]), [0.1, 3.0]);
        assert_eq!(round(&mut rates, &[page("a", 130, 115.0, 40.0, 1.0)]), [0.0, 1.0]);
        assert_eq!(rates.last("a"), Some(130 * SECOND));
    }

    #[test]
    fn processes_behind_one_address_are_told_apart() {
        let mut rates = Rates::default();
        for n in 0..10 {
            // Two processes in turns: 2 a second each, and 5 a second each.
            let pages = [
                page("lb", 100 + n * 20, 1.0, 1000.0 + 40.0 * n as f64, 0.0),
                page("lb", 110 + n * 20, 7.0, 50.0 + 100.0 * n as f64, 0.0),
            ];
            let [first, second] = pages;
            let one = round(&mut rates, &[first]);
            let two = round(&mut rates, &[second]);
            if n > 1 {
                assert_eq!((one, two), (vec![0.0, 7.0], vec![0.0, 7.0]));
            }
        }
    }
}
