//! What becomes of old data: days of a month in one file, points dropped before days, and a limit on the whole.

use super::exclusive;
use super::seal::remove;
use super::table::{DaysWriter, Table};
use crate::model::series::{Day, Selector};
use crate::model::time::Micros;
use crate::sources::store::{
    DaysFile, DaysPlace, Listing, Rows, Store, StoreError, StoreLoss, by_series, date, index_path,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How long and how much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Age at which points are dropped; their days stay.
    pub points: Micros,
    /// Age at which days are dropped.
    pub days: Micros,
    /// Bytes of all files together.
    pub bytes: Option<u64>,
}

/// What was dropped.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Files of points that were too old.
    pub old_points: u64,
    /// Files of days that were too old.
    pub old_days: u64,
    /// Days whose points went to keep the size.
    pub points: Vec<i32>,
    /// Files of days that went to keep the size: first and last day of each.
    pub days: Vec<(i32, i32)>,
    /// Logs that went to keep the size.
    pub logs: Vec<String>,
    /// Bytes that are left.
    pub bytes: u64,
    /// Whether they are more than is wanted although nothing more can be dropped.
    pub is_over: bool,
}

/// Puts the days of each month that is over into one file, so that a year is read from twelve.
pub fn put_together(store: &Store, now: Micros) -> Result<Vec<StoreLoss>, StoreError> {
    let mut losses = Vec::new();
    let Some(_lock) = exclusive(store)? else { return Ok(losses) };
    let listing = store.list()?;
    let mut months: BTreeMap<String, Vec<&DaysPlace>> = BTreeMap::new();
    for place in &listing.days {
        months.entry(date(place.from).chars().take(7).collect()).or_default().push(place);
    }
    for (month, places) in months {
        // Two days later than its end: what is late has come by then.
        let is_over = date(Day::of(now) - 2).get(..7) > Some(&month);
        if !is_over || places.iter().all(|place| place.is_month()) {
            continue;
        }
        let before = losses.len();
        let version = places.iter().find(|place| place.is_month()).map_or(0, |place| place.version + 1);
        let mut table = DaysWriter::new(Table::create(&store.days_folder(), &month, version)?);
        // The newest first: of rows that say as much it is theirs that stays.
        let files =
            places.iter().rev().map(|place| DaysFile::open(&place.path, &Selector::default(), true, &mut losses));
        let files = files.map(|file| Rows::File(Box::new(file))).collect();
        by_series(files, &mut losses, |key, days| days.into_values().try_for_each(|row| table.add(key, row)))?;
        if losses.len() > before {
            // A damaged file stays as it is: what is left of it is read, and said to be damaged.
            continue;
        }
        table.finish()?;
        for place in places {
            remove(&place.path)?;
        }
    }
    Ok(losses)
}

/// Drops what is older than is kept, then the oldest until the size is kept: points first, then days, then logs that
/// nobody writes to.
pub fn drop_old(store: &Store, now: Micros, keep: Keep) -> Result<Dropped, StoreError> {
    let mut dropped = Dropped::default();
    let Some(_lock) = exclusive(store)? else { return Ok(dropped) };
    let mut listing = store.list()?;
    let (points, days) = (Day::of(now - keep.points), Day::of(now - keep.days));
    for path in listing.points.extract_if(.., |day, _| *day < points.max(days)).map(|(_, (path, _))| path) {
        remove(&path)?;
        dropped.old_points += 1;
    }
    for place in listing.days.extract_if(.., |place| place.until <= days) {
        remove(&place.path)?;
        dropped.old_days += 1;
    }
    dropped.bytes = size(&store.folder);
    let Some(limit) = keep.bytes else { return Ok(dropped) };
    for (day, path) in oldest(&listing) {
        if dropped.bytes <= limit {
            return Ok(dropped);
        }
        dropped.bytes = dropped.bytes.saturating_sub(bytes(&path) + bytes(&index_path(&path)));
        remove(&path)?;
        dropped.points.push(day);
    }
    listing.days.sort_by_key(|place| (place.until, place.from));
    for place in &listing.days {
        if dropped.bytes <= limit {
            return Ok(dropped);
        }
        dropped.bytes = dropped.bytes.saturating_sub(bytes(&place.path) + bytes(&index_path(&place.path)));
        remove(&place.path)?;
        dropped.days.push((place.from, place.until - 1));
    }
    for path in listing.logs.values().flatten() {
        if dropped.bytes <= limit {
            return Ok(dropped);
        }
        let Ok(file) = std::fs::OpenOptions::new().read(true).write(true).open(path) else { continue };
        if super::append::lock(&file, path)? {
            dropped.bytes = dropped.bytes.saturating_sub(bytes(path));
            std::fs::remove_file(path).map_err(StoreError::io(path))?;
            dropped.logs.push(path.display().to_string());
        }
    }
    dropped.is_over = dropped.bytes > limit;
    Ok(dropped)
}

fn oldest(listing: &Listing) -> Vec<(i32, PathBuf)> {
    listing.points.iter().map(|(day, (path, _))| (*day, path.clone())).collect()
}

fn bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Bytes of all files of a store.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |path: PathBuf| if path.is_dir() { size(&path) } else { bytes(&path) };
    entries.filter_map(Result::ok).map(|entry| of(entry.path())).sum()
}
