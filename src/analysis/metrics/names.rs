//! Verbs of request metrics as audit logs call them, and what older apiservers call resources in the labels of storage
//! and watch cache metrics, as resources and groups are called everywhere else. (docs/metrics.md, section 7;
//! samples/metrics-forms/README.md has the sources.)

use crate::model::registry::{PREFIXES, group_of};
use std::borrow::Cow;

/// Group and resource of what a label says; `group` is that of the label beside it, if there is one.
pub(super) fn resource<'v>(label: &str, value: &'v str, group: Option<&'v str>) -> (Cow<'v, str>, Cow<'v, str>) {
    let known = group_of;
    if let Some(kind) = value.strip_prefix('*').and_then(|go| go.rsplit('.').next()) {
        // All custom resources share a type.
        let resource = if kind == "Unstructured" { value.to_owned() } else { plural(kind) };
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

/// The resource of a kind, by the rules of English, which built-in and most custom resources follow.
fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| kind.ends_with(ending));
    if kind == "endpoints" {
        kind
    } else if ends(&["s", "x", "ch", "sh"]) {
        kind + "es"
    } else if kind.ends_with('y') && !ends(&["ay", "ey", "iy", "oy", "uy"]) {
        format!("{}ies", &kind[..kind.len() - 1])
    } else {
        kind + "s"
    }
}

/// The verb of a request metric, as audit logs call it; `is_old`: of an apiserver before 1.20.
pub(super) fn verb_of<'f>(verb: &'f str, resource: &str, scope: &str, is_old: bool) -> Cow<'f, str> {
    if resource.is_empty() {
        return Cow::Owned(verb.to_ascii_lowercase());
    }
    Cow::Borrowed(match verb {
        "LIST" => "list",
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" | "APPLY" => "patch",
        // Up to 1.19 the scope is that of the route, and collections have a verb of their own.
        "DELETE" if scope == "resource" || is_old => "delete",
        "DELETE" => "deletecollection",
        "WATCH" | "WATCHLIST" => "watch",
        "CONNECT" => "connect",
        other => return Cow::Owned(other.to_ascii_lowercase()),
    })
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
