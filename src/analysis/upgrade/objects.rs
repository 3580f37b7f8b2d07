//! Objects that were written in versions of APIs which an upgrade ends: whoever applies their manifests again fails.

use super::Fate;
use super::apis::api;
use crate::analysis::list_route::Minor;
use crate::model::objects::Objects;
use std::collections::{BTreeMap, BTreeSet};

/// Which kinds a release (Kubernetes 1.N) no longer serves in a version; no kinds: all of the version. (Source: the
/// deprecated API migration guide; what later releases end, their apiservers say of calls.)
const ENDED: [(&str, &[&str], u32); 24] = [
    ("admissionregistration.k8s.io/v1beta1", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"], 22),
    ("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"], 22),
    ("apiregistration.k8s.io/v1beta1", &["APIService"], 22),
    ("apps/v1beta1", &[], 16),
    ("apps/v1beta2", &[], 16),
    ("autoscaling/v2beta1", &["HorizontalPodAutoscaler"], 25),
    ("autoscaling/v2beta2", &["HorizontalPodAutoscaler"], 26),
    ("batch/v1beta1", &["CronJob"], 25),
    ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"], 22),
    ("coordination.k8s.io/v1beta1", &["Lease"], 22),
    ("discovery.k8s.io/v1beta1", &["EndpointSlice"], 25),
    ("events.k8s.io/v1beta1", &["Event"], 25),
    ("extensions/v1beta1", &["Ingress"], 22),
    ("extensions/v1beta1", &[], 16),
    ("flowcontrol.apiserver.k8s.io/v1beta1", &[], 26),
    ("flowcontrol.apiserver.k8s.io/v1beta2", &[], 29),
    ("flowcontrol.apiserver.k8s.io/v1beta3", &[], 32),
    ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"], 22),
    ("node.k8s.io/v1beta1", &["RuntimeClass"], 25),
    ("policy/v1beta1", &["PodDisruptionBudget", "PodSecurityPolicy"], 25),
    ("rbac.authorization.k8s.io/v1beta1", &[], 22),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"], 22),
    ("storage.k8s.io/v1beta1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"], 22),
    ("storage.k8s.io/v1beta1", &["CSIStorageCapacity"], 27),
];

/// The first release that does not serve a kind in a version; `None` where that is not known.
fn ended(version: &str, kind: &str) -> Option<Minor> {
    let of_version = || ENDED.iter().filter(|(own, ..)| *own == version);
    let named = of_version().find(|(_, kinds, _)| kinds.contains(&kind));
    named.or_else(|| of_version().find(|(_, kinds, _)| kinds.is_empty())).map(|(.., minor)| Minor(*minor))
}

/// Objects of a kind in a namespace that somebody wrote in a version that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldObjects {
    pub cluster: String,
    /// [`Fate::Breaks`] or [`Fate::Later`].
    pub fate: Fate,
    /// Group and version.
    pub version: String,
    pub kind: String,
    /// Empty for what belongs to none.
    pub namespace: String,
    /// Who wrote them so; empty: their manifests say it themselves.
    pub by: String,
    /// Which, in order.
    pub names: Vec<String>,
    /// The first release that does not serve it.
    pub removed: Minor,
    /// What to write instead; empty where that is not known.
    pub instead: &'static str,
}

/// The resource of a kind.
fn resource(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

/// What was written in versions that end, of each cluster's objects; the gravest first, then by kind and namespace.
pub fn old_objects<'o>(captured: impl Iterator<Item = (&'o str, &'o Objects)>, to: Minor) -> Vec<OldObjects> {
    // One object in two captures is one.
    let mut all: BTreeMap<[&str; 5], BTreeMap<&str, Minor>> = BTreeMap::new();
    for (cluster, objects) in captured {
        for own in &objects.old_writings {
            let Some(removed) = ended(&own.version, &own.kind) else { continue };
            let key = [cluster, &own.version, &own.kind, &own.namespace, &own.by];
            all.entry(key).or_default().insert(&own.name, removed);
        }
    }
    let row = |([cluster, version, kind, namespace, by], names): ([&str; 5], BTreeMap<&str, Minor>)| {
        let removed = *names.values().next()?;
        Some(OldObjects {
            cluster: cluster.to_owned(),
            fate: if removed <= to { Fate::Breaks } else { Fate::Later },
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            by: by.to_owned(),
            names: names.into_keys().map(str::to_owned).collect(),
            removed,
            instead: api(version, &resource(kind)).map_or("", |api| api.instead),
        })
    };
    let mut rows: Vec<OldObjects> = all.into_iter().filter_map(row).collect();
    rows.sort_by_key(|own| own.fate);
    rows
}

/// Versions of Kubernetes' own groups in which objects were written, and of which the guide does not say when they end.
pub fn unknown<'o>(captured: impl Iterator<Item = &'o Objects>) -> BTreeSet<String> {
    let writings = captured.flat_map(|objects| &objects.old_writings);
    let is_own = |version: &str| {
        let group = version.split_once('/').map_or("", |(group, _)| group);
        !group.contains('.') || group.ends_with(".k8s.io")
    };
    let unknown = writings.filter(|own| is_own(&own.version) && ended(&own.version, &own.kind).is_none());
    unknown.map(|own| format!("{} {}", own.version, own.kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::objects::OldWriting;

    #[test]
    fn every_version_that_ended_has_something_instead() {
        for (version, kinds, _) in ENDED {
            let all = if kinds.is_empty() { &["FlowSchema", "Deployment", "RoleBinding"][..] } else { kinds };
            let is_known = all.iter().any(|kind| api(version, &resource(kind)).is_some());
            assert!(is_known, "{version}");
        }
        assert_eq!(
            (ended("extensions/v1beta1", "Ingress"), ended("policy/v1", "PodDisruptionBudget")),
            (Some(Minor(22)), None)
        );
        assert_eq!(ended("extensions/v1beta1", "DaemonSet"), Some(Minor(16)));
        assert_eq!(
            [resource("Ingress"), resource("NetworkPolicy"), resource("CronJob")],
            ["ingresses", "networkpolicies", "cronjobs"]
        );
    }

    #[test]
    fn an_object_of_two_captures_is_one() {
        let old = |name: &str| OldWriting {
            version: "batch/v1beta1".to_owned(),
            kind: "CronJob".to_owned(),
            name: name.to_owned(),
            ..OldWriting::default()
        };
        let captured = |names: &[&str]| Objects {
            old_writings: names.iter().map(|name| old(name)).collect(),
            ..Objects::default()
        };
        let (first, second) = (captured(&["a", "b"]), captured(&["b", "c"]));
        let rows = old_objects([("x", &first), ("x", &second)].into_iter(), Minor(24));
        assert_eq!((rows.len(), rows[0].fate), (1, Fate::Later));
        assert_eq!(rows[0].names, ["a", "b", "c"]);
        assert_eq!(old_objects([("x", &first)].into_iter(), Minor(25))[0].fate, Fate::Breaks);
    }
}
