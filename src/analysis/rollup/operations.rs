//! Dangerous operations in full, and pods that somebody created.

use super::deprecated::Calls;
use super::notable::Notable;
use crate::model::time::{Micros, together};
use std::collections::BTreeMap;

/// Operations kept of each kind: the first.
const MAX_OF_A_KIND: usize = 10_000;

/// Rows of `created`: those that come first by their texts.
pub(super) const MAX_CREATED: usize = 20_000;

/// Operations by kind.
#[derive(Debug, Default)]
pub struct Operations {
    of: BTreeMap<&'static str, Vec<Notable>>,
    /// Those that were dropped for want of room.
    pub dropped: u64,
}

impl Operations {
    /// Takes one.
    pub fn take(&mut self, one: Notable) {
        let all = self.of.entry(one.kind).or_default();
        all.push(one);
        if all.len() >= MAX_OF_A_KIND * 2 {
            self.dropped += cut(all);
        }
    }

    /// All that are kept, in the order of time.
    pub fn finish(mut self) -> (Vec<Notable>, u64) {
        self.dropped += self.of.values_mut().map(cut).sum::<u64>();
        let mut all: Vec<Notable> = self.of.into_values().flatten().collect();
        all.sort();
        (all, self.dropped)
    }
}

fn cut(all: &mut Vec<Notable>) -> u64 {
    all.sort();
    all.drain(MAX_OF_A_KIND.min(all.len())..).count() as u64
}

/// Cluster, user, namespace, name; without a name where the server made it.
pub type CreatedKey = [String; 4];

/// Pods that somebody created.
#[derive(Debug, Default)]
pub struct Created(BTreeMap<CreatedKey, Calls>);

impl Created {
    /// A row that is among the first in the end was so all the time: its counts are exact.
    pub fn add(&mut self, key: CreatedKey, calls: &Calls) {
        let row = self.0.entry(key).or_default();
        row.requests += calls.requests;
        row.span = together(row.span, calls.span);
        if self.0.len() > MAX_CREATED {
            self.0.pop_last();
        }
    }

    /// Counts one.
    pub fn count(&mut self, at: Micros, key: CreatedKey) {
        self.add(key, &Calls { requests: 1, span: Some((at, at)) });
    }

    /// All rows, by their texts.
    pub fn into_rows(self) -> Vec<(CreatedKey, Calls)> {
        self.0.into_iter().collect()
    }
}
