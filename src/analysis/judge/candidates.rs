//! What may have caused an episode: every candidate is examined, and each of its features is a number that speaks for it
//! or against it. (Definitions and weights: docs/judge.md.)

use super::episodes::Draft;
use super::profile::{Count, Profile};
use super::requests::{Caller, Class, Requests};
use super::series::LoadSeries;
use super::signals::Signal;
use super::vitals::{Vital, Vitals};
use super::weights::{bias, weight};
use crate::analysis::metrics::facts::Component;
use crate::model::incident::{Source, Span};
use crate::model::time::{Micros, SECOND};
use std::collections::{BTreeMap, BTreeSet};

/// Latencies below this differ by chance, s.
const NOISE_S: f64 = 0.004;
/// A kind of request is slower from so many times its price on, and by so much, s.
const SLOWER: f64 = 2.0;
const SLOWER_BY_S: f64 = 0.02;
/// Callers that are examined, those that added most work.
const CALLERS: usize = 6;
/// What happens so close to the begin of an episode happened with it, in µs.
const WITH: Micros = 20 * SECOND;
/// A cause may precede its episode by this much, in µs.
const BEFORE: Micros = 120 * SECOND;
/// So many writes of a resource show whether they fail.
const MIN_WRITES: f64 = 10.0;
/// A deletion of fewer objects is small.
const MANY: f64 = 20.0;

/// A number that speaks for a candidate or against it.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// Its name in docs/judge.md.
    pub name: &'static str,
    /// From 0 to about 1, or to a few units of a logarithm.
    pub value: f64,
    /// What it was seen in.
    pub source: Source,
}

/// What may have caused an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Which kind.
    pub kind: &'static str,
    /// Whose requests.
    pub caller: Option<Caller>,
    /// Which apiserver, webhook or cgroup.
    pub name: Option<String>,
    /// What speaks for it and against it.
    pub features: Vec<Feature>,
    /// Probability that it is the cause.
    pub confidence: f64,
}

impl Candidate {
    fn new(kind: &'static str) -> Self {
        Self { kind, caller: None, name: None, features: Vec::new(), confidence: 0.0 }
    }

    fn with(mut self, name: &'static str, source: Source, value: f64) -> Self {
        if value.is_finite() {
            self.features.push(Feature { name, value, source });
        }
        self
    }

    /// The value of a feature; 0 where there is none.
    pub fn feature(&self, name: &str) -> f64 {
        self.features.iter().find(|own| own.name == name).map_or(0.0, |own| own.value)
    }

    /// Log-odds of what its features say.
    pub fn odds(&self) -> f64 {
        bias(self.kind) + self.features.iter().map(|own| weight(self.kind, own.name) * own.value).sum::<f64>()
    }
}

/// A dangerous operation, as a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// When.
    pub at: Micros,
    /// Who.
    pub caller: Caller,
    /// How many objects were deleted by it and with it.
    pub objects: f64,
}

/// An episode and its baseline in one source.
pub struct View<'r> {
    /// The requests.
    pub requests: &'r dyn Requests,
    /// Load in time.
    pub series: &'r LoadSeries,
    /// The baseline.
    pub before: Profile,
    /// The episode.
    pub within: Profile,
}

/// A caller that asked for more.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown {
    /// Its number.
    pub caller: usize,
    /// Requests a second, baseline and episode.
    pub rps: [f64; 2],
    /// Work that it added, s a second.
    pub added: f64,
    /// Part of the added work that is writes.
    pub writes: f64,
    /// Requests that were throttled, a second.
    pub throttled: f64,
}

impl View<'_> {
    fn source(&self) -> Source {
        self.requests.source()
    }

    fn rate(&self, of: impl Fn(&Profile) -> f64) -> [f64; 2] {
        [&self.before, &self.within].map(|profile| of(profile) / profile.seconds.max(1.0))
    }

    /// How many times as much work was asked for: 0 is as before, 1 twice as much.
    pub fn growth(&self) -> f64 {
        let [before, within] = self.rate(|profile| profile.tiles.work);
        (within - before) / before.max(1e-3)
    }

    /// Callers by the work that they added.
    pub fn grown(&self) -> Vec<Grown> {
        let mut all: BTreeMap<u32, Grown> = BTreeMap::new();
        for (&(caller, kind), now) in &self.within.pairs {
            let was = self.before.pairs.get(&(caller, kind)).copied().unwrap_or_default();
            let own = all.entry(caller).or_insert_with(|| Grown {
                caller: caller as usize,
                rps: [0.0; 2],
                added: 0.0,
                writes: 0.0,
                throttled: 0.0,
            });
            let by_second = |count: f64, profile: &Profile| count / profile.seconds.max(1.0);
            let asked = by_second(was.requests, &self.before);
            // What is throttled takes no work.
            let served = by_second(now.requests - now.throttled, &self.within);
            own.rps[0] += asked;
            own.rps[1] += by_second(now.requests, &self.within);
            own.throttled += by_second(now.throttled, &self.within);
            let class = self.series.classes[kind as usize];
            let price = if class == Class::Long { 0.0 } else { self.series.prices[kind as usize] };
            let added = (served - asked).max(0.0) * price;
            own.added += added;
            own.writes += if class == Class::Write { added } else { 0.0 };
        }
        // What it asked for before and no more is its own, too.
        for (&(caller, kind), was) in &self.before.pairs {
            if let Some(own) = all.get_mut(&caller)
                && !self.within.pairs.contains_key(&(caller, kind))
            {
                own.rps[0] += was.requests / self.before.seconds.max(1.0);
            }
        }
        let mut all: Vec<Grown> = all.into_values().collect();
        all.sort_by(|a, b| b.added.total_cmp(&a.added).then(a.caller.cmp(&b.caller)));
        all
    }

    /// Kinds of requests: number, requests a second before and within, work added, s a second.
    fn grown_kinds(&self) -> Vec<(u32, [f64; 2], f64)> {
        let of = |(kind, now): (&u32, &Count)| {
            let was = self.before.kinds.get(kind).copied().unwrap_or_default();
            let by_second = |count: f64, profile: &Profile| count / profile.seconds.max(1.0);
            let rps = [by_second(was.requests, &self.before), by_second(now.requests, &self.within)];
            let served = by_second(now.requests - now.throttled, &self.within);
            let class = self.series.classes[*kind as usize];
            let price = if class == Class::Long { 0.0 } else { self.series.prices[*kind as usize] };
            (*kind, rps, (served - rps[0]).max(0.0) * price)
        };
        let mut all: Vec<_> = self.within.kinds.iter().map(of).collect();
        all.sort_by_key(|own| own.0);
        all
    }

    /// Logarithm of how many times slower requests of a class are than in quiet intervals, each kind by its number; and
    /// the part of requests of kinds that became much slower.
    fn slower(&self, accept: impl Fn(Class) -> bool) -> Option<(f64, f64)> {
        let (mut sum, mut much, mut all) = (0.0, 0.0, 0.0);
        for (kind, count) in &self.within.kinds {
            let (kind, Some(mean)) = (*kind as usize, count.mean()) else { continue };
            if !accept(self.series.classes[kind]) {
                continue;
            }
            let price = self.series.prices[kind];
            sum += count.timed * ((mean + NOISE_S) / (price + NOISE_S)).ln().clamp(-1.0, 5.0);
            all += count.timed;
            much += if mean > SLOWER * price + SLOWER_BY_S { count.timed } else { 0.0 };
        }
        (all >= 5.0).then(|| (sum / all, much / all))
    }

    /// How much of something concentrates on one resource: its part there, less that resource's part of all writes.
    fn narrow(&self, of: impl Fn(&Count) -> f64) -> Option<(f64, String)> {
        let mut by_resource: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
        for (kind, count) in &self.within.kinds {
            if self.series.classes[*kind as usize] == Class::Write {
                let own = by_resource.entry(self.requests.kinds()[*kind as usize][2].as_str()).or_default();
                own[0] += of(count);
                own[1] += count.requests;
            }
        }
        let sums = by_resource.values().fold([0.0; 2], |sum, own| [sum[0] + own[0], sum[1] + own[1]]);
        let most = by_resource.into_iter().max_by(|a, b| a.1[0].total_cmp(&b.1[0]))?;
        (sums[0] >= 5.0).then(|| ((most.1[0] / sums[0] - most.1[1] / sums[1].max(1.0)).max(0.0), most.0.to_owned()))
    }
}

impl View<'_> {
    /// The part of the writes of one resource that fail, of that where most do, less the part of reads that fail.
    fn failing(&self) -> Option<f64> {
        let mut by_resource: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
        let mut reads = [0.0; 2];
        for (kind, count) in &self.within.kinds {
            let class = self.series.classes[*kind as usize];
            let own = match class {
                Class::Write => by_resource.entry(self.requests.kinds()[*kind as usize][2].as_str()).or_default(),
                Class::Long => continue,
                _ => &mut reads,
            };
            own[0] += count.errors;
            own[1] += count.requests;
        }
        let part = |own: &[f64; 2]| own[0] / own[1].max(1.0);
        let most = by_resource.values().filter(|own| own[1] >= MIN_WRITES).map(part).max_by(f64::total_cmp)?;
        Some((most - part(&reads)).max(0.0))
    }
}

/// All that candidates are examined by.
pub struct Case<'c> {
    /// The episode.
    pub draft: &'c Draft,
    /// It and its baseline in audit logs, in metrics pages.
    pub views: Vec<View<'c>>,
    /// What pages say beside requests.
    pub vitals: Option<&'c Vitals>,
    /// When the baseline is.
    pub baseline: Span,
    /// Dangerous operations.
    pub operations: &'c [Operation],
}

fn ln_times(now: f64, was: f64, noise: f64) -> f64 {
    ((now + noise) / (was + noise)).ln()
}

impl Case<'_> {
    fn audit(&self) -> Option<&View<'_>> {
        self.views.iter().find(|view| view.source() == Source::Audit)
    }

    /// The view that shows most of something, and its value.
    fn most<'a>(&'a self, of: impl Fn(&'a View<'a>) -> Option<f64>) -> Option<(Source, f64)> {
        let all = self.views.iter().filter_map(|view| Some((view.source(), of(view)?)));
        all.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// How many times a vital is what it was in the baseline (logarithm), and what it is.
    fn vital(&self, vital: Vital, noise: f64, name: &str) -> Option<(f64, f64)> {
        let vitals = self.vitals?;
        let accept = |course: &super::vitals::Course| name.is_empty() || course.name == name;
        let now = vitals.mean(vital, self.draft.span, accept)?.0;
        let was = vitals.mean(vital, self.baseline, accept).map_or(now.min(noise), |own| own.0);
        Some((ln_times(now, was, noise), now))
    }

    fn has(&self, is: impl Fn(&Signal) -> bool) -> f64 {
        f64::from(u8::from(self.draft.deviations.iter().any(|own| is(&own.signal))))
    }

    /// Whether hardly any write ended at any of several apiservers: what they share stood still.
    fn stops(&self) -> f64 {
        let is_shared = self.views.iter().any(|view| view.requests.instances().len() > 1);
        let stop = self.has(|own| matches!(own, Signal::WritesStop | Signal::Silence));
        let away = self.has(|own| matches!(own, Signal::Away(_)));
        if is_shared { stop * (1.0 - away) } else { 0.0 }
    }

    /// How far hardly more work than before was asked for: 1 is none at all.
    fn flat(&self) -> (Source, f64) {
        let (source, growth) = self.most(|view| Some(view.growth())).unwrap_or((Source::Metrics, 0.0));
        (source, (1.0 - growth / 0.5).clamp(0.0, 1.0))
    }
}

/// All candidates, the likeliest first.
pub fn candidates(case: &Case<'_>) -> Vec<Candidate> {
    let mut all = callers(case);
    all.extend(unnamed(case));
    all.extend(lists(case));
    all.extend(everybody(case));
    all.extend(store(case));
    all.extend(webhooks(case));
    all.extend(restart(case));
    all.extend(cascades(case));
    all.extend(imbalance(case));
    all.extend(memory(case));
    // What is missing might have shown another cause.
    let missing = |name: &'static str, source: Source| Feature { name, value: 1.0, source };
    for own in &mut all {
        own.features.extend(case.audit().is_none().then(|| missing("no_audit", Source::Audit)));
        own.features.extend(case.vitals.is_none().then(|| missing("no_metrics", Source::Metrics)));
        own.confidence = 1.0 / (1.0 + (-own.odds()).exp());
    }
    all.sort_by(|a, b| {
        b.confidence.total_cmp(&a.confidence).then_with(|| (a.kind, &a.caller).cmp(&(b.kind, &b.caller)))
    });
    all
}

/// Callers that ask for more.
fn callers(case: &Case<'_>) -> Vec<Candidate> {
    let Some(view) = case.audit() else { return Vec::new() };
    let grown = view.grown();
    let added: f64 = grown.iter().map(|own| own.added).sum();
    let rose: f64 = grown.iter().map(|own| (own.rps[1] - own.rps[0]).max(0.0)).sum();
    let (flat_of, flat) = case.flat();
    let of = |own: &Grown| {
        let share = if added > 0.0 { own.added / added } else { 0.0 };
        let share_rps = if rose > 0.0 { (own.rps[1] - own.rps[0]).max(0.0) / rose } else { 0.0 };
        let is_write = own.writes >= 0.5 * own.added;
        let mut candidate = Candidate::new(if is_write { "write-burst" } else { "client-surge" });
        candidate.caller = Some(view.requests.callers()[own.caller].clone());
        let is_its = |signal: &Signal| *signal == Signal::Caller(own.caller);
        let mut with = case.draft.deviations.iter().filter(|other| is_its(&other.signal));
        let onset = with.any(|other| (other.span.0 - case.draft.span.0).abs() <= WITH.max(other.slack));
        let is_own = view.series.is_own[own.caller];
        let all: f64 = view.rate(|profile| profile.tiles.requests)[0];
        candidate
            .with("share", Source::Audit, share)
            .with("share_rps", Source::Audit, share_rps)
            .with("times", Source::Audit, ln_times(own.rps[1], own.rps[0], 0.2).clamp(0.0, 4.0))
            .with("size", Source::Audit, ((own.rps[1] - own.rps[0]) / all.max(0.5)).clamp(0.0, 3.0))
            .with("onset", Source::Audit, f64::from(u8::from(onset)))
            .with("throttled", Source::Audit, (own.throttled / own.rps[1].max(0.1)).clamp(0.0, 1.0))
            .with("control_plane", Source::Audit, f64::from(u8::from(is_own)))
            .with("flat", flat_of, flat)
    };
    grown.iter().filter(|own| own.added > 0.0).take(CALLERS).map(of).collect()
}

/// Without audit logs: requests that nobody can be named for.
fn unnamed(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.first().filter(|view| view.source() == Source::Metrics)?;
    let grown = view.grown_kinds();
    let added: f64 = grown.iter().map(|own| own.2).sum();
    let (kind, _, most) = grown.into_iter().max_by(|a, b| a.2.total_cmp(&b.2).then(b.0.cmp(&a.0)))?;
    let is_write = view.series.classes[kind as usize] == Class::Write;
    let (flat_of, flat) = case.flat();
    let mut candidate = Candidate::new("request-surge");
    let [verb, _, resource, _] = &view.requests.kinds()[kind as usize];
    candidate.name = Some(format!("{verb} {resource}"));
    let candidate = candidate
        .with("share", Source::Metrics, if added > 0.0 { most / added } else { 0.0 })
        .with("growth", Source::Metrics, view.growth().clamp(0.0, 4.0))
        .with("writes", Source::Metrics, f64::from(u8::from(is_write)))
        .with("flat", flat_of, flat);
    Some(candidate)
}

/// LISTs of one resource, whoever sends them: where several clients do, none of them is the cause alone.
fn lists(case: &Case<'_>) -> Option<Candidate> {
    let view = case.audit()?;
    let mut by_resource: BTreeMap<&str, (f64, BTreeMap<u32, f64>)> = BTreeMap::new();
    let mut all = 0.0;
    for (&(caller, kind), now) in &view.within.pairs {
        let class = view.series.classes[kind as usize];
        if class == Class::Long {
            continue;
        }
        let was = view.before.pairs.get(&(caller, kind)).copied().unwrap_or_default();
        let served = (now.requests - now.throttled) / view.within.seconds.max(1.0);
        let price = view.series.prices[kind as usize];
        let added = (served - was.requests / view.before.seconds.max(1.0)).max(0.0) * price;
        all += added;
        if class == Class::List && added > 0.0 {
            let own = by_resource.entry(view.requests.kinds()[kind as usize][2].as_str()).or_default();
            own.0 += added;
            *own.1.entry(caller).or_default() += added;
        }
    }
    let (resource, (added, callers)) = by_resource.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let top = callers.values().fold(0.0, |top: f64, own| top.max(*own)) / added;
    let (flat_of, flat) = case.flat();
    let mut candidate = Candidate::new("expensive-lists");
    candidate.name = Some(resource.to_owned());
    let many = callers.values().filter(|own| **own >= 0.02 * added).count();
    let candidate = candidate
        .with("share", Source::Audit, if all > 0.0 { added / all } else { 0.0 })
        .with("top", Source::Audit, top)
        .with("callers", Source::Audit, many as f64)
        .with("flat", flat_of, flat);
    Some(candidate)
}

/// Everybody asks for more; where nobody is named, everything is asked for more.
fn everybody(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.first()?;
    // Of each caller, or kind: requests a second before and within, and the work that was added.
    let parts: Vec<([f64; 2], f64)> = match view.source() {
        Source::Audit => view.grown().into_iter().map(|own| (own.rps, own.added)).collect(),
        _ => view.grown_kinds().into_iter().map(|(_, rps, added)| (rps, added)).collect(),
    };
    let added: f64 = parts.iter().map(|own| own.1).sum();
    let top = parts.iter().fold(0.0, |top: f64, own| top.max(own.1)) / added.max(1e-9);
    let before: f64 = parts.iter().map(|own| own.0[0]).sum();
    let more: f64 = parts.iter().filter(|own| own.0[1] >= 1.3 * own.0[0]).map(|own| own.0[0]).sum();
    let (flat_of, flat) = case.flat();
    let candidate = Candidate::new("load-surge")
        .with("breadth", view.source(), if before > 0.0 { more / before } else { 0.0 })
        .with("top", view.source(), top)
        .with("growth", view.source(), view.growth().clamp(0.0, 4.0))
        .with("flat", flat_of, flat);
    Some(candidate)
}

/// etcd is slow, stands still, or has no leader.
fn store(case: &Case<'_>) -> Option<Candidate> {
    let writes = |class: Class| class == Class::Write;
    let reads = |class: Class| matches!(class, Class::Read | Class::Review);
    let (drag_of, drag) = case.most(|view| view.slower(writes).map(|own| own.0))?;
    let breadth = case.most(|view| view.slower(writes).map(|own| own.1)).map_or(0.0, |own| own.1);
    let of_reads = case.most(|view| view.slower(reads).map(|own| own.0)).map_or(0.0, |own| own.1);
    let narrow = case.most(|view| view.narrow(|count| count.slow).map(|own| own.0)).map_or(0.0, |own| own.1);
    let (flat_of, flat) = case.flat();
    let mut candidate = Candidate::new("slow-etcd")
        .with("drag_writes", drag_of, drag.clamp(0.0, 5.0))
        .with("breadth_writes", drag_of, breadth)
        .with("drag_reads", drag_of, of_reads.clamp(0.0, 5.0))
        .with("narrow", drag_of, narrow)
        .with("load", drag_of, case.most(|view| Some(view.growth())).map_or(0.0, |own| own.1).clamp(0.0, 3.0))
        .with("writes_stop", drag_of, case.stops())
        .with("flat", flat_of, flat);
    if let Some(view) = case.audit() {
        candidate = candidate.with("spent_etcd", Source::Audit, spent(view, 0));
    }
    if let Some((times, now)) = case.vital(Vital::EtcdRequest, 0.005, "") {
        candidate = candidate.with("etcd_requests", Source::Metrics, times.clamp(-1.0, 4.0)).with(
            "etcd_requests_slow",
            Source::Metrics,
            (now / 0.1).min(3.0),
        );
    }
    let commit = case.vital(Vital::EtcdCommit, 0.005, "").map(|own| own.0);
    let fsync = case.vital(Vital::EtcdFsync, 0.003, "").map(|own| own.0);
    if let Some(times) = commit.into_iter().chain(fsync).max_by(f64::total_cmp) {
        candidate = candidate.with("etcd_disk", Source::Metrics, times.clamp(-1.0, 4.0));
    }
    if let Some(vitals) = case.vitals {
        let lost = vitals.of(Vital::EtcdLeader).flat_map(|course| &course.points);
        let is_lost = lost.filter(|point| point.value == 0.0).any(|point| is_within(point.span, case.draft.span));
        let changes = vitals.mean(Vital::EtcdLeaderChanges, case.draft.span, |_| true).map_or(0.0, |own| own.0 * own.1);
        let is_new = vitals
            .starts
            .iter()
            .any(|start| start.component == Component::Etcd && is_within((start.at, start.at), case.draft.span));
        let is_away = vitals
            .of(Vital::Unreachable)
            .filter(|course| course.name == Component::Etcd.name())
            .flat_map(|course| &course.points)
            .any(|point| is_within(point.span, case.draft.span));
        candidate = candidate.with("leader", Source::Metrics, f64::from(u8::from(is_lost || changes >= 0.5))).with(
            "etcd_away",
            Source::Metrics,
            f64::from(u8::from(is_away || is_new)),
        );
    }
    Some(candidate)
}

fn is_within((from, to): Span, span: Span) -> bool {
    from <= span.1 && to >= span.0
}

/// Of the time that slow requests took, the part that they spent in etcd (0), webhooks (1), the queue (2).
fn spent(view: &View<'_>, which: usize) -> f64 {
    let all = view.within.kinds.values().fold(Count::default(), |mut sum, own| {
        sum.add(own);
        sum
    });
    let noted: f64 = all.spent.iter().sum();
    if noted < 0.5 { 0.0 } else { (all.spent[which] / all.seconds.max(noted)).min(1.0) }
}

/// Admission webhooks that are slow or fail.
fn webhooks(case: &Case<'_>) -> Option<Candidate> {
    let writes = |class: Class| class == Class::Write;
    let (drag_of, drag) = case.most(|view| view.slower(writes).map(|own| own.0))?;
    let slow = case.views.iter().filter_map(|view| view.narrow(|count| count.slow)).max_by(|a, b| a.0.total_cmp(&b.0));
    let failed =
        case.views.iter().filter_map(|view| view.narrow(|count| count.errors)).max_by(|a, b| a.0.total_cmp(&b.0));
    let (flat_of, flat) = case.flat();
    let mut candidate = Candidate::new("webhook-drag")
        .with("drag_writes", drag_of, drag.clamp(0.0, 5.0))
        .with("narrow", drag_of, slow.map_or(0.0, |own| own.0))
        .with("narrow_errors", drag_of, failed.map_or(0.0, |own| own.0))
        .with("failing", drag_of, case.most(|view| view.failing()).map_or(0.0, |own| own.1))
        .with("flat", flat_of, flat);
    if let Some(view) = case.audit() {
        candidate = candidate.with("spent_webhook", Source::Audit, spent(view, 1));
    }
    if let Some(vitals) = case.vitals {
        let names: BTreeSet<&str> = vitals.of(Vital::Webhook).map(|course| course.name.as_str()).collect();
        let of = |name: &&str| Some((case.vital(Vital::Webhook, 0.01, name)?, (*name).to_owned()));
        let slowest = names.iter().filter_map(of).max_by(|a, b| a.0.1.total_cmp(&b.0.1));
        if let Some(((times, now), name)) = slowest {
            candidate = candidate.with("webhook_times", Source::Metrics, times.clamp(-1.0, 4.0)).with(
                "webhook_slow",
                Source::Metrics,
                (now / 0.5).min(3.0),
            );
            candidate.name = Some(name);
        } else {
            candidate = candidate.with("no_webhook", Source::Metrics, 1.0);
        }
        let failing = vitals
            .of(Vital::WebhookErrors)
            .chain(vitals.of(Vital::FailedOpen))
            .filter_map(|course| {
                let within = course.points.iter().filter(|point| is_within(point.span, case.draft.span));
                let failed: f64 = within.map(|point| point.value * point.count).sum();
                (failed >= 1.0).then(|| (failed, course.name.clone()))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((failed, name)) = failing {
            candidate = candidate.with("webhook_errors", Source::Metrics, (failed / 10.0).min(1.0));
            candidate.name = Some(name);
        }
    }
    Some(candidate)
}

/// An apiserver restarted or was away, and its clients reconnected.
fn restart(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.first()?;
    let mut candidate = Candidate::new("relist-storm");
    let away = case.draft.deviations.iter().find_map(|own| match own.signal {
        Signal::Away(instance) => Some((own.source, instance)),
        _ => None,
    });
    if let Some((source, instance)) = away {
        let of = case.views.iter().find(|view| view.source() == source)?;
        candidate.name = of.requests.instances().get(instance).cloned();
        candidate = candidate.with("away", source, 1.0);
    }
    let (from, to) = (case.draft.span.0 - BEFORE, case.draft.span.1);
    if let Some(vitals) = case.vitals {
        let starts = vitals.starts.iter().filter(|own| own.component == Component::Apiserver);
        let start = starts.filter(|own| (from..to).contains(&own.at)).min_by_key(|own| own.at);
        if let Some(start) = start {
            let late = (start.at - case.draft.span.0) as f64 / SECOND as f64;
            candidate = candidate.with("started", Source::Metrics, 1.0).with(
                "started_late",
                Source::Metrics,
                ((late - 45.0) / 60.0).clamp(0.0, 1.0),
            );
            candidate.name.get_or_insert_with(|| start.instance.clone());
        } else {
            candidate = candidate.with("none_started", Source::Metrics, 1.0);
        }
    }
    if case.vitals.is_some_and(|vitals| {
        vitals.of(Vital::OomKills).flat_map(|own| &own.points).any(|own| is_within(own.span, (from, to)))
    }) {
        candidate = candidate.with("killed", Source::Cgroup, 1.0);
    }
    let [was, now] = view.rate(|profile| profile.tiles.watches);
    if view.source() == Source::Audit {
        let watching = |profile: &Profile| {
            let pairs = profile.pairs.iter().filter(|(key, _)| view.requests.kinds()[key.1 as usize][0] == "watch");
            pairs.filter(|(_, count)| count.requests > 0.0).map(|(key, _)| key.0).collect::<BTreeSet<u32>>().len()
        };
        let callers = view.within.pairs.keys().map(|key| key.0).collect::<BTreeSet<u32>>().len();
        candidate = candidate.with("watches", Source::Audit, ln_times(now, was, 0.3).clamp(0.0, 3.0)).with(
            "watchers",
            Source::Audit,
            watching(&view.within) as f64 / callers.max(1) as f64,
        );
    }
    Some(candidate.with("writes_stop", view.source(), case.stops()))
}

/// What was deleted with a namespace, a definition, a collection.
fn cascades(case: &Case<'_>) -> Vec<Candidate> {
    let (from, to) = (case.draft.span.0 - BEFORE, case.draft.span.1);
    let Some(view) = case.audit() else { return Vec::new() };
    let (mut deletes, mut added) = (0.0, 0.0);
    for (&(caller, kind), now) in &view.within.pairs {
        let was = view.before.pairs.get(&(caller, kind)).copied().unwrap_or_default();
        let served = (now.requests - now.throttled) / view.within.seconds.max(1.0);
        let class = view.series.classes[kind as usize];
        let price = if class == Class::Long { 0.0 } else { view.series.prices[kind as usize] };
        let own = (served - was.requests / view.before.seconds.max(1.0)).max(0.0) * price;
        added += own;
        let is_delete = view.requests.kinds()[kind as usize][0].starts_with("delete");
        deletes += if is_delete && view.series.is_own[caller as usize] { own } else { 0.0 };
    }
    let share = if added > 0.0 { deletes / added } else { 0.0 };
    let is_its = |own: &&Operation| (from..to).contains(&own.at) && own.objects >= MANY;
    let of = |own: &Operation| {
        let late = (own.at - case.draft.span.0) as f64 / SECOND as f64;
        let mut candidate = Candidate::new("cascade-delete");
        candidate.caller = Some(own.caller.clone());
        candidate
            .with("objects", Source::Audit, (own.objects / 500.0).min(2.0))
            .with("deletes", Source::Audit, share)
            .with("late", Source::Audit, ((late - 20.0) / 60.0).clamp(0.0, 1.0))
    };
    case.operations.iter().filter(is_its).map(of).collect()
}

/// One apiserver carries too much.
fn imbalance(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.first().filter(|view| view.requests.instances().len() > 1)?;
    let share = |profile: &Profile| {
        let all: f64 = profile.instances.iter().sum();
        profile.instances.iter().map(|own| own / all.max(1.0)).collect::<Vec<f64>>()
    };
    let (was, now) = (share(&view.before), share(&view.within));
    let (place, more) =
        now.iter().zip(&was).map(|(now, was)| now - was).enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut candidate = Candidate::new("imbalance");
    candidate.name = view.requests.instances().get(place).cloned();
    let away = case.has(|own| matches!(own, Signal::Away(_) | Signal::Restart));
    let candidate = candidate
        .with("shift", view.source(), more.clamp(0.0, 1.0))
        .with("skew", view.source(), (now[place] * now.len() as f64 - 1.0).clamp(0.0, 1.0))
        .with("away", view.source(), away);
    Some(candidate)
}

/// Memory of an apiserver ran short.
fn memory(case: &Case<'_>) -> Option<Candidate> {
    let vitals = case.vitals?;
    let (from, to) = (case.draft.span.0 - BEFORE / 2, case.draft.span.1);
    let killed =
        vitals.of(Vital::OomKills).find(|course| course.points.iter().any(|point| is_within(point.span, (from, to))));
    let fill = vitals.highest(Vital::CgroupFill, (from, to));
    if killed.is_none() && fill.is_none() {
        return None;
    }
    let mut candidate = Candidate::new("memory");
    candidate.name = killed.map(|course| course.instance.clone());
    let candidate = candidate.with("killed", Source::Cgroup, f64::from(u8::from(killed.is_some()))).with(
        "full",
        Source::Cgroup,
        fill.map_or(0.0, |fill| ((fill - 0.8) / 0.2).clamp(0.0, 1.0)),
    );
    Some(candidate)
}
