//! What `plimsoll forecast` reads from a real Prometheus.

use super::history::{END, NAMESPACES, RESOURCES, START, Server, history, namespace};
use crate::forecast_grids::{equal, forecast, grids};
use std::collections::BTreeMap;

#[test]
fn hours_of_a_prometheus_are_what_went_in() {
    let truth = &history().1;
    let server = Server::plain(&[]);
    let at = |seconds| jiff::Timestamp::from_second(seconds).unwrap().to_string();
    let report = forecast(&[
        "--prometheus",
        &server.url,
        "--since",
        &at(START),
        "--until",
        &at(END),
        "--query",
        "mine=count(up) or vector(7)",
    ])
    .json(0);
    let (step, found) = grids(&report);
    assert_eq!((step, report["inputs"][0]["kind"].as_str()), (3_600, Some("prometheus")));
    let limits: BTreeMap<&str, Option<f64>> = report["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["series"].as_str().unwrap(), row["limit"].as_f64()))
        .collect();
    for number in 0..NAMESPACES {
        for resource in RESOURCES {
            let name = namespace(number);
            let mut hours: BTreeMap<i64, f64> = BTreeMap::new();
            for (at, value) in truth.quota("used", &name, resource) {
                let best = hours.entry(at / 3_600).or_insert(*value);
                *best = best.max(*value);
            }
            let key = format!("kube_resourcequota|namespace={name}|resource={resource}|resourcequota=team|type=used");
            equal(&[(key.clone(), found[&key].clone())].into(), &[(key.clone(), hours)].into(), "hours");
            let series = format!(
                "kube_resourcequota{{namespace=\"{name}\",resource=\"{resource}\",resourcequota=\"team\",\
                 type=\"used\"}}"
            );
            let hard = truth.quota("hard", &name, resource).last().unwrap().1;
            assert_eq!(limits[series.as_str()], Some(hard), "{series}");
        }
    }
    let last = |key: &str| found.get(key).and_then(|grid| grid.values().next_back().copied());
    let most = |key: &str| found.get(key).and_then(|grid| grid.values().copied().reduce(f64::max));
    for (key, value) in [
        ("cluster_requests|resource=cpu", 1.75),
        ("apiserver_objects|resource=pods", 99.0),
        ("apiserver_object_bytes|resource=pods", 6e6),
        ("apiserver_seats|kind=executing|priority_level=low", 9.0),
        ("etcd_db_bytes|instance=e", 1e9),
        ("mine", 7.0),
    ] {
        assert_eq!(most(key), Some(value), "{key}");
    }
    assert_eq!(limits["cluster_requests{resource=\"cpu\"}"], Some(4.0));
    assert_eq!(limits["apiserver_seats{kind=\"executing\",priority_level=\"low\"}"], Some(220.0));
    assert_eq!(limits["etcd_db_bytes{instance=\"e\"}"], Some(8e9));
    let flow = last("apiserver_rps|flow_schema=one|priority_level=low").unwrap();
    assert!((flow - 1.0).abs() < 0.01, "{flow}");
    // GET and LIST together: 1 and 2 a second, and up to 0.2 more.
    let total = last("apiserver_rps").unwrap();
    assert!((3.0..3.3).contains(&total), "{total}");
    assert_eq!(found["apiserver_rps"].len(), 60 * 24);
    // Days are made of the same hours.
    let report = forecast(&[
        "--prometheus",
        &server.url,
        "--since",
        &at(START),
        "--until",
        &at(END),
        "--step",
        "1d",
        "--select",
        "team-2",
    ])
    .json(0);
    let (step, mut found) = grids(&report);
    assert_eq!((step, found.len()), (86_400, 2));
    let mut days: BTreeMap<i64, f64> = BTreeMap::new();
    for (at, value) in truth.quota("used", "team-2", "requests.cpu") {
        let best = days.entry(at / 86_400).or_insert(*value);
        *best = best.max(*value);
    }
    found.retain(|key, _| key.contains("cpu"));
    let key = "kube_resourcequota|namespace=team-2|resource=requests.cpu|resourcequota=team|type=used".to_owned();
    equal(&found, &[(key, days)].into(), "days");
}
