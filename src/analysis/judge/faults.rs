//! Which parts of the control plane the messages of failed requests name, and which rules those of denied ones.

use super::profile::Tiles;
use super::requests::Requests;
use crate::analysis::failure::Fault;
use std::collections::BTreeMap;

/// So many requests that name a part are no chance.
const MIN_NAMED: f64 = 5.0;
/// Most failures are deadlines, which name nothing; the rest of them stands for all where it is such a part.
const ENOUGH: f64 = 0.2;

/// Requests of an episode by what their messages name, without as many as its baseline would have had.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults(BTreeMap<(Fault, String), f64>);

impl Faults {
    /// Those of the intervals of an episode, of which its baseline is compared; both in s, too.
    pub fn of(requests: &dyn Requests, [within, before]: [(&Tiles, f64); 2]) -> Self {
        let has = |tiles: &Tiles, tile: usize| tiles.iter().any(|own| own.contains(&tile));
        let mut all: BTreeMap<(Fault, String), f64> = BTreeMap::new();
        let usual = if before.1 > 0.0 { within.1 / before.1 } else { 0.0 };
        for own in requests.faults() {
            let is_in = |tiles: &Tiles| f64::from(u8::from(has(tiles, own.tile)));
            let count = is_in(within.0) - usual * is_in(before.0);
            if count != 0.0 {
                *all.entry((own.fault, own.name.clone())).or_default() += count * own.count;
            }
        }
        all.retain(|_, count| *count > 0.0);
        Self(all)
    }

    /// How many name one of some faults.
    pub fn count(&self, is: impl Fn(Fault) -> bool) -> f64 {
        self.0.iter().filter(|(key, _)| is(key.0)).map(|own| own.1).sum()
    }

    /// How far failures are of some kind: its part of those that name anything, less where hardly any of all that fail
    /// do.
    pub fn part(&self, is: impl Fn(Fault) -> bool, failed: f64) -> f64 {
        let own = self.count(|fault| is(fault) && !fault.is_denial());
        let all = self.count(|fault| !fault.is_denial() && fault != Fault::Starting);
        let counts = [own / all.max(1.0), own / MIN_NAMED, own / (ENOUGH * failed.max(1.0))];
        counts.into_iter().fold(1.0, f64::min)
    }

    /// The name that most of some faults have, and how many.
    pub fn most(&self, is: impl Fn(Fault) -> bool) -> Option<(&str, f64)> {
        let own = self.0.iter().filter(|(key, count)| is(key.0) && !key.1.is_empty() && **count >= MIN_NAMED);
        let most = own.max_by(|a, b| a.1.total_cmp(b.1).then_with(|| b.0.cmp(a.0)))?;
        Some((&most.0.1, *most.1))
    }

    /// All of them, the most frequent first: fault, name, how many.
    pub fn ranked(&self) -> Vec<(Fault, &str, f64)> {
        let mut all: Vec<_> = self.0.iter().map(|((fault, name), count)| (*fault, name.as_str(), *count)).collect();
        all.sort_by(|a, b| b.2.total_cmp(&a.2).then_with(|| (a.0, a.1).cmp(&(b.0, b.1))));
        all
    }
}
