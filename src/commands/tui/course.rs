//! The load, memory and sizes in time: of sources as they are, and of what is read live, which is taken in as it comes.

use crate::analysis::incident::answers::Answers;
use crate::analysis::incident::charts;
use crate::analysis::incident::pulse::LoadSeries;
use crate::analysis::metrics::facts::{Facts, Folded};
use crate::analysis::metrics::{Retention, traffic as metrics};
use crate::cli::{Context, Error};
use crate::inputs::load::Load;
use crate::inputs::pages::Folding;
use crate::inputs::pulse::pulse_of_logs;
use crate::inputs::together;
use crate::model::cause::Source;
use crate::model::episode::Episode;
use crate::model::forecast::Unit;
use crate::model::incident::{Chart, Verdict};
use crate::model::memory::Sample;
use crate::model::report::Severity;
use crate::model::time::{Micros, Span, together};
use crate::sources::cgroup;
use crate::sources::find;
use crate::sources::pages::{PageBuffer, PageFile, PagesRead, read_page};
use crate::sources::wanted::Wanted;
use crate::views::tui::Course;
use std::collections::BTreeMap;

/// Samples of a cgroup that are kept.
const SAMPLES: usize = 2_000;

/// That of sources which no longer change.
pub(super) fn course(sources: &[String], context: &mut Context<'_>) -> Result<Course, Error> {
    let mut load = Load::read(sources, (None, None), context)?;
    let episodes = load.judge(None, &Answers::default(), &sources.join(" "));
    Ok(course_of(&load.verdict(&episodes), &episodes, &load))
}

fn course_of(verdict: &Verdict, episodes: &[Episode], load: &Load) -> Course {
    let heaviest = load.heaviest.and_then(|place| episodes.get(place));
    let words = match (heaviest, verdict) {
        (Some(own), _) => own.headline.clone(),
        (None, Verdict::Quiet(why) | Verdict::Unknown(why)) => {
            let mut letters = why.chars();
            let first = letters.next().map(char::to_uppercase).into_iter().flatten();
            format!("{}.", first.chain(letters).collect::<String>().trim_end_matches('.'))
        }
        (None, Verdict::Incident(_) | Verdict::Surge(_) | Verdict::Named(_)) => String::new(),
    };
    let words = [words].into_iter().chain(load.several_clusters()).collect::<Vec<_>>().join(" ");
    let pulse = load.pulse.as_ref();
    let mut charts = charts::charts(pulse, &[], &load.facts, &load.memory);
    if let Some(pulse) = pulse.filter(|pulse| pulse.source == Source::Metrics) {
        let place = charts.iter().position(|chart| chart.unit != Unit::PerSecond).unwrap_or(charts.len());
        charts.splice(place..place, latency(&load.facts, pulse.piece));
    }
    let severity = heaviest.map_or(Severity::Info, |own| own.grade.severity());
    Course { charts, verdict: words, severity, window: verdict.window(), span: load.span }
}

/// Latency in time by the histograms of pages; of logs the pulse has it.
fn latency(facts: &Facts, piece: Micros) -> Option<Chart> {
    let query = metrics::Query { by: vec![metrics::Dim::Verb], filters: Vec::new(), interval: Some(piece) };
    let (_, series) = metrics::measured(facts, &query).series?;
    let line = |name: &str, at: usize| {
        let points = series.iter().filter_map(|line| Some((line.interval?, line.measures.latency_ms[at]?)));
        (name.to_owned(), points.collect())
    };
    let (title, lines) =
        ("Latency in ms, without watches".to_owned(), vec![line("median", 0), line("99th percentile", 2)]);
    Some(Chart { name: "latency_ms".to_owned(), title, unit: Unit::Count, lines, source: Source::Metrics })
}

/// What was read live so far.
#[derive(Default)]
pub(super) struct Growing {
    /// By cluster and instance.
    pages: BTreeMap<(String, String), Folding>,
    memory: BTreeMap<String, Vec<Sample>>,
    span: Option<Span>,
}

impl Growing {
    /// Takes in a page of metrics.
    #[cfg_attr(not(feature = "live"), expect(dead_code, reason = "nothing is read live"))]
    pub(super) fn page(&mut self, cluster: &str, instance: &str, at: Micros, body: Vec<u8>) {
        let folding = self
            .pages
            .entry((cluster.to_owned(), instance.to_owned()))
            .or_insert_with(|| Folding::new(Retention::Incident));
        let mut read = PagesRead::default();
        // What is wrong with a page is taken from the commands that read it.
        read_page(PageFile::read(instance.to_owned(), at, body), &mut PageBuffer::default(), folding, &mut read, &());
        self.span = together(self.span, Some((at, at)));
    }

    /// Takes in the files of a cgroup.
    #[cfg_attr(not(feature = "live"), expect(dead_code, reason = "nothing is read live"))]
    pub(super) fn group(&mut self, name: &str, at: Micros, text: &str) {
        let Some(sample) = cgroup::read_text(text, name, at) else { return };
        let samples = self.memory.entry(name.to_owned()).or_default();
        samples.push(sample);
        if samples.len() > SAMPLES {
            samples.drain(..SAMPLES / 2);
        }
        self.span = together(self.span, Some((at, at)));
    }

    /// What it comes to.
    pub(super) fn so_far(&self) -> SoFar {
        let folded: Vec<Folded<'_>> =
            self.pages.iter().map(|((cluster, instance), folding)| folding.folded(cluster, instance)).collect();
        let facts = Facts::new(&folded);
        let memory: Vec<(String, Vec<Sample>)> =
            self.memory.iter().map(|(name, samples)| (name.clone(), samples.clone())).collect();
        SoFar { facts, memory, span: self.span }
    }
}

/// What was read live, taken out so that what comes next need not wait.
pub(super) struct SoFar {
    facts: Facts,
    memory: Vec<(String, Vec<Sample>)>,
    span: Option<Span>,
}

impl SoFar {
    /// The course of it, and of the logs among `sources`.
    pub(super) fn course(self, sources: &[String], context: &mut Context<'_>) -> Result<Course, Error> {
        let Self { facts, memory, span } = self;
        let mut load = Load { sources: sources.to_vec(), facts, memory, span, ..Load::default() };
        load.read.push(Source::Metrics);
        let found = find::find(sources, Wanted::Logs, context.io.now);
        if !found.streams.is_empty() {
            load.read.insert(0, Source::Audit);
        }
        let (of_logs, rollups) = together::run(context, |context| {
            let rollups = load.rolled(context);
            let found = find::find(sources, Wanted::Logs, context.io.now);
            Ok((pulse_of_logs(found, (None, None), context)?, rollups?))
        })?;
        load.span = together(load.span, of_logs.as_ref().map(|pulse| pulse.span));
        load.pulse = of_logs.or_else(|| LoadSeries::of_pages(&load.facts));
        load.rollups = rollups;
        let episodes = load.judge(None, &Answers::default(), &sources.join(" "));
        Ok(course_of(&load.verdict(&episodes), &episodes, &load))
    }
}
