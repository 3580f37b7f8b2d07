//! In which order objects can be applied: what others need comes first.

/// Custom resources: behind their definitions and all that is built in, before what intercepts requests.
pub(super) const CUSTOM: usize = ORDER.len();

/// Groups and resources in order. A resource of these groups that is not named comes with the custom ones.
const ORDER: [(&str, &str); 39] = [
    ("", "namespaces"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattributesclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "servicecidrs"),
    ("resource.k8s.io", "deviceclasses"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("", "nodes"),
    ("", "resourcequotas"),
    ("", "limitranges"),
    ("", "serviceaccounts"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "persistentvolumes"),
    ("", "persistentvolumeclaims"),
    ("", "services"),
    ("", "endpoints"),
    ("discovery.k8s.io", "endpointslices"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("", "podtemplates"),
    ("apps", "controllerrevisions"),
    ("apps", "daemonsets"),
    ("apps", "statefulsets"),
    ("apps", "deployments"),
    ("", "replicationcontrollers"),
    ("apps", "replicasets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
];

/// Behind the custom ones.
const LAST: [(&str, &str); 10] = [
    ("", "pods"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("networking.k8s.io", "ingresses"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiregistration.k8s.io", "apiservices"),
];

/// The place of a resource.
pub(super) fn rank(group: &str, resource: &str) -> usize {
    let place = |list: &[(&str, &str)]| list.iter().position(|known| *known == (group, resource));
    place(&ORDER).or_else(|| Some(CUSTOM + 1 + place(&LAST)?)).unwrap_or_else(|| {
        // Built-in kinds that are not listed need nothing that custom ones have, but may be needed by them.
        if group.is_empty() || group.ends_with(".k8s.io") && BUILT_IN.contains(&group) { CUSTOM - 1 } else { CUSTOM }
    })
}

/// Groups with `.k8s.io` that are built in; others with that ending are custom, as `gateway.networking.k8s.io`.
const BUILT_IN: [&str; 13] = [
    "admissionregistration.k8s.io",
    "apiregistration.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];
