//! Go profiles, as pprof writes them: protobuf, or the legacy text form of heaps; packed or not.
//!
//! [`find`] finds them behind arguments; [`Profile::read`] unpacks and reads one. What is wrong with a profile is
//! reported with its place, and ends the reading: a part of a heap would be a wrong heap.

mod find;
mod numbers;
mod proto;
pub(super) mod recognise;
mod samples;
mod text;
mod wire;

#[cfg(test)]
mod tests;

pub use find::{Group, ProfileDiscovery, find, taken};

use super::open::{Source, SourceError};
use crate::model::stacks::Stacks;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::fmt;
use std::io::{self, Read};

/// Where a Go program that lets itself be looked at has the profile of its heap.
pub const HEAP: &str = "/debug/pprof/heap";

/// A profile may not be longer, unpacked. Those of large apiservers have a few MB.
pub const MAX_PROFILE_BYTES: u64 = 128 << 20;

/// What is wrong with a profile, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// A line from 1, where the profile is text; else the byte, unpacked.
    line: Option<u64>,
    byte: usize,
    what: String,
    advice: &'static str,
}

impl Fault {
    fn at_byte(byte: usize, what: impl Into<String>) -> Self {
        Self {
            line: None,
            byte,
            what: what.into(),
            advice: "take the profile again; go tool pprof -raw shows its content",
        }
    }

    fn at_line(line: u64, what: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::at_byte(0, what) }
    }

    fn negative(place: Self, what: &str) -> Self {
        let advice = "if this is a difference that pprof made, give both profiles to plimsoll heap diff";
        Self { what: what.to_owned(), advice, ..place }
    }
}

/// A profile that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It could not be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Its bytes could not be read or unpacked.
    #[error(
        "{path}: byte {at} of the unpacked profile: {error}; the file is cut off or damaged: take the profile again, \
         or test the file with gzip -t"
    )]
    Damaged {
        /// The file.
        path: String,
        /// How many bytes were unpacked.
        at: usize,
        /// What the system or the decoder said.
        error: std::io::Error,
    },
    /// The profile is incomplete.
    #[error("{path}: {fault}")]
    Broken {
        /// The file.
        path: String,
        /// What is wrong, and where.
        fault: Broken,
    },
}

/// What is wrong with a profile's content, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(Fault);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { line, byte, what, advice } = &self.0;
        match line {
            Some(line) => write!(f, "line {line} {what}; {advice}"),
            None => write!(f, "byte {byte} (unpacked) {what}; {advice}"),
        }
    }
}

/// A profile that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// How it is named in messages.
    pub path: String,
    /// Bytes of the file as it lies on the disk.
    pub bytes: u64,
    /// What it holds.
    pub stacks: Stacks,
}

impl Profile {
    /// Reads `source`.
    pub fn read(mut source: Source) -> Result<Self, ProfileError> {
        let path = source.path.clone();
        let Unpacked { length: at, result } = unpacked(source.reader()?);
        let broken = |fault| ProfileError::Broken { path: path.clone(), fault: Broken(fault) };
        let read = result.map_err(|error| ProfileError::Damaged { path: path.clone(), at, error })?;
        if at as u64 > MAX_PROFILE_BYTES {
            return Err(broken(Fault::at_byte(
                at - 1,
                "is more than a heap profile can be: plimsoll reads up to 128 MiB",
            )));
        }
        let stacks = read.map_err(broken)?;
        Ok(Self { path, bytes: if source.size > 0 { source.size } else { at as u64 }, stacks })
    }
}

/// What came of unpacking and reading.
struct Unpacked {
    /// Bytes that were unpacked.
    length: usize,
    /// What went wrong with unpacking; else what was read.
    result: io::Result<Result<Stacks, Fault>>,
}

/// Unpacks on one thread and reads on this one.
fn unpacked(reader: Box<dyn Read + Send>) -> Unpacked {
    let (sender, chunks) = bounded(CHUNKS);
    let (give_back, used) = bounded(CHUNKS);
    std::thread::scope(|scope| {
        scope.spawn(move || unpack(reader.take(MAX_PROFILE_BYTES + 1), &sender, &used));
        let mut reading = Reading::default();
        for chunk in chunks {
            let chunk: Vec<u8> = match chunk {
                Ok(chunk) => chunk,
                Err(error) => return Unpacked { length: reading.length, result: Err(error) },
            };
            reading.go_on(&chunk);
            // The other thread may have ended by now.
            let _ = give_back.try_send(chunk);
        }
        Unpacked { length: reading.length, result: Ok(reading.finish()) }
    })
}

/// A profile that is being read.
#[derive(Default)]
struct Reading {
    /// Bytes so far.
    length: usize,
    /// What is wrong. What is wrong with the file as a whole weighs more, so its bytes are taken to the end.
    fault: Option<Fault>,
    /// All of it, if it is text,
    text: Vec<u8>,
    /// and if it is not.
    proto: proto::Reader,
}

impl Reading {
    /// Reads on. The first bytes must be enough to decide text.
    fn go_on(&mut self, bytes: &[u8]) {
        let is_text = if self.length == 0 { bytes.starts_with(text::BEGINS) } else { !self.text.is_empty() };
        self.length += bytes.len();
        if is_text {
            self.text.extend_from_slice(bytes);
        } else if self.fault.is_none() {
            self.fault = self.proto.go_on(bytes).err();
        }
    }

    /// What was read.
    fn finish(self) -> Result<Stacks, Fault> {
        if self.length == 0 {
            return Err(Fault::at_byte(0, "is the end: the profile is empty"));
        }
        let stacks = match self.fault {
            Some(fault) => return Err(fault),
            None if self.text.is_empty() => self.proto.finish()?,
            None => text::read(&self.text)?,
        };
        if stacks.types.is_empty() {
            return Err(Fault::at_byte(self.length, "is the end, and there was no sample type: this is not a profile"));
        }
        Ok(stacks)
    }
}

/// Bytes of a chunk that goes from the thread that unpacks to the one that reads.
const CHUNK: usize = 512 << 10;
/// Chunks under way: enough that the one seldom waits for the other, which is slow where other programs want the
/// processors too.
const CHUNKS: usize = 4;

/// Sends the bytes of `reader` in chunks; the last may be an error. Buffers that come back are used again.
fn unpack(mut reader: impl Read, to: &Sender<io::Result<Vec<u8>>>, used: &Receiver<Vec<u8>>) {
    loop {
        let mut chunk = used.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK));
        chunk.clear();
        let result = reader.by_ref().take(CHUNK as u64).read_to_end(&mut chunk);
        let is_last = chunk.len() < CHUNK;
        // Nobody takes them any more: there was an error on that side.
        if to.send(Ok(chunk)).is_err() || result.map_err(|error| to.send(Err(error))).is_err() || is_last {
            return;
        }
    }
}
