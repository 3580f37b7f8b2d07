//! What a report is made from beside what other commands say: the course of the load, who added to it, metrics and
//! memory in time.

use crate::analysis::dims::Dim;
use crate::analysis::guard::Group;
use crate::analysis::incident::answers::Answers;
use crate::analysis::incident::calm::Outcomes;
use crate::analysis::incident::causes::{Words, name};
use crate::analysis::incident::episodes::episode;
use crate::analysis::incident::pulse::LoadSeries;
use crate::analysis::incident::redact::Kind;
use crate::analysis::incident::suspects::{Suspect, rise, suspects};
use crate::analysis::judge::candidates::Operation;
use crate::analysis::judge::deviations::MIN_INTERVALS;
use crate::analysis::judge::paged::Paged;
use crate::analysis::judge::rolled::Rolled;
use crate::analysis::judge::vitals::Vitals;
use crate::analysis::judge::{self, Input, RequestSeries, Requests};
use crate::analysis::metrics::Retention;
use crate::analysis::metrics::facts::{Component, Facts};
use crate::analysis::rollup::Rollup;
use crate::analysis::traffic::Query;
use crate::cli::{Context, Error, give_back};
use crate::inputs::breakdown::{Breaking, Broken};
use crate::inputs::pulse::pulse_of_logs;
use crate::inputs::selection::Selection;
use crate::inputs::{captures, etcd, pages, profiles, rollup, together};
use crate::model::bundle::Bundle;
use crate::model::cause::Source;
use crate::model::episode::{Episode, Grade};
use crate::model::incident::{Stretch, Verdict};
use crate::model::memory::Sample;
use crate::model::time::{self, Bounds, Micros, SECOND, Span, all_together, clipped, is_within, together};
use crate::model::units::{counted, duration};
use crate::sources::audit::settle;
use crate::sources::cgroup;
use crate::sources::find;
#[cfg(feature = "tui")]
use crate::sources::found::Remembering;
use crate::sources::found::{Discovery, LogStream};
use crate::sources::open::SourceError;
use crate::sources::wanted::Wanted;
use std::path::Path;
use std::sync::Arc;

/// Intervals of audit logs are no longer than this where they are short; those of pages may be, in µs.
const FINEST: Micros = 10 * SECOND;
/// Bundles that lie no further apart were taken one behind the other, in µs.
const TOGETHER: Micros = 2 * FINEST;
/// Clients whose course is looked at.
const CLIENTS: usize = 8;

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// What was named.
    pub(crate) sources: Vec<String>,
    /// What the sources cover, within what a bundle says it is about.
    pub(crate) span: Option<Span>,
    /// The calm before the window.
    pub(crate) calm: Option<Span>,
    /// What a bundle says it is about.
    pub(crate) bounds: Bounds,
    pub(crate) clusters: Vec<String>,
    /// Whether there are roll-ups among them: clusters that are rolled up together stay together.
    pub(crate) is_rolled: bool,
    /// Who answers for them.
    pub(crate) owner: String,
    /// What there is.
    pub(crate) read: Vec<Source>,
    /// Of each kind, the sources that hold it.
    pub(crate) holders: Vec<(Source, String)>,
    /// The first and the last database of etcd, where there are two.
    pub(crate) ends: Vec<String>,
    /// Whether all rows of all sections are wanted: for machines, and where names are looked for in them.
    pub(crate) is_whole: bool,
    /// Stores and files with series in time.
    pub(crate) history: Vec<String>,
    /// How many heap profiles of one process there are.
    pub(crate) heaps: usize,
    /// The course of the load.
    pub(crate) pulse: Option<LoadSeries>,
    /// The roll-ups of the logs, one for each of the [pieces](Self::pieces) of time.
    pub(crate) rollups: Vec<Arc<Rollup>>,
    /// Metrics of all of the time.
    pub(crate) facts: Facts,
    /// The same of each of several pieces.
    pub(crate) facts_of_pieces: Vec<Facts>,
    /// Samples of cgroups, by group.
    pub(crate) memory: Vec<(String, Vec<Sample>)>,
    /// Who asked for more.
    pub(crate) suspects: Vec<Suspect>,
    /// What can't be seen, if something important can't.
    pub(crate) blind: Option<&'static str>,
    /// Whether what was read is too short to show what is usual.
    pub(crate) is_short: bool,
    /// How many intervals the finest source has at most, and how long they are.
    pub(crate) intervals: (usize, Micros),
    /// Bursts that recur, which are no episodes.
    pub(crate) recurring: usize,
    /// How requests ended.
    pub(crate) outcomes: Outcomes,
    /// The times that the logs of all apiservers have in common, where only these were judged.
    pub(crate) common: Vec<Span>,
    /// When sources are of, in order, those that overlap as one; empty where fewer than two bundles state their times.
    pub(crate) stretches: Vec<Span>,
    /// Which episode is the heaviest.
    pub(crate) heaviest: Option<usize>,
    /// Requests a second of those who asked for most more.
    pub(crate) courses: Vec<(String, Vec<(Micros, f64)>)>,
}

impl Load {
    /// Reads what can be read before it is known when the incident was.
    #[cfg(feature = "tui")]
    pub(crate) fn read(sources: &[String], within: Bounds, context: &mut Context<'_>) -> Result<Self, Error> {
        let _remembering = Remembering::begin();
        let (mut load, found) = Self::look(sources, within, context)?;
        load.pages(found, context)?;
        let (of_logs, rollups) = together::run(context, |context| {
            let rollups = load.rolled(context);
            Ok((load.pulse_of_logs(context)?, rollups?))
        })?;
        load.course(of_logs);
        load.rollups = rollups;
        Ok(load)
    }

    /// Finds out what there is to read; of what has times only what lies within these bounds, and those of a bundle,
    /// counts.
    pub(crate) fn look(
        sources: &[String],
        (since, until): Bounds,
        context: &mut Context<'_>,
    ) -> Result<(Self, Discovery), Error> {
        let sources: &[String] = &find::bundles_of(sources);
        let mut load = Self { sources: sources.to_vec(), ..Self::default() };
        let found = find::find(sources, Wanted::Both, context.io.now);
        let looked: Vec<(Option<Bundle>, Option<Span>)> =
            sources.iter().map(|source| load.look_into(source, context)).collect();
        load.bundles(found.bundle.as_ref(), &looked);
        load.bounds.0 = load.bounds.0.max(since);
        load.bounds.1 = [load.bounds.1, until].into_iter().flatten().min();
        load.clusters = found
            .streams
            .iter()
            .map(|own| own.stream.cluster.clone())
            .chain(found.pages.iter().map(|own| own.cluster.clone()))
            .collect();
        load.clusters.extend(found.bundle.as_ref().map(|bundle| bundle.cluster.clone()));
        load.clusters.retain(|cluster| !cluster.is_empty());
        load.clusters.sort();
        load.clusters.dedup();
        load.is_rolled = found.streams.iter().any(LogStream::is_rolled);
        load.read = Source::ALL.into_iter().filter(|kind| load.holders.iter().any(|(held, _)| held == kind)).collect();
        if load.read.is_empty() {
            return Err(load.nothing(&found));
        }
        load.ends = etcd::ends(sources, context).unwrap_or_default();
        Ok((load, found))
    }

    fn nothing(&self, found: &Discovery) -> Error {
        let is_other = |error: &&SourceError| !matches!(error, SourceError::NothingHere { .. });
        let errors: Vec<String> = found.errors.iter().filter(is_other).map(ToString::to_string).collect();
        if errors.is_empty() {
            Error::Input(format!(
                "{}: none of the inputs of a report found: audit logs, metrics pages, etcd databases, copies of \
                 cgroups, heap profiles, objects",
                self.sources.join(", ")
            ))
        } else {
            Error::inputs(errors)
        }
    }

    /// Takes the time and the owner from the bundle; of several bundles the time from the first on to the end of the
    /// last.
    fn bundles(&mut self, first: Option<&Bundle>, all: &[(Option<Bundle>, Option<Span>)]) {
        let Some(first) = first else { return };
        self.owner.clone_from(&first.owner);
        self.bounds = bounds_of(first);
        for (from, to) in all.iter().filter_map(|(bundle, _)| bundle.as_ref()).map(bounds_of) {
            self.bounds.0 = self.bounds.0.zip(from).map(|(a, b)| a.min(b));
            self.bounds.1 = self.bounds.1.zip(to).map(|(a, b)| a.max(b));
        }
        if all.iter().filter(|(bundle, _)| bundle.as_ref().and_then(stated).is_some()).count() > 1 {
            self.stretches = stretches(all.iter().filter_map(|(_, time)| *time).collect());
        }
    }

    /// The pieces of time that are judged, each by itself: between the times of two bundles nothing was seen, which is
    /// no silence, and what is usual in one need not be so in the other.
    pub(crate) fn pieces(&self) -> Vec<Bounds> {
        let known: Vec<Span> = self.stretches.iter().filter_map(|own| clipped(self.bounds, *own)).collect();
        if known.len() < 2 {
            return vec![self.bounds];
        }
        known.into_iter().map(|(from, to)| (Some(from), Some(to))).collect()
    }

    /// The times between those of bundles.
    fn gaps(&self) -> impl Iterator<Item = Span> {
        self.stretches.windows(2).map(|pair| (pair[0].1, pair[1].0))
    }

    /// Whether a moment lies between the times of two bundles.
    pub(crate) fn is_between_bundles(&self, at: Micros) -> bool {
        self.gaps().any(|(from, to)| (from..to).contains(&at))
    }

    /// Whether a time lies between the times of two bundles.
    pub(crate) fn is_unseen(&self, (from, to): Span) -> bool {
        self.gaps().any(|gap| gap.0 <= from && to <= gap.1)
    }

    /// When bundles are of.
    pub(crate) fn times(&self) -> String {
        self.stretches.iter().copied().map(shown).collect::<Vec<_>>().join(", ")
    }

    /// What must be known where bundles leave out times between them.
    pub(crate) fn unrecorded(&self) -> Option<String> {
        let times: Vec<String> = self.gaps().map(shown).collect();
        (!times.is_empty()).then(|| format!("No bundle is of {} UTC: nothing is known of that time.", times.join(", ")))
    }

    /// What must be known where logs are of different times.
    pub(crate) fn uneven(&self) -> Option<String> {
        let times: Vec<String> = self.common.iter().copied().map(shown).collect();
        (!times.is_empty()).then(|| {
            let times = times.join(", ");
            format!("The audit logs are of different times: judged is what all of them cover, {times} UTC.")
        })
    }

    /// What must be known of numbers that are those of several clusters together; `None` of one.
    pub(crate) fn several_clusters(&self) -> Option<String> {
        (self.clusters.len() > 1).then(|| {
            format!(
                "These sources are of {} clusters ({}), which are judged as one; 'plimsoll fleet' judges each{}.",
                self.clusters.len(),
                self.clusters.join(", "),
                if self.is_rolled { " whose logs or roll-ups are apart" } else { "" }
            )
        })
    }

    /// Whether there is anything of this kind.
    pub(crate) fn has(&self, kind: Source) -> bool {
        self.read.contains(&kind)
    }

    /// Whether there is time between the pages of an apiserver.
    pub(crate) fn has_rates(&self) -> bool {
        self.facts.instances_of(Component::Apiserver).any(|instance| instance.seconds > 0.0)
    }

    /// The sources that hold something of these kinds.
    pub(crate) fn of(&self, kinds: &[Source]) -> Vec<String> {
        let holds =
            |source: &&String| self.holders.iter().any(|(kind, holder)| kinds.contains(kind) && holder == *source);
        self.sources.iter().filter(holds).cloned().collect()
    }

    /// Finds out what kinds of things a source holds. Gives the bundle that it is or lies in, and of several sources
    /// the time that it is of: where no bundle states one, by its logs, pages and samples; databases have none.
    /// What can't be read is taken from the section about it.
    fn look_into(&mut self, source: &String, context: &mut Context<'_>) -> (Option<Bundle>, Option<Span>) {
        let one = std::slice::from_ref(source);
        let found = find::find(one, Wanted::Both, context.io.now);
        let memory = if Path::new(source).exists() {
            cgroup::open(Path::new(source), context.io.now, false).unwrap_or_default()
        } else {
            Vec::new()
        };
        let heaps = profiles::count(one);
        let has = [
            (Source::Audit, !found.streams.is_empty()),
            (Source::Metrics, !found.pages.is_empty()),
            (Source::Etcd, !find::find(one, Wanted::Databases, context.io.now).databases.is_empty()),
            (Source::Cgroup, !memory.is_empty()),
            (Source::Heap, heaps > 0),
            (
                Source::Objects,
                captures::find(one, context).captures.iter().any(|capture| !capture.objects.kinds.is_empty()),
            ),
        ];
        self.holders.extend(has.into_iter().filter(|(_, has)| *has).map(|(kind, _)| (kind, source.clone())));
        let seen = || {
            let pages = found.pages.iter().flat_map(|folder| &folder.pages).map(|page| (page.at, page.at));
            let samples = memory.iter().flat_map(|series| &series.samples).map(|sample| (sample.at, sample.at));
            let all = pages.chain(samples).chain(settle::rough_ends(&found.streams));
            all_together(all).map(|(from, to)| (from, to + 1))
        };
        let is_one = self.sources.len() == 1;
        let time = if is_one { None } else { found.bundle.as_ref().and_then(stated).or_else(seen) };
        self.memory.extend(memory.into_iter().map(|series| (series.name, series.samples)));
        self.heaps = self.heaps.max(heaps);
        (found.bundle, time)
    }

    /// Pages in the course of time.
    pub(crate) fn pages(&mut self, mut found: Discovery, context: &mut Context<'_>) -> Result<(), Error> {
        let (since, until) = self.bounds;
        pages::keep(&mut found.pages, since, until);
        let has_pages = !found.pages.is_empty();
        let pieces = self.pieces();
        if pieces.len() > 1 {
            for (since, until) in pieces {
                let mut own = find::find(&self.sources, Wanted::Both, context.io.now).pages;
                pages::keep(&mut own, since, until);
                self.facts_of_pieces.push(pages::quiet_facts(own, Retention::Incident, context)?);
            }
        }
        self.facts = pages::facts(std::mem::take(&mut found.pages), Retention::Incident, context)?.0;
        if has_pages {
            let from = self.facts.instances.iter().map(|instance| instance.from).min();
            self.span = together(self.span, from.map(|from| (from, self.facts.last())));
        }
        Ok(())
    }

    /// The course of the load by logs.
    pub(crate) fn pulse_of_logs(&self, context: &mut Context<'_>) -> Result<Option<LoadSeries>, Error> {
        if !self.has(Source::Audit) {
            return Ok(None);
        }
        pulse_of_logs(find::find(&self.sources, Wanted::Logs, context.io.now), self.bounds, context)
    }

    /// The course of the load, by logs or by pages, and with it what all covers.
    pub(crate) fn course(&mut self, of_logs: Option<LoadSeries>) {
        self.pulse = of_logs;
        self.span = together(self.span, self.pulse.as_ref().map(|pulse| pulse.span));
        if self.pulse.is_none() {
            self.pulse = LoadSeries::of_pages(&self.facts);
        }
        // A copy that says nothing of its time is taken as it is.
        for (_, samples) in self.memory.iter_mut().filter(|(_, samples)| samples.len() > 1) {
            samples.retain(|sample| is_within(self.bounds, sample.at));
        }
        self.memory.retain(|(_, samples)| !samples.is_empty());
        for (_, samples) in &self.memory {
            self.span =
                together(self.span, samples.first().zip(samples.last()).map(|(first, last)| (first.at, last.at)));
        }
        self.span = self.span.and_then(|span| clipped(self.bounds, span));
    }

    /// Counts requests in the logs, by one pass.
    fn count<const N: usize>(&self, queries: [Query; N], context: &mut Context<'_>) -> Result<[Arc<Broken>; N], Error> {
        let streams = || find::find(&self.sources, Wanted::Logs, context.io.now).streams;
        let asked = queries.into_iter().map(|query| (streams(), Breaking::of(query))).collect();
        let answers: Vec<Arc<Broken>> =
            together::ask_all(asked, context)?.into_iter().map(|(broken, _)| broken).collect();
        give_back();
        answers.try_into().map_err(|_| Error::Input("the logs were deleted while they were read".to_owned()))
    }

    /// The roll-up of all logs.
    #[cfg(feature = "history")]
    pub(crate) fn whole(&self, context: &mut Context<'_>) -> Result<Option<Arc<Rollup>>, Error> {
        if !self.has(Source::Audit) {
            return Ok(None);
        }
        let streams = find::find(&self.sources, Wanted::Logs, context.io.now).streams;
        let (since, until) = self.bounds;
        Ok(Some(rollup::read(streams, &Selection { since, until, ..Selection::default() }, context)?.0))
    }

    /// The roll-ups of the logs, by one pass: one for each piece of time.
    pub(crate) fn rolled(&self, context: &mut Context<'_>) -> Result<Vec<Arc<Rollup>>, Error> {
        if !self.has(Source::Audit) {
            return Ok(Vec::new());
        }
        let asked = self.pieces().into_iter().map(|(since, until)| {
            let streams = find::find(&self.sources, Wanted::Logs, context.io.now).streams;
            (streams, Selection { since, until, ..Selection::default() })
        });
        let answers = rollup::read_all(asked.collect(), context)?;
        Ok(answers.into_iter().map(|(rollup, _)| rollup).collect())
    }

    /// All episodes; of the heaviest it is looked who asked for more.
    pub(crate) fn judge(&mut self, given: Option<Span>, answers: &Answers, sources: &str) -> Vec<Episode> {
        let rollups = std::mem::take(&mut self.rollups);
        let facts = std::mem::take(&mut self.facts_of_pieces);
        let mut all = Episodes { answers, words: sources, ids: Vec::new(), found: Vec::new(), heaviest: None };
        for (place, piece) in self.pieces().into_iter().enumerate() {
            // Of one piece a window was looked at already.
            let part = |window: Span| if facts.is_empty() { Some(window) } else { clipped(piece, window) };
            match given.map(part) {
                // Of what somebody named, nothing is in this piece.
                Some(None) => {}
                given => {
                    let rollup = rollups.get(place).map(Arc::as_ref);
                    let own = Piece { rollup, facts: facts.get(place), bounds: piece, given: given.flatten() };
                    self.judge_piece(&own, &mut all);
                }
            }
        }
        self.is_short |= self.intervals.0 < MIN_INTERVALS;
        self.heaviest = all.heaviest.map(|(_, place)| place);
        all.found
    }

    /// Judges one of the pieces of time.
    fn judge_piece(&mut self, piece: &Piece<'_>, all: &mut Episodes<'_>) {
        let rolled = piece.rollup.and_then(Rolled::new);
        let facts = piece.facts.unwrap_or(&self.facts);
        let paged = Paged::new(facts);
        let within = |all: &[Sample]| all.iter().filter(|own| is_within(piece.bounds, own.at)).cloned().collect();
        let memory = piece.facts.map(|_| self.memory.iter().map(|(name, all)| (name.clone(), within(all))).collect());
        let memory: &Vec<(String, Vec<Sample>)> = memory.as_ref().unwrap_or(&self.memory);
        let vitals = Vitals::new(facts, memory);
        let requests: Vec<&dyn Requests> =
            rolled.iter().map(|own| own as &dyn Requests).chain(paged.iter().map(|own| own as &dyn Requests)).collect();
        let operations = all.answers.operations.iter().filter_map(operation);
        let operations: Vec<Operation> = operations.filter(|own| is_within(piece.bounds, own.at)).collect();
        let given: Vec<Span> = piece.given.into_iter().collect();
        let vitals = Some(&vitals).filter(|_| self.has(Source::Metrics) || self.has(Source::Cgroup));
        let judged = judge::judge(&Input { requests: &requests, vitals, operations: &operations, given: &given });
        let blind = match (&rolled, &paged) {
            (Some(log), None) => judge::blind(log.kinds()),
            (None, Some(_)) => {
                Some("metrics pages do not say who asks, so rules that refuse writes (403) are invisible")
            }
            _ => None,
        };
        self.blind = self.blind.or(blind);
        self.recurring += judged.recurring;
        judged.series.iter().take(1).for_each(|series| self.outcomes.add(series));
        self.common.extend(judged.common);
        let intervals = judged.series.iter().map(|own| (own.tiles.len(), own.grid.tile));
        self.is_short |= intervals.clone().map(|own| own.0).max().is_some_and(|most| most < MIN_INTERVALS);
        self.intervals = intervals.chain([self.intervals]).max_by_key(|own| own.0).unwrap_or_default();
        for own in &judged.episodes {
            let first = requests.first().zip(judged.series.first()).zip(own.profiles.first());
            let first = first.filter(|_| !own.is_silence());
            let asked = first.map_or_else(Vec::new, |((requests, series), (_, [before, within]))| {
                suspects(*requests, series, before, within)
            });
            let words =
                Words { episode: own, suspects: &asked, answers: all.answers, sources: all.words, read: &self.read };
            all.found.push(episode(words, vitals, &mut all.ids));
            if all.heaviest.is_none_or(|(weight, _)| own.weight() >= weight) {
                all.heaviest = Some((own.weight(), all.found.len() - 1));
                self.calm = Some(own.baseline);
                self.suspects = asked;
                if let Some((requests, series)) = requests.first().zip(judged.series.first()) {
                    self.courses(*requests, series, (own.from, own.to));
                }
            }
        }
    }

    /// What episodes come to: a surge that nobody noticed is no incident, whoever named it.
    pub(crate) fn verdict(&self, episodes: &[Episode]) -> Verdict {
        match self.heaviest.and_then(|place| episodes.get(place)) {
            Some(own) => {
                let Episode { from, to, confidence: score, is_given, .. } = *own;
                let stretch = Stretch { from, to, score, is_given };
                match own.grade {
                    Grade::Outage | Grade::Incident | Grade::Degraded => Verdict::Incident(stretch),
                    Grade::Surge => Verdict::Surge(stretch),
                    Grade::None => Verdict::Named(stretch),
                }
            }
            None if self.pulse.is_none() => {
                let logs = if self.has(Source::Audit) { "the audit logs hold no event of it" } else { "no audit logs" };
                Verdict::Unknown(format!(
                    "the load over time is unknown: {logs}, and no series of apiserver metrics pages"
                ))
            }
            None if self.is_short && self.intervals.0 >= MIN_INTERVALS => {
                Verdict::Unknown("one of the bundles is too short for a baseline; one minute is required".to_owned())
            }
            None if self.is_short && self.intervals.1 > FINEST => {
                let (count, length) = (counted(self.intervals.0 as u64, "interval"), duration(self.intervals.1));
                Verdict::Unknown(format!(
                    "{count} of {length} are too few for a baseline; {MIN_INTERVALS} are required: pages of a longer \
                     time, or taken more often"
                ))
            }
            None if self.is_short => {
                let covered = self.span.map_or_else(String::new, |(from, to)| format!(", {}", duration(to - from)));
                Verdict::Unknown(format!("the input{covered} is too short for a baseline; one minute is required"))
            }
            // What stops in one of them, others go on with.
            None if self.clusters.len() > 1 => {
                let clusters = self.clusters.join(", ");
                Verdict::Unknown(format!(
                    "these sources are of several clusters ({clusters}), and one hides what another shows"
                ))
            }
            None => Verdict::Quiet(self.outcomes.of_calm(self.recurring)),
        }
    }

    /// All names in the logs.
    pub(crate) fn names(&self, context: &mut Context<'_>) -> Result<Vec<(String, Kind)>, Error> {
        if !self.has(Source::Audit) {
            return Ok(Vec::new());
        }
        let dims = [Dim::User, Dim::SourceIp, Dim::Namespace, Dim::Name, Dim::Node];
        let kinds = [Kind::User, Kind::Address, Kind::Namespace, Kind::Name, Kind::Name];
        let counted = self.count(dims.map(|dim| Query { by: vec![dim], ..Query::default() }), context)?;
        let names =
            counted.iter().zip(kinds).flat_map(|(broken, kind)| broken.0.rows.iter().map(move |row| (row, kind)));
        Ok(names.filter_map(|(row, kind)| Some((row.dims.first()?.clone(), kind))).collect())
    }

    /// How those asked in time who asked for most more.
    fn courses(&mut self, requests: &dyn Requests, series: &RequestSeries, window: Span) {
        self.courses.clear();
        let len = series.tiles.len();
        for suspect in self.suspects.iter_mut().filter(|own| own.added > 0.0 && !own.who[0].is_empty()).take(CLIENTS) {
            let Some(place) = requests.callers().iter().position(|who| *who == suspect.who) else { continue };
            let rate = |(at, count): (usize, &f64)| (series.grid.start(at), count / series.grid.seconds(at).max(1.0));
            let course: Vec<(Micros, f64)> = series.by_caller[place].dense(len).iter().enumerate().map(rate).collect();
            suspect.rose = rise(&course, series.grid.tile, window);
            self.courses.push((name(&suspect.who), course));
        }
    }
}

/// A piece of time, and what is known of it.
struct Piece<'p> {
    rollup: Option<&'p Rollup>,
    /// Those of all of the time where there is one piece.
    facts: Option<&'p Facts>,
    bounds: Bounds,
    /// What somebody named of it.
    given: Option<Span>,
}

/// The episodes of all pieces.
struct Episodes<'a> {
    answers: &'a Answers,
    /// The sources as they were named.
    words: &'a str,
    ids: Vec<String>,
    found: Vec<Episode>,
    /// The weight of the heaviest, and its place.
    heaviest: Option<(judge::Weight, usize)>,
}

/// A time in words.
fn shown((from, to): Span) -> String {
    format!("{} to {}", time::second(from), time::second(to))
}

/// Times in order, those that overlap, or nearly do, as one.
pub(super) fn stretches(mut times: Vec<Span>) -> Vec<Span> {
    times.sort_unstable();
    let mut all: Vec<Span> = Vec::new();
    for (from, to) in times {
        match all.last_mut() {
            Some(last) if from <= last.1 + TOGETHER => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    all
}

/// The time that a bundle says it is of, where it says both ends.
pub(super) fn stated(bundle: &Bundle) -> Option<Span> {
    let (from, to) = bounds_of(bundle);
    from.zip(to)
}

/// What a bundle says when it was taken.
fn bounds_of(bundle: &Bundle) -> Bounds {
    (time::parse_any(&bundle.t0), time::parse_any(&bundle.end))
}

/// When what was found ends: by the ends of logs, the times of pages and what roll-ups say of themselves; nothing is
/// read for it.
#[cfg(feature = "history")]
pub(crate) fn end(found: &Discovery) -> Option<Micros> {
    let logs = settle::rough_ends(&found.streams).map(|(_, last)| last);
    let pages = found.pages.iter().flat_map(|folder| &folder.pages).map(|page| page.at);
    pages.chain(logs).chain(found.rolled_to).max()
}

/// A dangerous operation that was done, as a cause.
fn operation(group: &Group) -> Option<Operation> {
    let kinds = ["delete-namespace", "delete-crd", "delete-collection", "delete-node", "delete-pod"];
    let objects = group.cascade.total().max(group.count) as f64;
    (group.done > 0 && kinds.contains(&group.first.kind)).then(|| Operation {
        at: group.first.at,
        caller: [group.first.user.clone(), String::new()],
        objects,
    })
}
