//! The protobuf form: `profile.proto` of github.com/google/pprof. All of it is read while the file is still being
//! unpacked; what points from one table into another is looked up when all are there.

use super::Fault;
use super::numbers::{Ids, Numbers};
use super::samples::Samples;
use super::wire::{Field, Message, Walk};
use crate::model::stacks::{Frame, Function, Location, SampleType, Stacks};
use std::collections::HashMap;

/// A pair of texts: a type and its unit.
type TypeIds = (u64, u64, usize);

/// A frame: function by the profile's own number, line, and where in the file it stands.
struct Line {
    function: u32,
    at: u32,
    line: i64,
}

/// What is in the file, by the profile's own numbers. Functions and locations are already where they are to stay.
#[derive(Default)]
struct Tables {
    types: Vec<TypeIds>,
    numbers: Numbers,
    location_ids: Ids,
    lines: Vec<Line>,
    /// Where each function stands.
    function_places: Vec<u32>,
    function_ids: Ids,
    mappings: HashMap<u64, (u64, usize)>,
    drop_frames: (u64, usize),
    keep_frames: (u64, usize),
    preferred: (u64, usize),
}

/// No program writes a profile with more of anything than this.
const MAX_ENTRIES: usize = 1 << 27;

/// Reads a profile while its bytes come. No more of them is kept than the field that has come in part.
#[derive(Default)]
pub(super) struct Reader {
    tables: Tables,
    stacks: Stacks,
    samples: Samples,
    /// What has not been read yet,
    rest: Vec<u8>,
    /// and where in the file it begins.
    at: usize,
}

impl Reader {
    /// Reads what comes next.
    pub(super) fn go_on(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let mut walk = Walk::new(Message { bytes: &rest, offset: self.at });
        let begins = self.at;
        // What can't be read may be there only in part: at the end it is known.
        while let Ok(Some((number, field))) = walk.next() {
            self.take(number, field, self.at)?;
            self.at = walk.offset();
        }
        rest.drain(..self.at - begins);
        self.rest = rest;
        Ok(())
    }

    /// What has been read, when there is nothing more to come.
    pub(super) fn finish(mut self) -> Result<Stacks, Fault> {
        // What could not be read before can't be now: this says why.
        Walk::new(Message { bytes: &self.rest, offset: self.at }).next()?;
        let Tables { location_ids, numbers, .. } = resolve(self.tables, &mut self.stacks)?;
        self.samples.finish(&mut self.stacks, &location_ids, &numbers)?;
        Ok(self.stacks)
    }

    /// Takes a field in, which begins at `at`.
    fn take(&mut self, number: u64, field: Field<'_>, at: usize) -> Result<(), Fault> {
        let Self { tables, stacks, samples, .. } = self;
        match number {
            1 => tables.types.push(pair(field.message(at, "a sample type")?)?),
            2 => samples.add(field.message(at, "a sample")?, &mut tables.numbers),
            3 => {
                let (id, file) = mapping(field.message(at, "a mapping")?)?;
                if id == 0 || tables.mappings.insert(id, (file, at)).is_some() {
                    return Err(Fault::at_byte(at, format!("is a duplicate mapping {id}, or has ID 0")));
                }
            }
            4 => location(field.message(at, "a location")?, at, tables, stacks)?,
            5 => function(field.message(at, "a function")?, at, tables, stacks)?,
            6 => {
                let text = field.message(at, "a text")?;
                if stacks.texts() == 0 && !text.bytes.is_empty() {
                    return Err(Fault::at_byte(at, "is the first string, which must be empty"));
                }
                // Names that are not UTF-8 are still better than none.
                let added = match std::str::from_utf8(text.bytes) {
                    Ok(text) => stacks.add_text(text),
                    Err(_) => stacks.add_text(&String::from_utf8_lossy(text.bytes)),
                };
                added.ok_or_else(|| Fault::at_byte(at, "exceeds the number of strings"))?;
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

fn location(message: Message<'_>, start: usize, tables: &mut Tables, stacks: &mut Stacks) -> Result<(), Fault> {
    let (mut id, mut mapping) = (0, 0);
    let mut location = Location { first: tables.lines.len() as u32, ..Location::default() };
    let mut walk = Walk::new(message);
    loop {
        let at = walk.offset();
        let Some((number, field)) = walk.next()? else { break };
        match number {
            1 => id = field.number(at, "a location's number")?,
            2 => mapping = field.number(at, "a location's mapping")?,
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
                tables.lines.push(Line { function: tables.numbers.shorter(function), at: at as u32, line });
            }
            _ => {}
        }
    }
    (location.object, location.end) = (tables.numbers.shorter(mapping), tables.lines.len() as u32);
    if tables.lines.len() > MAX_ENTRIES || !tables.location_ids.add(id, stacks.locations.len() as u32) || id == 0 {
        return Err(Fault::at_byte(start, format!("is a duplicate location {id}, or has ID 0")));
    }
    stacks.locations.push(location);
    Ok(())
}

fn function(message: Message<'_>, start: usize, tables: &mut Tables, stacks: &mut Stacks) -> Result<(), Fault> {
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
    if !tables.function_ids.add(id, stacks.functions.len() as u32) || id == 0 {
        return Err(Fault::at_byte(start, format!("is a duplicate function {id}, or has ID 0")));
    }
    let name = if name == 0 { system } else { name };
    let (name, file) = (tables.numbers.shorter(name), tables.numbers.shorter(file));
    stacks.functions.push(Function { name, file, start_line: line });
    tables.function_places.push(start as u32);
    Ok(())
}

/// Turns the profile's own numbers into ours; every one must be of something that there is.
fn resolve(mut tables: Tables, stacks: &mut Stacks) -> Result<Tables, Fault> {
    let texts = stacks.texts();
    let text = |number: u64, at: usize, what: &str| {
        let known = u32::try_from(number).ok().filter(|known| number == 0 || (*known as usize) < texts);
        known.ok_or_else(|| {
            Fault::at_byte(at, format!("references string {number} as {what}, but the profile has {texts} strings"))
        })
    };
    let mut types = Vec::with_capacity(tables.types.len());
    for &(name, unit, at) in &tables.types {
        let (name, unit) = (text(name, at, "a sample type")?, text(unit, at, "a unit")?);
        types.push(SampleType { name: stacks.text(name).to_owned(), unit: stacks.text(unit).to_owned() });
    }
    let lines = std::mem::take(&mut tables.lines);
    let Tables { numbers, function_ids, mappings, .. } = &tables;
    // A text has the same number with us.
    for (function, at) in stacks.functions.iter().zip(&tables.function_places) {
        text(numbers.whole(function.name), *at as usize, "a function")?;
        text(numbers.whole(function.file), *at as usize, "a file")?;
    }
    let frames = lines.into_iter().map(|Line { function, at, line }| {
        let function = numbers.whole(function);
        let fault =
            || Fault::at_byte(at as usize, format!("references function {function}, which the profile does not have"));
        Ok(Frame { function: function_ids.get(function).ok_or_else(fault)?, line })
    });
    stacks.frames = frames.collect::<Result<_, _>>()?;
    // Nearly all are in the program itself; no mapping has the number 0.
    let mut last = (0, 0);
    for location in &mut stacks.locations {
        if location.object != last.0 {
            let known = mappings.get(&numbers.whole(location.object));
            last = (location.object, known.map_or(Ok(0), |&(file, at)| text(file, at, "a mapping's file"))?);
        }
        location.object = last.1;
    }
    let of = |(number, at): (u64, usize), what| text(number, at, what).map(|number| stacks.text(number).to_owned());
    let drop_frames = of(tables.drop_frames, "drop_frames")?;
    let keep_frames = of(tables.keep_frames, "keep_frames")?;
    let preferred = of(tables.preferred, "default_sample_type")?;
    stacks.preferred = types.iter().position(|kind: &SampleType| !preferred.is_empty() && kind.name == preferred);
    (stacks.types, stacks.drop_frames, stacks.keep_frames) = (types, drop_frames, keep_frames);
    Ok(tables)
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
