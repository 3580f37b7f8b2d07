//! Whether a webhook is asked about a request, by the rules of kube-apiserver's admission plugins.

use crate::model::webhooks::{Rule, Webhook};
use std::collections::BTreeMap;

/// A request as admission sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct AdmissionRequest {
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    pub operation: &'static str,
    /// API group; the core group is empty.
    pub group: String,
    pub version: String,
    pub resource: String,
    /// Subresource, or nothing.
    pub subresource: String,
    /// Namespace; empty for what is in none. Of a namespace itself its name.
    pub namespace: String,
}

impl AdmissionRequest {
    /// One that somebody might send.
    pub fn new(operation: &'static str, group: &str, resource: &str, namespace: &str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Self {
            operation,
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
        }
    }
}

/// What is known of whether it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// It is not.
    No,
    /// It depends on the object, on labels that are not known, or on CEL.
    Perhaps,
    Yes,
}

/// Labels of namespaces, as far as they are known.
pub type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// The label that every namespace has, with its name.
const NAME: &str = "kubernetes.io/metadata.name";

/// What admission never asks webhooks about, so that they can be repaired: configurations of admission itself.
fn is_exempt(asked: &AdmissionRequest) -> bool {
    asked.group == "admissionregistration.k8s.io"
}

/// The operation of a request in an audit log, if admission looks at it.
pub fn operation(verb: &str, subresource: &str, code: Option<u16>) -> Option<&'static str> {
    match (verb, subresource) {
        (_, "exec" | "attach" | "portforward" | "proxy") => Some("CONNECT"),
        ("create", _) => Some("CREATE"),
        // A patch or update that makes the object is answered with 201.
        ("patch" | "update", _) if code == Some(201) => Some("CREATE"),
        ("patch" | "update", _) => Some("UPDATE"),
        ("delete" | "deletecollection", _) => Some("DELETE"),
        _ => None,
    }
}

/// Whether `webhook` is asked.
pub fn asks(webhook: &Webhook, asked: &AdmissionRequest, namespaces: &Namespaces) -> Answer {
    if is_exempt(asked) || !webhook.rules.iter().any(|rule| rule_takes(rule, asked, webhook.is_equivalent)) {
        return Answer::No;
    }
    let answer = in_namespace(webhook, asked, namespaces);
    if answer == Answer::Yes && !(webhook.objects.is_empty() && webhook.conditions == 0) {
        Answer::Perhaps
    } else {
        answer
    }
}

fn rule_takes(rule: &Rule, asked: &AdmissionRequest, is_equivalent: bool) -> bool {
    let has = |list: &[String], value: &str| list.iter().any(|one| one == "*" || one == value);
    let in_scope = match rule.scope.as_str() {
        "Namespaced" => !asked.namespace.is_empty() && asked.resource != "namespaces",
        "Cluster" => asked.namespace.is_empty() || asked.resource == "namespaces",
        _ => true,
    };
    let resource = |pattern: &String| {
        let (of, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
        (of == "*" || of == asked.resource) && (sub == asked.subresource || sub == "*")
    };
    has(&rule.operations, asked.operation)
        && has(&rule.groups, &asked.group)
        && (is_equivalent || has(&rule.versions, &asked.version))
        && in_scope
        && rule.resources.iter().any(resource)
}

/// By the selector of namespaces: what is in none is always meant, a namespace is by its own labels.
fn in_namespace(webhook: &Webhook, asked: &AdmissionRequest, namespaces: &Namespaces) -> Answer {
    let selector = &webhook.namespaces;
    if selector.is_empty() || asked.namespace.is_empty() {
        return Answer::Yes;
    }
    let decided = |takes: bool| if takes { Answer::Yes } else { Answer::No };
    if let Some(labels) = namespaces.get(&asked.namespace) {
        return decided(selector.takes(labels));
    }
    let only_name = BTreeMap::from([(NAME.to_owned(), asked.namespace.clone())]);
    let takes = selector.takes(&only_name);
    match selector.keys().all(|key| key == NAME) {
        true => decided(takes),
        // What its name alone rules out stays out whatever other labels it has.
        false => {
            let mut by_name = selector.clone();
            by_name.labels.retain(|key, _| key == NAME);
            by_name.expressions.retain(|one| one.key == NAME);
            if by_name.takes(&only_name) { Answer::Perhaps } else { Answer::No }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::webhooks::{Expression, Selector};

    fn rule(operations: &[&str], groups: &[&str], resources: &[&str], scope: &str) -> Rule {
        let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Rule {
            operations: own(operations),
            groups: own(groups),
            versions: own(&["v1"]),
            resources: own(resources),
            scope: scope.to_owned(),
        }
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Expression {
        Expression {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    #[test]
    fn rules_are_read_as_an_apiserver_does() {
        let table = [
            (rule(&["CREATE"], &[""], &["pods"], "*"), AdmissionRequest::new("CREATE", "", "pods", "a"), true),
            (rule(&["CREATE"], &[""], &["pods"], "*"), AdmissionRequest::new("CREATE", "", "pods/exec", "a"), false),
            (rule(&["*"], &[""], &["pods/*"], "*"), AdmissionRequest::new("UPDATE", "", "pods/status", "a"), true),
            // As kube-apiserver's matcher has it, whatever the API's documentation says.
            (rule(&["*"], &[""], &["pods/*"], "*"), AdmissionRequest::new("UPDATE", "", "pods", "a"), true),
            (rule(&["*"], &["*"], &["*"], "*"), AdmissionRequest::new("UPDATE", "apps", "deployments", "a"), true),
            (
                rule(&["*"], &["*"], &["*"], "*"),
                AdmissionRequest::new("UPDATE", "apps", "deployments/scale", "a"),
                false,
            ),
            (
                rule(&["*"], &["*"], &["*/*"], "*"),
                AdmissionRequest::new("UPDATE", "apps", "deployments/scale", "a"),
                true,
            ),
            (
                rule(&["*"], &["*"], &["*/scale"], "*"),
                AdmissionRequest::new("UPDATE", "apps", "deployments/scale", "a"),
                true,
            ),
            (rule(&["*"], &["*"], &["*"], "Namespaced"), AdmissionRequest::new("UPDATE", "", "nodes", ""), false),
            (rule(&["*"], &["*"], &["*"], "Cluster"), AdmissionRequest::new("UPDATE", "", "nodes", ""), true),
            (rule(&["*"], &["*"], &["*"], "Namespaced"), AdmissionRequest::new("CREATE", "", "namespaces", "a"), false),
            (
                rule(&["*"], &["*"], &["*"], "*"),
                AdmissionRequest::new("CREATE", "admissionregistration.k8s.io", "validatingwebhookconfigurations", ""),
                false,
            ),
        ];
        for (rule, asked, expected) in table {
            let webhook = Webhook { rules: vec![rule], ..Webhook::default() };
            assert_eq!(asks(&webhook, &asked, &Namespaces::new()) == Answer::Yes, expected, "{webhook:?} {asked:?}");
        }
        let old = AdmissionRequest {
            version: "v1beta1".to_owned(),
            ..AdmissionRequest::new("CREATE", "apps", "deployments", "a")
        };
        let exact = Webhook { rules: vec![rule(&["*"], &["apps"], &["deployments"], "*")], ..Webhook::default() };
        assert_eq!(asks(&exact, &old, &Namespaces::new()), Answer::No);
        assert_eq!(asks(&Webhook { is_equivalent: true, ..exact }, &old, &Namespaces::new()), Answer::Yes);
    }

    #[test]
    fn selectors_decide_as_far_as_labels_are_known() {
        let pods = |selector: Selector| Webhook {
            rules: vec![rule(&["*"], &["*"], &["*"], "*")],
            namespaces: selector,
            ..Webhook::default()
        };
        let not_system =
            pods(Selector { expressions: vec![expression(NAME, "NotIn", &["kube-system"])], ..Selector::default() });
        let create = |namespace: &str| AdmissionRequest::new("CREATE", "", "pods", namespace);
        let none = Namespaces::new();
        assert_eq!(asks(&not_system, &create("kube-system"), &none), Answer::No);
        assert_eq!(asks(&not_system, &create("web"), &none), Answer::Yes);
        assert_eq!(asks(&not_system, &AdmissionRequest::new("UPDATE", "", "nodes", ""), &none), Answer::Yes);
        let marked =
            pods(Selector { labels: BTreeMap::from([("inject".to_owned(), "yes".to_owned())]), ..Selector::default() });
        assert_eq!(asks(&marked, &create("web"), &none), Answer::Perhaps);
        let known = Namespaces::from([
            ("web".to_owned(), BTreeMap::from([("inject".to_owned(), "yes".to_owned())])),
            ("db".to_owned(), BTreeMap::new()),
        ]);
        assert_eq!(asks(&marked, &create("web"), &known), Answer::Yes);
        assert_eq!(asks(&marked, &create("db"), &known), Answer::No);
        let both = Selector {
            expressions: vec![expression(NAME, "NotIn", &["db"]), expression("tier", "Exists", &[])],
            ..Selector::default()
        };
        assert_eq!(asks(&pods(both.clone()), &create("db"), &none), Answer::No);
        assert_eq!(asks(&pods(both), &create("web"), &none), Answer::Perhaps);
        let by_object = Webhook {
            objects: Selector { expressions: vec![expression("a", "Exists", &[])], ..Selector::default() },
            ..pods(Selector::default())
        };
        assert_eq!(asks(&by_object, &create("web"), &none), Answer::Perhaps);
    }

    #[test]
    fn operations_of_verbs() {
        assert_eq!(operation("create", "", None), Some("CREATE"));
        assert_eq!(operation("create", "exec", None), Some("CONNECT"));
        assert_eq!(operation("get", "exec", None), Some("CONNECT"));
        assert_eq!(operation("patch", "", Some(201)), Some("CREATE"));
        assert_eq!(operation("patch", "status", Some(200)), Some("UPDATE"));
        assert_eq!(operation("deletecollection", "", None), Some("DELETE"));
        assert_eq!(operation("list", "", None), None);
    }
}
