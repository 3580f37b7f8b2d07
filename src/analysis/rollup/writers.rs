//! Who writes one object again and again, and who overwrites whom in turns.
//!
//! Every roll-up has these tables. On a log of 400,000 updates of 100,000 objects by 50 clients, and nothing else, they
//! take 0.16 µs of processor time a write, 7 % of the pass; where one event in six is a write, 4 %.

use super::keys::{Keys, OTHER_SYMBOL, TrafficKey};
use super::sequences::Memory;
use crate::model::rollup::MIN_MINUTE_WRITES;
use crate::model::symbols::Symbol;
use crate::model::time::{MINUTE, Micros, SECOND, together};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// Writes from which on a row is kept in the first minute and the last of a roll-up, which parts may share.
const BUSY_AT_THE_ENDS: u32 = MIN_MINUTE_WRITES / 2;

/// Rows of `writes`: those with most writes.
const MAX_WRITES: usize = 20_000;

/// Rows of `alternations`: those with most turns.
const MAX_PAIRS: usize = 10_000;

/// Longest time from the first to the third of three writes that are in turns.
pub(super) const LONGEST_TURN: Micros = 120 * SECOND;

/// An object that was written to, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WrittenKey {
    /// Number of client and resource.
    pub subject: u32,
    pub subresource: Symbol,
    pub namespace: Symbol,
    pub name: Box<str>,
}

/// One of the first two writes to an object, or of the last two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeWrite {
    /// Hash of the object.
    pub object: u64,
    /// 0 or 1, from the end on.
    pub place: u8,
    /// When.
    pub at: Micros,
    /// By whom, and to what; of the last writes without subresource, namespace and name.
    pub key: WrittenKey,
}

impl EdgeWrite {
    /// Sorts writes into an order that depends on the log alone.
    pub fn sort(writes: &mut [Self]) {
        writes.sort_unstable_by_key(|write| (write.object, write.place));
    }
}

/// Two clients that write to an object in turns: by the text of user and agent, the key's is the first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PairKey {
    /// Object and first client.
    pub one: WrittenKey,
    /// User and agent of the second.
    pub other: [Symbol; 2],
}

/// How often two clients took turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turns {
    /// Writes by one of them that followed a write of the other, before which it had written itself.
    pub turns: u64,
    /// First and last.
    pub span: Option<(Micros, Micros)>,
}

impl Turns {
    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.turns += other.turns;
        self.span = together(self.span, other.span);
    }
}

/// The last two writes to an object.
#[derive(Debug, Clone, Copy)]
struct LastTwo {
    /// By whom, the later first: numbers of client and resource.
    by: [u32; 2],
    /// When the earlier was.
    earlier: Micros,
    at: Micros,
    /// Whether it is the object's first in its minute, which is not counted yet.
    is_first: bool,
    /// Whether there was no earlier one.
    is_single: bool,
}

/// What is written again and again.
#[derive(Debug, Default)]
pub struct Writers {
    /// Minutes that go on: writes by object and client.
    open: BTreeMap<i64, HashMap<u64, u32, foldhash::fast::FixedState>>,
    /// Names of those of which there are some already.
    named: HashMap<(i64, u64), WrittenKey, foldhash::fast::FixedState>,
    /// By minute, in units of its length.
    writes: HashMap<(i64, WrittenKey), u64, foldhash::fast::FixedState>,
    lasts: Memory<u64, LastTwo>,
    pairs: HashMap<PairKey, Turns, foldhash::fast::FixedState>,
    /// The first two writes to each object near the beginning, where they are wanted.
    firsts: Option<Firsts>,
}

/// The first two writes to each object: when, by whom and to what.
#[derive(Debug, Default)]
struct Firsts {
    began: Option<Micros>,
    objects: HashMap<u64, Vec<(Micros, WrittenKey)>, foldhash::fast::FixedState>,
}

impl Writers {
    /// The same, and writes near the ends are remembered.
    pub fn with_edges() -> Self {
        Self { firsts: Some(Firsts::default()), ..Self::default() }
    }

    /// Takes a write that was done, in the order of time; `object` is its object's hash, `key` the number of its
    /// traffic key, and `name` that of the object.
    pub fn take(&mut self, at: Micros, object: u64, key: u32, name: &str, keys: &Keys) {
        let TrafficKey { subject, subresource, namespace, .. } = *keys.traffic.get(key);
        let key = || WrittenKey { subject, subresource, namespace, name: name.into() };
        let minute = at.div_euclid(MINUTE);
        let is_now = |before: &LastTwo| before.at.div_euclid(MINUTE) == minute;
        let before = self.lasts.update(at, object, |before| match before {
            Some(before) => {
                let (by, is_first) = ([subject, before.by[0]], !is_now(&before));
                LastTwo { by, earlier: before.at, at, is_first, is_single: false }
            }
            None => LastTwo { by: [subject; 2], earlier: at, at, is_first: true, is_single: true },
        });
        if let Some(firsts) = &mut self.firsts
            && at <= *firsts.began.get_or_insert(at) + LONGEST_TURN
        {
            let own = firsts.objects.entry(object).or_default();
            if own.len() < 2 {
                own.push((at, key()));
            }
        }
        let Some(before) = before else { return };
        let [last, earlier] = before.by;
        // Most objects are written once a minute at most: the first write in a minute counts when the second comes.
        if is_now(&before) {
            let of = |subject: u32| object ^ u64::from(subject).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let counts = self.open.entry(minute).or_default();
            if before.is_first {
                *counts.entry(of(last)).or_default() += 1;
            }
            let count = counts.entry(of(subject)).or_default();
            *count += 1;
            if *count == BUSY_AT_THE_ENDS {
                self.named.insert((minute, of(subject)), key());
            }
        }
        if last != subject && earlier == subject && at - before.earlier <= LONGEST_TURN {
            self.turn(at, key(), last, keys);
        }
    }

    /// Counts a write of `key` that follows one of the client with the number `other`, before which its own had
    /// written.
    pub(super) fn turn(&mut self, at: Micros, mut key: WrittenKey, mut other: u32, keys: &Keys) {
        let text = |of: u32| {
            let [_, user, agent, ..] = keys.subject_text(of);
            [user, agent]
        };
        if text(other) < text(key.subject) {
            std::mem::swap(&mut other, &mut key.subject);
        }
        let other = keys.subjects.get(other);
        let pair = PairKey { one: key, other: [other.user, other.agent] };
        self.pairs.entry(pair).or_default().merge(&Turns { turns: 1, span: Some((at, at)) });
    }

    /// Writes near the ends of a roll-up that lasts from one moment to another, where they are remembered: the first
    /// two to each object, and the last two.
    pub(super) fn edges(&mut self, (first, last): (Micros, Micros)) -> Option<[Vec<EdgeWrite>; 2]> {
        let firsts = self.firsts.take()?.objects.into_iter().flat_map(|(object, writes)| {
            (0..).zip(writes).map(move |(place, (at, key))| EdgeWrite { object, place, at, key })
        });
        let lasts = self.lasts.all().into_iter().flat_map(|(object, two)| {
            let LastTwo { by, at, earlier, is_single, .. } = two;
            let write = move |(place, at, subject)| {
                let (subresource, namespace, name) = (OTHER_SYMBOL, OTHER_SYMBOL, "".into());
                EdgeWrite { object, place, at, key: WrittenKey { subject, subresource, namespace, name } }
            };
            [(0, at, by[0]), (1, earlier, by[1])].into_iter().take(if is_single { 1 } else { 2 }).map(write)
        });
        let mut edges = [
            firsts.filter(|write| write.at <= first + LONGEST_TURN).collect::<Vec<_>>(),
            lasts.filter(|write| write.at >= last - LONGEST_TURN).collect(),
        ];
        edges.iter_mut().for_each(|writes| EdgeWrite::sort(writes));
        Some(edges)
    }

    /// Adds a stored row of `writes`.
    pub fn add_writes(&mut self, minute: i64, key: WrittenKey, writes: u64) {
        *self.writes.entry((minute, key)).or_default() += writes;
    }

    /// Adds a stored row of `alternations`.
    pub fn add_turns(&mut self, pair: PairKey, turns: &Turns) {
        self.pairs.entry(pair).or_default().merge(turns);
    }

    /// Keeps what was busy in the minutes that are over.
    pub fn close(&mut self, released: Micros, first: Option<Micros>, keys: &Keys) {
        let first = first.map(|at| at.div_euclid(MINUTE));
        let is_end = released == Micros::MAX;
        while let Some(minute) = self.open.first_key_value().map(|(minute, _)| *minute)
            && (minute + 1).saturating_mul(MINUTE) <= released
        {
            let counts = self.open.remove(&minute).unwrap_or_default();
            let least =
                if is_end || first.is_none_or(|first| minute <= first) { BUSY_AT_THE_ENDS } else { MIN_MINUTE_WRITES };
            for ((_, client), key) in self.named.extract_if(|(own, _), _| *own == minute) {
                if let Some(count) = counts.get(&client).filter(|count| **count >= least) {
                    *self.writes.entry((minute, key)).or_default() += u64::from(*count);
                }
            }
        }
        if self.writes.len() > MAX_WRITES * 4 {
            self.fold_writes(MAX_WRITES * 2, keys);
        }
        if self.pairs.len() > MAX_PAIRS * 4 {
            self.fold_pairs(MAX_PAIRS * 2, keys);
        }
    }

    fn fold_writes(&mut self, limit: usize, keys: &Keys) {
        if self.writes.len() > limit {
            let mut all: Vec<((i64, WrittenKey), u64)> = self.writes.drain().collect();
            all.sort_unstable_by(|(a, x), (b, y)| {
                y.cmp(x).then_with(|| a.0.cmp(&b.0)).then_with(|| a.1.text(keys).cmp(&b.1.text(keys)))
            });
            all.truncate(limit);
            self.writes = all.into_iter().collect();
        }
    }

    fn fold_pairs(&mut self, limit: usize, keys: &Keys) {
        if self.pairs.len() > limit {
            let mut all: Vec<(PairKey, Turns)> = self.pairs.drain().collect();
            all.sort_unstable_by(|(a, x), (b, y)| y.turns.cmp(&x.turns).then_with(|| a.text(keys).cmp(&b.text(keys))));
            all.truncate(limit);
            self.pairs = all.into_iter().collect();
        }
    }

    /// All rows of both tables, sorted by their texts; `span` is that of the roll-up.
    pub fn finish(mut self, span: Option<(Micros, Micros)>, keys: &Keys) -> (Vec<Busy>, Vec<(PairKey, Turns)>) {
        self.close(Micros::MAX, span.map(|(first, _)| first), keys);
        let ends: HashSet<i64> =
            span.into_iter().flat_map(|(first, last)| [first, last]).map(|at| at.div_euclid(MINUTE)).collect();
        self.writes.retain(|(minute, _), writes| *writes >= u64::from(MIN_MINUTE_WRITES) || ends.contains(minute));
        self.fold_writes(MAX_WRITES, keys);
        self.fold_pairs(MAX_PAIRS, keys);
        let mut writes: Vec<Busy> =
            self.writes.into_iter().map(|((minute, key), count)| (minute * 60, key, count)).collect();
        writes.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.text(keys).cmp(&b.1.text(keys))));
        let mut pairs: Vec<(PairKey, Turns)> = self.pairs.into_iter().collect();
        pairs.sort_unstable_by(|(a, _), (b, _)| a.text(keys).cmp(&b.text(keys)));
        (writes, pairs)
    }
}

/// A row of `writes`: start of the minute in seconds, object and client, writes.
pub type Busy = (i64, WrittenKey, u64);

impl WrittenKey {
    /// Its columns: cluster, group, resource, subresource, namespace, name, user, agent.
    pub fn text<'k>(&'k self, keys: &'k Keys) -> [&'k str; 8] {
        let [cluster, user, agent, group, resource] = keys.subject_text(self.subject);
        let [subresource, namespace] = [self.subresource, self.namespace].map(|symbol| keys.symbols.get(symbol));
        [cluster, group, resource, subresource, namespace, &self.name, user, agent]
    }
}

impl PairKey {
    /// Its columns: those of the object and the first client, then user and agent of the second.
    pub fn text<'k>(&'k self, keys: &'k Keys) -> ([&'k str; 8], [&'k str; 2]) {
        (self.one.text(keys), self.other.map(|symbol| keys.symbols.get(symbol)))
    }
}
