//! From what lies in files and logs to a day of each series: the same for sealing and for reading what is not sealed.
//!
//! Logs are in order of time, days are wanted by series. So a log is read once to count, and then once for each so many
//! points, which are put in their places: memory is bounded, whatever the size of a day.

use super::days::Row;
use super::points::PointsFile;
use super::{Listing, StoreError, StoreLoss, key, log, start};
use crate::model::series::{Day, DayFold, Point, STANDS, SUSTAINED, Selector};
use crate::model::time::{Micros, SECOND};
use hashbrown::HashMap;
use std::path::{Path, PathBuf};

/// How much of the day before is needed: the longest sustained time, and what may lie between two points.
pub const TAIL: Micros = SUSTAINED[3] + STANDS + SECOND;
/// How much of the day after: until the last point does not stand any more.
pub const HEAD: Micros = STANDS + SECOND;
/// Points of logs that are held at once.
const AT_ONCE: usize = 4 << 20;

/// What there is of a stretch of time within one day.
pub(super) struct Slot<'s> {
    /// Sealed points.
    pub(super) sealed: Option<&'s Path>,
    pub(super) logs: &'s [PathBuf],
    /// From when on.
    pub(super) from: Micros,
    /// Until when.
    pub(super) until: Micros,
}

/// A log, which of its bytes to read, and which of all series its numbers mean.
struct LogPart<'s> {
    slot: usize,
    path: &'s Path,
    end: u64,
    series: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// What is given to whoever wants the points of a series: its text, and its points by slot.
type Each<'e> = dyn FnMut(&str, &[Vec<Point>]) -> Result<(), StoreError> + 'e;

/// Gives each series that is meant, in order of their texts, with its points in each slot.
pub(super) fn merge(
    slots: &[Slot<'_>],
    selector: &Selector,
    losses: &mut Vec<StoreLoss>,
    each: &mut Each<'_>,
) -> Result<(), StoreError> {
    let (keys, counts, parts) = count(slots, selector, losses)?;
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_unstable_by(|a, b| keys[*a as usize].cmp(&keys[*b as usize]));
    let mut files: Vec<Option<PointsFile>> =
        slots.iter().map(|slot| slot.sealed.map(|path| PointsFile::open(path, selector, losses))).collect();
    let mut heads: Vec<Option<(String, Vec<Point>)>> = Vec::new();
    for file in &mut files {
        heads.push(file.as_mut().and_then(|file| file.next(losses)));
    }
    let mut rest = order.as_slice();
    loop {
        // As many series as have so many points together, at least one.
        let mut total = 0;
        let size = rest.iter().take_while(|series| {
            let of_series: usize =
                counts[**series as usize * slots.len()..][..slots.len()].iter().map(|count| *count as usize).sum();
            total += of_series;
            total <= AT_ONCE || total == of_series
        });
        let (chosen, later) = rest.split_at(size.count());
        rest = later;
        let mut held = PointSlots::gather(slots, &parts, chosen, &counts)?;
        let mut next = 0;
        loop {
            let of_log = chosen.get(next).map(|series| keys[*series as usize].as_str());
            let of_files = heads.iter().flatten().map(|(key, _)| key.as_str()).min();
            let bound = rest.first().map(|series| keys[*series as usize].as_str());
            let of_files = of_files.filter(|key| bound.is_none_or(|bound| *key < bound));
            let Some(key) = [of_log, of_files].into_iter().flatten().min().map(str::to_owned) else { break };
            let mut points: Vec<Vec<Point>> = vec![Vec::new(); slots.len()];
            for (slot, (head, file)) in heads.iter_mut().zip(&mut files).enumerate() {
                if head.as_ref().is_some_and(|(own, _)| *own == key) {
                    let taken = head.take().map(|(_, points)| points).unwrap_or_default();
                    let within = |point: &Point| point.at >= slots[slot].from && point.at < slots[slot].until;
                    points[slot] = taken.into_iter().filter(within).collect();
                    *head = file.as_mut().and_then(|file| file.next(losses));
                }
            }
            if of_log_is(chosen.get(next), &keys, &key) {
                for (slot, points) in points.iter_mut().enumerate() {
                    points.extend_from_slice(held.of(next, slot));
                }
                next += 1;
            }
            points.iter_mut().for_each(settle);
            each(&key, &points)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn of_log_is(series: Option<&u32>, keys: &[String], key: &str) -> bool {
    series.is_some_and(|series| keys[*series as usize] == key)
}

/// In order of time; the same instant once, with its largest value.
fn settle(points: &mut Vec<Point>) {
    if points.windows(2).all(|pair| pair[0].at < pair[1].at) {
        return;
    }
    points.sort_by(|a, b| a.at.cmp(&b.at).then(b.value.total_cmp(&a.value)));
    points.dedup_by_key(|point| point.at);
}

type Counted<'s> = (Vec<String>, Vec<u32>, Vec<LogPart<'s>>);

/// All series of the logs, how many points each has in which slot, and what of the logs to read.
fn count<'s>(slots: &[Slot<'s>], selector: &Selector, losses: &mut Vec<StoreLoss>) -> Result<Counted<'s>, StoreError> {
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut keys: Vec<String> = Vec::new();
    let mut counts: Vec<u32> = Vec::new();
    let mut parts = Vec::new();
    for (slot, place) in slots.iter().enumerate() {
        for path in place.logs {
            let mut series: Vec<u32> = Vec::new();
            let (mut nameless, mut broken) = (0u64, 0u64);
            let scanned = log::scan(path, u64::MAX, |frame| {
                for (n, key) in frame.keys.iter().enumerate() {
                    let id = frame.first_id as usize + n;
                    if id >= series.len() {
                        series.resize(id + 1, NONE);
                    }
                    series[id] = match known.get(*key) {
                        Some(number) => *number,
                        None if !key::matches(selector, key) => NONE - 1,
                        None => {
                            let number = keys.len() as u32;
                            known.insert((*key).to_owned(), number);
                            keys.push((*key).to_owned());
                            counts.resize(keys.len() * slots.len(), 0);
                            number
                        }
                    };
                }
                let whole = frame.each(|id, at, _| match series.get(id as usize) {
                    Some(&number) if number < NONE - 1 => {
                        if at >= place.from && at < place.until {
                            counts[number as usize * slots.len() + slot] += 1;
                        }
                    }
                    Some(&number) if number == NONE - 1 => {}
                    _ => nameless += 1,
                });
                broken += u64::from(!whole);
            });
            let scanned = match scanned {
                // Sealed since the folder was listed: then its points are there as well.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                other => other.map_err(StoreError::io(path))?,
            };
            let name = path.display().to_string();
            let mut lose = |place: String, what: String| losses.push(StoreLoss { path: name.clone(), place, what });
            for at in &scanned.damaged {
                lose(format!("byte {at}"), "a part of the log is damaged: its checksum is wrong".to_owned());
            }
            if nameless > 0 || broken > 0 {
                let what = format!("{nameless} samples are lost, because their names were in the damaged part");
                lose(
                    "the whole file".to_owned(),
                    if broken > 0 { "its frames are not valid".to_owned() } else { what },
                );
            }
            parts.push(LogPart { slot, path, end: scanned.end, series });
        }
    }
    Ok((keys, counts, parts))
}

/// Points of some series, each at its place.
struct PointSlots {
    slots: usize,
    points: Vec<Point>,
    /// Of each series and slot: where its points begin, and how many are there.
    places: Vec<(usize, usize)>,
}

impl PointSlots {
    fn gather(slots: &[Slot<'_>], parts: &[LogPart<'_>], chosen: &[u32], counts: &[u32]) -> Result<Self, StoreError> {
        let mut places = Vec::with_capacity(chosen.len() * slots.len());
        let mut rank = vec![NONE; counts.len() / slots.len().max(1)];
        let mut total = 0;
        for (n, series) in chosen.iter().enumerate() {
            rank[*series as usize] = n as u32;
            for slot in 0..slots.len() {
                places.push((total, 0));
                total += counts[*series as usize * slots.len() + slot] as usize;
            }
        }
        let mut held = Self { slots: slots.len(), points: vec![Point { at: 0, value: 0.0 }; total], places };
        if chosen.is_empty() {
            return Ok(held);
        }
        for part in parts {
            let place = &slots[part.slot];
            let ranks: Vec<u32> =
                part.series.iter().map(|series| rank.get(*series as usize).copied().unwrap_or(NONE)).collect();
            let scanned = log::scan(part.path, part.end, |frame| {
                frame.each(|id, at, value| {
                    let Some(&rank) = ranks.get(id as usize) else { return };
                    if rank != NONE && at >= place.from && at < place.until {
                        held.put(rank as usize * slots.len() + part.slot, Point { at, value });
                    }
                });
            });
            scanned.map_err(StoreError::io(part.path))?;
        }
        Ok(held)
    }

    fn put(&mut self, place: usize, point: Point) {
        let limit = self.places.get(place + 1).map_or(self.points.len(), |next| next.0);
        let (begin, count) = &mut self.places[place];
        // A file that changes between two looks gives no more than it had.
        if *begin + *count < limit {
            self.points[*begin + *count] = point;
            *count += 1;
        }
    }

    fn of(&mut self, series: usize, slot: usize) -> &[Point] {
        let (begin, count) = self.places[series * self.slots + slot];
        &self.points[begin..begin + count]
    }
}

/// A series on a day.
#[derive(Debug)]
pub struct Folded<'f> {
    /// Its text.
    pub key: &'f str,
    /// Its points on that day.
    pub points: &'f [Point],
    /// What they come to.
    pub row: Row,
}

/// Folds one day of all series that are meant, from what is sealed of it and its neighbours and from the logs. `logs`:
/// only these logs of the day itself.
pub fn fold_day(
    listing: &Listing,
    day: i32,
    logs: &[PathBuf],
    selector: &Selector,
    losses: &mut Vec<StoreLoss>,
    each: &mut dyn FnMut(Folded<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let of = |day: i32| listing.logs.get(&day).map_or(&[][..], Vec::as_slice);
    let sealed = |day: i32| listing.points.get(&day).map(|(path, _)| path.as_path());
    let (begin, end) = (start(day), start(day + 1));
    let slots = [
        Slot { sealed: sealed(day - 1), logs: of(day - 1), from: begin - TAIL, until: begin },
        Slot { sealed: sealed(day), logs, from: begin, until: end },
        Slot { sealed: sealed(day + 1), logs: of(day + 1), from: end, until: end + HEAD },
    ];
    // What is wrong with the neighbours is reported when they are read themselves.
    let mut all = Vec::new();
    let result = merge(&slots, selector, &mut all, &mut |key, points| match fold(points) {
        Some(row) => each(Folded { key, points: &points[1], row }),
        None => Ok(()),
    });
    let own: Vec<String> =
        logs.iter().map(|path| path.as_path()).chain(sealed(day)).map(|path| path.display().to_string()).collect();
    losses.extend(all.into_iter().filter(|loss| own.contains(&loss.path)));
    result
}

/// Folds the part of a day up to a moment, as if nothing had been seen since.
pub(super) fn fold_up_to(
    listing: &Listing,
    moment: Micros,
    selector: &Selector,
    losses: &mut Vec<StoreLoss>,
    each: &mut dyn FnMut(&str, Row) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let day = Day::of(moment);
    let slot = |day: i32, from: Micros, until: Micros| Slot {
        sealed: listing.points.get(&day).map(|(path, _)| path.as_path()),
        logs: listing.logs.get(&day).map_or(&[][..], Vec::as_slice),
        from,
        until,
    };
    let begin = start(day);
    let slots = [slot(day - 1, begin - TAIL, begin), slot(day, begin, moment + 1)];
    merge(&slots, selector, losses, &mut |key, points| {
        let [tail, own] = points else { return Ok(()) };
        fold(&[tail.clone(), own.clone(), Vec::new()]).map_or(Ok(()), |row| each(key, row))
    })
}

/// The day in the middle of three stretches of points.
fn fold(points: &[Vec<Point>]) -> Option<Row> {
    let [tail, own, head] = points else { return None };
    let (first, last) = (own.first()?, own.last()?);
    let mut fold = DayFold::default();
    tail.iter().chain(own).for_each(|point| drop(fold.add(*point)));
    let stood = last.at + STANDS;
    let ended = fold.clone().finish()?;
    let next = head.first().map_or(stood, |next| next.at.min(stood));
    // The point that ends the day lies on another one, or else the day would go on.
    let after = Point { at: next.max(start(Day::of(last.at) + 1)), value: last.value };
    let day = fold.add(after)?;
    let ended = if head.is_empty() { ended.sustained } else { day.sustained };
    Some(Row { day, first_at: first.at, until: next, ended })
}
