//! What was asked for, recognised at a glance: verb and object reference.
//!
//! Most object references differ from others of the same kind only in the object's namespace and name, and
//! perhaps its uid and version. So they are remembered as the texts around those strings: a few comparisons in
//! place of ten keys to look for and five strings to walk over. The texts hold whole tokens and end
//! where a string begins, so what matches them parses as what they were made from did.

use crate::model::event::{Event, Target};
use crate::model::json::JsonStr;
use crate::model::walk::{quick_hash, string_end};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::ops::Range;

/// How the text of an object reference begins, and what is behind it for as long as nothing else matters.
pub const HEAD: &[u8; 26] = br#","objectRef":{"resource":""#;

/// Slots, by the hash of a verb and the first bytes of an object reference: at first, when few lines may
/// come, and at most; powers of two.
const SLOTS: [usize; 2] = [1 << 6, 1 << 12];

/// Targets remembered before all are forgotten.
const MAX_TARGETS: usize = 1 << 14;

/// Longest text that is remembered.
const MAX_LENGTH: usize = 1024;

/// Strings that change: namespace, name, uid, resourceVersion.
const GAPS: usize = 4;

/// Targets met by one thread.
#[derive(Debug, Default)]
pub struct Targets {
    /// The target last met for each hash; empty before the first is met.
    slots: Vec<u32>,
    known: Vec<TargetEntry>,
    index: HashTable<u32>,
    text: Vec<u8>,
    generation: u32,
    hasher: FixedState,
}

#[derive(Debug)]
struct TargetEntry {
    hash: u64,
    /// The verb, as [`Verb`] has it.
    verb: u128,
    /// Where the texts around the gaps end in `Targets::text`; the first starts at `from`.
    from: usize,
    ends: [u32; GAPS + 1],
    /// How many gaps there are, and which of them are namespace and name; `GAPS` is none.
    gaps: usize,
    namespace: usize,
    name: usize,
    resource: Span,
    group: Span,
    subresource: Span,
}

/// A part of a target's text: of which of its texts, and where in it.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    part: u32,
    from: u32,
    to: u32,
}

/// The object reference just parsed, as far as it is remembered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Variable<'a> {
    pub uid: Option<JsonStr<'a>>,
    /// `resourceVersion`.
    pub version: Option<JsonStr<'a>>,
}

impl Targets {
    /// The slots where a target may be found: two by the verb and what stands behind the head, which is the
    /// resource and a part of the next key.
    #[inline(always)]
    fn hashes(text: &[u8], at: usize, verb: u128) -> Option<[usize; 2]> {
        let words = text.get(at + HEAD.len()..)?.first_chunk::<16>()?;
        let hash = quick_hash(words, (verb >> 64) as u64 ^ verb as u64) as usize;
        Some([hash, hash >> 12])
    }

    /// Fills `event` from the object reference whose comma stands at `start`, if one like it was met with this
    /// verb; returns where it ends and whether it holds bytes that are not ASCII.
    #[inline]
    pub fn find<'a>(&self, text: &'a [u8], start: usize, verb: u128, event: &mut Event<'a>) -> Option<(usize, bool)> {
        let [first, second] = Self::hashes(text, start, verb)?;
        let mask = self.slots.len().wrapping_sub(1);
        let first = *self.slots.get(first & mask)?;
        match self.matches(first, text, start, verb, event) {
            Some(found) => Some(found),
            None => self.matches(self.slots[second & mask], text, start, verb, event),
        }
    }

    #[inline(never)]
    fn matches<'a>(
        &self,
        index: u32,
        text: &'a [u8],
        start: usize,
        verb: u128,
        event: &mut Event<'a>,
    ) -> Option<(usize, bool)> {
        let known = self.known.get(index as usize).filter(|known| known.verb == verb)?;
        let mut at = start;
        let mut from = known.from;
        let mut starts = [start; GAPS + 1];
        let mut strings = [JsonStr::default(); GAPS + 1];
        let mut non_ascii = false;
        for part in 0..=known.gaps {
            let to = known.ends[part] as usize;
            starts[part] = at;
            if !text[at..].starts_with(&self.text[from..to]) {
                return None;
            }
            at += to - from;
            from = to;
            if part < known.gaps {
                let end = string_end(text, at)?;
                strings[part] = JsonStr::new(&text[at..end.at], end.escaped);
                non_ascii |= end.non_ascii;
                at = end.at;
            }
        }
        let string = |span: Span| {
            let start = starts[span.part as usize];
            JsonStr::new(&text[start + span.from as usize..start + span.to as usize], false)
        };
        event.name = strings[known.name];
        event.namespace = strings[known.namespace];
        event.resource = string(known.resource);
        event.group = string(known.group);
        event.subresource = string(known.subresource);
        event.target = Some(Target { generation: self.generation, index });
        Some((at, non_ascii))
    }

    /// Remembers the object reference that `event` was just filled with from `text[start..end]`.
    pub fn remember<'a>(
        &mut self,
        text: &'a [u8],
        range: Range<usize>,
        verb: u128,
        variable: Variable<'a>,
        event: &mut Event<'a>,
    ) {
        let Range { start, end } = range;
        let Some(hashes) = Self::hashes(text, start, verb) else { return };
        let texts = [event.resource, event.group, event.subresource];
        if end - start > MAX_LENGTH || !text[start..end].is_ascii() || texts.iter().any(JsonStr::is_escaped) {
            return;
        }
        // All of these are borrowed from `text`.
        let place = |part: &[u8]| part.as_ptr() as usize - text.as_ptr() as usize;
        let mut froms = [start; GAPS + 1];
        let mut parts: [&[u8]; GAPS + 1] = [&[]; GAPS + 1];
        let mut gaps = 0;
        let mut gap = |string: Option<JsonStr<'_>>| {
            let Some(string) = string else { return GAPS };
            parts[gaps] = &text[froms[gaps]..place(string.raw())];
            gaps += 1;
            froms[gaps] = place(string.raw()) + string.raw().len();
            gaps - 1
        };
        let namespace = gap((!event.namespace.is_empty()).then_some(event.namespace));
        let name = gap((!event.name.is_empty()).then_some(event.name));
        gap(variable.uid);
        gap(variable.version);
        parts[gaps] = &text[froms[gaps]..end];
        let parts = &parts[..=gaps];
        let hash = self.hasher.hash_one((verb, parts));
        let (known, all) = (&self.known, &self.text);
        let same = |&index: &u32| {
            let known = &known[index as usize];
            let mut from = known.from;
            let equal = |(part, &to): (&&[u8], &u32)| {
                let equal = *part == &all[from..to as usize];
                from = to as usize;
                equal
            };
            known.hash == hash && known.verb == verb && known.gaps == gaps && parts.iter().zip(&known.ends).all(equal)
        };
        if let Some(&index) = self.index.find(hash, same) {
            self.put(hashes, index);
            event.target = Some(Target { generation: self.generation, index });
            return;
        }
        if self.known.len() >= MAX_TARGETS {
            *self = Self { generation: self.generation + 1, ..Self::default() };
        }
        let span = |string: JsonStr<'_>| {
            if string.is_empty() {
                return Span::default();
            }
            let at = place(string.raw());
            let part = froms[..=gaps].iter().rposition(|&from| from <= at).unwrap_or(0);
            let from = (at - froms[part]) as u32;
            Span { part: part as u32, from, to: from + string.raw().len() as u32 }
        };
        let [resource, group, subresource] = texts.map(span);
        let from = self.text.len();
        let mut ends = [0; GAPS + 1];
        for (part, end) in parts.iter().zip(&mut ends) {
            self.text.extend_from_slice(part);
            *end = self.text.len() as u32;
        }
        let index = self.known.len() as u32;
        self.known.push(TargetEntry { hash, verb, from, ends, gaps, namespace, name, resource, group, subresource });
        let known = &self.known;
        self.index.insert_unique(hash, index, |&index| known[index as usize].hash);
        self.put(hashes, index);
        event.target = Some(Target { generation: self.generation, index });
    }

    fn put(&mut self, [first, second]: [usize; 2], index: u32) {
        if self.slots.len() < SLOTS[1] && self.known.len() * 4 > self.slots.len() {
            // Those that were in the slots are found by their text once more.
            self.slots = vec![u32::MAX; (self.slots.len() * 8).clamp(SLOTS[0], SLOTS[1])];
        }
        let mask = self.slots.len() - 1;
        self.slots[second & mask] = std::mem::replace(&mut self.slots[first & mask], index);
    }
}
