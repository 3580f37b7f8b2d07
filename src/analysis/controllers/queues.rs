//! Work queues of controllers: how deep, how long items wait and are worked on, and how many workers that keeps busy.

use super::{Course, mean_ms, quantile_ms};
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::Facts;

/// A work queue of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Queue {
    /// Index of the instance.
    pub instance: usize,
    /// Its name, as the controller gave it.
    pub name: String,
    /// Items that wait, on the last page that shows.
    pub depth: Option<f64>,
    /// The same page by page.
    pub course: Course,
    /// Items added each second.
    pub adds_per_s: Option<f64>,
    /// Items done each second.
    pub done_per_s: Option<f64>,
    /// Items added again, each second: after an error, or because the controller wants to look again.
    pub retries_per_s: Option<f64>,
    /// How long an item waits, on average (ms).
    pub wait_mean_ms: Option<f64>,
    /// The same, by the 99th percentile. Buckets are powers of ten.
    pub wait_p99_ms: Option<f64>,
    /// How long an item is worked on, on average (ms).
    pub work_mean_ms: Option<f64>,
    /// The same, by the 99th percentile.
    pub work_p99_ms: Option<f64>,
    /// Workers that are busy, on average: seconds of work each second.
    pub busy: Option<f64>,
    /// Seconds that items in work have been worked on, on the last page, in all.
    pub unfinished_s: Option<f64>,
    /// The same of the item that has been worked on for longest.
    pub longest_s: Option<f64>,
    /// Mean wait in milliseconds between each two pages, at the later one; where anything was taken.
    pub wait_course: Course,
    /// How many items were added.
    pub adds: f64,
}

const METRICS: [Metric; 7] = [
    Metric::QueueDepth,
    Metric::QueueAdds,
    Metric::QueueRetries,
    Metric::QueueWait,
    Metric::QueueWork,
    Metric::QueueUnfinished,
    Metric::QueueLongest,
];

impl Queue {
    /// The most that waited.
    pub fn most(&self) -> Option<f64> {
        self.course.peak().or(self.depth)
    }

    /// Seconds until all that waits is done, if nothing is added.
    pub fn drain_s(&self) -> Option<f64> {
        let (depth, done) = (self.depth?, self.done_per_s?);
        (done > 0.0).then(|| depth / done)
    }

    /// The same, while as much is added as before; `None` where that never is.
    pub fn cleared_s(&self) -> Option<f64> {
        let (depth, net) = (self.depth?, self.done_per_s? - self.adds_per_s.unwrap_or(0.0));
        (net > 0.0).then(|| depth / net)
    }
}

/// All queues into which something was put, those first in which items waited longest altogether.
pub fn queues(facts: &Facts) -> Vec<Queue> {
    let slices = facts.sliced(&METRICS, |_, fact| Some((fact.instance, facts.text(fact.labels[0]).to_owned())));
    let mut all = Vec::new();
    for ((instance, name), slice) in slices {
        let levels: Vec<&[_]> = slice.of(Metric::QueueDepth).iter().map(|fact| facts.levels(fact)).collect();
        let course = Course::sum(&levels);
        let adds = slice.increase(Metric::QueueAdds, Part::Whole).unwrap_or(0.0);
        // A last page that breaks off need not show it.
        let depth = course.levels.last().map(|(_, depth)| *depth);
        if adds <= 0.0 && depth.is_none_or(|depth| depth <= 0.0) && course.peak().is_none_or(|peak| peak <= 0.0) {
            continue;
        }
        all.push(Queue {
            instance,
            name,
            depth,
            course,
            adds_per_s: slice.rate(Metric::QueueAdds, Part::Whole),
            done_per_s: slice.rate(Metric::QueueWork, Part::Count),
            retries_per_s: slice.rate(Metric::QueueRetries, Part::Whole),
            wait_mean_ms: mean_ms(&slice, Metric::QueueWait),
            wait_p99_ms: quantile_ms(&slice, Metric::QueueWait, 0.99),
            work_mean_ms: mean_ms(&slice, Metric::QueueWork),
            work_p99_ms: quantile_ms(&slice, Metric::QueueWork, 0.99),
            busy: slice.rate(Metric::QueueWork, Part::Sum),
            unfinished_s: slice.last(Metric::QueueUnfinished),
            longest_s: slice.last(Metric::QueueLongest),
            wait_course: super::mean_course(&slice, Metric::QueueWait, &facts.instances[instance].intervals),
            adds,
        });
    }
    let waited = |queue: &Queue| queue.wait_mean_ms.unwrap_or(0.0) * queue.adds;
    all.sort_by(|a, b| {
        let depth = |queue: &Queue| queue.depth.unwrap_or(0.0);
        waited(b)
            .total_cmp(&waited(a))
            .then(depth(b).total_cmp(&depth(a)))
            .then_with(|| (&a.name, a.instance).cmp(&(&b.name, b.instance)))
    });
    all
}
