//! Causes that are etcd's: a slow disk, a lost leader, a full database.

use super::{Case, Draft};
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::model::incident::Source;
use crate::model::report::Severity;
use crate::model::units::{bytes, percent, significant};

/// Seconds that etcd's own documentation allows a commit, and a write to its log (p99).
const COMMIT: f64 = 0.025;
const WAL: f64 = 0.010;
/// A database so near to its quota will soon refuse writes.
const NEARLY_FULL: f64 = 0.8;

/// A disk that is slow, or a leader that is lost.
pub(super) fn slow(case: &Case<'_>) -> Vec<Draft> {
    if !case.read.contains(&Source::Metrics) {
        return Vec::new();
    }
    let mut draft = Draft::new("slow-etcd", Vec::new(), "etcd was slow, or had lost its leader".to_owned());
    let mut is_known = false;
    for (metric, what, bound) in
        [(Metric::EtcdCommit, "commits", COMMIT), (Metric::EtcdWalFsync, "writes to its log", WAL)]
    {
        let p99 = |facts: &crate::analysis::metrics::facts::Facts| facts.buckets_of(metric, |_| true).quantile(0.99);
        let Some(now) = p99(case.within) else { continue };
        is_known = true;
        let was = p99(case.before).map_or_else(String::new, |was| format!(", {} ms before", significant(was * 1e3)));
        let text = format!(
            "{what} of etcd take {} ms (p99){was}; up to {} ms is well",
            significant(now * 1e3),
            significant(bound * 1e3)
        );
        draft.says(
            Source::Metrics,
            if now > 4.0 * bound {
                2.5
            } else if now > bound {
                1.0
            } else {
                -1.0
            },
            text,
        );
    }
    let changes = case.within.increase_of(Metric::EtcdLeaderChanges, Part::Whole, |_| true);
    if let Some(changes) = changes {
        is_known = true;
        if changes > 0.0 {
            draft.says(Source::Metrics, 2.0, format!("etcd's leader changed {changes:.0} times within the incident"));
        } else {
            draft.says(Source::Metrics, -0.5, "etcd's leader did not change");
        }
    }
    // Without etcd's own pages its callers tell, though they wait for themselves, too.
    let asked = |facts: &crate::analysis::metrics::facts::Facts| {
        facts.buckets_of(Metric::EtcdRequests, |_| true).quantile(0.99)
    };
    if let (Some(was), Some(now)) = (asked(case.before), asked(case.within))
        && !is_known
    {
        let text = format!(
            "requests of apiservers to etcd take {} ms (p99), {} ms before",
            significant(now * 1e3),
            significant(was * 1e3)
        );
        draft.says(Source::Metrics, if now > 3.0 * was && now > 0.1 { 1.5 } else { -0.5 }, text);
    }
    if draft.cause.supports.is_empty() && draft.cause.contradicts.is_empty() {
        draft.cause.missing.push("metrics of etcd itself: how long commits and writes to its log take".to_owned());
    }
    draft
        .cause
        .later
        .push(format!("give etcd a disk of its own; see how it does: plimsoll etcd health {}", case.sources));
    vec![draft]
}

/// A database near its quota.
pub(super) fn full(case: &Case<'_>) -> Vec<Draft> {
    let facts = case.known.facts;
    let largest = |metric: Metric| facts.of(metric).iter().filter_map(|fact| fact.last).max_by(f64::total_cmp);
    let mut draft = Draft::new("etcd-full", Vec::new(), "etcd's database was full, or nearly".to_owned());
    match largest(Metric::EtcdDbSize)
        .or_else(|| largest(Metric::StorageSize))
        .zip(largest(Metric::EtcdQuota).filter(|quota| *quota > 0.0))
    {
        Some((size, quota)) => {
            let share = size / quota;
            let text =
                format!("its database fills {} of its quota ({} of {})", percent(share), bytes(size), bytes(quota));
            draft.says(
                Source::Metrics,
                if share >= 0.95 {
                    4.0
                } else if share >= NEARLY_FULL {
                    1.0
                } else {
                    -2.0
                },
                text,
            );
        }
        None if case.read.contains(&Source::Metrics) || case.read.contains(&Source::Etcd) => {
            draft.cause.missing.push("etcd's quota: metrics of etcd itself tell it".to_owned());
        }
        None => return Vec::new(),
    }
    let found = case.known.answers.findings("etcd_health");
    for finding in found.filter(|finding| finding.id.contains("quota") && finding.severity >= Severity::Warning) {
        draft.says(Source::Metrics, 1.0, finding.summary.clone());
    }
    draft.cause.now.push(
        "compact, defragment one member after another, then disarm the alarm: etcdctl compact, etcdctl defrag, etcdctl alarm disarm"
            .to_owned(),
    );
    draft.cause.later.push(format!(
        "see what fills it: plimsoll etcd usage {}, plimsoll etcd history {}",
        case.sources, case.sources
    ));
    vec![draft]
}
