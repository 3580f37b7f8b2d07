//! What is asked of audit logs. A command asks one question and gets its answer; where several commands are run
//! together, as a report does, their questions are heard first ([`super::together`]) and answered by one pass over each
//! log.

use super::cached::Cacheable;
use super::log_question::{Answered, CacheUse, Fold, Key, LogQuestion, answer, key, progress};
use crate::analysis::rollup::Rollup;
use crate::cli::{Context, Error};
use crate::model::event::Timed;
use crate::model::time::Bounds;
use crate::sources::audit::pass::{self, Delivery, Outcome, Worker};
use crate::sources::audit::settle::{LogBounds, settled};
use crate::sources::found::LogStream;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Answers a question; it is said what was lost.
pub(crate) fn ask<Q: LogQuestion>(
    streams: Vec<LogStream>,
    question: Q,
    context: &mut Context<'_>,
) -> Result<Answered<Q::Answer>, Error> {
    let (answer, outcome) = match context.shared.get_mut::<QuestionBatch>() {
        None => alone(streams, &question, context)?,
        Some(batch) => match batch.ask(streams, question)? {
            SharedAnswer::Answer(answered) => answered,
            SharedAnswer::Unheard(streams, question) => alone(streams, &question, context)?,
        },
    };
    outcome.losses.iter().try_for_each(|loss| context.lost(loss))?;
    Ok((answer, outcome))
}

/// One question by a pass of its own.
fn alone<Q: LogQuestion>(
    streams: Vec<LogStream>,
    question: &Q,
    context: &mut Context<'_>,
) -> Result<Answered<Q::Answer>, Error> {
    #[cfg(feature = "history")]
    if streams.iter().any(LogStream::is_rolled) {
        return super::rolled::answer(streams, question, context);
    }
    if let Some(answered) =
        context.shared.get::<std::sync::Arc<super::held::HeldLogs>>().and_then(|held| held.answer(&streams, question))
    {
        return Ok(answered);
    }
    let cacheable = Cacheable::of(&streams, question.cache_use(), context);
    if let Some(own) = &cacheable
        && let Some(answered) = own.ask(question, context)?
    {
        return Ok(answered);
    }
    let to_keep = cacheable.as_ref().and_then(|_| LogQuestion::to_keep(question));
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

/// Whether questions are only heard for now: what does not ask need not be done yet.
pub(crate) fn is_collecting(context: &Context<'_>) -> bool {
    context.shared.get::<QuestionBatch>().is_some_and(|batch| batch.is_collecting)
}

/// Questions that were heard, and their answers.
#[derive(Debug, Default)]
pub struct QuestionBatch {
    pub(super) is_collecting: bool,
    /// Whether somebody asked what has a pass of its own.
    pub(super) has_unshared: bool,
    pub(super) asked: Vec<PendingQuestion>,
}

/// A question that somebody waits for.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    key: Key,
    /// Until it is answered.
    streams: Vec<LogStream>,
    question: Box<dyn AnyQuestion>,
    /// How many have asked it and have no answer yet.
    pub(super) waiting: usize,
    answer: Option<AnyAnswer>,
}

/// The answer of any question.
type AnyAnswer = (Arc<dyn Any + Send + Sync>, Outcome);

/// What comes of asking among others.
enum SharedAnswer<Q: LogQuestion> {
    Answer(Answered<Q::Answer>),
    /// Nobody heard it: it has to be answered alone.
    Unheard(Vec<LogStream>, Q),
}

impl QuestionBatch {
    fn ask<Q: LogQuestion>(&mut self, streams: Vec<LogStream>, question: Q) -> Result<SharedAnswer<Q>, Error> {
        let Some(key) = key(&streams) else {
            // What can be read only once is read when all has been heard.
            self.has_unshared |= self.is_collecting;
            return if self.is_collecting {
                Err(Error::Unanswered)
            } else {
                Ok(SharedAnswer::Unheard(streams, question))
            };
        };
        let is_it = |asked: &PendingQuestion| {
            asked.key == key && (*asked.question).as_any().downcast_ref::<Q>().is_some_and(|other| question.is(other))
        };
        let place = self.asked.iter().position(is_it);
        if self.is_collecting {
            match place {
                Some(place) => self.asked[place].waiting += 1,
                None => self.asked.push(PendingQuestion {
                    key,
                    streams,
                    question: Box::new(question),
                    waiting: 1,
                    answer: None,
                }),
            }
            return Err(Error::Unanswered);
        }
        let Some(place) = place else { return Ok(SharedAnswer::Unheard(streams, question)) };
        let asked = &mut self.asked[place];
        asked.waiting = asked.waiting.saturating_sub(1);
        // Who asks last gets the answer for itself, so that it is not kept longer than it is needed.
        let answer = if asked.waiting == 0 { self.asked.remove(place).answer } else { asked.answer.clone() };
        let typed = answer.and_then(|(answer, outcome)| Some((answer.downcast::<Q::Answer>().ok()?, outcome)));
        Ok(typed.map_or_else(|| SharedAnswer::Unheard(streams, question), SharedAnswer::Answer))
    }

    /// Answers all that was heard, with one pass for each set of logs.
    pub(super) fn answer(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let keys: BTreeSet<Key> = self.asked.iter().map(|asked| asked.key.clone()).collect();
        for key in keys {
            let mut of: Vec<&mut PendingQuestion> = self.asked.iter_mut().filter(|asked| asked.key == key).collect();
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
    let widest = |bounds: fn(&dyn AnyQuestion) -> Bounds| {
        let all = || questions.iter().map(|question| bounds(*question));
        let until = all().map(|own| own.1).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
        (all().map(|own| own.0).min().flatten(), until)
    };
    let asked = LogBounds { judged: widest(|own| own.bounds()), read: widest(|own| own.looks_at()) };
    let result = settled(streams, asked, |streams| {
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
    fn looks_at(&self) -> Bounds;
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

impl<Q: LogQuestion> AnyQuestion for Q {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn bounds(&self) -> Bounds {
        LogQuestion::bounds(self)
    }
    fn looks_at(&self) -> Bounds {
        LogQuestion::looks_at(self)
    }
    fn fold(&self, streams: usize) -> Box<dyn AnyFold> {
        Box::new(LogQuestion::fold(self, streams))
    }
    fn cache_use(&self) -> CacheUse {
        LogQuestion::cache_use(self)
    }
    fn cached(&self, own: &Cacheable, context: &mut Context<'_>) -> Result<Option<AnyAnswer>, Error> {
        Ok(own.ask(self, context)?.map(|(answer, outcome)| (answer as Arc<dyn Any + Send + Sync>, outcome)))
    }
    fn to_keep(&self) -> Option<Box<dyn AnyQuestion>> {
        Some(Box::new(LogQuestion::to_keep(self)?))
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
