//! What a report is made from beside what other commands say: the course of the load, who added to it, metrics and
//! memory in time.

use crate::analysis::dims::Dim;
use crate::analysis::filter::Filter;
use crate::analysis::incident::pulse::{PIECE, Pulse, piece_of};
use crate::analysis::incident::redact::Kind;
use crate::analysis::incident::suspects::{self, Side, Suspect, rise, suspects, unnamed};
use crate::analysis::incident::window;
use crate::analysis::metrics::Kept;
use crate::analysis::metrics::facts::{Component, Facts};
use crate::analysis::traffic::{Breakdown, Query};
use crate::cli::{Context, Error, give_back};
use crate::commands::traffic::{Breaking, Broken};
use crate::commands::{etcd, heap, logs, pages, traffic};
use crate::model::bundle::Bundle;
use crate::model::incident::{Source, Span, Stretch, Verdict};
use crate::model::memory::Sample;
use crate::model::time::{self, Micros, SECOND, together};
use crate::sources::audit::settle;
use crate::sources::find::{self, Found, Wanted};
use crate::sources::open::SourceError;
use crate::sources::{cgroup, objects::captures};
use std::path::Path;
use std::sync::Arc;

/// Clients whose course is looked at.
const CLIENTS: usize = 8;
/// Pieces of time of their courses, about.
const PIECES: i64 = 400;

/// From when on, and until when.
pub(in crate::commands) type Bounds = (Option<Micros>, Option<Micros>);

/// All of it.
#[derive(Debug, Default)]
pub(in crate::commands) struct Load {
    /// What was named.
    pub(in crate::commands) sources: Vec<String>,
    /// What the sources cover, within what a bundle says it is about.
    pub(in crate::commands) span: Option<Span>,
    /// The calm before the window.
    pub(in crate::commands) calm: Option<Span>,
    /// What a bundle says it is about.
    pub(in crate::commands) bounds: (Option<Micros>, Option<Micros>),
    /// The clusters.
    pub(in crate::commands) clusters: Vec<String>,
    /// Who answers for them.
    pub(in crate::commands) owner: String,
    /// What there is.
    pub(in crate::commands) read: Vec<Source>,
    /// Of each kind, the sources that hold it.
    pub(in crate::commands) holders: Vec<(Source, String)>,
    /// The first and the last database of etcd, where there are two.
    pub(in crate::commands) ends: Vec<String>,
    /// Whether all rows of all sections are wanted: for machines, and where names are looked for in them.
    pub(in crate::commands) is_whole: bool,
    /// Stores and files with series in time.
    pub(in crate::commands) history: Vec<String>,
    /// How many heap profiles of one process there are.
    pub(in crate::commands) heaps: usize,
    /// The course of the load.
    pub(in crate::commands) pulse: Option<Pulse>,
    /// Metrics of all of the time, of that before the window, and of the window.
    pub(in crate::commands) facts: Facts,
    pub(in crate::commands) before: Facts,
    pub(in crate::commands) within: Facts,
    /// Samples of cgroups, by group.
    pub(in crate::commands) memory: Vec<(String, Vec<Sample>)>,
    /// Who asked for more.
    pub(in crate::commands) suspects: Vec<Suspect>,
    /// Requests a second of those who asked for most more.
    pub(in crate::commands) courses: Vec<(String, Vec<(Micros, f64)>)>,
}

impl Load {
    /// Reads what can be read before it is known when the incident was.
    #[cfg(feature = "tui")]
    pub(in crate::commands) fn read(
        sources: &[String],
        within: Bounds,
        context: &mut Context<'_>,
    ) -> Result<Self, Error> {
        let (mut load, found) = Self::look(sources, within, context)?;
        load.pages(found, context)?;
        let of_logs = load.pulse_of_logs(context)?;
        load.course(of_logs);
        Ok(load)
    }

    /// Finds out what there is to read; of what has times only what lies within these bounds, and those of a bundle,
    /// counts.
    pub(in crate::commands) fn look(
        sources: &[String],
        (since, until): Bounds,
        context: &mut Context<'_>,
    ) -> Result<(Self, Found), Error> {
        let mut load = Self { sources: sources.to_vec(), ..Self::default() };
        let found = find::find(sources, Wanted::Both, context.io.now);
        load.bundle(found.bundle.as_ref());
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
        for source in sources {
            load.look_into(source, context);
        }
        load.read = Source::ALL.into_iter().filter(|kind| load.holders.iter().any(|(held, _)| held == kind)).collect();
        if load.read.is_empty() {
            return Err(Error::Input(load.nothing(&found)));
        }
        load.ends = etcd::ends(sources, context).unwrap_or_default();
        Ok((load, found))
    }

    fn nothing(&self, found: &Found) -> String {
        let is_other = |error: &&SourceError| !matches!(error, SourceError::NothingHere { .. });
        let errors: Vec<String> = found.errors.iter().filter(is_other).map(ToString::to_string).collect();
        if errors.is_empty() {
            format!(
                "{}: nothing here that a report is made of: audit logs, metrics pages, databases of etcd, copies of cgroups, heap profiles, objects",
                self.sources.join(", ")
            )
        } else {
            errors.join("\nplimsoll: ")
        }
    }

    fn bundle(&mut self, bundle: Option<&Bundle>) {
        if let Some(bundle) = bundle {
            self.bounds = (time::parse_any(&bundle.t0), time::parse_any(&bundle.end));
            self.owner.clone_from(&bundle.owner);
        }
    }

    /// Whether there is anything of this kind.
    pub(in crate::commands) fn has(&self, kind: Source) -> bool {
        self.read.contains(&kind)
    }

    /// Whether there is time between the pages of an apiserver.
    pub(in crate::commands) fn has_rates(&self) -> bool {
        self.facts.instances_of(Component::Apiserver).any(|instance| instance.seconds > 0.0)
    }

    /// The sources that hold something of these kinds.
    pub(in crate::commands) fn of(&self, kinds: &[Source]) -> Vec<String> {
        let holds =
            |source: &&String| self.holders.iter().any(|(kind, holder)| kinds.contains(kind) && holder == *source);
        self.sources.iter().filter(holds).cloned().collect()
    }

    /// Finds out what kinds of things a source holds. What can't be read is told by the section about it.
    fn look_into(&mut self, source: &String, context: &Context<'_>) {
        let one = std::slice::from_ref(source);
        let found = find::find(one, Wanted::Both, context.io.now);
        let memory = if Path::new(source).exists() {
            cgroup::open(Path::new(source), context.io.now, false).unwrap_or_default()
        } else {
            Vec::new()
        };
        let heaps = heap::count(one);
        let has = [
            (Source::Audit, !found.streams.is_empty()),
            (Source::Metrics, !found.pages.is_empty()),
            (Source::Etcd, !find::find(one, Wanted::Databases, context.io.now).databases.is_empty()),
            (Source::Cgroup, !memory.is_empty()),
            (Source::Heap, heaps > 0),
            (Source::Objects, captures::find(one).captures.iter().any(|capture| !capture.objects.kinds.is_empty())),
        ];
        self.holders.extend(has.into_iter().filter(|(_, has)| *has).map(|(kind, _)| (kind, source.clone())));
        self.memory.extend(memory.into_iter().map(|series| (series.name, series.samples)));
        self.heaps = self.heaps.max(heaps);
    }

    /// Pages in the course of time.
    pub(in crate::commands) fn pages(&mut self, mut found: Found, context: &mut Context<'_>) -> Result<(), Error> {
        let (since, until) = self.bounds;
        pages::keep(&mut found.pages, since, until);
        let has_pages = !found.pages.is_empty();
        self.facts = pages::facts(std::mem::take(&mut found.pages), Kept::Incident, context)?.0;
        if has_pages {
            let from = self.facts.instances.iter().map(|instance| instance.from).min();
            self.span = together(self.span, from.map(|from| (from, self.facts.last())));
        }
        Ok(())
    }

    /// The course of the load by logs.
    pub(in crate::commands) fn pulse_of_logs(&self, context: &mut Context<'_>) -> Result<Option<Pulse>, Error> {
        if !self.has(Source::Audit) {
            return Ok(None);
        }
        pulse_of_logs(find::find(&self.sources, Wanted::Logs, context.io.now), self.bounds, context)
    }

    /// The course of the load, by logs or by pages, and with it what all covers.
    pub(in crate::commands) fn course(&mut self, of_logs: Option<Pulse>) {
        let (since, until) = self.bounds;
        self.pulse = of_logs;
        self.span = together(self.span, self.pulse.as_ref().map(|pulse| pulse.span));
        if self.pulse.is_none() {
            self.pulse = Pulse::of_pages(&self.facts);
        }
        // A copy that says nothing of its time is taken as it is.
        for (_, samples) in self.memory.iter_mut().filter(|(_, samples)| samples.len() > 1) {
            let is_within = |at: Micros| since.is_none_or(|since| at >= since) && until.is_none_or(|until| at < until);
            samples.retain(|sample| is_within(sample.at));
        }
        self.memory.retain(|(_, samples)| !samples.is_empty());
        for (_, samples) in &self.memory {
            self.span =
                together(self.span, samples.first().zip(samples.last()).map(|(first, last)| (first.at, last.at)));
        }
        let bound =
            |(from, to): Span| (since.map_or(from, |since| from.max(since)), until.map_or(to, |until| to.min(until)));
        self.span = self.span.map(bound).filter(|(from, to)| from < to);
    }

    /// Counts requests in the logs, by one pass.
    fn count<const N: usize>(&self, queries: [Query; N], context: &mut Context<'_>) -> Result<[Arc<Broken>; N], Error> {
        let streams = || find::find(&self.sources, Wanted::Logs, context.io.now).streams;
        let asked = queries.into_iter().map(|query| (streams(), Breaking::of(query))).collect();
        let answers: Vec<Arc<Broken>> = logs::ask_all(asked, context)?.into_iter().map(|(broken, _)| broken).collect();
        give_back();
        answers.try_into().map_err(|_| Error::Input("the logs are gone".to_owned()))
    }

    /// Whether there was an incident, and when.
    pub(in crate::commands) fn verdict(&self) -> Verdict {
        match &self.pulse {
            Some(pulse) => window::verdict(pulse),
            None => Verdict::Unknown(
                "neither audit logs nor a series of metrics pages of apiservers tell how the load went".to_owned(),
            ),
        }
    }

    /// When the incident began: those who caused it may have begun before the load stood out.
    pub(in crate::commands) fn sharpened(&self, stretch: Stretch) -> Stretch {
        Stretch { from: suspects::began(&self.suspects, stretch.from), ..stretch }
    }

    /// Looks at the window, and at the calm before it.
    pub(in crate::commands) fn look_at(&mut self, window: Span, context: &mut Context<'_>) -> Result<(), Error> {
        let calm = self.pulse.as_ref().map_or(window, |pulse| window::calm(pulse, window.0));
        self.calm = Some(calm);
        if self.has(Source::Metrics) {
            let mut lengths: Vec<Micros> =
                self.facts.instances.iter().flat_map(|own| &own.intervals).map(|(from, to)| to - from).collect();
            lengths.sort_unstable();
            let slack = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
            // Differences are taken between pages: those around the window belong to it.
            let before = self.facts_of((calm.0 - slack, calm.1 + SECOND), context);
            let within = self.facts_of((window.0 - slack, window.1 + slack), context);
            (self.before, self.within) = (before?, within?);
        }
        if !self.has(Source::Audit) {
            self.suspects = unnamed(&self.before, &self.within);
            return Ok(());
        }
        let piece = self.piece();
        let by = vec![Dim::Client, Dim::Agent, Dim::Verb, Dim::Group, Dim::Resource, Dim::Subresource];
        let part = |since: Micros, until: Micros| Query {
            by: by.clone(),
            since: Some(since),
            until: Some(until),
            ..Query::default()
        };
        let [before, within, courses] =
            self.count([part(calm.0, calm.1), part(window.0, window.1), self.course_query(piece)?], context)?;
        let seconds = |span: Span| self.pulse.as_ref().map_or(0.0, |pulse| suspects::seconds(pulse, span));
        let before = Side { rows: &before.0.rows, seconds: seconds(calm) };
        let within = Side { rows: &within.0.rows, seconds: seconds(window) };
        self.suspects = suspects(before, within);
        self.courses(&courses.0, piece, window);
        Ok(())
    }

    /// All names in the logs.
    pub(in crate::commands) fn names(&self, context: &mut Context<'_>) -> Result<Vec<(String, Kind)>, Error> {
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

    fn facts_of(&self, (since, until): Span, context: &mut Context<'_>) -> Result<Facts, Error> {
        let mut found = find::find(&self.sources, Wanted::Pages, context.io.now);
        pages::keep(&mut found.pages, Some(since), Some(until));
        Ok(pages::facts(found.pages, Kept::Requests, context)?.0)
    }

    /// The length of the pieces of a client's course.
    fn piece(&self) -> Micros {
        let mut piece = PIECE;
        while self.pulse.as_ref().is_some_and(|pulse| (pulse.span.1 - pulse.span.0) / piece > PIECES) {
            piece *= 2;
        }
        // Stored roll-ups have nothing shorter than their tiles.
        settle::in_tiles(&find::audit_logs(&self.sources).streams, piece)
    }

    /// Asks how clients asked in time.
    fn course_query(&self, piece: Micros) -> Result<Query, Error> {
        let filters = vec!["user!~^system:node:".parse().map_err(Error::Usage)?];
        let (since, until) = self.bounds;
        Ok(Query { by: vec![Dim::User, Dim::Agent], filters, interval: Some(piece), since, until, ..Query::default() })
    }

    /// How those asked in time who asked for most more.
    fn courses(&mut self, breakdown: &Breakdown, piece: Micros, window: Span) {
        self.courses.clear();
        let Some(span) = self.pulse.as_ref().map(|pulse| pulse.span) else { return };
        for suspect in self.suspects.iter_mut().filter(|suspect| suspect.added > 0.0).take(CLIENTS) {
            let rows = breakdown.rows.iter().filter(|row| row.dims == suspect.who);
            let counts: std::collections::BTreeMap<Micros, u64> =
                rows.filter_map(|row| Some((row.interval?, row.stats.requests))).collect();
            let pieces = span.0.div_euclid(piece)..=span.1.div_euclid(piece);
            let rate = |at: Micros| counts.get(&at).copied().unwrap_or(0) as f64 * SECOND as f64 / piece as f64;
            let course: Vec<(Micros, f64)> = pieces.map(|n| (n * piece, rate(n * piece))).collect();
            suspect.rose = rise(&course, piece, window);
            if course.iter().any(|(_, rate)| *rate > 0.0) {
                self.courses.push((crate::analysis::incident::timeline::name(&suspect.who), course));
            }
        }
    }
}

/// The course of the load by audit logs; `None` where there are none, or nothing is in them.
pub(in crate::commands) fn pulse_of_logs(
    found: Found,
    (since, until): (Option<Micros>, Option<Micros>),
    context: &mut Context<'_>,
) -> Result<Option<Pulse>, Error> {
    if found.streams.is_empty() {
        return Ok(None);
    }
    let piece = settle::rough_span(&found.streams).map_or(PIECE, piece_of);
    let piece = settle::in_tiles(&found.streams, piece);
    let query =
        Query { by: vec![Dim::Verb], filters: others()?, interval: Some(piece), since, until, ..Query::default() };
    let breakdown = traffic::read(&query, found, None, false, context)?.0;
    give_back();
    Ok(breakdown.first.zip(breakdown.last).map(|span| Pulse::of_logs(&breakdown.rows, piece, span)))
}

/// All but the apiservers' own requests, of which there are many whenever one starts.
fn others() -> Result<Vec<Filter<Dim>>, Error> {
    Ok(vec!["user!=system:apiserver".parse().map_err(Error::Usage)?])
}
