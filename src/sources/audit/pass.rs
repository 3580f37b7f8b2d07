//! One pass over audit logs: blocks of lines are parsed by several threads, and what each block gave
//! is handed on in the order of its stream.
//!
//! A file that can be read at any place is cut into blocks at fixed offsets; a line belongs to the
//! block in which it starts. Of anything else (pipes, compressed files, documents) whoever takes the
//! next block reads and unpacks it, while others parse the ones before. No event is kept.

use super::blocks::{Chunk, Cut, Feed};
use super::forms::{read_counting, times_named};
use super::scan::{Memory, scan};
use super::twice::{self, Seen};
use crate::model::event::{Event, Stage, Stream, Timed};
use crate::model::input::{Coverage, Dedupe, InputReport, Loss, LossKind, Reading};
use crate::model::stray::{KeptDays, MAX_DURATION};
use crate::model::time::{self, Micros, Span, TimeParser};
use crate::sources::found::LogStream;
use crate::sources::watcher::Watcher;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What is made of a log's events, one block at a time, on one thread.
pub trait Worker: Send {
    /// What one block gave that has to be seen in order.
    type Batch: Send;

    /// Takes one event.
    fn event(&mut self, event: Timed<'_, '_>);

    /// Ends a block.
    fn flush(&mut self) -> Self::Batch;
}

/// What one pass gave, beside what the workers made of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// One per input file.
    pub inputs: Vec<InputReport>,
    /// What was lost, by file and kind.
    pub losses: Vec<Loss>,
    /// What the logs show, per stream.
    pub coverage: Vec<Coverage>,
    /// The window that was used in place of the one asked for, where roll-ups are cut at whole tiles.
    pub widened: Option<Span>,
}

impl Outcome {
    /// The coverage of all streams together.
    pub fn total(&self) -> Coverage {
        let mut all = Coverage::default();
        self.coverage.iter().for_each(|c| all.merge(c));
        all
    }
}

/// What comes of a stream, in its order.
#[derive(Debug)]
pub enum Delivery<B> {
    /// What the worker made of the next block, or of some that follow one another.
    Block {
        /// The stream's number.
        stream: usize,
        /// What was made of it.
        batch: B,
    },
    /// There are no more blocks.
    End {
        /// The stream's number.
        stream: usize,
    },
}

/// What a worker sends.
enum Message<B> {
    /// Parsed blocks that follow one another, by the place of the first in their stream.
    Parsed { stream: usize, order: u64, run: Box<Parsed<B>> },
    /// So many blocks were all of a stream.
    Blocks { stream: usize, count: u64 },
}

/// Parsed blocks that follow one another.
struct Parsed<B> {
    batch: B,
    /// Of each block: its file, and what was met in it.
    blocks: Vec<(usize, Counts)>,
}

/// The blocks of a stream that came before their turn.
struct Turn<B> {
    due: u64,
    pending: BTreeMap<u64, Box<Parsed<B>>>,
    total: Option<u64>,
}

/// What was met in a block.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) coverage: Coverage,
    pub(super) bytes: u64,
    pub(super) all_lines: u64,
    pub(super) losses: Vec<BlockLoss>,
}

/// Losses of one kind within a block.
#[derive(Debug)]
pub(super) struct BlockLoss {
    kind: LossKind,
    /// Line of the first, within the block, from 0.
    line: u64,
    /// Offset of the first, in the file.
    offset: u64,
    count: u64,
    detail: String,
}

/// Reads `streams` with so many workers; `consume` gets the batches on this thread.
pub fn run<W: Worker>(
    streams: Vec<LogStream>,
    how: impl Into<Reading>,
    watcher: &dyn Watcher,
    make: impl Fn() -> W + Sync,
    mut consume: impl FnMut(Delivery<W::Batch>),
) -> (Vec<W>, Outcome) {
    let Reading { threads, dedupe } = how.into();
    let threads = threads.max(1);
    let is_deduped = |stream: &LogStream| dedupe == Dedupe::Always || dedupe == Dedupe::Auto && stream.has_copies;
    let deduped: Vec<bool> = streams.iter().map(is_deduped).collect();
    let seen = Arc::new(Seen::default());
    let mut log = Log::new(&streams);
    let names: Vec<Stream> = streams.iter().map(|s| s.stream.clone()).collect();
    let kept = streams.first().map(|stream| stream.kept.clone()).unwrap_or_default();
    let feeds: Vec<Mutex<Feed>> = streams.into_iter().map(|s| Mutex::new(Feed::new(s.files))).collect();
    let schedule = Mutex::new(Schedule::new(feeds.len()));
    let (send, receive) = crossbeam_channel::bounded::<Message<W::Batch>>(threads * 2);
    let workers = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|_| {
                let send = send.clone();
                let (feeds, schedule, names, kept, make) = (&feeds, &schedule, &names, &kept, &make);
                let (deduped, seen) = (&deduped, &seen);
                scope.spawn(move || {
                    let mut worker = make();
                    let mut parser = Parser { kept: kept.clone(), ..Parser::default() };
                    loop {
                        let Some(stream) = lock(schedule).next() else { break };
                        let mut feed = lock(&feeds[stream]);
                        let cuts = feed.next_run();
                        let Some(order) = cuts.first().map(|cut| cut.order) else {
                            let count = feed.order();
                            drop(feed);
                            if !lock(schedule).exhausted(stream) || send.send(Message::Blocks { stream, count }).is_ok()
                            {
                                continue;
                            }
                            break;
                        };
                        // Of copies the first of the stream counts: its blocks are parsed in their order.
                        let in_order = deduped[stream].then_some(feed);
                        parser.seen = deduped[stream].then(|| Arc::clone(seen));
                        let mut blocks = Vec::with_capacity(cuts.len());
                        for cut in cuts {
                            let mut counts = Counts::default();
                            let file = cut.file;
                            let last = parser.block(cut, &names[stream], &mut worker, &mut counts);
                            watcher.read(counts.bytes);
                            if let Some(last) = last {
                                lock(schedule).reached(stream, last);
                            }
                            blocks.push((file, counts));
                        }
                        drop(in_order);
                        let run = Box::new(Parsed { batch: worker.flush(), blocks });
                        if send.send(Message::Parsed { stream, order, run }).is_err() {
                            break;
                        }
                    }
                    worker
                })
            })
            .collect();
        drop(send);
        let mut turns: Vec<Turn<W::Batch>> =
            names.iter().map(|_| Turn { due: 0, pending: BTreeMap::new(), total: None }).collect();
        for message in receive {
            let stream = match message {
                Message::Parsed { stream, order, run } => {
                    turns[stream].pending.insert(order, run);
                    stream
                }
                Message::Blocks { stream, count } => {
                    turns[stream].total = Some(count);
                    stream
                }
            };
            let turn = &mut turns[stream];
            while let Some(run) = turn.pending.remove(&turn.due) {
                turn.due += run.blocks.len() as u64;
                run.blocks.into_iter().for_each(|(file, counts)| log.take(stream, file, counts));
                consume(Delivery::Block { stream, batch: run.batch });
            }
            if turn.total == Some(turn.due) {
                turn.total = None;
                consume(Delivery::End { stream });
            }
        }
        handles.into_iter().map(|handle| handle.join()).collect::<Vec<_>>()
    });
    // A panic in a worker is a defect: it goes on here, where it is seen.
    let workers =
        workers.into_iter().map(|worker| worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect();
    (workers, log.finish())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A worker that panicked leaves plain data behind; the panic itself is raised when it is joined.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Which stream to read next: the one that is furthest behind in time, so that streams of several
/// apiservers advance together and little has to be held to bring them into one order.
#[derive(Debug)]
struct Schedule {
    /// Time reached, or `None` before the first block; then whether anything is left.
    streams: Vec<(Option<Micros>, bool, u64)>,
}

impl Schedule {
    fn new(count: usize) -> Self {
        Self { streams: vec![(None, true, 0); count] }
    }

    fn next(&mut self) -> Option<usize> {
        let (index, _) = self
            .streams
            .iter()
            .enumerate()
            .filter(|(_, s)| s.1)
            .min_by_key(|(_, s)| (s.0.is_some() || s.2 > 0, s.0, s.2))?;
        self.streams[index].2 += 1;
        Some(index)
    }

    fn reached(&mut self, stream: usize, at: Micros) {
        let time = &mut self.streams[stream].0;
        *time = Some(time.map_or(at, |t| t.max(at)));
    }

    /// Takes a stream out; whether it was in.
    fn exhausted(&mut self, stream: usize) -> bool {
        std::mem::replace(&mut self.streams[stream].1, false)
    }
}

/// Parses blocks; remembers the minute it was in.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// What is not stray.
    pub(super) kept: KeptDays,
    /// What was met before, where copies are looked for.
    pub(super) seen: Option<Arc<Seen>>,
    times: TimeParser,
    memory: Memory,
    buffer: Vec<u8>,
}

impl Parser {
    /// Hands the events of a block to `worker`; returns the largest `at`.
    pub(super) fn block<W: Worker>(
        &mut self,
        cut: Cut,
        stream: &Stream,
        worker: &mut W,
        counts: &mut Counts,
    ) -> Option<Micros> {
        counts.bytes = cut.disk_bytes;
        let Chunk { bytes: buffer, lines, offset, losses, ends_file, unfinished_is_loss } =
            cut.load(std::mem::take(&mut self.buffer));
        let bytes = &buffer[lines];
        let Self { kept, times, memory, seen, .. } = self;
        let mut events = Events {
            times,
            kept,
            seen: seen.as_deref(),
            stream,
            worker,
            coverage: &mut counts.coverage,
            no_time: false,
            stray: None,
        };
        let mut start = 0;
        let mut event = Event::default();
        let mut lines = 0;
        while start < bytes.len() {
            if let Some(end) = scan(bytes, start, memory, &mut event) {
                events.take(&event);
                if !events.no_time {
                    events.coverage.lines += 1;
                    if let Some(at) = events.stray.take() {
                        lose(&mut counts.losses, LossKind::Stray, lines, offset + start as u64, time::format(at));
                    }
                    lines += 1;
                    start = end + 1;
                    continue;
                }
            }
            let (end, whole) = match memchr::memchr(b'\n', &bytes[start..]) {
                Some(length) => (start + length, true),
                None => (bytes.len(), false),
            };
            let line = &bytes[start..end];
            let number = lines;
            lines += 1;
            events.coverage.lines += u64::from(!line.trim_ascii().is_empty());
            let mut others = 0;
            let mut lost =
                if events.no_time { None } else { read_counting(line, &mut |event| events.take(event), &mut others) };
            events.coverage.others += others;
            let no_time = std::mem::take(&mut events.no_time);
            lost = lost.or(no_time.then_some(LossKind::NoTime));
            if let Some(at) = events.stray.take() {
                lose(&mut counts.losses, LossKind::Stray, number, offset + start as u64, time::format(at));
            }
            if !whole && ends_file && lost.is_some() && !unfinished_is_loss {
                events.coverage.unfinished_lines += 1;
                lost = None;
            }
            if let Some(kind) = lost {
                let is_first = || !counts.losses.iter().any(|lost| lost.kind == kind);
                let detail = if kind == LossKind::NoTime && is_first() { times_named(line) } else { String::new() };
                lose(&mut counts.losses, kind, number, offset + start as u64, detail);
            }
            start = end + 1;
        }
        let last = counts.coverage.last;
        counts.all_lines = lines;
        for (kind, at, detail) in losses {
            lose(&mut counts.losses, kind, lines, at, detail);
            counts.all_lines += u64::from(kind == LossKind::TooLong);
        }
        self.buffer = buffer;
        last
    }
}

/// Gives a worker the events of a stream.
struct Events<'w, W> {
    times: &'w mut TimeParser,
    stream: &'w Stream,
    worker: &'w mut W,
    coverage: &'w mut Coverage,
    kept: &'w KeptDays,
    seen: Option<&'w Seen>,
    /// Whether the last event had no time and was lost.
    no_time: bool,
    /// The time of the last event, if it was stray.
    stray: Option<Micros>,
}

impl<W: Worker> Events<'_, W> {
    #[inline]
    fn take(&mut self, event: &Event<'_>) {
        let (Some(at), Some(stage)) = (self.times.parse_json(event.at), event.stage) else {
            self.no_time = true;
            return;
        };
        let is_judged = self.kept.judges(at);
        if is_judged {
            self.coverage.days.add(at);
        }
        if !self.kept.takes(at) {
            self.stray = is_judged.then_some(at);
            return;
        }
        if let Some(seen) = self.seen
            && let Some(identity) = twice::identity(event, stage, at)
            && !seen.is_new(twice::of_instance(identity, event, self.stream))
        {
            self.coverage.copies += 1;
            return;
        }
        let received = if event.received.is_empty() { None } else { self.times.parse_json(event.received) };
        // Of two clocks that differ by months nobody knows which was right: that of the log's order counts.
        let received = received.filter(|received| at.abs_diff(*received) <= MAX_DURATION.unsigned_abs());
        self.coverage.event(event.level, stage, at);
        if stage != Stage::RequestReceived {
            self.worker.event(Timed { event, stage, at, received, stream: self.stream });
        }
    }
}

fn lose(losses: &mut Vec<BlockLoss>, kind: LossKind, line: u64, offset: u64, detail: String) {
    match losses.iter_mut().find(|lost| lost.kind == kind) {
        Some(lost) => lost.count += 1,
        None => losses.push(BlockLoss { kind, line, offset, count: 1, detail }),
    }
}

/// Keeps account of what was read and lost, in the order of the streams.
#[derive(Debug, Clone)]
pub(super) struct Log {
    files: Vec<Vec<(InputReport, u64)>>,
    losses: BTreeMap<(usize, usize, LossKind), Loss>,
    coverage: Vec<Coverage>,
}

impl Log {
    pub(super) fn new(streams: &[LogStream]) -> Self {
        let report = |path: &String| (InputReport { path: path.clone(), kind: "audit", ..InputReport::default() }, 0);
        Self {
            files: streams.iter().map(|s| s.files.iter().map(|f| report(&f.path)).collect()).collect(),
            losses: BTreeMap::new(),
            coverage: vec![Coverage::default(); streams.len()],
        }
    }

    pub(super) fn take(&mut self, stream: usize, file: usize, counts: Counts) {
        let (report, lines) = &mut self.files[stream][file];
        report.bytes += counts.bytes;
        report.records += counts.coverage.total();
        self.coverage[stream].merge(&counts.coverage);
        for BlockLoss { kind, line, offset, count, detail } in counts.losses {
            report.skipped += if kind.is_kept() { 0 } else { count };
            let is_line = !matches!(kind, LossKind::Damaged | LossKind::Shrunk | LossKind::Io);
            let loss = self.losses.entry((stream, file, kind)).or_insert_with(|| Loss {
                kind,
                path: report.path.clone(),
                line: if is_line { *lines + line + 1 } else { 0 },
                offset,
                count: 0,
                detail,
            });
            loss.count += count;
        }
        *lines += counts.all_lines;
    }

    pub(super) fn finish(self) -> Outcome {
        let losses: Vec<Loss> = self.losses.into_values().collect();
        let mut inputs: Vec<InputReport> = self.files.into_iter().flatten().map(|(report, _)| report).collect();
        for input in &mut inputs {
            input.first_error = losses.iter().find(|l| l.path == input.path).map(Loss::to_string);
        }
        Outcome { inputs, losses, coverage: self.coverage, widened: None }
    }
}

/// What a log needs whose streams and files are not all known at the start.
impl Log {
    /// Adds a stream without files.
    pub(super) fn add_stream(&mut self) {
        self.files.push(Vec::new());
        self.coverage.push(Coverage::default());
    }

    /// The number of the stream's file at `path`, which now begins at its first line: a new one, or the
    /// one that had this path before.
    pub(super) fn begin(&mut self, stream: usize, path: &str) -> usize {
        let files = &mut self.files[stream];
        if let Some(at) = files.iter().position(|(report, _)| report.path == path) {
            files[at].1 = 0;
            return at;
        }
        files.push((InputReport { path: path.to_owned(), kind: "audit", ..InputReport::default() }, 0));
        files.len() - 1
    }

    /// How many kinds of loss there are, over all files: it grows with each that has not been seen before.
    pub(super) fn lost(&self) -> usize {
        self.losses.len()
    }
}
