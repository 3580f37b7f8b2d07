//! Latencies by buckets, and how much longer than usual something takes.

/// Latencies below this differ by chance; s.
const NOISE_S: f64 = 0.004;

/// Buckets of latency: quarter powers of two from 0.1 ms on.
const BUCKETS: usize = 88;
/// So many to a power of two.
const BY_POWER: f64 = 4.0;

/// Latencies by quarter powers of two.
#[derive(Debug, Clone, PartialEq)]
pub struct Latencies {
    counts: [f32; BUCKETS],
    /// Sum of all, s.
    pub sum: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: [0.0; BUCKETS], sum: 0.0 }
    }
}

fn bucket(seconds: f32) -> usize {
    let place = (f64::from(seconds) / 1e-4).max(1.0).log2() * BY_POWER;
    (place as usize).min(BUCKETS - 1)
}

/// The upper bound of a bucket, s.
fn bound(bucket: usize) -> f64 {
    1e-4 * 2f64.powf((bucket as f64 + 1.0) / BY_POWER)
}

impl Latencies {
    /// Adds latencies: seconds, and how many.
    pub fn add(&mut self, latency: &[(f32, f32)]) {
        for (seconds, count) in latency {
            self.counts[bucket(*seconds)] += count;
            self.sum += f64::from(*seconds) * f64::from(*count);
        }
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
        self.sum += other.sum;
    }

    /// How many.
    pub fn count(&self) -> f64 {
        self.counts.iter().map(|count| f64::from(*count)).sum()
    }

    /// How many took this long or longer, to within a bucket.
    pub fn at_least(&self, seconds: f64) -> f64 {
        self.counts[bucket(seconds as f32)..].iter().map(|count| f64::from(*count)).sum()
    }

    /// A quantile in seconds, to within a tenth; `None` of nothing.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let all = self.count();
        let mut seen = 0.0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += f64::from(*count);
            if all > 0.0 && seen >= q * all {
                return Some(bound(place) / 2f64.powf(0.5 / BY_POWER));
            }
        }
        None
    }
}

/// Logarithm of how many times longer than usual something takes, s.
pub(super) fn slowdown(mean: f64, usual: f64) -> f64 {
    ((mean + NOISE_S) / (usual + NOISE_S)).ln().clamp(-1.0, 5.0)
}
