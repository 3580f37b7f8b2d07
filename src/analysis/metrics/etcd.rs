//! How etcd does at run time: disk, leader, proposals, watchers, size against quota.
//! (Fields and thresholds: docs/metrics.md, section 8; docs/findings.md.)

use super::catalogue::{Metric, Part};
use super::facts::{Component, Fact, Facts, Instance};
use super::glance::count;
use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::time;
use crate::model::units::{bytes, counted, duration, grouped, percent, significant};
use serde_json::json;

/// The columns of a row.
pub const FIELDS: [&str; 24] = [
    "instance",
    "component",
    "version",
    "has_leader",
    "is_leader",
    "leader_changes",
    "wal_fsync_p99_ms",
    "commit_p99_ms",
    "peer_rtt_p99_ms",
    "request_p99_ms",
    "proposals_pending",
    "proposals_failed",
    "slow_applies",
    "slow_reads",
    "heartbeat_failures",
    "events_per_s",
    "pending_events",
    "slow_watchers",
    "db_bytes",
    "in_use_bytes",
    "quota_bytes",
    "quota_share",
    "seconds",
    "restarts",
];

/// What the pages report one instance.
struct Health<'f> {
    instance: &'f Instance,
    facts: &'f Facts,
    number: usize,
}

impl Health<'_> {
    fn here(&self, fact: &Fact) -> bool {
        fact.instance == self.number
    }

    fn last(&self, metric: Metric) -> Option<f64> {
        self.facts.last_of(metric, |fact| self.here(fact))
    }

    /// `None` if this instance's pages lack the metric.
    fn rise(&self, metric: Metric) -> Option<f64> {
        self.facts
            .of(metric)
            .iter()
            .any(|fact| self.here(fact))
            .then(|| self.facts.increase_of(metric, Part::Whole, |fact| self.here(fact)))?
    }

    /// The 99th percentile in ms, and of how many.
    fn p99(&self, metric: Metric) -> Option<(f64, f64)> {
        let buckets = self.facts.buckets_of(metric, |fact| self.here(fact));
        Some((buckets.quantile(0.99)? * 1e3, buckets.count()?))
    }

    /// Of the members that an apiserver asks, the largest.
    fn size(&self) -> Option<f64> {
        let largest = |metric| self.facts.largest_of(metric, |fact| self.here(fact));
        largest(Metric::EtcdDbSize).or_else(|| largest(Metric::StorageSize))
    }

    fn events_per_s(&self) -> Option<f64> {
        let seconds = self.instance.seconds;
        self.rise(Metric::EtcdEvents).filter(|_| seconds > 0.0).map(|events| events / seconds)
    }

    /// Changes of leader, without those that a start brings.
    fn leader_changes(&self) -> Option<f64> {
        let starts = self.instance.restarts + u64::from(self.instance.since_start);
        self.rise(Metric::EtcdLeaderChanges).map(|changes| (changes - starts as f64).max(0.0))
    }

    fn quota_share(&self) -> Option<f64> {
        let quota = self.last(Metric::EtcdQuota).filter(|quota| *quota > 0.0)?;
        Some(self.size()? / quota)
    }

    fn row(&self) -> Vec<Value> {
        let p99 = |metric| Value::from(self.p99(metric).map(|(ms, _)| ms));
        let yes = |metric| Value::from(self.last(metric).map(|value| if value > 0.0 { "yes" } else { "no" }));
        let Instance { name, component, version, seconds, restarts, .. } = self.instance;
        vec![
            name.as_str().into(),
            component.name().into(),
            version.as_str().into(),
            yes(Metric::EtcdHasLeader),
            yes(Metric::EtcdIsLeader),
            count(self.leader_changes()),
            p99(Metric::EtcdWalFsync),
            p99(Metric::EtcdCommit),
            p99(Metric::EtcdPeerRoundTrip),
            p99(Metric::EtcdRequests),
            count(self.last(Metric::EtcdPending)),
            count(self.rise(Metric::EtcdProposalsFailed)),
            count(self.rise(Metric::EtcdSlowApply)),
            count(self.rise(Metric::EtcdSlowReads)),
            count(self.rise(Metric::EtcdHeartbeatFailures)),
            self.events_per_s().into(),
            count(self.last(Metric::EtcdPendingEvents)),
            count(self.last(Metric::EtcdSlowWatchers)),
            count(self.size()),
            count(self.last(Metric::EtcdDbInUse)),
            count(self.last(Metric::EtcdQuota)),
            self.quota_share().into(),
            (*seconds).into(),
            Value::Count(*restarts),
        ]
    }

    fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let name = if self.instance.name.is_empty() { "etcd" } else { &self.instance.name };
        let mut add = |id: &str, severity, confidence, summary: String, evidence: serde_json::Value, remedy: &str| {
            let subject = [("cluster", self.instance.cluster.as_str()), ("instance", &self.instance.name)];
            let finding = Finding::new(id, severity, &subject)
                .confidence(confidence)
                .seen((self.instance.from, self.instance.to))
                .summary(summary)
                .evidence(evidence)
                .remedy(remedy);
            found.push(finding);
        };
        // A percentile of few observations says little.
        let slow = |metric, limits: [f64; 3]| {
            let (ms, count) = self.p99(metric).filter(|(_, count)| *count >= 20.0)?;
            let severity = if ms >= limits[2] {
                Severity::Critical
            } else if ms >= limits[1] {
                Severity::Warning
            } else if ms >= limits[0] {
                Severity::Info
            } else {
                return None;
            };
            Some((severity, ms, count, if count >= 200.0 { 0.9 } else { 0.6 }))
        };
        if let Some((severity, ms, count, confidence)) = slow(Metric::EtcdWalFsync, FSYNC_MS) {
            add(
                "etcd-slow-fsync",
                severity,
                confidence,
                format!("{name}: WAL fsync p99 is {} ms or more ({})", significant(ms), counted(count as u64, "write")),
                json!({"wal_fsync_p99_ms": ms, "fsyncs": count, "recommended_ms": FSYNC_MS[0]}),
                "give etcd a dedicated disk with low write latency (local SSD), without other writers (logs, image \
                 pulls, backups)",
            );
        }
        if let Some((severity, ms, count, confidence)) = slow(Metric::EtcdCommit, COMMIT_MS) {
            add(
                "etcd-slow-commit",
                severity,
                confidence,
                format!(
                    "{name}: backend commit p99 is {} ms or more ({})",
                    significant(ms),
                    counted(count as u64, "commit")
                ),
                json!({"commit_p99_ms": ms, "commits": count, "recommended_ms": COMMIT_MS[0]}),
                "check the disk's latency; a fragmented database (long free-list) slows commits too: defragment, one \
                 member at a time",
            );
        }
        if let Some((severity, ms, count, confidence)) = slow(Metric::EtcdPeerRoundTrip, PEER_MS) {
            add(
                "etcd-slow-peers",
                severity,
                confidence,
                format!("{name}: round-trip time to peers, p99, is {} ms or more", significant(ms)),
                json!({"peer_rtt_p99_ms": ms, "messages": count}),
                "place members closer together, or raise --heartbeat-interval and --election-timeout",
            );
        }
        if self.last(Metric::EtcdHasLeader) == Some(0.0) {
            add(
                "etcd-no-leader",
                Severity::Critical,
                1.0,
                format!("{name}: has no leader, so writes fail"),
                json!({"has_leader": 0}),
                "check that a majority of members run and reach each other; check their logs for elections",
            );
        }
        let changes = self.leader_changes().unwrap_or(0.0);
        if changes >= 1.0 {
            let seconds = self.instance.seconds;
            let often = changes >= 3.0 && seconds > 0.0 && changes / seconds.max(1.0) >= 4.0 / 900.0;
            let within = match seconds > 0.0 {
                true => format!("in {}", duration((seconds * 1e6) as i64)),
                false => "since it started".to_owned(),
            };
            add(
                "etcd-leader-changes",
                if often { Severity::Warning } else { Severity::Info },
                0.9,
                format!("{name}: saw {} {within}", counted(changes as u64, "leader change")),
                json!({"leader_changes": changes, "seconds": self.instance.seconds}),
                "check for slow disks, starved CPUs or packet loss between members at those times",
            );
        }
        let failed = self.rise(Metric::EtcdProposalsFailed).unwrap_or(0.0);
        if failed > 5.0 {
            add(
                "etcd-failed-proposals",
                Severity::Warning,
                0.8,
                format!("{name}: {} failed", counted(failed as u64, "proposal")),
                json!({"proposals_failed": failed}),
                "proposals fail while the cluster has no leader or no majority: check the members' logs",
            );
        }
        if let Some(pending) = self.last(Metric::EtcdPending).filter(|pending| *pending >= 5.0) {
            add(
                "etcd-pending-proposals",
                Severity::Warning,
                0.6,
                format!("{name}: {} pending when the last page was taken", counted(pending as u64, "proposal")),
                json!({"proposals_pending": pending}),
                "writes arrive faster than members commit them: look for a write surge (plimsoll traffic --by \
                 user,verb) or a slow member",
            );
        }
        if let Some(pending) = self.last(Metric::EtcdPendingEvents).filter(|pending| *pending >= 1000.0) {
            add(
                "etcd-delayed-events",
                Severity::Warning,
                0.7,
                format!("{name}: {} pending for watchers", counted(pending as u64, "event")),
                json!({"pending_events": pending, "slow_watchers": self.last(Metric::EtcdSlowWatchers)}),
                "an apiserver receives events too slowly: check its CPU and the network to it",
            );
        }
        self.space(name, &mut add);
        found
    }

    /// Size against quota, and how much of it is free pages.
    fn space(&self, name: &str, add: &mut impl FnMut(&str, Severity, f64, String, serde_json::Value, &str)) {
        let (size, in_use) = (self.size(), self.last(Metric::EtcdDbInUse));
        let sparse = size.zip(in_use).filter(|(size, in_use)| in_use / size < 0.5);
        if let (Some(size), Some(share)) = (size, self.quota_share().filter(|share| *share >= NEAR_QUOTA)) {
            let remedy = match sparse {
                Some(_) => {
                    "defragment, one member at a time (each is blocked meanwhile): most of the file is free pages"
                }
                None => {
                    "find what fills it (objects and bytes by resource: plimsoll traffic --from metrics --health), \
                     delete or compact, then defragment; raise --quota-backend-bytes to at most 8 GiB"
                }
            };
            add(
                "etcd-near-quota",
                if share >= AT_QUOTA { Severity::Critical } else { Severity::Warning },
                1.0,
                format!(
                    "{name}: the database takes {} of its quota ({}); at the quota etcd rejects all writes",
                    percent(share),
                    bytes(size)
                ),
                json!({"db_bytes": size, "in_use_bytes": in_use, "quota_share": share}),
                remedy,
            );
        }
        if let Some((size, in_use)) = sparse.filter(|(size, _)| *size > 1e8) {
            add(
                "etcd-fragmented",
                Severity::Info,
                0.9,
                format!("{name}: only {} of the file's {} is in use", percent(in_use / size), bytes(size)),
                json!({"db_bytes": size, "in_use_bytes": in_use}),
                "defragment at a quiet time, one member at a time: each is blocked meanwhile",
            );
        }
    }
}

/// More instances than this do not fit beside one another, even where names are long and the terminal narrow.
const ABREAST: usize = 3;

/// More than this are a table of rows.
const IN_BLOCKS: usize = 12;

/// For people: a column for each instance, a line for each thing that any of them shows.
fn for_people(of: &[Health<'_>]) -> Option<Vec<Table>> {
    (1..=IN_BLOCKS).contains(&of.len()).then(|| of.chunks(ABREAST).map(block).collect())
}

fn block(of: &[Health<'_>]) -> Table {
    let mut columns = vec!["".to_owned()];
    let name = |instance: &Instance| {
        if instance.name.is_empty() { instance.component.name().to_owned() } else { instance.name.clone() }
    };
    columns.extend(of.iter().map(|health| name(health.instance)));
    let number = |value: Option<f64>| value.map(|value| grouped(value.round() as u64));
    let ms = |value: Option<f64>| value.map(|ms| format!("{} ms", significant(ms)));
    let p99 = |health: &Health<'_>, metric| ms(health.p99(metric).map(|(ms, _)| ms));
    type ValueOf<'t> = &'t dyn Fn(&Health<'_>) -> Option<String>;
    let lines: [(&str, ValueOf<'_>); 18] = [
        ("version", &|h| Some(h.instance.version.clone()).filter(|version| !version.is_empty())),
        ("has a leader", &|h| h.last(Metric::EtcdHasLeader).map(|yes| if yes > 0.0 { "yes" } else { "no" }.to_owned())),
        ("is the leader", &|h| h.last(Metric::EtcdIsLeader).map(|yes| if yes > 0.0 { "yes" } else { "no" }.to_owned())),
        ("leader changes", &|h| number(h.leader_changes())),
        ("log write (fsync), p99", &|h| p99(h, Metric::EtcdWalFsync)),
        ("commit, p99", &|h| p99(h, Metric::EtcdCommit)),
        ("round trip to peers, p99", &|h| p99(h, Metric::EtcdPeerRoundTrip)),
        ("request to etcd, p99", &|h| p99(h, Metric::EtcdRequests)),
        ("proposals pending", &|h| number(h.last(Metric::EtcdPending))),
        ("proposals failed", &|h| number(h.rise(Metric::EtcdProposalsFailed))),
        ("slow applies", &|h| number(h.rise(Metric::EtcdSlowApply))),
        ("events sent to watchers", &|h| h.events_per_s().map(|rate| format!("{}/s", significant(rate)))),
        ("events delayed", &|h| number(h.last(Metric::EtcdPendingEvents))),
        ("slow watchers", &|h| number(h.last(Metric::EtcdSlowWatchers))),
        ("database", &|h| h.size().map(bytes)),
        ("of which in use", &|h| h.last(Metric::EtcdDbInUse).map(bytes)),
        ("quota", &|h| h.last(Metric::EtcdQuota).map(bytes)),
        ("share of quota", &|h| h.quota_share().map(percent)),
    ];
    let rows = lines.iter().filter_map(|(what, value_of)| {
        let reported: Vec<Option<String>> = of.iter().map(value_of).collect();
        let value = |text: Option<String>| text.map_or(Value::None, Value::Text);
        reported
            .iter()
            .any(Option::is_some)
            .then(|| std::iter::once((*what).into()).chain(reported.into_iter().map(value)).collect())
    });
    Table { columns, rows: rows.collect(), ..Table::default() }
}

/// Log writes: what etcd's FAQ asks for; its heartbeat interval; when its own alerts fire.
const FSYNC_MS: [f64; 3] = [10.0, 100.0, 500.0];
/// Commits: the same three.
const COMMIT_MS: [f64; 3] = [25.0, 250.0, 1000.0];
/// Round trips between members: half of, about, and well above the heartbeat interval.
const PEER_MS: [f64; 3] = [50.0, 150.0, 500.0];
/// The quota that pages show; nothing where they show different ones, as those of several clusters do.
pub fn quota(facts: &Facts) -> Option<u64> {
    let mut quotas = facts.of(Metric::EtcdQuota).iter().filter_map(|fact| fact.last).filter(|quota| *quota > 0.0);
    let first = quotas.next()?;
    quotas.all(|other| other == first).then_some(first as u64)
}

/// From this share of its quota on a database is nearly full.
pub const NEAR_QUOTA: f64 = 0.8;
/// From this share on it is about to refuse writes.
pub const AT_QUOTA: f64 = 0.95;

/// The report on all etcd members, and on how apiservers see them.
pub fn report(facts: &Facts, inputs: Vec<InputReport>, coverage: serde_json::Map<String, serde_json::Value>) -> Report {
    let instances = facts.instances.iter().enumerate();
    let of: Vec<Health<'_>> = instances
        .filter(|(_, instance)| instance.component.is_store())
        .map(|(number, instance)| Health { instance, facts, number })
        .collect();
    let members = of.iter().filter(|health| health.instance.component == Component::Etcd).count();
    let mut findings: Vec<Finding> = of.iter().flat_map(Health::findings).collect();
    findings.sort_by(Finding::graver);
    let window =
        of.iter().map(|health| health.instance.from).min().zip(of.iter().map(|health| health.instance.to).max());
    let mut lead = match members {
        0 => "No metrics page of etcd itself: these numbers are measured by apiservers.".to_owned(),
        _ => format!("{} of etcd", counted(members as u64, "member")),
    };
    if let (Some((from, to)), true) = (window, members > 0) {
        lead += &format!(", {} to {}.", time::format(from), time::format(to));
    }
    let largest = of.iter().filter_map(Health::size).max_by(f64::total_cmp);
    let share = of.iter().filter_map(Health::quota_share).max_by(f64::total_cmp);
    let mut notes = Vec::new();
    if findings.is_empty() {
        notes.push("No problem found.".to_owned());
    }
    Report {
        schema: "plimsoll.etcd-health/v1".to_owned(),
        inputs,
        window: Window::of(window),
        coverage,
        totals: vec![
            ("members".to_owned(), Value::Count(members as u64)),
            ("db_bytes".to_owned(), count(largest)),
            ("quota_share".to_owned(), share.into()),
        ],
        table: Table {
            columns: FIELDS.iter().map(|f| (*f).to_owned()).collect(),
            rows: of.iter().map(Health::row).collect(),
            ..Table::default()
        },
        people: for_people(&of),
        lead: vec![lead],
        notes,
        findings,
        ..Report::default()
    }
}
