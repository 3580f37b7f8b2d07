//! How many seats a priority level has: its part of the apiserver's, by shares.

use crate::analysis::metrics::catalogue::Metric;
use crate::analysis::metrics::facts::Facts;
use crate::model::flowcontrol::PriorityLevel;

/// Seats of an apiserver with default flags: `--max-requests-inflight` 400 and `--max-mutating-requests-inflight` 200.
pub const DEFAULT_SEATS: u32 = 600;

/// An apiserver's seats, and where that is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerSeats {
    /// What kube-apiserver takes where its flags are not set.
    Default,
    /// As a person says.
    Given(u32),
    /// What fits the limits of levels in metrics: from, to.
    Metrics(u32, u32),
    /// The sum of these limits, which do not fit the shares.
    Sum(u32),
}

impl ServerSeats {
    /// The number to reckon with.
    pub fn number(self) -> u32 {
        match self {
            Self::Default => DEFAULT_SEATS,
            Self::Given(seats) | Self::Metrics(_, seats) | Self::Sum(seats) => seats,
        }
    }

    /// In words.
    pub fn in_words(self) -> String {
        match self {
            Self::Default => format!("{DEFAULT_SEATS}, kube-apiserver's default (--server-seats sets another)"),
            Self::Given(seats) => format!("{seats}, by --server-seats"),
            Self::Metrics(from, to) if from == to => format!("{to}, by apiserver_flowcontrol_nominal_limit_seats"),
            Self::Metrics(from, to) => format!(
                "{to} ({from} to {to} are consistent with \
                 apiserver_flowcontrol_nominal_limit_seats)"
            ),
            Self::Sum(seats) => {
                format!(
                    "{seats}, the sum of apiserver_flowcontrol_nominal_limit_seats, which does not match the \
                     shares"
                )
            }
        }
    }

    /// What the metrics of a cluster's apiservers show; of several the one with the fewest seats.
    pub fn of_facts(facts: &Facts, cluster: &str, levels: &[PriorityLevel]) -> Option<Self> {
        let of_instance = |at: usize| {
            let mine = facts.of(Metric::LevelNominal).iter().filter(|fact| fact.instance == at);
            let limits: Vec<(String, u32)> = mine
                .filter_map(|fact| Some((facts.text(*fact.labels.first()?).to_owned(), fact.last? as u32)))
                .collect();
            if limits.is_empty() { None } else { Self::of_limits(levels, &limits) }
        };
        let instances = facts.instances.iter().enumerate().filter(|(_, instance)| instance.cluster == cluster);
        instances.filter_map(|(at, _)| of_instance(at)).min_by_key(|seats| seats.number())
    }

    /// What fits the nominal limits (by level) that a metrics page shows. Each limit is rounded up, so that several
    /// numbers may fit.
    pub fn of_limits(levels: &[PriorityLevel], limits: &[(String, u32)]) -> Option<Self> {
        let total = total(levels);
        let (mut from, mut to) = (1, u64::MAX);
        for level in levels.iter().filter(|level| level.shares > 0) {
            let limit = u64::from(limits.iter().find(|(name, _)| *name == level.name)?.1);
            let shares = u64::from(level.shares);
            from = from.max(limit.saturating_sub(1) * total / shares + 1);
            to = to.min(limit * total / shares);
        }
        let same = levels
            .iter()
            .map(|level| level.name.as_str())
            .filter(|name| limits.iter().any(|(other, _)| other == name))
            .count();
        let sum = limits.iter().map(|(_, limit)| limit).sum();
        let fits = from <= to && to < u64::from(u32::MAX) && same == limits.len();
        Some(if fits { Self::Metrics(from as u32, to as u32) } else { Self::Sum(sum) })
    }
}

fn total(levels: &[PriorityLevel]) -> u64 {
    levels.iter().map(|level| u64::from(level.shares)).sum()
}

/// The seats of a level: `⌈server × shares ÷ Σ shares⌉`, its nominal concurrency limit.
pub fn nominal(server: u32, level: &PriorityLevel, levels: &[PriorityLevel]) -> u32 {
    let total = total(levels).max(1);
    (u64::from(server) * u64::from(level.shares)).div_ceil(total).min(u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::flowcontrol::Limit;

    fn levels() -> Vec<PriorityLevel> {
        let level = |(name, shares): (&str, u32)| PriorityLevel {
            name: name.into(),
            shares,
            lendable_percent: 0,
            borrowing_limit_percent: None,
            limit: Limit::Reject,
        };
        [
            ("catch-all", 5),
            ("exempt", 0),
            ("system", 30),
            ("node-high", 40),
            ("leader-election", 10),
            ("workload-high", 40),
            ("workload-low", 100),
            ("global-default", 20),
        ]
        .map(level)
        .to_vec()
    }

    #[test]
    fn limits_of_real_servers() {
        let levels = levels();
        let of = |server| {
            levels.iter().map(|level| (level.name.clone(), nominal(server, level, &levels))).collect::<Vec<_>>()
        };
        // Pages of samples/list-storm (default flags) and overload-restart (3 + 2) say so.
        let storm = [13, 0, 74, 98, 25, 98, 245, 49];
        assert_eq!(of(600).into_iter().map(|(_, seats)| seats).collect::<Vec<_>>(), storm);
        let overload = [1, 0, 1, 1, 1, 1, 3, 1];
        assert_eq!(of(5).into_iter().map(|(_, seats)| seats).collect::<Vec<_>>(), overload);
        // And back.
        assert_eq!(ServerSeats::of_limits(&levels, &of(600)), Some(ServerSeats::Metrics(598, 600)));
        assert_eq!(ServerSeats::of_limits(&levels, &of(5)), Some(ServerSeats::Metrics(5, 6)));
        let mut other = of(600);
        other[2].1 = 10;
        assert_eq!(ServerSeats::of_limits(&levels, &other), Some(ServerSeats::Sum(538)));
        assert_eq!(ServerSeats::of_limits(&levels, &[]), None);
    }
}
