//! Recording rules and alerts, read from `rules.yaml`.

use super::promql::expand;
use serde::Deserialize;

/// All rules.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// In the order in which they build on one another.
    pub recordings: Vec<Recording>,
    /// Pages first.
    pub alerts: Vec<Alert>,
}

/// A recording rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The name of the new series: labels that are kept, metric, operation.
    pub record: String,
    pub expr: String,
}

/// The label `severity`, which kube-prometheus routes by. An alert pages or opens a ticket; there is nothing below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A page: somebody, now.
    Critical,
    /// A ticket: the owner, in working hours.
    Warning,
}

impl Severity {
    /// The value of the label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// An alert.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alert {
    /// Its runbook is `docs/runbooks/alerts/<id>.md`.
    pub id: String,
    /// The label `alertname`.
    pub name: String,
    /// Whether it pages or opens a ticket.
    pub severity: Severity,
    /// What must hold.
    pub expr: String,
    /// For how long.
    #[serde(rename = "for")]
    pub holds: String,
    /// What happens, in a line.
    pub summary: String,
    /// What it means and what to do first.
    pub description: String,
    /// Which board shows it.
    pub board: String,
    /// Why it is an alert, and why with this threshold.
    pub reason: String,
}

/// All rules, with their expressions written out.
pub fn rules() -> Result<Rules, serde_yaml_ng::Error> {
    let mut rules: Rules = serde_yaml_ng::from_str(include_str!("rules.yaml"))?;
    rules.recordings.iter_mut().for_each(|rule| rule.expr = expand(&rule.expr));
    rules.alerts.iter_mut().for_each(|rule| rule.expr = expand(&rule.expr));
    Ok(rules)
}
