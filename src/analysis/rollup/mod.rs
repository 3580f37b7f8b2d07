//! The roll-up: everything that is kept of an audit log (docs/rollup.md).
//!
//! Threads turn blocks of lines into [`Batch`]es of observations ([`Observer`]). A [`Part`] takes the
//! batches of each stream in order, brings the events of all streams into one order of time, and counts
//! them into its tables; [`Part::finish`] gives them. Parts of one log become one when they are loaded ([`stored`]).

mod clients;
mod deprecated;
mod edge_writes;
mod extra;
mod extra_rows;
mod extras;
mod extras_stored;
mod failures;
pub mod folds;
mod keys;
mod leases;
pub(in crate::analysis) mod notable;
mod objects;
mod observe;
mod operations;
pub mod read;
mod routes;
mod rows;
mod seams;
mod sequences;
mod shared;
mod spent;
pub(in crate::analysis) mod steps;
pub mod stored;
mod tables;
mod tiles;
mod wanted;
mod within;
mod writers;

pub use extras_stored::{AlternationRow, WritesRow};
pub use failures::FailureRow;
pub(in crate::analysis) use observe::response_size;
pub use observe::{Batch, Observer, Timeout};
pub(in crate::analysis) use routes::Routes;
pub use rows::{Fact, RETRY_AFTER};
pub(in crate::analysis) use spent::spent;
pub use tables::Rollup;
pub use tiles::tile_for;

use crate::analysis::pending::{Pending, Start, Started};
use crate::analysis::repeated::IdSample;
use crate::model::event::LATE_BY;
use crate::model::symbols::{Symbol, Symbols};
use crate::model::time::{Micros, SECOND, together};
use clients::Clients;
use deprecated::Deprecated;
use extra_rows::Failures;
use extras::{Extras, Seen};
pub use keys::Op;
use keys::{FailureKey, Keys};
use notable::Notable;
use objects::Objects;
use observe::Observation;
use rows::{Gaps, Pulse, Sources, Traffic};
use seams::Seams;
use sequences::{Request, Sequences};
use std::cmp::Ordering;
use steps::{Long, Steps};
use tiles::{PULSE_DELAY, Progress, Row, Scale, Tiles};
use writers::Writers;

/// Notable events kept.
const MAX_NOTABLE: usize = 50_000;

/// The roll-up of an input, or of a part of one.
#[derive(Debug)]
pub struct Part {
    keys: Keys,
    streams: Vec<StreamState>,
    /// Where observations that wait for their turn stand in `blocks`.
    waiting: Vec<Place>,
    /// Blocks with observations that wait; places of those that are done with are used again.
    blocks: Vec<Block>,
    released: Micros,
    span: Option<(Micros, Micros)>,
    pending: Pending<Open>,
    /// What is kept of its ends, if it is.
    seams: Option<Seams>,
    /// Tables beside requests and clients, if they are made.
    extras: Option<Box<Extras>>,
    /// What its windows are derived from, if it is to be held.
    steps: Option<Steps>,
    sequences: Sequences,
    traffic: Tiles<Traffic>,
    pulse: Tiles<Pulse>,
    facts: Tiles<Gaps>,
    sources: Tiles<Sources>,
    failures: Tiles<Failures>,
    objects: Objects,
    writers: Writers,
    notable: Vec<Notable>,
    notable_dropped: u64,
    clients: Clients,
    deprecated: Deprecated,
    ids: IdSample,
    late: u64,
    last_closed: Micros,
}

/// First events of a stream that show when it begins: not all of them are late.
const BEGINNING: u32 = 64;

#[derive(Debug, Clone, Copy)]
struct StreamState {
    /// Up to when its first events reach: what came before is of the part before, even if a late event stands there.
    began: Micros,
    /// How many of these there were.
    beginning: u32,
    newest: Micros,
    done: bool,
}

/// Where an observation stands. It is large, so it stays where it is, and places are put in order.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: Micros,
    block: u32,
    index: u32,
}

/// A block of observations, and how its numbers are numbered in the part.
#[derive(Debug, Default)]
struct Block {
    observations: Vec<Observation>,
    names: Symbols,
    /// By number of a traffic key.
    keys: Vec<u32>,
    /// By number of a symbol.
    symbols: Vec<Symbol>,
    /// The stream that it is of.
    stream: usize,
    /// Observations that still wait.
    left: usize,
}

/// A started event that waits for its end, or an end that waits for its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    at: Micros,
    received: Micros,
    key: u32,
    late: bool,
    error: bool,
}

impl Part {
    /// An empty roll-up of so many streams.
    pub fn new(streams: usize) -> Self {
        Self {
            keys: Keys::default(),
            streams: vec![StreamState { began: Micros::MIN, beginning: 0, newest: Micros::MIN, done: false }; streams],
            waiting: Vec::new(),
            blocks: Vec::new(),
            released: Micros::MIN,
            span: None,
            pending: Pending::default(),
            seams: None,
            extras: None,
            steps: None,
            sequences: Sequences::default(),
            traffic: Tiles::new(Scale::TRAFFIC),
            pulse: Tiles::new(Scale::PULSE),
            facts: Tiles::new(Scale::SUBJECTS),
            sources: Tiles::new(Scale::SUBJECTS),
            failures: Tiles::new(Scale::SUBJECTS),
            objects: Objects::default(),
            writers: Writers::default(),
            notable: Vec::new(),
            notable_dropped: 0,
            clients: Clients::default(),
            deprecated: Deprecated::default(),
            ids: IdSample::default(),
            late: 0,
            last_closed: Micros::MIN,
        }
    }

    /// Makes all tables, and keeps what it takes to go on from its end, or to be gone on to from another's; the
    /// observers are to be [whole](Observer::whole).
    pub fn with_seams(mut self) -> Self {
        self.extras = Some(Box::default());
        self.seams = Some(Seams::default());
        self.sequences = Sequences::with_firsts();
        self.objects = Objects::with_edges();
        self.writers = Writers::with_edges();
        self
    }

    /// Makes the table of load, too, which is not folded.
    pub fn with_load(mut self) -> Self {
        self.extras = Some(Box::default());
        self
    }

    /// Folds tiles to so many rows, so that tests see it in a small log.
    #[doc(hidden)]
    pub fn fold_to(mut self, rows: usize) -> Self {
        self.traffic.fold_to(rows);
        self.pulse.fold_to(rows);
        self.facts.fold_to(rows);
        self.sources.fold_to(rows);
        self.failures.fold_to(rows);
        if let Some(extras) = &mut self.extras {
            extras.fold_to(rows);
        }
        self
    }

    /// Makes all tables, and keeps what it takes to report windows of it; the observers are to be
    /// [whole](Observer::whole).
    pub fn with_steps(mut self) -> Self {
        self.extras = Some(Box::default());
        self.steps = Some(Steps::default());
        self
    }

    /// Takes a block, in the order of its stream.
    pub fn take(&mut self, stream: usize, batch: Batch) {
        let Batch { keys, names, observations, callers, left_out } = batch;
        self.span = together(self.span, left_out);
        let to = self.keys.renumber(&keys);
        for seen in &callers {
            self.clients.take(seen, to.traffic[seen.key as usize], &mut self.keys);
        }
        let mut block = Block { observations, names, keys: to.traffic, symbols: to.symbols, stream, left: 0 };
        let mut newest = self.streams[stream].newest;
        let mut wait = Vec::with_capacity(block.observations.len());
        for index in 0..block.observations.len() {
            let at = block.observations[index].at;
            self.span = together(self.span, Some((at, at)));
            let late = newest != Micros::MIN && at < newest - LATE_BY;
            newest = newest.max(at);
            let own = &mut self.streams[stream];
            if own.beginning < BEGINNING {
                (own.began, own.beginning) = (own.began.max(at), own.beginning + 1);
            }
            if let Some(steps) = &mut self.steps {
                steps.event(at, late);
            }
            if late {
                self.late += 1;
                self.count(&mut block, index, true);
            } else {
                wait.push(index);
            }
        }
        self.wait(block, wait);
        self.streams[stream].newest = newest;
        self.release();
    }

    /// Lets observations of a block wait for their turn.
    fn wait(&mut self, mut block: Block, which: Vec<usize>) {
        if which.is_empty() {
            return;
        }
        block.left = which.len();
        let free = self.blocks.iter().position(|block| block.left == 0).unwrap_or(self.blocks.len());
        let place = |index: usize| Place { at: block.observations[index].at, block: free as u32, index: index as u32 };
        self.waiting.extend(which.into_iter().map(place));
        match self.blocks.get_mut(free) {
            Some(place) => *place = block,
            None => self.blocks.push(block),
        }
    }

    /// Says that a stream has no more blocks.
    pub fn end(&mut self, stream: usize) {
        self.streams[stream].done = true;
        self.release();
    }

    /// Counts what no earlier event can precede any more.
    fn release(&mut self) {
        let open = self.streams.iter().filter(|stream| !stream.done);
        let Some(bound) =
            open.map(|stream| stream.newest.saturating_sub(LATE_BY)).min().filter(|bound| *bound > self.released)
        else {
            return;
        };
        self.count_waiting(bound);
        self.released = bound;
        let newest = self.streams.iter().map(|stream| stream.newest).max().unwrap_or(Micros::MIN);
        if bound.min(newest.saturating_sub(LATE_BY)) > self.last_closed.saturating_add(SECOND) {
            self.close(bound.min(newest.saturating_sub(LATE_BY)));
        }
    }

    /// Counts the pending events before `bound`, in the order of time.
    fn count_waiting(&mut self, bound: Micros) {
        let mut blocks = std::mem::take(&mut self.blocks);
        let (mut ready, wait): (Vec<Place>, Vec<Place>) = self.waiting.iter().partition(|place| place.at < bound);
        self.waiting = wait;
        let observation = |place: &Place| &blocks[place.block as usize].observations[place.index as usize];
        ready.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| in_order(observation(a), observation(b))));
        for place in ready {
            let block = &mut blocks[place.block as usize];
            self.count(block, place.index as usize, false);
            block.left -= 1;
            if block.left == 0 {
                *block = Block::default();
            }
        }
        self.blocks = blocks;
    }

    fn close(&mut self, released: Micros) {
        self.last_closed = released;
        let span = self.span.map_or(0, |(first, last)| last - first);
        let progress = Progress { released, span };
        self.traffic.close(progress, &self.keys);
        self.pulse.close(progress, &self.keys);
        self.facts.close(progress, &self.keys);
        self.sources.close(progress, &self.keys);
        self.failures.close(progress, &self.keys);
        self.objects.close(progress, &self.keys);
        self.writers.close(released, self.span.map(|(first, _)| first), &self.keys);
        if let Some(extras) = &mut self.extras {
            extras.close(progress, &self.keys);
        }
        for start in self.pending.expired() {
            self.remains(start);
        }
    }

    /// Counts an event, and makes its facts unless it is late.
    fn count(&mut self, block: &mut Block, index: usize, late: bool) {
        let observation = &mut block.observations[index];
        let key = block.keys[observation.key as usize];
        if !late {
            self.facts_of(observation, key);
        }
        let source = block.symbols[observation.source as usize];
        let key_data = *self.keys.traffic.get(key);
        let at = observation.at;
        let received = observation.received.unwrap_or(at);
        let error = observation.error;
        let complete = observation.terminal || observation.identity.is_none();
        let mut more = observation.more.take();
        if let Some(identity) = observation.identity {
            let open = Open { at, received, key, late, error };
            if observation.terminal {
                let start = self.pending.end(identity, at);
                if let Some((steps, start)) = self.steps.as_mut().zip(start) {
                    let Start { at: from, failed, what: Open { received, key, .. }, .. } = start;
                    steps.ended(Long { start: from, end: at, received, key, failed });
                }
                if start.is_none() {
                    self.arrived(open);
                    if let Some(seams) = &mut self.seams
                        && received < self.streams[block.stream].began
                    {
                        seams.ended.push((identity, open));
                    }
                }
            } else {
                let failed = key_data.code.is_some_and(|code| code >= 400);
                match self.pending.start(identity, Start { at, failed, what: open, times: 1 }) {
                    Started::Waits => self.arrived(open),
                    Started::Ended => {}
                    Started::NoRoom(start) => {
                        self.arrived(open);
                        self.remains(start);
                    }
                }
            }
        } else {
            self.arrived(Open { at, received, key, late, error });
        }
        let elapsed = observation.received.map(|received| (at - received).max(0) as u64);
        let is_watch_start = !complete && self.keys.class(key).1 == Op::Watch;
        if let Some(steps) = self.steps.as_mut().filter(|_| complete) {
            steps.arrived(at, received, key);
        }
        if complete {
            self.ended(Open { at, received, key, late, error });
            self.ids.add(observation.id);
            self.sources.row(at, late, u64::from(key_data.subject), &self.keys).add(source, &self.keys);
        }
        if let Some(extras) = &mut self.extras {
            let seen = Seen { at, late, key };
            if complete || (is_watch_start && elapsed.is_some()) {
                let load = extras.load(&seen, &mut self.keys);
                load.requests += u64::from(complete);
                load.ended += u64::from(observation.terminal);
                if let Some(elapsed) = elapsed.filter(|_| observation.identity.is_none() || !complete) {
                    load.latency.add(elapsed);
                }
            }
            if let Some(extra) = more.as_mut().and_then(|more| more.extra.take()) {
                extras.count(&seen, *extra, block.names.get(Symbol(observation.name)), &mut self.keys);
            }
        }
        if complete || (is_watch_start && elapsed.is_some()) {
            let row = self.traffic.row(at, late, u64::from(key), &self.keys);
            row.requests += u64::from(complete);
            if let Some(elapsed) = elapsed {
                match (observation.identity.is_some(), complete) {
                    (true, true) => row.more().lifetime.add(elapsed),
                    _ => row.latency.add(elapsed),
                }
            }
            if let Some(more) = more.as_deref().filter(|_| complete) {
                let into = row.more();
                if let Some((bytes, items)) = more.body {
                    into.bodies[0] += 1;
                    into.bodies[1] += bytes;
                    into.bodies[2] += items;
                }
                for (sum, spent) in into.spent.iter_mut().zip(more.spent) {
                    *sum += spent;
                }
                if let Some(timeout) = more.timeout {
                    into.timeouts[timeout as usize] += 1;
                }
            }
        }
        if let Some(mut more) = more {
            if let Some(names) = more.deprecated.take() {
                self.deprecated.count(at, key, &self.keys, *names);
            }
            if let Some(failure) = more.failure.take() {
                let (fault, name) = *failure;
                let (instance, name) = (key_data.instance, self.keys.intern(&name));
                let key = FailureKey { subject: key_data.subject, instance, fault: Some(fault), name };
                let number = u64::from(self.keys.failures.number(key));
                let one = Failures { count: 1, span: Some((at, at)) };
                self.failures.row(at, late, number, &self.keys).merge(one, &self.keys);
            }
            if let Some(notable) = more.notable {
                if self.notable.len() < MAX_NOTABLE { self.notable.push(notable) } else { self.notable_dropped += 1 }
            }
        }
        if late {
            return;
        }
        if observation.terminal && observation.name != 0 {
            let name = block.names.get(Symbol(observation.name));
            if observation.object != 0 {
                self.writers.take(at, observation.object, key, name, &self.keys);
            }
            let object = self.objects.at(at, key_data.subject, key_data.namespace, name);
            match self.keys.class(key).1 {
                Op::Get | Op::List | Op::Watch => object.reads += 1,
                _ => {
                    object.writes += 1;
                    object.lease |=
                        self.keys.symbols.get(self.keys.subjects.get(key_data.subject).resource) == "leases";
                }
            }
            // Of a create it says that the object is there already.
            object.conflicts +=
                u64::from(key_data.code == Some(409) && self.keys.symbols.get(key_data.verb) != "create");
            object.span = together(object.span, Some((at, at)));
        }
    }

    fn facts_of(&mut self, observation: &Observation, key: u32) {
        let request = request(observation, &self.keys, key);
        let subject = self.keys.traffic.get(key).subject;
        let (facts, keys) = (&mut self.facts, &self.keys);
        self.sequences
            .take(&request, subject, |fact, gap| facts.row(request.at, false, fact.key(subject), keys).0.add(gap));
    }

    /// A request arrived.
    fn arrived(&mut self, open: Open) {
        let pulse = u64::from(self.keys.class(open.key).0);
        let late = open.late || open.at - open.received > PULSE_DELAY;
        self.pulse.row(open.received, late, pulse, &self.keys).starts += 1;
    }

    /// A request ended.
    fn ended(&mut self, open: Open) {
        let code = self.keys.traffic.get(open.key).code;
        let pulse = u64::from(self.keys.class(open.key).0);
        let row = self.pulse.row(open.at, open.late, pulse, &self.keys);
        row.ends += 1;
        row.errors += u32::from(open.error);
        row.throttled += u32::from(code == Some(429));
    }

    /// A start that no end belongs to: open, or failed and complete.
    fn remains(&mut self, start: Start<Open>) {
        let open = start.what;
        for _ in 0..start.times {
            if let Some(extras) = &mut self.extras {
                let load = extras.load(&Seen { at: open.at, late: true, key: open.key }, &mut self.keys);
                load.requests += 1;
                load.open += u64::from(!start.failed);
            }
            if let Some(steps) = &mut self.steps {
                steps.arrived(open.at, open.received, open.key);
            }
            let row = self.traffic.row(open.at, true, u64::from(open.key), &self.keys);
            row.requests += 1;
            if start.failed {
                self.ended(Open { late: true, ..open });
            } else {
                row.open += 1;
            }
        }
    }

    /// The tables.
    pub fn finish(mut self) -> Rollup {
        self.count_waiting(Micros::MAX);
        let still_open = self.pending.drain().collect::<Vec<_>>();
        let open = still_open.iter().filter(|(_, start)| !start.failed).count() as u64;
        still_open.iter().for_each(|(_, start)| self.remains(*start));
        if let Some(seams) = &mut self.seams {
            seams.started.extend(still_open);
        }
        tables::finish(self, open)
    }
}

/// The order of time; started before terminal.
fn in_order(a: &Observation, b: &Observation) -> Ordering {
    a.at.cmp(&b.at).then_with(|| {
        let rest = |o: &Observation| (o.received.unwrap_or(o.at), o.tie, o.terminal);
        rest(a).cmp(&rest(b))
    })
}

/// The request as facts need it.
fn request(observation: &Observation, keys: &Keys, key: u32) -> Request {
    let received = observation.received.unwrap_or(observation.at);
    let lifetime = observation.received.map(|received| (observation.at - received).max(0) as u64);
    let is_watch = observation.identity.is_some() && keys.class(key).1 == Op::Watch;
    Request {
        at: observation.at,
        received,
        request: observation.request,
        turn: observation.turn,
        holds: observation.holds,
        written: observation.more.as_ref().and_then(|more| more.written),
        complete: observation.terminal || observation.identity.is_none(),
        code: keys.traffic.get(key).code,
        lists: observation.lists,
        rereads: observation.rereads,
        watch_end: (observation.terminal && is_watch).then_some((lifetime, observation.from_version)),
    }
}
