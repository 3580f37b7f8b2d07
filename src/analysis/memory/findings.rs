//! Verdicts as findings. (Thresholds: docs/findings.md.)

use super::verdict::Verdict;
use crate::analysis::memory::seen::Seen;
use crate::model::report::{Finding, Severity};
use crate::model::time::{self, Micros};

/// From here on, memory that can't be reclaimed leaves nothing.
const AT_LIMIT: f64 = 0.95;

/// What a verdict says about the group, if it asks for anything; `since` is when it was first so.
pub fn finding(seen: &Seen, since: Option<Micros>) -> Option<Finding> {
    let killed = seen.rates.as_ref().and_then(|rates| rates.oom_kills).is_some_and(|kills| kills > 0);
    let (id, severity, remedy) = match seen.judged.verdict {
        Verdict::Unknown | Verdict::Healthy => return None,
        Verdict::CacheFull => (
            "memory-cache-full",
            Severity::Info,
            "no action needed: alert on working set or on unreclaimable memory, not on usage; plimsoll memory \
             reclaim frees the cache",
        ),
        Verdict::NearLimit => (
            "memory-near-limit",
            Severity::Warning,
            "monitor it (plimsoll memory watch): if it stays high and unreclaimable memory grows, raise the limit or \
             analyse the heap",
        ),
        Verdict::Thrashing => (
            "memory-cache-thrashing",
            Severity::Warning,
            "raise the limit, or reduce repeated reads; do not reclaim: every reclaimed page is read from disk again",
        ),
        Verdict::Anon => (
            "memory-anon-pressure",
            if killed || seen.account.firm().is_some_and(|firm| firm >= AT_LIMIT) {
                Severity::Critical
            } else {
                Severity::Warning
            },
            "analyse the heap (plimsoll heap top on a profile) and the busiest clients (plimsoll traffic); raise the \
             limit until then. Reclaiming cache does not help",
        ),
    };
    let mut finding = Finding::new(id, severity, &[("cgroup", &seen.sample.path)]);
    finding.confidence = seen.judged.confidence;
    finding.last_seen = time::format(seen.sample.at);
    finding.first_seen = since.map_or_else(|| finding.last_seen.clone(), time::format);
    finding.summary =
        format!("{}: {}: {}", seen.sample.path, seen.judged.verdict.explain(), seen.judged.reasons.join("; "));
    finding.evidence =
        seen.judged.evidence.iter().map(|(name, value)| ((*name).to_owned(), serde_json::json!(value))).collect();
    remedy.clone_into(&mut finding.remedy);
    Some(finding)
}
