//! Who called, recognised at a glance.
//!
//! One caller's events repeat user name, uid and groups byte for byte, and mostly the agent and the
//! rule that let the request in. These texts are parsed once, kept, and afterwards compared: a
//! `memcmp` in place of some fifteen strings to walk over. What is equal byte for byte parses equally,
//! so this changes nothing but the time a pass takes.

use crate::model::event::{Caller, Event};
use crate::model::json::JsonStr;

/// Bytes that are hashed to find a caller; the rest is compared.
const PREFIX: usize = 64;

/// Slots of the table; a power of two.
const SLOTS: usize = 1 << 13;

/// Callers remembered before all are forgotten: more than a fleet of 10,000 nodes has.
const MAX_CALLERS: usize = 1 << 15;

/// Callers with one hash that are compared at most.
const MAX_CHAIN: usize = 24;

/// Longest text that is remembered.
const MAX_LENGTH: usize = 2048;

/// Callers met by one thread.
#[derive(Debug)]
pub struct Callers {
    slots: Vec<u32>,
    entries: Vec<Entry>,
    text: Vec<u8>,
    generation: u32,
}

#[derive(Debug)]
struct Entry {
    /// Where its text stands in `Callers::text`.
    from: usize,
    length: usize,
    /// The next with the same hash; `NONE` ends.
    next: u32,
    non_ascii: bool,
    user: Span,
    groups: Span,
    /// The agent of its last event, with its closing quote.
    agent: Vec<u8>,
    /// The annotations of its last event: mostly the rule by which it was let in.
    annotations: Vec<u8>,
}

const NONE: u32 = u32::MAX;

/// A part of a caller's text, and whether it holds escapes.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from: u32,
    to: u32,
    escaped: bool,
}

impl Span {
    fn of(text: &[u8], start: usize, part: &[u8], escaped: bool) -> Self {
        if part.is_empty() {
            return Self::default();
        }
        // `part` is borrowed from `text`.
        let from = part.as_ptr() as usize - text.as_ptr() as usize - start;
        Self { from: from as u32, to: (from + part.len()) as u32, escaped }
    }

    #[inline]
    fn bytes<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.from as usize..self.to as usize]
    }

    #[inline]
    fn string<'a>(&self, text: &'a [u8]) -> JsonStr<'a> {
        JsonStr::new(self.bytes(text), self.escaped)
    }
}

impl Default for Callers {
    fn default() -> Self {
        Self { slots: vec![NONE; SLOTS], entries: Vec::new(), text: Vec::new(), generation: 0 }
    }
}

impl Callers {
    #[inline]
    fn slot(text: &[u8]) -> Option<usize> {
        let prefix = text.first_chunk::<PREFIX>()?;
        let mut hash = 0u64;
        for word in prefix.as_chunks::<8>().0 {
            hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        Some((hash >> 40) as usize & (SLOTS - 1))
    }

    /// Fills `event` with the caller whose text starts at `start`, if it was met before; returns where
    /// the text ends and whether it holds bytes that are not ASCII.
    #[inline]
    pub fn find<'a>(&self, text: &'a [u8], start: usize, event: &mut Event<'a>) -> Option<(usize, bool)> {
        let text = &text[start..];
        let mut index = self.slots[Self::slot(text)?];
        loop {
            let entry = self.entries.get(index as usize)?;
            if text.get(..entry.length) == Some(&self.text[entry.from..entry.from + entry.length]) {
                event.caller = Some(Caller { generation: self.generation, index });
                event.user = entry.user.string(text);
                event.groups = entry.groups.bytes(text);
                return Some((start + entry.length, entry.non_ascii));
            }
            index = entry.next;
        }
    }

    /// Remembers the caller that `event` was just filled with from `text[start..end]`.
    #[cold]
    pub fn remember<'a>(&mut self, text: &'a [u8], start: usize, end: usize, non_ascii: bool, event: &mut Event<'a>) {
        let Some(slot) = Self::slot(&text[start..end]).filter(|_| end - start <= MAX_LENGTH) else { return };
        if self.entries.len() >= MAX_CALLERS {
            self.slots.fill(NONE);
            self.entries.clear();
            self.text.clear();
            self.generation += 1;
        }
        let mut chain = 0;
        let mut last = self.slots[slot];
        while let Some(entry) = self.entries.get(last as usize) {
            chain += 1;
            last = entry.next;
        }
        if chain >= MAX_CHAIN {
            self.slots[slot] = NONE;
        }
        let index = self.entries.len() as u32;
        let string = |part: JsonStr<'a>| Span::of(text, start, part.raw(), part.is_escaped());
        let raw = |part: &'a [u8]| Span::of(text, start, part, false);
        self.entries.push(Entry {
            from: self.text.len(),
            length: end - start,
            next: self.slots[slot],
            non_ascii,
            user: string(event.user),
            groups: raw(event.groups),
            agent: Vec::new(),
            annotations: Vec::new(),
        });
        self.text.extend_from_slice(&text[start..end]);
        self.slots[slot] = index;
        event.caller = Some(Caller { generation: self.generation, index });
    }

    /// The length of the text at the start of `text` that the caller's last event had there too.
    #[inline]
    pub fn same(&self, caller: Option<Caller>, what: Repeated, text: &[u8]) -> Option<usize> {
        let entry = self.entries.get(caller?.index as usize)?;
        let last = match what {
            Repeated::Agent => &entry.agent,
            Repeated::Annotations => &entry.annotations,
        };
        (!last.is_empty() && text.starts_with(last)).then_some(last.len())
    }

    /// Keeps what the caller's last event had.
    #[inline]
    pub fn keep(&mut self, caller: Option<Caller>, what: Repeated, text: &[u8]) {
        if let Some(caller) = caller
            && text.len() <= MAX_LENGTH
            && text.is_ascii()
            && let Some(entry) = self.entries.get_mut(caller.index as usize)
        {
            let last = match what {
                Repeated::Agent => &mut entry.agent,
                Repeated::Annotations => &mut entry.annotations,
            };
            last.clear();
            last.extend_from_slice(text);
        }
    }
}

/// What a caller's events mostly repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeated {
    /// `userAgent`, from behind its opening quote, its closing quote included.
    Agent,
    /// The object of annotations.
    Annotations,
}
