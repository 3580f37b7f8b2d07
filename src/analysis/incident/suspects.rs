//! Who added how much work: what each client asked for within an episode, and before it.
//!
//! Latency rises for everyone when an apiserver has too much to do, so what a request took within the episode says
//! nothing of who caused it. More requests are therefore weighed by what such requests take in quiet intervals: that is
//! the load that was added.

use crate::analysis::judge::profile::{Added, Count, Profile};
use crate::analysis::judge::requests::{Caller, Kind, Requests};
use crate::analysis::judge::series::RequestSeries;
use crate::analysis::robust::median;
use crate::model::time::{MINUTE, Micros, Span};
use std::collections::BTreeMap;

/// A kind of request of a client, before and within.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What is asked for.
    pub what: Kind,
    /// A second: before and within.
    pub rps: [f64; 2],
    /// Seconds of work that one takes in quiet intervals.
    pub price: f64,
    /// Seconds of work by second that were added within, at that price.
    pub added: f64,
}

/// A client.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspect {
    /// Who; without names where nobody is named.
    pub who: Caller,
    /// Requests a second: before and within.
    pub rps: [f64; 2],
    /// Requests that were throttled within.
    pub throttled: u64,
    /// Seconds of work by second that it added.
    pub added: f64,
    /// Its part of all added work.
    pub share: f64,
    /// What it asked more for, the dearest first.
    pub lines: Vec<Line>,
    /// When its rate rose and fell again, if its course was looked at.
    pub rose: Option<Span>,
}

impl Suspect {
    /// How many times its requests are what they were; `None` where it asked for nothing before.
    pub fn times(&self) -> Option<f64> {
        (self.rps[0] > 0.0).then(|| self.rps[1] / self.rps[0])
    }
}

/// Everyone who asked for something within, by the work that they added.
pub fn suspects(requests: &dyn Requests, series: &RequestSeries, before: &Profile, within: &Profile) -> Vec<Suspect> {
    let mut all: BTreeMap<u32, Suspect> = BTreeMap::new();
    let mut add = |key: &(u32, u32), was: Option<&Count>, now: &Count| {
        let (caller, kind) = (key.0 as usize, key.1 as usize);
        let own = all.entry(key.0).or_insert_with(|| Suspect {
            who: requests.callers()[caller].clone(),
            rps: [0.0; 2],
            throttled: 0,
            added: 0.0,
            share: 0.0,
            lines: Vec::new(),
            rose: None,
        });
        let price = series.prices[kind];
        let none = Count::default();
        let counts = [was.unwrap_or(&none), now];
        let Added { rps, work, .. } = Added::new(series, (Some(caller), kind), counts, [before, within]);
        own.rps[0] += rps[0];
        own.rps[1] += rps[1];
        own.throttled += now.throttled as u64;
        own.added += work;
        own.lines.push(Line { what: requests.kinds()[kind].clone(), rps, price, added: work });
    };
    for (key, now) in &within.pairs {
        add(key, before.pairs.get(key), now);
    }
    for (key, was) in before.pairs.iter().filter(|(key, _)| !within.pairs.contains_key(*key)) {
        add(key, Some(was), &Count::default());
    }
    let mut all: Vec<Suspect> = all.into_values().filter(|own| own.rps[1] > 0.0).collect();
    for own in &mut all {
        own.lines.sort_by(|a, b| b.added.total_cmp(&a.added).then_with(|| a.what.cmp(&b.what)));
    }
    let sum: f64 = all.iter().map(|own| own.added).sum();
    if sum > 0.0 {
        all.iter_mut().for_each(|own| own.share = own.added / sum);
    }
    all.sort_by(|a, b| b.added.total_cmp(&a.added).then_with(|| a.who.cmp(&b.who)));
    all
}

/// The longest stretch in which a course lies nearer to what it was within the window than to what it was before; in
/// `course` are the start of each interval and a rate. A dip of a few intervals, such as while an apiserver restarts,
/// does not end it.
pub fn rise(course: &[(Micros, f64)], interval: Micros, window: Span) -> Option<Span> {
    let rates = |part: Span| {
        course.iter().filter(move |(at, _)| (part.0..part.1).contains(at)).map(|(_, rate)| *rate).collect::<Vec<f64>>()
    };
    let middle = |part: Span| median(&mut rates(part)).unwrap_or(0.0);
    let (low, high) = (middle((Micros::MIN, window.0)), middle(window));
    if high <= low {
        return None;
    }
    let line = f64::midpoint(low, high);
    let mut best: Option<Span> = None;
    let mut open: Option<(Micros, Micros, u32)> = None;
    for &(at, rate) in course {
        open = match (open, rate > line) {
            (None, true) => Some((at, at + interval, 0)),
            (Some((from, ..)), true) => Some((from, at + interval, 0)),
            (Some((from, to, misses)), false) if misses < DIP => Some((from, to, misses + 1)),
            _ => None,
        };
        if let Some((from, to, _)) = open
            && best.is_none_or(|best| to - from > best.1 - best.0)
        {
            best = Some((from, to));
        }
    }
    // It began where the course left what it was, which is before it was half way.
    let left = |rate: f64| rate > low + ONSET * (high - low);
    best.map(|(from, to)| {
        let way =
            course.iter().rev().filter(|(at, _)| (from - SLOPE..from).contains(at)).take_while(|(_, rate)| left(*rate));
        (way.last().map_or(from, |(at, _)| *at), to)
    })
}

/// The part of the way up that is more than chance.
const ONSET: f64 = 0.2;
/// What rises more slowly than this has no beginning.
const SLOPE: Micros = MINUTE;
/// Intervals that a dip may last.
const DIP: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::SECOND;

    #[test]
    fn a_rise_is_where_the_course_is_high() {
        let course: Vec<(Micros, f64)> =
            (0..40).map(|n| (n * 5, if (10..30).contains(&n) && n != 15 && n != 16 { 10.0 } else { 1.0 })).collect();
        assert_eq!(rise(&course, 5, (55, 140)), Some((50, 150)));
        assert_eq!(rise(&course, 5, (160, 200)), None);
        // A slope: from where it leaves what it was.
        let second = |n: usize| n as Micros * 5 * SECOND;
        let slope: Vec<(Micros, f64)> = (0..40)
            .map(|n| (second(n), if n < 10 { 1.0 } else { (n as f64 - 9.0).mul_add(2.0, 1.0).min(13.0) }))
            .collect();
        assert_eq!(rise(&slope, 5 * SECOND, (second(12), second(30))), Some((second(11), second(40))));
    }
}
