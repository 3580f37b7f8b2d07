//! Audit logs that are being written: read to their end, and then on as they grow.
//!
//! One loop reads on in all files that are held open. A log that is rotated stays open and is read on
//! until nothing has come for [`GRACE`], since its writer may write to it for a moment after it was renamed.
//! Folders show which files are new: a file is known by device and inode, and by what it begins with,
//! because inodes are used again, and because copies and packed files of a log have inodes of their own.
//! Lines go through the same parser as those of whole files. Plain files are read with `pread`.

mod known;
mod read_at;
mod tail;
mod watch;

use self::known::ClosedFile;
use self::tail::{Body, Growing, Once, Pipe, Step, Tail, is_document};
use self::watch::{Candidate, Folder, Past};
use super::blocks::{Chunk, Cut};
use super::pass::{Counts, Log, Outcome, Parser, Worker};
use super::settle;
use crate::model::bundle::Bundle;
use crate::model::event::{Stream, Timed};
use crate::model::problem::Problem;
use crate::model::stray::Days;
use crate::model::time::{Bounds, Micros};
use crate::sources::arguments;
use crate::sources::clock::now;
use crate::sources::find;
use crate::sources::found::LogStream;
use crate::sources::open::{Place, SourceError};
use crate::sources::packing::Packing;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A rotated file is closed once nothing has come for so long. Should it grow later, it is opened again.
pub const GRACE: Duration = Duration::from_secs(3);

/// How often folders are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// One log: the file that is being written, and its predecessors as long as they are read.
#[derive(Debug)]
struct Following {
    stream: Stream,
    folder: PathBuf,
    family: String,
    /// In the order of the log. The last is never closed.
    tails: Vec<Tail>,
    /// The largest time read.
    reached: Option<Micros>,
    /// Whether it may have more to read right now.
    ready: bool,
}

/// Reads logs that are being written.
#[derive(Debug)]
pub struct Follower {
    /// The bundle's description, if there is one.
    pub bundle: Option<Bundle>,
    /// Inputs that could not be used.
    pub errors: Vec<SourceError>,
    /// Folders in which there is no audit log yet.
    pub waiting: Vec<String>,
    streams: Vec<Following>,
    log: Log,
    parser: Parser,
    /// When what was read so far was dated.
    days: Days,
    /// Only events from here on, and before there, are judged by that.
    window: Bounds,
    /// Folders and globs: what may come to have new logs.
    growing: Vec<String>,
    folders: HashMap<PathBuf, Folder>,
    known: HashMap<known::Id, ClosedFile>,
    /// Files that were known and whose inode is used again.
    gone: Vec<ClosedFile>,
    past: Vec<Past>,
    looked: Option<Instant>,
    expand_at: Instant,
    /// Of files that are there already, only so many bytes at their end are read.
    back: Option<u64>,
    /// Lines as they came, for whom nothing but they matter.
    lines: Option<Vec<(Stream, Vec<u8>)>>,
}

/// Looks at no event.
struct Nobody;

impl Worker for Nobody {
    type Batch = ();
    fn event(&mut self, _: Timed<'_, '_>) {}
    fn flush(&mut self) {}
}

impl Follower {
    /// Finds the logs behind `arguments` and opens them. Of files that are named, rotated predecessors
    /// that are there already are not read; those that come later are.
    pub fn open(arguments: &[String]) -> Self {
        Self::of(arguments, None)
    }

    /// The same; of plain files that are there already only about the last `back` bytes are read, from a line's
    /// beginning on.
    pub fn open_near_end(arguments: &[String], back: u64) -> Self {
        Self::of(arguments, Some(back))
    }

    fn of(arguments: &[String], back: Option<u64>) -> Self {
        let mut follower = Self {
            bundle: None,
            errors: Vec::new(),
            waiting: Vec::new(),
            streams: Vec::new(),
            log: Log::new(&[]),
            parser: Parser::default(),
            days: Days::default(),
            window: (None, None),
            growing: Vec::new(),
            folders: HashMap::new(),
            known: HashMap::new(),
            gone: Vec::new(),
            past: Vec::new(),
            looked: None,
            expand_at: Instant::now(),
            back,
            lines: None,
        };
        let mut named: Vec<PathBuf> = Vec::new();
        let mut rest = Vec::new();
        for argument in arguments {
            match arguments::expand(argument) {
                Ok((places, from_folder)) => {
                    if let [Place::Once(path)] = places.as_slice() {
                        follower.add_pipe(argument, path.clone(), Pipe::open(path.clone()));
                        continue;
                    }
                    if from_folder || !Path::new(argument).exists() {
                        follower.growing.push(argument.clone());
                    }
                    if !from_folder {
                        named.extend(
                            places
                                .into_iter()
                                .filter_map(|place| if let Place::File(path) = place { Some(path) } else { None }),
                        );
                    }
                }
                Err(SourceError::NoMatch(_)) => follower.growing.push(argument.clone()),
                Err(_) => {} // said when it is opened
            }
            rest.push(argument.clone());
        }
        follower.leave_out_siblings(&named);
        if !rest.is_empty() {
            let found = find::audit_logs(&rest);
            follower.bundle = found.bundle;
            for error in found.errors {
                match error {
                    SourceError::NothingHere { folder, .. } | SourceError::NoMatch(folder) => {
                        follower.waiting.push(folder)
                    }
                    // Rotated between the look at its folder and the look at the file: it is found again.
                    SourceError::Io { path, error }
                        if error.kind() == io::ErrorKind::NotFound && !rest.contains(&path) => {}
                    other => follower.errors.push(other),
                }
            }
            let is_still = |own: &LogStream| own.is_rolled() || own.is_of_dataset();
            let still = found.streams.iter().filter(|own| is_still(own));
            let files: BTreeSet<(&str, bool)> =
                still.flat_map(|own| own.files.iter().map(|file| (file.path.as_str(), own.is_rolled()))).collect();
            for (file, is_rolled) in files {
                let what = if is_rolled { "a stored roll-up" } else { "a dataset" };
                let problem = Problem::unanswered(format!("{what} does not grow, so it can't be followed"));
                follower.errors.push(SourceError::Stored(problem.at(file)));
            }
            // Until something was read the ends of what is there show what is stray; the present never is.
            follower.parser.kept = settle::guess(&found.streams).and(now());
            found.streams.into_iter().filter(|own| !is_still(own)).for_each(|stream| follower.add_stream(stream));
        }
        follower
    }

    /// What lies outside of this window is not called stray: nobody asks for it.
    pub fn within(&mut self, since: Option<Micros>, until: Option<Micros>) {
        self.window = (since, until);
        self.parser.kept = std::mem::take(&mut self.parser.kept).within(since, until);
    }

    /// Whether nothing is read and nothing can come.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.growing.is_empty()
    }

    /// Whether nothing more can come: all inputs were pipes, and have ended.
    pub fn is_done(&self) -> bool {
        self.growing.is_empty() && self.streams.iter().all(|stream| stream.tails.is_empty())
    }

    /// Cluster and instance of each stream, in the order of [`Outcome::coverage`].
    pub fn streams(&self) -> Vec<(String, String)> {
        self.streams.iter().map(|s| (s.stream.cluster.clone(), s.stream.instance.clone())).collect()
    }

    /// What has been read and lost so far.
    pub fn outcome(&self) -> Outcome {
        self.log.clone().finish()
    }

    /// How many kinds of loss there are, over all files; cheap.
    pub fn lost(&self) -> usize {
        self.log.lost()
    }

    /// What was lost so far.
    pub fn losses(&self) -> Vec<String> {
        self.log.clone().finish().losses.iter().map(ToString::to_string).collect()
    }

    /// Reads what there is and gives the lines as they came, whole ones, of each stream in its order.
    pub fn poll_lines(&mut self, consume: &mut dyn FnMut(&Stream, &[u8])) {
        self.streams.iter_mut().for_each(|stream| stream.ready = true);
        self.look(false);
        self.lines = Some(Vec::new());
        while self.step(&mut Nobody, &mut |()| ()) {
            for (stream, mut lines) in self.lines.replace(Vec::new()).unwrap_or_default() {
                if !lines.ends_with(b"\n") {
                    lines.push(b'\n');
                }
                consume(&stream, &lines);
            }
        }
        self.lines = None;
    }

    /// Reads what there is, until there is nothing more or `go_on` says no; returns whether there may be
    /// more right now. Streams advance together in time, as far as their lines show it.
    pub fn poll<W: Worker>(
        &mut self,
        worker: &mut W,
        go_on: &mut dyn FnMut() -> bool,
        consume: &mut dyn FnMut(W::Batch),
    ) -> bool {
        self.streams.iter_mut().for_each(|stream| stream.ready = true);
        loop {
            if self.looked.is_none_or(|at| at.elapsed() >= POLL_INTERVAL) {
                self.look(false);
            }
            if !go_on() {
                return true;
            }
            if !self.step(worker, consume) {
                return false;
            }
        }
    }

    /// The end of the run: reads to where the files reach now, and last lines without a newline, if they are
    /// whole. Returns whether all was read before `go_on` said no.
    pub fn finish<W: Worker>(
        &mut self,
        worker: &mut W,
        go_on: &mut dyn FnMut() -> bool,
        consume: &mut dyn FnMut(W::Batch),
    ) -> bool {
        // A second look finds what a folder that was changing did not show to the first.
        for _ in 0..3 {
            let found = self.look(true);
            for stream in &mut self.streams {
                stream.ready = true;
                stream.tails.iter_mut().filter_map(Tail::growing_mut).for_each(Growing::stop_here);
            }
            loop {
                if !go_on() {
                    return false;
                }
                if !self.step(worker, consume) {
                    break;
                }
            }
            if !found {
                break;
            }
        }
        for at in 0..self.streams.len() {
            for tail in 0..self.streams[at].tails.len() {
                let Tail { input, .. } = self.streams[at].tails[tail];
                if let Some(chunk) = self.streams[at].tails[tail].rest() {
                    self.take(at, input, chunk, 0, worker, consume);
                }
            }
        }
        true
    }

    /// Reads one block of the stream that is furthest behind; returns whether there was one.
    fn step<W: Worker>(&mut self, worker: &mut W, consume: &mut dyn FnMut(W::Batch)) -> bool {
        loop {
            let behind = self.streams.iter().enumerate().filter(|(_, s)| s.ready).min_by_key(|(_, s)| s.reached);
            let Some((at, _)) = behind else { return false };
            let mut tail = 0;
            while tail < self.streams[at].tails.len() {
                let reading = &mut self.streams[at].tails[tail];
                let input = reading.input;
                match reading.read() {
                    Step::Lines(chunk, bytes) => {
                        self.was_cut_short(at, tail);
                        self.take(at, input, chunk, bytes, worker, consume);
                        return true;
                    }
                    Step::Nothing => {
                        let is_last = !self.streams[at].tails[tail + 1..].iter().any(|t| t.growing().is_some());
                        if !is_last && self.streams[at].tails[tail].idle.elapsed() > GRACE {
                            self.close(at, tail, worker, consume);
                        } else {
                            tail += 1;
                        }
                    }
                    Step::Ended => self.close(at, tail, worker, consume),
                }
            }
            self.streams[at].ready = false;
        }
    }

    /// Parses lines; returns whether their last was not whole.
    fn take<W: Worker>(
        &mut self,
        at: usize,
        input: usize,
        chunk: Chunk,
        bytes: u64,
        worker: &mut W,
        consume: &mut dyn FnMut(W::Batch),
    ) -> bool {
        let following = &mut self.streams[at];
        let mut counts = Counts::default();
        if let Some(lines) = self.lines.as_mut().filter(|_| !chunk.lines.is_empty()) {
            lines.push((following.stream.clone(), chunk.bytes[chunk.lines.clone()].to_vec()));
        }
        let last = self.parser.block(Cut::of(input, chunk, bytes), &following.stream, worker, &mut counts);
        following.reached = following.reached.max(last);
        let days = &counts.coverage.days;
        if !days.is_empty() {
            self.days.merge(days);
            self.parser.kept = self.days.kept().wider().and(now()).within(self.window.0, self.window.1);
        }
        let unfinished = counts.coverage.unfinished_lines > 0;
        self.log.take(at, input, counts);
        consume(worker.flush());
        unfinished
    }

    /// Closes an input that has been read, and remembers that it has.
    fn close<W: Worker>(&mut self, at: usize, tail: usize, worker: &mut W, consume: &mut dyn FnMut(W::Batch)) {
        let mut tail = self.streams[at].tails.remove(tail);
        let before = tail.growing().map(|file| file.lines_to());
        let unfinished = tail.rest().is_some_and(|chunk| self.take(at, tail.input, chunk, 0, worker, consume));
        self.remember(&tail, before.filter(|_| unfinished));
    }

    /// Notes that a file was cut short, if it was; goes on with what a copy has of it, if one is there.
    fn was_cut_short(&mut self, at: usize, tail: usize) {
        let reading = &mut self.streams[at].tails[tail];
        if let Some((head, lines_to)) = reading.growing_mut().and_then(Growing::take_cut_short) {
            let path = reading.path.display().to_string();
            self.log.begin(at, &path);
            self.note_past(at, head, lines_to);
        }
    }

    fn add_pipe(&mut self, name: &str, path: PathBuf, pipe: Pipe) {
        let at = self.new_stream(PathBuf::from(name), String::new(), String::new(), String::new());
        let input = self.log.begin(at, name);
        self.streams[at].tails.push(Tail::new(input, path, Body::Pipe(pipe)));
    }

    fn new_stream(&mut self, folder: PathBuf, family: String, cluster: String, instance: String) -> usize {
        let id = self.streams.len() as u32;
        self.log.add_stream();
        let stream = Stream { id, cluster, instance };
        self.streams.push(Following { stream, folder, family, tails: Vec::new(), reached: None, ready: true });
        self.streams.len() - 1
    }

    /// Opens the files of a stream that was found at the start.
    fn add_stream(&mut self, found: LogStream) {
        let LogStream { stream, mut files, .. } = found;
        // The file that has just been created has no event yet: it is the newest, not the oldest.
        files.sort_by_key(|source| source.size == 0);
        let first = match files.first().map(|source| source.place.clone()) {
            Some(Place::File(path)) => path,
            _ => PathBuf::new(),
        };
        let at = self.new_stream(watch::folder_of(&first), watch::family_of(&first), stream.cluster, stream.instance);
        for source in files {
            let Place::File(path) = source.place.clone() else {
                let (name, input) = (PathBuf::from(&source.path), self.log.begin(at, &source.path));
                self.streams[at].tails.push(Tail::new(input, name, Body::Pipe(Pipe::of(source))));
                continue;
            };
            match Candidate::open(&path) {
                Ok(mut candidate) if !self.is_open(candidate.id) => {
                    self.known.remove(&candidate.id);
                    if let Some(back) = self.back {
                        candidate.near_end(back);
                    }
                    self.admit(at, candidate, None);
                }
                Ok(_) => {} // named twice, or linked
                // Rotated just now: its folder shows it again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.errors.push(SourceError::Io { path: source.path, error }),
            }
        }
    }

    /// Begins to read a file: at the end of its stream, or before the input at `place`.
    fn admit(&mut self, at: usize, candidate: Candidate, place: Option<usize>) {
        let Candidate { path, file, id, head, packing, start, from, .. } = candidate;
        let input = self.log.begin(at, &path.display().to_string());
        let document = is_document(&start, packing);
        let body = if packing == Packing::None && !document {
            Body::Growing(Growing::new(file, id, head, from))
        } else {
            Body::Once(Once::new(file, id, head, packing, document))
        };
        let tails = &mut self.streams[at].tails;
        tails.insert(place.unwrap_or(tails.len()).min(tails.len()), Tail::new(input, path, body));
        self.streams[at].ready = true;
    }

    fn is_open(&self, id: known::Id) -> bool {
        self.streams.iter().flat_map(|stream| &stream.tails).any(|tail| tail.id() == Some(id))
    }
}

/// Opens a file to be looked at.
fn open_file(path: &Path) -> io::Result<(File, std::fs::Metadata)> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    Ok((file, meta))
}
