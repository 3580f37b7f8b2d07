//! `etcd flame`: its total is that of `etcd usage`, and the picture can be used.

use crate::support::{folder, picture, plimsoll, sample};
use serde_json::Value;

const AFTER: &str = "list-storm/etcd/after.db.zst";

/// Lines of folded text, and their weights.
fn folded(path: &str, more: &[&str]) -> Vec<(String, u64)> {
    let text = plimsoll(&[&["etcd", "flame", path, "-o", "folded"], more].concat()).exits(0).stdout.clone();
    text.lines()
        .map(|line| line.rsplit_once(' ').map(|(stack, weight)| (stack.to_owned(), weight.parse().unwrap())).unwrap())
        .collect()
}

#[test]
fn each_weight_is_that_of_usage() {
    let path = sample(AFTER);
    let totals = plimsoll(&["etcd", "usage", &path, "-o", "json"]).json(0)["totals"].clone();
    let total = |field: &str| totals[field].as_u64().unwrap();
    for (weight, expected) in [
        ("live", total("live_bytes")),
        ("history", total("history_bytes")),
        ("all", total("live_bytes") + total("history_bytes")),
        ("keys", total("keys")),
        ("revisions", total("revisions")),
    ] {
        let sum: u64 = folded(&path, &["--weight", weight]).iter().map(|(_, weight)| weight).sum();
        assert_eq!(sum, expected, "{weight}");
    }
    let lines = folded(&path, &[]);
    for (stack, depth) in
        [("secrets;helm;sh.helm.release.v1.app0.*", 3), ("nodes;(cluster);hollow-*", 3), ("compact_rev_key", 1)]
    {
        assert!(lines.iter().any(|(line, _)| line == stack && line.split(';').count() == depth), "{stack}");
    }
    let message = plimsoll(&["etcd", "flame", &path, "-o", "json"]).exits(2).stderr.clone();
    assert!(message.contains("etcd usage --by name-prefix"), "{message}");
}

#[test]
fn a_difference_has_both_weights() {
    let (before, after) = (sample("list-storm/etcd/before.db.zst"), sample(AFTER));
    let text = plimsoll(&["etcd", "flame", &after, "--diff", &before, "-o", "folded"]).exits(0).stdout.clone();
    let mut sums = [0, 0];
    for line in text.lines() {
        let numbers: Vec<u64> = line.rsplit(' ').take(2).map(|number| number.parse().unwrap()).collect();
        sums = [sums[0] + numbers[1], sums[1] + numbers[0]];
    }
    let live =
        |path: &str| plimsoll(&["etcd", "usage", path, "-o", "json"]).json(0)["totals"]["live_bytes"].as_u64().unwrap();
    assert_eq!(sums, [live(&before), live(&after)]);
}

#[test]
fn the_picture_can_be_zoomed_and_searched() {
    let home = folder();
    let (before, after) = (sample("list-storm/etcd/before.db.zst"), sample(AFTER));
    let lines = folded(&after, &[]);
    let total: u64 = lines.iter().map(|(_, weight)| weight).sum();
    let matched: u64 = lines.iter().filter(|(stack, _)| stack.contains("helm")).map(|(_, weight)| weight).sum();
    let percent = matched as f64 / total as f64 * 100.0;
    assert!(percent > 5.0, "{percent}");
    for more in [&[][..], &["--diff", &before]] {
        let svg = plimsoll(&[&["etcd", "flame", &after], more].concat()).exits(0).stdout.clone();
        let seen = picture(home.path(), &svg, "helm");
        assert_eq!(
            (&seen["total"], &seen["zoom_changed"], &seen["errors"]),
            (&total.into(), &true.into(), &Value::Array(vec![])),
            "{seen}"
        );
        assert!(
            seen["title"].as_str().unwrap().starts_with("etcd, live bytes: ") && seen["frames"].as_u64().unwrap() > 100,
            "{seen}"
        );
        assert!((seen["matched_percent"].as_f64().unwrap() - percent).abs() < 0.2, "{seen}, {percent}");
    }
}
