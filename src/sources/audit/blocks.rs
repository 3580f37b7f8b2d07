//! Cuts the files of a stream into blocks of whole lines.

use crate::model::input::LossKind;
use crate::model::problem::Problem;
use crate::sources::open::{Place, Source};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// How much is read at once: large enough that a read costs little, small enough to stay in cache
/// and for many streams to be open together.
pub(super) const BLOCK: usize = 1 << 20;

/// Blocks of a plain file that one thread reads one after the other, at most.
const RUN: u64 = 8;

/// Lines longer than this are counted and passed over.
pub(super) const MAX_LINE: usize = 32 << 20;

/// A block's place in its stream, and its bytes or where to read them.
#[derive(Debug)]
pub(super) struct Cut {
    /// The file's number within its stream.
    pub(super) file: usize,
    /// The block's number within its stream.
    pub(super) order: u64,
    /// Bytes that this block took from the disk.
    pub(super) disk_bytes: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Lines that start in `[start, end)` of a file.
    Range { file: Arc<File>, start: u64, end: u64, size: u64 },
    /// Lines that have been read already.
    Lines(Chunk),
}

/// The bytes of a block: whole lines, but perhaps the last of a file.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// A buffer that holds the lines in `lines`; the rest of it is of no meaning.
    pub(super) bytes: Vec<u8>,
    pub(super) lines: Range<usize>,
    /// Where the lines start in the (unpacked) file.
    pub(super) offset: u64,
    /// What was lost while reading: kind, place, what the system said.
    pub(super) losses: Vec<(LossKind, u64, String)>,
    /// Whether the file ends here.
    pub(super) ends_file: bool,
    /// Whether a broken last line is damage: a packed file is not one that is being written.
    pub(super) unfinished_is_loss: bool,
}

impl Chunk {
    /// A block of lines that were read in order.
    pub(super) fn of(bytes: Vec<u8>, offset: u64) -> Self {
        Self { lines: 0..bytes.len(), bytes, offset, ..Self::default() }
    }
}

impl Cut {
    /// A block of lines that have been read, of the stream's file `file`.
    pub(super) fn of(file: usize, chunk: Chunk, disk_bytes: u64) -> Self {
        Self { file, order: 0, disk_bytes, what: What::Lines(chunk) }
    }

    /// The block's lines; `buffer` is used to read them, if they have yet to be read.
    pub(super) fn load(self, buffer: Vec<u8>) -> Chunk {
        match self.what {
            What::Lines(chunk) => chunk,
            What::Range { file, start, end, size } => read_range(&file, start, end, size, buffer),
        }
    }
}

/// Reads the lines that start in `[start, end)`.
fn read_range(file: &File, start: u64, end: u64, size: u64, buffer: Vec<u8>) -> Chunk {
    // The byte before the block shows whether a line starts with it.
    let from = start.saturating_sub(1);
    let mut chunk = Chunk { bytes: buffer, offset: start, ..Chunk::default() };
    let mut length = fill(file, &mut chunk, 0, from, end, size);
    let mut first = 0;
    if start > 0 {
        match memchr::memchr(b'\n', &chunk.bytes[..length]) {
            Some(newline) if (newline as u64) < end - from - 1 => first = newline + 1,
            // No line starts here: the block lies within a line whose own block reads it.
            _ => return chunk,
        }
    }
    chunk.offset = from + first as u64;
    // Read on to the end of the last line.
    let mut read_to = from + length as u64;
    while read_to < size && chunk.losses.is_empty() && chunk.bytes[length - 1] != b'\n' {
        let last_line = memchr::memrchr(b'\n', &chunk.bytes[first..length]).map_or(first, |n| first + n + 1);
        if length - last_line > MAX_LINE {
            chunk.losses.push((LossKind::TooLong, from + last_line as u64, String::new()));
            length = last_line;
            break;
        }
        let to = (read_to + (64 << 10).max(length - last_line) as u64).min(size);
        let more = fill(file, &mut chunk, length, read_to, to, size);
        if let Some(newline) = memchr::memchr(b'\n', &chunk.bytes[length..length + more]) {
            length += newline + 1;
            break;
        }
        length += more;
        read_to = to;
    }
    chunk.ends_file = from + length as u64 >= size;
    chunk.lines = first..length;
    chunk
}

/// Reads bytes `[from, to)` of the file to `at` in the buffer; returns how many there were.
fn fill(file: &File, chunk: &mut Chunk, at: usize, from: u64, to: u64, size: u64) -> usize {
    let wanted = (to - from) as usize;
    if chunk.bytes.len() < at + wanted {
        chunk.bytes.resize(at + wanted, 0);
    }
    let mut done = 0;
    while done < wanted {
        match file.read_at(&mut chunk.bytes[at + done..at + wanted], from + done as u64) {
            Ok(0) => {
                let detail = format!("it had {size} bytes when it was opened, and {} now", from + done as u64);
                chunk.losses.push((LossKind::Shrunk, from + done as u64, detail));
                break;
            }
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                chunk.losses.push((LossKind::Io, from + done as u64, error.to_string()));
                break;
            }
        }
    }
    done
}

/// Gives the blocks of a stream's files, one after the other.
#[derive(Debug)]
pub(super) struct Feed {
    files: Vec<Source>,
    file: usize,
    order: u64,
    open: Option<Open>,
}

enum Open {
    Ranges { file: Arc<File>, size: u64, next: u64 },
    Sequence(Sequence),
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ranges { .. } => "ranges",
            Self::Sequence(_) => "sequence",
        })
    }
}

impl Feed {
    pub(super) fn new(files: Vec<Source>) -> Self {
        Self { files, file: 0, order: 0, open: None }
    }

    /// How many blocks it has given.
    pub(super) fn order(&self) -> u64 {
        self.order
    }

    /// The next blocks, which one thread is to read one after the other: what is done once for all of them is done
    /// less often. Few at first, so that all threads have something to do with a small log. Empty after the last.
    pub(super) fn next_run(&mut self) -> Vec<Cut> {
        let most = (self.order / 16).clamp(1, RUN);
        let mut run: Vec<Cut> = self.next().into_iter().collect();
        while run.len() < most as usize
            && matches!(&self.open, Some(Open::Ranges { size, next, .. }) if next < size)
            && let Some(cut) = self.next()
        {
            run.push(cut);
        }
        run
    }

    /// The next block; `None` after the last.
    pub(super) fn next(&mut self) -> Option<Cut> {
        loop {
            let source = self.files.get_mut(self.file)?;
            let open = match self.open.as_mut() {
                Some(open) => open,
                None => match Open::new(source) {
                    Ok(open) => self.open.insert(open),
                    Err(error) => {
                        let chunk = Chunk { losses: vec![(LossKind::Io, 0, error.to_string())], ..Chunk::default() };
                        let cut = self.cut(What::Lines(chunk), 0);
                        self.file += 1;
                        return Some(cut);
                    }
                },
            };
            let next = match open {
                Open::Ranges { file, size, next } if *next < *size => {
                    let (start, end) = (*next, (*next + BLOCK as u64).min(*size));
                    *next = end;
                    Some((What::Range { file: file.clone(), start, end, size: *size }, end - start))
                }
                Open::Ranges { .. } => None,
                Open::Sequence(sequence) => sequence.next().map(|chunk| {
                    let bytes = chunk.bytes.len() as u64;
                    let last = chunk.ends_file;
                    // Of packed files count what lies on the disk, once, at the end.
                    let disk = if source.size == 0 {
                        bytes
                    } else if last {
                        source.size
                    } else {
                        0
                    };
                    (What::Lines(chunk), disk)
                }),
            };
            match next {
                Some((what, disk_bytes)) => return Some(self.cut(what, disk_bytes)),
                None => {
                    self.open = None;
                    self.file += 1;
                }
            }
        }
    }

    fn cut(&mut self, what: What, disk_bytes: u64) -> Cut {
        self.order += 1;
        Cut { file: self.file, order: self.order - 1, disk_bytes, what }
    }
}

impl Open {
    fn new(source: &mut Source) -> Result<Self, Problem> {
        if source.is_seekable()
            && let Place::File(path) = &source.place
        {
            let file = File::open(path)?;
            return Ok(Self::Ranges { file: Arc::new(file), size: source.size, next: 0 });
        }
        let reader = source.reader()?;
        Ok(Self::Sequence(Sequence::new(reader, source.was_packed)))
    }
}

/// Blocks of something that can be read only forwards.
pub(super) struct Sequence {
    reader: Box<dyn Read + Send>,
    /// What was read of a line whose end has not come yet.
    carry: Vec<u8>,
    offset: u64,
    done: bool,
    packed: bool,
    in_long_line: bool,
}

impl Sequence {
    /// Blocks of what `reader` gives; in something `packed` a broken end is damage.
    pub(super) fn new(reader: Box<dyn Read + Send>, packed: bool) -> Self {
        Self { reader, carry: Vec::new(), offset: 0, done: false, packed, in_long_line: false }
    }

    /// The next block; `None` after the last.
    pub(super) fn next(&mut self) -> Option<Chunk> {
        if self.done {
            return None;
        }
        let mut bytes = std::mem::take(&mut self.carry);
        let mut target = BLOCK;
        loop {
            let error = self.fill(&mut bytes, target);
            if self.in_long_line {
                let passed = memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |newline| newline + 1);
                self.in_long_line = !bytes[..passed].ends_with(b"\n");
                bytes.drain(..passed);
                self.offset += passed as u64;
            }
            let offset = self.offset;
            if let Some(error) = error {
                // What stands behind the last newline is cut off by the damage: it is part of this loss.
                self.done = true;
                let place = offset + bytes.len() as u64;
                bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |newline| newline + 1));
                return Some(Chunk { losses: vec![(LossKind::Damaged, place, error)], ..self.last(bytes, offset) });
            }
            if self.done {
                return Some(self.last(bytes, offset));
            }
            if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
                self.carry = bytes.split_off(newline + 1);
                self.offset += bytes.len() as u64;
                return Some(Chunk::of(bytes, offset));
            }
            if bytes.len() > MAX_LINE {
                self.offset += bytes.len() as u64;
                self.in_long_line = true;
                return Some(Chunk {
                    losses: vec![(LossKind::TooLong, offset, String::new())],
                    ..Chunk::of(Vec::new(), offset)
                });
            }
            target = bytes.len() + BLOCK.max(bytes.len());
        }
    }

    fn last(&self, bytes: Vec<u8>, offset: u64) -> Chunk {
        Chunk { ends_file: true, unfinished_is_loss: self.packed, ..Chunk::of(bytes, offset) }
    }

    /// Reads until `bytes` holds `target` bytes or the input ends; returns what went wrong.
    fn fill(&mut self, bytes: &mut Vec<u8>, target: usize) -> Option<String> {
        let mut length = bytes.len();
        bytes.resize(target.max(length), 0);
        let mut failed = None;
        while length < bytes.len() {
            match self.reader.read(&mut bytes[length..]) {
                Ok(0) => {
                    self.done = true;
                    break;
                }
                Ok(count) => length += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    failed = Some(error.to_string());
                    break;
                }
            }
        }
        bytes.truncate(length);
        failed
    }
}
