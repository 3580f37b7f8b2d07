//! How many audit ids occur more than once, from a bounded sample of them.
//!
//! Clients may choose the audit id, so ids that repeat are a fact worth telling, never a reason to
//! collapse requests. The sample keeps the ids whose hash is smallest, each with its count: the same
//! for any split and order of the input, exact while there are few ids.

use super::traffic::RepeatedIds;
use std::collections::BTreeMap;

/// Ids kept.
const SAMPLE: usize = 8_192;

/// Ids with their counts, the smallest hashes only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdSample {
    counts: BTreeMap<u64, u32>,
    /// The largest hash kept once there are too many.
    limit: Option<u64>,
}

impl IdSample {
    /// Counts an id by its hash.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        self.add_many(hash, 1);
    }

    #[inline]
    fn add_many(&mut self, hash: u64, count: u32) {
        if self.limit.is_some_and(|limit| hash > limit) {
            return;
        }
        *self.counts.entry(hash).or_default() += count;
        if self.counts.len() > SAMPLE {
            self.counts.pop_last();
            self.limit = self.counts.last_key_value().map(|(&hash, _)| hash);
        }
    }

    /// Adds another's ids.
    pub fn merge(&mut self, other: &Self) {
        if let Some(theirs) = other.limit {
            let limit = self.limit.map_or(theirs, |mine| mine.min(theirs));
            self.counts.retain(|&hash, _| hash <= limit);
            self.limit = Some(limit);
        }
        for (&hash, &count) in &other.counts {
            self.add_many(hash, count);
        }
    }

    /// How many requests had an id that was seen before.
    pub fn repeated(&self) -> RepeatedIds {
        let repeated: u64 = self.counts.values().map(|&count| u64::from(count) - 1).sum();
        match self.limit {
            None => RepeatedIds { repeated, estimated: false },
            Some(limit) => {
                let share = (limit as f64 + 1.0) / (u64::MAX as f64 + 1.0);
                RepeatedIds { repeated: (repeated as f64 / share).round() as u64, estimated: repeated > 0 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(i: u64) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn few_ids_are_counted_exactly_and_many_estimated() {
        let mut few = IdSample::default();
        (0..1000).chain(0..10).for_each(|i| few.add(mix(i)));
        assert_eq!(few.repeated(), RepeatedIds { repeated: 10, estimated: false });
        let mut many = IdSample::default();
        (0..200_000).chain(0..50_000).for_each(|i| many.add(mix(i)));
        let found = many.repeated();
        assert!(found.estimated && (43_000..57_000).contains(&found.repeated), "{found:?}");
    }

    #[test]
    fn any_split_gives_the_same_sample() {
        let mut whole = IdSample::default();
        (0..60_000).for_each(|i| whole.add(mix(i % 40_000)));
        let mut parts = IdSample::default();
        for part in [0..7, 7..30_000, 30_000..60_000] {
            let mut one = IdSample::default();
            part.for_each(|i| one.add(mix(i % 40_000)));
            parts.merge(&one);
        }
        assert_eq!(whole, parts);
    }
}
