//! Rules as Prometheus' rule files and as objects of the Prometheus operator.

use super::metrics::{METRICS, Source};
use super::rules::{Alert, Recording, Rules, Severity};
use serde_json::{Map, Value, json};

/// Where runbooks are.
const REPOSITORY: &str = match option_env!("CARGO_PKG_REPOSITORY") {
    Some(url) if !url.is_empty() => url,
    _ => "https://github.com/plimsoll-io/plimsoll",
};

/// Ends each summary: the cluster, where there is a label.
const CLUSTER: &str = "{{ with $labels.cluster }} ({{ . }}){{ end }}";

/// The runbook of an alert.
pub fn runbook(id: &str) -> String {
    format!("{REPOSITORY}/blob/main/docs/runbooks/alerts/{id}.md")
}

fn recording(rule: &Recording) -> Value {
    json!({"record": rule.record, "expr": rule.expr})
}

fn alert(rule: &Alert) -> Value {
    json!({
        "alert": rule.name,
        "expr": rule.expr,
        "for": rule.holds,
        "labels": {"severity": rule.severity.label()},
        "annotations": {
            "summary": format!("{}{CLUSTER}", rule.summary),
            "description": rule.description,
            "runbook_url": runbook(&rule.id),
            "dashboard": format!("/d/plimsoll-{}", rule.board),
        }
    })
}

fn recording_group(rules: &Rules) -> Value {
    json!({"name": "plimsoll-recordings", "rules": rules.recordings.iter().map(recording).collect::<Vec<_>>()})
}

fn alert_groups(rules: &Rules) -> Vec<Value> {
    let all = &rules.alerts;
    let of = |severity| all.iter().filter(|rule| rule.severity == severity).map(alert).collect::<Vec<Value>>();
    vec![
        json!({"name": "plimsoll-pages", "rules": of(Severity::Critical)}),
        json!({"name": "plimsoll-tickets", "rules": of(Severity::Warning)}),
    ]
}

/// `rule_files` of recording rules.
pub fn recording_file(rules: &Rules) -> Value {
    json!({"groups": [recording_group(rules)]})
}

/// `rule_files` of alerts.
pub fn alert_file(rules: &Rules) -> Value {
    json!({"groups": alert_groups(rules)})
}

/// The same as an object of the Prometheus operator.
pub fn prometheus_rule(rules: &Rules) -> Value {
    let mut groups = vec![recording_group(rules)];
    groups.extend(alert_groups(rules));
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "plimsoll",
            "namespace": "monitoring",
            "labels": {"app.kubernetes.io/name": "plimsoll", "prometheus": "k8s", "role": "alert-rules"}
        },
        "spec": {"groups": groups}
    })
}

/// What a component is scraped for.
struct Scraped {
    name: &'static str,
    namespace: &'static str,
    /// Labels of its Service.
    labels: &'static [(&'static str, &'static str)],
    port: &'static str,
    server_name: Option<&'static str>,
    sources: &'static [Source],
}

const SCRAPED: [Scraped; 5] = [
    Scraped {
        name: "apiserver",
        namespace: "default",
        labels: &[("component", "apiserver"), ("provider", "kubernetes")],
        port: "https",
        server_name: Some("kubernetes"),
        sources: &[Source::Apiserver, Source::Controllers, Source::Process],
    },
    Scraped {
        name: "etcd",
        namespace: "kube-system",
        labels: &[("app.kubernetes.io/name", "etcd")],
        port: "http-metrics",
        server_name: None,
        sources: &[Source::Etcd, Source::Process],
    },
    Scraped {
        name: "kube-controller-manager",
        namespace: "kube-system",
        labels: &[("app.kubernetes.io/name", "kube-controller-manager")],
        port: "https-metrics",
        server_name: None,
        sources: &[Source::Controllers, Source::Process],
    },
    Scraped {
        name: "kube-scheduler",
        namespace: "kube-system",
        labels: &[("app.kubernetes.io/name", "kube-scheduler")],
        port: "https-metrics",
        server_name: None,
        sources: &[Source::Controllers, Source::Scheduler, Source::Process],
    },
    // As samples/deploy runs it.
    Scraped {
        name: "serve",
        namespace: "plimsoll",
        labels: &[("app.kubernetes.io/name", "plimsoll-serve")],
        port: "https",
        server_name: None,
        sources: &[Source::Serve],
    },
];

/// ServiceMonitors for those who do not scrape these components yet: they keep what boards and rules use, and nothing
/// else.
pub fn service_monitors() -> Vec<Value> {
    SCRAPED.iter().map(service_monitor).collect()
}

fn service_monitor(own: &Scraped) -> Value {
    let names: Vec<&str> =
        METRICS.iter().filter(|metric| own.sources.contains(&metric.source)).map(|metric| metric.name).collect();
    let labels: Map<String, Value> =
        own.labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let kept = format!("({})(_bucket|_sum|_count)?", names.join("|"));
    let mut endpoint = json!({"port": own.port, "interval": "30s"});
    // What serve exports is bounded by itself.
    if own.sources != [Source::Serve] {
        endpoint["metricRelabelings"] = json!([{"action": "keep", "sourceLabels": ["__name__"], "regex": kept}]);
    }
    if own.port != "http-metrics" {
        endpoint["scheme"] = json!("https");
        endpoint["bearerTokenFile"] = json!("/var/run/secrets/kubernetes.io/serviceaccount/token");
        endpoint["tlsConfig"] = match own.server_name {
            Some(name) => json!({"caFile": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "serverName": name}),
            // They make a certificate for themselves when they start, or whoever runs them does.
            None => json!({"insecureSkipVerify": true}),
        };
    }
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {
            "name": format!("plimsoll-{}", own.name),
            "namespace": "monitoring",
            "labels": {"app.kubernetes.io/name": "plimsoll", "app.kubernetes.io/component": own.name}
        },
        "spec": {
            "jobLabel": if own.name == "apiserver" { "component" } else { "app.kubernetes.io/name" },
            "namespaceSelector": {"matchNames": [own.namespace]},
            "selector": {"matchLabels": labels},
            "endpoints": [endpoint]
        }
    })
}
