//! What is wrong with webhooks. (Thresholds and their reasons: docs/findings.md.)

use super::Measured;
use super::asked::{AdmissionRequest, Answer, Namespaces, asks};
use super::seen::WebhookCalls;
use crate::model::report::{Finding, Severity};
use crate::model::units::{counted, percent, significant};
use crate::model::webhooks::Webhook;
use serde_json::json;

/// From this 99th percentile on a webhook is slow, in ms.
const SLOW_MS: f64 = 1000.0;
/// From this share of its timeout on it is about to fail.
const NEARLY: f64 = 0.5;
/// A webhook that fails requests is not to be waited for longer, in seconds.
const LONG_TIMEOUT_S: u32 = 10;

/// What a control plane can't do without, and a request of it.
fn vital() -> [(&'static str, AdmissionRequest); 6] {
    [
        ("leader election", AdmissionRequest::new("UPDATE", "coordination.k8s.io", "leases", "kube-system")),
        ("kubelets' leases", AdmissionRequest::new("UPDATE", "coordination.k8s.io", "leases", "kube-node-lease")),
        ("the status of nodes", AdmissionRequest::new("UPDATE", "", "nodes/status", "")),
        ("pods of kube-system", AdmissionRequest::new("CREATE", "", "pods", "kube-system")),
        ("binding pods to nodes", AdmissionRequest::new("CREATE", "", "pods/binding", "kube-system")),
        ("access reviews", AdmissionRequest::new("CREATE", "authorization.k8s.io", "subjectaccessreviews", "")),
    ]
}

/// What would stop of the control plane's work, if the webhook could not be asked.
pub(super) fn stops(webhook: &Webhook, namespaces: &Namespaces) -> Vec<&'static str> {
    let stopped = vital().into_iter().filter(|(_, asked)| asks(webhook, asked, namespaces) == Answer::Yes);
    if webhook.fails_closed { stopped.map(|(name, _)| name).collect() } else { Vec::new() }
}

/// Whether its own pods can't be made while it is down.
fn own(webhook: &Webhook, namespaces: &Namespaces) -> Answer {
    let Some((namespace, _)) = webhook.service.as_ref().filter(|_| webhook.fails_closed) else { return Answer::No };
    asks(webhook, &AdmissionRequest::new("CREATE", "", "pods", namespace), namespaces)
}

/// Whether it is asked about everything.
fn is_wide(webhook: &Webhook) -> bool {
    let all = |list: &[String]| list.iter().any(|one| one == "*");
    let everything = |resources: &[String]| resources.iter().any(|one| one == "*" || one == "*/*");
    webhook.fails_closed
        && webhook.namespaces.is_empty()
        && webhook.objects.is_empty()
        && webhook.conditions == 0
        && webhook.rules.iter().any(|rule| all(&rule.groups) && everything(&rule.resources))
}

/// What one that is asked about everything is called for.
fn wide_in_words(webhook: &Webhook) -> &'static str {
    let are_all = |scope: &str| webhook.rules.iter().all(|rule| rule.scope == scope);
    match () {
        () if are_all("Cluster") => "every resource that is in no namespace",
        () if are_all("Namespaced") => "every resource in every namespace",
        () => "every resource, in all namespaces and none",
    }
}

/// The findings on one webhook.
pub(super) fn findings(
    webhook: &Webhook,
    met: &WebhookCalls,
    measured: Option<&Measured>,
    namespaces: &Namespaces,
    seen: (&str, &str),
    has_logs: bool,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let subject = [("configuration", webhook.configuration.as_str()), ("webhook", webhook.name.as_str())];
    let mut add = |id: &str, severity: Severity, confidence: f64, summary: String, remedy: &str| {
        let evidence = json!({
            "failure_policy": if webhook.fails_closed { "Fail" } else { "Ignore" },
            "timeout_s": webhook.timeout_s,
            "requests": has_logs.then_some(met.sure + met.perhaps),
            "control_plane_requests": has_logs.then_some(met.control_plane),
            "p99_ms": measured.and_then(|measured| measured.within(webhook.timeout_s)[1]),
        });
        let finding = Finding::new(id, severity, &subject).confidence(confidence).summary(summary).remedy(remedy);
        let (first_seen, last_seen) = (seen.0.to_owned(), seen.1.to_owned());
        found.push(Finding { first_seen, last_seen, ..finding.evidence(evidence) });
    };
    let name = &webhook.name;
    let failed = met.failed.max(measured.map_or(0, |measured| measured.failed));
    if failed > 0 && !webhook.fails_closed {
        add(
            "webhook-failing",
            Severity::Warning,
            0.7,
            format!(
                "{} to {name} failed and failed their requests, although its policy is Ignore",
                counted(failed, "call")
            ),
            "check its pods, Service, endpoints and certificate; an earlier policy, or another configuration with a \
             webhook of the same name, failed the requests",
        );
    } else if failed > 0 {
        add(
            "webhook-failing",
            Severity::Critical,
            1.0,
            format!("{} to {name} failed and failed their requests", counted(failed, "call")),
            "check its pods, Service, endpoints and certificate; to admit requests meanwhile, set failurePolicy: \
             Ignore, or delete its configuration (webhooks are not called for that deletion)",
        );
    }
    if let Some(open) = measured.map(|measured| measured.failed_open).filter(|open| *open > 0) {
        add(
            "webhook-failing-open",
            Severity::Warning,
            1.0,
            format!("{} to {name} failed, and their requests were admitted unchecked", counted(open, "call")),
            "check its pods, Service, endpoints and certificate; objects that it should have denied or changed may \
             be in the cluster",
        );
    }
    let own = own(webhook, namespaces);
    if own != Answer::No {
        let (namespace, service) = webhook.service.clone().unwrap_or_default();
        let unsure = if own == Answer::Perhaps { " (if its selectors or conditions match them)" } else { "" };
        add(
            "webhook-blocks-itself",
            if own == Answer::Yes { Severity::Critical } else { Severity::Warning },
            if own == Answer::Yes { 1.0 } else { 0.5 },
            format!(
                "{name} is called for pods of its own namespace, {namespace}{unsure}: once {service} is down, its \
                 pods can't be recreated"
            ),
            "exclude its namespace by namespaceSelector (kubernetes.io/metadata.name NotIn)",
        );
    }
    let stops = stops(webhook, namespaces);
    if !stops.is_empty() {
        add(
            "webhook-blocks-control-plane",
            Severity::Critical,
            1.0,
            format!("while {name} is down, these requests fail: {}", stops.join(", ")),
            "exclude kube-system and kube-node-lease by namespaceSelector, and nodes, leases and reviews by narrower \
             rules; or replace it by a ValidatingAdmissionPolicy (CEL), which calls no server",
        );
    }
    if is_wide(webhook) {
        add(
            "webhook-wide",
            Severity::Warning,
            1.0,
            format!("{name} is called for {}, and requests fail while it is down", wide_in_words(webhook)),
            "list the resources that it needs, exclude namespaces, or set failurePolicy: Ignore",
        );
    }
    if let Some(p99) = measured.and_then(|measured| measured.within(webhook.timeout_s)[1]) {
        let share = p99 / 1e3 / f64::from(webhook.timeout_s.max(1));
        if p99 >= SLOW_MS || share >= NEARLY {
            let severity = if share >= NEARLY && webhook.fails_closed { Severity::Critical } else { Severity::Warning };
            let end = if webhook.fails_closed { "the request fails" } else { "the request is admitted unchecked" };
            let summary = match share >= 1.0 {
                true => {
                    format!("the p99 of calls to {name} reaches its timeout of {} s, and then {end}", webhook.timeout_s)
                }
                false => format!(
                    "the p99 of calls to {name} is {} ms or more, {} of its timeout; every request that it checks is \
                     delayed",
                    significant(p99),
                    percent(share)
                ),
            };
            let remedy = match webhook.fails_closed {
                true => {
                    "give it more replicas or CPU, narrow its rules; a ValidatingAdmissionPolicy (CEL) takes \
                     microseconds"
                }
                false => {
                    "give it more replicas or CPU, narrow its rules, or lower timeoutSeconds: requests that time out \
                     are admitted anyway"
                }
            };
            add("webhook-slow", severity, 0.9, summary, remedy);
        }
    }
    if webhook.fails_closed && webhook.timeout_s > LONG_TIMEOUT_S {
        add(
            "webhook-long-timeout",
            Severity::Warning,
            1.0,
            format!(
                "{name} delays each request {} s before it fails, and the request holds its seat meanwhile",
                webhook.timeout_s
            ),
            "set timeoutSeconds to 10 or less, slightly above the latency it needs",
        );
    }
    found
}
