//! Load from metrics pages.

use super::{Fleet, Instance, Measure};
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::{self, Component, Facts};
use crate::model::event::called;
use crate::model::time::{self, SECOND, Span, is_short, together};
use std::collections::BTreeMap;

/// What the last pages report an apiserver.
fn last(facts: &Facts, number: usize, of: &mut Instance) {
    let gauge = |metric: Metric| facts.last_of(metric, |fact| fact.instance == number);
    let gauges = [
        (Measure::LongRunning, Metric::LongRunning),
        (Measure::Inflight, Metric::Inflight),
        (Measure::Memory, Metric::ProcessResident),
    ];
    for (measure, metric) in gauges {
        of.load.extend(gauge(metric).map(|value| (measure, value)));
    }
    let instance = &facts.instances[number];
    of.started = instance.start.map(time::of_seconds);
    of.restarts = instance.restarts;
}

fn apiservers(facts: &Facts) -> impl Iterator<Item = (usize, &facts::Instance)> {
    facts.instances.iter().enumerate().filter(|(_, instance)| instance.component == Component::Apiserver)
}

/// From when to when there are pages of each cluster's apiservers.
fn windows(facts: &Facts) -> BTreeMap<&str, Span> {
    let mut all: BTreeMap<&str, Span> = BTreeMap::new();
    for (_, own) in apiservers(facts) {
        let window = all.entry(&own.cluster).or_insert((own.from, own.to));
        *window = together(Some(*window), Some((own.from, own.to))).unwrap_or(*window);
    }
    all
}

/// What is to be said of apiservers whose pages cover less of the time than those of others.
pub fn short_pages(facts: &Facts) -> Vec<String> {
    let windows = windows(facts);
    let sentence = |own: &facts::Instance| {
        format!(
            "The pages of {} are of {} to {} only; shares compare what each apiserver does in a second of its own \
             pages.",
            called(&own.name),
            time::format(own.from),
            time::format(own.to)
        )
    };
    let all = apiservers(facts).map(|(_, own)| own);
    all.filter(|own| is_short((own.from, own.to), windows[own.cluster.as_str()])).map(sentence).collect()
}

/// What metrics show beside logs, of apiservers of the same names; gives the names of those that have no log.
pub fn add_pages(fleets: &mut [Fleet], facts: &Facts) -> Vec<String> {
    let mut unlogged = Vec::new();
    for (number, instance) in apiservers(facts) {
        let fleet = fleets.iter_mut().find(|fleet| fleet.cluster == instance.cluster);
        if let Some(own) = fleet.and_then(|fleet| fleet.instances.get_mut(&instance.name)) {
            last(facts, number, own);
        } else {
            unlogged.push(instance.name.clone());
        }
    }
    unlogged
}

/// The apiservers of each cluster, by metrics alone.
pub fn of_pages(facts: &Facts) -> Vec<Fleet> {
    let windows = windows(facts);
    let mut fleets: BTreeMap<&str, Fleet> = BTreeMap::new();
    for (number, instance) in apiservers(facts) {
        let (cluster, window) = (instance.cluster.clone(), windows[instance.cluster.as_str()]);
        let fleet = fleets.entry(&instance.cluster).or_insert_with(|| Fleet { cluster, window, ..Fleet::default() });
        let covered = Some((instance.from, instance.to)).filter(|own| is_short(*own, window));
        let mut own = Instance { covered, seconds: Some(instance.seconds), ..Instance::default() };
        last(facts, number, &mut own);
        // What pages are minutes apart is not cut finer than they are.
        fleet.piece =
            instance.intervals.iter().map(|(from, to)| (to - from) / SECOND).max().unwrap_or(0).max(fleet.piece).max(1);
        let is_long = |verb: &str| verb == "WATCH" || verb == "CONNECT" || verb == "WATCHLIST";
        for fact in facts.of(Metric::Requests).iter().filter(|fact| fact.instance == number) {
            *own.load.entry(Measure::Requests).or_default() += fact.increase;
            *own.load.entry(Measure::Watches).or_default() +=
                if is_long(facts.text(fact.labels[0])) { fact.increase } else { 0.0 };
            for (interval, difference) in &fact.course {
                if let Some((_, to)) = instance.intervals.get(*interval as usize) {
                    *own.course.entry(to / SECOND).or_default() += difference;
                }
            }
        }
        for fact in facts.of(Metric::Duration).iter().filter(|fact| fact.instance == number && fact.part == Part::Sum) {
            let seconds = if is_long(facts.text(fact.labels[0])) { 0.0 } else { fact.increase };
            *own.load.entry(Measure::ServerTime).or_default() += seconds;
        }
        fleet.instances.insert(instance.name.clone(), own);
    }
    let mut fleets: Vec<Fleet> = fleets.into_values().collect();
    for fleet in &mut fleets {
        // Pages of several instances are not taken at the same moment.
        let piece = fleet.piece;
        for instance in fleet.instances.values_mut() {
            let mut course: BTreeMap<i64, f64> = BTreeMap::new();
            instance
                .course
                .iter()
                .for_each(|(at, count)| *course.entry(at.div_euclid(piece) * piece).or_default() += count);
            instance.course = course;
        }
    }
    fleets
}
