//! The expressions that are asked, by name; where they come from is said in `docs/prometheus.md`.

use super::error::PromError;
use crate::model::time::{Micros, SECOND};
use crate::sources::live::foreign;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The label by which a query is cut where one instant is too heavy, if the query names none.
const SPLIT: &str = "namespace";

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Its name, which is that of the series it gives.
    pub name: String,
    /// PromQL, in which stand
    ///
    /// - `$step`: the step. Who asks of windows (`max_over_time(x[$step])`) misses no peak between steps;
    /// - `$rate`: the step, but at least five minutes, which `rate` needs;
    /// - `$match`: more matchers within braces, from `--match` and from where a query is cut by label.
    pub promql: String,
    /// The label by which it may be cut: each series of the answer must be made of series with one value of it.
    pub split: Option<String>,
}

/// The shortest window of a rate.
const RATE: Micros = 300 * SECOND;

impl Query {
    /// Whether its points are of windows, each of which ends where the next begins.
    pub fn is_of_windows(&self) -> bool {
        self.promql.contains("$step") || self.promql.contains("$rate")
    }

    /// The label by which it can be cut.
    pub(super) fn splits_by(&self) -> Option<&str> {
        self.split.as_deref().filter(|_| self.promql.contains("$match"))
    }

    /// What Prometheus is asked, with these matchers.
    pub fn expression(&self, step: Micros, matchers: &[&str]) -> String {
        let matchers = matchers.iter().filter(|one| !one.is_empty()).copied().collect::<Vec<_>>().join(",");
        let mut text =
            self.promql.replace("$step", &promql_duration(step)).replace("$rate", &promql_duration(step.max(RATE)));
        // A comma before nothing is allowed there, but reads badly.
        if matchers.is_empty() {
            text = text.replace(", $match", "").replace(",$match", "");
        }
        text.replace("$match", &matchers)
    }
}

fn promql_duration(length: Micros) -> String {
    if length % SECOND == 0 { format!("{}s", length / SECOND) } else { format!("{}ms", length / 1_000) }
}

/// Pods that quotas count: neither done nor failed. Several kube-state-metrics count once.
macro_rules! of_living_pods {
    ($what:literal) => {
        concat!(
            "sum by (namespace, resource) ((max by (namespace, pod, container, resource) (kube_pod_container_resource_",
            $what,
            "{$match}) or max by (namespace, pod, container, resource) (kube_pod_init_container_resource_",
            $what,
            "{$match}) * on (namespace, pod, container) group_left () max by (namespace, pod, container) (",
            "kube_pod_init_container_info{restart_policy=\"Always\",$match})) * on (namespace, pod) group_left () ",
            "max by (namespace, pod) (kube_pod_status_phase{phase=~\"Pending|Running|Unknown\",$match} == 1))"
        )
    };
}

/// Name, expression, the label by which it may be cut.
const STANDARD: [(&str, &str, Option<&str>); 15] = [
    (
        "quota-used",
        r#"max by (namespace, resourcequota, resource) (max_over_time(kube_resourcequota{type="used",$match}[$step]))"#,
        Some("namespace"),
    ),
    // The last one of a step: of a quota that was changed, the one that stood at the end.
    (
        "quota-hard",
        r#"max by (namespace, resourcequota, resource) (last_over_time(kube_resourcequota{type="hard",$match}[$step]))"#,
        Some("namespace"),
    ),
    ("requests", of_living_pods!("requests"), Some("namespace")),
    ("limits", of_living_pods!("limits"), Some("namespace")),
    (
        "usage-cpu",
        r#"sum by (namespace) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",$match}[$rate]))"#,
        Some("namespace"),
    ),
    (
        "usage-memory",
        r#"sum by (namespace) (container_memory_working_set_bytes{container!="",container!="POD",$match})"#,
        Some("namespace"),
    ),
    (
        "allocatable",
        "sum by (resource) (max by (node, resource) (kube_node_status_allocatable{$match}) unless on (node) \
         (kube_node_spec_unschedulable{$match} == 1))",
        None,
    ),
    // Until 1.33 it is the former, from 1.34 on the latter with the group beside.
    (
        "objects",
        "max by (group, resource) (max_over_time(apiserver_resource_objects{$match}[$step])) or max by (group, \
         resource) (max_over_time(apiserver_storage_objects{$match}[$step]))",
        Some("resource"),
    ),
    (
        "object-bytes",
        "max by (group, resource) (max_over_time(apiserver_resource_size_estimate_bytes{$match}[$step]))",
        Some("resource"),
    ),
    ("api-rps", "sum by (verb, resource) (rate(apiserver_request_total{$match}[$rate]))", Some("resource")),
    (
        "flow-rps",
        "sum by (flow_schema, priority_level) (rate(apiserver_flowcontrol_dispatched_requests_total{$match}[$rate]))",
        Some("priority_level"),
    ),
    // Of each apiserver the most of a step; together they are not below the most of all at one time. Until 1.30 they
    // had other names.
    (
        "seats-executing",
        "sum by (priority_level) (sum by (instance, priority_level) \
         (max_over_time(apiserver_flowcontrol_current_executing_seats{$match}[$step])) or sum by (instance, \
         priority_level) (max_over_time(apiserver_flowcontrol_request_concurrency_in_use{$match}[$step])))",
        Some("priority_level"),
    ),
    // What a level may take now if it borrows; older apiservers know only what is its own.
    (
        "seats-limit",
        "sum by (priority_level) (max by (instance, priority_level) \
         (last_over_time(apiserver_flowcontrol_current_limit_seats{$match}[$step])) or max by (instance, \
         priority_level) (last_over_time(apiserver_flowcontrol_nominal_limit_seats{$match}[$step])) or max by \
         (instance, priority_level) \
         (last_over_time(apiserver_flowcontrol_request_concurrency_limit{$match}[$step])))",
        Some("priority_level"),
    ),
    ("etcd-db", "max by (instance) (max_over_time(etcd_mvcc_db_total_size_in_bytes{$match}[$step]))", Some("instance")),
    (
        "etcd-quota",
        "max by (instance) (last_over_time(etcd_server_quota_backend_bytes{$match}[$step]))",
        Some("instance"),
    ),
];

/// Expressions by name: the standard ones, and what replaces them or is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queries(BTreeMap<String, Query>);

impl Default for Queries {
    fn default() -> Self {
        Self::standard()
    }
}

/// A query in a file: the expression alone, or with its label.
#[derive(Deserialize)]
#[serde(untagged, expecting = "not a query")]
enum Written {
    Expression(String),
    Whole(Whole),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    promql: String,
    split: Option<String>,
}

impl Queries {
    /// Those with the default names of kube-state-metrics, cAdvisor, kube-apiserver and etcd.
    pub fn standard() -> Self {
        let query = |(name, promql, split): (&str, &str, Option<&str>)| {
            let query = Query { name: name.to_owned(), promql: promql.to_owned(), split: split.map(str::to_owned) };
            (name.to_owned(), query)
        };
        Self(STANDARD.into_iter().map(query).collect())
    }

    /// A query by its name; the error lists those there are.
    pub fn get(&self, name: &str) -> Result<&Query, PromError> {
        let known = || self.0.keys().cloned().collect::<Vec<_>>().join(" ");
        self.0
            .get(name)
            .ok_or_else(|| PromError::Given(format!("unknown query '{}'; use one of: {}", foreign(name), known())))
    }

    /// All queries by name.
    pub fn iter(&self) -> impl Iterator<Item = &Query> {
        self.0.values()
    }

    /// Takes `NAME=PROMQL`, in place of a query of this name or beside the others.
    pub fn set(&mut self, text: &str) -> Result<(), PromError> {
        let wrong = || {
            PromError::Given(format!(
                "--query {}: write NAME=PROMQL, as in quota-used='max(x{{$match}})'",
                foreign(text)
            ))
        };
        let (name, promql) = text.split_once('=').ok_or_else(wrong)?;
        self.put("--query", name.trim(), promql, None)
    }

    /// Takes queries from a YAML file, or a TOML file (`.toml`): `NAME: PROMQL`, or `NAME: {promql: PROMQL, split:
    /// LABEL}`.
    pub fn read(&mut self, path: &Path) -> Result<(), PromError> {
        let name = path.display().to_string();
        let wrong = |what: String| PromError::File { path: name.clone(), what };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let form = "write NAME: PROMQL, or NAME: {promql: PROMQL, split: LABEL}";
        let is_toml = path.extension().is_some_and(|end| end == "toml");
        let written: BTreeMap<String, Written> = if is_toml {
            toml::from_str(&text).map_err(|error| wrong(format!("{}; {form}", error.to_string().trim_end())))?
        } else {
            serde_yaml_ng::from_str(&text).map_err(|error| wrong(format!("{error}; {form}")))?
        };
        for (query, written) in written {
            match written {
                Written::Expression(promql) => self.put(&name, &query, &promql, None)?,
                Written::Whole(whole) => self.put(&name, &query, &whole.promql, whole.split)?,
            }
        }
        Ok(())
    }

    fn put(&mut self, from: &str, name: &str, promql: &str, split: Option<String>) -> Result<(), PromError> {
        let (shown, promql) = (foreign(name), promql.trim());
        let is_name = |text: &str, more: char| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == more)
        };
        if !is_name(name, '-') {
            return Err(PromError::Given(format!(
                "{from}: '{shown}' is not a valid query name: use letters, digits, - and _"
            )));
        }
        if promql.is_empty() {
            return Err(PromError::Given(format!("{from}: the query {shown} has no expression")));
        }
        if let Some(label) = split.as_deref().filter(|label| !is_name(label, '_')) {
            return Err(PromError::Given(format!(
                "{from}: the query {shown} groups by '{}', which is not a label",
                foreign(label)
            )));
        }
        let split = split.unwrap_or_else(|| SPLIT.to_owned());
        self.0.insert(name.to_owned(), Query { name: name.to_owned(), promql: promql.to_owned(), split: Some(split) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::MINUTE;

    #[test]
    fn placeholders_are_filled_in() {
        let queries = Queries::standard();
        let used = queries.get("quota-used").unwrap();
        assert!(used.is_of_windows() && !queries.get("requests").unwrap().is_of_windows());
        assert_eq!(
            used.expression(300 * SECOND, &["", ""]),
            r#"max by (namespace, resourcequota, resource) (max_over_time(kube_resourcequota{type="used"}[300s]))"#
        );
        assert_eq!(
            used.expression(1_500_000, &[r#"cluster="a""#, r#"namespace="b""#]),
            r#"max by (namespace, resourcequota, resource) (max_over_time(kube_resourcequota{type="used",cluster="a",namespace="b"}[1500ms]))"#
        );
        assert_eq!(
            queries.get("api-rps").unwrap().expression(MINUTE, &[]),
            "sum by (verb, resource) (rate(apiserver_request_total{}[300s]))"
        );
        for query in queries.iter() {
            assert!(!query.expression(SECOND, &["a=\"b\""]).contains('$'), "{}", query.name);
        }
    }

    #[test]
    fn queries_are_replaced_and_added() {
        let mut queries = Queries::standard();
        queries.set("quota-used=up == 1").unwrap();
        assert_eq!(queries.get("quota-used").unwrap().promql, "up == 1");
        assert_eq!(queries.get("quota-used").unwrap().splits_by(), None, "there is nowhere to put a matcher");
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("q.yaml", "mine: sum by (node) (x{$match})\nother: {promql: 'y{$match}', split: node}\n"),
            ("q.toml", "mine = 'sum by (node) (x{$match})'\n[other]\npromql = 'y{$match}'\nsplit = 'node'\n"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let mut queries = Queries::standard();
            queries.read(&path).unwrap();
            assert_eq!(queries.get("mine").unwrap().splits_by(), Some("namespace"));
            assert_eq!(queries.get("other").unwrap().splits_by(), Some("node"));
            assert_eq!(queries.iter().count(), STANDARD.len() + 2);
        }
        for (name, text, expected) in [
            ("a.yaml", "x: [1]", "write NAME: PROMQL"),
            ("b.toml", "x = ", "write NAME: PROMQL"),
            ("c.yaml", "x y: up", "is not a valid query name"),
            ("d.yaml", "x: ' '", "has no expression"),
            ("e.yaml", "x: {promql: up, split: a-b}", "not a label"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let error = Queries::standard().read(&path).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(name), "{error}");
        }
        assert!(Queries::standard().set("up").unwrap_err().to_string().contains("NAME=PROMQL"));
        assert!(Queries::standard().get("nope").unwrap_err().to_string().contains("quota-hard quota-used"));
    }
}
