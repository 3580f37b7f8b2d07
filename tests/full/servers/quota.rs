//! `plimsoll quota propose` from sixty days of history with known peaks: in a real Prometheus, and in a store of
//! plimsoll.

use super::history::{END, EVERY, NAMESPACES, RESOURCES, START, Server, Truth, history, namespace};
use crate::support::{folder, number, plimsoll, write};
use plimsoll::model::time::{SECOND, format};
use serde_json::Value;
use std::collections::BTreeMap;

/// The least unit of a resource and what a value is in it: thousandths of a core, bytes.
fn units(resource: &str, value: f64) -> i128 {
    if resource == "requests.cpu" { (value * 1000.0).round() as i128 } else { value as i128 }
}

/// A fifth more than the peak, rounded up as docs/commands/quota.md says: the largest step that is at most a twentieth.
fn proposed(resource: &str, peak: i128) -> i128 {
    // Sixths of the least unit are enough: a fifth more is six fifths.
    let need = peak * 6;
    let steps: Vec<i128> = if resource == "requests.cpu" {
        (0..12).flat_map(|power| [1, 2, 5].map(|times| times * 10i128.pow(power))).collect()
    } else {
        (0..60).map(|power| 1 << power).collect()
    };
    let step = steps.into_iter().filter(|step| step * 5 * 20 <= need).max().unwrap_or(1);
    (need + step * 5 - 1) / (step * 5) * step
}

/// What lasted a quarter of an hour: a value stands until the next one, but not longer than 65 minutes.
fn lasted(points: &[(i64, f64)]) -> f64 {
    let mut best = f64::MIN;
    for first in 0..points.len() {
        let mut low = f64::MAX;
        for at in first..points.len().min(first + 5) {
            low = low.min(points[at].1);
            let next = points.get(at + 1).map_or(points[at].0, |next| next.0);
            let end = next.min(points[at].0 + 65 * 60);
            if end - points[first].0 >= 900 {
                best = best.max(low);
                break;
            }
            if next > end {
                break;
            }
        }
    }
    best
}

/// Compares all proposals with what went in; how many there are.
#[track_caller]
pub(crate) fn compare(report: &Value, truth: &Truth, without_spikes: bool) -> usize {
    let rows = report["rows"].as_array().unwrap();
    let found: BTreeMap<(&str, &str), &Value> =
        rows.iter().map(|row| ((row["namespace"].as_str().unwrap(), row["resource"].as_str().unwrap()), row)).collect();
    for place in 0..NAMESPACES {
        for resource in RESOURCES {
            let name = namespace(place);
            let row = found[&(name.as_str(), resource)];
            let points = truth.quota("used", &name, resource);
            let most = points.iter().map(|point| point.1).fold(f64::MIN, f64::max);
            let at = points.iter().find(|point| point.1 == most).unwrap().0;
            let level = lasted(points);
            assert!(level < most, "the peak lasts {EVERY} s");
            let taken = units(resource, if without_spikes { level } else { most });
            assert_eq!(units(resource, number(row, "peak_value")), taken, "{row}");
            // To the byte.
            assert_eq!(units(resource, number(row, "proposed_value")), proposed(resource, taken), "{row}");
            assert_eq!((&row["peak_at"], &row["spike"]), (&format(at * SECOND).into(), &"yes".into()), "{row}");
            let hard = truth.quota("hard", &name, resource).last().unwrap().1;
            assert_eq!(units(resource, number(row, "hard_value")), units(resource, hard), "{row}");
        }
    }
    assert_eq!(rows.len(), NAMESPACES * RESOURCES.len());
    rows.len()
}

#[test]
fn proposals_from_prometheus_are_the_known_peaks_and_a_fifth() {
    let server = Server::plain(&["--query.max-samples=20000".to_owned()]);
    let (from, until) = (format(START * SECOND), format(END * SECOND));
    let ask = |more: &[&str]| {
        let base = [
            "quota",
            "propose",
            "--prometheus",
            &server.url,
            "--max-samples",
            "20000",
            "--since",
            &from,
            "--until",
            &until,
            "-o",
            "json",
        ];
        plimsoll(&[&base[..], more].concat()).json(0)
    };
    assert!(compare(&ask(&[]), &history().1, false) > 8);
    compare(&ask(&["--without-spikes"]), &history().1, true);
    // Prometheus itself has seen no query that loaded more.
    let heaviest = server.queries().into_iter().map(|(_, peak)| peak).max().unwrap();
    assert!(heaviest <= 20_000 && heaviest > 4_000, "{heaviest}");
}

/// The same points in a store, put there as CSV: days that are over are sealed, the last ones are in its log.
#[test]
fn proposals_from_a_store_are_the_same() {
    use std::fmt::Write as _;
    let truth = &history().1;
    let mut csv = "name,namespace,resourcequota,resource,type,time,value\n".to_owned();
    for kind in ["used", "hard"] {
        for place in 0..NAMESPACES {
            for resource in RESOURCES {
                let name = namespace(place);
                for (at, value) in truth.quota(kind, &name, resource) {
                    let _ = writeln!(
                        csv,
                        "kube_resourcequota,{name},team,{resource},{kind},{},{value}",
                        format(at * SECOND)
                    );
                }
            }
        }
    }
    let place = folder();
    let file = write(place.path(), "history.csv", csv);
    let store = place.path().join("store");
    let store = store.to_str().unwrap();
    plimsoll(&["record", "import", &file, "--store", store, "--keep-points", "10000d", "--keep", "10000d"]).exits(0);
    let ask = |more: &[&str]| plimsoll(&[&["quota", "propose", store, "-o", "json"], more].concat()).json(0);
    assert!(compare(&ask(&[]), truth, false) > 8);
    compare(&ask(&["--without-spikes"]), truth, true);
    // Days alone say the same of peaks.
    let percentile = ask(&["--peak", "p99"]);
    for row in percentile["rows"].as_array().unwrap() {
        let (name, resource) = (row["namespace"].as_str().unwrap(), row["resource"].as_str().unwrap());
        let mut values: Vec<f64> = truth.quota("used", name, resource).iter().map(|point| point.1).collect();
        values.sort_by(f64::total_cmp);
        let exact = values[((values.len() as f64 * 0.99).ceil() as usize).max(1) - 1];
        let found = number(row, "peak_value");
        assert!(found >= exact * 0.999_999 && found <= exact * (1.0 + 1.0 / 128.0) + 0.001, "{found} {exact}");
    }
}
