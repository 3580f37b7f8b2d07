//! The numbers that a profile gives its things, and ours.

use std::collections::HashMap;

/// From the numbers that a profile gives its things to our own. They mostly are 1, 2, 3 …
#[derive(Default)]
pub(super) struct Ids {
    dense: Vec<u32>,
    sparse: HashMap<u64, u32>,
}

impl Ids {
    /// `false` if this one is taken.
    pub(super) fn add(&mut self, id: u64, own: u32) -> bool {
        if id == self.dense.len() as u64 + 1 && !self.sparse.contains_key(&id) {
            self.dense.push(own);
            return true;
        }
        id > self.dense.len() as u64 && self.sparse.insert(id, own).is_none()
    }

    /// How many there are, if they are 1, 2, 3 … and ours, given in the order in which they came, 0, 1, 2 …
    pub(super) fn in_order(&self) -> Option<usize> {
        self.sparse.is_empty().then_some(self.dense.len())
    }

    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<u32> {
        let dense = usize::try_from(id.wrapping_sub(1)).ok().and_then(|index| self.dense.get(index));
        dense.or_else(|| self.sparse.get(&id)).copied()
    }
}

/// Numbers of 64 bits, kept in 32: memory is what large profiles cost most time for. Nearly all are small, and stand
/// for themselves; the few that are not are kept here.
#[derive(Default)]
pub(super) struct Numbers {
    large: Vec<u64>,
}

impl Numbers {
    /// From this one on they are places in `large`. No profile has so many of anything.
    const LARGE: u32 = 1 << 31;

    /// A number, shorter.
    #[inline]
    pub(super) fn shorter(&mut self, number: u64) -> u32 {
        if number < u64::from(Self::LARGE) { number as u32 } else { self.keep(number) }
    }

    #[cold]
    fn keep(&mut self, number: u64) -> u32 {
        // A number that takes one byte in a damaged file must not take eight here again and again.
        if self.large.last() != Some(&number) {
            self.large.push(number);
        }
        Self::LARGE + (self.large.len() - 1) as u32
    }

    /// What was made shorter.
    #[inline]
    pub(super) fn whole(&self, short: u32) -> u64 {
        match short.checked_sub(Self::LARGE) {
            Some(place) => self.large.get(place as usize).copied().unwrap_or(u64::MAX),
            None => u64::from(short),
        }
    }
}
