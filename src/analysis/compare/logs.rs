//! Pairs from roll-ups of audit logs.

use super::noise::{Measured, PARTS, RANKS};
use super::{Area, COUNTS, Pair, Pieces, Subject, joined};
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::read::{TrafficRow, Who};
use crate::model::histogram::Histogram;
use crate::model::time::{Micros, SECOND};
use std::collections::BTreeMap;

/// One side: what was logged, and within which time; the log's own where none was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Side<'r> {
    /// The roll-up.
    pub rollup: &'r Rollup,
    /// From here to here.
    pub window: (Micros, Micros),
}

/// Pieces that the longer window is cut into, about; of a short one less, as no tile is cut.
const PIECES: i64 = 400;

/// Requests of one subject on one side.
#[derive(Debug, Clone, Default)]
struct Requests {
    /// By [`COUNTS`] and piece of time; empty where there are none.
    counts: [Vec<f64>; COUNTS.len()],
    latency: Histogram,
    by_part: [Histogram; PARTS],
}

impl Requests {
    fn add(&mut self, row: &TrafficRow<'_>, pieces: &Pieces, with_latency: bool) {
        let piece = pieces.at(row.tile);
        let code = row.code.unwrap_or(200);
        let kinds = [true, code == 0 || code >= 500, (400..500).contains(&code) && code != 429, code == 429];
        for (counts, is_of_kind) in self.counts.iter_mut().zip(kinds) {
            if is_of_kind && row.requests > 0 {
                counts.resize(pieces.count(), 0.0);
                counts[piece] += row.requests as f64;
            }
        }
        if with_latency {
            self.latency.merge(row.latency());
            self.by_part[pieces.part(piece)].merge(row.latency());
        }
    }

    fn count(&self, kind: usize, pieces: &Pieces) -> Measured {
        match self.counts[kind].as_slice() {
            [] => pieces.counts(&vec![0.0; pieces.count()]),
            counts => pieces.counts(counts),
        }
    }

    /// In ms; of those parts of the time that have enough values beyond it.
    fn quantile(&self, q: f64) -> Measured {
        let Some(value) = self.latency.quantile(q) else { return Measured::None };
        let parts = self.by_part.iter().filter(|part| part.count() as f64 * (1.0 - q) >= 3.0);
        let parts = parts.filter_map(|part| part.quantile(q)).map(|value| value / 1e3).collect();
        let deviation = (q * (1.0 - q) / (self.latency.count() as f64).max(1.0)).sqrt();
        let at = |q: f64| self.latency.quantile(q.clamp(0.0, 1.0)).map_or(value / 1e3, |value| value / 1e3);
        let near = (1..=RANKS).map(|n| n as f64 * deviation).map(|far| (at(q - far), at(q + far))).collect();
        Measured::Quantile(value / 1e3, parts, near)
    }
}

/// Requests of both sides.
type Both = [Requests; 2];

/// Who asks, or what is asked for.
#[derive(Debug, Default)]
struct All<'r> {
    total: Both,
    clients: BTreeMap<Who<'r>, Both>,
    asked: BTreeMap<[&'r str; 5], Both>,
}

/// The pairs of two logs.
pub fn pairs(before: Side<'_>, after: Side<'_>) -> Vec<Pair> {
    // Pieces of both sides are of one length, so that both wander in the same way.
    let tile = before.rollup.tile_seconds().max(after.rollup.tile_seconds());
    let longest = [before, after].iter().map(|side| (side.window.1 - side.window.0) / SECOND).max().unwrap_or(0);
    let length = tile * (longest / (tile * PIECES)).max(1);
    let pieces = [before, after].map(|side| Pieces::new(side.window, length));
    let [old, new] = [before, after].map(|side| side.rollup.clients().map(|client| client.who.cluster).collect());
    let is_joined = joined(&old, &new);
    let mut all = All::default();
    for (when, side) in [before, after].into_iter().enumerate() {
        let subjects = side.rollup.subjects();
        let pieces = &pieces[when];
        for row in side.rollup.traffic() {
            let Some((who, (group, resource))) = subjects.get(row.subject).copied() else { continue };
            let who = if is_joined { Who { cluster: "", ..who } } else { who };
            all.total[when].add(&row, pieces, true);
            all.clients.entry(who).or_default()[when].add(&row, pieces, false);
            let asked = [who.cluster, row.verb, group, resource, row.subresource];
            all.asked.entry(asked).or_default()[when].add(&row, pieces, true);
        }
    }
    let mut pairs = Vec::new();
    counts(&mut pairs, Area::Total, &Subject::new(), &all.total, &pieces);
    latencies(&mut pairs, Area::Total, &Subject::new(), &all.total);
    for (who, both) in &all.clients {
        let subject = [("cluster", who.cluster), ("user", who.user), ("agent", who.agent)];
        counts(&mut pairs, Area::Clients, &named(&subject), both, &pieces);
    }
    for ([cluster, verb, group, resource, subresource], both) in &all.asked {
        let subject = [
            ("cluster", cluster),
            ("verb", verb),
            ("group", group),
            ("resource", resource),
            ("subresource", subresource),
        ];
        let subject = named(&subject.map(|(name, value)| (name, *value)));
        counts(&mut pairs, Area::Requests, &subject, both, &pieces);
        latencies(&mut pairs, Area::Latency, &subject, both);
    }
    pairs
}

/// A subject of those fields that have a value.
pub(super) fn named(fields: &[(&'static str, &str)]) -> Subject {
    fields.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// What never failed on either side has no row for it.
fn counts(pairs: &mut Vec<Pair>, area: Area, subject: &Subject, both: &Both, pieces: &[Pieces; 2]) {
    for (kind, metric) in COUNTS.into_iter().enumerate() {
        if area == Area::Total || both.iter().any(|side| !side.counts[kind].is_empty()) {
            let [before, after] = [0, 1].map(|when| both[when].count(kind, &pieces[when]));
            pairs.push(Pair { area, subject: subject.clone(), metric, before, after });
        }
    }
}

/// What is on one side only has no latency to compare.
fn latencies(pairs: &mut Vec<Pair>, area: Area, subject: &Subject, both: &Both) {
    for (metric, q) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
        let [before, after] = [0, 1].map(|when| both[when].quantile(q));
        if before != Measured::None && after != Measured::None {
            pairs.push(Pair { area, subject: subject.clone(), metric, before, after });
        }
    }
}
