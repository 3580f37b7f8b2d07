//! Appending samples to a store's log.

use super::sync;
use crate::model::series::{Day, Series};
use crate::model::time::Micros;
use crate::sources::store::{Store, StoreError, date, key, log};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A log file is closed when it has grown to this, if not before.
const LARGEST: u64 = 256 << 20;
/// Log files that a writer has open.
const OPEN: usize = 256;
/// Content of a frame.
const FRAME: usize = 4 << 20;
/// Instants that are taken: 1970 to 2200. What lies outside is no time of a sample, but seconds taken for something
/// else.
const VALID_TIMES_US: std::ops::Range<Micros> = 0..7_258_118_400_000_000;

/// A series that a [`Writer`] knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(u32);

/// A sample to append.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    pub series: SeriesId,
    /// When.
    pub at: Micros,
    pub value: f64,
}

/// What was appended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Appended {
    /// Samples that are on disk.
    pub stored: u64,
    /// Samples that were left out: their value is no finite number, or their time is not between 1970 and 2200.
    pub refused: u64,
}

/// Appends to a store. Several may do so at the same time, in one process or in many.
#[derive(Debug)]
pub struct Writer {
    store: Store,
    ids: HashMap<Series, SeriesId>,
    keys: Vec<String>,
    open: BTreeMap<i32, Open>,
    /// Notifies when a file was used last.
    turn: u64,
    /// A log file is closed when it has grown to this.
    largest: u64,
}

/// A log file that this writer holds the lock on.
#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    end: u64,
    /// The number in this file of each series of the writer.
    numbers: Vec<u32>,
    named: u32,
    used: u64,
}

const NONE: u32 = u32::MAX;

impl Writer {
    /// A writer to a store.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            ids: HashMap::new(),
            keys: Vec::new(),
            open: BTreeMap::new(),
            turn: 0,
            largest: LARGEST,
        }
    }

    /// Closes log files earlier, so that they can be dropped one by one where room is scarce.
    pub fn limit_files(&mut self, bytes: u64) {
        self.largest = bytes.clamp(64 << 10, LARGEST);
    }

    /// The writer's number for a series; `None` where its name is none (letters, digits, `_` and `:`), or its labels
    /// are too long.
    pub fn series(&mut self, series: &Series) -> Option<SeriesId> {
        if let Some(id) = self.ids.get(series) {
            return Some(*id);
        }
        let key = key::key(series)?;
        let id = SeriesId(u32::try_from(self.keys.len()).ok().filter(|id| *id < NONE - 1)?);
        self.keys.push(key);
        self.ids.insert(series.clone(), id);
        Some(id)
    }

    /// Appends samples. When it returns, they are on disk. When it fails, some of them may be; those of earlier calls
    /// are.
    pub fn append(&mut self, samples: &[Sample]) -> Result<Appended, StoreError> {
        let mut by_day: BTreeMap<i32, Vec<Sample>> = BTreeMap::new();
        let mut refused = 0;
        for sample in samples {
            match sample.value.is_finite() && VALID_TIMES_US.contains(&sample.at) {
                true => by_day.entry(Day::of(sample.at)).or_default().push(*sample),
                false => refused += 1,
            }
        }
        let mut stored = 0;
        for (day, samples) in by_day {
            if let Err(error) = self.append_to(day, &samples) {
                // What is in the file is not known: the next who opens it looks.
                self.open.remove(&day);
                return Err(error);
            }
            stored += samples.len() as u64;
        }
        Ok(Appended { stored, refused })
    }

    /// Lets go of the logs of days before this one, so that they can be sealed.
    pub fn close_before(&mut self, day: i32) {
        self.open.retain(|own, _| *own >= day);
    }

    fn append_to(&mut self, day: i32, samples: &[Sample]) -> Result<(), StoreError> {
        if self.open.get(&day).is_some_and(|open| open.end >= self.largest) {
            self.open.remove(&day);
        }
        if !self.open.contains_key(&day) {
            if self.open.len() >= OPEN
                && let Some(oldest) = self.open.iter().min_by_key(|(_, open)| open.used).map(|(day, _)| *day)
            {
                self.open.remove(&oldest);
            }
            let opened = self.acquire(day)?;
            self.open.insert(day, opened);
        }
        self.turn += 1;
        let Some(open) = self.open.get_mut(&day) else { return Ok(()) };
        open.used = self.turn;
        open.numbers.resize(self.keys.len(), NONE);
        let mut frame = log::Encoder::new(open.named);
        for sample in samples {
            let place = sample.series.0 as usize;
            let Some(key) = self.keys.get(place) else { continue };
            if open.numbers[place] == NONE {
                open.numbers[place] = open.named;
                open.named += 1;
                frame.name(key);
            }
            frame.sample(open.numbers[place], sample.at, sample.value);
            if frame.len() >= FRAME {
                let full = std::mem::replace(&mut frame, log::Encoder::new(open.named));
                open.write(full)?;
            }
        }
        if !frame.is_empty() {
            open.write(frame)?;
        }
        open.file.sync_data().map_err(StoreError::io(&open.path))
    }

    /// A log of this day that nobody else writes to: one that is there, without the part of a frame that a killed
    /// writer left, or a new one.
    fn acquire(&self, day: i32) -> Result<Open, StoreError> {
        let folder = self.store.log();
        let prefix = date(day);
        let mut there: Vec<PathBuf> = std::fs::read_dir(&folder)
            .map_err(StoreError::io(&folder))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "wal"))
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
            .collect();
        there.sort();
        for path in there {
            if let Some(open) = self.reopen(&path)? {
                return Ok(open);
            }
        }
        loop {
            if let Some(open) = self.begin(day, &folder, &prefix)? {
                return Ok(open);
            }
        }
    }

    /// A new log; `None` if somebody who seals was quicker to lock it.
    fn begin(&self, day: i32, folder: &Path, prefix: &str) -> Result<Option<Open>, StoreError> {
        let chance = RandomState::new().hash_one(std::process::id());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let path = folder.join(format!("{prefix}-{now}-{}-{:08x}.wal", std::process::id(), chance as u32));
        let fail = |error| StoreError::io(&path)(error);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(fail)?;
        if !lock(&file, &path)? || !is_there(&file, &path) {
            return Ok(None);
        }
        // Before it is on disk, so that no error leaves an empty file behind.
        if let Err(error) = file.write_all(&log::head(day)) {
            let _ = std::fs::remove_file(&path);
            return Err(fail(error));
        }
        sync(folder)?;
        Ok(Some(Open { path, file, end: log::HEAD, numbers: Vec::new(), named: 0, used: 0 }))
    }

    /// Takes over a log that its writer has left; `None` if somebody writes to it, or it is better left alone.
    fn reopen(&self, path: &Path) -> Result<Option<Open>, StoreError> {
        let Ok(mut file) = OpenOptions::new().read(true).write(true).open(path) else { return Ok(None) };
        if file.metadata().is_ok_and(|meta| meta.len() >= self.largest) || !lock(&file, path)? || !is_there(&file, path)
        {
            return Ok(None);
        }
        let mut names: HashMap<String, u32> = HashMap::new();
        let mut named = 0;
        let scanned = log::scan(path, u64::MAX, |frame| {
            for (n, key) in frame.keys.iter().enumerate() {
                names.insert((*key).to_owned(), frame.first_id + n as u32);
            }
            named = named.max(frame.first_id + frame.keys.len() as u32);
        });
        let scanned = scanned.map_err(StoreError::io(path))?;
        // Numbers may have been given in what can't be read, and an empty file has no beginning.
        if !scanned.damaged.is_empty() || scanned.end < log::HEAD {
            return Ok(None);
        }
        if scanned.is_torn {
            file.set_len(scanned.end).and_then(|()| file.sync_all()).map_err(StoreError::io(path))?;
        }
        file.seek(SeekFrom::Start(scanned.end)).map_err(StoreError::io(path))?;
        let numbers = self.keys.iter().map(|key| names.get(key).copied().unwrap_or(NONE)).collect();
        // Series that this writer does not know yet are named once more; the first number stays true.
        Ok(Some(Open { path: path.to_owned(), file, end: scanned.end, numbers, named, used: 0 }))
    }
}

/// Locks a log; whether that could be done.
pub(super) fn lock(file: &File, path: &Path) -> Result<bool, StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(StoreError::io(path)(error)),
    }
}

/// Whether a file that was locked still lies there: it may have been sealed between opening and locking.
#[cfg(unix)]
pub(super) fn is_there(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    own.is_some() && own == std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok()
}

#[cfg(not(unix))]
pub(super) fn is_there(_: &File, path: &Path) -> bool {
    path.exists()
}

impl Open {
    fn write(&mut self, frame: log::Encoder) -> Result<(), StoreError> {
        let bytes = frame.finish();
        if let Err(error) = self.file.write_all(&bytes) {
            // Without the part that was written the file is as it was; if that fails too, the next who opens it cuts it
            // off.
            let _ = self.file.set_len(self.end);
            return Err(StoreError::io(&self.path)(error));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }
}
