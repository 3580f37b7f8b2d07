//! What kube-scheduler reports itself: attempts and how long they take, where the time goes, and which pods wait why.

use super::{Course, leaders, mean_ms, quantile_ms};
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::{Fact, Facts, Slice};
use crate::model::time::{SECOND, Span};

/// Attempts to find nodes that ended in one way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attempts {
    /// Index of the instance.
    pub instance: usize,
    /// `scheduled`, `unschedulable` or `error`.
    pub result: String,
    /// How many.
    pub count: f64,
    /// How many each second.
    pub per_s: Option<f64>,
    /// The same between pages on which it led; `None` of one that is not elected.
    pub led_per_s: Option<f64>,
    /// How long one takes, on average (ms): finding a node, and binding.
    pub mean_ms: Option<f64>,
    /// Median (ms).
    pub p50_ms: Option<f64>,
    /// 99th percentile (ms).
    pub p99_ms: Option<f64>,
    /// How many between each two pages.
    pub course: Course,
    /// Mean time in milliseconds between each two pages.
    pub mean_course: Course,
}

/// One of the places where pods wait, of all schedulers that stand for the same lease: only one of them works on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waiting {
    pub cluster: String,
    /// The lease; a scheduler's own name where none is elected.
    pub lease: String,
    /// `active`, `backoff`, `unschedulable` or `gated`.
    pub queue: String,
    /// Pods, on the last page of who leads.
    pub pods: Option<f64>,
    /// Page by page, of the leader at that time.
    pub course: Course,
    /// Pods that came in each second, on average over what all of them are known for.
    pub incoming_per_s: Option<f64>,
}

/// An extension point of the scheduling framework.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stage {
    /// Index of the instance.
    pub instance: usize,
    /// `PreFilter`, `Filter`, `Score`, `Bind`, …
    pub name: String,
    /// How often each second.
    pub per_s: Option<f64>,
    /// How long it takes, on average (ms).
    pub mean_ms: Option<f64>,
    /// 99th percentile (ms).
    pub p99_ms: Option<f64>,
    /// Of the time of all extension points.
    pub share: f64,
}

/// A scheduler.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scheduler {
    /// Index of the instance.
    pub instance: usize,
    /// The lease it stands for, where it takes part in an election.
    pub lease: Option<String>,
    /// Whether it leads now, as far as is known; `None` where it takes part in no election.
    pub leads: Option<bool>,
    /// Attempts by result.
    pub attempts: Vec<Attempts>,
    /// Extension points, those first that take most time.
    pub stages: Vec<Stage>,
    /// How long the choice of a node takes, without binding, on average (ms).
    pub algorithm_ms: Option<f64>,
    /// How many choices were made.
    pub algorithms: Option<f64>,
    /// Attempts at preemption, and pods that gave way.
    pub preemptions: (Option<f64>, Option<f64>),
    /// Why pods have no node: plugin and pods, on the last page, most first.
    pub refusals: Vec<(String, f64)>,
    /// Uses of what was decided for an equal pod, by result; nothing where the scheduler is older than 1.35.
    pub batches: Vec<(String, f64)>,
}

const METRICS: [Metric; 11] = [
    Metric::PendingPods,
    Metric::ScheduleAttempts,
    Metric::ScheduleAttempt,
    Metric::ScheduleAlgorithm,
    Metric::ScheduleSli,
    Metric::ScheduleStage,
    Metric::ScheduleIncoming,
    Metric::SchedulePreemptions,
    Metric::ScheduleVictims,
    Metric::ScheduleRefusals,
    Metric::ScheduleBatches,
];

/// What is reported each value of a metric's first label.
fn by_label(facts: &Facts, of: &Slice<'_>, metric: Metric, value: impl Fn(&Fact) -> f64) -> Vec<(String, f64)> {
    let mut all: std::collections::BTreeMap<String, f64> = std::collections::BTreeMap::new();
    for fact in of.of(metric) {
        *all.entry(facts.text(fact.labels[0]).to_owned()).or_default() += value(fact);
    }
    let mut all: Vec<(String, f64)> = all.into_iter().filter(|(_, value)| *value > 0.0).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

/// All schedulers.
pub fn schedulers(facts: &Facts) -> Vec<Scheduler> {
    let whole = facts.sliced(&METRICS, |_, fact| Some(fact.instance));
    let of_label = |metrics: &[Metric]| {
        facts.sliced(metrics, |_, fact| Some((fact.instance, facts.text(fact.labels[0]).to_owned())))
    };
    let elected = leaders::elections(facts);
    let mut all: Vec<Scheduler> = whole
        .iter()
        .filter(|(_, slice)| {
            !slice.of(Metric::PendingPods).is_empty() || !slice.of(Metric::ScheduleAttempts).is_empty()
        })
        .map(|(&instance, slice)| Scheduler {
            instance,
            lease: elected
                .iter()
                .find(|(_, one)| one.candidates.contains(&instance))
                .map(|((_, lease), _)| lease.clone()),
            leads: elected
                .values()
                .find(|one| one.candidates.contains(&instance))
                .map(|one| one.leading.contains(&instance)),
            algorithm_ms: mean_ms(slice, Metric::ScheduleAlgorithm),
            algorithms: slice.increase(Metric::ScheduleAlgorithm, Part::Count),
            preemptions: (
                slice.increase(Metric::SchedulePreemptions, Part::Whole),
                slice.increase(Metric::ScheduleVictims, Part::Sum),
            ),
            refusals: by_label(facts, slice, Metric::ScheduleRefusals, |fact| fact.last.unwrap_or(0.0)),
            batches: by_label(facts, slice, Metric::ScheduleBatches, |fact| fact.increase),
            ..Scheduler::default()
        })
        .collect();
    let place = |instance: usize| all.iter().position(|one| one.instance == instance);
    let places: Vec<Option<usize>> = (0..facts.instances.len()).map(place).collect();
    for ((instance, result), slice) in of_label(&[Metric::ScheduleAttempts, Metric::ScheduleAttempt]) {
        let Some(one) = places[instance].map(|place| &mut all[place]) else { continue };
        let count = slice.increase(Metric::ScheduleAttempts, Part::Whole).unwrap_or(0.0);
        if count <= 0.0 {
            continue;
        }
        let intervals = &facts.instances[instance].intervals;
        one.attempts.push(Attempts {
            instance,
            result,
            count,
            per_s: slice.rate(Metric::ScheduleAttempts, Part::Whole),
            led_per_s: led_rate(facts, instance, &slice),
            mean_ms: mean_ms(&slice, Metric::ScheduleAttempt),
            p50_ms: quantile_ms(&slice, Metric::ScheduleAttempt, 0.5),
            p99_ms: quantile_ms(&slice, Metric::ScheduleAttempt, 0.99),
            course: super::counted_course(&slice, Metric::ScheduleAttempts, intervals),
            mean_course: super::mean_course(&slice, Metric::ScheduleAttempt, intervals),
        });
    }
    for ((instance, name), slice) in of_label(&[Metric::ScheduleStage]) {
        let Some(one) = places[instance].map(|place| &mut all[place]) else { continue };
        let share = slice.increase(Metric::ScheduleStage, Part::Sum).unwrap_or(0.0);
        if slice.increase(Metric::ScheduleStage, Part::Count).is_some_and(|count| count > 0.0) {
            one.stages.push(Stage {
                instance,
                name,
                per_s: slice.rate(Metric::ScheduleStage, Part::Count),
                mean_ms: mean_ms(&slice, Metric::ScheduleStage),
                p99_ms: quantile_ms(&slice, Metric::ScheduleStage, 0.99),
                share,
            });
        }
    }
    for one in &mut all {
        let seconds: f64 = one.stages.iter().map(|stage| stage.share).sum();
        one.stages.iter_mut().for_each(|stage| stage.share /= seconds.max(f64::MIN_POSITIVE));
        one.stages.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
        one.attempts.sort_by(|a, b| b.count.total_cmp(&a.count).then_with(|| a.result.cmp(&b.result)));
    }
    all
}

/// Where pods wait.
pub fn waiting(facts: &Facts) -> Vec<Waiting> {
    let elected = leaders::elections(facts);
    let slices = facts.sliced(&[Metric::PendingPods, Metric::ScheduleIncoming], |_, fact| {
        let instance = &facts.instances[fact.instance];
        let lease = elected.iter().find(|(_, one)| one.candidates.contains(&fact.instance));
        let lease = lease.map_or_else(|| instance.name.clone(), |((_, lease), _)| lease.clone());
        Some(((instance.cluster.clone(), lease), facts.text(fact.labels[0]).to_owned()))
    });
    let mut all = Vec::new();
    for (((cluster, lease), queue), slice) in slices {
        // Who does not lead sees pods come and does nothing about them.
        let mut course = Course::default();
        for fact in slice.of(Metric::PendingPods) {
            let led = leaders::led(facts, fact.instance);
            course.levels.extend(
                facts.levels(fact).iter().copied().filter(|(at, _)| led.as_ref().is_none_or(|led| led.contains(at))),
            );
        }
        course.levels.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let pods = course.levels.last().map(|(_, level)| *level);
        let incoming: f64 = slice.of(Metric::ScheduleIncoming).iter().map(|fact| incoming(facts, fact)).sum();
        let of = slice
            .of(Metric::PendingPods)
            .iter()
            .chain(slice.of(Metric::ScheduleIncoming))
            .map(|fact| &facts.instances[fact.instance]);
        let seconds = of.map(|instance| instance.seconds).fold(0.0, f64::max);
        let incoming_per_s =
            (seconds > 0.0 && !slice.of(Metric::ScheduleIncoming).is_empty()).then(|| incoming / seconds);
        all.push(Waiting { cluster, lease, queue, pods, course, incoming_per_s });
    }
    all.sort_by(|a, b| b.course.peak().unwrap_or(0.0).total_cmp(&a.course.peak().unwrap_or(0.0)));
    all
}

/// Attempts each second between pages on which the instance led; `None` where it takes part in no election, or no two
/// pages say so.
fn led_rate(facts: &Facts, instance: usize, slice: &Slice<'_>) -> Option<f64> {
    let led = leaders::led(facts, instance)?;
    let intervals = &facts.instances[instance].intervals;
    let is_led = |(from, to): &Span| led.contains(from) && led.contains(to);
    let seconds = intervals.iter().filter(|own| is_led(own)).map(|(from, to)| (to - from) as f64 / SECOND as f64);
    let courses = slice.of(Metric::ScheduleAttempts).iter().flat_map(|fact| &fact.course);
    let its = courses.filter(|(interval, _)| intervals.get(*interval as usize).is_some_and(is_led));
    let (count, seconds) = (its.map(|(_, count)| count).sum::<f64>(), seconds.sum::<f64>());
    (seconds > 0.0).then(|| count / seconds)
}

/// Pods that came in while the instance led, by the pages behind them.
fn incoming(facts: &Facts, fact: &Fact) -> f64 {
    let instance = &facts.instances[fact.instance];
    let Some(led) = leaders::led(facts, fact.instance) else { return fact.increase };
    // Of one page it is known only whether it leads now.
    if instance.intervals.is_empty() {
        return if led.is_empty() { 0.0 } else { fact.increase };
    }
    let is_led = |interval: u32| instance.intervals.get(interval as usize).is_some_and(|(_, to)| led.contains(to));
    fact.course.iter().filter(|(interval, _)| is_led(*interval)).map(|(_, difference)| difference).sum()
}

/// From a pod's first being seen to its binding, over all attempts and schedulers: mean, and 99th percentile (ms).
pub fn placed_ms(facts: &Facts) -> (Option<f64>, Option<f64>) {
    let sum = facts.increase_of(Metric::ScheduleSli, Part::Sum, |_| true);
    let count = facts.increase_of(Metric::ScheduleSli, Part::Count, |_| true).filter(|count| *count > 0.0);
    let p99 = facts.buckets_of(Metric::ScheduleSli, |_| true).quantile(0.99);
    (sum.zip(count).map(|(sum, count)| sum / count * 1e3), p99.map(|seconds| seconds * 1e3))
}
