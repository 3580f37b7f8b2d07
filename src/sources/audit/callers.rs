//! Who called, recognised at a glance.
//!
//! One caller's events repeat user name, uid, groups, extra, address and agent byte for byte, and mostly
//! the rule that let the request in. These texts are parsed once, kept, and afterwards compared: a
//! `memcmp` in place of some twenty strings to walk over. What is equal byte for byte parses equally,
//! so this changes nothing but the time a pass takes.

use crate::model::event::{Caller, Event};
use crate::model::json::JsonStr;
use crate::model::walk::{Cursor, quick_hash};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::ops::Range;

/// Bytes that are hashed to find a user; the rest is compared.
const PREFIX: usize = 64;

/// Slots of the table at first, when few lines may come, and at most; powers of two.
const SLOTS: [usize; 2] = [1 << 6, 1 << 16];

/// Callers remembered before all are forgotten: more than a fleet of 10,000 nodes has.
const MAX_CALLERS: usize = 1 << 15;

/// Bytes of text remembered before all is forgotten.
const MAX_TEXT: usize = 32 << 20;

/// Users with one hash that are compared at most.
const MAX_CHAIN: usize = 24;

/// Longest text that is remembered.
const MAX_LENGTH: usize = 2048;

/// Different annotations remembered before all are forgotten: about as many as there are bindings of roles.
const MAX_ANNOTATIONS: usize = 1 << 14;

/// Callers met by one thread.
#[derive(Debug, Default)]
pub struct Callers {
    /// The latest user and caller of each hash; empty before the first is met.
    slots: Vec<(u32, u32)>,
    users: Vec<User>,
    callers: Vec<CallerEntry>,
    /// Callers by user and the rest of their text.
    index: HashTable<u32>,
    text: Vec<u8>,
    annotations: Annotations,
    generation: u32,
    hasher: FixedState,
}

/// A user: name, uid, groups.
#[derive(Debug)]
struct User {
    /// Where its text stands in `Callers::text`.
    from: usize,
    length: usize,
    hash: usize,
    /// The next in the same slot; `NONE` ends.
    next: u32,
    non_ascii: bool,
    user: Span,
    groups: Span,
    /// The caller of its last event; `NONE` before one is known.
    last: u32,
}

/// A caller: a user with all that stands behind it, up to the end of the agent. Of a large cluster's callers the caches
/// of a processor hold few: each is one line of them.
#[derive(Debug)]
#[repr(align(64))]
struct CallerEntry {
    /// Where its text stands in `Callers::text`, that of the user included.
    from: usize,
    hash: u64,
    length: u16,
    user: Span,
    groups: Span,
    extra: Span,
    impersonated: Span,
    source: Span,
    agent: Span,
    number: u32,
    /// The annotations of its last event, mostly the rule by which it was let in; `NONE` before it had some.
    annotations: u32,
    non_ascii: bool,
}

const _: () = assert!(size_of::<CallerEntry>() == 64 && MAX_LENGTH < 1 << 15);

const NONE: u32 = u32::MAX;

/// A part of a caller's text, and whether it holds escapes.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    /// Twice where it begins, and one if it holds escapes.
    from: u16,
    to: u16,
}

impl Span {
    fn of(text: &[u8], part: &[u8], escaped: bool) -> Self {
        if part.is_empty() {
            return Self::default();
        }
        // `part` is borrowed from `text`, which is no longer than `MAX_LENGTH`.
        let from = part.as_ptr() as usize - text.as_ptr() as usize;
        Self { from: (from << 1) as u16 | u16::from(escaped), to: (from + part.len()) as u16 }
    }

    #[inline]
    fn bytes<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[usize::from(self.from >> 1)..usize::from(self.to)]
    }

    #[inline]
    fn string<'a>(&self, text: &'a [u8]) -> JsonStr<'a> {
        JsonStr::new(self.bytes(text), self.from & 1 == 1)
    }
}

/// How much of a caller was recognised.
#[derive(Debug, Clone, Copy)]
pub struct CallerMatch {
    /// Where what was recognised ends.
    pub end: usize,
    /// Whether that holds bytes that are not ASCII.
    pub non_ascii: bool,
    /// The user's number and slot.
    user: u32,
    slot: usize,
    /// Whether it is all of the caller, not only the user.
    pub whole: bool,
}

impl Callers {
    #[inline]
    fn hash(text: &[u8]) -> Option<usize> {
        Some(quick_hash(text.first_chunk::<PREFIX>()?, 0) as usize)
    }

    /// Makes more slots; four for each user.
    #[cold]
    fn grow(&mut self) {
        let count = (self.slots.len() * 8).clamp(SLOTS[0], SLOTS[1]);
        self.slots = vec![(NONE, NONE); count];
        for (number, user) in self.users.iter_mut().enumerate() {
            let slot = &mut self.slots[user.hash & (count - 1)];
            user.next = slot.0;
            *slot = (number as u32, user.last);
        }
    }

    /// Fills `event` with the caller whose text starts at `start`, if it is the last that was met with its hash
    /// or the user's last one; else with the user, if it was met before.
    #[inline]
    pub fn find<'a>(&mut self, text: &'a [u8], start: usize, event: &mut Event<'a>) -> Option<CallerMatch> {
        let text = &text[start..];
        let slot = Self::hash(text)? & self.slots.len().wrapping_sub(1);
        let &(number, latest) = self.slots.get(slot)?;
        match self.whole(latest, text, start, slot, event) {
            Some(found) => Some(found),
            None => self.find_user(number, text, start, slot, event),
        }
    }

    #[inline]
    fn whole<'a>(
        &self,
        index: u32,
        text: &'a [u8],
        start: usize,
        slot: usize,
        event: &mut Event<'a>,
    ) -> Option<CallerMatch> {
        let known = self.callers.get(index as usize)?;
        let length = usize::from(known.length);
        if text.get(..length) != Some(&self.text[known.from..known.from + length]) {
            return None;
        }
        event.caller = Some(Caller { generation: self.generation, index });
        event.user = known.user.string(text);
        event.groups = known.groups.bytes(text);
        event.extra = known.extra.bytes(text);
        event.impersonated = known.impersonated.bytes(text);
        event.source = known.source.string(text);
        event.agent = known.agent.string(text);
        Some(CallerMatch { end: start + length, non_ascii: known.non_ascii, user: known.number, slot, whole: true })
    }

    #[inline(never)]
    fn find_user<'a>(
        &mut self,
        mut number: u32,
        text: &'a [u8],
        start: usize,
        slot: usize,
        event: &mut Event<'a>,
    ) -> Option<CallerMatch> {
        loop {
            let user = self.users.get(number as usize)?;
            if text.get(..user.length) == Some(&self.text[user.from..user.from + user.length]) {
                if let Some(found) = self.whole(user.last, text, start, slot, event) {
                    self.slots[slot].1 = user.last;
                    return Some(found);
                }
                event.user = user.user.string(text);
                event.groups = user.groups.bytes(text);
                return Some(CallerMatch {
                    end: start + user.length,
                    non_ascii: user.non_ascii,
                    user: number,
                    slot,
                    whole: false,
                });
            }
            number = user.next;
        }
    }

    /// Remembers the user that `event` was just filled with from `text[start..end]`.
    #[cold]
    pub fn remember_user<'a>(
        &mut self,
        text: &'a [u8],
        start: usize,
        end: usize,
        non_ascii: bool,
        event: &Event<'a>,
    ) -> Option<CallerMatch> {
        let hash = Self::hash(&text[start..end]).filter(|_| end - start <= MAX_LENGTH)?;
        if self.users.len() >= MAX_CALLERS {
            self.forget();
        }
        if self.slots.len() < SLOTS[1] && self.users.len() * 4 >= self.slots.len() {
            self.grow();
        }
        let slot = hash & (self.slots.len() - 1);
        let mut chain = 0;
        let mut last = self.slots[slot].0;
        while let Some(user) = self.users.get(last as usize) {
            chain += 1;
            last = user.next;
        }
        if chain >= MAX_CHAIN {
            self.slots[slot].0 = NONE;
        }
        let number = self.users.len() as u32;
        self.users.push(User {
            from: self.text.len(),
            length: end - start,
            hash,
            next: self.slots[slot].0,
            non_ascii,
            user: Span::of(&text[start..end], event.user.raw(), event.user.is_escaped()),
            groups: Span::of(&text[start..end], event.groups, false),
            last: NONE,
        });
        self.text.extend_from_slice(&text[start..end]);
        self.slots[slot].0 = number;
        Some(CallerMatch { end, non_ascii, user: number, slot, whole: false })
    }

    /// Remembers the caller of `event`: a known user and what `event` was just filled with from
    /// `text[whole]`, which begins with the user and ends with the agent.
    pub fn remember<'a>(
        &mut self,
        found: CallerMatch,
        text: &'a [u8],
        whole: Range<usize>,
        non_ascii: bool,
        event: &mut Event<'a>,
    ) {
        let text = &text[whole];
        if text.len() > MAX_LENGTH {
            return;
        }
        let hash = self.hasher.hash_one(text);
        let (callers, texts) = (&self.callers, &self.text);
        let same = |&index: &u32| {
            let known = &callers[index as usize];
            known.hash == hash && &texts[known.from..known.from + usize::from(known.length)] == text
        };
        let index = match self.index.find(hash, same) {
            Some(&index) => index,
            None if self.callers.len() >= MAX_CALLERS || self.text.len() >= MAX_TEXT => return self.forget(),
            None => {
                let index = self.callers.len() as u32;
                let string = |part: JsonStr<'a>| Span::of(text, part.raw(), part.is_escaped());
                let raw = |part: &'a [u8]| Span::of(text, part, false);
                self.callers.push(CallerEntry {
                    from: self.text.len(),
                    length: text.len() as u16,
                    hash,
                    number: found.user,
                    non_ascii: non_ascii | found.non_ascii,
                    user: string(event.user),
                    groups: raw(event.groups),
                    extra: raw(event.extra),
                    impersonated: raw(event.impersonated),
                    source: string(event.source),
                    agent: string(event.agent),
                    annotations: NONE,
                });
                self.text.extend_from_slice(text);
                let callers = &self.callers;
                self.index.insert_unique(hash, index, |&index| callers[index as usize].hash);
                index
            }
        };
        self.users[found.user as usize].last = index;
        self.slots[found.slot].1 = index;
        event.caller = Some(Caller { generation: self.generation, index });
    }

    #[cold]
    fn forget(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }

    /// The length of the annotations at the start of `text`, if the caller's last event had the same, and whether they
    /// hold only the reason.
    #[inline]
    pub fn same_annotations(&self, caller: Option<Caller>, text: &[u8]) -> Option<(usize, bool)> {
        self.annotations.at(self.callers.get(caller?.index as usize)?.annotations, text)
    }

    /// Keeps the annotations of the caller's last event.
    #[inline]
    pub fn keep_annotations(&mut self, caller: Option<Caller>, text: &[u8]) {
        let Some(index) =
            caller.map(|caller| caller.index as usize).filter(|_| text.len() <= MAX_LENGTH && text.is_ascii())
        else {
            return;
        };
        let number = self.annotations.number(text, self.hasher.hash_one(text));
        if number.is_none() {
            self.annotations = Annotations::default();
            self.callers.iter_mut().for_each(|known| known.annotations = NONE);
        }
        if let Some(known) = self.callers.get_mut(index) {
            known.annotations = number.unwrap_or(NONE);
        }
    }
}

/// Annotations, each once: many callers are let in by the same rule.
#[derive(Debug, Default)]
struct Annotations {
    all: Vec<Annotation>,
    index: HashTable<u32>,
    text: Vec<u8>,
}

#[derive(Debug)]
struct Annotation {
    hash: u64,
    from: u32,
    to: u32,
    /// Whether they hold `authorization.k8s.io/decision` and `/reason` and nothing else.
    only_reason: bool,
}

impl Annotations {
    /// The length of those with a number, if they stand at the start of `text`, and whether they hold only the reason.
    #[inline]
    fn at(&self, number: u32, text: &[u8]) -> Option<(usize, bool)> {
        let one = self.all.get(number as usize)?;
        let own = &self.text[one.from as usize..one.to as usize];
        text.starts_with(own).then_some((own.len(), one.only_reason))
    }

    /// The number of `text`, none of which is empty; `None` where there is no room for another.
    fn number(&mut self, text: &[u8], hash: u64) -> Option<u32> {
        let (all, texts) = (&self.all, &self.text);
        let of = |one: &Annotation| &texts[one.from as usize..one.to as usize];
        if let Some(&number) = self.index.find(hash, |&number| of(&all[number as usize]) == text) {
            return Some(number);
        }
        if self.all.len() >= MAX_ANNOTATIONS {
            return None;
        }
        let (number, from) = (self.all.len() as u32, self.text.len() as u32);
        self.text.extend_from_slice(text);
        self.all.push(Annotation {
            hash,
            from,
            to: self.text.len() as u32,
            only_reason: holds_only_reason(text).is_some(),
        });
        let all = &self.all;
        self.index.insert_unique(hash, number, |&number| all[number as usize].hash);
        Some(number)
    }
}

/// Whether annotations hold `authorization.k8s.io/decision` and `/reason` and nothing else.
fn holds_only_reason(text: &[u8]) -> Option<()> {
    let mut at = Cursor::new(text);
    at.need(br#"{"authorization.k8s.io/decision":""#)?;
    at.string()?;
    at.need(br#","authorization.k8s.io/reason":""#)?;
    at.string()?;
    at.need(b"}")?;
    at.is_done().then_some(())
}
