//! The history store: samples in time, in a folder. (Formats and guarantees: docs/history.md.)
//!
//! What is new stands in the *log*, files of checksummed frames, one per writer and day (`log.rs`). Days that are over
//! are *sealed* into Parquet: their points, sorted by series and time (`points.rs`), and for each series what the day
//! came to (`days.rs`). Beside each Parquet file lies its index, with checksums (`table.rs`). [`Store::days`] and
//! [`Store::points`] read all of it as one (`read.rs`), and fold days that are not sealed yet just as sealing does
//! (`fold.rs`).
//!
//! The same series at the same instant is one sample, however often it is written; of different values the largest is
//! kept.

mod days;
mod fold;
pub mod import;
pub mod key;
pub mod log;
pub mod marker;
mod points;
mod read;
mod rollups;
mod runs;
mod table;

pub use days::{DAYS, DaysFile, Row};
pub use fold::{Folded, HEAD, TAIL, fold_day};
pub use marker::{MARKER, VERSION};
pub use points::POINTS;
pub use read::{Ask, EachPoints, Rows, by_series};
pub use rollups::{Parts, ROLLUPS};
pub use table::{BLOCK, Group, Index, index_path};

use crate::model::problem::Problem;
use crate::model::series::DAY;
use crate::model::time::{self, Micros};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// The file that readers lock shared, and whoever seals or compacts exclusively.
pub const LOCK: &str = "lock";

/// Why a store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no marker.
    #[error("{0}: not a plimsoll store (it has no plimsoll-store.json); plimsoll record --store {0} makes one")]
    NoStore(String),
    /// The marker is of another version.
    #[error("{0}: the store was made by another version of plimsoll ({1}); use that one, or another folder")]
    Version(String, String),
    /// The system said no.
    #[error("{path}: {error}{}", advice(.error))]
    Io {
        /// The file.
        path: String,
        /// What it said.
        error: io::Error,
    },
    /// A file of the store could not be written or read as Parquet.
    #[error("{0}: {1}")]
    Table(String, String),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded => {
            "; acknowledged data is safe. Free disk space, or keep less: --max-size, --keep-points"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "; the store is unchanged. Check its permissions"
        }
        _ => "",
    }
}

impl From<polars::prelude::PolarsError> for Problem {
    fn from(error: polars::prelude::PolarsError) -> Self {
        Self::malformed(error.to_string())
    }
}

impl StoreError {
    /// An error of the system about a file.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |error| Self::Io { path, error }
    }
}

/// Part of a store that could not be read; the rest was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLoss {
    /// The file.
    pub path: String,
    /// Where in it: bytes from its start, or rows.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for StoreLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}; the rest was read", self.path, self.place, self.what)
    }
}

/// A store that can be read.
#[derive(Debug, Clone)]
pub struct Store {
    pub folder: PathBuf,
}

/// A file of days, and which days it may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaysPlace {
    /// The file.
    pub path: PathBuf,
    /// Its first day.
    pub from: i32,
    /// The day behind its last.
    pub until: i32,
    /// How often it was written again.
    pub version: u64,
}

impl DaysPlace {
    /// Whether it holds a whole month.
    pub fn is_month(&self) -> bool {
        self.until - self.from > 1
    }
}

/// What lies in a store's folder.
#[derive(Debug, Default)]
pub struct Listing {
    /// Logs by day.
    pub logs: BTreeMap<i32, Vec<PathBuf>>,
    /// Files of points by day, and how often each was written again.
    pub points: BTreeMap<i32, (PathBuf, u64)>,
    /// Files of days, months first.
    pub days: Vec<DaysPlace>,
    /// Files that newer ones have replaced, and what killed writers left behind.
    pub stale: Vec<PathBuf>,
}

impl Store {
    /// Whether a folder is a store.
    pub fn is_store(folder: &Path) -> bool {
        folder.join(MARKER).is_file()
    }

    /// Opens a store.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        match marker::other_version(folder) {
            Ok(None) => Ok(Self { folder: folder.to_owned() }),
            Ok(Some(marker)) => Err(StoreError::Version(folder.display().to_string(), marker)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::NoStore(folder.display().to_string()))
            }
            Err(error) => Err(StoreError::io(&folder.join(MARKER))(error)),
        }
    }

    /// The folder of logs.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The folder of points.
    pub fn points_folder(&self) -> PathBuf {
        self.folder.join("points")
    }

    /// The folder of days.
    pub fn days_folder(&self) -> PathBuf {
        self.folder.join("days")
    }

    /// Keeps others from moving files while it lives. A store that can't be locked, such as a copy on a read-only disk,
    /// is read without.
    fn shared(&self) -> Option<File> {
        let file = File::open(self.folder.join(LOCK)).ok()?;
        file.lock_shared().ok()?;
        Some(file)
    }

    /// Looks what there is.
    pub fn list(&self) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        for (path, name) in files(&self.log())? {
            match name.strip_suffix(".wal").and_then(|stem| day(stem.get(..10)?)) {
                Some(day) => listing.logs.entry(day).or_default().push(path),
                None => continue,
            }
        }
        for (path, name) in files(&self.points_folder())? {
            let Some((stem, version)) = versioned(&name) else {
                listing.stale.extend(is_rest(&name).then_some(path));
                continue;
            };
            let Some(day) = day(stem) else { continue };
            match listing.points.get_mut(&day) {
                Some(known) if known.1 > version => listing.stale.push(path),
                Some(known) => listing.stale.push(std::mem::replace(known, (path, version)).0),
                None => drop(listing.points.insert(day, (path, version))),
            }
        }
        let mut days: BTreeMap<(i32, i32), DaysPlace> = BTreeMap::new();
        for (path, name) in files(&self.days_folder())? {
            let Some((stem, version)) = versioned(&name) else {
                listing.stale.extend(is_rest(&name).then_some(path));
                continue;
            };
            let Some((from, until)) = day(stem).map(|day| (day, day + 1)).or_else(|| month(stem)) else { continue };
            let place = DaysPlace { path, from, until, version };
            match days.get_mut(&(from, until)) {
                Some(known) if known.version > version => listing.stale.push(place.path),
                Some(known) => listing.stale.push(std::mem::replace(known, place).path),
                None => drop(days.insert((from, until), place)),
            }
        }
        listing.days = days.into_values().collect();
        listing.days.sort_by_key(|place| (!place.is_month(), place.from));
        Ok(listing)
    }
}

/// The files of a folder by name; none where it is absent.
fn files(folder: &Path) -> Result<Vec<(PathBuf, String)>, StoreError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io(folder)(error)),
    };
    let mut found: Vec<(PathBuf, String)> = entries
        .filter_map(Result::ok)
        .map(|entry| (entry.path(), entry.file_name().to_string_lossy().into_owned()))
        .collect();
    found.sort();
    Ok(found)
}

/// Whether a file is what a killed writer left behind.
fn is_rest(name: &str) -> bool {
    name.ends_with(".tmp")
}

/// `STEM.VERSION.parquet`.
fn versioned(name: &str) -> Option<(&str, u64)> {
    let (stem, version) = name.strip_suffix(".parquet")?.rsplit_once('.')?;
    Some((stem, version.parse().ok()?))
}

/// The day that `2026-11-20` means.
pub fn day(text: &str) -> Option<i32> {
    if text.len() != 10 {
        return None;
    }
    Some(crate::model::series::Day::of(time::parse_any(&format!("{text}T00:00:00Z"))?))
}

/// The days of the month that `2026-11` means.
fn month(text: &str) -> Option<(i32, i32)> {
    let (year, month) = text.split_once('-')?;
    let (year, month) = (year.parse::<i32>().ok()?, month.parse::<u32>().ok()?);
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    Some((day(&format!("{year:04}-{month:02}-01"))?, day(&format!("{next_year:04}-{next:02}-01"))?))
}

/// A day as `2026-11-20`.
pub fn date(day: i32) -> String {
    time::format(start(day)).chars().take(10).collect()
}

/// When a day begins.
pub fn start(day: i32) -> Micros {
    Micros::from(day) * DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months_have_names() {
        assert_eq!((date(0), date(20_777)), ("1970-01-01".to_owned(), "2026-11-20".to_owned()));
        assert_eq!((day("2026-11-20"), day("2026-11"), day("x")), (Some(20_777), None, None));
        assert_eq!(month("2026-12"), Some((day("2026-12-01").unwrap(), day("2027-01-01").unwrap())));
        assert_eq!((month("2026-13"), month("2026-00"), month("2026-11-20")), (None, None, None));
        assert_eq!(versioned("2026-11-20.3.parquet"), Some(("2026-11-20", 3)));
    }
}
