//! Rows found without a look at any text: by the numbers that the reader gives to callers and targets.
//!
//! What the dimensions make of a caller, and of a target, is written once and has a number too; so there are
//! no more keys than rows, however many callers differ in what is not asked for.

use super::Query;
use crate::analysis::dims::{Dim, EventContext};
use crate::model::event::Timed;
use hashbrown::{HashMap, HashTable};

/// Stands behind the text of a dimension in a key: a byte that is in no UTF-8.
pub(super) const SEPARATOR: u8 = 0xff;

/// Rows held; beyond, they are looked up again.
const MAX_ROWS: usize = 1 << 20;

/// Callers and targets held, as the dimensions see them; beyond, all are forgotten.
const MAX_NUMBERS: usize = 1 << 19;

/// What follows from a caller alone; from a target alone.
const CALLER: [Dim; 7] =
    [Dim::User, Dim::Client, Dim::ServiceAccount, Dim::Agent, Dim::AgentVersion, Dim::SourceIp, Dim::Node];
const TARGET: [Dim; 4] = [Dim::Verb, Dim::Resource, Dim::Group, Dim::Subresource];

/// Rows by the numbers of what they follow from.
#[derive(Debug, Default)]
pub struct Quick {
    callers: Parts,
    targets: Parts,
    by_code: bool,
    by_stage: bool,
    by_flow: bool,
    /// Key and row.
    rows: HashTable<(u64, u32)>,
}

/// What the dimensions make of callers, or of targets, as numbers.
#[derive(Debug, Default)]
struct Parts {
    dims: Vec<Dim>,
    numbers: HashMap<Box<[u8]>, u32>,
    /// By the reader's number; `NONE` where it has not been met.
    known: Vec<u32>,
    generation: u32,
}

const NONE: u32 = u32::MAX;

impl Parts {
    #[inline]
    fn number(&mut self, index: u32, generation: u32, event: &Timed<'_, '_>) -> u32 {
        match self.known.get(index as usize) {
            Some(&number) if number != NONE && self.generation == generation => number,
            _ => self.new_number(index, generation, event),
        }
    }

    #[cold]
    fn new_number(&mut self, index: u32, generation: u32, event: &Timed<'_, '_>) -> u32 {
        if self.generation != generation {
            self.known.clear();
            self.generation = generation;
        }
        if self.known.len() <= index as usize {
            self.known.resize(index as usize + 1, NONE);
        }
        let mut text = Vec::new();
        for dim in &self.dims {
            // None of these dimensions asks for more than the event.
            dim.write(event, EventContext::default(), &mut text);
            text.push(SEPARATOR);
        }
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(text.into_boxed_slice()).or_insert(next);
        self.known[index as usize] = number;
        number
    }
}

impl Quick {
    /// For a query whose rows follow from caller, target, code and stage.
    pub fn of(query: &Query) -> Option<Self> {
        let those = |dims: &[Dim]| Parts {
            dims: query.by.iter().filter(|dim| dims.contains(dim)).copied().collect(),
            ..Parts::default()
        };
        let (callers, targets) = (those(&CALLER), those(&TARGET));
        let by_code = query.by.iter().any(|dim| matches!(dim, Dim::Code | Dim::CodeClass));
        let by_stage = query.by.contains(&Dim::Stage);
        let others = query
            .by
            .iter()
            .filter(|dim| matches!(dim, Dim::Code | Dim::CodeClass | Dim::Stage) || dim.is_flow())
            .count();
        let by_flow = query.by.iter().any(|dim| dim.is_flow());
        let all = callers.dims.len() + targets.dims.len() + others == query.by.len();
        (all && query.interval.is_none()).then(|| Self {
            callers,
            targets,
            by_code,
            by_stage,
            by_flow,
            rows: HashTable::new(),
        })
    }

    /// The key of the event's row, if the reader knows its caller and target.
    #[inline]
    pub fn key(&mut self, event: &Timed<'_, '_>, known: EventContext<'_>) -> Option<u64> {
        let (caller, target) = (event.event.caller?, event.event.target?);
        if self.callers.numbers.len() + self.targets.numbers.len() > MAX_NUMBERS {
            self.forget();
        }
        let who = u64::from(self.callers.number(caller.index, caller.generation, event));
        let what = u64::from(self.targets.number(target.index, target.generation, event));
        let code = event.event.code.filter(|_| self.by_code).map_or(0, |code| u64::from(code) + 1);
        let stage = if self.by_stage { event.stage as u64 } else { 0 };
        let flow = if self.by_flow { u64::from(known.flow.number) } else { 0 };
        // 24 bits for the caller, 20 for the target, 7 for the flow schema, 10 for the code, 2 for the stage.
        let fits = who < 1 << 24 && what < 1 << 20 && flow < 1 << 7 && code < 1 << 10;
        fits.then_some(who << 39 | what << 19 | flow << 12 | code << 2 | stage)
    }

    #[cold]
    fn forget(&mut self) {
        for parts in [&mut self.callers, &mut self.targets] {
            parts.numbers.clear();
            parts.known.clear();
        }
        self.rows.clear();
    }

    #[inline]
    fn hash(key: u64) -> u64 {
        let product = u128::from(key ^ 0xd6e8_feb8_6659_fd93) * 0x9e37_79b9_7f4a_7c15;
        product as u64 ^ (product >> 64) as u64
    }

    /// The row of a key.
    #[inline]
    pub fn find(&self, key: u64) -> Option<u32> {
        self.rows.find(Self::hash(key), |row| row.0 == key).map(|row| row.1)
    }

    /// Remembers the row of a key that was not found.
    pub fn keep(&mut self, key: u64, row: u32) {
        if self.rows.len() >= MAX_ROWS {
            self.rows.clear();
        }
        self.rows.insert_unique(Self::hash(key), (key, row), |row| Self::hash(row.0));
    }
}
