//! A case: a cluster, how long it is watched, and what happens in it. All of it follows from a seed.

use crate::audit::tile_of;
use crate::cluster::{Cluster, Role};
use crate::episodes::{KINDS, Plan, activity, lay};
use crate::metrics::{Memory, Pages};
use crate::rng::Rng;
use crate::sim::{Effect, Shape};
use plimsoll::model::time::{Micros, SECOND};

/// How long the fine steps go on behind an episode, s.
const BEHIND: f64 = 240.0;

#[derive(Debug, Clone)]
pub struct Case {
    pub cluster: Cluster,
    /// When the capture begins.
    pub begin: Micros,
    /// How long it is, s.
    pub span: f64,
    pub effects: Vec<Effect>,
    /// Of these, the first belong to the load: start-up bursts.
    pub of_load: usize,
    pub memory: Vec<Memory>,
    pub pages: Pages,
    pub plans: Vec<Plan>,
    pub activities: Vec<(&'static str, f64, f64)>,
    /// Dangerous operations: when, who, how many objects went with them.
    pub operations: Vec<(f64, u16, f64)>,
}

impl Case {
    pub fn new(seed: u64, activity_strength: f64) -> Self {
        let rng = &mut Rng::new(seed, 2);
        let episodes = rng.weighted(&[(0, 0.3), (1, 0.55), (2, 0.15)]);
        let (short, middle, long) = (600.0, 3600.0, 6.0 * 3600.0);
        let span = if episodes == 0 {
            rng.weighted(&[
                ((short, middle), 0.58),
                ((middle, long), 0.27),
                ((long, 86_400.0), 0.09),
                ((86_400.0, 172_800.0), 0.06),
            ])
        } else {
            rng.weighted(&[
                ((short, middle), 0.76),
                ((middle, long), 0.18),
                ((long, 86_400.0), 0.045),
                ((86_400.0, 172_800.0), 0.015),
            ])
        };
        let span = (rng.log_range(span.0, span.1) / 60.0).round() * 60.0;
        let cluster = Cluster::new(seed, span);
        let every =
            if span > 6.0 * 3600.0 { rng.pick(&[30.0, 60.0]) } else { rng.pick(&[10.0, 15.0, 15.0, 30.0, 60.0]) };
        let pages = Pages {
            every,
            of_etcd: rng.chance(0.6),
            cgroups: rng.chance(0.6),
            missing: if rng.chance(0.1) { 0.02 } else { 0.0 },
        };
        let begin = (1_764_000_000 + (rng.unit() * 86_400.0 * 30.0) as Micros) * SECOND;
        let mut case = Self {
            cluster,
            begin,
            span,
            effects: Vec::new(),
            of_load: 0,
            memory: Vec::new(),
            pages,
            plans: Vec::new(),
            activities: Vec::new(),
            operations: Vec::new(),
        };
        if rng.chance(0.25) {
            case.cluster.offend(rng);
        }
        case.lay_episodes(episodes, rng);
        // What belongs to the load stands in front.
        let own = std::mem::take(&mut case.effects);
        if rng.chance(0.2) {
            case.start_up(rng);
        }
        case.of_load = case.effects.len();
        case.effects.extend(own);
        let activities = if episodes == 0 { rng.pick(&[0, 1, 1, 2]) } else { usize::from(rng.chance(0.15)) };
        for _ in 0..activities {
            activity(&mut case, activity_strength, rng);
        }
        if rng.chance(0.4) {
            for _ in 0..1 + rng.below(3) {
                let caller = rng.below(case.cluster.callers.len()) as u16;
                let at = rng.unit() * span;
                // What goes with it is little beside what is asked for in any case.
                let most = (2.0 * case.cluster.rate()).clamp(15.0, 300.0);
                let objects = f64::from(u8::from(rng.chance(0.5))) * rng.log_range(1.0, most).round();
                if !matches!(case.cluster.roles[usize::from(caller)], Role::Kubelet | Role::Controller) {
                    case.operations.push((at, caller, objects));
                }
            }
        }
        case.cluster.guard();
        case.operations.sort_by(|a, b| a.0.total_cmp(&b.0));
        case
    }

    fn lay_episodes(&mut self, count: usize, rng: &mut Rng) {
        for number in 0..count {
            let part = self.span / count as f64;
            let (first, last) = (part * number as f64, part * (number + 1) as f64);
            let mut kind = rng.weighted(&[
                (KINDS[0], 0.26),
                (KINDS[1], 0.13),
                (KINDS[2], 0.1),
                (KINDS[3], 0.15),
                (KINDS[4], 0.11),
                (KINDS[5], 0.1),
                (KINDS[6], 0.07),
                (KINDS[7], 0.04),
                (KINDS[8], 0.04),
            ]);
            if kind == "imbalance" && self.cluster.instances.len() < 2 {
                kind = "client-surge";
            }
            let longest = match kind {
                "relist-storm" => 180.0,
                "memory" => 900.0,
                "cascade-delete" => 1200.0,
                _ => 7200.0,
            };
            let may_shift = !matches!(kind, "relist-storm" | "memory" | "cascade-delete");
            let is_shift = may_shift && count == 1 && self.span <= 14_400.0 && rng.chance(0.1);
            let length = if is_shift {
                (part * rng.range(0.5, 0.72)).min(7200.0)
            } else {
                rng.log_range(20.0, f64::min(longest, 0.55 * part)).round()
            };
            let margin = (0.08 * part).max(60.0);
            let lowest = first + margin;
            let highest = (last - margin - length).max(lowest);
            let mut from = rng.range(lowest, highest).floor();
            let ends = rng.weighted(&[(0, 0.8), (1, 0.08), (2, 0.12)]);
            if may_shift && ends == 1 && number == 0 && length >= 180.0 {
                // It was there before.
                from = -length * rng.range(0.05, 0.4);
            }
            if ends == 2 && length >= 60.0 && number + 1 == count && kind != "cascade-delete" && kind != "memory" {
                from = (self.span - length * rng.range(0.6, 0.95)).floor();
            }
            let is_ramp = length >= 60.0 && rng.chance(0.2);
            let ramp = |rng: &mut Rng| if is_ramp { (length * rng.range(0.05, 0.35)).round() } else { 0.0 };
            let (up, down) = (ramp(rng), ramp(rng));
            let strength = rng.log_range(1.2, 40.0);
            let plan = Plan {
                kind,
                variant: "",
                strength,
                from,
                to: from + length,
                up,
                down,
                caller: None,
                instance: None,
                is_outage: false,
                back: 0.0,
            };
            lay(self, plan, rng);
        }
    }

    /// Everybody starts as the capture begins.
    fn start_up(&mut self, rng: &mut Rng) {
        let spread = rng.range(2.0, 6.0);
        let times = rng.range(2.0, 6.0);
        for stream in 0..self.cluster.streams.len() as u16 {
            let own = &self.cluster.streams[usize::from(stream)];
            let kind = &self.cluster.kinds[usize::from(own.kind)][0];
            if matches!(kind.as_str(), "watch" | "list" | "get") && own.rate > 0.0 {
                let count = own.rate * spread * times * if kind == "get" { 0.4 } else { 1.0 };
                self.effects.push(Effect::Pulse { stream, at: 0.0, spread, count });
            }
        }
    }

    /// Steps: a second around episodes, longer ones elsewhere.
    pub fn steps(&self) -> Vec<(f64, f64)> {
        let coarse = if self.span <= 3600.0 { 1.0 } else { tile_of(self.span) / 2.0 };
        let around = |plan: &Plan| Shape::new(plan.from - 30.0, plan.to + BEHIND);
        let fine: Vec<Shape> = self.plans.iter().map(around).collect();
        let mut steps = Vec::new();
        let mut t = 0.0;
        while t < self.span {
            let is_fine = fine.iter().any(|own| own.from < t + coarse && t < own.to);
            let mut left = coarse;
            if is_fine {
                while left > 0.0 {
                    steps.push((t, 1.0));
                    (t, left) = (t + 1.0, left - 1.0);
                }
            } else {
                steps.push((t, coarse));
                t += coarse;
            }
        }
        steps
    }
}
