//! What metrics pages and cgroups say of the parts of a control plane beside requests: how fast etcd and webhooks
//! answer, how long requests queue, how full things are, when processes started, when pages could not be had.

use crate::analysis::memory::account::Account;
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::{Component, Fact, Facts, Instance};
use crate::model::memory::Sample;
use crate::model::time::{self, Micros, SECOND, Span};
use std::collections::BTreeMap;

/// A process that started so soon behind the first page is not known to have been another before.
const FIRST: Micros = 30 * SECOND;
/// Pages that lie apart by so many times what most do were not to be had in between.
const GAP_TIMES: f64 = 1.8;

/// A member of etcd that defragments for so long keeps others waiting, s.
pub const BLOCKED_S: f64 = 1.0;

/// What is measured. Times in seconds, memory and sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vital {
    /// Mean time of apiservers' requests to etcd.
    EtcdRequest,
    /// Mean time in which etcd commits.
    EtcdCommit,
    /// Mean time in which etcd writes to its log.
    EtcdFsync,
    /// Mean time in which etcd defragments, and answers nothing.
    EtcdDefragmentation,
    /// Whether a member of etcd has a leader: 1 or 0.
    EtcdLeader,
    /// Changes of etcd's leader, a second.
    EtcdLeaderChanges,
    /// Mean time of an admission webhook.
    Webhook,
    /// Requests that a webhook let through because it failed, a second.
    FailedOpen,
    /// Requests that failed because a webhook could not be asked, a second.
    WebhookErrors,
    /// Mean time that requests wait in the queues of priority and fairness.
    QueueWait,
    /// Requests that priority and fairness rejects, a second.
    Rejected,
    /// Memory of a process.
    Resident,
    /// Memory of a cgroup, as a part of its limit.
    CgroupFill,
    /// Processes of a cgroup that the kernel killed for want of memory, in the interval.
    OomKills,
    /// Size of etcd's database.
    DatabaseSize,
    /// Size of etcd's database, as a part of its quota.
    DatabaseFill,
    /// Changes of objects that etcd reports to an apiserver's watch caches, a second.
    StoreChanges,
    /// Whether an API that other servers answer (an APIService) is unavailable: 1 or 0.
    UnavailableApi,
    /// Seconds in which no page was to be had.
    Unreachable,
}

/// A measurement between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// From when until when.
    pub span: Span,
    pub value: f64,
    /// How many events it is the mean of; 1 of a gauge.
    pub count: f64,
}

/// One of the vitals of one process, webhook or cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    pub vital: Vital,
    /// Of which instance or cgroup.
    pub instance: String,
    /// Which webhook, operation or APIService; empty of the others.
    pub name: String,
    /// In order of time.
    pub points: Vec<Point>,
}

/// A process that took another's place.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// When.
    pub at: Micros,
    pub component: Component,
    pub instance: String,
    /// When the last page of the process before it was taken.
    pub seen: Option<Micros>,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vitals {
    /// Measurements.
    pub courses: Vec<Course>,
    /// Processes that started.
    pub starts: Vec<Start>,
    /// When the last of the apiservers' processes started, in µs; `None` where a page does not say.
    pub up_since: Option<Micros>,
}

impl Vitals {
    /// From pages and samples of cgroups.
    pub fn new(facts: &Facts, memory: &[(String, Vec<Sample>)]) -> Self {
        let mut all = Self { courses: Vec::new(), starts: starts(facts), up_since: up_since(facts) };
        for (metric, vital) in [
            (Metric::EtcdRequests, Vital::EtcdRequest),
            (Metric::EtcdCommit, Vital::EtcdCommit),
            (Metric::EtcdWalFsync, Vital::EtcdFsync),
            (Metric::EtcdDefragmentation, Vital::EtcdDefragmentation),
            (Metric::WebhookDuration, Vital::Webhook),
            (Metric::FlowWait, Vital::QueueWait),
        ] {
            all.courses.extend(means(facts, metric, vital));
        }
        for (metric, vital) in [
            (Metric::FlowRejected, Vital::Rejected),
            (Metric::WebhookFailOpen, Vital::FailedOpen),
            (Metric::WebhookRejections, Vital::WebhookErrors),
            (Metric::EtcdLeaderChanges, Vital::EtcdLeaderChanges),
            (Metric::CacheEvents, Vital::StoreChanges),
        ] {
            all.courses.extend(rates(facts, metric, vital));
        }
        for (metric, vital) in [
            (Metric::EtcdHasLeader, Vital::EtcdLeader),
            (Metric::ProcessResident, Vital::Resident),
            (Metric::EtcdDbSize, Vital::DatabaseSize),
            (Metric::UnavailableApis, Vital::UnavailableApi),
        ] {
            all.courses.extend(levels(facts, metric, vital));
        }
        all.courses.extend(fills(facts));
        all.courses.extend(facts.instances.iter().filter_map(unreachable));
        all.courses.extend(memory.iter().flat_map(|(name, samples)| cgroup(name, samples)));
        all.courses.retain(|course| !course.points.is_empty());
        all
    }

    /// The courses of one of the vitals.
    pub fn of(&self, vital: Vital) -> impl Iterator<Item = &Course> {
        self.courses.iter().filter(move |course| course.vital == vital)
    }

    /// Apiservers that started within a time.
    pub fn apiserver_starts(&self, (from, to): Span) -> impl Iterator<Item = &Start> {
        let is_its = move |start: &&Start| start.component == Component::Apiserver && (from..to).contains(&start.at);
        self.starts.iter().filter(is_its)
    }

    /// When pages of the instances of a component could not be had, by instance.
    pub fn unreachable(&self, component: Component) -> impl Iterator<Item = &Course> {
        self.of(Vital::Unreachable).filter(move |course| course.name == component.name())
    }

    /// When no page of a process could be had before it started.
    pub fn gone_before(&self, start: &Start) -> Option<Span> {
        let own = self.of(Vital::Unreachable).filter(|course| course.instance == start.instance);
        let mut gaps = own.flat_map(|course| &course.points).map(|point| point.span);
        // Processes say when they started to within a part of a second.
        gaps.find(|gap| (gap.0..=gap.1 + SECOND).contains(&start.at))
    }

    /// The mean of a vital over a time, over all courses that `accept` takes, and of how many events; points count by
    /// the part of them that lies within. `None` where there is no point.
    pub fn mean(&self, vital: Vital, (from, to): Span, accept: impl Fn(&Course) -> bool) -> Option<(f64, f64)> {
        let (mut sum, mut count) = (0.0, 0.0);
        for point in self.of(vital).filter(|course| accept(course)).flat_map(|course| &course.points) {
            let within = (point.span.1.min(to) - point.span.0.max(from)) as f64;
            let part = (within / (point.span.1 - point.span.0).max(1) as f64).clamp(0.0, 1.0);
            // A gauge is of a moment.
            let part = if point.span.0 == point.span.1 && (from..to).contains(&point.span.0) { 1.0 } else { part };
            (sum, count) = (sum + point.value * point.count * part, count + point.count * part);
        }
        (count > 0.0).then(|| (sum / count, count))
    }

    /// The highest value of a vital over a time.
    pub fn highest(&self, vital: Vital, (from, to): Span) -> Option<f64> {
        let points = self.of(vital).flat_map(|course| &course.points);
        points.filter(|point| point.span.0 < to && point.span.1 >= from).map(|point| point.value).max_by(f64::total_cmp)
    }
}

/// Processes that took another's place.
pub fn starts(facts: &Facts) -> Vec<Start> {
    let first = facts.instances.iter().map(|instance| instance.from).min().unwrap_or_default();
    let started = facts.instances.iter().flat_map(|own| {
        let all = if own.restarts > 0 { own.starts.as_slice() } else { own.start.as_slice() };
        let all = all.iter().copied().map(time::of_seconds);
        let is_new = move |at: &Micros| own.restarts > 0 || own.pages > 0 && *at > first + FIRST && *at < own.to;
        // Intervals lie between pages, and those of a process end with its last one.
        let seen = |at| own.intervals.iter().flat_map(|span| [span.0, span.1]).filter(|page| *page < at).max();
        all.filter(is_new).map(move |at| Start {
            at,
            component: own.component,
            instance: own.name.clone(),
            seen: seen(at),
        })
    });
    started.collect()
}

/// When the last of the apiservers' processes started; `None` where one does not say.
fn up_since(facts: &Facts) -> Option<Micros> {
    let all: Option<Vec<f64>> = facts.instances_of(Component::Apiserver).map(|own| own.start).collect();
    all?.into_iter().max_by(f64::total_cmp).map(time::of_seconds)
}

/// Sums by instance and name, each by interval.
type ByName = BTreeMap<(usize, String), BTreeMap<u32, f64>>;

/// Webhooks and APIs have names; levels of priority and fairness are taken together.
fn name<'f>(facts: &'f Facts, metric: Metric, fact: &Fact) -> &'f str {
    match metric {
        Metric::WebhookDuration | Metric::WebhookFailOpen | Metric::WebhookRejections | Metric::UnavailableApis => {
            fact.labels.first().map_or("", |label| facts.text(*label))
        }
        _ => "",
    }
}

fn by_name<'f>(facts: &'f Facts, metric: Metric, accept: impl Fn(&Fact) -> bool + 'f) -> ByName {
    let mut all = ByName::new();
    for fact in facts.of(metric).iter().filter(|fact| accept(fact)) {
        let own = all.entry((fact.instance, name(facts, metric, fact).to_owned())).or_default();
        for (interval, difference) in &fact.course {
            *own.entry(*interval).or_default() += difference;
        }
    }
    all
}

fn course(facts: &Facts, vital: Vital, (instance, name): (usize, String), points: Vec<Point>) -> Course {
    let instance = facts.instances.get(instance).map_or_else(String::new, |own| own.name.clone());
    Course { vital, instance, name, points }
}

fn span_of(facts: &Facts, instance: usize, interval: u32) -> Option<Span> {
    facts.instances.get(instance)?.intervals.get(interval as usize).copied().filter(|span| span.0 < span.1)
}

fn means(facts: &Facts, metric: Metric, vital: Vital) -> Vec<Course> {
    let sums = by_name(facts, metric, |fact| fact.part == Part::Sum);
    let counts = by_name(facts, metric, |fact| fact.part == Part::Count);
    let of = |(key, counts): ((usize, String), BTreeMap<u32, f64>)| {
        let sums = sums.get(&key)?;
        let points = counts.into_iter().filter(|own| own.1 > 0.0).filter_map(|(interval, count)| {
            let value = sums.get(&interval).copied().unwrap_or(0.0) / count;
            Some(Point { span: span_of(facts, key.0, interval)?, value, count })
        });
        let points = points.collect();
        Some(course(facts, vital, key, points))
    };
    counts.into_iter().filter_map(of).collect()
}

fn rates(facts: &Facts, metric: Metric, vital: Vital) -> Vec<Course> {
    let is_error = |fact: &Fact| {
        let error = fact.labels.get(3).map_or("", |label| facts.text(*label));
        metric != Metric::WebhookRejections || matches!(error, "calling_webhook_error" | "apiserver_internal_error")
    };
    let of = |(key, own): ((usize, String), BTreeMap<u32, f64>)| {
        let points = own.into_iter().filter_map(|(interval, difference)| {
            let span = span_of(facts, key.0, interval)?;
            let seconds = (span.1 - span.0) as f64 / SECOND as f64;
            Some(Point { span, value: difference / seconds, count: seconds })
        });
        let points = points.collect();
        course(facts, vital, key, points)
    };
    by_name(facts, metric, is_error).into_iter().map(of).collect()
}

fn levels(facts: &Facts, metric: Metric, vital: Vital) -> Vec<Course> {
    let mut all: BTreeMap<(usize, &str), BTreeMap<Micros, f64>> = BTreeMap::new();
    for fact in facts.of(metric) {
        for (at, value) in facts.levels(fact) {
            *all.entry((fact.instance, name(facts, metric, fact))).or_default().entry(*at).or_default() += value;
        }
    }
    let of = |((instance, name), values): ((usize, &str), BTreeMap<Micros, f64>)| {
        let points = values.into_iter().map(|(at, value)| Point { span: (at, at), value, count: 1.0 }).collect();
        course(facts, vital, (instance, name.to_owned()), points)
    };
    all.into_iter().map(of).collect()
}

/// How full databases are, of members that say how large theirs may be.
fn fills(facts: &Facts) -> Vec<Course> {
    let mut all = levels(facts, Metric::EtcdDbSize, Vital::DatabaseFill);
    let quotas: BTreeMap<&str, f64> = facts
        .of(Metric::EtcdQuota)
        .iter()
        .filter_map(|fact| {
            Some((facts.instances.get(fact.instance)?.name.as_str(), fact.last.filter(|own| *own > 0.0)?))
        })
        .collect();
    for own in &mut all {
        match quotas.get(own.instance.as_str()) {
            Some(quota) => own.points.iter_mut().for_each(|point| point.value /= quota),
            None => own.points.clear(),
        }
    }
    all
}

/// When pages of an instance could not be had: they lie much farther apart than others of it.
fn unreachable(own: &Instance) -> Option<Course> {
    let mut lengths: Vec<Micros> = own.intervals.iter().map(|(from, to)| to - from).collect();
    lengths.sort_unstable();
    let usual = *lengths.get(lengths.len() / 2)?;
    // Between the last page of a process and the start of the next one nothing is counted.
    let between = own.intervals.windows(2).map(|pair| (pair[0].1, pair[1].0));
    let gaps = own.intervals.iter().copied().chain(between);
    let gaps = gaps.filter(|(from, to)| (to - from) as f64 > GAP_TIMES * usual as f64);
    let point = |(from, to): Span| {
        let span = (from + usual, to);
        Point { span, value: (span.1 - span.0) as f64 / SECOND as f64, count: 1.0 }
    };
    let points: Vec<Point> = gaps.map(point).collect();
    Some(Course {
        vital: Vital::Unreachable,
        instance: own.name.clone(),
        name: own.component.name().to_owned(),
        points,
    })
}

fn cgroup(name: &str, samples: &[Sample]) -> [Course; 2] {
    let fill = samples.iter().filter_map(|sample| {
        let value = Account::of(sample, None).fill()?;
        Some(Point { span: (sample.at, sample.at), value, count: 1.0 })
    });
    let kills = samples.windows(2).filter_map(|pair| {
        let value = kills(&pair[1])?.saturating_sub(kills(&pair[0])?) as f64;
        (value > 0.0).then_some(Point { span: (pair[0].at, pair[1].at), value, count: 1.0 })
    });
    let course =
        |vital: Vital, points: Vec<Point>| Course { vital, instance: name.to_owned(), name: String::new(), points };
    [course(Vital::CgroupFill, fill.collect()), course(Vital::OomKills, kills.collect())]
}

/// How many processes of a group were killed for want of memory.
pub fn kills(sample: &Sample) -> Option<u64> {
    sample.table("memory.events", "oom_kill").or_else(|| sample.table("memory.oom_control", "oom_kill"))
}
