//! Roll-ups of audit logs in a store: parts that are added, put together, and dropped (docs/history.md).

use super::{try_lock, write};
use crate::actions::fresh::is_older;
use crate::actions::rollup::{self, CoarseCopy, Give};
use crate::model::rollup::{MANIFEST, Manifest, advance};
use crate::model::time::{DAY, HOUR, Micros, SECOND};
use crate::sources::rolled::Rolled;
use crate::sources::store::{Parts, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Held by whoever reads logs into the store, or puts parts together.
const WRITER: &str = ".writer";

/// What is remembered of logs beside the parts.
const KNOWN: &str = "known.json";

/// A part whose place another has taken is read on for so long by whoever had found it.
const READ_ON: Duration = Duration::from_secs(600);

/// A folder without a manifest that is older was left by a writer that was killed.
const LEFT: Duration = Duration::from_secs(3600);

/// The roll-ups of a store, to be added to: one writer at a time.
#[derive(Debug)]
pub struct RollupsWriter {
    folder: PathBuf,
    known: LogPositions,
    _lock: File,
}

/// What is known of logs that parts do not show.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct LogPositions {
    /// Up to where logs were read that parts are dropped of.
    dropped: BTreeMap<String, u64>,
    /// Packed files that were read to their end: they grow no more.
    whole: BTreeMap<String, u64>,
}

impl RollupsWriter {
    /// The right to write; `None` while somebody else has it.
    pub fn begin(store: &Store) -> Result<Option<Self>, StoreError> {
        let folder = store.rollups_folder();
        fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
        let Some(lock) = try_lock(&folder.join(WRITER))? else { return Ok(None) };
        let known = fs::read(folder.join(KNOWN)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Ok(Some(Self { folder, known: known.unwrap_or_default(), _lock: lock }))
    }

    /// Up to where a log is in the store.
    pub fn read_to(&self, log: &str, parts: &BTreeMap<&str, u64>) -> u64 {
        let dropped = self.known.dropped.get(log).copied().unwrap_or_default();
        parts.get(log).copied().unwrap_or_default().max(dropped)
    }

    /// Whether all of a packed file of so many bytes was read.
    pub fn is_whole(&self, log: &str, bytes: u64) -> bool {
        self.known.whole.get(log) == Some(&bytes)
    }

    /// Remembers that.
    pub fn was_whole(&mut self, log: String, bytes: u64) -> Result<(), StoreError> {
        self.known.whole.insert(log, bytes);
        self.remember()
    }

    fn remember(&self) -> Result<(), StoreError> {
        let text = serde_json::to_vec(&self.known).unwrap_or_default();
        write(&self.folder.join(KNOWN), &text)
    }

    /// Adds a part. It is there when its manifest is; what a killed writer leaves without one is no part.
    pub fn add(&self, manifest: &Manifest, give: &Give<'_>, copies: &[CoarseCopy<'_>]) -> Result<(), StoreError> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("{}-{}-{since:x}", manifest.first.unwrap_or_default() / SECOND, std::process::id());
        let folder = self.folder.join(name);
        // Named by its store: the part has another name each time that it is tried.
        rollup::write(&folder, manifest, give, copies).map_err(StoreError::io(&self.folder))?;
        let _ = super::sync(&self.folder);
        Ok(())
    }

    /// Up to where logs were read, by the hashes of their first lines, wherever that is less.
    pub fn skip_to(&mut self, positions: &BTreeMap<String, u64>) -> Result<(), StoreError> {
        positions.iter().for_each(|(log, to)| advance(&mut self.known.dropped, log, *to));
        self.remember()
    }

    /// Takes in a part that another process made, whole in a folder of this file system, under its own name; gives the
    /// folder that it is in now.
    pub fn adopt(&self, part: &Rolled) -> Result<PathBuf, StoreError> {
        let folder = self.folder.join(part.name().unwrap_or_default());
        fs::rename(&part.folder, &folder).map_err(StoreError::io(&folder))?;
        let _ = super::sync(&self.folder);
        Ok(folder)
    }

    /// Up to where each log is in a store, or was in parts that were dropped.
    pub fn positions(store: &Store) -> Result<BTreeMap<String, u64>, StoreError> {
        let known = fs::read(store.rollups_folder().join(KNOWN)).ok();
        let known: LogPositions = known.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let mut all = known.dropped;
        store.rollups()?.read_to().into_iter().for_each(|(log, to)| advance(&mut all, log, to));
        Ok(all)
    }

    /// Removes parts, what they replaced before them; what was in them is known to have been read.
    pub fn drop_parts(&mut self, parts: &[&Rolled]) -> Result<(), StoreError> {
        parts.iter().flat_map(|part| &part.manifest.files).for_each(|file| file.advance(&mut self.known.dropped));
        if !parts.is_empty() {
            self.remember()?;
        }
        for part in parts {
            part.left().try_for_each(|name| remove(&self.folder.join(name)))?;
            remove(&part.folder)?;
        }
        Ok(())
    }

    /// Removes what others have taken the place of, and what killed writers left.
    pub fn clean(&self, parts: &Parts) -> Result<(), StoreError> {
        for part in parts.parts.iter().filter(|part| is_older(&part.folder.join(MANIFEST), READ_ON)) {
            part.left().try_for_each(|name| remove(&self.folder.join(name)))?;
        }
        for folder in parts.unfinished.iter().filter(|folder| is_older(folder, LEFT)) {
            remove(folder)?;
        }
        Ok(())
    }
}

/// Removes a part, its manifest first: without that it is none.
fn remove(folder: &Path) -> Result<(), StoreError> {
    let manifest = folder.join(MANIFEST);
    if manifest.exists() {
        fs::remove_file(&manifest).map_err(StoreError::io(&manifest))?;
    }
    fs::remove_dir_all(folder).map_err(StoreError::io(folder))
}

/// How long roll-ups are kept in tiles of which length, by age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepRollups(pub Vec<(i64, Micros)>);

/// How long a part is, by the length of its tiles: an hour, a day, thirty days.
fn bucket(tile: i64) -> Micros {
    match tile {
        ..=10 => HOUR,
        11..=60 => DAY,
        _ => 30 * DAY,
    }
}

/// Parts of one bucket that have not come to be one yet are put together when there are so many.
const MIN_PARTS_TO_JOIN: usize = 12;

/// A bucket that ended longer ago gets no further part but late ones.
const OVER: Micros = 600 * SECOND;

/// How old a part is, and how fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// Its first event.
    pub first: Micros,
    /// Its last event.
    pub last: Micros,
    /// When it was recorded: what is recorded long after it happened is still of use for a while.
    pub recorded: Micros,
    /// The length of its tiles in seconds.
    pub tile: i64,
}

/// What is to become of parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Which become one, by their place, and the length of its tiles.
    pub join: Vec<(i64, Vec<usize>)>,
    /// Which are too old.
    pub drop: Vec<usize>,
}

impl KeepRollups {
    /// What is to become of parts.
    pub fn plan(&self, parts: &[Age], now: Micros) -> Plan {
        let mut plan = Plan::default();
        let mut groups: BTreeMap<(i64, Micros), Vec<usize>> = BTreeMap::new();
        let longest = self.0.last().map_or(Micros::MAX, |(_, age)| *age);
        for (place, Age { first, last, recorded, tile }) in parts.iter().enumerate() {
            if now - last.max(recorded) > longest {
                plan.drop.push(place);
                continue;
            }
            // It becomes coarser when all of its bucket is old enough.
            let mut target = self.0.first().map_or(10, |(tile, _)| *tile);
            for pair in self.0.windows(2) {
                let length = bucket(pair[1].0);
                let end = (first.div_euclid(length) + 1) * length;
                if now - end.max(*recorded) > pair[0].1 {
                    target = pair[1].0;
                }
            }
            let target = target.max(*tile);
            groups.entry((target, first.div_euclid(bucket(target)))).or_default().push(place);
        }
        for ((tile, number), group) in groups {
            let is_over = (number + 1) * bucket(tile) + OVER < now;
            let is_finer = group.iter().any(|place| parts[*place].tile < tile);
            if is_finer || group.len() > 1 && (is_over || group.len() >= MIN_PARTS_TO_JOIN) {
                plan.join.push((tile, group));
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded as it happened.
    fn part(first: Micros, last: Micros, tile: i64) -> Age {
        Age { first, last, recorded: last, tile }
    }

    fn usual() -> KeepRollups {
        KeepRollups(vec![(10, 2 * DAY), (60, 30 * DAY), (600, 400 * DAY)])
    }

    #[test]
    fn an_hour_becomes_one_when_it_is_over_or_has_many_parts() {
        let now = 1000 * DAY + 30 * 60 * SECOND;
        let minute = |n: i64| part(1000 * DAY + n * 60 * SECOND, 1000 * DAY + n * 60 * SECOND + 59 * SECOND, 10);
        let few: Vec<_> = (0..11).map(minute).collect();
        assert_eq!(usual().plan(&few, now), Plan::default());
        let many: Vec<_> = (0..12).map(minute).collect();
        assert_eq!(usual().plan(&many, now).join, [(10, (0..12).collect())]);
        // Two parts of an hour that is over.
        assert_eq!(usual().plan(&few[..2], now + HOUR).join, [(10, vec![0, 1])]);
        assert_eq!(usual().plan(&few[..1], now + HOUR), Plan::default());
    }

    #[test]
    fn old_days_become_coarser_as_a_whole_and_very_old_ones_go() {
        let hour = |n: i64| part(500 * DAY + n * HOUR, 500 * DAY + n * HOUR + 3599 * SECOND, 10);
        let day: Vec<_> = (0..24).map(hour).collect();
        // The day's end is not two days ago.
        assert_eq!(usual().plan(&day, 503 * DAY - SECOND), Plan::default());
        assert_eq!(usual().plan(&day, 503 * DAY + SECOND).join, [(60, (0..24).collect())]);
        let whole = [part(500 * DAY, 501 * DAY - SECOND, 60)];
        assert_eq!(usual().plan(&whole, 503 * DAY + SECOND), Plan::default());
        assert_eq!(usual().plan(&whole, 545 * DAY).join, [(600, vec![0])]);
        let coarse = [part(500 * DAY, 501 * DAY - SECOND, 600)];
        assert_eq!(usual().plan(&coarse, 902 * DAY), Plan { drop: vec![0], ..Plan::default() });
        // What is coarse already is not made finer by a clock that is wrong.
        assert_eq!(usual().plan(&coarse, 500 * DAY), Plan::default());
        // What was recorded much later is as fine as what is new.
        let late = [Age { recorded: 902 * DAY, ..part(500 * DAY, 501 * DAY - SECOND, 10) }];
        assert_eq!(usual().plan(&late, 903 * DAY), Plan::default());
    }
}
