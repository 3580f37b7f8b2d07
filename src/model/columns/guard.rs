//! Columns of `guard`.

use super::{Column, Kind, column};

pub(super) const GUARD: [Column; 18] = [
    column("webhook", "WEBHOOK", Kind::Text, "name of the webhook"),
    column(
        "failure_policy",
        "ON FAILURE",
        Kind::Text,
        "what happens to a request when the webhook fails: Fail or Ignore",
    ),
    column("timeout_s", "TIMEOUT S", Kind::Count, "seconds after which the apiserver gives up on the webhook"),
    column("webhook_rules", "RULES", Kind::Text, "requests that its rules name"),
    column(
        "webhook_requests",
        "REQUESTS",
        Kind::Count,
        "requests in the audit log that its rules, namespaces and objects match",
    ),
    column("control_plane", "CONTROL PLANE", Kind::Count, "of these, requests of the control plane itself"),
    column("guard_at", "TIME", Kind::Text, "when it happened"),
    column("guard_severity", "SEVERITY", Kind::Text, "severity: critical, warning or info"),
    column("guard_who", "WHO", Kind::Text, "who did it, with which client"),
    column("guard_what", "WHAT", Kind::Text, "what was done to what"),
    column("guard_outcome", "OUTCOME", Kind::Text, "whether it was done, refused or failed"),
    column("guard_gone", "CASCADE", Kind::Count, "objects that were deleted with it"),
    column("policy", "POLICY", Kind::Text, "name of the policy"),
    column("policy_asked", "CHECKED", Kind::Count, "requests that the policy would have checked"),
    column("policy_denied", "DENIED", Kind::Count, "of these, requests that it would have denied"),
    column("policy_allowed", "ALLOWED", Kind::Count, "of these, requests that it would have allowed"),
    column(
        "policy_undecided",
        "UNDECIDED",
        Kind::Count,
        "requests of which log and objects do not show what it would have answered",
    ),
    column("policy_because", "REASON", Kind::Text, "why most of these are undecided"),
];
