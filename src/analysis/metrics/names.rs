//! What older apiservers call resources in the labels of storage and watch cache metrics, as resources and groups
//! are called everywhere else. (docs/metrics.md, section 7; samples/metrics-forms/README.md has the sources.)

use std::borrow::Cow;

/// Resources that stand under another name in the store.
const PREFIXES: [(&str, &str); 5] = [
    ("minions", "nodes"),
    ("services/specs", "services"),
    ("services/endpoints", "endpoints"),
    ("controllers", "replicationcontrollers"),
    ("ingress", "ingresses"),
];

/// The groups of built-in resources, as far as they are not in the core group.
const GROUPS: [(&str, &str); 28] = [
    ("deployments", "apps"),
    ("replicasets", "apps"),
    ("statefulsets", "apps"),
    ("daemonsets", "apps"),
    ("controllerrevisions", "apps"),
    ("jobs", "batch"),
    ("cronjobs", "batch"),
    ("horizontalpodautoscalers", "autoscaling"),
    ("poddisruptionbudgets", "policy"),
    ("leases", "coordination.k8s.io"),
    ("endpointslices", "discovery.k8s.io"),
    ("ingresses", "networking.k8s.io"),
    ("ingressclasses", "networking.k8s.io"),
    ("networkpolicies", "networking.k8s.io"),
    ("roles", "rbac.authorization.k8s.io"),
    ("rolebindings", "rbac.authorization.k8s.io"),
    ("clusterroles", "rbac.authorization.k8s.io"),
    ("clusterrolebindings", "rbac.authorization.k8s.io"),
    ("storageclasses", "storage.k8s.io"),
    ("volumeattachments", "storage.k8s.io"),
    ("csinodes", "storage.k8s.io"),
    ("csidrivers", "storage.k8s.io"),
    ("priorityclasses", "scheduling.k8s.io"),
    ("customresourcedefinitions", "apiextensions.k8s.io"),
    ("apiservices", "apiregistration.k8s.io"),
    ("mutatingwebhookconfigurations", "admissionregistration.k8s.io"),
    ("validatingwebhookconfigurations", "admissionregistration.k8s.io"),
    ("certificatesigningrequests", "certificates.k8s.io"),
];

/// Group and resource of what a label says; `group` is that of the label beside it, if there is one.
pub(super) fn resource<'v>(label: &str, value: &'v str, group: Option<&'v str>) -> (Cow<'v, str>, Cow<'v, str>) {
    let known = |resource: &str| GROUPS.iter().find(|(name, _)| *name == resource).map_or("", |(_, group)| group);
    if let Some(kind) = value.strip_prefix('*').and_then(|go| go.rsplit('.').next()) {
        let resource = plural(kind);
        return (Cow::Borrowed(known(&resource)), Cow::Owned(resource));
    }
    if let Some(prefix) = value.strip_prefix('/') {
        let name = PREFIXES.iter().find(|(at, _)| *at == prefix).map_or(prefix, |(_, name)| name);
        return match name.split_once('/') {
            Some((group, resource)) => (group.into(), resource.into()),
            None => (known(name).into(), name.into()),
        };
    }
    match (group, value.split_once('.')) {
        (None, Some((resource, group))) => (group.into(), resource.into()),
        _ if label == "kind" => (group.unwrap_or_default().into(), plural(value).into()),
        _ => (group.unwrap_or_default().into(), value.into()),
    }
}

/// The resource of a kind, by the rule that Kubernetes itself guesses by.
fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.as_bytes().last() {
        _ if kind == "endpoints" => kind,
        Some(b's') => kind + "es",
        Some(b'y') => format!("{}ies", &kind[..kind.len() - 1]),
        _ => kind + "s",
    }
}

#[cfg(test)]
mod tests {
    use super::resource;

    #[test]
    fn every_way_to_name_a_resource_is_understood() {
        for (label, value, group, expected) in [
            ("resource", "pods", Some(""), ("", "pods")),
            ("resource", "deployments", Some("apps"), ("apps", "deployments")),
            ("resource", "deployments.apps", None, ("apps", "deployments")),
            ("resource", "apiservices.apiregistration.k8s.io", None, ("apiregistration.k8s.io", "apiservices")),
            ("resource", "*core.Pod", None, ("", "pods")),
            ("resource", "*networking.NetworkPolicy", None, ("networking.k8s.io", "networkpolicies")),
            ("resource_prefix", "/minions", None, ("", "nodes")),
            ("resource_prefix", "/services/specs", None, ("", "services")),
            ("resource_prefix", "/deployments", None, ("apps", "deployments")),
            ("resource_prefix", "/example.com/widgets", None, ("example.com", "widgets")),
            ("kind", "Pod", Some(""), ("", "pods")),
            ("kind", "Endpoints", Some(""), ("", "endpoints")),
            ("kind", "Ingress", Some("networking.k8s.io"), ("networking.k8s.io", "ingresses")),
        ] {
            let (group, name) = resource(label, value, group);
            assert_eq!((&*group, &*name), expected, "{label}={value}");
        }
    }
}
