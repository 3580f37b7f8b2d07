//! What is true of a case, and how that is known: it is run with its episodes and without.

use crate::audit::Audit;
use crate::case::Case;
use crate::cluster::Cluster;
use crate::metrics::Metrics;
use crate::sim::{End, Outcome, Sink, Totals, simulate};
use plimsoll::analysis::judge::requests::Class;
use plimsoll::model::histogram::{bucket, midpoint};
use plimsoll::model::time::{Micros, SECOND};

/// Impact is followed in intervals of this length, s.
const BIN: f64 = 5.0;
/// It goes on while more requests than this are bad.
const BAD: f64 = 0.02;
/// And for so long behind its cause at most, s.
const TAIL: f64 = 300.0;
const SIZE: usize = 512;

/// How an episode has to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Outage,
    Incident,
    Degraded,
    Surge,
}

/// What is true of an episode.
#[derive(Debug, Clone)]
pub struct Truth {
    pub kind: &'static str,
    pub variant: &'static str,
    pub strength: f64,
    /// µs since 1970, with the impact that goes on behind the cause.
    pub from: Micros,
    pub to: Micros,
    /// When the cause itself ends.
    pub cause_to: Micros,
    /// When half of the clients are back, of what was away.
    pub back_to: Micros,
    /// Whether there are pages of the cgroup that was full.
    pub has_cgroups: bool,
    pub caller: Option<[String; 2]>,
    pub instance: Option<String>,
    pub grade: Grade,
    pub felt: bool,
    pub measured: Measured,
}

/// What was measured within an episode, without it and with it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    pub requests: [f64; 2],
    pub p99: [f64; 2],
    pub errors: [f64; 2],
    pub throttled: [f64; 2],
}

impl Measured {
    /// Whether users feel it: the definition of the issue.
    pub fn is_felt(&self) -> bool {
        let share = |of: [f64; 2], at: usize| of[at] / self.requests[at].max(1.0);
        let more = |of: [f64; 2]| share(of, 1) - share(of, 0);
        let is_slow = self.p99[1] >= 2.0 * self.p99[0] && self.p99[1] >= self.p99[0] + 0.1;
        let is_throttled = more(self.throttled) >= 0.01 && self.throttled[1] - self.throttled[0] >= 10.0;
        self.requests[1] >= 200.0 && (is_slow || more(self.errors) >= 0.01 || is_throttled)
    }
}

/// Counts what becomes of the requests that arrive in some windows.
struct Felt {
    classes: Vec<Option<usize>>,
    windows: Vec<(f64, f64)>,
    counts: Vec<[f64; 3]>,
    latencies: Vec<Vec<u32>>,
    by_class: [Vec<u32>; 3],
    limits: Option<[f64; 3]>,
    bins: Vec<[f32; 2]>,
}

impl Felt {
    fn new(cluster: &Cluster, windows: &[(f64, f64)], span: f64, limits: Option<[f64; 3]>) -> Self {
        let class = |stream: &crate::cluster::Stream| match Class::of(&cluster.kinds[usize::from(stream.kind)]) {
            Class::Read | Class::Review => Some(0),
            Class::List => Some(1),
            Class::Write => Some(2),
            Class::Long => None,
        };
        Self {
            classes: cluster.streams.iter().map(class).collect(),
            windows: windows.to_vec(),
            counts: vec![[0.0; 3]; windows.len()],
            latencies: vec![vec![0; SIZE]; windows.len()],
            by_class: std::array::from_fn(|_| vec![0; SIZE]),
            limits,
            bins: vec![[0.0; 2]; (span / BIN) as usize + 1],
        }
    }

    /// From where on a request is bad, by class.
    fn limits(&self) -> [f64; 3] {
        std::array::from_fn(|class| {
            let p99 = quantile(&self.by_class[class]);
            (2.0 * p99).max(p99 + 0.1)
        })
    }

    /// Until when more is bad than usual behind a moment.
    fn tail(&self, to: f64) -> f64 {
        let mut last = to;
        let mut calm = 0;
        for bin in (to / BIN) as usize..self.bins.len() {
            let begin = bin as f64 * BIN;
            let [all, bad] = self.bins[bin];
            if begin > to + TAIL || calm >= 3 {
                break;
            }
            if bad >= 2.0 && f64::from(bad) > BAD * f64::from(all) {
                (last, calm) = (f64::max(last, begin + BIN), 0);
            } else {
                calm += 1;
            }
        }
        last
    }
}

fn quantile(counts: &[u32]) -> f64 {
    let all: u64 = counts.iter().map(|own| u64::from(*own)).sum();
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += u64::from(*count);
        if seen as f64 >= 0.99 * all as f64 && all > 0 {
            return midpoint(bucket as u16) / 1e6;
        }
    }
    0.0
}

impl Sink for Felt {
    fn end(&mut self, end: &End) {
        let Some(class) = self.classes[usize::from(end.stream)] else { return };
        let place = usize::from(bucket((end.seconds * 1e6) as u64)).min(SIZE - 1);
        self.by_class[class][place] += end.count;
        for (window, (from, to)) in self.windows.iter().enumerate() {
            if (*from..*to).contains(&end.arrived) {
                let count = f64::from(end.count);
                let counts = &mut self.counts[window];
                counts[0] += count;
                counts[1] += if end.outcome == Outcome::Error { count } else { 0.0 };
                counts[2] += if end.outcome == Outcome::Throttled { count } else { 0.0 };
                self.latencies[window][place] += end.count;
            }
        }
        if let Some(limits) = self.limits
            && let Some(bin) = self.bins.get_mut((end.arrived / BIN) as usize)
        {
            bin[0] += end.count as f32;
            // What always fails is not of the episode; it is below what counts.
            if end.outcome != Outcome::Ok || end.seconds > limits[class] {
                bin[1] += end.count as f32;
            }
        }
    }
}

/// A case with all that is made of it.
pub struct Ready {
    pub case: Case,
    pub truths: Vec<Truth>,
    pub audit: Audit,
    pub metrics: Metrics,
    pub totals: Totals,
    /// Harmless activity that turned out to be felt, and was made weaker.
    pub tamed: u32,
}

struct All {
    felt: Felt,
    audit: Audit,
    metrics: Metrics,
}

impl Sink for All {
    fn end(&mut self, end: &End) {
        self.felt.end(end);
        self.audit.end(end);
        self.metrics.end(end);
    }

    fn server(&mut self, t: f64, dt: f64, instance: u8, inflight: Option<f64>) {
        self.metrics.server(t, dt, instance, inflight);
    }

    fn store(&mut self, t: f64, dt: f64, seconds: f64, writes: f64, is_stalled: bool) {
        self.metrics.store(t, dt, seconds, writes, is_stalled);
    }

    fn advance(&mut self, t: f64) {
        self.audit.advance(t);
    }
}

fn measured(without: &Felt, with: &Felt, window: usize) -> Measured {
    let both = [without, with];
    Measured {
        requests: both.map(|own| own.counts[window][0]),
        p99: both.map(|own| quantile(&own.latencies[window])),
        errors: both.map(|own| own.counts[window][1]),
        throttled: both.map(|own| own.counts[window][2]),
    }
}

/// Makes a case of a seed.
pub fn prepare(seed: u64) -> Ready {
    let mut strength = 1.0;
    let mut tamed = 0;
    loop {
        let ready = attempt(seed, strength);
        let Some(ready) = ready else {
            (strength, tamed) = (strength * 0.3, tamed + 1);
            if tamed > 3 {
                strength = 0.0;
            }
            continue;
        };
        return Ready { tamed, ..ready };
    }
}

/// `None` if an activity that should be harmless is felt.
fn attempt(seed: u64, strength: f64) -> Option<Ready> {
    let case = Case::new(seed, strength);
    let span = case.span;
    let steps = case.steps();
    let windows: Vec<(f64, f64)> = case.plans.iter().map(|plan| plan.edges(span)).collect();
    let activities: Vec<(f64, f64)> = case.activities.iter().map(|own| (own.1, own.2.min(span))).collect();
    let windows: Vec<(f64, f64)> = windows.into_iter().chain(activities).collect();
    let mut without = Felt::new(&case.cluster, &windows, span, None);
    let is_quiet = case.plans.is_empty();
    if !windows.is_empty() {
        simulate(&case.cluster, &case.effects[..case.of_load], &steps, &mut without);
    }
    let mut all = All {
        felt: Felt::new(&case.cluster, &windows, span, Some(without.limits())),
        audit: Audit::new(&case.cluster, &case.effects, case.begin, span),
        metrics: Metrics::new(&case.cluster, &case.effects, &case.memory, case.pages, case.begin, span),
    };
    let totals = simulate(&case.cluster, &case.effects, &steps, &mut all);
    if is_quiet && strength > 0.0 && (0..windows.len()).any(|window| measured(&without, &all.felt, window).is_felt()) {
        return None;
    }
    all.audit.finish();
    all.metrics.finish();
    let micros = |t: f64| case.begin + (t * SECOND as f64) as Micros;
    let truth = |(window, plan): (usize, &crate::episodes::Plan)| {
        let (from, to) = windows[window];
        let measured = measured(&without, &all.felt, window);
        let felt = measured.is_felt() || plan.is_outage;
        let [all_of, failed] = [measured.requests[1], measured.errors[1]];
        let grade = match plan.kind {
            _ if plan.is_outage || felt && failed >= 0.5 * all_of => Grade::Outage,
            _ if felt => Grade::Incident,
            "relist-storm" | "memory" | "slow-etcd" | "webhook-drag" => Grade::Degraded,
            _ => Grade::Surge,
        };
        Truth {
            kind: plan.kind,
            variant: plan.variant,
            strength: plan.strength,
            from: micros(from),
            to: micros(if felt { all.felt.tail(to).min(span) } else { to }),
            cause_to: micros(to),
            back_to: micros((to + plan.back / 2.0).min(span)),
            has_cgroups: case.pages.cgroups,
            caller: plan.caller.map(|caller| case.cluster.callers[usize::from(caller)].clone()),
            instance: plan.instance.map(|own| case.cluster.instances[usize::from(own)].clone()),
            grade,
            felt,
            measured,
        }
    };
    let truths = case.plans.iter().enumerate().map(truth).collect();
    let All { audit, metrics, .. } = all;
    Some(Ready { case, truths, audit, metrics, totals, tamed: 0 })
}
