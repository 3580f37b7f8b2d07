//! Which file is which: by device and inode, and by what it begins with, since inodes are used again
//! and copies have inodes of their own.

use super::read_at::read_at;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// How much of a file's start is compared. The first line's audit id and times stand within.
pub(super) const HEAD: usize = 4096;

/// A start shorter than this shows no two files apart.
const TELLING: usize = 64;

/// A file that no folder has shown for so long is forgotten.
const FORGET: Duration = Duration::from_secs(600);

/// Device and inode.
pub(super) type Id = (u64, u64);

/// Device and inode of a file.
pub(super) fn id(meta: &Metadata) -> Id {
    (meta.dev(), meta.ino())
}

/// What changes whenever a file is written or its inode is used again: length, time of the last write,
/// time of the last change of the inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Bytes.
    pub(super) size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// How the file stands.
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            size: meta.len(),
            written: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Time of the last write, in seconds and nanoseconds since 1970.
    pub(super) fn written(&self) -> (i64, i64) {
        self.written
    }
}

/// What a file begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Head(Vec<u8>);

impl Head {
    /// The start of a file, as it lies on the disk.
    pub(super) fn of(file: &File) -> Self {
        let mut head = Self::default();
        head.extend(file);
        head
    }

    /// The start of what `reader` gives, as far as it can be read.
    pub(super) fn unpacked(reader: impl Read) -> Self {
        let mut head = Vec::new();
        // A damaged file shows what it can; whoever reads it says that it is damaged.
        let _ = reader.take(HEAD as u64).read_to_end(&mut head);
        Self(head)
    }

    /// Reads on, until there is enough.
    pub(super) fn extend(&mut self, file: &File) {
        let had = self.0.len();
        if had < HEAD {
            self.0.resize(HEAD, 0);
            let got = read_at(file, &mut self.0[had..], had as u64).unwrap_or(0);
            self.0.truncate(had + got);
        }
    }

    /// Whether `file` still begins so.
    pub(super) fn begins(&self, file: &File) -> bool {
        let mut now = [0; HEAD];
        let now = &mut now[..self.0.len()];
        match read_at(file, now, 0) {
            Ok(got) => got == now.len() && *now == *self.0,
            Err(_) => true, // whoever reads on meets the error
        }
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is long enough to decide this log from any other: a whole line, or a good part of one.
    pub(super) fn is_distinctive(&self) -> bool {
        is_distinctive(&self.0)
    }

    /// Whether both are the start of one log, as far as they reach.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let common = self.0.len().min(other.0.len());
        self.0[..common] == other.0[..common] && is_distinctive(&self.0[..common])
    }
}

fn is_distinctive(head: &[u8]) -> bool {
    head.len() >= HEAD || head.get(TELLING - 1..).is_some_and(|rest| memchr::memchr(b'\n', rest).is_some())
}

/// Why a file that is known is not held open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its lines have been read up to this offset.
    ReadTo(u64),
    /// It was there before, and was not asked for.
    NotAsked,
    /// It is a copy of a file that is or was read.
    Copy,
    /// It holds something else.
    NotALog,
}

/// A file that is known and not held open.
#[derive(Debug, Clone)]
pub(super) struct ClosedFile {
    /// How it stood when it was looked at.
    pub(super) stamp: Stamp,
    /// What it began with, unpacked.
    pub(super) head: Head,
    /// Why it is not read.
    pub(super) why: Why,
    /// When a folder showed it last.
    pub(super) seen: Instant,
}

impl ClosedFile {
    /// A file that has just been looked at.
    pub(super) fn new(stamp: Stamp, head: Head, why: Why) -> Self {
        Self { stamp, head, why, seen: Instant::now() }
    }

    /// Whether it is to be remembered.
    pub(super) fn lasts(&self) -> bool {
        self.seen.elapsed() < FORGET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head(text.as_bytes().to_vec())
    }

    #[test]
    fn only_a_whole_line_tells_logs_apart() {
        let line = format!("{{\"auditID\":\"{}\"}}\n", "a".repeat(64));
        let start = head(&line[..70]);
        assert!(!start.is_distinctive() && !start.is_like(&head(&line)), "half a line is the same in many logs");
        assert!(head(&line).is_like(&head(&(line.clone() + "{"))));
        assert!(!head(&line).is_like(&head(&line.replace("aa", "ab"))));
        assert!(!head("\n\n").is_distinctive());
        assert!(head(&"x".repeat(HEAD)).is_distinctive());
    }
}
