//! Quotas: what stands in a namespace, what is used of it, and whose it is.

use crate::model::objects::{Amounts, Namespace, Scope};
use crate::model::quantity::{Form, Quantity};
use crate::model::series::Day;
use crate::model::time::Micros;
use std::collections::BTreeMap;

/// What a ResourceQuota grants of one resource, and what is used of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    pub namespace: String,
    /// The ResourceQuota's name.
    pub quota: String,
    /// The resource as quotas name it: `requests.cpu`, `pods`, `count/jobs.batch`.
    pub resource: String,
    /// What is granted.
    pub hard: Quantity,
    /// What is used; `None` where the cluster reports nothing and the given objects do not show it.
    pub used: Option<Quantity>,
}

/// Whether a namespace is looked at: one of those that are named, or, where none is, any but the cluster's own.
pub fn is_meant(namespaces: &[String], namespace: &str) -> bool {
    match namespaces {
        [] => !matches!(namespace, "kube-system" | "kube-public" | "kube-node-lease"),
        named => named.iter().any(|own| own == namespace),
    }
}

/// What was used of a resource in a namespace over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    pub namespace: String,
    /// The ResourceQuota's name; empty where none stands and usage is what pods ask for.
    pub quota: String,
    /// The resource as quotas name it.
    pub resource: String,
    /// Day by day, ascending; days without a value are left out.
    pub days: Vec<Day>,
    /// What was granted at each day's end, as `(day, hard)`, ascending; empty where no quota stood.
    pub hard: Vec<(i32, f64)>,
}

impl Usage {
    /// Among usage in the order of [`Quotas::usage`] that of a resource of a quota.
    pub fn find<'u>(usage: &'u [Self], namespace: &str, quota: &str, resource: &str) -> Option<&'u Self> {
        let key = (namespace, quota, resource);
        let at = usage.binary_search_by(|usage| {
            (usage.namespace.as_str(), usage.quota.as_str(), usage.resource.as_str()).cmp(&key)
        });
        at.ok().and_then(|at| usage.get(at))
    }
}

/// All that is known of the quotas of one cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quotas {
    /// The cluster, as its bundle names it; else empty.
    pub cluster: String,
    /// When `standings` was taken.
    pub at: Micros,
    /// Namespaces by name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// What stands now, ordered by namespace, quota and resource.
    pub standings: Vec<Standing>,
    /// What was used over time, ordered by namespace, quota and resource.
    pub usage: Vec<Usage>,
    /// What nodes that take pods can hold, by resource (`cpu`, `memory`, `pods`).
    pub allocatable: Amounts,
    /// Which pods a ResourceQuota counts, by namespace and name; all, where it is not here.
    pub scopes: BTreeMap<(String, String), Vec<Scope>>,
}

/// Whether a resource of quotas counts things: `pods`, `count/…`, `services`, extended resources; as against CPU and
/// bytes.
pub fn is_countable(resource: &str) -> bool {
    !matches!(resource, "cpu" | "requests.cpu" | "limits.cpu") && !is_bytes(resource)
}

/// Whether a resource of quotas is an amount of bytes.
pub fn is_bytes(resource: &str) -> bool {
    let (_, of_class) = resource.split_once("storageclass.storage.k8s.io/").unwrap_or_default();
    let resource = if of_class.is_empty() { resource } else { of_class };
    let resource = resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("limits.")).unwrap_or(resource);
    matches!(resource, "memory" | "storage" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

/// What is rejected where this resource is used up, in one word or two.
pub fn rejected(resource: &str) -> String {
    let of_class = resource.split_once("storageclass.storage.k8s.io/").map_or(resource, |(_, resource)| resource);
    match of_class {
        "requests.storage" | "persistentvolumeclaims" => "volume claims".to_owned(),
        of if of.starts_with("services") => "services".to_owned(),
        of => match of.strip_prefix("count/") {
            Some(kind) => kind.split('.').next().unwrap_or(kind).to_owned(),
            None if matches!(of, "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas") => {
                of.to_owned()
            }
            None => "pods".to_owned(),
        },
    }
}

/// The form in which quantities of a resource are written.
pub fn form(resource: &str) -> Form {
    if is_bytes(resource) { Form::Binary } else { Form::Decimal }
}
