//! Dangerous operations: which events are kept in full (docs/rollup.md, "notable").

use crate::model::event::{Timed, is_lasting};
use crate::model::json::cut;
use crate::model::time::Micros;
use hashbrown::HashMap;
use serde_json::Value;

/// A dangerous operation, in full.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notable {
    /// When it was answered.
    pub at: Micros,
    pub cluster: String,
    /// By which apiserver.
    pub instance: String,
    pub kind: &'static str,
    /// Who asked.
    pub user: String,
    /// The product of the user agent.
    pub agent: String,
    /// As whom, where that is somebody else.
    pub impersonated: String,
    /// From where.
    pub source: String,
    pub verb: String,
    /// Group of the resource.
    pub group: String,
    pub resource: String,
    pub subresource: String,
    /// Where.
    pub namespace: String,
    /// Which; empty for collections.
    pub name: String,
    /// What was answered.
    pub code: Option<u16>,
    /// What was asked for, with its query.
    pub uri: String,
    /// To find it again.
    pub audit_id: String,
    /// How much the audit policy lets the log hold of it.
    pub level: &'static str,
    /// What the body, or the query, says of it.
    pub detail: String,
    /// When the request arrived, where the log says.
    pub received: Option<Micros>,
    /// Of long-running requests: which request it is (docs/rollup.md, "request identity").
    pub identity: Option<u128>,
    /// Whether it is its start; it goes on, or its end is taken from another event.
    pub starts: bool,
}

/// Whether the event starts a long-running request that was let in: what such a request does begins here.
pub fn starts(event: &Timed<'_, '_>) -> bool {
    !event.stage.is_terminal() && event.event.is_long_running() && event.event.code.is_none_or(|code| code < 400)
}

/// Leaves each long-running request once, as its start where that is there; returns how many ends were left out.
pub fn once(all: &mut Vec<Notable>) -> u64 {
    let mut starts: HashMap<u128, Micros> = HashMap::new();
    for (identity, at) in all.iter().filter(|one| one.starts).filter_map(|one| Some((one.identity?, one.at))) {
        let first = starts.entry(identity).or_insert(at);
        *first = at.min(*first);
    }
    let before = all.len();
    let started =
        |one: &Notable| one.identity.and_then(|identity| starts.get(&identity)).is_some_and(|start| *start <= one.at);
    all.retain(|one| one.starts || !started(one));
    (before - all.len()) as u64
}

/// Whether a user is part of the control plane, whose deletions follow from those of others.
pub fn is_control_plane(user: &str) -> bool {
    matches!(user, "system:apiserver" | "system:kube-controller-manager" | "system:kube-scheduler")
        || user.starts_with("system:serviceaccount:kube-system:")
}

impl Notable {
    /// The event in full, as one of a kind.
    pub fn of(event: &Timed<'_, '_>, kind: &'static str, detail: String) -> Self {
        let e = event.event;
        let text = |text: crate::model::json::JsonStr<'_>| cut(&text.decode()).into_owned();
        let impersonated = crate::model::walk::member(e.impersonated, "username")
            .and_then(|name| serde_json::from_slice::<String>(name).ok())
            .unwrap_or_default();
        Self {
            at: event.at,
            cluster: event.cluster().to_owned(),
            instance: event.instance().to_owned(),
            kind,
            user: text(e.user),
            agent: cut(&e.agent_product()).into_owned(),
            impersonated,
            source: text(e.source),
            verb: text(e.verb),
            group: text(e.group),
            resource: text(e.resource),
            subresource: text(e.subresource),
            namespace: text(e.namespace),
            name: text(e.name),
            code: e.code,
            uri: text(e.uri),
            audit_id: text(e.audit_id),
            level: e.level.name(),
            detail,
            received: event.received,
            identity: e.is_long_running().then(|| event.identity(&mut Vec::new())),
            starts: starts(event),
        }
    }

    /// Whether it lasts as long as its client likes.
    pub fn is_long_running(&self) -> bool {
        matches!(self.verb.as_str(), "watch" | "proxy")
            || is_lasting(self.subresource.as_bytes())
            || self.uri.starts_with("/debug/pprof/")
    }

    /// Which request it is, by what is stored of it.
    pub fn stored_identity(&self) -> u128 {
        let received = self.received.unwrap_or_default().to_string();
        let parts = [&self.cluster, &self.instance, &self.audit_id, &self.uri, &received];
        xxhash_rust::xxh3::xxh3_128(parts.map(String::as_str).join("\u{1}").as_bytes())
    }

    /// The same however often it is read.
    pub fn id(&self) -> String {
        format!("{} {} {} {}", self.at, self.kind, self.audit_id, self.name)
    }
}

/// All kinds.
pub const KINDS: [&str; 22] = [
    "exec",
    "ephemeral-container",
    "node-proxy",
    "delete-collection",
    "delete-namespace",
    "delete-crd",
    "delete-node",
    "delete-apiservice",
    "delete-pdb",
    "delete-volume",
    "delete-control-plane-lease",
    "evict",
    "delete-pod",
    "scale-to-zero",
    "cordon",
    "webhook-write",
    "apiservice-write",
    "rbac-write",
    "flowcontrol-write",
    "token-create",
    "csr-approve",
    "finalize",
];

/// Further kinds of the table `operations`.
pub const KINDS_MORE: [&str; 3] = ["force-delete", "strip-finalizers", "forbidden"];

/// Which kind of dangerous operation it is, with what the body or the query says of it.
pub fn kind(event: &Timed<'_, '_>) -> Option<(&'static str, String)> {
    let e = event.event;
    let verb = e.verb.bytes();
    let verb = verb.as_ref();
    let is_write = match verb {
        b"create" | b"update" | b"patch" | b"delete" | b"deletecollection" => true,
        b"get" | b"proxy" => false,
        // A proxied request has the verb of its own method.
        _ if e.subresource.raw() == b"proxy" => false,
        _ => return None,
    };
    let resource = e.resource.raw();
    let sub = e.subresource.raw();
    // Whoever it is, these are worth keeping.
    match (verb, resource, sub) {
        (b"create" | b"get", b"pods", b"exec" | b"attach") => return some("exec"),
        (b"update" | b"patch", b"pods", b"ephemeralcontainers") => return some("ephemeral-container"),
        (_, b"nodes", b"proxy") => return some("node-proxy"),
        _ => {}
    }
    if !is_write {
        return None;
    }
    let user = e.user.decode();
    if is_control_plane(&user) {
        return None;
    }
    let group = e.group.raw();
    let changes = matches!(verb, b"create" | b"update" | b"patch" | b"delete");
    match (verb, resource, sub) {
        (b"deletecollection", ..) => {
            let uri = e.uri.decode();
            let query = uri.split_once('?').map(|(_, query)| cut(query).into_owned());
            Some(("delete-collection", query.unwrap_or_default()))
        }
        (b"delete", b"namespaces", b"") => some("delete-namespace"),
        (b"delete", b"customresourcedefinitions", b"") => some("delete-crd"),
        (b"delete", b"nodes", b"") => some("delete-node"),
        (b"delete", b"apiservices", b"") => some("delete-apiservice"),
        (b"delete", b"poddisruptionbudgets", b"") => some("delete-pdb"),
        (b"delete", b"persistentvolumes", b"") => some("delete-volume"),
        (b"delete", b"leases", _) if e.namespace.is("kube-system") => some("delete-control-plane-lease"),
        (b"create", b"pods", b"eviction") => some("evict"),
        (b"delete", b"pods", b"") if !user.starts_with("system:node:") => some("delete-pod"),
        (b"update", _, b"scale") if omits_replicas(e.request_body) => Some(("scale-to-zero", "replicas=0".to_owned())),
        (b"update" | b"patch", _, b"scale" | b"") if scales(resource, sub) && sets_replicas_to_zero(e.request_body) => {
            Some(("scale-to-zero", "replicas=0".to_owned()))
        }
        (b"update" | b"patch", b"nodes", b"") if is_cordon(e.request_body) => {
            Some(("cordon", "unschedulable=true".to_owned()))
        }
        _ if changes && group == b"admissionregistration.k8s.io" => some("webhook-write"),
        (_, b"apiservices", b"") if changes => some("apiservice-write"),
        _ if changes && group == b"rbac.authorization.k8s.io" => some("rbac-write"),
        _ if changes && group == b"flowcontrol.apiserver.k8s.io" && sub != b"status" => some("flowcontrol-write"),
        (b"create", b"serviceaccounts", b"token") if !user.starts_with("system:node:") => some("token-create"),
        (b"update" | b"patch", b"certificatesigningrequests", b"approval") => some("csr-approve"),
        (b"update", b"namespaces", b"finalize") => some("finalize"),
        _ => None,
    }
}

fn some(kind: &'static str) -> Option<(&'static str, String)> {
    Some((kind, String::new()))
}

fn scales(resource: &[u8], sub: &[u8]) -> bool {
    sub == b"scale" || matches!(resource, b"deployments" | b"statefulsets" | b"replicasets" | b"replicationcontrollers")
}

/// Whether an object has no `spec.replicas`. Of a Scale that is written whole that is 0, which is left out.
pub(in crate::analysis) fn omits_replicas(body: &[u8]) -> bool {
    matches!(parse(body), Some(object @ Value::Object(_)) if object.pointer("/spec/replicas").is_none())
}

/// `spec.replicas` is 0: in an object or merge patch, or as a JSON patch of `/spec/replicas`.
fn sets_replicas_to_zero(body: &[u8]) -> bool {
    if memchr::memmem::find(body, b"replicas").is_none() {
        return false;
    }
    let is_zero = |value: &Value| value.as_u64() == Some(0) && value.is_u64();
    match parse(body) {
        Some(Value::Array(steps)) => {
            steps.iter().any(|step| step["path"] == "/spec/replicas" && step.get("value").is_some_and(is_zero))
        }
        Some(object) => object.pointer("/spec/replicas").is_some_and(is_zero),
        None => false,
    }
}

/// `spec.unschedulable` is set.
fn is_cordon(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"unschedulable").is_some()
        && parse(body).is_some_and(|object| object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)))
}

fn parse(body: &[u8]) -> Option<Value> {
    serde_json::from_str(&String::from_utf8_lossy(body)).ok()
}

/// The columns of the table `notable`.
pub(super) fn row(n: &Notable) -> Vec<String> {
    let code = n.code.map_or(String::new(), |code| code.to_string());
    let before = [&n.cluster, &n.instance].map(String::clone);
    let texts = [
        &n.user,
        &n.agent,
        &n.impersonated,
        &n.source,
        &n.verb,
        &n.group,
        &n.resource,
        &n.subresource,
        &n.namespace,
        &n.name,
        &code,
        &n.uri,
        &n.audit_id,
    ];
    let mut fields = vec![n.at.to_string()];
    fields.extend(before);
    fields.push(n.kind.to_owned());
    fields.extend(texts.map(String::clone));
    fields.extend([n.level.to_owned(), n.detail.clone()]);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_replicas_in_every_form_of_patch() {
        for (body, zero) in [
            (r#"{"spec":{"replicas":0}}"#, true),
            (r#"{"kind":"Scale","spec":{"replicas":0},"status":{"replicas":3}}"#, true),
            (r#"[{"op":"replace","path":"/spec/replicas","value":0}]"#, true),
            (r#"[{"op":"remove","path":"/spec/replicas"}]"#, false),
            (r#"{"spec":{"replicas":1},"status":{"replicas":0}}"#, false),
            (r#"{"spec":{"template":{"spec":{"replicas":0}}}}"#, false),
            (r#"{"spec":{"replicas":"0"}}"#, false),
            ("not json, replicas", false),
        ] {
            assert_eq!(sets_replicas_to_zero(body.as_bytes()), zero, "{body}");
        }
        assert!(omits_replicas(br#"{"kind":"Scale","spec":{},"status":{"replicas":3}}"#));
        assert!(!omits_replicas(br#"{"kind":"Scale","spec":{"replicas":3}}"#) && !omits_replicas(b""));
        assert!(is_cordon(br#"{"spec":{"unschedulable":true}}"#));
        assert!(!is_cordon(br#"{"spec":{"unschedulable":false}}"#));
    }
}
