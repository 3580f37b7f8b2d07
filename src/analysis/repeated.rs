//! How many audit ids occur more than once, from a bounded sample of them.
//!
//! Clients may choose the audit id, so ids that repeat are a fact worth telling, never a reason to
//! collapse requests. The sample keeps the ids whose hash is smallest, each with its count: the same
//! for any split and order of the input, exact while there are few ids.

/// Ids kept.
const SAMPLE: usize = 8_192;

/// What is known of audit ids that occur more than once.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RepeatedIds {
    /// Requests whose audit id an earlier request of the same apiserver had.
    pub repeated: u64,
    /// Whether that is an estimate from a sample of the ids.
    pub estimated: bool,
}

/// Ids with their counts, the smallest hashes only.
#[derive(Debug, Clone, Default)]
pub struct IdSample {
    /// Hash and count, ascending.
    counts: Vec<(u64, u32)>,
    /// Hashes that are yet to be sorted in.
    new: Vec<u64>,
    /// The largest hash kept once there are too many.
    limit: Option<u64>,
}

impl IdSample {
    /// Counts an id by its hash.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if self.limit.is_none_or(|limit| hash <= limit) {
            self.new.push(hash);
            if self.new.len() >= SAMPLE {
                self.settle();
            }
        }
    }

    /// Sorts in what is new, and keeps the smallest.
    fn settle(&mut self) {
        let mut all = std::mem::take(&mut self.counts);
        all.extend(self.new.drain(..).map(|hash| (hash, 1)));
        self.keep(all);
    }

    fn keep(&mut self, mut all: Vec<(u64, u32)>) {
        all.sort_unstable();
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        if all.len() > SAMPLE {
            all.truncate(SAMPLE);
            self.limit = all.last().map(|(hash, _)| *hash);
        }
        self.counts = all;
    }

    /// Adds another's ids.
    pub fn merge(&mut self, other: &Self) {
        self.settle();
        let mut other = other.clone();
        other.settle();
        self.limit = [self.limit, other.limit].into_iter().flatten().min();
        let limit = self.limit.unwrap_or(u64::MAX);
        let mine = std::mem::take(&mut self.counts);
        self.keep(mine.into_iter().chain(other.counts).filter(|(hash, _)| *hash <= limit).collect());
    }

    /// Hashes of ids with their counts.
    pub fn counts(&self) -> Vec<(u64, u32)> {
        let mut settled = self.clone();
        settled.settle();
        settled.counts
    }

    /// Adds an id of another sample, in the order of that.
    pub fn add_counted(&mut self, hash: u64, count: u32) {
        self.counts.push((hash, count));
        if self.counts.len() >= SAMPLE {
            self.limit = Some(hash);
        }
    }

    /// How many requests had an id that was seen before.
    pub fn repeated(&self) -> RepeatedIds {
        let mut settled = self.clone();
        settled.settle();
        let repeated: u64 = settled.counts.iter().map(|(_, count)| u64::from(*count) - 1).sum();
        match settled.limit {
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
        whole.settle();
        parts.settle();
        assert_eq!((whole.counts, whole.limit), (parts.counts, parts.limit));
    }
}
