//! Sealing: from the logs of days that are over to Parquet.

use super::append::{Writer, is_there, lock};
use super::exclusive;
use super::table::{DaysWriter, PointsWriter, Table};
use crate::model::series::{DAY, Selector};
use crate::model::time::{HOUR, Micros};
use crate::sources::store::{DaysFile, Listing, Row, Store, StoreError, StoreLoss, date, fold_day, index_path};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// A day is sealed when it has been over for this long: longer than a value stands, so that what ends the day is known.
pub const GRACE: Micros = 2 * HOUR;

/// What sealing came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Days that were sealed, ascending.
    pub days: Vec<i32>,
    /// Samples in them, each instant of a series once.
    pub samples: u64,
    /// Whether somebody else reads or seals, so that nothing was done.
    pub is_busy: bool,
    /// What could not be read. Days whose sealed points are damaged stay as they are.
    pub losses: Vec<StoreLoss>,
}

/// Seals all days that are over. `writer`, if given, lets go of their logs first; logs that others write to are left
/// for later.
pub fn seal(store: &Store, now: Micros, writer: Option<&mut Writer>) -> Result<Sealed, StoreError> {
    let mut sealed = Sealed::default();
    let until = (now - GRACE).div_euclid(DAY) as i32;
    if let Some(writer) = writer {
        writer.close_before(until);
    }
    let Some(_lock) = exclusive(store)? else { return Ok(Sealed { is_busy: true, ..sealed }) };
    clean(&store.list()?)?;
    loop {
        // Again for each day: sealing one changes what its neighbours are read from.
        let listing = store.list()?;
        let after = sealed.days.last().copied().unwrap_or(i32::MIN);
        let mut held: Vec<(PathBuf, File)> = Vec::new();
        let Some(day) =
            listing.logs.iter().filter(|(day, _)| **day > after && **day < until).find_map(|(day, logs)| {
                held = logs.iter().filter_map(|path| hold(path)).collect();
                (!held.is_empty()).then_some(*day)
            })
        else {
            return Ok(sealed);
        };
        let logs: Vec<PathBuf> = held.iter().map(|(path, _)| path.clone()).collect();
        let before = sealed.losses.len();
        if let Some(samples) = seal_day(store, &listing, day, &logs, &mut sealed)? {
            sealed.samples += samples;
            for path in &logs {
                let is_damaged = sealed.losses[before..].iter().any(|loss| loss.path == path.display().to_string());
                let removed = match is_damaged {
                    // What can be read of it is sealed; somebody may want to look at the rest.
                    true => std::fs::rename(path, path.with_extension("damaged")),
                    false => std::fs::remove_file(path),
                };
                removed.map_err(StoreError::io(path))?;
            }
        }
        sealed.days.push(day);
    }
}

/// A log that nobody writes to, with the lock on it.
fn hold(path: &Path) -> Option<(PathBuf, File)> {
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    (lock(&file, path).ok()? && is_there(&file, path)).then(|| (path.to_owned(), file))
}

/// Removes what newer files have replaced.
fn clean(listing: &Listing) -> Result<(), StoreError> {
    for path in &listing.stale {
        match path.extension().is_some_and(|end| end == "parquet") {
            true => remove(path)?,
            false => std::fs::remove_file(path).map_err(StoreError::io(path))?,
        }
    }
    Ok(())
}

/// Removes a Parquet file and its index.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    std::fs::remove_file(path).map_err(StoreError::io(path))?;
    let _ = std::fs::remove_file(index_path(path));
    Ok(())
}

/// Seals a day; how many samples it has, or nothing if it had better stay as it is.
fn seal_day(
    store: &Store,
    listing: &Listing,
    day: i32,
    logs: &[PathBuf],
    sealed: &mut Sealed,
) -> Result<Option<u64>, StoreError> {
    let mut losses = Vec::new();
    let old = listing.points.get(&day);
    let mut points = PointsWriter::new(table(&store.points_folder(), &date(day), old.map(|(_, version)| *version))?);
    let mut firsts: BTreeMap<String, Micros> = BTreeMap::new();
    let mut samples = 0;
    let days = rewrite_day(store, listing, day, logs, &mut losses, &mut |key, found, row| {
        samples += found.len() as u64;
        firsts.insert(key.to_owned(), row.first_at);
        points.add(key, found)
    })?;
    let is_damaged = old.is_some_and(|(path, _)| losses.iter().any(|loss| loss.path == path.display().to_string()));
    sealed.losses.append(&mut losses);
    if is_damaged {
        return Ok(None);
    }
    points.finish()?;
    days.finish()?;
    neighbours(store, day, &firsts, &mut sealed.losses)?;
    Ok(Some(samples))
}

type EachPoints<'e> = dyn FnMut(&str, &[crate::model::series::Point], &Row) -> Result<(), StoreError> + 'e;

/// Folds a day into a new file of days. Rows of which there are no points any more, or more points than can be read,
/// stay.
fn rewrite_day(
    store: &Store,
    listing: &Listing,
    day: i32,
    logs: &[PathBuf],
    losses: &mut Vec<StoreLoss>,
    each: &mut EachPoints<'_>,
) -> Result<DaysWriter, StoreError> {
    let all = Selector::default();
    let known = listing.days.iter().find(|place| !place.is_month() && place.from == day);
    let mut days = DaysWriter::new(table(&store.days_folder(), &date(day), known.map(|place| place.version))?);
    let mut ignored = Vec::new();
    let mut old = known.map(|place| DaysFile::open(&place.path, &all, true, &mut ignored));
    let mut next = old.as_mut().and_then(|old| old.next(&mut Vec::new()));
    fold_day(listing, day, logs, &all, losses, &mut |found| {
        while let Some((key, rows)) = next.take_if(|(key, _)| key.as_str() < found.key) {
            rows.into_iter().try_for_each(|row| days.add(&key, row))?;
            next = old.as_mut().and_then(|old| old.next(&mut Vec::new()));
        }
        each(found.key, found.points, &found.row)?;
        let mut row = found.row;
        if let Some((_, rows)) = next.take_if(|(key, _)| key == found.key) {
            if let Some(more) = rows.into_iter().find(|old| old.day.count > row.day.count) {
                row = more;
            }
            next = old.as_mut().and_then(|old| old.next(&mut Vec::new()));
        }
        days.add(found.key, row)
    })?;
    while let Some((key, rows)) = next.take() {
        rows.into_iter().try_for_each(|row| days.add(&key, row))?;
        next = old.as_mut().and_then(|old| old.next(&mut Vec::new()));
    }
    Ok(days)
}

/// Folds the days beside a day that was sealed once more, where they were sealed before and depend on it: the one
/// after, since its sustained levels may have begun before midnight, and the one before, if its last values stood for
/// another time than was known.
fn neighbours(
    store: &Store,
    day: i32,
    firsts: &BTreeMap<String, Micros>,
    losses: &mut Vec<StoreLoss>,
) -> Result<(), StoreError> {
    let listing = store.list()?;
    let is_sealed = |day: i32| listing.points.contains_key(&day) && !listing.logs.contains_key(&day);
    for other in [day - 1, day + 1] {
        let depends = other > day || store.stood_otherwise(&listing, other, &Selector::default(), firsts);
        if is_sealed(other) && depends {
            rewrite_day(store, &listing, other, &[], losses, &mut |_, _, _| Ok(()))?.finish()?;
        }
    }
    Ok(())
}

/// The next version of a file.
fn table(folder: &Path, stem: &str, version: Option<u64>) -> Result<Table, StoreError> {
    Table::create(folder, stem, version.map_or(0, |version| version + 1))
}
