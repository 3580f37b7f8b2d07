//! Quotas for the API itself: how many requests a second and how many seats each user takes at most, and priority
//! levels that grant as much.
//!
//! A *seat* is one request being worked on (API Priority and Fairness). What a user takes is counted in windows of ten
//! seconds: the time that its requests were worked on in a window, by the window's length, is the mean of its seats
//! there.

use crate::analysis::dims::folded;
use crate::analysis::flow::Classifier;
use crate::analysis::flow::fence::{self, Client, Impossible, Strength};
use crate::analysis::flow::{Set, Sets};
use crate::model::event::{Stage, Timed};
use crate::model::flowcontrol::{FlowSchema, PriorityLevel};
use crate::model::time::{Micros, SECOND, together};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The length of a window.
pub const WINDOW: Micros = 10 * SECOND;

/// Windows that are kept of a user; beyond, two become one, and peaks flatter.
const WINDOWS: usize = 8_192;

/// A request that lasts longer than this is long-running: the apiserver ends those after a minute.
const MAX_REQUEST_US: Micros = 120 * SECOND;

/// What a user asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    pub requests: u64,
    /// Length of a window.
    pub window: Micros,
    /// By window: requests that arrived, and µs that requests were worked on.
    windows: HashMap<i64, (u64, u64)>,
    /// Requests by FlowSchema.
    pub schemas: BTreeMap<String, u64>,
}

impl Default for Demand {
    fn default() -> Self {
        Self { requests: 0, window: WINDOW, windows: HashMap::new(), schemas: BTreeMap::new() }
    }
}

impl Demand {
    fn add(&mut self, from: Micros, until: Micros) {
        self.requests += 1;
        // One request that lasts for long makes as few windows as many short ones.
        while (until - from) / self.window > WINDOWS as Micros {
            self.widen();
        }
        self.windows.entry(from.div_euclid(self.window)).or_default().0 += 1;
        for window in from.div_euclid(self.window)..=until.div_euclid(self.window) {
            let start = window * self.window;
            let busy = until.min(start + self.window) - from.max(start);
            self.windows.entry(window).or_default().1 += busy.max(0) as u64;
        }
        self.narrow();
    }

    /// Makes two windows one until they are few enough: the same, in whatever order they came.
    fn narrow(&mut self) {
        while self.windows.len() > WINDOWS {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.window *= 2;
        let mut wider: HashMap<i64, (u64, u64)> = HashMap::new();
        for (window, (starts, busy)) in self.windows.drain() {
            let sum = wider.entry(window.div_euclid(2)).or_default();
            *sum = (sum.0 + starts, sum.1 + busy);
        }
        self.windows = wider;
    }

    fn merge(&mut self, mut other: Self) {
        while other.window < self.window {
            other.widen();
        }
        while self.window < other.window {
            self.widen();
        }
        self.requests += other.requests;
        for (window, (starts, busy)) in other.windows {
            let sum = self.windows.entry(window).or_default();
            *sum = (sum.0 + starts, sum.1 + busy);
        }
        other.schemas.into_iter().for_each(|(schema, count)| *self.schemas.entry(schema).or_default() += count);
        self.narrow();
    }

    /// The most requests per second in a window.
    pub fn peak_rps(&self) -> f64 {
        self.windows.values().map(|(starts, _)| *starts).max().unwrap_or(0) as f64 * SECOND as f64 / self.window as f64
    }

    /// The most seats in a window, as their mean there.
    pub fn peak_seats(&self) -> f64 {
        self.windows.values().map(|(_, busy)| *busy).max().unwrap_or(0) as f64 / self.window as f64
    }

    /// When that was: the start of the window, the first of several.
    pub fn peak_at(&self) -> Micros {
        let most = self.windows.iter().max_by_key(|(window, (_, busy))| (*busy, std::cmp::Reverse(**window)));
        most.map_or(0, |(window, _)| window * self.window)
    }
}

/// What all users asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demands {
    /// By user; kubelets are one.
    pub users: BTreeMap<String, Demand>,
    /// First and last event.
    pub span: Option<(Micros, Micros)>,
}

impl Demands {
    /// Takes in those of another part of the input.
    pub fn merge(&mut self, other: Self) {
        for (user, demand) in other.users {
            self.users.entry(user).or_default().merge(demand);
        }
        self.span = together(self.span, other.span);
    }
}

/// Counts one thread's events.
#[derive(Debug)]
pub struct Observer<'s> {
    classifier: Classifier<'s>,
    demands: Demands,
}

impl<'s> Observer<'s> {
    /// One for these FlowSchemas.
    pub fn new(sets: &'s Sets) -> Self {
        Self { classifier: sets.classifier(), demands: Demands::default() }
    }

    /// Takes an event. A watch holds its seat until it has begun; what was refused with 429 held none.
    pub fn event(&mut self, timed: &Timed<'_, '_>) {
        let event = timed.event;
        let counts =
            if event.verb.is("watch") { timed.stage == Stage::ResponseStarted } else { timed.stage.is_terminal() };
        if !counts || event.code == Some(429) {
            return;
        }
        let flow = self.classifier.flow(timed);
        if flow.number == 0 {
            return;
        }
        let lasts = timed.elapsed().map_or(0, |elapsed| (elapsed as Micros).min(MAX_REQUEST_US));
        let user = event.user.decode();
        let user = folded(&user);
        let demand = match self.demands.users.get_mut(user) {
            Some(demand) => demand,
            None => self.demands.users.entry(user.to_owned()).or_default(),
        };
        demand.add(timed.at - lasts, timed.at);
        match demand.schemas.get_mut(flow.schema) {
            Some(count) => *count += 1,
            None => drop(demand.schemas.insert(flow.schema.to_owned(), 1)),
        }
        self.demands.span = together(self.demands.span, Some((timed.at, timed.at)));
    }

    /// What was counted.
    pub fn flush(&mut self) -> Demands {
        std::mem::take(&mut self.demands)
    }
}

/// What one user should be granted.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiQuota {
    pub user: String,
    pub requests: u64,
    /// Peak of requests per second.
    pub peak_rps: f64,
    pub peak_seats: f64,
    /// When that was.
    pub peak_at: Micros,
    /// FlowSchemas that it matches now, with requests; the busiest first.
    pub matches: Vec<(String, u64)>,
    /// The priority level of the first of them.
    pub level: String,
    /// Requests per second with headroom.
    pub proposed_rps: f64,
    /// Seats with headroom.
    pub proposed_seats: u32,
    /// Why it gets no level of its own; empty where it gets one.
    pub without: String,
}

/// Proposals for the users that take most seats; those of the control plane and of nodes get none, since nothing must
/// hold them up.
pub fn propose(demands: &Demands, set: &Set, headroom: f64, most: usize) -> Vec<ApiQuota> {
    let mut rows: Vec<ApiQuota> = (demands.users.iter())
        .filter(|(user, _)| fence::refusal(user).is_none())
        .map(|(user, demand)| {
            let mut matches: Vec<(String, u64)> = demand.schemas.clone().into_iter().collect();
            matches.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            let level = matches.first().and_then(|(name, _)| set.schemas.iter().find(|schema| schema.name == *name));
            let client = Client { user: user.clone(), matches: matches.clone(), ..Client::default() };
            let alone = fence::fence(set, std::slice::from_ref(&client), Strength { shares: 1, queues: true });
            ApiQuota {
                user: user.clone(),
                requests: demand.requests,
                peak_rps: demand.peak_rps(),
                peak_seats: demand.peak_seats(),
                peak_at: demand.peak_at(),
                level: level.map(|schema| schema.level.clone()).unwrap_or_default(),
                matches,
                proposed_rps: (demand.peak_rps() * (1.0 + headroom) * 10.0).ceil() / 10.0,
                proposed_seats: ((demand.peak_seats() * (1.0 + headroom)).ceil() as u32).max(1),
                without: alone.err().map(|why| why.to_string()).unwrap_or_default(),
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        b.peak_seats
            .total_cmp(&a.peak_seats)
            .then_with(|| b.requests.cmp(&a.requests))
            .then_with(|| a.user.cmp(&b.user))
    });
    rows.truncate(most);
    rows
}

/// The least shares with which each of some new levels has at least so many of an apiserver's seats, beside levels with
/// `others` shares in all. `None` where they would take half of the seats or more from all others.
///
/// A level has `⌈server × shares ÷ Σ shares⌉` seats, so `wanted` of them from `⌊(wanted - 1) × Σ shares ÷ server⌋ + 1`
/// shares on. The new shares are part of the sum: it is reckoned again until it stays, which it does below `2 × (others
/// + levels)`.
pub fn shares(wanted: &[u32], server: u32, others: u32) -> Option<Vec<u32>> {
    let all: u64 = wanted.iter().map(|seats| u64::from(*seats)).sum();
    u64::from(server).checked_sub(all).filter(|left| *left > u64::from(server) / 2)?;
    let needed =
        |sum: u64| wanted.iter().map(move |seats| u64::from(seats.saturating_sub(1)) * sum / u64::from(server) + 1);
    let mut sum = u64::from(others);
    loop {
        let next = u64::from(others) + needed(sum).sum::<u64>();
        if next == sum {
            return needed(sum).map(|shares| u32::try_from(shares).ok()).collect();
        }
        sum = next;
    }
}

/// A level and a FlowSchema for each proposal that can have one.
pub fn objects(
    rows: &[ApiQuota],
    set: &Set,
    server: u32,
) -> Result<Option<Vec<(PriorityLevel, FlowSchema)>>, Impossible> {
    let rows: Vec<&ApiQuota> = rows.iter().filter(|row| row.without.is_empty()).collect();
    let wanted: Vec<u32> = rows.iter().map(|row| row.proposed_seats).collect();
    let others = set.levels.iter().map(|level| level.shares).sum();
    let Some(shares) = shares(&wanted, server, others) else { return Ok(None) };
    let clients: Vec<Client> = rows
        .iter()
        .map(|row| Client { user: row.user.clone(), matches: row.matches.clone(), ..Client::default() })
        .collect();
    let built = fence::fence(set, &clients, Strength { shares: 1, queues: true });
    let fence = if clients.is_empty() { return Ok(Some(Vec::new())) } else { built? };
    let own = |(mut schema, shares): (FlowSchema, u32)| {
        let name = schema.name.replacen("plimsoll-fence", "plimsoll-quota", 1);
        schema.name.clone_from(&name);
        schema.level.clone_from(&name);
        (PriorityLevel { name, shares, ..fence.level.clone() }, schema)
    };
    Ok(Some(fence.schemas.clone().into_iter().zip(shares).map(own).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::flow::seats::nominal;
    use crate::model::flowcontrol::Limit;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_give_the_seats(wanted in prop::collection::vec(1u32..40, 1..8), server in 100u32..3_000,
            others in 30u32..400) {
            let sum: u32 = wanted.iter().sum();
            match shares(&wanted, server, others) {
                None => prop_assert!(server - sum.min(server) <= server / 2),
                Some(shares) => {
                    let level = |shares| PriorityLevel { name: String::new(), shares, lendable_percent: 0,
                        borrowing_limit_percent: None, limit: Limit::Reject };
                    let all: Vec<PriorityLevel> = shares.iter().copied().chain([others]).map(level).collect();
                    for (level, wanted) in all.iter().zip(&wanted) {
                        let seats = nominal(server, level, &all);
                        prop_assert!(seats >= *wanted && seats <= *wanted + server / others, "{seats} {wanted}");
                    }
                }
            }
        }

        #[test]
        fn demand_is_the_same_in_any_order(mut times in prop::collection::vec((0i64..90_000_000, 0i64..20_000),
            1..300), cut in 0usize..300) {
            let add = |times: &[(i64, i64)]| {
                let mut demand = Demand::default();
                times.iter().for_each(|(at, lasts)| demand.add(at * 1_000, (at + lasts) * 1_000));
                demand
            };
            let whole = add(&times);
            let mut first = add(&times[..cut.min(times.len())]);
            first.merge(add(&times[cut.min(times.len())..]));
            prop_assert_eq!(&first, &whole);
            times.reverse();
            prop_assert_eq!(&add(&times), &whole);
            let busy: i64 = times.iter().map(|(_, lasts)| lasts * 1_000).sum();
            prop_assert_eq!(whole.windows.values().map(|(_, busy)| *busy).sum::<u64>(), busy as u64);
        }
    }
}
