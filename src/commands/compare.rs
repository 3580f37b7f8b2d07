//! `plimsoll compare`: what changed.

use super::{heap, show};
use crate::analysis::answer::{Answer, Rows};
use crate::analysis::compare::limits::Limit;
use crate::analysis::compare::logs::{self, Side};
use crate::analysis::compare::report::{CompareInput, contrasts, report};
use crate::analysis::compare::{self, Pair, states};
use crate::analysis::dims::Dim;
use crate::analysis::filter::Filter;
use crate::analysis::metrics::Retention;
use crate::cli::{Context, Error, FailOn, parse_tenfold_share, parse_time};
use crate::inputs::etcd::compared;
use crate::inputs::rollup::{self, Covered};
use crate::inputs::selection::Selection;
use crate::inputs::{episodes, pages, profiles};
use crate::model::episode::Episode;
use crate::model::input::InputReport;
use crate::model::question;
use crate::model::time::{Bounds, DAY, Micros, Span, clipped, is_within};
use crate::model::units::counted;
use crate::sources::audit::settle;
use crate::sources::cgroup;
use crate::sources::find;
use crate::sources::found::{Discovery, LogStream};
use crate::sources::wanted::Wanted;
use crate::views::{Format, contrast_svg};
use std::collections::BTreeSet;
use std::path::Path;

/// Arguments of `plimsoll compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # two bundles, folders or files of one kind
  plimsoll compare before/ after/
  # before and after a rollout
  plimsoll compare /var/log/kubernetes/ --at 2026-11-20T14:02:00Z
  # two windows of the log's day
  plimsoll compare audit.log --before 09:17..09:21 --after 09:22..09:24
  # the heaviest episode that report finds, and its baseline
  plimsoll compare incident/ --episode
  plimsoll compare yesterday.db today.db
  # for a pull request
  plimsoll compare before/ after/ -o markdown > comment.md
  # all requests, and the clients and requests that moved most, in time
  plimsoll compare before/ after/ -o svg > change.svg
  plimsoll compare before/ after/ --fail-on-increase rps=10% \\
    --fail-on-increase clients.rps=30%

Changes are reported where they exceed the noise of each number, with 95 % confidence for all of them at
once. Method: docs/commands/compare.md.")]
pub struct Args {
    /// The earlier state: audit logs, metrics pages, bundles, etcd databases, heap profiles, cgroup copies.
    #[arg(value_name = "BEFORE")]
    before: String,
    /// The later state. Without it, two windows of BEFORE are compared.
    #[arg(value_name = "AFTER")]
    after: Option<String>,
    /// Compare the log before this time with the log after it: RFC 3339, HH:MM[:SS] of the day of the log, -1h, now-7d.
    #[arg(long = "at", value_name = "TIME", allow_hyphen_values = true,
        conflicts_with_all = ["before_window", "after_window"])]
    at: Option<String>,
    /// Use only this window of BEFORE: FROM..TO; FROM or TO may be omitted.
    #[arg(long = "before", id = "before_window", value_name = "FROM..TO", allow_hyphen_values = true)]
    before_window: Option<String>,
    /// Use only this window of AFTER.
    #[arg(long = "after", id = "after_window", value_name = "FROM..TO", allow_hyphen_values = true)]
    after_window: Option<String>,
    /// Compare an episode with its baseline: the one with this id (see plimsoll report), or the heaviest.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = HEAVIEST,
        conflicts_with_all = ["after", "at", "before_window", "after_window"])]
    episode: Option<String>,
    /// Compare only requests that meet the condition (repeatable, all must hold): DIM=VALUE, !=, =~REGEX, !~, >, >=, <,
    /// <=. DIM is as for clients.
    #[arg(long = "where", value_name = "EXPR")]
    filters: Vec<String>,
    /// Ignore changes smaller than this.
    #[arg(long, value_name = "PCT", default_value = "5%", value_parser = parse_tenfold_share)]
    at_least: f64,
    /// Exit with 1 if this metric rose significantly and by more than this (repeatable): rps=10%, clients.rps=30%,
    /// latency.p99_ms=50%, db_bytes=20%; docs/commands/compare.md has all.
    #[arg(long, value_name = "METRIC=PCT")]
    fail_on_increase: Vec<Limit>,
}

/// What `--episode` without an id stands for.
const HEAVIEST: &str = "heaviest";

impl Args {
    /// What the flags ask. Times of day are those of the day on which a source begins.
    pub fn question(&self, context: &mut Context<'_>) -> Result<question::Compare, Error> {
        let has_windows = self.at.is_some() || self.before_window.is_some() && self.after_window.is_some();
        if self.after.is_none() && self.episode.is_none() && !has_windows {
            return Err(Error::Usage(
                "give BEFORE and AFTER, or two windows of one source: --at TIME, --before FROM..TO --after FROM..TO, \
                 or --episode"
                    .to_owned(),
            ));
        }
        Ok(question::Compare {
            before: self.before.clone(),
            after: self.after.clone(),
            windows: match &self.episode {
                Some(wanted) => of_episode(&self.before, wanted, context)?,
                None => windows(self, context)?,
            },
            filters: self.filters.clone(),
            at_least: self.at_least,
            fail_on_increase: self.fail_on_increase.iter().map(Limit::words).collect(),
        })
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    context.refuse_sort("the largest change comes first; sort the output of -o json or -o csv")?;
    let answer = answer(&args.question(context)?, context)?;
    let fail_on = if args.fail_on_increase.is_empty() { FailOn::Never } else { FailOn::Critical };
    match (&answer, context.settings.format) {
        (Answer::Report(report, Rows::Changes(rows)), Format::Svg) => {
            context.judge(report, fail_on);
            if !contrast_svg::draw(&contrasts(rows, context.settings.asked_top()), &mut context.io.out)? {
                return Err(Error::Input("nothing to draw: only logs and metrics have time series".to_owned()));
            }
            Ok(())
        }
        _ => show(answer, fail_on, context),
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::Compare, context: &mut Context<'_>) -> Result<Answer, Error> {
    let filters = rollup::conditions_on_clients(&question.filters, "")?;
    let limits: Vec<Limit> = question
        .fail_on_increase
        .iter()
        .map(|limit| limit.parse().map_err(|why| Error::Usage(format!("--fail-on-increase {limit}: {why}"))))
        .collect::<Result<_, Error>>()?;
    let sources = [&question.before, question.after.as_ref().unwrap_or(&question.before)];
    if sources[0] == "-" && sources[1] == "-" {
        let why = "-: standard input can be read only once, and both sides are in it; write it to a file";
        return Err(Error::Usage(why.to_owned()));
    }
    let mut comparing = Comparing {
        sources: sources.map(|source| vec![source.clone()]),
        windows: question.windows,
        filters,
        is_one: question.after.is_none(),
        ..Comparing::default()
    };
    comparing.requests(context)?;
    if comparing.filters.is_empty() {
        comparing.databases(context)?;
        comparing.heaps(context)?;
        comparing.memory(context)?;
    }
    if comparing.pairs.is_empty() {
        return Err(comparing.nothing());
    }
    let Comparing { pairs, mut input, alone, .. } = comparing;
    input.notes.extend(alone);
    input.names = sources.map(Clone::clone);
    (input.top, input.least) = (context.settings.asked_top(), question.at_least);
    let mut rows = compare::judge(pairs, question.at_least);
    for limit in limits.iter().filter(|limit| limit.is_idle(&rows)) {
        context.lost(format!("--fail-on-increase {limit}: BEFORE and AFTER have no data to check it"))?;
    }
    input.limits = limits;
    let report = report(&mut rows, input);
    Ok(Answer::Report(Box::new(report), Rows::Changes(rows)))
}

/// The baseline and the time of an episode of a source.
fn of_episode(source: &str, wanted: &str, context: &mut Context<'_>) -> Result<[Bounds; 2], Error> {
    let episodes = episodes::episodes(&[source.to_owned()], (None, None), context)?.episodes;
    let is_it = |own: &&Episode| wanted == HEAVIEST || own.id == wanted;
    let Some(own) = episodes.iter().find(is_it) else {
        return Err(Error::Usage(if episodes.is_empty() {
            format!("--episode: {source} has no episode; give two windows: --before FROM..TO --after FROM..TO")
        } else {
            let known: Vec<String> = episodes.iter().map(|own| format!("{} ({})", own.id, own.grade.name())).collect();
            format!("--episode {wanted}: {source} has no such episode; use one of: {}", known.join(", "))
        }));
    };
    let asked = |(from, to): Span| (Some(from), Some(to));
    Ok([asked(own.baseline), asked((own.from, own.to))])
}

/// The windows that were asked for. Times of day are those of the day on which the log begins.
fn windows(args: &Args, context: &Context<'_>) -> Result<[Bounds; 2], Error> {
    let now = context.io.now;
    let sources = [&args.before, args.after.as_ref().unwrap_or(&args.before)];
    // The first and the last moment of a source.
    let ends = |source: &String| -> Option<Span> {
        let found = find::find(std::slice::from_ref(source), Wanted::Both, now);
        let pages = found.pages.iter().flat_map(|folder| &folder.pages).map(|page| page.at).max();
        let stored = found.rolled_span();
        let end = settle::rough_ends(&found.streams).or(stored).map(|(_, last)| last).max(pages);
        let begin = find::begin(&found).into_iter().chain(stored.map(|(first, _)| first)).min();
        begin.map(|begin| (begin, end.unwrap_or(begin)))
    };
    // Times of day are of the day on which the source begins.
    let bounds = |texts: [&str; 2], source: &String| -> Result<Bounds, String> {
        let of_day = texts.map(time_of_day);
        let ends = match texts.into_iter().zip(of_day).find(|(_, of_day)| of_day.is_some()) {
            Some((text, _)) => Some(ends(source).ok_or_else(|| format!("{text}: {source} has no day; use RFC 3339"))?),
            None => None,
        };
        let time = |at: usize| match (of_day[at], ends, texts[at]) {
            (_, _, "") => Ok(None),
            (Some(since), Some((begin, _)), _) => Ok(Some(begin.div_euclid(DAY) * DAY + since)),
            (_, _, text) => parse_time(text, now)
                .map(Some)
                .map_err(|why| format!("{why}, or HH:MM[:SS] of the day on which the source begins")),
        };
        let (mut from, mut to) = (time(0)?, time(1)?);
        // Behind midnight it is the next day, where the source goes on there.
        if let (Some((begin, end)), Some(until), [of_from, Some(_)]) = (ends, &mut to, of_day)
            && begin.div_euclid(DAY) < end.div_euclid(DAY)
        {
            *until += if from.is_some_and(|from| from >= *until) { DAY } else { 0 };
            if *until <= begin && (from.is_none() || of_from.is_some()) {
                *until += DAY;
                from = from.map(|from| from + DAY);
            }
        }
        Ok((from, to))
    };
    let window = |text: &Option<String>, flag: &str, source: &String| -> Result<Bounds, Error> {
        let usage = |why: String| Error::Usage(format!("{flag}: {why}"));
        let Some(text) = text else { return Ok((None, None)) };
        let (from, to) = text.split_once("..").ok_or_else(|| usage(format!("{text}: not a window; write FROM..TO")))?;
        match bounds([from, to], source).map_err(usage)? {
            (Some(from), Some(to)) if from >= to => Err(usage(format!("{text}: it ends before it begins"))),
            window => Ok(window),
        }
    };
    if let Some(text) = &args.at {
        let usage = |why: String| Error::Usage(format!("--at: {why}"));
        let (_, at) = bounds(["", text], sources[0]).map_err(usage)?;
        let at = at.ok_or_else(|| usage("give a time".to_owned()))?;
        return Ok([(None, Some(at)), (Some(at), None)]);
    }
    Ok([window(&args.before_window, "--before", sources[0])?, window(&args.after_window, "--after", sources[1])?])
}

/// `09:17` and `09:17:30` in microseconds since midnight.
fn time_of_day(text: &str) -> Option<Micros> {
    let parts: Vec<i64> =
        text.split(':').map(|part| part.parse().ok().filter(|_| part.len() == 2)).collect::<Option<_>>()?;
    let seconds = match parts.as_slice() {
        [hours, minutes] => hours * 3600 + minutes * 60,
        [hours, minutes, seconds] => hours * 3600 + minutes * 60 + seconds,
        _ => return None,
    };
    (parts[0] < 24 && parts[1..].iter().all(|part| *part < 60)).then_some(seconds * 1_000_000)
}

/// Both sides while they are read.
#[derive(Debug, Default)]
struct Comparing {
    sources: [Vec<String>; 2],
    windows: [Bounds; 2],
    filters: Vec<Filter<Dim>>,
    /// Whether both sides are windows of one source.
    is_one: bool,
    pairs: Vec<Pair>,
    input: CompareInput,
    /// What was met on one side only.
    alone: Vec<String>,
    errors: Vec<String>,
}

impl Comparing {
    fn input(&mut self, input: InputReport) {
        if !self.input.inputs.iter().any(|other| other.path == input.path) {
            self.input.inputs.push(input);
        }
    }

    fn only_one_has(&mut self, what: &str, has: [bool; 2]) {
        if has[0] != has[1] {
            let which = self.sources[usize::from(has[1])].join(", ");
            self.alone.push(format!("{what}: only {which} has them."));
        }
    }

    /// Requests by logs where both sides have them, else by metrics; and what else metrics show.
    fn requests(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let mut found: [Discovery; 2] =
            [0, 1].map(|side| find::find(&self.sources[side], Wanted::Both, context.io.now));
        for side in &found {
            self.errors.extend(side.errors.iter().map(ToString::to_string));
        }
        let logs = [0, 1].map(|side| !found[side].streams.is_empty());
        let of_logs = if logs == [true, true] { self.logs(&mut found, context) } else { Ok(()) };
        // Pages are asked for as well before anything is waited for.
        let is_waiting = matches!(of_logs, Err(Error::Unanswered));
        if !is_waiting {
            of_logs?;
        }
        for (side, window) in found.iter_mut().zip(self.windows) {
            pages::keep(&mut side.pages, window.0, window.1);
        }
        let has = [0, 1].map(|side| !found[side].pages.is_empty());
        self.only_one_has("audit logs", logs);
        self.only_one_has("metrics pages", has);
        if !self.filters.is_empty() && logs != [true, true] {
            return Err(Error::Usage(
                "--where requires audit logs on both sides: metrics do not identify clients".to_owned(),
            ));
        }
        if has != [true, true] || !self.filters.is_empty() {
            return if is_waiting { Err(Error::Unanswered) } else { Ok(()) };
        }
        let [before, after] = found.map(|side| pages::facts(side.pages, Retention::Latencies, context));
        if is_waiting {
            return Err(Error::Unanswered);
        }
        let ((before, read_before), (after, read_after)) = (before?, after?);
        read_before.inputs.into_iter().chain(read_after.inputs).for_each(|input| self.input(input));
        if logs != [true, true] {
            self.input.partial.extend(compare::pages::partial(&before, &after));
            self.pairs.extend(compare::pages::requests(&before, &after));
            self.input.windows =
                [&before, &after].map(|facts| (facts.span() > 0).then(|| (facts.last() - facts.span(), facts.last())));
        }
        self.pairs.extend(compare::pages::states(&before, &after));
        Ok(())
    }

    fn logs(&mut self, found: &mut [Discovery; 2], context: &mut Context<'_>) -> Result<(), Error> {
        let mut sides = Vec::new();
        let mut instances = Vec::new();
        let mut asked = Vec::new();
        let mut all_names = Vec::new();
        for (found, (since, until)) in found.iter_mut().zip(self.windows) {
            for error in &found.errors {
                context.lost(error)?;
            }
            let name = |own: &LogStream| (own.stream.cluster.clone(), own.stream.instance.clone());
            all_names.push(found.streams.iter().map(name).collect::<Vec<(String, String)>>());
            asked.push((
                std::mem::take(&mut found.streams),
                Selection { since, until, filters: self.filters.clone(), ..Selection::default() },
            ));
        }
        let answers = rollup::read_all(asked, context)?;
        for (side, ((rollup, outcome), names)) in answers.into_iter().zip(all_names).enumerate() {
            // Of roll-ups whole tiles were counted.
            let (since, until) = outcome.widened.map_or(self.windows[side], |(from, to)| (Some(from), Some(to)));
            let logged = outcome.total();
            let spans: Vec<Covered> = outcome
                .coverage
                .iter()
                .zip(&names)
                .map(|(own, name)| (name.clone(), own.first.zip(own.last)))
                .collect();
            // Both windows of one log may lack the same.
            for note in rollup::short_logs(&spans, since.zip(until)) {
                if !self.input.partial.contains(&note) {
                    self.input.partial.push(note);
                }
            }
            instances.push(names.into_iter().map(|(_, instance)| instance).collect::<BTreeSet<String>>().len());
            outcome.inputs.into_iter().for_each(|input| self.input(input));
            // Nothing is known of what lies before a log or behind it, whatever window was asked for.
            let known = logged.first.zip(logged.last).and_then(|log| clipped((since, until), log));
            let (Some(window), Some(_)) = (known, rollup.span) else {
                let which = ["BEFORE", "AFTER"][side];
                return Err(Error::Input(format!(
                    "{}: no event within the {which} window",
                    self.sources[side].join(", ")
                )));
            };
            if rollup.folded() > 0 {
                self.input.notes.push(format!(
                    "{}: requests of rarely active clients were folded, and are not compared.",
                    self.sources[side].join(", ")
                ));
            }
            sides.push((rollup, window));
        }
        if let [before, after] = instances.as_slice()
            && before != after
        {
            self.input.partial.push(format!(
                "BEFORE has the logs of {}, AFTER of {after}: part of the change may come from that.",
                counted(*before as u64, "apiserver")
            ));
        }
        let overlap = |a: (Micros, Micros), b: (Micros, Micros)| a.0 < b.1 && b.0 < a.1;
        if self.is_one && overlap(sides[0].1, sides[1].1) {
            self.input.notes.push("The two windows overlap.".to_owned());
        }
        let [before, after] = [0, 1].map(|side| Side { rollup: &sides[side].0, window: sides[side].1 });
        self.input.windows = [Some(before.window), Some(after.window)];
        self.pairs.extend(logs::pairs(before, after));
        Ok(())
    }

    /// Databases of etcd: of each side the latest. Which of them belongs to which window of one source is not known.
    fn databases(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        if self.is_one {
            return Ok(());
        }
        let mut sides = Vec::new();
        for side in [0, 1] {
            sides.extend(compared::database(&self.sources[side], context)?.map(|read| (side, read)));
        }
        match <[_; 2]>::try_from(sides) {
            Ok([(_, (before, of_before)), (_, (after, of_after))]) => {
                self.pairs.extend(states::databases(&before, &after));
                of_before.into_iter().chain(of_after).for_each(|input| self.input(input));
            }
            Err(sides) => {
                self.only_one_has("databases of etcd", [0, 1].map(|side| sides.iter().any(|(of, _)| *of == side)))
            }
        }
        Ok(())
    }

    /// Heaps: of each process the last profile of each side.
    fn heaps(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let mut sides = Vec::new();
        for side in [0, 1] {
            sides.push(profiles::within(&self.sources[side], self.windows[side], context)?);
        }
        let [before, after] = <[_; 2]>::try_from(sides).unwrap_or_default();
        self.only_one_has("heap profiles", [!before.is_empty(), !after.is_empty()]);
        if before.is_empty() || after.is_empty() {
            return Ok(());
        }
        let (pairs, inputs) = heap::compared(&before, &after)?;
        self.pairs.extend(pairs);
        inputs.into_iter().for_each(|input| self.input(input));
        Ok(())
    }

    /// Copies of cgroups.
    fn memory(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let mut sides: [Vec<states::Memory>; 2] = Default::default();
        for (side, memories) in sides.iter_mut().enumerate() {
            let window = self.windows[side];
            for source in self.sources[side].clone() {
                // What is no cgroup may be anything else.
                let Ok(all) = cgroup::open(Path::new(&source), context.io.now, false) else { continue };
                for mut series in all {
                    series.samples.retain(|sample| is_within(window, sample.at));
                    let records = series.samples.len() as u64;
                    if records > 0 {
                        self.input(InputReport {
                            path: series.place.clone(),
                            kind: "cgroup",
                            bytes: series.bytes,
                            records,
                            ..InputReport::default()
                        });
                        memories.push(states::Memory {
                            name: series.name,
                            place: series.place,
                            samples: series.samples,
                        });
                    }
                }
            }
        }
        let [before, after] = sides;
        self.only_one_has("cgroups", [!before.is_empty(), !after.is_empty()]);
        if !before.is_empty() && !after.is_empty() {
            self.pairs.extend(states::memory(&before, &after));
        }
        Ok(())
    }

    /// Why there is nothing to compare.
    fn nothing(&self) -> Error {
        let missing = self
            .sources
            .concat()
            .into_iter()
            .filter(|source| !source.contains("://") && source != "-" && !Path::new(source).exists());
        let missing: Vec<String> = missing.map(|source| format!("{source}: no such file or folder")).collect();
        let reasons = match (missing.is_empty(), self.alone.is_empty()) {
            (false, _) => missing,
            (_, false) => std::iter::once("BEFORE and AFTER have no kind of data in common".to_owned())
                .chain(self.alone.clone())
                .collect(),
            _ if !self.errors.is_empty() => self.errors.clone(),
            _ => vec![format!("{}: no comparable data, or none within the windows", self.sources.concat().join(", "))],
        };
        Error::inputs(reasons.iter().map(|reason| reason.trim_end_matches('.')))
    }
}
