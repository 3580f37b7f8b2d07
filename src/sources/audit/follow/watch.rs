//! Looks at folders: which files are new, which of them belong to a log that is followed, and which
//! are but copies of what has been read.

use super::known::{self, ClosedFile, HEAD, Head, Id, Stamp, Why};
use super::read_at::read_at;
use super::tail::{Body, Tail};
use super::{Follower, open_file};
use crate::model::time::Micros;
use crate::sources::belonging::{Belonging, Bundles, family};
use crate::sources::open::Place;
use crate::sources::packing::{self, Begin, Packing};
use crate::sources::{arguments, content};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How often a folder is listed though it shows no change.
const LIST: Duration = Duration::from_secs(2);

/// How often whole folders and globs are looked through for logs that are new, at most; and how many times
/// as long as that took the pause is, at least.
const EXPAND: (Duration, u32) = (Duration::from_millis(250), 20);

/// A folder whose time of change is older than this has had no change since that its time does not show.
const SETTLED: Duration = Duration::from_secs(1);

/// A packed file that has not been written for so long is whole.
const PACKED: Duration = Duration::from_secs(2);

/// Files that were cut short, remembered for the sake of their copies.
const MAX_PAST: usize = 16;

/// When a folder was looked at, and its time of change then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folder {
    at: Instant,
    changed: SystemTime,
    settled: bool,
}

/// A file that was cut short: its copy holds what had not been read.
#[derive(Debug)]
pub(super) struct Past {
    stream: usize,
    head: Head,
    lines_to: u64,
}

/// A file that may have to be read.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) id: Id,
    pub(super) stamp: Stamp,
    pub(super) packing: Packing,
    /// What it begins with, unpacked.
    pub(super) head: Head,
    /// As much of its start, unpacked, as it takes to determine what it holds.
    pub(super) start: Vec<u8>,
    /// Where to begin.
    pub(super) from: u64,
    stream: Option<usize>,
    first: Option<Micros>,
}

impl Candidate {
    /// Opens a file and looks at its start.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (file, meta) = open_file(path)?;
        let mut start = vec![0; (meta.len() as usize).min(packing::HEAD)];
        let got = read_at(&file, &mut start, 0)?;
        start.truncate(got);
        let Begin { packing, plain: start, .. } = Begin::of(&start);
        let head = Head::unpacked(start.as_slice());
        let (id, stamp) = (known::id(&meta), Stamp::of(&meta));
        Ok(Self { path: path.to_owned(), file, id, stamp, packing, head, start, from: 0, stream: None, first: None })
    }

    /// Begins with the first line that starts in the last `back` bytes, if it is a plain file.
    pub(super) fn near_end(&mut self, back: u64) {
        let size = self.file.metadata().map_or(0, |meta| meta.len());
        let Some(mut at) = size.checked_sub(back.saturating_add(1)).filter(|_| self.packing == Packing::None) else {
            return;
        };
        let mut piece = vec![0; 64 << 10];
        while let Ok(got @ 1..) = read_at(&self.file, &mut piece, at) {
            if let Some(end) = memchr::memchr(b'\n', &piece[..got]) {
                self.from = at + end as u64 + 1;
                return;
            }
            at += got as u64;
        }
    }
}

/// The folder of a file, as it was named: empty for the working folder.
pub(super) fn folder_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

/// The log that a file belongs to, by its name.
pub(super) fn family_of(path: &Path) -> String {
    family(&path.file_name().unwrap_or_default().to_string_lossy())
}

/// What is in a folder but for hidden files.
fn list(folder: &Path) -> Vec<PathBuf> {
    let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // A missing folder may appear again.
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    names.filter(|name| !name.as_encoded_bytes().starts_with(b".")).map(|name| folder.join(name)).collect()
}

impl Follower {
    /// Marks the rotated predecessors of files that are named: they were not asked for.
    pub(super) fn leave_out_siblings(&mut self, named: &[PathBuf]) {
        for path in named {
            let family = family_of(path);
            for sibling in list(&folder_of(path)) {
                if !named.contains(&sibling)
                    && family_of(&sibling) == family
                    && let Ok(found) = Candidate::open(&sibling)
                {
                    self.known.insert(found.id, ClosedFile::new(found.stamp, found.head, Why::NotAsked));
                }
            }
        }
    }

    /// Looks for files that are new and begins to read them; returns whether there were any. At the end
    /// of the run nothing is put off.
    pub(super) fn look(&mut self, at_end: bool) -> bool {
        self.looked = Some(Instant::now());
        let mut found: Vec<Candidate> = Vec::new();
        let mut folders: Vec<PathBuf> = self
            .streams
            .iter()
            .filter(|stream| !stream.family.is_empty())
            .map(|stream| stream.folder.clone())
            .collect();
        folders.sort();
        folders.dedup();
        for folder in folders {
            if !self.has_changed(&folder) && !at_end {
                continue;
            }
            for path in list(&folder) {
                let family = family_of(&path);
                let stream = self.streams.iter().position(|s| s.folder == folder && s.family == family);
                if stream.is_some() {
                    found.extend(self.consider(&path, stream, at_end));
                }
            }
        }
        if at_end || Instant::now() >= self.expand_at {
            let start = Instant::now();
            for argument in self.growing.clone() {
                let Ok((places, _)) = arguments::expand(&argument) else { continue };
                for place in places {
                    if let Place::File(path) = place {
                        let (folder, family) = (folder_of(&path), family_of(&path));
                        let stream = self.streams.iter().position(|s| s.folder == folder && s.family == family);
                        let new = self.consider(&path, stream, at_end);
                        found.extend(new.filter(|new| found.iter().all(|other| other.id != new.id)));
                    }
                }
            }
            self.expand_at = Instant::now() + EXPAND.0.max(start.elapsed() * EXPAND.1);
            self.known.retain(|_, known| known.lasts());
            self.gone.retain(ClosedFile::lasts);
        }
        let any = !found.is_empty();
        // By the first event; of those that show none, by the last write. A rotated name stands before the
        // name that the log is written under.
        found.sort_by(|a, b| {
            let key = |c: &Candidate| (c.first.is_none(), c.first, c.stamp.written(), !is_rotated(&c.path));
            (key(a), &a.path).cmp(&(key(b), &b.path))
        });
        found.into_iter().for_each(|candidate| self.begin(candidate));
        any
    }

    /// Whether a folder may show something that it has not shown; every [`LIST`] in any case, since
    /// files may grow that have been closed.
    fn has_changed(&mut self, folder: &Path) -> bool {
        let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let Ok(changed) = std::fs::metadata(place).and_then(|meta| meta.modified()) else { return false };
        let at = Instant::now();
        let settled = SystemTime::now().duration_since(changed).is_ok_and(|age| age > SETTLED);
        if let Some(last) = self.folders.get(folder)
            && last.settled
            && last.changed == changed
            && last.at.elapsed() < LIST
        {
            return false;
        }
        self.folders.insert(folder.to_owned(), Folder { at, changed, settled });
        true
    }

    /// Whether the file at `path` is to be read: it is not open, not known, no copy, and holds a log.
    fn consider(&mut self, path: &Path, stream: Option<usize>, at_end: bool) -> Option<Candidate> {
        let meta = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let (id, stamp) = (known::id(&meta), Stamp::of(&meta));
        if meta.len() == 0 || self.is_open(id) {
            return None;
        }
        if let Some(known) = self.known.get_mut(&id) {
            known.seen = Instant::now();
            if known.stamp == stamp {
                return None;
            }
        }
        let mut new = Candidate::open(path).ok()?;
        new.stream = stream;
        if new.id != id {
            return None; // renamed just now: the next look shows what it is
        }
        if let Some(known) = self.known.get_mut(&id) {
            let same = !known.head.is_empty() && new.head.bytes().starts_with(known.head.bytes());
            match known.why {
                Why::ReadTo(offset) if same && new.stamp.size >= offset => {
                    let grown = new.stamp.size > known.stamp.size;
                    known.stamp = new.stamp;
                    if !grown || new.packing != Packing::None {
                        return None;
                    }
                    new.from = offset;
                    self.known.remove(&id);
                    return Some(new);
                }
                Why::NotAsked | Why::Copy if same => {
                    known.stamp = new.stamp;
                    return None;
                }
                // The inode is used again, or the file is another than it was. What was read is remembered:
                // it may come again, packed.
                _ => self.gone.extend(self.known.remove(&id)),
            }
        }
        if new.packing != Packing::None {
            // Whoever packs it writes it beside the plain file and removes that one at the end.
            let plain_is_there = path.with_extension("").is_file();
            let (seconds, _) = new.stamp.written();
            let age = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |now| now.as_secs() as i64 - seconds);
            if plain_is_there || (age < PACKED.as_secs() as i64 && !at_end) {
                return None;
            }
        } else if !new.head.is_distinctive() && !at_end {
            return None; // its first line is still being written
        }
        if let Some(at) = self.past.iter().position(|past| past.head.is_like(&new.head)) {
            let Past { stream, lines_to, .. } = self.past.remove(at);
            new.stream = Some(stream);
            new.from = lines_to;
            if new.packing == Packing::None && new.stamp.size > lines_to {
                return Some(new);
            }
            self.forget(&new, Why::Copy);
            return None;
        }
        if self.is_copy(&new.head) {
            self.forget(&new, Why::Copy);
            return None;
        }
        let (content, first) = content::look(&new.start);
        new.first = first;
        // What follows a log that is read belongs to it, whatever its first line looks like.
        if stream.is_none() && !content.is_log() {
            self.forget(&new, Why::NotALog);
            return None;
        }
        Some(new)
    }

    fn forget(&mut self, file: &Candidate, why: Why) {
        self.gone.extend(self.known.insert(file.id, ClosedFile::new(file.stamp, file.head.clone(), why)));
    }

    /// Whether a file that begins so is or was read.
    fn is_copy(&self, head: &Head) -> bool {
        let open = self.streams.iter().flat_map(|stream| &stream.tails).filter_map(|tail| match &tail.body {
            Body::Growing(file) => Some(file.head()),
            Body::Once(file) => Some(file.head()),
            Body::Pipe(_) => None,
        });
        let known =
            self.known.values().chain(&self.gone).filter(|known| known.why != Why::NotALog).map(|known| &known.head);
        open.chain(known).any(|other| other.is_like(head))
    }

    /// Begins to read a file that was found.
    fn begin(&mut self, candidate: Candidate) {
        let at = candidate.stream.unwrap_or_else(|| self.stream_for(&candidate.path));
        // What is read on belongs before what came after it.
        let place = (candidate.from > 0).then_some(0);
        self.admit(at, candidate, place);
    }

    /// The stream of a file, which may be new.
    fn stream_for(&mut self, path: &Path) -> usize {
        let under = self.growing.iter().find(|argument| path.starts_with(argument)).cloned();
        let from_folder = under.is_some();
        let place = Place::File(path.to_owned());
        let Belonging { cluster, whole: folder, family, mut instance, .. } =
            Bundles::default().belongs(&place, &under.unwrap_or_default(), from_folder);
        if let Some(at) = self.streams.iter().position(|s| s.folder == folder && s.family == family) {
            return at;
        }
        if self.streams.iter().any(|stream| stream.folder == folder) {
            instance.clone_from(&family); // several logs in one folder: their names tell them apart
        }
        self.new_stream(folder, family, cluster, instance)
    }

    /// Remembers a file that has been read; `unfinished` is where its last line begins, if that is not whole.
    pub(super) fn remember(&mut self, tail: &Tail, unfinished: Option<u64>) {
        let now = Instant::now();
        match &tail.body {
            Body::Growing(file) => {
                let Some(stamp) = file.stamp() else { return };
                let why = Why::ReadTo(unfinished.unwrap_or_else(|| file.lines_to()));
                let known = ClosedFile { stamp, head: file.head().clone(), why, seen: now };
                if let Some(id) = tail.id() {
                    self.gone.extend(self.known.insert(id, known));
                }
            }
            Body::Once(file) => {
                let stamp = std::fs::metadata(&tail.path).ok().filter(|meta| Some(known::id(meta)) == tail.id());
                if let (Some(meta), Some(id)) = (stamp, tail.id()) {
                    self.known.insert(
                        id,
                        ClosedFile {
                            stamp: Stamp::of(&meta),
                            head: file.head().clone(),
                            why: Why::ReadTo(0),
                            seen: now,
                        },
                    );
                }
            }
            Body::Pipe(_) => {}
        }
    }

    /// Notes that a file was cut short. If its copy was met before, what it has more is read.
    pub(super) fn note_past(&mut self, stream: usize, head: Head, lines_to: u64) {
        if !head.is_distinctive() {
            return;
        }
        let copies = self.known.iter().filter(|(_, known)| known.why == Why::Copy && known.head.is_like(&head));
        let ids: Vec<Id> = copies.map(|(id, _)| *id).collect();
        for id in ids {
            self.known.remove(&id); // the next look meets it again
        }
        self.past.push(Past { stream, head, lines_to });
        if self.past.len() > MAX_PAST {
            self.past.remove(0);
        }
        self.folders.clear();
    }
}

/// Whether a name is one that rotation gives.
fn is_rotated(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name != family_of(path) && name != format!("{}.log", family_of(path))
}

const _: () = assert!(HEAD <= packing::HEAD);
