//! Counts of durations in integer buckets, 16 to each power of two.
//!
//! Integer buckets make a merge exact and let any SQL engine compute the same ones
//! (docs/rollup.md, "Histograms"). A quantile is within half a bucket, 1/32, of the true value.

use smallvec::SmallVec;

/// The bucket that `value` falls into.
#[inline]
pub fn bucket(value: u64) -> u16 {
    if value < 16 {
        return value as u16;
    }
    let exponent = 63 - value.leading_zeros();
    (16 * (exponent - 3) + ((value >> (exponent - 4)) & 15) as u32) as u16
}

/// The smallest and the largest value that fall into a bucket.
fn ends(bucket: u16) -> (u64, u64) {
    let bucket = u64::from(bucket);
    if bucket < 16 {
        return (bucket, bucket);
    }
    let width = 1u64 << (bucket / 16 - 1);
    let lower = (16 + bucket % 16) * width;
    (lower, lower + (width - 1))
}

/// The midpoint of a bucket: what its values are taken to be.
pub fn midpoint(bucket: u16) -> f64 {
    let (lower, upper) = ends(bucket);
    lower as f64 + (upper - lower) as f64 / 2.0
}

/// Durations in microseconds: their number by bucket, their sum and the largest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// (bucket, count), ascending. Histograms are many, and most hold one or two.
    /// One that is full (4,294,967,295) stays so.
    buckets: SmallVec<[(u16, u32); 2]>,
    /// The sum of all values.
    pub sum: u64,
    /// The largest value; 0 where there is none.
    pub max: u64,
}

impl Histogram {
    /// Adds one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_bucket(bucket(value), 1);
        self.sum += value;
        self.max = self.max.max(value);
    }

    #[inline]
    fn add_bucket(&mut self, bucket: u16, count: u32) {
        // Where there is every bucket from the first on, which is nearly so where there are many, this is its place.
        if let Some(&(first, _)) = self.buckets.first()
            && let Some(there) = self.buckets.get_mut(usize::from(bucket.wrapping_sub(first)))
            && there.0 == bucket
        {
            there.1 = there.1.saturating_add(count);
            return;
        }
        self.search_bucket(bucket, count);
    }

    #[inline(never)]
    fn search_bucket(&mut self, bucket: u16, count: u32) {
        match self.buckets.binary_search_by_key(&bucket, |b| b.0) {
            Ok(i) => self.buckets[i].1 = self.buckets[i].1.saturating_add(count),
            Err(i) => {
                if self.buckets.len() == self.buckets.capacity() {
                    // Rows are many and most stay small: grow by little.
                    self.buckets.reserve_exact(2 + self.buckets.len() / 2);
                }
                self.buckets.insert(i, (bucket, count));
            }
        }
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
        } else {
            for &(bucket, count) in &other.buckets {
                self.add_bucket(bucket, count);
            }
        }
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| u64::from(b.1)).sum()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The value at rank `ceil(q·n)` (nearest rank), in microseconds; `None` where there are no values.
    /// Never above the largest value seen.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let count = self.count();
        let rank = ((q * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for &(bucket, count) in &self.buckets {
            seen += u64::from(count);
            if seen >= rank {
                return Some(midpoint(bucket).min(self.max as f64));
            }
        }
        None
    }

    /// How many values are less than `value`, to within its bucket.
    pub fn below(&self, value: u64) -> u64 {
        self.buckets.iter().filter(|b| b.0 < bucket(value)).map(|b| u64::from(b.1)).sum()
    }

    /// How many values are `value` or less. Those of the bucket that `value` falls into are taken to lie evenly in it,
    /// up to the largest value, which is known.
    pub fn up_to(&self, value: u64) -> u64 {
        if self.max <= value {
            return self.count();
        }
        let own = bucket(value);
        let within = self.buckets.iter().find(|b| b.0 == own).map_or(0, |b| u64::from(b.1));
        let (lower, upper) = ends(own);
        let holds_largest = self.max <= upper;
        let values = upper.min(self.max) - lower + 1;
        let share = (value - lower + 1) as f64 / values as f64;
        let others = within.saturating_sub(u64::from(holds_largest));
        self.below(value) + (others as f64 * share).round() as u64
    }

    /// (bucket, count), ascending.
    pub fn buckets(&self) -> &[(u16, u32)] {
        &self.buckets
    }

    /// `bucket:count` joined by `;`, as the roll-up's tables write it.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        for (bucket, count) in &self.buckets {
            if !out.is_empty() {
                out.push(';');
            }
            out.push_str(&format!("{bucket}:{count}"));
        }
        out
    }

    /// What was written so, with its sum and its largest value; `None` if the text has another form.
    pub fn decode(text: &str, sum: u64, max: u64) -> Option<Self> {
        let mut histogram = Self { buckets: SmallVec::new(), sum, max };
        for pair in text.split(';').filter(|pair| !pair.is_empty()) {
            let (bucket, count) = pair.split_once(':')?;
            histogram.add_bucket(bucket.parse().ok()?, count.parse().ok()?);
        }
        Some(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_contiguous_and_small_values_exact() {
        let mut last = bucket(0);
        for value in 1..100_000u64 {
            let now = bucket(value);
            assert!(now == last || now == last + 1, "{value}");
            last = now;
        }
        assert_eq!(midpoint(bucket(7)), 7.0);
        assert_eq!(bucket(31), 31);
        assert_eq!(bucket(32), 32);
        assert_eq!(bucket(u64::MAX), 16 * 60 + 15);
    }

    /// 983 to 1,016 ms are one bucket: which of them are above a second is known by the largest.
    #[test]
    fn what_is_no_longer_than_the_largest_is_counted_whole() {
        let of = |values: &[u64]| {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(value));
            histogram.up_to(1_000_000)
        };
        assert_eq!(of(&[990_000, 995_000, 1_000_000]), 3);
        assert_eq!(of(&[1_001_000]), 0);
        assert_eq!(of(&[5, 984_000, 1_000_500]), 2);
        assert_eq!(of(&[5, 2_000_000]), 1);
    }

    proptest! {
        #[test]
        fn midpoint_is_within_a_thirty_second(value in 0u64..1 << 50) {
            let error = (midpoint(bucket(value)) - value as f64).abs();
            prop_assert!(error <= value as f64 / 32.0 + 0.5);
        }

        #[test]
        fn quantile_is_within_the_stated_error(mut values in prop::collection::vec(0u64..1 << 40, 1..200),
            q in 0.0f64..1.0) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&v| histogram.add(v));
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let truth = values[rank - 1] as f64;
            let got = histogram.quantile(q).unwrap();
            prop_assert!((got - truth).abs() <= truth / 32.0 + 0.5, "{got} {truth}");
        }

        #[test]
        fn up_to_is_within_the_bucket_and_exact_by_the_largest(values in prop::collection::vec(0u64..1 << 24, 1..200),
            at in 0u64..1 << 24) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&v| histogram.add(v));
            let truth = |bound: u64| values.iter().filter(|v| **v <= bound).count() as u64;
            let (lower, upper) = ends(bucket(at));
            let got = histogram.up_to(at);
            prop_assert!(histogram.below(lower) <= got && got <= truth(upper), "{got}");
            prop_assert!(histogram.up_to(at) <= histogram.up_to(at + 1));
            let largest = *values.iter().max().unwrap();
            prop_assert_eq!(histogram.up_to(largest), values.len() as u64);
            prop_assert!(largest == 0 || histogram.up_to(largest - 1) < values.len() as u64);
        }

        #[test]
        fn merging_is_adding(a in prop::collection::vec(any::<u32>(), 0..50),
            b in prop::collection::vec(any::<u32>(), 0..50)) {
            let fill = |values: &[&[u32]]| {
                let mut h = Histogram::default();
                values.iter().flat_map(|v| v.iter()).for_each(|&v| h.add(u64::from(v)));
                h
            };
            let mut merged = fill(&[&a]);
            merged.merge(&fill(&[&b]));
            prop_assert_eq!(merged, fill(&[&a, &b]));
        }
    }
}
