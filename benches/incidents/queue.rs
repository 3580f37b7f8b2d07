//! An apiserver: what waits, by level, and what becomes of what is served.

use crate::cluster::Cluster;
use crate::rng::{exp, hash, unit};
use crate::sim::{End, Now, Outcome, Spreads, Store};
use std::collections::VecDeque;

/// Requests of a stream that arrived in one step.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    pub at: f64,
    pub dt: f64,
    pub stream: u16,
    pub attempt: u8,
    pub count: u32,
}

/// The part of an apiserver's time that each level has when all want it.
const SHARES: [f64; 4] = [0.3, 0.3, 0.3, 0.1];
/// What waits for longer is rejected, s.
const MAX_WAIT: f64 = 15.0;
const RING: usize = 256;

#[derive(Debug)]
pub struct Server {
    queues: [VecDeque<Item>; 4],
    waiting: [u32; 4],
    work: [f64; 4],
    held: f64,
    release: Vec<f64>,
    until: usize,
    full: f64,
    is_up: bool,
    /// How much longer than usual requests take, s.
    pub slow: f64,
}

impl Server {
    pub fn new() -> Self {
        Self {
            queues: std::array::from_fn(|_| VecDeque::new()),
            waiting: [0; 4],
            work: [0.0; 4],
            held: 0.0,
            release: vec![0.0; RING],
            until: 0,
            full: 0.0,
            is_up: true,
            slow: 0.0,
        }
    }

    /// Requests that wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.iter().map(|own| u64::from(*own)).sum()
    }

    /// A step begins; what is lost if the apiserver died.
    pub fn begin(&mut self, t: f64, is_up: bool) -> u64 {
        let mut lost = 0;
        if self.is_up && !is_up {
            lost = self.waiting();
            self.queues.iter_mut().for_each(VecDeque::clear);
            (self.waiting, self.work, self.held, self.full, self.slow) = ([0; 4], [0.0; 4], 0.0, 0.0, 0.0);
            self.release.fill(0.0);
        }
        self.is_up = is_up;
        while self.until < t as usize {
            self.held -= std::mem::take(&mut self.release[self.until % RING]);
            self.until += 1;
        }
        self.held = self.held.max(0.0);
        lost
    }

    /// Requests arrive; how many are rejected since too many wait.
    pub fn push(&mut self, cluster: &Cluster, mut item: Item) -> u32 {
        let own = &cluster.streams[item.stream as usize];
        let level = if cluster.is_fair { own.level as usize } else { 0 };
        // What arrives within a step does not wait all at once.
        let room =
            cluster.queue[level] + (f64::from(cluster.queue[level]).max(cluster.cpu / own.price) * item.dt) as u32;
        let rejected = (self.waiting[level] + item.count).saturating_sub(room).min(item.count);
        item.count -= rejected;
        if item.count > 0 {
            self.waiting[level] += item.count;
            self.work[level] += f64::from(item.count) * own.price;
            self.queues[level].push_back(item);
        }
        rejected
    }

    /// How much of the time of a step each level gets.
    fn shares(&self, budget: f64) -> [f64; 4] {
        let mut all = [0.0; 4];
        let mut rest = budget;
        for _ in 0..4 {
            let wants = |at: &usize| self.work[*at] > all[*at] + 1e-12;
            let active: Vec<usize> = (0..4).filter(wants).collect();
            let sum: f64 = active.iter().map(|at| SHARES[*at]).sum();
            if active.is_empty() || rest < 1e-9 {
                break;
            }
            let mut used = 0.0;
            for at in active {
                let own = (rest * SHARES[at] / sum).min(self.work[at] - all[at]);
                all[at] += own;
                used += own;
            }
            rest -= used;
        }
        all
    }

    /// Serves what there is time and seats for; how many requests are in flight.
    pub(crate) fn serve(
        &mut self,
        cluster: &Cluster,
        spreads: &Spreads,
        now: &Now,
        instance: u8,
        store: &mut Store,
        mut done: impl FnMut(End, u8),
    ) -> f64 {
        let (t, dt) = (now.t, now.dt);
        let demand: f64 = self.work.iter().sum();
        let budget = cluster.cpu * dt;
        self.full += ((demand / budget).min(1.0) - self.full) * (1.0 - exp(-dt / 3.0));
        let stretch = 1.0 / (1.0 - self.full.min(0.97));
        let is_short = demand > budget;
        let mut shares = if is_short { self.shares(budget) } else { self.work.map(|work| work + 1.0) };
        let mut seats = (cluster.seats - self.held).max(0.0) * dt;
        let all_seats = seats;
        let mut used = 0.0;
        let (mut slow, mut served) = (0.0, 0.0);
        #[expect(clippy::needless_range_loop, reason = "the queues are changed within")]
        for level in 0..4 {
            while let Some(item) = self.queues[level].front().copied() {
                let own = &cluster.streams[item.stream as usize];
                let bits =
                    hash(cluster.seed, u64::from(item.stream) << 8 | u64::from(item.attempt), t as u64, item.at as u64);
                let oldest = t - item.at;
                if oldest >= MAX_WAIT {
                    self.take(level, item.count, own.price);
                    done(
                        end(&item, instance, Outcome::Throttled, item.count, MAX_WAIT, [0.0, 0.0, MAX_WAIT]),
                        item.attempt,
                    );
                    continue;
                }
                if seats <= 0.0 {
                    break;
                }
                let mut count = ((shares[level] / own.price) as u32).min(item.count);
                if count == 0 && shares[level] / own.price > unit(bits) {
                    count = 1;
                }
                if count == 0 {
                    break;
                }
                shares[level] -= f64::from(count) * own.price;
                self.take(level, count, own.price);
                used += f64::from(count) * own.price;
                let samples = count.min(if dt > 2.0 { 3 } else { 6 });
                for sample in 0..samples {
                    let some = count / samples + u32::from(sample < count % samples);
                    let bits = hash(bits, u64::from(sample), u64::from(instance), 7);
                    let arrived = item.at + item.dt * unit(hash(bits, 1, 1, 1));
                    let wait = if item.at < t || is_short {
                        (t + (used / budget).min(1.0) * dt - arrived).max(0.0)
                    } else {
                        0.0
                    };
                    let one = outcome(cluster, spreads, now, store, item.stream, bits, stretch, some);
                    let hold = one.seconds;
                    let seconds = hold + wait;
                    let request = End {
                        arrived,
                        at: arrived + seconds,
                        stream: item.stream,
                        instance,
                        outcome: one.outcome,
                        count: some,
                        seconds,
                        etcd: one.etcd,
                        hook: one.hook,
                        wait,
                    };
                    let weight = f64::from(some);
                    seats -= hold.min(dt) * weight;
                    if hold > dt {
                        self.held += weight;
                        self.release[((t + hold).max(t + dt) as usize).min(self.until + RING - 1) % RING] += weight;
                    }
                    (slow, served) = (slow + seconds.min(60.0) * weight, served + weight);
                    done(request, item.attempt);
                }
            }
        }
        let excess = if served > 0.0 { (slow / served - 0.3).max(0.0) } else { self.slow };
        self.slow += (excess - self.slow) * (1.0 - exp(-dt / 5.0));
        if self.slow < 0.01 {
            self.slow = 0.0;
        }
        self.held + (all_seats - seats.max(0.0)) / dt
    }

    /// Requests leave the queue, from the front.
    fn take(&mut self, level: usize, count: u32, price: f64) {
        self.waiting[level] -= count;
        self.work[level] = if self.waiting[level] == 0 { 0.0 } else { self.work[level] - f64::from(count) * price };
        if let Some(first) = self.queues[level].front_mut() {
            first.count -= count;
            if first.count == 0 {
                self.queues[level].pop_front();
            }
        }
    }
}

fn end(item: &Item, instance: u8, outcome: Outcome, count: u32, seconds: f64, spent: [f64; 3]) -> End {
    let arrived = item.at + item.dt * 0.5;
    let [etcd, hook, wait] = spent;
    End { arrived, at: arrived + seconds, stream: item.stream, instance, outcome, count, seconds, etcd, hook, wait }
}

/// What becomes of some requests once they are served.
struct Served {
    outcome: Outcome,
    seconds: f64,
    etcd: f64,
    hook: f64,
}

#[expect(clippy::too_many_arguments, reason = "all that a latency depends on")]
fn outcome(
    cluster: &Cluster,
    spreads: &Spreads,
    now: &Now,
    store: &mut Store,
    stream: u16,
    bits: u64,
    stretch: f64,
    count: u32,
) -> Served {
    let own = &cluster.streams[stream as usize];
    let luck = |n: u32| ((bits >> (8 * n)) & 255) as usize;
    let mut one = Served {
        outcome: Outcome::Ok,
        seconds: own.price * stretch * f64::from(spreads.cpu[luck(0)]),
        etcd: 0.0,
        hook: 0.0,
    };
    if own.chronic > 0.0 && (luck(1) as f64) < own.chronic * 256.0 {
        one.outcome = Outcome::Error;
        return one;
    }
    if let Some(hook) = own.hook {
        let (times, fails) = now.hooks[hook as usize];
        let known = &cluster.hooks[hook as usize];
        let seconds = known.seconds * times * f64::from(spreads.cpu[luck(2)]);
        one.hook = seconds.min(known.timeout);
        if (luck(3) as f64) < fails * 256.0 {
            one.hook = one.hook.min(0.01);
            if known.is_fail_closed {
                one.outcome = Outcome::Error;
            }
        } else if seconds > known.timeout && known.is_fail_closed {
            one.outcome = Outcome::Error;
        }
        one.seconds += one.hook;
    }
    if own.trips > 0.0 && one.outcome == Outcome::Ok {
        // Less than one trip each: some go, others do not.
        let trips = own.trips.floor() + f64::from(u8::from((luck(4) as f64) < (own.trips % 1.0) * 256.0));
        if trips > 0.0 {
            let mean = if own.is_write { store.write } else { store.read };
            one.etcd = trips * mean * f64::from(spreads.etcd[luck(5)]) + store.wait;
            let cost = trips * f64::from(count);
            store.trips += if own.is_write { cost } else { cost * 0.25 };
            store.writes += if own.is_write { cost } else { 0.0 };
        }
        one.seconds += one.etcd;
    }
    if one.seconds > own.timeout {
        (one.seconds, one.outcome) = (own.timeout, Outcome::Error);
        one.etcd = one.etcd.min(own.timeout);
    }
    one
}
