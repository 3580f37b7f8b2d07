//! What the cache says of a roll-up that it keeps: which bytes of which logs it was made of, and by whom.

use crate::model::input::Dedupe;
use crate::model::time::Micros;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// The file that makes a folder an entry of the cache.
pub const ENTRY: &str = "entry.json";

/// The form of an entry, and of how roll-ups are made: what has another form is not used.
pub const FORM: &str = "plimsoll.cache-entry/v1";

/// What an entry of the cache says of itself: [`ENTRY`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// [`FORM`].
    pub form: String,
    /// The version of plimsoll that made it.
    pub plimsoll: String,
    /// When events that come twice were looked for.
    pub dedupe: Dedupe,
    /// When it was made, in µs since 1970.
    pub made: Micros,
    /// The logs, in the order in which they were found.
    pub streams: Vec<EntryStream>,
    /// CRC32C of the manifest of its roll-up, in hexadecimal.
    pub manifest: String,
    /// A hash of all of the above.
    pub check: String,
}

/// The log of one apiserver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryStream {
    /// Its cluster, as the sources name it.
    pub cluster: String,
    /// The apiserver, as the sources name it.
    pub instance: String,
    /// Whether events were looked for that come twice.
    pub has_copies: bool,
    /// Its files, oldest first; empty ones are left out.
    pub files: Vec<EntryFile>,
}

/// A file of a log, as far as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryFile {
    /// Where it was.
    pub path: String,
    /// Hash of its first line.
    pub log: String,
    /// Whether it is packed, or a JSON document: such a file does not grow.
    pub is_closed: bool,
    /// The byte behind the last that was read, as the file lies on disk.
    pub to: u64,
    /// Hash of the bytes before `to`: the first and the last ones, and samples between them.
    pub print: String,
    /// Events in it.
    pub records: u64,
    /// Lines that could not be used.
    pub skipped: u64,
}

impl Entry {
    /// The same with its check.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.check = self.hash();
        self
    }

    /// Whether it is as it was written.
    pub fn is_intact(&self) -> bool {
        self.check == self.hash()
    }

    fn hash(&self) -> String {
        let unsealed = Self { check: String::new(), ..self.clone() };
        format!("{:032x}", xxh3_128(&serde_json::to_vec(&unsealed).unwrap_or_default()))
    }

    /// All files, in their order.
    pub fn files(&self) -> impl Iterator<Item = &EntryFile> {
        self.streams.iter().flat_map(|stream| &stream.files)
    }

    /// Bytes of the logs that it answers for.
    pub fn covers(&self) -> u64 {
        self.files().map(|file| file.to).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_was_changed_is_not_intact() {
        let stream = EntryStream { files: vec![EntryFile { to: 7, ..EntryFile::default() }], ..EntryStream::default() };
        let entry = Entry { streams: vec![stream], ..Entry::default() }.sealed();
        assert!(entry.is_intact());
        let read: Entry = serde_json::from_slice(&serde_json::to_vec(&entry).unwrap()).unwrap();
        assert!(read.is_intact() && read.covers() == 7);
        let mut changed = read;
        changed.streams[0].files[0].to = 8;
        assert!(!changed.is_intact());
    }
}
