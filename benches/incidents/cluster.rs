//! A cluster: its apiservers, who calls them, with what, how often, and how much they can take.

use crate::rng::{Rng, pow};
use plimsoll::analysis::judge::requests::{Caller, Kind};

/// How a caller's load goes with time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// Always the same.
    Steady,
    /// All of it within `on` seconds of each `period`, as cron jobs do.
    Burst { period: f64, on: f64, phase: f64 },
}

/// What a caller does with 429 and 5xx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    No,
    /// Waits as told, longer each time, five times at most.
    Polite,
    /// Again within a second, for as long as it takes.
    Impolite,
}

/// Which queue of priority and fairness requests wait in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Nodes = 0,
    Controllers = 1,
    Workloads = 2,
    /// A flow of its own, that of a caller which asks for far more than others.
    Elephant = 3,
}

/// Requests of one kind by one caller.
#[derive(Debug, Clone)]
pub struct Stream {
    pub caller: u16,
    pub kind: u16,
    /// A second, while nothing happens.
    pub rate: f64,
    /// CPU time of an apiserver, s.
    pub price: f64,
    /// How often etcd is asked.
    pub trips: f64,
    /// Whether etcd has to write.
    pub is_write: bool,
    pub is_watch: bool,
    pub level: Level,
    /// The apiserver that it is connected to; `None` of fleets, which are connected to all.
    pub home: Option<u8>,
    pub retry: Retry,
    /// Time between an answer and the next request of callers that wait for answers, s.
    pub think: Option<f64>,
    /// The part of requests that fails with 5xx all the time.
    pub chronic: f64,
    /// The webhook that looks at it.
    pub hook: Option<u8>,
    /// Clients give up after this long, s.
    pub timeout: f64,
    /// Spread of the rate, of its logarithm.
    pub noise: f64,
    pub form: Form,
}

/// An admission webhook.
#[derive(Debug, Clone)]
pub struct Hook {
    pub name: String,
    /// Resource whose writes it looks at.
    pub resource: &'static str,
    pub seconds: f64,
    pub timeout: f64,
    pub is_fail_closed: bool,
}

/// What roles callers have that episodes look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Kubelet,
    Controller,
    Operator,
    Lister,
    Reader,
    Writer,
    Human,
}

#[derive(Debug, Clone)]
pub struct Cluster {
    pub seed: u64,
    pub instances: Vec<String>,
    pub callers: Vec<Caller>,
    pub roles: Vec<Role>,
    pub kinds: Vec<Kind>,
    pub streams: Vec<Stream>,
    pub hooks: Vec<Hook>,
    /// Objects of the largest resource.
    pub objects: f64,
    /// CPU seconds a second of each apiserver.
    pub cpu: f64,
    /// Requests in flight at most, of each apiserver.
    pub seats: f64,
    /// Requests that may wait, by level.
    pub queue: [u32; 4],
    /// Whether levels are served fairly, or all first come, first served.
    pub is_fair: bool,
    /// A trip to etcd while nothing happens, s.
    pub etcd: f64,
    /// Trips a second that etcd takes; reads count a quarter.
    pub etcd_rate: f64,
    /// How much the load of all goes up and down with the day, and when.
    pub day: (f64, f64),
    /// How many times its mean the load is at its highest, of itself.
    pub peak: f64,
}

const REALMS: [&str; 12] =
    ["payments", "search", "ml", "data", "platform", "web", "checkout", "media", "iot", "billing", "edge", "risk"];
const OPERATORS: [&str; 12] = [
    "cert-manager",
    "argocd-application-controller",
    "kyverno",
    "external-secrets",
    "postgres-operator",
    "istiod",
    "karpenter",
    "crossplane",
    "strimzi",
    "flux-controller",
    "rook",
    "keda-operator",
];
const LISTERS: [&str; 8] =
    ["kube-state-metrics", "prometheus", "node-agent", "datadog-agent", "trivy", "kubecost", "falco", "descheduler"];
const READERS: [&str; 6] = ["gitlab-runner", "tekton", "jenkins", "python-requests", "java-client", "backstage"];
const WRITERS: [&str; 6] = ["spark-submit", "airflow", "event-exporter", "argo-workflows", "kubeflow", "job-runner"];
const HUMANS: [&str; 6] = ["alice", "bob", "carol", "dave", "erin", "frank"];
const CUSTOM: [(&str, &str); 6] = [
    ("cert-manager.io", "certificates"),
    ("argoproj.io", "applications"),
    ("example.com", "ledgers"),
    ("postgresql.cnpg.io", "clusters"),
    ("kafka.strimzi.io", "kafkatopics"),
    ("example.com", "widgets"),
];

impl Cluster {
    pub fn place_of_kind(&mut self, verb: &str, group: &str, resource: &str, subresource: &str) -> u16 {
        let kind = [verb, group, resource, subresource].map(str::to_owned);
        if let Some(place) = self.kinds.iter().position(|own| *own == kind) {
            return place as u16;
        }
        self.kinds.push(kind);
        (self.kinds.len() - 1) as u16
    }

    /// A further caller.
    pub fn add_caller(&mut self, user: String, agent: &str, role: Role) -> u16 {
        self.callers.push([user, agent.to_owned()]);
        self.roles.push(role);
        (self.callers.len() - 1) as u16
    }

    /// Requests of a kind; the first word of `what` is the verb, then group (`-` of the core), resource, subresource.
    pub fn add_stream(&mut self, caller: u16, what: &str, rate: f64, rng: &mut Rng) -> u16 {
        let mut words = what.split(' ');
        let mut next = || words.next().unwrap_or("");
        let (verb, group, resource, subresource) = (next(), next(), next(), next());
        let group = if group == "-" { "" } else { group };
        let kind = self.place_of_kind(verb, group, resource, subresource);
        let role = self.roles[caller as usize];
        let is_review = resource.ends_with("reviews") || subresource == "token";
        let is_write = matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection") && !is_review;
        let share = match resource {
            "pods" => 1.0,
            "events" | "secrets" | "configmaps" => 0.6,
            "nodes" => 0.1,
            _ => 0.2,
        };
        let price = match verb {
            "list" => 0.003 + self.objects * share * 6e-6,
            "watch" => 0.004,
            "get" => 0.0012,
            _ if is_review => 0.002,
            _ => 0.003,
        };
        let trips = match verb {
            "list" if role == Role::Controller || rng.chance(0.4) => 0.0,
            "list" => 2.0,
            "watch" => 0.0,
            _ if is_review => 0.2,
            _ => 1.0,
        };
        let level = match role {
            Role::Kubelet => Level::Nodes,
            Role::Controller => Level::Controllers,
            _ => Level::Workloads,
        };
        let count = self.instances.len();
        let home = (role != Role::Kubelet && count > 1).then(|| rng.below(count) as u8);
        let retry = match role {
            Role::Kubelet | Role::Controller => Retry::Polite,
            _ => rng.weighted(&[(Retry::No, 0.35), (Retry::Polite, 0.57), (Retry::Impolite, 0.08)]),
        };
        let think = (matches!(role, Role::Controller | Role::Operator | Role::Reader) && rng.chance(0.4))
            .then(|| rng.log_range(0.3, 5.0));
        let is_hooked = is_write && matches!(subresource, "" | "eviction");
        let hook = self.hooks.iter().position(|hook| is_hooked && hook.resource == resource).map(|own| own as u8);
        self.streams.push(Stream {
            caller,
            kind,
            rate,
            price,
            trips,
            is_write,
            is_watch: verb == "watch",
            level,
            home,
            retry,
            think,
            chronic: 0.0,
            hook,
            timeout: if resource == "leases" { 10.0 } else { 60.0 },
            noise: 0.05,
            form: Form::Steady,
        });
        (self.streams.len() - 1) as u16
    }

    fn mix(&mut self, caller: u16, rate: f64, mix: &[(&str, f64)], rng: &mut Rng) {
        for (what, share) in mix {
            self.add_stream(caller, what, rate * share, rng);
        }
    }

    /// One at random.
    pub fn new(seed: u64, span: f64) -> Self {
        let rng = &mut Rng::new(seed, 1);
        // Long captures are of smaller clusters, or they would take all memory and time.
        let is_long = span > 6.0 * 3600.0;
        let count = rng.weighted(&[(1, 0.25), (2, 0.4), (3, 0.35)]);
        let callers = (rng.log_range(3.0, if is_long { 40.0 } else { 300.0 }).round() as usize).max(3);
        let total = rng.log_range(10.0, if is_long { 100.0 } else { 500.0 });
        let mut cluster = Self {
            seed,
            instances: (0..count).map(|n| format!("apiserver-{n}")).collect(),
            callers: Vec::new(),
            roles: Vec::new(),
            kinds: Vec::new(),
            streams: Vec::new(),
            hooks: Vec::new(),
            objects: rng.log_range(200.0, 6000.0) * (total / 50.0).clamp(0.5, 3.0),
            cpu: 0.0,
            seats: rng.log_range(100.0, 600.0).round(),
            queue: std::array::from_fn(|_| (total * rng.log_range(0.3, 6.0)).clamp(50.0, 1500.0) as u32),
            is_fair: rng.chance(0.7),
            etcd: rng.log_range(0.002, 0.012),
            etcd_rate: 0.0,
            day: (0.0, rng.unit()),
            peak: 1.0,
        };
        for (name, resource) in [("validate.kyverno.svc", "pods"), ("mutate.istio.io", "configmaps")] {
            let base = rng.log_range(0.003, 0.03);
            let timeout = rng.pick(&[5.0, 10.0, 30.0]);
            let is_fail_closed = rng.chance(0.6);
            cluster.hooks.push(Hook { name: name.to_owned(), resource, seconds: base, timeout, is_fail_closed });
        }
        cluster.populate(callers, total, rng);
        cluster.shape(rng);
        cluster
    }

    fn populate(&mut self, callers: usize, total: f64, rng: &mut Rng) {
        let nodes = rng.range(0.2, 0.5);
        let own = rng.range(0.12, 0.3);
        let kubelet = self.add_caller("system:node:*".to_owned(), "kubelet", Role::Kubelet);
        self.mix(
            kubelet,
            total * nodes,
            &[
                ("update coordination.k8s.io leases", 0.36),
                ("patch - nodes status", 0.1),
                ("get - configmaps", 0.12),
                ("get - secrets", 0.08),
                ("get - pods", 0.1),
                ("patch - pods status", 0.1),
                ("create - events", 0.06),
                ("create - serviceaccounts token", 0.05),
                ("watch - configmaps", 0.03),
            ],
            rng,
        );
        let manager =
            self.add_caller("system:kube-controller-manager".to_owned(), "kube-controller-manager", Role::Controller);
        self.mix(
            manager,
            (total * own * 0.4).max(1.0),
            &[
                ("update coordination.k8s.io leases", 0.4),
                ("get - serviceaccounts", 0.3),
                ("create authentication.k8s.io tokenreviews", 0.3),
            ],
            rng,
        );
        let controllers = [
            ("replicaset-controller", "create - pods", "update apps replicasets status"),
            ("deployment-controller", "update apps deployments status", "create apps replicasets"),
            ("endpointslice-controller", "update discovery.k8s.io endpointslices", "create - events"),
            ("generic-garbage-collector", "delete - pods", "get - pods"),
            ("namespace-controller", "list - configmaps", "delete - configmaps"),
            ("job-controller", "create - pods", "update batch jobs status"),
        ];
        let many = if callers > 8 { controllers.len() } else { 0 };
        for (name, first, second) in controllers.iter().take(many) {
            let user = format!("system:serviceaccount:kube-system:{name}");
            let caller = self.add_caller(user, "kube-controller-manager", Role::Controller);
            let rate = total * own * 0.6 / many as f64 * rng.range(0.4, 1.6);
            self.mix(caller, rate, &[(first, 0.55), (second, 0.44), ("watch - pods", 0.01)], rng);
        }
        let caller = self.add_caller("system:kube-scheduler".to_owned(), "kube-scheduler", Role::Controller);
        let mix =
            [("update coordination.k8s.io leases", 0.4), ("create - pods binding", 0.4), ("create - events", 0.2)];
        self.mix(caller, (total * own * 0.1).max(0.5), &mix, rng);
        let rest = callers.saturating_sub(self.callers.len()).max(1);
        // Heavy tails: few callers make most requests.
        let weights: Vec<f64> = (0..rest).map(|_| pow(rng.unit(), -0.8).min(60.0)).collect();
        let sum: f64 = weights.iter().sum();
        for (n, weight) in weights.iter().enumerate() {
            self.workload(n, total * (1.0 - nodes - own) * weight / sum, rng);
        }
    }

    /// A caller of the cluster's users.
    fn workload(&mut self, n: usize, rate: f64, rng: &mut Rng) {
        let realm = rng.pick(&REALMS);
        let (group, resource) = rng.pick(&CUSTOM);
        let role = rng.weighted(&[
            (Role::Operator, 0.4),
            (Role::Lister, 0.15),
            (Role::Reader, 0.2),
            (Role::Writer, 0.15),
            (Role::Human, 0.1),
        ]);
        let account = |name: &str| format!("system:serviceaccount:{realm}:{name}-{n}");
        let (user, agent) = match role {
            Role::Lister => (account("agent"), rng.pick(&LISTERS)),
            Role::Reader => (account("ci"), rng.pick(&READERS)),
            Role::Writer => (account("jobs"), rng.pick(&WRITERS)),
            Role::Human => (format!("{}-{n}@example.com", rng.pick(&HUMANS)), "kubectl"),
            _ => (account("operator"), rng.pick(&OPERATORS)),
        };
        let caller = self.add_caller(user, agent, role);
        let of = |verb: &str| format!("{verb} {group} {resource}");
        match role {
            Role::Lister => {
                let lists = (rate * 0.1).min(0.4);
                self.mix(caller, 1.0, &[("list - pods", lists * 0.6), ("list - nodes", lists * 0.4)], rng);
                self.mix(caller, rate - lists, &[("get - pods", 0.97), ("watch - pods", 0.03)], rng);
            }
            Role::Reader => {
                let mix = [("get - pods", 0.6), ("get apps deployments", 0.3), ("create - configmaps", 0.1)];
                self.mix(caller, rate, &mix, rng);
            }
            Role::Writer => {
                let mix =
                    [("create - pods", 0.2), ("get - pods", 0.5), ("create - events", 0.2), ("patch batch jobs", 0.1)];
                self.mix(caller, rate, &mix, rng);
            }
            Role::Human => {
                let rate = rate.min(2.0);
                self.mix(
                    caller,
                    rate,
                    &[("get - pods", 0.7), ("list - services", 0.2), ("list apps deployments", 0.1)],
                    rng,
                );
            }
            _ => {
                let lease = (rate * 0.3).min(0.5);
                self.add_stream(caller, "update coordination.k8s.io leases", lease, rng);
                let left = rate - lease;
                self.add_stream(caller, &of("get"), left * 0.5, rng);
                self.add_stream(caller, &of("update"), left * 0.25, rng);
                self.add_stream(caller, "get - secrets", left * 0.2, rng);
                self.add_stream(caller, &of("list"), (left * 0.03).min(0.05), rng);
                self.add_stream(caller, &of("watch"), left * 0.02, rng);
            }
        }
    }

    /// How load goes with time, and what there is to take it.
    fn shape(&mut self, rng: &mut Rng) {
        let form = rng.weighted(&[(0, 0.3), (1, 0.2), (2, 0.25), (3, 0.25)]);
        let mut peak: f64 = 1.15;
        if form == 1 {
            self.day.0 = rng.range(0.25, 0.6);
            peak += self.day.0;
        }
        if form == 2 {
            let share = rng.range(0.15, 0.5);
            let period = rng.pick(&[60.0, 60.0, 300.0, 3600.0]);
            let on = rng.range(3.0, 15.0);
            let phase = rng.range(0.0, 5.0);
            let (mut bursty, mut all) = (0.0, 0.0);
            for caller in 0..self.callers.len() {
                let is_bursty = !matches!(self.roles[caller], Role::Kubelet | Role::Controller) && rng.chance(share);
                let own = self.streams.iter_mut().filter(|stream| stream.caller as usize == caller);
                // By the hour there would be too much at a time.
                let factor = if period > 1000.0 { 0.1 } else { 0.5 };
                for stream in own {
                    if is_bursty {
                        stream.rate *= factor;
                        stream.form = Form::Burst { period, on, phase };
                        bursty += stream.rate * stream.price;
                    }
                    all += stream.rate * stream.price;
                }
            }
            peak += bursty / f64::max(all, 1e-9) * period / on;
        }
        if form == 3 {
            let noise = rng.range(0.15, 0.45);
            self.streams.iter_mut().for_each(|stream| stream.noise = noise);
            peak += noise;
        }
        let full = rng.range(0.08, 0.55).min(0.8 / peak);
        let work: f64 = self.streams.iter().map(|stream| stream.rate * stream.price).sum();
        let dearest = self.streams.iter().map(|stream| stream.price).fold(0.0, f64::max);
        // Where one apiserver of two is away, the other has to do.
        let count = self.instances.len() as f64;
        self.cpu = (work / count / full).max(12.0 * dearest).max(0.1);
        self.peak = peak;
        let full = rng.range(0.05, 0.45).min(0.8 / peak);
        self.etcd_rate = (self.trips() / full).max(60.0);
    }

    /// Nobody lives with a cluster that is too small for its own load.
    pub fn guard(&mut self) {
        let count = self.instances.len();
        let mut works = vec![0.0; count];
        for own in &self.streams {
            let work = own.rate * own.price;
            match own.home {
                Some(home) => works[usize::from(home)] += work,
                None => works.iter_mut().for_each(|all| *all += work / count as f64),
            }
        }
        let most = works.into_iter().fold(0.0, f64::max);
        self.cpu = self.cpu.max(most * self.peak / 0.65);
        self.etcd_rate = self.etcd_rate.max(self.trips() * self.peak / 0.75);
    }

    /// Trips to etcd a second while nothing happens.
    pub fn trips(&self) -> f64 {
        self.streams.iter().map(|own| own.rate * own.trips * if own.is_write { 1.0 } else { 0.25 }).sum()
    }

    /// CPU time asked for a second, while nothing happens.
    pub fn work(&self) -> f64 {
        self.streams.iter().map(|own| own.rate * own.price).sum()
    }

    /// Requests a second, while nothing happens.
    pub fn rate(&self) -> f64 {
        self.streams.iter().map(|own| own.rate).sum()
    }

    /// Chronic offenders: some callers ask for what fails, all the time.
    pub fn offend(&mut self, rng: &mut Rng) {
        let place = rng.below(self.callers.len());
        if matches!(self.roles[place], Role::Kubelet | Role::Controller) {
            return;
        }
        let caller = place as u16;
        let rate = self.rate();
        match rng.below(3) {
            0 => {
                // An aggregated API that nobody serves: 503 for ever.
                let own = self.add_stream(caller, "get metrics.k8s.io pods", rate * rng.range(0.002, 0.012), rng);
                self.streams[own as usize].chronic = 1.0;
            }
            1 => {
                self.add_stream(caller, "get - endpoints", rate * rng.range(0.05, 0.2), rng);
            }
            _ => {
                let lists = (0.15 * self.cpu / (0.003 + self.objects * 6e-6)).min(0.1 * rate);
                self.add_stream(caller, "list - pods", lists, rng);
            }
        }
    }
}
