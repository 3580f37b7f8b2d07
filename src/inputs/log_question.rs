//! What one pass over audit logs can answer: a question, what makes its answer, and the pass.

use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::Wanted;
use crate::cli::{Context, Error, Progress};
use crate::model::input::Reading;
use crate::model::problem::Problem;
use crate::model::time::Bounds;
use crate::sources::audit::pass::{self, Delivery, Outcome, Worker};
use crate::sources::audit::settle::{LogBounds, settled};
use crate::sources::found::LogStream;
use crate::sources::watcher::Watcher;
use std::sync::Arc;

/// What can be answered by one pass over audit logs.
pub(crate) trait LogQuestion: Send + Sync + 'static {
    /// What makes the answer.
    type Fold: Fold<Answer = Self::Answer>;
    /// The answer.
    type Answer: Send + Sync + 'static;

    /// Which times it is about.
    fn bounds(&self) -> Bounds;

    /// Which times it looks at: what it compares with may lie outside of what it is about.
    fn looks_at(&self) -> Bounds {
        self.bounds()
    }

    /// What makes the answer from so many streams.
    fn fold(&self, streams: usize) -> Self::Fold;

    /// Whether the other has the same answer.
    fn is(&self, other: &Self) -> bool;

    /// What of a stored roll-up answers it; says what it would take where none does.
    fn stored(&self) -> Result<Wanted, Problem> {
        Err(not_in_a_rollup("this"))
    }

    /// Whether the answer of a roll-up that is held, for whole tiles of it, is the log's own.
    fn is_exact(&self, _held: &Rollup) -> bool {
        true
    }

    /// The answer of what was [wanted](Self::stored) of a roll-up.
    fn of_rollup(&self, _rollup: Rollup) -> Result<Self::Answer, Problem> {
        self.stored().and(Err(not_in_a_rollup("this")))
    }

    /// How a roll-up that the cache keeps may answer it.
    fn cache_use(&self) -> CacheUse {
        CacheUse::Never
    }

    /// The question whose answer is this one's, and a roll-up that the cache can keep.
    fn to_keep(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// The answer of a roll-up of all of the logs; `None` where the logs may show something else.
    #[cfg_attr(not(feature = "history"), expect(dead_code, reason = "without Parquet there is no cache"))]
    fn of_kept(&self, rollup: Rollup) -> Option<Self::Answer> {
        self.of_rollup(rollup).ok()
    }
}

/// How a roll-up of all of the logs that the cache keeps may answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CacheUse {
    /// Not at all.
    Never,
    /// In place of the logs where that is quicker.
    IfCheap,
    /// In place of the logs.
    Whole,
}

/// That a roll-up does not show something, and what would.
fn not_in_a_rollup(what: &str) -> Problem {
    Problem::unanswered(format!("roll-ups do not keep {what}"))
        .hint("give the audit log itself (docs/rollup.md, section 6)")
}

/// Refuses stored roll-ups where single events are looked at.
pub(crate) fn only_logs(streams: &[LogStream], what: &str) -> Result<(), Error> {
    match streams.iter().filter(|own| own.is_rolled()).find_map(|own| own.files.first()) {
        Some(file) => Err(Error::usage(not_in_a_rollup(what).at(&file.path))),
        None => Ok(()),
    }
}

/// What makes an answer: workers on threads, and what each block gave, put together in the order of the streams.
pub(crate) trait Fold: Send + Sync {
    /// What takes events, on one thread.
    type Worker<'f>: Worker<Batch = Self::Batch>
    where
        Self: 'f;
    /// What a block gave.
    type Batch: Send + 'static;
    /// What blocks come to.
    type State: Send;
    /// What all comes to.
    type Answer;

    /// A worker for one thread.
    fn worker(&self) -> Self::Worker<'_>;

    /// What no block comes to.
    fn begin(&self) -> Self::State;

    /// Takes what comes of a stream.
    fn take(&self, state: &mut Self::State, delivery: Delivery<Self::Batch>);

    /// The answer.
    fn finish(&self, state: Self::State, workers: Vec<Self::Worker<'_>>) -> Self::Answer;
}

/// An answer, and what was read for it. Others may have asked the same.
pub(crate) type Answered<A> = (Arc<A>, Outcome);

/// Answers a question by a pass of its own, without a command around it.
pub(crate) fn answer<Q: LogQuestion>(
    streams: Vec<LogStream>,
    question: &Q,
    how: impl Into<Reading>,
    watcher: &dyn Watcher,
) -> (Q::Answer, Outcome) {
    let how = how.into();
    let asked = LogBounds { judged: question.bounds(), read: question.looks_at() };
    settled(streams, asked, |streams| {
        let fold = question.fold(streams.len());
        let mut state = fold.begin();
        let (workers, outcome) =
            pass::run(streams, how, watcher, || fold.worker(), |delivery| fold.take(&mut state, delivery));
        (fold.finish(state, workers), outcome)
    })
}

/// Progress of a pass over logs.
pub(crate) fn progress(streams: &[LogStream], context: &Context<'_>) -> Progress {
    let bytes = streams.iter().flat_map(|stream| &stream.files).map(|file| file.size).sum();
    Progress::bytes(bytes, context.settings.progress)
}

/// Which logs: cluster and instance of each, and its files.
pub(crate) type Key = Vec<(String, String, Vec<String>)>;

/// `None` where the logs can be read only once, or roll-ups answer for them: what these hold is no pass of a log.
pub(crate) fn key(streams: &[LogStream]) -> Option<Key> {
    let one = |own: &LogStream| {
        own.again().filter(|own| !own.is_rolled())?;
        let files = own.files.iter().map(|file| file.path.clone()).collect();
        Some((own.stream.cluster.clone(), own.stream.instance.clone(), files))
    };
    streams.iter().map(one).collect()
}
