//! What is removed from an object so that it can be applied again, kind by kind.

use super::{Around, Candidate, Document, Object, There, at, definition, order, text};
use serde_json::Value;

/// Fields of the metadata that the apiserver sets.
const SERVERS_OWN: [&str; 10] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
    "generateName",
    "clusterName",
];

/// Annotations that controllers or clients write again, and that say something wrong of an object made again.
const STALE_ANNOTATIONS: [&str; 12] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "control-plane.alpha.kubernetes.io/leader",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "kubernetes.io/service-account.uid",
    "batch.kubernetes.io/job-tracking",
];

/// Finalizers of what the control plane was doing with the old object.
const STALE_FINALIZERS: [&str; 3] = ["foregroundDeletion", "orphan", "batch.kubernetes.io/job-tracking"];

/// Labels by which a Job knows its Pods: of the old uid.
const JOB_LABELS: [&str; 4] =
    ["controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"];

/// Makes a document of a candidate.
pub(super) fn document(mut candidate: Candidate, around: &Around<'_>) -> Document {
    let mut comments = Vec::new();
    if at(&candidate.object, &["metadata", "deletionTimestamp"]).is_some() {
        comments.push("It was being deleted when the snapshot was taken.".to_owned());
    }
    owners(&mut candidate.object, around, &mut comments);
    metadata(&mut candidate.object);
    by_kind(&mut candidate, around, &mut comments);
    candidate.object.shift_remove("status");
    nulls(&mut candidate.object);
    if let Some(version) =
        text(&candidate.object, &["apiVersion"]).filter(|version| is_preview(version) && is_built_in(&candidate))
    {
        comments.push(format!("Its API version {version} is rejected by apiservers that no longer serve it."));
    }
    // What it is stands first, whoever wrote it.
    let mut object = Object::new();
    for name in ["apiVersion", "kind", "metadata"] {
        if let Some(value) = candidate.object.shift_remove(name) {
            object.insert(name.to_owned(), value);
        }
    }
    object.append(&mut candidate.object);
    Document { comments, object }
}

/// Whether this is an alpha or beta version.
fn is_preview(api_version: &str) -> bool {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    version.contains("alpha") || version.contains("beta")
}

fn is_built_in(candidate: &Candidate) -> bool {
    order::rank(&candidate.group, &candidate.resource) != order::CUSTOM
}

/// Owners that no longer live would have the garbage collector delete the object; one that is made again gets another
/// uid.
fn owners(object: &mut Object, around: &Around<'_>, comments: &mut Vec<String>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else { return };
    owners.retain(|owner| {
        let part = |name: &str| owner[name].as_str().unwrap_or_default();
        let lives = around.lives(part("uid"));
        if !lives {
            let why = match around.now {
                Some(_) => "an owner with its uid no longer exists, and the garbage collector would delete the object",
                None => "--deleted-since is needed to check whether its uid still exists",
            };
            comments.push(format!("Its ownerReference to {} {} is removed: {why}.", part("kind"), part("name")));
        }
        lives
    });
    if owners.is_empty() {
        metadata.shift_remove("ownerReferences");
    }
}

fn metadata(object: &mut Object) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for name in SERVERS_OWN {
        // Only as a wish for a name is it of any use.
        if name != "generateName" || metadata.contains_key("name") {
            metadata.shift_remove(name);
        }
    }
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| !STALE_ANNOTATIONS.contains(&name.as_str()));
    }
    if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
        finalizers.retain(|name| name.as_str().is_none_or(|name| !STALE_FINALIZERS.contains(&name)));
    }
    for name in ["annotations", "labels", "finalizers"] {
        let is_empty = match metadata.get(name) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if is_empty {
            metadata.shift_remove(name);
        }
    }
}

fn by_kind(candidate: &mut Candidate, around: &Around<'_>, comments: &mut Vec<String>) {
    match (candidate.group.as_str(), candidate.resource.as_str()) {
        ("", "namespaces") => {
            // The apiserver sets them.
            candidate.object.shift_remove("spec");
        }
        ("", "nodes") => remove(&mut candidate.object, "spec", &["podCIDR", "podCIDRs"]),
        ("", "services") => service(&candidate.object, comments),
        ("", "serviceaccounts") => account(candidate, around),
        ("", "secrets") => secret(&mut candidate.object, comments),
        ("", "persistentvolumes") => volume(&mut candidate.object, comments),
        ("", "persistentvolumeclaims") => claim(candidate, around, comments),
        ("", "pods") => pod(&mut candidate.object, comments),
        ("batch", "jobs") => job(&mut candidate.object, comments),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            // The apiserver sets them to whoever applies it.
            remove(&mut candidate.object, "spec", &["username", "uid", "groups", "extra"]);
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition::to_v1(&mut candidate.object, comments),
        ("apps", "statefulsets") => {
            let templates = candidate.object.get_mut("spec").and_then(|spec| spec.get_mut("volumeClaimTemplates"));
            for template in
                templates.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
            {
                template.shift_remove("status");
            }
        }
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            comments.push(
                "Once it is applied, its webhooks are called: their Service must be up, or requests may be denied."
                    .to_owned(),
            );
        }
        _ => {}
    }
}

fn remove(object: &mut Object, of: &str, names: &[&str]) {
    if let Some(part) = object.get_mut(of).and_then(Value::as_object_mut) {
        for name in names {
            part.shift_remove(*name);
        }
    }
}

fn service(object: &Object, comments: &mut Vec<String>) {
    if let Some(ip) = text(object, &["spec", "clusterIP"]).filter(|ip| !ip.is_empty() && *ip != "None") {
        comments.push(format!(
            "It requests its old clusterIP {ip}: if another Service has it, remove spec.clusterIP and \
             spec.clusterIPs."
        ));
    }
}

/// Secrets with tokens that were made for it are made again, if at all.
fn account(candidate: &mut Candidate, around: &Around<'_>) {
    let namespace = text(&candidate.object, &["metadata", "namespace"]).unwrap_or_default().to_owned();
    let mut secrets = candidate.object.shift_remove("secrets");
    if let Some(Value::Array(list)) = &mut secrets {
        list.retain(|secret| {
            let name = secret["name"].as_str().unwrap_or_default();
            let there = around.has(candidate, &format!("secrets/{namespace}/{name}"));
            matches!(there, There::InOutput | There::Lives)
        });
    }
    if let Some(Value::Array(list)) = secrets
        && !list.is_empty()
    {
        candidate.object.insert("secrets".to_owned(), Value::Array(list));
    }
}

fn secret(object: &mut Object, comments: &mut Vec<String>) {
    if text(object, &["type"]) == Some("kubernetes.io/service-account-token") {
        object.shift_remove("data");
        comments.push(
            "Its token belongs to a service account with another uid: it is cleared, and the control plane \
                 fills it again."
                .to_owned(),
        );
    }
}

fn volume(object: &mut Object, comments: &mut Vec<String>) {
    if text(object, &["spec", "persistentVolumeReclaimPolicy"]) == Some("Delete") {
        comments.push("Its reclaim policy is Delete: check whether the underlying storage still exists.".to_owned());
    }
    // With namespace and name alone it waits for the claim of that name, whatever its uid.
    if let Some(claim) = object.get_mut("spec").and_then(|spec| spec.get_mut("claimRef")).and_then(Value::as_object_mut)
    {
        claim.shift_remove("uid");
        claim.shift_remove("resourceVersion");
    }
}

fn claim(candidate: &mut Candidate, around: &Around<'_>, comments: &mut Vec<String>) {
    let Some(volume) = text(&candidate.object, &["spec", "volumeName"]).map(str::to_owned) else { return };
    match around.has(candidate, &format!("persistentvolumes/{volume}")) {
        There::InOutput => {}
        There::Lives => comments.push(format!(
            "Its volume {volume} exists and is bound to the old claim: remove uid and resourceVersion from its \
             spec.claimRef, and they are bound again."
        )),
        There::Gone => {
            remove(&mut candidate.object, "spec", &["volumeName"]);
            comments.push(format!("Its volume {volume} was deleted: a new, empty one will be created."));
        }
        There::Unknown => comments.push(format!(
            "It requests its old volume {volume}: if that was deleted, remove spec.volumeName; if not, remove uid \
             and resourceVersion from the volume's spec.claimRef."
        )),
    }
}

fn pod(object: &mut Object, comments: &mut Vec<String>) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    // The scheduler chooses again: the node may be gone, and the Pod with it.
    let mut stale = vec!["nodeName", "ephemeralContainers", "priority", "preemptionPolicy"];
    if spec.contains_key("runtimeClassName") {
        stale.push("overhead");
    }
    for name in stale {
        spec.shift_remove(name);
    }
    // Volumes with the account's token, which admission adds: old ones name a Secret that no longer exists.
    let mut tokens = Vec::new();
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        volumes.retain(|volume| {
            let name = volume["name"].as_str().unwrap_or_default();
            let is_token = name.starts_with("kube-api-access-") && volume.get("projected").is_some()
                || name.contains("-token-") && volume["secret"]["secretName"] == volume["name"];
            if is_token {
                tokens.push(name.to_owned());
            }
            !is_token
        });
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                mounts.retain(|mount| {
                    mount["name"].as_str().is_none_or(|name| !tokens.iter().any(|token| token == name))
                });
            }
        }
    }
    comments.push("It is scheduled again and starts from its image.".to_owned());
}

fn job(object: &mut Object, comments: &mut Vec<String>) {
    if super::is_finished_job(object) {
        comments.push("It had completed: applying it runs it again.".to_owned());
    } else {
        comments.push("It had not completed, and starts from the beginning.".to_owned());
    }
    if let Some(metadata) = object.get_mut("metadata") {
        unlabel(metadata);
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("manualSelector") != Some(&Value::Bool(true)) {
        // They hold the old uid, and the apiserver refuses a selector that it did not make.
        spec.shift_remove("selector");
        if let Some(metadata) = spec.get_mut("template").and_then(|template| template.get_mut("metadata")) {
            unlabel(metadata);
        }
    }
}

fn unlabel(metadata: &mut Value) {
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|name, _| !JOB_LABELS.contains(&name.as_str()));
    }
}

/// Times that were never set, as old apiservers write them in templates.
fn nulls(object: &mut Object) {
    object.retain(|name, value| !(name == "creationTimestamp" && value.is_null()));
    for value in object.values_mut() {
        inner(value);
    }
}

fn inner(value: &mut Value) {
    match value {
        Value::Object(object) => nulls(object),
        Value::Array(items) => items.iter_mut().for_each(inner),
        _ => {}
    }
}
