//! Causes that are rarer than load and a slow store, on the same small loads.

use super::tests::{CONFIGMAPS, Cell, GET, LIST, Made, first, judged, tiles, within};
use crate::model::episode::{Grade, State};

#[test]
fn what_fails_of_one_api_group_is_its_servers() {
    let made = |bad: fn(usize) -> bool, group: &str| {
        let mut made = Made::new(60, |tile, (_, kind, _), own| Cell {
            errors: if within(tile) && bad(kind) { own.count } else { 0.0 },
            ..own
        });
        made.axes.kinds[LIST][1] = group.to_owned();
        judged(&made, None)
    };
    let found = made(|kind| kind == LIST, "metrics.k8s.io");
    assert_eq!((found.len(), found[0].grade, first(&found[0]).0), (1, Grade::Incident, "api-unavailable"), "{found:?}");
    assert_eq!(found[0].causes[0].name.as_deref(), Some("metrics.k8s.io"));
    // Writes of all others fail, too; or apiservers serve the group themselves.
    for found in [made(|kind| kind != GET, "metrics.k8s.io"), made(|kind| kind == LIST, "apps")] {
        assert_eq!(found.len(), 1, "{found:?}");
        assert_ne!(first(&found[0]).0, "api-unavailable", "{found:?}");
    }
}

#[test]
fn an_apiserver_that_is_slow_alone_is_named() {
    let made = |slow: fn(usize) -> bool, times: f64| {
        let made = Made::new(60, |tile, (_, _, instance), own| {
            let is_it = within(tile) && slow(instance);
            Cell {
                seconds: own.seconds * if is_it { 40.0 } else { 1.0 },
                count: own.count * if is_it { times } else { 1.0 },
                ..own
            }
        });
        judged(&made, None)
    };
    let found = made(|instance| instance == 1, 1.0);
    assert_eq!((found.len(), found[0].grade, first(&found[0]).0), (1, Grade::Incident, "apiserver-slow"), "{found:?}");
    assert_eq!(found[0].causes[0].name.as_deref(), Some("b"));
    // Both; or more work arrives at it.
    assert_ne!(first(&made(|_| true, 1.0)[0]).0, "apiserver-slow");
    assert_ne!(first(&made(|instance| instance == 1, 3.0)[0]).0, "apiserver-slow");
}

#[test]
fn throttling_without_load_is_a_limits_and_watches_that_are_not_kept_are_load() {
    let throttled = |kinds: [usize; 2], group: &str| {
        let mut made = Made::new(60, |tile, (_, kind, _), own| Cell {
            throttled: if within(tile) && kinds.contains(&kind) { own.count } else { 0.0 },
            ..own
        });
        // Somebody writes one in the episode.
        made.axes.kinds.push(["update", group, "flowschemas", ""].map(str::to_owned));
        let cell = Cell { count: 1.0, errors: 0.0, throttled: 0.0, seconds: 0.006 };
        made.rows.push((21, (5, made.axes.kinds.len() - 1, 0), cell));
        judged(&made, None)
    };
    let found = throttled([GET, CONFIGMAPS], "flowcontrol.apiserver.k8s.io");
    assert_eq!((found.len(), found[0].grade), (1, Grade::Incident), "{found:?}");
    assert_eq!(first(&found[0]), ("too-few-seats", Some("team:5")));
    assert!(throttled([GET, CONFIGMAPS], "example.com")[0].causes[0].confidence < 0.5);

    // One client starts watches again and again; all else is slower meanwhile.
    let churned = |caller: &str| {
        let mut made = Made::new(60, |tile, (_, kind, _), own| Cell {
            seconds: own.seconds * if within(tile) && kind != LIST { 40.0 } else { 1.0 },
            ..own
        });
        made.axes.kinds.push(["watch", "", "pods", ""].map(str::to_owned));
        made.axes.callers[4][0] = caller.to_owned();
        let watch = (4, made.axes.kinds.len() - 1, 0);
        let cell = Cell { count: 300.0, errors: 0.0, throttled: 0.0, seconds: 0.002 };
        (20..32).for_each(|tile| made.rows.push((tile, watch, cell)));
        judged(&made, None)
    };
    assert_eq!(first(&churned("team:4")[0]), ("client-surge", Some("team:4")));
    assert_eq!(first(&churned("system:kube-scheduler")[0]).0, "slow-etcd");
}

#[test]
fn a_controller_that_asks_for_nothing_has_stopped() {
    let made = |users: [&str; 2], rate: f64, gone: std::ops::Range<usize>| {
        let mut made = Made::new(60, |tile, (caller, _, _), own| Cell {
            count: own.count
                * if caller < 2 { rate } else { 1.0 }
                * if caller == 1 && gone.contains(&tile) { 0.0 } else { 1.0 },
            ..own
        });
        for (caller, user) in made.axes.callers.iter_mut().zip(users) {
            caller[0] = user.to_owned();
        }
        judged(&made, None)
    };
    let users = ["system:kube-scheduler", "system:kube-controller-manager"];
    let found = made(users, 0.1, 20..32);
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Incident, (20, 32)), "{found:?}");
    assert_eq!(found[0].causes[0].kind, "controllers-down");
    assert_eq!(found[0].causes[0].name.as_deref(), Some("kube-controller-manager"));
    assert_eq!(made(users, 0.1, 20..24)[0].grade, Grade::Degraded);
    // For most of the time, up to the end: what comes before is no surge.
    let found = made(users, 0.1, 20..60);
    assert_eq!((found.len(), found[0].state), (1, State::Ongoing), "{found:?}");
    // It restarts; it is anybody; its leases are not in the log.
    assert!(made(users, 0.1, 20..22).is_empty());
    assert!(made([users[0], "team:1"], 0.1, 20..32).is_empty());
    assert!(made(users, 0.001, 20..32).is_empty());
}
