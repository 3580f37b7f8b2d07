//! Pairs from metrics pages.

use super::logs::named;
use super::noise::{Measured, PARTS};
use super::{Area, COUNTS, Pair, Pieces, Subject, joined};
use crate::analysis::balance::short_pages;
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::{Component, Facts, Instance};
use crate::analysis::metrics::traffic::{Dim, Query, measured};
use crate::analysis::traffic::report::Measures;
use crate::model::time::SECOND;
use crate::model::units::counted;
use std::collections::{BTreeMap, BTreeSet};

fn count(measures: &Measures, kind: usize) -> f64 {
    let of = [Some(measures.requests), measures.errors, measures.client_errors, Some(measures.throttled)];
    of[kind].unwrap_or(0) as f64
}

/// Requests of one subject: as a whole, and by interval.
#[derive(Debug, Default)]
struct Requests {
    whole: Measures,
    by_interval: BTreeMap<i64, Measures>,
}

/// The requests of one side, by verb, group, resource and subresource; under no name all of them.
#[derive(Debug)]
struct Side {
    pieces: Pieces,
    requests: BTreeMap<Vec<String>, Requests>,
}

const DIMS: [Dim; 4] = [Dim::Verb, Dim::Group, Dim::Resource, Dim::Subresource];

impl Side {
    /// `None` where the pages know of no time between them.
    fn new(facts: &Facts, length: i64) -> Option<Self> {
        let by = DIMS.to_vec();
        let whole = measured(facts, &Query { by: by.clone(), ..Query::default() });
        let pieces = Pieces::new(whole.window?, length);
        let cut = measured(facts, &Query { by, interval: Some(length * SECOND), ..Query::default() });
        let mut requests: BTreeMap<Vec<String>, Requests> = BTreeMap::new();
        requests.entry(Vec::new()).or_default().whole = whole.total;
        for line in whole.rows {
            requests.entry(line.dims).or_default().whole = line.measures;
        }
        for line in cut.rows.into_iter().chain(cut.series.into_iter().flat_map(|(_, lines)| lines)) {
            if let Some(at) = line.interval {
                requests.entry(line.dims).or_default().by_interval.insert(at, line.measures);
            }
        }
        Some(Self { pieces, requests })
    }

    fn count(&self, name: &[String], kind: usize) -> Measured {
        // One page shows how many since the process started, but not how they came.
        if self.requests.values().all(|one| one.by_interval.is_empty()) {
            let whole = self.requests.get(name).map_or(0.0, |one| count(&one.whole, kind));
            return Measured::Counts(vec![((self.pieces.to - self.pieces.from) as f64 / SECOND as f64, whole)]);
        }
        let mut counts = vec![0.0; self.pieces.count()];
        for (at, measures) in self.requests.get(name).into_iter().flat_map(|one| &one.by_interval) {
            counts[self.pieces.at(at.div_euclid(SECOND))] += count(measures, kind);
        }
        self.pieces.counts(&counts)
    }

    fn has(&self, name: &[String], kind: usize) -> bool {
        self.requests.get(name).is_some_and(|one| count(&one.whole, kind) > 0.0)
    }

    /// 0: the median, 2: the 99th percentile.
    fn quantile(&self, name: &[String], which: usize) -> Measured {
        let Some(one) = self.requests.get(name) else { return Measured::None };
        let Some(value) = one.whole.latency_ms[which] else { return Measured::None };
        let parts =
            one.by_interval.values().filter(|measures| measures.requests as f64 * [0.5, 0.1, 0.01][which] >= 3.0);
        Measured::Quantile(value, parts.filter_map(|measures| measures.latency_ms[which]).collect(), Vec::new())
    }
}

/// The requests of two sets of pages. Scrapes are seldom closer than 15 s, so time is cut into few and long pieces.
pub fn requests(before: &Facts, after: &Facts) -> Vec<Pair> {
    let longest = before.span().max(after.span()) / SECOND;
    let length = (longest / PARTS as i64 + 1).max(1);
    let (Some(before), Some(after)) = (Side::new(before, length), Side::new(after, length)) else { return Vec::new() };
    let mut names: Vec<&Vec<String>> = before.requests.keys().chain(after.requests.keys()).collect();
    names.sort();
    names.dedup();
    let mut pairs = Vec::new();
    for name in names {
        let subject: Vec<(&'static str, &str)> =
            DIMS.iter().map(|dim| dim.name()).zip(name.iter().map(String::as_str)).collect();
        let subject = named(&subject);
        let (area, latency) =
            if name.is_empty() { (Area::Total, Area::Total) } else { (Area::Requests, Area::Latency) };
        for (kind, metric) in COUNTS.into_iter().enumerate() {
            if area == Area::Total || before.has(name, kind) || after.has(name, kind) {
                let (before, after) = (before.count(name, kind), after.count(name, kind));
                pairs.push(Pair { area, subject: subject.clone(), metric, before, after });
            }
        }
        for (which, metric) in [(0, "p50_ms"), (2, "p99_ms")] {
            let (before, after) = (before.quantile(name, which), after.quantile(name, which));
            if before != Measured::None && after != Measured::None {
                pairs.push(Pair { area: latency, subject: subject.clone(), metric, before, after });
            }
        }
    }
    pairs
}

/// What is to be said where the sides have pages of different numbers of apiservers, or of one for a part of the time.
pub fn partial(before: &Facts, after: &Facts) -> Vec<String> {
    let apiservers = |facts: &Facts| {
        let all = facts.instances_of(Component::Apiserver).map(|own| (own.cluster.clone(), own.name.clone()));
        all.collect::<BTreeSet<(String, String)>>().len() as u64
    };
    let (was, is) = (apiservers(before), apiservers(after));
    let differ = format!(
        "BEFORE has the pages of {}, AFTER of {is}: part of the change may come from that.",
        counted(was, "apiserver")
    );
    let mut all: Vec<String> = (was != is).then_some(differ).into_iter().collect();
    for (side, facts) in [("BEFORE", before), ("AFTER", after)] {
        all.extend(short_pages(facts).into_iter().map(|sentence| format!("{side}: {sentence}")));
    }
    all
}

/// What the last pages of both sides say of objects, databases and memory.
pub fn states(before: &Facts, after: &Facts) -> Vec<Pair> {
    let [old, new] =
        [before, after].map(|facts| facts.instances.iter().map(|instance| instance.cluster.as_str()).collect());
    let is_joined = joined(&old, &new);
    let [before, after] = [before, after].map(|facts| levels(facts, is_joined));
    super::states::pairs(before, after)
}

type Levels = BTreeMap<(Area, Subject, &'static str), f64>;

fn levels(facts: &Facts, is_joined: bool) -> Levels {
    let cluster = |instance: &Instance| if is_joined { String::new() } else { instance.cluster.clone() };
    let mut levels = Levels::new();
    // Each apiserver counts all objects.
    for fact in facts.of(Metric::StorageObjects) {
        let instance = &facts.instances[fact.instance];
        let (group, resource) = (facts.text(fact.labels[0]), facts.text(fact.labels[1]));
        let subject = named(&[("cluster", &cluster(instance)), ("group", group), ("resource", resource)]);
        if let Some(count) = fact.last.filter(|count| *count >= 0.0) {
            let level = levels.entry((Area::Objects, subject, "objects")).or_default();
            *level = level.max(count);
        }
    }
    let of_etcd = [(Metric::EtcdDbSize, Area::Etcd, "db_bytes"), (Metric::EtcdDbInUse, Area::Etcd, "in_use_bytes")];
    for (metric, area, name) in of_etcd.into_iter().chain([(Metric::ProcessResident, Area::Memory, "resident_bytes")]) {
        for fact in facts.of(metric).iter().filter(|fact| fact.part == Part::Whole) {
            let instance = &facts.instances[fact.instance];
            if !instance.component.is_store() {
                continue;
            }
            let subject = named(&[("cluster", &cluster(instance)), ("instance", &instance.name)]);
            levels.extend(fact.last.map(|value| ((area, subject, name), value)));
        }
    }
    levels
}
