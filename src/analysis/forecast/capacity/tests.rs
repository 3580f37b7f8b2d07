//! A cluster whose ratios are known: everything that is expected is worked out by hand from the lines that make it.

use super::*;
use crate::analysis::quota::collect::{ALLOCATABLE, OBJECTS, QUOTA, REQUESTS};
use crate::model::forecast::Step;
use crate::model::names::{
    APISERVER_OBJECT_BYTES, APISERVER_OBJECTS, APISERVER_RPS, APISERVER_SEATS, CGROUP_MEMORY, CLUSTER_REQUESTS,
    ETCD_DB, ETCD_IN_USE,
};
use crate::model::report::{Report, Value};
use crate::model::series::DAY;

const START: Micros = 20_000 * DAY;
const DAYS: usize = 60;
const END: Micros = START + DAYS as Micros * DAY;

fn grid(value: impl Fn(f64) -> f64) -> Grid {
    Grid { from: START, step: DAY, values: (0..DAYS).map(|day| value(day as f64)).collect() }
}

/// Pods of web: they rise and fall, so that what follows them can be distinguished from what only grows.
fn web(day: f64) -> f64 {
    100.0 + 10.0 * (day % 7.0)
}

/// On the last day: 59 % 7 = 3.
const WEB: f64 = 130.0;
const OTHER: f64 = 70.0;
const PODS: f64 = WEB + OTHER;

/// The cluster: web has 100 to 160 pods of 0.5 cores and 2 GiB each above a fixed 3 cores; batch has 70 pods that never
/// change.
fn cluster() -> Vec<(Series, Grid)> {
    let of = |name: &str, labels: &[(&str, &str)], value: &dyn Fn(f64) -> f64| (Series::new(name, labels), grid(value));
    let gib = 1024f64.powi(3);
    let pods = |day: f64| web(day) + OTHER;
    let objects = move |day: f64| 10.0 * pods(day) + pods(day) + 400.0 + 20.0 + 20.0;
    vec![
        of(OBJECTS, &[("namespace", "web"), ("resource", "pods")], &web),
        of(OBJECTS, &[("namespace", "batch"), ("resource", "pods")], &|_| OTHER),
        of(REQUESTS, &[("namespace", "web"), ("resource", "cpu")], &|day| 3.0 + 0.5 * web(day)),
        of(REQUESTS, &[("namespace", "web"), ("resource", "memory")], &move |day| 2.0 * gib * web(day)),
        of(REQUESTS, &[("namespace", "batch"), ("resource", "cpu")], &|_| 140.0),
        of(QUOTA, &[("namespace", "web"), ("resourcequota", "q"), ("resource", "pods"), ("type", "used")], &web),
        of(APISERVER_OBJECTS, &[("resource", "pods")], &pods),
        of(APISERVER_OBJECTS, &[("resource", "events")], &move |day| 10.0 * pods(day)),
        of(APISERVER_OBJECTS, &[("resource", "configmaps")], &|_| 400.0),
        of(APISERVER_OBJECTS, &[("resource", "nodes")], &|_| 20.0),
        of(APISERVER_OBJECTS, &[("group", "coordination.k8s.io"), ("resource", "leases")], &|_| 20.0),
        of(APISERVER_OBJECT_BYTES, &[("resource", "pods")], &move |day| 6_000.0 * pods(day)),
        of(ETCD_IN_USE, &[("instance", "a")], &move |day| 5e6 + 4_000.0 * objects(day)),
        of(CGROUP_MEMORY, &[("path", "/kube-apiserver"), ("kind", "working_set")], &move |day| {
            1e9 + 50_000.0 * objects(day)
        }),
        of(APISERVER_RPS, &[("flow_schema", "system-nodes"), ("priority_level", "system")], &|_| 8.0),
        of(APISERVER_RPS, &[("flow_schema", "service-accounts"), ("priority_level", "workload-low")], &move |day| {
            0.25 * pods(day)
        }),
        of(APISERVER_RPS, &[("verb", "list"), ("resource", "pods")], &move |day| 0.25 * pods(day)),
        of(APISERVER_RPS, &[("verb", "update"), ("group", "coordination.k8s.io"), ("resource", "leases")], &|_| 8.0),
        of(ALLOCATABLE, &[("node", "n1"), ("resource", "pods")], &|_| 110.0),
    ]
}

/// A stand-in for the forecast that can be worked out by hand: the series stays as it is but grows by `per_day` from
/// its last value on. One in ten futures is ten days earlier, one in ten later.
fn straight(per_day: f64) -> impl Fn(&Grid, Option<f64>) -> Forecast {
    move |grid, limit| {
        let last = grid.values.last().copied().unwrap();
        let path = (0..90).map(|day| {
            let p50 = last + per_day * (day + 1) as f64;
            Step { at: grid.end() + day * DAY, p10: p50, p50, p90: p50 }
        });
        let mut forecast = Forecast {
            current: Some((grid.end() - grid.step, last)),
            path: path.collect(),
            verdict: Verdict::NoLimit,
            ..Forecast::default()
        };
        let Some(limit) = limit else { return forecast };
        if last >= limit {
            forecast.verdict = Verdict::AtLimit;
            return forecast;
        }
        let days = (limit - last) / per_day;
        let at = |days: f64| (days <= 90.0).then(|| grid.end() + (days.max(0.0) * DAY as f64) as Micros);
        forecast.reached = Reached { p10: at(days - 10.0), p50: at(days), p90: at(days + 10.0) };
        forecast.verdict = if forecast.reached.p50.is_some() { Verdict::Reaches } else { Verdict::Clear };
        forecast.probability = Some(if days <= 90.0 { 0.9 } else { 0.05 });
        forecast
    }
}

fn target(series: Series, unit: crate::model::forecast::Unit, grid: Grid, limit: Option<f64>) -> Target {
    Target { series, unit, grid, limit, ..Target::default() }
}

/// What becomes of one target.
fn of(
    additions: &[&str],
    nodes: Option<u64>,
    from: Option<Micros>,
    target: &Target,
    per_day: f64,
) -> (Option<Moved>, Outcome) {
    let history = cluster();
    let history: Vec<(&Series, &Grid)> = history.iter().map(|(series, grid)| (series, grid)).collect();
    let plan = Plan::parse(&additions.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>(), nodes, from).unwrap();
    let forecast_one = straight(per_day);
    let targets = [target.clone()];
    let forecasts = [forecast_one(&target.grid, target.limit)];
    let outcome = what_if(&plan, &history, &targets, &forecasts, &forecast_one).unwrap();
    (outcome.moved.first().cloned(), outcome)
}

fn shift(
    additions: &[&str],
    nodes: Option<u64>,
    name: &str,
    labels: &[(&str, &str)],
    value: impl Fn(f64) -> f64,
) -> Option<f64> {
    let target = target(Series::new(name, labels), Default::default(), grid(value), None);
    of(additions, nodes, None, &target, 1.0).0.map(|moved| moved.by)
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.unwrap_or_else(|| panic!("nothing moves, {expected} expected"));
    assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found}, not {expected}");
}

#[test]
fn pods_bring_what_history_shows_to_come_with_them() {
    let add = &["web:+200 pods"];
    let quota = |resource: &'static str| {
        [("namespace", "web"), ("resourcequota", "q"), ("resource", resource), ("type", "used")]
    };
    near(shift(add, None, QUOTA, &quota("pods"), web), 200.0);
    near(shift(add, None, QUOTA, &quota("count/pods"), web), 200.0);
    // Half a core each: the slope, not (3 + 65) / 130.
    near(shift(add, None, QUOTA, &quota("cpu"), |day| 3.0 + 0.5 * web(day)), 100.0);
    near(shift(add, None, QUOTA, &quota("requests.memory"), web), 400.0 * 1024f64.powi(3));
    near(shift(add, None, CLUSTER_REQUESTS, &[("resource", "cpu")], web), 100.0);
    near(shift(add, None, APISERVER_OBJECTS, &[("resource", "events")], web), 2_000.0);
    // 200 pods and 2,000 events; configmaps did not follow, leases are nodes'.
    near(shift(add, None, APISERVER_OBJECTS, &[], web), 2_200.0);
    near(
        shift(add, None, APISERVER_OBJECT_BYTES, &[("resource", "pods")], |day| 6_000.0 * (web(day) + OTHER)),
        6_000.0 * 200.0,
    );
    near(shift(add, None, ETCD_DB, &[("instance", "a")], web), 4_000.0 * 2_200.0);
    near(
        shift(add, None, CGROUP_MEMORY, &[("path", "/kube-apiserver"), ("kind", "working_set")], web),
        50_000.0 * 2_200.0,
    );
    near(
        shift(
            add,
            None,
            APISERVER_RPS,
            &[("flow_schema", "service-accounts"), ("priority_level", "workload-low")],
            |day| 0.25 * (web(day) + OTHER),
        ),
        50.0,
    );
    near(shift(add, None, APISERVER_RPS, &[], web), 50.0);
    // Two seats for 50 requests a second become four for 100.
    near(shift(add, None, APISERVER_SEATS, &[("priority_level", "workload-low"), ("kind", "executing")], |_| 2.0), 2.0);
    for (name, labels) in [
        (QUOTA, &[("namespace", "batch"), ("resourcequota", "q"), ("resource", "pods"), ("type", "used")][..]),
        (APISERVER_OBJECTS, &[("resource", "configmaps")]),
        (APISERVER_OBJECTS, &[("group", "coordination.k8s.io"), ("resource", "leases")]),
        (APISERVER_RPS, &[("flow_schema", "system-nodes"), ("priority_level", "system")]),
        (CGROUP_MEMORY, &[("path", "/etcd"), ("kind", "working_set")]),
        ("anything", &[]),
    ] {
        assert_eq!(shift(add, None, name, labels, web), None, "{name} {labels:?}");
    }
}

#[test]
fn nodes_bring_all_that_they_carry() {
    // From 20 to 30 nodes: half as much again. Nodes never changed, so ratios of now are all that is known: 10 pods a
    // node.
    let per_node = PODS / 20.0 * 10.0;
    near(
        shift(&[], Some(30), OBJECTS, &[("namespace", "batch"), ("resource", "pods")], |_| OTHER),
        per_node * OTHER / PODS,
    );
    near(shift(&[], Some(30), REQUESTS, &[("namespace", "batch"), ("resource", "cpu")], |_| 140.0), 70.0);
    near(
        shift(&[], Some(30), APISERVER_OBJECTS, &[("group", "coordination.k8s.io"), ("resource", "leases")], |_| 20.0),
        10.0,
    );
    near(
        shift(&[], Some(30), APISERVER_RPS, &[("flow_schema", "system-nodes"), ("priority_level", "system")], |_| 8.0),
        4.0,
    );
    // Pods, events, nodes, leases.
    near(shift(&[], Some(30), APISERVER_OBJECTS, &[], web), 100.0 + 1_000.0 + 10.0 + 10.0);
    // 4 of kubelets' leases, 0.25 for each of 100 pods.
    near(shift(&[], Some(30), APISERVER_RPS, &[], web), 4.0 + 25.0);
    // Nodes alone hold nothing yet, but the cluster can hold more.
    let cpu =
        target(Series::new(CLUSTER_REQUESTS, &[("resource", "cpu")]), Default::default(), grid(|_| 208.0), Some(320.0));
    let (moved, _) = of(&["+10 nodes"], None, None, &cpu, 1.0);
    let moved = moved.unwrap();
    assert_eq!((moved.by, moved.limit), (0.0, (Some(320.0), Some(480.0))));
    // As it is 112 days, which is too far: with 10 nodes too.
    assert_eq!((moved.reached.0.p50, moved.reached.1.p50), (None, None));
    let (moved, _) = of(&[], Some(10), None, &cpu, 1.0);
    let moved = moved.unwrap();
    // Half of the 200 pods go: web loses 65 of them at half a core each, batch 35 of 2 cores.
    near(Some(moved.by), -(65.0 * 0.5 + 70.0));
    near(moved.limit.1, 160.0);
    assert_eq!(moved.reached.1.p50, Some(END + ((160.0 - (208.0 - 102.5)) * DAY as f64) as Micros));
}

#[test]
fn dates_move_as_arithmetic_has_it() {
    let series = || Series::new(OBJECTS, &[("namespace", "web"), ("resource", "pods")]);
    let pods = |limit: f64| target(series(), Default::default(), grid(web), Some(limit));
    let day = |days: i64| Some(END + days * DAY);
    let after = |add: &str, from: Option<Micros>, limit: f64| {
        let (moved, _) = of(&[add], None, from, &pods(limit), 1.0);
        let moved = moved.unwrap();
        (moved.reached.1, moved.full.1, moved.probability.1)
    };
    // 130 now and one more a day: 180 in 50 days, with 20 more in 30.
    assert_eq!(
        after("web:+20 pods", None, 180.0),
        (Reached { p10: day(20), p50: day(30), p90: day(40) }, false, Some(0.9))
    );
    // Added in 35 days it is above at once; by then one in ten futures was earlier, and the last ten days later.
    assert_eq!(
        after("web:+20 pods", day(35), 180.0),
        (Reached { p10: day(35), p50: day(35), p90: day(40) }, false, Some(0.9))
    );
    // Added when it is reached already, it changes nothing of that.
    assert_eq!(
        after("web:+20 pods", day(55), 180.0),
        (Reached { p10: day(40), p50: day(50), p90: day(55) }, false, Some(0.9))
    );
    // Above at once.
    assert_eq!(
        after("web:+50 pods", None, 180.0),
        (Reached { p10: day(0), p50: day(0), p90: day(0) }, true, Some(1.0))
    );
    assert_eq!(
        after("web:+50 pods", day(3), 180.0),
        (Reached { p10: day(3), p50: day(3), p90: day(3) }, false, Some(1.0))
    );
    // Less: 30 fewer is 30 days more.
    assert_eq!(
        after("web:-30 pods", None, 180.0),
        (Reached { p10: day(70), p50: day(80), p90: day(90) }, false, Some(0.9))
    );
    assert_eq!(after("web:-60 pods", None, 180.0), (Reached::default(), false, Some(0.05)));
    // What was reached before stays reached.
    assert_eq!(
        after("web:-60 pods", day(45), 180.0),
        (Reached { p10: day(40), p50: None, p90: None }, false, Some(0.1))
    );
    let (moved, _) = of(&["web:+20 pods"], None, day(35), &pods(180.0), 1.0);
    assert_eq!(moved.unwrap().on_date, Some(130.0 + 36.0 + 20.0));
    // Nothing is below zero.
    let (moved, _) = of(&["web:-999 pods"], None, None, &pods(180.0), 1.0);
    assert_eq!(moved.unwrap().current, (Some(130.0), Some(0.0)));
}

#[test]
fn all_that_is_assumed_is_told() {
    let pods = target(
        Series::new(OBJECTS, &[("namespace", "web"), ("resource", "pods")]),
        Default::default(),
        grid(web),
        Some(180.0),
    );
    let (_, outcome) = of(&["web:+20 pods"], None, None, &pods, 1.0);
    let cpu = outcome.assumptions.iter().find(|one| one.name == "requests.cpu per pod of web").unwrap();
    assert_eq!((cpu.ratio, cpu.sure, cpu.interval), (0.5, Sure::Measured, Some((0.5, 0.5))));
    assert_eq!(cpu.from, "slope over 60 days, pods from 100 to 160");
    let events = outcome.lists.iter().find(|(kind, ..)| kind == "events").unwrap();
    assert_eq!((events.1, events.2), (2_000.0, 2_200.0));
    let mut report = Report::default();
    outcome.add_to(&[pods], 90 * DAY, None, &mut report);
    let table = &report.people.as_ref().unwrap()[1];
    assert_eq!(table.title, "With web:+20 pods:");
    let row: Vec<&str> =
        table.rows[0].iter().map(|value| if let Value::Text(text) = value { text.as_str() } else { "-" }).collect();
    // END, day 20,060, is 2024-12-03.
    assert_eq!(
        row,
        ["web pods", "130", "150", "180", "72.2% → 83.3%", "2025-01-22", "2025-01-02", "2024-12-23 to 2025-01-12"]
    );
    assert!(
        report.notes.iter().any(|note| note
            == "Assumed: requests.cpu per pod of web is 500m (500m to 500m): slope over 60 days, pods from 100 to \
                     160 (measured)"),
        "{:?}",
        report.notes
    );
    assert!(
        report.notes.iter().any(|note| note.contains("LISTs") && note.contains("events +10%, pods +10%")),
        "{:?}",
        report.notes
    );
    assert!(
        report.notes.iter().any(|note| note.contains("1 other kind of objects: no relation found")),
        "{:?}",
        report.notes
    );
    let scenario = &report.more["scenario"];
    assert_eq!(scenario["rows"][0]["after"]["reached"]["p50"], "2025-01-02T00:00:00Z");
    assert_eq!(scenario["rows"][0]["before"]["share"], 130.0 / 180.0);
    assert_eq!(scenario["assumptions"].as_array().unwrap().len(), outcome.assumptions.len());
    // A plan that nothing is known of says so.
    let (moved, outcome) =
        of(&["nowhere:+5 pods"], None, None, &target(Series::new("x", &[]), Default::default(), grid(web), None), 1.0);
    assert_eq!(moved, None);
    assert!(outcome.unknown.iter().any(|what| what.contains("no data on pods of nowhere")), "{:?}", outcome.unknown);
}
