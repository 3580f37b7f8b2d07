//! What a policy would have said to a request in an audit log, as far as the log and what lies beside it show.

use super::{Match, Policy, Terms};
use serde_json::Value;

/// What a policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is not about such requests.
    NotAsked,
    /// It lets the request through.
    Allow,
    Deny,
    /// That can't be decided, and why not.
    Unknown(&'static str),
}

/// What a request says of a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FieldValue<T> {
    /// The log does not hold it.
    #[default]
    Unknown,
    /// Nothing: it stays as it is.
    Unchanged,
    Set(T),
}

/// What an update or a patch makes of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct New {
    /// `spec.replicas`.
    pub replicas: FieldValue<i64>,
    /// The annotation that repeats them; none where it is taken away.
    pub confirmed: FieldValue<Option<String>>,
    /// Whether the template of its pods is set; what to is not kept.
    pub template: FieldValue<()>,
}

/// Which object, or which collection where it has no name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Group of the resource.
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl Target {
    /// A namespace: in requests it is within itself.
    pub fn of_namespace(name: &str) -> Self {
        let [resource, namespace, name] = ["namespaces", name, name].map(str::to_owned);
        Self { group: String::new(), resource, namespace, name }
    }

    /// Whether it is a namespace.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces"
    }
}

/// What is known of an object before a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Old {
    pub name: String,
    /// Whether it is marked as critical.
    pub is_critical: bool,
    /// The annotation that repeats its name.
    pub confirmed_name: Option<String>,
    /// The annotation that repeats its replicas.
    pub confirmed_replicas: Option<String>,
    /// `spec.replicas`.
    pub replicas: i64,
    /// Whether it is being deleted already.
    pub is_going: bool,
    /// Whether it is a pod that a node may delete: one that has ended, a static one, or a marked one.
    pub is_the_nodes: bool,
}

/// A request that reaches admission.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AdmissionRequest {
    /// Who asks; the impersonated user, where there is one, for that is whom admission sees.
    pub user: String,
    /// Groups of that user.
    pub groups: Vec<String>,
    /// `CREATE`, `UPDATE`, `DELETE`.
    pub operation: &'static str,
    /// Group of the resource.
    pub group: String,
    pub resource: String,
    pub subresource: String,
    /// What becomes of the object.
    pub new: New,
}

impl Match {
    fn takes(&self, asked: &AdmissionRequest) -> bool {
        let has = |all: &[&str], one: &str| all.contains(&one) || all.contains(&"*");
        let resource = if asked.subresource.is_empty() {
            has(self.resources, &asked.resource)
        } else {
            self.resources.contains(&format!("{}/{}", asked.resource, asked.subresource).as_str())
        };
        resource && has(self.groups, &asked.group) && self.operations.contains(&asked.operation)
    }
}

impl Policy {
    /// Whether it is asked about such requests.
    pub fn is_asked(&self, asked: &AdmissionRequest) -> bool {
        self.rules.iter().any(|rule| rule.takes(asked)) && !self.except.iter().any(|rule| rule.takes(asked))
    }

    /// What it says to this request about this object. `in_critical`: whether the namespace is marked as critical.
    /// `is_open`: whether the change window is.
    pub fn decide(
        &self,
        terms: &Terms,
        asked: &AdmissionRequest,
        old: Option<&Old>,
        in_critical: Option<bool>,
        is_open: Option<bool>,
    ) -> Decision {
        if !self.is_asked(asked) {
            return Decision::NotAsked;
        }
        if self.name != "node-deletes"
            && terms.exempt.iter().any(|one| *one == asked.user || asked.groups.contains(one))
        {
            return Decision::Allow;
        }
        let that = |allows: bool| if allows { Decision::Allow } else { Decision::Deny };
        match self.name {
            "node-deletes" if !asked.user.starts_with("system:node:") => Decision::Allow,
            "scale" => scale(asked, old, in_critical),
            "replicas" => replicas(asked, old),
            "change-window" if asked.new.template == FieldValue::Unchanged => Decision::Allow,
            name => match old {
                None => Decision::Unknown(OBJECT),
                Some(old) => match name {
                    "critical-objects" => that(!old.is_critical || old.is_going),
                    "roots" => that(old.confirmed_name.as_ref() == Some(&old.name)),
                    "delete-at-zero" => that(!old.is_critical || old.replicas == 0),
                    "node-deletes" => that(old.is_going || old.is_the_nodes),
                    _ if !old.is_critical || is_open == Some(true) => Decision::Allow,
                    _ if asked.new.template == FieldValue::Unknown => Decision::Unknown(BODY),
                    _ => is_open.map_or(Decision::Unknown(CLOCK), |_| Decision::Deny),
                },
            },
        }
    }
}

/// Why something can't be decided.
const OBJECT: &str = "object unknown";
const BODY: &str = "body not logged";
const SPACE: &str = "namespace unknown";
const CLOCK: &str = "window unknown";

fn scale(asked: &AdmissionRequest, old: Option<&Old>, in_critical: Option<bool>) -> Decision {
    match (&asked.new.replicas, in_critical, old) {
        (FieldValue::Unchanged, ..) | (_, Some(false), _) => Decision::Allow,
        (FieldValue::Set(new), _, Some(old)) if *new == old.replicas => Decision::Allow,
        (_, None, _) => Decision::Unknown(SPACE),
        (FieldValue::Unknown, ..) => Decision::Unknown(BODY),
        (FieldValue::Set(_), Some(true), Some(_)) => Decision::Deny,
        (FieldValue::Set(_), Some(true), None) => Decision::Unknown(OBJECT),
    }
}

fn replicas(asked: &AdmissionRequest, old: Option<&Old>) -> Decision {
    let new = &asked.new;
    if new.replicas == FieldValue::Unchanged || old.is_some_and(|old| !old.is_critical) {
        return Decision::Allow;
    }
    let (FieldValue::Set(number), Some(old)) = (&new.replicas, old) else {
        return Decision::Unknown(if old.is_none() { OBJECT } else { BODY });
    };
    if *number == old.replicas {
        return Decision::Allow;
    }
    let confirmed = match &new.confirmed {
        FieldValue::Unknown => return Decision::Unknown(BODY),
        FieldValue::Unchanged => &old.confirmed_replicas,
        FieldValue::Set(text) => text,
    };
    if confirmed.as_deref() == Some(number.to_string().as_str()) { Decision::Allow } else { Decision::Deny }
}

fn text(object: &Value, within: &str, key: &str) -> Option<String> {
    object["metadata"][within].get(key).and_then(Value::as_str).map(str::to_owned)
}

/// Whether an object has the mark with the value `true`, as a label, or as an annotation too.
pub fn is_marked(object: &Value, key: &str, in_annotations: bool) -> bool {
    let is = |within: &str| text(object, within, key).as_deref() == Some("true");
    is("labels") || in_annotations && is("annotations")
}

impl Old {
    /// What an object says.
    pub fn of(object: &Value, terms: &Terms) -> Self {
        let annotation = |key: &str| text(object, "annotations", key);
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        Self {
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            is_critical: is_marked(object, &terms.critical, true),
            confirmed_name: annotation(&terms.confirm_name),
            confirmed_replicas: annotation(&terms.confirm_replicas),
            replicas: object["spec"]["replicas"].as_i64().unwrap_or_default(),
            is_going: !object["metadata"]["deletionTimestamp"].is_null(),
            is_the_nodes: matches!(phase, "Succeeded" | "Failed")
                || annotation("kubernetes.io/config.mirror").is_some()
                || annotation(&terms.node_may_delete).as_deref() == Some("true"),
        }
    }
}

impl New {
    /// What an update says: all of the object. A Scale leaves a zero out; where a workload says nothing it is 1.
    pub fn of_update(object: &Value, terms: &Terms) -> Self {
        let unsaid = i64::from(object["kind"] != "Scale");
        Self {
            replicas: FieldValue::Set(object["spec"]["replicas"].as_i64().unwrap_or(unsaid)),
            confirmed: FieldValue::Set(text(object, "annotations", &terms.confirm_replicas)),
            // It is there in any case; whether it is another can't be determined without defaults.
            template: FieldValue::Unknown,
        }
    }

    /// What a patch says: in an object what is there, in a list of steps what they are about.
    pub fn of_patch(patch: &Value, terms: &Terms) -> Self {
        match patch {
            Value::Array(steps) => Self::of_steps(steps, terms),
            Value::Object(_) => {
                let annotations = &patch["metadata"]["annotations"];
                Self {
                    replicas: match patch["spec"].get("replicas") {
                        None => FieldValue::Unchanged,
                        Some(number) => number.as_i64().map_or(FieldValue::Unknown, FieldValue::Set),
                    },
                    confirmed: match annotations.get(&terms.confirm_replicas) {
                        None => FieldValue::Unchanged,
                        Some(value) => FieldValue::Set(value.as_str().map(str::to_owned)),
                    },
                    template: if patch["spec"].get("template").is_some() {
                        FieldValue::Set(())
                    } else {
                        FieldValue::Unchanged
                    },
                }
            }
            _ => Self::default(),
        }
    }

    fn of_steps(steps: &[Value], terms: &Terms) -> Self {
        let annotation =
            format!("/metadata/annotations/{}", terms.confirm_replicas.replace('~', "~0").replace('/', "~1"));
        let mut new =
            Self { replicas: FieldValue::Unchanged, confirmed: FieldValue::Unchanged, template: FieldValue::Unchanged };
        for step in steps {
            let path = step["path"].as_str().unwrap_or_default();
            let takes = step["op"] == "remove";
            // A test changes nothing; what is copied or moved is not looked up.
            if step["op"] == "test" {
                continue;
            }
            if path == "/spec/replicas" {
                new.replicas = step["value"].as_i64().map_or(FieldValue::Unknown, FieldValue::Set);
            } else if path == annotation {
                new.confirmed = FieldValue::Set(if takes { None } else { step["value"].as_str().map(str::to_owned) });
            } else if path.starts_with("/spec/template") {
                new.template = FieldValue::Set(());
            } else if matches!(path, "" | "/spec") {
                return Self::default();
            } else if matches!(path, "/metadata" | "/metadata/annotations") {
                new.confirmed = if takes { FieldValue::Set(None) } else { FieldValue::Unknown };
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_patches_say() {
        let terms = Terms::default();
        let of = |patch: Value| New::of_patch(&patch, &terms);
        let nothing =
            New { replicas: FieldValue::Unchanged, confirmed: FieldValue::Unchanged, template: FieldValue::Unchanged };
        assert_eq!(of(json!({"metadata": {"labels": {"a": "b"}}})), nothing);
        assert_eq!(of(json!({"spec": {"replicas": 3}})), New { replicas: FieldValue::Set(3), ..nothing.clone() });
        let confirmation = json!({"metadata": {"annotations": {"plimsoll.io/confirm-replicas": "3"}},
            "spec": {"replicas": 3, "template": {}}});
        let both = New {
            replicas: FieldValue::Set(3),
            confirmed: FieldValue::Set(Some("3".into())),
            template: FieldValue::Set(()),
        };
        assert_eq!(of(confirmation), both);
        let steps = json!([
            {"op": "test", "path": "/spec/replicas", "value": 9},
            {"op": "replace", "path": "/spec/replicas", "value": 3},
            {"op": "add", "path": "/metadata/annotations/plimsoll.io~1confirm-replicas", "value": "3"},
            {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "x"},
        ]);
        assert_eq!(of(steps), both);
        assert_eq!(of(json!([{"op": "replace", "path": "/spec", "value": {}}])), New::default());
        let removed = json!([{"op": "remove", "path": "/metadata/annotations/plimsoll.io~1confirm-replicas"}]);
        assert_eq!(of(removed), New { confirmed: FieldValue::Set(None), ..nothing });
    }
}
