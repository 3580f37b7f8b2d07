//! What would even the load out: connections that are closed by chance, restarts one by one.
//!
//! kube-apiserver's `--goaway-chance` answers each request on HTTP/2, with that chance, with GOAWAY: the client
//! finishes what it has under way there and opens a new connection, which a load balancer gives to any apiserver. So a
//! connection of r requests a second stays for 1/(p·r) seconds on average, and what it has more on one apiserver than
//! an even share is expected to shrink with exp(−p·r·t).

use super::{Client, Measure};
use crate::analysis::quantiles::normal_quantile;

/// The highest chance that kube-apiserver takes.
pub const MAX_CHANCE: f64 = 0.02;

/// Chances that are reckoned with.
pub const CHANCES: [f64; 6] = [0.0001, 0.0005, 0.001, 0.005, 0.01, MAX_CHANCE];

/// Skew that counts as even.
pub const EVEN: f64 = 1.1;

/// A client's load as the model needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Flow {
    /// Requests a second, of all its connections.
    rate: f64,
    /// Requests a second of one connection.
    of_one: f64,
    /// Requests a second on the busiest more than an even share.
    excess: f64,
    /// Whether its connections move at all.
    moves: bool,
}

/// The load of the apiservers as it would change.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    flows: Vec<Flow>,
    instances: usize,
}

impl Model {
    /// Of all clients, on the busiest of so many apiservers, over so many seconds.
    pub fn new(clients: &[Client], busiest: &str, instances: usize, seconds: f64) -> Self {
        let flow = |client: &Client| {
            let rate = client.total() / seconds;
            let excess = client.excess(busiest, instances, Measure::Requests) / seconds;
            // An apiserver asks itself, whoever else asks whom.
            Flow { rate, of_one: rate / client.sources.max(1) as f64, excess, moves: client.user != "system:apiserver" }
        };
        Self { flows: clients.iter().map(flow).collect(), instances }
    }

    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.flows.iter().map(|flow| flow.rate).sum()
    }

    /// The skew that is expected `seconds` after the chance was set.
    ///
    /// What is left of today's unevenness, and what chance puts together: connections that have moved lie anywhere, so
    /// the share of each apiserver has a variance of the sum of their squared loads times (1 − 1/n)/n. Both are
    /// independent of one another.
    pub fn skew(&self, chance: f64, seconds: f64) -> f64 {
        self.skew_with(|flow| if flow.moves { 1.0 - (-chance * flow.of_one * seconds).exp() } else { 0.0 })
    }

    /// The skew when all have moved: more even it can't become.
    pub fn floor(&self) -> f64 {
        self.skew_with(|flow| f64::from(u8::from(flow.moves)))
    }

    fn skew_with(&self, moved: impl Fn(&Flow) -> f64) -> f64 {
        let n = self.instances as f64;
        let (mut left, mut squares) = (0.0, 0.0);
        for flow in &self.flows {
            let moved = moved(flow);
            left += flow.excess * (1.0 - moved);
            squares += flow.rate * flow.of_one * moved;
        }
        let spread = (squares * (1.0 - 1.0 / n) / n).sqrt() / self.rate();
        let left = left / self.rate();
        // Shares sum up to one, so they spread a little more apart than independent ones.
        let chance = highest(self.instances) * (n / (n - 1.0)).sqrt() * spread;
        (1.0 + n * (left * left + chance * chance).sqrt()).clamp(1.0, n)
    }

    /// Skew that counts as even for these connections.
    fn even(&self) -> f64 {
        EVEN.max(1.0 + 1.1 * (self.floor() - 1.0))
    }

    /// Seconds until the skew is expected to be even, or as even as it can be; `None` if that takes more than a day.
    pub fn recovery(&self, chance: f64) -> Option<f64> {
        const DAY: f64 = 86_400.0;
        let even = self.even();
        if self.skew(chance, 0.0) <= even {
            return Some(0.0);
        }
        let (mut low, mut high) = (0.0, DAY);
        if self.skew(chance, high) > even {
            return None;
        }
        while high - low > 0.5 {
            let middle = 0.5 * (low + high);
            if self.skew(chance, middle) > even { low = middle } else { high = middle }
        }
        Some(high)
    }

    /// The smallest chance that evens it out within so many seconds.
    pub fn chance_for(&self, seconds: f64) -> Option<f64> {
        CHANCES.into_iter().find(|chance| self.recovery(*chance).is_some_and(|recovery| recovery <= seconds))
    }
}

/// The expected highest of so many independent standard normal values (Blom's approximation; within 2 % of the true
/// ones).
fn highest(count: usize) -> f64 {
    let count = count as f64;
    normal_quantile((count - 0.375) / (count + 0.25))
}

/// Shares after all of `instances` were restarted one by one, each once, and nobody moved but those whose apiserver
/// went. With `surge` a new one takes part before the old one goes. The first share is that of the one that was
/// restarted first.
pub fn after_rolling_restart(instances: usize, surge: bool) -> Vec<f64> {
    let mut shares = vec![1.0 / instances as f64; instances];
    for restarted in 0..instances {
        let moved = std::mem::take(&mut shares[restarted]);
        // The place of the restarted one is its successor's: with a surge that is there already when connections move.
        let takers = if surge { instances } else { instances - 1 };
        if takers == 0 {
            shares[restarted] = moved;
            continue;
        }
        for (place, share) in shares.iter_mut().enumerate() {
            if surge || place != restarted {
                *share += moved / takers as f64;
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn client(on: [f64; 2], sources: u64) -> Client {
        let requests: BTreeMap<String, f64> = ["a", "b"].map(str::to_owned).into_iter().zip(on).collect();
        Client { requests, sources, ..Client::default() }
    }

    #[test]
    fn skew_shrinks_as_connections_move() {
        // 1,000 requests a second, 900 of them on a; each of ten thousand connections has a tenth.
        let model = Model::new(&[client([90_000.0, 10_000.0], 10_000)], "a", 2, 100.0);
        assert_eq!(model.rate(), 1000.0);
        assert!((model.skew(0.01, 0.0) - 1.8).abs() < 1e-9);
        // Each connection stays 1,000 s on average.
        assert!((model.skew(0.01, 1000.0) - (1.0 + 0.8 / std::f64::consts::E)).abs() < 1e-3);
        let recovery = model.recovery(0.01).unwrap();
        assert!((recovery - 1000.0 * 8f64.ln()).abs() < 10.0, "{recovery}");
        assert_eq!(model.chance_for(2200.0), Some(0.01));
        assert_eq!(Model::new(&[client([5000.0, 5000.0], 10)], "a", 2, 100.0).recovery(0.001), Some(0.0));
    }

    #[test]
    fn few_connections_stay_uneven() {
        // Of four equal ones on two apiservers, by counting: all on one 1/8, three 1/2, two 3/8: 1.375.
        let four = Model::new(&[client([400.0, 0.0], 4)], "a", 2, 1.0);
        assert!((four.floor() - 1.375).abs() < 0.05, "{}", four.floor());
        // One is always on one.
        let one = Model::new(&[client([400.0, 0.0], 1)], "a", 2, 1.0);
        assert!(one.floor() > 1.7, "{}", one.floor());
        // Whoever stays is as uneven as before.
        let own = Client { user: "system:apiserver".to_owned(), ..client([300.0, 100.0], 1) };
        assert!((Model::new(&[own], "a", 2, 1.0).floor() - 1.5).abs() < 1e-9);
        for (count, truth) in [(2, 0.5642), (3, 0.8463), (5, 1.163)] {
            assert!((highest(count) / truth - 1.0).abs() < 0.05, "{count}: {}", highest(count));
        }
    }

    #[test]
    fn who_is_restarted_last_stays_empty() {
        let near = |ours: Vec<f64>, truth: [f64; 3]| {
            assert!(ours.iter().zip(truth).all(|(a, b)| (a - b).abs() < 1e-9), "{ours:?}")
        };
        // By hand: 0, 1/2, 1/2; then 1/4, 0, 3/4; then 5/8, 3/8, 0.
        near(after_rolling_restart(3, false), [5.0 / 8.0, 3.0 / 8.0, 0.0]);
        // 1/9, 4/9, 4/9; then 7/27, 4/27, 16/27; then 37/81, 28/81, 16/81.
        near(after_rolling_restart(3, true), [37.0 / 81.0, 28.0 / 81.0, 16.0 / 81.0]);
    }
}
