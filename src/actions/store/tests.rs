//! The store as a whole, against days made of all points in order.

use super::{Keep, Sample, Writer, drop_old, open_or_make, put_together, seal};
use crate::model::series::{DAY, Day, DayFold, Point, Selector, Series};
use crate::model::time::{MINUTE, Micros};
use crate::sources::store::{Ask, Store, StoreLoss, date, log, start};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FIRST: i32 = 20_777;

/// All that was ever appended: by series and instant, the largest value.
type Truth = BTreeMap<Series, BTreeMap<Micros, f64>>;

fn series(n: u8) -> Series {
    Series::new(
        if n.is_multiple_of(2) { "even" } else { "odd:name" },
        &[("n", &n.to_string()), ("odd", "{\"a\"=\\}\n")],
    )
}

fn append(writer: &mut Writer, truth: &mut Truth, points: &[(u8, Micros, f64)]) {
    let samples: Vec<Sample> = points
        .iter()
        .map(|(n, at, value)| Sample { series: writer.series(&series(*n)).unwrap(), at: *at, value: *value })
        .collect();
    assert_eq!(writer.append(&samples).unwrap().stored, points.len() as u64);
    for (n, at, value) in points {
        let known = truth.entry(series(*n)).or_default().entry(*at).or_insert(*value);
        *known = known.max(*value);
    }
}

fn expected(truth: &Truth, (from, until): (i32, i32)) -> BTreeMap<Series, Vec<Day>> {
    let mut all = BTreeMap::new();
    for (series, points) in truth {
        let mut fold = DayFold::default();
        let mut days: Vec<Day> =
            points.iter().filter_map(|(at, value)| fold.add(Point { at: *at, value: *value })).collect();
        days.extend(fold.finish());
        days.retain(|day| (from..until).contains(&day.day));
        if !days.is_empty() {
            all.insert(series.clone(), days);
        }
    }
    all
}

fn days(store: &Store, ask: &Ask) -> (BTreeMap<Series, Vec<Day>>, Vec<StoreLoss>) {
    let (mut all, mut losses) = (BTreeMap::new(), Vec::new());
    let mut each = |series: Series, days| {
        assert!(all.insert(series, days).is_none(), "a series is given twice");
        Ok(())
    };
    store.days(ask, &mut losses, &mut each).unwrap();
    (all, losses)
}

fn all() -> Ask {
    Ask { selector: Selector::default(), from: FIRST - 10, until: FIRST + 100, with_sketch: true }
}

fn points(store: &Store) -> (Truth, Vec<StoreLoss>) {
    let (mut found, mut losses) = (Truth::new(), Vec::new());
    let mut each = |series: &Series, points: &[Point]| {
        let into = found.entry(series.clone()).or_default();
        for point in points {
            assert!(into.last_key_value().is_none_or(|(last, _)| *last < point.at), "points are in order, each once");
            into.insert(point.at, point.value);
        }
        Ok(())
    };
    store.points(&Selector::default(), (0, Micros::MAX), &mut losses, &mut each).unwrap();
    (found, losses)
}

#[track_caller]
fn agrees(store: &Store, truth: &Truth) {
    let (found, losses) = days(store, &all());
    assert_eq!(losses, []);
    assert_eq!(found, expected(truth, (FIRST - 10, FIRST + 100)));
    assert_eq!(points(store), (truth.clone(), Vec::new()));
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        n: u8,
        minute: i64,
        every: i64,
        values: Vec<u8>,
    },
    Reopen,
    Seal {
        day: i32,
    },
    /// Seal, but the logs come back: as if killed just before they were removed.
    SealKilled {
        day: i32,
    },
    PutTogether {
        day: i32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let every = prop_oneof![Just(5i64), Just(30), Just(61), Just(64), Just(70), Just(1_500)];
    let append = (0u8..4, 0i64..8 * 1_440, every, proptest::collection::vec(0u8..6, 1..40));
    prop_oneof![
        6 => append.prop_map(|(n, minute, every, values)| Step::Append { n, minute, every, values }),
        1 => Just(Step::Reopen),
        2 => (0i32..12).prop_map(|day| Step::Seal { day }),
        1 => (0i32..12).prop_map(|day| Step::SealKilled { day }),
        1 => (9i32..60).prop_map(|day| Step::PutTogether { day }),
    ]
}

fn logs(store: &Store) -> Vec<(PathBuf, Vec<u8>)> {
    std::fs::read_dir(store.log())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn days_are_those_of_all_points_in_order(steps in proptest::collection::vec(step(), 1..14),
        window in (0i32..8, 1i32..5)) {
        let folder = tempfile::tempdir().unwrap();
        let store = open_or_make(folder.path()).unwrap();
        let mut writer = Writer::new(&store);
        let mut truth = Truth::new();
        for step in steps {
            match step {
                Step::Append { n, minute, every, values } => {
                    let at = |i: usize| start(FIRST) + (minute + every * i as i64) * MINUTE;
                    let batch: Vec<_> = values.iter().enumerate().map(|(i, value)| (n, at(i),
                        f64::from(*value))).collect();
                    append(&mut writer, &mut truth, &batch);
                }
                Step::Reopen => writer = Writer::new(&store),
                Step::Seal { day } => prop_assert_eq!(seal(&store, start(FIRST + day),
                    Some(&mut writer)).unwrap().losses, []),
                Step::SealKilled { day } => {
                    let before = logs(&store);
                    prop_assert_eq!(seal(&store, start(FIRST + day), Some(&mut writer)).unwrap().losses, []);
                    for (path, bytes) in before.into_iter().filter(|(path, _)| !path.exists()) {
                        std::fs::write(path, bytes).unwrap();
                    }
                }
                Step::PutTogether { day } => prop_assert_eq!(put_together(&store, start(FIRST + day)).unwrap(), []),
            }
            agrees(&store, &truth);
        }
        // A part of it: whose series go on behind the window, these days are no last ones.
        let (from, until) = (FIRST + window.0, FIRST + window.0 + window.1);
        let part = Ask { selector: Selector::new("even", &[("n", "2")]), from, until, with_sketch: true };
        let (found, _) = days(&store, &part);
        let mut wanted = expected(&truth, (from, until));
        wanted.retain(|series, _| series.label("n") == "2");
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
        for (found, wanted) in found.values().zip(wanted.values()) {
            prop_assert_eq!(found.len(), wanted.len());
            for (n, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                let is_last = n + 1 == wanted_len(&part, &truth);
                prop_assert!(found == wanted || is_last && Day { sustained: wanted.sustained,
                    ..found.clone() } == *wanted, "{found:?} {wanted:?}");
            }
        }
    }
}

/// How many days of the one series that is asked for are wanted.
fn wanted_len(ask: &Ask, truth: &Truth) -> usize {
    expected(truth, (ask.from, ask.until))
        .into_iter()
        .filter(|(series, _)| ask.selector.matches(series))
        .map(|(_, days)| days.len())
        .sum()
}

/// A store of three days, sealed but for the last.
fn sample_store(folder: &Path) -> (Store, Truth) {
    let store = open_or_make(folder).unwrap();
    let mut writer = Writer::new(&store);
    let mut truth = Truth::new();
    for n in 0..40u8 {
        let batch: Vec<_> = (0..864i64)
            .map(|i| (n, start(FIRST) + i * 5 * MINUTE, ((i * (7 + i64::from(n))) % 101) as f64 + 0.25))
            .collect();
        append(&mut writer, &mut truth, &batch);
    }
    seal(&store, start(FIRST + 2) + DAY / 2, Some(&mut writer)).unwrap();
    (store, truth)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn damage_is_told_costs_no_more_than_it_hits_and_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let (store, truth) = sample_store(folder.path());
    agrees(&store, &truth);
    let files = files(folder.path());
    let names = |end: &str| files.iter().filter(|path| path.extension().is_some_and(|own| own == end)).count();
    assert_eq!((names("parquet"), names("index"), names("wal")), (4, 4, 1));
    let whole = expected(&truth, (FIRST, FIRST + 3));
    let mut reported = 0;
    for path in files
        .iter()
        .filter(|path| ["parquet", "index", "wal"].iter().any(|end| path.extension().is_some_and(|own| own == *end)))
    {
        let good = std::fs::read(path).unwrap();
        for n in 0..40 {
            let mut bad = good.clone();
            let at = n * good.len() / 40 + n * 7 % (good.len() / 40);
            match n % 4 {
                3 => bad.truncate(at),
                flip => bad[at] ^= 1 << (flip * 3),
            }
            std::fs::write(path, &bad).unwrap();
            let (found, losses) = days(&store, &all());
            let (kept, more) = points(&store);
            let is_log = path.extension().is_some_and(|end| end == "wal");
            if !(is_log && n % 4 == 3) {
                assert!(
                    !losses.is_empty() || !more.is_empty() || found == whole && kept == truth,
                    "{} at {at}: silent",
                    path.display()
                );
            }
            reported += usize::from(!losses.is_empty() || !more.is_empty());
            for (series, points) in &kept {
                assert!(
                    points.iter().all(|(at, value)| truth[series].get(at) == Some(value)),
                    "{} at {at}: wrong points",
                    path.display()
                );
            }
            // Days of which the points are known are still right; with a damaged log days may have fewer points.
            for (series, days) in &found {
                for day in days {
                    let right = whole[series].iter().find(|right| right.day == day.day).unwrap();
                    assert!(
                        day.count < right.count || day.max == right.max && day.sum == right.sum,
                        "{} at {at}: {day:?}",
                        path.display()
                    );
                }
            }
            // A second index, or the footer in it, spares most of it.
            let is_index = path.extension().is_some_and(|end| end == "index");
            assert!(!is_index || found == whole && kept == truth, "an index that is damaged costs nothing");
        }
        std::fs::write(path, &good).unwrap();
    }
    assert!(reported > 200, "only {reported} of 360 damages were told");
    agrees(&store, &truth);
}

#[test]
fn a_day_with_damaged_points_is_not_sealed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut truth) = sample_store(folder.path());
    let path = store.points_folder().join(format!("{}.0.parquet", date(FIRST)));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let mut writer = Writer::new(&store);
    append(&mut writer, &mut truth, &[(1, start(FIRST) + 1, 1e6)]);
    let sealed = seal(&store, start(FIRST + 2) + DAY / 2, Some(&mut writer)).unwrap();
    assert_eq!(sealed.losses.len(), 1);
    assert!(path.exists(), "what is left of it stays");
    bytes[100] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    agrees(&store, &truth);
}

#[test]
fn two_writers_have_logs_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_or_make(folder.path()).unwrap();
    let truths: Vec<Truth> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4u8)
            .map(|n| {
                let store = open_or_make(folder.path()).unwrap();
                scope.spawn(move || {
                    let (mut writer, mut truth) = (Writer::new(&store), Truth::new());
                    for i in 0..60i64 {
                        append(
                            &mut writer,
                            &mut truth,
                            &[(n, start(FIRST) + i * 40 * MINUTE, i as f64), (9, start(FIRST) + i * MINUTE, i as f64)],
                        );
                        if i % 20 == 7 {
                            seal(&store, start(FIRST + 1 + (i / 30) as i32), Some(&mut writer)).unwrap();
                        }
                    }
                    truth
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let mut truth = Truth::new();
    for (series, points) in truths.into_iter().flatten() {
        truth.entry(series).or_default().extend(points);
    }
    agrees(&store, &truth);
    seal(&store, start(FIRST + 9), None).unwrap();
    assert_eq!(logs(&store).len(), 0);
    agrees(&store, &truth);
}

#[test]
fn a_killed_writers_log_is_cut_and_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_or_make(folder.path()).unwrap();
    let mut truth = Truth::new();
    let mut writer = Writer::new(&store);
    append(&mut writer, &mut truth, &[(1, start(FIRST), 1.0), (2, start(FIRST), 2.0)]);
    drop(writer);
    let (path, mut bytes) = logs(&store).remove(0);
    let mut frame = log::Encoder::new(2);
    frame.name("late{}");
    frame.sample(2, start(FIRST) + 5, 3.0);
    let frame = frame.finish();
    bytes.extend_from_slice(&frame[..frame.len() - 1]);
    std::fs::write(&path, &bytes).unwrap();
    agrees(&store, &truth);
    let mut writer = Writer::new(&store);
    append(&mut writer, &mut truth, &[(2, start(FIRST) + 9, 4.0), (3, start(FIRST) + 9, 5.0)]);
    assert_eq!(logs(&store).len(), 1, "the log was taken over");
    agrees(&store, &truth);
    // A second writer meanwhile takes another.
    let mut second = Writer::new(&store);
    append(&mut second, &mut truth, &[(2, start(FIRST) + 11, 4.0)]);
    assert_eq!(logs(&store).len(), 2);
    agrees(&store, &truth);
}

#[test]
fn old_points_go_before_old_days_and_the_size_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_or_make(folder.path()).unwrap();
    let (mut writer, mut truth) = (Writer::new(&store), Truth::new());
    for day in 0..40i64 {
        let batch: Vec<_> =
            (0..200).map(|i| (1, start(FIRST) + day * DAY + i * 6 * MINUTE, (i * 37 % 101 + day) as f64)).collect();
        append(&mut writer, &mut truth, &batch);
    }
    let now = start(FIRST + 40) + DAY / 4;
    seal(&store, now, Some(&mut writer)).unwrap();
    put_together(&store, now).unwrap();
    agrees(&store, &truth);
    let listing = store.list().unwrap();
    assert_eq!((listing.points.len(), listing.stale.len(), listing.logs.len()), (40, 0, 0));
    assert!(listing.days.first().unwrap().is_month() && listing.days.len() < 35);
    let whole = expected(&truth, (FIRST, FIRST + 40));
    let keep = Keep { points: 14 * DAY, days: 20 * DAY, bytes: None };
    let dropped = drop_old(&store, now, keep).unwrap();
    assert_eq!(dropped.old_points, 26);
    let (found, _) = days(&store, &all());
    let left: Vec<Day> = whole.into_values().flatten().filter(|day| day.day >= FIRST + 20).collect();
    assert_eq!(found.into_values().flatten().collect::<Vec<_>>(), left);
    assert_eq!(points(&store).0.values().flatten().count(), 14 * 200);
    // A late sample of a day without single points changes nothing.
    append(&mut writer, &mut Truth::new(), &[(1, start(FIRST + 22), 1e9)]);
    seal(&store, now, Some(&mut writer)).unwrap();
    let (found, _) = days(&store, &all());
    assert_eq!(found.into_values().flatten().collect::<Vec<_>>(), left);
    let dropped = drop_old(&store, now, Keep { bytes: Some(30_000), ..keep }).unwrap();
    assert!(dropped.bytes <= 30_000 && !dropped.is_over && !dropped.points.is_empty(), "{dropped:?}");
    let dropped = drop_old(&store, now, Keep { bytes: Some(1), ..keep }).unwrap();
    assert!(dropped.is_over && !dropped.days.is_empty(), "{dropped:?}");
    assert_eq!(days(&store, &all()).0.len(), 0);
}

#[test]
fn what_is_no_store_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letter.txt"), "dear").unwrap();
    let error = open_or_make(folder.path()).unwrap_err().to_string();
    assert!(error.contains("holds other files"), "{error}");
    assert!(Store::open(folder.path()).unwrap_err().to_string().contains("record --store"));
    let new = folder.path().join("a/b");
    open_or_make(&new).unwrap();
    assert!(Store::is_store(&new));
    std::fs::write(new.join("plimsoll-store.json"), "{\"plimsoll_store\":2}").unwrap();
    assert!(open_or_make(&new).unwrap_err().to_string().contains("another version"));
    let mut writer = Writer::new(&open_or_make(&folder.path().join("c")).unwrap());
    assert_eq!(writer.series(&Series::new("no name", &[])), None);
    let id = writer.series(&Series::new("a", &[])).unwrap();
    let odd = [(0, f64::NAN), (-1, 1.0), (0, f64::INFINITY), (8_000_000_000_000_000, 1.0), (0, 0.0)];
    let appended = writer.append(&odd.map(|(at, value)| Sample { series: id, at, value })).unwrap();
    assert_eq!((appended.stored, appended.refused), (1, 4));
}
