//! How much load there was, piece by piece of time.

use crate::analysis::judge::requests::{Grid, is_long_running};
use crate::analysis::metrics::facts::Facts;
use crate::analysis::traffic::{Row, Stats};
use crate::model::cause::Source;
use crate::model::episode::Measure;
use crate::model::histogram::Histogram;
use crate::model::time::{Micros, SECOND, Span};
use std::collections::BTreeMap;

/// How long a piece of time is, if the sources show it that finely.
pub const BUCKET: Micros = 5 * SECOND;

/// Intervals that are kept, at most: seven hours of the shortest.
const PIECES: i64 = 5_000;

/// A request that takes so long is slow.
const SLOW_US: u64 = SECOND as u64;

/// How long pieces are where `span` is cut into them.
pub fn bucket_of(span: Micros) -> Micros {
    longer(BUCKET, span)
}

/// `piece`, doubled until there are few enough of them in `span`.
fn longer(mut piece: Micros, span: Micros) -> Micros {
    while span / piece > PIECES {
        piece *= 2;
    }
    piece
}

/// What happened in a piece of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bucket {
    /// By [`Measure`]; how many, or seconds, in this piece.
    pub counts: [f64; Measure::ALL.len()],
    /// How long requests took, in µs; empty where the source does not show.
    pub latency: Histogram,
}

/// The course of the load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSeries {
    /// Where it comes from.
    pub source: Source,
    /// How long a piece is.
    pub piece: Micros,
    /// What it covers.
    pub span: Span,
    /// Measures that the source can see at all.
    pub known: Vec<Measure>,
    /// Pieces by number since 1970; what is not there is empty.
    pub beats: BTreeMap<i64, Bucket>,
}

fn counts(verb: &str, stats: &Stats) -> [f64; Measure::ALL.len()] {
    let slow = stats.latency.count() - stats.latency.up_to(SLOW_US);
    let is_long = is_long_running(verb);
    Measure::ALL.map(|measure| match measure {
        // Of these only what fails, which ends at once.
        Measure::Requests | Measure::ServerTime | Measure::Slow if is_long => 0.0,
        Measure::Requests => stats.requests as f64,
        Measure::ServerTime => stats.latency.sum as f64 / 1e6,
        Measure::Lists if verb == "list" => stats.requests as f64,
        Measure::Lists => 0.0,
        Measure::Throttled => stats.throttled as f64,
        Measure::Errors => stats.errors as f64,
        Measure::Slow => slow as f64,
    })
}

impl LoadSeries {
    /// By rows of audit logs, split by verb and by intervals of `piece`.
    pub fn of_logs(rows: &[Row], piece: Micros, span: Span) -> Self {
        // How far a log reaches is known when it has been read.
        let piece = longer(piece, span.1 - span.0);
        let mut beats: BTreeMap<i64, Bucket> = BTreeMap::new();
        for row in rows {
            let verb = row.dims.first().map_or("", String::as_str);
            let beat = beats.entry(row.interval.unwrap_or_default().div_euclid(piece)).or_default();
            for (sum, count) in beat.counts.iter_mut().zip(counts(verb, &row.stats)) {
                *sum += count;
            }
            if !is_long_running(verb) {
                beat.latency.merge(&row.stats.latency);
            }
        }
        Self { source: Source::Audit, piece, span, known: Measure::ALL.to_vec(), beats }
    }

    /// By the counters of apiservers; pieces are as long as the pages lie apart. `None` where there are fewer than
    /// three of them.
    pub fn of_pages(facts: &Facts) -> Option<Self> {
        let has_codes = [Measure::Requests, Measure::Lists, Measure::Throttled, Measure::Errors];
        let mut lengths: Vec<Micros> = Vec::new();
        let (mut from, mut to) = (Micros::MAX, Micros::MIN);
        for (number, instance) in facts.instances.iter().enumerate() {
            if facts.requests_of(number).next().is_none() {
                continue;
            }
            lengths.extend(instance.intervals.iter().map(|(from, to)| to - from));
            from = from.min(instance.intervals.first().map_or(Micros::MAX, |interval| interval.0));
            to = to.max(instance.intervals.last().map_or(Micros::MIN, |interval| interval.1));
        }
        lengths.sort_unstable();
        let middle = lengths.get(lengths.len() / 2).copied().filter(|_| lengths.len() >= 3)?;
        let piece = longer((middle.max(BUCKET) / SECOND) * SECOND, to.saturating_sub(from));
        let grid = Grid { tile: piece, phase: 0, span: (from, to) };
        let mut beats: BTreeMap<i64, Bucket> = BTreeMap::new();
        for (number, instance) in facts.instances.iter().enumerate() {
            for (verb, code, course) in facts.codes_of(number) {
                for &(interval, difference) in course {
                    let Some(&span) = instance.intervals.get(interval as usize) else { continue };
                    // What a page counts is spread evenly over the time since the one before.
                    grid.spread(span, difference, |place, count| {
                        let beat = beats.entry(grid.first() + place as i64).or_default();
                        for (sum, measure) in beat.counts.iter_mut().zip(Measure::ALL) {
                            let counts = match measure {
                                Measure::Requests => !is_long_running(&verb),
                                Measure::Lists => verb == "list",
                                Measure::Throttled => code == "429",
                                Measure::Errors => code.starts_with('5') || code == "0",
                                Measure::ServerTime | Measure::Slow => false,
                            };
                            *sum += if counts { count } else { 0.0 };
                        }
                    });
                }
            }
        }
        (from < to).then_some(Self {
            source: Source::Metrics,
            piece,
            span: (from, to),
            known: has_codes.to_vec(),
            beats,
        })
    }

    /// Numbers of the pieces that lie within the span, whole.
    pub fn pieces(&self) -> std::ops::Range<i64> {
        let first = (self.span.0 + self.piece - 1).div_euclid(self.piece);
        first..self.span.1.div_euclid(self.piece).max(first)
    }

    /// A measure in a piece, by second.
    pub fn rate(&self, measure: Measure, piece: i64) -> f64 {
        let count = self.beats.get(&piece).map_or(0.0, |beat| beat.counts[measure as usize]);
        count / (self.piece as f64 / SECOND as f64)
    }

    /// A measure in time, by second.
    pub fn course(&self, measure: Measure) -> Vec<(Micros, f64)> {
        self.pieces().map(|piece| (piece * self.piece, self.rate(measure, piece))).collect()
    }

    /// A quantile of latency in time, in ms, of pieces in which there was a request.
    pub fn latency(&self, q: f64) -> Vec<(Micros, f64)> {
        let of = |piece: i64| Some((piece * self.piece, self.beats.get(&piece)?.latency.quantile(q)? / 1e3));
        self.pieces().filter_map(of).collect()
    }

    /// The pieces that begin within these times.
    pub fn begun_in(&self, spans: &[Span]) -> Vec<i64> {
        let is_in = |at: Micros| spans.iter().any(|(from, to)| (*from..*to).contains(&at));
        self.pieces().filter(|n| is_in(n * self.piece)).collect()
    }

    /// The mean of a measure by second; `None` of no piece.
    pub fn mean(&self, measure: Measure, pieces: &[i64]) -> Option<f64> {
        let sum: f64 = pieces.iter().map(|piece| self.rate(measure, *piece)).sum();
        (!pieces.is_empty()).then(|| sum / pieces.len() as f64)
    }

    /// A quantile of all latencies of these pieces, in ms.
    pub fn quantile(&self, q: f64, pieces: &[i64]) -> Option<f64> {
        let mut all = Histogram::default();
        pieces.iter().filter_map(|piece| self.beats.get(piece)).for_each(|beat| all.merge(&beat.latency));
        all.quantile(q).map(|micros| micros / 1e3)
    }
}
