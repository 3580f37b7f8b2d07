//! Whether a group is full, and of what. (Thresholds and why: docs/commands/memory.md.)

use super::account::Account;
use super::rates::Rates;
use crate::model::memory::Sample;
use crate::model::units::{bytes, counted, percent, significant};

/// From here on a group is nearly full.
pub const FULL: f64 = 0.9;
/// Up to here, what can't be reclaimed leaves room.
pub const FIRM_LOW: f64 = 0.7;
/// From here on it leaves too little for the program's own pages.
pub const UNRECLAIMABLE_HIGH: f64 = 0.85;
/// Share of the cache that is read again each minute: at least this is thrashing.
pub const REFAULTS_HIGH: f64 = 0.1;
/// Less than this means that nobody misses what is given up.
pub const REFAULTS_LOW: f64 = 0.01;
/// Shares of time in which some tasks, or all, waited for memory.
pub const SOME_HIGH: f64 = 0.1;
/// The same for all tasks.
pub const FULL_HIGH: f64 = 0.01;
/// Below this, waiting is no sign of anything.
pub const FULL_LOW: f64 = 0.005;
/// What grows this fast meets its limit within minutes.
const SOON_S: f64 = 600.0;
/// A slope needs this much time to mean something.
const SLOPE_S: f64 = 30.0;

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Neither usage nor limit is known.
    Unknown,
    /// There is room.
    Healthy,
    /// Full, but of cache that nobody reads again.
    CacheFull,
    /// Full, and it can't be said that giving back cache costs nothing.
    NearLimit,
    /// What is read again and again does not fit.
    Thrashing,
    /// Full of memory that can't be given back.
    Anon,
}

impl Verdict {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::CacheFull => "cache-full-reclaimable",
            Self::NearLimit => "near-limit",
            Self::Thrashing => "cache-thrashing",
            Self::Anon => "anon-pressure",
        }
    }

    /// What it means for the next OOM.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Unknown => "the memory limit is unknown; give the machine's memory with --host-memory",
            Self::Healthy => "enough headroom",
            Self::CacheFull => "full of idle page cache: the kernel reclaims it when memory is needed",
            Self::NearLimit => "close to the limit; part of it is cache, but some of that may be in use",
            Self::Thrashing => "the working set of the page cache does not fit: reclaiming more would slow it down",
            Self::Anon => {
                "memory ran out, or what cannot be reclaimed of it is close to the limit: the next OOM kill would be \
                 caused by the program's own memory"
            }
        }
    }
}

/// A verdict and the numbers that led to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// How it is.
    pub verdict: Verdict,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
    /// The numbers, in words.
    pub reasons: Vec<String>,
    /// The numbers, by name.
    pub evidence: Vec<(&'static str, f64)>,
}

/// Pressure as shares of time: over the time between two samples, else the kernel's average over a minute.
fn pressure(sample: &Sample, rates: Option<&Rates>) -> (Option<f64>, Option<f64>) {
    let averages = sample.pressure.map(|psi| (psi.some.avg60 / 100.0, psi.full.map(|full| full.avg60 / 100.0)));
    let some = rates.and_then(|rates| rates.psi_some).or(averages.map(|(some, _)| some));
    let full = rates.and_then(|rates| rates.psi_full).or(averages.and_then(|(_, full)| full));
    (some, full)
}

/// Judges a sample, by what happened before it where that is known.
pub fn judge(sample: &Sample, account: &Account, rates: Option<&Rates>) -> Judged {
    let (some, full) = pressure(sample, rates);
    let refaults = rates.and_then(|rates| rates.refault_share);
    let hits = rates.and_then(|rates| rates.limit_hits);
    let kills = rates.and_then(|rates| rates.oom_kills).unwrap_or(0);
    let (fill, firm, dry) = (account.fill(), account.firm(), account.firm_without_dirty());
    let mut reasons = Vec::new();
    let mut evidence = Vec::new();
    if let (Some(fill), Some(usage), Some(limit)) = (fill, account.usage, account.limit) {
        reasons.push(format!(
            "usage is {} of the limit ({} of {})",
            percent(fill),
            bytes(usage as f64),
            bytes(limit as f64)
        ));
        evidence.push(("usage_share", fill));
    }
    if let (Some(firm), Some(unreclaimable)) = (firm, account.unreclaimable) {
        reasons.push(format!("without reclaimable cache it is {} ({})", percent(firm), bytes(unreclaimable as f64)));
        evidence.push(("unreclaimable_share", firm));
    }
    if let Some(refaults) = refaults {
        reasons.push(match refaults <= 1.0 {
            true => format!("{} of the cache refaults each minute", percent(refaults).replace("100%", "all")),
            false => format!("the cache refaults {} times over each minute", significant(refaults)),
        });
        evidence.push(("refault_share_per_min", refaults));
    }
    if let Some(some) = some {
        reasons.push(format!(
            "tasks stalled on memory {} of the time{}",
            percent(some),
            full.map(|full| format!(", all tasks {}", percent(full))).unwrap_or_default()
        ));
        evidence.push(("psi_some", some));
        evidence.extend(full.map(|full| ("psi_full", full)));
    }
    if let Some(hits) = hits.filter(|hits| *hits > 0) {
        reasons.push(format!("the limit was hit {}", counted(hits, "time")));
        evidence.push(("limit_hits", hits as f64));
    }
    if kills > 0 {
        reasons.push(format!(
            "{} killed",
            if kills == 1 { "1 process was".to_owned() } else { format!("{kills} processes were") }
        ));
        evidence.push(("oom_kills", kills as f64));
    }
    let slope =
        rates.filter(|rates| rates.seconds >= SLOPE_S).and_then(|rates| rates.firm_per_s).filter(|slope| *slope > 0.0);
    let left = account.limit.zip(account.unreclaimable).map(|(limit, firm)| limit as f64 - firm as f64);
    let soon = slope
        .zip(left)
        .map(|(slope, left)| left / slope)
        .filter(|seconds| *seconds <= SOON_S && firm.is_some_and(|firm| firm >= 0.5));
    if let Some(seconds) = soon {
        reasons.push(format!("unreclaimable memory grows, and reaches the limit in {} s", significant(seconds)));
        evidence.push(("seconds_to_limit", seconds));
    }
    // v1 has no pressure of a group: there the limit must have been met meanwhile.
    let waits = match some {
        Some(some) => some >= SOME_HIGH || full.is_some_and(|full| full >= FULL_HIGH),
        None => hits.is_some_and(|hits| hits > 0),
    };
    let verdict = if kills > 0 || dry.is_some_and(|dry| dry >= UNRECLAIMABLE_HIGH) || soon.is_some() {
        Verdict::Anon
    } else if refaults.is_some_and(|share| share >= REFAULTS_HIGH) && waits {
        Verdict::Thrashing
    } else if let (Some(fill), Some(firm)) = (fill, firm) {
        let idle = refaults.is_none_or(|share| share < REFAULTS_LOW) && full.is_none_or(|full| full < FULL_LOW);
        match fill >= FULL {
            true if firm <= FIRM_LOW && idle => Verdict::CacheFull,
            true => Verdict::NearLimit,
            false => Verdict::Healthy,
        }
    } else if fill.is_some_and(|fill| fill >= FULL) {
        Verdict::NearLimit
    } else if fill.is_some() {
        Verdict::Healthy
    } else {
        Verdict::Unknown
    };
    // Whatever its own limit leaves, a group above that is full leaves nothing.
    let crowded = account.crowded.as_ref().filter(|above| above.fill().is_some_and(|fill| fill >= FULL));
    let verdict = match verdict {
        Verdict::Healthy if crowded.is_some() => Verdict::NearLimit,
        other => other,
    };
    if let Some((above, fill)) = crowded.and_then(|above| Some((above, above.fill()?))) {
        reasons.push(format!(
            "{} above it is {} full ({} of {})",
            above.path,
            percent(fill),
            bytes(above.usage as f64),
            bytes(above.limit as f64)
        ));
        evidence.push(("usage_share_above", fill));
    }
    if verdict == Verdict::NearLimit && firm > dry {
        reasons.push(format!(
            "{} of cache is dirty",
            bytes((account.file_dirty.unwrap_or(0) + account.file_writeback.unwrap_or(0)) as f64)
        ));
    }
    let confidence = match (verdict, rates, refaults) {
        (Verdict::Unknown, ..) => 0.0,
        // Counted at one moment, and true of it.
        (Verdict::Anon, ..) if soon.is_none() => 0.95,
        (_, Some(rates), Some(_)) if rates.seconds >= 60.0 => 0.9,
        (_, Some(rates), Some(_)) if rates.seconds >= 10.0 => 0.8,
        (_, Some(_), Some(_)) => 0.7,
        // Without a second sample nobody knows whether the cache is read again.
        (Verdict::CacheFull, ..) => 0.5,
        _ => 0.6,
    };
    Judged { verdict, confidence, reasons, evidence }
}
