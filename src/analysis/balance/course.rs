//! Since when the load is as uneven as it is, and how long restarted apiservers took to get their share.

use super::Fleet;
use crate::model::time::{MINUTE, Micros, SECOND, Span};

/// Pieces of time on each side of a change.
const MIN_INTERVALS: usize = 3;
/// A change of the busiest's share by less is none.
const CHANGE: f64 = 0.1;
/// How many times the change must be the uncertainty of both means.
const SURE: f64 = 6.0;
/// A restart so long before the change, or after it, may be its cause.
const NEAR_RESTART_US: Micros = 120 * SECOND;
/// A start so soon after the first request that is known is that of the cluster.
const FIRST: Micros = MINUTE;
/// Of an even share; who has so much is back.
const BACK: f64 = 0.8;

/// When the busiest's share of requests changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Since {
    /// When.
    pub at: Micros,
    /// Its share before.
    pub before: f64,
    /// Its share from then on.
    pub after: f64,
    /// The apiserver that started near it, and when.
    pub restart: Option<(String, Micros)>,
}

/// How an apiserver came back from a restart.
#[derive(Debug, Clone, PartialEq)]
pub struct Restart {
    pub instance: String,
    /// When its process started.
    pub at: Micros,
    /// Seconds until it had four fifths of an even share of requests, for three pieces of time; `None` if it did not
    /// within the log.
    pub recovered: Option<f64>,
}

impl Fleet {
    /// Shares of an apiserver by piece of time, of pieces in which there was a request and all apiservers are known.
    fn shares(&self, name: &str) -> Vec<(i64, f64)> {
        let Some(own) = self.instances.get(name) else { return Vec::new() };
        let mut pieces: Vec<i64> =
            self.instances.values().flat_map(|instance| instance.course.keys().copied()).collect();
        pieces.sort_unstable();
        pieces.dedup();
        let covered: Vec<Span> = self.instances.values().filter_map(|instance| instance.covered).collect();
        let is_known = |piece: &i64| {
            let (from, to) = (piece * SECOND, (piece + self.piece) * SECOND);
            covered.iter().all(|own| own.0 <= from && to <= own.1)
        };
        pieces.retain(is_known);
        let of = |piece: i64| {
            let all: f64 = self.instances.values().filter_map(|instance| instance.course.get(&piece)).sum();
            (all > 0.0).then(|| (piece, own.course.get(&piece).copied().unwrap_or(0.0) / all))
        };
        pieces.into_iter().filter_map(of).collect()
    }

    /// Since when `name` has the share that it has; `None` if as long as is known.
    pub fn since(&self, name: &str) -> Option<Since> {
        let shares = self.shares(name);
        let count = shares.len();
        let (mut best, mut found) = (0.0, None);
        // Sums from the start, so that each place is looked at once.
        let sums: Vec<(f64, f64)> = std::iter::once((0.0, 0.0))
            .chain(shares.iter().scan((0.0, 0.0), |sum, (_, share)| {
                *sum = (sum.0 + share, sum.1 + share * share);
                Some(*sum)
            }))
            .collect();
        for at in MIN_INTERVALS..(count + 1).saturating_sub(MIN_INTERVALS) {
            let (a, b) = (at as f64, (count - at) as f64);
            let (before, after) = (sums[at].0 / a, (sums[count].0 - sums[at].0) / b);
            let within = (sums[count].1 - a * before * before - b * after * after).max(0.0);
            let gain = a * b / (a + b) * (before - after).powi(2);
            let sure = (gain / (within / (count as f64 - 2.0)).max(1e-9)).sqrt();
            if gain > best && (after - before).abs() >= CHANGE && sure >= SURE {
                (best, found) = (gain, Some((at, before, after)));
            }
        }
        let (at, before, after) = found?;
        let at = shares[at].0 * SECOND;
        let starts = self.instances.iter().filter_map(|(name, instance)| Some((name.clone(), instance.started?)));
        let restart = starts
            .filter(|(_, start)| (at - start).abs() <= NEAR_RESTART_US)
            .min_by_key(|(_, start)| (at - start).abs());
        Some(Since { at, before, after, restart })
    }

    /// Restarts that lie within the window, with what came of them.
    pub fn restarts(&self) -> Vec<Restart> {
        let even = BACK / self.instances.len() as f64;
        let starts = self.instances.iter().filter_map(|(name, instance)| Some((name, instance.started?)));
        // With the first requests of all of them the cluster itself began.
        let within =
            starts.filter(|(_, at)| *at > self.window.0 + FIRST && *at < self.window.1 && self.instances.len() > 1);
        let reported = within.map(|(name, at)| {
            let behind: Vec<(i64, f64)> =
                self.shares(name).into_iter().filter(|(piece, _)| *piece * SECOND >= at).collect();
            let back = behind.windows(MIN_INTERVALS).find(|three| three.iter().all(|(_, share)| *share >= even));
            let recovered = back.map(|three| ((three[0].0 + self.piece) * SECOND - at) as f64 / SECOND as f64);
            Restart { instance: name.clone(), at, recovered }
        });
        reported.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Instance;
    use super::*;

    /// Two apiservers with so many requests in each ten seconds.
    fn fleet(of: impl Fn(i64) -> [f64; 2], pieces: i64) -> Fleet {
        let instance =
            |at: usize| Instance { course: (0..pieces).map(|n| (n * 10, of(n)[at])).collect(), ..Instance::default() };
        let instances = [("a".to_owned(), instance(0)), ("b".to_owned(), instance(1))].into();
        Fleet { instances, window: (0, pieces * 10 * SECOND), piece: 10, ..Fleet::default() }
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        let wave = |n: i64| (n as f64).sin() * 3.0;
        let mut changed = fleet(|n| if n < 20 { [50.0 + wave(n), 50.0] } else { [90.0 + wave(n), 10.0] }, 60);
        let since = changed.since("a").unwrap();
        assert_eq!((since.at, since.restart), (200 * SECOND, None));
        assert!((since.before - 0.5).abs() < 0.02 && (since.after - 0.9).abs() < 0.02);
        if let Some(b) = changed.instances.get_mut("b") {
            b.started = Some(190 * SECOND);
        }
        assert_eq!(changed.since("a").unwrap().restart, Some(("b".to_owned(), 190 * SECOND)));
        assert_eq!(fleet(|n| [80.0 + wave(n), 20.0], 60).since("a"), None);
        assert_eq!(fleet(|_| [80.0, 20.0], 4).since("a"), None);
    }

    #[test]
    fn restarts_are_followed_until_the_share_is_back() {
        let mut fleet = fleet(|n| if n < 20 { [100.0, 0.0] } else { [55.0, 45.0] }, 60);
        if let Some(b) = fleet.instances.get_mut("b") {
            b.started = Some(100 * SECOND);
        }
        let restarts = fleet.restarts();
        assert_eq!(restarts, [Restart { instance: "b".to_owned(), at: 100 * SECOND, recovered: Some(110.0) }]);
    }
}
