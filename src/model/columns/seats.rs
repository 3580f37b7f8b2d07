//! Columns of `clients --seats`.

use super::{Column, Kind, column, wide};

pub(super) const SEATS: [Column; 10] = [
    column("schema", "FLOW SCHEMA", Kind::Text, "FlowSchema"),
    column("seats_executing", "EXECUTING", Kind::Count, "seats that requests in execution hold"),
    column("seats_queued", "QUEUED", Kind::Count, "seats that queued requests ask for"),
    column("demand_share", "SHARE", Kind::Share, "share of all seats held or asked for"),
    column("oldest_wait_ms", "OLDEST WAIT MS", Kind::Millis, "how long the oldest queued request has waited"),
    wide("longest_run_ms", "LONGEST RUN MS", Kind::Millis, "how long the longest-running request has run"),
    column("asks", "ASKS", Kind::Text, "what the requests are: verb and resource, the most frequent first"),
    column("agents", "AGENTS", Kind::Text, "user agents, as far as they are known"),
    column(
        "rejected_total",
        "REJECTED",
        Kind::Count,
        "requests that the priority level rejected since the apiserver started",
    ),
    column(
        "timed_out_total",
        "TIMED OUT",
        Kind::Count,
        "requests that timed out in a queue since the apiserver started",
    ),
];
