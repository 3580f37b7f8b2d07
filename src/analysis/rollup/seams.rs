//! What a roll-up keeps of its beginning and its end, so that parts of one log that follow one another in time become
//! the roll-up of the whole (docs/rollup.md, section 7).

use super::edge_writes::EdgeWrites;
use super::keys::{Keys, LoadKey, TrafficKey};
use super::objects::EdgeObject;
use super::sequences::{Last, Request, Sequences, Turn};
use super::tiles::OTHER_KEY;
use super::writers::{EdgeWrite, WrittenKey};
use super::{Open, Part};
use crate::analysis::pending::{FAILED_WAIT, Start};
use crate::analysis::repeated::IdSample;
use crate::model::rollup::{Cells, Field};
use crate::model::time::Micros;
use hashbrown::HashMap;

/// What is known of the ends of a roll-up.
#[derive(Debug, Default)]
pub struct Seams {
    /// Long-running requests that began and did not end.
    pub(super) started: Vec<(u128, Start<Open>)>,
    /// Those that ended and began before the log does.
    pub(super) ended: Vec<(u128, Open)>,
    /// The first requests of each kind: facts of them may need what came before. With the number of client and
    /// resource.
    pub(super) firsts: Vec<(Request, u32)>,
    /// What is remembered of requests at the end, by actor, verb and URI.
    pub(super) lasts: Vec<(u64, Last)>,
    /// What is remembered of ends of watches and of leases.
    pub(super) turns: Vec<(u64, Turn)>,
    /// Objects of the first and the last tile.
    pub(super) objects: Vec<EdgeObject>,
    /// The first two writes to objects, near the beginning, and the last two, near the end.
    pub(super) first_writes: Vec<EdgeWrite>,
    pub(super) last_writes: Vec<EdgeWrite>,
    /// Audit ids.
    pub(super) ids: IdSample,
}

impl Seams {
    /// Puts all in an order that depends on the log alone.
    pub(super) fn sort(&mut self, keys: &Keys) {
        self.started.sort_unstable_by_key(|(identity, start)| (start.at, *identity));
        self.ended.sort_unstable_by_key(|(identity, end)| (end.at, *identity));
        self.firsts.sort_by_key(|(first, _)| (first.at, first.received, first.request, first.turn));
        EdgeWrite::sort(&mut self.first_writes);
        EdgeWrite::sort(&mut self.last_writes);
        self.objects.sort_by_cached_key(|one| {
            let subject = keys.subject_text(one.subject).map(str::to_owned);
            (one.tile, subject, keys.symbols.get(one.namespace).to_owned(), one.name.clone())
        });
    }

    /// Hands the rows of the table `seams` to `each`.
    pub(super) fn rows(&self, keys: &Keys, each: &mut dyn FnMut(Vec<Field<'_>>)) {
        let nobody = [""; 12];
        let of_subject = |subject: u32| {
            let [cluster, user, agent, group, resource] = keys.subject_text(subject);
            let mut rest = nobody;
            (rest[0], rest[2], rest[3], rest[5], rest[6]) = (cluster, user, agent, group, resource);
            rest
        };
        let open = |edge, identity: u128, open: &Open, failed: bool, times: u32| {
            let flags = flags(&[(failed, FAILED), (open.late, LATE), (open.error, ERROR)]);
            let (at, received) = (open.at, open.received);
            let head = Head { edge, at, received, hash: halves(identity), flags, value: u64::from(times) };
            row(&head, keys.traffic_fields(open.key), "", [0; 3])
        };
        for (identity, start) in &self.started {
            each(open("started", *identity, &start.what, start.failed, start.times));
        }
        for (identity, end) in &self.ended {
            each(open("ended", *identity, end, false, 1));
        }
        for (request, subject) in &self.firsts {
            let Request { at, received, request: hash, turn, written, .. } = *request;
            let flags = flags(&[
                (request.complete, COMPLETE),
                (request.holds, HOLDS),
                (request.lists, LISTS),
                (request.rereads, REREADS),
                (written.is_some_and(|written| written.same), SAME),
            ]);
            let value = written.map_or(0, |written| written.version);
            each(row(
                &Head { edge: "first", at, received, hash: [hash, turn], flags, value },
                of_subject(*subject).map(Field::from),
                "",
                [0; 3],
            ));
        }
        for (hash, last) in &self.lasts {
            let flags = flags(&[(last.failed.is_some(), FAILED), (last.failed == Some(super::Fact::Retry5xx), ERROR)]);
            let received = last.read.unwrap_or_default();
            let head = Head { edge: "last", at: last.at, received, hash: [*hash, 0], flags, value: last.version };
            each(row(&head, nobody.map(Field::from), "", [0; 3]));
        }
        for (hash, turn) in &self.turns {
            let (at, flags, value) = match *turn {
                Turn::Ended { at, short } => (at, flags(&[(short, SHORT)]), 0),
                Turn::Held { at, request } => (at, HOLDS, request),
                Turn::Listed => continue,
            };
            let head = Head { edge: "turn", at, received: 0, hash: [*hash, 0], flags, value };
            each(row(&head, nobody.map(Field::from), "", [0; 3]));
        }
        for object in &self.objects {
            let (at, received) = object.object.span.unwrap_or_default();
            let flags = flags(&[(object.is_kept, KEPT), (object.object.lease, LEASE)]);
            let mut rest = of_subject(object.subject);
            rest[9] = keys.symbols.get(object.namespace);
            let head = Head { edge: "object", at, received, hash: [0; 2], flags, value: object.tile as u64 };
            let counts = [object.object.reads, object.object.writes, object.object.conflicts];
            each(row(&head, rest.map(Field::from), &object.name, counts));
        }
        for (edge, write) in [("first-write", &self.first_writes), ("last-write", &self.last_writes)]
            .into_iter()
            .flat_map(|(edge, writes)| writes.iter().map(move |write| (edge, write)))
        {
            let mut rest = of_subject(write.key.subject);
            if edge == "first-write" {
                rest[7] = keys.symbols.get(write.key.subresource);
                rest[9] = keys.symbols.get(write.key.namespace);
            }
            let hash = [write.object, 0];
            let head = Head { edge, at: write.at, received: 0, hash, flags: 0, value: u64::from(write.place) };
            let name = if edge == "first-write" { &*write.key.name } else { "" };
            each(row(&head, rest.map(Field::from), name, [0; 3]));
        }
        for (hash, count) in self.ids.counts() {
            let head = Head { edge: "id", at: 0, received: 0, hash: [hash, 0], flags: 0, value: u64::from(count) };
            each(row(&head, nobody.map(Field::from), "", [0; 3]));
        }
    }
}

/// The shortest tile, in seconds.
const FINEST: i64 = 10;

const FAILED: i64 = 1;
const LATE: i64 = 2;
const ERROR: i64 = 4;
const COMPLETE: i64 = 8;
const HOLDS: i64 = 16;
const LISTS: i64 = 32;
const REREADS: i64 = 64;
const SAME: i64 = 128;
const SHORT: i64 = 256;
const KEPT: i64 = 512;
const LEASE: i64 = 1024;

fn flags(which: &[(bool, i64)]) -> i64 {
    which.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum()
}

/// Columns before the key.
struct Head {
    edge: &'static str,
    at: Micros,
    received: Micros,
    hash: [u64; 2],
    flags: i64,
    value: u64,
}

fn row<'k>(head: &Head, rest: [Field<'k>; 12], name: &'k str, counts: [u64; 3]) -> Vec<Field<'k>> {
    let Head { edge, at, received, hash, flags, value } = *head;
    // Hashes use all 64 bits; columns are signed.
    let signed = |bits: u64| Field::Number(bits as i64);
    let mut row = Vec::with_capacity(23);
    row.extend([edge.into(), at.into(), received.into()]);
    row.extend([signed(hash[0]), signed(hash[1]), flags.into(), signed(value)]);
    row.extend(rest);
    row.push(name.into());
    row.extend(counts.map(Field::from));
    row
}

fn halves(identity: u128) -> [u64; 2] {
    [(identity >> 64) as u64, identity as u64]
}

/// What is taken back of tables when an end is found in one part and its start in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undone {
    /// A start was counted as a request of its own; whether as an open one.
    Start { at: Micros, key: u32, open: bool },
    /// An end was counted as an arrival.
    Arrival { received: Micros, key: u32 },
    /// A failed start was counted as an end.
    End { at: Micros, key: u32, error: bool },
}

impl Undone {
    /// Takes it back, of the row that has it, or of that of all others; before tiles are folded, so that rows are kept
    /// by what they count in the whole.
    pub(super) fn take_back(self, part: &mut Part) {
        let Part { keys, traffic, pulse, extras, .. } = part;
        match self {
            Self::Start { at, key, open } => {
                let load = LoadKey::of(keys.traffic.get(key), keys);
                let load = keys.extra.loads.find(&load).map_or(OTHER_KEY, u64::from);
                let load = extras
                    .as_mut()
                    .and_then(|own| own.load.find(at, load, keys, |row| row.requests > 0 && (row.open > 0 || !open)));
                if let Some(row) = load {
                    row.requests -= 1;
                    row.open = row.open.saturating_sub(u64::from(open));
                }
                if let Some(row) =
                    traffic.find(at, u64::from(key), keys, |row| row.requests > 0 && (row.open > 0 || !open))
                {
                    row.requests -= 1;
                    row.open = row.open.saturating_sub(u64::from(open));
                }
            }
            Self::Arrival { received, key } => {
                let key = u64::from(keys.class(key).0);
                if let Some(row) = pulse.find(received, key, keys, |row| row.starts > 0) {
                    row.starts -= 1;
                }
            }
            Self::End { at, key, error } => {
                let throttled = keys.traffic.get(key).code == Some(429);
                let key = u64::from(keys.class(key).0);
                if let Some(row) = pulse.find(at, key, keys, |row| row.ends > 0 && (row.errors > 0 || !error)) {
                    row.ends -= 1;
                    row.errors = row.errors.saturating_sub(u32::from(error));
                    row.throttled = row.throttled.saturating_sub(u32::from(throttled));
                }
            }
        }
    }
}

/// The seams of several roll-ups, each with its first event's time.
#[derive(Debug, Default)]
pub(super) struct Joints(pub(super) Vec<(Micros, Seams)>);

impl Joints {
    /// Takes a row of the roll-up that was begun last. `key` is the number of its traffic key, and `subject` of its
    /// client and resource.
    pub(super) fn take(
        &mut self,
        cells: &[Cells<'_>],
        row: usize,
        (key, subject): (u32, u32),
        [subresource, namespace]: [crate::model::symbols::Symbol; 2],
    ) -> Result<(), &'static str> {
        let Some((_, seams)) = self.0.last_mut() else { return Ok(()) };
        let number = |column: usize| cells[column].number(row);
        let (at, received, flags) = (number(1), number(2), number(5));
        let [hash, turn, value] = [3, 4, 6].map(|column| number(column) as u64);
        let has = |flag: i64| flags & flag != 0;
        let identity = u128::from(hash) << 64 | u128::from(turn);
        let open = Open { at, received, key, late: has(LATE), error: has(ERROR) };
        match cells[0].text(row) {
            "started" => {
                let times = u32::try_from(value).unwrap_or(1).max(1);
                seams.started.push((identity, Start { at, failed: has(FAILED), what: open, times }));
            }
            "ended" => seams.ended.push((identity, open)),
            "first" => {
                let written = (value != 0).then(|| super::observe::Written { version: value, same: has(SAME) });
                let first = Request {
                    at,
                    received,
                    request: hash,
                    turn,
                    complete: has(COMPLETE),
                    code: None,
                    holds: has(HOLDS),
                    written,
                    lists: has(LISTS),
                    rereads: has(REREADS),
                    watch_end: None,
                };
                seams.firsts.push((first, subject));
            }
            "last" => {
                let retry = if has(ERROR) { super::Fact::Retry5xx } else { super::Fact::Retry429 };
                let failed = has(FAILED).then_some(retry);
                seams
                    .lasts
                    .push((hash, Last { at, failed, read: (received != 0).then_some(received), version: value }));
            }
            "turn" if has(HOLDS) => seams.turns.push((hash, Turn::Held { at, request: value })),
            "turn" => seams.turns.push((hash, Turn::Ended { at, short: has(SHORT) })),
            "object" => {
                let [reads, writes, conflicts] = [20, 21, 22].map(|column| cells[column].count(row));
                let object =
                    super::objects::Object { reads, writes, conflicts, span: Some((at, received)), lease: has(LEASE) };
                let name = cells[19].text(row).to_owned();
                let is_kept = has(KEPT);
                seams.objects.push(EdgeObject { tile: value as i64, subject, namespace, name, object, is_kept });
            }
            edge @ ("first-write" | "last-write") => {
                let name = cells[19].text(row).into();
                let key = WrittenKey { subject, subresource, namespace, name };
                let write = EdgeWrite { object: hash, place: u8::from(value != 0), at, key };
                let into = if edge == "first-write" { &mut seams.first_writes } else { &mut seams.last_writes };
                into.push(write);
            }
            "id" => seams.ids.add_counted(hash, u32::try_from(value).unwrap_or(u32::MAX)),
            _ => return Err("edge"),
        }
        Ok(())
    }

    /// Joins all of them, in the order of time: facts between two parts are made, requests that began in one and ended
    /// in another become one, and what is left are the seams of the whole. Gives what is to be taken back.
    pub(super) fn join(mut self, part: &mut Part) -> Vec<Undone> {
        if let [(_, only)] = self.0.as_mut_slice() {
            part.seams = Some(std::mem::take(only));
            return Vec::new();
        }
        self.0.sort_by_key(|(first, _)| *first);
        let mut sequences = Sequences::with_firsts();
        let mut undone = Vec::new();
        let mut whole = Seams::default();
        let mut starts: HashMap<u128, Start<Open>> = HashMap::new();
        let mut ended: Vec<(u128, Open)> = Vec::new();
        let mut objects: Vec<EdgeObject> = Vec::new();
        let mut writes = EdgeWrites::default();
        for (_, mut seams) in self.0 {
            seams.firsts.sort_by_key(|(request, _)| request.at);
            for (request, subject) in &seams.firsts {
                let (facts, keys) = (&mut part.facts, &part.keys);
                // Writes that are known by themselves to have left the object as it was are counted already.
                let is_known = request.written.is_some_and(|written| written.same);
                sequences.take(request, *subject, |fact, gap| {
                    if !(is_known && fact == super::Fact::NoChange) {
                        facts.stored(FINEST, request.at, fact.key(*subject), keys).0.add(gap);
                    }
                });
            }
            sequences.remember(&seams.lasts, &seams.turns);
            starts.extend(seams.started);
            ended.extend(seams.ended);
            objects.extend(seams.objects);
            writes.follow(seams.first_writes, seams.last_writes, &mut part.writers, &part.keys);
            part.ids.merge(&seams.ids);
        }
        ended.sort_unstable_by_key(|(identity, end)| (end.at, *identity));
        let mut ends: Vec<Open> = Vec::new();
        for (identity, end) in ended {
            let is_its = |start: &&mut Start<Open>| {
                start.at <= end.at && !(start.failed && end.at > start.at + FAILED_WAIT) && start.times > 0
            };
            let Some(start) = starts.get_mut(&identity).filter(is_its) else {
                whole.ended.push((identity, end));
                continue;
            };
            start.times -= 1;
            let open = start.what;
            undone.push(Undone::Start { at: open.at, key: open.key, open: !start.failed });
            undone.push(Undone::Arrival { received: end.received, key: end.key });
            match start.failed {
                true => undone.push(Undone::End { at: open.at, key: open.key, error: open.error }),
                // The notable table reports such an operation by its start.
                false => ends.push(end),
            }
        }
        forget(part, &ends);
        whole.started = starts.into_iter().filter(|(_, start)| start.times > 0).collect();
        whole.objects = meet(objects, part);
        [whole.first_writes, whole.last_writes] = writes.finish(part.span.unwrap_or_default());
        part.sequences = sequences;
        part.seams = Some(whole);
        undone
    }
}

/// Removes the ends of notable operations whose starts are in the table.
fn forget(part: &mut Part, ends: &[Open]) {
    let keys = &part.keys;
    // Ends are those of all watches, and notable are few of them.
    let mut by_time: HashMap<Micros, Vec<&Open>> = HashMap::new();
    ends.iter().for_each(|end| by_time.entry(end.at).or_default().push(end));
    part.notable.retain(|one| {
        !by_time.get(&one.at).into_iter().flatten().any(|end| {
            let TrafficKey { subject, instance, verb, subresource, namespace, .. } = *keys.traffic.get(end.key);
            let [cluster, _, _, group, resource] = keys.subject_text(subject);
            let text = |symbol| keys.symbols.get(symbol);
            [&one.cluster, &one.instance, &one.verb].map(String::as_str) == [cluster, text(instance), text(verb)]
                && [&one.group, &one.resource, &one.subresource, &one.namespace].map(String::as_str)
                    == [group, resource, text(subresource), text(namespace)]
        })
    });
}

/// Judges objects of tiles in which parts meet by what was done in all of them; gives those of the first tile and the
/// last.
fn meet(mut objects: Vec<EdgeObject>, part: &mut Part) -> Vec<EdgeObject> {
    fn key(one: &EdgeObject) -> (i64, u32, crate::model::symbols::Symbol, &str) {
        (one.tile, one.subject, one.namespace, &one.name)
    }
    objects.sort_by(|a, b| key(a).cmp(&key(b)));
    let ends = objects.first().map(|one| one.tile).zip(objects.last().map(|one| one.tile));
    let mut met = Vec::new();
    for same in objects.chunk_by(|a, b| key(a) == key(b)) {
        let Some(mut whole) = same.first().cloned() else { continue };
        same.iter().skip(1).for_each(|other| whole.object.merge(&other.object));
        whole.is_kept = whole.object.is_kept();
        if whole.is_kept {
            for one in same.iter().filter(|one| !one.is_kept) {
                part.objects.keep(one.subject, one.namespace, &one.name, &one.object);
            }
        }
        if ends.is_some_and(|(first, last)| whole.tile <= first + 1 || whole.tile + 1 >= last) {
            met.push(whole);
        }
    }
    met
}
