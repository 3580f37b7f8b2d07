//! Audit events as typed columns, block by block (docs/dataset.md).

use super::dataset::{COUNTS, Partition};
use super::event::LATE_BY;
use super::time::Micros;
use std::collections::BTreeMap;

/// Texts one behind the other; an empty one is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    all: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Adds one behind the others.
    pub fn push(&mut self, text: &str) {
        self.all.push_str(text);
        self.ends.push(self.all.len());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, to)| Some(&self.all[from..*to]).filter(|text| !text.is_empty()))
    }
}

/// Events by column, in the order of [`EVENTS`](super::dataset::EVENTS); all columns are as long.
#[derive(Debug, Clone, Default)]
pub struct EventRows {
    pub times: [Vec<Option<i64>>; COUNTS[0]],
    pub numbers: [Vec<Option<i64>>; COUNTS[1]],
    pub truths: [Vec<bool>; COUNTS[2]],
    pub texts: [Texts; COUNTS[3]],
    /// Groups, and where those of each event end.
    pub groups: (Texts, Vec<usize>),
    /// Bytes of all texts.
    pub text_bytes: usize,
    /// The latest `at` among the events of the block before each.
    pub before: Vec<Micros>,
}

/// Places of columns that are known when the block is.
const SEQ: usize = 9;
const LATE: usize = 2;

impl EventRows {
    /// How many events.
    pub fn len(&self) -> usize {
        self.before.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
    }

    /// About how many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.text_bytes + self.len() * (COUNTS.iter().sum::<usize>() * 12)
    }

    /// Settles what depends on the events before the block: how many there were, and the latest of them.
    fn settle(&mut self, events: u64, latest: Micros) {
        let first = i64::try_from(events).unwrap_or(i64::MAX);
        self.numbers[SEQ].iter_mut().flatten().for_each(|seq| *seq = seq.saturating_add(first));
        for ((late, at), before) in self.truths[LATE].iter_mut().zip(&self.times[0]).zip(&self.before) {
            *late = at.is_some_and(|at| at < before.max(&latest).saturating_sub(LATE_BY));
        }
    }
}

/// The events of a block, by partition.
#[derive(Debug, Default)]
pub struct EventBatch {
    pub rows: BTreeMap<Partition, EventRows>,
    /// How many there are.
    pub events: u64,
    /// The latest `at`.
    pub latest: Option<Micros>,
}

impl EventBatch {
    /// Puts the block behind those before: `events` and `latest` are those of its log so far.
    pub fn settle(&mut self, events: &mut u64, latest: &mut Micros) {
        self.rows.values_mut().for_each(|rows| rows.settle(*events, *latest));
        *events += self.events;
        *latest = self.latest.map_or(*latest, |own| own.max(*latest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::SECOND;

    #[test]
    fn what_depends_on_earlier_blocks_is_settled_in_their_order() {
        let block = |at: &[i64]| {
            let mut batch =
                EventBatch { events: at.len() as u64, latest: at.iter().max().copied(), ..EventBatch::default() };
            let mut rows = EventRows::default();
            for (place, at_micros) in at.iter().enumerate() {
                rows.times[0].push(Some(*at_micros));
                rows.numbers[SEQ].push(Some(place as i64));
                rows.truths[LATE].push(false);
                rows.before.push(at[..place].iter().max().copied().unwrap_or(i64::MIN));
            }
            batch.rows.insert(Partition { cluster: String::new(), hour: 0 }, rows);
            batch
        };
        let (mut events, mut latest) = (0, Micros::MIN);
        let mut seen = Vec::new();
        for at in [&[10, 4][..], &[12 * SECOND, 3 * SECOND, 7 * SECOND], &[6 * SECOND]] {
            let mut batch = block(at);
            batch.settle(&mut events, &mut latest);
            for rows in batch.rows.values() {
                seen.extend(rows.numbers[SEQ].iter().flatten().copied().zip(rows.truths[LATE].iter().copied()));
            }
        }
        // 7 s lies 5 s before 12 s, which is not more than 5 s.
        assert_eq!(seen, [(0, false), (1, false), (2, false), (3, true), (4, false), (5, true)]);
        assert_eq!((events, latest), (6, 12 * SECOND));
    }
}
