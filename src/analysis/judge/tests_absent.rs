//! The judge on what only its absence shows: a scheduler that is down, an apiserver that stands still.

use super::Episode;
use super::tests::{CONFIGMAPS, Cell, GET, LEASES, Made, Paged, first, found_in, judged, tiles, within};
use super::vitals::{Start, Vitals};
use crate::analysis::metrics::facts::Component;
use crate::model::episode::{Grade, State};

const CREATED: usize = 4;
const BOUND: usize = 5;
const MARKED: usize = 6;

/// Pods that are created, bound and marked by interval, beside all else; the scheduler never asks for anything.
fn with_pods(of: impl Fn(usize) -> [f64; 3]) -> Made {
    let mut made =
        Made::new(60, |_, (caller, ..), own| Cell { count: if caller == 1 { 0.0 } else { own.count }, ..own });
    let kinds = [["create", "", "pods", ""], ["create", "", "pods", "binding"], ["patch", "", "pods", "status"]];
    made.axes.kinds.extend(kinds.map(|kind| kind.map(str::to_owned)));
    made.axes.callers[0][0] = "system:kube-controller-manager".to_owned();
    made.axes.callers[1][0] = "system:kube-scheduler".to_owned();
    for tile in 0..60 {
        for (kind, count) in [CREATED, BOUND, MARKED].into_iter().zip(of(tile)).filter(|own| own.1 > 0.0) {
            made.rows.push((tile, (2, kind, 0), Cell { count, errors: 0.0, throttled: 0.0, seconds: 0.006 }));
        }
    }
    made
}

fn by_pages(mut made: Made) -> Vec<Episode> {
    made.axes.callers = vec![Default::default()];
    made.rows.iter_mut().for_each(|(_, (caller, ..), _)| *caller = 0);
    found_in(&[&Paged(made)], None)
}

#[test]
fn a_scheduler_that_is_never_seen_is_down_where_pods_wait() {
    let found = judged(&with_pods(|tile| [if tile >= 20 { 2.0 } else { 0.0 }, 0.0, 0.0]), None);
    assert_eq!((found.len(), found[0].grade, found[0].state), (1, Grade::Incident, State::Ongoing));
    assert_eq!((tiles(&found[0]), first(&found[0]).0), ((0, 60), "controllers-down"));
    assert_eq!(found[0].causes[0].name.as_deref(), Some("kube-scheduler"));
    assert!(found[0].is_silence());
    // A client that asks for more meanwhile is compared with other times.
    let mut made = with_pods(|_| [2.0, 0.0, 0.0]);
    made.rows.iter_mut().filter(|own| within(own.0) && own.1.0 == 3).for_each(|own| own.2.count *= 20.0);
    let found = judged(&made, None);
    assert_eq!((found.len(), first(&found[1])), (2, ("client-surge", Some("team:3"))));
    let [before, _] = &found[1].profiles[0].1;
    assert!(before.seconds > 60.0);
    // Somebody else binds them; they do not fit, which somebody says; there are few, or for a moment only.
    assert!(judged(&with_pods(|_| [2.0, 2.0, 0.0]), None).is_empty());
    assert!(judged(&with_pods(|_| [2.0, 0.0, 2.0]), None).is_empty());
    assert!(judged(&with_pods(|tile| [f64::from(u8::from(tile % 10 == 0)), 0.0, 0.0]), None).is_empty());
    assert!(judged(&with_pods(|tile| [if tile >= 55 { 2.0 } else { 0.0 }, 0.0, 0.0]), None).is_empty());
    // Nor is anything known where the log has no leases.
    let mut made = with_pods(|_| [2.0, 0.0, 0.0]);
    made.axes.callers[0][0] = "team:0".to_owned();
    assert!(judged(&made, None).is_empty());
}

#[test]
fn pages_show_a_scheduler_that_stops_by_pods_that_wait() {
    let found = by_pages(with_pods(|tile| [2.0, if within(tile) { 0.0 } else { 2.0 }, 0.0]));
    assert_eq!((found.len(), tiles(&found[0]), first(&found[0]).0), (1, (20, 32), "controllers-down"));
    assert!(by_pages(with_pods(|_| [2.0, 2.0, 0.0])).is_empty());
    // Pods of which nobody ever bound one.
    let mut made = with_pods(|_| [2.0, 0.0, 0.0]);
    made.axes.kinds[BOUND] = ["get", "", "nodes", ""].map(str::to_owned);
    assert!(by_pages(made).is_empty());
}

/// An apiserver is silent to all who ask; where one busy client pauses, all others go on.
#[test]
fn a_busy_client_that_pauses_is_no_outage() {
    let made = |others: f64| {
        Made::new(60, |tile, (caller, kind, _), own| {
            let times = match (caller, kind == GET) {
                (0, true) => [200.0, 0.0],
                _ => [1.0, others],
            };
            Cell { count: own.count * times[usize::from(within(tile))], ..own }
        })
    };
    assert!(judged(&made(1.0), None).is_empty());
    // Of pages, which name nobody, what others ask for goes on.
    assert!(by_pages(made(1.0)).is_empty());
    for found in [judged(&made(0.01), None), by_pages(made(0.01))] {
        assert_eq!((found.len(), tiles(&found[0])), (1, (20, 32)));
    }
    assert_eq!(by_pages(made(0.01))[0].grade, Grade::Outage);
}

#[test]
fn a_controller_that_stays_away_after_something_else_is_an_episode_of_its_own() {
    let gone = |tiles: std::ops::Range<usize>| {
        let mut made = Made::new(60, |tile, (caller, kind, _), own| Cell {
            count: if caller == 1 && tiles.contains(&tile) { 0.0 } else { own.count },
            seconds: own.seconds * if (20..24).contains(&tile) && kind >= CONFIGMAPS { 100.0 } else { 1.0 },
            ..own
        });
        made.axes.callers[1][0] = "system:kube-controller-manager".to_owned();
        judged(&made, None)
    };
    let found = gone(21..40);
    assert_eq!((found.len(), first(&found[0]).0, first(&found[1]).0), (2, "slow-etcd", "controllers-down"));
    assert_eq!(tiles(&found[1]), (21, 40));
    // Not for a minute after it.
    let found = gone(21..29);
    assert_eq!((found.len(), first(&found[0]).0, tiles(&found[0]).0), (1, "slow-etcd", 20));
}

#[test]
fn who_undoes_a_rule_as_it_ends_is_named() {
    let changed_at = |at: usize| {
        let mut made = Made::new(60, |tile, (_, kind, _), own| Cell {
            throttled: if within(tile) && kind != LEASES { own.count * 0.1 } else { 0.0 },
            ..own
        });
        made.axes.kinds.push(["delete", "flowcontrol.apiserver.k8s.io", "flowschemas", ""].map(str::to_owned));
        let cell = Cell { count: 1.0, errors: 0.0, throttled: 0.0, seconds: 0.006 };
        made.rows.push((at, (5, made.axes.kinds.len() - 1, 0), cell));
        let found = judged(&made, None);
        assert_eq!((found.len(), tiles(&found[0])), (1, (20, 32)));
        let cause = found[0].causes[0].clone();
        assert!(cause.kind == "too-few-seats" && cause.feature("no_slower") > 0.8 && cause.confidence > 0.5);
        cause.caller.map(|who| who[0].clone())
    };
    for at in [10, 25, 32] {
        assert_eq!(changed_at(at).as_deref(), Some("team:5"), "{at}");
    }
    assert_eq!((changed_at(5), changed_at(40)), (None, None));
}

#[test]
fn the_only_apiserver_stands_still_where_not_even_reviews_are_answered() {
    let stopped = |reviews: f64| {
        let is_stopped = |tile: usize| (20..24).contains(&tile);
        let mut made = Made::new(60, |tile, _, own| match tile {
            tile if is_stopped(tile) => Cell { count: 0.0, ..own },
            // What waited ends then.
            24 => Cell { seconds: 30.0, ..own },
            _ => own,
        });
        made.axes.instances.truncate(1);
        made.rows.iter_mut().for_each(|(_, (_, _, instance), _)| *instance = 0);
        made.axes.kinds.push(["create", "authorization.k8s.io", "subjectaccessreviews", ""].map(str::to_owned));
        let key = (3, made.axes.kinds.len() - 1, 0);
        for tile in 0..60 {
            let count = if is_stopped(tile) { reviews } else { 20.0 };
            made.rows.push((tile, key, Cell { count, errors: 0.0, throttled: 0.0, seconds: 0.001 }));
        }
        judged(&made, None)
    };
    let found = stopped(0.0);
    assert_eq!((found.len(), found[0].grade, first(&found[0]).0), (1, Grade::Outage, "relist-storm"));
    assert_eq!(found[0].causes[0].feature("stood_still"), 1.0);
    assert_eq!(first(&stopped(20.0)[0]).0, "slow-etcd");
}

#[test]
fn one_log_of_several_apiservers_shows_that_one_of_them_is_slow() {
    let merged = |is_slow: fn(usize, usize) -> bool| {
        let mut made = Made::new(60, |tile, (caller, kind, _), own| Cell {
            seconds: if within(tile) && is_slow(caller, kind) { own.seconds * 12.0 + 0.2 } else { own.seconds },
            ..own
        });
        made.axes.instances.truncate(1);
        made.rows.iter_mut().for_each(|(_, (_, _, instance), _)| *instance = 0);
        judged(&made, None)
    };
    let found = merged(|caller, _| caller < 3);
    assert_eq!((found.len(), found[0].grade, first(&found[0]).0), (1, Grade::Incident, "apiserver-slow"));
    assert!(found[0].causes[0].name.is_none() && found[0].causes[0].confidence > 0.8);
    // All writes, which is etcd; those of some clients, which may be a webhook; two clients.
    for (is_slow, is_it) in [
        ((|_, kind| kind == CONFIGMAPS || kind == LEASES) as fn(usize, usize) -> bool, "slow-etcd"),
        (|caller, kind| caller < 3 && kind == CONFIGMAPS, "webhook-drag"),
        (|caller, _| caller < 2, ""),
    ] {
        let found = merged(is_slow);
        assert!(is_it.is_empty() || first(&found[0]).0 == is_it, "{is_it}: {:?}", found[0].causes[0]);
        assert!(found[0].causes.iter().all(|own| own.kind != "apiserver-slow" || own.confidence < 0.2));
    }
}

/// Pages lie a minute apart: that nothing was counted since the last one does not contradict that it was away.
#[test]
fn the_only_apiserver_was_away_since_its_last_page() {
    let late = |seen: Option<usize>| {
        let mut made = Made::new(60, |tile, _, own| Cell { count: if within(tile) { 0.0 } else { own.count }, ..own });
        made.axes.instances.truncate(1);
        made.rows.iter_mut().for_each(|(_, (_, _, instance), _)| *instance = 0);
        let (at, seen) = (made.axes.grid.start(31), seen.map(|tile| made.axes.grid.start(tile)));
        let start = Start { at, component: Component::Apiserver, instance: "a".to_owned(), seen };
        let vitals = Vitals { starts: vec![start], ..Vitals::default() };
        let found = found_in(&[&Paged(made)], Some(&vitals));
        assert_eq!((found.len(), found[0].grade, tiles(&found[0]).0), (1, Grade::Outage, 20));
        found[0].causes.iter().find(|own| own.kind == "relist-storm").map(|own| own.feature("began_late"))
    };
    assert_eq!((late(Some(20)), late(None)), (Some(0.0), Some(1.0)));
}

/// What fails in all of a record, or from its begin on for longer than a start takes, is no start, and not usual.
#[test]
fn what_fails_all_along_or_from_the_begin_on_is_an_outage() {
    let fails = |share: f64, when: std::ops::Range<usize>, is_its: fn(usize) -> bool| {
        judged(
            &Made::new(60, |tile, (_, kind, _), own| {
                let share = if when.contains(&tile) && is_its(kind) { share } else { 0.0 };
                Cell { errors: share * own.count, ..own }
            }),
            None,
        )
    };
    let all: fn(usize) -> bool = |_| true;
    let writes: fn(usize) -> bool = |kind| kind >= 2;
    for (share, is_its, grade) in [(1.0, all, Grade::Outage), (1.0, writes, Grade::Outage), (0.3, all, Grade::Incident)]
    {
        let found = fails(share, 0..60, is_its);
        assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, grade, (0, 60)), "{share}");
    }
    // One kind of request that always fails is somebody's own affair; and so is what fails rarely.
    assert_eq!(fails(1.0, 0..60, |kind| kind == 1).len(), 0);
    assert_eq!(fails(0.1, 0..60, all).len(), 0);
    let found = fails(0.8, 0..6, all);
    assert_eq!((found.len(), found[0].grade), (1, Grade::Outage));
    assert!(tiles(&found[0]).1 <= 7, "{:?}", tiles(&found[0]));
    // A start is not ready for some seconds.
    assert_eq!(fails(0.8, 0..2, all).len(), 0);
}
