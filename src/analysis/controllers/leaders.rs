//! Who leads, by the metrics of those that would.

use crate::analysis::metrics::catalogue::Metric;
use crate::analysis::metrics::facts::{Facts, Instance};
use crate::model::time::Micros;
use std::collections::{BTreeMap, BTreeSet};

/// Those that would lead, of one kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Elected {
    /// Indices of instances that would lead.
    pub candidates: Vec<usize>,
    /// Of them: those that do, by their last page.
    pub leading: Vec<usize>,
}

/// Elections by cluster and name.
pub fn elections(facts: &Facts) -> BTreeMap<(String, String), Elected> {
    let mut all: BTreeMap<(String, String), Elected> = BTreeMap::new();
    // Who leads by its last page, and was seen for the last time when.
    let mut claims: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for fact in facts.of(Metric::LeaderStatus) {
        let key = (facts.instances[fact.instance].cluster.clone(), facts.text(fact.labels[0]).to_owned());
        all.entry(key.clone()).or_default().candidates.push(fact.instance);
        // A last page that breaks off need not show it.
        if facts.levels(fact).last().is_some_and(|(_, level)| *level == 1.0) {
            claims.entry(key).or_default().push(fact.instance);
        }
    }
    let pause = |instance: &Instance| {
        let all: Vec<Micros> = instance.intervals.iter().map(|(from, to)| to - from).collect();
        all.iter().sum::<Micros>() / all.len().max(1) as Micros
    };
    for (key, claims) in claims {
        let newest = claims.iter().map(|claim| facts.instances[*claim].to).max().unwrap_or_default();
        // Of two that claim to lead the one that is no longer seen has ended; so is who was not seen for three pages
        // of others.
        let is_there = |claim: &usize| {
            let instance = &facts.instances[*claim];
            newest - instance.to <= pause(instance)
                && (instance.intervals.is_empty() || facts.last() - instance.to <= 3 * pause(instance))
        };
        all.entry(key).or_default().leading = claims.into_iter().filter(is_there).collect();
    }
    all
}

/// When the pages of an instance were taken on which it led; `None` where it takes part in no election.
pub fn led(facts: &Facts, instance: usize) -> Option<BTreeSet<Micros>> {
    let mut own = facts.of(Metric::LeaderStatus).iter().filter(|fact| fact.instance == instance).peekable();
    own.peek()?;
    Some(own.flat_map(|fact| facts.levels(fact)).filter(|(_, level)| *level == 1.0).map(|(at, _)| *at).collect())
}
