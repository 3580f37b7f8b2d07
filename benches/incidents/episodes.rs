//! What happens in a case: episodes, harmless activity, operations of people.

use crate::case::Case;
use crate::cluster::{Level, Retry, Role};
use crate::metrics::Memory;
use crate::rng::{Rng, pow};
use crate::sim::{Effect, Shape};

/// Kinds of causes.
pub const KINDS: [&str; 9] = [
    "client-surge",
    "write-burst",
    "load-surge",
    "slow-etcd",
    "webhook-drag",
    "relist-storm",
    "cascade-delete",
    "imbalance",
    "memory",
];

/// An episode as it is laid into a case: times in seconds since the capture begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub kind: &'static str,
    pub variant: &'static str,
    /// Times the usual.
    pub strength: f64,
    pub from: f64,
    pub to: f64,
    pub up: f64,
    pub down: f64,
    /// Who is to blame.
    pub caller: Option<u16>,
    pub instance: Option<u8>,
    /// Nobody answers at all.
    pub is_outage: bool,
    /// How long clients take to come back to what was away, s.
    pub back: f64,
}

impl Plan {
    pub fn shape(&self) -> Shape {
        Shape { from: self.from, to: self.to, up: self.up, down: self.down }
    }

    /// From when until when it holds, ramps to their half.
    pub fn edges(&self, span: f64) -> (f64, f64) {
        ((self.from + self.up / 2.0).max(0.0), (self.to - self.down / 2.0).min(span))
    }
}

/// Lays an episode into a case.
pub fn lay(case: &mut Case, plan: Plan, rng: &mut Rng) {
    let plan = match plan.kind {
        "client-surge" => client_surge(case, plan, rng),
        "write-burst" => write_burst(case, plan, rng),
        "load-surge" => load_surge(case, plan),
        "slow-etcd" => slow_etcd(case, plan, rng),
        "webhook-drag" => webhook_drag(case, plan, rng),
        "relist-storm" => relist_storm(case, plan, rng),
        "cascade-delete" => cascade_delete(case, plan, rng),
        "imbalance" => imbalance(case, plan, rng),
        _ => memory(case, plan, rng),
    };
    case.plans.push(plan);
}

/// Others ask for more while a caller does, as its controllers do or by chance: each of them adds up to half of what it
/// adds, in CPU time.
fn companions(case: &mut Case, plan: &Plan, rng: &mut Rng) {
    if !rng.chance(0.35) {
        return;
    }
    let work = |streams: &[u16], case: &Case| -> f64 {
        let of =
            |own: &u16| case.cluster.streams[usize::from(*own)].rate * case.cluster.streams[usize::from(*own)].price;
        streams.iter().map(of).sum()
    };
    let added: f64 = case
        .effects
        .iter()
        .map(|own| match own {
            Effect::Add { stream, rate, .. } => rate * case.cluster.streams[usize::from(*stream)].price,
            _ => 0.0,
        })
        .sum();
    for _ in 0..1 + rng.below(3) {
        let other = rng.below(case.cluster.callers.len()) as u16;
        if plan.caller == Some(other) {
            continue;
        }
        let streams: Vec<u16> = (0..case.cluster.streams.len() as u16)
            .filter(|own| case.cluster.streams[usize::from(*own)].caller == other)
            .collect();
        let most = 0.5 * added / work(&streams, case).max(1e-6);
        let times = 1.0 + rng.log_range(0.3, 20.0).min(rng.range(0.3, 1.0) * most);
        case.effects.push(Effect::Times { streams, shape: plan.shape(), times });
    }
}

/// A caller of its own, asking for `added` more while the episode lasts: what it asks for before is the part of it that
/// its strength says.
fn surge(case: &mut Case, plan: &Plan, user: &str, agent: &str, mix: &[(&str, f64)], added: f64, rng: &mut Rng) -> u16 {
    let number = case.cluster.callers.len();
    let caller = case.cluster.add_caller(format!("{user}-{number}"), agent, Role::Writer);
    let base = (added / (plan.strength - 1.0)).min(0.25 * case.cluster.rate());
    let added = base * (plan.strength - 1.0);
    let is_fleet = rng.chance(0.5);
    let home = rng.below(case.cluster.instances.len()) as u8;
    let retry = rng.weighted(&[(Retry::Impolite, 0.35), (Retry::Polite, 0.35), (Retry::No, 0.3)]);
    for (what, share) in mix {
        let stream = case.cluster.add_stream(caller, what, base * share, rng);
        let is_fair = case.cluster.is_fair;
        let own = &mut case.cluster.streams[usize::from(stream)];
        own.think = None;
        own.retry = retry;
        own.home = (!is_fleet && own.home.is_some()).then_some(home);
        if is_fair {
            own.level = Level::Elephant;
        }
        case.effects.push(Effect::Add { stream, shape: plan.shape(), rate: added * share });
    }
    caller
}

fn capacity(case: &Case) -> f64 {
    case.cluster.cpu * case.cluster.instances.len() as f64
}

fn client_surge(case: &mut Case, mut plan: Plan, rng: &mut Rng) -> Plan {
    let all = ["list", "list", "read", "reviews", "hot-loop"];
    plan.variant = rng.pick(&all);
    let (user, agent, mix, price): (&str, &str, &[(&str, f64)], f64) = match plan.variant {
        "list" => {
            let price = 0.003 + case.cluster.objects * 6e-6;
            ("system:serviceaccount:monitoring:node-agent", "node-agent", &[("list - pods", 1.0)], price)
        }
        "read" => (
            "system:serviceaccount:ci:runner",
            "gitlab-runner",
            &[("get - pods", 0.8), ("get - configmaps", 0.2)],
            0.0012,
        ),
        "reviews" => (
            "system:serviceaccount:auth:proxy",
            "kube-rbac-proxy",
            &[
                ("create authentication.k8s.io tokenreviews", 0.5),
                ("create authorization.k8s.io subjectaccessreviews", 0.5),
            ],
            0.002,
        ),
        _ => (
            "system:serviceaccount:platform:operator",
            "widget-operator",
            &[("get example.com widgets", 0.85), ("update example.com widgets status", 0.15)],
            0.0015,
        ),
    };
    let full = rng.log_range(0.15, 4.0);
    let added = (full * capacity(case) / price).min(3000.0);
    plan.caller = Some(surge(case, &plan, user, agent, mix, added, rng));
    companions(case, &plan, rng);
    plan
}

fn write_burst(case: &mut Case, mut plan: Plan, rng: &mut Rng) -> Plan {
    plan.variant = rng.pick(&["events", "objects", "configmaps"]);
    let (user, agent, mix): (&str, &str, &[(&str, f64)]) = match plan.variant {
        "events" => ("system:serviceaccount:batch:spark", "spark-submit", &[("create - events", 1.0)]),
        "objects" => (
            "system:serviceaccount:data:importer",
            "importer",
            &[("create example.com ledgers", 0.6), ("update example.com ledgers", 0.4)],
        ),
        _ => ("system:serviceaccount:web:syncer", "config-syncer", &[("update - configmaps", 1.0)]),
    };
    let added = (rng.log_range(0.15, 4.0) * case.cluster.etcd_rate.min(capacity(case) / 0.003)).min(3000.0);
    plan.caller = Some(surge(case, &plan, user, agent, mix, added, rng));
    companions(case, &plan, rng);
    plan
}

fn load_surge(case: &mut Case, mut plan: Plan) -> Plan {
    plan.strength = pow(plan.strength, 0.6).max(1.2);
    let streams = (0..case.cluster.streams.len() as u16).collect();
    case.effects.push(Effect::Times { streams, shape: plan.shape(), times: plan.strength });
    plan
}

fn slow_etcd(case: &mut Case, mut plan: Plan, rng: &mut Rng) -> Plan {
    let is_inside = plan.from > 0.0 && plan.to < case.span;
    if is_inside && plan.to - plan.from <= 120.0 && rng.chance(0.5) {
        plan.variant = "stall";
        plan.strength = 40.0;
        (plan.up, plan.down) = (0.0, 0.0);
        case.effects.push(Effect::Stall { from: plan.from, to: plan.to });
    } else {
        plan.variant = "slow";
        let reads = rng.pick(&[0.05, 0.3, 1.0]);
        case.effects.push(Effect::Store { shape: plan.shape(), times: plan.strength, reads });
    }
    plan
}

fn webhook_drag(case: &mut Case, mut plan: Plan, rng: &mut Rng) -> Plan {
    let hook = rng.below(case.cluster.hooks.len()) as u8;
    let is_broad = rng.chance(0.5);
    plan.variant = "slow";
    let shape = plan.shape();
    let kinds = case.cluster.kinds.clone();
    for own in &mut case.cluster.streams {
        let [_, group, resource, subresource] = &kinds[usize::from(own.kind)];
        if is_broad && own.is_write && group != "coordination.k8s.io" && resource != "events" && subresource.is_empty()
        {
            own.hook = Some(hook);
        }
    }
    // Of what it looks at, there should be something.
    let known = &mut case.cluster.hooks[usize::from(hook)];
    let (mut times, mut fails) = (plan.strength, 0.0);
    if rng.chance(0.4) {
        (plan.variant, fails) = ("failing", rng.range(0.3, 1.0));
        known.is_fail_closed = true;
        times = 1.0;
        plan.strength = 40.0 * fails;
    }
    let what = format!("create - {}", known.resource);
    let rate = case.cluster.rate() * rng.log_range(0.005, 0.06);
    let caller = case.cluster.add_caller("system:serviceaccount:web:deployer".to_owned(), "helm", Role::Operator);
    let stream = case.cluster.add_stream(caller, &what, rate, rng);
    case.cluster.streams[usize::from(stream)].hook = Some(hook);
    case.effects.push(Effect::Hook { hook, shape, times, fails });
    plan
}

/// Callers of an apiserver reconnect to others, with watches and LISTs: `count` in all.
fn relist(case: &mut Case, instance: Option<u8>, at: f64, spread: f64, count: f64, rng: &mut Rng) {
    let mut weights: Vec<(u16, f64, f64)> = Vec::new();
    for caller in 0..case.cluster.callers.len() as u16 {
        let own: Vec<u16> = (0..case.cluster.streams.len() as u16)
            .filter(|stream| case.cluster.streams[usize::from(*stream)].caller == caller)
            .collect();
        let Some(first) = own.first() else { continue };
        let home = case.cluster.streams[usize::from(*first)].home;
        if instance.is_some() && home.is_some() && home != instance {
            continue;
        }
        let role = case.cluster.roles[usize::from(caller)];
        if matches!(role, Role::Human | Role::Reader) {
            continue;
        }
        let rate: f64 = own.iter().map(|stream| case.cluster.streams[usize::from(*stream)].rate).sum();
        let find = |case: &Case, verb: &str| {
            let verb_of =
                |stream: u16| &case.cluster.kinds[usize::from(case.cluster.streams[usize::from(stream)].kind)][0];
            own.iter().copied().find(|stream| verb_of(*stream) == verb)
        };
        let weight = rate.max(0.0).sqrt();
        let watch = match find(case, "watch") {
            Some(watch) => watch,
            None => case.cluster.add_stream(caller, "watch - pods", 0.0, rng),
        };
        let list = match find(case, "list") {
            Some(list) => list,
            None => {
                let what = if role == Role::Kubelet { "list - services" } else { "list - pods" };
                case.cluster.add_stream(caller, what, 0.0, rng)
            }
        };
        weights.push((watch, weight, 0.7));
        weights.push((list, weight, 0.3));
    }
    let sum: f64 = weights.iter().map(|own| own.1 * own.2).sum();
    for (stream, weight, share) in weights {
        let count = count * weight * share / sum.max(1e-9);
        case.effects.push(Effect::Pulse { stream, at, spread, count });
    }
}

fn relist_storm(case: &mut Case, mut plan: Plan, rng: &mut Rng) -> Plan {
    let instance = rng.below(case.cluster.instances.len()) as u8;
    let is_alone = case.cluster.instances.len() == 1;
    (plan.up, plan.down) = (0.0, 0.0);
    plan.instance = Some(instance);
    plan.is_outage = is_alone;
    plan.variant = if is_alone { "alone" } else { "one of several" };
    let back = if rng.chance(0.6) { 30.0 } else { rng.range(120.0, 900.0) };
    plan.back = back;
    case.effects.push(Effect::Down { instance, from: plan.from, to: plan.to, back });
    let spread = rng.range(3.0, 15.0);
    let count = (0.25 * plan.strength * case.cluster.rate() * spread).min(30_000.0);
    let at = if is_alone { plan.to + 1.0 } else { plan.from + 3.0 };
    let only = (!is_alone).then_some(instance);
    relist(case, only, at, spread, count, rng);
    plan
}

fn cascade_delete(case: &mut Case, mut plan: Plan, rng: &mut Rng) -> Plan {
    let own = |case: &Case, name: &str| case.cluster.callers.iter().position(|caller| caller[0].ends_with(name));
    let controller = |case: &mut Case, name: &str| match own(case, name) {
        Some(place) => place as u16,
        None => {
            let user = format!("system:serviceaccount:kube-system:{name}");
            case.cluster.add_caller(user, "kube-controller-manager", Role::Controller)
        }
    };
    let namespaces = controller(case, "namespace-controller");
    let collector = controller(case, "generic-garbage-collector");
    (plan.up, plan.down) = (0.0, plan.down);
    let user = format!("{}@example.com", rng.pick(&["olga", "pete", "quinn"]));
    let human = case.cluster.add_caller(user, "kubectl", Role::Human);
    plan.caller = Some(human);
    plan.variant = rng.pick(&["namespace", "collection"]);
    let added = (rng.log_range(0.1, 3.0) * case.cluster.etcd_rate).min(2000.0);
    plan.strength = (1.0 + added / case.cluster.rate()).clamp(1.2, 40.0);
    let what = if plan.variant == "namespace" { "delete - namespaces" } else { "deletecollection example.com ledgers" };
    let own = case.cluster.add_stream(human, what, 0.0, rng);
    case.effects.push(Effect::Pulse { stream: own, at: plan.from, spread: 0.5, count: rng.range(1.0, 4.0).ceil() });
    let mix: [(u16, &str, f64); 5] = [
        (namespaces, "deletecollection - configmaps", 0.03),
        (namespaces, "delete example.com ledgers", 0.2),
        (collector, "delete - pods", 0.35),
        (collector, "get - pods", 0.22),
        (0, "patch - pods status", 0.2),
    ];
    for (caller, what, share) in mix {
        let stream = case.cluster.add_stream(caller, what, 0.0, rng);
        let mut shape = plan.shape();
        shape.from += 1.0;
        case.effects.push(Effect::Add { stream, shape, rate: added * share });
    }
    let objects = added * 0.58 * (plan.to - plan.from);
    case.operations.push((plan.from + 0.5, human, objects.round()));
    plan
}

fn imbalance(case: &mut Case, mut plan: Plan, rng: &mut Rng) -> Plan {
    let count = case.cluster.instances.len();
    let instance = rng.below(count) as u8;
    let share = rng.range(0.6, 1.0);
    // One that has to carry it all matters where there is not much room.
    let full = rng.range(0.25, 0.6);
    let dearest = case.cluster.streams.iter().map(|own| own.price).fold(0.0, f64::max);
    case.cluster.cpu = (case.cluster.work() / count as f64 / full).max(8.0 * dearest).min(case.cluster.cpu);
    plan.strength = 1.0 + share * (count as f64 - 1.0);
    plan.instance = Some(instance);
    plan.variant = "pinned";
    case.effects.push(Effect::Pin { instance, shape: plan.shape(), share });
    plan
}

fn memory(case: &mut Case, mut plan: Plan, rng: &mut Rng) -> Plan {
    let instance = rng.below(case.cluster.instances.len()) as u8;
    let is_alone = case.cluster.instances.len() == 1;
    (plan.up, plan.down) = (0.0, 0.0);
    plan.instance = Some(instance);
    plan.is_outage = is_alone;
    plan.variant = "killed";
    let length = plan.to - plan.from;
    let kills = if length > 150.0 { 2 + rng.below(3) } else { 1 };
    let every = length / kills as f64;
    let away = if kills == 1 { length } else { (0.3 * every).clamp(8.0, 40.0) };
    let mut fill = rng.range(60.0, 400.0);
    let spread = rng.range(3.0, 12.0);
    let mut from = plan.from;
    let count = (0.25 * plan.strength.min(10.0) * case.cluster.rate() * spread).min(20_000.0);
    for _ in 0..kills {
        let shape = Shape::new(from - fill, from);
        case.memory.push(Memory { instance, shape, kill: Some(from) });
        case.effects.push(Effect::Down { instance, from, to: from + away, back: 30.0 });
        let at = if is_alone { from + away + 1.0 } else { from + 3.0 };
        relist(case, (!is_alone).then_some(instance), at, spread, count, rng);
        plan.to = from + away;
        fill = every - away;
        from += every;
    }
    plan
}

/// Much that happens and harms nobody.
pub fn activity(case: &mut Case, strength: f64, rng: &mut Rng) {
    let length = rng.log_range(30.0, (0.4 * case.span).min(1200.0));
    let from = rng.range(0.05, 0.95) * (case.span - length).max(1.0);
    let shape = Shape { from, to: from + length, up: 0.0, down: 0.0 };
    let name = rng.pick(&["backup", "roll-out", "scale-up", "kubectl"]);
    let rate = case.cluster.rate();
    let room = strength * (capacity(case) - case.cluster.work()).max(0.0);
    let writes = strength * (case.cluster.etcd_rate - case.cluster.trips()).max(0.0);
    let add = |case: &mut Case, caller: u16, what: &str, more: f64, rng: &mut Rng| {
        let stream = case.cluster.add_stream(caller, what, 0.0, rng);
        case.effects.push(Effect::Add { stream, shape, rate: more });
    };
    match name {
        "backup" => {
            let user = "system:serviceaccount:velero:velero".to_owned();
            let caller = case.cluster.add_caller(user, "velero-server", Role::Lister);
            // Pages of 500 cost what 500 objects cost.
            let lists = (0.25 * room / 0.006).min(8.0);
            for (what, share) in [("list - pods", 0.3), ("list - secrets", 0.3), ("list - configmaps", 0.4)] {
                add(case, caller, what, lists * share, rng);
                if let Some(own) = case.cluster.streams.last_mut() {
                    own.price = 0.006;
                }
            }
        }
        "roll-out" => {
            let more = (0.3 * rate).min(0.25 * writes);
            let controller = case.cluster.callers.iter().position(|own| own[0].ends_with("replicaset-controller"));
            let caller = controller.unwrap_or(1) as u16;
            for (caller, what, share) in [
                (caller, "create - pods", 0.15),
                (caller, "update apps replicasets status", 0.15),
                (0, "patch - pods status", 0.4),
                (0, "create - events", 0.3),
            ] {
                add(case, caller, what, more * share, rng);
            }
        }
        "scale-up" => {
            let count = (0.2 * writes * 5.0).min(rate * 10.0);
            for (what, share) in [
                ("create - nodes", 0.02),
                ("list - services", 0.1),
                ("watch - configmaps", 0.4),
                ("create - events", 0.3),
            ] {
                let stream = case.cluster.add_stream(0, what, 0.0, rng);
                case.effects.push(Effect::Pulse { stream, at: from, spread: 5.0, count: count * share });
            }
        }
        _ => {
            let caller = case.cluster.add_caller("mallory@example.com".to_owned(), "kubectl", Role::Human);
            add(case, caller, "get - pods", 0.3, rng);
            add(case, caller, "list - events", (0.1 * room / 0.02).min(0.1), rng);
        }
    }
    case.activities.push((name, from, from + length));
}
