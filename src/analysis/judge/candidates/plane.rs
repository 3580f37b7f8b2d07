//! Causes that are parts of the control plane: etcd, webhooks, apiservers and their memory.

use super::{BEFORE, Candidate, Case, Feature, View, ln_times};
use crate::analysis::judge::profile::{Count, Profile};
use crate::analysis::judge::requests::Class;
use crate::analysis::judge::signals::{Deviation, Signal};
use crate::analysis::judge::stops;
use crate::analysis::judge::vitals::Vital;
use crate::analysis::metrics::facts::Component;
use crate::model::cause::Source;
use crate::model::time::{Micros, SECOND, Span};
use std::collections::BTreeSet;

/// A vital whose logarithm of how many times its baseline it is lies below this is as fast as before.
const AS_FAST: f64 = 0.35;
/// Where this part of the requests fails, they are answered.
const MUCH_FAILED: f64 = 0.2;

/// etcd is slow, stands still, or has no leader.
pub(super) fn store(case: &Case<'_>) -> Option<Candidate> {
    let writes = |class: Class| class == Class::Write;
    let reads = |class: Class| matches!(class, Class::Read | Class::Review);
    let (drag_of, drag) = case.most(|view| view.slower(writes).map(|own| own.0))?;
    let breadth = case.most(|view| view.slower(writes).map(|own| own.1)).map_or(0.0, |own| own.1);
    let of_reads = case.most(|view| view.slower(reads).map(|own| own.0)).map_or(0.0, |own| own.1);
    let narrow = case.most(|view| view.narrow(|count| count.slow)).map_or(0.0, |own| own.1);
    let (flat_of, flat) = case.flat();
    let mut candidate = Candidate::new("slow-etcd")
        .with("drag_writes", drag_of, drag.clamp(0.0, 5.0))
        .with("breadth_writes", drag_of, breadth)
        .with("drag_reads", drag_of, of_reads.clamp(0.0, 5.0))
        .with("narrow", drag_of, narrow)
        .with("load", drag_of, case.most(|view| Some(view.growth())).map_or(0.0, |own| own.1).clamp(0.0, 3.0))
        .with("failing_all", drag_of, case.most(|view| view.failing_all()).map_or(0.0, |own| own.1))
        .with("writes_stop", drag_of, case.stops())
        .with("flat", flat_of, flat);
    if let Some(view) = case.audit() {
        candidate = candidate.with("spent_etcd", Source::Audit, spent(view, 0)).with(
            "spent_queue",
            Source::Audit,
            spent(view, 2),
        );
    }
    let asked = case.vital(Vital::EtcdRequest, 0.005, "");
    if let Some((times, now)) = asked {
        candidate = candidate.with("etcd_requests", Source::Metrics, times.clamp(-1.0, 4.0)).with(
            "etcd_requests_slow",
            Source::Metrics,
            (now / 0.1).min(3.0),
        );
    }
    let commit = case.vital(Vital::EtcdCommit, 0.005, "").map(|own| own.0);
    let fsync = case.vital(Vital::EtcdFsync, 0.003, "").map(|own| own.0);
    let disk = commit.into_iter().chain(fsync).max_by(f64::total_cmp);
    if let Some(times) = disk {
        candidate = candidate.with("etcd_disk", Source::Metrics, times.clamp(-1.0, 4.0));
    }
    if let Some(vitals) = case.vitals {
        let lost = vitals.of(Vital::EtcdLeader).flat_map(|course| &course.points);
        let is_lost = lost.filter(|point| point.value == 0.0).any(|point| is_within(point.span, case.draft.span));
        let changes = vitals.mean(Vital::EtcdLeaderChanges, case.draft.span, |_| true).map_or(0.0, |own| own.0 * own.1);
        let is_new = vitals
            .starts
            .iter()
            .find(|start| start.component == Component::Etcd && is_within((start.at, start.at), case.draft.span));
        let is_away = vitals
            .of(Vital::Unreachable)
            .filter(|course| course.name == Component::Etcd.name())
            .flat_map(|course| &course.points)
            .any(|point| is_within(point.span, case.draft.span));
        let is_changed = is_lost || changes >= 0.5;
        let is_member = |own: &Deviation| own.signal == Signal::MemberRestart;
        let members: BTreeSet<&str> = vitals.of(Vital::EtcdLeader).map(|course| course.instance.as_str()).collect();
        let is_all = members.len() > 1 && case.draft.deviations.iter().all(is_member);
        candidate.name = is_new.map(|start| start.instance.clone());
        let is_new = is_new.is_some();
        candidate = candidate
            .with("leader", Source::Metrics, f64::from(u8::from(is_changed)))
            .with("etcd_away", Source::Metrics, f64::from(u8::from(is_away || is_new)))
            .with("member_alone", Source::Metrics, f64::from(u8::from(is_all)));
        let is_slow = disk.is_some_and(|times| times >= AS_FAST) || is_changed || is_away || is_new;
        if asked.is_some_and(|(times, _)| times < AS_FAST) && !is_slow && case.goes_on(Vital::EtcdRequest) {
            candidate = candidate.with("etcd_fast", Source::Metrics, 1.0);
        }
    }
    Some(candidate)
}

fn is_within((from, to): Span, span: Span) -> bool {
    from <= span.1 && to >= span.0
}

/// Logarithm of how many times more watches start than before.
fn watches(view: &View<'_>) -> f64 {
    let [was, now] = view.rate(|profile| profile.tiles.watches);
    ln_times(now, was, 0.3).clamp(0.0, 3.0)
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
pub(super) fn webhooks(case: &Case<'_>) -> Option<Candidate> {
    let writes = |class: Class| class == Class::Write;
    let (drag_of, drag) = case.most(|view| view.slower(writes).map(|own| own.0))?;
    let slow = case.most(|view| view.narrow(|count| count.slow)).map_or(0.0, |own| own.1);
    let failed = case.most(|view| view.narrow(|count| count.errors)).map_or(0.0, |own| own.1);
    let (flat_of, flat) = case.flat();
    let reads = |class: Class| matches!(class, Class::Read | Class::Review);
    let of_reads = case.most(|view| view.slower(reads).map(|own| own.0)).map_or(0.0, |own| own.1);
    let mut candidate = Candidate::new("webhook-drag")
        .with("drag_writes", drag_of, drag.clamp(0.0, 5.0))
        .with("drag_reads", drag_of, of_reads.clamp(0.0, 5.0))
        .with("narrow", drag_of, slow)
        .with("narrow_errors", drag_of, failed)
        .with("failing", drag_of, case.most(|view| view.failing()).map_or(0.0, |own| own.1))
        .with("failing_all", drag_of, case.most(|view| view.failing_all()).map_or(0.0, |own| own.1))
        .with("flat", flat_of, flat);
    if let Some(view) = case.audit() {
        candidate = candidate
            .with("spent_webhook", Source::Audit, spent(view, 1))
            .with("spent_queue", Source::Audit, spent(view, 2))
            .with("watches", Source::Audit, watches(view));
    }
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
    let (from, to) = (case.draft.span.0 - BEFORE, case.draft.span.1);
    let aways = case.draft.deviations.iter().filter(|own| matches!(own.signal, Signal::Away(_)));
    let mut begins = aways.map(|own| own.span.0).min();
    let mut is_started = false;
    if let Some(vitals) = case.vitals {
        let start = vitals.apiserver_starts((from, to)).min_by_key(|own| own.at);
        if let Some(start) = start {
            let gone = vitals.of(Vital::Unreachable).filter(|own| own.instance == start.instance);
            let gone = gone.flat_map(|own| &own.points).map(|point| point.span.0);
            let gone = gone.filter(|at| (from..start.at).contains(at));
            begins = begins.into_iter().chain(gone).chain([start.at]).min();
            is_started = true;
            candidate.name.get_or_insert_with(|| start.instance.clone());
        } else if !is_still(case) {
            candidate = candidate.with("none_started", Source::Metrics, 1.0);
        }
    }
    // What a restart brings with it speaks for it as far as it began the episode.
    let late = begins.map_or(0.0, |begins| late(case, begins));
    if begins.is_some() {
        candidate = candidate.with("began_late", view.source(), late);
    }
    if let Some((source, _)) = away {
        candidate = candidate.with("away", source, 1.0 - late);
    }
    candidate.features.extend(came_back(case, view));
    if is_started {
        candidate = candidate.with("started", Source::Metrics, 1.0 - late);
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

/// Whether the only apiserver of the logs was silent and clients reconnected then: that its log is missing would look
/// the same but for these. As far as it does not answer with errors, which what is away can't.
fn came_back(case: &Case<'_>, view: &View<'_>) -> Option<Feature> {
    if view.source() != Source::Audit || view.requests.instances().len() > 1 {
        return None;
    }
    let is_it = |own: &Deviation| own.signal == Signal::Silence && stops::reconnect(view.series, own.span.1);
    let failed = view.within.tiles.errors / view.within.tiles.requests.max(1.0);
    let value = if case.draft.deviations.iter().any(is_it) { (1.0 - failed / MUCH_FAILED).max(0.0) } else { 0.0 };
    Some(Feature { name: "came_back", value, source: Source::Audit })
}

/// How far something began after its episode: from 20 s on, and wholly from a minute on.
fn late(case: &Case<'_>, begins: Micros) -> f64 {
    let late = (begins - case.draft.span.0) as f64 / SECOND as f64;
    ((late - 20.0) / 40.0).clamp(0.0, 1.0)
}

/// One apiserver carries too much.
pub(super) fn imbalance(case: &Case<'_>) -> Option<Candidate> {
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
    let away = case.has(Signal::is_away);
    let (flat_of, flat) = case.flat();
    let candidate = candidate
        .with("moved", flat_of, more.clamp(0.0, 1.0) * flat)
        .with("shift", view.source(), more.clamp(0.0, 1.0))
        .with("skew", view.source(), (now[place] * now.len() as f64 - 1.0).clamp(0.0, 1.0))
        .with("away", view.source(), away);
    Some(candidate)
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
