//! An incident report as one page.

use super::markdown::all_steps;
use crate::model::cause::{Cause, Evidence, Source};
use crate::model::episode::{Episode, Grade};
use crate::model::flame::short_name;
use crate::model::forecast::Unit;
use crate::model::incident::{Card, FAILURES, Flame, Incident, Own, Section, Verdict, change, command_line};
use crate::model::report::{Finding, Report, Severity};
use crate::model::time::{self, Micros, SECOND, Span, end_of, moment_of};
use crate::model::units::{counted, percent, significant};
use crate::views::html::{self, finding, grid};
use crate::views::table::tables_for_people;
use serde_json::{Value as Json, json};
use std::io::{self, Write};

const PAGE: &str = include_str!("../templates/report.html");

/// Findings of a section that are shown.
const FINDINGS: usize = 12;
/// Causes of an episode that are shown in its block.
const CAUSES: usize = 2;
/// A frame of a flame graph narrower than this part of the whole can't be seen.
const NARROWEST: u64 = 4_000;
/// Frames below this are their callers'.
const DEEPEST: usize = 120;
/// Elements of a package's path that a frame shows.
const ELEMENTS: usize = 2;

/// Writes the page.
pub(super) fn write(incident: &Incident, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    html::fill(PAGE, page(incident, report), data(incident), json!(owns(incident)), out)
}

fn page(incident: &Incident, report: &Report) -> Json {
    let heaviest = incident.heaviest();
    let (badge, name) = match (&incident.verdict, heaviest) {
        (Verdict::Incident(_) | Verdict::Surge(_), Some(own)) => (grade(own.grade), own.grade.name()),
        (Verdict::Incident(_), None) => ("Incident", "incident"),
        (Verdict::Surge(_), None) => ("Surge", "surge"),
        (Verdict::Quiet(_) | Verdict::Named(_), _) => ("No incident found", "none"),
        (Verdict::Unknown(_), _) => ("Unknown", "unknown"),
    };
    let (likely, unlikely): (Vec<&Cause>, Vec<&Cause>) =
        incident.causes.iter().partition(|cause| cause.confidence >= Cause::POSSIBLE);
    let [now, later] = all_steps(incident).map(|steps| steps.into_iter().map(|text| step(text)).collect::<Vec<_>>());
    let manifests =
        incident.causes.iter().flat_map(|cause| cause.manifests.iter().map(move |manifest| (cause, manifest)));
    let manifests: Vec<Json> = manifests
        .map(|(cause, (command, text))| {
            let of = cause.subject.first().map_or("", |(_, value)| value);
            json!({"of": of, "command": command_line(command), "text": text})
        })
        .collect();
    let sections: Vec<Json> = incident.sections.iter().map(section).collect();
    let has = |id: &str, title: &str, is: bool| is.then(|| json!({"id": id, "title": title}));
    let is_several = incident.episodes.len() > 1 || heaviest.is_none() && !incident.episodes.is_empty();
    let parts = [
        has("episodes", "Episodes", is_several),
        has("causes", "Causes", !incident.causes.is_empty()),
        has("steps", "What to do", !now.is_empty() || !later.is_empty()),
        has("timeline", "Timeline", !incident.timeline.is_empty()),
        has("charts", "Over time", !incident.charts.is_empty()),
        has("clients", "Clients", !incident.clients.is_empty()),
        has("flames", "Flame graphs", !incident.flames.is_empty()),
        has("details", "Details", !sections.is_empty()),
        has("quality", "Sources", true),
    ];
    let words = |all: &[Source]| all.iter().map(|source| source.words()).collect::<Vec<_>>().join(", ");
    let inputs = report.inputs.iter().map(|input| {
        let error = input.first_error.clone().unwrap_or_default();
        json!({"path": input.path, "kind": input.kind, "bytes": input.bytes, "records": input.records,
            "skipped": input.skipped, "first_error": error})
    });
    json!({
        "title": incident.title,
        "owner": incident.owner,
        "clusters": incident.clusters.join(", "),
        "verdict": {"badge": badge, "name": name},
        "summary": incident.summary,
        "episodes": if is_several { incident.episodes.iter().map(episode).collect() } else { Vec::new() },
        "parts": parts.into_iter().flatten().collect::<Vec<_>>(),
        "causes": likely.into_iter().map(cause).collect::<Vec<_>>(),
        "unlikely": unlikely.into_iter().map(cause).collect::<Vec<_>>(),
        "now": now,
        "later": later,
        "manifests": manifests,
        "phases": incident.phases.iter().map(|phase| json!({"words": phase.words,
        "values": phase.values.map(|value| phase.formatted(value))})).collect::<Vec<_>>(),
        "failures": incident.failures().iter().map(|own| json!({"words": own.words, "name": own.name,
            "requests": own.requests})).collect::<Vec<_>>(),
        "failures_title": FAILURES,
        "timeline": timeline(incident),
        "has_charts": !incident.charts.is_empty(),
        "has_flames": !incident.flames.is_empty(),
        "clients": incident.clients.iter().map(card).collect::<Vec<_>>(),
        "sections": sections,
        "read": words(&incident.read),
        "missing": words(&incident.missing().collect::<Vec<_>>()),
        "span": incident.span.map(|(from, to)| format!("{} to {}", second(from), second(to))),
        "written": second(incident.written),
        "sources": incident.sources.join(", "),
        "lost": incident.lost,
        "inputs": inputs.collect::<Vec<_>>(),
    })
}

/// A grade as a badge.
fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::Outage => "Outage",
        Grade::Incident => "Incident",
        Grade::Degraded => "Degraded",
        Grade::Surge => "Surge",
        Grade::None => "No incident",
    }
}

fn episode(own: &Episode) -> Json {
    let causes = own.causes.iter().filter(|cause| cause.confidence >= Cause::POSSIBLE).take(CAUSES);
    let causes = causes
        .map(|cause| json!({"words": cause.words(), "percent": percent(cause.confidence), "summary": cause.summary}));
    let effects = own
        .effects
        .iter()
        .map(|effect| json!({"words": effect.words, "before": effect.shown[0], "within": effect.shown[1]}));
    json!({
        "badge": grade(own.grade), "name": own.grade.name(), "state": own.state.name(), "headline": own.headline,
        "when": format!("{} to {} UTC", second(own.from), end_of((own.from, own.to))),
        "causes": causes.collect::<Vec<_>>(), "effects": effects.collect::<Vec<_>>(),
    })
}

/// Sections of somebody's own: markup as it is, all else as text.
fn owns(incident: &Incident) -> Vec<Json> {
    let one = |(number, own): (usize, &Own)| {
        let name = own.path.rsplit('/').next().unwrap_or(&own.path);
        let title = name.split('.').next().unwrap_or(name).replace(['-', '_'], " ");
        let is_html = super::own::is_html(&own.path);
        json!({"id": format!("own-{number}"), "title": title, "is_html": is_html, "text": own.text})
    };
    incident.own.iter().enumerate().map(one).collect()
}

/// A time without parts of seconds.
fn second(at: Micros) -> String {
    time::format(at - at.rem_euclid(SECOND))
}

/// A step: what to do, and the command that does it.
fn step(text: &str) -> Json {
    let starts = ["plimsoll ", "kubectl ", "etcdctl "];
    let found = starts.iter().filter_map(|start| text.find(&format!(": {start}"))).min();
    match found {
        Some(at) => {
            let commands: Vec<&str> =
                text[at + 2..].split(", ").filter(|part| starts.iter().any(|start| part.starts_with(start))).collect();
            json!({"text": &text[..at], "commands": if commands.is_empty() { vec![&text[at + 2..]] } else { commands }})
        }
        None => json!({"text": text, "commands": []}),
    }
}

fn cause(cause: &Cause) -> Json {
    let evidence = |all: &[Evidence]| {
        all.iter().map(|one| json!({"text": one.text, "source": one.source.words()})).collect::<Vec<_>>()
    };
    let level = if cause.confidence >= Cause::LIKELY { "likely" } else { "possible" };
    json!({
        "words": cause.words(), "level": level, "percent": percent(cause.confidence), "summary": cause.summary,
        "supports": evidence(&cause.supports), "contradicts": evidence(&cause.contradicts), "missing": cause.missing,
    })
}

fn timeline(incident: &Incident) -> Vec<Json> {
    let window = incident.verdict.window();
    let row = |entry: &crate::model::incident::Entry| {
        let slack = if entry.slack > 0 { format!(" (within {} s)", entry.slack / SECOND) } else { String::new() };
        json!({
            "at": moment_of(entry.at, incident.span), "sort": entry.at / 1000,
            "until": entry.until.map(|until| moment_of(until, incident.span)),
            "severity": entry.severity.name(),
            "kind": entry.kind, "who": entry.who, "what": format!("{}{slack}", entry.what),
            "source": entry.source.words(),
            "inside": window.is_some_and(|(from, to)| (from..to).contains(&entry.at)),
        })
    };
    incident.timeline.iter().map(row).collect()
}

fn card(card: &Card) -> Json {
    let [before, within, _] = card.rps;
    let rate = |value: Option<f64>, of: &str| {
        value.map(|value| json!({"value": format!("{}/s", significant(value)), "of": of}))
    };
    let numbers = match card.share {
        Some(share) => vec![
            rate(before, "before"),
            rate(within, "within"),
            Some(json!({"value": percent(share), "of": "of the added load"})),
        ],
        None => vec![rate(within, "requests")],
    };
    json!({
        "user": card.user, "agent": card.agent,
        "numbers": numbers.into_iter().flatten().collect::<Vec<_>>(),
        "asks": card.asks.iter().map(|(what, rps)| format!("{what}: {}", change(*rps))).collect::<Vec<_>>(),
        "findings": card.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn section(section: &Section) -> Json {
    let report = &section.report;
    let grave: Vec<&Finding> = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning).collect();
    let worst = grave.iter().map(|finding| finding.severity).max().unwrap_or_default();
    let lead = report.lead.iter().map(|line| match line.split_once('\t') {
        Some((name, text)) => json!({"name": name, "text": text}),
        None => json!({"name": "", "text": line}),
    });
    let more = report.findings.len().saturating_sub(FINDINGS);
    json!({
        "name": section.name, "title": section.title, "about": section.about, "command": command_line(&section.command),
        "lead": lead.collect::<Vec<_>>(),
        "tables": tables_for_people(report).into_iter().filter(|(_, rows)| !rows.is_empty()).map(|(table,
        rows)| grid(table, rows)).collect::<Vec<_>>(),
        "findings": report.findings.iter().take(FINDINGS).map(finding).collect::<Vec<_>>(),
        "more": (more > 0).then(|| format!("{}: the command above lists them.", counted(more as u64, "more finding"))),
        "notes": report.notes,
        "grave": (!grave.is_empty()).then(|| counted(grave.len() as u64, "finding")),
        "worst": worst.name(),
        "open": false,
    })
}

/// What the script draws.
fn data(incident: &Incident) -> Json {
    let seconds = |at: Micros| at as f64 / SECOND as f64;
    let charts = incident.charts.iter().map(|chart| {
        let points = |points: &[(Micros, f64)]| {
            points.iter().map(|(at, value)| json!([seconds(*at), round(*value)])).collect::<Vec<_>>()
        };
        let lines = chart.lines.iter().map(|(name, line)| json!({"name": name, "points": points(line)}));
        json!({"title": chart.title, "unit": if chart.unit == Unit::Count { "count" } else { chart.unit.name() },
            "lines": lines.collect::<Vec<_>>()})
    });
    json!({
        // All charts have the same axis.
        "span": axis(incident).map(|(from, to)| [seconds(from), seconds(to)]),
        "windows": incident.episodes.iter().map(|own| {
            json!({"from": seconds(own.from), "to": seconds(own.to), "name": own.grade.name()})
        }).collect::<Vec<_>>(),
        "charts": charts.collect::<Vec<_>>(),
        "flames": incident.flames.iter().map(flame).collect::<Vec<_>>(),
    })
}

/// The time that charts show: all that any of them has.
fn axis(incident: &Incident) -> Option<Span> {
    let times = || incident.charts.iter().flat_map(|chart| &chart.lines).flat_map(|line| &line.1).map(|own| own.0);
    times().min().zip(times().max()).filter(|(from, to)| from < to)
}

/// Four significant digits: a chart shows no more.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * digits).round() / digits
}

/// A tree as the script takes it: frames that can be seen, callers first.
fn flame(flame: &Flame) -> Json {
    let tree = &flame.tree;
    let frames = tree.seen(NARROWEST, DEEPEST);
    let number: std::collections::HashMap<usize, usize> =
        frames.iter().enumerate().map(|(new, (old, _))| (*old, new)).collect();
    let parent = |old: usize| number.get(&(tree.calls[old].caller as usize)).copied().unwrap_or(0);
    let mut names: Vec<String> = Vec::new();
    let mut ids = std::collections::HashMap::new();
    let id = |old: usize, names: &mut Vec<String>, ids: &mut std::collections::HashMap<u32, usize>| {
        let name = tree.calls[old].name;
        *ids.entry(name).or_insert_with(|| {
            let text = tree.names.get(name as usize).map_or("", String::as_str);
            names.push(if tree.is_code { short_name(text, ELEMENTS).into_owned() } else { text.to_owned() });
            names.len() - 1
        })
    };
    let ids: Vec<usize> = frames.iter().map(|(old, _)| id(*old, &mut names, &mut ids)).collect();
    let side = |which: usize| frames.iter().map(|(_, own)| own[which]).collect::<Vec<_>>();
    json!({
        "name": flame.name, "title": flame.title, "about": tree.subtitle, "unit": tree.unit,
        "command": command_line(&flame.command),
        "names": names, "ids": ids, "parents": frames.iter().map(|(old, _)| parent(*old)).collect::<Vec<_>>(),
        "now": side(1), "before": tree.compares.then(|| side(0)),
    })
}
