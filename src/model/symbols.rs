//! Strings held once and named by a number.

use crate::model::json::{JsonStr, MAX_TEXT, cut};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// The number of a string in its [`Symbols`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

impl Symbol {
    /// The empty string, in every table.
    pub const EMPTY: Self = Self(0);
}

/// A set of strings, each with a [`Symbol`].
#[derive(Debug, Clone)]
pub struct Symbols {
    text: String,
    ends: Vec<u32>,
    index: HashTable<u32>,
    hasher: FixedState,
}

impl Default for Symbols {
    fn default() -> Self {
        let mut symbols = Self {
            text: String::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(0x706c696d),
        };
        symbols.intern("");
        symbols
    }
}

impl Symbols {
    /// The symbol of `text`, which is added if it is new.
    #[inline]
    pub fn intern(&mut self, text: &str) -> Symbol {
        let hash = self.hasher.hash_one(text.as_bytes());
        let (all, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        let entry = self.index.entry(
            hash,
            |&id| slice(all, ends, id) == text,
            |&id| hasher.hash_one(slice(all, ends, id).as_bytes()),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => Symbol(*found.get()),
            hashbrown::hash_table::Entry::Vacant(free) => {
                let id = self.ends.len() as u32;
                free.insert(id);
                self.text.push_str(text);
                self.ends.push(self.text.len() as u32);
                Symbol(id)
            }
        }
    }

    /// The symbol of a JSON string, cut like all texts that are kept.
    #[inline]
    pub fn intern_json(&mut self, text: JsonStr<'_>) -> Symbol {
        if !text.is_escaped() && text.raw().len() <= MAX_TEXT {
            // What is known need not be checked to be UTF-8 again.
            let raw = text.raw();
            let hash = self.hasher.hash_one(raw);
            if let Some(&id) = self.index.find(hash, |&id| slice(&self.text, &self.ends, id).as_bytes() == raw) {
                return Symbol(id);
            }
        }
        self.intern(&cut(&text.decode()))
    }

    /// The symbol of `text`, if it is one already.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        let hash = self.hasher.hash_one(text.as_bytes());
        self.index.find(hash, |&id| slice(&self.text, &self.ends, id) == text).map(|&id| Symbol(id))
    }

    /// The string of `symbol`.
    #[inline]
    pub fn get(&self, symbol: Symbol) -> &str {
        slice(&self.text, &self.ends, symbol.0)
    }

    /// How many strings it holds, the empty one included.
    #[expect(clippy::len_without_is_empty, reason = "never empty: it holds the empty string")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes held, roughly.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * 12
    }
}

#[inline]
fn slice<'a>(text: &'a str, ends: &[u32], id: u32) -> &'a str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    &text[start..ends[id] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_a_symbol() {
        let mut symbols = Symbols::default();
        assert_eq!(symbols.intern(""), Symbol::EMPTY);
        let pods = symbols.intern("pods");
        let nodes = symbols.intern("nodes");
        assert_ne!(pods, nodes);
        for i in 0..10_000 {
            symbols.intern(&format!("name-{i}"));
        }
        assert_eq!(symbols.intern("pods"), pods);
        assert_eq!((symbols.find("pods"), symbols.find("no such text")), (Some(pods), None));
        assert_eq!((symbols.get(pods), symbols.get(nodes)), ("pods", "nodes"));
        assert_eq!(symbols.len(), 10_003);
    }
}
