//! Columns of `report`: what happened, and why.

use super::{Column, Kind, column};

pub(super) const INCIDENT: [Column; 8] = [
    column("incident_confidence", "CONFIDENCE", Kind::Text, "confidence that this is the cause"),
    column("incident_before", "BEFORE", Kind::Text, "the value before the incident"),
    column("incident_within", "DURING", Kind::Text, "the value during the incident"),
    column("incident_after", "AFTER", Kind::Text, "the value after the incident"),
    column("incident_at", "TIME", Kind::Text, "when it happened"),
    column("incident_what", "WHAT", Kind::Text, "what happened"),
    column("fault", "WHY", Kind::Text, "why requests failed or were denied, by the message of the answer"),
    column("name", "NAME", Kind::Text, "the webhook, API group, policy or quota that it names"),
];
