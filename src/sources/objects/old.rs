//! In which versions of their API objects were written: their own, that of the manifest which `kubectl apply` leaves in
//! an annotation, and those of the managers of their fields.

use super::or_default::or_default;
use crate::model::objects::{Objects, OldWriting};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Writings that are kept: a cluster in which more are old has one answer for all of them.
const MOST: usize = 100_000;

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(default, borrow)]
    metadata: Meta<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(deserialize_with = "or_default")]
    annotations: Annotations,
    #[serde(deserialize_with = "or_default")]
    managed_fields: Vec<Managed>,
}

/// The annotation in which `kubectl apply` keeps the manifest.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubectl.kubernetes.io/last-applied-configuration")]
    last_applied: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Managed {
    manager: String,
    api_version: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Manifest {
    api_version: String,
}

/// Whether a version is one that Kubernetes may end: `v1beta1`, `v2alpha1`.
fn may_end(version: &str) -> bool {
    version.contains("alpha") || version.contains("beta")
}

/// Notes how an object was written, where that is in a version that may end.
pub(super) fn note(kind: &str, version: &str, json: &RawValue, objects: &mut Objects) {
    let has = |word: &str| memchr::memmem::find(json.get().as_bytes(), word.as_bytes()).is_some();
    // Hardly any object has such a word at all.
    let is_own = may_end(version);
    if objects.old_writings.len() >= MOST || !(is_own || has("alpha") || has("beta")) {
        return;
    }
    // What is wrong with it is said by who reads more of it.
    let Ok(Written { metadata: meta }) = serde_json::from_str::<Written<'_>>(json.get()) else { return };
    let mut add = |version: &str, by: &str| {
        objects.old_writings.insert(OldWriting {
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: meta.namespace.as_deref().unwrap_or_default().to_owned(),
            name: meta.name.clone().into_owned(),
            by: by.to_owned(),
        });
    };
    if is_own {
        add(version, "");
    }
    let manifest =
        meta.annotations.last_applied.as_deref().and_then(|text| serde_json::from_str::<Manifest>(text).ok());
    if let Some(manifest) = manifest.filter(|manifest| may_end(&manifest.api_version)) {
        add(&manifest.api_version, "kubectl apply");
    }
    for Managed { manager, api_version } in &meta.managed_fields {
        if may_end(api_version) {
            add(api_version, manager);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

    #[test]
    fn all_ways_in_which_an_object_was_written_are_noted() {
        let object = serde_json::json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {
                "name": "web", "namespace": "shop",
                "annotations": {LAST_APPLIED: "{\"apiVersion\":\"policy/v1beta1\",\"kind\":\"PodDisruptionBudget\"}"},
                "managedFields": [
                    {"manager": "helm", "apiVersion": "policy/v1beta1", "operation": "Update"},
                    {"manager": "kubectl", "apiVersion": "policy/v1", "operation": "Update"},
                ],
            },
        });
        let mut objects = Objects::default();
        let raw = |value: &serde_json::Value| serde_json::value::to_raw_value(value).unwrap();
        note("PodDisruptionBudget", "policy/v1", &raw(&object), &mut objects);
        let by: Vec<&str> = objects.old_writings.iter().map(|own| own.by.as_str()).collect();
        assert_eq!(by, ["helm", "kubectl apply"]);
        assert!(objects.old_writings.iter().all(|own| own.version == "policy/v1beta1" && own.namespace == "shop"));
        // A name that holds the word, an annotation without a manifest, null for what is not there.
        let odd = serde_json::json!({"metadata": {
            "name": "beta", "annotations": {LAST_APPLIED: "beta"}, "managedFields": null, "namespace": null,
        }});
        note("Pod", "v1", &raw(&odd), &mut objects);
        note("Widget", "example.com/v1alpha1", &raw(&odd), &mut objects);
        assert_eq!(objects.old_writings.len(), 3);
        assert!(objects.old_writings.iter().any(|own| own.kind == "Widget" && own.by.is_empty()));
    }
}
