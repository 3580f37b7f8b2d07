//! A budget for what a client does today, with headroom.

use super::check::shown;
use super::{Usage, Wanted};
use crate::model::budget::Rule;
use crate::model::rollup::MIN_MINUTE_WRITES;
use crate::model::time;
use std::fmt::Write as _;

/// The limit for what was used: with headroom, in whole numbers; what is not used at all stays forbidden.
fn limit(rule: Rule, used: f64, headroom: f64) -> f64 {
    let more = used * (1.0 + headroom);
    match rule {
        // In tenths.
        Rule::RequestsPerReconcile => (more * 10.0).ceil() / 10.0,
        Rule::WritesPerObjectPerMinute => more.ceil().max(f64::from(MIN_MINUTE_WRITES)),
        _ => more.ceil(),
    }
}

/// Text as a YAML scalar on one line, whatever is in it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The document. What the sources do not show has no limit, and a comment says why.
pub fn document(usage: &Usage, wanted: &Wanted<'_>, owner: Option<&str>, headroom: f64) -> String {
    let mut text = String::new();
    let agent = wanted.agent.map_or(String::new(), |agent| format!(", agent: {}", quoted(agent)));
    let metrics = wanted.metrics.map_or(String::new(), |name| format!(", metrics: {}", quoted(name)));
    if let Some((first, last)) = usage.span {
        let _ = writeln!(
            text,
            "# {} requests from {} to {}, and {:.0} % headroom.",
            usage.requests,
            time::format(first),
            time::format(last),
            headroom * 100.0
        );
    }
    let _ = writeln!(text, "apiVersion: plimsoll.io/v1alpha1\nkind: Budget");
    let _ = writeln!(text, "client: {{user: {}{agent}{metrics}}}", quoted(wanted.user));
    if let Some(owner) = owner {
        let _ = writeln!(text, "owner: {}", quoted(owner));
    }
    let _ = writeln!(text, "limits:");
    for rule in Rule::ALL {
        let used = usage.of(rule);
        let (most, _) = used.most(|_| true);
        match &used.missing {
            // A name of a client may stand in it: what ends a line would end the comment.
            Some(missing) => {
                let _ = writeln!(text, "  # {}: {}", rule.name(), missing.replace(char::is_control, " "));
            }
            None => {
                let _ = writeln!(
                    text,
                    "  {}: {}  # {}: {} today",
                    rule.name(),
                    limit(rule, most, headroom),
                    rule.what(),
                    shown(most)
                );
            }
        }
    }
    text
}
