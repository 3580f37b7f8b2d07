//! One spec for every column of every table: its heading, its unit, how its values are written, and
//! whether a narrow table shows it.

use crate::model::report::{Table, Value};
use crate::model::units::{bytes, grouped, percent, signed_percent, significant};
use std::borrow::Cow;

/// How the values of a column are written for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Digits in groups.
    Count,
    /// Per second.
    Rate,
    /// 0 to 1, written as per cent.
    Share,
    /// A change against another value, as signed per cent.
    Change,
    /// Milliseconds.
    Millis,
    Bytes,
    /// Bytes more or fewer than before.
    MoreBytes,
    /// More or fewer than before.
    More,
    /// Counts in time, as a line of bars.
    Spark,
    /// RFC 3339, written as `Nov 20 09:21`.
    Time,
}

impl Kind {
    /// Whether values stand at the left, as words do.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Spark | Self::Time)
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// JSON field name.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// How values are written.
    pub kind: Kind,
    /// Whether only `-o wide` shows it.
    pub wide: bool,
}

const fn column(name: &'static str, title: &'static str, kind: Kind) -> Column {
    Column { name, title, kind, wide: false }
}

const fn wide(name: &'static str, title: &'static str, kind: Kind) -> Column {
    Column { name, title, kind, wide: true }
}

const COLUMNS: [Column; 336] = [
    column("topic", "WHAT", Kind::Text),
    column("topic_kind", "KIND", Kind::Text),
    column("meaning", "MEANING", Kind::Text),
    wide("text", "TEXT", Kind::Text),
    wide("page", "PAGE", Kind::Text),
    column("taken", "WHAT", Kind::Text),
    column("taken_from", "FROM", Kind::Text),
    column("outcome", "OUTCOME", Kind::Text),
    column("files", "FILES", Kind::Count),
    column("reason", "REASON", Kind::Text),
    column("incident_confidence", "CONFIDENCE", Kind::Text),
    column("incident_before", "BEFORE", Kind::Text),
    column("incident_within", "DURING", Kind::Text),
    column("incident_after", "AFTER", Kind::Text),
    column("incident_at", "TIME", Kind::Text),
    column("incident_what", "WHAT", Kind::Text),
    column("queue", "QUEUE", Kind::Text),
    column("depth_peak", "PEAK", Kind::Count),
    column("depth_per_min", "GROWTH/MIN", Kind::Rate),
    column("depth_course", "DEPTH OVER TIME", Kind::Spark),
    column("adds_per_s", "ADDED/S", Kind::Rate),
    column("done_per_s", "DONE/S", Kind::Rate),
    column("retries_per_s", "RETRIES/S", Kind::Rate),
    column("wait_mean_ms", "WAIT MS", Kind::Millis),
    column("wait_course", "WAIT OVER TIME", Kind::Spark),
    column("work_mean_ms", "WORK MS", Kind::Millis),
    column("work_p99_ms", "WORK P99", Kind::Millis),
    column("busy", "BUSY WORKERS", Kind::Rate),
    column("longest_s", "LONGEST S", Kind::Rate),
    column("result", "RESULT", Kind::Text),
    column("attempts", "ATTEMPTS", Kind::Count),
    column("attempts_per_s", "PER SEC", Kind::Rate),
    column("mean_ms", "MEAN MS", Kind::Millis),
    column("attempts_course", "OVER TIME", Kind::Spark),
    column("mean_course", "MEAN OVER TIME", Kind::Spark),
    column("pod_queue", "WHERE", Kind::Text),
    column("pods", "PODS", Kind::Count),
    column("pods_peak", "PEAK", Kind::Count),
    column("pods_per_min", "GROWTH/MIN", Kind::Rate),
    column("pods_course", "OVER TIME", Kind::Spark),
    column("incoming_per_s", "ADDED/S", Kind::Rate),
    column("stage", "STAGE", Kind::Text),
    column("time_share", "TIME SHARE", Kind::Share),
    column("limiter_mean_ms", "WAIT MS", Kind::Millis),
    column("limiter_p99_ms", "WAIT P99 MS", Kind::Millis),
    column("scheduler", "SCHEDULER", Kind::Text),
    column("gated", "GATED", Kind::Count),
    column("label_sets", "LABEL SETS", Kind::Count),
    column("decided_apart", "APART", Kind::Text),
    column("controller", "CONTROLLER", Kind::Text),
    column("namespaces_in", "NAMESPACE", Kind::Text),
    column("oldest", "OLDEST", Kind::Text),
    column("message", "MESSAGE", Kind::Text),
    column("waits", "OLDEST AGE", Kind::Rate),
    column("waits_s", "OLDEST AGE S", Kind::Rate),
    column("why", "WHY NO NODE", Kind::Text),
    column("lease", "LEASE", Kind::Text),
    column("from_holder", "FROM", Kind::Text),
    column("to_holder", "TO", Kind::Text),
    column("gap", "NO LEADER", Kind::Rate),
    column("gap_s", "NO LEADER S", Kind::Rate),
    column("released", "ENDED", Kind::Text),
    column("holder", "HOLDER", Kind::Text),
    column("candidates", "CANDIDATES", Kind::Count),
    column("renewals", "RENEWALS", Kind::Count),
    column("longest_pause_s", "LONGEST PAUSE S", Kind::Rate),
    column("changes", "CHANGES", Kind::Count),
    column("requests_share", "SHARE", Kind::Share),
    column("webhook", "WEBHOOK", Kind::Text),
    column("failure_policy", "ON FAILURE", Kind::Text),
    column("timeout_s", "TIMEOUT S", Kind::Count),
    column("webhook_rules", "RULES", Kind::Text),
    column("webhook_requests", "REQUESTS", Kind::Count),
    column("control_plane", "CONTROL PLANE", Kind::Count),
    column("long_running", "LONG-RUNNING", Kind::Count),
    column("inflight", "IN FLIGHT", Kind::Count),
    column("memory_bytes", "MEMORY", Kind::Bytes),
    column("skew_1m", "SKEW IN 1M", Kind::Rate),
    column("skew_10m", "IN 10M", Kind::Rate),
    column("skew_1h", "IN 1H", Kind::Rate),
    column("even_after", "BALANCED AFTER", Kind::Rate),
    column("server_time_s", "SERVER S", Kind::Rate),
    column("server_time_share", "SERVER TIME", Kind::Share),
    column("watches_share", "WATCHES", Kind::Share),
    column("started", "STARTED", Kind::Text),
    column("recovered_s", "RECOVERY S", Kind::Rate),
    column("share_there", "ON BUSIEST", Kind::Share),
    column("more_than_even", "ABOVE EVEN", Kind::Count),
    column("excess_share", "EXCESS SHARE", Kind::Share),
    column("excess_time_share", "EXCESS TIME", Kind::Share),
    column("goaway_chance", "CHANCE", Kind::Text),
    column("reconnects_per_s", "RECONNECTS/S", Kind::Rate),
    column("rollout", "ROLLOUT", Kind::Text),
    column("last_share", "LAST ONE'S SHARE", Kind::Share),
    column("busiest_share", "BUSIEST'S SHARE", Kind::Share),
    column("compare_what", "SUBJECT", Kind::Text),
    column("compare_metric", "WHAT", Kind::Text),
    column("compare_before", "BEFORE", Kind::Rate),
    column("compare_after", "AFTER", Kind::Rate),
    column("compare_change", "CHANGE", Kind::Rate),
    column("compare_between", "INTERVAL", Kind::Rate),
    column("compare_course", "BEFORE AND AFTER", Kind::Spark),
    column("time", "TIME", Kind::Text),
    column("peak_at", "AT (UTC)", Kind::Time),
    wide("sustained", "SUSTAINED", Kind::Text),
    column("spike", "SPIKE", Kind::Text),
    column("change", "CHANGE", Kind::Change),
    wide("censored", "AT LIMIT", Kind::Text),
    wide("refused", "REFUSED", Kind::Count),
    wide("days", "DAYS", Kind::Count),
    column("hard", "QUOTA NOW", Kind::Text),
    column("used_share", "FULL", Kind::Share),
    wide("per_week_share", "PER WEEK", Kind::Change),
    column("days_left", "DAYS LEFT", Kind::Rate),
    wide("full_at", "FULL AT (UTC)", Kind::Time),
    wide("local", "LOCAL TIME", Kind::Text),
    wide("message_id", "MESSAGE", Kind::Text),
    wide("failure", "FAILURE", Kind::Text),
    wide("peak_value", "PEAK NUMBER", Kind::Text),
    wide("used_value", "USED NUMBER", Kind::Text),
    wide("hard_value", "QUOTA NUMBER", Kind::Text),
    wide("proposed_value", "PROPOSED NUMBER", Kind::Text),
    column("hard_share", "NOW", Kind::Share),
    column("proposed_share", "PROPOSED", Kind::Share),
    column("count", "FINDINGS", Kind::Count),
    column("namespaces", "NAMESPACES", Kind::Count),
    column("peak_seats", "PEAK SEATS", Kind::Rate),
    column("proposed_rps", "GRANT/S", Kind::Rate),
    column("proposed_seats", "GRANT SEATS", Kind::Count),
    column("requests", "REQUESTS", Kind::Count),
    column("open", "OPEN", Kind::Count),
    column("share", "SHARE", Kind::Share),
    column("rps", "PER SEC", Kind::Rate),
    column("source_ips", "FROM", Kind::Count),
    column("est_list_bytes_per_s", "LISTED/S", Kind::Bytes),
    column("full_lists", "FULL LISTS", Kind::Count),
    wide("paged_lists", "PAGED LISTS", Kind::Count),
    column("watches", "WATCHES", Kind::Count),
    wide("relists", "RELISTS", Kind::Count),
    column("problems", "FINDINGS", Kind::Text),
    column("shortest_history_s", "MIN HISTORY S", Kind::Rate),
    column("too_old", "TOO OLD", Kind::Count),
    column("at_risk", "AT RISK", Kind::Count),
    column("over_limit", "OVER LIMIT", Kind::Count),
    column("schema", "FLOW SCHEMA", Kind::Text),
    column("seats_executing", "EXECUTING", Kind::Count),
    column("seats_queued", "QUEUED", Kind::Count),
    column("demand_share", "SHARE", Kind::Share),
    column("oldest_wait_ms", "OLDEST WAIT MS", Kind::Millis),
    wide("longest_run_ms", "LONGEST RUN MS", Kind::Millis),
    column("asks", "ASKS", Kind::Text),
    column("agents", "AGENTS", Kind::Text),
    column("rejected_total", "REJECTED", Kind::Count),
    column("timed_out_total", "TIMED OUT", Kind::Count),
    column("peak_rps", "PEAK/S", Kind::Rate),
    column("errors", "5XX", Kind::Count),
    column("client_errors", "4XX", Kind::Count),
    column("throttled", "429", Kind::Count),
    wide("error_rate", "5XX RATE", Kind::Share),
    column("p50_ms", "P50 MS", Kind::Millis),
    wide("p90_ms", "P90 MS", Kind::Millis),
    column("p99_ms", "P99 MS", Kind::Millis),
    wide("max_ms", "MAX MS", Kind::Millis),
    column("trend", "TREND", Kind::Spark),
    wide("base_requests", "BASELINE", Kind::Count),
    column("base_rps", "BASELINE/S", Kind::Rate),
    column("rps_change", "RATE CHANGE", Kind::Change),
    wide("base_error_rate", "BASELINE 5XX", Kind::Share),
    column("base_p99_ms", "BASELINE P99", Kind::Millis),
    column("p99_change", "P99 CHANGE", Kind::Change),
    column("priority_level", "PRIORITY LEVEL", Kind::Text),
    column("flow_schema", "FLOW SCHEMA", Kind::Text),
    column("seats", "SEATS", Kind::Count),
    column("limit", "LIMIT", Kind::Count),
    wide("nominal", "NOMINAL", Kind::Count),
    column("utilization", "IN USE", Kind::Share),
    column("executing", "EXECUTING", Kind::Count),
    column("queued", "QUEUED", Kind::Count),
    column("dispatched_per_s", "PER SEC", Kind::Rate),
    column("rejected", "REJECTED", Kind::Count),
    column("requests_with_fence", "THROTTLED", Kind::Count),
    column("queued_now", "QUEUED NOW", Kind::Count),
    column("rejected_now", "REJECTED NOW", Kind::Count),
    column("max_wait_now_ms", "WAIT NOW MS", Kind::Millis),
    column("max_wait_ms", "WAIT MS", Kind::Millis),
    wide("wait_p50_ms", "WAIT P50 MS", Kind::Millis),
    column("wait_p99_ms", "WAIT P99 MS", Kind::Millis),
    column("bound_s", "WITHIN S", Kind::Count),
    column("slow", "SLOW", Kind::Count),
    column("good_share", "GOOD", Kind::Share),
    column("burn_rate", "BURN RATE", Kind::Rate),
    column("lists_per_s", "LISTS/S", Kind::Rate),
    column("bytes_per_s", "BYTES/S", Kind::Bytes),
    column("p99_bytes", "P99 SIZE", Kind::Bytes),
    column("cache_per_s", "BY CACHE/S", Kind::Rate),
    column("etcd_objects_per_s", "FROM ETCD/S", Kind::Rate),
    column("fetched_per_list", "OBJECTS READ", Kind::Rate),
    column("watchers", "WATCHERS", Kind::Count),
    column("events_in_per_s", "IN/S", Kind::Rate),
    column("events_out_per_s", "OUT/S", Kind::Rate),
    column("bytes_out_per_s", "BYTES/S", Kind::Bytes),
    column("fan_out", "FAN-OUT", Kind::Rate),
    wide("capacity", "CAPACITY", Kind::Count),
    column("history_s", "HISTORY S", Kind::Rate),
    column("calls_per_s", "CALLS/S", Kind::Rate),
    column("rejections", "REJECTED", Kind::Count),
    column("failed_open", "FAILED OPEN", Kind::Count),
    column("objects", "OBJECTS", Kind::Count),
    wide("prefix", "PREFIX", Kind::Text),
    column("keys", "KEYS", Kind::Count),
    wide("revisions", "REVISIONS", Kind::Count),
    wide("tombstones", "TOMBSTONES", Kind::Count),
    column("live_bytes", "LIVE", Kind::Bytes),
    column("history_bytes", "HISTORY", Kind::Bytes),
    wide("key_bytes", "KEY BYTES", Kind::Bytes),
    column("max_object_bytes", "LARGEST", Kind::Bytes),
    column("managed_fields_bytes", "MANAGED FIELDS", Kind::Bytes),
    wide("annotation_bytes", "ANNOTATIONS", Kind::Bytes),
    wide("last_applied_bytes", "LAST APPLIED", Kind::Bytes),
    wide("key", "KEY", Kind::Text),
    column("writes", "WRITES", Kind::Count),
    column("deletes", "DELETES", Kind::Count),
    column("written_bytes", "WRITTEN", Kind::Bytes),
    wide("writes_per_hour", "WRITES/H", Kind::Rate),
    column("written_bytes_per_hour", "WRITTEN/H", Kind::Bytes),
    wide("modified", "REVISION", Kind::Count),
    wide("is_live", "LIVE", Kind::Text),
    column("entries", "ENTRIES", Kind::Count),
    column("depth", "DEPTH", Kind::Count),
    column("branch_pages", "BRANCHES", Kind::Count),
    column("leaf_pages", "LEAVES", Kind::Count),
    column("overflow_pages", "OVERFLOW", Kind::Count),
    column("leaf_fill_min", "FILL MIN", Kind::Share),
    column("leaf_fill_p50", "FILL P50", Kind::Share),
    wide("leaf_fill_p99", "FILL P99", Kind::Share),
    wide("branch_fill_min", "BRANCH MIN", Kind::Share),
    wide("branch_fill_p50", "BRANCH P50", Kind::Share),
    wide("branch_fill_p99", "BRANCH P99", Kind::Share),
    column("runs", "RUNS", Kind::Count),
    column("free_pages", "PAGES", Kind::Count),
    column("checked", "CHECKED", Kind::Count),
    column("failed", "FAILED", Kind::Count),
    column("added", "ADDED", Kind::Count),
    column("removed", "REMOVED", Kind::Count),
    column("changed", "CHANGED", Kind::Count),
    wide("rewritten", "REWRITTEN", Kind::Count),
    column("bytes_before", "BEFORE", Kind::Bytes),
    column("bytes_after", "AFTER", Kind::Bytes),
    column("bytes_change", "CHANGE", Kind::MoreBytes),
    column("write_share", "OF WRITES", Kind::Share),
    wide("has_leader", "HAS LEADER", Kind::Text),
    column("is_leader", "LEADER", Kind::Text),
    column("leader_changes", "LEADER CHANGES", Kind::Count),
    column("wal_fsync_p99_ms", "FSYNC P99 MS", Kind::Millis),
    column("commit_p99_ms", "COMMIT P99 MS", Kind::Millis),
    wide("peer_rtt_p99_ms", "PEERS P99 MS", Kind::Millis),
    wide("request_p99_ms", "REQUEST P99 MS", Kind::Millis),
    column("proposals_pending", "PENDING", Kind::Count),
    column("proposals_failed", "FAILED", Kind::Count),
    wide("slow_applies", "SLOW APPLIES", Kind::Count),
    wide("slow_reads", "SLOW READS", Kind::Count),
    wide("heartbeat_failures", "HEARTBEATS LOST", Kind::Count),
    column("events_per_s", "EVENTS/S", Kind::Rate),
    column("pending_events", "DELAYED EVENTS", Kind::Count),
    column("slow_watchers", "SLOW WATCHERS", Kind::Count),
    column("db_bytes", "SIZE", Kind::Bytes),
    column("in_use_bytes", "IN USE", Kind::Bytes),
    column("quota_bytes", "QUOTA", Kind::Bytes),
    column("quota_share", "OF QUOTA", Kind::Share),
    wide("seconds", "SECONDS", Kind::Rate),
    wide("restarts", "RESTARTS", Kind::Count),
    column("bytes", "BYTES", Kind::Bytes),
    column("used_bytes", "USED", Kind::Bytes),
    column("limit_bytes", "LIMIT", Kind::Bytes),
    column("anon_bytes", "ANON", Kind::Bytes),
    column("cache_bytes", "CACHE", Kind::Bytes),
    column("back_bytes", "RECLAIMABLE", Kind::Bytes),
    column("left_bytes", "LEFT", Kind::Bytes),
    column("in_bar", "", Kind::Text),
    column("what", "", Kind::Text),
    column("size", "SIZE", Kind::Count),
    column("of_usage", "SHARE", Kind::Share),
    column("now", "NOW", Kind::Count),
    column("most", "MAX", Kind::Count),
    column("course", "TREND", Kind::Text),
    column("asked_bytes", "ASKED", Kind::Bytes),
    column("freed_bytes", "FREED", Kind::Bytes),
    column("flat", "FLAT", Kind::Count),
    column("cum", "CUM", Kind::Count),
    column("flat_bytes", "FLAT", Kind::Bytes),
    column("flat_count", "FLAT", Kind::Count),
    column("flat_share", "FLAT%", Kind::Share),
    column("cum_bytes", "CUM", Kind::Bytes),
    column("cum_count", "CUM", Kind::Count),
    column("cum_share", "CUM%", Kind::Share),
    column("flat_change_bytes", "FLAT +/-", Kind::MoreBytes),
    column("flat_change_count", "FLAT +/-", Kind::More),
    column("cum_change_bytes", "CUM +/-", Kind::MoreBytes),
    column("cum_change_count", "CUM +/-", Kind::More),
    column("held_bytes", "HELD", Kind::Bytes),
    column("held_count", "HELD", Kind::Count),
    column("held_share", "SHARE", Kind::Share),
    column("held_change_bytes", "CHANGE", Kind::MoreBytes),
    column("held_change_count", "CHANGE", Kind::More),
    column("forecast_series", "SERIES", Kind::Text),
    column("forecast_now", "NOW", Kind::Count),
    column("forecast_limit", "LIMIT", Kind::Count),
    column("forecast_growth", "PER WEEK", Kind::Count),
    column("forecast_date", "REACHED", Kind::Text),
    column("forecast_range", "RANGE", Kind::Text),
    column("forecast_chance", "CHANCE", Kind::Count),
    wide("forecast_limit_from", "LIMIT SOURCE", Kind::Text),
    wide("forecast_model", "MODEL", Kind::Text),
    wide("forecast_error", "ERROR", Kind::Text),
    wide("forecast_drivers", "DRIVEN BY", Kind::Text),
    wide("forecast_note", "NOTE", Kind::Text),
    column("what_if_series", "SERIES", Kind::Text),
    column("what_if_now", "NOW", Kind::Count),
    column("what_if_then", "THEN", Kind::Count),
    column("what_if_limit", "LIMIT", Kind::Count),
    column("what_if_share", "FULL", Kind::Count),
    column("what_if_was", "REACHED", Kind::Text),
    column("what_if_is", "REACHED THEN", Kind::Text),
    wide("what_if_range", "RANGE", Kind::Text),
    column("guard_at", "TIME", Kind::Text),
    column("guard_severity", "SEVERITY", Kind::Text),
    column("guard_who", "WHO", Kind::Text),
    column("guard_what", "WHAT", Kind::Text),
    column("guard_outcome", "OUTCOME", Kind::Text),
    column("guard_gone", "CASCADE", Kind::Count),
    column("policy", "POLICY", Kind::Text),
    column("policy_asked", "CHECKED", Kind::Count),
    column("policy_denied", "DENIED", Kind::Count),
    column("policy_allowed", "ALLOWED", Kind::Count),
    column("policy_undecided", "UNDECIDED", Kind::Count),
    column("policy_because", "REASON", Kind::Text),
];

/// The column of a JSON field; a field that is not listed is a dimension, whose heading is its name.
pub fn of(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

/// The heading of a field.
pub fn title(name: &str) -> Cow<'static, str> {
    of(name).map_or_else(|| Cow::Owned(name.to_uppercase().replace(['_'], " ")), |column| Cow::Borrowed(column.title))
}

/// How a field is written.
pub fn kind(name: &str) -> Kind {
    of(name).map_or(Kind::Text, |column| column.kind)
}

/// A value as a person reads it.
pub fn show(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (_, Value::None) => "-".to_owned(),
        (Kind::Time, Value::Text(text)) => {
            text.parse().map_or_else(|_| text.clone(), |at: jiff::Timestamp| at.strftime("%b %-d %H:%M").to_string())
        }
        (_, Value::Text(text)) => text.clone(),
        (Kind::Bytes, Value::Count(count)) => bytes(*count as f64),
        (Kind::Bytes, Value::Number(number)) => bytes(*number),
        (_, Value::Count(count)) => grouped(*count),
        (Kind::MoreBytes, Value::Number(number)) => format!("{}{}", plus(*number), bytes(*number)),
        (Kind::More, Value::Number(number)) => format!("{}{}", plus(*number), significant(*number)),
        (Kind::Share, Value::Number(share)) => percent(*share),
        (Kind::Change, Value::Number(change)) => signed_percent(*change),
        (_, Value::Number(number)) => significant(*number),
        (_, Value::Series(counts)) => spark(counts),
        (_, Value::Json(json)) => json.to_string(),
        (_, Value::Group(values)) => {
            let values: Vec<String> =
                values.iter().map(|(name, value)| format!("{name} {}", show(kind, value))).collect();
            values.join(", ")
        }
    }
}

/// The sign that a number lacks where it is more.
fn plus(number: f64) -> &'static str {
    if number > 0.0 { "+" } else { "" }
}

/// The heading of a table's column: its own, or what columns of that name are called.
pub fn heading(table: &Table, at: usize) -> Cow<'_, str> {
    match own(table, at) {
        Some(heading) => Cow::Borrowed(heading),
        None => title(&table.columns[at]),
    }
}

/// Whether only `-o wide` shows a table's column.
pub fn is_wide(table: &Table, at: usize) -> bool {
    own(table, at).is_none() && of(&table.columns[at]).is_some_and(|column| column.wide)
}

/// How the values of a table's column are written: as columns of that name are, but words as words.
pub fn kind_in(table: &Table, at: usize) -> Kind {
    let kind = kind(&table.columns[at]);
    let mut known = table.rows.iter().filter_map(|row| row.get(at)).filter(|value| **value != Value::None).peekable();
    let is_word = |value: &Value| matches!(value, Value::Text(text) if !text.contains(|c: char| c.is_ascii_digit()));
    let is_text = known.peek().is_some() && known.all(is_word);
    if is_text && !kind.is_text() { Kind::Text } else { kind }
}

fn own(table: &Table, at: usize) -> Option<&'static str> {
    table.headings.iter().find(|(name, _)| *name == table.columns[at]).map(|(_, heading)| *heading)
}

/// Counts as a line of bars, the highest full.
pub fn spark(counts: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = counts.iter().copied().max().unwrap_or(0).max(1);
    let bar = |&count: &u64| match count {
        0 => ' ',
        count => BARS[((count * 8).div_ceil(highest) - 1).min(7) as usize],
    };
    counts.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_headings_of_its_own() {
        let mut table = Table {
            columns: vec!["reason".to_owned(), "restarts".to_owned(), "change".to_owned()],
            rows: vec![vec!["a".into(), Value::Count(1), "added".into()]],
            ..Table::default()
        };
        let reported =
            |table: &Table| (0..3).map(|at| (heading(table, at).into_owned(), is_wide(table, at))).collect::<Vec<_>>();
        let heads = |reason: &str, restarts| {
            vec![(reason.to_owned(), false), ("RESTARTS".to_owned(), restarts), ("CHANGE".to_owned(), false)]
        };
        assert_eq!(reported(&table), heads("REASON", true));
        table.headings = vec![("reason", "WHY NOT"), ("restarts", "RESTARTS")];
        assert_eq!(reported(&table), heads("WHY NOT", false));
        assert_eq!(show(Kind::Time, &"2026-11-20T09:21:57.123Z".into()), "Nov 20 09:21");
        assert_eq!(show(Kind::Time, &"never".into()), "never");
        assert_eq!((kind_in(&table, 2), kind_in(&table, 1)), (Kind::Text, Kind::Count));
        // Numbers that somebody has written out stand as numbers do.
        table.rows.push(vec!["a".into(), Value::Count(1), "+3 %".into()]);
        assert_ne!(kind_in(&table, 2), Kind::Text);
    }

    #[test]
    fn bars_rise_with_counts() {
        assert_eq!(spark(&[0, 1, 4, 8]), " ▁▄█");
    }
}
