//! One priority level of one apiserver, in simulation: its seats, its queues, and who is served next.
//!
//! As in Kubernetes' API Priority and Fairness (KEP-1040): shuffle sharding deals each flow a hand of queues, the
//! shortest of them takes the request; queues are served by fair queuing in virtual time, in which each queue with
//! requests gets the same part of the seats. Every request takes one seat.

use crate::model::flowcontrol::Limit;
use crate::model::time::{Micros, SECOND};
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How long a request may wait: a quarter of the apiserver's `--request-timeout`, which is 60 s unless set.
pub const WAIT_LIMIT: Micros = 15 * SECOND;

/// How long the apiserver takes a request to last before it knows, in seconds.
const GUESS: f64 = 0.003;

/// What became of the requests of one FlowSchema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fate {
    pub requests: u64,
    /// Those that had to wait before they were served or refused.
    pub queued: u64,
    /// Refused, as their queue was full.
    pub queue_full: u64,
    /// Refused, as they had waited too long.
    pub timed_out: u64,
    /// Refused, as there was no seat and the level does not queue.
    pub no_seat: u64,
    /// The longest wait in µs.
    pub max_wait: Micros,
}

impl Fate {
    /// All that were refused.
    pub fn rejected(&self) -> u64 {
        self.queue_full + self.timed_out + self.no_seat
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.queued += other.queued;
        self.queue_full += other.queue_full;
        self.timed_out += other.timed_out;
        self.no_seat += other.no_seat;
        self.max_wait = self.max_wait.max(other.max_wait);
    }

    fn waited(&mut self, wait: Micros) {
        self.queued += u64::from(wait > 0);
        self.max_wait = self.max_wait.max(wait);
    }
}

/// A request that asks for a seat.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// When.
    pub at: Micros,
    /// How long it takes once it is served, in µs.
    pub lasts: Micros,
    /// The number of its FlowSchema.
    pub schema: u16,
    /// What [`flow_hash`] makes of its flow.
    pub flow: u64,
}

/// The number by which a flow is dealt its hand of queues: the first 8 bytes of SHA-256 of FlowSchema, NUL and
/// distinguisher.
pub fn flow_hash(schema: &str, distinguisher: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(schema.as_bytes());
    hash.update([0]);
    hash.update(distinguisher.as_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    number: u64,
    arrival: Arrival,
    /// Virtual time of its arrival.
    r: f64,
}

#[derive(Debug, Clone, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    executing: u32,
    /// Virtual time at which its next request is served.
    next_r: f64,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.executing == 0
    }

    /// A queue does not save up service for times in which it had nothing to do.
    fn bound(&mut self) {
        if let Some(first) = self.waiting.front() {
            self.next_r = self.next_r.max(first.r);
        }
    }
}

/// A request in execution; ordered by its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Execution {
    end: Micros,
    number: u64,
    queue: usize,
    start: Micros,
}

/// A priority level at work.
#[derive(Debug, Clone)]
pub struct Level {
    limit: Limit,
    seats: u32,
    queues: Vec<Queue>,
    /// Requests that are being served.
    executing: u32,
    waiting: usize,
    /// Queues with requests.
    active: u32,
    ends: BinaryHeap<Reverse<Execution>>,
    /// Waiting requests by the time at which they have waited too long; some have been served since.
    deadlines: VecDeque<(Micros, u64, usize)>,
    /// Virtual time in seat-seconds of a queue, and when it was last looked at.
    r: f64,
    now: Micros,
    robin: usize,
    dealt: usize,
    number: u64,
    /// By FlowSchema.
    fates: Vec<Fate>,
}

impl Level {
    /// A level with so many seats, at rest; `schemas` FlowSchemas are distinguished.
    pub fn new(limit: Limit, seats: u32, schemas: usize) -> Self {
        let queues = if let Limit::Queue { queues, .. } = limit { queues as usize } else { 1 };
        Self {
            limit,
            seats,
            queues: vec![Queue::default(); queues],
            executing: 0,
            waiting: 0,
            active: 0,
            ends: BinaryHeap::new(),
            deadlines: VecDeque::new(),
            r: 0.0,
            now: Micros::MIN,
            robin: 0,
            dealt: 0,
            number: 0,
            fates: vec![Fate::default(); schemas],
        }
    }

    /// What became of the requests, by FlowSchema.
    pub fn fates(&self) -> &[Fate] {
        &self.fates
    }

    /// Takes a request; none may arrive before one that was taken already.
    pub fn arrive(&mut self, arrival: Arrival) {
        self.advance(arrival.at);
        self.sync(arrival.at);
        let Some(fate) = self.fates.get_mut(arrival.schema as usize) else { return };
        fate.requests += 1;
        match self.limit {
            Limit::Exempt => {}
            Limit::Reject => {
                // A request that needs more seats than there are is served where nothing else is: so even a level
                // without seats serves one at a time.
                if self.executing >= self.seats.max(1) {
                    fate.no_seat += 1;
                } else {
                    self.serve(0, arrival);
                }
            }
            Limit::Queue { hand_size, queue_length_limit, .. } => {
                let at = self.deal(arrival.flow, hand_size as usize);
                let is_full =
                    self.executing >= self.seats && self.queues[at].waiting.len() >= queue_length_limit as usize;
                if is_full {
                    self.queues[at].bound();
                    self.fates[arrival.schema as usize].queue_full += 1;
                    return;
                }
                self.number += 1;
                let queue = &mut self.queues[at];
                if queue.is_idle() {
                    queue.next_r = self.r;
                    self.active += 1;
                }
                queue.waiting.push_back(Waiting { number: self.number, arrival, r: self.r });
                queue.bound();
                self.waiting += 1;
                self.deadlines.push_back((arrival.at + WAIT_LIMIT, self.number, at));
                self.dispatch();
            }
        }
    }

    /// Lets all that is there come to its end.
    pub fn finish(&mut self) {
        self.advance(Micros::MAX);
    }

    /// Lets time pass up to `until`.
    fn advance(&mut self, until: Micros) {
        loop {
            let end = self.ends.peek().map(|Reverse(execution)| execution.end);
            let deadline = self.deadlines.front().map(|deadline| deadline.0);
            match (end, deadline) {
                (Some(end), deadline) if end <= until && deadline.is_none_or(|deadline| end <= deadline) => self.end(),
                (_, Some(deadline)) if deadline <= until => self.give_up(),
                _ => return,
            }
        }
    }

    /// Brings virtual time up to `at`: it goes as fast as each queue with requests is served.
    fn sync(&mut self, at: Micros) {
        if self.active > 0 && at > self.now {
            let wanted = self.executing as usize + self.waiting;
            let ratio = (wanted as f64).min(f64::from(self.seats)) / f64::from(self.active);
            self.r += ratio * ((at - self.now) as f64 / SECOND as f64);
        }
        self.now = at;
    }

    /// The queue for a request of a flow: of its hand the one in which least waits.
    fn deal(&mut self, flow: u64, hand_size: usize) -> usize {
        let hand = hand(flow, self.queues.len(), hand_size);
        let offset = self.dealt % hand.len().max(1);
        self.dealt += 1;
        let order = hand.iter().cycle().skip(offset).take(hand.len());
        order.copied().min_by_key(|&at| self.queues[at].waiting.len()).unwrap_or(0)
    }

    /// Serves waiting requests as long as there are seats.
    fn dispatch(&mut self) {
        while self.waiting > 0 && self.executing < self.seats {
            let count = self.queues.len();
            // Round robin, so that of several which are due the one that has not been served for longest is.
            let mut next: Option<(f64, usize)> = None;
            for step in 1..=count {
                let at = (self.robin + step) % count;
                let queue = &self.queues[at];
                if !queue.waiting.is_empty() && next.is_none_or(|(least, _)| queue.next_r + GUESS < least) {
                    next = Some((queue.next_r + GUESS, at));
                }
            }
            let Some((_, at)) = next else { return };
            self.robin = at;
            let Some(first) = self.queues[at].waiting.pop_front() else { return };
            self.waiting -= 1;
            self.queues[at].next_r += GUESS;
            self.fates[first.arrival.schema as usize].waited(self.now - first.arrival.at);
            self.serve(at, first.arrival);
            self.queues[at].bound();
        }
        // What has been served waits for nothing.
        if self.waiting == 0 {
            self.deadlines.clear();
        }
    }

    fn serve(&mut self, at: usize, arrival: Arrival) {
        self.number += 1;
        self.executing += 1;
        self.queues[at].executing += 1;
        let end = self.now + arrival.lasts.max(0);
        self.ends.push(Reverse(Execution { end, number: self.number, queue: at, start: self.now }));
    }

    fn end(&mut self) {
        let Some(Reverse(Execution { end: at, queue, start, .. })) = self.ends.pop() else { return };
        self.sync(at);
        self.executing -= 1;
        let is_queued = matches!(self.limit, Limit::Queue { .. });
        let queue = &mut self.queues[queue];
        queue.executing -= 1;
        if is_queued {
            // What it took instead of what it was taken to take.
            queue.next_r -= GUESS - (at - start) as f64 / SECOND as f64;
            queue.bound();
            self.active -= u32::from(queue.is_idle());
            self.dispatch();
        }
    }

    fn give_up(&mut self) {
        let Some((at, number, queue)) = self.deadlines.pop_front() else { return };
        let Some(place) = self.queues[queue].waiting.iter().position(|waiting| waiting.number == number) else {
            return;
        };
        self.sync(at);
        let queue = &mut self.queues[queue];
        if let Some(gone) = queue.waiting.remove(place) {
            self.waiting -= 1;
            let fate = &mut self.fates[gone.arrival.schema as usize];
            fate.timed_out += 1;
            fate.waited(at - gone.arrival.at);
        }
        queue.bound();
        self.active -= u32::from(queue.is_idle());
    }
}

/// The hand of queues that a flow is dealt: digits of its number, in a base that shrinks with each card that is dealt.
fn hand(mut flow: u64, queues: usize, hand_size: usize) -> Vec<usize> {
    let mut cards: Vec<usize> = Vec::with_capacity(hand_size);
    for dealt in 0..hand_size.min(queues) {
        let left = (queues - dealt) as u64;
        cards.push((flow % left) as usize);
        flow /= left;
    }
    // A digit counts the cards that are left: those dealt before are passed over, the last one first.
    let digits = cards.clone();
    for (at, card) in cards.iter_mut().enumerate() {
        for &before in digits[..at].iter().rev() {
            *card += usize::from(*card >= before);
        }
    }
    cards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queueing(queues: u32, hand_size: u32, queue_length_limit: u32) -> Limit {
        Limit::Queue { queues, hand_size, queue_length_limit }
    }

    fn run(limit: Limit, seats: u32, arrivals: &[(Micros, Micros, u64)]) -> Fate {
        let mut level = Level::new(limit, seats, 1);
        for &(at, lasts, flow) in arrivals {
            level.arrive(Arrival { at, lasts, schema: 0, flow });
        }
        level.finish();
        level.fates()[0]
    }

    #[test]
    fn a_hand_has_different_queues() {
        for flow in 0..2000u64 {
            let mut cards = hand(flow.wrapping_mul(0x9e37_79b9_7f4a_7c15), 32, 6);
            assert_eq!(cards.len(), 6);
            cards.sort_unstable();
            cards.dedup();
            assert!(cards.len() == 6 && cards.iter().all(|&card| card < 32), "{cards:?}");
        }
        // By hand: 7 = 3 + 4·1, 1 = 1 + 3·0, 0: the digits 3, 1, 0 of four, three, two queues.
        assert_eq!(hand(7, 4, 3), [3, 1, 0]);
        // 0, 0, 0: each is the first of those that are left.
        assert_eq!(hand(0, 4, 3), [0, 1, 2]);
    }

    #[test]
    fn a_level_that_rejects_serves_as_many_as_it_has_seats() {
        let burst: Vec<_> = (0..10).map(|at| (at, 1000, 0)).collect();
        let fate = run(Limit::Reject, 3, &burst);
        assert_eq!((fate.requests, fate.no_seat, fate.queued), (10, 7, 0));
        // One at a time even without seats; one that comes when another ends is served.
        let fate = run(Limit::Reject, 0, &[(0, 10, 0), (5, 10, 0), (10, 10, 0)]);
        assert_eq!((fate.requests, fate.no_seat), (3, 1));
        assert_eq!(run(Limit::Exempt, 0, &burst).rejected(), 0);
    }

    #[test]
    fn queues_wait_their_turn_fill_and_run_out_of_time() {
        // One seat, one queue of two: served, two wait, the fourth is one too many.
        let fate = run(queueing(1, 1, 2), 1, &[(0, 100, 0), (1, 100, 0), (2, 100, 0), (3, 100, 0)]);
        assert_eq!((fate.queued, fate.queue_full, fate.timed_out, fate.max_wait), (2, 1, 0, 198));
        // The first takes longer than the second may wait.
        let fate = run(queueing(1, 1, 2), 1, &[(0, 20 * SECOND, 0), (1, 1, 0)]);
        assert_eq!((fate.queued, fate.timed_out, fate.max_wait), (1, 1, WAIT_LIMIT));
        // Without seats nothing is ever served.
        let fate = run(queueing(1, 1, 2), 0, &[(0, 1, 0), (1, 1, 0), (2, 1, 0)]);
        assert_eq!((fate.timed_out, fate.queue_full), (2, 1));
    }

    #[test]
    fn a_flow_that_floods_does_not_hold_up_another() {
        // Flow 0 has queue 0, flow 1 has queue 1; flow 0 sends 50 requests of 10 ms at once, flow 1 one.
        let mut level = Level::new(queueing(2, 1, 100), 1, 2);
        for _ in 0..50 {
            level.arrive(Arrival { at: 0, lasts: 10_000, schema: 0, flow: 0 });
        }
        level.arrive(Arrival { at: 1, lasts: 10_000, schema: 1, flow: 1 });
        level.finish();
        assert_eq!(level.fates()[0].max_wait, 500_000);
        assert!(level.fates()[1].max_wait < 20_000, "{:?}", level.fates()[1]);
    }
}
