//! Columns of `traffic`: requests, errors and latency.

use super::{Column, Kind, column, wide};

pub(super) const TRAFFIC: [Column; 26] = [
    column("time", "TIME", Kind::Text, "start of the interval"),
    column(
        "requests",
        "REQUESTS",
        Kind::Count,
        "requests: each counts once, when it ends; long-running ones that did not end count as open",
    ),
    column("open", "OPEN", Kind::Count, "long-running requests that had not ended"),
    column("share", "SHARE", Kind::Share, "share of the total"),
    column("rps", "PER SEC", Kind::Rate, "requests per second"),
    column("peak_rps", "PEAK/S", Kind::Rate, "requests per second in the busiest 10 seconds"),
    column("errors", "5XX", Kind::Count, "responses with 5xx"),
    column("client_errors", "4XX", Kind::Count, "responses with 4xx, without 429"),
    column("throttled", "429", Kind::Count, "responses with 429: too many requests"),
    wide("error_rate", "5XX RATE", Kind::Share, "share of responses with 5xx"),
    column("p50_ms", "P50 MS", Kind::Millis, "time within which half of the requests ended"),
    wide("p90_ms", "P90 MS", Kind::Millis, "time within which 90 % of the requests ended"),
    column("p99_ms", "P99 MS", Kind::Millis, "time within which 99 % of the requests ended"),
    wide("max_ms", "MAX MS", Kind::Millis, "duration of the slowest request"),
    column("trend", "TREND", Kind::Spark, "requests over time"),
    wide("base_requests", "BASELINE", Kind::Count, "requests in the baseline"),
    column("base_rps", "BASELINE/S", Kind::Rate, "requests per second in the baseline"),
    column("rps_change", "RATE CHANGE", Kind::Change, "change of the rate against the baseline"),
    wide("base_error_rate", "BASELINE 5XX", Kind::Share, "share of responses with 5xx in the baseline"),
    column("base_p99_ms", "BASELINE P99", Kind::Millis, "99th percentile of the duration in the baseline"),
    column("p99_change", "P99 CHANGE", Kind::Change, "change of the 99th percentile against the baseline"),
    column("priority_level", "PRIORITY LEVEL", Kind::Text, "priority level of API Priority and Fairness"),
    column("flow_schema", "FLOW SCHEMA", Kind::Text, "FlowSchema of API Priority and Fairness"),
    wide("seconds", "SECONDS", Kind::Rate, "length of the time that is covered"),
    wide("restarts", "RESTARTS", Kind::Count, "restarts of the process"),
    column("bytes", "BYTES", Kind::Bytes, "bytes"),
];
