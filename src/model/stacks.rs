//! Stacks with weights, as a profile holds them. Everything is a number into some table, and what many stacks share
//! stands there once: a profile takes about as much memory as its unpacked file.

use super::time::Micros;

/// What a value of a sample counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleType {
    /// Its name: `inuse_space`.
    pub name: String,
    /// Its unit: `bytes`, `count`.
    pub unit: String,
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Its name, a text.
    pub name: u32,
    /// Its file, a text.
    pub file: u32,
    /// Its first line; 0 where that is not known.
    pub start_line: i64,
}

/// A call: a line in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub function: u32,
    /// The line; 0 where that is not known.
    pub line: i64,
}

/// A place in the program: the calls that were inlined there, innermost first, and the function that they are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Location {
    pub address: u64,
    /// The file of the program or library that it is in, a text; 0 where that is not known.
    pub object: u32,
    /// Its frames: from here
    pub first: u32,
    /// to here.
    pub end: u32,
}

/// What a Go program's runtime says of its memory as a whole (`runtime.MemStats`), in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Runtime {
    /// `HeapInuse`: spans with objects.
    pub in_use: Option<u64>,
    /// `HeapIdle`: spans without; holds what was released.
    pub idle: Option<u64>,
    /// `HeapReleased`: given back to the kernel.
    pub released: Option<u64>,
    /// `StackInuse`: stacks of goroutines.
    pub stacks: Option<u64>,
    /// `Sys`: all that the runtime has asked the kernel for.
    pub total: Option<u64>,
    /// `NextGC`: the heap's size at which the next collection is due.
    pub next_gc: Option<u64>,
}

/// A profile: stacks, and what each weighs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stacks {
    /// What is counted.
    pub types: Vec<SampleType>,
    /// The type that the profile itself says to show, if it does.
    pub preferred: Option<usize>,
    /// When it was taken.
    pub at: Option<Micros>,
    /// How long it took.
    pub duration: Micros,
    /// One sample stands for this many units.
    pub period: i64,
    /// The runtime's account of all memory, which only the text form has.
    pub runtime: Runtime,
    /// Functions that its maker wants left out, with all that they call: a regular expression.
    pub drop_frames: String,
    /// Functions that are kept all the same.
    pub keep_frames: String,
    pub functions: Vec<Function>,
    /// Frames of all locations.
    pub frames: Vec<Frame>,
    pub locations: Vec<Location>,
    texts: String,
    /// Where each text ends in `texts`.
    text_ends: Vec<u32>,
    /// Locations of all samples, leaf first.
    calls: Vec<u32>,
    /// Where each sample's locations end in `calls`.
    call_ends: Vec<u32>,
    /// One value for each type, sample by sample.
    values: Vec<i64>,
}

impl Stacks {
    /// A profile of these types without any sample.
    pub fn of(types: Vec<SampleType>) -> Self {
        Self { types, ..Self::default() }
    }

    /// Adds a text, and gives its number; `None` if there is no room.
    pub fn add_text(&mut self, text: &str) -> Option<u32> {
        let end = u32::try_from(self.texts.len() + text.len()).ok()?;
        self.texts.push_str(text);
        self.text_ends.push(end);
        u32::try_from(self.text_ends.len() - 1).ok()
    }

    /// How many texts there are.
    pub fn texts(&self) -> usize {
        self.text_ends.len()
    }

    /// A text; empty if there is none of this number.
    pub fn text(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).and_then(|before| self.text_ends.get(before)).copied().unwrap_or(0);
        self.text_ends.get(number).and_then(|end| self.texts.get(start as usize..*end as usize)).unwrap_or_default()
    }

    /// Adds a sample; `false` if there is no room, or if it has not one value for each type.
    pub fn add_sample(&mut self, locations: &[u32], values: &[i64]) -> bool {
        let Ok(end) = u32::try_from(self.calls.len() + locations.len()) else { return false };
        if values.len() != self.types.len() {
            return false;
        }
        self.calls.extend_from_slice(locations);
        self.call_ends.push(end);
        self.values.extend_from_slice(values);
        true
    }

    /// Gives it these samples instead of its own: locations of all, where those of each end, and one value for each
    /// type, sample by sample. `false` if that does not fit together.
    pub fn set_samples(&mut self, calls: Vec<u32>, call_ends: Vec<u32>, values: Vec<i64>) -> bool {
        let fits = call_ends.last().map_or(0, |end| *end as usize) == calls.len()
            && values.len() == call_ends.len() * self.types.len();
        if fits {
            (self.calls, self.call_ends, self.values) = (calls, call_ends, values);
        }
        fits
    }

    /// How many samples there are.
    pub fn samples(&self) -> usize {
        self.call_ends.len()
    }

    /// The locations of a sample, leaf first.
    pub fn stack(&self, sample: usize) -> &[u32] {
        let start = sample.checked_sub(1).and_then(|before| self.call_ends.get(before)).copied().unwrap_or(0);
        self.call_ends.get(sample).and_then(|end| self.calls.get(start as usize..*end as usize)).unwrap_or_default()
    }

    /// What a sample weighs by a type. Readers take no negative values.
    pub fn value(&self, sample: usize, kind: usize) -> u64 {
        self.values.get(sample * self.types.len() + kind).map_or(0, |value| u64::try_from(*value).unwrap_or(0))
    }

    /// All samples together.
    pub fn total(&self, kind: usize) -> u64 {
        (0..self.samples()).fold(0, |sum, sample| sum.saturating_add(self.value(sample, kind)))
    }

    /// The frames of a location, innermost first.
    pub fn frames_of(&self, location: u32) -> &[Frame] {
        self.locations
            .get(location as usize)
            .and_then(|l| self.frames.get(l.first as usize..l.end as usize))
            .unwrap_or_default()
    }

    /// The name of a frame's function.
    pub fn name(&self, frame: Frame) -> &str {
        self.functions.get(frame.function as usize).map_or("", |function| self.text(function.name))
    }

    /// The file of a frame's function.
    pub fn file(&self, frame: Frame) -> &str {
        self.functions.get(frame.function as usize).map_or("", |function| self.text(function.file))
    }

    /// The number of a type.
    pub fn type_named(&self, name: &str) -> Option<usize> {
        self.types.iter().position(|kind| kind.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_and_what_is_not_there_is_empty() {
        let mut stacks =
            Stacks { types: vec![SampleType { name: "a".into(), unit: "count".into() }], ..Stacks::default() };
        assert_eq!((stacks.add_text(""), stacks.add_text("é"), stacks.add_text("b")), (Some(0), Some(1), Some(2)));
        assert_eq!((stacks.text(0), stacks.text(1), stacks.text(2), stacks.text(3)), ("", "é", "b", ""));
        assert!(stacks.add_sample(&[1, 2], &[5]) && stacks.add_sample(&[], &[7]) && !stacks.add_sample(&[], &[]));
        assert_eq!((stacks.stack(0), stacks.stack(1), stacks.stack(2)), (&[1, 2][..], &[][..], &[][..]));
        assert_eq!((stacks.value(1, 0), stacks.value(9, 0), stacks.total(0)), (7, 0, 12));
        assert!(stacks.frames_of(4).is_empty());
    }
}
