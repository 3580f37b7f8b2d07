//! What happens beside an episode and is not its cause; and what follows another episode and is not a part of it.

use super::requests::{Axes, Requests, Row, UNAUTHENTICATED};
use super::tests::{Cell, GET, LEASES, LIST, Made, Paged, first, found_in, judged, tiles, within};
use super::{Input, judge};
use crate::model::cause::Source;
use crate::model::episode::{Grade, State};

/// One client asks for eight times as many objects as before.
fn asks_for_more((caller, kind, _): (usize, usize, usize), own: Cell) -> Cell {
    Cell { count: own.count * if caller == 5 && kind == GET { 8.0 } else { 1.0 }, ..own }
}

#[test]
fn reads_that_are_as_fast_as_before_are_no_cause_of_slow_writes() {
    let made = |slow: fn(usize) -> bool| {
        Made::new(60, |tile, key, own| match within(tile) {
            true => Cell { seconds: own.seconds * if slow(key.1) { 40.0 } else { 1.0 }, ..asks_for_more(key, own) },
            false => own,
        })
    };
    for found in [judged(&made(|kind| kind > LIST), None), found_in(&[&Paged(made(|kind| kind > LIST))], None)] {
        assert_eq!((found.len(), found[0].grade, first(&found[0]).0), (1, Grade::Incident, "slow-etcd"), "{found:?}");
    }
    // What slows reads as much may well be who asks for more of them.
    let found = judged(&made(|_| true), None);
    assert_eq!(first(&found[0]), ("client-surge", Some("team:5")));
}

#[test]
fn load_at_all_apiservers_is_no_cause_that_one_is_slow() {
    let made = Made::new(60, |tile, key, own| match within(tile) {
        true => Cell { seconds: own.seconds * if key.2 == 1 { 40.0 } else { 1.0 }, ..asks_for_more(key, own) },
        false => own,
    });
    let found = judged(&made, None);
    assert_eq!((found.len(), first(&found[0]).0), (1, "apiserver-slow"), "{found:?}");
    assert_eq!(found[0].causes[0].name.as_deref(), Some("b"));
}

/// Of pages, where most requests turn out to have no valid credentials.
struct Revoked(Made);

impl Requests for Revoked {
    fn source(&self) -> Source {
        Source::Metrics
    }
    fn axes(&self) -> &Axes {
        self.0.axes()
    }
    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        let kind = self.0.axes.kinds.len() - 1;
        self.0.each(&mut |row| {
            let refused = if within(row.tile) { 0.8 * row.requests } else { 0.0 };
            take(Row { kind, requests: refused, unauthorized: refused, latency: &[], ..row });
            take(Row { requests: row.requests - refused, ..row });
        });
    }
}

#[test]
fn credentials_of_nearly_all_are_an_incident_by_pages_too() {
    let mut made = Made::new(60, |_, _, own| own);
    made.axes.callers = vec![Default::default()];
    made.rows.iter_mut().for_each(|(_, (caller, ..), _)| *caller = 0);
    made.axes.kinds.push([UNAUTHENTICATED, "", "", ""].map(str::to_owned));
    let found = found_in(&[&Revoked(made)], None);
    assert_eq!((found.len(), found[0].grade, tiles(&found[0])), (1, Grade::Incident, (20, 32)), "{found:?}");
    assert_eq!(first(&found[0]), ("credentials-invalid", None));
    assert!(found[0].causes.iter().all(|own| own.kind == "credentials-invalid"), "{:?}", found[0].causes);
}

#[test]
fn slow_requests_of_pages_that_nobody_waits_for_by_the_log_are_none() {
    // One client lists more, and what it lists takes long.
    let lists = |tile: usize, (caller, kind, _): (usize, usize, usize), own: Cell| {
        let is_its = within(tile) && caller == 5 && kind == LIST;
        Cell { seconds: own.seconds * if is_its { 30.0 } else { 1.0 }, ..own }
    };
    let pages = || Paged(Made::new(60, lists));
    assert_eq!(found_in(&[&pages()], None)[0].grade, Grade::Incident);
    let log = Made::new(60, |_, _, own| own);
    assert!(found_in(&[&log, &pages()], None).is_empty());
    // A log that holds few of these requests says nothing of the others.
    let part = Made::new(60, |_, _, own| Cell { count: own.count / 4.0, ..own });
    assert_eq!(found_in(&[&part, &pages()], None)[0].grade, Grade::Incident);
}

#[test]
fn a_load_that_begins_after_an_episode_is_another_one() {
    let made = |pause: usize| {
        Made::new(90, move |tile, (caller, kind, _), own| {
            let is_first = (20..28).contains(&tile) && kind > LIST;
            let is_second = (28 + pause..36 + pause).contains(&tile);
            let count = own.count * if is_second && caller == 3 && kind == LIST { 60.0 } else { 1.0 };
            let seconds = own.seconds * if is_first || is_second { 40.0 } else { 1.0 };
            Cell { count, seconds, ..own }
        })
    };
    let found = judged(&made(6), None);
    let causes: Vec<&str> = found.iter().map(|own| first(own).0).collect();
    assert_eq!(causes, ["slow-etcd", "client-surge"], "{found:?}");
    // What pauses for as short a time is one.
    assert_eq!(judged(&made(1), None).len(), 1);
}

#[test]
fn all_writes_that_fail_are_an_outage_though_it_begins_and_ends_within_an_interval() {
    let made = Made::new(60, |tile, (_, kind, _), own| {
        let part = match tile {
            20 | 25 => 0.4,
            21..25 => 1.0,
            _ => 0.0,
        };
        Cell { errors: if kind >= LEASES - 1 { own.count * part } else { 0.0 }, ..own }
    });
    assert_eq!(judged(&made, None)[0].grade, Grade::Outage);
}

/// Two apiservers, one of whose logs is of `held` intervals only; a client asks for ten times as many LISTs within
/// `busy`.
fn of_unequal_logs(held: std::ops::Range<usize>, busy: std::ops::Range<usize>) -> Made {
    let mut made = Made::new(90, move |tile, (caller, kind, _), own| {
        let times = if busy.contains(&tile) && caller == 3 && kind == LIST { 200.0 } else { 1.0 };
        Cell { count: own.count * times, ..own }
    });
    made.rows.retain(|(tile, (.., instance), _)| *instance == 0 || held.contains(tile));
    made
}

#[test]
fn logs_of_unequal_times_are_no_load() {
    for held in [20..90, 0..70, 15..75] {
        assert!(judged(&of_unequal_logs(held.clone(), 0..0), None).is_empty(), "{held:?}");
        let found = judged(&of_unequal_logs(held.clone(), 40..52), None);
        let spans: Vec<(i64, i64)> = found.iter().map(tiles).collect();
        assert_eq!(spans, [(40, 52)], "{held:?}");
        assert_eq!(first(&found[0]), ("client-surge", Some("team:3")), "{held:?}");
    }
    // Whoever names another time sees that.
    let made = of_unequal_logs(20..90, 0..0);
    let given = |from: usize, to: usize| [(made.axes.grid.start(from), made.axes.grid.start(to))];
    let named = |given: &[_]| judge(&Input { requests: &[&made], vitals: None, operations: &[], given });
    assert_eq!((named(&given(0, 10)).common, named(&given(0, 10)).episodes[0].from), (None, given(0, 10)[0].0));
    assert_eq!(named(&given(40, 50)).common, Some((made.axes.grid.start(20), made.axes.grid.span.1)));
    // Of less than half of the time that one holds is nothing left to compare: it is judged as it is.
    assert!(judged(&of_unequal_logs(70..90, 20..32), None).iter().any(|own| tiles(own) == (20, 32)));
}

#[test]
fn a_log_that_ends_with_its_apiserver_is_not_cut() {
    // Of the second apiserver's clients all are answered by the first from interval 60 on.
    let made = Made::new(90, |tile, (_, _, instance), own| {
        let times = match (tile >= 60, instance) {
            (true, 0) => 2.0,
            (true, _) => 0.0,
            _ => 1.0,
        };
        Cell { count: own.count * times, ..own }
    });
    let found = judged(&made, None);
    assert!(found.iter().any(|own| tiles(own).0 == 60 && own.state == State::Ongoing), "{found:?}");
}
