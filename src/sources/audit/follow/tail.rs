//! One input that is read on as it grows, or once, or as it comes through a pipe.

use super::known::{Head, Id, Stamp};
use super::read_at::read_at;
use crate::model::input::LossKind;
use crate::model::walk::skip_value;
use crate::sources::audit::blocks::{BLOCK, Chunk, MAX_LINE, Sequence};
use crate::sources::content::{self, Content};
use crate::sources::open::Source;
use crate::sources::packing::{self, Packing};
use crate::sources::split::Splitter;
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::time::Instant;

/// What reading an input gave.
#[derive(Debug)]
pub(super) enum Step {
    /// Lines, and how many bytes of the disk they took.
    Lines(Chunk, u64),
    /// There is nothing for now.
    Nothing,
    /// There will be nothing more.
    Ended,
}

/// One input and how far it has been read.
#[derive(Debug)]
pub(super) struct Tail {
    /// Its number within its stream, for the account of what was read.
    pub(super) input: usize,
    /// Where it was when it was opened.
    pub(super) path: PathBuf,
    /// Since when nothing has come.
    pub(super) idle: Instant,
    /// What of it has been read.
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    /// A plain file that may grow.
    Growing(Growing),
    /// A packed file or a JSON document: read once.
    Once(Once),
    /// Whatever can only be read as it comes, by a thread of its own, since reading may wait.
    Pipe(Pipe),
}

impl Tail {
    /// An input to be read from where `body` says.
    pub(super) fn new(input: usize, path: PathBuf, body: Body) -> Self {
        Self { input, path, idle: Instant::now(), body }
    }

    /// The next lines, if there are any.
    pub(super) fn read(&mut self) -> Step {
        let step = match &mut self.body {
            Body::Growing(file) => file.read(),
            Body::Once(file) => file.read(),
            Body::Pipe(pipe) => pipe.read(),
        };
        if matches!(step, Step::Lines(..)) {
            self.idle = Instant::now();
        }
        step
    }

    /// The last line, if its end has not come.
    pub(super) fn rest(&mut self) -> Option<Chunk> {
        match &mut self.body {
            Body::Growing(file) => file.carry.end(),
            Body::Once(_) => None,
            Body::Pipe(pipe) => pipe.carry.end(),
        }
    }

    /// The plain file behind it.
    pub(super) fn growing(&self) -> Option<&Growing> {
        if let Body::Growing(file) = &self.body { Some(file) } else { None }
    }

    /// The plain file behind it.
    pub(super) fn growing_mut(&mut self) -> Option<&mut Growing> {
        if let Body::Growing(file) = &mut self.body { Some(file) } else { None }
    }

    /// Which file it is, of one that was opened by its path.
    pub(super) fn id(&self) -> Option<Id> {
        match &self.body {
            Body::Growing(file) => Some(file.id),
            Body::Once(file) => Some(file.id),
            Body::Pipe(_) => None,
        }
    }
}

/// Cuts what was read into whole lines; keeps what was read of a line whose end has not come.
#[derive(Debug, Default)]
struct Carry {
    bytes: Vec<u8>,
    /// Where `bytes` start in the input.
    offset: u64,
    in_long_line: bool,
}

impl Carry {
    /// Takes what is kept with what was read behind it; gives its whole lines.
    fn cut(&mut self, mut bytes: Vec<u8>) -> Option<Chunk> {
        if self.in_long_line {
            let passed = memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |newline| newline + 1);
            self.in_long_line = !bytes[..passed].ends_with(b"\n");
            bytes.drain(..passed);
            self.offset += passed as u64;
        }
        let offset = self.offset;
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            self.bytes = bytes.split_off(newline + 1);
            self.offset += bytes.len() as u64;
            return Some(Chunk::of(bytes, offset));
        }
        if bytes.len() > MAX_LINE {
            self.in_long_line = true;
            self.offset += bytes.len() as u64;
            return Some(Chunk {
                losses: vec![(LossKind::TooLong, offset, String::new())],
                ..Chunk::of(Vec::new(), offset)
            });
        }
        self.bytes = bytes;
        None
    }

    /// What is kept, as the last of the input.
    fn end(&mut self) -> Option<Chunk> {
        let bytes = std::mem::take(&mut self.bytes);
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        (!bytes.is_empty()).then(|| Chunk { ends_file: true, ..Chunk::of(bytes, offset) })
    }
}

/// A plain file that is held open and read on as it grows.
#[derive(Debug)]
pub(super) struct Growing {
    file: File,
    id: Id,
    head: Head,
    read_to: u64,
    /// Nothing beyond this is read: where the file ended when the run did.
    limit: Option<u64>,
    carry: Carry,
    failed: bool,
    /// What it was before it was cut short: its head and how far its lines had been read.
    cut_short: Option<(Head, u64)>,
}

impl Growing {
    /// A file to be read from `offset` on, where a line begins.
    pub(super) fn new(file: File, id: Id, head: Head, offset: u64) -> Self {
        let carry = Carry { offset, ..Carry::default() };
        Self { file, id, head, read_to: offset, limit: None, carry, failed: false, cut_short: None }
    }

    /// What it begins with, as far as has been read.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Where the first line begins that has not been read whole.
    pub(super) fn lines_to(&self) -> u64 {
        self.carry.offset
    }

    /// How the file stands now.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        self.file.metadata().ok().map(|meta| Stamp::of(&meta))
    }

    /// Reads no further than the file reaches now.
    pub(super) fn stop_here(&mut self) {
        if self.limit.is_none() {
            self.limit = self.file.metadata().ok().map(|meta| meta.len());
        }
    }

    /// What it was before it was cut short, once.
    pub(super) fn take_cut_short(&mut self) -> Option<(Head, u64)> {
        self.cut_short.take()
    }

    fn read(&mut self) -> Step {
        if self.failed {
            return Step::Nothing;
        }
        loop {
            let size = match self.file.metadata() {
                Ok(meta) => meta.len(),
                Err(error) => return self.fail(&error),
            };
            // Shorter, or as long again already but with something else in it.
            if size < self.read_to || (size > self.read_to && !self.head.begins(&self.file)) {
                return self.begin_again(size);
            }
            let end = self.limit.map_or(size, |limit| size.min(limit));
            if end <= self.read_to {
                return Step::Nothing;
            }
            let mut bytes = std::mem::take(&mut self.carry.bytes);
            let kept = bytes.len();
            bytes.resize(kept + (end - self.read_to).min(BLOCK as u64) as usize, 0);
            let got = match read_at(&self.file, &mut bytes[kept..], self.read_to) {
                Ok(got) => got,
                Err(error) => return self.fail(&error),
            };
            bytes.truncate(kept + got);
            self.read_to += got as u64;
            self.head.extend(&self.file);
            if let Some(chunk) = self.carry.cut(bytes) {
                return Step::Lines(chunk, got as u64);
            }
            if got == 0 {
                return Step::Nothing; // cut short since we looked: the next look sees it
            }
        }
    }

    fn begin_again(&mut self, size: u64) -> Step {
        let place = self.read_to;
        let detail = format!(
            "it was truncated and rewritten, as copytruncate does ({size} bytes now, {place} had been read); reading \
             continues from its start, but events in between may be lost"
        );
        let head = std::mem::replace(&mut self.head, Head::of(&self.file));
        self.cut_short = Some((head, self.carry.offset));
        self.carry = Carry::default();
        self.read_to = 0;
        Step::Lines(Chunk { losses: vec![(LossKind::Shrunk, place, detail)], ..Chunk::default() }, 0)
    }

    fn fail(&mut self, error: &io::Error) -> Step {
        self.failed = true;
        Step::Lines(Chunk { losses: vec![(LossKind::Io, self.read_to, error.to_string())], ..Chunk::default() }, 0)
    }
}

/// A packed file or a document, which does not grow.
pub(super) struct Once {
    id: Id,
    head: Head,
    size: u64,
    /// The file and how to read it, until it is its turn.
    closed: Option<(File, Packing, bool)>,
    blocks: Option<Sequence>,
}

impl std::fmt::Debug for Once {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Once").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Once {
    /// A file to be unpacked, and split if it is a document.
    pub(super) fn new(file: File, id: Id, head: Head, packing: Packing, document: bool) -> Self {
        let size = file.metadata().map_or(0, |meta| meta.len());
        Self { id, head, size, closed: Some((file, packing, document)), blocks: None }
    }

    /// What it begins with, unpacked.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    fn read(&mut self) -> Step {
        if let Some((file, packing, document)) = self.closed.take() {
            match unpack(file, packing, document) {
                Ok(reader) => self.blocks = Some(Sequence::new(reader, packing != Packing::None)),
                Err(error) => {
                    return Step::Lines(
                        Chunk { losses: vec![(LossKind::Io, 0, error.to_string())], ..Chunk::default() },
                        0,
                    );
                }
            }
        }
        match self.blocks.as_mut().and_then(Sequence::next) {
            Some(chunk) => {
                let bytes = if chunk.ends_file { self.size } else { 0 };
                Step::Lines(chunk, bytes)
            }
            None => Step::Ended,
        }
    }
}

fn unpack(reader: impl Read + Send + 'static, packing: Packing, document: bool) -> io::Result<Box<dyn Read + Send>> {
    let plain = packing::unpack(packing, reader)?;
    Ok(if document { Box::new(Splitter::new(plain)) } else { plain })
}

/// Whether something that starts with `head` is a JSON document, or several on one line. A log whose first
/// line has not come to its end looks like one and is none; what is packed does not grow.
pub(super) fn is_document(head: &[u8], packing: Packing) -> bool {
    let has_ended = || memchr::memchr(b'\n', head).is_some() || skip_value(head.trim_ascii_start(), 0).is_some();
    content::look(head).0 == Content::AuditDocument && (packing != Packing::None || has_ended())
}

/// Something that a thread of its own reads.
#[derive(Debug)]
pub(super) struct Pipe {
    blocks: Receiver<io::Result<Vec<u8>>>,
    carry: Carry,
    ended: bool,
}

impl Pipe {
    /// Reads what `source` gives, which has been recognised.
    pub(super) fn of(mut source: Source) -> Self {
        Self::start(move |send| {
            match source.reader() {
                Ok(reader) => pump(reader, send),
                Err(error) => drop(send.send(Err(io::Error::other(error.to_string())))),
            };
        })
    }

    /// Reads standard input or a named pipe; nothing of it may have come yet.
    pub(super) fn open(path: PathBuf) -> Self {
        Self::start(move |send| {
            let reader = if path == std::path::Path::new("/dev/stdin") {
                Ok(Box::new(io::stdin()) as Box<dyn Read + Send>)
            } else {
                File::open(&path).map(|file| Box::new(file) as Box<dyn Read + Send>)
            };
            match reader.and_then(recognised) {
                Ok(reader) => pump(reader, send),
                Err(error) => drop(send.send(Err(error))),
            };
        })
    }

    fn start(read: impl FnOnce(&Sender<io::Result<Vec<u8>>>) + Send + 'static) -> Self {
        let (send, blocks) = bounded(16);
        // Not joined: it may wait for input that never comes, and the program need not.
        std::thread::spawn(move || read(&send));
        Self { blocks, carry: Carry::default(), ended: false }
    }

    fn read(&mut self) -> Step {
        while !self.ended {
            match self.blocks.try_recv() {
                Ok(Ok(block)) => {
                    let count = block.len() as u64;
                    let mut bytes = std::mem::take(&mut self.carry.bytes);
                    bytes.extend(block);
                    if let Some(chunk) = self.carry.cut(bytes) {
                        return Step::Lines(chunk, count);
                    }
                }
                Ok(Err(error)) => {
                    self.ended = true;
                    let place = self.carry.offset + self.carry.bytes.len() as u64;
                    self.carry = Carry::default();
                    return Step::Lines(
                        Chunk { losses: vec![(LossKind::Damaged, place, error.to_string())], ..Chunk::default() },
                        0,
                    );
                }
                Err(TryRecvError::Empty) => return Step::Nothing,
                Err(TryRecvError::Disconnected) => self.ended = true,
            }
        }
        Step::Ended
    }
}

/// Notifies by what comes first how to read the rest.
fn recognised(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let head = first(&mut reader, 4)?;
    let packing = Packing::of(&head);
    let mut plain = unpack(Cursor::new(head).chain(reader), packing, false)?;
    // What is packed may be waited for; what is plain is looked at as far as it has come.
    let start = first(&mut plain, if packing == Packing::None { 1 } else { packing::HEAD })?;
    let document = is_document(&start, packing);
    unpack(Cursor::new(start).chain(plain), Packing::None, document)
}

/// What comes first of `reader`: at least so many bytes, if there are.
fn first(reader: &mut dyn Read, least: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; packing::HEAD];
    let mut length = 0;
    while length < least {
        match reader.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn pump(mut reader: Box<dyn Read + Send>, send: &Sender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; BLOCK];
    loop {
        let block = match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => Ok(buffer[..count].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = block.is_err();
        if send.send(block).is_err() || failed {
            return;
        }
    }
}
