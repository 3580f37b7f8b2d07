//! Admission webhooks as they are configured.

use std::collections::BTreeMap;

/// Which namespaces or objects are meant, by their labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Labels that must have these values.
    pub labels: BTreeMap<String, String>,
    /// Conditions on labels.
    pub expressions: Vec<Expression>,
}

/// A condition on a label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`.
    pub operator: String,
    pub values: Vec<String>,
}

impl Expression {
    fn takes(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // An apiserver accepts no other.
            _ => false,
        }
    }
}

impl Selector {
    /// Whether it takes everything.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.expressions.is_empty()
    }

    /// Whether it takes what has these labels.
    pub fn takes(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(|one| one.takes(labels))
    }

    /// The labels that it looks at.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.labels.keys().map(String::as_str).chain(self.expressions.iter().map(|one| one.key.as_str()))
    }
}

/// Which requests a webhook is asked about; all that it says must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`, `*`.
    pub operations: Vec<String>,
    /// API groups; the core group is empty.
    pub groups: Vec<String>,
    pub versions: Vec<String>,
    /// `pods`, `pods/status`, `*`, `pods/*`, `*/scale`, `*/*`.
    pub resources: Vec<String>,
    /// `Cluster`, `Namespaced`; all else: both.
    pub scope: String,
}

/// One webhook of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Webhook {
    /// The configuration it is in.
    pub configuration: String,
    /// Whether it changes objects; else it only accepts or refuses them.
    pub mutates: bool,
    /// Its name, as metrics and messages have it.
    pub name: String,
    /// Whether requests fail where it can't be asked (`failurePolicy: Fail`).
    pub fails_closed: bool,
    /// How long it is waited for, in seconds.
    pub timeout_s: u32,
    /// Whether requests by other versions of the same resource are meant too (`matchPolicy: Equivalent`).
    pub is_equivalent: bool,
    /// Which requests.
    pub rules: Vec<Rule>,
    pub namespaces: Selector,
    /// About which objects.
    pub objects: Selector,
    /// CEL conditions beside; how many.
    pub conditions: u64,
    /// Namespace and name of the service that answers, if it is one of the cluster.
    pub service: Option<(String, String)>,
    /// Else its URL.
    pub url: String,
}
