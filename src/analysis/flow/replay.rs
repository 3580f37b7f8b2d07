//! The requests of a log once more, in the order in which they arrived: how many of them would have been queued or
//! refused with other FlowSchemas and priority levels than those in force. What this leaves out: docs/flowcontrol.md.

use super::classify::{Classifier, Sets};
use super::matching::{Set, caller};
use super::queues::{Arrival, Fate, Level, flow_hash};
use crate::analysis::dims::folded;
use crate::model::event::{Event, SPENT, Stage, Timed};
use crate::model::flowcontrol::{Distinguisher, FlowSchema, Limit};
use crate::model::histogram::Histogram;
use crate::model::json::text_of;
use crate::model::time::{Micros, SECOND};
use crate::model::units::parse_duration;
use crate::model::walk::member;
use hashbrown::HashMap;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use xxhash_rust::xxh3::xxh3_64;

/// How far an event may stand behind one that ended before it arrived: requests end after 60 s, and the log is not
/// quite in order.
const REORDER: Micros = 65 * SECOND;

/// Requests held to bring them into order; beyond, the oldest are taken as they are.
const MAX_HELD: usize = 4 << 20;

/// Kinds of requests whose durations a thread keeps.
const MAX_KINDS: usize = 1 << 16;

/// Flows whose hash a thread remembers.
const MAX_FLOWS: usize = 1 << 16;

/// What is taken for the duration of a request about which nothing is known: 5 ms.
const UNKNOWN: Micros = 5000;

/// How long requests last without what they wait, as one thread meets them.
#[derive(Debug, Default)]
pub struct Durations {
    by: HashMap<u64, Histogram>,
}

impl Durations {
    /// Takes an event.
    pub fn event(&mut self, event: &Timed<'_, '_>) {
        let e = event.event;
        let counts = if e.verb.is("watch") { event.stage == Stage::ResponseStarted } else { event.stage.is_terminal() };
        let Some(elapsed) = event.elapsed().filter(|_| counts && e.code != Some(429)) else { return };
        let lasts = (elapsed as Micros - queue_wait(e, elapsed)).max(0) as u64;
        for key in keys_of(e) {
            if self.by.len() < MAX_KINDS || self.by.contains_key(&key) {
                self.by.entry(key).or_default().add(lasts);
            }
        }
    }

    /// The medians of what all threads met.
    pub fn medians(all: impl Iterator<Item = Self>) -> Medians {
        let mut by: HashMap<u64, Histogram> = HashMap::new();
        for (key, lasts) in all.flat_map(|one| one.by) {
            by.entry(key).or_default().merge(&lasts);
        }
        Medians { by: by.into_iter().filter_map(|(key, lasts)| Some((key, lasts.quantile(0.5)? as Micros))).collect() }
    }
}

/// How long requests usually last, for those that were refused and so took no time.
#[derive(Debug, Default)]
pub struct Medians {
    /// By user, verb, group, resource; by verb, group, resource; by verb. In µs.
    by: HashMap<u64, Micros>,
}

impl Medians {
    fn of(&self, event: &Event<'_>) -> Micros {
        keys_of(event).iter().find_map(|key| self.by.get(key)).copied().unwrap_or(UNKNOWN)
    }
}

/// From the narrowest kind to the widest.
fn keys_of(event: &Event<'_>) -> [u64; 3] {
    let user = event.user.decode();
    keys(folded(&user), &event.verb.decode(), &event.group.decode(), &event.resource.decode())
}

fn keys(user: &str, verb: &str, group: &str, resource: &str) -> [u64; 3] {
    let key = |parts: &[&str]| xxh3_64(parts.join("\u{0}").as_bytes());
    [key(&[user, verb, group, resource]), key(&[verb, group, resource]), key(&[verb])]
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    at: Micros,
    /// The first bytes of its audit id: of two that arrived in the same microsecond one must be first.
    id: [u8; 8],
    lasts: Micros,
    now: (u16, u64),
    then: (u16, u64),
    was_refused: bool,
}

/// What a block gave.
#[derive(Debug, Default)]
pub struct Batch {
    instances: Vec<String>,
    requests: Vec<(u16, Request)>,
    /// Watches whose start the log does not show.
    unseen: u64,
    last: Option<Micros>,
}

/// What is replayed: the sets in force and proposed, of one cluster.
#[derive(Debug)]
pub struct Plan {
    now: Sets,
    then: Sets,
    cluster: String,
    medians: Medians,
    /// Whether the log holds starts of watches.
    has_starts: bool,
}

impl Plan {
    /// A plan for the requests of one cluster.
    pub fn new(now: Set, then: Set, cluster: String, medians: Medians, has_starts: bool) -> Self {
        Self { now: Sets::new(vec![(None, now)]), then: Sets::new(vec![(None, then)]), cluster, medians, has_starts }
    }

    fn sets(&self) -> Option<(&Set, &Set)> {
        Some((self.now.of("")?.0, self.then.of("")?.0))
    }

    /// A worker for one thread.
    pub fn observer(&self) -> Observer<'_> {
        Observer {
            plan: self,
            now: self.now.classifier(),
            then: self.then.classifier(),
            flows: HashMap::new(),
            batch: Batch::default(),
        }
    }
}

/// Makes requests of events.
#[derive(Debug)]
pub struct Observer<'p> {
    plan: &'p Plan,
    now: Classifier<'p>,
    then: Classifier<'p>,
    flows: HashMap<(u64, u64), u64>,
    batch: Batch,
}

impl Observer<'_> {
    /// Takes an event.
    pub fn event(&mut self, event: Timed<'_, '_>) {
        let e = event.event;
        if event.cluster() != self.plan.cluster {
            return;
        }
        self.batch.last = self.batch.last.max(Some(event.at));
        let is_watch = e.verb.is("watch");
        let counts = match is_watch {
            // Of a watch, only the time until it runs needs a seat.
            true => event.stage == Stage::ResponseStarted,
            false => event.stage.is_terminal(),
        };
        if !counts {
            self.batch.unseen += u64::from(is_watch && !self.plan.has_starts);
            return;
        }
        let (now, then) = (self.now.flow(&event), self.then.flow(&event));
        let (Some(received), Some(elapsed)) = (event.received, event.elapsed()) else { return };
        if now.number == 0 || then.number == 0 {
            return;
        }
        // What API Priority and Fairness refuses has no message; other 429s (an eviction, a cache that begins again)
        // have.
        let was_refused = e.code == Some(429) && e.message.is_empty();
        let lasts = if was_refused { self.plan.medians.of(e) } else { elapsed as Micros - queue_wait(e, elapsed) };
        let Some((now_set, then_set)) = self.plan.sets() else { return };
        let request = Request {
            at: received,
            id: std::array::from_fn(|at| e.audit_id.raw().get(at).copied().unwrap_or(0)),
            lasts: lasts.max(0),
            now: self.flow(now_set, now.number - 1, e),
            then: self.flow(then_set, then.number - 1, e),
            was_refused,
        };
        let instance = event.instance();
        let at = self.batch.instances.iter().position(|name| name == instance).unwrap_or_else(|| {
            self.batch.instances.push(instance.to_owned());
            self.batch.instances.len() - 1
        });
        self.batch.requests.push((at as u16, request));
    }

    /// Ends a block.
    pub fn flush(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    /// The schema's number and the flow's hash.
    fn flow(&mut self, set: &Set, schema: u32, event: &Event<'_>) -> (u16, u64) {
        let number = schema as u16;
        let Some(schema) = set.schemas.get(schema as usize) else { return (number, 0) };
        let queues = set.level(&schema.level).is_some_and(|level| matches!(level.limit, Limit::Queue { .. }));
        if !queues {
            return (number, 0);
        }
        let distinguisher = match schema.distinguisher {
            None => Cow::Borrowed(""),
            Some(Distinguisher::User) => caller(event).user,
            Some(Distinguisher::Namespace) => event.namespace.decode(),
        };
        let key = (xxh3_64(schema.name.as_bytes()), xxh3_64(distinguisher.as_bytes()));
        if self.flows.len() > MAX_FLOWS {
            self.flows.clear();
        }
        (number, *self.flows.entry(key).or_insert_with(|| flow_hash(&schema.name, &distinguisher)))
    }
}

/// How long the request waited in a queue, as far as the log shows: it does of requests that took more than 500 ms.
fn queue_wait(event: &Event<'_>, elapsed: u64) -> Micros {
    if elapsed < 500_000 || event.annotations.is_empty() {
        return 0;
    }
    let [.., queue] = SPENT;
    let value = member(event.annotations, queue).and_then(text_of);
    value.and_then(|text| parse_duration(&text.decode())).unwrap_or(0)
}

/// A way in which the requests are served.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Whether with the sets that are proposed, or those in force.
    pub proposed: bool,
    /// Seats of each level of the set, on each apiserver.
    pub seats: Vec<u32>,
}

/// One apiserver.
#[derive(Debug)]
struct Instance {
    held: BinaryHeap<Reverse<Request>>,
    /// The latest event, and the latest arrival that was served.
    reached: Micros,
    served: Micros,
    /// By scenario: its levels.
    levels: Vec<Vec<Level>>,
}

/// Serves the requests of all apiservers, scenario by scenario.
#[derive(Debug)]
pub struct Replay<'p> {
    plan: &'p Plan,
    scenarios: Vec<Scenario>,
    instances: BTreeMap<String, Instance>,
    /// By FlowSchema in force: requests that the log shows to be refused.
    refused: Vec<u64>,
    late: u64,
    unseen: u64,
    /// By scenario and FlowSchema: its level in the list of levels.
    level_of: Vec<Vec<Option<usize>>>,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// By scenario and FlowSchema of its set.
    pub fates: Vec<Vec<Fate>>,
    /// By FlowSchema in force: requests that were refused when the log was written.
    pub refused: Vec<u64>,
    /// Requests too far out of order.
    pub late: u64,
    /// Watches whose start is not in the log.
    pub unseen: u64,
    /// Apiservers.
    pub instances: u64,
}

impl Replayed {
    /// Whether any request of the log would match this schema of the proposed set.
    pub fn has_requests(&self, then: &Set, schema: &FlowSchema) -> bool {
        let place = then.schemas.iter().position(|own| own.name == schema.name);
        let fate = place.and_then(|place| self.fates.get(1)?.get(place));
        fate.is_some_and(|fate| fate.requests > 0)
    }
}

impl<'p> Replay<'p> {
    /// Nothing served yet.
    pub fn new(plan: &'p Plan, scenarios: Vec<Scenario>) -> Self {
        let sets = plan.sets();
        let set = |scenario: &Scenario| sets.map(|(now, then)| if scenario.proposed { then } else { now });
        let level_of =
            |set: &Set| set.schemas.iter().map(|s| set.levels.iter().position(|level| level.name == s.level)).collect();
        let levels = scenarios.iter().map(|scenario| set(scenario).map(level_of).unwrap_or_default()).collect();
        let refused = vec![0; sets.map_or(0, |(now, _)| now.schemas.len())];
        Self { plan, scenarios, instances: BTreeMap::new(), refused, late: 0, unseen: 0, level_of: levels }
    }

    /// Takes a block, in the order of its stream.
    pub fn take(&mut self, batch: Batch) {
        self.unseen += batch.unseen;
        for (at, request) in batch.requests {
            self.refused[request.now.0 as usize] += u64::from(request.was_refused);
            let name = &batch.instances[at as usize];
            if !self.instances.contains_key(name) {
                let instance = self.instance();
                self.instances.insert(name.clone(), instance);
            }
            let Some(instance) = self.instances.get_mut(name) else { continue };
            if request.at < instance.served {
                self.late += 1;
                continue;
            }
            instance.held.push(Reverse(request));
        }
        let Some(last) = batch.last else { return };
        for name in &batch.instances {
            if let Some(instance) = self.instances.get_mut(name) {
                instance.reached = instance.reached.max(last);
                let until = instance.reached - REORDER;
                instance.serve(until, &self.level_of, &self.scenarios);
            }
        }
    }

    fn instance(&self) -> Instance {
        let sets = self.plan.sets();
        let levels = self.scenarios.iter().map(|scenario| {
            let Some((now, then)) = sets else { return Vec::new() };
            let set = if scenario.proposed { then } else { now };
            let seats = |at: usize| scenario.seats.get(at).copied().unwrap_or(0);
            set.levels
                .iter()
                .enumerate()
                .map(|(at, level)| Level::new(level.limit, seats(at), set.schemas.len()))
                .collect()
        });
        Instance {
            held: BinaryHeap::new(),
            reached: Micros::MIN / 2,
            served: Micros::MIN / 2,
            levels: levels.collect(),
        }
    }

    /// All that came of it.
    pub fn finish(mut self) -> Replayed {
        let mut fates: Vec<Vec<Fate>> =
            self.level_of.iter().map(|schemas| vec![Fate::default(); schemas.len()]).collect();
        for instance in self.instances.values_mut() {
            instance.serve(Micros::MAX, &self.level_of, &self.scenarios);
            for (fates, levels) in fates.iter_mut().zip(&mut instance.levels) {
                for level in levels {
                    level.finish();
                    fates.iter_mut().zip(level.fates()).for_each(|(all, one)| all.merge(one));
                }
            }
        }
        let instances = self.instances.len() as u64;
        Replayed { fates, refused: self.refused, late: self.late, unseen: self.unseen, instances }
    }
}

impl Instance {
    /// Serves what arrived up to `until`.
    fn serve(&mut self, until: Micros, level_of: &[Vec<Option<usize>>], scenarios: &[Scenario]) {
        while let Some(&Reverse(request)) = self.held.peek() {
            if request.at > until && self.held.len() <= MAX_HELD {
                return;
            }
            self.held.pop();
            self.served = request.at;
            for ((levels, level_of), scenario) in self.levels.iter_mut().zip(level_of).zip(scenarios) {
                let (schema, flow) = if scenario.proposed { request.then } else { request.now };
                let at = level_of.get(schema as usize).copied().flatten();
                if let Some(level) = at.and_then(|at| levels.get_mut(at)) {
                    level.arrive(Arrival { at: request.at, lasts: request.lasts, schema, flow });
                }
            }
        }
    }
}
