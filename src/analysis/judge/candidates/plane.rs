//! Causes that are parts of the control plane: webhooks, apiservers and their memory, nodes, controllers.

use super::{AS_FAST, BEFORE, Candidate, Case, Feature, SLOWEST, View, WEBHOOK_SLOW_MS, began_after, ln_times};
use crate::analysis::failure::Fault;
use crate::analysis::judge::latencies::slowdown;
use crate::analysis::judge::profile::{Count, Profile, Served};
use crate::analysis::judge::requests::Class;
use crate::analysis::judge::signals::{Deviation, Signal};
use crate::analysis::judge::stops;
use crate::analysis::judge::vitals::Vital;
use crate::analysis::robust::median;
use crate::model::cause::Source;
use crate::model::episode::State;
use crate::model::registry::is_built_in_group;
use crate::model::time::{Micros, SECOND, Span};
use std::collections::{BTreeMap, BTreeSet};

/// So many requests at an apiserver show how fast it is.
const MIN_SERVED: f64 = 50.0;
/// Minimum number of requests that need no store, and are missing, before that is called a stop and not chance.
const MIN_STORELESS: f64 = 5.0;
/// So many requests of one kind by one client show how fast they are.
const MIN_OF_PAIR: f64 = 8.0;
/// A client is slowed down, as those of a slow apiserver are, if its requests take at least this many times as long as
/// before (as a logarithm: twice).
const DIVIDED_SLOW: f64 = 0.7;
/// A client is as fast as before if they take at most this many times as long (as a logarithm: 1.3 times).
const DIVIDED_FAST: f64 = 0.25;
/// Minimum number of clients that are slowed down, and of those that are as fast as before.
const MIN_CALLERS: usize = 3;
/// Minimum number of clients whose reads are slowed down, and of those whose writes are as fast as before.
const MIN_OF_CLASS: usize = 2;
/// Where slow requests spent this part of their time in queues, it is their priority level that divides clients.
const MUCH_QUEUED: f64 = 0.2;
/// An apiserver of which at least this part of the requests fails is not silent: it answers, with errors.
const MUCH_FAILED: f64 = 0.2;

/// So many seconds of slow requests show where they spend their time.
const MIN_NOTED: f64 = 10.0;

/// How many times as much work was asked for that could be why, where there is a time to compare with.
pub(super) fn growth_of(case: &Case<'_>, view: &View<'_>) -> Option<f64> {
    view.has_baseline().then(|| view.growth() * (1.0 - case.harmless()))
}

pub(super) fn is_within((from, to): Span, span: Span) -> bool {
    from <= span.1 && to >= span.0
}

/// Logarithm of how many times more watches start than before.
fn watches(view: &View<'_>) -> f64 {
    let [was, now] = view.rate(|profile| profile.tiles.watches);
    ln_times(now, was, 0.3).clamp(0.0, 3.0)
}

/// All that requests within took, and where they spent it.
fn all_kinds(view: &View<'_>) -> Count {
    view.within.kinds.values().fold(Count::default(), |mut sum, own| {
        sum.add(own);
        sum
    })
}

/// How far slow requests were elsewhere than in etcd (0) or webhooks (1): wholly where these had a twentieth of their
/// time or less, not from a fifth on. Only where most of the time of all requests is that of slow ones, of which audit
/// logs say where they were. (Slow writes alone do not show it: those that wait for an etcd that stands still have no
/// part of it noted.)
pub(super) fn elsewhere(view: &View<'_>, which: usize) -> f64 {
    let all = all_kinds(view);
    let is_known = all.spent.iter().any(|spent| *spent > 0.0) && all.noted >= MIN_NOTED.max(0.5 * all.seconds);
    if is_known { ((0.2 - all.spent[which] / all.noted) / 0.15).clamp(0.0, 1.0) } else { 0.0 }
}

/// Of the time that slow requests took, the part that they spent in etcd (0), webhooks (1), the queue (2).
pub(super) fn spent(view: &View<'_>, which: usize) -> f64 {
    let all = all_kinds(view);
    let noted: f64 = all.spent.iter().sum();
    if noted < 0.5 { 0.0 } else { (all.spent[which] / all.seconds.max(noted)).min(1.0) }
}

/// Admission webhooks that are slow or fail.
pub(super) fn webhooks(case: &Case<'_>) -> Option<Candidate> {
    let writes = |class: Class| class == Class::Write;
    let (drag_of, drag) = case.most(|view| view.slower(writes).map(|own| own.0))?;
    let slow = case.most(|view| view.narrow(|_, count| count.slow)).map_or(0.0, |own| own.1);
    let failed = case.most(|view| view.narrow(|kind, count| view.failed(kind, count))).map_or(0.0, |own| own.1);
    let (flat_of, flat) = case.flat();
    let reads = |class: Class| matches!(class, Class::Read | Class::Review);
    let of_reads = case.most(|view| view.slower(reads).map(|own| own.0)).map_or(0.0, |own| own.1);
    let is_hook = |fault| fault == Fault::WebhookFailed;
    let mut named = 0.0;
    let mut candidate = Candidate::new("webhook-drag")
        .with("drag_writes", drag_of, drag.clamp(0.0, 5.0))
        .with("drag_reads", drag_of, of_reads.clamp(0.0, 5.0))
        .with("narrow", drag_of, slow)
        .with("narrow_errors", drag_of, failed)
        .with("failing", drag_of, case.most(|view| view.failing()).map_or(0.0, |own| own.1))
        .with("failing_all", drag_of, case.most(|view| view.failing_all()).map_or(0.0, |own| own.1))
        .with("reads_fail", drag_of, case.most(|view| view.failing_reads()).map_or(0.0, |own| own.1))
        .with("one_apiserver", drag_of, one_alone(case))
        .with("flat", flat_of, flat);
    if let Some(view) = case.audit() {
        candidate = candidate
            .with("spent_webhook", Source::Audit, spent(view, 1))
            .with("spent_queue", Source::Audit, spent(view, 2))
            .with("elsewhere", Source::Audit, elsewhere(view, 1))
            .with("watches", Source::Audit, watches(view));
        named = view.named(is_hook)[0];
        // Who could not call a webhook says so, so that any other message speaks against it.
        let other = view.faults.part(|fault| !is_hook(fault) && fault != Fault::Starting, view.within.tiles.errors);
        candidate = candidate.with("named", Source::Audit, named).with("named_other", Source::Audit, other);
        candidate.name = view.faults.most(is_hook).map(|own| own.0.to_owned());
    }
    // Most exclude leases, but not all.
    let leases = case.most(|view| view.failing_leases()).map_or(0.0, |own| own.1) * (1.0 - named);
    candidate = candidate.with("leases_failing", drag_of, leases);
    if let Some(vitals) = case.vitals {
        let mut is_fast = false;
        let names: BTreeSet<&str> = vitals.of(Vital::Webhook).map(|course| course.name.as_str()).collect();
        let of = |name: &&str| Some((case.vital(Vital::Webhook, 0.01, name)?, (*name).to_owned()));
        let slowest = names.iter().filter_map(of).max_by(|a, b| a.0.1.total_cmp(&b.0.1));
        if let Some(((times, now), name)) = slowest {
            is_fast = times < AS_FAST && case.goes_on(Vital::Webhook);
            candidate = candidate.with("webhook_times", Source::Metrics, times.clamp(-1.0, 4.0)).with(
                "webhook_slow",
                Source::Metrics,
                (now * 1e3 / WEBHOOK_SLOW_MS).min(SLOWEST),
            );
            candidate.name.get_or_insert(name);
        } else {
            candidate = candidate.with("no_webhook", Source::Metrics, 1.0);
            // Apiservers count each call of an admission webhook; those that convert objects are counted nowhere.
            let is_noted = case.audit().is_some_and(|view| named > 0.0 || spent(view, 1) > 0.0);
            let is_counted = vitals.of(Vital::EtcdRequest).next().is_some();
            let converts =
                case.views.iter().any(|view| view.slowest_write().is_some_and(|group| !is_built_in_group(group)));
            if names.is_empty() && is_counted && !is_noted && !converts {
                return None;
            }
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
        } else if is_fast {
            candidate = candidate.with("webhook_fast", Source::Metrics, 1.0);
        }
    }
    Some(candidate)
}

/// An apiserver restarted or was away, and its clients reconnected.
pub(super) fn restart(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.first()?;
    let mut candidate = Candidate::new("relist-storm");
    let away = case.draft.deviations.iter().find_map(|own| match own.signal {
        Signal::Away(instance) => Some((own.source, instance)),
        _ => None,
    });
    if let Some((source, instance)) = away {
        let of = case.views.iter().find(|view| view.source() == source)?;
        candidate.name = of.requests.instances().get(instance).cloned();
    }
    let is_stood_still = stood_still(case);
    let (from, to) = (case.draft.span.0 - BEFORE, case.draft.span.1);
    let aways = case.draft.deviations.iter().filter(|own| matches!(own.signal, Signal::Away(_)));
    let mut begins = aways.map(|own| own.span.0).min();
    let mut started = None;
    // What the logs say of starts.
    let of_log = case.audit().and_then(|log| {
        // Of several the one that fits best: others may be how the record begins.
        let apart = |at: Micros| late(case, at).max(over_before(case, at));
        let its = log.series.starts.iter().filter(|(span, _)| is_within(*span, (from, to)));
        let own = its.min_by(|a, b| apart(a.0.0).total_cmp(&apart(b.0.0)).then(a.cmp(b)))?;
        Some((own.0.0, log.requests.instances().get(own.1).cloned()))
    });
    if let Some((at, instance)) = of_log {
        started = Some(Source::Audit);
        begins = begins.into_iter().chain([at]).min();
        candidate.name = candidate.name.or(instance);
    }
    if let Some(vitals) = case.vitals {
        let start = vitals.apiserver_starts((from, to)).min_by_key(|own| own.at);
        if let Some(start) = start {
            let gone = vitals.of(Vital::Unreachable).filter(|own| own.instance == start.instance);
            let gone = gone.flat_map(|own| &own.points).map(|point| point.span.0);
            let gone = gone.filter(|at| (from..start.at).contains(at));
            // Where there is no log, nothing is known of it since its last page.
            let seen = start.seen.filter(|_| case.audit().is_none());
            begins = begins.into_iter().chain(gone).chain([start.at]).chain(seen).min();
            started = Some(Source::Metrics);
            candidate.name.get_or_insert_with(|| start.instance.clone());
        } else if started.is_none()
            && !is_still(case)
            && !is_stood_still
            && (away.is_none() || case.draft.state != State::Ongoing)
        {
            // One that is away still has not started yet.
            candidate = candidate.with("none_started", Source::Metrics, 1.0);
        }
    }
    // What a restart brings with it speaks for it as far as it began the episode.
    let late = begins.map_or(0.0, |begins| late(case, begins).max(over_before(case, begins)));
    if begins.is_some() {
        candidate = candidate.with("began_late", view.source(), late);
    }
    if let Some((source, _)) = away {
        candidate = candidate.with("away", source, 1.0 - late);
    }
    candidate.features.extend(came_back(case, view));
    // No weight is this one's: with it, the sentence is about all of several apiservers.
    let is_all = case.has(|own| *own == Signal::Silence) > 0.0 && view.requests.instances().len() > 1;
    candidate = candidate.with("stood_still", view.source(), f64::from(u8::from(is_stood_still))).with(
        "all_away",
        view.source(),
        f64::from(u8::from(is_all)),
    );
    if let Some(source) = started {
        candidate = candidate.with("started", source, 1.0 - late);
    }
    if case.vitals.is_some_and(|vitals| {
        vitals.of(Vital::OomKills).flat_map(|own| &own.points).any(|own| is_within(own.span, (from, to)))
    }) {
        candidate = candidate.with("killed", Source::Cgroup, 1.0);
    }
    if view.source() == Source::Audit {
        let watching = |profile: &Profile| {
            let pairs = profile.pairs.iter().filter(|(key, _)| view.requests.kinds()[key.1 as usize][0] == "watch");
            pairs.filter(|(_, count)| count.requests > 0.0).map(|(key, _)| key.0).collect::<BTreeSet<u32>>().len()
        };
        let callers = view.within.pairs.keys().map(|key| key.0).collect::<BTreeSet<u32>>().len();
        candidate = candidate.with("watches", Source::Audit, (1.0 - late) * watches(view)).with(
            "watchers",
            Source::Audit,
            (1.0 - late) * watching(&view.within) as f64 / callers.max(1) as f64,
        );
    }
    Some(candidate.with("writes_stop", view.source(), case.stops()))
}

/// Whether an apiserver is away by the logs, counts hardly anything by its pages then, and nobody went to the others:
/// it stood still, and need not have started.
fn is_still(case: &Case<'_>) -> bool {
    let pages = case.views.iter().find(|view| view.source() == Source::Metrics);
    let (Some(log), Some(pages)) = (case.audit(), pages) else { return false };
    let is_it = |own: &Deviation| match own.signal {
        Signal::Away(instance) if own.source == Source::Audit => {
            stops::one_stops(pages.series, own.span) && !stops::is_taken_over(log.series, instance, own.span)
        }
        _ => false,
    };
    case.draft.deviations.iter().any(is_it)
}

/// Whether all apiservers of the logs were silent and answered not even what needs no store: whatever waits for etcd
/// leaves those alone.
pub(super) fn stood_still(case: &Case<'_>) -> bool {
    let Some(view) = case.audit() else { return false };
    let series = view.series;
    let storeless = || series.tiles.iter().map(|tile| tile.storeless).collect::<Vec<f64>>();
    let is_it = |own: &Deviation| {
        let is_inside = |at: &usize| series.grid.start(*at) >= own.span.0 && series.grid.start(at + 1) <= own.span.1;
        let inside: Vec<usize> = (0..series.tiles.len()).filter(is_inside).collect();
        let expected = series.typical_of(&storeless()) * inside.iter().map(|at| series.grid.seconds(*at)).sum::<f64>();
        let is_empty = |at: &usize| series.tiles[*at].all().requests + series.tiles[*at].watches == 0.0;
        expected >= MIN_STORELESS && inside.iter().all(is_empty)
    };
    case.draft.deviations.iter().any(|own| own.signal == Signal::Silence && is_it(own))
}

/// Whether all apiservers of the logs were silent and clients reconnected then: that their logs are missing would look
/// the same but for these. As far as they do not answer with errors, which what is away can't.
fn came_back(case: &Case<'_>, view: &View<'_>) -> Option<Feature> {
    if view.source() != Source::Audit {
        return None;
    }
    let silences = case.draft.deviations.iter().filter(|own| own.signal == Signal::Silence);
    let silences: Vec<Span> = silences.map(|own| own.span).collect();
    // Where it goes again and again, the other times say nothing of what is usual.
    let others = |own: &Span| silences.iter().filter(|other| *other != own).copied().collect::<Vec<Span>>();
    let is_back = silences.iter().any(|own| stops::reconnect(view.series, own.1, &others(own)));
    let failed = view.within.tiles.errors / view.within.tiles.requests.max(1.0);
    let value = if is_back { (1.0 - failed / MUCH_FAILED).max(0.0) } else { 0.0 };
    Some(Feature { name: "came_back", value, source: Source::Audit })
}

/// How far a start was over before its episode began: clients come back within seconds, and those that wait for their
/// turn within a minute.
fn over_before(case: &Case<'_>, begins: Micros) -> f64 {
    let since = (case.draft.span.0 - begins) as f64 / SECOND as f64;
    ((since - 60.0) / 40.0).clamp(0.0, 1.0)
}

/// How far something began after its episode.
fn late(case: &Case<'_>, begins: Micros) -> f64 {
    began_after(case.draft.span.0, begins)
}

/// One apiserver carries too much.
pub(super) fn imbalance(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.first().filter(|view| view.requests.instances().len() > 1)?;
    let share = |profile: &Profile| {
        let all: f64 = profile.instances.iter().sum();
        profile.instances.iter().map(|own| own / all.max(1.0)).collect::<Vec<f64>>()
    };
    let now = share(&view.within);
    // Where there is no other time, an even load is all that there is to compare with.
    let was = if view.has_baseline() { share(&view.before) } else { vec![1.0 / now.len() as f64; now.len()] };
    let (place, more) =
        now.iter().zip(&was).map(|(now, was)| now - was).enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut candidate = Candidate::new("imbalance");
    candidate.name = view.requests.instances().get(place).cloned();
    let away = case.has(Signal::is_away);
    let (flat_of, flat) = case.flat();
    let candidate = candidate
        .with("moved", flat_of, more.clamp(0.0, 1.0) * flat)
        .with("shift", view.source(), more.clamp(0.0, 1.0))
        .with("skew", view.source(), (now[place] * now.len() as f64 - 1.0).clamp(0.0, 1.0))
        .with("away", view.source(), away);
    Some(candidate)
}

/// One of several apiservers is slow, though no more work arrives at it and the others are as fast as before.
pub(super) fn apiserver(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.first()?;
    let own = slowest(view).or_else(|| divided(view))?;
    let mut candidate = Candidate::new("apiserver-slow")
        .with("one_slower", view.source(), own.slower.clamp(0.0, 2.0) * (1.0 - case.of_disk()))
        .with("rest_slower", view.source(), own.rest.clamp(0.0, 3.0))
        .with("load_here", view.source(), own.growth.clamp(0.0, 0.5))
        .with("away", view.source(), case.has(Signal::is_away));
    candidate.name = own.place.and_then(|place| view.requests.instances().get(place).cloned());
    Some(candidate)
}

/// The one of several apiservers whose requests became slowest.
struct Slowest {
    /// Where it stands; `None` where the log does not say which it is.
    place: Option<usize>,
    /// Logarithm of how many times longer its requests take than before.
    slower: f64,
    /// The same of all others.
    rest: f64,
    /// By which part the work grew that is asked of it, beyond as much as was added at another one that is not slow.
    growth: f64,
}

impl Slowest {
    /// How much slower it is than what it shares with the others can make it.
    fn alone(&self) -> f64 {
        self.slower - 2.0 * self.rest.max(0.0)
    }
}

fn slowest(view: &View<'_>) -> Option<Slowest> {
    let slower = |[was, now]: [&Served; 2]| now.mean_drag() - was.mean_drag();
    let is_known = |[was, now]: [&Served; 2]| was.timed.min(now.timed) >= MIN_SERVED;
    let of_each = view.before.served.iter().zip(&view.within.served).map(|(was, now)| [was, now]).enumerate();
    let (place, own) = of_each.filter(|own| is_known(own.1)).max_by(|a, b| slower(a.1).total_cmp(&slower(b.1)))?;
    let rest = |profile: &Profile| {
        let mut sum = Served::default();
        profile.served.iter().enumerate().filter(|own| own.0 != place).for_each(|own| sum.add(own.1));
        sum
    };
    let (was, now) = (rest(&view.before), rest(&view.within));
    let by_second = |own: &Served, profile: &Profile| own.work / profile.seconds.max(1.0);
    let added = |[was, now]: [&Served; 2]| by_second(now, &view.within) - by_second(was, &view.before);
    let others = view.before.served.iter().zip(&view.within.served).map(|(was, now)| [was, now]).enumerate();
    let is_fast = |other: [&Served; 2]| is_known(other) && slower(other) < AS_FAST;
    let elsewhere = others.filter(|other| other.0 != place && is_fast(other.1)).map(|other| added(other.1));
    let elsewhere = elsewhere.fold(0.0, f64::max);
    is_known([&was, &now]).then(|| Slowest {
        place: Some(place),
        slower: slower(own),
        rest: slower([&was, &now]),
        growth: (added(own) - elsewhere) / by_second(own[0], &view.before).max(1e-3),
    })
}

/// One log of several apiservers, of which one is slow: clients stay with theirs, so that all that some of them ask for
/// is slow, reads and writes, and all that others do as fast as before. Neither etcd nor a webhook divides clients so;
/// waits in the queue of a priority level do.
fn divided(view: &View<'_>) -> Option<Slowest> {
    if view.source() != Source::Audit || view.requests.instances().len() > 1 || spent(view, 2) > MUCH_QUEUED {
        return None;
    }
    // Callers of whose kinds some are slow and others fast, by caller: an apiserver would slow all of them.
    let mut mixed: BTreeMap<u32, [bool; 2]> = BTreeMap::new();
    // By caller, of reads and of writes: the sum of logarithms of how many times longer they take, and how many.
    let mut by_caller: BTreeMap<u32, [[f64; 2]; 2]> = BTreeMap::new();
    for (&(caller, kind), now) in &view.within.pairs {
        // Kubelets are one caller of many connections.
        let is_one = !view.requests.callers()[caller as usize][0].ends_with(":*");
        let class = view.series.classes[kind as usize];
        let was = view.before.pairs.get(&(caller, kind)).copied().unwrap_or_default();
        let is_known = is_one && class != Class::Long && was.timed.min(now.timed) >= MIN_OF_PAIR;
        if let (true, Some(was), Some(mean)) = (is_known, was.mean(), now.mean()) {
            let times = slowdown(mean, was);
            let both = mixed.entry(caller).or_default();
            *both = [both[0] || times >= DIVIDED_SLOW, both[1] || times < DIVIDED_FAST];
            let own = &mut by_caller.entry(caller).or_default()[usize::from(class == Class::Write)];
            *own = [own[0] + now.timed * times, own[1] + now.timed];
        }
    }
    let mean = |[sum, count]: [f64; 2]| (count > 0.0).then(|| sum / count);
    let callers: Vec<[Option<f64>; 3]> = by_caller
        .into_values()
        .map(|[reads, writes]| [mean([reads[0] + writes[0], reads[1] + writes[1]]), mean(reads), mean(writes)])
        .collect();
    let slow_in_part = mixed.values().filter(|own| own[0] && own[1]).count();
    if 2 * slow_in_part > mixed.values().filter(|own| own[0]).count() {
        return None;
    }
    let of = |place: usize, is_its: fn(f64) -> bool| -> Vec<f64> {
        callers.iter().filter_map(|own| own[place]).filter(|own| is_its(*own)).collect()
    };
    let is_slow = |own: f64| own >= DIVIDED_SLOW;
    let is_fast = |own: f64| own < DIVIDED_FAST;
    let (mut slow, mut fast) = (of(0, is_slow), of(0, is_fast));
    let are_both = of(1, is_slow).len() >= MIN_OF_CLASS && !of(2, is_slow).is_empty();
    let is_split = slow.len().min(fast.len()) >= MIN_CALLERS && 4 * (slow.len() + fast.len()) >= 3 * callers.len();
    if !is_split || !are_both || of(2, is_fast).len() < MIN_OF_CLASS {
        return None;
    }
    let work = |profile: &Profile| profile.tiles.work / profile.seconds.max(1.0);
    let [before, within] = [work(&view.before), work(&view.within)];
    Some(Slowest {
        place: None,
        slower: median(&mut slow)?,
        rest: median(&mut fast)?,
        growth: (within - before) / before.max(1e-3),
    })
}

/// How far one of several apiservers is slow and the others as fast as before, though as much of what was asked for
/// more arrives at one of these: wholly from 1 on.
pub(super) fn slow_elsewhere(case: &Case<'_>, view: &View<'_>) -> f64 {
    let Some(own) = slowest(view).filter(|own| own.growth <= 0.1) else { return 0.0 };
    (own.alone() * (1.0 - case.of_disk())).clamp(0.0, 1.0)
}

/// How far one of several apiservers is slower than what all of them share can make it.
pub(super) fn one_alone(case: &Case<'_>) -> f64 {
    let own = case.views.first().and_then(|view| slowest(view).or_else(|| divided(view)));
    own.map_or(0.0, |own| own.alone().clamp(0.0, 2.0))
}

/// Memory of an apiserver ran short.
pub(super) fn memory(case: &Case<'_>) -> Option<Candidate> {
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
    // Where nobody felt more than that the killed apiserver was away, its memory is why, whoever filled it.
    let is_only_away = killed.is_some() && case.has(Signal::is_away) > 0.0 && case.has(Signal::is_felt) == 0.0;
    let candidate = candidate.with("only_away", Source::Cgroup, f64::from(u8::from(is_only_away)));
    Some(candidate)
}

/// A controller of the control plane stopped.
pub(super) fn controllers<'c>(case: &Case<'c>) -> Option<Candidate> {
    let name_of = |own: &'c Deviation| match own.signal {
        Signal::ControllerSilent(name) => Some((own, name)),
        _ => None,
    };
    let silent: Vec<(&Deviation, &str)> = case.draft.deviations.iter().filter_map(name_of).collect();
    let first = silent.iter().map(|own| own.0).min_by_key(|own| own.span.0)?;
    let names: BTreeSet<&str> = silent.iter().map(|own| own.1).collect();
    // One that can't write to the store for longer than its lease lasts ends itself.
    let is_felt = |own: &Signal| own.is_felt() || own.is_away();
    let mut candidate = Candidate::new("controllers-down")
        .with(
            if first.baseline > 0.0 || first.source == Source::Audit { "silent" } else { "unbound" },
            first.source,
            1.0,
        )
        .with("late", first.source, late(case, first.span.0))
        .with("impact", first.source, case.has(is_felt));
    candidate.name = Some(names.into_iter().collect::<Vec<&str>>().join(" and "));
    Some(candidate)
}

/// Many nodes were lost together.
pub(super) fn nodes(case: &Case<'_>) -> Option<Candidate> {
    let lost = case.draft.deviations.iter().filter(|own| own.signal == Signal::NodesLost);
    let lost = lost.max_by(|a, b| a.level.total_cmp(&b.level))?;
    // Kubelets that can't reach the control plane, or whose writes it does not take, are lost as a consequence.
    let is_felt = |own: &Signal| own.is_felt() || own.is_away();
    Some(
        Candidate::new("nodes-lost")
            .with("marked", lost.source, 1.0)
            .with("nodes", lost.source, lost.level)
            .with("late", lost.source, late(case, lost.span.0))
            .with("impact", lost.source, case.has(is_felt)),
    )
}
