//! What happens to requests: apiservers with CPU time, seats and queues, an etcd behind them, webhooks beside them,
//! callers that come back. In steps of a second around what matters, in longer ones elsewhere.

use crate::cluster::{Cluster, Form, Retry};
use crate::queue::{Item, Server};
use crate::rng::{Normals, exp, hash, poisson, sin, unit};

/// When something lasts, in seconds since the capture begins: with ramps at both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    pub from: f64,
    pub to: f64,
    pub up: f64,
    pub down: f64,
}

impl Shape {
    pub fn new(from: f64, to: f64) -> Self {
        Self { from, to, up: 0.0, down: 0.0 }
    }

    /// From 0 to 1, the mean over a step.
    pub fn at(&self, t: f64, dt: f64) -> f64 {
        let (from, to) = (t.max(self.from), (t + dt).min(self.to));
        if from >= to {
            return 0.0;
        }
        let middle = (from + to) / 2.0;
        let up = if self.up > 0.0 { (middle - self.from) / self.up } else { 1.0 };
        let down = if self.down > 0.0 { (self.to - middle) / self.down } else { 1.0 };
        up.min(down).clamp(0.0, 1.0) * (to - from) / dt
    }
}

/// What changes in a cluster for some time.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Some streams ask so many times as much.
    Times { streams: Vec<u16>, shape: Shape, times: f64 },
    /// A stream asks for so many more a second.
    Add { stream: u16, shape: Shape, rate: f64 },
    /// A stream asks so many times at once, spread over some seconds.
    Pulse { stream: u16, at: f64, spread: f64, count: f64 },
    /// etcd takes so many times as long to write, and to read in part, and takes less.
    Store { shape: Shape, times: f64, reads: f64 },
    /// etcd answers nothing.
    Stall { from: f64, to: f64 },
    /// A webhook takes so many times as long; a part of its calls fails.
    Hook { hook: u8, shape: Shape, times: f64, fails: f64 },
    /// An apiserver is away; its callers come back to it within `back` seconds of its return.
    Down { instance: u8, from: f64, to: f64, back: f64 },
    /// A share of all connections goes to one apiserver.
    Pin { instance: u8, shape: Shape, share: f64 },
}

/// When apiservers that were away are there again, before the end of the capture, s.
pub fn starts(effects: &[Effect], span: f64) -> impl Iterator<Item = (f64, u8)> {
    effects.iter().filter_map(move |effect| match effect {
        Effect::Down { instance, to, .. } if *to < span => Some((*to, *instance)),
        _ => None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Error,
    Throttled,
}

/// Requests that ended alike.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Seconds since the capture began.
    pub arrived: f64,
    pub at: f64,
    pub stream: u16,
    pub instance: u8,
    pub outcome: Outcome,
    pub count: u32,
    /// Of each: latency, and what of it was spent in etcd, webhooks, queues; s.
    pub seconds: f64,
    pub etcd: f64,
    pub hook: f64,
    pub wait: f64,
}

/// Takes what a simulation hands out.
pub trait Sink {
    fn end(&mut self, end: &End);
    /// Requests in flight at an apiserver; `None` while it is away.
    fn server(&mut self, _t: f64, _dt: f64, _instance: u8, _inflight: Option<f64>) {}
    /// How long etcd takes to write, how many writes it gets, and whether it stands still.
    fn store(&mut self, _t: f64, _dt: f64, _seconds: f64, _writes: f64, _is_stalled: bool) {}
    /// Nothing that ends before `t` will come any more.
    fn advance(&mut self, _t: f64) {}
}

/// Where requests went: arrivals are ends, those that wait or are in flight at the end, and those that were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    pub arrivals: u64,
    pub ends: u64,
    pub beyond: u64,
    pub waiting: u64,
    /// Died with their apiserver.
    pub lost: u64,
}

/// etcd.
#[derive(Debug, Default)]
pub(crate) struct Store {
    backlog: f64,
    full: f64,
    /// Of this step: mean latency of a write, of a read, and wait for others; s.
    pub(crate) write: f64,
    pub(crate) read: f64,
    pub(crate) wait: f64,
    /// How long the step before was, s.
    length: f64,
    /// Trips of this step, by their cost.
    pub(crate) trips: f64,
    pub(crate) writes: f64,
    is_stalled: bool,
}

/// What holds in a step.
pub(crate) struct Now {
    pub t: f64,
    pub dt: f64,
    pub hooks: [(f64, f64); 4],
    /// When the apiserver dies next.
    pub dies: f64,
}

pub(crate) struct Spreads {
    pub cpu: [f32; 256],
    pub etcd: [f32; 256],
}

const RING: usize = 256;

/// Runs a cluster through all steps (start and length, s, one behind the other).
pub fn simulate<S: Sink>(cluster: &Cluster, effects: &[Effect], steps: &[(f64, f64)], sink: &mut S) -> Totals {
    let normals = Normals::new();
    let spreads = Spreads { cpu: normals.spread(0.35), etcd: normals.spread(0.5) };
    let by_stream: Vec<[f32; 256]> = {
        // Few spreads differ.
        let mut known: Vec<(f64, [f32; 256])> = Vec::new();
        let mut of = |noise: f64| match known.iter().find(|own| own.0 == noise) {
            Some(own) => own.1,
            None => {
                known.push((noise, normals.spread(noise)));
                known[known.len() - 1].1
            }
        };
        cluster.streams.iter().map(|stream| of(stream.noise)).collect()
    };
    let count = cluster.instances.len();
    let streams = cluster.streams.len();
    let mut servers: Vec<Server> = (0..count).map(|_| Server::new()).collect();
    let mut store = Store::default();
    let mut totals = Totals::default();
    let (mut times, mut more) = (vec![0.0; streams], vec![0.0; streams]);
    let mut again: Vec<Vec<(u16, u8, u32)>> = vec![Vec::new(); RING];
    let span = steps.last().map_or(0.0, |(t, dt)| t + dt);
    let mut due: Vec<(u16, u8, u32)> = Vec::new();
    for &(t, dt) in steps {
        let place = place(effects, count, t, dt);
        let touched = load(effects, t, dt, &mut times, &mut more);
        due.clear();
        for second in t as usize..(t + dt) as usize {
            due.append(&mut again[second % RING]);
        }
        let day = 1.0 + cluster.day.0 * sin(t / 86_400.0 + cluster.day.1);
        for (server, own) in servers.iter_mut().zip(&place.of) {
            totals.lost += server.begin(t, own.is_up);
        }
        let mut arrive = |servers: &mut [Server], stream: u16, attempt: u8, count: u32, again: &mut [Vec<_>]| {
            place.split(cluster, stream, count, t, |instance, count| {
                totals.arrivals += u64::from(count);
                let item = Item { at: t, dt, stream, attempt, count };
                let rejected = servers[instance].push(cluster, item);
                if rejected > 0 {
                    totals.ends += u64::from(rejected);
                    let at = t + dt * 0.5;
                    let end = End {
                        arrived: at,
                        at: at + 0.001,
                        stream,
                        instance: instance as u8,
                        outcome: Outcome::Throttled,
                        count: rejected,
                        seconds: 0.001,
                        etcd: 0.0,
                        hook: 0.0,
                        wait: 0.0,
                    };
                    sink.end(&end);
                    retry(cluster, &end, attempt, t + dt, again);
                }
            });
        };
        for (stream, attempt, count) in due.drain(..) {
            arrive(&mut servers, stream, attempt, count, &mut again);
        }
        for (place_of_stream, own) in cluster.streams.iter().enumerate() {
            let stream = place_of_stream as u64;
            let mut expected = own.rate * dt * day * form(own.form, t, dt);
            if expected > 0.0 {
                let block =
                    |length: f64| (hash(cluster.seed, stream, (t / length) as u64, length as u64) & 255) as usize;
                let noise = &by_stream[place_of_stream];
                expected *= f64::from(noise[block(15.0)] * noise[block(240.0)]).sqrt();
            }
            let mut n = poisson(expected, hash(cluster.seed, stream, t as u64, 1));
            if touched && (times[place_of_stream] > 0.0 || more[place_of_stream] > 0.0) {
                let further = expected * times[place_of_stream] + more[place_of_stream];
                n += poisson(further, hash(cluster.seed, stream, t as u64, 2));
            }
            if n == 0 {
                continue;
            }
            if let Some(think) = own.think {
                // Who waits for answers asks less while they take long.
                let slow = servers[own.home.map_or(0, usize::from)].slow;
                if slow > 0.0 {
                    let share = think / (think + slow);
                    n = (f64::from(n) * share + unit(hash(cluster.seed, stream, t as u64, 3))) as u32;
                }
            }
            if n > 0 {
                arrive(&mut servers, stream as u16, 0, n, &mut again);
            }
        }
        let hooks = begin(cluster, effects, &mut store, t, dt);
        for (instance, server) in servers.iter_mut().enumerate() {
            if !place.of[instance].is_up {
                sink.server(t, dt, instance as u8, None);
                continue;
            }
            let now = Now { t, dt, hooks, dies: place.of[instance].dies };
            let inflight = server.serve(cluster, &spreads, &now, instance as u8, &mut store, |end, attempt| {
                if end.at >= now.dies && end.arrived < now.dies {
                    totals.lost += u64::from(end.count);
                    return;
                }
                if end.at < span {
                    totals.ends += u64::from(end.count);
                } else {
                    totals.beyond += u64::from(end.count);
                }
                sink.end(&end);
                if end.outcome != Outcome::Ok {
                    retry(cluster, &end, attempt, t + dt, &mut again);
                }
            });
            sink.server(t, dt, instance as u8, Some(inflight));
        }
        sink.store(t, dt, store.write, store.writes, store.is_stalled);
        sink.advance(t + dt);
    }
    totals.waiting = servers.iter().map(Server::waiting).sum();
    totals
}

/// Requests that were rejected or failed come back.
fn retry(cluster: &Cluster, end: &End, attempt: u8, next: f64, again: &mut [Vec<(u16, u8, u32)>]) {
    let own = &cluster.streams[end.stream as usize];
    if own.chronic > 0.0 {
        return;
    }
    let delay = match own.retry {
        Retry::No => return,
        Retry::Polite if attempt >= 5 => return,
        Retry::Polite => {
            let bits = hash(cluster.seed, u64::from(end.stream), end.at.to_bits(), 4);
            f64::from(1u32 << attempt) * (0.75 + unit(bits))
        }
        Retry::Impolite if attempt >= 10 => return,
        Retry::Impolite => 0.2,
    };
    let at = (end.at + delay).max(next).min(next + 200.0);
    again[at as usize % RING].push((end.stream, attempt + 1, end.count));
}

/// How a burst's load lies in time: 1 on average.
fn form(form: Form, t: f64, dt: f64) -> f64 {
    let Form::Burst { period, on, phase } = form else { return 1.0 };
    // Seconds of bursts up to a moment.
    let until = |t: f64| {
        let t = t - phase + period;
        (t / period).floor() * on + (t % period).min(on)
    };
    (until(t + dt) - until(t)) / dt * period / on
}

/// How many times more, and how many more, streams ask for in a step.
fn load(effects: &[Effect], t: f64, dt: f64, times: &mut [f64], more: &mut [f64]) -> bool {
    times.fill(0.0);
    more.fill(0.0);
    let mut touched = false;
    for effect in effects {
        match effect {
            Effect::Times { streams, shape, times: factor } => {
                let part = shape.at(t, dt);
                if part > 0.0 {
                    touched = true;
                    streams.iter().for_each(|stream| times[*stream as usize] += (factor - 1.0) * part);
                }
            }
            Effect::Add { stream, shape, rate } => {
                let part = shape.at(t, dt);
                touched |= part > 0.0;
                more[*stream as usize] += rate * part * dt;
            }
            Effect::Pulse { stream, at, spread, count } if t + dt > *at && t < at + 8.0 * spread => {
                let until = |t: f64| 1.0 - exp(-(t - at).max(0.0) / spread);
                touched = true;
                more[*stream as usize] += count * (until(t + dt) - until(t));
            }
            _ => {}
        }
    }
    touched
}

/// etcd and webhooks in a step.
fn begin(cluster: &Cluster, effects: &[Effect], store: &mut Store, t: f64, dt: f64) -> [(f64, f64); 4] {
    let mut hooks = [(1.0, 0.0); 4];
    let (mut writes, mut reads, mut stall) = (1.0, 1.0, 0.0);
    for effect in effects {
        match effect {
            Effect::Store { shape, times, reads: part } => {
                let now = (times - 1.0) * shape.at(t, dt);
                (writes, reads) = (writes + now, reads + now * part);
            }
            Effect::Stall { from, to } if t + dt > *from && t < *to => stall = to - t,
            Effect::Hook { hook, shape, times, fails } => {
                let now = shape.at(t, dt);
                hooks[*hook as usize] = (1.0 + (times - 1.0) * now, fails * now);
            }
            _ => {}
        }
    }
    // A slow disk also takes fewer writes, not as many times fewer as it takes longer: they share flushes.
    store.is_stalled = stall > 0.0;
    let rate = if stall > 0.0 { 0.0 } else { cluster.etcd_rate / writes.sqrt() };
    // What was asked for in the step before, which may have been longer.
    let taken = rate * store.length;
    store.full += ((store.trips / taken.max(1e-6)).min(1.0) - store.full) * (1.0 - exp(-store.length / 3.0));
    store.backlog = (store.backlog + store.trips - taken).max(0.0);
    store.length = dt;
    if stall <= 0.0 {
        store.full = store.full.min(0.9);
    }
    let stretch = 1.0 / (1.0 - store.full.min(0.9));
    (store.write, store.read) = (cluster.etcd * writes * stretch, cluster.etcd * 0.4 * reads * stretch);
    store.wait = stall + store.backlog / (cluster.etcd_rate / writes.sqrt());
    (store.trips, store.writes) = (0.0, 0.0);
    hooks
}

/// An apiserver in a step.
struct Place {
    is_up: bool,
    /// The part of its callers that has come back.
    returned: f64,
    /// When it dies next, s.
    dies: f64,
    died: f64,
}

struct Places {
    of: Vec<Place>,
    pin: Option<(usize, f64)>,
}

fn place(effects: &[Effect], count: usize, t: f64, dt: f64) -> Places {
    let mut places = Places { of: Vec::new(), pin: None };
    places.of.extend((0..count).map(|_| Place {
        is_up: true,
        returned: 1.0,
        dies: f64::INFINITY,
        died: f64::NEG_INFINITY,
    }));
    for effect in effects {
        match effect {
            Effect::Down { instance, from, to, back } => {
                let own = &mut places.of[*instance as usize];
                if t < *from {
                    own.dies = own.dies.min(*from);
                } else if t < *to {
                    (own.is_up, own.died) = (false, *from);
                } else {
                    own.returned = own.returned.min(((t - to) / back + 0.2).clamp(0.0, 1.0));
                }
            }
            Effect::Pin { instance, shape, share } => {
                let part = shape.at(t, dt);
                if part > 0.0 {
                    places.pin = Some((*instance as usize, share * part));
                }
            }
            _ => {}
        }
    }
    places
}

impl Places {
    /// Which apiservers get requests of a stream.
    fn split(&self, cluster: &Cluster, stream: u16, count: u32, t: f64, mut take: impl FnMut(usize, u32)) {
        let all = self.of.len();
        if all == 1 {
            // Where nobody answers, nothing arrives.
            if self.of[0].is_up {
                take(0, count);
            }
            return;
        }
        let own = &cluster.streams[stream as usize];
        let luck = unit(hash(cluster.seed, u64::from(own.caller), 77, 0));
        if let Some(home) = own.home {
            let mut home = usize::from(home);
            match self.pin {
                Some((pin, share)) if luck < share => home = pin,
                _ => {}
            }
            let place = &self.of[home];
            if !place.is_up && t < place.died + 3.0 {
                return;
            }
            if !place.is_up || luck > place.returned {
                let others: Vec<usize> = (0..all).filter(|at| *at != home && self.of[*at].is_up).collect();
                if others.is_empty() {
                    return;
                }
                home = others[(luck * 1000.0) as usize % others.len()];
            }
            take(home, count);
            return;
        }
        let weight = |at: usize| if self.of[at].is_up { self.of[at].returned } else { 0.0 };
        let sum: f64 = (0..all).map(weight).sum();
        if sum <= 0.0 {
            return;
        }
        let mut left = count;
        let bits = hash(cluster.seed, u64::from(stream), t as u64, 5);
        for at in 0..all {
            let mut share = weight(at) / sum;
            if let Some((pin, part)) = self.pin {
                share = share * (1.0 - part) + if at == pin { part } else { 0.0 };
            }
            let own = f64::from(count) * share + unit(hash(bits, at as u64, 0, 6)) - 0.0;
            let own = (own as u32).min(left);
            if own > 0 {
                take(at, own);
                left -= own;
            }
        }
        if left > 0 {
            let at = (0..all).rev().find(|at| self.of[*at].is_up).unwrap_or(0);
            take(at, left);
        }
    }
}
