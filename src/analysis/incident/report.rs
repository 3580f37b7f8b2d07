//! What `plimsoll report` says, as tables and findings.

use super::episodes;
use crate::model::cause::Cause;
use crate::model::episode::{Effect, Episode, Failure, Grade, SignalSpan};
use crate::model::incident::{Card, Entry, FAILURES, Incident, Phases, Verdict};
use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::time::{self, Micros, SECOND, Span};
use crate::model::units::percent;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

const SCHEMA: &str = "plimsoll.report/v1";

const CAUSE: [&str; 6] = ["cause", "likely", "summary", "confidence", "confidence_if_complete", "subject"];
const ENTRY: [&str; 8] = ["at", "until", "slack_s", "kind", "severity", "who", "what", "source"];
const FAILURE: [&str; 3] = ["fault", "name", "requests"];
const PHASE: [&str; 4] = ["measure", "before", "within", "after"];

/// Findings that a terminal is shown where there was no incident.
const FINDINGS: usize = 10;
/// Lines of what messages name that a terminal is shown.
const MOST_FAILURES: usize = 8;
/// Lines of the timeline that a terminal is shown.
const SHOWN: usize = 30;

fn table(name: &str, title: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Table {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Table { name: name.to_owned(), title: title.to_owned(), columns, rows, ..Table::default() }
}

fn text(at: Option<Micros>) -> Value {
    at.map_or(Value::None, |at| Value::Text(time::format(at)))
}

/// Everything but what other commands say.
pub fn report(incident: &Incident) -> Report {
    let mut report = Report { schema: SCHEMA.to_owned(), lead: incident.summary.clone(), ..Report::default() };
    report.inputs = inputs(incident);
    report.window = Window::of(incident.span);
    let coverage = json!({
        "read": incident.read.iter().map(|source| source.name()).collect::<Vec<_>>(),
        "missing": incident.missing().map(|source| source.name()).collect::<Vec<_>>(),
        "lost": incident.lost,
    });
    report.coverage = coverage.as_object().cloned().unwrap_or_default();
    report.findings = findings(incident);
    let grave =
        |severity: Severity| report.findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    report.totals = vec![
        (
            "causes".to_owned(),
            Value::Count(incident.causes.iter().filter(|cause| cause.confidence >= Cause::LIKELY).count() as u64),
        ),
        ("candidates".to_owned(), Value::Count(incident.causes.len() as u64)),
        ("events".to_owned(), Value::Count(incident.timeline.len() as u64)),
        ("critical".to_owned(), Value::Count(grave(Severity::Critical))),
        ("warning".to_owned(), Value::Count(grave(Severity::Warning))),
    ];
    report.table = table("causes", "Possible causes", &CAUSE, incident.causes.iter().map(cause).collect());
    report.tables = vec![
        table("timeline", "Timeline", &ENTRY, incident.timeline.iter().map(entry).collect()),
        table("phases", "Before, during and after", &PHASE, incident.phases.iter().map(phase).collect()),
        table("failures", FAILURES, &FAILURE, incident.failures().iter().map(|own| failure(own.fault, own)).collect()),
    ];
    report.people = Some(for_people(incident).into_iter().filter(|table| !table.rows.is_empty()).collect());
    report.findings_shown = Some(FINDINGS);
    report.notes = notes(incident);
    for (name, value) in more(incident) {
        report.more.insert(name.to_owned(), value);
    }
    report
}

/// What was read, each file once: commands read the same ones.
fn inputs(incident: &Incident) -> Vec<InputReport> {
    let mut met = BTreeSet::new();
    let all = incident.sections.iter().flat_map(|section| &section.report.inputs);
    all.filter(|input| met.insert((input.path.clone(), input.kind))).cloned().collect()
}

fn cause(cause: &Cause) -> Vec<Value> {
    let subject = cause.subject.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect();
    vec![
        cause.kind.into(),
        cause.words().into(),
        cause.summary.as_str().into(),
        cause.confidence.into(),
        cause.confidence_if_complete.into(),
        Value::Group(subject),
    ]
}

fn entry(entry: &Entry) -> Vec<Value> {
    vec![
        text(Some(entry.at)),
        text(entry.until),
        Value::Number(entry.slack as f64 / SECOND as f64),
        entry.kind.into(),
        entry.severity.name().into(),
        entry.who.as_str().into(),
        entry.what.as_str().into(),
        entry.source.name().into(),
    ]
}

fn failure(fault: &str, own: &Failure) -> Vec<Value> {
    vec![fault.into(), own.name.as_str().into(), Value::Count(own.requests)]
}

fn phase(phase: &Phases) -> Vec<Value> {
    let [before, within, after] = phase.values;
    vec![phase.name.into(), before.into(), within.into(), after.into()]
}

/// So many candidates people are shown, and further ones only from this confidence on.
const MOST_CAUSES: usize = 3;
const WORTH_A_LINE: f64 = 0.02;

fn for_people(incident: &Incident) -> Vec<Table> {
    let mut all = Vec::new();
    let likely: Vec<Vec<Value>> = incident
        .causes
        .iter()
        .filter(|cause| !cause.supports.is_empty())
        .enumerate()
        .filter(|(place, cause)| *place < MOST_CAUSES || cause.confidence >= WORTH_A_LINE)
        .map(|(_, cause)| {
            vec![
                format!("{} ({})", percent(cause.confidence), cause.words()).as_str().into(),
                cause.kind.into(),
                cause.summary.as_str().into(),
            ]
        })
        .collect();
    all.push(table("causes", "Possible causes", &["incident_confidence", "cause", "summary"], likely));
    let phases = incident.phases.iter().map(|phase| {
        let values = phase.values.map(|value| Value::from(phase.formatted(value).as_str()));
        std::iter::once(phase.words.into()).chain(values).collect()
    });
    let columns = ["measure", "incident_before", "incident_within", "incident_after"];
    all.push(table("phases", "Before, during and after", &columns, phases.collect()));
    let failures = incident.failures().iter().take(MOST_FAILURES).map(|own| failure(own.words, own));
    all.push(table("failures", FAILURES, &FAILURE, failures.collect()));
    let reported = incident.timeline.iter().map(|entry| {
        let who = if entry.who.is_empty() { String::new() } else { format!("{} ", entry.who) };
        vec![
            time::moment_of(entry.at, incident.span).as_str().into(),
            entry.severity.name().into(),
            entry.kind.into(),
            format!("{who}{}", entry.what).as_str().into(),
        ]
    });
    all.push(table(
        "timeline",
        "Timeline (UTC)",
        &["incident_at", "severity", "kind", "incident_what"],
        reported.take(SHOWN).collect(),
    ));
    all
}

fn notes(incident: &Incident) -> Vec<String> {
    let mut notes = Vec::new();
    if incident.timeline.len() > SHOWN {
        notes.push(format!(
            "{} more lines of the timeline: -o html, markdown or json show all.",
            incident.timeline.len() - SHOWN
        ));
    }
    notes.extend(incident.lost.iter().map(|lost| format!("Not in this report: {}.", lost.trim_end_matches('.'))));
    notes.push("For all details: -o html (one self-contained file).".to_owned());
    notes
}

/// Findings of all commands, each once: first the heaviest episode, then by severity, weight in it, confidence.
fn findings(incident: &Incident) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Verdict::Incident(stretch) | Verdict::Surge(stretch) = &incident.verdict {
        let likeliest = incident.causes.first();
        let is_it = |own: &&Episode| (own.from, own.to) == (stretch.from, stretch.to);
        let finding = match (&incident.verdict, incident.episodes.iter().find(is_it)) {
            (Verdict::Surge(_), Some(own)) => episodes::finding(own),
            (_, own) => {
                let grade = own.map_or(Grade::Incident, |own| own.grade);
                Finding::new("incident", grade.severity(), &[])
                    .confidence(stretch.score)
                    .seen((stretch.from, stretch.to))
                    .summary(incident.summary.first().map_or("", |line| line.trim_end_matches('.')))
                    .remedy(likeliest.map(Cause::remedy).unwrap_or_default())
            }
        };
        all.push(finding.evidence(json!({
            "score": stretch.score,
            "seconds": (stretch.to - stretch.from) as f64 / SECOND as f64,
            "cause": likeliest.map(|cause| cause.kind),
            "cause_confidence": likeliest.map(|cause| cause.confidence),
        })));
    }
    let mut met = BTreeSet::new();
    let reported = incident.sections.iter().flat_map(|section| &section.report.findings);
    let mut reported: Vec<&Finding> = reported.filter(|finding| met.insert(finding.fingerprint.clone())).collect();
    let weight = |finding: &Finding| {
        let is = |field: &str, value: &str| finding.subject.get(field).is_some_and(|own| own == value);
        let cards = incident.clients.iter().filter(|card| is("user", &card.user) && is("agent", &card.agent));
        cards.filter_map(|card| card.share).fold(0.0, f64::max)
    };
    reported.sort_by(|a, b| {
        let weights = weight(b).total_cmp(&weight(a));
        b.severity.cmp(&a.severity).then(weights).then_with(|| a.graver(b)).then_with(|| a.id.cmp(&b.id))
    });
    all.extend(reported.into_iter().cloned());
    all
}

/// A client; its findings are among all findings, by their fingerprints.
fn card(card: &Card) -> Json {
    let [before, within, _] = card.rps;
    let asks: Vec<Json> = card
        .asks
        .iter()
        .map(|(what, [before, within])| json!({"what": what, "before_rps": before, "within_rps": within}))
        .collect();
    json!({
        "user": card.user, "agent": card.agent, "before_rps": before, "within_rps": within, "added_share": card.share,
        "asks": asks,
        "findings": card.findings.iter().map(|finding| finding.fingerprint.as_str()).collect::<Vec<_>>(),
    })
}

fn spans(all: &[Span]) -> Vec<[String; 2]> {
    all.iter().map(|(from, to)| [time::format(*from), time::format(*to)]).collect()
}

/// An episode with its effects and causes.
fn episode(own: &Episode) -> Json {
    let effect = |effect: &Effect| {
        json!({
            "measure": effect.name, "before": effect.before, "within": effect.within, "source": effect.source.name(),
        })
    };
    let signal = |signal: &SignalSpan| {
        json!({
            "signal": signal.name, "source": signal.source.name(), "from": time::format(signal.span.0),
            "to": time::format(signal.span.1), "level": signal.level, "baseline": signal.baseline,
        })
    };
    let cause = |cause: &Cause| {
        let subject: serde_json::Map<String, Json> =
            cause.subject.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let features: serde_json::Map<String, Json> =
            cause.features.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        json!({
            "cause": cause.kind, "likely": cause.words(), "confidence": cause.confidence, "subject": subject,
            "summary": cause.summary, "features": features,
        })
    };
    let failure = |own: &Failure| json!({"fault": own.fault, "name": own.name, "requests": own.requests});
    json!({
        "id": own.id, "grade": own.grade.name(), "state": own.state.name(), "from": time::format(own.from),
        "to": time::format(own.to), "seconds": (own.to - own.from) as f64 / SECOND as f64,
        "slack_s": own.slack as f64 / SECOND as f64, "given": own.is_given, "confidence": own.confidence,
        "baseline": {"from": time::format(own.baseline.0), "to": time::format(own.baseline.1)},
        "counted": {"within": spans(&own.counted[0]), "baseline": spans(&own.counted[1])},
        "headline": own.headline, "effects": own.effects.iter().map(effect).collect::<Vec<_>>(),
        "signals": own.signals.iter().map(signal).collect::<Vec<_>>(),
        "failures": own.failures.iter().map(failure).collect::<Vec<_>>(),
        "causes": own.causes.iter().map(cause).collect::<Vec<_>>(),
    })
}

/// What JSON has beside the tables.
fn more(incident: &Incident) -> Vec<(&'static str, Json)> {
    let seconds = |at: Micros| at as f64 / SECOND as f64;
    let grade = incident.heaviest().map(|own| own.grade);
    let verdict = match &incident.verdict {
        Verdict::Incident(stretch) | Verdict::Surge(stretch) | Verdict::Named(stretch) => json!({
            "verdict": incident.verdict.name(), "from": time::format(stretch.from), "to": time::format(stretch.to),
            "seconds": seconds(stretch.to - stretch.from), "score": stretch.score, "given": stretch.is_given,
            "grade": grade.map(Grade::name), "calm_from": incident.calm.map(|calm| time::format(calm.0)),
            "calm_to": incident.calm.map(|calm| time::format(calm.1)),
        }),
        Verdict::Quiet(why) | Verdict::Unknown(why) => json!({"verdict": incident.verdict.name(), "why": why}),
    };
    let evidence = |cause: &Cause| {
        let of = |all: &[crate::model::cause::Evidence]| -> Vec<Json> {
            all.iter().map(|one| json!({"text": one.text, "source": one.source.name(), "weight": one.weight})).collect()
        };
        json!({
            "cause": cause.kind, "supports": of(&cause.supports), "contradicts": of(&cause.contradicts),
            "missing": cause.missing, "now": cause.now, "later": cause.later,
        })
    };
    let charts = incident.charts.iter().map(|chart| {
        let line = |points: &Vec<(Micros, f64)>| {
            points.iter().map(|(at, value)| json!([seconds(*at), value])).collect::<Vec<_>>()
        };
        let lines: Vec<Json> = chart
            .lines
            .iter()
            .map(|(name, points)| {
                json!({"name": name,
            "points": line(points)})
            })
            .collect();
        json!({"name": chart.name, "title": chart.title, "unit": chart.unit.name(), "source": chart.source.name(),
            "lines": lines})
    });
    vec![
        ("title", json!(incident.title)),
        ("owner", json!(incident.owner)),
        ("sources", json!(incident.sources)),
        ("clusters", json!(incident.clusters)),
        ("written", json!(time::format(incident.written))),
        ("incident", verdict),
        ("episodes", incident.episodes.iter().map(episode).collect()),
        ("summary", json!(incident.summary)),
        ("evidence", incident.causes.iter().map(evidence).collect()),
        ("clients", incident.clients.iter().map(card).collect()),
        ("charts", charts.collect()),
    ]
}
