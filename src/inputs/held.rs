//! Roll-ups of logs that are held in memory: the terminal UI steps through a log in time and reads it once. They answer
//! for windows in whole tiles, as long as the files are as they were.

use super::log_question::{self, Answered, Key, LogQuestion, key};
use crate::analysis::rollup::Rollup;
use crate::cli::{Context, Error};
use crate::inputs::selection::Selection;
use crate::model::time::{Micros, SECOND};
use crate::sources::audit::pass::Outcome;
use crate::sources::found::LogStream;
use crate::sources::open::{Place, Source};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// What shows that a file is as it was: its length, and when it was changed.
type Mark = (u64, SystemTime);

/// A roll-up, and the logs that it stands for.
#[derive(Debug)]
struct Entry {
    key: Key,
    marks: Vec<Mark>,
    rollup: Rollup,
    outcome: Outcome,
}

/// All that are held.
#[derive(Debug, Default)]
pub struct HeldLogs(Mutex<Vec<Arc<Entry>>>);

impl HeldLogs {
    /// Reads logs and holds their roll-up; how long its tiles are (µs). Nothing where a log can be read only once, is a
    /// roll-up itself, or was written to meanwhile.
    #[cfg_attr(not(feature = "tui"), expect(dead_code, reason = "only the terminal UI steps through logs"))]
    pub(crate) fn hold(&self, streams: Vec<LogStream>, context: &mut Context<'_>) -> Result<Option<Micros>, Error> {
        let Some(key) = key(&streams).filter(|key| !key.is_empty()) else { return Ok(None) };
        let places: Vec<PathBuf> = places(&streams);
        let marks = marks(&places);
        let selection = Selection { with_steps: true, ..Selection::default() };
        let (rollup, outcome) = log_question::answer(streams, &selection, context.settings.reading(), &());
        if marks.is_none() || marks != self::marks(&places) {
            return Ok(None);
        }
        let tile = rollup.tile_seconds() * SECOND;
        let entry = Entry { key, marks: marks.unwrap_or_default(), rollup, outcome };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.key != entry.key);
        all.push(Arc::new(entry));
        Ok(Some(tile))
    }

    /// Lets go of all.
    #[cfg_attr(not(feature = "tui"), expect(dead_code, reason = "only the terminal UI steps through logs"))]
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The answer to a question about logs that are held; `None` where they have to be read.
    pub(crate) fn answer<Q: LogQuestion>(&self, streams: &[LogStream], question: &Q) -> Option<Answered<Q::Answer>> {
        let wanted = question.stored().ok()?;
        let key = key(streams)?;
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.iter().find(|entry| entry.key == key).map(Arc::clone)?;
        drop(all);
        if marks(&places(streams))? != entry.marks {
            return None;
        }
        let window = entry.rollup.within(&wanted)?;
        let answer = question.is_exact(&window).then(|| question.of_rollup(window).ok())??;
        Some((Arc::new(answer), entry.outcome.clone()))
    }
}

fn places(streams: &[LogStream]) -> Vec<PathBuf> {
    let place = |file: &Source| if let Place::File(path) = &file.place { Some(path.clone()) } else { None };
    streams.iter().flat_map(|own| &own.files).filter_map(place).collect()
}

fn marks(places: &[PathBuf]) -> Option<Vec<Mark>> {
    let mark = |path: &PathBuf| fs::metadata(path).and_then(|meta| Ok((meta.len(), meta.modified()?))).ok();
    places.iter().map(mark).collect()
}
