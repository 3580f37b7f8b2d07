//! A store of series and what is in it, for tests of `plimsoll record import`.

use crate::support::{Ran, plimsoll};
use plimsoll::model::series::{Day, Point, Selector, Series};
use plimsoll::sources::store::{Ask, Store};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// 2026-09-01: all of it is over.
pub(crate) const START: i64 = 1_788_220_800;
/// So that it is kept nevertheless.
pub(crate) const KEEP: [&str; 4] = ["--keep-points", "3000d", "--keep", "4000d"];

pub(crate) type Points = BTreeMap<Series, Vec<(i64, f64)>>;

/// Imports a file, and `more`.
pub(crate) fn import(file: &str, store: &str, more: &[&str]) -> Ran {
    plimsoll(&[&["record", "import", file, "--store", store], &KEEP[..], more].concat())
}

pub(crate) fn points(store: &str) -> (Points, Vec<String>) {
    let (mut all, mut losses) = (Points::new(), Vec::new());
    let store = Store::open(Path::new(store)).unwrap();
    let mut each = |series: &Series, points: &[Point]| {
        all.entry(series.clone()).or_default().extend(points.iter().map(|point| (point.at, point.value)));
        Ok(())
    };
    store.points(&Selector::default(), (0, i64::MAX), &mut losses, &mut each).unwrap();
    (all, losses.iter().map(ToString::to_string).collect())
}

/// All days of a store; nothing may be lost.
pub(crate) fn days(store: &str) -> BTreeMap<Series, Vec<Day>> {
    let (mut all, mut losses) = (BTreeMap::new(), Vec::new());
    let ask = Ask { selector: Selector::default(), from: 0, until: i32::MAX, with_sketch: true };
    let mut each = |series, days| {
        assert!(all.insert(series, days).is_none());
        Ok(())
    };
    Store::open(Path::new(store)).unwrap().days(&ask, &mut losses, &mut each).unwrap();
    assert_eq!(losses, []);
    all
}

/// Numbers that look like chance, the same every time.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A CSV file of so many series with so many values each.
pub(crate) fn many_lines(series: u64, count: i64) -> String {
    let mut chance = Chance(series);
    let mut csv = "name,who,time,value\n".to_owned();
    for line in 0..count {
        for who in 0..series {
            writeln!(
                csv,
                "size,w{who},{},{}",
                START + line * 300 + chance.below(200) as i64,
                chance.below(1_000_000) as f64 / 8.0
            )
            .unwrap();
        }
    }
    csv
}

/// What an import of [`many_lines`] into a store without room came to: it was said, and what was acknowledged is there.
#[track_caller]
pub(crate) fn check_full(ran: &Ran, csv: &str, store: &Path, says: &str) {
    ran.did_not_panic();
    assert!(ran.stdout.contains("code 3"), "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains(says) && ran.stderr.contains("--max-size") && ran.stderr.contains("log"),
        "{}",
        ran.stderr
    );
    let batches = ran.stderr.lines().filter(|line| line.contains("batch ")).count();
    assert!(batches > 5 && batches < 100, "{batches} batches were acknowledged");
    let store = store.to_str().unwrap();
    let (found, losses) = points(store);
    assert_eq!(losses, [] as [String; 0]);
    let count: usize = found.values().map(Vec::len).sum();
    assert!(count >= batches * 490, "{count} of {batches} batches are there");
    // With room again it goes on.
    import(csv, store, &[]).exits(0);
    let (found, losses) = points(store);
    assert_eq!((found.len(), losses.len()), (50, 0));
}
