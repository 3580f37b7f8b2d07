//! Webhook configurations, with what an apiserver takes where they say nothing.

use super::or_default::or_default;
use crate::model::webhooks::{Expression, Rule, Selector, Webhook};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A webhook as it stands in its configuration.
#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Raw {
    name: String,
    failure_policy: Option<String>,
    match_policy: Option<String>,
    timeout_seconds: Option<u32>,
    #[serde(deserialize_with = "or_default")]
    rules: Vec<RawRule>,
    #[serde(deserialize_with = "or_default")]
    namespace_selector: RawSelector,
    #[serde(deserialize_with = "or_default")]
    object_selector: RawSelector,
    #[serde(deserialize_with = "or_default")]
    match_conditions: Vec<serde::de::IgnoredAny>,
    #[serde(deserialize_with = "or_default")]
    client_config: Client,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawRule {
    #[serde(deserialize_with = "or_default")]
    operations: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    api_groups: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    api_versions: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    resources: Vec<String>,
    scope: Option<String>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawSelector {
    #[serde(deserialize_with = "or_default")]
    match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<RawExpression>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct RawExpression {
    key: String,
    operator: String,
    #[serde(deserialize_with = "or_default")]
    values: Vec<String>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Client {
    url: Option<String>,
    service: Option<Service>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Service {
    namespace: String,
    name: String,
}

impl From<RawSelector> for Selector {
    fn from(raw: RawSelector) -> Self {
        let expression = |raw: RawExpression| Expression { key: raw.key, operator: raw.operator, values: raw.values };
        Self { labels: raw.match_labels, expressions: raw.match_expressions.into_iter().map(expression).collect() }
    }
}

/// The webhooks of a configuration. Defaults are those of `admissionregistration.k8s.io/v1`.
pub(super) fn read(configuration: &str, mutates: bool, webhooks: Vec<Raw>) -> impl Iterator<Item = Webhook> {
    let rule = |raw: RawRule| Rule {
        operations: raw.operations,
        groups: raw.api_groups,
        versions: raw.api_versions,
        resources: raw.resources,
        scope: raw.scope.unwrap_or_else(|| "*".to_owned()),
    };
    webhooks.into_iter().map(move |raw| Webhook {
        configuration: configuration.to_owned(),
        mutates,
        name: raw.name,
        fails_closed: raw.failure_policy.is_none_or(|policy| policy == "Fail"),
        timeout_s: raw.timeout_seconds.unwrap_or(10),
        is_equivalent: raw.match_policy.is_none_or(|policy| policy == "Equivalent"),
        rules: raw.rules.into_iter().map(rule).collect(),
        namespaces: raw.namespace_selector.into(),
        objects: raw.object_selector.into(),
        conditions: raw.match_conditions.len() as u64,
        service: raw.client_config.service.map(|service| (service.namespace, service.name)),
        url: raw.client_config.url.unwrap_or_default(),
    })
}
