//! Setting stray times aside in one pass: the ends of the files show which times the logs are about, and what the pass
//! then counts by day shows whether that was right. If it was not, the logs are read once more.

use super::pass::Outcome;
use crate::model::input::Coverage;
use crate::model::stray::{KeptDays, MAX_DURATION};
use crate::model::time::{Bounds, Micros, Span, together};
use crate::sources::found::LogStream;
use crate::sources::open::{EDGE, Place, Source};
use crate::sources::packing::HEAD;

/// Times of one end of a file that are enough to see what it is about.
const MIN_EVENTS: usize = 3;

/// How far around its beginning what can be read only once is believed: three years.
const ONCE: Micros = 36 * MAX_DURATION;

/// Which times of logs are of interest.
#[derive(Debug, Clone, Copy)]
pub struct LogBounds {
    /// Those of which it is judged what is stray.
    pub judged: Bounds,
    /// Those outside of which nobody looks at an event: of a dataset, hours that lie there are not read.
    pub read: Bounds,
}

/// Runs `attempt` over the logs with what is stray set aside: once, or twice where the ends of the files misled.
pub fn settled<R>(
    mut streams: Vec<LogStream>,
    asked: LogBounds,
    mut attempt: impl FnMut(Vec<LogStream>) -> (R, Outcome),
) -> (R, Outcome) {
    let left: Vec<Coverage> = streams.iter_mut().map(|stream| leave_out(stream, asked.read)).collect();
    let (result, mut outcome) = attempted(streams, asked.judged, &mut attempt);
    // The log goes on there all the same.
    outcome.coverage.iter_mut().zip(&left).for_each(|(own, left)| own.merge(left));
    (result, outcome)
}

/// Takes out of a log the files of hours of which nothing is asked; when they have events.
fn leave_out(stream: &mut LogStream, (since, until): Bounds) -> Coverage {
    let mut left = None;
    stream.files.retain(|file| {
        let Some((span, events)) = file.hour() else { return true };
        let is_asked = since.is_none_or(|since| span.1 > since) && until.is_none_or(|until| span.0 < until);
        if !is_asked {
            left = together(left, Some(events));
        }
        is_asked
    });
    let (first, last) = left.unzip();
    Coverage { first, last, ..Coverage::default() }
}

/// Runs it once, or twice.
fn attempted<R>(
    mut streams: Vec<LogStream>,
    (since, until): Bounds,
    attempt: &mut impl FnMut(Vec<LogStream>) -> (R, Outcome),
) -> (R, Outcome) {
    let latest = streams.first().map(|stream| stream.kept.clone()).unwrap_or_default();
    let guess = guess(&streams).within(since, until).no_later_than(&latest);
    streams.iter_mut().for_each(|stream| stream.kept = guess.clone());
    let again: Option<Vec<LogStream>> = streams.iter().map(LogStream::again).collect();
    let (result, outcome) = attempt(streams);
    let days = outcome.total().days;
    match again.filter(|_| !days.agree_with(&guess)) {
        Some(mut streams) => {
            drop(result);
            let kept = days.kept().within(since, until).no_later_than(&latest);
            streams.iter_mut().for_each(|stream| stream.kept = kept.clone());
            attempt(streams)
        }
        None => (result, outcome),
    }
}

/// Which times the logs are about, by the ends of their files.
pub(super) fn guess(streams: &[LogStream]) -> KeptDays {
    let is_again = streams.iter().flat_map(|stream| &stream.files).all(|file| matches!(file.place, Place::File(_)));
    let stretch = |file: &Source| {
        let middle = |mut times: Vec<Micros>| {
            times.sort_unstable();
            (times.len() >= MIN_EVENTS).then(|| times[times.len() / 2])
        };
        let head = middle(file.head_times(EDGE));
        match &file.place {
            Place::File(_) if is_again && file.is_seekable() => head.zip(middle(file.tail_times(EDGE))),
            // Nobody knows where it ends, or there is no second look if this one misleads.
            Place::File(_) => Some((Micros::MIN, Micros::MAX)),
            Place::Once(_) | Place::Url(_) => head.map(|at| (at.saturating_sub(ONCE), at.saturating_add(ONCE))),
        }
    };
    let in_order = |(a, b): Span| (a.min(b), a.max(b));
    let files = streams.iter().flat_map(|stream| &stream.files).filter(|file| file.content.is_log());
    let stretches: Option<Vec<Span>> = files.map(|file| stretch(file).map(in_order)).collect();
    stretches
        .filter(|stretches| !stretches.is_empty())
        .map_or_else(KeptDays::default, |stretches| KeptDays::around(&stretches))
}

/// How long the logs are: from the first event near the start of any file to the last near the end of any, stray ones
/// left out; `None` unless all can be read at any place.
pub fn length(streams: &[LogStream]) -> Option<Micros> {
    let kept = guess(streams);
    let files = || streams.iter().flat_map(|stream| &stream.files);
    let within = |times: Vec<Micros>| times.into_iter().filter(|at| kept.takes(*at)).collect::<Vec<_>>();
    let first = files().flat_map(|file| within(file.head_times(usize::MAX))).min()?;
    let ends = files()
        .map(|file| file.shows_its_end().then(|| within(file.tail_times(usize::MAX)).into_iter().max()))
        .collect::<Option<Vec<_>>>()?;
    let last = ends.into_iter().flatten().max()?;
    (last > first).then_some(last - first)
}

/// How long the logs are, estimated where a file's end can't be looked at: as if it went on at the pace at which it
/// begins.
pub fn rough_length(streams: &[LogStream]) -> Option<Micros> {
    rough_ends(streams).map(|(first, last)| last.saturating_sub(first)).filter(|span| *span > 0)
}

/// From when until when the logs are, estimated in the same way.
pub fn rough_ends(streams: &[LogStream]) -> Option<Span> {
    let kept = guess(streams);
    let mut all: Option<Span> = None;
    for file in streams.iter().flat_map(|stream| &stream.files) {
        let times =
            || file.head_times(usize::MAX).into_iter().chain(file.tail_times(usize::MAX)).filter(|at| kept.takes(*at));
        let Some((first, last)) = times().min().zip(times().max()) else { continue };
        let heads = (file.size.saturating_mul(UNPACKED) / HEAD as u64).min(MANY_HEADS);
        let last = if file.shows_its_end() {
            last
        } else {
            last.saturating_add((last - first).saturating_mul(heads as Micros))
        };
        all = together(all, Some((first, last)));
    }
    all
}

/// How much longer logs are unpacked, about.
const UNPACKED: u64 = 15;

/// Times the head that a file is taken to be long, at most.
const MANY_HEADS: u64 = 1 << 20;
