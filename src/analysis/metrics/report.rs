//! What metrics pages have to say beside the rows: the glance, the tables behind it, and what was read.

use super::facts::{Component, Fact, Facts, Instance};
use super::glance::Glance;
use super::tables::tables;
use crate::analysis::traffic::report::{Measured, TrafficInput};
use crate::model::input::{InputReport, Loss};
use crate::model::time;
use crate::model::units::{counted, duration, significant};
use serde_json::{Map, Value as Json, json};

/// What was read.
#[derive(Debug, Default)]
pub struct Read {
    /// One per page.
    pub inputs: Vec<InputReport>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// Pages whose time is only that of their file.
    pub undated: usize,
    /// Folders without an audit log, and how many files were looked at in each.
    pub without_logs: Vec<(String, usize)>,
}

/// What is to be said; `health`: people are shown the tables.
pub fn traffic_input(facts: &Facts, measured: &Measured, read: Read, health: bool) -> TrafficInput {
    let glance = Glance::new(facts);
    let mut lead = lead(facts, measured);
    lead.extend(glance.lines(facts.last()));
    let mut coverage = coverage(facts, &read.losses);
    let without: Vec<&String> = read.without_logs.iter().map(|(folder, _)| folder).collect();
    coverage.insert("folders_without_audit_logs".to_owned(), json!(without));
    if read.undated > 0 {
        coverage.insert("undated_pages".to_owned(), json!(read.undated));
    }
    TrafficInput {
        coverage,
        totals: vec![("glance".to_owned(), glance.values())],
        tables: tables(facts),
        show_tables: health,
        lead,
        notes: notes(facts, &read),
        inputs: read.inputs,
        ..TrafficInput::default()
    }
}

fn lead(facts: &Facts, measured: &Measured) -> Vec<String> {
    let servers: Vec<&Instance> = facts.instances_of(Component::Apiserver).collect();
    let since_start = servers.iter().any(|instance| instance.since_start);
    let mut first = counted(measured.total.requests, "request");
    if let Some((from, to)) = measured.window.filter(|(from, to)| to > from) {
        first += &format!(" in {}", duration(to - from));
    }
    let mut rates = Vec::new();
    rates.extend(measured.total.rps.map(|rps| format!("{}/s", significant(rps))));
    rates.extend(measured.total.peak_rps.map(|peak| format!("peak {}/s", significant(peak))));
    if !rates.is_empty() {
        first += &format!(" ({})", rates.join(", "));
    }
    if since_start {
        first += ": totals since start, because there is only one page";
    }
    let mut versions: Vec<&str> =
        servers.iter().map(|instance| instance.version.as_str()).filter(|v| !v.is_empty()).collect();
    versions.dedup();
    let mut clusters: Vec<&str> =
        servers.iter().map(|instance| instance.cluster.as_str()).filter(|c| !c.is_empty()).collect();
    clusters.dedup();
    let names: Vec<&str> =
        servers.iter().map(|instance| instance.name.as_str()).filter(|name| !name.is_empty()).collect();
    let pages: u64 = servers.iter().map(|instance| instance.pages).sum();
    let mut second = format!("{} of {}", counted(pages, "page"), counted(servers.len() as u64, "apiserver"));
    if !names.is_empty() && names.len() <= 4 {
        second += &format!(" ({})", names.join(", "));
    }
    if !versions.is_empty() {
        second += &format!(" {}", versions.join(", "));
    }
    if !clusters.is_empty() {
        second += &format!(" of {}", clusters.join(", "));
    }
    if let Some((from, to)) = measured.window {
        second += &if from == to {
            format!(", {}", time::format(to))
        } else {
            format!(", {} to {}", time::format(from), time::format(to))
        };
    }
    vec![first + ".", second + "."]
}

fn notes(facts: &Facts, read: &Read) -> Vec<String> {
    let mut notes = Vec::new();
    for (folder, files) in &read.without_logs {
        notes.push(format!("No audit log in {folder} ({files} files): metrics show requests, but not the clients."));
    }
    let lost: u64 = read.losses.iter().map(|loss| loss.count).sum();
    if lost > 0 {
        notes.push(format!("{} of the input lost or damaged; see the messages.", counted(lost, "part")));
    }
    if read.undated > 0 {
        notes.push(format!(
            "The time of {} is the file's modification time, which copying may have changed; name files by Unix \
             seconds or RFC 3339.",
            counted(read.undated as u64, "page")
        ));
    }
    if facts.unknown_pages > 0 {
        notes.push(format!("{} with no known metric.", counted(facts.unknown_pages, "page")));
    }
    if facts.left_out_pages > 0 {
        notes.push(format!("{} left out: too many processes in one folder.", counted(facts.left_out_pages, "page")));
    }
    if facts.dropped_samples > 0 {
        notes.push(format!("{} left out: too many series.", counted(facts.dropped_samples, "sample")));
    }
    let passed_on = increase(facts.failed_at_aggregated_apis());
    if passed_on > 0 {
        notes.push(format!(
            "Not in the rows: {} that failed on the way to aggregated APIs (apiserver_request_terminations_total); \
             apiservers count no others of what they pass on.",
            counted(passed_on, "request")
        ));
    }
    let refused = increase(facts.unauthenticated());
    if refused > 0 {
        notes.push(format!(
            "Not in the rows: {} without valid credentials (authentication_attempts).",
            counted(refused, "request")
        ));
    }
    let split: Vec<&str> = facts.instances.iter().map(|i| i.name.as_str()).filter(|name| name.contains('#')).collect();
    if !split.is_empty() {
        notes.push(format!(
            "{} share one address; separated by when their processes started, or by their counters.",
            split.join(", ")
        ));
    }
    notes
}

/// By how much they rose together.
fn increase<'f>(facts: impl Iterator<Item = &'f Fact>) -> u64 {
    facts.map(|fact| fact.increase).sum::<f64>().round() as u64
}

/// What was read, for `coverage`.
pub fn coverage(facts: &Facts, losses: &[Loss]) -> Map<String, Json> {
    let instance = |i: &Instance| {
        let start = i.start.map(|start| time::format(time::of_seconds(start)));
        json!({
            "cluster": i.cluster, "instance": i.name, "component": i.component.name(), "version": i.version,
            "pages": i.pages,
            "from": time::format(i.from), "to": time::format(i.to), "seconds": i.seconds, "since_start": i.since_start,
            "started": start, "restarts": i.restarts,
        })
    };
    let lost: Vec<Json> = losses
        .iter()
        .map(|l| {
            json!({"path": l.path, "line": l.line, "offset": l.offset, "reason": l.kind.explain().0,
            "count": l.count, "detail": l.detail})
        })
        .collect();
    let value = json!({
        "source": "metrics",
        "instances": facts.instances.iter().map(instance).collect::<Vec<_>>(),
        "lost": lost,
        "unknown_pages": facts.unknown_pages,
        "left_out_pages": facts.left_out_pages,
        "dropped_samples": facts.dropped_samples,
    });
    if let Json::Object(map) = value { map } else { Map::new() }
}
