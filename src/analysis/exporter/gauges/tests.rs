use super::*;
use crate::model::apf::Details;
use crate::model::memory::Amount;
use crate::model::time::MINUTE;

fn quota(namespace: &str, name: &str, kind: &str) -> Series {
    let labels = [("namespace", namespace), ("resourcequota", name), ("resource", "pods"), ("type", kind)];
    Series::new(QUOTA, &labels)
}

fn series(gauges: &Gauges, name: &str, now: Micros) -> Vec<(String, f64)> {
    let family = gauges.families(now).into_iter().find(|family| family.spec.name == name).unwrap();
    let value = |exposed: Exposed| if let Exposed::Number(value) = exposed { value } else { f64::NAN };
    family.series.into_iter().map(|(labels, exposed)| (labels.join("|"), value(exposed))).collect()
}

#[test]
fn of_several_quotas_the_fullest_counts_and_one_that_was_deleted_goes() {
    let mut gauges = Gauges::default();
    let at = |at: Micros, all: &[(&str, &str, f64, f64)]| {
        let both = all.iter().flat_map(|(namespace, name, used, hard)| {
            [(quota(namespace, name, "used"), at, *used), (quota(namespace, name, "hard"), at, *hard)]
        });
        both.collect::<Vec<_>>()
    };
    gauges.take(&at(
        0,
        &[("web", "a", 2.0, 10.0), ("web", "b", 3.0, 4.0), ("none", "a", 5.0, 0.0), ("old", "a", 1.0, 1.0)],
    ));
    let ratios = |gauges: &Gauges, now| series(gauges, "plimsoll_quota_ratio", now);
    assert_eq!(ratios(&gauges, MINUTE), [("old|pods".to_owned(), 1.0), ("web|pods".to_owned(), 0.75)]);
    gauges.take(&at(5 * MINUTE, &[("web", "a", 9.0, 10.0)]));
    assert_eq!(ratios(&gauges, 6 * MINUTE).len(), 2, "a list may fail once");
    gauges.take(&at(16 * MINUTE, &[("web", "a", 12.0, 10.0)]));
    assert_eq!(ratios(&gauges, 16 * MINUTE), [("web|pods".to_owned(), 1.2)]);
    assert!(ratios(&gauges, 16 * MINUTE + STANDS + 1).is_empty(), "nothing was listed for over an hour");
    // What comes late changes nothing.
    gauges.take(&at(MINUTE, &[("web", "a", 1.0, 10.0)]));
    assert_eq!(ratios(&gauges, 16 * MINUTE), [("web|pods".to_owned(), 1.2)]);
}

#[test]
fn of_too_many_series_the_largest_are_exported_and_the_rest_is_counted() {
    let mut gauges = Gauges::default();
    let all: Vec<_> = (0..MAX_SERIES_EACH + 7)
        .map(|number| (Series::new(APISERVER_OBJECTS, &[("resource", &format!("r{number:05}"))]), 0, number as f64))
        .collect();
    gauges.take(&all);
    let shown = series(&gauges, "plimsoll_storage_keys", 0);
    assert_eq!((shown.len(), &shown[0]), (MAX_SERIES_EACH, &("|r00007".to_owned(), 7.0)));
    assert_eq!(series(&gauges, "plimsoll_serve_series_left_out", 0), [("plimsoll_storage_keys".to_owned(), 7.0)]);
    let long = "x".repeat(5_000);
    gauges.take(&[(Series::new(APISERVER_OBJECTS, &[("resource", &long)]), 0, f64::MAX)]);
    assert!(series(&gauges, "plimsoll_storage_keys", 0).iter().all(|(labels, _)| labels.len() < 500));
}

fn memory(at: Micros, usage: u64, inode: u64) -> Sample {
    let values = [("memory.current", usage), ("memory.max", 1_000)];
    Sample {
        path: "/kube".to_owned(),
        at,
        inode: Some(inode),
        values: values.map(|(name, value)| (name.to_owned(), Amount::of(value))).to_vec(),
        stat: [("anon", usage), ("file", 0), ("active_file", 0), ("inactive_file", 0)]
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec(),
        ..Sample::default()
    }
}

#[test]
fn a_verdict_looks_back_a_minute_and_not_behind_a_new_group_of_the_name() {
    let mut gauges = Gauges::default();
    let verdict = |gauges: &Gauges, now| series(gauges, "plimsoll_memory_verdict", now);
    for step in 0..20 {
        gauges.memory(vec![memory(step * 10 * SECOND, 100, 1)]);
    }
    assert_eq!(gauges.groups["/kube"].len(), 7, "a minute of samples every ten seconds");
    assert_eq!(verdict(&gauges, 200 * SECOND), [("/kube|healthy".to_owned(), 1.0)]);
    // Unreclaimable memory that grows by half of the limit in a minute reaches it soon.
    gauges.memory(vec![memory(250 * SECOND, 600, 1)]);
    assert_eq!(verdict(&gauges, 250 * SECOND), [("/kube|anon-pressure".to_owned(), 1.0)]);
    gauges.memory(vec![memory(260 * SECOND, 600, 2)]);
    assert_eq!(gauges.groups["/kube"].len(), 1);
    assert_eq!(verdict(&gauges, 260 * SECOND), [("/kube|healthy".to_owned(), 1.0)]);
    assert!(verdict(&gauges, 260 * SECOND + STANDS + 1).is_empty(), "the group is gone");
}

#[test]
fn seats_are_summed_over_apiservers_and_small_users_are_others() {
    let request = |user: &str, executes, seats| Request {
        level: "workload-low".to_owned(),
        executes,
        seats,
        details: Some(Details { user: user.to_owned(), ..Details::default() }),
        ..Request::default()
    };
    let mut requests = vec![
        request("ci", true, 3),
        request("ci", true, 4),
        request("ci", false, 5),
        request("system:node:a", true, 1),
        request("system:node:b", true, 1),
        Request { flow: "by-flow".to_owned(), seats: 9, ..request("", false, 0) },
    ];
    requests[5].details = None;
    let mut gauges = Gauges::default();
    gauges.requests(0, requests.clone());
    let seats = |gauges: &Gauges| series(gauges, "plimsoll_client_seats", 0);
    let expected = [
        ("by-flow|workload-low|waiting", 9.0),
        ("ci|workload-low|executing", 7.0),
        ("ci|workload-low|waiting", 5.0),
        ("system:node:*|workload-low|executing", 2.0),
    ];
    assert_eq!(seats(&gauges), expected.map(|(labels, value)| (labels.to_owned(), value)));
    requests.extend((0..MAX_USERS).map(|number| request(&format!("u{number}"), true, 1)));
    gauges.requests(0, requests);
    let seats = seats(&gauges);
    let of_others = seats.iter().find(|(labels, _)| labels.starts_with("other|"));
    assert_eq!(of_others, Some(&("other|workload-low|executing".to_owned(), 3.0)));
    assert_eq!(seats.iter().map(|(_, value)| value).sum::<f64>(), 23.0 + MAX_USERS as f64);
}

#[test]
fn limits_have_the_quantiles_that_are_known() {
    let mut gauges = Gauges::default();
    let reached = Reached { p10: Some(5 * SECOND), p50: Some(9 * SECOND), p90: None };
    gauges.limits(vec![("etcd db".to_owned(), reached), ("etcd db".to_owned(), Reached::default())]);
    let expected = [("etcd db|0.1".to_owned(), 5.0), ("etcd db|0.5".to_owned(), 9.0)];
    assert_eq!(series(&gauges, "plimsoll_limit_reached_timestamp_seconds", 0), expected);
}

#[test]
fn lists_cost_what_objects_in_etcd_do() {
    let mut gauges = Gauges::default();
    let of = |name: &str, value| (Series::new(name, &[("group", "example.com"), ("resource", "widgets")]), 0, value);
    gauges.take(&[of(APISERVER_OBJECTS, 10.0)]);
    assert_eq!(gauges.sizes(), Metered::default(), "before 1.34 there are counts only");
    gauges.take(&[of(APISERVER_OBJECT_BYTES, 1_000.0)]);
    let stored = [(["example.com", "widgets"], Size { objects: 10, bytes: 1_000 })];
    assert_eq!(gauges.sizes(), Metered::of_stored(stored.into_iter()));
}
