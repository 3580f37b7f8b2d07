//! Requests that apiservers count themselves, by their metrics pages: nobody is named, and intervals are as long as the
//! pages lie apart.

use super::refusals::is_refusal;
use super::requests::{Axes, CONTROLLERS, Caller, Grid, Kind, Requests, Row, UNAUTHENTICATED, kind_of, outcome};
use super::rolled::Numbers;
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::{Component, Fact, Facts, Instance, verb};
use crate::analysis::traffic::Outcome;
use crate::model::cause::Source;
use crate::model::time::{self, Micros, SECOND, Span};
use std::collections::BTreeMap;

/// The shortest interval, in µs: of pages that are taken more often several make one.
const MIN_TILE: Micros = 5 * SECOND;
/// More intervals are not looked at: where pages of years are few, intervals are longer than most of them lie apart.
const MAX_TILES: i64 = 1 << 16;
/// An apiserver starts for so long, in µs.
const STARTING: Micros = 15 * SECOND;
/// Fewer differences between pages show no course.
const MIN_INTERVALS: usize = 3;

/// By interval, ascending: how many requests, and latencies (seconds, count).
type Timed = Vec<(usize, f64, Vec<(f32, f32)>)>;

/// A kind and code of requests at one apiserver.
#[derive(Debug)]
struct Series {
    kind: usize,
    instance: usize,
    outcome: Outcome,
    /// Whether these are requests that a rule of the cluster refused.
    is_refused: bool,
    /// Which of the control plane's controllers sent them, where pages say so.
    controller: Option<usize>,
    /// Whether the apiserver started meanwhile.
    is_start: bool,
    tiles: Timed,
}

/// The requests of metrics pages.
#[derive(Debug)]
pub struct Paged {
    axes: Axes,
    series: Vec<Series>,
    seams: Vec<Micros>,
}

/// How far from an interval's end pages may be taken, as a share of it, to be taken for one at its end: so much of what
/// rose would fall into the next.
const NEAR: i64 = 20;

/// How long intervals are: as long as those between most pages of apiservers, and from page to page of the one with
/// most of them; longer where these would be too many. `None` where there are too few pages.
fn grid(facts: &Facts) -> Option<Grid> {
    let mut lengths = Vec::new();
    let mut most: &[Span] = &[];
    let (mut from, mut to) = (Micros::MAX, Micros::MIN);
    for instance in facts.instances_of(Component::Apiserver) {
        lengths.extend(instance.intervals.iter().map(|(from, to)| to - from).filter(|length| *length > 0));
        if instance.intervals.len() > most.len() {
            most = &instance.intervals;
        }
        from = from.min(instance.intervals.first().map_or(Micros::MAX, |first| first.0));
        to = to.max(instance.intervals.last().map_or(Micros::MIN, |last| last.1));
    }
    if lengths.len() < MIN_INTERVALS || from >= to {
        return None;
    }
    lengths.sort_unstable();
    let usual = lengths[lengths.len() / 2].max(MIN_TILE).max((to - from) / MAX_TILES);
    let tile = (usual + SECOND / 2) / SECOND * SECOND;
    let phase = phase(most, tile);
    let grid = Grid { tile, phase, span: (from, to) };
    Some(Grid { span: near(grid, grid.span), ..grid })
}

/// Where most intervals end, below their length.
fn phase(intervals: &[Span], tile: Micros) -> Micros {
    // By the second: pages are taken with a delay of their own each time.
    let mut counts: BTreeMap<Micros, usize> = BTreeMap::new();
    for (_, to) in intervals {
        *counts.entry((to + SECOND / 2).div_euclid(SECOND) * SECOND % tile).or_default() += 1;
    }
    let usual = counts.into_iter().max_by_key(|(at, count)| (*count, std::cmp::Reverse(*at))).map_or(0, |(at, _)| at);
    // And of those the one in the middle.
    let apart = |to: Micros| (to - usual + tile / 2).rem_euclid(tile) - tile / 2;
    let mut apart: Vec<Micros> =
        intervals.iter().map(|(_, to)| apart(*to)).filter(|apart| apart.abs() <= SECOND / 2).collect();
    apart.sort_unstable();
    (usual + apart.get(apart.len() / 2).copied().unwrap_or(0)).rem_euclid(tile)
}

/// The time between two pages, each taken to be at the end of an interval that it is near to.
fn near(grid: Grid, (from, to): Span) -> Span {
    let near = |at: Micros| {
        let end = grid.begin(grid.number(at + grid.tile / 2));
        if (at - end).abs() <= grid.tile / NEAR { end } else { at }
    };
    (near(from), near(to))
}

/// Whether an apiserver starts in an interval: what it then asks itself, and is slow at, is nobody's load. Only of one
/// that took another's place is the start known to lie within what is looked at.
fn is_starting(own: &Instance, (from, to): (Micros, Micros)) -> bool {
    let start = own.start.map(time::of_seconds).filter(|_| own.restarts > 0);
    start.is_some_and(|start| from < start + STARTING && start < to)
}

/// The kind of requests that were refused before it was known what they ask for.
fn unauthenticated() -> Kind {
    [UNAUTHENTICATED.to_owned(), String::new(), String::new(), String::new()]
}

impl Paged {
    /// `None` where there are too few pages of apiservers.
    pub fn new(facts: &Facts) -> Option<Self> {
        let grid = grid(facts)?;
        let (mut kinds, mut instances) = (Numbers::default(), Numbers::default());
        let asked = |fact: &Fact| -> Kind {
            let label = |at: usize| facts.text(fact.labels[at]);
            kind_of([&verb(facts, fact), label(1), label(3), label(4)], label(5) == "namespace")
        };
        let mut series = Vec::new();
        let controller_of = |fact: &Fact| {
            let name = facts.text(*fact.labels.get(8)?);
            CONTROLLERS.iter().position(|own| own.1 == name)
        };
        let refused = facts.unauthenticated().map(|fact| (fact, unauthenticated(), Some(401)));
        let counted = facts.of(Metric::Requests).iter().chain(facts.failed_at_aggregated_apis());
        let counted = counted.map(|fact| (fact, asked(fact), facts.text(fact.labels[7]).parse::<u16>().ok()));
        for (fact, kind, code) in counted.chain(refused) {
            let Some(own) = facts.instances.get(fact.instance) else { continue };
            let mut tiles: [BTreeMap<usize, f64>; 2] = Default::default();
            for (interval, difference) in &fact.course {
                if let Some(span) = own.intervals.get(*interval as usize) {
                    let tiles = &mut tiles[usize::from(is_starting(own, *span))];
                    grid.spread(near(grid, *span), *difference, |tile, part| *tiles.entry(tile).or_default() += part);
                }
            }
            let (outcome, is_refused) = (outcome(code, &kind), is_refusal(code));
            let (kind, instance) = (kinds.of(kind), instances.of(own.name.clone()));
            let controller = controller_of(fact);
            for (is_start, tiles) in [false, true].into_iter().zip(tiles) {
                let tiles: Timed = tiles.into_iter().map(|(tile, count)| (tile, count, Vec::new())).collect();
                if !is_start || !tiles.is_empty() {
                    series.push(Series { kind, instance, outcome, is_refused, controller, is_start, tiles });
                }
            }
        }
        let mut latencies: BTreeMap<(usize, Kind), Vec<&Fact>> = BTreeMap::new();
        for fact in facts.of(Metric::Duration).iter().filter(|fact| fact.part == Part::Bucket) {
            latencies.entry((fact.instance, asked(fact))).or_default().push(fact);
        }
        for ((instance, kind), mut buckets) in latencies {
            buckets.sort_by(|a, b| a.bound.total_cmp(&b.bound));
            let Some(own) = facts.instances.get(instance) else { continue };
            let intervals: Vec<(Micros, Micros)> = own
                .intervals
                .iter()
                .map(|span| if is_starting(own, *span) { (0, 0) } else { near(grid, *span) })
                .collect();
            series.push(Series {
                kind: kinds.of(kind),
                instance: instances.of(own.name.clone()),
                outcome: Outcome::Ok,
                is_refused: false,
                controller: None,
                is_start: false,
                tiles: timed(grid, &intervals, &buckets),
            });
        }
        let axes = Axes { grid, callers: vec![Caller::default()], kinds: kinds.all, instances: instances.all };
        Some(Self { axes, series, seams: seams(facts, grid) })
    }
}

/// When pages of an apiserver begin that had started before, or end, between the first page of all and the last.
fn seams(facts: &Facts, grid: Grid) -> Vec<Micros> {
    let mut all = Vec::new();
    for own in facts.instances_of(Component::Apiserver) {
        let (Some(first), Some(last)) = (own.intervals.first(), own.intervals.last()) else { continue };
        let started = own.starts.first().copied().or(own.start).map(time::of_seconds);
        let is_new = started.is_none_or(|at| at > first.0 - STARTING - grid.tile);
        all.extend((first.0 > grid.span.0 + grid.tile && !is_new).then_some(first.0));
        all.extend((last.1 < grid.span.1 - grid.tile).then_some(last.1));
    }
    all
}

/// Latencies of a histogram's buckets, sorted by bound, by interval of the grid.
fn timed(grid: Grid, intervals: &[(Micros, Micros)], buckets: &[&Fact]) -> Timed {
    let mut tiles: BTreeMap<usize, BTreeMap<usize, f64>> = BTreeMap::new();
    for (place, fact) in buckets.iter().enumerate() {
        for (interval, difference) in &fact.course {
            if let Some(span) = intervals.get(*interval as usize) {
                grid.spread(*span, *difference, |tile, part| {
                    *tiles.entry(tile).or_default().entry(place).or_default() += part;
                });
            }
        }
    }
    // Bounds may repeat where versions of a resource are counted apart.
    let value = |place: usize| {
        let bound = buckets[place].bound;
        let below = buckets[..place].iter().rev().map(|fact| fact.bound).find(|other| *other < bound).unwrap_or(0.0);
        if bound.is_finite() { (below.max(bound / 4.0) * bound).sqrt() } else { below * 1.5 }
    };
    let values: Vec<f64> = (0..buckets.len()).map(value).collect();
    let counts = |cumulative: BTreeMap<usize, f64>| {
        let mut by_bound: Vec<(f64, f64, f64)> = Vec::new();
        for place in 0..buckets.len() {
            let count = cumulative.get(&place).copied().unwrap_or(0.0);
            match by_bound.last_mut() {
                Some(last) if last.0 == buckets[place].bound => last.2 += count,
                _ => by_bound.push((buckets[place].bound, values[place], count)),
            }
        }
        let mut below = 0.0;
        let mut latency = Vec::new();
        for (_, value, count) in by_bound {
            if count - below > 1e-9 {
                latency.push((value as f32, (count - below) as f32));
                below = count;
            }
        }
        latency
    };
    tiles.into_iter().map(|(tile, cumulative)| (tile, 0.0, counts(cumulative))).collect()
}

impl Requests for Paged {
    fn source(&self) -> Source {
        Source::Metrics
    }

    fn axes(&self) -> &Axes {
        &self.axes
    }

    fn seams(&self) -> &[Micros] {
        &self.seams
    }

    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        for series in &self.series {
            for (tile, count, latency) in &series.tiles {
                let of = |wanted: Outcome| if series.outcome == wanted { *count } else { 0.0 };
                take(Row {
                    tile: *tile,
                    caller: 0,
                    kind: series.kind,
                    controller: series.controller,
                    is_start: series.is_start,
                    instance: series.instance,
                    requests: *count,
                    errors: of(Outcome::Error),
                    throttled: of(Outcome::Throttled),
                    // By whom is not known, so whether it is one client or all of them is not, either.
                    refused: if series.is_refused { *count } else { 0.0 },
                    unauthorized: if self.axes.kinds[series.kind][0] == UNAUTHENTICATED { *count } else { 0.0 },
                    spent: [0.0; 3],
                    latency,
                });
            }
        }
    }
}
