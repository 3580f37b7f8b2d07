//! What is wrong with what fills a database. (Thresholds and their reasons: docs/findings.md.)

use super::{By, Row, Usage};
use crate::analysis::keyspace::file::{File, of};
use crate::model::incident::quote;
use crate::model::report::{Finding, Severity, Value};
use crate::model::units::{bytes, counted, grouped, percent};
use serde_json::{Value as Json, json};

const MIB: u64 = 1 << 20;
/// An object is a finding above this, in bytes.
pub(super) const LARGE: u64 = MIB / 2;
/// A key is not hot that was written fewer times.
pub(super) const HOT: u64 = 100;
/// Less than this is worth no finding about shares.
const MIN_BYTES: u64 = 10_000_000;

/// Findings of one sort about single keys; more say nothing new.
pub(super) const MAX_NAMED: usize = 10;

/// A list of findings about one file.
#[derive(Debug)]
pub(super) struct FileFindings<'f> {
    path: &'f str,
    pub(super) list: Vec<Finding>,
}

impl<'f> FileFindings<'f> {
    pub(super) fn new(file: &'f File) -> Self {
        Self { path: file.path(), list: Vec::new() }
    }

    /// Adds one; `about` names what it is about beside the file.
    pub(super) fn add(
        &mut self,
        id: &str,
        severity: Severity,
        about: &[(&str, &str)],
        summary: String,
        evidence: &Json,
        remedy: &str,
    ) {
        let subject = [&[("path", self.path)], about].concat();
        let finding = Finding::new(id, severity, &subject).summary(summary).evidence(evidence.clone()).remedy(remedy);
        self.list.push(finding);
    }
}

/// What `etcd usage` finds.
pub(super) fn of_usage(file: &File, total: &Usage, rows: &[Row], by: &By) -> Vec<Finding> {
    let mut found = FileFindings::new(file);
    of_size(file, &mut found);
    of_values(total, &mut found);
    of_piles(total, rows, by, &mut found);
    found.list
}

/// The file's size.
pub(super) fn of_size(file: &File, found: &mut FileFindings<'_>) {
    if let Some(quota) = file.quota.filter(|quota| *quota > 0) {
        let share = file.db_bytes as f64 / quota as f64;
        if share >= 0.8 {
            found.add(
                "etcd-near-quota",
                if share >= 0.95 { Severity::Critical } else { Severity::Warning },
                &[],
                format!(
                    "the database takes {} of its quota ({}); at the quota etcd rejects all writes",
                    percent(share),
                    bytes(file.db_bytes as f64)
                ),
                &json!({"db_bytes": file.db_bytes, "in_use_bytes": file.in_use_bytes, "quota_share": share}),
                "delete unused objects of the largest rows, compact, then defragment one member at a time",
            );
        }
    }
    // Of a damaged file it is not known what its unread pages hold.
    if !file.is_damaged() && file.db_bytes > 100_000_000 && file.in_use_bytes * 2 < file.db_bytes {
        found.add(
            "etcd-fragmented",
            Severity::Info,
            &[],
            format!(
                "only {} of the file's {} is in use",
                of(file.in_use_bytes, file.db_bytes),
                bytes(file.db_bytes as f64)
            ),
            &json!({"db_bytes": file.db_bytes, "in_use_bytes": file.in_use_bytes}),
            "defragment at a quiet time, one member at a time: each is blocked meanwhile",
        );
    }
    for (member, alarm) in &file.alarms {
        found.add(
            "etcd-alarm",
            Severity::Critical,
            &[("member", member), ("alarm", alarm)],
            format!("member {member} has raised {alarm}"),
            &json!({"alarm": alarm}),
            if alarm == "NOSPACE" {
                "free space: delete, compact with etcdctl (apiservers can't while the alarm is active), defragment; \
                 then etcdctl alarm disarm: until then etcd rejects writes"
            } else {
                "the member's data differs from the others': remove the member and add it again"
            },
        );
    }
}

/// Single values, and what all of them hold.
fn of_values(total: &Usage, found: &mut FileFindings<'_>) {
    if total.max_object_bytes > LARGE {
        found.add(
            "etcd-large-object",
            // That etcd takes requests of 1.5 MiB is its default: a member may take more.
            Severity::Warning,
            &[],
            format!(
                "the largest object takes {}; by default etcd rejects requests above 1.5 MiB",
                bytes(total.max_object_bytes as f64)
            ),
            &json!({"max_object_bytes": total.max_object_bytes}),
            "plimsoll etcd top shows it; split it, or store its data elsewhere",
        );
    }
    if total.undecodable > 0 {
        found.add(
            "etcd-undecodable",
            Severity::Warning,
            &[],
            format!("{} can't be decoded as their declared type", counted(total.undecodable, "value")),
            &json!({"undecodable": total.undecodable}),
            "an apiserver can't serve such objects, nor lists of their resource: plimsoll etcd check lists them; \
             compare with another member's snapshot, then delete them by key",
        );
    }
    if total.managed_fields_bytes * 10 > total.live_bytes * 4 && total.managed_fields_bytes > MIN_BYTES {
        found.add(
            "etcd-managed-fields",
            Severity::Info,
            &[],
            format!(
                "managedFields take {} of the live bytes ({})",
                of(total.managed_fields_bytes, total.live_bytes),
                bytes(total.managed_fields_bytes as f64)
            ),
            &json!({"managed_fields_bytes": total.managed_fields_bytes, "live_bytes": total.live_bytes}),
            "plimsoll etcd usage --by manager shows who writes them; controllers that repeatedly apply whole objects \
             can apply fewer fields",
        );
    }
}

/// Many objects of one sort.
fn of_piles(total: &Usage, rows: &[Row], by: &By, found: &mut FileFindings<'_>) {
    let (Some(group), Some(resource)) = (
        by.columns().iter().position(|column| *column == "group"),
        by.columns().iter().position(|column| *column == "resource"),
    ) else {
        return;
    };
    let all = total.live_bytes + total.history_bytes;
    let sum = |wanted: &dyn Fn(&str, &str) -> bool| {
        let mut sum = Usage::default();
        rows.iter().filter(|row| wanted(&row.names[group], &row.names[resource])).for_each(|row| sum.merge(&row.usage));
        sum
    };
    let events = sum(&|_, resource| resource == "events");
    let event_bytes = events.live_bytes + events.history_bytes;
    if event_bytes * 10 > all * 3 && event_bytes > MIN_BYTES {
        found.add(
            "etcd-events",
            Severity::Warning,
            &[("resource", "events")],
            format!(
                "Events take {} of the key space ({}, {})",
                of(event_bytes, all),
                bytes(event_bytes as f64),
                counted(events.keys, "key")
            ),
            &json!({"keys": events.keys, "bytes": event_bytes, "share": event_bytes as f64 / all as f64}),
            "find who writes them (plimsoll traffic --where resource=events --by user,agent); shorten --event-ttl, \
             or store Events in a separate etcd (plimsoll etcd split)",
        );
    }
    const REPORTS: [&str; 9] = [
        "policyreports",
        "clusterpolicyreports",
        "admissionreports",
        "clusteradmissionreports",
        "backgroundscanreports",
        "clusterbackgroundscanreports",
        "ephemeralreports",
        "clusterephemeralreports",
        "vulnerabilityreports",
    ];
    let reports = sum(&|group, resource| !group.is_empty() && REPORTS.contains(&resource));
    let report_bytes = reports.live_bytes + reports.history_bytes;
    if reports.keys >= 10_000 || report_bytes * 5 > all && report_bytes > MIN_BYTES {
        found.add(
            "etcd-policy-reports",
            Severity::Warning,
            &[("resource", "policyreports")],
            format!(
                "{} of policy reports take {} of the key space",
                counted(reports.keys, "object"),
                of(report_bytes, all)
            ),
            &json!({"keys": reports.keys, "bytes": report_bytes}),
            "have the scanner clean up, report fewer resources, or store its reports outside etcd (Kyverno's \
             reports-server)",
        );
    }
    if total.helm_releases >= 100 && total.helm_bytes * 10 > total.live_bytes {
        found.add(
            "etcd-helm-releases",
            Severity::Warning,
            &[("resource", "secrets")],
            format!(
                "{} of Helm releases take {} of the live bytes",
                counted(total.helm_releases, "revision"),
                of(total.helm_bytes, total.live_bytes)
            ),
            &json!({"releases": total.helm_releases, "bytes": total.helm_bytes}),
            "keep fewer revisions: helm upgrade --history-max 3, and delete old Secrets of type helm.sh/release.v1",
        );
    }
}

fn text(value: &Value) -> &str {
    if let Value::Text(text) = value { text } else { "" }
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Count(count) => *count,
        Value::Number(number) => *number as u64,
        _ => 0,
    }
}

/// Large objects by name; rows are those of `etcd top`.
pub(super) fn of_objects(rows: &[Vec<Value>], found: &mut FileFindings<'_>) {
    let large = rows.iter().filter(|row| number(&row[5]) > LARGE);
    for row in large.take(MAX_NAMED) {
        let (key, size) = (text(&row[0]), number(&row[5]));
        found.add(
            "etcd-large-object",
            Severity::Warning,
            &[("key", key)],
            format!("{key} takes {}; by default etcd rejects requests above 1.5 MiB", bytes(size as f64)),
            &json!({"bytes": size, "managed_fields_bytes": number(&row[8]), "annotation_bytes": number(&row[9])}),
            "split it, or store its data elsewhere; every LIST and watch transfers all of it",
        );
    }
}

/// Hot keys by name; rows are those of `etcd history` by key, whose columns are given.
pub(super) fn of_history(columns: &[String], rows: &[Vec<Value>], writes: u64, found: &mut FileFindings<'_>) {
    let at = |name: &str| columns.iter().position(|column| column == name);
    let (Some(0), Some(count), Some(per_hour)) = (at("key"), at("writes"), at("writes_per_hour")) else { return };
    let is_hot = |row: &&Vec<Value>| {
        let (own, rate) = (number(&row[count]), number(&row[per_hour]));
        // A leader renews its lease every 2 s, which is what leases are for.
        let is_lease = || text(&row[0]).rsplit('/').nth(2) == Some("leases");
        own >= HOT && (rate > 3_600 || own * 5 > writes && !is_lease())
    };
    for row in rows.iter().filter(is_hot).take(MAX_NAMED) {
        let (key, own) = (text(&row[0]), number(&row[count]));
        found.add(
            "etcd-hot-key",
            Severity::Warning,
            &[("key", key)],
            format!(
                "{key} was written {} times since the last compaction: {} of all writes in that time",
                grouped(own),
                of(own, writes)
            ),
            &json!({"writes": own, "writes_per_hour": number(&row[per_hour]),
                "share": own as f64 / writes.max(1) as f64}),
            &format!(
                "find the client that writes it (plimsoll traffic AUDIT-LOG --by user,agent,verb --where name={}), and \
                 make it write only changes, less often",
                quote(key.rsplit('/').next().unwrap_or(key))
            ),
        );
    }
}

/// Free pages in many short runs: a value that takes several pages needs them in a row, and etcd before 3.4 searched
/// the whole list.
pub(super) fn of_free_pages(file: &File, runs: u64, pages: u64, middle: Option<u64>, found: &mut FileFindings<'_>) {
    if pages * file.page_size > 100_000_000 && middle.is_some_and(|middle| middle <= 2) {
        found.add(
            "etcd-free-list",
            Severity::Info,
            &[],
            format!("{} free pages are in {} runs, half of them at most 2 pages long", grouped(pages), grouped(runs)),
            &json!({"free_pages": pages, "free_runs": runs}),
            "defragment in a quiet hour; members that run with --bootstrap-defrag-threshold-megabytes (before 3.6: \
             --experimental-bootstrap-defrag-threshold-megabytes) do it when they start",
        );
    }
}
