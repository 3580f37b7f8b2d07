//! What pods and other objects use of quotas, as the cluster's own quota controller counts it
//! (kubernetes/pkg/quota/v1/evaluator/core and component-helpers/resource).

use crate::model::objects::{Amounts, Claim, Container, Objects, Pod, PodSpec, ResourceQuota, Scope, Service};
use crate::model::quantity::{Form, Quantity};
use crate::model::time::Micros;
use std::collections::BTreeMap;

/// Adds amounts, name by name.
pub fn add(into: &mut Amounts, from: &Amounts) {
    for (name, amount) in from {
        let sum = into.get(name).copied().unwrap_or_default().plus(*amount);
        into.insert(name.clone(), sum);
    }
}

/// Raises amounts to those of another, name by name.
fn raise(into: &mut Amounts, to: &Amounts) {
    for (name, amount) in to {
        // Of equals the first stays, in its form.
        let most = into.get(name).copied().filter(|mine| mine >= amount).unwrap_or(*amount);
        into.insert(name.clone(), most);
    }
}

/// Resources that may be asked for a pod as a whole.
fn is_of_pods(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// What of a container's resources is summed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Requests,
    Limits,
}

impl Of {
    /// A container's own amounts. While it is resized, it counts as the most of what is wanted, allocated and in use; a
    /// resize that can't be done is not counted.
    fn container(self, container: &Container, is_infeasible: bool) -> Amounts {
        let spec = if self == Self::Requests { &container.requests } else { &container.limits };
        let Some(status) = &container.status else { return spec.clone() };
        let mut amounts = if is_infeasible { Amounts::new() } else { spec.clone() };
        match self {
            Self::Requests => {
                raise(&mut amounts, &status.requests);
                raise(&mut amounts, &status.allocated);
            }
            Self::Limits => raise(&mut amounts, &status.limits),
        }
        amounts
    }
}

/// What containers come to: the sum of those that run, or what an init container takes beside the sidecars before it,
/// whichever is more.
fn aggregate(spec: &PodSpec, of: Of, is_infeasible: bool) -> Amounts {
    let mut sum = Amounts::new();
    for container in &spec.containers {
        add(&mut sum, &of.container(container, is_infeasible));
    }
    let mut sidecars = Amounts::new();
    let mut at_start = Amounts::new();
    for container in &spec.init {
        let own = if container.is_sidecar {
            of.container(container, is_infeasible)
        } else if of == Of::Requests {
            container.requests.clone()
        } else {
            container.limits.clone()
        };
        let while_starting = if container.is_sidecar {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            sidecars.clone()
        } else {
            let mut both = own;
            add(&mut both, &sidecars);
            both
        };
        raise(&mut at_start, &while_starting);
    }
    raise(&mut sum, &at_start);
    sum
}

/// What a pod asks for in all, by resource (`cpu`, `memory`, …).
pub fn requests(spec: &PodSpec, is_infeasible: bool) -> Amounts {
    let mut sum = aggregate(spec, Of::Requests, is_infeasible);
    let whole = spec.pod_requests.iter().filter(|(name, _)| is_of_pods(name));
    sum.extend(whole.map(|(name, amount)| (name.clone(), *amount)));
    add(&mut sum, &spec.overhead);
    sum
}

/// What a pod may take in all, by resource.
pub fn limits(spec: &PodSpec, is_infeasible: bool) -> Amounts {
    let mut sum = aggregate(spec, Of::Limits, is_infeasible);
    let whole = spec.pod_limits.iter().filter(|(name, _)| is_of_pods(name));
    sum.extend(whole.map(|(name, amount)| (name.clone(), *amount)));
    for (name, overhead) in &spec.overhead {
        if let Some(limit) = sum.get_mut(name)
            && !limit.is_zero()
        {
            *limit = limit.plus(*overhead);
        }
    }
    sum
}

/// One of something that is counted.
fn one() -> Quantity {
    Quantity::whole(1, Form::Decimal)
}

/// What a running pod uses, by the names that quotas use.
pub fn of_spec(spec: &PodSpec, is_infeasible: bool) -> Amounts {
    let mut used = Amounts::from([("pods".to_owned(), one())]);
    for (name, amount) in requests(spec, is_infeasible) {
        let is_plain =
            matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if is_plain {
            used.insert(name.clone(), amount);
        }
        if is_plain || is_extended(&name) {
            used.insert(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in limits(spec, is_infeasible) {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}"), amount);
        }
    }
    used
}

/// Whether a resource is one that a device plugin offers: its name has a domain that is not Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && (!name.contains("kubernetes.io/") || name.starts_with("deviceclass.resource.kubernetes.io/"))
}

/// Whether a pod still counts: it has not ended, and is not overdue to be gone.
pub fn counts(pod: &Pod, now: Micros) -> bool {
    !pod.has_ended() && pod.gone_by.is_none_or(|by| now <= by)
}

/// What a pod uses.
pub fn of_pod(pod: &Pod, now: Micros) -> Amounts {
    let mut used = if counts(pod, now) { of_spec(&pod.spec, pod.resize_is_infeasible) } else { Amounts::new() };
    used.insert("count/pods".to_owned(), one());
    used
}

/// What a claim uses.
fn of_claim(claim: &Claim) -> Amounts {
    let class = |name: &str| format!("{}.storageclass.storage.k8s.io/{name}", claim.class);
    let mut used = Amounts::from([("persistentvolumeclaims".to_owned(), one())]);
    if !claim.class.is_empty() {
        used.insert(class("persistentvolumeclaims"), one());
    }
    if let Some(storage) = claim.storage {
        used.insert("requests.storage".to_owned(), storage);
        if !claim.class.is_empty() {
            used.insert(class("requests.storage"), storage);
        }
    }
    used
}

/// What a service uses.
fn of_service(service: &Service) -> Amounts {
    let balancers = Quantity::whole(i64::from(service.is_load_balancer), Form::Decimal);
    let ports = Quantity::whole(i64::try_from(service.node_ports).unwrap_or(i64::MAX), Form::Decimal);
    Amounts::from([
        ("services".to_owned(), one()),
        ("services.loadbalancers".to_owned(), balancers),
        ("services.nodeports".to_owned(), ports),
    ])
}

/// Kinds that quotas also know by their bare name.
const BARE: [&str; 4] = ["configmaps", "secrets", "replicationcontrollers", "resourcequotas"];

/// What each namespace uses, by the names that quotas use; only of kinds that were read.
pub fn by_namespace(objects: &Objects, now: Micros) -> BTreeMap<String, Amounts> {
    let mut used: BTreeMap<String, Amounts> = BTreeMap::new();
    for pod in &objects.pods {
        add(used.entry(pod.namespace.clone()).or_default(), &of_pod(pod, now));
    }
    for claim in &objects.claims {
        add(used.entry(claim.namespace.clone()).or_default(), &of_claim(claim));
    }
    for service in &objects.services {
        add(used.entry(service.namespace.clone()).or_default(), &of_service(service));
    }
    for ((namespace, resource), count) in objects.counts.iter().filter(|((namespace, _), _)| !namespace.is_empty()) {
        let count = Quantity::whole(i64::try_from(*count).unwrap_or(i64::MAX), Form::Decimal);
        let amounts = used.entry(namespace.clone()).or_default();
        amounts.insert(format!("count/{resource}"), count);
        if BARE.contains(&resource.as_str()) {
            amounts.insert(resource.clone(), count);
        }
    }
    used
}

/// Whether a pod asks for nothing and may take anything: the first to be evicted.
fn is_best_effort(spec: &PodSpec) -> bool {
    let is_said = |amounts: &Amounts| {
        amounts.iter().any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero())
    };
    if is_said(&spec.pod_requests) || is_said(&spec.pod_limits) {
        return false;
    }
    !spec
        .containers
        .iter()
        .chain(&spec.init)
        .any(|container| is_said(&container.requests) || is_said(&container.limits))
}

/// Whether a quota's scope takes a pod.
fn takes(scope: &Scope, spec: &PodSpec) -> bool {
    let class = &spec.priority_class;
    match scope.name.as_str() {
        "Terminating" => spec.is_terminating,
        "NotTerminating" => !spec.is_terminating,
        "BestEffort" => is_best_effort(spec),
        "NotBestEffort" => !is_best_effort(spec),
        "CrossNamespacePodAffinity" => spec.crosses_namespaces,
        "PriorityClass" => match scope.operator.as_str() {
            "In" => scope.values.contains(class),
            // A pod without a class is not in any.
            "NotIn" => !scope.values.contains(class),
            "DoesNotExist" => class.is_empty(),
            _ => !class.is_empty(),
        },
        _ => false,
    }
}

/// Whether a quota counts pods of this spec.
pub fn is_counted(quota: &ResourceQuota, spec: &PodSpec) -> bool {
    quota.scopes.iter().all(|scope| takes(scope, spec))
}

/// What of a quota's resources the given objects use. `all` is what [`by_namespace`] says of the same objects.
pub fn of_quota(quota: &ResourceQuota, objects: &Objects, all: &BTreeMap<String, Amounts>, now: Micros) -> Amounts {
    let mut of_pods = Amounts::new();
    let used = if quota.scopes.is_empty() {
        all.get(&quota.namespace)
    } else {
        let here = objects.pods.iter().filter(|pod| pod.namespace == quota.namespace);
        here.filter(|pod| is_counted(quota, &pod.spec)).for_each(|pod| add(&mut of_pods, &of_pod(pod, now)));
        Some(&of_pods)
    };
    let amount = |name: &String| used.and_then(|used| used.get(name)).copied();
    let known = quota.hard.keys().filter_map(|name| {
        // None of a kind that is not here may be many.
        let amount = amount(name).or_else(|| shows(objects, name).then(Quantity::default))?;
        Some((name.clone(), amount))
    });
    known.collect()
}

/// Whether objects of the kind that a resource of quotas counts are here.
fn shows(objects: &Objects, resource: &str) -> bool {
    let counted = resource.strip_prefix("count/").or_else(|| BARE.contains(&resource).then_some(resource));
    match counted {
        Some("pods") => objects.has("Pod"),
        Some(kind) => objects.counts.keys().any(|(_, own)| own == kind),
        None if resource.contains("storageclass.storage.k8s.io/")
            || matches!(resource, "requests.storage" | "persistentvolumeclaims") =>
        {
            objects.has("PersistentVolumeClaim")
        }
        None if resource.split('.').next() == Some("services") => objects.has("Service"),
        None => objects.has("Pod"),
    }
}
