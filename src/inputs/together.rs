//! Several commands run together, as a report runs them: what they ask of logs and pages is heard first and answered by
//! one pass.

use super::log_question::{Answered, LogQuestion, key};
use super::logs::{QuestionBatch, ask};
use super::pages;
use crate::cli::{Context, Error};
use crate::sources::found::LogStream;

/// Answers several; those about the same logs by one pass.
pub(crate) fn ask_all<Q: LogQuestion + Clone>(
    asked: Vec<(Vec<LogStream>, Q)>,
    context: &mut Context<'_>,
) -> Result<Vec<Answered<Q::Answer>>, Error> {
    let all = |asked: Vec<(Vec<LogStream>, Q)>, context: &mut Context<'_>| -> Result<Vec<_>, Error> {
        let answers: Vec<_> = asked.into_iter().map(|(streams, question)| ask(streams, question, context)).collect();
        // All of them are heard, and not the first only.
        answers.into_iter().collect()
    };
    if context.shared.get::<QuestionBatch>().is_some() || asked.iter().any(|(streams, _)| key(streams).is_none()) {
        return all(asked, context);
    }
    let again = |asked: &[(Vec<LogStream>, Q)]| {
        let stream = |streams: &[LogStream]| streams.iter().filter_map(LogStream::again).collect();
        asked.iter().map(|(streams, question)| (stream(streams), question.clone())).collect()
    };
    run(context, |context| all(again(&asked), context))
}

/// Rounds of hearing, at most: who waits for pages asks the rest in the next one.
const ROUNDS: usize = 4;

/// Runs something that asks until all is answered: at first to hear what is asked, of which nothing is known yet
/// ([`Error::Unanswered`]), then with the answers, for which each log and each page was read once. What is asked only
/// when a log has answered something else has a pass of its own.
pub(crate) fn run<T>(
    context: &mut Context<'_>,
    mut commands: impl FnMut(&mut Context<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let outer = context.shared.replace(Some(QuestionBatch { is_collecting: true, ..QuestionBatch::default() }));
    let mut round = 0;
    let result = loop {
        let result = commands(context);
        if matches!(result, Err(Error::Output(_))) {
            break result;
        }
        round += 1;
        let more = pages::answer(context) && round < ROUNDS;
        let Some(batch) = context.shared.get_mut::<QuestionBatch>() else { break result };
        if more {
            batch.asked.iter_mut().for_each(|asked| asked.waiting = 0);
        } else if batch.is_collecting
            && (batch.has_unshared || !batch.asked.is_empty() || matches!(result, Err(Error::Unanswered)))
        {
            let mut batch = std::mem::take(batch);
            let answered = batch.answer(context);
            batch.is_collecting = false;
            context.shared.replace(Some(batch));
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
