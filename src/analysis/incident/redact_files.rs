//! Pseudonyms in the files of a bundle: JSON by field, metrics by label, dump pages by cell.
//!
//! What plimsoll counts by (verbs, resources, times, audit ids) stays as it is, so that a bundle shows the same with
//! and without names.

use super::redact::{Kind, Names, is_word};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// Members of JSON that hold words of the API, and no names.
const WORDS: [&str; 22] = [
    "apiGroup",
    "apiGroups",
    "apiVersion",
    "apiVersions",
    "auditID",
    "code",
    "creationTimestamp",
    "kind",
    "level",
    "operations",
    "phase",
    "reason",
    "requestReceivedTimestamp",
    "resource",
    "resources",
    "resourceVersion",
    "stage",
    "stageTimestamp",
    "subresource",
    "timestamp",
    "uid",
    "verb",
];

/// Labels of metrics that hold such words.
const WORD_LABELS: [&str; 18] = [
    "code",
    "component",
    "flow_schema",
    "flowSchema",
    "group",
    "kind",
    "le",
    "operation",
    "priority_level",
    "priorityLevel",
    "quantile",
    "reason",
    "resource",
    "scope",
    "subresource",
    "type",
    "verb",
    "version",
];

/// Columns of dump pages that hold such words.
const WORD_COLUMNS: [&str; 6] =
    ["PriorityLevelName", "FlowSchemaName", "Verb", "APIVersion", "Resource", "SubResource"];

/// Kinds whose objects are part of the API itself: their names show nothing of a cluster's users, and much depends on
/// them.
const OF_THE_API: [&str; 6] = [
    "APIService",
    "CustomResourceDefinition",
    "FlowSchema",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "RuntimeClass",
];

/// The same by resource.
const API_RESOURCES: [&str; 6] = [
    "apiservices",
    "customresourcedefinitions",
    "flowschemas",
    "priorityclasses",
    "prioritylevelconfigurations",
    "runtimeclasses",
];

/// Members in which a `name` is that of an object.
const NAMED: [&str; 9] = [
    "claimRef",
    "involvedObject",
    "metadata",
    "objectRef",
    "ownerReferences",
    "regarding",
    "roleRef",
    "scaleTargetRef",
    "targetRef",
];

/// Names that were met.
pub type SeenNames = BTreeMap<String, Kind>;

fn meet(met: &mut SeenNames, name: &str, kind: Kind) {
    if !name.is_empty() {
        met.entry(name.to_owned()).and_modify(|known| *known = kind.min(*known)).or_insert(kind);
    }
}

/// What a member holds, if it holds names.
fn kind_of(member: &str) -> Option<Kind> {
    Some(match member {
        "username" | "user" | "groups" | "principalEmail" => Kind::User,
        "sourceIPs" | "callerIp" | "podIP" | "hostIP" | "ip" | "clusterIP" | "clusterIPs" | "externalIPs"
        | "address" => Kind::Address,
        "namespace" => Kind::Namespace,
        "nodeName" | "nominatedNodeName" | "holderIdentity" | "serviceAccountName" | "serviceAccount" | "claimName"
        | "volumeName" | "secretName" | "hostname" => Kind::Name,
        _ => return None,
    })
}

/// Names in a JSON value.
pub fn meet_json(value: &Json, met: &mut SeenNames) {
    meet_below(value, "", met);
}

fn meet_below(value: &Json, member: &str, met: &mut SeenNames) {
    match value {
        Json::String(text) => {
            if let Some(inner) = inner(text) {
                return meet_below(&inner, "", met);
            }
            if let Some(kind) = kind_of(member).filter(|kind| *kind != Kind::Address || text.parse::<IpAddr>().is_ok())
            {
                meet(met, text, kind);
                // As `HOST_UUID`, of which the host alone stands elsewhere.
                if let Some((host, _)) = text.split_once('_').filter(|_| member == "holderIdentity") {
                    meet(met, host, kind);
                }
            }
            addresses(text, met);
            quotas(text, met);
        }
        Json::Array(items) => items.iter().for_each(|item| meet_below(item, member, met)),
        Json::Object(members) => {
            name_of(members, member, met);
            members.iter().filter(|(name, _)| *name != "extra").for_each(|(name, value)| meet_below(value, name, met));
        }
        _ => {}
    }
}

/// The name of the object that these members are about.
fn name_of(members: &Map<String, Json>, member: &str, met: &mut SeenNames) {
    let text = |name: &str| members.get(name).and_then(Json::as_str).unwrap_or_default();
    let name = text("name");
    match member {
        "subjects" => meet(met, name, if text("kind") == "ServiceAccount" { Kind::Name } else { Kind::User }),
        _ if API_RESOURCES.contains(&text("resource")) || name.starts_with("system:") => {}
        _ if text("resource") == "namespaces" => meet(met, name, Kind::Namespace),
        _ if NAMED.contains(&member) && !OF_THE_API.contains(&text("kind")) => meet(met, name, Kind::Name),
        _ => {}
    }
    // An object: what its metadata call it.
    if let Some(Json::Object(metadata)) = members.get("metadata") {
        let name = metadata.get("name").and_then(Json::as_str).unwrap_or_default();
        match text("kind") {
            "Namespace" => meet(met, name, Kind::Namespace),
            "Node" => meet(met, name, Kind::Name),
            _ => {}
        }
    }
}

/// An object that stands in a text, as log services wrap events.
fn inner(text: &str) -> Option<Json> {
    let start = text.find('{').filter(|start| *start <= 512 && text.contains("auditID"))?;
    serde_json::from_str(&text[start..]).ok()
}

/// Addresses that stand anywhere in a text.
fn addresses(text: &str, met: &mut SeenNames) {
    for word in text.split(|c: char| !(c.is_ascii_digit() || c == '.')) {
        if let Ok(address) = word.parse::<Ipv4Addr>()
            && !address.is_loopback()
            && !address.is_unspecified()
        {
            meet(met, word, Kind::Address);
        }
    }
}

/// Quotas that a message names: they stand in no field.
fn quotas(text: &str, met: &mut SeenNames) {
    if let Some((_, rest)) = text.split_once("exceeded quota: ") {
        meet(met, rest.split([',', ' ']).next().unwrap_or_default(), Kind::Name);
    }
}

/// Names in a line of a metrics page or a dump page.
pub fn meet_line(line: &str, met: &mut SeenNames) {
    addresses(line, met);
    for (label, value) in labels(line) {
        let kind = match label {
            "namespace" | "exported_namespace" => Kind::Namespace,
            "node" | "pod" | "persistentvolumeclaim" | "resourcequota" => Kind::Name,
            "user" | "username" => Kind::User,
            _ => continue,
        };
        meet(met, value, kind);
    }
}

/// Names in a dump page.
pub fn meet_dump(text: &str, met: &mut SeenNames) {
    let mut columns: Vec<&str> = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if columns.is_empty() || cells.contains(&"PriorityLevelName") {
            columns = cells;
            continue;
        }
        for (column, cell) in columns.iter().zip(&cells).filter(|_| cells.len() == columns.len()) {
            match *column {
                "UserName" => meet(met, cell, Kind::User),
                "Namespace" => meet(met, cell, Kind::Namespace),
                "Name" => meet(met, cell, Kind::Name),
                _ => {}
            }
        }
        addresses(line, met);
    }
}

/// Labels of a line and their values, as they stand there.
fn labels(line: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = match line.find('{') {
        Some(start) if !line.starts_with('#') => &line[start + 1..],
        _ => return found,
    };
    while let Some(at) = rest.find("=\"") {
        let name = rest[..at].rsplit([',', ' ', '{']).next().unwrap_or_default();
        let value = &rest[at + 2..];
        let mut escaped = false;
        let end = value.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(end) = end else { break };
        found.push((name, &value[..end]));
        rest = &value[end + 1..];
    }
    found
}

impl Names {
    /// JSON with pseudonyms. What providers of identities add to a user (`extra`) is left out.
    pub fn redact_json(&self, value: &mut Json) {
        self.below(value, "");
    }

    fn below(&self, value: &mut Json, member: &str) {
        match value {
            Json::String(text) if member == "requestURI" => *text = self.uri(text),
            Json::String(_) if WORDS.contains(&member) => {}
            Json::String(text) => match inner(text) {
                Some(mut event) => {
                    self.below(&mut event, "");
                    *text = event.to_string();
                }
                None => *text = self.text(text),
            },
            Json::Array(items) => items.iter_mut().for_each(|item| self.below(item, member)),
            Json::Object(members) => {
                members.shift_remove("extra");
                members.iter_mut().for_each(|(name, value)| self.below(value, name));
            }
            _ => {}
        }
    }

    /// A request's path: what stands where the API has its own words stays.
    fn uri(&self, uri: &str) -> String {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
        let segments: Vec<&str> = path.split('/').collect();
        // Behind the version: [namespaces, NAMESPACE], resource, name, subresource.
        let start = match segments.get(1) {
            Some(&"api") => 3,
            Some(&"apis") => 4,
            _ => return self.text(uri),
        };
        let start = start + usize::from(segments.get(start) == Some(&"watch"));
        let is_inside = segments.get(start) == Some(&"namespaces") && segments.len() > start + 2;
        let segment = |(place, segment): (usize, &&str)| match (place.checked_sub(start), is_inside) {
            (None | Some(0 | 2), _) | (Some(4), true) => (*segment).to_owned(),
            _ => self.text(segment),
        };
        let path = segments.iter().enumerate().map(segment).collect::<Vec<_>>().join("/");
        match query {
            Some(query) => format!("{path}?{}", self.text(query)),
            None => path,
        }
    }

    /// A line of a metrics page with pseudonyms.
    pub fn redact_line(&self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut at = 0;
        for (label, value) in labels(line) {
            let from = value.as_ptr() as usize - line.as_ptr() as usize;
            if !WORD_LABELS.contains(&label) {
                out.push_str(&line[at..from]);
                out.push_str(&self.text(value));
                at = from + value.len();
            }
        }
        out.push_str(&line[at..]);
        out
    }

    /// A dump page with pseudonyms.
    pub fn redact_dump(&self, text: &str) -> String {
        let mut columns: Vec<&str> = Vec::new();
        let mut out = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let cells: Vec<&str> = line.split(',').collect();
            if columns.is_empty() || line.contains("PriorityLevelName") {
                columns = cells.iter().map(|cell| cell.trim()).collect();
                out.push_str(line);
                continue;
            }
            let is_whole = cells.len() == columns.len();
            let cell = |(place, cell): (usize, &&str)| match columns.get(place) {
                Some(column) if is_whole && WORD_COLUMNS.contains(column) => (*cell).to_owned(),
                _ => {
                    let bare = cell.trim();
                    cell.replacen(bare, &self.text(bare), usize::from(!bare.is_empty()))
                }
            };
            out.push_str(&cells.iter().enumerate().map(cell).collect::<Vec<_>>().join(","));
        }
        out
    }

    /// A path in a bundle with pseudonyms: folders are called as apiservers and groups are. The first says what is in
    /// it.
    pub fn redact_path(&self, path: &str) -> String {
        let part = |(place, part): (usize, &str)| match place {
            0 => part.to_owned(),
            // A plain word is no host's name.
            _ if !part.contains(|c: char| !is_word(c) || c.is_ascii_digit()) => part.to_owned(),
            _ => self.text(part),
        };
        path.split('/').enumerate().map(part).collect::<Vec<_>>().join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event() -> Json {
        json!({
            "auditID": "a", "verb": "get", "requestURI": "/api/v1/namespaces/events/pods/web-1/log?container=web-1",
            "user": {"username": "system:serviceaccount:events:bot",
            "groups": ["system:serviceaccounts:events", "payments"], "extra": {"mail": ["x@y.z"]}},
            "objectRef": {"resource": "pods", "namespace": "events", "name": "web-1"},
            "sourceIPs": ["10.1.2.3", "2001:db8::1"],
            "responseStatus": {"message": "pods \"web-1\" is forbidden: exceeded quota: team, requested: \
             pods=1", "code": 403},
        })
    }

    #[test]
    fn events_keep_what_is_counted_and_lose_names() {
        let mut met = SeenNames::new();
        meet_json(&event(), &mut met);
        let names = Names::new(met);
        let mut redacted = event();
        names.redact_json(&mut redacted);
        let text = redacted.to_string();
        for name in ["web-1", "bot", "payments", "10.1.2.3", "2001:db8::1", "team", "x@y.z"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
        // The namespace is called as a resource is.
        let namespace = redacted["objectRef"]["namespace"].as_str().unwrap();
        let pod = redacted["objectRef"]["name"].as_str().unwrap();
        assert_eq!(redacted["requestURI"], format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container={pod}"));
        assert_eq!(
            (&redacted["verb"], &redacted["objectRef"]["resource"], namespace),
            (&json!("get"), &json!("pods"), "namespace-1")
        );
        // In a wrapper the same.
        let mut wrapped = json!({"message": event().to_string()});
        names.redact_json(&mut wrapped);
        assert_eq!(wrapped["message"], text);
    }

    #[test]
    fn paths_keep_the_words_of_the_api() {
        let names = Names::new(
            [("pods", Kind::Namespace), ("nodes", Kind::Name), ("api", Kind::Name)]
                .map(|(name, kind)| (name.to_owned(), kind)),
        );
        for (uri, wanted) in [
            ("/api/v1/pods?limit=500", "/api/v1/pods?limit=500"),
            ("/api/v1/nodes/nodes/status", "/api/v1/nodes/NODE/status"),
            (
                "/apis/apps/v1/namespaces/pods/deployments/nodes/scale",
                "/apis/apps/v1/namespaces/namespace-1/deployments/NODE/scale",
            ),
            ("/api/v1/namespaces/pods", "/api/v1/namespaces/namespace-1"),
            ("/api/v1/watch/namespaces/pods/pods", "/api/v1/watch/namespaces/namespace-1/pods"),
        ] {
            assert_eq!(names.uri(uri), wanted.replace("NODE", &names.text("nodes")), "{uri}");
        }
    }

    #[test]
    fn pages_keep_their_series_apart() {
        let line = r#"kube_pod_info{namespace="shop",pod="web-1",resource="shop",le="1",host="10.0.0.1:6443",odd="a\"b,c=\"d"} 1 # x"#;
        let mut met = SeenNames::new();
        meet_line(line, &mut met);
        let names = Names::new(met);
        let redacted = names.redact_line(line);
        assert_eq!(
            redacted,
            line.replace("namespace=\"shop\"", "namespace=\"namespace-1\"")
                .replace("web-1", "name-1")
                .replace("10.0.0.1", "address-1")
        );
        let dump = "PriorityLevelName, FlowSchemaName, UserName, Verb, APIPath, Namespace, Name\nshop, shop, jane, \
             list, /api/v1/namespaces/shop/pods, shop, \n";
        let mut met = SeenNames::new();
        meet_dump(dump, &mut met);
        let redacted = Names::new(met).redact_dump(dump);
        assert_eq!(
            redacted.lines().nth(1),
            Some("shop, shop, user-1, list, /api/v1/namespaces/namespace-1/pods, namespace-1, ")
        );
    }
}
