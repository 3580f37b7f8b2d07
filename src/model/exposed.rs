//! Metrics that plimsoll itself exports: families of series, as Prometheus knows them.

/// What kind of metric a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    /// Only ever grows while its process, or the store behind it, lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of observations by upper bound.
    Histogram,
}

/// The name, meaning and labels of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Name, of a counter without `_total`.
    pub name: &'static str,
    /// What it counts or measures, with its unit.
    pub help: &'static str,
    pub kind: FamilyKind,
    /// Names of its labels, in order.
    pub labels: &'static [&'static str],
}

impl Spec {
    /// That of a gauge.
    pub const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, help, kind: FamilyKind::Gauge, labels }
    }
}

/// What a series comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Exposed {
    /// Of a counter or gauge.
    Number(f64),
    Histogram(Observations),
}

/// What a histogram has observed, in classic and in native buckets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observations {
    /// Observations at or below each upper bound in seconds, cumulative and without `+Inf`.
    pub buckets: Vec<(f64, u64)>,
    /// Observations by native bucket of [`NATIVE_SCHEMA`], ascending.
    pub native: Vec<(i16, u64)>,
    /// Observations that took no time that could be measured: they are in no native bucket.
    pub zeros: u64,
    /// All observations.
    pub count: u64,
    /// Their sum in seconds.
    pub sum: f64,
}

/// Native buckets grow by a factor of two in 2^3 steps, so each is 9 % wide.
pub const NATIVE_SCHEMA: i16 = 3;

/// The native bucket of a value in seconds, which it holds up to its upper bound 2^(bucket ÷ 8); `None` of zero.
pub fn native_bucket(seconds: f64) -> Option<i16> {
    (seconds > 0.0).then(|| (seconds.log2() * f64::from(1 << NATIVE_SCHEMA)).ceil() as i16)
}

/// A metric with its series.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Name, meaning, labels.
    pub spec: Spec,
    /// Values of the labels, in their order, and what the series comes to. No two have the same labels.
    pub series: Vec<(Vec<String>, Exposed)>,
}

impl Family {
    /// A metric with one series that has no labels.
    pub fn single(spec: Spec, value: f64) -> Self {
        Self { spec, series: vec![(Vec::new(), Exposed::Number(value))] }
    }
}
