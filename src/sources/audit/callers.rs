//! Who called, recognised at a glance.
//!
//! One caller's events repeat user name, uid, groups, extra, address and agent byte for byte, and mostly
//! the rule that let the request in. These texts are parsed once, kept, and afterwards compared: a
//! `memcmp` in place of some twenty strings to walk over. What is equal byte for byte parses equally,
//! so this changes nothing but the time a pass takes.

use crate::model::event::{Caller, Event};
use crate::model::json::JsonStr;
use crate::model::walk::quick_hash;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Bytes that are hashed to find a user; the rest is compared.
const PREFIX: usize = 64;

/// Slots of the table; a power of two.
const SLOTS: usize = 1 << 13;

/// Callers remembered before all are forgotten: more than a fleet of 10,000 nodes has.
const MAX_CALLERS: usize = 1 << 15;

/// Bytes of text remembered before all is forgotten.
const MAX_TEXT: usize = 32 << 20;

/// Users with one hash that are compared at most.
const MAX_CHAIN: usize = 24;

/// Longest text that is remembered.
const MAX_LENGTH: usize = 2048;

/// Callers met by one thread.
#[derive(Debug, Default)]
pub struct Callers {
    /// The latest user of each hash; empty before the first is met.
    slots: Vec<u32>,
    users: Vec<User>,
    callers: Vec<Known>,
    /// Callers by user and the rest of their text.
    index: HashTable<u32>,
    text: Vec<u8>,
    generation: u32,
    hasher: FixedState,
}

/// A user: name, uid, groups.
#[derive(Debug)]
struct User {
    /// Where its text stands in `Callers::text`.
    from: usize,
    length: usize,
    /// The next with the same hash; `NONE` ends.
    next: u32,
    non_ascii: bool,
    user: Span,
    groups: Span,
    /// The caller of its last event; `NONE` before one is known.
    last: u32,
}

/// A caller: a user with all that stands behind it, up to the end of the agent.
#[derive(Debug)]
struct Known {
    /// Where the text behind the user stands in `Callers::text`.
    from: usize,
    length: usize,
    hash: u64,
    user: u32,
    non_ascii: bool,
    extra: Span,
    impersonated: Span,
    source: Span,
    agent: Span,
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

/// How much of a caller was recognised.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Where what was recognised ends.
    pub end: usize,
    /// Whether that holds bytes that are not ASCII.
    pub non_ascii: bool,
    /// The user's number.
    user: u32,
    /// Whether it is all of the caller, not only the user.
    pub whole: bool,
}

impl Callers {
    #[inline]
    fn slot(text: &[u8]) -> Option<usize> {
        Some(quick_hash(text.first_chunk::<PREFIX>()?, 0) as usize & (SLOTS - 1))
    }

    /// Fills `event` with the user whose text starts at `start`, if it was met before, and with all of
    /// the caller, if it is the same as in the user's last event.
    #[inline]
    pub fn find<'a>(&self, text: &'a [u8], start: usize, event: &mut Event<'a>) -> Option<Found> {
        let text = &text[start..];
        let mut number = *self.slots.get(Self::slot(text)?)?;
        loop {
            let user = self.users.get(number as usize)?;
            if text.get(..user.length) == Some(&self.text[user.from..user.from + user.length]) {
                event.user = user.user.string(text);
                event.groups = user.groups.bytes(text);
                let found = Found { end: start + user.length, non_ascii: user.non_ascii, user: number, whole: false };
                let Some(known) = self.callers.get(user.last as usize) else { return Some(found) };
                let rest = &text[user.length..];
                if rest.get(..known.length) != Some(&self.text[known.from..known.from + known.length]) {
                    return Some(found);
                }
                event.caller = Some(Caller { generation: self.generation, index: user.last });
                event.extra = known.extra.bytes(rest);
                event.impersonated = known.impersonated.bytes(rest);
                event.source = known.source.string(rest);
                event.agent = known.agent.string(rest);
                return Some(Found { end: found.end + known.length, non_ascii: user.non_ascii | known.non_ascii, whole: true, ..found });
            }
            number = user.next;
        }
    }

    /// Remembers the user that `event` was just filled with from `text[start..end]`.
    #[cold]
    pub fn remember_user<'a>(&mut self, text: &'a [u8], start: usize, end: usize, non_ascii: bool, event: &Event<'a>) -> Option<Found> {
        let slot = Self::slot(&text[start..end]).filter(|_| end - start <= MAX_LENGTH)?;
        if self.users.len() >= MAX_CALLERS {
            self.forget();
        }
        if self.slots.is_empty() {
            self.slots = vec![NONE; SLOTS];
        }
        let mut chain = 0;
        let mut last = self.slots[slot];
        while let Some(user) = self.users.get(last as usize) {
            chain += 1;
            last = user.next;
        }
        if chain >= MAX_CHAIN {
            self.slots[slot] = NONE;
        }
        let number = self.users.len() as u32;
        self.users.push(User {
            from: self.text.len(),
            length: end - start,
            next: self.slots[slot],
            non_ascii,
            user: Span::of(text, start, event.user.raw(), event.user.is_escaped()),
            groups: Span::of(text, start, event.groups, false),
            last: NONE,
        });
        self.text.extend_from_slice(&text[start..end]);
        self.slots[slot] = number;
        Some(Found { end, non_ascii, user: number, whole: false })
    }

    /// Remembers the caller of `event`: a known user, and what `event` was just filled with from
    /// `text[found.end..end]`, which ends with its agent.
    pub fn remember<'a>(&mut self, found: Found, text: &'a [u8], end: usize, non_ascii: bool, event: &mut Event<'a>) {
        let start = found.end;
        let rest = &text[start..end];
        if rest.len() > MAX_LENGTH {
            return;
        }
        let hash = self.hasher.hash_one((found.user, rest));
        let (callers, texts) = (&self.callers, &self.text);
        let same = |&index: &u32| {
            let known = &callers[index as usize];
            known.hash == hash && known.user == found.user && &texts[known.from..known.from + known.length] == rest
        };
        let index = match self.index.find(hash, same) {
            Some(&index) => index,
            None if self.callers.len() >= MAX_CALLERS || self.text.len() >= MAX_TEXT => return self.forget(),
            None => {
                let index = self.callers.len() as u32;
                let string = |part: JsonStr<'a>| Span::of(text, start, part.raw(), part.is_escaped());
                let raw = |part: &'a [u8]| Span::of(text, start, part, false);
                self.callers.push(Known {
                    from: self.text.len(),
                    length: rest.len(),
                    hash,
                    user: found.user,
                    non_ascii,
                    extra: raw(event.extra),
                    impersonated: raw(event.impersonated),
                    source: string(event.source),
                    agent: string(event.agent),
                    annotations: Vec::new(),
                });
                self.text.extend_from_slice(rest);
                let callers = &self.callers;
                self.index.insert_unique(hash, index, |&index| callers[index as usize].hash);
                index
            }
        };
        self.users[found.user as usize].last = index;
        event.caller = Some(Caller { generation: self.generation, index });
    }

    #[cold]
    fn forget(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }

    /// The length of the annotations at the start of `text`, if the caller's last event had the same.
    #[inline]
    pub fn same_annotations(&self, caller: Option<Caller>, text: &[u8]) -> Option<usize> {
        let last = &self.callers.get(caller?.index as usize)?.annotations;
        (!last.is_empty() && text.starts_with(last)).then_some(last.len())
    }

    /// Keeps the annotations of the caller's last event.
    #[inline]
    pub fn keep_annotations(&mut self, caller: Option<Caller>, text: &[u8]) {
        if let Some(caller) = caller
            && text.len() <= MAX_LENGTH
            && text.is_ascii()
            && let Some(known) = self.callers.get_mut(caller.index as usize)
        {
            known.annotations.clear();
            known.annotations.extend_from_slice(text);
        }
    }
}
