//! Answers from stored roll-ups, in place of the logs that they were made of.

use super::logs::{self, Answered, Question};
use super::rollup::Selection;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::{Loader, Wanted};
use crate::cli::{Context, Error};
use crate::model::input::InputReport;
use crate::model::rollup::{Cells, Kind, Rows, StoredStream, TABLES, kind};
use crate::model::time::{self, Micros};
use crate::sources::audit::pass::Outcome;
use crate::sources::find::LogStream;
use crate::sources::rolled::{Rolled, open};
use std::path::Path;
use std::sync::Arc;

/// Rows of a log's own roll-up that are taken in at once.
const BATCH: usize = 4_096;

/// Answers a question from the roll-ups among these logs; logs that are there themselves are rolled up for it.
pub(super) fn answer<Q: Question>(
    streams: Vec<LogStream>,
    question: &Q,
    context: &mut Context<'_>,
) -> Result<Answered<Q::Answer>, Error> {
    let wanted = question.stored().map_err(Error::Usage)?;
    let (rollup, outcome) = load(streams, wanted, context)?;
    Ok((Arc::new(question.of_rollup(rollup).map_err(Error::Usage)?), outcome))
}

/// What is wanted of roll-ups, as one; of the time in whole tiles, and it is said where that is more than was asked
/// for.
fn load(streams: Vec<LogStream>, wanted: Wanted, context: &mut Context<'_>) -> Result<(Rollup, Outcome), Error> {
    let asked = (wanted.since, wanted.until);
    let mut loader = Loader::new(wanted);
    let mut outcome = Outcome::default();
    let (stored, raw): (Vec<LogStream>, Vec<LogStream>) = streams.into_iter().partition(LogStream::is_rolled);
    let mut names: Vec<&str> = stored.iter().flat_map(|own| &own.files).map(|file| file.path.as_str()).collect();
    names.dedup();
    let mut widened: Option<(Micros, Micros)> = None;
    for name in names {
        let rolled = open(Path::new(name)).map_err(Error::Input)?;
        loader.begin(&rolled.manifest);
        let (from, to) = loader.bounds();
        let span = (rolled.manifest.first.unwrap_or(Micros::MAX), rolled.manifest.last.unwrap_or(Micros::MIN));
        let is_before = asked.0.is_some_and(|since| from < since && span.0 < since && span.1 >= from);
        let is_behind = asked.1.is_some_and(|until| to > until && span.1 >= until && span.0 < to);
        if is_before || is_behind {
            let now = (from.max(span.0), to.min(span.1));
            widened = Some(widened.map_or(now, |before| (before.0.min(now.0), before.1.max(now.1))));
        }
        rolled.read(&mut |spec, rows| loader.take(spec, rows)).map_err(Error::Input)?;
        tell(&rolled, &mut outcome);
    }
    if !raw.is_empty() {
        let selection = Selection { since: asked.0, until: asked.1, filters: Vec::new() };
        let (rollup, of_logs) = logs::answer(raw, &selection, context.settings.reading(), &());
        take_in(&mut loader, &rollup, &of_logs).map_err(Error::Input)?;
        outcome.inputs.extend(of_logs.inputs);
        outcome.losses.extend(of_logs.losses);
        outcome.coverage.extend(of_logs.coverage);
    }
    if let Some((from, to)) = widened {
        let said = format!(
            "roll-ups are cut at whole tiles: {} to {} is taken in place of what was asked for",
            time::format(from),
            time::format(to)
        );
        context.say_once(said)?;
    }
    Ok((loader.finish(), outcome))
}

/// What a stored roll-up says of the logs that it was made of.
fn tell(rolled: &Rolled, outcome: &mut Outcome) {
    let manifest = &rolled.manifest;
    outcome.inputs.push(InputReport {
        path: rolled.folder.display().to_string(),
        kind: "rollup",
        bytes: rolled.bytes(),
        records: manifest.sources.iter().map(|source| source.records).sum(),
        skipped: manifest.sources.iter().map(|source| source.skipped).sum(),
        first_error: None,
    });
    outcome.losses.extend(manifest.lost.iter().cloned());
    outcome.coverage.extend(manifest.streams.iter().map(StoredStream::coverage));
}

/// Takes in the roll-up of logs that are there themselves.
fn take_in(loader: &mut Loader, rollup: &Rollup, outcome: &Outcome) -> Result<(), String> {
    loader.begin(&super::rollup_files::manifest(rollup, &[], outcome));
    for spec in &TABLES {
        let mut batch: Vec<Vec<String>> = Vec::with_capacity(BATCH);
        let mut result = Ok(());
        let flush = |batch: &mut Vec<Vec<String>>, loader: &mut Loader| {
            let column = |at: usize| match kind(spec.columns[at]) {
                Kind::Number => Cells::Number(batch.iter().map(|row| row[at].parse().unwrap_or_default()).collect()),
                Kind::Truth | Kind::Text => Cells::Text(batch.iter().map(|row| row[at].as_str()).collect()),
            };
            let rows = Rows { count: batch.len(), columns: (0..spec.columns.len()).map(column).collect() };
            let taken = loader.take(spec, &rows);
            batch.clear();
            taken
        };
        rollup.rows(spec.name, |row| {
            batch.push(row.to_vec());
            if batch.len() == BATCH && result.is_ok() {
                result = flush(&mut batch, loader);
            }
        });
        result.and_then(|()| flush(&mut batch, loader))?;
    }
    Ok(())
}
