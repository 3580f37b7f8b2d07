//! Go profiles, as pprof writes them: protobuf, or the legacy text form of heaps; packed or not.
//!
//! [`find`] finds them behind arguments; [`Profile::read`] unpacks and reads one. What is wrong with a profile is told
//! with its place, and ends the reading: a part of a heap would be a wrong heap.

mod find;
mod proto;
mod text;
mod wire;

#[cfg(test)]
mod tests;

pub use find::{Found, Group, find};

use super::open::{Source, SourceError};
use crate::model::stacks::Stacks;
use std::fmt;
use std::io::Read;

/// A profile may not be longer, unpacked. Those of large apiservers have a few MB.
pub const LONGEST: u64 = 128 << 20;

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
        Self { line: None, byte, what: what.into(), advice: "take the profile again; go tool pprof -raw shows what it makes of it" }
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
        "{path}: byte {at} of the unpacked profile: {error}; the file is cut off or damaged: take the profile again, or test the file with gzip -t"
    )]
    Damaged {
        /// The file.
        path: String,
        /// How many bytes were unpacked.
        at: usize,
        /// What the system or the decoder said.
        error: std::io::Error,
    },
    /// It is no whole profile.
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
        let mut bytes = Vec::new();
        let result = source.reader()?.take(LONGEST + 1).read_to_end(&mut bytes);
        let at = bytes.len();
        if let Err(error) = result {
            return Err(ProfileError::Damaged { path, at, error });
        }
        let broken = |fault| ProfileError::Broken { path: path.clone(), fault: Broken(fault) };
        if at as u64 > LONGEST {
            return Err(broken(Fault::at_byte(at - 1, "is more than a heap profile can be: plimsoll reads up to 128 MiB")));
        }
        let stacks = decode(&bytes).map_err(broken)?;
        Ok(Self { path, bytes: if source.size > 0 { source.size } else { at as u64 }, stacks })
    }
}

/// Reads a profile from its unpacked bytes.
fn decode(bytes: &[u8]) -> Result<Stacks, Fault> {
    if bytes.is_empty() {
        return Err(Fault::at_byte(0, "is the end: the profile is empty"));
    }
    let stacks = if bytes.starts_with(text::BEGINS) { text::read(bytes)? } else { proto::read(bytes)? };
    if stacks.types.is_empty() {
        return Err(Fault::at_byte(bytes.len(), "is the end, and there was no sample type: this is no profile"));
    }
    Ok(stacks)
}

/// Whether a file that begins so is a profile that can be read.
pub(super) fn begins_like_one(head: &[u8]) -> bool {
    head.starts_with(text::BEGINS) || proto::begins_like_one(head)
}

/// Whether it is the text form of another kind of profile.
pub(super) fn is_other_text(head: &[u8]) -> bool {
    let line = &head[..memchr::memchr(b'\n', head).unwrap_or(head.len()).min(80)];
    line.starts_with(b"--- contention") || line.starts_with(b"--- mutex") || memchr::memmem::find(line, b" profile: total ").is_some()
}
