//! Quantiles of histograms, as Prometheus' `histogram_quantile` takes them.

use std::collections::BTreeMap;

/// Buckets by upper bound, each with the count of all observations up to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Buckets {
    by_bound: BTreeMap<Bound, f64>,
}

/// A bound in its natural order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bound(f64);

impl Eq for Bound {}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl FromIterator<(f64, f64)> for Buckets {
    fn from_iter<I: IntoIterator<Item = (f64, f64)>>(buckets: I) -> Self {
        let mut all = Self::default();
        buckets.into_iter().for_each(|(bound, count)| all.add(bound, count));
        all
    }
}

impl Buckets {
    /// Adds to a bucket.
    pub fn add(&mut self, bound: f64, count: f64) {
        *self.by_bound.entry(Bound(bound)).or_default() += count;
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Self) {
        other.by_bound.iter().for_each(|(bound, count)| self.add(bound.0, *count));
    }

    /// All observations; `None` without a `+Inf` bucket.
    pub fn count(&self) -> Option<f64> {
        self.by_bound.last_key_value().filter(|(bound, _)| bound.0.is_infinite()).map(|(_, count)| *count)
    }

    /// Observations up to a bound that has a bucket.
    pub fn up_to(&self, bound: f64) -> Option<f64> {
        // Bounds that were scaled may differ in the last digit.
        let is_it = |other: f64| (other - bound).abs() <= bound.abs() * 1e-9;
        self.rising().find(|(other, _)| is_it(*other)).map(|(_, count)| count)
    }

    /// The buckets, each with no less than those below it: series that lack a bucket can make the sums fall. Prometheus
    /// raises them too.
    fn rising(&self) -> impl Iterator<Item = (f64, f64)> {
        self.by_bound.iter().scan(f64::NEG_INFINITY, |highest, (bound, count)| {
            *highest = highest.max(*count);
            Some((bound.0, *highest))
        })
    }

    /// The `q`-quantile, in the unit of the bounds.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.by_bound.len() < 2 || self.count()? <= 0.0 {
            return None;
        }
        let rising: Vec<(f64, f64)> = self.rising().collect();
        let rank = q * rising.last()?.1;
        let at = rising[..rising.len() - 1].iter().position(|(_, count)| *count >= rank).unwrap_or(rising.len() - 1);
        if at == rising.len() - 1 {
            return Some(rising[at - 1].0);
        }
        let (end, upto) = rising[at];
        if at == 0 && end <= 0.0 {
            return Some(end);
        }
        let (start, below) = if at == 0 { (0.0, 0.0) } else { rising[at - 1] };
        Some(start + (end - start) * ((rank - below) / (upto - below)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(counts: &[(f64, f64)]) -> Buckets {
        counts.iter().copied().collect()
    }

    #[test]
    fn ranks_are_found_between_bounds() {
        let b = buckets(&[(0.1, 10.0), (0.5, 20.0), (1.0, 20.0), (f64::INFINITY, 40.0)]);
        assert_eq!(b.quantile(0.125), Some(0.05));
        assert_eq!(b.quantile(0.375), Some(0.1 + 0.4 * 0.5));
        assert_eq!(b.quantile(0.99), Some(1.0), "the last finite bound");
        assert_eq!((b.up_to(0.5), b.up_to(0.7)), (Some(20.0), None));
    }

    #[test]
    fn too_little_gives_none() {
        assert_eq!(buckets(&[]).quantile(0.5), None);
        assert_eq!(buckets(&[(f64::INFINITY, 5.0)]).quantile(0.5), None);
        assert_eq!(buckets(&[(1.0, 5.0), (2.0, 6.0)]).quantile(0.5), None, "no +Inf bucket");
        assert_eq!(buckets(&[(1.0, 0.0), (f64::INFINITY, 0.0)]).quantile(0.5), None);
    }

    #[test]
    fn sums_that_fall_are_raised() {
        let b = buckets(&[(1.0, 10.0), (2.0, 8.0), (f64::INFINITY, 10.0)]);
        assert_eq!(b.quantile(0.5), Some(0.5));
    }
}
