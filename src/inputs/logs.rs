//! What is asked of audit logs. A command asks one question and gets its answer; where several commands are run
//! together, as a report does, their questions are heard first (`together`) and answered by one pass over each log.

use super::cached::Cacheable;
use super::pages;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::Wanted;
use crate::cli::{Context, Error, Progress};
use crate::model::event::Timed;
use crate::model::input::Reading;
use crate::model::question::Bounds;
use crate::sources::audit::pass::{self, Delivery, Outcome, Watcher, Worker};
use crate::sources::audit::settle::settled;
use crate::sources::find::LogStream;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What can be answered by one pass over audit logs.
pub(crate) trait Question: Send + Sync + 'static {
    /// What makes the answer.
    type Fold: Fold<Answer = Self::Answer>;
    /// The answer.
    type Answer: Send + Sync + 'static;

    /// Which times it is about.
    fn bounds(&self) -> Bounds;

    /// What makes the answer from so many streams.
    fn fold(&self, streams: usize) -> Self::Fold;

    /// Whether the other has the same answer.
    fn is(&self, other: &Self) -> bool;

    /// What of a stored roll-up answers it; says what it would take where none does.
    fn stored(&self) -> Result<Wanted, String> {
        Err(not_in_a_rollup("this"))
    }

    /// Whether the answer of a roll-up that is held, for whole tiles of it, is the log's own.
    fn is_exact(&self, _held: &Rollup) -> bool {
        true
    }

    /// The answer of what was [wanted](Self::stored) of a roll-up.
    fn of_rollup(&self, _rollup: Rollup) -> Result<Self::Answer, String> {
        self.stored().and(Err(String::new()))
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

    /// The answer of a roll-up of all of the logs; `None` where the logs may tell something else.
    #[cfg_attr(not(feature = "history"), expect(dead_code, reason = "without Parquet nothing is kept"))]
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

/// That a roll-up does not tell something, and what would.
fn not_in_a_rollup(what: &str) -> String {
    format!("a roll-up does not tell {what}: name the audit log itself in its place (docs/rollup.md, section 6)")
}

/// Refuses stored roll-ups where single events are looked at.
pub(crate) fn only_logs(streams: &[LogStream], what: &str) -> Result<(), Error> {
    match streams.iter().filter(|own| own.is_rolled()).find_map(|own| own.files.first()) {
        Some(file) => Err(Error::Usage(format!("{}: {}", file.path, not_in_a_rollup(what)))),
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

/// Answers a question; it is said what was lost.
pub(crate) fn ask<Q: Question>(
    streams: Vec<LogStream>,
    question: Q,
    context: &mut Context<'_>,
) -> Result<Answered<Q::Answer>, Error> {
    let (answer, outcome) = match context.shared.get_mut::<Heard>() {
        None => alone(streams, &question, context)?,
        Some(heard) => match heard.ask(streams, question)? {
            Told::Answer(answered) => answered,
            Told::Unheard(streams, question) => alone(streams, &question, context)?,
        },
    };
    outcome.losses.iter().try_for_each(|loss| context.lost(loss))?;
    Ok((answer, outcome))
}

/// Answers several; those about the same logs by one pass.
pub(crate) fn ask_all<Q: Question + Clone>(
    asked: Vec<(Vec<LogStream>, Q)>,
    context: &mut Context<'_>,
) -> Result<Vec<Answered<Q::Answer>>, Error> {
    let all = |asked: Vec<(Vec<LogStream>, Q)>, context: &mut Context<'_>| -> Result<Vec<_>, Error> {
        let answers: Vec<_> = asked.into_iter().map(|(streams, question)| ask(streams, question, context)).collect();
        // All of them are heard, and not the first only.
        answers.into_iter().collect()
    };
    if context.shared.get::<Heard>().is_some() || asked.iter().any(|(streams, _)| key(streams).is_none()) {
        return all(asked, context);
    }
    let again = |asked: &[(Vec<LogStream>, Q)]| {
        let stream = |streams: &[LogStream]| streams.iter().filter_map(LogStream::again).collect();
        asked.iter().map(|(streams, question)| (stream(streams), question.clone())).collect()
    };
    together(context, |context| all(again(&asked), context))
}

/// One question by a pass of its own.
fn alone<Q: Question>(
    streams: Vec<LogStream>,
    question: &Q,
    context: &mut Context<'_>,
) -> Result<Answered<Q::Answer>, Error> {
    #[cfg(feature = "history")]
    if streams.iter().any(LogStream::is_rolled) {
        return super::rolled::answer(streams, question, context);
    }
    if let Some(answered) =
        context.shared.get::<std::sync::Arc<super::held::Held>>().and_then(|held| held.answer(&streams, question))
    {
        return Ok(answered);
    }
    let cacheable = Cacheable::of(&streams, question.cache_use(), context);
    if let Some(own) = &cacheable
        && let Some(answered) = own.ask(question, context)?
    {
        return Ok(answered);
    }
    let to_keep = cacheable.as_ref().and_then(|_| Question::to_keep(question));
    let progress = progress(&streams, context);
    let asked = to_keep.as_ref().unwrap_or(question);
    let (answer, outcome) = answer(streams, asked, context.settings.reading(), &progress);
    progress.finish();
    let answer = Arc::new(answer);
    if let (Some(own), Some(_)) = (&cacheable, &to_keep) {
        keep(own, &*answer, &outcome, context)?;
    }
    Ok((answer, outcome))
}

/// Keeps an answer that is a roll-up.
fn keep(own: &Cacheable, answer: &dyn Any, outcome: &Outcome, context: &mut Context<'_>) -> Result<(), Error> {
    answer.downcast_ref().map_or(Ok(()), |rollup: &Rollup| own.keep(rollup, outcome, context))
}

/// The same without a command around it.
pub(crate) fn answer<Q: Question>(
    streams: Vec<LogStream>,
    question: &Q,
    how: impl Into<Reading>,
    watcher: &dyn Watcher,
) -> (Q::Answer, Outcome) {
    let how = how.into();
    settled(streams, question.bounds(), |streams| {
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

/// Rounds of hearing, at most: who waits for pages asks the rest in the next one.
const ROUNDS: usize = 4;

/// Runs something that asks until all is answered: at first to hear what is asked, of which nothing is known yet
/// ([`Error::Unanswered`]), then with the answers, for which each log and each page was read once. What is asked only
/// when a log has answered something else has a pass of its own.
pub(crate) fn together<T>(
    context: &mut Context<'_>,
    mut run: impl FnMut(&mut Context<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let outer = context.shared.replace(Some(Heard { is_hearing: true, ..Heard::default() }));
    let mut round = 0;
    let result = loop {
        let result = run(context);
        if matches!(result, Err(Error::Output(_))) {
            break result;
        }
        round += 1;
        let more = pages::answer(context) && round < ROUNDS;
        let Some(heard) = context.shared.get_mut::<Heard>() else { break result };
        if more {
            heard.asked.iter_mut().for_each(|asked| asked.waiting = 0);
        } else if heard.is_hearing
            && (heard.has_unshared || !heard.asked.is_empty() || matches!(result, Err(Error::Unanswered)))
        {
            let mut heard = std::mem::take(heard);
            let answered = heard.answer(context);
            heard.is_hearing = false;
            context.shared.replace(Some(heard));
            if let Err(error) = answered {
                break Err(error);
            }
        } else {
            break result;
        }
    };
    context.shared.replace(outer);
    pages::forget(context);
    result
}

/// Whether questions are only heard for now: what does not ask need not be done yet.
pub(crate) fn is_hearing(context: &Context<'_>) -> bool {
    context.shared.get::<Heard>().is_some_and(|heard| heard.is_hearing)
}

/// Questions that were heard, and their answers.
#[derive(Debug, Default)]
pub struct Heard {
    is_hearing: bool,
    /// Whether somebody asked what has a pass of its own.
    has_unshared: bool,
    asked: Vec<Asked>,
}

/// A question that somebody waits for.
#[derive(Debug)]
struct Asked {
    key: Key,
    /// Until it is answered.
    streams: Vec<LogStream>,
    question: Box<dyn AnyQuestion>,
    /// How many have asked it and have no answer yet.
    waiting: usize,
    answer: Option<AnyAnswer>,
}

/// The answer of any question.
type AnyAnswer = (Arc<dyn Any + Send + Sync>, Outcome);

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

/// What comes of asking among others.
enum Told<Q: Question> {
    Answer(Answered<Q::Answer>),
    /// Nobody heard it: it has to be answered alone.
    Unheard(Vec<LogStream>, Q),
}

impl Heard {
    fn ask<Q: Question>(&mut self, streams: Vec<LogStream>, question: Q) -> Result<Told<Q>, Error> {
        let Some(key) = key(&streams) else {
            // What can be read only once is read when all has been heard.
            self.has_unshared |= self.is_hearing;
            return if self.is_hearing { Err(Error::Unanswered) } else { Ok(Told::Unheard(streams, question)) };
        };
        let is_it = |asked: &Asked| {
            asked.key == key && (*asked.question).as_any().downcast_ref::<Q>().is_some_and(|other| question.is(other))
        };
        let place = self.asked.iter().position(is_it);
        if self.is_hearing {
            match place {
                Some(place) => self.asked[place].waiting += 1,
                None => self.asked.push(Asked { key, streams, question: Box::new(question), waiting: 1, answer: None }),
            }
            return Err(Error::Unanswered);
        }
        let Some(place) = place else { return Ok(Told::Unheard(streams, question)) };
        let asked = &mut self.asked[place];
        asked.waiting = asked.waiting.saturating_sub(1);
        // Who asks last gets the answer for itself, so that it is not kept longer than it is needed.
        let answer = if asked.waiting == 0 { self.asked.remove(place).answer } else { asked.answer.clone() };
        let typed = answer.and_then(|(answer, outcome)| Some((answer.downcast::<Q::Answer>().ok()?, outcome)));
        Ok(typed.map_or_else(|| Told::Unheard(streams, question), Told::Answer))
    }

    /// Answers all that was heard, with one pass for each set of logs.
    fn answer(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let keys: BTreeSet<Key> = self.asked.iter().map(|asked| asked.key.clone()).collect();
        for key in keys {
            let mut of: Vec<&mut Asked> = self.asked.iter_mut().filter(|asked| asked.key == key).collect();
            let Some(streams) = of.first_mut().map(|first| std::mem::take(&mut first.streams)) else { continue };
            of.iter_mut().for_each(|asked| asked.streams.clear());
            let how = of.iter().map(|asked| asked.question.cache_use()).max().unwrap_or(CacheUse::Never);
            let cacheable = Cacheable::of(&streams, how, context);
            if let Some(own) = &cacheable {
                for asked in &mut of {
                    asked.answer = asked.question.cached(own, context)?;
                }
                of.retain(|asked| asked.answer.is_none());
            }
            if of.is_empty() {
                continue;
            }
            let to_keep: Vec<Option<Box<dyn AnyQuestion>>> = match &cacheable {
                Some(_) => of.iter().map(|asked| asked.question.to_keep()).collect(),
                None => of.iter().map(|_| None).collect(),
            };
            let questions: Vec<&dyn AnyQuestion> =
                of.iter().zip(&to_keep).map(|(asked, kept)| &**kept.as_ref().unwrap_or(&asked.question)).collect();
            let (answers, outcome) = side_by_side(streams, &questions, context);
            // What is stray is judged by what was asked for: where it matters, each question is judged by itself,
            // alone.
            let bounds = questions[0].bounds();
            if questions.iter().any(|other| other.bounds() != bounds) && !outcome.total().days.are_one_group() {
                continue;
            }
            let whole = answers.iter().zip(&to_keep).find(|(_, kept)| kept.is_some());
            if let (Some(own), Some((answer, _))) = (&cacheable, whole) {
                keep(own, &**answer, &outcome, context)?;
            }
            for (asked, answer) in of.into_iter().zip(answers) {
                asked.answer = Some((answer, outcome.clone()));
            }
        }
        Ok(())
    }
}

/// Answers questions by one pass.
fn side_by_side(
    streams: Vec<LogStream>,
    questions: &[&dyn AnyQuestion],
    context: &Context<'_>,
) -> (Vec<Arc<dyn Any + Send + Sync>>, Outcome) {
    let progress = progress(&streams, context);
    // Times that nobody asks for need not be judged.
    let since = questions.iter().map(|question| question.bounds().0).min().flatten();
    let until = questions
        .iter()
        .map(|question| question.bounds().1)
        .collect::<Option<Vec<_>>>()
        .and_then(|all| all.into_iter().max());
    let result = settled(streams, (since, until), |streams| {
        let folds: Vec<Box<dyn AnyFold>> = questions.iter().map(|question| question.fold(streams.len())).collect();
        let lanes: Vec<Box<dyn AnyLane + '_>> = folds.iter().map(|fold| fold.lane()).collect();
        let make = || Sides(lanes.iter().map(|lane| lane.side()).collect());
        let (workers, outcome) =
            pass::run(streams, context.settings.reading(), &progress, make, |delivery| match delivery {
                Delivery::Block { stream, batch } => {
                    lanes.iter().zip(batch).for_each(|(lane, batch)| lane.take(Delivery::Block { stream, batch }));
                }
                Delivery::End { stream } => lanes.iter().for_each(|lane| lane.take(Delivery::End { stream })),
            });
        workers.into_iter().flat_map(|sides| sides.0).for_each(AnySide::end);
        (lanes.into_iter().map(AnyLane::finish).collect(), outcome)
    });
    progress.finish();
    result
}

/// Workers side by side.
struct Sides<'l>(Vec<Box<dyn AnySide + 'l>>);

impl Worker for Sides<'_> {
    type Batch = Vec<AnyBatch>;
    fn event(&mut self, event: Timed<'_, '_>) {
        self.0.iter_mut().for_each(|side| side.event(event));
    }
    fn flush(&mut self) -> Self::Batch {
        self.0.iter_mut().map(|side| side.flush()).collect()
    }
}

/// A batch of any fold.
type AnyBatch = Box<dyn Any + Send>;

/// Any question.
trait AnyQuestion: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn bounds(&self) -> Bounds;
    fn fold(&self, streams: usize) -> Box<dyn AnyFold>;
    fn cache_use(&self) -> CacheUse;
    fn cached(&self, own: &Cacheable, context: &mut Context<'_>) -> Result<Option<AnyAnswer>, Error>;
    fn to_keep(&self) -> Option<Box<dyn AnyQuestion>>;
}

impl std::fmt::Debug for dyn AnyQuestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a question about {:?}", self.bounds())
    }
}

impl<Q: Question> AnyQuestion for Q {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn bounds(&self) -> Bounds {
        Question::bounds(self)
    }
    fn fold(&self, streams: usize) -> Box<dyn AnyFold> {
        Box::new(Question::fold(self, streams))
    }
    fn cache_use(&self) -> CacheUse {
        Question::cache_use(self)
    }
    fn cached(&self, own: &Cacheable, context: &mut Context<'_>) -> Result<Option<AnyAnswer>, Error> {
        Ok(own.ask(self, context)?.map(|(answer, outcome)| (answer as Arc<dyn Any + Send + Sync>, outcome)))
    }
    fn to_keep(&self) -> Option<Box<dyn AnyQuestion>> {
        Some(Box::new(Question::to_keep(self)?))
    }
}

/// Any fold.
trait AnyFold {
    fn lane(&self) -> Box<dyn AnyLane + '_>;
}

impl<F: Fold> AnyFold for F
where
    F::Answer: Send + Sync + 'static,
{
    fn lane(&self) -> Box<dyn AnyLane + '_> {
        Box::new(Lane { fold: self, state: Mutex::new(self.begin()), done: Mutex::default() })
    }
}

/// What one fold does among others.
trait AnyLane: Sync {
    fn side(&self) -> Box<dyn AnySide + '_>;
    fn take(&self, delivery: Delivery<AnyBatch>);
    fn finish(self: Box<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// The same of a fold that is known.
struct Lane<'f, F: Fold + 'f> {
    fold: &'f F,
    state: Mutex<F::State>,
    done: Mutex<Vec<F::Worker<'f>>>,
}

impl<F: Fold> AnyLane for Lane<'_, F>
where
    F::Answer: Send + Sync + 'static,
{
    fn side(&self) -> Box<dyn AnySide + '_> {
        Box::new(Side { worker: self.fold.worker(), done: &self.done })
    }
    fn take(&self, delivery: Delivery<AnyBatch>) {
        let delivery = match delivery {
            Delivery::Block { stream, batch } => match batch.downcast::<F::Batch>() {
                Ok(batch) => Delivery::Block { stream, batch: *batch },
                // It comes from this fold's own worker.
                Err(_) => return,
            },
            Delivery::End { stream } => Delivery::End { stream },
        };
        self.fold.take(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), delivery);
    }
    fn finish(self: Box<Self>) -> Arc<dyn Any + Send + Sync> {
        let Self { fold, state, done } = *self;
        let (state, workers) = (state.into_inner().unwrap_or_else(PoisonError::into_inner), done.into_inner());
        Arc::new(fold.finish(state, workers.unwrap_or_else(PoisonError::into_inner)))
    }
}

/// One worker of a fold.
trait AnySide: Send {
    fn event(&mut self, event: Timed<'_, '_>);
    fn flush(&mut self) -> AnyBatch;
    fn end(self: Box<Self>);
}

/// The same of a fold that is known; at the end the worker goes back to its lane.
struct Side<'l, W> {
    worker: W,
    done: &'l Mutex<Vec<W>>,
}

impl<W: Worker> AnySide for Side<'_, W>
where
    W::Batch: 'static,
{
    fn event(&mut self, event: Timed<'_, '_>) {
        self.worker.event(event);
    }
    fn flush(&mut self) -> AnyBatch {
        Box::new(self.worker.flush())
    }
    fn end(self: Box<Self>) {
        let Self { worker, done } = *self;
        done.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }
}
