//! `plimsoll report`: one file that explains an incident.

mod sections;

use crate::analysis::answer::{Answer, Rows};
use crate::analysis::incident::cards::cards;
use crate::analysis::incident::redact::{self, Kind, Names};
use crate::analysis::incident::steps::add_remedies;
use crate::analysis::incident::summary::{self, SummaryInput};
use crate::analysis::incident::timeline::{self, TimelineInput};
use crate::analysis::incident::{charts, report};
use crate::cli::{Context, Error, FailOn, TimeFlags, parse_time};
use crate::inputs::etcd::opened::SharedDatabases;
use crate::inputs::load::Load;
use crate::inputs::pages::Memo;
use crate::inputs::{captures, profiles, together};
use crate::model::cause::Source;
use crate::model::incident::{Incident, Own, Verdict, quote};
use crate::model::question;
use crate::model::report::{Report, Severity};
use crate::model::time::{self, Micros, SECOND, Span};
use crate::sources::arguments::is_read_once;
use crate::sources::found::Remembering;
use crate::views::Format;
use crate::views::incident as view;
use sections::{Asks, Sections};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Arguments of `plimsoll report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # one file that needs no network
  plimsoll report bundle/ -o html > report.html
  plimsoll report bundle/ -o markdown > ticket.md
  # what matters, on the terminal
  plimsoll report bundle/
  plimsoll report /var/log/kubernetes/ scrapes/ --since -3h
  plimsoll report audit.log scrapes/ snapshot.db --from 2026-11-20T09:21:00Z \\
    --to 2026-11-20T09:25:00Z
  plimsoll report bundle/ -o html --redact --title 'Outage of 20 November' \\
    --owner platform > report.html

Every number is that of the command named beside it. Window, causes, confidence: docs/commands/report.md.")]
pub struct Args {
    /// All sources that you have: bundles, datasets, audit logs, metrics pages, databases of etcd, copies of cgroups,
    /// heap profiles, objects.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
    /// When the incident began (RFC 3339, -1h, now-7d) [default: found by statistics].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// When it ended (RFC 3339, -1h, now-7d).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Title of the report.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Owner named in the report.
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Add forecasts from this history: a store of plimsoll record, or a CSV file; repeatable.
    #[cfg(feature = "history")]
    #[arg(long, value_name = "SOURCE")]
    history: Vec<String>,
    /// Add a section of your own from this template (docs/commands/report.md); repeatable.
    #[arg(long = "template", value_name = "FILE")]
    templates: Vec<PathBuf>,
    /// Write pseudonyms in place of users, addresses, namespaces and names of objects; the same one for the same name.
    #[arg(long)]
    redact: bool,
}

impl Args {
    /// What the flags ask.
    pub fn question(&self, now: Micros) -> Result<question::Report, Error> {
        Ok(question::Report {
            sources: self.sources.clone(),
            bounds: self.time.resolve(now).map_err(Error::Usage)?,
            window: given(self, now)?,
            title: self.title.clone(),
            owner: self.owner.clone(),
            #[cfg(feature = "history")]
            history: self.history.clone(),
            #[cfg(not(feature = "history"))]
            history: Vec::new(),
            templates: self.templates.iter().map(|path| path.display().to_string()).collect(),
            redact: self.redact,
        })
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    context.refuse_sort("a report has a fixed order; its HTML can be sorted by any column")?;
    if let Some(source) = args.sources.iter().find(|source| is_read_once(source)) {
        return Err(Error::Usage(format!(
            "{source}: a report reads its sources several times, and a pipe can be read once; write it to a file"
        )));
    }
    if context.settings.format == Format::Csv {
        return Err(Error::Usage("-o csv: a report is more than one table; -o json has all of it".to_owned()));
    }
    write(&args.question(context.io.now)?, context)
}

/// Writes the report in the form that is asked for.
pub(super) fn write(question: &question::Report, context: &mut Context<'_>) -> Result<(), Error> {
    let (incident, report) = made(question, context)?;
    match context.settings.format {
        Format::Html | Format::Markdown | Format::Json | Format::Yaml => {
            context.judge(&report, FailOn::Never);
            Ok(view::render(&incident, &report, context.settings.format, &mut context.io.out)?)
        }
        _ => context.print(&report, FailOn::Never),
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::Report, context: &mut Context<'_>) -> Result<Answer, Error> {
    let (incident, report) = made(question, context)?;
    Ok(Answer::Report(Box::new(report), Rows::Timeline(incident.timeline)))
}

/// The incident, and the report of it.
fn made(question: &question::Report, context: &mut Context<'_>) -> Result<(Incident, Report), Error> {
    let templates = templates(&question.templates)?;
    let (incident, names) = incident(question, templates, context)?;
    let mut incident = if question.redact {
        let all: Vec<_> = redact::named(&incident).into_iter().chain(names).collect();
        Names::new(all).redact(incident)
    } else {
        incident
    };
    let mut report = report::report(&incident);
    report.findings_shown = context.settings.asked_top().or(report.findings_shown);
    view::fill(&mut incident, &report).map_err(Error::Usage)?;
    Ok((incident, report))
}

/// The window that was asked for.
fn given(args: &Args, now: Micros) -> Result<Option<Span>, Error> {
    let time = |flag: &str, text: &Option<String>| {
        text.as_deref()
            .map(|text| parse_time(text, now).map_err(|why| Error::Usage(format!("{flag}: {why}"))))
            .transpose()
    };
    match (time("--from", &args.from)?, time("--to", &args.to)?) {
        (Some(from), Some(to)) if from >= to => Err(Error::Usage("--from is not before --to".to_owned())),
        (Some(from), Some(to)) => Ok(Some((from, to))),
        (None, None) => Ok(None),
        _ => Err(Error::Usage("--from and --to require each other; --since and --until limit what is read".to_owned())),
    }
}

/// A time as its ends.
fn shown((from, to): Span) -> String {
    format!("{} to {}", time::format(from), time::format(to))
}

/// A window that reaches no further beyond the data than this, in µs, is taken as it was named.
const BEYOND: Micros = 10 * SECOND;

/// What the data cover of a window that was named, where it reaches beyond them by more than an interval.
fn covered((from, to): Span, load: &Load) -> Result<Span, Error> {
    match load.span {
        Some(_) if load.is_unseen((from, to)) => Err(Error::Usage(format!(
            "--from, --to: no bundle is of {}; the bundles are of {}",
            shown((from, to)),
            load.times()
        ))),
        Some(span) if from < span.1 && span.0 < to => {
            let from = if span.0 - from > BEYOND { span.0 } else { from };
            let to = if to - span.1 > BEYOND { span.1 } else { to };
            Ok((from, to))
        }
        Some(span) => Err(Error::Usage(format!(
            "--from, --to: no data for {}: the sources cover {}",
            shown((from, to)),
            shown(span)
        ))),
        None => Err(Error::Usage(
            "--from, --to: the sources have no times; audit logs, metrics pages and cgroups do".to_owned(),
        )),
    }
}

fn templates(paths: &[String]) -> Result<Vec<Own>, Error> {
    let read = |path: &String| {
        let text = std::fs::read_to_string(path);
        text.map(|text| Own { path: path.clone(), text })
            .map_err(|error| Error::Usage(format!("--template {path}: {error}")))
    };
    paths.iter().map(read).collect()
}

/// Reads everything and makes the report; and where names are to be replaced, those in the logs.
fn incident(
    question: &question::Report,
    own: Vec<Own>,
    context: &mut Context<'_>,
) -> Result<(Incident, Vec<(String, Kind)>), Error> {
    context.shared.replace(Some(Memo::default()));
    context.shared.replace(Some(profiles::Memo::default()));
    context.shared.replace(Some(captures::Memo::default()));
    let _remembering = Remembering::begin();
    SharedDatabases::begin(context);
    context.report_losses_once();
    let question::Report { bounds: within, window: given, .. } = *question;
    let (mut load, found) = Load::look(&question.sources, within, context)?;
    for error in found.missing() {
        context.lost(error)?;
    }
    load.is_whole = question.redact || matches!(context.settings.format, Format::Json | Format::Yaml);
    load.history.clone_from(&question.history);
    load.pages(found, context)?;
    sections::walk_ends(&load, context);
    // The first pass over the logs finds the window, and answers what is asked of all of the time.
    let (of_logs, rollups, names, mut sections) = together::run(context, |context| {
        let names = if question.redact { load.names(context) } else { Ok(Vec::new()) };
        let sections = Sections::of(&load, Asks::LogsOfAllTime, context);
        let rollups = load.rolled(context);
        Ok((load.pulse_of_logs(context)?, rollups?, names?, sections?))
    })?;
    load.course(of_logs);
    load.rollups = rollups;
    let has_times = [Source::Audit, Source::Metrics, Source::Cgroup].into_iter().any(|kind| load.has(kind));
    if within != (None, None) && has_times && load.span.is_none() {
        return Err(Error::Usage("no data between --since and --until".to_owned()));
    }
    let named = given;
    let given = named.map(|named| covered(named, &load)).transpose()?;
    let words = question.sources.iter().map(|source| quote(source)).collect::<Vec<String>>().join(" ");
    let mut episodes = load.judge(given, &sections.answers, &words);
    let verdict = load.verdict(&episodes);
    let of_window = together::run(context, |context| Sections::of(&load, Asks::LogsOf(verdict.window()), context))?;
    sections.add(of_window);
    sections.add(Sections::of(&load, Asks::Other, context)?);
    sections.draw(&load, context)?;
    SharedDatabases::end(context);
    let known = TimelineInput {
        span: load.span,
        episodes: &episodes,
        facts: &load.facts,
        memory: &load.memory,
        suspects: &load.suspects,
        answers: &sections.answers,
    };
    let mut timeline = timeline::timeline(&known);
    timeline.retain(|entry| !load.is_between_bundles(entry.at));
    let heaviest = load.heaviest;
    if let Some(place) = heaviest {
        add_remedies(&mut episodes[place].causes, &sections.answers);
    }
    let mut causes = heaviest.map_or_else(Vec::new, |place| episodes[place].causes.clone());
    // Only what people read holds them.
    if matches!(context.settings.format, Format::Html | Format::Markdown) {
        sections::manifests(&load, &mut causes, context)?;
    }
    let phases = match (load.pulse.as_ref(), heaviest) {
        (Some(pulse), Some(place)) => charts::phases(pulse, &episodes[place]),
        _ => Vec::new(),
    };
    // Sections of the same clients find the same.
    let chronic: BTreeSet<_> = sections
        .all
        .iter()
        .flat_map(|section| &section.report.findings)
        .filter(|finding| finding.severity >= Severity::Warning)
        .map(|finding| (&finding.id, &finding.subject))
        .collect();
    let chronic = chronic.len();
    let input = SummaryInput {
        verdict: &verdict,
        episodes: &episodes,
        heaviest,
        timeline: &timeline,
        read: &load.read,
        span: load.span,
        blind: load.blind,
        outcomes: load.outcomes,
        chronic,
    };
    let mut summary = summary::summary(&input);
    if let Some((named, given)) = named.zip(given).filter(|(named, given)| named != given) {
        summary.push(format!("The data cover {} of the time that was named, {}.", shown(given), shown(named)));
    }
    summary.extend(load.several_clusters());
    summary.extend(load.unrecorded());
    summary.extend(load.uneven());
    let cluster = load.clusters.join(", ");
    let title = question.title.clone().unwrap_or_else(|| match (&verdict, cluster.as_str()) {
        (Verdict::Incident(_), "") => "Incident report".to_owned(),
        (Verdict::Incident(_), cluster) => format!("Incident report: {cluster}"),
        (_, "") => "Control-plane report".to_owned(),
        (_, cluster) => format!("Control-plane report: {cluster}"),
    });
    let lost = sections.lost.into_iter().chain(context.losses().map(str::to_owned)).collect();
    let charts = charts::charts(load.pulse.as_ref(), &load.courses, &load.facts, &load.memory);
    let incident = Incident {
        title,
        owner: question.owner.clone().unwrap_or_else(|| load.owner.clone()),
        sources: question.sources.clone(),
        clusters: load.clusters.clone(),
        written: context.io.now,
        span: load.span,
        calm: load.calm,
        verdict,
        episodes: std::mem::take(&mut episodes),
        summary,
        clients: cards(&load.suspects, &sections.answers),
        causes,
        timeline,
        phases,
        charts,
        sections: sections.all,
        flames: sections.flames,
        read: Source::ALL.into_iter().filter(|source| load.read.contains(source)).collect(),
        lost,
        own,
    };
    Ok((incident, names))
}
