//! Health of scheduler and controllers: work queues, scheduling, kinds of pending pods, and leader changes. (Rules:
//! docs/commands/controllers.md.)

mod calls;
pub mod classes;
mod findings;
pub mod handovers;
mod leaders;
mod people;
pub mod queues;
pub mod read;
pub mod report;
pub mod scheduler;
mod tables;

use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::{Facts, Slice};
use crate::analysis::robust;
use crate::model::time::{MINUTE, Micros};

/// Points of a course that are looked at for its slope, at most: pairs of them are counted.
const POINTS: usize = 256;

/// Points from which on a slope is reported.
const MIN_POINTS: usize = 5;

/// A gauge page by page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    /// When, and how much.
    pub levels: Vec<(Micros, f64)>,
}

impl Course {
    /// The sum of several, page by page.
    fn sum(all: &[&[(Micros, f64)]]) -> Self {
        let mut levels: std::collections::BTreeMap<Micros, f64> = std::collections::BTreeMap::new();
        for (at, level) in all.iter().copied().flatten() {
            *levels.entry(*at).or_default() += level;
        }
        Self { levels: levels.into_iter().collect() }
    }

    /// The most.
    pub fn peak(&self) -> Option<f64> {
        self.levels.iter().map(|(_, level)| *level).reduce(f64::max)
    }

    /// How much more each minute, and whether it surely rises: the slope of Theil and Sen, whose 95 % interval lies
    /// above nothing.
    pub fn per_minute(&self) -> Option<(f64, bool)> {
        if self.levels.len() < MIN_POINTS {
            return None;
        }
        let every = self.levels.len().div_ceil(POINTS);
        let first = self.levels[0].0;
        let minutes = |at: Micros| (at - first) as f64 / MINUTE as f64;
        let points: Vec<(f64, f64)> =
            self.levels.iter().step_by(every).map(|(at, level)| (minutes(*at), *level)).collect();
        robust::line(&points).map(|line| (line.slope, line.interval.0 > 0.0))
    }
}

/// The mean of what a histogram counted, in milliseconds.
fn mean_ms(slice: &Slice<'_>, metric: Metric) -> Option<f64> {
    let count = slice.increase(metric, Part::Count)?;
    let sum = slice.increase(metric, Part::Sum)?;
    (count > 0.0).then(|| sum / count * 1e3)
}

/// A quantile of what a histogram counted, in milliseconds.
fn quantile_ms(slice: &Slice<'_>, metric: Metric, q: f64) -> Option<f64> {
    slice.buckets(metric).quantile(q).map(|seconds| seconds * 1e3)
}

/// Differences of a part between each two pages, at the later one.
fn sum_course(slice: &Slice<'_>, metric: Metric, part: Part, intervals: &[(Micros, Micros)]) -> Vec<f64> {
    let mut course = vec![0.0; intervals.len()];
    for fact in slice.of(metric).iter().filter(|fact| fact.part == part) {
        for (interval, difference) in &fact.course {
            if let Some(sum) = course.get_mut(*interval as usize) {
                *sum += difference;
            }
        }
    }
    course
}

/// The same as a course.
fn counted_course(slice: &Slice<'_>, metric: Metric, intervals: &[(Micros, Micros)]) -> Course {
    let counts = sum_course(slice, metric, Part::Whole, intervals);
    Course { levels: intervals.iter().map(|(_, to)| *to).zip(counts).collect() }
}

/// Means in milliseconds of what a histogram counted between each two pages, at the later one; where it counted
/// anything.
fn mean_course(slice: &Slice<'_>, metric: Metric, intervals: &[(Micros, Micros)]) -> Course {
    let counts = sum_course(slice, metric, Part::Count, intervals);
    let sums = sum_course(slice, metric, Part::Sum, intervals);
    let means = intervals.iter().zip(counts.iter().zip(sums)).filter(|(_, (count, _))| **count > 0.0);
    Course { levels: means.map(|((_, to), (count, sum))| (*to, sum / count * 1e3)).collect() }
}

/// When an instance is known from, and until.
fn window(facts: &Facts) -> Option<(Micros, Micros)> {
    let from = facts.instances.iter().map(|instance| instance.from).min()?;
    Some((from, facts.instances.iter().map(|instance| instance.to).max()?))
}
