//! What bodies and queries say: dry runs, force, finalizers, replicas, rights.

use crate::analysis::rollup::notable::omits_replicas;
use crate::model::event::Event;
use serde_json::Value;
use std::borrow::Cow;

/// How details begin that say that somebody got more rights than those who gave them should.
pub(super) const ESCALATES: &str = "grants ";

/// How they begin where it can't be seen what somebody got.
pub(super) const UNSEEN: &str = "unknown rights";

/// A parameter of the query, as it stands there.
fn parameter<'a>(uri: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = uri.split_once('?')?;
    query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Whether options ask for a dry run.
fn is_dry(options: &Value) -> bool {
    options["dryRun"].as_array().is_some_and(|all| all.iter().any(|one| one == "All"))
}

/// Whether nothing was done but in appearance: by the query, or by the options in the body; an
/// eviction holds those of its deletion.
pub(super) fn is_dry_run(e: &Event<'_>) -> bool {
    if parameter(&e.uri.decode(), "dryRun").is_some_and(|value| value == "All") {
        return true;
    }
    memchr::memmem::find(e.request_body, b"\"dryRun\"").is_some()
        && body(e).is_some_and(|body| [&body, &body["deleteOptions"]].into_iter().any(is_dry))
}

/// Whether a delete does not wait for the kubelet.
pub(super) fn is_forced(e: &Event<'_>) -> bool {
    parameter(&e.uri.decode(), "gracePeriodSeconds") == Some("0")
        || memchr::memmem::find(e.request_body, b"gracePeriodSeconds").is_some()
            && body(e).is_some_and(|body| body["gracePeriodSeconds"].as_u64() == Some(0))
}

/// Whether a patch removes finalizers: a merge patch that sets them to null or to none, a strategic one that deletes or
/// replaces them, a JSON patch that removes one. A full update says only what is left, which is none.
pub(super) fn strips_finalizers(e: &Event<'_>) -> bool {
    if memchr::memmem::find(e.request_body, b"inalizers").is_none() {
        return false;
    }
    let is_patch = e.verb.is("patch");
    match body(e) {
        Some(Value::Array(steps)) => steps.iter().any(|step| {
            let is_theirs = step["path"].as_str().is_some_and(|path| path.starts_with("/metadata/finalizers"));
            let is_empty = step["value"].as_array().is_some_and(Vec::is_empty) || step["value"].is_null();
            is_theirs && (step["op"] == "remove" || step["op"] == "replace" && is_empty)
        }),
        Some(object) => {
            let metadata = &object["metadata"];
            let has_none = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            let is_set = metadata.as_object().is_some_and(|fields| fields.get("finalizers").is_some_and(has_none));
            is_patch && is_set || metadata.get("$deleteFromPrimitiveList/finalizers").is_some()
        }
        None => false,
    }
}

/// Whether `spec.replicas` becomes 0: by an object or merge patch, by steps of a JSON patch that set it or all of the
/// spec, or by a Scale that is written without it.
pub(super) fn scales_to_zero(e: &Event<'_>) -> bool {
    if e.verb.is("update") && e.subresource.is("scale") && omits_replicas(e.request_body) {
        return true;
    }
    if memchr::memmem::find(e.request_body, b"replicas").is_none() {
        return false;
    }
    let is_zero = |value: &Value| value.as_u64() == Some(0);
    match body(e) {
        Some(Value::Array(steps)) => steps.iter().filter(|step| sets(step)).any(|step| match step["path"].as_str() {
            Some("/spec/replicas") => is_zero(&step["value"]),
            Some("/spec") => is_zero(&step["value"]["replicas"]),
            Some("") => step["value"].pointer("/spec/replicas").is_some_and(is_zero),
            _ => false,
        }),
        Some(object) => object.pointer("/spec/replicas").is_some_and(is_zero),
        None => false,
    }
}

/// Whether a step of a JSON patch sets something: a test changes nothing.
fn sets(step: &Value) -> bool {
    step["op"] == "add" || step["op"] == "replace"
}

/// What a write of roles and bindings grants, as far as it is too much: everything, or to everyone. A patch says a
/// part; the object that is answered, where it is logged, says the rest.
pub(super) fn rights(e: &Event<'_>) -> String {
    if e.verb.is("delete") || e.verb.is("deletecollection") {
        return String::new();
    }
    let Some(body) = body(e) else { return UNSEEN.to_owned() };
    let answer: Option<Value> = serde_json::from_slice(e.response_body).ok();
    let (mut rules, mut subjects) = (Vec::new(), Vec::new());
    match &body {
        Value::Array(steps) => {
            for step in steps.iter().filter(|step| sets(step)) {
                let (path, value) = (step["path"].as_str().unwrap_or_default(), &step["value"]);
                let to = if path.starts_with("/rules") { &mut rules } else { &mut subjects };
                // `/rules` and `/subjects` are set as a whole, or what is in them one by one; further down a part of
                // one.
                match value {
                    _ if !path.starts_with("/rules") && !path.starts_with("/subjects") => {}
                    Value::Array(all) if path.matches('/').count() == 1 => to.extend(all.iter()),
                    one if one.is_object() => to.push(one),
                    // Of a rule that was there a part is set: the answer holds all of it.
                    _ => match answer.as_ref().and_then(|answer| answer.pointer(&of_one(path))) {
                        Some(one) if one.is_object() => to.push(one),
                        _ => return UNSEEN.to_owned(),
                    },
                }
            }
        }
        object => {
            rules.extend(object["rules"].as_array().into_iter().flatten());
            subjects.extend(object["subjects"].as_array().into_iter().flatten());
        }
    }
    if let Some(what) = rules.iter().find_map(|rule| too_much(rule)) {
        return format!("{ESCALATES}{what} to every holder of this role");
    }
    let role =
        [Some(&body), answer.as_ref()].into_iter().flatten().map(|of| &of["roleRef"]).find(|role| role.is_object());
    let name = role.and_then(|role| role["name"].as_str()).unwrap_or_default();
    let is_of_cluster = role.is_some_and(|role| role["kind"] != "Role");
    let to = subjects.iter().map(|subject| subject_name(subject)).collect::<Vec<_>>().join(", ");
    let everyone = ["system:anonymous", "system:unauthenticated", "system:authenticated"];
    let is_everyone =
        subjects.iter().any(|subject| subject["name"].as_str().is_some_and(|name| everyone.contains(&name)));
    let e_binding = e.resource.is("clusterrolebindings") || e.resource.is("rolebindings");
    match name {
        _ if !e_binding || subjects.is_empty() => String::new(),
        "" if is_everyone => format!("{ESCALATES}{UNSEEN} to {to}"),
        "" => format!("{UNSEEN} to {to}"),
        "cluster-admin" if is_of_cluster => format!("{ESCALATES}cluster-admin to {to}"),
        name if is_everyone => format!("{ESCALATES}{name} to {to}"),
        name => format!("{name} to {to}"),
    }
}

/// `/rules/0` of `/rules/0/verbs/-`.
fn of_one(path: &str) -> String {
    path.split('/').take(3).collect::<Vec<_>>().join("/")
}

/// What a rule of a role grants that is too much; nothing where it is not.
fn too_much(rule: &Value) -> Option<String> {
    let has = |field: &str, what: &str| {
        rule[field].as_array().is_some_and(|all| all.iter().any(|one| one == what || one == "*"))
    };
    let all = |field: &str| rule[field].as_array().is_some_and(|all| all.iter().any(|one| one == "*"));
    // Of objects that are named it grants these.
    if rule["resourceNames"].as_array().is_some_and(|names| !names.is_empty()) {
        return None;
    }
    if all("verbs") && all("resources") {
        let groups: Vec<&str> = rule["apiGroups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let named =
            || groups.iter().map(|group| if group.is_empty() { "core" } else { group }).collect::<Vec<_>>().join(", ");
        return match () {
            () if all("apiGroups") => Some("everything".to_owned()),
            // Secrets, and pods that can be anybody.
            () if groups.contains(&"") || groups.contains(&"rbac.authorization.k8s.io") => {
                Some(format!("all resources of the group {}", named()))
            }
            () => None,
        };
    }
    if !has("apiGroups", "rbac.authorization.k8s.io") {
        return None;
    }
    let verb = ["escalate", "bind"].into_iter().find(|verb| has("verbs", verb))?;
    ["clusterroles", "roles"]
        .into_iter()
        .find(|roles| has("resources", roles))
        .map(|roles| format!("the verb {verb} on {roles}"))
}

fn subject_name(subject: &Value) -> Cow<'_, str> {
    let name = subject["name"].as_str().unwrap_or_default();
    match (subject["kind"].as_str(), subject["namespace"].as_str()) {
        (Some("ServiceAccount"), Some(namespace)) => Cow::Owned(format!("{namespace}:{name}")),
        _ => Cow::Borrowed(name),
    }
}

pub(super) fn body(e: &Event<'_>) -> Option<Value> {
    serde_json::from_str(&String::from_utf8_lossy(e.request_body)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::json::JsonStr;

    fn event<'a>(verb: &'a str, uri: &'a str, body: &'a str) -> Event<'a> {
        Event {
            verb: JsonStr::plain(verb),
            uri: JsonStr::plain(uri),
            request_body: body.as_bytes(),
            ..Event::default()
        }
    }

    #[test]
    fn dry_runs_and_forced_deletes_by_query_and_by_body() {
        for (uri, body, dry, forced) in [
            ("/api/v1/namespaces/a/pods/b", "", false, false),
            ("/api/v1/namespaces/a/pods/b?dryRun=All", "", true, false),
            ("/api/v1/namespaces/a/pods/b", r#"{"kind":"DeleteOptions","dryRun":["All"]}"#, true, false),
            ("/api/v1/namespaces/a/pods/b/eviction", r#"{"deleteOptions":{"dryRun":["All"]}}"#, true, false),
            ("/api/v1/namespaces/a/pods/b?gracePeriodSeconds=0", "", false, true),
            ("/api/v1/namespaces/a/pods/b?gracePeriodSeconds=30", "", false, false),
            ("/api/v1/namespaces/a/pods/b", r#"{"gracePeriodSeconds":0}"#, false, true),
            ("/api/v1/namespaces/a/pods/b", r#"{"gracePeriodSeconds":30}"#, false, false),
            (
                "/api/v1/namespaces/a/pods/b",
                r#"{"metadata":{"name":"dryRun"},"x":"\"dryRun\":[\"All\"]"}"#,
                false,
                false,
            ),
        ] {
            let event = event("delete", uri, body);
            assert_eq!((is_dry_run(&event), is_forced(&event)), (dry, forced), "{uri} {body}");
        }
    }

    #[test]
    fn finalizers_that_are_removed() {
        for (verb, body, strips) in [
            ("patch", r#"{"metadata":{"finalizers":null}}"#, true),
            ("patch", r#"{"metadata":{"finalizers":[]}}"#, true),
            ("patch", r#"{"metadata":{"finalizers":["a/b"]}}"#, false),
            ("patch", r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a/b"]}}"#, true),
            ("patch", r#"[{"op":"remove","path":"/metadata/finalizers"}]"#, true),
            ("patch", r#"[{"op":"remove","path":"/metadata/finalizers/0"}]"#, true),
            ("patch", r#"[{"op":"replace","path":"/metadata/finalizers","value":[]}]"#, true),
            ("patch", r#"[{"op":"add","path":"/metadata/finalizers/-","value":"a/b"}]"#, false),
            ("patch", r#"[{"op":"remove","path":"/metadata/labels/finalizers"}]"#, false),
            ("update", r#"{"metadata":{"name":"x"},"spec":{"finalizers":[]}}"#, false),
            ("patch", "not json, finalizers", false),
        ] {
            assert_eq!(strips_finalizers(&event(verb, "/", body)), strips, "{verb} {body}");
        }
    }

    #[test]
    fn rights_that_are_too_much() {
        let of = |verb: &str, body: &str, answer: &str| {
            let resource = if body.contains("rules") { "clusterroles" } else { "clusterrolebindings" };
            rights(&Event {
                resource: JsonStr::plain(resource),
                response_body: answer.as_bytes(),
                ..event(verb, "/", body)
            })
        };
        let binding = |kind: &str, role: &str, subject: &str| {
            of("create", &format!(r#"{{"roleRef":{{"kind":"{kind}","name":"{role}"}},"subjects":[{subject}]}}"#), "")
        };
        let (eve, bot) =
            (r#"{"kind":"User","name":"eve"}"#, r#"{"kind":"ServiceAccount","namespace":"ci","name":"bot"}"#);
        assert_eq!(binding("ClusterRole", "cluster-admin", eve), "grants cluster-admin to eve");
        assert_eq!(binding("Role", "cluster-admin", eve), "cluster-admin to eve");
        assert_eq!(binding("ClusterRole", "view", bot), "view to ci:bot");
        let everyone = r#"{"kind":"Group","name":"system:authenticated"}"#;
        assert_eq!(binding("ClusterRole", "view", everyone), "grants view to system:authenticated");
        for (rule, reported) in [
            (
                r#"{"verbs":["*"],"resources":["*"],"apiGroups":["*"]}"#,
                "grants everything to every holder of this \
                 role",
            ),
            (
                r#"{"verbs":["*"],"resources":["*"],"apiGroups":[""]}"#,
                "grants all resources of the group core to every holder of this role",
            ),
            (r#"{"verbs":["*"],"resources":["*"],"apiGroups":["x.io"]}"#, ""),
            (
                r#"{"verbs":["escalate"],"resources":["roles"],"apiGroups":["rbac.authorization.k8s.io"]}"#,
                "grants the verb escalate on roles to every holder of this role",
            ),
            (
                r#"{"verbs":["*"],"resources":["clusterroles"],"apiGroups":["rbac.authorization.k8s.io"]}"#,
                "grants the verb escalate on clusterroles to every holder of this role",
            ),
            (r#"{"verbs":["*"],"resources":["*"],"apiGroups":["*"],"resourceNames":["just-one"]}"#, ""),
            (r#"{"verbs":["bind"],"resources":["y"],"apiGroups":["x.io"]}"#, ""),
            (r#"{"verbs":["get"],"resources":["*"],"apiGroups":["*"]}"#, ""),
        ] {
            assert_eq!(of("create", &format!(r#"{{"rules":[{rule}]}}"#), ""), reported);
            assert_eq!(of("patch", &format!(r#"[{{"op":"add","path":"/rules/-","value":{rule}}}]"#), ""), reported);
        }
        // Patches say to whom; to what, if at all, the answer.
        let (merged, step) =
            (format!(r#"{{"subjects":[{eve}]}}"#), format!(r#"[{{"op":"add","path":"/subjects/-","value":{eve}}}]"#));
        let answer = r#"{"roleRef":{"kind":"ClusterRole","name":"cluster-admin"}}"#;
        for patch in [&merged, &step] {
            assert_eq!(of("patch", patch, answer), "grants cluster-admin to eve");
            assert_eq!(of("patch", patch, ""), "unknown rights to eve");
        }
        // Who everyone is, is known even so; and of a part of a rule the answer says the rest.
        let anonymous = r#"[{"op":"add","path":"/subjects/-","value":{"kind":"User","name":"system:anonymous"}}]"#;
        assert_eq!(of("patch", anonymous, ""), "grants unknown rights to system:anonymous");
        let part = r#"[{"op":"replace","path":"/rules/0/verbs","value":["*"]}]"#;
        let whole = r#"{"rules":[{"verbs":["*"],"resources":["*"],"apiGroups":["*"]}]}"#;
        assert_eq!(of("patch", part, whole), "grants everything to every holder of this role");
        assert_eq!(of("patch", part, ""), UNSEEN);
        assert_eq!((of("patch", "", "").as_str(), of("delete", "", "").as_str()), (UNSEEN, ""));
        assert_eq!(of("patch", r#"{"metadata":{"labels":{"a":"b"}}}"#, answer), "");
    }

    #[test]
    fn replicas_of_nought() {
        for (body, is_zero) in [
            (r#"{"spec":{"replicas":0}}"#, true),
            (r#"{"spec":{"replicas":3}}"#, false),
            (r#"[{"op":"replace","path":"/spec/replicas","value":0}]"#, true),
            (r#"[{"op":"replace","path":"/spec","value":{"replicas":0}}]"#, true),
            (
                r#"[{"op":"test","path":"/spec/replicas","value":0},{"op":"replace","path":"/spec/replicas","value":3}]"#,
                false,
            ),
        ] {
            assert_eq!(scales_to_zero(&event("patch", "/", body)), is_zero, "{body}");
        }
    }
}
