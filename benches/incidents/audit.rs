//! What audit logs would show of a simulation, as a roll-up counts it.

use crate::cluster::Cluster;
use crate::sim::{Effect, End, Outcome, Sink, starts};
use plimsoll::analysis::judge::requests::{Axes, Grid, Requests, Row};
use plimsoll::model::cause::Source;
use plimsoll::model::histogram::{bucket, midpoint};
use plimsoll::model::time::{Micros, SECOND, Span};
use std::collections::VecDeque;

/// Apiservers say how they spent the time of requests that took longer, s.
const ANNOTATED_S: f64 = 0.5;

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u32,
    bucket: u16,
    count: u32,
    spent: [f32; 3],
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    tile: u32,
    key: u32,
    count: u32,
    spent: [f32; 3],
    latency: (u32, u16),
}

/// Requests by tile, caller, kind, apiserver and outcome.
pub struct Audit {
    axes: Axes,
    /// Of each stream, its caller and kind.
    streams: Vec<(u16, u16)>,
    open: VecDeque<Vec<Entry>>,
    /// The number of the first open tile.
    first: usize,
    rows: Vec<Counted>,
    latencies: Vec<(f32, f32)>,
    /// When apiservers started.
    starts: Vec<(Span, usize)>,
    pub counted: u64,
}

/// The length of tiles that a roll-up of so many seconds has, s.
pub fn tile_of(span: f64) -> f64 {
    if span <= 6.0 * 3600.0 { 10.0 } else { 60.0 }
}

impl Audit {
    pub fn new(cluster: &Cluster, effects: &[Effect], begin: Micros, span: f64) -> Self {
        let span_us = (begin, begin + (span * SECOND as f64) as Micros);
        let grid = Grid { tile: tile_of(span) as Micros * SECOND, phase: 0, span: span_us };
        let start = |(at, instance): (f64, u8)| {
            let from = grid.start(grid.place(begin + (at * SECOND as f64) as Micros)?);
            Some(((from, from + grid.tile), usize::from(instance)))
        };
        Self {
            starts: starts(effects, span).filter_map(start).collect(),
            axes: Axes {
                grid,
                callers: cluster.callers.clone(),
                kinds: cluster.kinds.clone(),
                instances: cluster.instances.clone(),
            },
            streams: cluster.streams.iter().map(|own| (own.caller, own.kind)).collect(),
            open: VecDeque::new(),
            first: 0,
            rows: Vec::new(),
            latencies: Vec::new(),
            counted: 0,
        }
    }

    fn place(&self, t: f64) -> Option<usize> {
        let at = self.axes.grid.span.0 + (t * SECOND as f64) as Micros;
        self.axes.grid.place(at).filter(|_| t >= 0.0 && at < self.axes.grid.span.1)
    }

    fn close(&mut self) {
        let Some(mut entries) = self.open.pop_front() else { return };
        let tile = self.first as u32;
        self.first += 1;
        entries.sort_unstable_by_key(|own| (own.key, own.bucket));
        for entries in entries.chunk_by(|a, b| a.key == b.key) {
            let begin = self.latencies.len();
            let (mut count, mut spent) = (0, [0.0; 3]);
            for same in entries.chunk_by(|a, b| a.bucket == b.bucket) {
                let own: u32 = same.iter().map(|own| own.count).sum();
                for entry in same {
                    spent.iter_mut().zip(entry.spent).for_each(|(sum, own)| *sum += own);
                }
                count += own;
                self.latencies.push(((midpoint(same[0].bucket) / 1e6) as f32, own as f32));
            }
            let latency = (begin as u32, (self.latencies.len() - begin) as u16);
            self.rows.push(Counted { tile, key: entries[0].key, count, spent, latency });
            self.counted += u64::from(count);
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        while !self.open.is_empty() {
            self.close();
        }
        self.rows.shrink_to_fit();
        self.latencies.shrink_to_fit();
    }
}

impl Sink for Audit {
    fn end(&mut self, end: &End) {
        let Some(tile) = self.place(end.at) else { return };
        // What a tile is late for has been counted before.
        let place = tile.max(self.first) - self.first;
        while self.open.len() <= place {
            self.open.push_back(Vec::new());
        }
        let spent = if end.seconds > ANNOTATED_S {
            [end.etcd, end.hook, end.wait].map(|own| (own * f64::from(end.count)) as f32)
        } else {
            [0.0; 3]
        };
        let outcome = end.outcome as u32;
        let key = u32::from(end.stream) << 8 | u32::from(end.instance) << 4 | outcome;
        let bucket = bucket((end.seconds * 1e6) as u64);
        self.open[place].push(Entry { key, bucket, count: end.count, spent });
    }

    fn advance(&mut self, t: f64) {
        let now = self.axes.grid.span.0 + (t * SECOND as f64) as Micros;
        while !self.open.is_empty() && self.axes.grid.start(self.first + 1) <= now {
            self.close();
        }
    }
}

impl Requests for Audit {
    fn source(&self) -> Source {
        Source::Audit
    }

    fn axes(&self) -> &Axes {
        &self.axes
    }

    fn starts(&self) -> &[(Span, usize)] {
        &self.starts
    }

    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        for row in &self.rows {
            let (caller, kind) = self.streams[(row.key >> 8) as usize];
            let outcome = row.key & 15;
            let of = |which: Outcome| if outcome == which as u32 { f64::from(row.count) } else { 0.0 };
            let (begin, len) = (row.latency.0 as usize, row.latency.1 as usize);
            take(Row {
                tile: row.tile as usize,
                caller: usize::from(caller),
                kind: usize::from(kind),
                instance: (row.key >> 4 & 15) as usize,
                requests: f64::from(row.count),
                errors: of(Outcome::Error),
                throttled: of(Outcome::Throttled),
                is_start: false,
                controller: None,
                refused: 0.0,
                unauthorized: 0.0,
                spent: row.spent.map(f64::from),
                latency: &self.latencies[begin..begin + len],
            });
        }
    }
}
