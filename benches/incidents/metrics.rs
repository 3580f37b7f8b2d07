//! What metrics pages and cgroups would show of a simulation: counters without callers, latencies to the bounds of the
//! apiservers' histograms, pages each at their own moments, none while a process is away.

use crate::cluster::Cluster;
use crate::rng::{hash, unit};
use crate::sim::{Effect, End, Outcome, Shape, Sink};
use plimsoll::analysis::judge::requests::{Axes, Caller, Grid, Requests, Row};
use plimsoll::analysis::judge::vitals::{Point, Vital, Vitals};
use plimsoll::model::cause::Source;
use plimsoll::model::time::{Micros, SECOND, Span};

/// Of `apiserver_request_duration_seconds`, s.
pub const BOUNDS: [f64; 22] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0,
];
const BUCKETS: usize = BOUNDS.len() + 1;

/// How an apiserver's memory goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    pub instance: u8,
    /// Fills up within this.
    pub shape: Shape,
    /// When it is killed for it.
    pub kill: Option<f64>,
}

/// Which pages there are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pages {
    /// How far apart, s.
    pub every: f64,
    pub of_etcd: bool,
    pub cgroups: bool,
    /// The part of pages that is missing.
    pub missing: f64,
}

/// What rose between two moments in which pages are taken.
#[derive(Debug, Clone, Default)]
pub struct Risen {
    /// By kind: requests, errors, throttled, latencies by bucket.
    pub kinds: Vec<(u16, [u32; 3], [u32; BUCKETS])>,
    pub etcd: (f64, f64),
    pub wait: (f64, f64),
    pub hooks: [(f64, f64, f64); 4],
    pub throttled: f64,
}

impl Risen {
    fn of(&mut self, kind: u16) -> &mut (u16, [u32; 3], [u32; BUCKETS]) {
        let place = match self.kinds.iter().position(|own| own.0 == kind) {
            Some(place) => place,
            None => {
                self.kinds.push((kind, [0; 3], [0; BUCKETS]));
                self.kinds.len() - 1
            }
        };
        &mut self.kinds[place]
    }

    pub fn merge(&mut self, other: &Self) {
        for (kind, counts, buckets) in &other.kinds {
            let own = self.of(*kind);
            own.1.iter_mut().zip(counts).for_each(|(sum, one)| *sum += one);
            own.2.iter_mut().zip(buckets).for_each(|(sum, one)| *sum += one);
        }
        let add = |sum: &mut (f64, f64), own: (f64, f64)| *sum = (sum.0 + own.0, sum.1 + own.1);
        add(&mut self.etcd, other.etcd);
        add(&mut self.wait, other.wait);
        for (sum, own) in self.hooks.iter_mut().zip(other.hooks) {
            *sum = (sum.0 + own.0, sum.1 + own.1, sum.2 + own.2);
        }
        self.throttled += other.throttled;
    }
}

/// An apiserver's.
#[derive(Debug)]
pub struct Server {
    /// When its first page is taken, s.
    pub phase: f64,
    /// What rose until each of its pages.
    pub risen: Vec<Risen>,
    /// Requests in flight at each page; `None` where there is none.
    pub inflight: Vec<Option<f64>>,
    is_up: bool,
}

#[derive(Debug, Clone)]
struct Counted {
    tile: u32,
    kind: u16,
    instance: u8,
    counts: [f32; 3],
    latency: (u32, u16),
}

pub struct Metrics {
    pub seed: u64,
    pub pages: Pages,
    begin: Micros,
    pub span: f64,
    pub axes: Axes,
    streams: Vec<(u16, bool, Option<u8>)>,
    pub hooks: Vec<(String, bool, f64)>,
    pub servers: Vec<Server>,
    /// etcd's: sum and number of commits by page, size.
    pub commits: Vec<(f64, f64)>,
    pub size: Vec<f64>,
    stalled: f64,
    pub effects: Vec<Effect>,
    pub memory: Vec<Memory>,
    rows: Vec<Counted>,
    latencies: Vec<(f32, f32)>,
    pub vitals: Vitals,
}

impl Metrics {
    pub fn new(
        cluster: &Cluster,
        effects: &[Effect],
        memory: &[Memory],
        pages: Pages,
        begin: Micros,
        span: f64,
    ) -> Self {
        let count = (span / pages.every) as usize + 2;
        let server = |n: usize| Server {
            phase: (unit(hash(cluster.seed, n as u64, 31, 0)) * pages.every).floor(),
            risen: vec![Risen::default(); count],
            inflight: vec![None; count],
            is_up: true,
        };
        let hooks = cluster.hooks.iter().map(|own| (own.name.clone(), own.is_fail_closed, own.timeout)).collect();
        Self {
            seed: cluster.seed,
            pages,
            begin,
            span,
            axes: Axes {
                grid: Grid { tile: pages.every as Micros * SECOND, phase: 0, span: (begin, begin) },
                callers: vec![Caller::default()],
                kinds: cluster.kinds.clone(),
                instances: cluster.instances.clone(),
            },
            streams: cluster.streams.iter().map(|own| (own.kind, own.is_watch, own.hook)).collect(),
            hooks,
            servers: (0..cluster.instances.len()).map(server).collect(),
            commits: vec![(0.0, 0.0); count],
            size: vec![0.0; count],
            stalled: 0.0,
            effects: effects.to_vec(),
            memory: memory.to_vec(),
            rows: Vec::new(),
            latencies: Vec::new(),
            vitals: Vitals::default(),
        }
    }

    pub fn micros(&self, t: f64) -> Micros {
        self.begin + (t * SECOND as f64) as Micros
    }

    /// Whether a page was taken: some are missing.
    pub fn is_taken(&self, instance: usize, page: usize) -> bool {
        unit(hash(self.seed, instance as u64, page as u64, 32)) >= self.pages.missing
    }

    /// Memory that an apiserver may have, bytes.
    pub fn limit(&self, instance: usize) -> f64 {
        4e9 + 12e9 * unit(hash(self.seed, instance as u64, 33, 0))
    }

    /// Size of etcd's database as the capture begins.
    pub fn first_size(&self) -> f64 {
        1e8 + 2e9 * unit(hash(self.seed, 36, 0, 0))
    }

    /// The first page at or behind a moment.
    fn page(&self, phase: f64, t: f64) -> usize {
        ((t - phase) / self.pages.every).ceil().max(0.0) as usize
    }

    /// Makes rows and vitals of what was counted.
    pub fn finish(&mut self) {
        let servers = std::mem::take(&mut self.servers);
        let mut spans: Vec<Vec<(Span, Risen)>> = Vec::new();
        for (instance, server) in servers.iter().enumerate() {
            let has_page = |page: &usize| {
                let t = server.phase + *page as f64 * self.pages.every;
                t <= self.span && server.inflight[*page].is_some() && self.is_taken(instance, *page)
            };
            let taken: Vec<usize> = (0..server.inflight.len()).filter(has_page).collect();
            let at = |page: usize| self.micros(server.phase + page as f64 * self.pages.every);
            let mut own = Vec::new();
            for pair in taken.windows(2) {
                let mut risen = Risen::default();
                (pair[0] + 1..=pair[1]).for_each(|page| risen.merge(&server.risen[page]));
                own.push(((at(pair[0]), at(pair[1])), risen));
            }
            let gauge = |value: &dyn Fn(usize) -> f64| -> Vec<Point> {
                taken
                    .iter()
                    .map(|page| Point { span: (at(*page), at(*page)), value: value(*page), count: 1.0 })
                    .collect()
            };
            let fills = gauge(&|page| {
                self.fill(
                    instance as u8,
                    server.phase + page as f64 * self.pages.every,
                    server.inflight[page].unwrap_or(0.0),
                )
            });
            let limit = self.limit(instance);
            let resident = fills.iter().map(|point| Point { value: point.value * limit, ..*point }).collect();
            self.gauge(Vital::Resident, instance, resident);
            if self.pages.cgroups {
                self.gauge(Vital::CgroupFill, instance, fills);
            }
            spans.push(own);
        }
        let (mut from, mut to) = (Micros::MAX, Micros::MIN);
        for ((first, last), _) in spans.iter().flatten() {
            (from, to) = (from.min(*first), to.max(*last));
        }
        self.axes.grid.span = if from < to { (from, to) } else { (self.begin, self.begin + SECOND) };
        // From page to page of one of them.
        let first = self.servers.first().map_or(self.begin, |own| self.begin + (own.phase * SECOND as f64) as Micros);
        self.axes.grid.phase = first.rem_euclid(self.axes.grid.tile);
        for (instance, own) in spans.iter().enumerate() {
            for (span, risen) in own {
                self.count(instance as u8, *span, risen);
            }
            self.add(instance, own);
        }
        self.tell_etcd();
        self.tell_processes();
        (self.commits, self.size) = (Vec::new(), Vec::new());
        self.vitals.courses.retain(|own| !own.points.is_empty());
    }

    /// Rows of what rose between two pages, spread evenly over the time between them.
    fn count(&mut self, instance: u8, (from, to): Span, risen: &Risen) {
        let values = |bucket: usize| match BOUNDS.get(bucket) {
            Some(bound) => {
                let below = bucket.checked_sub(1).map_or(0.0, |below| BOUNDS[below]);
                (below.max(bound / 4.0) * bound).sqrt()
            }
            None => 90.0,
        };
        let grid = self.axes.grid;
        for number in grid.number(from)..=grid.number(to - 1) {
            let start = grid.begin(number);
            let Some(place) = grid.place(start).or_else(|| grid.place(from)) else {
                continue;
            };
            let part = ((start + grid.tile).min(to) - start.max(from)) as f64 / (to - from) as f64;
            for (kind, counts, buckets) in &risen.kinds {
                let begin = self.latencies.len();
                for (bucket, count) in buckets.iter().enumerate().filter(|own| *own.1 > 0) {
                    self.latencies.push((values(bucket) as f32, (f64::from(*count) * part) as f32));
                }
                let latency = (begin as u32, (self.latencies.len() - begin) as u16);
                let counts = counts.map(|count| (f64::from(count) * part) as f32);
                self.rows.push(Counted { tile: place as u32, kind: *kind, instance, counts, latency });
            }
        }
    }
}

impl Sink for Metrics {
    fn end(&mut self, end: &End) {
        let (kind, is_watch, hook) = self.streams[usize::from(end.stream)];
        // Watches are counted when they end; those that the capture does not see start do so, too.
        let mut seconds = end.seconds;
        let mut at = end.at;
        if is_watch && end.outcome == Outcome::Ok {
            let life = 300.0 + 300.0 * unit(hash(self.seed, u64::from(end.stream), end.arrived.to_bits(), 37));
            at = if end.arrived < life { at } else { at + life };
            seconds = life;
        }
        if at >= self.span {
            return;
        }
        let page = self.page(self.servers[usize::from(end.instance)].phase, at);
        let risen = &mut self.servers[usize::from(end.instance)].risen[page];
        let own = risen.of(kind);
        own.1[0] += end.count;
        match end.outcome {
            Outcome::Error => own.1[1] += end.count,
            Outcome::Throttled => own.1[2] += end.count,
            Outcome::Ok => {}
        }
        own.2[BOUNDS.partition_point(|bound| *bound < seconds)] += end.count;
        let count = f64::from(end.count);
        if end.etcd > 0.0 {
            risen.etcd = (risen.etcd.0 + end.etcd * count, risen.etcd.1 + count);
        }
        if end.outcome == Outcome::Throttled {
            risen.throttled += count;
        } else {
            risen.wait = (risen.wait.0 + end.wait * count, risen.wait.1 + count);
        }
        if let Some(hook) = hook
            && end.hook > 0.0
        {
            let sums = &mut risen.hooks[usize::from(hook)];
            let (_, is_closed, timeout) = &self.hooks[usize::from(hook)];
            let failed = if *is_closed { end.outcome == Outcome::Error } else { end.hook >= *timeout };
            *sums = (sums.0 + end.hook * count, sums.1 + count, sums.2 + if failed { count } else { 0.0 });
        }
    }

    fn server(&mut self, t: f64, dt: f64, instance: u8, inflight: Option<f64>) {
        let every = self.pages.every;
        let first = self.page(self.servers[usize::from(instance)].phase, t);
        let server = &mut self.servers[usize::from(instance)];
        if inflight.is_none() && server.is_up {
            // What was counted since the last page died with the process.
            server.risen[first..].fill(Risen::default());
        }
        server.is_up = inflight.is_some();
        let mut page = first;
        while page < server.inflight.len() && server.phase + (page as f64) * every < t + dt {
            server.inflight[page] = inflight;
            page += 1;
        }
    }

    fn store(&mut self, t: f64, dt: f64, seconds: f64, writes: f64, is_stalled: bool) {
        let page = self.page(0.0, t + dt * 0.5);
        let Some(own) = self.commits.get_mut(page) else { return };
        if is_stalled {
            self.stalled += dt;
            return;
        }
        if self.stalled > 0.0 {
            *own = (own.0 + self.stalled, own.1 + 1.0);
            self.stalled = 0.0;
        }
        // Several writes share a commit.
        let commits = writes.min(dt / seconds.max(0.002)).max(dt * 0.5);
        *own = (own.0 + seconds * commits, own.1 + commits);
        self.size[page] += 300.0 * writes;
    }
}

impl Requests for Metrics {
    fn source(&self) -> Source {
        Source::Metrics
    }

    fn axes(&self) -> &Axes {
        &self.axes
    }

    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        for row in &self.rows {
            let (begin, len) = (row.latency.0 as usize, usize::from(row.latency.1));
            let [requests, errors, throttled] = row.counts.map(f64::from);
            take(Row {
                tile: row.tile as usize,
                caller: 0,
                kind: usize::from(row.kind),
                instance: usize::from(row.instance),
                requests,
                errors,
                throttled,
                is_start: false,
                controller: None,
                refused: 0.0,
                unauthorized: 0.0,
                spent: [0.0; 3],
                latency: &self.latencies[begin..begin + len],
            });
        }
    }
}
