//! Signals, and what is known of one that deviates from its baseline.

use super::series::RequestSeries;
use crate::model::cause::Source;
use crate::model::time::{Micros, SECOND, Span};
use std::ops::Range;

/// What deviates.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// Requests that are slow for their kind; of one class, or of all.
    Slow(Option<usize>),
    /// A fifth of the requests takes long in all of the record, however long their kind usually takes.
    SlowThroughout,
    /// Requests are slower than usual, though users hardly notice.
    Slower,
    /// Requests that fail with 5xx or without an answer.
    Errors,
    /// Writes that fail so.
    FailedWrites,
    /// Writes of many clients that a rule of the cluster refuses (400, 403, 422).
    RefusedWrites,
    /// Requests of many clients without valid credentials (401).
    Unauthorized,
    /// Requests that are throttled (429).
    Throttled,
    /// Hardly any request ends.
    Silence,
    /// Hardly any write ends, while reads do.
    WritesStop,
    /// One of several apiservers answers hardly any request while others do.
    Away(usize),
    /// An apiserver restarted.
    Restart,
    /// A member of etcd restarted, or was away until then.
    MemberRestart,
    /// Events are missing, as far as anything shows: of all logs, or of the log of one apiserver.
    LogMissing(Option<usize>),
    /// An API group, by its name, that other servers answer is unavailable.
    ApiUnavailable(String),
    /// Kubelets of many nodes at once do not answer.
    NodesLost,
    /// One of the controllers of the control plane, by its name, asks for nothing.
    ControllerSilent(&'static str),
    Requests,
    Lists,
    Writes,
    /// Work asked for, at quiet prices.
    Work,
    /// Objects that are deleted with what they belong to.
    Cascade,
    /// Requests of one caller.
    Caller(usize),
}

impl Signal {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Slow(None) => "slow",
            Self::Slow(Some(0)) => "slow_reads",
            Self::Slow(Some(1)) => "slow_lists",
            Self::Slow(Some(_)) => "slow_writes",
            Self::SlowThroughout => "slow_throughout",
            Self::Slower => "slower",
            Self::Errors => "errors",
            Self::FailedWrites => "failed_writes",
            Self::RefusedWrites => "refused_writes",
            Self::Unauthorized => "unauthorized",
            Self::Throttled => "throttled",
            Self::Silence => "silence",
            Self::WritesStop => "writes_stop",
            Self::Away(_) => "apiserver_away",
            Self::Restart => "restart",
            Self::MemberRestart => "etcd_restart",
            Self::LogMissing(_) => "log_missing",
            Self::ApiUnavailable(_) => "api_unavailable",
            Self::NodesLost => "nodes_lost",
            Self::ControllerSilent(_) => "controller_silent",
            Self::Requests => "requests",
            Self::Lists => "lists",
            Self::Writes => "writes",
            Self::Work => "work",
            Self::Cascade => "cascade",
            Self::Caller(_) => "client",
        }
    }

    /// Whether users notice it.
    pub fn is_felt(&self) -> bool {
        matches!(
            self,
            Self::Slow(_)
                | Self::SlowThroughout
                | Self::Errors
                | Self::FailedWrites
                | Self::RefusedWrites
                | Self::Unauthorized
                | Self::Throttled
                | Self::Silence
                | Self::WritesStop
        )
    }

    /// Whether hardly anything ends any more, or hardly any write.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Silence | Self::WritesStop)
    }

    /// Whether an apiserver is away, or was.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away(_) | Self::Restart)
    }

    /// Whether it is load that somebody asks for.
    pub fn is_load(&self) -> bool {
        matches!(self, Self::Requests | Self::Lists | Self::Writes | Self::Work | Self::Cascade | Self::Caller(_))
    }
}

/// A signal while it deviates.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// What deviates.
    pub signal: Signal,
    /// What it was seen in.
    pub source: Source,
    /// From when until when.
    pub span: Span,
    /// The moments lie this far off at most, in µs.
    pub slack: Micros,
    /// Rate a second within, or the part of requests.
    pub level: f64,
    /// The same before.
    pub baseline: f64,
    /// How much it weighs among signals of its kind: bad requests, or the score of an excursion.
    pub weight: f64,
}

/// The part of all requests that has to be bad for an impact, and of one class alone.
pub(super) const FELT: f64 = 0.01;
const FELT_OF_CLASS: f64 = 0.1;
/// So many bad requests make an impact.
pub(super) const MIN_BAD: f64 = 10.0;

impl Deviation {
    /// Whether enough requests are slow, fail or are throttled that users notice.
    pub fn is_impact(&self) -> bool {
        let is_much = |least: f64| self.level >= least && self.weight >= MIN_BAD;
        match self.signal {
            Signal::SlowThroughout => true,
            Signal::Slow(None) | Signal::Errors | Signal::Throttled | Signal::Unauthorized => is_much(FELT),
            Signal::Slow(Some(_)) | Signal::FailedWrites | Signal::RefusedWrites => is_much(FELT_OF_CLASS),
            _ => false,
        }
    }
}

/// Whether nothing deviates but that controllers ask for nothing.
pub(super) fn are_silences(deviations: &[Deviation]) -> bool {
    let is_one = |own: &Deviation| matches!(own.signal, Signal::ControllerSilent(_));
    !deviations.is_empty() && deviations.iter().all(is_one)
}

/// How long two times are one, in µs.
pub(super) fn overlap(a: Span, b: Span) -> Micros {
    (a.1.min(b.1) - a.0.max(b.0)).max(0)
}

/// Those of all that are not out; whether one is may depend on the others.
pub(super) fn without(all: Vec<Deviation>, is_out: impl Fn(&Deviation, &[Deviation]) -> bool) -> Vec<Deviation> {
    let out: Vec<bool> = all.iter().map(|own| is_out(own, &all)).collect();
    all.into_iter().zip(out).filter(|(_, is_out)| !is_out).map(|(own, _)| own).collect()
}

/// Whether two times lie no further apart than `by`, in µs.
pub(super) fn near(a: Span, b: Span, by: Micros) -> bool {
    a.0 <= b.1 + by && b.0 <= a.1 + by
}

/// Where within its first and last interval a deviation begins and ends: as far as these intervals are like those
/// inside, and the ones next to them.
pub(super) fn edges(series: &RequestSeries, counts: &[f64], base: &[f64], level: f64, tiles: &Range<usize>) -> Span {
    let grid = series.grid;
    let full = grid.tile as f64 / SECOND as f64;
    let part = |at: usize| {
        let difference = (level - base[at]) * grid.seconds(at);
        if difference.abs() < 1e-9 {
            0.0
        } else {
            ((counts[at] - base[at] * grid.seconds(at)) / difference).clamp(0.0, 1.0)
        }
    };
    let micros = |tiles: f64| (tiles * full * SECOND as f64) as Micros;
    let first = part(tiles.start);
    let from = if first < 0.9 {
        grid.start(tiles.start + 1) - micros(first)
    } else {
        let before = tiles.start.checked_sub(1).map_or(0.0, part);
        grid.start(tiles.start) - if before > 0.15 { micros(before) } else { 0 }
    };
    let last = part(tiles.end - 1);
    let to = if last < 0.9 {
        grid.start(tiles.end - 1) + micros(last)
    } else {
        let behind = if tiles.end < counts.len() { part(tiles.end) } else { 0.0 };
        grid.start(tiles.end) + if behind > 0.15 { micros(behind) } else { 0 }
    };
    (from.max(grid.span.0), to.min(grid.span.1).max(from + SECOND))
}
