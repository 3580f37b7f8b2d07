//! From events to observations: what a worker thread makes of a block, small and without strings, to
//! be put in order and counted by [`super::Part`].

use super::extra::{Extra, written_object};
use super::keys::{Keys, Subject, TrafficKey};
use super::notable::{Notable, kind, starts};
use super::routes::Routes;
use super::spent::spent;
use crate::analysis::dims::{extra, folded, scope_of, service_account};
use crate::analysis::failure::Fault;
use crate::analysis::traffic::Outcome;
use crate::model::event::{BODY_SIZES, Event, Timed};
use crate::model::json::{JsonStr, cut, text_of};
use crate::model::symbols::Symbols;
use crate::model::time::Micros;
use crate::model::uri::{ReadShape, Scope, Version, api_version, parameter};
use crate::model::walk::{items, member, strings};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use memchr::memmem::Finder;
use std::hash::BuildHasher;
use std::sync::{Arc, LazyLock};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// One event, ready to be counted.
#[derive(Debug)]
pub struct Observation {
    pub at: Micros,
    /// When the request arrived; `None` where the log does not say.
    pub received: Option<Micros>,
    /// The first 16 bytes of the audit id.
    pub tie: u128,
    /// Terminal or started.
    pub terminal: bool,
    /// Whether the server failed: code 0 or ≥ 500, or a panic without a code.
    pub error: bool,
    /// Number of its traffic key among the batch's keys.
    pub key: u32,
    /// Of long-running requests: which request it is.
    pub identity: Option<u128>,
    /// Actor, verb and URI.
    pub request: u64,
    /// Actor, group and resource, of watches and lists; of writes to a lease: client, verb and URI.
    pub turn: u64,
    /// Whether it is a write to a lease that was done.
    pub holds: bool,
    /// Whether it lists: a LIST's first page, or a watch that sends initial events.
    pub lists: bool,
    /// Whether it is a read that can be the same as an earlier one.
    pub rereads: bool,
    /// Whether the watch asks for a certain version on.
    pub from_version: bool,
    /// Name of the object; a number in `Batch::names`.
    pub name: u32,
    /// Last source address; a symbol of the batch's keys.
    pub source: u32,
    /// Hash of the audit id.
    pub id: u64,
    /// Of an update or patch that was done: which object it wrote to; else 0.
    pub object: u64,
    /// What few events have.
    pub more: Option<Box<More>>,
}

/// What few events have.
#[derive(Debug, Default)]
pub struct More {
    /// Length of the response body, and elements of its `items`.
    pub body: Option<(u64, u64)>,
    /// Time spent in etcd, webhooks, APF queue, in µs.
    pub spent: [u64; 3],
    /// Why it took too long, where its code is 504 and the message shows.
    pub timeout: Option<Timeout>,
    /// Of a write that was done: the object as it is now.
    pub written: Option<Written>,
    /// API group and version, and the release that has it no more, where the apiserver calls the API deprecated.
    pub deprecated: Option<Box<(String, String)>>,
    /// What its answer says failed, or denied it.
    pub failure: Option<Box<(Fault, String)>>,
    /// A dangerous operation.
    pub notable: Option<Notable>,
    /// What the tables beside requests and clients take of it.
    pub extra: Option<Box<Extra>>,
}

/// Why a request ended in 504.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// The client was gone.
    Client,
    /// The time that the server or the client set was over.
    Deadline,
    /// The watch cache had not reached the version that was asked for.
    Cache,
}

impl Timeout {
    /// All causes.
    pub const ALL: [Self; 3] = [Self::Client, Self::Deadline, Self::Cache];

    /// The cause that `message` shows.
    fn of(message: &str) -> Option<Self> {
        let mentions = |words: &str| message.contains(words);
        if mentions("context canceled") {
            Some(Self::Client)
        } else if mentions("Too large resource version") {
            Some(Self::Cache)
        } else if mentions("deadline exceeded") || mentions("allotted timeout") {
            Some(Self::Deadline)
        } else {
            None
        }
    }
}

/// An object after a write, as far as the log shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Hash of its resourceVersion; not 0.
    pub version: u64,
    /// Whether the request had that version too: nothing was changed.
    pub same: bool,
}

/// A caller, and how often it called in this block.
#[derive(Debug)]
pub struct CallerSeen {
    /// A traffic key of this caller, for its subject and instance.
    pub key: u32,
    /// What is known of it.
    pub about: Arc<About>,
    /// Whether later blocks may name the same [`About`].
    pub is_known: bool,
    /// Requests, open ones left out.
    pub requests: u64,
    /// First and last `at`.
    pub span: (Micros, Micros),
}

/// What is known of a caller.
#[derive(Debug)]
pub struct About {
    /// Agent version.
    pub version: String,
    pub groups: Vec<String>,
    pub node: String,
    pub pod: String,
    /// `NS:NAME`.
    pub service_account: String,
}

impl About {
    /// Bytes held, roughly.
    pub fn bytes(&self) -> usize {
        let texts = [&self.version, &self.node, &self.pod, &self.service_account].into_iter().chain(&self.groups);
        size_of::<Self>() + texts.map(|text| size_of::<String>() + text.len()).sum::<usize>()
    }

    fn of(e: &Event<'_>) -> Self {
        Self {
            version: cut(&e.agent_version()).into_owned(),
            groups: strings(e.groups).map(|group| cut(&group.decode()).into_owned()).collect(),
            node: crate::analysis::dims::node(e).into_owned(),
            pod: extra(e, "authentication.kubernetes.io/pod-name").into_owned(),
            service_account: service_account(e.user).unwrap_or_default().into_owned(),
        }
    }
}

/// A block's observations, in the order of its lines.
#[derive(Debug, Default)]
pub struct Batch {
    pub keys: Keys,
    /// Names of objects.
    pub names: Symbols,
    pub observations: Vec<Observation>,
    pub callers: Vec<CallerSeen>,
    /// First and last of the events that conditions left out: rates are of all the time that was looked at.
    pub left_out: Option<(Micros, Micros)>,
}

/// Makes observations on one thread.
#[derive(Debug, Default)]
pub struct Observer {
    batch: Batch,
    rows: Memo,
    callers: Memo,
    key: Vec<u8>,
    scratch: Vec<u8>,
    /// What follows from callers alone, by stream: a thread reads them in turns. Those of some share a place.
    people: [CallerCache; 8],
    /// The number of the block.
    block: u32,
    routes: Routes,
    /// Whether tables beside requests and clients are made.
    is_whole: bool,
}

/// What follows from a caller alone, within a stream; its numbers, within a block.
#[derive(Debug, Clone, Copy)]
struct CallerIds {
    actor: u64,
    /// The same without the address.
    client: u64,
    source: u32,
    seen: u32,
}

/// What follows from callers alone, within a stream.
#[derive(Debug, Default)]
struct CallerCache {
    /// The reader's generation and the stream for which it holds.
    of: (u32, u32),
    /// By the reader's number.
    known: Vec<Option<CallerEntry>>,
}

/// A person that was met before.
#[derive(Debug)]
struct CallerEntry {
    person: CallerIds,
    /// The block of which its numbers are.
    block: u32,
    about: Arc<About>,
}

/// What stands at some bytes of [`Memo::bytes`].
#[derive(Debug, Clone, Copy)]
struct Memoised {
    hash: u64,
    from: u32,
    to: u32,
    number: u32,
}

/// Numbers by the bytes of what was met in this block.
#[derive(Debug, Default)]
struct Memo {
    known: HashTable<Memoised>,
    bytes: Vec<u8>,
    hasher: FixedState,
}

impl Memo {
    #[inline]
    fn find(&self, key: &[u8]) -> Result<u32, u64> {
        let hash = self.hasher.hash_one(key);
        let found = self
            .known
            .find(hash, |known| known.hash == hash && &self.bytes[known.from as usize..known.to as usize] == key);
        found.map(|known| known.number).ok_or(hash)
    }

    fn insert(&mut self, hash: u64, key: &[u8], number: u32) {
        let from = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        let to = self.bytes.len() as u32;
        self.known.insert_unique(hash, Memoised { hash, from, to, number }, |known| known.hash);
    }

    fn clear(&mut self) {
        self.known.clear();
        self.bytes.clear();
    }
}

impl Observer {
    /// One for all tables, as they are stored.
    pub fn whole() -> Self {
        Self { is_whole: true, ..Self::default() }
    }

    /// Takes one event.
    pub fn event(&mut self, event: Timed<'_, '_>) {
        let e = event.event;
        let terminal = event.stage.is_terminal();
        let long_running = e.is_long_running();
        let has_resource = !e.resource.is_empty();
        let verb = e.verb.bytes();
        let verb = verb.as_ref();
        let uri = xxh3_64(e.uri.raw());
        let route = self.routes.find(e, verb, uri);
        let shape = if has_resource { route.shape } else { Some(ReadShape::of_path(e.uri.raw())) };
        let key = self.row(&event, scope_of(e, route.path), shape);
        let continued = shape.is_some_and(|shape| shape.continued);
        let person = self.person(&event, key);
        let actor = person.actor;
        let turn = if matches!(verb, b"watch" | b"list") {
            self.scratch.clear();
            self.scratch.extend_from_slice(e.group.raw());
            self.scratch.push(0xff);
            self.scratch.extend_from_slice(e.resource.raw());
            xxh3_64_with_seed(&self.scratch, actor)
        } else if holds_lease(e, verb) {
            of_uri(uri, person.client, verb)
        } else {
            0
        };
        let request = of_uri(uri, actor, verb);
        let mut tie = [0; 16];
        let id = e.audit_id.raw();
        tie[..id.len().min(16)].copy_from_slice(&id[..id.len().min(16)]);
        let lists = (terminal && verb == b"list" && !continued)
            || (!terminal && verb == b"watch" && shape.is_some_and(|shape| shape.initial_events));
        let observation = Observation {
            at: event.at,
            received: event.received,
            tie: u128::from_be_bytes(tie),
            terminal,
            error: Outcome::of(e, event.stage) == Outcome::Error,
            key,
            identity: long_running.then(|| event.identity(&mut self.scratch)),
            request,
            turn,
            holds: turn != 0 && !matches!(verb, b"watch" | b"list"),
            lists,
            rereads: terminal && !long_running && has_resource && !continued && matches!(verb, b"get" | b"list"),
            from_version: shape.is_some_and(|shape| shape.version == Version::At),
            name: if e.name.is_empty() { 0 } else { self.batch.names.intern_json(e.name).0 },
            source: person.source,
            id: xxh3_64(id),
            object: written_object(&event, verb, &mut self.scratch),
            more: more(&event, terminal, self.is_whole),
        };
        let seen = &mut self.batch.callers[person.seen as usize];
        seen.requests += u64::from(terminal || !long_running);
        seen.span = (seen.span.0.min(event.at), seen.span.1.max(event.at));
        self.batch.observations.push(observation);
    }

    /// What follows from the caller of an event.
    #[inline]
    fn person(&mut self, event: &Timed<'_, '_>, row: u32) -> CallerIds {
        let e = event.event;
        // Where a wrapper names a cluster, more than the caller decides.
        let Some(caller) = e.caller.filter(|_| e.cluster.is_none() && e.instance.is_none()) else {
            return self.new_person(event, row);
        };
        let place = event.stream.id as usize % self.people.len();
        let people = &mut self.people[place];
        if people.of != (caller.generation, event.stream.id) {
            people.of = (caller.generation, event.stream.id);
            people.known.clear();
        }
        let index = caller.index as usize;
        if people.known.len() <= index {
            people.known.resize_with(index + 1, || None);
        }
        let Some(known) = &mut people.known[index] else {
            let person = self.new_person(event, row);
            let seen = &mut self.batch.callers[person.seen as usize];
            seen.is_known = true;
            self.people[place].known[index] =
                Some(CallerEntry { person, block: self.block, about: Arc::clone(&seen.about) });
            return person;
        };
        if known.block != self.block {
            known.block = self.block;
            known.person.source = self.batch.keys.symbols.intern_json(e.source).0;
            known.person.seen = self.batch.callers.len() as u32;
            let about = Arc::clone(&known.about);
            self.batch.callers.push(CallerSeen {
                key: row,
                about,
                is_known: true,
                requests: 0,
                span: (event.at, event.at),
            });
        }
        known.person
    }

    #[inline(never)]
    fn new_person(&mut self, event: &Timed<'_, '_>, row: u32) -> CallerIds {
        let e = event.event;
        self.scratch.clear();
        for part in
            [event.cluster().as_bytes(), e.user.decode().as_bytes(), e.agent_product().as_bytes(), e.source.raw()]
        {
            self.scratch.extend_from_slice(part);
            self.scratch.push(0xff);
        }
        let actor = xxh3_64(&self.scratch);
        let client = xxh3_64(&self.scratch[..self.scratch.len() - e.source.raw().len() - 1]);
        let source = self.batch.keys.symbols.intern_json(e.source).0;
        CallerIds { actor, client, source, seen: self.caller(event, row) }
    }

    /// Notes the time of an event that conditions leave out.
    #[inline]
    pub fn leave_out(&mut self, at: Micros) {
        let (first, last) = self.batch.left_out.unwrap_or((at, at));
        self.batch.left_out = Some((first.min(at), last.max(at)));
    }

    /// Ends a block.
    pub fn flush(&mut self) -> Batch {
        self.rows.clear();
        self.callers.clear();
        self.block += 1;
        // The next block is about as long as this one.
        let next =
            Batch { observations: Vec::with_capacity(self.batch.observations.len() * 9 / 8), ..Batch::default() };
        std::mem::replace(&mut self.batch, next)
    }

    /// The number of the event's traffic key.
    fn row(&mut self, event: &Timed<'_, '_>, scope: Scope, shape: Option<ReadShape>) -> u32 {
        let e = event.event;
        let key = &mut self.key;
        key.clear();
        match (e.caller, e.target) {
            // The reader knows them by numbers.
            (Some(caller), Some(target)) => {
                let two = |a: u32, b: u32| u128::from(a) << 32 | u128::from(b);
                let numbers = two(caller.generation, caller.index) << 64 | two(target.generation, target.index);
                key.extend_from_slice(&numbers.to_le_bytes());
                key.extend_from_slice(e.namespace.raw());
                key.push(0xfe);
            }
            _ => {
                who(e, key);
                key.extend_from_slice(e.agent_product().as_bytes());
                for part in [e.verb, e.group, e.resource, e.subresource, e.namespace] {
                    key.push(0xff);
                    key.extend_from_slice(part.raw());
                }
            }
        }
        if e.cluster.is_some() || e.instance.is_some() {
            key.extend_from_slice(event.cluster().as_bytes());
            key.push(0xff);
            key.extend_from_slice(event.instance().as_bytes());
        }
        key.push(scope as u8);
        key.extend(e.code.map_or(u32::MAX, u32::from).to_le_bytes());
        key.extend(shape.map_or(u32::MAX, |shape| shape.bits()).to_le_bytes());
        match self.rows.find(key) {
            Ok(number) => number,
            Err(hash) => {
                let number = new_key(&mut self.batch.keys, event, scope, shape);
                self.rows.insert(hash, &self.key, number);
                number
            }
        }
    }

    /// The caller's number in this block, with what the event reports it.
    fn caller(&mut self, event: &Timed<'_, '_>, row: u32) -> u32 {
        let e = event.event;
        let key = &mut self.key;
        key.clear();
        who(e, key);
        for part in [e.agent.raw(), e.extra, event.cluster().as_bytes(), event.instance().as_bytes()] {
            key.extend_from_slice(part);
            key.push(0xff);
        }
        match self.callers.find(key) {
            Ok(number) => number,
            Err(hash) => {
                let number = self.batch.callers.len() as u32;
                self.callers.insert(hash, &self.key, number);
                let about = Arc::new(About::of(e));
                self.batch.callers.push(CallerSeen {
                    key: row,
                    about,
                    is_known: false,
                    requests: 0,
                    span: (event.at, event.at),
                });
                number
            }
        }
    }
}

/// User and groups: the number under which the reader knows them, where it does.
#[inline]
fn who(event: &Event<'_>, key: &mut Vec<u8>) {
    if let Some(caller) = event.caller {
        key.extend(caller.generation.to_le_bytes());
        key.extend(caller.index.to_le_bytes());
    } else {
        for part in [event.user.raw(), event.groups] {
            key.extend_from_slice(part);
            key.push(0xff);
        }
    }
}

/// What an actor, or a client, does to a URI with a verb; `uri` is its hash.
#[inline]
fn of_uri(uri: u64, who: u64, verb: &[u8]) -> u64 {
    xxh3_64_with_seed(&uri.to_le_bytes(), who.wrapping_add(xxh3_64(verb)))
}

/// Interns the parts of a traffic key.
fn new_key(keys: &mut Keys, event: &Timed<'_, '_>, scope: Scope, shape: Option<ReadShape>) -> u32 {
    let e = event.event;
    let mut text = |text: JsonStr<'_>| keys.intern(&cut(&text.decode()));
    let (verb, group, resource) = (text(e.verb), text(e.group), text(e.resource));
    let (subresource, namespace) = (text(e.subresource), text(e.namespace));
    let agent = keys.intern(&cut(&e.agent_product()));
    let user = e.user.decode();
    let user = keys.intern(&cut(folded(&user)));
    let cluster = keys.intern(event.cluster());
    let instance = keys.intern(event.instance());
    let subject = keys.subjects.number(Subject { cluster, user, agent, group, resource });
    keys.number(TrafficKey { subject, instance, verb, subresource, scope, namespace, code: e.code, shape })
}

/// Bytes and items of the response's body; where that was taken out (`collect`), as annotations say.
pub(in crate::analysis) fn response_size(e: &Event<'_>) -> (u64, u64) {
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(BODY_SIZES[1]));
    let own = || (e.response_body.len() as u64, items(e.response_body));
    if e.only_reason || FINDER.find(e.annotations).is_none() {
        return own();
    }
    let number =
        |name| member(e.annotations, name).and_then(text_of).and_then(|text| text.decode().parse::<u64>().ok());
    number(BODY_SIZES[1]).map_or_else(own, |bytes| (bytes, number(BODY_SIZES[2]).unwrap_or(0)))
}

/// Body size, time spent, and danger, where an event has them.
fn more(event: &Timed<'_, '_>, terminal: bool, is_whole: bool) -> Option<Box<More>> {
    let e = event.event;
    let body = (!e.response_body.is_empty()).then(|| response_size(e));
    let spent = if e.only_reason { [0; 3] } else { spent(e) };
    let is_told = terminal || starts(event);
    let found = if is_told { kind(event) } else { None };
    let extra = if is_whole && is_told { Extra::of(event, found.as_ref()) } else { None };
    let notable = found.map(|(kind, detail)| Notable::of(event, kind, detail));
    let timeout = if e.code == Some(504) { Timeout::of(&e.message.decode()) } else { None };
    let written = if body.is_some() { written(e) } else { None };
    let deprecated = if terminal && !e.only_reason { deprecated(e) } else { None };
    let failure = if terminal { Fault::of(event).map(Box::new) } else { None };
    let is_there = [notable.is_some(), timeout.is_some(), deprecated.is_some(), failure.is_some(), extra.is_some()];
    (body.is_some() || spent != [0; 3] || is_there.contains(&true))
        .then(|| Box::new(More { body, spent, timeout, written, deprecated, failure, notable, extra }))
}

/// Whether it is the kind of write by which a leader keeps its lease, and was done.
fn holds_lease(event: &Event<'_>, verb: &[u8]) -> bool {
    matches!(verb, b"update" | b"patch")
        && event.resource.is("leases")
        && event.code.is_some_and(|code| (200..300).contains(&code))
}

/// The object after an update or patch that was done and no dry run, where the log holds it.
fn written(event: &Event<'_>) -> Option<Written> {
    let is_update = event.verb.is("update");
    let done = (is_update || event.verb.is("patch")) && event.code.is_some_and(|code| (200..300).contains(&code));
    if !done || !parameter(&event.uri.decode(), "dryRun").is_empty() {
        return None;
    }
    let version = |body| {
        Some(text_of(member(member(body, "metadata")?, "resourceVersion")?)?.decode())
            .filter(|version| !version.is_empty())
    };
    let now = version(event.response_body)?;
    let same = is_update && version(event.request_body).is_some_and(|before| before == now);
    Some(Written { version: xxh3_64(now.as_bytes()).max(1), same })
}

/// API group and version, and the release that has it no more, if the apiserver calls the API deprecated.
fn deprecated(event: &Event<'_>) -> Option<Box<(String, String)>> {
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("k8s.io/deprecated"));
    FINDER.find(event.annotations)?;
    let annotation = |name| member(event.annotations, name).and_then(text_of).map(|text| text.decode());
    annotation("k8s.io/deprecated").filter(|value| value == "true")?;
    let removed = annotation("k8s.io/removed-release").unwrap_or_default();
    Some(Box::new((cut(api_version(&event.uri.decode())).into_owned(), cut(&removed).into_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted() {
        assert_eq!(items(br#"{"kind":"List","items":[{"a":[1,2]},{"b":"]"},3]}"#), 3);
        assert_eq!(items(br#"{"items":[]}"#), 0);
        assert_eq!(items(br#"{"items":null}"#), 0);
        assert_eq!(items(br#"{"spec":{"items":[1]}}"#), 0);
    }
}
