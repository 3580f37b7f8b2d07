//! What the pages of all folders come to: instances, and what each metric did on each of them.
//! (Rules: docs/metrics.md, sections 1, 2 and 7.)

use super::catalogue::{Metric, Part};
use super::fold::{Fold, Process, START_SLACK};
use super::names::verb_of;
use super::series::{Retention, SeriesTable};
use crate::model::symbols::{Symbol, Symbols};
use crate::model::time::{Micros, SECOND};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What runs in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// kube-apiserver.
    Apiserver,
    Etcd,
    /// kube-scheduler.
    Scheduler,
    /// kube-controller-manager.
    ControllerManager,
    /// Anything else.
    Other,
}

impl Component {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apiserver => "apiserver",
            Self::Etcd => "etcd",
            Self::Scheduler => "scheduler",
            Self::ControllerManager => "controller-manager",
            Self::Other => "other",
        }
    }

    /// Whether it serves the API, or keeps what it serves.
    pub fn is_store(self) -> bool {
        matches!(self, Self::Apiserver | Self::Etcd)
    }
}

/// One instance: a process, and those that took its place.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The cluster, if known.
    pub cluster: String,
    pub name: String,
    pub component: Component,
    /// Its version, if a page shows.
    pub version: String,
    /// Unix seconds at which its last process started.
    pub start: Option<f64>,
    /// The same of all processes that took another's place, in order.
    pub starts: Vec<f64>,
    /// How often a process took another's place.
    pub restarts: u64,
    /// How many pages.
    pub pages: u64,
    /// When counting begins.
    pub from: Micros,
    /// When the last page was taken.
    pub to: Micros,
    /// Whether its numbers are those since its process started.
    pub since_start: bool,
    /// The time that its increases took; 0 where that is not known.
    pub seconds: f64,
    /// Times between which differences were taken.
    pub intervals: Vec<(Micros, Micros)>,
}

impl Instance {
    /// What it is called in a sentence: its name, else what it is. Numbers distinguish several processes behind one
    /// address.
    pub fn called(&self) -> Cow<'_, str> {
        let of_kind = if self.component == Component::Other { "process" } else { self.component.name() };
        match self.name.as_str() {
            "" if self.component == Component::Other => Cow::Borrowed("the process"),
            "" => Cow::Borrowed(of_kind),
            name if name.starts_with('#') => Cow::Owned(format!("{of_kind}{name}")),
            name => Cow::Borrowed(name),
        }
    }

    /// Whether it is known to be older than Kubernetes 1.`minor`.
    pub fn is_before(&self, minor: u32) -> bool {
        let digits = self.version.strip_prefix("v1.").and_then(|rest| rest.split(['.', '+', '-']).next());
        digits.and_then(|digits| digits.parse().ok()).is_some_and(|own: u32| own < minor)
    }
}

/// What one series of a metric did on one instance.
#[derive(Debug, Clone)]
pub struct Fact {
    /// Index of the instance.
    pub instance: usize,
    /// The part of a histogram.
    pub part: Part,
    /// Values of the labels that the catalogue keeps, in its order.
    pub labels: Box<[Symbol]>,
    /// Of a bucket: its upper bound.
    pub bound: f64,
    /// How much a counter rose.
    pub increase: f64,
    /// The value on the instance's last page, if that has the series.
    pub last: Option<f64>,
    /// Differences by interval of the instance, where they are kept.
    pub course: Box<[(u32, f64)]>,
    /// Where [`Facts`] keeps the values of a gauge by page; 0 where they are not kept. Few facts have any, and there
    /// are many facts.
    levels: u32,
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The instances, by cluster and name.
    pub instances: Vec<Instance>,
    facts: BTreeMap<Metric, Vec<Fact>>,
    levels: Vec<Box<[(Micros, f64)]>>,
    symbols: Symbols,
    /// Pages that hold nothing that is known.
    pub unknown_pages: u64,
    /// Pages of more processes than are distinguished.
    pub left_out_pages: u64,
    /// Samples of more series than are distinguished.
    pub dropped_samples: u64,
}

/// What was made of a folder's pages.
#[derive(Debug, Clone, Copy)]
pub struct Folded<'f> {
    /// The cluster, if known.
    pub cluster: &'f str,
    /// What the folder is called.
    pub name: &'f str,
    /// The series of the folder.
    pub table: &'f SeriesTable,
    /// The pages.
    pub fold: &'f Fold,
}

impl Folded<'_> {
    /// Whether pages of an apiserver were among them.
    fn is_apiserver(&self) -> bool {
        let counts = |process: &Process, n: usize| process.values.get(n).is_some_and(|value| !value.is_nan());
        let is_met = |n: usize| self.fold.processes.iter().any(|process| counts(process, n));
        self.table.series.iter().zip(0..).any(|(series, n)| series.entry.metric == Metric::Requests && is_met(n))
    }
}

impl Facts {
    /// Puts folders together.
    pub fn new(folders: &[Folded<'_>]) -> Self {
        let mut facts = Self::default();
        // Of apiservers, and of all else: whether no folder has more than one page of an instance.
        let mut single = [true; 2];
        for folded in folders {
            let is_one = folded.fold.processes.iter().all(|process| process.pages == 1 && !process.from_zero);
            // Two pages with a restart between them are no single pages.
            single[usize::from(folded.is_apiserver())] &=
                is_one && instances("", "", folded.fold, true).iter().all(|(instance, _)| instance.restarts == 0);
        }
        for folded in folders {
            let Folded { cluster, name, table, fold } = *folded;
            facts.unknown_pages += fold.unknown;
            facts.left_out_pages += fold.left_out;
            facts.dropped_samples += fold.dropped;
            for (instance, processes) in instances(cluster, name, fold, single[usize::from(folded.is_apiserver())]) {
                let number = facts.instances.len();
                facts.add_instance((table, fold.kept), number, &instance, &processes);
                facts.instances.push(instance);
            }
        }
        facts.settle();
        facts
    }

    /// Adds the facts of one instance's processes: of a metric that was met under several names those of the newest.
    fn add_instance(
        &mut self,
        (table, kept): (&SeriesTable, Retention),
        number: usize,
        instance: &Instance,
        processes: &[&Process],
    ) {
        let is_met = |n: usize| processes.iter().any(|own| own.values.get(n).is_some_and(|value| !value.is_nan()));
        let mut newest: BTreeMap<Metric, u8> = BTreeMap::new();
        for (_, series) in table.series.iter().enumerate().filter(|(n, _)| is_met(*n)) {
            let age = newest.entry(series.entry.metric).or_insert(series.entry.age);
            *age = series.entry.age.min(*age);
        }
        // Buckets that the last page lacks, by metric.
        let mut cut: BTreeMap<Metric, Vec<usize>> = BTreeMap::new();
        for (n, series) in table.series.iter().enumerate() {
            if newest.get(&series.entry.metric) != Some(&series.entry.age) {
                continue;
            }
            let mut is_cut = false;
            let mut fact: Option<Fact> = None;
            let (mut course, mut levels) = (Vec::new(), Vec::new());
            let mut offset = 0;
            for (place, process) in processes.iter().enumerate() {
                let is_last = place + 1 == processes.len();
                let has_gap = gap(processes, place).is_some();
                offset += u32::from(has_gap);
                if let Some(&value) = process.values.get(n).filter(|value| !value.is_nan()) {
                    let fact = fact.get_or_insert_with(|| Fact {
                        instance: number,
                        part: series.part,
                        labels: series
                            .labels
                            .iter()
                            .map(|label| self.symbols.intern(table.symbols.get(*label)))
                            .collect(),
                        bound: series.bound,
                        increase: 0.0,
                        last: None,
                        course: Box::default(),
                        levels: 0,
                    });
                    let scale =
                        if series.part == Part::Sum || series.part == Part::Whole { series.entry.scale } else { 1.0 };
                    let increase =
                        if instance.since_start && series.is_counter() { value } else { process.increases[n] };
                    let before = process.baseline.get(&(n as u32)).copied().filter(|_| has_gap).unwrap_or(0.0);
                    fact.increase += (increase + before) * scale;
                    if before > 0.0 && series.is_timed(kept) {
                        course.push((offset - 1, before));
                    }
                    let is_on_page = process.seen[n] == process.pages;
                    if is_last && is_on_page {
                        fact.last = Some(value * scale);
                    }
                    is_cut |= is_last && !is_on_page && series.part == Part::Bucket;
                    let timed = process.courses.get(&(n as u32)).into_iter().flatten();
                    course.extend(timed.map(|(interval, difference)| (interval + offset, *difference)));
                    levels.extend(
                        process.levels.get(&(n as u32)).into_iter().flatten().map(|(at, level)| (*at, level * scale)),
                    );
                }
                offset += process.intervals.len() as u32;
            }
            if let Some(mut fact) = fact {
                fact.course = course.into();
                if !levels.is_empty() {
                    self.levels.push(levels.into());
                    fact.levels = u32::try_from(self.levels.len()).unwrap_or_default();
                }
                let facts = self.facts.entry(series.entry.metric).or_default();
                if is_cut {
                    cut.entry(series.entry.metric).or_default().push(facts.len());
                }
                facts.push(fact);
            }
        }
        for (metric, cut) in cut {
            mend_histograms(self.facts.entry(metric).or_default(), number, &cut);
        }
    }

    /// What instances are is known only now.
    fn settle(&mut self) {
        let of = |metric: Metric| self.facts.get(&metric).into_iter().flatten();
        let mut components = vec![(Component::Other, String::new()); self.instances.len()];
        for fact in of(Metric::PendingPods) {
            components[fact.instance].0 = Component::Scheduler;
        }
        // Who would lead is taken from those too that don't.
        for (fact, name) in of(Metric::LeaderStatus)
            .map(|fact| (fact, self.symbols.get(fact.labels[0])))
            .chain(of(Metric::ManagedControllers).map(|fact| (fact, self.symbols.get(fact.labels[1]))))
        {
            match name {
                "kube-controller-manager" => components[fact.instance].0 = Component::ControllerManager,
                "kube-scheduler" => components[fact.instance].0 = Component::Scheduler,
                _ => {}
            }
        }
        for fact in of(Metric::Requests).chain(of(Metric::StorageObjects)).chain(of(Metric::Inflight)) {
            components[fact.instance].0 = Component::Apiserver;
        }
        for fact in of(Metric::EtcdHasLeader).chain(of(Metric::EtcdQuota)) {
            components[fact.instance].0 = Component::Etcd;
        }
        for fact in of(Metric::BuildInfo).chain(of(Metric::EtcdVersion)).filter(|fact| fact.last.is_some()) {
            components[fact.instance].1 = self.symbols.get(fact.labels[0]).to_owned();
        }
        for (instance, (component, version)) in self.instances.iter_mut().zip(components) {
            (instance.component, instance.version) = (component, version);
        }
    }

    /// The facts of a metric.
    pub fn of(&self, metric: Metric) -> &[Fact] {
        self.facts.get(&metric).map_or(&[], Vec::as_slice)
    }

    /// Requests that failed as they were passed on to aggregated APIs. Of what apiservers pass on they count nothing
    /// else.
    pub fn failed_at_aggregated_apis(&self) -> impl Iterator<Item = &Fact> {
        self.of(Metric::Terminations).iter().filter(|fact| self.text(fact.labels[6]) == "aggregator")
    }

    /// Requests that were refused before it was known what they ask for.
    pub fn unauthenticated(&self) -> impl Iterator<Item = &Fact> {
        self.of(Metric::AuthenticationAttempts).iter().filter(|fact| self.text(fact.labels[0]) != "success")
    }

    /// Values of a gauge by page; empty where they are not kept.
    pub fn levels(&self, fact: &Fact) -> &[(Micros, f64)] {
        let place = (fact.levels as usize).checked_sub(1);
        place.and_then(|place| self.levels.get(place)).map_or(&[], |levels| &**levels)
    }

    /// Whether any page had the metric.
    pub fn has(&self, metric: Metric) -> bool {
        self.facts.contains_key(&metric)
    }

    /// A label's text.
    pub fn text(&self, label: Symbol) -> &str {
        self.symbols.get(label)
    }

    /// The rate of a fact on its instance.
    pub fn rate(&self, fact: &Fact) -> f64 {
        let seconds = self.instances[fact.instance].seconds;
        if seconds > 0.0 { fact.increase / seconds } else { f64::NAN }
    }

    /// Sum of the rates of a metric's facts that `accept` takes; `None` if no page has the metric, or no time is known.
    pub fn rate_of(&self, metric: Metric, part: Part, accept: impl Fn(&Fact) -> bool) -> Option<f64> {
        let facts = self.facts.get(&metric)?;
        if facts.iter().all(|fact| self.rate(fact).is_nan()) {
            return None;
        }
        let sum: f64 = facts.iter().filter(|fact| fact.part == part && accept(fact)).map(|fact| self.rate(fact)).sum();
        sum.is_finite().then_some(sum)
    }

    /// Sum of the increases.
    pub fn increase_of(&self, metric: Metric, part: Part, accept: impl Fn(&Fact) -> bool) -> Option<f64> {
        let facts = self.facts.get(&metric)?;
        Some(facts.iter().filter(|fact| fact.part == part && accept(fact)).map(|fact| fact.increase).sum())
    }

    /// Sum of the last values; `None` if no last page has any.
    pub fn last_of(&self, metric: Metric, accept: impl Fn(&Fact) -> bool) -> Option<f64> {
        let mut values = self.of(metric).iter().filter(|fact| accept(fact)).filter_map(|fact| fact.last).peekable();
        values.peek()?;
        Some(values.sum())
    }

    /// The largest of the last values; `None` if no last page has any.
    pub fn largest_of(&self, metric: Metric, accept: impl Fn(&Fact) -> bool) -> Option<f64> {
        self.of(metric).iter().filter(|fact| accept(fact)).filter_map(|fact| fact.last).max_by(f64::total_cmp)
    }

    /// The buckets of a histogram's facts that `accept` takes, added by bound.
    pub fn buckets_of(&self, metric: Metric, accept: impl Fn(&Fact) -> bool) -> super::quantile::Buckets {
        let facts = self.of(metric).iter().filter(|fact| fact.part == Part::Bucket && accept(fact));
        facts.map(|fact| (fact.bound, fact.increase)).collect()
    }

    /// Requests of an instance: verb (as audit logs call it), resource, subresource, and differences by interval.
    pub fn requests_of(&self, instance: usize) -> impl Iterator<Item = (Cow<'_, str>, &str, &str, &[(u32, f64)])> {
        let label = |fact: &'_ Fact, at: usize| self.symbols.get(fact.labels[at]);
        let facts = self.of(Metric::Requests).iter().filter(move |fact| fact.instance == instance);
        facts.map(move |fact| (verb(self, fact), label(fact, 3), label(fact, 4), &*fact.course))
    }

    /// The same by verb and code.
    pub fn codes_of(&self, instance: usize) -> impl Iterator<Item = (Cow<'_, str>, &str, &[(u32, f64)])> {
        let facts = self.of(Metric::Requests).iter().filter(move |fact| fact.instance == instance);
        facts.map(move |fact| (verb(self, fact), self.symbols.get(fact.labels[7]), &*fact.course))
    }

    /// Whether any page had counts of requests.
    pub fn has_requests(&self) -> bool {
        self.has(Metric::Requests)
    }

    /// Whether any page is of etcd or of an apiserver.
    pub fn has_store(&self) -> bool {
        self.instances.iter().any(|instance| instance.component.is_store())
    }

    /// When the last page was taken.
    pub fn last(&self) -> Micros {
        self.instances.iter().map(|instance| instance.to).max().unwrap_or_default()
    }

    /// From the first page to the last.
    pub fn span(&self) -> Micros {
        self.last() - self.instances.iter().map(|instance| instance.from).min().unwrap_or_default()
    }

    /// Instances of a component.
    pub fn instances_of(&self, component: Component) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(move |instance| instance.component == component)
    }
}

/// Mends the histograms of one metric on one instance of which the last page lacks the buckets at `cut`, so that what
/// is known of these ends earlier than what is known of the rest: each bucket holds at least what the one below it
/// holds, from the page on that lacked it too. Where all bounds are lacking, nothing is known of how the observations
/// lie, and the buckets are left out.
fn mend_histograms(facts: &mut Vec<Fact>, instance: usize, cut: &[usize]) {
    let mut histograms: BTreeMap<Box<[Symbol]>, Vec<usize>> =
        cut.iter().map(|at| (facts[*at].labels.clone(), Vec::new())).collect();
    for (at, fact) in facts.iter().enumerate().filter(|(_, fact)| fact.instance == instance) {
        if fact.part == Part::Bucket
            && let Some(own) = histograms.get_mut(&fact.labels)
        {
            own.push(at);
        }
    }
    let mut unknown = Vec::new();
    for mut buckets in histograms.into_values() {
        let is_there = |at: &usize| facts[*at].last.is_some();
        if !buckets.iter().any(is_there) {
            continue;
        }
        if !buckets.iter().any(|at| is_there(at) && facts[*at].bound.is_finite()) {
            unknown.extend(buckets);
            continue;
        }
        buckets.sort_by(|a, b| facts[*a].bound.total_cmp(&facts[*b].bound));
        let mut below: Option<usize> = None;
        for at in buckets {
            if let Some(below) = below.filter(|_| facts[at].last.is_none()) {
                let known = facts[at].course.last().map_or(0, |(interval, _)| interval + 1);
                let rest = facts[below].course.iter().filter(|(interval, _)| *interval >= known);
                facts[at].course = facts[at].course.iter().chain(rest).copied().collect();
                facts[at].increase = facts[at].increase.max(facts[below].increase);
            }
            below = Some(at);
        }
    }
    unknown.sort_unstable();
    for at in unknown.into_iter().rev() {
        facts.remove(at);
    }
}

/// The time before the first page of a process that takes another's place without being known to have counted from 0:
/// it did.
fn gap(lane: &[&Process], at: usize) -> Option<(Micros, Micros)> {
    let process = lane[at];
    (at > 0 && !process.baseline.is_empty()).then(|| (lane[at - 1].last, process.first))
}

/// Some of the facts, such as those of one resource: found once, so that tables of many rows do not look through all of
/// them for each.
#[derive(Debug)]
pub struct Slice<'f> {
    all: &'f Facts,
    facts: BTreeMap<Metric, Vec<&'f Fact>>,
}

impl Facts {
    /// The facts of some metrics, by what `key` makes of each; without those of which it makes nothing.
    pub fn sliced<K: Ord>(
        &self,
        metrics: &[Metric],
        key: impl Fn(Metric, &Fact) -> Option<K>,
    ) -> BTreeMap<K, Slice<'_>> {
        let mut slices = BTreeMap::new();
        for &metric in metrics {
            for fact in self.of(metric) {
                if let Some(key) = key(metric, fact) {
                    let slice = slices.entry(key).or_insert_with(|| Slice { all: self, facts: BTreeMap::new() });
                    slice.facts.entry(metric).or_default().push(fact);
                }
            }
        }
        slices
    }
}

impl<'f> Slice<'f> {
    /// The facts of a metric.
    pub fn of(&self, metric: Metric) -> &[&'f Fact] {
        self.facts.get(&metric).map_or(&[], Vec::as_slice)
    }

    fn parts(&self, metric: Metric, part: Part) -> impl Iterator<Item = &'f Fact> {
        self.of(metric).iter().copied().filter(move |fact| fact.part == part)
    }

    /// As [`Facts::rate_of`].
    pub fn rate(&self, metric: Metric, part: Part) -> Option<f64> {
        let all = self.all.of(metric);
        let is_timed = all.iter().any(|fact| !self.all.rate(fact).is_nan());
        let sum: f64 = self.parts(metric, part).map(|fact| self.all.rate(fact)).sum();
        (is_timed && sum.is_finite()).then_some(sum)
    }

    /// As [`Facts::increase_of`].
    pub fn increase(&self, metric: Metric, part: Part) -> Option<f64> {
        self.all.has(metric).then(|| self.parts(metric, part).map(|fact| fact.increase).sum())
    }

    /// As [`Facts::last_of`].
    pub fn last(&self, metric: Metric) -> Option<f64> {
        let mut values = self.of(metric).iter().filter_map(|fact| fact.last).peekable();
        values.peek()?;
        Some(values.sum())
    }

    /// As [`Facts::buckets_of`].
    pub fn buckets(&self, metric: Metric) -> super::quantile::Buckets {
        self.parts(metric, Part::Bucket).map(|fact| (fact.bound, fact.increase)).collect()
    }
}

/// The instances behind a folder's pages, each with its processes in order.
/// `since_start`: whether their numbers are those since their processes started.
fn instances<'f>(cluster: &str, name: &str, fold: &'f Fold, since_start: bool) -> Vec<(Instance, Vec<&'f Process>)> {
    let mut processes: Vec<&Process> = fold.processes.iter().collect();
    processes.sort_by_key(|process| (process.began(), process.first));
    let mut lanes: Vec<Vec<&Process>> = Vec::new();
    for process in processes {
        // It takes the place of the process that was seen last before it began.
        let slack = (START_SLACK * 1e6) as Micros;
        let ended =
            |lane: &[&Process]| lane.last().map(|last| last.last).filter(|last| *last < process.began() + slack);
        let is_other = |lane: &[&Process]| {
            lane.last().and_then(|last| last.stands_for).zip(process.stands_for).is_some_and(|(a, b)| a != b)
        };
        let place =
            (0..lanes.len()).filter(|at| !is_other(&lanes[*at])).filter_map(|at| Some((ended(&lanes[at])?, at))).max();
        match place {
            Some((_, at)) => lanes[at].push(process),
            None => lanes.push(vec![process]),
        }
    }
    let several = lanes.len() > 1;
    let instance = |(number, lane): (usize, Vec<&'f Process>)| {
        let (first, last) = (lane[0], lane[lane.len() - 1]);
        let from = if first.from_zero || since_start { first.began() } else { first.first };
        let instance = Instance {
            cluster: cluster.to_owned(),
            name: if several { format!("{name}#{}", number + 1) } else { name.to_owned() },
            component: Component::Other,
            version: String::new(),
            start: last.start,
            starts: lane[1..].iter().filter_map(|process| process.start).collect(),
            restarts: lane.len() as u64 - 1,
            pages: lane.iter().map(|process| process.pages).sum(),
            from,
            to: last.last,
            since_start,
            seconds: (last.last - from) as f64 / SECOND as f64,
            intervals: (0..lane.len())
                .flat_map(|at| gap(&lane, at).into_iter().chain(lane[at].intervals.iter().copied()))
                .collect(),
        };
        (instance, lane)
    };
    lanes.into_iter().enumerate().map(instance).collect()
}

/// The verb of a fact of a request metric, as audit logs call it.
pub(in crate::analysis) fn verb<'f>(facts: &'f Facts, fact: &Fact) -> Cow<'f, str> {
    let label = |at: usize| facts.text(fact.labels[at]);
    verb_of(label(0), label(3), label(5), facts.instances[fact.instance].is_before(20))
}
