//! Cases as files: audit logs and metrics pages that the program itself can be run on, and what is true of them.

use crate::case::Case;
use crate::cluster::Cluster;
use crate::metrics::Metrics;
use crate::rng::hash;
use crate::sim::{End, Outcome, Sink, simulate, starts};
use crate::truth::{Truth, prepare};
use plimsoll::model::time::{Micros, SECOND};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Longer captures, and those of more requests, are not worth their disk.
const MAX_SPAN_S: f64 = 1500.0;
const MAX_REQUESTS: f64 = 150_000.0;

/// Keeps what ends.
struct Log {
    ends: Vec<End>,
    metrics: Metrics,
    span: f64,
}

impl Sink for Log {
    fn end(&mut self, end: &End) {
        if end.at < self.span {
            self.ends.push(*end);
        }
        self.metrics.end(end);
    }

    fn server(&mut self, t: f64, dt: f64, instance: u8, inflight: Option<f64>) {
        self.metrics.server(t, dt, instance, inflight);
    }

    fn store(&mut self, t: f64, dt: f64, seconds: f64, writes: f64, is_stalled: bool) {
        self.metrics.store(t, dt, seconds, writes, is_stalled);
    }
}

/// Writes the first cases that are small enough.
pub fn write(folder: &Path, cases: usize) -> Result<(), String> {
    let mut written = 0;
    for seed in 0..10_000 {
        if written >= cases {
            break;
        }
        let case = Case::new(seed, 1.0);
        if case.span > MAX_SPAN_S || case.cluster.rate() * case.span > MAX_REQUESTS {
            continue;
        }
        let ready = prepare(seed);
        if ready.tamed > 0 || ready.totals.arrivals as f64 > 2.0 * MAX_REQUESTS {
            continue;
        }
        let own = folder.join(format!("case-{seed}"));
        one(&own, &case, &ready.truths).map_err(|error| format!("cannot write {}: {error}", own.display()))?;
        println!("{}", own.display());
        written += 1;
    }
    Ok(())
}

fn one(folder: &Path, case: &Case, truths: &[Truth]) -> std::io::Result<()> {
    let mut log = Log {
        ends: Vec::new(),
        metrics: Metrics::new(&case.cluster, &case.effects, &case.memory, case.pages, case.begin, case.span),
        span: case.span,
    };
    simulate(&case.cluster, &case.effects, &case.steps(), &mut log);
    log.ends.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.stream.cmp(&b.stream)));
    for (instance, name) in case.cluster.instances.iter().enumerate() {
        let audit = folder.join("audit").join(name);
        std::fs::create_dir_all(&audit)?;
        let mut file = std::io::BufWriter::new(std::fs::File::create(audit.join("audit.log"))?);
        let mut started = starts(&case.effects, case.span).filter(|own| usize::from(own.1) == instance).peekable();
        for (number, end) in log.ends.iter().enumerate().filter(|own| usize::from(own.1.instance) == instance) {
            while let Some((at, _)) = started.next_if(|own| own.0 <= end.at) {
                writeln!(file, "{}", start(case, instance, at))?;
            }
            for copy in 0..end.count {
                let event = event(case, end, hash(case.begin as u64, number as u64, u64::from(copy), 9));
                writeln!(file, "{event}")?;
            }
        }
        for (at, _) in started {
            writeln!(file, "{}", start(case, instance, at))?;
        }
        file.flush()?;
    }
    for (name, at, text) in log.metrics.pages(&case.cluster) {
        let pages = folder.join("metrics").join(name);
        std::fs::create_dir_all(&pages)?;
        std::fs::write(pages.join(format!("{}.txt", at / SECOND)), text)?;
    }
    let truths: Vec<Value> = truths.iter().map(truth).collect();
    let text = serde_json::to_string_pretty(
        &json!({ "span": [time(case.begin), time(case.begin + (case.span * 1e6) as Micros)],
        "episodes": truths }),
    )?;
    std::fs::write(folder.join("truth.json"), text + "\n")
}

fn truth(own: &Truth) -> Value {
    json!({
        "kind": own.kind,
        "variant": own.variant,
        "strength": own.strength,
        "from": time(own.from),
        "to": time(own.to),
        "cause_to": time(own.cause_to),
        "back_to": time(own.back_to),
        "caller": own.caller,
        "instance": own.instance,
        "felt": own.felt,
        "grade": format!("{:?}", own.grade).to_lowercase(),
    })
}

fn time(at: Micros) -> String {
    plimsoll::model::time::format(at)
}

/// An event of an audit log.
fn event(case: &Case, end: &End, luck: u64) -> Value {
    let cluster = &case.cluster;
    let own = &cluster.streams[usize::from(end.stream)];
    let [user, agent] = &cluster.callers[usize::from(own.caller)];
    let kind = &cluster.kinds[usize::from(own.kind)];
    let [verb, group, resource, subresource] = kind;
    let is_global = matches!(resource.as_str(), "nodes" | "namespaces" | "tokenreviews" | "subjectaccessreviews");
    let is_named = !matches!(verb.as_str(), "list" | "watch" | "deletecollection")
        && (verb != "create" || !subresource.is_empty());
    let mut uri = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
    let mut object = Map::new();
    let mut set = |name: &str, value: &str| {
        if !value.is_empty() {
            object.insert(name.to_owned(), Value::from(value));
        }
    };
    set("resource", resource);
    set("apiGroup", group);
    set("apiVersion", "v1");
    set("subresource", subresource);
    let is_node = user == "system:node:*";
    let node = luck % 31;
    let is_lease = resource == "leases";
    if !is_global && !matches!(verb.as_str(), "list" | "watch") {
        let namespace = match is_lease {
            true if is_node => "kube-node-lease".to_owned(),
            true => "kube-system".to_owned(),
            false => format!("ns-{}", luck % 7),
        };
        let _ = write!(uri, "/namespaces/{namespace}");
        set("namespace", &namespace);
    }
    let _ = write!(uri, "/{resource}");
    if is_named {
        // Each holder has a lease of its own.
        let name = match is_lease {
            true if is_node => format!("node-{node}"),
            true => format!("{agent}-{}", own.caller),
            false => format!("{resource}-{}", luck % 997),
        };
        let _ = write!(uri, "/{name}");
        set("name", &name);
    }
    if !subresource.is_empty() {
        let _ = write!(uri, "/{subresource}");
    }
    match verb.as_str() {
        "list" if own.trips == 0.0 => uri.push_str("?resourceVersion=0"),
        "watch" => uri.push_str("?allowWatchBookmarks=true&resourceVersion=1000&timeoutSeconds=400&watch=true"),
        _ => {}
    }
    let user = if is_node { &format!("system:node:node-{node}") } else { user };
    let source = format!("10.0.{}.{}", own.caller % 200, if is_node { node + 1 } else { 1 });
    let code = match end.outcome {
        Outcome::Ok if verb == "create" => 201,
        Outcome::Ok => 200,
        Outcome::Throttled => 429,
        Outcome::Error if own.chronic > 0.0 => 503,
        Outcome::Error if end.seconds >= own.timeout => 504,
        Outcome::Error => 500,
    };
    let at = case.begin + (end.at * SECOND as f64) as Micros;
    let received = at - (end.seconds * 1e6) as Micros;
    let mut notes = Map::new();
    notes.insert("authorization.k8s.io/decision".to_owned(), Value::from("allow"));
    if end.seconds > 0.5 {
        let webhook = if own.hook == Some(1) { "mutating-webhook" } else { "validating-webhook" };
        for (name, seconds) in
            [("etcd", end.etcd), (webhook, end.hook), ("apf-queue-wait", end.wait), ("total", end.seconds)]
        {
            if seconds > 0.0 {
                notes.insert(format!("apiserver.latency.k8s.io/{name}"), Value::from(format!("{:.6}s", seconds)));
            }
        }
    }
    let stage = if verb == "watch" && end.outcome == Outcome::Ok { "ResponseStarted" } else { "ResponseComplete" };
    json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": format!("{:08x}-{:04x}-4000-8000-{:012x}", luck >> 32, luck >> 16 & 0xffff,
        hash(luck, 1, 2, 3) >> 16),
        "stage": stage,
        "requestURI": uri,
        "verb": verb,
        "user": { "username": user, "groups": ["system:authenticated"] },
        "sourceIPs": [source],
        "userAgent": format!("{agent}/v1.36.0 (linux/amd64)"),
        "objectRef": object,
        "responseStatus": { "metadata": {}, "code": code },
        "requestReceivedTimestamp": time(received),
        "stageTimestamp": time(at),
        "annotations": notes,
    })
}

/// What an apiserver asks of itself when it starts: a lease of its own.
fn start(case: &Case, instance: usize, at: f64) -> Value {
    let at = case.begin + (at * SECOND as f64) as Micros;
    let luck = hash(case.begin as u64, instance as u64, at as u64, 10);
    let at = time(at);
    json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": format!("{:08x}-0000-4000-8000-{:012x}", luck >> 32, luck & 0xffff_ffff),
        "stage": "ResponseComplete",
        "requestURI": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        "verb": "create",
        "user": { "username": "system:apiserver", "groups": ["system:masters"] },
        "sourceIPs": ["::1"],
        "userAgent": "kube-apiserver/v1.36.0 (linux/amd64)",
        "objectRef": { "resource": "leases", "namespace": "kube-system", "apiGroup": "coordination.k8s.io",
            "apiVersion": "v1", "name": format!("apiserver-{instance}") },
        "responseStatus": { "metadata": {}, "code": 201 },
        "requestReceivedTimestamp": at,
        "stageTimestamp": at,
        "annotations": { "authorization.k8s.io/decision": "allow" },
    })
}

/// The labels that apiservers give a kind of request.
pub fn labels(cluster: &Cluster, kind: usize) -> String {
    let [verb, group, resource, subresource] = &cluster.kinds[kind];
    let (verb, scope) = match verb.as_str() {
        "list" => ("LIST", "cluster"),
        "watch" => ("WATCH", "cluster"),
        "create" => ("POST", "resource"),
        "update" => ("PUT", "resource"),
        "patch" => ("PATCH", "resource"),
        "delete" => ("DELETE", "resource"),
        "deletecollection" => ("DELETECOLLECTION", "namespace"),
        _ => ("GET", "resource"),
    };
    format!(
        "component=\"apiserver\",dry_run=\"\",group=\"{group}\",resource=\"{resource}\",scope=\"{scope}\",\
         subresource=\"{subresource}\",verb=\"{verb}\",version=\"v1\""
    )
}
