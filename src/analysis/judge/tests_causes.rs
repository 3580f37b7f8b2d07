//! Causes that are rarer than load and a slow store, on the same small loads.

use super::faults::Faults;
use super::requests::{Axes, FaultCount, Requests, Row, UNAUTHENTICATED};
use super::tests::{CONFIGMAPS, Cell, GET, LEASES, LIST, Made, Paged, first, found_in, judged, tiles, vitals, within};
use super::vitals::Vital;
use crate::analysis::failure::Fault;
use crate::model::cause::Source;
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
    let found = made(users, 0.3, 20..32);
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Incident, (20, 32)), "{found:?}");
    assert_eq!(found[0].causes[0].kind, "controllers-down");
    assert_eq!(found[0].causes[0].name.as_deref(), Some("kube-controller-manager"));
    assert_eq!(made(users, 0.3, 20..24)[0].grade, Grade::Degraded);
    // For most of the time, up to the end: what comes before is no surge.
    let found = made(users, 0.3, 20..60);
    assert_eq!((found.len(), found[0].state), (1, State::Ongoing), "{found:?}");
    // From before the record's begin on, which is no start that lasts for longer than a minute.
    let found = made(users, 0.3, 0..44);
    assert_eq!((found.len(), tiles(&found[0])), (1, (0, 44)), "{found:?}");
    assert!(made(users, 0.3, 0..5).is_empty());
    // It restarts; it is anybody; its leases are not in the log.
    assert!(made(users, 0.3, 20..22).is_empty());
    assert!(made([users[0], "team:1"], 0.3, 20..32).is_empty());
    assert!(made(users, 0.001, 20..32).is_empty());

    // It has much to do for most of the time, and nothing in the rest; its leases are in the log, or are not.
    for leases in [0.3, 0.0] {
        let mut made = Made::new(60, |tile, (caller, kind, _), own| Cell {
            count: own.count
                * match (caller, kind) {
                    (1, LEASES) => leases,
                    (1, _) if (20..50).contains(&tile) => 3.0,
                    (1, _) => 0.0,
                    _ => 1.0,
                },
            ..own
        });
        made.axes.callers[1][0] = users[1].to_owned();
        let found = judged(&made, None);
        assert!(found.iter().all(|own| own.grade > Grade::Incident && first(own).0 != "controllers-down"));
    }
}

#[test]
fn waiting_in_queues_without_load_is_a_limits() {
    let queued = |times: f64| {
        let made = Made::new(60, |tile, _, own| Cell {
            count: own.count * if within(tile) { times } else { 1.0 },
            seconds: own.seconds + if within(tile) { 0.5 } else { 0.0 },
            ..own
        });
        let waits = vitals(Vital::QueueWait, 100.0, |tile| if (20..32).contains(&tile) { 0.5 } else { 0.001 });
        judged(&made, Some(&waits))
    };
    let seats = |times: f64| {
        let found = queued(times);
        assert_eq!((found.len(), found[0].grade), (1, Grade::Incident), "{found:?}");
        let own = found[0].causes.iter().find(|own| own.kind == "too-few-seats").cloned().unwrap();
        (own.feature("queued_flat"), own.odds())
    };
    let (flat, grown) = (seats(1.0), seats(3.0));
    assert!(flat.0 > 1.0 && flat.1 > -2.0, "{flat:?}");
    assert!(grown.0 == 0.0 && grown.1 < -3.0, "{grown:?}");
}

#[test]
fn who_has_no_valid_credentials_is_seen_by_pages() {
    let made = |refused: fn(usize) -> bool| {
        let mut made = Made::new(60, |_, _, own| own);
        made.axes.callers = vec![Default::default()];
        made.rows.iter_mut().for_each(|(_, (caller, ..), _)| *caller = 0);
        made.axes.kinds.push([UNAUTHENTICATED, "", "", ""].map(str::to_owned));
        let key = (0, made.axes.kinds.len() - 1, 0);
        let cell = Cell { count: 1500.0, errors: 0.0, throttled: 0.0, seconds: 0.001 };
        (0..60).filter(|tile| refused(*tile)).for_each(|tile| made.rows.push((tile, key, cell)));
        found_in(&[&Paged(made)], None)
    };
    let found = made(within);
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Surge, (20, 32)));
    assert_eq!((first(&found[0]).0, found[0].causes[0].feature("unauthenticated")), ("request-surge", 1.0));
    assert!(found[0].causes[0].name.as_deref().is_some_and(|name| name.ends_with("(401)")));
    // Who never had any is no episode.
    assert!(made(|_| true).is_empty());
}

#[test]
fn what_was_so_from_the_begin_on_and_falls_as_something_else_begins_was_usual() {
    // One that lists much comes to list nothing, and another asks for much from then on.
    let made = |pause: usize| {
        Made::new(60, |tile, (caller, kind, _), own| Cell {
            count: own.count
                * match (caller, kind) {
                    (5, LIST) if tile < 15 => 8.0,
                    (4, GET) if (15 + pause..40 + pause).contains(&tile) => 12.0,
                    _ => 1.0,
                },
            ..own
        })
    };
    let found = judged(&made(0), None);
    let spans: Vec<(i64, i64)> = found.iter().map(tiles).collect();
    assert_eq!(spans, [(15, 40)]);
    assert_eq!(first(&found[0]), ("client-surge", Some("team:4")));
    // Where nothing begins, it ended.
    let spans: Vec<(i64, i64)> = judged(&made(20), None).iter().map(tiles).collect();
    assert_eq!(spans, [(0, 15), (35, 60)]);
}

#[test]
fn what_the_audit_policy_leaves_out_is_named_by_pages() {
    let judge_both = |logged: f64| {
        let make = |part: f64| {
            let mut made = Made::new(60, |_, _, own| own);
            made.axes.kinds.push(["create", "", "events", ""].map(str::to_owned));
            let key = (2, made.axes.kinds.len() - 1, 0);
            let cell = |tile| if within(tile) { 2000.0 * part } else { 20.0 * part };
            let row = |tile| (tile, key, Cell { count: cell(tile), errors: 0.0, throttled: 0.0, seconds: 0.006 });
            made.rows.extend((0..60).filter(|_| part > 0.0).map(row));
            made
        };
        let pages = Paged(make(1.0));
        found_in(&[&make(logged), &pages], None)
    };
    let found = judge_both(0.0);
    assert_eq!((found.len(), tiles(&found[0])), (1, (20, 32)));
    assert_eq!((first(&found[0]), found[0].causes[0].feature("unlogged")), (("request-surge", None), 1.0));
    assert_eq!(found[0].causes[0].name.as_deref(), Some("create events"));
    // Where the log has nothing at all, its policy is not what leaves it out.
    let hole = Made::new(60, |tile, _, own| Cell { count: if within(tile) { 0.0 } else { own.count }, ..own });
    let pages = Paged(Made::new(60, |tile, (_, kind, _), own| Cell {
        count: own.count * if within(tile) && kind == LIST { 30.0 } else { 1.0 },
        ..own
    }));
    let found = found_in(&[&hole, &pages], None);
    let causes: Vec<_> = found.iter().flat_map(|own| &own.causes).collect();
    assert!(!causes.is_empty() && causes.iter().all(|own| own.feature("unlogged") == 0.0));
    // Half of them, as of one of two apiservers: who sends them is known.
    assert_eq!(first(&judge_both(0.5)[0]), ("write-burst", Some("team:2")));
}

/// The same, of which a part is changed: how large it is by interval, caller and kind, and what it is.
struct Changed<'m>(&'m Made, &'m dyn Fn(usize, usize, usize) -> f64, fn(&mut Row<'_>, f64));

impl Requests for Changed<'_> {
    fn source(&self) -> Source {
        self.0.source()
    }
    fn axes(&self) -> &Axes {
        self.0.axes()
    }
    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        self.0.each(&mut |mut row| {
            let part = self.1(row.tile, row.caller, row.kind);
            self.2(&mut row, part);
            take(row);
        });
    }
}

fn refuse(row: &mut Row<'_>, part: f64) {
    row.refused = row.requests * part;
}

fn revoke(row: &mut Row<'_>, part: f64) {
    row.unauthorized = row.requests * part;
}

#[test]
fn credentials_of_many_clients_that_are_not_valid_are_an_incident_and_of_one_are_none() {
    let judged = |part: &dyn Fn(usize, usize, usize) -> f64| {
        let made = Made::new(60, |_, _, own| own);
        let requests = Changed(&made, part, revoke);
        found_in(&[&requests], None)
    };
    let found = judged(&|tile, caller, _| if within(tile) && caller < 4 { 0.5 } else { 0.0 });
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Incident, (20, 32)));
    assert_eq!(first(&found[0]), ("credentials-invalid", None));
    assert!(found[0].causes[0].confidence > 0.8 && found[0].causes[0].feature("unauthorized") > 0.2);
    // Two clients; one of which most are; all the time.
    assert!(judged(&|tile, caller, _| if within(tile) && caller < 2 { 1.0 } else { 0.0 }).is_empty());
    let most = |caller: usize| if caller == 0 { 1.0 } else { 0.02 };
    assert!(judged(&|tile, caller, _| if within(tile) && caller < 4 { most(caller) } else { 0.0 }).is_empty());
    assert!(judged(&|_, _, _| 0.2).is_empty());
}

#[test]
fn writes_that_are_refused_to_many_clients_are_an_incident_and_to_one_are_none() {
    let refused = |group: &str, part: &dyn Fn(usize, usize, usize) -> f64| {
        let mut made = Made::new(60, |_, _, own| own);
        made.axes.kinds.push(["create", group, "validatingadmissionpolicybindings", ""].map(str::to_owned));
        let cell = Cell { count: 1.0, errors: 0.0, throttled: 0.0, seconds: 0.006 };
        made.rows.push((20, (5, made.axes.kinds.len() - 1, 0), cell));
        found_in(&[&Changed(&made, part, refuse)], None)
    };
    let of = |tile, kind, wanted| within(tile) && kind == wanted;
    let group = "admissionregistration.k8s.io";
    let found = refused(group, &|tile, caller, kind| if of(tile, kind, CONFIGMAPS) && caller < 4 { 0.3 } else { 0.0 });
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Incident, (20, 32)));
    assert_eq!(first(&found[0]), ("writes-refused", Some("team:5")));
    assert!(found[0].causes[0].confidence > 0.9);
    // Nobody is seen to have changed a rule.
    let found = refused("", &|tile, _, kind| if of(tile, kind, CONFIGMAPS) { 0.3 } else { 0.0 });
    assert_eq!(first(&found[0]), ("writes-refused", None));
    // All controllers of the control plane, as where a namespace is being deleted.
    let mut made = Made::new(60, |_, _, own| own);
    for (number, caller) in made.axes.callers.iter_mut().enumerate() {
        *caller = [format!("system:serviceaccount:kube-system:{number}"), "kube-controller-manager".to_owned()];
    }
    let part = |tile, _, kind| if of(tile, kind, CONFIGMAPS) { 0.3 } else { 0.0 };
    let refusing = Changed(&made, &part, refuse);
    assert!(found_in(&[&refusing], None).is_empty());
    // One client or two; reads and leases; always.
    for caller in [0, 1] {
        let few =
            refused(group, &|tile, own, kind| if of(tile, kind, CONFIGMAPS) && own <= caller { 1.0 } else { 0.0 });
        assert!(few.is_empty());
    }
    assert!(
        refused(group, &|tile, _, kind| if of(tile, kind, LEASES) || of(tile, kind, GET) { 0.5 } else { 0.0 })
            .is_empty()
    );
    assert!(refused(group, &|_, _, kind| if kind == CONFIGMAPS { 0.3 } else { 0.0 }).is_empty());
}

/// Requests whose failures say why.
struct Answered(Made, Vec<FaultCount>);

impl Requests for Answered {
    fn source(&self) -> Source {
        self.0.source()
    }
    fn axes(&self) -> &Axes {
        self.0.axes()
    }
    fn faults(&self) -> &[FaultCount] {
        &self.1
    }
    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        self.0.each(take);
    }
}

#[test]
fn what_messages_name_is_the_cause() {
    // A quarter of the writes of configmaps and of leases fails: of a webhook, of the store, or of neither.
    let of_fault = |fault: Option<Fault>, name: &str| {
        let made = Made::new(60, |tile, (_, kind, _), own| Cell {
            errors: if within(tile) && matches!(kind, CONFIGMAPS | LEASES) { own.count / 4.0 } else { 0.0 },
            ..own
        });
        let of = |tile| fault.map(|fault| FaultCount { tile, fault, name: name.to_owned(), count: 20.0 });
        let answered = Answered(made, (0..60).filter(|tile| within(*tile)).filter_map(of).collect());
        found_in(&[&answered], None)
    };
    for (fault, name, cause) in [
        (Fault::EtcdTimeout, "", "slow-etcd"),
        (Fault::EtcdFull, "", "slow-etcd"),
        (Fault::EtcdLeader, "", "slow-etcd"),
        (Fault::ConversionFailed, "example.com", "api-unavailable"),
        (Fault::Encryption, "", "encryption-failing"),
    ] {
        let found = of_fault(Some(fault), name);
        assert_eq!(
            (found.len(), found[0].grade, first(&found[0]).0),
            (1, Grade::Incident, cause),
            "{fault:?} {found:?}"
        );
        assert!(found[0].causes[0].confidence > 0.8, "{fault:?} {:?}", found[0].causes[0]);
        assert_eq!(found[0].faults.ranked().first().map(|own| own.0), Some(fault));
    }
    let (silent, hook) = (of_fault(None, ""), of_fault(Some(Fault::WebhookFailed), "v.example.com"));
    let odds = |found: &[super::Episode], kind: &str| {
        found[0].causes.iter().find(|own| own.kind == kind).map_or(f64::MIN, |own| own.odds())
    };
    // Webhooks are not asked about leases, whatever a message has; but it is likelier than without.
    assert!(odds(&hook, "webhook-drag") > odds(&silent, "webhook-drag") + 3.0, "{hook:?}");
    assert!(odds(&hook, "slow-etcd") < odds(&silent, "slow-etcd") - 3.0, "{hook:?}");
    let named = hook[0].causes.iter().find(|own| own.kind == "webhook-drag").and_then(|own| own.name.clone());
    assert_eq!(named.as_deref(), Some("v.example.com"));
}

#[test]
fn what_messages_name_all_the_time_is_usual() {
    let each = |tile: usize, count: f64| FaultCount { tile, fault: Fault::EtcdTimeout, name: String::new(), count };
    let made = || Made::new(60, |_, _, own| own);
    let faults = |of: fn(usize) -> f64| {
        let answered = Answered(made(), (0..60).map(|tile| each(tile, of(tile))).collect());
        Faults::of(&answered, [(&vec![10..15, 15..20], 100.0), (&vec![20..40, 40..60], 400.0)]).count(|_| true)
    };
    assert_eq!(faults(|_| 3.0), 0.0);
    assert_eq!(faults(|tile| if tile < 20 { 3.0 } else { 1.0 }), 20.0);
}

#[test]
fn retries_of_what_fails_all_the_time_are_no_episode() {
    // One request in two hundred fails, in clumps of twelve at a time, from the first interval to the last.
    let clumps = |tile: usize| if (tile * 7919) % 11 < 4 { 1.0 } else { 0.0 };
    let made = |extra: f64| {
        Made::new(120, |tile, (caller, kind, instance), own| {
            let is_it = (caller, kind, instance) == (0, CONFIGMAPS, 0);
            let errors = if is_it { 12.0 * clumps(tile) } else { 0.0 };
            let more = if within(tile) && kind == CONFIGMAPS { extra * own.count } else { 0.0 };
            Cell { errors: (errors + more).min(own.count), ..own }
        })
    };
    assert_eq!(judged(&made(0.0), None).len(), 0);
    let found = judged(&made(0.5), None);
    assert_eq!((found.len(), found[0].grade), (1, Grade::Incident));
}

#[test]
fn what_fails_no_slower_than_usual_is_nobody_s_load() {
    let row = |errors: f64, latency: &'static [(f32, f32)]| Row {
        requests: 100.0,
        errors,
        latency,
        ..Row {
            tile: 0,
            caller: 0,
            kind: 0,
            is_start: false,
            controller: None,
            instance: 0,
            requests: 0.0,
            errors: 0.0,
            throttled: 0.0,
            refused: 0.0,
            unauthorized: 0.0,
            spent: [0.0; 3],
            latency: &[],
        }
    };
    // What waits for its deadline is work that could not be done.
    assert_eq!(row(100.0, &[(0.001, 40.0), (10.0, 60.0)]).unserved(0.01), 40.0);
    assert_eq!(row(100.0, &[(10.0, 100.0)]).unserved(0.01), 0.0);
    assert_eq!(row(0.0, &[(0.001, 100.0)]).unserved(0.01), 0.0);
    assert_eq!(row(100.0, &[]).unserved(0.01), 0.0);
}

/// By pages: etcd answers as fast as before, or does not.
#[test]
fn waiting_in_queues_alone_is_a_limits_by_pages_too() {
    let queued = |etcd: f64| {
        let made =
            Made::new(60, |tile, _, own| Cell { seconds: own.seconds + if within(tile) { 0.5 } else { 0.0 }, ..own });
        let mut all = vitals(Vital::QueueWait, 800.0, |tile| if (20..32).contains(&tile) { 0.5 } else { 0.001 });
        let asked = vitals(Vital::EtcdRequest, 500.0, |tile| if (20..32).contains(&tile) { etcd } else { 0.004 });
        all.courses.extend(asked.courses);
        found_in(&[&Paged(made)], Some(&all))
    };
    let found = queued(0.004);
    assert_eq!((found.len(), first(&found[0]).0), (1, "too-few-seats"));
    assert!(found[0].causes[0].feature("queued_alone") > 0.7 && found[0].causes[0].confidence > 0.9);
    let found = queued(0.2);
    assert_eq!(first(&found[0]).0, "slow-etcd");
    assert!(found[0].causes.iter().all(|own| own.feature("queued_alone") == 0.0));
}
