//! From one object's JSON to the model: what of each kind capacity depends on.

use super::or_default::or_default;
use super::rolling::Rolling;
use crate::model::objects::{
    Amounts, Claim, Container, LimitRange, Namespace, Node, Objects, Pod, PodSpec, Resized, ResourceQuota, Scope,
    Service, Workload, fill,
};
use crate::model::problem::Problem;
use crate::model::time::{Micros, SECOND, parse_any};
use crate::model::waiting::Waiting;
use crate::sources::objects::{waiting, webhooks};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// Kinds of which more than their number is read.
const KNOWN: [&str; 17] = [
    "Namespace",
    "ResourceQuota",
    "LimitRange",
    "Pod",
    "Node",
    "PersistentVolumeClaim",
    "Service",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "CronJob",
    "PodMetrics",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
];

#[derive(Deserialize)]
struct Any<'a> {
    #[serde(default)]
    metadata: Meta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    webhooks: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: String,
    #[serde(deserialize_with = "or_default")]
    namespace: String,
    #[serde(deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<Owner>,
    #[serde(deserialize_with = "or_default")]
    managed_fields: Vec<Managed>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    creation_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Managed {
    manager: String,
    subresource: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Owner {
    kind: String,
    name: String,
    controller: Option<bool>,
}

/// Quantities are strings, but in a manifest also plain numbers.
fn amounts<'de, D: Deserializer<'de>>(from: D) -> Result<Amounts, D::Error> {
    use serde_json::Value;
    let written: Option<BTreeMap<String, Value>> = Option::deserialize(from)?;
    let read = |(name, written): (String, Value)| {
        let text = match written {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            // A template that had no value for it: nothing is said of this resource.
            Value::Null => return None,
            other => return Some(Err(serde::de::Error::custom(format!("{name}: {other} is not a quantity")))),
        };
        let quantity = text.parse().map_err(|error| serde::de::Error::custom(format!("{name}: '{text}' {error}")));
        Some(quantity.map(|quantity| (name, quantity)))
    };
    written.unwrap_or_default().into_iter().filter_map(read).collect()
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Resources {
    #[serde(deserialize_with = "amounts")]
    requests: Amounts,
    #[serde(deserialize_with = "amounts")]
    limits: Amounts,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawContainer {
    name: String,
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
    restart_policy: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawPodSpec {
    #[serde(deserialize_with = "or_default")]
    containers: Vec<RawContainer>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<RawContainer>,
    #[serde(deserialize_with = "amounts")]
    overhead: Amounts,
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
    active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    priority_class_name: String,
    #[serde(deserialize_with = "or_default")]
    affinity: Affinity,
    #[serde(deserialize_with = "or_default")]
    node_name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    #[serde(deserialize_with = "or_default")]
    pod_affinity: Terms,
    #[serde(deserialize_with = "or_default")]
    pod_anti_affinity: Terms,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Terms {
    #[serde(deserialize_with = "or_default")]
    required_during_scheduling_ignored_during_execution: Vec<Term>,
    #[serde(deserialize_with = "or_default")]
    preferred_during_scheduling_ignored_during_execution: Vec<Weighted>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Weighted {
    pod_affinity_term: Term,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    #[serde(deserialize_with = "or_default")]
    namespaces: Vec<String>,
    namespace_selector: Option<serde::de::IgnoredAny>,
}

impl Terms {
    fn cross(&self) -> bool {
        let crosses = |term: &Term| !term.namespaces.is_empty() || term.namespace_selector.is_some();
        self.required_during_scheduling_ignored_during_execution.iter().any(crosses)
            || self
                .preferred_during_scheduling_ignored_during_execution
                .iter()
                .any(|weighted| crosses(&weighted.pod_affinity_term))
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    resources: Option<Resources>,
    #[serde(deserialize_with = "amounts")]
    allocated_resources: Amounts,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    of: String,
    status: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "or_default")]
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct QuotaSpec {
    #[serde(deserialize_with = "amounts")]
    hard: Amounts,
    #[serde(deserialize_with = "amounts")]
    used: Amounts,
    #[serde(deserialize_with = "or_default")]
    scopes: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    scope_selector: Selector,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<Expression>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Expression {
    scope_name: String,
    operator: String,
    #[serde(deserialize_with = "or_default")]
    values: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LimitSpec {
    #[serde(deserialize_with = "or_default")]
    limits: Vec<RawLimit>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawLimit {
    #[serde(rename = "type")]
    of: String,
    #[serde(deserialize_with = "amounts")]
    default: Amounts,
    #[serde(deserialize_with = "amounts")]
    default_request: Amounts,
    #[serde(deserialize_with = "amounts")]
    max: Amounts,
    #[serde(deserialize_with = "amounts")]
    min: Amounts,
}

impl RawLimit {
    /// As the cluster stores it (kubernetes/pkg/apis/core/v1, `SetDefaults_LimitRangeItem`): without defaults a
    /// container may take the most that is allowed, and asks for its default limit, or else the least.
    fn with_defaults(mut self) -> Self {
        if self.of == "Container" {
            fill(&mut self.default, &self.max);
            fill(&mut self.default_request, &self.default);
            fill(&mut self.default_request, &self.min);
        }
        self
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeSpec {
    unschedulable: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    taints: Vec<Taint>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Taint {
    effect: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "amounts")]
    allocatable: Amounts,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
    storage_class_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus {
    #[serde(deserialize_with = "amounts")]
    allocated_resources: Amounts,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    #[serde(rename = "type")]
    of: String,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<Port>,
    allocate_load_balancer_node_ports: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    node_port: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WorkloadSpec {
    replicas: Option<u64>,
    parallelism: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    strategy: Strategy,
    #[serde(deserialize_with = "or_default")]
    update_strategy: Strategy,
    template: Template,
    job_template: JobTemplate,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct JobTemplate {
    spec: JobSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobSpec {
    template: Template,
    parallelism: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Template {
    spec: RawPodSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Strategy {
    #[serde(rename = "type")]
    of: String,
    #[serde(deserialize_with = "or_default")]
    rolling_update: Rolling,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WorkloadStatus {
    desired_number_scheduled: u64,
}

/// Takes an object of a kind into `objects`.
pub(super) fn take(kind: &str, api_version: &str, json: &RawValue, objects: &mut Objects) -> Result<(), Problem> {
    let any: Any<'_> = serde_json::from_str(json.get())?;
    let Any { metadata: meta, spec, status, webhooks } = any;
    let named = |problem: Problem| problem.at(format!("{kind} {}/{}", meta.namespace, meta.name));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    objects.kinds.insert(kind.to_owned());
    let identity = [group, kind, &meta.namespace, &meta.name].join("\0");
    if !meta.name.is_empty() && !objects.met.insert(xxh3_64(identity.as_bytes())) {
        return Ok(());
    }
    if let Some(resource) = resource_of(kind, group) {
        *objects.counts.entry((meta.namespace.clone(), resource)).or_default() += 1;
    }
    if !KNOWN.contains(&kind) {
        return Ok(());
    }
    if kind.ends_with("WebhookConfiguration") {
        let of = webhooks::read(&meta.name, kind.starts_with("Mutating"), part(webhooks).map_err(named)?);
        objects.webhooks.extend(of);
        return Ok(());
    }
    read(kind, &meta, spec, status, objects).map_err(named)
}

/// The part of an object as `T`; what is not there is empty.
fn part<'a, T: Deserialize<'a> + Default>(json: Option<&'a RawValue>) -> Result<T, Problem> {
    json.map_or_else(|| Ok(T::default()), |json| serde_json::from_str(json.get()).map_err(Problem::from))
}

fn read(
    kind: &str,
    meta: &Meta,
    spec: Option<&RawValue>,
    status: Option<&RawValue>,
    objects: &mut Objects,
) -> Result<(), Problem> {
    let (name, namespace) = (meta.name.clone(), meta.namespace.clone());
    match kind {
        "Namespace" => {
            let one =
                Namespace { name: name.clone(), labels: meta.labels.clone(), annotations: meta.annotations.clone() };
            objects.namespaces.insert(name, one);
        }
        "ResourceQuota" => {
            let (spec, status): (QuotaSpec, QuotaSpec) = (part(spec)?, part(status)?);
            let plain =
                spec.scopes.into_iter().map(|name| Scope { name, operator: "Exists".to_owned(), values: Vec::new() });
            let selected = spec.scope_selector.match_expressions.into_iter();
            let selected =
                selected.map(|Expression { scope_name: name, operator, values }| Scope { name, operator, values });
            let scopes = plain.chain(selected).collect();
            let managers = meta.managed_fields.iter().filter(|fields| fields.subresource.is_empty());
            let managers = managers.map(|fields| fields.manager.clone()).collect();
            objects.quotas.push(ResourceQuota {
                namespace,
                name,
                hard: spec.hard,
                used: status.used,
                scopes,
                managers,
            });
        }
        "LimitRange" => {
            let spec: LimitSpec = part(spec)?;
            objects.limit_ranges.extend(spec.limits.into_iter().map(RawLimit::with_defaults).map(|limit| LimitRange {
                namespace: namespace.clone(),
                name: name.clone(),
                of: limit.of,
                default_requests: limit.default_request,
                default_limits: limit.default,
            }));
        }
        "Pod" => {
            let mut pod = pod(meta, part(spec)?, part(status)?);
            // Only pods without a node are looked at once more.
            if let Some(reported) = pod.waiting.take() {
                let decided = part::<waiting::Spec>(spec)?.waiting();
                let (labels, created) = (meta.labels.clone(), meta.creation_timestamp.as_deref().and_then(parse_any));
                let (reason, message) = (reported.reason, reported.message);
                pod.waiting = Some(Box::new(Waiting { labels, created, reason, message, ..decided }));
            }
            objects.pods.push(pod);
        }
        "Node" => {
            let (spec, status): (NodeSpec, NodeStatus) = (part(spec)?, part(status)?);
            let is_ready =
                status.conditions.iter().any(|condition| condition.of == "Ready" && condition.status == "True");
            let is_tainted =
                spec.taints.iter().any(|taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute");
            let takes_pods = is_ready && spec.unschedulable != Some(true);
            objects.nodes.push(Node { name, allocatable: status.allocatable, takes_pods, is_tainted });
        }
        "PersistentVolumeClaim" => {
            let (spec, status): (ClaimSpec, ClaimStatus) = (part(spec)?, part(status)?);
            let legacy = meta.annotations.get("volume.beta.kubernetes.io/storage-class").cloned();
            let class = legacy.or(spec.storage_class_name).unwrap_or_default();
            let asked = spec.resources.requests.get("storage").copied();
            let allocated = status.allocated_resources.get("storage").copied();
            let storage = asked.map(|asked| allocated.map_or(asked, |allocated| asked.max(allocated)));
            objects.claims.push(Claim { namespace, class, storage });
        }
        "Service" => {
            let spec: ServiceSpec = part(spec)?;
            let ports = spec.ports.len() as u64;
            let given = spec.ports.iter().filter(|port| port.node_port.is_some_and(|port| port != 0)).count() as u64;
            let node_ports = match (spec.of.as_str(), spec.allocate_load_balancer_node_ports) {
                ("NodePort", _) => ports,
                ("LoadBalancer", Some(false)) => given,
                ("LoadBalancer", _) => ports,
                _ => 0,
            };
            objects.services.push(Service { namespace, is_load_balancer: spec.of == "LoadBalancer", node_ports });
        }
        "PodMetrics" => {}
        _ => objects.workloads.push(workload(kind, meta, part(spec)?, part(status)?)),
    }
    Ok(())
}

fn controller(meta: &Meta) -> Option<(String, String)> {
    let owner = meta.owner_references.iter().find(|owner| owner.controller == Some(true))?;
    Some((owner.kind.clone(), owner.name.clone()))
}

fn workload(kind: &str, meta: &Meta, spec: WorkloadSpec, status: WorkloadStatus) -> Workload {
    let replicas = spec.replicas.unwrap_or(1);
    let (replicas, [surge, unavailable], template) = match kind {
        "Deployment" if spec.strategy.of == "Recreate" => (replicas, [0, replicas], spec.template),
        "Deployment" => (replicas, spec.strategy.rolling_update.bounds(replicas, ["25%", "25%"]), spec.template),
        "DaemonSet" => {
            let replicas = status.desired_number_scheduled;
            (replicas, spec.update_strategy.rolling_update.bounds(replicas, ["0%", "0%"]), spec.template)
        }
        "Job" => (spec.parallelism.unwrap_or(1), [0, 0], spec.template),
        "CronJob" => (0, [spec.job_template.spec.parallelism.unwrap_or(1), 0], spec.job_template.spec.template),
        _ => (replicas, [0, 0], spec.template),
    };
    let (name, namespace) = (meta.name.clone(), meta.namespace.clone());
    let template = pod_spec(template.spec, &[]);
    let controller = controller(meta);
    Workload { kind: kind.to_owned(), namespace, name, replicas, surge, unavailable, template, controller }
}

fn pod(meta: &Meta, spec: RawPodSpec, status: PodStatus) -> Pod {
    let controller = controller(meta);
    let statuses: Vec<ContainerStatus> =
        status.container_statuses.into_iter().chain(status.init_container_statuses).collect();
    let deleted: Option<Micros> = meta.deletion_timestamp.as_deref().and_then(parse_any);
    let gone_by = deleted.zip(meta.deletion_grace_period_seconds).map(|(at, grace)| at + grace * SECOND);
    let infeasible = |condition: &Condition| condition.of == "PodResizePending" && condition.reason == "Infeasible";
    let is_waiting = spec.node_name.is_empty() && status.phase == "Pending" && deleted.is_none();
    let reported =
        status.conditions.iter().find(|condition| condition.of == "PodScheduled" && condition.status == "False");
    let (reason, message) =
        reported.map(|reported| (reported.reason.clone(), reported.message.clone())).unwrap_or_default();
    Pod {
        waiting: is_waiting.then(|| Box::new(Waiting { reason, message, ..Waiting::default() })),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        controller,
        spec: pod_spec(spec, &statuses),
        phase: status.phase,
        gone_by,
        resize_is_infeasible: status.conditions.iter().any(infeasible),
    }
}

fn pod_spec(raw: RawPodSpec, statuses: &[ContainerStatus]) -> PodSpec {
    let container = |raw: RawContainer| {
        let status = statuses.iter().find(|status| status.name == raw.name);
        let status = status.and_then(|status| {
            let Resources { requests, limits } = status.resources.as_ref()?;
            Some(Resized {
                requests: requests.clone(),
                limits: limits.clone(),
                allocated: status.allocated_resources.clone(),
            })
        });
        let Resources { requests, limits } = raw.resources;
        Container {
            name: raw.name,
            requests,
            limits,
            is_sidecar: raw.restart_policy.as_deref() == Some("Always"),
            status,
        }
    };
    PodSpec {
        crosses_namespaces: raw.affinity.pod_affinity.cross() || raw.affinity.pod_anti_affinity.cross(),
        containers: raw.containers.into_iter().map(container).collect(),
        init: raw.init_containers.into_iter().map(container).collect(),
        pod_requests: raw.resources.requests,
        pod_limits: raw.resources.limits,
        overhead: raw.overhead,
        priority_class: raw.priority_class_name,
        is_terminating: raw.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
    }
}

/// `resource` or `resource.group` of a kind that is built in; the plural of custom ones is in their CRD only, and is
/// guessed as the rules of English have it, as apimachinery does. `None` of kinds that are no objects of their own.
fn resource_of(kind: &str, group: &str) -> Option<String> {
    if kind == "PodMetrics" || kind.is_empty() {
        return None;
    }
    let lower = kind.to_lowercase();
    let plural = match kind {
        "Endpoints" => lower,
        _ if lower.ends_with('s') => lower + "es",
        _ if lower.ends_with('y') => format!("{}ies", &lower[..lower.len() - 1]),
        _ => lower + "s",
    };
    Some(if group.is_empty() { plural } else { format!("{plural}.{group}") })
}
