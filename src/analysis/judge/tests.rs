//! The judge on small loads of which all is known.

use super::candidates::{Candidate, Operation};
use super::requests::{Axes, Caller, Grid, Requests, Row};
use super::vitals::{Course, Point, Start, Vital, Vitals};
use super::{Episode, Input, judge};
use crate::analysis::metrics::facts::Component;
use crate::model::cause::Source;
use crate::model::episode::{Grade, State};
use crate::model::time::{Micros, SECOND, Span};
use proptest::prelude::*;

const TILE: Micros = 10 * SECOND;
const BEGIN: Micros = 1_700_000_000 * SECOND;

/// What one caller asks for in an interval: how many, of which so many fail and are throttled, and seconds each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) count: f64,
    pub(super) errors: f64,
    pub(super) throttled: f64,
    pub(super) seconds: f32,
}

/// Caller, kind, apiserver.
pub(super) type Key = (usize, usize, usize);

#[derive(Debug)]
pub(super) struct Made {
    pub(super) axes: Axes,
    pub(super) rows: Vec<(usize, Key, Cell)>,
}

pub(super) const GET: usize = 0;
pub(super) const LIST: usize = 1;
pub(super) const CONFIGMAPS: usize = 2;
pub(super) const LEASES: usize = 3;

impl Made {
    /// Six callers of all kinds on two apiservers, changed by `change`.
    pub(super) fn new(len: usize, change: impl Fn(usize, Key, Cell) -> Cell) -> Self {
        let kind = |verb: &str, resource: &str| [verb, "", resource, ""].map(str::to_owned);
        let kinds =
            vec![kind("get", "pods"), kind("list", "pods"), kind("update", "configmaps"), kind("update", "leases")];
        let callers: Vec<Caller> = (0..6).map(|n| [format!("team:{n}"), format!("agent-{n}")]).collect();
        let mut rows = Vec::new();
        for tile in 0..len {
            for caller in 0..callers.len() {
                for (kind, (count, seconds)) in
                    [(40.0, 0.004), (2.0, 0.04), (12.0, 0.008), (10.0, 0.006)].iter().enumerate()
                {
                    for instance in 0..2 {
                        let wave = 1.0 + 0.1 * ((tile * 7 + caller * 3 + kind) as f64).sin();
                        let usual = Cell { count: count * wave, errors: 0.0, throttled: 0.0, seconds: *seconds };
                        let key = (caller, kind, instance);
                        rows.push((tile, key, change(tile, key, usual)));
                    }
                }
            }
        }
        let grid = Grid { tile: TILE, phase: 0, span: (BEGIN, BEGIN + len as Micros * TILE) };
        Self { axes: Axes { grid, callers, kinds, instances: vec!["a".to_owned(), "b".to_owned()] }, rows }
    }
}

impl Requests for Made {
    fn source(&self) -> Source {
        Source::Audit
    }
    fn axes(&self) -> &Axes {
        &self.axes
    }
    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        for &(tile, (caller, kind, instance), Cell { count, errors, throttled, seconds }) in &self.rows {
            let latency = [(seconds * 0.8, count as f32 / 2.0), (seconds, count as f32 / 2.0)];
            let spent = [0.0; 3];
            let (requests, is_start, controller, latency) = (count, false, None, latency.as_slice());
            let (refused, unauthorized) = (0.0, 0.0);
            let own = Row {
                tile,
                caller,
                kind,
                is_start,
                controller,
                instance,
                requests,
                errors,
                throttled,
                refused,
                unauthorized,
                spent,
                latency,
            };
            take(own);
        }
    }
}

pub(super) fn judged(made: &Made, vitals: Option<&Vitals>) -> Vec<Episode> {
    found_in(&[made], vitals)
}

/// What is found in requests of a log, of pages, or of both.
pub(super) fn found_in(requests: &[&dyn Requests], vitals: Option<&Vitals>) -> Vec<Episode> {
    judge(&Input { requests, vitals, operations: &[], given: &[] }).episodes
}

/// What becomes of windows that somebody names.
fn named(made: &Made, given: &[Span]) -> Vec<Episode> {
    judge(&Input { requests: &[made], vitals: None, operations: &[], given }).episodes
}

pub(super) fn tiles(own: &Episode) -> (i64, i64) {
    ((own.from - BEGIN + TILE / 2) / TILE, (own.to - BEGIN + TILE / 2) / TILE)
}

pub(super) fn within(tile: usize) -> bool {
    (20..32).contains(&tile)
}

pub(super) fn first(own: &Episode) -> (&'static str, Option<&str>) {
    let Candidate { kind, caller, .. } = &own.causes[0];
    (kind, caller.as_ref().map(|who| who[0].as_str()))
}

#[test]
fn nothing_is_found_where_nothing_is() {
    assert_eq!(judged(&Made::new(60, |_, _, own| own), None).len(), 0);
    // One in a hundred may be slow, and nine that are throttled are chance.
    let made = Made::new(60, |tile, (caller, kind, _), own| Cell {
        throttled: if within(tile) && (caller, kind) == (0, GET) { 0.35 } else { 0.0 },
        ..own
    });
    assert_eq!(judged(&made, None).len(), 0);
}

/// LISTs take 200 ms each, are one in two hundred, and come from one client a hundred times as often.
fn listed_more(seconds: f32) -> Made {
    Made::new(60, |tile, (caller, kind, _), own| match kind {
        LIST => {
            let count = own.count * if caller == 3 && within(tile) { 15.0 } else { 0.15 };
            Cell { count, seconds: 0.2, ..own }
        }
        _ => Cell { seconds: if within(tile) { seconds } else { 0.008 }, ..own },
    })
}

#[test]
fn who_asks_for_more_of_what_takes_long_makes_nobody_slower() {
    // All requests together have a 99th percentile of 8 ms, then of 200 ms; those that were asked for before keep
    // theirs.
    let found = judged(&listed_more(0.008), None);
    assert_eq!((found.len(), found[0].grade), (1, Grade::Surge), "{found:?}");
    let [before, within] = &found[0].profiles[0].1;
    let [was, now, alike] = [&before.latency, &within.latency, &within.alike].map(|own| own.quantile(0.99).unwrap());
    assert!(was < 0.02 && now > 0.15 && alike < 0.02, "{was} {now} {alike}");
    // Where the others wait, too, speed is lost.
    let found = judged(&listed_more(0.08), None);
    assert_eq!((found.len(), found[0].grade), (1, Grade::Degraded), "{found:?}");
}

#[test]
fn a_client_that_lists_is_the_cause_and_who_waits_is_not() {
    let made = Made::new(60, |tile, (caller, kind, _), own| {
        let more = if (caller, kind) == (3, LIST) && within(tile) { 40.0 } else { 1.0 };
        Cell { count: own.count * more, seconds: own.seconds * if within(tile) { 40.0 } else { 1.0 }, ..own }
    });
    let found = judged(&made, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].grade, found[0].state, tiles(&found[0])), (Grade::Incident, State::Ended, (20, 32)));
    assert_eq!(first(&found[0]), ("client-surge", Some("team:3")));
    // The same load, and nobody waits.
    let made = Made::new(60, |tile, (caller, kind, _), own| {
        let more = if (caller, kind) == (3, LIST) && within(tile) { 40.0 } else { 1.0 };
        Cell { count: own.count * more, ..own }
    });
    let found = judged(&made, None);
    assert!(found[0].grade >= Grade::Degraded && first(&found[0]).1 == Some("team:3"), "{found:?}");
    // It goes on when the log ends.
    let made =
        Made::new(40, |tile, (_, _, _), own| Cell { count: own.count * if tile >= 25 { 2.0 } else { 1.0 }, ..own });
    let found = judged(&made, None);
    assert_eq!((found[0].grade, found[0].state, tiles(&found[0])), (Grade::Surge, State::Ongoing, (25, 40)));
    assert_eq!(first(&found[0]).0, "load-surge");
}

#[test]
fn writes_that_are_slow_for_all_are_the_stores_and_of_one_resource_a_webhooks() {
    let is_write = |kind: usize| matches!(kind, CONFIGMAPS | LEASES);
    let store = Made::new(60, |tile, (_, kind, _), own| Cell {
        seconds: if within(tile) && is_write(kind) { 2.0 } else { own.seconds },
        ..own
    });
    let found = judged(&store, None);
    assert_eq!((found.len(), found[0].grade, first(&found[0]).0), (1, Grade::Incident, "slow-etcd"), "{found:?}");
    let webhook = Made::new(60, |tile, (_, kind, _), own| Cell {
        seconds: if within(tile) && kind == CONFIGMAPS { 2.0 } else { own.seconds },
        ..own
    });
    let found = judged(&webhook, None);
    assert_eq!((found.len(), first(&found[0]).0), (1, "webhook-drag"), "{found:?}");
    let failing = Made::new(60, |tile, (_, kind, _), own| Cell {
        errors: if within(tile) && kind == CONFIGMAPS { own.count } else { 0.0 },
        ..own
    });
    let found = judged(&failing, None);
    assert_eq!((found.len(), found[0].grade, first(&found[0]).0), (1, Grade::Incident, "webhook-drag"), "{found:?}");
}

#[test]
fn an_apiserver_that_is_away_is_no_outage_and_a_store_that_stands_still_is() {
    let away = Made::new(60, |tile, (_, _, instance), own| {
        let times = if !within(tile) {
            1.0
        } else if instance == 1 {
            0.0
        } else {
            2.0
        };
        Cell { count: own.count * times, ..own }
    });
    let found = judged(&away, None);
    assert_eq!((found.len(), found[0].grade, first(&found[0]).0), (1, Grade::Degraded, "relist-storm"), "{found:?}");
    assert_eq!((tiles(&found[0]), found[0].causes[0].name.as_deref()), ((20, 32), Some("b")));
    let still = Made::new(60, |tile, (_, kind, _), own| {
        let is_write = matches!(kind, CONFIGMAPS | LEASES);
        Cell { count: if within(tile) && is_write { 0.0 } else { own.count }, ..own }
    });
    let found = judged(&still, None);
    assert_eq!((found.len(), found[0].grade), (1, Grade::Outage), "{found:?}");
}

/// Nothing of any apiserver: their logs are missing, unless clients fail, wait, or connect again afterwards.
#[test]
fn a_hole_in_the_logs_is_no_outage_unless_somebody_felt_it() {
    let with = |after: fn(Cell) -> Cell| {
        Made::new(60, move |tile, _, own| match tile {
            20..32 => Cell { count: 0.0, ..own },
            32..34 => after(own),
            _ => own,
        })
    };
    let found = judged(&with(|own| own), None);
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Degraded, (20, 32)), "{found:?}");
    let found = judged(&with(|own| Cell { errors: own.count / 2.0, ..own }), None);
    assert_eq!((found.len(), found[0].grade), (1, Grade::Outage), "{found:?}");
    // Watches that start once they can.
    let mut made = with(|own| own);
    made.axes.kinds.push(["watch", "", "pods", ""].map(str::to_owned));
    let watch = |count: f64| Cell { count, errors: 0.0, throttled: 0.0, seconds: 300.0 };
    made.rows.extend((0..60).filter(|tile| !within(*tile)).map(|tile| (tile, (0, 4, 0), watch(2.0))));
    assert_eq!(judged(&made, None)[0].grade, Grade::Degraded);
    made.rows.push((32, (1, 4, 0), watch(60.0)));
    assert_eq!(judged(&made, None)[0].grade, Grade::Degraded, "one client starts");
    made.rows.extend((2..5).map(|caller| (32, (caller, 4, 0), watch(20.0))));
    assert_eq!(judged(&made, None)[0].grade, Grade::Outage);
    // Pages that count on show that requests went on.
    let pages = Paged(Made::new(60, |_, _, own| own));
    let log = with(|own| own);
    assert_eq!(found_in(&[&log, &pages], None).len(), 0);
}

/// By pages of etcd alone: nobody felt it, and of several members one is redundancy.
#[test]
fn a_member_of_etcd_that_was_away_is_redundancy_lost() {
    let all = Made::new(60, |_, _, own| own);
    let course = |vital, instance: &str, span: Span, value| Course {
        vital,
        instance: instance.to_owned(),
        name: String::new(),
        points: vec![Point { span, value, count: 1.0 }],
    };
    let begin = (BEGIN, BEGIN);
    let gone = (BEGIN + 20 * TILE, BEGIN + 32 * TILE);
    let mut vitals = Vitals {
        starts: vec![Start { at: gone.1, component: Component::Etcd, instance: "etcd-1".to_owned(), seen: None }],
        courses: vec![
            course(Vital::EtcdLeader, "etcd-0", begin, 1.0),
            course(Vital::EtcdLeader, "etcd-1", begin, 1.0),
            course(Vital::Unreachable, "etcd-1", gone, 120.0),
        ],
        ..Vitals::default()
    };
    let found = judged(&all, Some(&vitals));
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Degraded, (20, 32)), "{found:?}");
    let cause = &found[0].causes[0];
    assert_eq!((cause.kind, cause.name.as_deref()), ("slow-etcd", Some("etcd-1")));
    assert!(cause.confidence > 0.8, "{cause:?}");
    // The only one: no other member went on.
    vitals.courses.remove(0);
    assert_eq!(judged(&all, Some(&vitals))[0].causes[0].feature("member_alone"), 0.0);
}

/// The others answer no more than before, and nobody connects again.
#[test]
fn a_hole_in_the_log_of_one_apiserver_is_no_restart() {
    let with = |others: f64| {
        Made::new(60, move |tile, (_, _, instance), own| {
            let times = if instance == 1 { 0.0 } else { others };
            Cell { count: own.count * if within(tile) { times } else { 1.0 }, ..own }
        })
    };
    let found = judged(&with(1.0), None);
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Degraded, (20, 32)), "{found:?}");
    assert!(found[0].is_hole() && found[0].causes.is_empty() && found[0].holes_in == ["b"], "{found:?}");
    // Its clients are with the other one, or watch again there.
    let found = judged(&with(2.0), None);
    assert_eq!((first(&found[0]).0, found[0].is_hole()), ("relist-storm", false));
    let mut made = with(1.0);
    made.axes.kinds.push(["watch", "", "pods", ""].map(str::to_owned));
    let watch = Cell { count: 20.0, errors: 0.0, throttled: 0.0, seconds: 0.01 };
    made.rows.extend((0..3).map(|caller| (20, (caller, 4, 0), watch)));
    assert_eq!((judged(&made, None).len(), judged(&made, None)[0].is_hole()), (1, false));
    // A page of it could not be had, or it started.
    let start = Start { at: BEGIN + 32 * TILE, component: Component::Apiserver, instance: "b".to_owned(), seen: None };
    let vitals = Vitals { starts: vec![start], ..Vitals::default() };
    assert!(!judged(&with(1.0), Some(&vitals))[0].is_hole());
    // It stood still: what waited there fails when it goes on, and nobody moved to the other one.
    let mut still = with(1.0);
    let failed = Cell { count: 8.0, errors: 8.0, throttled: 0.0, seconds: 0.01 };
    still.rows.push((32, (1, LEASES, 1), failed));
    let found = judged(&still, None);
    assert_eq!((first(&found[0]).0, found[0].is_hole(), tiles(&found[0])), ("relist-storm", false, (20, 32)));
    // Or its own pages count hardly anything: that none started is then nothing against it.
    let pages = Paged(Made::new(60, |tile, (_, _, instance), own| Cell {
        count: own.count * if within(tile) && instance == 1 { 0.3 } else { 1.0 },
        ..own
    }));
    let (log, vitals) = (with(1.0), Vitals::default());
    let found = found_in(&[&log, &pages], Some(&vitals));
    assert_eq!((first(&found[0]).0, found[0].is_hole()), ("relist-storm", false));
    assert_eq!(found[0].causes[0].feature("none_started"), 0.0);
    // Pages that count on at both.
    let pages = Paged(Made::new(60, |_, _, own| own));
    let log = with(1.0);
    assert_eq!(found_in(&[&log, &pages], None).len(), 0);
}

/// The same from pages of metrics.
pub(super) struct Paged(pub(super) Made);

impl Requests for Paged {
    fn source(&self) -> Source {
        Source::Metrics
    }
    fn axes(&self) -> &Axes {
        &self.0.axes
    }
    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        self.0.each(take);
    }
}

#[test]
fn an_apiserver_that_restarts_again_and_again_is_one_episode() {
    let away_in = |times: &'static [usize]| {
        Made::new(200, move |tile, (_, _, instance), own| {
            let is_away = times.iter().any(|from| (*from..from + 5).contains(&tile));
            let part = if instance == 1 { 0.0 } else { 2.0 };
            Cell { count: own.count * if is_away { part } else { 1.0 }, ..own }
        })
    };
    // The longest that a kubelet waits is five minutes.
    let found = judged(&away_in(&[40, 60, 90]), None);
    assert_eq!((found.len(), tiles(&found[0]), first(&found[0]).0), (1, (40, 95), "relist-storm"), "{found:?}");
    assert_eq!(judged(&away_in(&[40, 90]), None).len(), 2);
}

#[test]
fn what_is_bad_for_most_of_the_time_is_an_episode_and_what_is_always_bad_is_none() {
    let throttled_from = |from: usize| {
        Made::new(100, move |tile, (caller, _, _), own| {
            let is_bad = caller < 2 && tile >= from && tile < 80;
            Cell { throttled: if is_bad { own.count / 2.0 } else { 0.0 }, ..own }
        })
    };
    let found = judged(&throttled_from(25), None);
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Incident, (25, 80)), "{found:?}");
    // One request in fifty fails, of a client that asks in every third interval only.
    let made = Made::new(100, |tile, (caller, _, _), own| {
        let errors = if caller == 0 && tile % 3 == 0 { own.count * 0.4 } else { 0.0 };
        Cell { errors, ..own }
    });
    assert_eq!(judged(&made, None).len(), 0);
}

#[test]
fn starts_and_recurring_bursts_are_no_episodes() {
    let slow_in = |is: &dyn Fn(usize) -> bool| {
        Made::new(220, |tile, _, own| {
            let times = if is(tile) { 4.0 } else { 1.0 };
            Cell { count: own.count * times, seconds: own.seconds * if is(tile) { 60.0 } else { 1.0 }, ..own }
        })
    };
    assert_eq!(judged(&slow_in(&|tile| tile < 4), None).len(), 0);
    assert_eq!(judged(&slow_in(&|tile| tile % 20 < 2 && tile > 10), None).len(), 0);
    // An incident behind a start, and one among bursts that is not like them.
    let found = judged(&slow_in(&|tile| tile < 4 || (60..72).contains(&tile)), None);
    assert_eq!(found.iter().map(tiles).collect::<Vec<_>>(), [(60, 72)]);
    let found = judged(&slow_in(&|tile| tile % 20 < 2 && tile > 10 || (83..107).contains(&tile)), None);
    assert!(found.len() == 1 && tiles(&found[0]).1 >= 107, "{found:?}");
}

#[test]
fn a_window_that_is_named_is_an_episode() {
    let made = Made::new(60, |_, _, own| own);
    let given = [(BEGIN + 30 * TILE, BEGIN + 36 * TILE)];
    let found = named(&made, &given);
    assert_eq!((found.len(), found[0].is_given, tiles(&found[0])), (1, true, (30, 36)));
    assert_eq!((found[0].grade, found[0].causes.len()), (Grade::None, 0), "nothing deviates in it");
    // At the begin of what was read, too, though it is as short as a start.
    let given = [(BEGIN, BEGIN + 3 * TILE)];
    let found = named(&made, &given);
    assert_eq!((found.len(), tiles(&found[0]), found[0].grade), (1, (0, 3), Grade::None));
    // All of the time, which leaves nothing that it could be compared with: not that all clients are new.
    let whole = [(BEGIN, BEGIN + 60 * TILE)];
    let found = named(&made, &whole);
    assert_eq!((found[0].grade, found[0].causes.len()), (Grade::None, 0));
    // Of an incident: its grade, and what of the window is not in it is its baseline.
    let slow = Made::new(60, |tile, _, own| {
        let times = if (30..40).contains(&tile) { 60.0 } else { 1.0 };
        Cell { seconds: own.seconds * times, ..own }
    });
    let given = [(BEGIN + 28 * TILE, BEGIN + 36 * TILE)];
    let found = named(&slow, &given);
    assert_eq!(found[0].grade, Grade::Incident);
    let found = named(&slow, &whole);
    let [within, before] = &found[0].counted;
    assert_eq!(found[0].grade, Grade::Incident);
    assert!(
        before.iter().all(|own| !(BEGIN + 30 * TILE..BEGIN + 40 * TILE).contains(&own.0)),
        "{before:?} of {within:?}"
    );
}

/// One of the vitals of an apiserver, by interval, each the mean of so many events.
pub(super) fn vitals(vital: Vital, count: f64, of: impl Fn(i64) -> f64) -> Vitals {
    let point = |tile: i64| Point { span: (BEGIN + tile * TILE, BEGIN + (tile + 1) * TILE), value: of(tile), count };
    let course = Course { vital, instance: "a".to_owned(), name: String::new(), points: (0..60).map(point).collect() };
    Vitals { courses: vec![course], ..Vitals::default() }
}

fn slow_etcd(seconds: f64) -> Vitals {
    vitals(Vital::EtcdRequest, 100.0, |tile| if within(tile as usize) { seconds } else { 0.003 })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Taking away a source that speaks for a cause never raises that cause.
    #[test]
    fn fewer_sources_make_no_surer(seconds in 0.05f64..4.0, etcd in 0.02f64..4.0) {
        let store = Made::new(60, |tile, (_, kind, _), own| {
            let is_slow = within(tile) && matches!(kind, CONFIGMAPS | LEASES);
            Cell { seconds: if is_slow { own.seconds + seconds as f32 } else { own.seconds }, ..own }
        });
        let confidence = |found: &[Episode]| {
            let is_it = |own: &&Candidate| own.kind == "slow-etcd";
            let of = |own: &Episode| own.causes.iter().find(is_it).map_or(0.0, |one| one.confidence);
            found.iter().map(of).fold(0.0, f64::max)
        };
        let vitals = slow_etcd(etcd);
        let with = judged(&store, Some(&vitals));
        let without = judged(&store, None);
        prop_assert!(confidence(&without) <= confidence(&with) + 1e-9);
    }
}

const MARK: usize = 4;
const RENEW: usize = 5;
const TAINT: usize = 6;

/// The same with fourteen kubelets, of which six do not answer from interval 20 on until 28 begins; the node controller
/// marks `marked` of them 50 s later.
fn with_nodes(marked: f64, has_leases: bool) -> Made {
    let mut made = Made::new(60, |_, _, own| own);
    let kind = |own: [&str; 4]| own.map(str::to_owned);
    made.axes.kinds.push(kind(["update", "", "nodes", "status"]));
    made.axes.kinds.push(kind(["update", "coordination.k8s.io", "leases", ""]));
    made.axes.kinds.push(kind(["patch", "", "nodes", ""]));
    let who = |user: &str| [user.to_owned(), String::new()];
    made.axes.callers.push(who("system:serviceaccount:kube-system:node-controller"));
    made.axes.callers.push(who("system:node:*"));
    let cell = |count: f64| Cell { count, errors: 0.0, throttled: 0.0, seconds: 0.005 };
    for tile in 0..60 {
        let lives = if (20..28).contains(&tile) { 8.0 } else { 14.0 };
        if has_leases {
            made.rows.push((tile, (7, RENEW, 0), cell(lives)));
        }
    }
    made.rows.push((25, (6, MARK, 0), cell(marked)));
    made.rows.push((25, (6, TAINT, 0), cell(marked)));
    made.rows.push((28, (6, TAINT, 0), cell(marked)));
    made
}

#[test]
fn nodes_that_are_lost_together_are_an_episode() {
    for has_leases in [true, false] {
        let found = judged(&with_nodes(6.0, has_leases), None);
        assert_eq!((found.len(), found[0].grade, first(&found[0]).0), (1, Grade::Degraded, "nodes-lost"));
        assert_eq!(tiles(&found[0]), (20, 28), "{has_leases}");
        assert_eq!(found[0].causes[0].feature("nodes"), 6.0);
    }
    // Two machines that fail are none.
    assert_eq!(judged(&with_nodes(2.0, true), None).len(), 0);
    // Nor are leases that pause without a node that is marked.
    assert_eq!(judged(&with_nodes(0.0, true), None).len(), 0);
}

#[test]
fn a_record_that_lies_within_an_incident_is_one() {
    let slow = |seconds: f32, len: usize| {
        judged(
            &Made::new(len, |_, (_, kind, _), own| Cell { seconds: if kind == GET { seconds } else { 0.01 }, ..own }),
            None,
        )
    };
    let found = slow(0.4, 30);
    assert_eq!((found.len(), found[0].grade, found[0].state), (1, Grade::Incident, State::Ongoing));
    assert_eq!(tiles(&found[0]), (0, 30));
    assert_eq!(slow(0.09, 30).len(), 0);
    // For more than an hour it is a habit.
    assert_eq!(slow(0.4, 400).len(), 0);
}

/// Changes of the store by interval, a second.
fn changes(of: impl Fn(i64) -> f64) -> Vitals {
    vitals(Vital::StoreChanges, 10.0, of)
}

#[test]
fn a_deletion_is_as_large_as_what_changes_with_it() {
    let made = Made::new(60, |_, _, own| own);
    let at = BEGIN + 20 * TILE + 3 * SECOND;
    let deleted = |vitals: &Vitals| {
        let caller = ["carol".to_owned(), String::new()];
        let operations = [Operation { at, caller, objects: 1.0 }];
        judge(&Input { requests: &[&made], vitals: Some(vitals), operations: &operations, given: &[] }).episodes
    };
    let found = deleted(&changes(|tile| if tile == 20 { 150.0 } else { 10.0 }));
    assert_eq!((found.len(), found[0].grade, first(&found[0])), (1, Grade::Surge, ("cascade-delete", Some("carol"))));
    assert_eq!((found[0].from, found[0].to), (at, BEGIN + 21 * TILE));
    // Few changes, and many that come much later, are not its.
    assert_eq!(deleted(&changes(|tile| if tile == 20 { 45.0 } else { 10.0 })).len(), 0);
    assert_eq!(deleted(&changes(|tile| if tile == 30 { 150.0 } else { 10.0 })).len(), 0);
}
