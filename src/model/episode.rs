//! Episodes: times in which something was wrong, or in which load changed beyond noise. (Rules: docs/judge.md.)

use crate::model::cause::{Cause, Source};
use crate::model::report::Severity;
use crate::model::time::{Micros, Span};

/// A number that shows how much load there is, piece by piece of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    Requests,
    /// Seconds that requests were worked on or waited, long-running ones left out.
    ServerTime,
    Lists,
    /// 429.
    Throttled,
    /// Code 0 or 500 and more.
    Errors,
    /// Requests that took a second or longer.
    Slow,
}

impl Measure {
    /// All.
    pub const ALL: [Self; 6] =
        [Self::Requests, Self::ServerTime, Self::Lists, Self::Throttled, Self::Errors, Self::Slow];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "rps",
            Self::ServerTime => "server_time",
            Self::Lists => "lists_per_s",
            Self::Throttled => "throttled_per_s",
            Self::Errors => "errors_per_s",
            Self::Slow => "slow_per_s",
        }
    }

    /// What people call it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::ServerTime => "mean requests in flight",
            Self::Lists => "LISTs",
            Self::Throttled => "429 (throttled)",
            Self::Errors => "5xx errors",
            Self::Slow => "requests of a second or longer",
        }
    }
}

/// How grave an episode is, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// Requests fail cluster-wide, or writes stop.
    Outage,
    /// Users notice: slow, failed or throttled requests.
    Incident,
    /// Redundancy or speed is lost, and users hardly notice.
    Degraded,
    /// Load changed beyond noise, and nobody notices.
    Surge,
    /// Nothing deviates: of a window that somebody named.
    None,
}

impl Grade {
    /// All that are found, the gravest first.
    pub const ALL: [Self; 4] = [Self::Outage, Self::Incident, Self::Degraded, Self::Surge];

    /// What several of it are called in JSON.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Outage => "outages",
            Self::Incident => "incidents",
            Self::Degraded => "degraded",
            Self::Surge => "surges",
            Self::None => "none",
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outage => "outage",
            Self::Incident => "incident",
            Self::Degraded => "degraded",
            Self::Surge => "surge",
            Self::None => "none",
        }
    }

    /// How grave a finding of it is.
    pub fn severity(self) -> Severity {
        match self {
            Self::Outage | Self::Incident => Severity::Critical,
            Self::Degraded => Severity::Warning,
            Self::Surge | Self::None => Severity::Info,
        }
    }
}

/// Whether an episode is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// It lasts to the end of what was read.
    Ongoing,
    Ended,
    /// It goes on behind the window that was named.
    Unknown,
}

impl State {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ongoing => "ongoing",
            Self::Ended => "ended",
            Self::Unknown => "unknown",
        }
    }
}

/// What an episode did.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Its name in JSON, with its unit.
    pub name: &'static str,
    /// What people call it.
    pub words: &'static str,
    /// At baseline.
    pub before: f64,
    pub within: f64,
    /// Both, for people.
    pub shown: [String; 2],
    /// What it was seen in.
    pub source: Source,
}

/// A signal while it deviates.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalSpan {
    /// Its name in JSON.
    pub name: &'static str,
    /// What it was seen in.
    pub source: Source,
    /// From when until when.
    pub span: Span,
    /// A rate a second, or the part of requests; within and before.
    pub level: f64,
    /// The same before.
    pub baseline: f64,
}

/// A time in which something was wrong, or in which load changed beyond noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// The same while it grows.
    pub id: String,
    /// How grave.
    pub grade: Grade,
    /// Whether it is over.
    pub state: State,
    /// From when, in µs since 1970.
    pub from: Micros,
    /// Until when.
    pub to: Micros,
    /// Both lie this far off at most, in µs.
    pub slack: Micros,
    /// Whether somebody named it.
    pub is_given: bool,
    /// What it is compared with, from begin to end.
    pub baseline: Span,
    /// The times that its numbers are of, in whole intervals: within, and at baseline.
    pub counted: [Vec<Span>; 2],
    /// Requests of some kinds by second in these times, at baseline and within; none where nothing was counted.
    pub rates: Vec<(Measure, [f64; 2])>,
    /// How likely it is that there was one, from 0 to 1.
    pub confidence: f64,
    /// One sentence that says it all.
    pub headline: String,
    /// What it did, the gravest first.
    pub effects: Vec<Effect>,
    /// What deviated from its baseline, and when.
    pub signals: Vec<SignalSpan>,
    /// What messages of its failed and denied requests name, the most frequent first, without what is usual.
    pub failures: Vec<Failure>,
    /// Possible causes, likeliest first.
    pub causes: Vec<Cause>,
}

/// Requests whose messages name the same as the reason why they failed or were denied.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Its name in JSON.
    pub fault: &'static str,
    /// What people call it.
    pub words: &'static str,
    /// The webhook, API group, policy or quota; may be empty.
    pub name: String,
    pub requests: u64,
}
