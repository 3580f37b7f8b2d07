//! Makes a large history store through its own writer, day by day, with known peaks; or reads all days of one and
//! prints their sums. `benches/history.sh` measures both.
//!
//! ```text
//! cargo run --release --example store -- make DIR NAMESPACES DAYS
//! cargo run --release --example store -- read DIR
//! ```

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for benchmarks, not for people")]

use plimsoll::actions::store::{Sample, Writer, open_or_make, put_together, seal};
use plimsoll::model::series::{DAY, Selector, Series};
use plimsoll::model::time::SECOND;
use plimsoll::sources::store::{Ask, Store};
use std::path::Path;
use std::time::Instant;

/// 2026-11-01.
const FIRST: i64 = 20_758;
const EVERY: i64 = 300 * SECOND;
const RESOURCES: [&str; 8] = [
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
    "pods",
    "requests.storage",
    "count/configmaps",
    "count/secrets",
];

/// A value that looks like use: a level of its own, a course over the day, noise; always below 1000.
fn value(series: u64, day: u64, slot: u64) -> f64 {
    let mut mixed = (series << 32 | day << 16 | slot).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 29;
    let noise = (mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 54) as f64 / 64.0;
    let course = 144i64 - (slot as i64 - 144).abs();
    ((100 + series % 700) as f64 + course as f64 / 2.0 + noise).floor() / 4.0
}

/// Where the peak of a series lies: one point of the day.
fn peak(series: u64, day: u64) -> (u64, f64) {
    ((series * 31 + day * 17) % 288, 1000.0 + ((series * 7 + day * 13) % 997) as f64)
}

fn make(folder: &Path, namespaces: u64, days: u64) {
    let store = open_or_make(folder).unwrap();
    let mut writer = Writer::new(&store);
    let mut ids = Vec::new();
    for namespace in 0..namespaces {
        for resource in RESOURCES {
            let labels = [
                ("namespace", &*format!("ns-{namespace:05}")),
                ("resourcequota", "compute"),
                ("resource", resource),
                ("type", "used"),
            ];
            ids.push(writer.series(&Series::new("kube_resourcequota", &labels)).unwrap());
        }
    }
    let mut batch = Vec::with_capacity(ids.len());
    for day in 0..days {
        let began = Instant::now();
        for slot in 0..288u64 {
            batch.clear();
            let at = (FIRST + day as i64) * DAY + slot as i64 * EVERY;
            for (n, series) in ids.iter().enumerate() {
                let (place, high) = peak(n as u64, day);
                let value = if place == slot { high } else { value(n as u64, day, slot) };
                batch.push(Sample { series: *series, at, value });
            }
            writer.append(&batch).unwrap();
        }
        let written = began.elapsed();
        // Two hours and more into the next day the one before is sealed: here the next day has not begun.
        let sealed = seal(&store, (FIRST + day as i64) * DAY + DAY / 4, Some(&mut writer)).unwrap();
        put_together(&store, (FIRST + day as i64) * DAY).unwrap();
        println!(
            "day {day}: written {:.1} s, sealed {:?} {:.1} s",
            written.as_secs_f64(),
            sealed.days,
            (began.elapsed() - written).as_secs_f64()
        );
    }
    seal(&store, (FIRST + days as i64 + 1) * DAY, Some(&mut writer)).unwrap();
    put_together(&store, (FIRST + days as i64 + 3) * DAY).unwrap();
}

fn read(folder: &Path) {
    let began = Instant::now();
    let store = Store::open(folder).unwrap();
    let ask = Ask {
        selector: Selector::new("kube_resourcequota", &[("type", "used")]),
        from: 0,
        until: i32::MAX,
        with_sketch: false,
    };
    let (mut series, mut days, mut samples, mut wrong, mut losses) = (0u64, 0u64, 0u64, 0u64, Vec::new());
    let mut each = |found: Series, rows: Vec<plimsoll::model::series::Day>| {
        let namespace: u64 = found.label("namespace")[3..].parse().unwrap();
        let resource = RESOURCES.iter().position(|resource| *resource == found.label("resource")).unwrap() as u64;
        series += 1;
        for row in &rows {
            days += 1;
            samples += row.count;
            let day = i64::from(row.day) - FIRST;
            let (slot, high) = peak(namespace * 8 + resource, day as u64);
            let at = i64::from(row.day) * DAY + slot as i64 * EVERY;
            wrong += u64::from(row.max != high || row.max_at != at || row.count != 288);
        }
        Ok(())
    };
    store.days(&ask, &mut losses, &mut each).unwrap();
    println!(
        "{series} series, {days} days, {samples} samples, {wrong} wrong, {} losses, {:.2} s",
        losses.len(),
        began.elapsed().as_secs_f64()
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", folder, namespaces, days] => {
            make(Path::new(folder), namespaces.parse().unwrap(), days.parse().unwrap())
        }
        ["read", folder] => read(Path::new(folder)),
        _ => println!("make DIR NAMESPACES DAYS | read DIR"),
    }
}
