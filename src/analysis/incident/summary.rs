//! What happened, in a few sentences.

use super::calm::Outcomes;
use crate::model::cause::Source;
use crate::model::episode::{Episode, Grade};
use crate::model::incident::{Entry, Verdict};
use crate::model::report::Severity;
use crate::model::time::{self, Micros, SECOND, Span, end_of, moment_of};
use crate::model::units::{counted, grouped};

/// Episodes beside the heaviest that are shown.
const OTHERS: usize = 6;
/// Effects that are shown.
const EFFECTS: usize = 6;
/// What was done in the episode that is named.
const OPERATIONS: usize = 12;

/// What it is made of.
#[derive(Debug, Clone, Copy)]
pub struct SummaryInput<'t> {
    /// Whether there was an incident.
    pub verdict: &'t Verdict,
    pub episodes: &'t [Episode],
    /// Which of them is the heaviest.
    pub heaviest: Option<usize>,
    pub timeline: &'t [Entry],
    pub read: &'t [Source],
    /// What that covers.
    pub span: Option<Span>,
    /// What can't be seen in the sources, if something important can't.
    pub blind: Option<&'t str>,
    /// How requests ended.
    pub outcomes: Outcomes,
    /// Findings of warning or worse, whether there was an incident or not.
    pub chronic: usize,
}

/// The sentences; the first says it all.
pub fn summary(input: &SummaryInput<'_>) -> Vec<String> {
    let missing: Vec<&str> =
        Source::ALL.into_iter().filter(|source| !input.read.contains(source)).map(Source::words).collect();
    let without = (!missing.is_empty()).then(|| format!("Missing inputs: {}.", missing.join(", ")));
    let chronic = (input.chronic > 0)
        .then(|| format!("Also: {}; the gravest are listed below.", counted(input.chronic as u64, "finding")));
    let when =
        input.span.map_or_else(String::new, |(from, to)| format!(" {} to {} UTC", second(from), end_of((from, to))));
    let none = |why: &str| {
        let blind = input.blind.map_or_else(String::new, |blind| format!("; {blind}"));
        format!("NO INCIDENT FOUND{when}: {why}{blind}.")
    };
    let mut lines = match (input.verdict, input.heaviest.map(|place| &input.episodes[place])) {
        (Verdict::Quiet(why), _) => vec![none(why)],
        (Verdict::Surge(_), Some(own)) => {
            let mut lines = incident(input, own);
            lines.push(none(&input.outcomes.of_surge()));
            lines
        }
        (Verdict::Unknown(why), _) => vec![format!("UNKNOWN whether there was an incident: {why}.")],
        (_, Some(own)) => incident(input, own),
        (Verdict::Incident(_) | Verdict::Surge(_) | Verdict::Named(_), None) => Vec::new(),
    };
    let others = input.episodes.iter().enumerate().filter(|(place, _)| Some(*place) != input.heaviest);
    lines.extend(others.take(OTHERS).map(|(_, own)| format!("{} {}", moment_of(own.from, input.span), own.headline)));
    lines.extend(chronic);
    lines.extend(without);
    lines
}

/// A time without parts of seconds.
fn second(at: Micros) -> String {
    let text = time::format(at - at.rem_euclid(SECOND));
    text.replace('T', " ").trim_end_matches('Z').to_owned()
}

fn incident(input: &SummaryInput<'_>, own: &Episode) -> Vec<String> {
    let mut lines = vec![own.headline.clone()];
    let named = if own.is_given { ", as named" } else { "" };
    lines.push(format!("From {} to {} UTC{named}.", second(own.from), end_of((own.from, own.to))));
    let effects: Vec<String> = own
        .effects
        .iter()
        .take(EFFECTS)
        .map(|effect| format!("{} {} (baseline {})", effect.words, effect.shown[1], effect.shown[0]))
        .collect();
    if effects.is_empty() {
        if matches!(own.grade, Grade::Degraded | Grade::Surge) {
            lines.push("Impact: latency and errors stayed near their baseline.".to_owned());
        }
    } else {
        let what = if own.grade >= Grade::Surge { "Changes" } else { "Impact" };
        lines.push(format!("{what}: {}.", effects.join(", ")));
    }
    let mut done: Vec<String> = operations(input, (own.from, own.to));
    if !done.is_empty() {
        let more = done.len().saturating_sub(OPERATIONS);
        done.truncate(OPERATIONS);
        if more > 0 {
            done.push(format!("and {} more (plimsoll guard events lists them)", grouped(more as u64)));
        }
        lines.push(format!("During the episode: {}.", done.join("; ")));
    }
    lines
}

/// Grave things that people did, and restarts, within the window.
fn operations(input: &SummaryInput<'_>, window: Span) -> Vec<String> {
    let within = |entry: &&Entry| (window.0..window.1).contains(&entry.at);
    let grave = |entry: &&Entry| {
        matches!(entry.kind, "operation" | "restart" | "oom-kill") && entry.severity >= Severity::Warning
    };
    let all = input.timeline.iter().filter(within).filter(grave);
    all.map(|entry| {
        let who = if entry.who.is_empty() { String::new() } else { format!("{} ", entry.who) };
        let until = entry
            .until
            .filter(|until| *until > window.1)
            .map_or_else(String::new, |until| format!(", until {}", moment_of(until, input.span)));
        format!("{} {who}{}{until}", moment_of(entry.at, input.span), entry.what)
    })
    .collect()
}
