//! Stray times: records that a wrong clock dated far away from all others (docs/rollup.md, section 3).
//!
//! One event of 1970 among those of today would stretch every tile and chart over decades. Which times are stray is
//! defined by how many records each day has, so it does not depend on the order in which they are read.

use super::series::DAY;
use super::time::{Micros, is_within};
use std::collections::BTreeMap;

/// Records that are more than this many days apart belong to different groups: longer than any month, so that monthly
/// captures stay together.
const MAX_GAP_DAYS: i64 = 32;

/// A group is stray if the largest one has at least this many times its records.
const STRAY_RATIO: u64 = 50;

/// A larger group is never stray: so many records are no clock that was wrong for a moment.
const MAX_STRAY: u64 = 1_000;

/// Days that are distinguished; records of further ones count for the first of 32 days.
const MAX_DAYS: usize = 65_536;

/// A single record is stray if the largest group has at least so many.
const MIN_EVENTS: u64 = 3;

/// Longest time between the arrival of a request and an event of it: beyond, one of both clocks was wrong.
pub const MAX_DURATION: Micros = MAX_GAP_DAYS * DAY;

/// Number of the day (UTC) since 1970.
pub fn day_of(at: Micros) -> i64 {
    at.div_euclid(DAY)
}

/// Whether a group of so many records is stray beside the largest.
pub fn is_stray(count: u64, largest: u64) -> bool {
    count <= MAX_STRAY && count * STRAY_RATIO <= largest || count == 1 && largest >= MIN_EVENTS
}

/// How many records each day has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Days {
    counts: BTreeMap<i64, u64>,
    /// The day of the last record and its count so far: neighbours share it.
    current: (i64, u64),
}

impl Days {
    /// Counts a record.
    #[inline]
    pub fn add(&mut self, at: Micros) {
        let day = day_of(at);
        if day == self.current.0 {
            self.current.1 += 1;
        } else {
            self.flush();
            self.current = (day, 1);
        }
    }

    /// Counts so many records of one day.
    pub fn add_many(&mut self, at: Micros, count: u64) {
        self.count(day_of(at), count);
    }

    fn flush(&mut self) {
        let (day, count) = std::mem::take(&mut self.current);
        self.count(day, count);
    }

    fn count(&mut self, day: i64, count: u64) {
        if count == 0 {
            return;
        }
        let is_full = self.counts.len() >= MAX_DAYS && !self.counts.contains_key(&day);
        let day = if is_full { day - day.rem_euclid(MAX_GAP_DAYS) } else { day };
        *self.counts.entry(day).or_default() += count;
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        other.counts.iter().for_each(|(&day, &count)| self.count(day, count));
        self.count(other.current.0, other.current.1);
    }

    /// All counts, that of the last day too.
    fn counted(&self) -> BTreeMap<i64, u64> {
        let mut all = self.clone();
        all.flush();
        all.counts
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.current.1 == 0
    }

    /// Whether no two records lie so far apart that they belong to different groups: then none of them is stray,
    /// whatever part of them is looked at.
    pub fn are_one_group(&self) -> bool {
        let days: Vec<i64> = self.counted().into_keys().collect();
        days.windows(2).all(|two| two[1] - two[0] <= MAX_GAP_DAYS)
    }

    /// Whether `kept` takes exactly the days that are not stray.
    pub fn agree_with(&self, kept: &KeptDays) -> bool {
        let exact = self.kept();
        let is_early = |day: i64| kept.latest.is_none_or(|latest| day <= day_of(latest));
        self.counted().keys().filter(|day| is_early(**day)).all(|&day| exact.has_day(day) == kept.has_day(day))
    }

    /// The days that are not stray.
    pub fn kept(&self) -> KeptDays {
        // (first day, last day, records) of each group.
        let mut groups: Vec<(i64, i64, u64)> = Vec::new();
        for (day, count) in self.counted() {
            match groups.last_mut() {
                Some(last) if day - last.1 <= MAX_GAP_DAYS => (last.1, last.2) = (day, last.2 + count),
                _ => groups.push((day, day, count)),
            }
        }
        let largest = groups.iter().map(|group| group.2).max().unwrap_or(0);
        KeptDays {
            days: Some(
                groups
                    .into_iter()
                    .filter(|group| !is_stray(group.2, largest))
                    .map(|(from, to, _)| (from, to))
                    .collect(),
            ),
            ..KeptDays::default()
        }
    }
}

/// Ranges of days in their order, those that meet as one.
fn joined(mut days: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    days.sort_unstable();
    days.dedup_by(|next, last| {
        let meets = next.0 <= last.1;
        last.1 = if meets { last.1.max(next.1) } else { last.1 };
        meets
    });
    days
}

/// Which times are taken; all of them unless days are named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptDays {
    days: Option<Vec<(i64, i64)>>,
    /// Only times from here on, and before there, are judged: nobody asks for the others.
    since: Option<Micros>,
    until: Option<Micros>,
    /// Times behind this are stray, however many there are.
    latest: Option<Micros>,
}

impl KeptDays {
    /// All times until then: whoever follows what is written now knows that it was written by now, while few events
    /// show nothing by their number.
    pub fn until(latest: Micros) -> Self {
        Self { latest: Some(latest), ..Self::default() }
    }

    /// The same, until no later than the other's times go.
    pub fn no_later_than(self, other: &Self) -> Self {
        Self { latest: other.latest, ..self }
    }

    /// The times around these stretches (first and last instant), as far as records of one group may lie.
    pub fn around(stretches: &[(Micros, Micros)]) -> Self {
        Self { days: Some(stretches.iter().map(|&(from, to)| (day_of(from), day_of(to))).collect()), ..Self::default() }
            .wider()
    }

    /// The same with what would be of one group with these days: what is still to come is not known yet.
    pub fn wider(self) -> Self {
        let Some(days) = self.days else { return self };
        let wider = |(from, to): (i64, i64)| (from.saturating_sub(MAX_GAP_DAYS), to.saturating_add(MAX_GAP_DAYS));
        Self { days: Some(joined(days.into_iter().map(wider).collect())), ..self }
    }

    /// The same with what lies around this time.
    pub fn and(self, at: Micros) -> Self {
        let more = Self::around(&[(at, at)]).days.into_iter().flatten();
        Self { days: self.days.map(|days| joined(days.into_iter().chain(more).collect())), ..self }
    }

    /// The same, judging only times of a window.
    pub fn within(self, since: Option<Micros>, until: Option<Micros>) -> Self {
        Self { since, until, ..self }
    }

    /// Whether a time is judged at all.
    #[inline]
    pub fn judges(&self, at: Micros) -> bool {
        is_within((self.since, self.until), at)
    }

    /// Whether a time is taken.
    #[inline]
    pub fn takes(&self, at: Micros) -> bool {
        self.latest.is_none_or(|latest| at <= latest) && (self.days.is_none() || self.has_day(day_of(at)))
    }

    fn has_day(&self, day: i64) -> bool {
        let Some(days) = &self.days else { return true };
        let place = days.partition_point(|range| range.1 < day);
        days.get(place).is_some_and(|range| range.0 <= day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_taken_that_is_dated_behind_the_latest_time() {
        let latest = 20_000 * DAY;
        let kept = KeptDays::default().no_later_than(&KeptDays::until(latest));
        assert!(kept.takes(latest) && !kept.takes(latest + 1));
        let mut days = Days::default();
        days.add_many(latest - DAY, 10);
        days.add_many(latest + 9_000 * DAY, 1);
        // It is left out as it is: the log need not be read again.
        assert!(days.agree_with(&days.kept().no_later_than(&kept)));
        assert!(days.agree_with(&KeptDays::around(&[(latest - DAY, latest)]).no_later_than(&kept)));
    }

    fn days(counts: &[(i64, u64)]) -> Days {
        let mut days = Days::default();
        for &(day, count) in counts {
            (0..count).for_each(|_| days.add(day * DAY + 7));
        }
        days
    }

    fn stray(counts: &[(i64, u64)]) -> Vec<i64> {
        let kept = days(counts).kept();
        counts.iter().map(|(day, _)| *day).filter(|&day| !kept.takes(day * DAY)).collect()
    }

    #[test]
    fn what_a_wrong_clock_wrote_is_stray() {
        assert_eq!(stray(&[(20_000, 300), (0, 1), (47_482, 1)]), [0, 47_482]);
        assert_eq!(stray(&[(20_000, 100), (20_033, 2)]), [20_033], "one in fifty");
        assert_eq!(stray(&[(20_000, 3), (0, 1)]), [0]);
    }

    #[test]
    fn what_people_read_together_is_not() {
        assert_eq!(stray(&[(20_000, 100), (20_033, 3)]), [0; 0]);
        assert_eq!(stray(&[(20_000, 100_000), (20_033, 1_001)]), [0; 0], "a log of last quarter");
        assert_eq!(stray(&[(20_000, 1_000_000), (20_032, 1)]), [0; 0], "a month apart");
        assert_eq!(stray(&[(0, 2), (20_000, 2)]), [0; 0], "too little to tell which clock was wrong");
        assert_eq!(stray(&[(0, 1)]), [0; 0]);
        let thirteen_months: Vec<(i64, u64)> = (0..13).map(|month| (20_000 + month * 31, 1)).collect();
        assert_eq!(stray(&thirteen_months), [0; 0]);
    }

    #[test]
    fn a_guess_is_as_good_as_the_truth_where_both_take_the_same_days() {
        let days = days(&[(20_000, 300), (0, 1)]);
        assert!(!days.agree_with(&KeptDays::default()));
        assert!(days.agree_with(&days.kept()));
        assert!(days.agree_with(&KeptDays::around(&[(20_010 * DAY, 20_020 * DAY)])));
        assert!(!days.agree_with(&KeptDays::around(&[(20_033 * DAY, 20_040 * DAY)])));
        // What is read on may go on.
        let on = days.kept().wider().and(20_300 * DAY);
        let taken = |day: i64| on.takes(day * DAY);
        assert!(taken(20_032) && !taken(20_033) && !taken(20_267) && taken(20_268) && taken(20_332) && !taken(0));
        assert!(KeptDays::default().and(0).takes(20_000 * DAY), "nothing is known: all is taken");
    }

    proptest! {
        #[test]
        fn the_order_does_not_matter(mut times in proptest::collection::vec(0i64..200, 1..60), cut in 0usize..60) {
            let fold = |times: &[i64]| {
                let mut days = Days::default();
                times.iter().for_each(|day| days.add(day * DAY));
                days
            };
            let forward = fold(&times).kept();
            let cut = cut.min(times.len());
            let mut parts = fold(&times[cut..]);
            parts.merge(&fold(&times[..cut]));
            prop_assert_eq!(&parts.kept(), &forward);
            times.reverse();
            prop_assert_eq!(&fold(&times).kept(), &forward);
        }
    }
}
