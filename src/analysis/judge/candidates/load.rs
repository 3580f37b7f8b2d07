//! Causes that are somebody's requests.

use super::plane::{elsewhere, spent};
use super::reactions::moved;
use super::rules::{is_flow, writer};
use super::{AS_FAST, BEFORE, Candidate, Case, Grown, Operation, TWICE, View, began_after, ln_times};
use crate::analysis::judge::profile::{Added, Count};
use crate::analysis::judge::requests::{Class, Kind, MORE, UNAUTHENTICATED};
use crate::analysis::judge::signals::Signal;
use crate::analysis::judge::vitals::Vital;
use crate::model::cause::Source;
use crate::model::time::{Micros, SECOND, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Callers that are examined, those that added most work.
const CALLERS: usize = 6;
/// What happens so close to the begin of an episode happened with it, in µs.
const WITH: Micros = 20 * SECOND;
/// A deletion of fewer objects is small.
const MIN_DELETED_OBJECTS: f64 = 20.0;
/// Fewer requests that audit logs do not hold are chance.
const MIN_UNLOGGED: f64 = 20.0;
/// Audit logs that hold less than this part of what pages count leave it out.
const LOGGED: f64 = 0.1;
/// Requests that wait for less than this on average wait for nothing, s.
const NO_WAIT_S: f64 = 0.002;
/// From this logarithm of how many times longer requests take seats may be full for that: one and a half.
const LONGER: f64 = 0.405;

/// Callers that ask for more.
pub(super) fn callers(case: &Case<'_>, view: &View<'_>, grown: &[Grown]) -> Vec<Candidate> {
    let added: f64 = grown.iter().map(|own| own.added.work).sum();
    let breadth = breadth(grown.iter().map(|own| own.added.rps));
    // What the control plane does about objects of others counts as theirs.
    let moved = moved(view);
    let moved = |own: &Grown| moved.get(&own.caller).copied().unwrap_or_default();
    let caused = |own: &Grown| own.added.work + moved(own)[0];
    let most = grown.iter().map(caused).fold(0.0, f64::max);
    let rise = |own: &Grown| own.added.rps[1] - own.added.rps[0];
    let rose: f64 = grown.iter().map(|own| rise(own).max(0.0)).sum();
    let (flat_of, flat) = case.flat();
    let of = |own: &Grown| {
        let Added { rps, throttled, work, .. } = own.added;
        let share = part(caused(own).max(0.0), added);
        let share_rps = part((rise(own) + moved(own)[1]).max(0.0), rose);
        let reactions = part(moved(own)[0].max(0.0), added);
        let is_write = own.writes >= 0.5 * work;
        let mut candidate = Candidate::new(if is_write { "write-burst" } else { "client-surge" });
        candidate.caller = Some(view.requests.callers()[own.caller].clone());
        let is_its = |signal: &Signal| *signal == Signal::Caller(own.caller);
        let with = || case.draft.deviations.iter().filter(|other| is_its(&other.signal));
        let onset = with().any(|other| (other.span.0 - case.draft.span.0).abs() <= WITH.max(other.slack));
        let is_own = view.series.is_own[own.caller];
        let all: f64 = view.rate(|profile| profile.tiles.requests)[0];
        candidate
            .with("share", Source::Audit, share)
            .with("grown", Source::Audit, share * (1.0 - flat))
            .with("leads", Source::Audit, if caused(own) >= most { 1.0 - flat } else { 0.0 })
            .with("breadth", Source::Audit, breadth)
            .with("share_rps", Source::Audit, share_rps)
            .with("times", Source::Audit, ln_times(rps[1], rps[0], 0.2).clamp(0.0, 4.0))
            .with("size", Source::Audit, (rise(own) / all.max(0.5)).clamp(0.0, 3.0))
            .with("onset", Source::Audit, f64::from(u8::from(onset)))
            .with("throttled", Source::Audit, (throttled / rps[1].max(0.1)).clamp(0.0, 1.0))
            .with("control_plane", Source::Audit, f64::from(u8::from(is_own)))
            .with("began_late", Source::Audit, after_impact(case, with().map(|other| other.span.0).min()))
            .with("flat", flat_of, flat)
            // No weight is this one's: with it, the evidence says so.
            .with("reactions", Source::Audit, reactions)
    };
    grown.iter().filter(|own| own.added.work > 0.0).take(CALLERS).map(of).collect()
}

/// How far a load began after what it would be the cause of.
fn after_impact(case: &Case<'_>, begins: Option<Micros>) -> f64 {
    let felt = case.draft.deviations.iter().filter(|own| own.is_impact()).map(|own| own.span.0).min();
    felt.zip(begins).map_or(0.0, |(felt, begins)| began_after(felt, begins))
}

/// Requests that nobody can be named for: there are no audit logs, or their policy leaves these out.
pub(super) fn unnamed(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.iter().find(|view| view.source() == Source::Metrics)?;
    let grown = view.grown_kinds();
    let added: f64 = grown.iter().map(|own| own.1.work).sum();
    let (kind, most) = grown.iter().copied().max_by(|a, b| a.1.work.total_cmp(&b.1.work).then(b.0.cmp(&a.0)))?;
    let own = &view.requests.kinds()[kind as usize];
    let audit = case.audit();
    if audit.is_some_and(|audit| may_be_logged(audit, own, view.within.kinds[&kind].requests)) {
        return None;
    }
    // Without a baseline everything is more than before; LISTs alone show by what they cost that they are many.
    if !view.has_baseline() && view.series.classes[kind as usize] != Class::List {
        return None;
    }
    let share = part(most.work, added);
    let is_write = view.series.classes[kind as usize] == Class::Write;
    let (flat_of, flat) = case.flat();
    let mut candidate = Candidate::new("request-surge");
    let [verb, _, resource, _] = own;
    let what = if resource.is_empty() { "other paths" } else { resource };
    candidate.name = Some(match verb.as_str() {
        UNAUTHENTICATED => "requests without valid credentials (401)".to_owned(),
        verb => format!("{verb} {what}"),
    });
    let candidate = candidate
        .with("share", Source::Metrics, share)
        .with("grown", Source::Metrics, share * (1.0 - flat))
        .with("growth", Source::Metrics, view.growth().clamp(0.0, 4.0))
        .with("writes", Source::Metrics, f64::from(u8::from(is_write)))
        .with("unauthenticated", Source::Metrics, f64::from(u8::from(verb == UNAUTHENTICATED)))
        .with("unlogged", Source::Metrics, f64::from(u8::from(audit.is_some())))
        .with("breadth", Source::Metrics, breadth(grown.iter().map(|own| own.1.rps)))
        .with("flat", flat_of, flat);
    Some(candidate)
}

/// Whether a kind of audit logs is one of pages, which have the paths of what is no resource in the place of
/// subresources.
fn is_same(logged: &Kind, kind: &Kind) -> bool {
    logged[..3] == kind[..3] && (kind[2].is_empty() || logged[3] == kind[3])
}

/// Whether audit logs hold requests of a kind of which pages count so many, or may hold them: the log of one of several
/// apiservers may be missing, or the part of this time. Credentials that are not valid have no kind there, and what
/// apiservers ask themselves is left out.
fn may_be_logged(audit: &View<'_>, kind: &Kind, counted: f64) -> bool {
    let of = |(own, count): (&u32, &Count)| {
        if is_same(&audit.requests.kinds()[*own as usize], kind) { count.requests } else { 0.0 }
    };
    let logged: f64 = audit.within.kinds.iter().map(of).sum();
    kind[0] == UNAUTHENTICATED
        || audit.requests.leaves_out(kind)
        || counted.min(audit.within.tiles.requests) < MIN_UNLOGGED
        || logged >= LOGGED * counted
}

/// LISTs of one resource, whoever sends them: where several clients do, none of them is the cause alone.
pub(super) fn lists(case: &Case<'_>) -> Option<Candidate> {
    let view = case.audit()?;
    let mut by_resource: BTreeMap<&str, (f64, BTreeMap<u32, f64>)> = BTreeMap::new();
    let mut all = 0.0;
    for (caller, kind, Added { work, .. }) in view.pairs() {
        all += work;
        if view.series.classes[kind as usize] == Class::List && work > 0.0 {
            let own = by_resource.entry(view.requests.kinds()[kind as usize][2].as_str()).or_default();
            own.0 += work;
            *own.1.entry(caller).or_default() += work;
        }
    }
    let (resource, (added, callers)) = by_resource.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let top = callers.values().fold(0.0, |top: f64, own| top.max(*own)) / added;
    let (flat_of, flat) = case.flat();
    let mut candidate = Candidate::new("expensive-lists");
    candidate.name = Some(resource.to_owned());
    let many = callers.values().filter(|own| **own >= 0.02 * added).count();
    let candidate = candidate
        .with("share", Source::Audit, part(added, all))
        .with("top", Source::Audit, top)
        .with("callers", Source::Audit, many as f64)
        .with("flat", flat_of, flat);
    Some(candidate)
}

/// Of all requests at baseline, the part of callers (or kinds) that now send so many times more that they ask for more.
fn breadth(rps: impl Iterator<Item = [f64; 2]>) -> f64 {
    let (mut more, mut all) = (0.0, 0.0);
    for [before, within] in rps {
        more += if within >= MORE * before { before } else { 0.0 };
        all += before;
    }
    part(more, all)
}

/// A part of a whole; 0 of nothing.
fn part(own: f64, all: f64) -> f64 {
    if all > 0.0 { own / all } else { 0.0 }
}

/// Everybody asks for more; where nobody is named, everything is asked for more.
pub(super) fn everybody(case: &Case<'_>, grown: Option<Vec<Grown>>) -> Option<Candidate> {
    let view = case.views.first()?;
    let parts: Vec<Added> = match grown {
        Some(grown) => grown.into_iter().map(|own| own.added).collect(),
        None => view.grown_kinds().into_iter().map(|own| own.1).collect(),
    };
    let added: f64 = parts.iter().map(|own| own.work).sum();
    let top = parts.iter().fold(0.0, |top: f64, own| top.max(own.work)) / added.max(1e-9);
    let (flat_of, flat) = case.flat();
    let breadth = breadth(parts.iter().map(|own| own.served));
    let candidate = Candidate::new("load-surge")
        .with("breadth", view.source(), breadth)
        .with("nearly_all", view.source(), ((breadth - 0.7) / 0.3).clamp(0.0, 1.0))
        .with("top", view.source(), top)
        .with("growth", view.source(), view.growth().clamp(0.0, 4.0))
        .with("flat", flat_of, flat);
    Some(candidate)
}

/// Priority and fairness throttles (429), or makes requests wait, though no more is asked for: a level has too few
/// seats, or none.
pub(super) fn limits(case: &Case<'_>) -> Option<Candidate> {
    let view = case.views.first()?;
    let throttled = view.within.tiles.rejected();
    let is_throttled = case.has(|own| *own == Signal::Throttled) > 0.0 && throttled > 0.0;
    let changed = case.audit().and_then(|view| {
        let by = writer(view, case.draft.span, is_flow)?;
        Some(view.requests.callers()[by].clone())
    });
    let queued = case.vital(Vital::QueueWait, NO_WAIT_S, "").map(|own| own.0);
    // Where slow requests were, by their annotations.
    let noted = case.audit().map_or(0.0, |view| elsewhere(view, 0) * elsewhere(view, 1) * spent(view, 2));
    let alone = if noted > 0.0 { (Source::Audit, noted) } else { (Source::Metrics, waits_alone(case)) };
    if !is_throttled && changed.is_none() && noted == 0.0 && queued.is_none_or(|times| times < TWICE) {
        return None;
    }
    let (flat_of, flat) = case.flat();
    let mut candidate = Candidate::new("too-few-seats")
        .with("throttled_flat", flat_of, if is_throttled { flat } else { 0.0 })
        .with("no_slower", flat_of, if is_throttled { flat * no_slower(view) } else { 0.0 })
        .with("queued_alone", alone.0, flat * alone.1)
        // No weight is this one's: with it, the sentence says so.
        .with("flat", flat_of, flat)
        .with("away", view.source(), case.has(Signal::is_away));
    if let Some(times) = queued {
        candidate = candidate.with("queued_flat", Source::Metrics, flat * times.clamp(0.0, 2.0));
    }
    if view.source() == Source::Audit {
        let mut by_caller: BTreeMap<u32, f64> = BTreeMap::new();
        for (key, own) in &view.within.pairs {
            *by_caller.entry(key.0).or_default() += own.throttled;
        }
        let top = by_caller.values().fold(0.0, |top: f64, own| top.max(*own));
        candidate = candidate.with("one_caller", Source::Audit, part(top, by_caller.values().sum())).with(
            "limits_changed",
            Source::Audit,
            // Where more is asked for, limits may be changed for that.
            if changed.is_some() { flat } else { 0.0 },
        );
        candidate.caller = changed;
    }
    Some(candidate)
}

/// Of the time that requests take, the part that they wait in queues, where pages say that neither etcd nor webhooks
/// answer more slowly: whoever holds seats holds them no longer than before. Requests wait at all apiservers then; at
/// one of them alone, it carries too much, or is slow itself.
fn waits_alone(case: &Case<'_>) -> f64 {
    let view = case.views.iter().find(|view| view.source() == Source::Metrics);
    let (Some(view), Some(vitals)) = (view, case.vitals) else { return 0.0 };
    let is_slower = |vital, noise| case.vital(vital, noise, "").is_some_and(|(times, _)| times >= AS_FAST);
    if !case.goes_on(Vital::EtcdRequest) || is_slower(Vital::EtcdRequest, 0.005) || is_slower(Vital::Webhook, 0.005) {
        return 0.0;
    }
    let names: BTreeSet<&str> = vitals.of(Vital::QueueWait).map(|course| course.instance.as_str()).collect();
    let waits = |name: &&str| {
        let mean =
            |span: Span| vitals.mean(Vital::QueueWait, span, |course| course.instance == **name).map(|own| own.0);
        let now = mean(case.draft.span).unwrap_or(0.0);
        ln_times(now, mean(case.baseline).unwrap_or(0.0), NO_WAIT_S) >= TWICE
    };
    if !names.iter().all(waits) {
        return 0.0;
    }
    let waited = vitals.mean(Vital::QueueWait, case.draft.span, |_| true).map_or(0.0, |(mean, count)| mean * count);
    let took: f64 = view.within.kinds.values().map(|own| own.seconds).sum();
    part(waited, took).min(1.0)
}

/// How far what is served takes no longer than usual: seats that are held for longer would be full, too. Where most
/// are throttled, which takes no time, nothing shows it.
fn no_slower(view: &View<'_>) -> f64 {
    let drag = view.slower(|_| true).map_or(0.0, |own| own.0);
    let tiles = &view.within.tiles;
    (1.0 - drag / LONGER).clamp(0.0, 1.0) * (1.0 - part(tiles.throttled, tiles.requests))
}

/// What was deleted with a namespace, a definition, a collection.
pub(super) fn cascades(case: &Case<'_>) -> Vec<Candidate> {
    let (from, to) = (case.draft.span.0 - BEFORE, case.draft.span.1);
    let Some(view) = case.audit() else { return Vec::new() };
    let (mut deletes, mut added) = (0.0, 0.0);
    for (caller, kind, Added { work, .. }) in view.pairs() {
        added += work;
        let is_delete = view.requests.kinds()[kind as usize][0].starts_with("delete");
        deletes += if is_delete && view.series.is_own[caller as usize] { work } else { 0.0 };
    }
    let share = part(deletes, added);
    let is_its = |own: &&Operation| (from..to).contains(&own.at) && own.objects >= MIN_DELETED_OBJECTS;
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
