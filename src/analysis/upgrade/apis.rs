//! What takes the place of API versions that are no longer served. (Source: Kubernetes' deprecated API migration guide,
//! kubernetes.io/docs/reference/using-api/deprecation-guide, as of 1.36.)

/// An API version that a release no longer serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Api {
    /// Group and version.
    version: &'static str,
    /// Resource; empty: all of the version that have no entry of their own.
    resource: &'static str,
    /// What to use instead.
    pub(super) instead: &'static str,
}

const fn row(version: &'static str, resource: &'static str, instead: &'static str) -> Api {
    Api { version, resource, instead }
}

const NETWORK: &str = "networking.k8s.io/v1";

const APIS: [Api; 43] = [
    row("admissionregistration.k8s.io/v1alpha1", "", "admissionregistration.k8s.io/v1"),
    row("admissionregistration.k8s.io/v1beta1", "", "admissionregistration.k8s.io/v1"),
    row("apiextensions.k8s.io/v1beta1", "", "apiextensions.k8s.io/v1"),
    row("apiregistration.k8s.io/v1beta1", "", "apiregistration.k8s.io/v1"),
    row("apps/v1beta1", "", "apps/v1"),
    row("apps/v1beta2", "", "apps/v1"),
    row("authentication.k8s.io/v1beta1", "", "authentication.k8s.io/v1"),
    row("authorization.k8s.io/v1beta1", "", "authorization.k8s.io/v1"),
    row("autoscaling/v2beta1", "", "autoscaling/v2"),
    row("autoscaling/v2beta2", "", "autoscaling/v2"),
    row("batch/v1beta1", "", "batch/v1"),
    row("batch/v2alpha1", "", "batch/v1"),
    row("certificates.k8s.io/v1beta1", "", "certificates.k8s.io/v1"),
    row("coordination.k8s.io/v1beta1", "", "coordination.k8s.io/v1"),
    row("discovery.k8s.io/v1beta1", "", "discovery.k8s.io/v1"),
    row("events.k8s.io/v1beta1", "", "events.k8s.io/v1"),
    row("extensions/v1beta1", "daemonsets", "apps/v1"),
    row("extensions/v1beta1", "deployments", "apps/v1"),
    row("extensions/v1beta1", "replicasets", "apps/v1"),
    row("extensions/v1beta1", "ingresses", NETWORK),
    row("extensions/v1beta1", "networkpolicies", NETWORK),
    row("extensions/v1beta1", "podsecuritypolicies", "Pod Security Admission"),
    row("flowcontrol.apiserver.k8s.io/v1alpha1", "", "flowcontrol.apiserver.k8s.io/v1"),
    row("flowcontrol.apiserver.k8s.io/v1beta1", "", "flowcontrol.apiserver.k8s.io/v1"),
    row("flowcontrol.apiserver.k8s.io/v1beta2", "", "flowcontrol.apiserver.k8s.io/v1"),
    row("flowcontrol.apiserver.k8s.io/v1beta3", "", "flowcontrol.apiserver.k8s.io/v1"),
    row("networking.k8s.io/v1beta1", "", NETWORK),
    row("node.k8s.io/v1alpha1", "", "node.k8s.io/v1"),
    row("node.k8s.io/v1beta1", "", "node.k8s.io/v1"),
    row("policy/v1beta1", "poddisruptionbudgets", "policy/v1"),
    row("policy/v1beta1", "podsecuritypolicies", "Pod Security Admission"),
    row("rbac.authorization.k8s.io/v1alpha1", "", "rbac.authorization.k8s.io/v1"),
    row("rbac.authorization.k8s.io/v1beta1", "", "rbac.authorization.k8s.io/v1"),
    row("resource.k8s.io/v1alpha2", "", "resource.k8s.io/v1"),
    row("resource.k8s.io/v1alpha3", "", "resource.k8s.io/v1"),
    row("resource.k8s.io/v1beta1", "", "resource.k8s.io/v1"),
    row("resource.k8s.io/v1beta2", "", "resource.k8s.io/v1"),
    row("scheduling.k8s.io/v1alpha1", "", "scheduling.k8s.io/v1"),
    row("scheduling.k8s.io/v1beta1", "", "scheduling.k8s.io/v1"),
    row("storage.k8s.io/v1alpha1", "", "storage.k8s.io/v1"),
    row("storage.k8s.io/v1beta1", "", "storage.k8s.io/v1"),
    row("v1", "componentstatuses", "/livez and /readyz of the components"),
    row("v1", "endpoints", "discovery.k8s.io/v1 EndpointSlice"),
];

/// What is known of a resource in a version.
pub(super) fn api(version: &str, resource: &str) -> Option<&'static Api> {
    let of_version = || APIS.iter().filter(|api| api.version == version);
    of_version().find(|api| api.resource == resource).or_else(|| of_version().find(|api| api.resource.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_of_its_own_comes_before_its_version() {
        let instead = |version, resource| api(version, resource).map(|api| api.instead);
        assert_eq!(instead("policy/v1beta1", "podsecuritypolicies"), Some("Pod Security Admission"));
        assert_eq!(instead("policy/v1beta1", "poddisruptionbudgets"), Some("policy/v1"));
        assert_eq!(instead("autoscaling/v2beta1", "horizontalpodautoscalers"), Some("autoscaling/v2"));
        assert_eq!(instead("v1", "endpoints"), Some("discovery.k8s.io/v1 EndpointSlice"));
        assert_eq!((instead("v1", "pods"), instead("example.com/v1beta1", "widgets")), (None, None));
    }
}
