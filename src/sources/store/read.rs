//! Reading a store: sealed files and logs as one.

use super::days::{DaysFile, Row};
use super::fold::{Slot, fold_day, fold_up_to, merge};
use super::{DaysPlace, Listing, Store, StoreError, StoreLoss, key, start};
use crate::model::series::{Day, Point, STANDS, Selector, Series};
use crate::model::time::Micros;
use std::collections::{BTreeMap, BTreeSet};

/// Which days to read.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Of which series.
    pub selector: Selector,
    /// The first day.
    pub from: i32,
    /// The day behind the last.
    pub until: i32,
    /// Whether sketches are wanted; without them quantiles are not known, and reading is quicker.
    pub with_sketch: bool,
}

/// Whoever takes the points of series.
pub type EachPoints<'e> = dyn FnMut(&Series, &[Point]) -> Result<(), StoreError> + 'e;

/// A series and its rows, ascending by day, from one file or from memory.
pub type Run = (String, Vec<Row>);

/// Where rows come from, in the order of their series.
#[derive(Debug)]
pub enum Rows {
    /// What was just folded.
    Memory(std::vec::IntoIter<Run>),
    /// What is sealed.
    File(Box<DaysFile>),
}

impl Rows {
    fn next(&mut self, losses: &mut Vec<StoreLoss>) -> Option<Run> {
        match self {
            Self::Memory(runs) => runs.next(),
            Self::File(file) => file.next(losses),
        }
    }
}

impl Store {
    /// Gives every series that is meant, each once and in no order that means anything, with its days, ascending. What
    /// can't be read is reported in `losses`.
    ///
    /// The days are those that [`crate::model::series::DayFold`] makes of all points of the series in order, as long as
    /// the store has them.
    pub fn days(
        &self,
        ask: &Ask,
        losses: &mut Vec<StoreLoss>,
        each: &mut dyn FnMut(Series, Vec<Day>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let _kept = self.shared();
        let listing = self.list()?;
        let memory = self.unsealed(&listing, ask, losses)?;
        let mut sources = vec![Rows::Memory(memory.into_iter())];
        // The newest first: days written again after their month was put together.
        let within = |place: &&DaysPlace| place.from < ask.until && place.until > ask.from;
        // Labels are looked at once for a series, not once in each file.
        let named = Selector { name: ask.selector.name.clone(), labels: Vec::new() };
        for place in listing.days.iter().rev().filter(within) {
            sources.push(Rows::File(Box::new(DaysFile::open(&place.path, &named, ask.with_sketch, losses))));
        }
        by_series(sources, losses, |key, days| {
            let last = days.keys().next_back().copied();
            let rows = days.into_iter().filter(|(day, _)| (ask.from..ask.until).contains(day));
            let days: Vec<Day> = rows.map(|(day, row)| settled(row, Some(day) == last)).collect();
            match key::series(key) {
                Some(series) if !days.is_empty() && ask.selector.matches(&series) => each(series, days),
                _ => Ok(()),
            }
        })
    }

    /// What the days come to that are not sealed, and those beside them that they change: by series.
    fn unsealed(&self, listing: &Listing, ask: &Ask, losses: &mut Vec<StoreLoss>) -> Result<Vec<Run>, StoreError> {
        let mut folded: BTreeSet<i32> = BTreeSet::new();
        let mut runs: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        let wanted = |day: &i32| (ask.from..ask.until).contains(day);
        let mut fold = |day: i32, runs: &mut BTreeMap<String, Vec<Row>>, losses: &mut Vec<StoreLoss>| {
            if !folded.insert(day) {
                return Ok(());
            }
            let logs = listing.logs.get(&day).map_or(&[][..], Vec::as_slice);
            fold_day(listing, day, logs, &ask.selector, losses, &mut |found| {
                let mut row = found.row;
                if !ask.with_sketch {
                    row.day.sketch = Default::default();
                }
                match runs.get_mut(found.key) {
                    Some(rows) => rows.push(row),
                    None => drop(runs.insert(found.key.to_owned(), vec![row])),
                }
                Ok(())
            })
        };
        // The day behind the window may show that the last day's values stood longer.
        for day in listing.logs.keys().copied().filter(|day| (ask.from..=ask.until).contains(day)) {
            if wanted(&day) {
                fold(day, &mut runs, losses)?;
            }
            if wanted(&(day + 1)) && listing.points.contains_key(&(day + 1)) {
                fold(day + 1, &mut runs, losses)?;
            }
            let before = day - 1;
            if wanted(&before) && listing.points.contains_key(&before) && !listing.logs.contains_key(&before) {
                let mut firsts: BTreeMap<String, Micros> = BTreeMap::new();
                if wanted(&day) {
                    let rows = runs.iter().flat_map(|(key, rows)| rows.iter().map(move |row| (key, row)));
                    firsts.extend(
                        rows.filter(|(_, row)| row.day.day == day).map(|(key, row)| (key.clone(), row.first_at)),
                    );
                } else {
                    let logs = listing.logs.get(&day).map_or(&[][..], Vec::as_slice);
                    fold_day(listing, day, logs, &ask.selector, &mut Vec::new(), &mut |found| {
                        firsts.insert(found.key.to_owned(), found.row.first_at);
                        Ok(())
                    })?;
                }
                if self.stood_otherwise(listing, before, &ask.selector, &firsts) {
                    fold(before, &mut runs, losses)?;
                }
            }
        }
        Ok(runs.into_iter().collect())
    }

    /// Whether a sealed day's last values stood for another time than its rows say, given the first points of the day
    /// after.
    pub fn stood_otherwise(
        &self,
        listing: &Listing,
        day: i32,
        selector: &Selector,
        firsts: &BTreeMap<String, Micros>,
    ) -> bool {
        // The last of these is the newest.
        for place in listing.days.iter().filter(|place| place.from <= day && day < place.until).rev().take(1) {
            let mut file = DaysFile::open(&place.path, selector, false, &mut Vec::new());
            while let Some((key, rows)) = file.next(&mut Vec::new()) {
                let Some(first) = firsts.get(&key) else { continue };
                let differs = |row: &&Row| row.day.day == day && row.until != (*first).min(row.day.last_at + STANDS);
                if rows.iter().any(|row| differs(&row)) {
                    return true;
                }
            }
        }
        false
    }

    /// Gives the points of every series that is meant, from `from` to before `until`: day after day, each series of a
    /// day once, its points in order of time.
    pub fn points(
        &self,
        selector: &Selector,
        (from, until): (Micros, Micros),
        losses: &mut Vec<StoreLoss>,
        each: &mut EachPoints<'_>,
    ) -> Result<(), StoreError> {
        let _kept = self.shared();
        let listing = self.list()?;
        let days: BTreeSet<i32> = listing.logs.keys().chain(listing.points.keys()).copied().collect();
        for day in days.into_iter().filter(|day| start(*day) < until && start(*day + 1) > from) {
            let slot = Slot {
                sealed: listing.points.get(&day).map(|(path, _)| path.as_path()),
                logs: listing.logs.get(&day).map_or(&[][..], Vec::as_slice),
                from: from.max(start(day)),
                until: until.min(start(day + 1)),
            };
            merge(&[slot], selector, losses, &mut |key, points| match key::series(key) {
                Some(series) if !points[0].is_empty() => each(&series, &points[0]),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }
}

/// Gives each series once, in order, with its rows by day. Of several rows for one day the one with the most points
/// counts, then the one from the source that comes first.
pub fn by_series(
    mut sources: Vec<Rows>,
    losses: &mut Vec<StoreLoss>,
    mut each: impl FnMut(&str, BTreeMap<i32, Row>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut heads: Vec<Option<Run>> = sources.iter_mut().map(|rows| rows.next(losses)).collect();
    while let Some(key) = heads.iter().flatten().map(|(key, _)| key.as_str()).min().map(str::to_owned) {
        let mut days: BTreeMap<i32, Row> = BTreeMap::new();
        for (head, rows) in heads.iter_mut().zip(&mut sources) {
            let Some((_, run)) = head.take_if(|(own, _)| *own == key) else { continue };
            for row in run {
                match days.get(&row.day.day) {
                    Some(known) if known.day.count >= row.day.count => {}
                    _ => drop(days.insert(row.day.day, row)),
                }
            }
            *head = rows.next(losses);
        }
        each(&key, days)?;
    }
    Ok(())
}

impl Store {
    /// Gives of every series that is meant the day of a moment, by its points up to then. Of days whose points are no
    /// more kept nothing is given.
    pub fn part_of_day(
        &self,
        selector: &Selector,
        moment: Micros,
        losses: &mut Vec<StoreLoss>,
        each: &mut dyn FnMut(Series, Vec<Day>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let _kept = self.shared();
        let listing = self.list()?;
        fold_up_to(&listing, moment, selector, losses, &mut |key, row| match key::series(key) {
            Some(series) if selector.matches(&series) => each(series, vec![settled(row, true)]),
            _ => Ok(()),
        })
    }
}

/// The day as it is reported, given whether the series ends with it.
fn settled(row: Row, is_last: bool) -> Day {
    let sustained = if is_last { row.ended } else { row.day.sustained };
    Day { sustained, ..row.day }
}
