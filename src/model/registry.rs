//! Keys of Kubernetes objects in etcd: group, resource, namespace and name.
//! (Source: apiserver registry/generic/registry/store.go; pkg/kubeapiserver/default_storage_factory_builder.go.)

/// What a key names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey<'k> {
    /// The key up to and with the resource and namespace: `/registry/pods/default/`.
    pub prefix: &'k str,
    /// API group; empty for the core group, and where the key does not show.
    pub group: &'k str,
    /// Resource, in the plural; empty for keys that are not Kubernetes'.
    pub resource: &'k str,
    /// Namespace; empty for what is in none.
    pub namespace: &'k str,
    pub name: &'k str,
}

/// Resources that stand under another name in the store.
pub const PREFIXES: [(&str, &str); 5] = [
    ("minions", "nodes"),
    ("services/specs", "services"),
    ("services/endpoints", "endpoints"),
    ("controllers", "replicationcontrollers"),
    ("ingress", "ingresses"),
];

/// The groups of built-in resources whose keys have none, as far as they are not in the core group.
pub const GROUPS: [(&str, &str); 48] = [
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
    ("ipaddresses", "networking.k8s.io"),
    ("servicecidrs", "networking.k8s.io"),
    ("roles", "rbac.authorization.k8s.io"),
    ("rolebindings", "rbac.authorization.k8s.io"),
    ("clusterroles", "rbac.authorization.k8s.io"),
    ("clusterrolebindings", "rbac.authorization.k8s.io"),
    ("storageclasses", "storage.k8s.io"),
    ("volumeattachments", "storage.k8s.io"),
    ("csinodes", "storage.k8s.io"),
    ("csidrivers", "storage.k8s.io"),
    ("csistoragecapacities", "storage.k8s.io"),
    ("volumeattributesclasses", "storage.k8s.io"),
    ("priorityclasses", "scheduling.k8s.io"),
    ("runtimeclasses", "node.k8s.io"),
    ("flowschemas", "flowcontrol.apiserver.k8s.io"),
    ("prioritylevelconfigurations", "flowcontrol.apiserver.k8s.io"),
    ("mutatingwebhookconfigurations", "admissionregistration.k8s.io"),
    ("validatingwebhookconfigurations", "admissionregistration.k8s.io"),
    ("validatingadmissionpolicies", "admissionregistration.k8s.io"),
    ("validatingadmissionpolicybindings", "admissionregistration.k8s.io"),
    ("certificatesigningrequests", "certificates.k8s.io"),
    ("clustertrustbundles", "certificates.k8s.io"),
    ("podcertificaterequests", "certificates.k8s.io"),
    ("leasecandidates", "coordination.k8s.io"),
    ("mutatingadmissionpolicies", "admissionregistration.k8s.io"),
    ("mutatingadmissionpolicybindings", "admissionregistration.k8s.io"),
    ("deviceclasses", "resource.k8s.io"),
    ("resourceclaims", "resource.k8s.io"),
    ("resourceclaimtemplates", "resource.k8s.io"),
    ("resourceslices", "resource.k8s.io"),
    ("storageversions", "internal.apiserver.k8s.io"),
    ("storageversionmigrations", "storagemigration.k8s.io"),
    ("customresourcedefinitions", "apiextensions.k8s.io"),
    ("apiservices", "apiregistration.k8s.io"),
];

/// The group of a built-in resource whose key does not show; empty for the core group.
pub fn group_of(resource: &str) -> &'static str {
    GROUPS.iter().find(|(name, _)| *name == resource).map_or("", |(_, group)| group)
}

/// Whether it is one of Kubernetes' own resources, which are stored as protobuf.
pub fn is_built_in(group: &str, resource: &str) -> bool {
    group.is_empty() || GROUPS.contains(&(resource, group))
}

/// Groups whose requests apiservers answer themselves and of which nothing is stored, or under another name.
const UNSTORED: [&str; 5] =
    ["authentication.k8s.io", "authorization.k8s.io", "events.k8s.io", "extensions", "apidiscovery.k8s.io"];

/// Whether apiservers serve an API group themselves; what they do not is of custom resources, or of an APIService.
pub fn is_built_in_group(group: &str) -> bool {
    group.is_empty() || UNSTORED.contains(&group) || GROUPS.iter().any(|(_, own)| *own == group)
}

/// Where apiservers keep their objects by default, upstream and on OpenShift.
pub const ROOTS: [&str; 3] = ["/registry/", "/kubernetes.io/", "/openshift.io/"];

/// Where an apiserver keeps its objects, each with a `/` at its end: `root`, or the default places.
pub fn roots(root: Option<&str>) -> Vec<String> {
    match root {
        Some(root) => vec![format!("{}/", root.trim_end_matches('/'))],
        None => ROOTS.map(str::to_owned).to_vec(),
    }
}

/// What `key` names, below one of `roots`; a key below none of them has only a prefix, its first two parts.
pub fn parse<'k>(key: &'k str, roots: &[impl AsRef<str>]) -> ObjectKey<'k> {
    let Some(rest) = roots.iter().find_map(|root| key.strip_prefix(root.as_ref())) else {
        let second = key.match_indices('/').nth(2).map_or(key.len(), |(at, _)| at + 1);
        return ObjectKey { prefix: &key[..second], ..ObjectKey::default() };
    };
    let (first, behind) = rest.split_once('/').unwrap_or((rest, ""));
    let (group, resource, behind) =
        if let Some((at, resource)) = PREFIXES.iter().find(|(at, _)| under(rest, at).is_some()) {
            (group_of(resource), *resource, under(rest, at).unwrap_or_default())
        } else if first.contains('.') {
            // Custom resources, and the few built-in ones that keep their group.
            let (resource, behind) = behind.split_once('/').unwrap_or((behind, ""));
            (first, resource, behind)
        } else {
            (group_of(first), first, behind)
        };
    let (namespace, name) = behind.split_once('/').unwrap_or(("", behind));
    ObjectKey { prefix: &key[..key.len() - name.len()], group, resource, namespace, name }
}

/// What follows `at` as whole parts of a path.
fn under<'k>(rest: &'k str, at: &str) -> Option<&'k str> {
    rest.strip_prefix(at)?.strip_prefix('/')
}

/// A resource with its group: `pods`, `jobs.batch`.
pub fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart() {
        for (key, prefix, group, resource, namespace, name) in [
            ("/registry/pods/kube-system/dns-1", "/registry/pods/kube-system/", "", "pods", "kube-system", "dns-1"),
            ("/registry/minions/node-1", "/registry/minions/", "", "nodes", "", "node-1"),
            (
                "/registry/services/specs/default/kubernetes",
                "/registry/services/specs/default/",
                "",
                "services",
                "default",
                "kubernetes",
            ),
            ("/registry/services/endpoints/a/b", "/registry/services/endpoints/a/", "", "endpoints", "a", "b"),
            ("/registry/deployments/web/app", "/registry/deployments/web/", "apps", "deployments", "web", "app"),
            ("/registry/ingress/web/in", "/registry/ingress/web/", "networking.k8s.io", "ingresses", "web", "in"),
            (
                "/registry/apiextensions.k8s.io/customresourcedefinitions/jobsets.batch.example.com",
                "/registry/apiextensions.k8s.io/customresourcedefinitions/",
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "",
                "jobsets.batch.example.com",
            ),
            (
                "/registry/wgpolicyk8s.io/policyreports/a/b",
                "/registry/wgpolicyk8s.io/policyreports/a/",
                "wgpolicyk8s.io",
                "policyreports",
                "a",
                "b",
            ),
            ("/registry/namespaces/default", "/registry/namespaces/", "", "namespaces", "", "default"),
            ("/registry/ranges/serviceips", "/registry/ranges/", "", "ranges", "", "serviceips"),
            ("compact_rev_key", "compact_rev_key", "", "", "", ""),
            ("/other/app/key", "/other/app/", "", "", "", ""),
        ] {
            assert_eq!(parse(key, &ROOTS), ObjectKey { prefix, group, resource, namespace, name }, "{key}");
        }
    }
}
