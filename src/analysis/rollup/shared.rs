//! Rows that several roll-ups share: of a window of time the roll-up has some of the rows of the whole, and copies
//! none.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// Some of the rows of a table, one behind the other.
#[derive(Debug)]
pub struct Shared<T> {
    all: Arc<Vec<T>>,
    part: Range<usize>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { all: Arc::clone(&self.all), part: self.part.clone() }
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(rows: Vec<T>) -> Self {
        Self { part: 0..rows.len(), all: Arc::new(rows) }
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.all[self.part.clone()]
    }
}

impl<T> Shared<T> {
    /// The rows between two places among these.
    pub fn between(&self, from: usize, to: usize) -> Self {
        let (from, to) = (from.min(self.len()), to.min(self.len()));
        let start = self.part.start;
        Self { all: Arc::clone(&self.all), part: start + from..start + to.max(from) }
    }

    /// Keeps some of the rows, where nobody else has them.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        if let Some(all) = Arc::get_mut(&mut self.all) {
            all.retain(keep);
            self.part = 0..all.len();
        }
    }
}

impl<T: Clone> Shared<T> {
    /// The rows that are wanted; all of them are the same ones.
    pub fn only(&self, mut is_wanted: impl FnMut(&T) -> bool) -> Self {
        let wanted: Vec<T> = self.iter().filter(|row| is_wanted(row)).cloned().collect();
        if wanted.len() == self.len() { self.clone() } else { wanted.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_what_they_are_parts_of() {
        let mut whole: Shared<u32> = vec![1, 2, 3, 4, 5].into();
        let part = whole.between(1, 4);
        assert_eq!((&*part, &*part.between(1, 2), &*part.between(2, 99)), (&[2, 3, 4][..], &[3][..], &[4][..]));
        assert!(part.between(3, 1).is_empty());
        assert!(Arc::ptr_eq(&part.only(|_| true).all, &whole.all), "nothing is copied");
        assert_eq!(*part.only(|row| *row != 3), [2, 4]);
        // What others have too is not changed.
        whole.retain(|_| false);
        assert_eq!(whole.len(), 5);
    }
}
