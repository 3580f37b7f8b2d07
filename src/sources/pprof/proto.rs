//! The protobuf form: `profile.proto` of github.com/google/pprof. Go writes samples before the tables that they point
//! into, so tables are read first, while the file is still being unpacked, and samples after them, on several threads.

use super::Fault;
use super::wire::{Field, Message, Walk};
use crate::model::stacks::{Frame, Function, Location, SampleType, Stacks};
use std::collections::HashMap;

/// From the numbers that a profile gives its things to our own. They mostly are 1, 2, 3 …
#[derive(Default)]
struct Ids {
    dense: Vec<u32>,
    sparse: HashMap<u64, u32>,
}

impl Ids {
    /// `false` if this one is taken.
    fn add(&mut self, id: u64, own: u32) -> bool {
        if id == self.dense.len() as u64 + 1 && !self.sparse.contains_key(&id) {
            self.dense.push(own);
            return true;
        }
        id > self.dense.len() as u64 && self.sparse.insert(id, own).is_none()
    }

    #[inline]
    fn get(&self, id: u64) -> Option<u32> {
        let dense = usize::try_from(id.wrapping_sub(1)).ok().and_then(|index| self.dense.get(index));
        dense.or_else(|| self.sparse.get(&id)).copied()
    }
}

/// A pair of texts: a type and its unit.
type TypeIds = (u64, u64, usize);

/// What the first pass finds, with texts and functions by the profile's own numbers.
#[derive(Default)]
struct Tables {
    types: Vec<TypeIds>,
    locations: Vec<(Location, u64)>,
    location_ids: Ids,
    /// Function and line of each frame, and where it stands.
    frames: Vec<(u64, i64, usize)>,
    functions: Vec<(u64, u64, i64, usize)>,
    function_ids: Ids,
    mappings: HashMap<u64, (u64, usize)>,
    drop_frames: (u64, usize),
    keep_frames: (u64, usize),
    preferred: (u64, usize),
}

/// More of anything than this is no profile that a program could have written.
const MOST: usize = 1 << 27;

/// A thread is worth its while for this many samples.
const SHARE: usize = 8192;

/// Reads a profile while its bytes come.
#[derive(Default)]
pub(super) struct Reader {
    tables: Tables,
    stacks: Stacks,
    /// The fields before this have been read.
    at: usize,
    /// Where in the bytes samples are: from, to.
    samples: Vec<(usize, usize)>,
}

impl Reader {
    /// Reads on, in bytes that begin with those of the last time.
    pub(super) fn go_on(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let whole = Message { bytes, offset: 0 };
        loop {
            let mut walk = Walk::from(whole, self.at);
            // What can't be read may be there only in part: at the end it is known.
            let Ok(Some((number, field))) = walk.next() else { return Ok(()) };
            self.take(number, field, self.at)?;
            self.at = walk.offset();
        }
    }

    /// Reads the rest of all the bytes.
    pub(super) fn finish(mut self, bytes: &[u8]) -> Result<Stacks, Fault> {
        self.go_on(bytes)?;
        let whole = Message { bytes, offset: 0 };
        // What could not be read before can't be now: this says why.
        Walk::from(whole, self.at).next()?;
        resolve(&self.tables, &mut self.stacks)?;
        let messages: Vec<Message<'_>> =
            self.samples.iter().filter_map(|&(from, to)| Some(Message { bytes: bytes.get(from..to)?, offset: from })).collect();
        samples(&messages, &self.tables, &mut self.stacks)?;
        Ok(self.stacks)
    }

    /// Takes a field in, which begins at `at`.
    fn take(&mut self, number: u64, field: Field<'_>, at: usize) -> Result<(), Fault> {
        let Self { tables, stacks, samples, .. } = self;
        match number {
            1 => tables.types.push(pair(field.message(at, "a sample type")?)?),
            2 => {
                let message = field.message(at, "a sample")?;
                samples.push((message.offset, message.offset + message.bytes.len()));
            }
            3 => {
                let (id, file) = mapping(field.message(at, "a mapping")?)?;
                if id == 0 || tables.mappings.insert(id, (file, at)).is_some() {
                    return Err(Fault::at_byte(at, format!("is a second mapping {id}, or one numbered 0")));
                }
            }
            4 => location(field.message(at, "a location")?, at, tables)?,
            5 => function(field.message(at, "a function")?, at, tables)?,
            6 => {
                let text = field.message(at, "a text")?;
                if stacks.texts() == 0 && !text.bytes.is_empty() {
                    return Err(Fault::at_byte(at, "is the first text, which has to be empty"));
                }
                // Names that are not UTF-8 are still better than none.
                stacks.add_text(&String::from_utf8_lossy(text.bytes)).ok_or_else(|| Fault::at_byte(at, "is one text too many"))?;
            }
            7 => tables.drop_frames = (field.number(at, "drop_frames")?, at),
            8 => tables.keep_frames = (field.number(at, "keep_frames")?, at),
            9 => {
                let nanos = field.number(at, "a time")?.cast_signed();
                stacks.at = Some(nanos / 1000).filter(|micros| *micros > 0);
            }
            10 => stacks.duration = field.number(at, "a duration")?.cast_signed() / 1000,
            12 => stacks.period = field.number(at, "a period")?.cast_signed(),
            14 => tables.preferred = (field.number(at, "default_sample_type")?, at),
            // Comments, and what later versions may add, say nothing of stacks.
            _ => {}
        }
        Ok(())
    }
}

/// Type and unit.
fn pair(message: Message<'_>) -> Result<TypeIds, Fault> {
    let (mut name, mut unit) = (0, 0);
    let mut walk = Walk::new(message);
    loop {
        let at = walk.offset();
        match walk.next()? {
            Some((1, field)) => name = field.number(at, "a sample type's name")?,
            Some((2, field)) => unit = field.number(at, "a sample type's unit")?,
            Some(_) => {}
            None => return Ok((name, unit, message.offset)),
        }
    }
}

fn mapping(message: Message<'_>) -> Result<(u64, u64), Fault> {
    let (mut id, mut file) = (0, 0);
    let mut walk = Walk::new(message);
    loop {
        let at = walk.offset();
        match walk.next()? {
            Some((1, field)) => id = field.number(at, "a mapping's number")?,
            Some((5, field)) => file = field.number(at, "a mapping's file")?,
            Some(_) => {}
            None => return Ok((id, file)),
        }
    }
}

fn location(message: Message<'_>, start: usize, tables: &mut Tables) -> Result<(), Fault> {
    let (mut id, mut object) = (0, 0);
    let mut location = Location { first: tables.frames.len() as u32, ..Location::default() };
    let mut walk = Walk::new(message);
    loop {
        let at = walk.offset();
        let Some((number, field)) = walk.next()? else { break };
        match number {
            1 => id = field.number(at, "a location's number")?,
            2 => object = field.number(at, "a location's mapping")?,
            3 => location.address = field.number(at, "an address")?,
            4 => {
                let (mut function, mut line) = (0, 0);
                let mut inner = Walk::new(field.message(at, "a line")?);
                loop {
                    let at = inner.offset();
                    match inner.next()? {
                        Some((1, field)) => function = field.number(at, "a line's function")?,
                        Some((2, field)) => line = field.number(at, "a line's number")?.cast_signed(),
                        Some(_) => {}
                        None => break,
                    }
                }
                tables.frames.push((function, line, at));
            }
            _ => {}
        }
    }
    location.end = tables.frames.len() as u32;
    if tables.frames.len() > MOST || !tables.location_ids.add(id, tables.locations.len() as u32) || id == 0 {
        return Err(Fault::at_byte(start, format!("is a second location {id}, or one numbered 0")));
    }
    tables.locations.push((location, object));
    Ok(())
}

fn function(message: Message<'_>, start: usize, tables: &mut Tables) -> Result<(), Fault> {
    let (mut id, mut name, mut system, mut file, mut line) = (0, 0, 0, 0, 0);
    let mut walk = Walk::new(message);
    loop {
        let at = walk.offset();
        match walk.next()? {
            Some((1, field)) => id = field.number(at, "a function's number")?,
            Some((2, field)) => name = field.number(at, "a function's name")?,
            Some((3, field)) => system = field.number(at, "a function's system name")?,
            Some((4, field)) => file = field.number(at, "a function's file")?,
            Some((5, field)) => line = field.number(at, "a function's line")?.cast_signed(),
            Some(_) => {}
            None => break,
        }
    }
    if !tables.function_ids.add(id, tables.functions.len() as u32) || id == 0 {
        return Err(Fault::at_byte(start, format!("is a second function {id}, or one numbered 0")));
    }
    let name = if name == 0 { system } else { name };
    tables.functions.push((name, file, line, start));
    Ok(())
}

/// Turns the profile's own numbers into ours; every one must be of something that there is.
fn resolve(tables: &Tables, stacks: &mut Stacks) -> Result<(), Fault> {
    let texts = stacks.texts();
    let text = |number: u64, at: usize, what: &str| {
        let known = u32::try_from(number).ok().filter(|known| number == 0 || (*known as usize) < texts);
        known.ok_or_else(|| Fault::at_byte(at, format!("names text {number} as {what}, but the profile has {texts} texts")))
    };
    let mut types = Vec::with_capacity(tables.types.len());
    for &(name, unit, at) in &tables.types {
        let (name, unit) = (text(name, at, "a sample type")?, text(unit, at, "a unit")?);
        types.push(SampleType { name: stacks.text(name).to_owned(), unit: stacks.text(unit).to_owned() });
    }
    let mut functions = Vec::with_capacity(tables.functions.len());
    for &(name, file, start_line, at) in &tables.functions {
        functions.push(Function { name: text(name, at, "a function")?, file: text(file, at, "a file")?, start_line });
    }
    let mut frames = Vec::with_capacity(tables.frames.len());
    for &(function, line, at) in &tables.frames {
        let known = tables.function_ids.get(function);
        let function = known.ok_or_else(|| Fault::at_byte(at, format!("names function {function}, which the profile does not have")))?;
        frames.push(Frame { function, line });
    }
    let mut locations = Vec::with_capacity(tables.locations.len());
    for &(location, object) in &tables.locations {
        let object = match tables.mappings.get(&object) {
            Some(&(file, at)) => text(file, at, "a mapping's file")?,
            None => 0,
        };
        locations.push(Location { object, ..location });
    }
    let of = |(number, at): (u64, usize), what| text(number, at, what).map(|number| stacks.text(number).to_owned());
    let drop_frames = of(tables.drop_frames, "drop_frames")?;
    let keep_frames = of(tables.keep_frames, "keep_frames")?;
    let preferred = of(tables.preferred, "default_sample_type")?;
    stacks.preferred = types.iter().position(|kind: &SampleType| !preferred.is_empty() && kind.name == preferred);
    (stacks.types, stacks.functions, stacks.frames, stacks.locations) = (types, functions, frames, locations);
    (stacks.drop_frames, stacks.keep_frames) = (drop_frames, keep_frames);
    Ok(())
}

/// Reads the samples, on several threads where there are many.
fn samples(messages: &[Message<'_>], tables: &Tables, stacks: &mut Stacks) -> Result<(), Fault> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(messages.len() / SHARE).max(1);
    let share = messages.len().div_ceil(threads).max(1);
    let types = &stacks.types;
    let parts: Vec<Result<Stacks, Fault>> = std::thread::scope(|scope| {
        let part = |number: usize, messages| some_samples(messages, number * share, tables, types);
        let mut shares = messages.chunks(share).enumerate();
        let first = shares.next();
        let others: Vec<_> = shares.map(|(number, messages)| scope.spawn(move || part(number, messages))).collect();
        let first = first.map(|(number, messages)| part(number, messages));
        let gone = |_| Err(Fault::at_byte(0, "could not be read: a thread of plimsoll ended"));
        first.into_iter().chain(others.into_iter().map(|other| other.join().unwrap_or_else(gone))).collect()
    });
    for part in parts {
        if !stacks.append_samples(part?) {
            return Err(Fault::at_byte(messages.last().map_or(0, |last| last.offset), "is one sample too many"));
        }
    }
    // Together they may be too much where each part was not: then one after the other tells where.
    let mut sums = (0..stacks.types.len()).map(|kind| stacks.checked_total(kind));
    if threads > 1 && sums.any(|sum| sum.is_none()) {
        some_samples(messages, 0, tables, &stacks.types)?;
    }
    Ok(())
}

/// Samples that follow on `before` others.
fn some_samples(messages: &[Message<'_>], before: usize, tables: &Tables, types: &[SampleType]) -> Result<Stacks, Fault> {
    let mut stacks = Stacks::of(types.to_vec());
    let (mut stack, mut values) = (Vec::new(), Vec::new());
    let mut totals = vec![0i64; types.len()];
    for message in messages {
        let start = message.offset;
        let count = before + stacks.samples() + 1;
        stack.clear();
        values.clear();
        let mut inner = Walk::new(*message);
        loop {
            let at = inner.offset();
            let Some((number, field)) = inner.next()? else { break };
            match number {
                1 => field.numbers(at, "locations", |id| {
                    let known = tables.location_ids.get(id);
                    let fault = || Fault::at_byte(at, format!("(sample {count}) names location {id}, which the profile does not have"));
                    stack.push(known.ok_or_else(fault)?);
                    Ok(())
                })?,
                2 => field.numbers(at, "values", |value| {
                    values.push(value.cast_signed());
                    Ok(())
                })?,
                _ => {}
            }
        }
        if values.len() != types.len() {
            let (values, types) = (values.len(), types.len());
            return Err(Fault::at_byte(start, format!("(sample {count}) has {values} values, but the profile {types} sample types")));
        }
        for ((value, total), kind) in values.iter().zip(&mut totals).zip(types) {
            if *value < 0 {
                return Err(Fault::negative(Fault::at_byte(start, ""), &format!("(sample {count}) has a negative {}: {value}", kind.name)));
            }
            let sum = total.checked_add(*value);
            *total = sum.ok_or_else(|| Fault::at_byte(start, format!("(sample {count}) takes all {} above 2^63", kind.name)))?;
        }
        if !stacks.add_sample(&stack, &values) {
            return Err(Fault::at_byte(start, "is one sample too many"));
        }
    }
    Ok(stacks)
}

/// Whether a file that begins so is a profile: fields of one, of the right kinds, with a sample type among them.
pub(super) fn begins_like_one(head: &[u8]) -> bool {
    let mut walk = Walk::new(Message { bytes: head, offset: 0 });
    let mut types = 0;
    let mut fields = 0;
    loop {
        match walk.next() {
            Ok(Some((number @ (1 | 11), Field::Bytes(message)))) => {
                // Two small numbers, and nothing else.
                if message.bytes.len() > 12 || pair(message).is_err() {
                    return false;
                }
                types += usize::from(number == 1);
            }
            Ok(Some((2..=6 | 13, Field::Bytes(_)) | (7..=10 | 12..=15, Field::Number(_)))) => {}
            Ok(Some(_)) => return false,
            // A field that goes on behind the head, or the end.
            Err(_) | Ok(None) => return types > 0 && fields > 1,
        }
        fields += 1;
    }
}
