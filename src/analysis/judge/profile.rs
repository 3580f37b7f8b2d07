//! What was asked for in some intervals, by caller and kind of request: an episode is compared with its baseline.

use super::latencies::{Latencies, slowdown};
use super::requests::{Class, MORE, Requests};
use super::series::{RequestSeries, Tile};
use std::collections::BTreeMap;
use std::ops::Range;

/// Audit logs say of requests that take so long how long they were in etcd, in webhooks and in queues, s.
const NOTED_FROM: f32 = 0.5;

/// Requests of one caller and kind, or of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Count {
    /// Requests; of watches those that started.
    pub requests: f64,
    /// Code 0 or ≥ 500.
    pub errors: f64,
    /// Code 429.
    pub throttled: f64,
    /// Of those that failed, what [`Row::unserved`](super::requests::Row::unserved) counts.
    pub unserved: f64,
    /// Requests whose latency is known.
    pub timed: f64,
    /// Of these, slow ones for their kind.
    pub slow: f64,
    /// Sum of their latencies, s.
    pub seconds: f64,
    /// Seconds that slow requests spent in etcd, in webhooks, in the APF queue.
    pub spent: [f64; 3],
    /// Of requests that were answered, seconds of those of which audit logs say that: they took half a second or more.
    pub noted: f64,
}

impl Count {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.throttled += other.throttled;
        self.unserved += other.unserved;
        self.timed += other.timed;
        self.slow += other.slow;
        self.seconds += other.seconds;
        self.spent.iter_mut().zip(other.spent).for_each(|(sum, own)| *sum += own);
        self.noted += other.noted;
    }

    /// Requests but for those that failed no slower than usual.
    pub fn served(&self) -> f64 {
        self.requests - self.unserved
    }

    /// Requests that are work: neither throttled, nor failed no slower than usual.
    pub fn work(&self) -> f64 {
        (self.served() - self.throttled).max(0.0)
    }

    /// Mean latency, s; `None` where none is known.
    pub fn mean(&self) -> Option<f64> {
        (self.timed > 0.0).then(|| self.seconds / self.timed)
    }
}

/// What was asked for at baseline and within, and what it added.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Added {
    /// Requests a second, at baseline and within.
    pub rps: [f64; 2],
    /// The same without what failed no slower than usual.
    pub served: [f64; 2],
    /// Requests that were throttled within, a second.
    pub throttled: f64,
    /// Seconds of work by second that were added, each request at the price of its kind; what is throttled, or
    /// fails no slower than usual, is no work.
    pub work: f64,
}

impl Added {
    /// Of requests of a kind, of a caller or of all.
    pub fn new(
        series: &RequestSeries,
        (caller, kind): (Option<usize>, usize),
        [was, now]: [&Count; 2],
        [before, within]: [&Profile; 2],
    ) -> Self {
        let by_second = |count: f64, profile: &Profile| count / profile.seconds.max(1.0);
        let rps = [by_second(was.requests, before), by_second(now.requests, within)];
        let served = [by_second(was.served(), before), by_second(now.served(), within)];
        let more = if series.classes[kind] == Class::Long {
            let replays = |count: &Count, profile: &Profile| {
                let of = |caller| series.replays(caller, kind, count.requests, profile.seconds.max(1.0));
                by_second(caller.map_or(0.0, of), profile)
            };
            replays(now, within) - replays(was, before)
        } else {
            by_second(now.work(), within) - served[0]
        };
        Self { rps, served, throttled: by_second(now.throttled, within), work: more.max(0.0) * series.prices[kind] }
    }
}

/// What was asked for in some intervals.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// How long they are together, s.
    pub seconds: f64,
    /// By caller and kind, numbered as in [`Requests`]; in order, so that sums of them are the same each time.
    pub pairs: BTreeMap<(u32, u32), Count>,
    /// By kind.
    pub kinds: BTreeMap<u32, Count>,
    /// By apiserver.
    pub instances: Vec<f64>,
    /// What each apiserver did with them.
    pub served: Vec<Served>,
    /// All latencies but of long-running requests.
    pub latency: Latencies,
    /// The same of what was asked for at baseline, too: [`like_before`].
    pub alike: Latencies,
    /// The same without LISTs of callers that send more of them than at baseline, neither here nor there: what they
    /// ask for more may be larger.
    pub rest: Latencies,
    /// Sums of what intervals hold.
    pub tiles: Sums,
}

/// What one apiserver did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Served {
    /// Requests whose latency is known.
    pub timed: f64,
    /// Sum of the logarithms of how many times longer they took than their kind does in quiet intervals.
    pub drag: f64,
    /// Work asked for, s.
    pub work: f64,
}

impl Served {
    /// Logarithm of how many times longer requests took.
    pub fn mean_drag(&self) -> f64 {
        self.drag / self.timed.max(1.0)
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.timed += other.timed;
        self.drag += other.drag;
        self.work += other.work;
    }
}

/// Sums over intervals.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Requests but for long-running ones.
    pub requests: f64,
    pub lists: f64,
    pub writes: f64,
    pub errors: f64,
    /// 429.
    pub throttled: f64,
    /// Writes that rules refused, of those that rules are about.
    pub refused: [f64; 2],
    /// 401.
    pub unauthorized: f64,
    /// Errors and 429s of watches.
    pub long: [f64; 2],
    /// Requests whose latency is known.
    pub timed: f64,
    /// Slow ones.
    pub slow: f64,
    /// Watches that started.
    pub watches: f64,
    /// Work asked for, s.
    pub work: f64,
}

impl Sums {
    /// Requests that failed, watches as well.
    pub fn failed(&self) -> f64 {
        self.errors + self.long[0]
    }

    /// Requests that were throttled, watches as well.
    pub fn rejected(&self) -> f64 {
        self.throttled + self.long[1]
    }

    fn add(&mut self, tile: &Tile) {
        let all = tile.all();
        self.requests += all.requests;
        self.lists += tile.felt[1].requests;
        self.writes += tile.felt[2].requests;
        self.errors += all.errors;
        self.throttled += all.throttled;
        let (refused, writes) = tile.refusals.counts();
        self.refused = [self.refused[0] + refused, self.refused[1] + writes];
        self.unauthorized += tile.unauthorized.counts().0;
        self.timed += all.timed;
        self.slow += all.slow;
        self.long.iter_mut().zip(tile.long).for_each(|(sum, own)| *sum += own);
        self.watches += tile.watches;
        self.work += tile.work;
    }
}

/// Intervals, in order and apart from one another.
pub type Tiles = Vec<Range<usize>>;

/// Which sets each interval is in.
fn by_interval(series: &RequestSeries, sets: &[Tiles]) -> Vec<Vec<u16>> {
    let mut of: Vec<Vec<u16>> = vec![Vec::new(); series.tiles.len()];
    for (number, tiles) in sets.iter().enumerate() {
        for at in tiles.iter().flat_map(Clone::clone).filter(|at| *at < series.tiles.len()) {
            of[at].push(number as u16);
        }
    }
    of
}

/// The profiles of several sets of intervals, by one pass.
pub fn profiles(requests: &dyn Requests, series: &RequestSeries, sets: &[Tiles]) -> Vec<Profile> {
    let of = by_interval(series, sets);
    let mut all: Vec<Profile> = Vec::with_capacity(sets.len());
    for tiles in sets {
        let instances = series.by_instance.len();
        let mut profile = Profile {
            instances: vec![0.0; instances],
            served: vec![Served::default(); instances],
            ..Profile::default()
        };
        for at in tiles.iter().flat_map(Clone::clone).filter(|at| *at < series.tiles.len()) {
            profile.seconds += series.grid.seconds(at);
            profile.tiles.add(&series.tiles[at]);
            profile.latency.merge(&series.tiles[at].latency);
            for (sum, own) in profile.instances.iter_mut().zip(&series.by_instance) {
                *sum += own[at];
            }
        }
        all.push(profile);
    }
    requests.each(&mut |row| {
        let Some(sets) = of.get(row.tile).filter(|sets| !sets.is_empty() && !row.is_start) else { return };
        let threshold = series.threshold(row.caller, row.kind) as f32;
        let mut count = Count {
            requests: row.requests,
            errors: row.errors,
            throttled: row.throttled,
            unserved: row.unserved(series.prices[row.kind]),
            spent: row.spent,
            ..Count::default()
        };
        let is_answered = row.errors + row.throttled == 0.0;
        for (seconds, timed) in row.latency {
            count.timed += f64::from(*timed);
            count.noted += if is_answered && *seconds >= NOTED_FROM { f64::from(seconds * timed) } else { 0.0 };
            count.seconds += f64::from(seconds * timed);
            count.slow += if *seconds > threshold { f64::from(*timed) } else { 0.0 };
        }
        if series.classes[row.kind] == Class::Long {
            count = Count { requests: count.timed, ..Count::default() };
        }
        let served = (series.classes[row.kind] != Class::Long).then(|| {
            let price = series.prices[row.kind];
            Served {
                timed: count.timed,
                drag: count.mean().map_or(0.0, |mean| count.timed * slowdown(mean, price)),
                work: count.work() * price,
            }
        });
        for set in sets {
            let profile = &mut all[usize::from(*set)];
            if let Some(served) = &served {
                profile.served[row.instance].add(served);
            }
            profile.pairs.entry(row.pair()).or_default().add(&count);
            profile.kinds.entry(row.kind as u32).or_default().add(&count);
        }
    });
    all
}

/// Fills in [`Profile::alike`]. `sets` and `profiles` come in pairs: a baseline, and what is compared with it.
///
/// Within an episode each caller and kind of request counts at most at its rate of the baseline, and not at all if the
/// baseline has none. Otherwise somebody who asks for more of what takes long by nature would raise the quantiles of
/// all, though nobody waits for longer.
pub fn like_before(requests: &dyn Requests, series: &RequestSeries, sets: &[Tiles], profiles: &mut [Profile]) {
    let rate = |profile: &Profile, pair| {
        profile.pairs.get(&pair).map_or(0.0, |count: &Count| count.timed / profile.seconds.max(1.0))
    };
    let of = by_interval(series, sets);
    // By caller and kind, what each counts for, and whether it is one of more LISTs.
    let mut weights: Vec<BTreeMap<(u32, u32), (f32, bool)>> = Vec::with_capacity(sets.len() / 2);
    for pair in profiles.chunks_mut(2) {
        let [before, now] = pair else { continue };
        let weight = |pair| (rate(before, pair) / rate(now, pair).max(f64::MIN_POSITIVE)).min(1.0) as f32;
        let is_more = |pair: (u32, u32)| {
            series.classes[pair.1 as usize] == Class::List && rate(now, pair) > MORE * rate(before, pair)
        };
        weights.push(now.pairs.keys().map(|pair| (*pair, (weight(*pair), is_more(*pair)))).collect());
        before.alike = before.latency.clone();
    }
    let mut latency = Vec::new();
    requests.each(&mut |row| {
        if series.classes[row.kind] == Class::Long {
            return;
        }
        for set in of.get(row.tile).into_iter().flatten().map(|set| usize::from(*set)) {
            let (own, profile) = (weights[set / 2].get(&row.pair()), &mut profiles[set]);
            if set % 2 == 0 {
                if own.is_none_or(|own| !own.1) {
                    profile.rest.add(row.latency);
                }
                continue;
            }
            let Some((weight, is_more)) = own else { continue };
            latency.clear();
            latency.extend(row.latency.iter().map(|(seconds, count)| (*seconds, count * weight)));
            profile.alike.add(&latency);
            if !is_more {
                profile.rest.add(&latency);
            }
        }
    });
}
