//! Where series are going: their history on a grid of times, and what is forecast of them.

use crate::model::series::Series;
use crate::model::time::Micros;

/// What a number counts, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unit {
    /// Objects, requests, seats: plain numbers.
    #[default]
    Count,
    Bytes,
    /// Cores of CPU.
    Cores,
    /// Requests a second.
    PerSecond,
    BytesPerSecond,
}

impl Unit {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Cores => "cores",
            Self::PerSecond => "per-second",
            Self::BytesPerSecond => "bytes-per-second",
        }
    }
}

/// Values at equal distances of time. What is not known is NaN.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grid {
    /// When the first interval begins; a multiple of `step`.
    pub from: Micros,
    /// How long an interval is.
    pub step: Micros,
    /// The highest value in each interval, in order; NaN where there is none.
    pub values: Vec<f64>,
}

impl Grid {
    /// When the interval of this index begins; also behind the end.
    pub fn at(&self, index: usize) -> Micros {
        self.from + self.step * index as Micros
    }

    /// When the last interval ends: here the future begins.
    pub fn end(&self) -> Micros {
        self.at(self.values.len())
    }
}

/// A part of a sum: what drives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Which: a namespace, a resource, a verb.
    pub name: String,
    /// Its history.
    pub grid: Grid,
}

/// Where the limit of etcd's database is from, where nobody named one.
pub const ASSUMED_QUOTA: &str = "etcd's default, since the quota is unknown: --etcd-quota sets another";

impl Target {
    /// Whether the limit is only what it is by default.
    pub fn limit_is_assumed(&self) -> bool {
        self.limit_from == ASSUMED_QUOTA
    }
}

/// A series whose future is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Target {
    /// Which; sums of several have a name and labels of their own.
    pub series: Series,
    /// What it counts.
    pub unit: Unit,
    /// Its history.
    pub grid: Grid,
    /// How high it may become; `None` where nothing is known to limit it.
    pub limit: Option<f64>,
    /// Where the limit is from, in words: "hard of quota compute".
    pub limit_from: String,
    /// What it is the sum of, where that is known.
    pub parts: Vec<Part>,
    /// What distinguishes it from others that people call the same: `cluster=eu`; else empty.
    pub apart: String,
}

/// When a limit is reached: the dates by which one in ten, half, and nine in ten of the possible futures have reached
/// it. `None`: not within the horizon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// The earliest that has to be reckoned with.
    pub p10: Option<Micros>,
    /// As likely earlier as later.
    pub p50: Option<Micros>,
    /// Very likely by then.
    pub p90: Option<Micros>,
}

/// How well the model predicted what was already known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backtest {
    /// Mean absolute error, by that of repeating the season before (or the last value, without a season): below 1 is
    /// better than that.
    pub mase: f64,
    /// Which share of the values fell between the 10 % and the 90 % quantile: 0.8 is right.
    pub coverage: f64,
    /// Mean absolute error, in the series' unit.
    pub error: f64,
    /// Times from which it was tried.
    pub origins: usize,
    /// Steps that were predicted from each.
    pub steps: usize,
}

/// A sudden and lasting change of level: a deploy, a migration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// When.
    pub at: Micros,
    /// By how much.
    pub by: f64,
}

/// The future of one interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// When the interval begins.
    pub at: Micros,
    /// One in ten is below.
    pub p10: f64,
    /// The middle.
    pub p50: f64,
    /// One in ten is above.
    pub p90: f64,
}

/// What is said of a series in a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verdict {
    /// There is too little to say anything.
    #[default]
    TooShort,
    /// It is at its limit, or above, now.
    AtLimit,
    /// It is more likely than not that the limit is reached within the horizon.
    Reaches,
    /// It may be reached: more than one in ten.
    MayReach,
    /// It is not forecast within the horizon.
    Clear,
    /// Nothing limits it.
    NoLimit,
}

impl Verdict {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooShort => "too-short",
            Self::AtLimit => "at-limit",
            Self::Reaches => "reaches",
            Self::MayReach => "may-reach",
            Self::Clear => "clear",
            Self::NoLimit => "no-limit",
        }
    }
}

/// What is forecast of a series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forecast {
    /// What is said of it.
    pub verdict: Verdict,
    /// Why nothing is forecast, or what to keep in mind; a sentence without its period, or empty.
    pub note: String,
    /// The last known value and when its interval began.
    pub current: Option<(Micros, f64)>,
    /// How much more a week the model expects, as the mean of the horizon.
    pub growth_per_week: Option<f64>,
    /// When the limit is reached.
    pub reached: Reached,
    /// How likely it is that it is reached within the horizon.
    pub probability: Option<f64>,
    /// The model that was best in the backtest.
    pub model: &'static str,
    /// How good it was; `None` where there was too little to try it on.
    pub backtest: Option<Backtest>,
    /// Seasons that were found, in steps: 24 and 168 for hours.
    pub seasons: Vec<usize>,
    /// Changes of level that were found; what lies before the last one teaches nothing of the level.
    pub changes: Vec<Change>,
    /// How far was looked ahead; less than was asked for where the history is short.
    pub ahead: Micros,
    /// The future, interval by interval up to there.
    pub path: Vec<Step>,
}
