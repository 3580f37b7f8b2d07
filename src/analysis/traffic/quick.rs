//! Rows found without a look at any text: by the numbers that the reader gives to callers and targets.

use super::Query;
use crate::analysis::dims::Dim;
use crate::model::event::Timed;

/// Places; a power of two. A row that is not at its place is looked up by its text.
const PLACES: usize = 1 << 12;

/// The rows last met, each at the place of its key's hash.
#[derive(Debug)]
pub struct Quick {
    /// Key and row; key 0 is none.
    places: Vec<(u64, u32)>,
    /// Of callers and targets: with others, all numbers mean something else.
    generation: (u32, u32),
}

impl Quick {
    /// For a query whose rows follow from caller, target, code and stage alone.
    pub fn of(query: &Query) -> Option<Self> {
        let follows = |dim: &Dim| match dim {
            Dim::Verb | Dim::Resource | Dim::Group | Dim::Subresource | Dim::Namespace => true,
            Dim::User | Dim::ServiceAccount | Dim::Agent | Dim::AgentVersion | Dim::SourceIp | Dim::Node => true,
            Dim::Code | Dim::CodeClass | Dim::Stage => true,
            Dim::Name | Dim::Instance | Dim::Cluster | Dim::Scope | Dim::ListKind | Dim::Minute => false,
        };
        let is_quick = query.interval.is_none() && query.by.iter().all(follows);
        is_quick.then(|| Self { places: vec![(0, 0); PLACES], generation: (0, 0) })
    }

    /// The event's key, if the reader knows its caller and target, and their generations.
    #[inline]
    pub fn key(event: &Timed<'_, '_>) -> Option<(u64, (u32, u32))> {
        let (caller, target) = (event.event.caller?, event.event.target?);
        if caller.index >= 1 << 20 || target.index >= 1 << 20 {
            return None;
        }
        let code = event.event.code.map_or(0, |code| u64::from(code) + 1);
        // 20 bits each, 17 of the code, 2 of the stage, and one so that no key is 0.
        let key = u64::from(caller.index) << 44 | u64::from(target.index) << 24 | code << 3 | (event.stage as u64) << 1 | 1;
        Some((key, (caller.generation, target.generation)))
    }

    #[inline]
    fn place(key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (PLACES - 1)
    }

    /// The row of a key.
    #[inline]
    pub fn find(&mut self, key: u64, generation: (u32, u32)) -> Option<u32> {
        if self.generation != generation {
            self.generation = generation;
            self.places.fill((0, 0));
        }
        let (known, row) = self.places[Self::place(key)];
        (known == key).then_some(row)
    }

    /// Remembers the row of a key.
    #[inline]
    pub fn keep(&mut self, key: u64, row: u32) {
        self.places[Self::place(key)] = (key, row);
    }
}
