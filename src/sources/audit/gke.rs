//! Audit entries of Google's Cloud Logging: not the apiserver's events but what is made of them.
//!
//! They carry no stage, no URI, no latency and a gRPC status in place of the HTTP code; what can be
//! distinguished from method and resource name is put back into the form of an event.

use super::general::Members;
use crate::model::event::{Event, Level, Stage};
use crate::model::json::JsonStr;
use std::borrow::Cow;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// An event of the Kubernetes apiserver.
    Event,
    /// An audit entry of another service: of GKE itself, of Compute Engine.
    OfOthers,
}

/// Hands the event in a `LogEntry` to `each`; `None` if it is not an audit entry.
pub fn entry(entry: &Members<'_>, mut each: impl FnMut(&Event<'_>)) -> Option<Entry> {
    let payload = entry.object("protoPayload")?;
    // What an export leaves out is taken for the apiserver's: then nothing else says what it is.
    let is = |key: &str, wanted: &str| payload.text(key).is_none_or(|text| text == wanted);
    if !is("serviceName", "k8s.io") || !is("@type", "type.googleapis.com/google.cloud.audit.AuditLog") {
        return Some(Entry::OfOthers);
    }
    let method = payload.text("methodName")?;
    let verb = method.rsplit('.').next()?;
    let resource_name = payload.text("resourceName").unwrap_or_default();
    let object = Object::parse(&resource_name);
    let uri = format!("/{}", object.path(&resource_name));
    let request = payload.object("requestMetadata");
    let request_text = |key| request.as_ref().and_then(|r| r.string(key)).unwrap_or_default();
    let operation = entry.object("operation");
    let flag = |key| operation.as_ref().and_then(|o| o.get(key)) == Some("true");
    let resource = entry.object("resource");
    let cluster =
        resource.as_ref().and_then(|r| r.object("labels")).and_then(|l| l.text("cluster_name").map(Cow::into_owned));
    let raw = |key| payload.get(key).unwrap_or_default().as_bytes();
    let event = Event {
        cluster: cluster.map(Cow::Owned),
        level: match (payload.get("response"), payload.get("request")) {
            (Some(_), _) => Level::RequestResponse,
            (None, Some(_)) => Level::Request,
            (None, None) => Level::Metadata,
        },
        stage: Some(if flag("first") && !flag("last") { Stage::ResponseStarted } else { Stage::ResponseComplete }),
        audit_id: operation
            .as_ref()
            .and_then(|o| o.string("id"))
            .or_else(|| entry.string("insertId"))
            .unwrap_or_default(),
        uri: JsonStr::plain(&uri),
        verb: JsonStr::plain(verb),
        user: payload.object("authenticationInfo").and_then(|a| a.string("principalEmail")).unwrap_or_default(),
        source: request_text("callerIp"),
        agent: request_text("callerSuppliedUserAgent"),
        resource: JsonStr::plain(object.resource),
        namespace: JsonStr::plain(object.namespace),
        name: JsonStr::plain(object.name),
        group: JsonStr::plain(object.group),
        subresource: JsonStr::plain(object.subresource),
        code: Some(http_code(&payload)),
        request_body: raw("request"),
        response_body: raw("response"),
        at: entry.string("timestamp").or_else(|| entry.string("receiveTimestamp")).unwrap_or_default(),
        annotations: entry.get("labels").unwrap_or_default().as_bytes(),
        ..Event::default()
    };
    each(&event);
    Some(Entry::Event)
}

/// The parts of `GROUP/VERSION/[namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]]`.
#[derive(Debug, Default, PartialEq)]
struct Object<'a> {
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
    subresource: &'a str,
}

impl<'a> Object<'a> {
    fn parse(resource_name: &'a str) -> Self {
        let parts: Vec<&str> = resource_name.split('/').collect();
        let [group, _version, rest @ ..] = parts.as_slice() else { return Self::default() };
        let group = if *group == "core" { "" } else { group };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !matches!(rest[0], "status" | "finalize") => {
                (*namespace, rest)
            }
            _ => ("", rest),
        };
        let part = |i: usize| rest.get(i).copied().unwrap_or_default();
        Self { group, namespace, resource: part(0), name: part(1), subresource: part(2) }
    }

    /// The request path that the resource name stands for.
    fn path(&self, resource_name: &str) -> String {
        match resource_name.strip_prefix("core/") {
            Some(rest) => format!("api/{rest}"),
            None if self.resource.is_empty() => resource_name.to_owned(),
            None => format!("apis/{resource_name}"),
        }
    }
}

/// The HTTP code: the one in a failed response's Status if it is logged, else by the gRPC code
/// (google.rpc.Code maps each to one HTTP code).
fn http_code(payload: &Members<'_>) -> u16 {
    if let Some(response) = payload.object("response")
        && response.text("status").as_deref() == Some("Failure")
        && let Some(code) = response.get("code").and_then(|c| c.parse().ok())
    {
        return code;
    }
    let grpc = payload.object("status").and_then(|s| s.get("code").and_then(|c| c.parse::<u8>().ok()));
    match grpc.unwrap_or(0) {
        0 => 200,
        1 => 499,
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_names_are_taken_apart() {
        let pod = Object::parse("core/v1/namespaces/web/pods/a/exec");
        assert_eq!(pod, Object { group: "", resource: "pods", namespace: "web", name: "a", subresource: "exec" });
        assert_eq!(pod.path("core/v1/namespaces/web/pods/a/exec"), "api/v1/namespaces/web/pods/a/exec");
        assert_eq!(
            Object::parse("core/v1/namespaces/web"),
            Object { resource: "namespaces", name: "web", ..Object::default() }
        );
        let role = Object::parse("rbac.authorization.k8s.io/v1/clusterroles/x");
        assert_eq!((role.group, role.resource, role.name), ("rbac.authorization.k8s.io", "clusterroles", "x"));
        assert_eq!(Object::parse("healthz"), Object::default());
    }
}
