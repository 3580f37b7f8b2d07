//! Who asks, by interval.

use super::requests::Row;
use crate::model::cause::Source;
use std::ops::Range;

/// Requests of one caller by interval: those in which there were any, ascending.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sparse {
    /// Interval, requests.
    pub counts: Vec<(u32, f32)>,
    /// Of all of the time.
    pub total: f64,
}

impl Sparse {
    pub(super) fn add(&mut self, tile: usize, count: f64) {
        self.total += count;
        *entry(&mut self.counts, tile) += count as f32;
    }

    /// What there was in a range of intervals, of those that are meant.
    pub(super) fn sum(&self, range: &Range<usize>, is_meant: impl Fn(usize) -> bool) -> f64 {
        let first = self.counts.partition_point(|(tile, _)| (*tile as usize) < range.start);
        let its = self.counts[first..].iter().take_while(|(tile, _)| (*tile as usize) < range.end);
        its.filter(|(tile, _)| is_meant(*tile as usize)).map(|(_, count)| f64::from(*count)).sum()
    }

    /// A value for each interval.
    pub fn dense(&self, len: usize) -> Vec<f64> {
        let mut all = vec![0.0; len];
        for (tile, count) in &self.counts {
            if let Some(place) = all.get_mut(*tile as usize) {
                *place += f64::from(*count);
            }
        }
        all
    }
}

/// The entry of an interval among those of others, ascending; most come in the order of time.
pub(super) fn entry<T: Default>(all: &mut Vec<(u32, T)>, tile: usize) -> &mut T {
    let tile = tile as u32;
    let place = match all.last() {
        Some(last) if last.0 == tile => all.len() - 1,
        Some(last) if last.0 > tile => match all.binary_search_by_key(&tile, |own| own.0) {
            Ok(place) => place,
            Err(place) => {
                all.insert(place, (tile, T::default()));
                place
            }
        },
        _ => {
            all.push((tile, T::default()));
            all.len() - 1
        }
    };
    &mut all[place].1
}

/// Requests by those who ask, by interval: by caller; in pages, which name nobody, by kind of request.
#[derive(Debug, Default)]
pub struct Askers {
    /// By apiserver, then by asker; without what lasts.
    by_instance: Vec<Vec<Sparse>>,
    /// Writes to all of them, by asker.
    writes: [Vec<Sparse>; 1],
}

impl Askers {
    /// None yet, of so many apiservers.
    pub(super) fn new(instances: usize) -> Self {
        Self { by_instance: vec![Vec::new(); instances], writes: Default::default() }
    }

    /// Takes requests that do not last.
    pub(super) fn take(&mut self, row: &Row<'_>, source: Source, is_write: bool) {
        if row.requests <= 0.0 {
            return;
        }
        let asker = if source == Source::Metrics { row.kind } else { row.caller };
        let places = [Some(&mut self.by_instance[row.instance]), is_write.then_some(&mut self.writes[0])];
        for all in places.into_iter().flatten() {
            if all.len() <= asker {
                all.resize(asker + 1, Sparse::default());
            }
            all[asker].add(row.tile, row.requests);
        }
    }

    /// By apiserver, then by asker: of all, or of one.
    pub(super) fn of(&self, instance: Option<usize>) -> &[Vec<Sparse>] {
        instance.map_or(&self.by_instance[..], |place| &self.by_instance[place..=place])
    }

    /// Writes to all of them, in the same form.
    pub(super) fn writes(&self) -> &[Vec<Sparse>] {
        &self.writes
    }
}
