//! What an audit log has to say: its breakdown as measures, what it shows at all, and the sentences above and
//! below the table.

use super::report::{Line, Measured, Measures, TrafficInput};
use super::{Breakdown, Query, Row, Stats};
use crate::analysis::reconcile::Comparison;
use crate::model::event::{Level, Stage};
use crate::model::input::{Coverage, InputReport, Loss};
use crate::model::time::{self, Micros, SECOND, together};
use crate::model::units::{counted, duration, grouped, percent, significant};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// What was read, beside the breakdown itself.
#[derive(Debug, Default)]
pub struct Reading {
    /// One per file.
    pub inputs: Vec<InputReport>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// What each stream shows.
    pub coverage: Vec<Coverage>,
    /// Cluster and instance of each stream.
    pub streams: Vec<(String, String)>,
    /// The version of the apiservers and where it is known from, if it is.
    pub server: Option<(String, &'static str)>,
    /// How much the log shows of what the metrics count, where they are given.
    pub against_metrics: Option<Comparison>,
    /// Where FlowSchemas come from, if they were asked for; and what to say of it.
    pub flow: Option<(Json, Option<String>)>,
}

/// The time counted: from the first to the last event within the query's bounds, whether its filters accept
/// them or not.
fn window(breakdown: &Breakdown) -> Option<(Micros, Micros)> {
    breakdown.first.zip(breakdown.last)
}

fn seconds(breakdown: &Breakdown) -> f64 {
    let length = window(breakdown).map_or(0, |(from, to)| to - from);
    (length as f64 / SECOND as f64).max(1.0)
}

/// The measures of a breakdown that answers `query`.
pub fn measured(query: &Query, breakdown: Breakdown) -> Measured {
    let seconds = seconds(&breakdown);
    let row_seconds = query.interval.map_or(seconds, |interval| interval as f64 / SECOND as f64);
    let series = query.interval.map(|interval| {
        let mut by_time: BTreeMap<Micros, Stats> = BTreeMap::new();
        for row in &breakdown.rows {
            by_time.entry(row.interval.unwrap_or_default()).or_default().merge(&row.stats);
        }
        let line = |(at, stats): (Micros, Stats)| Line {
            interval: Some(at),
            dims: Vec::new(),
            measures: measures(&stats, None, row_seconds),
        };
        (interval, by_time.into_iter().map(line).collect())
    });
    let window = window(&breakdown);
    let total = measures(&breakdown.total.stats, breakdown.total.peak_rps, seconds);
    let line = |row: Row| {
        let measures = measures(&row.stats, row.peak_rps, row_seconds);
        Line { interval: row.interval, dims: row.dims, measures }
    };
    let dims = query.by.iter().map(|dim| dim.name().to_owned()).collect();
    Measured { dims, rows: breakdown.rows.into_iter().map(line).collect(), series, total, window, seconds }
}

fn measures(stats: &Stats, peak_rps: Option<f64>, seconds: f64) -> Measures {
    let Stats { requests, open, errors, client_errors, throttled, latency } = stats;
    Measures {
        requests: *requests,
        open: Some(*open),
        rps: Some(*requests as f64 / seconds),
        peak_rps,
        errors: Some(*errors),
        client_errors: Some(*client_errors),
        throttled: *throttled,
        latency_ms: [0.5, 0.9, 0.99].map(|q| latency.quantile(q).map(|micros| micros / 1e3)),
        max_ms: (!latency.is_empty()).then(|| latency.max as f64 / 1e3),
    }
}

/// What is to be said about a breakdown and what it was read from.
pub fn traffic_input(breakdown: &Breakdown, reading: Reading) -> TrafficInput {
    TrafficInput {
        coverage: coverage(breakdown, &reading),
        lead: lead(breakdown, window(breakdown), seconds(breakdown), &reading),
        notes: notes_on(breakdown, &reading),
        inputs: reading.inputs,
        ..TrafficInput::default()
    }
}

fn lead(breakdown: &Breakdown, window: Option<(Micros, Micros)>, seconds: f64, reading: &Reading) -> Vec<String> {
    let total = &breakdown.total;
    let Some((from, to)) = window else {
        let span = |own: &Coverage| own.first.zip(own.last);
        let covered = reading.coverage.iter().map(span).fold(None, together);
        return vec![Coverage::nothing_counted(covered)];
    };
    let Stats { requests, open, errors, client_errors, throttled, latency } = &total.stats;
    let share = |count: u64| percent(count as f64 / (*requests).max(1) as f64);
    let mut first = format!(
        "{} in {} ({}/s{}): {} 5xx, {} 4xx, {} 429",
        counted(*requests, "request"),
        duration(to - from),
        significant(*requests as f64 / seconds),
        total.peak_rps.map_or_else(String::new, |peak| format!(", peak {}/s", significant(peak))),
        share(*errors),
        share(*client_errors),
        share(*throttled),
    );
    if let (Some(p50), Some(p99)) = (latency.quantile(0.5), latency.quantile(0.99)) {
        first += &format!(", p50 {} ms, p99 {} ms", significant(p50 / 1e3), significant(p99 / 1e3));
    }
    if *open > 0 {
        first += &format!("; {} still open", grouped(*open));
    }
    let names: Vec<&str> =
        reading.streams.iter().map(|(_, instance)| instance.as_str()).filter(|name| !name.is_empty()).collect();
    let mut clusters: Vec<&str> =
        reading.streams.iter().map(|(cluster, _)| cluster.as_str()).filter(|name| !name.is_empty()).collect();
    clusters.dedup();
    let mut second = format!("{} to {}", time::format(from), time::format(to));
    if !names.is_empty() && names.len() <= 4 {
        second += &format!(", {}", names.join(", "));
    } else if names.len() > 4 {
        second += &format!(", {} apiservers", names.len());
    }
    if !clusters.is_empty() {
        second += &format!(" of {}", clusters.join(", "));
    }
    vec![first + ".", second + "."]
}

/// What a reader of the shares has to know.
fn notes_on(breakdown: &Breakdown, reading: &Reading) -> Vec<String> {
    let mut notes = Vec::new();
    let lost: u64 = reading.losses.iter().map(|loss| loss.count).sum();
    if lost > 0 {
        notes.push(format!("{} of the input lost or damaged; see the messages.", counted(lost, "part")));
    }
    notes.extend(reading.against_metrics.as_ref().and_then(Comparison::note));
    notes.extend(reading.flow.as_ref().and_then(|(_, note)| note.clone()));
    if breakdown.is_rolled {
        notes.push(
            "From a roll-up: all kubelets are one user, and PEAK/S is available for rows by user, serviceaccount, \
             agent, group, resource, instance and cluster (docs/rollup.md)."
                .to_owned(),
        );
    }
    if breakdown.folded > 0 && breakdown.is_rolled {
        notes.push(format!(
            "{} from the least busy clients of their tile are counted as {}: the roll-up keeps no rows for them.",
            counted(breakdown.folded, "request"),
            super::OTHER
        ));
    } else if breakdown.folded > 0 {
        notes.push(format!(
            "{} of rows beyond {} counted as {}.",
            counted(breakdown.folded, "request"),
            grouped(super::MAX_ROWS as u64),
            super::OTHER
        ));
    }
    if breakdown.audit_ids.repeated > 0 {
        let about = if breakdown.audit_ids.estimated { "about " } else { "" };
        notes.push(format!(
            "{about}{} with the audit ID of another event (clients may set it, or a log was given twice); all are \
             counted (--dedupe always counts copies once).",
            counted(breakdown.audit_ids.repeated, "request")
        ));
    }
    let mut all = Coverage::default();
    reading.coverage.iter().for_each(|own| all.merge(own));
    notes.extend(all.copies_in_words().map(|message| message + "."));
    let others = all.others;
    if others > 0 {
        let entries = if others == 1 { "entry" } else { "entries" };
        notes.push(format!(
            "{} {entries} of other services in the same export left out: not apiserver audit events.",
            grouped(others)
        ));
    }
    if breakdown.late_for_peak > 0 {
        notes.push(format!("{} too far out of order for PEAK/S.", counted(breakdown.late_for_peak, "request")));
    }
    notes
}

fn coverage(breakdown: &Breakdown, reading: &Reading) -> Map<String, Json> {
    let mut all = Coverage::default();
    reading.coverage.iter().for_each(|c| all.merge(c));
    let mut levels = Map::new();
    for level in Level::ALL {
        let stages: Map<String, Json> = Stage::ALL
            .iter()
            .map(|&stage| (stage.name().to_owned(), all.events[level as usize][stage as usize]))
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name, count.into()))
            .collect();
        if !stages.is_empty() {
            let name = if level == Level::Unknown { "unknown" } else { level.name() };
            levels.insert(name.to_owned(), Json::Object(stages));
        }
    }
    let lost: Vec<Json> = reading
        .losses
        .iter()
        .map(|loss| {
            json!({"path": loss.path, "line": loss.line, "offset": loss.offset,
            "reason": loss.kind.explain().0, "count": loss.count, "detail": loss.detail})
        })
        .collect();
    let streams: Vec<Json> = reading
        .streams
        .iter()
        .zip(&reading.coverage)
        .map(|((cluster, instance), c)| {
            json!({"cluster": cluster, "instance": instance, "events": c.total(),
            "first": c.first.map(time::format), "last": c.last.map(time::format)})
        })
        .collect();
    let value = json!({
        "source": "audit",
        "lines": all.lines,
        "events": levels,
        "streams": streams,
        "lost": lost,
        "unfinished_lines": all.unfinished_lines,
        "duplicate_events": all.copies,
        "other_entries": all.others,
        "repeated_audit_ids": {"requests": breakdown.audit_ids.repeated, "estimated": breakdown.audit_ids.estimated},
        "folded_requests": breakdown.folded,
        "late_for_peak": breakdown.late_for_peak,
        "audit_vs_metrics": reading.against_metrics.as_ref().map(Comparison::json),
        "kubernetes_version": reading.server.as_ref().map(|(version, _)| version),
        "kubernetes_version_from": reading.server.as_ref().map(|(_, from)| from),
    });
    let mut map = if let Json::Object(map) = value { map } else { Map::new() };
    map.extend(reading.flow.as_ref().map(|(source, _)| ("flow_schemas".to_owned(), source.clone())));
    map
}
