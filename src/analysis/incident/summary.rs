//! What happened, in a few sentences.

use crate::model::incident::{Cause, Entry, Measure, Phases, Source, Stretch, Verdict};
use crate::model::report::Severity;
use crate::model::series::DAY;
use crate::model::time::{self, Micros, SECOND, clock};
use crate::model::units::{counted, duration, percent, significant};

/// A change of a number by less is not worth a sentence.
const NOTABLE: f64 = 1.5;

/// What it is made of.
#[derive(Debug, Clone, Copy)]
pub struct Told<'t> {
    /// Whether there was an incident.
    pub verdict: &'t Verdict,
    /// Its likeliest causes first.
    pub causes: &'t [Cause],
    /// What happened when.
    pub timeline: &'t [Entry],
    /// Before, within, after.
    pub phases: &'t [Phases],
    /// What was read.
    pub read: &'t [Source],
    /// Findings of warning or worse, whether there was an incident or not.
    pub chronic: usize,
}

/// The sentences; the first says it all.
pub fn summary(told: &Told<'_>) -> Vec<String> {
    let missing: Vec<&str> =
        Source::ALL.into_iter().filter(|source| !told.read.contains(source)).map(Source::words).collect();
    let without = (!missing.is_empty())
        .then(|| format!("Not at hand: {}. With them it could be said more surely.", missing.join(", ")));
    let chronic = (told.chronic > 0).then(|| {
        format!(
            "Apart from that, worth mending: {}, listed with what told of them.",
            counted(told.chronic as u64, "finding")
        )
    });
    let mut lines = match told.verdict {
        Verdict::Incident(stretch) => incident(told, stretch),
        Verdict::Quiet(why) => vec![format!("No incident: {why}.")],
        Verdict::Unknown(why) => vec![format!("It can't be told whether there was an incident: {why}.")],
    };
    lines.extend(chronic.filter(|_| told.verdict.window().is_none()));
    lines.extend(without);
    lines
}

fn incident(told: &Told<'_>, stretch: &Stretch) -> Vec<String> {
    let likely: Vec<&Cause> = told.causes.iter().filter(|cause| cause.confidence >= Cause::LIKELY).collect();
    let whole = |at: Micros| time::format(at - at.rem_euclid(SECOND));
    let from = whole(stretch.from);
    let same_day = stretch.from.div_euclid(DAY) == stretch.to.div_euclid(DAY);
    let to = if same_day { clock(stretch.to) } else { whole(stretch.to) };
    let when = format!("From {from} to {to} UTC ({})", duration(stretch.to - stretch.from));
    let load = if stretch.is_given {
        "is the window that was named"
    } else {
        "the control plane was under more load than usual"
    };
    let first = match likely.first() {
        Some(cause) => format!("{when}: {} ({}, {}).", cause.summary, cause.words(), percent(cause.confidence)),
        None => match told.causes.first() {
            Some(cause) => format!("{when} {load}; nothing explains it surely, the likeliest is: {}.", cause.summary),
            None => format!("{when} {load}."),
        },
    };
    let mut lines = vec![first];
    // What the same clients asked for is no other cause.
    let others = likely
        .iter()
        .skip(1)
        .filter(|cause| !matches!(cause.kind, "expensive-lists" | "write-burst" | "request-surge"));
    let more: Vec<String> = others.take(3).map(|cause| cause.summary.clone()).collect();
    if !more.is_empty() {
        lines.push(format!("It goes together with, or was made worse by: {}.", more.join("; ")));
    }
    lines.push(effect(told));
    let done: Vec<String> = operations(told, stretch);
    if !done.is_empty() {
        lines.push(format!("While it lasted: {}.", done.join("; ")));
    }
    lines
}

/// What it did to requests.
fn effect(told: &Told<'_>) -> String {
    let changed = told.phases.iter().filter_map(|phase| {
        let [before, within, _] = phase.values;
        let (before, within) = (before.unwrap_or(0.0), within?);
        let is_bad = phase.name != Measure::ServerTime.name();
        if !is_bad || within <= 0.0 || before > 0.0 && within < NOTABLE * before {
            return None;
        }
        let unit = if phase.name.ends_with("_ms") { "" } else { " a second" };
        let side = |value: f64| if value > 0.0 { significant(value) } else { "none".to_owned() };
        Some(format!("{} {} (before: {})", phase.words, side(within) + unit, side(before)))
    });
    let changed: Vec<String> = changed.collect();
    if changed.is_empty() {
        "Latency and errors stayed what they were before.".to_owned()
    } else {
        format!("What was felt: {}.", changed.join(", "))
    }
}

/// Grave things that people did, and restarts, within the window.
fn operations(told: &Told<'_>, stretch: &Stretch) -> Vec<String> {
    let within = |entry: &&Entry| (stretch.from..stretch.to).contains(&entry.at);
    let grave = |entry: &&Entry| {
        matches!(entry.kind, "operation" | "restart" | "oom-kill") && entry.severity >= Severity::Warning
    };
    let all = told.timeline.iter().filter(within).filter(grave);
    all.map(|entry| {
        let who = if entry.who.is_empty() { String::new() } else { format!("{} ", entry.who) };
        let until = entry
            .until
            .filter(|until| *until > stretch.to)
            .map_or_else(String::new, |until| format!(", until {}", clock(until)));
        format!("{} {who}{}{until}", clock(entry.at), entry.what)
    })
    .collect()
}
