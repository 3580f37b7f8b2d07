//! Candidate causes of an episode: every candidate is examined, and each of its features is a number that speaks for it
//! or against it. (Definitions and weights: docs/judge.md.)

mod apis;
mod load;
mod plane;
mod reactions;
mod rivals;
mod rules;
mod store;

use super::episodes::Draft;
use super::faults::Faults;
use super::latencies::slowdown;
use super::profile::{Added, Count, Profile};
use super::requests::{Caller, Class, Requests, SLOWER, SLOWER_BY_S};
use super::series::RequestSeries;
use super::signals::{Signal, are_silences};
use super::vitals::{Vital, Vitals};
use super::weights::{bias, weight};
use crate::analysis::failure::Fault;
use crate::model::cause::Source;
use crate::model::time::{Micros, SECOND, Span};
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// The unit of the feature `etcd_requests_slow`, in ms: how long apiservers' requests to etcd take.
pub const ETCD_SLOW_MS: f64 = 100.0;
/// The unit of the feature `webhook_slow`, in ms: how long calls of the webhook take.
pub const WEBHOOK_SLOW_MS: f64 = 500.0;
/// These features count no further than so many of their units.
pub const SLOWEST: f64 = 3.0;

/// A cause may precede its episode by this much, in µs.
const BEFORE: Micros = 120 * SECOND;
/// A vital whose logarithm of how many times its baseline it is lies below this is as fast as before.
const AS_FAST: f64 = 0.35;
/// So many writes of a resource show whether they fail.
const MIN_WRITES: f64 = 10.0;
/// So many reads of a resource that fail are no chance.
const MIN_FAILED_READS: f64 = 5.0;
/// From this logarithm of how many times longer it takes than before, something takes much longer: twice.
const TWICE: f64 = std::f64::consts::LN_2;
/// Reads whose logarithm of how many times slower they are is a third of that of writes, or more, lack what these lack.
const SPARED: f64 = 3.0;
/// Features that say which kinds of sources are missing, and that audit logs alone have no reads.
const MISSING: [&str; 3] = ["no_audit", "no_metrics", "no_reads"];

/// How far something began after something else: from 20 s on, and wholly from a minute on.
fn began_after(first: Micros, begins: Micros) -> f64 {
    let late = (begins - first) as f64 / SECOND as f64;
    ((late - 20.0) / 40.0).clamp(0.0, 1.0)
}

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
    pub kind: &'static str,
    /// Whose requests.
    pub caller: Option<Caller>,
    /// Which apiserver, webhook or cgroup.
    pub name: Option<String>,
    /// What speaks for it and against it.
    pub features: Vec<Feature>,
    /// Probability that it is the cause.
    pub confidence: f64,
    /// The part of its own probability that likelier ones leave to it.
    left: f64,
}

impl Candidate {
    fn new(kind: &'static str) -> Self {
        Self { kind, caller: None, name: None, features: Vec::new(), confidence: 0.0, left: 1.0 }
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
        self.odds_of(|_| true)
    }

    fn odds_of(&self, accept: impl Fn(&Feature) -> bool) -> f64 {
        let accepted = self.features.iter().filter(|own| accept(own));
        bias(self.kind) + accepted.map(|own| weight(self.kind, own.name) * own.value).sum::<f64>()
    }

    /// Its probability if no kind of source were missing, and the others said no more against it.
    pub fn confidence_if_complete(&self) -> f64 {
        // What a policy hides may speak for a cause, so that not to see it adds to its odds.
        self.confidence.max(self.left * probability(self.odds_of(|own| !MISSING.contains(&own.name))))
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
    pub requests: &'r dyn Requests,
    /// Load in time.
    pub series: &'r RequestSeries,
    /// The baseline.
    pub before: Profile,
    /// The episode.
    pub within: Profile,
    /// What messages of its failed and denied requests name.
    pub faults: Faults,
}

/// A caller that asked for more.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown {
    /// Its number.
    pub caller: usize,
    /// What it asked for, and the work that it added.
    pub added: Added,
    /// Of the added work, s a second, what is writes.
    pub writes: f64,
}

impl View<'_> {
    fn source(&self) -> Source {
        self.requests.source()
    }

    pub(super) fn rate(&self, of: impl Fn(&Profile) -> f64) -> [f64; 2] {
        [&self.before, &self.within].map(|profile| of(profile) / profile.seconds.max(1.0))
    }

    /// Whether there is a time that the episode is compared with.
    pub(super) fn has_baseline(&self) -> bool {
        self.before.seconds > 0.0
    }

    /// How many times as much work was asked for: 0 is as before, 1 twice as much.
    pub fn growth(&self) -> f64 {
        let [before, within] = self.rate(|profile| profile.tiles.work);
        (within - before) / before.max(1e-3)
    }

    /// What requests of a kind came to, of one caller or of all.
    fn added(&self, caller: Option<u32>, kind: u32, was: Option<&Count>, now: &Count) -> Added {
        let none = Count::default();
        let counts = [was.unwrap_or(&none), now];
        let caller = caller.map(|own| own as usize);
        Added::new(self.series, (caller, kind as usize), counts, [&self.before, &self.within])
    }

    /// What callers asked for by kind, and the work that they added: caller, kind.
    fn pairs(&self) -> impl Iterator<Item = (u32, u32, Added)> {
        let of = |(key, now): (&(u32, u32), &Count)| {
            (key.0, key.1, self.added(Some(key.0), key.1, self.before.pairs.get(key), now))
        };
        self.within.pairs.iter().map(of)
    }

    /// Callers by the work that they added.
    pub fn grown(&self) -> Vec<Grown> {
        let mut all: BTreeMap<u32, Grown> = BTreeMap::new();
        for (caller, kind, added) in self.pairs() {
            let own = all.entry(caller).or_insert_with(|| Grown {
                caller: caller as usize,
                added: Added::default(),
                writes: 0.0,
            });
            own.added.rps[0] += added.rps[0];
            own.added.rps[1] += added.rps[1];
            own.added.served[0] += added.served[0];
            own.added.served[1] += added.served[1];
            own.added.throttled += added.throttled;
            own.added.work += added.work;
            own.writes += if self.series.classes[kind as usize] == Class::Write { added.work } else { 0.0 };
        }
        // What it asked for before and no more is its own, too.
        for (&(caller, kind), was) in &self.before.pairs {
            if let Some(own) = all.get_mut(&caller)
                && !self.within.pairs.contains_key(&(caller, kind))
            {
                own.added.rps[0] += was.requests / self.before.seconds.max(1.0);
                own.added.served[0] += was.served() / self.before.seconds.max(1.0);
            }
        }
        let mut all: Vec<Grown> = all.into_values().collect();
        all.sort_by(|a, b| b.added.work.total_cmp(&a.added.work).then(a.caller.cmp(&b.caller)));
        all
    }

    /// What was asked for by kind, and the work that was added.
    fn grown_kinds(&self) -> Vec<(u32, Added)> {
        let of = |(kind, now): (&u32, &Count)| (*kind, self.added(None, *kind, self.before.kinds.get(kind), now));
        self.within.kinds.iter().map(of).collect()
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
            sum += count.timed * slowdown(mean, price);
            all += count.timed;
            much += if mean > SLOWER * price + SLOWER_BY_S { count.timed } else { 0.0 };
        }
        (all >= 5.0).then(|| (sum / all, much / all))
    }

    /// How far reads are as fast as before while writes are not, though it is reads that are asked for more: whoever
    /// takes an apiserver's time, or etcd's, takes it from reads as well.
    fn spared(&self) -> f64 {
        let drag = |accept: fn(Class) -> bool| self.slower(accept).map(|own| own.0.max(0.0));
        let writes = drag(|class| class == Class::Write);
        let reads = drag(|class| matches!(class, Class::Read | Class::List | Class::Review));
        let (Some(writes), Some(reads)) = (writes.filter(|own| *own >= TWICE), reads) else { return 0.0 };
        let (mut added, mut of_writes) = (0.0, 0.0);
        for (kind, Added { work, .. }) in self.grown_kinds() {
            added += work;
            of_writes += if self.series.classes[kind as usize] == Class::Write { work } else { 0.0 };
        }
        (1.0 - SPARED * reads / writes).max(0.0) * (1.0 - of_writes / added.max(1e-9))
    }

    /// Requests of a kind that fail beyond those that do at baseline: who fails all the time is no news.
    fn failed(&self, kind: u32, count: &Count) -> f64 {
        let usual = self.before.kinds.get(&kind).filter(|_| self.before.seconds > 0.0).map_or(0.0, |before| {
            let by_time = before.errors * self.within.seconds / self.before.seconds;
            by_time.max(before.errors * count.requests / before.requests.max(1.0))
        });
        (count.errors - usual).max(0.0)
    }

    /// Of writes by resource: how much of something there is, and how many.
    fn writes(&self, of: impl Fn(u32, &Count) -> f64) -> BTreeMap<&str, [f64; 2]> {
        let mut by_resource: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
        for (kind, count) in &self.within.kinds {
            if self.series.classes[*kind as usize] == Class::Write {
                let own = by_resource.entry(self.requests.kinds()[*kind as usize][2].as_str()).or_default();
                own[0] += of(*kind, count);
                own[1] += count.requests;
            }
        }
        by_resource
    }

    /// The API group of the kind of which most writes are slow.
    fn slowest_write(&self) -> Option<&str> {
        let writes = self.within.kinds.iter().filter(|own| self.series.classes[*own.0 as usize] == Class::Write);
        let (kind, count) = writes.max_by(|a, b| a.1.slow.total_cmp(&b.1.slow))?;
        (count.slow > 0.0).then(|| self.requests.kinds()[*kind as usize][1].as_str())
    }

    /// How much of something concentrates on one resource: its part there, less that resource's part of all writes;
    /// less where hardly half of that resource's writes are so.
    fn narrow(&self, of: impl Fn(u32, &Count) -> f64) -> Option<f64> {
        let by_resource = self.writes(of);
        let sums = by_resource.values().fold([0.0; 2], |sum, own| [sum[0] + own[0], sum[1] + own[1]]);
        let most = by_resource.into_values().max_by(|a, b| a[0].total_cmp(&b[0]))?;
        let usual = (2.0 * most[0] / most[1].max(1.0)).min(1.0);
        (sums[0] >= 5.0).then(|| usual * (most[0] / sums[0] - most[1] / sums[1].max(1.0)).max(0.0))
    }

    /// The part of the writes of one resource that fail, of that where most do, less the part of reads that fail.
    fn failing(&self) -> Option<f64> {
        let reads = self.failed_of(|kind| !matches!(self.series.classes[kind], Class::Write | Class::Long));
        let [most, _] = self.failed_writes()?;
        Some((part(most) - part(reads)).max(0.0))
    }

    /// Of the resource of whose writes most fail, the part of its reads that fail.
    fn failing_reads(&self) -> Option<f64> {
        let by_resource = self.writes(|kind, count| self.failed(kind, count));
        let (resource, _) = most_failing(&by_resource)?;
        let reads = self.failed_of(|kind| {
            matches!(self.series.classes[kind], Class::Read | Class::List) && self.requests.kinds()[kind][2] == resource
        });
        (reads[0] >= MIN_FAILED_READS).then(|| part(reads))
    }

    /// How many requests of some kinds fail, and how many there are.
    fn failed_of(&self, is_its: impl Fn(usize) -> bool) -> [f64; 2] {
        let own = self.within.kinds.iter().filter(|own| is_its(*own.0 as usize));
        own.fold([0.0; 2], |sum, (kind, count)| [sum[0] + self.failed(*kind, count), sum[1] + count.requests])
    }

    /// The part of the writes of all other resources that fail: a webhook is asked about some, and the store is all of
    /// theirs.
    fn failing_all(&self) -> Option<f64> {
        let [_, rest] = self.failed_writes()?;
        (rest[1] >= MIN_WRITES).then(|| part(rest))
    }

    /// The part of the writes of leases that fail: webhooks are not asked about these, so that nodes and leaders live.
    fn failing_leases(&self) -> Option<f64> {
        let leases = self.writes(|kind, count| self.failed(kind, count)).get("leases").copied()?;
        (leases[1] >= MIN_WRITES).then(|| part(leases))
    }

    /// Writes of the resource of which most fail, and of all others: how many fail, and how many there are.
    fn failed_writes(&self) -> Option<[[f64; 2]; 2]> {
        let by_resource = self.writes(|kind, count| self.failed(kind, count));
        let (_, most) = most_failing(&by_resource)?;
        let all = by_resource.values().fold([0.0; 2], |sum, own| [sum[0] + own[0], sum[1] + own[1]]);
        Some([most, [all[0] - most[0], all[1] - most[1]]])
    }

    /// How far the messages of failed requests name some faults, and how far others.
    fn named(&self, is: impl Fn(Fault) -> bool) -> [f64; 2] {
        let failed = self.within.tiles.errors;
        let own = self.faults.part(&is, failed);
        [own, self.faults.part(|fault| !is(fault) && !matches!(fault, Fault::Starting | Fault::Other), failed)]
    }

    /// Whether there are reads, which show whether they wait, too, and who asks for much.
    fn has_reads(&self) -> bool {
        let is_read = |kind: &u32| matches!(self.series.classes[*kind as usize], Class::Read | Class::List);
        [&self.before, &self.within].into_iter().any(|own| own.kinds.keys().any(is_read))
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
    /// [`Case::harmless`], once somebody asked.
    harmless: OnceCell<f64>,
}

/// Of something its part: how many, of how many.
fn part([some, all]: [f64; 2]) -> f64 {
    some / all.max(1.0)
}

/// The resource of whose writes most fail, of those that have enough.
fn most_failing<'r>(by_resource: &BTreeMap<&'r str, [f64; 2]>) -> Option<(&'r str, [f64; 2])> {
    let enough = by_resource.iter().map(|(resource, own)| (*resource, *own)).filter(|own| own.1[1] >= MIN_WRITES);
    enough.max_by(|a, b| part(a.1).total_cmp(&part(b.1)))
}

fn ln_times(now: f64, was: f64, noise: f64) -> f64 {
    ((now + noise) / (was + noise)).ln()
}

impl<'c> Case<'c> {
    /// Of an episode, and what is known of it.
    pub fn new(
        draft: &'c Draft,
        views: Vec<View<'c>>,
        vitals: Option<&'c Vitals>,
        baseline: Span,
        operations: &'c [Operation],
    ) -> Self {
        Self { draft, views, vitals, baseline, operations, harmless: OnceCell::new() }
    }

    /// The view of audit logs.
    pub fn audit(&self) -> Option<&View<'_>> {
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

    /// Whether events of a vital go on at half of their baseline rate or more: what stands still has no slow ones.
    fn goes_on(&self, vital: Vital) -> bool {
        let Some(vitals) = self.vitals else { return false };
        let [was, now] = [self.baseline, self.draft.span].map(|span| {
            let seconds = (span.1 - span.0).max(SECOND) as f64 / SECOND as f64;
            vitals.mean(vital, span, |_| true).map_or(0.0, |own| own.1) / seconds
        });
        now >= 0.5 * was
    }

    /// Logarithm of how many times slower etcd's disk is.
    fn disk(&self) -> Option<f64> {
        let commit = self.vital(Vital::EtcdCommit, 0.005, "").map(|own| own.0);
        let fsync = self.vital(Vital::EtcdFsync, 0.003, "").map(|own| own.0);
        commit.into_iter().chain(fsync).max_by(f64::total_cmp)
    }

    /// How far etcd's own disk shows why one apiserver is slow: wholly where it is seven times slower. Each apiserver
    /// may ask a member of its own.
    fn of_disk(&self) -> f64 {
        self.disk().map_or(0.0, |times| ((times - AS_FAST) / (2.0 - AS_FAST)).clamp(0.0, 1.0))
    }

    fn has(&self, is: impl Fn(&Signal) -> bool) -> f64 {
        f64::from(u8::from(self.draft.deviations.iter().any(|own| is(&own.signal))))
    }

    /// Whether hardly any write ended at any of several apiservers: what they share stood still.
    fn stops(&self) -> f64 {
        let is_shared = self.views.iter().any(|view| view.requests.instances().len() > 1);
        let stop = self.has(Signal::is_stop);
        let away = self.has(|own| matches!(own, Signal::Away(_)));
        if is_shared { stop * (1.0 - away) } else { 0.0 }
    }

    /// How far hardly more work than before was asked for, or nothing that could be why: 1 is none at all.
    fn flat(&self) -> (Source, f64) {
        let (source, growth) = self.most(|view| Some(view.growth())).unwrap_or((Source::Metrics, 0.0));
        (source, (1.0 - growth / 0.5).clamp(0.0, 1.0).max(self.harmless()))
    }

    /// How far what was asked for more is no cause of what became slow, in all views.
    fn harmless(&self) -> f64 {
        let of = |view: &View<'_>| view.spared().max(plane::slow_elsewhere(self, view));
        *self.harmless.get_or_init(|| self.views.iter().map(of).reduce(f64::min).unwrap_or(0.0))
    }
}

fn probability(odds: f64) -> f64 {
    1.0 / (1.0 + (-odds).exp())
}

/// All candidates, the likeliest first.
pub fn candidates(case: &Case<'_>) -> Vec<Candidate> {
    let grown = case.audit().map(|view| (view, view.grown()));
    let mut all = grown.as_ref().map_or_else(Vec::new, |(view, grown)| load::callers(case, view, grown));
    all.extend(load::unnamed(case));
    all.extend(load::lists(case));
    all.extend(load::everybody(case, grown.map(|(_, grown)| grown)));
    all.extend(load::limits(case));
    all.extend(rules::refusals(case));
    all.extend(rules::credentials(case));
    all.extend(store::store(case));
    all.extend(plane::webhooks(case));
    all.extend(apis::api_group(case));
    all.extend(apis::encryption(case));
    all.extend(plane::restart(case));
    all.extend(load::cascades(case));
    all.extend(plane::imbalance(case));
    all.extend(plane::apiserver(case));
    all.extend(plane::memory(case));
    all.extend(plane::nodes(case));
    all.extend(plane::controllers(case));
    // Where nothing deviates but that a controller asks for nothing, what else happens meanwhile is no cause of it.
    if are_silences(&case.draft.deviations) {
        all.retain(|own| own.kind == "controllers-down");
    }
    // Who asks for more takes nobody's credentials, and makes no rule.
    let impacts = || case.draft.deviations.iter().filter(|own| own.is_impact());
    let are_all = |signal: Signal| impacts().next().is_some() && impacts().all(|own| own.signal == signal);
    if are_all(Signal::Unauthorized) {
        all.retain(|own| own.kind == "credentials-invalid");
    } else if are_all(Signal::RefusedWrites) {
        all.retain(|own| matches!(own.kind, "writes-refused" | "webhook-drag" | "cascade-delete"));
    }
    // What is missing might have shown another cause.
    let missing = |place: usize, source: Source| Feature { name: MISSING[place], value: 1.0, source };
    let has_reads = case.views.iter().any(View::has_reads);
    for own in &mut all {
        own.features.extend((!has_reads).then(|| missing(2, Source::Audit)));
        own.features.extend(case.audit().is_none().then(|| missing(0, Source::Audit)));
        own.features.extend(case.vitals.is_none().then(|| missing(1, Source::Metrics)));
        own.confidence = probability(own.odds());
    }
    let likeliest = |a: &Candidate, b: &Candidate| {
        b.confidence.total_cmp(&a.confidence).then_with(|| (a.kind, &a.caller).cmp(&(b.kind, &b.caller)))
    };
    all.sort_by(likeliest);
    rivals::lower(&mut all);
    all.sort_by(likeliest);
    all
}
