//! Verdicts as findings. (Thresholds: docs/findings.md.)

use super::verdict::Verdict;
use crate::analysis::memory::seen::Seen;
use crate::model::report::{Finding, Severity};
use crate::model::time::Micros;

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
    let evidence = seen.judged.evidence.iter().map(|(name, value)| ((*name).to_owned(), serde_json::json!(value)));
    let (path, judged) = (&seen.sample.path, &seen.judged);
    let finding = Finding::new(id, severity, &[("cgroup", path)])
        .confidence(judged.confidence)
        .seen((since.unwrap_or(seen.sample.at), seen.sample.at))
        .summary(format!("{path}: {}: {}", judged.verdict.explain(), judged.reasons.join("; ")))
        .evidence(evidence.collect())
        .remedy(remedy);
    Some(finding)
}
