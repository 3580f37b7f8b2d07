//! Findings on a heap (docs/findings.md).

use super::measure::{Counted, Lists, Measured};
use crate::model::report::{Finding, Severity};
use crate::model::units::{bytes, percent};
use serde_json::json;

/// Of what is in use, LIST responses dominate from this share on.
const HELD_SHARE: f64 = 0.3;
/// From this share and this many bytes on, one more burst like it may be the last.
const HELD_MOST: (f64, u64) = (0.5, 1 << 30);
/// Below this many bytes a heap is no problem whatever it holds.
const HELD_BYTES: u64 = 16 << 20;
/// Of what was allocated, they dominate from this share on,
const MADE_SHARE: f64 = 0.5;
/// if they are no fewer bytes.
const MADE_BYTES: u64 = 256 << 20;
/// Fewer samples than this say little of a share.
const FEW_SAMPLES: u64 = 20;

/// What to do about either.
const REMEDY: &str = "find the clients that list without a limit (plimsoll traffic AUDIT-LOG --by \
     user,resource,list-kind --where verb=list), and make them page (limit=500) or use an informer; until then isolate \
     them by a FlowSchema with a priority level of its own";

/// The findings on what was counted; of a comparison, on what is new.
pub(super) fn findings(measured: &Measured<'_>, compares: bool) -> Vec<Finding> {
    let held = measured.lists.get("inuse_space").and_then(|lists| held(measured, lists));
    let made = measured.lists.get("alloc_space").and_then(|lists| made(measured, lists, compares));
    held.into_iter().chain(made).collect()
}

fn found(measured: &Measured<'_>, id: &str, severity: Severity, samples: u64) -> Finding {
    let now = || measured.profiles.iter().filter(|profile| profile.when == 1);
    let instances: Vec<&str> =
        now().map(|profile: &Counted| profile.instance.as_str()).filter(|name| !name.is_empty()).collect();
    let finding = Finding::new(id, severity, &[("instance", &instances.join(","))])
        .confidence(if samples < FEW_SAMPLES { 0.6 } else { 0.9 })
        .remedy(REMEDY);
    let times = || now().filter_map(|profile| profile.at);
    match times().min().zip(times().max()) {
        Some(span) => finding.seen(span),
        None => finding,
    }
}

fn numbers([part_name, all_name, share_name]: [&str; 3], part: u64, all: u64, samples: u64) -> serde_json::Value {
    let share = (part as f64 / all as f64 * 1e6).round() / 1e6;
    json!({part_name: part, all_name: all, share_name: share, "samples": samples})
}

/// LIST responses are most of what is in use.
fn held(measured: &Measured<'_>, lists: &Lists) -> Option<Finding> {
    let (part, all) = (lists.held[1], lists.all[1]);
    let share = part as f64 / all as f64;
    if part < HELD_BYTES || share < HELD_SHARE || !lists.largest {
        return None;
    }
    let critical = share >= HELD_MOST.0 && part >= HELD_MOST.1;
    let severity = if critical { Severity::Critical } else { Severity::Warning };
    let finding = found(measured, "heap-list-responses", severity, lists.samples)
        .summary(format!(
            "responses to LIST requests hold {} of {} in use ({})",
            bytes(part as f64),
            bytes(all as f64),
            percent(share)
        ))
        .evidence(numbers(["list_bytes", "heap_bytes", "list_share"], part, all, lists.samples));
    Some(finding)
}

/// Most of what was allocated was for LIST responses.
fn made(measured: &Measured<'_>, lists: &Lists, compares: bool) -> Option<Finding> {
    // A process that has restarted in between has allocated less than before.
    let new = |[before, now]: [u64; 2]| if compares { now.checked_sub(before) } else { Some(now) };
    let (part, all) = (new(lists.held)?, new(lists.all)?);
    let share = part as f64 / all as f64;
    if part < MADE_BYTES || share < MADE_SHARE {
        return None;
    }
    let since = if compares { "between the two profiles" } else { "since the process started" };
    let finding = found(measured, "heap-list-allocations", Severity::Warning, lists.samples)
        .summary(format!(
            "{} of {} allocated {since} were for responses to LIST requests ({})",
            bytes(part as f64),
            bytes(all as f64),
            percent(share)
        ))
        .evidence(numbers(["list_bytes", "allocated_bytes", "list_share"], part, all, lists.samples));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn of(name: &'static str, lists: Lists) -> Measured<'static> {
        Measured { lists: BTreeMap::from([(name, lists)]), ..Measured::default() }
    }

    #[test]
    fn lists_are_found_where_they_are_most_of_a_heap_that_matters() {
        let ids = |part: u64, all: u64, largest: bool| {
            let lists = Lists { held: [0, part], all: [0, all], samples: 30, largest };
            findings(&of("inuse_space", lists), false)
                .iter()
                .map(|f| (f.id.clone(), f.severity, f.confidence))
                .collect::<Vec<_>>()
        };
        let found = |severity| vec![("heap-list-responses".to_owned(), severity, 0.9)];
        assert_eq!(ids(30 << 20, 100 << 20, true), found(Severity::Warning));
        assert_eq!(ids(1 << 30, 2 << 30, true), found(Severity::Critical));
        for (part, all, largest) in
            [(29 << 20, 100 << 20, true), (30 << 20, 100 << 20, false), (15 << 20, 20 << 20, true), (0, 0, true)]
        {
            assert!(ids(part, all, largest).is_empty(), "{part} of {all}");
        }
    }

    #[test]
    fn what_was_allocated_counts_from_profile_to_profile() {
        let lists = Lists { held: [1 << 30, 3 << 30], all: [9 << 30, 12 << 30], samples: 5, largest: false };
        let made = findings(&of("alloc_space", lists), true);
        assert_eq!(
            (made[0].id.as_str(), made[0].confidence, &made[0].evidence["list_share"]),
            ("heap-list-allocations", 0.6, &json!(0.666667))
        );
        assert!(findings(&of("alloc_space", lists), false).is_empty());
        let restarted = Lists { held: [3 << 30, 1 << 30], all: [9 << 30, 1 << 30], ..lists };
        assert!(findings(&of("alloc_space", restarted), true).is_empty());
    }
}
