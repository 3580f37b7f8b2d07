//! What metrics pages and cgroups would show of a simulation: counters without callers, latencies to the bounds of the
//! apiservers' histograms, pages each at their own moments, none while a process is away.

use crate::cluster::Cluster;
use crate::rng::{hash, unit};
use crate::sim::{Effect, End, Outcome, Shape, Sink};
use plimsoll::analysis::judge::requests::{Caller, Grid, Kind, Requests, Row};
use plimsoll::analysis::judge::vitals::{Course, Point, Start, Vital, Vitals};
use plimsoll::analysis::metrics::facts::Component;
use plimsoll::model::incident::{Source, Span};
use plimsoll::model::time::{Micros, SECOND};
use std::collections::BTreeMap;

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
struct Risen {
    /// By kind: requests, errors, throttled, latencies by bucket.
    kinds: Vec<(u16, [u32; 3], [u32; BUCKETS])>,
    etcd: (f64, f64),
    wait: (f64, f64),
    hooks: [(f64, f64, f64); 4],
    throttled: f64,
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

    fn merge(&mut self, other: &Self) {
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
struct Server {
    /// When its first page is taken, s.
    phase: f64,
    /// What rose until each of its pages.
    risen: Vec<Risen>,
    /// Requests in flight at each page; `None` where there is none.
    inflight: Vec<Option<f64>>,
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
    seed: u64,
    pages: Pages,
    begin: Micros,
    span: f64,
    grid: Grid,
    callers: Vec<Caller>,
    kinds: Vec<Kind>,
    instances: Vec<String>,
    streams: Vec<(u16, bool, Option<u8>)>,
    hooks: Vec<(String, bool, f64)>,
    servers: Vec<Server>,
    /// etcd's: sum and number of commits by page, size.
    commits: Vec<(f64, f64)>,
    size: Vec<f64>,
    stalled: f64,
    effects: Vec<Effect>,
    memory: Vec<Memory>,
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
            phase: (unit(hash(cluster.seed, n as u64, 31, 0)) * pages.every * 10.0).round() / 10.0,
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
            grid: Grid { tile: pages.every as Micros * SECOND, span: (begin, begin) },
            callers: vec![Caller::default()],
            kinds: cluster.kinds.clone(),
            instances: cluster.instances.clone(),
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

    fn micros(&self, t: f64) -> Micros {
        self.begin + (t * SECOND as f64) as Micros
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
                let luck = unit(hash(self.seed, instance as u64, *page as u64, 32));
                t <= self.span && server.inflight[*page].is_some() && luck >= self.pages.missing
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
            let inflight = gauge(&|page| server.inflight[page].unwrap_or(0.0).round());
            let fills = gauge(&|page| {
                self.fill(
                    instance as u8,
                    server.phase + page as f64 * self.pages.every,
                    server.inflight[page].unwrap_or(0.0),
                )
            });
            let limit = 4e9 + 12e9 * unit(hash(self.seed, instance as u64, 33, 0));
            let resident = fills.iter().map(|point| Point { value: point.value * limit * 0.95, ..*point }).collect();
            self.gauge(Vital::Inflight, instance, inflight);
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
        self.grid.span = if from < to { (from, to) } else { (self.begin, self.begin + SECOND) };
        for (instance, own) in spans.iter().enumerate() {
            for (span, risen) in own {
                self.count(instance as u8, *span, risen);
            }
            self.tell(instance, own);
        }
        self.tell_etcd();
        self.tell_processes();
        (self.commits, self.size) = (Vec::new(), Vec::new());
        self.vitals.courses.retain(|own| !own.points.is_empty());
    }

    fn gauge(&mut self, vital: Vital, instance: usize, points: Vec<Point>) {
        let instance = self.instances[instance].clone();
        self.vitals.courses.push(Course { vital, instance, name: String::new(), points });
    }

    /// How full an apiserver's cgroup is.
    fn fill(&self, instance: u8, t: f64, inflight: f64) -> f64 {
        let usual = 0.3 + 0.15 * unit(hash(self.seed, u64::from(instance), 34, 0));
        let mut fill = usual + (inflight / 2000.0).min(0.2);
        fill += 0.01 * unit(hash(self.seed, u64::from(instance), t as u64, 35));
        for own in self.memory.iter().filter(|own| own.instance == instance) {
            let until = own.kill.unwrap_or(own.shape.to);
            if t >= own.shape.from && t < until {
                let part = ((t - own.shape.from) / (until - own.shape.from).max(1.0)).min(1.0);
                fill += (0.985 - fill) * part;
            }
        }
        // A process that has just started holds less.
        for effect in &self.effects {
            if let Effect::Down { instance: other, to, .. } = effect
                && *other == instance
                && t >= *to
                && t < to + 60.0
            {
                fill *= 0.4 + 0.6 * (t - to) / 60.0;
            }
        }
        fill.min(1.0)
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
        let tile = self.grid.tile;
        for number in from.div_euclid(tile)..=(to - 1).div_euclid(tile) {
            let Some(place) = self.grid.place(number * tile).or_else(|| self.grid.place(from)) else { continue };
            let part = (((number + 1) * tile).min(to) - (number * tile).max(from)) as f64 / (to - from) as f64;
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

    fn tell(&mut self, instance: usize, own: &[(Span, Risen)]) {
        let name = self.instances[instance].clone();
        let course = |vital: Vital, name: &str, points: Vec<Point>, instance: &str| Course {
            vital,
            instance: instance.to_owned(),
            name: name.to_owned(),
            points,
        };
        let means = |of: &dyn Fn(&Risen) -> (f64, f64)| -> Vec<Point> {
            let point = |(span, risen): &(Span, Risen)| {
                let (sum, count) = of(risen);
                (count > 0.0).then(|| Point { span: *span, value: sum / count, count })
            };
            own.iter().filter_map(point).collect()
        };
        let rates = |of: &dyn Fn(&Risen) -> f64| -> Vec<Point> {
            let point = |(span, risen): &(Span, Risen)| {
                let seconds = (span.1 - span.0) as f64 / SECOND as f64;
                Point { span: *span, value: of(risen) / seconds, count: seconds }
            };
            own.iter().map(point).collect()
        };
        let mut courses = vec![
            course(Vital::EtcdRequest, "", means(&|risen| risen.etcd), &name),
            course(Vital::QueueWait, "", means(&|risen| risen.wait), &name),
            course(Vital::Rejected, "", rates(&|risen| risen.throttled), &name),
        ];
        for (place, (hook, is_closed, _)) in self.hooks.iter().enumerate() {
            courses.push(course(
                Vital::Webhook,
                hook,
                means(&|risen| (risen.hooks[place].0, risen.hooks[place].1)),
                &name,
            ));
            let vital = if *is_closed { Vital::WebhookErrors } else { Vital::FailedOpen };
            if own.iter().any(|(_, risen)| risen.hooks[place].2 > 0.0) {
                courses.push(course(vital, hook, rates(&|risen| risen.hooks[place].2), &name));
            }
        }
        // Pages that lie much farther apart than others.
        let usual = (self.pages.every * SECOND as f64) as Micros;
        let gaps = own.iter().filter(|((from, to), _)| (to - from) as f64 > 1.8 * usual as f64);
        let points: Vec<Point> = gaps
            .map(|((from, to), _)| Point {
                span: (from + usual, *to),
                value: (to - from - usual) as f64 / SECOND as f64,
                count: 1.0,
            })
            .collect();
        courses.push(course(Vital::Unreachable, Component::Apiserver.name(), points, &name));
        self.vitals.courses.append(&mut courses);
    }

    fn tell_etcd(&mut self) {
        if !self.pages.of_etcd {
            return;
        }
        let at = |page: usize| self.micros(page as f64 * self.pages.every);
        let pages = 1..(self.span / self.pages.every) as usize + 1;
        let mean = |part: f64| -> Vec<Point> {
            let point = |page: usize| {
                let (sum, count) = self.commits[page];
                (count > 0.0).then(|| Point { span: (at(page - 1), at(page)), value: part * sum / count, count })
            };
            pages.clone().filter_map(point).collect()
        };
        let gauge = |value: &dyn Fn(usize) -> f64| -> Vec<Point> {
            let point = |page| Point { span: (at(page), at(page)), value: value(page), count: 1.0 };
            pages.clone().map(point).collect()
        };
        let mut size = 1e8 + 2e9 * unit(hash(self.seed, 36, 0, 0));
        let sizes: Vec<f64> = self
            .size
            .iter()
            .map(|more| {
                size += more;
                size
            })
            .collect();
        let all = [
            (Vital::EtcdCommit, mean(0.6)),
            (Vital::EtcdFsync, mean(0.4)),
            (Vital::EtcdLeader, gauge(&|_| 1.0)),
            (Vital::DatabaseSize, gauge(&|page| sizes[page])),
        ];
        for (vital, points) in all {
            let course = Course { vital, instance: "etcd-0".to_owned(), name: String::new(), points };
            self.vitals.courses.push(course);
        }
    }

    fn tell_processes(&mut self) {
        let mut kills: BTreeMap<u8, Vec<Point>> = BTreeMap::new();
        for effect in &self.effects {
            let Effect::Down { instance, from, to, .. } = effect else { continue };
            if *to >= self.span {
                continue;
            }
            let (at, name) = (self.micros(*to), self.instances[usize::from(*instance)].clone());
            self.vitals.starts.push(Start { at, component: Component::Apiserver, instance: name });
            let is_kill = self.memory.iter().any(|own| own.instance == *instance && own.kill == Some(*from));
            if is_kill && self.pages.cgroups {
                let span = (self.micros(*from), self.micros(from + self.pages.every));
                kills.entry(*instance).or_default().push(Point { span, value: 1.0, count: 1.0 });
            }
        }
        for (instance, points) in kills {
            self.gauge(Vital::OomKills, usize::from(instance), points);
        }
        self.vitals.starts.sort_by_key(|start| start.at);
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

    fn grid(&self) -> Grid {
        self.grid
    }

    fn callers(&self) -> &[Caller] {
        &self.callers
    }

    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn instances(&self) -> &[String] {
        &self.instances
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
                spent: [0.0; 3],
                latency: &self.latencies[begin..begin + len],
            });
        }
    }
}
