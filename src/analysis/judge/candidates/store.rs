//! etcd as a cause.

use super::plane::{elsewhere, growth_of, is_within, one_alone, spent, stood_still};
use super::{AS_FAST, Candidate, Case, ETCD_SLOW_MS, SLOWEST};
use crate::analysis::failure::Fault;
use crate::analysis::judge::requests::Class;
use crate::analysis::judge::signals::{Deviation, Signal};
use crate::analysis::judge::vitals::{BLOCKED_S, Course, Point, Vital, Vitals};
use crate::analysis::metrics::facts::Component;
use crate::model::cause::Source;
use crate::model::time::Span;
use std::collections::BTreeSet;

/// A database is full from this part of its quota on: what is left is less than what it grows by at once.
const FULL: f64 = 0.98;
/// So many messages that say that the database is full, or that there is no leader, are no chance.
const MIN_CERTAIN: f64 = 3.0;

/// etcd is slow, stands still, or has no leader.
pub(super) fn store(case: &Case<'_>) -> Option<Candidate> {
    let writes = |class: Class| class == Class::Write;
    let reads = |class: Class| matches!(class, Class::Read | Class::Review);
    let (drag_of, drag) = case.most(|view| view.slower(writes).map(|own| own.0))?;
    let breadth = case.most(|view| view.slower(writes).map(|own| own.1)).map_or(0.0, |own| own.1);
    let of_reads = case.most(|view| view.slower(reads).map(|own| own.0)).map_or(0.0, |own| own.1);
    let narrow = case.most(|view| view.narrow(|_, count| count.slow)).map_or(0.0, |own| own.1);
    let (flat_of, flat) = case.flat();
    let mut candidate = Candidate::new("slow-etcd")
        .with("drag_writes", drag_of, drag.clamp(0.0, 5.0))
        .with("breadth_writes", drag_of, breadth)
        .with("drag_reads", drag_of, of_reads.clamp(0.0, 5.0))
        .with("narrow", drag_of, narrow)
        .with("load", drag_of, case.most(|view| growth_of(case, view)).map_or(0.0, |own| own.1).clamp(0.0, 3.0))
        .with("failing_all", drag_of, case.most(|view| view.failing_all()).map_or(0.0, |own| own.1))
        .with("writes_stop", drag_of, case.stops())
        .with("one_apiserver", drag_of, one_alone(case) * (1.0 - case.of_disk()))
        .with("stood_still", drag_of, f64::from(u8::from(stood_still(case))))
        .with("flat", flat_of, flat);
    let (mut is_full, mut is_changed) = ((Source::Audit, false), (Source::Audit, false));
    if let Some(view) = case.audit() {
        let is_so = |wanted: Fault| view.faults.count(|fault| fault == wanted) >= MIN_CERTAIN;
        (is_full.1, is_changed.1) = (is_so(Fault::EtcdFull), is_so(Fault::EtcdLeader));
        let [named, other] = view.named(Fault::is_store);
        candidate = candidate
            .with("spent_etcd", Source::Audit, spent(view, 0))
            .with("spent_queue", Source::Audit, spent(view, 2))
            .with("elsewhere", Source::Audit, elsewhere(view, 0))
            .with("named", Source::Audit, named)
            .with("named_other", Source::Audit, other);
    }
    let asked = case.vital(Vital::EtcdRequest, 0.005, "");
    if let Some((times, now)) = asked {
        candidate = candidate.with("etcd_requests", Source::Metrics, times.clamp(-1.0, 4.0)).with(
            "etcd_requests_slow",
            Source::Metrics,
            (now * 1e3 / ETCD_SLOW_MS).min(SLOWEST),
        );
    }
    let disk = case.disk();
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
        // Where apiservers' pages could not be had either, nobody asked for any.
        let gaps = |component| vitals.unreachable(component).flat_map(|course| &course.points).map(|point| point.span);
        let of_all = |gap: Span| gaps(Component::Apiserver).any(|other| is_within(other, gap));
        let mut of_etcd = gaps(Component::Etcd);
        let is_away = of_etcd.any(|gap| is_within(gap, case.draft.span) && !of_all(gap));
        is_changed = if is_lost || changes >= 0.5 { (Source::Metrics, true) } else { is_changed };
        let is_member = |own: &Deviation| own.signal == Signal::MemberRestart;
        let members: BTreeSet<&str> = vitals.of(Vital::EtcdLeader).map(|course| course.instance.as_str()).collect();
        let is_all = members.len() > 1 && case.draft.deviations.iter().all(is_member);
        candidate.name = is_new.map(|start| start.instance.clone());
        let is_new = is_new.is_some();
        // Only where writes fail is it a cause that the database is full: etcd answers reads as before.
        let is_filled = vitals.highest(Vital::DatabaseFill, case.draft.span).is_some_and(|fill| fill >= FULL)
            && case.has(|own| matches!(own, Signal::Errors | Signal::FailedWrites)) > 0.0;
        is_full = if is_filled { (Source::Metrics, true) } else { is_full };
        let defragmented = defragmented(vitals, case.draft.span);
        if let Some(course) = defragmented {
            candidate.name = Some(course.instance.clone());
            candidate = candidate.with("defragmented", Source::Metrics, 1.0);
        }
        candidate = candidate.with("etcd_away", Source::Metrics, f64::from(u8::from(is_away || is_new))).with(
            "member_alone",
            Source::Metrics,
            f64::from(u8::from(is_all)),
        );
        let is_slow = disk.is_some_and(|times| times >= AS_FAST)
            || is_changed.1
            || is_away
            || is_new
            || is_full.1
            || defragmented.is_some();
        if asked.is_some_and(|(times, _)| times < AS_FAST) && !is_slow && case.goes_on(Vital::EtcdRequest) {
            candidate = candidate.with("etcd_fast", Source::Metrics, 1.0);
        }
    }
    let flag = |is: bool| f64::from(u8::from(is));
    Some(candidate.with("leader", is_changed.0, flag(is_changed.1)).with("store_full", is_full.0, flag(is_full.1)))
}

/// The member of etcd that defragmented within a time, for a second or longer.
fn defragmented(vitals: &Vitals, span: Span) -> Option<&Course> {
    let is_its = |point: &Point| point.value * point.count >= BLOCKED_S && is_within(point.span, span);
    vitals.of(Vital::EtcdDefragmentation).find(|course| course.points.iter().any(is_its))
}
