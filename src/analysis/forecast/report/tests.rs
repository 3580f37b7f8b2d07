use super::*;
use crate::analysis::quota::collect::QUOTA;
use crate::model::forecast::{Backtest, Change, Grid, Part, Unit};
use crate::model::names::{APISERVER_SEATS, ETCD_DB};
use crate::model::series::Series;

const START: Micros = 20_000 * DAY;
const DAYS: i64 = 30;
/// Day 20,030 is 2024-11-03.
const END: Micros = START + DAYS * DAY;

fn target(series: Series, unit: Unit, limit: Option<f64>, value: impl Fn(f64) -> f64) -> Target {
    let values = (0..DAYS).map(|day| value(day as f64)).collect();
    Target {
        series,
        unit,
        grid: Grid { from: START, step: DAY, values },
        limit,
        limit_from: "given".into(),
        parts: Vec::new(),
        apart: String::new(),
    }
}

fn forecast_of(verdict: Verdict, current: f64, days: [Option<i64>; 3], probability: f64) -> Forecast {
    let at = |days: Option<i64>| days.map(|days| END + days * DAY);
    Forecast {
        verdict,
        current: Some((END - DAY, current)),
        growth_per_week: Some(7.0),
        reached: Reached { p10: at(days[0]), p50: at(days[1]), p90: at(days[2]) },
        probability: Some(probability),
        model: "trend",
        backtest: Some(Backtest { mase: 0.8, coverage: 0.79, error: 1.5, origins: 5, steps: 7 }),
        seasons: vec![7],
        changes: vec![Change { at: START + 5 * DAY, by: -3.0 }],
        path: vec![Step { at: END, p10: 1.0, p50: 2.0, p90: f64::NAN }],
        ..Forecast::default()
    }
}

fn plain(name: &str) -> Series {
    Series::new(name, &[])
}

fn input() -> ForecastInput {
    ForecastInput { step: DAY, horizon: 60 * DAY, warn_within: 30.0, critical_within: 7.0, ..ForecastInput::default() }
}

fn make(series: Vec<(Target, Forecast)>, input: ForecastInput) -> Report {
    let (targets, forecasts): (Vec<_>, Vec<_>) = series.into_iter().unzip();
    report(&targets, &forecasts, &|_| panic!("no path was dropped"), input)
}

fn column(report: &Report, name: &str) -> Vec<Value> {
    let at = report.table.column(name).unwrap();
    report.table.rows.iter().map(|row| row[at].clone()).collect()
}

/// What people read in a row.
fn seen(report: &Report, row: usize) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        Value::None => "-".to_owned(),
        other => format!("{other:?}"),
    };
    report.people.as_ref().unwrap()[0].rows[row].iter().map(text).collect()
}

#[test]
fn the_most_urgent_is_first() {
    let of = |name: &str, verdict, days, probability| {
        (target(plain(name), Unit::Count, Some(100.0), |day| day), forecast_of(verdict, 50.0, days, probability))
    };
    let none = [None, None, None];
    let mut slow = of("g-slow", Verdict::Clear, none, 0.02);
    slow.1.growth_per_week = Some(1.0);
    let report = make(
        vec![
            (
                target(plain("h-unlimited"), Unit::Count, None, |day| day),
                Forecast { probability: None, ..forecast_of(Verdict::NoLimit, 5.0, none, 0.0) },
            ),
            slow,
            of("f-fast", Verdict::Clear, none, 0.02),
            of("e-less-likely", Verdict::MayReach, [Some(40), None, None], 0.2),
            of("d-likely", Verdict::MayReach, [Some(40), None, None], 0.4),
            of("c-later", Verdict::Reaches, [Some(20), Some(30), None], 0.8),
            of("b-earlier", Verdict::Reaches, [Some(10), Some(30), Some(50)], 0.8),
            of("a-sooner", Verdict::Reaches, [Some(25), Some(29), Some(31)], 0.9),
            of("z-full", Verdict::AtLimit, none, 1.0),
            (target(plain("i-short"), Unit::Count, Some(1.0), |_| f64::NAN), Forecast::default()),
        ],
        input(),
    );
    let names: Vec<Value> = column(&report, "name");
    let expected = [
        "z-full",
        "a-sooner",
        "b-earlier",
        "c-later",
        "d-likely",
        "e-less-likely",
        "f-fast",
        "g-slow",
        "h-unlimited",
        "i-short",
    ];
    assert_eq!(names, expected.map(Value::from));
    assert_eq!(
        report.lead[0],
        "10 series, forecast for 60d from 2024-11-03T00:00:00Z in steps of 1d: 1 at its limit now, 3 that probably \
         reach the limit, 2 that may reach it (more than 1 in 10), 2 not forecast to reach it, 1 without a known \
         limit, 1 with too little history"
    );
    let grave: Vec<(&str, Severity)> =
        report.findings.iter().map(|found| (found.subject["series"].as_str(), found.severity)).collect();
    use Severity::{Critical, Warning};
    assert_eq!(
        grave,
        [("z-full", Critical), ("a-sooner", Warning), ("b-earlier", Warning), ("c-later", Warning)],
        "what may be is not an alarm"
    );
}

#[test]
fn a_row_says_it_to_machines_and_people() {
    let quota = Series::new(
        QUOTA,
        &[("namespace", "batch"), ("resourcequota", "compute"), ("resource", "requests.cpu"), ("type", "used")],
    );
    let mut cpu = target(quota, Unit::Cores, Some(60.0), |_| 50.0);
    cpu.limit_from = "hard of quota compute".into();
    cpu.parts = vec![Part { name: "web".into(), grid: target(plain("x"), Unit::Cores, None, |day| day).grid }];
    let report = make(
        vec![(cpu, forecast_of(Verdict::Reaches, 50.0, [Some(20), Some(30), Some(70)], 0.634))],
        ForecastInput { points: true, ..input() },
    );
    let json = |name: &str| column(&report, name)[0].clone();
    assert_eq!(
        json("series"),
        Value::from(
            "kube_resourcequota{namespace=\"batch\",resource=\"requests.cpu\",resourcequota=\"compute\",type=\"used\"}"
        )
    );
    assert_eq!(
        json("reached"),
        Value::Json(json!({"p10": "2024-11-23T00:00:00Z", "p50": "2024-12-03T00:00:00Z", "p90": null})),
        "70 days are behind the horizon"
    );
    assert_eq!(json("days_left"), Value::Number(30.0));
    assert_eq!(json("drivers"), Value::Json(json!([{"name": "web", "growth_per_week": 7.0, "share": 1.0}])));
    assert_eq!(json("changes"), Value::Json(json!([{"at": "2024-10-09T00:00:00Z", "by": -3.0}])));
    assert_eq!(json("seasons"), Value::Json(json!([604_800.0])));
    assert_eq!(
        json("points"),
        Value::Json(json!([{"at": "2024-11-03T00:00:00Z", "p10": 1.0, "p50": 2.0, "p90": null}]))
    );
    let history = json("history");
    let Value::Json(history) = history else { panic!("{history:?}") };
    assert_eq!(
        (history["from"].as_str(), history["values"].as_array().map(Vec::len)),
        (Some("2024-10-04T00:00:00Z"), Some(30))
    );
    assert_eq!(json("unit"), Value::from("cores"));
    assert_eq!(
        seen(&report, 0),
        [
            "batch/compute requests.cpu",
            "50",
            "60",
            "+7",
            "Dec 3",
            "Nov 23 or later",
            "63%",
            "hard of quota compute",
            "trend",
            "mean error 1.5 (3.0%) up to 7d ahead, in 5 tries",
            "web +7 (100%)",
            "-"
        ]
    );
    let found = &report.findings[0];
    assert_eq!(
        found.summary,
        "batch/compute requests.cpu: 50 of 60; reaches its limit around 2024-12-03 (median; 10th percentile \
         2024-11-23, 90th beyond the horizon)"
    );
    assert_eq!((found.evidence["days_left"].clone(), found.evidence["p10_days"].clone()), (json!(30.0), json!(20.0)));
    assert!(!found.evidence.contains_key("p90_days") && found.remedy.contains("plimsoll quota propose"), "{found:?}");
    assert_eq!((report.pictures.len(), report.pictures[0].caption.as_str()), (1, "limit in 30d, 63% within 60d"));
}

#[test]
fn severity_is_by_the_days_that_are_left() {
    for (days, expected) in [
        (0, Severity::Critical),
        (7, Severity::Critical),
        (8, Severity::Warning),
        (30, Severity::Warning),
        (31, Severity::Info),
    ] {
        let one = (
            target(plain("x"), Unit::Count, Some(9.0), |d| d),
            forecast_of(Verdict::Reaches, 5.0, [Some(0), Some(days), None], 0.7),
        );
        let report = make(vec![one], input());
        assert_eq!(report.findings[0].severity, expected, "{days}");
        assert_eq!(report.findings_shown, Some(usize::from(expected > Severity::Info)));
    }
    let seats = Series::new(APISERVER_SEATS, &[("priority_level", "p"), ("kind", "executing")]);
    let full =
        (target(seats, Unit::Count, Some(9.0), |_| 9.0), forecast_of(Verdict::AtLimit, 9.0, [None; 3], f64::NAN));
    let report = make(vec![full], ForecastInput { cluster: "prod".into(), ..input() });
    let found = &report.findings[0];
    assert_eq!(
        (found.severity, found.confidence, found.summary.as_str()),
        (Severity::Critical, 1.0, "seats p: 9 of 9; at its limit now")
    );
    assert_eq!((found.subject["cluster"].as_str(), found.subject["priority_level"].as_str()), ("prod", "p"));
    assert!(found.remedy.contains("clients --seats"));
}

#[test]
fn no_date_is_foreseen_that_means_nothing() {
    // Outside of the horizon, before the history's end.
    let far = (
        target(plain("far"), Unit::Count, Some(9.0), |d| d),
        forecast_of(Verdict::Reaches, 5.0, [Some(-40), Some(61), Some(9_999_999)], 0.7),
    );
    let report = make(vec![far], input());
    assert_eq!(
        column(&report, "reached"),
        [Value::Json(json!({"p10": "2024-11-03T00:00:00Z", "p50": null, "p90": null}))]
    );
    assert_eq!(column(&report, "days_left"), [Value::None]);
    assert_eq!(seen(&report, 0)[4..6], [">60d", "Nov 3 or later"]);
    assert!(report.findings.is_empty());
}

#[test]
fn odd_numbers_are_words_or_nothing() {
    let huge = forecast_of(Verdict::Clear, 1e300, [None; 3], 0.0004);
    let nan = Forecast {
        current: Some((END, f64::NAN)),
        growth_per_week: Some(f64::NAN),
        probability: Some(f64::NAN),
        backtest: Some(Backtest { mase: f64::NAN, coverage: f64::NAN, error: f64::INFINITY, origins: 1, steps: 1 }),
        path: vec![Step { at: END, p10: f64::NAN, p50: f64::NAN, p90: f64::NAN }],
        ..forecast_of(Verdict::Clear, 0.0, [None; 3], 0.0)
    };
    let mut steady = forecast_of(Verdict::Clear, 8e9, [None; 3], 0.999);
    steady.growth_per_week = Some(1.0);
    let report = make(
        vec![
            (target(plain("a"), Unit::Count, Some(f64::INFINITY), |_| 1e300), huge),
            (target(plain("b"), Unit::Bytes, Some(5.0), |_| f64::NAN), nan),
            (target(Series::new(ETCD_DB, &[]), Unit::Bytes, Some(8.6e9), |_| 8e9), steady),
            (Target::default(), Forecast::default()),
        ],
        input(),
    );
    let rows: Vec<Vec<String>> = (0..4).map(|row| seen(&report, row)).collect();
    let of = |name: &str| rows.iter().find(|row| row[0] == name).unwrap();
    assert_eq!(of("etcd db")[1..7], ["7.45Gi", "8.01Gi", "0", ">60d", "-", ">99%"]);
    assert_eq!(of("a")[1..7], ["1.00e300", "-", "0", ">60d", "-", "<1%"]);
    assert_eq!(of("b")[1..7], ["-", "5", "-", ">60d", "-", "-"]);
    assert_eq!(report.totals.iter().find(|(name, _)| name == "flat").unwrap().1, Value::Count(2));
    assert_eq!(column(&report, "probability").iter().filter(|value| **value == Value::None).count(), 2);
    let empty = make(Vec::new(), input());
    assert_eq!(empty.lead, ["no series to forecast"]);
}

#[test]
fn top_and_sorting_are_what_was_asked_for() {
    let of = |name: &str, current: f64| {
        (target(plain(name), Unit::Count, Some(99.0), |d| d), forecast_of(Verdict::Clear, current, [None; 3], 0.01))
    };
    let all = || (0..9).map(|at| of(&format!("s{at}"), f64::from((at * 5) % 9))).collect::<Vec<_>>();
    let report = make(all(), ForecastInput { top: Some(2), sort_by: Some("current".into()), ..input() });
    assert_eq!(column(&report, "current"), [Value::Number(8.0), Value::Number(7.0)]);
    assert_eq!(report.people.as_ref().unwrap()[0].rows.len(), 2);
    assert!(report.pictures.is_empty(), "nine rows: no picture unless asked for");
    assert_eq!(report.totals[0].1, Value::Count(9), "totals are of all");
    // A path that was dropped is asked for again, by the place among the targets.
    let (targets, mut forecasts): (Vec<_>, Vec<_>) = all().into_iter().unzip();
    forecasts.iter_mut().for_each(|forecast| forecast.path.clear());
    let again = |index: usize| Forecast {
        path: vec![Step { at: index as Micros, p10: 0.0, p50: 0.0, p90: 0.0 }],
        ..Forecast::default()
    };
    let report = super::report(&targets, &forecasts, &again, ForecastInput { charts: Some(2), ..input() });
    // The one with most growth for its headroom: that of the highest value.
    assert_eq!(
        report.pictures.iter().map(|picture| (picture.title.as_str(), picture.path[0].at)).collect::<Vec<_>>(),
        [("s7", 7), ("s5", 5)]
    );
}

#[test]
fn what_is_at_its_limit_has_reached_it_at_the_end_of_its_history() {
    let full =
        (target(plain("full"), Unit::Count, Some(9.0), |_| 9.0), forecast_of(Verdict::AtLimit, 9.0, [None; 3], 1.0));
    let later = (
        target(plain("later"), Unit::Count, Some(9.0), |d| d),
        forecast_of(Verdict::Reaches, 5.0, [Some(3), Some(5), None], 0.7),
    );
    let short =
        (target(plain("short"), Unit::Count, Some(9.0), |d| d), forecast_of(Verdict::TooShort, 5.0, [None; 3], 0.0));
    let limits_of = |all: Vec<(Target, Forecast)>| {
        let (targets, forecasts): (Vec<Target>, Vec<Forecast>) = all.into_iter().unzip();
        (limits(&targets, &forecasts, 60 * DAY), targets[0].grid.end())
    };
    let (found, end) = limits_of(vec![full, later]);
    let found = found.unwrap();
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["full", "later"]);
    assert_eq!(found[0].1, Reached { p10: Some(end), p50: Some(end), p90: Some(end) });
    assert!(found[1].1.p50 > Some(end));
    // Of what is too short nothing is known, which is not the same as no limit in sight.
    assert_eq!(limits_of(vec![short]).0, None);
}
