//! How often `plimsoll compare` is wrong, and what it finds.

use crate::compare_lab::{changes, compare, is_change, oracle, rows};
use crate::support::folder;

/// A steady log, split at 200 random places: in 19 of 20 nothing is said to have changed.
#[test]
fn false_alarms_are_rare() {
    let scratch = folder();
    let log = scratch.path().join("steady.log").to_str().unwrap().to_owned();
    oracle("compare.py", &["steady", "7", "1200", &log]);
    let start = "2026-11-20T09:18:00Z".parse::<jiff::Timestamp>().unwrap();
    let mut state = 7_u64;
    let mut alarms = Vec::new();
    for _ in 0..200 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let second = 240 + (state >> 33) % 720;
        let at = (start + jiff::SignedDuration::from_secs(second as i64)).to_string();
        let report = compare(&[&log, "--at", &at]);
        assert!(report["totals"]["compared"].as_u64().unwrap() > 40, "{}", report["totals"]);
        let changed = changes(&report);
        if !changed.is_empty() {
            alarms.push((second, changed));
        }
    }
    assert!(alarms.len() < 10, "{} of 200: {alarms:?}", alarms.len());
}

/// A third more requests of one client than it would have sent: found, and nothing else is said to have changed.
#[test]
fn thirty_per_cent_more_is_found() {
    let scratch = folder();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let middle = "2026-11-20T09:48:00.000000Z";
    let (mut found, mut trials, mut alone) = (0, 0, 0);
    for seed in 0..4 {
        let log = path("steady.log");
        oracle("compare.py", &["steady", &seed.to_string(), "3600", &log]);
        for agent in ["random-2", "random-4", "clock-0", "clock-3", "kubelet"] {
            let after = scratch.path().join("after");
            std::fs::create_dir_all(after.join("audit")).unwrap();
            std::fs::copy(&log, after.join("audit/steady.log")).unwrap();
            oracle("compare.py", &["more", &log, agent, "0.3", middle, after.join("audit/more.log").to_str().unwrap()]);
            let report = compare(&[
                &log,
                after.to_str().unwrap(),
                "--before",
                &format!("..{middle}"),
                "--after",
                &format!("{middle}.."),
            ]);
            let row = rows(&report, |row| row["area"] == "clients" && row["agent"] == agent && row["metric"] == "rps")
                .next()
                .unwrap();
            trials += 1;
            found += usize::from(row["verdict"] == "up");
            let others =
                rows(&report, |row| row["area"] == "clients" && row["agent"] != agent && is_change(row)).count();
            alone += usize::from(others == 0);
        }
    }
    assert!(found * 100 >= trials * 95, "{found} of {trials}");
    assert!(alone * 100 >= trials * 95, "{alone} of {trials}");
}
