//! Who writes one object again and again, and who overwrites whom in turns.

use super::keys::Keys;
use super::sequences::Memory;
use crate::model::symbols::Symbol;
use crate::model::time::{Micros, SECOND, together};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// Writes in a minute from which on a row is kept: one each 5 s.
const BUSY: u32 = 12;

/// The same in the first minute and the last of a roll-up, which parts may share.
const BUSY_AT_THE_ENDS: u32 = BUSY / 2;

/// Rows of `writes`: those with most writes.
const MAX_WRITES: usize = 20_000;

/// Rows of `alternations`: those with most turns.
const MAX_PAIRS: usize = 10_000;

/// Longest time from the first to the third of three writes that are in turns.
const LONGEST_TURN: Micros = 120 * SECOND;

const MINUTE: Micros = 60 * SECOND;

/// An object that was written to, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WrittenKey {
    /// Number of client and resource.
    pub subject: u32,
    /// Subresource.
    pub subresource: Symbol,
    /// Namespace.
    pub namespace: Symbol,
    /// Name.
    pub name: Box<str>,
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
    /// By whom, the later first.
    by: [[Symbol; 2]; 2],
    /// When the earlier was.
    earlier: Micros,
    at: Micros,
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
}

impl Writers {
    /// Takes a write that was done, in the order of time; `object` is its object's hash.
    pub fn take(&mut self, at: Micros, object: u64, by: [Symbol; 2], key: impl Fn() -> WrittenKey, keys: &Keys) {
        let minute = at.div_euclid(MINUTE);
        let client = object ^ (u64::from(by[0].0) << 32 | u64::from(by[1].0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let count = self.open.entry(minute).or_default().entry(client).or_default();
        *count += 1;
        if *count == BUSY_AT_THE_ENDS {
            self.named.insert((minute, client), key());
        }
        let now = LastTwo { by: [by, by], earlier: at, at };
        // What is replaced by itself is found in one step.
        let Some(before) = self.lasts.replace(at, object, now) else { return };
        let [last, earlier] = before.by;
        if last == by && earlier == by {
            return;
        }
        self.lasts.replace(at, object, LastTwo { by: [by, last], earlier: before.at, at });
        if last != by && earlier == by && at - before.earlier <= LONGEST_TURN {
            let mut pair = PairKey { one: key(), other: last };
            let text = |of: [Symbol; 2]| of.map(|symbol| keys.symbols.get(symbol));
            if text(last) < text(by) {
                let mut subject = *keys.subjects.get(pair.one.subject);
                [subject.user, subject.agent] = last;
                // The other wrote as well, so it has a number.
                let Some(number) = keys.subjects.find(&subject) else { return };
                pair.one.subject = number;
                pair.other = by;
            }
            self.pairs.entry(pair).or_default().merge(&Turns { turns: 1, span: Some((at, at)) });
        }
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
            let least = if is_end || first.is_none_or(|first| minute <= first) { BUSY_AT_THE_ENDS } else { BUSY };
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
        self.writes.retain(|(minute, _), writes| *writes >= u64::from(BUSY) || ends.contains(minute));
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
