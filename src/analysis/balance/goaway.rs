//! What would even the load out: connections that are closed by chance, restarts one by one.
//!
//! kube-apiserver's `--goaway-chance` answers each request on HTTP/2, with that chance, with GOAWAY: the client finishes what it has under
//! way there and opens a new connection, which a load balancer gives to any apiserver. So a connection of r requests a second stays for
//! 1/(p·r) seconds on average, and what it has more on one apiserver than an even share is expected to shrink with exp(−p·r·t).

use super::{Client, Measure};

/// The highest chance that kube-apiserver takes.
pub const MOST: f64 = 0.02;

/// Chances that are reckoned with.
pub const CHANCES: [f64; 6] = [0.0001, 0.0005, 0.001, 0.005, 0.01, MOST];

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
}

/// The load of one apiserver as it would change.
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
            Flow { rate, of_one: rate / client.sources.max(1) as f64, excess }
        };
        Self { flows: clients.iter().map(flow).collect(), instances }
    }

    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.flows.iter().map(|flow| flow.rate).sum()
    }

    /// The expected skew of the apiserver that is busiest now, `seconds` after the chance was set.
    pub fn skew(&self, chance: f64, seconds: f64) -> f64 {
        let left: f64 = self.flows.iter().map(|flow| flow.excess * (-chance * flow.of_one * seconds).exp()).sum();
        1.0 + left * self.instances as f64 / self.rate()
    }

    /// Seconds until the skew is expected to be even; `None` if that takes more than a day.
    pub fn recovery(&self, chance: f64) -> Option<f64> {
        const DAY: f64 = 86_400.0;
        if self.skew(chance, 0.0) <= EVEN {
            return Some(0.0);
        }
        let (mut low, mut high) = (0.0, DAY);
        if self.skew(chance, high) > EVEN {
            return None;
        }
        while high - low > 0.5 {
            let middle = 0.5 * (low + high);
            if self.skew(chance, middle) > EVEN { low = middle } else { high = middle }
        }
        Some(high)
    }

    /// The smallest chance that evens it out within so many seconds.
    pub fn chance_for(&self, seconds: f64) -> Option<f64> {
        CHANCES.into_iter().find(|chance| self.recovery(*chance).is_some_and(|recovery| recovery <= seconds))
    }
}

/// Shares after all of `instances` were restarted one by one, each once, and nobody moved but those whose apiserver went. With `surge` a new
/// one takes part before the old one goes. The first share is that of the one that was restarted first.
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
        // 100 requests a second, 90 of them on a; each of ten connections has ten.
        let model = Model::new(&[client([9000.0, 1000.0], 10)], "a", 2, 100.0);
        assert_eq!(model.rate(), 100.0);
        assert!((model.skew(0.001, 0.0) - 1.8).abs() < 1e-9);
        // Each connection stays 100 s on average.
        assert!((model.skew(0.001, 100.0) - (1.0 + 0.8 / std::f64::consts::E)).abs() < 1e-9);
        let recovery = model.recovery(0.001).unwrap();
        assert!((recovery - 100.0 * 8f64.ln()).abs() < 1.0, "{recovery}");
        assert_eq!(model.chance_for(600.0), Some(0.0005));
        assert_eq!(Model::new(&[client([5000.0, 5000.0], 10)], "a", 2, 100.0).recovery(0.001), Some(0.0));
    }

    #[test]
    fn who_is_restarted_last_stays_empty() {
        let near = |ours: Vec<f64>, truth: [f64; 3]| assert!(ours.iter().zip(truth).all(|(a, b)| (a - b).abs() < 1e-9), "{ours:?}");
        // By hand: 0, 1/2, 1/2; then 1/4, 0, 3/4; then 5/8, 3/8, 0.
        near(after_rolling_restart(3, false), [5.0 / 8.0, 3.0 / 8.0, 0.0]);
        // 1/9, 4/9, 4/9; then 7/27, 4/27, 16/27; then 37/81, 28/81, 16/81.
        near(after_rolling_restart(3, true), [37.0 / 81.0, 28.0 / 81.0, 16.0 / 81.0]);
    }
}
